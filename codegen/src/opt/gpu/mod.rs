//! Optimisation steps for GPUs: neighbours in memory go to neighbouring work-items, reductions that are long or
//! whose outputs are few go to all work-items of a group, everything else that is independent becomes groups.

mod shape;
mod split;

use hashbrown::HashMap;

use self::shape::{Reduction, Shape, accesses, reduces_below, vector_of};
use super::contract::{Contraction, StageKernel, Staged, blocks};
use super::heuristic::merge_all;
use super::{Opt, RangeInfo, apply, ranges};
use crate::ir::{Id, Kernel, Op, RangeKind, RangeSets, ReduceOp, StoreMode};
use crate::rewrite::toposort;
use crate::target::Target;

/// Work-items of a group that are wanted: some waves for each scheduler of a compute unit.
const ITEMS: i64 = 256;
/// Iterations of a reduction from which it is worth the barriers of a group.
const MIN_GROUPED: i64 = 64;
/// Combinations one after the other from which it is worth giving up their order.
const MIN_LOOSE: i64 = 16;
/// Waves per compute unit that hide the latency of memory.
const WAVES: i64 = 16;

/// The kernels that a kernel becomes before its loops are shared out, with the scratch memory
/// between them and the steps of the first one.
pub(crate) fn plan(kernel: &Kernel, target: &Target) -> (Staged, Vec<Opt>) {
    let mut all = Staged {
        stages: Vec::new(),
        scratch: Vec::new(),
    };
    let mut opts = Vec::new();
    let mut params = kernel.params.clone();
    for mut part in parts(kernel) {
        part.params.clone_from(&params);
        let block = Contraction::find(&part)
            .and_then(|c| Some((c.choose_block(&part.graph, target)?, c)))
            .and_then(|(t, c)| Some((blocks(&part, &c.oriented(t.swap), t)?, t)));
        let staged = match block {
            Some((staged, t)) => {
                if all.stages.is_empty() {
                    opts.push(Opt::Block(t));
                }
                staged
            }
            None => split::stages(&part, target).unwrap_or_else(|| Staged {
                stages: vec![StageKernel {
                    kernel: part,
                    fixed: false,
                }],
                scratch: Vec::new(),
            }),
        };
        if let Some(last) = staged.stages.last() {
            params.clone_from(&last.kernel.params);
        }
        all.stages.extend(staged.stages);
        all.scratch.extend(staged.scratch);
    }
    (all, opts)
}

/// Optimises a kernel for a GPU; gives the steps that were taken.
pub(crate) fn optimise(kernel: &mut Kernel, target: &Target) -> Vec<Opt> {
    let mut steps = Steps {
        kernel,
        done: Vec::new(),
    };
    steps.loosen(target);
    merge_all(steps.kernel, &mut steps.done);
    if !steps.kernel.ordered()
        && let Some(shape) = Shape::of(steps.kernel)
    {
        let items = ITEMS.min(target.max_items as i64).max(1);
        match shape.reduction {
            Some(_) => steps.reduction(&shape, target, items),
            None => steps.elements(&shape, target, items),
        }
    }
    steps.done
}

struct Steps<'k> {
    kernel: &'k mut Kernel,
    done: Vec<Opt>,
}

impl Steps<'_> {
    fn take(&mut self, opt: Opt) -> bool {
        let ok = apply(self.kernel, &opt).is_ok();
        if ok {
            self.done.push(opt);
        }
        ok
    }

    /// Gives up the order of combining stores where the work-items that keep it are few. The result
    /// is the same for what is exact, and taken as soon as it pays. Sums and products of floats
    /// keep their order while each compute unit has a wave without giving it up, and where they
    /// must ([`Target::any_order`]).
    fn loosen(&mut self, target: &Target) {
        let g = &self.kernel.graph;
        let mut sets = RangeSets::default();
        let all = ranges(g, self.kernel.sink);
        let full = target.cores as i64 * target.wave as i64;
        let (mut axes, mut kept) = (Vec::new(), Vec::new());
        for &s in g.src(self.kernel.sink) {
            let Op::Store(StoreMode::Combine(op)) = g.op(s) else {
                continue;
            };
            let of = |kind, sets: &mut RangeSets| -> Vec<RangeInfo> {
                let own = all.iter().filter(|r| r.kind == kind);
                own.filter(|r| sets.depends(g, s, r.id)).copied().collect()
            };
            let count =
                |list: &[RangeInfo]| list.iter().fold(1i64, |n, r| n.saturating_mul(r.extent));
            let exact = !g.dtype(s).is_float() || matches!(op, ReduceOp::Max | ReduceOp::Min);
            let (serial, apart) = (
                of(RangeKind::Serial, &mut sets),
                of(RangeKind::Loop, &mut sets),
            );
            let enough = if exact { full * WAVES / 2 } else { full };
            let pays = count(&serial) >= MIN_LOOSE && count(&apart) < enough;
            let serial = serial.iter().map(|r| r.axis);
            let has = target.atomics.has(op, g.dtype(s));
            if pays && has && (exact || target.any_order) {
                axes.extend(serial);
            } else if !exact || !has {
                kept.extend(serial);
            }
        }
        axes.sort_unstable();
        axes.dedup();
        axes.retain(|axis| !kept.contains(axis));
        for axis in axes {
            self.take(Opt::Atomic { axis });
        }
    }

    fn extent(&self, axis: u32) -> i64 {
        ranges(&self.kernel.graph, self.kernel.sink)
            .iter()
            .find(|r| r.axis == axis)
            .map_or(1, |r| r.extent)
    }

    fn pad(&mut self, axis: u32, multiple: i64) -> bool {
        let multiple32 = u32::try_from(multiple).unwrap_or(1);
        self.extent(axis) % multiple == 0
            || self.take(Opt::PadTo {
                axis,
                multiple: multiple32,
            })
    }

    /// Spreads an output range over up to `most` work-items; gives how many they are.
    fn local(&mut self, axis: u32, most: i64) -> i64 {
        let n = spread(self.extent(axis), most);
        if n <= 1 || !self.pad(axis, n) {
            return 1;
        }
        let Ok(n32) = u32::try_from(n) else { return 1 };
        if self.take(Opt::Local { axis, n: n32 }) {
            n
        } else {
            1
        }
    }

    /// All that is left of the output ranges becomes groups, the given one the fastest.
    fn groups(&mut self, shape: &Shape) {
        let last = shape.outputs.iter().filter(|r| Some(r.axis) == shape.fast);
        let first = shape.outputs.iter().filter(|r| Some(r.axis) != shape.fast);
        for r in first.chain(last) {
            self.take(Opt::Thread {
                axis: r.axis,
                chunk: 1,
            });
        }
    }

    fn elements(&mut self, shape: &Shape, target: &Target, items: i64) {
        let Some(fast) = shape.fast else { return };
        let enough = target.cores as i64 * target.wave as i64 * WAVES / 2;
        let mut vector = shape.vector;
        while vector > 1 && shape.count() / vector < enough {
            vector /= 2;
        }
        if vector > 1 {
            let lanes = vector as u32;
            self.take(Opt::Vec { axis: fast, lanes });
        }
        let items = few(shape.count() / vector.max(1), target, items);
        // Where something else has its neighbours along another axis, a square of both.
        let square = shape.other.filter(|_| self.extent(fast) >= 32);
        let most = match square {
            Some(_) => (target.wave as i64).min(items),
            None => items,
        };
        let mut left = items / self.local(fast, most.min(items)).max(1);
        let others = square.into_iter().chain(
            shape
                .outputs
                .iter()
                .rev()
                .map(|r| r.axis)
                .filter(|&a| a != fast && Some(a) != square),
        );
        for axis in others {
            if left <= 1 {
                break;
            }
            left /= self.local(axis, left);
        }
        self.groups(shape);
    }

    fn reduction(&mut self, shape: &Shape, target: &Target, items: i64) {
        let Some(r) = &shape.reduction else { return };
        let wave = target.wave as i64;
        let count = shape.count();
        let enough = target.cores as i64 * wave * WAVES / 2;
        let local = (target.max_local_bytes as i64 / r.bytes.max(1)).max(1);
        let fits = items.min(floor_power(local));
        let rows = !shape.inner.is_empty();
        let grouped = fits >= 2
            && (rows && r.length > 1
                || r.length >= MIN_GROUPED && (r.along.is_some() || count < enough));
        if !grouped {
            let items = few(count, target, items);
            self.item_reduction(shape, r, items, enough);
            return;
        }
        // Work-items along the reductions: as many as there are vectors of it, up to a group; the
        // rest of the group along the outputs.
        let across = r.along.is_none() && !rows;
        let vector = if across { 1 } else { 4 };
        let wanted = if across {
            // Outputs keep the neighbours; eight partial sums for each of them.
            (fits / wave.min(count).max(1)).clamp(1, 16)
        } else {
            ceil_power(r.length / vector).clamp(1, fits)
        };
        let n = floor_power(wanted);
        let left = fits / n;
        if across && let Some(fast) = shape.fast {
            self.local(fast, left.min(wave));
        }
        for &axis in &r.ranges {
            self.share(axis, n, vector, items);
        }
        for range in &shape.inner {
            // The last of the inner ranges is the one with the neighbours.
            if Some(range.axis) == shape.inner.last().map(|r| r.axis) {
                self.local_exactly(range.axis, n, items);
            }
        }
        if !across
            && left > 1
            && count >= enough
            && let Some(fast) = shape.fast
        {
            self.within(items, |s| {
                s.local(fast, left);
            });
        }
        self.groups(shape);
    }

    /// Spreads a reduced range over `n` work-items, in vectors where they divide it.
    fn share(&mut self, axis: u32, n: i64, vector: i64, most: i64) {
        let extent = self.extent(axis);
        let g = &self.kernel.graph;
        let range = ranges(g, self.kernel.sink)
            .into_iter()
            .find(|r| r.axis == axis);
        let Some(range) = range else { return };
        let mut sets = RangeSets::default();
        let loads: Vec<Id> = reduces_below(g, self.kernel.sink)
            .into_iter()
            .filter(|&m| g.src(m)[1..].contains(&range.id))
            .flat_map(|m| accesses(g, g.src(m)[0]))
            .collect();
        let lanes = vector_of(g, &mut sets, &loads, range).min(vector);
        if lanes > 1 && extent / lanes >= n {
            let lanes = lanes as u32;
            self.take(Opt::Vec { axis, lanes });
        }
        self.within(most, |s| {
            if n > 1 && s.pad(axis, n) {
                let n = n as u32;
                s.take(Opt::Group { axis, n });
            }
        });
        if self.extent(axis) % 2 == 0 && self.extent(axis) >= 4 {
            self.take(Opt::Unroll { axis, n: 2 });
        }
    }

    fn local_exactly(&mut self, axis: u32, n: i64, most: i64) {
        self.within(most, |s| {
            if n > 1 && s.pad(axis, n) {
                let n = n as u32;
                s.take(Opt::Local { axis, n });
            }
        });
    }

    /// Takes steps, and takes them back if a group has more work-items than there may be then.
    fn within(&mut self, most: i64, steps: impl FnOnce(&mut Self)) {
        let (kernel, done) = (self.kernel.clone(), self.done.len());
        steps(self);
        if items(self.kernel) > most {
            *self.kernel = kernel;
            self.done.truncate(done);
        }
    }

    /// Each work-item reduces for outputs of its own.
    fn item_reduction(&mut self, shape: &Shape, r: &Reduction, items: i64, enough: i64) {
        if let Some(axis) = r.shared {
            let copies = [4, 2]
                .into_iter()
                .find(|n| self.extent(axis) % n == 0 && shape.count() / n >= enough);
            if let Some(n) = copies {
                let n = n as u32;
                self.take(Opt::Upcast { axis, n });
            }
        }
        let mut left = items;
        let fast = shape.fast.into_iter();
        let rest = shape.outputs.iter().rev().map(|r| r.axis);
        for axis in fast.chain(rest.filter(|&a| Some(a) != shape.fast)) {
            if left <= 1 {
                break;
            }
            left /= self.local(axis, left);
        }
        if let Some(axis) = r.along.or(r.ranges.first().copied()) {
            let n = [4u32, 3, 2]
                .into_iter()
                .find(|&n| self.extent(axis) % i64::from(n) == 0);
            if let Some(n) = n {
                self.take(Opt::Unroll { axis, n });
            }
        }
        self.groups(shape);
    }
}

/// Work-items of a group: ranges that never meet in a value share a dimension, as in the lowering.
fn items(kernel: &Kernel) -> i64 {
    let g = &kernel.graph;
    let mut sets = RangeSets::default();
    let order = toposort(g, kernel.sink);
    let mut dims: Vec<(i64, Vec<Id>)> = Vec::new();
    for r in ranges(g, kernel.sink) {
        if !matches!(r.kind, RangeKind::Local | RangeKind::GroupReduce) {
            continue;
        }
        let mut met: Vec<Id> = Vec::new();
        for &n in &order {
            let mut set = match g.op(n) {
                Op::Reduce(_) => sets.of(g, g.src(n)[0]).to_vec(),
                _ => sets.of(g, n).to_vec(),
            };
            if let Op::Reduce(_) = g.op(n) {
                set.extend_from_slice(&g.src(n)[1..]);
            }
            if g.op(n) != Op::Sink && set.contains(&r.id) {
                met.extend(set);
            }
        }
        let free =
            |d: &&mut (i64, Vec<Id>)| d.0 == r.extent && !d.1.iter().any(|x| met.contains(x));
        match dims.iter_mut().find(free) {
            Some(dim) => dim.1.push(r.id),
            None => dims.push((r.extent, vec![r.id])),
        }
    }
    dims.iter().fold(1, |p, d| p.saturating_mul(d.0))
}

/// Work-items per group for so many in all: fewer than wanted where compute units would be idle,
/// but a wave.
fn few(count: i64, target: &Target, items: i64) -> i64 {
    let share = floor_power(count / target.cores.max(1) as i64);
    share.clamp((target.wave as i64).min(items), items)
}

fn floor_power(n: i64) -> i64 {
    1 << n.max(1).ilog2()
}

fn ceil_power(n: i64) -> i64 {
    (n.max(1) as u64).next_power_of_two() as i64
}

/// Work-items for a range: all of it if it is short, otherwise the power of two with the least
/// padding, and of those the largest.
fn spread(extent: i64, most: i64) -> i64 {
    if extent <= most {
        return extent;
    }
    let most = floor_power(most);
    let mut best = (i64::MAX, 1);
    let mut n = most;
    while n >= 1 && n * 8 >= most {
        let padded = (extent + n - 1) / n * n;
        // An eighth more is worth the larger group.
        if padded < best.0 - best.0 / 8 {
            best = (padded, n);
        }
        n /= 2;
    }
    best.1
}

/// Stores that share no loops with the others, as kernels of their own; the kernel itself if there
/// is one such part only, or if a part reads what another one writes.
fn parts(kernel: &Kernel) -> Vec<Kernel> {
    let g = &kernel.graph;
    let stores = g.src(kernel.sink);
    let mut sets = RangeSets::default();
    let mut part: Vec<usize> = (0..stores.len()).collect();
    let mut owner: HashMap<Id, usize> = HashMap::new();
    for (i, &s) in stores.iter().enumerate() {
        for r in sets.of(g, s).to_vec() {
            let other = *owner.entry(r).or_insert(i);
            let (a, b) = (part[other], part[i]);
            for p in part.iter_mut().filter(|p| **p == b) {
                *p = a;
            }
        }
    }
    let mut names: Vec<usize> = part.clone();
    names.sort_unstable();
    names.dedup();
    let mut touched: HashMap<Id, (usize, bool)> = HashMap::new();
    for (i, &s) in stores.iter().enumerate() {
        for n in accesses(g, s) {
            let writes = matches!(g.op(n), Op::Store(_));
            let entry = touched.entry(g.src(n)[0]).or_insert((part[i], writes));
            if entry.0 != part[i] && (writes || entry.1) {
                return vec![kernel.clone()];
            }
            entry.1 |= writes;
        }
    }
    if names.len() < 2 {
        return vec![kernel.clone()];
    }
    names
        .into_iter()
        .map(|name| {
            let mut one = kernel.clone();
            let own: Vec<Id> = stores
                .iter()
                .zip(&part)
                .filter(|(_, p)| **p == name)
                .map(|(&s, _)| s)
                .collect();
            one.sink = one.graph.sink(&own);
            one
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_waste_little() {
        for extent in 1..3000 {
            let n = spread(extent, 256);
            assert!((1..=256).contains(&n));
            let padded = (extent + n - 1) / n * n;
            assert!(padded <= extent + extent / 4 + 32, "{extent} in {n}");
        }
        assert_eq!(spread(1024, 256), 256);
        assert_eq!(spread(7, 256), 7);
    }
}
