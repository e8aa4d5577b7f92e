//! Code that a falcon runs with high privilege: the booter, which SEC2 runs to start or stop GSP. Its signature is
//! put into it by the driver, by what the chip's fuses say.
//!
//! Source: Linux, drivers/gpu/drm/nouveau/nvkm: subdev/gsp/{tu102,ga102}.c, falcon/{fw,ga100}.c.

use std::ops::Range;

use drivers_spec::nv::fw::{HsApp, HsMeta, NvfwHsHeaderV2, NvfwHsLoadHeaderV2};
use zerocopy::byteorder::little_endian::U32;

use super::Part;
use super::bin::Bin;
use crate::Error;
use crate::file::File;

/// AES (Turing), RSA of 3072 bits (Ampere and later).
const SIGNATURES: [u32; 2] = [16, 384];

/// A booter. Ranges are of [`image`](Self::image).
#[derive(Clone, Debug)]
pub struct Booter<'a> {
    name: String,
    /// The version of the first signature, as fuses count them.
    pub fuse_version: u32,
    /// The falcons that may run it.
    pub engine_id: u32,
    /// Which fuse it is held against.
    pub ucode_id: u32,
    /// Code that is loaded first, without privilege.
    pub code: Range<usize>,
    /// Data.
    pub data: Range<usize>,
    /// Code with privilege.
    pub apps: Vec<Range<usize>>,
    /// Where the signature goes.
    pub patch: usize,
    signatures: Vec<Part<'a>>,
    image: Part<'a>,
}

impl<'a> Booter<'a> {
    /// Checks the headers against the bytes.
    ///
    /// # Errors
    /// [`Error::Truncated`] or [`Error::Field`]
    pub fn parse(name: &str, bytes: &'a [u8]) -> Result<Booter<'a>, Error> {
        let bin = Bin::parse(name, bytes)?;
        let file = bin.file;
        let h: &NvfwHsHeaderV2 = file.read("nvfw_hs_header_v2", bin.header)?;
        let word = |what: &str, at: U32| -> Result<u32, Error> {
            Ok(file.read::<U32>(what, at.get().into())?.get())
        };
        let patch = word("patch_loc", h.patch_loc)?;
        let add = word("patch_sig", h.patch_sig)?;
        let count = word("num_sig", h.num_sig)?;
        if h.meta_data_size.get() != size_of::<HsMeta>() as u32 {
            let expected = size_of::<HsMeta>().to_string();
            return Err(file.field("meta_data_size", h.meta_data_size, expected));
        }
        let meta: &HsMeta = file.read("the meta data", h.meta_data_offset.get().into())?;
        let first = u64::from(h.sig_prod_offset.get()) + u64::from(add);
        let (size, signatures) = signatures(file, first, h.sig_prod_size.get(), count)?;
        let (load, apps) = load_header(&bin, h)?;
        let code = bin.range(
            "the code",
            load.os_code_offset.get(),
            load.os_code_size.get(),
        )?;
        let data = bin.range(
            "the data",
            load.os_data_offset.get(),
            load.os_data_size.get(),
        )?;
        let patched = bin.range("the signature's place", patch, size)?;
        if patched.start < data.start || patched.end > data.end {
            let expected = format!("in the data, {:#x} to {:#x}", data.start, data.end);
            let found = format!("{:#x} to {:#x}", patched.start, patched.end);
            return Err(file.field("the signature's place", found, expected));
        }
        Ok(Booter {
            name: name.into(),
            fuse_version: meta.fuse_ver.get(),
            engine_id: meta.engine_id.get(),
            ucode_id: meta.ucode_id.get(),
            code,
            data,
            apps,
            patch: patched.start,
            signatures,
            image: bin.whole(),
        })
    }

    /// What is loaded, without a signature.
    pub fn image(&self) -> &'a [u8] {
        self.image.bytes
    }

    /// Where in DMEM the signature is, for the falcon's boot ROM (`PARAADDR`).
    pub fn signature_in_data(&self) -> usize {
        self.patch - self.data.start
    }

    /// The signatures.
    pub fn signatures(&self) -> impl Iterator<Item = &'a [u8]> {
        self.signatures.iter().map(|part| part.bytes)
    }

    /// What is loaded, with the signature of a chip whose fuse has this version: the number of the highest bit that is
    /// blown, from 1; 0 if none is.
    ///
    /// # Errors
    /// [`Error::Field`] if there is no signature for it: the chip wants newer firmware.
    pub fn signed(&self, fuse: u32) -> Result<Vec<u8>, Error> {
        let index = match fuse {
            0 => self.signatures.len().checked_sub(1),
            fuse => self
                .fuse_version
                .checked_sub(fuse)
                .map(|index| index as usize),
        };
        let signature = index.and_then(|index| self.signatures.get(index));
        let signature = signature.ok_or_else(|| Error::Field {
            name: self.name.clone(),
            field: "the fuse's version".into(),
            found: fuse.to_string(),
            expected: format!(
                "a signed version ({} signatures, from {} down)",
                self.signatures.len(),
                self.fuse_version
            ),
        })?;
        let mut image = self.image.bytes.to_vec();
        let place = image.iter_mut().skip(self.patch);
        for (to, from) in place.zip(signature.bytes) {
            *to = *from;
        }
        Ok(image)
    }

    pub(super) fn parts(&self) -> Vec<Part<'a>> {
        std::iter::once(&self.image)
            .chain(&self.signatures)
            .cloned()
            .collect()
    }

    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let range = |range: &Range<usize>| format!("{:#x} to {:#x}", range.start, range.end);
        let apps: Vec<String> = self.apps.iter().map(range).collect();
        vec![
            ("fuse version", self.fuse_version.to_string()),
            ("engine", format!("{:#x}", self.engine_id)),
            ("ucode", self.ucode_id.to_string()),
            ("code", range(&self.code)),
            ("data", range(&self.data)),
            ("apps", apps.join(", ")),
            ("signature at", format!("{:#x}", self.patch)),
        ]
    }
}

/// The size of a signature, and all of them.
fn signatures<'a>(
    file: File<'_, 'a>,
    first: u64,
    size: u32,
    count: u32,
) -> Result<(u32, Vec<Part<'a>>), Error> {
    let each = size.checked_div(count).unwrap_or(0);
    if !SIGNATURES.contains(&each) || each * count != size {
        let found = format!("{size} bytes for {count}");
        return Err(file.field("the signatures", found, "16 or 384 bytes for each"));
    }
    let all = file.slice("the signatures", first, size.into())?;
    let parts = all
        .chunks_exact(each as usize)
        .enumerate()
        .map(|(i, bytes)| {
            let offset = first + i as u64 * u64::from(each);
            Part::new(&format!("signature_{i}"), offset, bytes)
        });
    Ok((each, parts.collect()))
}

/// The load header and the ranges of its apps.
fn load_header<'a>(
    bin: &Bin<'_, 'a>,
    h: &NvfwHsHeaderV2,
) -> Result<(&'a NvfwHsLoadHeaderV2, Vec<Range<usize>>), Error> {
    let at = u64::from(h.header_offset.get());
    let load: &NvfwHsLoadHeaderV2 = bin.file.read("nvfw_hs_load_header_v2", at)?;
    let own = size_of_val(load) as u64;
    let each = size_of::<HsApp>() as u64;
    let count = u64::from(load.num_apps.get());
    let size = u64::from(h.header_size.get());
    if count == 0 || own + count * each > size {
        let expected = format!(
            "1 to {}, by header_size {size}",
            size.saturating_sub(own) / each
        );
        return Err(bin.file.field("num_apps", count, expected));
    }
    bin.file.slice("nvfw_hs_load_header_v2", at, size)?;
    let mut apps = Vec::new();
    for i in 0..count {
        let app: &HsApp = bin.file.read("app", at + own + i * each)?;
        apps.push(bin.range("an app", app.offset.get(), app.size.get())?);
    }
    Ok((load, apps))
}
