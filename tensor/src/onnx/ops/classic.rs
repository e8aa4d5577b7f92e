//! Classic machine learning, as far as it works on tensors and strings.

use std::collections::HashMap;

use codegen::DType;

use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, one};
use crate::onnx::error::{Result, unsupported, wrong};
use crate::onnx::value::{Array, Strings, Value};

pub(super) const OPS: Table = &[
    ("ArrayFeatureExtractor", array_feature_extractor),
    ("Binarizer", binarizer),
    ("CategoryMapper", category_mapper),
    ("FeatureVectorizer", feature_vectorizer),
    ("Imputer", imputer),
    ("LabelEncoder", label_encoder),
    ("LinearClassifier", linear_classifier),
    ("LinearRegressor", linear_regressor),
    ("Normalizer", normalizer),
    ("OneHotEncoder", one_hot_encoder),
    ("Scaler", scaler),
];

/// Numbers of an attribute on the engine of the call.
fn row(c: &Call, list: &[f64], dtype: DType) -> Result<Tensor> {
    Ok(Tensor::from_floats(c.engine(), list, &[list.len()], dtype)?)
}

/// The type in which features are computed.
pub(super) fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    }
}

/// Input 0 as features `[n, f]`; a list of features is one row.
pub(super) fn features(c: &mut Call) -> Result<Tensor> {
    let x = c.tensor(0)?;
    let x = x.cast(wide(x.dtype()))?;
    match x.rank() {
        1 => Ok(x.unsqueeze(0)?),
        2 => Ok(x),
        _ => wrong(format!("expected features [n, f], found {:?}", x.shape())),
    }
}

/// What is done to scores, by name.
pub(super) fn transformed(c: &Call, scores: Tensor, how: &str) -> Result<Tensor> {
    Ok(match how {
        "NONE" => scores,
        "LOGISTIC" => scores.sigmoid()?,
        "SOFTMAX" => scores.softmax(-1)?,
        "SOFTMAX_ZERO" => {
            // A score of 0 is scaled as the others are, so it stays 0.
            let largest = scores.max(&[-1], true)?;
            let zero = scores.abs()?.le(1e-7)?;
            let kept = scores.mul(&largest.neg()?.exp()?)?;
            let parts = zero.where_(&kept, &scores.sub(&largest)?.exp()?)?;
            let sum = parts.sum(&[-1], true)?;
            let even = sum.eq(0)?;
            even.where_(0.5, &parts.div(&sum)?)?
        }
        "PROBIT" => {
            // Winitzki's inverse of the error function.
            let x = scores.mul(2.0)?.sub(1.0)?;
            let log = x.square()?.neg()?.add(1.0)?.log()?;
            let v = log.mul(0.5)?.add(2.0 / (std::f64::consts::PI * 0.147))?;
            let root = v.square()?.sub(&log.mul(1.0 / 0.147)?)?.sqrt()?;
            let size = root.sub(&v)?.sqrt()?;
            size.mul(&x.sign()?)?.mul(std::f64::consts::SQRT_2)?
        }
        other => {
            let known = ["LOGISTIC", "NONE", "PROBIT", "SOFTMAX", "SOFTMAX_ZERO"];
            return c.bad_word("post_transform", &known, other);
        }
    })
}

/// The label at each position: strings are read, numbers stay where they are.
fn labelled(c: &mut Call, labels: &Value, at: &Tensor) -> Result<Value> {
    match labels {
        Value::Strings(labels) => {
            let at_host = c.eval.known(at)?;
            super::shape::strings_moved(c, &[labels], |all| Ok(all[0].take(&at_host)?))
                .map(Value::Strings)
        }
        Value::Tensor(labels) => {
            let labels = c.here(labels)?;
            let (tensor, elem) = (labels.tensor.take(at)?, labels.elem);
            Ok(Array { tensor, elem }.into())
        }
        other => wrong(format!("expected labels, found {}", other.kind())),
    }
}

/// The classes of a classifier, from either of two attributes.
pub(super) fn classes(c: &Call, ints: &str, strings: &str) -> Result<Value> {
    if let Some(list) = c.attr_strs(strings)?.filter(|list| !list.is_empty()) {
        return Ok(words(list));
    }
    let list = c.attr_ints(ints)?;
    let list = c.needed(ints, list)?;
    Ok(c.eval.known_ints(&list, &[list.len()])?.into())
}

fn words(list: &[String]) -> Value {
    Value::Strings(Strings {
        shape: vec![list.len()],
        items: list.into(),
    })
}

/// The class of the largest score, and the scores.
pub(super) fn classified(c: &mut Call, classes: &Value, scores: Tensor) -> Result<Vec<Value>> {
    let best = scores.argmax(-1, false)?;
    let labels = labelled(c, classes, &best)?;
    Ok(vec![labels, scores.cast(DType::F32)?.into()])
}

fn array_feature_extractor(c: &mut Call) -> Result<Vec<Value>> {
    let at = c.tensor(1)?.cast(DType::I64)?;
    let at = at.reshape(&[at.numel()])?;
    let at = match c.value(0)? {
        Value::Strings(_) => c.eval.known(&at)?,
        _ => at,
    };
    if c.is_known(&at) {
        let size = match c.value(0)? {
            Value::Tensor(a) => a.tensor.shape().last().copied(),
            Value::Strings(s) => s.shape.last().copied(),
            _ => None,
        };
        let list = c.read_ints(&at)?;
        let outside = |&n: &i64| usize::try_from(n).map_or(true, |n| Some(n) >= size);
        if let Some(bad) = list.iter().find(|n| outside(n)) {
            return wrong(format!(
                "expected an index below {}, found {bad}",
                size.unwrap_or(0)
            ));
        }
    }
    super::shape::movement(c, |x| {
        if x.rank() == 0 {
            return wrong("expected a tensor with an axis, found a number");
        }
        let picked = x.index_select(-1, &at)?;
        // A list is a matrix of one row.
        Ok(match picked.rank() {
            1 => picked.unsqueeze(0)?,
            _ => picked,
        })
    })
}

fn binarizer(c: &mut Call) -> Result<Vec<Value>> {
    let (x, threshold) = (c.tensor(0)?, c.float_or("threshold", 0.0)?);
    let wide = x.cast(wide(x.dtype()))?;
    one(wide.gt(threshold)?.cast(x.dtype())?)
}

/// Where strings are among keys, plus 1; 0 for those that are not. The last of equal keys counts.
fn places(keys: &[String], strings: &Strings) -> Vec<i64> {
    let numbered = keys.iter().zip(1i64..);
    let numbers: HashMap<&str, i64> = numbered.map(|(key, n)| (key.as_str(), n)).collect();
    let found = strings.items.iter().map(|s| numbers.get(s.as_str()));
    found.map(|n| n.copied().unwrap_or(0)).collect()
}

/// Where each element of input 0 is among keys, plus 1; 0 for those that are not.
fn position(c: &mut Call, keys: &Value) -> Result<Tensor> {
    match keys {
        Value::Strings(keys) => {
            let strings = c.strings(0)?;
            let at = places(&keys.items, strings);
            Ok(Tensor::from_slice(c.engine(), &at, &strings.shape)?)
        }
        Value::Tensor(keys) => {
            let (x, keys) = (c.tensor(0)?, c.here(keys)?.tensor);
            if x.dtype() != keys.dtype() {
                return wrong(format!(
                    "expected elements of the type of the keys, {}, found {}",
                    keys.dtype(),
                    x.dtype()
                ));
            }
            let n = keys.numel();
            if n == 0 {
                return Ok(Tensor::zeros(c.engine(), x.shape(), DType::I64)?);
            }
            let (x, keys) = (x.unsqueeze(-1)?, keys.reshape(&[n])?);
            let mut same = x.eq(&keys)?;
            if keys.dtype().is_float() {
                same = same.logical_or(&x.isnan()?.logical_and(&keys.isnan()?)?)?;
            }
            let numbers = Tensor::iota(c.engine(), n, DType::I64)?.add(1)?;
            Ok(same.where_(&numbers, 0)?.max(&[-1], false)?)
        }
        other => wrong(format!("expected keys, found {}", other.kind())),
    }
}

/// A list that is in one of several attributes.
fn listed(c: &Call, prefix: &str) -> Result<Option<Value>> {
    let name = |kind: &str| format!("{prefix}_{kind}");
    if let Some(list) = c.attr_strs(&name("strings"))? {
        return Ok(Some(words(list)));
    }
    if let Some(list) = c.attr_ints(&name("int64s"))? {
        return Ok(Some(c.eval.known_ints(&list, &[list.len()])?.into()));
    }
    if let Some(list) = c.attr_floats(&name("floats"))? {
        return Ok(Some(row(c, &list, DType::F32)?.into()));
    }
    let tensor = c.attr_tensor(&name("tensor"))?;
    Ok(tensor.map(|literal| c.eval.constant(&literal)))
}

fn label_encoder(c: &mut Call) -> Result<Vec<Value>> {
    let (keys, values) = match c.attr_strs("classes_strings")? {
        // Version 1: strings to their positions, or back.
        Some(list) => {
            let list = words(list);
            let n = c.attr_strs("classes_strings")?.map_or(0, <[String]>::len) as i64;
            let numbers: Vec<i64> = (0..n).collect();
            let numbers = c.eval.known_ints(&numbers, &[numbers.len()])?.into();
            match c.value(0)? {
                Value::Strings(_) => (list, numbers),
                _ => (numbers, list),
            }
        }
        None => {
            let (keys, values) = (listed(c, "keys")?, listed(c, "values")?);
            (c.needed("keys_*", keys)?, c.needed("values_*", values)?)
        }
    };
    mapped(c, &keys, &values)
}

/// Elements that are among the keys become the value at that place, others the default.
fn mapped(c: &mut Call, keys: &Value, values: &Value) -> Result<Vec<Value>> {
    let count = |value: &Value| match value {
        Value::Tensor(a) => a.tensor.numel(),
        Value::Strings(s) => s.items.len(),
        _ => 0,
    };
    if count(keys) != count(values) {
        return wrong(format!(
            "expected the same number of keys and values, found {} and {}",
            count(keys),
            count(values)
        ));
    }
    let at = position(c, keys)?;
    let given = c.attr_tensor("default_tensor")?;
    let given = given.map(|literal| c.constant(&literal));
    let table = match values {
        Value::Strings(values) => {
            let default = match &given {
                Some(Value::Strings(s)) => s.items.first().cloned().unwrap_or_default(),
                _ => c.str_or("default_string", "_Unused")?.to_string(),
            };
            let all: Vec<String> = std::iter::once(default)
                .chain(values.items.iter().cloned())
                .collect();
            words(&all)
        }
        Value::Tensor(values) => {
            let Array { tensor, elem } = c.here(values)?;
            let dtype = tensor.dtype();
            let default = match given {
                Some(Value::Tensor(a)) if a.tensor.numel() == 1 => a.tensor.cast(dtype)?,
                Some(other) => {
                    return wrong(format!("expected one default, found {}", other.kind()));
                }
                None if dtype.is_float() => {
                    let default = c.float_or("default_float", -0.0)?;
                    Tensor::full(c.engine(), &[1], default, dtype)?
                }
                None => {
                    let default = c.int_or("default_int64", -1)?;
                    Tensor::full(c.engine(), &[1], default, dtype)?
                }
            };
            let values = tensor.reshape(&[tensor.numel()])?;
            let tensor = Tensor::cat(&[&default.reshape(&[1])?, &values], 0)?;
            Array { tensor, elem }.into()
        }
        other => return wrong(format!("expected values, found {}", other.kind())),
    };
    one(labelled(c, &table, &at)?)
}

fn category_mapper(c: &mut Call) -> Result<Vec<Value>> {
    let strings = c.attr_strs("cats_strings")?.map(words);
    let strings = c.needed("cats_strings", strings)?;
    let ints = c.attr_ints("cats_int64s")?;
    let ints = c.needed("cats_int64s", ints)?;
    let ints = c.eval.known_ints(&ints, &[ints.len()])?.into();
    match c.value(0)? {
        Value::Strings(_) => mapped(c, &strings, &ints),
        _ => mapped(c, &ints, &strings),
    }
}

/// Each input cut to its number of features, or filled with zeros, side by side.
fn feature_vectorizer(c: &mut Call) -> Result<Vec<Value>> {
    let given = c.attr_ints("inputdimensions")?;
    let given = given
        .map(|list| crate::onnx::call::sizes(&list))
        .transpose()?;
    let mut parts = Vec::new();
    for i in 0..c.count() {
        let x = c.tensor(i)?.cast(DType::F32)?;
        let x = match x.rank() {
            1 => x.unsqueeze(0)?,
            2 => x,
            _ => return wrong(format!("expected features [n, f], found {:?}", x.shape())),
        };
        let found = x.shape()[1];
        let wanted = given
            .as_ref()
            .and_then(|g| g.get(i).copied())
            .unwrap_or(found);
        let (rows, kept) = (x.shape()[0], found.min(wanted));
        crate::ops::check_size("FeatureVectorizer", &[rows, wanted], DType::F32)?;
        parts.push(x.narrow(1, 0, kept)?.pad_to(&[0, 0], &[rows, wanted], 0)?);
    }
    if parts.is_empty() {
        return wrong("expected at least one input, found none");
    }
    one(super::shape::join(&parts, 1, false)?)
}

fn imputer(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let floats = c
        .attr_floats("imputed_value_floats")?
        .filter(|l| !l.is_empty());
    let (missing, new) = match floats {
        Some(list) => {
            let replaced = c.float_or("replaced_value_float", 0.0)?;
            let missing = match replaced.is_nan() {
                true => x.isnan()?,
                false => x.eq(replaced)?,
            };
            (missing, row(c, &list, x.dtype())?)
        }
        None => {
            let list = c.attr_ints("imputed_value_int64s")?;
            let list = c.needed("imputed_value_int64s", list)?;
            let replaced = c.int_or("replaced_value_int64", 0)?;
            let new = Tensor::from_slice(c.engine(), &list, &[list.len()])?;
            (x.eq(replaced)?, new.cast(x.dtype())?)
        }
    };
    if new.numel() != 1 && x.shape().last() != Some(&new.numel()) {
        return wrong(format!(
            "expected a value for each feature of {:?}, found {}",
            x.shape(),
            new.numel()
        ));
    }
    one(missing.where_(&new, &x)?)
}

/// Scores of linear models: coefficients are a row for each of `count` outputs.
fn linear(c: &mut Call, x: &Tensor, count: usize) -> Result<Tensor> {
    let weights = c.attr_floats("coefficients")?;
    let weights = c.needed("coefficients", weights)?;
    let width = x.shape()[1];
    if count.checked_mul(width) != Some(weights.len()) {
        return wrong(format!(
            "expected {count} rows of {width} coefficients, found {}",
            weights.len()
        ));
    }
    let weights = row(c, &weights, x.dtype())?.reshape(&[count, width])?;
    let scores = x.matmul(&weights.t()?)?;
    match c.attr_floats("intercepts")?.filter(|list| !list.is_empty()) {
        Some(list) if list.len() == count || list.len() == 1 => {
            Ok(scores.add(&row(c, &list, x.dtype())?)?)
        }
        Some(list) => wrong(format!("expected {count} intercepts, found {}", list.len())),
        None => Ok(scores),
    }
}

fn linear_regressor(c: &mut Call) -> Result<Vec<Value>> {
    let targets = match usize::try_from(c.int_or("targets", 1)?) {
        Ok(n) if n > 0 => n,
        _ => return wrong("expected attribute targets of at least 1"),
    };
    let x = features(c)?;
    let scores = linear(c, &x, targets)?;
    let how = c.str_or("post_transform", "NONE")?;
    one(transformed(c, scores, how)?.cast(DType::F32)?)
}

fn linear_classifier(c: &mut Call) -> Result<Vec<Value>> {
    let x = features(c)?;
    let classes = classes(c, "classlabels_ints", "classlabels_strings")?;
    let count = match &classes {
        Value::Tensor(a) => a.tensor.numel(),
        Value::Strings(s) => s.items.len(),
        _ => 0,
    };
    let rows = match c.attr_floats("coefficients")? {
        Some(list) if x.shape()[1] > 0 => list.len() / x.shape()[1],
        _ => 0,
    };
    let mut scores = linear(c, &x, rows)?;
    if rows == 1 && count == 2 {
        scores = Tensor::cat(&[&scores.neg()?, &scores], 1)?;
    } else if rows != count || count == 0 {
        return unsupported(format!(
            "LinearClassifier with {rows} rows of coefficients for {count} classes"
        ));
    }
    let how = c.str_or("post_transform", "NONE")?;
    let scores = transformed(c, scores, how)?;
    classified(c, &classes, scores)
}

/// Rows divided by their norm; rows of zeros stay.
fn normalizer(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    if !(1..=2).contains(&x.rank()) {
        return wrong(format!("expected [c] or [n, c], found {:?}", x.shape()));
    }
    let x = x.cast(wide(x.dtype()))?;
    let size = match c.str_or("norm", "MAX")? {
        "MAX" => x.abs()?.max(&[-1], true)?,
        "L1" => x.abs()?.sum(&[-1], true)?,
        "L2" => x.square()?.sum(&[-1], true)?.sqrt()?,
        other => return c.bad_word("norm", &["L1", "L2", "MAX"], other),
    };
    let size = size.eq(0)?.where_(1.0, &size)?;
    one(x.div(&size)?.cast(DType::F32)?)
}

fn one_hot_encoder(c: &mut Call) -> Result<Vec<Value>> {
    let (at, count) = match c.attr_strs("cats_strings")?.filter(|list| !list.is_empty()) {
        Some(list) => {
            let strings = c.strings(0)?;
            let at = places(list, strings);
            (
                Tensor::from_slice(c.engine(), &at, &strings.shape)?,
                list.len(),
            )
        }
        None => {
            let list = c.attr_ints("cats_int64s")?;
            let list = c.needed("cats_int64s", list)?;
            let x = c.tensor(0)?.cast(DType::I64)?.unsqueeze(-1)?;
            let cats = Tensor::from_slice(c.engine(), &list, &[list.len()])?;
            return match c.int_or("zeros", 1)? {
                0 => unsupported("OneHotEncoder with zeros = 0"),
                _ => one(x.eq(&cats)?.cast(DType::F32)?),
            };
        }
    };
    if c.int_or("zeros", 1)? == 0 && c.read_ints(&at)?.contains(&0) {
        return wrong("found an unlisted category");
    }
    let numbers = Tensor::iota(c.engine(), count, DType::I64)?.add(1)?;
    one(at.unsqueeze(-1)?.eq(&numbers)?.cast(DType::F32)?)
}

fn scaler(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let mut out = x.cast(wide(x.dtype()))?;
    let list = |name: &str| -> Result<Option<Tensor>> {
        match c.attr_floats(name)?.filter(|list| !list.is_empty()) {
            Some(list) if list.len() == 1 || x.shape().last() == Some(&list.len()) => {
                Ok(Some(row(c, &list, wide(x.dtype()))?))
            }
            Some(list) => wrong(format!(
                "expected a number in {name} for each feature of {:?}, found {}",
                x.shape(),
                list.len()
            )),
            None => Ok(None),
        }
    };
    if let Some(offset) = list("offset")? {
        out = out.sub(&offset)?;
    }
    if let Some(scale) = list("scale")? {
        out = out.mul(&scale)?;
    }
    one(out.reshape(x.shape())?.cast(DType::F32)?)
}
