//! `list`: the files needed to boot.

use std::io::Write;

use serde::Serialize;

use super::{Chip, Failure, From, chips, json};
use crate::amd::Image;
use crate::amd::chip::{Blocks, Edition};
use crate::known::{self, Standing};
use crate::manifest::sha256;
use crate::search::{Found, Search};
use crate::{Error, Vendor, belongs, nv};

/// The problem of a file that is not there.
const MISSING: &str = "missing";

/// List the firmware files needed to boot.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Only this chip (gfx1100, ga102); exit code 1 if its files are incomplete (at least one complete version is needed)
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
    /// Debian's package that these are releases of.
    package: &'static str,
    /// The versions that the parsers are tested with, oldest first.
    wanted: Vec<String>,
    /// Why it cannot be used.
    pub problem: Option<String>,
}

impl Row {
    fn new(chip: &'static str, file: String, package: &'static str) -> Row {
        Row {
            chip,
            file,
            path: None,
            size: None,
            found: None,
            sha256: None,
            release: None,
            differs: None,
            package,
            wanted: Vec::new(),
            problem: None,
        }
    }

    /// Looks for the file. Returns it with its hash, which then stands in the row.
    fn find(&mut self, search: &Search) -> Option<(Found, String)> {
        match search.find(&self.file) {
            Ok(found) => {
                let hash = sha256(&found.bytes);
                self.path = Some(found.path.display().to_string());
                self.size = Some(found.bytes.len());
                self.sha256 = Some(hash.clone());
                Some((found, hash))
            }
            Err(Error::Missing { .. }) => {
                self.problem = Some(MISSING.into());
                None
            }
            Err(e) => {
                self.problem = Some(e.to_string());
                None
            }
        }
    }

    fn of(chip: &'static str, file: String, search: &Search) -> Row {
        let known = known::releases(&file);
        let mut row = Row::new(chip, file, "firmware-amd-graphics");
        row.wanted = known.iter().map(|known| version(known.version)).collect();
        row.wanted.dedup();
        let Some((found, hash)) = row.find(search) else {
            return row;
        };
        match Image::parse(&row.file, &found.bytes) {
            Ok(image) => {
                row.found = Some(version(image.version()));
                row.problem = belongs::amd(&row.file, image.block_version(), &hash)
                    .err()
                    .map(|e| e.to_string());
                match known::standing(&row.file, image.version(), &hash) {
                    Standing::Of(release) => row.release = Some(release),
                    Standing::Differs(release) => row.differs = Some(release),
                    Standing::Unknown => {}
                }
            }
            Err(e) => row.problem = Some(e.to_string()),
        }
        row
    }

    fn of_nvidia(chip: &'static str, file: String, wanted: nv::Version, search: &Search) -> Row {
        let mut row = Row::new(chip, file, "firmware-nvidia-graphics");
        row.wanted = vec![wanted.to_string()];
        let Some((found, hash)) = row.find(search) else {
            return row;
        };
        match nv::Image::parse(&row.file, &found.bytes) {
            Ok(image) => {
                row.found = image.version().map(|version| version.to_string());
                row.problem = belongs::nvidia(&row.file, &hash)
                    .err()
                    .map(|e| e.to_string());
                match nv::known::standing(&row.file, &hash) {
                    nv::known::Standing::Of(known) => row.release = Some(known.release),
                    nv::known::Standing::Differs(known) => row.differs = Some(known.release),
                    nv::known::Standing::Unknown => {}
                }
            }
            Err(e) => row.problem = Some(e.to_string()),
        }
        row
    }
}

/// The files of a boot.
pub(super) struct Boot {
    heading: String,
    vendor: Vendor,
    pub rows: Vec<Row>,
}

/// The boots of a chip: one for each version that there are files of, newest first.
pub(super) fn boots(chip: &Chip, editions: &[Edition], search: &Search) -> Vec<Boot> {
    match chip {
        Chip::Amd(chip) => vec![Boot {
            heading: format!("{} ({}; {})", chip.gfx, chip.cards, chip.name),
            vendor: Vendor::Amd,
            rows: rows(chip.gfx, &chip.blocks, editions, search),
        }],
        Chip::Nvidia(chip) => {
            let boot = |version: &nv::Version| {
                let files = chip.boot_files(*version).into_iter();
                Boot {
                    heading: format!("{} ({}; {version})", chip.name, chip.cards),
                    vendor: Vendor::Nvidia,
                    rows: files
                        .map(|file| Row::of_nvidia(chip.name, file, *version, search))
                        .collect(),
                }
            };
            chip.versions().iter().rev().map(boot).collect()
        }
    }
}

impl Boot {
    pub fn problems(&self) -> usize {
        self.rows.iter().filter(|row| row.problem.is_some()).count()
    }

    /// Whether nothing is wrong but that files are missing.
    fn missing(&self) -> bool {
        let mut problems = self.rows.iter().filter_map(|row| row.problem.as_deref());
        problems.all(|problem| problem == MISSING)
    }
}

/// The rows of a chip's boot.
fn rows(chip: &'static str, blocks: &Blocks, editions: &[Edition], search: &Search) -> Vec<Row> {
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
    mixed(&mut rows);
    rows
}

/// Marks the file that is of another release than those before it.
fn mixed(rows: &mut [Row]) {
    let sums = |row: &Row| Some((row.file.clone(), row.sha256.clone()?));
    let files: Vec<_> = rows.iter().filter_map(sums).collect();
    let files = files.iter().map(|(file, sum)| (&**file, &**sum));
    let Err(e) = belongs::one_release(files) else {
        return;
    };
    if let Error::Other { name, .. } = &e
        && let Some(row) = rows.iter_mut().find(|row| row.file == *name)
    {
        row.problem.get_or_insert(e.to_string());
    }
}

pub(super) fn version(number: u32) -> String {
    format!("{number:#010x}")
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<bool, Failure> {
    let search = args.from.search();
    let chips = chips(args.chip.as_deref())?;
    let editions = [Edition::Usual, Edition::Kicker, Edition::Ce];
    let editions = &editions[..if args.editions { 3 } else { 1 }];
    let all: Vec<Vec<Boot>> = chips
        .iter()
        .map(|chip| boots(chip, editions, &search))
        .collect();
    // Nobody has a card of every chip: of those that nobody asked for, files may be missing.
    let whole = all.iter().all(|boots| {
        boots.iter().all(Boot::missing)
            && (args.chip.is_none() || boots.iter().any(|boot| boot.problems() == 0))
    });
    let boots = || all.iter().flatten();
    if args.json {
        let rows: Vec<&Row> = boots().flat_map(|boot| &boot.rows).collect();
        json(out, "doorbell.fw-list/1", &rows)?;
        return Ok(whole);
    }
    for boot in boots() {
        writeln!(out, "{}", boot.heading)?;
        for row in &boot.rows {
            writeln!(out, "  {}", line(row))?;
        }
    }
    for vendor in [Vendor::Amd, Vendor::Nvidia] {
        let of = |boot: &&Boot| boot.vendor == vendor && boot.problems() > 0;
        if boots().any(|boot| of(&boot)) {
            let packages = vendor.packages();
            writeln!(
                out,
                "Install missing files from your distribution. {packages}."
            )?;
        }
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
        (Some(release), _) => format!("of {} {release}", row.package),
        (None, Some(release)) => {
            format!(
                "version as in {} {release}, but the contents differ: damaged?",
                row.package
            )
        }
        (None, None) => format!("unknown release; tested: {wanted}"),
    };
    let path = row.path.as_deref().unwrap_or_default();
    format!("{:<24} {found} {release}, {path}", row.file)
}
