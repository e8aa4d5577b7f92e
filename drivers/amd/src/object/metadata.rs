//! The note that describes kernels: MessagePack in `.note`.
//!
//! Source: LLVM, AMDGPUUsage, "Code Object V3 and Above Metadata" to V6.

use hcq::{ArgField, ArgKind, Width};
use object::read::elf::{ProgramHeader, SectionHeader};
use object::{Object, elf};
use rmpv::ValueRef;

use super::{File, ObjectError, Result, shown};

/// The owner of the note.
const OWNER: &[u8] = b"AMDGPU";
/// Its type.
const NT_AMDGPU_METADATA: u32 = 32;
/// How deep its values may be nested: a list of kernels, their arguments, and an argument are 6.
const DEPTH: usize = 16;

/// An argument of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelArg {
    /// Its offset in the argument block.
    pub offset: u32,
    /// Its bytes.
    pub size: u32,
    /// `value_kind`: `by_value`, `global_buffer`, `hidden_block_count_x`...
    pub kind: String,
}

impl KernelArg {
    /// Whether the language adds it, not the caller.
    pub fn is_hidden(&self) -> bool {
        self.kind.starts_with("hidden_")
    }

    /// Its kind for the caller; `None` if the caller cannot pass such an argument.
    pub fn field(&self) -> Option<ArgField> {
        let kind = match (self.kind.as_str(), self.size) {
            ("global_buffer", 8) => ArgKind::Buffer,
            ("by_value", 4) => ArgKind::Value(Width::W32),
            ("by_value", 8) => ArgKind::Value(Width::W64),
            _ => return None,
        };
        let offset = self.offset;
        Some(ArgField { offset, kind })
    }
}

/// A kernel's entry in the note.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Described {
    /// The symbol of its descriptor.
    pub symbol: String,
    /// Its arguments.
    pub args: Vec<KernelArg>,
    /// Alignment of its argument block.
    pub kernarg_align: u32,
    /// Bytes of its argument block.
    pub kernarg_size: u32,
    /// Work-items of a workgroup at most.
    pub max_flat_workgroup_size: u32,
    /// Work-items of a workgroup in x, y, z, if it runs with no others.
    pub required_workgroup_size: Option<[u32; 3]>,
    /// Vector registers of a wave.
    pub vgprs: u32,
    /// Scalar registers of a wave.
    pub sgprs: u32,
    /// Whether its stack has no fixed size.
    pub dynamic_stack: bool,
}

/// The description of all kernels of an object; empty where there is none.
pub(super) fn find(file: &File<'_>) -> Result<Vec<Described>> {
    match note(file)? {
        Some(note) => parse(note),
        None => Ok(Vec::new()),
    }
}

/// The bytes of the note.
fn note<'a>(file: &File<'a>) -> Result<Option<&'a [u8]>> {
    let endian = file.endian();
    let is_ours = |note: &object::read::elf::Note<'a, _>| {
        note.name() == OWNER && note.n_type(endian).0 == NT_AMDGPU_METADATA
    };
    for section in file.sections() {
        let notes = section.elf_section_header().notes(endian, file.data())?;
        for note in notes.into_iter().flatten() {
            let note = note?;
            if is_ours(&note) {
                return Ok(Some(note.desc()));
            }
        }
    }
    // A stripped file has no sections.
    for header in file.elf_program_headers() {
        if header.p_type(endian) != elf::PT_NOTE {
            continue;
        }
        for note in header.notes(endian, file.data())?.into_iter().flatten() {
            let note = note?;
            if is_ours(&note) {
                return Ok(Some(note.desc()));
            }
        }
    }
    Ok(None)
}

fn wrong(why: impl Into<String>) -> ObjectError {
    ObjectError::Metadata(why.into())
}

fn parse(mut bytes: &[u8]) -> Result<Vec<Described>> {
    let root = rmpv::decode::read_value_ref_with_max_depth(&mut bytes, DEPTH)
        .map_err(|error| wrong(format!("expected MessagePack: {error}")))?;
    let major = field(&root, "amdhsa.version").and_then(|v| match v {
        ValueRef::Array(parts) => parts.first().and_then(ValueRef::as_u64),
        _ => None,
    });
    if major != Some(1) {
        return Err(wrong(format!("expected amdhsa.version 1, found {major:?}")));
    }
    match field(&root, "amdhsa.kernels") {
        Some(ValueRef::Array(kernels)) => kernels.iter().map(described).collect(),
        None => Ok(Vec::new()),
        Some(_) => Err(wrong("amdhsa.kernels is not a list")),
    }
}

fn described(kernel: &ValueRef<'_>) -> Result<Described> {
    let symbol = string(kernel, ".symbol")?;
    let number = |name| number(kernel, name);
    let args = match field(kernel, ".args") {
        Some(ValueRef::Array(args)) => args.iter().map(argument).collect::<Result<_>>()?,
        None => Vec::new(),
        Some(_) => return Err(wrong(format!("{}: .args is not a list", shown(&symbol)))),
    };
    Ok(Described {
        symbol,
        args,
        kernarg_align: number(".kernarg_segment_align")?,
        kernarg_size: number(".kernarg_segment_size")?,
        max_flat_workgroup_size: number(".max_flat_workgroup_size")?,
        required_workgroup_size: required(kernel)?,
        vgprs: number(".vgpr_count")?,
        sgprs: number(".sgpr_count")?,
        // Not there before V5.
        dynamic_stack: matches!(
            field(kernel, ".uses_dynamic_stack"),
            Some(ValueRef::Boolean(true))
        ),
    })
}

fn required(kernel: &ValueRef<'_>) -> Result<Option<[u32; 3]>> {
    let Some(value) = field(kernel, ".reqd_workgroup_size") else {
        return Ok(None);
    };
    let sizes = match value {
        ValueRef::Array(sizes) => sizes
            .iter()
            .filter_map(ValueRef::as_u64)
            .filter_map(|size| u32::try_from(size).ok())
            .collect(),
        _ => Vec::new(),
    };
    match <[u32; 3]>::try_from(sizes) {
        Ok(sizes) => Ok(Some(sizes)),
        Err(_) => Err(wrong(".reqd_workgroup_size is not a list of three numbers")),
    }
}

fn argument(arg: &ValueRef<'_>) -> Result<KernelArg> {
    Ok(KernelArg {
        offset: number(arg, ".offset")?,
        size: number(arg, ".size")?,
        kind: string(arg, ".value_kind")?,
    })
}

fn field<'v, 'a>(map: &'v ValueRef<'a>, name: &str) -> Option<&'v ValueRef<'a>> {
    let ValueRef::Map(pairs) = map else {
        return None;
    };
    let found = pairs.iter().find(|(key, _)| key.as_str() == Some(name));
    found.map(|(_, value)| value)
}

fn number(map: &ValueRef<'_>, name: &str) -> Result<u32> {
    let value = field(map, name).and_then(ValueRef::as_u64);
    value
        .and_then(|value| u32::try_from(value).ok())
        .ok_or_else(|| wrong(format!("{name}: expected a 32-bit number")))
}

fn string(map: &ValueRef<'_>, name: &str) -> Result<String> {
    let value = field(map, name).and_then(|value| match value {
        ValueRef::String(text) => text.as_str(),
        _ => None,
    });
    value
        .map(str::to_string)
        .ok_or_else(|| wrong(format!("{name}: expected a string")))
}

trait Text {
    fn as_str(&self) -> Option<&str>;
}

impl Text for ValueRef<'_> {
    fn as_str(&self) -> Option<&str> {
        match self {
            ValueRef::String(text) => text.as_str(),
            _ => None,
        }
    }
}
