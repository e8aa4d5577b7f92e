//! The elements of matrices as they lie in registers.

use super::arith::is_nan_lane;
use super::formats::Element;
use super::matrix::{Matrix, Result};
use super::product::Number;
use crate::isa::Gen;
use crate::simd::{self, Kernel};
use crate::vector::float::{SINGLE, bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::vector::operand::Source;
use crate::wave::{Lanes, Wave};

/// What registers hold, as numbers: element `e` of lane `l` at `e * lanes + l`.
pub(super) trait Cell: Number {
    /// Reads A or B; `signs` are the bits of `neg_lo` and `neg_hi`.
    fn unpack(
        wave: &Wave,
        element: Element,
        signs: [bool; 2],
        first: usize,
        words: usize,
        to: &mut [Self],
    );

    /// Reads C.
    fn load(
        wave: &Wave,
        matrix: &Matrix,
        from: &Source,
        signs: [bool; 2],
        high: bool,
        words: usize,
        to: &mut [Self],
    );

    /// Writes D.
    fn store(
        wave: &mut Wave,
        matrix: &Matrix,
        first: usize,
        high: bool,
        words: usize,
        from: &[Self],
    );
}

/// What the elements of a dword are. (A trait, for `inline(always)`: see [`simd`].)
trait Decode<T> {
    /// Element `sub` of a dword.
    fn element(&self, dword: u32, sub: usize) -> T;
}

/// Each element of registers of dwords.
struct Spread<'a, T, D> {
    wave: &'a Wave<'a>,
    first: usize,
    words: usize,
    per_word: usize,
    to: &'a mut [T],
    decode: D,
}

impl<T: Copy, D: Decode<T>> Kernel for Spread<'_, T, D> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let lanes = 32 * self.wave.halves;
        for word in 0..self.words {
            for half in 0..self.wave.halves {
                let from = self.wave.vgpr(self.first + word, half);
                for sub in 0..self.per_word {
                    let at = (word * self.per_word + sub) * lanes + 32 * half;
                    let to = self.to.get_mut(at..).and_then(<[T]>::first_chunk_mut::<32>);
                    let Some(to) = to else { continue };
                    let mut decoded = [self.decode.element(from[0], sub); 32];
                    for i in 1..32 {
                        decoded[i] = self.decode.element(from[i], sub);
                    }
                    *to = decoded;
                }
            }
        }
    }
}

/// Halves, with what flips the sign of the low and of the high one.
struct Halves<const BRAIN: bool>([u32; 2]);

impl<const BRAIN: bool> Decode<f32> for Halves<BRAIN> {
    #[inline(always)]
    fn element(&self, dword: u32, sub: usize) -> f32 {
        let half = (dword >> (16 * sub)) as u16;
        let wide = if BRAIN {
            bf16_to_f32(half)
        } else {
            f16_to_f32(half)
        };
        f32::from_bits(wide.to_bits() ^ self.0[sub & 1])
    }
}

/// Singles of which these bits count.
struct Singles(u32);

impl Decode<f32> for Singles {
    #[inline(always)]
    fn element(&self, dword: u32, _: usize) -> f32 {
        f32::from_bits(dword & self.0)
    }
}

/// Floats of 8 bits: their values.
struct Small(&'static [f32; 256]);

impl Decode<f32> for Small {
    #[inline(always)]
    fn element(&self, dword: u32, sub: usize) -> f32 {
        self.0[usize::from((dword >> (8 * sub)) as u8)]
    }
}

/// Integers of so many bits.
struct Integers {
    bits: usize,
    signed: bool,
}

impl Decode<i32> for Integers {
    #[inline(always)]
    fn element(&self, dword: u32, sub: usize) -> i32 {
        let empty = 32 - self.bits;
        let top = dword << (empty - self.bits * sub);
        if self.signed {
            top as i32 >> empty
        } else {
            (top >> empty) as i32
        }
    }
}

/// The dwords of C, wherever it is.
fn dwords<'a>(
    wave: &'a Wave,
    from: &'a Source,
    word: usize,
    half: usize,
    room: &'a mut [Lanes; 2],
) -> &'a Lanes {
    match from {
        Source::Vgpr(first) => wave.vgpr(first + word, half),
        Source::Constant(lanes) => &lanes[0],
        other => other.lanes::<false>(wave, half, room)[0],
    }
}

impl Cell for f32 {
    fn unpack(
        wave: &Wave,
        element: Element,
        signs: [bool; 2],
        first: usize,
        words: usize,
        to: &mut [Self],
    ) {
        let flips = signs.map(|negative| u32::from(negative) << 31);
        let per_word = 32 / element.bits();
        // A macro, as each kind of element is a type of its own.
        macro_rules! spread {
            ($decode:expr) => {
                simd::run(Spread {
                    wave,
                    first,
                    words,
                    per_word,
                    to,
                    decode: $decode,
                })
            };
        }
        match element {
            Element::F16 => spread!(Halves::<false>(flips)),
            Element::Bf16 => spread!(Halves::<true>(flips)),
            Element::F32 => spread!(Singles(u32::MAX)),
            Element::Xf32 => spread!(Singles(!0x1fff)),
            _ => spread!(Small(element.values())),
        }
    }

    fn load(
        wave: &Wave,
        matrix: &Matrix,
        from: &Source,
        [negative, absolute]: [bool; 2],
        high: bool,
        words: usize,
        to: &mut [Self],
    ) {
        let (halves, packed) = (matrix.d.bits() == 16, matrix.is_packed());
        let per_word = if packed { 2 } else { 1 };
        let lanes = 32 * wave.halves;
        for word in 0..words {
            for half in 0..wave.halves {
                let mut room = [[0; 32]; 2];
                let from = dwords(wave, from, word, half, &mut room);
                for sub in 0..per_word {
                    let at = (word * per_word + sub) * lanes + 32 * half;
                    let to = to.get_mut(at..).and_then(<[f32]>::first_chunk_mut::<32>);
                    let Some(to) = to else { continue };
                    simd::run(Load {
                        from,
                        to,
                        half: halves.then_some(16 * (sub as u32 | u32::from(high && !packed))),
                        brain: matrix.d == Result::Bf16,
                        // A sparse product has no such source.
                        absolute: absolute && !matrix.sparse,
                        negative: negative && !matrix.sparse,
                    });
                }
            }
        }
    }

    fn store(
        wave: &mut Wave,
        matrix: &Matrix,
        first: usize,
        high: bool,
        words: usize,
        from: &[Self],
    ) {
        let (halves, packed) = (matrix.d.bits() == 16, matrix.is_packed());
        let per_word = if packed { 2 } else { 1 };
        let lanes = 32 * wave.halves;
        for word in 0..words {
            for half in 0..wave.halves {
                for sub in 0..per_word {
                    let at = (word * per_word + sub) * lanes + 32 * half;
                    let from = from.get(at..).and_then(<[f32]>::first_chunk::<32>);
                    let Some(from) = from else { continue };
                    simd::run(Store {
                        from,
                        to: wave.vgpr_mut(first + word, half),
                        half: halves.then_some(16 * (sub as u32 | u32::from(high && !packed))),
                        brain: matrix.d == Result::Bf16,
                    });
                }
            }
        }
    }
}

/// A register of C as singles.
struct Load<'a> {
    from: &'a Lanes,
    to: &'a mut [f32; 32],
    /// Halves, above so many bits.
    half: Option<u32>,
    brain: bool,
    absolute: bool,
    negative: bool,
}

impl Kernel for Load<'_> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let (and, xor) = (
            u32::MAX >> u32::from(self.absolute),
            u32::from(self.negative) << 31,
        );
        let mut to = [0.0; 32];
        for (to, &from) in to.iter_mut().zip(self.from) {
            let wide = match self.half {
                None => from,
                Some(shift) if self.brain => from >> shift << 16,
                Some(shift) => f16_to_f32((from >> shift) as u16).to_bits(),
            };
            *to = f32::from_bits(wide & and ^ xor);
        }
        *self.to = to;
    }
}

/// Singles as a register of D, or as halves of it.
struct Store<'a> {
    from: &'a [f32; 32],
    to: &'a mut Lanes,
    /// Halves, above so many bits.
    half: Option<u32>,
    brain: bool,
}

impl Kernel for Store<'_> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let mut to = *self.to;
        for (to, from) in to.iter_mut().zip(self.from) {
            let bits = from.to_bits();
            let bits = if is_nan_lane(SINGLE, bits) {
                0x7fc0_0000
            } else {
                bits
            };
            let value = f32::from_bits(bits);
            *to = match self.half {
                None => bits,
                Some(shift) => {
                    let half = if self.brain {
                        f32_to_bf16(value)
                    } else {
                        f32_to_f16(value)
                    };
                    *to & !(0xffff << shift) | u32::from(half) << shift
                }
            };
        }
        *self.to = to;
    }
}

impl Cell for i32 {
    fn unpack(
        wave: &Wave,
        element: Element,
        [signed, _]: [bool; 2],
        first: usize,
        words: usize,
        to: &mut [Self],
    ) {
        let bits = element.bits();
        // CDNA has signed bytes only.
        let signed = signed || wave.generation == Gen::Cdna3;
        simd::run(Spread {
            wave,
            first,
            words,
            per_word: 32 / bits,
            to,
            decode: Integers { bits, signed },
        });
    }

    fn load(
        wave: &Wave,
        _: &Matrix,
        from: &Source,
        _: [bool; 2],
        _: bool,
        words: usize,
        to: &mut [Self],
    ) {
        let lanes = 32 * wave.halves;
        for word in 0..words {
            for half in 0..wave.halves {
                let mut room = [[0; 32]; 2];
                let from = dwords(wave, from, word, half, &mut room);
                for (to, &dword) in to[word * lanes + 32 * half..].iter_mut().zip(from) {
                    *to = dword as i32;
                }
            }
        }
    }

    fn store(wave: &mut Wave, _: &Matrix, first: usize, _: bool, words: usize, from: &[Self]) {
        let lanes = 32 * wave.halves;
        for word in 0..words {
            for half in 0..wave.halves {
                let from = &from[word * lanes + 32 * half..];
                for (to, &value) in wave.vgpr_mut(first + word, half).iter_mut().zip(from) {
                    *to = value as u32;
                }
            }
        }
    }
}

impl Cell for f64 {
    fn unpack(
        wave: &Wave,
        _: Element,
        [negative, _]: [bool; 2],
        first: usize,
        words: usize,
        to: &mut [Self],
    ) {
        load_f64(wave, &Source::Vgpr(first), negative, words, to);
    }

    fn load(
        wave: &Wave,
        _: &Matrix,
        from: &Source,
        [negative, _]: [bool; 2],
        _: bool,
        words: usize,
        to: &mut [Self],
    ) {
        load_f64(wave, from, negative, words, to);
    }

    fn store(wave: &mut Wave, _: &Matrix, first: usize, _: bool, words: usize, from: &[Self]) {
        let lanes = 32 * wave.halves;
        for pair in 0..words / 2 {
            for half in 0..wave.halves {
                for lane in 0..32 {
                    let value = from[pair * lanes + 32 * half + lane];
                    let bits = if value.is_nan() {
                        0x7ff8 << 48
                    } else {
                        value.to_bits()
                    };
                    wave.vgpr_mut(first + 2 * pair, half)[lane] = bits as u32;
                    wave.vgpr_mut(first + 2 * pair + 1, half)[lane] = (bits >> 32) as u32;
                }
            }
        }
    }
}

fn load_f64(wave: &Wave, from: &Source, negative: bool, words: usize, to: &mut [f64]) {
    let lanes = 32 * wave.halves;
    for pair in 0..words / 2 {
        for half in 0..wave.halves {
            let mut room = [[0; 32]; 2];
            let [low, high] = match from {
                Source::Vgpr(first) => [2 * pair, 2 * pair + 1].map(|w| wave.vgpr(first + w, half)),
                other => other.lanes::<true>(wave, half, &mut room),
            };
            for lane in 0..32 {
                let bits = u64::from(low[lane]) | u64::from(high[lane]) << 32;
                to[pair * lanes + 32 * half + lane] =
                    f64::from_bits(bits ^ u64::from(negative) << 63);
            }
        }
    }
}
