//! What each operator means: one function that builds tensors from the inputs of a node.
//!
//! A module holds the operators of one kind and a table of their names. An operator whose meaning
//! changed between versions asks [`Call::opset`]. What is not in a table is unsupported, which the
//! loader reports before anything runs; a form of an operator that is not there (a type, a mode) is
//! a fault of kind `unsupported`.

mod attention;
mod classic;
mod container;
mod control;
mod convert;
mod fused;
mod image;
mod index;
mod loss;
mod math;
mod nn;
mod norm;
mod quant;
mod random;
mod recurrent;
mod reduce;
mod region;
mod resize;
mod sample;
mod select;
mod shape;
mod signal;
mod text;
mod training;
mod trees;

use std::collections::HashMap;
use std::sync::OnceLock;

use super::call::Call;
use super::error::Result;
use super::value::Value;

/// The meaning of an operator.
pub(super) type Lowering = fn(&mut Call<'_, '_>) -> Result<Vec<Value>>;

/// Names of one domain, with meanings.
type Table = &'static [(&'static str, Lowering)];

const TABLES: &[(&str, Table)] = &[
    ("", attention::OPS),
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
    ("", shape::OPS),
    ("", signal::OPS),
    ("", text::OPS),
    ("ai.onnx.ml", classic::OPS),
    ("ai.onnx.ml", trees::OPS),
    ("ai.onnx.preview.training", training::OPS),
    ("com.microsoft", fused::MICROSOFT),
    ("com.microsoft", quant::MICROSOFT),
];

fn table() -> &'static HashMap<(&'static str, &'static str), Lowering> {
    static ALL: OnceLock<HashMap<(&'static str, &'static str), Lowering>> = OnceLock::new();
    ALL.get_or_init(|| {
        let rows = TABLES.iter().flat_map(|&(domain, table)| {
            let rows = table.iter();
            rows.map(move |&(name, lowering)| ((domain, name), lowering))
        });
        rows.collect()
    })
}

/// The meaning of an operator, if there is one.
pub(super) fn find(domain: &str, op: &str) -> Option<Lowering> {
    table().get(&(domain, op)).copied()
}

/// Every operator that has a meaning, as domain and name.
pub(super) fn known() -> impl Iterator<Item = (&'static str, &'static str)> {
    table().keys().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_operator_is_there_twice() {
        let rows: usize = TABLES.iter().map(|(_, table)| table.len()).sum();
        assert_eq!(known().count(), rows);
    }
}
