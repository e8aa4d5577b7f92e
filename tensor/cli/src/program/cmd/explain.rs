//! `doorbell explain`: what a bundle says of a device that hung or faulted. Needs no device.

use std::path::PathBuf;

use drivers_bundle::{Bundle, explain};

use crate::program::error::Error;
use crate::program::output;

/// Print why a device hung or faulted.
#[derive(clap::Args)]
pub struct Args {
    /// The bundle, whose path ends the error message
    #[arg(value_name = "FILE")]
    bundle: PathBuf,
    /// Print JSON (schema doorbell.explain/1)
    #[arg(long)]
    json: bool,
}

/// Prints the likely cause first, then what speaks for it, what to do next, and all else.
pub fn run(args: &Args) -> Result<(), Error> {
    let bundle = Bundle::read(&args.bundle).map_err(Error::Bundle)?;
    let found = explain(&bundle);
    match args.json {
        true => output::json("doorbell.explain/1", &[found]),
        false => output::line(format_args!("{}", found.to_string().trim_end())),
    }
}
