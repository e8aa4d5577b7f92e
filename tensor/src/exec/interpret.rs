//! Runs schedules on the host through the kernel interpreter: a reference for the scheduler that needs neither a
//! compiler nor a device. Every access is checked.

use std::any::Any;
use std::sync::Arc;

use codegen::interp;

use crate::error::{Error, Result};
use crate::graph::{Engine, Executor, Storage, Tensor};
use crate::jit::tracing::refuse;
use crate::schedule::repeat::Part;
use crate::schedule::{
    BufferId, BufferKind, Instance, Limits, LoopNode, Offsets, OutputRequest, Schedule, Work,
};

/// An executor over the kernel interpreter.
#[derive(Debug, Default)]
pub struct Interpreter {
    /// Bounds of the scheduler.
    pub limits: Limits,
    /// Gives every temporary its own memory.
    pub unplanned: bool,
    /// What changed from call to call.
    pub offsets: Offsets,
}

impl Interpreter {
    /// A new engine over an interpreter with these bounds.
    pub fn engine(limits: Limits, unplanned: bool) -> Engine {
        Engine(Arc::new(Interpreter {
            limits,
            unplanned,
            offsets: Offsets::default(),
        }))
    }

    /// Runs a schedule; gives the bytes of the results, in order.
    ///
    /// # Errors
    /// What the interpreter finds wrong with a kernel.
    pub fn run(schedule: &Schedule) -> Result<Vec<Vec<u8>>> {
        let mut arena = vec![0xa5u8; schedule.arena.bytes as usize];
        let mut memory: Vec<Vec<u8>> = Vec::with_capacity(schedule.buffers.len());
        for info in &schedule.buffers {
            let mut bytes = vec![0xa5; info.bytes() as usize];
            if let BufferKind::Leaf(tensor) = &info.kind
                && let Some(storage) = tensor.storage()
            {
                tensor.engine().0.read(&storage, &mut bytes)?;
            }
            memory.push(bytes);
        }
        steps(schedule, &schedule.kernels, &mut memory, &mut arena)?;
        let results = schedule.results.iter();
        Ok(results.map(|b| memory[b.0 as usize].clone()).collect())
    }

    /// Computes all values from the old contents, then writes each to its realized tensor, as plans of schedules
    /// do.
    ///
    /// # Errors
    /// What the interpreter finds wrong with a kernel.
    pub fn assign(&self, pairs: &[(Tensor, Tensor)]) -> Result<()> {
        let wanted: Vec<OutputRequest> = pairs
            .iter()
            .map(|(target, value)| OutputRequest {
                value: value.clone(),
                into: Some(target.clone()),
            })
            .collect();
        self.compute(&wanted)
    }

    fn compute(&self, wanted: &[OutputRequest]) -> Result<()> {
        let mut some: Vec<OutputRequest> = Vec::new();
        for want in wanted {
            super::copies_from_elsewhere(std::iter::once(&want.value))?;
            if want.value.numel() > 0 {
                some.push(want.clone());
            } else {
                want.value.node().fill(Storage::Host(Arc::from([])));
            }
        }
        let mut schedule = Schedule::again(&some, &self.limits, &self.offsets);
        if self.unplanned {
            schedule = schedule.unplanned();
        }
        let results = Self::run(&schedule)?;
        for (want, bytes) in some.iter().zip(results) {
            let storage = Storage::Host(Arc::from(bytes));
            match &want.into {
                Some(target) => target.node().storage.replace(storage),
                None => want.value.node().fill(storage),
            }
        }
        Ok(())
    }
}

/// Runs the steps of a schedule over the memory of its buffers; those of temporaries are in the arena.
fn steps(
    plan: &Schedule,
    kernels: &[Instance],
    memory: &mut [Vec<u8>],
    arena: &mut [u8],
) -> Result<()> {
    let mut offsets = vec![None; memory.len()];
    for (i, b) in plan.temporaries.iter().enumerate() {
        offsets[b.0 as usize] = Some(plan.arena.offsets[i] as usize);
    }
    for step in &plan.steps {
        let buffers: Vec<BufferId> = match &step.work {
            Work::Kernel { args, .. } => args.clone(),
            Work::Copy { from, to } => vec![*from, *to],
            Work::Loop(_) => step.reads.iter().chain(&step.writes).copied().collect(),
        };
        let buffers: Vec<BufferId> = buffers
            .iter()
            .enumerate()
            .filter(|(i, b)| !buffers[..*i].contains(b))
            .map(|(_, b)| *b)
            .collect();
        for b in &buffers {
            let i = b.0 as usize;
            if let Some(at) = offsets[i] {
                let len = memory[i].len();
                memory[i].copy_from_slice(&arena[at..at + len]);
            }
        }
        match &step.work {
            Work::Kernel { kernel, args } => {
                let take = |b: &BufferId| std::mem::take(&mut memory[b.0 as usize]);
                let mut bytes: Vec<Vec<u8>> = args.iter().map(take).collect();
                let Instance { kernel, values } = &kernels[*kernel];
                let values: Vec<i64> = values.iter().map(|v| v.bits as i64).collect();
                let run = interp::run(kernel, &mut bytes, &values);
                run.map_err(|e| Error::Kernel {
                    kernel: kernel.name.clone(),
                    what: e.to_string(),
                })?;
                for (b, bytes) in args.iter().zip(bytes) {
                    memory[b.0 as usize] = bytes;
                }
            }
            Work::Copy { from, to } => memory[to.0 as usize] = memory[from.0 as usize].clone(),
            Work::Loop(repeat) => looped(repeat, kernels, memory)?,
        }
        for b in buffers.iter().filter(|b| step.writes.contains(b)) {
            let i = b.0 as usize;
            if let Some(at) = offsets[i] {
                arena[at..at + memory[i].len()].copy_from_slice(&memory[i]);
            }
        }
    }
    Ok(())
}

fn looped(repeat: &LoopNode, kernels: &[Instance], memory: &mut [Vec<u8>]) -> Result<()> {
    let copy = |from: &[u8], part: Part, memory: &mut [Vec<u8>]| {
        let at = part.offset as usize;
        memory[part.buffer.0 as usize][at..at + from.len()].copy_from_slice(from);
    };
    let read = |part: Part, len: usize, memory: &[Vec<u8>]| {
        let at = part.offset as usize;
        memory[part.buffer.0 as usize][at..at + len].to_vec()
    };
    let body = &repeat.body;
    let places = || (0..body.buffers.len()).map(|b| BufferId(b as u32));
    for at in 0..repeat.steps() {
        let own = places().zip(&body.buffers);
        let mut inner: Vec<Vec<u8>> = own
            .map(|(b, info)| read(repeat.part(b, at), info.bytes() as usize, memory))
            .collect();
        let mut arena = vec![0xa5u8; body.arena.bytes as usize];
        steps(body, kernels, &mut inner, &mut arena)?;
        for (b, info) in places().zip(&body.buffers) {
            if matches!(info.kind, BufferKind::Result(_)) {
                copy(&inner[b.0 as usize], repeat.part(b, at), memory);
            }
        }
    }
    for (from, to, len) in repeat.copies() {
        let bytes = read(from, len as usize, memory);
        copy(&bytes, to, memory);
    }
    Ok(())
}

impl Executor for Interpreter {
    fn name(&self) -> String {
        "INTERPRETER".into()
    }

    fn realize(&self, roots: &[Tensor]) -> Result<()> {
        refuse(self, "realizing")?;
        let missing = roots.iter().filter(|t| t.storage().is_none());
        let wanted: Vec<OutputRequest> = missing
            .map(|t| OutputRequest {
                value: t.clone(),
                into: None,
            })
            .collect();
        self.compute(&wanted)
    }

    fn read(&self, storage: &Storage, into: &mut [u8]) -> Result<()> {
        refuse(self, "reading")?;
        match storage {
            Storage::Host(bytes) if bytes.len() == into.len() => into.copy_from_slice(bytes),
            Storage::Host(bytes) => {
                return Err(Error::Shape {
                    op: "read",
                    what: format!(
                        "the storage has {} bytes, expected {}",
                        bytes.len(),
                        into.len()
                    ),
                });
            }
            Storage::Device(buffer) => buffer.read(0, into)?,
            Storage::Source(source) => source.fill(into)?,
        }
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
