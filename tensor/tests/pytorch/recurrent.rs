//! Recurrent layers.

use tensor::nn::recurrent::Stack;
use tensor::nn::{Gru, Lstm, Module, Parameter, commit};
use tensor::{DType, Engine, Result, Rng, Tensor};

use super::support;

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
            assert!(text.contains("Gru: expected [steps, batch, 3]"), "{text}");
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
