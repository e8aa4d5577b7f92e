//! What rules were broken, once the program has ended.

use std::io::Write;

use drivers_bundle::schema::Rule;
use serde::Serialize;
use twin::rule::Violation;

use crate::program::error::Error;

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

/// Those that are not allowed, as a bundle has them; all, if all are.
pub fn rules(rows: &[Row]) -> Vec<Rule> {
    let rule = |row: &Row| Rule {
        name: row.rule.into(),
        text: row.text.into(),
        source: row.source.into(),
        times: row.times as u64,
        seen: row.seen.clone(),
        after: row.after.clone(),
    };
    let (allowed, other): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.allowed);
    other.into_iter().chain(allowed).map(rule).collect()
}

/// Prints them to stderr, and why devices were reset: stdout is the program's. `bundle` is the file that keeps them, or why
/// there is none.
pub fn print(
    rows: &[Row],
    resets: &[String],
    bundle: Option<&Result<String, String>>,
    json: bool,
) -> Result<(), Error> {
    let mut out = std::io::stderr().lock();
    let path = bundle.and_then(|bundle| bundle.as_ref().ok());
    let printed = match json {
        true => {
            let document = serde_json::json!({"schema": "doorbell.twin.journal/1", "rows": rows, "resets": resets, "bundle": path});
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
    let printed = printed.and_then(|()| match json {
        true => Ok(()),
        false => resets
            .iter()
            .try_for_each(|reset| writeln!(out, "reset: {reset}")),
    });
    let printed = printed.and_then(|()| match bundle.filter(|_| !json) {
        None => Ok(()),
        Some(Ok(path)) => writeln!(out, "bundle: doorbell explain {path}"),
        Some(Err(why)) => writeln!(out, "no bundle written: {why}"),
    });
    printed.map_err(|source| Error::File {
        path: "stderr".into(),
        source,
    })
}
