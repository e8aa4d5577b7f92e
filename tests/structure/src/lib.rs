//! The sources of this repository as data: crates, their files, what each file names of the others.
//!
//! Read with `syn`, so that comments and strings are not taken for code. Macros are opaque: what a
//! macro's arguments name is looked at word by word.
#![forbid(unsafe_code)]

pub mod names;
pub mod tree;

use std::path::{Path, PathBuf};

/// The top of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The Rust files below a folder, sorted; none if it is not there.
///
/// # Panics
/// A folder that cannot be read.
pub fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        if !folder.is_dir() {
            continue;
        }
        let entries = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let path = entry
                .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
                .path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A parsed file.
///
/// # Panics
/// It cannot be read, or is no Rust.
pub fn parse(path: &Path) -> syn::File {
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The top files of the crates that are shipped: each `lib.rs` and `main.rs` in a folder called `src`.
pub fn shipped() -> Vec<PathBuf> {
    let members = ["hcq", "drivers", "firmware-tools", "codegen", "tensor"];
    let files = members.iter().flat_map(|m| rust_files(&root().join(m)));
    let tops = files.filter(|file| {
        let name = file.file_name();
        let folder = file.parent().and_then(Path::file_name);
        folder.is_some_and(|f| f == "src") && name.is_some_and(|n| n == "lib.rs" || n == "main.rs")
    });
    tops.collect()
}
