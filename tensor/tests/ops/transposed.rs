//! Transposed convolution against its definition: every product, added where it goes.

use super::support;
use tensor::ops::conv::ConvParams;
use tensor::{DType, Engine, Tensor, gradients};

#[derive(Clone, Debug)]
struct Case {
    /// `[n, c_in, s..]`.
    input: Vec<usize>,
    c_group: usize,
    groups: usize,
    kernel: Vec<usize>,
    stride: Vec<usize>,
    dilation: Vec<usize>,
    padding: Vec<(usize, usize)>,
    more: Vec<usize>,
}

struct Found {
    y: Vec<f64>,
    dx: Vec<f64>,
    dw: Vec<f64>,
}

fn numbers(n: usize, seed: usize) -> Vec<f64> {
    (0..n)
        .map(|i| ((i * 37 + seed * 11) % 23) as f64 - 11.0)
        .collect()
}

/// Coordinates of element `at`.
fn unravel(mut at: usize, shape: &[usize]) -> Vec<usize> {
    let mut out = vec![0; shape.len()];
    for (i, &len) in shape.iter().enumerate().rev() {
        out[i] = at % len;
        at /= len;
    }
    out
}

impl Case {
    fn output(&self) -> Option<Vec<usize>> {
        (0..self.kernel.len())
            .map(|i| {
                let reach = self.dilation[i] * (self.kernel[i] - 1) + 1;
                let len = (self.input[2 + i] - 1) * self.stride[i] + reach + self.more[i];
                len.checked_sub(self.padding[i].0 + self.padding[i].1)
                    .filter(|&n| n > 0)
            })
            .collect()
    }

    fn weight(&self) -> Vec<usize> {
        [&[self.input[1], self.c_group][..], &self.kernel].concat()
    }

    /// The result and the gradients of its product with `g`.
    fn defined(&self, out: &[usize], x: &[f64], w: &[f64], g: &[f64]) -> Found {
        let (weight, c_in) = (self.weight(), self.input[1] / self.groups);
        let shape = [&[self.input[0], self.c_group * self.groups][..], out].concat();
        let mut found = Found {
            y: vec![0.0; shape.iter().product()],
            dx: vec![0.0; x.len()],
            dw: vec![0.0; w.len()],
        };
        for (xi, &element) in x.iter().enumerate() {
            let from = unravel(xi, &self.input);
            for (wi, &factor) in w.iter().enumerate() {
                let k = unravel(wi, &weight);
                if k[0] != from[1] {
                    continue;
                }
                let channel = from[1] / c_in * self.c_group + k[1];
                let mut at = from[0] * shape[1] + channel;
                let mut inside = true;
                for (i, &len) in out.iter().enumerate() {
                    let o = from[2 + i] * self.stride[i] + k[2 + i] * self.dilation[i];
                    let o = o.checked_sub(self.padding[i].0).filter(|&o| o < len);
                    inside &= o.is_some();
                    at = at * len + o.unwrap_or(0);
                }
                if inside {
                    found.y[at] += element * factor;
                    found.dx[xi] += g[at] * factor;
                    found.dw[wi] += g[at] * element;
                }
            }
        }
        found
    }

    fn check(&self, e: &Engine, dtype: DType) {
        let weight = self.weight();
        let (x, w) = (
            numbers(self.input.iter().product(), 1),
            numbers(weight.iter().product(), 2),
        );
        let tensor = |data: &[f64], shape: &[usize]| {
            Tensor::from_slice(e, data, shape)
                .unwrap()
                .cast(dtype)
                .unwrap()
        };
        let (tx, tw) = (tensor(&x, &self.input), tensor(&w, &weight));
        let sliding = ConvParams {
            stride: self.stride.clone(),
            padding: self.padding.clone(),
            dilation: self.dilation.clone(),
        };
        let made = tx.conv_transpose(&tw, None, &sliding, &self.more, self.groups);
        let Some(out) = self.output() else {
            assert!(made.is_err(), "{self:?}");
            return;
        };
        let y = made.unwrap_or_else(|e| panic!("{self:?}: {e}"));
        assert_eq!(y.shape()[2..], out, "{self:?}");
        let g = numbers(y.numel(), 3);
        let loss = y
            .mul(tensor(&g, y.shape()))
            .unwrap()
            .sum(&[], false)
            .unwrap();
        let slopes = gradients(&loss, &[&tx, &tw]).unwrap();
        let want = self.defined(&out, &x, &w, &g);
        // All numbers are whole and small, so both types hold every sum exactly.
        assert_eq!(y.to_f64_vec().unwrap(), want.y, "{self:?}");
        assert_eq!(slopes[0].to_f64_vec().unwrap(), want.dx, "{self:?}");
        assert_eq!(slopes[1].to_f64_vec().unwrap(), want.dw, "{self:?}");
    }
}

#[test]
fn one_axis_of_every_geometry() {
    let e = Engine::reference();
    for stride in 1..=4 {
        for kernel in 1..=5 {
            for dilation in 1..=3 {
                for (padding, more) in [((0, 0), 0), ((1, 1), 0), ((2, 1), 1), ((0, 3), stride - 1)]
                {
                    let case = Case {
                        input: vec![2, 2, 3],
                        c_group: 2,
                        groups: 1,
                        kernel: vec![kernel],
                        stride: vec![stride],
                        dilation: vec![dilation],
                        padding: vec![padding],
                        more: vec![more],
                    };
                    case.check(&e, DType::F64);
                }
            }
        }
    }
}

#[test]
fn several_axes_and_groups() {
    let cases = [
        // Phases together, apart, too many, one without a kernel.
        ([4, 4], [2, 2], [1, 1], 2),
        ([3, 3], [2, 2], [1, 1], 1),
        ([3, 2], [2, 3], [1, 1], 2),
        ([3, 3], [5, 4], [1, 1], 1),
        ([3, 3], [2, 2], [2, 2], 2),
        ([3, 2], [3, 2], [2, 3], 1),
        ([1, 1], [3, 2], [1, 1], 4),
        ([2, 3], [1, 1], [3, 1], 2),
        ([8, 8], [4, 4], [1, 1], 1),
    ];
    let (host, device) = (Engine::reference(), support::engine());
    for (i, (kernel, stride, dilation, groups)) in cases.into_iter().enumerate() {
        let case = Case {
            input: vec![2, 4, 3, 2],
            c_group: 2,
            groups,
            kernel: kernel.to_vec(),
            stride: stride.to_vec(),
            dilation: dilation.to_vec(),
            padding: vec![(1, 0), (0, i % 2)],
            more: vec![i % 2, 0],
        };
        case.check(&host, DType::F64);
        if i < 4 {
            case.check(&device, DType::F32);
        }
    }
    let deep = Case {
        input: vec![1, 2, 2, 3, 2],
        c_group: 1,
        groups: 2,
        kernel: vec![3, 2, 2],
        stride: vec![2, 2, 1],
        dilation: vec![1, 1, 2],
        padding: vec![(1, 1), (0, 0), (0, 1)],
        more: vec![1, 0, 0],
    };
    deep.check(&host, DType::F64);
}
