//! A traced function as one graph of commands, with the addresses of inputs, parameters and outputs open.

use std::sync::{Arc, Mutex};

use codegen::DType;
use hcq::graph::{Graph, GraphBuilder};
use hcq::memory::{AllocSpec, MemoryKind};
use hcq::signal::Point;
use hcq::sync::lock;
use hcq::{Buffer, Command, Sharing, Slot, Val};

use super::freeze::FrozenSteps;
use super::tracing::{Draw, Used};
use super::{capture, settle};
use crate::error::Result;
use crate::exec::engine::{DeviceExecutor, found, temporaries};
use crate::exec::packing::LoopInvariant;
use crate::exec::submit::{self, Items};
use crate::graph::{Engine, Op, Shape, Storage, Tensor};
use crate::ops::random::Rng;
use crate::param::{Moved, Parameter};
use crate::schedule::{BufferId, BufferKind, OutputRequest, Schedule};

/// What one signature was turned into.
pub(super) struct Capture {
    run: Mutex<Run>,
    outputs: Vec<Output>,
    parameters: Vec<State>,
    /// Memory that it reads and others have, too.
    shared: Vec<Arc<Buffer>>,
    /// Words of each generator, in the order of the draws.
    draws: Vec<(Rng, usize)>,
    /// Bytes and operations of each command.
    costs: Vec<(f64, f64)>,
}

/// The commands, of which one replay at a time uses the packets.
struct Run {
    graph: Graph,
    /// The points that the last replay ends with, one per queue.
    last: Vec<Point>,
}

/// A parameter that is used.
struct State {
    parameter: Parameter,
    /// Its old value is needed.
    read: bool,
    written: bool,
}

/// What stands for the values that each call gives.
pub(super) struct Given {
    pub(super) inputs: Vec<Tensor>,
    pub(super) parameters: Vec<Used>,
    pub(super) draws: Vec<Draw>,
}

/// What the other tensors in memory are, which a function uses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sources {
    /// Kept as they are, in memory.
    Vary,
    /// Constant for good: what only depends on them is done when the function is captured.
    Constant,
}

/// A draw takes a key of two words and a counter, in a line of its own.
const DRAW_BYTES: u64 = 64;

pub(super) struct Output {
    shape: Shape,
    dtype: DType,
}

impl Output {
    pub(super) fn of(tensor: &Tensor) -> Output {
        Output {
            shape: tensor.shape().to_vec(),
            dtype: tensor.dtype(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.shape.iter().product::<usize>() as u64 * self.dtype.size() as u64
    }
}

impl Capture {
    /// Plans, compiles and records.
    pub(super) fn encode(
        executor: &DeviceExecutor,
        given: Given,
        wanted: &[OutputRequest],
        outputs: Vec<Output>,
        sources: Sources,
    ) -> Result<Capture> {
        let constant = sources == Sources::Constant;
        let (schedule, compiled) = executor.plan(wanted, constant.then_some(&given.inputs))?;
        let schedule = &schedule;
        let frozen = match constant {
            true => executor
                .ledger()
                .packed(|| FrozenSteps::run(executor, schedule, &compiled, &given.inputs))?,
            false => FrozenSteps::default(),
        };
        let leaves = executor.leaves(schedule, &compiled, &frozen.done)?;
        let mut builder = GraphBuilder::new();
        let lane = builder.lane(executor.device(), executor.stream());
        let parameters: Vec<(Tensor, State)> = states(schedule, given.parameters);
        let of_inputs = given.inputs.iter();
        let of_parameters = parameters.iter().map(|(given, _)| given);
        let of_draws = given.draws.iter().map(|draw| &draw.given);
        let mut slots: Vec<(u64, Slot)> = Vec::new();
        for tensor in of_inputs.chain(of_parameters).chain(of_draws) {
            slots.push((tensor.id(), builder.slot()?));
        }
        let full = outputs.iter().filter(|o| o.bytes() > 0);
        let results: Vec<Slot> = full.map(|_| builder.slot()).collect::<hcq::Result<_>>()?;

        let arena = executor.alloc(schedule.arena.bytes)?;
        let once = LoopInvariant::of(schedule, &compiled, &frozen.done.launches);
        let scratch = executor.alloc(once.bytes)?;
        let places = temporaries(schedule, arena.va().0);
        let base = Val::Const(scratch.va().0);
        let keep = vec![arena, scratch];
        let used = submit::used(schedule, &compiled, &frozen.done);
        let mut address: Vec<Val> = places.into_iter().map(Val::Const).collect();
        for (i, info) in schedule.buffers.iter().enumerate() {
            match &info.kind {
                BufferKind::Leaf(tensor) if matches!(tensor.node().op, Op::Given) => {
                    let slot = slots.iter().find(|(id, _)| *id == tensor.id());
                    let Some((_, slot)) = slot else {
                        // A parameter that is only named.
                        if !used[i] {
                            continue;
                        }
                        return Err(capture(format!(
                            "{tensor:?} belongs to another captured function, or to another call \
                             of it; return it as an output, and pass that as an input"
                        )));
                    };
                    address[i] = Val::Slot(*slot, 0);
                }
                BufferKind::Leaf(_) => {
                    if let Some(buffer) = &leaves[i] {
                        address[i] = Val::Const(buffer.va().0);
                    }
                }
                BufferKind::Result(result) => address[i] = Val::Slot(results[*result], 0),
                BufferKind::Temporary => {}
            }
        }
        let at = |b: BufferId| address[b.0 as usize];
        let mut items = Items::default();
        let done = &frozen.done;
        submit::items(&mut items, schedule, &compiled, &at, base, done, &once)?;
        // Copies run beside the kernels that have nothing to do with them.
        let copies = executor.copies().filter(|_| items.copies());
        let beside = copies.map(|stream| builder.lane(executor.device(), stream));
        let costs = items.into_graph(&mut builder, lane, beside.unwrap_or(lane));
        let others = |leaf: &&Arc<Buffer>| leaf.sharing() != Sharing::Own;
        let shared = leaves.iter().flatten().filter(others).cloned().collect();
        // What the commands name besides what each call gives. Leaves are held as their tensors hold them,
        // so that nobody writes over them. Packed operands are found by other captures while this one
        // lives.
        builder.keep(Arc::new((keep, leaves, frozen.operands)));
        let graph = builder.profiled(executor.options().profile).build()?;
        let draws = given.draws.into_iter();
        Ok(Capture {
            run: Mutex::new(Run {
                graph,
                last: Vec::new(),
            }),
            outputs,
            parameters: parameters.into_iter().map(|(_, state)| state).collect(),
            shared,
            draws: draws.map(|draw| (draw.rng, draw.words)).collect(),
            costs,
        })
    }

    /// Runs it once for these inputs, which are realized; gives the outputs, in fresh memory.
    pub(super) fn call(
        &self,
        executor: &DeviceExecutor,
        engine: &Engine,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>> {
        settle(self.parameters.iter().map(|state| &state.parameter))?;
        let mut run = lock(&self.run);
        // Before anybody else has to wait: the packets are patched in place.
        run.graph.wait(executor.deadline())?;
        let slots = inputs.len() + self.parameters.len() + self.draws.len() + self.outputs.len();
        let mut values = Vec::with_capacity(slots);
        let mut keep = Vec::with_capacity(slots);
        for input in inputs {
            let buffer = executor.resident(input)?;
            values.push(buffer.va().0);
            keep.push((*buffer).clone());
        }
        let mut results = Vec::with_capacity(self.outputs.len());
        let mut fresh = Vec::with_capacity(self.outputs.len());
        for output in &self.outputs {
            let buffer = executor.alloc(output.bytes())?;
            if output.bytes() > 0 {
                fresh.push(buffer.clone());
            }
            let storage = Storage::Device(Arc::new(buffer));
            let result = Tensor::stored(engine, storage, &output.shape, output.dtype);
            results.push(result.as_output());
        }
        for buffer in &self.shared {
            found(buffer)?;
        }
        // What was loaded comes into device memory, before others have to wait.
        for state in &self.parameters {
            executor.resident(&state.parameter.like())?;
        }
        executor.room()?;
        // Last: a call that fails draws nothing.
        let (drawn, stood) = self.drawn(executor)?;
        // From here on readers wait until the work is submitted that they have to wait for.
        let turn = executor.turn();
        let mut moved = Vec::new();
        let places = (self.parameters.iter())
            .map(|state| state.buffer(executor, engine, &mut moved))
            .collect::<Result<Vec<Buffer>>>();
        let launched = places.and_then(|places| {
            for buffer in places.into_iter().chain(drawn).chain(fresh) {
                values.push(buffer.va().0);
                keep.push(buffer);
            }
            self.launch(executor, &mut run, &values)
        });
        if let Err(e) = launched {
            moved.into_iter().for_each(Moved::back);
            self.undrawn(stood);
            return Err(e);
        }
        executor.keep(&run.last, keep);
        // The old values behind it: of memory that others have the owner is told.
        drop(turn);
        drop(moved);
        if executor.options().profile {
            let over = run.graph.wait(executor.deadline());
            let runs = over.map_err(Into::into);
            let runs = runs.and_then(|()| executor.runs_of(&run.graph, &self.costs));
            drop(run);
            // The call is made, whatever becomes of its times: told as failed, it would be made again.
            match runs {
                Ok(runs) => executor.record(runs),
                Err(e) => tracing::warn!("no timestamps of a replay: {e}"),
            }
        }
        Ok(results)
    }

    fn launch(&self, executor: &DeviceExecutor, run: &mut Run, values: &[u64]) -> Result<()> {
        let streams = [Some(executor.stream()), executor.copies()];
        // The queues are in order: only what others have submitted since has to be waited for.
        let Run { graph, last } = run;
        let others = |p: &Point| p.value > 0 && !last.iter().any(|l| same(l, p));
        let before = streams.into_iter().flatten().map(|s| s.last());
        let after: Vec<Point> = before.filter(others).collect();
        let done = graph.replay(values, &after, executor.deadline())?;
        *last = done.to_vec();
        Ok(())
    }

    /// Key and counter of each draw of this call, and where each generator stood before and after it.
    fn drawn(&self, executor: &DeviceExecutor) -> Result<(Vec<Buffer>, Vec<[u64; 2]>)> {
        if self.draws.is_empty() {
            return Ok(Default::default());
        }
        let mut spec = AllocSpec::device(self.draws.len() as u64 * DRAW_BYTES);
        spec.kind = MemoryKind::Host;
        let all = executor.device().alloc(spec)?;
        let mut parts = Vec::with_capacity(self.draws.len());
        let mut stood = Vec::with_capacity(self.draws.len());
        for (i, (rng, words)) in self.draws.iter().enumerate() {
            let (words, places) = rng.next(*words);
            stood.push(places);
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let part = all.slice(i as u64 * DRAW_BYTES, size_of_val(&words) as u64);
            match part.and_then(|part| part.write(0, &bytes).map(|()| part)) {
                Ok(part) => parts.push(part),
                Err(e) => {
                    self.undrawn(stood);
                    return Err(e.into());
                }
            }
        }
        Ok((parts, stood))
    }

    /// Takes the draws of a call that did not happen back.
    fn undrawn(&self, stood: Vec<[u64; 2]>) {
        for ((rng, _), [before, after]) in self.draws.iter().zip(stood).rev() {
            rng.back(before, after);
        }
    }
}

/// The parameters that a schedule touches, with what stands for them.
fn states(schedule: &Schedule, used: Vec<Used>) -> Vec<(Tensor, State)> {
    let mut found = Vec::with_capacity(used.len());
    for Used {
        parameter, given, ..
    } in used
    {
        let own = schedule.buffers.iter().position(|info| match &info.kind {
            BufferKind::Leaf(tensor) => tensor.id() == given.id(),
            _ => false,
        });
        let Some(own) = own.map(|i| BufferId(i as u32)) else {
            continue;
        };
        let read = schedule.steps.iter().any(|step| step.reads.contains(&own));
        // One that is set to what it holds is not written.
        let written = schedule.steps.iter().any(|step| step.writes.contains(&own));
        if read || written {
            let state = State {
                parameter,
                read,
                written,
            };
            found.push((given, state));
        }
    }
    found
}

impl State {
    /// Where the commands find the parameter and leave it. The caller has the turn of the executor.
    fn buffer(
        &self,
        executor: &DeviceExecutor,
        engine: &Engine,
        moved: &mut Vec<Moved>,
    ) -> Result<Buffer> {
        if !self.written {
            return Ok((*executor.resident(&self.parameter.like())?).clone());
        }
        let (buffer, other) = self.parameter.over(|old| {
            let from = executor.resident(old)?;
            let fresh = Arc::new(match self.read {
                true => duplicate(executor, &from)?,
                false => executor.alloc(from.bytes())?,
            });
            let storage = Storage::Device(fresh.clone());
            let value = Tensor::stored(engine, storage, old.shape(), old.dtype());
            Ok((value, fresh))
        })?;
        moved.extend(other);
        Ok((*buffer).clone())
    }
}

fn same(a: &Point, b: &Point) -> bool {
    a.value == b.value && a.signal.va() == b.signal.va()
}

fn duplicate(executor: &DeviceExecutor, from: &Buffer) -> Result<Buffer> {
    let to = executor.alloc(from.bytes())?;
    let barrier = Command::Barrier {
        scope: hcq::Scope::Queue,
    };
    let copy = Command::Copy {
        dst: to.va().0.into(),
        src: from.va().0.into(),
        bytes: from.bytes(),
    };
    let point = executor
        .stream()
        .submit(&executor.copied()?, &[barrier, copy])?;
    executor.keep(&[point], vec![from.clone(), to.clone()]);
    Ok(to)
}
