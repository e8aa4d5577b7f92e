//! From a kernel dispatch packet and its kernel descriptor to launches.

use drivers_spec::amd::aql::{self, dispatch};
use drivers_spec::amd::kd::{self, KernelDescriptor};
use drivers_spec::amd::packet::Gfx;
use drivers_spec::amd::regs;
use twin::rule::{Proof, Rule};
use twin_shader::launch::Launch;
use zerocopy::FromBytes;

use super::aql::{RESERVED, Slot, queue_of};
use super::dispatch::{MAX_THREADS, PRIVATE_APERTURE, SHARED_APERTURE, Scratch, waves};
use super::work::OnXcc;
use super::{Cx, Stop, exception, scratch};

/// The size of a dispatch.
pub static GRID: Rule = Rule {
    name: "AQL-GRID",
    text: "a dispatch has 1 to 3 dimensions; grid and workgroup are at least 1 in each of them and 1 in the others; the \
           grid is counted in work-items and may be smaller than a workgroup",
    source: "HSA Runtime Programmer's Reference Manual, 2.9.6",
    proof: Proof::Sourced,
};

/// The size of a workgroup.
pub static WORKGROUP: Rule = Rule {
    name: "AQL-WORKGROUP",
    text: "a workgroup has at most 1024 work-items",
    source: "HSA Runtime Programmer's Reference Manual, 2.9.6; HSA_AGENT_INFO_WORKGROUP_MAX_SIZE",
    proof: Proof::Sourced,
};

/// The kernel is a descriptor.
pub static OBJECT: Rule = Rule {
    name: "AQL-KERNEL-OBJECT",
    text: "kernel_object is the address of a kernel descriptor, aligned to 64 bytes, with its reserved \
           bytes zero; the code is aligned to 256 bytes",
    source: "LLVM, AMDGPUUsage, Kernel Descriptor",
    proof: Proof::Sourced,
};

/// Arguments are aligned.
pub static KERNARG_ALIGN: Rule = Rule {
    name: "AQL-KERNARG-ALIGN",
    text: "kernarg_address is aligned to 16 bytes; the packet processor does not check it",
    source: "HSA Runtime Programmer's Reference Manual, 2.9.6",
    proof: Proof::Sourced,
};

/// Arguments are there.
pub static KERNARG: Rule = Rule {
    name: "AQL-KERNARG",
    text: "kernarg_address is mapped for the size that the descriptor states",
    source: "HSA Runtime Programmer's Reference Manual, 2.9.6",
    proof: Proof::Sourced,
};

/// LDS is enough and not too much.
pub static GROUP_SIZE: Rule = Rule {
    name: "AQL-GROUP-SIZE",
    text: "group_segment_size is at least what the descriptor says and at most the LDS of a compute unit",
    source: "LLVM, AMDGPUUsage: group_segment_fixed_size; HSA Runtime Programmer's Reference Manual, 2.9.6",
    proof: Proof::Sourced,
};

/// Waves of 32 lanes.
pub static WAVE32: Rule = Rule {
    name: "AQL-WAVE32",
    text: "waves of 32 lanes require GFX10 or newer",
    source: "LLVM, AMDGPUUsage, ENABLE_WAVEFRONT_SIZE32",
    proof: Proof::Sourced,
};

fn refuse(rule: &'static Rule, code: u32, what: String) -> Stop {
    Stop::Rule { rule, what, code }
}

/// What becomes of a kernel dispatch.
pub(crate) enum Ready {
    /// Its launches, one for each XCC.
    Runs(Vec<OnXcc>),
    /// It needs more scratch: the value of `queue_inactive_signal` that asks for it.
    Asks(u64),
}

/// The launches of a kernel dispatch.
pub(crate) fn launches(cx: &mut Cx, slot: &Slot) -> Result<Ready, Stop> {
    let (size, grid) = sizes(cx, slot)?;
    let descriptor = descriptor(cx, slot)?;
    let properties = u32::from(descriptor.kernel_code_properties.get());
    let wave32 = kd::ENABLE_WAVEFRONT_SIZE32.get(properties) == 1;
    let queue = queue_of(cx)?;
    let need = scratch::Need::of(slot, &descriptor, wave32, grid);
    let Some(scratch) = need.find(cx, queue, slot.id)? else {
        return Ok(Ready::Asks(need.asks()));
    };
    let kernel = Kernel {
        slot,
        descriptor,
        queue,
        wave32,
        scratch,
    };
    if wave32 && cx.gfx() == Gfx::Gfx9 {
        let what = format!("properties are {properties:#x}");
        return Err(refuse(
            &WAVE32,
            exception::PACKET_DISPATCH_CODE_INVALID,
            what,
        ));
    }
    let object = slot.u64(dispatch::KERNEL_OBJECT);
    let entry = object.wrapping_add_signed(descriptor.kernel_code_entry_byte_offset.get());
    let lds = slot.u32(dispatch::GROUP_SEGMENT_SIZE);
    let groups = std::array::from_fn(|i| grid[i].div_ceil(size[i]));
    let last_size = std::array::from_fn(|i| match grid[i] % size[i] {
        0 => size[i],
        rest => rest,
    });
    let granules = lds.div_ceil(regs::LDS_GRANULE);
    let rsrc = [
        descriptor.compute_pgm_rsrc1.get(),
        descriptor.compute_pgm_rsrc2.get() | regs::LDS_SIZE.put(granules),
        descriptor.compute_pgm_rsrc3.get(),
    ];
    let of = cx.core.chip.xccs.max(1);
    let mut launches = Vec::new();
    for xcc in 0..of {
        let user = kernel.user(cx)?;
        let launch = Launch {
            generation: cx.core.chip.generation,
            entry,
            groups,
            group_size: size,
            last_size,
            start: [0; 3],
            wave32,
            rsrc,
            user,
            lds: granules * regs::LDS_GRANULE,
            scratch_base: kernel.scratch.on(xcc),
            scratch_wave: kernel.scratch.wave,
            scratch_waves: kernel.scratch.waves,
            shared_aperture: SHARED_APERTURE,
            private_aperture: PRIVATE_APERTURE,
            xcc: (xcc, of),
            waves: waves(cx.core.chip),
            trap: cx.trap(),
            seed: cx.rng.number(),
        };
        launches.push((xcc, launch));
    }
    cx.rng.shuffle(&mut launches);
    Ok(Ready::Runs(launches))
}

/// Workgroup and grid.
fn sizes(cx: &Cx, slot: &Slot) -> Result<([u32; 3], [u32; 3]), Stop> {
    let dimensions = aql::DIMENSIONS.get(slot.words[0]) as usize;
    let reserved = slot.words[0] >> 16 & !(aql::DIMENSIONS.mask() >> 16);
    if reserved != 0 || slot.u16(dispatch::RESERVED0) != 0 || slot.u64(dispatch::RESERVED2) != 0 {
        cx.note(&RESERVED, format!("{:x?}", slot.words));
    }
    let size: [u32; 3] = std::array::from_fn(|i| slot.u16(dispatch::WORKGROUP_SIZE + 2 * i));
    let grid: [u32; 3] = std::array::from_fn(|i| slot.u32(dispatch::GRID_SIZE + 4 * i));
    let flat = (dimensions..3).all(|i| size[i] == 1 && grid[i] == 1);
    if dimensions == 0 || !flat || size.contains(&0) || grid.contains(&0) {
        let what = format!("{dimensions} dimensions, workgroup {size:?}, grid {grid:?}");
        return Err(refuse(&GRID, exception::PACKET_DISPATCH_DIM_INVALID, what));
    }
    if size.iter().map(|&n| u64::from(n)).product::<u64>() > u64::from(MAX_THREADS) {
        let code = exception::PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID;
        return Err(refuse(&WORKGROUP, code, format!("workgroup {size:?}")));
    }
    Ok((size, grid))
}

fn descriptor(cx: &Cx, slot: &Slot) -> Result<KernelDescriptor, Stop> {
    let code = exception::PACKET_DISPATCH_CODE_INVALID;
    let object = slot.u64(dispatch::KERNEL_OBJECT);
    if !object.is_multiple_of(kd::ALIGN) {
        return Err(refuse(&OBJECT, code, format!("it is {object:#x}")));
    }
    let bytes = cx.read::<64>(object)?;
    let Ok(descriptor) = KernelDescriptor::read_from_bytes(&bytes) else {
        return Err(refuse(&OBJECT, code, format!("it is {object:#x}")));
    };
    let entry = descriptor.kernel_code_entry_byte_offset.get();
    let zero = descriptor.reserved0.iter().chain(&descriptor.reserved1);
    if zero.chain(&descriptor.reserved3).any(|&byte| byte != 0)
        || entry == 0
        || !object.wrapping_add_signed(entry).is_multiple_of(256)
    {
        let what = format!("at {object:#x}: {descriptor:?}");
        return Err(refuse(&OBJECT, code, what));
    }

    let kernarg = slot.u64(dispatch::KERNARG_ADDRESS);
    let bytes = u64::from(descriptor.kernarg_size.get());
    let mapped =
        bytes == 0 || cx.read::<1>(kernarg).is_ok() && cx.read::<1>(kernarg + bytes - 1).is_ok();
    if !kernarg.is_multiple_of(16) {
        let what = format!("{kernarg:#x}");
        cx.note(&KERNARG_ALIGN, what);
    }
    if !mapped {
        let what = format!("{bytes} bytes at {kernarg:#x}");
        return Err(refuse(&KERNARG, code, what));
    }

    let group = slot.u32(dispatch::GROUP_SEGMENT_SIZE);
    let fixed = descriptor.group_segment_fixed_size.get();
    if group < fixed || group > cx.core.chip.lds_kib * 1024 {
        let code = exception::PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID;
        let what = format!("{group} bytes, the descriptor says {fixed}");
        return Err(refuse(&GROUP_SIZE, code, what));
    }
    Ok(descriptor)
}

/// What CP puts into SGPRs.
struct Kernel<'a> {
    slot: &'a Slot,
    descriptor: KernelDescriptor,
    queue: u64,
    wave32: bool,
    scratch: Scratch,
}

impl Kernel<'_> {
    /// The user SGPRs of one XCC, in the order of the descriptor's properties. What is not set holds
    /// anything.
    fn user(&self, cx: &mut Cx) -> Result<[u32; regs::USER_DATA as usize], Stop> {
        let properties = u32::from(self.descriptor.kernel_code_properties.get());
        let kernarg = self.slot.u64(dispatch::KERNARG_ADDRESS);
        let two = |value: u64| vec![value as u32, (value >> 32) as u32];
        let mut user = Vec::new();
        if kd::ENABLE_SGPR_PRIVATE_SEGMENT_BUFFER.get(properties) == 1 {
            let at = self.queue + aql::queue::SCRATCH_RESOURCE_DESCRIPTOR as u64;
            let resource = cx.words(at, 4)?;
            user.extend(&resource[..3]);
            user.push(scratch::resource3(cx.gfx(), resource[3], self.wave32));
        }
        for (field, value) in [
            (kd::ENABLE_SGPR_DISPATCH_PTR, self.slot.va),
            (kd::ENABLE_SGPR_QUEUE_PTR, self.queue),
            (kd::ENABLE_SGPR_KERNARG_SEGMENT_PTR, kernarg),
            (kd::ENABLE_SGPR_DISPATCH_ID, self.slot.id),
            (kd::ENABLE_SGPR_FLAT_SCRATCH_INIT, self.scratch.base),
        ] {
            if field.get(properties) == 1 {
                user.extend(two(value));
            }
        }
        if kd::ENABLE_SGPR_PRIVATE_SEGMENT_SIZE.get(properties) == 1 {
            user.push(self.slot.u32(dispatch::PRIVATE_SEGMENT_SIZE));
        }
        let preload = u32::from(self.descriptor.kernarg_preload.get());
        let count = kd::KERNARG_PRELOAD_SPEC_LENGTH.get(preload) as usize;
        if count > 0 {
            let first = u64::from(kd::KERNARG_PRELOAD_SPEC_OFFSET.get(preload)) * 4;
            user.extend(cx.words(kernarg + first, count)?);
        }
        let mut all = [0; regs::USER_DATA as usize];
        for (i, word) in all.iter_mut().enumerate() {
            *word = match user.get(i) {
                Some(value) => *value,
                None => cx.rng.number() as u32,
            };
        }
        Ok(all)
    }
}
