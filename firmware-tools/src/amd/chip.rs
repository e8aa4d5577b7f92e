//! The files needed to boot a chip. Names follow from the versions of the blocks, which a driver reads from the
//! card's discovery table; the chips here are for use without a card.

/// Version of a block: major, minor, revision.
pub type Version = [u8; 3];

/// The blocks whose versions determine file names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocks {
    /// GC, the graphics block.
    pub gc: Version,
    /// SDMA0, the copy engines.
    pub sdma: Version,
    /// MP0, the PSP.
    pub psp: Version,
    /// MP1, the SMU.
    pub smu: Version,
}

/// Boards with special files.
///
/// Source: Linux, drivers/gpu/drm/amd/amdgpu: amdgpu_ucode.c (`kicker_device_list`), gfx_v11_0.c.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edition {
    /// All others.
    Usual,
    /// Boards called kickers.
    Kicker,
    /// Navi 31 of PCI revision 0xce: another RLC.
    Ce,
}

impl Edition {
    /// The edition of a board by its PCI device and revision.
    pub fn of(device: u16, revision: u8) -> Edition {
        match (device, revision) {
            (0x744b, 0x00) | (0x7551, 0xc8) => Edition::Kicker,
            (0x7440..=0x744f, 0xce) => Edition::Ce,
            _ => Edition::Usual,
        }
    }
}

impl Blocks {
    /// The names of the files, in the order in which the boot asks for them.
    pub fn boot_files(&self, edition: Edition) -> Vec<String> {
        let kicker = if edition == Edition::Kicker {
            "_kicker"
        } else {
            ""
        };
        let run_lists = if edition == Edition::Ce { "_1" } else { kicker };
        let dotted = |[major, minor, revision]: Version| format!("{major}_{minor}_{revision}");
        let gc = dotted(self.gc);
        let mut files = vec![
            format!("psp_{}_sos{kicker}.bin", dotted(self.psp)),
            format!("smu_{}{kicker}.bin", dotted(self.smu)),
            format!("sdma_{}.bin", dotted(self.sdma)),
        ];
        // Processors that the compute engine cannot start without.
        if self.gc[0] >= 12 {
            files.push(format!("gc_{gc}_pfp.bin"));
            files.push(format!("gc_{gc}_me.bin"));
        }
        files.push(format!("gc_{gc}_mec.bin"));
        if self.gc[0] >= 11 {
            files.push(format!("gc_{gc}_imu{kicker}.bin"));
        }
        files.push(format!("gc_{gc}_rlc{run_lists}.bin"));
        files
    }
}

/// A chip and its blocks.
#[derive(Clone, Copy, Debug)]
pub struct Chip {
    /// The compiler's name.
    pub gfx: &'static str,
    /// AMD's name.
    pub name: &'static str,
    /// The cards that have it.
    pub cards: &'static str,
    /// Versions of its blocks.
    pub blocks: Blocks,
}

/// Chips that the project boots by itself.
///
/// Source: Linux, Documentation/gpu/amdgpu/dgpu-asic-info-table.csv.
pub const CHIPS: [Chip; 6] = [
    chip(
        ["gfx942", "MI300X", "Instinct MI300X"],
        [9, 4, 3],
        [4, 4, 2],
        [13, 0, 6],
    ),
    chip(
        ["gfx1100", "Navi 31", "Radeon RX 7900"],
        [11, 0, 0],
        [6, 0, 0],
        [13, 0, 0],
    ),
    chip(
        ["gfx1101", "Navi 32", "Radeon RX 7700 and 7800"],
        [11, 0, 3],
        [6, 0, 3],
        [13, 0, 10],
    ),
    chip(
        ["gfx1102", "Navi 33", "Radeon RX 7600"],
        [11, 0, 2],
        [6, 0, 2],
        [13, 0, 7],
    ),
    chip(
        ["gfx1200", "Navi 44", "Radeon RX 9060"],
        [12, 0, 0],
        [7, 0, 0],
        [14, 0, 2],
    ),
    chip(
        ["gfx1201", "Navi 48", "Radeon RX 9070"],
        [12, 0, 1],
        [7, 0, 1],
        [14, 0, 3],
    ),
];

const fn chip(
    [gfx, name, cards]: [&'static str; 3],
    gc: Version,
    sdma: Version,
    mp: Version,
) -> Chip {
    let blocks = Blocks {
        gc,
        sdma,
        psp: mp,
        smu: mp,
    };
    Chip {
        gfx,
        name,
        cards,
        blocks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(gfx: &str, edition: Edition) -> String {
        let chip = CHIPS.iter().find(|chip| chip.gfx == gfx).unwrap();
        chip.blocks.boot_files(edition).join(" ")
    }

    #[test]
    fn names_of_files() {
        assert_eq!(
            files("gfx942", Edition::Usual),
            "psp_13_0_6_sos.bin smu_13_0_6.bin sdma_4_4_2.bin gc_9_4_3_mec.bin gc_9_4_3_rlc.bin"
        );
        assert_eq!(
            files("gfx1100", Edition::of(0x744c, 0xc8)),
            "psp_13_0_0_sos.bin smu_13_0_0.bin sdma_6_0_0.bin gc_11_0_0_mec.bin \
             gc_11_0_0_imu.bin gc_11_0_0_rlc.bin"
        );
        assert!(files("gfx1100", Edition::of(0x7448, 0xce)).ends_with(" gc_11_0_0_rlc_1.bin"));
        assert_eq!(
            files("gfx1201", Edition::of(0x7551, 0xc8)),
            "psp_14_0_3_sos_kicker.bin smu_14_0_3_kicker.bin sdma_7_0_1.bin gc_12_0_1_pfp.bin \
             gc_12_0_1_me.bin gc_12_0_1_mec.bin gc_12_0_1_imu_kicker.bin gc_12_0_1_rlc_kicker.bin"
        );
    }
}
