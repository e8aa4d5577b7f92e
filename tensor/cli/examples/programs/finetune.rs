//! A pretrained net from a safetensors file: first only its head is trained, then a layer below it as well,
//! and what is frozen stays as it was in the file, bit by bit.

use doorbell::nn::{AdamW, Linear, Module, Optimizer, Parameter, Sgd, part, state};
use doorbell::ops::loss::Classes;
use doorbell::{DType, Engine, Jit, Result, Rng, Tensor};

use super::check::{all_close, linear, wave};

struct Net {
    layers: Vec<Linear>,
    head: Linear,
}

impl Module for Net {
    fn parameters(&self) -> Vec<(String, Parameter)> {
        [part("layers", &self.layers), part("head", &self.head)].concat()
    }
}

impl Net {
    fn loss(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let mut h = x.clone();
        for layer in &self.layers {
            h = layer.forward(&h)?.tanh()?;
        }
        Ok(self
            .head
            .forward(&h)?
            .cross_entropy(y, &Classes::default())?)
    }
}

/// The file: two layers, a head, and something that the net has no use for.
fn pretrained(engine: &Engine, path: &std::path::Path) -> Result<()> {
    let layers = [
        ("layers.0", linear(engine, 4, 8, 20.0, 0.5)?),
        ("layers.1", linear(engine, 8, 8, 21.0, 0.4)?),
        ("head", linear(engine, 8, 2, 22.0, 0.5)?),
    ];
    let mut tensors = vec![("step".to_string(), Tensor::scalar(engine, 7, DType::I64)?)];
    for (name, layer) in &layers {
        tensors.extend(part(name, layer).into_iter().map(|(n, p)| (n, p.get())));
    }
    Ok(state::save_tensors(tensors, path)?)
}

fn batch(engine: &Engine, step: usize) -> Result<[Tensor; 2]> {
    let x = wave(engine, &[16, 4], 600.0 + step as f64, 1.0)?;
    let y = x.sum(&[1], false)?.gt(0)?.cast(DType::I64)?;
    Ok([x, y])
}

pub fn run() -> Result<()> {
    let engine = doorbell::open()?;
    let path = std::env::temp_dir().join(format!("doorbell-finetune-{}", std::process::id()));
    pretrained(&engine, &path)?;
    let mut rng = Rng::new(&engine, 1);
    let mut layer = |i, o| Linear::new(&mut rng, i, o, true, DType::F32);
    let net = Net {
        layers: vec![layer(4, 8)?, layer(8, 8)?],
        head: layer(8, 2)?,
    };
    state::load(&net, &path)?;
    let file = state::load_tensors(&engine, &path)?;
    std::fs::remove_file(&path)?;

    // What an optimizer is not given is frozen.
    let mut head_only = AdamW::new(net.head.trainable(), 0.05, (0.9, 0.999), 1e-8, 0.1)?;
    let step = Jit::new(&engine, |b: &[Tensor]| {
        let loss = net.loss(&b[0], &b[1])?;
        head_only.minimize(&loss)?;
        Ok(vec![loss])
    });
    let mut losses = Vec::new();
    for i in 0..25 {
        losses.push(step.call(&batch(&engine, i)?)?[0].item::<f32>()?);
    }
    // torch.optim.AdamW over the head alone, 2.15.0.
    let at = [0, 5, 12, 24].map(|i| losses[i]);
    all_close(
        "losses",
        &at,
        &[0.7752357, 0.6745301, 0.5506429, 0.4289232],
        1e-3,
    );
    let head = net.head.weight.get();
    let expected = [-0.4202777, 0.6972874, 0.2037328, 0.2724161];
    all_close("the head", &head.to_vec::<f32>()?[..4], &expected, 1e-3);
    for (name, parameter) in net.parameters() {
        let same = parameter.get().to_vec::<f32>()? == file[&name].to_vec::<f32>()?;
        assert_eq!(same, name.starts_with("layers"), "{name}: frozen or not");
    }

    // Another optimizer over more of it; the captured function of before is left behind.
    let mut more = net.layers[1].trainable();
    more.extend(net.head.trainable());
    let mut sgd = Sgd::plain(more, 0.1)?;
    let step = Jit::new(&engine, |b: &[Tensor]| {
        let loss = net.loss(&b[0], &b[1])?;
        sgd.minimize(&loss)?;
        Ok(vec![loss])
    });
    for i in 25..35 {
        losses.push(step.call(&batch(&engine, i)?)?[0].item::<f32>()?);
    }
    // torch.optim.SGD from there on.
    all_close(
        "losses",
        &[losses[25], losses[34]],
        &[0.5076823, 0.4024698],
        1e-3,
    );
    let thawed = net.layers[1].weight.get().to_vec::<f32>()?;
    all_close(
        "the thawed layer",
        &thawed[..3],
        &[0.35793, 0.1869259, 0.08195902],
        1e-3,
    );
    let frozen = net.layers[0].weight.get().to_vec::<f32>()?;
    assert_eq!(
        frozen,
        file["layers.0.weight"].to_vec::<f32>()?,
        "the first layer"
    );
    println!(
        "finetune: the loss falls from {:.4} to {:.4}, the first layer is as it was",
        losses[0], losses[34]
    );
    Ok(())
}
