//! Sorting of axes that are too long to compare every element with every other.

use std::cmp::Ordering;

use super::support;
use tensor::{DType, Engine, Jit, Rng, Tensor, gradients};

/// Long enough that the elements are not counted.
const LONG: usize = 3000;

/// The order of sorting: NaN above everything, and equal to itself.
fn order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn positions(row: &[f64], descending: bool) -> Vec<i32> {
    let mut at: Vec<i32> = (0..row.len() as i32).collect();
    at.sort_by(|&a, &b| {
        let (a, b) = (row[a as usize], row[b as usize]);
        if descending { order(b, a) } else { order(a, b) }
    });
    at
}

/// Numbers with many equals, both zeros, infinities, NaN, and some that are hardly there.
fn odd(n: usize, dtype: DType) -> Vec<f64> {
    let mut word = 12345u32;
    let special = [
        0.0,
        -0.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -f64::NAN,
        1e-40,
        -1e-40,
    ];
    (0..n)
        .map(|i| {
            word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match i % 5 {
                0 if dtype.is_float() => special[word as usize >> 8 & 7],
                1 => f64::from(word >> 28) - 8.0,
                _ => f64::from(word as i32) / 2f64.powi(if dtype.bits() > 16 { 3 } else { 24 }),
            }
        })
        .collect()
}

#[test]
fn long_axes_of_every_type() {
    let e = support::engine();
    for dtype in [
        DType::Bool,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::F8E4M3,
        DType::F8E5M2,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ] {
        let x = Tensor::from_slice(&e, &odd(LONG, dtype), &[LONG]).unwrap();
        let x = x.cast(dtype).unwrap().contiguous().unwrap();
        let row = x.to_f64_vec().unwrap();
        for descending in [false, true] {
            let (values, from) = x.sort(0, descending).unwrap();
            let from = from.to_vec::<i32>().unwrap();
            assert!(from == positions(&row, descending), "{dtype} {descending}");
            let values = values.to_f64_vec().unwrap();
            let same =
                (values.iter().zip(&from)).all(|(v, &i)| v.to_bits() == row[i as usize].to_bits());
            assert!(same, "{dtype} {descending}");
        }
    }
}

/// 64-bit numbers that differ in the bits that a double does not hold.
#[test]
fn wide_numbers_are_sorted_by_all_bits() {
    let e = support::engine();
    let mut word = 1u64;
    let numbers: Vec<i64> = (0..LONG)
        .map(|i| {
            word = word
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            if i % 3 == 0 {
                i64::MAX - (word >> 60) as i64
            } else {
                word as i64
            }
        })
        .collect();
    let x = Tensor::from_slice(&e, &numbers, &[LONG]).unwrap();
    let mut want = numbers.clone();
    want.sort();
    let (values, _) = x.sort(0, false).unwrap();
    assert!(values.to_vec::<i64>().unwrap() == want);
}

#[test]
fn rows_and_columns() {
    let e = support::engine();
    let (rows, n) = (24, 701);
    let numbers = odd(rows * n, DType::F32);
    let x = Tensor::from_slice(&e, &numbers, &[4, 6, n])
        .unwrap()
        .cast(DType::F32)
        .unwrap();
    let x = x.contiguous().unwrap();
    let row = x.to_f64_vec().unwrap();
    let want: Vec<i32> = row.chunks(n).flat_map(|row| positions(row, true)).collect();
    assert!(x.argsort(-1, true).unwrap().to_vec::<i32>().unwrap() == want);
    // The same along the first axis.
    let turned = x.move_axis(-1, 0).unwrap().contiguous().unwrap();
    let found = turned.argsort(0, true).unwrap().move_axis(0, -1).unwrap();
    assert!(found.to_vec::<i32>().unwrap() == want);
    // Ranks say where each element went.
    let ranks = x.ranks(2, true).unwrap();
    let back = x.argsort(2, true).unwrap().gather(2, &ranks).unwrap();
    assert!(
        back.eq(x.positions(2).unwrap())
            .unwrap()
            .all(&[], false)
            .unwrap()
            .item::<bool>()
            .unwrap()
    );
}

#[test]
fn the_reference_sorts_alike() {
    let e = Engine::reference();
    let (rows, n) = (3, 1700);
    let numbers = odd(rows * n, DType::U8);
    let x = Tensor::from_slice(&e, &numbers, &[rows, n]).unwrap();
    let x = x.cast(DType::U8).unwrap().contiguous().unwrap();
    let row = x.to_f64_vec().unwrap();
    let want: Vec<i32> = row
        .chunks(n)
        .flat_map(|row| positions(row, false))
        .collect();
    assert!(x.argsort(1, false).unwrap().to_vec::<i32>().unwrap() == want);
}

#[test]
fn gradients_go_where_the_elements_came_from() {
    let e = support::engine();
    let x = Tensor::from_slice(&e, &odd(LONG, DType::I32), &[LONG]).unwrap();
    let x = x.cast(DType::F32).unwrap().contiguous().unwrap();
    let weight = x.positions(0).unwrap().cast(DType::F32).unwrap();
    let (values, _) = x.sort(0, false).unwrap();
    let loss = values.mul(&weight).unwrap().sum(&[], false).unwrap();
    let slope = gradients(&loss, &[&x]).unwrap()[0].to_vec::<f32>().unwrap();
    for (rank, from) in positions(&x.to_f64_vec().unwrap(), false)
        .into_iter()
        .enumerate()
    {
        assert_eq!(slope[from as usize], rank as f32);
    }
}

#[test]
fn captured_functions_sort() {
    let e = support::engine();
    let f = Jit::new(&e, |x: &[Tensor]| Ok(vec![x[0].argsort(0, false)?]));
    let mut rng = Rng::new(&e, 3);
    for _ in 0..4 {
        let x = rng.randn(&[LONG], DType::F32).unwrap();
        let row = x.to_f64_vec().unwrap();
        let found = f.call(&[x]).unwrap()[0].to_vec::<i32>().unwrap();
        assert!(found == positions(&row, false));
    }
}

/// A hundred thousand elements took seconds; a million, minutes, and an error.
#[test]
fn hundred_thousand_elements() {
    let e = support::engine();
    let mut rng = Rng::new(&e, 9);
    let n = 100_000;
    let mut all = rng.randperm(n).unwrap().to_vec::<i32>().unwrap();
    let moved = all
        .iter()
        .enumerate()
        .filter(|&(i, &x)| i as i32 != x)
        .count();
    assert!(moved > n / 2);
    all.sort_unstable();
    assert!(all.iter().enumerate().all(|(i, &x)| i as i32 == x));
    let x = rng.randn(&[n], DType::F32).unwrap();
    let row = x.to_f64_vec().unwrap();
    let want = positions(&row, true);
    for k in [7, 1000] {
        let (_, from) = x.topk(k, 0, true).unwrap();
        assert!(from.to_vec::<i32>().unwrap() == want[..k], "{k}");
    }
    let (sorted, _) = x.sort(0, false).unwrap();
    let edges = sorted.to_vec::<f32>().unwrap();
    let some = x.narrow(0, 0, 2000).unwrap();
    let values = some.to_vec::<f32>().unwrap();
    for right in [false, true] {
        let found = sorted
            .searchsorted(&some, right)
            .unwrap()
            .to_vec::<i32>()
            .unwrap();
        for (v, at) in values.iter().zip(found) {
            let want = edges.partition_point(|e| if right { e <= v } else { e < v });
            assert_eq!(at as usize, want);
        }
    }
}

/// Numbers below the normal ones have an order, however the processor computes with them.
#[test]
fn tiny_numbers_are_sorted_by_their_bits() {
    let e = support::engine();
    for n in [8, LONG] {
        let odd = |i: usize| (i * 7919 % n) as u32;
        let bits: Vec<u32> = (0..n)
            .map(|i| odd(i) << 3 | (odd(i) & 1) << 31)
            .chain([0x7fc0_0000, 0, 1 << 31, 0xffc0_0000, 0x0080_0000])
            .collect();
        let numbers: Vec<f32> = bits.iter().map(|&b| f32::from_bits(b)).collect();
        let row: Vec<f64> = numbers.iter().map(|&x| f64::from(x)).collect();
        let x = Tensor::from_slice(&e, &numbers, &[row.len()]).unwrap();
        for descending in [false, true] {
            let found: Vec<i32> = x.argsort(0, descending).unwrap().to_vec().unwrap();
            assert!(
                found == positions(&row, descending),
                "{n} {descending}: {found:?}"
            );
            let ranks: Vec<i32> = x.ranks(0, descending).unwrap().to_vec().unwrap();
            let back: Vec<usize> = found.iter().map(|&i| ranks[i as usize] as usize).collect();
            assert!(back.into_iter().eq(0..row.len()), "{n} {descending}");
        }
    }
}

/// Positions need all bits of their type.
#[test]
fn long_vectors_are_searched() {
    let e = support::engine();
    let n = (1 << 30) + 5;
    let x = Tensor::full(&e, &[n], 1, DType::U8).unwrap();
    let values = Tensor::from_slice(&e, &[0u8, 1, 2], &[3]).unwrap();
    let found: Vec<i32> = x.searchsorted(&values, false).unwrap().to_vec().unwrap();
    assert_eq!(found, [0, 0, n as i32]);
    let found: Vec<i32> = x.searchsorted(&values, true).unwrap().to_vec().unwrap();
    assert_eq!(found, [0, n as i32, n as i32]);
    // Beyond what a position can say.
    let x = Tensor::full(&e, &[1 << 31], 1, DType::U8).unwrap();
    let error = x.searchsorted(&values, false).unwrap_err().to_string();
    assert!(
        error.contains("2147483648") && error.contains("i32"),
        "{error}"
    );
}
