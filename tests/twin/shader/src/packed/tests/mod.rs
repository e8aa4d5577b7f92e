//! What instructions do, against what the documents say.

mod dual;
mod lanes;
mod matrices;
mod speed;

use std::cell::Cell;

use super::vop3p::Vop3p;
use crate::counters::Counters;
use crate::isa::{self, Gen};
use crate::page::{Access, Bus, FaultKind, MemFault, Memory, Page, Port};
use crate::step::{Flow, Stop};
use crate::turns::{Seat, Turns};
use crate::wave::{Place, Wave};

struct Nothing;

impl Memory for Nothing {
    fn page(&self, port: Port, va: u64, access: Access) -> Result<Page, MemFault> {
        let kind = FaultKind::NotPresent;
        Err(MemFault {
            va,
            access,
            port,
            kind,
        })
    }
}

/// Runs the instruction at the start of `words` between what `before` and `after` do.
fn run_in<S, T>(
    generation: Gen,
    halves: usize,
    words: &[u32],
    before: impl FnOnce(&mut Wave) -> S,
    after: impl FnOnce(&Wave, S) -> T,
) -> Result<T, Stop> {
    let phases = Cell::new(0);
    let turns = Turns::new(1, 1, 0);
    let mut wave = Wave {
        generation,
        pc: 0,
        next: 8,
        s: [0; 128],
        m0: 0,
        exec: u64::MAX >> (64 - 32 * halves),
        scc: false,
        mode: 0x3f0,
        v: vec![[0; 32]; 512 * halves],
        vgprs: 256,
        halves,
        lds: &[],
        bus: Bus::new(&Nothing),
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
    let state = before(&mut wave);
    let inst = isa::decode(generation, words).unwrap().inst;
    let flow = (inst.lower(halves).run)(&mut wave)?;
    assert_eq!(flow, Flow::Next, "{inst}");
    Ok(after(&wave, state))
}

/// The same of an instruction that breaks no rule.
fn run<S, T>(
    generation: Gen,
    halves: usize,
    words: &[u32],
    before: impl FnOnce(&mut Wave) -> S,
    after: impl FnOnce(&Wave, S) -> T,
) -> T {
    run_in(generation, halves, words, before, after).unwrap()
}

/// A VOP3P instruction: the destination is v0, the sources are these codes; `modifiers` are those of
/// both words that are not zero, or for `op_sel_hi` not one.
fn vop3p(generation: Gen, op: u8, sources: [u32; 3], modifiers: [u32; 2]) -> Vec<u32> {
    let cdna = generation == Gen::Cdna3;
    let prefix = if cdna { 0x1a7 } else { 0x198 };
    let [a, b, c] = sources;
    let mut words = vec![
        prefix << 23 | u32::from(op) << 16 | 0x4000,
        a | b << 9 | c << 18 | 3 << 27,
    ];
    for (word, modifiers) in words.iter_mut().zip(modifiers) {
        *word ^= modifiers;
    }
    words
}

/// The same by mnemonic.
fn by_name(generation: Gen, name: &str, sources: [u32; 3], modifiers: [u32; 2]) -> Vec<u32> {
    let row = super::table::ROWS
        .iter()
        .find(|row| row.name == name && row.op[generation.column()].is_some())
        .unwrap();
    let op = row.op[generation.column()].unwrap();
    let words = vop3p(generation, op, sources, modifiers);
    // Some room for a literal or a DPP control.
    let room = [&words[..], &[0]].concat();
    let (inst, _) = Vop3p::decode(generation, &room).unwrap();
    assert!(inst.to_string().starts_with(name));
    words
}

/// Random numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(0xd134_2543_de82_ef95)
            .wrapping_add(0x1357);
        (self.0 >> 32) as u32
    }

    /// From `-n` to `n`.
    fn small(&mut self, n: i32) -> i32 {
        (self.bits() % (2 * n as u32 + 1)) as i32 - n
    }
}
