//! The operators with their gradients: one case in so many first, so that every operator has its turn, then the
//! others, until time is over. What holds is noted as it is found, so that a run that is cut off goes on later.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use doorbell::{Error, Setup};
use golden::manifest::References;
use golden::suite::{name, run_told};

use crate::{Tally, rules};

/// Cases that have held, a line each.
#[derive(Default)]
struct Journal {
    held: HashSet<String>,
    file: Option<File>,
}

impl Journal {
    fn open(path: Option<&Path>) -> Result<Journal, Error> {
        let Some(path) = path else {
            return Ok(Journal::default());
        };
        let text = match path.exists() {
            true => std::fs::read_to_string(path)?,
            false => String::new(),
        };
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Journal {
            held: text.lines().map(str::to_owned).collect(),
            file: Some(file),
        })
    }

    fn add(&mut self, case: &str) {
        // Without a place for it the case is run again.
        if let Some(file) = &mut self.file {
            let _ = writeln!(file, "{case}");
        }
        self.held.insert(case.into());
    }
}

/// Runs them.
///
/// # Errors
/// There is no device; the journal cannot be read or written.
pub fn run(
    every: u32,
    seconds: Option<u64>,
    journal: Option<&Path>,
    tally: &mut Tally,
) -> Result<(), Error> {
    let references = References::open(&References::folder()).unwrap();
    let journal = RefCell::new(Journal::open(journal)?);
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let is_over = || end.is_some_and(|end| Instant::now() >= end);
    let setup = Setup::from_env()?;
    let mut engine = setup.open()?.engine;
    let passes = end.map_or(1, |_| every);
    for (pass, group) in
        (0..passes).flat_map(|pass| references.groups.iter().map(move |g| (pass, g)))
    {
        if is_over() {
            break;
        }
        let started = Instant::now();
        let index = Cell::new(0u32);
        let is_wanted = |number: u32| number % every == pass;
        let failed = tally.failed;
        let report = run_told(
            &engine,
            |g, case| {
                g.name == group.name
                    && is_wanted(index.replace(index.get() + 1))
                    && !is_over()
                    && !journal.borrow().held.contains(&name(g, case))
            },
            |case, wrong| {
                if wrong.is_none() {
                    journal.borrow_mut().add(case);
                }
                tally.count(case, wrong.map(ToString::to_string));
            },
        );
        let cases = report.unwrap().cases;
        let seconds = started.elapsed().as_secs_f64();
        if cases > 0 {
            println!("{}: {cases} cases, {seconds:.2} s", group.name);
        }
        if tally.failed > failed {
            // It may be lost.
            drop(engine);
            engine = setup.open()?.engine;
        }
    }
    drop(engine);
    if end.is_some() {
        let all = references
            .groups
            .iter()
            .map(|group| group.cases.len())
            .sum();
        let held = journal.borrow().held.len();
        let left = all - (held + tally.failed).min(all);
        tally.left = (left > 0).then_some((left, all));
    }
    if let Some(broken) = rules(&setup, &[]) {
        tally.count("operators", Some(broken));
    }
    Ok(())
}
