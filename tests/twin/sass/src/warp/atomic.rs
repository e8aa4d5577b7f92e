//! Atomics.

use super::access::{Address, gather, value, word, written};
use super::double;
use super::fault::Cause;
use super::half::Type;
use super::memory::{Denied, Space};
use super::program::Refusal;
use super::reach::{How, Memories, lanes};
use super::rounding::{Rounding, odd_sum};
use super::single::{canonical, flush};
use super::source::{Flag, Lanes, Place, Reading};
use super::state::{State, mask};
use crate::operand::Kind;

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
pub(crate) struct Op {
    old: Option<Place>,
    /// Whether it was done: at a generic address only in global memory. Code does it another way then.
    done: Option<Flag>,
    /// Whether a comparison was met, of those that say so by a predicate.
    met: Option<Flag>,
    at: Address,
    value: Place,
    second: Place,
    /// Bytes of each, and how many there are: vectors are done one by one.
    bytes: usize,
    count: usize,
    change: Change,
    element: Element,
}

pub(crate) fn lower(name: &str, r: &mut Reading) -> Result<Option<Op>, Refusal> {
    let space = match name {
        "ATOMG" | "RED" | "REDG" => Space::Global,
        "ATOM" => Space::Generic,
        "ATOMS" => Space::Shared,
        _ => return Ok(None),
    };
    let mut done = None;
    while written(r) {
        done = Some(r.flag()?).filter(|flag| flag.number != 7);
    }
    let silent = r
        .peek()
        .is_some_and(|operand| matches!(operand.kind, Kind::Memory(_)));
    let old = if silent { None } else { Some(r.place()?) };
    let mut met = None;
    if name == "ATOMS" && silent {
        std::mem::swap(&mut done, &mut met);
    }
    if done.is_some() && space != Space::Generic {
        return Err(r.refuse("what its predicate says is not known"));
    }
    let at = Address::read(r, space)?;
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
    use Element::{Double, Pair, Signed, Single, Unsigned};
    let (half, brain) = (Pair(Type::Half), Pair(Type::Brain));
    let (bytes, count, element) = r
        .choice(&[
            (".S32", (4, 1, Signed)),
            (".64", (8, 1, Unsigned)),
            (".S64", (8, 1, Signed)),
            (".128", (16, 1, Unsigned)),
            (".F32.FTZ.RN", (4, 1, Single(true))),
            (".F32x2.FTZ.RN", (4, 2, Single(true))),
            (".F32x4.FTZ.RN", (4, 4, Single(true))),
            (".F32.RN", (4, 1, Single(false))),
            (".F32x2.RN", (4, 2, Single(false))),
            (".F32x4.RN", (4, 4, Single(false))),
            (".F64.RN", (8, 1, Double)),
            (".F16x2.RN", (4, 1, half)),
            (".F16x4.RN", (4, 2, half)),
            (".F16x8.RN", (4, 4, half)),
            (".BF16x2.RN", (4, 1, brain)),
            (".BF16x4.RN", (4, 2, brain)),
            (".BF16x8.RN", (4, 4, brain)),
        ])
        .unwrap_or((4, 1, Unsigned));
    if change == Change::Count && old != Some(Place::Register(255)) {
        return Err(r.refuse("what it returns is not known"));
    }
    let mut source = || {
        if r.left() > 0 {
            value(r)
        } else {
            Ok(Place::Register(255))
        }
    };
    Ok(Some(Op {
        old,
        done,
        met,
        at,
        value: source()?,
        second: source()?,
        bytes,
        count,
        change,
        element,
    }))
}

pub(crate) fn run(
    state: &mut State,
    memories: &mut Memories,
    op: &Op,
    active: u32,
) -> Result<(), Cause> {
    let Op {
        at,
        bytes: len,
        count,
        change,
        element,
        ..
    } = *op;
    let address = at.of(state);
    let mut able = active;
    if let Some(done) = op.done {
        let windows = memories.windows;
        able &= mask(|i| windows.resolve(at.space, address[i]).0 == Space::Global);
        state.set(done, active, able);
    }
    let mut met = 0;
    let mut olds: [Lanes; 4] = [[0; 32]; 4];
    for i in lanes(able) {
        let all = len * count;
        if address[i] & (all as u64 - 1) != 0 {
            return Err(Cause::Memory {
                lane: i as u8,
                space: at.space,
                address: address[i],
                bytes: all,
                write: true,
                why: Denied::Misaligned,
            });
        }
        for part in 0..count {
            let (mut bytes, mut x, mut y) = ([0; 16], [0; 16], [0; 16]);
            gather(state, op.value.after(part as u8), i, &mut x[..len]);
            gather(state, op.second, i, &mut y[..len]);
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
            let place = address[i] + (part * len) as u64;
            memories.access(at.space, i, place, &mut bytes[..len], update)?;
            met |= u32::from(swapped) << i;
            if change == Change::Compare(true) {
                bytes = u128::from(swapped).to_le_bytes();
            }
            for k in 0..len / 4 {
                olds[part + k][i] = word(&bytes[4 * k..]);
            }
        }
    }
    if let Some(flag) = op.met {
        state.set(flag, active, met);
    }
    if let Some(old) = op.old {
        for (k, value) in olds[..len / 4 * count].iter().enumerate() {
            state.put(old.after(k as u8), able, value);
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
            u128::from(double::canonical(match change {
                Change::Min => f(old).min(f(x)),
                Change::Max => f(old).max(f(x)),
                _ => f(old) + f(x),
            }))
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
