//! Reads untrusted bytes: every access is checked and named.

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::Error;

/// The bytes of a file, and how it is called in messages.
#[derive(Clone, Copy)]
pub(crate) struct File<'n, 'a> {
    pub name: &'n str,
    pub bytes: &'a [u8],
}

impl<'a> File<'_, 'a> {
    /// The bytes of `what`. Offsets and sizes are 64 bits wide, so that sums of the 32-bit fields
    /// of headers cannot overflow.
    pub fn slice(&self, what: &str, offset: u64, size: u64) -> Result<&'a [u8], Error> {
        let end = offset.checked_add(size);
        usize::try_from(offset)
            .ok()
            .zip(end.and_then(|end| usize::try_from(end).ok()))
            .and_then(|(start, end)| self.bytes.get(start..end))
            .ok_or_else(|| Error::Truncated {
                name: self.name.into(),
                what: what.into(),
                offset,
                needed: size,
                len: self.bytes.len() as u64,
            })
    }

    /// The layout `T` at an offset.
    pub fn read<T>(&self, what: &str, offset: u64) -> Result<&'a T, Error>
    where
        T: FromBytes + KnownLayout + Immutable + Unaligned,
    {
        let bytes = self.slice(what, offset, size_of::<T>() as u64)?;
        T::ref_from_bytes(bytes).map_err(|_| self.field(what, "no such layout", "its layout"))
    }

    /// The error about a field that contradicts the file.
    pub fn field(
        &self,
        field: impl Into<String>,
        found: impl ToString,
        expected: impl Into<String>,
    ) -> Error {
        Error::Field {
            name: self.name.into(),
            field: field.into(),
            found: found.to_string(),
            expected: expected.into(),
        }
    }
}
