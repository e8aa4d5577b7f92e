//! Simplification around conversions, against the interpreter: all types in all places, on the
//! values at which types end and on random ones.
use crate::rng;

use codegen::DType;
use codegen::interp::scalar;
use codegen::ir::{Binary, Graph, Id, Kernel, Op, ParamInfo, RangeKind, StoreMode};
use codegen::rewrite::simplify;
use rng::Rng;

const LEN: i64 = 64;

/// Elements of a type: its edges, those of other types, random ones.
fn input(dtype: DType, rng: &mut Rng) -> Vec<u8> {
    let mut values: Vec<u64> = Vec::new();
    if dtype.is_float() {
        let all = [
            0.0,
            1.0,
            0.5,
            1.5,
            2.5,
            127.5,
            128.5,
            255.5,
            65535.0,
            65536.0,
            2f64.powi(31),
            2f64.powi(63),
            1e19,
            1e-30,
            f64::INFINITY,
            f64::NAN,
        ];
        for x in all {
            values.push(scalar::from_f64(dtype, x));
            values.push(scalar::from_f64(dtype, -x));
        }
    } else {
        for base in edges(dtype) {
            values.extend([base - 1, base, base + 1].map(|x| scalar::from_int(dtype, x)));
        }
    }
    while values.len() < LEN as usize {
        let bits = rng.next() >> rng.below(64);
        values.push(scalar::cast(DType::U64, dtype, bits));
    }
    let mut bytes = vec![0; values.len() * dtype.size()];
    for (at, &bits) in bytes.chunks_mut(dtype.size()).zip(&values) {
        scalar::write(bits, at);
    }
    bytes
}

fn edges(dtype: DType) -> [i128; 8] {
    let (lo, hi) = scalar::int_limits(dtype);
    [0, lo, hi, 1 << 7, 1 << 8, 1 << 15, 1 << 24, 1 << 53]
}

/// A value of an element that is loaded at `r`, before and after simplification.
fn check(mut g: Graph, r: Id, from: DType, value: Id, rng: &mut Rng) -> bool {
    let new = simplify(&mut g, value);
    if new == value {
        return false;
    }
    let to = g.dtype(value);
    assert_eq!(g.dtype(new), to);
    let [before, after] = [value, new].map(|v| codegen::ir::print::print(&g, v));
    let stores = [(1, value), (2, new)].map(|(slot, v)| {
        let out = g.param(slot, to);
        g.store(StoreMode::Set, out, r, v, None)
    });
    let sink = g.sink(&stores);
    let info = |dtype, written| ParamInfo {
        dtype,
        len: LEN as usize,
        written,
        constant: false,
    };
    let kernel = Kernel {
        name: "casts".into(),
        graph: g,
        sink,
        params: vec![info(from, false), info(to, true), info(to, true)],
        vars: 0,
    };
    let out = vec![0; LEN as usize * to.size()];
    let mut buffers = vec![input(from, rng), out.clone(), out];
    codegen::interp::run(&kernel, &mut buffers, &[]).unwrap();
    let read = |slot: usize, dtype: DType, i: usize| {
        let bits = scalar::read(dtype, &buffers[slot][i * dtype.size()..][..dtype.size()]);
        let nan = dtype.is_float() && scalar::to_f64(dtype, bits).is_nan();
        // Which NaN is not fixed.
        if nan { u64::MAX } else { bits }
    };
    for i in 0..LEN as usize {
        let (x, a, b) = (read(0, from, i), read(1, to, i), read(2, to, i));
        assert_eq!(a, b, "of {from} {x:#x}; before:\n{before}after:\n{after}");
    }
    true
}

/// An element of a type, any or (integers only) from 0 to 99.
fn element(g: &mut Graph, dtype: DType, bounded: bool) -> (Id, Id) {
    let r = g.range(0, LEN, RangeKind::Loop);
    let p = g.param(0, dtype);
    let mut x = g.load(p, r);
    if bounded && dtype.is_int() {
        let top = g.bits(dtype, scalar::from_int(dtype, 100));
        x = g.binary(Binary::FloorMod, x, top);
    }
    (r, x)
}

#[test]
fn chains_of_casts() {
    let mut rng = Rng::seeded(6);
    let mut changed = 0;
    for from in DType::ALL {
        for middle in DType::ALL {
            for to in DType::ALL {
                for bounded in [false, true] {
                    let mut g = Graph::new();
                    let (r, mut value) = element(&mut g, from, bounded);
                    for dtype in [middle, to, rng.pick(&DType::ALL)] {
                        value = g.add(Op::Cast, dtype, &[value]);
                    }
                    changed += usize::from(check(g, r, from, value, &mut rng));
                }
            }
        }
    }
    assert!(changed > 2000, "only {changed} chains were simplified");
}

/// Arithmetic and comparison of something cast with a constant, or with the index cast.
#[test]
fn casts_below_arithmetic() {
    const OPS: [Binary; 10] = [
        Binary::Add,
        Binary::Sub,
        Binary::Mul,
        Binary::FloorDiv,
        Binary::FloorMod,
        Binary::Max,
        Binary::Min,
        Binary::Lt,
        Binary::Eq,
        Binary::Ne,
    ];
    let mut rng = Rng::seeded(7);
    let mut changed = 0;
    for from in DType::ALL {
        for middle in DType::ALL {
            for op in OPS {
                let one = scalar::constant(middle, 1);
                if scalar::binary(op, middle, one, one).is_none() {
                    continue;
                }
                for round in 0..8 {
                    let mut g = Graph::new();
                    let (r, x) = element(&mut g, from, round % 2 == 0);
                    let a = g.add(Op::Cast, middle, &[x]);
                    let b = if round < 3 {
                        // An index, moved so that some of it leaves a narrow type.
                        let offset = g.index(rng.pick(&[-300, -32, 0, 100, 230]));
                        let moved = g.binary(Binary::Add, r, offset);
                        g.add(Op::Cast, middle, &[moved])
                    } else if !middle.is_float() {
                        let k = rng.pick(&edges(middle)) + rng.int(-1, 1) as i128;
                        g.bits(middle, scalar::from_int(middle, k))
                    } else {
                        let k = rng.int(-2, 2) as f64 * 0.5;
                        g.bits(middle, scalar::from_f64(middle, k))
                    };
                    let mut value = if rng.below(2) == 0 {
                        g.binary(op, a, b)
                    } else {
                        g.binary(op, b, a)
                    };
                    if rng.below(2) == 0 {
                        value = g.add(Op::Cast, rng.pick(&DType::ALL), &[value]);
                    }
                    changed += usize::from(check(g, r, from, value, &mut rng));
                }
            }
        }
    }
    assert!(changed > 2000, "only {changed} expressions were simplified");
}
