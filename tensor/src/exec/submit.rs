//! From a schedule to commands: addresses, scratch memory, and barriers where bytes are shared.

use std::ops::Range;
use std::sync::Arc;

use codegen::StageArg;
use hashbrown::{HashMap, HashSet};
use hcq::graph::{GraphBuilder, Lane, Work as Node};
use hcq::{Buffer, Command, Hazards, Program, Scope, Signal, Span, Val};
use smallvec::SmallVec;

use super::compile::Compiled;
use super::packing::LoopInvariant;
use crate::error::{Error, Result};
use crate::schedule::repeat::Part;
use crate::schedule::{BufferId, Instance, LoopNode, Schedule, Step, Work};

/// Commands without a barrier between them at most: what each touches is compared with all of them.
const MOST_BESIDE: usize = 64;

/// Bytes that a command touches: the place and how many. Unlike a [`Span`] it can be taken apart again.
pub(crate) type Extent = (Val, u64);

/// The extents of one launch while it is made.
type Touched = SmallVec<[Extent; 8]>;

/// The spans of one command.
type Spans = SmallVec<[Span; 8]>;

fn span(&(at, bytes): &Extent) -> Span {
    Span::new(at, bytes)
}

/// Commands with the bytes that they touch. What they have several of lies in one list for all.
#[derive(Default)]
pub struct Items<'a> {
    list: Vec<Item<'a>>,
    extents: Vec<Extent>,
    args: Vec<Val>,
}

/// One command.
struct Item<'a> {
    work: Run<'a>,
    /// Bytes read, among all extents.
    reads: Range<usize>,
    /// Bytes written, among all extents.
    writes: Range<usize>,
    /// Bytes and operations, for rates.
    cost: (f64, f64),
}

enum Run<'a> {
    Exec {
        /// The kernel, and which of its launches where it has several.
        name: (&'a str, Option<usize>),
        program: &'a Arc<Program>,
        /// Among all arguments.
        args: Range<usize>,
        grid: [u32; 3],
        block: [u32; 3],
    },
    Copy {
        dst: Val,
        src: Val,
        bytes: u64,
    },
}

/// A command with the bytes that it touches.
pub(crate) struct Entry<'i> {
    pub work: EntryWork<'i>,
    pub reads: &'i [Extent],
    pub writes: &'i [Extent],
}

/// What a command does.
pub(crate) enum EntryWork<'i> {
    Exec {
        program: &'i Program,
        args: &'i [Val],
        grid: [u32; 3],
        block: [u32; 3],
    },
    Copy {
        dst: Val,
        src: Val,
        bytes: u64,
    },
}

impl<'a> Items<'a> {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Adds a copy of a whole buffer to one that is at least as large.
    pub fn copy(&mut self, from: &Buffer, to: &Buffer) {
        let (src, dst) = (Val::Const(from.va().0), Val::Const(to.va().0));
        self.copied(src, dst, from.bytes());
    }

    fn copied(&mut self, src: Val, dst: Val, bytes: u64) {
        let first = self.extents.len();
        self.extents.extend([(src, bytes), (dst, bytes)]);
        self.list.push(Item {
            work: Run::Copy { dst, src, bytes },
            reads: first..first + 1,
            writes: first + 1..first + 2,
            cost: (2.0 * bytes as f64, 0.0),
        });
    }

    /// Whether any is a copy.
    pub fn copies(&self) -> bool {
        self.list.iter().any(Item::is_copy)
    }

    /// For traces: the names and the costs.
    pub fn named(&self) -> impl Iterator<Item = (String, (f64, f64))> {
        self.list.iter().map(|item| (item.name(), item.cost))
    }

    /// Each in order, for whoever writes them down.
    pub(crate) fn each(&self) -> impl Iterator<Item = Entry<'_>> {
        self.list.iter().map(|item| Entry {
            work: match &item.work {
                Run::Exec {
                    program,
                    args,
                    grid,
                    block,
                    ..
                } => EntryWork::Exec {
                    program,
                    args: &self.args[args.clone()],
                    grid: *grid,
                    block: *block,
                },
                &Run::Copy { dst, src, bytes } => EntryWork::Copy { dst, src, bytes },
            },
            reads: &self.extents[item.reads.clone()],
            writes: &self.extents[item.writes.clone()],
        })
    }

    /// Adds them to a graph, each to the lane for copies or the one for kernels, with its name; what each costs.
    pub fn into_graph(
        self,
        graph: &mut GraphBuilder,
        kernels: Lane,
        copies: Lane,
    ) -> Vec<(f64, f64)> {
        let costs = self.list.iter().map(|item| {
            let lane = if item.is_copy() { copies } else { kernels };
            let work = match &item.work {
                Run::Exec {
                    program,
                    args,
                    grid,
                    block,
                    ..
                } => Node::Exec {
                    program: Arc::clone(program),
                    args: self.args[args.clone()].to_vec(),
                    grid: *grid,
                    block: *block,
                },
                &Run::Copy { dst, src, bytes } => Node::Copy { dst, src, bytes },
            };
            let spans = |of: &Range<usize>| self.extents[of.clone()].iter().map(span);
            graph.add(
                lane,
                &item.name(),
                work,
                spans(&item.reads),
                spans(&item.writes),
            );
            item.cost
        });
        costs.collect()
    }

    /// The commands of a part of them for one queue: a barrier where one touches what another since the
    /// last barrier wrote, or writes what one read. With `stamps`, the start and end of each.
    pub fn commands<'c>(
        &'c self,
        part: Range<usize>,
        stamps: Option<&'c [(Signal, Signal)]>,
    ) -> Vec<Command<'c>> {
        let barrier = Command::Barrier {
            scope: Scope::Queue,
        };
        // What was submitted before may still run.
        let mut out = vec![barrier];
        let mut hazards = Hazards::new();
        let mut first = 0;
        for (i, item) in self.list[part].iter().enumerate() {
            let spans = |of: &Range<usize>| self.extents[of.clone()].iter().map(span);
            let (reads, writes): (Spans, Spans) =
                (spans(&item.reads).collect(), spans(&item.writes).collect());
            let depends = !hazards.step(i, &reads, &writes).is_empty();
            if i > 0 && (depends || stamps.is_some() || i - first >= MOST_BESIDE) {
                out.push(barrier);
                first = i;
                hazards.clear();
                hazards.step(i, &reads, &writes);
            }
            if let Some((start, _)) = stamps.and_then(|s| s.get(i)) {
                out.push(Command::Timestamp { signal: start });
            }
            out.push(match &item.work {
                Run::Exec {
                    program,
                    args,
                    grid,
                    block,
                    ..
                } => Command::Exec {
                    program,
                    args: &self.args[args.clone()],
                    grid: *grid,
                    block: *block,
                },
                &Run::Copy { dst, src, bytes } => Command::Copy { dst, src, bytes },
            });
            if let Some((_, end)) = stamps.and_then(|s| s.get(i)) {
                out.push(Command::Timestamp { signal: end });
            }
        }
        out
    }
}

impl Item<'_> {
    fn is_copy(&self) -> bool {
        matches!(self.work, Run::Copy { .. })
    }

    fn name(&self) -> String {
        match self.work {
            Run::Exec {
                name: (kernel, Some(part)),
                ..
            } => format!("{kernel}.{part}"),
            Run::Exec {
                name: (kernel, None),
                ..
            } => kernel.to_owned(),
            Run::Copy { .. } => "copy".to_owned(),
        }
    }
}

/// Launches that were done ahead of time, by step and launch, and where the scratch blocks are that
/// they have filled, by step and block.
#[derive(Default, Debug)]
pub struct Done {
    /// Launches to leave out.
    pub launches: HashSet<(usize, usize)>,
    /// Places of the blocks that are no longer in the common scratch memory.
    pub blocks: HashMap<(usize, u16), Val>,
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
    for step in &schedule.steps {
        let (kernel, args) = match &step.work {
            Work::Kernel { kernel, args } => (*kernel, args),
            Work::Copy { .. } => {
                for b in step.reads.iter().chain(&step.writes) {
                    used[b.0 as usize] = true;
                }
                continue;
            }
            Work::Loop(repeat) => {
                let inner = self::used(&repeat.body, compiled, done);
                for (i, _) in inner.iter().enumerate().filter(|(_, used)| **used) {
                    let outer = repeat.part(BufferId(i as u32), 0).buffer;
                    used[outer.0 as usize] = true;
                }
                continue;
            }
        };
        for (i, launch) in compiled[kernel].launches.iter().enumerate() {
            if done.launches.contains(&(step.site, i)) {
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

/// Adds the commands of a schedule. `address` gives the place of each buffer, `scratch` is the place
/// of the scratch memory, which has [`LoopInvariant::bytes`].
///
/// # Errors
/// A kernel whose code wants a number that the schedule has not.
pub fn items<'a>(
    out: &mut Items<'a>,
    schedule: &'a Schedule,
    compiled: &'a [Arc<Compiled>],
    address: &dyn Fn(BufferId) -> Val,
    scratch: Val,
    done: &Done,
    once: &LoopInvariant,
) -> Result<()> {
    let mut emit = Emit {
        kernels: &schedule.kernels,
        compiled,
        scratch,
        done,
        once,
        out,
    };
    let operand = |b: BufferId| {
        let (at, bytes) = (address(b), schedule.buffers[b.0 as usize].bytes());
        (at, Some((at, bytes)))
    };
    let when = When {
        first: true,
        edge: true,
    };
    emit.steps(schedule, when, &operand)
}

struct Emit<'a, 'e> {
    kernels: &'a [Instance],
    compiled: &'a [Arc<Compiled>],
    scratch: Val,
    done: &'e Done,
    once: &'e LoopInvariant,
    out: &'e mut Items<'a>,
}

/// Where in the loop around it a step is.
#[derive(Clone, Copy)]
struct When {
    first: bool,
    /// The first or the last.
    edge: bool,
}

/// Where a buffer is, and the bytes to be remembered as touched.
type Operand = (Val, Option<Extent>);

impl Emit<'_, '_> {
    fn steps(
        &mut self,
        plan: &Schedule,
        when: When,
        operand: &dyn Fn(BufferId) -> Operand,
    ) -> Result<()> {
        for step in &plan.steps {
            match &step.work {
                Work::Copy { from, to } => {
                    let bytes = plan.buffers[from.0 as usize].bytes();
                    self.out.copied(operand(*from).0, operand(*to).0, bytes);
                }
                Work::Kernel { kernel, args } => {
                    self.kernel(step, *kernel, args, when, operand)?;
                }
                Work::Loop(repeat) => self.repeat(repeat, operand)?,
            }
        }
        Ok(())
    }

    /// The steps of a loop. Rows count as the whole that they are a part of, and what is only read
    /// counts at the first and the last step: the queue is in order, so that says it for all, and what
    /// has to be compared does not grow with the steps.
    fn repeat(&mut self, repeat: &LoopNode, operand: &dyn Fn(BufferId) -> Operand) -> Result<()> {
        let at = |part: Part| offset(operand(part.buffer).0, part.offset);
        for step in 0..repeat.steps() {
            let when = When {
                first: step == 0,
                edge: step == 0 || step + 1 == repeat.steps(),
            };
            let inner = |b: BufferId| {
                let part = repeat.part(b, step);
                let at = at(part);
                let touched = match repeat.works(b, step) {
                    true => Some((at, repeat.body.buffers[b.0 as usize].bytes())),
                    false if when.edge || !repeat.given(b) => operand(part.buffer).1,
                    false => None,
                };
                (at, touched)
            };
            self.steps(&repeat.body, when, &inner)?;
        }
        for (from, to, bytes) in repeat.copies() {
            self.out.copied(at(from), at(to), bytes);
        }
        Ok(())
    }

    fn kernel(
        &mut self,
        step: &Step,
        kernel: usize,
        args: &[BufferId],
        when: When,
        operand: &dyn Fn(BufferId) -> Operand,
    ) -> Result<()> {
        let code = &self.compiled[kernel];
        let Instance {
            kernel,
            values: numbers,
        } = &self.kernels[kernel];
        let name = &kernel.name;
        let single = code.launches.len() == 1;
        for (i, launch) in code.launches.iter().enumerate() {
            let number = (step.site, i);
            let again = !when.first && self.once.launches.contains(&number);
            if again || self.done.launches.contains(&number) {
                continue;
            }
            let (mut reads, mut writes) = (Touched::new(), Touched::new());
            let from = self.out.args.len();
            for arg in &launch.args {
                match *arg {
                    StageArg::Param(slot) => {
                        let buffer = args[slot as usize];
                        let (at, touched) = operand(buffer);
                        if step.reads.contains(&buffer) {
                            reads.extend(touched);
                        }
                        if step.writes.contains(&buffer) {
                            writes.extend(touched);
                        }
                        self.out.args.push(at);
                    }
                    StageArg::Scratch(block) => {
                        if let Some(&at) = self.done.blocks.get(&(step.site, block)) {
                            self.out.args.push(at);
                            continue;
                        }
                        let len = code.built.scratch[block as usize].bytes as u64;
                        let kept = self.once.blocks.get(&(step.site, block));
                        let at = *kept.unwrap_or(&code.scratch[block as usize]);
                        let at = offset(self.scratch, at);
                        let own = kept.is_some();
                        if !own || when.edge {
                            reads.push((at, len));
                        }
                        if !own || self.once.launches.contains(&number) {
                            writes.push((at, len));
                        }
                        self.out.args.push(at);
                    }
                    StageArg::Number(n) => self.out.args.push(Val::Const(n as u64)),
                    StageArg::Var(slot) => match numbers.get(usize::from(slot)) {
                        Some(number) => self.out.args.push(Val::Const(number.bits)),
                        None => {
                            let given = numbers.len();
                            return Err(Error::Kernel {
                                kernel: name.clone(),
                                what: format!(
                                    "its code expects number {slot}, but the schedule passes {given}; \
                                     this is a bug"
                                ),
                            });
                        }
                    },
                }
            }
            let at = self.out.extents.len();
            let middle = at + reads.len();
            self.out.extents.extend(reads);
            self.out.extents.extend(writes);
            self.out.list.push(Item {
                work: Run::Exec {
                    name: (name, (!single).then_some(i)),
                    program: &launch.program,
                    args: from..self.out.args.len(),
                    grid: launch.grid,
                    block: launch.block,
                },
                reads: at..middle,
                writes: middle..self.out.extents.len(),
                cost: code
                    .built
                    .stages
                    .get(i)
                    .map_or((0.0, 0.0), |stage| (stage.bytes, stage.flops)),
            });
        }
        Ok(())
    }
}

/// The place so many bytes after another.
pub(crate) fn offset(at: Val, bytes: u64) -> Val {
    match at {
        Val::Const(va) => Val::Const(va + bytes),
        Val::Slot(slot, add) => Val::Slot(slot, add + bytes),
    }
}
