//! The list of rules in tests/twin/README.md is the list of rules in the code.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use regex::Regex;

const START: &str = "<!-- rules: written by the test `rules` with UPDATE=1 -->\n";
const END: &str = "<!-- end of rules -->\n";

fn sources(folder: &Path, found: &mut String) {
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

/// A literal as it reads: lines that end in a backslash are joined.
fn literal(text: &str) -> String {
    let joined = Regex::new(r"\\\n\s*").unwrap().replace_all(text, "");
    joined.replace("\\\"", "\"").replace('|', "\\|")
}

#[test]
fn the_readme_lists_every_rule() {
    let twin = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut text = String::new();
    for source in ["src", "shader/src", "amd/src"] {
        sources(&twin.join(source), &mut text);
    }
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
        let before = rules.insert((proof, name.clone()), (says, source));
        assert!(before.is_none(), "two rules are called {name}");
    }
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
    table.push_str("\n| rule | proof | says | source |\n|---|---|---|---|\n");
    for ((proof, name), (says, source)) in &rules {
        writeln!(table, "| {name} | {proof} | {says} | {source} |").unwrap();
    }
    table.push('\n');
    let path = twin.join("README.md");
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
