//! Locations: a linear scan in the order of first writes, over ranges with holes.
//!
//! A value gets units for all of its lanes, neighbours, where none of them is taken at a position of the lane. Where no
//! units are left, the value whose use costs the least for the room that it takes is spilled.

use super::live::{Live, Ranges, Span, overlap};
use super::{Bits, Class, Function, Instruction, Value};

/// The registers of a machine, in units.
pub trait File {
    /// Units of a lane; its location is a multiple of that.
    fn width(&self, class: Class) -> u32;

    /// The first unit that a class does not reach.
    fn limit(&self, class: Class) -> u32;
}

/// How locations are looked for.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// The first unit that is not used.
    pub limit: u32,
    /// Goes on behind what was given last, so that a register is written again as late as possible. Otherwise the
    /// lowest units are used.
    pub rotates: bool,
    /// How many values are spilled where one has no place: what is loaded and stored around them needs places, too.
    pub victims: usize,
}

/// Locations of all values that are used.
#[derive(Clone, Debug)]
pub struct Places {
    /// The first unit of a value.
    pub unit: Vec<Option<u32>>,
    /// The first unit behind all of them.
    pub used: u32,
}

/// What a value costs in memory, for the room that it takes.
fn prices<I: Instruction>(f: &Function<I>, live: &Live, ranges: &Ranges, fixed: &Bits) -> Vec<f64> {
    let mut uses = vec![0.0f64; f.shapes.len()];
    for block in &f.blocks {
        let weight = 8f64.powi(block.depth.min(8) as i32);
        for inst in &block.insts {
            inst.accesses(&mut |a| uses[a.part.value.0 as usize] += weight);
        }
    }
    let room = |n: usize| -> f64 {
        let lanes = live.lanes.all(Value(n as u32));
        let spans = lanes.flat_map(|lane| &ranges.spans[lane]);
        spans.map(|s| f64::from(s.to - s.from)).sum()
    };
    let price = |(n, uses): (usize, f64)| match fixed.has(n) {
        true => f64::INFINITY,
        false => uses / room(n).max(1.0),
    };
    uses.into_iter().enumerate().map(price).collect()
}

struct Scan<'a, F> {
    file: &'a F,
    way: Way,
    live: &'a Live,
    ranges: &'a Ranges,
    /// Spans of each unit.
    taken: Vec<Vec<Span>>,
    unit: Vec<Option<u32>>,
    /// Where the search goes on.
    next: u32,
}

impl<F: File> Scan<'_, F> {
    /// Whether a value may start at a unit.
    fn free(&self, value: Value, at: u32, width: u32) -> bool {
        self.live.lanes.all(value).enumerate().all(|(n, lane)| {
            let spans = &self.ranges.spans[lane];
            let first = at + n as u32 * width;
            (first..first + width).all(|unit| !overlap_late(&self.taken[unit as usize], spans))
        })
    }

    fn put(&mut self, value: Value, at: u32, width: u32) {
        for (n, lane) in self.live.lanes.all(value).enumerate() {
            let first = at + n as u32 * width;
            for unit in first..first + width {
                super::coalesce::join(&mut self.taken[unit as usize], &self.ranges.spans[lane]);
            }
        }
        self.unit[value.0 as usize] = Some(at);
    }

    /// The first place for a value.
    fn find(&mut self, value: Value, class: Class, lanes: u32) -> Option<u32> {
        let width = self.file.width(class);
        let limit = self.file.limit(class).min(self.way.limit);
        let last = limit.checked_sub(lanes * width)?;
        let start = match self.way.rotates {
            true => self.next.next_multiple_of(width),
            false => 0,
        };
        let ways = (start..=last).step_by(width as usize);
        let ways = ways.chain((0..=last.min(start.saturating_sub(1))).step_by(width as usize));
        let mut found = None;
        for at in ways {
            if self.free(value, at, width) {
                found = Some(at);
                break;
            }
        }
        let at = found?;
        self.next = at + lanes * width;
        if self.next >= limit {
            self.next = 0;
        }
        Some(at)
    }

    /// Takes a value out again; the spans of its units are made anew of those that are left.
    fn evict(&mut self, victim: Value, placed: &[(Value, u32)], width: impl Fn(Value) -> u32) {
        let Some(at) = self.unit[victim.0 as usize].take() else {
            return;
        };
        let own = self.live.lanes.all(victim).len() as u32 * width(victim);
        let gone = at..at + own;
        for unit in gone.clone() {
            self.taken[unit as usize].clear();
        }
        for &(value, _) in placed {
            let Some(first) = self.unit[value.0 as usize] else {
                continue;
            };
            let width = width(value);
            for (n, lane) in self.live.lanes.all(value).enumerate() {
                for unit in (first + n as u32 * width..).take(width as usize) {
                    if gone.contains(&unit) {
                        super::coalesce::join(
                            &mut self.taken[unit as usize],
                            &self.ranges.spans[lane],
                        );
                    }
                }
            }
        }
    }
}

/// [`overlap`], where the first list is long and only its end is near.
fn overlap_late(taken: &[Span], spans: &[Span]) -> bool {
    let Some(first) = spans.first() else {
        return false;
    };
    let from = taken.partition_point(|s| s.to <= first.from);
    overlap(&taken[from..], spans)
}

/// Gives every value a location.
///
/// `fixed` are values that are not spilled, by number.
///
/// # Errors
/// The values to spill; none if those that are not spilled do not fit.
pub fn allocate<I: Instruction>(
    f: &Function<I>,
    file: &impl File,
    way: Way,
    fixed: &Bits,
) -> Result<Places, Vec<Value>> {
    let live = Live::of(f);
    let ranges = Ranges::of(f, &live);
    let prices = prices(f, &live, &ranges, fixed);
    let classes = f.shapes.iter().map(|s| file.limit(s.class));
    let units = classes.max().unwrap_or(0).max(1);
    let mut scan = Scan {
        file,
        way,
        live: &live,
        ranges: &ranges,
        taken: vec![Vec::new(); units as usize],
        unit: vec![None; f.shapes.len()],
        next: 0,
    };
    let width = |v: Value| file.width(f.shape(v).class);
    let mut placed: Vec<(Value, u32)> = Vec::new();
    for &(value, at) in &f.inputs {
        scan.put(value, at, width(value));
        placed.push((value, at));
    }
    let start = |n: u32| {
        let lanes = live.lanes.all(Value(n));
        lanes
            .filter_map(|lane| ranges.spans[lane].first())
            .map(|s| s.from)
            .min()
    };
    let mut order: Vec<(u32, Value)> = (0..f.shapes.len() as u32)
        .filter(|&n| scan.unit[n as usize].is_none())
        .filter_map(|n| Some((start(n)?, Value(n))))
        .collect();
    order.sort_unstable();
    let mut spilled = Vec::new();
    for (_, value) in order {
        let shape = f.shape(value);
        loop {
            if let Some(at) = scan.find(value, shape.class, u32::from(shape.lanes)) {
                scan.put(value, at, width(value));
                placed.push((value, at));
                break;
            }
            let meets = |other: Value| {
                live.lanes.all(value).any(|a| {
                    let mut theirs = live.lanes.all(other);
                    theirs.any(|b| overlap(&ranges.spans[a], &ranges.spans[b]))
                })
            };
            let price = |v: Value| prices[v.0 as usize];
            // What lies beyond the reach of the class does not help.
            let reach = file.limit(shape.class);
            let others = placed.iter().filter(|p| p.1 < reach).map(|p| p.0);
            let mut found: Vec<Value> = others.filter(|&v| meets(v)).chain([value]).collect();
            found.retain(|&v| price(v).is_finite());
            found.sort_by(|&a, &b| price(a).total_cmp(&price(b)));
            found.truncate(way.victims.max(1));
            if found.is_empty() {
                return Err(Vec::new());
            }
            for &victim in &found {
                placed.retain(|p| p.0 != victim);
                scan.evict(victim, &placed, width);
            }
            let own = found.contains(&value);
            spilled.extend(found);
            if own {
                break;
            }
        }
    }
    if !spilled.is_empty() {
        return Err(spilled);
    }
    let ends = placed
        .iter()
        .map(|&(v, at)| at + u32::from(f.shape(v).lanes) * width(v));
    let used = ends.max().unwrap_or(0);
    Ok(Places {
        unit: scan.unit,
        used,
    })
}
