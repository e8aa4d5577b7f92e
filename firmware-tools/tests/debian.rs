//! AMD's own files, as Debian packages them. `scripts/fetch firmware` puts two releases into
//! `target/firmware`; without them these tests fail.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use drivers_spec::amd::fw_type::{GfxFwType, PspFwType};
use firmware_tools::Error;
use firmware_tools::amd::chip::{CHIPS, Edition};
use firmware_tools::amd::{Checksum, Image, Kind, PartId, discovery};
use firmware_tools::known;
use firmware_tools::manifest::sha256;
use firmware_tools::search::Search;

fn suites() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/firmware");
    let suites = ["bookworm-backports", "trixie-backports"].map(|suite| root.join(suite));
    for suite in &suites {
        assert!(
            suite.join("fetched").exists(),
            "{}: not there; run scripts/fetch firmware first",
            suite.display()
        );
    }
    suites.into()
}

/// Every file of the packages by its name, links too.
fn files() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for suite in suites() {
        for entry in fs::read_dir(suite.join("amdgpu")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            files.push((name, fs::read(&path).unwrap()));
        }
    }
    assert!(
        files.len() > 1000,
        "expected two whole packages, found {}",
        files.len()
    );
    files
}

#[test]
fn every_file_is_taken_apart_or_of_no_use_for_compute() {
    let mut kinds = BTreeMap::<(&str, bool), usize>::new();
    let mut signed = 0;
    for (name, bytes) in files() {
        let kind = Kind::of(&name).unwrap_or_else(|| panic!("{name}: unknown kind of firmware"));
        if kind == Kind::Discovery {
            discovery::check(&name, &bytes).unwrap();
            continue;
        }
        let image = Image::parse(&name, &bytes).unwrap();
        assert_eq!(image.parts().is_empty(), !kind.used(), "{name}");
        let known = image.checksum() != Checksum::Unknown;
        *kinds.entry((kind.name(), known)).or_default() += 1;
        // No part is of a type without a name: nothing is read where it is not.
        for part in image.parts() {
            assert!(
                !part.id.name().starts_with("TYPE_"),
                "{name}: {:?}",
                part.id
            );
            signed += usize::from(part.signed().is_some());
        }
    }
    // Nearly all of what the PSP checks says how much of it is signed.
    assert!(signed > 800, "{signed}");
    // What boots need is there, and most kinds keep the checksum.
    for kind in [
        "psp sos", "smu", "sdma", "cp pfp", "cp me", "cp mec", "imu", "rlc", "mes",
    ] {
        let count = |known| kinds.get(&(kind, known)).copied().unwrap_or(0);
        assert!(count(true) + count(false) >= 12, "{kind}: {kinds:?}");
    }
}

/// The parts of boots whose order and sizes were recorded with these files: a simulated Navi 31 and
/// Navi 48 (tinygrad's AM driver, on 20250410).
#[test]
fn parts_are_those_of_a_recorded_boot() {
    let suite = &suites()[0];
    let size = |name: &str, id: GfxFwType| {
        let found = Search::only([suite.clone()]).find(name).unwrap();
        Image::parse(name, &found.bytes)
            .unwrap()
            .ip(id)
            .unwrap()
            .bytes
            .len()
    };
    let rlc = "gc_11_0_0_rlc.bin";
    for (name, id, bytes) in [
        ("smu_13_0_0.bin", GfxFwType::SMU, 0x3fe00),
        ("sdma_6_0_0.bin", GfxFwType::SDMA_UCODE_TH1, 0x4200),
        ("sdma_6_0_0.bin", GfxFwType::SDMA_UCODE_TH0, 0x4400),
        ("gc_11_0_0_mec.bin", GfxFwType::RS64_MEC, 0x41300),
        ("gc_11_0_0_mec.bin", GfxFwType::RS64_MEC_P0_STACK, 0x22000),
        ("gc_11_0_0_imu.bin", GfxFwType::IMU_I, 0x10200),
        ("gc_11_0_0_imu.bin", GfxFwType::IMU_D, 0x10200),
        (rlc, GfxFwType::RLC_IRAM, 0x10200),
        (rlc, GfxFwType::RLC_DRAM_BOOT, 0x8200),
        (rlc, GfxFwType::RLC_P, 0x2200),
        (rlc, GfxFwType::RLC_V, 0x3200),
        (rlc, GfxFwType::RLC_G, 0x6200),
        ("sdma_7_0_1.bin", GfxFwType::SDMA_UCODE_TH0, 0xb400),
        ("gc_12_0_1_pfp.bin", GfxFwType::RS64_PFP, 0x15cd0),
        ("gc_12_0_1_pfp.bin", GfxFwType::RS64_PFP_P0_STACK, 0x40000),
        ("gc_12_0_1_me.bin", GfxFwType::RS64_ME, 0x27200),
        ("gc_12_0_1_mec.bin", GfxFwType::RS64_MEC, 0x2d2e0),
    ] {
        assert_eq!(size(name, id), bytes, "{name} {id:?}");
    }
    let found = Search::only([suite.clone()])
        .find("psp_14_0_3_sos.bin")
        .unwrap();
    let image = Image::parse("psp_14_0_3_sos.bin", &found.bytes).unwrap();
    for (id, bytes) in [
        (PspFwType::PSP_KDB, 6816),
        (PspFwType::PSP_SPL, 832),
        (PspFwType::PSP_SYS_DRV, 78272),
        (PspFwType::PSP_SOC_DRV, 103_792),
        (PspFwType::PSP_INTF_DRV, 37280),
        (PspFwType::PSP_DBG_DRV, 53344),
        (PspFwType::PSP_RAS_DRV, 12704),
        (PspFwType::PSP_SOS, 125_472),
    ] {
        assert_eq!(image.psp(id, false).unwrap().bytes.len(), bytes, "{id:?}");
    }
}

#[test]
fn boots_find_their_files_and_know_their_release() {
    for suite in suites() {
        let packages = fs::read_to_string(suite.join("packages")).unwrap();
        let version = packages.split('\t').nth(1).unwrap();
        let release = version.split(['-', '~']).next().unwrap();
        let search = Search::only([suite]);
        for chip in CHIPS {
            for name in chip.blocks.boot_files(Edition::Usual) {
                let found = search.find(&name).unwrap();
                Image::parse(&name, &found.bytes).unwrap();
                // A release that came after the list is no fault of the list.
                let releases = known::releases(&name);
                if let Some(known) = releases.iter().find(|k| k.release == release) {
                    assert_eq!(known.sha256, sha256(&found.bytes), "{name} of {release}");
                }
            }
        }
    }
}

/// Files of every kind that is used, damaged: cut anywhere, a bit flipped anywhere in the header.
#[test]
fn damaged_files_are_refused_or_taken_apart_inside_of_their_bytes() {
    let mut seen = BTreeMap::new();
    let mut refused = 0;
    for (name, bytes) in files() {
        let kind = Kind::of(&name).unwrap();
        let version = bytes[8..12].to_vec();
        if !kind.used() || kind == Kind::Discovery || seen.contains_key(&(kind.name(), version)) {
            continue;
        }
        seen.insert((kind.name(), bytes[8..12].to_vec()), name.clone());
        for len in (0..300.min(bytes.len())).chain((300..bytes.len()).step_by(4099)) {
            let error = Image::parse(&name, &bytes[..len]).unwrap_err();
            let named = matches!(error, Error::Truncated { .. } | Error::Field { .. });
            assert!(named, "{name}: {error}");
        }
        for bit in 0..256 * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            match Image::parse(&name, &bytes) {
                Ok(image) => {
                    for part in image.parts() {
                        let start = part.offset as usize;
                        assert_eq!(&bytes[start..start + part.bytes.len()], part.bytes);
                    }
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(seen.len() >= 20, "{seen:?}");
    assert!(refused > 10_000, "{refused}");
}

/// The same code under several types is one part.
#[test]
fn engines_of_a_die_share_their_code() {
    let found = Search::only([suites()[0].clone()])
        .find("sdma_4_4_2.bin")
        .unwrap();
    let image = Image::parse("sdma_4_4_2.bin", &found.bytes).unwrap();
    let [part] = image.parts() else {
        panic!("{:?}", image.parts().len())
    };
    let four = [
        GfxFwType::SDMA0,
        GfxFwType::SDMA1,
        GfxFwType::SDMA2,
        GfxFwType::SDMA3,
    ];
    assert!(matches!(part.id, PartId::Ip(ids) if ids == four));
}
