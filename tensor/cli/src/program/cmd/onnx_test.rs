//! `doorbell onnx-test`: the ONNX backend test cases of a folder, on the selected device.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::Setup;
use hcq::text::plain;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tensor::onnx::backend::{self, Tolerance, Verdict};

use crate::program::bound::bound;
use crate::program::error::Error;
use crate::program::output;

/// Run a folder of ONNX backend test cases.
#[derive(clap::Args)]
pub struct Args {
    /// Folder with cases at any depth: folders with `model.onnx` and `test_data_set_N`, or light
    /// models (`NAME.onnx` beside `NAME_output_0.pb`)
    folder: PathBuf,
    #[command(flatten)]
    work: Work,
}

/// Which of them, and how they are judged.
#[derive(clap::Args)]
pub struct Work {
    /// Only cases whose path contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Relative tolerance
    #[arg(long, default_value_t = Tolerance::default().relative, value_parser = bound)]
    rtol: f64,
    /// Absolute tolerance
    #[arg(long, default_value_t = Tolerance::default().absolute, value_parser = bound)]
    atol: f64,
    /// Print one JSON row per case
    #[arg(long)]
    json: bool,
}

/// One case.
#[derive(Serialize)]
struct Row {
    case: String,
    /// `passed`, `unsupported` or `failed`.
    verdict: &'static str,
    /// The operator or type that is missing, or what is wrong.
    reason: String,
}

/// Runs every case; fails if one does. What is not supported is said and does not fail.
pub fn run(args: &Args, setup: &Setup) -> Result<(), Error> {
    cases(&args.folder, &args.work, setup)
}

/// The same of a folder that something else names.
pub fn cases(folder: &Path, args: &Work, setup: &Setup) -> Result<(), Error> {
    let mut cases = backend::cases(folder).map_err(|source| Error::File {
        path: folder.display().to_string(),
        source,
    })?;
    let name = |case: &PathBuf| {
        let inner = case.strip_prefix(folder).unwrap_or(case);
        match inner.as_os_str().is_empty() {
            true => case.display().to_string(),
            false => inner.display().to_string(),
        }
    };
    cases.retain(|case| name(case).contains(&args.filter));
    if cases.is_empty() {
        return Err(Error::Usage(format!(
            "{}: no test cases whose path contains {:?}; a case is a folder with model.onnx",
            folder.display(),
            args.filter
        )));
    }
    let session = setup.open()?;
    let tolerance = Tolerance {
        relative: args.rtol,
        absolute: args.atol,
    };
    let bar = ProgressBar::new(cases.len() as u64);
    let style = ProgressStyle::with_template("testing  {bar:32} {pos}/{len} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut rows = Vec::with_capacity(cases.len());
    for case in &cases {
        let case_name = name(case);
        bar.set_message(plain(&case_name).into_owned());
        // A panic is a fault of this program; the other cases are still worth running.
        let verdict = catch_unwind(AssertUnwindSafe(|| {
            backend::run(case, &session.engine, tolerance)
        }));
        let (verdict, reason) = match verdict {
            Ok(Verdict::Passed) => ("passed", String::new()),
            Ok(Verdict::Unsupported(what)) => ("unsupported", what),
            Ok(Verdict::Failed(what)) => ("failed", what),
            Err(_) => ("failed", "panicked; this is a bug in doorbell".into()),
        };
        if !args.json && verdict != "passed" {
            bar.suspend(|| output::line(format_args!("{verdict:<12}{case_name}: {reason}")))?;
        }
        rows.push(Row {
            case: case_name,
            verdict,
            reason,
        });
        bar.inc(1);
    }
    bar.finish_and_clear();
    let count = |verdict: &str| rows.iter().filter(|r| r.verdict == verdict).count();
    let (passed, failed) = (count("passed"), count("failed"));
    if args.json {
        output::json("doorbell.onnx-test/1", &rows)?;
    } else {
        output::line(format_args!(
            "{passed} passed, {failed} failed, {} unsupported, of {}",
            count("unsupported"),
            rows.len()
        ))?;
    }
    match failed {
        0 => Ok(()),
        n => Err(Error::Check(format!("{n} of {} cases failed", rows.len()))),
    }
}
