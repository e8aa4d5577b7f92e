//! Checks that a kernel is well-formed, after every pass in debug builds and in tests.

use hashbrown::HashSet;
use thiserror::Error;

use super::arith::{ReduceOp, Types};
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
    let g = &kernel.graph;
    let node = g.node(id);
    let (dtype, src) = (node.dtype, node.src.as_slice());
    let types = || {
        let all: Vec<&str> = src.iter().map(|&s| g.dtype(s).name()).collect();
        format!("sources: ({}), result: {dtype}", all.join(", "))
    };
    let same = |ids: &[Id]| ids.iter().all(|&s| g.dtype(s) == dtype);
    let count = |n: &[usize]| require(n.contains(&src.len()), "wrong number of sources", types);
    let is = |s: Id, t: DType| g.dtype(s) == t;
    let takes = |of: Types, dtype| require(of.has(dtype), expected(of), types);
    for &s in src {
        let pointer = matches!(g.op(s), Op::Param { .. } | Op::Local { .. });
        let at_pointer = match node.op {
            Op::Load | Op::Store(_) | Op::Check | Op::Place(_) => src[0] == s,
            Op::Box { .. } => src[0] == s || src.get(2) == Some(&s),
            _ => false,
        };
        require(!pointer || at_pointer, "a pointer is not a value", types)?;
        let effect = matches!(g.op(s), Op::Store(_) | Op::Box { .. } | Op::Sink);
        let stored = matches!(node.op, Op::Sink | Op::Fence { .. });
        require(!effect || stored, "a store is not a value", types)?;
        let fence = matches!(g.op(s), Op::Fence { .. });
        let local = matches!(node.op, Op::Local { .. });
        require(!fence || local, "a fence is not a value", types)?;
    }
    match node.op {
        Op::Const(bits) => {
            count(&[0])?;
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
        Op::Param { slot } => {
            count(&[0])?;
            let info = kernel.params.get(slot as usize);
            require(
                info.is_some_and(|p| p.dtype == dtype),
                "the argument list must contain this slot with this type",
                || format!("found {:?}", info.map(|p| p.dtype)),
            )
        }
        Op::Var { slot, min, max } => {
            count(&[0])?;
            require(
                dtype == DType::I64 || (min, max) == (i64::MIN, i64::MAX),
                "only an I64 variable has bounds",
                types,
            )?;
            require(
                slot < kernel.vars && min <= max,
                "slot below the number of variables, min <= max",
                || format!("{} variables, {min}..={max}", kernel.vars),
            )
        }
        Op::Range { extent, .. } => {
            count(&[0])?;
            require(dtype == DType::I64, "a range must be I64", types)?;
            require(
                extent >= 1,
                "a range must have at least one iteration",
                || format!("extent {extent}"),
            )
        }
        Op::Unary(op) => {
            count(&[1])?;
            require(
                same(src),
                "operand and result must have the same type",
                types,
            )?;
            takes(op.row().types, dtype)
        }
        Op::Binary(op) => {
            count(&[2])?;
            let of = g.dtype(src[0]);
            require(is(src[1], of), "operands must have the same type", types)?;
            let result = if op.is_compare() { DType::Bool } else { of };
            require(
                dtype == result,
                "a comparison returns bool, other operations the operand type",
                types,
            )?;
            takes(op.row().types, of)
        }
        Op::Where => {
            count(&[3])?;
            let ok = is(src[0], DType::Bool) && same(&src[1..]);
            require(ok, "bool condition, arms of the result type", types)
        }
        Op::Fma => {
            count(&[3])?;
            let ok = same(src) && dtype != DType::Bool;
            require(ok, "three operands of the result type", types)
        }
        Op::Dot => {
            count(&[3])?;
            let ok = same(src) && dtype == DType::I32;
            require(ok, "three operands of four bytes, as the result", types)
        }
        Op::Cast => count(&[1]),
        Op::Bitcast => {
            count(&[1])?;
            let widths = g.dtype(src[0]).bits() == dtype.bits();
            require(widths, "source and result must have the same width", types)
        }
        Op::Load => {
            count(&[2, 4])?;
            pointer(g, src[0], dtype)?;
            let filled = !matches!(g.op(src[0]), Op::Local { .. }) || !g.src(src[0]).is_empty();
            require(filled, "local memory must be loaded after a fence", types)?;
            require(is(src[1], DType::I64), "the index must be I64", types)?;
            if let &[_, _, gate, alt] = src {
                let ok = is(gate, DType::Bool) && is(alt, dtype);
                require(ok, "bool gate, alternative of the result type", types)?;
            }
            Ok(())
        }
        Op::Reduce(op) => {
            let ok = src.len() >= 2 && is(src[0], dtype);
            require(
                ok,
                "a value of the result type and at least one range",
                types,
            )?;
            let ranges = src[1..]
                .iter()
                .all(|&r| matches!(g.op(r), Op::Range { kind, .. } if kind.is_reduction() || kind == RangeKind::Vec));
            require(
                ranges,
                "the rest are ranges of a reduction kind, or lanes",
                || {
                    src[1..]
                        .iter()
                        .map(|&r| print::describe(g, r))
                        .collect::<Vec<_>>()
                        .join("; ")
                },
            )?;
            let distinct: HashSet<Id> = src[1..].iter().copied().collect();
            require(distinct.len() == src.len() - 1, "each range once", types)?;
            reduce_type(op, dtype)
        }
        Op::Scan(op) => {
            count(&[2])?;
            let serial = matches!(
                g.op(src[1]),
                Op::Range {
                    kind: RangeKind::Serial,
                    ..
                }
            );
            let ok = is(src[0], dtype) && serial;
            require(ok, "a value of the result type and a Serial range", types)?;
            reduce_type(op, dtype)
        }
        Op::Store(mode) => {
            count(&[3, 4])?;
            pointer(g, src[0], dtype)?;
            let ok = is(src[1], DType::I64) && is(src[2], dtype);
            require(ok, "I64 index, value of the node's type", types)?;
            if let &[_, _, _, gate] = src {
                require(is(gate, DType::Bool), "bool gate", types)?;
            }
            written(kernel, src[0])?;
            match mode {
                StoreMode::Set => Ok(()),
                StoreMode::Combine(op) | StoreMode::Atomic(op) => reduce_type(op, dtype),
            }
        }
        Op::Check => {
            count(&[4])?;
            pointer(g, src[0], DType::I64)?;
            let ok = is(src[1], dtype) && is(src[2], DType::I64) && is(src[3], DType::Bool);
            require(ok, "value of the node's type, I64 number, bool", types)?;
            let memory = matches!(g.op(src[0]), Op::Param { .. });
            require(
                memory,
                "the source must be an argument of the kernel",
                types,
            )?;
            written(kernel, src[0])
        }
        Op::Local { len, .. } => {
            count(&[0, 1])?;
            require(len >= 1, "a block of local memory must not be empty", types)?;
            let ok = src.iter().all(|&s| matches!(g.op(s), Op::Fence { .. }));
            require(
                ok,
                "a block of local memory must be filled by a fence",
                types,
            )
        }
        Op::Fence { early, .. } if early > 0 => {
            let lists = usize::from(early) + 1;
            require(
                src.len() % lists == 0,
                "the number of copies must match between iterations",
                || format!("{} copies, {early} early", src.len()),
            )?;
            let copy = |&s: &Id| {
                g.op(s) == Op::Store(StoreMode::Set)
                    && matches!(g.op(g.src(s)[2]), Op::Load | Op::Const(0))
                    && matches!(g.op(g.src(s)[0]), Op::Local { .. })
                    && g.src(g.src(s)[0]).is_empty()
            };
            let boxes = src.iter().all(|&s| matches!(g.op(s), Op::Box { .. }));
            let ok = boxes || src.iter().all(copy);
            require(ok, "copies from memory to local memory", types)
        }
        Op::Fence { ahead, .. } => {
            let count = match ahead {
                0 => src.len(),
                n => usize::from(n),
            };
            let paired = src.len() == count + usize::from(ahead);
            require(paired, "a store for each value", || {
                format!("{} sources, {ahead} ahead", src.len())
            })?;
            let own = |&s: &Id| {
                g.op(s) == Op::Store(StoreMode::Set)
                    && matches!(g.op(g.src(s)[0]), Op::Local { .. })
                    && g.src(g.src(s)[0]).is_empty()
            };
            let ok = src[..count].iter().all(own);
            require(ok, "a fence takes stores to local memory", types)
        }
        Op::Box { .. } => {
            count(&[10, 13, 16, 19])?;
            pointer(g, src[0], dtype)?;
            pointer(g, src[2], dtype)?;
            let ends = matches!(g.op(src[0]), Op::Local { .. }) && g.src(src[0]).is_empty();
            let from = matches!(g.op(src[2]), Op::Param { .. });
            require(ends && from, "from a buffer to local memory", types)?;
            require(is(src[3], DType::Bool), "the gate must be Bool", types)?;
            let places = std::iter::once(src[1]).chain(src[4..].iter().copied());
            let index = places.into_iter().all(|s| is(s, DType::I64));
            require(index, "indices must be I64", types)?;
            let known = |s: &[Id]| s[1..].iter().all(|&s| matches!(g.op(s), Op::Const(_)));
            let ok = src[4..].chunks_exact(3).all(known);
            require(ok, "counts and steps must be constants", types)
        }
        Op::Place(_) => {
            count(&[2])?;
            pointer(g, src[0], dtype)?;
            let filled = matches!(g.op(src[0]), Op::Local { .. }) && !g.src(src[0]).is_empty();
            require(filled, "an index into local memory after a fence", types)?;
            require(is(src[1], DType::I64), "the index must be I64", types)
        }
        Op::Mma(d) => {
            count(&[6])?;
            let places = src[..2].iter().all(|&s| matches!(g.op(s), Op::Place(_)));
            require(
                places == d.in_memory(),
                "operands where the instruction reads them",
                types,
            )?;
            require(d.fragments.is_some(), "executed by a wave", || {
                "one of a single thread".into()
            })?;
            let ok = is(src[0], d.operands[0]) && is(src[1], d.operands[1]) && is(src[2], d.acc);
            require(
                ok && dtype == d.acc,
                "operands and result as described",
                types,
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
        Op::Sink => {
            let ok = id == kernel.sink && src.iter().all(|&s| matches!(g.op(s), Op::Store(_)));
            require(ok, "one sink, over stores", || {
                src.iter()
                    .map(|&s| print::describe(g, s))
                    .collect::<Vec<_>>()
                    .join("; ")
            })
        }
    }
}

/// A buffer that is stored to is marked so.
fn written(kernel: &Kernel, ptr: Id) -> Result<(), Violation> {
    let Op::Param { slot } = kernel.graph.op(ptr) else {
        return Ok(());
    };
    let written = kernel.params.get(slot as usize).is_some_and(|p| p.written);
    require(
        written,
        "the argument list must mark the buffer as written",
        || format!("slot {slot} is not marked"),
    )
}

fn pointer(g: &Graph, ptr: Id, dtype: DType) -> Result<(), Violation> {
    let memory = matches!(g.op(ptr), Op::Param { .. } | Op::Local { .. });
    let ok = memory && g.dtype(ptr) == dtype;
    require(
        ok,
        "the first source points to elements of the node's type",
        || print::describe(g, ptr),
    )
}

fn reduce_type(op: ReduceOp, dtype: DType) -> Result<(), Violation> {
    let ok = op.binary().row().types.has(dtype);
    require(ok, "no bitwise reduction of floats", || dtype.to_string())
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
