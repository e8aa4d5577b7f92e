//! Numbers beside tensors: by value in comparisons and limits, an error where they do not fit.

use codegen::interp::scalar::{from_int, int_limits, to_f64};
use tensor::ops::movement::PadMode;
use tensor::{DType, Engine, Operand, Result, Scalar, Tensor};

const INTS: [DType; 8] = [
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
];

type Compare = fn(&Tensor, Operand) -> Result<Tensor>;
type Holds = fn(f64, f64) -> bool;
const RELATIONS: [(&str, Compare, Holds); 6] = [
    ("lt", |a, b| a.lt(b), |a, b| a < b),
    ("le", |a, b| a.le(b), |a, b| a <= b),
    ("gt", |a, b| a.gt(b), |a, b| a > b),
    ("ge", |a, b| a.ge(b), |a, b| a >= b),
    ("eq", |a, b| a.eq(b), |a, b| a == b),
    ("ne", |a, b| a.ne(b), |a, b| a != b),
];

fn value(number: Scalar) -> f64 {
    match number {
        Scalar::Float(x) => x,
        Scalar::Int(x) => x as f64,
        Scalar::Bool(x) => f64::from(u8::from(x)),
    }
}

/// What is wrong; a comparison of each relation with each number.
fn compared(x: &Tensor, elements: &[f64], numbers: &[Scalar], wrong: &mut Vec<String>) {
    for (name, compare, holds) in RELATIONS {
        for &number in numbers {
            let want: Vec<bool> = elements.iter().map(|&e| holds(e, value(number))).collect();
            let found = compare(x, number.into()).and_then(|t| t.to_vec::<bool>());
            match found {
                Ok(found) if found == want => {}
                found => wrong.push(format!(
                    "{elements:?} of {} {name} {number:?}: {found:?}",
                    x.dtype()
                )),
            }
        }
    }
}

#[test]
fn comparisons_are_by_value() {
    let e = Engine::reference();
    let mut wrong = Vec::new();
    for dtype in INTS {
        let (low, high) = int_limits(dtype);
        // Only what a double holds exactly, which is what the test compares in.
        let whole: Vec<i128> = [low, -1, 0, 1, 44, 100, high]
            .into_iter()
            .filter(|&x| (low..=high).contains(&x) && x as f64 as i128 == x)
            .collect();
        let bytes = (whole.iter())
            .flat_map(|&x| from_int(dtype, x).to_le_bytes()[..dtype.size()].to_vec())
            .collect();
        let x = Tensor::from_bytes(&e, bytes, &[whole.len()], dtype).unwrap();
        let elements: Vec<f64> = whole.iter().map(|&x| x as f64).collect();
        let numbers: Vec<Scalar> = [0, 1, -1, 300, -300, 1 << 20, -(1 << 40), 1 << 62, i64::MIN]
            .map(Scalar::Int)
            .into_iter()
            .chain([0.5, -0.5, 44.0, 99.5, 1e30, -1e30].map(Scalar::Float))
            .chain([f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(Scalar::Float))
            .collect();
        compared(&x, &elements, &numbers, &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn comparisons_with_what_a_float_does_not_hold() {
    let e = Engine::reference();
    let mut wrong = Vec::new();
    for dtype in [
        DType::F16,
        DType::BF16,
        DType::F8E4M3,
        DType::F8E5M2,
        DType::F32,
    ] {
        let wide = [
            0.0,
            1.0,
            -2.0,
            448.0,
            -448.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ];
        let x = Tensor::from_slice(&e, &wide, &[8])
            .unwrap()
            .cast(dtype)
            .unwrap();
        let elements = x.to_f64_vec().unwrap();
        let numbers = [1e300, -1e300, 1.0, f64::INFINITY, f64::NEG_INFINITY].map(Scalar::Float);
        compared(&x, &elements, &numbers, &mut wrong);
    }
    let truth = Tensor::from_slice(&e, &[false, true], &[2]).unwrap();
    let numbers = [
        Scalar::Int(300),
        Scalar::Int(1),
        Scalar::Float(0.5),
        Scalar::Bool(true),
    ];
    compared(&truth, &[0.0, 1.0], &numbers, &mut wrong);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Integers near 2^24 and 2^53 are told apart, which floats would not do.
#[test]
fn large_integers_beside_fractions() {
    let e = Engine::reference();
    let x = Tensor::from_slice(&e, &[(1i32 << 24) + 1, 1 << 24], &[2]).unwrap();
    let limit = f64::from(1 << 24) + 0.5;
    assert_eq!(
        x.gt(limit).unwrap().to_vec::<bool>().unwrap(),
        [true, false]
    );
    assert_eq!(
        x.lt(limit).unwrap().to_vec::<bool>().unwrap(),
        [false, true]
    );
    let x = Tensor::from_slice(&e, &[(1i64 << 53) + 1, 1 << 53], &[2]).unwrap();
    let limit = (1i64 << 53) as f64;
    assert_eq!(
        x.eq(limit).unwrap().to_vec::<bool>().unwrap(),
        [false, true]
    );
}

#[test]
fn limits_beyond_the_type_do_nothing() {
    let e = Engine::reference();
    let x = Tensor::from_slice(&e, &[0u8, 44, 255], &[3]).unwrap();
    let bytes = |t: Result<Tensor>| t.and_then(|t| t.to_vec::<u8>());
    assert_eq!(bytes(x.clip(0, 1000)).unwrap(), [0, 44, 255]);
    assert_eq!(bytes(x.clip(-5, 100)).unwrap(), [0, 44, 100]);
    assert_eq!(
        bytes(x.clamp(Some((-1).into()), None)).unwrap(),
        [0, 44, 255]
    );
    assert_eq!(bytes(x.maximum(i64::MIN)).unwrap(), [0, 44, 255]);
    assert_eq!(bytes(x.minimum(1i64 << 40)).unwrap(), [0, 44, 255]);
    assert_eq!(bytes(x.minimum(100)).unwrap(), [0, 44, 100]);
    for dtype in [DType::F8E4M3, DType::F16, DType::F32] {
        let x = Tensor::from_slice(&e, &[-3.0f32, 448.0], &[2]).unwrap();
        let x = x.cast(dtype).unwrap().clip(-1e300, 1e300).unwrap();
        assert_eq!(x.to_f64_vec().unwrap(), [-3.0, 448.0], "{dtype}");
    }
    let said = x.clip(300, 1000).unwrap_err().to_string();
    assert!(
        said.starts_with("clip: 300 does not fit into u8, 0 to 255"),
        "{said}"
    );
    assert!(x.minimum(-1).is_err() && x.maximum(256).is_err());
}

#[test]
fn numbers_that_do_not_fit_are_errors() {
    let e = Engine::reference();
    let bytes = Tensor::from_slice(&e, &[1u8, 2], &[2]).unwrap();
    let words = Tensor::from_slice(&e, &[1i32, 2], &[2]).unwrap();
    let mask = Tensor::from_slice(&e, &[true, false], &[2]).unwrap();
    let far = 1i64 << 40;
    let nan = Scalar::Float(f64::NAN);
    let full = |x: Scalar, dtype| Tensor::full(&e, &[2], x, dtype);
    let cases: Vec<(&str, &str, Result<Tensor>)> = vec![
        ("add", "i64", words.add(far)),
        ("sub", "i64", words.sub(far)),
        ("mul", "i16", bytes.mul(-1)),
        ("floor_div", "i16", bytes.floor_div(300)),
        ("modulo", "i16", bytes.modulo(300)),
        ("fmod", "i16", bytes.fmod(300)),
        ("bitand", "i16", bytes.bitand(256)),
        ("shl", "i16", bytes.shl(300)),
        ("pow", "i16", bytes.pow(300)),
        ("add", "i64", far + &words),
        ("sub", "i64", far - &words),
        ("where", "i16", mask.where_(&bytes, 300)),
        ("where", "i16", mask.where_(300, &bytes)),
        ("where", "i64", mask.where_(far, 1)),
        ("masked_fill", "i16", bytes.masked_fill(&mask, -1)),
        (
            "masked_fill",
            "f64",
            words.masked_fill(&mask, f64::INFINITY),
        ),
        (
            "pad",
            "i16",
            bytes.pad(&[(1, 0)], PadMode::Constant(300.into())),
        ),
        ("full", "i16", full(300.into(), DType::U8)),
        ("full", "f64", full(nan, DType::I32)),
        ("full", "f64", full(1e30.into(), DType::I64)),
        ("full", "i16", bytes.full_like(-1)),
        ("arange", "i16", Tensor::arange(&e, 0, 300, 1, DType::U8)),
        ("arange", "i16", Tensor::arange(&e, -1, 3, 1, DType::U8)),
    ];
    let mut wrong = Vec::new();
    for (i, (op, wide, made)) in cases.into_iter().enumerate() {
        match made {
            Ok(t) => wrong.push(format!("{i} {op}: {:?}", t.to_f64_vec())),
            Err(e) => {
                let said = e.to_string();
                let names =
                    said.starts_with(&format!("{op}: ")) && said.contains("does not fit into");
                if !names || !said.ends_with(&format!("cast to {wide} first")) {
                    wrong.push(format!("{i} {op}: {said}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn numbers_that_fit_do_what_they_did() {
    let e = Engine::reference();
    let bytes = Tensor::from_slice(&e, &[1u8, 200], &[2]).unwrap();
    let words = Tensor::from_slice(&e, &[i32::MAX, 2], &[2]).unwrap();
    let mask = Tensor::from_slice(&e, &[false, true], &[2]).unwrap();
    let u8s = |t: Result<Tensor>| t.and_then(|t| t.to_vec::<u8>()).unwrap();
    // Sums of elements wrap, as ever.
    assert_eq!(u8s(bytes.add(255)), [0, 199]);
    assert_eq!(u8s(255 - &bytes), [254, 55]);
    assert_eq!(u8s(bytes.sign()), [1, 1]);
    // A quotient is a float, in which the number fits.
    let half = bytes.div(400).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(half, [0.0025, 0.5]);
    assert_eq!(
        (400 / &bytes).unwrap().to_vec::<f32>().unwrap(),
        [400.0, 2.0]
    );
    // What is not filled stays exact; a fraction is cut off.
    let filled = words.masked_fill(&mask, 2.75).unwrap();
    assert_eq!(filled.to_vec::<i32>().unwrap(), [i32::MAX, 2]);
    assert_eq!(words.add(0.5).unwrap().dtype(), DType::F32);
    assert_eq!(
        u8s(Tensor::arange(&e, 255, -1, -51, DType::U8)),
        [255, 204, 153, 102, 51, 0]
    );
    assert!(Tensor::arange(&e, 0, 256, 1, DType::U8).is_ok());
    // Floats become infinite.
    let sixteen = Tensor::zeros(&e, &[1], DType::F16)
        .unwrap()
        .add(1e6)
        .unwrap();
    assert_eq!(to_f64(DType::F16, 0x7c00), f64::INFINITY);
    assert_eq!(sixteen.to_f64_vec().unwrap(), [f64::INFINITY]);
}
