//! Layers, optimizers and checkpoints on the reference executor.

use tensor::nn::conv::Channels;
use tensor::nn::{
    Adam, AdamW, BatchNorm, Conv, ConvTranspose, Dropout, Embedding, GroupNorm, InstanceNorm, Lamb,
    LayerNorm, Linear, Module, MultiHeadAttention, Optimizer, Parameter, RmsNorm, Sgd, commit,
    init, part, state,
};
use tensor::ops::attention::Attention;
use tensor::ops::conv::ConvParams;
use tensor::ops::loss::Reduction;
use tensor::{DType, Engine, Error, Result, Rng, Tensor};

#[test]
fn shapes_of_layers() -> Result<()> {
    let e = Engine::reference();
    let mut rng = Rng::new(&e, 0);
    let f = DType::F32;
    let x = rng.randn(&[2, 4, 6, 6], f)?;
    let conv = Conv::new(
        &mut rng,
        Channels {
            inputs: 4,
            outputs: 8,
            groups: 2,
        },
        &[3, 3],
        ConvParams::strided(2, 2).padded(1, 2),
        true,
        f,
    )?;
    let y = conv.forward(&x)?;
    assert_eq!(y.shape(), [2, 8, 3, 3]);
    let up = ConvTranspose::new(
        &mut rng,
        Channels::new(8, 4),
        &[2, 2],
        ConvParams::strided(2, 2),
        true,
        f,
    )?;
    assert_eq!(up.forward(&y)?.shape(), [2, 4, 6, 6]);
    for y in [
        GroupNorm::new(&e, 2, 4, 1e-5, f)?.forward(&x)?,
        InstanceNorm::new(&e, 4, 1e-5, f)?.forward(&x)?,
        BatchNorm::new(&e, 4, f)?.forward(&x, true)?,
        LayerNorm::new(&e, &[6, 6], 1e-5, f)?.forward(&x)?,
    ] {
        assert_eq!(y.shape(), x.shape());
        assert!(y.mean(&[], false)?.item::<f32>()?.abs() < 1e-5);
        assert!((y.var(&[], 0.0, false)?.item::<f32>()? - 1.0).abs() < 1e-3);
    }
    let y = RmsNorm::new(&e, 6, 0.0, f)?.forward(&x)?;
    assert!((y.square()?.mean(&[], false)?.item::<f32>()? - 1.0).abs() < 1e-5);
    let words = Tensor::from_slice(&e, &[1i32, 0, 2, 2, 1, 1], &[2, 3])?;
    let x = Embedding::new(&mut rng, 3, 8, f)?.forward(&words)?;
    let attention = MultiHeadAttention::new(&mut rng, 8, 4, 2, true, f)?;
    let y = attention.forward(&x, &x, &x, &Attention::default())?;
    assert_eq!(y.shape(), [2, 3, 8]);
    assert_eq!(attention.parameters().len(), 8);
    let y = Dropout { p: 0.5 }.forward(&y, Some(&mut rng))?;
    assert!(y.eq(0)?.any(&[], false)?.item::<bool>()?);
    for (deviation, w) in [
        (
            (2.0f64 / 100.0).sqrt(),
            init::kaiming_uniform(&mut rng, &[50, 100], 0.0, f)?,
        ),
        (
            (2.0f64 / 100.0).sqrt(),
            init::kaiming_normal(&mut rng, &[50, 100], 0.0, f)?,
        ),
        (
            (2.0f64 / 150.0).sqrt(),
            init::glorot_uniform(&mut rng, &[50, 100], f)?,
        ),
        (
            (2.0f64 / 150.0).sqrt(),
            init::glorot_normal(&mut rng, &[50, 100], f)?,
        ),
    ] {
        let got = w.std(&[], 1.0, false)?.item::<f32>()?;
        assert!((f64::from(got) / deviation - 1.0).abs() < 0.06);
    }
    Ok(())
}

#[test]
fn running_statistics() -> Result<()> {
    let e = Engine::reference();
    let norm = BatchNorm::new(&e, 1, DType::F64)?;
    let x = Tensor::from_slice(&e, &[1.0f64, 3.0], &[2, 1])?;
    norm.forward(&x, true)?;
    let all: Vec<Parameter> = norm.parameters().into_iter().map(|(_, p)| p).collect();
    commit(&all)?;
    assert!((norm.running_mean.get().item::<f64>()? - 0.2).abs() < 1e-12);
    assert!((norm.running_var.get().item::<f64>()? - 1.1).abs() < 1e-12);
    assert_eq!(norm.num_batches_tracked.get().item::<i64>()?, 1);
    assert_eq!(norm.trainable().len(), 2);
    Ok(())
}

/// One parameter 1.0 with gradient 0.5 at each of two steps.
fn two_steps(make: impl Fn(Vec<Parameter>) -> Result<Box<dyn Optimizer>>) -> Result<f64> {
    let e = Engine::reference();
    let p = Parameter::new(Tensor::from_slice(&e, &[1.0f64], &[1])?);
    let mut optimizer = make(vec![p.clone()])?;
    for _ in 0..2 {
        optimizer.minimize(&p.get().mul(0.5)?.sum(&[], false)?)?;
    }
    p.get().item()
}

#[test]
fn optimizers_take_the_steps_of_their_formulas() -> Result<()> {
    let near = |got: f64, want: f64| assert!((got - want).abs() < 1e-6, "{got} {want}");
    near(
        two_steps(|p| Ok(Box::new(Sgd::new(p, 0.1, 0.0, false, 0.0)?)))?,
        0.9,
    );
    // v = 0.5, then 0.9 * 0.5 + 0.5.
    near(
        two_steps(|p| Ok(Box::new(Sgd::new(p, 0.1, 0.9, false, 0.0)?)))?,
        1.0 - 0.05 - 0.095,
    );
    near(
        two_steps(|p| Ok(Box::new(Sgd::new(p, 0.1, 0.9, true, 0.0)?)))?,
        1.0 - 0.1 * 0.95 - 0.1 * (0.5 + 0.9 * 0.95),
    );
    // Decay adds p * 0.2 to the gradient.
    near(
        two_steps(|p| Ok(Box::new(Sgd::new(p, 0.1, 0.0, false, 0.2)?)))?,
        0.93 - 0.1 * (0.5 + 0.2 * 0.93),
    );
    let betas = (0.9, 0.999);
    // A constant gradient makes every corrected step 1.
    near(
        two_steps(|p| Ok(Box::new(Adam::new(p, 0.1, betas, 1e-12, 0.0)?)))?,
        0.8,
    );
    near(
        two_steps(|p| Ok(Box::new(AdamW::new(p, 0.1, betas, 1e-12, 0.5)?)))?,
        (0.95 - 0.1) * 0.95 - 0.1,
    );
    // The ratio makes the step as long as the parameter.
    near(
        two_steps(|p| Ok(Box::new(Lamb::new(p, 0.1, betas, 1e-12, 0.0)?)))?,
        0.81,
    );
    Ok(())
}

struct Net {
    layers: Vec<Linear>,
}

impl Module for Net {
    fn parameters(&self) -> Vec<(String, Parameter)> {
        part("layers", &self.layers)
    }
}

impl Net {
    fn new(rng: &mut Rng) -> Result<Net> {
        Ok(Net {
            layers: vec![
                Linear::new(rng, 2, 8, true, DType::F32)?,
                Linear::new(rng, 8, 1, true, DType::F32)?,
            ],
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.layers[1].forward(&self.layers[0].forward(x)?.tanh()?)
    }
}

#[test]
fn training_learns_exclusive_or_and_survives_a_file() -> Result<()> {
    let e = Engine::reference();
    let net = Net::new(&mut Rng::new(&e, 5))?;
    let x = Tensor::from_slice(&e, &[0.0f32, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0], &[4, 2])?;
    let want = Tensor::from_slice(&e, &[0.0f32, 1.0, 1.0, 0.0], &[4, 1])?;
    let mut adam = Adam::new(net.trainable(), 0.05, (0.9, 0.999), 1e-8, 0.0)?;
    let loss = |net: &Net| net.forward(&x)?.mse_loss(&want, Reduction::Mean);
    let before: f32 = loss(&net)?.item()?;
    for _ in 0..150 {
        adam.minimize(&loss(&net)?)?;
    }
    adam.set_rate(0.01)?;
    for _ in 0..50 {
        adam.minimize(&loss(&net)?)?;
    }
    let after: f32 = loss(&net)?.item()?;
    assert!(after < 0.01 && before > 0.1, "{before} {after}");

    let folder = tempfile::tempdir().map_err(|e| Error::Shape {
        op: "test",
        what: e.to_string(),
    })?;
    let path = folder.path().join("net.safetensors");
    state::save(&net, &path)?;
    let other = Net::new(&mut Rng::new(&e, 6))?;
    state::load(&other, &path)?;
    assert_eq!(loss(&other)?.item::<f32>()?, after);
    let tensors = state::load_tensors(&e, &path)?;
    let names: Vec<&str> = tensors.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "layers.0.bias",
            "layers.0.weight",
            "layers.1.bias",
            "layers.1.weight"
        ]
    );
    let wrong = Linear::new(&mut Rng::new(&e, 1), 2, 2, false, DType::F32)?;
    assert!(state::load(&wrong, &path).is_err());
    Ok(())
}

#[test]
fn cells_hold_one_value_after_the_other_and_check_what_they_are_given() -> Result<()> {
    let e = Engine::reference();
    let p = Parameter::new(Tensor::from_slice(&e, &[1i32, 2], &[2])?);
    let clone = p.clone();
    let node = p.get();
    p.set(p.get().mul(10)?)?;
    assert_eq!(clone.get().to_vec::<i32>()?, [10, 20]);
    commit([p.clone(), clone.clone()])?;
    // What it was stays what it was.
    assert_eq!(clone.get().to_vec::<i32>()?, [10, 20]);
    assert_eq!(node.to_vec::<i32>()?, [1, 2]);
    assert!(p.set(Tensor::zeros(&e, &[3], DType::I32)?).is_err());
    assert!(p.set(Tensor::zeros(&e, &[2], DType::I64)?).is_err());
    assert!(
        p.set(Tensor::zeros(&Engine::reference(), &[2], DType::I32)?)
            .is_err()
    );
    // A swap reads both old values.
    let q = Parameter::new(Tensor::from_slice(&e, &[7i32, 8], &[2])?);
    let (a, b) = (p.get(), q.get());
    p.set(b.add(0)?)?;
    q.set(a.add(0)?)?;
    commit([p.clone(), q.clone()])?;
    assert_eq!(p.get().to_vec::<i32>()?, [7, 8]);
    assert_eq!(q.get().to_vec::<i32>()?, [10, 20]);
    Ok(())
}

/// A layer whose weights are of another rank, or do not fit each other, says so and does not compute something else.
#[test]
fn layers_say_what_is_wrong_with_their_weights() -> Result<()> {
    let e = Engine::reference();
    let zeros = |shape: &[usize]| Tensor::zeros(&e, shape, DType::F32);
    let cell = |shape: &[usize]| Ok::<_, Error>(Parameter::new(zeros(shape)?));
    let says = |made: Result<Tensor>, parts: &[&str]| {
        let text = match made {
            Ok(y) => panic!("{parts:?}: made {y:?}"),
            Err(error) => error.to_string(),
        };
        for part in parts {
            assert!(text.contains(part), "`{part}` is not in: {text}");
        }
    };
    for weight in [&[3][..], &[], &[2, 3, 1]] {
        let linear = Linear {
            weight: cell(weight)?,
            bias: None,
        };
        let shape = format!("{weight:?}");
        says(
            linear.forward(&zeros(&[4, 3])?),
            &["Linear", "[out, in]", &shape],
        );
        let table = Embedding {
            weight: cell(weight)?,
        };
        let index = Tensor::zeros(&e, &[2], DType::I32)?;
        says(
            table.forward(&index),
            &["embedding", "[entries, width]", &shape],
        );
        let mut conv = Conv::new(
            &mut Rng::new(&e, 1),
            Channels::new(3, 2),
            &[1],
            ConvParams::default(),
            false,
            DType::F32,
        )?;
        if weight.len() != 3 {
            conv.weight = cell(weight)?;
            says(conv.forward(&zeros(&[1, 3, 5])?), &["conv", &shape]);
        }
        let norm = RmsNorm {
            weight: cell(weight)?,
            eps: 1e-5,
        };
        says(
            norm.forward(&zeros(&[4, 2])?),
            &["RmsNorm", &shape, "[4, 2]"],
        );
    }
    let linear = Linear {
        weight: cell(&[2, 3])?,
        bias: Some(cell(&[1, 2])?),
    };
    says(
        linear.forward(&zeros(&[4, 3])?),
        &["Linear", "[2]", "[1, 2]"],
    );
    // A last axis of one would broadcast.
    let norm = LayerNorm::new(&e, &[5], 1e-5, DType::F32)?;
    says(
        norm.forward(&zeros(&[4, 1])?),
        &["LayerNorm", "[.., 5]", "[4, 1]"],
    );
    says(norm.forward(&zeros(&[])?), &["LayerNorm", "[.., 5]", "[]"]);
    let mut norm = LayerNorm::new(&e, &[5], 1e-5, DType::F32)?;
    norm.bias = cell(&[1])?;
    says(norm.forward(&zeros(&[4, 5])?), &["LayerNorm", "[5]", "[1]"]);
    let norm = RmsNorm::new(&e, 5, 1e-5, DType::F32)?;
    says(
        norm.forward(&zeros(&[4, 1])?),
        &["RmsNorm", "[5]", "[4, 1]"],
    );
    for weight in [&[][..], &[1], &[2, 3]] {
        let mut norm = GroupNorm::new(&e, 1, 6, 1e-5, DType::F32)?;
        norm.weight = cell(weight)?;
        says(
            norm.forward(&zeros(&[2, 6, 4])?),
            &["group_norm", "6", &format!("{weight:?}")],
        );
        let mut norm = InstanceNorm::new(&e, 6, 1e-5, DType::F32)?;
        norm.bias = cell(weight)?;
        says(
            norm.forward(&zeros(&[2, 6, 4])?),
            &["6", &format!("{weight:?}")],
        );
        let mut norm = BatchNorm::new(&e, 6, DType::F32)?;
        norm.bias = cell(weight)?;
        says(
            norm.forward(&zeros(&[2, 6, 4])?, false),
            &["6", &format!("{weight:?}")],
        );
    }
    let mut attention = MultiHeadAttention::new(&mut Rng::new(&e, 1), 4, 2, 1, true, DType::F32)?;
    attention.k_proj.weight = cell(&[3, 4])?;
    attention.k_proj.bias = None;
    let x = zeros(&[1, 3, 4])?;
    says(
        attention.forward(&x, &x, &x, &Attention::default()),
        &["MultiHeadAttention", "k_proj", "[3, 4]", "[2, 4]"],
    );
    Ok(())
}
