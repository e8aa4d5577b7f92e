//! The expansion ROM of a card: what a driver reads of it (the "VBIOS"), with nothing in it to run but a return.
//!
//! A PCI image that starts with an ATOM ROM: header, strings, a list of command tables, all empty, since the card's own
//! firmware has done what these would do, and a list of data tables. Values are plausible for a card of this kind and are
//! not from one: clocks in units of 10 kHz, voltages in mV.
//!
//! Source: PCI Firmware Specification 3.0, 5.1 (the image); Linux, drivers/gpu/drm/amd/include/atomfirmware.h (tables, by
//! revision) and amdgpu/atom.c, `amdgpu_atom_parse` and what it calls (places of the strings).

use drivers_spec::pci::{CLASS_DISPLAY, VENDOR_AMD};

use super::chip::Chip;

/// The image's length: a power of two, since a ROM BAR is sized like any other.
const BYTES: usize = 32 << 10;
/// What lengths of images are given in.
const BLOCK: usize = 512;
/// `regBIF_BX0_BIOS_SCRATCH_0`, as a dword of the registers.
const SCRATCH: u32 = 0x4c;

/// How many command and data tables the lists have: `atom_master_list_of_{command_functions,data_tables}_v2_1`.
const COMMANDS: usize = 81;
const TABLES: usize = 35;
/// Places in the list of data tables.
const SMC_DPM_INFO: usize = 2;
const FIRMWARE_INFO: usize = 4;
const SMU_INFO: usize = 8;
const VRAM_USAGE: usize = 11;
const GFX_INFO: usize = 14;
const INDIRECT_IO: usize = 23;
const VRAM_INFO: usize = 28;

/// 100 MHz, which all PLLs start from.
const REFERENCE: u32 = 10_000;
/// `ATOM_DGPU_VRAM_TYPE_GDDR6`.
const GDDR6: u8 = 0x61;

/// The ROM of a card.
pub fn image(chip: &Chip) -> Vec<u8> {
    const PCIR: usize = 0x80;
    const STRINGS: usize = 0xa0;
    let mut rom = Rom(vec![0; BYTES]);
    // Firmware calls what is behind the length: it returns, by a far return.
    rom.put(0x00, &[0x55, 0xaa, (BYTES / BLOCK) as u8, 0xcb]);
    rom.word(0x18, PCIR);
    rom.put(0x30, b" 761295520");
    rom.put(0x50, b"11/23/26 06:00");
    rom.put(PCIR, b"PCIR");
    rom.put(PCIR + 4, &VENDOR_AMD.to_le_bytes());
    rom.put(PCIR + 6, &chip.device.to_le_bytes());
    rom.word(PCIR + 0x0a, 0x18);
    rom.put(PCIR + 0x0d, &[0, 0x80, CLASS_DISPLAY]);
    rom.word(PCIR + 0x10, BYTES / BLOCK);
    // The last image.
    rom.put(PCIR + 0x15, &[0x80]);

    // One string, the part number; behind it, a line further, the name; then the version.
    rom.put(0x2f, &[1]);
    rom.word(0x6e, STRINGS);
    rom.put(STRINGS, b"113-DOORBELL-TWIN\0\r\nDoorbell twin\0");
    rom.put(0x100, b"ATOMBIOSBK-AMD VER022.001.000.000.000000\0");

    let (header, commands, tables) = (0x200, 0x240, 0x300);
    rom.word(0x48, header);
    rom.table(header, 0x28, 2, 2);
    rom.put(header + 4, b"ATOM");
    rom.word(header + 0x1e, commands);
    rom.word(header + 0x20, tables);
    rom.table(commands, 4 + 2 * COMMANDS, 2, 1);
    rom.table(tables, 4 + 2 * TABLES, 2, 1);

    let mut next = 0x400;
    let mut add = |rom: &mut Rom, place: usize, bytes: usize, revision: (u8, u8)| {
        let at = next;
        next += bytes.next_multiple_of(16);
        rom.table(at, bytes, revision.0, revision.1);
        rom.word(tables + 4 + 2 * place, at);
        at
    };
    let at = add(&mut rom, FIRMWARE_INFO, 0x6c, (3, 4));
    rom.dwords(at + 4, &[0x16_0001, 50_000, 62_500, 0, 0, SCRATCH]);
    rom.words(at + 0x1c, &[800, 800, 1350, 800]);
    let at = add(&mut rom, SMU_INFO, 0xf0, (3, 6));
    rom.dwords(at + 0x10, &[REFERENCE]);
    rom.dwords(at + 0x24, &[50_000; 3]);
    let at = add(&mut rom, GFX_INFO, 0x88, (3, 0));
    let engines = chip.engines as u8;
    rom.put(at + 4, &[11, 11, engines, engines, 8, 2, 4, engines * 4]);
    rom.dwords(at + 0x28, &[REFERENCE]);
    let at = add(&mut rom, VRAM_INFO, 0x260, (3, 0));
    // One module, of channels of 16 bits.
    rom.put(at + 0x14, &[1, 8, 8, 0, GDDR6, (chip.vram >> 30) as u8, 4]);
    // Firmware and driver keep nothing of VRAM for themselves but the driver 20 KiB, as it would have without this table.
    let at = add(&mut rom, VRAM_USAGE, 0x0c, (2, 1));
    rom.words(at + 8, &[0, 20]);
    add(&mut rom, SMC_DPM_INFO, 0x400, (4, 10));
    add(&mut rom, INDIRECT_IO, 0x08, (1, 1));

    let sum = rom.0.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    rom.put(BYTES - 1, &[sum.wrapping_neg()]);
    rom.0
}

struct Rom(Vec<u8>);

impl Rom {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn word(&mut self, at: usize, value: usize) {
        self.put(at, &(value as u16).to_le_bytes());
    }

    fn words(&mut self, at: usize, values: &[usize]) {
        for (i, value) in values.iter().enumerate() {
            self.word(at + 2 * i, *value);
        }
    }

    fn dwords(&mut self, at: usize, values: &[u32]) {
        for (i, value) in values.iter().enumerate() {
            self.put(at + 4 * i, &value.to_le_bytes());
        }
    }

    /// `atom_common_table_header`.
    fn table(&mut self, at: usize, bytes: usize, format: u8, content: u8) {
        self.word(at, bytes);
        self.put(at + 2, &[format, content]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pci::chip::CHIPS;

    fn word(rom: &[u8], at: usize) -> usize {
        usize::from(u16::from_le_bytes([rom[at], rom[at + 1]]))
    }

    #[test]
    fn an_image_is_one_that_firmware_and_drivers_take() {
        for chip in &CHIPS {
            let rom = image(chip);
            assert_eq!(&rom[..2], [0x55, 0xaa]);
            assert_eq!(usize::from(rom[2]) * BLOCK, rom.len());
            assert_eq!(rom.iter().fold(0u8, |sum, b| sum.wrapping_add(*b)), 0);
            let pcir = word(&rom, 0x18);
            assert_eq!(&rom[pcir..pcir + 4], b"PCIR");
            assert_eq!(word(&rom, pcir + 6), usize::from(chip.device));
            let header = word(&rom, 0x48);
            assert_eq!(&rom[header + 4..header + 8], b"ATOM");
        }
    }

    #[test]
    fn tables_lie_side_by_side() {
        let rom = image(&CHIPS[0]);
        let tables = word(&rom, word(&rom, 0x48) + 0x20);
        let places = (0..TABLES).map(|place| word(&rom, tables + 4 + 2 * place));
        let mut ranges: Vec<_> = places
            .filter(|at| *at != 0)
            .map(|at| (at, at + word(&rom, at)))
            .collect();
        ranges.sort_unstable();
        assert_eq!(ranges.len(), 7);
        assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        assert!(ranges[0].0 >= tables + 4 + 2 * TABLES);
    }
}
