//! The reference executor: one node after the other on the host, no fusion, no compiler.
//!
//! It is the oracle for everything else, so it shares only the scalar semantics with the kernel
//! compiler. Reductions and scans of floats accumulate in binary64 and round once (a scan rounds
//! each output from the running binary64 value); integers wrap.

use std::collections::HashMap;
use std::sync::Arc;

use codegen::DType;
use codegen::interp::scalar;
use codegen::ir::ReduceOp;

use crate::error::{Error, Result};
use crate::graph::{Engine, Executor, Loop, LoopOutput, Op, ScatterMode, Storage, Tensor};
use crate::jit::tracing;

/// Elements in row-major order, as the bits of `Const`.
type Values = Arc<Vec<u64>>;

/// Bytes that values may take at one time, unless said otherwise.
const MOST: u64 = 8 << 30;

/// Evaluates graphs naively on the host; every value is in [`Storage::Host`].
#[derive(Debug)]
pub struct Reference {
    most: u64,
}

impl Default for Reference {
    fn default() -> Self {
        Reference { most: MOST }
    }
}

impl Engine {
    /// A new engine over the reference executor.
    pub fn reference() -> Engine {
        Engine(Arc::new(Reference::default()))
    }

    /// An engine that refuses graphs whose values need more memory than this at a time, before allocating it. An
    /// element takes 8 bytes whatever its type.
    pub fn reference_within(bytes: u64) -> Engine {
        Engine(Arc::new(Reference { most: bytes }))
    }
}

impl Executor for Reference {
    fn name(&self) -> String {
        "REFERENCE".into()
    }

    fn memory(&self) -> u64 {
        self.most
    }

    fn realize(&self, roots: &[Tensor]) -> Result<()> {
        tracing::refuse(self, "realizing")?;
        let values = self.evaluate(roots, &HashMap::new())?;
        for (root, values) in roots.iter().zip(values) {
            root.node().fill(encode(root.dtype(), &values));
        }
        Ok(())
    }

    fn read(&self, storage: &Storage, into: &mut [u8]) -> Result<()> {
        tracing::refuse(self, "reading")?;
        let bytes = match storage {
            Storage::Host(bytes) => bytes,
            Storage::Source(source) => return source.fill(into),
            Storage::Device(_) => return Err(foreign("a storage in device memory")),
        };
        if bytes.len() != into.len() {
            return Err(Error::Shape {
                op: "read",
                what: format!(
                    "the storage has {} bytes, expected {}",
                    bytes.len(),
                    into.len()
                ),
            });
        }
        into.copy_from_slice(bytes);
        Ok(())
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

fn foreign(what: &str) -> Error {
    Error::Shape {
        op: "reference",
        what: format!("{what} is not in host memory; move the tensor with `to`"),
    }
}

fn encode(dtype: DType, values: &[u64]) -> Storage {
    let size = dtype.size();
    let mut bytes = vec![0; values.len() * size];
    for (element, &bits) in bytes.chunks_exact_mut(size).zip(values) {
        scalar::write(bits, element);
    }
    Storage::Host(Arc::from(bytes))
}

fn decode(dtype: DType, bytes: &[u8]) -> Values {
    Arc::new(
        bytes
            .chunks_exact(dtype.size())
            .map(|element| scalar::read(dtype, element))
            .collect(),
    )
}

/// A leaf: what is in memory, or a value of another engine.
fn leaf(tensor: &Tensor) -> Result<Option<Values>> {
    if let Some(storage) = tensor.storage() {
        let mut bytes = vec![0; tensor.numel() * tensor.dtype().size()];
        tensor.engine().0.read(&storage, &mut bytes)?;
        return Ok(Some(decode(tensor.dtype(), &bytes)));
    }
    if matches!(tensor.node().op, Op::Copy) {
        let bytes = tensor.node().src()[0].to_bytes()?;
        return Ok(Some(decode(tensor.dtype(), &bytes)));
    }
    Ok(None)
}

/// What came out of a loop.
struct Looped {
    /// The states after the last step.
    last: Vec<Values>,
    /// Every result of all steps.
    rows: Vec<Values>,
}

/// The runs of loops so far, by loop and sources.
type Runs = HashMap<(usize, Vec<u64>), Looped>;

impl Reference {
    /// The values of all roots, each node evaluated once, sources before users, on an explicit stack.
    /// `given` are those of the parameters of a loop.
    fn evaluate(&self, roots: &[Tensor], given: &HashMap<u64, Values>) -> Result<Vec<Values>> {
        let mut runs = Runs::new();
        // Users of each node that are still to come: its value is dropped after the last.
        let mut users: HashMap<u64, usize> = HashMap::new();
        let mut order: Vec<Tensor> = Vec::new();
        let mut leaves: HashMap<u64, Values> = HashMap::new();
        let mut stack: Vec<(Tensor, bool)> = roots.iter().map(|t| (t.clone(), false)).collect();
        let mut seen = std::collections::HashSet::new();
        while let Some((tensor, expanded)) = stack.pop() {
            if expanded {
                order.push(tensor);
                continue;
            }
            if !seen.insert(tensor.id()) {
                continue;
            }
            let held = tensor.storage().is_some() || matches!(tensor.node().op, Op::Copy);
            if held {
                self.room(&tensor, &leaves)?;
            }
            if let Some(values) = given.get(&tensor.id()) {
                leaves.insert(tensor.id(), values.clone());
                continue;
            }
            if let Some(values) = leaf(&tensor)? {
                leaves.insert(tensor.id(), values);
                continue;
            }
            stack.push((tensor.clone(), true));
            for source in tensor.node().src().iter() {
                *users.entry(source.id()).or_default() += 1;
                stack.push((source.clone(), false));
            }
        }
        for root in roots {
            *users.entry(root.id()).or_default() += 1;
        }
        let mut memo = leaves;
        for tensor in &order {
            let sources = tensor
                .node()
                .src()
                .iter()
                .map(|source| {
                    memo.get(&source.id())
                        .cloned()
                        .ok_or_else(|| foreign("a source that was not evaluated"))
                })
                .collect::<Result<Vec<Values>>>()?;
            self.room(tensor, &memo)?;
            let values = match &tensor.node().op {
                Op::Loop(body, taken) => self.looped(tensor, body, *taken, &sources, &mut runs)?,
                _ => node(tensor, &sources)?,
            };
            drop(sources);
            for source in tensor.node().src().iter() {
                if let Some(left) = users.get_mut(&source.id()) {
                    *left -= 1;
                    if *left == 0 {
                        memo.remove(&source.id());
                    }
                }
            }
            memo.insert(tensor.id(), values);
        }
        roots
            .iter()
            .map(|root| {
                memo.get(&root.id())
                    .cloned()
                    .ok_or_else(|| foreign("a root that was not evaluated"))
            })
            .collect()
    }

    /// A result of a loop, which runs once for all of them.
    fn looped(
        &self,
        tensor: &Tensor,
        body: &Loop,
        taken: LoopOutput,
        sources: &[Values],
        runs: &mut Runs,
    ) -> Result<Values> {
        let ids = tensor.node().src().iter().map(Tensor::id).collect();
        let key = (body.identity(), ids);
        let run = match runs.remove(&key) {
            Some(run) => run,
            None => self.run(body, sources)?,
        };
        let (list, i) = match taken {
            LoopOutput::Last(i) => (&run.last, i),
            LoopOutput::Rows(i) => (&run.rows, i),
        };
        let values = list.get(i).cloned();
        runs.insert(key, run);
        values.ok_or_else(|| undefined(tensor))
    }

    fn run(&self, body: &Loop, sources: &[Values]) -> Result<Looped> {
        let mut last: Vec<Values> = sources[..body.states].to_vec();
        let sizes: Vec<usize> = body.results.iter().map(Tensor::numel).collect();
        let mut rows: Vec<Vec<u64>> = sizes.iter().map(|n| vec![0; n * body.steps]).collect();
        let mut given: HashMap<u64, Values> = HashMap::new();
        for step in 0..body.steps {
            let row = body.row(step);
            for (i, (param, source)) in body.params.iter().zip(sources).enumerate() {
                let values = match i {
                    _ if i < body.states => last[i].clone(),
                    _ if i < body.states + body.inputs => {
                        let n = param.numel();
                        Arc::new(source[row * n..][..n].to_vec())
                    }
                    _ => source.clone(),
                };
                given.insert(param.id(), values);
            }
            let results = self.evaluate(&body.results, &given)?;
            for ((all, &n), values) in rows.iter_mut().zip(&sizes).zip(&results) {
                all[row * n..][..n].copy_from_slice(values);
            }
            last = results.into_iter().take(body.states).collect();
        }
        let rows = rows.into_iter().map(Arc::new).collect();
        Ok(Looped { last, rows })
    }

    /// Whether one more value may be made beside those that are alive.
    fn room(&self, next: &Tensor, alive: &HashMap<u64, Values>) -> Result<()> {
        let alive: usize = alive.values().map(|v| v.len()).sum();
        let bytes = 8 * (alive as u128 + next.numel() as u128);
        if bytes <= u128::from(self.most) {
            return Ok(());
        }
        Err(Error::Memory {
            what: format!("{next:?}"),
            bytes,
            engine: self.name(),
            most: self.most,
        })
    }
}

/// Row-major strides, in elements.
fn strides(shape: &[usize]) -> Vec<isize> {
    let mut out = vec![0; shape.len()];
    let mut step = 1isize;
    for (stride, &len) in out.iter_mut().zip(shape).rev() {
        *stride = step;
        step *= len.max(1) as isize;
    }
    out
}

/// Calls `f` with the source position of every element of `shape`, in row-major order, where the
/// position moves by `strides[i]` along axis i from `start`.
fn walk(shape: &[usize], strides: &[isize], start: isize, mut f: impl FnMut(usize)) {
    if shape.contains(&0) {
        return;
    }
    let mut at = vec![0; shape.len()];
    let mut position = start;
    loop {
        f(position as usize);
        let mut axis = shape.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            at[axis] += 1;
            position += strides[axis];
            if at[axis] < shape[axis] {
                break;
            }
            position -= strides[axis] * shape[axis] as isize;
            at[axis] = 0;
        }
    }
}

fn view(source: &[u64], shape: &[usize], strides: &[isize], start: isize) -> Values {
    let mut out = Vec::with_capacity(shape.iter().product());
    walk(shape, strides, start, |at| out.push(source[at]));
    Arc::new(out)
}

fn undefined(tensor: &Tensor) -> Error {
    Error::DType {
        op: "reference",
        what: format!("{tensor:?} is not defined for its type"),
    }
}

fn node(tensor: &Tensor, sources: &[Values]) -> Result<Values> {
    let shape = tensor.shape();
    let dtype = tensor.dtype();
    let src = tensor.node().src();
    let all = |bits: Option<Vec<u64>>| bits.map(Arc::new).ok_or_else(|| undefined(tensor));
    match &tensor.node().op {
        Op::Data | Op::Copy | Op::Loop(..) => Err(foreign("data without storage")),
        Op::Given => Err(Error::Capture {
            what: format!(
                "{tensor:?} is a value inside a captured function; return it as an output"
            ),
        }),
        Op::Param => Err(Error::Capture {
            what:
                "a value inside a loop body, which differs at each step, was read; return it as an \
                 output of the body"
                    .into(),
        }),
        Op::Const(bits) => Ok(Arc::new(vec![*bits])),
        Op::Iota => Ok(Arc::new((0..shape[0] as u64).collect())),
        Op::Unary(op) => all(sources[0]
            .iter()
            .map(|&a| scalar::unary(*op, dtype, a))
            .collect()),
        Op::Binary(op) => {
            let from = src[0].dtype();
            all(sources[0]
                .iter()
                .zip(sources[1].iter())
                .map(|(&a, &b)| scalar::binary(*op, from, a, b))
                .collect())
        }
        Op::Where => Ok(Arc::new(
            sources[0]
                .iter()
                .zip(sources[1].iter().zip(sources[2].iter()))
                .map(|(&cond, (&a, &b))| if cond != 0 { a } else { b })
                .collect(),
        )),
        Op::Cast => {
            let from = src[0].dtype();
            Ok(Arc::new(
                sources[0]
                    .iter()
                    .map(|&a| scalar::cast(from, dtype, a))
                    .collect(),
            ))
        }
        Op::Bitcast => {
            let from = src[0].dtype();
            Ok(Arc::new(
                sources[0]
                    .iter()
                    .map(|&a| scalar::bitcast(from, dtype, a))
                    .collect(),
            ))
        }
        Op::Reduce(op, axes) => Ok(reduced(tensor, *op, axes, &sources[0])),
        Op::Scan(op, axis) => Ok(scanned(tensor, *op, *axis, &sources[0])),
        Op::Reshape | Op::Contiguous | Op::Detach | Op::Sloped(_) => Ok(sources[0].clone()),
        Op::Pad(lo, bits) => Ok(padded(tensor, lo, *bits, &sources[0])),
        op @ (Op::Permute(_) | Op::Expand | Op::Shrink(_) | Op::Flip(_) | Op::Windows { .. }) => {
            let (step, start) = strided(op, shape, src[0].shape());
            Ok(view(&sources[0], shape, &step, start))
        }
        Op::Checked(bounds) => {
            let values = sources[0].iter().map(|&bits| scalar::to_int(dtype, bits));
            let mut values = values.map(|index| i64::try_from(index).unwrap_or(i64::MAX));
            match values.find(|&index| !bounds.has(index)) {
                Some(index) => Err(bounds.error(index)),
                None => Ok(sources[0].clone()),
            }
        }
        Op::Gather(axis) => {
            let picks = Picks::new(&src[0], &src[1], *axis);
            let mut out = Vec::with_capacity(sources[1].len());
            picks.each(&sources[1], |at| {
                out.push(at.map_or(0, |at| sources[0][at]))
            });
            Ok(Arc::new(out))
        }
        Op::Scatter(axis, mode) => all(scattered(tensor, *axis, mode, sources)),
    }
}

fn reduced(tensor: &Tensor, op: ReduceOp, axes: &[usize], source: &Values) -> Values {
    let shape = tensor.shape();
    let mut step = strides(shape);
    for &axis in axes {
        step[axis] = 0;
    }
    let mut sums = vec![Accumulator::new(op, tensor.dtype()); shape.iter().product()];
    let mut next = source.iter();
    walk(tensor.node().src()[0].shape(), &step, 0, |at| {
        if let Some(&bits) = next.next() {
            sums[at].add(bits);
        }
    });
    Arc::new(sums.iter().map(Accumulator::bits).collect())
}

fn scanned(tensor: &Tensor, op: ReduceOp, axis: usize, source: &Values) -> Values {
    let shape = tensor.shape();
    let mut out = source.to_vec();
    let inner: usize = shape[axis + 1..].iter().product();
    let block = shape[axis] * inner;
    for start in (0..out.len()).step_by(block.max(1)) {
        for lane in start..start + inner {
            let mut sum = Accumulator::new(op, tensor.dtype());
            for at in (lane..start + block).step_by(inner) {
                sum.add(out[at]);
                out[at] = sum.bits();
            }
        }
    }
    Arc::new(out)
}

fn padded(tensor: &Tensor, lo: &[usize], bits: u64, source: &Values) -> Values {
    let shape = tensor.shape();
    let step = strides(shape);
    let start = lo.iter().zip(&step).map(|(&lo, &s)| lo as isize * s).sum();
    let mut out = vec![bits; shape.iter().product()];
    let mut next = source.iter();
    walk(tensor.node().src()[0].shape(), &step, start, |at| {
        if let Some(&bits) = next.next() {
            out[at] = bits;
        }
    });
    Arc::new(out)
}

/// The strides of a view in its source, and where it starts.
fn strided(op: &Op, shape: &[usize], source: &[usize]) -> (Vec<isize>, isize) {
    let mut step = strides(source);
    let mut start = 0;
    match op {
        Op::Permute(order) => step = order.iter().map(|&axis| step[axis]).collect(),
        Op::Expand => {
            for (stride, &len) in step.iter_mut().zip(source) {
                if len == 1 {
                    *stride = 0;
                }
            }
        }
        Op::Shrink(lo) => {
            start = lo.iter().zip(&step).map(|(&lo, &s)| lo as isize * s).sum();
        }
        Op::Flip(axes) => {
            for &axis in axes {
                start += step[axis] * (shape[axis] as isize - 1);
                step[axis] = -step[axis];
            }
        }
        Op::Windows {
            axis,
            stride,
            dilation,
            ..
        } => {
            step.push(step[*axis] * *dilation as isize);
            step[*axis] *= *stride as isize;
        }
        _ => {}
    }
    (step, start)
}

/// `None` where the combination is not defined for the type.
fn scattered(
    tensor: &Tensor,
    axis: usize,
    mode: &ScatterMode,
    sources: &[Values],
) -> Option<Vec<u64>> {
    let src = tensor.node().src();
    let picks = Picks::new(&src[0], &src[1], axis);
    let mut out = sources[0].to_vec();
    let mut next = sources[2].iter();
    let mut defined = true;
    picks.each(&sources[1], |at| {
        let (Some(&new), Some(at)) = (next.next(), at) else {
            return;
        };
        out[at] = match mode {
            ScatterMode::Set | ScatterMode::Distinct => new,
            ScatterMode::Combine(op) => {
                let old = out[at];
                scalar::binary(op.binary(), tensor.dtype(), old, new).unwrap_or_else(|| {
                    defined = false;
                    0
                })
            }
        };
    });
    defined.then_some(out)
}

/// Positions in a tensor that an index names along an axis.
struct Picks<'a> {
    shape: &'a [usize],
    step: Vec<isize>,
    along: isize,
    len: i128,
    dtype: DType,
}

impl<'a> Picks<'a> {
    fn new(base: &Tensor, index: &'a Tensor, axis: usize) -> Self {
        let mut step = strides(base.shape());
        let along = std::mem::replace(&mut step[axis], 0);
        Picks {
            shape: index.shape(),
            step,
            along,
            len: base.shape()[axis] as i128,
            dtype: index.dtype(),
        }
    }

    /// Calls `f` for each element of the index, with `None` where it is out of range.
    fn each(&self, index: &[u64], mut f: impl FnMut(Option<usize>)) {
        let mut next = index.iter();
        walk(self.shape, &self.step, 0, |at| {
            let pick = next.next().map_or(-1, |&bits| {
                let pick = scalar::to_int(self.dtype, bits);
                if pick < 0 { pick + self.len } else { pick }
            });
            let inside = (0..self.len).contains(&pick);
            f(inside.then(|| (at as isize + self.along * pick as isize) as usize));
        });
    }
}

/// A running reduction of one element.
#[derive(Clone, Copy)]
struct Accumulator {
    op: ReduceOp,
    dtype: DType,
    /// Bits of the value so far; of a binary64 if `wide`.
    bits: u64,
    wide: bool,
}

impl Accumulator {
    fn new(op: ReduceOp, dtype: DType) -> Self {
        let wide = dtype.is_float() && matches!(op, ReduceOp::Add | ReduceOp::Mul);
        let carrier = if wide { DType::F64 } else { dtype };
        Accumulator {
            op,
            dtype,
            bits: scalar::identity(op, carrier),
            wide,
        }
    }

    fn add(&mut self, bits: u64) {
        let (carrier, bits) = if self.wide {
            (DType::F64, scalar::to_f64(self.dtype, bits).to_bits())
        } else {
            (self.dtype, bits)
        };
        // Reductions are checked against the type when the node is made.
        if let Some(sum) = scalar::binary(self.op.binary(), carrier, self.bits, bits) {
            self.bits = sum;
        }
    }

    fn bits(&self) -> u64 {
        if self.wide {
            scalar::from_f64(self.dtype, f64::from_bits(self.bits))
        } else {
            self.bits
        }
    }
}
