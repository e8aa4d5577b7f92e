//! Small files of every kind, whole and damaged in every way.

use drivers_spec::amd::fw_type::{GfxFwType, PspFwType, TaFwType};
use proptest::prelude::*;

use super::*;

/// Where the code starts, as in AMD's files.
const CODE: usize = 256;

/// A file of this header version: words behind the common header, code, and what lies behind it.
/// Its checksum is that of all bytes behind the common header.
fn file(version: (u16, u16), words: &[u32], code: usize, behind: usize) -> Vec<u8> {
    let size = CODE + code + behind;
    let mut bytes = Vec::new();
    for word in [size, 32 + 4 * words.len()] {
        bytes.extend((word as u32).to_le_bytes());
    }
    for half in [version.0, version.1, 11, 0] {
        bytes.extend(half.to_le_bytes());
    }
    for word in [0x1234, code as u32, CODE as u32, 0] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    bytes.resize(CODE, 0);
    bytes.extend((0..code + behind).map(|i| (i % 251) as u8));
    sum(&mut bytes);
    bytes
}

fn sum(bytes: &mut [u8]) {
    let sum = crc32fast::hash(&bytes[32..]);
    bytes[28..32].copy_from_slice(&sum.to_le_bytes());
}

/// Names, files, and what they hold: name, offset in the file, size.
type Sample = (&'static str, Vec<u8>, &'static [(&'static str, u64, usize)]);

fn samples() -> Vec<Sample> {
    let mut rlc = vec![0u32; 53];
    rlc[0] = 7;
    let set = |words: &mut Vec<u32>, at: usize, values: &[u32]| {
        words[(at - 32) / 4..][..values.len()].copy_from_slice(values);
    };
    // Lists, instructions and data, helpers, delays: size and offset.
    set(&mut rlc, 108, &[3, 4, 16, 288]);
    set(&mut rlc, 124, &[5, 6, 0, 288]);
    set(&mut rlc, 140, &[8, 9, 4, 304]);
    set(&mut rlc, 156, &[8, 308, 12, 316]);
    let two = rlc[..(172 - 32) / 4].to_vec();
    set(&mut rlc, 172, &[21, 22, 4, 328, 23, 24, 4, 332]);
    let three = rlc[..(204 - 32) / 4].to_vec();
    set(&mut rlc, 204, &[4, 336, 0, 0, 4, 340, 0, 0, 4, 344]);
    let mut five = two.clone();
    five.extend([4, 336, 8, 340]);
    vec![
        (
            "psp_13_0_0_sos.bin",
            file((2, 0), &[2, 3, 0x301, 0, 16, 1, 0x302, 16, 32], 48, 0),
            &[("PSP_KDB", 256, 16), ("PSP_SOS", 272, 32)],
        ),
        (
            "psp_13_0_6_sos.bin",
            file((2, 1), &[2, 1, 1, 0x301, 0, 16, 1, 0x302, 16, 32], 48, 0),
            &[("PSP_SOS", 256, 16), ("PSP_SOS", 272, 32)],
        ),
        (
            "navi10_sos.bin",
            file((1, 1), &[0, 16, 32, 5, 48, 8, 6, 56, 8], 64, 0),
            &[
                ("PSP_SYS_DRV", 256, 16),
                ("PSP_SOS", 272, 32),
                ("PSP_TOC", 304, 8),
                ("PSP_KDB", 312, 8),
            ],
        ),
        (
            "arcturus_sos.bin",
            file((1, 2), &[0, 16, 32, 5, 48, 8, 6, 56, 8], 64, 0),
            &[
                ("PSP_SYS_DRV", 256, 16),
                ("PSP_SOS", 272, 32),
                ("PSP_KDB", 312, 8),
            ],
        ),
        (
            "aldebaran_sos.bin",
            file(
                (1, 3),
                &[
                    0, 8, 8, 0, 0, 0, 6, 16, 8, 7, 24, 8, 8, 32, 8, 9, 40, 8, 10, 48, 16,
                ],
                64,
                0,
            ),
            &[
                ("PSP_SYS_DRV", 256, 8),
                ("PSP_SOS", 264, 8),
                ("PSP_KDB", 272, 8),
                ("PSP_SPL", 280, 8),
                ("PSP_RL", 288, 8),
                ("PSP_SYS_DRV", 296, 8),
                ("PSP_SOS", 304, 16),
            ],
        ),
        (
            "psp_13_0_0_ta.bin",
            file((2, 0), &[1, 3, 0x99, 4, 12], 16, 0),
            &[("PSP_RAS", 260, 12)],
        ),
        (
            "arcturus_ta.bin",
            file(
                (1, 0),
                &[1, 0, 8, 2, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                16,
                0,
            ),
            &[("PSP_XGMI", 256, 8), ("PSP_RAS", 264, 8)],
        ),
        (
            "navi10_asd.bin",
            file((1, 1), &[0; 9], 16, 0),
            &[("PSP_ASD", 256, 16)],
        ),
        (
            "gc_12_0_0_toc.bin",
            file((1, 0), &[0; 9], 16, 0),
            &[("PSP_TOC", 256, 16)],
        ),
        (
            "vega10_smc.bin",
            file((1, 0), &[0x20000], 16, 0),
            &[("SMU", 256, 16)],
        ),
        (
            "smu_14_0_2.bin",
            file((2, 0), &[0x20000, 272, 8], 16, 8),
            &[("SMU", 256, 16), ("TABLE_0x0", 272, 8)],
        ),
        (
            "smu_13_0_0.bin",
            file((2, 1), &[0x20000, 2, 48, 0, 0, 272, 4, 6, 276, 4], 16, 8),
            &[
                ("SMU", 256, 16),
                ("TABLE_0x0", 272, 4),
                ("TABLE_0x6", 276, 4),
            ],
        ),
        (
            "gc_9_4_3_mec.bin",
            file((1, 0), &[50, 12, 4], 64, 0),
            &[("CP_MEC", 256, 48), ("CP_MEC_ME1", 304, 16)],
        ),
        (
            "navi10_pfp.bin",
            file((1, 0), &[50, 12, 4], 64, 0),
            &[("CP_PFP", 256, 64)],
        ),
        (
            "gc_11_0_0_mec.bin",
            file((2, 0), &[29, 16, 256, 8, 272, 0x3000, 7], 24, 0),
            &[("RS64_MEC", 256, 16), ("RS64_MEC_P0_STACK", 272, 8)],
        ),
        (
            "gc_11_0_0_mes1.bin",
            file((1, 0), &[1, 16, 256, 2, 8, 272, 0x3000, 7, 0, 0], 24, 0),
            &[("CP_MES_KIQ", 256, 16), ("MES_KIQ_STACK", 272, 8)],
        ),
        (
            "gc_11_0_0_imu.bin",
            file((1, 0), &[16, 0, 8, 16], 24, 0),
            &[("IMU_I", 256, 16), ("IMU_D", 272, 8)],
        ),
        (
            "navi10_sdma1.bin",
            file((1, 0), &[44, 0, 0, 0], 16, 0),
            &[("SDMA1", 256, 16)],
        ),
        (
            "sdma_6_0_0.bin",
            file((2, 0), &[60, 16, 0, 0, 272, 8, 0, 0], 24, 0),
            &[("SDMA_UCODE_TH1", 272, 8), ("SDMA_UCODE_TH0", 256, 16)],
        ),
        (
            "sdma_7_0_0.bin",
            file((3, 0), &[60, 256, 16], 16, 0),
            &[("SDMA_UCODE_TH0", 256, 16)],
        ),
        (
            "tahiti_rlc.bin",
            file((1, 0), &[0; 5], 32, 0),
            &[("RLC_G", 256, 32)],
        ),
        (
            "gc_12_0_0_rlc.bin",
            file((2, 2), &two, 32, 60),
            &[
                ("RLC_RESTORE_LIST_SRM_CNTL", 288, 16),
                ("RLC_RESTORE_LIST_SRM_MEM", 304, 4),
                ("RLC_IRAM", 308, 8),
                ("RLC_DRAM_BOOT", 316, 12),
                ("RLC_G", 256, 32),
            ],
        ),
        (
            "gc_11_0_0_rlc.bin",
            file((2, 3), &three, 32, 60),
            &[
                ("RLC_RESTORE_LIST_SRM_CNTL", 288, 16),
                ("RLC_RESTORE_LIST_SRM_MEM", 304, 4),
                ("RLC_IRAM", 308, 8),
                ("RLC_DRAM_BOOT", 316, 12),
                ("RLC_P", 328, 4),
                ("RLC_V", 332, 4),
                ("RLC_G", 256, 32),
            ],
        ),
        (
            "sienna_cichlid_rlc.bin",
            file((2, 4), &rlc, 32, 60),
            &[
                ("RLC_RESTORE_LIST_SRM_CNTL", 288, 16),
                ("RLC_RESTORE_LIST_SRM_MEM", 304, 4),
                ("RLC_IRAM", 308, 8),
                ("RLC_DRAM_BOOT", 316, 12),
                ("RLC_P", 328, 4),
                ("RLC_V", 332, 4),
                ("GLOBAL_TAP_DELAYS", 336, 4),
                ("SE1_TAP_DELAYS", 340, 4),
                ("SE3_TAP_DELAYS", 344, 4),
                ("RLC_G", 256, 32),
            ],
        ),
        (
            "gc_12_1_0_rlc.bin",
            file((2, 5), &five, 32, 60),
            &[
                ("RLC_RESTORE_LIST_SRM_CNTL", 288, 16),
                ("RLC_RESTORE_LIST_SRM_MEM", 304, 4),
                ("RLC_IRAM", 308, 8),
                ("RLC_DRAM_BOOT", 316, 12),
                ("RLX6_UCODE_CORE1", 336, 4),
                ("RLX6_DRAM_BOOT_CORE1", 340, 8),
                ("RLC_G", 256, 32),
            ],
        ),
        ("vcn_4_0_0.bin", file((1, 0), &[], 16, 0), &[]),
    ]
}

/// Whatever was read, its parts lie where they say.
fn inside(bytes: &[u8], image: &Image<'_>) {
    for part in image.parts() {
        let start = part.offset as usize;
        assert_eq!(&bytes[start..start + part.bytes.len()], part.bytes);
    }
}

#[test]
fn every_kind_is_taken_apart() {
    for (name, bytes, parts) in samples() {
        let image = Image::parse(name, &bytes).unwrap();
        let found = image.parts().iter();
        let found: Vec<_> = found
            .map(|p| (p.id.name(), p.offset, p.bytes.len()))
            .collect();
        let found: Vec<_> = found
            .iter()
            .map(|(name, at, len)| (&name[..], *at, *len))
            .collect();
        assert_eq!(found, parts, "{name}");
        assert_eq!(image.checksum(), Checksum::Rest, "{name}");
        inside(&bytes, &image);
    }
}

#[test]
fn versions_features_starts_and_second_sets() {
    let sample = |wanted: &str| {
        let (.., bytes, _) = samples()
            .into_iter()
            .find(|(name, ..)| *name == wanted)
            .unwrap();
        bytes
    };
    let bytes = sample("psp_13_0_6_sos.bin");
    let image = Image::parse("psp_13_0_6_sos.bin", &bytes).unwrap();
    assert_eq!(image.psp(PspFwType::PSP_SOS, false).unwrap().version, 0x301);
    assert_eq!(image.psp(PspFwType::PSP_SOS, true).unwrap().version, 0x302);
    assert!(image.psp(PspFwType::PSP_KDB, false).is_none());

    let bytes = sample("gc_11_0_0_mec.bin");
    let image = Image::parse("gc_11_0_0_mec.bin", &bytes).unwrap();
    assert_eq!(image.start(), Some(0x7_0000_3000));
    let stack = image.ip(GfxFwType::RS64_MEC_P3_STACK).unwrap();
    assert_eq!(
        (stack.bytes.len(), stack.version, stack.feature),
        (8, 0x1234, Some(29))
    );

    let bytes = sample("gc_11_0_0_rlc.bin");
    let image = Image::parse("gc_11_0_0_rlc.bin", &bytes).unwrap();
    let versions = |id| image.ip(id).map(|part| (part.version, part.feature));
    assert_eq!(
        versions(GfxFwType::RLC_RESTORE_LIST_SRM_CNTL),
        Some((3, Some(4)))
    );
    assert_eq!(versions(GfxFwType::RLC_P), Some((21, Some(22))));
    assert_eq!(versions(GfxFwType::RLC_G), Some((0x1234, Some(7))));
    // Without bytes it is not there.
    assert_eq!(versions(GfxFwType::RLC_RESTORE_LIST_GPM_MEM), None);

    let bytes = sample("psp_13_0_0_ta.bin");
    let image = Image::parse("psp_13_0_0_ta.bin", &bytes).unwrap();
    assert_eq!(image.parts()[0].id, PartId::Ta(TaFwType::PSP_RAS));
    assert_eq!(image.version(), 0x1234);
}

#[test]
fn names_say_the_kind() {
    for (name, kind) in [
        ("/lib/firmware/amdgpu/gc_11_0_0_imu_kicker.bin", "imu"),
        ("polaris10_mec2_2.bin", "cp mec"),
        ("navi14_ce_wks.bin", "cp ce"),
        ("gc_12_0_0_uni_mes.bin", "mes"),
        ("gc_11_0_3_mes_2.bin.zst", "mes"),
        ("gc_11_0_0_rlc_1.bin.xz", "rlc"),
        ("gc_9_4_3_sjt_mec.bin", "cp mec"),
        ("smu_13_0_0_kicker.bin", "smu"),
        ("umsch_mm_4_0_0.bin", "umsch"),
        ("vcn_4_0_6_1.bin", "vcn"),
        ("polaris12_32_mc.bin", "mc"),
        ("vega10_gpu_info.bin", "gpu_info"),
        ("dcn_3_2_0_dmcub.bin", "dmcub"),
        ("vega10_ip_discovery.bin", "ip discovery"),
    ] {
        assert_eq!(Kind::of(name).map(Kind::name), Some(kind), "{name}");
    }
    for name in [
        "",
        "x",
        ".bin",
        "_.bin",
        "navi10.bin",
        "navi10_new.bin",
        "gc_11_0_0_mec.txt",
    ] {
        assert_eq!(Kind::of(name), None, "{name}");
    }
}

#[test]
fn every_truncation_is_named() {
    for (name, bytes, _) in samples() {
        for len in 0..bytes.len() {
            let text = Image::parse(name, &bytes[..len]).unwrap_err().to_string();
            assert!(text.starts_with(&format!("{name}: ")), "{text}");
        }
    }
}

/// A length that lies, in every word of every header.
#[test]
fn every_word_of_the_header_may_lie() {
    for (name, whole, _) in samples() {
        for at in (0..CODE).step_by(4) {
            for value in [
                0,
                1,
                0xff,
                0x1000,
                0x7fff_ffff,
                0x8000_0000,
                0xffff_fff0,
                u32::MAX,
            ] {
                let mut bytes = whole.clone();
                bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
                if at != 28 {
                    sum(&mut bytes);
                }
                if let Ok(image) = Image::parse(name, &bytes) {
                    inside(&bytes, &image);
                }
            }
        }
    }
}

/// Where AMD's files keep the checksum, no flipped bit behind the common header gets through.
#[test]
fn a_flipped_bit_is_found() {
    for (name, whole, _) in samples() {
        let kind = Kind::of(name).unwrap();
        let major = whole[8].into();
        for at in 32..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            let found = Image::parse(name, &bytes);
            if kind.keeps_checksum(major) {
                assert!(found.is_err(), "{name}: {at}");
            }
        }
    }
}

/// A signed header that says more than there is.
#[test]
fn what_is_signed_is_all_there() {
    let signed = |bytes: u32| {
        let mut file = file((1, 0), &[0x20000], 0x300, 0);
        file[CODE + 0x10..CODE + 0x14].copy_from_slice(b"$PS1");
        file[CODE + 0x14..CODE + 0x18].copy_from_slice(&bytes.to_le_bytes());
        file[CODE + 0x60..CODE + 0x64].copy_from_slice(&7u32.to_le_bytes());
        file
    };
    let bytes = signed(0x100);
    let image = Image::parse("vega10_smc.bin", &bytes).unwrap();
    let expected = Signed {
        bytes: 0x100,
        version: 7,
    };
    assert_eq!(image.parts()[0].signed(), Some(expected));
    for more in [0x101, u32::MAX] {
        assert_eq!(
            Image::parse("vega10_smc.bin", &signed(more))
                .unwrap_err()
                .to_string(),
            format!(
                "vega10_smc.bin: the signed size of SMU is {more}, expected at most \
                 256, of 768 bytes. This is not a firmware file of this kind, or it is damaged"
            )
        );
    }
}

#[test]
fn texts() {
    let text = |name: &str, bytes: &[u8]| Image::parse(name, bytes).unwrap_err().to_string();
    let mut bytes = file((2, 0), &[29, 16, 256, 8, 272, 0, 0], 24, 0);
    assert_eq!(
        text("gc_11_0_0_mec.bin", &bytes[..270]),
        "gc_11_0_0_mec.bin: size_bytes is 280, expected the file's 270. This is not a firmware \
         file of this kind, or it is damaged"
    );
    bytes[40] ^= 1;
    assert_eq!(
        text("gc_11_0_0_mec.bin", &bytes),
        format!(
            "gc_11_0_0_mec.bin: the header has crc32 {:#010x}, the file has {:#010x}. The file \
             is damaged; install it again",
            u32::from_le_bytes(bytes[28..32].try_into().unwrap()),
            crc32fast::hash(&bytes[32..])
        )
    );
    bytes[48] = 0xff;
    sum(&mut bytes);
    assert_eq!(
        text("gc_11_0_0_mec.bin", &bytes),
        "gc_11_0_0_mec.bin: RS64_MEC_P0_STACK needs 8 bytes at offset 511, the file has 280. The \
         file is truncated or its header is damaged; install it again"
    );
    assert_eq!(
        text("gc_11_0_0_rlc.bin", &file((2, 6), &[0; 50], 8, 0)),
        "gc_11_0_0_rlc.bin: header_version is 2.6, expected 1, or 2.0 to 2.5. This is not a \
         firmware file of this kind, or it is damaged"
    );
    assert_eq!(
        text("psp_13_0_0_sos.bin", &file((2, 0), &[1000], 8, 0)),
        "psp_13_0_0_sos.bin: ucode_array_offset_bytes is 256, expected at least 16036, where the \
         header ends. This is not a firmware file of this kind, or it is damaged"
    );
    assert_eq!(
        text("gc_9_4_3_mec.bin", &file((1, 0), &[0, 0, 9], 32, 0)),
        "gc_9_4_3_mec.bin: jt_size is 9, expected at most the code's 32 bytes, in dwords. This is \
         not a firmware file of this kind, or it is damaged"
    );
    assert!(text("new_thing.bin", &bytes).contains("unknown kind of firmware"));
}

proptest! {
    /// Any bytes under any name: parts that lie inside, or an error, and never a panic.
    #[test]
    fn any_bytes(
        which in 0..26usize,
        flips in prop::collection::vec((0..512usize, any::<u8>()), 0..8),
        cut in 0..600usize,
        sums in any::<bool>(),
    ) {
        let (name, mut bytes, _) = samples().swap_remove(which);
        for (at, value) in flips {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        bytes.truncate(cut.max(36));
        let len = bytes.len() as u32;
        if sums {
            bytes[..4].copy_from_slice(&len.to_le_bytes());
            sum(&mut bytes);
        }
        if let Ok(image) = Image::parse(name, &bytes) {
            inside(&bytes, &image);
        }
        let _ = discovery::check(name, &bytes);
    }
}
