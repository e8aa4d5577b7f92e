//! The layers of the engine. doorbell.nn has a class for each.

use std::sync::Arc;

use doorbell::nn::conv::Channels;
use doorbell::nn::recurrent::Stack;
use doorbell::nn::{
    BatchNorm, Conv, ConvTranspose, Embedding, GroupNorm, Gru, InstanceNorm, LayerNorm, Linear,
    Lstm, Module, MultiHeadAttention, RmsNorm,
};
use doorbell::ops::attention::Attention;
use pyo3::prelude::*;

use crate::args::{Other, Sizes};
use crate::device::Place;
use crate::dtype::Kind;
use crate::error::{Done, wrong_type, wrong_value};
use crate::functions::PyRng;
use crate::options::{each, sliding};
use crate::value::{Leaf, PyTensor};

enum Kinds {
    Linear(Linear),
    Conv(Conv),
    ConvTranspose(ConvTranspose),
    Embedding(Embedding),
    LayerNorm(LayerNorm),
    GroupNorm(GroupNorm),
    InstanceNorm(InstanceNorm),
    RmsNorm(RmsNorm),
    BatchNorm(BatchNorm),
    Attention(MultiHeadAttention),
    Gru(Gru),
    Lstm(Lstm),
}

impl Kinds {
    fn module(&self) -> &dyn Module {
        match self {
            Kinds::Linear(one) => one,
            Kinds::Conv(one) => one,
            Kinds::ConvTranspose(one) => one,
            Kinds::Embedding(one) => one,
            Kinds::LayerNorm(one) => one,
            Kinds::GroupNorm(one) => one,
            Kinds::InstanceNorm(one) => one,
            Kinds::RmsNorm(one) => one,
            Kinds::BatchNorm(one) => one,
            Kinds::Attention(one) => one,
            Kinds::Gru(one) => one,
            Kinds::Lstm(one) => one,
        }
    }
}

/// A layer of the engine with its parameters.
#[pyclass(name = "Layer", module = "doorbell._native", frozen)]
pub(crate) struct PyLayer {
    kind: Kinds,
    leaves: Vec<(String, Arc<Leaf>)>,
}

impl PyLayer {
    fn of(kind: Kinds) -> PyLayer {
        let parameters = kind.module().parameters().into_iter();
        let leaves = parameters.map(|(name, parameter)| (name, Leaf::new(parameter)));
        PyLayer {
            leaves: leaves.collect(),
            kind,
        }
    }
}

#[pymethods]
impl PyLayer {
    #[staticmethod]
    fn linear(
        rng: &Bound<'_, PyRng>,
        inputs: usize,
        outputs: usize,
        bias: bool,
        dtype: Kind,
    ) -> Done<PyLayer> {
        let made = Linear::new(&mut rng.get().rng(), inputs, outputs, bias, dtype.0)?;
        Ok(PyLayer::of(Kinds::Linear(made)))
    }

    #[staticmethod]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn conv(
        rng: &Bound<'_, PyRng>,
        inputs: usize,
        outputs: usize,
        kernel: Vec<usize>,
        stride: Sizes,
        padding: Sizes,
        dilation: Sizes,
        groups: usize,
        bias: bool,
        dtype: Kind,
    ) -> Done<PyLayer> {
        let channels = Channels {
            groups,
            ..Channels::new(inputs, outputs)
        };
        let how = sliding(kernel.len(), Some(&stride), Some(&padding), Some(&dilation));
        let made = Conv::new(&mut rng.get().rng(), channels, &kernel, how, bias, dtype.0)?;
        Ok(PyLayer::of(Kinds::Conv(made)))
    }

    #[staticmethod]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn conv_transpose(
        rng: &Bound<'_, PyRng>,
        inputs: usize,
        outputs: usize,
        kernel: Vec<usize>,
        stride: Sizes,
        padding: Sizes,
        output_padding: Sizes,
        dilation: Sizes,
        groups: usize,
        bias: bool,
        dtype: Kind,
    ) -> Done<PyLayer> {
        let channels = Channels {
            groups,
            ..Channels::new(inputs, outputs)
        };
        let how = sliding(kernel.len(), Some(&stride), Some(&padding), Some(&dilation));
        let mut made =
            ConvTranspose::new(&mut rng.get().rng(), channels, &kernel, how, bias, dtype.0)?;
        made.output_padding = each(Some(&output_padding), kernel.len());
        Ok(PyLayer::of(Kinds::ConvTranspose(made)))
    }

    #[staticmethod]
    fn embedding(
        rng: &Bound<'_, PyRng>,
        entries: usize,
        width: usize,
        dtype: Kind,
    ) -> Done<PyLayer> {
        let made = Embedding::new(&mut rng.get().rng(), entries, width, dtype.0)?;
        Ok(PyLayer::of(Kinds::Embedding(made)))
    }

    #[staticmethod]
    fn layer_norm(shape: Sizes, eps: f64, dtype: Kind, device: Place) -> Done<PyLayer> {
        let made = LayerNorm::new(&device.0, &shape.0, eps, dtype.0)?;
        Ok(PyLayer::of(Kinds::LayerNorm(made)))
    }

    #[staticmethod]
    fn group_norm(
        groups: usize,
        channels: usize,
        eps: f64,
        dtype: Kind,
        device: Place,
    ) -> Done<PyLayer> {
        let made = GroupNorm::new(&device.0, groups, channels, eps, dtype.0)?;
        Ok(PyLayer::of(Kinds::GroupNorm(made)))
    }

    #[staticmethod]
    fn instance_norm(channels: usize, eps: f64, dtype: Kind, device: Place) -> Done<PyLayer> {
        let made = InstanceNorm::new(&device.0, channels, eps, dtype.0)?;
        Ok(PyLayer::of(Kinds::InstanceNorm(made)))
    }

    #[staticmethod]
    fn rms_norm(width: usize, eps: f64, dtype: Kind, device: Place) -> Done<PyLayer> {
        let made = RmsNorm::new(&device.0, width, eps, dtype.0)?;
        Ok(PyLayer::of(Kinds::RmsNorm(made)))
    }

    #[staticmethod]
    fn batch_norm(
        channels: usize,
        eps: f64,
        momentum: f64,
        dtype: Kind,
        device: Place,
    ) -> Done<PyLayer> {
        let made = BatchNorm {
            eps,
            momentum,
            ..BatchNorm::new(&device.0, channels, dtype.0)?
        };
        Ok(PyLayer::of(Kinds::BatchNorm(made)))
    }

    #[staticmethod]
    fn attention(
        rng: &Bound<'_, PyRng>,
        width: usize,
        heads: usize,
        kv_heads: usize,
        bias: bool,
        dtype: Kind,
    ) -> Done<PyLayer> {
        let made =
            MultiHeadAttention::new(&mut rng.get().rng(), width, heads, kv_heads, bias, dtype.0)?;
        Ok(PyLayer::of(Kinds::Attention(made)))
    }

    /// A recurrent network: "gru" or "lstm".
    #[staticmethod]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn recurrent(
        kind: &str,
        rng: &Bound<'_, PyRng>,
        inputs: usize,
        hidden: usize,
        layers: usize,
        bias: bool,
        batch_first: bool,
        bidirectional: bool,
        dtype: Kind,
    ) -> Done<PyLayer> {
        let of = Stack {
            layers,
            bias,
            batch_first,
            bidirectional,
            ..Stack::new(inputs, hidden)
        };
        let mut rng = rng.get().rng();
        Ok(PyLayer::of(match kind {
            "gru" => Kinds::Gru(Gru::new(&mut rng, of, dtype.0)?),
            "lstm" => Kinds::Lstm(Lstm::new(&mut rng, of, dtype.0)?),
            _ => return Err(wrong_value(format!("no recurrent layer {kind:?}")).into()),
        }))
    }

    /// Parameters and running statistics by name, as PyTorch has them.
    fn parameters(&self) -> Vec<(String, PyTensor)> {
        let all = self.leaves.iter();
        all.map(|(name, leaf)| (name.clone(), PyTensor::cell(leaf.clone())))
            .collect()
    }

    /// The result for one tensor. `training` is for batch normalization alone.
    #[pyo3(signature = (x, training=false))]
    fn forward(&self, x: &Bound<'_, PyTensor>, training: bool) -> Done<PyTensor> {
        let x = x.get().value();
        let found = match &self.kind {
            Kinds::Linear(one) => one.forward(&x)?,
            Kinds::Conv(one) => one.forward(&x)?,
            Kinds::ConvTranspose(one) => one.forward(&x)?,
            Kinds::Embedding(one) => one.forward(&x)?,
            Kinds::LayerNorm(one) => one.forward(&x)?,
            Kinds::GroupNorm(one) => one.forward(&x)?,
            Kinds::InstanceNorm(one) => one.forward(&x)?,
            Kinds::RmsNorm(one) => one.forward(&x)?,
            Kinds::BatchNorm(one) => one.forward(&x, training)?,
            Kinds::Attention(_) | Kinds::Gru(_) | Kinds::Lstm(_) => {
                return Err(wrong_type("forward: expected attend or recur".into()).into());
            }
        };
        Ok(PyTensor::of(found))
    }

    /// Attention of queries over keys and values.
    #[pyo3(signature = (query, key, value, mask=None, causal=false))]
    fn attend(
        &self,
        py: Python<'_>,
        query: &Bound<'_, PyTensor>,
        key: &Bound<'_, PyTensor>,
        value: &Bound<'_, PyTensor>,
        mask: Option<Other>,
        causal: bool,
    ) -> Done<PyTensor> {
        let Kinds::Attention(one) = &self.kind else {
            return Err(wrong_type("attend: expected an attention layer".into()).into());
        };
        let query = query.get().value();
        let options = Attention {
            mask: mask.map(|mask| mask.tensor(py, &query)).transpose()?,
            causal,
            ..Attention::default()
        };
        let found = one.forward(&query, &key.get().value(), &value.get().value(), &options)?;
        Ok(PyTensor::of(found))
    }

    /// The outputs of all steps of a recurrent network, and its last states: one, or two of an LSTM.
    #[pyo3(signature = (x, first=None))]
    fn recur(
        &self,
        x: &Bound<'_, PyTensor>,
        first: Option<Vec<Bound<'_, PyTensor>>>,
    ) -> Done<(PyTensor, Vec<PyTensor>)> {
        let x = x.get().value();
        let first: Vec<_> = first
            .unwrap_or_default()
            .iter()
            .map(|state| state.get().value())
            .collect();
        match (&self.kind, first.as_slice()) {
            (Kinds::Gru(one), [] | [_]) => {
                let (all, last) = one.forward(&x, first.first())?;
                Ok((PyTensor::of(all), vec![PyTensor::of(last)]))
            }
            (Kinds::Lstm(one), []) => {
                let (all, (h, c)) = one.forward(&x, None)?;
                Ok((PyTensor::of(all), vec![PyTensor::of(h), PyTensor::of(c)]))
            }
            (Kinds::Lstm(one), [h, c]) => {
                let (all, (h, c)) = one.forward(&x, Some((h, c)))?;
                Ok((PyTensor::of(all), vec![PyTensor::of(h), PyTensor::of(c)]))
            }
            _ => Err(wrong_value(format!(
                "first: {} states; a GRU has one, an LSTM two",
                first.len()
            ))
            .into()),
        }
    }
}
