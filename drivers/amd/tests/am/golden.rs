//! Our boot beside recorded ones of another driver: each write to a register, each command of the PSP. Where they
//! differ, `am_boot-differences.txt` says why.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use drivers_amd::am::boot::{self as start, Options};
use drivers_amd::am::card::Card;
use drivers_amd::am::hub::Kind;
use firmware_tools::search::Search;
use hcq::DeviceId;
use hcq::transport::VirtualClock;
use twin_amd::pci::chip::Chip;

use super::boot::firmware;
use super::mock::{Bus, Mock, Told};

/// Parts of the recordings that are compared.
const PARTS: [&str; 8] = [
    "open",
    "soc.init_hw",
    "gmc.init_hw",
    "ih.init_hw",
    "psp.init_hw",
    "smu.init_hw",
    "smu.set_clocks",
    "soc.set_clockgating_state",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What a recording has, with the names that it has for registers.
fn recorded(chip: &str, names: &mut BTreeMap<u64, String>) -> Vec<Told> {
    let file = root().join(format!("tests/golden/amd/am_boot_{chip}.txt"));
    let text = std::fs::read_to_string(file).unwrap();
    let hex = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap();
    let mut told = Vec::new();
    let mut is_compared = false;
    for line in text.lines() {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["phase", ref part @ ..] => is_compared = PARTS.contains(&part.join(" ").as_str()),
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
    let theirs = recorded(chip, &mut names);
    let text = |told: &[Told]| -> Vec<String> {
        let line = |told: &Told| match told {
            Told::Config(at, bytes, value) => format!("config {at:#x} {bytes} {value:#x}"),
            Told::Write(dword, value) => {
                let name = names.get(dword).map_or(mock.name(*dword), String::as_str);
                format!("w {name} {value:#x}")
            }
            Told::Psp(bytes) => format!("psp {bytes}"),
        };
        told.iter().map(line).collect()
    };
    // Page tables of both hubs, once they run.
    started.hubs().start(Kind::Gc).unwrap();
    started.hubs().invalidate().unwrap();
    assert_eq!(started.hubs().faults().unwrap(), []);
    differences(&text(&theirs), &text(&ours))
}

#[test]
fn the_boot_is_the_recorded_one_but_for_what_is_explained() {
    let mut found = Vec::new();
    for chip in ["gfx1100", "gfx1201"] {
        for line in boot(chip) {
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
    let file = root().join("tests/golden/amd/am_boot-differences.txt");
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
