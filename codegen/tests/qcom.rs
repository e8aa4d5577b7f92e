//! Kernels for Adreno 6xx by our own compiler: their code has no open hazard, stays within the limits of the chip, and
//! runs on the software model of its shader cores against the interpreter.
//!
//! The compiler checks its code itself where debug assertions are on; here the words are decoded and checked once more.
#![allow(clippy::unwrap_used)]

#[path = "qcom/machine.rs"]
mod machine;
#[path = "qcom/opencl.rs"]
mod opencl;
#[path = "support/suite.rs"]
mod suite;
mod support;

use codegen::interp::scalar;
use codegen::ir::{Binary, Kernel, Unary};
use codegen::ir3::{self, Object, check};
use codegen::{Backend, Built, DType, Error, Opt, Options, Target, build};
use conformance::part::Part;
use suite::{COMBINING, combined};
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
        for version in std::iter::once(&object).chain(object.plain.as_deref()) {
            examine_code(version, what);
            assert_eq!(version.items, stage.block[0], "{what}");
        }
        objects.push(object);
    }
    objects
}

/// The instructions of a kernel.
fn instructions(object: &Object, what: &str) -> Vec<ir3::Inst> {
    let used = object.statistics.instructions as usize;
    object.code[..used]
        .iter()
        .map(|&word| ir3::decode(word).unwrap_or_else(|e| panic!("{what}: {e}")))
        .collect()
}

fn examine_code(object: &Object, what: &str) {
    let insts = instructions(object, what);
    // The fiber's number: three full registers.
    let inputs: Vec<usize> = (0..6).collect();
    if let Err(hazard) = check::check(&insts, &inputs) {
        panic!("{what}: {hazard}\n{}", object.disassemble());
    }
    assert!(object.code.len().is_multiple_of(16) && object.code.len() >= insts.len() + 4);
    assert!(
        object.footprint.full <= 48 && object.footprint.half <= 48,
        "{what}"
    );
}

/// A backend that reads buffers as images wherever that gains anything, on rows of so many pixels at most.
fn eager(chip: &str, side: u32) -> Backend {
    let backend = backend(chip);
    let mut target = backend.target.clone();
    let images = target.images.as_mut().unwrap();
    (images.coordinates, images.row_coordinates) = (0.0, 0.0);
    images.launch = f64::NEG_INFINITY;
    images.side = side;
    backend.targeting(target)
}

/// Compares what kernels give with what they should.
struct Cases {
    part: Part,
    next: usize,
    /// Values at which types end, not those that sum up well.
    edges: bool,
}

impl Cases {
    fn new() -> Cases {
        Cases {
            part: Part::chosen(),
            next: 0,
            edges: false,
        }
    }

    /// Compiles a kernel for every chip, as it is and optimised, and runs some of that.
    fn check(&mut self, kernel: &Kernel, tolerance: f64) {
        if has_doubles(kernel) {
            return;
        }
        let mut random = Random(0x1234_5678_9abc_def1);
        let buffers = match self.edges {
            true => edges(kernel, &mut random),
            false => fill(kernel, &mut random),
        };
        let buffers = without_denormals(kernel, buffers);
        let want = expected(kernel, &buffers, &numbers(kernel));
        for chip in CHIPS {
            for noopt in [true, false] {
                self.next += 1;
                let options = Options {
                    noopt,
                    deterministic: true,
                    ..Options::default()
                };
                let what = format!("{} on {chip}", kernel.name);
                let backend = backend(chip);
                let built =
                    build(kernel, &backend, &options).unwrap_or_else(|e| panic!("{what}: {e}"));
                assert!(examine(&built, &what).iter().all(|o| o.waves > 0), "{what}");
                if !self.part.has(self.next, 6) {
                    continue;
                }
                let mut got = buffers.clone();
                machine::run(&built, &backend.target, &mut got, &numbers(kernel));
                let got = without_denormals(kernel, got);
                let want = without_denormals(kernel, want.clone());
                for (slot, p) in kernel.params.iter().enumerate() {
                    let opts = &built.report.opts;
                    let what = format!("{what} buffer {slot} {} {opts:?}", p.dtype);
                    same(p.dtype, &got[slot], &want[slot], tolerance, &what);
                }
            }
        }
    }
}

/// Buffers with zeros for denormal floats, which are zeros to the arithmetic units.
fn without_denormals(kernel: &Kernel, mut buffers: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    for (buffer, p) in buffers.iter_mut().zip(&kernel.params) {
        for chunk in buffer.chunks_mut(p.dtype.size()) {
            let least = match p.dtype {
                DType::F16 => 2f64.powi(-14),
                DType::F32 | DType::BF16 => 2f64.powi(-126),
                _ => continue,
            };
            let bits = scalar::read(p.dtype, chunk);
            let x = scalar::to_f64(p.dtype, bits);
            if x.abs() < least {
                scalar::write(scalar::from_f64(p.dtype, 0f64.copysign(x)), chunk);
            }
        }
    }
    buffers
}

#[test]
fn elements() {
    let mut cases = Cases::new();
    suite::elements(|kernel, tolerance| cases.check(kernel, tolerance));
}

#[test]
fn rows() {
    let mut cases = Cases::new();
    suite::rows(|kernel, tolerance| cases.check(kernel, tolerance));
}

#[test]
fn reductions_of_every_type() {
    let mut cases = Cases::new();
    suite::reductions_of_every_type(|kernel, tolerance| cases.check(kernel, tolerance));
}

#[test]
fn products_and_convolutions() {
    let mut cases = Cases::new();
    suite::products_and_convolutions(|kernel, tolerance| cases.check(kernel, tolerance));
}

#[test]
fn numbers_of_every_type() {
    let mut cases = Cases::new();
    suite::numbers_of_every_type(|kernel, tolerance| cases.check(kernel, tolerance));
}

#[test]
fn scans_and_scatters() {
    let mut cases = Cases::new();
    suite::scans_and_scatters(|kernel, tolerance| cases.check(kernel, tolerance));
}

#[test]
fn every_operation() {
    let mut cases = Cases {
        edges: true,
        ..Cases::new()
    };
    // Quotients and roots are corrected, but not to the last digit.
    suite::every_operation(|kernel, tolerance| cases.check(kernel, tolerance.max(1e-6)));
}

#[test]
fn divisors_that_are_known() {
    let mut cases = Cases {
        edges: true,
        ..Cases::new()
    };
    suite::constant_divisors(|kernel, tolerance| cases.check(kernel, tolerance));
}

#[test]
fn stores_that_begin_before_a_buffer() {
    let backend = backend("a630");
    suite::gated_stores(|kernel, tolerance| {
        let buffers = fill(kernel, &mut Random(0x1234_5678_9abc_def1));
        let want = expected(kernel, &buffers, &[]);
        for lanes in [2, 4] {
            let options = Options {
                opts: Some(vec![Opt::Vec { axis: 0, lanes }]),
                ..Options::default()
            };
            let built = build(kernel, &backend, &options).unwrap();
            examine(&built, &kernel.name);
            let mut got = buffers.clone();
            machine::run(&built, &backend.target, &mut got, &[]);
            for (slot, p) in kernel.params.iter().enumerate() {
                let what = format!("buffer {slot} {} in lanes of {lanes}", p.dtype);
                same(p.dtype, &got[slot], &want[slot], tolerance, &what);
            }
        }
    });
}

/// Combining stores whose work-items meet in memory.
#[test]
fn combinations_in_memory() {
    let backend = backend("a630");
    for op in COMBINING {
        for dtype in DType::ALL.into_iter().filter(|&d| d != DType::F64) {
            // There is no exchange of 64 bits: one work-item does it all.
            if backend.target.atomics.has(op, dtype) {
                combined(&backend, op, dtype, |built, target, buffers, vars| {
                    machine::run(built, target, buffers, vars)
                        .iter()
                        .all(|d| d.groups > 0)
                });
            }
        }
    }
}

/// What a kernel takes, in the listing.
#[test]
fn listings_have_counts() {
    let built = build(&softmax(3, 70), &backend("a630"), &Options::default()).unwrap();
    let text = built.report.disassembly().unwrap();
    for word in [
        "instructions",
        "slots of nops",
        "(ss)",
        "(sy)",
        "waves of",
        "ldg.a.u32",
    ] {
        assert!(text.contains(word), "{word}\n{text}");
    }
    assert!(
        built
            .report
            .resources
            .iter()
            .all(|r| r.waves > 0 && r.spilled == 0)
    );
}

/// Code with a wait or a delay taken out is refused: each of them is needed.
#[test]
fn nothing_is_superfluous() {
    let (mut waits, mut refused) = (0, 0);
    let inputs: Vec<usize> = (0..6).collect();
    let kernels = [
        matmul(33, 20, 40, false, true, true),
        softmax(3, 70),
        conv(2, 3, 5, 9, 3),
        operations(
            70,
            DType::F32,
            &[Unary::Sqrt, Unary::Exp],
            &Binary::ALL[..6],
            &[DType::I8],
        ),
    ];
    for kernel in kernels {
        let built = build(&kernel, &backend("a630"), &Options::default()).unwrap();
        for object in examine(&built, &kernel.name) {
            let used = object.statistics.instructions as usize;
            let insts: Vec<ir3::Inst> = object.code[..used]
                .iter()
                .map(|&w| ir3::decode(w).unwrap())
                .collect();
            let mut check = |at: usize, change: &dyn Fn(&mut ir3::Inst)| {
                let mut without = insts.clone();
                change(&mut without[at]);
                waits += 1;
                let open = check::check(&without, &inputs).is_err();
                refused += usize::from(open);
                assert!(
                    open,
                    "{}: {at} {}\n{}",
                    kernel.name,
                    insts[at],
                    object.disassemble()
                );
            };
            for (at, inst) in insts.iter().enumerate() {
                for flag in [ir3::Flags::SS, ir3::Flags::SY] {
                    if inst.flags.has(flag) {
                        check(at, &|i| i.flags = i.flags.without(flag));
                    }
                }
                if inst.nop > 0 {
                    check(at, &|i| i.nop -= 1);
                }
            }
        }
    }
    assert!(waits > 40, "{waits}");
    assert_eq!(waits, refused);
}

/// Products and convolutions whose buffers are long enough for whole vectors.
fn reading_often() -> Vec<Kernel> {
    let half = [DType::F16; 2];
    vec![
        matmul(64, 64, 64, false, false, false),
        matmul(32, 48, 64, true, false, true),
        matmul(16, 64, 32, false, true, false),
        conv(1, 8, 16, 16, 1),
        suite::product(32, 64, 32, half, DType::F32),
    ]
}

/// What kernels of a chip read as images.
#[derive(Default, Debug)]
struct Read {
    /// Loads of 16 bits, and of 32.
    loads: [usize; 2],
    /// Images of one row, and of several.
    rows: [usize; 2],
}

impl Read {
    /// Counts those of objects. Gives how many images there are.
    fn count(&mut self, objects: &[Object], what: &str) -> usize {
        for object in objects {
            for inst in instructions(object, what) {
                if inst.op == ir3::Op::Isam {
                    self.loads[usize::from(inst.mods.ty == Some(ir3::Type::U32))] += 1;
                }
            }
            for image in &object.images {
                self.rows[usize::from(image.height > 1)] += 1;
            }
        }
        objects.iter().map(|object| object.images.len()).sum()
    }
}

/// Compiles a kernel for a chip without images, and with those of one row and of several; if it runs, results are
/// compared. Gives how many images there are in all.
fn with_and_without(
    kernel: &Kernel,
    chip: &str,
    noopt: bool,
    runs: bool,
    read: &mut Read,
) -> usize {
    let options = Options {
        noopt,
        deterministic: true,
        ..Options::default()
    };
    let what = format!("{} on {chip}", kernel.name);
    let start = fill(kernel, &mut Random(0x1234_5678_9abc_def1));
    let plain = build(kernel, &backend(chip).without_images(), &options).unwrap();
    for object in examine(&plain, &what) {
        assert!(object.images.is_empty() && object.plain.is_none(), "{what}");
    }
    let mut want = start.clone();
    if runs {
        machine::run(&plain, &backend(chip).target, &mut want, &[]);
    }
    let mut images = 0;
    for side in [1 << 14, 1 << 8] {
        let backend = eager(chip, side);
        let built = build(kernel, &backend, &options).unwrap();
        images += read.count(&examine(&built, &what), &what);
        if runs {
            let mut got = start.clone();
            machine::run(&built, &backend.target, &mut got, &[]);
            assert!(got == want, "{what}: other bits than without images");
        }
    }
    images
}

#[test]
fn images_give_the_same_bits() {
    let part = Part::chosen();
    let mut next = 0;
    // Every chip in a whole run, and in another one some kernels of each of a few chips.
    let chips = Target::qcom_chips().enumerate();
    for (_, chip) in chips.filter(|(number, _)| part.has(*number, 3)) {
        let mut read = Read::default();
        for kernel in reading_often() {
            let mut images = 0;
            for noopt in [true, false] {
                next += 1;
                images += with_and_without(&kernel, chip, noopt, part.has(next, 4), &mut read);
            }
            assert!(images > 0, "{} on {chip} has no images", kernel.name);
        }
        let Read { loads, rows } = &read;
        assert!(loads.iter().chain(rows).all(|&n| n > 0), "{chip}: {read:?}");
    }
}

/// `o[c, y, x] = sum of p[y + d - 1, x] * f[c, d]`, with rows of zeros around `p`: its first elements of rows are multiples
/// of four, and the loads of the first and of the last row do not happen.
fn padded_rows(channels: i64, [h, w]: [i64; 2]) -> Kernel {
    let mut m = Make::new();
    let o = m.buffer(DType::F32, (channels * h * w) as usize, true);
    let p = m.buffer(DType::F32, (h * w) as usize, false);
    let f = m.buffer(DType::F32, (channels * 3) as usize, false);
    let (c, y, x, d) = (m.l(channels), m.l(h), m.l(w), m.r(3));
    let row = m.at(&[(y, 1), (d, 1)], -1);
    let [below, end] = [-1, h].map(|n| m.g.index(n));
    let low = m.g.binary(Binary::Lt, below, row);
    let high = m.g.binary(Binary::Lt, row, end);
    let gate = m.g.binary(Binary::And, low, high);
    let index = m.at(&[(row, w), (x, 1)], 0);
    let zero = m.f32(0.0);
    let picture = m.g.load_gated(p, index, gate, zero);
    let filter = m.load(f, &[(c, 3), (d, 1)]);
    let product = m.mul(picture, filter);
    let sum = m.sum(product, &[d]);
    m.store(o, &[(c, h * w), (y, w), (x, 1)], sum);
    m.kernel("padded_rows")
}

/// Loads with a gate, whose indices are negative where it is false.
#[test]
fn images_are_read_behind_gates() {
    let kernel = padded_rows(8, [12, 32]);
    let options = Options {
        opts: Some(vec![Opt::Vec { axis: 2, lanes: 4 }]),
        deterministic: true,
        ..Options::default()
    };
    let start = fill(&kernel, &mut Random(0x1234_5678_9abc_def1));
    let results = [eager("a630", 1 << 14), backend("a630").without_images()].map(|backend| {
        let built = build(&kernel, &backend, &options).unwrap();
        let objects = examine(&built, &kernel.name);
        let [object] = &objects[..] else {
            panic!("{} stages", objects.len());
        };
        let insts = instructions(object, &kernel.name);
        // Single ones are of the filter.
        let vectors = |inst: &&ir3::Inst| inst.op == ir3::Op::LdgA && inst.mods.count == 4;
        let vectors = insts.iter().filter(vectors).count();
        let pixels = insts.iter().filter(|inst| inst.op == ir3::Op::Isam).count();
        let mut got = start.clone();
        machine::run(&built, &backend.target, &mut got, &[]);
        (vectors, pixels, got)
    });
    let [(0, pixels, with), (vectors, 0, without)] = results else {
        panic!(
            "{:?}",
            results.map(|(vectors, pixels, _)| (vectors, pixels))
        );
    };
    assert!(pixels > 0 && vectors > 0 && with == without);
    let want = expected(&kernel, &start, &[]);
    same(DType::F32, &with[0], &want[0], 1e-5, &kernel.name);
}

/// What is read once, or is written, is no image; launches are as they were before.
#[test]
fn images_are_for_what_is_read_often() {
    let options = Options::default();
    for kernel in [elementwise(4096), transpose(64, 64, DType::F32)] {
        let built = build(&kernel, &backend("a630"), &options).unwrap();
        for object in examine(&built, &kernel.name) {
            assert!(object.images.is_empty(), "{}", object.disassemble());
        }
    }
}

#[test]
fn the_sampler_is_one_of_pixels() {
    let pixels = drivers_spec::qcom::descriptor::Sampler::PIXELS;
    assert_eq!(pixels.encode().unwrap(), ir3::SAMPLER);
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
