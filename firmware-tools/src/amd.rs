//! amdgpu firmware files: the common header and the code that it frames.

use drivers_spec::amd::fw_hdr::CommonFirmwareHeader;
use zerocopy::FromBytes;

use crate::Error;

/// A firmware file whose header agrees with its length.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    header: CommonFirmwareHeader,
    code: &'a [u8],
}

impl<'a> Image<'a> {
    /// Checks the header against the bytes. `name` is used in messages.
    ///
    /// # Errors
    /// [`Error::Truncated`] or [`Error::Field`].
    pub fn parse(name: &str, bytes: &'a [u8]) -> Result<Image<'a>, Error> {
        let len = bytes.len() as u64;
        let truncated = |what, offset, needed| Error::Truncated {
            name: name.into(),
            what,
            offset,
            needed,
            len,
        };
        let size = size_of::<CommonFirmwareHeader>() as u64;
        let (header, _) = CommonFirmwareHeader::read_from_prefix(bytes)
            .map_err(|_| truncated("the common header", 0, size))?;
        let field = |field, found: u32, expected: String| Error::Field {
            name: name.into(),
            field,
            found: found.into(),
            expected,
        };
        if u64::from(header.header_size_bytes.get()) < size {
            let found = header.header_size_bytes.get();
            return Err(field(
                "header_size_bytes",
                found,
                format!("at least {size}"),
            ));
        }
        if u64::from(header.size_bytes.get()) != len {
            let found = header.size_bytes.get();
            return Err(field("size_bytes", found, format!("the file's {len}")));
        }
        let offset = header.ucode_array_offset_bytes.get();
        let needed = header.ucode_size_bytes.get();
        if offset < header.header_size_bytes.get() {
            let expected = format!("at least the header's {}", header.header_size_bytes);
            return Err(field("ucode_array_offset_bytes", offset, expected));
        }
        // Both are 32 bits, the sum cannot overflow 64.
        let end = u64::from(offset) + u64::from(needed);
        let code = usize::try_from(end)
            .ok()
            .and_then(|end| bytes.get(offset as usize..end))
            .ok_or_else(|| truncated("the code", offset.into(), needed.into()))?;
        Ok(Image { header, code })
    }

    /// The header.
    pub fn header(&self) -> &CommonFirmwareHeader {
        &self.header
    }

    /// The code that the header frames.
    pub fn code(&self) -> &'a [u8] {
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    fn file(code: usize) -> Vec<u8> {
        let header = CommonFirmwareHeader {
            size_bytes: (32 + code as u32).into(),
            header_size_bytes: 32.into(),
            header_version_major: 1.into(),
            header_version_minor: 0.into(),
            ip_version_major: 11.into(),
            ip_version_minor: 0.into(),
            ucode_version: 0x1234.into(),
            ucode_size_bytes: (code as u32).into(),
            ucode_array_offset_bytes: 32.into(),
            crc32: 0.into(),
        };
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend((0..code).map(|i| i as u8));
        bytes
    }

    #[test]
    fn a_whole_file_is_read() {
        let bytes = file(5);
        let image = Image::parse("x.bin", &bytes).unwrap();
        assert_eq!(image.code(), [0, 1, 2, 3, 4]);
        assert_eq!(image.header().ip_version_major.get(), 11);
    }

    #[test]
    fn every_truncation_is_named() {
        let bytes = file(64);
        for len in 0..bytes.len() {
            let text = Image::parse("x.bin", &bytes[..len])
                .unwrap_err()
                .to_string();
            assert!(text.starts_with("x.bin: "), "{text}");
        }
    }

    #[test]
    fn every_byte_of_the_header_may_be_wrong() {
        let bytes = file(64);
        for at in 0..32 {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] = value;
                // Either refused, or the code lies inside of the file: no panic in both.
                if let Ok(image) = Image::parse("x.bin", &bytes) {
                    assert!(image.code().len() <= bytes.len());
                }
            }
        }
    }

    #[test]
    fn texts() {
        let mut bytes = file(4);
        bytes[0] = 9;
        assert_eq!(
            Image::parse("gc_11_0_0_mec.bin", &bytes)
                .unwrap_err()
                .to_string(),
            "gc_11_0_0_mec.bin: size_bytes is 9, expected the file's 36. This is not a firmware \
             file of this kind, or it is damaged"
        );
    }
}
