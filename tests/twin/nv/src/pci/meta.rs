//! `GspFwWprMeta`: what the booter is told about an image and about the card's memory.
//!
//! Source: OGKM, src/nvidia/arch/nvalloc/common/inc/gsp/gsp_fw_wpr_meta.h, the same in 535.113.01, 550.163.01 and 570.144 as far as
//! falcons go; kernel_gsp_tu102.c, kgspCalculateFbLayout_TU102.

use std::ops::Range;

use twin::rule::{Proof, Rule};

use super::memory::{long, word};

static MAGIC: Rule = Rule {
    name: "NV-WPR-META-MAGIC",
    text: "GspFwWprMeta has its magic and revision 1, bootCount 0 and verified 0",
    source: "OGKM, gsp_fw_wpr_meta.h: GSP_FW_WPR_META_MAGIC, GSP_FW_WPR_META_REVISION; kernel_gsp_tu102.c, \
             kgspCalculateFbLayout_TU102",
    proof: Proof::Sourced,
};

static ALIGNED: Rule = Rule {
    name: "NV-WPR-META-ALIGNED",
    text: "gspFwWprStart and gspFwWprEnd are multiples of 128 KiB, gspFwHeapOffset, gspFwHeapSize and nonWprHeapSize of 1 MiB, \
           gspFwOffset of 64 KiB, bootBinOffset of 4 KiB",
    source: "OGKM, gsp_fw_wpr_meta.h; kernel_gsp_tu102.c, kgspCalculateFbLayout_TU102: NV_ALIGN_DOWN64",
    proof: Proof::Sourced,
};

static ORDER: Rule = Rule {
    name: "NV-WPR-META-ORDER",
    text: "in the card's memory follow each other, without overlap: the heap outside of WPR2 from gspFwRsvdStart on, WPR2 \
           with a MiB for the metadata, the heap, the firmware, the boot loader, FRTS up to its end, the VGA workspace up to fbSize",
    source: "OGKM, gsp_fw_wpr_meta.h, the figure; kernel_gsp_tu102.c, kgspCalculateFbLayout_TU102",
    proof: Proof::Sourced,
};

static FRTS: Rule = Rule {
    name: "NV-WPR-META-FRTS",
    text: "FWSEC has set FRTS up before the booter runs, where frtsOffset and frtsSize say",
    source: "OGKM, kernel_gsp_tu102.c, kgspBootstrap_TU102: Execute FWSEC to setup FRTS, then the booter; kgspPrepareForBootstrap_TU102",
    proof: Proof::Sourced,
};

static HEAP: Rule = Rule {
    name: "NV-WPR-META-HEAP",
    text: "the heap in WPR2 has 84 MiB for firmware of branch 535, 86 of 550, 88 of 570, or more; the one outside of it has 1 MiB",
    source: "OGKM, gsp_fw_heap.h: GSP_FW_HEAP_SIZE_OVERRIDE_LIBOS3_BAREMETAL_MIN_MB of each branch; g_kernel_gsp_nvoc.h, \
             kgspGetNonWprHeapSize",
    proof: Proof::Sourced,
};

/// `GSP_FW_WPR_META_MAGIC`.
const META_MAGIC: u64 = 0xdc3a_ae21_371a_60b3;
/// `GSP_FW_WPR_META_VERIFIED`.
pub(super) const VERIFIED: u64 = 0xa0a0_a0a0_a0a0_a0a0;
/// Bytes of it.
pub(super) const BYTES: usize = 256;

const MIB: u64 = 1 << 20;

/// What it says.
pub(super) struct Meta {
    pub(super) bytes: [u8; BYTES],
    /// Where the tables of the image are, and its size.
    pub(super) image: (u64, u64),
    /// Where the boot loader is, and its size.
    pub(super) loader: (u64, u64),
    /// Offsets of its code, its data and its manifest.
    pub(super) loader_offsets: [u64; 3],
    /// Where the signature is, and its size.
    pub(super) signature: (u64, u64),
    /// WPR2.
    pub(super) wpr2: Range<u64>,
    heap: Range<u64>,
    plain_heap: Range<u64>,
    reserved: u64,
    firmware: u64,
    boot_binary: u64,
    frts: Range<u64>,
    fb: u64,
    vga: Range<u64>,
}

/// A rule that it breaks, and how.
pub(super) type Checked = Result<(), (&'static Rule, String)>;

impl Meta {
    pub(super) fn new(bytes: [u8; BYTES]) -> Meta {
        let at = |offset: usize| long(&bytes, offset);
        let range = |start: usize, size: usize| at(start)..at(start).saturating_add(at(size));
        Meta {
            image: (at(0x10), at(0x18)),
            loader: (at(0x20), at(0x28)),
            loader_offsets: [at(0x30), at(0x38), at(0x40)],
            signature: (at(0x48), at(0x50)),
            reserved: at(0x58),
            plain_heap: range(0x60, 0x68),
            wpr2: at(0x70)..at(0xa8),
            heap: range(0x78, 0x80),
            firmware: at(0x88),
            boot_binary: at(0x90),
            frts: range(0x98, 0xa0),
            fb: at(0xb0),
            vga: range(0xb8, 0xc0),
            bytes,
        }
    }

    /// What it begins with.
    pub(super) fn check_magic(&self) -> Checked {
        let at = |offset: usize| long(&self.bytes, offset);
        match [at(0), at(8), at(0xc8), at(0xf8)] {
            [META_MAGIC, 1, 0, 0] => Ok(()),
            [magic, revision, count, verified] => {
                let what = format!(
                    "magic {magic:#x}, revision {revision}, bootCount {count}, verified {verified:#x}"
                );
                Err((&MAGIC, what))
            }
        }
    }

    /// What does not depend on the image. `fb` is the size of memory, `set_up` what FWSEC has made.
    pub(super) fn check(&self, fb: u64, set_up: Option<&Range<u64>>) -> Checked {
        self.check_magic()?;
        let aligned = [
            ("gspFwWprStart", self.wpr2.start, 0x2_0000),
            ("gspFwWprEnd", self.wpr2.end, 0x2_0000),
            ("gspFwHeapOffset", self.heap.start, MIB),
            ("gspFwHeapSize", self.heap.end - self.heap.start, MIB),
            (
                "nonWprHeapSize",
                self.plain_heap.end - self.plain_heap.start,
                MIB,
            ),
            ("gspFwOffset", self.firmware, 0x1_0000),
            ("bootBinOffset", self.boot_binary, 0x1000),
        ];
        let off = |(_, value, unit): &&(&str, u64, u64)| !value.is_multiple_of(*unit);
        if let Some((name, value, unit)) = aligned.iter().find(off) {
            return Err((&ALIGNED, format!("{name} is {value:#x}, of {unit:#x}")));
        }
        self.follow(fb)?;
        match set_up {
            Some(set_up) if *set_up == self.frts => Ok(()),
            found => Err((
                &FRTS,
                format!("{:#x?}, and FWSEC has made {found:#x?}", self.frts),
            )),
        }
    }

    /// Each part ends where the next one begins, or before.
    fn follow(&self, fb: u64) -> Checked {
        let parts = [
            (
                "gspFwRsvdStart",
                self.reserved,
                "nonWprHeapOffset",
                self.plain_heap.start,
            ),
            (
                "the heap outside of WPR2",
                self.plain_heap.end,
                "gspFwWprStart",
                self.wpr2.start,
            ),
            (
                "the metadata",
                self.wpr2.start.saturating_add(MIB),
                "gspFwHeapOffset",
                self.heap.start,
            ),
            ("the heap", self.heap.end, "gspFwOffset", self.firmware),
            (
                "the firmware",
                self.firmware.saturating_add(self.image.1),
                "bootBinOffset",
                self.boot_binary,
            ),
            (
                "the boot loader",
                self.boot_binary.saturating_add(self.loader.1),
                "frtsOffset",
                self.frts.start,
            ),
            ("FRTS", self.frts.end, "gspFwWprEnd", self.wpr2.end),
            ("WPR2", self.wpr2.end, "vgaWorkspaceOffset", self.vga.start),
            ("the VGA workspace", self.vga.end, "fbSize", self.fb),
            ("fbSize", self.fb, "the size of memory", fb),
        ];
        let wrong = parts.iter().find(|(_, end, _, next)| end > next);
        match wrong {
            None if self.fb == fb && self.frts.end == self.wpr2.end => Ok(()),
            None => {
                let what = format!(
                    "FRTS ends at {:#x}, fbSize is {:#x}",
                    self.frts.end, self.fb
                );
                Err((&ORDER, what))
            }
            Some((name, end, next, start)) => Err((
                &ORDER,
                format!("{name} ends at {end:#x}, {next} is {start:#x}"),
            )),
        }
    }

    /// What depends on the version of the image.
    pub(super) fn check_heap(&self, branch: u32) -> Checked {
        let least = match branch {
            535 => 84,
            550 => 86,
            _ => 88,
        };
        let heap = self.heap.end - self.heap.start;
        let plain = self.plain_heap.end - self.plain_heap.start;
        match heap >= least * MIB && plain >= MIB {
            true => Ok(()),
            false => Err((
                &HEAP,
                format!("{heap:#x} in WPR2, {plain:#x} outside of it"),
            )),
        }
    }

    /// What firmware has outside of WPR2.
    pub(super) fn plain_heap(&self) -> Range<u64> {
        self.plain_heap.clone()
    }

    /// `flags`.
    pub(super) fn flags(&self) -> u32 {
        word(&self.bytes, 0xf0) >> 8 & 0xff
    }
}
