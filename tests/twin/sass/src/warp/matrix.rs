//! Products of small matrices that are spread over the lanes of a warp.
//!
//! Four lanes hold a row of A and a column of B, a word each, then the next four words; rows are eight
//! apart in every second register of A. A lane holds two neighbours of a row of the sums. The layouts are
//! those of `mma.sync` in the manual of PTX. All lanes take part.

use super::eighth::Eighth;
use super::half::Type;
use super::product::{Factor, Product, Unit};
use super::program::Refusal;
use super::rounding::{Rounding, fused};
use super::source::{From, Lanes, Place, Reading, Source, Style};
use super::state::{Constants, State, each};
use crate::Chip;

/// What is multiplied, and how.
#[derive(Clone, Copy, Debug)]
enum Element {
    /// Whether the sums are halves.
    Float(Factor, Unit, bool),
    Integer {
        bits: u32,
        signed: [bool; 2],
        saturate: bool,
    },
    /// Bits, by AND or exclusive OR, which are counted.
    Bits(bool),
    Double(Rounding),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    to: Place,
    of: [Source; 3],
    element: Element,
    /// Rows of A: 8 or 16.
    rows: usize,
    /// Words in a row of A, or doubles.
    words: usize,
}

pub(crate) fn lower(chip: Chip, name: &str, r: &mut Reading) -> Result<Option<Op>, Refusal> {
    let (element, style) = match name {
        "HMMA" => {
            let factor = r
                .choice(&[
                    (".TF32", Factor::Tf32),
                    (".BF16", Factor::Short(Type::Brain)),
                ])
                .unwrap_or(Factor::Short(Type::Half));
            let style = if factor == Factor::Tf32 {
                Style::Float
            } else {
                Style::Halves
            };
            let element = Element::Float(factor, Unit::of(chip), r.has(".F16"));
            (element, style)
        }
        "QMMA" => {
            let [a, b] = Eighth::read(r)[..] else {
                return Err(r.refuse("two types were expected"));
            };
            if a.bits() != 8 || b.bits() != 8 {
                return Err(r.refuse("which bits of a byte its numbers fill is not known"));
            }
            let element = Element::Float(Factor::Eighths([a, b]), Unit::of(chip), r.has(".F16"));
            (element, Style::Integer)
        }
        "IMMA" => (integer(r)?, Style::Integer),
        "BMMA" => (Element::Bits(r.has(".AND")), Style::Integer),
        "DMMA" => (Element::Double(Rounding::read(r)), Style::Float),
        _ => return Ok(None),
    };
    let (rows, words) = r
        .choice(&[
            (".1684", (16, 4)),
            (".1688", if r.has(".TF32") { (16, 8) } else { (16, 4) }),
            (".16816", if name == "HMMA" { (16, 8) } else { (16, 4) }),
            (".8816", (8, 4)),
            (
                ".16832",
                if r.has(".U4") || r.has(".S4") {
                    (16, 4)
                } else {
                    (16, 8)
                },
            ),
            (".8832", (8, 4)),
            (".16864", (16, 8)),
            (".88128", (8, 4)),
            (".168128", (16, 4)),
            (".168256", (16, 8)),
            (".884", (8, 4)),
            (".8x8x4", (8, 4)),
            (".16x8x4", (16, 4)),
            (".16x8x8", (16, 8)),
            (".16x8x16", (16, 16)),
        ])
        .ok_or_else(|| r.refuse("its shape is not modelled"))?;
    let op = Op {
        to: r.place()?,
        of: [r.source(style)?, r.source(style)?, r.source(style)?],
        element,
        rows,
        words,
    };
    if name == "QMMA" && !op.of.iter().all(Source::plain) {
        return Err(r.refuse("numbers of eight bits are not negated"));
    }
    if r.left() > 0 {
        let condition = r.condition()?;
        if condition.number != 7 || condition.inverted {
            return Err(r.refuse("what its predicate says is not known"));
        }
    }
    Ok(Some(op))
}

fn integer(r: &Reading) -> Result<Element, Refusal> {
    let types: Vec<(u32, bool)> = r
        .inst
        .modifiers
        .iter()
        .filter_map(|&text| match text {
            ".U8" => Some((8, false)),
            ".S8" => Some((8, true)),
            ".U4" => Some((4, false)),
            ".S4" => Some((4, true)),
            _ => None,
        })
        .collect();
    match types[..] {
        [(a, first), (b, second)] if a == b => Ok(Element::Integer {
            bits: a,
            signed: [first, second],
            saturate: r.has(".SAT"),
        }),
        _ => Err(r.refuse("two types of the same size were expected")),
    }
}

/// One of the registers of a source.
pub(super) fn register(source: &Source, k: usize) -> Source {
    let from = match source.from {
        From::Register(n) if n != 255 => From::Register(n.saturating_add(k as u8)),
        other => other,
    };
    Source { from, ..*source }
}

/// The row of A or of the sums, or the column of B, that a lane has a part of, and its place in it.
pub(super) fn place(lane: usize) -> (usize, usize) {
    (lane / 4, lane % 4)
}

impl Op {
    /// The words of A by rows and of B by columns.
    fn words(&self, state: &State, c: &Constants) -> ([[u32; 8]; 16], [[u32; 8]; 8]) {
        let (mut a, mut b) = ([[0; 8]; 16], [[0; 8]; 8]);
        let high = self.rows / 8;
        for k in 0..high * self.words / 4 {
            let value = state.get(&register(&self.of[0], k), c);
            for (lane, word) in value.into_iter().enumerate() {
                let (row, at) = place(lane);
                a[row + 8 * (k % high)][at + 4 * (k / high)] = word;
            }
        }
        for k in 0..self.words / 4 {
            let value = state.get(&register(&self.of[1], k), c);
            for (lane, word) in value.into_iter().enumerate() {
                let (column, at) = place(lane);
                b[column][at + 4 * k] = word;
            }
        }
        (a, b)
    }

    /// The rows of C.
    fn sums(&self, state: &State, c: &Constants, half: bool) -> [[u32; 8]; 16] {
        let mut sums = [[0; 8]; 16];
        let each = if half { 1 } else { 2 };
        for k in 0..self.rows / 8 * each {
            let value = state.get(&register(&self.of[2], k), c);
            for (lane, word) in value.into_iter().enumerate() {
                let (row, at) = place(lane);
                let row = &mut sums[row + 8 * (k / each)];
                if half {
                    (row[2 * at], row[2 * at + 1]) = (word & 0xffff, word >> 16);
                } else {
                    row[2 * at + k % 2] = word;
                }
            }
        }
        sums
    }

    fn put(&self, state: &mut State, sums: &[[u32; 8]; 16], half: bool) {
        let each_row = if half { 1 } else { 2 };
        for k in 0..self.rows / 8 * each_row {
            let value: Lanes = each(|lane| {
                let (row, at) = place(lane);
                let row = &sums[row + 8 * (k / each_row)];
                if half {
                    row[2 * at] | row[2 * at + 1] << 16
                } else {
                    row[2 * at + k % 2]
                }
            });
            state.put(self.to.after(k as u8), u32::MAX, &value);
        }
    }
}

pub(crate) fn run(state: &mut State, c: &Constants, op: &Op) {
    let half = matches!(op.element, Element::Float(_, _, true));
    if let Element::Double(rounding) = op.element {
        return doubles(state, c, op, rounding);
    }
    let (a, b) = op.words(state, c);
    let mut sums = op.sums(state, c, half);
    match op.element {
        Element::Integer {
            bits,
            signed,
            saturate,
        } => every(&mut sums, &a, &b, |a, b, sum| {
            let products = a.iter().zip(b).map(|(&x, &y)| dot(x, y, bits, signed));
            let exact = products.sum::<i64>() + i64::from(sum.cast_signed());
            let kept = if saturate {
                exact.clamp(i64::from(i32::MIN), i64::from(i32::MAX))
            } else {
                exact
            };
            kept as u32
        }),
        Element::Bits(and) => every(&mut sums, &a, &b, |a, b, sum| {
            let count = |(&x, &y): (&u32, &u32)| if and { x & y } else { x ^ y }.count_ones();
            a.iter().zip(b).map(count).fold(sum, u32::wrapping_add)
        }),
        Element::Float(factor, unit, half) => Product {
            unit,
            factor,
            half,
            words: op.words,
            a: &a,
            b: &b,
            sums: &mut sums,
        }
        .run(),
        Element::Double(_) => {}
    }
    op.put(state, &sums, half);
}

/// Sums of a row of A and a column of B each; words that the shape does not have are zero.
pub(super) fn every(
    sums: &mut [[u32; 8]; 16],
    a: &[[u32; 8]; 16],
    b: &[[u32; 8]; 8],
    of: impl Fn(&[u32; 8], &[u32; 8], u32) -> u32,
) {
    for (row, a) in sums.iter_mut().zip(a) {
        for (sum, b) in row.iter_mut().zip(b) {
            *sum = of(a, b, *sum);
        }
    }
}

/// The products of the integers in two words.
pub(super) fn dot(x: u32, y: u32, bits: u32, signed: [bool; 2]) -> i64 {
    let part = |word: u32, at: u32, signed: bool| {
        let top = word << (32 - bits - at);
        if signed {
            top.cast_signed() >> (32 - bits)
        } else {
            (top >> (32 - bits)).cast_signed()
        }
    };
    (0..32)
        .step_by(bits as usize)
        .map(|at| i64::from(part(x, at, signed[0]) * part(y, at, signed[1])))
        .sum()
}

/// Doubles are multiplied and added one after the other, by rising places: a guess.
fn doubles(state: &mut State, c: &Constants, op: &Op, rounding: Rounding) {
    let pair = |source: &Source, k: usize| {
        let source = register(source, 2 * k);
        state.pair(&source, c).map(f64::from_bits)
    };
    let high = op.rows / 8;
    let (mut a, mut b, mut sums) = ([[0.0; 16]; 16], [[0.0; 16]; 8], [[0.0; 8]; 16]);
    for k in 0..high * op.words / 4 {
        for (lane, value) in pair(&op.of[0], k).into_iter().enumerate() {
            let (row, at) = place(lane);
            a[row + 8 * (k % high)][at + 4 * (k / high)] = value;
        }
    }
    for k in 0..op.words / 4 {
        for (lane, value) in pair(&op.of[1], k).into_iter().enumerate() {
            let (column, at) = place(lane);
            b[column][at + 4 * k] = value;
        }
    }
    for k in 0..2 * high {
        for (lane, value) in pair(&op.of[2], k).into_iter().enumerate() {
            let (row, at) = place(lane);
            sums[row + 8 * (k / 2)][2 * at + k % 2] = value;
        }
    }
    for (row, a) in sums.iter_mut().zip(&a) {
        for (sum, b) in row.iter_mut().zip(&b) {
            let factors = a.iter().zip(b).take(op.words);
            *sum = factors.fold(*sum, |sum, (&x, &y)| fused(x, y, sum, rounding));
        }
    }
    for k in 0..2 * high {
        let value = each(|lane| {
            let (row, at) = place(lane);
            let value = sums[row + 8 * (k / 2)][2 * at + k % 2];
            if value.is_nan() {
                0xfff8_0000_0000_0000
            } else {
                value.to_bits()
            }
        });
        state.put_pair(op.to.after(2 * k as u8), u32::MAX, &value);
    }
}
