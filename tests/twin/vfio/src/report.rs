//! What is said of a guest when it has ended: the rules that it broke, each once, and accesses that were refused.

use std::collections::BTreeMap;

use twin::rule::{Journal, Violation};

use crate::Function;
use crate::regions::CONFIG;

/// How many places are shown.
const SHOWN: usize = 40;

/// Prints it to stderr. Whether no rule was broken but those that may be.
pub fn print(function: &Function, journal: &Journal, allow: &[String]) -> bool {
    let violations = journal.violations();
    let mut rules: BTreeMap<&str, (&Violation, u64)> = BTreeMap::new();
    for violation in &violations {
        let entry = rules.entry(violation.rule.name);
        entry.or_insert((violation, 0)).1 += 1;
    }
    for (name, (first, times)) in &rules {
        eprintln!("rule {name}, {times} times, first: {first}");
    }
    let refused = function.refused();
    for ((region, offset, is_write), times) in refused.iter().take(SHOWN) {
        let place = match *region {
            CONFIG => format!("configuration space {offset:#x}"),
            bar => format!("BAR {bar} {offset:#x} (dword {:#x})", offset / 4),
        };
        let verb = if *is_write { "write" } else { "read" };
        eprintln!("refused: {verb} of {place}, {times} times");
    }
    if let Some(more) = refused.len().checked_sub(SHOWN).filter(|&more| more > 0) {
        eprintln!("refused: {more} more places");
    }
    rules
        .keys()
        .all(|name| allow.iter().any(|allowed| allowed == name))
}
