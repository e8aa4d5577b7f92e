//! What an instruction uses, and what its control word promises of that.

use crate::operand::{Kind, Operand, Role};
use crate::{Chip, Control, Inst};

/// A register or a predicate, of lanes or of the warp: its kind times 256, and its number.
pub(crate) type Item = u16;

pub(crate) const ITEMS: usize = 4 * 256;

pub(crate) fn name(item: Item) -> String {
    let number = item as u8;
    let kind = match item >> 8 {
        0 => Kind::Register(number),
        1 => Kind::Uniform(number),
        2 => Kind::Predicate(number),
        _ => Kind::UniformPredicate(number),
    };
    kind.to_string()
}

/// Of what an instruction waits, and what it reads and writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses {
    /// What it reads, then what it writes.
    items: Box<[Item]>,
    reads: usize,
    /// How many of the first ones its scoreboard says of when they were read.
    held: usize,
    pub guard: Option<Item>,
    pub control: Control,
    /// Waits until no more than some are outstanding on a scoreboard.
    pub until: Option<(u8, usize)>,
    /// Cycles until its results are there: as a source, and as a guard. None if a scoreboard says when.
    pub latency: [u8; 2],
    /// A source that is read a cycle later than the others.
    pub late: Option<Item>,
    /// Whether its results come at no fixed time, and no scoreboard says when.
    pub unpromised: bool,
    pub branches: bool,
    /// A unit that does one thing after the other.
    pub unit: Option<usize>,
    /// A way on which registers are read in order.
    pub queue: Option<usize>,
    pub group: Group,
}

/// What an instruction is to products of four warps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Group {
    #[default]
    None,
    /// What was written before may be read by a product.
    Arrives,
    /// A product; whether it is the last of its group.
    Product(bool),
}

/// The scoreboard of products of four warps, behind those of the control word.
pub(crate) const PRODUCTS: u8 = 6;

/// Ways on which registers are read in order: compilers rely on it that a store has read its own when a later
/// load has come back, and that a result may take the place of what is read by what is before it on its way. Loads
/// and stores that leave the core, those to shared memory, doubles, special functions, and products of matrices of
/// doubles (ptxas 13.5 for sm_90: `DMMA.8x8x4 R40, R42, R40, R60` right behind another that reads `R42`).
pub(crate) const QUEUES: [&[&str]; 5] = [
    &[
        "LDG", "STG", "LD", "ST", "LDL", "STL", "ATOM", "ATOMG", "RED", "REDG", "LDGSTS",
    ],
    &["LDS", "STS", "ATOMS", "LDSM", "STSM"],
    &["DADD", "DMUL", "DFMA", "DSETP"],
    UNITS[1],
    &["DMMA"],
];

/// Of some units compilers rely on it that they keep the order: what is promised for one result holds for
/// those before, whichever of the later ones is waited for. Shared memory, the unit for special functions,
/// that for doubles where there is one for many lanes, and what reads special registers for the warp (ptxas 13.5
/// for sm_90: of three S2UR in a row the first has no scoreboard, and is used behind the wait for the second).
pub(crate) const UNITS: [&[&str]; 4] = [
    &["LDS", "LDSM", "ATOMS", "MOVM"],
    &["MUFU", "F2I", "F2F", "I2F", "FRND", "POPC", "FLO", "BREV"],
    &["DADD", "DMUL", "DFMA", "DSETP"],
    &["S2UR"],
];
const DOUBLES: usize = 2;

/// Those whose results never come at a fixed time, beside those of the units.
const VARIABLE: &[&str] = &[
    "LDG", "LD", "LDL", "LDC", "LDCU", "ATOM", "ATOMG", "S2R", "S2UR", "SHFL", "MATCH", "B2R",
    "BMOV", "QSPC", "SYNCS",
];

/// What an instruction reads and writes, and how long it waits on a scoreboard. `control` is given what else it waits
/// for.
fn operands(inst: &Inst, control: &mut Control) -> (Vec<Item>, Vec<Item>, Option<(u8, usize)>) {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    let mut until = None;
    for operand in &inst.operands {
        // A copy names its place in shared memory first.
        let shared = inst.name == "LDGSTS" && reads.is_empty();
        let list = if operand.role == Role::Write {
            &mut writes
        } else {
            &mut reads
        };
        let mut add = |kind: u16, first: u8, count: u8, none: u8| {
            if first != none {
                list.extend((0..count).map(|k| kind << 8 | u16::from(first.saturating_add(k))));
            }
        };
        match operand.kind {
            Kind::Register(n) => add(0, n, operand.width, 255),
            Kind::Uniform(n) => add(1, n, operand.width, 255),
            Kind::Predicate(n) => add(2, n, 1, 7),
            Kind::UniformPredicate(n) => add(3, n, 1, 7),
            Kind::Constant(.., Some(base)) => add(0, base, 1, 255),
            Kind::ConstantOf(handle, _) => add(1, handle, 2, 255),
            Kind::ConstantBy(.., base) => add(1, base, 1, 255),
            Kind::Descriptor(n) => add(1, n, 2, 255),
            Kind::Memory(memory) => {
                let wide = inst.has(".E") && memory.width != 1 && !shared;
                if let Some(base) = memory.base {
                    add(0, base, if wide { 2 } else { 1 }, 255);
                }
                for uniform in [memory.uniform, memory.descriptor].into_iter().flatten() {
                    add(1, uniform, if inst.has(".E") { 2 } else { 1 }, 255);
                }
            }
            Kind::Scoreboard(n) => until = Some((n, 0)),
            Kind::Word(_) if inst.name == "WARPGROUP" => until = Some((PRODUCTS, 0)),
            Kind::Immediate(count, _) if until.is_some() => {
                until = until.map(|(n, _)| (n, count as usize))
            }
            Kind::Immediate(set, _) if inst.name == "DEPBAR" => control.waits |= set as u8,
            _ => {}
        }
    }
    (reads, writes, until)
}

/// Cycles as a source, and as a guard or what a branch goes by. Blackwell's 9 is from kernels of Doorbell's own,
/// compiled by ptxas and nvrtc for sm_120.
fn latency(chip: Chip, name: &str) -> [u8; 2] {
    match name {
        "IMAD" if chip >= Chip::Sm90 => [2, 13],
        name if name.starts_with('U') || name == "VOTEU" => {
            [2, if chip >= Chip::Sm120 { 9 } else { 11 }]
        }
        _ => [4, 13],
    }
}

/// Of how many sources a scoreboard says when they were read; they come first then. Registers of lanes, but for sums of
/// products, which are results as well. What doubles take from the warp is read when they issue: ptxas 13.5 for sm_120 writes `UMOV.64 UR8` right behind `DMUL R24, R18, -UR8`.
/// So do stores to shared memory: in what it makes for sm_89 `UIADD3 UR4, UR4, 0xa40, URZ` is behind
/// `STS.128 [R5+UR4], R24`, without waiting for it.
/// And copies whether there is anything to copy: for sm_90 `ISETP.LT.AND P1, PT, R0, 0x2, !P1` is right behind
/// `LDGSTS.E.BYPASS.128 [R19], desc[UR8][R24.64], !P1`.
/// And loads their addresses of the warp: for sm_120 `R2UR UR12, R192` is two behind
/// `LDG.E R249, desc[UR12][R98.64]`, without waiting for it.
fn held(
    name: &str,
    group: Group,
    unit: Option<usize>,
    reads: &mut [Item],
    writes: &[Item],
) -> usize {
    let (sums, copies) = (matches!(group, Group::Product(_)), name == "LDGSTS");
    let loads = name == "LDG";
    if !(sums || copies || loads || unit == Some(DOUBLES) || name == "STS") {
        return reads.len();
    }
    let read_later = |item: &Item| match item >> 8 {
        0 => !(sums && writes.contains(item)),
        2 => loads,
        _ => copies,
    };
    reads.sort_by_key(|item| !read_later(item));
    reads.iter().filter(|item| read_later(item)).count()
}

impl Uses {
    pub fn of(chip: Chip, inst: &Inst) -> Self {
        let mut control = inst.control;
        let (mut reads, writes, until) = operands(inst, &mut control);
        // Whether a generic atomic was done is known when its sources are read, where that is all it returns.
        if inst.name == "ATOM" && control.writes.is_none() {
            control.writes = control.reads;
        }
        let group = match inst.name {
            "WARPGROUP" if inst.has(".ARRIVE") => Group::Arrives,
            "HGMMA" | "IGMMA" | "QGMMA" => {
                (control.writes, control.reads) = (Some(PRODUCTS), Some(PRODUCTS));
                let word = |operand: &Operand| matches!(operand.kind, Kind::Word(_));
                Group::Product(inst.operands.iter().any(word))
            }
            _ => Group::None,
        };
        let guard = match inst.guard.kind {
            Kind::Predicate(n) if n != 7 => Some(2 << 8 | u16::from(n)),
            Kind::UniformPredicate(n) if n != 7 => Some(3 << 8 | u16::from(n)),
            _ => None,
        };
        // Hopper computes doubles at a fixed pace.
        let unit = UNITS
            .iter()
            .position(|unit| unit.contains(&inst.name))
            .filter(|&unit| unit != DOUBLES || chip != Chip::Sm90);
        let varies = unit.is_some() || VARIABLE.contains(&inst.name);
        let fixed = !varies && control.writes.is_none();
        let branches = matches!(inst.name, "BRA" | "EXIT" | "CALL" | "RET");
        // A product of 64 bits adds its upper word last: in what ptxas and nvrtc 13.5 make for sm_120 and sm_90 that one may be a
        // cycle younger than the other sources.
        let late = inst.operands.last().and_then(|addend| match addend.kind {
            Kind::Register(n) if n != 255 && addend.width == 2 => Some(u16::from(n) + 1),
            _ => None,
        });
        let late = late.filter(|_| inst.name == "IMAD" && chip >= Chip::Sm90);
        let count = reads.len();
        let held = held(inst.name, group, unit, &mut reads, &writes);
        reads.extend(writes);
        Self {
            items: reads.into(),
            reads: count,
            held,
            guard,
            control,
            until,
            latency: if fixed {
                latency(chip, inst.name)
            } else {
                [0; 2]
            },
            late,
            unpromised: varies && control.writes.is_none(),
            branches,
            unit,
            queue: QUEUES.iter().position(|queue| queue.contains(&inst.name)),
            group,
        }
    }

    /// What it reads.
    pub fn reads(&self) -> &[Item] {
        &self.items[..self.reads]
    }

    /// What of that its scoreboard says when it was read.
    pub fn held(&self) -> &[Item] {
        &self.items[..self.held]
    }

    /// What it writes.
    pub fn writes(&self) -> &[Item] {
        &self.items[self.reads..]
    }

    /// The scoreboards that are waited for, and how much may be outstanding then.
    pub fn waits(&self) -> impl Iterator<Item = (u8, usize)> {
        let waits = self.control.waits;
        let all = (0..6).filter(move |n| waits >> n & 1 != 0);
        all.map(|n| (n, 0)).chain(self.until)
    }
}
