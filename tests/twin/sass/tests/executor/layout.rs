//! `mma.sync`, and `wgmma` where it is like it, in the words of the manual of PTX: where the elements of matrices are, what they are, and what
//! is computed of them.

/// Of what type an element is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Type {
    Half,
    Brain,
    E4m3,
    E5m2,
    Tf32,
    Single,
    Double,
    /// Bits, and whether there is a sign.
    Integer(usize, bool),
    Bit,
}

/// A statement: the shape, the types of A, B and the sums.
#[derive(Debug)]
pub struct Mma {
    m: usize,
    pub n: usize,
    pub k: usize,
    pub types: [Type; 3],
    saturates: bool,
    and: bool,
}

pub fn parse(statement: &str) -> Mma {
    let parts: Vec<&str> = statement.split([' ', '.']).collect();
    let numbers = |part: &str| {
        let numbers = part.strip_prefix('m')?.split(['n', 'k']);
        let numbers: Vec<usize> = numbers.map_while(|number| number.parse().ok()).collect();
        <[usize; 3]>::try_from(numbers).ok()
    };
    let [m, n, k] = parts.iter().find_map(|part| numbers(part)).unwrap();
    let types: Vec<Type> = parts
        .iter()
        .filter_map(|&part| match part {
            "f16" => Some(Type::Half),
            "bf16" => Some(Type::Brain),
            "e4m3" => Some(Type::E4m3),
            "e5m2" => Some(Type::E5m2),
            "tf32" => Some(Type::Tf32),
            "f32" => Some(Type::Single),
            "f64" => Some(Type::Double),
            "s32" => Some(Type::Integer(32, true)),
            "s8" => Some(Type::Integer(8, true)),
            "u8" => Some(Type::Integer(8, false)),
            "s4" => Some(Type::Integer(4, true)),
            "u4" => Some(Type::Integer(4, false)),
            "b1" => Some(Type::Bit),
            _ => None,
        })
        .collect();
    let [c, a, b, ..] = types[..] else {
        panic!("types were expected: {statement}");
    };
    Mma {
        m,
        n,
        k,
        types: [a, b, c],
        saturates: parts.contains(&"satfinite"),
        and: parts.contains(&"and"),
    }
}

impl Type {
    pub fn bits(self) -> usize {
        match self {
            Self::E4m3 | Self::E5m2 => 8,
            Self::Half | Self::Brain => 16,
            Self::Tf32 | Self::Single => 32,
            Self::Double => 64,
            Self::Integer(bits, _) => bits,
            Self::Bit => 1,
        }
    }

    /// The bits of exponent and fraction.
    fn format(self) -> (i32, i32) {
        match self {
            Self::E4m3 => (4, 3),
            Self::E5m2 => (5, 2),
            Self::Half => (5, 10),
            Self::Brain => (8, 7),
            Self::Tf32 => (8, 10),
            Self::Single => (8, 23),
            _ => (11, 52),
        }
    }

    /// The least number that has a leading one.
    fn least(self) -> f64 {
        let (exponents, _) = self.format();
        2_f64.powi(2 - (1 << (exponents - 1)))
    }

    /// An element as a number.
    pub fn number(self, bits: u64) -> f64 {
        match self {
            // The upper byte of a half, which has as many bits of exponent.
            Self::E5m2 => Self::Half.number(bits << 8),
            Self::E4m3 => {
                let magnitude = match (bits >> 3 & 15, (bits & 7) as f64) {
                    (15, 7.0) => f64::NAN,
                    (0, fraction) => fraction * 2_f64.powi(-9),
                    (exponent, fraction) => (8.0 + fraction) * 2_f64.powi(exponent as i32 - 10),
                };
                if bits >> 7 & 1 != 0 {
                    -magnitude
                } else {
                    magnitude
                }
            }
            Self::Half => {
                let magnitude = match (bits >> 10 & 31, (bits & 0x3ff) as f64) {
                    (0, fraction) => fraction * 2_f64.powi(-24),
                    (31, 0.0) => f64::INFINITY,
                    (31, _) => f64::NAN,
                    (exponent, fraction) => (1024.0 + fraction) * 2_f64.powi(exponent as i32 - 25),
                };
                if bits >> 15 & 1 != 0 {
                    -magnitude
                } else {
                    magnitude
                }
            }
            Self::Brain => f64::from(f32::from_bits((bits as u32) << 16)),
            // The lower 13 bits count for nothing.
            Self::Tf32 => f64::from(f32::from_bits(bits as u32 & 0xffff_e000)),
            Self::Single => f64::from(f32::from_bits(bits as u32)),
            Self::Double => f64::from_bits(bits),
            Self::Integer(32, _) => f64::from(bits as i32),
            Self::Integer(..) | Self::Bit => bits as f64,
        }
    }

    /// A number as an element, cut off; one of eight bits is at most the greatest.
    pub fn float(self, x: f64) -> u64 {
        match self {
            Self::E5m2 => Self::Half.float(x.clamp(-57344.0, 57344.0)) >> 8,
            Self::E4m3 => {
                // The greatest magnitude that is not above it.
                let fits = |bits: &u64| self.number(*bits) <= x.abs();
                let magnitude = (0..0x7f).rev().find(fits).unwrap_or(0);
                u64::from(x.is_sign_negative()) << 7 | magnitude
            }
            Self::Half => {
                let (bits, magnitude) = (x.to_bits(), x.abs());
                let sign = bits >> 63 << 15;
                let least = 2_f64.powi(-14);
                if magnitude < least {
                    return sign | (magnitude * 2_f64.powi(24)) as u64;
                }
                sign | (((bits >> 52 & 0x7ff) - 1008) << 10) | (bits >> 42 & 0x3ff)
            }
            Self::Brain => u64::from((x as f32).to_bits() >> 16),
            Self::Tf32 => u64::from((x as f32).to_bits() & 0xffff_e000),
            Self::Single => u64::from((x as f32).to_bits()),
            _ => x.to_bits(),
        }
    }

    /// Some element that is special, or a small one.
    pub fn corner(self, random: u64) -> u64 {
        let (exponent, fraction) = self.format();
        let all = ((1_u64 << exponent) - 1) << fraction;
        let below = match self {
            Self::Tf32 => 13,
            _ => 0,
        };
        let magnitudes = [
            0,
            1,
            1 << fraction,
            (1 << fraction) - 1,
            all - 1,
            all,
            all | 1 << (fraction - 1),
        ];
        let pick = (random >> 8) % 64;
        let magnitude = match magnitudes.get(pick as usize) {
            Some(&magnitude) => magnitude,
            None => self.float(1.0 + (random >> 40) as f64) >> below,
        };
        (magnitude | (random & 1) << (exponent + fraction)) << below
    }
}

/// The words in which lanes have the elements of an operand: A and B and C as words, or as doubles.
fn first(operand: usize, of: Type) -> usize {
    match (operand, of) {
        (0, _) => 0,
        (1, Type::Double) => 16,
        (2, Type::Double) => 24,
        (operand, _) => 8 * operand,
    }
}

pub fn put(words: &mut [u32], operand: usize, of: Type, i: usize, bits: u64) {
    let (first, size) = (first(operand, of), of.bits());
    if size == 64 {
        words[first + 2 * i] = bits as u32;
        words[first + 2 * i + 1] = (bits >> 32) as u32;
        return;
    }
    let (word, shift) = (first + i * size / 32, i * size % 32);
    let mask = (1_u64 << size) - 1;
    words[word] |= ((bits & mask) << shift) as u32;
}

#[allow(dead_code)] // Not of every test that has this module.
pub fn get(words: &[u32], operand: usize, of: Type, i: usize) -> u64 {
    get_result(&words[first(operand, of)..], of, i)
}

pub fn get_result(words: &[u32], of: Type, i: usize) -> u64 {
    let size = of.bits();
    if size == 64 {
        return u64::from(words[2 * i]) | u64::from(words[2 * i + 1]) << 32;
    }
    u64::from(words[i * size / 32]) >> (i * size % 32) & ((1 << size) - 1)
}

impl Mma {
    /// Elements that a lane has of A, B or the sums.
    pub fn count(&self, operand: usize) -> usize {
        match operand {
            0 => self.m * self.k / 32,
            1 => self.k * self.n / 32,
            _ => self.m * self.n / 32,
        }
    }

    /// The row and the column of an element that a lane has, as the figures of the manual have them.
    pub fn place(&self, operand: usize, lane: usize, i: usize) -> (usize, usize) {
        let (group, thread) = (lane >> 2, lane % 4);
        let size = self.types[operand].bits();
        // Neighbours in a register.
        let each = (32 / size).max(1);
        match operand {
            0 if self.m == 8 => (group, thread * each + i),
            0 => {
                let row = group + 8 * (i / each % 2);
                (row, thread * each + i % each + 4 * each * (i / each / 2))
            }
            1 => (thread * each + i % each + 4 * each * (i / each), group),
            _ => {
                let row = if i < 2 { group } else { group + 8 };
                (row, thread * 2 + (i & 1))
            }
        }
    }

    /// The sum of products of integers, or how many bits are counted.
    pub fn whole(&self, factors: &[(u64, u64)], c: u64) -> u32 {
        let value = |of: Type, bits: u64| match of {
            Type::Integer(size, true) => (bits << (64 - size)) as i64 >> (64 - size),
            _ => bits as i64,
        };
        let [a, b, _] = self.types;
        let products = factors.iter().map(|&(x, y)| match a {
            Type::Bit if self.and => (x & y) as i64,
            Type::Bit => (x ^ y) as i64,
            _ => value(a, x) * value(b, y),
        });
        let exact = products.sum::<i64>() + i64::from(c as i32);
        if self.saturates {
            exact.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32
        } else {
            exact as u32
        }
    }

    /// Whether a sum of products of numbers is near enough.
    pub fn near(&self, factors: &[(u64, u64)], c: u64, ours: u64) -> bool {
        let [a, b, sum] = self.types;
        let (ours, c) = (sum.number(ours), sum.number(c));
        let terms: Vec<f64> = factors
            .iter()
            .map(|&(x, y)| a.number(x) * b.number(y))
            .chain([c])
            .collect();
        let exact: f64 = terms.iter().sum();
        // A number without a leading one is as far up as the least that has one.
        let reach = |of: Type, x: f64| {
            if x == 0.0 {
                0.0
            } else {
                x.abs().max(of.least())
            }
        };
        let product = |&(x, y): &(u64, u64)| reach(a, a.number(x)) * reach(b, b.number(y));
        let most = factors.iter().map(product).fold(c.abs(), f64::max);
        if exact == ours || exact.is_nan() && ours.is_nan() {
            return true;
        }
        let (bits, greatest, least) = match sum {
            Type::Half => (10, 65504.0, 2_f64.powi(-24)),
            Type::Single => (23, f64::from(f32::MAX), f64::from(f32::from_bits(1))),
            _ => (52, f64::MAX, f64::from_bits(1)),
        };
        let magnitudes: f64 = terms.iter().map(|x| x.abs()).sum();
        // Some may pass by infinity on their way to a number, or to the other infinity.
        let beyond = factors.iter().any(|&(x, y)| {
            let (x, y) = (a.number(x), b.number(y));
            x.is_finite() && y.is_finite() && !(x * y).is_finite()
        });
        let summed: f64 = terms
            .iter()
            .map(|x| x.abs())
            .filter(|x| x.is_finite())
            .sum();
        let numbers = !terms.iter().any(|x| x.is_nan());
        let beyond = beyond || numbers && summed * 1.01 >= greatest;
        if beyond && (sum == Type::Double || !ours.is_finite()) {
            return true;
        }
        // As much as a single has is kept, if not more; the result is cut off or rounded, halves after
        // each block.
        let kept = match (a, sum) {
            (_, Type::Double) => 52,
            // Of numbers of 8 bits four warps keep less: as DeepSeek's report on its third version has it.
            (Type::E4m3 | Type::E5m2, _) if self.m == 64 => 13,
            _ => 23,
        };
        let lost = most * 2_f64.powi(-kept) * 2.0 * terms.len() as f64;
        let rounded = most.max(exact.abs()) * 2_f64.powi(1 - bits) + 2.0 * least;
        let whole = terms.iter().all(|x| x.fract() == 0.0) && magnitudes < 2048.0;
        let bound = if whole { 0.0 } else { lost + rounded };
        (ours - exact).abs() <= bound
    }
}
