//! The device control block (DCB): which outputs a board has. A driver for compute reads no more of it than that.

use drivers_spec::nv::vbios::{DCB_PTR, DCB_SIGNATURE, DcbEntry, DcbHeader, DcbTableHeader};
use zerocopy::byteorder::little_endian::U16;

use crate::Error;
use crate::file::File;

/// An output of the board.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Output {
    /// What it is: 0 CRT, 1 TV, 2 TMDS, 3 LVDS, 6 DisplayPort.
    pub kind: u8,
    /// The port of the I2C bus or AUX channel in the CCB; 15 for none.
    pub port: u8,
    /// The heads that can drive it, a bit for each.
    pub heads: u8,
    /// Which connector it ends in.
    pub connector: u8,
    /// Which output resources drive it, a bit for each.
    pub resources: u8,
}

/// The table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dcb {
    /// Where it is in the first image.
    pub offset: u64,
    /// 0x40 or 0x41.
    pub version: u8,
    /// The outputs.
    pub outputs: Vec<Output>,
    /// The types of the connectors: 0x46 DisplayPort, 0x61 HDMI.
    pub connectors: Vec<u8>,
}

/// Types of entries that are no outputs.
const END: u8 = 0xe;
const UNUSED: u8 = 0xf;

impl Dcb {
    /// Reads it, if there is one: boards for compute alone may have none.
    pub(super) fn read(base: File<'_, '_>) -> Result<Option<Dcb>, Error> {
        let offset = u64::from(base.read::<U16>("the pointer to the DCB", DCB_PTR)?.get());
        if offset == 0 {
            return Ok(None);
        }
        // Its first bytes are in every version; the pointer to connectors may be left out.
        let head: &DcbTableHeader = base.read("the DCB's header", offset)?;
        if !matches!(head.version, 0x40 | 0x41) {
            let found = format!("{:#04x}", head.version);
            return Err(base.field("the DCB's version", found, "0x40 or 0x41"));
        }
        let header: &DcbHeader = base.read("the DCB's header", offset)?;
        if header.signature.get() != DCB_SIGNATURE {
            let found = format!("{:#x}", header.signature);
            return Err(base.field("the DCB's signature", found, format!("{DCB_SIGNATURE:#x}")));
        }
        let mut outputs = Vec::new();
        for (what, at) in entries("the DCB", offset, head, size_of::<DcbEntry>(), base)? {
            let entry: &DcbEntry = base.read(&what, at)?;
            let word = entry.connection.get();
            let nibble = |shift: u32| (word >> shift) as u8 & 0xf;
            match nibble(0) {
                END => break,
                UNUSED => {}
                kind => outputs.push(Output {
                    kind,
                    port: nibble(4),
                    heads: nibble(8),
                    connector: nibble(12),
                    resources: nibble(24),
                }),
            }
        }
        let mut connectors = Vec::new();
        let at = u64::from(header.connector_ptr.get());
        if usize::from(header.header_size) >= size_of::<DcbHeader>() && at != 0 {
            let table: &DcbTableHeader = base.read("the table of connectors", at)?;
            for (what, at) in entries("the table of connectors", at, table, 1, base)? {
                connectors.extend(base.slice(&what, at, 1)?);
            }
        }
        Ok(Some(Dcb {
            offset,
            version: head.version,
            outputs,
            connectors,
        }))
    }
}

/// The entries of a table: how each is called, and where it is.
fn entries(
    table: &str,
    offset: u64,
    header: &DcbTableHeader,
    least: usize,
    base: File<'_, '_>,
) -> Result<Vec<(String, u64)>, Error> {
    if usize::from(header.header_size) < size_of::<DcbTableHeader>() {
        let field = format!("the size of the header of {table}");
        return Err(base.field(field, header.header_size, "at least 4"));
    }
    if usize::from(header.entry_size) < least && header.entry_count > 0 {
        let field = format!("the size of an entry of {table}");
        return Err(base.field(field, header.entry_size, format!("at least {least}")));
    }
    let first = offset + u64::from(header.header_size);
    let entry = |i| {
        (
            format!("entry {i} of {table}"),
            first + i * u64::from(header.entry_size),
        )
    };
    Ok((0..u64::from(header.entry_count)).map(entry).collect())
}
