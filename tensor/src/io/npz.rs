//! The npz format of NumPy: a zip archive of [`npy`] files.
//!
//! Members are stored or deflated; nothing else is understood. Before a member is inflated its
//! own npy header and the size that the archive declares must agree, and deflate must be able to
//! reach that size from the bytes that are there: an archive takes at most [`MAX_RATIO`] times its
//! own size of memory, however it was made.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{Cursor, Read};
use std::path::Path;

use codegen::DType;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::map::Bytes;
use super::npy::{self, Array, NpyError};
use super::replace::replace;
use super::{FileError, Quoted, nearest};

/// How far deflate can compress: 258 bytes for two bits. <https://www.zlib.net/zlib_tech.html>
/// gives 1032:1.
pub const MAX_RATIO: u64 = 1032;

/// Why an archive could not be read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The texts say what the fields are.
pub enum NpzError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Array(#[from] NpyError),
    #[error(
        "{file}: expected a zip archive, found: {found}; the file is damaged, truncated, or not an npz file"
    )]
    Archive { file: String, found: String },
    #[error("{file}: duplicate member name; rename one of them")]
    Duplicate { file: String },
    #[error("{file}: no array {array}{hint}")]
    NoArray {
        file: String,
        array: Quoted,
        hint: String,
    },
    #[error(
        "{file}: array {array}: expected a stored or deflated member, found {found}; save it with \
         numpy.savez or numpy.savez_compressed"
    )]
    Method {
        file: String,
        array: Quoted,
        found: String,
    },
    #[error(
        "{file}: array {array}: expected at most {limit} bytes from {packed} compressed ones, found a \
         declared size of {found}; the archive is damaged or made to exhaust memory"
    )]
    Bomb {
        file: String,
        array: Quoted,
        packed: u64,
        limit: u64,
        found: u64,
    },
    #[error(
        "{file}: array {array}: cannot decompress: {found}; the archive is damaged: fetch it again"
    )]
    Packed {
        file: String,
        array: Quoted,
        found: String,
    },
    #[error(
        "{file}: array {array}: expected a new, non-empty name without '/' to write, found {found}"
    )]
    Name {
        file: String,
        array: Quoted,
        found: &'static str,
    },
}

/// An archive: its directory is read, its arrays are not yet.
pub struct File {
    name: String,
    archive: ZipArchive<Cursor<Bytes>>,
    /// The size of the archive in bytes.
    len: u64,
    /// The members that are arrays, without `.npy`, in the order of the archive.
    arrays: Vec<(String, usize)>,
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("name", &self.name)
            .field("arrays", &self.arrays)
            .finish()
    }
}

impl File {
    /// Maps an archive and reads its directory. The file must not be rewritten in place while it
    /// is open; replacing it is safe.
    ///
    /// # Errors
    /// [`NpzError::File`], [`NpzError::Archive`] or [`NpzError::Duplicate`].
    pub fn open(path: impl AsRef<Path>) -> Result<File, NpzError> {
        let path = path.as_ref();
        let bytes = Bytes::map(path)?;
        File::checked(path.display().to_string(), bytes)
    }

    /// Takes an archive that is in memory; `name` replaces the path in errors.
    ///
    /// # Errors
    /// As [`File::open`].
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Result<File, NpzError> {
        File::checked(name.into(), Bytes::Owned(bytes))
    }

    fn checked(name: String, bytes: Bytes) -> Result<File, NpzError> {
        let bad = |e: ZipError| NpzError::Archive {
            file: name.clone(),
            found: e.to_string(),
        };
        let len = bytes.len() as u64;
        let archive = ZipArchive::new(Cursor::new(bytes)).map_err(bad)?;
        if archive.has_duplicate_names() {
            return Err(NpzError::Duplicate { file: name });
        }
        let mut arrays = Vec::new();
        for (index, member) in archive.file_names().enumerate() {
            let member = member.map_err(bad)?;
            if let Some(array) = member.strip_suffix(".npy") {
                arrays.push((array.to_string(), index));
            }
        }
        Ok(File {
            name,
            archive,
            len,
            arrays,
        })
    }

    /// The names of the arrays, in the order of the archive.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.arrays.iter().map(|(name, _)| name.as_str())
    }

    /// Unpacks one array. Its checksum is verified.
    ///
    /// # Errors
    /// The first error found, see [`NpzError`].
    pub fn array(&mut self, array: &str) -> Result<Array, NpzError> {
        let Some(index) = self
            .arrays
            .iter()
            .find(|(name, _)| name == array)
            .map(|a| a.1)
        else {
            let hint = match nearest(array, self.names()) {
                Some(name) => format!("; did you mean {}?", Quoted::new(name)),
                None => format!("; the archive has {} arrays", self.arrays.len()),
            };
            let (file, array) = (self.name.clone(), Quoted::new(array));
            return Err(NpzError::NoArray { file, array, hint });
        };
        let (file, full) = (self.name.clone(), format!("{}: {array}.npy", self.name));
        let array = Quoted::new(array);
        let packed = |e: &dyn fmt::Display| NpzError::Packed {
            file: file.clone(),
            array: array.clone(),
            found: e.to_string(),
        };
        let mut member = match self.archive.by_index(index) {
            Ok(member) => member,
            Err(ZipError::UnsupportedArchive(found)) => {
                return Err(NpzError::Method {
                    file,
                    array,
                    found: found.to_string(),
                });
            }
            Err(e @ ZipError::CompressionMethodNotSupported(_)) => {
                return Err(NpzError::Method {
                    file,
                    array,
                    found: e.to_string(),
                });
            }
            Err(e) => return Err(packed(&e)),
        };
        let method = member.compression();
        let ratio = match method {
            CompressionMethod::Stored => 1,
            CompressionMethod::Deflated => MAX_RATIO,
            _ => {
                return Err(NpzError::Method {
                    file,
                    array,
                    found: method.to_string(),
                });
            }
        };
        // The directory's sizes are claims: the packed one must lie within the file, and the
        // unpacked one within what deflate can do.
        let in_file = member.compressed_size().min(self.len);
        let limit = in_file.saturating_mul(ratio);
        let size = member.size();
        if size > limit {
            return Err(NpzError::Bomb {
                file,
                array,
                packed: in_file,
                limit,
                found: size,
            });
        }
        // The header first, whatever the member claims to be.
        let mut head = Vec::new();
        let most = (npy::MAX_HEADER + 12) as u64;
        (&mut member)
            .take(most.min(size))
            .read_to_end(&mut head)
            .map_err(|e| packed(&e))?;
        let header = npy::Header::parse(&full, &head)?;
        let (start, len) = (header.data_start, header.data_len);
        header.check_len(&full, size.saturating_sub(start as u64))?;
        let mut data = Vec::with_capacity(len);
        data.extend_from_slice(head.get(start..).unwrap_or_default());
        let rest = (len - data.len().min(len)) as u64;
        // One byte more than is due: it is not there, and asking for it verifies the checksum.
        member
            .take(rest + 1)
            .read_to_end(&mut data)
            .map_err(|e| packed(&e))?;
        header.check_len(&full, data.len() as u64)?;
        Ok(header.array(data))
    }
}

/// An array to write.
#[derive(Clone, Copy, Debug)]
pub struct ArrayRef<'a> {
    /// The name, without `.npy`.
    pub name: &'a str,
    /// The element type.
    pub dtype: DType,
    /// The dimensions; empty for a scalar.
    pub shape: &'a [usize],
    /// The bytes: little-endian, C order.
    pub data: &'a [u8],
}

/// Writes an archive, atomically replacing `path`. The same arrays in the same order give the same bytes: members
/// carry no time.
///
/// # Errors
/// Names that are empty, repeated or contain `/`, types that npy has no name for, data that does not fit its shape,
/// or an error of the operating system.
pub fn write<'a>(
    path: impl AsRef<Path>,
    arrays: impl IntoIterator<Item = ArrayRef<'a>>,
    compress: bool,
) -> Result<(), NpzError> {
    let path = path.as_ref();
    let file = path.display().to_string();
    let mut members = Vec::new();
    let mut seen = BTreeSet::new();
    for a in arrays {
        let found = match a.name {
            "" => Some("an empty one"),
            name if name.contains('/') => Some("one with '/'"),
            name if !seen.insert(name) => Some("one already written"),
            _ => None,
        };
        if let Some(found) = found {
            return Err(NpzError::Name {
                file,
                array: Quoted::new(a.name),
                found,
            });
        }
        let full = format!("{file}: {}.npy", a.name);
        members.push((a, npy::build_header(&full, a.dtype, a.shape, a.data.len())?));
    }
    let method = if compress {
        CompressionMethod::Deflated
    } else {
        CompressionMethod::Stored
    };
    replace(path, |out| {
        let mut archive = ZipWriter::new(out);
        for (a, header) in &members {
            let options = SimpleFileOptions::default()
                .compression_method(method)
                .last_modified_time(zip::DateTime::default())
                .unix_permissions(0o644)
                .large_file(a.data.len() >= u32::MAX as usize / 2);
            archive.start_file(format!("{}.npy", a.name), options)?;
            npy::write_parts(&mut archive, header, a.data)?;
        }
        archive.finish()?;
        Ok(())
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arrays<'a>() -> [ArrayRef<'a>; 3] {
        [
            ArrayRef {
                name: "weights",
                dtype: DType::F32,
                shape: &[2, 3],
                data: &[7; 24],
            },
            ArrayRef {
                name: "b",
                dtype: DType::I64,
                shape: &[],
                data: &[1, 2, 3, 4, 5, 6, 7, 8],
            },
            ArrayRef {
                name: "zeros",
                dtype: DType::U8,
                shape: &[5000],
                data: &[0; 5000],
            },
        ]
    }

    fn archive(compress: bool) -> Vec<u8> {
        let file = tempfile::NamedTempFile::new().unwrap();
        write(file.path(), arrays(), compress).unwrap();
        std::fs::read(file.path()).unwrap()
    }

    /// A zip of one member `a.npy` with this content.
    fn zip_of(content: &[u8], method: CompressionMethod) -> Vec<u8> {
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default().compression_method(method);
        archive.start_file("a.npy", options).unwrap();
        std::io::Write::write_all(&mut archive, content).unwrap();
        archive.finish().unwrap().into_inner()
    }

    fn fault(bytes: Vec<u8>, array: &str) -> String {
        match File::from_bytes("a.npz", bytes) {
            Ok(mut file) => file.array(array).unwrap_err().to_string(),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for compress in [false, true] {
            let bytes = archive(compress);
            assert_eq!(bytes, archive(compress), "no time in the archive");
            let mut file = File::from_bytes("a.npz", bytes).unwrap();
            assert_eq!(file.names().collect::<Vec<_>>(), ["weights", "b", "zeros"]);
            for a in arrays() {
                let expected = Array {
                    dtype: a.dtype,
                    shape: a.shape.to_vec(),
                    data: a.data.to_vec(),
                };
                assert_eq!(file.array(a.name).unwrap(), expected);
            }
        }
        assert!(archive(true).len() < archive(false).len());
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npz");
        let named = |name| ArrayRef {
            name,
            dtype: DType::U8,
            shape: &[1],
            data: &[0],
        };
        for names in [&[""][..], &["a/b"], &["a", "a"]] {
            let error = write(&path, names.iter().map(|n| named(n)), false).unwrap_err();
            assert!(matches!(error, NpzError::Name { .. }), "{error}");
        }
        let bf16 = ArrayRef {
            name: "h",
            dtype: DType::BF16,
            shape: &[1],
            data: &[0; 2],
        };
        let text = write(&path, [bf16], false).unwrap_err().to_string();
        assert!(
            text.ends_with(
                "x.npz: h.npy: the npy format has no name for bf16; cast to f32 \
                                first, or write safetensors"
            ),
            "{text}"
        );
        assert!(!path.exists());
    }

    #[test]
    fn an_unknown_array_gets_a_suggestion() {
        assert_eq!(
            fault(archive(true), "weight"),
            "a.npz: no array \"weight\"; did you mean \
             \"weights\"?"
        );
        assert_eq!(
            fault(archive(true), "something"),
            "a.npz: no array \"something\"; the archive has 3 \
             arrays"
        );
    }

    #[test]
    fn what_is_no_archive_is_refused() {
        for bytes in [&b""[..], b"x", b"\x93NUMPY\x01\0", &archive(true)[..100]] {
            let text = fault(bytes.to_vec(), "a");
            assert!(
                text.starts_with("a.npz: expected a zip archive, found: "),
                "{text}"
            );
        }
    }

    #[test]
    fn members_are_checked_as_arrays_are() {
        for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
            assert!(
                fault(zip_of(b"hello", method), "a").starts_with(
                    "a.npz: a.npy: expected the signature \\x93NUMPY, found \"hello\""
                )
            );
            let header = npy::build_header("a", DType::U8, &[9], 9).unwrap();
            assert_eq!(
                fault(zip_of(&[&header[..], &[0; 8]].concat(), method), "a"),
                "a.npz: a.npy: expected 9 bytes for u8 [9], found 8; the file is truncated: fetch it again"
            );
        }
    }

    #[test]
    fn a_header_that_promises_too_much_is_refused_before_memory_is_taken() {
        let header = npy::build_header("a", DType::U8, &[1 << 50], 1 << 50).unwrap();
        let text = fault(zip_of(&header, CompressionMethod::Deflated), "a");
        assert!(
            text.starts_with("a.npz: a.npy: expected 1125899906842624 bytes for u8"),
            "{text}"
        );
    }

    /// The offset of the central directory's only entry.
    fn directory(bytes: &[u8]) -> usize {
        bytes.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap()
    }

    #[test]
    fn sizes_that_deflate_cannot_reach_are_refused() {
        let header = npy::build_header("a", DType::U8, &[1 << 31], 1 << 31).unwrap();
        let mut bytes = zip_of(&header, CompressionMethod::Deflated);
        let at = directory(&bytes) + 24;
        let claim = (1u32 << 31) + header.len() as u32;
        bytes[at..at + 4].copy_from_slice(&claim.to_le_bytes());
        let text = fault(bytes, "a");
        assert!(
            text.starts_with("a.npz: array \"a\": expected at most ")
                && text.contains("found a declared size of 2147483776; the archive is damaged"),
            "{text}"
        );
    }

    #[test]
    fn a_wrong_checksum_is_found() {
        let header = npy::build_header("a", DType::U8, &[9], 9).unwrap();
        let mut bytes = zip_of(&[&header[..], &[5; 9]].concat(), CompressionMethod::Stored);
        let at = bytes.windows(9).position(|w| w == [5; 9]).unwrap();
        bytes[at] = 6;
        assert_eq!(
            fault(bytes, "a"),
            "a.npz: array \"a\": cannot decompress: Invalid checksum; the archive is \
             damaged: fetch it again"
        );
    }

    #[test]
    fn methods_and_encryption_that_are_not_known_are_named() {
        let header = npy::build_header("a", DType::U8, &[0], 0).unwrap();
        let good = zip_of(&header, CompressionMethod::Stored);
        let at = directory(&good);
        let mut bzip = good.clone();
        bzip[at + 10] = 12;
        assert!(fault(bzip, "a").contains("expected a stored or deflated member, found"));
        let mut encrypted = good;
        encrypted[at + 8] |= 1;
        assert!(fault(encrypted, "a").contains("Password required to decrypt file"));
    }

    #[test]
    fn the_digits_are_an_archive() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("cli/data/digits.npz");
        let mut file = File::open(path).unwrap();
        let (images, labels) = (file.array("images").unwrap(), file.array("labels").unwrap());
        assert_eq!(
            (images.dtype, images.shape.as_slice()),
            (DType::U8, &[1797, 8, 8][..])
        );
        assert_eq!(
            (labels.dtype, labels.shape.as_slice()),
            (DType::U8, &[1797][..])
        );
        assert!(images.data.iter().all(|&v| v <= 16));
        let mut count = [0; 10];
        labels
            .data
            .iter()
            .for_each(|&label| count[usize::from(label)] += 1);
        // The class sizes that the data set's documentation lists.
        assert_eq!(count, [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
    }

    fn check(bytes: Vec<u8>) {
        if let Ok(mut file) = File::from_bytes("f", bytes) {
            let names: Vec<String> = file.names().map(str::to_string).collect();
            for name in names {
                if let Ok(array) = file.array(&name) {
                    let n: usize = array.shape.iter().product();
                    assert_eq!(array.data.len(), n * array.dtype.size());
                }
            }
        }
    }

    #[test]
    fn single_byte_changes_and_cuts_are_handled() {
        for compress in [false, true] {
            let header = npy::build_header("a", DType::U16, &[4], 8).unwrap();
            let method = if compress {
                CompressionMethod::Deflated
            } else {
                CompressionMethod::Stored
            };
            let good = zip_of(&[&header[..], &[3; 8]].concat(), method);
            for at in 0..good.len() {
                check(good[..at].to_vec());
                for flip in [0x01, 0x04, 0x10, 0x80, 0xff] {
                    let mut bytes = good.clone();
                    bytes[at] ^= flip;
                    check(bytes);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_tail_is_handled(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            check([&archive(true)[..], &bytes].concat());
            check([&bytes[..], &archive(true)].concat());
        }
    }
}
