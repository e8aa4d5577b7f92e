//! [`Firmware`]: the files that a card's GSP is started from.

use drivers_spec::nv::abi;
use firmware_tools::nv::bin::Loader;
use firmware_tools::nv::booter::Booter;
use firmware_tools::nv::chip::Chip;
use firmware_tools::nv::fmc::Fmc;
use firmware_tools::nv::gsp::Gsp;
use firmware_tools::nv::{Branch, Version, known};
use firmware_tools::search::{Found, Search};

use super::error::Cause;

/// The branches whose structs are described.
const KNOWN: &str = "535 (from 535.86), 550 (from 550.54), 570 (from 570.86)";

/// The files, in the order of [`Chip::boot_files`].
pub(super) struct Firmware {
    chip: Chip,
    files: Vec<Found>,
}

/// What is in them.
pub(super) struct Parts<'a> {
    /// GSP's firmware, and its version's branch.
    pub gsp: Gsp<'a>,
    /// Whose structs it takes.
    pub branch: abi::Branch,
    /// Its signature for this chip.
    pub signature: &'a [u8],
    /// Its boot loader.
    pub loader: Loader<'a>,
    /// What starts it.
    pub by: By<'a>,
}

/// What starts GSP.
pub(super) enum By<'a> {
    /// What SEC2 loads it by, and takes WPR2 down by.
    Booter(Booter<'a>, Booter<'a>),
    /// What the FSP verifies.
    Fsp(Fmc<'a>),
}

/// Whose structs firmware takes.
///
/// # Errors
/// [`Cause::Version`].
fn branch(version: Version) -> Result<abi::Branch, Cause> {
    // Releases before the first that is described had other structs.
    let found = match (version.branch(), version.minor) {
        (Some(Branch::R535), 86..) => Some(abi::Branch::R535),
        (Some(Branch::R550), 54..) => Some(abi::Branch::R550),
        (Some(Branch::R570), 86..) => Some(abi::Branch::R570),
        _ => None,
    };
    found.ok_or(Cause::Version {
        version,
        known: KNOWN,
    })
}

impl Firmware {
    /// Reads the files of the newest version that are there.
    ///
    /// # Errors
    /// [`Cause::Files`] with the first that is missing of the newest version, or is one of another chip or version.
    pub(super) fn find(chip: &Chip, search: &Search) -> Result<Firmware, Cause> {
        let mut first = None;
        for version in chip.versions().iter().rev() {
            let names = chip.boot_files(*version);
            let files = names.iter().map(|name| search.find(name));
            match files.collect::<Result<Vec<_>, _>>() {
                Ok(files) => {
                    // The first is long, and its parser compares the version in it with its name.
                    for (name, file) in names.iter().zip(&files).skip(1) {
                        known::check(name, &file.bytes)?;
                    }
                    return Ok(Firmware { chip: *chip, files });
                }
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.map_or_else(|| absent(chip, "files"), Cause::from))
    }

    /// What is in them.
    ///
    /// # Errors
    /// [`Cause::Files`], [`Cause::Version`], [`Cause::Contents`].
    pub(super) fn parts(&self) -> Result<Parts<'_>, Cause> {
        let [gsp, loader, rest @ ..] = &self.files[..] else {
            return Err(absent(&self.chip, "files"));
        };
        let name = |file: &Found| file.path.display().to_string();
        let image = Gsp::parse(&name(gsp), &gsp.bytes)?;
        let signature = image.signature(self.chip.signature);
        let signature = signature.ok_or_else(|| Cause::Contents {
            file: name(gsp),
            what: format!(
                "signed for {}, expected {}",
                image.families().collect::<Vec<_>>().join(", "),
                self.chip.signature
            ),
        })?;
        Ok(Parts {
            branch: branch(image.version)?,
            signature,
            gsp: image,
            loader: Loader::parse(&name(loader), &loader.bytes)?,
            by: match rest {
                [load, unload] => By::Booter(
                    Booter::parse(&name(load), &load.bytes)?,
                    Booter::parse(&name(unload), &unload.bytes)?,
                ),
                [fmc] => By::Fsp(Fmc::parse(&name(fmc), &fmc.bytes)?),
                _ => return Err(absent(&self.chip, "files that start GSP")),
            },
        })
    }
}

fn absent(chip: &Chip, what: &str) -> Cause {
    Cause::Contents {
        file: format!("firmware of {}", chip.name),
        what: format!("there are no {what}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use drivers_spec::nv::mmio::falcon::BLOCK;
    use firmware_tools::nv::chip::CHIPS;

    use super::super::falcon::Microcode;
    use super::super::layout::{Given, layout};
    use super::*;

    #[test]
    fn structs_follow_the_version() {
        let of = |text| branch(Version::parse(text).unwrap());
        assert_eq!(of("535.113.01").unwrap(), abi::Branch::R535);
        assert_eq!(of("550.163.01").unwrap(), abi::Branch::R550);
        assert_eq!(of("570.144").unwrap(), abi::Branch::R570);
        for text in ["535.54.03", "560.35.03", "580.105.08", "525.60.11"] {
            let error = of(text).unwrap_err().to_string();
            assert!(
                error.contains(text) && error.contains("570 (from"),
                "{error}"
            );
        }
    }

    /// The files that distributions have, for every chip that is started so, where they were fetched
    /// (`scripts/fetch firmware`).
    #[test]
    fn published_files_fit_the_driver() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = root.join("../../target/firmware/nvidia-graphics");
        if !folder.join("nvidia/ga102/gsp").is_dir() {
            eprintln!("not compared: no files in {}", folder.display());
            return;
        }
        let search = Search::only([folder]);
        for chip in &CHIPS {
            let firmware = Firmware::find(chip, &search).unwrap();
            let parts = firmware.parts().unwrap();
            assert_eq!(parts.branch, abi::Branch::R570, "{}", chip.name);
            assert_eq!(parts.signature.len(), 4096);
            let (load, unload) = match &parts.by {
                By::Booter(load, unload) => (load, unload),
                By::Fsp(fmc) => {
                    // With all else that is in one piece.
                    assert!(fmc.image().len() < 1 << 20, "{}", chip.name);
                    continue;
                }
            };
            for (name, one) in [("load", load), ("unload", unload)] {
                // Whole blocks from where they are for DMA, and a signature in the data.
                let code = Microcode::booter(name, one, 1).unwrap();
                let block = BLOCK as usize;
                assert!(code.code.start.is_multiple_of(block), "{}", chip.name);
                assert!(code.code.len().is_multiple_of(block), "{}", chip.name);
                assert!(code.data.start.is_multiple_of(block), "{}", chip.name);
                assert!(code.data.len().is_multiple_of(block), "{}", chip.name);
                assert_eq!((code.engines, code.ucode, code.start), (1, 3, 0x100));
                assert!((code.signature as usize) + 384 <= code.data.len());
            }
            let meta = layout(&Given {
                branch: parts.branch,
                vram: 8 << 30,
                workspace: None,
                image: parts.gsp.image().len() as u64,
                loader: parts.loader.image().len() as u64,
            });
            let meta = meta.unwrap();
            assert_eq!(meta.gsp_fw_heap_size >> 20, 127, "{}", chip.name);
        }
    }
}
