//! Numbers of eight bits and fewer: of all that there are, the nearest.

use super::Out::{Any, Single, Word};
use super::short::{BRAIN, HALF, NONE};
use super::{In, Out, Row};

/// A type: bits of the exponent and of the fraction, the greatest magnitude.
#[derive(Clone, Copy)]
struct Format {
    exponent: u32,
    fraction: u32,
    most: u32,
}

const E4M3: Format = Format {
    exponent: 4,
    fraction: 3,
    most: 0x7e,
};
const E5M2: Format = Format {
    exponent: 5,
    fraction: 2,
    most: 0x7b,
};
const E3M2: Format = Format {
    exponent: 3,
    fraction: 2,
    most: 0x1f,
};
const E2M3: Format = Format {
    exponent: 2,
    fraction: 3,
    most: 0x1f,
};
const E2M1: Format = Format {
    exponent: 2,
    fraction: 1,
    most: 7,
};

impl Format {
    fn sign(self) -> u32 {
        1 << (self.exponent + self.fraction)
    }

    fn value(self, magnitude: u32) -> f64 {
        let field = (magnitude >> self.fraction).cast_signed();
        let part = f64::from(magnitude % (1 << self.fraction)) / f64::from(1 << self.fraction);
        let bias = (1 << (self.exponent - 1)) - 1;
        if field == 0 {
            part * 2_f64.powi(1 - bias)
        } else {
            (1.0 + part) * 2_f64.powi(field - bias)
        }
    }

    fn read(self, bits: u32) -> f64 {
        let magnitude = bits & (self.sign() - 1);
        let value = match magnitude {
            magnitude if magnitude <= self.most => self.value(magnitude),
            0x7c => f64::INFINITY,
            _ => f64::NAN,
        };
        if bits & self.sign() == 0 {
            value
        } else {
            -value
        }
    }

    /// The nearest, and of two the one whose last bit is 0; what is too great is the greatest. What is no
    /// number has the bits 0x7f, or is the greatest where there is no such thing.
    fn nearest(self, x: f64) -> u32 {
        if x.is_nan() {
            return if self.sign() == 0x80 { 0x7f } else { self.most };
        }
        let off = |magnitude: &u32| (self.value(*magnitude) - x.abs()).abs();
        let nearest =
            (0..=self.most).min_by(|p, q| off(p).total_cmp(&off(q)).then((p & 1).cmp(&(q & 1))));
        // Doubles that are far beyond are as far from all.
        let magnitude = if x.abs() >= self.value(self.most) {
            self.most
        } else {
            nearest.unwrap()
        };
        if x.is_sign_negative() {
            self.sign() | magnitude
        } else {
            magnitude
        }
    }

    /// The same of what is not negative; of zero it is not said which one it is.
    fn floored(self, x: f64) -> Option<u32> {
        match self.nearest(x) {
            bits if bits == self.sign() => None,
            bits if bits & self.sign() != 0 => Some(0),
            bits => Some(bits),
        }
    }
}

fn single(x: u32) -> f64 {
    f64::from(f32::from_bits(x))
}

fn halves(x: u32) -> [f64; 2] {
    [16, 0].map(|k| HALF.read(x >> k & 0xffff))
}

/// Two in 16 bits, the first above.
fn pair(of: Format, numbers: [f64; 2]) -> u32 {
    let [high, low] = numbers.map(|x| of.nearest(x));
    high << 8 | low
}

fn both(low: u32, high: u32) -> Out {
    Word(high << 16 | low)
}

fn twice(of: Format, i: &In) -> Out {
    let bits = pair(of, [single(i.a), single(i.b)]);
    both(bits, bits)
}

fn floored(of: Format, i: &In) -> Out {
    match (of.floored(single(i.a)), of.floored(single(i.b))) {
        (Some(high), Some(low)) => both(high << 8 | low, high << 8 | low),
        _ => Any,
    }
}

/// Two halves, of what lies in bits, the lower number first.
fn wide(of: Format, bits: u32, each: u32) -> Out {
    let [low, high] = [0, each].map(|k| {
        let x = of.read(bits >> k);
        HALF.nearest(x, 0.0)
    });
    both(low, high)
}

fn wide_floored(of: Format, bits: u32) -> Out {
    let [low, high] = [0, 8].map(|k| {
        let x = of.read(bits >> k);
        match HALF.nearest(x, 0.0) {
            NONE => Some(NONE),
            0x8000 => None,
            bits if bits & 0x8000 != 0 => Some(0),
            bits => Some(bits),
        }
    });
    match (low, high) {
        (Some(low), Some(high)) => both(low, high),
        _ => Any,
    }
}

fn saturated(x: f64, most: f64) -> f64 {
    if x.is_nan() { x } else { x.clamp(-most, most) }
}

const HALF_MOST: f64 = 65504.0;

fn upper_19(bits: u32) -> Out {
    Single(f32::from_bits(bits & 0xffff_e000))
}

/// The nearest with ten bits of fraction, by whole numbers.
fn nearest_tf32(x: u32) -> Out {
    let single = f32::from_bits(x);
    if !single.is_finite() {
        return Single(single);
    }
    let (kept, rest) = (x & 0xffff_e000, x & 0x1fff);
    let up = rest > 0x1000 || rest == 0x1000 && x & 0x2000 != 0;
    upper_19(if up { kept + 0x2000 } else { kept })
}

pub const EIGHTHS: &[Row] = &[
    (
        "{ .reg .b16 h; cvt.rn.satfinite.e4m3x2.f32 h, a, b; mov.b32 r, {h, h}; }",
        |i| twice(E4M3, i),
    ),
    (
        "{ .reg .b16 h, l; cvt.rn.satfinite.e5m2x2.f32 l, a, b; cvt.rn.satfinite.e5m2x2.f32 h, b, c; mov.b32 r, {l, h}; }",
        |i| {
            let [a, b, c] = [i.a, i.b, i.c].map(single);
            both(pair(E5M2, [a, b]), pair(E5M2, [b, c]))
        },
    ),
    (
        "{ .reg .b16 h; cvt.rn.satfinite.relu.e4m3x2.f32 h, a, b; mov.b32 r, {h, h}; }",
        |i| floored(E4M3, i),
    ),
    (
        "{ .reg .b16 h; cvt.rn.satfinite.relu.e5m2x2.f32 h, a, b; mov.b32 r, {h, h}; }",
        |i| floored(E5M2, i),
    ),
    (
        "{ .reg .b16 h, l; cvt.rn.satfinite.e4m3x2.f16x2 l, a; cvt.rn.satfinite.e4m3x2.f16x2 h, b; mov.b32 r, {l, h}; }",
        |i| both(pair(E4M3, halves(i.a)), pair(E4M3, halves(i.b))),
    ),
    (
        "{ .reg .b16 h; cvt.rn.satfinite.e5m2x2.f16x2 h, a; mov.b32 r, {h, h}; }",
        |i| {
            let bits = pair(E5M2, halves(i.a));
            both(bits, bits)
        },
    ),
    (
        "{ .reg .b16 h, l; mov.b32 {l, h}, a; cvt.rn.f16x2.e4m3x2 r, h; }",
        |i| wide(E4M3, i.a >> 16, 8),
    ),
    (
        "{ .reg .b16 h, l; mov.b32 {l, h}, a; cvt.rn.f16x2.e5m2x2 r, l; }",
        |i| wide(E5M2, i.a, 8),
    ),
    (
        "{ .reg .b16 h, l; .reg .b32 t; xor.b32 t, a, b; mov.b32 {l, h}, t; cvt.rn.f16x2.e4m3x2 r, h; }",
        |i| wide(E4M3, (i.a ^ i.b) >> 16, 8),
    ),
    (
        "{ .reg .b16 h, l; mov.b32 {l, h}, a; cvt.rn.relu.f16x2.e4m3x2 r, l; }",
        |i| wide_floored(E4M3, i.a),
    ),
    (
        "{ .reg .b16 h, l; mov.b32 {l, h}, a; cvt.rn.relu.f16x2.e5m2x2 r, h; }",
        |i| wide_floored(E5M2, i.a >> 16),
    ),
    ("cvt.rn.satfinite.f16x2.f32 r, a, b;", |i| {
        let [high, low] = [i.a, i.b].map(|x| HALF.nearest(saturated(single(x), HALF_MOST), 0.0));
        both(low, high)
    }),
    ("cvt.rn.relu.satfinite.f16x2.f32 r, a, b;", |i| {
        let one = |x| super::short::floored(HALF.nearest(saturated(single(x), HALF_MOST), 0.0));
        match (one(i.b), one(i.a)) {
            (Some(low), Some(high)) => both(low, high),
            _ => Any,
        }
    }),
    ("cvt.rn.satfinite.bf16x2.f32 r, a, b;", |i| {
        let most = f64::from(f32::from_bits(0x7f7f_0000));
        let [high, low] = [i.a, i.b].map(|x| BRAIN.nearest(saturated(single(x), most), 0.0));
        both(low, high)
    }),
];

pub const TF32: &[Row] = &[
    ("cvt.rn.tf32.f32 r, a;", |i| nearest_tf32(i.a)),
    ("cvt.rz.tf32.f32 r, a;", |i| {
        if f32::from_bits(i.a).is_nan() {
            Single(f32::NAN)
        } else {
            upper_19(i.a)
        }
    }),
    ("cvt.rn.relu.tf32.f32 r, a;", |i| {
        let x = f32::from_bits(i.a);
        match nearest_tf32(i.a) {
            _ if x.is_nan() => Single(f32::NAN),
            _ if i.a == 0x8000_0000 => Any,
            _ if x < 0.0 => Word(0),
            near => near,
        }
    }),
];

pub const SMALLER: &[Row] = &[
    (
        "{ .reg .b16 h; cvt.rn.satfinite.e2m3x2.f32 h, a, b; mov.b32 r, {h, h}; }",
        |i| twice(E2M3, i),
    ),
    (
        "{ .reg .b16 h; cvt.rn.satfinite.e3m2x2.f32 h, a, b; mov.b32 r, {h, h}; }",
        |i| twice(E3M2, i),
    ),
    (
        "{ .reg .b16 h; cvt.rn.satfinite.relu.e3m2x2.f32 h, a, b; mov.b32 r, {h, h}; }",
        |i| floored(E3M2, i),
    ),
    (
        "{ .reg .b8 h; cvt.rn.satfinite.e2m1x2.f32 h, a, b; mov.b32 r, {h, h, h, h}; }",
        |i| {
            let bits = E2M1.nearest(single(i.a)) << 4 | E2M1.nearest(single(i.b));
            Word(bits * 0x0101_0101)
        },
    ),
    (
        "{ .reg .b16 h, l; mov.b32 {l, h}, a; cvt.rn.f16x2.e2m3x2 r, h; }",
        |i| wide(E2M3, i.a >> 16, 8),
    ),
    (
        "{ .reg .b16 h, l; mov.b32 {l, h}, a; cvt.rn.f16x2.e3m2x2 r, l; }",
        |i| wide(E3M2, i.a, 8),
    ),
    (
        "{ .reg .b8 h, k, l, m; mov.b32 {h, k, l, m}, a; cvt.rn.f16x2.e2m1x2 r, h; }",
        |i| wide(E2M1, i.a, 4),
    ),
    (
        "{ .reg .b8 h, k, l, m; mov.b32 {h, k, l, m}, a; cvt.rn.f16x2.e2m1x2 r, l; }",
        |i| wide(E2M1, i.a >> 16, 4),
    ),
];
