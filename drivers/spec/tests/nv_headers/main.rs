//! Our tables of NVIDIA's interface, compared with the headers by a C compiler.
//!
//! `scripts/fetch nvidia-headers` fetches what Debian has of them into target/nvidia-headers, one folder for
//! each version: `kernel-VERSION` of the open kernel modules, `classes-VERSION` of the classes. Whatever
//! lies there is compared, so a checkout of another release is, too. Without any the tests say so and
//! pass. The half of a tree that the package for DKMS has is compared as far as it goes.

#![allow(clippy::unwrap_used)] // A test may panic.

mod abi;
mod c;
mod classes;
mod registers;

use std::path::{Path, PathBuf};

/// The folders of one kind, with their versions.
fn trees(kind: &str) -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/nvidia-headers");
    let found = std::fs::read_dir(&root).into_iter().flatten();
    let mut trees: Vec<_> = found
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let version = path.file_name()?.to_str()?.strip_prefix(kind)?.to_owned();
            Some((version, path))
        })
        .collect();
    trees.sort();
    if trees.is_empty() {
        eprintln!(
            "not compared: no {kind}* in {} (scripts/fetch nvidia-headers fetches them)",
            root.display()
        );
    }
    trees
}
