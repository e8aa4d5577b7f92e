//! Decomposed operations, executed by the interpreter, against the laws and against binary64.
use crate::rng;

use codegen::DType;
use codegen::interp::{self, scalar};
use codegen::ir::{Binary, Graph, Id, Kernel, Op, ParamInfo, RangeKind, StoreMode, Unary};
use codegen::lower::decomp::{Caps, TypeSet, decompose};
use codegen::rewrite::toposort;
use rng::Rng;

/// A processor with nothing but the plain instructions, not even conversions of f16.
fn bare() -> Caps {
    Caps {
        cast: Caps::NONE.with_casts(TypeSet::WIDE, TypeSet::WIDE).cast,
        ..Caps::PLAIN
    }
}

/// `f` over columns of inputs, decomposed.
fn map(
    caps: &Caps,
    types: &[DType],
    columns: &[Vec<u64>],
    f: impl Fn(&mut Graph, &[Id]) -> Id,
) -> Vec<u64> {
    let n = columns[0].len();
    let mut g = Graph::new();
    let r = g.range(0, n as i64, RangeKind::Loop);
    let mut args = Vec::new();
    for (i, &dtype) in types.iter().enumerate() {
        let p = g.param(i as u16, dtype);
        args.push(g.load(p, r));
    }
    let y = f(&mut g, &args);
    let dtype = g.dtype(y);
    let out = g.param(types.len() as u16, dtype);
    let store = g.store(StoreMode::Set, out, r, y, None);
    let sink = g.sink(&[store]);
    let sink = decompose(&mut g, sink, caps);
    for id in toposort(&g, sink) {
        let of = g.src(id).first().map_or(g.dtype(id), |&s| g.dtype(s));
        match g.op(id) {
            Op::Unary(op) if op.is_function() => panic!("{op:?} is left"),
            Op::Binary(Binary::Pow | Binary::FloorDiv | Binary::FloorMod) => panic!("left"),
            Op::Binary(op) if of.is_float() && of.size() < 4 => panic!("{op:?} of {of} is left"),
            Op::Cast => assert!(
                caps.has_cast(of, g.dtype(id)),
                "cast {of} to {}",
                g.dtype(id)
            ),
            _ => {}
        }
    }
    let mut params = Vec::new();
    let mut buffers = Vec::new();
    for (&dtype, column) in types.iter().zip(columns) {
        let mut bytes = vec![0; n * dtype.size()];
        for (&bits, to) in column.iter().zip(bytes.chunks_mut(dtype.size())) {
            scalar::write(bits, to);
        }
        buffers.push(bytes);
        params.push(ParamInfo {
            dtype,
            len: n,
            written: false,
            constant: false,
        });
    }
    buffers.push(vec![0; n * dtype.size()]);
    params.push(ParamInfo {
        dtype,
        len: n,
        written: true,
        constant: false,
    });
    let kernel = Kernel {
        name: "map".into(),
        graph: g,
        sink,
        params,
        vars: 0,
    };
    codegen::ir::verify::verify(&kernel).unwrap();
    interp::run(&kernel, &mut buffers, &[]).unwrap();
    let out = buffers.pop().unwrap();
    out.chunks(dtype.size())
        .map(|b| scalar::read(dtype, b))
        .collect()
}

/// Distance of `got` from the real number `want` in units of the last place of `want`.
fn ulps(dtype: DType, got: u64, want: f64) -> f64 {
    let got = scalar::to_f64(dtype, got);
    let rounded = scalar::to_f64(dtype, scalar::from_f64(dtype, want));
    if got.is_nan() || rounded.is_nan() {
        return if got.is_nan() && rounded.is_nan() {
            0.0
        } else {
            f64::INFINITY
        };
    }
    if got == rounded {
        return 0.0;
    }
    let (digits, least) = if dtype == DType::F32 {
        (23, -149)
    } else {
        (52, -1074)
    };
    let exponent = (want.abs().log2().floor() as i32 - digits).max(least);
    // Scale first: the unit itself can be subnormal.
    let unit = |x: f64| x * 2f64.powi(-exponent / 2) * 2f64.powi(-exponent - -exponent / 2);
    (unit(got) - unit(want)).abs()
}

fn worst(
    dtype: DType,
    columns: &[Vec<u64>],
    want: impl Fn(&[f64]) -> f64,
    f: impl Fn(&mut Graph, &[Id]) -> Id,
) -> f64 {
    let types = vec![dtype; columns.len()];
    let got = map(&Caps::PLAIN, &types, columns, f);
    let mut max = (0.0, Vec::new());
    for (i, &got) in got.iter().enumerate() {
        let args: Vec<f64> = columns
            .iter()
            .map(|c| scalar::to_f64(dtype, c[i]))
            .collect();
        let error = ulps(dtype, got, want(&args));
        assert!(
            error.is_finite(),
            "{dtype} {args:?}: {} instead of {}",
            scalar::to_f64(dtype, got),
            want(&args)
        );
        if error > max.0 {
            max = (error, args);
        }
    }
    println!(
        "{dtype}: {:.3} units in the last place at {:?}",
        max.0, max.1
    );
    max.0
}

const SPECIAL: [f64; 22] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    0.5,
    -0.5,
    3.0,
    -3.0,
    1e-40,
    -1e-40,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    5e-324,
    f64::MAX,
    f64::MIN,
    3.4028234e38,
    -126.0,
    127.999,
    1024.0,
];

/// Numbers from an interval, with the special ones.
fn column(rng: &mut Rng, dtype: DType, n: usize, lo: f64, hi: f64) -> Vec<u64> {
    let unit = |rng: &mut Rng| (rng.next() >> 11) as f64 / (1u64 << 53) as f64;
    let mut all: Vec<u64> = SPECIAL
        .iter()
        .map(|&x| scalar::from_f64(dtype, x))
        .collect();
    all.extend((0..n).map(|_| scalar::from_f64(dtype, lo + (hi - lo) * unit(rng))));
    all
}

/// Any bits at all.
fn bits(rng: &mut Rng, dtype: DType, n: usize) -> Vec<u64> {
    let mut all: Vec<u64> = if dtype.is_float() {
        SPECIAL
            .iter()
            .map(|&x| scalar::from_f64(dtype, x))
            .collect()
    } else {
        (-3..=3).map(|x| scalar::from_int(dtype, x)).collect()
    };
    all.extend((0..n).map(|_| {
        let raw = rng.next() >> (64 - dtype.bits());
        if dtype.is_float() {
            raw
        } else {
            scalar::from_int(dtype, raw.into())
        }
    }));
    all
}

#[test]
fn exp2_is_accurate() {
    let mut rng = Rng::seeded(21);
    let f = |g: &mut Graph, x: &[Id]| g.unary(Unary::Exp2, x[0]);
    let want = |x: &[f64]| x[0].exp2();
    for (lo, hi) in [(-160.0, 130.0), (-1.0, 1.0), (-150.0, -125.0)] {
        let x = column(&mut rng, DType::F32, 40_000, lo, hi);
        assert!(worst(DType::F32, &[x], want, f) <= 2.0);
    }
    for (lo, hi) in [(-1100.0, 1030.0), (-1.0, 1.0), (-1075.0, -1020.0)] {
        let x = column(&mut rng, DType::F64, 40_000, lo, hi);
        assert!(worst(DType::F64, &[x], want, f) <= 4.0);
    }
    let whole: Vec<u64> = (-149..=127)
        .map(|n| u64::from((n as f32).to_bits()))
        .collect();
    assert_eq!(worst(DType::F32, &[whole], want, f), 0.0);
}

/// Every function of `f32`, as it is where a target has nothing of it.
#[test]
fn functions_of_singles_are_accurate() {
    let mut rng = Rng::seeded(25);
    for &op in Unary::ALL.iter().filter(|op| op.is_function()) {
        let f = |g: &mut Graph, x: &[Id]| g.unary(op, x[0]);
        let float = op.row().float.unwrap();
        let limit = match op {
            Unary::Exp | Unary::Log => 1.0,
            _ => 2.0,
        };
        let mut x = bits(&mut rng, DType::F32, 6000);
        for (lo, hi) in [(-1.0, 1.0), (0.0, 3.0), (-20.0, 20.0), (-110.0, 110.0)] {
            x.extend(column(&mut rng, DType::F32, 2000, lo, hi));
        }
        let error = worst(DType::F32, &[x], |x| float(x[0]), f);
        assert!(error <= limit, "{op:?}: {error}");
    }
}

#[test]
fn log2_is_accurate() {
    let mut rng = Rng::seeded(22);
    let f = |g: &mut Graph, x: &[Id]| g.unary(Unary::Log2, x[0]);
    let want = |x: &[f64]| x[0].log2();
    for dtype in [DType::F32, DType::F64] {
        let limit = if dtype == DType::F32 { 2.0 } else { 4.0 };
        for (lo, hi) in [(0.0, 10.0), (0.9, 1.1), (0.99999, 1.00001), (0.6, 1.5)] {
            let x = column(&mut rng, dtype, 30_000, lo, hi);
            assert!(worst(dtype, &[x], want, f) <= limit);
        }
        let x = bits(&mut rng, dtype, 30_000);
        assert!(worst(dtype, &[x], want, f) <= limit);
    }
}

#[test]
fn sin_is_accurate() {
    let mut rng = Rng::seeded(23);
    let f = |g: &mut Graph, x: &[Id]| g.unary(Unary::Sin, x[0]);
    let want = |x: &[f64]| x[0].sin();
    for dtype in [DType::F32, DType::F64] {
        for (lo, hi) in [(-4.0, 4.0), (-1e5, 1e5), (1e7, 1e9), (1e15, 1e18)] {
            let x = column(&mut rng, dtype, 8_000, lo, hi);
            assert!(worst(dtype, &[x], want, f) <= 4.0);
        }
        // Multiples of pi/2, where the sine cancels most.
        let k: Vec<f64> = (1..6000)
            .map(|k| f64::from(k) * std::f64::consts::FRAC_PI_2)
            .collect();
        let x = k.iter().map(|&x| scalar::from_f64(dtype, x)).collect();
        assert!(worst(dtype, &[x], want, f) <= 4.0);
        let x = bits(&mut rng, dtype, 20_000);
        assert!(worst(dtype, &[x], want, f) <= 4.0);
    }
    // The worst known case of binary64: 6381956970095103 * 2^797 is 2^-61 from a multiple of pi/2.
    let hard = 6381956970095103.0 * 2f64.powi(797);
    assert!(worst(DType::F64, &[vec![hard.to_bits()]], want, f) <= 4.0);
}

#[test]
fn pow_is_accurate() {
    let mut rng = Rng::seeded(24);
    let f = |g: &mut Graph, x: &[Id]| g.binary(Binary::Pow, x[0], x[1]);
    let want = |x: &[f64]| x[0].powf(x[1]);
    let mut pairs = (Vec::new(), Vec::new());
    for a in SPECIAL {
        for b in SPECIAL {
            pairs.0.push(a);
            pairs.1.push(b);
        }
    }
    for dtype in [DType::F32, DType::F64] {
        let bits_of = |v: &[f64]| v.iter().map(|&x| scalar::from_f64(dtype, x)).collect();
        let limit = if dtype == DType::F32 { 2.0 } else { 4.0 };
        assert!(worst(dtype, &[bits_of(&pairs.0), bits_of(&pairs.1)], want, f) <= limit);
        for (hi, e) in [(10.0, 30.0), (1e3, 80.0), (2.0, 1e3), (1.001, 1e5)] {
            let x = column(&mut rng, dtype, 15_000, 0.0, hi);
            let y = column(&mut rng, dtype, 15_000, -e, e);
            assert!(worst(dtype, &[x, y], want, f) <= limit);
        }
        let (x, y) = (
            bits(&mut rng, dtype, 10_000),
            column(&mut rng, dtype, 10_000, -9.0, 9.0),
        );
        assert!(worst(dtype, &[x, y], want, f) <= limit);
        let x = column(&mut rng, dtype, 5_000, -20.0, 20.0);
        let y: Vec<u64> = x
            .iter()
            .map(|_| scalar::from_f64(dtype, rng.int(-9, 9) as f64))
            .collect();
        assert!(worst(dtype, &[x, y], want, f) <= limit);
    }
}

/// Exactly the laws: bits equal, but for the bits of a NaN.
fn assert_exact(
    caps: &Caps,
    types: &[DType],
    columns: &[Vec<u64>],
    what: &str,
    law: impl Fn(&[u64]) -> u64,
    f: impl Fn(&mut Graph, &[Id]) -> Id,
) {
    let mut g = Graph::new();
    let args: Vec<Id> = types
        .iter()
        .enumerate()
        .map(|(i, &t)| g.param(i as u16, t))
        .collect();
    let made = f(&mut g, &args);
    let result = g.dtype(made);
    let got = map(caps, types, columns, f);
    for (i, &got) in got.iter().enumerate() {
        let args: Vec<u64> = columns.iter().map(|c| c[i]).collect();
        let want = law(&args);
        let nan = |b| result.is_float() && scalar::to_f64(result, b).is_nan();
        assert!(
            got == want || nan(got) && nan(want),
            "{what} {args:x?}: {got:#x} instead of {want:#x}"
        );
    }
}

#[test]
fn integer_division_and_shifts_follow_the_laws() {
    let mut rng = Rng::seeded(25);
    for dtype in DType::ALL.into_iter().filter(|d| d.is_int()) {
        let lo = scalar::from_int(dtype, scalar::int_limits(dtype).0);
        let mut x = bits(&mut rng, dtype, 2000);
        let mut y = bits(&mut rng, dtype, 2000);
        for a in [-3, -2, -1, 0, 1, 2, 3, 7] {
            for b in [-3, -2, -1, 0, 1, 2, 3, 31, 40, 64, 65] {
                x.extend([scalar::from_int(dtype, a), lo]);
                y.extend([scalar::from_int(dtype, b); 2]);
            }
        }
        for op in [
            Binary::FloorDiv,
            Binary::FloorMod,
            Binary::TruncDiv,
            Binary::TruncMod,
            Binary::Shl,
            Binary::Shr,
        ] {
            let law = |a: &[u64]| scalar::binary(op, dtype, a[0], a[1]).unwrap();
            let what = format!("{op:?} {dtype}");
            let f = |g: &mut Graph, x: &[Id]| g.binary(op, x[0], x[1]);
            let columns = [x.clone(), y.clone()];
            assert_exact(&bare(), &[dtype, dtype], &columns, &what, law, f);
            for c in [-8, -3, 1, 2, 7, 8, 0] {
                let c = scalar::from_int(dtype, c);
                let law = |a: &[u64]| scalar::binary(op, dtype, a[0], c).unwrap();
                let f = |g: &mut Graph, x: &[Id]| {
                    let c = g.bits(dtype, c);
                    g.binary(op, x[0], c)
                };
                assert_exact(&bare(), &[dtype], &[x.clone()], &what, law, f);
            }
        }
    }
}

#[test]
fn every_cast_follows_the_laws() {
    let mut rng = Rng::seeded(26);
    for from in DType::ALL {
        let mut x = bits(&mut rng, from, 4000);
        if from.bits() <= 16 && from != DType::Bool {
            x = (0..1u64 << from.bits())
                .map(|b| {
                    if from.is_float() {
                        b
                    } else {
                        scalar::from_int(from, b.into())
                    }
                })
                .collect();
        }
        if from.is_float() && from.size() >= 4 {
            // Near every value of the narrow types, ties included.
            for small in [DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2] {
                for _ in 0..2000 {
                    let a = scalar::to_f64(small, rng.next() & ((1 << small.bits()) - 1));
                    let ulp = rng.pick(&[0.0, 0.5, 0.25, -0.5]) * rng.pick(&[1.0, 1.0000001, 0.1]);
                    let x_ = a * (1.0 + ulp * 2f64.powi(-rng.pick(&[2, 3, 7, 10])));
                    x.push(scalar::from_f64(from, x_));
                }
            }
        }
        if from == DType::Bool {
            x = vec![0, 1];
        }
        for to in DType::ALL {
            let law = |a: &[u64]| scalar::cast(from, to, a[0]);
            let f = |g: &mut Graph, x: &[Id]| g.cast(x[0], to);
            for caps in [bare(), Caps::PLAIN] {
                assert_exact(
                    &caps,
                    &[from],
                    &[x.clone()],
                    &format!("{from} to {to}"),
                    law,
                    f,
                );
            }
        }
    }
}

#[test]
fn float_arithmetic_follows_the_laws() {
    let mut rng = Rng::seeded(27);
    for dtype in DType::ALL.into_iter().filter(|d| d.is_float()) {
        let mut x = bits(&mut rng, dtype, 3000);
        let mut y = bits(&mut rng, dtype, 3000);
        for a in SPECIAL {
            for b in SPECIAL {
                x.push(scalar::from_f64(dtype, a));
                y.push(scalar::from_f64(dtype, b));
            }
        }
        let takes = |op: &&Binary| op.row().types.has(dtype) && **op != Binary::Pow;
        for &op in Binary::ALL.iter().filter(takes) {
            let law = |a: &[u64]| scalar::binary(op, dtype, a[0], a[1]).unwrap();
            let f = |g: &mut Graph, x: &[Id]| g.binary(op, x[0], x[1]);
            let columns = [x.clone(), y.clone()];
            let what = format!("{op:?} {dtype}");
            assert_exact(&bare(), &[dtype, dtype], &columns, &what, law, f);
        }
        let takes = |op: &&Unary| op.row().types.has(dtype) && !op.is_function();
        for &op in Unary::ALL.iter().filter(takes) {
            let law = |a: &[u64]| scalar::unary(op, dtype, a[0]).unwrap();
            let f = |g: &mut Graph, x: &[Id]| g.unary(op, x[0]);
            assert_exact(
                &bare(),
                &[dtype],
                &[x.clone()],
                &format!("{op:?} {dtype}"),
                law,
                f,
            );
        }
    }
}

/// A GPU without doubles and without a fused multiply-add.
fn narrow() -> Caps {
    const NUMBERS: TypeSet = TypeSet::BITS.and(TypeSet::of(&[DType::F32]));
    Caps {
        cast: Caps::NONE
            .with_casts(NUMBERS, NUMBERS)
            .with_half_casts()
            .cast,
        fma: TypeSet::NONE,
        ..Caps::PLAIN
    }
}

/// Functions of `f32` without `f64`: a few units more are lost, and no node is a double.
#[test]
fn functions_without_doubles() {
    let mut rng = Rng::seeded(29);
    let check = |op: Unary, xs: &[u64], want: fn(f64) -> f64, limit: f64| {
        let got = map(&narrow(), &[DType::F32], &[xs.to_vec()], |g, a| {
            g.unary(op, a[0])
        });
        let mut most = (0.0, 0.0);
        for (&x, &got) in xs.iter().zip(&got) {
            let x = scalar::to_f64(DType::F32, x);
            let error = ulps(DType::F32, got, want(x));
            if error > most.0 {
                most = (error, x);
            }
        }
        println!("{op:?}: {} units in the last place at {}", most.0, most.1);
        assert!(most.0 <= limit, "{op:?}: {} at {}", most.0, most.1);
    };
    for (low, high) in [(-10.0, 10.0), (-10_000.0, 10_000.0), (-3e38, 3e38)] {
        let xs = column(&mut rng, DType::F32, 20_000, low, high);
        check(Unary::Sin, &xs, f64::sin, 4.0);
        check(Unary::Cos, &xs, f64::cos, 4.0);
        check(Unary::Tan, &xs, f64::tan, 6.0);
    }
    let xs = column(&mut rng, DType::F32, 20_000, -20.0, 20.0);
    check(Unary::Exp, &xs, f64::exp, 3.0);
    check(Unary::Tanh, &xs, f64::tanh, 3.0);
    check(Unary::Log, &xs, f64::ln, 3.0);
    check(Unary::Atan, &xs, f64::atan, 3.0);
    let xs = column(&mut rng, DType::F32, 20_000, 0.0, 100.0);
    let ys = column(&mut rng, DType::F32, 20_000, -20.0, 20.0);
    let types = [DType::F32; 2];
    let got = map(&narrow(), &types, &[xs.clone(), ys.clone()], |g, a| {
        g.binary(Binary::Pow, a[0], a[1])
    });
    for ((&x, &y), &got) in xs.iter().zip(&ys).zip(&got) {
        let [x, y] = [x, y].map(|v| scalar::to_f64(DType::F32, v));
        let error = ulps(DType::F32, got, x.powf(y));
        assert!(error <= 16.0, "{x}^{y}: {error}");
    }
}
