//! A hash of the code that makes kernels, so that no kernel that older code made is taken from the compile cache.
//!
//! It covers the sources of this crate, and those that it uses of `drivers-spec`, which decide numbers that are a part
//! of what is cached. The crates that it was built with state who they are when it runs (`src/content.rs`), and so does
//! the library or program that compiles.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::{env, fs, io};

/// What this crate uses of `drivers-spec`: files and folders of its sources.
pub const SPEC: [&str; 5] = [
    "nv/tensor_map.rs",
    "nv/cubin.rs",
    "nv/cubin",
    "qcom/chip.rs",
    "qcom/opencl.rs",
];

fn main() -> io::Result<()> {
    let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| ".".into());
    let package = Path::new(&package);
    println!("cargo::rerun-if-changed={}", package.join("src").display());
    let spec = spec(package);
    for name in SPEC.iter().filter(|name| spec.join(name).exists()) {
        println!("cargo::rerun-if-changed={}", spec.join(name).display());
    }
    println!(
        "cargo::rustc-env=CODEGEN_SOURCES={:016x}",
        sources(package)?
    );
    Ok(())
}

fn spec(package: &Path) -> std::path::PathBuf {
    package.join("../drivers/spec/src")
}

/// The hash of the sources of this package, and of what it uses of the one beside it. A package that comes from a
/// registry has none beside it: its version says what it uses.
pub fn sources(package: &Path) -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    hash_folder(&package.join("src"), &mut hasher)?;
    let spec = spec(package);
    for name in SPEC {
        let path = spec.join(name);
        name.hash(&mut hasher);
        if path.is_dir() {
            hash_folder(&path, &mut hasher)?;
        } else if path.exists() {
            fs::read(path)?.hash(&mut hasher);
        }
    }
    Ok(hasher.finish())
}

/// The names and contents of the files in a folder and in those below it, in the order of their names.
fn hash_folder(folder: &Path, hasher: &mut impl Hasher) -> io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(|e| e.file_name());
    for entry in entries {
        entry.file_name().hash(hasher);
        if entry.file_type()?.is_dir() {
            hash_folder(&entry.path(), hasher)?;
        } else {
            fs::read(entry.path())?.hash(hasher);
        }
    }
    // Where a folder ends counts.
    0u8.hash(hasher);
    Ok(())
}
