//! Loads of buffers as images: through the texture cache, four elements at a time.
//!
//! A load is one of pixels if a multiple of four elements begins at a multiple of four, in a buffer that the kernel does
//! not write: the texture cache does not see its stores. Single loads that are near one another and of one pixel are one
//! load. A load that happens is inside of its buffer, and a pixel of four elements inside is one of the image; should an
//! index be wrong after all, the pixel is zeros. Elements are 16 or 32 bits, which come as integers, so that all of their
//! bits stay.
//!
//! Source: Mesa `ir3-cat5.xml` (isam takes two coordinates, also of what has one dimension), `ir3_compiler_nir.c`
//! (`emit_intrinsic_load_ssbo`: buffers that are only read are loaded by isam).

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::address::Key;
use super::build::Template;
use super::fibers::Fibers;
use super::memory::access_type;
use super::operand::{List, Opnd};
use super::{Select, control, loops, uses};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir3::virt::{Code, Dst, FULL, Src};
use crate::ir3::{Flags, Image, Op, Type};
use crate::lower::{Access, Arg, Inst, Interval, Intervals, Mem, Program, Reg, Ty};
use crate::machine::{Class, Part};
use crate::render::factors::factors;
use crate::render::images::{PIXEL, Rows, Traffic, chosen, gain};
use crate::target::{ImageCosts, Target};

/// Instructions from a single load to the next one of the same pixel, at most: its four registers are taken that long.
const NEAR: usize = 24;
/// Elements that are read of a pixel, from which on single loads are one of it.
const FEWEST: u32 = 3;

/// Where the elements of a load are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Whole pixels, the first of them so many behind the one of an index.
    Pixels { base: Reg, pixel: i64 },
    /// The same from an index on where a boolean is true; the first ones of the image where it is false.
    Gated { index: Reg, gate: Reg },
    /// One element of a pixel; those of one group read it once.
    Lane {
        base: Reg,
        pixel: i64,
        lane: u8,
        group: u32,
    },
}

/// A load of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fetch {
    image: u8,
    way: Way,
}

/// The images of a program, and what is read of them.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub images: Vec<Image>,
    rows: Vec<Rows>,
    loads: HashMap<Reg, Fetch>,
}

impl Plan {
    /// The load of an image that defines a register.
    pub fn of(&self, dst: Reg) -> Option<Fetch> {
        self.loads.get(&dst).copied()
    }
}

/// A load that may be one of pixels.
struct Candidate {
    arg: u32,
    dst: Reg,
    way: Way,
    /// How many pixels a work-item reads by it in all.
    pixels: f64,
    /// How many of its pixels the fibers of a wave read at a time.
    places: usize,
}

/// A load of a buffer that is only read.
struct Place {
    arg: u32,
    dst: Reg,
    index: Reg,
    lanes: u32,
    /// The index is this one, a multiple of four, and so many elements behind it.
    base: Reg,
    more: i64,
    gate: Option<Reg>,
    /// The buffer has whole pixels only.
    whole: bool,
}

/// What is known of the registers of a program.
struct Known<'a> {
    p: &'a Program,
    factors: Vec<u32>,
    defs: Vec<Option<usize>>,
    ranges: Vec<Interval>,
    fibers: Fibers,
}

impl<'a> Known<'a> {
    fn new(p: &'a Program, t: &Target) -> Known<'a> {
        Known {
            p,
            factors: factors(p),
            defs: uses::defs(p),
            ranges: Intervals::of_program(p),
            fibers: Fibers::new(p, t.wave),
        }
    }

    /// The scalar that all lanes of a register have, if it was made of one.
    fn splat(&self, reg: Reg) -> Option<Reg> {
        match self.p.insts[self.defs[reg.0 as usize]?] {
            Inst::Splat { a, .. } => Some(a),
            _ => None,
        }
    }

    /// Bytes that a wave reads of buffers by an instruction; what its fibers read together counts once.
    fn read(&self, inst: &Inst) -> f64 {
        match *inst {
            Inst::Load {
                dst,
                mem: Mem::Arg(_),
                index,
                ..
            } => {
                let Ty { dtype, lanes } = self.p.ty(dst);
                (self.fibers.places(index) * lanes as usize * dtype.size()) as f64
            }
            _ => 0.0,
        }
    }

    /// About how many cycles a wave issues an instruction: a cycle for each lane.
    fn issued(&self, inst: &Inst) -> f64 {
        let Some(dst) = inst.dst() else {
            return 0.0;
        };
        let ty = self.p.ty(dst);
        let count = loops::count(inst, ty);
        match (inst, count) {
            (_, 0) | (Inst::Load { .. }, _) => count as f64,
            _ => count.max(ty.lanes as usize) as f64,
        }
    }

    fn place(&self, inst: &Inst) -> Option<Place> {
        let &Inst::Load {
            dst,
            mem: Mem::Arg(arg),
            index,
            access: Access::Contiguous,
            gate,
        } = inst
        else {
            return None;
        };
        let Some(&Arg::Buffer {
            dtype,
            len,
            written: false,
            ..
        }) = self.p.args.get(arg as usize)
        else {
            return None;
        };
        let Ty { dtype: own, lanes } = self.p.ty(dst);
        let at = self.p.ty(index);
        let size = dtype.size();
        let words = own.size() == size && matches!(size, 2 | 4);
        let narrow = at.lanes == 1 && matches!(at.dtype, DType::U32 | DType::I32);
        if !words || !narrow || lanes as usize > len {
            return None;
        }
        let gate = match gate {
            None => None,
            Some((gate, _)) if lanes > 1 => Some(self.splat(gate)?),
            Some(_) => return None,
        };
        let is_multiple = |reg: Reg| self.factors[reg.0 as usize] >= PIXEL.trailing_zeros();
        let (base, more) = uses::split(self.p, &self.defs, Mem::Arg(arg), index);
        // The sum of pixels does not wrap where that of elements does.
        let is_small = self.ranges[base.0 as usize].is_some_and(|(_, most)| most < 1 << 31);
        let apart = is_multiple(base) && (more == 0 || is_small);
        let (base, more) = match (apart, is_multiple(index)) {
            (true, _) => (base, more),
            (false, true) => (index, 0),
            (false, false) => return None,
        };
        Some(Place {
            arg,
            dst,
            index,
            lanes,
            base,
            more,
            gate,
            whole: len.is_multiple_of(PIXEL as usize),
        })
    }
}

/// A load of one element of a pixel.
struct Single {
    /// Argument, index, pixel behind it, and the part of the program between two that end or begin something.
    key: (u32, u32, i64, usize),
    /// Which instruction it is.
    at: usize,
    dst: Reg,
    lane: u8,
    /// How often it runs.
    times: f64,
    places: usize,
}

/// Loads that may be of pixels, and how much longer a wave reads by plain loads than it issues, in cycles of a unit.
fn candidates(p: &Program, t: &Target, costs: &ImageCosts) -> (Vec<Candidate>, f64) {
    let known = Known::new(p, t);
    // Waves on each pipe issue at the same time.
    let pipes = t.registers.map_or(1, |r| r.simds.max(1));
    let mut spare = 0.0;
    let mut found = Vec::new();
    let mut singles = Vec::new();
    let mut around = vec![1.0];
    let mut block = 0;
    for (at, inst) in p.insts.iter().enumerate() {
        let times = around.last().copied().unwrap_or(1.0);
        match inst {
            Inst::Loop { extent, .. } => around.push(times * p.extent(*extent).max(1) as f64),
            _ if inst.opens() => around.push(times),
            _ if inst.closes() => {
                around.pop();
            }
            _ => {}
        }
        block += usize::from(control::is_control(inst));
        spare += times * known.read(inst) / costs.plain_bytes;
        spare -= times * known.issued(inst) / f64::from(pipes);
        let Some(place) = known.place(inst) else {
            continue;
        };
        let Place {
            arg,
            dst,
            base,
            index,
            ..
        } = place;
        let four = i64::from(PIXEL);
        let (pixel, lane) = (place.more.div_euclid(four), place.more.rem_euclid(four));
        let way = match place.gate {
            Some(gate) => Way::Gated { index, gate },
            None => Way::Pixels { base, pixel },
        };
        if place.lanes.is_multiple_of(PIXEL) && lane == 0 {
            let pixels = times * f64::from(place.lanes / PIXEL);
            found.push(Candidate {
                arg,
                dst,
                way,
                pixels,
                places: known.fibers.places(index),
            });
        } else if place.lanes == 1 && place.whole {
            singles.push(Single {
                key: (arg, base.0, pixel, block),
                at,
                dst,
                lane: lane as u8,
                times,
                places: known.fibers.places(index),
            });
        }
    }
    found.extend(together(singles));
    (found, spare)
}

/// Single loads that are one of a pixel.
fn together(mut singles: Vec<Single>) -> Vec<Candidate> {
    singles.sort_by_key(|s| (s.key, s.at));
    let mut found = Vec::new();
    for group in singles.chunk_by(|a, b| a.key == b.key && b.at - a.at <= NEAR) {
        let lanes = group.iter().fold(0u32, |mask, s| mask | 1 << s.lane);
        if lanes.count_ones() < FEWEST {
            continue;
        }
        let first = group[0].at;
        for single in group {
            let (arg, base, pixel, _) = single.key;
            found.push(Candidate {
                arg,
                dst: single.dst,
                way: Way::Lane {
                    base: Reg(base),
                    pixel,
                    lane: single.lane,
                    group: first as u32,
                },
                pixels: if single.at == first {
                    single.times
                } else {
                    0.0
                },
                places: single.places,
            });
        }
    }
    found
}

/// Which buffers of a program are images on a target, and which loads read them.
pub(super) fn plan(p: &Program, t: &Target) -> Plan {
    let Some(costs) = &t.images else {
        return Plan::default();
    };
    let buffer = |arg: u32| match p.args.get(arg as usize) {
        Some(&Arg::Buffer { dtype, len, .. }) => {
            let rows = Rows::of(len, dtype.size(), costs)?;
            Some((dtype.size(), len, rows))
        }
        _ => None,
    };
    let is_read = |(n, arg): (usize, &Arg)| {
        let only = matches!(arg, Arg::Buffer { written: false, .. });
        only && buffer(n as u32).is_some()
    };
    if !p.args.iter().enumerate().any(is_read) {
        return Plan::default();
    }
    let (candidates, spare) = candidates(p, t, costs);
    let waves = (p.items.max(1) as u64).div_ceil(t.wave.max(1) as u64) as f64;
    let waves = waves * p.groups.max(1) as f64;
    let mut traffic: BTreeMap<u32, Traffic> = BTreeMap::new();
    for one in &candidates {
        let Some((size, len, rows)) = buffer(one.arg) else {
            continue;
        };
        let of = traffic.entry(one.arg).or_default();
        of.own = (size * len) as f64;
        of.bytes += one.pixels * waves * (one.places * PIXEL as usize * size) as f64;
        of.loads += one.pixels * waves;
        of.rows = rows.height > 1;
    }
    let gains = traffic
        .iter()
        .map(|(&arg, &of)| (arg, gain(of, t.cores, costs)));
    let spare = spare * waves / t.cores.max(1) as f64;
    let args = chosen(&gains.collect::<Vec<_>>(), spare, costs);
    let mut plan = Plan::default();
    for &arg in &args {
        let Some((size, _, rows)) = buffer(arg) else {
            continue;
        };
        plan.images.push(Image {
            argument: arg,
            format: Image::FORMATS[usize::from(size == 4)],
            width: rows.width,
            height: rows.height,
            pitch: rows.pitch,
        });
        plan.rows.push(rows);
    }
    for Candidate { arg, dst, way, .. } in candidates {
        let image = plan.images.iter().position(|i| i.argument == arg);
        if let Some(image) = image {
            let image = image as u8;
            plan.loads.insert(dst, Fetch { image, way });
        }
    }
    plan
}

impl Select<'_> {
    /// The words of lanes from an image.
    pub(super) fn fetch(&mut self, Fetch { image, way }: Fetch, ty: Ty) -> Result<List> {
        let kind = access_type(ty.dtype);
        let (from, first) = match way {
            Way::Lane {
                base,
                pixel,
                lane,
                group,
            } => {
                let key = Key::Elements(base, group);
                let part = match self.addresses.get(&key) {
                    Some(&part) => part,
                    None => {
                        let from = Opnd::part(self.number(base)?);
                        let part = self.pixel(image, kind, from, pixel);
                        self.addresses.insert(key, part);
                        self.made.push(key);
                        part
                    }
                };
                return Ok(vec![Opnd::part(Part::of(part.value, lane))]);
            }
            Way::Pixels { base, pixel } => (Opnd::part(self.number(base)?), pixel),
            Way::Gated { index, gate } => {
                let (gate, index) = (self.r(gate)?, self.r(index)?);
                let there = self.clamped(&gate, &index);
                (self.shr_by(&there, PIXEL.trailing_zeros())[0], 0)
            }
        };
        let mut list = List::with_capacity(ty.lanes as usize);
        for n in 0..i64::from(ty.lanes / PIXEL) {
            let part = self.pixel(image, kind, from, first + n);
            list.extend(part.each().map(Opnd::part));
        }
        Ok(list)
    }

    /// The number of the pixel that an index is in.
    fn number(&mut self, index: Reg) -> Result<Part> {
        self.found(Key::Pixel(index), |s, words| {
            let number = s.shr_by(&vec![words[0]], PIXEL.trailing_zeros());
            s.register(FULL, number[0])
        })
    }

    /// Reads a pixel that is so many behind one of a number.
    fn pixel(&mut self, image: u8, (ty, class): (Type, Class), from: Opnd, more: i64) -> Part {
        let Rows { width, height, .. } = self.plan.rows[usize::from(image)];
        let (from, more) = (vec![from], self.same(more as u32, 1));
        let to = self.two_lanes();
        if height == 1 {
            match more[0].known() {
                Some(0) => self.move_to(FULL, to[0], from[0]),
                _ => self.make_to(Template::full(Op::AddU), &to[..1], &[&from, &more]),
            }
            self.move_to(FULL, to[1], Opnd::bits(0));
        } else {
            let at = self.add(&from, &more);
            let [mask, digits] = [width - 1, width.trailing_zeros()].map(|bits| self.same(bits, 1));
            self.make_to(Template::full(Op::AndB), &to[..1], &[&at, &mask]);
            self.make_to(Template::full(Op::ShrB), &to[1..], &[&at, &digits]);
        }
        let value = self.f.value(class, PIXEL as u8);
        let whole = Part {
            value,
            lane: 0,
            lanes: PIXEL as u8,
        };
        let coordinates = Part { lanes: 2, ..to[0] };
        let mut code = Code::new(Op::Isam, Dst::Part(whole), vec![Src::part(coordinates)]);
        code.flags = Flags::D1;
        code.mods.ty = Some(ty);
        code.mods.mask = 0xf;
        code.mods.sampler = Some(0);
        code.mods.texture = Some(image);
        self.emit(code);
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Binary;
    use crate::lower::Extent;

    const ROUNDS: i64 = 16;

    /// A program whose work-items read a buffer in a loop.
    struct Reader(Program);

    impl Reader {
        fn new(len: usize, written: bool) -> Reader {
            let buffer = |slot, written| Arg::Buffer {
                slot,
                dtype: DType::F32,
                len,
                written,
            };
            Reader(Program {
                name: "reader".into(),
                args: vec![buffer(0, true), buffer(1, written)],
                locals: Vec::new(),
                groups: 1,
                items: (len / 4) as i64,
                regs: Vec::new(),
                accs: Vec::new(),
                insts: Vec::new(),
            })
        }

        fn reg(&mut self, dtype: DType, lanes: u32) -> Reg {
            self.0.regs.push(Ty { dtype, lanes });
            Reg(self.0.regs.len() as u32 - 1)
        }

        fn constant(&mut self, bits: u64) -> Reg {
            let dst = self.reg(DType::U32, 1);
            self.0.insts.push(Inst::Const { dst, bits });
            dst
        }

        fn binary(&mut self, op: Binary, a: Reg, b: Reg) -> Reg {
            let dst = self.reg(DType::U32, 1);
            self.0.insts.push(Inst::Binary { dst, op, a, b });
            dst
        }

        /// Opens the loop; the first element of the work-item.
        fn open(&mut self, factor: u64) -> Reg {
            let item = self.reg(DType::U32, 1);
            self.0.insts.push(Inst::Item { dst: item });
            let four = self.constant(factor);
            let first = self.binary(Binary::Mul, item, four);
            let var = self.reg(DType::U32, 1);
            let extent = Extent::Known(ROUNDS);
            self.0.insts.push(Inst::Loop { var, extent });
            first
        }

        fn load(&mut self, lanes: u32, index: Reg) -> Reg {
            self.gated(lanes, index, None)
        }

        fn gated(&mut self, lanes: u32, index: Reg, gate: Option<(Reg, Reg)>) -> Reg {
            let dst = self.reg(DType::F32, lanes);
            self.0.insts.push(Inst::Load {
                dst,
                mem: Mem::Arg(1),
                index,
                access: Access::Contiguous,
                gate,
            });
            dst
        }

        /// The plan where images cost nothing beside coordinates.
        fn plan(mut self) -> Plan {
            self.0.insts.push(Inst::End);
            let mut target = Target::qcom("a630", 0).unwrap();
            target.images.as_mut().unwrap().launch = 0.0;
            let plan = plan(&self.0, &target);
            assert!(
                super::plan(&self.0, &target.without_images())
                    .images
                    .is_empty()
            );
            plan
        }
    }

    #[test]
    fn vectors_are_whole_pixels() {
        let mut reader = Reader::new(1024, false);
        let first = reader.open(4);
        let eight = reader.constant(8);
        let later = reader.binary(Binary::Add, first, eight);
        let loads = [first, later].map(|index| reader.load(4, index));
        let plan = reader.plan();
        let image = Image {
            argument: 1,
            format: Image::FORMATS[1],
            width: 256,
            height: 1,
            pitch: 4096,
        };
        assert_eq!(plan.images, [image]);
        let ways = loads.map(|load| plan.of(load).map(|f| f.way));
        let way = |pixel| Some(Way::Pixels { base: first, pixel });
        assert_eq!(ways, [way(0), way(2)]);
    }

    #[test]
    fn single_loads_of_a_pixel_are_one() {
        let mut reader = Reader::new(1024, false);
        let first = reader.open(4);
        let loads = [5, 4, 7, 9].map(|more| {
            let more = reader.constant(more);
            let index = reader.binary(Binary::Add, first, more);
            reader.load(1, index)
        });
        let plan = reader.plan();
        let ways = loads.map(|load| plan.of(load).map(|f| f.way));
        let Some(Way::Lane { group, .. }) = ways[0] else {
            panic!("{ways:?}");
        };
        let way = |lane| {
            let (base, pixel) = (first, 1);
            Some(Way::Lane {
                base,
                pixel,
                lane,
                group,
            })
        };
        // The one of another pixel is alone.
        assert_eq!(ways, [way(1), way(0), way(3), None]);
    }

    #[test]
    fn single_loads_that_are_far_apart_are_two_groups() {
        let mut reader = Reader::new(1024, false);
        let first = reader.open(4);
        let mut loads = Vec::new();
        for _ in 0..2 {
            for more in [0, 1, 2] {
                let more = reader.constant(more);
                let index = reader.binary(Binary::Add, first, more);
                loads.push(reader.load(1, index));
            }
            for _ in 0..NEAR {
                reader.constant(0);
            }
        }
        let plan = reader.plan();
        let groups = loads.iter().map(|&load| match plan.of(load)?.way {
            Way::Lane { group, .. } => Some(group),
            _ => None,
        });
        let groups: Vec<_> = groups.collect();
        assert!(groups.iter().all(Option::is_some), "{groups:?}");
        assert!(groups[..3].iter().all(|group| *group == groups[0]));
        assert!(groups[3..].iter().all(|group| *group == groups[3]));
        assert!(groups[0] != groups[3], "{groups:?}");
    }

    #[test]
    fn gates_are_those_of_all_lanes() {
        // A gate of all lanes, one of each, and single loads.
        for (lanes, splat, is_one) in [(4, true, true), (4, false, false), (1, true, false)] {
            let mut reader = Reader::new(1024, false);
            let first = reader.open(4);
            let index = reader.reg(DType::I32, 1);
            let cast = Inst::Cast {
                dst: index,
                a: first,
            };
            reader.0.insts.push(cast);
            let [scalar, gate, alt] = [(DType::Bool, 1), (DType::Bool, lanes), (DType::F32, lanes)]
                .map(|(dtype, lanes)| reader.reg(dtype, lanes));
            let bits = |dst| Inst::Const { dst, bits: 1 };
            reader.0.insts.push(bits(scalar));
            reader.0.insts.push(match splat {
                true => Inst::Splat {
                    dst: gate,
                    a: scalar,
                },
                false => bits(gate),
            });
            reader.0.insts.push(bits(alt));
            let load = reader.gated(lanes, index, Some((gate, alt)));
            let way = Way::Gated {
                index,
                gate: scalar,
            };
            let found = reader.plan().of(load).map(|f| f.way);
            assert_eq!(found, is_one.then_some(way), "{lanes} {splat}");
        }
    }

    #[test]
    fn what_all_fibers_read_at_once_counts_once() {
        // The same loads, of one place in each iteration instead of one for each work-item.
        let mut reader = Reader::new(1024, false);
        reader.open(4);
        let same = reader.constant(8);
        reader.load(4, same);
        assert!(reader.plan().images.is_empty());
    }

    #[test]
    fn sums_that_may_wrap_stay_whole() {
        let mut reader = Reader::new(1024, false);
        let first = reader.open(4);
        let [four, minus] = [4, 0xffff_fffc].map(|bits| reader.constant(bits));
        let before = reader.binary(Binary::Add, first, minus);
        let index = reader.binary(Binary::Add, before, four);
        let load = reader.load(4, index);
        let way = Way::Pixels {
            base: index,
            pixel: 0,
        };
        assert_eq!(reader.plan().of(load).map(|f| f.way), Some(way));
    }

    #[test]
    fn what_is_no_image() {
        // A buffer that is written, one that is read once, and vectors that begin inside of pixels.
        for (written, factor, rounds) in [(true, 4, true), (false, 4, false), (false, 2, true)] {
            let mut reader = Reader::new(1024, written);
            let first = reader.open(factor);
            if !rounds {
                let is_loop = |i: &Inst| matches!(i, Inst::Loop { .. });
                reader.0.insts.retain(|i| !is_loop(i));
                reader.0.insts.push(Inst::Once);
            }
            reader.load(4, first);
            assert!(reader.plan().images.is_empty(), "{written} {factor}");
        }
    }
}
