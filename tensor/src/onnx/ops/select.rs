//! Operators whose result is as large as the values in it say: they read their inputs.

use codegen::DType;

use super::index::pick;
use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, axis, one};
use crate::onnx::error::{Result, unsupported, wrong};
use crate::onnx::value::{Array, HOST_ELEMENTS, Strings, Value};

pub(super) const OPS: Table = &[
    ("Compress", compress),
    ("NonMaxSuppression", non_max_suppression),
    ("NonZero", nonzero),
    ("Unique", unique),
];

/// Numbers found on the host: known if they are few, so that what follows is computed there.
fn found(c: &Call, list: &[i64], shape: &[usize]) -> Result<Value> {
    Ok(match list.len() <= HOST_ELEMENTS {
        true => c.eval.known_ints(list, shape)?.into(),
        false => Tensor::from_slice(c.engine(), list, shape)?.into(),
    })
}

/// The axis of an attribute; none means that the input is flattened.
fn optional_axis(c: &Call, rank: usize) -> Result<Option<usize>> {
    match c.attr_int("axis")? {
        Some(at) => axis(at, rank).map(Some),
        None => Ok(None),
    }
}

fn compress(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.array(0)?;
    let flat = optional_axis(c, x.tensor.rank())?;
    let (along, from) = match flat {
        Some(along) => (along, x.tensor.clone()),
        None => (0, x.tensor.reshape(&[x.tensor.numel()])?),
    };
    let condition = c.ints(1)?;
    let kept = (0..condition.len()).filter(|&i| condition[i] != 0);
    let kept: Vec<usize> = kept.collect();
    let size = from.shape()[along];
    if let Some(beyond) = kept.iter().find(|&&i| i >= size) {
        return wrong(format!("expected positions below {size}, found {beyond}"));
    }
    one(Array {
        tensor: pick(&from, along, &kept)?,
        elem: x.elem,
    })
}

fn nonzero(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let shape = x.shape().to_vec();
    let mask = c.read_ints(&x.is_something()?)?;
    let hits: Vec<usize> = (0..mask.len()).filter(|&i| mask[i] != 0).collect();
    let mut list = Vec::with_capacity(hits.len().saturating_mul(shape.len()));
    for (axis, &size) in shape.iter().enumerate() {
        let inner: usize = shape[axis + 1..].iter().product();
        list.extend(hits.iter().map(|at| (at / inner % size) as i64));
    }
    Ok(vec![found(c, &list, &[shape.len(), hits.len()])?])
}

/// Numbers as integers of the same order, in which all NaN are one and largest and the zeros equal.
pub(super) fn keys(c: &mut Call, x: &Tensor) -> Result<Vec<i64>> {
    if !x.dtype().is_float() {
        let mut list = c.read_ints(x)?;
        if x.dtype() == DType::U64 {
            list.iter_mut().for_each(|n| *n ^= i64::MIN);
        }
        return Ok(list);
    }
    let list = c.read_floats(x)?;
    let ordered = list.iter().map(|&x| match x {
        x if x.is_nan() => i64::MAX,
        0.0 => 0,
        x if x < 0.0 => -((-x).to_bits() as i64),
        x => x.to_bits() as i64,
    });
    Ok(ordered.collect())
}

/// Equal rows of a table.
struct Groups {
    /// The first row of each.
    first: Vec<usize>,
    /// The group of each row.
    of: Vec<i64>,
    /// Rows in each.
    count: Vec<i64>,
}

impl Groups {
    /// Groups in the order of the rows' values, or in that of their first rows.
    fn new<K: Ord>(rows: &[&[K]], sorted: bool) -> Groups {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by(|&a, &b| rows[a].cmp(rows[b]));
        let mut runs: Vec<&[usize]> = order.chunk_by(|&a, &b| rows[a] == rows[b]).collect();
        if !sorted {
            runs.sort_by_key(|run| run[0]);
        }
        let mut of = vec![0; rows.len()];
        for (group, run) in runs.iter().enumerate() {
            run.iter().for_each(|&row| of[row] = group as i64);
        }
        Groups {
            first: runs.iter().map(|run| run[0]).collect(),
            of,
            count: runs.iter().map(|run| run.len() as i64).collect(),
        }
    }

    fn values(&self, c: &Call, y: Value) -> Result<Vec<Value>> {
        let first: Vec<i64> = self.first.iter().map(|&i| i as i64).collect();
        Ok(vec![
            y,
            found(c, &first, &[first.len()])?,
            found(c, &self.of, &[self.of.len()])?,
            found(c, &self.count, &[self.count.len()])?,
        ])
    }
}

pub(super) fn unique(c: &mut Call) -> Result<Vec<Value>> {
    let sorted = c.int_or("sorted", 1)? != 0;
    if let Value::Strings(x) = c.value(0)? {
        let x = x.clone();
        if x.shape.len() != 1 && c.attr("axis").is_some() {
            return unsupported("Unique along an axis of STRING");
        }
        let rows: Vec<&[String]> = x.items.chunks(1).collect();
        let groups = Groups::new(&rows, sorted);
        let items = groups.first.iter().map(|&i| x.items[i].clone());
        let items: Vec<String> = items.collect();
        let y = Strings {
            shape: vec![items.len()],
            items: items.into(),
        };
        return groups.values(c, y.into());
    }
    let x = c.tensor(0)?;
    let (along, from) = match optional_axis(c, x.rank())? {
        Some(along) => (along, x),
        None => (0, x.reshape(&[x.numel()])?),
    };
    let count = from.shape()[along];
    let list = keys(c, &from.move_axis(along as isize, 0)?)?;
    if list.is_empty() && count > 1 {
        return unsupported("Unique along an axis with empty slices");
    }
    let width = list.len() / count.max(1);
    let rows: Vec<&[i64]> = (0..count)
        .map(|i| &list[i * width..(i + 1) * width])
        .collect();
    let groups = Groups::new(&rows, sorted);
    let y = pick(&from, along, &groups.first)?;
    groups.values(c, y.into())
}

/// Corners and area of a box.
struct Rect {
    low: [f32; 2],
    high: [f32; 2],
    area: f32,
}

impl Rect {
    /// Of two opposite corners, or of the centre and the size.
    fn new(numbers: &[f64], centre: bool) -> Option<Rect> {
        let [a, b, c, d] = numbers else {
            return None;
        };
        let (a, b, c, d) = (*a as f32, *b as f32, *c as f32, *d as f32);
        let (low, high) = match centre {
            true => ([a - c / 2.0, b - d / 2.0], [a + c / 2.0, b + d / 2.0]),
            false => ([a.min(c), b.min(d)], [a.max(c), b.max(d)]),
        };
        let area = (high[0] - low[0]) * (high[1] - low[1]);
        Some(Rect { low, high, area })
    }

    /// The area that two have in common, over the area of both.
    fn overlap(&self, other: &Rect) -> f32 {
        let side = |i: usize| self.high[i].min(other.high[i]) - self.low[i].max(other.low[i]);
        let (a, b) = (side(0), side(1));
        let common = a * b;
        let both = self.area + other.area - common;
        let real = a > 0.0 && b > 0.0 && self.area > 0.0 && other.area > 0.0 && both > 0.0;
        if real { common / both } else { 0.0 }
    }
}

/// For each image and class the best boxes that do not overlap a better one too much.
fn non_max_suppression(c: &mut Call) -> Result<Vec<Value>> {
    let (boxes, scores) = (c.tensor(0)?, c.tensor(1)?);
    let (&[images, count, 4], &[also, classes, same]) = (boxes.shape(), scores.shape()) else {
        return wrong(format!(
            "expected boxes [n, b, 4] and scores [n, c, b], found {:?} and {:?}",
            boxes.shape(),
            scores.shape()
        ));
    };
    if (also, same) != (images, count) {
        return wrong(format!(
            "expected a score per image and box of {:?}, found {:?}",
            boxes.shape(),
            scores.shape()
        ));
    }
    let centre = match c.int_or("center_point_box", 0)? {
        0 => false,
        1 => true,
        other => {
            return wrong(format!(
                "expected center_point_box of 0 or 1, found {other}"
            ));
        }
    };
    let most = match c.has(2) {
        true => c.ints(2)?.first().copied().unwrap_or(0),
        false => 0,
    };
    let most = usize::try_from(most).unwrap_or(0);
    let number = |c: &mut Call, i: usize| -> Result<Option<f32>> {
        match c.has(i) {
            true => Ok(c.floats(i)?.first().map(|&x| x as f32)),
            false => Ok(None),
        }
    };
    let limit = number(c, 3)?.unwrap_or(0.0);
    let least = number(c, 4)?;
    let mut list = Vec::new();
    if most > 0 && count > 0 && classes > 0 {
        let (corners, scores) = (c.read_floats(&boxes)?, c.read_floats(&scores)?);
        let scores = scores.chunks_exact(classes * count);
        for (image, (corners, scores)) in corners.chunks_exact(4 * count).zip(scores).enumerate() {
            let rects = corners.chunks_exact(4);
            let rects: Vec<Rect> = rects.filter_map(|r| Rect::new(r, centre)).collect();
            for (class, scores) in scores.chunks_exact(count).enumerate() {
                for at in best(&rects, scores, most, limit, least) {
                    list.extend([image as i64, class as i64, at as i64]);
                }
            }
        }
    }
    Ok(vec![found(c, &list, &[list.len() / 3, 3])?])
}

/// The boxes that one class keeps, best first; of equals the first.
fn best(rects: &[Rect], scores: &[f64], most: usize, limit: f32, least: Option<f32>) -> Vec<usize> {
    let above = |&i: &usize| least.is_none_or(|least| scores[i] as f32 > least);
    let mut order: Vec<usize> = (0..rects.len()).filter(above).collect();
    // Adding 0 makes one zero of both.
    order.sort_by(|&a, &b| (scores[b] + 0.0).total_cmp(&(scores[a] + 0.0)));
    let mut kept: Vec<usize> = Vec::new();
    for i in order {
        if kept.len() >= most {
            break;
        }
        if kept.iter().all(|&k| rects[i].overlap(&rects[k]) <= limit) {
            kept.push(i);
        }
    }
    kept
}
