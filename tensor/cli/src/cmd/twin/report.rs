//! What rules were broken, once the program has ended.

use std::io::Write;

use serde::Serialize;
use twin::rule::Violation;

use crate::error::Error;

/// A rule, and how it was broken.
#[derive(Serialize)]
pub struct Row {
    rule: &'static str,
    text: &'static str,
    source: &'static str,
    proof: String,
    /// Whether `--allow` names it.
    allowed: bool,
    times: usize,
    /// The first case.
    seen: String,
    /// What happened before that.
    after: Vec<String>,
}

/// Each rule once, in the order in which they were broken first.
pub fn rows(violations: Vec<Violation>, allowed: &[String]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for Violation { rule, what, events } in violations {
        match rows.iter_mut().find(|row| row.rule == rule.name) {
            Some(row) => row.times += 1,
            None => rows.push(Row {
                rule: rule.name,
                text: rule.text,
                source: rule.source,
                proof: format!("{:?}", rule.proof),
                allowed: allowed.iter().any(|name| name == rule.name),
                times: 1,
                seen: what,
                after: events,
            }),
        }
    }
    rows
}

/// Whether one is broken that is not allowed.
pub fn fails(rows: &[Row]) -> bool {
    rows.iter().any(|row| !row.allowed)
}

/// Prints them to stderr: stdout is the program's.
pub fn print(rows: &[Row], json: bool) -> Result<(), Error> {
    let mut out = std::io::stderr().lock();
    let printed = match json {
        true => {
            let document = serde_json::json!({"schema": "doorbell.twin.journal/1", "rows": rows});
            writeln!(out, "{document}")
        }
        false => rows.iter().try_for_each(|row| {
            let Row {
                rule,
                text,
                source,
                proof,
                allowed,
                times,
                seen,
                after,
            } = row;
            let allowed = if *allowed { ", allowed" } else { "" };
            writeln!(
                out,
                "rule {rule} ({proof}; {source}), broken {times} times{allowed}: {text}. Seen: {seen}"
            )?;
            after.iter().try_for_each(|event| writeln!(out, "  after {event}"))
        }),
    };
    printed.map_err(|source| Error::File {
        path: "stderr".into(),
        source,
    })
}
