//! Functions and layers that PyTorch has, beside its numbers: on the reference executor, and on the CPU.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use tensor::nn::recurrent::Stack;
use tensor::nn::{Gru, Lstm, Module, Parameter, commit};
use tensor::ops::loss::Reduction;
use tensor::{DType, Engine, Jit, Result, Rng, Tensor};

fn floats(e: &Engine, data: &[f64]) -> Result<Tensor> {
    Tensor::from_slice(e, data, &[data.len()])
}

/// `sin(0.7 k + phase) / 2` for the elements by their number k.
fn wave(e: &Engine, shape: &[usize], phase: f64) -> Result<Tensor> {
    let n: usize = shape.iter().product();
    let all: Vec<f64> = (0..n)
        .map(|k| 0.5 * (0.7 * k as f64 + phase).sin())
        .collect();
    Tensor::from_slice(e, &all, shape)
}

/// Gives all parameters waves and asks for their names.
fn waves(e: &Engine, layer: &dyn Module) -> Result<Vec<Parameter>> {
    let mut names = Vec::new();
    let mut cells = Vec::new();
    for (i, (name, cell)) in layer.parameters().into_iter().enumerate() {
        cell.set(wave(e, cell.get().shape(), i as f64)?)?;
        names.push(name);
        cells.push(cell);
    }
    commit(cells.clone())?;
    let kinds = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"];
    let want = ["l0", "l0_reverse", "l1", "l1_reverse"]
        .map(|layer| kinds.map(|kind| format!("{kind}_{layer}")));
    assert_eq!(names, want.concat());
    Ok(cells)
}

fn near(found: &Tensor, want: &[f64]) -> Result<()> {
    let found: Vec<f64> = found.to_vec()?;
    let close = found.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-11);
    assert!(
        close && found.len() == want.len(),
        "{found:?} instead of {want:?}"
    );
    Ok(())
}

/// The products of gradients with waves, which are those of PyTorch.
fn slopes(loss: &Tensor, with: &[&Tensor], want: &[f64]) -> Result<()> {
    let found = tensor::gradients(loss, with)?;
    let sums: Result<Vec<Tensor>> = found
        .iter()
        .map(|g| g.mul(&wave(g.engine(), g.shape(), 0.6)?)?.sum(&[], false))
        .collect();
    let sums = sums?;
    near(&Tensor::stack(&sums.iter().collect::<Vec<_>>(), 0)?, want)
}

const TWO_WAYS: Stack = Stack {
    inputs: 3,
    hidden: 2,
    layers: 2,
    bias: true,
    batch_first: true,
    bidirectional: true,
};

/// Two layers in both directions, over a batch first, on from given states.
#[test]
fn gated_recurrent_units() -> Result<()> {
    for e in [Engine::reference(), support::engine()] {
        let gru = Gru::new(&mut Rng::new(&e, 1), TWO_WAYS, DType::F64)?;
        let cells = waves(&e, &gru)?;
        let (x, h) = (wave(&e, &[2, 3, 3], 0.1)?, wave(&e, &[4, 2, 2], 0.2)?);
        let (out, last) = gru.forward(&x, Some(&h))?;
        assert_eq!(out.shape(), [2, 3, 4]);
        near(&out, &GRU_OUT)?;
        near(&last, &GRU_LAST)?;
        let of = |t: &Tensor, phase: f64| t.mul(&wave(&e, t.shape(), phase)?)?.sum(&[], false);
        let loss = of(&out, 0.4)?.add(&of(&last, 0.5)?)?;
        let values: Vec<Tensor> = cells.iter().map(Parameter::get).collect();
        let with: Vec<&Tensor> = [&x, &h].into_iter().chain(&values).collect();
        slopes(&loss, &with, &GRU_SLOPES)?;
    }
    Ok(())
}

/// The same with a memory.
#[test]
fn long_short_term_memory() -> Result<()> {
    for e in [Engine::reference(), support::engine()] {
        let lstm = Lstm::new(&mut Rng::new(&e, 1), TWO_WAYS, DType::F64)?;
        let cells = waves(&e, &lstm)?;
        let x = wave(&e, &[2, 3, 3], 0.1)?;
        let (h, c) = (wave(&e, &[4, 2, 2], 0.2)?, wave(&e, &[4, 2, 2], 0.3)?);
        let (out, (last, memory)) = lstm.forward(&x, Some((&h, &c)))?;
        near(&out, &LSTM_OUT)?;
        near(&last, &LSTM_LAST)?;
        near(&memory, &LSTM_MEMORY)?;
        let of = |t: &Tensor, phase: f64| t.mul(&wave(&e, t.shape(), phase)?)?.sum(&[], false);
        let loss = of(&out, 0.4)?
            .add(&of(&last, 0.5)?)?
            .add(&of(&memory, 1.5)?)?;
        let values: Vec<Tensor> = cells.iter().map(Parameter::get).collect();
        let with: Vec<&Tensor> = [&x, &h, &c].into_iter().chain(&values).collect();
        slopes(&loss, &with, &LSTM_SLOPES)?;
    }
    Ok(())
}

/// What goes in is checked; a sequence in two calls is one in one call; no steps change nothing.
#[test]
fn recurrent_layers_go_on_from_their_states() -> Result<()> {
    for e in [Engine::reference(), support::engine()] {
        let mut rng = Rng::new(&e, 3);
        let of = Stack {
            layers: 2,
            ..Stack::new(3, 4)
        };
        let (gru, lstm) = (
            Gru::new(&mut rng, of, DType::F32)?,
            Lstm::new(&mut rng, Stack { bias: false, ..of }, DType::F32)?,
        );
        let x = rng.randn(&[6, 5, 3], DType::F32)?;
        let (first, second) = (x.narrow(0, 0, 2)?, x.narrow(0, 2, 4)?);
        let close = |a: &Tensor, b: &Tensor| a.allclose(b, 1e-5, 1e-6)?.item::<bool>();
        let (whole, end) = gru.forward(&x, None)?;
        let (a, h) = gru.forward(&first, None)?;
        let (b, h) = gru.forward(&second, Some(&h))?;
        assert!(close(&whole, &Tensor::cat(&[&a, &b], 0)?)? && close(&end, &h)?);
        let (whole, end) = lstm.forward(&x, None)?;
        let (a, s) = lstm.forward(&first, None)?;
        let (b, s) = lstm.forward(&second, Some((&s.0, &s.1)))?;
        assert!(close(&whole, &Tensor::cat(&[&a, &b], 0)?)?);
        assert!(close(&end.0, &s.0)? && close(&end.1, &s.1)?);
        let (none, same) = gru.forward(&x.narrow(0, 0, 0)?, Some(&h))?;
        assert_eq!(none.shape(), [0, 5, 4]);
        assert!(close(&same, &h)?);
        for wrong in [&[6, 5, 4][..], &[6, 3], &[1, 6, 5, 3]] {
            let x = Tensor::zeros(&e, wrong, DType::F32)?;
            let text = gru.forward(&x, None).unwrap_err().to_string();
            assert!(text.contains("Gru: takes [steps, batch, 3]"), "{text}");
        }
        let text = lstm
            .forward(&x, Some((&h, &h.narrow(1, 0, 1)?)))
            .unwrap_err();
        assert!(text.to_string().contains("[2, 5, 4]"), "{text}");
        let half = Gru::new(&mut rng, of, DType::F16)?;
        let (y, _) = half.forward(&x.cast(DType::F16)?, Some(&h))?;
        assert_eq!(y.dtype(), DType::F16);
        assert!(close(
            &y.cast(DType::F32)?.abs()?.maximum(1.0)?,
            &y.cast(DType::F32)?.ones_like()?
        )?);
    }
    Ok(())
}

const GRU_OUT: [f64; 24] = [
    -0.020839060114,
    0.315497157205,
    -0.361381135354,
    -0.723893762358,
    -0.037446400091,
    0.428006397762,
    -0.218843484235,
    -0.682444196013,
    0.025204890585,
    0.478811440519,
    -0.068114202188,
    -0.450522562556,
    0.253457509912,
    0.504721401441,
    -0.455671362963,
    -0.76878840977,
    0.027871104807,
    0.546953927814,
    -0.37133471251,
    -0.776326904876,
    -0.027777840135,
    0.578566020911,
    -0.353891628046,
    -0.681013259761,
];
const GRU_LAST: [f64; 16] = [
    -0.552264625258,
    -0.067240157967,
    -0.532413037774,
    -0.054578565196,
    0.205883879324,
    -0.271096257938,
    0.151519895947,
    -0.30935237807,
    0.025204890585,
    0.478811440519,
    -0.027777840135,
    0.578566020911,
    -0.361381135354,
    -0.723893762358,
    -0.455671362963,
    -0.76878840977,
];
const GRU_SLOPES: [f64; 18] = [
    0.231532329689,
    0.389752741576,
    0.30463817226,
    -0.096607524302,
    -0.399072423767,
    -0.169632881607,
    0.06415872895,
    0.069762711386,
    0.295448245757,
    0.213080960405,
    -0.128445194828,
    0.078844225909,
    -0.254550709258,
    -0.054437454116,
    0.023327080484,
    0.065759565176,
    0.146686380924,
    0.099221054271,
];
const LSTM_OUT: [f64; 24] = [
    0.03149853639,
    0.178811833508,
    -0.294102362548,
    -0.363401074634,
    0.089741104304,
    0.22495849507,
    -0.257232688284,
    -0.304266854371,
    0.12441479945,
    0.236376005729,
    -0.157062183974,
    -0.179350165473,
    0.191102334315,
    0.250182469002,
    -0.311625503726,
    -0.39903292308,
    0.155891042648,
    0.251755231477,
    -0.305091821299,
    -0.37572440212,
    0.151394112698,
    0.246677758286,
    -0.256801701703,
    -0.369066989157,
];
const LSTM_LAST: [f64; 16] = [
    -0.289352305423,
    -0.020686517002,
    -0.28258336431,
    -0.011842529009,
    0.050628430364,
    -0.206999422493,
    0.047316243916,
    -0.209686557661,
    0.12441479945,
    0.236376005729,
    0.151394112698,
    0.246677758286,
    -0.294102362548,
    -0.363401074634,
    -0.311625503726,
    -0.39903292308,
];
const LSTM_MEMORY: [f64; 16] = [
    -0.616101762556,
    -0.030258108411,
    -0.59853734452,
    -0.017430255918,
    0.239682064161,
    -0.611376937492,
    0.22546818994,
    -0.622332974538,
    0.19566577026,
    0.434317310317,
    0.242868157575,
    0.455379279376,
    -0.71809960128,
    -0.631491693907,
    -0.798293704715,
    -0.694192657335,
];
const LSTM_SLOPES: [f64; 19] = [
    0.052816245727,
    -0.023976527372,
    0.360136031111,
    0.195259424211,
    -0.030968615317,
    -0.359574041343,
    -0.359574041343,
    0.057191697936,
    0.11020069027,
    0.404422313687,
    0.404422313687,
    -0.009622568039,
    0.069707679548,
    0.039152299055,
    0.039152299055,
    0.012267063492,
    0.18029583829,
    0.492122092862,
    0.492122092862,
];

/// Values of PyTorch.
#[test]
fn angles_and_lengths_of_points() -> Result<()> {
    const PI: f64 = std::f64::consts::PI;
    const INF: f64 = f64::INFINITY;
    let y = [
        0.0, -0.0, 0.0, -0.0, 1.0, -1.0, 1.0, 2.0, INF, INF, -INF, 3.0, -3.0, 1e-300,
    ];
    let x = [
        0.0, 0.0, -0.0, -0.0, 0.0, -0.0, 1.0, -2.0, INF, -INF, 5.0, -INF, INF, -1.0,
    ];
    let (half, quarter, most) = (PI / 2.0, PI / 4.0, 3.0 * PI / 4.0);
    let angles = [
        0.0, -0.0, PI, -PI, half, -half, quarter, most, quarter, most, -half, PI, -0.0, PI,
    ];
    let root = 2f64.sqrt();
    let lengths = [
        0.0,
        0.0,
        0.0,
        0.0,
        1.0,
        1.0,
        root,
        2.0 * root,
        INF,
        INF,
        INF,
        INF,
        INF,
        1.0,
    ];
    for e in [Engine::reference(), support::engine()] {
        let (y, x) = (floats(&e, &y)?, floats(&e, &x)?);
        let found: Vec<f64> = y.atan2(&x)?.to_vec()?;
        let bits = |x: &f64| (x.abs() * 1e15).round().copysign(*x).to_bits();
        assert_eq!(
            found.iter().map(bits).collect::<Vec<_>>(),
            angles.iter().map(bits).collect::<Vec<_>>(),
            "{found:?}"
        );
        let found: Vec<f64> = y.hypot(&x)?.to_vec()?;
        for (found, want) in found.iter().zip(&lengths) {
            assert!(
                found == want || (found - want).abs() < 1e-15,
                "{found} {want}"
            );
        }
        // The gradients where they are numbers.
        let both = |t: &Tensor| -> Result<Vec<Vec<f64>>> {
            let slopes = tensor::gradients(&t.sum(&[], false)?, &[&y, &x])?;
            slopes.iter().map(Tensor::to_vec).collect()
        };
        let found = both(&y.atan2(&x)?)?;
        let near = |a: &[f64], b: &[f64]| {
            let close = a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-15);
            assert!(close, "{a:?} {b:?}");
        };
        near(&found[0][..8], &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, -0.25]);
        near(
            &found[1][..8],
            &[0.0, 0.0, 0.0, 0.0, -1.0, 1.0, -0.5, -0.25],
        );
        let found = both(&y.hypot(&x)?)?;
        let r = 0.5f64.sqrt();
        near(&found[0][..8], &[0.0, 0.0, 0.0, 0.0, 1.0, -1.0, r, r]);
        near(&found[1][..8], &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, r, -r]);
        assert!(floats(&e, &[f64::NAN])?.atan2(1.0)?.item::<f64>()?.is_nan());
        assert!(floats(&e, &[f64::NAN])?.hypot(1.0)?.item::<f64>()?.is_nan());
        assert_eq!(floats(&e, &[f64::NAN])?.hypot(-INF)?.item::<f64>()?, INF);
        assert_eq!(floats(&e, &[3e300])?.hypot(4e300)?.item::<f64>()?, 5e300);
        let small = Tensor::from_slice(&e, &[3e-40f32, 1.0], &[2])?;
        let found: Vec<f32> = small.atan2(&small.full_like(-1.0)?)?.to_vec()?;
        assert_eq!(found, [std::f32::consts::PI, 2.356_194_5]);
    }
    Ok(())
}

/// Values of PyTorch.
#[test]
fn medians_and_what_is_not_nan() -> Result<()> {
    let nan = f64::NAN;
    for e in [Engine::reference(), support::engine()] {
        let x = [3.0, 1.0, 2.0, 1.0, nan, 0.0, nan, 5.0, 4.0, 4.0, 1.0, 2.0];
        let x = floats(&e, &x)?.reshape(&[3, 4])?;
        let (value, place) = x.median(1, false)?;
        assert_eq!(place.to_vec::<i32>()?, [3, 0, 3]);
        let value: Vec<f64> = value.to_vec()?;
        assert!(value[0] == 1.0 && value[1].is_nan() && value[2] == 2.0);
        assert_eq!(x.median(-1, true)?.1.shape(), [3, 1]);
        let (value, place) = floats(&e, &[5.0, 1.0, 3.0])?.median(0, false)?;
        assert_eq!((value.item::<f64>()?, place.item::<i32>()?), (3.0, 2));
        let whole = Tensor::from_slice(&e, &[5i32, -1, 3, 2], &[4])?;
        assert_eq!(whole.median(0, false)?.0.item::<i32>()?, 2);
        assert!(
            Tensor::zeros(&e, &[2, 0], DType::F32)?
                .median(1, false)
                .is_err()
        );

        let x = floats(&e, &[1.0, nan, 3.0, nan, nan, nan])?.reshape(&[2, 3])?;
        assert_eq!(x.nansum(&[1], false)?.to_vec::<f64>()?, [4.0, 0.0]);
        let mean: Vec<f64> = x.nanmean(&[1], false)?.to_vec()?;
        assert!(mean[0] == 2.0 && mean[1].is_nan());
        let slope = tensor::gradients(&x.nansum(&[], false)?, &[&x])?.remove(0);
        assert_eq!(slope.to_vec::<f64>()?, [1.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
        let first = x.nanmean(&[1], false)?.index(0, 0)?;
        let slope: Vec<f64> = tensor::gradients(&first, &[&x])?[0].to_vec()?;
        assert_eq!(slope[..3], [0.5, 0.0, 0.5]);

        // Where NaN would be inserted: behind all numbers.
        let sorted = floats(&e, &[1.0, 2.0, 3.0])?;
        let values = floats(&e, &[nan, 2.0, -nan, f64::INFINITY])?;
        assert_eq!(
            sorted.searchsorted(&values, false)?.to_vec::<i32>()?,
            [3, 1, 3, 3]
        );
        assert_eq!(
            sorted.searchsorted(&values, true)?.to_vec::<i32>()?,
            [3, 2, 3, 3]
        );
        let sorted = floats(&e, &[1.0, nan, nan])?;
        assert_eq!(
            sorted.searchsorted(&values, false)?.to_vec::<i32>()?,
            [1, 1, 1, 1]
        );
        assert_eq!(
            sorted.searchsorted(&values, true)?.to_vec::<i32>()?,
            [3, 1, 3, 1]
        );
        // By halves, too.
        let many = Tensor::iota(&e, 5000, DType::I32)?.cast(DType::F32)?;
        let values = Tensor::full(&e, &[300], f64::NAN, DType::F32)?;
        let found: Vec<i32> = many.searchsorted(&values, false)?.to_vec()?;
        assert_eq!(found, [5000; 300]);
    }
    Ok(())
}

/// Values of PyTorch.
#[test]
fn pools_of_a_size_and_sums_at_an_index() -> Result<()> {
    for e in [Engine::reference(), support::engine()] {
        let x: Vec<f64> = (0..70).map(|i| f64::from(i).powf(1.3)).collect();
        let x = floats(&e, &x)?.reshape(&[1, 2, 5, 7])?;
        let cases: [(&[usize], &[f64], f64); 4] = [
            (
                &[2, 3],
                &[16.644227751, 21.333718865, 26.478061985, 56.364654112],
                0.362133951161,
            ),
            (
                &[3, 2],
                &[9.057846937, 15.562098798, 36.266987325, 45.266181524],
                0.212796020336,
            ),
            (
                &[6, 9],
                &[0.0, 0.5, 1.731144413, 3.316728169],
                -0.348322532554,
            ),
            (&[1, 1], &[42.769085905, 171.399342791], 0.024903640942),
        ];
        for (sizes, want, slope) in cases {
            let y = x.adaptive_avg_pool(sizes)?;
            assert_eq!(y.shape(), [1, 2, sizes[0], sizes[1]]);
            let found: Vec<f64> = y.to_vec()?;
            let off = found.iter().zip(want).find(|(a, b)| (*a - *b).abs() > 1e-8);
            assert!(off.is_none(), "{sizes:?}: {found:?}");
            let wave = |t: &Tensor| -> Result<Tensor> {
                let at = Tensor::iota(&e, t.numel(), DType::I32)?.cast(DType::F64)?;
                at.reshape(t.shape())
            };
            let loss = y.mul(&wave(&y)?.cos()?)?.sum(&[], false)?;
            let found = tensor::gradients(&loss, &[&x])?.remove(0);
            let found: f64 = found.mul(&wave(&x)?.sin()?)?.sum(&[], false)?.item()?;
            assert!((found - slope).abs() < 1e-10, "{sizes:?}: {found}");
        }
        assert!(x.adaptive_avg_pool(&[2]).is_err());

        let base = Tensor::zeros(&e, &[3, 2], DType::F64)?;
        let source = floats(&e, &[2.0, 4.0, 6.0, 8.0, 10.0, 12.0])?.reshape(&[3, 2])?;
        let index = Tensor::from_slice(&e, &[2i64, 0, 2], &[3])?;
        let y = base.index_add(0, &index, &source)?;
        assert_eq!(y.to_vec::<f64>()?, [6.0, 8.0, 0.0, 0.0, 12.0, 16.0]);
        let square = y.square()?.sum(&[], false)?;
        let slope = tensor::gradients(&square, &[&source])?.remove(0);
        assert_eq!(slope.to_vec::<f64>()?, [24.0, 32.0, 12.0, 16.0, 24.0, 32.0]);
        assert!(base.index_add(0, &index, &base.narrow(0, 0, 2)?).is_err());

        let d = floats(&e, &[-2.0, -0.5, 0.0, 0.25, 0.5, 3.0])?;
        let zeros = d.zeros_like()?;
        let cases: [(f64, [f64; 6], [f64; 6]); 3] = [
            (
                1.0,
                [1.5, 0.125, 0.0, 0.03125, 0.125, 2.5],
                [-1.0, -0.5, 0.0, 0.25, 0.5, 1.0],
            ),
            (
                0.5,
                [1.75, 0.25, 0.0, 0.0625, 0.25, 2.75],
                [-1.0, -1.0, 0.0, 0.5, 1.0, 1.0],
            ),
            (
                0.0,
                [2.0, 0.5, 0.0, 0.25, 0.5, 3.0],
                [-1.0, -1.0, 0.0, 1.0, 1.0, 1.0],
            ),
        ];
        for (beta, losses, slopes) in cases {
            let found = d.smooth_l1_loss(&zeros, beta, Reduction::None)?;
            assert_eq!(found.to_vec::<f64>()?, losses, "{beta}");
            let slope = tensor::gradients(&found.sum(&[], false)?, &[&d])?.remove(0);
            assert_eq!(slope.to_vec::<f64>()?, slopes, "{beta}");
        }
        assert!(d.smooth_l1_loss(&zeros, -1.0, Reduction::None).is_err());
    }
    Ok(())
}

/// Values of PyTorch.
#[test]
fn sizes_that_depend_on_values_are_read() -> Result<()> {
    for e in [Engine::reference(), support::engine()] {
        let x = floats(&e, &[3.0, 1.0, 3.0, 2.0, 1.0])?;
        let found = x.unique()?;
        assert_eq!(found.values.to_vec::<f64>()?, [1.0, 2.0, 3.0]);
        assert_eq!(found.inverse.to_vec::<i32>()?, [2, 0, 2, 1, 0]);
        assert_eq!(found.counts.to_vec::<i32>()?, [2, 1, 2]);
        let found = floats(&e, &[f64::NAN, 1.0, f64::NAN])?.unique()?;
        assert_eq!(found.counts.to_vec::<i32>()?, [1, 1, 1]);
        let found = Tensor::zeros(&e, &[0, 2], DType::I64)?.unique()?;
        assert_eq!(
            (found.values.shape(), found.inverse.shape()),
            (&[0][..], &[0, 2][..])
        );
        let x = floats(&e, &[0.0, 1.0, 2.0, 0.0, 0.0, f64::NAN])?.reshape(&[3, 2])?;
        let places = x.nonzero()?;
        assert_eq!(places.shape(), [3, 2]);
        assert_eq!(places.to_vec::<i64>()?, [0, 1, 1, 0, 2, 1]);
        assert_eq!(x.gather_nd(&places, 0)?.to_vec::<f64>()?[..2], [1.0, 2.0]);
        let some = x.masked_select(&x.gt(0)?)?;
        assert_eq!(some.to_vec::<f64>()?, [1.0, 2.0]);
        let slope = tensor::gradients(&some.square()?.sum(&[], false)?, &[&x])?.remove(0);
        assert_eq!(slope.to_vec::<f64>()?, [0.0, 2.0, 4.0, 0.0, 0.0, 0.0]);
        assert!(x.masked_select(&x).is_err());
        assert_eq!(x.masked_select(&x.lt(-1)?)?.shape(), [0]);
        let jit = Jit::new(&e, |x: &[Tensor]| Ok(vec![x[0].nonzero()?]));
        let calls: Vec<Result<Vec<Tensor>>> =
            (0..3).map(|_| jit.call(std::slice::from_ref(&x))).collect();
        // Every call gives them, or says that it cannot; a device captures.
        let refused: Vec<String> = calls
            .iter()
            .filter_map(|call| Some(call.as_ref().err()?.to_string()))
            .collect();
        assert!(
            refused.iter().all(|text| text.contains("captured")),
            "{refused:?}"
        );
        assert_eq!(refused.is_empty(), e.name() == "REFERENCE");
    }
    Ok(())
}

/// Values of PyTorch.
#[test]
fn equations_are_solved() -> Result<()> {
    for e in [Engine::reference(), support::engine()] {
        let near = |found: &Tensor, want: &[f64]| -> Result<()> {
            let found: Vec<f64> = found.to_vec()?;
            let close = found.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-13);
            assert!(close && found.len() == want.len(), "{found:?} {want:?}");
            Ok(())
        };
        let of = |data: &[f64], shape: &[usize]| floats(&e, data)?.reshape(shape);
        let a = of(&[0.0, 2.0, 1.0, 3.0, 1.0, 4.0, 1.0, 5.0, 9.0], &[3, 3])?;
        let b = of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2])?;
        let x = a.solve(&b)?;
        near(&x, &[0.46875, 1.0, 0.34375, 1.0, 0.3125, 0.0])?;
        let slopes = tensor::gradients(&x.square()?.sum(&[], false)?, &[&a, &b])?;
        near(
            &slopes[0],
            &[
                -2.3795166015625,
                -2.3116455078125,
                -0.169677734375,
                -1.0452880859375,
                -0.9998779296875,
                -0.113525390625,
                0.6964111328125,
                0.6773681640625,
                0.047607421875,
            ],
        )?;
        near(
            &slopes[1],
            &[0.54296875, 2.125, 0.36328125, 0.875, -0.15234375, -0.625],
        )?;
        near(
            &a.inv()?,
            &[
                0.34375, 0.40625, -0.21875, 0.71875, 0.03125, -0.09375, -0.4375, -0.0625, 0.1875,
            ],
        )?;
        // Matrices broadcast over those before them.
        let many = a.unsqueeze(0)?.expand(&[2, 3, 3])?.solve(&b)?;
        assert_eq!(many.shape(), [2, 3, 2]);
        near(
            &many.index(0, 1)?,
            &[0.46875, 1.0, 0.34375, 1.0, 0.3125, 0.0],
        )?;
        let even = of(&[4.0, 1.0, 2.0, 1.0, 3.0, 0.0, 2.0, 0.0, 5.0], &[3, 3])?;
        let l = even.cholesky()?;
        near(
            &l,
            &[
                2.0,
                0.0,
                0.0,
                0.5,
                1.6583123951777,
                0.0,
                1.0,
                -0.30151134457776363,
                1.9771421064483223,
            ],
        )?;
        let weights = Tensor::iota(&e, 9, DType::I32)?
            .cast(DType::F64)?
            .reshape(&[3, 3])?;
        let slope = tensor::gradients(&l.mul(&weights)?.sum(&[], false)?, &[&even])?.remove(0);
        near(
            &slope,
            &[
                0.29142718739716955,
                -0.9033766921823315,
                -0.13116602870317337,
                -0.9033766921823316,
                1.6566671608459105,
                2.478419803941708,
                -0.1311660287031734,
                2.478419803941708,
                2.023122155435493,
            ],
        )?;
        near(
            &even.solve_triangular(&b, false)?,
            &[0.25, 0.5, 0.9166666666666666, 1.1666666666666665, 0.9, 1.0],
        )?;
        let upper = even.solve_triangular(&b, true)?;
        near(
            &even.triu(0)?.matmul(&upper)?,
            &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        )?;
        assert!(a.narrow(0, 0, 2)?.inv().is_err());
        assert!(a.solve(&b.index(1, 0)?).is_err());
        let single = a.cast(DType::F32)?.solve(&b.cast(DType::F32)?)?;
        assert_eq!(single.dtype(), DType::F32);
    }
    Ok(())
}
