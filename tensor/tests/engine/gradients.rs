//! Every operation against finite differences in binary64, on the reference executor.
//!
//! The table is the list of operations: a test reads the sources and asks that every public method
//! occurs in it, or in the tests of values beside it.

use std::collections::BTreeSet;

use codegen::ir::ReduceOp::{self, Add, Max, Min, Mul};
use tensor::autograd::gradients_from;
use tensor::graph::{Op, ScatterMode};
use tensor::loops::{Order, recur};
use tensor::nn::{Optimizer, Sgd};
use tensor::ops::attention::Attention;
use tensor::ops::conv::ConvParams;
use tensor::ops::image::Interpolation;
use tensor::ops::loss::{Classes, Reduction};
use tensor::ops::movement::{PadMode, Slice};
use tensor::{DType, Engine, Parameter, Result, Rng, Scalar, Tensor};

/// How the inputs are drawn.
#[derive(Clone, Copy)]
enum Draw {
    /// Within -2..2, all different.
    Any,
    /// Within 0.3..2.
    Positive,
    /// Within -0.9..0.9.
    Unit,
    /// Within 1.1..3.
    AboveOne,
}

type Build = fn(&[Tensor]) -> Result<Tensor>;

struct Case {
    name: &'static str,
    shapes: &'static [&'static [usize]],
    draw: Draw,
    build: Build,
}

macro_rules! cases {
    ($($name:literal $draw:ident $shapes:expr, |$x:ident| $body:expr;)*) => {
        &[$(Case {
            name: $name,
            shapes: &$shapes,
            draw: Draw::$draw,
            build: |$x| $body,
        }),*]
    };
}

fn index(e: &Engine, data: &[i32], shape: &[usize]) -> Result<Tensor> {
    Tensor::from_slice(e, data, shape)
}

fn classes(reduction: Reduction) -> Classes {
    Classes {
        reduction,
        ..Classes::default()
    }
}

const A: &[usize] = &[2, 3];
const V: &[usize] = &[5];
const M: &[usize] = &[2, 3, 4];
const IMAGE: &[usize] = &[1, 2, 5, 6];

fn table() -> &'static [Case] {
    cases! {
        "add" Any [A, &[3]], |x| x[0].add(&x[1]);
        "sub" Any [A, &[2, 1]], |x| x[0].sub(&x[1]);
        "mul" Any [A, A], |x| x[0].mul(&x[1]);
        "div" Positive [A, A], |x| x[0].div(&x[1]);
        "maximum" Any [A, A], |x| x[0].maximum(&x[1]);
        "minimum" Any [A, A], |x| x[0].minimum(&x[1]);
        "fmod" Positive [A, A], |x| x[0].mul(7.3)?.fmod(&x[1]);
        "modulo" Positive [A, A], |x| x[0].mul(-7.3)?.modulo(&x[1]);
        "pow" Positive [A, A], |x| x[0].pow(&x[1]);
        "pow by a number" Any [A], |x| x[0].pow(3.0);
        "neg" Any [A], |x| x[0].neg();
        "abs" Any [A], |x| x[0].abs();
        "reciprocal" Positive [A], |x| x[0].reciprocal();
        "sqrt" Positive [A], |x| x[0].sqrt();
        "rsqrt" Positive [A], |x| x[0].rsqrt();
        "square" Any [A], |x| x[0].square();
        "exp" Any [A], |x| x[0].exp();
        "exp2" Any [A], |x| x[0].exp2();
        "exp10" Any [A], |x| x[0].exp10();
        "expm1" Any [A], |x| x[0].expm1();
        "log" Positive [A], |x| x[0].log();
        "log2" Positive [A], |x| x[0].log2();
        "log10" Positive [A], |x| x[0].log10();
        "log1p" Positive [A], |x| x[0].log1p();
        "sin" Any [A], |x| x[0].sin();
        "cos" Any [A], |x| x[0].cos();
        "tan" Unit [A], |x| x[0].tan();
        "asin" Unit [A], |x| x[0].asin();
        "acos" Unit [A], |x| x[0].acos();
        "atan" Any [A], |x| x[0].atan();
        "sinh" Any [A], |x| x[0].sinh();
        "cosh" Any [A], |x| x[0].cosh();
        "tanh" Any [A], |x| x[0].tanh();
        "asinh" Any [A], |x| x[0].asinh();
        "acosh" AboveOne [A], |x| x[0].acosh();
        "atanh" Unit [A], |x| x[0].atanh();
        "erf" Any [A], |x| x[0].erf();
        "erfc" Any [A], |x| x[0].erfc();
        "sigmoid" Any [A], |x| x[0].sigmoid();
        "logsigmoid" Any [A], |x| x[0].logsigmoid();
        "relu" Any [A], |x| x[0].relu();
        "relu6" Any [A], |x| x[0].mul(5.0)?.relu6();
        "leaky_relu" Any [A], |x| x[0].leaky_relu(0.1);
        "prelu" Any [A, &[3]], |x| x[0].prelu(&x[1]);
        "elu" Any [A], |x| x[0].elu(1.3);
        "celu" Any [A], |x| x[0].celu(1.3);
        "selu" Any [A], |x| x[0].selu();
        "thresholded_relu" Any [A], |x| x[0].thresholded_relu(0.5);
        "shrinkage" Any [A], |x| x[0].shrinkage(0.5, 0.2);
        "gelu" Any [A], |x| x[0].gelu();
        "gelu_tanh" Any [A], |x| x[0].gelu_tanh();
        "quick_gelu" Any [A], |x| x[0].quick_gelu();
        "silu" Any [A], |x| x[0].silu();
        "mish" Any [A], |x| x[0].mish();
        "softplus" Any [A], |x| x[0].softplus(2.0);
        "softsign" Any [A], |x| x[0].softsign();
        "hardsigmoid" Any [A], |x| x[0].hardsigmoid(0.2, 0.5);
        "hardswish" Any [A], |x| x[0].hardswish();
        "hardtanh" Any [A], |x| x[0].hardtanh(-1.0, 1.0);
        "atan2" Any [A, A], |x| x[0].atan2(&x[1]);
        "hypot" Any [A, A], |x| x[0].hypot(&x[1]);
        "smooth_l1_loss" Any [A, A], |x| x[0].smooth_l1_loss(&x[1], 0.7, Reduction::Sum);
        "adaptive_avg_pool" Any [IMAGE], |x| x[0].adaptive_avg_pool(&[3, 4]);
        "index_add" Any [&[3, 2], &[4, 2]], |x| {
            x[0].index_add(0, &index(x[0].engine(), &[2, 0, 2, -2], &[4])?, &x[1])
        };
        "nansum" Any [M], |x| x[0].nansum(&[1], false);
        "nanmean" Any [M], |x| x[0].nanmean(&[0, 2], true);
        "median" Any [M], |x| Ok(x[0].median(1, false)?.0);
        "solve" Any [&[3, 3], &[3, 2]], |x| x[0].add(&Tensor::eye(x[0].engine(), 3, 3, DType::F64)?.mul(4)?)?.solve(&x[1]);
        "inv" Any [&[2, 2, 2]], |x| x[0].add(&Tensor::eye(x[0].engine(), 2, 2, DType::F64)?.mul(4)?)?.inv();
        "cholesky" Any [&[3, 3]], |x| x[0].add(&Tensor::eye(x[0].engine(), 3, 3, DType::F64)?.mul(6)?)?.cholesky();
        "solve_triangular" Positive [&[3, 3], &[2, 3, 2]], |x| {
            x[0].solve_triangular(&x[1], false)?.add(&x[0].solve_triangular(&x[1], true)?)
        };
        "masked_select" Any [A], |x| x[0].masked_select(&x[0].detach()?.gt(0)?);
        "unique" Any [A], |x| Ok(x[0].unique()?.values);
        "copysign" Positive [A], |x| x[0].copysign(-1.0);
        "logaddexp" Any [A, A], |x| x[0].logaddexp(&x[1]);
        "lerp" Any [A, A, A], |x| x[0].lerp(&x[1], &x[2]);
        "clip" Any [A], |x| x[0].clip(-1.0, 1.0);
        "clamp" Any [A, &[3]], |x| x[0].clamp(Some((&x[1]).into()), None);
        "where_" Any [A, A], |x| x[0].gt(0)?.where_(&x[0], &x[1]);
        "masked_fill" Any [A], |x| x[0].masked_fill(&x[0].gt(0)?, 3.0);
        "sum_of" Any [A, A], |x| Tensor::sum_of(&[&x[0], &x[1], &x[0]]);
        "product_of" Any [A, A], |x| Tensor::product_of(&[&x[0], &x[1], &x[0]]);
        "to_float" Any [A], |x| x[0].to_float()?.square();
        "floor" Any [A], |x| x[0].sub(&x[0].floor()?);
        "ceil" Any [A], |x| x[0].sub(&x[0].ceil()?);
        "trunc" Any [A], |x| x[0].sub(&x[0].trunc()?);
        "round" Any [A], |x| x[0].sub(&x[0].round()?);
        "sign" Any [A], |x| x[0].sign()?.mul(&x[0]);

        "reshape" Any [A], |x| x[0].reshape(&[3, 2])?.square();
        "view" Any [A], |x| x[0].view(&[-1, 2]);
        "permute" Any [M], |x| x[0].permute(&[2, 0, 1]);
        "transpose" Any [M], |x| x[0].transpose(0, -1);
        "t" Any [A], |x| x[0].t();
        "move_axis" Any [M], |x| x[0].move_axis(0, -1);
        "expand" Any [&[2, 1]], |x| x[0].expand(&[3, 2, 4]);
        "flip" Any [M], |x| x[0].flip(&[0, 2]);
        "reverse" Any [M], |x| x[0].reverse(&[1]);
        "squeeze" Any [&[2, 1, 3]], |x| x[0].squeeze(&[]);
        "unsqueeze" Any [A], |x| x[0].unsqueeze(-1);
        "flatten" Any [M], |x| x[0].flatten(1, 2);
        "unflatten" Any [A], |x| x[0].unflatten(1, &[-1, 1]);
        "narrow" Any [M], |x| x[0].narrow(2, 1, 2);
        "index" Any [M], |x| x[0].index(1, -1);
        "slice" Any [M], |x| {
            let back = Slice { start: None, stop: Some(0), step: -2 };
            x[0].slice(&[Slice::ALL, (0..2).into(), back])
        };
        "slice_assign" Any [M, &[1, 2, 2]], |x| x[0].slice_assign(&[0, 1, 1], &x[1]);
        "shrink" Any [A], |x| x[0].shrink(&[0, 1], &[1, 2]);
        "pad_to" Any [A], |x| x[0].pad_to(&[1, 0], &[4, 5], Scalar::Float(2.0).bits(DType::F64));
        "pad" Any [A], |x| x[0].pad(&[(1, 0), (-1, 2)], PadMode::Constant(3.0.into()));
        "pad reflect" Any [&[4]], |x| x[0].pad(&[(2, 3)], PadMode::Reflect);
        "pad replicate" Any [&[4]], |x| x[0].pad(&[(2, 3)], PadMode::Replicate);
        "pad circular" Any [&[4]], |x| x[0].pad(&[(2, 3)], PadMode::Circular);
        "windows" Any [&[9, 2]], |x| x[0].windows(0, 3, 2, 2);
        "windows side by side" Any [&[2, 7]], |x| x[0].windows(1, 3, 3, 1);
        "unfold" Any [&[7]], |x| x[0].unfold(0, 3, 1);
        "cat" Any [A, &[2, 2]], |x| Tensor::cat(&[&x[0], &x[1], &x[0]], 1);
        "stack" Any [A, A], |x| Tensor::stack(&[&x[0], &x[1]], 1);
        "split" Any [A], |x| x[0].split(&[1, 2], 1)?[1].square();
        "chunk" Any [V], |x| x[0].chunk(2, 0)?[1].square();
        "repeat" Any [A], |x| x[0].repeat(&[2, 1, 3]);
        "repeat_interleave" Any [A], |x| x[0].repeat_interleave(2, 0);
        "roll" Any [A], |x| x[0].roll(-2, 1);
        "diag" Any [V], |x| x[0].diag();
        "diagonal" Any [M], |x| x[0].diagonal(0, 2);
        "meshgrid" Any [V, &[2]], |x| {
            let grid = Tensor::meshgrid(&[&x[0], &x[1]])?;
            grid[0].mul(&grid[1])
        };
        "tril" Any [&[3, 4]], |x| x[0].tril(1);
        "triu" Any [&[3, 4]], |x| x[0].triu(-1);
        "contiguous" Any [A], |x| x[0].square()?.contiguous();
        "recur" Any [A, &[3], &[3]], |x| {
            let made = recur(2, Order::Forward, &[&x[1]], &[&x[0]], |state, row| {
                let next = state[0].mul(&row[0])?.add(&x[2])?.tanh()?;
                Ok::<_, tensor::Error>((vec![next.clone()], vec![next.mul(&x[2])?]))
            })?;
            made.states[0].add(&made.outputs[0])?.add(&made.last[0])
        };
        "detach" Any [A], |x| x[0].mul(&x[0].detach()?.zeros_like()?.add(2.0)?);
        "to" Any [A], |x| x[0].to(&Engine::reference())?.square()?.to(x[0].engine());
        "cast" Any [A], |x| x[0].cast(DType::F64)?.square();

        "sum" Any [M], |x| x[0].sum(&[0, 2], false);
        "sum_in" Any [M], |x| x[0].sum_in(DType::F64, &[1], true);
        "prod" Any [M], |x| x[0].prod(&[1], false);
        "max" Any [M], |x| x[0].max(&[1, 2], false);
        "min" Any [M], |x| x[0].min(&[], false);
        "mean" Any [M], |x| x[0].mean(&[1], true);
        "var" Any [M], |x| x[0].var(&[1, 2], 1.0, false);
        "std" Any [M], |x| x[0].std(&[1, 2], 1.0, false);
        "var_mean" Any [M], |x| { let (v, m) = x[0].var_mean(&[1], 0.0, false)?; v.mul(&m) };
        "std_mean" Any [M], |x| { let (v, m) = x[0].std_mean(&[1], 0.0, false)?; v.mul(&m) };
        "norm 1" Any [M], |x| x[0].norm(1.0, &[1], false);
        "norm 2" Any [M], |x| x[0].norm(2.0, &[1], false);
        "norm 3" Any [M], |x| x[0].norm(3.0, &[1], false);
        "norm inf" Any [M], |x| x[0].norm(f64::INFINITY, &[1], false);
        "normalize" Any [M], |x| x[0].normalize(2.0, 1, 1e-12);
        "logsumexp" Any [M], |x| x[0].logsumexp(&[0, 1], false);
        "softmax" Any [A], |x| x[0].softmax(-1);
        "softmin" Any [A], |x| x[0].softmin(0);
        "log_softmax" Any [A], |x| x[0].log_softmax(-1);
        "cumsum" Any [A], |x| x[0].cumsum(1);
        "cumprod" Any [A], |x| x[0].cumprod(1);
        "cummax" Any [&[2, 6]], |x| x[0].cummax(1);
        "cummin" Any [&[2, 6]], |x| x[0].cummin(1);
        "logcumsumexp" Any [A], |x| x[0].logcumsumexp(1);
        "reduce" Any [A], |x| x[0].reduce(Mul, &[0, 1]);
        "scan" Any [A], |x| x[0].scan(Mul, 0);

        "matmul" Any [A, &[3, 4]], |x| x[0].matmul(&x[1]);
        "matmul batched" Any [&[2, 1, 2, 3], &[3, 3, 2]], |x| x[0].matmul(&x[1]);
        "matmul of vectors" Any [V, V], |x| x[0].matmul(&x[1]);
        "matmul by a vector" Any [M, &[4]], |x| x[0].matmul(&x[1]);
        "matmul_in" Any [A, &[3, 4]], |x| x[0].matmul_in(&x[1], DType::F64);
        "dot" Any [&[3], &[3, 4]], |x| x[0].dot(&x[1]);
        "linear" Any [A, &[4, 3], &[4]], |x| x[0].linear(&x[1], Some(&x[2]));
        "outer" Any [V, &[2]], |x| x[0].outer(&x[1]);
        "einsum" Any [&[2, 3, 3], &[3, 4]], |x| Tensor::einsum("bii,ij->bj", &[&x[0], &x[1]]);
        "einsum ..." Any [M, &[4, 2]], |x| Tensor::einsum("...k,kn", &[&x[0], &x[1]]);

        "conv" Any [IMAGE, &[4, 1, 3, 2], &[4]], |x| {
            let s = ConvParams {
                stride: vec![2, 1],
                padding: vec![(1, 0), (1, 2)],
                dilation: vec![1, 2],
            };
            x[0].conv(&x[1], Some(&x[2]), &s, 2)
        };
        "conv 1-d" Any [&[2, 2, 7], &[3, 2, 3]], |x| {
            x[0].conv(&x[1], None, &ConvParams::strided(2, 1).padded(1, 1).dilated(2, 1), 1)
        };
        "conv 3-d" Any [&[1, 1, 3, 3, 3], &[2, 1, 2, 2, 2]], |x| {
            x[0].conv(&x[1], None, &ConvParams::default(), 1)
        };
        "conv_transpose" Any [&[1, 4, 3, 2], &[4, 1, 3, 2], &[2]], |x| {
            let s = ConvParams::strided(2, 2).padded(1, 2);
            x[0].conv_transpose(&x[1], Some(&x[2]), &s, &[1, 0], 2)
        };
        "max_pool" Any [IMAGE], |x| x[0].max_pool(&[2, 3], &ConvParams::default().padded(1, 2), true);
        "max_pool_indices" Any [IMAGE], |x| {
            Ok(x[0].max_pool_indices(&[2, 2], &ConvParams::default(), false)?.0)
        };
        "max_unpool" Any [IMAGE], |x| {
            let (v, i) = x[0].max_pool_indices(&[2, 2], &ConvParams::default(), false)?;
            v.max_unpool(&i, &[5, 6])
        };
        "avg_pool" Any [IMAGE], |x| {
            x[0].avg_pool(&[3, 2], &ConvParams::strided(2, 2).padded(1, 2), true, false)
        };
        "lp_pool" Positive [IMAGE], |x| x[0].lp_pool(3.0, &[2, 2], &ConvParams::default(), false);
        "global_avg_pool" Any [IMAGE], |x| x[0].global_avg_pool();
        "global_max_pool" Any [IMAGE], |x| x[0].global_max_pool();

        "standardize" Any [M], |x| x[0].standardize(&[1, 2], 1e-5);
        "layer_norm" Any [M, &[3, 4], &[3, 4]], |x| {
            x[0].layer_norm(2, Some(&x[1]), Some(&x[2]), 1e-5)
        };
        "rms_norm" Any [M, &[4]], |x| x[0].rms_norm(Some(&x[1]), 1e-5);
        "group_norm" Any [&[2, 4, 3], &[4], &[4]], |x| {
            x[0].group_norm(2, Some(&x[1]), Some(&x[2]), 1e-5)
        };
        "instance_norm" Any [&[2, 2, 4], &[2]], |x| x[0].instance_norm(Some(&x[1]), None, 1e-5);
        "batch_norm" Positive [&[2, 3, 2], &[3], &[3], &[3], &[3]], |x| {
            x[0].batch_norm(&x[1], &x[2], Some(&x[3]), Some(&x[4]), 1e-5)
        };
        "local_response_norm" Any [&[1, 5, 3]], |x| x[0].local_response_norm(3, 0.5, 0.75, 1.0);

        "gather" Any [&[3, 4]], |x| {
            // Computed, so that the host does not know it.
            let computed = index(x[0].engine(), &[0, -1, 1, 2, 0, 0], &[2, 3])?;
            x[0].gather(0, &computed.add(&computed.gt(5)?)?)
        };
        "index_select" Any [&[3, 4]], |x| {
            x[0].index_select(1, &index(x[0].engine(), &[3, 0, 0, -2], &[2, 2])?)
        };
        "take" Any [A], |x| x[0].take(&index(x[0].engine(), &[5, 0, 5], &[3])?);
        "embedding" Any [&[4, 2]], |x| x[0].embedding(&index(x[0].engine(), &[3, 1, 3], &[3])?);
        "scatter" Any [V, &[4]], |x| {
            x[0].scatter(0, &index(x[0].engine(), &[1, 3, 1, 0], &[4])?, &x[1], ScatterMode::Set)
        };
        "scatter mul" Any [V, &[4]], |x| {
            let i = index(x[0].engine(), &[1, 3, 1, 0], &[4])?;
            x[0].scatter(0, &i, &x[1], ScatterMode::Combine(Mul))
        };
        "scatter max" Any [V, &[4]], |x| {
            let i = index(x[0].engine(), &[1, 3, 1, 0], &[4])?;
            x[0].scatter(0, &i, &x[1], ScatterMode::Combine(Max))
        };
        "scatter_add" Any [V, &[4]], |x| {
            x[0].scatter_add(0, &index(x[0].engine(), &[1, 3, 1, 0], &[4])?, &x[1])
        };
        "scatter_reduce" Any [V, &[4]], |x| {
            let i = index(x[0].engine(), &[1, 3, 1, 0], &[4])?;
            x[0].scatter_reduce(0, &i, &x[1], Add, false)
        };
        "scatter_mean" Any [V, &[4]], |x| {
            x[0].scatter_mean(0, &index(x[0].engine(), &[1, 3, 1, 0], &[4])?, &x[1], true)
        };
        "gather_nd" Any [&[3, 2, 2]], |x| {
            x[0].gather_nd(&index(x[0].engine(), &[2, 1, 0, -1, 2, 1], &[3, 2])?, 0)
        };
        "scatter_nd" Any [&[3, 2], &[2, 2]], |x| {
            let i = index(x[0].engine(), &[2, 0], &[2, 1])?;
            x[0].scatter_nd(&i, &x[1], ScatterMode::Combine(Add))
        };
        "sort" Any [&[2, 6]], |x| Ok(x[0].sort(1, true)?.0);
        "topk" Any [&[2, 6]], |x| Ok(x[0].topk(3, 1, true)?.0);

        "attention" Any [&[4, 3, 2], &[2, 5, 2], &[2, 5, 3]], |x| {
            let causal = Attention { causal: true, softcap: Some(3.0), ..Attention::default() };
            x[0].attention(&x[1], &x[2], &causal)
        };
        "rotary" Any [&[3, 4]], |x| {
            let at = Tensor::iota(x[0].engine(), 3, DType::I32)?;
            let (cos, sin) = at.rotary_angles(4, 100.0)?;
            x[0].rotary(&cos, &sin, false)?.add(&x[0].rotary(&cos, &sin, true)?)
        };
        "nll_loss" Any [&[3, 4]], |x| {
            let classes = Classes { ignore: Some(1), ..classes(Reduction::Mean) };
            x[0].nll_loss(&index(x[0].engine(), &[3, 1, 0], &[3])?, &classes)
        };
        "cross_entropy" Any [&[3, 4]], |x| {
            let classes = Classes { smoothing: 0.1, ..classes(Reduction::None) };
            x[0].cross_entropy(&index(x[0].engine(), &[3, 1, 0], &[3])?, &classes)
        };
        "cross_entropy with probabilities" Any [A, A], |x| {
            x[0].cross_entropy(&x[1].softmax(1)?, &classes(Reduction::Sum))
        };
        "sparse_categorical_crossentropy" Any [M], |x| {
            x[0].sparse_categorical_crossentropy(&index(x[0].engine(), &[3, 1, 0, 0, 2, 1], &[2, 3])?)
        };
        "binary_cross_entropy" Any [A, A], |x| {
            x[0].sigmoid()?.binary_cross_entropy(&x[1], Reduction::Mean)
        };
        "binary_cross_entropy_logits" Any [A, A], |x| {
            x[0].binary_cross_entropy_logits(&x[1], None, Reduction::Mean)
        };
        "mse_loss" Any [A, A], |x| x[0].mse_loss(&x[1], Reduction::Mean);
        "l1_loss" Any [A, A], |x| x[0].l1_loss(&x[1], Reduction::Mean);
        "huber_loss" Any [A, A], |x| x[0].huber_loss(&x[1], 0.7, Reduction::Mean);
        "kl_div" Positive [A, A], |x| x[0].kl_div(&x[1], Reduction::Sum);
        "interpolate" Any [IMAGE], |x| {
            x[0].interpolate(&[8, 3], Interpolation::Linear { align_corners: false })
        };
        "interpolate nearest" Any [IMAGE], |x| x[0].interpolate(&[8, 3], Interpolation::Nearest);
        "depth_to_space" Any [&[1, 8, 2, 3]], |x| x[0].depth_to_space(2, true);
        "space_to_depth" Any [&[1, 2, 4, 6]], |x| x[0].space_to_depth(2, false);
        "dropout" Any [&[4, 4]], |x| Rng::new(x[0].engine(), 3).dropout(&x[0], 0.4);
    }
}

/// Different numbers in a range, without two that nearly meet.
fn draw(case: &Case) -> Vec<Vec<f64>> {
    let total: usize = case
        .shapes
        .iter()
        .map(|s| s.iter().product::<usize>())
        .sum();
    let (low, high) = match case.draw {
        Draw::Any => (-2.0, 2.0),
        Draw::Positive => (0.3, 2.0),
        Draw::Unit => (-0.9, 0.9),
        Draw::AboveOne => (1.1, 3.0),
    };
    // A permutation of evenly spaced points: a step that shares no factor with their number.
    let mut step = total * 5 / 8 + 1;
    while (2..=step).any(|d| step.is_multiple_of(d) && total.is_multiple_of(d)) {
        step += 1;
    }
    let mut next = 0;
    case.shapes
        .iter()
        .map(|s| {
            (0..s.iter().product())
                .map(|_| {
                    next = (next + step) % total;
                    low + (high - low) * (next as f64 + 0.37) / total as f64
                })
                .collect()
        })
        .collect()
}

fn inputs(e: &Engine, case: &Case, data: &[Vec<f64>]) -> Result<Vec<Tensor>> {
    case.shapes
        .iter()
        .zip(data)
        .map(|(shape, data)| Tensor::from_slice(e, data, shape))
        .collect()
}

/// Fixed weights of the outputs, so that the loss is one number.
fn seed_of(y: &Tensor) -> Result<Tensor> {
    Tensor::iota(y.engine(), y.numel(), DType::I32)?
        .cast(DType::F64)?
        .mul(1.7)?
        .sin()?
        .add(0.3)?
        .reshape(y.shape())
}

fn loss(e: &Engine, case: &Case, data: &[Vec<f64>]) -> Result<f64> {
    let y = (case.build)(&inputs(e, case, data)?)?;
    y.mul(&seed_of(&y)?)?.sum(&[], false)?.item()
}

#[test]
fn gradients_match_finite_differences() {
    let e = Engine::reference();
    let mut failures = Vec::new();
    for case in table() {
        if let Err(why) = check(&e, case) {
            failures.push(format!("{}: {why}", case.name));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn check(e: &Engine, case: &Case) -> std::result::Result<(), String> {
    let text = |e: tensor::Error| e.to_string();
    let data = draw(case);
    let x = inputs(e, case, &data).map_err(text)?;
    let y = (case.build)(&x).map_err(text)?;
    let seed = seed_of(&y).map_err(text)?;
    let with: Vec<&Tensor> = x.iter().collect();
    let slopes = gradients_from(&y, &seed, &with).map_err(text)?;
    const STEP: f64 = 1e-5;
    for (i, slope) in slopes.iter().enumerate() {
        if slope.shape() != case.shapes[i] {
            return Err(format!("gradient {i} has shape {:?}", slope.shape()));
        }
        let slope = slope.to_vec::<f64>().map_err(text)?;
        for (j, got) in slope.iter().enumerate() {
            let mut moved = data.clone();
            moved[i][j] += STEP;
            let up = loss(e, case, &moved).map_err(text)?;
            moved[i][j] -= 2.0 * STEP;
            let down = loss(e, case, &moved).map_err(text)?;
            let want = (up - down) / (2.0 * STEP);
            if (got - want).abs() > 2e-6 * (1.0 + want.abs()) || got.is_nan() {
                return Err(format!(
                    "input {i} element {j}: {got}, by difference {want}"
                ));
            }
        }
    }
    Ok(())
}

#[test]
fn second_derivatives() -> Result<()> {
    let e = Engine::reference();
    // d2/dx2 of a function of one number, against hand-derived values.
    type Row = (fn(&Tensor) -> Result<Tensor>, fn(f64) -> f64);
    let rows: &[Row] = &[
        (|x| x.pow(3.0), |x| 6.0 * x),
        (Tensor::sin, |x| -x.sin()),
        (Tensor::exp, f64::exp),
        (Tensor::log, |x| -1.0 / (x * x)),
        (Tensor::sqrt, |x| -0.25 * x.powf(-1.5)),
        (Tensor::tanh, |x| -2.0 * x.tanh() * (1.0 - x.tanh().powi(2))),
        (Tensor::sigmoid, |x| {
            let s = 1.0 / (1.0 + (-x).exp());
            s * (1.0 - s) * (1.0 - 2.0 * s)
        }),
        (
            |x| x.expand(&[3])?.cumprod(0)?.narrow(0, 2, 1)?.reshape(&[1]),
            |x| 6.0 * x,
        ),
        (|x| x.expand(&[3])?.prod(&[0], true), |x| 6.0 * x),
        (
            |x| {
                x.expand(&[4])?
                    .windows(0, 2, 1, 2)?
                    .prod(&[], false)?
                    .reshape(&[1])
            },
            |x| 12.0 * x * x,
        ),
    ];
    for (i, (ours, want)) in rows.iter().enumerate() {
        for at in [0.4, 1.3] {
            let x = Tensor::from_slice(&e, &[at], &[1])?;
            let y = ours(&x)?;
            let first = gradients_from(&y, &y.ones_like()?, &[&x])?.remove(0);
            let second = gradients_from(&first, &first.ones_like()?, &[&x])?.remove(0);
            let got: f64 = second.item()?;
            assert!(
                (got - want(at)).abs() < 1e-9 * (1.0 + want(at).abs()),
                "row {i}: {got} {}",
                want(at)
            );
        }
    }
    Ok(())
}

#[test]
fn kinks_and_ties() -> Result<()> {
    let e = Engine::reference();
    let slope = |f: &dyn Fn(&Tensor) -> Result<Tensor>, at: &[f64]| -> Result<Vec<f64>> {
        let x = Tensor::from_slice(&e, at, &[at.len()])?;
        let y = f(&x)?;
        gradients_from(&y, &y.ones_like()?, &[&x])?[0].to_vec()
    };
    assert_eq!(
        slope(&|x| x.max(&[], false), &[1.0, 2.0, 2.0])?,
        [0.0, 0.5, 0.5]
    );
    assert_eq!(slope(&|x| x.abs(), &[0.0])?, [0.0]);
    assert_eq!(slope(&|x| x.relu(), &[0.0])?, [0.0]);
    assert_eq!(slope(&|x| x.maximum(2.0), &[2.0])?, [0.5]);
    assert_eq!(
        slope(&|x| x.sigmoid(), &[0.0, -1000.0, 1000.0])?,
        [0.25, 0.0, 0.0]
    );
    assert_eq!(slope(&|x| x.softplus(1.0), &[0.0, 1000.0])?, [0.5, 1.0]);
    assert_eq!(
        slope(&|x| x.prod(&[], false), &[2.0, 0.0, 3.0])?,
        [0.0, 6.0, 0.0]
    );
    assert_eq!(
        slope(&|x| x.prod(&[], false), &[2.0, 0.0, 0.0])?,
        [0.0, 0.0, 0.0]
    );
    assert_eq!(slope(&|x| x.cumprod(0), &[2.0, 0.0, 3.0])?, [1.0, 8.0, 0.0]);
    assert_eq!(slope(&|x| x.cummax(0), &[1.0, 1.0, 0.0])?, [1.0, 2.0, 0.0]);
    assert_eq!(slope(&|x| x.pow(0.0), &[0.0, 2.0])?, [0.0, 0.0]);
    assert_eq!(slope(&|x| x.detach()?.mul(x), &[3.0])?, [3.0]);
    let unused = Tensor::from_slice(&e, &[1.0f64], &[1])?;
    let x = Tensor::from_slice(&e, &[1.0f64], &[1])?;
    let g = tensor::gradients(&x.square()?, &[&unused, &x])?;
    assert_eq!(g[0].to_vec::<f64>()?, [0.0]);
    assert_eq!(g[1].to_vec::<f64>()?, [2.0]);
    Ok(())
}

#[test]
fn long_chains_do_not_overflow_the_stack() -> Result<()> {
    let e = Engine::reference();
    let x = Tensor::from_slice(&e, &[1.0f64], &[1])?;
    let mut y = x.clone();
    for _ in 0..20_000 {
        y = y.add(1e-3)?;
    }
    let slope: f64 = tensor::gradients(&y, &[&x])?[0].item()?;
    assert_eq!(slope, 1.0);
    assert!((y.item::<f64>()? - 21.0).abs() < 1e-9);
    Ok(())
}

/// The name of a variant; a new one does not compile before it is named here.
fn variant(op: &Op) -> &'static str {
    match op {
        Op::Data => "Data",
        Op::Const(_) => "Const",
        Op::Iota => "Iota",
        Op::Unary(_) => "Unary",
        Op::Binary(_) => "Binary",
        Op::Where => "Where",
        Op::Cast => "Cast",
        Op::Bitcast => "Bitcast",
        Op::Reduce(..) => "Reduce",
        Op::Scan(..) => "Scan",
        Op::Reshape => "Reshape",
        Op::Permute(_) => "Permute",
        Op::Expand => "Expand",
        Op::Pad(..) => "Pad",
        Op::Shrink(_) => "Shrink",
        Op::Flip(_) => "Flip",
        Op::Windows { .. } => "Windows",
        Op::Gather(_) => "Gather",
        Op::Checked(_) => "Checked",
        Op::Scatter(..) => "Scatter",
        Op::Contiguous => "Contiguous",
        Op::Detach => "Detach",
        Op::Sloped(_) => "Sloped",
        Op::Copy => "Copy",
        Op::Param => "Param",
        Op::Given => "Given",
        Op::Loop(..) => "Loop",
    }
}

const VARIANTS: &[&str] = &[
    "Data",
    "Const",
    "Iota",
    "Unary",
    "Binary",
    "Where",
    "Cast",
    "Bitcast",
    "Reduce",
    "Scan",
    "Reshape",
    "Permute",
    "Expand",
    "Pad",
    "Shrink",
    "Flip",
    "Windows",
    "Gather",
    "Checked",
    "Scatter",
    "Contiguous",
    "Detach",
    "Sloped",
    "Copy",
    "Loop",
];

#[test]
fn the_table_has_every_op() -> Result<()> {
    let e = Engine::reference();
    let mut seen = BTreeSet::new();
    let mut done = BTreeSet::new();
    for case in table() {
        let mut stack = vec![(case.build)(&inputs(&e, case, &draw(case))?)?];
        while let Some(t) = stack.pop() {
            if done.insert(t.id()) {
                seen.insert(variant(&t.node().op));
                stack.extend(t.node().src().iter().cloned());
            }
        }
    }
    let all: BTreeSet<&str> = VARIANTS.iter().copied().collect();
    assert_eq!(
        all.difference(&seen).collect::<Vec<_>>(),
        Vec::<&&str>::new()
    );
    Ok(())
}

/// What is reshaped twice has a gradient between the two.
#[test]
fn views_of_views_have_gradients() -> Result<()> {
    let e = Engine::reference();
    let x = Tensor::from_slice(&e, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[6])?;
    type View = fn(&Tensor) -> Result<Tensor>;
    let views: [View; 6] = [
        |t| t.reshape(&[6]),
        |t| t.reshape(&[3, 2]),
        |t| t.unsqueeze(1),
        |t| t.flatten(0, -1),
        |t| t.t()?.t(),
        |t| t.expand(&[2, 3])?.reshape(&[1, 6]),
    ];
    for (i, view) in views.into_iter().enumerate() {
        let between = x.reshape(&[2, 3])?;
        let y = view(&between)?.square()?.sum(&[], false)?;
        let slopes = tensor::gradients(&y, &[&between, &x])?;
        for slope in slopes {
            let slope: Vec<f64> = slope.to_vec()?;
            assert_eq!(slope, [2.0, 4.0, 6.0, 8.0, 10.0, 12.0], "view {i}");
        }
    }
    Ok(())
}

/// Values of PyTorch.
#[test]
fn running_products_have_gradients_with_zeros() -> Result<()> {
    let weights = [1.0, 2.0, 3.0, 4.0];
    let cases: [(&[f64], &[f64]); 5] = [
        (&[2.0, 3.0, 4.0], &[43.0, 28.0, 18.0]),
        (&[2.0, 0.0, 3.0, 4.0], &[1.0, 118.0, 0.0, 0.0]),
        (&[0.0, 2.0, 0.0, 3.0], &[5.0, 0.0, 0.0, 0.0]),
        (&[0.0, 0.0], &[1.0, 0.0]),
        (&[7.0], &[1.0]),
    ];
    let weighted = |x: &Tensor| {
        let w = Tensor::from_slice(x.engine(), &weights[..x.numel()], &[x.numel()])?;
        x.cumprod(0)?.mul(&w)?.sum(&[], false)
    };
    for (x, want) in cases {
        assert_eq!(slope(x, weighted)?, want, "{x:?}");
    }
    // Second derivatives, with a zero as well.
    let x = Tensor::from_slice(&Engine::reference(), &[0.0, 2.0, 0.5, 3.0], &[4])?;
    let first = tensor::gradients(&weighted(&x)?, &[&x])?.remove(0);
    let rows = (0..4).map(|i| tensor::gradients(&first.index(0, i)?, &[&x])?[0].to_vec::<f64>());
    let rows: Vec<Vec<f64>> = rows.collect::<Result<_>>()?;
    assert_eq!(rows[0], [0.0, 9.5, 30.0, 4.0]);
    assert_eq!(rows[1], [9.5, 0.0, 0.0, 0.0]);
    assert_eq!(rows[2], [30.0, 0.0, 0.0, 0.0]);
    assert_eq!(rows[3], [4.0, 0.0, 0.0, 0.0]);
    Ok(())
}

/// No node of the gradient is larger than the tensor.
#[test]
fn running_products_have_small_gradients() -> Result<()> {
    let e = Engine::reference();
    let x = Tensor::full(&e, &[3000], 1.0, DType::F64)?.contiguous()?;
    let y = x.cumprod(0)?.sum(&[], false)?;
    let slope = tensor::gradients(&y, &[&x])?.remove(0);
    let mut pending = vec![slope.clone()];
    let mut seen = BTreeSet::new();
    while let Some(tensor) = pending.pop() {
        if seen.insert(tensor.id()) {
            assert!(tensor.numel() <= 3000, "{tensor:?}");
            pending.extend(tensor.node().src().iter().cloned());
        }
    }
    let slope = slope.to_vec::<f64>()?;
    assert_eq!((slope[0], slope[2999]), (3000.0, 1.0));
    Ok(())
}

#[test]
fn every_public_operation_is_tested() {
    let sources = [
        include_str!("../../src/create.rs"),
        include_str!("../../src/ops/activation.rs"),
        include_str!("../../src/ops/attention.rs"),
        include_str!("../../src/ops/by_value.rs"),
        include_str!("../../src/ops/compare.rs"),
        include_str!("../../src/ops/conv.rs"),
        include_str!("../../src/ops/conv_transpose.rs"),
        include_str!("../../src/ops/elementwise.rs"),
        include_str!("../../src/ops/image.rs"),
        include_str!("../../src/ops/index.rs"),
        include_str!("../../src/ops/linalg.rs"),
        include_str!("../../src/ops/loss.rs"),
        include_str!("../../src/ops/movement.rs"),
        include_str!("../../src/ops/norm.rs"),
        include_str!("../../src/ops/plane.rs"),
        include_str!("../../src/ops/pool.rs"),
        include_str!("../../src/ops/primitive.rs"),
        include_str!("../../src/ops/random.rs"),
        include_str!("../../src/ops/reduce.rs"),
        include_str!("../../src/ops/solve.rs"),
        include_str!("../../src/ops/sort.rs"),
    ];
    let tests = [
        include_str!("gradients.rs"),
        include_str!("basics.rs"),
        include_str!("values.rs"),
        include_str!("nn.rs"),
        include_str!("../pytorch/equations.rs"),
        include_str!("../pytorch/losses.rs"),
        include_str!("../pytorch/points.rs"),
        include_str!("../pytorch/pools.rs"),
        include_str!("../pytorch/reductions.rs"),
        include_str!("../pytorch/recurrent.rs"),
        include_str!("../pytorch/sizes.rs"),
    ]
    .concat();
    let mut missing = Vec::new();
    for line in sources.iter().flat_map(|s| s.lines()) {
        let start = line.trim_start();
        // Methods, and the rows of the macros that define methods.
        let name = match start.strip_prefix("pub fn ") {
            Some(rest) => rest,
            None if line.starts_with("    ") && !line.starts_with("     ") => {
                let end = start.find(|c: char| !(c.is_alphanumeric() || c == '_'));
                let row = end.is_some_and(|end| {
                    let rest = &start[end..];
                    let unit = rest.starts_with(", ") && rest.ends_with(';') && rest.len() < 16;
                    unit || rest.contains(", |x|")
                });
                match row {
                    true => start,
                    false => continue,
                }
            }
            None => continue,
        };
        let end = name
            .find(|c: char| !(c.is_alphanumeric() || c == '_'))
            .unwrap_or(name.len());
        let name = &name[..end];
        let used = [
            format!(".{name}("),
            format!("::{name}("),
            format!("::{name},"),
            format!("({name}("),
            format!("= {name}("),
        ]
        .iter()
        .any(|call| tests.contains(call));
        if !name.is_empty() && !used {
            missing.push(name.to_string());
        }
    }
    assert!(missing.is_empty(), "no test calls {missing:?}");
}

#[test]
fn reductions_of_every_kind_have_a_rule() -> Result<()> {
    let e = Engine::reference();
    let x = Tensor::from_slice(&e, &[1.0f64, 3.0, 2.0], &[3])?;
    for op in [Add, Mul, Max, Min] as [ReduceOp; 4] {
        let y = x.reduce(op, &[0])?.sum(&[], false)?;
        let total: f64 = tensor::gradients(&y, &[&x])?[0].sum(&[], false)?.item()?;
        let want = match op {
            Add => 3.0,
            Mul => 11.0,
            _ => 1.0,
        };
        assert_eq!(total, want, "{op:?}");
    }
    Ok(())
}

/// The gradient of the sum of what is built of one vector.
fn slope(x: &[f64], build: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Vec<f64>> {
    let x = Tensor::from_slice(&Engine::reference(), x, &[x.len()])?;
    let y = build(&x)?.sum(&[], false)?;
    tensor::gradients(&y, &[&x])?[0].to_vec()
}

/// Values of PyTorch.
#[test]
fn norms_are_flat_at_zero() -> Result<()> {
    for p in [0.5, 1.0, 1.5, 2.0, 3.0, f64::INFINITY, 0.0] {
        let found = slope(&[0.0, 0.0], |x| x.norm(p, &[], false))?;
        assert_eq!(found, [0.0, 0.0], "{p}");
        let found = slope(&[0.0, 3.0], |x| x.norm(p, &[], false))?;
        let want = if p == 0.0 { 0.0 } else { 1.0 };
        assert_eq!(found[0], 0.0, "{p}");
        assert!((found[1] - want).abs() < 1e-12, "{p}: {found:?}");
    }
    // One row of zeros beside one that is not.
    let rows = |x: &Tensor| x.reshape(&[2, 2])?.norm(2.0, &[1], false);
    let found = slope(&[0.0, 0.0, 3.0, 4.0], rows)?;
    assert_eq!(found[..2], [0.0, 0.0]);
    assert!((found[2] - 0.6).abs() < 1e-12 && (found[3] - 0.8).abs() < 1e-12);
    let found = slope(&[0.0, 0.0], |x| x.normalize(2.0, 0, 0.25))?;
    assert_eq!(found, [4.0, 4.0]);
    let found = slope(&[5.0, 5.0, 5.0], |x| x.std(&[], 1.0, false))?;
    assert_eq!(found, [0.0; 3]);
    let e = Engine::reference();
    let x = Tensor::from_slice(&e, &[0.0, -2.0, 0.5], &[3])?;
    let norm = |p: f64| x.norm(p, &[], false)?.item::<f64>();
    assert_eq!((norm(0.0)?, norm(f64::NEG_INFINITY)?), (2.0, 0.0));
    assert_eq!((norm(1.0)?, norm(f64::INFINITY)?), (2.5, 2.0));
    assert!((norm(0.5)? - (2f64.sqrt() + 0.5f64.sqrt()).powi(2)).abs() < 1e-12);
    Ok(())
}

/// Values of PyTorch.
#[test]
fn limits_belong_to_the_element() -> Result<()> {
    let x = [-2.0, -1.0, 0.0, 1.0, 2.0];
    let inside = [0.0, 0.0, 1.0, 0.0, 0.0];
    assert_eq!(slope(&x, |x| x.clip(-1.0, 1.0))?, inside);
    assert_eq!(
        slope(&x, |x| x.clamp(Some((-1.0).into()), None))?,
        [0.0, 0.0, 1.0, 1.0, 1.0]
    );
    // All of them are equal: the limits have nothing of it.
    let found = slope(&x, |x| x.clamp(Some(x.into()), Some(x.into())))?;
    assert_eq!(found, [1.0; 5]);
    assert_eq!(
        slope(&x, |x| x.hardtanh(-1.0, 1.0))?,
        [0.0, 0.0, 1.0, 0.0, 0.0]
    );
    assert_eq!(slope(&[0.0, 3.0, 6.0], |x| x.relu6())?, [0.0, 1.0, 0.0]);
    assert_eq!(
        slope(&[-2.0, 0.0, 2.0], |x| x.hardsigmoid(0.25, 0.5))?,
        [0.0, 0.25, 0.0]
    );
    assert_eq!(slope(&[0.0], |x| x.elu(2.0))?, [2.0]);
    assert_eq!(slope(&[0.0], |x| x.celu(2.0))?, [1.0]);
    // What is no number stays none, and makes none as a limit.
    let e = Engine::reference();
    let x = Tensor::from_slice(&e, &[f64::NAN, 0.5, 7.0], &[3])?;
    let clipped = x.clip(-1.0, 1.0)?.to_vec::<f64>()?;
    assert!(clipped[0].is_nan() && clipped[1..] == [0.5, 1.0]);
    let limits = Tensor::from_slice(&e, &[1.0, f64::NAN, f64::INFINITY], &[3])?;
    let clipped = x.clip(-1.0, &limits)?.to_vec::<f64>()?;
    assert!(clipped[0].is_nan() && clipped[1].is_nan() && clipped[2] == 7.0);
    Ok(())
}

/// Values of PyTorch.
#[test]
fn limits_that_are_tensors_share_the_gradient() -> Result<()> {
    let e = Engine::reference();
    let slopes = |x: &[f64], low: Option<f64>, high: Option<f64>| -> Result<Vec<Vec<f64>>> {
        let x = Tensor::from_slice(&e, x, &[x.len()])?;
        let limit = |to: Option<f64>| to.map(|to| x.full_like(to)?.contiguous()).transpose();
        let (low, high) = (limit(low)?, limit(high)?);
        let of = |t: &Option<Tensor>| t.as_ref().map(Into::into);
        let y = x.clamp(of(&low), of(&high))?.sum(&[], false)?;
        let all: Vec<&Tensor> = [Some(&x), low.as_ref(), high.as_ref()]
            .into_iter()
            .flatten()
            .collect();
        let slopes = tensor::gradients(&y, &all)?;
        slopes.iter().map(|s| s.to_vec()).collect()
    };
    let x = [-2.0, -1.0, 0.0, 1.0, 2.0];
    let inside = [0.0, 0.5, 1.0, 0.5, 0.0];
    let (low, high) = ([1.0, 0.5, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.5, 1.0]);
    assert_eq!(slopes(&x, Some(-1.0), Some(1.0))?, [inside, low, high]);
    let found = slopes(&x, Some(-1.0), None)?;
    assert_eq!(found, [[0.0, 0.5, 1.0, 1.0, 1.0], low]);
    let found = slopes(&x, None, Some(1.0))?;
    assert_eq!(found, [[1.0, 1.0, 1.0, 0.5, 0.0], high]);
    // No room between them.
    let x = [0.0, 2.0, 3.0];
    let found = slopes(&x, Some(2.0), Some(2.0))?;
    assert_eq!(found, [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]);
    let found = slopes(&x, Some(2.0), Some(1.0))?;
    assert_eq!(found, [[0.0; 3], [0.0; 3], [1.0; 3]]);
    // What is no number stays none where they leave no room, and has no gradient.
    for (low, high) in [(-1.0, 1.0), (2.0, 2.0), (2.0, 1.0)] {
        let found = slopes(&[f64::NAN], Some(low), Some(high))?;
        assert_eq!(found, [[0.0]; 3], "{low} {high}");
        let one = |x: f64| Tensor::from_slice(&e, &[x], &[1]);
        let (low, high) = (one(low)?, one(high)?);
        let limited = one(f64::NAN)?.clip(&low, &high)?;
        assert!(limited.to_vec::<f64>()?[0].is_nan(), "{limited}");
    }
    Ok(())
}

/// Zeros, as in PyTorch, and not nothing: an optimizer changes such a parameter by its decay.
#[test]
fn rounding_has_zeros_for_a_gradient() -> Result<()> {
    type Round = fn(&Tensor) -> Result<Tensor>;
    let all: [(&str, Round); 6] = [
        ("floor", Tensor::floor),
        ("ceil", Tensor::ceil),
        ("round", Tensor::round),
        ("trunc", Tensor::trunc),
        ("sign", Tensor::sign),
        ("copysign", |x| x.ones_like()?.copysign(x)),
    ];
    let e = Engine::reference();
    for (name, round) in all {
        let x = [-1.5, -0.0, 0.0, 0.5, f64::INFINITY, f64::NAN];
        let found = slope(&x, |x| round(x)?.mul(f64::INFINITY))?;
        assert_eq!(found, [0.0; 6], "{name}");
        let p = Parameter::new(Tensor::from_slice(&e, &[2.5f64], &[1])?);
        let mut sgd = Sgd::new(vec![p.clone()], 0.5, 0.0, false, 0.5)?;
        sgd.minimize(&round(&p.get())?.sum(&[], false)?)?;
        assert_eq!(p.get().item::<f64>()?, 1.875, "{name}");
    }
    Ok(())
}

/// Values of PyTorch.
#[test]
fn powers_of_zero() -> Result<()> {
    let e = Engine::reference();
    let base = Tensor::from_slice(&e, &[0.0f64, 0.0, 0.0, 0.0, 2.0, 0.0], &[6])?;
    let exponent = Tensor::from_slice(&e, &[-1.0f64, -0.5, 0.0, 2.0, -1.0, f64::NAN], &[6])?;
    let y = base.pow(&exponent)?.sum(&[], false)?;
    let slope: Vec<f64> = tensor::gradients(&y, &[&exponent])?[0].to_vec()?;
    assert_eq!(slope[..2], [f64::NEG_INFINITY; 2], "{slope:?}");
    assert_eq!(slope[2..4], [0.0; 2]);
    assert!((slope[4] - 0.5 * std::f64::consts::LN_2).abs() < 1e-15);
    assert!(slope[5].is_nan());
    Ok(())
}
