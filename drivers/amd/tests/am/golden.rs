//! Our boot beside recorded ones of another driver: each write to a register, each command of the PSP. Where they
//! differ, `am_boot-differences.txt` says why.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use drivers_amd::Language;
use drivers_amd::am::boot::{self as start, Options};
use drivers_amd::am::card::Card;
use drivers_amd::am::hub::Kind;
use drivers_amd::backend::QueueRequest;
use drivers_gpu::bare::Mmu as _;
use firmware_tools::search::Search;
use hcq::DeviceId;
use hcq::transport::{Clock, Machine, PerProcess, VirtualClock};
use twin_amd::pci::chip::Chip;

use super::boot::firmware;
use super::mock::{Alone, Bus, Mock, Told};

/// Parts of the recordings: up to power management.
const BOOT: [&str; 8] = [
    "open",
    "soc.init_hw",
    "gmc.init_hw",
    "ih.init_hw",
    "psp.init_hw",
    "smu.init_hw",
    "smu.set_clocks",
    "soc.set_clockgating_state",
];

/// Parts of the recordings: engines, and a queue of each kind from its start to its end.
const QUEUES: [&str; 7] = [
    "gfx.init_hw",
    "sdma.init_hw",
    "gfx.set_clockgating_state",
    "gfx.setup_ring",
    "sdma.setup_ring",
    "fini sdma.fini_hw",
    "fini gfx.fini_hw",
];

/// Parts of the recording of a warm start: all of it.
const WARM: [&str; 12] = [
    "open",
    "gfx.init_hw",
    "sdma.init_hw",
    "smu.set_clocks",
    "soc.set_clockgating_state",
    "gfx.set_clockgating_state",
    "gfx.setup_ring",
    "sdma.setup_ring",
    "fini",
    "fini sdma.fini_hw",
    "fini gfx.fini_hw",
    "fini smu.set_clocks",
];

/// Slots for queues that a copy engine has, and dwords from one to the next: mmio names the first.
const SLOTS: u64 = 8;
const SLOT: u64 = 0x58;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What a recording has, with the names that it has for registers.
fn recorded(chip: &str, parts: &[&str], names: &mut BTreeMap<u64, String>) -> Vec<Told> {
    let file = root().join(format!("tests/golden/amd/am_boot_{chip}.txt"));
    let text = std::fs::read_to_string(file).unwrap();
    let hex = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap();
    let mut told = Vec::new();
    let mut is_compared = false;
    for line in text.lines() {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["phase", ref part @ ..] => is_compared = parts.contains(&part.join(" ").as_str()),
            ["w", name, dword, value] => {
                names.insert(hex(dword), name.to_owned());
                if is_compared {
                    told.push(Told::Write(hex(dword), hex(value) as u32));
                }
            }
            ["config", at, bytes, value] if is_compared => {
                let bytes = bytes.parse().unwrap();
                told.push(Told::Config(hex(at) as u16, bytes, hex(value) as u32));
            }
            ["psp", _, bytes] if is_compared => told.push(Told::Psp(bytes.to_owned())),
            _ => {}
        }
    }
    told
}

/// Lines that only one has, each once: what the other has in their place is beside it.
fn differences(theirs: &[String], ours: &[String]) -> Vec<String> {
    let (n, m) = (theirs.len(), ours.len());
    let mut common = vec![vec![0u32; m + 1]; n + 1];
    for i in (0..n).rev() {
        for j in (0..m).rev() {
            common[i][j] = match theirs[i] == ours[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::new();
    let mut add = |line: String| {
        if !lines.contains(&line) {
            lines.push(line);
        }
    };
    while i < n || j < m {
        if i < n && j < m && theirs[i] == ours[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == m || i < n && common[i + 1][j] >= common[i][j + 1] {
            add(format!("- {}", theirs[i]));
            i += 1;
        } else {
            add(format!("+ {}", ours[j]));
            j += 1;
        }
    }
    lines
}

fn lines(told: &[Told], names: &BTreeMap<u64, String>, mock: &Mock) -> Vec<String> {
    let line = |told: &Told| match told {
        Told::Config(at, bytes, value) => format!("config {at:#x} {bytes} {value:#x}"),
        Told::Write(dword, value) => {
            let known = |dword| names.get(&dword).map_or(mock.name(dword), String::as_str);
            let mut slots = (1..SLOTS).map(|slot| known(dword.wrapping_sub(slot * SLOT)));
            let first = slots.find(|name| name.starts_with("SDMA0_QUEUE0"));
            match (known(*dword), first) {
                ("?", Some(first)) => {
                    let name = first.replace("QUEUE0", "QUEUEn");
                    format!("w {name} {value:#x}")
                }
                // Of the recordings' names some are missing, too.
                ("?", None) => format!("w {dword:#x} {value:#x}"),
                (name, _) => format!("w {name} {value:#x}"),
            }
        }
        Told::Psp(bytes) => format!("psp {bytes}"),
    };
    told.iter().map(line).collect()
}

fn boot(chip: &str) -> Vec<String> {
    let mock = Mock::new(Chip::of(chip).unwrap());
    let card = Card::open(
        DeviceId::new("AMD", 0),
        Arc::new(Bus(mock.clone())),
        Arc::new(VirtualClock::new()),
    );
    let options = Options {
        firmware: Search::only([firmware()]),
        reset: false,
    };
    mock.told();
    let started =
        start::start(Arc::new(card.unwrap()), &options).unwrap_or_else(|error| panic!("{error}"));
    assert!(!started.is_warm());
    started.running().unwrap();
    let ours = mock.told();

    let mut names = BTreeMap::new();
    let theirs = recorded(chip, &BOOT, &mut names);
    let text = |told: &[Told]| lines(told, &names, &mock);
    // Page tables of both hubs, once they run.
    started.hubs().start(Kind::Gc).unwrap();
    started.hubs().invalidate().unwrap();
    assert_eq!(started.hubs().faults().unwrap(), []);
    differences(&text(&theirs), &text(&ours))
}

/// Compares recordings with what is there; each difference has to be explained in a file.
fn explained(file: &str, chips: &[&str], of: impl Fn(&str) -> Vec<String>) {
    let mut found = Vec::new();
    for &chip in chips {
        for line in of(chip) {
            let same = found
                .iter_mut()
                .find(|pair: &&mut (String, String)| pair.1 == line);
            match same {
                Some(pair) => pair.0 = format!("{} {chip}", pair.0),
                None => found.push((chip.to_owned(), line)),
            }
        }
    }
    let found: Vec<_> = found
        .iter()
        .map(|(chips, line)| format!(" {chips} | {line}"))
        .collect();
    let file = root().join("tests/golden/amd").join(file);
    let explained = std::fs::read_to_string(file).unwrap();
    let explained: Vec<_> = explained
        .lines()
        .filter(|line| line.starts_with(' '))
        .collect();
    let new: Vec<_> = found
        .iter()
        .filter(|line| !explained.contains(&line.as_str()))
        .collect();
    let gone: Vec<_> = explained
        .iter()
        .filter(|line| !found.iter().any(|l| l == *line))
        .collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "not explained:\n{}\nexplained, and not there:\n{}",
        new.iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
        gone.iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
    );
}

#[test]
fn the_boot_is_the_recorded_one_but_for_what_is_explained() {
    explained("am_boot-differences.txt", &["gfx1100", "gfx1201"], boot);
}

/// Whether a line is about engines: hubs of graphics, processors, queues, and the way of doorbells to them.
fn is_of_engines(line: &str) -> bool {
    let of = [
        "GC", "GRBM", "CP_", "RLC", "TCP", "SH_MEM", "SPI", "SDMA", "S2A",
    ];
    let name = line.strip_prefix("w ").unwrap_or("");
    of.iter().any(|of| name.starts_with(of))
}

/// A process that opens the card, has a queue of each kind, and leaves it in order.
fn process(mock: &Arc<Mock>) {
    let machine: Arc<dyn Machine> = Arc::new(Alone {
        card: mock.clone(),
        kept: PerProcess::new(),
    });
    let options = drivers_amd::Options {
        firmware: vec![firmware()],
        ..drivers_amd::Options::default()
    };
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
    let card = drivers_amd::am::open(&machine, "mock", 0, &clock, &options);
    let card = card.unwrap_or_else(|error| panic!("{error}"));
    let queue = |language, ring_bytes, name| {
        let request = QueueRequest {
            language,
            ring_bytes,
            name,
        };
        card.queue(&request).unwrap()
    };
    // As large as those of the recordings.
    let compute = queue(Language::Pm4, 16 << 20, "compute");
    let copy = queue(Language::Sdma, 16 << 20, "copy");
    drop((copy, compute, card));
}

fn queues(chip: &str) -> Vec<String> {
    let mock = Mock::new(Chip::of(chip).unwrap());
    process(&mock);
    let mut names = BTreeMap::new();
    let theirs = recorded(chip, &QUEUES, &mut names);
    // What is about nothing else is in the other comparison.
    let mut ours = lines(&mock.told(), &names, &mock);
    let mut theirs = lines(&theirs, &names, &mock);
    ours.retain(|line| is_of_engines(line));
    theirs.retain(|line| is_of_engines(line));
    differences(&theirs, &ours)
}

#[test]
fn queues_are_the_recorded_ones_but_for_what_is_explained() {
    explained("am_queues-differences.txt", &["gfx1100", "gfx1201"], queues);
}

/// The second process: it finds the card as the first has left it.
fn warm(chip: &str) -> Vec<String> {
    let mock = Mock::new(Chip::of(chip).unwrap());
    process(&mock);
    mock.told();
    process(&mock);
    let ours = mock.told();
    let mut names = BTreeMap::new();
    let theirs = recorded(&format!("{chip}_warm"), &WARM, &mut names);
    let text = |told: &[Told]| lines(told, &names, &mock);
    differences(&text(&theirs), &text(&ours))
}

#[test]
fn a_warm_start_is_the_recorded_one_but_for_what_is_explained() {
    explained("am_warm-differences.txt", &["gfx1201"], warm);
}
