//! Discovery binaries: those of another driver's mock, all layouts, and damaged ones.

use std::path::Path;

use drivers_amd::am::discovery::Discovery;
use drivers_spec::amd::discovery::{self as spec, GcInfo1, GcInfo2};
use hcq::reg::IpVersion;
use proptest::prelude::*;
use serde_json::Value;
use twin_amd::pci::discovery::{Block, Contents, Units, seal};
use zerocopy::FromZeros;

fn block(hw_id: u16, instance: u8, version: (u8, u8, u8), bases: &[u64]) -> Block {
    Block {
        die: 0,
        hw_id,
        instance,
        version,
        more: 0,
        bases: bases.to_vec(),
    }
}

fn navi() -> GcInfo1 {
    let mut info = GcInfo1::new_zeroed();
    info.num_se = 6.into();
    info.num_sa_per_se = 2.into();
    info.num_wgp0_per_sa = 3.into();
    info.num_wgp1_per_sa = 1.into();
    info.num_gl2c = 24.into();
    info.wave_size = 32.into();
    info.max_waves_per_simd = 16.into();
    info.max_scratch_slots_per_cu = 32.into();
    info.lds_size = 64.into();
    info
}

fn instinct() -> GcInfo2 {
    let mut info = GcInfo2::new_zeroed();
    info.num_se = 4.into();
    info.num_sh_per_se = 1.into();
    info.num_cu_per_sh = 10.into();
    info.num_tccs = 16.into();
    info.wave_size = 64.into();
    info.max_waves_per_simd = 8.into();
    info.max_scratch_slots_per_cu = 32.into();
    info.lds_size = 64.into();
    info
}

fn navi31() -> Contents {
    Contents {
        binary: 1,
        table: 3,
        wide: false,
        blocks: vec![
            block(
                spec::GC,
                0,
                (11, 0, 0),
                &[0x1260, 0xa000, 0x1c000, 0x240_2c00],
            ),
            block(spec::MMHUB, 0, (3, 0, 0), &[0x1a000, 0x240_8800]),
            block(spec::MP0, 0, (13, 0, 0), &[0x16000, 0xdc_0000]),
            block(spec::VCN, 1, (4, 0, 0), &[]),
        ],
        units: Units::One(navi()),
        harvested: vec![(spec::VCN, 1)],
    }
}

/// Two XCCs on two dies, addresses of 64 bits, one of them broken.
fn mi300() -> Contents {
    let xcc = |die, instance| Block {
        die,
        more: 0x21,
        ..block(
            spec::GC,
            instance,
            (9, 4, 3),
            &[0x2000, 0xa000 | 0x4_0000_0000 << instance],
        )
    };
    Contents {
        binary: 2,
        table: 4,
        wide: true,
        blocks: vec![xcc(0, 0), xcc(0, 1), xcc(1, 2)],
        units: Units::Two(instinct()),
        harvested: vec![(spec::GC, 1), (spec::UMC, 3)],
    }
}

#[test]
fn cards_are_read_as_another_driver_reads_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/amd");
    let text = std::fs::read_to_string(folder.join("am_discovery.json")).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    for (name, card) in golden["cards"].as_object().unwrap() {
        let hex = card["discovery_table"].as_str().unwrap();
        let byte = |i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap();
        let mut bytes: Vec<u8> = (0..hex.len() / 2).map(byte).collect();
        assert!(Discovery::parse(&bytes).is_err(), "{name}: it has no sums");
        // What the mock leaves out: the version, the name and the end of GC's table, the lengths of the binary and of the table of blocks, and all sums.
        bytes[4] = 1;
        let gc = u16::from_le_bytes([bytes[20], bytes[21]]);
        let table = usize::from(gc);
        bytes.resize(table + usize::from(bytes[table + 8]), 0);
        let len = bytes.len() as u16;
        bytes[gc.into()..][..2].copy_from_slice(b"GC");
        bytes[10..12].copy_from_slice(&len.to_le_bytes());
        bytes[16..18].copy_from_slice(&(gc - 60).to_le_bytes());
        bytes[66..68].copy_from_slice(&(gc - 60).to_le_bytes());
        bytes[24..26].copy_from_slice(&(len - gc).to_le_bytes());
        seal(&mut bytes);
        let found = Discovery::parse(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let versions = card["ip_versions"].as_object().unwrap();
        assert_eq!(found.ips.len(), versions.len());
        for (ip, version) in versions {
            let hw_id = match ip.as_str() {
                "GC_HWIP" => spec::GC,
                "SDMA0_HWIP" => spec::SDMA0,
                "MMHUB_HWIP" => spec::MMHUB,
                "NBIO_HWIP" => spec::NBIF,
                "MP0_HWIP" => spec::MP0,
                "MP1_HWIP" => spec::MP1,
                "HDP_HWIP" => spec::HDP,
                "OSSSYS_HWIP" => spec::OSSSYS,
                other => panic!("{other}"),
            };
            let version = [0, 1, 2].map(|i| version[i].as_u64().unwrap() as u8);
            let expected = IpVersion(version[0], version[1], version[2]);
            assert_eq!(found.first(hw_id).unwrap().version, expected, "{ip}");
        }
        let bases = [0x1260, 0xa000, 0x1c000, 0x240_2c00, 0, 0, 0, 0, 0, 0];
        assert_eq!(found.first(spec::GC).unwrap().bases, bases);
        let props = &card["props"];
        let number = |name: &str| props[name].as_u64().unwrap() as u32;
        let units = found.units;
        assert_eq!(units.cus_per_array, number("cu_per_simd_array"));
        assert_eq!(units.arrays_per_engine, number("simd_arrays_per_engine"));
        assert_eq!(
            units.engines * units.arrays_per_engine,
            number("array_count")
        );
        assert_eq!(units.scratch_slots_per_cu, number("max_slots_scratch_cu"));
        assert_eq!(units.waves_per_simd, number("max_waves_per_simd"));
        assert_eq!(units.lds_kib, number("lds_size_in_kb"));
    }
}

#[test]
fn all_layouts_say_the_same() {
    for binary in 1..=2 {
        for table in 1..=4 {
            let contents = Contents {
                binary,
                table,
                ..navi31()
            };
            let found = Discovery::parse(&contents.build()).unwrap();
            let gc = found.first(spec::GC).unwrap();
            assert_eq!(gc.version, IpVersion(11, 0, 0));
            assert_eq!(gc.bases, [0x1260, 0xa000, 0x1c000, 0x240_2c00]);
            assert_eq!(found.units.cus_per_array, 8);
            // The one that does not work is listed, and not used.
            assert_eq!(found.ips.len(), 4);
            assert_eq!(found.working(spec::VCN).count(), 0);
            let error = found.first(spec::VCN).unwrap_err().to_string();
            assert!(
                error.contains("no working VCN in the discovery table"),
                "{error}"
            );
        }
    }
    let found = Discovery::parse(&mi300().build()).unwrap();
    let working: Vec<_> = found
        .working(spec::GC)
        .map(|ip| (ip.die, ip.instance))
        .collect();
    assert_eq!(working, [(0, 0), (1, 2)]);
    let last = &found.ips[2];
    assert_eq!(last.bases, [0x2000, 0xa000 | 0x10_0000_0000]);
    assert_eq!((last.sub_revision, last.variant), (1, 2));
    assert_eq!(found.units.cus_per_array, 10);
}

#[test]
fn entries_that_mean_nothing_are_left_out_and_two_answers_are_refused() {
    let mut contents = navi31();
    contents.blocks.push(block(299, 0, (1, 0, 0), &[1]));
    contents.blocks.push(block(300, 0, (1, 0, 0), &[1]));
    contents.blocks.push(block(spec::CLK, 44, (1, 0, 0), &[1]));
    // Nobody needs to know which of these it is.
    contents.blocks.push(block(299, 0, (2, 0, 0), &[1]));
    let found = Discovery::parse(&contents.build()).unwrap();
    assert_eq!(found.ips.len(), 6);
    contents.blocks.push(block(spec::MP0, 0, (13, 0, 0), &[7]));
    let error = Discovery::parse(&contents.build()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "discovery: instance of MP0 on die 0 is 0, expected a different one than on \
             die 0; the table is corrupt: reset the card"
    );
}

#[test]
fn errors_name_the_field_and_what_was_expected() {
    let good = navi31().build();
    let refused = |bytes: &[u8]| Discovery::parse(bytes).unwrap_err().to_string();
    let with = |at: usize, value: u16| {
        let mut bytes = good.clone();
        bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        seal(&mut bytes);
        refused(&bytes)
    };
    assert_eq!(
        refused(&[0xff; 64]),
        "discovery: the binary starts with 0xffffffff, expected 0x28211407; not a discovery table, or the \
         card's firmware has not put it there yet"
    );
    assert_eq!(
        with(4, 7),
        "discovery: the binary has version 7.0, supported are 1 and 2; this chip is newer than this program"
    );
    let error = with(10, 0x4000);
    assert!(
        error.contains("the binary is 16384 bytes at 0x0"),
        "{error}"
    );
    // The table of blocks: its signature, its version, its dies.
    let table = 60;
    let error = with(table, 0);
    assert!(error.contains("IP_DISCOVERY starts with"), "{error}");
    let error = with(table + 4, 9);
    assert!(
        error.contains("IP_DISCOVERY has version 9, supported are 1 to 4"),
        "{error}"
    );
    let error = with(table + 12, 17);
    assert!(
        error.contains("num_dies is 17, expected at most 16"),
        "{error}"
    );
    let error = with(table + 14 + 2, 0xfff0);
    assert!(error.contains("die 0 is 4 bytes at 0xfff0"), "{error}");
    let error = with(12, 0);
    assert!(
        error.contains("no table IP_DISCOVERY in the discovery table"),
        "{error}"
    );
    let mut none = navi();
    none.wave_size = 0.into();
    let contents = Contents {
        units: Units::One(none),
        ..navi31()
    };
    let error = refused(&contents.build());
    assert!(
        error.contains("wave_size of GC is 0, expected 1 to 1023"),
        "{error}"
    );
}

#[test]
fn every_truncation_and_every_flipped_bit_is_found() {
    for good in [navi31().build(), mi300().build()] {
        for len in 0..good.len() {
            assert!(Discovery::parse(&good[..len]).is_err(), "{len}");
        }
        for at in 0..good.len() {
            // The minor version of the layout is under no sum.
            if (6..8).contains(&at) {
                continue;
            }
            for bit in 0..8 {
                let mut bytes = good.clone();
                bytes[at] ^= 1 << bit;
                assert!(Discovery::parse(&bytes).is_err(), "{at} {bit}");
            }
        }
        // What is behind it does not matter: 10 KiB are read.
        let mut long = good.clone();
        long.resize(spec::BYTES, 0xff);
        assert_eq!(Discovery::parse(&long), Discovery::parse(&good));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Lies whose sums are right end as an answer or an error, not as a panic.
    #[test]
    fn lies_are_no_panics(
        is_wide in any::<bool>(),
        lies in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = if is_wide { mi300().build() } else { navi31().build() };
        for (at, value) in lies {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        seal(&mut bytes);
        if let Ok(found) = Discovery::parse(&bytes) {
            prop_assert!(found.ips.len() < 0x10000);
        }
    }
}
