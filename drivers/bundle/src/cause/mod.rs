//! From what was seen to the likely cause.
//!
//! What says most is asked first: rules that a simulated card saw broken, then what the device said itself, then
//! where its queues stand. Each answer has a short name that does not change, for programs.

mod fault;
mod hang;
mod program;
mod start;
mod text;
mod waves;

use serde::Serialize;

use crate::schema::{Bundle, Kind};

/// What bundles of programs on simulated cards have as the way to the device.
pub const PROGRAM: &str = "TWIN";

/// What a bundle says.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Explanation {
    /// The short name of the cause: `use-after-free`.
    pub cause: &'static str,
    /// The likely cause as a sentence.
    pub text: String,
    /// What speaks for it, the strongest first.
    pub evidence: Vec<String>,
    /// What to do next, in this order.
    pub next: Vec<String>,
    /// What else is in the bundle, as lines.
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
    let found = rules(bundle).or_else(|| match (&bundle.exception, bundle.kind) {
        (Some(exception), _) => Some(fault::explain(bundle, exception)),
        (None, Kind::Start) => Some(start::explain(bundle)),
        (None, Kind::Check) => None,
        (None, Kind::Hang) if bundle.device.interface == PROGRAM => Some(program::explain(bundle)),
        (None, _) => Some(hang::explain(bundle)),
    });
    let mut found = found.unwrap_or_else(|| {
        Explanation::new("unknown", "it is not known: the device saw nothing wrong")
            .then("Send the bundle with a report: it has all that is known")
    });
    found
        .evidence
        .push(format!("the program was told: {}", bundle.error));
    found.rest = text::rest(bundle);
    found
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
        .then(format!("Mend what does that; the rule is from {}", rule.source))
        .then("`doorbell twin exec --record FILE` keeps what led to it, `twin replay --show FILE` shows it step by step"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Rule;

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
                "the program was told: it hangs",
            ]
        );
    }

    #[test]
    fn what_is_not_known_is_said() {
        let bundle = Bundle {
            kind: Kind::Check,
            ..Bundle::default()
        };
        assert_eq!(explain(&bundle).cause, "unknown");
    }
}
