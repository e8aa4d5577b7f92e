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

use super::mma::MmaDesc;

/// What kind of loop a [`Op::Range`] is; the optimiser assigns the kinds after `Loop` and `Reduce`.
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

/// The combining operation of a reduction or a scan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum ReduceOp {
    /// Sum; identity 0.
    Add,
    /// Product; identity 1.
    Mul,
    /// Maximum with NaN propagation; identity is the smallest value (-inf for floats).
    Max,
    /// Minimum with NaN propagation; identity is the largest value (+inf for floats).
    Min,
    /// Bitwise (or logical) and; identity all ones.
    And,
    /// Bitwise (or logical) or; identity 0.
    Or,
}

impl ReduceOp {
    /// The binary operation that combines two partial results.
    pub const fn binary(self) -> Binary {
        match self {
            ReduceOp::Add => Binary::Add,
            ReduceOp::Mul => Binary::Mul,
            ReduceOp::Max => Binary::Max,
            ReduceOp::Min => Binary::Min,
            ReduceOp::And => Binary::And,
            ReduceOp::Or => Binary::Or,
        }
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

/// One-operand arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Unary {
    /// Negation; wraps for integers (also unsigned).
    Neg,
    /// Bitwise complement; logical not for `Bool`.
    Not,
    /// Absolute value; wraps for the smallest signed integer.
    Abs,
    /// 1/x, floats only.
    Recip,
    /// Square root, floats only; NaN below zero.
    Sqrt,
    /// 2^x, floats only.
    Exp2,
    /// Base-2 logarithm, floats only.
    Log2,
    /// Sine in radians, floats only.
    Sin,
    /// Round towards zero, floats only.
    Trunc,
    /// Round down, floats only.
    Floor,
    /// Round up, floats only.
    Ceil,
    /// Round to nearest, ties to even, floats only.
    RoundEven,
}

impl Unary {
    /// A function that takes many machine operations rather than one or two.
    pub const fn is_function(self) -> bool {
        matches!(self, Unary::Exp2 | Unary::Log2 | Unary::Sin)
    }
}

/// Two-operand arithmetic. Operands have one type; comparisons give `Bool`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Binary {
    /// a + b.
    Add,
    /// a - b.
    Sub,
    /// a * b; `And` for `Bool`.
    Mul,
    /// a / b, floats only.
    FDiv,
    /// IEEE 754-2019 maximum: NaN propagates.
    Max,
    /// IEEE 754-2019 minimum: NaN propagates.
    Min,
    /// Integer division rounded down.
    FloorDiv,
    /// Integer remainder with the sign of the divisor: `a - floordiv(a, b) * b`; 0 when b is 0.
    FloorMod,
    /// Integer division rounded towards zero.
    TruncDiv,
    /// Remainder with the sign of the dividend; also floats (`fmod`). 0 when an integer b is 0.
    TruncMod,
    /// Bitwise and; logical for `Bool`.
    And,
    /// Bitwise or; logical for `Bool`.
    Or,
    /// Bitwise exclusive or; logical for `Bool`.
    Xor,
    /// Shift left; the count is taken as unsigned.
    Shl,
    /// Shift right, arithmetic for signed types; the count is taken as unsigned.
    Shr,
    /// a < b.
    Lt,
    /// a == b.
    Eq,
    /// a != b; true with NaN.
    Ne,
    /// a to the power b, floats only, as C's `pow`.
    Pow,
}

impl Binary {
    /// Comparison: the result is `Bool`.
    pub const fn is_compare(self) -> bool {
        matches!(self, Binary::Lt | Binary::Eq | Binary::Ne)
    }

    /// `a op b == b op a` for every type.
    pub const fn is_commutative(self) -> bool {
        matches!(
            self,
            Binary::Add
                | Binary::Mul
                | Binary::Max
                | Binary::Min
                | Binary::And
                | Binary::Or
                | Binary::Xor
                | Binary::Eq
                | Binary::Ne
        )
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
    /// Integer argument number `slot`, an `I64` known to lie in `min..=max`. `src: []`.
    Var {
        /// Position among the integer arguments of the kernel.
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
    Fence {
        /// How many values are for the next iteration.
        ahead: u16,
    },
    /// `a * b + c` of matrices by all lanes of a wave together, each of which has fragments of
    /// them: vectors along the ranges `va`, `vb` and `vc` of kind `Vec`; see [`MmaDesc`] for the
    /// element at each place. The lane is the work-item modulo the wave. `c` has no lanes, or those
    /// of `vc`, and the result those of `vc`. `src: [a, b, c, va, vb, vc]`.
    Mma(MmaDesc),
    /// The reduction of `value` over the ranges, all of a reduction kind. `src: [value, range...]`.
    Reduce(ReduceOp),
    /// The inclusive prefix reduction of `value` along one `Serial` range. `src: [value, range]`.
    Scan(ReduceOp),
    /// Writes element `index` of a pointer node, for each combination of the ranges that index,
    /// value and gate depend on. The node's type is that of the value.
    /// `src: [ptr, index, value]` or `[ptr, index, value, gate]`.
    Store(StoreMode),
    /// The root: `src: [store...]`.
    Sink,
}
