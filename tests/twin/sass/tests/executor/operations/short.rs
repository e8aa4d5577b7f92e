//! Numbers of 16 bits, halves and bfloat16: of all that there are, the nearest to a number that doubles
//! hold.

use super::Out::{Any, Double, Halves, Wide, Word};
use super::float::{To, lost};
use super::{In, Out, Row};

/// Which 16 bits a number has.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Bits of the fraction.
    fraction: u32,
    /// Infinity; what is more is no number.
    infinity: u32,
}

pub const HALF: Format = Format {
    fraction: 10,
    infinity: 0x7c00,
};
pub const BRAIN: Format = Format {
    fraction: 7,
    infinity: 0x7f80,
};

/// What is no number, as operations write it.
pub const NONE: u32 = 0x7fff;

impl Format {
    /// A magnitude; what comes after the greatest is the next power of two.
    fn value(self, magnitude: u32) -> f64 {
        let bias = (self.infinity >> self.fraction) / 2;
        let (field, fraction) = (magnitude >> self.fraction, magnitude % (1 << self.fraction));
        let lead = if field == 0 { 0 } else { 1 << self.fraction };
        let exponent = field.max(1).cast_signed() - (bias + self.fraction).cast_signed();
        f64::from(fraction | lead) * 2_f64.powi(exponent)
    }

    pub fn read(self, bits: u32) -> f64 {
        let sign = if bits & 0x8000 != 0 { -1.0 } else { 1.0 };
        sign * match bits & 0x7fff {
            magnitude if magnitude > self.infinity => f64::NAN,
            magnitude if magnitude == self.infinity => f64::INFINITY,
            magnitude => self.value(magnitude),
        }
    }

    /// The first magnitude that is not below a number; infinity if all are.
    fn above(self, x: f64) -> u32 {
        let (mut from, mut to) = (0, self.infinity);
        while from < to {
            let middle = (from + to) / 2;
            (from, to) = if self.value(middle) >= x {
                (from, middle)
            } else {
                (middle + 1, to)
            };
        }
        from
    }

    /// The nearest to `x + off`, of which `x` is the nearest double; of two, the one whose last bit is 0.
    pub fn nearest(self, x: f64, off: f64) -> u32 {
        if x.is_nan() {
            return NONE;
        }
        let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
        let off = if sign == 0 { off } else { -off };
        let x = x.abs();
        let above = self.above(x);
        if above == 0 || x >= self.value(self.infinity) {
            return sign | above;
        }
        let below = above - 1;
        // Both are exact, and so is their difference.
        let (up, down) = (self.value(above) - x, x - self.value(below));
        let magnitude = match (up - down).total_cmp(&(2.0 * off)) {
            std::cmp::Ordering::Less => above,
            std::cmp::Ordering::Greater => below,
            std::cmp::Ordering::Equal => above & !1 | below & !1 & above,
        };
        sign | if up == down && off == 0.0 {
            if above & 1 == 0 { above } else { below }
        } else {
            magnitude
        }
    }

    /// The neighbour of a number in a direction.
    pub fn directed(self, x: f64, to: To) -> u32 {
        if x.is_nan() {
            return NONE;
        }
        let negative = x.is_sign_negative();
        let sign = if negative { 0x8000 } else { 0 };
        if x.is_infinite() {
            return sign | self.infinity;
        }
        let above = self.above(x.abs());
        let outward = match to {
            To::Zero => false,
            To::Down => negative,
            To::Up => !negative,
        };
        let exact = self.value(above) == x.abs() && above < self.infinity;
        sign | if outward || exact { above } else { above - 1 }
    }

    pub fn is_none(self, bits: u32) -> bool {
        bits & 0x7fff > self.infinity
    }

    /// Zero of the same sign for what has no leading one.
    fn flushed(self, bits: u32) -> u32 {
        if bits & 0x7fff < 1 << self.fraction {
            bits & 0x8000
        } else {
            bits
        }
    }

    pub fn sum(self, a: u32, b: u32) -> u32 {
        let (x, y) = (self.read(a), self.read(b));
        self.rounded(x + y, x, y)
    }

    pub fn product(self, a: u32, b: u32) -> u32 {
        self.nearest(self.read(a) * self.read(b), 0.0)
    }

    pub fn fused(self, a: u32, b: u32, c: u32) -> u32 {
        let (x, y) = (self.read(a) * self.read(b), self.read(c));
        self.rounded(x + y, x, y)
    }

    fn rounded(self, sum: f64, x: f64, y: f64) -> u32 {
        self.nearest(sum, if sum.is_finite() { lost(x, y) } else { 0.0 })
    }

    /// The lesser one; a number if one of both is, unless that is asked for.
    pub fn least(self, a: u32, b: u32, nan: bool) -> u32 {
        match (self.is_none(a), self.is_none(b)) {
            (true, true) => NONE,
            (true, false) | (false, true) if nan => NONE,
            (true, false) => b,
            (false, true) => a,
            _ => {
                // The negative zero is less than the other one.
                let order = |bits: u32| (self.read(bits), bits & 0x8000 == 0);
                if order(a) < order(b) { a } else { b }
            }
        }
    }

    pub fn most(self, a: u32, b: u32, nan: bool) -> u32 {
        match self.least(a ^ 0x8000, b ^ 0x8000, nan) {
            NONE => NONE,
            bits => bits ^ 0x8000,
        }
    }

    /// The lesser magnitude, with the product of the signs.
    pub fn signed_least(self, a: u32, b: u32) -> u32 {
        match self.least(a & 0x7fff, b & 0x7fff, false) {
            NONE => NONE,
            bits => bits | (a ^ b) & 0x8000,
        }
    }
}

/// What is below zero is zero; whether the negative zero is below it is not said.
pub fn floored(bits: u32) -> Option<u32> {
    match bits {
        0x8000 => None,
        NONE => Some(NONE),
        bits if bits & 0x8000 != 0 => Some(0),
        bits => Some(bits),
    }
}

pub fn part(x: u32, k: u32) -> u32 {
    x >> k & 0xffff
}

pub fn pair(of: impl Fn(u32) -> u32) -> Out {
    Word(of(0) | of(16) << 16)
}

/// A pair, if both are known.
pub fn known(of: impl Fn(u32) -> Option<u32>) -> Out {
    match (of(0), of(16)) {
        (Some(low), Some(high)) => Word(low | high << 16),
        _ => Any,
    }
}

/// The same number in both halves of a word.
pub fn twice(bits: u32) -> Out {
    Word(bits | bits << 16)
}

/// The number of a doubleword without a sign, and what that is off by.
pub fn unsigned(x: u64) -> (f64, f64) {
    let near = x as f64;
    (near, (i128::from(x) - near as i128) as f64)
}

pub fn signed(x: u64) -> (f64, f64) {
    let near = x.cast_signed() as f64;
    (near, (i128::from(x.cast_signed()) - near as i128) as f64)
}

fn saturated(bits: u32) -> u32 {
    match bits {
        NONE => 0,
        bits if bits & 0x8000 != 0 => 0,
        bits => bits.min(0x3c00),
    }
}

fn z(bits: u32) -> u32 {
    HALF.flushed(bits)
}

fn single(x: u32) -> f64 {
    f64::from(f32::from_bits(x))
}

fn upper(i: &In) -> f64 {
    HALF.read(i.a >> 16)
}

/// Flags of both halves, in bits 0 and 1 or 2.
fn flags(of: impl Fn(u32) -> bool) -> Out {
    Word(if of(0) { 1 } else { 2 } + if of(16) { 4 } else { 0 })
}

pub const SHORT: &[Row] = &[
    ("fma.rn.ftz.f16x2 r, a, b, c;", |i| {
        pair(|k| z(HALF.fused(z(part(i.a, k)), z(part(i.b, k)), z(part(i.c, k)))))
    }),
    ("add.ftz.f16x2 r, a, b;", |i| {
        pair(|k| z(HALF.sum(z(part(i.a, k)), z(part(i.b, k)))))
    }),
    ("mul.ftz.sat.f16x2 r, a, b;", |i| {
        pair(|k| saturated(z(HALF.product(z(part(i.a, k)), z(part(i.b, k))))))
    }),
    ("fma.rn.sat.f16x2 r, a, b, c;", |i| {
        pair(|k| saturated(HALF.fused(part(i.a, k), part(i.b, k), part(i.c, k))))
    }),
    ("fma.rn.ftz.relu.f16x2 r, a, b, c;", |i| {
        known(|k| {
            let exact = HALF.fused(z(part(i.a, k)), z(part(i.b, k)), z(part(i.c, k)));
            floored(z(exact))
        })
    }),
    ("min.ftz.f16x2 r, a, b;", |i| {
        pair(|k| HALF.least(z(part(i.a, k)), z(part(i.b, k)), false))
    }),
    ("max.f16x2 r, a, b;", |i| {
        pair(|k| HALF.most(part(i.a, k), part(i.b, k), false))
    }),
    ("min.xorsign.abs.f16x2 r, a, b;", |i| {
        pair(|k| HALF.signed_least(part(i.a, k), part(i.b, k)))
    }),
    ("set.gt.f16x2.f16x2 r, a, b;", |i| {
        pair(|k| {
            let greater = HALF.read(part(i.a, k)) > HALF.read(part(i.b, k));
            if greater { 0x3c00 } else { 0 }
        })
    }),
    (
        "{ .reg .pred p, q; setp.geu.f16x2 p|q, a, b; selp.u32 r, 1, 2, p; @q add.u32 r, r, 4; }",
        |i| {
            flags(|k| {
                let (a, b) = (HALF.read(part(i.a, k)), HALF.read(part(i.b, k)));
                a >= b || a.is_nan() || b.is_nan()
            })
        },
    ),
    (
        "{ .reg .pred p, q; setp.nan.f16x2 p|q, a, b; selp.u32 r, 1, 2, p; @q add.u32 r, r, 4; }",
        |i| flags(|k| HALF.is_none(part(i.a, k)) || HALF.is_none(part(i.b, k))),
    ),
    (
        "{ .reg .b16 h; cvt.rm.f16.f32 h, a; mov.b32 r, {h, h}; }",
        |i| twice(HALF.directed(single(i.a), To::Down)),
    ),
    (
        "{ .reg .b16 h; cvt.rp.f16.f32 h, a; mov.b32 r, {h, h}; }",
        |i| twice(HALF.directed(single(i.a), To::Up)),
    ),
    (
        "{ .reg .b16 h; cvt.rn.sat.f16.f32 h, a; mov.b32 r, {h, h}; }",
        |i| twice(saturated(HALF.nearest(single(i.a), 0.0))),
    ),
    (
        "{ .reg .b16 h; cvt.rn.f16.f64 h, x; mov.b32 r, {h, h}; }",
        |i| twice(HALF.nearest(f64::from_bits(i.x), 0.0)),
    ),
    (
        "{ .reg .b16 h; cvt.rz.f16.f64 h, x; mov.b32 r, {h, h}; }",
        |i| twice(HALF.directed(f64::from_bits(i.x), To::Zero)),
    ),
    (
        "{ .reg .b16 h; cvt.rn.f16.s32 h, a; mov.b32 r, {h, h}; }",
        |i| twice(HALF.nearest(f64::from(i.a.cast_signed()), 0.0)),
    ),
    (
        "{ .reg .b16 h; cvt.rp.f16.u64 h, x; mov.b32 r, {h, h}; }",
        // What is off lies far above the greatest half.
        |i| twice(HALF.directed(i.x as f64, To::Up)),
    ),
    (
        "{ .reg .b16 h, l; mov.b32 {l, h}, a; cvt.rzi.s32.f16 r, h; }",
        |i| Word((upper(i) as i32).cast_unsigned()),
    ),
    (
        "{ .reg .b16 h, l; mov.b32 {l, h}, a; cvt.rni.u64.f16 w, h; }",
        |i| {
            let x = upper(i);
            Wide(if x.is_nan() {
                1 << 63
            } else {
                x.round_ties_even() as u64
            })
        },
    ),
    (
        "{ .reg .b16 h, l; mov.b32 {l, h}, a; cvt.f64.f16 w, h; }",
        |i| Double(upper(i)),
    ),
    (
        "{ .reg .b16 h, l; mov.b32 {l, h}, a; cvt.rni.f16.f16 h, h; mov.b32 r, {h, h}; }",
        |i| twice(HALF.nearest(upper(i).round_ties_even(), 0.0)),
    ),
    ("cvt.rn.relu.f16x2.f32 r, a, b;", |i| {
        known(|k| floored(HALF.nearest(single(if k == 0 { i.b } else { i.a }), 0.0)))
    }),
    ("cvt.rz.f16x2.f32 r, a, b;", |i| {
        Halves(HALF.directed(single(i.a), To::Zero) << 16 | HALF.directed(single(i.b), To::Zero))
    }),
];
