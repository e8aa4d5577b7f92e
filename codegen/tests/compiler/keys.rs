//! What makes two kernels one for the compile cache, and what keeps them apart.
#[path = "../../build.rs"]
#[allow(dead_code, reason = "a build script has an entry of its own")]
mod script;
use crate::support;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use codegen::compile::Compiler;
use codegen::render::{CRenderer, PtxRenderer, Source};
use codegen::{Backend, Cache, Kernel, Options, Resources, Target, build};
use support::*;

/// Counts what it is given, and makes the same object of everything.
#[derive(Default)]
struct Counting(AtomicUsize);

impl Compiler for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn version(&self) -> String {
        String::new()
    }

    fn compile(&self, s: &Source, _: &Target) -> codegen::Result<Vec<u8>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(s.text.clone().into_bytes())
    }

    fn resources(&self, _: &[u8], _: &Target, _: u32) -> Option<Resources> {
        None
    }

    fn disassemble(&self, _: &[u8]) -> codegen::Result<String> {
        Ok(String::new())
    }
}

#[test]
fn a_kernel_under_two_names_is_compiled_once() {
    let named = |name: &str| Kernel {
        name: name.into(),
        ..matmul(256, 256, 256, false, false, false)
    };
    let dir = tempfile::tempdir().unwrap();
    let compiler = Arc::new(Counting::default());
    let backend = Backend::new(Target::host(2), Arc::new(CRenderer), Some(compiler.clone()));
    // Every process has a cache of its own over the folder.
    let make = |name: &str, explain| {
        let cache = Some(Arc::new(Cache::open(dir.path(), 1 << 20).unwrap()));
        let options = Options {
            cache,
            explain,
            ..Options::default()
        };
        build(&named(name), &backend, &options).unwrap()
    };
    let (first, second) = (make("first", false), make("second", false));
    assert_eq!(compiler.0.load(Ordering::Relaxed), first.stages.len());
    assert!(second.report.cached && !first.report.cached);
    assert_eq!(first.key, second.key);
    assert!(first.stages.len() > 1, "a product has several stages");
    for (a, b) in first.stages.iter().zip(&second.stages) {
        assert_eq!((&a.object, &a.entry), (&b.object, &b.entry));
        let part = a.name.strip_prefix("first").unwrap();
        assert_eq!(b.name, format!("second{part}"));
    }
    // The texts are made anew, the objects are those of the same texts.
    make("third", true);
    let compiled = compiler.0.load(Ordering::Relaxed);
    make("fourth", true);
    assert_eq!(compiler.0.load(Ordering::Relaxed), compiled);
}

#[test]
fn other_products_are_another_kernel() {
    let compiler = Arc::new(Counting::default());
    let target = Target::nv("sm_90", 0).unwrap();
    let backend = Backend::new(target, Arc::new(PtxRenderer), Some(compiler));
    let kernel = matmul(256, 256, 256, false, false, false);
    let key = |backend: &Backend| build(&kernel, backend, &Options::default()).unwrap().key;
    let allowed = backend.clone().with_tf32();
    assert_ne!(key(&backend), key(&allowed));
    assert_eq!(key(&allowed), key(&allowed.clone().with_tf32()));
    // Where there is nothing to allow, nothing changes.
    let host = Target::host(2);
    assert_eq!(host.clone().with_tf32(), host);
}

#[test]
fn any_change_of_the_sources_is_another_hash() {
    let dir = tempfile::tempdir().unwrap();
    let (package, spec) = (
        dir.path().join("codegen"),
        dir.path().join("drivers/spec/src"),
    );
    let path = |name: &str| package.join("src").join(name);
    let mut seen = Vec::new();
    let mut fresh = |what: &str| {
        let hash = script::sources(&package).unwrap();
        assert!(!seen.contains(&hash), "{what}");
        seen.push(hash);
    };
    std::fs::create_dir_all(path("lower")).unwrap();
    std::fs::write(path("a.rs"), "fn a() {}").unwrap();
    fresh("at first");
    std::fs::write(path("a.rs"), "fn a() { }").unwrap();
    fresh("a byte more");
    std::fs::write(path("lower/b.rs"), "fn b() {}").unwrap();
    fresh("a file in a folder");
    std::fs::rename(path("lower/b.rs"), path("lower/c.rs")).unwrap();
    fresh("another name");
    std::fs::rename(path("lower/c.rs"), path("c.rs")).unwrap();
    fresh("another folder");
    // The layout of tensor maps is in the arguments that are cached.
    std::fs::create_dir_all(spec.join("nv/cubin")).unwrap();
    fresh("the crate beside it");
    std::fs::write(spec.join("nv/tensor_map.rs"), "const SHIFT: u32 = 3;").unwrap();
    fresh("tensor maps");
    std::fs::write(spec.join("nv/tensor_map.rs"), "const SHIFT: u32 = 4;").unwrap();
    fresh("another layout of tensor maps");
    std::fs::write(spec.join("nv/cubin/info.rs"), "").unwrap();
    fresh("a file of what is read in objects");
    let before = script::sources(&package).unwrap();
    std::fs::write(spec.join("nv/other.rs"), "").unwrap();
    assert_eq!(
        script::sources(&package).unwrap(),
        before,
        "what is not used"
    );
}

/// Every `drivers_spec::a::b` in the sources.
fn used(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            used(&path, found);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for part in text.split("drivers_spec::").skip(1) {
            let names = part.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
            let names: Vec<&str> = names.take(1).flat_map(|n| n.split("::")).take(2).collect();
            found.insert(names.join("/"));
        }
    }
}

#[test]
fn all_that_is_used_of_the_crate_beside_it_is_hashed() {
    let mut found = BTreeSet::new();
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    used(&package.join("src"), &mut found);
    let hashed = script::SPEC
        .iter()
        .filter_map(|name| name.strip_suffix(".rs"));
    let hashed: BTreeSet<String> = hashed.map(str::to_owned).collect();
    assert_eq!(found, hashed);
    let spec = package.join("../drivers/spec/src");
    for name in script::SPEC {
        assert!(spec.join(name).exists(), "{name} is there");
    }
    // Files that these are made of have no others beside them, but for the folder of their own name.
    for name in script::SPEC.iter().filter(|name| name.ends_with(".rs")) {
        let text = std::fs::read_to_string(spec.join(name)).unwrap();
        assert!(
            !text.contains("crate::"),
            "{name} uses other files of its crate"
        );
    }
}

/// The number of a type, in a program that is built with a version of the crate that has it.
fn number_of_a_type(dir: &Path, version: &str) -> String {
    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let package = |name: &str, version: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"{version}\"\nedition = \"2024\"\n")
    };
    let uses = "[dependencies]\nlower = { path = \"lower\" }\n[workspace]\n";
    write("lower/Cargo.toml", &package("lower", version));
    write("lower/src/lib.rs", "pub struct Type;");
    write("Cargo.toml", &(package("upper", "1.0.0") + uses));
    let main = "use std::hash::{DefaultHasher, Hash, Hasher};
        fn main() {
            let mut hasher = DefaultHasher::new();
            std::any::TypeId::of::<lower::Type>().hash(&mut hasher);
            println!(\"{}\", hasher.finish());
        }";
    write("src/main.rs", main);
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut run = std::process::Command::new(cargo);
    run.args(["run", "--offline", "--quiet"]).current_dir(dir);
    let out = run
        .env("CARGO_TARGET_DIR", dir.join("target"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    String::from_utf8(out.stdout).unwrap()
}

/// What the key counts on to know the crates that it was built with.
#[test]
fn the_number_of_a_type_tells_the_version_of_its_crate() {
    let dir = tempfile::tempdir().unwrap();
    let first = number_of_a_type(dir.path(), "1.0.0");
    assert_ne!(number_of_a_type(dir.path(), "1.0.1"), first);
    assert_eq!(number_of_a_type(dir.path(), "1.0.0"), first);
}
