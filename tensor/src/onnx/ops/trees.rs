//! Ensembles of decision trees, as the formats write them.

use std::collections::HashMap;
use std::sync::Arc;

use codegen::DType;

use super::classic::{classes, classified, features, transformed};
use super::forest::{Aggregate, Trees};
use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, one};
use crate::onnx::data::Literal;
use crate::onnx::error::{Result, unsupported, wrong};
use crate::onnx::value::Value;

pub(super) const OPS: Table = &[
    ("TreeEnsemble", ensemble),
    ("TreeEnsembleClassifier", classifier),
    ("TreeEnsembleRegressor", regressor),
];

/// The numbers of a tensor attribute.
fn numbers(c: &mut Call, name: &str, literal: Option<Arc<Literal>>) -> Result<Option<Vec<f64>>> {
    let Some(literal) = literal else {
        return Ok(None);
    };
    let host = c.eval.known_bool(true, &[])?.engine().clone();
    match Value::of(&literal, &host).as_tensor() {
        Some(tensor) => c.read_floats(tensor).map(Some),
        None => wrong(format!("expected numbers as attribute {name}")),
    }
}

fn tensor_numbers(c: &mut Call, name: &str) -> Result<Option<Vec<f64>>> {
    let literal = c.attr_tensor(name)?;
    numbers(c, name, literal)
}

/// A list in an attribute, or as a tensor in another.
fn either(c: &mut Call, name: &str) -> Result<Option<Vec<f64>>> {
    match c.attr_floats(name)?.filter(|list| !list.is_empty()) {
        Some(list) => Ok(Some(list)),
        None => tensor_numbers(c, &format!("{name}_as_tensor")),
    }
}

/// A list of integers that must be there, of a length if one is given.
fn list(c: &Call, name: &str, len: Option<usize>) -> Result<Vec<i64>> {
    let found = c.attr_ints(name)?;
    let found = c.needed(name, found)?;
    match len {
        Some(len) if found.len() != len => wrong(format!(
            "expected {len} numbers in {name}, found {}",
            found.len()
        )),
        _ => Ok(found),
    }
}

/// Which nodes take the true way when the feature is missing.
fn tracks(c: &Call, count: usize) -> Result<Vec<bool>> {
    let name = "nodes_missing_value_tracks_true";
    match c.attr_ints(name)?.filter(|found| !found.is_empty()) {
        Some(found) if found.len() == count => Ok(found.iter().map(|&n| n != 0).collect()),
        Some(found) => wrong(format!(
            "expected {count} numbers in {name}, found {}",
            found.len()
        )),
        None => Ok(vec![false; count]),
    }
}

fn targets(c: &Call) -> Result<usize> {
    match usize::try_from(c.int_or("n_targets", 1)?) {
        Ok(n) if n > 0 => Ok(n),
        _ => wrong("expected attribute n_targets of at least 1"),
    }
}

fn ensemble(c: &mut Call) -> Result<Vec<Value>> {
    let dtype = c.tensor(0)?.dtype();
    let x = features(c)?;
    let (values, modes) = (
        tensor_numbers(c, "nodes_splits")?,
        tensor_numbers(c, "nodes_modes")?,
    );
    let (values, modes) = (
        c.needed("nodes_splits", values)?,
        c.needed("nodes_modes", modes)?,
    );
    let weights = tensor_numbers(c, "leaf_weights")?;
    let weights = c.needed("leaf_weights", weights)?;
    let n = modes.len();
    if values.len() != n {
        return wrong(format!("expected {n} nodes_splits, found {}", values.len()));
    }
    let goal = list(c, "leaf_targetids", Some(weights.len()))?;
    let branch = |ids: &str, leaf: &str| -> Result<Vec<i64>> {
        let (ids, leaf) = (list(c, ids, Some(n))?, list(c, leaf, Some(n))?);
        let to = ids.iter().zip(leaf).map(|(&id, leaf)| {
            let (first, len) = if leaf != 0 {
                (n, weights.len())
            } else {
                (0, n)
            };
            match usize::try_from(id) {
                Ok(id) if id < len => Ok((first + id) as i64),
                _ => wrong(format!(
                    "expected branches to one of {len} nodes, found {id}"
                )),
            }
        });
        to.collect()
    };
    let mut trees = Trees {
        yes: branch("nodes_truenodeids", "nodes_trueleafs")?,
        no: branch("nodes_falsenodeids", "nodes_falseleafs")?,
        features: list(c, "nodes_featureids", Some(n))?,
        modes: modes.iter().map(|&m| m as i64).collect(),
        values,
        missing: tracks(c, n)?,
        roots: list(c, "tree_roots", None)?,
        inner: n,
        ..Trees::default()
    };
    if let Some(bad) = trees.roots.iter().find(|&&r| !(0..n as i64).contains(&r)) {
        return wrong(format!("expected roots among {n} nodes, found {bad}"));
    }
    trees.add_leaves(weights.len());
    let members = tensor_numbers(c, "membership_values")?.unwrap_or_default();
    // Each set ends with a NaN, also the last one.
    let mut sets = members.split(|m| m.is_nan()).map(<[f64]>::to_vec);
    let count = members.iter().filter(|m| m.is_nan()).count();
    trees.members = sets.by_ref().take(count).collect();
    for (leaf, (&target, &weight)) in goal.iter().zip(&weights).enumerate() {
        let target = usize::try_from(target).unwrap_or(usize::MAX);
        trees.votes.push((leaf, target, weight));
    }
    let aggregate = match c.int_or("aggregate_function", 1)? {
        0 => Aggregate::Average,
        1 => Aggregate::Sum,
        2 => Aggregate::Min,
        3 => Aggregate::Max,
        n => return wrong(format!("expected aggregate_function 0 to 3, found {n}")),
    };
    let how = match c.int_or("post_transform", 0)? {
        0 => "NONE",
        1 => "SOFTMAX",
        2 => "LOGISTIC",
        3 => "SOFTMAX_ZERO",
        4 => "PROBIT",
        n => return wrong(format!("expected post_transform 0 to 4, found {n}")),
    };
    let scores = trees.scores(&x, targets(c)?, aggregate)?;
    one(transformed(c, scores, how)?.cast(dtype)?)
}

/// Trees as the older operators have them: leaves are nodes, and votes lie beside them.
fn older(c: &mut Call, kind: &str) -> Result<Trees> {
    let ids = list(c, "nodes_nodeids", None)?;
    let n = Some(ids.len());
    let (trees_of, features) = (
        list(c, "nodes_treeids", n)?,
        list(c, "nodes_featureids", n)?,
    );
    let (yes, no) = (
        list(c, "nodes_truenodeids", n)?,
        list(c, "nodes_falsenodeids", n)?,
    );
    let values = either(c, "nodes_values")?;
    let values = c.needed("nodes_values", values)?;
    let missing = tracks(c, ids.len())?;
    let modes = c.attr_strs("nodes_modes")?;
    let modes = c.needed("nodes_modes", modes)?;
    if values.len() != ids.len() || modes.len() != ids.len() {
        return wrong(format!(
            "expected {} nodes_values and nodes_modes, found {} and {}",
            ids.len(),
            values.len(),
            modes.len()
        ));
    }
    let names = [
        "BRANCH_LEQ",
        "BRANCH_LT",
        "BRANCH_GTE",
        "BRANCH_GT",
        "BRANCH_EQ",
        "BRANCH_NEQ",
    ];
    // Inner nodes first, then leaves, each in their order.
    let is_leaf = |i: usize| modes[i] == "LEAF";
    let inner = (0..ids.len()).filter(|&i| !is_leaf(i)).count();
    let (mut branches, mut leaves) = (0, inner);
    let mut number = Vec::with_capacity(ids.len());
    let mut named: HashMap<(i64, i64), usize> = HashMap::new();
    for i in 0..ids.len() {
        let next = if is_leaf(i) {
            &mut leaves
        } else {
            &mut branches
        };
        if named.insert((trees_of[i], ids[i]), *next).is_some() {
            return wrong(format!(
                "node {} of tree {} is defined twice",
                ids[i], trees_of[i]
            ));
        }
        number.push(*next);
        *next += 1;
    }
    let mut trees = Trees {
        inner,
        ..Trees::default()
    };
    let mut used = vec![false; ids.len()];
    for i in (0..ids.len()).filter(|&i| !is_leaf(i)) {
        let Some(mode) = names.iter().position(|name| *name == modes[i]) else {
            return wrong(format!(
                "expected nodes_modes of {} or LEAF, found {}",
                names.join(", "),
                crate::io::Quoted::new(&modes[i])
            ));
        };
        trees.modes.push(mode as i64);
        trees.features.push(features[i]);
        trees.values.push(values[i]);
        trees.missing.push(missing[i]);
        for (id, list) in [(yes[i], &mut trees.yes), (no[i], &mut trees.no)] {
            let Some(&to) = named.get(&(trees_of[i], id)) else {
                return wrong(format!("expected a node {id} in tree {}", trees_of[i]));
            };
            used[to] = true;
            list.push(to as i64);
        }
    }
    trees.add_leaves(ids.len() - inner);
    let roots = number.iter().filter(|&&n| !used[n]);
    trees.roots = roots.map(|&n| n as i64).collect();
    // Votes.
    let name = |what: &str| format!("{kind}_{what}");
    let weights = either(c, &name("weights"))?;
    let weights = c.needed(&name("weights"), weights)?;
    let n = Some(weights.len());
    let (of, at) = (list(c, &name("treeids"), n)?, list(c, &name("nodeids"), n)?);
    let goals = list(c, &name("ids"), n)?;
    for i in 0..weights.len() {
        match named.get(&(of[i], at[i])) {
            Some(&node) if node >= inner => {
                let target = usize::try_from(goals[i]).unwrap_or(usize::MAX);
                trees.votes.push((node - inner, target, weights[i]));
            }
            _ => return wrong(format!("expected a leaf {} in tree {}", at[i], of[i])),
        }
    }
    Ok(trees)
}

/// Adds what each target starts with.
fn based(c: &mut Call, scores: Tensor) -> Result<Tensor> {
    let Some(base) = either(c, "base_values")? else {
        return Ok(scores);
    };
    if base.len() != scores.shape()[1] {
        return wrong(format!(
            "expected {} base_values, found {}",
            scores.shape()[1],
            base.len()
        ));
    }
    let base = Tensor::from_slice(scores.engine(), &base, &[base.len()])?;
    Ok(scores.add(&base.cast(scores.dtype())?)?)
}

fn regressor(c: &mut Call) -> Result<Vec<Value>> {
    let x = features(c)?;
    let trees = older(c, "target")?;
    let aggregate = match c.str_or("aggregate_function", "SUM")? {
        "AVERAGE" => Aggregate::Average,
        "SUM" => Aggregate::Sum,
        "MIN" => Aggregate::Min,
        "MAX" => Aggregate::Max,
        other => {
            let known = ["AVERAGE", "MAX", "MIN", "SUM"];
            return c.bad_word("aggregate_function", &known, other);
        }
    };
    let scores = trees.scores(&x, targets(c)?, aggregate)?;
    let scores = based(c, scores)?;
    let how = c.str_or("post_transform", "NONE")?;
    one(transformed(c, scores, how)?.cast(DType::F32)?)
}

fn classifier(c: &mut Call) -> Result<Vec<Value>> {
    let x = features(c)?;
    let mut trees = older(c, "class")?;
    let classes = classes(c, "classlabels_int64s", "classlabels_strings")?;
    let count = match &classes {
        Value::Tensor(a) => a.tensor.numel(),
        Value::Strings(s) => s.items.len(),
        _ => 0,
    };
    let how = c.str_or("post_transform", "NONE")?.to_string();
    let voted = trees.votes.first().map(|vote| vote.1);
    let single = trees.votes.iter().all(|vote| Some(vote.1) == voted);
    if count < 2 {
        return unsupported(format!("TreeEnsembleClassifier with {count} classes"));
    }
    if count > 2 || !single {
        let scores = trees.scores(&x, count, Aggregate::Sum)?;
        let scores = based(c, scores)?;
        let scores = transformed(c, scores, &how)?;
        return classified(c, &classes, scores);
    }
    // Votes for one class of two: a probability if none is negative, else a distance.
    let positive = trees.votes.iter().all(|vote| vote.2 >= 0.0);
    for vote in &mut trees.votes {
        vote.1 = 0;
    }
    let score = trees.scores(&x, 1, Aggregate::Sum)?;
    let score = match either(c, "base_values")? {
        None => score,
        Some(base) => match base[..] {
            [base] | [_, base] => score.add(base)?,
            _ => return wrong(format!("expected 1 or 2 base_values, found {}", base.len())),
        },
    };
    let scores = match (positive, how.as_str()) {
        (true, "NONE") => Tensor::cat(&[&score.neg()?.add(1.0)?, &score], 1)?,
        (false, "NONE") => Tensor::cat(&[&score.neg()?, &score], 1)?,
        (false, "LOGISTIC") => Tensor::cat(&[&score.neg()?, &score], 1)?.sigmoid()?,
        _ => {
            return unsupported(format!(
                "TreeEnsembleClassifier with votes for one class and post_transform {how}"
            ));
        }
    };
    classified(c, &classes, scores)
}
