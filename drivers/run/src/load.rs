//! From a bundle to memory, programs and commands on a device.

use std::sync::Arc;
use std::time::Duration;

use hcq::graph::{Graph, GraphBuilder, Lane, Work};
use hcq::queue::Stream;
use hcq::{
    AllocSpec, ArgKind, ArgLayout, Buffer, Deadline, Device, KernelImage, MemoryKind, Program,
    QueueKind, Span, Val, Width,
};

use crate::bundle::ModelBundle;
use crate::container::Kind;
use crate::error::Result;
use crate::plan::{Argument, Content, Extent, Place, Step, TargetPlan};

/// A bundle on a device.
pub(crate) struct Loaded {
    pub graph: Graph,
    /// What the host reads and writes, by port.
    pub inputs: Vec<Buffer>,
    pub outputs: Vec<Buffer>,
    pub states: Vec<Buffer>,
    /// The first value of each state; none for zeros.
    pub firsts: Vec<Option<Vec<u8>>>,
    /// Bytes of all memory.
    pub bytes: u64,
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
        programs: &programs,
        regions: &regions,
        device,
        stream: Stream::new(device.queue(QueueKind::Compute, 0)?),
    };
    if !plan.prologue.is_empty() {
        let mut graph = parts.graph(&plan.prologue, &Ports::default(), &regions)?;
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
    let graph = parts.graph(&plan.steps, &ports, &keep)?;
    Ok(Loaded {
        graph,
        bytes: near + far,
        inputs: ports.inputs,
        outputs: ports.outputs,
        states: ports.states,
        firsts,
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

/// Brings the constants of a plan into their regions; the first values of states. The whole section is read once, so that all of it is
/// what its hash says.
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

/// A copy between memory of the host and that of the device.
struct HostCopy {
    host: Buffer,
    device: Buffer,
    /// Before the steps, else behind them.
    before: bool,
}

/// What the host reads and writes.
#[derive(Default)]
struct Ports {
    inputs: Vec<Buffer>,
    outputs: Vec<Buffer>,
    states: Vec<Buffer>,
    copies: Vec<HostCopy>,
}

impl Ports {
    fn of(plan: &TargetPlan, regions: &[Buffer], device: &dyn Device) -> Result<Ports> {
        let mut ports = Ports::default();
        let mut numbered: [Vec<(u32, Buffer)>; 3] = Default::default();
        for (region, buffer) in plan.regions.iter().zip(regions) {
            let (list, n) = match region.content {
                Content::Own | Content::Constant(_) => continue,
                Content::Input(n) => (0, n),
                Content::Output(n) => (1, n),
                Content::State(n) => (2, n),
            };
            let mut at_host = buffer.clone();
            if list < 2 && region.bytes > 0 && is_far(device) {
                at_host = device.alloc(AllocSpec {
                    kind: MemoryKind::Host,
                    ..AllocSpec::device(region.bytes)
                })?;
                ports.copies.push(HostCopy {
                    host: at_host.clone(),
                    device: buffer.clone(),
                    before: list == 0,
                });
            }
            numbered[list].push((n, at_host));
        }
        let [inputs, outputs, states] = numbered.map(|mut list| {
            list.sort_unstable_by_key(|(n, _)| *n);
            list.into_iter().map(|(_, buffer)| buffer).collect()
        });
        (ports.inputs, ports.outputs, ports.states) = (inputs, outputs, states);
        Ok(ports)
    }
}

/// What commands are made of.
struct Parts<'a> {
    programs: &'a [Arc<Program>],
    regions: &'a [Buffer],
    device: &'a Arc<dyn Device>,
    stream: Stream,
}

impl Parts<'_> {
    fn address(&self, place: Place) -> u64 {
        self.regions[place.region as usize].va().0 + place.offset
    }

    fn span(&self, extent: &Extent) -> Span {
        Span::at(self.address(extent.at), extent.bytes)
    }

    /// The steps as one submission, with the copies of the ports around them. It keeps what is in `keep`.
    fn graph(&self, steps: &[Step], ports: &Ports, keep: &[Buffer]) -> Result<Graph> {
        let mut builder = GraphBuilder::new();
        let lane = builder.lane(self.device, &self.stream);
        let hosts = ports.copies.iter().map(|copy| copy.host.clone());
        let kept: Vec<Buffer> = keep.iter().cloned().chain(hosts).collect();
        for copy in ports.copies.iter().filter(|copy| copy.before) {
            between(&mut builder, lane, "input", &copy.host, &copy.device);
        }
        for step in steps {
            self.step(&mut builder, lane, step);
        }
        for copy in ports.copies.iter().filter(|copy| !copy.before) {
            between(&mut builder, lane, "output", &copy.device, &copy.host);
        }
        builder.keep(Arc::new(kept));
        Ok(builder.build()?)
    }

    fn step(&self, builder: &mut GraphBuilder, lane: Lane, step: &Step) {
        match step {
            Step::Launch(launch) => {
                let program = &self.programs[launch.object as usize];
                let arguments = launch.arguments.iter().map(|argument| match *argument {
                    Argument::Address(at) => Val::Const(self.address(at)),
                    Argument::Number(n) => Val::Const(n),
                });
                let work = Work::Exec {
                    program: program.clone(),
                    args: arguments.collect(),
                    grid: launch.grid,
                    block: launch.block,
                };
                let reads = launch.reads.iter().map(|extent| self.span(extent));
                let writes = launch.writes.iter().map(|extent| self.span(extent));
                builder.add(lane, &program.name, work, reads, writes);
            }
            Step::Copy { to, from, bytes } => {
                let (dst, src) = (self.address(*to), self.address(*from));
                let work = Work::Copy {
                    dst: Val::Const(dst),
                    src: Val::Const(src),
                    bytes: *bytes,
                };
                let span = |at| [Span::at(at, *bytes)];
                builder.add(lane, "copy", work, span(src), span(dst));
            }
        }
    }
}

fn between(builder: &mut GraphBuilder, lane: Lane, name: &str, from: &Buffer, to: &Buffer) {
    let work = Work::Copy {
        dst: Val::Const(to.va().0),
        src: Val::Const(from.va().0),
        bytes: from.bytes(),
    };
    builder.add(lane, name, work, [Span::of(from)], [Span::of(to)]);
}
