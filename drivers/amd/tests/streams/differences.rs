//! What differs between two streams, and the file that explains it. The test of NVIDIA's streams uses it, too.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use super::decode::{Named, Names};

/// The differences of a case: packets that only one has, and fields that differ.
pub fn compare(names: &Names, theirs: &[Named], ours: &[Named]) -> Vec<String> {
    let mut out = Vec::new();
    let (mut i, mut j) = (0, 0);
    let common = common(theirs, ours);
    for (at_theirs, at_ours) in common
        .into_iter()
        .chain(std::iter::once((theirs.len(), ours.len())))
    {
        let only = theirs[i..at_theirs]
            .iter()
            .map(|p| format!("- {}", names.line(p)));
        out.extend(only);
        let only = ours[j..at_ours]
            .iter()
            .map(|p| format!("+ {}", names.line(p)));
        out.extend(only);
        if let (Some(a), Some(b)) = (theirs.get(at_theirs), ours.get(at_ours)) {
            out.extend(fields(names, a, b));
        }
        (i, j) = (at_theirs + 1, at_ours + 1);
    }
    out
}

fn fields(names: &Names, theirs: &Named, ours: &Named) -> Vec<String> {
    let mut both: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (name, value) in &theirs.fields {
        both.entry(name).or_default().0 = *value;
    }
    for (name, value) in &ours.fields {
        both.entry(name).or_default().1 = *value;
    }
    let differ = both.into_iter().filter(|(_, (a, b))| a != b);
    differ
        .map(|(field, (a, b))| {
            let (a, b) = (names.text(a), names.text(b));
            format!("{} {field}: {a} -> {b}", theirs.name)
        })
        .collect()
}

/// How alike two packets are: not at all if their names differ, else by equal fields.
fn likeness(a: &Named, b: &Named) -> usize {
    if a.name != b.name {
        return 0;
    }
    let equal = a
        .fields
        .iter()
        .filter(|(name, value)| b.fields.get(*name) == Some(value));
    1 + 2 * equal.count() + if a == b { 100 } else { 0 }
}

/// Pairs of packets that belong together: in order, and as alike as possible.
fn common(theirs: &[Named], ours: &[Named]) -> Vec<(usize, usize)> {
    let (n, m) = (theirs.len(), ours.len());
    let mut best = vec![vec![0; m + 1]; n + 1];
    for i in (0..n).rev() {
        for j in (0..m).rev() {
            let alike = likeness(&theirs[i], &ours[j]);
            let matched = if alike > 0 {
                alike + best[i + 1][j + 1]
            } else {
                0
            };
            best[i][j] = matched.max(best[i + 1][j]).max(best[i][j + 1]);
        }
    }
    let mut pairs = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < n && j < m {
        let alike = likeness(&theirs[i], &ours[j]);
        if alike > 0 && best[i][j] == alike + best[i + 1][j + 1] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if best[i][j] == best[i + 1][j] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

/// A line of the file: the cases it is for, and the difference.
struct Entry {
    line: usize,
    cases: Vec<String>,
    text: String,
    seen: Vec<bool>,
}

/// The file.
pub struct Explained {
    entries: Vec<Entry>,
    unlisted: BTreeMap<String, Vec<String>>,
    file: PathBuf,
}

impl Explained {
    /// Reads the file of a folder of `tests/golden`. A line that begins with a blank is an entry, `CASES | DIFFERENCE`; the others
    /// say why. Cases are separated by blanks and end in `*` where any ending will do.
    pub fn read(folder: &str) -> Explained {
        let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
        let file = golden.join(folder).join("differences.txt");
        let text = std::fs::read_to_string(&file).unwrap();
        let mut entries = Vec::new();
        for (i, line) in text.lines().enumerate() {
            if !line.starts_with(' ') {
                continue;
            }
            let (cases, text) = line
                .split_once(" | ")
                .unwrap_or_else(|| panic!("line {}", i + 1));
            let cases: Vec<String> = cases.split_whitespace().map(str::to_string).collect();
            entries.push(Entry {
                line: i + 1,
                seen: vec![false; cases.len()],
                cases,
                text: text.trim().into(),
            });
        }
        Explained {
            entries,
            unlisted: BTreeMap::new(),
            file,
        }
    }

    /// Takes the differences of a case.
    pub fn see(&mut self, case: &str, differences: Vec<String>) {
        for difference in differences {
            let mut listed = false;
            for entry in self.entries.iter_mut().filter(|e| e.text == difference) {
                for (pattern, seen) in entry.cases.iter().zip(&mut entry.seen) {
                    let fits = match pattern.strip_suffix('*') {
                        Some(start) => case.starts_with(start),
                        None => case == pattern,
                    };
                    if fits {
                        (*seen, listed) = (true, true);
                    }
                }
            }
            if !listed {
                let cases = self.unlisted.entry(difference).or_default();
                if cases.last().is_none_or(|last| last != case) {
                    cases.push(case.into());
                }
            }
        }
    }

    /// Fails for what is not listed, and for what is listed but not there.
    pub fn check(self) {
        let mut wrong = String::new();
        for (difference, cases) in &self.unlisted {
            writeln!(wrong, " {} | {difference}", cases.join(" ")).unwrap();
        }
        for entry in &self.entries {
            let stale = entry
                .cases
                .iter()
                .zip(&entry.seen)
                .filter(|(_, seen)| !**seen);
            for (case, _) in stale {
                let (line, text) = (entry.line, &entry.text);
                writeln!(wrong, "stale, line {line}, {case}: {text}").unwrap();
            }
        }
        assert!(
            wrong.is_empty(),
            "to be explained in {}:\n{wrong}",
            self.file.display()
        );
    }
}
