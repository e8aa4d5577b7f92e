//! From a lazy graph to kernels in order.
//!
//! [`canon`] flattens the graph, [`fuse`] decides what is in memory and what shares a kernel (on
//! the requests that [`region`] collects over the index expressions of [`domains`]),
//! [`kernelize`] makes the kernels, [`order`] puts them in an order in which no value is overwritten
//! while it is needed, and [`memory`] gives temporaries their places. A loop is one step, with the
//! schedule of its body ([`repeat`]).

pub mod canon;
pub mod domains;
pub mod frozen;
pub mod fuse;
pub mod instance;
pub mod kernelize;
pub mod marks;
pub mod memory;
pub mod offsets;
pub mod order;
pub mod region;
pub mod repeat;

use codegen::DType;

use crate::graph::Tensor;
pub use instance::{Instance, Value};
pub use memory::{Arena, Lifetime};
pub use offsets::Offsets;
pub use region::Limits;
pub use repeat::LoopNode;

/// A buffer of a schedule, by number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BufferId(pub u32);

/// What a buffer of a schedule is.
#[derive(Clone, Debug)]
pub enum BufferKind {
    /// The storage of a tensor that is in memory already.
    Leaf(Tensor),
    /// New memory for the storage of this result, by position in the request.
    Result(usize),
    /// Memory that is free again after the last step; see [`Schedule::arena`].
    Temporary,
}

/// A buffer of a schedule.
#[derive(Clone, Debug)]
pub struct BufferInfo {
    /// What it is.
    pub kind: BufferKind,
    /// Element type.
    pub dtype: DType,
    /// Number of elements.
    pub len: usize,
}

impl BufferInfo {
    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.len as u64 * self.dtype.size() as u64
    }
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum Work {
    /// Runs a kernel.
    Kernel {
        /// Position in [`Schedule::kernels`].
        kernel: usize,
        /// The buffer of each parameter.
        args: Vec<BufferId>,
    },
    /// Copies a whole buffer.
    Copy {
        /// From here.
        from: BufferId,
        /// To a buffer of the same size.
        to: BufferId,
    },
    /// Runs the steps of a loop, one after the other.
    Loop(Box<LoopNode>),
}

/// One step; a step may run beside those before it whose results it does not touch.
#[derive(Clone, Debug)]
pub struct Step {
    /// What it does.
    pub work: Work,
    /// Buffers that it reads.
    pub reads: Vec<BufferId>,
    /// Buffers that it writes.
    pub writes: Vec<BufferId>,
    /// Its number among all steps of the schedule, those inside loops included.
    pub site: usize,
}

/// A value to compute, and where it goes.
#[derive(Clone, Debug)]
pub struct OutputRequest {
    /// The value.
    pub value: Tensor,
    /// The tensor whose storage takes it; `None` for new memory.
    pub into: Option<Tensor>,
}

/// The steps that compute the requested values.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// Kernels of different structure or with different numbers.
    pub kernels: Vec<Instance>,
    /// Every buffer.
    pub buffers: Vec<BufferInfo>,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The buffer of each wanted value; the buffer of the target, if it had one.
    pub results: Vec<BufferId>,
    /// Offsets of the temporaries, in the order of [`Schedule::temporaries`].
    pub arena: Arena,
    /// The temporaries.
    pub temporaries: Vec<BufferId>,
    /// Number of all steps, those inside loops included.
    pub sites: usize,
}

impl Schedule {
    /// Plans the work for `wanted`, all of one engine, none of size 0. Steps see the old values of targets,
    /// regardless of the order.
    pub fn new(wanted: &[OutputRequest], limits: &Limits) -> Schedule {
        order::schedule(wanted, limits, None)
    }

    /// Like [`Schedule::new`], for work that may repeat with different offsets, which become arguments.
    pub fn again(wanted: &[OutputRequest], limits: &Limits, offsets: &Offsets) -> Schedule {
        order::schedule(wanted, limits, Some(offsets))
    }

    /// Number of kernel launches.
    pub fn launches(&self) -> usize {
        self.counts().iter().sum()
    }

    /// Number of launches of each kernel.
    pub fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.kernels.len()];
        self.count(1, &mut counts);
        counts
    }

    fn count(&self, times: usize, counts: &mut [usize]) {
        for step in &self.steps {
            match &step.work {
                Work::Kernel { kernel, .. } => counts[*kernel] += times,
                Work::Copy { .. } => {}
                Work::Loop(repeat) => repeat.body.count(times * repeat.steps(), counts),
            }
        }
    }

    /// The same steps, with separate memory for every temporary.
    pub fn unplanned(mut self) -> Schedule {
        self.arena = Arena::side_by_side(&self.lifetimes());
        self
    }

    /// When each temporary is in use.
    pub fn lifetimes(&self) -> Vec<Lifetime> {
        let mut blocks: Vec<Lifetime> = self
            .temporaries
            .iter()
            .map(|b| Lifetime {
                bytes: self.buffers[b.0 as usize].bytes(),
                first: usize::MAX,
                last: 0,
            })
            .collect();
        let mut number = vec![None; self.buffers.len()];
        for (i, b) in self.temporaries.iter().enumerate() {
            number[b.0 as usize] = Some(i);
        }
        for (at, step) in self.steps.iter().enumerate() {
            for b in step.reads.iter().chain(&step.writes) {
                if let Some(i) = number[b.0 as usize] {
                    let block: &mut Lifetime = &mut blocks[i];
                    block.first = block.first.min(at);
                    block.last = block.last.max(at);
                }
            }
        }
        for block in &mut blocks {
            block.first = block.first.min(block.last);
        }
        blocks
    }
}
