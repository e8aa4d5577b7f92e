//! Files with NVIDIA's common header, and those of them that need no more than one header behind it.

use std::ops::Range;

use drivers_spec::nv::fw::{
    BIN_MAGIC, BIN_MAGIC_MAXWELL, NvfwBinHdr, NvfwBlDesc, RmRiscvUcodeDesc,
};

use super::Part;
use crate::Error;
use crate::file::File;

/// A file whose common header agrees with its length.
#[derive(Clone, Copy)]
pub(super) struct Bin<'n, 'a> {
    pub file: File<'n, 'a>,
    /// Where the header of the kind is, which ends before the code.
    pub header: u64,
    /// Where the code is.
    pub offset: u64,
    /// The code.
    pub code: &'a [u8],
}

impl<'n, 'a> Bin<'n, 'a> {
    pub fn parse(name: &'n str, bytes: &'a [u8]) -> Result<Bin<'n, 'a>, Error> {
        Bin::with(&[BIN_MAGIC], name, bytes)
    }

    /// A file that may be for chips without GSP.
    pub fn of_any_chip(name: &'n str, bytes: &'a [u8]) -> Result<Bin<'n, 'a>, Error> {
        Bin::with(&[BIN_MAGIC, BIN_MAGIC_MAXWELL], name, bytes)
    }

    fn with(magics: &[u32], name: &'n str, bytes: &'a [u8]) -> Result<Bin<'n, 'a>, Error> {
        let file = File { name, bytes };
        let h: &NvfwBinHdr = file.read("nvfw_bin_hdr", 0)?;
        if !magics.contains(&h.bin_magic.get()) {
            let found = format!("{:#x}", h.bin_magic);
            return Err(file.field("bin_magic", found, format!("{BIN_MAGIC:#x}")));
        }
        if h.bin_ver.get() != 1 {
            return Err(file.field("bin_ver", h.bin_ver, "1"));
        }
        let header = u64::from(h.header_offset.get());
        let own = size_of_val(h) as u64;
        if header < own {
            return Err(file.field("header_offset", header, format!("at least {own}")));
        }
        let offset = u64::from(h.data_offset.get());
        if offset < header {
            let expected = format!("at least header_offset, {header}");
            return Err(file.field("data_offset", offset, expected));
        }
        let code = file.slice("the code", offset, h.data_size.get().into())?;
        if code.is_empty() {
            return Err(file.field("data_size", 0, "some code"));
        }
        Ok(Bin {
            file,
            header,
            offset,
            code,
        })
    }

    /// A range of the code.
    pub fn range(&self, what: &str, offset: u32, size: u32) -> Result<Range<usize>, Error> {
        let end = u64::from(offset) + u64::from(size);
        if end > self.code.len() as u64 {
            let expected = format!("at most the code's {}", self.code.len());
            return Err(self.file.field(format!("the end of {what}"), end, expected));
        }
        Ok(offset as usize..end as usize)
    }

    /// A range of the code as a part.
    fn part(&self, name: &str, range: &Range<usize>) -> Option<Part<'a>> {
        let bytes = self
            .code
            .get(range.clone())
            .filter(|bytes| !bytes.is_empty())?;
        Some(Part::new(name, self.offset + range.start as u64, bytes))
    }

    /// All of the code as a part.
    pub fn whole(&self) -> Part<'a> {
        Part::new("code", self.offset, self.code)
    }
}

/// The boot loader of GSP's RISC-V processor, which verifies GSP's firmware. Ranges are of [`image`](Self::image).
#[derive(Clone, Debug)]
pub struct Loader<'a> {
    /// The version of its descriptor: 4 for Turing and GA100, 5 for later chips.
    pub descriptor: u32,
    /// The version of its code.
    pub app_version: u32,
    /// The manifest, which starts with what the boot ROM verifies.
    pub manifest: Range<usize>,
    /// Data of the monitor.
    pub data: Range<usize>,
    /// Code of the monitor.
    pub code: Range<usize>,
    /// All of it.
    image: &'a [u8],
    parts: Vec<Part<'a>>,
}

impl<'a> Loader<'a> {
    /// Checks the descriptor against the bytes.
    ///
    /// # Errors
    /// [`Error::Truncated`] or [`Error::Field`]
    pub fn parse(name: &str, bytes: &'a [u8]) -> Result<Loader<'a>, Error> {
        let bin = Bin::parse(name, bytes)?;
        let room = bin.offset - bin.header;
        if room < size_of::<RmRiscvUcodeDesc>() as u64 {
            let expected = format!("at least {} before the code", size_of::<RmRiscvUcodeDesc>());
            return Err(bin
                .file
                .field("the size of RM_RISCV_UCODE_DESC", room, expected));
        }
        let d: &RmRiscvUcodeDesc = bin.file.read("RM_RISCV_UCODE_DESC", bin.header)?;
        let descriptor = d.version.get();
        if !matches!(descriptor, 4 | 5) {
            return Err(bin
                .file
                .field("RM_RISCV_UCODE_DESC.version", descriptor, "4 or 5"));
        }
        let manifest = bin.range(
            "the manifest",
            d.manifest_offset.get(),
            d.manifest_size.get(),
        )?;
        let data = bin.range(
            "the monitor's data",
            d.monitor_data_offset.get(),
            d.monitor_data_size.get(),
        )?;
        let code = bin.range(
            "the monitor's code",
            d.monitor_code_offset.get(),
            d.monitor_code_size.get(),
        )?;
        let first = bin.range(
            "the boot loader",
            d.bootloader_offset.get(),
            d.bootloader_size.get(),
        )?;
        let argument = bin.range(
            "the boot loader's argument",
            d.bootloader_param_offset.get(),
            d.bootloader_param_size.get(),
        )?;
        let named = [
            ("manifest", &manifest),
            ("monitor_data", &data),
            ("monitor_code", &code),
            ("bootloader", &first),
            ("bootloader_param", &argument),
        ];
        let named = named
            .iter()
            .filter_map(|(name, range)| bin.part(name, range));
        let parts = std::iter::once(bin.whole()).chain(named).collect();
        Ok(Loader {
            descriptor,
            app_version: d.app_version.get(),
            manifest,
            data,
            code,
            image: bin.code,
            parts,
        })
    }

    /// What is put into memory.
    pub fn image(&self) -> &'a [u8] {
        self.image
    }

    pub(super) fn parts(&self) -> Vec<Part<'a>> {
        self.parts.clone()
    }

    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        vec![
            ("descriptor", self.descriptor.to_string()),
            ("application", format!("{:#x}", self.app_version)),
        ]
    }
}

/// What falcons of Turing and GA100 start with, to load what FWSEC is.
#[derive(Clone, Debug)]
pub struct FalconLoader<'a> {
    /// The virtual block of 256 bytes that it is for.
    pub start_tag: u32,
    /// Where in DMEM it looks for its arguments.
    pub arguments: u32,
    code: Part<'a>,
    data: Option<Part<'a>>,
}

impl<'a> FalconLoader<'a> {
    /// Checks the descriptor against the bytes.
    ///
    /// # Errors
    /// [`Error::Truncated`] or [`Error::Field`]
    pub fn parse(name: &str, bytes: &'a [u8]) -> Result<FalconLoader<'a>, Error> {
        let bin = Bin::of_any_chip(name, bytes)?;
        let d: &NvfwBlDesc = bin.file.read("nvfw_bl_desc", bin.header)?;
        let code = bin.range("the code", d.code_off.get(), d.code_size.get())?;
        let data = bin.range("the data", d.data_off.get(), d.data_size.get())?;
        let start_tag = d.start_tag.get();
        // IMEM has tags of 16 bits.
        if start_tag > u32::from(u16::MAX) {
            return Err(bin.file.field("start_tag", start_tag, "at most 65535"));
        }
        Ok(FalconLoader {
            start_tag,
            arguments: d.dmem_load_off.get(),
            code: bin
                .part("code", &code)
                .ok_or_else(|| bin.file.field("code_size", 0, "some code"))?,
            data: bin.part("data", &data),
        })
    }

    /// What it runs.
    pub fn code(&self) -> &'a [u8] {
        self.code.bytes
    }

    pub(super) fn parts(&self) -> Vec<Part<'a>> {
        std::iter::once(&self.code)
            .chain(&self.data)
            .cloned()
            .collect()
    }

    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        vec![("starts at", format!("{:#x}", self.start_tag << 8))]
    }
}
