//! A model proves a driver right as far as it does not stand on it: twins share tables and the ground of
//! all drivers with them, and nothing else.

use std::collections::BTreeSet;

use structure::root;

/// The twins' crates.
const TWINS: [&str; 6] = [
    "tests/twin",
    "tests/twin/shader",
    "tests/twin/sass",
    "tests/twin/ir3",
    "tests/twin/amd",
    "tests/twin/nv",
];

/// What they may use of this repository: themselves, what vendors' headers say, the traits, and ROMs that are made for
/// tests without the parsers.
const ALLOWED: [&str; 7] = [
    "hcq",
    "drivers-spec",
    "twin",
    "twin-shader",
    "twin-sass",
    "twin-ir3",
    "vbios",
];

/// What a twin's tests alone may use: an assembler that is checked against Mesa's, to write programs as text and to
/// compare decoders.
const ALLOWED_IN_TESTS: [(&str, &str); 1] = [("tests/twin/ir3", "codegen")];

/// The tables of a manifest, as names with their lines.
fn tables(manifest: &str) -> Vec<(&str, Vec<&str>)> {
    let mut tables = vec![("", Vec::new())];
    for line in manifest.lines().map(str::trim) {
        match line.strip_prefix('[') {
            Some(rest) => tables.push((rest.trim_end_matches(']'), Vec::new())),
            None if line.is_empty() || line.starts_with('#') => {}
            None => tables.last_mut().into_iter().for_each(|t| t.1.push(line)),
        }
    }
    tables
}

/// What comes before `=` or `.` in a line: the name of a dependency.
fn name(line: &str) -> &str {
    let end = line.find(|c: char| c == '=' || c == '.' || c.is_whitespace());
    &line[..end.unwrap_or(line.len())]
}

fn read(path: &str) -> String {
    let path = root().join(path).join("Cargo.toml");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn twins_use_no_driver() {
    let top = read("");
    let ours: BTreeSet<&str> = tables(&top)
        .iter()
        .filter(|(table, _)| *table == "workspace.dependencies")
        .flat_map(|(_, lines)| lines.iter().filter(|line| line.contains("path = ")))
        .map(|line| name(line))
        .collect();
    assert!(ours.contains("drivers-host") && ours.contains("drivers-amd"));
    for twin in TWINS {
        let manifest = read(twin);
        let mut seen = 0;
        // Of tests, of builds and of one target too.
        for (table, lines) in tables(&manifest) {
            let (_, last) = table.rsplit_once('.').unwrap_or(("", table));
            if !last.ends_with("dependencies") {
                // `[dependencies.name]` would be a way around this.
                assert!(!table.contains("dependencies"), "{twin}: [{table}]");
                continue;
            }
            for line in lines {
                seen += 1;
                let name = name(line);
                let of_tests =
                    last == "dev-dependencies" && ALLOWED_IN_TESTS.contains(&(twin, name));
                assert!(
                    of_tests
                        || !ours.contains(name) && !line.contains("path")
                        || ALLOWED.contains(&name),
                    "{twin} depends on {name}: [{table}] {line}"
                );
            }
        }
        assert!(seen > 0, "{twin}");
    }
}
