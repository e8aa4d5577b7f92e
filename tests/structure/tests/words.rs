//! Texts that people read (strings and documentation of the shipped crates, pages, help) have the field's words.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use structure::{root, rust_files, shipped};

/// What is not written, and what is instead.
const WORDS: &[(&str, &str)] = &[
    ("way in", "backend, interface"),
    ("ways in", "backends, interfaces"),
    ("ladder", "bring-up steps"),
    ("a rung", "a step"),
    ("the rung", "the step"),
    ("rungs", "steps"),
    ("none that this driver", "unsupported"),
    ("it is none", "unsupported"),
    ("has it again", "is returned"),
    ("is taken over", "takes it from"),
    ("soil", "mark as wedged"),
    ("is soiled", "is wedged"),
    ("graves", "deferred frees"),
    ("patience", "timeout"),
    ("keeper", "coredump writer"),
    ("goes on without", "continuing without"),
    ("said no", "refused, error"),
    ("which nothing makes", "which no node produces"),
    ("has not one element", "expected exactly one element"),
    ("has used up 64 bits", "64-bit timeline exhausted"),
    ("would find it changed", "unbind it first"),
    ("have another ear", "a second mailbox"),
    ("stays in its slot", "failed to dequeue"),
    ("who has them", "which processes use them"),
    ("shows what it reads", "prints its predictions"),
    ("needs it not", "does not need it"),
];

/// Pages, from the root of the repository; all of a folder where it ends with a slash.
const PAGES: [&str; 14] = [
    "README.md",
    "codegen/README.md",
    "drivers/README.md",
    "drivers/amd/README.md",
    "drivers/asm24/README.md",
    "drivers/cuda/README.md",
    "drivers/hip/README.md",
    "drivers/nv/README.md",
    "drivers/qcom/README.md",
    "firmware-tools/README.md",
    "hcq/README.md",
    "scripts/README.md",
    "tensor/README.md",
    "tests/twin/README.md",
];

/// Strings and documentation, which the parser takes for strings, but for those of tests.
fn strings(tokens: TokenStream, found: &mut Vec<(usize, String)>) {
    let mut tokens = tokens.into_iter().peekable();
    let mut is_test = false;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                let attribute = tokens.peek().map(ToString::to_string);
                is_test |= attribute.is_some_and(|text| text.replace(' ', "") == "[cfg(test)]");
            }
            // What the attribute is of ends with these.
            TokenTree::Punct(mark) if mark.as_char() == ';' => is_test = false,
            TokenTree::Group(group) => {
                let is_body = group.delimiter() == proc_macro2::Delimiter::Brace;
                if !is_test {
                    strings(group.stream(), found);
                }
                is_test &= !is_body;
            }
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if text.ends_with(['"', '#']) && !is_test {
                    found.push((literal.span().start().line, text));
                }
            }
            _ => {}
        }
    }
}

/// The words of a text that are not written.
fn wrong(text: &str) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    // A string that goes on in the next line has a backslash there. No word goes on behind a mark.
    let plain = |c: char| match c {
        '\\' | '"' | '`' => ' ',
        c if c.is_alphanumeric() || c.is_whitespace() || c == '\'' => c,
        _ => '|',
    };
    let letters: String = text.to_lowercase().chars().map(plain).collect();
    let letters = letters.replace('|', " | ");
    let words: Vec<&str> = letters.split_whitespace().collect();
    let plain = format!(" {} ", words.join(" "));
    let is_there = move |(word, _): &&(&str, &str)| plain.contains(&format!(" {word} "));
    WORDS.iter().filter(is_there)
}

fn texts() -> Vec<(PathBuf, usize, String)> {
    let mut found = Vec::new();
    let tops = shipped();
    let folders: BTreeSet<&Path> = tops.iter().filter_map(|top| top.parent()).collect();
    for file in folders.into_iter().flat_map(rust_files) {
        let inside = file.strip_prefix(root()).unwrap_or(&file);
        let mut parts = inside
            .components()
            .map(|part| part.as_os_str().to_string_lossy());
        if parts.any(|part| part.starts_with("tests")) {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let mut inside = Vec::new();
        strings(text.parse().unwrap(), &mut inside);
        found.extend(
            inside
                .into_iter()
                .map(|(line, text)| (file.clone(), line, text)),
        );
    }
    let help = std::fs::read_dir(root().join("tensor/cli/help")).unwrap();
    let help = help.map(|entry| entry.unwrap().path());
    let pages = PAGES.iter().map(|page| root().join(page));
    for page in pages.chain(help).filter(|page| page.is_file()) {
        let text = std::fs::read_to_string(&page).unwrap();
        for (line, text) in (1..).zip(text.lines()) {
            found.push((page.clone(), line, text.to_owned()));
        }
    }
    found
}

#[test]
fn texts_have_the_words_of_the_field() {
    let texts = texts();
    assert!(texts.len() > 20_000, "{} texts", texts.len());
    let mut report = String::new();
    for (file, line, text) in &texts {
        for (word, instead) in wrong(text) {
            let file = file.strip_prefix(root()).unwrap_or(file).display();
            report += &format!("{file}:{line}: {word:?}; write: {instead}\n");
        }
    }
    assert!(report.is_empty(), "{report}");
}

#[test]
fn words_are_found_where_they_are() {
    let code = "/// A way in.\nfn f() { g(\"the rung \\\n    fails\") }\n#[cfg(test)]\nmod tests { const A: &str = \"a ladder\"; }\nconst B: &str = \"graves\";";
    let mut found = Vec::new();
    strings(code.parse().unwrap(), &mut found);
    let lines: Vec<_> = found.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [1, 2, 6]);
    let words: Vec<_> = found
        .iter()
        .flat_map(|(_, text)| wrong(text))
        .map(|w| w.0)
        .collect();
    assert_eq!(words, ["way in", "the rung", "graves"]);
    assert_eq!(wrong("wrung rungless, on their way, in order").count(), 0);
}
