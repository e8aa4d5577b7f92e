//! What is said of bundles that were written once stays what it is; and what was written can still be read.
//!
//! `golden/*.json` are bundles of simulated cards: of KFD and NVK those of the ladder of `doorbell bringup` (`TWIN=fault=...`),
//! of PCI one of a start that ends, and one of a program under `doorbell twin exec`. Names of users and folders are taken out.
//! With `UPDATE=1` what is said now is written beside them.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::path::Path;
use std::{env, fs};

use drivers_bundle::{Bundle, explain};

#[test]
fn what_is_said_of_bundles_stays() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|one| one.unwrap().path())
        .collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "json"));
    paths.sort();
    assert!(paths.len() >= 4, "{paths:?}");
    for path in paths {
        let said = explain(&Bundle::read(&path).unwrap()).to_string();
        let text = path.with_extension("txt");
        if env::var_os("UPDATE").is_some() {
            fs::write(&text, &said).unwrap();
        }
        assert_eq!(
            said,
            fs::read_to_string(&text).unwrap(),
            "{}",
            path.display()
        );
    }
}
