//! What is said of a guest when it has ended: the rules that it broke, each once, and accesses that were refused.

use std::collections::BTreeMap;

use twin::rule::{Journal, Violation};

use crate::Function;
use crate::regions::CONFIG;

/// Whether a violation may be: an entry has the name of its rule, or that and a part of what it says (`RULE=TEXT`).
fn may_be(violation: &Violation, allow: &[String]) -> bool {
    allow.iter().any(|allowed| match allowed.split_once('=') {
        None => allowed == violation.rule.name,
        Some((rule, text)) => rule == violation.rule.name && violation.what.contains(text),
    })
}

/// How many places are shown.
const SHOWN: usize = 40;

/// Prints it to stderr. Whether no rule was broken but those that may be.
pub fn print(function: &Function, journal: &Journal, allow: &[String]) -> bool {
    let violations = journal.violations();
    let mut rules: BTreeMap<&str, (&Violation, u64)> = BTreeMap::new();
    for violation in &violations {
        let entry = rules.entry(violation.rule.name);
        let (first, times) = entry.or_insert((violation, 0));
        *times += 1;
        // The first one that may not be says more.
        if may_be(first, allow) && !may_be(violation, allow) {
            *first = violation;
        }
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
    violations.iter().all(|violation| may_be(violation, allow))
}

#[cfg(test)]
mod tests {
    use twin::rule::{Proof, Rule};

    use super::*;

    static RULE: Rule = Rule {
        name: "TEST-RULE",
        text: "nothing is read",
        source: "this test",
        proof: Proof::Twin,
    };

    #[test]
    fn a_rule_may_be_broken_by_its_name_or_by_what_it_says() {
        let journal = Journal::new();
        journal.broken(&RULE, "read at 0x0 of BAR 2".into());
        journal.broken(&RULE, "write at 0x0 of BAR 2".into());
        let all = journal.violations();
        let may = |allow: &str| all.iter().map(|one| may_be(one, &[allow.into()])).collect();
        let may: [Vec<bool>; 4] = [
            may("TEST-RULE"),
            may("TEST-RULE=read at 0x0"),
            may("TEST-OTHER"),
            may("TEST-OTHER=read"),
        ];
        assert_eq!(may[0], [true, true]);
        assert_eq!(may[1], [true, false]);
        assert_eq!(may[2], [false, false]);
        assert_eq!(may[3], [false, false]);
    }
}
