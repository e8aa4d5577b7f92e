//! Any bytes are parts inside of a firmware file of NVIDIA's, or an error; a ROM that is changed anywhere is too, and
//! FWSEC in it can be prepared or not.
#![no_main]

use firmware_tools::nv::vbios::Vbios;
use firmware_tools::nv::vbios::fwsec::Command;
use firmware_tools::nv::{Contents, Image};
use libfuzzer_sys::fuzz_target;
use vbios::Card;

/// One name per kind.
const NAMES: &[&str] = &[
    "gsp-570.144.bin",
    "gsp_ga10x.bin",
    "booter_load-570.144.bin",
    "bootloader-570.144.bin",
    "gen_bootloader-570.144.bin",
    "fmc-570.144.bin",
    "acr/ucode_asb.bin",
    "card.rom",
];
const CARDS: [Card; 4] = [Card::GA102, Card::AD102, Card::TU102, Card::GH100];

fn inside(bytes: &[u8], image: &Image<'_>) {
    for part in image.parts() {
        let start = part.offset as usize;
        assert_eq!(&bytes[start..start + part.bytes.len()], part.bytes);
    }
    let _ = image.facts();
}

fn prepare(vbios: &Vbios<'_>, fuse: u32) {
    for debug in [false, true] {
        let Ok(fwsec) = vbios.fwsec(debug) else {
            continue;
        };
        for command in [
            Command::Sb,
            Command::Frts {
                offset: 1 << 30,
                size: 1 << 20,
            },
        ] {
            if let Ok(ucode) = fwsec.prepared(command, fuse) {
                assert_eq!(ucode.len(), fwsec.ucode().len());
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    for name in NAMES {
        if let Ok(image) = Image::parse(name, bytes) {
            inside(bytes, &image);
            match image.contents() {
                Contents::Booter(booter) => {
                    for fuse in 0..4 {
                        let _ = booter.signed(fuse);
                    }
                }
                Contents::Vbios(vbios) => prepare(vbios, 0),
                _ => {}
            }
        }
    }
    // The bytes as changes of a ROM that is whole: where, and to what.
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let mut rom = CARDS[usize::from(first & 3)].rom().bytes;
    for change in rest.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
        if let Some(byte) = rom.get_mut(at) {
            *byte = change[2];
        }
    }
    if let Ok(image) = Image::parse("card.rom", &rom) {
        inside(&rom, &image);
        if let Contents::Vbios(vbios) = image.contents() {
            prepare(vbios, u32::from(first >> 2));
        }
    }
});
