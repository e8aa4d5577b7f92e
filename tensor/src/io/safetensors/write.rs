//! Writing safetensors files.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use codegen::DType;

use super::{MAX_HEADER, METADATA, SafetensorsError, type_name};
use crate::io::replace::replace;
use crate::io::{Quoted, element_count};

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

/// Writes a file, atomically replacing `path`.
///
/// The order in the file depends on the tensors alone, not on the order they come in: wide types
/// first, which keeps each tensor aligned to its own element, then by name. The data begins at a
/// multiple of 8 bytes.
///
/// # Errors
/// Duplicate or reserved names, data that does not fit its shape, or an error of the operating system.
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
    let mut seen = BTreeSet::new();
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
