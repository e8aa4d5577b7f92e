//! From a schedule to commands: addresses, scratch memory, and barriers where bytes are shared.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use codegen::StageArg;
use hcq::graph::Work as Node;
use hcq::{Command, Hazards, Scope, Signal, Span, Val};

use super::compile::Compiled;
use crate::error::{Error, Result};
use crate::schedule::{BufferId, Schedule, Work};

/// One command with the bytes that it touches.
#[derive(Clone, Debug)]
pub struct Item {
    /// For traces.
    pub name: String,
    /// The command.
    pub node: Node,
    /// Bytes read.
    pub reads: Vec<Span>,
    /// Bytes written.
    pub writes: Vec<Span>,
    /// Bytes and operations, for rates; 0 but for the first command of a kernel.
    pub cost: (f64, f64),
}

/// Launches that were done ahead of time, by step and launch, and where the scratch blocks are that
/// they have filled, by step and block.
#[derive(Default, Debug)]
pub struct Done {
    /// Launches to leave out.
    pub launches: HashSet<(usize, usize)>,
    /// Address of the blocks that are no longer in the common scratch memory.
    pub blocks: HashMap<(usize, u16), u64>,
}

impl Done {
    /// Nothing is done.
    pub fn new() -> Done {
        Done::default()
    }
}

/// The buffers of a schedule that its commands touch.
pub fn used(schedule: &Schedule, compiled: &[Arc<Compiled>], done: &Done) -> Vec<bool> {
    let mut used = vec![false; schedule.buffers.len()];
    for (step, s) in schedule.steps.iter().enumerate() {
        let Work::Kernel { kernel, args } = &s.work else {
            for b in s.reads.iter().chain(&s.writes) {
                used[b.0 as usize] = true;
            }
            continue;
        };
        for (i, launch) in compiled[*kernel].launches.iter().enumerate() {
            if done.launches.contains(&(step, i)) {
                continue;
            }
            for arg in &launch.args {
                if let StageArg::Param(slot) = *arg {
                    used[args[slot as usize].0 as usize] = true;
                }
            }
        }
    }
    used
}

/// Bytes of scratch memory that the kernels share.
pub fn scratch_bytes(compiled: &[Arc<Compiled>]) -> u64 {
    compiled.iter().map(|c| c.scratch_bytes).max().unwrap_or(0)
}

/// The commands of a schedule. `address` gives the place of each buffer, `scratch` is the address
/// of the scratch memory.
///
/// # Errors
/// A kernel that wants an integer argument: schedules bind none.
pub fn items(
    schedule: &Schedule,
    compiled: &[Arc<Compiled>],
    address: &dyn Fn(BufferId) -> Val,
    scratch: u64,
    done: &Done,
) -> Result<Vec<Item>> {
    let bytes = |b: BufferId| schedule.buffers[b.0 as usize].bytes();
    let mut out = Vec::new();
    for (number, step) in schedule.steps.iter().enumerate() {
        let (kernel, args) = match &step.work {
            Work::Copy { from, to } => {
                let (src, dst, len) = (address(*from), address(*to), bytes(*from));
                out.push(Item {
                    name: "copy".into(),
                    node: Node::Copy {
                        dst,
                        src,
                        bytes: len,
                    },
                    reads: vec![Span::new(src, len)],
                    writes: vec![Span::new(dst, len)],
                    cost: (2.0 * len as f64, 0.0),
                });
                continue;
            }
            Work::Kernel { kernel, args } => (*kernel, args),
        };
        let code = &compiled[kernel];
        let name = &schedule.kernels[kernel].name;
        let mut first = true;
        for (i, launch) in code.launches.iter().enumerate() {
            if done.launches.contains(&(number, i)) {
                continue;
            }
            let (mut reads, mut writes, mut values) = (Vec::new(), Vec::new(), Vec::new());
            for arg in &launch.args {
                match *arg {
                    StageArg::Param(slot) => {
                        let buffer = args[slot as usize];
                        let at = address(buffer);
                        let touched = Span::new(at, bytes(buffer));
                        if step.reads.contains(&buffer) {
                            reads.push(touched);
                        }
                        if step.writes.contains(&buffer) {
                            writes.push(touched);
                        }
                        values.push(at);
                    }
                    StageArg::Scratch(block) => {
                        if let Some(&at) = done.blocks.get(&(number, block)) {
                            values.push(Val::Const(at));
                            continue;
                        }
                        let at = scratch + code.scratch[block as usize];
                        let len = code.built.scratch[block as usize].bytes as u64;
                        reads.push(Span::at(at, len));
                        writes.push(Span::at(at, len));
                        values.push(Val::Const(at));
                    }
                    StageArg::Var(slot) => {
                        return Err(Error::Kernel {
                            kernel: name.clone(),
                            what: format!("wants integer argument {slot}; schedules have none"),
                        });
                    }
                }
            }
            let single = code.launches.len() == 1;
            out.push(Item {
                name: if single {
                    name.clone()
                } else {
                    format!("{name}.{i}")
                },
                node: Node::Exec {
                    program: launch.program.clone(),
                    args: values,
                    grid: launch.grid,
                    block: launch.block,
                },
                reads,
                writes,
                cost: if first {
                    (code.built.bytes, code.built.flops)
                } else {
                    (0.0, 0.0)
                },
            });
            first = false;
        }
    }
    Ok(out)
}

/// The commands of items for one queue: a barrier where an item touches what another since the
/// last barrier wrote, or writes what one read. With `stamps`, the start and end of each item.
pub fn commands<'a>(items: &'a [Item], stamps: Option<&'a [(Signal, Signal)]>) -> Vec<Command<'a>> {
    let barrier = Command::Barrier {
        scope: Scope::Queue,
    };
    // What was submitted before may still run.
    let mut out = vec![barrier];
    let mut hazards = Hazards::new();
    for (i, item) in items.iter().enumerate() {
        let depends = !hazards.step(i, &item.reads, &item.writes).is_empty();
        if i > 0 && (depends || stamps.is_some()) {
            out.push(barrier);
            hazards.clear();
            hazards.step(i, &item.reads, &item.writes);
        }
        if let Some((start, _)) = stamps.and_then(|s| s.get(i)) {
            out.push(Command::Timestamp { signal: start });
        }
        out.push(match &item.node {
            Node::Exec {
                program,
                args,
                grid,
                block,
            } => Command::Exec {
                program,
                args,
                grid: *grid,
                block: *block,
            },
            Node::Copy { dst, src, bytes } => Command::Copy {
                dst: *dst,
                src: *src,
                bytes: *bytes,
            },
        });
        if let Some((_, end)) = stamps.and_then(|s| s.get(i)) {
            out.push(Command::Timestamp { signal: end });
        }
    }
    out
}
