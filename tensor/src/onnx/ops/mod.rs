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

use super::call::{Call, Lowering, Table};
use super::error::Result;
use super::eval::Eval;
use super::graph::{Meaning, Node};
use super::value::Value;
use crate::graph::Engine;

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
    ("", select::OPS),
    ("", shape::OPS),
    ("", signal::OPS),
    ("", text::OPS),
    ("ai.onnx.ml", classic::OPS),
    ("ai.onnx.ml", trees::OPS),
    ("ai.onnx.preview.training", training::OPS),
    ("com.microsoft", fused::MICROSOFT),
    ("com.microsoft", quant::MICROSOFT),
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
}
