//! The operations of the one intermediate representation.
//!
//! A kernel is a graph of these nodes. Its meaning is fixed here, op by op, and executed by
//! `crate::interp`; every rewrite must keep it. The laws:
//!
//! - Integer arithmetic wraps. A shift by the width or more gives 0 (or the sign for signed `Shr`).
//! - Integer division by zero gives 0, and never traps; `MIN / -1` wraps to `MIN`.
//! - Float to integer saturates, NaN gives 0. Integer to narrower integer keeps the low bits.
//!   Anything to `Bool` is `x != 0`. Float to float rounds to nearest even.
//! - Comparisons with NaN are false, but for `Ne`. `Max`/`Min` give NaN if either side is NaN;
//!   -0 is below +0 in them.
//! - A reduction over nothing gives the identity of its operation. The order of a reduction is
//!   unspecified, but fixed for one compiled kernel.
//! - A `Load` whose gate is false gives its alternative and does not touch memory.
//! - Kernels with local memory or matrix instructions ([`Op::Local`], [`Op::Fence`], [`Op::Mma`])
//!   have a meaning for a group of work-items only: that of their linear program, which
//!   `crate::lower::exec` runs.
//! - Two `Store(Set)` of one kernel never write the same element, but for iterations of one
//!   `Serial` range: they run in order, so the last one wins.
//! - A `Check` reports wherever its value is computed, at least where it is used.

use super::arith::{Binary, ReduceOp, Unary};
use super::mma::{MmaDesc, Rows};

/// The kind of loop of an [`Op::Range`]; the optimiser assigns the kinds other than `Loop` and `Reduce`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum RangeKind {
    /// Workgroup (GPU) or parallel chunk (CPU): iterations are independent, spread over the grid.
    Global,
    /// Work-item of a workgroup; work-items share local memory and barriers.
    Local,
    /// An output loop: iterations are independent, run one after the other.
    Loop,
    /// A sequential loop whose iterations must run in order (scan, scatter accumulation).
    Serial,
    /// A reduction loop; bound by exactly the [`Op::Reduce`] nodes that list it.
    Reduce,
    /// A reduction range spread over the work-items of a group, combined through local memory.
    GroupReduce,
    /// An output range that is replicated in registers (register tile).
    Upcast,
    /// A reduction range that is replicated inside the loop body.
    Unroll,
    /// The lane index of a vector: every value that depends on it is a vector of `extent` lanes.
    Vec,
}

impl RangeKind {
    /// True for the kinds that a reduction binds.
    pub const fn is_reduction(self) -> bool {
        matches!(
            self,
            RangeKind::Reduce | RangeKind::GroupReduce | RangeKind::Unroll
        )
    }
}

/// How a [`Op::Store`] combines with what memory holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum StoreMode {
    /// Overwrite.
    Set,
    /// `memory = memory op value`, read-modify-write in iteration order of its `Serial` ranges.
    Combine(ReduceOp),
    /// The same in any order: each combination is one indivisible step, so that any of its ranges
    /// may be spread over work-items.
    Atomic(ReduceOp),
}

impl StoreMode {
    /// What combines the value with what memory holds; `None` where it replaces it.
    pub const fn combines(self) -> Option<ReduceOp> {
        match self {
            StoreMode::Set => None,
            StoreMode::Combine(op) | StoreMode::Atomic(op) => Some(op),
        }
    }
}

/// What a node does. Sources are listed as `src: [...]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Op {
    /// A constant, as the bits of its type (floats: their own encoding; signed: two's complement
    /// sign-extended to 64 bits; unsigned: zero-extended; bool: 0 or 1). `src: []`.
    Const(u64),
    /// Buffer argument number `slot`; the node's type is the element type. `src: []`.
    Param {
        /// Position among the buffer arguments of the kernel.
        slot: u16,
    },
    /// Argument number `slot` that is no buffer. An `I64` is known to lie in `min..=max`; a value of another type is
    /// passed as an [`Op::Const`] has its bits, and may be any. `src: []`.
    Var {
        /// Position among the arguments of the kernel that are no buffers.
        slot: u16,
        /// Smallest value that will be bound.
        min: i64,
        /// Largest value that will be bound.
        max: i64,
    },
    /// A loop index, `I64`, 0 <= value < extent. `axis` makes it unique and orders loops of equal
    /// kind: a smaller axis is further out. `src: []`.
    Range {
        /// Unique number within the kernel.
        axis: u32,
        /// Number of iterations, at least 1.
        extent: i64,
        /// How the iterations are run.
        kind: RangeKind,
    },
    /// `src: [a]`.
    Unary(Unary),
    /// `src: [a, b]`.
    Binary(Binary),
    /// `cond ? a : b`; cond is `Bool`. `src: [cond, a, b]`.
    Where,
    /// a * b + c with one rounding if the target has it. `src: [a, b, c]`.
    Fma,
    /// `c` plus the products of the bytes of `a`, which are unsigned, with those of `b` at the same places, which
    /// are signed; wraps. All are `I32`. `src: [a, b, c]`.
    Dot,
    /// Conversion by value to the node's type. `src: [a]`.
    Cast,
    /// Same bits, other type of the same width. `src: [a]`.
    Bitcast,
    /// Element `index` (an `I64`, in elements) of a pointer node. `src: [ptr, index]` or
    /// `[ptr, index, gate, alternative]`.
    Load,
    /// A block of local memory: `len` elements of the node's type that the work-items of a group
    /// share. `src: []` to store to it in a fence, `src: [fence]` to load what the fence has stored.
    Local {
        /// Unique number within the kernel.
        block: u16,
        /// Elements.
        len: u32,
    },
    /// Fills blocks of local memory, once for each combination of the loops that the stores depend
    /// on; all work-items of the group take part, and see all of it afterwards. No value: only
    /// [`Op::Local`] refers to it. `src: [store..., value...]`.
    ///
    /// Without `ahead`, everybody has read what is there before it is filled again. With it, there
    /// are `ahead` stores, and as many values: the stores have those of the first iteration of the
    /// innermost loop, the others are what each store has in the next iteration, on its way while
    /// this one computes. The stores must not go to what is read in the iteration before.
    ///
    /// With `early`, the stores are copies of elements from memory (or of zeros) beside the work-items, or all are
    /// an [`Op::Box`]: as many as are made in an iteration, for each of the first `early` iterations and for the one that is so many further.
    Fence {
        /// How many values are for the next iteration.
        ahead: u16,
        /// How many iterations copies are made early.
        early: u8,
    },
    /// Where a matrix begins in local memory that an instruction reads there: its first element, whose place is the
    /// index; the type is that of its elements. `src: [ptr, index]`, where the pointer is local memory behind a fence.
    Operand(Rows),
    /// A box of elements of a buffer, as a matrix in rows of local memory; only in a fence that makes copies early. A
    /// buffer is a tensor: along each dimension, the one of neighbours first, there are so many elements so far
    /// apart. The box has the elements of a row along the first one, so many rows along the second, and one along
    /// the others; those outside of the tensor are zero. `src: [ptr, index, buffer, gate, (at, count, step)...]`,
    /// where counts and steps are constants, and nothing happens where the gate is false.
    Box {
        /// Rows.
        rows: u16,
    },
    /// `a * b + c` of matrices by all lanes of a wave together, each of which has fragments of
    /// them: vectors along the ranges `va`, `vb` and `vc` of kind `Vec`; see [`MmaDesc`] for the
    /// element at each place. The lane is the work-item modulo the wave. `c` has no lanes, or those
    /// of `vc`, and the result those of `vc`. What reads its operands in local memory has an
    /// [`Op::Operand`] for each. `src: [a, b, c, va, vb, vc]`.
    Mma(MmaDesc),
    /// The reduction of `value` over the ranges, all of a reduction kind. `src: [value, range...]`.
    Reduce(ReduceOp),
    /// The inclusive prefix reduction of `value` along one `Serial` range. `src: [value, range]`.
    Scan(ReduceOp),
    /// Writes element `index` of a pointer node, for each combination of the ranges that index,
    /// value and gate depend on. The node's type is that of the value.
    /// `src: [ptr, index, value]` or `[ptr, index, value, gate]`.
    Store(StoreMode),
    /// Returns the value. Where `outside` holds, also sets element 0 of the pointer to the number, an `I64`: this
    /// is how a kernel reports an out-of-range index. Of several reports one is kept. `src: [ptr, value, number,
    /// outside]`.
    Check,
    /// The root: `src: [store...]`.
    Sink,
}
