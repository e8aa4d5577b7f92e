//! The order of instructions of a block: a list scheduler over the graph of dependences.
//!
//! An instruction is chosen by the longest way from it to the end of the block, in cycles, among those that would not
//! wait. Above a limit of live units the one that frees the most is chosen instead. Equal ones keep their order: what
//! may be packed stays together.

use hashbrown::HashMap;

use super::Bits;

/// A use of something that orders instructions: a lane or a register, memory, a predicate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touch {
    /// Its number.
    pub resource: u32,
    /// It is changed.
    pub writes: bool,
}

/// What the scheduler asks of a machine.
pub trait Machine<I> {
    /// What an instruction reads and writes.
    fn touches(&self, inst: &I, see: &mut dyn FnMut(Touch));

    /// Cycles from the issue of an instruction to that of one that reads what it wrote.
    fn delay(&self, from: &I, to: &I, resource: u32) -> u32;

    /// Cycles from the issue of an instruction to that of one that writes what it reads.
    fn reuse(&self, _from: &I, _to: &I) -> u32 {
        1
    }

    /// Cycles that it takes to issue.
    fn slots(&self, inst: &I) -> u32;

    /// Nothing moves across it.
    fn fence(&self, inst: &I) -> bool;
}

/// Limits of what is live.
#[derive(Clone, Copy, Debug)]
pub struct Pressure<'a> {
    /// What is read after the block, by resource.
    pub after: &'a Bits,
    /// What is live before it.
    pub before: &'a Bits,
    /// Units of a resource; 0 for what has no place.
    pub units: &'a dyn Units,
    /// Where to prefer what frees units.
    pub limit: u32,
}

/// The size of a resource.
pub trait Units: std::fmt::Debug {
    /// Units of it.
    fn of(&self, resource: u32) -> u32;
}

#[derive(Default)]
struct Node {
    /// Later instructions, and how many cycles after this one they may issue.
    next: Vec<(usize, u32)>,
    waits: usize,
    height: u32,
    ready: u32,
    /// Instances of resources that it reads, and that it writes.
    reads: Vec<usize>,
    writes: Vec<usize>,
}

/// What a resource was last used for.
#[derive(Default)]
struct Last {
    writer: Option<usize>,
    readers: Vec<usize>,
    instance: Option<usize>,
}

/// Values of resources between two writes.
#[derive(Default)]
struct Instances {
    resource: Vec<u32>,
    uses: Vec<u32>,
}

impl Instances {
    fn add(&mut self, resource: u32) -> usize {
        self.resource.push(resource);
        self.uses.push(0);
        self.uses.len() - 1
    }
}

struct Graph {
    nodes: Vec<Node>,
    instances: Instances,
}

fn graph<I>(insts: &[I], machine: &impl Machine<I>, pressure: Option<Pressure<'_>>) -> Graph {
    let mut nodes: Vec<Node> = insts.iter().map(|_| Node::default()).collect();
    let mut last: HashMap<u32, Last> = HashMap::new();
    let mut instances = Instances::default();
    let mut fence: Option<usize> = None;
    for (at, inst) in insts.iter().enumerate() {
        let mut edges: Vec<(usize, u32)> = Vec::new();
        let mut touches = Vec::new();
        machine.touches(inst, &mut |t| touches.push(t));
        for t in touches.iter().filter(|t| !t.writes) {
            let entry = last.entry(t.resource).or_default();
            if let Some(writer) = entry.writer {
                edges.push((writer, machine.delay(&insts[writer], inst, t.resource)));
            }
            entry.readers.push(at);
            let instance = *entry
                .instance
                .get_or_insert_with(|| instances.add(t.resource));
            if !nodes[at].reads.contains(&instance) {
                instances.uses[instance] += 1;
                nodes[at].reads.push(instance);
            }
        }
        for t in touches.iter().filter(|t| t.writes) {
            let entry = last.entry(t.resource).or_default();
            let readers = std::mem::take(&mut entry.readers);
            let others = readers.into_iter().filter(|&r| r != at);
            edges.extend(others.map(|r| (r, machine.reuse(&insts[r], inst))));
            edges.extend(entry.writer.filter(|&w| w != at).map(|w| (w, 1)));
            entry.writer = Some(at);
            let instance = instances.add(t.resource);
            entry.instance = Some(instance);
            nodes[at].writes.push(instance);
        }
        if machine.fence(inst) {
            let from = fence.map_or(0, |f| f + 1);
            edges.extend((from..at).map(|n| (n, 1)));
        }
        edges.extend(fence.map(|f| (f, 1)));
        if machine.fence(inst) {
            fence = Some(at);
        }
        edges.sort_unstable();
        edges.dedup_by(|b, a| {
            let same = a.0 == b.0;
            if same {
                a.1 = a.1.max(b.1);
            }
            same
        });
        for (from, delay) in edges {
            nodes[from].next.push((at, delay));
            nodes[at].waits += 1;
        }
    }
    if let Some(p) = pressure {
        for (&resource, entry) in &last {
            if let Some(instance) = entry.instance
                && (resource as usize) < p.units_limit()
                && p.after.has(resource as usize)
            {
                instances.uses[instance] += 1;
            }
        }
    }
    for at in (0..nodes.len()).rev() {
        let own = machine.slots(&insts[at]);
        let below = nodes[at]
            .next
            .iter()
            .map(|&(n, d)| nodes[n].height + d.max(own));
        nodes[at].height = below.max().unwrap_or(own);
    }
    Graph { nodes, instances }
}

impl Pressure<'_> {
    /// Resources from here on are no lanes.
    fn units_limit(&self) -> usize {
        self.after.limit()
    }

    fn size(&self, resource: u32) -> i64 {
        match (resource as usize) < self.units_limit() {
            true => i64::from(self.units.of(resource)),
            false => 0,
        }
    }
}

/// The order in which to issue the instructions of a block, by their numbers.
pub fn order<I>(
    insts: &[I],
    machine: &impl Machine<I>,
    pressure: Option<Pressure<'_>>,
) -> Vec<usize> {
    let Graph {
        mut nodes,
        mut instances,
    } = graph(insts, machine, pressure);
    let mut live: i64 = pressure.map_or(0, |p| p.before.iter().map(|r| p.size(r as u32)).sum());
    let mut ready: Vec<usize> = (0..nodes.len()).filter(|&n| nodes[n].waits == 0).collect();
    let mut out = Vec::with_capacity(nodes.len());
    let mut cycle = 0;
    while !ready.is_empty() {
        let change = |n: usize| -> i64 {
            let Some(p) = pressure else { return 0 };
            let node = &nodes[n];
            let gone = node.reads.iter().filter(|&&i| instances.uses[i] == 1);
            let gone: i64 = gone.map(|&i| p.size(instances.resource[i])).sum();
            let new = node.writes.iter().filter(|&&i| instances.uses[i] > 0);
            let new: i64 = new.map(|&i| p.size(instances.resource[i])).sum();
            new - gone
        };
        let tight = pressure.is_some_and(|p| live >= i64::from(p.limit));
        let best = ready.iter().enumerate().min_by_key(|&(_, &n)| {
            let node = &nodes[n];
            let stall = node.ready.saturating_sub(cycle);
            let less = std::cmp::Reverse(node.height);
            match tight {
                true => (change(n), u32::from(stall > 0), less, n),
                false => (0, stall, less, n),
            }
        });
        let Some((at, &n)) = best else { break };
        live += change(n);
        ready.remove(at);
        for i in nodes[n].reads.clone() {
            instances.uses[i] -= 1;
        }
        cycle = cycle.max(nodes[n].ready);
        for (next, delay) in std::mem::take(&mut nodes[n].next) {
            let node = &mut nodes[next];
            node.ready = node.ready.max(cycle + delay);
            node.waits -= 1;
            if node.waits == 0 {
                ready.push(next);
            }
        }
        cycle += machine.slots(&insts[n]);
        out.push(n);
    }
    out
}

/// Puts instructions in an order.
pub fn permute<I>(insts: Vec<I>, order: &[usize]) -> Vec<I> {
    let mut slots: Vec<Option<I>> = insts.into_iter().map(Some).collect();
    order
        .iter()
        .filter_map(|&n| slots.get_mut(n).and_then(Option::take))
        .collect()
}
