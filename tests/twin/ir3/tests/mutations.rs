//! Kernels that Mesa compiled, with one thing less than they need: a wait, a slot, a point where fibers rejoin, a register
//! that is declared. Each breaks a rule, or is shown to change nothing.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;

use support::change::{self, Change, Kind};
use support::kernel::{self, Case, Outcome};
use support::witness;

/// How many changes have to break a rule in a part, and in all.
const WANTED: [usize; 2] = [25, 200];
/// Parts, of which `DOORBELL_PART` chooses one: so many changes of it. `all` is all changes.
const PARTS: usize = 8;

/// A word that is no instruction.
const NOTHING: u64 = 0x4000_0000_0000_3800;

/// Numbers in an order that is the same each time (Knuth).
fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut random = 1_u64;
    for at in (1..count).rev() {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        order.swap(at, (random >> 33) as usize % (at + 1));
    }
    order
}

/// Whether an instruction of a launch is run: it is taken away.
fn is_run(case: &Case, step: usize, at: usize) -> bool {
    let mut case = case.clone();
    case.steps[step].words[at] = NOTHING;
    match case.run() {
        Ok(_) => false,
        Err(broken) => broken
            .rule()
            .is_some_and(|rule| rule.name == "IR3-ENCODING"),
    }
}

/// Why a change that breaks no rule does no harm; an error where that is not shown.
fn harmless(case: &Case, right: &Outcome, change: &Change) -> Result<&'static str, String> {
    let changed = change.of(case);
    let done = changed.run().map_err(|broken| broken.to_string())?;
    if done.bytes != right.bytes {
        return Err("it gives other numbers".into());
    }
    if change.kind == Kind::Jp {
        // The executor counts those that wait there.
        return Ok("no fiber waits there");
    }
    if change.kind == Kind::Branch {
        return Ok("so many points are never pending");
    }
    if !change.kind.is_time() {
        return Err("nothing shows why".into());
    }
    if !is_run(case, change.step, change.at) {
        return Ok("it is not run");
    }
    match witness::opinion(&changed.steps[change.step]) {
        Some(Ok(())) => Ok("on no way something is too early"),
        Some(Err(hazard)) if !is_run(case, change.step, hazard.at) => {
            Ok("what is too early is not run")
        }
        other => Err(format!("the scoreboard says {other:?}")),
    }
}

/// Changes of all cases. Those of waits and delays are left out where the compiler's scoreboard has no opinion.
fn changes(cases: &[Case]) -> Vec<(usize, Change)> {
    let mut all = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let sound: Vec<bool> = case
            .steps
            .iter()
            .map(|step| matches!(witness::opinion(step), Some(Ok(()))))
            .collect();
        for (at, step) in case.steps.iter().enumerate().filter(|(at, _)| !sound[*at]) {
            println!("{}, launch {at}: {:?}", case.name, witness::opinion(step));
        }
        let changes = change::all(case).into_iter();
        let changes = changes.filter(|one| sound[one.step] || !one.kind.is_time());
        all.extend(changes.map(|one| (number, one)));
    }
    all
}

#[test]
fn kernels_that_lack_something_are_told_of() {
    let cases = kernel::cases(&kernel::golden());
    let right: Vec<Outcome> = cases.iter().map(|case| case.run().unwrap()).collect();
    let all = changes(&cases);
    let part = std::env::var("DOORBELL_PART").unwrap_or_else(|_| "0".into());
    println!("DOORBELL_PART={part}, {} changes", all.len());
    let mut order = shuffled(all.len());
    let (wanted, most) = match part.parse::<usize>() {
        Ok(part) => {
            order = order
                .into_iter()
                .skip(part % PARTS)
                .step_by(PARTS)
                .collect();
            (WANTED[0], WANTED[0])
        }
        Err(_) => (WANTED[1], usize::MAX),
    };
    let (mut told, mut silent, mut wrong) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let mut count = 0;
    for (number, change) in order.into_iter().map(|at| &all[at]) {
        if count == most {
            break;
        }
        let case = &cases[*number];
        let broken = change.of(case).run().err();
        let rule = broken.as_ref().and_then(|broken| broken.rule());
        if let Some(rule) = rule {
            *told.entry((change.kind, rule.name)).or_insert(0) += 1;
            count += 1;
            continue;
        }
        match harmless(case, &right[*number], change) {
            Ok(why) => *silent.entry((change.kind, why)).or_insert(0) += 1,
            Err(why) => wrong.push(format!("{}: {change:x?}: {why}", case.name)),
        }
    }
    println!("{told:#?}\n{silent:#?}");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(
        count >= wanted,
        "{count} changes broke a rule, expected {wanted}"
    );
}
