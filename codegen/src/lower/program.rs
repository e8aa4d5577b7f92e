//! The linear program, the input of renderers. Loops with constant bounds, vectors of a fixed number of lanes,
//! accumulators, loads and stores; every work-item of a group runs the same control flow, so a barrier is always
//! met by all of them.

use std::fmt;

use drivers_spec::nv::tensor_map;

use crate::dtype::DType;
use crate::ir::mma::{MmaDesc, ROW, Rows};
use crate::ir::{Binary, ReduceOp, StoreMode, Unary};
use crate::target::Target;

/// Element type and number of lanes of a register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ty {
    /// Element type.
    pub dtype: DType,
    /// Number of lanes, 1 for scalars.
    pub lanes: u32,
}

/// A value, assigned once per execution of the instruction that defines it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Reg(pub u32);

/// A variable that keeps its value around loops.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Acc(pub u32);

/// Where a load or store goes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mem {
    /// Argument number `i` of [`Program::args`], a buffer.
    Arg(u32),
    /// Block number `i` of [`Program::locals`].
    Local(u32),
}

/// The matrices that an instruction reads in local memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Operand {
    /// The block.
    pub mem: Mem,
    /// How they lie there.
    pub rows: Rows,
}

/// How the lanes of a vector access are laid out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// One element, or consecutive elements from a scalar index.
    Contiguous,
    /// Elements at this distance, from a scalar index; never 0 or 1.
    Strided(i64),
    /// A vector of indices, one per lane.
    Gather,
}

/// An argument of the entry point.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Arg {
    /// A buffer of the kernel.
    Buffer {
        /// Slot among the buffers of the kernel.
        slot: u16,
        /// Element type.
        dtype: DType,
        /// Number of elements.
        len: usize,
        /// The program stores to it.
        written: bool,
    },
    /// An integer of the kernel.
    Var {
        /// Slot among the integers of the kernel.
        slot: u16,
    },
    /// A number that is constant in this program, but differs between programs that share its code.
    Number {
        /// It.
        value: i64,
    },
    /// A tensor descriptor, with which hardware copies boxes of a buffer.
    Tensor(Tensor),
}

impl Arg {
    /// Its bytes.
    pub const fn bytes(&self) -> usize {
        match self {
            Arg::Tensor(_) => tensor_map::BYTES,
            _ => 8,
        }
    }
}

/// A buffer as a tensor, of which [`Inst::TmaLoad`] copies boxes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tensor {
    /// Slot among the buffers of the kernel.
    pub slot: u16,
    /// Element type.
    pub dtype: DType,
    /// Number of dimensions.
    pub rank: u8,
    /// Elements along each of them, and how far apart those are; the elements along the first one are neighbours.
    pub dims: [[i64; 2]; tensor_map::DIMENSIONS],
    /// Elements of a box along the second dimension. Along the first one it has those of a row, along the others one.
    pub rows: u16,
}

impl Tensor {
    /// Elements of a box.
    pub fn elements(&self) -> i64 {
        Rows::width(self.dtype) * i64::from(self.rows)
    }
}

/// A box that [`Inst::TmaLoad`] copies.
#[derive(Clone, PartialEq, Debug)]
pub struct BoxOf {
    /// The first element in local memory.
    pub to: (Mem, Reg),
    /// Number of the tensor in [`Program::args`].
    pub tensor: u32,
    /// Where the box begins, along each dimension.
    pub at: Vec<Reg>,
}

/// Number of iterations of a loop, at least 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Extent {
    /// A constant.
    Known(i64),
    /// As often as an [`Arg::Number`] says.
    Arg(u32),
}

/// One instruction.
#[derive(Clone, PartialEq, Debug)]
#[allow(
    missing_docs,
    reason = "operands are named as in the meaning of each instruction"
)]
pub enum Inst {
    /// A constant, the same in each lane.
    Const {
        dst: Reg,
        bits: u64,
    },
    /// The value of argument `arg` of [`Program::args`], an integer.
    Var {
        dst: Reg,
        arg: u32,
    },
    /// `0, 1, 2, ...` as `I64` lanes.
    Lanes {
        dst: Reg,
    },
    /// Lane `i` is true if `i < count`; `count` is a scalar `I64`.
    Mask {
        dst: Reg,
        count: Reg,
    },
    /// The number of this work-item in its group.
    Item {
        dst: Reg,
    },
    /// A scalar in every lane.
    Splat {
        dst: Reg,
        a: Reg,
    },
    Unary {
        dst: Reg,
        op: Unary,
        a: Reg,
    },
    Binary {
        dst: Reg,
        op: Binary,
        a: Reg,
        b: Reg,
    },
    Select {
        dst: Reg,
        cond: Reg,
        a: Reg,
        b: Reg,
    },
    /// `a * b + c`, one rounding.
    Fma {
        dst: Reg,
        a: Reg,
        b: Reg,
        c: Reg,
    },
    /// `c` plus the products of the bytes of `a`, unsigned, and of `b`, signed.
    Dot {
        dst: Reg,
        a: Reg,
        b: Reg,
        c: Reg,
    },
    /// `a * b + c` of matrices by the lanes of a wave together; each lane gives and gets the
    /// elements that the description says. The work-items of a wave are neighbours, the first one
    /// has a number that is a multiple of the wave. All of them execute it.
    Mma {
        dst: Reg,
        desc: MmaDesc,
        a: Reg,
        b: Reg,
        c: Reg,
    },
    /// Adds the products of matrices that lie in local memory to an accumulator, one for each pair of first elements,
    /// beside the work-items: the sum is there, and what was read may be written, after [`Inst::WgmmaWait`]. Lanes and
    /// work-items as with [`Inst::Mma`].
    MmaThere {
        acc: Acc,
        desc: MmaDesc,
        operands: [Operand; 2],
        at: Vec<[Reg; 2]>,
    },
    /// Waits for the products of all [`Inst::MmaThere`] of this wave but the last few.
    WgmmaWait {
        left: u32,
    },
    /// Copies the elements of a vector from memory to local memory, beside the work-item: they are there after
    /// [`Inst::Arrived`], for others behind a barrier after it. Where `there` is false they are zeros, where `gate` is
    /// false nothing happens.
    Copy {
        ty: Ty,
        to: (Mem, Reg),
        from: (Mem, Reg),
        there: Option<Reg>,
        gate: Option<Reg>,
    },
    /// Makes barriers of the elements of a block of local memory, for copies of boxes to be waited for.
    MbarrierInit {
        mem: Mem,
        count: u32,
    },
    /// One work-item starts to copy boxes of tensors to local memory, which go on beside it: they are there after
    /// [`Inst::MbarrierWait`] at the same barrier. Where `gate` is false nothing happens. What is outside of a tensor is
    /// zero, and rows are mixed as [`Rows`] has them.
    TmaLoad {
        barrier: (Mem, Reg),
        gate: Reg,
        boxes: Vec<BoxOf>,
    },
    /// Waits for the boxes of a barrier, whose turn before this one was an odd one (or not).
    MbarrierWait {
        barrier: (Mem, Reg),
        odd: Reg,
    },
    /// Ends a group of copies.
    Sent,
    /// Waits for all groups of copies of this work-item but the last few.
    Arrived {
        left: u32,
    },
    /// What this work-item has stored to local memory is there for [`Inst::MmaThere`] behind the next barrier.
    Expose,
    Cast {
        dst: Reg,
        a: Reg,
    },
    Bitcast {
        dst: Reg,
        a: Reg,
    },
    /// Where the gate is false the result is the alternative and memory is not touched. The index
    /// is `I64`; after [`super::narrow`] it may be `I32`, or `U32` where it cannot be negative.
    Load {
        dst: Reg,
        mem: Mem,
        index: Reg,
        access: Access,
        gate: Option<(Reg, Reg)>,
    },
    Store {
        mode: StoreMode,
        mem: Mem,
        index: Reg,
        access: Access,
        value: Reg,
        gate: Option<Reg>,
    },
    /// The reduction of all lanes to a scalar.
    Horizontal {
        dst: Reg,
        op: ReduceOp,
        a: Reg,
    },
    SetAcc {
        acc: Acc,
        a: Reg,
    },
    GetAcc {
        dst: Reg,
        acc: Acc,
    },
    /// Runs up to the matching [`Inst::End`] for `var` = 0 .. `extent`.
    Loop {
        var: Reg,
        extent: Extent,
    },
    /// Runs up to the matching [`Inst::End`] for each group this call was given; once at most. On
    /// GPUs a call is one group of [`Program::grid`].
    Groups {
        var: Reg,
    },
    /// Runs up to the matching [`Inst::End`] only in the call that has group 0.
    Once,
    /// Closes [`Inst::Loop`], [`Inst::Groups`] or [`Inst::Once`].
    End,
    /// Reads one element of global memory, which the instructions up to the matching
    /// [`Inst::Commit`] make a new value of. Does nothing up to there where the gate is false.
    Attempt {
        dst: Reg,
        mem: Mem,
        index: Reg,
        gate: Option<Reg>,
    },
    /// Writes the element that the matching [`Inst::Attempt`] has read, if it is still what that
    /// one found, whoever else writes to it; goes on from there with what it is now otherwise.
    Commit {
        value: Reg,
    },
    /// Waits for the other work-items; orders local memory.
    Barrier,
}

/// A kernel as a list of instructions.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// Symbol of the entry point.
    pub name: String,
    /// Arguments, in the order in which they are passed.
    pub args: Vec<Arg>,
    /// Local memory blocks: type and elements.
    pub locals: Vec<(DType, usize)>,
    /// Number of groups, at least 1.
    pub groups: i64,
    /// Work-items per group, at least 1.
    pub items: i64,
    /// Types of the registers.
    pub regs: Vec<Ty>,
    /// Types of the accumulators.
    pub accs: Vec<Ty>,
    /// The body.
    pub insts: Vec<Inst>,
}

impl Program {
    /// The type of indices.
    pub const INDEX: Ty = Ty {
        dtype: DType::I64,
        lanes: 1,
    };

    /// A new register for an index.
    pub fn index_reg(&mut self) -> Reg {
        self.regs.push(Program::INDEX);
        Reg(self.regs.len() as u32 - 1)
    }

    /// Number of iterations of a loop.
    pub fn extent(&self, extent: Extent) -> i64 {
        match extent {
            Extent::Known(n) => n,
            Extent::Arg(arg) => match self.args.get(arg as usize) {
                Some(Arg::Number { value }) => *value,
                _ => 1,
            },
        }
    }

    /// Type of a register.
    pub fn ty(&self, reg: Reg) -> Ty {
        self.regs[reg.0 as usize]
    }

    /// Groups of a launch along x, y and z; the number of a group is
    /// `x + grid[0] * (y + grid[1] * z)`. Where the groups of the program have no such factors,
    /// there are more of them, and those do nothing. `None` if the target cannot launch so many.
    pub fn grid(&self, target: &Target) -> Option<[u32; 3]> {
        // A launch counts work-items along x in 32 bits.
        let wide = (i64::from(u32::MAX) / self.items.max(1)).max(1);
        let [x, y, z] = target.max_groups.map(i64::from);
        let (rest, x) = fold(self.groups, x.min(wide));
        let (rest, y) = fold(rest, y);
        let small = |n: i64| u32::try_from(n).ok();
        Some([small(x)?, small(y)?, small(rest).filter(|_| rest <= z)?])
    }

    /// Bytes of boxes; those outside of a tensor count.
    pub(crate) fn box_bytes(&self, boxes: &[BoxOf]) -> i64 {
        let tensors = boxes
            .iter()
            .filter_map(|of| match self.args.get(of.tensor as usize) {
                Some(Arg::Tensor(tensor)) => Some(tensor.elements() * tensor.dtype.size() as i64),
                _ => None,
            });
        tensors.sum()
    }

    /// Bytes of local memory per group.
    pub fn local_bytes(&self) -> usize {
        self.local_place(self.locals.len())
    }

    /// Where a block of local memory begins, bytes.
    pub fn local_place(&self, block: usize) -> usize {
        let align = self.local_align();
        let bytes = |(t, n): &(DType, usize)| (t.size() * n).next_multiple_of(align);
        self.locals.iter().take(block).map(bytes).sum()
    }

    /// What the blocks of local memory are aligned to: the order of pieces in rows that instructions read follows from
    /// their addresses.
    pub fn local_align(&self) -> usize {
        let there = |i: &Inst| matches!(i, Inst::MmaThere { .. });
        if self.insts.iter().any(there) {
            ROW * Rows::orders() as usize
        } else {
            16
        }
    }
}

/// Splits a number of groups so that the second part is at most `most`: exactly if there is a
/// divisor that is not much smaller.
fn fold(groups: i64, most: i64) -> (i64, i64) {
    if groups <= most {
        return (1, groups);
    }
    let fewest = (groups + most - 1) / most;
    let exact = (fewest..=fewest * 2)
        .take(1 << 12)
        .find(|n| groups % n == 0);
    let rest = exact.unwrap_or(fewest);
    (rest, (groups + rest - 1) / rest)
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lanes == 1 {
            write!(f, "{}", self.dtype)
        } else {
            write!(f, "{}x{}", self.dtype, self.lanes)
        }
    }
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl fmt::Display for Acc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

impl fmt::Display for Mem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mem::Arg(i) => write!(f, "arg{i}"),
            Mem::Local(i) => write!(f, "local{i}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_fold_within_limits() {
        for most in [
            [u32::MAX, 1, 1],
            [1 << 31, 65535, 65535],
            [100, 7, 50],
            [16, 16, 16],
        ] {
            let target = Target {
                max_groups: most,
                ..Target::host(1)
            };
            for groups in [1, 7, 99, 100, 101, 699, 700, 701, 3989, 4096, 30_000] {
                let p = Program {
                    name: "p".into(),
                    args: Vec::new(),
                    locals: Vec::new(),
                    groups,
                    items: 256,
                    regs: Vec::new(),
                    accs: Vec::new(),
                    insts: Vec::new(),
                };
                let all: i64 = most
                    .iter()
                    .fold(1i64, |p, &n| p.saturating_mul(i64::from(n)));
                let Some(grid) = p.grid(&target) else {
                    assert!(groups * 2 > all, "{groups} in {most:?}");
                    continue;
                };
                let made: i64 = grid.iter().map(|&n| i64::from(n)).product();
                assert!(
                    made >= groups && made <= groups + groups / 2,
                    "{groups}: {grid:?}"
                );
                assert!(grid.iter().zip(most).all(|(&n, most)| n >= 1 && n <= most));
            }
        }
    }
}
