//! `verify`: checks files against their headers, known releases or a manifest.

use std::io::Write;
use std::path::PathBuf;

use serde::Serialize;

use super::{Failure, From, chips, json, list, nvidia};
use crate::amd::chip::Edition;
use crate::amd::{Checksum, Image, Kind, discovery};
use crate::belongs::{self, base};
use crate::known::{self, Standing};
use crate::manifest::{self, Verdict, sha256};
use crate::search::{self, Search};
use crate::{Error, Vendor};

/// Check files.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Files or folders; default: the files needed to boot
    files: Vec<PathBuf>,
    /// Check the files needed to boot this chip (gfx1100, ga102)
    #[arg(long, conflicts_with_all = ["files", "manifest"])]
    chip: Option<String>,
    /// Compare with the SHA-256 sums in this file (sha256sum format); names are relative to the
    /// given folder
    #[arg(long, requires = "files")]
    manifest: Option<PathBuf>,
    #[command(flatten)]
    from: From,
    /// Print JSON (schema doorbell.fw-verify/1)
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row {
    file: String,
    ok: bool,
    detail: String,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<bool, Failure> {
    let rows = match (&args.manifest, &args.files[..]) {
        (Some(list), [folder]) => compare(list, folder)?,
        (Some(_), folders) => {
            let found = folders.len();
            return Err(Failure::Usage(format!(
                "--manifest: expected one folder, found {found}"
            )));
        }
        (None, []) => boots(args)?,
        (None, files) => parse(files)?,
    };
    let whole = rows.iter().all(|row| row.ok);
    if args.json {
        json(out, "doorbell.fw-verify/1", &rows)?;
    } else {
        for row in &rows {
            let verdict = if row.ok { "ok" } else { "BAD" };
            writeln!(out, "{verdict:<4}{}: {}", row.file, row.detail)?;
        }
    }
    Ok(whole)
}

/// What the boots need.
fn boots(args: &Args) -> Result<Vec<Row>, Failure> {
    let search = args.from.search();
    let chips = chips(args.chip.as_deref())?;
    let mut rows = Vec::new();
    for chip in &chips {
        // Of several versions, the one that most is there of; the newest of such.
        let boots = list::boots(chip, &[Edition::Usual], &search);
        let best = boots.into_iter().min_by_key(list::Boot::problems);
        rows.extend(best.into_iter().flat_map(|boot| boot.rows));
    }
    let rows = rows.into_iter().map(|row| Row {
        ok: row.problem.is_none(),
        detail: row.problem.unwrap_or_else(|| "intact".into()),
        file: row.file,
    });
    Ok(rows.collect())
}

fn compare(list: &std::path::Path, folder: &std::path::Path) -> Result<Vec<Row>, Failure> {
    let entries = manifest::read(list)?;
    let verdicts = manifest::verify(&entries, folder)?;
    let rows = entries.iter().zip(verdicts).map(|(entry, verdict)| Row {
        file: entry.name.display().to_string(),
        ok: verdict == Verdict::Same,
        detail: match verdict {
            Verdict::Same => "matches the manifest".into(),
            Verdict::Missing => "missing".into(),
            Verdict::Differs(found) => {
                format!("sha256 is {found}, expected {}", entry.sha256)
            }
        },
    });
    Ok(rows.collect())
}

fn parse(files: &[PathBuf]) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for file in files {
        let several = if file.is_dir() {
            Search::only([file.clone()]).files()?
        } else {
            vec![file.clone()]
        };
        for path in several {
            let name = path.display().to_string();
            let checked = search::read(&path).and_then(|bytes| check(&name, &bytes));
            rows.push(Row {
                ok: checked.is_ok(),
                // The row says which file already.
                detail: checked.unwrap_or_else(|e| {
                    let text = e.to_string();
                    text.strip_prefix(&format!("{name}: "))
                        .unwrap_or(&text)
                        .to_owned()
                }),
                file: name,
            });
        }
    }
    Ok(rows)
}

/// What there is to say about a file that is whole.
fn check(name: &str, bytes: &[u8]) -> Result<String, Error> {
    if Vendor::of(name) == Vendor::Nvidia {
        return nvidia::check(name, bytes);
    }
    if Kind::of(name) == Some(Kind::Discovery) {
        discovery::check(name, bytes)?;
        return Ok("ip discovery, of an unsupported chip".into());
    }
    let image = Image::parse(name, bytes)?;
    let kind = image.kind();
    let range = match image.checksum() {
        Checksum::Unknown => ", checksum over an unknown range",
        Checksum::Rest | Checksum::Code => "",
    };
    if !kind.used() {
        return Ok(format!("{}, not used for compute{range}", kind.name()));
    }
    let sum = sha256(bytes);
    belongs::amd(name, image.block_version(), &sum)?;
    let release = match known::standing(base(name), image.version(), &sum) {
        Standing::Of(release) => format!(", of firmware-amd-graphics {release}"),
        Standing::Differs(release) => {
            format!(
                ", version as in firmware-amd-graphics {release}, but the contents differ: damaged?"
            )
        }
        Standing::Unknown => String::new(),
    };
    let parts = match image.parts().len() {
        1 => "1 part".into(),
        n => format!("{n} parts"),
    };
    Ok(format!("{}, {parts}{release}{range}", kind.name()))
}
