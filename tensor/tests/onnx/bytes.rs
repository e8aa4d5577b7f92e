//! Operators of ONNX on bytes: exactly the integers that the format asks for.

use crate::support;

use support::engine;
use tensor::onnx::proto::AttributeProto;
use tensor::onnx::write::{self, Writer};
use tensor::onnx::{Dim, Model};
use tensor::{DType, Engine, Tensor};

/// Bytes that look random, with many extremes.
fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 32
    };
    let byte = |n: u64| match n % 4 {
        0 => 255,
        1 => 128,
        _ => (n >> 8) as u8,
    };
    (0..count).map(|_| byte(next())).collect()
}

fn number(dtype: DType, byte: u8) -> i32 {
    match dtype {
        DType::I8 => i32::from(byte as i8),
        _ => i32::from(byte),
    }
}

fn tensor(engine: &Engine, dtype: DType, data: &[u8], shape: &[usize]) -> Tensor {
    Tensor::from_bytes(engine, data.to_vec(), shape, dtype).unwrap()
}

/// An operand: its type, bytes and shape, and the zero points.
struct Operand<'a> {
    dtype: DType,
    data: &'a [u8],
    shape: &'a [usize],
    zero: &'a [u8],
}

/// The operator on an input and a weight, run twice.
fn run(op: &str, attrs: Vec<AttributeProto>, x: &Operand<'_>, w: &Operand<'_>) -> Vec<i32> {
    let engine = engine();
    let fixed = |shape: &[usize]| shape.iter().map(|&n| Dim::Fixed(n)).collect::<Vec<_>>();
    let mut model = Writer::new("bytes", 17);
    model.input("x", &write::tensor(x.dtype, &fixed(x.shape)));
    model.input("x_zero", &write::tensor(x.dtype, &[]));
    model
        .constant("w", &tensor(&engine, w.dtype, w.data, w.shape))
        .unwrap();
    let shape: &[usize] = if w.zero.len() == 1 {
        &[]
    } else {
        &[w.zero.len()]
    };
    model
        .constant("w_zero", &tensor(&engine, w.dtype, w.zero, shape))
        .unwrap();
    model.node(op, &["x", "w", "x_zero", "w_zero"], &["y"], attrs);
    model.output("y", &write::tensor(DType::I32, &[]));
    let session = Model::from_bytes("bytes", model.finish())
        .unwrap()
        .on(&engine);
    let mut out = Vec::new();
    for _ in 0..2 {
        let given = [
            ("x", tensor(&engine, x.dtype, x.data, x.shape)),
            ("x_zero", tensor(&engine, x.dtype, x.zero, &[])),
        ];
        let made = session.run(given).unwrap();
        out = made.tensor("y").unwrap().to_vec().unwrap();
    }
    out
}

const SIGNS: [[DType; 2]; 3] = [
    [DType::U8, DType::I8],
    [DType::U8, DType::U8],
    [DType::I8, DType::I8],
];

#[test]
fn matrices_of_few_rows_and_any_depth() {
    let n = 96;
    for (m, k) in [(1, 331), (2, 96), (3, 203), (4, 62), (5, 129)] {
        for (i, types) in SIGNS.into_iter().enumerate() {
            let (x, w) = (bytes(m as u64, m * k), bytes(7, k * n));
            let zeros: [Vec<u8>; 3] = [vec![128], vec![0], bytes(3, n)];
            let (x_zero, w_zero) = ([[255u8], [0], [128]][i], &zeros[(m + i) % 3]);
            let got = run(
                "MatMulInteger",
                vec![],
                &Operand {
                    dtype: types[0],
                    data: &x,
                    shape: &[m, k],
                    zero: &x_zero,
                },
                &Operand {
                    dtype: types[1],
                    data: &w,
                    shape: &[k, n],
                    zero: w_zero,
                },
            );
            for (at, &got) in got.iter().enumerate() {
                let (row, col) = (at / n, at % n);
                let off = number(types[1], w_zero[col % w_zero.len()]);
                let each = (0..k).map(|p| {
                    let a = number(types[0], x[row * k + p]) - number(types[0], x_zero[0]);
                    a * (number(types[1], w[p * n + col]) - off)
                });
                assert_eq!(got, each.sum::<i32>(), "{m} {k} {types:?} {at}");
            }
        }
    }
}

#[test]
fn images_are_surrounded_by_their_zero_point() {
    let [channels, height, width, filters] = [5, 9, 21, 24];
    for (i, types) in SIGNS.into_iter().enumerate() {
        let x = bytes(11, channels * height * width);
        let w = bytes(5, filters * channels * 9);
        let (x_zero, w_zero) = (
            [[200u8], [0], [129]][i],
            [vec![0], bytes(9, filters), vec![77]],
        );
        let w_zero = &w_zero[i];
        let got = run(
            "ConvInteger",
            vec![write::ints("pads", &[1, 2, 1, 0])],
            &Operand {
                dtype: types[0],
                data: &x,
                shape: &[1, channels, height, width],
                zero: &x_zero,
            },
            &Operand {
                dtype: types[1],
                data: &w,
                shape: &[filters, channels, 3, 3],
                zero: w_zero,
            },
        );
        assert_eq!(got.len(), filters * height * width);
        for (at, &got) in got.iter().enumerate() {
            let (f, y, z) = (at / (height * width), at / width % height, at % width);
            let off = number(types[1], w_zero[f % w_zero.len()]);
            let mut sum = 0;
            for p in 0..channels * 9 {
                let (c, dy, dz) = (p / 9, p / 3 % 3, p % 3);
                let (y, z) = ((y + dy).wrapping_sub(1), (z + dz).wrapping_sub(2));
                if y < height && z < width {
                    let a = number(types[0], x[(c * height + y) * width + z]);
                    let b = number(types[1], w[f * channels * 9 + p]) - off;
                    sum += (a - number(types[0], x_zero[0])) * b;
                }
            }
            assert_eq!(got, sum, "{types:?} {at}");
        }
    }
}
