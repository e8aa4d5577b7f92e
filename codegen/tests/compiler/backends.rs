//! Back ends from outside: an emitter of text and one of machine code take part with a row each.
use crate::support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use codegen::compile::Compiler;
use codegen::lower::Program;
use codegen::lower::decomp::Caps;
use codegen::render::{Code, ENTRY, Emitter, Language, Object, Source};
use codegen::{Backend, Cache, Error, Options, Resources, Row, TABLE, Target, build};
use support::*;

/// Writes the program as it is.
struct Words;

impl Emitter for Words {
    fn name(&self) -> &'static str {
        "words"
    }

    fn caps(&self, _: &Target) -> Caps {
        Caps::PLAIN
    }

    fn emit(&self, p: &Program, _: &Target) -> codegen::Result<Code> {
        Ok(Code::Text(Source {
            language: Language::C,
            entry: ENTRY.into(),
            text: p.to_string(),
        }))
    }
}

/// Turns text into numbers.
struct Lengths;

impl Compiler for Lengths {
    fn name(&self) -> &'static str {
        "lengths"
    }

    fn version(&self) -> String {
        "1".into()
    }

    fn compile(&self, s: &Source, _: &Target) -> codegen::Result<Vec<u8>> {
        Ok(s.text.lines().map(|l| l.len() as u8).collect())
    }

    fn resources(&self, _: &[u8], _: &Target, _: u32) -> Option<Resources> {
        None
    }

    fn disassemble(&self, obj: &[u8]) -> codegen::Result<String> {
        Ok(format!("{obj:?}"))
    }
}

/// A byte for each instruction.
struct Bytes;

static EMITTED: AtomicUsize = AtomicUsize::new(0);

impl Emitter for Bytes {
    fn name(&self) -> &'static str {
        "bytes"
    }

    fn caps(&self, _: &Target) -> Caps {
        Caps::PLAIN
    }

    fn emit(&self, p: &Program, t: &Target) -> codegen::Result<Code> {
        EMITTED.fetch_add(1, Ordering::Relaxed);
        Ok(Code::Object(Object {
            bytes: p.insts.iter().map(|_| p.items as u8).collect(),
            listing: p.to_string(),
            resources: Some(Resources {
                vector: p.regs.len() as u32,
                scalar: 0,
                spilled: 0,
                local: p.local_bytes() as u32,
                private: 0,
                waves: 1,
                most_waves: t.wave as u32,
            }),
        }))
    }

    fn disassemble(&self, object: &[u8]) -> codegen::Result<String> {
        Ok(format!("{} instructions", object.len()))
    }
}

const TOYS: &[Row] = &[
    Row {
        device: "TOY",
        renderer: "WORDS",
        target: |_, units| Ok(Target::host(units)),
        emitter: || Arc::new(Words),
        compiler: |_| Ok(Some(Arc::new(Lengths))),
        fix: "",
    },
    Row {
        device: "TOY",
        renderer: "PLAIN",
        target: |_, units| Ok(Target::host(units)),
        emitter: || Arc::new(Words),
        compiler: |_| Ok(None),
        fix: "",
    },
    Row {
        device: "TOY",
        renderer: "BYTES",
        target: |arch, _| Target::amd(arch),
        emitter: || Arc::new(Bytes),
        compiler: |_| Ok(None),
        fix: "",
    },
];

#[test]
fn text_goes_through_the_compiler_or_to_the_device() {
    let kernel = elementwise(1000);
    let options = Options::default();
    let of = |name: &str| {
        let backend = Backend::find_in(TOYS, name, "", 3).unwrap();
        assert_eq!(backend.target.cores, 3);
        (
            backend.describe(),
            build(&kernel, &backend, &options).unwrap(),
        )
    };
    let (compiled, words) = of("TOY:WORDS");
    let (plain, same) = of("TOY:PLAIN");
    assert_eq!((&*compiled, &*plain), ("words lengths 1", "words"));
    assert_ne!(words.key, same.key);
    let text = &same.report.source[0];
    assert!(text.starts_with("program "), "{text}");
    assert_eq!(words.report.source[0], *text);
    assert_eq!(*same.stages[0].object, *text.as_bytes());
    assert_eq!(same.report.disassembly().unwrap(), *text);
    let lengths: Vec<u8> = text.lines().map(|l| l.len() as u8).collect();
    assert_eq!(*words.stages[0].object, *lengths);
    assert_eq!(words.report.disassembly().unwrap(), format!("{lengths:?}"));
    // The first of a device is the best one.
    let (best, _) = of("TOY");
    assert_eq!(best, compiled);
}

#[test]
fn machine_code_needs_no_text() {
    let dir = tempfile::tempdir().unwrap();
    let kernel = matmul(128, 128, 128, false, false, true);
    let backend = Backend::find_in(TOYS, "TOY:BYTES", "gfx1100", 0).unwrap();
    let make = || {
        let options = Options {
            cache: Some(Arc::new(Cache::open(dir.path(), 1 << 20).unwrap())),
            ..Options::default()
        };
        build(&kernel, &backend, &options).unwrap()
    };
    let first = make();
    let emitted = EMITTED.load(Ordering::Relaxed);
    assert_eq!(emitted, first.stages.len());
    let again = make();
    assert_eq!(EMITTED.load(Ordering::Relaxed), emitted, "from the cache");
    assert!(again.report.cached && !first.report.cached);
    assert!(first.report.source[0].starts_with("program "));
    assert_eq!(first.report.resources.len(), first.stages.len());
    assert_eq!(first.report.resources, again.report.resources);
    assert!(
        first
            .report
            .resources
            .iter()
            .all(|r| r.vector > 0 && r.most_waves == 32)
    );
    let object = &first.stages[0].object;
    assert!(
        !object.is_empty()
            && object
                .iter()
                .all(|&b| u32::from(b) == first.stages[0].block[0] & 0xff)
    );
    assert_eq!(again.stages[0].object, *object);
    let listing = again.report.disassembly().unwrap();
    assert!(listing.ends_with("instructions"), "{listing}");
}

#[test]
fn what_is_not_there_is_named() {
    for (name, known) in [
        ("TOY:TEXT", "WORDS, PLAIN, BYTES"),
        ("NONE", "none"),
        ("", "none"),
    ] {
        let error = Backend::find_in(TOYS, name, "", 1).err().unwrap();
        assert!(matches!(error, Error::NoBackend { .. }));
        let text = error.to_string();
        assert!(
            text.contains(&format!("no backend {name};")) && text.contains(known),
            "{text}"
        );
    }
    let error = Backend::find_in(TOYS, "TOY:BYTES", "gfx1", 1)
        .err()
        .unwrap();
    assert!(matches!(error, Error::NoTarget { .. }), "{error}");
}

/// Without a name the next way is taken where a compiler is missing; of a name that one, or nothing.
#[test]
fn a_compiler_that_is_missing_costs_one_way_only() {
    const MISSING: Row = Row {
        device: "TOY",
        renderer: "MISSING",
        target: |_, units| Ok(Target::host(units)),
        emitter: || Arc::new(Words),
        compiler: |_| {
            Err(Error::NoCompiler {
                compiler: "toys".into(),
                message: "is sold out".into(),
                fix: &["buy toys"],
                looked_in: "the shop".into(),
            })
        },
        fix: "",
    };
    const PLAIN: Row = Row {
        renderer: "PLAIN",
        compiler: |_| Ok(None),
        ..MISSING
    };
    let find = |rows: &[Row], name| Backend::find_in(rows, name, "", 1);
    assert_eq!(find(&[MISSING, PLAIN], "TOY").unwrap().describe(), "words");
    for (rows, name) in [(&[MISSING, PLAIN][..], "TOY:MISSING"), (&[MISSING], "TOY")] {
        let error = find(rows, name).err().unwrap();
        let expected = "toys is sold out\n  fix: buy toys\n  looked in: the shop";
        assert_eq!(error.to_string(), expected);
    }
}

/// One way of a name; what has no compiler here says so, and what to do.
#[test]
fn rows_are_ways_of_their_own() {
    for (i, row) in TABLE.iter().enumerate() {
        let same = |other: &&Row| (other.device, other.renderer) == (row.device, row.renderer);
        assert_eq!(TABLE.iter().position(|o| same(&o)), Some(i));
        assert!(!row.fix.is_empty());
        let arch = match row.device {
            "NV" | "CUDA" => "sm_90",
            "QCOM" => "a630",
            "CL" => "cl:local=32768,items=256,wave=32",
            _ => "gfx1100",
        };
        match row.open(arch, 1) {
            Ok(backend) => assert!(!backend.describe().is_empty()),
            Err(e) => assert!(matches!(e, Error::NoCompiler { .. }), "{e}"),
        }
    }
}

/// What is a GPU is not AMD's for that.
#[test]
fn no_emitter_spells_for_a_machine_that_it_does_not_know() {
    use codegen::render::{CRenderer, CudaRenderer, HipRenderer, LlvmRenderer, PtxRenderer};
    let other = Target {
        arch: "adreno".into(),
        ..Target::amd("gfx1100").unwrap()
    };
    let emitters: [(Arc<dyn Emitter>, &str); 5] = [
        (Arc::new(LlvmRenderer), "llvm"),
        (Arc::new(CRenderer), "c"),
        (Arc::new(HipRenderer), "hip"),
        (Arc::new(CudaRenderer), "cuda"),
        (Arc::new(PtxRenderer), "ptx"),
    ];
    for (emitter, name) in emitters {
        let backend = Backend::new(other.clone(), emitter, None);
        let error = build(&elementwise(1000), &backend, &Options::default()).err();
        assert!(
            matches!(&error, Some(Error::Render { target, renderer, .. }) if target == "adreno" && *renderer == name),
            "{error:?}"
        );
    }
}
