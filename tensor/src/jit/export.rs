//! A traced function as plans for other machines: code, memory and commands, compiled without their devices.
//!
//! The function is traced on an engine of this machine, which computes everything that depends on constants only. What is
//! left is scheduled and compiled for each target. Places in memory are [`Val::Slot`], one slot per piece of memory, so
//! nothing in a plan is an address.

use hashbrown::HashMap;
use std::sync::Arc;

use codegen::ir::Kernel;
use codegen::{Backend, DType, Stage, StageArg};
use hcq::{ArgKind, ArgLayout, GpuVa, Program, Slot, Val};

pub use super::half::Operands;
use super::{capture, freeze, frozen, full, half};
use crate::error::{Error, Result};
use crate::exec::compile::{Compiled, build_all, kind};
use crate::exec::engine::{DeviceExecutor, temporaries};
use crate::exec::packing::LoopInvariant;
use crate::exec::submit::{self, Done, EntryWork, Extent, Items};
use crate::graph::{Engine, Op, Shape, Tensor};
use crate::schedule::{BufferId, BufferKind, Limits, OutputRequest, Schedule};

/// A traced function, before it is known which of its inputs are states.
pub struct Trace {
    engine: Engine,
    /// What stands for the inputs.
    pub inputs: Vec<Tensor>,
    /// What the function made of them.
    pub results: Vec<Tensor>,
}

/// A traced function with the roles of its inputs and results. Parameters are constants.
pub struct Traced {
    /// What stands for inputs, then for states.
    given: Vec<Tensor>,
    inputs: usize,
    outputs: Vec<Tensor>,
    wanted: Vec<OutputRequest>,
    /// The output of each wanted value that is one.
    numbers: Vec<usize>,
    /// What became of the operands of products, if they were to be `f16`.
    operands: Option<Operands>,
}

/// A traced function, compiled for a target.
pub struct Plan {
    /// What each slot is.
    pub memory: Vec<Memory>,
    /// Kernels.
    pub code: Vec<Code>,
    /// What is done once: weights in the order in which kernels read them.
    pub prologue: Vec<Planned>,
    /// What each run does.
    pub commands: Vec<Planned>,
}

/// A piece of memory.
pub struct Memory {
    /// What is in it.
    pub content: Content,
    /// Its size.
    pub bytes: u64,
}

/// What is in a piece of memory.
pub enum Content {
    /// Nothing at first.
    Own,
    /// The value of a tensor.
    Constant(Tensor),
    /// An input.
    Input(usize),
    /// A result.
    Output(usize),
    /// A state.
    State(usize),
}

/// A kernel.
pub struct Code {
    /// What it is called in traces and errors.
    pub name: String,
    /// The symbol to start at.
    pub entry: String,
    /// The machine code.
    pub object: Arc<[u8]>,
    /// Its arguments.
    pub arguments: Vec<ArgKind>,
    /// Bytes of local memory of a group.
    pub local_bytes: u32,
}

/// A command with the bytes that it touches.
pub struct Planned {
    /// What it does.
    pub work: Work,
    /// Places and sizes that it reads.
    pub reads: Vec<(Val, u64)>,
    /// Places and sizes that it writes.
    pub writes: Vec<(Val, u64)>,
}

/// What a command does.
pub enum Work {
    /// Runs a kernel.
    Launch {
        /// Number of the kernel.
        code: usize,
        /// Its arguments.
        arguments: Vec<Val>,
        /// Workgroups in x, y, z.
        grid: [u32; 3],
        /// Work-items of a workgroup.
        block: [u32; 3],
    },
    /// Copies bytes.
    Copy {
        /// To here.
        to: Val,
        /// From here.
        from: Val,
        /// How many.
        bytes: u64,
    },
}

impl Trace {
    /// Traces a function over inputs of these shapes and types.
    ///
    /// # Errors
    /// What the function returns; [`Error::Capture`] if it reads or realizes something, or the engine has no device.
    pub fn of(
        engine: &Engine,
        signature: &[(Shape, DType)],
        function: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<Trace> {
        if DeviceExecutor::of(engine).is_none() {
            return Err(capture(format!(
                "{} has no device; trace on an engine of the CPU device",
                engine.name()
            )));
        }
        let (inputs, results) = frozen::traced(engine, signature, function)?;
        Ok(Trace {
            engine: engine.clone(),
            inputs,
            results,
        })
    }

    /// Says which values are outputs, and which inputs are states with which new values. With `half`, products read
    /// `f16`. What depends on constants only is computed now.
    ///
    /// # Errors
    /// Those of compiling and of the device.
    pub fn finish(
        self,
        outputs: Vec<Tensor>,
        states: Vec<(Tensor, Tensor)>,
        half: bool,
    ) -> Result<Traced> {
        let Some(executor) = DeviceExecutor::of(&self.engine) else {
            return Err(capture("the engine has no device".into()));
        };
        let count = outputs.len();
        let mut values = outputs;
        values.extend(states.iter().map(|(_, new)| new.clone()));
        let mut operands = None;
        if half {
            let (narrow, counts) = half::narrowed(executor, &self.inputs, &states, &values)?;
            values = narrow;
            operands = Some(counts);
        }
        freeze::constants(executor, &self.inputs, &values)?;
        // An input that is given back as it is would have no memory of its own.
        for value in &mut values {
            if self.inputs.iter().any(|input| input.id() == value.id()) {
                *value = value.contiguous()?;
            }
        }
        let news = values.split_off(count);
        let outputs = values;
        let mut wanted = full(&outputs);
        let numbers = (0..count).filter(|&i| outputs[i].numel() > 0).collect();
        for ((given, _), value) in states.iter().zip(news) {
            if value.numel() > 0 {
                wanted.push(OutputRequest {
                    value,
                    into: Some(given.clone()),
                });
            }
        }
        let is_state = |t: &Tensor| states.iter().any(|(given, _)| given.id() == t.id());
        let mut given: Vec<Tensor> = self.inputs;
        given.retain(|t| !is_state(t));
        let inputs = given.len();
        given.extend(states.into_iter().map(|(given, _)| given));
        Ok(Traced {
            given,
            inputs,
            outputs,
            wanted,
            numbers,
            operands,
        })
    }
}

impl Traced {
    /// What became of the operands of products, if they were to be `f16`.
    pub fn operands(&self) -> Option<Operands> {
        self.operands
    }

    /// Shapes and types of the outputs.
    pub fn outputs(&self) -> impl Iterator<Item = (Shape, DType)> {
        self.outputs.iter().map(|t| (t.shape().to_vec(), t.dtype()))
    }

    /// Schedules and compiles for a target, `threads` kernels at a time.
    ///
    /// # Errors
    /// The first kernel that the compiler refuses; more pieces of memory than slots.
    pub fn compile(
        &self,
        backend: &Backend,
        options: &codegen::Options,
        threads: usize,
    ) -> Result<Plan> {
        let mut options = options.clone();
        options.modules.get_or_insert_default();
        let limits = Limits::of(backend.target.kind, backend.target.cores as u64);
        let mut schedule = Schedule::new(&self.wanted, &limits);
        schedule.freeze(&self.given);
        let mut code = CodeTable::default();
        let compiled = compiled(&schedule, backend, &options, threads, &mut code)?;
        let mut planner = Planner::new(self);
        let (done, prologue) = planner.prologue(&schedule, &compiled, &self.given)?;
        let places = planner.places(&schedule, &compiled, &done, self)?;
        let once = LoopInvariant::of(&schedule, &compiled, &done.launches);
        let scratch = planner.add(Content::Own, once.bytes)?;
        let address = |b: BufferId| places[b.0 as usize];
        let mut items = Items::default();
        submit::items(
            &mut items, &schedule, &compiled, &address, scratch, &done, &once,
        )?;
        let commands = items.each().map(|entry| Planned {
            work: match entry.work {
                EntryWork::Exec {
                    program,
                    args,
                    grid,
                    block,
                } => Work::Launch {
                    code: number(program),
                    arguments: args.to_vec(),
                    grid,
                    block,
                },
                EntryWork::Copy { dst, src, bytes } => Work::Copy {
                    to: dst,
                    from: src,
                    bytes,
                },
            },
            reads: entry.reads.to_vec(),
            writes: entry.writes.to_vec(),
        });
        Ok(Plan {
            commands: commands.collect(),
            memory: planner.memory,
            code: code.list,
            prologue,
        })
    }
}

/// Kernels, each once.
#[derive(Default)]
struct CodeTable {
    list: Vec<Code>,
    known: HashMap<([u8; 32], Vec<ArgKind>), Arc<Program>>,
}

impl CodeTable {
    /// A program that stands for the code of a stage: it is on no device, and its number is its only launch word.
    fn program(&mut self, stage: &Stage) -> Arc<Program> {
        let kinds: Vec<ArgKind> = stage.args.iter().map(kind).collect();
        let CodeTable { list, known } = self;
        let program = known.entry((stage.module, kinds.clone()));
        let program = program.or_insert_with(|| {
            list.push(Code {
                name: stage.name.clone(),
                entry: stage.entry.clone(),
                object: stage.object.clone(),
                arguments: kinds.clone(),
                local_bytes: stage.local_bytes,
            });
            Arc::new(Program {
                name: stage.name.clone(),
                entry: GpuVa(0),
                args: ArgLayout::new(kinds),
                local_bytes: stage.local_bytes,
                launch_words: Box::new([list.len() as u32 - 1]),
                owner: Box::new(()),
            })
        });
        program.clone()
    }
}

/// The number of the code that a program stands for.
fn number(program: &Program) -> usize {
    program.launch_words.first().map_or(0, |&n| n as usize)
}

fn compiled(
    schedule: &Schedule,
    backend: &Backend,
    options: &codegen::Options,
    threads: usize,
    code: &mut CodeTable,
) -> Result<Vec<Arc<Compiled>>> {
    let kernels: Vec<Kernel> = schedule.kernels.iter().map(|k| k.constant()).collect();
    let kernels: Vec<&Kernel> = kernels.iter().collect();
    let built = build_all(&kernels, backend, options, threads.max(1), None);
    let built = kernels.iter().zip(built).map(|(kernel, built)| {
        let built = built.map_err(|e| Error::Kernel {
            kernel: kernel.name.clone(),
            what: e.to_string(),
        })?;
        Compiled::of(built, |stage| Ok(code.program(stage))).map(Arc::new)
    });
    built.collect()
}

/// Gives slots to memory.
struct Planner {
    memory: Vec<Memory>,
    /// Slots of tensors that are in memory before a run, by their identity.
    leaves: HashMap<u64, Val>,
    /// The slot of each output.
    outputs: Vec<Val>,
}

fn bytes_of(tensor: &Tensor) -> u64 {
    tensor.numel() as u64 * tensor.dtype().size() as u64
}

impl Planner {
    /// Ports have slots whether commands use them or not.
    fn new(traced: &Traced) -> Planner {
        let mut planner = Planner {
            memory: Vec::new(),
            leaves: HashMap::new(),
            outputs: Vec::new(),
        };
        for (i, tensor) in traced.given.iter().enumerate() {
            let content = match i.checked_sub(traced.inputs) {
                None => Content::Input(i),
                Some(n) => Content::State(n),
            };
            let slot = planner.push(content, bytes_of(tensor));
            planner.leaves.insert(tensor.id(), slot);
        }
        for (i, tensor) in traced.outputs.iter().enumerate() {
            let slot = planner.push(Content::Output(i), bytes_of(tensor));
            planner.outputs.push(slot);
        }
        planner
    }

    fn push(&mut self, content: Content, bytes: u64) -> Val {
        self.memory.push(Memory { content, bytes });
        Val::Slot(Slot((self.memory.len() - 1) as u16), 0)
    }

    fn add(&mut self, content: Content, bytes: u64) -> Result<Val> {
        match self.memory.len() < usize::from(u16::MAX) {
            true => Ok(self.push(content, bytes)),
            false => Err(capture(format!(
                "more than {} constants and pieces of memory; split the model",
                u16::MAX
            ))),
        }
    }

    fn leaf(&mut self, tensor: &Tensor, written: bool) -> Result<Val> {
        if let Some(&slot) = self.leaves.get(&tensor.id()) {
            return Ok(slot);
        }
        if matches!(tensor.node().op, Op::Given) {
            return Err(capture(format!(
                "{tensor:?} is a value of another captured function; pass it as an input"
            )));
        }
        let content = match written {
            // A word for indices that are out of range, which nobody reads here.
            true => Content::Own,
            false => Content::Constant(tensor.clone()),
        };
        let slot = self.add(content, bytes_of(tensor))?;
        self.leaves.insert(tensor.id(), slot);
        Ok(slot)
    }

    /// What packs constants, with the memory that it fills.
    fn prologue(
        &mut self,
        schedule: &Schedule,
        compiled: &[Arc<Compiled>],
        given: &[Tensor],
    ) -> Result<(Done, Vec<Planned>)> {
        let (mut done, mut prologue) = (Done::new(), Vec::new());
        // Equal ones fill one block: loops and shared weights pack the same.
        let mut known: HashMap<([u8; 32], u64, Vec<u64>), Val> = HashMap::new();
        for (site, kernel, args) in schedule.kernel_leaves() {
            let code = &compiled[kernel];
            for (i, launch) in code.launches.iter().enumerate() {
                let Some((slots, block)) = freeze::packs_constants(code, &args, i, given) else {
                    continue;
                };
                let bytes = code.built.scratch[block as usize].bytes as u64;
                let mut bound: Vec<(u16, u64)> = Vec::with_capacity(slots.len());
                for &slot in &slots {
                    bound.extend(args[slot as usize].map(|t| (slot, t.id())));
                }
                bound.sort_unstable();
                let ids = bound.into_iter().map(|(_, id)| id).collect();
                let key = (code.built.stages[i].content, bytes, ids);
                let at = match known.get(&key) {
                    Some(&at) => at,
                    None => {
                        let at = self.add(Content::Own, bytes)?;
                        known.insert(key, at);
                        let (mut arguments, mut reads) = (Vec::new(), Vec::<Extent>::new());
                        for arg in &launch.args {
                            arguments.push(match *arg {
                                StageArg::Number(n) => Val::Const(n as u64),
                                StageArg::Param(slot) => match args[slot as usize] {
                                    Some(tensor) => {
                                        let from = self.leaf(tensor, false)?;
                                        reads.push((from, bytes_of(tensor)));
                                        from
                                    }
                                    None => at,
                                },
                                StageArg::Scratch(_) | StageArg::Var(_) => at,
                            });
                        }
                        prologue.push(Planned {
                            work: Work::Launch {
                                code: number(&launch.program),
                                arguments,
                                grid: launch.grid,
                                block: launch.block,
                            },
                            reads,
                            writes: vec![(at, bytes)],
                        });
                        at
                    }
                };
                done.launches.insert((site, i));
                done.blocks.insert((site, block), at);
            }
        }
        Ok((done, prologue))
    }

    /// The place of each buffer of a schedule.
    fn places(
        &mut self,
        schedule: &Schedule,
        compiled: &[Arc<Compiled>],
        done: &Done,
        traced: &Traced,
    ) -> Result<Vec<Val>> {
        let arena = self.add(Content::Own, schedule.arena.bytes)?;
        let used = submit::used(schedule, compiled, done);
        let offsets = temporaries(schedule, 0);
        let mut places = Vec::with_capacity(schedule.buffers.len());
        for (i, info) in schedule.buffers.iter().enumerate() {
            places.push(match &info.kind {
                BufferKind::Temporary => submit::offset(arena, offsets[i]),
                BufferKind::Result(result) => {
                    let number = traced.numbers.get(*result);
                    let slot = number.and_then(|&number| self.outputs.get(number));
                    slot.copied()
                        .ok_or_else(|| capture("a result has no output; this is a bug".into()))?
                }
                BufferKind::Leaf(tensor) if used[i] => {
                    let id = BufferId(i as u32);
                    let written = schedule.steps.iter().any(|s| s.writes.contains(&id));
                    self.leaf(tensor, written)?
                }
                BufferKind::Leaf(_) => arena,
            });
        }
        Ok(places)
    }
}
