//! Launches of loaded kernels.

use hcq::command_buffer::{Part, Patch, Reloc, Section, place};
use hcq::{CommandBuffer, Program, Result, Val};

use super::launch::{BORDER, Launch};
use super::{DATA_ALIGN, Encoder};
use crate::object::{IMAGE_ALIGN, NONE};

/// Fibers of a group along an axis: `LOCALSIZEX` and so on have 10 bits.
const MAX_BLOCK: u32 = 1024;

/// Groups along an axis.
///
/// Source: Mesa, tu_device.cc, `maxComputeWorkGroupCount`.
pub(super) const MAX_GRID: u32 = 65535;

/// Dwords that the data block of a submission has at most: its offsets have 32 bits.
const MOST_DATA: usize = 1 << 29;

impl Encoder {
    /// Starts a grid: completes a copy of the program's packets and of its data.
    pub(super) fn exec(
        &self,
        program: &Program,
        args: &[Val],
        grid: [u32; 3],
        block: [u32; 3],
        out: &mut CommandBuffer,
    ) -> Result<()> {
        let setup = &self.setup;
        let Some(launch) = Launch::with_arguments(&program.launch_words, args) else {
            let why = "loaded by another driver; load it on this device";
            return Err(setup.refused_exec(program, why));
        };
        check(program, &launch, args, (grid, block))
            .map_err(|why| setup.refused_exec(program, why))?;
        if grid.contains(&0) {
            return Ok(());
        }
        self.put(&launch, (grid, block), out)
            .map_err(|why| setup.refused_exec(program, why))?;
        let start = out.data.len() - launch.data.len();
        let at = start as u32 * 4 + launch.arguments_at;
        for (field, &value) in program.args.fields.iter().zip(args) {
            let part = match field.kind.bytes() {
                8 => Part::Whole,
                _ => Part::Low,
            };
            put_data(out, at + field.offset, part, value);
        }
        for &[argument, descriptor, _] in launch.images {
            // The program's arguments were counted when it was loaded.
            let Some(&value) = args.get(argument as usize) else {
                continue;
            };
            let at = start as u32 * 4 + descriptor;
            put_data(out, at + 16, Part::Low, value);
            put_data(out, at + 20, ADDRESS_HI, value);
        }
        Ok(())
    }

    /// Appends the packets and the data of a launch, without arguments.
    pub(super) fn put(
        &self,
        launch: &Launch<'_>,
        (grid, block): ([u32; 3], [u32; 3]),
        out: &mut CommandBuffer,
    ) -> Result<(), String> {
        let start = out.data.len().next_multiple_of(DATA_ALIGN as usize / 4);
        if start + launch.data.len() > MOST_DATA {
            return Err(format!(
                "more than {MOST_DATA} dwords of launches in one submission"
            ));
        }
        let private = match launch.private_bytes {
            0 => None,
            needs => {
                let (private, keep) = &*self.private();
                if private.fiber_bytes < needs {
                    let has = private.fiber_bytes;
                    return Err(format!(
                        "needs {needs} bytes of private memory per fiber, the queue has {has}"
                    ));
                }
                out.keep.extend(keep.clone());
                Some(*private)
            }
        };
        let words_at = out.words.len() as u32;
        launch.put(grid, block, private.as_ref(), &mut out.words);
        out.data.resize(start, 0);
        out.data.extend_from_slice(launch.data);
        let sizes = [(launch.grid_at, grid), (launch.block_at, block)];
        for (at, size) in sizes.into_iter().filter(|(at, _)| *at != NONE) {
            out.data[start + at as usize / 4..][..3].copy_from_slice(&size);
        }
        for &[word, to] in launch.addresses {
            let offset = (words_at + word) * 4;
            match to {
                BORDER => place(&mut out.words, offset, Part::Whole, self.setup.border.0),
                to => out.relocs.push(Reloc {
                    section: Section::Words,
                    offset,
                    part: Part::Whole,
                    add: start as u32 * 4 + to,
                }),
            }
        }
        Ok(())
    }
}

/// The upper half of an address in a descriptor, beside the number of layers.
const ADDRESS_HI: Part = Part::Field {
    shift: 32,
    mask: 0x1_ffff,
    at: 0,
};

/// Writes a value into the data block, or that it is given later.
pub(super) fn put_data(out: &mut CommandBuffer, offset: u32, part: Part, value: Val) {
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

/// Checks a launch against its kernel and the hardware.
fn check(
    program: &Program,
    launch: &Launch<'_>,
    args: &[Val],
    (grid, block): ([u32; 3], [u32; 3]),
) -> Result<(), String> {
    let takes = program.args.fields.len();
    if args.len() != takes {
        return Err(format!(
            "{} arguments given, the kernel takes {takes}",
            args.len()
        ));
    }
    for field in &program.args.fields {
        let end = field
            .end()
            .and_then(|end| end.checked_add(launch.arguments_at));
        if end.is_none_or(|end| end > launch.arguments_end) || field.offset % 4 != 0 {
            return Err(format!(
                "the argument at {} of {} bytes is outside the kernel's {} bytes of constants, or not at a multiple of 4",
                field.offset,
                field.kind.bytes(),
                launch.arguments_end
            ));
        }
    }
    // Of a file that is wrong a product may not have 64 bits.
    let threads = block
        .iter()
        .fold(1u64, |all, &n| all.saturating_mul(u64::from(n)));
    if threads == 0 || threads > launch.max_threads.into() || block.iter().any(|&n| n > MAX_BLOCK) {
        return Err(format!(
            "block {block:?}: expected 1 to {} fibers per group, as the kernel's registers allow",
            launch.max_threads
        ));
    }
    let fits = |(&groups, &fibers): (&u32, &u32)| {
        groups <= MAX_GRID && groups.checked_mul(fibers).is_some()
    };
    if !grid.iter().zip(&block).all(fits) {
        return Err(format!(
            "grid {grid:?}: expected at most {MAX_GRID} groups along an axis"
        ));
    }
    for &[argument, ..] in launch.images {
        let base = args.get(argument as usize);
        if let Some(Val::Const(base)) = base
            && base % IMAGE_ALIGN != 0
        {
            return Err(format!(
                "argument {argument} is an image at {base:#x}, expected a multiple of {IMAGE_ALIGN}: pass a buffer or a view that \
                 begins there"
            ));
        }
    }
    Ok(())
}
