//! Firmware files, byte by byte: of the form of the public ones, with nothing in them that runs.

use std::path::Path;

use drivers_spec::nv::gsp::PAGE;

/// Where the booters' code starts, and what it starts with: which of them it is.
pub const APP: usize = 0x100;
pub const LOAD: &[u8; 4] = b"LOAD";
pub const UNLOAD: &[u8; 4] = b"UNLD";
/// What a signature of a booter is made of, by its number.
pub const SIGNATURE: u8 = 0xa0;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Bytes that are not the same everywhere.
pub fn code(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

fn bin(header: &[u8], code: &[u8]) -> Vec<u8> {
    let offset = 24 + header.len() as u32;
    let mut bytes = words(&[0x10de, 1, 0x1000, 24, offset, code.len() as u32]);
    bytes.extend(header);
    bytes.extend(code);
    bytes
}

/// A booter: up to 0x400 code, of which [`APP`] and what follows has privileges, then data.
pub fn booter_image(mark: &[u8; 4]) -> Vec<u8> {
    let mut all = code(0x700);
    all[APP..][..4].copy_from_slice(mark);
    all
}

/// A booter with two signatures, for fuses 1 and 0.
fn booter(mark: &[u8; 4]) -> Vec<u8> {
    let (each, count) = (384, 2);
    let (total, at) = (each * count, 60 + each * count);
    let mut header = words(&[60, total, at, at + 4, at + 8, 12, at + 20, at + 24, 36]);
    header.extend((0..total).map(|i| SIGNATURE + (i / each) as u8));
    header.extend(words(&[0x410, 0, 1, 1, 3, count]));
    header.extend(words(&[
        0, 0x100, 0x400, 0x300, 1, APP as u32, 0x300, 0x100, 0,
    ]));
    bin(&header, &booter_image(mark))
}

/// GSP's boot loader.
pub fn loader() -> Vec<u8> {
    code(0x1400)
}

fn loader_file() -> Vec<u8> {
    let mut words_of = vec![
        5, 0x300, 0x40, 0x340, 0x10, 0, 0, 0x77, 0, 0x80, 0x80, 0x80, 0x100, 0x200,
    ];
    words_of.resize(21, 0);
    bin(&words(&words_of), &loader())
}

/// GSP's image: more pages than a page of its page table has entries.
pub fn image() -> Vec<u8> {
    code(600 * PAGE as usize + 5)
}

/// GSP's signature.
pub fn signature() -> Vec<u8> {
    vec![3; PAGE as usize]
}

/// GSP's firmware: an ELF file with three sections, and their names.
fn gsp(version: &str, family: &str) -> Vec<u8> {
    let signed = format!(".fwsignature_{family}");
    let sections: [(&str, u32, Vec<u8>); 4] = [
        (".fwimage", 1, image()),
        (".fwversion", 1, format!("{version}\0").into_bytes()),
        (&signed, 1, signature()),
        (".shstrtab", 3, Vec::new()),
    ];
    let count = sections.len() as u16 + 1;
    let (mut names, mut data) = (vec![0], Vec::<u8>::new());
    let mut headers = vec![0; 64];
    for (name, kind, bytes) in &sections {
        let at = names.len() as u32;
        names.extend(name.bytes().chain([0]));
        let bytes = if *kind == 3 { &names } else { bytes };
        headers.extend(words(&[at, *kind]));
        let offset = 64 + 64 * u64::from(count) + data.len() as u64;
        for value in [0, 0, offset, bytes.len() as u64] {
            headers.extend(value.to_le_bytes());
        }
        headers.extend(words(&[0, 0]));
        for value in [1u64, 0] {
            headers.extend(value.to_le_bytes());
        }
        data.extend(bytes);
    }
    let mut all = b"\x7fELF\x02\x01\x01".to_vec();
    all.resize(16, 0);
    all.extend([0, 0, 243, 0]);
    all.extend(words(&[1]));
    for value in [0u64, 0, 64] {
        all.extend(value.to_le_bytes());
    }
    all.extend(words(&[0]));
    for half in [64, 0, 0, 64, count, count - 1] {
        all.extend(half.to_le_bytes());
    }
    all.extend(headers);
    all.extend(data);
    all
}

/// The SHA-384 of what GSP runs first on Hopper: of [`fmc`].
pub const FMC_HASH: [u8; 48] = [
    0xd0, 0x9d, 0x58, 0x5d, 0xc7, 0x4c, 0x49, 0x76, 0xad, 0xd6, 0x21, 0x6c, 0xc4, 0xa6, 0x6c, 0x95,
    0xcc, 0x6d, 0xf7, 0x37, 0x52, 0x7c, 0x46, 0x80, 0xdd, 0x58, 0xef, 0x12, 0xe8, 0x81, 0x38, 0x15,
    0x0c, 0x5c, 0xe8, 0x98, 0x6e, 0x0e, 0x5d, 0xb4, 0x5d, 0xcf, 0xa8, 0x30, 0x13, 0x59, 0xb5, 0xd8,
];
/// Its key and its signature.
pub const FMC_KEY: [u8; 384] = [0x52; 384];
pub const FMC_SIGNATURE: [u8; 384] = [0x51; 384];

/// What GSP runs first on Hopper.
pub fn fmc() -> Vec<u8> {
    code(0x1800)
}

/// The FMC's file: an ELF file of 32 bits with four sections, and their names. Key and signature have so many bytes.
fn fmc_file((key, signature): (usize, usize)) -> Vec<u8> {
    let sections: [(&str, u32, Vec<u8>); 5] = [
        ("hash", 1, FMC_HASH.into()),
        ("signature", 1, FMC_SIGNATURE[..signature].into()),
        ("publickey", 1, FMC_KEY[..key].into()),
        ("image", 1, fmc()),
        (".shstrtab", 3, Vec::new()),
    ];
    let count = sections.len() as u16 + 1;
    let (mut names, mut data) = (vec![0], Vec::<u8>::new());
    let mut headers = vec![0; 40];
    for (name, kind, bytes) in &sections {
        let at = names.len() as u32;
        names.extend(name.bytes().chain([0]));
        let bytes = if *kind == 3 { &names } else { bytes };
        let flags = if *kind == 3 { 0 } else { 0xfff0_0102 };
        let offset = 52 + 40 * u32::from(count) + data.len() as u32;
        let len = bytes.len() as u32;
        headers.extend(words(&[at, *kind, flags, 0, offset, len, 0, 0, 1, 0]));
        data.extend(bytes);
    }
    let mut all = b"\x7fELF\x01\x01\x01".to_vec();
    all.resize(16, 0);
    all.extend([0, 0, 0, 0]);
    all.extend(words(&[1, 0, 0, 52, 0]));
    for half in [52, 0, 0, 40, count, count - 1] {
        all.extend(half.to_le_bytes());
    }
    all.extend(headers);
    all.extend(data);
    all
}

fn write_to(folder: &Path, version: &str, files: &[(&str, Vec<u8>)]) {
    std::fs::create_dir_all(folder).unwrap();
    for (name, bytes) in files {
        std::fs::write(folder.join(format!("{name}-{version}.bin")), bytes).unwrap();
    }
}

/// Writes the files of a version for GA102 into a folder.
pub fn write(folder: &Path, version: &str) {
    write_for(folder, version, ("ga102", "ga10x"));
}

/// Writes those for a chip that a booter starts, with the family of its signatures.
pub fn write_for(folder: &Path, version: &str, (chip, family): (&str, &str)) {
    let files = [
        ("gsp", gsp(version, family)),
        ("bootloader", loader_file()),
        ("booter_load", booter(LOAD)),
        ("booter_unload", booter(UNLOAD)),
    ];
    write_to(&folder.join(chip).join("gsp"), version, &files);
}

/// Writes those for GH100.
pub fn write_hopper(folder: &Path, version: &str) {
    write_by_fsp(folder, version, ("gh100", "gh100"), (384, 384));
}

/// Writes those for a chip that its FSP starts, with the sizes of its key and of its signature.
pub fn write_by_fsp(
    folder: &Path,
    version: &str,
    (chip, family): (&str, &str),
    sizes: (usize, usize),
) {
    let files = [
        ("gsp", gsp(version, family)),
        ("bootloader", loader_file()),
        ("fmc", fmc_file(sizes)),
    ];
    write_to(&folder.join(chip).join("gsp"), version, &files);
}
