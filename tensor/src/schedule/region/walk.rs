//! The walk of one kernel: from the roots to the sources, deciding at each node whether it is
//! computed here or read from memory.

use codegen::ir::arith::Cost;
use codegen::ir::{Binary, RangeKind, ReduceOp};
use smallvec::{SmallVec, smallvec};

use super::{Body, Cond, Expansion, Limits, Region, Request, Root, Stop, StoreAt};
use crate::graph::{Op, ScatterMode};
use crate::schedule::canon::Dag;
use crate::schedule::domains::{Ix, MAX_RANGES, RangeSet};
use crate::schedule::marks::Marks;

/// Elements below which a value under windows is not worth a kernel of its own.
const SMALL_WINDOWS: usize = 256;

/// A value that one kernel would compute at more places than these for each of its elements is in memory: where each
/// node of a chain is read at two places (`roll`, `cat` of two parts), the places double from node to node.
const MOST_TIMES: usize = 64;

/// Where `realized` gets its additions from: a node that must be in memory for this kernel.
pub(super) struct Walk<'a> {
    pub(super) dag: &'a Dag,
    pub(super) limits: &'a Limits,
    pub(super) realized: &'a mut Marks,
    pub(super) roots: &'a [Root],
    pub(super) region: Region,
}

/// The axis of a root whose iterations run in order.
fn serial_axis(dag: &Dag, root: Root) -> Option<usize> {
    match root.body {
        Body::Value(n) => match dag.node(n).op {
            Op::Scan(_, axis) => Some(axis),
            _ => None,
        },
        Body::Scatter(n) => match dag.node(n).op {
            Op::Scatter(_, ScatterMode::Distinct) => None,
            Op::Scatter(axis, _) => Some(axis),
            _ => None,
        },
        Body::Loop(_) => None,
    }
}

/// The bytes that integers are made of by nothing but a number for all of them, or one for each of a few axes:
/// memory holds the bytes, and the kernels that multiply them are made for that.
pub(in crate::schedule) fn bytes_of(dag: &Dag, realized: &[bool], n: u32) -> Option<u32> {
    let mut at = dag.base[n as usize];
    while !realized[at as usize] && dag.node(at).leaf.is_none() {
        let node = dag.node(at);
        if !node.dtype.is_int() || node.dtype.size() == 1 {
            return None;
        }
        let next = dag.base[*node.src.first()? as usize];
        match node.op {
            Op::Cast if dag.node(next).dtype.is_int() && dag.node(next).dtype.size() == 1 => {
                return Some(next);
            }
            Op::Binary(Binary::Add | Binary::Sub) => {
                let other = dag.node(dag.base[node.src[1] as usize]);
                if !other.constant && other.numel().saturating_mul(8) > node.numel() {
                    return None;
                }
            }
            _ => return None,
        }
        at = next;
    }
    None
}

/// Many instructions for each element.
fn is_function(op: &Op) -> bool {
    match op {
        Op::Unary(op) => op.row().cost >= Cost::Function,
        Op::Binary(op) => op.row().cost >= Cost::Function,
        _ => false,
    }
}

impl Walk<'_> {
    pub(super) fn run(&mut self, may_split: bool) -> Result<(), Stop> {
        let domain = self.domain();
        for &root in self.roots {
            self.start(root, &domain);
        }
        while let Some((node, requests)) = self.region.pending.pop_last() {
            self.leave(node);
            let own = self
                .roots
                .iter()
                .position(|r| r.node == node && r.body == Body::Value(node));
            let here = match own {
                Some(i) => {
                    if requests.as_slice() != [self.region.stores[i].value] {
                        return Err(Stop::Apart);
                    }
                    if matches!(self.dag.node(node).op, Op::Reduce(..)) {
                        self.root_reduce(node, requests[0])?;
                    }
                    true
                }
                None => self.decide(node, &requests, may_split)?,
            };
            if here {
                self.inline(node, &requests);
            } else {
                if self.dag.node(node).leaf.is_none() {
                    self.realized.add(node);
                }
                self.region.loads.push(node);
                for &request in &requests {
                    let load = Expansion {
                        load: true,
                        ..Expansion::default()
                    };
                    self.region.expansions.insert(request, load);
                }
            }
            self.region.visited.push((node, requests));
        }
        Ok(())
    }

    /// The loops of the kernel, and the index of each axis over them.
    fn domain(&mut self) -> SmallVec<[Ix; 4]> {
        let serial = self.roots.iter().find_map(|&r| serial_axis(self.dag, r));
        let parts = self.region.parts.clone();
        let mut index = SmallVec::new();
        for (axis, parts) in parts.iter().enumerate() {
            let kind = match serial {
                Some(s) if s == axis => RangeKind::Serial,
                _ => RangeKind::Loop,
            };
            let mut at = self.region.ix.constant(0);
            for &extent in parts {
                let range = self.region.ix.range(extent, kind);
                let outer = self.region.ix.scale(at, extent as i64);
                at = self.region.ix.add(outer, range);
            }
            index.push(at);
        }
        index
    }

    fn start(&mut self, root: Root, domain: &SmallVec<[Ix; 4]>) {
        let dag = self.dag;
        match root.body {
            Body::Value(n) => {
                let value = self.ask(n, domain.clone(), 0);
                let at = self.region.ix.flatten(domain, &dag.node(n).shape);
                self.region.stores.push(StoreAt {
                    root,
                    at,
                    value,
                    gate: 0,
                });
            }
            Body::Scatter(n) => {
                let node = dag.node(n);
                let axis = match node.op {
                    Op::Scatter(axis, _) => axis,
                    _ => 0,
                };
                let size = node.shape[axis] as i64;
                let place = self.ask(node.src[1], domain.clone(), 0);
                let value = self.ask(node.src[2], domain.clone(), 0);
                let deps = self.region.request_deps(place);
                let mut index = domain.clone();
                index[axis] = self.region.ix.loaded(place, size, deps);
                let at = self.region.ix.flatten(&index, &node.shape);
                let cond = self.region.cond(Cond::Loaded(place, size));
                let gate = self.region.gate(smallvec![cond]);
                self.region.stores.push(StoreAt {
                    root,
                    at,
                    value,
                    gate,
                });
            }
            // Its kernels are those of its body.
            Body::Loop(_) => {}
        }
    }

    fn ask(&mut self, node: u32, index: SmallVec<[Ix; 4]>, gate: u32) -> u32 {
        let request = self.region.intern(self.dag, node, index, gate);
        self.enter(request);
        request
    }

    fn enter(&mut self, request: u32) {
        let node = self.region.requests[request as usize].node;
        let dag = self.dag;
        let (bases, pending) = (&mut self.region.bases, &mut self.region.pending);
        let requests = pending.entry(node).or_insert_with(|| {
            if !dag.node(node).constant {
                *bases.entry(dag.base[node as usize]).or_insert(0) += 1;
            }
            Vec::new()
        });
        if !requests.contains(&request) {
            requests.push(request);
        }
    }

    fn leave(&mut self, node: u32) {
        if self.dag.node(node).constant {
            return;
        }
        let base = self.dag.base[node as usize];
        if let Some(count) = self.region.bases.get_mut(&base) {
            *count -= 1;
            if *count == 0 {
                self.region.bases.remove(&base);
            }
        }
    }

    fn inline(&mut self, node: u32, requests: &[u32]) {
        if is_function(&self.dag.node(node).op) {
            self.region.functions += requests.len();
        }
        for &request in requests {
            let expansion = match self.region.expansions.remove(&request) {
                Some(known) => known,
                None => match &self.dag.node(node).op {
                    Op::Reduce(_, axes) => self.reduce(request, axes),
                    _ => self.region.expand(self.dag, request),
                },
            };
            for &child in &expansion.children {
                self.enter(child);
            }
            self.region.expansions.insert(request, expansion);
        }
    }

    /// The loops of a reduction, and the request for its operand.
    fn reduce(&mut self, request: u32, axes: &[usize]) -> Expansion {
        let Request { node, index, gate } = self.region.requests[request as usize].clone();
        let source = self.dag.node(node).src[0];
        let mut inner = index;
        let mut out = Expansion::default();
        for &axis in axes {
            let extent = self.dag.node(source).shape[axis];
            let range = self.region.ix.range(extent, RangeKind::Reduce);
            inner[axis] = range;
            if let Some(number) = self.region.ix.as_range(range) {
                out.ranges.push(number);
            }
        }
        out.children
            .push(self.region.intern(self.dag, source, inner, gate));
        self.region.reductions += 1;
        out
    }

    /// Computed here (true), or read from memory.
    fn decide(&mut self, n: u32, requests: &[u32], may_split: bool) -> Result<bool, Stop> {
        let node = self.dag.node(n);
        if node.constant {
            // Also where it is a result: its requests carry no gates.
            return Ok(true);
        }
        if self.realized[n as usize] || node.leaf.is_some() {
            return Ok(false);
        }
        if node.is_movement() && !matches!(node.op, Op::Pad(..)) {
            return Ok(true);
        }
        if requests.len() > MOST_TIMES || self.repeated(n, requests) {
            return Ok(false);
        }
        if node.is_movement() {
            return Ok(true);
        }
        let fresh = node.src.iter().filter(|&&s| {
            !self.dag.node(s).constant
                && !self.region.bases.contains_key(&self.dag.base[s as usize])
        });
        let buffers = self.region.loads.len()
            + self.region.stores.len()
            + self.region.bases.len()
            + fresh.count();
        if buffers > self.limits.buffers
            || self.region.requests.len() > self.limits.requests
            || self.region.ix.ranges.len() + 16 > MAX_RANGES
            || is_function(&node.op)
                && self.region.functions + requests.len() > self.limits.functions
        {
            return Ok(false);
        }
        match &node.op {
            Op::Reduce(_, axes) => self.decide_reduce(n, axes, requests, may_split),
            _ => Ok(true),
        }
    }

    /// Windows over a padded or computed value read each element several times: once in memory it
    /// is read at plain strides, without a condition per element and without computing it again.
    fn repeated(&mut self, n: u32, requests: &[u32]) -> bool {
        let &[request] = requests else {
            return false;
        };
        let node = self.dag.node(n);
        let windows = |s: &u32| matches!(self.dag.node(*s).op, Op::Windows { .. });
        let reads = self.region.ix.extent_of(self.region.request_deps(request));
        let computes = matches!(
            node.op,
            Op::Pad(..) | Op::Binary(_) | Op::Unary(_) | Op::Where | Op::Cast
        );
        let repeated = computes
            && node.numel() > SMALL_WINDOWS
            && self.dag.users[n as usize].iter().any(windows)
            && reads.saturating_mul(2) >= 3 * node.numel() as u64;
        match bytes_of(self.dag, self.realized, n).filter(|_| repeated) {
            None => repeated,
            Some(bytes) => {
                self.keep(bytes);
                false
            }
        }
    }

    fn keep(&mut self, n: u32) {
        let node = self.dag.node(n);
        if node.leaf.is_none() && !node.constant {
            self.realized.add(n);
        }
    }

    fn decide_reduce(
        &mut self,
        n: u32,
        axes: &[usize],
        requests: &[u32],
        may_split: bool,
    ) -> Result<bool, Stop> {
        let node = self.dag.node(n);
        let &[request] = requests else {
            return Ok(false);
        };
        if self.region.contraction.is_some() {
            return Ok(false);
        }
        let deps = self.region.request_deps(request);
        let loops = self.region.ix.of_kind(RangeKind::Loop);
        let serial = self.region.ix.of_kind(RangeKind::Serial);
        if deps & serial != 0 {
            return Ok(false);
        }
        // Products inside of another reduction would be a plain nest of loops.
        let work = self.dag.node(node.src[0]).numel() as u64;
        if deps & !loops != 0 && work > self.limits.small && self.is_product(n) {
            return Ok(false);
        }
        // Inside of another reduction it would be computed again for each output that it does not
        // depend on: a mean over pixels that a matrix product reads, once per column.
        let again = self.region.ix.extent_of(loops & !deps);
        if deps & !loops != 0 && again > 1 && work.saturating_mul(again) > self.limits.small {
            return Ok(false);
        }
        if self.region.ix.extent_of(deps) > node.numel() as u64 {
            return self.split_or_cut(request, may_split);
        }
        // Output loops that an operand needs apart (groups of channels) hide a contraction.
        let index = self.region.requests[request as usize].index.clone();
        let apart = !index.iter().all(|&ix| self.region.ix.is_affine(ix));
        if apart && may_split && self.is_product(n) && deps == loops {
            self.split_or_cut(request, may_split)?;
        }
        let expansion = self.reduce(request, axes);
        if self.is_contraction(n, &expansion) {
            let alone = self.region.reductions == 1 && deps == loops;
            if !alone {
                return Ok(false);
            }
            if apart {
                return self.split_or_cut(request, may_split);
            }
            self.begin_contraction(n);
        } else {
            let work = self.dag.node(node.src[0]).numel() as u64;
            let rows = self.region.ix.extent_of(deps & loops);
            if work > self.limits.small && rows < self.limits.parallel {
                return Ok(false);
            }
            if deps & !loops == 0 {
                // Loops nest, so the sets must; and large data wants its outer loops outside.
                let set = deps & loops;
                let nests = self
                    .region
                    .rows
                    .iter()
                    .all(|&r| r & set == r || r & set == set);
                let end = (RangeSet::BITS - set.leading_zeros()).min(127);
                let prefix = loops & ((1 << end) - 1);
                let outer = set == 0 || prefix == set;
                if !nests || work > self.limits.small && !outer {
                    return Ok(false);
                }
                if set != loops {
                    self.region.rows.push(set);
                }
            }
        }
        self.region.expansions.insert(request, expansion);
        Ok(true)
    }

    fn split_or_cut(&self, request: u32, may_split: bool) -> Result<bool, Stop> {
        let index = &self.region.requests[request as usize].index;
        let hint = index.iter().find_map(|&ix| self.region.ix.split_hint(ix));
        let Some((range, by)) = hint.filter(|_| may_split) else {
            return Ok(false);
        };
        // The loops of the domain come first, in order, without those of one iteration.
        let mut number = 0;
        for (axis, parts) in self.region.parts.iter().enumerate() {
            for (part, &extent) in parts.iter().enumerate() {
                if extent == 1 {
                    continue;
                }
                let kind = self.region.ix.ranges[number as usize].kind;
                if number == range && kind == RangeKind::Loop {
                    return Err(Stop::Split(axis, part, by as usize));
                }
                number += 1;
            }
        }
        Ok(false)
    }

    fn root_reduce(&mut self, n: u32, request: u32) -> Result<(), Stop> {
        let Op::Reduce(_, axes) = &self.dag.node(n).op else {
            return Ok(());
        };
        let expansion = self.reduce(request, axes);
        if self.is_contraction(n, &expansion) {
            if self.region.contraction.is_some() || self.region.reductions > 1 {
                return Err(Stop::Apart);
            }
            self.begin_contraction(n);
        }
        self.region.expansions.insert(request, expansion);
        Ok(())
    }

    /// A sum of products whose factors each have an output loop that the other has not.
    fn is_contraction(&mut self, n: u32, expansion: &Expansion) -> bool {
        if !matches!(self.dag.node(n).op, Op::Reduce(ReduceOp::Add, _)) {
            return false;
        }
        let mut product = expansion.children[0];
        loop {
            let at = self.region.requests[product as usize].node;
            let node = self.dag.node(at);
            if self.realized[at as usize] || node.leaf.is_some() {
                return false;
            }
            match node.op {
                Op::Cast | Op::Reshape | Op::Permute(_) => {
                    product = self.region.expand(self.dag, product).children[0];
                }
                Op::Binary(Binary::Mul) => break,
                _ => return false,
            }
        }
        let factors = self.region.expand(self.dag, product).children;
        let [a, b] = [factors[0], factors[1]].map(|f| self.operand_ranges(f));
        let bound = expansion
            .ranges
            .iter()
            .fold(0, |s: RangeSet, &r| s | 1 << r);
        a & bound != 0 && b & bound != 0 && a & !b & !bound != 0 && b & !a & !bound != 0
    }

    /// A sum of products, whatever loops the factors have.
    fn is_product(&self, n: u32) -> bool {
        if !matches!(self.dag.node(n).op, Op::Reduce(ReduceOp::Add, _)) {
            return false;
        }
        let mut at = self.dag.node(n).src[0];
        loop {
            let node = self.dag.node(at);
            if self.realized[at as usize] || node.leaf.is_some() {
                return false;
            }
            match node.op {
                Op::Cast | Op::Reshape | Op::Permute(_) => at = node.src[0],
                Op::Binary(Binary::Mul) => return true,
                _ => return false,
            }
        }
    }

    /// The ranges that an operand really depends on, looking through what only moves elements.
    fn operand_ranges(&mut self, request: u32) -> RangeSet {
        let mut deps = 0;
        let mut pending = vec![request];
        for _ in 0..100 {
            let Some(request) = pending.pop() else {
                return deps;
            };
            let n = self.region.requests[request as usize].node;
            let node = self.dag.node(n);
            if node.constant && matches!(node.op, Op::Const(_)) {
                continue;
            }
            let opaque = self.realized[n as usize]
                || node.leaf.is_some()
                || matches!(node.op, Op::Reduce(..) | Op::Iota);
            if opaque {
                let index = &self.region.requests[request as usize].index;
                deps |= index.iter().fold(0, |s, &ix| s | self.region.ix.deps(ix));
            } else {
                pending.extend(self.region.expand(self.dag, request).children);
            }
        }
        pending
            .iter()
            .fold(deps, |s, &r| s | self.region.request_deps(r))
    }

    /// Puts into memory what would be computed again and again for the operands.
    fn begin_contraction(&mut self, n: u32) {
        self.region.contraction = Some(n);
        let mut product = self.dag.node(n).src[0];
        while !matches!(self.dag.node(product).op, Op::Binary(_)) {
            product = self.dag.node(product).src[0];
        }
        for &factor in &self.dag.node(product).src {
            let factor = self.dag.base[factor as usize];
            let kept = bytes_of(self.dag, self.realized, factor).unwrap_or(factor);
            if self.expensive(kept) {
                self.realized.add(kept);
            }
        }
    }

    /// More than a few cheap operations on memory.
    fn expensive(&self, n: u32) -> bool {
        let mut pending = vec![n];
        let mut work = 0;
        while let Some(n) = pending.pop() {
            let node = self.dag.node(n);
            if self.realized[n as usize] || node.leaf.is_some() {
                continue;
            }
            work += match &node.op {
                Op::Const(_) | Op::Iota => continue,
                _ if node.is_movement() => 0,
                Op::Checked(_) => {
                    pending.push(node.src[0]);
                    continue;
                }
                Op::Cast | Op::Bitcast | Op::Where => 1,
                Op::Unary(op) if op.row().cost == Cost::One => 1,
                Op::Binary(op) if op.row().cost == Cost::One => 1,
                _ => return true,
            };
            if work > 6 {
                return true;
            }
            pending.extend(node.src.iter());
        }
        false
    }
}
