//! The BIOS information table (BIT): tokens that say where tables are.

use drivers_spec::nv::vbios::{
    BIT_START, BIT_TOKEN_BIOSDATA, BIT_TOKEN_FALCON_DATA, BiosdataBinver, BitHeader, BitToken6,
    BitToken8,
};
use zerocopy::byteorder::little_endian::U32;

use crate::Error;
use crate::file::File;

/// A token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    /// Which.
    pub id: u8,
    /// The version of what it leads to.
    pub version: u8,
    /// Its size.
    pub size: u16,
    /// Where it is, in the first image.
    pub offset: u32,
}

/// The table.
#[derive(Clone, Debug)]
pub struct Bit {
    /// Where it is.
    pub offset: u64,
    /// Its tokens.
    pub tokens: Vec<Token>,
}

impl Bit {
    /// Finds it in the first image: the first that has a right sum.
    pub(super) fn find(base: File<'_, '_>) -> Result<Bit, Error> {
        let starts = base.bytes.windows(BIT_START.len()).enumerate();
        let starts = starts.filter(|(_, bytes)| *bytes == BIT_START);
        let mut damaged = None;
        for (at, _) in starts {
            let at = at as u64;
            let header: &BitHeader = base.read("the BIT's header", at)?;
            let bytes = base.slice("the BIT's header", at, header.header_size.into())?;
            let sum = bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
            if sum == 0 && bytes.len() >= size_of_val(header) {
                return Bit::tokens(base, at, header);
            }
            damaged = damaged.or(Some((at, sum)));
        }
        Err(match damaged {
            Some((at, sum)) => base.field(
                format!("the sum of the BIT at {at:#x}"),
                format!("{sum:#04x}"),
                "0",
            ),
            None => base.field("the BIT", "missing", "ff b8 \"BIT\" in the first image"),
        })
    }

    fn tokens(base: File<'_, '_>, offset: u64, header: &BitHeader) -> Result<Bit, Error> {
        let each = u64::from(header.token_size);
        if each < size_of::<BitToken6>() as u64 {
            return Err(base.field("the size of a BIT token", each, "at least 6"));
        }
        let mut tokens = Vec::new();
        for i in 0..u64::from(header.token_entries) {
            let at = offset + u64::from(header.header_size) + i * each;
            let what = format!("BIT token {i}");
            tokens.push(if each < size_of::<BitToken8>() as u64 {
                let t: &BitToken6 = base.read(&what, at)?;
                Token {
                    id: t.token_id,
                    version: t.data_version,
                    size: t.data_size.get(),
                    offset: t.data_ptr.get().into(),
                }
            } else {
                let t: &BitToken8 = base.read(&what, at)?;
                Token {
                    id: t.token_id,
                    version: t.data_version,
                    size: t.data_size.get(),
                    offset: t.data_ptr.get(),
                }
            });
        }
        Ok(Bit { offset, tokens })
    }

    /// The first token of this kind.
    pub fn token(&self, id: u8) -> Option<Token> {
        self.tokens.iter().find(|token| token.id == id).copied()
    }

    /// The version of the VBIOS, as tools print it: 94.02.42.40.5b.
    pub(super) fn version(&self, base: File<'_, '_>) -> Option<String> {
        let token = self.token(BIT_TOKEN_BIOSDATA)?;
        if !matches!(token.version, 1 | 2) || usize::from(token.size) < size_of::<BiosdataBinver>()
        {
            return None;
        }
        let data: &BiosdataBinver = base.read("BIOSDATA", token.offset.into()).ok()?;
        let [a, b, c, d] = data.version.get().to_be_bytes();
        Some(format!(
            "{a:02x}.{b:02x}.{c:02x}.{d:02x}.{:02x}",
            data.oem_version
        ))
    }

    /// The pointer to the table of microcode, if there is one.
    pub(super) fn falcon_table(&self, base: File<'_, '_>) -> Result<Option<u32>, Error> {
        let wanted = |token: &&Token| {
            token.id == BIT_TOKEN_FALCON_DATA && token.version == 2 && token.size >= 4
        };
        let Some(token) = self.tokens.iter().find(wanted) else {
            return Ok(None);
        };
        let pointer: &U32 = base.read("the falcon data's pointer", token.offset.into())?;
        Ok(Some(pointer.get()))
    }
}
