//! `extract`: writes each part of a file to a file of its own.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use super::Failure;
use crate::amd::Image;
use crate::{Error, search};

/// Extract the parts of files.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Files, compressed or not
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Output folder; existing files are not overwritten
    #[arg(long)]
    to: PathBuf,
    /// Only parts of this name, as printed by `dump`
    #[arg(long)]
    part: Option<String>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<bool, Failure> {
    let mut written = 0;
    fs::create_dir_all(&args.to).map_err(|source| Error::File {
        path: args.to.clone(),
        source,
    })?;
    for path in &args.files {
        let bytes = search::read(path)?;
        let name = path.display().to_string();
        let image = Image::parse(&name, &bytes)?;
        let base = name.rsplit('/').next().unwrap_or(&name);
        let base = base.split(".bin").next().unwrap_or(base);
        let mut names = BTreeSet::new();
        for part in image.parts() {
            let id = part.id.name();
            if args.part.as_ref().is_some_and(|wanted| *wanted != id) {
                continue;
            }
            let second = if part.auxiliary { ".second" } else { "" };
            let mut name = format!("{base}.{id}{second}.bin");
            // A file may hold a type twice.
            for n in 2.. {
                if names.insert(name.clone()) {
                    break;
                }
                name = format!("{base}.{id}{second}.{n}.bin");
            }
            let path = args.to.join(name);
            let error = |source| Error::File {
                path: path.clone(),
                source,
            };
            let mut file = fs::File::create_new(&path).map_err(error)?;
            file.write_all(part.bytes).map_err(error)?;
            writeln!(out, "{}: {} bytes", path.display(), part.bytes.len())?;
            written += 1;
        }
    }
    if written == 0 {
        let what = args.part.as_deref().unwrap_or("part");
        return Err(Failure::Usage(format!(
            "no {what} in the files; `fwtool dump` lists their parts"
        )));
    }
    Ok(true)
}
