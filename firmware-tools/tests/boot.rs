//! What boots load, of AMD's own files. `scripts/fetch firmware` puts them into `target/firmware`; without
//! them these tests fail.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use drivers_spec::amd::fw_type::PspFwType;
use firmware_tools::amd::Cp;
use firmware_tools::amd::boot::Firmware;
use firmware_tools::amd::chip::{CHIPS, Edition};
use firmware_tools::search::Search;

/// The release that the recordings were made with.
fn firmware(gfx: &str, suite: &str) -> Firmware {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../target/firmware")
        .join(suite);
    assert!(
        folder.join("fetched").exists(),
        "{}: not there; run scripts/fetch firmware first",
        folder.display()
    );
    let chip = CHIPS.iter().find(|chip| chip.gfx == gfx).unwrap();
    Firmware::find(&chip.blocks, Edition::Usual, &Search::only([folder])).unwrap()
}

/// LOAD_IP_FW of tinygrad's AM driver as it was recorded on simulated cards, with 20250410: type and
/// size. The one before SETUP_TMR is the first.
#[test]
fn loads_are_those_of_recorded_boots() {
    let navi31: &[(u32, usize)] = &[
        (18, 0x3fe00),
        (72, 0x4200),
        (71, 0x4400),
        (89, 0x41300),
        (94, 0x22000),
        (68, 0x10200),
        (69, 0x10200),
        (26, 0x10200),
        (48, 0x8200),
        (25, 0x2200),
        (7, 0x3200),
        (8, 0x6200),
    ];
    let navi48: &[(u32, usize)] = &[
        (18, 0x4fe00),
        (71, 0xb400),
        (87, 0x15cd0),
        (90, 0x40000),
        (88, 0x27200),
        (92, 0x40000),
        (89, 0x2d2e0),
        (94, 0x40000),
        (68, 0x10200),
        (69, 0x10200),
        (26, 0x10200),
        (48, 0x8200),
        (8, 0x6200),
    ];
    for (gfx, expected, starts) in [("gfx1100", navi31, 1), ("gfx1201", navi48, 3)] {
        let firmware = firmware(gfx, "bookworm-backports");
        let boot = firmware.boot().unwrap();
        let loads = boot.first.iter().chain(&boot.rest);
        let loads: Vec<_> = loads.map(|load| (load.id.0, load.bytes.len())).collect();
        assert_eq!(loads, expected, "{gfx}");
        assert_eq!(boot.first.len(), 1);
        let processors = [Cp::Pfp, Cp::Me, Cp::Mec(1)];
        assert_eq!(
            processors
                .iter()
                .filter(|&&cp| boot.start(cp).is_some())
                .count(),
            starts
        );
        // What the bootloader was handed is in the file of the PSP.
        let toc = boot.psp(PspFwType::PSP_TOC, false).unwrap();
        assert_eq!(toc.bytes.len(), 0x900, "{gfx}");
    }
}

/// MI300X, of the newer release: a table instead of the SMU's code, the engines of a die, the jump
/// table by itself, lists of registers, and RLC_G last.
#[test]
fn a_chip_without_autoload() {
    let firmware = firmware("gfx942", "trixie-backports");
    let boot = firmware.boot().unwrap();
    let ids = |loads: &[firmware_tools::amd::boot::Load<'_>]| -> Vec<u32> {
        loads.iter().map(|load| load.id.0).collect()
    };
    assert_eq!(ids(&boot.first), [129]);
    assert_eq!(ids(&boot.rest), [9, 10, 52, 53, 4, 5, 22, 20, 21, 8]);
    let new = boot.psp(PspFwType::PSP_SOS, false).unwrap();
    let old = boot.psp(PspFwType::PSP_SOS, true).unwrap();
    assert!(
        new.version > old.version,
        "{:#x} {:#x}",
        new.version,
        old.version
    );
}

#[test]
fn a_boot_without_a_file_names_it() {
    let chip = CHIPS.iter().find(|chip| chip.gfx == "gfx1100").unwrap();
    let empty = tempfile::tempdir().unwrap();
    let search = Search::only([empty.path().to_path_buf()]);
    let error = Firmware::find(&chip.blocks, Edition::Usual, &search).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("psp_13_0_0_sos.bin: not found in "),
        "{text}"
    );
    assert!(text.contains("apt install firmware-amd-graphics"), "{text}");
    let error = Firmware::of(Vec::new()).boot().unwrap_err().to_string();
    assert!(error.starts_with("psp_*_sos.bin: "), "{error}");
}

/// Files of another chip, and of another release than the rest, are whole and signed; they are not loaded all the same.
#[test]
fn files_of_another_chip_or_release_are_not_loaded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/firmware");
    let chip = CHIPS.iter().find(|chip| chip.gfx == "gfx1201").unwrap();
    let boot = |suite: &str, instead: (&str, &str, &str)| {
        let read = |name: String| {
            let (file, suite, from) = match name == instead.0 {
                true => instead,
                false => (&*name, suite, &*name),
            };
            let bytes = std::fs::read(folder.join(suite).join("amdgpu").join(from)).unwrap();
            (file.to_owned(), bytes)
        };
        let names = chip.blocks.boot_files(Edition::Usual).into_iter();
        let firmware = Firmware::of(names.map(read).collect());
        let outcome = firmware.boot().map(|_| ());
        outcome.unwrap_err().to_string()
    };
    let [one, two] = ["bookworm-backports", "trixie-backports"];
    let other = boot(one, ("gc_12_0_1_mec.bin", one, "gc_12_0_0_mec.bin"));
    let said = "gc_12_0_1_mec.bin: this is gc_12_0_0_mec.bin of firmware-amd-graphics ";
    assert!(other.starts_with(said), "{other}");
    let older = boot(one, ("gc_12_0_1_mec.bin", one, "gc_11_0_0_mec.bin"));
    assert!(older.contains("this is gc_11_0_0_mec.bin of"), "{older}");
    let mixed = boot(one, ("gc_12_0_1_mec.bin", two, "gc_12_0_1_mec.bin"));
    let said = "gc_12_0_1_mec.bin: this is of firmware-amd-graphics ";
    assert!(
        mixed.starts_with(said) && mixed.contains(", as the files before it"),
        "{mixed}"
    );
}

/// What no checksum is kept for is signed: with a bit of it changed it is not loaded.
#[test]
fn a_bit_that_amd_has_not_signed_is_found() {
    for suite in ["bookworm-backports", "trixie-backports"] {
        for chip in CHIPS.iter().map(|chip| chip.gfx) {
            firmware(chip, suite).boot().unwrap();
        }
        for (file, part) in [("smu_14_0_3.bin", "SMU"), ("gc_12_0_1_rlc.bin", "RLC_G")] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/firmware");
            let chip = CHIPS.iter().find(|chip| chip.gfx == "gfx1201").unwrap();
            let names = chip.blocks.boot_files(Edition::Usual);
            let read = |name: String| {
                let mut bytes = std::fs::read(folder.join(suite).join("amdgpu").join(&name));
                if let (true, Ok(bytes)) = (name == file, &mut bytes) {
                    bytes[0x1000] ^= 0x10;
                }
                (name, bytes.unwrap())
            };
            let damaged = Firmware::of(names.into_iter().map(read).collect());
            let error = damaged.boot().unwrap_err().to_string();
            let expected = format!("{file}: AMD's signature does not match {part}");
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}
