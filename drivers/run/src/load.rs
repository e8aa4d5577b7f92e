//! From a bundle to memory, programs and commands on a device.

use std::sync::Arc;
use std::time::Duration;

use hcq::graph::{Graph, GraphBuilder, Lane, Work};
use hcq::queue::Stream;
use hcq::sync::lock;
use hcq::{
    AllocSpec, ArgKind, ArgLayout, Buffer, Deadline, Device, KernelImage, MemoryKind, Program,
    QueueKind, Slot, Span, Val, Width,
};

use crate::bind::{Bindings, End, Held};
use crate::bundle::ModelBundle;
use crate::container::Kind;
use crate::error::Result;
use crate::plan::{Argument, Content, Extent, Place, Step, TargetPlan};

/// A bundle on a device.
pub(crate) struct Loaded {
    pub graph: Graph,
    pub ports: Ports,
    /// Memory of the caller.
    pub bindings: Bindings,
    /// The first value of each state; none for zeros.
    pub firsts: Vec<Option<Vec<u8>>>,
    /// Bytes of all memory.
    pub bytes: u64,
    parts: Parts,
    /// The memory that runs touch.
    keep: Vec<Buffer>,
}

impl Loaded {
    /// What the host reads or writes of an input or output: memory of the caller, or the model's own.
    pub fn memory(&self, end: End) -> Option<Buffer> {
        let bound = self.bindings.memory(end);
        bound.or_else(|| self.ports.own(end).cloned())
    }

    /// Uses memory in the place of the model's own, or its own again. No run is under way. The first time, the commands are made
    /// anew: with a value in the place of the address.
    pub fn bind(
        &mut self,
        steps: &[Step],
        (end, own): (End, u64),
        memory: Option<Buffer>,
    ) -> Result<()> {
        let slot = match self.bindings.slot(end) {
            Some(slot) => slot,
            None if memory.is_none() => return Ok(()),
            None => {
                let mut ends = self.bindings.ends.clone();
                ends.push(end);
                let held = self.bindings.held.clone();
                let open = &Open { ends: &ends, held };
                self.graph = self.parts.graph(steps, &self.ports, &self.keep, open)?;
                self.bindings.ends = ends;
                self.bindings.values.push(own);
                lock(&self.bindings.held).push(None);
                self.bindings.values.len() - 1
            }
        };
        self.bindings.set(slot, memory, own);
        Ok(())
    }
}

/// Whether the host copies through memory of its own: of a device with memory that only it is near to.
fn is_far(device: &dyn Device) -> bool {
    let info = device.info();
    let copies = info
        .queues
        .iter()
        .any(|q| q.0 == QueueKind::Copy && q.1 > 0);
    copies && info.id.vendor() != "CPU"
}

/// Loads the code, weights and commands of target `n`, and runs its prologue.
pub(crate) fn load(
    bundle: &ModelBundle,
    n: usize,
    device: &Arc<dyn Device>,
    timeout: Duration,
) -> Result<Loaded> {
    let plan = &bundle.targets()[n];
    let programs = programs(bundle, n, &**device)?;
    let mut regions = Vec::with_capacity(plan.regions.len());
    for region in &plan.regions {
        regions.push(device.alloc(AllocSpec::device(region.bytes))?);
    }
    let firsts = constants(bundle, plan, &regions)?;
    let parts = Parts {
        programs,
        addresses: regions.iter().map(|region| region.va().0).collect(),
        device: device.clone(),
        stream: Stream::new(device.queue(QueueKind::Compute, 0)?),
    };
    let closed = Open::default();
    if !plan.prologue.is_empty() {
        let mut graph = parts.graph(&plan.prologue, &Ports::default(), &regions, &closed)?;
        let deadline = Deadline::after(timeout);
        graph.replay(&[], &[], deadline)?;
        graph.wait(deadline)?;
    }
    let ports = Ports::of(plan, &regions, &**device)?;
    // Weights in the order of the model are not needed where kernels have them in an order of their own.
    let used = used(plan);
    let keep = regions.iter().zip(&used).filter(|(_, used)| **used);
    let keep: Vec<Buffer> = keep.map(|(buffer, _)| buffer.clone()).collect();
    let near: u64 = keep.iter().map(Buffer::bytes).sum();
    let far: u64 = ports.copies.iter().map(|copy| copy.host.bytes()).sum();
    let graph = parts.graph(&plan.steps, &ports, &keep, &closed)?;
    Ok(Loaded {
        graph,
        bytes: near + far,
        ports,
        bindings: Bindings::default(),
        firsts,
        parts,
        keep,
    })
}

fn programs(bundle: &ModelBundle, n: usize, device: &dyn Device) -> Result<Vec<Arc<Program>>> {
    let container = &bundle.container;
    let code = container.read(container.section(Kind::Code(n as u32))?)?;
    let objects = bundle.targets()[n].objects.iter();
    let programs = objects.map(|object| {
        let kinds = object.addresses.iter().map(|address| match address {
            true => ArgKind::Buffer,
            false => ArgKind::Value(Width::W64),
        });
        // Checked when the bundle was opened.
        let from = object.offset as usize;
        let bytes = code.get(from..from + object.bytes as usize);
        Ok(device.load(&KernelImage {
            name: object.name.clone(),
            arch: device.info().arch.clone(),
            bytes: bytes.unwrap_or_default().into(),
            entry: object.entry.clone(),
            args: ArgLayout::new(kinds),
            local_bytes: object.local_bytes,
        })?)
    });
    programs.collect()
}

/// Where a part of the section of constants goes.
enum Goal<'a> {
    Region(&'a Buffer),
    First(usize),
}

/// Brings the constants of a plan into their regions; the first values of states. The whole section is read once, so
/// that all of it is what its hash says.
fn constants(
    bundle: &ModelBundle,
    plan: &TargetPlan,
    regions: &[Buffer],
) -> Result<Vec<Option<Vec<u8>>>> {
    let mut firsts = vec![None; bundle.states().len()];
    let mut wanted: Vec<(u64, u64, Goal<'_>)> = Vec::new();
    for (region, buffer) in plan.regions.iter().zip(regions) {
        if let Content::Constant(at) = region.content {
            wanted.push((at, buffer.bytes(), Goal::Region(buffer)));
        }
    }
    for (n, state) in bundle.states().iter().enumerate() {
        if let (Some(at), Some(bytes)) = (state.initial, state.port.bytes()) {
            // It lies in the section, so this is not more than that.
            firsts[n] = Some(vec![0; bytes as usize]);
            wanted.push((at, bytes, Goal::First(n)));
        }
    }
    wanted.sort_unstable_by_key(|(at, ..)| *at);
    let container = &bundle.container;
    let section = container.section(Kind::Constants)?;
    // Those before it are complete.
    let mut first = 0;
    container.pieces(section, |at, bytes| {
        let end = at + bytes.len() as u64;
        for (from, long, goal) in &wanted[first..] {
            if *from >= end {
                break;
            }
            let (low, high) = ((*from).max(at), (from + long).min(end));
            if low >= high {
                continue;
            }
            let part = &bytes[(low - at) as usize..(high - at) as usize];
            match goal {
                Goal::Region(buffer) => buffer.write(low - from, part)?,
                Goal::First(n) => {
                    let (low, high) = ((low - from) as usize, (high - from) as usize);
                    if let Some(first) = &mut firsts[*n] {
                        first[low..high].copy_from_slice(part);
                    }
                }
            }
        }
        while let Some((from, long, _)) = wanted.get(first)
            && from + long <= end
        {
            first += 1;
        }
        Ok(())
    })?;
    Ok(firsts)
}

/// The regions that a run touches.
fn used(plan: &TargetPlan) -> Vec<bool> {
    let regions = plan.regions.iter();
    let port = |content| !matches!(content, Content::Own | Content::Constant(_));
    let mut used: Vec<bool> = regions.map(|region| port(region.content)).collect();
    let mut touch = |place: &Place| used[place.region as usize] = true;
    for step in &plan.steps {
        match step {
            Step::Copy { to, from, .. } => {
                touch(to);
                touch(from);
            }
            Step::Launch(launch) => {
                for argument in &launch.arguments {
                    if let Argument::Address(place) = argument {
                        touch(place);
                    }
                }
            }
        }
    }
    used
}

/// Whether a run writes to the memory of an input that the device reads in place.
pub(crate) fn is_overwritten(plan: &TargetPlan, input: usize) -> bool {
    let content = Content::Input(input as u32);
    let Some(region) = plan.regions.iter().position(|one| one.content == content) else {
        return false;
    };
    let is_it = |place: &Place| place.region as usize == region;
    plan.steps.iter().any(|step| match step {
        Step::Copy { to, .. } => is_it(to),
        Step::Launch(launch) => launch.writes.iter().any(|extent| is_it(&extent.at)),
    })
}

/// A copy between memory of the host and that of the device.
struct HostCopy {
    host: Buffer,
    device: Buffer,
    /// Inputs are copied before the steps, outputs behind them.
    end: End,
}

impl HostCopy {
    fn is_before(&self) -> bool {
        matches!(self.end, End::Input(_))
    }
}

/// What the host reads and writes.
#[derive(Default)]
pub(crate) struct Ports {
    /// The model's own memory, by the number of the input, output or state.
    pub inputs: Vec<Buffer>,
    pub outputs: Vec<Buffer>,
    pub states: Vec<Buffer>,
    /// The input or output that each region is, where the device uses it in place.
    ends: Vec<Option<End>>,
    copies: Vec<HostCopy>,
}

impl Ports {
    fn of(plan: &TargetPlan, regions: &[Buffer], device: &dyn Device) -> Result<Ports> {
        let mut ports = Ports::default();
        let mut numbered: [Vec<(u32, Buffer)>; 3] = Default::default();
        for (region, buffer) in plan.regions.iter().zip(regions) {
            let (list, n, end) = match region.content {
                Content::Own | Content::Constant(_) => {
                    ports.ends.push(None);
                    continue;
                }
                Content::Input(n) => (0, n, Some(End::Input(n as usize))),
                Content::Output(n) => (1, n, Some(End::Output(n as usize))),
                Content::State(n) => (2, n, None),
            };
            let mut at_host = buffer.clone();
            let is_copied = region.bytes > 0 && is_far(device);
            if let Some(end) = end.filter(|_| is_copied) {
                at_host = device.alloc(AllocSpec {
                    kind: MemoryKind::Host,
                    ..AllocSpec::device(region.bytes)
                })?;
                ports.copies.push(HostCopy {
                    host: at_host.clone(),
                    device: buffer.clone(),
                    end,
                });
            }
            ports.ends.push(end.filter(|_| !is_copied));
            numbered[list].push((n, at_host));
        }
        let [inputs, outputs, states] = numbered.map(|mut list| {
            list.sort_unstable_by_key(|(n, _)| *n);
            list.into_iter().map(|(_, buffer)| buffer).collect()
        });
        (ports.inputs, ports.outputs, ports.states) = (inputs, outputs, states);
        Ok(ports)
    }

    /// The model's own memory of an input or output.
    pub fn own(&self, end: End) -> Option<&Buffer> {
        match end {
            End::Input(n) => self.inputs.get(n),
            End::Output(n) => self.outputs.get(n),
        }
    }

    /// Whether the device uses it in place: nothing is copied around runs.
    pub fn is_in_place(&self, end: End) -> bool {
        self.ends.contains(&Some(end))
    }

    /// Every input and output.
    pub fn all(&self) -> impl Iterator<Item = End> {
        let inputs = (0..self.inputs.len()).map(End::Input);
        inputs.chain((0..self.outputs.len()).map(End::Output))
    }
}

/// Inputs and outputs whose addresses a run is given, and what then keeps their memory.
#[derive(Default)]
struct Open<'a> {
    ends: &'a [End],
    held: Held,
}

/// What commands are made of.
struct Parts {
    programs: Vec<Arc<Program>>,
    /// Where each region is.
    addresses: Vec<u64>,
    device: Arc<dyn Device>,
    stream: Stream,
}

/// Where the regions are for the commands of one graph: at an address, or at that of a slot.
struct Places<'a> {
    addresses: &'a [u64],
    slots: Vec<Option<Slot>>,
}

impl Places<'_> {
    fn address(&self, place: Place) -> u64 {
        self.addresses[place.region as usize] + place.offset
    }

    fn value(&self, place: Place) -> Val {
        match self.slots.get(place.region as usize) {
            Some(Some(slot)) => Val::Slot(*slot, place.offset),
            _ => Val::Const(self.address(place)),
        }
    }

    /// Which bytes commands depend on. No two regions share any, and neither does the memory that is bound: addresses of
    /// the model's own stand for it.
    fn span(&self, extent: &Extent) -> Span {
        Span::at(self.address(extent.at), extent.bytes)
    }
}

impl Parts {
    /// The steps as one submission, with the copies of the ports around them. It keeps what is in `keep`.
    fn graph(
        &self,
        steps: &[Step],
        ports: &Ports,
        keep: &[Buffer],
        open: &Open<'_>,
    ) -> Result<Graph> {
        let mut builder = GraphBuilder::new();
        let mut slots = Vec::with_capacity(open.ends.len());
        for end in open.ends {
            slots.push((*end, builder.slot()?));
        }
        let slot = |end: End| {
            let found = slots.iter().find(|(of, _)| *of == end);
            found.map(|(_, slot)| *slot)
        };
        let places = Places {
            addresses: &self.addresses,
            slots: ports.ends.iter().map(|end| end.and_then(slot)).collect(),
        };
        let host = |copy: &HostCopy| match slot(copy.end) {
            Some(slot) => Val::Slot(slot, 0),
            None => Val::Const(copy.host.va().0),
        };
        let lane = builder.lane(&self.device, &self.stream);
        let hosts = ports.copies.iter().map(|copy| copy.host.clone());
        let kept: Vec<Buffer> = keep.iter().cloned().chain(hosts).collect();
        for copy in ports.copies.iter().filter(|copy| copy.is_before()) {
            let work = Work::Copy {
                dst: Val::Const(copy.device.va().0),
                src: host(copy),
                bytes: copy.host.bytes(),
            };
            let (reads, writes) = ([Span::of(&copy.host)], [Span::of(&copy.device)]);
            builder.add(lane, "input", work, reads, writes);
        }
        for step in steps {
            self.step(&mut builder, lane, step, &places);
        }
        for copy in ports.copies.iter().filter(|copy| !copy.is_before()) {
            let work = Work::Copy {
                dst: host(copy),
                src: Val::Const(copy.device.va().0),
                bytes: copy.host.bytes(),
            };
            let (reads, writes) = ([Span::of(&copy.device)], [Span::of(&copy.host)]);
            builder.add(lane, "output", work, reads, writes);
        }
        builder.keep(Arc::new(kept));
        builder.keep(open.held.clone());
        Ok(builder.build()?)
    }

    fn step(&self, builder: &mut GraphBuilder, lane: Lane, step: &Step, places: &Places<'_>) {
        match step {
            Step::Launch(launch) => {
                let program = &self.programs[launch.object as usize];
                let arguments = launch.arguments.iter().map(|argument| match *argument {
                    Argument::Address(at) => places.value(at),
                    Argument::Number(n) => Val::Const(n),
                });
                let work = Work::Exec {
                    program: program.clone(),
                    args: arguments.collect(),
                    grid: launch.grid,
                    block: launch.block,
                };
                let reads = launch.reads.iter().map(|extent| places.span(extent));
                let writes = launch.writes.iter().map(|extent| places.span(extent));
                builder.add(lane, &program.name, work, reads, writes);
            }
            Step::Copy { to, from, bytes } => {
                let work = Work::Copy {
                    dst: places.value(*to),
                    src: places.value(*from),
                    bytes: *bytes,
                };
                let span = |place| [Span::at(places.address(place), *bytes)];
                builder.add(lane, "copy", work, span(*from), span(*to));
            }
        }
    }
}
