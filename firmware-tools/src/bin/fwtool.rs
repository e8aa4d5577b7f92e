//! `fwtool`: inspects firmware files. Data goes to stdout, messages to stderr.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use firmware_tools::command::{Command, Failure, run};

/// Inspects firmware files.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    match run(&Cli::parse().command, &mut std::io::stdout().lock()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Failure::Output(e)) if e.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::from(if matches!(e, Failure::Usage(_)) { 2 } else { 1 })
        }
    }
}
