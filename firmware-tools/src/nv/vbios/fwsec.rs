//! FWSEC: microcode in the VBIOS, signed by NVIDIA, that GSP's falcon runs. It sets up WPR2 with the region of FRTS, or
//! loads what runs before the operating system. A driver puts a command and a signature into it.

use std::ops::Range;

use drivers_spec::nv::vbios::{
    APPIF_ID_DMEMMAPPER, AppifEntryV1, AppifHeaderV1, DMEMMAPPER_CMD_FRTS, DMEMMAPPER_CMD_SB,
    DmemMapperV3, FRTS_MEDIA_FB, FalconUcodeDescV2, FalconUcodeDescV3, FrtsRegionDesc,
    READ_VBIOS_FLAGS, ReadVbiosDesc, SIGNATURE, Vdesc,
};
use zerocopy::IntoBytes;
use zerocopy::byteorder::little_endian::{U32, U64};

use crate::Error;
use crate::file::File;

/// Falcons load blocks of this size.
const BLOCK: u64 = 256;
/// The unit of the region of FRTS.
const PAGE: u64 = 4096;

/// What FWSEC is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Set up WPR2 with the region of FRTS, in bytes of the card's memory.
    Frts {
        /// Where it starts.
        offset: u64,
        /// How much it is.
        size: u64,
    },
    /// Load what runs before the operating system.
    Sb,
}

/// What describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Descriptor {
    /// For Turing: a [boot loader](crate::nv::bin::FalconLoader) loads it.
    V2(FalconUcodeDescV2),
    /// For Ampere and later: the boot ROM verifies it.
    V3(FalconUcodeDescV3),
}

/// FWSEC. Ranges are of [`ucode`](Self::ucode).
#[derive(Clone, Debug)]
pub struct Fwsec<'a> {
    name: String,
    /// Its descriptor.
    pub descriptor: Descriptor,
    /// Where the descriptor is, from the first image on.
    pub offset: u64,
    /// Code that is loaded without privilege; none with [`Descriptor::V3`].
    pub plain: Range<usize>,
    /// Code with privilege.
    pub secure: Range<usize>,
    /// Data.
    pub data: Range<usize>,
    /// Where the signature goes, if it has any.
    pub patch: Option<Range<usize>>,
    interface: u32,
    signatures: &'a [u8],
    ucode: &'a [u8],
    ucode_offset: u64,
}

impl<'a> Fwsec<'a> {
    /// Checks a descriptor and what it says against the bytes.
    pub(super) fn read(rom: File<'_, 'a>, offset: u64) -> Result<Fwsec<'a>, Error> {
        let header = Vdesc(rom.read::<U32>("FALCON_UCODE_DESC_HEADER", offset)?.get());
        let size = u64::from(header.size());
        let least = match (header.has_version(), header.version()) {
            (true, 2) => size_of::<FalconUcodeDescV2>(),
            (true, 3) => size_of::<FalconUcodeDescV3>(),
            (has, version) => {
                let found = if has {
                    version.to_string()
                } else {
                    "missing".into()
                };
                return Err(rom.field("the version of FWSEC's descriptor", found, "2 or 3"));
            }
        };
        if size < least as u64 {
            let expected = format!("at least {least}");
            return Err(rom.field("the size of FWSEC's descriptor", size, expected));
        }
        if header.encrypted() {
            return Err(rom.field("FWSEC", "encrypted", "plain microcode"));
        }
        if header.version() == 2 {
            Fwsec::v2(rom, offset, size)
        } else {
            Fwsec::v3(rom, offset, size)
        }
    }

    fn v2(rom: File<'_, 'a>, offset: u64, size: u64) -> Result<Fwsec<'a>, Error> {
        let d: &FalconUcodeDescV2 = rom.read("FALCON_UCODE_DESC_V2", offset)?;
        let code = u64::from(d.imem_load_size.get());
        let data = u64::from(d.dmem_offset.get());
        let end = code.max(data + u64::from(d.dmem_load_size.get()));
        let ucode = rom.slice("FWSEC", offset + size, end)?;
        let file = File {
            bytes: ucode,
            ..rom
        };
        let secure = u64::from(d.imem_sec_size.get());
        // The code with privilege is where its virtual addresses say, and the rest of what is loaded is plain.
        let start = u64::from(d.imem_sec_base.get()) + u64::from(d.imem_phys_base.get());
        let start = start.checked_sub(d.imem_virt_base.get().into());
        let start = start
            .filter(|start| start + secure <= code)
            .ok_or_else(|| {
                let found = format!("{secure:#x} bytes at {:#x}", d.imem_sec_base.get());
                let virt = d.imem_virt_base.get();
                file.field(
                    "IMEMSec",
                    found,
                    format!("inside {code:#x} bytes from {virt:#x} on"),
                )
            })?;
        Ok(Fwsec {
            name: rom.name.into(),
            descriptor: Descriptor::V2(*d),
            offset,
            plain: inside(file, "the plain code", 0, code - secure)?,
            secure: inside(file, "the secure code", start, secure)?,
            data: inside(file, "the data", data, d.dmem_load_size.get().into())?,
            patch: None,
            interface: d.interface_offset.get(),
            signatures: &[],
            ucode,
            ucode_offset: offset + size,
        })
    }

    fn v3(rom: File<'_, 'a>, offset: u64, size: u64) -> Result<Fwsec<'a>, Error> {
        let d: &FalconUcodeDescV3 = rom.read("FALCON_UCODE_DESC_V3", offset)?;
        let stored = u64::from(d.stored_size.get()).next_multiple_of(BLOCK);
        let ucode = rom.slice("FWSEC", offset + size, stored)?;
        let file = File {
            bytes: ucode,
            ..rom
        };
        let code = u64::from(d.imem_load_size.get());
        let data = inside(file, "the data", code, d.dmem_load_size.get().into())?;
        let own = size_of_val(d) as u64;
        let count = u64::from(d.signature_count);
        if count * SIGNATURE > size - own {
            let expected = format!(
                "at most {}, by the descriptor's size",
                (size - own) / SIGNATURE
            );
            return Err(file.field("SignatureCount", count, expected));
        }
        let versions = d.signature_versions.get().count_ones();
        if u64::from(versions) != count {
            let expected = format!("a bit for each of {count} signatures");
            let found = format!("{:#x}", d.signature_versions.get());
            return Err(file.field("SignatureVersions", found, expected));
        }
        let patch = if count == 0 {
            None
        } else {
            let at = u64::from(d.pkc_data_offset.get());
            if at + SIGNATURE > u64::from(d.dmem_load_size.get()) {
                let expected = format!(
                    "{SIGNATURE} bytes before the data's {} end",
                    d.dmem_load_size
                );
                return Err(file.field("PKCDataOffset", at, expected));
            }
            Some(inside(file, "the signature's place", code + at, SIGNATURE)?)
        };
        Ok(Fwsec {
            name: rom.name.into(),
            descriptor: Descriptor::V3(*d),
            offset,
            plain: 0..0,
            secure: inside(file, "the code", 0, code)?,
            data,
            patch,
            interface: d.interface_offset.get(),
            signatures: rom.slice("the signatures", offset + own, count * SIGNATURE)?,
            ucode,
            ucode_offset: offset + size,
        })
    }

    /// What is loaded, without command and signature.
    pub fn ucode(&self) -> &'a [u8] {
        self.ucode
    }

    /// Where that is, from the first image on.
    pub fn ucode_offset(&self) -> u64 {
        self.ucode_offset
    }

    /// The signatures, by rising version.
    pub fn signatures(&self) -> impl Iterator<Item = &'a [u8]> {
        self.signatures.chunks_exact(SIGNATURE as usize)
    }

    /// What is loaded to carry a command out, on a chip whose fuse has this version: the number of the highest bit that
    /// is blown, from 1; 0 if none is.
    ///
    /// # Errors
    /// [`Error::Field`] if the command has no place, or no signature is for this chip; [`Error::Truncated`].
    pub fn prepared(&self, command: Command, fuse: u32) -> Result<Vec<u8>, Error> {
        let mut ucode = self.ucode.to_vec();
        let (mapper, buffer) = self.mapper()?;
        let bytes = self.command(command)?;
        let number = match command {
            Command::Frts { .. } => DMEMMAPPER_CMD_FRTS,
            Command::Sb => DMEMMAPPER_CMD_SB,
        };
        let at = mapper + std::mem::offset_of!(DmemMapperV3, init_cmd) as u64;
        self.put(&mut ucode, "init_cmd", at, &number.to_le_bytes())?;
        self.put(&mut ucode, "the command", buffer, &bytes)?;
        if let Some(patch) = &self.patch {
            let signature = self.signature(fuse)?;
            let place = ucode.iter_mut().skip(patch.start);
            for (to, from) in place.zip(signature) {
                *to = *from;
            }
        }
        Ok(ucode)
    }

    /// The signature for a fuse's version.
    fn signature(&self, fuse: u32) -> Result<&'a [u8], Error> {
        let Descriptor::V3(d) = &self.descriptor else {
            return Ok(&[]);
        };
        let versions = u32::from(d.signature_versions.get());
        let bit = 1u32.checked_shl(fuse).filter(|bit| versions & bit != 0);
        let below = bit.map(|bit| (versions & (bit - 1)).count_ones() as usize);
        let found = below.and_then(|index| self.signatures().nth(index));
        found.ok_or_else(|| {
            let expected = format!("one that SignatureVersions {versions:#x} has");
            self.file(self.ucode)
                .field("the fuse's version", fuse, expected)
        })
    }

    fn file<'n>(&'n self, bytes: &'a [u8]) -> File<'n, 'a> {
        File {
            name: &self.name,
            bytes,
        }
    }

    /// Where in the data the DMEM mapper is, and the buffer for commands.
    fn mapper(&self) -> Result<(u64, u64), Error> {
        let data = self.file(self.ucode.get(self.data.clone()).unwrap_or_default());
        let at = u64::from(self.interface);
        let header: &AppifHeaderV1 = data.read("the interface's header", at)?;
        if header.version != 1 {
            return Err(data.field("the interface's version", header.version, "1"));
        }
        if usize::from(header.entry_size) < size_of::<AppifEntryV1>() {
            let found = header.entry_size;
            return Err(data.field("the size of the interface's entries", found, "at least 8"));
        }
        for i in 0..u64::from(header.entry_count) {
            let at = at + u64::from(header.header_size) + i * u64::from(header.entry_size);
            let entry: &AppifEntryV1 = data.read("the interface's entry", at)?;
            if entry.id == APPIF_ID_DMEMMAPPER {
                let at = u64::from(entry.dmem_offset.get());
                let mapper: &DmemMapperV3 = data.read("the DMEM mapper", at)?;
                return Ok((at, mapper.cmd_in_buffer_offset.get().into()));
            }
        }
        Err(data.field(
            "the DMEM mapper",
            "missing",
            "an entry of the interface with id 4",
        ))
    }

    /// The bytes of a command.
    fn command(&self, command: Command) -> Result<Vec<u8>, Error> {
        let read = ReadVbiosDesc {
            version: U32::new(1),
            size: U32::new(size_of::<ReadVbiosDesc>() as u32),
            gfw_image_offset: U64::ZERO,
            gfw_image_size: U32::ZERO,
            flags: U32::new(READ_VBIOS_FLAGS),
        };
        let mut bytes = read.as_bytes().to_vec();
        if let Command::Frts { offset, size } = command {
            let pages = |what: &str, value: u64| {
                let pages = u32::try_from(value / PAGE).ok();
                let pages = pages.filter(|pages| value.is_multiple_of(PAGE) && *pages != 0);
                pages.ok_or_else(|| {
                    let expected = "a multiple of 4096, not 0, below 16 TiB";
                    self.file(self.ucode)
                        .field(what, format!("{value:#x}"), expected)
                })
            };
            let region = FrtsRegionDesc {
                version: U32::new(1),
                size: U32::new(size_of::<FrtsRegionDesc>() as u32),
                frts_region_offset_4k: pages("the offset of FRTS", offset)?.into(),
                frts_region_size: pages("the size of FRTS", size)?.into(),
                frts_region_media_type: U32::new(FRTS_MEDIA_FB),
            };
            bytes.extend(region.as_bytes());
        }
        Ok(bytes)
    }

    /// Puts bytes into the data.
    fn put(&self, ucode: &mut [u8], what: &str, at: u64, bytes: &[u8]) -> Result<(), Error> {
        let data = self.file(self.ucode.get(self.data.clone()).unwrap_or_default());
        data.slice(what, at, bytes.len() as u64)?;
        let place = ucode.iter_mut().skip(self.data.start + at as usize);
        for (to, from) in place.zip(bytes) {
            *to = *from;
        }
        Ok(())
    }
}

/// A range of the microcode, which is there.
fn inside(file: File<'_, '_>, what: &str, offset: u64, size: u64) -> Result<Range<usize>, Error> {
    let bytes = file.slice(what, offset, size)?;
    let start = offset as usize;
    Ok(start..start + bytes.len())
}
