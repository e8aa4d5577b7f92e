//! Tensors in a file: checked before anything is allocated, borrowed from the file where the
//! format allows it.

use std::collections::HashMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use codegen::DType;
use codegen::interp::scalar;

use super::elem::{self, Elem};
use super::proto::{EXTERNAL, SparseTensorProto, StringStringEntryProto, TensorProto};
use crate::graph::Source;
use crate::io::{self, MAX_ELEMENTS, Quoted, Shared};

/// A constant of a model.
#[derive(Clone, Debug)]
pub enum Literal {
    /// Numbers: little-endian, row-major, in the type that [`Elem::held`] says.
    Array {
        /// The type in the format.
        elem: Elem,
        /// Sizes of the axes.
        shape: Vec<usize>,
        /// The elements.
        bytes: Bytes,
        /// Where in a file they are, if they are there as they are here.
        place: Option<FilePlace>,
    },
    /// Strings, row-major.
    Strings {
        /// Sizes of the axes.
        shape: Vec<usize>,
        /// The elements.
        items: Arc<[String]>,
    },
}

/// Where the elements of a constant are in an open file.
#[derive(Clone, Debug)]
pub struct FilePlace(io::Region);

impl Source for FilePlace {
    fn bytes(&self) -> usize {
        self.0.len()
    }

    fn read_at(&self, offset: usize, into: &mut [u8]) -> std::io::Result<()> {
        self.0.read_at(offset, into)
    }
}

impl Literal {
    /// Sizes of the axes.
    pub fn shape(&self) -> &[usize] {
        match self {
            Literal::Array { shape, .. } | Literal::Strings { shape, .. } => shape,
        }
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.shape().iter().product()
    }
}

impl fmt::Display for Literal {
    /// The elements, row-major.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elements: Vec<String> = match self {
            Literal::Array { elem, bytes, .. } => {
                let dtype = elem.held();
                let elements = bytes.chunks_exact(dtype.size());
                let bits = elements.map(|e| scalar::read(dtype, e));
                bits.map(|bits| match dtype {
                    DType::Bool => (bits != 0).to_string(),
                    _ if dtype.is_float() => scalar::to_f64(dtype, bits).to_string(),
                    _ => scalar::to_int(dtype, bits).to_string(),
                })
                .collect()
            }
            Literal::Strings { items, .. } => items
                .iter()
                .map(|item| Quoted::new(item).to_string())
                .collect(),
        };
        match (self.shape(), &elements[..]) {
            ([], [one]) => f.write_str(one),
            _ => write!(f, "[{}]", elements.join(", ")),
        }
    }
}

/// What is wrong with a tensor: in words, or what the file holds is not there.
pub(super) enum DataFault {
    Wrong(String),
    Unsupported(String),
    File(io::FileError),
}

fn wrong<T>(what: impl Into<String>) -> Result<T, DataFault> {
    Err(DataFault::Wrong(what.into()))
}

/// Where the elements of large tensors are: files beside the model.
pub(super) struct External {
    /// The folder of the model; `None` for a model that came without one.
    folder: Option<PathBuf>,
    files: HashMap<PathBuf, Shared>,
    /// The file of the model itself.
    model: Option<Shared>,
}

impl External {
    /// Files of this folder.
    pub(super) fn new(folder: Option<&Path>, model: Option<&Shared>) -> External {
        External {
            model: model.cloned(),
            folder: folder.map(|f| match f.as_os_str().is_empty() {
                true => PathBuf::from("."),
                false => f.to_path_buf(),
            }),
            files: HashMap::new(),
        }
    }

    fn bytes(&mut self, entries: &[StringStringEntryProto]) -> Result<Bytes, DataFault> {
        let of = |key: &str| entries.iter().find(|e| e.key == key);
        let Some(location) = of("location").map(|e| e.value.as_str()) else {
            return wrong("external data without a location; export the model again");
        };
        let number = |key: &str| match of(key) {
            None => Ok(None),
            Some(e) => match e.value.trim().parse::<u64>() {
                Ok(n) => Ok(Some(n)),
                Err(_) => wrong(format!(
                    "expected a number as {key} of its external data, found {}",
                    Quoted::new(&e.value)
                )),
            },
        };
        let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?);
        let file = self.open(location)?;
        let size = file.len() as u64;
        let end = match length {
            Some(length) => offset.checked_add(length),
            None => Some(size.max(offset)),
        };
        match end {
            Some(end) if end <= size => Ok(file.slice(offset as usize..end as usize)),
            _ => wrong(format!(
                "expected {} bytes from byte {offset} of its external data {}, found a file of {size} \
                 bytes; fetch that file again",
                length.unwrap_or(0),
                Quoted::new(location)
            )),
        }
    }

    /// Where in one of the files a slice of it is.
    fn locate(&self, part: &Bytes) -> Option<FilePlace> {
        let mut files = self.model.iter().chain(self.files.values());
        files.find_map(|file| file.locate(part)).map(FilePlace)
    }

    fn open(&mut self, location: &str) -> Result<Bytes, DataFault> {
        let shown = Quoted::new(location);
        let Some(folder) = &self.folder else {
            return wrong(format!(
                "has external data in {shown}, but the model was not loaded from a file; load it \
                 by its path"
            ));
        };
        let relative = Path::new(location);
        let inside = relative
            .components()
            .all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
        if !inside || location.is_empty() || location.contains('\0') {
            return wrong(format!(
                "expected external data in the model's folder, found the location {shown}; move the \
                 file next to the model"
            ));
        }
        let path = folder.join(relative);
        if let Some(file) = self.files.get(&path) {
            return Ok(file.bytes.clone());
        }
        let opened = io::shared(&path).map_err(DataFault::File)?;
        // A link could lead out of the folder: what counts is where the file really is.
        let real = (path.canonicalize(), folder.canonicalize());
        if let (Ok(file), Ok(folder)) = &real
            && !file.starts_with(folder)
        {
            return wrong(format!(
                "expected external data in the model's folder, found {shown}, a link that leads outside it; \
                 copy the file next to the model"
            ));
        }
        let bytes = opened.bytes.clone();
        self.files.insert(path, opened);
        Ok(bytes)
    }
}

/// The sizes and their product.
fn shape_of(dims: &[i64]) -> Result<(Vec<usize>, usize), DataFault> {
    let shape: Option<Vec<usize>> = dims.iter().map(|&d| usize::try_from(d).ok()).collect();
    let counted = shape.and_then(|s| io::element_count(&s).map(|n| (s, n)));
    match counted {
        Some(found) => Ok(found),
        None => wrong(format!(
            "expected sizes of at most {MAX_ELEMENTS} elements, found {dims:?}; the file is damaged"
        )),
    }
}

/// Checks a tensor and takes its elements.
pub(super) fn literal(tensor: &TensorProto, external: &mut External) -> Result<Literal, DataFault> {
    let (shape, count) = shape_of(&tensor.dims)?;
    if tensor.segment.is_some() {
        return Err(DataFault::Unsupported("tensors in segments".into()));
    }
    if tensor.data_type == elem::STRING {
        return strings(tensor, shape, count);
    }
    let Some(kind) = Elem::from_number(tensor.data_type.into()) else {
        return match tensor.data_type {
            0 => wrong("expected an element type, found none; the file is damaged"),
            n => Err(DataFault::Unsupported(elem::type_name(n.into()))),
        };
    };
    let size = (count as u128 * kind.bits() as u128).div_ceil(8);
    let raw = match (&tensor.raw_data, tensor.data_location == EXTERNAL) {
        (_, true) => Some(external.bytes(&tensor.external_data)?),
        (raw, false) => raw.clone(),
    };
    let bytes = match raw {
        Some(raw) => {
            if raw.len() as u128 != size {
                return wrong(format!(
                    "expected {size} bytes for {kind} {shape:?}, found {}; the file is truncated or damaged",
                    raw.len()
                ));
            }
            raw
        }
        None => typed(tensor, kind, count)?,
    };
    let bytes = match kind.bits() {
        2 | 4 => spread(&bytes, count, kind),
        _ => bytes,
    };
    Ok(Literal::Array {
        place: external.locate(&bytes),
        elem: kind,
        shape,
        bytes,
    })
}

fn strings(tensor: &TensorProto, shape: Vec<usize>, count: usize) -> Result<Literal, DataFault> {
    if tensor.string_data.len() != count {
        return wrong(format!(
            "expected {count} strings for {shape:?}, found {}; the file is damaged",
            tensor.string_data.len()
        ));
    }
    let mut items = Vec::with_capacity(count);
    for (i, bytes) in tensor.string_data.iter().enumerate() {
        match std::str::from_utf8(bytes) {
            Ok(text) => items.push(text.to_string()),
            Err(_) => return wrong(format!("expected UTF-8 in string {i}, found invalid bytes")),
        }
    }
    Ok(Literal::Strings {
        shape,
        items: items.into(),
    })
}

/// The elements from the field that the format gives to a type, as raw bytes.
fn typed(tensor: &TensorProto, kind: Elem, count: usize) -> Result<Bytes, DataFault> {
    use codegen::DType;
    let want = match kind.bits() {
        bits @ (2 | 4) => count.div_ceil(8 / bits),
        _ => count,
    };
    let check = |field: &str, found: usize| {
        if found == want {
            return Ok(());
        }
        wrong(format!(
            "expected {want} numbers of {kind} in {field}, found {found}; the file is damaged"
        ))
    };
    let mut out = Vec::new();
    match kind {
        Elem::Plain(DType::F32) => {
            check("float_data", tensor.float_data.len())?;
            out.extend(tensor.float_data.iter().flat_map(|x| x.to_le_bytes()));
        }
        Elem::Plain(DType::F64) => {
            check("double_data", tensor.double_data.len())?;
            out.extend(tensor.double_data.iter().flat_map(|x| x.to_le_bytes()));
        }
        Elem::Plain(DType::I64) => {
            check("int64_data", tensor.int64_data.len())?;
            out.extend(tensor.int64_data.iter().flat_map(|x| x.to_le_bytes()));
        }
        Elem::Plain(DType::U64) => {
            check("uint64_data", tensor.uint64_data.len())?;
            out.extend(tensor.uint64_data.iter().flat_map(|x| x.to_le_bytes()));
        }
        Elem::Plain(DType::U32) => {
            check("uint64_data", tensor.uint64_data.len())?;
            let low = tensor.uint64_data.iter().map(|&x| x as u32);
            out.extend(low.flat_map(u32::to_le_bytes));
        }
        _ => {
            check("int32_data", tensor.int32_data.len())?;
            // The low bytes; what is packed is so here as well.
            let width = kind.bits().div_ceil(8);
            for x in &tensor.int32_data {
                out.extend_from_slice(&x.to_le_bytes()[..width]);
            }
        }
    }
    Ok(out.into())
}

/// Two or four elements in a byte, the first one low, to one in a byte.
fn spread(packed: &[u8], count: usize, kind: Elem) -> Bytes {
    let (bits, rest) = (kind.bits(), 8 - kind.bits());
    let parts = |b: u8| (0..8 / bits).map(move |i| b << (rest - bits * i) >> rest);
    let parts = packed.iter().flat_map(|&b| parts(b)).take(count);
    match kind {
        Elem::I4 | Elem::I2 => parts.map(|n| ((n << rest) as i8 >> rest) as u8).collect(),
        _ => parts.collect(),
    }
}

/// A sparse tensor, written out.
pub(super) fn dense(
    sparse: &SparseTensorProto,
    external: &mut External,
) -> Result<Literal, DataFault> {
    let (Some(values), Some(indices)) = (&sparse.values, &sparse.indices) else {
        return wrong("expected values and indices of a sparse tensor, found only one of them");
    };
    let (shape, count) = shape_of(&sparse.dims)?;
    let (values, indices) = (literal(values, external)?, literal(indices, external)?);
    let (
        Literal::Array { elem, bytes, .. },
        Literal::Array {
            elem: Elem::Plain(codegen::DType::I64),
            shape: at,
            bytes: positions,
            ..
        },
    ) = (&values, &indices)
    else {
        return wrong("expected numbers and INT64 indices in a sparse tensor, found other types");
    };
    let stored = values.numel();
    let linear = at.as_slice() == [stored];
    if !linear && at.as_slice() != [stored, shape.len()] {
        return wrong(format!(
            "expected indices of shape [{stored}] or [{stored}, {}], found {at:?}",
            shape.len()
        ));
    }
    let size = elem.held().size();
    // What is not stored is zero, so the file says nothing about how much memory that takes: this
    // bound does.
    const MOST: usize = 1 << 30;
    let Some(total) = count.checked_mul(size).filter(|&n| n <= MOST) else {
        return wrong(format!(
            "expected a sparse tensor of at most {MOST} bytes when dense, found {shape:?}"
        ));
    };
    let mut out = vec![0; total];
    let mut numbers = positions.chunks_exact(8).map(|b| {
        let mut word = [0; 8];
        word.copy_from_slice(b);
        i64::from_le_bytes(word)
    });
    for k in 0..stored {
        let mut flat: Option<usize> = Some(0);
        let dims: &[usize] = if linear { &[count] } else { &shape };
        for &dim in dims {
            let i = numbers.next().and_then(|i| usize::try_from(i).ok());
            flat = match (flat, i.filter(|&i| i < dim)) {
                (Some(flat), Some(i)) => Some(flat * dim + i),
                _ => None,
            };
        }
        let Some(flat) = flat else {
            return wrong(format!(
                "expected index {k} within {shape:?}, found one outside of it"
            ));
        };
        out[flat * size..][..size].copy_from_slice(&bytes[k * size..][..size]);
    }
    Ok(Literal::Array {
        elem: *elem,
        shape,
        bytes: out.into(),
        place: None,
    })
}

/// The message of an array: raw bytes, packed again where the format packs.
pub(super) fn to_proto(name: &str, literal: &Literal) -> TensorProto {
    let dims = literal.shape().iter().map(|&d| d as i64).collect();
    let mut out = TensorProto {
        dims,
        name: name.into(),
        ..TensorProto::default()
    };
    match literal {
        Literal::Array { elem, bytes, .. } => {
            out.data_type = elem.number();
            out.raw_data = Some(match elem.bits() {
                bits @ (2 | 4) => bytes
                    .chunks(8 / bits)
                    .map(|part| {
                        let low = part.iter().map(|b| b & ((1 << bits) - 1));
                        low.rev().fold(0, |byte, b| byte << bits | b)
                    })
                    .collect(),
                _ => bytes.clone(),
            });
        }
        Literal::Strings { items, .. } => {
            out.data_type = elem::STRING;
            let items = items.iter().map(|s| Bytes::copy_from_slice(s.as_bytes()));
            out.string_data = items.collect();
        }
    }
    out
}
