//! From instructions of values to machine code.
//!
//! The order: loads of neighbours become one; values are scheduled and get registers ([`crate::machine`]); neighbours are
//! packed; blocks are scheduled once more; waits and delays are written; branches get their distances.
//! [`check`](super::check) proves the result.

use super::check;
use super::inst::{EncodeError, Inst};
use super::merge::merge;
use super::modifier::{Flags, Type};
use super::object::{Footprint, Image, Object, Statistics};
use super::operand::{Operand, Value as Place};
use super::schedule::{after_allocation, before_allocation, type_of};
use super::sync::{Straight, synchronise};
use super::table::Op;
use super::units::GENERAL;
use super::virt::{Code, Dst, FULL, Function, HALF, Name, Src, place};
use super::{pack, units};
use crate::machine::allocate::{File, Places, Way, allocate};
use crate::machine::coalesce::coalesce;
use crate::machine::live::Live;
use crate::machine::spill::{Memory, spill};
use crate::machine::{Bits, Class, Part, Shape, Value};

/// Why there is no machine code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// A value is read before it is written.
    #[error("value {value} is read before it is written; this is a bug in instruction selection")]
    Undefined {
        /// Its number.
        value: u32,
    },
    /// Spilling does not end.
    #[error("no registers for {values} values after {rounds} rounds of spilling; split the kernel")]
    Registers {
        /// How many values have none.
        values: usize,
        /// How often values were spilled.
        rounds: usize,
    },
    /// An instruction has no encoding.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The result breaks a rule of the hardware.
    #[error("{0}; this is a bug of the compiler")]
    Hazard(check::Hazard),
}

/// What the backend has to know of a kernel beside its code.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// Fibers of a group.
    pub items: u32,
    /// Waves of single size of a shader processor, in all.
    pub waves: u64,
    /// Bytes of local memory of a group.
    pub local_bytes: u32,
    /// The constant file, in dwords: what is known, at its place behind the arguments.
    pub constants: Vec<u32>,
    /// Arguments of 8 bytes each, from c0.x on.
    pub args: u32,
    /// Points where fibers may be parked at the same time, at most.
    pub branches: u32,
    /// Blocks where fibers rejoin.
    pub joins: Vec<usize>,
    /// Images that are read, by the number that instructions have for them.
    pub images: Vec<Image>,
    /// The register file.
    pub file: Chip,
}

/// What differs between chips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Chip {
    /// Vectors of four registers of a shader processor, per fiber of a wave.
    pub vectors: u32,
    /// Waves of a shader processor at most.
    pub waves: u32,
    /// Waves that start together.
    pub granularity: u32,
    /// Fibers of a wave.
    pub wave: u32,
    /// Whether waves may have twice as many fibers.
    pub double: bool,
}

impl Chip {
    /// Waves that fit a shader processor; Mesa `ir3_get_reg_dependent_max_waves`.
    pub fn occupancy(&self, vectors: u32, double: bool) -> u32 {
        let each = vectors.max(1) * if double { 2 } else { 1 };
        let waves = self.vectors / each * self.granularity;
        waves.min(self.waves)
    }

    /// Vectors of a fiber at most, for as many waves as with `vectors`.
    fn room(&self, vectors: u32, double: bool) -> u32 {
        let waves = self.occupancy(vectors, double);
        (vectors..=48)
            .take_while(|&v| self.occupancy(v, double) == waves)
            .last()
            .unwrap_or(vectors)
    }

    /// The most vectors with which more waves fit than with `vectors`, if that is not far below.
    fn step_below(&self, vectors: u32, double: bool) -> Option<u32> {
        let waves = self.occupancy(vectors, double);
        let near = vectors * 3 / 5..vectors;
        near.rev()
            .find(|&v| v > 0 && self.occupancy(v, double) > waves)
    }

    /// Whether a group of fibers fits with so many vectors each: its waves run at the same time.
    pub fn holds(&self, items: u32, vectors: u32, double: bool) -> bool {
        let wave = if double { self.wave * 2 } else { self.wave };
        items.div_ceil(wave.max(1)) <= self.occupancy(vectors, double)
    }
}

struct Registers;

impl File for Registers {
    fn width(&self, class: Class) -> u32 {
        if class == HALF { 1 } else { 2 }
    }

    fn limit(&self, class: Class) -> u32 {
        if class == HALF {
            GENERAL as u32 / 2
        } else {
            GENERAL as u32
        }
    }
}

/// Private memory: spilled lanes in a dword each, from the address 0 on.
struct Private {
    /// A register that is 0.
    zero: Value,
}

impl Private {
    /// One dword at a time: how wider accesses of one fiber lie in memory depends on a layout that drivers choose.
    fn access(&self, op: Op, part: Part, shape: Shape, slot: u32) -> Vec<Code> {
        let address = Src::part(Part::of(self.zero, 0));
        let lanes = part.each().zip(slot..);
        let one = |(lane, slot): (Part, u32)| {
            let mut code = match op {
                Op::Ldp => Code::new(op, Dst::Part(lane), vec![address]),
                _ => Code::new(op, Dst::None, vec![address, Src::part(lane)]),
            };
            code.mods.ty = Some(type_of(shape));
            code.mods.count = 1;
            code.mods.offset = slot as i32 * 4;
            code
        };
        lanes.map(one).collect()
    }
}

impl Memory<Code> for Private {
    fn load(&mut self, to: Part, shape: Shape, slot: u32) -> Vec<Code> {
        self.access(Op::Ldp, to, shape, slot)
    }

    fn store(&mut self, from: Part, shape: Shape, slot: u32) -> Vec<Code> {
        self.access(Op::Stp, from, shape, slot)
    }

    fn again(&self, code: &Code) -> bool {
        let constant = |s: &Src| matches!(s.name, Name::Const(_) | Name::Imm(_) | Name::Float(_));
        code.op == Op::Mov && code.srcs.iter().all(constant)
    }
}

/// The furthest slot that an offset reaches, in dwords.
const SLOTS: u32 = 1000;
/// How often values are spilled before it is given up.
const ROUNDS: usize = 24;

struct Allocated {
    places: Places,
    /// Vectors that would do.
    needed: u32,
    slots: u32,
    spilled: u32,
}

/// Gives values their registers, at most `limit` units of them; what does not fit is spilled so often.
fn registers(
    f: &mut Function,
    limit: u32,
    chip: &Chip,
    double: bool,
    rounds: usize,
) -> Result<Allocated, BackendError> {
    let mut slots = 0;
    let mut spilled = 0;
    let mut zero: Option<Value> = None;
    let mut own: Vec<Value> = Vec::new();
    for round in 0..=rounds {
        let mut fixed = Bits::new(f.shapes.len().max(1));
        for &value in own.iter().chain(f.inputs.iter().map(|(v, _)| v)) {
            fixed.add(value.0 as usize);
        }
        let tight = Way {
            limit,
            rotates: false,
            victims: 1 << round.min(4),
        };
        let victims = match allocate(f, &Registers, tight, &fixed) {
            Ok(places) => {
                // The same waves fit with some more of them, and fewer results wait for earlier readers then.
                let vectors = places.used.div_ceil(8);
                let loose = Way {
                    limit: (chip.room(vectors, double) * 8).min(limit),
                    rotates: true,
                    victims: 1,
                };
                let places = allocate(f, &Registers, loose, &fixed).unwrap_or(places);
                return Ok(Allocated {
                    places,
                    needed: vectors,
                    slots,
                    spilled,
                });
            }
            Err(victims) => victims,
        };
        let end = || BackendError::Registers {
            values: victims.len(),
            rounds: round,
        };
        if victims.is_empty() || slots > SLOTS || round == rounds {
            return Err(end());
        }
        let zero = *zero.get_or_insert_with(|| {
            let value = f.value(FULL, 1);
            let part = Part::of(value, 0);
            let code = Code::mov(Type::U32, Type::U32, part, Src::imm(0));
            if let Some(entry) = f.blocks.first_mut() {
                entry.insts.insert(0, code);
            }
            own.push(value);
            value
        });
        spilled += victims.len() as u32;
        slots = spill(f, &victims, &mut Private { zero }, slots, &mut own);
    }
    Err(BackendError::Registers { values: 0, rounds })
}

/// Compiles a function.
///
/// # Errors
/// See [`BackendError`].
pub fn compile(mut f: Function, launch: &Launch) -> Result<Object, BackendError> {
    let live = Live::of(&f);
    if let Some(&lane) = live.undefined(&f).first() {
        let owner = (0..f.shapes.len() as u32).find(|&v| live.lanes.all(Value(v)).contains(&lane));
        return Err(BackendError::Undefined {
            value: owner.unwrap_or(u32::MAX),
        });
    }
    let chip = &launch.file;
    // Waves of double size issue half registers at twice the rate, and more fibers wait at a time; smaller groups would
    // leave half of them empty. Each of them waits longer: where all waves run at the same time, single ones are done sooner.
    let mut double = chip.double
        && launch.items > chip.wave
        && (launch.waves > u64::from(chip.waves)
            || !chip.holds(launch.items, GENERAL as u32 / 8, false));
    merge(&mut f);
    coalesce(&mut f);
    let unordered = f.clone();
    before_allocation(&mut f, PRESSURE);
    let mut limit = GENERAL as u32;
    while limit > 8
        && !chip.holds(launch.items, limit / 8, double)
        && !chip.holds(launch.items, limit / 8, false)
    {
        limit -= 8;
    }
    let start = f.clone();
    let mut done = registers(&mut f, limit, chip, double, ROUNDS)?;
    if double && !chip.holds(launch.items, done.places.used.div_ceil(8), true) {
        double = false;
        f = start;
        done = registers(&mut f, limit, chip, double, ROUNDS)?;
    }
    // A few registers less, and more waves fit: the order gives up some latency for them, if there are more.
    let seats = u64::from(chip.occupancy(done.needed, double)) << u32::from(double);
    if let Some(fewer) = chip
        .step_below(done.needed, double)
        .filter(|&v| v >= FEWEST && done.spilled == 0 && launch.waves > seats)
    {
        for spare in SPARES {
            let mut other = unordered.clone();
            before_allocation(&mut other, (fewer * 8).saturating_sub(spare));
            if let Ok(tight) = registers(&mut other, fewer * 8, chip, double, 0) {
                (f, done) = (other, tight);
                break;
            }
        }
    }
    let mut blocks = straight(&f, &done.places, launch);
    for block in &mut blocks {
        let packed = pack::pack(std::mem::take(&mut block.insts));
        block.insts = after_allocation(packed);
    }
    synchronise(&mut blocks);
    let insts = layout(blocks);
    let lanes = |v: Value| 2 * usize::from(f.shape(v).lanes);
    let inputs = f.inputs.iter();
    let inputs = inputs.flat_map(|&(v, at)| at as usize..at as usize + lanes(v));
    let inputs: Vec<usize> = inputs.collect();
    check::check(&insts, &inputs).map_err(BackendError::Hazard)?;
    finish(&insts, launch, &done, double)
}

/// Units above which the scheduler prefers what frees some: a quarter of all, for about half of the waves.
const PRESSURE: u32 = 24 * 8 - SPARE;
/// Units that the scheduler does not count on: what is live between two instructions it sees too late.
const SPARE: u32 = 16;
/// The same, one after the other, where code has to fit fewer registers.
const SPARES: [u32; 3] = [SPARE, 2 * SPARE, 4 * SPARE];
/// Vectors below which more waves hide less than a better order does.
const FEWEST: u32 = 12;

/// Blocks of instructions in registers.
fn straight(f: &Function, places: &Places, launch: &Launch) -> Vec<Straight> {
    let unit = |part: Part| {
        let class = f.shape(part.value).class;
        let width = if class == HALF { 1 } else { 2 };
        let first = places.unit[part.value.0 as usize].unwrap_or(0);
        (first + u32::from(part.lane) * width, class)
    };
    let blocks = f.blocks.iter().enumerate().map(|(at, block)| Straight {
        // Blocks, until the layout is known.
        insts: block
            .insts
            .iter()
            .map(|code| place(code, &unit, code.target.unwrap_or(0) as i32))
            .collect(),
        next: block.next.clone(),
        joins: launch.joins.contains(&at),
    });
    let mut blocks: Vec<Straight> = blocks.collect();
    for block in &mut blocks {
        if block.joins && block.insts.is_empty() {
            block.insts.push(Inst::new(Op::Nop));
        }
    }
    blocks
}

/// One list, with the distances of branches: in instructions, from the branch itself.
fn layout(blocks: Vec<Straight>) -> Vec<Inst> {
    let mut starts = Vec::with_capacity(blocks.len() + 1);
    let mut next = 0;
    for block in &blocks {
        starts.push(next);
        next += block.insts.len() as i32;
    }
    starts.push(next);
    let mut insts: Vec<Inst> = blocks.into_iter().flat_map(|b| b.insts).collect();
    for (at, inst) in insts.iter_mut().enumerate() {
        if !matches!(inst.op, Op::Br | Op::Jump) {
            continue;
        }
        if let Some(Operand {
            value: Place::Imm(target),
            ..
        }) = inst.srcs.last_mut()
        {
            let start = starts.get(*target as usize).copied().unwrap_or(next);
            *target = start - at as i32;
        }
    }
    insts
}

/// Instructions of a preloaded unit of code.
const UNIT: usize = 16;
/// Nops behind the end, which are fetched with it.
const AFTER: usize = 4;

fn finish(
    insts: &[Inst],
    launch: &Launch,
    done: &Allocated,
    double: bool,
) -> Result<Object, BackendError> {
    let mut code = insts
        .iter()
        .map(super::encode)
        .collect::<Result<Vec<u64>, _>>()?;
    let length = (code.len() + AFTER).next_multiple_of(UNIT);
    code.resize(length, super::encode(&Inst::new(Op::Nop))?);
    let mut footprint = Footprint::default();
    let mut widest = |unit: usize, half: bool| {
        let full = unit / 8 + 1;
        if unit < GENERAL {
            footprint.full = footprint.full.max(full as u32);
            if half {
                footprint.half = footprint.half.max(unit as u32 / 4 + 1);
            }
        }
    };
    for inst in insts {
        units::reads(inst, |t| widest(t.unit, t.half));
        units::writes(inst, |t| widest(t.unit, t.half));
    }
    footprint.full = footprint.full.max(1);
    let constants = launch
        .constants
        .len()
        .max(launch.args as usize * 2)
        .next_multiple_of(16);
    let has = |f: Flags| insts.iter().filter(|i| i.flags.has(f)).count() as u32;
    let nops = insts.iter().map(|i| match i.op {
        Op::Nop => u32::from(i.repeat) + 1,
        _ => u32::from(i.nop),
    });
    Ok(Object {
        footprint,
        double,
        branches: launch.branches,
        items: launch.items,
        local_bytes: launch.local_bytes,
        private_bytes: done.slots * 4,
        args: launch.args,
        const_vectors: constants as u32 / 4,
        constants: launch.constants.clone(),
        waves: launch.file.occupancy(footprint.full, double),
        statistics: Statistics {
            instructions: insts.len() as u32,
            nops: nops.sum(),
            ss: has(Flags::SS),
            sy: has(Flags::SY),
            spilled: done.spilled,
        },
        code,
        images: launch.images.clone(),
        plain: None,
    })
}
