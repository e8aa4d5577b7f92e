//! The elementary functions of `f32` on GPUs, which have instructions for some of them, beside those of `f64` on the
//! CPU: at their hard points, at the ends of their ranges and in between. `-- --nocapture` prints the tables.
use conformance::part::Part;
use golden::engines::{self, Rig};
use tensor::exec::Options;
use tensor::{DType, Engine, Result, Tensor};

/// A function, and what it may be wrong by in units in the last place.
struct Function {
    name: &'static str,
    of: fn(&Tensor) -> Result<Tensor>,
    most: f64,
}

macro_rules! functions {
    ($($name:ident $most:literal;)*) => {
        &[$(Function { name: stringify!($name), of: Tensor::$name, most: $most }),*]
    };
}

const FUNCTIONS: &[Function] = functions! {
    sqrt 1.0;
    reciprocal 1.0;
    rsqrt 2.0;
    exp 1.0;
    exp2 2.0;
    exp10 2.0;
    expm1 2.0;
    log 1.0;
    log2 2.0;
    log10 2.0;
    log1p 2.0;
    sin 2.0;
    cos 2.0;
    tan 2.0;
    asin 2.0;
    acos 2.0;
    atan 2.0;
    sinh 2.0;
    cosh 2.0;
    tanh 2.0;
    asinh 2.0;
    acosh 2.0;
    atanh 2.0;
    erf 2.0;
    erfc 2.0;
    sigmoid 2.0;
};

const QUOTIENTS: &[Function] = &[
    Function {
        name: "x / 3",
        of: |x| x.div(3.0),
        most: 1.0,
    },
    Function {
        name: "7 / x",
        of: |x| x.full_like(7.0)?.div(x),
        most: 1.0,
    },
];

/// Where results begin or end to be numbers, normal ones, or others than 0 or 1.
const ENDS: &[f32] = &[
    88.72284,
    88.0,
    87.33655,
    87.0,
    103.97208,
    103.27893,
    126.0,
    127.99999,
    149.0,
    148.5,
    38.53184,
    37.92978,
    44.85347,
    45.154,
    89.41599,
    9.010913,
    10.0546,
    9.194549,
    17.32868,
    16.635532,
    0.346_573_6,
    0.70710677,
    std::f32::consts::SQRT_2,
    1.0,
    0.5,
    2.0,
    1.5707964,
    std::f32::consts::PI,
    1e5,
    3.9e4,
    1e-4,
    f32::MIN_POSITIVE,
    1e-40,
    1e-45,
    3.4028235e38,
    f32::INFINITY,
    f32::NAN,
    0.0,
];

/// Arguments: the ends with their neighbours, evenly over 250 to both sides, and all exponents.
fn arguments(part: Part) -> Vec<f32> {
    let (every, of) = match part {
        Part::All => (0, 1),
        Part::Number(n) => (n % 16, 16),
    };
    let mut all = Vec::new();
    for &end in ENDS {
        for step in -4..=4 {
            all.push(f32::from_bits(end.to_bits().saturating_add_signed(step)));
        }
    }
    // The last quarter of an octave before an end, densely.
    for (from, to) in [
        (87.0f32, 88.8f32),
        (103.0, 104.1),
        (126.5, 128.1),
        (8.5, 10.1),
    ] {
        let n = 16_384;
        let near = (every..n)
            .step_by(of)
            .map(|i| from + (to - from) * i as f32 / n as f32);
        all.extend(near);
    }
    let n = 65_536;
    all.extend((every..n).step_by(of).map(|i| 250.0 * i as f32 / n as f32));
    let bits = (every * 61_001..0x7f80_0000).step_by(of * 61_001);
    all.extend(bits.map(|bits| f32::from_bits(bits as u32)));
    let minus: Vec<f32> = all.iter().map(|x| -x).collect();
    all.extend(minus);
    all
}

/// The distance from the true value in units of its last place.
fn ulps(got: f64, want: f64) -> f64 {
    if got.is_nan() || want.is_nan() || want == got {
        let same = want == got || got.is_nan() && want.is_nan();
        return if same { 0.0 } else { f64::INFINITY };
    }
    // Where numbers end, infinity stands for the next one.
    let next = 2f64.powi(128);
    let limited = |x: f64| if x.abs() > next { x.signum() * next } else { x };
    let (got, want) = (limited(got), limited(want));
    let exponent = match want == 0.0 {
        true => -149,
        false => (want.abs().log2().floor() as i32 - 23).max(-149),
    };
    (got - want).abs() / 2f64.powi(exponent)
}

/// Every function on a simulated chip.
fn check(machine: &str) {
    let Some(rig) = Rig::of_test(engines::gpu(machine, Options::default())) else {
        return;
    };
    let values = arguments(Part::chosen());
    let cpu = engines::cpu().unwrap();
    let on = |engine: &Engine| Tensor::from_slice(engine, &values, &[values.len()]).unwrap();
    let (x, exact) = (on(&rig.engine), on(&cpu.engine).cast(DType::F64).unwrap());
    let mut wrong = Vec::new();
    println!("{machine}: {} arguments", values.len());
    for f in FUNCTIONS.iter().chain(QUOTIENTS) {
        let got: Vec<f32> = (f.of)(&x).unwrap().to_vec().unwrap();
        let want: Vec<f64> = (f.of)(&exact).unwrap().to_vec().unwrap();
        let (mut worst, mut at, mut of) = (0.0, 0.0, [0.0; 2]);
        for ((&got, &want), &x) in got.iter().zip(&want).zip(&values) {
            let error = ulps(f64::from(got), want);
            if error > worst {
                (worst, at, of) = (error, x, [f64::from(got), want]);
            }
        }
        println!("{:12} {worst:10.3} at {at:e}", f.name);
        if worst > f.most {
            let [got, want] = of;
            wrong.push(format!(
                "{} of {at:e}: {got:e} instead of {want:e}, {worst} ulp",
                f.name
            ));
        }
    }
    rig.finish().unwrap();
    assert!(wrong.is_empty(), "on {machine}:\n{}", wrong.join("\n"));
}

#[test]
fn gfx1100() {
    check("gfx1100");
}

#[test]
fn sm_90() {
    check("sm_90");
}

/// Zeros and infinities, whose signs a last correction may lose.
const SIGNED: [f32; 8] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    3.0,
    -3.0,
    f32::INFINITY,
    f32::NEG_INFINITY,
];

/// Quotients that are zeros or infinities have the signs of their operands, whatever divides.
#[test]
fn quotients_keep_the_sign_of_zero() {
    let pairs = SIGNED
        .iter()
        .flat_map(|x| SIGNED.iter().map(move |y| (*x, *y)));
    let (x, y): (Vec<f32>, Vec<f32>) = pairs.unzip();
    let each = |of: fn(f32, f32) -> f32| -> Vec<f32> {
        x.iter().zip(&y).map(|(x, y)| of(*x, *y)).collect()
    };
    type Made = fn(&Tensor, &Tensor) -> Result<Tensor>;
    let all: [(&str, Made, Vec<f32>); 5] = [
        ("x / y", |x, y| x.div(y), each(|x, y| x / y)),
        ("x / 3", |x, _| x.div(3.0), each(|x, _| x / 3.0)),
        ("x / -3", |x, _| x.div(-3.0), each(|x, _| x / -3.0)),
        ("1 / x", |x, _| x.reciprocal(), each(|x, _| 1.0 / x)),
        (
            "1 / (x / 3)",
            |x, _| x.div(3.0)?.reciprocal(),
            each(|x, _| 1.0 / (x / 3.0)),
        ),
    ];
    let mut wrong = Vec::new();
    for machine in [
        "gfx1030",
        "gfx1100",
        "gfx1201",
        "gfx942,xcc=1",
        "sm_86",
        "sm_90",
        "sm_120:PTX",
        "a630",
        "a660,kernel=msm",
    ] {
        let Some(rig) = Rig::of_test(engines::gpu(machine, Options::default())) else {
            continue;
        };
        let on = |values: &[f32]| Tensor::from_slice(&rig.engine, values, &[values.len()]).unwrap();
        let (a, b) = (on(&x), on(&y));
        for (name, of, want) in &all {
            let got: Vec<f32> = of(&a, &b).unwrap().to_vec().unwrap();
            for (at, (got, want)) in got.iter().zip(want).enumerate() {
                let is_exact = *want == 0.0 || want.is_infinite();
                let same = match is_exact {
                    true => got.to_bits() == want.to_bits(),
                    false => got.is_nan() == want.is_nan(),
                };
                if !same {
                    let (x, y) = (x[at], y[at]);
                    wrong.push(format!(
                        "{machine}: {name} of {x:?}, {y:?}: {got:?}, not {want:?}"
                    ));
                }
            }
        }
        rig.finish().unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
