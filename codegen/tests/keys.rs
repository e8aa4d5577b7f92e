//! What makes two kernels one for the compile cache, and what keeps them apart.
#![allow(clippy::unwrap_used)]

#[path = "../build.rs"]
#[allow(dead_code, reason = "a build script has an entry of its own")]
mod script;
mod support;

use std::hash::{DefaultHasher, Hasher};
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
    let path = |name: &str| dir.path().join(name);
    let mut seen = Vec::new();
    let mut fresh = |what: &str| {
        let mut hasher = DefaultHasher::new();
        script::hash_folder(dir.path(), &mut hasher).unwrap();
        let hash = hasher.finish();
        assert!(!seen.contains(&hash), "{what}");
        seen.push(hash);
    };
    std::fs::create_dir(path("lower")).unwrap();
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
    let lock = |text: &str| {
        let mut hasher = DefaultHasher::new();
        script::hash_crates(text, &mut hasher);
        hasher.finish()
    };
    let text = "[[package]]\nname = \"half\"\nversion = \"2.7.1\"\n\n[[package]]\nname = \"zip\"\nversion = \"1\"\n";
    assert_ne!(lock(text), lock(&text.replace("2.7.1", "2.7.2")));
    assert_eq!(lock(text), lock(&text.replace("\"1\"", "\"2\"")));
}
