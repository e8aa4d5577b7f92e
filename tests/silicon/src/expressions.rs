//! Ten expressions that compilers make one kernel of, or two; `torch_beside.py` has the same, by the same names.

use tensor::{DType, Result, Tensor};

/// An expression of two matrices and two rows.
pub type Expression = fn(&[Tensor]) -> Result<Tensor>;

/// All of them.
pub const ALL: [(&str, Expression); 10] = [
    ("x y + x", |a| a[0].mul(&a[1])?.add(&a[0])),
    ("gelu(x + y)", |a| a[0].add(&a[1])?.gelu()),
    ("silu(x) y", |a| a[0].silu()?.mul(&a[1])),
    ("exp(-|x - y|)", |a| a[0].sub(&a[1])?.abs()?.neg()?.exp()),
    ("clamp(3 x - 1, -1, 1) as bf16", |a| {
        a[0].mul(3.0)?.sub(1.0)?.clip(-1.0, 1.0)?.cast(DType::BF16)
    }),
    ("sum((x - y)^2) of rows", |a| {
        a[0].sub(&a[1])?.square()?.sum(&[1], false)
    }),
    ("softmax of rows", |a| a[0].softmax(1)),
    ("softmax(x + y) of rows", |a| a[0].add(&a[1])?.softmax(1)),
    ("layer norm of rows", |a| {
        a[0].layer_norm(1, Some(&a[2]), Some(&a[3]), 1e-5)
    }),
    ("gelu(rms norm of rows)", |a| {
        a[0].rms_norm(Some(&a[2]), 1e-6)?.gelu()
    }),
];
