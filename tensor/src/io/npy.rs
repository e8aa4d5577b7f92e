//! The npy format of NumPy: one array behind a short header that is a Python dictionary.
//!
//! ```text
//! 6 bytes   93 'N' 'U' 'M' 'P' 'Y'
//! 2 bytes   version: 1.0, 2.0 or 3.0
//! 2 or 4    length N of the header, little-endian (2 bytes in version 1)
//! N bytes   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   padded
//! the rest  the elements
//! ```
//!
//! Format: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.
//!
//! Reading turns Fortran order into C order and big-endian elements into little-endian ones.

use std::io::{self, Write};
use std::path::Path;

use codegen::DType;

use super::map::Bytes;
use super::replace::replace;
use super::{FileError, MAX_ELEMENTS, Quoted, element_count};

/// The longest header that is read. NumPy's own are a few hundred bytes; only structured types,
/// which are refused, need more.
pub const MAX_HEADER: usize = 1 << 16;

/// Most dimensions, as in NumPy 2.
pub const MAX_RANK: usize = 64;

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Why an array could not be read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The texts say what the fields are.
pub enum NpyError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(
        "{file}: expected the signature \\x93NUMPY, found {found}; this is not an npy file (npz \
         archives begin with PK)"
    )]
    Magic { file: String, found: String },
    #[error(
        "{file}: expected npy version 1.0, 2.0 or 3.0, found {major}.{minor}; save the array with \
         numpy.save again"
    )]
    Version { file: String, major: u8, minor: u8 },
    #[error(
        "{file}: expected a header of at most {MAX_HEADER} bytes, found a length of {found}; this \
         is probably not an npy file"
    )]
    LongHeader { file: String, found: u64 },
    #[error(
        "{file}: expected {expected} bytes of header, found {found}; the file is truncated: fetch it again"
    )]
    CutHeader {
        file: String,
        expected: usize,
        found: usize,
    },
    #[error(
        "{file}: header: expected {expected} at byte {at}, found {found}; save the array with \
         numpy.save again"
    )]
    Syntax {
        file: String,
        at: usize,
        expected: &'static str,
        found: String,
    },
    #[error(
        "{file}: header: expected each of descr, fortran_order and shape once, found {found}; save \
         the array with numpy.save again"
    )]
    Keys { file: String, found: String },
    #[error("{file}: expected a numeric element type, found descr {descr} ({kind}); {hint}")]
    Type {
        file: String,
        descr: Quoted,
        kind: &'static str,
        hint: &'static str,
    },
    #[error(
        "{file}: expected at most {MAX_RANK} dimensions, found {found}; reshape the array before saving it"
    )]
    Rank { file: String, found: usize },
    #[error(
        "{file}: expected a shape of at most {MAX_ELEMENTS} elements, found {shape}; the header is \
         damaged: fetch the file again"
    )]
    Elements { file: String, shape: String },
    #[error(
        "{file}: expected {expected} bytes for {dtype} {shape}, found {found}; {}",
        if found < expected { "the file is truncated: fetch it again" }
        else { "more than one array in a file is not supported: save them as npz" }
    )]
    Size {
        file: String,
        dtype: DType,
        shape: String,
        expected: u64,
        found: u64,
    },
    #[error(
        "{file}: the npy format has no name for {dtype}; cast to f32 first, or write safetensors"
    )]
    NoName { file: String, dtype: DType },
}

/// An array in memory: little-endian, C order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Array {
    /// The element type.
    pub dtype: DType,
    /// The dimensions; empty for a scalar.
    pub shape: Vec<usize>,
    /// The bytes, exactly as many as shape and type need.
    pub data: Vec<u8>,
}

/// The checked header of an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The element type.
    pub dtype: DType,
    /// The dimensions.
    pub shape: Vec<usize>,
    /// The first dimension varies fastest.
    pub fortran_order: bool,
    /// The most significant byte of an element comes first.
    pub big_endian: bool,
    /// Where the elements begin, in bytes from the start.
    pub data_start: usize,
    /// How many bytes the elements take.
    pub data_len: usize,
}

/// Reads an array from a file.
///
/// # Errors
/// The first error found, see [`NpyError`].
pub fn read(path: impl AsRef<Path>) -> Result<Array, NpyError> {
    let path = path.as_ref();
    let bytes = Bytes::map(path)?;
    parse(&path.display().to_string(), &bytes)
}

/// Reads an array from a whole file in memory; `file` names it in errors.
///
/// # Errors
/// As [`read`].
pub fn parse(file: &str, bytes: &[u8]) -> Result<Array, NpyError> {
    let header = Header::parse(file, bytes)?;
    let data = bytes.get(header.data_start..).unwrap_or_default();
    header.check_len(file, data.len() as u64)?;
    Ok(header.array(data.to_vec()))
}

impl Header {
    /// Parses the header at the start of `bytes`, which may or may not hold the elements as well.
    ///
    /// # Errors
    /// All of [`NpyError`] but `Size` and `NoName`.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Header, NpyError> {
        let name = || file.to_string();
        if !bytes.starts_with(MAGIC) {
            let found = match bytes {
                [] => "an empty file".to_string(),
                _ => format!("\"{}\"", bytes[..bytes.len().min(6)].escape_ascii()),
            };
            return Err(NpyError::Magic {
                file: name(),
                found,
            });
        }
        let cut = |expected| NpyError::CutHeader {
            file: name(),
            expected,
            found: bytes.len(),
        };
        let &[_, _, _, _, _, _, major, minor, ref rest @ ..] = bytes else {
            return Err(cut(8));
        };
        let (length, text_start) = match (major, minor) {
            (1, 0) => {
                let length = rest.first_chunk().ok_or_else(|| cut(10))?;
                (u64::from(u16::from_le_bytes(*length)), 10)
            }
            (2 | 3, 0) => {
                let length = rest.first_chunk().ok_or_else(|| cut(12))?;
                (u64::from(u32::from_le_bytes(*length)), 12)
            }
            _ => {
                return Err(NpyError::Version {
                    file: name(),
                    major,
                    minor,
                });
            }
        };
        if length > MAX_HEADER as u64 {
            return Err(NpyError::LongHeader {
                file: name(),
                found: length,
            });
        }
        let data_start = text_start + length as usize;
        let text = bytes
            .get(text_start..data_start)
            .ok_or_else(|| cut(data_start))?;
        let fields = Literal { file, text, at: 0 }.dictionary()?;
        let (dtype, big_endian) = element_type(file, &fields.descr)?;
        let shape = fields.shape;
        if shape.len() > MAX_RANK {
            return Err(NpyError::Rank {
                file: name(),
                found: shape.len(),
            });
        }
        let data_len = element_count(&shape).and_then(|n| n.checked_mul(dtype.size()));
        let Some(data_len) = data_len else {
            return Err(NpyError::Elements {
                file: name(),
                shape: format!("{shape:?}"),
            });
        };
        let fortran_order = fields.fortran_order;
        Ok(Header {
            dtype,
            shape,
            fortran_order,
            big_endian,
            data_start,
            data_len,
        })
    }

    /// That what follows the header is as long as the header says.
    pub(super) fn check_len(&self, file: &str, found: u64) -> Result<(), NpyError> {
        if found == self.data_len as u64 {
            return Ok(());
        }
        Err(NpyError::Size {
            file: file.to_string(),
            dtype: self.dtype,
            shape: format!("{:?}", self.shape),
            expected: self.data_len as u64,
            found,
        })
    }

    /// The array, from its `data_len` bytes as they stand in the file.
    pub(super) fn array(self, mut data: Vec<u8>) -> Array {
        if self.big_endian {
            data.chunks_exact_mut(self.dtype.size())
                .for_each(<[u8]>::reverse);
        }
        if self.fortran_order && self.shape.iter().filter(|&&dim| dim > 1).count() > 1 {
            data = to_c_order(&data, &self.shape, self.dtype.size());
        }
        Array {
            dtype: self.dtype,
            shape: self.shape,
            data,
        }
    }
}

/// Copies elements so that the last dimension varies fastest instead of the first.
fn to_c_order(data: &[u8], shape: &[usize], size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len());
    // Walks the output in order; `from` is where the current element stands in the input.
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = size;
    for &dim in shape {
        strides.push(stride);
        stride *= dim;
    }
    let mut index = vec![0usize; shape.len()];
    let mut from = 0;
    while out.len() < data.len() {
        out.extend_from_slice(&data[from..from + size]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            from += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            from -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
    out
}

/// The type and the byte order that a `descr` names.
fn element_type(file: &str, descr: &str) -> Result<(DType, bool), NpyError> {
    let refuse = |kind, hint| NpyError::Type {
        file: file.to_string(),
        descr: Quoted::new(descr),
        kind,
        hint,
    };
    let (order, code) = match descr.as_bytes() {
        [order @ (b'<' | b'>' | b'|' | b'='), ..] => (*order, &descr[1..]),
        _ => (b'=', descr),
    };
    let dtype = match code {
        "b1" | "?" => DType::Bool,
        "i1" => DType::I8,
        "i2" => DType::I16,
        "i4" => DType::I32,
        "i8" => DType::I64,
        "u1" => DType::U8,
        "u2" => DType::U16,
        "u4" => DType::U32,
        "u8" => DType::U64,
        "f2" => DType::F16,
        "f4" => DType::F32,
        "f8" => DType::F64,
        _ => {
            let cast = "convert it with .astype before saving";
            return Err(match code.as_bytes().first() {
                Some(b'c') => refuse("complex", "save real and imaginary parts as two arrays"),
                Some(b'f') => refuse("an extended float", cast),
                Some(b'O') => refuse("Python objects", "objects need pickle, which runs code"),
                Some(b'S' | b'U' | b'a') => refuse("text", "map the strings to numbers first"),
                Some(b'M' | b'm') => refuse("times", cast),
                Some(b'V') => refuse(
                    "raw bytes, perhaps bfloat16 or float8",
                    "cast to float32 before saving, or use safetensors",
                ),
                _ => refuse("unknown", cast),
            });
        }
    };
    // '|' says that order does not matter, which is true of single bytes only.
    if order == b'|' && dtype.size() > 1 {
        return Err(refuse(
            "no byte order",
            "save the array with numpy.save again",
        ));
    }
    let big = order == b'>' || (order == b'=' && cfg!(target_endian = "big"));
    Ok((dtype, big))
}

/// What the dictionary says.
struct Fields {
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

/// A reader of the part of Python's literals that headers are made of.
struct Literal<'a> {
    file: &'a str,
    text: &'a [u8],
    at: usize,
}

impl Literal<'_> {
    fn dictionary(mut self) -> Result<Fields, NpyError> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        let file = self.file.to_string();
        self.expect(b'{', "'{'")?;
        while !self.take(b'}') {
            let key = self.string("a key")?;
            self.expect(b':', "':'")?;
            let repeated = match key.as_str() {
                "descr" => descr.replace(self.descr()?).is_some(),
                "fortran_order" => fortran_order.replace(self.boolean()?).is_some(),
                "shape" => shape.replace(self.tuple()?).is_some(),
                _ => {
                    let found = format!("an unknown key {}", Quoted::new(&key));
                    return Err(NpyError::Keys { file, found });
                }
            };
            if repeated {
                return Err(NpyError::Keys {
                    file,
                    found: format!("a second {key}"),
                });
            }
            if !self.take(b',') {
                self.expect(b'}', "',' or '}'")?;
                break;
            }
        }
        self.skip_space();
        if self.at < self.text.len() {
            return Err(self.syntax("the end"));
        }
        let missing = |key: &str| NpyError::Keys {
            file: file.clone(),
            found: format!("no {key}"),
        };
        Ok(Fields {
            descr: descr.ok_or_else(|| missing("descr"))?,
            fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }

    fn descr(&mut self) -> Result<String, NpyError> {
        self.skip_space();
        if self.text.get(self.at) == Some(&b'[') {
            return Err(NpyError::Type {
                file: self.file.to_string(),
                descr: Quoted::new(&String::from_utf8_lossy(&self.text[self.at..])),
                kind: "a structured type",
                hint: "save each of its fields as an array",
            });
        }
        self.string("a string")
    }

    /// A string in either quote. Names and types need no escapes, so none are understood.
    fn string(&mut self, expected: &'static str) -> Result<String, NpyError> {
        self.skip_space();
        let rest = &self.text[self.at..];
        let Some(&quote @ (b'\'' | b'"')) = rest.first() else {
            return Err(self.syntax(expected));
        };
        let Some(len) = rest[1..].iter().position(|&b| b == quote || b == b'\\') else {
            self.at = self.text.len();
            return Err(self.syntax("a closing quote"));
        };
        if rest[1 + len] != quote {
            self.at += 1 + len;
            return Err(self.syntax("a string without escapes"));
        }
        self.at += len + 2;
        Ok(String::from_utf8_lossy(&rest[1..1 + len]).into_owned())
    }

    fn boolean(&mut self) -> Result<bool, NpyError> {
        self.skip_space();
        for (word, value) in [("True", true), ("False", false)] {
            if self.text[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.syntax("True or False"))
    }

    /// `()`, `(3,)`, `(3, 4)`, `(3, 4,)`. Python 2 wrote `3L`.
    fn tuple(&mut self) -> Result<Vec<usize>, NpyError> {
        self.expect(b'(', "'('")?;
        let mut dims = Vec::new();
        while !self.take(b')') {
            dims.push(self.number()?);
            self.take(b'L');
            if self.take(b',') {
                continue;
            }
            if dims.len() == 1 {
                return Err(self.syntax("',' after the only dimension"));
            }
            self.expect(b')', "',' or ')'")?;
            break;
        }
        Ok(dims)
    }

    fn number(&mut self) -> Result<usize, NpyError> {
        self.skip_space();
        let digits = self.text[self.at..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        let text = &self.text[self.at..self.at + digits];
        let value = std::str::from_utf8(text).ok().and_then(|t| t.parse().ok());
        let value = value.ok_or_else(|| self.syntax("a dimension that fits 64 bits"))?;
        self.at += digits;
        Ok(value)
    }

    fn skip_space(&mut self) {
        let space = |b: &&u8| b.is_ascii_whitespace() || **b == 0;
        self.at += self.text[self.at..].iter().take_while(space).count();
    }

    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let found = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), NpyError> {
        if self.take(byte) {
            Ok(())
        } else {
            Err(self.syntax(expected))
        }
    }

    fn syntax(&self, expected: &'static str) -> NpyError {
        let rest = &self.text[self.at..];
        let found = match rest {
            [] => "the end".to_string(),
            _ => format!("\"{}\"", rest[..rest.len().min(12)].escape_ascii()),
        };
        NpyError::Syntax {
            file: self.file.to_string(),
            at: self.at,
            expected,
            found,
        }
    }
}

/// Writes an array, atomically replacing `path`.
///
/// # Errors
/// [`NpyError::NoName`] for bf16 and the 8-bit floats, [`NpyError::Size`] for data that does not fit its shape, or
/// an error of the operating system.
pub fn write(
    path: impl AsRef<Path>,
    dtype: DType,
    shape: &[usize],
    data: &[u8],
) -> Result<(), NpyError> {
    let path = path.as_ref();
    let header = build_header(&path.display().to_string(), dtype, shape, data.len())?;
    Ok(replace(path, |out| write_parts(out, &header, data))?)
}

/// The two parts of a file, one after the other.
pub(super) fn write_parts(out: &mut impl Write, header: &[u8], data: &[u8]) -> io::Result<()> {
    out.write_all(header)?;
    out.write_all(data)
}

/// Everything before the elements, padded so that they begin at a multiple of 64 bytes.
pub(super) fn build_header(
    file: &str,
    dtype: DType,
    shape: &[usize],
    data_len: usize,
) -> Result<Vec<u8>, NpyError> {
    let file = || file.to_string();
    let descr = match dtype {
        DType::Bool => "|b1",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::U8 => "|u1",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::BF16 | DType::F8E4M3 | DType::F8E5M2 => {
            return Err(NpyError::NoName {
                file: file(),
                dtype,
            });
        }
    };
    if shape.len() > MAX_RANK {
        return Err(NpyError::Rank {
            file: file(),
            found: shape.len(),
        });
    }
    let dims = format!("{shape:?}");
    let expected = element_count(shape).and_then(|n| n.checked_mul(dtype.size()));
    let Some(expected) = expected else {
        return Err(NpyError::Elements {
            file: file(),
            shape: dims,
        });
    };
    if data_len != expected {
        let (expected, found) = (expected as u64, data_len as u64);
        return Err(NpyError::Size {
            file: file(),
            dtype,
            shape: dims,
            expected,
            found,
        });
    }
    let dims = match shape {
        [only] => format!("{only},"),
        _ => dims[1..dims.len() - 1].to_string(),
    };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}), }}");
    let padded = (10 + text.len() + 1).next_multiple_of(64);
    text.push_str(&" ".repeat(padded - 10 - text.len() - 1));
    text.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&[1, 0]);
    // MAX_RANK dimensions of 20 digits stay far below 64 KiB.
    bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests;
