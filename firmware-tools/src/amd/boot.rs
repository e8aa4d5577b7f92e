//! The files that a boot hands to the PSP, in order.
//!
//! The order is the PSP's own: what its bootloader takes, then through its ring the SMU before the
//! trusted memory is set up, then everything else, with RLC_G last. A processor's stack goes in for
//! its first pipe, the only one that runs without the scheduler; the RLC's lists of registers go in
//! where it has no memory of its own to keep them.

use drivers_spec::amd::fw_type::{GfxFwType, PspFwType};

use super::chip::{Blocks, Edition};
use super::signature::Keys;
use super::{Cp, Image, Kind, Part, PartId};
use crate::Error;
use crate::belongs;
use crate::manifest::sha256;
use crate::search::Search;

/// The table of the SMU that cards of MI300 want: "P2SX".
const P2S_TABLE_X: u32 = 0x5032_5358;

/// The files of a boot, as bytes.
#[derive(Clone, Debug)]
pub struct Firmware {
    files: Vec<(String, Vec<u8>)>,
}

/// What is loaded through the PSP's ring: under this type, these bytes.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// The type.
    pub id: GfxFwType,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// A boot's parsed files.
#[derive(Clone, Debug)]
pub struct Boot<'a> {
    os: Image<'a>,
    /// Before the trusted memory is set up.
    pub first: Vec<Load<'a>>,
    /// After that, in this order.
    pub rest: Vec<Load<'a>>,
    starts: Vec<(Cp, u64)>,
}

impl Firmware {
    /// Reads the files that the boot of these blocks needs.
    ///
    /// # Errors
    /// [`Error::Missing`] names the first missing file; [`Error::File`], [`Error::Packed`].
    pub fn find(blocks: &Blocks, edition: Edition, search: &Search) -> Result<Firmware, Error> {
        let read = |name: String| {
            let found = search.find(&name)?;
            Ok((name, found.bytes))
        };
        let files = blocks.boot_files(edition).into_iter().map(read);
        Ok(Firmware {
            files: files.collect::<Result<_, Error>>()?,
        })
    }

    /// The files, with the SHA-256 of what is in them.
    pub fn sums(&self) -> impl Iterator<Item = (&str, String)> {
        let files = self.files.iter();
        files.map(|(name, bytes)| (&**name, sha256(bytes)))
    }

    /// Takes files already read: names and bytes, in the order of [`Blocks::boot_files`].
    pub fn of(files: Vec<(String, Vec<u8>)>) -> Firmware {
        Firmware { files }
    }

    /// The parts to load.
    ///
    /// # Errors
    /// As [`Image::parse`]; [`Error::Missing`] if there is no file of the PSP's own; [`Error::Signature`]; [`Error::Other`] for
    /// files of another chip, or of several releases.
    pub fn boot(&self) -> Result<Boot<'_>, Error> {
        let images = self
            .files
            .iter()
            .map(|(name, bytes)| Image::parse(name, bytes));
        let images: Vec<Image<'_>> = images.collect::<Result<_, _>>()?;
        let os = images
            .iter()
            .find(|image| image.kind() == Kind::PspOs)
            .cloned();
        let os = os.ok_or_else(|| Error::Missing {
            name: "psp_*_sos.bin".into(),
            folders: "the files of this boot".into(),
        })?;
        let sums: Vec<_> = self.sums().collect();
        for ((name, sum), image) in sums.iter().zip(&images) {
            belongs::amd(name, image.block_version(), sum)?;
        }
        belongs::one_release(sums.iter().map(|(name, sum)| (*name, &**sum)))?;
        let keys = os.psp(PspFwType::PSP_KDB, false);
        let keys = keys.map(|part| Keys::of(part.bytes)).unwrap_or_default();
        for ((name, _), image) in self.files.iter().zip(&images) {
            let mut parts = image.parts().iter();
            if let Some(part) = parts.find(|part| keys.verify(part) == Some(false)) {
                let (name, part) = (name.clone(), part.id.name());
                return Err(Error::Signature { name, part });
            }
        }
        let mut boot = Boot {
            os,
            first: Vec::new(),
            rest: Vec::new(),
            starts: Vec::new(),
        };
        for image in &images {
            if let (Kind::Cp(cp), Some(start)) = (image.kind(), image.start()) {
                boot.starts.push((cp, start));
            }
            let into = match image.kind() {
                Kind::Smu => &mut boot.first,
                _ => &mut boot.rest,
            };
            into.extend(loads(image));
        }
        Ok(boot)
    }
}

impl<'a> Boot<'a> {
    /// What the PSP's bootloader, or its ring, takes of the PSP's own file. `auxiliary`: of the
    /// second set, if the file has one.
    pub fn psp(&self, id: PspFwType, auxiliary: bool) -> Option<&Part<'a>> {
        self.os.psp(id, auxiliary)
    }

    /// Where a processor starts, in bytes of its address space; none for those with a fixed start.
    pub fn start(&self, cp: Cp) -> Option<u64> {
        self.starts
            .iter()
            .find(|(of, _)| *of == cp)
            .map(|(_, start)| *start)
    }
}

/// What of a file goes through the ring.
fn loads<'a>(image: &Image<'a>) -> Vec<Load<'a>> {
    // The RLC's own memory, from headers 2.2 on, takes the place of the lists.
    let keeps_lists = image.ip(GfxFwType::RLC_IRAM).is_none();
    let mut loads = Vec::new();
    for part in image.parts() {
        let bytes = part.bytes;
        let load = |id| Load { id, bytes };
        match part.id {
            PartId::Ip(ids) => match ids[..] {
                [
                    GfxFwType::RLC_RESTORE_LIST_SRM_CNTL
                    | GfxFwType::RLC_RESTORE_LIST_GPM_MEM
                    | GfxFwType::RLC_RESTORE_LIST_SRM_MEM,
                ] if !keeps_lists => {}
                // The stacks of a processor's pipes.
                [
                    first @ (GfxFwType::RS64_PFP_P0_STACK
                    | GfxFwType::RS64_ME_P0_STACK
                    | GfxFwType::RS64_MEC_P0_STACK),
                    ..,
                ] => loads.push(load(first)),
                _ => loads.extend(ids.iter().copied().map(load)),
            },
            PartId::Table(P2S_TABLE_X) => loads.push(load(GfxFwType::P2S_TABLE)),
            PartId::Psp(_) | PartId::Ta(_) | PartId::Table(_) => {}
        }
    }
    loads
}
