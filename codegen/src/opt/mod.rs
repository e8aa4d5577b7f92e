//! The optimiser: decides how a kernel is run by splitting its ranges and giving them kinds. Every
//! step keeps the meaning of the kernel, so the interpreter still runs it.

pub mod contract;
pub(crate) mod gpu;
mod heuristic;
mod pad;

use std::fmt;

use hashbrown::HashMap;

use crate::error::{Error, Result};
use crate::ir::{Binary, Graph, Id, Kernel, Op, RangeKind, RangeSets, StoreMode};
use crate::rewrite::{simplify, substitute, toposort};
use crate::target::{Target, TargetKind};

/// One step. Axes are the numbers of [`Op::Range`]; a split keeps the number for the outer part.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Opt {
    /// The inner `lanes` iterations become lanes of a vector; the rest is peeled off.
    Vec {
        /// Which range.
        axis: u32,
        /// Number of lanes, a power of two.
        lanes: u32,
    },
    /// As `Vec` on an output range, but the rest is a vector too: the last `lanes` iterations, some of which run
    /// twice. The kernel must not write what it reads.
    Cover {
        /// Which range.
        axis: u32,
        /// Number of lanes, a power of two.
        lanes: u32,
    },
    /// The inner `n` iterations of an output range are replicated in registers.
    Upcast {
        /// Which range.
        axis: u32,
        /// How many copies.
        n: u32,
    },
    /// The inner `n` iterations of a reduction are replicated in the loop body.
    Unroll {
        /// Which range.
        axis: u32,
        /// How many copies.
        n: u32,
    },
    /// The inner `n` iterations of an output range are spread over work-items.
    Local {
        /// Which range.
        axis: u32,
        /// How many work-items.
        n: u32,
    },
    /// The inner `n` iterations of a reduction are spread over work-items.
    Group {
        /// Which range.
        axis: u32,
        /// How many work-items.
        n: u32,
    },
    /// Chunks of `chunk` iterations of an output range are spread over groups.
    Thread {
        /// Which range.
        axis: u32,
        /// Iterations per group.
        chunk: u32,
    },
    /// The range is rounded up; the added iterations have no effect.
    PadTo {
        /// Which range.
        axis: u32,
        /// The new extent is a multiple of this.
        multiple: u32,
    },
    /// Two output loops change places.
    Swap {
        /// One range.
        a: u32,
        /// The other one.
        b: u32,
    },
    /// Two loops become one, where every index allows it.
    Merge {
        /// The outer range, whose number is kept.
        outer: u32,
        /// The inner range.
        inner: u32,
    },
    /// The combining stores of a serial range become atomic and unordered, so the range can be distributed like
    /// other output ranges.
    Atomic {
        /// Which range.
        axis: u32,
    },
    /// A contraction goes through packed operands and a register tile.
    Pack(contract::Tile),
    /// A contraction goes through local memory, a block per group of work-items.
    Block(contract::Blocking),
}

impl fmt::Display for Opt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Opt::Vec { axis, lanes } => write!(f, "vec({axis}, {lanes})"),
            Opt::Cover { axis, lanes } => write!(f, "cover({axis}, {lanes})"),
            Opt::Upcast { axis, n } => write!(f, "upcast({axis}, {n})"),
            Opt::Unroll { axis, n } => write!(f, "unroll({axis}, {n})"),
            Opt::Local { axis, n } => write!(f, "local({axis}, {n})"),
            Opt::Group { axis, n } => write!(f, "group({axis}, {n})"),
            Opt::Thread { axis, chunk } => write!(f, "thread({axis}, {chunk})"),
            Opt::PadTo { axis, multiple } => write!(f, "padto({axis}, {multiple})"),
            Opt::Swap { a, b } => write!(f, "swap({a}, {b})"),
            Opt::Merge { outer, inner } => write!(f, "merge({outer}, {inner})"),
            Opt::Atomic { axis } => write!(f, "atomic({axis})"),
            Opt::Block(t) => t.fmt(f),
            Opt::Pack(t) => {
                write!(f, "pack({}x{}, k {}", t.rows, t.cols, t.depth)?;
                if t.bytes {
                    f.write_str(" words of bytes")?;
                }
                let direct = [
                    (t.direct_rows, ", rows as they are"),
                    (t.direct_cols, ", columns as they are"),
                ];
                for (_, text) in direct.iter().filter(|d| d.0) {
                    f.write_str(text)?;
                }
                f.write_str(")")
            }
        }
    }
}

/// A range of a kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RangeInfo {
    pub id: Id,
    pub axis: u32,
    pub extent: i64,
    pub kind: RangeKind,
}

/// The ranges below a node, by axis.
pub(crate) fn ranges(g: &Graph, root: Id) -> Vec<RangeInfo> {
    let mut found: Vec<RangeInfo> = toposort(g, root)
        .into_iter()
        .filter_map(|id| match g.op(id) {
            Op::Range { axis, extent, kind } => Some(RangeInfo {
                id,
                axis,
                extent,
                kind,
            }),
            _ => None,
        })
        .collect();
    found.sort_by_key(|r| r.axis);
    found
}

pub(crate) fn fresh(g: &Graph, root: Id) -> u32 {
    ranges(g, root).last().map_or(0, |r| r.axis + 1)
}

fn refuse<T>(kernel: &Kernel, opt: &Opt, why: impl Into<String>) -> Result<T> {
    Err(Error::Opt {
        kernel: kernel.name.clone(),
        opt: opt.to_string(),
        why: why.into(),
    })
}

fn find(kernel: &Kernel, opt: &Opt, axis: u32, kinds: &[RangeKind]) -> Result<RangeInfo> {
    match ranges(&kernel.graph, kernel.sink)
        .into_iter()
        .find(|r| r.axis == axis)
    {
        Some(r) if kinds.contains(&r.kind) => Ok(r),
        Some(r) => refuse(
            kernel,
            opt,
            format!("range {axis} is {:?}, expected {kinds:?}", r.kind),
        ),
        None => refuse(kernel, opt, format!("there is no range {axis}")),
    }
}

/// Optimises a kernel for a target; returns the applied steps.
pub fn optimise(kernel: &mut Kernel, target: &Target) -> Vec<Opt> {
    match target.kind {
        TargetKind::Cpu => heuristic::optimise(kernel, target),
        TargetKind::Gpu => gpu::optimise(kernel, target),
    }
}

/// Applies one step to a kernel. [`Opt::Pack`] and [`Opt::Block`] split a kernel into several, and are not
/// supported here.
pub fn apply(kernel: &mut Kernel, opt: &Opt) -> Result<()> {
    use RangeKind::{GroupReduce, Local, Loop, Reduce, Unroll, Upcast};
    match *opt {
        Opt::Vec { axis, lanes } | Opt::Cover { axis, lanes } => {
            vectorise(kernel, opt, axis, lanes)?;
        }
        Opt::Upcast { axis, n } => {
            let r = find(kernel, opt, axis, &[Loop])?;
            split(kernel, opt, r, i64::from(n), Upcast)?;
        }
        Opt::Unroll { axis, n } => {
            let r = find(kernel, opt, axis, &[Reduce])?;
            split(kernel, opt, r, i64::from(n), Unroll)?;
        }
        Opt::Local { axis, n } => {
            let r = find(kernel, opt, axis, &[Loop])?;
            if r.extent % i64::from(n) != 0 {
                return refuse(kernel, opt, "work-items need a divisible extent; pad first");
            }
            split(kernel, opt, r, i64::from(n), Local)?;
        }
        Opt::Group { axis, n } => {
            let r = find(kernel, opt, axis, &[Reduce])?;
            if r.extent % i64::from(n) != 0 {
                return refuse(kernel, opt, "work-items need a divisible extent; pad first");
            }
            split(kernel, opt, r, i64::from(n), GroupReduce)?;
        }
        Opt::Thread { axis, chunk } => thread(kernel, opt, axis, i64::from(chunk))?,
        Opt::PadTo { axis, multiple } => pad_to(kernel, opt, axis, multiple)?,
        Opt::Swap { a, b } => {
            let x = find(kernel, opt, a, &[Loop])?;
            let y = find(kernel, opt, b, &[Loop])?;
            let g = &mut kernel.graph;
            let map = HashMap::from_iter([
                (x.id, g.range(b, x.extent, Loop)),
                (y.id, g.range(a, y.extent, Loop)),
            ]);
            kernel.sink = substitute(g, kernel.sink, &map);
        }
        Opt::Merge { outer, inner } => {
            let a = find(kernel, opt, outer, &[Loop, Reduce])?;
            let b = find(kernel, opt, inner, &[Loop, Reduce])?;
            if !merge(kernel, a, b) {
                return refuse(kernel, opt, "an index uses the two ranges separately");
            }
            return Ok(());
        }
        Opt::Atomic { axis } => atomic(kernel, opt, axis)?,
        Opt::Pack(_) | Opt::Block(_) => {
            return refuse(kernel, opt, "the kernel is not a plain contraction");
        }
    }
    kernel.sink = simplify(&mut kernel.graph, kernel.sink);
    Ok(())
}

/// [`Opt::Vec`] and [`Opt::Cover`].
fn vectorise(kernel: &mut Kernel, opt: &Opt, axis: u32, lanes: u32) -> Result<()> {
    use RangeKind::{Loop, Reduce, Vec};
    let twice = matches!(opt, Opt::Cover { .. });
    let kinds: &[RangeKind] = if twice { &[Loop] } else { &[Loop, Reduce] };
    let r = find(kernel, opt, axis, kinds)?;
    if twice && !repeatable(&kernel.graph, kernel.sink) {
        return refuse(kernel, opt, "the kernel reads what it writes");
    }
    if !lanes.is_power_of_two() {
        return refuse(kernel, opt, "the number of lanes is not a power of two");
    }
    if atomics(&kernel.graph, kernel.sink, r.id) {
        return refuse(kernel, opt, "an atomic store cannot be vectorised");
    }
    if let Some(other) = lanes_beside(&kernel.graph, kernel.sink, r.id) {
        return refuse(
            kernel,
            opt,
            format!("a value depends on range {axis} and on vectorised range {other}"),
        );
    }
    let n = i64::from(lanes);
    if twice && r.extent > n && r.extent % n != 0 {
        let g = &mut kernel.graph;
        let next = fresh(g, kernel.sink);
        let (inner, last) = (g.range(next, n, Vec), g.range(next + 1, n, Vec));
        let whole = r.extent / n;
        let outer = (whole > 1).then(|| g.range(r.axis, whole, Loop));
        let main = pair(g, outer, n, inner);
        let start = g.index(r.extent - n);
        let tail = g.binary(Binary::Add, start, last);
        replace(kernel, r, main, Some(tail));
    } else {
        split(kernel, opt, r, n, Vec)?;
    }
    Ok(())
}

/// [`Opt::PadTo`].
fn pad_to(kernel: &mut Kernel, opt: &Opt, axis: u32, multiple: u32) -> Result<()> {
    let r = find(kernel, opt, axis, &[RangeKind::Loop, RangeKind::Reduce])?;
    if multiple == 0 {
        return refuse(kernel, opt, "cannot pad to a multiple of 0");
    }
    let extent = u64::try_from(r.extent)
        .ok()
        .and_then(|e| e.checked_next_multiple_of(u64::from(multiple)))
        .and_then(|e| i64::try_from(e).ok());
    let Some(extent) = extent else {
        return refuse(kernel, opt, "the padded extent is too large");
    };
    pad::pad(kernel, r, extent);
    Ok(())
}

/// Whether an atomic store depends on a range.
fn atomics(g: &Graph, sink: Id, range: Id) -> bool {
    let mut sets = RangeSets::default();
    g.src(sink)
        .iter()
        .any(|&s| matches!(g.op(s), Op::Store(StoreMode::Atomic(_))) && sets.depends(g, s, range))
}

/// Makes an output range of one that runs in order.
fn atomic(kernel: &mut Kernel, opt: &Opt, axis: u32) -> Result<()> {
    let r = find(kernel, opt, axis, &[RangeKind::Serial])?;
    let order = toposort(&kernel.graph, kernel.sink);
    let g = &kernel.graph;
    if kernel.ordered() {
        return refuse(kernel, opt, "several stores combine into one buffer");
    }
    let stores = g.src(kernel.sink).to_vec();
    let mut sets = RangeSets::default();
    for &n in &order {
        let why = match g.op(n) {
            Op::Scan(_) if g.src(n)[1] == r.id => "the range belongs to a scan",
            Op::Store(StoreMode::Set) if sets.depends(g, n, r.id) => {
                "the order of stores to one element matters"
            }
            Op::Load if stores.iter().any(|&s| g.src(s)[0] == g.src(n)[0]) => {
                "the kernel reads what it writes"
            }
            _ => continue,
        };
        return refuse(kernel, opt, why);
    }
    let stores: std::vec::Vec<Id> = stores
        .into_iter()
        .map(|s| {
            let g = &mut kernel.graph;
            match g.op(s) {
                Op::Store(StoreMode::Combine(op)) if sets.depends(g, s, r.id) => {
                    let src = g.src(s).to_vec();
                    let gate = src.get(3).copied();
                    g.store(StoreMode::Atomic(op), src[0], src[1], src[2], gate)
                }
                _ => s,
            }
        })
        .collect();
    let g = &mut kernel.graph;
    let sink = g.sink(&stores);
    let loose = g.range(r.axis, r.extent, RangeKind::Loop);
    kernel.sink = substitute(g, sink, &HashMap::from_iter([(r.id, loose)]));
    Ok(())
}

/// Whether any part of a kernel may run twice: no buffer is both read and written, and stores
/// replace what is there.
fn repeatable(g: &Graph, sink: Id) -> bool {
    let stores = g.src(sink);
    let plain = stores.iter().all(|&s| g.op(s) == Op::Store(StoreMode::Set));
    let written: std::vec::Vec<Id> = stores.iter().map(|&s| g.src(s)[0]).collect();
    plain
        && toposort(g, sink)
            .into_iter()
            .filter(|&n| matches!(g.op(n), Op::Load))
            .all(|n| !written.contains(&g.src(n)[0]))
}

/// The axis of a lane index that some value depends on together with `range`: one vector has one
/// lane index.
fn lanes_beside(g: &Graph, root: Id, range: Id) -> Option<u32> {
    let mut sets = RangeSets::default();
    let order = toposort(g, root);
    for lane in ranges(g, root) {
        if lane.kind != RangeKind::Vec {
            continue;
        }
        // The accumulator of a reduction depends on what is reduced over and on the value.
        let mut reads = |n: Id, r: Id| match g.op(n) {
            Op::Reduce(_) => g.src(n)[1..].contains(&r) || sets.depends(g, g.src(n)[0], r),
            Op::Sink => false,
            _ => sets.depends(g, n, r),
        };
        if order.iter().any(|&n| reads(n, range) && reads(n, lane.id)) {
            return Some(lane.axis);
        }
    }
    None
}

/// `outer * n + inner`; only `inner` where there is one outer iteration.
fn pair(g: &mut Graph, outer: Option<Id>, n: i64, inner: Id) -> Id {
    match outer {
        None => inner,
        Some(outer) => {
            let n = g.index(n);
            let scaled = g.binary(Binary::Mul, outer, n);
            g.binary(Binary::Add, scaled, inner)
        }
    }
}

/// Splits a range by `n`; the inner part gets `kind`. What does not divide becomes a tail: a store
/// or a reduction of its own.
fn split(kernel: &mut Kernel, opt: &Opt, r: RangeInfo, n: i64, kind: RangeKind) -> Result<()> {
    if n < 1 || n > r.extent {
        return refuse(
            kernel,
            opt,
            format!("range {} has {} iterations", r.axis, r.extent),
        );
    }
    let next = fresh(&kernel.graph, kernel.sink);
    let g = &mut kernel.graph;
    let inner = g.range(next, n, kind);
    let whole = r.extent / n;
    let outer = (whole > 1).then(|| g.range(r.axis, whole, r.kind));
    let main = pair(g, outer, n, inner);
    let rest = r.extent % n;
    let tail = (rest > 0).then(|| {
        let offset = g.index(whole * n);
        let t = g.range(next + 1, rest, r.kind);
        g.binary(Binary::Add, offset, t)
    });
    replace(kernel, r, main, tail);
    Ok(())
}

/// Replaces a range by `main`; if there is a `tail`, the kernel does both.
fn replace(kernel: &mut Kernel, r: RangeInfo, main: Id, tail: Option<Id>) {
    let g = &mut kernel.graph;
    let main = HashMap::from_iter([(r.id, main)]);
    let Some(tail) = tail else {
        kernel.sink = substitute(g, kernel.sink, &main);
        return;
    };
    let tail = HashMap::from_iter([(r.id, tail)]);
    if r.kind.is_reduction() {
        let mut done = HashMap::new();
        for n in toposort(g, kernel.sink) {
            if let Op::Reduce(op) = g.op(n)
                && g.src(n)[1..].contains(&r.id)
            {
                let a = substitute(g, n, &main);
                let b = substitute(g, n, &tail);
                let both = g.binary(op.binary(), a, b);
                done.insert(n, both);
            }
        }
        kernel.sink = substitute(g, kernel.sink, &done);
        return;
    }
    let mut sets = RangeSets::default();
    let mut stores = Vec::new();
    for s in g.src(kernel.sink).to_vec() {
        if sets.depends(g, s, r.id) {
            stores.push(substitute(g, s, &main));
            stores.push(substitute(g, s, &tail));
        } else {
            stores.push(s);
        }
    }
    kernel.sink = g.sink(&stores);
}

/// Spreads an output range over groups, together with the groups that are there already.
fn thread(kernel: &mut Kernel, opt: &Opt, axis: u32, chunk: i64) -> Result<()> {
    let r = find(kernel, opt, axis, &[RangeKind::Loop])?;
    if chunk < 1 || chunk > r.extent {
        return refuse(
            kernel,
            opt,
            format!("range {axis} has {} iterations", r.extent),
        );
    }
    let all = ranges(&kernel.graph, kernel.sink);
    let old = all.iter().find(|x| x.kind == RangeKind::Global).copied();
    let next = fresh(&kernel.graph, kernel.sink);
    let groups = r.extent / chunk;
    let g = &mut kernel.graph;
    // The group comes first: the first group range keeps its place as the slow one.
    let Some(total) = groups.checked_mul(old.map_or(1, |o| o.extent)) else {
        return refuse(kernel, opt, "too many groups");
    };
    let global = g.range(old.map_or(next, |o| o.axis), total, RangeKind::Global);
    let mut group = global;
    if let Some(o) = old {
        let n = g.index(groups);
        let slow = g.binary(Binary::FloorDiv, global, n);
        group = g.binary(Binary::FloorMod, global, n);
        kernel.sink = substitute(g, kernel.sink, &HashMap::from_iter([(o.id, slow)]));
    }
    let main = if chunk == 1 {
        group
    } else {
        let inner = g.range(axis, chunk, RangeKind::Loop);
        pair(g, Some(group), chunk, inner)
    };
    let rest = r.extent % chunk;
    let tail = (rest > 0).then(|| {
        let offset = g.index(groups * chunk);
        let t = g.range(next + 1, rest, RangeKind::Loop);
        g.binary(Binary::Add, offset, t)
    });
    replace(kernel, r, main, tail);
    Ok(())
}

fn divisions(g: &Graph, root: Id) -> usize {
    toposort(g, root)
        .into_iter()
        .filter(|&n| matches!(g.op(n), Op::Binary(Binary::FloorDiv | Binary::FloorMod)))
        .count()
}

/// Makes one range of two if no index needs them apart and nothing depends on one of them only.
pub(crate) fn merge(kernel: &mut Kernel, a: RangeInfo, b: RangeInfo) -> bool {
    if a.kind != b.kind || a.id == b.id {
        return false;
    }
    let Some(extent) = a.extent.checked_mul(b.extent) else {
        return false;
    };
    let g = &mut kernel.graph;
    let mut sets = RangeSets::default();
    for n in toposort(g, kernel.sink) {
        let root = match g.op(n) {
            Op::Reduce(_) | Op::Store(_) => n,
            _ => continue,
        };
        if let Op::Reduce(_) = g.op(root) {
            let list = &g.src(root)[1..];
            if list.contains(&a.id) != list.contains(&b.id) {
                return false;
            }
        }
        let one = sets.depends(g, root, a.id);
        let other = sets.depends(g, root, b.id);
        if one != other {
            return false;
        }
    }
    let before = divisions(g, kernel.sink);
    let both = g.range(a.axis, extent, a.kind);
    let n = g.index(b.extent);
    let slow = g.binary(Binary::FloorDiv, both, n);
    let fast = g.binary(Binary::FloorMod, both, n);
    let map = HashMap::from_iter([(a.id, slow), (b.id, fast)]);
    let merged = substitute(g, kernel.sink, &map);
    let merged = simplify(g, merged);
    if divisions(g, merged) > before {
        return false;
    }
    kernel.sink = merged;
    true
}
