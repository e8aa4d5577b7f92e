//! Runs schedules on the host through the kernel interpreter: the judge of the scheduler, which
//! needs neither a compiler nor a device. Every access is checked.

use std::any::Any;
use std::sync::Arc;

use codegen::interp;

use crate::error::{Error, Result};
use crate::graph::{Engine, Executor, Storage, Tensor};
use crate::schedule::{BufferId, Limits, Place, Schedule, Wanted, Work};

/// An executor over the kernel interpreter.
#[derive(Debug, Default)]
pub struct Interpreter {
    /// Bounds of the scheduler.
    pub limits: Limits,
    /// Gives every temporary a place of its own.
    pub unplanned: bool,
}

impl Interpreter {
    /// A new engine over an interpreter with these bounds.
    pub fn engine(limits: Limits, unplanned: bool) -> Engine {
        Engine(Arc::new(Interpreter { limits, unplanned }))
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
            if let Place::Leaf(tensor) = &info.place
                && let Some(storage) = tensor.storage()
            {
                tensor.engine().0.read(&storage, &mut bytes)?;
            }
            memory.push(bytes);
        }
        let mut offsets = vec![None; memory.len()];
        for (i, b) in schedule.temporaries.iter().enumerate() {
            offsets[b.0 as usize] = Some(schedule.arena.offsets[i] as usize);
        }
        for step in &schedule.steps {
            let buffers: Vec<BufferId> = match &step.work {
                Work::Kernel { args, .. } => args.clone(),
                Work::Copy { from, to } => vec![*from, *to],
            };
            let mut bytes: Vec<Vec<u8>> = Vec::with_capacity(buffers.len());
            for b in &buffers {
                let i = b.0 as usize;
                if let Some(at) = offsets[i] {
                    let len = memory[i].len();
                    memory[i].copy_from_slice(&arena[at..at + len]);
                }
                bytes.push(std::mem::take(&mut memory[i]));
            }
            match &step.work {
                Work::Kernel { kernel, .. } => {
                    interp::run(&schedule.kernels[*kernel], &mut bytes, &[]).map_err(|e| {
                        Error::Kernel {
                            kernel: schedule.kernels[*kernel].name.clone(),
                            what: e.to_string(),
                        }
                    })?
                }
                Work::Copy { .. } => bytes[1] = bytes[0].clone(),
            }
            for (b, bytes) in buffers.iter().zip(bytes) {
                let i = b.0 as usize;
                if let Some(at) = offsets[i]
                    && step.writes.contains(b)
                {
                    arena[at..at + bytes.len()].copy_from_slice(&bytes);
                }
                memory[i] = bytes;
            }
        }
        let results = schedule.results.iter();
        Ok(results.map(|b| memory[b.0 as usize].clone()).collect())
    }

    fn compute(&self, wanted: &[Wanted]) -> Result<()> {
        let mut some: Vec<Wanted> = Vec::new();
        for want in wanted {
            super::copies_from_elsewhere(&want.value)?;
            if want.value.numel() > 0 {
                some.push(want.clone());
            } else {
                want.value.node().storage.fill(Storage::Host(Arc::from([])));
            }
        }
        let mut schedule = Schedule::new(&some, &self.limits);
        if self.unplanned {
            schedule = schedule.unplanned();
        }
        let results = Self::run(&schedule)?;
        for (want, bytes) in some.iter().zip(results) {
            let storage = Storage::Host(Arc::from(bytes));
            match &want.into {
                Some(target) => target.node().storage.replace(storage),
                None => want.value.node().storage.fill(storage),
            }
        }
        Ok(())
    }
}

impl Executor for Interpreter {
    fn name(&self) -> String {
        "INTERPRETER".into()
    }

    fn realize(&self, roots: &[Tensor]) -> Result<()> {
        let missing = roots.iter().filter(|t| t.storage().is_none());
        let wanted: Vec<Wanted> = missing
            .map(|t| Wanted {
                value: t.clone(),
                into: None,
            })
            .collect();
        self.compute(&wanted)
    }

    fn read(&self, storage: &Storage, into: &mut [u8]) -> Result<()> {
        match storage {
            Storage::Host(bytes) if bytes.len() == into.len() => into.copy_from_slice(bytes),
            Storage::Host(bytes) => {
                return Err(Error::Shape {
                    op: "read",
                    what: format!("the storage has {} bytes, not {}", bytes.len(), into.len()),
                });
            }
            Storage::Device(buffer) => buffer.read(0, into)?,
            Storage::Source(source) => source.fill(into)?,
        }
        Ok(())
    }

    fn assign(&self, pairs: &[(Tensor, Tensor)]) -> Result<()> {
        let wanted: Vec<Wanted> = pairs
            .iter()
            .map(|(target, value)| Wanted {
                value: value.clone(),
                into: Some(target.clone()),
            })
            .collect();
        self.compute(&wanted)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
