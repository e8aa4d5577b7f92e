//! Where in VRAM the firmware goes, from its end downwards: the workspace of the display, FRTS, the boot loader, GSP's
//! image, its heap, and a heap outside of WPR2.
//!
//! Source: open-gpu-kernel-modules 535.113.01, 550.163.01 and 570.144, src/nvidia/src/kernel/gpu/gsp:
//! arch/turing/kernel_gsp_tu102.c (`kgspCalculateFbLayout_TU102`), kernel_gsp.c (`_kgspCalculateFwHeapSize`,
//! `kgspGetFwHeapSize_IMPL`); src/nvidia/inc/kernel/gpu/gsp/gsp_fw_heap.h.

use drivers_spec::nv::abi::Branch;
use drivers_spec::nv::chip::Arch;
use drivers_spec::nv::gsp::{GSP_FW_WPR_META_MAGIC, GSP_FW_WPR_META_REVISION, PAGE, WprMeta};

use super::error::Cause;

const MIB: u64 = 1 << 20;

/// The unit of WPR2.
const WPR: u64 = 128 << 10;
/// The unit of where GSP's image starts.
const IMAGE: u64 = 64 << 10;
/// Bytes of FRTS.
pub(super) const FRTS: u64 = MIB;
/// What the host sees of VRAM through BAR0: the workspace of the display, where nothing says otherwise.
const PRAMIN: u64 = MIB;
/// The workspace where the display engine has it further below.
const VBIOS_WORKSPACE: u64 = 128 << 10;
/// The heap outside of WPR2.
const NON_WPR_HEAP: u64 = MIB;
/// What GSP's own firmware has cleared at the end of VRAM: the rest may not be used before RM runs.
const PRESCRUBBED: u64 = 256 * MIB;

/// The heap: for RM itself, to Ada and from Hopper on; for each GiB of VRAM; for the objects of clients.
const HEAP_RM: u64 = 8 * MIB;
const HEAP_RM_GH100: u64 = 14 * MIB;
const HEAP_PER_GIB: u64 = 96 << 10;
const HEAP_CLIENTS: u64 = (48 << 10) * 2048;

/// The heap: for the operating system, and the least of all of it.
fn heap_of(branch: Branch) -> (u64, u64) {
    match branch {
        Branch::R535 => (20 * MIB, 84 * MIB),
        Branch::R550 => (22 * MIB, 86 * MIB),
        Branch::R570 | Branch::R580 => (22 * MIB, 88 * MIB),
    }
}

/// Bytes of the heap, where there is room for it.
pub(super) fn heap(branch: Branch, arch: Arch, vram: u64) -> u64 {
    let (os, least) = heap_of(branch);
    let rm = match arch >= Arch::Gh100 {
        true => HEAP_RM_GH100,
        false => HEAP_RM,
    };
    let per_vram = (vram.div_ceil(1 << 30) * HEAP_PER_GIB).next_multiple_of(MIB);
    let all = os + rm + per_vram + HEAP_CLIENTS.next_multiple_of(MIB);
    all.max(least)
}

/// What the layout follows from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    /// The branch of the firmware.
    pub branch: Branch,
    /// Bytes of VRAM.
    pub vram: u64,
    /// Where the display engine has its workspace.
    pub workspace: Option<u64>,
    /// Bytes of GSP's image.
    pub image: u64,
    /// Bytes of the boot loader.
    pub loader: u64,
}

fn down(value: u64, unit: u64) -> u64 {
    value & !(unit - 1)
}

/// The part of [`WprMeta`] that says where everything goes.
///
/// # Errors
/// [`Cause::Vram`]: there is not room for it.
pub(super) fn layout(given: &Given) -> Result<WprMeta, Cause> {
    let vram = given.vram;
    let without_display = vram.saturating_sub(PRAMIN);
    let workspace = match given.workspace {
        Some(at) if at < without_display => vram.saturating_sub(VBIOS_WORKSPACE),
        Some(at) => at.min(vram),
        None => without_display,
    };
    let needed =
        vram - workspace + WPR + FRTS + given.loader + given.image + IMAGE + NON_WPR_HEAP + 4 * MIB;
    let (_, least) = heap_of(given.branch);
    let refused = Cause::Vram {
        vram,
        needed: needed + least,
    };
    if needed + least > vram {
        return Err(refused);
    }
    let wpr_end = down(workspace, WPR);
    let frts = wpr_end - FRTS;
    let loader = down(frts - given.loader, PAGE);
    let image = down(loader - given.image, IMAGE);
    // Within what is cleared, with what is in front of it and behind it.
    let behind = match given.branch {
        Branch::R535 | Branch::R550 => vram - image,
        Branch::R570 | Branch::R580 => (vram - image).next_multiple_of(MIB) + MIB + NON_WPR_HEAP,
    };
    let most = down(PRESCRUBBED.saturating_sub(behind), MIB);
    let heap = heap(given.branch, Arch::Ga10x, vram).min(most);
    if heap < least || needed + heap > vram {
        return Err(refused);
    }
    let heap_start = down(image - heap, MIB);
    let wpr_start = heap_start - MIB;
    let non_wpr = wpr_start - NON_WPR_HEAP;
    Ok(WprMeta {
        magic: GSP_FW_WPR_META_MAGIC,
        revision: GSP_FW_WPR_META_REVISION,
        size_of_radix3_elf: given.image,
        size_of_bootloader: given.loader,
        gsp_fw_rsvd_start: non_wpr,
        non_wpr_heap_offset: non_wpr,
        non_wpr_heap_size: NON_WPR_HEAP,
        gsp_fw_wpr_start: wpr_start,
        gsp_fw_heap_offset: heap_start,
        gsp_fw_heap_size: down(image - heap_start, MIB),
        gsp_fw_offset: image,
        boot_bin_offset: loader,
        frts_offset: frts,
        frts_size: FRTS,
        gsp_fw_wpr_end: wpr_end,
        fb_size: vram,
        vga_workspace_offset: workspace,
        vga_workspace_size: vram - workspace,
        ..WprMeta::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A card with 24 GiB, and the files of 570.144 for GA102.
    const GA102: Given = Given {
        branch: Branch::R570,
        vram: 24 << 30,
        workspace: None,
        image: 63_536_808,
        loader: 0x5000,
    };

    #[test]
    fn as_the_vendors_driver_lays_it_out() {
        let meta = layout(&GA102).unwrap();
        // Worked out by hand, from the rules of the vendor's driver.
        assert_eq!(meta.vga_workspace_offset, 0x5_fff0_0000);
        assert_eq!(meta.vga_workspace_size, 0x10_0000);
        assert_eq!(meta.gsp_fw_wpr_end, 0x5_fff0_0000);
        assert_eq!(meta.frts_offset, 0x5_ffe0_0000);
        assert_eq!(meta.boot_bin_offset, 0x5_ffdf_b000);
        let image = (0x5_ffdf_b000 - 63_536_808) & !0xffff;
        assert_eq!(meta.gsp_fw_offset, image);
        // 22 + 8 + 3 + 96 MiB.
        assert_eq!(meta.gsp_fw_heap_offset, (image - 129 * MIB) & !(MIB - 1));
        assert_eq!(
            meta.gsp_fw_heap_size,
            (image - meta.gsp_fw_heap_offset) & !(MIB - 1)
        );
        assert_eq!(meta.gsp_fw_wpr_start, meta.gsp_fw_heap_offset - MIB);
        assert_eq!(meta.non_wpr_heap_offset, meta.gsp_fw_wpr_start - MIB);
        assert_eq!(meta.gsp_fw_rsvd_start, meta.non_wpr_heap_offset);
        // All of it is in what is cleared.
        assert!(meta.fb_size - meta.gsp_fw_rsvd_start <= PRESCRUBBED);
        assert_eq!((meta.magic, meta.revision), (GSP_FW_WPR_META_MAGIC, 1));
    }

    #[test]
    fn the_workspace_of_the_display_moves_the_end() {
        let at = |workspace| {
            let given = Given { workspace, ..GA102 };
            let meta = layout(&given).unwrap();
            (meta.vga_workspace_offset, meta.gsp_fw_wpr_end)
        };
        let vram = GA102.vram;
        // Where the engine has it, if that is in the last MiB; at the end otherwise.
        let last = vram - 0x4_0000;
        assert_eq!(at(Some(last)), (last, last));
        let end = vram - 0x2_0000;
        assert_eq!(at(Some(0x1000_0000)), (end, end));
    }

    #[test]
    fn the_heap_follows_the_branch_and_stays_in_what_is_cleared() {
        let heap = |branch, image| {
            let given = Given {
                branch,
                image,
                vram: 8 << 30,
                ..GA102
            };
            layout(&given).map(|meta| meta.gsp_fw_heap_size / MIB)
        };
        assert_eq!(heap(Branch::R535, 38_043_648).unwrap(), 125);
        assert_eq!(heap(Branch::R550, 38_043_648).unwrap(), 127);
        assert_eq!(heap(Branch::R570, 38_043_648).unwrap(), 127);
        // 256 MiB, less what is behind it; and on newer branches what is in front of it.
        assert_eq!(heap(Branch::R550, 160 * MIB).unwrap(), 93);
        assert_eq!(heap(Branch::R570, 160 * MIB).unwrap(), 91);
        let error = heap(Branch::R570, 200 * MIB).unwrap_err();
        assert!(matches!(error, Cause::Vram { .. }), "{error}");
    }

    #[test]
    fn the_heap_of_later_chips_has_more_for_rm() {
        // 22 + 14 + 3 + 96 MiB for a card with 32 GiB, as for a GB202.
        assert_eq!(heap(Branch::R570, Arch::Gb20x, 32 << 30), 0x870_0000);
        assert_eq!(heap(Branch::R570, Arch::Ga10x, 24 << 30), 129 * MIB);
    }

    #[test]
    fn too_little_vram_is_said_with_its_numbers() {
        for vram in [0, MIB, 128 * MIB] {
            let error = layout(&Given { vram, ..GA102 }).unwrap_err();
            let text = error.to_string();
            assert!(
                text.starts_with(&format!("{vram:#x} bytes of VRAM")),
                "{text}"
            );
        }
    }
}
