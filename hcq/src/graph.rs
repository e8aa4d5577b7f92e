//! Captured graphs: queues encoded once, patched and launched again and again.
//!
//! A [`GraphBuilder`] takes commands for one or more streams, of one or several devices, with the
//! byte ranges that each reads and writes. [`GraphBuilder::build`] resolves every dependency once:
//!
//! - inside a stream, a command that depends on an earlier one gets a barrier before it, unless a
//!   barrier since then covers it already;
//! - between streams, the earlier command is followed by a signal and the later one preceded by a
//!   wait, and a wait that an earlier wait of the same stream implies is left out.
//!
//! The signals of a graph grow by a fixed step per replay, so their values are slots as well: a
//! replay patches the changed words, and rings one doorbell per stream.
//!
//! # All lanes or none
//!
//! A replay reserves the turns of all its lanes, so that graphs over the same queues never deadlock, and patches all
//! lanes before launching any. A failure before that submits nothing, and the replay may be retried. A launched lane
//! may wait for unlaunched ones: a later failure loses the devices of the launched lanes, with that cause, so that no
//! call waits for them forever.

use crate::command::{Command, Scope, Slot, Val};
use crate::command_buffer::{CommandBuffer, Keep};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::hazards::{Hazards, Span};
use crate::program::Program;
use crate::queue::{IndirectBuffer, Stream};
use crate::signal::{Point, Signal};
use crate::timeline::{Reserved, Timeline, crosses_epoch};
use crate::wait::Deadline;
use smallvec::SmallVec;
use std::sync::Arc;

/// What a node of the graph does; owns what it names.
#[derive(Clone, Debug)]
pub enum Work {
    /// Runs a kernel, see [`Command::Exec`].
    Exec {
        /// The kernel.
        program: Arc<Program>,
        /// One value per argument.
        args: Vec<Val>,
        /// Workgroups in x, y, z.
        grid: [u32; 3],
        /// Work-items per workgroup.
        block: [u32; 3],
    },
    /// Copies bytes, see [`Command::Copy`].
    Copy {
        /// Destination address.
        dst: Val,
        /// Source address.
        src: Val,
        /// Number of bytes.
        bytes: u64,
    },
}

impl Work {
    fn command(&self) -> Command<'_> {
        match self {
            Work::Exec {
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
            Work::Copy { dst, src, bytes } => Command::Copy {
                dst: *dst,
                src: *src,
                bytes: *bytes,
            },
        }
    }
}

/// Number of a stream in a builder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Lane(usize);

struct Node {
    lane: usize,
    name: String,
    work: Work,
    reads: Vec<Span>,
    writes: Vec<Span>,
}

struct LaneInfo {
    device: Arc<dyn Device>,
    stream: Stream,
}

/// Collects the commands of a graph.
#[derive(Default)]
pub struct GraphBuilder {
    lanes: Vec<LaneInfo>,
    nodes: Vec<Node>,
    keep: Vec<Keep>,
    slots: u16,
    profile: bool,
}

/// What one replay of a profiled graph took.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The name given to the node.
    pub name: String,
    /// The lane it ran on.
    pub lane: Lane,
    /// Start, in ticks of the lane's device clock.
    pub start: u64,
    /// End, in the same ticks.
    pub end: u64,
}

impl GraphBuilder {
    /// An empty graph.
    pub fn new() -> Self {
        Self::default()
    }

    /// Surrounds each node with timestamps, see [`Graph::samples`].
    pub fn profiled(mut self, on: bool) -> Self {
        self.profile = on;
        self
    }

    /// Adds a queue of a device; one that is there already is the lane that it was. Commands of one lane
    /// start in the order in which they are added.
    pub fn lane(&mut self, device: &Arc<dyn Device>, stream: &Stream) -> Lane {
        let mut lanes = self.lanes.iter();
        if let Some(lane) = lanes.position(|lane| place(&lane.stream) == place(stream)) {
            return Lane(lane);
        }
        self.lanes.push(LaneInfo {
            device: device.clone(),
            stream: stream.clone(),
        });
        Lane(self.lanes.len() - 1)
    }

    /// A new value to be given at each replay; slots are numbered from 0 in order of creation.
    ///
    /// # Errors
    /// [`Error::Graph`] beyond 32,768 slots.
    pub fn slot(&mut self) -> Result<Slot> {
        if self.slots >= 0x8000 {
            return Err(Error::Graph(
                "more than 32768 slots; split the graph".into(),
            ));
        }
        self.slots += 1;
        Ok(Slot(self.slots - 1))
    }

    /// Adds a command with the bytes it reads and writes. Order of addition is program order: a later command sees
    /// the writes of an earlier one, on any lane.
    pub fn add(
        &mut self,
        lane: Lane,
        name: &str,
        work: Work,
        reads: impl IntoIterator<Item = Span>,
        writes: impl IntoIterator<Item = Span>,
    ) {
        self.nodes.push(Node {
            lane: lane.0,
            name: name.into(),
            work,
            reads: reads.into_iter().collect(),
            writes: writes.into_iter().collect(),
        });
    }

    /// Keeps something that the commands name, for as long as the device may use it: nothing that keeps a device or a queue.
    pub fn keep(&mut self, what: Keep) {
        self.keep.push(what);
    }

    /// For each node, the nodes it depends on directly (a later writer hides earlier ones).
    fn dependencies(&self) -> Vec<Vec<usize>> {
        let mut hazards = Hazards::new();
        let nodes = self.nodes.iter().enumerate();
        nodes
            .map(|(i, n)| hazards.step(i, &n.reads, &n.writes).to_vec())
            .collect()
    }

    /// What must be ordered, and how: waits that nothing earlier implies, and who signals.
    fn plan(&self) -> Plan {
        let deps = self.dependencies();
        let lanes = self.lanes.len();
        let mut position = vec![0u64; self.nodes.len()];
        let mut in_lane: Vec<Vec<usize>> = vec![Vec::new(); lanes];
        for (i, node) in self.nodes.iter().enumerate() {
            in_lane[node.lane].push(i);
            position[i] = in_lane[node.lane].len() as u64;
        }
        let mut seen = vec![vec![0u64; lanes]; lanes];
        let mut before: Vec<Vec<u64>> = Vec::with_capacity(self.nodes.len());
        let mut barrier_at = vec![0u64; lanes];
        let mut ordered: Vec<(Vec<(usize, u64)>, bool)> = Vec::with_capacity(self.nodes.len());
        let mut signals = vec![false; self.nodes.len()];
        for (i, node) in self.nodes.iter().enumerate() {
            let mut waits: Vec<(usize, u64, usize)> = Vec::new();
            let mut barrier = false;
            for &d in &deps[i] {
                let other = self.nodes[d].lane;
                if other == node.lane {
                    barrier |= position[d] > barrier_at[node.lane];
                } else if position[d] > seen[node.lane][other] {
                    match waits.iter_mut().find(|w| w.0 == other) {
                        Some(w) if w.1 < position[d] => *w = (other, position[d], d),
                        Some(_) => {}
                        None => waits.push((other, position[d], d)),
                    }
                }
            }
            // A wait on a lane also implies what that lane had waited for at that point.
            let implied: Vec<(usize, u64)> = waits
                .iter()
                .filter(|w| !waits.iter().any(|v| v.0 != w.0 && before[v.2][w.0] >= w.1))
                .map(|w| (w.0, w.1))
                .collect();
            for w in &waits {
                let row = &mut seen[node.lane];
                row[w.0] = row[w.0].max(w.1);
                for (l, &v) in before[w.2].iter().enumerate() {
                    row[l] = row[l].max(v);
                }
            }
            for &(l, p) in &implied {
                signals[in_lane[l][p as usize - 1]] = true;
            }
            if barrier {
                barrier_at[node.lane] = position[i] - 1;
            }
            before.push(seen[node.lane].clone());
            ordered.push((implied, barrier));
        }
        Plan {
            position,
            nodes_of: in_lane.iter().map(Vec::len).collect(),
            ordered,
            signals,
        }
    }

    /// Signals for the start and the end of each node; none without a profile.
    fn stamps(&self) -> Result<Vec<(Signal, Signal)>> {
        let mut stamps = Vec::new();
        if self.profile {
            for node in &self.nodes {
                let device = &self.lanes[node.lane].device;
                stamps.push((device.signal("graph start")?, device.signal("graph end")?));
            }
        }
        Ok(stamps)
    }

    /// The packets of each lane, but for the signal at its end. `signals` are those of the lanes.
    fn encode(
        &self,
        plan: &Plan,
        signals: &[Signal],
        stamps: &[(Signal, Signal)],
    ) -> Result<Vec<CommandBuffer>> {
        let lanes = self.lanes.iter();
        let mut packets: Vec<CommandBuffer> = lanes.map(|_| CommandBuffer::new()).collect();
        for (i, node) in self.nodes.iter().enumerate() {
            let queue = self.lanes[node.lane].stream.queue();
            let out = &mut packets[node.lane];
            let (waits, barrier) = &plan.ordered[i];
            for &(l, p) in waits {
                let wait = Command::Wait {
                    signal: &signals[l],
                    value: Val::Slot(base_slot(self.slots, l), p),
                };
                queue.encode(&[wait], out)?;
            }
            if *barrier {
                queue.encode(
                    &[Command::Barrier {
                        scope: Scope::Queue,
                    }],
                    out,
                )?;
            }
            if let Some((start, _)) = stamps.get(i) {
                queue.encode(&[Command::Timestamp { signal: start }], out)?;
            }
            queue.encode(&[node.work.command()], out)?;
            if let Some((_, end)) = stamps.get(i) {
                queue.encode(&[Command::Timestamp { signal: end }], out)?;
            }
            if plan.signals[i] {
                let signal = Command::Signal {
                    signal: &signals[node.lane],
                    value: Val::Slot(base_slot(self.slots, node.lane), plan.position[i]),
                };
                queue.encode(&[signal], out)?;
            }
        }
        Ok(packets)
    }

    /// Resolves the dependencies, encodes every lane and places the packets.
    ///
    /// # Errors
    /// [`Error::Command`] if a lane cannot take a command, [`Error::OutOfMemory`], or the loss of
    /// a device.
    pub fn build(self) -> Result<Graph> {
        let plan = self.plan();
        let lanes = self.lanes.len();
        let mut signals = Vec::with_capacity(lanes);
        for (l, lane) in self.lanes.iter().enumerate() {
            signals.push(lane.device.signal(&format!("graph lane {l}"))?);
        }
        let stamps = self.stamps()?;
        let packets = self.encode(&plan, &signals, &stamps)?;
        let names = self.nodes.iter().map(|n| (n.name.clone(), Lane(n.lane)));
        let names = names.collect();
        let named = Arc::new(Named {
            _signals: signals,
            stamps,
            _works: self.nodes.into_iter().map(|n| n.work).collect(),
            _keep: self.keep,
        });
        let mut bound = Vec::with_capacity(lanes);
        for (l, (lane, mut out)) in self.lanes.iter().zip(packets).enumerate() {
            let done = Command::Signal {
                signal: lane.stream.queue().timeline().signal(),
                value: Val::Slot(done_slot(self.slots, l), 0),
            };
            lane.stream.queue().encode(&[done], &mut out)?;
            // The queue of each lane keeps all until it is done.
            out.keep.push(named.clone());
            bound.push(lane.stream.queue().bind(out)?);
        }
        let mut order: Vec<usize> = (0..lanes).collect();
        order.sort_unstable_by_key(|&l| place(&self.lanes[l].stream));
        let slots = self.slots as usize;
        Ok(Graph {
            order,
            steps: plan
                .nodes_of
                .iter()
                .map(|&nodes| nodes as u64 + 1)
                .collect(),
            bases: vec![0; lanes],
            values: Vec::with_capacity(slots + lanes * 2),
            slots,
            bound,
            last: Vec::with_capacity(lanes),
            names,
            named,
            lanes: self.lanes,
        })
    }
}

/// How the nodes of a graph are ordered.
struct Plan {
    /// Position of each node within its lane, from 1: what the lane's signal counts.
    position: Vec<u64>,
    /// Number of nodes of each lane.
    nodes_of: Vec<usize>,
    /// What each node waits for, as lanes and positions, and whether a barrier comes before it.
    ordered: Vec<(Vec<(usize, u64)>, bool)>,
    /// Whether each node is followed by a signal.
    signals: Vec<bool>,
}

/// The slot for the base of a lane's graph signal: two per lane come after the caller's.
fn base_slot(slots: u16, lane: usize) -> Slot {
    Slot(slots + lane as u16 * 2)
}

/// The slot for the value that the timeline of a lane's stream gets.
fn done_slot(slots: u16, lane: usize) -> Slot {
    Slot(slots + lane as u16 * 2 + 1)
}

/// A graph in device memory. Dropping it while it runs does not wait: the queues of its lanes keep it, and the
/// objects it uses, until it completes.
pub struct Graph {
    lanes: Vec<LaneInfo>,
    /// Lanes by the place of their timelines: every graph takes them in the same order.
    order: Vec<usize>,
    bound: Vec<Box<dyn IndirectBuffer>>,
    /// How far each lane's graph signal moves per replay.
    steps: Vec<u64>,
    /// Where each lane's graph signal stands.
    bases: Vec<u64>,
    slots: usize,
    /// The values of a replay; kept, so that a replay does not allocate.
    values: Vec<u64>,
    last: Vec<Point>,
    names: Vec<(String, Lane)>,
    named: Arc<Named>,
}

/// What the packets name.
struct Named {
    _signals: Vec<Signal>,
    /// Start and end of each node, if it is profiled.
    stamps: Vec<(Signal, Signal)>,
    // Their programs.
    _works: Vec<Work>,
    _keep: Vec<Keep>,
}

impl Graph {
    /// Runs the graph once: waits until its previous run is over (its packets are patched in
    /// place), patches the changed words, rings one doorbell per lane. `after` are moments that
    /// every lane waits for first. Returns the moments at which the lanes are done.
    ///
    /// # Errors
    /// [`Error::Graph`] for a wrong number of values, [`Error::Timeout`] if the previous run hangs or a
    /// ring stays full, or the loss of a device. The module describes the state after an error.
    pub fn replay(
        &mut self,
        values: &[u64],
        after: &[Point],
        deadline: Deadline,
    ) -> Result<&[Point]> {
        if values.len() != self.slots {
            return Err(Error::Graph(format!(
                "{} values given, the graph has {} slots; pass one value per slot in slot order",
                values.len(),
                self.slots
            )));
        }
        self.wait(deadline)?;
        for (base, step) in self.bases.iter_mut().zip(&self.steps) {
            *base = next_base(*base, *step);
        }
        let Graph {
            lanes,
            order,
            bound,
            bases,
            values: all,
            last,
            ..
        } = self;
        // Most graphs have one lane: no other has to be held for it.
        if let ([lane], [bound], [base]) = (&lanes[..], &mut bound[..], &bases[..]) {
            let done = lane.stream.launch(after, &mut **bound, |signal_value| {
                all.clear();
                all.extend_from_slice(values);
                all.extend_from_slice(&[*base, signal_value]);
                &*all
            })?;
            last.clear();
            last.push(done);
            return Ok(&self.last);
        }
        let mut turns: SmallVec<[Option<Reserved<'_>>; 2]> = lanes.iter().map(|_| None).collect();
        for &l in order.iter() {
            let queue = lanes[l].stream.queue();
            queue.timeline().check()?;
            let mut turn = queue.timeline().turn();
            queue.reserve(&mut turn, after)?;
            turns[l] = Some(turn.reserved());
        }
        all.clear();
        all.extend_from_slice(values);
        for (&base, turn) in bases.iter().zip(&turns) {
            all.extend_from_slice(&[base, turn.as_ref().map_or(0, Reserved::signal_value)]);
        }
        bound.iter_mut().try_for_each(|bound| bound.patch(all))?;
        last.clear();
        for (l, bound) in bound.iter_mut().enumerate() {
            let Some(turn) = turns[l].take() else {
                continue;
            };
            let mut turn = turn.turn();
            if let Err(error) = bound.launch(&mut turn) {
                // The end of a device may look at its queues.
                drop((turn, turns));
                let launched = &lanes[..last.len()];
                return Err(launched.iter().fold(error, |cause, l| l.device.lose(cause)));
            }
            last.push(turn.submitted());
        }
        Ok(&self.last)
    }

    /// Whether the last replay is over.
    ///
    /// # Errors
    /// The loss of a device.
    pub fn is_over(&self) -> Result<bool> {
        for point in &self.last {
            if !point.reached()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Blocks until the last replay is over.
    ///
    /// # Errors
    /// [`Error::Timeout`], or the loss of a device.
    pub fn wait(&self, deadline: Deadline) -> Result<()> {
        self.last.iter().try_for_each(|p| p.wait(deadline))
    }

    /// The stream of a lane.
    pub fn stream(&self, lane: Lane) -> &Stream {
        &self.lanes[lane.0].stream
    }

    /// Times of the nodes in the last replay of a profiled graph, in order of addition; empty for
    /// others. Call after [`Graph::wait`].
    ///
    /// # Errors
    /// The loss of a device.
    pub fn samples(&self) -> Result<Vec<Sample>> {
        self.names
            .iter()
            .zip(&self.named.stamps)
            .map(|((name, lane), (start, end))| {
                let (start, end) = (start.timestamp()?, end.timestamp()?);
                Ok(Sample {
                    name: name.clone(),
                    lane: *lane,
                    start,
                    end,
                })
            })
            .collect()
    }
}

/// Where the timeline of a stream's queue lies: the same for all streams over one queue.
fn place(stream: &Stream) -> *const Timeline {
    stream.queue().timeline()
}

/// Where a lane's signal stands before the next replay: beyond every value of the previous one, which
/// is over, and such that no value of a replay has another high half than the rest, which devices
/// that compare 32 bits could not wait for.
fn next_base(base: u64, step: u64) -> u64 {
    let next = base + step;
    match crosses_epoch(next, next + step) {
        true => (next + step) >> 32 << 32,
        false => next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_a_replay_share_their_high_half() {
        let border = 1u64 << 32;
        assert_eq!(next_base(0, 11), 11);
        assert_eq!(next_base(border - 30, 10), border - 20);
        assert_eq!(next_base(border - 20, 10), border);
        assert_eq!(next_base(border - 15, 10), border);
        assert_eq!(next_base(border, 10), border + 10);
        let mut base = border - 1000;
        for _ in 0..300 {
            let next = next_base(base, 7);
            assert!(next >= base + 7 && next >> 32 == (next + 6) >> 32);
            base = next;
        }
    }
}
