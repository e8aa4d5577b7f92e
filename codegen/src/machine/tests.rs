//! The passes, on a machine of a few registers whose instructions are moves and sums.

use super::allocate::{File, Way, allocate};
use super::coalesce::coalesce;
use super::live::{Live, Ranges, overlap};
use super::spill::{Memory, spill};
use super::{Access, Bits, Block, Class, Function, Instruction, Part, Shape, Value, dead};

#[derive(Clone, Debug, PartialEq)]
struct Toy {
    copy: bool,
    to: Vec<Part>,
    from: Vec<Part>,
    repeat: u8,
}

impl Instruction for Toy {
    fn accesses(&self, see: &mut dyn FnMut(Access)) {
        for (writes, parts) in [(false, &self.from), (true, &self.to)] {
            for part in parts {
                for (step, part) in part.each().enumerate() {
                    let step = if self.repeat > 0 { step as u8 } else { 0 };
                    see(Access { part, writes, step });
                }
            }
        }
    }

    fn copies(&self) -> Option<(Part, Part)> {
        self.copy.then(|| (self.to[0], self.from[0]))
    }

    fn rename(&mut self, by: &mut dyn FnMut(Part, bool) -> Part) {
        self.from.iter_mut().for_each(|p| *p = by(*p, false));
        self.to.iter_mut().for_each(|p| *p = by(*p, true));
    }

    fn steps(&self) -> u8 {
        self.repeat + 1
    }
}

struct Few(u32);

impl File for Few {
    fn width(&self, class: Class) -> u32 {
        u32::from(class.0) + 1
    }

    fn limit(&self, _: Class) -> u32 {
        self.0
    }
}

const ONE: Class = Class(0);

fn part(value: Value, lane: u8) -> Part {
    Part::of(value, lane)
}

fn op(to: &[Part], from: &[Part]) -> Toy {
    Toy {
        copy: false,
        to: to.to_vec(),
        from: from.to_vec(),
        repeat: 0,
    }
}

fn copy(to: Part, from: Part) -> Toy {
    Toy {
        copy: true,
        ..op(&[to], &[from])
    }
}

fn tight(limit: u32) -> Way {
    Way {
        limit,
        rotates: false,
        victims: 1,
    }
}

/// Whether values that are live at the same time are apart, lane by lane.
fn apart(f: &Function<Toy>, file: &Few, units: &[Option<u32>]) {
    let live = Live::of(f);
    let ranges = Ranges::of(f, &live);
    let mut lanes = Vec::new();
    for (n, shape) in f.shapes.iter().enumerate() {
        let width = file.width(shape.class);
        for (lane, number) in live.lanes.all(Value(n as u32)).enumerate() {
            if let Some(unit) = units[n] {
                lanes.push((number, unit + lane as u32 * width, width));
            }
        }
    }
    for (n, &(a, at, width)) in lanes.iter().enumerate() {
        for &(b, there, other) in &lanes[n + 1..] {
            let meet = at < there + other && there < at + width;
            assert!(
                !meet || !overlap(&ranges.spans[a], &ranges.spans[b]),
                "lanes {a} and {b}"
            );
        }
    }
}

#[test]
fn vectors_are_neighbours_and_nothing_overlaps() {
    let mut state = 7u64;
    let mut random = move |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % n
    };
    for round in 0..200 {
        let mut f: Function<Toy> = Function::new();
        f.blocks.push(Block::new(0));
        let mut there: Vec<Value> = Vec::new();
        for _ in 0..30 {
            let value = f.value(Class(random(2) as u8), 1 + random(4) as u8);
            let shape = f.shape(value);
            let whole = Part {
                value,
                lane: 0,
                lanes: shape.lanes,
            };
            let from: Vec<Part> = (0..random(3).min(there.len() as u64))
                .map(|_| part(there[random(there.len() as u64) as usize], 0))
                .collect();
            let mut inst = op(&[whole], &from);
            inst.repeat = if random(2) == 0 { shape.lanes - 1 } else { 0 };
            f.blocks[0].insts.push(inst);
            there.push(value);
        }
        let file = Few(64);
        let fixed = Bits::new(f.shapes.len());
        match allocate(&f, &file, tight(64), &fixed) {
            Ok(places) => {
                assert!(places.used <= 64, "{round}");
                apart(&f, &file, &places.unit);
            }
            Err(spilled) => assert!(!spilled.is_empty()),
        }
    }
}

#[test]
fn copies_into_a_vector_vanish() {
    let mut f: Function<Toy> = Function::new();
    f.blocks.push(Block::new(0));
    let (a, b, both) = (f.value(ONE, 1), f.value(ONE, 1), f.value(ONE, 2));
    let whole = Part {
        value: both,
        lane: 0,
        lanes: 2,
    };
    f.blocks[0].insts = vec![
        op(&[part(a, 0)], &[]),
        op(&[part(b, 0)], &[]),
        copy(part(both, 0), part(a, 0)),
        copy(part(both, 1), part(b, 0)),
        op(&[], &[whole]),
    ];
    assert_eq!(coalesce(&mut f), 2);
    assert_eq!(f.blocks[0].insts[1].to, [part(both, 1)]);
}

#[test]
fn a_copy_of_what_changes_stays() {
    let mut f: Function<Toy> = Function::new();
    f.blocks.push(Block::new(0));
    let (sum, before) = (f.value(ONE, 1), f.value(ONE, 1));
    f.blocks[0].insts = vec![
        op(&[part(sum, 0)], &[]),
        copy(part(before, 0), part(sum, 0)),
        op(&[part(sum, 0)], &[part(sum, 0)]),
        op(&[], &[part(sum, 0), part(before, 0)]),
    ];
    assert_eq!(coalesce(&mut f), 0);
}

/// A loop keeps what it reads later: its sum may not share the place of what is made inside.
#[test]
fn loops_keep_their_values() {
    let mut f: Function<Toy> = Function::new();
    let (sum, step, inside) = (f.value(ONE, 1), f.value(ONE, 1), f.value(ONE, 1));
    f.blocks = vec![Block::new(0), Block::new(1), Block::new(0)];
    f.blocks[0].insts = vec![op(&[part(sum, 0)], &[]), op(&[part(step, 0)], &[])];
    f.blocks[1].insts = vec![
        op(&[part(inside, 0)], &[part(step, 0)]),
        op(&[part(sum, 0)], &[part(sum, 0), part(inside, 0)]),
    ];
    f.blocks[2].insts = vec![op(&[], &[part(sum, 0)])];
    f.blocks[0].next = vec![1];
    f.blocks[1].next = vec![2, 1];
    let live = Live::of(&f);
    assert!(live.at_end[1].has(live.lanes.of(part(step, 0)).start));
    assert!(live.undefined(&f).is_empty());
    let file = Few(3);
    let places = allocate(&f, &file, tight(3), &Bits::new(3)).unwrap();
    apart(&f, &file, &places.unit);
    assert!(allocate(&f, &Few(2), tight(2), &Bits::new(3)).is_err());
}

struct Slots;

impl Memory<Toy> for Slots {
    fn load(&mut self, to: Part, _: Shape, _: u32) -> Vec<Toy> {
        vec![op(&[to], &[])]
    }

    fn store(&mut self, from: Part, _: Shape, _: u32) -> Vec<Toy> {
        vec![op(&[], &[from])]
    }

    fn again(&self, _: &Toy) -> bool {
        false
    }
}

#[test]
fn spills_end_where_registers_do() {
    let mut f: Function<Toy> = Function::new();
    f.blocks.push(Block::new(0));
    let values: Vec<Value> = (0..6).map(|_| f.value(ONE, 1)).collect();
    for &v in &values {
        f.blocks[0].insts.push(op(&[part(v, 0)], &[]));
    }
    for &v in &values {
        f.blocks[0].insts.push(op(&[], &[part(v, 0)]));
    }
    let file = Few(3);
    let (mut slots, mut fixed) = (0, Vec::new());
    for _ in 0..8 {
        let mut own = Bits::new(f.shapes.len());
        fixed.iter().for_each(|v: &Value| {
            own.add(v.0 as usize);
        });
        match allocate(&f, &file, tight(3), &own) {
            Ok(places) => return apart(&f, &file, &places.unit),
            Err(victims) => slots = spill(&mut f, &victims, &mut Slots, slots, &mut fixed),
        }
    }
    panic!("no end after {slots} slots");
}

#[test]
fn what_nobody_reads_is_removed() {
    let mut f: Function<Toy> = Function::new();
    f.blocks.push(Block::new(0));
    let (a, b) = (f.value(ONE, 1), f.value(ONE, 1));
    f.blocks[0].insts = vec![op(&[part(a, 0)], &[]), op(&[part(b, 0)], &[part(a, 0)])];
    dead::remove(&mut f, |_| false);
    assert!(f.blocks[0].insts.is_empty());
}
