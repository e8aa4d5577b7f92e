//! What each part of the compiler and of a GPU driver may name, read from its source.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use structure::root;

const COMPILER: &str = "codegen";

/// Modules of crates, each of which uses those before it, and none behind it.
const LAYERS: [(&str, &[&str]); 7] = [
    (
        COMPILER,
        &[
            "dtype",
            "error",
            "trust",
            "checkout",
            "recent",
            "ir",
            "interp",
            "encoding",
            "machine",
            "ir3",
            "target",
            "resources",
            "symbolic",
            "rewrite",
            "opt",
            "lower",
            "render",
            "compile",
            "cache",
            "modules",
            "backend",
            "content",
            "stage",
            "built",
            "build",
        ],
    ),
    (
        "drivers/cl",
        &[
            "status", "api", "memory", "survey", "cache", "program", "queue", "device",
        ],
    ),
    (
        "drivers/gpu",
        &[
            "span", "backend", "kernel", "bare", "core", "memory", "submit", "engine", "queue",
            "device",
        ],
    ),
    (
        "drivers/runtime",
        &[
            "refusal", "calls", "survey", "packet", "encode", "process", "clock", "backend",
            "stream", "worker", "way", "hardware", "open",
        ],
    ),
    (
        "drivers/nv",
        &[
            "chip", "options", "encode", "object", "backend", "rm", "nvk", "gsp", "pci", "program",
            "hardware", "device",
        ],
    ),
    (
        "drivers/qcom",
        &[
            "lines", "options", "object", "encode", "interop", "vendor", "backend", "kgsl", "msm",
            "program", "hardware", "device",
        ],
    ),
    (
        "drivers/amd",
        &[
            "chip", "options", "encode", "object", "backend", "kfd", "am", "program", "hardware",
            "device",
        ],
    ),
];

/// The files of a crate, with their code: comments are left out.
fn sources(top: &str) -> BTreeMap<PathBuf, String> {
    let root = root().join(top).join("src");
    let mut found = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.lines().filter_map(|line| line.split("//").next());
            let code: Vec<_> = code.collect();
            let name = path.strip_prefix(&root).unwrap().to_path_buf();
            found.insert(name, code.join("\n"));
        }
    }
    assert!(found.len() > 5);
    found
}

/// The words of some code.
fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// What follows each `start` in the code: the names behind it, also in braces.
fn named<'a>(code: &'a str, start: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(start) {
        let rest = &code[at + start.len()..];
        match rest.strip_prefix('{') {
            // Of a list, the first name of each entry.
            Some(list) => {
                let mut depth = 0;
                for (i, c) in list.char_indices() {
                    let first = list[..i].trim_end().ends_with([',', '{']) || i == 0;
                    if depth == 0 && first && c.is_alphanumeric() {
                        found.extend(words(&list[i..]).next());
                    }
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        _ => {}
                    }
                }
            }
            None => found.extend(words(rest).next()),
        }
    }
    found
}

#[test]
fn nothing_but_its_folder_names_the_kernel_driver() {
    let mut entries = Vec::new();
    for (path, code) in sources("drivers/amd") {
        if path.starts_with("kfd") {
            continue;
        }
        for line in code.lines() {
            if words(line).any(|word| word.to_lowercase().contains("kfd")) {
                entries.push(format!("{}: {}", path.display(), line.trim()));
            }
        }
    }
    // The module, and the one way to it.
    assert_eq!(
        entries,
        [
            "lib.rs: pub mod kfd;",
            "lib.rs: over(&kfd::open(machine, index, options)?, options)",
        ]
    );
}

#[test]
fn each_module_uses_only_those_above_it() {
    for (top, layers) in LAYERS {
        for (path, code) in sources(top) {
            let module = path.iter().next().unwrap().to_str().unwrap();
            let module = module.trim_end_matches(".rs");
            if module == "lib" {
                continue;
            }
            let layer = layers.iter().position(|one| *one == module);
            let layer = layer.unwrap_or_else(|| panic!("{top}: {module} has no layer"));
            for used in named(&code, "crate::") {
                let Some(other) = layers.iter().position(|one| *one == used) else {
                    continue;
                };
                let path = path.display();
                assert!(
                    other <= layer,
                    "{top}: {path} uses {used}, which is above it"
                );
            }
        }
    }
}

/// What its top hands on is for others: a name taken there would hide the module that it comes from.
#[test]
fn the_compiler_names_modules_and_its_top_defines_nothing() {
    let layers = LAYERS.iter().find(|one| one.0 == COMPILER).unwrap().1;
    for (path, code) in sources(COMPILER) {
        for used in named(&code, "crate::") {
            let path = path.display();
            assert!(layers.contains(&used), "{path}: crate::{used} is no module");
        }
    }
    let top = structure::parse(&root().join(COMPILER).join("src/lib.rs"));
    for item in &top.items {
        let handed_on = match item {
            syn::Item::Use(_) => true,
            syn::Item::Mod(module) => module.content.is_none(),
            _ => false,
        };
        assert!(handed_on, "lib.rs defines something");
    }
}

#[test]
fn names_are_found_in_lists_and_alone() {
    let code = "use super::call::Call;\nuse super::{a, b::{self, C}, d::E};\nsuper::f(1)";
    let found: Vec<_> = named(code, "super::").into_iter().collect();
    assert_eq!(found, ["a", "b", "call", "d", "f"]);
}
