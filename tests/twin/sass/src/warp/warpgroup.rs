//! Products of matrices by four warps together, which go on beside them: `wgmma` of PTX.
//!
//! A row of A and a column of B is 32 bytes. Each warp has 16 rows of the sums. B is in shared memory, A is
//! there or in registers, as the fragments of `mma.sync` are. A product is computed when all four warps have
//! begun it and one of them waits for it, not before: as late as the hardware may. What it reads of shared
//! memory, it reads then; a warp has its sums when it has waited for them itself.
//!
//! That the four warps begin the same products in the same order is a rule of the manual of PTX (`.sync`,
//! `.aligned`). That all of them have to begin one before a warp that waits for it goes on is a guess, on which
//! NVIDIA's CUTLASS relies: one thread of four warps says that shared memory may be overwritten.

use std::collections::VecDeque;

use super::bulk::Flights;
use super::canonical;
use super::eighth::Eighth;
use super::fault::Cause;
use super::half::Type;
use super::matrix::{dot, every, place, register};
use super::memory::{Denied, Space};
use super::product::{Factor, Product, Unit};
use super::program::Refusal;
use super::source::{Condition, Lanes, Place, Reading, Source, Style};
use super::state::{Constants, State, each};
use super::threads::Threads;
use crate::Chip;
use crate::operand::Kind;

/// Warps of a group.
pub(crate) const WARPS: usize = 4;

/// What is multiplied, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Element {
    /// Whether the sums are halves.
    Float(Factor, bool),
    Integer {
        signed: [bool; 2],
        saturate: bool,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    to: Place,
    /// What is added.
    sums: Source,
    adds: Condition,
    /// A, if it is in registers.
    a: Option<Source>,
    /// The first of the uniform registers that describe A and B.
    descriptors: u8,
    element: Element,
    columns: usize,
    /// Which of A and B lie column by column, and are negative.
    turned: [bool; 2],
    negative: [bool; 2],
    /// Whether it is the last of those that are waited for together.
    closes: bool,
}

pub(crate) fn lower(name: &str, r: &mut Reading) -> Result<Option<Op>, Refusal> {
    let factor = match (name, &Eighth::read(r)[..]) {
        ("HGMMA", _) => Some(
            r.choice(&[
                (".TF32", Factor::Tf32),
                (".BF16", Factor::Short(Type::Brain)),
            ])
            .unwrap_or(Factor::Short(Type::Half)),
        ),
        ("QGMMA", &[a, b]) => Some(Factor::Eighths([a, b])),
        ("IGMMA", _) => None,
        ("QGMMA", _) => return Err(r.refuse("two types were expected")),
        _ => return Ok(None),
    };
    let signs: Vec<bool> = r
        .inst
        .modifiers
        .iter()
        .filter(|text| matches!(**text, ".S8" | ".U8"))
        .map(|text| *text == ".S8")
        .collect();
    let half = r.has(".F16");
    let element = match (factor, &signs[..]) {
        (Some(factor), []) => Element::Float(factor, half),
        (None, &[a, b]) => Element::Integer {
            signed: [a, b],
            saturate: r.has(".SAT"),
        },
        _ => return Err(r.refuse("two types were expected")),
    };
    let width = r.peek().map_or(0, |operand| usize::from(operand.width));
    let to = r.place()?;
    let is_register = |kind| matches!(kind, Kind::Register(_));
    let style = match element {
        Element::Float(Factor::Tf32, _) => Style::Float,
        Element::Float(Factor::Short(_), _) => Style::Halves,
        Element::Float(..) | Element::Integer { .. } => Style::Integer,
    };
    let mut negative = [false; 2];
    let a = if r.peek().is_some_and(|operand| is_register(operand.kind)) {
        negative[0] = r.peek().is_some_and(|operand| operand.sign.negative);
        Some(Source {
            and: u32::MAX,
            xor: 0,
            plus: 0,
            ..r.source(style)?
        })
    } else {
        None
    };
    let part = r.peek().map_or("", |operand| operand.part);
    negative[0] |= part.contains(".negA");
    negative[1] = part.contains(".negB");
    let memory = r.memory()?;
    let descriptors = memory
        .descriptor
        .filter(|_| memory.matrix)
        .ok_or_else(|| r.refuse("descriptors of matrices were expected"))?;
    let sums = r.source(Style::Integer)?;
    let adds = r.condition()?;
    Ok(Some(Op {
        to,
        sums,
        adds,
        a,
        descriptors,
        element,
        columns: if half { 4 * width } else { 2 * width },
        turned: [part.contains(".tnspA"), part.contains(".tnspB")],
        negative,
        closes: r.left() > 0,
    }))
}

/// A product that a warp has begun.
struct Begun {
    /// Its instruction.
    at: u32,
    op: Op,
    descriptors: [u64; 2],
    a: Option<[Lanes; 4]>,
    adds: bool,
    /// The sums, when they are computed.
    sums: Option<Vec<Lanes>>,
}

/// The products of a warp that have begun and were not waited for.
#[derive(Default)]
pub(crate) struct Products {
    /// How many it had its sums of.
    over: u64,
    begun: VecDeque<Begun>,
    /// How many had begun at the end of each group.
    groups: VecDeque<u64>,
}

impl Products {
    pub fn begin(&mut self, state: &State, c: &Constants, op: &Op, at: u32) {
        let pair = |n: u8| {
            let n = usize::from(n);
            u64::from(state.uniform[n + 1]) << 32 | u64::from(state.uniform[n])
        };
        let a = |source: &Source| std::array::from_fn(|k| state.get(&register(source, k), c));
        let first = if op.a.is_none() {
            pair(op.descriptors)
        } else {
            0
        };
        self.begun.push_back(Begun {
            at,
            op: *op,
            descriptors: [first, pair(op.descriptors + 2)],
            a: op.a.as_ref().map(a),
            adds: state.test(op.adds) != 0,
            sums: None,
        });
        if op.closes {
            self.groups.push_back(self.count());
        }
    }

    /// How many have begun in all.
    fn count(&self) -> u64 {
        self.over + self.begun.len() as u64
    }

    /// How many have to be computed before no more than some groups are left, if any that is not.
    pub fn until(&mut self, left: usize) -> Option<u64> {
        let over = self.groups.len().checked_sub(left + 1)?;
        self.groups.get(over).copied()
    }

    /// The sums of so many are in their registers from now on.
    pub fn land(&mut self, state: &mut State, until: u64) {
        while self.over < until
            && let Some(product) = self.begun.pop_front()
        {
            self.over += 1;
            for (k, value) in product.sums.iter().flatten().enumerate() {
                state.put(product.op.to.after(k as u8), u32::MAX, value);
            }
        }
        while self.groups.front().is_some_and(|&end| end <= until) {
            self.groups.pop_front();
        }
    }

    fn get(&self, number: u64) -> Option<&Begun> {
        self.begun.get(number.checked_sub(self.over)? as usize)
    }

    /// The registers that a product adds to: those of one that has begun before it, or as they are.
    fn addend(&self, state: &State, c: &Constants, number: u64) -> Vec<Lanes> {
        let Some(product) = self.get(number) else {
            return Vec::new();
        };
        let op = &product.op;
        let count = op.registers();
        let before = self.begun.iter().take((number - self.over) as usize);
        let same = before
            .rev()
            .find(|before| op.sums.from == from(before.op.to) && before.op.registers() >= count);
        match same.and_then(|before| before.sums.as_ref()) {
            _ if !product.adds => vec![[0; 32]; count],
            Some(sums) => sums[..count].to_vec(),
            None => (0..count)
                .map(|k| state.get(&register(&op.sums, k), c))
                .collect(),
        }
    }
}

fn from(place: Place) -> super::source::From {
    match place {
        Place::Register(n) => super::source::From::Register(n),
        Place::Uniform(n) => super::source::From::Uniform(n),
    }
}

impl Op {
    /// Registers of its sums.
    fn registers(&self) -> usize {
        match self.element {
            Element::Float(_, true) => self.columns / 4,
            _ => self.columns / 2,
        }
    }

    /// Changes the signs of what is negative.
    fn sign(&self, which: usize, words: &mut [[u32; 8]]) {
        let Element::Float(factor, _) = self.element else {
            return;
        };
        let signs = match factor {
            Factor::Tf32 => 0x8000_0000,
            Factor::Short(_) => 0x8000_8000,
            Factor::Eighths(_) => 0x8080_8080,
        };
        if self.negative[which] {
            words
                .as_flattened_mut()
                .iter_mut()
                .for_each(|x| *x ^= signs);
        }
    }

    /// Adds the products of 16 rows of A to their sums.
    fn multiply(&self, a: &[[u32; 8]; 16], b: &[[u32; 8]], registers: &mut [Lanes]) {
        let half = matches!(self.element, Element::Float(_, true));
        let each_row = if half { 1 } else { 2 };
        // Eight columns are in two registers, or in four.
        for (registers, b) in registers.chunks_mut(2 * each_row).zip(b.as_chunks().0) {
            let mut sums = [[0; 8]; 16];
            for (k, register) in registers.iter().enumerate() {
                for (lane, &word) in register.iter().enumerate() {
                    let (row, at) = place(lane);
                    let row = &mut sums[row + 8 * (k / each_row)];
                    if half {
                        (row[2 * at], row[2 * at + 1]) = (word & 0xffff, word >> 16);
                    } else {
                        row[2 * at + k % 2] = word;
                    }
                }
            }
            self.tile(a, b, &mut sums);
            for (k, register) in registers.iter_mut().enumerate() {
                *register = each(|lane| {
                    let (row, at) = place(lane);
                    let row = &sums[row + 8 * (k / each_row)];
                    if half {
                        row[2 * at] | row[2 * at + 1] << 16
                    } else {
                        row[2 * at + k % 2]
                    }
                });
            }
        }
    }

    fn tile(&self, a: &[[u32; 8]; 16], b: &[[u32; 8]; 8], sums: &mut [[u32; 8]; 16]) {
        let words = 8;
        match self.element {
            Element::Integer { signed, saturate } => every(sums, a, b, |a, b, sum| {
                let products = a.iter().zip(b).map(|(&x, &y)| dot(x, y, 8, signed));
                let exact = products.sum::<i64>() + i64::from(sum.cast_signed());
                let kept = if saturate {
                    exact.clamp(i64::from(i32::MIN), i64::from(i32::MAX))
                } else {
                    exact
                };
                kept as u32
            }),
            Element::Float(factor, half) => Product {
                unit: match factor {
                    Factor::Eighths(_) => Unit::of_eighths(),
                    _ => Unit::of(Chip::Sm90),
                },
                factor,
                half,
                words,
                a,
                b,
                sums,
            }
            .run(),
        }
    }
}

/// How far four warps have come together: all have begun so many products.
fn together(warps: &[Threads]) -> u64 {
    let counts = warps.iter().map(|warp| warp.products.count());
    let all = counts.min().unwrap_or(0);
    if warps.len() == WARPS { all } else { 0 }
}

/// Computes the products that one of four warps waits for, if all have begun them. Returns whether there was one.
///
/// # Errors
/// The warp of the four, its instruction, and what is wrong.
pub(crate) fn compute(
    warps: &mut [Threads],
    shared: &[u8],
    flights: &Flights,
    c: &Constants,
) -> Result<bool, (usize, u32, Cause)> {
    let wanted = warps.iter().filter_map(Threads::wants_products).max();
    let Some(wanted) = wanted else {
        return Ok(false);
    };
    let until = wanted.min(together(warps));
    let computed = |warp: &Threads| {
        let products = &warp.products;
        let done = products.begun.iter().take_while(|one| one.sums.is_some());
        products.over + done.count() as u64
    };
    let first = warps.iter().map(computed).min().unwrap_or(0);
    for number in first..until {
        product(warps, shared, flights, c, number)?;
    }
    let mut any = false;
    for warp in warps {
        any |= warp.land_products(until);
    }
    Ok(any)
}

/// Computes one product of four warps.
fn product(
    warps: &mut [Threads],
    shared: &[u8],
    flights: &Flights,
    c: &Constants,
    number: u64,
) -> Result<(), (usize, u32, Cause)> {
    let Some(leader) = warps.first().and_then(|warp| warp.products.get(number)) else {
        return Ok(());
    };
    let (at, op, [a, b]) = (leader.at, leader.op, leader.descriptors);
    for (k, warp) in warps.iter().enumerate() {
        let other = warp.products.get(number);
        if other.is_none_or(|other| other.at != at || other.descriptors != [a, b]) {
            let at = other.map_or(at, |other| other.at);
            return Err((k, at, Cause::Warpgroup));
        }
    }
    let read = |which: usize, descriptor: u64, rows: usize| {
        let mut unseen = Ok(());
        let see =
            |address| unseen = std::mem::replace(&mut unseen, Ok(())).and(flights.see(address, 16));
        let words = canonical::rows(shared, descriptor, rows, op.turned[which], see);
        let mut words = words.map_err(|address| {
            let cause = Cause::Memory {
                lane: 0,
                space: Space::Shared,
                address,
                bytes: 16,
                write: false,
                why: Denied::End(shared.len() as u64),
            };
            (0, at, cause)
        })?;
        unseen.map_err(|cause| (0, at, cause))?;
        op.sign(which, &mut words);
        Ok(words)
    };
    let columns = read(1, b, op.columns)?;
    let all_rows = if op.a.is_none() {
        read(0, a, 16 * WARPS)?
    } else {
        Vec::new()
    };
    for (k, warp) in warps.iter_mut().enumerate() {
        let mut rows = [[0; 8]; 16];
        if let Some(own) = warp.products.get(number).and_then(|product| product.a) {
            for (i, register) in own.iter().enumerate() {
                for (lane, &word) in register.iter().enumerate() {
                    let (row, at) = place(lane);
                    rows[row + 8 * (i % 2)][at + 4 * (i / 2)] = word;
                }
            }
            op.sign(0, &mut rows);
        } else if let Some(own) = all_rows.get(16 * k..16 * k + 16) {
            rows.copy_from_slice(own);
        }
        let mut sums = warp.products.addend(&warp.state, c, number);
        op.multiply(&rows, &columns, &mut sums);
        let place = number.checked_sub(warp.products.over);
        if let Some(product) = place.and_then(|at| warp.products.begun.get_mut(at as usize)) {
            product.sums = Some(sums);
        }
    }
    Ok(())
}
