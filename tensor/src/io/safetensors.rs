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

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::fmt;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

use codegen::DType;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::map::Bytes;
use super::replace::replace;
use super::{FileError, MAX_ELEMENTS, Quoted, element_count, nearest};

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
        "{file}: expected at least 8 bytes with the length of the header, found {found}; the file \
         is empty or was cut off: fetch it again"
    )]
    NoLength { file: String, found: u64 },
    #[error(
        "{file}: expected a header of at most {MAX_HEADER} bytes, found a length of {found}; this \
         is probably not a safetensors file"
    )]
    LongHeader { file: String, found: u64 },
    #[error(
        "{file}: expected a header of {expected} bytes, found {found} bytes after its length; the \
         file was cut off: fetch it again"
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
        "{file}: tensor {tensor}: expected one entry, found a second one; rename one of them and \
         write the file again"
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
        "{file}: tensor {tensor}: expected data_offsets that do not step back, found {begin} to \
         {end}; the header is damaged: fetch the file again"
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
         the file was cut off: fetch it again"
    )]
    CutData {
        file: String,
        tensor: Quoted,
        end: u64,
        found: u64,
    },
    #[error(
        "{file}: tensor {tensor}: expected its data to begin at offset {expected}, where tensor \
         {previous} ends, found {found}, which overlaps; the writer of the file is broken"
    )]
    Overlap {
        file: String,
        tensor: Quoted,
        previous: Quoted,
        expected: u64,
        found: u64,
    },
    #[error(
        "{file}: tensor {tensor}: expected its data to begin at offset {expected}, where the \
         previous data ends, found {found}: a hole of {} bytes; the writer of the file is broken",
        found - expected
    )]
    Hole {
        file: String,
        tensor: Quoted,
        expected: u64,
        found: u64,
    },
    #[error(
        "{file}: expected the data to end at offset {expected}, found {} more bytes that belong to \
         no tensor; the file is damaged or something was appended to it", found - expected
    )]
    Trailing {
        file: String,
        expected: u64,
        found: u64,
    },
    #[error("{file}: expected a tensor {tensor}, found none of that name{hint}")]
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
    /// The first fault that is found, see [`SafetensorsError`].
    pub fn open(path: impl AsRef<Path>) -> Result<File, SafetensorsError> {
        let path = path.as_ref();
        let bytes = Bytes::map(path)?;
        File::checked(path.display().to_string(), bytes)
    }

    /// Takes a file that is in memory; `name` stands for the path in errors.
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
        Err(de::Error::custom("a value that is no object"))
    }
}

impl Header {
    /// Parses and checks the header of a whole file; `file` names it in errors.
    ///
    /// Memory is taken for the header only, in proportion to its length, which is checked first.
    ///
    /// # Errors
    /// The first fault that is found, see [`SafetensorsError`].
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

/// A tensor to write.
#[derive(Clone, Copy, Debug)]
pub struct TensorRef<'a> {
    /// The name, not `__metadata__`.
    pub name: &'a str,
    /// The element type.
    pub dtype: DType,
    /// The dimensions; empty for a scalar.
    pub shape: &'a [usize],
    /// The bytes: little-endian, C order.
    pub data: &'a [u8],
}

/// Writes a file, replacing what was at `path` in one step.
///
/// The order in the file depends on the tensors alone, not on the order they come in: wide types
/// first, which keeps each tensor aligned to its own element, then by name. The data begins at a
/// multiple of 8 bytes.
///
/// # Errors
/// Duplicate or reserved names, data that does not fit its shape, or what the system answered.
pub fn write<'a>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = TensorRef<'a>>,
    metadata: &BTreeMap<String, String>,
) -> Result<(), SafetensorsError> {
    let path = path.as_ref();
    let mut tensors: Vec<TensorRef<'_>> = tensors.into_iter().collect();
    tensors.sort_by_key(|t| (std::cmp::Reverse(t.dtype.size()), t.name));
    let header = build_header(&path.display().to_string(), &tensors, metadata)?;
    replace(path, |out| {
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(header.as_bytes())?;
        tensors
            .iter()
            .try_for_each(|tensor| out.write_all(tensor.data))
    })?;
    Ok(())
}

/// The header of tensors that lie in the order given, padded.
fn build_header(
    file: &str,
    tensors: &[TensorRef<'_>],
    metadata: &BTreeMap<String, String>,
) -> Result<String, SafetensorsError> {
    use SafetensorsError as E;
    let mut seen = std::collections::BTreeSet::new();
    let mut members = Vec::new();
    if !metadata.is_empty() {
        members.push(format!(
            "{}:{}",
            quote(METADATA),
            serde_json::json!(metadata)
        ));
    }
    let mut offset = 0u64;
    for t in tensors {
        let (file, tensor) = (file.to_string(), Quoted::new(t.name));
        if t.name == METADATA {
            return Err(E::Reserved { file });
        }
        if !seen.insert(t.name) {
            return Err(E::Duplicate { file, tensor });
        }
        let bytes = element_count(t.shape).and_then(|n| n.checked_mul(t.dtype.size()));
        let Some(expected) = bytes else {
            return Err(E::Elements {
                file,
                tensor,
                shape: format!("{:?}", t.shape),
            });
        };
        if t.data.len() != expected {
            let (dtype, shape) = (t.dtype, format!("{:?}", t.shape));
            let (expected, found) = (expected as u64, t.data.len() as u64);
            return Err(E::Size {
                file,
                tensor,
                dtype,
                shape,
                expected,
                found,
            });
        }
        let end = offset + expected as u64;
        let entry = serde_json::json!({
            "dtype": type_name(t.dtype), "shape": t.shape, "data_offsets": [offset, end],
        });
        members.push(format!("{}:{entry}", quote(t.name)));
        offset = end;
    }
    let mut header = format!("{{{}}}", members.join(","));
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    if header.len() as u64 > MAX_HEADER {
        return Err(E::LongHeader {
            file: file.to_string(),
            found: header.len() as u64,
        });
    }
    Ok(header)
}

/// A JSON string.
fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A file with this header and this many bytes of data.
    fn file(header: &str, data: usize) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend((0..data).map(|i| i as u8));
        bytes
    }

    fn fault(bytes: &[u8]) -> String {
        Header::parse("m.safetensors", bytes)
            .unwrap_err()
            .to_string()
    }

    const GOOD: &str = r#"{"__metadata__":{"format":"pt"},"b":{"dtype":"F16","shape":[],"data_offsets":[24,26]},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}  "#;

    #[test]
    fn a_good_file_is_read() {
        let bytes = file(GOOD, 26);
        let file = File::from_bytes("m", bytes).unwrap();
        assert_eq!(file.tensors().len(), 2);
        assert_eq!(file.metadata()["format"], "pt");
        let a = file.entry("a").unwrap();
        assert_eq!((a.dtype, a.shape.as_slice()), (DType::F32, &[2, 3][..]));
        assert_eq!(file.data("a").unwrap(), (0..24).collect::<Vec<u8>>());
        assert_eq!(file.data("b").unwrap(), [24, 25]);
        assert_eq!(file.entry("b").unwrap().shape, [] as [usize; 0]);
    }

    #[test]
    fn names_cover_all_types_once() {
        for dtype in DType::ALL {
            assert!(NAMES.contains(&(type_name(dtype), dtype)));
        }
        assert_eq!(NAMES.len(), DType::ALL.len());
    }

    #[test]
    fn files_without_a_header() {
        assert_eq!(
            fault(b"1234567"),
            "m.safetensors: expected at least 8 bytes with the length of the header, found 7; the \
             file is empty or was cut off: fetch it again"
        );
        assert_eq!(
            fault(&[0xff; 8]),
            "m.safetensors: expected a header of at most 100000000 bytes, found a length of \
             18446744073709551615; this is probably not a safetensors file"
        );
        assert_eq!(
            fault(&file(GOOD, 26)[..100]),
            "m.safetensors: expected a header of 144 bytes, found 92 bytes after its length; the \
             file was cut off: fetch it again"
        );
        assert_eq!(
            fault(b"\x04\0\0\0\0\0\0\0{\"\xff}"),
            "m.safetensors: expected a header in UTF-8, found an invalid byte at offset 10; this is \
             probably not a safetensors file"
        );
    }

    #[test]
    fn headers_that_are_no_object() {
        let tail = "; this is probably not a safetensors file, or its writer is broken";
        for (header, found) in [
            ("", "nothing"),
            ("[]", "'[' at its start"),
            (" {}", "' ' at its start"),
            ("{", "EOF while parsing an object at line 1 column 1"),
            ("{} x", "trailing characters at line 1 column 4"),
            (r#"{"a" 1}"#, "expected `:` at line 1 column 6"),
        ] {
            assert_eq!(
                fault(&file(header, 0)),
                format!(
                    "m.safetensors: expected a header that is one JSON object, found: {found}{tail}"
                )
            );
        }
    }

    #[test]
    fn deep_nesting_is_an_error() {
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
            let deep = format!(
                "{{\"t\":{}1{}}}",
                open.repeat(100_000),
                close.repeat(100_000)
            );
            let text = fault(&file(&deep, 0));
            assert!(
                text.contains("expected exactly dtype, shape and data_offsets"),
                "{text}"
            );
        }
    }

    #[test]
    fn entries_that_are_malformed() {
        let entry = |found: &str| {
            format!(
                "m.safetensors: tensor \"w\": expected exactly dtype, shape and data_offsets, found: \
                 {found}; the writer of the file is broken"
            )
        };
        for (value, expected) in [
            ("3", entry("a value that is no object")),
            (r#"["F32",[1],[0,4]]"#, entry("a value that is no object")),
            (r#"{"shape":[1],"data_offsets":[0,4]}"#, entry("missing field `dtype` at line 1 column 34")),
            (
                r#"{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}"#,
                entry("unknown field `x`, expected one of `dtype`, `shape`, `data_offsets` at line 1 column 51"),
            ),
            (
                r#"{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}"#,
                entry("duplicate field `dtype` at line 1 column 22"),
            ),
            (
                r#"{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}"#,
                entry("invalid value: integer `-1`, expected u64 at line 1 column 26"),
            ),
            (
                r#"{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}"#,
                entry("invalid type: floating point `1.0`, expected u64 at line 1 column 27"),
            ),
            (
                r#"{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}"#,
                entry("trailing characters at line 1 column 48"),
            ),
            (
                r#"{"dtype":"F32","shape":[1],"data_offsets":[4]}"#,
                entry("invalid length 1, expected a tuple of size 2 at line 1 column 45"),
            ),
            (
                r#"{"dtype":"F33","shape":[1],"data_offsets":[0,4]}"#,
                "m.safetensors: tensor \"w\": expected dtype BOOL, U8, I8, F8_E5M2, F8_E4M3, I16, \
                 U16, F16, BF16, I32, U32, F32, I64, U64, F64, found \"F33\"; convert the tensor to \
                 one of these"
                    .to_string(),
            ),
            (
                r#"{"dtype":"F32","shape":[2147483648,2147483648],"data_offsets":[0,4]}"#,
                "m.safetensors: tensor \"w\": expected a shape of at most 1152921504606846976 \
                 elements, found [2147483648, 2147483648]; the header is damaged: fetch the file \
                 again"
                    .to_string(),
            ),
            (
                r#"{"dtype":"F32","shape":[1],"data_offsets":[4,0]}"#,
                "m.safetensors: tensor \"w\": expected data_offsets that do not step back, found 4 \
                 to 0; the header is damaged: fetch the file again"
                    .to_string(),
            ),
            (
                r#"{"dtype":"F32","shape":[2],"data_offsets":[0,4]}"#,
                "m.safetensors: tensor \"w\": expected 8 bytes for f32 [2], found 4 in its \
                 data_offsets; shape, dtype or offsets are wrong: fetch the file again"
                    .to_string(),
            ),
            (
                r#"{"dtype":"F32","shape":[2],"data_offsets":[0,8]}"#,
                "m.safetensors: tensor \"w\": expected data up to offset 8, found 4 bytes of data; \
                 the file was cut off: fetch it again"
                    .to_string(),
            ),
        ] {
            assert_eq!(fault(&file(&format!("{{\"w\":{value}}}"), 4)), expected, "{value}");
        }
    }

    #[test]
    fn tensors_that_do_not_tile_the_data() {
        let two = |a: [u64; 2], b: [u64; 2], data| {
            let entry = |r: [u64; 2]| {
                format!(
                    r#"{{"dtype":"U8","shape":[{}],"data_offsets":{r:?}}}"#,
                    r[1] - r[0]
                )
            };
            fault(&file(
                &format!("{{\"a\":{},\"b\":{}}}", entry(a), entry(b)),
                data,
            ))
        };
        assert_eq!(
            two([0, 4], [3, 6], 6),
            "m.safetensors: tensor \"b\": expected its data to begin at offset 4, where tensor \
             \"a\" ends, found 3, which overlaps; the writer of the file is broken"
        );
        assert_eq!(
            two([0, 4], [6, 8], 8),
            "m.safetensors: tensor \"b\": expected its data to begin at offset 4, where the \
             previous data ends, found 6: a hole of 2 bytes; the writer of the file is broken"
        );
        assert_eq!(
            two([1, 4], [4, 8], 8),
            "m.safetensors: tensor \"a\": expected its data to begin at offset 0, where the \
             previous data ends, found 1: a hole of 1 bytes; the writer of the file is broken"
        );
        assert_eq!(
            two([0, 4], [4, 8], 9),
            "m.safetensors: expected the data to end at offset 8, found 1 more bytes that belong to \
             no tensor; the file is damaged or something was appended to it"
        );
    }

    #[test]
    fn names_and_metadata_are_distinct() {
        let entry = r#"{"dtype":"U8","shape":[0],"data_offsets":[0,0]}"#;
        assert_eq!(
            fault(&file(&format!("{{\"a\":{entry},\"a\":{entry}}}"), 0)),
            "m.safetensors: tensor \"a\": expected one entry, found a second one; rename one of \
             them and write the file again"
        );
        let metadata = |value: &str| fault(&file(&format!("{{\"__metadata__\":{value}}}"), 0));
        let text = |found: &str| {
            format!(
                "m.safetensors: __metadata__: expected an object of distinct strings, found: \
                 {found}; store other values as text"
            )
        };
        assert_eq!(metadata(r#"{"k":"v","k":"w"}"#), text(r#"a second "k""#));
        assert_eq!(metadata("[]"), text("a value that is no object"));
        assert_eq!(
            metadata(r#"{"k":1}"#),
            text("invalid type: integer `1`, expected a string at line 1 column 6")
        );
        let twice = file(r#"{"__metadata__":{},"__metadata__":{}}"#, 0);
        assert!(fault(&twice).contains("\"__metadata__\": expected one entry"));
    }

    #[test]
    fn an_unknown_tensor_gets_a_suggestion() {
        let entry = r#"{"dtype":"U8","shape":[0],"data_offsets":[0,0]}"#;
        let header = format!("{{\"layer.0.weight\":{entry},\"layer.0.bias\":{entry}}}");
        let file = File::from_bytes("m", file(&header, 0)).unwrap();
        assert_eq!(
            file.data("layer.0.wieght").unwrap_err().to_string(),
            "m: expected a tensor \"layer.0.wieght\", found none of that name; did you mean \
             \"layer.0.weight\"?"
        );
        assert_eq!(
            file.data("q").unwrap_err().to_string(),
            "m: expected a tensor \"q\", found none of that name; the file has 2 tensors"
        );
    }

    #[test]
    fn the_writer_refuses_what_the_reader_would() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w");
        let none = BTreeMap::new();
        let t = |name, data| TensorRef {
            name,
            dtype: DType::F32,
            shape: &[1],
            data,
        };
        let fault = |tensors: &[TensorRef<'_>]| {
            write(&path, tensors.iter().copied(), &none)
                .unwrap_err()
                .to_string()
        };
        assert!(fault(&[t("a", &[0; 4]), t("a", &[0; 4])]).contains("found a second one"));
        assert!(fault(&[t("a", &[0; 5])]).contains("expected 4 bytes for f32 [1], found 5"));
        assert!(fault(&[t("__metadata__", &[0; 4])]).contains("is reserved"));
        assert!(!path.exists());
    }

    #[test]
    fn all_types_survive_a_round_trip_in_any_order() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("1"), folder.path().join("2"));
        let data: Vec<u8> = (0..48).collect();
        let tensors: Vec<TensorRef<'_>> = DType::ALL
            .iter()
            .map(|&dtype| TensorRef {
                name: dtype.name(),
                dtype,
                shape: &[2, 3],
                data: &data[..6 * dtype.size()],
            })
            .collect();
        let metadata = BTreeMap::from([("k\"\n".to_string(), "v\u{1F980}".to_string())]);
        write(&one, tensors.iter().copied(), &metadata).unwrap();
        write(&two, tensors.iter().rev().copied(), &metadata).unwrap();
        assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap());
        let file = File::open(&one).unwrap();
        assert_eq!(file.metadata(), &metadata);
        assert_eq!(file.tensors().len(), 15);
        for t in tensors {
            let entry = file.entry(t.name).unwrap();
            assert_eq!((entry.dtype, entry.shape.as_slice()), (t.dtype, t.shape));
            assert_eq!(entry.range.start % t.dtype.size(), 0);
            assert_eq!(file.data(t.name).unwrap(), t.data);
        }
    }

    #[test]
    fn a_file_without_tensors_is_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("e");
        write(&path, [], &BTreeMap::new()).unwrap();
        assert!(File::open(&path).unwrap().tensors().is_empty());
    }

    /// Whatever was accepted must hold together.
    fn check(bytes: &[u8]) {
        if let Ok(header) = Header::parse("f", bytes) {
            let start = 8 + u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
            let mut total = 0;
            for entry in header.tensors.values() {
                let n: usize = entry.shape.iter().product();
                assert_eq!(entry.range.len(), n * entry.dtype.size());
                assert!(entry.range.start >= start && entry.range.end <= bytes.len());
                total += entry.range.len();
            }
            assert_eq!(start + total, bytes.len());
        }
    }

    #[test]
    fn every_single_byte_change_and_cut_is_handled() {
        let good = file(GOOD, 26);
        for cut in 0..good.len() {
            check(&good[..cut]);
            assert!(Header::parse("f", &good[..cut]).is_err());
        }
        let mut bytes = good.clone();
        for at in 0..good.len() {
            for value in 0..=255 {
                bytes[at] = value;
                check(&bytes);
            }
            bytes[at] = good[at];
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_handled(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            check(&bytes);
        }

        #[test]
        fn any_numbers_are_handled(shape in proptest::collection::vec(any::<u64>(), 0..4),
                                   begin in any::<u64>(), end in any::<u64>()) {
            let header = format!(
                r#"{{"t":{{"dtype":"F64","shape":{shape:?},"data_offsets":[{begin},{end}]}}}}"#
            );
            check(&file(&header, 64));
        }

        #[test]
        fn splices_are_handled(at in 0usize..200, cut in 0usize..20,
                               text in r#"[\{\}\[\]":,0-9a-zU ]{0,12}"#) {
            let mut header = GOOD.as_bytes().to_vec();
            let at = at.min(header.len());
            let end = (at + cut).min(header.len());
            header.splice(at..end, text.bytes());
            check(&file(std::str::from_utf8(&header).unwrap(), 26));
        }
    }
}
