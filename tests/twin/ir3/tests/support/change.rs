//! A kernel with one thing less than it needs.

use twin_ir3::{Op, decode};

use super::kernel::{Case, Step};

/// What there is less of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// (ss).
    Ss,
    /// (sy).
    Sy,
    /// (jp).
    Jp,
    /// A repetition of a nop.
    Nop,
    /// A slot behind an instruction.
    Slot,
    /// FULLREGFOOTPRINT.
    Full,
    /// HALFREGFOOTPRINT.
    Half,
    /// BRANCHSTACK.
    Branch,
    /// A word of local memory.
    Local,
    /// SP_CS_INSTR_SIZE.
    Code,
}

impl Kind {
    /// Whether it is a wait or a delay.
    pub fn is_time(self) -> bool {
        matches!(self, Kind::Ss | Kind::Sy | Kind::Nop | Kind::Slot)
    }
}

/// A change of a launch of a case.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub kind: Kind,
    /// Which launch.
    pub step: usize,
    /// Which word, and what becomes of it; of launches the first.
    pub at: usize,
    word: u64,
}

const SS: u64 = 1 << 44;
const SY: u64 = 1 << 60;
const JP: u64 = 1 << 59;
/// The (r) bit of the first source, of categories 1 to 4.
const FIRST: u64 = 1 << 43;

/// The words of a program, behind which only padding is.
pub fn program(words: &[u64]) -> &[u64] {
    let is_end = |word: &u64| decode(*word).is_ok_and(|inst| inst.op == Op::End);
    let end = words.iter().rposition(is_end).map_or(0, |at| at + 1);
    &words[..end]
}

/// Words that lack something of a word.
fn fewer(word: u64) -> Vec<(Kind, u64)> {
    let Ok(inst) = decode(word) else {
        return Vec::new();
    };
    let marks = inst.marks;
    let mut all = Vec::new();
    for (kind, there, bit) in [
        (Kind::Ss, marks.ss, SS),
        (Kind::Sy, marks.sy, SY),
        (Kind::Jp, marks.jp, JP),
    ] {
        if there {
            all.push((kind, word & !bit));
        }
    }
    if inst.op == Op::Nop && inst.repeat > 0 {
        all.push((Kind::Nop, word - (1 << 40)));
    }
    // (nopN) are the (r) bits of an instruction that does not repeat.
    if inst.nop > 0 {
        let second = if inst.op.category() == 3 { 15 } else { 51 };
        let slots = u64::from(inst.nop) - 1;
        let less = word & !(FIRST | (1 << second));
        let less = less | ((slots & 1) * FIRST) | ((slots >> 1) << second);
        all.push((Kind::Slot, less));
    }
    all
}

/// All changes of a case.
pub fn all(case: &Case) -> Vec<Change> {
    let mut all = Vec::new();
    for (step, of) in case.steps.iter().enumerate() {
        for (at, word) in program(&of.words).iter().enumerate() {
            let fewer = fewer(*word).into_iter();
            all.extend(fewer.map(|(kind, word)| Change {
                kind,
                step,
                at,
                word,
            }));
        }
        let launch = &of.launch;
        for (kind, there) in [
            (Kind::Full, launch.full_footprint > 1),
            (Kind::Half, launch.half_footprint > 0),
            (Kind::Branch, launch.branch_stack > 0),
            (Kind::Local, launch.local_bytes > 0),
            (Kind::Code, true),
        ] {
            if there {
                let (at, word) = (0, of.words[0]);
                all.push(Change {
                    kind,
                    step,
                    at,
                    word,
                });
            }
        }
    }
    all
}

impl Change {
    fn apply(&self, step: &mut Step) {
        step.words[self.at] = self.word;
        let launch = &mut step.launch;
        match self.kind {
            Kind::Full => launch.full_footprint -= 1,
            Kind::Half => launch.half_footprint -= 1,
            Kind::Branch => launch.branch_stack -= 1,
            Kind::Local => launch.local_bytes -= 4,
            // Up to the unit that has the end.
            Kind::Code => {
                let units = (program(&step.words).len() - 1) / 16;
                launch.code_bytes = units as u32 * 128;
            }
            _ => {}
        }
    }

    /// The case with it.
    pub fn of(&self, case: &Case) -> Case {
        let mut case = case.clone();
        self.apply(&mut case.steps[self.step]);
        case
    }
}
