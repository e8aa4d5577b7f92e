//! PoCL, an OpenCL for CPUs, as `scripts/fetch cl` has unpacked it.
//!
//! Nothing of it is installed. The loader of OpenCL is told its library by `OCL_ICD_VENDORS`, and what it needs is loaded
//! before: a library that is loaded is found by its name (`dlopen(3)`).

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// Where it is.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/cl")
}

/// The loader of OpenCL, which has one platform then; none, which is said, where it was not fetched.
///
/// # Panics
/// What was fetched cannot be loaded.
pub fn library() -> Option<PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(load).clone()
}

fn load() -> Option<PathBuf> {
    let root = root();
    let all = root.join("bookworm/usr/lib/x86_64-linux-gnu");
    if !root.join("bookworm/fetched").exists() {
        println!(
            "skipped: no {}: `scripts/fetch cl` fetches it",
            root.display()
        );
        return None;
    }
    let all = all.canonicalize().unwrap();
    let mut left: Vec<PathBuf> = std::fs::read_dir(&all)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains(".so."))
        .collect();
    left.sort();
    let named = |path: &&PathBuf| path.to_string_lossy().contains("libpocl.so.2.");
    let icd = left.iter().find(named).unwrap().clone();
    let cache = root.join("cache");
    std::fs::create_dir_all(&cache).unwrap();
    // SAFETY: tests of one process come here one after the other, before anything that reads these variables is loaded.
    unsafe {
        std::env::set_var("OCL_ICD_VENDORS", &icd);
        std::env::set_var("POCL_CACHE_DIR", &cache);
    }
    // Each needs some that come later in the list.
    loop {
        let before = left.len();
        // SAFETY: these are libraries of Debian's, whose initialisers need nothing.
        let fails = |path: &PathBuf| {
            unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
                .map(std::mem::forget)
                .is_err()
        };
        left.retain(fails);
        if left.len() == before || left.is_empty() {
            break;
        }
    }
    assert!(!left.contains(&icd), "{} cannot be loaded", icd.display());
    Some(all.join("libOpenCL.so.1"))
}
