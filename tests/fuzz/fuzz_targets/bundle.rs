//! Any file is a bundle that is explained, or an error.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use drivers_bundle::{Bundle, explain};
use libfuzzer_sys::fuzz_target;

/// A bundle is read from a file. One for each process of the fuzzer.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    std::env::temp_dir().join(format!("doorbell-fuzz-bundle-{}", std::process::id()))
});

fuzz_target!(|bytes: &[u8]| {
    std::fs::write(&*FILE, bytes).expect("the folder for temporary files can be written");
    let Ok(bundle) = Bundle::read(&FILE) else {
        return;
    };
    let found = explain(&bundle);
    assert!(!found.text.is_empty() && !found.cause.is_empty());
    assert!(found.to_string().contains(found.cause));
});
