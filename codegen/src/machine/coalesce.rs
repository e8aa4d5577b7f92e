//! Removes copies: where the ranges of both sides do not meet, both become one value.

use super::live::{Live, Ranges, Span, overlap};
use super::{Function, Instruction, Part, Value};

/// Where a value is now: lanes of another one.
struct Merged {
    into: Vec<(Value, u8)>,
}

impl Merged {
    fn part(&self, part: Part) -> Part {
        let mut now = part;
        loop {
            let (value, lane) = self.into[now.value.0 as usize];
            if value == now.value {
                return now;
            }
            now = Part {
                value,
                lane: now.lane + lane,
                lanes: now.lanes,
            };
        }
    }
}

/// Merges values that copies connect, those of the innermost loops first. Gives the number of removed copies.
pub fn coalesce<I: Instruction>(f: &mut Function<I>) -> usize {
    let live = Live::of(f);
    let Ranges { mut spans, .. } = Ranges::of(f, &live);
    let mut merged = Merged {
        into: (0..f.shapes.len() as u32).map(|n| (Value(n), 0)).collect(),
    };
    let mut copies: Vec<(u32, Part, Part)> = Vec::new();
    for block in &f.blocks {
        let found = block.insts.iter().filter_map(Instruction::copies);
        copies.extend(found.map(|(to, from)| (block.depth, to, from)));
    }
    copies.sort_by_key(|c| std::cmp::Reverse(c.0));
    for (_, to, from) in copies {
        let (to, from) = (merged.part(to), merged.part(from));
        if to.value == from.value {
            continue;
        }
        let (outer, inner) = match f.shape(to.value).lanes >= f.shape(from.value).lanes {
            true => (to, from),
            false => (from, to),
        };
        let (big, small) = (f.shape(outer.value), f.shape(inner.value));
        let Some(at) = outer.lane.checked_sub(inner.lane) else {
            continue;
        };
        let pinned = |v: Value| f.inputs.iter().any(|&(i, _)| i == v);
        // An input keeps its place, which may be wrong for a larger one.
        let stays = pinned(inner.value) || pinned(outer.value);
        if big.class != small.class || at + small.lanes > big.lanes || stays {
            continue;
        }
        let pairs = live
            .lanes
            .all(inner.value)
            .zip(live.lanes.all(outer.value).skip(usize::from(at)));
        let pairs: Vec<(usize, usize)> = pairs.collect();
        if pairs.iter().any(|&(a, b)| overlap(&spans[a], &spans[b])) {
            continue;
        }
        for (a, b) in pairs {
            let more = std::mem::take(&mut spans[a]);
            join(&mut spans[b], &more);
        }
        merged.into[inner.value.0 as usize] = (outer.value, at);
    }
    let mut removed = 0;
    for block in &mut f.blocks {
        for inst in &mut block.insts {
            inst.rename(&mut |part, _| merged.part(part));
        }
        let before = block.insts.len();
        block
            .insts
            .retain(|i| i.copies().is_none_or(|(to, from)| to != from));
        removed += before - block.insts.len();
    }
    removed
}

/// Adds spans to those of a list.
pub(super) fn join(list: &mut Vec<Span>, more: &[Span]) {
    list.extend_from_slice(more);
    list.sort_unstable_by_key(|s| s.from);
    let mut out: Vec<Span> = Vec::with_capacity(list.len());
    for &span in list.iter() {
        match out.last_mut() {
            Some(last) if span.from <= last.to => last.to = last.to.max(span.to),
            _ => out.push(span),
        }
    }
    *list = out;
}
