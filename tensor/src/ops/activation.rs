//! Activations: functions of one element that networks put between layers.

use crate::error::Result;
use crate::graph::Tensor;

/// Defines activations over floats, computed in at least `f32`.
macro_rules! activation {
    ($($(#[$doc:meta])* $name:ident($($arg:ident),*), |$x:ident| $body:expr;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Errors None today.
            pub fn $name(&self $(, $arg: f64)*) -> Result<Tensor> {
                self.in_f32(|$x| $body)
            }
        )*}
    };
}

/// Where `x > limit` (or x is NaN) the first, elsewhere the second.
fn above(x: &Tensor, limit: f64, yes: &Tensor, no: &Tensor) -> Result<Tensor> {
    x.le(limit)?.where_(no, yes)
}

/// min(x, 0) with the gradient of x at 0.
fn below_zero(x: &Tensor) -> Result<Tensor> {
    x.le(0.0)?.where_(x, 0.0)
}

/// min(max(x, low), high), with the gradient of PyTorch's hardtanh: 0 at both limits, other than
/// [`Tensor::clip`].
fn strictly(x: &Tensor, low: f64, high: f64) -> Result<Tensor> {
    let below = x.ge(high)?.where_(high, x)?;
    x.le(low)?.where_(low, &below)
}

activation! {
    /// max(x, 0); the gradient at 0 is 0.
    relu(), |x| above(x, 0.0, x, &x.zeros_like()?);
    /// min(max(x, 0), 6); the gradient at 0 and 6 is 0.
    relu6(), |x| strictly(x, 0.0, 6.0);
    /// x above zero, `slope * x` below.
    leaky_relu(slope), |x| above(x, 0.0, x, &x.mul(slope)?);
    /// x above zero, `alpha (e^x - 1)` below.
    elu(alpha), |x| above(x, 0.0, x, &below_zero(x)?.expm1()?.mul(alpha)?);
    /// x above zero, `alpha (e^(x / alpha) - 1)` below.
    celu(alpha), |x| above(x, 0.0, x, &below_zero(x)?.div(alpha)?.expm1()?.mul(alpha)?);
    /// The self-normalizing scaled elu.
    selu(), |x| x.elu(1.673_263_242_354_377_2)?.mul(1.050_700_987_355_480_5);
    /// x above `alpha`, else 0.
    thresholded_relu(alpha), |x| above(x, alpha, x, &x.zeros_like()?);
    /// `x - bias` above `lambda`, `x + bias` below `-lambda`, else 0.
    shrinkage(lambda, bias), |x| {
        let low = x.lt(-lambda)?.where_(&x.add(bias)?, 0.0)?;
        above(x, lambda, &x.sub(bias)?, &low)
    };
    /// x times the normal distribution function: the complement of the error function has the digits that
    /// `1 + erf` loses below zero.
    gelu(), |x| x.mul(-std::f64::consts::FRAC_1_SQRT_2)?.erfc()?.mul(0.5)?.mul(x);
    /// The tanh approximation of gelu.
    gelu_tanh(), |x| {
        let cubic = x.square()?.mul(0.044_715)?.add(1.0)?.mul(x)?;
        // (1 + tanh u) / 2 is the sigmoid of 2u, which keeps its digits below zero.
        let inner = cubic.mul(2.0 * (2.0 / std::f64::consts::PI).sqrt())?;
        inner.sigmoid()?.mul(x)
    };
    /// x sigmoid(1.702 x).
    quick_gelu(), |x| x.mul(1.702)?.sigmoid()?.mul(x);
    /// x sigmoid(x), also called swish.
    silu(), |x| x.sigmoid()?.mul(x);
    /// x tanh(softplus(x)).
    mish(), |x| x.softplus(1.0)?.tanh()?.mul(x);
    /// ln(1 + e^(beta x)) / beta, without overflow.
    softplus(beta), |x| {
        let x = x.mul(beta)?;
        let e = x.mul(&x.sign_choice()?)?.neg()?.exp()?;
        x.lt(0.0)?.where_(0.0, &x)?.add(&e.log1p()?)?.div(beta)
    };
    /// x / (1 + |x|).
    softsign(), |x| x.div(&x.mul(&x.sign_choice()?)?.add(1.0)?);
    /// min(max(alpha x + beta, 0), 1); PyTorch has alpha 1/6, ONNX 0.2, both beta 0.5.
    hardsigmoid(alpha, beta), |x| strictly(&x.mul(alpha)?.add(beta)?, 0.0, 1.0);
    /// x hardsigmoid(x) with alpha 1/6 and beta 0.5.
    hardswish(), |x| x.hardsigmoid(1.0 / 6.0, 0.5)?.mul(x);
    /// min(max(x, low), high); the gradient at both is 0.
    hardtanh(low, high), |x| strictly(x, low, high);
}

impl Tensor {
    /// x above zero, `slope * x` below, with a slope per channel; shapes broadcast.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn prelu(&self, slope: &Tensor) -> Result<Tensor> {
        let x = self.to_float()?;
        above(&x, 0.0, &x, &x.mul(slope)?)
    }
}
