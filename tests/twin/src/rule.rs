//! Rules and the journal that reports when one is broken.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard};

use hcq::sync::lock;

/// How sure a rule is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proof {
    /// A document or published source says so.
    Sourced,
    /// Seen in a trace of a real device.
    Observed,
    /// Not proven; listed as such, and to be confirmed.
    Guess,
    /// A limit of the twin itself; hardware demands nothing of the kind.
    Twin,
}

/// Something that the hardware demands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// A stable name, such as `PCI-MEM-DECODE`.
    pub name: &'static str,
    /// What it demands.
    pub text: &'static str,
    /// Where that is written.
    pub source: &'static str,
    /// How sure it is.
    pub proof: Proof,
}

/// A broken rule, with what led to it.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The rule.
    pub rule: &'static Rule,
    /// What was done.
    pub what: String,
    /// The last events before it, oldest first.
    pub events: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rule {
            name,
            text,
            source,
            proof,
        } = self.rule;
        write!(
            f,
            "rule {name} ({proof:?}; {source}): {text}. Seen: {}",
            self.what
        )?;
        for event in &self.events {
            write!(f, "\n  after {event}")?;
        }
        Ok(())
    }
}

/// How many events a report shows.
const SHOWN: usize = 16;

/// How many resets are kept: a program that goes on makes as many as it likes.
const RESETS: usize = 64;

#[derive(Default)]
struct State {
    events: VecDeque<String>,
    violations: Vec<Violation>,
    resets: Vec<String>,
}

/// Who hears of broken rules at once.
type Listener = Box<dyn Fn(&Violation) + Send + Sync>;

/// What happened to a model: the last events, and every broken rule.
#[derive(Default)]
pub struct Journal {
    state: Mutex<State>,
    listener: Option<Listener>,
}

impl Journal {
    /// An empty journal.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty journal that tells each broken rule at once, too: who hangs never asks for them.
    pub fn telling(listener: impl Fn(&Violation) + Send + Sync + 'static) -> Self {
        Self {
            listener: Some(Box::new(listener)),
            ..Self::default()
        }
    }

    /// Notes an event.
    pub fn event(&self, what: String) {
        let mut state = self.lock();
        if state.events.len() == SHOWN {
            state.events.pop_front();
        }
        state.events.push_back(what);
    }

    /// Notes that a device was reset, and why: an event that is kept.
    pub fn reset(&self, what: String) {
        self.event(what.clone());
        let resets = &mut self.lock().resets;
        if resets.len() < RESETS {
            resets.push(what);
        }
    }

    /// Resets so far, in order: the first ones, if there are many.
    pub fn resets(&self) -> Vec<String> {
        self.lock().resets.clone()
    }

    /// Notes a broken rule and returns the report.
    pub fn broken(&self, rule: &'static Rule, what: String) -> Violation {
        let violation = {
            let mut state = self.lock();
            let events = state.events.iter().cloned().collect();
            let violation = Violation { rule, what, events };
            state.violations.push(violation.clone());
            violation
        };
        if let Some(tell) = &self.listener {
            tell(&violation);
        }
        violation
    }

    /// Every broken rule so far, in order. A test that drives a model ends by looking here.
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().violations.clone()
    }

    /// Those behind so many.
    pub fn violations_from(&self, first: usize) -> Vec<Violation> {
        let all = &self.lock().violations;
        all.get(first..).unwrap_or_default().to_vec()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Only whole entries are pushed: a panic elsewhere leaves the journal readable.
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    static RULE: Rule = Rule {
        name: "TEST-1",
        text: "the bell is rung last",
        source: "this test",
        proof: Proof::Guess,
    };

    #[test]
    fn a_report_names_the_rule_and_the_last_events() {
        let (tell, told) = mpsc::channel();
        let journal = Journal::telling(move |violation| drop(tell.send(violation.to_string())));
        for i in 0..20 {
            journal.event(format!("write {i}"));
        }
        let text = journal
            .broken(&RULE, "rung before write 20".into())
            .to_string();
        assert!(
            text.starts_with(
                "rule TEST-1 (Guess; this test): the bell is rung last. Seen: rung before write 20"
            ),
            "{text}"
        );
        assert!(
            !text.contains("write 3\n") && text.contains("write 4") && text.ends_with("write 19")
        );
        assert_eq!(journal.violations().len(), 1);
        assert_eq!(told.try_recv().as_ref(), Ok(&text));
    }
}
