//! Decoded code: the instruction cache.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, RwLock};

use hcq::sync::unpoisoned;
use smallvec::SmallVec;
use twin::rule::{Proof, Rule};

use crate::counters::{Counter, Mask};
use crate::isa::{self, Gen};
use crate::page::{Bus, MemFault, PAGE, Port};
use crate::step::{File, Regs, Run, Step, Stop};

/// What cannot be decoded cannot be run.
pub static ISA_INVALID: Rule = Rule {
    name: "ISA-INVALID",
    text: "a wave executes instructions that its chip supports",
    source: "the ISA document of the generation; LLVM 22's disassembler",
    proof: Proof::Sourced,
};

/// The longest instruction in dwords.
const LONGEST: usize = 5;

/// How many VGPRs, accumulation registers and scalar registers a wave has or an instruction needs:
/// fields of 20 bits, the highest of each left free for a comparison of all in one subtraction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds(u64);

impl Bounds {
    const GUARD: u64 = 1 << 19 | 1 << 39 | 1 << 59;

    /// So many registers.
    pub fn new(vgprs: usize, accs: usize, sgprs: usize) -> Self {
        Self(vgprs as u64 | (accs as u64) << 20 | (sgprs as u64) << 40)
    }

    /// What these registers need. Scalar operands from 102 on are always there: VCC and others, and
    /// in CDNA FLAT_SCRATCH and XNACK_MASK.
    pub fn of(touches: &[Regs]) -> Self {
        let (mut v, mut a, mut s) = (0, 0, 0);
        for regs in touches {
            let end = usize::from(regs.first) + usize::from(regs.count);
            match regs.file {
                File::V if regs.first >= 256 => a = a.max(end - 256),
                File::V => v = v.max(end),
                File::S if regs.first < 102 => s = s.max(end),
                File::S => {}
            }
        }
        Self::new(v, a, s)
    }

    /// Whether what is here is enough for what is needed.
    #[inline(always)]
    pub fn holds(self, needed: Self) -> bool {
        ((self.0 | Self::GUARD) - needed.0) & Self::GUARD == Self::GUARD
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [v, a, s] = [0, 20, 40].map(|at| self.0 >> at & 0x7_ffff);
        write!(f, "{v} VGPRs, {a} accumulation registers, {s} SGPRs")
    }
}

/// An instruction, decoded and lowered: what each run of it needs.
pub struct Entry {
    /// What it does.
    pub run: Run,
    /// Its length in bytes.
    pub bytes: u64,
    /// The registers that it needs.
    pub needs: Bounds,
    /// The registers that must not be in flight.
    pub touches: Mask,
    /// What only reports need.
    pub rest: Box<Rest>,
}

/// What is seldom asked of an instruction.
pub struct Rest {
    /// See [`Step::touches`].
    pub touches: SmallVec<[Regs; 4]>,
    /// See [`Step::lands`].
    pub lands: Option<Counter>,
    /// Its words.
    words: SmallVec<[u32; 2]>,
}

impl Entry {
    fn new(step: Step, words: &[u32]) -> Self {
        Self {
            run: step.run,
            bytes: 4 * words.len() as u64,
            needs: Bounds::of(&step.touches),
            touches: Mask::of(&step.touches),
            rest: Box::new(Rest {
                touches: step.touches,
                lands: step.lands,
                words: words.into(),
            }),
        }
    }
}

/// The text of what is not decoded.
pub(crate) const NEVER: &str = "(never fetched)";

/// The instructions of a page of memory, as far as waves have come to them.
pub struct CodePage {
    generation: Gen,
    halves: usize,
    base: u64,
    entries: Box<[OnceLock<Entry>]>,
    /// When all of it was last what memory holds.
    checked: AtomicU64,
}

impl CodePage {
    /// The instruction at `pc`, which is in this page.
    ///
    /// # Errors
    /// It was never fetched, and is not mapped or not executable.
    #[inline(always)]
    pub fn entry(&self, bus: &mut Bus, pc: u64) -> Result<&Entry, MemFault> {
        let entry = &self.entries[(pc % PAGE / 4) as usize];
        match entry.get() {
            Some(entry) => Ok(entry),
            None => {
                let new = self.fetch(bus, pc)?;
                // Another wave may have fetched it meanwhile: all waves run the first.
                Ok(entry.get_or_init(|| new))
            }
        }
    }

    #[cold]
    fn fetch(&self, bus: &mut Bus, pc: u64) -> Result<Entry, MemFault> {
        // Code may end where what is mapped ends: only what is decoded must be there.
        let mut words = SmallVec::<[u32; LONGEST]>::new();
        words.push(bus.read_u32(Port::Inst, pc)?);
        let decoded = loop {
            match isa::decode(self.generation, &words) {
                Some(decoded) => break Some(decoded),
                None if words.len() == LONGEST => break None,
                None => match bus.read_u32(Port::Inst, pc + 4 * words.len() as u64) {
                    Ok(word) => words.push(word),
                    Err(_) => break None,
                },
            }
        };
        Ok(match decoded {
            Some(decoded) => Entry::new(decoded.inst.lower(self.halves), &words[..decoded.words]),
            None => {
                let what = format!("{:#010x} starts no instruction", words[0]);
                let step = Step {
                    lands: None,
                    run: Box::new(move |_| Err(Stop::Rule(&ISA_INVALID, what.clone()))),
                    touches: SmallVec::new(),
                };
                Entry::new(step, &words[..1])
            }
        })
    }

    /// Whether what was decoded is what instruction fetches get. Memory says what the instruction
    /// cache holds, and reports it where that is old.
    fn holds(&self, bus: &mut Bus) -> bool {
        self.entries.iter().enumerate().all(|(i, entry)| {
            let words = entry.get().map_or(&[][..], |entry| &entry.rest.words);
            words.iter().enumerate().all(|(j, word)| {
                let va = self.base + 4 * (i + j) as u64;
                bus.read_u32(Port::Inst, va) == Ok(*word)
            })
        })
    }

    /// The text of the instruction at `pc`, as it was decoded.
    pub fn text(&self, pc: u64) -> String {
        let Some(entry) = self.entries[(pc % PAGE / 4) as usize].get() else {
            return NEVER.into();
        };
        match isa::decode(self.generation, &entry.rest.words) {
            Some(decoded) => decoded.inst.to_string(),
            None => format!("{:#010x} (no instruction)", entry.rest.words[0]),
        }
    }
}

/// The decoded code of one address space. A page of it is compared with memory when a launch first
/// comes to it, and after `s_icache_inv`; in between it runs as it was decoded.
pub struct Code {
    generation: Gen,
    /// By the number of halves of a wave, and address.
    pages: RwLock<HashMap<(usize, u64), Arc<CodePage>>>,
    /// Counts what wants code to be compared anew.
    clock: AtomicU64,
}

impl Code {
    /// Nothing is decoded yet.
    pub fn new(generation: Gen) -> Self {
        Self {
            generation,
            pages: RwLock::default(),
            clock: AtomicU64::new(0),
        }
    }

    /// A new time: later than that of every check before.
    pub(crate) fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The page at `base`, for waves of `halves` times 32 lanes, as memory has it at `since` or later.
    pub(crate) fn page(
        &self,
        halves: usize,
        base: u64,
        since: u64,
        bus: &mut Bus,
    ) -> Arc<CodePage> {
        let key = (halves, base);
        let known = {
            let pages = unpoisoned(self.pages.read());
            pages.get(&key).cloned()
        };
        if let Some(page) = known
            && (page.checked.load(Ordering::Acquire) >= since || page.holds(bus))
        {
            page.checked.fetch_max(since, Ordering::Release);
            return page;
        }
        let mut pages = unpoisoned(self.pages.write());
        match pages.get(&key) {
            // Another thread was faster.
            Some(page) if page.checked.load(Ordering::Acquire) >= since => page.clone(),
            _ => {
                let new = Arc::new(CodePage {
                    generation: self.generation,
                    halves,
                    base,
                    entries: (0..PAGE / 4).map(|_| OnceLock::new()).collect(),
                    checked: AtomicU64::new(since),
                });
                pages.insert(key, new.clone());
                new
            }
        }
    }
}
