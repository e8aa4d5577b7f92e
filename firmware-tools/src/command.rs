//! The commands of `fwtool`, which are those of `doorbell fw`. Data goes to the writer, talk to
//! nobody.

mod dump;
mod extract;
mod list;
mod verify;

use std::io::Write;
use std::path::PathBuf;

use serde::Serialize;

use crate::Error;
use crate::amd::chip::{CHIPS, Chip};
use crate::search::Search;

/// What to do.
#[derive(clap::Subcommand, Debug)]
pub enum Command {
    /// List the files that boots need: which are there, of which version and release
    List(list::Args),
    /// Show what files hold: headers, versions, parts
    Dump(dump::Args),
    /// Check files: headers against lengths, checksums, hashes against releases or a manifest
    Verify(verify::Args),
    /// Write the parts of files as files
    Extract(extract::Args),
}

/// Where to look.
#[derive(clap::Args, Debug)]
pub struct From {
    /// A folder to look in before the system's; may be repeated
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

/// Why a command could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// About a file.
    #[error(transparent)]
    Firmware(#[from] Error),
    /// Nobody takes what is written.
    #[error("the output: {0}")]
    Output(#[from] std::io::Error),
    /// What was asked for makes no sense.
    #[error("{0}")]
    Usage(String),
}

/// Does it. False is an answer, too: files are missing or damaged, and the output says which.
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

/// The chip of a name, or all.
fn chips(name: Option<&str>) -> Result<Vec<Chip>, Failure> {
    let Some(name) = name else {
        return Ok(CHIPS.to_vec());
    };
    let chip = CHIPS.iter().find(|chip| chip.gfx == name);
    let chip = chip.ok_or_else(|| {
        let known: Vec<&str> = CHIPS.iter().map(|chip| chip.gfx).collect();
        Failure::Usage(format!(
            "--chip is {name:?}, expected one of {}",
            known.join(", ")
        ))
    })?;
    Ok(vec![*chip])
}
