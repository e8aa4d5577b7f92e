//! Conversions between element types.

use codegen::DType;
use codegen::interp::scalar;

use crate::graph::Tensor;
use crate::io::Quoted;
use crate::onnx::call::{Call, Table, elem, one};
use crate::onnx::elem::{Elem, STRING};
use crate::onnx::error::{Result, unsupported, wrong};
use crate::onnx::value::{Array, Strings, Value};

pub(super) const OPS: Table = &[
    ("BitCast", bit_cast),
    ("Cast", cast),
    ("CastLike", cast_like),
];

/// What a conversion makes.
enum Target {
    Number(Elem),
    Text,
}

fn cast(c: &mut Call) -> Result<Vec<Value>> {
    use crate::onnx::graph::Attr;
    let to = match c.attr("to") {
        // Before version 6 the type is written out.
        Some(Attr::Str(name)) if name == "STRING" => Target::Text,
        Some(Attr::Str(name)) => match Elem::from_name(name) {
            Some(elem) => Target::Number(elem),
            None => return unsupported(format!("Cast to {}", Quoted::new(name))),
        },
        _ => match c.needed("to", c.attr_int("to")?)? {
            number if number == i64::from(STRING) => Target::Text,
            number => Target::Number(elem(number)?),
        },
    };
    convert(c, to)
}

/// The bits of the elements as those of another type of the same size.
fn bit_cast(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.array(0)?;
    let elem = c.needed("to", c.attr_elem("to")?)?;
    if elem.bits() != x.elem.bits() {
        return wrong(format!(
            "expected a type of {} bits, as {}, found {elem}",
            x.elem.bits(),
            x.elem
        ));
    }
    let tensor = match (x.elem.held(), elem.held()) {
        (from, to) if from == to => x.tensor,
        // By value, not by code: the sign is where the top bit is.
        (_, DType::I8) if elem.bits() < 8 => {
            let rest = 32 - elem.bits() as i64;
            let wide = x.tensor.cast(DType::I32)?;
            wide.shl(rest)?.shr(rest)?.cast(DType::I8)?
        }
        (DType::I8, _) if elem.bits() < 8 => {
            let low = x.tensor.cast(DType::I32)?;
            low.bitand((1i64 << elem.bits()) - 1)?.cast(DType::U8)?
        }
        (DType::Bool, to) => x.tensor.cast(DType::U8)?.bitcast(to)?,
        (from, DType::Bool) => x.tensor.bitcast(from)?.ne(0)?,
        (_, to) => x.tensor.bitcast(to)?,
    };
    one(Array { tensor, elem })
}

fn cast_like(c: &mut Call) -> Result<Vec<Value>> {
    let to = match c.value(1)? {
        Value::Tensor(like) => Target::Number(like.elem),
        Value::Strings(_) => Target::Text,
        other => {
            return wrong(format!(
                "expected a tensor as input 1, found {}",
                other.kind()
            ));
        }
    };
    convert(c, to)
}

fn convert(c: &mut Call, to: Target) -> Result<Vec<Value>> {
    if let Value::Strings(strings) = c.value(0)? {
        return match to {
            Target::Text => one(strings.clone()),
            Target::Number(elem) => one(parsed(c, strings, elem)?),
        };
    }
    let x = c.array(0)?;
    match to {
        Target::Text => one(texts(c, &x)?),
        Target::Number(elem) if elem == x.elem => one(x),
        Target::Number(Elem::F8E8M0) => {
            let saturate = c.int_or("saturate", 1)? != 0;
            one(powers(
                &decode(&x)?,
                c.str_or("round_mode", "up")?,
                saturate,
            )?)
        }
        Target::Number(elem @ (Elem::U4 | Elem::I4 | Elem::U2 | Elem::I2)) if c.opset() >= 24 => {
            // As any integer by now: the low bits of what is cut off.
            one(encode(&decode(&x)?.cast(DType::I32)?, elem, true)?)
        }
        Target::Number(Elem::F4E2M1) if c.opset() >= 24 => {
            // There is no NaN: it became the code of -0.
            let numbers = decode(&x)?;
            let mut codes = encode(&numbers, Elem::F4E2M1, true)?;
            codes.tensor = numbers.isnan()?.where_(8, &codes.tensor)?;
            one(codes)
        }
        Target::Number(elem) => one(encode(&decode(&x)?, elem, c.int_or("saturate", 1)? != 0)?),
    }
}

/// A float whose codes are carried in bytes: sign, exponent, mantissa. All have finite numbers only;
/// what would be -0 is NaN, or there is none.
struct SmallFloat {
    bits: u32,
    mantissa: u32,
    bias: i32,
    nan: Option<u8>,
}

impl SmallFloat {
    fn of(elem: Elem) -> Option<SmallFloat> {
        let (bits, mantissa, bias, nan) = match elem {
            Elem::F8E4M3Fnuz => (8, 3, 8, Some(0x80)),
            Elem::F8E5M2Fnuz => (8, 2, 16, Some(0x80)),
            Elem::F4E2M1 => (4, 1, 1, None),
            _ => return None,
        };
        Some(SmallFloat {
            bits,
            mantissa,
            bias,
            nan,
        })
    }

    /// The code of the sign alone.
    fn sign(&self) -> u32 {
        1 << (self.bits - 1)
    }

    fn value(&self, code: u32) -> f32 {
        if self.nan.is_some_and(|nan| u32::from(nan) == code) {
            return f32::NAN;
        }
        let magnitude = code & (self.sign() - 1);
        let (field, low) = (
            magnitude >> self.mantissa,
            magnitude & ((1 << self.mantissa) - 1),
        );
        let whole = if field > 0 {
            low | 1 << self.mantissa
        } else {
            low
        };
        let exponent = field.max(1) as i32 - self.bias - self.mantissa as i32;
        let value = whole as f32 * 2f32.powi(exponent);
        if code & self.sign() != 0 {
            -value
        } else {
            value
        }
    }

    fn decode(&self, codes: &Tensor) -> crate::Result<Tensor> {
        let table: Vec<f32> = (0..1 << self.bits).map(|code| self.value(code)).collect();
        let table = Tensor::from_slice(codes.engine(), &table, &[table.len()])?;
        table.rows(0, &codes.cast(DType::I32)?)
    }

    /// Nearest value, ties to even. Scaling by a power of two makes the digits that stay a whole
    /// number; adding it to the exponent field less one is right for subnormal numbers too, and a
    /// carry moves into the exponent.
    fn encode(&self, x: &Tensor, saturate: bool) -> crate::Result<Tensor> {
        let x = x.cast(DType::F32)?;
        let nan = x.isnan()?;
        let most = self.sign() - 1;
        let limit = f64::from(self.value(most)) * 2.0;
        let a = nan.where_(0.0, &x.abs()?)?.minimum(limit)?;
        let lowest = 1 - self.bias;
        let exponent = a.bitcast(DType::I32)?.shr(23)?.sub(127)?.maximum(lowest)?;
        let scale = exponent.neg()?.add(127 + self.mantissa as i32)?.shl(23)?;
        let kept = a
            .mul(&scale.bitcast(DType::F32)?)?
            .round()?
            .cast(DType::I32)?;
        let field = exponent.sub(lowest)?.shl(self.mantissa as i32)?;
        let code = field.add(&kept)?;
        let most = most as i32;
        let code = match self.nan {
            Some(nan) if !saturate => code.gt(most)?.where_(i32::from(nan), &code)?,
            _ => code.minimum(most)?,
        };
        let negative = x.bitcast(DType::I32)?.lt(0)?;
        let signed = code.bitor(self.sign() as i32)?;
        let code = match self.nan {
            Some(_) => negative.logical_and(&code.gt(0)?)?.where_(&signed, &code)?,
            None => negative.where_(&signed, &code)?,
        };
        let special = self.nan.map_or(most, i32::from);
        nan.where_(special, &code)?.cast(DType::U8)
    }
}

/// Powers of two: the exponent of an `f32`, one more where the digits behind it are rounded up. Signs
/// are lost.
fn powers(x: &Tensor, mode: &str, saturate: bool) -> Result<Array> {
    let bits = x.cast(DType::F32)?.bitcast(DType::I32)?;
    let exponent = bits.shr(23)?.bitand(255)?;
    let digits = bits.bitand((1 << 23) - 1)?;
    let half = 1 << 22;
    let up = match mode {
        "up" => digits.gt(0)?,
        "down" => digits.lt(0)?,
        // A half goes up, but for numbers below the smallest power.
        "nearest" => {
            let tie = digits.eq(half)?.logical_and(&exponent.gt(0)?)?;
            digits.gt(half)?.logical_or(&tie)?
        }
        other => {
            return wrong(format!(
                "expected attribute round_mode to be up, down or nearest, found {}",
                Quoted::new(other)
            ));
        }
    };
    let most = if saturate { 254 } else { 255 };
    let code = exponent.add(&up.cast(DType::I32)?)?.minimum(most)?;
    let code = exponent.eq(255)?.where_(255, &code)?;
    Ok(Array {
        tensor: code.cast(DType::U8)?,
        elem: Elem::F8E8M0,
    })
}

/// The elements in a type that kernels compute with, exactly.
pub(super) fn decode(array: &Array) -> Result<Tensor> {
    if array.elem == Elem::F8E8M0 {
        let power = |code: i32| match code {
            255 => f32::NAN,
            code => 2f32.powi(code - 127),
        };
        let table: Vec<f32> = (0..256).map(power).collect();
        let table = Tensor::from_slice(array.tensor.engine(), &table, &[256])?;
        return Ok(table.rows(0, &array.tensor.cast(DType::I32)?)?);
    }
    Ok(match SmallFloat::of(array.elem) {
        Some(codes) => codes.decode(&array.tensor)?,
        None => array.tensor.clone(),
    })
}

/// Numbers converted to a type. Floats of 8 bits take the nearest finite number where they overflow
/// if `saturate`.
pub(super) fn encode(x: &Tensor, elem: Elem, saturate: bool) -> Result<Array> {
    let tensor = match elem {
        Elem::Plain(dtype @ (DType::F8E4M3 | DType::F8E5M2)) if saturate => {
            let most = if dtype == DType::F8E4M3 {
                448.0
            } else {
                57344.0
            };
            x.cast(DType::F32)?.clip(-most, most)?.cast(dtype)?
        }
        Elem::Plain(dtype) => x.cast(dtype)?,
        Elem::U4 | Elem::I4 | Elem::U2 | Elem::I2 if x.dtype().is_float() => {
            let (low, high) = limits(elem);
            x.round()?.clip(low, high)?.cast(elem.held())?
        }
        // Integers keep their low bits.
        Elem::U4 => x.cast(DType::I32)?.bitand(15)?.cast(DType::U8)?,
        Elem::U2 => x.cast(DType::I32)?.bitand(3)?.cast(DType::U8)?,
        Elem::I4 => x.cast(DType::I32)?.shl(28)?.shr(28)?.cast(DType::I8)?,
        Elem::I2 => x.cast(DType::I32)?.shl(30)?.shr(30)?.cast(DType::I8)?,
        Elem::F8E8M0 => return powers(x, "up", saturate),
        Elem::F8E4M3Fnuz | Elem::F8E5M2Fnuz | Elem::F4E2M1 => match SmallFloat::of(elem) {
            Some(codes) => codes.encode(x, saturate)?,
            None => return unsupported(format!("a conversion to {elem}")),
        },
    };
    Ok(Array { tensor, elem })
}

/// Smallest and largest number of an integer type.
pub(super) fn limits(elem: Elem) -> (f64, f64) {
    match elem {
        Elem::U4 => (0.0, 15.0),
        Elem::I4 => (-8.0, 7.0),
        Elem::U2 => (0.0, 3.0),
        Elem::I2 => (-2.0, 1.0),
        elem => {
            let (low, high) = scalar::int_limits(elem.held());
            (low as f64, high as f64)
        }
    }
}

/// Numbers that are written out. Special ones are matched without regard to case.
fn parsed(c: &Call, strings: &Strings, elem: Elem) -> Result<Array> {
    // Types that are carried as codes or in a wider type go through `f32`.
    let dtype = match elem {
        Elem::Plain(dtype) => dtype,
        _ => DType::F32,
    };
    let mut bytes = vec![0; strings.items.len() * dtype.size()];
    for (text, element) in strings
        .items
        .iter()
        .zip(bytes.chunks_exact_mut(dtype.size()))
    {
        let Some(bits) = number(text.trim(), dtype) else {
            return wrong(format!(
                "expected a number to convert to {elem}, found {}",
                Quoted::new(text)
            ));
        };
        scalar::write(bits, element);
    }
    let tensor = Tensor::from_bytes(c.engine(), bytes, &strings.shape, dtype)?;
    encode(&tensor, elem, true)
}

fn number(text: &str, dtype: DType) -> Option<u64> {
    if let (false, Ok(whole)) = (dtype.is_float(), text.parse::<i128>()) {
        return Some(scalar::from_int(dtype, whole));
    }
    if dtype == DType::Bool {
        match text.to_ascii_lowercase().as_str() {
            "true" => return Some(1),
            "false" => return Some(0),
            _ => {}
        }
    }
    // One rounding: a decimal that is parsed as `f64` first could be rounded twice.
    if dtype == DType::F32 {
        return text.parse::<f32>().ok().map(|x| x.to_bits().into());
    }
    let bits = text.parse::<f64>().ok()?.to_bits();
    Some(scalar::cast(DType::F64, dtype, bits))
}

/// Numbers written out: floats with as many digits as tell them from their neighbours.
fn texts(c: &mut Call, x: &Array) -> Result<Strings> {
    let numbers = decode(x)?;
    let dtype = numbers.dtype();
    let items: Vec<String> = if dtype.is_float() {
        // The digits that matter are those of the type in the model.
        let narrow = match x.elem {
            Elem::Plain(dtype) => dtype,
            _ => DType::F8E4M3,
        };
        let list = c.read_floats(&numbers)?;
        list.iter().map(|&x| decimal(x, narrow)).collect()
    } else {
        let list = c.read_ints(&numbers)?;
        let text = |&i: &i64| match dtype {
            DType::Bool if i == 0 => "False".into(),
            DType::Bool => "True".into(),
            DType::U64 => (i as u64).to_string(),
            _ => i.to_string(),
        };
        list.iter().map(text).collect()
    };
    Ok(Strings {
        shape: numbers.shape().to_vec(),
        items: items.into(),
    })
}

fn decimal(x: f64, dtype: DType) -> String {
    if !x.is_finite() {
        let sign = if x < 0.0 { "-" } else { "" };
        return if x.is_nan() {
            "NaN".into()
        } else {
            format!("{sign}INF")
        };
    }
    let bits = scalar::from_f64(dtype, x);
    let same = |text: &String| {
        let read = text.parse().map(|y| scalar::from_f64(dtype, y));
        read == Ok(bits)
    };
    let shortest = (0..17).map(|digits| format!("{x:.digits$e}")).find(same);
    let text = shortest.unwrap_or_else(|| format!("{x:e}"));
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) || x == 0.0 {
        // The shortest digits again, without an exponent.
        let value: f64 = text.parse().unwrap_or(x);
        return format!("{value:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Engine;

    type Done = std::result::Result<(), Box<dyn std::error::Error>>;

    fn codes(x: &[f32], elem: Elem, saturate: bool) -> crate::Result<Vec<u8>> {
        let x = Tensor::from_slice(&Engine::reference(), x, &[x.len()])?;
        match encode(&x, elem, saturate) {
            Ok(array) => array.tensor.to_vec(),
            Err(_) => Ok(Vec::new()),
        }
    }

    const CODED: [Elem; 3] = [Elem::F8E4M3Fnuz, Elem::F8E5M2Fnuz, Elem::F4E2M1];

    #[test]
    fn every_code_comes_back() -> Done {
        for elem in CODED {
            let table = SmallFloat::of(elem).ok_or("no codes")?;
            let all: Vec<u8> = (0..=(2 * table.sign() - 1) as u8).collect();
            let values: Vec<f32> = all.iter().map(|&code| table.value(code.into())).collect();
            assert_eq!(codes(&values, elem, true)?, all, "{elem}");
            assert_eq!(codes(&values, elem, false)?, all, "{elem}");
        }
        Ok(())
    }

    #[test]
    fn ties_go_to_even_codes_and_others_to_the_nearest() -> Done {
        for elem in CODED {
            let table = SmallFloat::of(elem).ok_or("no codes")?;
            for low in 0..table.sign() - 1 {
                let (a, b) = (table.value(low), table.value(low + 1));
                let middle = (a + b) / 2.0;
                let even = if low % 2 == 0 { low } else { low + 1 } as u8;
                let around = [middle.next_down(), middle, middle.next_up()];
                let found = codes(&around, elem, true)?;
                assert_eq!(found, [low as u8, even, low as u8 + 1], "{elem} {middle}");
            }
        }
        Ok(())
    }

    #[test]
    fn overflow_is_the_largest_number_or_nan() -> Done {
        let x = [1e30, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -1e-30];
        for elem in [Elem::F8E4M3Fnuz, Elem::F8E5M2Fnuz] {
            assert_eq!(codes(&x, elem, true)?, [0x7f, 0x7f, 0xff, 0x80, 0]);
            assert_eq!(codes(&x, elem, false)?, [0x80, 0x80, 0x80, 0x80, 0]);
        }
        assert_eq!(codes(&x, Elem::F4E2M1, true)?, [7, 7, 15, 7, 8]);
        Ok(())
    }

    #[test]
    fn floats_are_written_with_the_digits_of_their_type() {
        let cases = [
            (0.1f32.into(), DType::F32, "0.1"),
            (scalar::to_f64(DType::F16, 0x2e66), DType::F16, "0.1"),
            (1.0, DType::F64, "1.0"),
            (-0.0, DType::F32, "-0.0"),
            (1e-7, DType::F64, "1e-07"),
            (1.5e16, DType::F32, "1.5e+16"),
            (123_456.0, DType::F32, "123456.0"),
            (f64::NEG_INFINITY, DType::F32, "-INF"),
        ];
        for (x, dtype, text) in cases {
            assert_eq!(decimal(x, dtype), text);
        }
    }
}
