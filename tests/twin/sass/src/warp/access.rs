//! Loads and stores.

use super::fault::Cause;
use super::memory::Space;
use super::program::Refusal;
use super::reach::{Memories, lanes};
use super::simd;
use super::source::{Flag, Lanes, Pairs, Place, Reading};
use super::state::{Constants, State, each, mask};
use crate::operand::{Kind, Role};

/// An address, of each lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub space: Space,
    base: Option<u8>,
    /// Whether the base is two registers.
    wide: bool,
    scale: u8,
    uniform: Option<u8>,
    offset: i64,
}

impl Address {
    pub fn read(r: &mut Reading, space: Space) -> Result<Self, Refusal> {
        let memory = r.memory()?;
        if memory.matrix {
            return Err(r.refuse("descriptors of matrices are not modelled"));
        }
        let long = matches!(space, Space::Global | Space::Generic);
        Ok(Self {
            space,
            base: memory.base,
            wide: long && memory.width != 1 && r.has(".E"),
            scale: memory.scale,
            uniform: memory.uniform,
            offset: memory.offset,
        })
    }

    #[inline(always)]
    pub fn of(&self, state: &State) -> Pairs {
        let base = self.base.map_or([0; 32], |n| {
            let low = state.register(n);
            if self.wide && n != 255 {
                let high = state.register(n + 1);
                each(|i| u64::from(high[i]) << 32 | u64::from(low[i]))
            } else {
                each(|i| u64::from(low[i]))
            }
        });
        let long = matches!(self.space, Space::Global | Space::Generic);
        let uniform = self.uniform.filter(|&n| n != 255).map_or(0, |n| {
            let n = usize::from(n);
            let high = if long { state.uniform[n + 1] } else { 0 };
            u64::from(high) << 32 | u64::from(state.uniform[n])
        });
        let more = uniform.wrapping_add(self.offset.cast_unsigned());
        let address = base.map(|base| base.wrapping_mul(u64::from(self.scale)).wrapping_add(more));
        if long {
            address
        } else {
            address.map(|address| address & 0xffff_ffff)
        }
    }
}

/// How much of a register, or how many of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    bytes: usize,
    signed: bool,
}

impl Size {
    fn read(r: &Reading) -> Self {
        let of = |bytes, signed| Self { bytes, signed };
        r.choice(&[
            (".U8", of(1, false)),
            (".S8", of(1, true)),
            (".U16", of(2, false)),
            (".S16", of(2, true)),
            (".64", of(8, false)),
            (".128", of(16, false)),
        ])
        .unwrap_or(of(4, false))
    }

    fn registers(self) -> u8 {
        (self.bytes / 4).max(1) as u8
    }

    /// The first word of what was loaded.
    #[inline(always)]
    fn first(self, word: u32) -> u32 {
        let unused = 32 - 8 * (self.bytes.min(4) as u32);
        if self.signed {
            ((word << unused).cast_signed() >> unused).cast_unsigned()
        } else {
            word
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Load(Place, Address, Size),
    Store(Address, Place, Size),
    /// From constant memory: bank, offset, register that is added.
    Constant(Place, u8, i16, Option<Place>, Size),
    /// 32 bytes, in two groups of registers.
    LoadTwo([Place; 2], Address),
    StoreTwo(Address, [Place; 2]),
    /// Whether a generic address is of a memory; none is of another block's.
    Which(Flag, Address, Option<Space>),
}

pub(crate) fn lower(name: &str, r: &mut Reading) -> Result<Option<Op>, Refusal> {
    let space = match name {
        "LDG" | "STG" => Space::Global,
        "LD" | "ST" | "QSPC" => Space::Generic,
        "LDS" | "STS" => Space::Shared,
        "LDL" | "STL" => Space::Local,
        "LDC" | "LDCU" => return constant(r).map(Some),
        _ => return Ok(None),
    };
    if name == "QSPC" {
        return which(r).map(Some);
    }
    // Predicates that are written, of which nobody knows what for.
    while written(r) {
        if r.flag()?.number != 7 {
            return Err(r.refuse("what its predicate says is not known"));
        }
    }
    if r.has(".256") {
        return two(name, r).map(Some);
    }
    Ok(Some(if name.starts_with("LD") {
        let to = r.place()?;
        let at = Address::read(r, space)?;
        always(r)?;
        Op::Load(to, at, Size::read(r))
    } else {
        Op::Store(Address::read(r, space)?, value(r)?, Size::read(r))
    }))
}

/// A load names the registers of the upper half first, a store those of the lower one.
fn two(name: &str, r: &mut Reading) -> Result<Op, Refusal> {
    let op = if name == "LDG" {
        let (high, low) = (r.place()?, r.place()?);
        Op::LoadTwo([low, high], Address::read(r, Space::Global)?)
    } else {
        let at = Address::read(r, Space::Global)?;
        Op::StoreTwo(at, [value(r)?, value(r)?])
    };
    if r.peek()
        .is_some_and(|operand| matches!(operand.kind, Kind::Immediate(..)))
    {
        return Err(r.refuse("a part of the 32 bytes is not modelled"));
    }
    always(r)?;
    Ok(op)
}

/// Whether a predicate that is written comes next.
pub(crate) fn written(r: &Reading) -> bool {
    r.peek().is_some_and(|operand| {
        matches!(operand.kind, Kind::Predicate(_)) && operand.role == Role::Write
    })
}

fn which(r: &mut Reading) -> Result<Op, Refusal> {
    let space = r
        .choice(&[
            (".G", Some(Space::Global)),
            (".L", Some(Space::Local)),
            (".S", Some(Space::Shared)),
        ])
        .unwrap_or(None);
    let flag = r.flag()?;
    if r.place()? != Place::Register(255) {
        return Err(r.refuse("what it writes into a register is not known"));
    }
    Ok(Op::Which(flag, Address::read(r, Space::Generic)?, space))
}

/// A condition that must be true.
pub(crate) fn always(r: &mut Reading) -> Result<(), Refusal> {
    while r.left() > 0 {
        let condition = r.condition()?;
        if condition.number != 7 || condition.inverted {
            return Err(r.refuse("what its predicate says is not known"));
        }
    }
    Ok(())
}

/// A register that is read as it is.
pub(crate) fn value(r: &mut Reading) -> Result<Place, Refusal> {
    let operand = r.next()?;
    match operand.kind {
        Kind::Register(n) => Ok(Place::Register(n)),
        _ => Err(r.refuse(format!("a register was expected, not '{operand}'"))),
    }
}

fn constant(r: &mut Reading) -> Result<Op, Refusal> {
    let size = Size::read(r);
    if [".IL", ".IS", ".ISL"].iter().any(|mode| r.has(mode)) {
        return Err(r.refuse("indexed banks are not modelled"));
    }
    let to = r.place()?;
    let operand = r.next()?;
    match operand.kind {
        Kind::Constant(bank, at, base) => {
            let base = base.filter(|&n| n != 255).map(Place::Register);
            Ok(Op::Constant(to, bank, at, base, size))
        }
        Kind::ConstantBy(bank, at, base) => {
            let at = i16::try_from(at).map_err(|_| r.refuse("the bank ends before"))?;
            Ok(Op::Constant(to, bank, at, Some(Place::Uniform(base)), size))
        }
        _ => Err(r.refuse("constant memory by a handle is not modelled")),
    }
}

/// The bytes of some registers of a lane.
#[inline(always)]
pub(crate) fn gather(state: &State, from: Place, lane: usize, bytes: &mut [u8]) {
    for (k, chunk) in bytes.chunks_mut(4).enumerate() {
        let word = match from.after(k as u8) {
            Place::Register(n) => state.register(n)[lane],
            Place::Uniform(n) => state.uniform[usize::from(n)],
        };
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
}

/// The first four bytes, or zeros where there are fewer.
#[inline(always)]
pub(crate) fn word(bytes: &[u8]) -> u32 {
    match bytes.first_chunk() {
        Some(bytes) => u32::from_le_bytes(*bytes),
        None => bytes
            .iter()
            .rev()
            .fold(0, |word, &byte| word << 8 | u32::from(byte)),
    }
}

/// Loads some bytes for each lane; a loop for each size, which compilers unroll.
#[inline(always)]
fn load<const BYTES: usize>(
    state: &mut State,
    memories: &mut Memories,
    to: Place,
    at: &Address,
    size: Size,
    active: u32,
) -> Result<(), Cause> {
    let values = memories.read::<BYTES>(at.space, &at.of(state), active)?;
    let count = BYTES.div_ceil(4);
    for k in 0..count {
        let part = each(|i| word(&values[i][4 * k..]));
        let part = if BYTES < 4 {
            part.map(|x| size.first(x))
        } else {
            part
        };
        state.put(to.after(k as u8), active, &part);
    }
    Ok(())
}

#[inline(always)]
fn store<const BYTES: usize>(
    state: &State,
    memories: &mut Memories,
    at: &Address,
    from: Place,
    active: u32,
) -> Result<(), Cause> {
    let mut values = [[0; BYTES]; 32];
    for (k, at) in (0..BYTES).step_by(4).enumerate() {
        let words: Lanes = state.read(from.after(k as u8));
        for (value, word) in values.iter_mut().zip(words) {
            let value = &mut value[at..];
            let len = value.len().min(4);
            value[..len].copy_from_slice(&word.to_le_bytes()[..len]);
        }
    }
    memories.write(at.space, &at.of(state), active, &mut values)
}

/// An access of the lanes of a mask.
pub(crate) fn run(
    state: &mut State,
    c: &Constants,
    memories: &mut Memories,
    op: &Op,
    active: u32,
) -> Result<(), Cause> {
    simd::run(Run(state, c, memories, op, active))
}

struct Run<'a, 'b>(
    &'a mut State,
    &'a Constants<'a>,
    &'a mut Memories<'b>,
    &'a Op,
    u32,
);

impl simd::Kernel for Run<'_, '_> {
    type Out = Result<(), Cause>;

    #[inline(always)]
    fn run(self) -> Self::Out {
        let Self(state, c, memories, op, active) = self;
        match *op {
            Op::Load(to, ref at, size) => match size.bytes {
                1 => load::<1>(state, memories, to, at, size, active)?,
                2 => load::<2>(state, memories, to, at, size, active)?,
                4 => load::<4>(state, memories, to, at, size, active)?,
                8 => load::<8>(state, memories, to, at, size, active)?,
                _ => load::<16>(state, memories, to, at, size, active)?,
            },
            Op::Store(ref at, from, size) => match size.bytes {
                1 => store::<1>(state, memories, at, from, active)?,
                2 => store::<2>(state, memories, at, from, active)?,
                4 => store::<4>(state, memories, at, from, active)?,
                8 => store::<8>(state, memories, at, from, active)?,
                _ => store::<16>(state, memories, at, from, active)?,
            },
            Op::LoadTwo(to, ref at) => {
                let values = memories.read::<32>(at.space, &at.of(state), active)?;
                for k in 0..8 {
                    let part = each(|i| word(&values[i][4 * k..]));
                    state.put(to[k / 4].after(k as u8 % 4), active, &part);
                }
            }
            Op::StoreTwo(ref at, from) => {
                let mut values = [[0; 32]; 32];
                for k in 0..8 {
                    let words: Lanes = state.read(from[k / 4].after(k as u8 % 4));
                    for (value, word) in values.iter_mut().zip(words) {
                        value[4 * k..4 * k + 4].copy_from_slice(&word.to_le_bytes());
                    }
                }
                memories.write(at.space, &at.of(state), active, &mut values)?;
            }
            Op::Which(flag, ref at, space) => {
                let address: Pairs = at.of(state);
                let windows = memories.windows;
                let holds = mask(|i| Some(windows.resolve(Space::Generic, address[i]).0) == space);
                state.set(flag, active, holds);
            }
            Op::Constant(to, bank, at, base, size) => {
                let base = base.map_or([0; 32], |base| state.read(base));
                let mut value: [Lanes; 4] = [[0; 32]; 4];
                for i in lanes(active) {
                    let address = base[i].wrapping_add_signed(i32::from(at));
                    // Without a base the offset has no sign.
                    let address = if base[i] == 0 {
                        u32::from(at.cast_unsigned())
                    } else {
                        address
                    };
                    let bytes =
                        c.bytes(bank, address as usize, size.bytes)
                            .ok_or(Cause::Constant {
                                lane: i as u8,
                                bank,
                                address: u64::from(address),
                                bytes: size.bytes,
                            })?;
                    for (value, bytes) in value.iter_mut().zip(bytes.chunks(4)) {
                        value[i] = word(bytes);
                    }
                }
                value[0] = value[0].map(|x| size.first(x));
                for k in 0..size.registers() {
                    state.put(to.after(k), active, &value[usize::from(k)]);
                }
            }
        }
        Ok(())
    }
}
