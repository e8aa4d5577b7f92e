//! What only channels with an engine of compute do: grids, and the state that these need.

use std::sync::atomic::Ordering;

use drivers_spec::nv::chip::Arch;
use drivers_spec::nv::compute::{
    self,
    invalidate_shader_caches_no_wfi::{CONSTANT, GLOBAL_DATA, INSTRUCTION},
    send_signaling_pcas2_b::{
        PCAS_ACTION, PCAS_ACTION_INVALIDATE_COPY_SCHEDULE,
        PCAS_ACTION_INVALIDATE_PREFETCH_COPY_SCHEDULE,
    },
    set_shader_local_memory_non_throttled_c::MAX_SM_COUNT,
};
use drivers_spec::nv::host;
use drivers_spec::nv::push::subchannel::{COMPUTE, COPY};
use hcq::command_buffer::{CommandBuffer, Part, Patch, Reloc, Section, place};
use hcq::{GpuVa, Program, Result, Val};

use super::launch::Launch;
use super::limits::{MAX_GRID, MAX_THREADS, WARP};
use super::local::LocalMemory;
use super::push::{immediate, methods};
use super::{DATA_ALIGN, Encoder, Setup};

/// Dwords of a data block at most: their offsets in bytes fit 32 bits.
const MOST_DATA: usize = 1 << 29;
/// Threads of a block along z at most.
const MAX_DEPTH: u32 = 64;

/// The first words of a channel: its engines, and the windows of shared and local memory.
pub(crate) fn open(setup: &Setup, out: &mut CommandBuffer) {
    let facts = setup.arch.facts();
    let [shared, local] = [setup.windows.shared, setup.windows.local].map(|GpuVa(base)| base);
    out.words.extend_from_slice(&[
        const { methods(COMPUTE, host::SET_OBJECT, 1) },
        facts.compute.number,
        const { methods(COMPUTE, compute::SET_SHADER_LOCAL_MEMORY_WINDOW_A, 2) },
        (local >> 32) as u32,
        local as u32,
        const { methods(COMPUTE, compute::SET_SHADER_SHARED_MEMORY_WINDOW_A, 2) },
        (shared >> 32) as u32,
        shared as u32,
        const { immediate(COMPUTE, compute::INVALIDATE_SKED_CACHES, 0) },
        const { methods(COPY, host::SET_OBJECT, 1) },
        facts.copy.number,
    ]);
}

/// Invalidates the caches of instructions and constants.
pub(crate) fn begin(out: &mut CommandBuffer) {
    const ALL: u32 = INSTRUCTION.put(1) | GLOBAL_DATA.put(1) | CONSTANT.put(1);
    out.words
        .push(const { immediate(COMPUTE, compute::INVALIDATE_SHADER_CACHES_NO_WFI, ALL) });
}

/// Completes earlier work and makes its stores visible to the system: grids end so
/// ([`super::qmd::template`]), and the change of the engine waits for copies.
///
/// Source: open-gpu-doc, manuals/ampere/ga100/dev_ram.ref.txt: from subchannel 4 to others the host waits for idle,
/// has a barrier of the system, and invalidates caches.
#[inline]
pub(crate) fn barrier(out: &mut CommandBuffer) {
    out.words
        .push(const { immediate(COMPUTE, compute::WAIT_FOR_IDLE, 0) });
}

/// From now on grids have this local memory. Waits for earlier grids.
pub(crate) fn local_memory(local: &LocalMemory, out: &mut CommandBuffer) {
    // More than any GPU has: hardware takes its own number where this is larger.
    const ALL: u32 = 0xff;
    let base = local.base.0;
    barrier(out);
    out.words.extend_from_slice(&[
        const { methods(COMPUTE, compute::SET_SHADER_LOCAL_MEMORY_A, 2) },
        (base >> 32) as u32,
        base as u32,
        const { methods(COMPUTE, compute::SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A, 3) },
        (local.tpc_bytes >> 32) as u32,
        local.tpc_bytes as u32,
        MAX_SM_COUNT.put(ALL),
    ]);
}

/// Schedules a QMD: the scheduler invalidates its cached copy of this address.
///
/// Source: Mesa, nvk_cmd_dispatch.c, for Ampere, Ada and Blackwell; maxime-peim/libcuda-research, on an H100.
const fn schedule(arch: Arch) -> u32 {
    let action = match arch {
        Arch::Gh100 => PCAS_ACTION_INVALIDATE_PREFETCH_COPY_SCHEDULE,
        _ => PCAS_ACTION_INVALIDATE_COPY_SCHEDULE,
    };
    immediate(
        COMPUTE,
        compute::SEND_SIGNALING_PCAS2_B,
        PCAS_ACTION.put(action),
    )
}

impl Encoder {
    /// Starts a grid: completes a copy of the program's template in the data block, and schedules
    /// its address.
    pub(super) fn exec(
        &self,
        program: &Program,
        args: &[Val],
        grid: [u32; 3],
        block: [u32; 3],
        out: &mut CommandBuffer,
    ) -> Result<()> {
        let launch = self.check(program, args, grid, block)?;
        if grid.contains(&0) {
            return Ok(());
        }
        let start = out.data.len().next_multiple_of(DATA_ALIGN as usize / 4);
        if start + launch.template.len() > MOST_DATA {
            let why = format!("more than {MOST_DATA} dwords of launches in one submission");
            return Err(self.setup.refused_exec(program, why));
        }
        out.data.resize(start, 0);
        out.data.extend_from_slice(launch.template);
        self.set_grid(&launch, grid, block, &mut out.data[start..]);
        let at = start as u32 * 4;
        self.set_arguments(program, args, &launch, at, out)?;
        relocate(&launch, at, out);
        out.words.extend_from_slice(&[
            const { methods(COMPUTE, compute::SEND_PCAS_A, 1) },
            0,
            schedule(self.setup.arch),
        ]);
        Ok(())
    }

    /// Writes to a QMD what differs from grid to grid: its size, and how much shared memory its SMs need.
    #[inline(always)]
    fn set_grid(&self, launch: &Launch<'_>, grid: [u32; 3], block: [u32; 3], qmd: &mut [u32]) {
        let places = launch.places();
        let [threads, blocks] = [launch.block as usize, launch.grid as usize];
        for i in 0..3 {
            places.grid[i].put(qmd, grid[i]);
            places.block[i].put(qmd, block[i]);
            qmd[blocks + i] = grid[i];
            qmd[threads + i] = block[i];
        }
        let limits = self.setup.limits;
        let warps = (block[0] * block[1] * block[2]).div_ceil(WARP);
        let resident = limits.resident(warps, launch.granules);
        let target = limits.carve_out(resident * launch.shared_bytes);
        places.target.put(qmd, target);
    }

    /// Writes the arguments behind the QMD at byte `at` of the data block.
    #[inline(always)]
    fn set_arguments(
        &self,
        program: &Program,
        args: &[Val],
        launch: &Launch<'_>,
        at: u32,
        out: &mut CommandBuffer,
    ) -> Result<()> {
        for (field, &value) in program.args.fields.iter().zip(args) {
            let part = match field.kind.bytes() {
                8 => Part::Whole,
                _ => Part::Low,
            };
            let inside = field.end().is_some_and(|end| end <= launch.param_bytes);
            if !inside || field.offset % 4 != 0 {
                return Err(self.setup.refused_exec(
                    program,
                    format!(
                        "the {}-byte argument at offset {} is outside the {} bytes of parameters, or \
                         misaligned (expected a multiple of 4)",
                        field.kind.bytes(),
                        field.offset,
                        launch.param_bytes
                    ),
                ));
            }
            let offset = at + launch.params + field.offset;
            match value {
                Val::Const(value) => place(&mut out.data, offset, part, value),
                Val::Slot(slot, add) => out.patches.push(Patch {
                    section: Section::Data,
                    offset,
                    part,
                    slot,
                    add,
                }),
            }
        }
        Ok(())
    }

    /// Checks a launch against its kernel and the chip.
    // Inlined, so that the launch is not moved through memory.
    #[inline(always)]
    fn check<'a>(
        &self,
        program: &'a Program,
        args: &[Val],
        grid: [u32; 3],
        block: [u32; 3],
    ) -> Result<Launch<'a>> {
        let refused = |why: String| Err(self.setup.refused_exec(program, why));
        let launch = Launch::from_words(&program.launch_words);
        let Some(launch) = launch.filter(|l| l.version == super::qmd::version(self.setup.arch))
        else {
            return refused("loaded by another driver; load it on this device".into());
        };
        let takes = program.args.fields.len();
        if args.len() != takes {
            let given = args.len();
            return refused(format!("{given} arguments given, the kernel takes {takes}"));
        }
        let [x, y, z] = block.map(u64::from);
        let threads = (x * y).saturating_mul(z);
        let most = launch.max_threads.min(MAX_THREADS);
        if threads == 0 || threads > most.into() || block[2] > MAX_DEPTH {
            return refused(format!(
                "block {block:?}: expected 1 to {most} threads per block, at most {MAX_DEPTH} along z"
            ));
        }
        if grid.iter().zip(MAX_GRID).any(|(&n, most)| n > most) {
            return refused(format!(
                "grid {grid:?}: expected at most {MAX_GRID:?} blocks"
            ));
        }
        let has = self.local_bytes.load(Ordering::Acquire);
        if launch.local_bytes > has {
            let needs = launch.local_bytes;
            return refused(format!(
                "needs {needs} bytes of local memory per thread, the queue has {has}"
            ));
        }
        Ok(launch)
    }
}

/// The addresses that the QMD at byte `at` of the data block has: of its parameters and its constant bank. The
/// scheduler is told its own, in the words that come next.
#[inline(always)]
fn relocate(launch: &Launch<'_>, at: u32, out: &mut CommandBuffer) {
    let places = launch.places();
    if launch.window > 0 {
        out.relocs.push(Reloc {
            section: Section::Data,
            offset: at + launch.window,
            part: Part::Whole,
            add: at + launch.params,
        });
    }
    let bank = at + launch.version.dwords() as u32 * 4;
    let field = |section, offset, shift, mask, low, add| Reloc {
        section,
        offset,
        part: Part::Field {
            shift,
            mask,
            at: low,
        },
        add,
    };
    let [lower, upper] = places.bank.map(|place| at + place.dword as u32 * 4);
    let shift = places.bank_shift;
    let low = places.bank[1].low as u8;
    let pcas = (out.words.len() as u32 + 1) * 4;
    out.relocs.extend_from_slice(&[
        field(Section::Data, lower, shift, u32::MAX, 0, bank),
        field(
            Section::Data,
            upper,
            shift + 32,
            places.bank_upper,
            low,
            bank,
        ),
        field(Section::Words, pcas, 8, u32::MAX, 0, at),
    ]);
}
