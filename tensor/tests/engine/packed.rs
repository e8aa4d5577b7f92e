//! Packed operands that captures share.
use crate::support;

use support::engine;
use tensor::{DType, Frozen, Tensor};

const N: usize = 96;

fn numbers(seed: usize) -> Vec<f32> {
    let number = |i: usize| ((i * (2 * seed + 7) + seed) % 23) as f32 - 11.0;
    (0..N).map(number).collect()
}

/// `x - y` for all pairs, as a matrix: it is larger than what it is made of, so it is not computed ahead but packed.
fn differences(x: &Tensor, y: &Tensor) -> tensor::Result<Tensor> {
    x.reshape(&[N, 1])?.sub(&y.reshape(&[1, N])?)
}

/// Two products whose packed operands are `f(x, y)` and `f(y, x)`, while the kernels take `x` and `y` in one order.
#[test]
fn an_operand_of_two_tensors_is_not_that_with_the_tensors_in_each_others_place() {
    let engine = engine();
    let (x, y) = (numbers(1), numbers(4));
    let input: Vec<f32> = (0..N * N).map(|i| ((i * 13) % 29) as f32 - 14.0).collect();
    let [u, v] = [&x, &y].map(|v| Tensor::from_slice(&engine, v, &[N]).unwrap());
    let signature = [(vec![N, N], DType::F32)];
    let first = Frozen::capture(&engine, &signature, |inputs| {
        Ok(vec![differences(&v, &u)?.matmul(&inputs[0])?])
    })
    .unwrap();
    let second = Frozen::capture(&engine, &signature, |inputs| {
        // The kernel meets `u` in the other operand first.
        let scaled = inputs[0].mul(&u.reshape(&[N, 1])?)?;
        Ok(vec![differences(&u, &v)?.matmul(&scaled)?])
    })
    .unwrap();
    let given = Tensor::from_slice(&engine, &input, &[N, N]).unwrap();
    let product = |a: &dyn Fn(usize, usize) -> f32, b: &dyn Fn(usize, usize) -> f32| {
        let at = |n: usize| (0..N).map(|k| a(n / N, k) * b(k, n % N)).sum::<f32>();
        (0..N * N).map(at).collect::<Vec<f32>>()
    };
    let one = first.call(std::slice::from_ref(&given)).unwrap()[0]
        .to_vec::<f32>()
        .unwrap();
    let two = second.call(std::slice::from_ref(&given)).unwrap()[0]
        .to_vec::<f32>()
        .unwrap();
    // Small integers: exact in any order.
    let expected = product(&|i, k| y[i] - x[k], &|k, j| input[k * N + j]);
    assert!(one == expected, "f(y, x)");
    let expected = product(&|i, k| x[i] - y[k], &|k, j| input[k * N + j] * x[k]);
    assert!(two == expected, "f(x, y)");
}
