//! Functions that are made of elementary ones. They have the errors of their parts, and two more: an inner argument
//! that is rounded changes a power of e by its size, and a factor that is subnormal has few digits, of which the
//! product with a larger number is full.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

use tensor::Tensor;

use super::functions::{Function, check_all, erfc, sigmoid};

/// Below this, e^x is subnormal in `f32`.
const LEAST: f64 = -87.3;

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// The inner argument of the approximation, times 2.
fn inner(x: f64) -> f64 {
    2.0 * FRAC_2_PI.sqrt() * (x + 0.044715 * x * x * x)
}

/// What a factor of about e^x costs.
fn factor(x: f64) -> f64 {
    if x < LEAST { 56.0 } else { 0.0 }
}

const FUNCTIONS: &[Function] = &[
    Function {
        name: "softplus",
        of: |x| x.softplus(1.0),
        want: softplus,
        exact: None,
        most: |_| 3.0,
    },
    Function {
        name: "logsigmoid",
        of: Tensor::logsigmoid,
        want: |x| -softplus(-x),
        exact: None,
        most: |_| 3.0,
    },
    Function {
        name: "softsign",
        of: Tensor::softsign,
        want: |x| {
            if x.is_infinite() {
                f64::NAN
            } else {
                x / (1.0 + x.abs())
            }
        },
        exact: None,
        most: |_| 2.0,
    },
    Function {
        name: "elu",
        of: |x| x.elu(1.0),
        want: |x| if x > 0.0 { x } else { x.exp_m1() },
        exact: None,
        most: |_| 2.0,
    },
    Function {
        name: "selu",
        of: Tensor::selu,
        want: |x| {
            let scale = 1.050_700_987_355_480_5;
            let below = 1.673_263_242_354_377_2 * x.exp_m1();
            scale * if x > 0.0 { x } else { below }
        },
        exact: None,
        most: |_| 4.0,
    },
    Function {
        name: "silu",
        of: Tensor::silu,
        want: |x| x * sigmoid(x),
        exact: None,
        most: |x| 4.0 + factor(x),
    },
    Function {
        name: "mish",
        of: Tensor::mish,
        want: |x| x * softplus(x).tanh(),
        exact: None,
        most: |x| 5.0 + factor(x),
    },
    // The argument has one rounding and that of its factor, less than 1.5 units together.
    Function {
        name: "quick_gelu",
        of: Tensor::quick_gelu,
        want: |x| x * sigmoid(1.702 * x),
        exact: None,
        most: |x| 4.0 + 1.5 * 1.702 * x.min(0.0).abs() + factor(1.702 * x),
    },
    // As many for x / sqrt(2), whose relative change counts x^2 times.
    Function {
        name: "gelu",
        of: Tensor::gelu,
        want: |x| 0.5 * x * erfc(-x * FRAC_1_SQRT_2),
        exact: None,
        most: |x| 4.0 + 1.5 * x.min(0.0).powi(2),
    },
    Function {
        name: "gelu_tanh",
        of: Tensor::gelu_tanh,
        want: |x| x * sigmoid(inner(x)),
        exact: None,
        most: |x| 4.0 + 3.5 * inner(x.min(0.0)).abs(),
    },
];

#[test]
fn activations() {
    check_all(FUNCTIONS);
}
