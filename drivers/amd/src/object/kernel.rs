//! A kernel, from its descriptor and its metadata.

use std::collections::HashMap;

use drivers_spec::amd::kd::{self, KernelDescriptor};
use drivers_spec::amd::regs;
use hcq::{ArgLayout, GpuVa};
use zerocopy::FromBytes;

use super::layout::Placed;
use super::metadata::{Described, KernelArg};
use super::{ObjectError, Result, shown};
use crate::chip::Chip;
use crate::encode::Launch;

/// Work-items of a workgroup at most, on every chip.
/// Source: HSA_AGENT_INFO_WORKGROUP_MAX_SIZE of ROCR.
const MAX_THREADS: u32 = 1024;

/// Maximum bytes of arguments, and their largest alignment. Languages use far less; larger arguments
/// would take that memory at each launch.
const MOST_ARGUMENTS: u32 = 1 << 20;
const MOST_ARGUMENT_ALIGN: u32 = 256;

/// The alignment of code.
const CODE_ALIGN: u64 = 256;

/// Bytes of stack that a lane gets where the compiler does not know how many it needs.
/// Source: ROCm, the default of hipLimitStackSize.
const DYNAMIC_STACK: u32 = 1024;

/// A kernel in an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelInfo {
    /// The name, without the `.kd` of its descriptor's symbol.
    pub name: String,
    /// Where the descriptor is in the image, a multiple of 64.
    pub descriptor: u64,
    /// Where the code starts in the image, a multiple of 256.
    pub entry: u64,
    /// COMPUTE_PGM_RSRC1, 2 and 3, as the compiler left them.
    pub rsrc: [u32; 3],
    /// `kernel_code_properties`.
    pub properties: u16,
    /// `kernarg_preload`.
    pub preload: u16,
    /// Bytes of the argument block.
    pub kernarg_size: u32,
    /// Alignment of the argument block.
    pub kernarg_align: u32,
    /// Its arguments; `None` for an object without metadata.
    pub args: Option<Vec<KernelArg>>,
    /// Bytes of LDS of a workgroup.
    pub group_bytes: u32,
    /// Bytes of scratch of a lane.
    pub private_bytes: u32,
    /// Whether it runs in waves of 32 lanes.
    pub wave32: bool,
    /// Vector registers of a wave; 0 for an object without metadata.
    pub vgprs: u32,
    /// Scalar registers of a wave; 0 for an object without metadata.
    pub sgprs: u32,
    /// Work-items of a workgroup at most.
    pub max_flat_workgroup_size: u32,
    /// Work-items of a workgroup in x, y, z, if it runs with no others.
    pub required_workgroup_size: Option<[u32; 3]>,
    /// Whether its stack has no fixed size.
    pub dynamic_stack: bool,
}

/// The kernels of an image.
pub(super) fn find(placed: &Placed, described: Vec<Described>) -> Result<Vec<KernelInfo>> {
    let mut notes = HashMap::with_capacity(described.len());
    for one in &described {
        if notes.insert(one.symbol.as_str(), one).is_some() {
            let why = format!("{} is described twice", shown(&one.symbol));
            return Err(ObjectError::Metadata(why));
        }
    }
    let mut kernels: Vec<KernelInfo> = Vec::with_capacity(placed.descriptors.len());
    for (symbol, at) in &placed.descriptors {
        let name = symbol.strip_suffix(".kd").unwrap_or(symbol);
        // They are sorted by name.
        if kernels.last().is_some_and(|last| last.name == name) {
            return Err(ObjectError::Symbol {
                symbol: shown(symbol),
                why: "defined twice, at different addresses".into(),
            });
        }
        kernels.push(kernel(placed, name, *at, notes.remove(symbol.as_str()))?);
    }
    // The first by name, so that each time it is the same.
    match notes.into_keys().min() {
        Some(symbol) => Err(ObjectError::Symbol {
            symbol: shown(symbol),
            why: "named in the metadata, but not defined in the object".into(),
        }),
        None => Ok(kernels),
    }
}

fn kernel(placed: &Placed, name: &str, at: u64, notes: Option<&Described>) -> Result<KernelInfo> {
    let refused = |why: String| ObjectError::Kernel {
        kernel: shown(name),
        why,
    };
    let range = usize::try_from(at)
        .ok()
        .and_then(|start| Some(start..start.checked_add(size_of::<KernelDescriptor>())?));
    let bytes = range.and_then(|range| placed.image.get(range));
    let parsed = bytes.and_then(|bytes| KernelDescriptor::read_from_bytes(bytes).ok());
    let Some(descriptor) = parsed else {
        return Err(refused(format!(
            "descriptor at {at:#x} is outside the image"
        )));
    };
    if !at.is_multiple_of(kd::ALIGN) {
        return Err(refused(format!(
            "descriptor at {at:#x}, expected a multiple of 64"
        )));
    }
    let entry = at.wrapping_add_signed(descriptor.kernel_code_entry_byte_offset.get());
    if entry >= placed.image.len() as u64 || !entry.is_multiple_of(CODE_ALIGN) {
        return Err(refused(format!(
            "code starts at {entry:#x}, expected a multiple of 256 in the image"
        )));
    }
    let kernarg_size = descriptor.kernarg_size.get();
    if kernarg_size > MOST_ARGUMENTS {
        return Err(refused(format!(
            "{kernarg_size} bytes of arguments, expected at most {MOST_ARGUMENTS}"
        )));
    }
    if let Some(notes) = notes {
        if notes.kernarg_size != kernarg_size {
            return Err(refused(format!(
                "descriptor has {kernarg_size} bytes of arguments, metadata {}",
                notes.kernarg_size
            )));
        }
        let outside = |arg: &&KernelArg| {
            let end = arg.offset.checked_add(arg.size);
            end.is_none_or(|end| end > kernarg_size)
        };
        if let Some(arg) = notes.args.iter().find(outside) {
            return Err(refused(format!(
                "argument at {} of {} bytes is outside the {kernarg_size}-byte argument block",
                arg.offset, arg.size
            )));
        }
        check_sizes(notes).map_err(refused)?;
    }
    let properties = descriptor.kernel_code_properties.get();
    let has = |field: drivers_spec::amd::packet::Field| field.get(u32::from(properties)) == 1;
    let most = notes.map_or(MAX_THREADS, |notes| notes.max_flat_workgroup_size);
    Ok(KernelInfo {
        name: name.into(),
        descriptor: at,
        entry,
        rsrc: [
            descriptor.compute_pgm_rsrc1.get(),
            descriptor.compute_pgm_rsrc2.get(),
            descriptor.compute_pgm_rsrc3.get(),
        ],
        properties,
        preload: descriptor.kernarg_preload.get(),
        kernarg_size,
        kernarg_align: notes.map_or(16, |notes| notes.kernarg_align),
        args: notes.map(|notes| notes.args.clone()),
        group_bytes: descriptor.group_segment_fixed_size.get(),
        private_bytes: descriptor.private_segment_fixed_size.get(),
        wave32: has(kd::ENABLE_WAVEFRONT_SIZE32),
        vgprs: notes.map_or(0, |notes| notes.vgprs),
        sgprs: notes.map_or(0, |notes| notes.sgprs),
        max_flat_workgroup_size: most.min(MAX_THREADS),
        required_workgroup_size: notes.and_then(|notes| notes.required_workgroup_size),
        dynamic_stack: has(kd::USES_DYNAMIC_STACK)
            || notes.is_some_and(|notes| notes.dynamic_stack),
    })
}

/// Numbers of the metadata by which launches are checked, and which no compiler writes.
fn check_sizes(notes: &Described) -> std::result::Result<(), String> {
    let align = notes.kernarg_align;
    if !align.is_power_of_two() || align > MOST_ARGUMENT_ALIGN {
        return Err(format!(
            "argument alignment is {align} bytes, expected a power of two up to \
             {MOST_ARGUMENT_ALIGN}"
        ));
    }
    let most = notes.max_flat_workgroup_size;
    if most == 0 {
        return Err("maximum workgroup size is 0 work-items".into());
    }
    let Some(required) = notes.required_workgroup_size else {
        return Ok(());
    };
    let threads = required
        .iter()
        .try_fold(1u32, |product, &n| product.checked_mul(n));
    match threads.filter(|&n| n > 0 && n <= most.min(MAX_THREADS)) {
        Some(_) => Ok(()),
        None => Err(format!(
            "required workgroup size {required:?} is not 1 to {} work-items",
            most.min(MAX_THREADS)
        )),
    }
}

/// Hidden arguments that mark the start of all hidden ones, with their offset from it.
///
/// Source: LLVM, AMDGPUUsage, "Code Object V5 Kernel Argument Metadata".
const HIDDEN: [(&str, u32); 4] = [
    ("hidden_block_count_x", 0),
    ("hidden_group_size_x", 12),
    ("hidden_grid_dims", 64),
    ("hidden_queue_ptr", 200),
];

impl KernelInfo {
    fn refused(&self, why: impl Into<String>) -> ObjectError {
        ObjectError::Kernel {
            kernel: shown(&self.name),
            why: why.into(),
        }
    }

    /// The offsets of the caller's arguments, from the metadata.
    ///
    /// # Errors
    /// [`ObjectError::Kernel`] for an object without metadata, and for an argument that is neither a buffer
    /// nor a number of 4 or 8 bytes.
    pub fn layout(&self) -> Result<ArgLayout> {
        let args = self
            .args
            .as_ref()
            .ok_or_else(|| self.refused("no metadata describes its arguments"))?;
        let fields = args
            .iter()
            .filter(|arg| !arg.is_hidden())
            .map(|arg| match arg.field() {
                Some(field) => Ok(field),
                None => Err(self.refused(format!(
                    "argument at {} is {} of {} bytes, expected a global_buffer of 8 or a by_value of \
                     4 or 8",
                    arg.offset, arg.kind, arg.size
                ))),
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(ArgLayout {
            fields,
            bytes: self.kernarg_size,
            align: self.kernarg_align,
        })
    }

    /// Whether a caller's idea of the arguments is the compiler's. An object without metadata is
    /// believed.
    ///
    /// # Errors
    /// [`ObjectError::Kernel`] that names the first difference.
    pub fn check_layout(&self, layout: &ArgLayout) -> Result<()> {
        let Some(args) = &self.args else {
            return Ok(());
        };
        let visible = || args.iter().filter(|arg| !arg.is_hidden());
        if visible().count() != layout.fields.len() {
            return Err(self.refused(format!(
                "takes {} arguments, {} are described",
                visible().count(),
                layout.fields.len()
            )));
        }
        for (i, (arg, field)) in visible().zip(&layout.fields).enumerate() {
            let (offset, bytes) = (field.offset, field.kind.bytes());
            if (arg.offset, arg.size) != (offset, bytes) {
                return Err(self.refused(format!(
                    "argument {i} has {} bytes at {}, not {bytes} at {offset}",
                    arg.size, arg.offset
                )));
            }
            if arg.field() != Some(*field) {
                return Err(self.refused(format!(
                    "argument {i} is {}, not a {:?}",
                    arg.kind, field.kind
                )));
            }
        }
        Ok(())
    }

    /// Bytes of scratch that a launch provides for each lane; 0 for a kernel without.
    pub fn scratch_bytes(&self) -> u32 {
        if regs::SCRATCH_EN.get(self.rsrc[1]) == 0 {
            0
        } else if self.dynamic_stack {
            self.private_bytes.max(DYNAMIC_STACK)
        } else {
            self.private_bytes
        }
    }

    /// What launches need, for an image at `base`. `local_bytes` is the LDS that the caller asks for;
    /// the kernel's own counts if it is more.
    ///
    /// # Errors
    /// [`ObjectError::Kernel`] for what the chip does not have.
    pub fn launch(&self, chip: &Chip, base: GpuVa, local_bytes: u32) -> Result<Launch> {
        let generation = chip.generation;
        let lanes = if self.wave32 { 32 } else { 64 };
        if !chip.wave_sizes.contains(&lanes) {
            return Err(self.refused(format!(
                "compiled for waves of {lanes} lanes, {} supports {:?}",
                chip.name, chip.wave_sizes
            )));
        }
        let group_bytes = self.group_bytes.max(local_bytes);
        if group_bytes > chip.lds_bytes {
            return Err(self.refused(format!(
                "a workgroup takes {group_bytes} bytes of LDS, {} has {}: use a smaller tile",
                chip.name, chip.lds_bytes
            )));
        }
        let code = base
            .add(self.entry)
            .map_err(|error| self.refused(error.to_string()))?;
        let granules = group_bytes.div_ceil(generation.lds_granule);
        let hidden = self.args.iter().flatten().find_map(|arg| {
            let known = HIDDEN.iter().find(|(kind, _)| arg.kind == *kind);
            arg.offset.checked_sub(known?.1)
        });
        let [rsrc1, rsrc2, rsrc3] = self.rsrc;
        Ok(Launch {
            code,
            rsrc: [
                rsrc1 | generation.rsrc1_set,
                rsrc2 & !regs::LDS_SIZE.mask() | regs::LDS_SIZE.put(granules),
                rsrc3,
            ],
            properties: self.properties,
            preload: self.preload,
            private_bytes: self.scratch_bytes(),
            group_bytes,
            kernarg_bytes: self.kernarg_size,
            kernarg_align: self.kernarg_align,
            hidden,
            max_threads: self.max_flat_workgroup_size,
            required: self.required_workgroup_size,
        })
    }
}
