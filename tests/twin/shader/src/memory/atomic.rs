//! What atomics do: from what memory holds, the first and the second data operand, to what it holds
//! afterwards. LDS and vector memory share them.
//!
//! Of two data operands the first is the new value and the second what is compared with, but for
//! `cmpst` (LDS of RDNA2 and CDNA3), where it is the other way around.

use half::{bf16, f16};

/// Which denormals count as zero.
#[derive(Clone, Copy, Default, Debug)]
pub struct Flush {
    /// Operands.
    pub input: bool,
    /// Results.
    pub output: bool,
}

/// An atomic of 32 bits.
pub type Op32 = fn(u32, u32, u32, Flush) -> u32;
/// An atomic of 64 bits.
pub type Op64 = fn(u64, u64, u64, Flush) -> u64;

macro_rules! integer {
    ($($name:ident, $name64:ident: |$mem:ident, $data:ident, $other:ident| $value:expr;)*) => {$(
        pub fn $name($mem: u32, $data: u32, $other: u32, _: Flush) -> u32 {
            let _ = ($data, $other);
            $value
        }

        pub fn $name64($mem: u64, $data: u64, $other: u64, _: Flush) -> u64 {
            let _ = ($data, $other);
            $value
        }
    )*};
}

integer! {
    swap, swap64: |mem, data, other| { let _ = mem; data };
    cmpswap, cmpswap64: |mem, new, expected| if mem == expected { new } else { mem };
    cmpst, cmpst64: |mem, expected, new| if mem == expected { new } else { mem };
    add, add64: |mem, data, other| mem.wrapping_add(data);
    sub, sub64: |mem, data, other| mem.wrapping_sub(data);
    rsub, rsub64: |mem, data, other| data.wrapping_sub(mem);
    inc, inc64: |mem, data, other| if mem >= data { 0 } else { mem + 1 };
    dec, dec64: |mem, data, other| if mem == 0 || mem > data { data } else { mem - 1 };
    min_u, min_u64: |mem, data, other| mem.min(data);
    max_u, max_u64: |mem, data, other| mem.max(data);
    and, and64: |mem, data, other| mem & data;
    or, or64: |mem, data, other| mem | data;
    xor, xor64: |mem, data, other| mem ^ data;
    mskor, mskor64: |mem, mask, data| mem & !mask | data;
}

pub fn wrap(mem: u32, data: u32, other: u32, _: Flush) -> u32 {
    if mem >= data {
        mem - data
    } else {
        mem.wrapping_add(other)
    }
}

/// Saturates at 0.
pub fn sub_clamp(mem: u32, data: u32, _: u32, _: Flush) -> u32 {
    mem.saturating_sub(data)
}

/// Leaves what is smaller alone.
pub fn cond_sub(mem: u32, data: u32, _: u32, _: Flush) -> u32 {
    mem.checked_sub(data).unwrap_or(mem)
}

pub fn min_i(mem: u32, data: u32, _: u32, _: Flush) -> u32 {
    (mem as i32).min(data as i32) as u32
}

pub fn max_i(mem: u32, data: u32, _: u32, _: Flush) -> u32 {
    (mem as i32).max(data as i32) as u32
}

pub fn min_i64(mem: u64, data: u64, _: u64, _: Flush) -> u64 {
    (mem as i64).min(data as i64) as u64
}

pub fn max_i64(mem: u64, data: u64, _: u64, _: Flush) -> u64 {
    (mem as i64).max(data as i64) as u64
}

macro_rules! float {
    (
        $bits:ty, $float:ty, $fraction:literal;
        $flush:ident, $quiet:ident, $add:ident, $cmpswap:ident, $cmpst:ident,
        $min:ident, $max:ident, $min_num:ident, $max_num:ident
    ) => {
        /// A denormal becomes a zero of its sign.
        fn $flush(value: $bits, on: bool) -> $bits {
            let magnitude = value << 1 >> 1;
            if on && magnitude >> $fraction == 0 {
                value ^ magnitude
            } else {
                value
            }
        }

        fn $quiet(value: $bits) -> $bits {
            value | 1 << ($fraction - 1)
        }

        /// Rounds to nearest even, whatever MODE says (ISA documents, float atomics).
        pub fn $add(mem: $bits, data: $bits, _: $bits, flush: Flush) -> $bits {
            let a = <$float>::from_bits($flush(mem, flush.input));
            let b = <$float>::from_bits($flush(data, flush.input));
            if a.is_nan() {
                $quiet(mem)
            } else if b.is_nan() {
                $quiet(data)
            } else if (a + b).is_nan() {
                $quiet(<$float>::INFINITY.to_bits())
            } else {
                $flush((a + b).to_bits(), flush.output)
            }
        }

        pub fn $cmpswap(mem: $bits, new: $bits, expected: $bits, flush: Flush) -> $bits {
            let a = <$float>::from_bits($flush(mem, flush.input));
            let b = <$float>::from_bits($flush(expected, flush.input));
            $flush(if a == b { new } else { mem }, flush.input)
        }

        pub fn $cmpst(mem: $bits, expected: $bits, new: $bits, flush: Flush) -> $bits {
            $cmpswap(mem, new, expected, flush)
        }

        /// A comparison and nothing else: what is not less leaves memory as it is.
        pub fn $min(mem: $bits, data: $bits, _: $bits, flush: Flush) -> $bits {
            let a = <$float>::from_bits($flush(mem, flush.input));
            let b = <$float>::from_bits($flush(data, flush.input));
            if b < a { data } else { mem }
        }

        /// See the minimum.
        pub fn $max(mem: $bits, data: $bits, _: $bits, flush: Flush) -> $bits {
            let a = <$float>::from_bits($flush(mem, flush.input));
            let b = <$float>::from_bits($flush(data, flush.input));
            if b > a { data } else { mem }
        }

        /// The number where one is NaN, and -0 below +0.
        pub fn $min_num(mem: $bits, data: $bits, _: $bits, flush: Flush) -> $bits {
            let a = <$float>::from_bits($flush(mem, flush.input));
            let b = <$float>::from_bits($flush(data, flush.input));
            if a.is_nan() && b.is_nan() {
                $quiet(data)
            } else if a.is_nan() {
                data
            } else if b < a || a == 0.0 && b == 0.0 && b.is_sign_negative() && a.is_sign_positive()
            {
                data
            } else {
                mem
            }
        }

        /// See the minimum.
        pub fn $max_num(mem: $bits, data: $bits, _: $bits, flush: Flush) -> $bits {
            let a = <$float>::from_bits($flush(mem, flush.input));
            let b = <$float>::from_bits($flush(data, flush.input));
            if a.is_nan() && b.is_nan() {
                $quiet(data)
            } else if a.is_nan() {
                data
            } else if b > a || a == 0.0 && b == 0.0 && b.is_sign_positive() && a.is_sign_negative()
            {
                data
            } else {
                mem
            }
        }
    };
}

float! {
    u32, f32, 23;
    flush32, quiet32, add_f32, cmpswap_f32, cmpst_f32, min_f32, max_f32, min_num_f32, max_num_f32
}
float! {
    u64, f64, 52;
    flush64, quiet64, add_f64, cmpswap_f64, cmpst_f64, min_f64, max_f64, min_num_f64, max_num_f64
}

/// Both halves. A sum of two is exact enough in 32 bits that rounding it again is right.
fn halves(mem: u32, data: u32, add: fn(u16, u16) -> u16) -> u32 {
    let low = add(mem as u16, data as u16);
    let high = add((mem >> 16) as u16, (data >> 16) as u16);
    u32::from(low) | u32::from(high) << 16
}

pub fn pk_add_f16(mem: u32, data: u32, _: u32, _: Flush) -> u32 {
    halves(mem, data, |mem, data| {
        let (a, b) = (f16::from_bits(mem), f16::from_bits(data));
        match a.to_f32() + b.to_f32() {
            _ if a.is_nan() => mem | 0x200,
            _ if b.is_nan() => data | 0x200,
            sum if sum.is_nan() => 0x7e00,
            sum => f16::from_f32(sum).to_bits(),
        }
    })
}

pub fn pk_add_bf16(mem: u32, data: u32, _: u32, _: Flush) -> u32 {
    halves(mem, data, |mem, data| {
        let (a, b) = (bf16::from_bits(mem), bf16::from_bits(data));
        match a.to_f32() + b.to_f32() {
            _ if a.is_nan() => mem | 0x40,
            _ if b.is_nan() => data | 0x40,
            sum if sum.is_nan() => 0x7fc0,
            sum => bf16::from_f32(sum).to_bits(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Flush = Flush {
        input: false,
        output: false,
    };
    const FLUSH: Flush = Flush {
        input: true,
        output: true,
    };

    #[test]
    fn counters_wrap() {
        assert_eq!(inc(5, 5, 0, KEEP), 0);
        assert_eq!(inc(4, 5, 0, KEEP), 5);
        assert_eq!(dec(0, 5, 0, KEEP), 5);
        assert_eq!(dec(9, 5, 0, KEEP), 5);
        assert_eq!(wrap(3, 5, 7, KEEP), 10);
        assert_eq!(cond_sub(3, 5, 0, KEEP), 3);
        assert_eq!(min_i64(!0, 1, 0, KEEP), !0);
    }

    #[test]
    fn floats() {
        let bits = f32::to_bits;
        assert_eq!(add_f32(1, 2, 0, KEEP), 3);
        assert_eq!(add_f32(1, 2, 0, FLUSH), 0);
        assert_eq!(
            add_f32(bits(f32::INFINITY), bits(f32::NEG_INFINITY), 0, KEEP),
            0x7fc0_0000
        );
        assert_eq!(add_f32(0x7f80_0001, 0, 0, KEEP), 0x7fc0_0001);
        assert_eq!(min_f32(bits(1.0), 0x7fc0_0000, 0, KEEP), bits(1.0));
        assert_eq!(min_f32(0, bits(-0.0), 0, KEEP), 0);
        assert_eq!(min_num_f32(0, bits(-0.0), 0, KEEP), bits(-0.0));
        assert_eq!(min_num_f32(0x7fc0_0000, bits(2.0), 0, KEEP), bits(2.0));
        assert_eq!(cmpswap_f32(bits(-0.0), bits(3.0), 0, KEEP), bits(3.0));
        assert_eq!(pk_add_f16(0x3c00_0001, 0x3c00_0001, 0, KEEP), 0x4000_0002);
        assert_eq!(pk_add_bf16(0x3f80_3f80, 0x3f80_7f81, 0, KEEP), 0x4000_7fc1);
    }
}
