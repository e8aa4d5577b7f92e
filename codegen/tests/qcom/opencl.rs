//! OpenCL C: what is written computes what the interpreter does, on the processor, by clang; and the calls of the vendor's
//! library, which a stand-in answers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use codegen::Resources;
use codegen::build::StageArg;
use codegen::compile::{Compiler, OpenClCompiler};
use codegen::render::{Language, OpenClRenderer, Source};
use drivers_spec::qcom::opencl::{Argument, Binary as Vendor};

use super::*;

/// This folder.
fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/qcom")
        .join(name)
}

fn tool(command: &mut Command) -> Result<(), String> {
    let done = command.output().unwrap();
    match done.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
    }
}

/// Functions of the language and of work-items, as objects.
fn support() -> &'static [PathBuf; 2] {
    static MADE: OnceLock<(tempfile::TempDir, [PathBuf; 2])> = OnceLock::new();
    let make = || {
        let dir = tempfile::tempdir().unwrap();
        let objects = ["builtins.o", "items.o"].map(|name| dir.path().join(name));
        let mut clang = Command::new("clang-22");
        clang.args(["-x", "cl", "-cl-std=CL1.2", "-O2", "-fPIC", "-c"]);
        clang.arg(here("builtins.cl")).arg("-o").arg(&objects[0]);
        tool(&mut clang).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-fPIC", "-c"]);
        cc.arg(here("items.c")).arg("-o").arg(&objects[1]);
        tool(&mut cc).unwrap();
        (dir, objects)
    };
    &MADE.get_or_init(make).1
}

/// Makes shared libraries for this processor of OpenCL C.
struct OnHost;

impl Compiler for OnHost {
    fn name(&self) -> &'static str {
        "clang for OpenCL C"
    }

    fn version(&self) -> String {
        "of the tests".into()
    }

    fn compile(&self, s: &Source, _: &Target) -> codegen::Result<Vec<u8>> {
        assert_eq!(s.language, Language::OpenCl);
        let dir = tempfile::tempdir().unwrap();
        let [source, object, library] =
            ["kernel.cl", "kernel.o", "kernel.so"].map(|name| dir.path().join(name));
        std::fs::write(&source, &s.text).unwrap();
        let mut clang = Command::new("clang-22");
        // A double where there are none is an error, as it is for the vendor's compiler.
        clang.args(["-x", "cl", "-cl-std=CL1.2", "-O1", "-fPIC"]);
        clang.args([
            "-Werror",
            "-Wall",
            "-Wdouble-promotion",
            "-Wno-unused",
            "-c",
        ]);
        clang.arg(&source).arg("-o").arg(&object);
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-Wl,-z,defs", "-o"]).arg(&library);
        cc.arg(&object).args(support()).arg("-lm");
        let made = tool(&mut clang).and_then(|()| tool(&mut cc));
        made.unwrap_or_else(|e| panic!("{e}\n{}", s.text));
        Ok(std::fs::read(library).unwrap())
    }

    fn resources(&self, _: &[u8], _: &Target, _: u32) -> Option<Resources> {
        None
    }

    fn disassemble(&self, _: &[u8]) -> codegen::Result<String> {
        Ok(String::new())
    }
}

type Run = unsafe extern "C" fn(*const u64, *const u32, u32) -> i32;

/// Runs the stages of a kernel, work-item by work-item.
fn run(built: &Built, buffers: &mut [Vec<u8>], vars: &[i64]) {
    let scratch = built.scratch.iter();
    let mut scratch: Vec<Vec<u64>> = scratch
        .map(|s| vec![0x7f7f_7f7f_7f7f_7f7f; s.bytes.div_ceil(8)])
        .collect();
    // Aligned as buffers of a device are.
    let mut own: Vec<Vec<u128>> = buffers
        .iter()
        .map(|b| vec![0u128; b.len().div_ceil(16) + 1])
        .collect();
    for (to, from) in own.iter_mut().zip(buffers.iter()) {
        for (to, part) in to.iter_mut().zip(from.chunks(16)) {
            let mut bytes = [0; 16];
            bytes[..part.len()].copy_from_slice(part);
            *to = u128::from_ne_bytes(bytes);
        }
    }
    for (i, stage) in built.stages.iter().enumerate() {
        let mut args: Vec<u64> = stage
            .args
            .iter()
            .map(|arg| match *arg {
                StageArg::Param(slot) => own[slot as usize].as_mut_ptr() as u64,
                StageArg::Scratch(i) => scratch[i as usize].as_mut_ptr() as u64,
                StageArg::Var(slot) => vars[slot as usize] as u64,
                StageArg::Number(n) => n as u64,
            })
            .collect();
        assert!(args.len() <= 40, "{}: {}", stage.name, args.len());
        args.resize(40, 0);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kernel.so");
        std::fs::write(&path, &stage.object[..]).unwrap();
        // SAFETY: `run` of items.c has that type, and the kernel the arguments of its stage; buffers have the sizes that it
        // was compiled for.
        let met = unsafe {
            let library = libloading::Library::new(&path).unwrap();
            let run: libloading::Symbol<'_, Run> = library.get(b"run").unwrap();
            run(args.as_ptr(), stage.grid.as_ptr(), stage.block[0])
        };
        let text = built.report.source.get(i);
        assert_eq!(met, 1, "not all work-items meet a barrier\n{text:?}");
    }
    for (to, from) in buffers.iter_mut().zip(&own) {
        for (to, part) in to.chunks_mut(16).zip(from) {
            to.copy_from_slice(&part.to_ne_bytes()[..to.len()]);
        }
    }
}

fn on_host() -> Backend {
    let target = Target::qcom("a630", 0).unwrap();
    Backend::new(target, Arc::new(OpenClRenderer), Some(Arc::new(OnHost)))
}

/// A compiler runs for each kernel: one in so many of a list, as it is or optimised.
struct Sampled {
    part: Part,
    next: usize,
    of: usize,
}

impl Sampled {
    fn one_in(of: usize) -> Sampled {
        Sampled {
            part: Part::chosen(),
            next: 0,
            of,
        }
    }

    fn check(&mut self, kernel: &Kernel, tolerance: f64) {
        if has_doubles(kernel) {
            return;
        }
        let backend = on_host();
        for noopt in [true, false] {
            self.next += 1;
            if !self.part.has(self.next, self.of) {
                continue;
            }
            let options = Options {
                noopt,
                deterministic: true,
                explain: true,
                ..Options::default()
            };
            let buffers = fill(kernel, &mut Random(0x1234_5678_9abc_def1));
            let buffers = without_denormals(kernel, buffers);
            let want = expected(kernel, &buffers, &numbers(kernel));
            let want = without_denormals(kernel, want);
            let built = build(kernel, &backend, &options)
                .unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
            let mut got = buffers.clone();
            run(&built, &mut got, &numbers(kernel));
            let got = without_denormals(kernel, got);
            for (slot, p) in kernel.params.iter().enumerate() {
                let (name, opts) = (&kernel.name, &built.report.opts);
                let what = format!("{name} buffer {slot} {} {opts:?}", p.dtype);
                same(p.dtype, &got[slot], &want[slot], tolerance, &what);
            }
        }
    }
}

#[test]
fn the_text_computes_what_the_interpreter_does() {
    let mut cases = Sampled::one_in(12);
    suite::elements(|kernel, tolerance| cases.check(kernel, tolerance));
    suite::rows(|kernel, tolerance| cases.check(kernel, tolerance));
    suite::reductions_of_every_type(|kernel, tolerance| cases.check(kernel, tolerance));
    suite::products_and_convolutions(|kernel, tolerance| cases.check(kernel, tolerance));
    suite::numbers_of_every_type(|kernel, tolerance| cases.check(kernel, tolerance));
    suite::scans_and_scatters(|kernel, tolerance| cases.check(kernel, tolerance));
}

#[test]
fn operations_are_those_of_the_interpreter() {
    let mut cases = Sampled::one_in(24);
    suite::every_operation(|kernel, tolerance| cases.check(kernel, tolerance.max(1e-6)));
    suite::constant_divisors(|kernel, tolerance| cases.check(kernel, tolerance));
}

#[test]
fn work_items_combine_in_memory() {
    let (part, mut next) = (Part::chosen(), 0);
    let backend = on_host();
    for op in COMBINING {
        for dtype in DType::ALL.into_iter().filter(|&d| d != DType::F64) {
            next += 1;
            if part.has(next, 12) && backend.target.atomics.has(op, dtype) {
                combined(&backend, op, dtype, |built, _, buffers, vars| {
                    run(built, buffers, vars);
                    true
                });
            }
        }
    }
}

/// The vendor's library, as a stand-in.
struct StandIn {
    folder: tempfile::TempDir,
}

impl StandIn {
    /// With these options of the compiler.
    fn new(options: &[&str]) -> StandIn {
        let folder = tempfile::tempdir().unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-Wall", "-Werror"])
            .args(options)
            .arg(format!("-DFOLDER=\"{}\"", folder.path().display()))
            .arg(here("libOpenCL.c"))
            .arg("-o")
            .arg(folder.path().join("libOpenCL.so"));
        tool(&mut cc).unwrap();
        let one = StandIn { folder };
        one.put("platform", b"QUALCOMM Snapdragon(TM)");
        one.put("version", b"OpenCL 2.0 Adreno(TM) 630");
        one.put("binary", &vendor().to_bytes());
        one
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    fn open(&self, chip: &str) -> codegen::Result<OpenClCompiler> {
        let target = Target::qcom(chip, 0).unwrap();
        OpenClCompiler::at(self.path("libOpenCL.so"), &target)
    }

    fn backend(&self) -> Backend {
        let target = Target::qcom("a630", 0).unwrap();
        let compiler = self.open("a630").unwrap();
        Backend::new(target, Arc::new(OpenClRenderer), Some(Arc::new(compiler)))
    }
}

/// What the vendor's compiler may give.
fn vendor() -> Vendor {
    let mut code = vec![0; 16];
    code[0] = ir3::encode(&"end".parse().unwrap()).unwrap();
    Vendor {
        name: "start".into(),
        arguments: [0, 8, 16].map(|at| Argument::Value { at }).into(),
        full: 10,
        half: 3,
        branch_depth: 0,
        shared_bytes: 0,
        private_bytes: 0,
        samplers: 0,
        constants: Vec::new(),
        entry: 0,
        code,
    }
}

#[test]
fn the_library_compiles() {
    let stand_in = StandIn::new(&[]);
    let backend = stand_in.backend();
    let told = backend.describe();
    for part in [
        "OpenCL 2.0 stand-in",
        "stand-in 1.0",
        "Adreno(TM) 630",
        "-cl-std=CL1.2",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let options = Options {
        explain: true,
        ..Options::default()
    };
    let built = build(&elementwise(100), &backend, &options).unwrap();
    assert_eq!(built.stages[0].object[..], vendor().to_bytes()[..]);
    let source = std::fs::read_to_string(stand_in.path("source")).unwrap();
    assert_eq!(source, built.report.source[0]);
    assert!(source.contains("__kernel void start("), "{source}");
    let options = std::fs::read_to_string(stand_in.path("options")).unwrap();
    assert_eq!(options, "-cl-std=CL1.2");
    let resources = built.report.resources[0];
    // 10 full vectors and 3 of halves, which are 2: 96 / 12 pairs of waves.
    assert_eq!((resources.vector, resources.waves), (48, 16));
    let text = built.report.disassembly().unwrap();
    assert!(text.contains("10 full and 3 half vectors"), "{text}");
    assert!(text.contains("end"), "{text}");
}

#[test]
fn what_the_library_cannot_do_is_said() {
    let stand_in = StandIn::new(&[]);
    let refused = |chip: &str| stand_in.open(chip).err().unwrap().to_string();
    let says = |text: String, parts: &[&str]| {
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
    };
    says(
        refused("a660"),
        &[
            "QCOM:CL",
            "cannot compile for a660",
            "libOpenCL.so",
            "only, a630",
            "QCOM:IR3",
        ],
    );
    stand_in.put("version", b"OpenCL 3.0 somebody else's");
    says(
        refused("a630"),
        &["expected an Adreno device", "somebody else's"],
    );
    stand_in.put("platform", b"Portable Computing Language");
    says(
        refused("a630"),
        &[
            "found [Portable Computing Language]",
            "not Qualcomm's OpenCL",
        ],
    );

    let without = StandIn::new(&["-DWITHOUT_PROGRAM_INFO"]);
    let text = without.open("a630").err().unwrap().to_string();
    says(text, &["is another library", "clGetProgramInfo"]);

    let absent = OpenClCompiler::at("/nowhere/libOpenCL.so", &Target::qcom("a630", 0).unwrap());
    let text = absent.err().unwrap().to_string();
    says(
        text,
        &["which is not installed", "looked in: /nowhere/libOpenCL.so"],
    );
}

#[test]
fn what_does_not_build_is_said_with_the_log() {
    let stand_in = StandIn::new(&[]);
    let backend = stand_in.backend();
    let failed = || {
        let built = build(&elementwise(100), &backend, &Options::default());
        built.err().unwrap().to_string()
    };
    stand_in.put("log", b"<source>:7:3: error: out of ideas\n");
    let text = failed();
    for part in [
        "start",
        "clBuildProgram",
        "CL_BUILD_PROGRAM_FAILURE (-11)",
        "out of ideas",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    std::fs::remove_file(stand_in.path("log")).unwrap();
    let good = vendor().to_bytes();
    for cut in [0, 16, 0x40, 0x130] {
        stand_in.put("binary", &good[..cut]);
        let text = failed();
        let part = match cut {
            0 => "found 0 bytes",
            _ => "truncated in its",
        };
        assert!(text.contains(part), "{cut}: {text}");
    }
    std::fs::remove_file(stand_in.path("binary")).unwrap();
    assert!(
        failed().contains("clGetProgramInfo: CL_INVALID_VALUE"),
        "{}",
        failed()
    );
}

#[test]
fn a_build_that_does_not_end_is_given_up() {
    let stand_in = StandIn::new(&[]);
    stand_in.put("hang", b"");
    let source = Source {
        language: Language::OpenCl,
        entry: "start".into(),
        text: "__kernel void start() {}".into(),
    };
    let target = Target::qcom("a630", 0).unwrap();
    let compiler = stand_in.open("a630").unwrap();
    let short = compiler.clone().with_limit(Duration::from_millis(50));
    let refused = |compiler: &OpenClCompiler, parts: &[&str]| {
        let text = compiler.compile(&source, &target).unwrap_err().to_string();
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
    };
    refused(
        &short,
        &["clBuildProgram", "libOpenCL.so", "50ms", "`start`", "IR3"],
    );
    // Whether it ends later or not: what a library does that was stuck is not known.
    std::fs::remove_file(stand_in.path("hang")).unwrap();
    for again in [&short, &compiler] {
        refused(again, &["not called again", "`start`", "IR3"]);
    }
    let other = stand_in.open("a630").unwrap();
    assert!(other.compile(&source, &target).is_ok());
}

/// The first calls open the GPU, which may hang.
#[test]
fn first_calls_that_do_not_end_are_given_up() {
    let stand_in = StandIn::new(&[]);
    stand_in.put("asleep", b"");
    let target = Target::qcom("a630", 0).unwrap();
    let path = stand_in.path("libOpenCL.so");
    let short = OpenClCompiler::at_within(&path, &target, Duration::from_millis(50));
    let text = short.err().unwrap().to_string();
    for part in [
        "the first calls of",
        "libOpenCL.so",
        "clGetPlatformIDs",
        "50ms",
        "QCOM:IR3",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    std::fs::remove_file(stand_in.path("asleep")).unwrap();
    assert!(OpenClCompiler::at(&path, &target).is_ok());
}
