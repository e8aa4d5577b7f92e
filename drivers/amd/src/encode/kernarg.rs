//! What a launch passes to a kernel: its arguments, and its dispatch packet.

use drivers_spec::amd::{aql, kd};
use hcq::command_buffer::{CommandBuffer, Part, Patch, Reloc, Section, place};
use hcq::{Error, Program, Result, Val};

use super::{DATA_ALIGN, Launch, Setup};

/// The least alignment of an argument block.
/// Source: HSA Runtime Programmer's Reference Manual 1.2, 2.9.6.
const ALIGN: u32 = 16;

/// Dwords of a data block at most: their offsets in bytes fit 32 bits.
const MOST_DATA: usize = 1 << 29;

/// A launch whose numbers fit.
pub(crate) struct Kernel<'a> {
    pub program: &'a Program,
    pub launch: Launch,
    args: &'a [Val],
    pub grid: [u32; 3],
    pub block: [u32; 3],
}

/// Checks a launch against its kernel and the chip.
pub(crate) fn check<'a>(
    setup: &Setup,
    program: &'a Program,
    args: &'a [Val],
    grid: [u32; 3],
    block: [u32; 3],
) -> Result<Kernel<'a>> {
    let refused = |why: String| Err(setup.refused(format!("exec {}", program.name), why));
    let Some(launch) = Launch::from_words(&program.launch_words) else {
        return refused("loaded by another driver; load it on this device".into());
    };
    let takes = program.args.fields.len();
    if args.len() != takes {
        let given = args.len();
        return refused(format!("{given} arguments given, the kernel takes {takes}"));
    }
    let [x, y, z] = block.map(u64::from);
    let threads = (x * y).saturating_mul(z);
    if threads == 0 || threads > launch.max_threads.into() {
        let most = launch.max_threads;
        return refused(format!(
            "block {block:?}: expected 1 to {most} work-items per workgroup"
        ));
    }
    if launch.required.is_some_and(|required| required != block) {
        let required = launch.required.unwrap_or_default();
        return refused(format!(
            "block {block:?}: this kernel is compiled for {required:?}"
        ));
    }
    let most = setup.chip.generation.grid_max;
    if grid.iter().zip(most).any(|(&n, most)| n > most) {
        return refused(format!(
            "grid {grid:?}: {} starts at most {most:?} workgroups",
            setup.chip.name
        ));
    }
    Ok(Kernel {
        program,
        launch,
        args,
        grid,
        block,
    })
}

impl Kernel<'_> {
    /// Refuses the launch.
    pub fn refused(&self, setup: &Setup, why: impl Into<String>) -> Error {
        setup.refused(format!("exec {}", self.program.name), why)
    }

    /// Refuses a kernel that needs more scratch than the queue has.
    pub fn check_scratch(&self, setup: &Setup, has: u32, needs: u32) -> Result<()> {
        if needs <= has {
            return Ok(());
        }
        Err(self.refused(
            setup,
            format!("needs {needs} bytes of scratch per lane, the queue has {has}"),
        ))
    }

    /// Appends the argument block to the data. Returns its offset in bytes.
    pub fn arguments(&self, setup: &Setup, out: &mut CommandBuffer) -> Result<u32> {
        let layout = &self.program.args;
        let bytes = layout.bytes.max(self.launch.kernarg_bytes);
        let align = layout.align.max(self.launch.kernarg_align).max(ALIGN);
        if !align.is_power_of_two() || u64::from(align) > DATA_ALIGN {
            let why = format!(
                "argument alignment is {align} bytes, expected a power of two up to {DATA_ALIGN}"
            );
            return Err(self.refused(setup, why));
        }
        let start = out.data.len().next_multiple_of(align as usize / 4);
        let end = start + bytes.div_ceil(4) as usize;
        if end > MOST_DATA {
            let why = format!(
                "{end} dwords of arguments in one submission, expected at most {MOST_DATA}"
            );
            return Err(self.refused(setup, why));
        }
        out.data.resize(end, 0);
        for (field, &value) in layout.fields.iter().zip(self.args) {
            let (offset, width) = (field.offset, field.kind.bytes());
            let part = match width {
                8 => Part::Whole,
                _ => Part::Low,
            };
            if field.end().is_none_or(|end| end > bytes) || offset % 4 != 0 {
                let why = format!(
                    "the {width}-byte argument at offset {offset} is outside its {bytes}-byte block, or \
                     misaligned (expected a multiple of 4)"
                );
                return Err(self.refused(setup, why));
            }
            let offset = start as u32 * 4 + offset;
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
        if let Some(at) = self.launch.hidden {
            self.hidden(setup, &mut out.data[start..], at as usize);
        }
        Ok(start as u32 * 4)
    }

    /// Hidden arguments: what the language's built-in functions read.
    ///
    /// Source: LLVM, AMDGPUUsage, "Code Object V5 Metadata", hidden arguments.
    fn hidden(&self, setup: &Setup, block: &mut [u32], at: usize) {
        let mut put = |offset: usize, word: u32| {
            if let Some(place) = block.get_mut((at + offset) / 4) {
                *place = word;
            }
        };
        let ([x, y, z], [bx, by, bz]) = (self.grid, self.block);
        put(0, x);
        put(4, y);
        put(8, z);
        put(12, bx | by << 16);
        // The remainders are 0: every workgroup is whole. Offsets of the grid are 0 as well.
        put(16, bz);
        put(64, 3);
        put(200, setup.queue.lo());
        put(204, setup.queue.hi());
    }

    /// Arguments that the kernel wants in SGPRs: appends to the words what [`Kernel::arguments`] has
    /// put at `arguments`, with the patches from `first_patch` on that fall into it.
    pub fn preload(&self, arguments: u32, first_patch: usize, out: &mut CommandBuffer) {
        let preload = u32::from(self.launch.preload);
        let count = kd::KERNARG_PRELOAD_SPEC_LENGTH.get(preload);
        if count == 0 {
            return;
        }
        let from = arguments / 4 + kd::KERNARG_PRELOAD_SPEC_OFFSET.get(preload);
        let to = out.words.len() as u32;
        for i in from..from + count {
            let word = out.data.get(i as usize).copied().unwrap_or(0);
            out.words.push(word);
        }
        for i in first_patch..out.patches.len() {
            let patch = out.patches[i];
            if patch.section != Section::Data {
                continue;
            }
            let dword = patch.offset / 4;
            let mut copy = |dword: u32, part: Part| {
                if (from..from + count).contains(&dword) {
                    out.patches.push(Patch {
                        section: Section::Words,
                        offset: (to + dword - from) * 4,
                        part,
                        ..patch
                    });
                }
            };
            copy(dword, Part::Low);
            if patch.part == Part::Whole {
                copy(dword + 1, Part::High);
            }
        }
    }

    /// Appends an image of the dispatch packet to the data, for a kernel that reads it. Returns its
    /// offset in bytes.
    pub fn dispatch_packet(&self, arguments: u32, out: &mut CommandBuffer) -> u32 {
        let start = out
            .data
            .len()
            .next_multiple_of(aql::PACKET_BYTES as usize / 4);
        out.data.resize(start, 0);
        let kernarg = (start + aql::dispatch::KERNARG_ADDRESS / 4) as u32 * 4;
        out.data
            .extend_from_slice(&self.packet(aql::KERNEL_DISPATCH));
        out.relocs.push(Reloc {
            section: Section::Data,
            offset: kernarg,
            part: Part::Whole,
            add: arguments,
        });
        start as u32 * 4
    }

    /// The kernel dispatch packet with a header; the address of the arguments is still open. The
    /// grid counts work-items; what does not fit 32 bits is cut.
    pub fn packet(&self, header: u32) -> [u32; 16] {
        let [x, y, z] = self.block;
        let [gx, gy, gz] = [0, 1, 2].map(|i| self.grid[i].wrapping_mul(self.block[i]));
        let object = self.program.entry;
        let launch = &self.launch;
        [
            header | aql::DIMENSIONS.put(3),
            x | y << 16,
            z,
            gx,
            gy,
            gz,
            launch.private_bytes,
            launch.group_bytes,
            object.lo(),
            object.hi(),
            0,
            0,
            0,
            0,
            0,
            0,
        ]
    }
}
