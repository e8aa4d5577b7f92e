//! `extract`: writes each part of a file to a file of its own.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use super::Failure;
use crate::{Error, Vendor, amd, nv, search};

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
        let base = name.rsplit('/').next().unwrap_or(&name);
        let base = base.split(".bin").next().unwrap_or(base);
        let mut names = BTreeSet::new();
        for (id, part) in parts(&name, &bytes)? {
            let name = id.strip_suffix(".second").unwrap_or(&id);
            if args.part.as_ref().is_some_and(|wanted| wanted != name) {
                continue;
            }
            let mut name = format!("{base}.{id}.bin");
            // A file may hold a type twice.
            for n in 2.. {
                if names.insert(name.clone()) {
                    break;
                }
                name = format!("{base}.{id}.{n}.bin");
            }
            let path = args.to.join(name);
            let error = |source| Error::File {
                path: path.clone(),
                source,
            };
            let mut file = fs::File::create_new(&path).map_err(error)?;
            file.write_all(part).map_err(error)?;
            writeln!(out, "{}: {} bytes", path.display(), part.len())?;
            written += 1;
        }
    }
    if written == 0 {
        let what = args.part.as_deref().unwrap_or("part");
        return Err(Failure::Usage(format!(
            "no {what} in the files; the command `dump` lists their parts"
        )));
    }
    Ok(true)
}

/// The parts of a file by their names.
fn parts<'a>(name: &str, bytes: &'a [u8]) -> Result<Vec<(String, &'a [u8])>, Error> {
    Ok(match Vendor::of(name) {
        Vendor::Amd => {
            let image = amd::Image::parse(name, bytes)?;
            let named = |part: &amd::Part<'a>| {
                let second = if part.auxiliary { ".second" } else { "" };
                (format!("{}{second}", part.id.name()), part.bytes)
            };
            image.parts().iter().map(named).collect()
        }
        Vendor::Nvidia => {
            let parts = nv::Image::parse(name, bytes)?.parts();
            parts
                .into_iter()
                .map(|part| (part.name, part.bytes))
                .collect()
        }
    })
}
