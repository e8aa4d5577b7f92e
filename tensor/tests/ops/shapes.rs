//! Huge and odd arguments give a tensor or an error; never a panic, nor terabytes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use codegen::ir::ReduceOp;
use tensor::ops::attention::Attention;
use tensor::ops::conv::ConvParams;
use tensor::ops::image::Interpolation;
use tensor::ops::loss::Classes;
use tensor::ops::movement::{PadMode, Slice};
use tensor::{DType, Engine, Result, Rng, Tensor};

type Call = (&'static str, fn(&Tensor, usize, isize) -> Result<Tensor>);

fn unit(result: Result<impl Sized>) -> Result<Tensor> {
    result.and_then(|_| Tensor::zeros(&Engine::reference(), &[1], DType::F32))
}

fn sliding(n: usize, m: usize, k: usize, rank: usize) -> ConvParams {
    let rank = rank.saturating_sub(2);
    ConvParams {
        stride: vec![n; rank],
        padding: vec![(m, m); rank],
        dilation: vec![k; rank],
    }
}

fn index(x: &Tensor) -> Result<Tensor> {
    Tensor::zeros(x.engine(), x.shape(), DType::I32)
}

const CALLS: &[Call] = &[
    ("full", |x, n, _| {
        Tensor::full(x.engine(), &[n, 2, n], 1, DType::F64)
    }),
    ("full of nothing", |x, n, _| {
        Tensor::zeros(x.engine(), &[0, n, n], DType::F32)?
            .permute(&[1, 2, 0])?
            .add(1)
    }),
    ("from_slice", |x, n, _| {
        Tensor::from_slice(x.engine(), &[1u8], &[n, n])
    }),
    ("iota", |x, n, _| Tensor::iota(x.engine(), n, DType::I64)),
    ("eye", |x, n, _| Tensor::eye(x.engine(), n, n, DType::F32)),
    ("linspace", |x, n, _| {
        Tensor::linspace(x.engine(), 0.0, 1.0, n, DType::F32)
    }),
    ("arange", |x, n, i| {
        Tensor::arange(x.engine(), i as i64, n as i64, i as i64, DType::I64)
    }),
    ("arange float", |x, n, i| {
        Tensor::arange(x.engine(), i as f64, n as f64, 0.5, DType::F32)
    }),
    ("positions", |x, _, i| x.positions(i)),
    ("tril", |x, _, i| x.tril(i as i64)),
    ("triu", |x, _, i| x.triu(i as i64)),
    ("view", |x, _, i| x.view(&[i, -1])),
    ("view twice", |x, _, i| x.view(&[i, i, i])),
    ("reshape", |x, n, _| x.reshape(&[n, n])),
    ("reshape one", |x, n, _| x.reshape(&[n, 1])),
    ("expand", |x, n, _| {
        x.unsqueeze(0)?.expand(&[&[n], x.shape()].concat())
    }),
    ("expand all", |x, n, _| x.expand(&[n, n, n, n])),
    ("permute", |x, n, _| x.permute(&[n, 0, n])),
    ("transpose", |x, _, i| x.transpose(i, -1)),
    ("move_axis", |x, _, i| x.move_axis(0, i)),
    ("flip", |x, _, i| x.flip(&[i, i])),
    ("flip all", |x, _, _| x.flip(&[])),
    ("reverse", |x, n, _| x.reverse(&[n])),
    ("squeeze", |x, _, i| x.squeeze(&[i])),
    ("unsqueeze", |x, _, i| x.unsqueeze(i)),
    ("flatten", |x, _, i| x.flatten(i, -1)),
    ("flatten to", |x, _, i| x.flatten(0, i)),
    ("flatten expanded", |x, n, _| {
        x.reshape(&[x.numel(), 1])?
            .expand(&[x.numel(), n])?
            .flatten(0, 1)
    }),
    ("unflatten", |x, _, i| x.unflatten(0, &[i, i])),
    ("unflatten free", |x, _, i| x.unflatten(-1, &[-1, i])),
    ("unflatten free twice", |x, _, i| {
        x.unflatten(0, &[-1, -1, i])
    }),
    ("unflatten nothing", |x, _, i| x.unflatten(i, &[])),
    ("narrow", |x, n, _| x.narrow(0, n, n)),
    ("narrow axis", |x, n, i| x.narrow(i, 0, n)),
    ("index", |x, _, i| x.index(0, i)),
    ("index axis", |x, _, i| x.index(i, i)),
    ("slice", |x, _, i| {
        x.slice(&[Slice {
            start: Some(i),
            stop: Some(-i.saturating_abs()),
            step: i,
        }])
    }),
    ("slice from", |x, _, i| {
        x.slice(&[Slice {
            start: None,
            stop: Some(i),
            step: -1,
        }])
    }),
    ("slice by", |x, _, i| {
        x.slice(&[Slice {
            start: None,
            stop: None,
            step: i,
        }])
    }),
    ("pad", |x, _, i| {
        x.pad(&vec![(i, i); x.rank()], PadMode::Constant(0.into()))
    }),
    ("pad one side", |x, _, i| {
        x.pad(&vec![(i, 1); x.rank()], PadMode::Constant(0.into()))
    }),
    ("pad reflect", |x, _, i| {
        x.pad(&vec![(i, i); x.rank()], PadMode::Reflect)
    }),
    ("pad replicate", |x, _, i| {
        x.pad(&vec![(i, i); x.rank()], PadMode::Replicate)
    }),
    ("pad circular", |x, _, i| {
        x.pad(&vec![(i, i); x.rank()], PadMode::Circular)
    }),
    ("pad none", |x, _, _| x.pad(&[], PadMode::Reflect)),
    ("pad_to", |x, n, _| {
        x.pad_to(&vec![n; x.rank()], &vec![n; x.rank()], 0)
    }),
    ("shrink", |x, n, _| {
        x.shrink(&vec![n; x.rank()], &vec![n; x.rank()])
    }),
    ("windows", |x, n, _| x.windows(0, n, n, n)),
    ("windows apart", |x, n, _| x.windows(0, 1, n, n)),
    ("unfold", |x, n, i| x.unfold(i, n, n)),
    ("cat", |x, _, i| Tensor::cat(&[x, x], i)),
    ("cat none", |_, _, i| Tensor::cat(&[], i)),
    ("cat expanded", |x, n, _| {
        let long = x.reshape(&[x.numel(), 1])?.expand(&[x.numel(), n])?;
        Tensor::cat(&[&long, &long, &long], 1)
    }),
    ("stack", |x, _, i| Tensor::stack(&[x, x], i)),
    ("split", |x, n, i| unit(x.split(&[n, n], i))),
    ("split none", |x, _, i| unit(x.split(&[], i))),
    ("chunk", |x, n, i| unit(x.chunk(n, i))),
    ("repeat", |x, n, _| x.repeat(&vec![n; x.rank()])),
    ("repeat more", |x, n, _| x.repeat(&vec![n; x.rank() + 2])),
    ("repeat one", |x, n, _| {
        x.repeat(&[&[n][..], &vec![1; x.rank()]].concat())
    }),
    ("repeat_interleave", |x, n, i| x.repeat_interleave(n, i)),
    ("repeat_interleave axis", |x, n, _| {
        x.repeat_interleave(n, 0)
    }),
    ("roll", |x, _, i| x.roll(i, 0)),
    ("roll axis", |x, _, i| x.roll(1, i)),
    ("diag", |x, n, _| {
        x.reshape(&[x.numel(), 1])?
            .index(1, 0)?
            .narrow(0, 0, 1)?
            .expand(&[n])?
            .diag()
    }),
    ("diagonal", |x, _, i| x.diagonal(i, 0)),
    ("diagonal expanded", |x, n, _| {
        x.flatten(0, -1)?
            .narrow(0, 0, 1)?
            .expand(&[n, n])?
            .diagonal(0, 1)
    }),
    ("meshgrid", |x, n, _| {
        let line = x.flatten(0, -1)?.narrow(0, 0, 1)?.expand(&[n])?;
        unit(Tensor::meshgrid(&[&line, &line]))
    }),
    ("slice_assign", |x, n, _| {
        x.slice_assign(&vec![n; x.rank()], x)
    }),
    ("reduce", |x, n, _| x.reduce(ReduceOp::Add, &[n])),
    ("scan", |x, n, _| x.scan(ReduceOp::Add, n)),
    ("sum", |x, _, i| x.sum(&[i, i], false)),
    ("mean", |x, _, i| x.mean(&[i], true)),
    ("var", |x, n, i| x.var(&[i], n as f64, true)),
    ("softmax", |x, _, i| x.softmax(i)),
    ("argmax", |x, _, i| x.argmax(i, false)),
    ("cumsum", |x, _, i| x.cumsum(i)),
    ("logcumsumexp", |x, _, i| x.logcumsumexp(i)),
    ("norm", |x, n, i| x.norm(n as f64, &[i], false)),
    ("gather", |x, _, i| x.gather(i, &index(x)?)),
    ("gather expanded", |x, n, _| {
        let line = x.flatten(0, -1)?;
        line.cast(DType::F64)?
            .gather(0, &Tensor::zeros(x.engine(), &[n], DType::I8)?)
    }),
    ("scatter_add", |x, _, i| x.scatter_add(i, &index(x)?, x)),
    ("index_select", |x, n, i| {
        x.index_select(i, &Tensor::zeros(x.engine(), &[n], DType::I8)?)
    }),
    ("take", |x, n, _| {
        x.take(&Tensor::zeros(x.engine(), &[n, n], DType::I8)?)
    }),
    ("embedding", |x, n, _| {
        x.embedding(&Tensor::zeros(x.engine(), &[n], DType::I8)?)
    }),
    ("one_hot", |x, n, _| index(x)?.one_hot(n, DType::F32)),
    ("gather_nd", |x, n, _| x.gather_nd(&index(x)?, n)),
    ("gather_nd expanded", |x, n, _| {
        x.gather_nd(&Tensor::zeros(x.engine(), &[n, 1], DType::I8)?, 0)
    }),
    ("interpolate", |x, n, _| {
        x.interpolate(&vec![n; x.rank().saturating_sub(2)], Interpolation::Nearest)
    }),
    ("interpolate exact", |x, n, _| {
        x.interpolate(
            &vec![n; x.rank().saturating_sub(2)],
            Interpolation::NearestExact,
        )
    }),
    ("interpolate linear", |x, n, _| {
        x.interpolate(
            &vec![n; x.rank().saturating_sub(2)],
            Interpolation::Linear {
                align_corners: false,
            },
        )
    }),
    ("interpolate corners", |x, n, _| {
        x.interpolate(
            &vec![n; x.rank().saturating_sub(2)],
            Interpolation::Linear {
                align_corners: true,
            },
        )
    }),
    ("depth_to_space", |x, n, _| x.depth_to_space(n, true)),
    ("depth_to_space of nothing", |x, n, _| {
        Tensor::zeros(x.engine(), &[1, 0, 3, 3], DType::F32)?.depth_to_space(n, true)
    }),
    ("space_to_depth", |x, n, _| x.space_to_depth(n, false)),
    ("space_to_depth of nothing", |x, n, _| {
        Tensor::zeros(x.engine(), &[1, 3, 0, 0], DType::F32)?.space_to_depth(n, true)
    }),
    ("max_pool", |x, n, _| {
        x.max_pool(
            &vec![1; x.rank().saturating_sub(2)],
            &sliding(n, 0, 1, x.rank()),
            true,
        )
    }),
    ("max_pool wide", |x, n, _| {
        x.max_pool(
            &vec![n; x.rank().saturating_sub(2)],
            &sliding(n, n, n, x.rank()),
            true,
        )
    }),
    ("max_pool default", |x, n, _| {
        x.max_pool(
            &vec![n; x.rank().saturating_sub(2)],
            &ConvParams::default(),
            false,
        )
    }),
    ("max_pool_indices", |x, n, _| {
        unit(x.max_pool_indices(
            &vec![2; x.rank().saturating_sub(2)],
            &sliding(n, n, 1, x.rank()),
            true,
        ))
    }),
    ("max_unpool", |x, n, _| x.max_unpool(&index(x)?, &[n, n])),
    ("avg_pool", |x, n, _| {
        x.avg_pool(
            &vec![1; x.rank().saturating_sub(2)],
            &sliding(n, n, n, x.rank()),
            true,
            true,
        )
    }),
    ("avg_pool ceil", |x, n, _| {
        x.avg_pool(
            &vec![2; x.rank().saturating_sub(2)],
            &sliding(n, 1, 1, x.rank()),
            true,
            false,
        )
    }),
    ("lp_pool", |x, n, _| {
        x.lp_pool(
            2.0,
            &vec![2; x.rank().saturating_sub(2)],
            &sliding(n, n, 1, x.rank()),
            true,
        )
    }),
    ("conv", |x, n, _| {
        x.conv(x, None, &sliding(n, n, n, x.rank()), n)
    }),
    ("conv one group", |x, n, _| {
        x.conv(x, None, &sliding(n, n, 1, x.rank()), 1)
    }),
    ("conv far", |x, n, _| {
        x.conv(x, None, &sliding(1, n, n, x.rank()), 1)
    }),
    ("conv of nothing", |x, n, _| {
        let none = Tensor::zeros(x.engine(), &[0, 0, 1], DType::F32)?;
        none.conv(&none, None, &ConvParams::default(), n)
    }),
    ("conv_transpose", |x, n, _| {
        x.conv_transpose(x, None, &sliding(n, 0, 1, x.rank()), &[], 1)
    }),
    ("conv_transpose far", |x, n, _| {
        x.conv_transpose(x, None, &sliding(1, n, n, x.rank()), &[], 1)
    }),
    ("conv_transpose more", |x, n, _| {
        x.conv_transpose(
            x,
            None,
            &sliding(1, n, 1, x.rank()),
            &vec![n; x.rank().saturating_sub(2)],
            1,
        )
    }),
    ("conv_transpose groups", |x, n, _| {
        x.conv_transpose(x, None, &ConvParams::default(), &[], n)
    }),
    ("ranks", |x, _, i| x.ranks(i, false)),
    ("sort", |x, _, i| unit(x.sort(i, true))),
    ("topk", |x, n, i| unit(x.topk(n, i, true))),
    ("topk first", |x, n, _| unit(x.topk(n, 0, true))),
    ("layer_norm", |x, n, _| x.layer_norm(n, None, None, 1e-5)),
    ("group_norm", |x, n, _| x.group_norm(n, None, None, 1e-5)),
    ("local_response_norm", |x, n, _| {
        x.local_response_norm(n, 1.0, 1.0, 1.0)
    }),
    ("normalize", |x, _, i| x.normalize(2.0, i, 1e-5)),
    ("standardize", |x, _, i| x.standardize(&[i, i], 1e-5)),
    ("rotary_angles", |x, n, _| {
        unit(x.flatten(0, -1)?.rotary_angles(n, 1e4))
    }),
    ("attention", |x, _, _| {
        x.attention(x, x, &Attention::default())
    }),
    ("matmul expanded", |x, n, _| {
        let wide = x.flatten(0, -1)?.unsqueeze(0)?.expand(&[n, x.numel()])?;
        wide.matmul(&wide.t()?)
    }),
    ("outer", |x, n, _| {
        let long = x.flatten(0, -1)?.narrow(0, 0, 1)?.expand(&[n])?;
        long.outer(&long)
    }),
    ("cross_entropy", |x, n, _| {
        let target = Tensor::zeros(x.engine(), &[n], DType::I32)?;
        x.flatten(0, -1)?
            .unsqueeze(0)?
            .expand(&[n, x.numel()])?
            .cross_entropy(&target, &Classes::default())
    }),
    ("rand", |x, n, _| {
        Rng::new(x.engine(), 1).rand(&[n, 3], DType::F64)
    }),
    ("randperm", |x, n, _| {
        Rng::new(x.engine(), 1).randperm(n.min(1 << 40))
    }),
];

#[test]
fn odd_arguments_are_taken_or_refused() {
    let e = Engine::reference();
    let shapes: [&[usize]; 6] = [&[], &[1], &[6], &[2, 3], &[2, 2, 3], &[2, 2, 3, 3]];
    let sizes = [
        0,
        1,
        2,
        3,
        7,
        1 << 31,
        1 << 40,
        1 << 62,
        isize::MAX as usize,
        usize::MAX,
    ];
    let axes = [
        0,
        1,
        2,
        -1,
        -2,
        -7,
        1 << 40,
        isize::MIN,
        isize::MIN + 1,
        isize::MAX,
    ];
    let numbers: Vec<(usize, isize)> = sizes.into_iter().zip(axes).collect();
    let mut wrong = Vec::new();
    for (name, call) in CALLS {
        for shape in shapes {
            let x = Tensor::ones(&e, shape, DType::F32).unwrap();
            let x = x.contiguous().unwrap();
            for &(n, i) in &numbers {
                // A size is what it says in the shape of the result, or it was refused.
                let made = catch_unwind(AssertUnwindSafe(|| {
                    call(&x, n, i).map(|t| {
                        let bytes = (t.shape().iter()).fold(t.dtype().size() as u128, |all, &n| {
                            all.saturating_mul(n as u128)
                        });
                        assert!(bytes <= isize::MAX as u128, "{bytes} bytes");
                        t.numel()
                    })
                }));
                if let Err(said) = made {
                    let said = (said.downcast_ref::<String>().cloned())
                        .or(said.downcast_ref::<&str>().map(|s| s.to_string()));
                    wrong.push(format!("{name} of {shape:?} with {n}, {i}: {said:?}"));
                }
            }
        }
    }
    wrong.dedup_by_key(|line| line.split(" of ").next().map(str::to_owned));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Sizes between what a vector of positions takes and what an address reaches.
#[test]
fn interpolation_to_what_no_list_holds() {
    let e = Engine::reference();
    let x = Tensor::from_slice(&e, &[1.0f32, 2.0, 3.0], &[1, 1, 3]).unwrap();
    for mode in [
        Interpolation::Nearest,
        Interpolation::NearestExact,
        Interpolation::Linear {
            align_corners: true,
        },
        Interpolation::Linear {
            align_corners: false,
        },
    ] {
        let large = x.interpolate(&[1 << 40], mode).unwrap();
        assert_eq!(large.shape(), [1, 1, 1 << 40]);
        assert!(x.interpolate(&[usize::MAX], mode).is_err());
    }
}
