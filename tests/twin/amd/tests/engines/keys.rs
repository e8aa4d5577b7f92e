//! The table of keys in tests/twin/README.md is that of the front pages of the files that read config strings, and each of
//! these has the keys that its code takes.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use regex::Regex;

const START: &str = "<!-- keys: written by the test `keys` with UPDATE=1 -->\n";
const END: &str = "<!-- end of keys -->\n";

/// Targets, the file that reads their config string, and that of their chips.
const MACHINES: [(&str, &str, &str); 6] = [
    ("`TWINKFD+AMD`", "amd/src/config.rs", "amd/src/chip.rs"),
    (
        "`TWINPCI+AMD`",
        "amd/src/pci/machine.rs",
        "amd/src/pci/chip.rs",
    ),
    ("`TWINUSB+AMD`", "amd/src/usb.rs", "amd/src/pci/chip.rs"),
    ("`TWINNVK+NV`", "nv/src/config.rs", "nv/src/chip.rs"),
    (
        "`TWINPCI+NV`",
        "nv/src/pci/machine.rs",
        "nv/src/pci/chip.rs",
    ),
    (
        "`TWINKGSL+QCOM`, `TWINMSM+QCOM`",
        "qcom/src/config.rs",
        "qcom/src/chip.rs",
    ),
];

fn read(file: &str) -> String {
    let twin = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::read_to_string(twin.join(file)).unwrap()
}

/// All that a pattern finds in a text, in order.
fn all(pattern: &str, text: &str) -> Vec<String> {
    let pattern = Regex::new(pattern).unwrap();
    let found = pattern.captures_iter(text);
    found.map(|found| found[1].to_owned()).collect()
}

/// The value of a constant that is a text, in however many lines it stands.
fn constant(name: &str, source: &str) -> Option<String> {
    let pattern = format!(r#"const {name}: &str =\s*"((?:[^"\\]|\\\n)*)";"#);
    let found = all(&pattern, source).pop()?;
    let lines = Regex::new(r"\\\n\s*").unwrap();
    Some(lines.replace_all(&found, "").into_owned())
}

fn quoted(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// The keys that the code takes.
fn taken(source: &str) -> BTreeSet<String> {
    let (_, parser) = source.split_once("Part::all(").unwrap();
    // The last arm is of all others, which are refused or another file's.
    let mut ends = ["unknown(KEYS)", "others.push("].into_iter();
    let end = ends.find_map(|end| parser.find(end)).unwrap();
    let arms = &parser[..end];
    let arms = all(r#"(?m)^ {12,16}"(\w+)"(?: if [^\n]*)? =>"#, arms);
    arms.into_iter().collect()
}

/// A value as people read it: what it refers to in the source is in its place.
fn told(value: &str, file: &str, source: &str, chips: &str) -> String {
    let mut text = value.to_owned();
    if text.contains("[`CHIPS`]") {
        let names = all(r#"(?m)^\s+name: "(\w+)","#, &read(chips));
        text = text.replace("[`CHIPS`]", &quoted(&names));
    }
    if text.contains("[`WAITS`]") {
        let (folder, _) = file.rsplit_once('/').unwrap();
        let names = all(
            r#"\("([a-z-]+)", Wait::"#,
            &read(&format!("{folder}/wait.rs")),
        );
        text = text.replace("[`WAITS`]", &quoted(&names));
    }
    if text.contains("`FAULTS`") {
        let faults = constant("FAULTS", source).unwrap().replace(" or ", ", ");
        let faults: Vec<_> = faults.split(", ").map(str::to_owned).collect();
        text = text.replace("`FAULTS`", &quoted(&faults));
    }
    // Links of the source's own documentation.
    let link = Regex::new(r"\[(`[^`]+`)\](?:\([^)]*\))?").unwrap();
    link.replace_all(&text, "$1").into_owned()
}

#[test]
fn the_readme_lists_every_key() {
    let row = Regex::new(r"(?m)^//! \| `(\w+)` \| (.*) \|$").unwrap();
    let mut table = String::from(START);
    table.push_str("\n| target | key | value |\n|---|---|---|\n");
    for (target, file, chips) in MACHINES {
        let source = read(file);
        let rows: Vec<_> = row.captures_iter(&source).collect();
        let listed: BTreeSet<_> = rows.iter().map(|row| row[1].to_owned()).collect();
        assert_eq!(
            listed,
            taken(&source),
            "{file}: its front page and its code"
        );
        assert_eq!(listed.len(), rows.len(), "{file}: a key is listed twice");
        let keys = constant("KEYS", &source).unwrap();
        let keys: BTreeSet<_> = keys.split(", ").map(str::to_owned).collect();
        assert_eq!(listed, keys, "{file}: its front page and KEYS");
        for row in &rows {
            let value = told(&row[2], file, &source, chips);
            writeln!(table, "| {target} | `{}` | {value} |", &row[1]).unwrap();
        }
        if file.ends_with("usb.rs") {
            writeln!(table, "| {target} | all others | those of `TWINPCI+AMD` |").unwrap();
        }
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
            "tests/twin/README.md: the keys have changed; run with UPDATE=1"
        );
    }
}
