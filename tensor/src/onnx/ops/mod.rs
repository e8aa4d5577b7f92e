//! What each operator means: one function that builds tensors from the inputs of a node.
//!
//! A module holds the operators of one kind and a table of their names. An operator whose meaning
//! changed between versions asks [`Call::opset`]. What is not in a table is unsupported, which the
//! loader reports before anything runs; a form of an operator that is not there (a type, a mode) is
//! a fault of kind `unsupported`.

mod attention;
mod blocks;
mod branch;
mod classic;
mod container;
mod control;
mod convert;
mod exported;
mod forest;
mod fused;
mod group_query;
mod heads;
mod image;
mod index;
mod layout;
mod loss;
mod math;
mod nn;
mod norm;
mod packed;
mod qlinear;
mod quant;
mod quantised_lstm;
mod random;
mod recurrent;
mod reduce;
mod region;
mod resize;
mod sample;
mod select;
mod shape;
mod signal;
mod stateful;
mod text;
mod traced;
mod training;
mod trees;

use std::collections::HashMap;
use std::sync::OnceLock;

use super::call::{Call, Lowering, Table};
use super::error::Result;
use super::eval::Eval;
use super::graph::{Meaning, Node};
use super::value::Value;
use crate::graph::Engine;

const TABLES: &[(&str, Table)] = &[
    ("", attention::OPS),
    ("", branch::OPS),
    ("", container::OPS),
    ("", control::OPS),
    ("", convert::OPS),
    ("", fused::OPS),
    ("", image::OPS),
    ("", index::OPS),
    ("", loss::OPS),
    ("", math::OPS),
    ("", nn::OPS),
    ("", norm::OPS),
    ("", quant::OPS),
    ("", random::OPS),
    ("", recurrent::OPS),
    ("", reduce::OPS),
    ("", region::OPS),
    ("", resize::OPS),
    ("", select::OPS),
    ("", shape::OPS),
    ("", signal::OPS),
    ("", stateful::OPS),
    ("", text::OPS),
    ("ai.onnx.ml", classic::OPS),
    ("ai.onnx.ml", trees::OPS),
    ("ai.onnx.preview.training", training::OPS),
    ("ai.onnx.preview", stateful::PREVIEW),
    ("com.microsoft", blocks::OPS),
    ("com.microsoft", exported::OPS),
    ("com.microsoft", fused::MICROSOFT),
    ("com.microsoft", group_query::OPS),
    ("com.microsoft", heads::OPS),
    ("com.microsoft", layout::MICROSOFT),
    ("com.microsoft", packed::OPS),
    ("com.microsoft", qlinear::OPS),
    ("com.microsoft", stateful::MICROSOFT),
    ("com.microsoft", quant::MICROSOFT),
    ("com.microsoft", quantised_lstm::OPS),
    ("com.microsoft.nchwc", layout::BLOCKED),
    ("com.ms.internal.nhwc", layout::CHANNELS_LAST),
    ("com.ms.internal.nhwc", qlinear::CHANNELS_LAST),
];

fn rows() -> impl Iterator<Item = ((&'static str, &'static str), Lowering)> {
    TABLES.iter().flat_map(|&(domain, table)| {
        let rows = table.iter();
        rows.map(move |&(name, lowering)| ((domain, name), lowering))
    })
}

/// The meaning of an operator, if there is one.
pub(super) fn find(domain: &str, op: &str) -> Option<Meaning> {
    static ALL: OnceLock<HashMap<(&'static str, &'static str), Meaning>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let names = rows().enumerate().map(|(i, (name, _))| (name, Meaning(i)));
        names.collect()
    });
    all.get(&(domain, op)).copied()
}

/// The values of the outputs of a node.
pub(super) fn lower(
    eval: &mut Eval<'_>,
    node: &Node,
    inputs: &[Option<Value>],
    engine: Engine,
) -> Result<Vec<Value>> {
    static ALL: OnceLock<Vec<Lowering>> = OnceLock::new();
    let all = ALL.get_or_init(|| rows().map(|(_, lowering)| lowering).collect());
    let mut call = Call {
        eval,
        node,
        inputs,
        engine,
    };
    // PANIC: `find` gives rows of this table only.
    all[node.meaning.0](&mut call)
}

/// Every operator that has a meaning, as domain and name.
pub(super) fn known() -> impl Iterator<Item = (&'static str, &'static str)> {
    rows().map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_operator_is_there_twice() {
        let names: HashSet<_> = known().collect();
        assert_eq!(names.len(), known().count());
    }

    /// The operators that ONNX Runtime 1.31.1 has in the domains that its tools write, as it lists them
    /// itself (`get_all_operator_schema`).
    const RUNTIME: &[(&str, &str)] = &[
        (
            "com.microsoft",
            "Attention AttnLSTM BeamSearch BiasAdd BiasDropout BiasGelu BiasSoftmax BiasSplitGelu \
         BifurcationDetector BitmaskBiasDropout BitmaskDropout BranchwiseRMSNorm CDist \
         CausalConvWithState ComplexMul ComplexMulConj ConvTransposeWithDynamicPads CropAndResize \
         DecoderAttention DecoderMaskedMultiHeadAttention DecoderMaskedSelfAttention \
         DequantizeBFP DequantizeLinear DequantizeWithOrder DynamicQuantizeLSTM \
         DynamicQuantizeMatMul DynamicSparseAttention DynamicTimeWarping EPContext \
         EmbedLayerNormalization EngramGate ExpandDims FastGelu FusedConv FusedGemm FusedMatMul \
         FusedMatMulActivation GatedAdd GatedDeltaNet GatedRMSNorm GatedRelativePositionBias \
         GatherBlockQuantized GatherND Gelu GemmFastGelu GemmFloat8 GemmaRotaryEmbedding \
         GreedySearch GridSample GroupNorm GroupQueryAttention HyperConnectionPostMix \
         HyperConnectionPreMix Inverse Irfft IsAllFinite LinearAttention LinearAttentionGate \
         LongformerAttention MRotaryEmbedding MatMulBlockQuantizedFp4Weight \
         MatMulBlockQuantizedFp8Weight MatMulBnb4 MatMulFpQ4 MatMulInteger16 MatMulIntegerToFloat \
         MatMulNBits MatMulNBitsMlp MatMulNBitsQkv MaxpoolWithMask MoE MulInteger \
         MultiHeadAttention MurmurHash3 NGramHashMapping NGramRepeatBlock NhwcConv NhwcFusedConv \
         NhwcMaxPool PackedAttention PackedMultiHeadAttention PackedSparseAttentionIndexer Pad \
         PagedAttention QAttention QEmbedLayerNormalization QGemm QLinearAdd QLinearAveragePool \
         QLinearConcat QLinearConv QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul \
         QLinearReduceMean QLinearSigmoid QLinearSoftmax QLinearWhere QMoE QOrderedAttention \
         QOrderedGelu QOrderedLayerNormalization QOrderedLongformerAttention QOrderedMatMul \
         QuantizeBFP QuantizeLinear QuantizeWithOrder QuickGelu Range ReduceSumInteger \
         RelativePositionBias RemovePadding RestorePadding Rfft RotaryEmbedding SampleOp Sampling \
         ScaledSiLU SkipGroupNorm SkipLayerNormalization SkipSimplifiedLayerNormalization Snpe \
         SparseAttention SparseAttentionIndexer SparsePagedAttention SparseToDenseMatMul \
         Tokenizer TorchEmbedding TransposeMatMul Trilu UnfoldTensor Unique \
         VarlenCausalConvWithState VarlenNGramHashMapping WhisperBeamSearch WordConvEmbedding",
        ),
        (
            "com.microsoft.nchwc",
            "AveragePool Conv GlobalAveragePool GlobalMaxPool MaxPool ReorderInput ReorderOutput \
         Upsample",
        ),
        (
            "com.ms.internal.nhwc",
            "AveragePool BatchNormalization Conv ConvTranspose DepthToSpace GlobalAveragePool \
         GlobalLpPool GlobalMaxPool GridSample InstanceNormalization LRN LpPool MaxPool MaxUnpool \
         QLinearAveragePool QLinearConv QLinearConvTranspose Resize SpaceToDepth",
        ),
    ];

    /// The names in the first column of the table of `doorbell help models`, with their domains.
    fn listed() -> HashSet<String> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/cli/help/models.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (_, part) = text.split_once("## Operators of ONNX Runtime").unwrap();
        let part = part.split("\n#").next().unwrap();
        let rows = part.lines().filter_map(|line| line.strip_prefix("| `"));
        let names = rows.flat_map(|row| row.split(" | ").next().unwrap().split('`').step_by(2));
        names
            .filter(|name| !name.is_empty())
            .map(|name| match name.contains('.') {
                true => name.to_string(),
                false => format!("com.microsoft.{name}"),
            })
            .collect()
    }

    #[test]
    fn the_page_lists_what_is_missing() {
        let have: HashSet<_> = known().map(|(d, op)| format!("{d}.{op}")).collect();
        let all = RUNTIME.iter().flat_map(|(domain, names)| {
            names.split(' ').map(move |name| format!("{domain}.{name}"))
        });
        let missing: HashSet<String> = all.filter(|name| !have.contains(name)).collect();
        assert_eq!(listed(), missing);
    }
}
