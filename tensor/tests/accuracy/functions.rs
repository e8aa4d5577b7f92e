//! The elementary functions over their whole ranges, in units in the last place.

use codegen::Backend;
use conformance::part::Part;
use drivers_cpu::{Config, CpuDevice};
use tensor::exec::{DeviceExecutor, Options};
use tensor::{DType, Engine, Result, Tensor, bf16, f16};

use super::double::Double;
use crate::support::engine_of;

/// What a function may be wrong by.
pub struct Function {
    pub name: &'static str,
    pub of: fn(&Tensor) -> Result<Tensor>,
    /// The true value in `f64`, good enough for narrower types, and with twice the digits.
    pub want: fn(f64) -> f64,
    pub exact: Option<fn(Double) -> Double>,
    /// Units in the last place of `f32` or `f64` for an argument.
    pub most: fn(f64) -> f64,
}

macro_rules! functions {
    ($($name:ident, $want:expr, $exact:expr, $most:expr;)*) => {
        &[$(Function {
            name: stringify!($name),
            of: Tensor::$name,
            want: $want,
            exact: $exact,
            most: |_| $most,
        }),*]
    };
}

/// One that computes with subnormal numbers.
pub fn engine() -> Engine {
    engine_of(Config {
        subnormals: true,
        ..Config::default()
    })
}

/// The same by the renderer that has no functions of whole registers.
fn plain_engine() -> Engine {
    let config = Config {
        subnormals: true,
        cores: 2,
        ..Config::default()
    };
    let backend = Backend::find("CPU:CLANG", "", 2).unwrap();
    let device = CpuDevice::open(config).unwrap();
    DeviceExecutor::engine(device, backend, Options::default()).unwrap()
}

fn erf(x: f64) -> f64 {
    Double::of(x).erf().0
}

pub fn erfc(x: f64) -> f64 {
    match x {
        _ if x.is_infinite() => 1.0 - x.signum(),
        _ => Double::of(x).erfc().0,
    }
}

pub fn sigmoid(x: f64) -> f64 {
    if x < 0.0 {
        x.exp() / (1.0 + x.exp())
    } else {
        1.0 / (1.0 + (-x).exp())
    }
}

/// 10 to the power x: f64's own `powf` of ten has one rounding too many of its logarithm for large x.
fn exp10(x: Double) -> Double {
    (x * Double::of(10.0).ln()).exp()
}

/// Results that round to zero or to infinity, and the like, are compared where they are not.
const FUNCTIONS: &[Function] = functions! {
    sqrt, f64::sqrt, Some(Double::sqrt), 1.0;
    reciprocal, f64::recip, Some(|x| Double::ONE / x), 1.0;
    rsqrt, |x| x.sqrt().recip(), Some(|x| Double::ONE / x.sqrt()), 2.0;
    exp, f64::exp, Some(Double::exp), 1.0;
    exp2, f64::exp2, Some(Double::exp2), 2.0;
    exp10, |x| 10f64.powf(x), Some(exp10), 2.0;
    expm1, f64::exp_m1, Some(Double::exp_m1), 2.0;
    log, f64::ln, Some(Double::ln), 1.0;
    log2, f64::log2, Some(Double::log2), 2.0;
    log10, f64::log10, Some(Double::log10), 2.0;
    log1p, f64::ln_1p, Some(Double::ln_1p), 2.0;
    sin, f64::sin, Some(|x| x.sin_cos().0), 2.0;
    cos, f64::cos, Some(|x| x.sin_cos().1), 2.0;
    tan, f64::tan, Some(Double::tan), 2.0;
    asin, f64::asin, Some(Double::asin), 2.0;
    acos, f64::acos, Some(Double::acos), 2.0;
    atan, f64::atan, Some(Double::atan), 2.0;
    sinh, f64::sinh, Some(Double::sinh), 2.0;
    cosh, f64::cosh, Some(Double::cosh), 2.0;
    tanh, f64::tanh, Some(Double::tanh), 2.0;
    asinh, |x| Double::of(x).asinh().0, Some(Double::asinh), 2.0;
    acosh, |x| Double::of(x).acosh().0, Some(Double::acosh), 2.0;
    atanh, |x| Double::of(x).atanh().0, Some(Double::atanh), 2.0;
    erf, erf, Some(Double::erf), 2.0;
    erfc, erfc, Some(Double::erfc), 2.0;
    sigmoid, sigmoid, Some(|x| if x.0 < 0.0 { x.exp() / (Double::ONE + x.exp()) } else { Double::ONE / (Double::ONE + (-x).exp()) }), 2.0;
};

/// A float type: digits after the first, exponent of the smallest number, number of exponents.
#[derive(Clone, Copy)]
pub struct Format {
    dtype: DType,
    digits: i32,
    least: i32,
    most: i32,
}

pub const F32: Format = Format {
    dtype: DType::F32,
    digits: 23,
    least: -149,
    most: 127,
};
pub const F64: Format = Format {
    dtype: DType::F64,
    digits: 52,
    least: -1074,
    most: 1023,
};
pub const F16: Format = Format {
    dtype: DType::F16,
    digits: 10,
    least: -24,
    most: 15,
};
pub const BF16: Format = Format {
    dtype: DType::BF16,
    digits: 7,
    least: -133,
    most: 127,
};

impl Format {
    /// The distance of a number from the true one in units of its last place.
    fn ulps(self, got: f64, want: Double) -> f64 {
        if got.is_nan() || want.0.is_nan() {
            return if got.is_nan() && want.0.is_nan() {
                0.0
            } else {
                f64::INFINITY
            };
        }
        if got == want.0 && want.1 == 0.0 {
            return 0.0;
        }
        let largest = (2.0 - 2f64.powi(-self.digits)) * 2f64.powi(self.most);
        if want.0.abs() > largest {
            // It rounds to infinity, or to the largest number next to it.
            let near = want.0.abs() < largest * (1.0 + 2f64.powi(-self.digits));
            let right = got == want.0.signum() * f64::INFINITY || near && got.abs() == largest;
            return if right { 0.0 } else { f64::INFINITY };
        }
        if got.is_infinite() {
            let last = largest * (1.0 - 3.0 * 2f64.powi(-self.digits));
            return if want.0.abs() > last {
                1.0
            } else {
                f64::INFINITY
            };
        }
        let exponent = match want.0 {
            0.0 => self.least,
            x => ((x.abs().log2().floor() as i32) - self.digits).max(self.least),
        };
        // In two steps: the unit itself may be subnormal.
        let half = -exponent / 2;
        let scale = |x: f64| x * 2f64.powi(half) * 2f64.powi(-exponent - half);
        (scale(got) - scale(want.0) - scale(want.1)).abs()
    }
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Where functions are hard: near zeros, poles, ends, and the borders of what they are made of.
fn points() -> Vec<f64> {
    let mut all = vec![
        0.0,
        f64::INFINITY,
        f64::NAN,
        1e-310,
        5e-324,
        1e-40,
        f64::MAX,
    ];
    for near in [
        1.0,
        0.5,
        2.0,
        0.414213562,
        2.414213562,
        0.34657359,
        std::f64::consts::FRAC_1_SQRT_2,
        std::f64::consts::SQRT_2,
        4.0,
        8.66,
        9.0103,
        10.0,
        16.0,
        17.3287,
        20.0,
        80.0,
        88.3762,
        88.7228,
        89.4159,
        103.9721,
        127.9999,
        149.0,
        709.7827,
        710.4758,
        745.1332,
        8192.0,
        1e8,
        26.54,
        10.054,
        0.84375,
        1e-8,
    ] {
        for step in -3..=3 {
            all.push(near * (1.0 + f64::from(step) * 2f64.powi(-23)));
            all.push(near * (1.0 + f64::from(step) * 2f64.powi(-51)));
        }
    }
    for k in 1..200 {
        // The floats nearest to multiples of pi/2.
        let x = f64::from(k) * std::f64::consts::FRAC_PI_2;
        all.extend([x, f64::from(x as f32)]);
    }
    for n in -320..309 {
        all.push(format!("1e{n}").parse().unwrap());
    }
    let minus: Vec<f64> = all.iter().map(|x| -x).collect();
    all.extend(minus);
    all
}

/// All exponents evenly, those of ordinary numbers more often, and the hard points.
pub fn samples(format: Format, n: usize) -> Vec<f64> {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut all = points();
    if format.dtype == DType::F32 && Part::chosen().is_all() {
        let every = (0..=u32::MAX).step_by(1021).map(f32::from_bits);
        all.extend(every.map(f64::from));
    }
    for i in 0..n {
        let raw = random.next();
        let x = if format.dtype == DType::F32 {
            f64::from(f32::from_bits((raw >> 32) as u32))
        } else {
            f64::from_bits(raw)
        };
        let unit = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
        let ordinary = match i % 8 {
            0..3 => x,
            3 => 2.0 * unit - 1.0,
            4 => 20.0 * (unit - 0.5),
            5 => 200.0 * (unit - 0.5),
            6 => 1.0 + (unit - 0.5) / 1024.0,
            _ => (1.0 + unit) * 2f64.powi(-((raw % 40) as i32)),
        };
        all.push(ordinary);
    }
    all
}

/// The largest error of each function for these arguments, which have the type exactly.
pub fn check(
    functions: &[Function],
    format: Format,
    values: &[f64],
    arguments: &Tensor,
    most: Option<f64>,
) {
    let mut wrong = Vec::new();
    for f in functions {
        if format.dtype == DType::F64 && f.exact.is_none() {
            continue;
        }
        let y = (f.of)(arguments).unwrap();
        assert_eq!(y.dtype(), format.dtype);
        let got: Vec<f64> = y.cast(DType::F64).unwrap().to_vec().unwrap();
        let (mut worst, mut at) = (0.0, 0.0);
        let mut over: Option<String> = None;
        for (&got, &x) in got.iter().zip(values) {
            let want = match f.exact {
                Some(exact) if format.dtype == DType::F64 && reaches(f.name, x) => {
                    exact(Double::of(x))
                }
                _ => Double::of((f.want)(x)),
            };
            let error = format.ulps(got, want);
            if error > worst {
                (worst, at) = (error, x);
            }
            if error > most.unwrap_or_else(|| (f.most)(x)) && over.is_none() {
                over = Some(format!(
                    "{} of {x:e} in {}: {got:e} instead of {:e}, {error} ulp",
                    f.name, format.dtype, want.0
                ));
            }
        }
        println!(
            "{:12} {:5} {worst:10.3} at {at:e}",
            f.name,
            format.dtype.to_string()
        );
        wrong.extend(over);
    }
    let on = arguments.engine().name();
    assert!(wrong.is_empty(), "on {on}:\n{}", wrong.join("\n"));
}

/// Whether the numbers of twice the digits are of use: not at the ends, where `f64` says as much, nor for
/// angles of many turns.
fn reaches(name: &str, x: f64) -> bool {
    let angle = matches!(name, "sin" | "cos" | "tan");
    let end = matches!(name, "asin" | "acos" | "atanh") && x.abs() == 1.0;
    x.is_finite()
        && x != 0.0
        && !end
        && !(angle && x.abs() > 1e6)
        && !(x.abs() < 1e-290 || x.abs() > 1e290)
}

/// Checks for singles, doubles, and all numbers of the halves.
pub fn check_all(functions: &[Function]) {
    let e = engine();
    check_singles(&e, functions);
    let values = samples(F64, 1 << 13);
    let x = Tensor::from_slice(&e, &values, &[values.len()]).unwrap();
    check(functions, F64, &values, &x, None);
    let bits = 0..=u16::MAX;
    let values: Vec<f16> = bits.clone().map(f16::from_bits).collect();
    let x = Tensor::from_slice(&e, &values, &[values.len()]).unwrap();
    let exact: Vec<f64> = values.iter().map(|x| f64::from(*x)).collect();
    check(functions, F16, &exact, &x, Some(1.0));
    let values: Vec<bf16> = bits.map(bf16::from_bits).collect();
    let x = Tensor::from_slice(&e, &values, &[values.len()]).unwrap();
    let exact: Vec<f64> = values.iter().map(|x| f64::from(*x)).collect();
    check(functions, BF16, &exact, &x, Some(1.0));
}

fn check_singles(e: &Engine, functions: &[Function]) {
    let values: Vec<f32> = samples(F32, 1 << 17).iter().map(|&x| x as f32).collect();
    let x = Tensor::from_slice(e, &values, &[values.len()]).unwrap();
    let values: Vec<f64> = values.into_iter().map(f64::from).collect();
    check(functions, F32, &values, &x, None);
}

#[test]
fn elementary_functions() {
    check_all(FUNCTIONS);
}

#[test]
fn elementary_functions_without_whole_registers() {
    check_singles(&plain_engine(), FUNCTIONS);
}

/// Powers, of two arguments.
#[test]
fn powers() {
    let e = engine();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut pick = |from: f64, to: f64| {
        from + (to - from) * (random.next() >> 11) as f64 / (1u64 << 53) as f64
    };
    let n = 20_000;
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for i in 0..n {
        let size = 2f64.powf(pick(-120.0, 120.0));
        let (x, y) = match i % 4 {
            0 => (pick(0.5, 2.0), pick(-100.0, 100.0)),
            1 => (1.0 + pick(-1e-3, 1e-3), pick(-2e4, 2e4)),
            2 => (pick(0.0, 20.0), pick(-9.0, 9.0).round()),
            _ => (size, 80.0 / size.log2()),
        };
        a.push(x as f32);
        b.push(y as f32);
    }
    for format in [F32, F64, F16, BF16] {
        let [x, y] = [&a, &b].map(|v| Tensor::from_slice(&e, v, &[n]).unwrap());
        let [x, y] = [x, y].map(|t| t.cast(format.dtype).unwrap());
        let [a, b] = [&x, &y].map(|t| t.cast(DType::F64).unwrap().to_vec::<f64>().unwrap());
        let powers = x.pow(&y).unwrap().cast(DType::F64).unwrap();
        let got: Vec<f64> = powers.to_vec().unwrap();
        let mut worst: f64 = 0.0;
        for ((&got, &x), &y) in got.iter().zip(&a).zip(&b) {
            let want = match x.powf(y) {
                w if w.is_finite() && w > 1e-290 => (Double::of(x).ln() * Double::of(y)).exp(),
                w => Double::of(w),
            };
            worst = worst.max(format.ulps(got, want));
        }
        println!("{:12} {:5} {worst:10.3}", "pow", format.dtype.to_string());
        assert!(worst <= 2.0, "pow of {}: {worst} ulp", format.dtype);
    }
}

/// Odd functions keep the sign of zero, and what is smaller than its own square is itself.
#[test]
fn odd_functions_near_zero() {
    let e = engine();
    let values = [-0.0f32, 0.0, 1e-8, -1e-8, 1e-30, -1e-40, 1e-45];
    let x = Tensor::from_slice(&e, &values, &[values.len()]).unwrap();
    let odd: &[fn(&Tensor) -> Result<Tensor>] = &[
        Tensor::sin,
        Tensor::tan,
        Tensor::asin,
        Tensor::atan,
        Tensor::sinh,
        Tensor::tanh,
        Tensor::asinh,
        Tensor::atanh,
        Tensor::expm1,
        Tensor::log1p,
    ];
    for (i, f) in odd.iter().enumerate() {
        let y: Vec<f32> = f(&x).unwrap().to_vec().unwrap();
        let same = y
            .iter()
            .zip(&values)
            .all(|(y, x)| y.to_bits() == x.to_bits());
        assert!(same, "function {i}: {y:?} of {values:?}");
    }
    let y: Vec<f32> = x.erf().unwrap().to_vec().unwrap();
    assert_eq!((y[0].to_bits(), y[1].to_bits()), (1 << 31, 0));
    assert_eq!(y[2], 1.1283792e-8);
}

/// The larger of two plus a logarithm: a unit of the largest of all three, because they may cancel.
#[test]
fn logarithms_of_sums_of_powers() {
    let e = engine();
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut pick = |size: f64| size * ((random.next() >> 11) as f64 / 2f64.powi(52) - 1.0);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for size in [1.0, 20.0, 200.0] {
        for _ in 0..10_000 {
            a.push(pick(size) as f32);
            b.push(pick(size) as f32);
        }
    }
    // What the smaller one adds to zero is all there is.
    a.extend([0.0, 0.0, f32::INFINITY, f32::NEG_INFINITY, 5.0]);
    b.extend([
        -20.0,
        -80.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NEG_INFINITY,
    ]);
    let [x, y] = [&a, &b].map(|v| Tensor::from_slice(&e, v, &[v.len()]).unwrap());
    let got: Vec<f32> = x.logaddexp(&y).unwrap().to_vec().unwrap();
    let mut worst: f64 = 0.0;
    for ((got, a), b) in got.into_iter().zip(a).zip(b) {
        let (got, a, b) = (f64::from(got), f64::from(a), f64::from(b));
        let more = if a == b { 0.0 } else { -(a - b).abs() }.exp().ln_1p();
        let want = a.max(b) + more;
        if want.is_infinite() {
            assert_eq!(got, want);
            continue;
        }
        let largest = a.max(b).abs().max(more).max(want.abs());
        let unit = 2f64.powi(largest.log2().floor() as i32 - F32.digits);
        let error = (got - want).abs() / unit;
        assert!(
            error <= 2.0,
            "{a:e} and {b:e}: {got:e} instead of {want:e}, {error} ulp"
        );
        worst = worst.max(error);
    }
    println!("{:12} {:5} {worst:10.3}", "logaddexp", "f32");
}
