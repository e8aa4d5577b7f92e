//! A block of layer norm and causal attention with a residual, trained by SGD with momentum, which is saved
//! with its momentum and loaded into a second block in the middle.

use doorbell::nn::{
    LayerNorm, Linear, Module, MultiHeadAttention, Optimizer, Sgd, commit, part, state,
};
use doorbell::ops::attention::Attention;
use doorbell::ops::loss::Classes;
use doorbell::{DType, Engine, Jit, Parameter, Result, Rng, Tensor};

use super::check::{close, size, wave};

struct Block {
    norm: LayerNorm,
    attention: MultiHeadAttention,
    head: Linear,
}

impl Block {
    fn new(engine: &Engine, seed: u64) -> Result<Block> {
        let mut rng = Rng::new(engine, seed);
        Ok(Block {
            norm: LayerNorm::new(engine, &[8], 1e-5, DType::F32)?,
            attention: MultiHeadAttention::new(&mut rng, 8, 2, 2, true, DType::F32)?,
            head: Linear::new(&mut rng, 8, 3, false, DType::F32)?,
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let options = Attention {
            causal: true,
            ..Attention::default()
        };
        let n = self.norm.forward(x)?;
        let seen = self.attention.forward(&n, &n, &n, &options)?;
        Ok(self.head.forward(&x.add(seen)?.mean(&[1], false)?)?)
    }
}

impl Module for Block {
    fn parameters(&self) -> Vec<(String, Parameter)> {
        let mut all = part("norm", &self.norm);
        all.extend(part("attention", &self.attention));
        all.extend(part("head", &self.head));
        all
    }
}

/// Trains over some steps; the losses.
fn train(
    engine: &Engine,
    block: &Block,
    sgd: &mut Sgd,
    steps: std::ops::Range<i32>,
) -> Result<Vec<f32>> {
    let step = Jit::new(engine, |batch: &[Tensor]| {
        let loss = block
            .forward(&batch[0])?
            .cross_entropy(&batch[1], &Classes::default())?;
        sgd.minimize(&loss)?;
        Ok(vec![loss])
    });
    let mut losses = Vec::new();
    for k in steps {
        let x = wave(engine, &[4, 5, 8], 0.61 + 0.005 * f64::from(k), 1.0)?;
        let t = Tensor::new(engine, [0, 1, 2, 3].map(|i| (i + k) % 3))?;
        losses.push(step.call(&[x, t])?[0].item()?);
    }
    Ok(losses)
}

pub fn run() -> Result<()> {
    let engine = doorbell::open()?;
    let one = Block::new(&engine, 1)?;
    let projections = [
        &one.attention.q_proj,
        &one.attention.k_proj,
        &one.attention.v_proj,
        &one.attention.out_proj,
    ];
    for (j, projection) in projections.into_iter().enumerate() {
        let j = j as f64;
        projection
            .weight
            .set(wave(&engine, &[8, 8], 1.1 + 0.3 * j, 0.3)?)?;
        if let Some(bias) = &projection.bias {
            bias.set(wave(&engine, &[8], 0.6 + 0.2 * j, 0.05)?)?;
        }
    }
    one.head.weight.set(wave(&engine, &[3, 8], 2.7, 0.4)?)?;

    let mut sgd = Sgd::new(one.trainable(), 0.1, 0.9, false, 0.0)?;
    let mut losses = train(&engine, &one, &mut sgd, 0..14)?;

    // Weights go by their names; those of an optimizer are not named, so their order is the name.
    let folder = std::env::temp_dir();
    let file = |what: &str| {
        folder.join(format!(
            "doorbell-{what}-{}.safetensors",
            std::process::id()
        ))
    };
    let (weights, moments) = (file("block"), file("momentum"));
    state::save(&one, &weights)?;
    let named = sgd.state().into_iter().enumerate();
    state::save_tensors(named.map(|(i, p)| (i.to_string(), p.get())), &moments)?;
    let two = Block::new(&engine, 2)?;
    state::load(&two, &weights)?;
    let mut second = Sgd::new(two.trainable(), 0.1, 0.9, false, 0.0)?;
    let loaded = state::load_tensors(&engine, &moments)?;
    for (i, p) in second.state().iter().enumerate() {
        p.set(loaded[&i.to_string()].clone())?;
    }
    commit(second.state())?;
    std::fs::remove_file(weights)?;
    std::fs::remove_file(moments)?;

    let before = size(&one.head.weight.get())?;
    losses.extend(train(&engine, &two, &mut second, 14..30)?);
    assert_eq!(
        before,
        size(&one.head.weight.get())?,
        "the first block stays as it is"
    );
    // layer_norm, scaled_dot_product_attention(is_causal=True), torch.optim.SGD(lr=0.1, momentum=0.9).
    let some = [losses[0], losses[1], losses[14], losses[29]];
    close(
        "losses 0, 1, 14, 29",
        &some,
        &[1.108485, 1.101483, 1.227781, 1.141812],
    );
    let sizes = [
        size(&two.attention.q_proj.weight.get())?,
        size(&two.attention.out_proj.weight.get())?,
        two.norm.weight.get().sum(&[], false)?.item()?,
        size(&two.head.weight.get())?,
    ];
    close("weights", &sizes, &[12.28207, 10.18987, 7.536132, 4.399253]);
    println!(
        "attention: loss {:.4} to {:.4}, saved and loaded at step 14",
        losses[0], losses[29]
    );
    Ok(())
}
