//! `list`: the files needed to boot.

use std::io::Write;

use serde::Serialize;

use super::{Failure, From, chips, json};
use crate::amd::Image;
use crate::amd::chip::{Blocks, Edition};
use crate::known::{self, Standing};
use crate::manifest::sha256;
use crate::search::Search;
use crate::{Error, PACKAGES};

/// The problem of a file that is not there.
const MISSING: &str = "missing";

/// List the firmware files needed to boot.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Only this chip (gfx1100), whose files must all be there: exit code 1 if one is missing
    #[arg(long)]
    chip: Option<String>,
    /// Include files of special boards that are installed
    #[arg(long)]
    editions: bool,
    #[command(flatten)]
    from: From,
    /// Print JSON (schema doorbell.fw-list/1)
    #[arg(long)]
    json: bool,
}

/// A file of a chip's boot.
#[derive(Serialize)]
pub(super) struct Row {
    chip: &'static str,
    pub file: String,
    /// Where it was found.
    path: Option<String>,
    size: Option<usize>,
    /// The version that it has.
    found: Option<String>,
    sha256: Option<String>,
    /// The release that it is of, if it is one that is known.
    release: Option<&'static str>,
    /// The release that has another file of this version.
    differs: Option<&'static str>,
    /// The versions that the parsers are tested with, oldest first.
    wanted: Vec<String>,
    /// Why it cannot be used.
    pub problem: Option<String>,
}

impl Row {
    fn of(chip: &'static str, file: String, search: &Search) -> Row {
        let known = known::releases(&file);
        let mut row = Row {
            chip,
            path: None,
            size: None,
            found: None,
            sha256: None,
            release: None,
            differs: None,
            wanted: known.iter().map(|known| version(known.version)).collect(),
            problem: None,
            file,
        };
        row.wanted.dedup();
        match search.find(&row.file) {
            Ok(found) => {
                let hash = sha256(&found.bytes);
                row.path = Some(found.path.display().to_string());
                row.size = Some(found.bytes.len());
                match Image::parse(&row.file, &found.bytes) {
                    Ok(image) => {
                        row.found = Some(version(image.version()));
                        match known::standing(&row.file, image.version(), &hash) {
                            Standing::Of(release) => row.release = Some(release),
                            Standing::Differs(release) => row.differs = Some(release),
                            Standing::Unknown => {}
                        }
                    }
                    Err(e) => row.problem = Some(e.to_string()),
                }
                row.sha256 = Some(hash);
            }
            Err(Error::Missing { .. }) => row.problem = Some(MISSING.into()),
            Err(e) => row.problem = Some(e.to_string()),
        }
        row
    }
}

/// The rows of a chip's boot.
pub(super) fn rows(
    chip: &'static str,
    blocks: &Blocks,
    editions: &[Edition],
    search: &Search,
) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for &edition in editions {
        for file in blocks.boot_files(edition) {
            let special = edition != Edition::Usual;
            if rows.iter().any(|row| row.file == file) || special && search.find(&file).is_err() {
                continue;
            }
            rows.push(Row::of(chip, file, search));
        }
    }
    rows
}

pub(super) fn version(number: u32) -> String {
    format!("{number:#010x}")
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<bool, Failure> {
    let search = args.from.search();
    let chips = chips(args.chip.as_deref())?;
    let editions = [Edition::Usual, Edition::Kicker, Edition::Ce];
    let editions = &editions[..if args.editions { 3 } else { 1 }];
    let all = chips
        .iter()
        .map(|chip| (chip, rows(chip.gfx, &chip.blocks, editions, &search)));
    let all: Vec<_> = all.collect();
    let problems = || {
        let rows = all.iter().flat_map(|(_, rows)| rows);
        rows.filter_map(|row| row.problem.as_deref())
    };
    // Nobody has a card of every chip: of those that nobody asked for, files may be missing.
    let whole = problems().all(|problem| args.chip.is_none() && problem == MISSING);
    if args.json {
        let rows: Vec<&Row> = all.iter().flat_map(|(_, rows)| rows).collect();
        json(out, "doorbell.fw-list/1", &rows)?;
        return Ok(whole);
    }
    for (chip, rows) in &all {
        writeln!(out, "{} ({}; {})", chip.gfx, chip.cards, chip.name)?;
        for row in rows {
            writeln!(out, "  {}", line(row))?;
        }
    }
    if problems().next().is_some() {
        writeln!(
            out,
            "Install missing files from your distribution. {PACKAGES}."
        )?;
    }
    Ok(whole)
}

fn line(row: &Row) -> String {
    let wanted = row.wanted.join(" or ");
    if let Some(problem) = &row.problem {
        return format!("{:<24} {problem}; tested: {wanted}", row.file);
    }
    let found = row.found.as_deref().unwrap_or_default();
    let release = match (row.release, row.differs) {
        (Some(release), _) => format!("of firmware-amd-graphics {release}"),
        (None, Some(release)) => {
            format!(
                "version as in firmware-amd-graphics {release}, but the contents differ: damaged?"
            )
        }
        (None, None) => format!("unknown release; tested: {wanted}"),
    };
    let path = row.path.as_deref().unwrap_or_default();
    format!("{:<24} {found} {release}, {path}", row.file)
}
