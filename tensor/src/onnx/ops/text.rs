//! Strings.

use super::Table;
use crate::onnx::error::Result;
use crate::onnx::value::Strings;
use crate::ops::broadcast_shapes;

pub(super) const OPS: Table = &[];

/// The elements of two arrays of strings side by side, broadcast; with the shape.
pub(super) fn pairs<'a>(
    a: &'a Strings,
    b: &'a Strings,
) -> Result<(Vec<usize>, Vec<(&'a str, &'a str)>)> {
    let shape = broadcast_shapes("strings", &[&a.shape, &b.shape])?;
    let (x, y) = (positions(&a.shape, &shape), positions(&b.shape, &shape));
    let pairs = x.into_iter().zip(y);
    let pairs = pairs.map(|(i, j)| (a.items[i].as_str(), b.items[j].as_str()));
    Ok((shape, pairs.collect()))
}

/// For each element of `to`, the element of `from` that is broadcast to it.
fn positions(from: &[usize], to: &[usize]) -> Vec<usize> {
    let count: usize = to.iter().product();
    let lead = to.len() - from.len();
    (0..count)
        .map(|mut flat| {
            let (mut at, mut step) = (0, 1);
            for axis in (0..to.len()).rev() {
                let i = flat % to[axis];
                flat /= to[axis];
                if axis >= lead {
                    let size = from[axis - lead];
                    if size > 1 {
                        at += i * step;
                    }
                    step *= size;
                }
            }
            at
        })
        .collect()
}
