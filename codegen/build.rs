//! A hash of the code that makes kernels, so that no kernel that older code made is taken from the compile cache.
//!
//! It covers the sources of this crate, and what `Cargo.lock` says of the crates that they use. The library or
//! program that compiles states its version when it runs, which is a part of the key of its own.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::{env, fs, io};

/// The crates whose versions decide the code: the numbers of narrow floats, and the bindings of LLVM.
const CRATES: [&str; 3] = ["half", "inkwell", "llvm-sys"];

fn main() -> io::Result<()> {
    let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| ".".into());
    let (sources, lock) = (
        Path::new(&package).join("src"),
        Path::new(&package).join("../Cargo.lock"),
    );
    let mut hasher = DefaultHasher::new();
    hash_folder(&sources, &mut hasher)?;
    if let Ok(text) = fs::read_to_string(&lock) {
        hash_crates(&text, &mut hasher);
        println!("cargo::rerun-if-changed={}", lock.display());
    }
    println!("cargo::rerun-if-changed={}", sources.display());
    println!("cargo::rustc-env=CODEGEN_SOURCES={:016x}", hasher.finish());
    Ok(())
}

/// The names and contents of the files in a folder and in those below it, in the order of their names.
pub fn hash_folder(folder: &Path, hasher: &mut impl Hasher) -> io::Result<()> {
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

/// The entries of [`CRATES`] in a lock file.
pub fn hash_crates(lock: &str, hasher: &mut impl Hasher) {
    for package in lock.split("[[package]]") {
        let name = package.lines().find_map(|l| l.strip_prefix("name = "));
        if name.is_some_and(|n| CRATES.contains(&n.trim_matches('"'))) {
            package.hash(hasher);
        }
    }
}
