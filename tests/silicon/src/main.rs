//! The suites as one program, for a machine that has a card and no compiler of Rust: the suite of queues, the
//! operators with their gradients, random programs, and what goes wrong. The device is chosen as everywhere
//! (`DEV=NV`, `DEV=TWINNVK+NV::gh100`).
//!
//! Each suite tells what does not hold, goes on after it, and ends with exit code 1 then. A device that was lost is
//! opened again.
#![forbid(unsafe_code)]
// Each suite is a test: what cannot be set up ends it.
#![allow(clippy::unwrap_used)]

mod bench;
mod expressions;
mod kernels;
mod operators;
mod peers;
mod probes;
mod stray;
mod subject;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use conformance::{CASES, Rig};
use doorbell::Setup;
use golden::random::{FAMILIES, compare};
use hcq::{ArgLayout, Command, Deadline, Val};
use tensor::Engine;

use subject::Selected;

/// The suites of Doorbell on the device that DEV names.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Subcommand)]
enum Suite {
    /// The suite of queues: commands, captured graphs, faults; kernels by NVRTC, and by clang
    Conformance {
        /// Only cases with this in their names
        #[arg(default_value = "")]
        filter: String,
        /// Not the cases with this in their names: those that want a second GPU
        #[arg(long, value_name = "NAME")]
        without: Vec<String>,
    },
    /// The operators with their gradients, against references that were made elsewhere
    Operators {
        /// One case in so many
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        every: u32,
        /// Then the others, too, until so many seconds are over
        #[arg(long)]
        seconds: Option<u64>,
        /// A file of the cases that have held: they are left out, and what holds now is added as it is found
        #[arg(long)]
        journal: Option<std::path::PathBuf>,
    },
    /// Random programs, plain and captured, against the host
    Programs {
        /// So many of each family
        #[arg(long, default_value_t = 3)]
        count: u64,
        /// The number of the first one
        #[arg(long, default_value_t = 0x5eed)]
        seed: u64,
    },
    /// What is measured of CUDA, too: launches, copies, sums, products
    Bench {
        /// Sizes for a simulated device
        #[arg(long)]
        small: bool,
        /// One part alone
        #[arg(long, value_enum)]
        only: Option<bench::Part>,
    },
    /// Asks what documents leave open, of a card of NVIDIA's: launches of other forms
    Probes,
    /// Compiles the kernels of the suite of queues, a file for each chip, for a machine without a compiler
    Kernels {
        /// Where they go
        folder: std::path::PathBuf,
        /// For these, of AMD's (gfx1100) and NVIDIA's (sm_89); all of NVIDIA's if none is named
        chips: Vec<String>,
    },
    /// Sends a card that no kernel driver has beside the memory that is mapped for it: behind an IOMMU it must not
    /// get there
    Stray,
    /// Several GPUs in one process: each copies between the memory of all, and that of the host
    Peers {
        /// The first so many
        #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..))]
        gpus: u32,
        /// Each has to reach all of it
        #[arg(long)]
        all: bool,
    },
    /// Starts a kernel that does not end, says so, and waits: to be killed, or until the deadline
    Spin {
        /// The deadline
        #[arg(long, default_value_t = 5)]
        seconds: u64,
    },
}

/// What a suite has found.
#[derive(Default)]
struct Tally {
    held: usize,
    failed: usize,
    /// For which there was no time, of how many.
    left: Option<(usize, usize)>,
}

impl Tally {
    /// A case: nothing, or what was wrong.
    fn count(&mut self, name: &str, wrong: Option<String>) {
        match wrong {
            None => self.held += 1,
            Some(wrong) => {
                self.failed += 1;
                println!("FAILED {name}: {wrong}");
            }
        }
    }
}

/// What somebody panicked with.
fn said(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
        .unwrap_or_default()
}

/// Runs something that may fail or panic.
fn guarded<E: std::fmt::Display>(run: impl FnOnce() -> Result<(), E>) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(panic) => Some(said(panic)),
    }
}

/// Marks of what the suite of queues does on purpose: it goes to two addresses where nothing is; and some cases wait
/// for what never comes.
const ON_PURPOSE: [&str; 2] = ["0x1230", "0x4560"];
const WAITS: &str = "rule HOST-DEADLOCK";

/// The rules of a simulated device that were broken, but for those with one of these marks.
fn rules(setup: &Setup, on_purpose: &[&str]) -> Option<String> {
    let error = setup.check_rules().err()?.to_string();
    let others = error.lines().filter(|line| line.starts_with("rule "));
    let others = others.filter(|line| !on_purpose.iter().any(|mark| line.contains(mark)));
    let others: Vec<_> = others.collect();
    (!others.is_empty()).then(|| others.join("\n"))
}

fn conformance(filter: &str, without: &[String], tally: &mut Tally) -> Result<(), doorbell::Error> {
    let wanted = |name: &str| {
        name.contains(filter) && !without.iter().any(|other| name.contains(other.as_str()))
    };
    for (name, case) in CASES.iter().filter(|(name, _)| wanted(name)) {
        let started = Instant::now();
        // Each on a machine of its own, if it is a simulated one (TWIN=gpus=2: one case wants two).
        let subject = Selected::new()?;
        let wrong = guarded(|| {
            case(&subject);
            let waits = subject.waits().then_some(WAITS);
            let on_purpose: Vec<_> = ON_PURPOSE.into_iter().chain(waits).collect();
            match rules(&subject.setup, &on_purpose) {
                Some(broken) => Err(broken),
                None => Ok(()),
            }
        });
        println!("{name}: {:.2} s", started.elapsed().as_secs_f64());
        tally.count(name, wrong);
    }
    Ok(())
}

fn programs(count: u64, first: u64, tally: &mut Tally) -> Result<(), doorbell::Error> {
    let host = Engine::reference();
    for (family, (name, _)) in FAMILIES.iter().enumerate() {
        let started = Instant::now();
        let setup = Setup::from_env()?;
        let mut engine = setup.open()?.engine;
        for seed in first..first + count {
            let wrong = compare(&host, &engine, family, seed);
            if wrong.is_some() {
                // It may be lost.
                drop(engine);
                engine = setup.open()?.engine;
            }
            tally.count(&format!("{name} of --seed {seed} --count 1"), wrong);
        }
        drop(engine);
        println!("{name}: {:.2} s", started.elapsed().as_secs_f64());
        if let Some(broken) = rules(&setup, &[]) {
            tally.count(name, Some(broken));
        }
    }
    Ok(())
}

/// A kernel without an end: whoever waits for it is told after the deadline.
fn spin(seconds: u64, tally: &mut Tally) -> Result<(), doorbell::Error> {
    let subject = Selected::new()?;
    let rig = Rig::new(&subject);
    let image = subject.image("spin", ArgLayout::buffers(1));
    let program = rig.device.load(&image)?;
    let until = rig.data(&[0; 16]);
    let started = rig.compute.submit(
        &[],
        &[Command::Exec {
            program: &program,
            args: &[Val::Const(until.va().0)],
            grid: [1, 1, 1],
            block: [1, 1, 1],
        }],
    )?;
    println!("spinning, process {}", std::process::id());
    let limit = Duration::from_secs(seconds);
    let error = started.wait(Deadline::after(limit).within(limit));
    match error {
        Err(error) => println!("as it should be: {error}"),
        Ok(()) => tally.count("spin", Some("the kernel has ended".into())),
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut tally = Tally::default();
    let ran = match Cli::parse().suite {
        Suite::Conformance { filter, without } => conformance(&filter, &without, &mut tally),
        Suite::Operators {
            every,
            seconds,
            journal,
        } => operators::run(every, seconds, journal.as_deref(), &mut tally),
        Suite::Programs { count, seed } => programs(count, seed, &mut tally),
        Suite::Bench { small, only } => bench::run(small, only),
        Suite::Probes => probes::run(),
        Suite::Kernels { folder, chips } => kernels::write(&folder, &chips),
        Suite::Stray => stray::run().map(|stopped| match stopped {
            Ok(by) => println!("as it should be: {by}"),
            Err(wrong) => tally.count("stray", Some(wrong)),
        }),
        Suite::Peers { gpus, all } => peers::run(gpus, all).map(|(right, wrong)| {
            tally.held += right;
            wrong
                .into_iter()
                .for_each(|why| tally.count("peers", Some(why)));
        }),
        Suite::Spin { seconds } => spin(seconds, &mut tally),
    };
    let left = tally
        .left
        .map(|(left, all)| format!("; {left} of {all} cases are left"));
    let left = left.unwrap_or_default();
    println!("{} held, {} failed{left}", tally.held, tally.failed);
    match ran {
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
        Ok(()) if tally.failed > 0 => ExitCode::from(1),
        Ok(()) => ExitCode::SUCCESS,
    }
}
