//! The safetensors format: a JSON header and the bytes of the tensors, back to back.
//!
//! ```text
//! 8 bytes   N, little-endian
//! N bytes   {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...,
//!            "__metadata__": {"key": "value", ...}}   padded with spaces
//! the rest  data; offsets count from its start and cover it without hole or overlap
//! ```
//!
//! Format: <https://github.com/huggingface/safetensors#format>.

mod write;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::fmt;
use std::ops::Range;
use std::path::Path;

use codegen::DType;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::map::Bytes;
use super::{FileError, MAX_ELEMENTS, Quoted, element_count, nearest};

pub use self::write::{TensorRef, write};

/// The longest header that is read: 100 MB, as in the reference implementation.
pub const MAX_HEADER: u64 = 100_000_000;

/// The key of the header that holds metadata and not a tensor.
const METADATA: &str = "__metadata__";

/// The name of each type in the format.
const NAMES: [(&str, DType); 15] = [
    ("BOOL", DType::Bool),
    ("U8", DType::U8),
    ("I8", DType::I8),
    ("F8_E5M2", DType::F8E5M2),
    ("F8_E4M3", DType::F8E4M3),
    ("I16", DType::I16),
    ("U16", DType::U16),
    ("F16", DType::F16),
    ("BF16", DType::BF16),
    ("I32", DType::I32),
    ("U32", DType::U32),
    ("F32", DType::F32),
    ("I64", DType::I64),
    ("U64", DType::U64),
    ("F64", DType::F64),
];

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The texts say what the fields are.
pub enum SafetensorsError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(
        "{file}: expected at least 8 bytes with the length of the header, found {found}; the file is \
         empty or truncated: fetch it again"
    )]
    NoLength { file: String, found: u64 },
    #[error(
        "{file}: expected a header of at most {MAX_HEADER} bytes, found a length of {found}; this \
         is probably not a safetensors file"
    )]
    LongHeader { file: String, found: u64 },
    #[error(
        "{file}: expected a header of {expected} bytes, found {found} bytes after its length; the file \
         is truncated: fetch it again"
    )]
    CutHeader {
        file: String,
        expected: u64,
        found: u64,
    },
    #[error(
        "{file}: expected a header in UTF-8, found an invalid byte at offset {at}; this is probably \
         not a safetensors file"
    )]
    NotUtf8 { file: String, at: usize },
    #[error(
        "{file}: expected a header that is one JSON object, found: {found}; this is probably not a \
         safetensors file, or its writer is broken"
    )]
    NotJson { file: String, found: String },
    #[error(
        "{file}: tensor {tensor}: duplicate entry; rename one of them and write the file again"
    )]
    Duplicate { file: String, tensor: Quoted },
    #[error(
        "{file}: __metadata__: expected an object of distinct strings, found: {found}; store other \
         values as text"
    )]
    Metadata { file: String, found: String },
    #[error(
        "{file}: tensor {tensor}: expected exactly dtype, shape and data_offsets, found: {found}; \
         the writer of the file is broken"
    )]
    Entry {
        file: String,
        tensor: Quoted,
        found: String,
    },
    #[error(
        "{file}: tensor {tensor}: expected dtype {}, found {found}; convert the tensor to one of \
         these",
        names()
    )]
    Type {
        file: String,
        tensor: Quoted,
        found: Quoted,
    },
    #[error(
        "{file}: tensor {tensor}: expected a shape of at most {MAX_ELEMENTS} elements, found \
         {shape}; the header is damaged: fetch the file again"
    )]
    Elements {
        file: String,
        tensor: Quoted,
        shape: String,
    },
    #[error(
        "{file}: tensor {tensor}: expected ascending data_offsets, found {begin} to {end}; the header \
         is damaged: fetch the file again"
    )]
    Backwards {
        file: String,
        tensor: Quoted,
        begin: u64,
        end: u64,
    },
    #[error(
        "{file}: tensor {tensor}: expected {expected} bytes for {dtype} {shape}, found {found} in \
         its data_offsets; shape, dtype or offsets are wrong: fetch the file again"
    )]
    Size {
        file: String,
        tensor: Quoted,
        dtype: DType,
        shape: String,
        expected: u64,
        found: u64,
    },
    #[error(
        "{file}: tensor {tensor}: expected data up to offset {end}, found {found} bytes of data; \
         the file is truncated: fetch it again"
    )]
    CutData {
        file: String,
        tensor: Quoted,
        end: u64,
        found: u64,
    },
    #[error(
        "{file}: tensor {tensor}: data begins at offset {found} and overlaps tensor {previous}, which \
         ends at {expected}; the writer of the file is broken"
    )]
    Overlap {
        file: String,
        tensor: Quoted,
        previous: Quoted,
        expected: u64,
        found: u64,
    },
    #[error(
        "{file}: tensor {tensor}: data begins at offset {found}, {} bytes after the previous data ends \
         at {expected}; the writer of the file is broken",
        found - expected
    )]
    Hole {
        file: String,
        tensor: Quoted,
        expected: u64,
        found: u64,
    },
    #[error(
        "{file}: expected the data to end at offset {expected}, found {} more bytes; the file is \
         damaged or something was appended to it", found - expected
    )]
    Trailing {
        file: String,
        expected: u64,
        found: u64,
    },
    #[error("{file}: no tensor {tensor}{hint}")]
    NoTensor {
        file: String,
        tensor: Quoted,
        hint: String,
    },
    #[error(
        "{file}: the name \"__metadata__\" is reserved by the format; give the tensor another name"
    )]
    Reserved { file: String },
}

/// The names of all types, for an error.
fn names() -> String {
    NAMES.map(|(name, _)| name).join(", ")
}

/// Where a tensor lies and what it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The element type.
    pub dtype: DType,
    /// The dimensions; empty for a scalar.
    pub shape: Vec<usize>,
    /// The bytes, counted from the start of the file. Not necessarily aligned.
    pub range: Range<usize>,
}

/// The checked header of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// The tensors by name.
    pub tensors: BTreeMap<String, Entry>,
    /// What the writer noted, such as `format: pt`.
    pub metadata: BTreeMap<String, String>,
}

/// A file: its header and its bytes, mapped or in memory.
#[derive(Debug)]
pub struct File {
    name: String,
    header: Header,
    bytes: Bytes,
}

impl File {
    /// Maps and checks a file. No tensor is read: pages are loaded when they are touched.
    ///
    /// The file must not be rewritten in place while it is open; replacing it is safe. A program
    /// that shortens a mapped file ends this process (SIGBUS).
    ///
    /// # Errors
    /// The first error found, see [`SafetensorsError`].
    pub fn open(path: impl AsRef<Path>) -> Result<File, SafetensorsError> {
        let path = path.as_ref();
        let bytes = Bytes::map(path)?;
        File::checked(path.display().to_string(), bytes)
    }

    /// Takes a file that is in memory; `name` replaces the path in errors.
    ///
    /// # Errors
    /// As [`File::open`].
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Result<File, SafetensorsError> {
        File::checked(name.into(), Bytes::Owned(bytes))
    }

    fn checked(name: String, bytes: Bytes) -> Result<File, SafetensorsError> {
        let header = Header::parse(&name, &bytes)?;
        Ok(File {
            name,
            header,
            bytes,
        })
    }

    /// The tensors by name.
    pub fn tensors(&self) -> &BTreeMap<String, Entry> {
        &self.header.tensors
    }

    /// What the writer noted.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.header.metadata
    }

    /// What a tensor is.
    ///
    /// # Errors
    /// [`SafetensorsError::NoTensor`], with the nearest name.
    pub fn entry(&self, tensor: &str) -> Result<&Entry, SafetensorsError> {
        self.header.tensors.get(tensor).ok_or_else(|| {
            let names = self.header.tensors.keys().map(String::as_str);
            let hint = match nearest(tensor, names) {
                Some(name) => format!("; did you mean {}?", Quoted::new(name)),
                None => format!("; the file has {} tensors", self.header.tensors.len()),
            };
            SafetensorsError::NoTensor {
                file: self.name.clone(),
                tensor: Quoted::new(tensor),
                hint,
            }
        })
    }

    /// The bytes of a tensor: little-endian, C order, exactly as many as its shape and type need.
    ///
    /// # Errors
    /// [`SafetensorsError::NoTensor`], with the nearest name.
    pub fn data(&self, tensor: &str) -> Result<&[u8], SafetensorsError> {
        let range = self.entry(tensor)?.range.clone();
        // The range was checked against these very bytes, whose length cannot change.
        Ok(self.bytes.get(range).unwrap_or_default())
    }
}

/// An entry as it stands in the header.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// The members of a JSON object in their order, duplicates included.
struct Members<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Members<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Collect<T> {
            type Value = Members<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect(std::marker::PhantomData))
    }
}

/// A JSON object parsed as a struct; the derived parser would take an array for one, too.
fn parse_object<'a, T: Deserialize<'a>>(json: &'a RawValue) -> Result<T, serde_json::Error> {
    if json.get().starts_with('{') {
        serde_json::from_str(json.get())
    } else {
        Err(de::Error::custom("a value that is not an object"))
    }
}

impl Header {
    /// Parses and checks the header of a whole file; `file` names it in errors.
    ///
    /// Memory is taken for the header only, in proportion to its length, which is checked first.
    ///
    /// # Errors
    /// The first error found, see [`SafetensorsError`].
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Header, SafetensorsError> {
        use SafetensorsError as E;
        let name = || file.to_string();
        let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
            return Err(E::NoLength {
                file: name(),
                found: bytes.len() as u64,
            });
        };
        let length = u64::from_le_bytes(*length);
        if length > MAX_HEADER {
            return Err(E::LongHeader {
                file: name(),
                found: length,
            });
        }
        let Some((json, data)) = rest.split_at_checked(length as usize) else {
            return Err(E::CutHeader {
                file: name(),
                expected: length,
                found: rest.len() as u64,
            });
        };
        let json = std::str::from_utf8(json).map_err(|e| E::NotUtf8 {
            file: name(),
            at: 8 + e.valid_up_to(),
        })?;
        if !json.starts_with('{') {
            let found = match json.chars().next() {
                Some(first) => format!("{first:?} at its start"),
                None => "nothing".to_string(),
            };
            return Err(E::NotJson {
                file: name(),
                found,
            });
        }
        let Members::<&RawValue>(members) = serde_json::from_str(json).map_err(|e| E::NotJson {
            file: name(),
            found: e.to_string(),
        })?;
        let start = 8 + length as usize;
        let mut header = Header::default();
        let mut metadata_seen = false;
        for (key, value) in members {
            if key == METADATA {
                if std::mem::replace(&mut metadata_seen, true) {
                    return Err(E::Duplicate {
                        file: name(),
                        tensor: Quoted::new(&key),
                    });
                }
                header.metadata = parse_metadata(file, value)?;
                continue;
            }
            let tensor = Quoted::new(&key);
            match header.tensors.entry(key) {
                Slot::Occupied(_) => {
                    return Err(E::Duplicate {
                        file: name(),
                        tensor,
                    });
                }
                Slot::Vacant(slot) => {
                    slot.insert(parse_entry(file, tensor, value, start, data.len() as u64)?);
                }
            }
        }
        header.check_cover(file, start, data.len())?;
        Ok(header)
    }

    /// The data must be covered from its start to its end, each byte once.
    fn check_cover(&self, file: &str, start: usize, len: usize) -> Result<(), SafetensorsError> {
        use SafetensorsError as E;
        let mut order: Vec<(&String, &Entry)> = self.tensors.iter().collect();
        order.sort_by_key(|(_, entry)| (entry.range.start, entry.range.end));
        let mut previous: Option<&String> = None;
        let mut end = start;
        for (name, entry) in order {
            let (expected, found) = ((end - start) as u64, (entry.range.start - start) as u64);
            let (file, tensor) = (file.to_string(), Quoted::new(name));
            if found > expected {
                return Err(E::Hole {
                    file,
                    tensor,
                    expected,
                    found,
                });
            }
            if found < expected {
                let previous = Quoted::new(previous.map_or("", String::as_str));
                return Err(E::Overlap {
                    file,
                    tensor,
                    previous,
                    expected,
                    found,
                });
            }
            (previous, end) = (Some(name), entry.range.end);
        }
        if end - start < len {
            let (expected, found) = ((end - start) as u64, len as u64);
            return Err(E::Trailing {
                file: file.to_string(),
                expected,
                found,
            });
        }
        Ok(())
    }
}

fn parse_metadata(
    file: &str,
    value: &RawValue,
) -> Result<BTreeMap<String, String>, SafetensorsError> {
    let bad = |found: String| SafetensorsError::Metadata {
        file: file.to_string(),
        found,
    };
    let Members(members) = parse_object(value).map_err(|e| bad(e.to_string()))?;
    let mut metadata = BTreeMap::new();
    for (key, value) in members {
        match metadata.entry(key) {
            Slot::Vacant(slot) => slot.insert(value),
            Slot::Occupied(slot) => {
                return Err(bad(format!("a second {}", Quoted::new(slot.key()))));
            }
        };
    }
    Ok(metadata)
}

/// Checks one entry by itself; `start` is where the data begins in the file, `len` its size.
fn parse_entry(
    file: &str,
    tensor: Quoted,
    value: &RawValue,
    start: usize,
    len: u64,
) -> Result<Entry, SafetensorsError> {
    use SafetensorsError as E;
    let file = file.to_string();
    let raw: RawEntry = match parse_object(value) {
        Ok(raw) => raw,
        Err(e) => {
            return Err(E::Entry {
                file,
                tensor,
                found: e.to_string(),
            });
        }
    };
    let Some(&(_, dtype)) = NAMES.iter().find(|(name, _)| *name == raw.dtype) else {
        return Err(E::Type {
            file,
            tensor,
            found: Quoted::new(&raw.dtype),
        });
    };
    let dims = raw.shape.iter().map(|&dim| usize::try_from(dim).ok());
    let shape: Option<Vec<usize>> = dims.collect();
    let bytes = shape
        .as_deref()
        .and_then(element_count)
        .and_then(|n| (n as u64).checked_mul(dtype.size() as u64));
    let (Some(shape), Some(expected)) = (shape, bytes) else {
        return Err(E::Elements {
            file,
            tensor,
            shape: shape_text(&raw.shape),
        });
    };
    let (begin, end) = raw.data_offsets;
    if begin > end {
        return Err(E::Backwards {
            file,
            tensor,
            begin,
            end,
        });
    }
    if end - begin != expected {
        let shape = shape_text(&raw.shape);
        return Err(E::Size {
            file,
            tensor,
            dtype,
            shape,
            expected,
            found: end - begin,
        });
    }
    if end > len {
        return Err(E::CutData {
            file,
            tensor,
            end,
            found: len,
        });
    }
    // Both are at most `len`, the size of a slice, so nothing is cut off or overflows.
    Ok(Entry {
        dtype,
        shape,
        range: start + begin as usize..start + end as usize,
    })
}

/// A shape for an error: the first dimensions of what may be very many.
fn shape_text(shape: &[u64]) -> String {
    match shape {
        [head @ .., _] if head.len() >= 8 => {
            format!("{:?} and {} more", &shape[..8], shape.len() - 8)
        }
        _ => format!("{shape:?}"),
    }
}

/// The name of a type in the format.
pub fn type_name(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "BOOL",
        DType::U8 => "U8",
        DType::I8 => "I8",
        DType::F8E5M2 => "F8_E5M2",
        DType::F8E4M3 => "F8_E4M3",
        DType::I16 => "I16",
        DType::U16 => "U16",
        DType::F16 => "F16",
        DType::BF16 => "BF16",
        DType::I32 => "I32",
        DType::U32 => "U32",
        DType::F32 => "F32",
        DType::I64 => "I64",
        DType::U64 => "U64",
        DType::F64 => "F64",
    }
}

#[cfg(test)]
mod tests;
