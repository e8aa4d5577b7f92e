//! From evidence to the likely cause.
//! The strongest evidence comes first: rules broken on a simulated card, then what explains everything else (a card that is off
//! the bus), then exceptions of the device, then the state of its queues. Each cause has a short, stable name for programs.

mod cable;
mod fault;
mod first;
mod hang;
mod program;
mod start;
mod text;
mod waves;

use serde::Serialize;

use crate::schema::{Bundle, Kind};

/// The interface name in bundles of programs on simulated cards.
pub const PROGRAM: &str = "TWIN";

/// The explanation of a bundle.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Explanation {
    /// The short name of the cause: `use-after-free`.
    pub cause: &'static str,
    /// The likely cause as a sentence.
    pub text: String,
    /// The evidence, the strongest first.
    pub evidence: Vec<String>,
    /// Next steps, in order.
    pub next: Vec<String>,
    /// The rest of the bundle, as lines.
    pub rest: Vec<String>,
}

impl Explanation {
    fn new(cause: &'static str, text: impl Into<String>) -> Explanation {
        Explanation {
            cause,
            text: text.into(),
            evidence: Vec::new(),
            next: Vec::new(),
            rest: Vec::new(),
        }
    }

    fn because(mut self, evidence: impl Into<String>) -> Explanation {
        self.evidence.push(evidence.into());
        self
    }

    fn then(mut self, next: impl Into<String>) -> Explanation {
        self.next.push(next.into());
        self
    }
}

/// The likely cause of what a bundle is about.
pub fn explain(bundle: &Bundle) -> Explanation {
    let before = rules(bundle).or_else(|| first::explain(bundle));
    let mut found = before.unwrap_or_else(|| match (&bundle.exception, bundle.kind) {
        (Some(exception), _) => fault::explain(bundle, exception),
        (None, Kind::Start) => start::explain(bundle),
        (None, Kind::Check) => wrong(bundle),
        (None, Kind::Hang) if bundle.device.interface == PROGRAM => program::explain(bundle),
        (None, _) => hang::explain(bundle),
    });
    found
        .evidence
        .push(format!("reported error: {}", bundle.error));
    found.rest = text::rest(bundle);
    found
}

/// A wrong result, found by a check that knows the correct one.
fn wrong(bundle: &Bundle) -> Explanation {
    let text = "a result is wrong, though the device reported no error";
    let last = bundle.queues.iter().filter_map(|queue| {
        let does = queue.recent.last()?.does.join("; ");
        Some(format!("last submission on {}: {does}", queue.name))
    });
    let mut found = Explanation::new("wrong-result", text);
    found.evidence.extend(last);
    found
        .then("Rerun on a simulated device (for example DEV=TWINKFD+AMD::gfx1100): if it is wrong there too, the bug \
               is in the program")
        .then("Rerun: a varying result points to a missing flush or wait, a constant one to a kernel (DEBUG=4 prints \
               its source)")
}

/// A rule of a simulated card: the first that was broken is why what came later went wrong.
fn rules(bundle: &Bundle) -> Option<Explanation> {
    let rule = bundle.rules.first()?;
    let text = format!("it breaks the rule {}: {}", rule.name, rule.text);
    let mut found = Explanation::new("rule-broken", text)
        .because(format!("seen {} times, first: {}", rule.times, rule.seen));
    let last = rule.after.iter().rev().take(4).rev();
    found
        .evidence
        .extend(last.map(|event| format!("before that: {event}")));
    let others = bundle.rules.len() - 1;
    if others > 0 {
        let names: Vec<_> = bundle.rules[1..].iter().map(|rule| &*rule.name).collect();
        found = found.because(format!(
            "{others} more rules were broken after it: {}",
            names.join(", ")
        ));
    }
    Some(found
        .then(format!("Fix the violation; source of the rule: {}", rule.source))
        .then("Record the run with `doorbell twin exec --record FILE`, show it step by step with `twin replay --show \
               FILE`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Queue, Rule, Submission};

    #[test]
    fn the_first_rule_is_the_cause() {
        let rule = |name: &str| Rule {
            name: name.into(),
            text: "the bell is rung last".into(),
            source: "a manual".into(),
            times: 3,
            seen: "rung first".into(),
            after: vec!["a write".into()],
        };
        let bundle = Bundle {
            rules: vec![rule("BELL"), rule("OTHER")],
            error: "it hangs".into(),
            ..Bundle::default()
        };
        let found = explain(&bundle);
        assert_eq!(found.cause, "rule-broken");
        assert_eq!(found.text, "it breaks the rule BELL: the bell is rung last");
        assert_eq!(
            found.evidence,
            [
                "seen 3 times, first: rung first",
                "before that: a write",
                "1 more rules were broken after it: OTHER",
                "reported error: it hangs",
            ]
        );
    }

    #[test]
    fn a_wrong_result_is_told_with_the_last_work() {
        let last = Submission {
            does: vec!["a copy".into(), "a signal".into()],
            ..Submission::default()
        };
        let bundle = Bundle {
            kind: Kind::Check,
            queues: vec![Queue {
                name: "copy 0".into(),
                recent: vec![last],
                ..Queue::default()
            }],
            ..Bundle::default()
        };
        let found = explain(&bundle);
        assert_eq!(found.cause, "wrong-result");
        assert_eq!(
            found.evidence[0],
            "last submission on copy 0: a copy; a signal"
        );
    }
}
