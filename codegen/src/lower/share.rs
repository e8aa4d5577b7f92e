//! Numbers that differ from layer to layer of one net become arguments, so that the layers share their
//! machine code: extents of loops, strides, limits, and divisors outside of inner loops.
//!
//! What the inner loops need as a constant stays one: divisors, and the distances between the
//! elements that one iteration accesses, which are part of the instructions that access them.
//!
//! Every use has an argument of its own, also where two of them have one value: they may differ in the
//! next layer.

use hashbrown::HashSet;

use super::program::{Arg, Extent, Inst, Program, Reg};
use crate::ir::Binary;

/// Numbers that a program takes at most; what is beyond stays a constant.
const MOST: usize = 64;

/// Makes arguments of the numbers of a program for CPUs.
pub fn share(p: &mut Program) {
    let constants = constants(p);
    let places = places(p);
    let (fixed, steps) = displacements(p, &constants, &places);
    let insts = std::mem::take(&mut p.insts);
    let mut pass = Share { p, left: MOST };
    for (at, mut inst) in insts.into_iter().enumerate() {
        match &mut inst {
            Inst::Loop { extent, .. } => {
                if let Extent::Known(n) = *extent
                    && let Some(arg) = pass.argument(n)
                {
                    *extent = Extent::Arg(arg);
                }
            }
            Inst::Binary { op, a, b, .. } => {
                let known = |r: &Reg| constants[r.0 as usize];
                let varies = match (known(a), known(b)) {
                    (Some(x), None) => Some((a, x)),
                    (None, Some(x)) => Some((b, x)),
                    _ => None,
                };
                if let Some((operand, x)) = varies
                    && open(*op, x, &places[at], steps.contains(&at))
                    && !fixed.contains(&at)
                    && let Some(reg) = pass.number(x)
                {
                    *operand = reg;
                }
            }
            _ => {}
        }
        pass.p.insts.push(inst);
    }
}

/// Where an instruction is.
#[derive(Clone, Copy)]
struct LoopPosition {
    /// Number of loops around it, that over groups included.
    depth: usize,
    /// There is no loop beside it in its block.
    inner: bool,
}

struct Share<'a> {
    p: &'a mut Program,
    left: usize,
}

impl Share<'_> {
    fn argument(&mut self, value: i64) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        self.p.args.push(Arg::Number { value });
        Some(self.p.args.len() as u32 - 1)
    }

    fn number(&mut self, value: i64) -> Option<Reg> {
        let arg = self.argument(value)?;
        let dst = self.p.index_reg();
        self.p.insts.push(Inst::Var { dst, arg });
        Some(dst)
    }
}

/// The value of each register that holds a constant index.
fn constants(p: &Program) -> Vec<Option<i64>> {
    let mut known = vec![None; p.regs.len()];
    for inst in &p.insts {
        if let Inst::Const { dst, bits } = inst
            && p.ty(*dst) == Program::INDEX
        {
            known[dst.0 as usize] = Some(*bits as i64);
        }
    }
    known
}

/// The place of each instruction.
fn places(p: &Program) -> Vec<LoopPosition> {
    // The blocks that are open, and whether each block has another one in it.
    let (mut open, mut outer) = (vec![0], vec![false]);
    let mut block_of = Vec::with_capacity(p.insts.len());
    for inst in &p.insts {
        let here = open.last().copied().unwrap_or(0);
        block_of.push((here, open.len() - 1));
        match inst {
            Inst::Loop { .. } | Inst::Groups { .. } => {
                outer[here] = true;
                open.push(outer.len());
                outer.push(false);
            }
            Inst::Once | Inst::Attempt { .. } => open.push(here),
            Inst::End | Inst::Commit { .. } => {
                open.pop();
            }
            _ => {}
        }
    }
    let place = |(block, depth): (usize, usize)| LoopPosition {
        depth,
        inner: !outer[block],
    };
    block_of.into_iter().map(place).collect()
}

/// Sums that are a part of the address of an access in an inner loop, and products that are a part of
/// that of a vector: how far it goes with each iteration.
fn displacements(
    p: &Program,
    constants: &[Option<i64>],
    places: &[LoopPosition],
) -> (HashSet<usize>, HashSet<usize>) {
    let mut made = vec![None; p.regs.len()];
    for (at, inst) in p.insts.iter().enumerate() {
        if let Inst::Binary { dst, .. } = inst {
            made[dst.0 as usize] = Some(at);
        }
    }
    let (mut singles, mut vectors) = (Vec::new(), Vec::new());
    for (inst, _) in p.insts.iter().zip(places).filter(|(_, place)| place.inner) {
        let (index, value) = match *inst {
            Inst::Load { index, dst, .. } => (index, dst),
            Inst::Store { index, value, .. } => (index, value),
            _ => continue,
        };
        match p.ty(value).lanes {
            1 => singles.push(index),
            _ => vectors.push(index),
        }
    }
    let (mut sums, mut steps) = (HashSet::new(), HashSet::new());
    for (mut pending, vector) in [(vectors, true), (singles, false)] {
        let mut seen = HashSet::new();
        while let Some(reg) = pending.pop() {
            let Some(at) = made[reg.0 as usize].filter(|&at| seen.insert(at)) else {
                continue;
            };
            match p.insts[at] {
                Inst::Binary {
                    op: Binary::Add | Binary::Sub,
                    a,
                    b,
                    ..
                } => {
                    if constants[a.0 as usize].is_some() || constants[b.0 as usize].is_some() {
                        sums.insert(at);
                    }
                    pending.extend([a, b]);
                }
                Inst::Binary {
                    op: Binary::Mul, ..
                } if vector => {
                    steps.insert(at);
                }
                _ => {}
            }
        }
    }
    (sums, steps)
}

/// Whether an operation at a place may have an argument for a constant. The smallest numbers, and those of
/// lanes, are what the kernel is like, not how large.
fn open(op: Binary, x: i64, place: &LoopPosition, step: bool) -> bool {
    if (-1..=1).contains(&x) {
        return false;
    }
    match op {
        Binary::Mul => !(step && place.inner && x > 0 && x <= 64 && x.count_ones() == 1),
        Binary::Add
        | Binary::Sub
        | Binary::Lt
        | Binary::Eq
        | Binary::Ne
        | Binary::Min
        | Binary::Max => true,
        Binary::FloorDiv | Binary::FloorMod | Binary::TruncDiv | Binary::TruncMod => {
            x > 0 && !place.inner && place.depth <= 1
        }
        _ => false,
    }
}
