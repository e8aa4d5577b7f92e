//! Checks that a kernel is well-formed, after every pass in debug builds and in tests.

use hashbrown::HashSet;
use thiserror::Error;

use super::arith::{Binary, ReduceOp, Types, Unary};
use super::mma::MmaDesc;
use super::op::{Op, RangeKind, StoreMode};
use super::order::toposort;
use super::{Graph, Id, Kernel, RangeSets, print, scalar};
use crate::dtype::DType;

/// Why a kernel is not well-formed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum VerifyError {
    /// A node breaks the rules of its operation.
    #[error("kernel {kernel}: node {node}: {expected}; {found}")]
    Node {
        /// Name of the kernel.
        kernel: String,
        /// The node, printed.
        node: String,
        /// What the operation requires.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// The root is not a sink.
    #[error("kernel {kernel}: expected a Sink of stores as root, found {node}")]
    Root {
        /// Name of the kernel.
        kernel: String,
        /// The root, printed.
        node: String,
    },
    /// Two different ranges share an axis number.
    #[error(
        "kernel {kernel}: ranges {first} and {second} share axis {axis}; give each its own number"
    )]
    Axis {
        /// Name of the kernel.
        kernel: String,
        /// The number.
        axis: u32,
        /// One range.
        first: String,
        /// The other.
        second: String,
    },
    /// A reduction range reaches a store without a reduction that binds it.
    #[error("kernel {kernel}: store {node} depends on {range}, which is not bound by a Reduce")]
    Unbound {
        /// Name of the kernel.
        kernel: String,
        /// The store.
        node: String,
        /// The range.
        range: String,
    },
    /// A name that cannot be a symbol.
    #[error("invalid kernel name {name:?}; use letters, digits and '_'")]
    Name {
        /// The name.
        name: String,
    },
}

/// Checks operand counts and types of every reachable node, slots against the argument lists,
/// uniqueness of axes, and that every reduction range is bound.
///
/// # Errors
/// The first violation found, sources before users.
pub fn verify(kernel: &Kernel) -> Result<(), VerifyError> {
    let g = &kernel.graph;
    let name = &kernel.name;
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(VerifyError::Name { name: name.clone() });
    }
    if kernel.sink.0 as usize >= g.len() || g.op(kernel.sink) != Op::Sink {
        let known = (kernel.sink.0 as usize) < g.len();
        let node = if known {
            print::describe(g, kernel.sink)
        } else {
            format!("#{} of {} nodes", kernel.sink.0, g.len())
        };
        return Err(VerifyError::Root {
            kernel: name.clone(),
            node,
        });
    }
    let mut axes: hashbrown::HashMap<u32, Id> = hashbrown::HashMap::new();
    let mut bound: HashSet<Id> = HashSet::new();
    let order = toposort(g, kernel.sink);
    for &id in &order {
        check(kernel, id).map_err(|(expected, found)| VerifyError::Node {
            kernel: name.clone(),
            node: print::describe(g, id),
            expected,
            found,
        })?;
        match g.op(id) {
            Op::Range { axis, .. } => {
                if let Some(&first) = axes.get(&axis) {
                    return Err(VerifyError::Axis {
                        kernel: name.clone(),
                        axis,
                        first: print::describe(g, first),
                        second: print::describe(g, id),
                    });
                }
                axes.insert(axis, id);
            }
            Op::Reduce(_) => bound.extend(&g.src(id)[1..]),
            _ => {}
        }
    }
    let mut sets = RangeSets::build(g, kernel.sink);
    for &store in g.src(kernel.sink) {
        for &r in sets.of(g, store) {
            let reduction = matches!(g.op(r), Op::Range { kind, .. } if kind.is_reduction());
            if reduction || bound.contains(&r) {
                return Err(VerifyError::Unbound {
                    kernel: name.clone(),
                    node: print::describe(g, store),
                    range: print::describe(g, r),
                });
            }
        }
    }
    Ok(())
}

type Violation = (&'static str, String);

fn require(
    ok: bool,
    expected: &'static str,
    found: impl FnOnce() -> String,
) -> Result<(), Violation> {
    if ok { Ok(()) } else { Err((expected, found())) }
}

fn check(kernel: &Kernel, id: Id) -> Result<(), Violation> {
    let node = kernel.graph.node(id);
    let n = Checked {
        kernel,
        g: &kernel.graph,
        op: node.op,
        dtype: node.dtype,
        src: node.src.as_slice(),
    };
    n.sources()?;
    match n.op {
        Op::Const(bits) => n.constant(bits),
        Op::Param { slot } => n.param(slot),
        Op::Var { slot, min, max } => n.var(slot, min, max),
        Op::Range { extent, .. } => n.range(extent),
        Op::Unary(op) => n.unary(op),
        Op::Binary(op) => n.binary(op),
        Op::Where => n.select(),
        Op::Fma => n.fma(),
        Op::Dot => n.dot(),
        Op::Cast => n.count(&[1]),
        Op::Bitcast => n.bitcast(),
        Op::Load => n.load(),
        Op::Reduce(op) => n.reduce(op),
        Op::Scan(op) => n.scan(op),
        Op::Store(mode) => n.store(mode),
        Op::Check => n.check(),
        Op::Local { len, .. } => n.local(len),
        Op::Fence { early, .. } if early > 0 => n.copies(early),
        Op::Fence { ahead, .. } => n.fence(ahead),
        Op::Box { .. } => n.of_box(),
        Op::Operand(_) => n.place(),
        Op::Mma(d) => n.mma(&d),
        Op::Sink => n.sink(id),
    }
}

/// A node that is checked.
struct Checked<'a> {
    kernel: &'a Kernel,
    g: &'a Graph,
    op: Op,
    dtype: DType,
    src: &'a [Id],
}

/// What holds for more than one operation.
impl Checked<'_> {
    fn types(&self) -> String {
        let all: Vec<&str> = self.src.iter().map(|&s| self.g.dtype(s).name()).collect();
        format!("sources: ({}), result: {}", all.join(", "), self.dtype)
    }

    fn require(&self, ok: bool, expected: &'static str) -> Result<(), Violation> {
        require(ok, expected, || self.types())
    }

    fn count(&self, n: &[usize]) -> Result<(), Violation> {
        self.require(n.contains(&self.src.len()), "wrong number of sources")
    }

    fn is(&self, s: Id, t: DType) -> bool {
        self.g.dtype(s) == t
    }

    /// Whether sources have the type of the node.
    fn same(&self, ids: &[Id]) -> bool {
        ids.iter().all(|&s| self.is(s, self.dtype))
    }

    fn takes(&self, of: Types, dtype: DType) -> Result<(), Violation> {
        self.require(of.has(dtype), expected(of))
    }

    fn described(&self, ids: &[Id]) -> String {
        let all: Vec<String> = ids.iter().map(|&s| print::describe(self.g, s)).collect();
        all.join("; ")
    }

    /// Pointers, effects and fences are no values.
    fn sources(&self) -> Result<(), Violation> {
        let (g, src) = (self.g, self.src);
        for &s in src {
            let pointer = matches!(g.op(s), Op::Param { .. } | Op::Local { .. });
            let at_pointer = match self.op {
                Op::Load | Op::Store(_) | Op::Check | Op::Operand(_) => src[0] == s,
                Op::Box { .. } => src[0] == s || src.get(2) == Some(&s),
                _ => false,
            };
            self.require(!pointer || at_pointer, "a pointer is not a value")?;
            let effect = matches!(g.op(s), Op::Store(_) | Op::Box { .. } | Op::Sink);
            let stored = matches!(self.op, Op::Sink | Op::Fence { .. });
            self.require(!effect || stored, "a store is not a value")?;
            let fence = matches!(g.op(s), Op::Fence { .. });
            let local = matches!(self.op, Op::Local { .. });
            self.require(!fence || local, "a fence is not a value")?;
        }
        Ok(())
    }

    /// The pointer to elements of the node's type.
    fn pointer(&self, ptr: Id, dtype: DType) -> Result<(), Violation> {
        let memory = matches!(self.g.op(ptr), Op::Param { .. } | Op::Local { .. });
        require(
            memory && self.is(ptr, dtype),
            "the first source points to elements of the node's type",
            || print::describe(self.g, ptr),
        )
    }

    /// A buffer that is stored to is marked so.
    fn written(&self, ptr: Id) -> Result<(), Violation> {
        let Op::Param { slot } = self.g.op(ptr) else {
            return Ok(());
        };
        let info = self.kernel.params.get(slot as usize);
        require(
            info.is_some_and(|p| p.written),
            "the argument list must mark the buffer as written",
            || format!("slot {slot} is not marked"),
        )
    }

    fn reduce_type(&self, op: ReduceOp) -> Result<(), Violation> {
        let ok = op.binary().row().types.has(self.dtype);
        require(ok, "no bitwise reduction of floats", || {
            self.dtype.to_string()
        })
    }

    /// A store to local memory that nothing has filled.
    fn fills(&self, s: Id) -> bool {
        let g = self.g;
        g.op(s) == Op::Store(StoreMode::Set)
            && matches!(g.op(g.src(s)[0]), Op::Local { .. })
            && g.src(g.src(s)[0]).is_empty()
    }
}

/// Constants, arguments, ranges.
impl Checked<'_> {
    fn constant(&self, bits: u64) -> Result<(), Violation> {
        self.count(&[0])?;
        let dtype = self.dtype;
        let canonical = if dtype.is_float() {
            dtype.bits() == 64 || bits >> dtype.bits() == 0
        } else {
            let x = scalar::to_int(dtype, bits);
            scalar::from_int(dtype, x) == bits
        };
        require(
            canonical,
            "constant bits must be sign- or zero-extended as its type requires",
            || format!("{bits:#x} for {dtype}"),
        )
    }

    fn param(&self, slot: u16) -> Result<(), Violation> {
        self.count(&[0])?;
        let info = self.kernel.params.get(slot as usize);
        require(
            info.is_some_and(|p| p.dtype == self.dtype),
            "the argument list must contain this slot with this type",
            || format!("found {:?}", info.map(|p| p.dtype)),
        )
    }

    fn var(&self, slot: u16, min: i64, max: i64) -> Result<(), Violation> {
        self.count(&[0])?;
        let bounded = (min, max) != (i64::MIN, i64::MAX);
        self.require(
            self.dtype == DType::I64 || !bounded,
            "only an I64 variable has bounds",
        )?;
        let vars = self.kernel.vars;
        require(
            slot < vars && min <= max,
            "slot below the number of variables, min <= max",
            || format!("{vars} variables, {min}..={max}"),
        )
    }

    fn range(&self, extent: i64) -> Result<(), Violation> {
        self.count(&[0])?;
        self.require(self.dtype == DType::I64, "a range must be I64")?;
        require(
            extent >= 1,
            "a range must have at least one iteration",
            || format!("extent {extent}"),
        )
    }
}

/// Arithmetic.
impl Checked<'_> {
    fn unary(&self, op: Unary) -> Result<(), Violation> {
        self.count(&[1])?;
        self.require(
            self.same(self.src),
            "operand and result must have the same type",
        )?;
        self.takes(op.row().types, self.dtype)
    }

    fn binary(&self, op: Binary) -> Result<(), Violation> {
        self.count(&[2])?;
        let of = self.g.dtype(self.src[0]);
        self.require(self.is(self.src[1], of), "operands must have the same type")?;
        let result = if op.is_compare() { DType::Bool } else { of };
        self.require(
            self.dtype == result,
            "a comparison returns bool, other operations the operand type",
        )?;
        self.takes(op.row().types, of)
    }

    fn select(&self) -> Result<(), Violation> {
        self.count(&[3])?;
        let ok = self.is(self.src[0], DType::Bool) && self.same(&self.src[1..]);
        self.require(ok, "bool condition, arms of the result type")
    }

    fn fma(&self) -> Result<(), Violation> {
        self.count(&[3])?;
        let ok = self.same(self.src) && self.dtype != DType::Bool;
        self.require(ok, "three operands of the result type")
    }

    fn dot(&self) -> Result<(), Violation> {
        self.count(&[3])?;
        let ok = self.same(self.src) && self.dtype == DType::I32;
        self.require(ok, "three operands of four bytes, as the result")
    }

    fn bitcast(&self) -> Result<(), Violation> {
        self.count(&[1])?;
        let widths = self.g.dtype(self.src[0]).bits() == self.dtype.bits();
        self.require(widths, "source and result must have the same width")
    }

    fn reduce(&self, op: ReduceOp) -> Result<(), Violation> {
        let (g, src) = (self.g, self.src);
        let ok = src.len() >= 2 && self.is(src[0], self.dtype);
        self.require(ok, "a value of the result type and at least one range")?;
        let bound = &src[1..];
        let ranges = bound.iter().all(|&r| matches!(g.op(r), Op::Range { kind, .. } if kind.is_reduction() || kind == RangeKind::Vec));
        require(
            ranges,
            "the rest are ranges of a reduction kind, or lanes",
            || self.described(bound),
        )?;
        let distinct: HashSet<Id> = bound.iter().copied().collect();
        self.require(distinct.len() == bound.len(), "each range once")?;
        self.reduce_type(op)
    }

    fn scan(&self, op: ReduceOp) -> Result<(), Violation> {
        self.count(&[2])?;
        let serial = matches!(
            self.g.op(self.src[1]),
            Op::Range {
                kind: RangeKind::Serial,
                ..
            }
        );
        let ok = self.is(self.src[0], self.dtype) && serial;
        self.require(ok, "a value of the result type and a Serial range")?;
        self.reduce_type(op)
    }

    fn mma(&self, d: &MmaDesc) -> Result<(), Violation> {
        self.count(&[6])?;
        let (g, src) = (self.g, self.src);
        let places = src[..2].iter().all(|&s| matches!(g.op(s), Op::Operand(_)));
        self.require(
            places == d.in_memory(),
            "operands where the instruction reads them",
        )?;
        require(d.fragments.is_some(), "executed by a wave", || {
            "one of a single thread".into()
        })?;
        let [a, b] = d.operands;
        let ok = self.is(src[0], a) && self.is(src[1], b) && self.is(src[2], d.acc);
        self.require(
            ok && self.dtype == d.acc,
            "operands and result as described",
        )?;
        let lanes = d.elements();
        let vectors = src[3..].iter().zip(lanes).all(|(&v, n)| match g.op(v) {
            Op::Range { extent, kind, .. } => kind == RangeKind::Vec && extent == i64::from(n),
            Op::Const(0) => n == 1,
            _ => false,
        });
        require(
            vectors,
            "lanes for each element that a work-item holds",
            || format!("{lanes:?} elements"),
        )
    }
}

/// Memory.
impl Checked<'_> {
    fn load(&self) -> Result<(), Violation> {
        self.count(&[2, 4])?;
        let (g, src) = (self.g, self.src);
        self.pointer(src[0], self.dtype)?;
        let filled = !matches!(g.op(src[0]), Op::Local { .. }) || !g.src(src[0]).is_empty();
        self.require(filled, "local memory must be loaded after a fence")?;
        self.require(self.is(src[1], DType::I64), "the index must be I64")?;
        if let &[_, _, gate, alt] = src {
            let ok = self.is(gate, DType::Bool) && self.is(alt, self.dtype);
            self.require(ok, "bool gate, alternative of the result type")?;
        }
        Ok(())
    }

    fn store(&self, mode: StoreMode) -> Result<(), Violation> {
        self.count(&[3, 4])?;
        let src = self.src;
        self.pointer(src[0], self.dtype)?;
        let ok = self.is(src[1], DType::I64) && self.is(src[2], self.dtype);
        self.require(ok, "I64 index, value of the node's type")?;
        if let &[_, _, _, gate] = src {
            self.require(self.is(gate, DType::Bool), "bool gate")?;
        }
        self.written(src[0])?;
        match mode {
            StoreMode::Set => Ok(()),
            StoreMode::Combine(op) | StoreMode::Atomic(op) => self.reduce_type(op),
        }
    }

    fn check(&self) -> Result<(), Violation> {
        self.count(&[4])?;
        let src = self.src;
        self.pointer(src[0], DType::I64)?;
        let ok = self.is(src[1], self.dtype)
            && self.is(src[2], DType::I64)
            && self.is(src[3], DType::Bool);
        self.require(ok, "value of the node's type, I64 number, bool")?;
        let memory = matches!(self.g.op(src[0]), Op::Param { .. });
        self.require(memory, "the source must be an argument of the kernel")?;
        self.written(src[0])
    }

    fn local(&self, len: u32) -> Result<(), Violation> {
        self.count(&[0, 1])?;
        self.require(len >= 1, "a block of local memory must not be empty")?;
        let mut fences = self.src.iter().map(|&s| self.g.op(s));
        self.require(
            fences.all(|op| matches!(op, Op::Fence { .. })),
            "a block of local memory must be filled by a fence",
        )
    }

    /// A fence behind copies of which some are early.
    fn copies(&self, early: u8) -> Result<(), Violation> {
        let (g, src) = (self.g, self.src);
        let lists = usize::from(early) + 1;
        require(
            src.len() % lists == 0,
            "the number of copies must match between iterations",
            || format!("{} copies, {early} early", src.len()),
        )?;
        let copy = |&s: &Id| self.fills(s) && matches!(g.op(g.src(s)[2]), Op::Load | Op::Const(0));
        let boxes = src.iter().all(|&s| matches!(g.op(s), Op::Box { .. }));
        let ok = boxes || src.iter().all(copy);
        self.require(ok, "copies from memory to local memory")
    }

    fn fence(&self, ahead: u16) -> Result<(), Violation> {
        let src = self.src;
        let count = match ahead {
            0 => src.len(),
            n => usize::from(n),
        };
        let paired = src.len() == count + usize::from(ahead);
        require(paired, "a store for each value", || {
            format!("{} sources, {ahead} ahead", src.len())
        })?;
        let ok = src[..count].iter().all(|&s| self.fills(s));
        self.require(ok, "a fence takes stores to local memory")
    }

    fn of_box(&self) -> Result<(), Violation> {
        self.count(&[10, 13, 16, 19])?;
        let (g, src) = (self.g, self.src);
        self.pointer(src[0], self.dtype)?;
        self.pointer(src[2], self.dtype)?;
        let ends = matches!(g.op(src[0]), Op::Local { .. }) && g.src(src[0]).is_empty();
        let from = matches!(g.op(src[2]), Op::Param { .. });
        self.require(ends && from, "from a buffer to local memory")?;
        self.require(self.is(src[3], DType::Bool), "the gate must be Bool")?;
        let mut places = std::iter::once(src[1]).chain(src[4..].iter().copied());
        let index = places.all(|s| self.is(s, DType::I64));
        self.require(index, "indices must be I64")?;
        let known = |s: &[Id]| s[1..].iter().all(|&s| matches!(g.op(s), Op::Const(_)));
        let ok = src[4..].chunks_exact(3).all(known);
        self.require(ok, "counts and steps must be constants")
    }

    fn place(&self) -> Result<(), Violation> {
        self.count(&[2])?;
        let (g, src) = (self.g, self.src);
        self.pointer(src[0], self.dtype)?;
        let filled = matches!(g.op(src[0]), Op::Local { .. }) && !g.src(src[0]).is_empty();
        self.require(filled, "an index into local memory after a fence")?;
        self.require(self.is(src[1], DType::I64), "the index must be I64")
    }

    fn sink(&self, id: Id) -> Result<(), Violation> {
        let mut stores = self.src.iter().map(|&s| self.g.op(s));
        let ok = id == self.kernel.sink && stores.all(|op| matches!(op, Op::Store(_)));
        require(ok, "one sink, over stores", || self.described(self.src))
    }
}

const fn expected(types: Types) -> &'static str {
    match types {
        Types::Any => "defined for all types",
        Types::Numbers => "not defined for bool",
        Types::Bits => "not defined for floats",
        Types::Integers => "defined for integers only",
        Types::Floats => "defined for floats only",
    }
}
