//! Products and convolutions of halves and of 8-bit floats use the matrix instructions of a chip, and
//! are right.
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use codegen::Built;
use golden::engines::{self, Rig};
use tensor::exec::{Observer, Options};

use tensor::ops::conv::ConvParams;
use tensor::{DType, Engine, Rng, Tensor};

/// Keeps the machine code of what is compiled.
#[derive(Default)]
struct Code(Mutex<String>);

impl Observer for Code {
    fn compiled(&self, _: &str, built: &Built) {
        self.0
            .lock()
            .unwrap()
            .push_str(&built.report.disassembly().unwrap());
    }
}

/// Runs `compute` on a simulated chip and without a compiler, and looks for one of the instructions.
fn check(chip: &str, instructions: &[&str], compute: impl Fn(&Engine) -> Tensor) {
    let code = Arc::new(Code::default());
    let options = Options {
        observer: Some(code.clone()),
        ..Options::default()
    };
    let Some(rig) = Rig::of_test(engines::gpu(chip, options)) else {
        return;
    };
    let got: Vec<f32> = compute(&rig.engine).to_vec().unwrap();
    rig.finish().unwrap();
    let expected: Vec<f32> = compute(&Engine::reference()).to_vec().unwrap();
    for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
        let off = (got - expected).abs();
        assert!(off < 0.03, "{chip}: element {i}: {got}, not {expected}");
    }
    let code = code.0.lock().unwrap();
    let there = instructions.iter().any(|i| code.contains(i));
    let products = code.lines().filter(|line| line.contains("MMA"));
    let products: BTreeSet<_> = products.collect();
    assert!(there, "{chip}: none of {instructions:?}: {products:?}");
}

const CHIPS: [(&str, &[&str]); 5] = [
    ("gfx1100", &["v_wmma_f32_16x16x16_f16"]),
    ("gfx1201", &["v_wmma_f32_16x16x16_f16"]),
    ("gfx942", &["v_mfma_f32_"]),
    ("sm_89:PTX", &["HMMA.16816.F32"]),
    ("sm_90", &["HMMA.16816.F32", "HGMMA.64x"]),
];

/// Of numbers in 0..1 less a half, in binary16.
fn halves(rng: &mut Rng, shape: &[usize]) -> Tensor {
    rng.rand(shape, DType::F16).unwrap().sub(0.5).unwrap()
}

#[test]
fn products() {
    for (chip, instructions) in CHIPS {
        check(chip, instructions, |engine| {
            let mut rng = Rng::new(engine, 3);
            let (a, b) = (halves(&mut rng, &[100, 72]), halves(&mut rng, &[72, 65]));
            a.matmul(&b).unwrap().cast(DType::F32).unwrap()
        });
    }
}

#[test]
fn convolutions() {
    for (chip, instructions) in CHIPS {
        check(chip, instructions, |engine| {
            let mut rng = Rng::new(engine, 5);
            let x = halves(&mut rng, &[2, 16, 14, 14]);
            let w = halves(&mut rng, &[32, 16, 3, 3]);
            let y = x.conv(&w, None, &ConvParams::default(), 1).unwrap();
            y.cast(DType::F32).unwrap()
        });
    }
}

/// A product of 8-bit floats, summed in 32 bits: large enough that it pays to keep them so.
fn narrow(chip: &str, formats: [DType; 2], instructions: &[&str]) {
    check(chip, instructions, |engine| {
        let mut rng = Rng::new(engine, 7);
        let a = halves(&mut rng, &[130, 128]).cast(formats[0]).unwrap();
        let b = halves(&mut rng, &[128, 130]).cast(formats[1]).unwrap();
        a.matmul_in(&b, DType::F32).unwrap()
    });
}

/// Both formats in one product; rows and columns may change places.
#[test]
fn products_of_narrow_floats() {
    let mixed = ["v_wmma_f32_16x16x16_fp8_bf8", "v_wmma_f32_16x16x16_bf8_fp8"];
    for (chip, instructions) in [
        ("gfx1201", &mixed[..]),
        ("gfx1100", &["v_wmma_f32_16x16x16_f16"]),
        ("gfx942", &["v_mfma_f32_16x16x16_f16"]),
        ("sm_86:PTX", &["HMMA.16816.F32"]),
        (
            "sm_89:PTX",
            &["QMMA.16832.F32.E4M3.E5M2", "QMMA.16832.F32.E5M2.E4M3"],
        ),
        (
            "sm_120",
            &["QMMA.16832.F32.E4M3.E5M2", "QMMA.16832.F32.E5M2.E4M3"],
        ),
    ] {
        narrow(chip, [DType::F8E4M3, DType::F8E5M2], instructions);
    }
}

/// One format: NVIDIA's from Ada on, but for Hopper, where they are halves to tensor cores.
#[test]
fn products_of_one_narrow_format() {
    for (chip, format, instruction) in [
        ("sm_89", DType::F8E4M3, "QMMA.16832.F32.E4M3.E4M3"),
        ("sm_89:PTX", DType::F8E5M2, "QMMA.16832.F32.E5M2.E5M2"),
        ("sm_90", DType::F8E4M3, "HMMA.16816.F32"),
        ("sm_90:PTX", DType::F8E5M2, "HMMA.16816.F32"),
        ("sm_120:PTX", DType::F8E4M3, "QMMA.16832.F32.E4M3.E4M3"),
    ] {
        narrow(chip, [format; 2], &[instruction]);
    }
}
