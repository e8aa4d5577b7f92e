//! The list of rules in tests/twin/README.md is the list of rules in the code, and each has a test that
//! breaks it.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use regex::Regex;

const START: &str = "<!-- rules: written by the test `rules` with UPDATE=1 -->\n";
const END: &str = "<!-- end of rules -->\n";

/// Where the tests of twins are.
const TESTS: [&str; 9] = [
    "src",
    "shader/src",
    "shader/tests",
    "ir3/src",
    "ir3/tests",
    "amd/src",
    "amd/tests",
    "nv/src",
    "nv/tests",
];

/// The files of these folders of the twin, in order.
fn sources(folders: &[&str]) -> Vec<String> {
    let twin = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths: Vec<_> = folders.iter().map(|folder| twin.join(folder)).collect();
    let mut found = Vec::new();
    paths.reverse();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(path).unwrap();
            let mut inside: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
            inside.sort();
            paths.extend(inside.into_iter().rev());
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(fs::read_to_string(path).unwrap());
        }
    }
    found
}

/// The first test that breaks each rule: what `fires` returns fails by itself unless it is compared
/// with the rules that were broken (`twin::fires`).
fn fired() -> BTreeMap<String, String> {
    let says = Regex::new(r#"fires\("([A-Z0-9-]+)"\)"#).unwrap();
    let test = Regex::new(r"^\s*fn (\w+)\(\)").unwrap();
    let mut found = BTreeMap::new();
    for text in sources(&TESTS) {
        let (mut marked, mut inside) = (false, None);
        for line in text.lines() {
            if line.trim_start().starts_with("//") {
                continue;
            }
            if let Some(name) = test.captures(line).filter(|_| marked) {
                inside = Some(name[1].to_string());
            }
            marked = line.trim() == "#[test]";
            // The end of a test in a file of tests, or in a module of them.
            if line == "}" || line == "    }" && !text.contains("\n#[test]") {
                inside = None;
            }
            for rule in says.captures_iter(line) {
                let by = inside.clone();
                let by = by.unwrap_or_else(|| panic!("{} fires outside of a test", &rule[1]));
                found.entry(rule[1].to_string()).or_insert(by);
            }
        }
    }
    found
}

/// A literal as it reads: lines that end in a backslash are joined.
fn literal(text: &str) -> String {
    let joined = Regex::new(r"\\\n\s*").unwrap().replace_all(text, "");
    joined.replace("\\\"", "\"").replace('|', "\\|")
}

#[test]
fn the_readme_lists_every_rule() {
    let text = sources(&["src", "shader/src", "ir3/src", "amd/src", "nv/src"]).concat();
    let mut fired = fired();
    let string = r#""((?:[^"\\]|\\(?:.|\n))*)""#;
    let rule = Regex::new(&format!(
        r"static \w+: Rule = (?:Rule \{{|rule\()\s*(?:name: )?{string},\s*(?:text: )?{string},\s*(?:source: )?{string},\s*(?:proof: )?Proof::(\w+)"
    ))
    .unwrap();
    let mut rules = BTreeMap::new();
    let mut tests = 0;
    for found in rule.captures_iter(&text) {
        let [name, says, source, proof] = [1, 2, 3, 4].map(|i| literal(&found[i]));
        if name.starts_with("TEST-") {
            tests += 1;
            continue;
        }
        // What only the twin demands is no fact, and what is one has a source outside of it.
        let own = source.starts_with("this twin");
        assert_eq!(proof == "Twin", own, "{name}: {proof} by {source}");
        let by = fired.remove(&name);
        let by = by.unwrap_or_else(|| panic!("no test breaks {name}: see twin::fires"));
        let before = rules.insert((proof, name.clone()), (says, source, by));
        assert!(before.is_none(), "two rules are called {name}");
    }
    fired.retain(|name, _| !name.starts_with("TEST-"));
    assert!(fired.is_empty(), "these are no rules: {fired:?}");
    let declared = Regex::new(r"static \w+: Rule =")
        .unwrap()
        .find_iter(&text)
        .count();
    assert_eq!(
        rules.len() + tests,
        declared,
        "a rule that this test cannot read"
    );

    let mut table = String::from(START);
    table.push_str("\n| rule | proof | says | source | broken by |\n|---|---|---|---|---|\n");
    for ((proof, name), (says, source, by)) in &rules {
        writeln!(table, "| {name} | {proof} | {says} | {source} | `{by}` |").unwrap();
    }
    table.push('\n');
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = fs::read_to_string(&path).unwrap();
    let (head, rest) = readme.split_once(START).unwrap();
    let (_, tail) = rest.split_once(END).unwrap();
    let wanted = format!("{head}{table}{END}{tail}");
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, wanted).unwrap();
    } else {
        assert!(
            readme == wanted,
            "tests/twin/README.md: the rules have changed; run with UPDATE=1"
        );
    }
}
