//! A traced function as one graph of commands, with the addresses of inputs and outputs open.

use std::sync::Arc;

use codegen::DType;
use hcq::graph::{Graph, GraphBuilder, Work};
use hcq::signal::Point;
use hcq::{Buffer, Command, Slot, Span, Val};

use super::capture;
use super::freeze::FrozenSteps;
use crate::error::Result;
use crate::exec::engine::{DeviceExecutor, temporaries};
use crate::exec::packing::Once;
use crate::exec::submit;
use crate::graph::{Engine, Shape, Storage, Tensor};
use crate::schedule::{BufferId, Place, Wanted};

/// What one signature was turned into.
pub(super) struct Capture {
    graph: Graph,
    outputs: Vec<Output>,
    /// Address and memory of each state tensor; a change of address means a new capture.
    pub(super) state: Vec<(Tensor, Buffer)>,
    /// Bytes and operations of each command.
    costs: Vec<(f64, f64)>,
    /// The points that the last replay ends with, one per queue.
    last: Vec<Point>,
}

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
    /// Plans, compiles and records. If `frozen`, every leaf but the placeholders is constant for
    /// good, and what only depends on them is done now.
    pub(super) fn encode(
        executor: &DeviceExecutor,
        placeholders: &[Tensor],
        wanted: &[Wanted],
        outputs: Vec<Output>,
        frozen: bool,
    ) -> Result<Capture> {
        let _turn = executor.turn();
        let (schedule, compiled) = executor.plan(wanted, frozen.then_some(placeholders))?;
        let schedule = &schedule;
        let frozen = match frozen {
            true => executor
                .ledger()
                .packed(|| FrozenSteps::run(executor, schedule, &compiled, placeholders))?,
            false => FrozenSteps::default(),
        };
        let leaves = executor.leaves(schedule, &compiled, &frozen.done)?;
        let mut builder = GraphBuilder::new();
        let lane = builder.lane(executor.device(), executor.stream());
        let inputs: Vec<Slot> = placeholders
            .iter()
            .map(|_| builder.slot())
            .collect::<hcq::Result<_>>()?;
        let full = outputs.iter().filter(|o| o.bytes() > 0);
        let results: Vec<Slot> = full.map(|_| builder.slot()).collect::<hcq::Result<_>>()?;

        let arena = executor.alloc(schedule.arena.bytes)?;
        let once = Once::of(schedule, &compiled, &frozen.done.launches);
        let scratch = executor.alloc(once.bytes)?;
        let places = temporaries(schedule, arena.va().0);
        let mut keep = vec![arena, scratch.clone()];
        let mut address: Vec<Val> = places.into_iter().map(Val::Const).collect();
        for (i, info) in schedule.buffers.iter().enumerate() {
            match &info.place {
                Place::Leaf(tensor) => {
                    let input = placeholders.iter().position(|p| p.id() == tensor.id());
                    match (input, &leaves[i]) {
                        (Some(input), _) => address[i] = Val::Slot(inputs[input], 0),
                        (None, Some(buffer)) => {
                            address[i] = Val::Const(buffer.va().0);
                            keep.push(buffer.clone());
                        }
                        (None, None) => {}
                    }
                }
                Place::Result(result) => address[i] = Val::Slot(results[*result], 0),
                Place::Temporary => {}
            }
        }
        let mut costs = Vec::new();
        let at = |b: BufferId| address[b.0 as usize];
        let scratch = scratch.va().0;
        let items = submit::items(schedule, &compiled, &at, scratch, &frozen.done, &once)?;
        // Copies run beside the kernels that have nothing to do with them.
        let any = items.iter().any(|i| matches!(i.node, Work::Copy { .. }));
        let copies = executor.copies().filter(|_| any);
        let beside = copies.map(|stream| builder.lane(executor.device(), stream));
        for item in items {
            costs.push(item.cost);
            let lane = match item.node {
                Work::Copy { .. } => beside.unwrap_or(lane),
                Work::Exec { .. } => lane,
            };
            builder.add(lane, &item.name, item.node, item.reads, item.writes);
        }
        let mut state = Vec::new();
        for target in wanted.iter().filter_map(|w| w.into.as_ref()) {
            let buffer = executor.resident(target)?;
            keep.push(buffer.clone());
            state.push((target.clone(), buffer));
        }
        // What the commands name besides inputs and outputs. Packed operands are found by other
        // captures while this one lives.
        builder.keep(Arc::new((keep, frozen.operands)));
        let graph = builder.profiled(executor.options().profile).build()?;
        Ok(Capture {
            graph,
            outputs,
            state,
            costs,
            last: Vec::new(),
        })
    }

    pub(super) fn replay(
        &mut self,
        executor: &DeviceExecutor,
        engine: &Engine,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>> {
        let _turn = executor.turn();
        let mut values = Vec::with_capacity(inputs.len() + self.outputs.len());
        let mut keep = Vec::with_capacity(inputs.len() + self.outputs.len());
        for input in inputs {
            let mut buffer = executor.resident(input)?;
            let touched = Span::of(&buffer);
            let mut state = self.state.iter().map(|(_, state)| Span::of(state));
            if state.any(|state| state.overlaps(&touched)) {
                // The update would change the input while it is read.
                buffer = duplicate(executor, &buffer)?;
            }
            values.push(buffer.va().0);
            keep.push(buffer);
        }
        let mut results = Vec::with_capacity(self.outputs.len());
        for output in &self.outputs {
            let buffer = executor.alloc(output.bytes())?;
            if output.bytes() > 0 {
                values.push(buffer.va().0);
                keep.push(buffer.clone());
            }
            let storage = Storage::Device(buffer);
            results.push(Tensor::stored(engine, storage, &output.shape, output.dtype));
        }
        let streams = [Some(executor.stream()), executor.copies()];
        // The queues are in order: only what others have submitted since has to be waited for.
        let others = |p: &Point| p.value > 0 && !self.last.iter().any(|l| same(l, p));
        let before = streams.into_iter().flatten().map(|s| s.last());
        let after: Vec<Point> = before.filter(others).collect();
        self.last = self
            .graph
            .replay(&values, &after, executor.deadline())?
            .to_vec();
        executor.keep(&self.last, keep)?;
        if executor.options().profile {
            self.graph.wait(executor.deadline())?;
            executor.record(&self.graph, &self.costs)?;
        }
        Ok(results)
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
    executor.keep(&[point], vec![from.clone(), to.clone()])?;
    Ok(to)
}

/// A copy from another engine cannot be in a graph of this one.
pub(super) fn foreign(root: &Tensor, engine: &Engine) -> Result<()> {
    let mut seen = std::collections::HashSet::new();
    let mut pending = vec![root.clone()];
    while let Some(tensor) = pending.pop() {
        if !seen.insert(tensor.id()) {
            continue;
        }
        if tensor.engine() != engine {
            return Err(capture(format!(
                "{tensor:?} is on {}; copy it before the call, and pass it as an input",
                tensor.engine().name()
            )));
        }
        if tensor.storage().is_some() {
            continue;
        }
        pending.extend(tensor.node().src.iter().cloned());
    }
    Ok(())
}
