//! Elementwise arithmetic, comparisons, logic, bits, activations.

use codegen::DType;

use super::shape::strings_moved;
use crate::doubles::widest;
use crate::error::Result as TensorResult;
use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, one};
use crate::onnx::error::{Result, wrong};
use crate::onnx::value::Value;

pub(super) const OPS: Table = &[
    ("Abs", |c| unary(c, Tensor::abs)),
    ("Acos", |c| unary(c, Tensor::acos)),
    ("Acosh", |c| unary(c, Tensor::acosh)),
    ("Add", |c| binary(c, |a, b| a.add(b))),
    ("And", |c| binary(c, Tensor::logical_and)),
    ("Asin", |c| unary(c, Tensor::asin)),
    ("Asinh", |c| unary(c, Tensor::asinh)),
    ("Atan", |c| unary(c, Tensor::atan)),
    ("Atanh", |c| unary(c, Tensor::atanh)),
    ("BitShift", bit_shift),
    ("BitwiseAnd", |c| binary(c, |a, b| a.bitand(b))),
    ("BitwiseNot", |c| unary(c, Tensor::not)),
    ("BitwiseOr", |c| binary(c, |a, b| a.bitor(b))),
    ("BitwiseXor", |c| binary(c, |a, b| a.bitxor(b))),
    ("Ceil", |c| unary(c, Tensor::ceil)),
    ("Celu", celu),
    ("Clip", clip),
    ("Cos", |c| unary(c, Tensor::cos)),
    ("Cosh", |c| unary(c, Tensor::cosh)),
    ("Div", |c| binary(c, divide)),
    ("Elu", elu),
    ("Equal", |c| compare(c, |a, b| a.eq(b), |a, b| a == b)),
    ("Erf", |c| unary(c, Tensor::erf)),
    ("Exp", |c| unary(c, Tensor::exp)),
    ("Floor", |c| unary(c, Tensor::floor)),
    ("Gelu", gelu),
    ("Greater", |c| binary(c, |a, b| a.gt(b))),
    ("GreaterOrEqual", |c| binary(c, |a, b| a.ge(b))),
    ("HardSigmoid", hard_sigmoid),
    ("HardSwish", |c| unary(c, Tensor::hardswish)),
    ("IsInf", is_inf),
    ("IsNaN", |c| unary(c, Tensor::isnan)),
    ("LeakyRelu", leaky_relu),
    ("Less", |c| binary(c, |a, b| a.lt(b))),
    ("LessOrEqual", |c| binary(c, |a, b| a.le(b))),
    ("Log", |c| unary(c, Tensor::log)),
    ("Max", |c| fold(c, |a, b| a.maximum(b))),
    ("Mean", mean),
    ("Min", |c| fold(c, |a, b| a.minimum(b))),
    ("Mish", |c| unary(c, Tensor::mish)),
    ("Mod", modulo),
    ("Mul", |c| binary(c, |a, b| a.mul(b))),
    ("Neg", |c| unary(c, Tensor::neg)),
    ("Not", |c| unary(c, Tensor::logical_not)),
    ("Or", |c| binary(c, Tensor::logical_or)),
    ("PRelu", prelu),
    ("Pow", pow),
    ("Reciprocal", |c| unary(c, Tensor::reciprocal)),
    ("Relu", |c| unary(c, |x| x.maximum(0))),
    ("Round", |c| unary(c, Tensor::round)),
    ("Selu", selu),
    ("Shrink", shrink),
    ("Sigmoid", |c| unary(c, Tensor::sigmoid)),
    ("Sign", |c| unary(c, Tensor::sign)),
    ("Sin", |c| unary(c, Tensor::sin)),
    ("Sinh", |c| unary(c, Tensor::sinh)),
    ("Softplus", |c| unary(c, |x| x.softplus(1.0))),
    ("Softsign", |c| unary(c, Tensor::softsign)),
    ("Sqrt", |c| unary(c, Tensor::sqrt)),
    ("Sub", |c| binary(c, |a, b| a.sub(b))),
    ("Sum", |c| fold(c, |a, b| a.add(b))),
    ("SwiGLU", swiglu),
    ("Swish", swish),
    ("Tan", |c| unary(c, Tensor::tan)),
    ("Tanh", |c| unary(c, Tensor::tanh)),
    ("ThresholdedRelu", thresholded_relu),
    ("Where", choose),
    ("Xor", |c| binary(c, Tensor::logical_xor)),
];

/// A function of one tensor, computed in its type.
fn unary(c: &mut Call, f: impl Fn(&Tensor) -> TensorResult<Tensor>) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    one(f(&x)?)
}

/// A function of two tensors of one type.
fn binary(
    c: &mut Call,
    f: impl Fn(&Tensor, &Tensor) -> TensorResult<Tensor>,
) -> Result<Vec<Value>> {
    let (a, mut b) = (c.tensor(0)?, c.tensor(1)?);
    same_type(&a, &b)?;
    if c.opset() < 7 {
        b = placed(c, &a, b)?;
    }
    one(f(&a, &b)?)
}

/// Both operands of an operator must have one type.
fn same_type(a: &Tensor, b: &Tensor) -> Result<()> {
    if a.dtype() == b.dtype() {
        return Ok(());
    }
    wrong(format!(
        "expected both inputs of one type, found {} and {}",
        a.dtype(),
        b.dtype()
    ))
}

/// Before version 7 the second operand says where its first axis belongs.
fn placed(c: &Call, a: &Tensor, b: Tensor) -> Result<Tensor> {
    let Some(axis) = c.attr_int("axis")? else {
        return Ok(b);
    };
    let first = crate::onnx::call::axis(axis, a.rank())?;
    let after = a.rank().saturating_sub(first + b.rank());
    let shape = [b.shape(), &vec![1; after]].concat();
    Ok(b.reshape(&shape)?)
}

/// Equality, which strings have too.
fn compare(
    c: &mut Call,
    f: impl Fn(&Tensor, &Tensor) -> TensorResult<Tensor>,
    g: impl Fn(&str, &str) -> bool,
) -> Result<Vec<Value>> {
    if let Value::Strings(_) = c.value(0)? {
        let (a, b) = (c.strings(0)?.clone(), c.strings(1)?.clone());
        let (shape, pairs) = super::text::pairs(&a, &b)?;
        let bits: Vec<bool> = pairs.iter().map(|&(a, b)| g(a, b)).collect();
        return one(Tensor::from_slice(c.engine(), &bits, &shape)?);
    }
    binary(c, f)
}

/// A left fold over any number of tensors.
fn fold(c: &mut Call, f: impl Fn(&Tensor, &Tensor) -> TensorResult<Tensor>) -> Result<Vec<Value>> {
    let all = c.tensors(0)?;
    let Some((first, rest)) = all.split_first() else {
        return wrong("expected at least one input, found none");
    };
    let mut out = first.clone();
    for x in rest {
        same_type(&out, x)?;
        out = f(&out, x)?;
    }
    one(out)
}

fn mean(c: &mut Call) -> Result<Vec<Value>> {
    let all = c.tensors(0)?;
    if all.is_empty() {
        return wrong("expected at least one input, found none");
    }
    let dtype = all[0].dtype();
    let mut wide = Vec::with_capacity(all.len());
    for x in &all {
        same_type(&all[0], x)?;
        // The sum may be larger than what is stored.
        wide.push(x.cast(widest(x.engine()).promote(dtype))?);
    }
    let sum = Tensor::sum_of(&wide.iter().collect::<Vec<_>>())?;
    one(sum.div(all.len() as f64)?.cast(dtype)?)
}

/// Division; of integers towards zero.
fn divide(a: &Tensor, b: &Tensor) -> TensorResult<Tensor> {
    if a.dtype().is_float() {
        return a.div(b);
    }
    a.trunc_div(b)
}

fn modulo(c: &mut Call) -> Result<Vec<Value>> {
    let (a, b) = (c.tensor(0)?, c.tensor(1)?);
    same_type(&a, &b)?;
    let truncated = c.int_or("fmod", 0)? != 0;
    if a.dtype().is_float() && !truncated {
        if c.opset() < 28 {
            return wrong("expected fmod = 1 for floats, found 0");
        }
        return one(floor_modulo(&a, &b)?);
    }
    one(if truncated {
        a.fmod(&b)?
    } else {
        a.modulo(&b)?
    })
}

/// The remainder with the sign of the divisor, also of 0; an infinite divisor is the remainder of
/// what has the other sign.
fn floor_modulo(a: &Tensor, b: &Tensor) -> TensorResult<Tensor> {
    let rest = a.fmod(b)?;
    let other = rest.lt(0)?.ne(&b.lt(0)?)?.logical_and(&rest.ne(0)?)?;
    let rest = other.where_(&rest.add(b)?, &rest)?;
    rest.eq(0)?.where_(&rest.copysign(b)?, &rest)
}

/// The base decides the type of the result.
fn pow(c: &mut Call) -> Result<Vec<Value>> {
    let (a, mut b) = (c.tensor(0)?, c.tensor(1)?);
    if c.opset() < 7 {
        b = placed(c, &a, b)?;
    }
    let dtype = a.dtype();
    // A square is a product: exact, and cheaper than any function.
    let known = constant(c, 1)?;
    if let Some(exponent) = known {
        let whole = match exponent {
            2.0 => Some(a.mul(&a)?),
            3.0 => Some(a.mul(&a)?.mul(&a)?),
            1.0 => Some(a.clone()),
            0.5 if dtype.is_float() => Some(a.sqrt()?),
            _ => None,
        };
        if let Some(whole) = whole
            && b.rank() <= a.rank()
        {
            return one(whole);
        }
    }
    if dtype == b.dtype() {
        return one(a.pow(&b)?);
    }
    if dtype.is_float() && !b.dtype().is_float() {
        return one(integer_power(&a, &b, known)?);
    }
    let wide = match (dtype.is_float(), b.dtype().is_float()) {
        // No integer type holds all of both u64 and signed ones.
        (false, false) => match dtype.promote(b.dtype()) {
            common if common.is_float() => dtype,
            common => common,
        },
        // `f32` has not the digits of such an integer: a device without `f64` refuses it.
        (false, true) if dtype.size() >= 4 => DType::F64,
        _ => dtype.promote(b.dtype()).promote(DType::F32),
    };
    one(a.cast(wide)?.pow(&b.cast(wide)?)?.cast(dtype)?)
}

/// A float to the power of an integer, whose last digit decides the sign. `known`: the one exponent.
fn integer_power(a: &Tensor, b: &Tensor, known: Option<f64>) -> TensorResult<Tensor> {
    let small = known.is_some_and(|b| b.abs() <= 16_777_216.0) || b.dtype().size() <= 2;
    let wide = match small && a.dtype() != DType::F64 {
        true => DType::F32,
        false => widest(a.engine()).promote(a.dtype()),
    };
    let (base, exponent) = (a.cast(wide)?, b.cast(wide)?);
    let power = base.pow(&exponent)?;
    if small || b.dtype().size() < 8 {
        return power.cast(a.dtype());
    }
    // Beyond 2^53 every float is even.
    let odd = b.bitand(1)?.ne(0)?;
    let lost = exponent.abs()?.ge(2f64.powi(53))?;
    let signed = power.copysign(&base)?;
    let power = odd.bitand(&lost)?.select(&signed, &power)?;
    power.cast(a.dtype())
}

/// The one number of an input, if it is known.
fn constant(c: &mut Call, i: usize) -> Result<Option<f64>> {
    let Value::Tensor(array) = c.value(i)? else {
        return Ok(None);
    };
    let tensor = array.tensor.clone();
    let known = tensor.numel() == 1 && c.is_known(&tensor);
    match known {
        true => Ok(c.read_floats(&tensor)?.first().copied()),
        false => Ok(None),
    }
}

fn bit_shift(c: &mut Call) -> Result<Vec<Value>> {
    let right = match c.str_or("direction", "")? {
        "RIGHT" => true,
        "LEFT" => false,
        other => return c.bad_word("direction", &["LEFT", "RIGHT"], other),
    };
    binary(c, |a, b| {
        // By an amount that is no place of a bit all bits are gone, but for the sign going right.
        let bits = (a.dtype().size() * 8) as i64;
        let outside = b.lt(0)?.logical_or(&b.ge(bits)?)?;
        let place = b.clip(0, bits - 1)?;
        let gone = match right && a.dtype().is_signed() {
            true => a.shr(bits - 1)?,
            false => a.zeros_like()?,
        };
        let moved = if right {
            a.shr(&place)?
        } else {
            a.shl(&place)?
        };
        outside.where_(&gone, &moved)
    })
}

fn is_inf(c: &mut Call) -> Result<Vec<Value>> {
    let (up, down) = (
        c.int_or("detect_positive", 1)? != 0,
        c.int_or("detect_negative", 1)? != 0,
    );
    unary(c, |x| {
        let inf = x.isinf()?;
        match (up, down) {
            (true, true) => Ok(inf),
            (true, false) => inf.logical_and(&x.gt(0)?),
            (false, true) => inf.logical_and(&x.lt(0)?),
            (false, false) => inf.zeros_like(),
        }
    })
}

/// Before version 11 the bounds are attributes.
fn clip(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    if c.opset() < 11 {
        let mut out = x;
        if let Some(low) = c.attr_float("min")? {
            out = out.maximum(low)?;
        }
        if let Some(high) = c.attr_float("max")? {
            out = out.minimum(high)?;
        }
        return one(out);
    }
    let mut out = x;
    if let Some(low) = c.optional(1)? {
        same_type(&out, &low)?;
        out = out.maximum(&low)?;
    }
    if let Some(high) = c.optional(2)? {
        same_type(&out, &high)?;
        out = out.minimum(&high)?;
    }
    one(out)
}

fn choose(c: &mut Call) -> Result<Vec<Value>> {
    let cond = c.tensor(0)?;
    if let Value::Strings(_) = c.value(1)? {
        let (a, b) = (c.strings(1)?.clone(), c.strings(2)?.clone());
        let cond = c.eval.known(&cond)?;
        let chosen = strings_moved(c, &[&a, &b], |at| Ok(cond.where_(&at[0], &at[1])?))?;
        return one(chosen);
    }
    let (a, b) = (c.tensor(1)?, c.tensor(2)?);
    same_type(&a, &b)?;
    one(cond.where_(&a, &b)?)
}

fn celu(c: &mut Call) -> Result<Vec<Value>> {
    let alpha = c.float_or("alpha", 1.0)?;
    unary(c, |x| x.celu(alpha))
}

fn elu(c: &mut Call) -> Result<Vec<Value>> {
    let alpha = c.float_or("alpha", 1.0)?;
    unary(c, |x| x.elu(alpha))
}

fn selu(c: &mut Call) -> Result<Vec<Value>> {
    let alpha = c.float_or("alpha", 1.673_263_192_176_818_8)?;
    let gamma = c.float_or("gamma", 1.050_701_022_148_132_3)?;
    unary(c, |x| x.elu(alpha)?.mul(gamma))
}

fn gelu(c: &mut Call) -> Result<Vec<Value>> {
    match c.str_or("approximate", "none")? {
        "none" => unary(c, Tensor::gelu),
        "tanh" => unary(c, Tensor::gelu_tanh),
        other => {
            let other = other.to_string();
            c.bad_word("approximate", &["none", "tanh"], &other)
        }
    }
}

fn hard_sigmoid(c: &mut Call) -> Result<Vec<Value>> {
    let (alpha, beta) = (c.float_or("alpha", 0.2)?, c.float_or("beta", 0.5)?);
    unary(c, |x| x.hardsigmoid(alpha, beta))
}

fn leaky_relu(c: &mut Call) -> Result<Vec<Value>> {
    let alpha = c.float_or("alpha", 0.01)?;
    unary(c, |x| x.leaky_relu(alpha))
}

/// The slope broadcasts like any second operand; before version 7 it is one per channel.
fn prelu(c: &mut Call) -> Result<Vec<Value>> {
    let (x, mut slope) = (c.tensor(0)?, c.tensor(1)?);
    if c.opset() < 7 && slope.rank() == 1 && slope.numel() > 1 && x.rank() > 1 {
        let mut shape = vec![1; x.rank()];
        shape[1] = slope.numel();
        slope = slope.reshape(&shape)?;
    }
    one(x.lt(0)?.where_(&x.mul(&slope)?, &x)?)
}

fn shrink(c: &mut Call) -> Result<Vec<Value>> {
    let (bias, lambda) = (c.float_or("bias", 0.0)?, c.float_or("lambd", 0.5)?);
    unary(c, |x| x.shrinkage(lambda, bias)?.cast(x.dtype()))
}

fn swish(c: &mut Call) -> Result<Vec<Value>> {
    let alpha = c.float_or("alpha", 1.0)?;
    unary(c, |x| x.mul(&x.mul(alpha)?.sigmoid()?))
}

/// A gate and what it lets through.
fn swiglu(c: &mut Call) -> Result<Vec<Value>> {
    let (gate, x) = (c.tensor(0)?, c.tensor(1)?);
    same_type(&gate, &x)?;
    let alpha = c.float_or("alpha", 1.0)?;
    one(gate.in_f32(|g| g.mul(&g.mul(alpha)?.sigmoid()?)?.mul(&x.cast(g.dtype())?))?)
}

fn thresholded_relu(c: &mut Call) -> Result<Vec<Value>> {
    let alpha = c.float_or("alpha", 1.0)?;
    unary(c, |x| x.thresholded_relu(alpha))
}
