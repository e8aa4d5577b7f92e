//! Twelve programs as people write them, each held against PyTorch's numbers.
//!
//! `cargo run --release -p doorbell --example programs -- training` runs one, without a name all.

mod batchnorm;
mod beam;
mod check;
mod devices;
mod dropout;
mod finetune;
mod gan;
mod metrics;
mod recurrent;
mod sequence;
mod serving;
mod solver;
mod training;

/// A program's name and what it does.
type Program = (&'static str, fn() -> doorbell::Result<()>);

const PROGRAMS: [Program; 12] = [
    ("training", training::run),
    ("gan", gan::run),
    ("recurrent", recurrent::run),
    ("batchnorm", batchnorm::run),
    ("serving", serving::run),
    ("solver", solver::run),
    ("dropout", dropout::run),
    ("finetune", finetune::run),
    ("metrics", metrics::run),
    ("devices", devices::run),
    ("sequence", sequence::run),
    ("beam", beam::run),
];

fn main() -> doorbell::Result<()> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    for name in &names {
        if !PROGRAMS.iter().any(|(n, _)| n == name) {
            let all: Vec<&str> = PROGRAMS.iter().map(|(n, _)| *n).collect();
            eprintln!("no program {name}; there are: {}", all.join(", "));
            std::process::exit(2);
        }
    }
    for (name, run) in PROGRAMS {
        if names.is_empty() || names.iter().any(|n| n == name) {
            run()?;
        }
    }
    Ok(())
}
