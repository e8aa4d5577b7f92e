//! Encodings with the texts of NVIDIA's disassembler, against ours.

use std::collections::BTreeMap;
use std::fmt::Write;

use twin_sass::{Chip, Error, decode};

/// What the tables lack: for these an error is right, another text never.
#[allow(dead_code)] // Not of every test that has this module.
pub const GAPS: &str = include_str!("gaps.txt");

/// How many differences of one operation are shown.
const OF_ONE: usize = 3;

/// Of a hundred changed encodings, at most so many may be an instruction to the disassembler alone, and
/// as many to us alone: rules between fields that no line tells. A compiler breaks none of them.
const RULES: usize = 2;

/// Compares lines `encoding text`, the text empty where there is no such instruction; branches as if
/// they lay at address 0. Encodings after the line `# changed` are of no compiler. `gaps`: how names
/// begin that may be unknown, one a line.
pub fn compare(chip: Chip, lines: &str, gaps: &str) {
    let gaps: Vec<&str> = gaps.lines().filter(|line| !line.starts_with('#')).collect();
    let mut differ: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
    let (mut total, mut same, mut inert, mut unnamed, mut unknown) = (0, 0, 0, 0, 0);
    let (mut changed, mut theirs_alone, mut ours_alone) = (0, 0, 0);
    let mut compiled = true;
    for line in lines.lines() {
        if line.starts_with('#') {
            compiled = false;
            continue;
        }
        let (word, theirs) = line.split_once(' ').unwrap_or((line, ""));
        let word = u128::from_str_radix(word, 16).unwrap();
        total += 1;
        changed += usize::from(!compiled);
        let text = |word| decode(chip, word).map(|inst| inst.to_string().trim_end().to_owned());
        let ours = text(word);
        let name = theirs
            .split(' ')
            .find(|part| !part.starts_with('@'))
            .unwrap_or_default();
        if theirs.is_empty() {
            ours_alone += usize::from(ours.is_ok());
            continue;
        }
        match &ours {
            Ok(ours) if ours == theirs => {
                same += 1;
                continue;
            }
            // Where we are strict, and compilers too: what has no name, and bits that change nothing.
            Err(_) if !compiled && (theirs.contains("INVALID") || theirs.contains("???")) => {
                unnamed += 1;
                continue;
            }
            Err(Error::Bits { bits, .. })
                if !compiled && text(word & !bits).as_deref() == Ok(theirs) =>
            {
                inert += 1;
                continue;
            }
            Err(_)
                if gaps
                    .iter()
                    .any(|gap| !gap.is_empty() && name.starts_with(gap)) =>
            {
                unknown += 1;
                continue;
            }
            Err(_) if !compiled => {
                theirs_alone += 1;
                continue;
            }
            _ => {}
        }
        let entry = differ
            .entry(format!("{name} {:#05x}", word & 0xfff))
            .or_default();
        entry.0 += 1;
        if entry.1.len() < OF_ONE {
            let ours = ours.unwrap_or_else(|error| error.to_string());
            entry.1.push(format!(
                "  {word:032x}\n    nvdisasm {theirs}\n    ours     {ours}"
            ));
        }
    }
    let count: usize = differ.values().map(|entry| entry.0).sum();
    let mut list = format!(
        "{}: {total} encodings: {same} print the same, {count} do not; {inert} have bits that change \
         nothing, {unnamed} values without a name, {unknown} are of what we lack; of {changed} changed \
         ones {theirs_alone} are instructions to the disassembler alone, {ours_alone} to us alone
",
        chip.name()
    );
    for (key, (count, examples)) in &differ {
        let _ = writeln!(list, "{key}: {count}\n{}", examples.join("\n"));
    }
    println!("{list}");
    assert!(differ.is_empty(), "{list}");
    assert!(
        theirs_alone.max(ours_alone) * 100 <= changed * RULES,
        "{list}"
    );
}
