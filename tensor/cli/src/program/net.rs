//! The net of the demonstration: two convolutions, a pooling, one linear layer; 8x8 pixels in, the
//! logits of ten digits out.

use tensor::nn::conv::{Channels, Conv};
use tensor::nn::linear::Linear;
use tensor::nn::{Module, Parameter, part};
use tensor::onnx::Dim;
use tensor::onnx::write::{self, Writer};
use tensor::ops::conv::ConvParams;
use tensor::ops::loss::Classes;
use tensor::{DType, Engine, Result, Rng, Tensor};

use crate::program::digits::Set;

/// The layers.
pub struct Net {
    first: Conv,
    second: Conv,
    last: Linear,
}

impl Net {
    /// Random weights from a seed.
    pub fn new(engine: &Engine, seed: u64) -> Result<Net> {
        let mut rng = Rng::new(engine, seed);
        let same = || ConvParams::default().padded(1, 2);
        let mut conv = |inputs, outputs| {
            Conv::new(
                &mut rng,
                Channels::new(inputs, outputs),
                &[3, 3],
                same(),
                true,
                DType::F32,
            )
        };
        let (first, second) = (conv(1, 16)?, conv(16, 32)?);
        Ok(Net {
            first,
            second,
            last: Linear::new(&mut rng, 32 * 4 * 4, 10, true, DType::F32)?,
        })
    }

    /// `[n, 1, 8, 8]` to `[n, 10]`.
    pub fn logits(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.first.forward(x)?.relu()?;
        let x = self.second.forward(&x)?.relu()?;
        let x = x.max_pool(&[2, 2], &ConvParams::default(), false)?;
        self.last.forward(&x.flatten(1, -1)?)
    }

    /// The net as an ONNX model, from `image [n, 1, 8, 8]` to `logits [n, 10]`.
    pub fn to_onnx(&self) -> Result<Vec<u8>> {
        let sizes = |rest: &[usize]| {
            let rest = rest.iter().map(|&n| Dim::Fixed(n));
            let dims: Vec<Dim> = [Dim::Named("n".into())].into_iter().chain(rest).collect();
            write::tensor(DType::F32, &dims)
        };
        let mut model = Writer::new("digits", 17);
        model.input("image", &sizes(&[1, 8, 8]));
        for (name, parameter) in self.parameters() {
            model.constant(&name, &parameter.get())?;
        }
        let same = || [write::ints("pads", &[1, 1, 1, 1])];
        model.node(
            "Conv",
            &["image", "first.weight", "first.bias"],
            &["a"],
            same(),
        );
        model.node("Relu", &["a"], &["b"], []);
        model.node(
            "Conv",
            &["b", "second.weight", "second.bias"],
            &["c"],
            same(),
        );
        model.node("Relu", &["c"], &["d"], []);
        let halves = [
            write::ints("kernel_shape", &[2, 2]),
            write::ints("strides", &[2, 2]),
        ];
        model.node("MaxPool", &["d"], &["e"], halves);
        model.node("Flatten", &["e"], &["f"], []);
        let transposed = [write::int("transB", 1)];
        model.node(
            "Gemm",
            &["f", "last.weight", "last.bias"],
            &["logits"],
            transposed,
        );
        model.output("logits", &sizes(&[10]));
        Ok(model.finish())
    }

    /// Mean cross entropy of images `[n, 1, 8, 8]` with their labels `[n]`.
    pub fn loss(&self, x: &Tensor, labels: &Tensor) -> Result<Tensor> {
        self.logits(x)?.cross_entropy(labels, &Classes::default())
    }

    /// What the net takes each image for.
    pub fn read(&self, engine: &Engine, set: &Set) -> Result<Vec<i32>> {
        let x = Tensor::from_slice(engine, &set.images, &[set.len(), 1, 8, 8])?;
        self.logits(&x)?
            .argmax(1, false)?
            .cast(DType::I32)?
            .to_vec()
    }
}

impl Module for Net {
    fn parameters(&self) -> Vec<(String, Parameter)> {
        [
            part("first", &self.first),
            part("second", &self.second),
            part("last", &self.last),
        ]
        .concat()
    }
}
