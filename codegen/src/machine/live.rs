//! Liveness: which lanes are read later, and the ranges of positions where each of them must keep its place.

use super::{Bits, Function, Instruction, Lanes};

/// What is live at the ends of each block.
#[derive(Clone, Debug)]
pub struct Live {
    /// Numbers of lanes.
    pub lanes: Lanes,
    /// Before the first instruction.
    pub at_start: Vec<Bits>,
    /// After the last one.
    pub at_end: Vec<Bits>,
}

impl Live {
    /// Of a function.
    pub fn of<I: Instruction>(f: &Function<I>) -> Live {
        let lanes = Lanes::new(&f.shapes);
        let n = lanes.count();
        let empty = || vec![Bits::new(n); f.blocks.len()];
        let mut live = Live {
            lanes,
            at_start: empty(),
            at_end: empty(),
        };
        let before = f.before();
        let mut work: Vec<usize> = (0..f.blocks.len()).collect();
        while let Some(at) = work.pop() {
            let mut now = Bits::new(n);
            for &next in &f.blocks[at].next {
                now.join(&live.at_start[next]);
            }
            live.at_end[at] = now.clone();
            for inst in f.blocks[at].insts.iter().rev() {
                live.step(inst, &mut now);
            }
            if now != live.at_start[at] {
                live.at_start[at] = now;
                work.extend(&before[at]);
            }
        }
        live
    }

    /// From what is live after an instruction to what is live before it.
    pub fn step<I: Instruction>(&self, inst: &I, now: &mut Bits) {
        inst.accesses(&mut |access| {
            if access.writes {
                self.lanes.of(access.part).for_each(|lane| {
                    now.take(lane);
                });
            }
        });
        inst.accesses(&mut |access| {
            if !access.writes {
                self.lanes.of(access.part).for_each(|lane| {
                    now.add(lane);
                });
            }
        });
    }

    /// Lanes that are read before they are written, on some path from the entry: none of a right program but its
    /// inputs.
    pub fn undefined<I: Instruction>(&self, f: &Function<I>) -> Vec<usize> {
        let mut open: Vec<usize> = self
            .at_start
            .first()
            .map_or(Vec::new(), |b| b.iter().collect());
        for &(value, _) in &f.inputs {
            let own = self.lanes.all(value);
            open.retain(|lane| !own.contains(lane));
        }
        open
    }
}

/// Positions from one to before another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// The first one.
    pub from: u32,
    /// The one after the last.
    pub to: u32,
}

/// Positions of instructions: each step of one has a place to read and one to write.
#[derive(Clone, Debug)]
pub struct Ranges {
    /// Of each lane, in order, without overlaps.
    pub spans: Vec<Vec<Span>>,
    /// The position after the last one.
    pub end: u32,
}

impl Ranges {
    /// Of all lanes.
    pub fn of<I: Instruction>(f: &Function<I>, live: &Live) -> Ranges {
        let mut starts = Vec::with_capacity(f.blocks.len());
        let mut next = 2;
        for block in &f.blocks {
            starts.push(next);
            // A place before the first instruction, for what is live there.
            next += 2;
            next += block
                .insts
                .iter()
                .map(|i| 2 * u32::from(i.steps()))
                .sum::<u32>();
        }
        let mut spans: Vec<Vec<Span>> = vec![Vec::new(); live.lanes.count()];
        let end = next;
        for (at, block) in f.blocks.iter().enumerate().rev() {
            let to = starts.get(at + 1).copied().unwrap_or(end);
            let mut open: Vec<u32> = vec![0; live.lanes.count()];
            for lane in live.at_end[at].iter() {
                open[lane] = to;
            }
            let mut position = to;
            for inst in block.insts.iter().rev() {
                position -= 2 * u32::from(inst.steps());
                inst.accesses(&mut |a| {
                    if !a.writes {
                        return;
                    }
                    for lane in live.lanes.of(a.part) {
                        let from = position + 2 * u32::from(a.step) + 1;
                        // What nobody reads is in the way for the write.
                        let to = std::mem::take(&mut open[lane]).max(from + 1);
                        push(&mut spans[lane], Span { from, to });
                    }
                });
                inst.accesses(&mut |a| {
                    if a.writes {
                        return;
                    }
                    for lane in live.lanes.of(a.part) {
                        let read = position + 2 * u32::from(a.step) + 1;
                        open[lane] = open[lane].max(read);
                    }
                });
            }
            let from = starts[at];
            for lane in live.at_start[at].iter() {
                let to = std::mem::take(&mut open[lane]).max(from + 1);
                push(&mut spans[lane], Span { from, to });
            }
        }
        // Inputs have their places from before the entry on.
        for &(value, _) in &f.inputs {
            for lane in live.lanes.all(value) {
                push(&mut spans[lane], Span { from: 0, to: 3 });
            }
        }
        for list in &mut spans {
            list.reverse();
        }
        Ranges { spans, end }
    }
}

/// Adds a span in front of those that are there.
fn push(list: &mut Vec<Span>, span: Span) {
    match list.last_mut() {
        Some(last) if last.from <= span.to => {
            last.from = last.from.min(span.from);
            last.to = last.to.max(span.to);
        }
        _ => list.push(span),
    }
}

/// Whether two lists of spans share a position.
pub fn overlap(a: &[Span], b: &[Span]) -> bool {
    let (mut i, mut j) = (0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        if x.from < y.to && y.from < x.to {
            return true;
        }
        if x.to <= y.to {
            i += 1;
        } else {
            j += 1;
        }
    }
    false
}
