//! Orders the nodes of each loop body: which block a node is in, and what comes before it. The
//! instructions are written by [`emit`].

mod ahead;
mod emit;

use hashbrown::{HashMap, HashSet};

use super::decomp::Caps;
use super::lanes::Lanes;
use super::nest::{Ranges, Set, bits, deepest};
use super::program::{Acc, Arg, Mem, Program, Reg};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir::mma::MmaDesc;
use crate::ir::{Binary, Graph, Id, Kernel, Op, RangeKind, ReduceOp, StoreMode};

/// What [`linearize`] works on.
pub(super) struct Input<'a> {
    pub kernel: &'a Kernel,
    pub caps: &'a Caps,
    pub g: &'a Graph,
    pub sink: Id,
    pub ranges: Ranges,
    pub free: HashMap<Id, Set>,
    pub above: Vec<Set>,
    pub lanes: Lanes,
}

/// Something that is placed in a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Item {
    Node(Id),
    /// Adds one value to the accumulator of a reduction.
    Update(Id),
    Loop(usize),
    /// Gets what a fence stores in the first iteration of its loop.
    Early(Id),
    /// Gets what it stores in the next iteration.
    Late(Id),
}

/// One step of the sum of a reduction: the accumulator plus a product.
#[derive(Clone, Copy, Debug)]
struct Link {
    product: Product,
    a: Id,
    b: Id,
}

/// What a link multiplies.
#[derive(Clone, Copy, Debug)]
enum Product {
    Numbers,
    Bytes,
    Matrices(MmaDesc),
}

impl Product {
    /// The instruction, if it reads its operands in local memory.
    fn in_memory(self) -> Option<MmaDesc> {
        match self {
            Product::Matrices(desc) if desc.in_memory() => Some(desc),
            _ => None,
        }
    }
}

/// A loop, by the index of its range, or the outermost level.
type Level = Option<usize>;

struct Linear<'a> {
    input: Input<'a>,
    order: Vec<Id>,
    before: HashMap<Item, Vec<Item>>,
    seeds: HashMap<Level, Vec<Item>>,
    /// Reductions and scans to initialise before a loop starts.
    starts: HashMap<usize, Vec<Id>>,
    with_store: HashSet<usize>,
    accs: HashMap<Id, Acc>,
    /// What the accumulators of long sums have rounded away so far.
    carries: HashMap<Id, Acc>,
    regs: HashMap<Id, Reg>,
    splats: HashMap<(Reg, u32), Reg>,
    /// Work-item dimensions: stride of the range's dimension and its extent.
    items: HashMap<Id, (i64, i64)>,
    item_stores: Vec<(i64, i64)>,
    /// Local memory, by the number of the block.
    blocks: HashMap<u16, Mem>,
    /// Where what a fence gets ahead waits for it, one for each store.
    staged: HashMap<Id, Vec<Acc>>,
    /// Local memory through which work-items reduce.
    exchange: HashMap<(DType, usize), Mem>,
    /// Barriers that copies of boxes are waited for at, by fence.
    rings: HashMap<Id, emit::Ring>,
    /// How many groups of products of what instructions read in local memory may be under way, as far as this pass of
    /// the loop around them goes.
    unsettled: u32,
    /// Fences that fill ahead, with their blocks and what they load there.
    ahead: Vec<(Level, Id, Vec<Item>)>,
    p: Program,
}

/// Writes the program.
pub(super) fn linearize(input: Input<'_>) -> Result<Program> {
    let p = Program {
        name: input.kernel.name.clone(),
        args: Vec::new(),
        locals: Vec::new(),
        groups: 1,
        items: 1,
        regs: Vec::new(),
        accs: Vec::new(),
        insts: Vec::new(),
    };
    let mut linear = Linear {
        input,
        order: Vec::new(),
        before: HashMap::new(),
        seeds: HashMap::new(),
        starts: HashMap::new(),
        with_store: HashSet::new(),
        accs: HashMap::new(),
        carries: HashMap::new(),
        regs: HashMap::new(),
        splats: HashMap::new(),
        items: HashMap::new(),
        item_stores: Vec::new(),
        blocks: HashMap::new(),
        staged: HashMap::new(),
        exchange: HashMap::new(),
        rings: HashMap::new(),
        unsettled: 0,
        ahead: Vec::new(),
        p,
    };
    linear.walk();
    linear.arguments()?;
    linear.work_items()?;
    linear.place()?;
    linear.prologue();
    linear.block(None)?;
    Ok(linear.p)
}

impl Linear<'_> {
    fn invalid<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(Error::Invalid {
            kernel: self.input.kernel.name.clone(),
            what: what.into(),
        })
    }

    fn op(&self, n: Id) -> Op {
        self.input.g.op(n)
    }

    fn src(&self, n: Id) -> &[Id] {
        self.input.g.src(n)
    }

    /// The loop ranges that a reduction runs over, outermost first.
    fn bound(&self, reduce: Id) -> Set {
        self.input.ranges.bits(&self.src(reduce)[1..]) & self.input.ranges.loops
    }

    /// Operands as they are read: without pointers, with the indices that lanes asked for.
    fn operands(&self, n: Id) -> Vec<Id> {
        let src = self.src(n);
        let index = || match self.input.lanes.access.get(&n) {
            Some(&(_, index)) => index,
            None => src[1],
        };
        match self.op(n) {
            Op::Load => std::iter::once(index())
                .chain(src[2..].iter().copied())
                .collect(),
            Op::Store(_) => std::iter::once(index())
                .chain(src[2..].iter().copied())
                .collect(),
            Op::Reduce(_) if self.bound(n) != 0 => Vec::new(),
            Op::Reduce(_) | Op::Scan(_) => vec![src[0]],
            Op::Operand(_) => vec![src[1]],
            Op::Check => src[1..].to_vec(),
            Op::Mma(_) => src[..3].to_vec(),
            Op::Local { .. } => Vec::new(),
            Op::Fence { early, .. } if early > 0 => {
                src.iter().flat_map(|&s| self.copied(s)).collect()
            }
            Op::Fence { .. } => {
                let (stores, next) = self.fills(n);
                let mut all: Vec<Id> = stores.iter().flat_map(|&s| self.operands(s)).collect();
                all.extend_from_slice(next);
                all
            }
            _ => match self.input.lanes.masks.get(&n) {
                Some(&(count, _)) => vec![count],
                None => src.to_vec(),
            },
        }
    }

    /// The fence that has filled what a load reads.
    fn fence(&self, n: Id) -> Option<Id> {
        let local = match self.op(n) {
            Op::Load | Op::Operand(_) => self.src(n)[0],
            _ => return None,
        };
        match self.op(local) {
            Op::Local { .. } => self.src(local).first().copied(),
            _ => None,
        }
    }

    /// What the accumulator of a reduction reads in each iteration.
    fn update_operands(&self, reduce: Id) -> Vec<Id> {
        match self.chain(reduce) {
            Some(links) => links.iter().flat_map(|l| [l.a, l.b]).collect(),
            None => vec![self.src(reduce)[0]],
        }
    }

    /// A sum of products as fused steps on the accumulator, the first one first.
    fn chain(&self, reduce: Id) -> Option<Vec<Link>> {
        let float = matches!(self.input.g.dtype(reduce), DType::F32 | DType::F64);
        if self.op(reduce) != Op::Reduce(ReduceOp::Add) {
            return None;
        }
        let mut links = Vec::new();
        let mut value = self.src(reduce)[0];
        loop {
            let src = self.src(value);
            let product = match self.op(value) {
                Op::Mma(desc) => Product::Matrices(desc),
                Op::Dot => Product::Bytes,
                Op::Fma | Op::Binary(Binary::Mul) if float => Product::Numbers,
                Op::Const(0) if !links.is_empty() => break,
                _ => return None,
            };
            links.push(Link {
                product,
                a: src[0],
                b: src[1],
            });
            match src.get(2) {
                Some(&next) => value = next,
                None => break,
            }
        }
        links.reverse();
        Some(links)
    }

    /// All nodes that are read, operands first.
    fn walk(&mut self) {
        let mut state: HashMap<Id, bool> = HashMap::new();
        let mut stack: Vec<Id> = self.src(self.input.sink).iter().rev().copied().collect();
        while let Some(&n) = stack.last() {
            match state.get(&n) {
                Some(true) => {
                    stack.pop();
                    continue;
                }
                Some(false) => {
                    state.insert(n, true);
                    self.order.push(n);
                    stack.pop();
                    if !self.input.free.contains_key(&n) {
                        let set = self
                            .operands(n)
                            .iter()
                            .fold(0, |s, o| s | self.input.free[o]);
                        self.input.free.insert(n, set);
                    }
                    continue;
                }
                None => {}
            }
            state.insert(n, false);
            let mut next = match self.op(n) {
                Op::Reduce(_) if self.bound(n) != 0 => self.update_operands(n),
                _ => self.operands(n),
            };
            next.extend(self.fence(n));
            stack.extend(next.into_iter().rev().filter(|o| !state.contains_key(o)));
        }
    }

    fn arguments(&mut self) -> Result<()> {
        let mut slots: Vec<u16> = Vec::new();
        let mut vars: Vec<u16> = Vec::new();
        let copies = self.order.iter().flat_map(|&n| {
            let stores = match self.copies(n) {
                Some(_) => self.src(n),
                None => &[],
            };
            stores.iter().map(|&s| self.src(s)[2])
        });
        for n in self.order.iter().copied().chain(copies) {
            match self.op(n) {
                Op::Load | Op::Store(_) | Op::Check => match self.op(self.src(n)[0]) {
                    Op::Param { slot } => slots.push(slot),
                    Op::Local { .. } => {}
                    other => return self.invalid(format!("access through {other:?}")),
                },
                Op::Var { slot, .. } => vars.push(slot),
                _ => {}
            }
        }
        slots.sort_unstable();
        slots.dedup();
        vars.sort_unstable();
        vars.dedup();
        for slot in slots {
            let Some(info) = self.input.kernel.params.get(usize::from(slot)).copied() else {
                return self.invalid(format!(
                    "buffer argument {slot} is missing from the argument list"
                ));
            };
            self.p.args.push(Arg::Buffer {
                slot,
                dtype: info.dtype,
                len: info.len,
                written: info.written,
            });
        }
        self.p
            .args
            .extend(vars.into_iter().map(|slot| Arg::Var { slot }));
        self.tensors()
    }

    /// Gives work-item ranges their dimensions. Ranges of one extent that never meet in a value
    /// share a dimension.
    fn work_items(&mut self) -> Result<()> {
        let mut wanted: Vec<(Id, i64)> = Vec::new();
        for &r in &self.input.ranges.ids {
            match self.op(r) {
                Op::Range {
                    extent,
                    kind: RangeKind::Local | RangeKind::GroupReduce,
                    ..
                } => {
                    wanted.push((r, extent));
                }
                Op::Range {
                    extent,
                    kind: RangeKind::Global,
                    ..
                } => {
                    if self.p.groups != 1 {
                        return self.invalid("more than one Global range");
                    }
                    self.p.groups = extent;
                }
                _ => {}
            }
        }
        let mut dims: Vec<(i64, i64, Set)> = Vec::new();
        for (r, extent) in wanted {
            let bit = self.input.ranges.bit(r);
            let mut met: Set = 0;
            for &n in &self.order {
                let set = match self.op(n) {
                    Op::Reduce(_) => {
                        self.input.free[&self.src(n)[0]] | self.input.ranges.bits(&self.src(n)[1..])
                    }
                    _ => self.input.free[&n],
                };
                if set & bit != 0 {
                    met |= set;
                }
            }
            let stride = match dims.iter_mut().find(|d| d.1 == extent && d.2 & met == 0) {
                Some(dim) => {
                    dim.2 |= bit;
                    dim.0
                }
                None => {
                    let stride = self.p.items;
                    let Some(items) = stride.checked_mul(extent).filter(|&i| i <= 1 << 16) else {
                        return Err(Error::Limit {
                            kernel: self.input.kernel.name.clone(),
                            of: "the compiler".into(),
                            what: "more than 65536 work-items in a group".into(),
                        });
                    };
                    self.p.items = items;
                    dims.push((stride, extent, bit));
                    stride
                }
            };
            self.items.insert(r, (stride, extent));
        }
        self.item_stores = dims.iter().map(|d| (d.0, d.1)).collect();
        Ok(())
    }

    fn parent(&self, range: usize) -> Level {
        deepest(self.input.above[range])
    }

    fn block_of(&self, n: Id) -> Level {
        let outer = match self.op(n) {
            Op::Reduce(_) => bits(self.bound(n)).next(),
            _ => None,
        };
        match outer {
            Some(k) => self.parent(k),
            None => deepest(self.input.free[&n] & self.input.ranges.loops),
        }
    }

    fn update_block(&self, reduce: Id) -> Level {
        let value = self.input.free[&self.src(reduce)[0]];
        deepest((value | self.bound(reduce)) & self.input.ranges.loops)
    }

    /// The item of block `at` that holds `item`, which is in block `inner`.
    fn lift(&self, item: Item, inner: Level, at: Level) -> Option<Item> {
        let mut item = item;
        let mut block = inner;
        while block != at {
            let range = block?;
            item = Item::Loop(range);
            block = self.parent(range);
        }
        Some(item)
    }

    fn edge(&mut self, user: Item, user_block: Level, operand: Id) -> Result<()> {
        if matches!(self.op(operand), Op::Param { .. } | Op::Local { .. }) {
            return Ok(());
        }
        let at = self.block_of(operand);
        match self.lift(user, user_block, at) {
            Some(user) => {
                self.before
                    .entry(user)
                    .or_default()
                    .push(Item::Node(operand));
                Ok(())
            }
            None => self.invalid(format!("node {} is used outside its loop", operand.0)),
        }
    }

    fn place(&mut self) -> Result<()> {
        for n in self.order.clone() {
            let block = self.block_of(n);
            let ahead = matches!(self.op(n), Op::Fence { ahead, early } if ahead > 0 || early > 0);
            let operands = if ahead { Vec::new() } else { self.operands(n) };
            for operand in operands.into_iter().chain(self.fence(n)) {
                self.edge(Item::Node(n), block, operand)?;
            }
            match self.op(n) {
                Op::Fence { .. } if ahead => self.place_ahead(n, block)?,
                Op::Reduce(_) => {
                    let Some(outer) = bits(self.bound(n)).next() else {
                        continue;
                    };
                    let update = self.update_block(n);
                    for operand in self.update_operands(n) {
                        self.edge(Item::Update(n), update, operand)?;
                    }
                    self.before
                        .entry(Item::Node(n))
                        .or_default()
                        .push(Item::Loop(outer));
                    self.starts.entry(outer).or_default().push(n);
                    self.seed(Item::Update(n), update);
                }
                Op::Scan(_) => {
                    let range = self.input.ranges.bit(self.src(n)[1]);
                    let Some(range) = deepest(range) else {
                        return self.invalid("scan without a range");
                    };
                    if block != Some(range) {
                        return self.invalid("a scan runs inside another loop");
                    }
                    self.starts.entry(range).or_default().push(n);
                }
                Op::Store(_) => {
                    self.seed(Item::Node(n), block);
                    let mut at = block;
                    while let Some(range) = at {
                        self.with_store.insert(range);
                        at = self.parent(range);
                    }
                }
                _ => {}
            }
        }
        // Stores to one buffer keep their order where it can matter.
        let stores = self.src(self.input.sink).to_vec();
        let combines = |n: Id| matches!(self.op(n), Op::Store(mode) if mode != StoreMode::Set);
        let mut edges = Vec::new();
        for (i, &a) in stores.iter().enumerate() {
            for &b in &stores[i + 1..] {
                if a == b || self.src(a)[0] != self.src(b)[0] || !(combines(a) || combines(b)) {
                    continue;
                }
                let (block_a, block_b) = (self.block_of(a), self.block_of(b));
                let mut at = block_a;
                loop {
                    let first = self.lift(Item::Node(a), block_a, at);
                    let second = self.lift(Item::Node(b), block_b, at);
                    if let (Some(first), Some(second)) = (first, second) {
                        if first != second {
                            edges.push((second, first));
                        }
                        break;
                    }
                    match at {
                        Some(range) => at = self.parent(range),
                        None => break,
                    }
                }
            }
        }
        for (user, operand) in edges {
            self.before.entry(user).or_default().push(operand);
        }
        // What is loaded for the next iteration is under way while this one computes.
        for (block, fence, values) in std::mem::take(&mut self.ahead) {
            let seeds = self.seeds.entry(block).or_default();
            let first = std::iter::once(Item::Node(fence)).chain(values);
            seeds.splice(0..0, first);
            seeds.push(Item::Late(fence));
        }
        Ok(())
    }

    fn seed(&mut self, item: Item, block: Level) {
        let mut item = item;
        let mut block = block;
        loop {
            let list = self.seeds.entry(block).or_default();
            if !list.contains(&item) {
                list.push(item);
            }
            let Some(range) = block else { return };
            item = Item::Loop(range);
            block = self.parent(range);
        }
    }
}
