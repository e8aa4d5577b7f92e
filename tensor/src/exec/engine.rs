//! The executor over one device: schedules, compiles, allocates, submits, reads back.

mod transfer;

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use codegen::Backend;
use codegen::target::TargetKind;
use hcq::graph::Graph;
use hcq::lost::process_generation;
use hcq::memory::AllocSpec;
use hcq::queue::Stream;
use hcq::signal::{Point, Signal};
use hcq::sync::{lock, unpoisoned};
use hcq::{Buffer, Deadline, Device, InFlight, QueueKind, Sharing, Val};

use super::compile::{Compiled, Compiler};
use super::faults::Faults;
use super::packed::Packed;
use super::packing::LoopInvariant;
use super::preparation::{Ledger, Preparation};
use super::profile::{Observer, Run};
use super::submit::{self, Done, Items};
use crate::error::{Error, Result};
use crate::graph::{Bounds, Engine, Executor, Op, Storage, Tensor, Waiting};
use crate::jit::tracing::refuse;
use crate::param::cell::Pending;
use crate::schedule::{BufferId, BufferKind, Limits, Offsets, OutputRequest, Schedule};

/// How an executor works.
#[derive(Clone)]
pub struct Options {
    /// How kernels are compiled: optimisations, cache, threads.
    pub codegen: codegen::Options,
    /// Bounds of the scheduler; `None` takes them from the device.
    pub limits: Option<Limits>,
    /// Gives every temporary its own memory, to find errors in the memory plan.
    pub unplanned: bool,
    /// How long the device may make no progress before a wait fails. Work in progress is waited for.
    pub timeout: Duration,
    /// Limit of a wait for work, regardless of progress; `None` for no limit.
    pub work: Option<Duration>,
    /// Kernels compiled at the same time; 0 for as many as the process has processors.
    pub compile_threads: usize,
    /// Measures every step; each submission is then waited for.
    pub profile: bool,
    /// Size of the cache of compiled kernels in bytes, evicted least recently used first. Running and captured
    /// kernels do not count.
    pub kernel_bytes: u64,
    /// Receives events.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            codegen: codegen::Options::default(),
            limits: None,
            unplanned: false,
            timeout: Duration::from_secs(60),
            work: None,
            compile_threads: 0,
            profile: false,
            kernel_bytes: 256 << 20,
            observer: None,
        }
    }
}

/// How many engines there were on devices of each name.
static ENGINES: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

/// The name of a new engine: the device's, and which one it is if it is not the first one there.
fn new_name(device: &dyn Device) -> String {
    let id = device.info().id.to_string();
    let mut engines = lock(&ENGINES);
    let count = engines.entry(id.clone()).or_default();
    *count += 1;
    match *count {
        1 => id,
        n => format!("{id} (engine {n})"),
    }
}

/// Runs graphs on a device.
pub struct DeviceExecutor {
    name: String,
    device: Arc<dyn Device>,
    stream: Stream,
    /// The queue for copies beside kernels, on devices that have memory of their own.
    copies: Option<Stream>,
    compiler: Compiler,
    options: Options,
    limits: Limits,
    state: Mutex<State>,
    /// See [`DeviceExecutor::turn`].
    turn: Mutex<()>,
    /// Who has opened it: a fork may have inherited locks that nobody opens.
    process: u32,
    packed: Packed,
    /// What changed from call to call.
    offsets: Offsets,
    faults: Faults,
}

#[derive(Default)]
struct State {
    /// Temporaries; the queue is in order, so submissions share it.
    arena: Option<Buffer>,
    scratch: Option<Buffer>,
    /// What the device may still be using.
    pending: InFlight<Vec<Buffer>>,
    /// Kernels that are no longer kept, and may still run.
    retired: InFlight<Vec<Arc<Compiled>>>,
    stamps: Vec<(Signal, Signal)>,
    runs: Vec<Run>,
}

impl DeviceExecutor {
    /// An engine over a device. It works on the device's first compute queue, and on GPUs on its first
    /// copy queue.
    ///
    /// # Errors
    /// A device without compute queue, or its loss.
    pub fn engine(
        device: Arc<dyn Device>,
        mut backend: Backend,
        options: Options,
    ) -> Result<Engine> {
        let stream = Stream::new(device.queue(QueueKind::Compute, 0)?);
        let count = |kind| {
            let mut queues = device.info().queues.iter();
            queues.find(|q| q.0 == kind).map_or(0, |q| q.1)
        };
        let copies = match backend.target.kind {
            TargetKind::Gpu if count(QueueKind::Copy) > 0 => {
                Some(Stream::new(device.queue(QueueKind::Copy, 0)?))
            }
            _ => None,
        };
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
        let threads = match options.compile_threads {
            0 => processors,
            n => n,
        };
        let units = device.info().units;
        let of_device = || Limits::of(backend.target.kind, units.into());
        let limits = options.limits.unwrap_or_else(of_device);
        if backend.target.kind == TargetKind::Gpu && units > 0 {
            backend.target.cores = units as usize;
        }
        let (codegen, most) = (options.codegen.clone(), options.kernel_bytes);
        let compiler = Compiler::new(device.clone(), backend, codegen, threads, most);
        Ok(Engine(Arc::new(DeviceExecutor {
            name: new_name(&*device),
            device,
            stream,
            copies,
            compiler,
            options,
            limits,
            state: Mutex::default(),
            turn: Mutex::new(()),
            process: process_generation(),
            packed: Packed::default(),
            offsets: Offsets::default(),
            faults: Faults::default(),
        })))
    }

    /// The executor of an engine, if it is one of these.
    pub fn of(engine: &Engine) -> Option<&DeviceExecutor> {
        engine.0.as_any().downcast_ref()
    }

    /// `Ok` in the process that has opened the device.
    ///
    /// # Errors
    /// Its loss to a fork.
    pub(crate) fn check(&self) -> Result<()> {
        match self.process == process_generation() {
            true => Ok(()),
            false => Ok(self.stream.queue().timeline().check()?),
        }
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// The queue that kernels run on.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The queue for copies parallel to kernels, if there is one.
    pub fn copies(&self) -> Option<&Stream> {
        self.copies.as_ref()
    }

    /// Every queue that it works on.
    fn streams(&self) -> impl Iterator<Item = &Stream> {
        std::iter::once(&self.stream).chain(&self.copies)
    }

    /// What kernels that are submitted now have to wait for: copies that are still under way.
    pub(crate) fn copied(&self) -> Result<Vec<Point>> {
        let last = self.copies.as_ref().map(|c| c.last());
        Ok(match last {
            Some(last) if !last.reached()? => vec![last],
            _ => Vec::new(),
        })
    }

    /// Bounds of its scheduler.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Its options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Number of cached kernels; see [`Options::kernel_bytes`].
    pub fn compiled_kernels(&self) -> usize {
        self.compiler.known()
    }

    /// Time spent on preparing runs so far.
    pub fn preparation(&self) -> Preparation {
        self.compiler.ledger.sum()
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.compiler.ledger
    }

    /// Returns the runs profiled since the last call.
    pub fn take_runs(&self) -> Vec<Run> {
        std::mem::take(&mut self.state().runs)
    }

    /// Waits for all submitted work.
    ///
    /// # Errors
    /// A timeout, or the loss of the device; [`Error::Index`] of what it has done.
    pub fn synchronize(&self) -> Result<()> {
        if let Some(copies) = &self.copies {
            copies.wait(self.deadline())?;
        }
        self.stream.wait(self.deadline())?;
        self.let_go(usize::MAX)?;
        self.faults.check()
    }

    /// Frees the memory of temporaries.
    ///
    /// # Errors
    /// A timeout, or the loss of the device.
    pub fn trim(&self) -> Result<()> {
        self.synchronize()?;
        let mut state = self.state();
        (state.arena, state.scratch) = (None, None);
        Ok(())
    }

    pub(crate) fn deadline(&self) -> Deadline {
        let deadline = Deadline::after(self.options.timeout);
        match self.options.work {
            Some(work) => deadline.within(work),
            None => deadline,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic leaves buffers and points in it, all of them whole.
        lock(&self.state)
    }

    fn observer(&self) -> Option<&dyn Observer> {
        self.options.observer.as_deref()
    }

    /// Waits until no other thread is between the choice of what a submission touches and the note of it:
    /// its parts share the arena, and who reads has to find it noted.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        lock(&self.turn)
    }

    /// Packed operands of captures.
    pub(crate) fn packed(&self) -> &Packed {
        &self.packed
    }

    /// Device memory for a tensor.
    pub(crate) fn alloc(&self, bytes: u64) -> Result<Buffer> {
        Ok(self.device.alloc(AllocSpec::device(bytes))?)
    }

    /// Plans and compiles what is run often. `inputs` change from run to run where all other leaves never do.
    pub(crate) fn plan(
        &self,
        wanted: &[OutputRequest],
        inputs: Option<&[Tensor]>,
    ) -> Result<(Schedule, Vec<Arc<Compiled>>)> {
        let plan = || Schedule::new(wanted, &self.limits);
        let mut schedule = self.ledger().timed(|p| &mut p.schedule, plan);
        if let Some(inputs) = inputs {
            schedule.freeze(inputs);
        }
        self.compiled(schedule, true)
    }

    /// Plans and compiles what is run once, and may come again with other numbers.
    fn plan_once(&self, wanted: &[OutputRequest]) -> Result<(Schedule, Vec<Arc<Compiled>>)> {
        let plan = || Schedule::again(wanted, &self.limits, &self.offsets);
        let schedule = self.ledger().timed(|p| &mut p.schedule, plan);
        self.compiled(schedule, false)
    }

    /// Compiles the kernels of a schedule, see [`Compiler::compile`].
    fn compiled(
        &self,
        mut schedule: Schedule,
        constant: bool,
    ) -> Result<(Schedule, Vec<Arc<Compiled>>)> {
        if self.options.unplanned {
            schedule = schedule.unplanned();
        }
        if let Some(observer) = self.observer() {
            let arena = &schedule.arena;
            observer.scheduled(schedule.launches(), arena.bytes, arena.unplanned);
        }
        tracing::debug!(
            launches = schedule.launches(),
            kernels = schedule.kernels.len(),
            arena = schedule.arena.bytes,
            unplanned = schedule.arena.unplanned,
            "scheduled"
        );
        let compiled = self
            .compiler
            .compile(&schedule.kernels, constant, self.observer())?;
        Ok((schedule, compiled))
    }

    /// Lets go of kernels that are no longer kept when the device has done what was submitted so far.
    fn retire(&self) -> Result<()> {
        let retired = self.compiler.retired();
        let mut state = self.state();
        if !retired.is_empty() {
            state.retired.keep(self.stream.last(), retired);
        }
        Ok(state.retired.settle(usize::MAX, self.deadline())?)
    }

    /// Brings the leaves that are needed into device memory, by buffer number.
    pub(crate) fn leaves(
        &self,
        schedule: &Schedule,
        compiled: &[Arc<Compiled>],
        done: &Done,
    ) -> Result<Vec<Option<Arc<Buffer>>>> {
        let used = submit::used(schedule, compiled, done);
        let mut leaves = vec![None; schedule.buffers.len()];
        for (i, info) in schedule.buffers.iter().enumerate() {
            if let BufferKind::Leaf(tensor) = &info.kind
                && used[i]
                && !matches!(tensor.node().op, Op::Given)
            {
                leaves[i] = Some(self.resident(tensor)?);
            }
        }
        Ok(leaves)
    }

    /// The device memory of a realized tensor; uploads it if it is in host memory.
    pub(crate) fn resident(&self, tensor: &Tensor) -> Result<Arc<Buffer>> {
        if !std::ptr::addr_eq(Arc::as_ptr(&tensor.engine().0), self) {
            return Err(Error::Engines {
                op: "realize",
                a: self.name(),
                b: tensor.engine().name(),
            });
        }
        match tensor.storage() {
            Some(Storage::Device(buffer)) if buffer.device() == &self.device.info().id => {
                found(&buffer)?;
                Ok(buffer)
            }
            Some(Storage::Device(buffer)) => Err(Error::Engines {
                op: "realize",
                a: self.name(),
                b: buffer.device().to_string(),
            }),
            Some(storage) => {
                let buffer = Arc::new(self.uploaded(&storage)?);
                tensor
                    .node()
                    .storage
                    .replace(Storage::Device(buffer.clone()));
                Ok(buffer)
            }
            None => Err(Error::Shape {
                op: "realize",
                what: format!("{tensor:?} has no value yet; realize it first"),
            }),
        }
    }

    /// Waits for the work that uses a buffer.
    ///
    /// # Errors
    /// A timeout, or the loss of the device; [`Error::Index`] of what it has done.
    pub(crate) fn settled(&self, buffer: &Buffer) -> Result<()> {
        // All of them: a replay ends with one point per queue, and any of the queues may write it.
        // What is about to be submitted is waited for, too.
        let points: Vec<Point> = {
            let _turn = self.turn();
            let state = self.state();
            let uses = |kept: &[Buffer]| kept.iter().any(|b| b.same_allocation(buffer));
            let used = state.pending.iter().filter(|(_, kept)| uses(kept));
            used.map(|(point, _)| point.clone()).collect()
        };
        for point in points {
            point.wait(self.deadline())?;
        }
        self.faults.check()
    }

    /// The kind of its device.
    pub(crate) fn kind(&self) -> TargetKind {
        self.compiler.kind()
    }

    /// Waits until one more submission may be in flight. Before the submission, so that one that was made is
    /// never told as one that failed.
    pub(crate) fn room(&self) -> Result<()> {
        let most = self.device.info().costs.in_flight.saturating_sub(1);
        self.let_go(most)
    }

    /// Lets go of what submissions used that are over, and waits until at most so many are left.
    fn let_go(&self, most: usize) -> Result<()> {
        // Who shares memory is told that it is free: not with a lock held, on which he might wait.
        let mut shared = Vec::new();
        let settled = {
            let is_shared = |buffer: &Buffer| buffer.sharing() != Sharing::Own;
            let released = |used: Vec<Buffer>| {
                if used.iter().any(is_shared) {
                    shared.push(used);
                }
            };
            let mut state = self.state();
            let deadline = self.deadline();
            state.pending.settle_into(most, deadline, released)
        };
        drop(shared);
        Ok(settled?)
    }

    /// Keeps buffers until some points are reached.
    pub(crate) fn keep(&self, until: &[Point], buffers: Vec<Buffer>) {
        let mut state = self.state();
        for point in until {
            state.pending.keep(point.clone(), buffers.clone());
        }
    }

    /// A block that is at least so large; a larger one than before if needed. The old one is kept
    /// by the submissions that use it.
    fn grown(&self, block: &mut Option<Buffer>, bytes: u64) -> Result<Option<Buffer>> {
        if bytes == 0 {
            return Ok(None);
        }
        if block.as_ref().is_none_or(|b| b.bytes() < bytes) {
            *block = None;
            *block = Some(self.alloc(bytes)?);
        }
        Ok(block.clone())
    }

    /// The runs of the last replay of a graph, which is over.
    pub(crate) fn runs_of(&self, graph: &Graph, costs: &[(f64, f64)]) -> Result<Vec<Run>> {
        let clock = self.device.clock()?;
        let samples = graph.samples()?.into_iter().enumerate();
        let runs = samples.map(|(i, sample)| {
            let (bytes, flops) = costs.get(i).copied().unwrap_or_default();
            let queue = graph.stream(sample.lane).queue();
            Run {
                name: sample.name,
                queue: track(&self.device, queue.kind()),
                start_ns: clock.to_host_ns(sample.start),
                end_ns: clock.to_host_ns(sample.end),
                bytes,
                flops,
            }
        });
        Ok(runs.collect())
    }

    /// Records runs. The caller has no lock: the observer may use the engine.
    pub(crate) fn record(&self, runs: Vec<Run>) {
        if let Some(observer) = self.observer() {
            runs.iter().for_each(|run| observer.ran(run));
        }
        self.state().runs.extend(runs);
    }

    /// Computes values. Those that go into the memory of a parameter's old value are the waiting ones of
    /// `over`, in order.
    fn compute(
        &self,
        wanted: &[OutputRequest],
        waiting: &dyn Waiting,
        over: &[usize],
    ) -> Result<()> {
        let (schedule, compiled) = self.plan_once(wanted)?;
        let done = Done::new();
        let (schedule, compiled) = (&schedule, &compiled);
        let once = LoopInvariant::of(schedule, compiled, &done.launches);
        let mut results: Vec<Option<Buffer>> = vec![None; wanted.len()];
        let mut buffers = self.result_buffers(schedule, &mut results)?;
        // Uploads and waits, before others have to wait.
        let leaves = self.leaves(schedule, compiled, &done)?;
        self.room()?;
        let turn = self.turn();
        for (i, leaf) in leaves.iter().enumerate() {
            // A replay that failed meanwhile has put back what it had moved.
            if let (Some(_), BufferKind::Leaf(tensor)) = (leaf, &schedule.buffers[i].kind) {
                buffers[i] = Some((*self.resident(tensor)?).clone());
            }
        }
        // No handle of the memory that is written over is left here, and none is given away.
        drop(leaves);
        let (arena, scratch) = {
            let mut state = self.state();
            let State { arena, scratch, .. } = &mut *state;
            (
                self.grown(arena, schedule.arena.bytes)?,
                self.grown(scratch, once.bytes)?,
            )
        };
        let places = temporaries(schedule, arena.as_ref().map_or(0, |b| b.va().0));
        let base = Val::Const(scratch.as_ref().map_or(0, |b| b.va().0));
        let with = |mut items, buffers: &[Option<Buffer>]| -> Result<Items<'_>> {
            let address = |b: BufferId| match &buffers[b.0 as usize] {
                Some(buffer) => Val::Const(buffer.va().0),
                None => Val::Const(places[b.0 as usize]),
            };
            submit::items(&mut items, schedule, compiled, &address, base, &done, &once)?;
            Ok(items)
        };
        let targets = wanted.iter().zip(&schedule.results);
        let targets = targets.filter(|(w, _)| w.into.is_some());
        let over = over.iter().zip(targets);
        let mut over: Vec<Over> = over
            .map(|(&waits, (_, &target))| Over { waits, target })
            .collect();
        // A value that waits and turned out to be the old one has no memory here.
        over.retain(|over| {
            let computed = buffers[over.target.0 as usize].is_some();
            if !computed {
                waiting.settle(over.waits, waiting.stored(over.waits).clone());
            }
            computed
        });
        let mut all = with(Items::default(), &buffers)?;
        let mut keep: Vec<Buffer> = buffers.iter().flatten().cloned().collect();
        keep.extend(arena);
        keep.extend(scratch);
        let values = |buffers: &[Option<Buffer>]| -> Vec<(usize, Tensor)> {
            let value = |over: &Over| Some((over.waits, over.value(waiting, buffers)?));
            over.iter().filter_map(value).collect()
        };
        let batch = self.device.info().costs.batch.max(1);
        let mut sent = Vec::new();
        // All of it or nothing where values are written over: they are not there to be computed from again.
        let in_place = values(&buffers);
        let most = if in_place.is_empty() {
            batch
        } else {
            usize::MAX
        };
        let mut submit = || self.submit(&all, &keep, most, &mut sent);
        if !waiting.settle_over(&in_place, &mut submit)? {
            // Somebody has taken a value in the meantime, and these stay where they are.
            let copies = self.elsewhere(&over, &mut buffers, &mut keep)?;
            let copies = with(copies, &buffers)?;
            self.submit(&copies, &keep, batch, &mut sent)?;
            all = copies;
            for (i, value) in values(&buffers) {
                waiting.settle(i, value);
            }
        }
        fill(wanted, results);
        let times = match self.options.profile {
            true => self.times(&all, &sent),
            false => Ok(Vec::new()),
        };
        drop(turn);
        // The values are made, whatever becomes of their times: told as failed, they would be made again.
        match times {
            Ok(runs) => self.record(runs),
            Err(e) => tracing::warn!("{}: no timestamps of an update: {e}", self.name),
        }
        self.retire()
    }

    /// Memory for the results of a schedule, by buffer number. `results` is given each by its own number.
    fn result_buffers(
        &self,
        schedule: &Schedule,
        results: &mut [Option<Buffer>],
    ) -> Result<Vec<Option<Buffer>>> {
        let mut buffers: Vec<Option<Buffer>> = vec![None; schedule.buffers.len()];
        for (i, info) in schedule.buffers.iter().enumerate() {
            if let BufferKind::Result(result) = info.kind {
                let buffer = self.alloc(info.bytes())?;
                results[result] = Some(buffer.clone());
                buffers[i] = Some(buffer);
            }
        }
        Ok(buffers)
    }

    /// Gives values memory beside the old ones, which they would have been written over, and copies these there.
    fn elsewhere<'a>(
        &self,
        over: &[Over],
        buffers: &mut [Option<Buffer>],
        keep: &mut Vec<Buffer>,
    ) -> Result<Items<'a>> {
        let mut copies = Items::default();
        for over in over {
            let at = &mut buffers[over.target.0 as usize];
            if let Some(old) = at.take() {
                let fresh = self.alloc(old.bytes())?;
                copies.copy(&old, &fresh);
                keep.push(fresh.clone());
                *at = Some(fresh);
            }
        }
        Ok(copies)
    }

    /// Submits commands, at most so many at once. `sent` is given the points at which they are done.
    fn submit(
        &self,
        items: &Items<'_>,
        keep: &[Buffer],
        most: usize,
        sent: &mut Vec<Point>,
    ) -> Result<()> {
        let stamps = self.stamps(items.count())?;
        let mut stamps = stamps.chunks(most);
        for first in (0..items.count()).step_by(most) {
            let end = items.count().min(first.saturating_add(most));
            let commands = items.commands(first..end, stamps.next());
            let point = self.stream.submit(&self.copied()?, &commands)?;
            self.keep(std::slice::from_ref(&point), keep.to_vec());
            sent.push(point);
        }
        Ok(())
    }

    /// Signals for the begin and the end of so many commands; none without a profile.
    fn stamps(&self, count: usize) -> Result<Vec<(Signal, Signal)>> {
        if !self.options.profile {
            return Ok(Vec::new());
        }
        let mut state = self.state();
        while state.stamps.len() < count {
            let pair = (self.device.signal("start")?, self.device.signal("end")?);
            state.stamps.push(pair);
        }
        Ok(state.stamps[..count].to_vec())
    }

    /// The runs of what was submitted last, which is waited for. The caller has had the turn since.
    fn times(&self, items: &Items<'_>, sent: &[Point]) -> Result<Vec<Run>> {
        for point in sent {
            point.wait(self.deadline())?;
        }
        let clock = self.device.clock()?;
        let queue = track(&self.device, self.stream.queue().kind());
        let stamps = self.stamps(items.count())?;
        let runs = items
            .named()
            .zip(&stamps)
            .map(|((name, cost), (start, end))| {
                Ok(Run {
                    name,
                    queue: queue.clone(),
                    start_ns: clock.to_host_ns(start.timestamp()?),
                    end_ns: clock.to_host_ns(end.timestamp()?),
                    bytes: cost.0,
                    flops: cost.1,
                })
            });
        runs.collect()
    }
}

/// A parameter whose new value goes into the memory of the old one.
struct Over {
    /// Which of those that wait.
    waits: usize,
    target: BufferId,
}

impl Over {
    /// The new value, in the memory that the schedule has for it.
    fn value(&self, waiting: &dyn Waiting, buffers: &[Option<Buffer>]) -> Option<Tensor> {
        let buffer = buffers[self.target.0 as usize].clone()?;
        let (value, storage) = (waiting.value(self.waits), Storage::Device(Arc::new(buffer)));
        Some(Tensor::stored(
            value.engine(),
            storage,
            value.shape(),
            value.dtype(),
        ))
    }
}

/// Gives values their memory, but those that go into that of a parameter.
fn fill(wanted: &[OutputRequest], results: Vec<Option<Buffer>>) {
    for (want, result) in wanted.iter().zip(results) {
        if let (None, Some(buffer)) = (&want.into, result) {
            let storage = Storage::Device(Arc::new(buffer));
            want.value.node().fill(storage);
        }
    }
}

/// Submissions that follow find what others have written into memory that they have, too.
///
/// # Errors
/// The transport's.
pub(crate) fn found(buffer: &Buffer) -> Result<()> {
    match buffer.sharing() {
        Sharing::Own => Ok(()),
        Sharing::Writable | Sharing::ReadOnly => Ok(buffer.clean(0, buffer.bytes())?),
    }
}

/// The name of a queue in profiles.
fn track(device: &Arc<dyn Device>, kind: QueueKind) -> String {
    format!("{} {kind}", device.info().id)
}

/// Address of each temporary in an arena, by buffer number; 0 for other buffers.
pub(crate) fn temporaries(schedule: &Schedule, arena: u64) -> Vec<u64> {
    let mut places = vec![0; schedule.buffers.len()];
    for (b, offset) in schedule.temporaries.iter().zip(&schedule.arena.offsets) {
        places[b.0 as usize] = arena + offset;
    }
    places
}

impl Executor for DeviceExecutor {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn memory(&self) -> u64 {
        self.device.info().memory
    }

    fn has_doubles(&self) -> bool {
        self.compiler.has_doubles()
    }

    fn realize(&self, roots: &[Tensor]) -> Result<()> {
        self.update(roots, &Pending::default(), &[])
    }

    fn update(&self, roots: &[Tensor], waiting: &dyn Waiting, cut: &[Tensor]) -> Result<()> {
        self.check()?;
        refuse(self, "realizing")?;
        let donated = waiting.donated(roots, cut);
        let mut wanted: Vec<OutputRequest> = Vec::new();
        let mut over: Vec<usize> = Vec::new();
        let values = (0..waiting.count()).map(|i| (waiting.value(i), donated[i].then_some(i)));
        let roots = roots.iter().map(|root| (root, None));
        let all: Vec<(&Tensor, Option<usize>)> = roots.chain(values).collect();
        super::copies_from_elsewhere(all.iter().map(|(value, _)| *value))?;
        for (value, donated) in all {
            if value.storage().is_some() {
                continue;
            }
            if value.numel() == 0 {
                value.node().fill(Storage::Host(Arc::from([])));
                continue;
            }
            over.extend(donated);
            wanted.push(OutputRequest {
                value: value.clone(),
                into: donated.map(|i| waiting.stored(i).clone()),
            });
        }
        if !wanted.is_empty() {
            self.compute(&wanted, waiting, &over)?;
        }
        for (i, donated) in donated.into_iter().enumerate() {
            if waiting.value(i).storage().is_some() || !donated {
                waiting.settle(i, waiting.value(i).as_data());
            }
        }
        Ok(())
    }

    fn read(&self, storage: &Storage, into: &mut [u8]) -> Result<()> {
        refuse(self, "reading")?;
        let buffer = match storage {
            Storage::Host(bytes) if bytes.len() == into.len() => {
                into.copy_from_slice(bytes);
                return Ok(());
            }
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
            Storage::Source(source) => return source.fill(into),
            Storage::Device(buffer) => buffer,
        };
        self.check()?;
        if into.is_empty() {
            return Ok(());
        }
        self.settled(buffer)?;
        self.seen(buffer, into)
    }

    fn fault_word(&self, bounds: &Bounds) -> Result<Option<Storage>> {
        self.check()?;
        let alloc = |spec| self.device.alloc(spec);
        let is_busy = |word: u64| {
            let state = self.state();
            let mut kept = state.pending.iter().flat_map(|(_, kept)| kept);
            kept.any(|buffer| buffer.va().0 == word)
        };
        let word = self.faults.word(bounds, alloc, is_busy)?;
        Ok(Some(Storage::Device(word)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for DeviceExecutor {
    fn drop(&mut self) {
        let deadline = self.deadline();
        let state = unpoisoned(self.state.get_mut());
        let settled = state.pending.settle(0, deadline);
        if let Err(e) = settled.and_then(|()| state.retired.settle(0, deadline)) {
            tracing::warn!(
                "{}: waiting for work in flight failed: {e}",
                self.device.info().id
            );
        }
        // It names programs and stamps, too.
        let named = Arc::new((self.compiler.take(), std::mem::take(&mut state.stamps)));
        let mut rest = InFlight::default();
        for (point, _) in state.pending.iter() {
            rest.keep(point.clone(), named.clone());
        }
    }
}
