//! From the requests of a kernel to its nodes.

use hashbrown::HashMap;

use codegen::DType;
use codegen::ir::{Binary, Graph, Id, Kernel, Op as Code, ParamInfo, RangeKind, StoreMode, Unary};

use super::BufferId;
use super::canon::Dag;
use super::domains::{Atom, Ix, Lin};
use super::fuse::Group;
use super::instance::{Instance, Value};
use super::region::{Body, Cond, domain_of};
use crate::graph::{Bounds, Op, ScatterMode};

/// Makes the kernel, and says which buffer each of its parameters is. Numbers of the user's graph are arguments.
pub fn kernelize(
    dag: &Dag,
    group: &Group,
    buffer_of: &dyn Fn(u32) -> BufferId,
) -> (Instance, Vec<BufferId>) {
    let mut maker = Maker {
        dag,
        group,
        buffer_of,
        graph: Graph::new(),
        params: Vec::new(),
        slots: HashMap::new(),
        buffers: Vec::new(),
        arguments: Vec::new(),
        places: HashMap::new(),
        values: HashMap::new(),
        indices: HashMap::new(),
        conds: HashMap::new(),
        axes: axes(group),
    };
    for store in &group.region.stores {
        maker.param(store.root.node, true);
    }
    // From the roots down, so that equal kernels have equal nodes wherever they are in the graph.
    for store in &group.region.stores {
        maker.make(store.value);
        for place in group.region.loaded_in(&[store.at], store.gate) {
            maker.make(place);
        }
    }
    let mut stores = Vec::new();
    for store in &group.region.stores {
        let target = maker.param(store.root.node, true);
        let at = maker.index(store.at);
        let value = maker.operand(store.value);
        let gate = maker.gate(store.gate);
        let mode = match (store.root.body, &dag.node(store.root.node).op) {
            (Body::Scatter(_), Op::Scatter(_, ScatterMode::Combine(op))) => StoreMode::Combine(*op),
            _ => StoreMode::Set,
        };
        stores.push(maker.graph.store(mode, target, at, value, gate));
    }
    let sink = maker.graph.sink(&stores);
    let kernel = Kernel {
        name: name(dag, group),
        graph: maker.graph,
        sink,
        params: maker.params,
        vars: maker.arguments.len() as u16,
    };
    let instance = Instance {
        kernel,
        values: maker.arguments,
    };
    (instance, maker.buffers)
}

/// The axis number of each range: the order of creation, but loops that a reduction is inside go before those that
/// go around its result.
fn axes(group: &Group) -> Vec<u32> {
    let region = &group.region;
    let count = region.ix.ranges.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|&r| {
        let inside = region.rows.iter().filter(|&&set| set >> r & 1 == 1).count();
        // A loop that runs in order is inside of those that do not.
        let kind = match region.ix.ranges[r].kind {
            RangeKind::Reduce => 2,
            RangeKind::Serial => 1,
            _ => 0,
        };
        (kind, if kind == 0 { usize::MAX - inside } else { 0 })
    });
    let mut axes = vec![0; count];
    for (axis, &range) in order.iter().enumerate() {
        axes[range] = axis as u32;
    }
    axes
}

fn name(dag: &Dag, group: &Group) -> String {
    let root = group.roots[0];
    let region = &group.region;
    let mut name = String::from(match root.body {
        Body::Scatter(_) => "scatter",
        Body::Loop(_) => "loop",
        Body::Value(_) if region.contraction.is_some() => "contract",
        Body::Value(n) if matches!(dag.node(n).op, Op::Scan(..)) => "scan",
        Body::Value(_) if region.ix.of_kind(RangeKind::Reduce) != 0 => "reduce",
        Body::Value(_) if region.loads.is_empty() => "fill",
        Body::Value(_) => "map",
    });
    for size in domain_of(dag, root) {
        name.push('_');
        name.push_str(&size.to_string());
    }
    let reduced = region
        .ix
        .ranges
        .iter()
        .filter(|r| r.kind == RangeKind::Reduce);
    for (i, range) in reduced.take(4).enumerate() {
        name.push_str(if i == 0 { "_r" } else { "_" });
        name.push_str(&range.extent.to_string());
    }
    name
}

/// The value of a request.
#[derive(Clone, Copy)]
enum Made {
    Node(Id),
    /// A number of the user's graph, as bits.
    Number(u64, DType),
}

struct Maker<'a> {
    dag: &'a Dag,
    group: &'a Group,
    buffer_of: &'a dyn Fn(u32) -> BufferId,
    graph: Graph,
    params: Vec<ParamInfo>,
    slots: HashMap<BufferId, u16>,
    buffers: Vec<BufferId>,
    arguments: Vec<Value>,
    places: HashMap<Atom, Id>,
    values: HashMap<u32, Made>,
    indices: HashMap<Ix, Id>,
    conds: HashMap<u32, Id>,
    axes: Vec<u32>,
}

impl Maker<'_> {
    fn param(&mut self, node: u32, written: bool) -> Id {
        let info = self.dag.node(node);
        let buffer = (self.buffer_of)(node);
        let slot = *self.slots.entry(buffer).or_insert_with(|| {
            self.buffers.push(buffer);
            self.params.push(ParamInfo {
                dtype: info.dtype,
                len: info.numel(),
                written,
                constant: false,
            });
            self.params.len() as u16 - 1
        });
        self.params[slot as usize].written |= written;
        self.graph.param(slot, info.dtype)
    }

    /// The number of the next argument that is no buffer; `None` if there are as many as a kernel can have.
    fn argument(&mut self, bits: u64, place: bool) -> Option<u16> {
        let slot = u16::try_from(self.arguments.len()).ok()?;
        if slot == u16::MAX {
            return None;
        }
        self.arguments.push(Value { bits, place });
        Some(slot)
    }

    /// The value of a request as an operand. A number is another argument for each of its users: that two of them have
    /// the same number may be so in this call only.
    fn operand(&mut self, request: u32) -> Id {
        match self.values[&request] {
            Made::Node(id) => id,
            Made::Number(bits, dtype) => match self.argument(bits, false) {
                Some(slot) => self.graph.argument(slot, dtype),
                None => self.graph.bits(dtype, bits),
            },
        }
    }

    /// The value of a request for an index: the same in the index and in its conditions.
    fn loaded(&mut self, request: u32) -> Id {
        let id = self.operand(request);
        self.values.insert(request, Made::Node(id));
        id
    }

    /// Makes the value of a request and everything that it needs.
    fn make(&mut self, request: u32) {
        let region = &self.group.region;
        let mut pending = vec![request];
        while let Some(&top) = pending.last() {
            if self.values.contains_key(&top) {
                pending.pop();
                continue;
            }
            let before = pending.len();
            let children = region.expansions[&top].children.iter().copied();
            let places = region.index_requests(top);
            pending.extend(
                children
                    .chain(places)
                    .filter(|r| !self.values.contains_key(r)),
            );
            if pending.len() == before {
                let value = self.value(region.requests[top as usize].node, top);
                self.values.insert(top, value);
                pending.pop();
            }
        }
    }

    /// The value of a request; those of its sources are known.
    fn value(&mut self, n: u32, request: u32) -> Made {
        let node = self.dag.node(n);
        let expansion = &self.group.region.expansions[&request];
        match &node.op {
            _ if expansion.load => {}
            Op::Const(bits) => return Made::Number(*bits, node.dtype),
            Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Cast | Op::Bitcast => {}
            Op::Iota | Op::Reduce(..) | Op::Scan(..) | Op::Pad(..) | Op::Gather(_) => {}
            Op::Checked(_) if node.src.len() > 1 => {}
            // Movements, forced values and copies: the value of the source.
            _ => return self.values[&expansion.children[0]],
        }
        Made::Node(self.node(n, request))
    }

    /// The node of a request that is more than a number or the value of its source.
    fn node(&mut self, n: u32, request: u32) -> Id {
        let group = self.group;
        let region = &group.region;
        let expansion = &region.expansions[&request];
        let node = self.dag.node(n);
        let asked = &region.requests[request as usize];
        if expansion.load {
            let buffer = self.param(n, false);
            let at = self.load_index(&asked.index, &node.shape);
            return match self.gate(asked.gate) {
                None => self.graph.load(buffer, at),
                Some(gate) => {
                    let zero = self.graph.bits(node.dtype, 0);
                    self.graph.load_gated(buffer, at, gate, zero)
                }
            };
        }
        let mut child = |i: usize| self.operand(expansion.children[i]);
        match &node.op {
            Op::Iota => {
                let at = self.index(asked.index[0]);
                self.graph.cast(at, node.dtype)
            }
            Op::Unary(op) => {
                let a = child(0);
                self.graph.unary(*op, a)
            }
            Op::Binary(op) => {
                let (a, b) = (child(0), child(1));
                self.graph.binary(*op, a, b)
            }
            Op::Where => {
                let (c, a, b) = (child(0), child(1), child(2));
                self.graph.select(c, a, b)
            }
            Op::Cast => {
                let a = child(0);
                self.graph.cast(a, node.dtype)
            }
            Op::Bitcast => {
                let a = child(0);
                self.graph.add(Code::Bitcast, node.dtype, &[a])
            }
            Op::Reduce(op, _) => {
                let a = child(0);
                if expansion.ranges.is_empty() {
                    return a;
                }
                let ranges: Vec<Id> = expansion.ranges.iter().map(|&r| self.range(r)).collect();
                self.graph.reduce(*op, a, &ranges)
            }
            Op::Scan(op, axis) => {
                let a = child(0);
                match region.ix.as_range(asked.index[*axis]) {
                    Some(range) => {
                        let range = self.range(range);
                        self.graph.add(Code::Scan(*op), node.dtype, &[a, range])
                    }
                    None => a,
                }
            }
            Op::Pad(_, bits) => self.padded(request, *bits, node.dtype),
            Op::Gather(_) => self.padded(request, 0, node.dtype),
            Op::Checked(bounds) => {
                let value = child(0);
                // Rows of a loop that are made together have the same word each.
                let word = self.param(self.dag.base[node.src[1] as usize], true);
                self.checked(bounds, value, word, asked.gate)
            }
            _ => child(0),
        }
    }

    /// An index that is noted in a word where it is out of bounds, if it is needed there.
    fn checked(&mut self, bounds: &Bounds, value: Id, word: Id, gate: u32) -> Id {
        let at = self.graph.cast(value, DType::I64);
        let below = match self.graph.dtype(value).is_unsigned() {
            true => -1,
            false => bounds.low() - 1,
        };
        let (below, len) = (self.graph.index(below), self.graph.index(bounds.len as i64));
        let low = self.graph.binary(Binary::Lt, below, at);
        let high = self.graph.binary(Binary::Lt, at, len);
        let mut inside = self.graph.binary(Binary::And, low, high);
        if let Some(ignore) = bounds.ignore {
            let ignore = self.graph.index(ignore);
            let ignored = self.graph.binary(Binary::Eq, at, ignore);
            inside = self.graph.binary(Binary::Or, inside, ignored);
        }
        let mut outside = self.graph.unary(Unary::Not, inside);
        if let Some(gate) = self.gate(gate) {
            outside = self.graph.binary(Binary::And, gate, outside);
        }
        self.graph.check(word, value, at, outside)
    }

    /// The value of the source where the conditions hold, else the constant.
    fn padded(&mut self, request: u32, bits: u64, dtype: DType) -> Id {
        let group = self.group;
        let region = &group.region;
        let expansion = &region.expansions[&request];
        let source = expansion.children[0];
        let value = self.operand(source);
        let asked = &region.requests[source as usize];
        let gate = &region.gates[asked.gate as usize];
        // A gated load gives 0 by itself.
        let gated = region.expansions[&source].load
            && bits == 0
            && expansion.conds.iter().all(|c| gate.contains(c));
        if expansion.conds.is_empty() || gated {
            return value;
        }
        let mut all = None;
        for &cond in &expansion.conds {
            all = self.and(all, cond);
        }
        let alternative = self.graph.bits(dtype, bits);
        match all {
            Some(cond) if alternative != value => self.graph.select(cond, value, alternative),
            _ => value,
        }
    }

    fn and(&mut self, left: Option<Id>, cond: u32) -> Option<Id> {
        let right = self.cond(cond);
        match (left, right) {
            (Some(a), Some(b)) => Some(self.graph.binary(Binary::And, a, b)),
            (a, b) => a.or(b),
        }
    }

    fn gate(&mut self, gate: u32) -> Option<Id> {
        let conds = &self.group.region.gates[gate as usize];
        let mut all = None;
        for &cond in conds {
            all = self.and(all, cond);
        }
        all
    }

    /// A condition; `None` if it always holds.
    fn cond(&mut self, cond: u32) -> Option<Id> {
        if let Some(&known) = self.conds.get(&cond) {
            return Some(known);
        }
        let (at, low, high, size) = match self.group.region.conds[cond as usize] {
            Cond::Bound(ix, size) => {
                let (min, max) = self.group.region.ix.bounds(ix);
                let at = self.index(ix);
                let low = (min < 0).then_some(-1);
                (at, low, max >= size, size)
            }
            Cond::Loaded(request, size) => {
                let value = self.loaded(request);
                let at = self.graph.cast(value, DType::I64);
                let unsigned = self.graph.dtype(value).is_unsigned();
                (at, Some(if unsigned { -1 } else { -size - 1 }), true, size)
            }
        };
        let mut all = None;
        if let Some(low) = low {
            let low = self.graph.index(low);
            all = Some(self.graph.binary(Binary::Lt, low, at));
        }
        if high {
            let size = self.graph.index(size);
            let below = self.graph.binary(Binary::Lt, at, size);
            all = Some(match all {
                Some(a) => self.graph.binary(Binary::And, a, below),
                None => below,
            });
        }
        if let Some(id) = all {
            self.conds.insert(cond, id);
        }
        all
    }

    fn range(&mut self, number: u32) -> Id {
        let range = self.group.region.ix.ranges[number as usize];
        let axis = self.axes[number as usize];
        self.graph.range(axis, range.extent, range.kind)
    }

    /// The row-major position of an index, all guards taken off.
    fn load_index(&mut self, index: &[Ix], shape: &[usize]) -> Id {
        let ix = &self.group.region.ix;
        let mut sum = Lin::default();
        let mut stride = 1i64;
        for (&at, &size) in index.iter().zip(shape).rev() {
            sum = sum.plus(&ix.unguarded(at), stride);
            stride *= size as i64;
        }
        for &(atom, _) in sum.terms() {
            if let Atom::Div(inner, _) | Atom::Mod(inner, _) = ix.atom_of(atom) {
                self.index(inner);
            }
        }
        self.sum(&sum)
    }

    /// An index expression.
    fn index(&mut self, ix: Ix) -> Id {
        let mut pending = vec![ix];
        while let Some(&top) = pending.last() {
            if self.indices.contains_key(&top) {
                pending.pop();
                continue;
            }
            let lin = self.group.region.ix.unguarded(top);
            let before = pending.len();
            for &(atom, _) in lin.terms() {
                if let Atom::Div(inner, _) | Atom::Mod(inner, _) =
                    self.group.region.ix.atom_of(atom)
                    && !self.indices.contains_key(&inner)
                {
                    pending.push(inner);
                }
            }
            if pending.len() == before {
                let id = self.sum(&lin);
                self.indices.insert(top, id);
                pending.pop();
            }
        }
        self.indices[&ix]
    }

    /// A sum whose inner expressions are made.
    fn sum(&mut self, lin: &Lin) -> Id {
        let mut sum = None;
        for &(atom, factor) in lin.terms() {
            let mut part = self.atom(atom);
            if factor != 1 {
                let factor = self.graph.index(factor);
                part = self.graph.binary(Binary::Mul, part, factor);
            }
            sum = Some(match sum {
                Some(sum) => self.graph.binary(Binary::Add, sum, part),
                None => part,
            });
        }
        let constant_id = self.graph.index(lin.constant);
        match sum {
            Some(sum) if lin.constant == 0 => sum,
            Some(sum) => self.graph.binary(Binary::Add, sum, constant_id),
            None => constant_id,
        }
    }

    /// Where a part of a tensor begins.
    fn place(&mut self, node: u32, axis: usize, most: i64) -> Id {
        let atom = Atom::Place(node, axis as u32, most);
        if let Some(&known) = self.places.get(&atom) {
            return known;
        }
        let begin = self.dag.begin(node, axis);
        let id = match self.argument(begin as u64, true) {
            Some(slot) => self.graph.var(slot, 0, most),
            None => self.graph.index(begin as i64),
        };
        self.places.insert(atom, id);
        id
    }

    fn atom(&mut self, atom: u32) -> Id {
        match self.group.region.ix.atom_of(atom) {
            Atom::Range(number) => self.range(number),
            Atom::Place(node, axis, most) => self.place(node, axis as usize, most),
            Atom::Div(inner, by) => {
                let (a, by) = (self.indices[&inner], self.graph.index(by));
                self.graph.binary(Binary::FloorDiv, a, by)
            }
            Atom::Mod(inner, by) => {
                let (a, by) = (self.indices[&inner], self.graph.index(by));
                self.graph.binary(Binary::FloorMod, a, by)
            }
            Atom::Guard(inner, _) => self.indices[&inner],
            Atom::Loaded(request, size) => {
                let value = self.loaded(request);
                let at = self.graph.cast(value, DType::I64);
                if self.graph.dtype(value).is_unsigned() {
                    return at;
                }
                let (zero, size) = (self.graph.index(0), self.graph.index(size));
                let negative = self.graph.binary(Binary::Lt, at, zero);
                let wrapped = self.graph.binary(Binary::Add, at, size);
                self.graph.select(negative, wrapped, at)
            }
        }
    }
}
