//! Loads, stores, atomics.

use super::fault::Cause;
use super::half::Type;
use super::memory::{Denied, Memory, Space, Windows, part};
use super::program::Refusal;
use super::rounding::{Rounding, odd_sum};
use super::single::{canonical, flush};
use super::source::{Lanes, Pairs, Place, Reading};
use super::state::{Constants, State, each};
use crate::operand::{Kind, Role};

/// An address, of each lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    space: Space,
    base: Option<u8>,
    /// Whether the base is two registers.
    wide: bool,
    scale: u8,
    uniform: Option<u8>,
    offset: i64,
}

impl Address {
    fn read(r: &mut Reading, space: Space) -> Result<Self, Refusal> {
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

    #[inline]
    fn of(&self, state: &State) -> Pairs {
        let base = self.base.map_or([0; 32], |n| {
            let low = &state.registers[usize::from(n)];
            let high = if self.wide && n != 255 {
                state.registers[usize::from(n) + 1]
            } else {
                [0; 32]
            };
            each(|i| u64::from(high[i]) << 32 | u64::from(low[i]))
        });
        let long = matches!(self.space, Space::Global | Space::Generic);
        let uniform = self.uniform.filter(|&n| n != 63).map_or(0, |n| {
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
    fn first(self, word: u32) -> u32 {
        let unused = 32 - 8 * (self.bytes.min(4) as u32);
        if self.signed {
            ((word << unused).cast_signed() >> unused).cast_unsigned()
        } else {
            word
        }
    }
}

/// What an atomic does to what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Add,
    Min,
    Max,
    /// One more, but zero after a bound.
    Increment,
    /// One less, but the bound after zero.
    Decrement,
    And,
    Or,
    Xor,
    Exchange,
    /// What is to be there comes first, the new value second. Whether the result is that it was there: 1, of
    /// as many registers as the value has.
    Compare(bool),
    /// One more for each lane that names it.
    Count,
}

/// Of which type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    Unsigned,
    Signed,
    Single(bool),
    Double,
    Pair(Type),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Load(Place, Address, Size),
    Store(Address, Place, Size),
    Atomic {
        old: Option<Place>,
        at: Address,
        value: Place,
        second: Place,
        bytes: usize,
        change: Change,
        element: Element,
    },
    /// From constant memory: bank, offset, register that is added.
    Constant(Place, u8, i16, Option<u8>, Size),
}

/// What a block's warps share, and what is beyond.
pub(crate) struct Memories<'a, M: ?Sized> {
    pub global: &'a mut M,
    pub shared: &'a mut [u8],
    /// That of the warp's lanes, one after the other.
    pub local: &'a mut [u8],
    pub windows: Windows,
}

impl<M: Memory + ?Sized> Memories<'_, M> {
    #[inline]
    fn own(&mut self, space: Space, lane: usize) -> &mut [u8] {
        if space == Space::Shared {
            return self.shared;
        }
        let each = self.local.len() / 32;
        &mut self.local[lane * each..(lane + 1) * each]
    }

    /// Does something with the bytes at an address; global memory is asked for more than a slice.
    #[inline(always)]
    fn access(
        &mut self,
        space: Space,
        lane: usize,
        address: u64,
        bytes: &mut [u8],
        how: How,
    ) -> Result<(), Cause> {
        let (space, address) = self.windows.resolve(space, address);
        let write = !matches!(how, How::Read);
        let len = bytes.len();
        let done = if address & (len as u64 - 1) != 0 {
            Err(Denied::Misaligned)
        } else if space == Space::Global {
            match how {
                How::Read => self.global.read(address, bytes),
                How::Write => self.global.write(address, bytes),
                How::Update(change) => self.global.update(address, bytes, change),
            }
        } else {
            part(self.own(space, lane), address, len).map(|there| match how {
                How::Read => bytes.copy_from_slice(there),
                How::Write => there.copy_from_slice(bytes),
                How::Update(change) => {
                    bytes.copy_from_slice(there);
                    change(there);
                }
            })
        };
        done.map_err(|why| Cause::Memory {
            lane: lane as u8,
            space,
            address,
            bytes: len,
            write,
            why,
        })
    }
}

enum How<'a> {
    Read,
    Write,
    Update(&'a mut dyn FnMut(&mut [u8])),
}

pub(crate) fn lower(name: &str, r: &mut Reading) -> Result<Option<Op>, Refusal> {
    let space = match name {
        "LDG" | "STG" | "ATOMG" | "RED" | "REDG" => Space::Global,
        "LD" | "ST" | "ATOM" => Space::Generic,
        "LDS" | "STS" | "ATOMS" => Space::Shared,
        "LDL" | "STL" => Space::Local,
        "LDC" => return constant(r).map(Some),
        _ => return Ok(None),
    };
    // Predicates that are written, of which nobody knows what for.
    while r.peek().is_some_and(|operand| {
        matches!(operand.kind, Kind::Predicate(_)) && operand.role == Role::Write
    }) {
        if r.flag()?.number != 7 {
            return Err(r.refuse("what its predicate says is not known"));
        }
    }
    let op = match name {
        "LDG" | "LD" | "LDS" | "LDL" => {
            let to = r.place()?;
            let at = Address::read(r, space)?;
            always(r)?;
            Op::Load(to, at, Size::read(r))
        }
        "STG" | "ST" | "STS" | "STL" => {
            Op::Store(Address::read(r, space)?, value(r)?, Size::read(r))
        }
        _ => {
            let old = if matches!(name, "RED" | "REDG") {
                None
            } else {
                Some(r.place()?)
            };
            let at = Address::read(r, space)?;
            atomic(r, old, at)?
        }
    };
    Ok(Some(op))
}

/// A condition that must be true.
fn always(r: &mut Reading) -> Result<(), Refusal> {
    while r.left() > 0 {
        let condition = r.condition()?;
        if condition.number != 7 || condition.inverted {
            return Err(r.refuse("what its predicate says is not known"));
        }
    }
    Ok(())
}

/// A register that is read as it is.
fn value(r: &mut Reading) -> Result<Place, Refusal> {
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
            Ok(Op::Constant(to, bank, at, base.filter(|&n| n != 255), size))
        }
        _ => Err(r.refuse("constant memory by a handle is not modelled")),
    }
}

fn atomic(r: &mut Reading, old: Option<Place>, at: Address) -> Result<Op, Refusal> {
    let change = r.choice(&[
        (".ADD", Change::Add),
        (".MIN", Change::Min),
        (".MAX", Change::Max),
        (".INC", Change::Increment),
        (".DEC", Change::Decrement),
        (".AND", Change::And),
        (".OR", Change::Or),
        (".XOR", Change::Xor),
        (".EXCH", Change::Exchange),
        (".CAS", Change::Compare(false)),
        (".CAST.SPIN", Change::Compare(true)),
        (".POPC.INC.32", Change::Count),
    ]);
    let change = change.ok_or_else(|| r.refuse("what it does is not modelled"))?;
    let (bytes, element) = r
        .choice(&[
            (".S32", (4, Element::Signed)),
            (".64", (8, Element::Unsigned)),
            (".S64", (8, Element::Signed)),
            (".128", (16, Element::Unsigned)),
            (".F32.FTZ.RN", (4, Element::Single(true))),
            (".F32.RN", (4, Element::Single(false))),
            (".F64.RN", (8, Element::Double)),
            (".F16x2.RN", (4, Element::Pair(Type::Half))),
            (".BF16x2.RN", (4, Element::Pair(Type::Brain))),
        ])
        .unwrap_or((4, Element::Unsigned));
    if r.inst
        .modifiers
        .iter()
        .any(|text| text.contains("x4") || text.contains("x8") || text.contains("F32x2"))
    {
        return Err(r.refuse("vectors are not modelled"));
    }
    if change == Change::Count && old != Some(Place::Register(255)) {
        return Err(r.refuse("what it returns is not known"));
    }
    let first = if r.left() > 0 {
        value(r)?
    } else {
        Place::Register(255)
    };
    let second = if r.left() > 0 {
        value(r)?
    } else {
        Place::Register(255)
    };
    Ok(Op::Atomic {
        old,
        at,
        value: first,
        second,
        bytes,
        change,
        element,
    })
}

fn lanes(active: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |i| active >> i & 1 != 0)
}

/// The bytes of some registers of a lane.
#[inline]
fn gather(state: &State, from: Place, lane: usize, bytes: &mut [u8]) {
    for (k, chunk) in bytes.chunks_mut(4).enumerate() {
        let word = match from.after(k as u8) {
            Place::Register(n) => state.registers[usize::from(n)][lane],
            Place::Uniform(n) => state.uniform[usize::from(n)],
        };
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
}

/// The first four bytes, or zeros where there are fewer.
#[inline]
fn word(bytes: &[u8]) -> u32 {
    match bytes.first_chunk() {
        Some(bytes) => u32::from_le_bytes(*bytes),
        None => bytes
            .iter()
            .rev()
            .fold(0, |word, &byte| word << 8 | u32::from(byte)),
    }
}

/// Loads some bytes for each lane; a loop for each size, which compilers unroll.
fn load<const BYTES: usize, M: Memory + ?Sized>(
    state: &mut State,
    memories: &mut Memories<M>,
    to: Place,
    at: &Address,
    size: Size,
    active: u32,
) -> Result<(), Cause> {
    let address = at.of(state);
    let mut values: [Lanes; 4] = [[0; 32]; 4];
    let values = &mut values[..BYTES.div_ceil(4)];
    for i in lanes(active) {
        let mut bytes = [0; BYTES];
        memories.access(at.space, i, address[i], &mut bytes, How::Read)?;
        for (value, bytes) in values.iter_mut().zip(bytes.chunks(4)) {
            value[i] = word(bytes);
        }
    }
    if BYTES < 4 {
        values[0] = values[0].map(|x| size.first(x));
    }
    for (k, value) in (0..).zip(values) {
        state.put(to.after(k), active, value);
    }
    Ok(())
}

fn store<const BYTES: usize, M: Memory + ?Sized>(
    state: &State,
    memories: &mut Memories<M>,
    at: &Address,
    from: Place,
    active: u32,
) -> Result<(), Cause> {
    let address = at.of(state);
    for i in lanes(active) {
        let mut bytes = [0; BYTES];
        gather(state, from, i, &mut bytes);
        memories.access(at.space, i, address[i], &mut bytes, How::Write)?;
    }
    Ok(())
}

pub(crate) fn run<M: Memory + ?Sized>(
    state: &mut State,
    c: &Constants,
    memories: &mut Memories<M>,
    op: &Op,
    active: u32,
) -> Result<(), Cause> {
    match *op {
        Op::Load(to, ref at, size) => match size.bytes {
            1 => load::<1, M>(state, memories, to, at, size, active)?,
            2 => load::<2, M>(state, memories, to, at, size, active)?,
            4 => load::<4, M>(state, memories, to, at, size, active)?,
            8 => load::<8, M>(state, memories, to, at, size, active)?,
            _ => load::<16, M>(state, memories, to, at, size, active)?,
        },
        Op::Store(ref at, from, size) => match size.bytes {
            1 => store::<1, M>(state, memories, at, from, active)?,
            2 => store::<2, M>(state, memories, at, from, active)?,
            4 => store::<4, M>(state, memories, at, from, active)?,
            8 => store::<8, M>(state, memories, at, from, active)?,
            _ => store::<16, M>(state, memories, at, from, active)?,
        },
        Op::Atomic {
            old,
            ref at,
            value,
            second,
            bytes: len,
            change,
            element,
        } => {
            let address = at.of(state);
            let mut olds: [Lanes; 4] = [[0; 32]; 4];
            for i in lanes(active) {
                let (mut bytes, mut x, mut y) = ([0; 16], [0; 16], [0; 16]);
                gather(state, value, i, &mut x[..len]);
                gather(state, second, i, &mut y[..len]);
                let (x, y) = (u128::from_le_bytes(x), u128::from_le_bytes(y));
                let mut swapped = false;
                let mut change_bytes = |there: &mut [u8]| {
                    let mut old = [0; 16];
                    old[..len].copy_from_slice(there);
                    let old = u128::from_le_bytes(old);
                    swapped = old == x;
                    let new = changed(change, element, 8 * len as u32, old, x, y);
                    there.copy_from_slice(&new.to_le_bytes()[..len]);
                };
                let update = How::Update(&mut change_bytes);
                memories.access(at.space, i, address[i], &mut bytes[..len], update)?;
                if change == Change::Compare(true) {
                    bytes = u128::from(swapped).to_le_bytes();
                }
                for k in 0..len / 4 {
                    olds[k][i] = word(&bytes[4 * k..]);
                }
            }
            if let Some(old) = old {
                for (k, value) in olds[..len / 4].iter().enumerate() {
                    state.put(old.after(k as u8), active, value);
                }
            }
        }
        Op::Constant(to, bank, at, base, size) => {
            let base = base.map_or([0; 32], |n| state.registers[usize::from(n)]);
            let mut value: [Lanes; 2] = [[0; 32]; 2];
            for i in lanes(active) {
                let address = base[i].wrapping_add_signed(i32::from(at));
                // Without a base the offset has no sign.
                let address = if base[i] == 0 {
                    u32::from(at.cast_unsigned())
                } else {
                    address
                };
                let bytes = c
                    .bytes(bank, address as usize, size.bytes)
                    .ok_or(Cause::Constant {
                        lane: i as u8,
                        bank,
                        address: u64::from(address),
                        bytes: size.bytes,
                    })?;
                value[0][i] = word(bytes);
                value[1][i] = bytes.get(4..).map_or(0, word);
            }
            value[0] = value[0].map(|x| size.first(x));
            for k in 0..size.registers() {
                state.put(to.after(k), active, &value[usize::from(k)]);
            }
        }
    }
    Ok(())
}

/// What takes the place of a value, of so many bits.
fn changed(change: Change, element: Element, bits: u32, old: u128, x: u128, y: u128) -> u128 {
    let signed = |v: u128| (v << (128 - bits)).cast_signed() >> (128 - bits);
    let least = |first: bool| {
        if first == (change == Change::Min) {
            old
        } else {
            x
        }
    };
    match (change, element) {
        (Change::And, _) => old & x,
        (Change::Or, _) => old | x,
        (Change::Xor, _) => old ^ x,
        (Change::Exchange, _) => x,
        (Change::Compare(_), _) => {
            if old == x {
                y
            } else {
                old
            }
        }
        (Change::Count, _) => old.wrapping_add(1),
        (Change::Increment, _) => {
            if old >= x {
                0
            } else {
                old + 1
            }
        }
        (Change::Decrement, _) => {
            if old == 0 || old > x {
                x
            } else {
                old - 1
            }
        }
        (Change::Min | Change::Max, Element::Signed) => least(signed(old) < signed(x)),
        (Change::Min | Change::Max, Element::Unsigned) => least(old < x),
        (Change::Add, Element::Unsigned | Element::Signed) => old.wrapping_add(x),
        (_, Element::Single(flushes)) => {
            let f = |v: u128| f32::from_bits(if flushes { flush(v as u32) } else { v as u32 });
            let result = canonical(match change {
                Change::Min => f(old).min(f(x)),
                Change::Max => f(old).max(f(x)),
                _ => f(old) + f(x),
            });
            u128::from(if flushes { flush(result) } else { result })
        }
        (_, Element::Double) => {
            let f = |v: u128| f64::from_bits(v as u64);
            u128::from(
                match change {
                    Change::Min => f(old).min(f(x)),
                    Change::Max => f(old).max(f(x)),
                    _ => f(old) + f(x),
                }
                .to_bits(),
            )
        }
        (_, Element::Pair(short)) => {
            let half = |k: u32| {
                let f = |v: u128| short.wide((v >> (16 * k)) as u32 & 0xffff);
                let (a, b) = (f(old), f(x));
                let result = match change {
                    Change::Min => f64::from(a.min(b)),
                    Change::Max => f64::from(a.max(b)),
                    _ => odd_sum(f64::from(a), f64::from(b)),
                };
                short.narrow(result, Rounding::Nearest)
            };
            u128::from(half(0) | half(1) << 16)
        }
    }
}
