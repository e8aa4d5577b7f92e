//! Small files of every kind, written byte by byte.

use sha2::{Digest, Sha384};
use vbios::Card;

/// Words, little-endian.
pub fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Bytes that are not the same everywhere.
pub fn code(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

/// A file with the common header, a header of its kind behind it, and code.
pub fn bin(header: &[u8], code: &[u8]) -> Vec<u8> {
    let offset = 24 + header.len() as u32;
    let mut bytes = words(&[0x10de, 1, 0x1000, 24, offset, code.len() as u32]);
    bytes.extend(header);
    bytes.extend(code);
    bytes
}

/// A booter with signatures of a size, and the version of the first.
pub fn booter(count: u32, each: u32, fuse: u32) -> Vec<u8> {
    let total = count * each;
    let at = 60 + total;
    let mut header = words(&[60, total, at, at + 4, at + 8, 12, at + 20, at + 24, 36]);
    header.extend((0..total).map(|i| (0xa0 + i / each) as u8));
    header.extend(words(&[0x210, 0, fuse, 1, 3, count]));
    header.extend(words(&[0, 0x100, 0x200, 0x400, 1, 0x100, 0x100, 0x100, 0]));
    bin(&header, &code(0x600))
}

/// The boot loader of GSP, with the words of its descriptor that later chips have.
pub fn loader(version: u32, more: usize) -> Vec<u8> {
    let mut words_of = vec![
        version, 0x300, 0x40, 0x340, 0x10, 0, 0, 0x77, 0, 0x80, 0x80, 0x80, 0x100, 0x200,
    ];
    words_of.resize(19 + more, 0);
    bin(&words(&words_of), &code(0x400))
}

/// The boot loader of falcons.
pub fn falcon_loader() -> Vec<u8> {
    bin(&words(&[0xfd, 0, 0, 0x200, 0x200, 0x100]), &code(0x300))
}

/// A section: name, `sh_type`, `sh_flags`, `sh_info`, bytes.
pub type Section<'a> = (&'a str, u32, u32, u32, Vec<u8>);

/// An ELF file of 32 or 64 bits. Sections lie behind the headers, names last.
pub fn elf(wide: bool, machine: u16, sections: &[Section<'_>]) -> Vec<u8> {
    let (own, each) = if wide { (64u64, 64u64) } else { (52, 40) };
    let address = |value: u64| -> Vec<u8> {
        if wide {
            value.to_le_bytes().to_vec()
        } else {
            (value as u32).to_le_bytes().to_vec()
        }
    };
    let count = sections.len() as u16 + 2;
    let mut names = vec![0];
    let mut data: Vec<u8> = Vec::new();
    let mut headers = vec![0; each as usize];
    let names_of = (".shstrtab", 3u32, 0u32, 0u32, Vec::new());
    for (name, kind, flags, info, bytes) in sections.iter().chain([&names_of]) {
        let at = names.len() as u32;
        names.extend(name.bytes().chain([0]));
        let bytes = if *kind == 3 { &names } else { bytes };
        headers.extend(words(&[at, *kind]));
        headers.extend(address((*flags).into()));
        headers.extend(address(0));
        headers.extend(address(own + each * u64::from(count) + data.len() as u64));
        headers.extend(address(bytes.len() as u64));
        headers.extend(words(&[0, *info]));
        headers.extend(address(1));
        headers.extend(address(0));
        data.extend(bytes);
    }
    let mut bytes = b"\x7fELF".to_vec();
    bytes.extend([if wide { 2 } else { 1 }, 1, 1]);
    bytes.resize(16, 0);
    for half in [0, machine] {
        bytes.extend(half.to_le_bytes());
    }
    bytes.extend(words(&[1]));
    for value in [0, 0, own] {
        bytes.extend(address(value));
    }
    bytes.extend(words(&[0]));
    for half in [own as u16, 0, 0, each as u16, count, count - 1] {
        bytes.extend(half.to_le_bytes());
    }
    bytes.extend(headers);
    bytes.extend(data);
    bytes
}

/// The sections of GSP's firmware.
pub fn gsp_sections(version: &str) -> Vec<Section<'static>> {
    let signature = |byte| vec![byte; 4096];
    vec![
        (".fwimage", 1, 3, 0, code(9000)),
        (".fwversion", 1, 0, 0, format!("{version}\0").into_bytes()),
        (".fwsignature_cc_gh100", 1, 0, 0, signature(1)),
        (".fwsignature_gh100", 1, 0, 0, signature(2)),
        (".fwsignature_ga10x", 1, 0, 0, signature(3)),
    ]
}

/// GSP's firmware.
pub fn gsp(version: &str) -> Vec<u8> {
    elf(true, 243, &gsp_sections(version))
}

/// The sections of an FMC with a key and a signature of these sizes.
pub fn fmc_sections(key: usize, signature: usize) -> Vec<Section<'static>> {
    let image = code(700);
    let section = |name, bytes: Vec<u8>| (name, 1, 0xfff0_0102, crc32fast::hash(&bytes), bytes);
    vec![
        section("hash", Sha384::digest(&image).to_vec()),
        section("signature", vec![0x51; signature]),
        section("publickey", vec![0x52; key]),
        section("image", image),
    ]
}

/// An FMC.
pub fn fmc(key: usize, signature: usize) -> Vec<u8> {
    elf(false, 0, &fmc_sections(key, signature))
}

/// Names and files.
pub fn all() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("ga102/gsp/gsp-570.144.bin", gsp("570.144")),
        ("535.261.03/gsp_ga10x.bin", gsp("535.261.03")),
        ("ga102/gsp/booter_load-570.144.bin", booter(2, 384, 1)),
        ("tu102/gsp/booter_unload-535.113.01.bin", booter(1, 16, 0)),
        ("tu102/gsp/bootloader-535.113.01.bin", loader(4, 0)),
        ("ga102/gsp/bootloader-570.144.bin", loader(5, 2)),
        ("tu102/gsp/gen_bootloader-570.144.bin", falcon_loader()),
        ("gh100/gsp/fmc-570.144.bin", fmc(384, 384)),
        ("gb202/gsp/fmc-570.144.bin", fmc(97, 96)),
        ("tu102/acr/ucode_asb.bin", bin(&[0; 36], &code(100))),
        ("ga102.rom", Card::GA102.rom().bytes),
        ("ad102.rom", Card::AD102.rom().bytes),
        ("tu102.rom", Card::TU102.rom().bytes),
        ("gh100.rom", Card::GH100.rom().bytes),
    ]
}
