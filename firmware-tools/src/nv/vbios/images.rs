//! The chain of PCI images in a ROM.

use drivers_spec::nv::vbios::{
    BLOCK, CODE_TYPE_NBSI, CODE_TYPE_PC, IFR_SIGNATURE, LAST_IMAGE, NPDE, NPDE_CHECKSUM_DISABLED,
    NPDE_REVISIONS, NvPciDataExt, PCI_DATA_SIGNATURES, PCI_DATA_STRUCT_PTR, PciDataStruct,
    ROM_DIRECTORY, ROM_SIGNATURES,
};
use zerocopy::byteorder::little_endian::{U16, U32};

use crate::Error;
use crate::file::File;

/// A PCI image.
#[derive(Clone, Debug)]
pub struct PciImage<'a> {
    /// Where it starts, from the first image on.
    pub offset: u64,
    /// What it is for: `CODE_TYPE_PC` and so on of `drivers_spec::nv::vbios`.
    pub code_type: u8,
    /// Vendor and device, as in the card's configuration space.
    pub ids: (u16, u16),
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Whether the sum of its bytes is a multiple of 256, for those that should have such a sum.
    pub sum: Option<bool>,
}

impl PciImage<'_> {
    /// Its name in tables.
    pub fn name(&self) -> String {
        match self.code_type {
            0x00 => "pc".into(),
            0x03 => "efi".into(),
            0x70 => "nbsi".into(),
            0xe0 => "extended".into(),
            other => format!("type_{other:#04x}"),
        }
    }
}

/// Where the first image starts: behind what the card's own hardware reads, if that is there.
pub(super) fn start(file: File<'_, '_>) -> Result<u64, Error> {
    let word =
        |what: &str, at: u64| -> Result<u32, Error> { Ok(file.read::<U32>(what, at)?.get()) };
    let fixed = word("the first word", 0)?;
    if ROM_SIGNATURES.contains(&(fixed as u16)) {
        return Ok(0);
    }
    if fixed != IFR_SIGNATURE {
        let expected = "55 aa, 56 4e or 77 bb, or the 4e 56 47 49 of an IFR. Read all of it from the card (BAR0 + \
                        0x300000)";
        let [a, b, c, d] = fixed.to_le_bytes();
        let found = format!("{a:02x} {b:02x} {c:02x} {d:02x}");
        return Err(file.field("the first bytes", found, expected));
    }
    let second = word("IFR_FMT_FIXED1", 4)?;
    let at = match (second >> 8) & 0xff {
        1 | 2 => u64::from((second >> 16) & 0x7fff) + 4,
        3 => {
            let total = word("IFR_FMT_FIXED2", 8)? & 0xf_ffff;
            let directory = u64::from(word("the flash status", total.into())?) + 4096;
            let found = word("the ROM directory", directory)?;
            if found != ROM_DIRECTORY {
                let expected = format!("{ROM_DIRECTORY:#x}, \"RFRD\"");
                return Err(file.field("the ROM directory", format!("{found:#x}"), expected));
            }
            directory + 8
        }
        version => return Err(file.field("the IFR's version", version, "1, 2 or 3")),
    };
    let start = word("the offset of the first image", at)?;
    if start % 4 != 0 {
        let found = format!("{start:#x}");
        return Err(file.field("the offset of the first image", found, "a multiple of 4"));
    }
    Ok(start.into())
}

/// The images from the first on. `shift` is where that is in the ROM, by which structures are aligned.
pub(super) fn chain<'a>(file: File<'_, 'a>, shift: u64) -> Result<Vec<PciImage<'a>>, Error> {
    let mut images = Vec::new();
    let mut offset = 0;
    loop {
        let (image, last) = image(file, shift, offset)?;
        // A block at least, so that this comes to an end.
        offset += image.bytes.len() as u64;
        images.push(image);
        if last {
            return Ok(images);
        }
    }
}

/// The image at an offset, and whether it is the last.
fn image<'a>(file: File<'_, 'a>, shift: u64, offset: u64) -> Result<(PciImage<'a>, bool), Error> {
    let signature = file.read::<U16>("the image's signature", offset)?.get();
    if !ROM_SIGNATURES.contains(&signature) {
        let field = format!("the signature of the image at {offset:#x}");
        return Err(file.field(
            field,
            format!("{signature:#06x}"),
            "0xaa55, 0x4e56 or 0xbb77",
        ));
    }
    let to = file.read::<U16>(
        "the pointer to PCI_DATA_STRUCT",
        offset + PCI_DATA_STRUCT_PTR,
    )?;
    let at = offset + u64::from(to.get());
    let data: &PciDataStruct = file.read("PCI_DATA_STRUCT", at)?;
    if !PCI_DATA_SIGNATURES.contains(&data.sig) {
        let field = format!("the signature of PCI_DATA_STRUCT at {at:#x}");
        let found = format!("{:02x?}", data.sig);
        return Err(file.field(field, found, "\"PCIR\", \"NPDS\" or \"RGIS\""));
    }
    let mut blocks = data.image_len.get();
    let mut last = data.last_image & LAST_IMAGE != 0;
    let mut summed = data.code_type == CODE_TYPE_PC;
    let behind = shift + at + u64::from(data.pci_data_struct_len.get());
    let next = behind.next_multiple_of(16) - shift;
    // It is optional: what lies there may be anything, or the end of the ROM.
    if let Ok(ext) = file.read::<NvPciDataExt>("NPDE", next)
        && ext.signature == NPDE
        && NPDE_REVISIONS.contains(&ext.nv_pci_data_ext_rev.get())
    {
        let flag = |at: u64| {
            let there = at < u64::from(ext.nv_pci_data_ext_len.get());
            file.slice("NPDE", next + at, 1)
                .ok()
                .filter(|_| there)?
                .first()
                .copied()
        };
        let public = std::mem::replace(&mut blocks, ext.subimage_len.get());
        match flag(0x0a) {
            Some(flags) => last = flags & LAST_IMAGE != 0,
            None if blocks < public => last = false,
            None => {}
        }
        summed &= flag(0x0b).is_none_or(|flags| flags & NPDE_CHECKSUM_DISABLED == 0);
    }
    // Linux' drivers read nothing behind one of these.
    last |= data.code_type == CODE_TYPE_NBSI;
    if blocks == 0 {
        let field = format!("the size of the image at {offset:#x}");
        return Err(file.field(field, 0, "at least one block of 512 bytes"));
    }
    let bytes = file.slice("the image", offset, u64::from(blocks) * BLOCK)?;
    let sum = bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    let image = PciImage {
        offset,
        code_type: data.code_type,
        ids: (data.vendor_id.get(), data.device_id.get()),
        bytes,
        sum: summed.then_some(sum == 0),
    };
    Ok((image, last))
}
