//! `doorbell doctor`: strictly read-only.

use std::path::{Path, PathBuf};

use crate::Setup;
use drivers::doctor::{Places, Row, Status, examine, examine_twin, runtimes};
use drivers_host::machine::Host;
use drivers_host::pci::System;
use serde::Serialize;

use crate::program::error::Error;
use crate::program::output;

/// Check the system (read-only).
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON (schema doorbell.doctor/1)
    #[arg(long)]
    json: bool,
    /// Print the options of compilers, too; JSON always has them
    #[arg(long)]
    verbose: bool,
    /// Read the system files from this folder instead of this machine
    #[arg(long, value_name = "FOLDER")]
    root: Option<PathBuf>,
}

#[derive(Serialize)]
struct Line<'a> {
    check: &'a str,
    status: &'a str,
    detail: &'a str,
    fix: &'a str,
}

/// Prints a row per check; those of a simulated machine last, if one is chosen. Absent hardware is
/// no failure: the exit code is 0.
pub fn run(args: &Args, setup: &Setup) -> Result<(), Error> {
    let cpu = drivers_host::cpuinfo::CpuInfo::read();
    let places = Places {
        firmware: folders(&setup.settings().firmware),
    };
    let mut rows = match &args.root {
        None => {
            let mut rows = examine(&System::this(), &*Host::get(), &cpu, &places);
            rows.extend(runtimes(setup.target().device));
            rows
        }
        Some(root) => {
            let system = System::at(root);
            examine(&system, &*Host::at(system.clone()), &cpu, &places)
        }
    };
    rows.splice(1..1, compilers(setup, args.json || args.verbose));
    if let Some(twin) = setup.twin() {
        let files = System::at(args.root.as_deref().unwrap_or(Path::new("/")));
        rows.extend(examine_twin(&*twin.machine(), &files, &places));
    }
    let lines: Vec<Line<'_>> = rows.iter().map(line).collect();
    if args.json {
        return output::json("doorbell.doctor/1", &lines);
    }
    for row in &lines {
        output::line(format_args!(
            "{:<14} {:<12} {}",
            row.check, row.status, row.detail
        ))?;
        if !row.fix.is_empty() {
            output::line(format_args!("{:<27} fix: {}", "", row.fix))?;
        }
    }
    Ok(())
}

fn folders(paths: &[PathBuf]) -> Vec<String> {
    let text = paths.iter().map(|path| path.display().to_string());
    text.collect()
}

fn line(row: &Row) -> Line<'_> {
    Line {
        check: &row.check,
        status: row.status.name(),
        detail: &row.detail,
        fix: &row.fix,
    }
}

/// The instruction set that compilers of a device are looked at for: that of the simulated machine or of the
/// selection, else of the first chip that we would like to know about.
fn arch(setup: &Setup, device: &str) -> String {
    let target = setup.target();
    if target.device.name() == device {
        let simulated = setup.twin().map(|twin| twin.arch());
        if let Some(asked) = simulated.or(target.arch) {
            return asked;
        }
    }
    match device {
        "NV" | "CUDA" => "sm_90".into(),
        "QCOM" => "a630".into(),
        "CL" => "cl:local=32768,items=256,wave=32".into(),
        _ => "gfx1100".into(),
    }
}

/// The rows about compilers: with all of their options, or only their versions.
fn compilers(setup: &Setup, whole: bool) -> Vec<Row> {
    let row = |row: &codegen::Row| {
        let found = row.open(&arch(setup, row.device), 1);
        Row {
            check: format!("{}.{}", row.device, row.renderer).to_lowercase(),
            status: match found {
                Ok(_) => Status::Ok,
                Err(_) => Status::Absent,
            },
            fix: match found {
                Ok(_) => String::new(),
                Err(_) => row.fix.into(),
            },
            detail: match found {
                Ok(backend) if whole => backend.describe(),
                Ok(backend) => backend.release(),
                // The row has its own line with what to do.
                Err(codegen::Error::NoCompiler {
                    compiler,
                    message,
                    looked_in,
                    ..
                }) if looked_in.is_empty() => format!("{compiler} {message}"),
                Err(codegen::Error::NoCompiler {
                    compiler,
                    message,
                    looked_in,
                    ..
                }) => format!("{compiler} {message}; looked in: {looked_in}"),
                Err(e) => e.to_string(),
            },
        }
    };
    codegen::TABLE.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use drivers::select::DeviceKind;

    #[test]
    fn every_back_end_can_be_asked_for() {
        for row in codegen::TABLE {
            let device = DeviceKind::ALL.into_iter().find(|d| d.name() == row.device);
            let names = device.map_or(&[][..], DeviceKind::renderers);
            assert!(
                names.contains(&row.renderer),
                "{}:{}",
                row.device,
                row.renderer
            );
        }
    }
}
