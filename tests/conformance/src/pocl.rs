//! PoCL, an OpenCL for CPUs, as `scripts/fetch cl` has unpacked it.
//!
//! Nothing of it is installed. The loader of OpenCL is told its library by `OCL_ICD_VENDORS`, and what it needs is loaded
//! before: a library that is loaded is found by its name (`dlopen(3)`).

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// Where it is; none, which is said, where it was not fetched.
///
/// # Panics
/// What was fetched is not there.
fn fetched() -> Option<Fetched> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/cl");
    if !root.join("bookworm/fetched").exists() {
        println!(
            "skipped: no {}: `scripts/fetch cl` fetches it",
            root.display()
        );
        return None;
    }
    let folder = root.join("bookworm/usr/lib/x86_64-linux-gnu");
    let folder = folder.canonicalize().unwrap();
    let libraries = std::fs::read_dir(&folder).unwrap();
    let mut libraries: Vec<PathBuf> = libraries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains(".so."))
        .collect();
    libraries.sort();
    let named = |path: &&PathBuf| path.to_string_lossy().contains("libpocl.so.2.");
    let icd = libraries.iter().find(named).unwrap().clone();
    let cache = root.join("cache");
    std::fs::create_dir_all(&cache).unwrap();
    Some(Fetched {
        folder,
        libraries,
        icd,
        cache,
    })
}

/// Files of PoCL.
struct Fetched {
    /// The folder of libraries, and those.
    folder: PathBuf,
    libraries: Vec<PathBuf>,
    /// PoCL itself.
    icd: PathBuf,
    /// For what it builds.
    cache: PathBuf,
}

/// What a program has to have in its environment to find it; none, which is said, where it was not fetched.
///
/// # Panics
/// What was fetched is not there.
pub fn environment() -> Option<[(&'static str, String); 3]> {
    let fetched = fetched()?;
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    Some([
        ("LD_LIBRARY_PATH", text(&fetched.folder)),
        ("OCL_ICD_VENDORS", text(&fetched.icd)),
        ("POCL_CACHE_DIR", text(&fetched.cache)),
    ])
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
    let Fetched {
        folder,
        libraries: mut left,
        icd,
        cache,
    } = fetched()?;
    // SAFETY: tests of one process come here one after the other, before anything that reads these variables is loaded.
    unsafe {
        std::env::set_var("OCL_ICD_VENDORS", &icd);
        std::env::set_var("POCL_CACHE_DIR", &cache);
    }
    // Each needs some that come later in the list.
    loop {
        let before = left.len();
        let fails = |path: &PathBuf| {
            // SAFETY: these are libraries of Debian's, whose initialisers need nothing.
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
    Some(folder.join("libOpenCL.so.1"))
}
