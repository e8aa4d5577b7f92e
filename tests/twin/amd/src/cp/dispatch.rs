//! From registers to a launch.

use drivers_spec::amd::packet::Gfx;
use drivers_spec::amd::regs::{self, RSRC1, RSRC2};
use twin::rule::{Proof, Rule};
use twin_shader::launch::Launch;

use super::regs::Registers;
use super::{Cx, Stop, exception, wide};
use crate::chip::Chip;

/// A dispatch starts shaders.
pub static INITIATOR: Rule = Rule {
    name: "PM4-DISPATCH-INITIATOR",
    text: "DISPATCH_INITIATOR has COMPUTE_SHADER_EN set, no bits that the generation lacks, and no mode \
           of other engines (ordered append, restore, tunnel, amplification, interleave)",
    source: "Linux, gc_*_sh_mask.h; Mesa, radv_cmd_buffer.c, radv_emit_dispatch_packets",
    proof: Proof::Sourced,
};

/// A workgroup is not too large.
pub static THREADS: Rule = Rule {
    name: "PM4-NUM-THREAD",
    text: "NUM_THREAD_X, _Y and _Z are at least 1, their product at most 1024",
    source: "HSA Runtime Programmer's Reference Manual, 2.4; AMD ISA documents: a workgroup has at most \
             1024 work-items",
    proof: Proof::Sourced,
};

/// A grid fits its registers.
pub static GRID: Rule = Rule {
    name: "PM4-GRID-LIMIT",
    text: "a grid has at most 2^31 - 1 workgroups in x; in y and z at most 65535 on GFX12, where a wave receives both \
           in one register",
    source: "LLVM, AMDGPUUsage: TTMP7 holds y in 15:0 and z in 31:16",
    proof: Proof::Sourced,
};

/// Waves run privileged on GFX11.
pub static PRIV: Rule = Rule {
    name: "PM4-PRIV-GFX11",
    text: "on GFX11, RSRC1.PRIV is set if the queue can be preempted: context save requires it",
    source: "a driver that has run on cards sets it for this reason; no vendor text is known",
    proof: Proof::Guess,
};

/// Scratch has a size.
pub static TMPRING: Rule = Rule {
    name: "PM4-TMPRING",
    text: "if RSRC2.SCRATCH_EN is set, TMPRING_SIZE has a number of waves and the bytes per wave",
    source: "Linux, gc_*_sh_mask.h; ROCR, amd_aql_queue.cpp, FillComputeTmpRingSize",
    proof: Proof::Sourced,
};

/// Scratch has memory.
pub static SCRATCH: Rule = Rule {
    name: "PM4-SCRATCH-SIZE",
    text: "scratch memory is large enough for all waves that TMPRING_SIZE allows: WAVES x WAVESIZE, for every shader \
           engine from GFX11 on",
    source: "ROCR, amd_aql_queue.cpp, FillComputeTmpRingSize_Gfx11; Mesa, ac_get_scratch_info",
    proof: Proof::Sourced,
};

/// LDS fits.
pub static LDS: Rule = Rule {
    name: "PM4-LDS-SIZE",
    text: "RSRC2.LDS_SIZE is at most the LDS of a compute unit",
    source: "Linux, amdgpu_discovery: gc_lds_size; LLVM, AMDGPUUsage",
    proof: Proof::Sourced,
};

/// High half of the LDS aperture of flat accesses.
/// Source: Linux, amdkfd/kfd_flat_memory.c, MAKE_LDS_APP_BASE_V9.
pub(crate) const SHARED_APERTURE: u32 = 0x1_0000;
/// High half of the scratch aperture. Source: the same file, MAKE_SCRATCH_APP_BASE_V9.
pub(crate) const PRIVATE_APERTURE: u32 = 0x2_0000;

/// The most work-items of a workgroup.
pub(crate) const MAX_THREADS: u32 = 1024;

/// Waves that an XCC holds at a time.
pub(crate) fn waves(chip: &Chip) -> u32 {
    chip.cus * chip.simds * chip.waves
}

/// A wrong register of a dispatch.
fn wrong(rule: &'static Rule, what: String) -> Stop {
    Stop::Rule {
        rule,
        what,
        code: exception::PACKET_DISPATCH_REGISTER_INVALID,
    }
}

/// The launch of a DISPATCH packet on one XCC of `of`. None where the grid is empty.
pub(crate) fn launch(
    cx: &mut Cx,
    registers: &Registers,
    (xcc, of): (u32, u32),
    dims: [u32; 3],
    initiator: u32,
) -> Result<Option<Launch>, Stop> {
    let gfx = cx.gfx();
    check_initiator(gfx, initiator)?;
    let need = |addr| registers.need(cx, xcc, addr);
    let three = |first: u32| Ok::<_, Stop>([need(first)?, need(first + 1)?, need(first + 2)?]);

    let threads = three(regs::COMPUTE_NUM_THREAD_X)?;
    let size = [
        regs::threads(gfx, threads[0]),
        regs::threads(gfx, threads[1]),
        regs::NUM_THREAD_Z_FULL.get(threads[2]),
    ];
    let product = size.iter().map(|&n| u64::from(n)).product::<u64>();
    if product == 0 || product > u64::from(MAX_THREADS) {
        return Err(wrong(&THREADS, format!("a workgroup of {size:?}")));
    }
    let partial = threads.map(|word| regs::NUM_THREAD_PARTIAL.get(word));
    let (groups, last) = grid(dims, size, partial, initiator);
    let limit = match gfx {
        Gfx::Gfx12 => [i32::MAX as u32, 0xffff, 0xffff],
        Gfx::Gfx9 | Gfx::Gfx10 | Gfx::Gfx11 => [i32::MAX as u32; 3],
    };
    if groups.iter().zip(limit).any(|(&n, limit)| n > limit) {
        return Err(wrong(&GRID, format!("{groups:?} workgroups")));
    }

    let start = if regs::FORCE_START_AT_000.get(initiator) == 1 {
        [0; 3]
    } else {
        three(regs::COMPUTE_START_X)?
    };
    let entry = wide(
        need(regs::COMPUTE_PGM_LO)?,
        need(regs::COMPUTE_PGM_HI)? & 0xff,
    ) << 8;
    let rsrc = [
        need(regs::COMPUTE_PGM_RSRC1)?,
        need(regs::COMPUTE_PGM_RSRC2)?,
        need(regs::pgm_rsrc3(gfx))?,
    ];
    if gfx == Gfx::Gfx11 && cx.desc.cwsr.1 != 0 && regs::PRIV.get(rsrc[0]) == 0 {
        cx.note(&PRIV, format!("{} = {:#x}", RSRC1.name, rsrc[0]));
    }
    let lds = lds_bytes(cx, rsrc[1])?;
    let scratch = if regs::SCRATCH_EN.get(rsrc[1]) == 1 {
        Some(scratch_of(cx, registers, xcc)?)
    } else {
        None
    };

    // What was not written is not zero either: it is what another queue has left there.
    let mut user = [0; regs::USER_DATA as usize];
    for (addr, user) in (regs::COMPUTE_USER_DATA_0..).zip(&mut user) {
        *user = match registers.get(xcc, addr) {
            Some(value) => value,
            None => cx.rng.number() as u32,
        };
    }
    if groups.contains(&0) {
        return Ok(None);
    }
    let scratch = scratch.unwrap_or_default();
    Ok(Some(Launch {
        generation: cx.core.chip.generation,
        entry,
        groups,
        group_size: size,
        last_size: last,
        start,
        wave32: gfx != Gfx::Gfx9 && regs::CS_W32_EN.get(initiator) == 1,
        rsrc,
        user,
        lds,
        scratch_base: scratch.base,
        scratch_wave: scratch.wave,
        scratch_waves: scratch.waves,
        shared_aperture: SHARED_APERTURE,
        private_aperture: PRIVATE_APERTURE,
        xcc: (xcc, of),
        waves: waves(cx.core.chip),
        trap: cx.trap(),
        seed: cx.rng.number(),
    }))
}

/// Workgroups, and the size of the last one in each dimension.
fn grid(dims: [u32; 3], size: [u32; 3], partial: [u32; 3], initiator: u32) -> ([u32; 3], [u32; 3]) {
    let in_threads = regs::USE_THREAD_DIMENSIONS.get(initiator) == 1;
    let allowed = regs::PARTIAL_TG_EN.get(initiator) == 1;
    let mut groups = dims;
    let mut last = size;
    for i in 0..3 {
        if in_threads {
            groups[i] = dims[i].div_ceil(size[i]);
            if !dims[i].is_multiple_of(size[i]) {
                last[i] = dims[i] % size[i];
            }
        } else if allowed && partial[i] != 0 {
            last[i] = partial[i].min(size[i]);
        }
    }
    (groups, last)
}

fn check_initiator(gfx: Gfx, initiator: u32) -> Result<(), Stop> {
    let foreign = regs::ORDERED_APPEND_ENBL.mask()
        | regs::ORDERED_APPEND_MODE.mask()
        | regs::TUNNEL_ENABLE.mask()
        | regs::RESTORE.mask()
        | regs::AMP_SHADER_EN.mask()
        | regs::INTERLEAVE_2D_EN.mask()
        | !regs::DISPATCH_INITIATOR.mask(gfx);
    if regs::COMPUTE_SHADER_EN.get(initiator) == 0 || initiator & foreign != 0 {
        return Err(wrong(&INITIATOR, format!("it is {initiator:#x}")));
    }
    Ok(())
}

/// LDS of a workgroup in bytes.
pub(crate) fn lds_bytes(cx: &Cx, rsrc2: u32) -> Result<u32, Stop> {
    let bytes = regs::LDS_SIZE.get(rsrc2) * regs::LDS_GRANULE;
    if bytes > cx.core.chip.lds_kib * 1024 {
        return Err(wrong(
            &LDS,
            format!("{} = {rsrc2:#x}: {bytes} bytes", RSRC2.name),
        ));
    }
    Ok(bytes)
}

/// Scratch of a launch.
#[derive(Clone, Copy, Default)]
pub(crate) struct Scratch {
    /// Address of the first wave's.
    pub base: u64,
    /// Bytes of a wave.
    pub wave: u32,
    /// Waves of an XCC.
    pub waves: u32,
}

impl Scratch {
    /// The address of an XCC's, where all have one behind the other.
    pub fn on(&self, xcc: u32) -> u64 {
        self.base + u64::from(xcc) * u64::from(self.wave) * u64::from(self.waves)
    }

    /// What TMPRING_SIZE says about memory at `base`, for so many XCCs.
    pub fn new(cx: &Cx, tmpring: u32, base: u64, xccs: u32) -> Result<Self, Stop> {
        let gfx = cx.gfx();
        let (field, unit) = regs::wavesize(gfx);
        let engines = match gfx {
            Gfx::Gfx9 | Gfx::Gfx10 => 1,
            Gfx::Gfx11 | Gfx::Gfx12 => cx.core.chip.engines,
        };
        let scratch = Self {
            base,
            wave: field.get(tmpring) * unit,
            waves: regs::WAVES.get(tmpring) * engines,
        };
        if scratch.wave == 0 || scratch.waves == 0 {
            return Err(wrong(&TMPRING, format!("TMPRING_SIZE is {tmpring:#x}")));
        }
        let bytes = scratch.on(xccs.max(1)) - base;
        for at in [base, base + bytes - 1] {
            if cx.read::<1>(at).is_err() {
                return Err(wrong(
                    &SCRATCH,
                    format!(
                        "TMPRING_SIZE {tmpring:#x} takes {bytes:#x} bytes from {base:#x} on; {at:#x} is not \
                         mapped"
                    ),
                ));
            }
        }
        Ok(scratch)
    }
}

fn scratch_of(cx: &Cx, registers: &Registers, xcc: u32) -> Result<Scratch, Stop> {
    let tmpring = registers.need(cx, xcc, regs::COMPUTE_TMPRING_SIZE)?;
    let base = match cx.gfx() {
        // The address comes in SGPRs: a buffer resource, or flat scratch that the kernel sets up.
        Gfx::Gfx10 => {
            let word = |i| {
                registers
                    .get(xcc, regs::COMPUTE_USER_DATA_0 + i)
                    .unwrap_or(0)
            };
            wide(word(0), word(1) & 0xffff)
        }
        Gfx::Gfx9 | Gfx::Gfx11 | Gfx::Gfx12 => {
            let low = registers.need(cx, xcc, regs::COMPUTE_DISPATCH_SCRATCH_BASE_LO)?;
            let high = registers.need(cx, xcc, regs::COMPUTE_DISPATCH_SCRATCH_BASE_HI)?;
            wide(low, high & 0xff) << 8
        }
    };
    Scratch::new(cx, tmpring, base, 1)
}
