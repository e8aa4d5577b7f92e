//! Instructions of the twin against an independent emulator.
//!
//! `tests/golden/isa` holds what tinygrad's emulator makes of random instructions, `README.md` there
//! the format, `disagreements.txt` each disagreement in which the twin is right, and why.
//! `TWIN_PEER=v_add*` shows each difference of these mnemonics, known ones too.

#![allow(clippy::unwrap_used)] // A test may panic.

mod state;
mod vector;

use std::cell::{Cell, UnsafeCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use state::{CODE, LDS_DWORDS, MEM, MEM_DWORDS, SEEDS, State};
use twin_shader::counters::Counters;
use twin_shader::isa::{self, Gen};
use twin_shader::page::{Access, Bus, FaultKind, MemFault, Memory, PAGE, Page, Port};
use twin_shader::step::{Flow, Stop};
use twin_shader::turns::{Seat, Turns};
use twin_shader::wave::{Lanes, Place, Wave};
use vector::{Difference, Outcome, Slack, Vector, differences};

#[repr(align(4096))]
struct Ram(UnsafeCell<[u8; MEM_DWORDS * 4]>);

// SAFETY: a test is one thread.
unsafe impl Sync for Ram {}

impl Ram {
    fn new(words: &[u32]) -> Box<Self> {
        let mut bytes = [0; MEM_DWORDS * 4];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        Box::new(Self(UnsafeCell::new(bytes)))
    }

    fn words(self) -> Vec<u32> {
        let bytes = self.0.into_inner();
        bytes
            .chunks_exact(4)
            .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    }
}

impl Memory for Ram {
    fn page(&self, port: Port, va: u64, access: Access) -> Result<Page, MemFault> {
        let offset = va.wrapping_sub(MEM);
        if offset >= 4 * MEM_DWORDS as u64 {
            let kind = FaultKind::NotPresent;
            return Err(MemFault {
                va,
                access,
                port,
                kind,
            });
        }
        debug_assert_eq!(va % PAGE, 0);
        // SAFETY: `offset` is a page inside of the array, which is aligned, outlives the wave and is
        // read only after it, by value.
        Ok(unsafe { Page::new(self.0.get().cast::<u8>().add(offset as usize), None) })
    }
}

/// What the twin makes of a vector, or why it does not run.
fn run(generation: Gen, state: &State, vector: &Vector, lanes: usize) -> Result<Outcome, String> {
    let decoded = isa::decode(generation, &vector.words).ok_or("is not decoded")?;
    if decoded.words != vector.words.len() {
        return Err(format!("is decoded as {} words", decoded.words));
    }
    let halves = lanes / 32;
    let step = decoded.inst.lower(halves);
    let ram = Ram::new(&state.mem);
    let lds: Vec<Cell<u32>> = state.lds.iter().copied().map(Cell::new).collect();
    let phases = Cell::new(0);
    let turns = Turns::new(1, 1, 0);
    let ieee = if generation == Gen::Rdna4 { 0 } else { 0x300 };
    let to_lanes = |chunk: &[u32]| -> Lanes { chunk.try_into().unwrap() };
    let mut wave = Wave {
        generation,
        pc: CODE,
        next: CODE + 4 * vector.words.len() as u64,
        s: state.s,
        m0: state.m0,
        exec: state.exec,
        scc: state.scc,
        mode: ieee | if vector.flush { 0 } else { 0xf0 },
        v: state.v.chunks_exact(32).map(to_lanes).collect(),
        vgprs: state.v.len() / lanes,
        halves,
        lds: &lds,
        bus: Bus::new(&*ram),
        counters: Counters::new(generation),
        place: Place::default(),
        seat: Seat::new(&turns, 0, None),
        signalled: 0,
        phases: &phases,
        arrived: None,
        messages: vec![],
        handler: None,
        trap: None,
        halted: false,
    };
    let flow = (step.run)(&mut wave).map_err(|stop| match stop {
        Stop::Rule(rule, what) => format!("breaks {}: {what}", rule.name),
        other => format!("stops: {other:?}"),
    })?;
    let pc = match flow {
        Flow::Next => wave.next,
        Flow::Jump(to) => to,
        other => return Err(format!("goes on by {other:?}")),
    };
    let mut s = wave.s;
    s[126] = wave.exec as u32;
    s[127] = (wave.exec >> 32) as u32;
    s[vector::m0(generation)] = wave.m0;
    let (scc, v) = (wave.scc, wave.v.concat());
    drop(wave);
    Ok(Outcome {
        s,
        scc,
        pc,
        v,
        lds: lds.iter().map(Cell::get).collect(),
        mem: ram.words(),
    })
}

/// A disagreement in which the twin is right: `chips mnemonic condition rule : reason`.
struct Known {
    chips: String,
    mnemonic: String,
    condition: String,
    /// What may differ.
    slack: Slack,
    line: String,
}

impl Known {
    fn all() -> Vec<Self> {
        let text = fs::read_to_string(folder().join("disagreements.txt")).unwrap();
        text.lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(|line| {
                let (rule, _) = line.split_once(" : ").expect(line);
                let parts: Vec<&str> = rule.split_whitespace().collect();
                let [chips, mnemonic, condition, slack] = parts[..] else {
                    panic!("{line}");
                };
                Self {
                    chips: chips.into(),
                    mnemonic: mnemonic.into(),
                    condition: condition.into(),
                    slack: Slack::parse(slack),
                    line: line.into(),
                }
            })
            .collect()
    }

    fn covers(&self, chip: &str, vector: &Vector) -> bool {
        (self.chips == "*" || self.chips.split(',').any(|c| c == chip))
            && self.mnemonic.split(',').any(|m| glob(m, vector.plain()))
            && match self.condition.as_str() {
                "always" => true,
                "flush" => vector.flush,
                "partial" => matches!(vector.seed % 4, 1..4),
                text => vector.text.contains(text),
            }
    }
}

/// `*` stands for anything.
fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => text.strip_prefix(head).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.is_char_boundary(at) && glob(tail, &rest[at..]))
        }),
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden/isa")
}

/// The inputs of the instruction in the lane of the first difference.
fn inputs(
    generation: Gen,
    state: &State,
    vector: &Vector,
    lanes: usize,
    first: &Difference,
) -> String {
    let lane = first.0.rsplit_once("lane ").map_or(0, |(_, lane)| {
        lane.parse::<usize>().expect("a lane is a number")
    });
    let s = vector::initial(generation, state);
    let mut out = vec![];
    for token in vector
        .text
        .split([' ', ',', '|', '-', '(', ')'])
        .filter(|t| !t.is_empty())
    {
        let Some((file, at)) = token.split_at_checked(1) else {
            continue;
        };
        let at = at.trim_start_matches('[').trim_end_matches(".l");
        let first = at
            .split([':', ']', '.'])
            .next()
            .and_then(|n| n.parse::<usize>().ok());
        let last = at
            .split_once(':')
            .and_then(|(_, n)| n.trim_end_matches(']').parse::<usize>().ok());
        let Some(first) = first else { continue };
        let values: Vec<String> = (first..=last.unwrap_or(first).min(first + 3))
            .filter_map(|r| match file {
                "v" => state.v.get(r * lanes + lane),
                "a" => state.v.get((r + 256) * lanes + lane),
                "s" => s.get(r),
                _ => None,
            })
            .map(|v| format!("{v:08x}"))
            .collect();
        if !values.is_empty() {
            out.push(format!("{token}={}", values.join("_")));
        }
    }
    if vector.plain().contains("vcc")
        || vector.text.contains("vcc")
        || vector.plain().contains("cndmask")
    {
        out.push(format!("vcc={:x}_{:x}", s[107], s[106]));
    }
    format!(
        "{}; scc={} exec={:x}{}",
        out.join(" "),
        u8::from(state.scc),
        state.exec,
        if vector.flush { " flush" } else { "" }
    )
}

/// The known disagreements that occur; `usize::MAX` where others do.
fn compare(known: &[Known], generation: Gen, mnemonics: usize) -> BTreeSet<usize> {
    let chip = generation.processor();
    let lanes = if generation == Gen::Cdna3 { 64 } else { 32 };
    let states: Vec<State> = (0..SEEDS).map(|seed| State::new(seed, lanes)).collect();
    let shown = std::env::var("TWIN_PEER").ok();
    let file = fs::read_to_string(folder().join(format!("{chip}.txt"))).unwrap();
    let mut used = BTreeSet::<usize>::new();
    let (mut names, mut groups) = (BTreeSet::new(), BTreeMap::<String, Vec<String>>::new());
    for vector in file
        .lines()
        .filter(|l| !l.starts_with('#'))
        .map(Vector::parse)
    {
        if shown.as_ref().is_some_and(|p| !glob(p, vector.plain())) {
            continue;
        }
        names.insert(vector.plain().to_string());
        let state = &states[vector.seed as usize];
        let covering: Vec<usize> = match &shown {
            Some(_) => vec![],
            None => (0..known.len())
                .filter(|&i| known[i].covers(chip, &vector))
                .collect(),
        };
        let report = match run(generation, state, &vector, lanes) {
            Err(why) => Some(why),
            Ok(twin) => {
                let peer = vector.expected(generation, state, lanes);
                let differ = |without: Option<usize>| {
                    let rules = covering.iter().filter(|&&i| Some(i) != without);
                    let slack = rules.fold(Slack::default(), |sum, &i| sum.or(&known[i].slack));
                    differences(&vector, state, lanes, &slack, &twin, &peer)
                };
                let all = differ(None);
                used.extend(covering.iter().filter(|&&i| !differ(Some(i)).is_empty()));
                match &all[..] {
                    [] => None,
                    [first, ..] => Some(format!(
                        "{} places: {}\n      {}",
                        all.len(),
                        all.iter()
                            .take(4)
                            .map(|(place, what)| format!("{place}: {what}"))
                            .collect::<Vec<_>>()
                            .join("; "),
                        inputs(generation, state, &vector, lanes, first)
                    )),
                }
            }
        };
        if let Some(report) = report {
            groups
                .entry(vector.plain().into())
                .or_default()
                .push(format!("{}: {report}", vector.text));
        }
    }
    let some = if shown.is_some() { usize::MAX } else { 2 };
    for (name, reports) in &groups {
        println!("{chip} {name}: {} vectors (twin, peer)", reports.len());
        for report in reports.iter().take(some) {
            println!("    {report}");
        }
    }
    if shown.is_some() {
        return used;
    }
    assert!(
        names.len() >= mnemonics,
        "{} mnemonics have vectors",
        names.len()
    );
    println!(
        "{chip}: {} of {} mnemonics differ",
        groups.len(),
        names.len()
    );
    used.extend((!groups.is_empty()).then_some(usize::MAX));
    used
}

#[test]
fn instructions_do_what_the_peer_computes() {
    let known = Known::all();
    let chips = [(Gen::Rdna3, 300), (Gen::Rdna4, 150), (Gen::Cdna3, 100)];
    let used: BTreeSet<usize> = chips
        .into_iter()
        .flat_map(|(generation, mnemonics)| compare(&known, generation, mnemonics))
        .collect();
    for (i, known) in known.iter().enumerate() {
        if !used.contains(&i) {
            println!("no disagreement is left: {}", known.line);
        }
    }
    assert!(used.into_iter().eq(0..known.len()), "see above");
}

#[test]
fn state_is_what_the_script_makes() {
    let state = State::new(1, 32);
    assert_eq!(LDS_DWORDS, state.lds.len());
    assert_eq!(state.s[72], (MEM + 0x2000) as u32);
}
