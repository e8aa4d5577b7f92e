//! The commands of `fwtool` and `doorbell fw`. Data goes to the writer; nothing else is printed.

mod dump;
mod extract;
mod list;
mod nvidia;
mod verify;

use std::io::Write;
use std::path::PathBuf;

use serde::Serialize;

use crate::search::Search;
use crate::{Error, amd, nv};

/// What to do.
#[derive(clap::Subcommand, Debug)]
pub enum Command {
    /// List the firmware files needed to boot, with presence, version and release
    List(list::Args),
    /// Show headers, versions and parts of files
    Dump(dump::Args),
    /// Check lengths, checksums and hashes of files against known releases or a manifest
    Verify(verify::Args),
    /// Extract the parts of files
    Extract(extract::Args),
}

/// Where to look.
#[derive(clap::Args, Debug)]
pub struct From {
    /// Folder to search before the system's; may be repeated
    #[arg(
        long,
        value_name = "FOLDER",
        env = "HCQDEV_FIRMWARE",
        value_delimiter = ':'
    )]
    from: Vec<PathBuf>,
}

impl From {
    fn search(&self) -> Search {
        Search::new(self.from.iter().cloned())
    }
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// About a file.
    #[error(transparent)]
    Firmware(#[from] Error),
    /// Writing the output failed.
    #[error("cannot write the output: {0}")]
    Output(#[from] std::io::Error),
    /// Invalid arguments.
    #[error("{0}")]
    Usage(String),
}

/// Runs a command. Returns false if files are missing or damaged; the output says which.
///
/// # Errors
/// [`Failure`]
pub fn run(command: &Command, out: &mut dyn Write) -> Result<bool, Failure> {
    match command {
        Command::List(args) => list::run(args, out),
        Command::Dump(args) => dump::run(args, out),
        Command::Verify(args) => verify::run(args, out),
        Command::Extract(args) => extract::run(args, out),
    }
}

/// A JSON document: the name and version of its schema, then its rows.
fn json<T: Serialize>(out: &mut dyn Write, schema: &str, rows: &[T]) -> Result<(), Failure> {
    let document = serde_json::json!({ "schema": schema, "rows": rows });
    writeln!(out, "{document:#}")?;
    Ok(())
}

/// A chip of a vendor.
enum Chip {
    Amd(amd::chip::Chip),
    Nvidia(nv::chip::Chip),
}

/// The chip of a name, or all; of NVIDIA's that share files, the one whose they are.
fn chips(name: Option<&str>) -> Result<Vec<Chip>, Failure> {
    let Some(name) = name else {
        let own = nv::chip::CHIPS
            .into_iter()
            .filter(|chip| chip.like == chip.name);
        let amd = amd::chip::CHIPS.into_iter().map(Chip::Amd);
        return Ok(amd.chain(own.map(Chip::Nvidia)).collect());
    };
    let amd = amd::chip::CHIPS.into_iter().find(|chip| chip.gfx == name);
    let chip = amd
        .map(Chip::Amd)
        .or_else(|| nv::chip::Chip::of(name).map(Chip::Nvidia));
    let chip = chip.ok_or_else(|| {
        let amd = amd::chip::CHIPS.iter().map(|chip| chip.gfx);
        let known: Vec<&str> = amd
            .chain(nv::chip::CHIPS.iter().map(|chip| chip.name))
            .collect();
        Failure::Usage(format!(
            "--chip: unknown chip {name:?}, expected one of {}",
            known.join(", ")
        ))
    })?;
    Ok(vec![chip])
}
