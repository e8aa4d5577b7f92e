//! What multiprocessors have read of code and of constants, and may read again without a look at memory.
//!
//! Nothing is ever thrown out: a cache that could hold it does. Who changes what was read has to say so.
//! Code is compared up to the first exit, which is the part that surely is the program's.

use std::collections::HashMap;
use std::sync::Arc;

use twin::rule::{Proof, Rule};
use twin_sass::warp::Program;
use twin_sass::{Chip, Kind, decode};

use super::super::error::Result;
use super::super::port::Port;

static CODE: Rule = Rule {
    name: "COMPUTE-CODE-STALE",
    text: "instruction caches are invalidated (INVALIDATE_SHADER_CACHES, its form without a wait, or the QMD) after code that has run was overwritten",
    source: "open-gpu-doc, classes/compute/clc7c0.h, INVALIDATE_SHADER_CACHES_INSTRUCTION; tinygrad, ops_nv.py, memory_barrier",
    proof: Proof::Sourced,
};

static CONSTANT: Rule = Rule {
    name: "COMPUTE-CONSTANT-STALE",
    text: "constant caches are invalidated (INVALIDATE_SHADER_CACHES, its form without a wait, or the QMD) after a bank that was read has changed",
    source: "open-gpu-doc, classes/compute/clc7c0.h, INVALIDATE_SHADER_CACHES_CONSTANT; clc7c0qmd.h, CONSTANT_BUFFER_INVALIDATE",
    proof: Proof::Sourced,
};

/// Bytes of an instruction.
const BYTES: usize = 16;
/// No program is longer.
const LONGEST: usize = 1 << 20;
/// After so many words of zeros, nothing comes any more.
const GAP: usize = 16;

/// A program that was read.
#[derive(Debug)]
pub(crate) struct Code {
    bytes: Vec<u8>,
    /// Bytes up to the first exit.
    sure: usize,
    pub program: Program,
}

/// Where something is: the address space, and the address in it.
type Place = (u64, u64);

/// The caches of a GPU.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    /// With whether it may be used without a look.
    code: HashMap<Place, (Arc<Code>, bool)>,
    constants: HashMap<Place, Arc<[u8]>>,
}

/// So many banks are remembered; then all are forgotten.
const BANKS: usize = 4096;

impl Caches {
    pub fn invalidate_code(&mut self) {
        for (_, trusted) in self.code.values_mut() {
            *trusted = false;
        }
    }

    pub fn invalidate_constants(&mut self) {
        self.constants.clear();
    }

    /// The program at an address, as the multiprocessors see it.
    pub fn code(&mut self, port: &Port, space: u64, va: u64, chip: Chip) -> Result<Arc<Code>> {
        let bytes = fetch(port, va)?;
        let place = (space, va);
        if let Some((code, trusted)) = self.code.get_mut(&place) {
            let sure = code.sure;
            if *trusted && bytes.get(..sure) != Some(&code.bytes[..sure]) {
                port.broken(&CODE, format!("program at {va:#x}"));
                return Ok(code.clone());
            }
            if code.bytes == bytes {
                *trusted = true;
                return Ok(code.clone());
            }
        }
        let code = Arc::new(Code::new(bytes, chip));
        self.code.insert(place, (code.clone(), true));
        Ok(code)
    }

    /// A constant bank: as much of it as is mapped.
    pub fn constants(
        &mut self,
        port: &Port,
        space: u64,
        va: u64,
        bytes: u64,
        invalidate: bool,
    ) -> Result<Arc<[u8]>> {
        let place = (space, va);
        if invalidate || self.constants.len() > BANKS {
            self.constants.remove(&place);
        }
        let now = mapped(port, "a constant bank", va, bytes as usize)?;
        if let Some(old) = self.constants.get(&place) {
            let both = old.len().min(now.len());
            if old[..both] != now[..both] {
                port.broken(&CONSTANT, format!("{bytes:#x} bytes at {va:#x}"));
                return Ok(old.clone());
            }
        }
        if self.constants.len() > BANKS {
            self.constants.clear();
        }
        let now: Arc<[u8]> = now.into();
        self.constants.insert(place, now.clone());
        Ok(now)
    }
}

/// Reads page by page up to a number of bytes, or to the first page that is not there. The first one is.
fn mapped(port: &Port, doing: &str, va: u64, bytes: usize) -> Result<Vec<u8>> {
    const PAGE: u64 = 4096;
    let mut all = Vec::new();
    while all.len() < bytes {
        let at = va + all.len() as u64;
        let piece = (PAGE - at % PAGE).min((bytes - all.len()) as u64) as usize;
        let old = all.len();
        all.resize(old + piece, 0);
        match port.bus.read(at, &mut all[old..]) {
            Ok(()) => {}
            Err(fault) if old == 0 => return Err(port.mmu(doing, fault)),
            Err(_) => {
                all.truncate(old);
                break;
            }
        }
    }
    Ok(all)
}

/// Reads a program: to where nothing is mapped, or nothing but zeros is.
fn fetch(port: &Port, va: u64) -> Result<Vec<u8>> {
    let mut bytes = mapped(port, "instructions", va, 4096)?;
    loop {
        let zeros = bytes.iter().rev().take_while(|byte| **byte == 0).count();
        if zeros >= GAP * BYTES || bytes.len() >= LONGEST {
            let words = (bytes.len() - zeros).div_ceil(BYTES);
            bytes.truncate(words * BYTES);
            return Ok(bytes);
        }
        let more = mapped_more(port, va + bytes.len() as u64, 4096);
        if more.is_empty() {
            bytes.truncate(bytes.len() / BYTES * BYTES);
            return Ok(bytes);
        }
        bytes.extend(more);
    }
}

/// What follows, if it is there.
fn mapped_more(port: &Port, va: u64, bytes: usize) -> Vec<u8> {
    let mut piece = vec![0; bytes];
    match port.bus.read(va, &mut piece) {
        Ok(()) => piece,
        Err(_) => Vec::new(),
    }
}

impl Code {
    fn new(bytes: Vec<u8>, chip: Chip) -> Self {
        let (words, _) = bytes.as_chunks::<BYTES>();
        let words: Vec<u128> = words
            .iter()
            .map(|word| u128::from_le_bytes(*word))
            .collect();
        let exit = words.iter().position(|&word| {
            decode(chip, word).is_ok_and(|inst| {
                let always = matches!(inst.guard.kind, Kind::Predicate(7));
                inst.name == "EXIT" && always && !inst.guard.sign.inverted
            })
        });
        Self {
            program: Program::new(chip, &words),
            sure: exit.map_or(words.len(), |last| last + 1) * BYTES,
            bytes,
        }
    }
}
