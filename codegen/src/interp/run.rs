//! Executes the graph of a kernel, one scalar at a time.
//!
//! Every store becomes a nest of loops over the ranges it depends on, outermost axis first; every
//! node is evaluated in the outermost loop in which all its ranges have values. All kinds of ranges
//! are plain loops, so a kernel can be run before and after its ranges were split and bound.
//! Evaluation is strict: both arms of a selection, and the value of a store whose gate is false.

use hashbrown::{HashMap, HashSet};
use thiserror::Error;

use super::scalar;
use crate::dtype::DType;
use crate::ir::order::toposort_until;
use crate::ir::ranges::axis;
use crate::ir::{Graph, Id, Kernel, Op, RangeKind, RangeSets, ReduceOp, StoreMode, print};

/// Why a kernel could not be executed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum InterpError {
    /// A load or store outside of its memory.
    #[error("kernel {kernel}: {node} accesses element {index} of {len}, at {at}")]
    OutOfBounds {
        /// Name of the kernel.
        kernel: String,
        /// The load or store.
        node: String,
        /// The element.
        index: i64,
        /// Elements there are.
        len: usize,
        /// Values of the loop indices.
        at: String,
    },
    /// Two `Store(Set)` wrote different values to the same element. Writing the same value twice is allowed,
    /// because vectors may overlap.
    #[error("kernel {kernel}: {node} writes element {index} twice, at {at}")]
    DoubleSet {
        /// Name of the kernel.
        kernel: String,
        /// The later store.
        node: String,
        /// The element.
        index: i64,
        /// Values of the loop indices.
        at: String,
    },
    /// An operation that is not defined for its type, or a node out of place.
    #[error("kernel {kernel}: {node} cannot be evaluated: {why}")]
    Undefined {
        /// Name of the kernel.
        kernel: String,
        /// The node.
        node: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The buffers do not match the argument list.
    #[error("kernel {kernel}: buffer {slot} needs {need} bytes, found {found}")]
    Buffer {
        /// Name of the kernel.
        kernel: String,
        /// Its position.
        slot: usize,
        /// Bytes of the argument list's length.
        need: usize,
        /// Bytes given.
        found: usize,
    },
    /// The variables do not match.
    #[error("kernel {kernel}: expected variable {slot} in {min}..={max}, found {found:?}")]
    Variable {
        /// Name of the kernel.
        kernel: String,
        /// Its position.
        slot: u16,
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
        /// The value given, if any.
        found: Option<i64>,
    },
}

/// Deepest nesting of reductions inside each other.
const MAX_NESTING: usize = 200;

/// Runs a kernel. `buffers` holds the bytes of each buffer argument by slot, `vars` the integer
/// arguments by slot.
///
/// # Errors
/// Out-of-bounds access, an element set twice, ill-formed nodes, arguments that do not match.
pub fn run(kernel: &Kernel, buffers: &mut [Vec<u8>], vars: &[i64]) -> Result<(), InterpError> {
    let g = &kernel.graph;
    for (slot, p) in kernel.params.iter().enumerate() {
        let need = p.len.saturating_mul(p.dtype.size());
        let found = buffers.get(slot).map_or(0, Vec::len);
        if found < need {
            return Err(InterpError::Buffer {
                kernel: kernel.name.clone(),
                slot,
                need,
                found,
            });
        }
    }
    let mut nest = LoopNest::new(kernel);
    let mut roots = Vec::new();
    for &store in g.src(kernel.sink) {
        roots.push(nest.store(store)?);
    }
    let mut machine = Machine {
        kernel,
        values: vec![0; nest.slots.len()],
        nest: &nest,
        buffers,
        set: HashSet::new(),
        scans: HashMap::new(),
        sums: HashMap::new(),
    };
    machine.leaves(vars)?;
    for root in roots {
        machine.run(root)?;
    }
    Ok(())
}

/// A loop (or the code around all loops): steps in order.
struct Loop {
    steps: Vec<Step>,
    /// The loop index, and how often it runs.
    range: Option<(usize, i64)>,
}

#[derive(Clone)]
enum Step {
    /// Evaluate the node into its slot.
    Eval(Id),
    /// Run the loop.
    Loop(usize),
    /// Set the accumulator of a reduction to its identity, run its loops.
    Reduce(Id, usize),
    /// Combine the value of the reduction into its accumulator.
    Accumulate(Id),
    /// Advance a scan, whose other ranges are in these slots.
    Scan(Id, Vec<usize>),
    /// Store.
    Store(Id),
}

struct LoopNest<'k> {
    kernel: &'k Kernel,
    sets: RangeSets,
    loops: Vec<Loop>,
    slots: HashMap<Id, usize>,
    leaves: Vec<Id>,
    /// Stores whose iterations run in order.
    ordered: HashSet<Id>,
}

impl<'k> LoopNest<'k> {
    fn new(kernel: &'k Kernel) -> Self {
        LoopNest {
            sets: RangeSets::build(&kernel.graph, kernel.sink),
            kernel,
            loops: Vec::new(),
            slots: HashMap::new(),
            leaves: Vec::new(),
            ordered: HashSet::new(),
        }
    }

    fn slot(&mut self, id: Id) -> usize {
        let next = self.slots.len();
        *self.slots.entry(id).or_insert_with(|| {
            if self.kernel.graph.src(id).is_empty() {
                self.leaves.push(id);
            }
            next
        })
    }

    fn undefined(&self, id: Id, why: &'static str) -> InterpError {
        InterpError::Undefined {
            kernel: self.kernel.name.clone(),
            node: print::describe(&self.kernel.graph, id),
            why,
        }
    }

    /// Opens a loop nest over `ranges` inside `chain`; gives the first new loop.
    fn nest(&mut self, ranges: &[Id], chain: &mut Vec<(Id, usize)>) -> Result<usize, InterpError> {
        let g = &self.kernel.graph;
        let first = self.loops.len();
        for (i, &r) in ranges.iter().enumerate() {
            let Op::Range { extent, .. } = g.op(r) else {
                return Err(self.undefined(r, "a loop must be a Range"));
            };
            let slot = self.slot(r);
            let block = self.loops.len();
            self.loops.push(Loop {
                steps: Vec::new(),
                range: Some((slot, extent)),
            });
            if i > 0 {
                self.loops[block - 1].steps.push(Step::Loop(block));
            }
            chain.push((r, block));
        }
        Ok(first)
    }

    /// The loops of one store. Loops are linked after their bodies are filled, so that what a loop
    /// needs from outside comes before it.
    fn store(&mut self, store: Id) -> Result<usize, InterpError> {
        let root = self.loops.len();
        self.loops.push(Loop {
            steps: Vec::new(),
            range: None,
        });
        let g = &self.kernel.graph;
        if !matches!(g.op(store), Op::Store(_)) {
            return Err(self.undefined(store, "a sink holds stores"));
        }
        let ranges = self.sets.of(g, store).to_vec();
        let serial = |&r: &Id| {
            matches!(
                g.op(r),
                Op::Range {
                    kind: RangeKind::Serial,
                    ..
                }
            )
        };
        if ranges.iter().any(serial) {
            self.ordered.insert(store);
        }
        let mut chain = Vec::new();
        let mut nest: Vec<(Id, usize)> = Vec::new();
        self.nest_unlinked(&ranges, &mut nest)?;
        chain.extend_from_slice(&nest);
        let mut placed = HashSet::new();
        let src: Vec<Id> = g.src(store).to_vec();
        self.place(&src, root, &chain, &mut placed, 0)?;
        let inner = nest.last().map_or(root, |n| n.1);
        self.loops[inner].steps.push(Step::Store(store));
        self.link(root, &nest);
        Ok(root)
    }

    fn nest_unlinked(
        &mut self,
        ranges: &[Id],
        nest: &mut Vec<(Id, usize)>,
    ) -> Result<(), InterpError> {
        for &r in ranges {
            self.nest(&[r], nest)?;
        }
        Ok(())
    }

    fn link(&mut self, outer: usize, nest: &[(Id, usize)]) {
        let mut outer = outer;
        for &(_, block) in nest {
            self.loops[outer].steps.push(Step::Loop(block));
            outer = block;
        }
    }

    /// Places all that `wanted` needs into the loops of `chain`, outermost possible.
    fn place(
        &mut self,
        wanted: &[Id],
        root: usize,
        chain: &[(Id, usize)],
        placed: &mut HashSet<(Id, usize)>,
        depth: usize,
    ) -> Result<(), InterpError> {
        let g = &self.kernel.graph;
        for &want in wanted {
            for n in toposort_until(g, want, |op| matches!(op, Op::Reduce(_))) {
                let set = self.sets.of(g, n);
                let level = chain.iter().rposition(|(r, _)| set.contains(r));
                if set.iter().any(|r| !chain.iter().any(|(c, _)| c == r)) {
                    return Err(self.undefined(n, "it depends on an unbound range"));
                }
                let block = level.map_or(root, |l| chain[l].1);
                if !placed.insert((n, block)) {
                    continue;
                }
                self.slot(n);
                match g.op(n) {
                    _ if g.src(n).is_empty() => {}
                    Op::Reduce(_) => {
                        if depth > MAX_NESTING {
                            return Err(self.undefined(n, "reductions are nested too deeply"));
                        }
                        let mut ranges = g.src(n)[1..].to_vec();
                        ranges.sort_by_key(|&r| axis(g, r));
                        let mut nest = Vec::new();
                        self.nest_unlinked(&ranges, &mut nest)?;
                        let mut inner = chain[..level.map_or(0, |l| l + 1)].to_vec();
                        inner.extend_from_slice(&nest);
                        self.place(&g.src(n)[..1], root, &inner, placed, depth + 1)?;
                        let Some((&(_, first), &(_, last))) = nest.first().zip(nest.last()) else {
                            return Err(self.undefined(n, "a reduction needs a range"));
                        };
                        self.loops[last].steps.push(Step::Accumulate(n));
                        self.link(first, &nest[1..]);
                        self.loops[block].steps.push(Step::Reduce(n, first));
                    }
                    Op::Scan(_) => {
                        let range = g.src(n)[1];
                        let others: Vec<Id> = self
                            .sets
                            .of(g, n)
                            .iter()
                            .copied()
                            .filter(|&r| r != range)
                            .collect();
                        let others = others.into_iter().map(|r| self.slot(r)).collect();
                        self.loops[block].steps.push(Step::Scan(n, others));
                    }
                    Op::Store(_) | Op::Sink => {
                        return Err(self.undefined(n, "a store is not a value"));
                    }
                    _ => self.loops[block].steps.push(Step::Eval(n)),
                }
            }
        }
        Ok(())
    }
}

struct Machine<'m> {
    kernel: &'m Kernel,
    nest: &'m LoopNest<'m>,
    values: Vec<u64>,
    buffers: &'m mut [Vec<u8>],
    /// Elements that were set, by pointer.
    set: HashSet<(Id, i64)>,
    /// Running value of scans by the values of their other ranges.
    scans: HashMap<(Id, Vec<u64>), u64>,
    /// Sums of floats so far, which round once.
    sums: HashMap<Id, f64>,
}

impl Machine<'_> {
    fn graph(&self) -> &Graph {
        &self.kernel.graph
    }

    fn value(&self, id: Id) -> u64 {
        self.nest.slots.get(&id).map_or(0, |&s| self.values[s])
    }

    fn put(&mut self, id: Id, bits: u64) {
        if let Some(&s) = self.nest.slots.get(&id) {
            self.values[s] = bits;
        }
    }

    fn leaves(&mut self, vars: &[i64]) -> Result<(), InterpError> {
        for &id in &self.nest.leaves {
            match self.graph().op(id) {
                Op::Const(bits) => self.put(id, bits),
                Op::Var { slot, min, max } => {
                    let found = vars.get(slot as usize).copied();
                    match found {
                        Some(x) if (min..=max).contains(&x) => self.put(id, x as u64),
                        _ => {
                            return Err(InterpError::Variable {
                                kernel: self.kernel.name.clone(),
                                slot,
                                min,
                                max,
                                found,
                            });
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Runs the steps of a loop (and of the loops inside) for every value of its range. The stack
    /// holds (loop, next step, iteration).
    fn run(&mut self, root: usize) -> Result<(), InterpError> {
        let nest = self.nest;
        let mut stack = vec![(root, 0usize, 0i64)];
        while let Some(&mut (block, ref mut next, ref mut iteration)) = stack.last_mut() {
            let b = &nest.loops[block];
            if *next == 0
                && let Some((slot, _)) = b.range
            {
                self.values[slot] = *iteration as u64;
            }
            let Some(step) = b.steps.get(*next) else {
                *iteration += 1;
                *next = 0;
                let again = b.range.is_some_and(|(_, extent)| *iteration < extent);
                if !again {
                    stack.pop();
                }
                continue;
            };
            *next += 1;
            match step {
                Step::Eval(id) => self.eval(*id)?,
                Step::Loop(inner) => stack.push((*inner, 0, 0)),
                Step::Reduce(id, inner) => {
                    let Op::Reduce(op) = self.graph().op(*id) else {
                        continue;
                    };
                    self.put(*id, scalar::identity(op, self.graph().dtype(*id)));
                    self.sums.remove(id);
                    stack.push((*inner, 0, 0));
                }
                Step::Accumulate(id) => {
                    let value = self.value(self.graph().src(*id)[0]);
                    let dtype = self.graph().dtype(*id);
                    if self.graph().op(*id) == Op::Reduce(ReduceOp::Add) && dtype.is_float() {
                        let sum = self.sums.entry(*id).or_insert(0.0);
                        *sum += scalar::to_f64(dtype, value);
                        let rounded = scalar::from_f64(dtype, *sum);
                        self.put(*id, rounded);
                    } else if let Op::Reduce(op) = self.graph().op(*id) {
                        let sum = self.combine(*id, op, self.value(*id), value)?;
                        self.put(*id, sum);
                    }
                }
                Step::Scan(id, others) => self.scan(*id, others)?,
                Step::Store(id) => self.store(*id)?,
            }
        }
        Ok(())
    }

    fn combine(&self, id: Id, op: ReduceOp, a: u64, b: u64) -> Result<u64, InterpError> {
        scalar::binary(op.binary(), self.graph().dtype(id), a, b).ok_or_else(|| {
            self.nest
                .undefined(id, "the operation is not defined for this type")
        })
    }

    fn scan(&mut self, id: Id, others: &[usize]) -> Result<(), InterpError> {
        let &[value, range] = self.graph().src(id) else {
            return Err(self.nest.undefined(id, "a scan has a value and a range"));
        };
        let Op::Scan(op) = self.graph().op(id) else {
            return Ok(());
        };
        let key = (id, others.iter().map(|&s| self.values[s]).collect());
        let value = self.value(value);
        let before = match self.scans.get(&key) {
            Some(&before) if self.value(range) != 0 => before,
            _ => scalar::identity(op, self.graph().dtype(id)),
        };
        let dtype = self.graph().dtype(id);
        if op == ReduceOp::Add && dtype.is_float() {
            // Kept as `f64`, and rounded at each place.
            let sum = f64::from_bits(before) + scalar::to_f64(dtype, value);
            self.scans.insert(key, sum.to_bits());
            self.put(id, scalar::from_f64(dtype, sum));
            return Ok(());
        }
        let now = self.combine(id, op, before, value)?;
        self.scans.insert(key, now);
        self.put(id, now);
        Ok(())
    }

    fn eval(&mut self, id: Id) -> Result<(), InterpError> {
        let kernel = self.kernel;
        let node = kernel.graph.node(id);
        let undefined = || {
            self.nest
                .undefined(id, "the operation is not defined for this type")
        };
        let of = |i: usize| node.src.get(i).map_or(0, |&s| self.value(s));
        let from = node
            .src
            .first()
            .map_or(node.dtype, |&s| kernel.graph.dtype(s));
        let bits = match node.op {
            Op::Unary(op) => scalar::unary(op, from, of(0)).ok_or_else(undefined)?,
            Op::Binary(op) => scalar::binary(op, from, of(0), of(1)).ok_or_else(undefined)?,
            Op::Where => {
                if of(0) != 0 {
                    of(1)
                } else {
                    of(2)
                }
            }
            Op::Fma => scalar::fma(from, of(0), of(1), of(2)).ok_or_else(undefined)?,
            Op::Dot => scalar::dot(of(0), of(1), of(2)),
            Op::Cast => scalar::cast(from, node.dtype, of(0)),
            Op::Bitcast => scalar::bitcast(from, node.dtype, of(0)),
            Op::Load if node.src.len() == 4 && of(2) == 0 => of(3),
            Op::Load => {
                let (ptr, index) = (node.src[0], of(1) as i64);
                let at = self.place(id, ptr, index)?;
                let size = node.dtype.size();
                scalar::read(node.dtype, &self.memory(ptr)[at..at + size])
            }
            Op::Check => {
                let (value, number, outside) = (of(1), of(2), of(3));
                if outside != 0 {
                    let at = self.place(id, node.src[0], 0)?;
                    scalar::write(number, &mut self.memory(node.src[0])[at..at + 8]);
                }
                value
            }
            _ => return Err(self.nest.undefined(id, "it is not a value")),
        };
        self.put(id, bits);
        Ok(())
    }

    /// Memory behind a pointer that [`Machine::place`] accepted.
    fn memory(&mut self, ptr: Id) -> &mut [u8] {
        match self.graph().op(ptr) {
            Op::Param { slot } => &mut self.buffers[slot as usize],
            _ => &mut [],
        }
    }

    /// Byte offset of an element, checked.
    fn place(&self, id: Id, ptr: Id, index: i64) -> Result<usize, InterpError> {
        let len = match self.graph().op(ptr) {
            Op::Param { slot } => self.kernel.params.get(slot as usize).map_or(0, |p| p.len),
            _ => return Err(self.nest.undefined(id, "its first source is not a pointer")),
        };
        match usize::try_from(index) {
            Ok(i) if i < len => Ok(i * self.graph().dtype(ptr).size()),
            _ => Err(InterpError::OutOfBounds {
                kernel: self.kernel.name.clone(),
                node: print::describe(self.graph(), id),
                index,
                len,
                at: self.position(id),
            }),
        }
    }

    /// Values of the ranges a node depends on.
    fn position(&self, id: Id) -> String {
        let set = self.nest.sets.get(id);
        let all: Vec<String> = set
            .iter()
            .map(|&r| format!("r{}={}", axis(self.graph(), r), self.value(r)))
            .collect();
        if all.is_empty() {
            "no loop".into()
        } else {
            all.join(" ")
        }
    }

    fn store(&mut self, id: Id) -> Result<(), InterpError> {
        let kernel = self.kernel;
        let node = kernel.graph.node(id);
        let (Op::Store(mode), true) = (node.op, node.src.len() >= 3) else {
            return Err(self
                .nest
                .undefined(id, "a store has pointer, index and value"));
        };
        if node.src.len() == 4 && self.value(node.src[3]) == 0 {
            return Ok(());
        }
        let (ptr, index) = (node.src[0], self.value(node.src[1]) as i64);
        let mut value = self.value(node.src[2]);
        let dtype: DType = node.dtype;
        let at = self.place(id, ptr, index)?;
        let bytes = at..at + dtype.size();
        match mode {
            StoreMode::Set => {
                let ordered = self.nest.ordered.contains(&id);
                let again = !ordered && !self.set.insert((ptr, index));
                if again && scalar::read(dtype, &self.memory(ptr)[bytes.clone()]) != value {
                    return Err(InterpError::DoubleSet {
                        kernel: kernel.name.clone(),
                        node: print::describe(&kernel.graph, id),
                        index,
                        at: self.position(id),
                    });
                }
            }
            StoreMode::Combine(op) | StoreMode::Atomic(op) => {
                let old = scalar::read(dtype, &self.memory(ptr)[bytes.clone()]);
                value = self.combine(id, op, old, value)?;
            }
        }
        scalar::write(value, &mut self.memory(ptr)[bytes]);
        Ok(())
    }
}
