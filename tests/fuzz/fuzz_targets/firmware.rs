//! Any bytes are parts inside of a firmware file of each kind, or an error.
#![no_main]

use firmware_tools::amd::{Image, discovery};
use libfuzzer_sys::fuzz_target;

/// One name per kind of header.
const NAMES: &[&str] = &[
    "psp_13_0_0_sos.bin",
    "psp_13_0_0_ta.bin",
    "navi10_asd.bin",
    "smu_13_0_0.bin",
    "gc_11_0_0_pfp.bin",
    "gc_11_0_0_mec.bin",
    "gc_11_0_0_rlc.bin",
    "gc_11_0_0_imu.bin",
    "gc_11_0_0_mes.bin",
    "sdma_6_0_0.bin",
    "vcn_4_0_0.bin",
];

fuzz_target!(|bytes: &[u8]| {
    let _ = discovery::check("vega10_ip_discovery.bin", bytes);
    let mut whole = bytes.to_vec();
    // Size and checksum made right, so that what lies behind those is reached.
    if whole.len() >= 32 {
        let size = whole.len() as u32;
        whole[..4].copy_from_slice(&size.to_le_bytes());
        let sum = crc32fast::hash(&whole[32..]);
        whole[28..32].copy_from_slice(&sum.to_le_bytes());
    }
    for name in NAMES {
        for bytes in [bytes, &whole] {
            let Ok(image) = Image::parse(name, bytes) else {
                continue;
            };
            for part in image.parts() {
                let start = part.offset as usize;
                assert_eq!(&bytes[start..start + part.bytes.len()], part.bytes);
            }
        }
    }
});
