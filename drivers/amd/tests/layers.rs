//! What each part of the driver may name, read from its source.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Modules, each of which uses those before it, and none behind it.
const LAYERS: [&str; 13] = [
    "chip",
    "options",
    "encode",
    "object",
    "interface",
    "kfd",
    "core",
    "memory",
    "submit",
    "engine",
    "program",
    "queue",
    "device",
];

/// The files under a folder, with their code: comments are left out.
fn sources(folder: &str) -> BTreeMap<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeMap::new();
    let mut folders = vec![root.join(folder)];
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
    for (path, code) in sources("") {
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
            "lib.rs: AmdDevice::open(&kfd::open(machine, index, options)?, options)",
        ]
    );
}

#[test]
fn each_module_uses_only_those_above_it() {
    for (path, code) in sources("") {
        let module = path.iter().next().unwrap().to_str().unwrap();
        let module = module.trim_end_matches(".rs");
        if module == "lib" {
            continue;
        }
        let layer = LAYERS.iter().position(|one| *one == module);
        let layer = layer.unwrap_or_else(|| panic!("{module} has no layer"));
        for used in named(&code, "crate::") {
            let Some(other) = LAYERS.iter().position(|one| *one == used) else {
                continue;
            };
            let path = path.display();
            assert!(other <= layer, "{path} uses {used}, which is above it");
        }
    }
}

#[test]
fn files_of_a_folder_use_each_other_in_no_circle() {
    for folder in [
        "kfd",
        "core",
        "memory",
        "submit",
        "engine",
        "encode",
        "interface",
        "object",
    ] {
        let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (path, code) in sources("") {
            let inside = path.strip_prefix(folder);
            let Ok(file) = inside else { continue };
            let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
            // Tests and the front page look at everything.
            if name == "mod" || file.iter().count() > 1 {
                continue;
            }
            let code = code.split("#[cfg(test)]").next().unwrap();
            let all = named(code, "super::").into_iter();
            let own = format!("crate::{folder}::");
            let all = all.chain(named(code, &own)).map(str::to_owned);
            uses.insert(name, all.collect());
        }
        assert!(!uses.is_empty(), "{folder}");
        let files: BTreeSet<String> = uses.keys().cloned().collect();
        for used in uses.values_mut() {
            used.retain(|name| files.contains(name));
        }
        // What uses nothing that is left goes, until nothing is left.
        while !uses.is_empty() {
            let free = uses.iter().filter(|(_, used)| used.is_empty());
            let free: Vec<String> = free.map(|(name, _)| name.clone()).collect();
            assert!(!free.is_empty(), "a circle in {folder}: {uses:?}");
            for name in &free {
                uses.remove(name);
            }
            for used in uses.values_mut() {
                used.retain(|name| !free.contains(name));
            }
        }
    }
}

#[test]
fn names_are_found_in_lists_and_alone() {
    let code = "use super::call::Call;\nuse super::{a, b::{self, C}, d::E};\nsuper::f(1)";
    let found: Vec<_> = named(code, "super::").into_iter().collect();
    assert_eq!(found, ["a", "b", "call", "d", "f"]);
}
