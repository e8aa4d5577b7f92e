//! `fwtool`: look into firmware files. Data to stdout, talk to stderr.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use firmware_tools::manifest::{self, Verdict};
use firmware_tools::{Error, amd};
use serde::Serialize;

/// Looks into firmware files.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print the header of amdgpu firmware files as JSON (schema doorbell.firmware/1)
    Dump {
        /// The files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Compare files with a manifest of SHA-256 sums
    Verify {
        /// The manifest, as sha256sum writes it
        manifest: PathBuf,
        /// The folder of the files
        folder: PathBuf,
    },
}

#[derive(Serialize)]
struct Row {
    file: String,
    sha256: String,
    size: usize,
    header_version: String,
    ip_version: String,
    ucode_version: String,
    ucode_offset: u32,
    ucode_bytes: u32,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Dump { files } => dump(&files),
        Command::Verify { manifest, folder } => verify(&manifest, &folder),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn dump(files: &[PathBuf]) -> Result<bool, Error> {
    let mut rows = Vec::new();
    for path in files {
        let bytes = std::fs::read(path).map_err(|source| Error::File {
            path: path.clone(),
            source,
        })?;
        let name = path.display().to_string();
        let image = amd::Image::parse(&name, &bytes)?;
        let h = image.header();
        rows.push(Row {
            file: name,
            sha256: manifest::sha256(&bytes),
            size: bytes.len(),
            header_version: format!("{}.{}", h.header_version_major, h.header_version_minor),
            ip_version: format!("{}.{}", h.ip_version_major, h.ip_version_minor),
            ucode_version: format!("{:#x}", h.ucode_version.get()),
            ucode_offset: h.ucode_array_offset_bytes.get(),
            ucode_bytes: h.ucode_size_bytes.get(),
        });
    }
    println!(
        "{:#}",
        serde_json::json!({ "schema": "doorbell.firmware/1", "rows": rows })
    );
    Ok(true)
}

fn verify(list: &Path, folder: &Path) -> Result<bool, Error> {
    let entries = manifest::read(list)?;
    let verdicts = manifest::verify(&entries, folder)?;
    for (entry, verdict) in entries.iter().zip(&verdicts) {
        let name = entry.name.display();
        match verdict {
            Verdict::Same => println!("{name}: OK"),
            Verdict::Missing => println!("{name}: MISSING"),
            Verdict::Differs(found) => println!("{name}: DIFFERS (found {found})"),
        }
    }
    Ok(verdicts.iter().all(|v| *v == Verdict::Same))
}
