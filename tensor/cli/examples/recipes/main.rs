//! Ten small programs, each of which holds its numbers against PyTorch's.
//!
//! `cargo run --example recipes -- kmeans` runs one of them; without a name all run.

mod accumulate;
mod attention;
mod check;
mod early;
mod ema;
mod kalman;
mod kmeans;
mod nested;
mod policy;
mod regression;
mod schedule;

type Program = fn() -> doorbell::Result<()>;

const PROGRAMS: [(&str, Program); 10] = [
    ("ema", ema::run),
    ("accumulate", accumulate::run),
    ("schedule", schedule::run),
    ("early", early::run),
    ("attention", attention::run),
    ("regression", regression::run),
    ("nested", nested::run),
    ("kalman", kalman::run),
    ("kmeans", kmeans::run),
    ("policy", policy::run),
];

fn main() -> doorbell::Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    for name in &wanted {
        if PROGRAMS.iter().all(|(known, _)| known != name) {
            let known = PROGRAMS.map(|(known, _)| known).join(", ");
            eprintln!("no program {name}; there are {known}");
            std::process::exit(2);
        }
    }
    for (name, run) in PROGRAMS {
        if wanted.is_empty() || wanted.iter().any(|one| one == name) {
            run()?;
        }
    }
    Ok(())
}
