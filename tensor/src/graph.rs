//! The lazy graph of tensors.
//!
//! A [`Tensor`] is a handle of an immutable node. Building one checks shapes and types and costs
//! nothing else; [`Engine::realize`] runs what is needed and fills in the storage.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, RwLock};

use codegen::DType;
use codegen::ir::{Binary, ReduceOp, Unary};

use crate::error::{Error, Result};
use crate::no_grad;

/// Sizes of the axes, outermost first. A scalar has none.
pub type Shape = Vec<usize>;

/// How [`Op::Scatter`] combines with existing elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScatterMode {
    /// Overwrite; of several writes to one element the last in row-major order of the source wins.
    Set,
    /// Overwrite in any order. The creator of the node guarantees that no two writes have the same element;
    /// otherwise one of them wins.
    Distinct,
    /// Combine with the element, in row-major order of the source.
    Combine(ReduceOp),
}

/// The valid range of an index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bounds {
    /// The operation, for errors.
    pub op: &'static str,
    /// Elements of the axis.
    pub len: usize,
    /// Whether negative ones count from the end.
    pub negative: bool,
    /// A value that is ignored.
    pub ignore: Option<i64>,
}

impl Bounds {
    /// The least index.
    pub fn low(&self) -> i64 {
        match self.negative {
            true => -(self.len as i64),
            false => 0,
        }
    }

    /// Whether an index is valid.
    pub fn has(&self, index: i64) -> bool {
        (self.low()..self.len as i64).contains(&index) || self.ignore == Some(index)
    }

    /// The error of a newly found index.
    pub(crate) fn error(&self, index: i64) -> Error {
        Error::Index {
            op: self.op,
            index,
            low: self.low(),
            len: self.len,
        }
    }
}

/// A gradient rule for values whose operations give none, or an inaccurate one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Slope {
    /// Of the distance from the origin: each coordinate over the distance, and 0 where both are 0 or infinite.
    /// The coordinates are the sources.
    Hypot,
    /// Of [`Slope::Cofactors`] and of itself, and so of any order: derivatives of the running products of the first
    /// source along an axis, in the directions of the other sources.
    Products(usize),
    /// Of running products along an axis, and of itself: for each element of the first source the sum over the
    /// running products of derivatives by it and in the directions of the third and further sources, with weights in the second.
    Cofactors(usize),
}

/// What a node computes. Shapes and types of results are in the node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// Given data: the storage was set when the node was made. src: `[]`.
    Data,
    /// One value, as the bits of its type (see [`codegen::ir::Op::Const`]); shape []. src: `[]`.
    Const(u64),
    /// 0, 1, 2... along the one axis. src: `[]`.
    Iota,
    /// Elementwise. src: `[a]`.
    Unary(Unary),
    /// Elementwise on equal shapes and types. src: `[a, b]`.
    Binary(Binary),
    /// Elementwise choice; the condition is `Bool`. src: `[cond, a, b]`.
    Where,
    /// Conversion by value. src: `[a]`.
    Cast,
    /// Same bits, other type of the same width. src: `[a]`.
    Bitcast,
    /// Reduction over axes (ascending), which stay with size 1. src: `[a]`.
    Reduce(ReduceOp, Vec<usize>),
    /// Inclusive prefix reduction along an axis. src: `[a]`.
    Scan(ReduceOp, usize),
    /// Same elements in row-major order under another shape. src: `[a]`.
    Reshape,
    /// Axis `i` of the result is axis `order[i]` of the source. src: `[a]`.
    Permute(Vec<usize>),
    /// Axes of size 1 repeated to the size in the shape. src: `[a]`.
    Expand,
    /// `lo[i]` elements before axis i, as many after as the shape says, all with this value (bits).
    /// src: `[a]`.
    Pad(Vec<usize>, u64),
    /// The part that starts at `lo` and has the size in the shape. src: `[a]`.
    Shrink(Vec<usize>),
    /// These axes reversed. src: `[a]`.
    Flip(Vec<usize>),
    /// The windows along `axis` as a new last axis k of `size` elements:
    /// `out[.., o, .., k] = a[.., o * stride + k * dilation, ..]`; the axis shrinks to
    /// `(len - dilation * (size - 1) - 1) / stride + 1`, so every element read exists.
    /// size, stride and dilation are at least 1. src: `[a]`.
    ///
    /// Convolution and pooling are windows and a reduction. The index rule is affine, so no
    /// division reaches a kernel; the gradient needs no node of its own, because it is a sum over k
    /// of the padded and strided parts.
    Windows {
        /// The axis that the windows slide along.
        axis: usize,
        /// Elements in a window.
        size: usize,
        /// Distance between the starts of two windows.
        stride: usize,
        /// Distance between two elements of a window.
        dilation: usize,
    },
    /// `out[.., i, ..] = a[.., index[.., i, ..], ..]` along an axis; other coordinates come from the
    /// position in `index`, which is no larger than `a` there. A negative index counts from the
    /// end; one that is out of range gives 0. src: `[a, index]`.
    Gather(usize),
    /// `base` with `source` put at `index` along an axis, the inverse of `Gather`. Indexes out of
    /// range write nothing. src: `[base, index, source]`.
    Scatter(usize, ScatterMode),
    /// The value, an index; one that is out of bounds is an error of the next wait for results. Devices
    /// note it in a word in memory, see [`Executor::fault_word`]. src: `[index]` or `[index, word]`.
    Checked(Bounds),
    /// Forces the value into memory. src: `[a]`.
    Contiguous,
    /// Stops gradients. src: `[a]`.
    Detach,
    /// The value of `a`, with a gradient that a rule has for it as a function of `b..`. src: `[a, b..]`.
    Sloped(Slope),
    /// The same value on this node's engine, from the source's engine. src: `[a]`.
    Copy,
    /// A value inside a loop that differs at each step. src: `[]`.
    Param,
    /// A value that each replay of a captured function is given: an input, a parameter, random
    /// numbers. It is a value only while the function is traced. src: `[]`.
    Given,
    /// A result of a loop. src: one per parameter of the body.
    Loop(Arc<Loop>, LoopOutput),
}

/// The body of a loop that makes a known number of steps: a graph over parameters, traced once. It
/// uses nothing else but constants.
///
/// Loops are equal if they are the same one: results with the same loop and the same sources come
/// out of one run of it.
pub struct Loop {
    /// How many there are, at least 1.
    pub steps: usize,
    /// From the last row of the inputs to the first.
    pub backward: bool,
    /// States: the first parameters, and as many results. A parameter is the initial value at the
    /// first step, then what the step before gave as the result.
    pub states: usize,
    /// The parameters after the states: at each step a row of a source, which has the steps as its
    /// first axis. Those after them have the same value at all steps.
    pub inputs: usize,
    /// Nodes that stand for values given at each step.
    pub params: Vec<Tensor>,
    /// The new states, then what else is made at each step.
    pub results: Vec<Tensor>,
}

/// The output of a loop that a node returns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LoopOutput {
    /// This result, which is a state, of the last step.
    Last(usize),
    /// This result of all steps, each in the row that the step reads of the inputs.
    Rows(usize),
}

impl PartialEq for Loop {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Loop {}

impl std::hash::Hash for Loop {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self).hash(state);
    }
}

impl fmt::Debug for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.backward { " backward" } else { "" };
        write!(f, "{} steps{way}", self.steps)
    }
}

impl Loop {
    /// A number that no other loop has while this one lives.
    pub fn identity(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The row that a step reads and writes.
    pub fn row(&self, step: usize) -> usize {
        match self.backward {
            true => self.steps - 1 - step,
            false => step,
        }
    }
}

impl Op {
    /// Only says where elements are.
    pub fn is_movement(&self) -> bool {
        matches!(
            self,
            Op::Reshape
                | Op::Permute(_)
                | Op::Expand
                | Op::Pad(..)
                | Op::Shrink(_)
                | Op::Flip(_)
                | Op::Windows { .. }
        )
    }
}

/// Where the elements of a realized tensor are, in row-major order without gaps.
///
/// They never change while the storage is shared, unless the memory is that of others ([`crate::blob`]). New values of a
/// parameter overwrite the old ones only if nothing else holds these; see [`crate::param`].
#[derive(Clone, Debug)]
pub enum Storage {
    /// In host memory; uploaded when first used by a device.
    Host(Arc<[u8]>),
    /// In the memory of the engine's device. Tensors and readers share this handle; work in flight holds the buffer
    /// inside.
    Device(Arc<hcq::Buffer>),
    /// Elsewhere, such as in a file; read when first used. Constants of a [`crate::jit::Frozen`] function are read
    /// once and not kept.
    Source(Arc<dyn Source>),
}

/// Immutable bytes that can be read repeatedly.
pub trait Source: Send + Sync + fmt::Debug {
    /// How many there are.
    fn bytes(&self) -> usize;

    /// Fills `into` with the bytes from `offset` on.
    ///
    /// # Errors
    /// From the file, or whatever is behind it.
    fn read_at(&self, offset: usize, into: &mut [u8]) -> std::io::Result<()>;
}

impl dyn Source {
    /// All bytes.
    ///
    /// # Errors
    /// Errors of the source.
    pub fn all(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.bytes()];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// All bytes, into a slice of that length.
    ///
    /// # Errors
    /// Errors of the source; another length.
    pub fn fill(&self, into: &mut [u8]) -> Result<()> {
        if into.len() != self.bytes() {
            return Err(Error::Shape {
                op: "read",
                what: format!(
                    "{self:?} has {} bytes, expected {}",
                    self.bytes(),
                    into.len()
                ),
            });
        }
        self.part(0, into)
    }

    /// The bytes from `offset` on.
    ///
    /// # Errors
    /// Errors of the source.
    pub fn part(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        self.read_at(offset, into).map_err(|source| Error::Source {
            what: format!("{self:?}"),
            source,
        })
    }
}

/// New values of parameters that wait to be computed together; see [`crate::param`].
pub trait Waiting: Send + Sync {
    /// How many there are.
    fn count(&self) -> usize;

    /// The value that the parameter has in memory.
    fn stored(&self, i: usize) -> &Tensor;

    /// The value that waits. It is the stored one if that was never computed.
    fn value(&self, i: usize) -> &Tensor;

    /// Which of them may overwrite the current values of the parameters.
    fn donated(&self, roots: &[Tensor], cut: &[Tensor]) -> Vec<bool>;

    /// Sets the value of the parameter.
    fn settle(&self, i: usize, value: Tensor);

    /// Calls `submit`, and sets these parameters to these values, which reuse the memory of the old ones. Returns
    /// `false` without calling `submit` if one of the old values has been taken since the check.
    ///
    /// # Errors
    /// Those of `submit`; then nothing is changed. Readers of these values wait meanwhile.
    fn settle_over(
        &self,
        all: &[(usize, Tensor)],
        submit: &mut dyn FnMut() -> Result<()>,
    ) -> Result<bool>;
}

/// Runs graphs. Implemented by the device executor and by the reference executor.
pub trait Executor: Send + Sync {
    /// Name in messages, such as `CPU:0` or `REFERENCE`.
    fn name(&self) -> String;

    /// Bytes that its values may take; more is refused before it is allocated.
    fn memory(&self) -> u64 {
        u64::MAX
    }

    /// Whether its device has `f64`. Where it has none, the type is refused, and what needs its digits alone has those
    /// of `f32`.
    fn has_doubles(&self) -> bool {
        true
    }

    /// Computes the storage of every root that has none.
    ///
    /// # Errors
    /// From compiling, or from the device.
    fn realize(&self, roots: &[Tensor]) -> Result<()>;

    /// Reads the bytes of a storage, waiting for work on it.
    ///
    /// # Errors
    /// From the device.
    fn read(&self, storage: &Storage, into: &mut [u8]) -> Result<()>;

    /// Computes the storage of every root that has none, and the waiting values of parameters,
    /// which take their places. `cut` are those of the roots whose graphs are given up behind it.
    ///
    /// # Errors
    /// From compiling, or from the device; then the parameters wait as before.
    fn update(&self, roots: &[Tensor], waiting: &dyn Waiting, cut: &[Tensor]) -> Result<()> {
        let _ = cut;
        let values = (0..waiting.count()).map(|i| waiting.value(i).clone());
        let all: Vec<Tensor> = roots.iter().cloned().chain(values).collect();
        let missing: Vec<Tensor> = all.into_iter().filter(|t| t.storage().is_none()).collect();
        self.realize(&missing)?;
        for i in 0..waiting.count() {
            waiting.settle(i, waiting.value(i).as_data());
        }
        Ok(())
    }

    /// The word where kernels store an index outside these bounds: an `I64`, initially 0. `None` if the executor
    /// checks indices itself.
    ///
    /// # Errors
    /// From the device.
    fn fault_word(&self, bounds: &Bounds) -> Result<Option<Storage>> {
        let _ = bounds;
        Ok(None)
    }

    /// For downcasts to the concrete executor.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// A handle of an executor; every tensor belongs to one.
#[derive(Clone)]
pub struct Engine(pub Arc<dyn Executor>);

impl PartialEq for Engine {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.0), Arc::as_ptr(&other.0))
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engine({})", self.0.name())
    }
}

/// A node of the lazy graph; see [`Tensor`].
pub struct Node {
    /// Unique in the process, grows: a source is older than its users.
    pub id: u64,
    /// What it computes.
    pub op: Op,
    src: Sources,
    /// Sizes of the axes.
    pub shape: Shape,
    /// Element type.
    pub dtype: DType,
    /// Its engine.
    pub engine: Engine,
    /// Filled once the value is in memory.
    pub storage: Slot,
    /// The parameter whose value it is or was, by its number.
    owner: OnceLock<u64>,
    /// Made in a [`no_grad`](crate::no_grad()).
    no_grad: bool,
}

/// What a node is computed from.
///
/// A node that is realized may give its sources up, which frees what only its graph held; see
/// [`Node::cut`].
struct Sources(RwLock<Option<Arc<[Tensor]>>>);

impl Node {
    /// Its sources; empty if it has none, or has freed them.
    pub fn src(&self) -> Arc<[Tensor]> {
        let src = self.src.0.read();
        let src = src.unwrap_or_else(|broken| broken.into_inner());
        src.clone().unwrap_or_default()
    }

    /// Gives the sources of a realized node up. Its value stays; what it was computed from is
    /// unknown from then on, so it has no gradient.
    pub(crate) fn cut(&self) {
        if self.storage.get().is_none() {
            return;
        }
        let src = {
            let mut src = self.src.0.write();
            match &mut src {
                Ok(src) => src.take(),
                Err(broken) => broken.get_mut().take(),
            }
        };
        drop_all(src.into_iter().collect());
    }

    /// The value is in memory from now on. What has no gradient gives its sources up.
    pub(crate) fn fill(&self, storage: Storage) {
        self.storage.fill(storage);
        if self.ends_gradients() || !self.dtype.is_float() {
            self.cut();
        }
    }

    /// Whether no gradient goes to its sources, whatever it computes.
    pub(crate) fn ends_gradients(&self) -> bool {
        self.no_grad || matches!(self.op, Op::Detach)
    }

    /// Whether the sources were given up.
    pub(crate) fn is_cut(&self) -> bool {
        let src = self.src.0.read();
        src.unwrap_or_else(|broken| broken.into_inner()).is_none()
    }
}

/// Drops lists of sources, and what only they hold. A chain of a million operations must not become a
/// million nested drops.
fn drop_all(mut pending: Vec<Arc<[Tensor]>>) {
    while let Some(mut list) = pending.pop() {
        let Some(list) = Arc::get_mut(&mut list) else {
            continue;
        };
        for tensor in list {
            if let Some(node) = Arc::get_mut(&mut tensor.0)
                && let Ok(src) = node.src.0.get_mut()
                && let Some(src) = src.take()
            {
                pending.push(src);
            }
        }
    }
}

/// The cell that holds the storage of a node.
///
/// Empty until the node is realized. What is in it is only replaced by the same bytes elsewhere: those
/// of the host by a copy in device memory, and back.
#[derive(Default)]
pub struct Slot(RwLock<Option<Storage>>);

impl Slot {
    /// What is in the cell; a clone of a handle, not of the bytes.
    pub fn get(&self) -> Option<Storage> {
        // A poisoned lock means a panic in a one-line critical section: the value is still whole.
        self.0
            .read()
            .unwrap_or_else(|broken| broken.into_inner())
            .clone()
    }

    /// Puts a storage in if the cell is empty; otherwise leaves it as it is.
    pub fn fill(&self, storage: Storage) {
        let mut cell = self.0.write().unwrap_or_else(|broken| broken.into_inner());
        cell.get_or_insert(storage);
    }

    /// Puts a storage in, whatever is there.
    pub fn replace(&self, storage: Storage) {
        *self.0.write().unwrap_or_else(|broken| broken.into_inner()) = Some(storage);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Ok(src) = self.src.0.get_mut() {
            drop_all(src.take().into_iter().collect());
        }
    }
}

/// A lazy tensor: a cheap handle, cloned freely.
#[derive(Clone)]
pub struct Tensor(pub(crate) Arc<Node>);

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

impl Tensor {
    /// A node whose shape and type the caller has checked.
    pub(crate) fn make(
        engine: &Engine,
        op: Op,
        src: &[&Tensor],
        shape: &[usize],
        dtype: DType,
    ) -> Tensor {
        Tensor::placed(engine, op, src, shape, dtype, no_grad::is_on())
    }

    /// The same with other sources, and what goes with them.
    pub(crate) fn remade(&self, op: Op, src: &[&Tensor], shape: &[usize]) -> Tensor {
        let no_grad = self.0.no_grad || no_grad::is_on();
        Tensor::placed(self.engine(), op, src, shape, self.dtype(), no_grad)
    }

    fn placed(
        engine: &Engine,
        op: Op,
        src: &[&Tensor],
        shape: &[usize],
        dtype: DType,
        no_grad: bool,
    ) -> Tensor {
        Tensor(Arc::new(Node {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            op,
            src: Sources(RwLock::new(Some(match src.is_empty() {
                true => Arc::default(),
                false => src.iter().map(|&t| t.clone()).collect(),
            }))),
            shape: shape.to_vec(),
            dtype,
            engine: engine.clone(),
            storage: Slot::default(),
            owner: OnceLock::new(),
            no_grad,
        }))
    }

    /// A realized node.
    pub(crate) fn stored(
        engine: &Engine,
        storage: Storage,
        shape: &[usize],
        dtype: DType,
    ) -> Tensor {
        let tensor = Tensor::make(engine, Op::Data, &[], shape, dtype);
        tensor.0.storage.fill(storage);
        tensor
    }

    /// A number that is larger than those of all nodes made before.
    pub(crate) fn next_id() -> u64 {
        NEXT_ID.fetch_add(1, Ordering::Relaxed)
    }

    /// A realized tensor as plain data in the same memory, without the graph behind it; itself if it is
    /// that already, or is not realized.
    pub(crate) fn as_data(&self) -> Tensor {
        match self.storage() {
            Some(storage) if !matches!(self.node().op, Op::Data) => {
                Tensor::stored(self.engine(), storage, self.shape(), self.dtype())
            }
            _ => self.clone(),
        }
    }

    /// Notes the parameter that it is given away as a value of.
    pub(crate) fn owned_by(self, parameter: u64) -> Tensor {
        self.0.owner.get_or_init(|| parameter);
        self
    }

    /// The parameter whose value it is or was.
    pub(crate) fn owner(&self) -> Option<u64> {
        self.0.owner.get().copied()
    }

    /// A realized tensor as an output of a captured function: data that was made of something. It is a tensor of its
    /// own, because a constant that is returned, or the value of a parameter, is the caller's too.
    pub(crate) fn as_output(&self) -> Tensor {
        let Some(storage) = self.storage() else {
            return self.clone();
        };
        let data = Tensor::stored(self.engine(), storage, self.shape(), self.dtype());
        data.node().cut();
        data
    }

    /// The node under the handle.
    pub fn node(&self) -> &Node {
        &self.0
    }

    /// Identity of the node.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Sizes of the axes, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.0.shape.len()
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.0.shape.iter().product()
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// Its engine.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Where the elements are, if they are anywhere.
    pub fn storage(&self) -> Option<Storage> {
        self.0.storage.get()
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Tensor#{}({:?} {:?} {})",
            self.0.id, self.0.op, self.0.shape, self.0.dtype
        )
    }
}
