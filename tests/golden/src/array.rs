//! Arrays of any element type in host memory, and how far two of them are apart.
//!
//! Elements are decoded here and not by the engine, so that a wrong decoder cannot agree with
//! itself.

use std::fmt;

use codegen::DType;
use half::{bf16, f16};

/// Elements in row-major order, little-endian.
#[derive(Clone, PartialEq, Eq)]
pub struct Array {
    /// Element type.
    pub dtype: DType,
    /// Sizes of the axes, outermost first.
    pub shape: Vec<usize>,
    /// `dtype.size()` bytes per element.
    pub bytes: Vec<u8>,
}

/// How close two elements have to be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Tolerance {
    /// The same bits, but for the payload of a NaN.
    Exact,
    /// `|got - expected| <= absolute + relative * |expected|`; infinities and NaN have to agree.
    Near {
        /// Share of the expectation.
        relative: f64,
        /// In units of the value.
        absolute: f64,
    },
}

/// Two arrays that should agree and do not.
#[derive(Debug, thiserror::Error)]
pub enum Mismatch {
    /// The types differ.
    #[error("expected type {expected}, got {got}")]
    Type {
        /// Of the reference.
        expected: DType,
        /// Of the engine.
        got: DType,
    },
    /// The shapes differ.
    #[error("expected shape {expected:?}, got {got:?}")]
    Shape {
        /// Of the reference.
        expected: Vec<usize>,
        /// Of the engine.
        got: Vec<usize>,
    },
    /// Some elements are too far apart; the fields are about the worst.
    #[error("{count} of {total} elements differ; the worst at {index:?}: {pair}")]
    Elements {
        /// Elements out of tolerance.
        count: usize,
        /// All elements.
        total: usize,
        /// Position of the worst.
        index: Vec<usize>,
        /// What was expected there, what was found.
        pair: Box<Pair>,
    },
}

/// Two elements that are too far apart.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pair {
    /// Value of the reference.
    pub expected: Value,
    /// Value of the engine.
    pub got: Value,
    /// Distance in several measures.
    pub apart: Apart,
    /// What was allowed.
    pub allowed: Tolerance,
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pair {
            expected,
            got,
            apart,
            allowed,
        } = self;
        write!(
            f,
            "expected {expected}, got {got} ({apart}, allowed {allowed:?})"
        )
    }
}

/// One decoded element.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// Of a float type, exactly.
    Float(f64),
    /// Of an integer type or a truth value, exactly.
    Int(i128),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Float(x) => write!(f, "{x:e}"),
            Value::Int(x) => write!(f, "{x}"),
        }
    }
}

/// A distance between two elements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Apart {
    /// `|got - expected|`.
    pub absolute: f64,
    /// The same as a share of `|expected|`.
    pub relative: f64,
    /// Representable values between the two, for floats.
    pub ulps: Option<u64>,
}

impl fmt::Display for Apart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "abs {:.3e}, rel {:.3e}", self.absolute, self.relative)?;
        match self.ulps {
            Some(ulps) => write!(f, ", {ulps} ulp"),
            None => Ok(()),
        }
    }
}

/// Whether the bytes of an element are a denormal number, or a zero.
fn is_tiny(dtype: DType, bytes: &[u8]) -> Option<bool> {
    let word = bytes.iter().rev().fold(0u64, |w, &b| w << 8 | u64::from(b));
    let (exponent, mantissa) = match dtype {
        DType::F32 => (0x7f80_0000, 0x007f_ffff),
        DType::F16 => (0x7c00, 0x03ff),
        DType::BF16 => (0x7f80, 0x007f),
        _ => return None,
    };
    (word & exponent == 0).then_some(word & mantissa != 0)
}

impl Array {
    /// What a device gives to which denormal numbers are zeros: whatever it gives where one of the inputs of this shape
    /// is denormal, and a zero, too, where the result is.
    #[must_use]
    pub fn flushed(&self, got: &Array, inputs: &[Array]) -> Array {
        let mut expected = self.clone();
        let size = self.dtype.size();
        let denormal = |array: &Array, i: usize| {
            let size = array.dtype.size();
            let bytes = array.bytes.get(i * size..(i + 1) * size);
            bytes.and_then(|b| is_tiny(array.dtype, b)) == Some(true)
        };
        let alike = |input: &&Array| input.shape == self.shape;
        for (i, element) in expected.bytes.chunks_exact_mut(size).enumerate() {
            let Some(found) = got.bytes.get(i * size..(i + 1) * size) else {
                break;
            };
            let open = inputs.iter().filter(alike).any(|input| denormal(input, i));
            let zero = denormal(self, i) && is_tiny(self.dtype, found).is_some();
            if open || zero {
                element.copy_from_slice(found);
            }
        }
        expected
    }
}

/// Value of an 8-bit float with `mantissa` bits; `finite`: no infinity, one NaN (e4m3).
fn eight(byte: u8, mantissa: u32, finite: bool) -> f64 {
    let exponent_bits = 7 - mantissa;
    let bias = (1 << (exponent_bits - 1)) - 1;
    let exponent = i32::from(byte >> mantissa & ((1 << exponent_bits) - 1));
    let fraction = f64::from(byte & ((1 << mantissa) - 1)) / f64::from(1u32 << mantissa);
    let last = exponent == (1 << exponent_bits) - 1;
    let special = if finite { byte & 0x7f == 0x7f } else { last };
    let magnitude = if special && (finite || fraction > 0.0) {
        f64::NAN
    } else if special {
        f64::INFINITY
    } else if exponent == 0 {
        fraction * 2f64.powi(1 - bias)
    } else {
        (1.0 + fraction) * 2f64.powi(exponent - bias)
    };
    if byte & 0x80 == 0 {
        magnitude
    } else {
        -magnitude
    }
}

impl Array {
    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.bytes.len() / self.dtype.size()
    }

    /// The bits of element `i`, zero-extended.
    fn bits(&self, i: usize) -> u64 {
        let size = self.dtype.size();
        let mut wide = [0; 8];
        wide[..size].copy_from_slice(&self.bytes[i * size..][..size]);
        u64::from_le_bytes(wide)
    }

    /// Element `i` in row-major order.
    ///
    /// # Panics
    /// There is no such element.
    pub fn value(&self, i: usize) -> Value {
        let bits = self.bits(i);
        match self.dtype {
            DType::Bool | DType::U8 | DType::U16 | DType::U32 | DType::U64 => {
                Value::Int(i128::from(bits))
            }
            DType::I8 => Value::Int(i128::from(bits as i8)),
            DType::I16 => Value::Int(i128::from(bits as i16)),
            DType::I32 => Value::Int(i128::from(bits as i32)),
            DType::I64 => Value::Int(i128::from(bits as i64)),
            DType::F8E4M3 => Value::Float(eight(bits as u8, 3, true)),
            DType::F8E5M2 => Value::Float(eight(bits as u8, 2, false)),
            DType::F16 => Value::Float(f16::from_bits(bits as u16).to_f64()),
            DType::BF16 => Value::Float(bf16::from_bits(bits as u16).to_f64()),
            DType::F32 => Value::Float(f64::from(f32::from_bits(bits as u32))),
            DType::F64 => Value::Float(f64::from_bits(bits)),
        }
    }

    /// All elements of a float array.
    pub fn floats(&self) -> Vec<f64> {
        (0..self.numel())
            .map(|i| match self.value(i) {
                Value::Float(x) => x,
                Value::Int(x) => x as f64,
            })
            .collect()
    }

    /// Place of a float among all floats of its type, in order of value.
    fn rank(&self, i: usize) -> i128 {
        let sign = 1u64 << (self.dtype.bits() - 1);
        let bits = self.bits(i);
        let magnitude = i128::from(bits & (sign - 1));
        if bits & sign == 0 {
            magnitude
        } else {
            -magnitude
        }
    }

    fn apart(&self, got: &Array, i: usize) -> Apart {
        let as_float = |v| match v {
            Value::Float(x) => x,
            Value::Int(x) => x as f64,
        };
        let (want, have) = (as_float(self.value(i)), as_float(got.value(i)));
        let absolute = (have - want).abs();
        let finite = self.dtype.is_float() && want.is_finite() && have.is_finite();
        Apart {
            absolute,
            relative: absolute / want.abs(),
            ulps: finite.then(|| self.rank(i).abs_diff(got.rank(i)) as u64),
        }
    }

    fn agrees(&self, got: &Array, i: usize, allowed: Tolerance) -> bool {
        match (self.value(i), got.value(i)) {
            (Value::Int(want), Value::Int(have)) => want == have,
            (Value::Float(want), Value::Float(have)) => {
                if want.is_nan() || have.is_nan() {
                    return want.is_nan() && have.is_nan();
                }
                match allowed {
                    Tolerance::Exact => self.bits(i) == got.bits(i),
                    Tolerance::Near { relative, absolute } => {
                        want == have
                            || want.is_finite()
                                && have.is_finite()
                                && (have - want).abs() <= absolute + relative * want.abs()
                    }
                }
            }
            _ => false,
        }
    }

    /// Checks what an engine computed against this expectation.
    ///
    /// # Errors
    /// Type, shape or an element differs.
    pub fn check(&self, got: &Array, allowed: Tolerance) -> Result<(), Mismatch> {
        if self.dtype != got.dtype {
            return Err(Mismatch::Type {
                expected: self.dtype,
                got: got.dtype,
            });
        }
        if self.shape != got.shape {
            return Err(Mismatch::Shape {
                expected: self.shape.clone(),
                got: got.shape.clone(),
            });
        }
        let wrong: Vec<usize> = (0..self.numel())
            .filter(|&i| !self.agrees(got, i, allowed))
            .collect();
        // A NaN distance is the worst there is.
        let key = |&i: &usize| {
            let distance = self.apart(got, i).absolute;
            if distance.is_nan() {
                f64::INFINITY
            } else {
                distance
            }
        };
        let Some(&worst) = wrong.iter().max_by(|a, b| key(a).total_cmp(&key(b))) else {
            return Ok(());
        };
        let mut index = vec![0; self.shape.len()];
        let mut rest = worst;
        for (at, &len) in index.iter_mut().zip(&self.shape).rev() {
            (*at, rest) = (rest % len, rest / len);
        }
        Err(Mismatch::Elements {
            count: wrong.len(),
            total: self.numel(),
            index,
            pair: Box::new(Pair {
                expected: self.value(worst),
                got: got.value(worst),
                apart: self.apart(got, worst),
                allowed,
            }),
        })
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} [", self.dtype, self.shape)?;
        for i in 0..self.numel().min(16) {
            write!(f, "{}{}", if i > 0 { ", " } else { "" }, self.value(i))?;
        }
        write!(f, "{}]", if self.numel() > 16 { ", ..." } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f32]) -> Array {
        Array {
            dtype: DType::F32,
            shape: vec![values.len()],
            bytes: values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        }
    }

    #[test]
    fn eight_bit_floats() {
        assert_eq!(eight(0x7e, 3, true), 448.0);
        assert!(eight(0x7f, 3, true).is_nan());
        assert_eq!(eight(0x01, 3, true), 2f64.powi(-9));
        assert_eq!(eight(0xb8, 3, true), -1.0);
        assert_eq!(eight(0x7b, 2, false), 57344.0);
        assert_eq!(eight(0xfc, 2, false), f64::NEG_INFINITY);
        assert!(eight(0x7d, 2, false).is_nan());
        assert_eq!(eight(0x01, 2, false), 2f64.powi(-16));
    }

    #[test]
    fn exact_means_bits_but_for_nan() {
        let exact = Tolerance::Exact;
        assert!(of(&[f32::NAN]).check(&of(&[-f32::NAN]), exact).is_ok());
        assert!(of(&[0.0]).check(&of(&[-0.0]), exact).is_err());
        assert!(of(&[1.0]).check(&of(&[1.0 + f32::EPSILON]), exact).is_err());
    }

    #[test]
    fn near_tells_infinities_and_nan_apart() {
        let near = Tolerance::Near {
            relative: 1e-3,
            absolute: 1e-3,
        };
        assert!(
            of(&[1.0, f32::INFINITY])
                .check(&of(&[1.001, f32::INFINITY]), near)
                .is_ok()
        );
        assert!(of(&[f32::INFINITY]).check(&of(&[f32::MAX]), near).is_err());
        assert!(of(&[f32::MAX]).check(&of(&[f32::INFINITY]), near).is_err());
        assert!(of(&[1.0]).check(&of(&[f32::NAN]), near).is_err());
        assert!(of(&[f32::NAN]).check(&of(&[1.0]), near).is_err());
        assert!(of(&[0.0]).check(&of(&[-0.0]), near).is_ok());
    }

    #[test]
    fn the_report_names_the_worst_element() {
        let want = Array {
            shape: vec![2, 3],
            ..of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        };
        let got = Array {
            shape: vec![2, 3],
            ..of(&[1.0, 2.5, 3.0, 4.0, 7.0, 6.0])
        };
        let Err(Mismatch::Elements {
            count, index, pair, ..
        }) = want.check(
            &got,
            Tolerance::Near {
                relative: 0.0,
                absolute: 0.1,
            },
        )
        else {
            panic!("two elements are wrong");
        };
        assert_eq!((count, index), (2, vec![1, 1]));
        assert_eq!(pair.apart.absolute, 2.0);
        let Err(Mismatch::Elements { pair, .. }) =
            of(&[1.0]).check(&of(&[1.0 + 3.0 * f32::EPSILON]), Tolerance::Exact)
        else {
            panic!("three steps apart");
        };
        assert_eq!(pair.apart.ulps, Some(3));
    }

    #[test]
    fn type_and_shape_count() {
        let a = of(&[1.0, 2.0]);
        let b = Array {
            shape: vec![2, 1],
            ..a.clone()
        };
        let c = Array {
            dtype: DType::I32,
            ..a.clone()
        };
        assert!(matches!(
            a.check(&b, Tolerance::Exact),
            Err(Mismatch::Shape { .. })
        ));
        assert!(matches!(
            a.check(&c, Tolerance::Exact),
            Err(Mismatch::Type { .. })
        ));
    }
}
