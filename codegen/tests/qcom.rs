//! Kernels for Adreno 6xx by our own compiler: their code has no open hazard, and stays within the limits of the chip.
//!
//! The compiler checks its code itself where debug assertions are on; here the words are decoded and checked once more.
#![allow(clippy::unwrap_used)]

#[path = "support/suite.rs"]
mod suite;
mod support;

use codegen::ir::{Kernel, Unary};
use codegen::ir3::{self, Object, check};
use codegen::{Backend, Built, DType, Error, Options, Target, build};
use support::*;

/// One chip of each register file.
const CHIPS: [&str; 3] = ["a630", "a660", "a610"];

fn backend(chip: &str) -> Backend {
    Backend::find("QCOM:IR3", chip, 0).unwrap()
}

/// Whether a kernel has what the chip has no registers for.
fn has_doubles(kernel: &Kernel) -> bool {
    let g = &kernel.graph;
    let nodes = codegen::rewrite::toposort(g, kernel.sink);
    let params = kernel.params.iter().any(|p| p.dtype == DType::F64);
    params || nodes.iter().any(|&n| g.dtype(n) == DType::F64)
}

/// Decodes and checks the code of a kernel.
fn examine(built: &Built, what: &str) -> Vec<Object> {
    let mut objects = Vec::new();
    for stage in &built.stages {
        let object = Object::decode(&stage.object).unwrap();
        let used = object.statistics.instructions as usize;
        let insts: Vec<ir3::Inst> = object.code[..used]
            .iter()
            .map(|&word| ir3::decode(word).unwrap_or_else(|e| panic!("{what}: {e}")))
            .collect();
        // The fiber's number: three full registers.
        let inputs: Vec<usize> = (0..6).collect();
        if let Err(hazard) = check::check(&insts, &inputs) {
            panic!("{what}: {hazard}\n{}", object.disassemble());
        }
        assert!(object.code.len().is_multiple_of(16) && object.code.len() >= used + 4);
        assert!(object.footprint.full <= 48 && object.footprint.half <= 48, "{what}");
        assert_eq!(object.items, stage.block[0], "{what}");
        objects.push(object);
    }
    objects
}

fn compiled(kernel: &Kernel) {
    for chip in CHIPS {
        for noopt in [true, false] {
            let options = Options {
                noopt,
                ..Options::default()
            };
            let what = format!("{} on {chip}", kernel.name);
            match build(kernel, &backend(chip), &options) {
                Ok(built) => {
                    for object in examine(&built, &what) {
                        assert!(object.waves > 0, "{what}");
                    }
                }
                Err(e) if has_doubles(kernel) => assert!(e.to_string().contains("f64"), "{what}: {e}"),
                Err(e) => panic!("{what}: {e}"),
            }
        }
    }
}

#[test]
fn elements() {
    suite::elements(|kernel, _| compiled(kernel));
}

#[test]
fn rows() {
    suite::rows(|kernel, _| compiled(kernel));
}

#[test]
fn reductions_of_every_type() {
    suite::reductions_of_every_type(|kernel, _| compiled(kernel));
}

#[test]
fn products_and_convolutions() {
    suite::products_and_convolutions(|kernel, _| compiled(kernel));
}

#[test]
fn numbers_of_every_type() {
    suite::numbers_of_every_type(|kernel, _| compiled(kernel));
}

#[test]
fn scans_and_scatters() {
    suite::scans_and_scatters(|kernel, _| compiled(kernel));
}

#[test]
fn every_operation() {
    suite::every_operation(|kernel, _| compiled(kernel));
}

/// What a kernel takes, in the listing.
#[test]
fn listings_have_counts() {
    let built = build(&softmax(3, 70), &backend("a630"), &Options::default()).unwrap();
    let text = built.report.disassembly().unwrap();
    for word in ["instructions", "slots of nops", "(ss)", "(sy)", "waves of", "ldg.a.u32"] {
        assert!(text.contains(word), "{word}\n{text}");
    }
    assert!(built.report.resources.iter().all(|r| r.waves > 0 && r.spilled == 0));
}

/// Code with a wait, a delay or a mark taken out is refused: each of them is needed.
#[test]
fn nothing_is_superfluous() {
    let built = build(&matmul(33, 20, 40, false, true, true), &backend("a630"), &Options::default()).unwrap();
    let (mut waits, mut refused) = (0, 0);
    for object in examine(&built, "product") {
        let used = object.statistics.instructions as usize;
        let insts: Vec<ir3::Inst> =
            object.code[..used].iter().map(|&w| ir3::decode(w).unwrap()).collect();
        let inputs: Vec<usize> = (0..6).collect();
        for at in 0..insts.len() {
            for flag in [ir3::Flags::SS, ir3::Flags::SY] {
                if !insts[at].flags.has(flag) {
                    continue;
                }
                let mut without = insts.clone();
                without[at].flags = without[at].flags.without(flag);
                waits += 1;
                refused += usize::from(check::check(&without, &inputs).is_err());
            }
            if insts[at].nop > 0 {
                let mut without = insts.clone();
                without[at].nop -= 1;
                waits += 1;
                refused += usize::from(check::check(&without, &inputs).is_err());
            }
        }
    }
    assert!(waits > 10);
    assert_eq!(waits, refused);
}

/// There are no doubles, and the error says so.
#[test]
fn doubles_are_refused() {
    let kernel = cube_sum([3, 10, 33], 2, codegen::ir::ReduceOp::Add, DType::F64);
    match build(&kernel, &backend("a630"), &Options::default()) {
        Err(Error::Render { what, .. }) => assert!(what.contains("f64"), "{what}"),
        Err(e) => panic!("{e}"),
        Ok(_) => panic!("compiled"),
    }
}

#[test]
fn every_chip_is_compiled_for() {
    let kernel = operations(70, DType::F32, &Unary::ALL[2..5], &[], &[]);
    for chip in Target::qcom_chips() {
        let built = build(&kernel, &backend(chip), &Options::default()).unwrap();
        examine(&built, chip);
    }
}
