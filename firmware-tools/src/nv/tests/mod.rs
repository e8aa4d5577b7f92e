//! Small files of every kind, whole and damaged in every way.

mod roms;
mod samples;

use proptest::prelude::*;

use super::*;
use crate::nv::booter::Booter;
use crate::nv::fmc::{Fmc, Scheme};
use crate::nv::gsp::Gsp;
use samples::{all, bin, booter, code, elf, fmc_sections, gsp, gsp_sections, loader, words};

/// Every part is where it is said to be.
fn inside(bytes: &[u8], image: &Image<'_>) {
    for part in image.parts() {
        let start = part.offset as usize;
        assert_eq!(
            &bytes[start..start + part.bytes.len()],
            part.bytes,
            "{}",
            part.name
        );
    }
}

/// The message about a file that is refused.
fn refused(name: &str, bytes: &[u8]) -> String {
    Image::parse(name, bytes).unwrap_err().to_string()
}

fn parts(name: &str, bytes: &[u8]) -> Vec<String> {
    let image = Image::parse(name, bytes).unwrap();
    inside(bytes, &image);
    let part = |part: &Part<'_>| format!("{} {} {}", part.name, part.offset, part.bytes.len());
    image.parts().iter().map(part).collect()
}

#[test]
fn parts_of_every_kind() {
    for (name, expected) in [
        (
            "gsp-570.144.bin",
            &[
                "fwimage 512 9000",
                "fwsignature_cc_gh100 9520 4096",
                "fwsignature_gh100 13616 4096",
                "fwsignature_ga10x 17712 4096",
            ][..],
        ),
        (
            "booter_load-570.144.bin",
            &["code 888 1536", "signature_0 60 384", "signature_1 444 384"],
        ),
        (
            "bootloader-570.144.bin",
            &[
                "code 108 1024",
                "manifest 108 128",
                "monitor_data 236 128",
                "monitor_code 364 512",
                "bootloader 876 64",
                "bootloader_param 940 16",
            ],
        ),
        (
            "gen_bootloader-570.144.bin",
            &["code 48 512", "data 560 256"],
        ),
        ("ucode_asb.bin", &["code 60 100"]),
    ] {
        let (full, bytes) = all()
            .into_iter()
            .find(|(full, _)| full.ends_with(name))
            .unwrap();
        let found = parts(full, &bytes);
        assert_eq!(found, expected, "{full}");
    }
}

#[test]
fn the_version_is_that_of_the_name() {
    assert_eq!(
        refused("gsp-570.144.bin", &gsp("570.133.07")),
        "gsp-570.144.bin: .fwversion is 570.133.07, expected 570.144, as the file is named. This is not a firmware \
         file of this kind, or it is damaged"
    );
    // A file without a version in its name has the version that it says.
    let bytes = gsp("570.133.07");
    let image = Image::parse("gsp_ga10x.bin", &bytes).unwrap();
    assert_eq!(image.version().unwrap().branch(), Some(Branch::R570));
    assert!(
        refused("gsp_ga10x.bin", &gsp("five"))
            .contains("\"five\", expected a version like 570.144")
    );
}

#[test]
fn bytes_need_not_be_aligned() {
    for (name, bytes) in all() {
        for by in 0..8 {
            let mut more = vec![0; by];
            more.extend(&bytes);
            let bytes = &more[by..];
            inside(bytes, &Image::parse(name, bytes).unwrap());
        }
    }
}

#[test]
fn signatures_are_by_family() {
    let bytes = gsp("570.144");
    let gsp = Gsp::parse("gsp-570.144.bin", &bytes).unwrap();
    assert_eq!(
        gsp.families().collect::<Vec<_>>(),
        ["cc_gh100", "gh100", "ga10x"]
    );
    assert_eq!(gsp.signature("ga10x"), Some(&[3; 4096][..]));
    assert_eq!(gsp.signature("gb20x"), None);
    assert_eq!(gsp.image(), code(9000));
}

#[test]
fn sections_of_gsp_are_checked() {
    let without = |at: usize| {
        let mut sections = gsp_sections("570.144");
        sections.remove(at);
        elf(true, 243, &sections)
    };
    let name = "gsp-570.144.bin";
    assert!(refused(name, &without(0)).contains("section .fwimage is missing"));
    assert!(refused(name, &without(1)).contains("section .fwversion is missing"));
    let none: Vec<_> = gsp_sections("570.144").into_iter().take(2).collect();
    assert!(refused(name, &elf(true, 243, &none)).contains("sections .fwsignature_* is none"));
    let mut twice = gsp_sections("570.144");
    twice.push(twice[0].clone());
    assert!(refused(name, &elf(true, 243, &twice)).contains("section .fwimage is there twice"));
    let mut short = gsp_sections("570.144");
    short[4].4.pop();
    let text = refused(name, &elf(true, 243, &short));
    assert!(
        text.contains("the size of .fwsignature_ga10x is 4095, expected 4096"),
        "{text}"
    );
    let x86 = elf(true, 62, &gsp_sections("570.144"));
    assert!(refused(name, &x86).contains("e_machine is 62, expected 243, RISC-V"));
    let narrow = elf(false, 243, &gsp_sections("570.144"));
    let text = refused(name, &narrow);
    assert!(text.contains("the ELF is Unsupported ELF header"), "{text}");
}

#[test]
fn an_fmc_is_held_against_its_sums() {
    let name = "fmc-570.144.bin";
    let (_, bytes) = all()
        .into_iter()
        .find(|(n, _)| n.ends_with("gb202/gsp/fmc-570.144.bin"))
        .unwrap();
    let fmc = Fmc::parse(name, &bytes).unwrap();
    assert_eq!(fmc.scheme, Scheme::EcdsaP384);
    assert_eq!(fmc.public_key()[..97], [0x52; 97]);
    assert_eq!(fmc.public_key()[97..], [0; 384 - 97]);
    assert_eq!((fmc.signature()[95], fmc.signature()[96]), (0x51, 0));
    assert_eq!((fmc.hash().len(), fmc.image()), (48, &code(700)[..]));

    let change = |at: usize, byte: u8, sum: bool| {
        let mut sections = fmc_sections(384, 384);
        sections[at].4[7] ^= byte;
        if sum {
            sections[at].3 = crc32fast::hash(&sections[at].4);
        }
        elf(false, 0, &sections)
    };
    for (at, section) in ["hash", "signature", "publickey", "image"]
        .into_iter()
        .enumerate()
    {
        assert!(
            refused(name, &change(at, 4, false)).contains(&format!("the crc32 of {section} is 0x"))
        );
    }
    // Without a sum, the hash is left.
    assert!(refused(name, &change(3, 4, true)).contains("expected the SHA-384 of image, "));
    assert!(refused(name, &change(0, 4, true)).contains("expected the SHA-384 of image, "));
    assert!(Image::parse(name, &change(1, 4, true)).is_ok());
    for (key, signature) in [(384, 96), (97, 384), (98, 96), (0, 0)] {
        assert!(Image::parse(name, &elf(false, 0, &fmc_sections(key, signature))).is_err());
    }
    let mut flags = fmc_sections(384, 384);
    flags[3].2 = 2;
    assert!(
        refused(name, &elf(false, 0, &flags)).contains("section image is type 1 with flags 0x2")
    );
}

#[test]
fn a_booter_is_signed_for_the_fuse() {
    let bytes = booter(3, 384, 4);
    let booter_of = Booter::parse("booter_load-570.144.bin", &bytes).unwrap();
    assert_eq!(
        (
            booter_of.fuse_version,
            booter_of.engine_id,
            booter_of.ucode_id
        ),
        (4, 1, 3)
    );
    assert_eq!(
        (booter_of.patch, booter_of.signature_in_data()),
        (0x210, 0x10)
    );
    assert_eq!(booter_of.apps, std::slice::from_ref(&(0x100..0x200)));
    assert_eq!(booter_of.data, 0x200..0x600);
    // The fuse counts up, the signatures down from the version of the first; without a fuse it is the last.
    for (fuse, byte) in [(4, 0xa0), (3, 0xa1), (2, 0xa2), (0, 0xa2)] {
        let image = booter_of.signed(fuse).unwrap();
        assert_eq!(image[0x210..0x210 + 384], [byte; 384], "{fuse}");
        assert_eq!(image[..0x210], code(0x600)[..0x210]);
        assert_eq!(image[0x210 + 384..], code(0x600)[0x210 + 384..]);
    }
    for fuse in [1, 5, 99] {
        let text = booter_of.signed(fuse).unwrap_err().to_string();
        assert!(
            text.contains(&format!("the fuse's version is {fuse}, expected")),
            "{text}"
        );
    }
    let turing = booter(1, 16, 0);
    let turing = Booter::parse("booter_load-570.144.bin", &turing).unwrap();
    assert_eq!(turing.signed(0).unwrap()[0x210..0x220], [0xa0; 16]);
    assert!(refused("booter_load-1.2.bin", &booter(2, 100, 1)).contains("200 bytes for 2"));
}

#[test]
fn headers_of_bins_are_checked() {
    let name = "bootloader-570.144.bin";
    let with = |at: usize, value: u32| {
        let mut bytes = loader(5, 2);
        bytes[4 * at..4 * at + 4].copy_from_slice(&value.to_le_bytes());
        refused(name, &bytes)
    };
    assert!(with(0, 0x10df).contains("bin_magic is 0x10df, expected 0x10de"));
    assert!(with(1, 2).contains("bin_ver is 2, expected 1"));
    assert!(with(3, 20).contains("header_offset is 20, expected at least 24"));
    assert!(with(4, 23).contains("data_offset is 23, expected at least header_offset, 24"));
    assert!(with(4, 96).contains("the size of RM_RISCV_UCODE_DESC is 72, expected at least 76"));
    assert!(with(5, 0).contains("data_size is 0, expected some code"));
    assert!(with(5, 1025).contains("the code needs 1025 bytes at offset 108, the file has 1132"));
    assert!(with(6, 6).contains("RM_RISCV_UCODE_DESC.version is 6, expected 4 or 5"));
    assert!(
        with(6 + 13, 0x401)
            .contains("the end of the monitor's code is 1281, expected at most the code's 1024")
    );
    assert!(with(6 + 9, u32::MAX).contains("the end of the manifest is 4294967295"));
    let empty = bin(&words(&[0xfd, 0, 0, 0, 0, 0]), &code(16));
    assert!(refused("gen_bootloader-1.2.bin", &empty).contains("code_size is 0"));
}

#[test]
fn names_that_say_nothing() {
    let text = refused("nvidia/x.bin", &[]);
    assert!(
        text.contains("unknown kind of firmware") && text.contains("gsp-570.144.bin"),
        "{text}"
    );
    let text = Error::Missing {
        name: "ga102/gsp/gsp-570.144.bin".into(),
        folders: "/lib".into(),
    };
    assert!(
        text.to_string()
            .contains("apt install firmware-nvidia-graphics"),
        "{text}"
    );
    let text = refused("card.rom", &[0x55, 0xaa]);
    assert!(text.ends_with("; read it again"), "{text}");
}

/// A file that ends early is refused wherever it ends; a bit that is wrong is found, or changes no place.
#[test]
fn damaged_in_every_way() {
    for (name, whole) in all() {
        let headers = whole.len().min(1300);
        for len in (0..headers).chain((headers..whole.len()).step_by(61)) {
            let bytes = &whole[..len];
            assert!(Image::parse(name, bytes).is_err(), "{name} of {len} bytes");
        }
        // Reading a ROM takes longer, and its structures lie all over it.
        let (bits, step) = if name.ends_with(".rom") {
            (whole.len() * 8, 37)
        } else {
            (headers * 8, 1)
        };
        for bit in (0..bits).step_by(step) {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(image) = Image::parse(name, &bytes) {
                inside(&bytes, &image);
                let _ = image.facts();
            }
        }
    }
}

proptest! {
    /// Any bytes under any name: parts that lie inside, or an error, and never a panic.
    #[test]
    fn any_bytes(
        which in 0..14usize,
        words in prop::collection::vec((0..400usize, any::<u32>()), 0..6),
        near in prop::collection::vec((0..400usize, 0u32..0x800), 0..6),
        cut in 0..40_000usize,
        fuse in 0..20u32,
    ) {
        let (name, mut bytes) = all().swap_remove(which);
        for (at, value) in words.into_iter().chain(near) {
            if let Some(word) = bytes.get_mut(at * 4..at * 4 + 4) {
                word.copy_from_slice(&value.to_le_bytes());
            }
        }
        bytes.truncate(cut.max(24));
        if let Ok(image) = Image::parse(name, &bytes) {
            inside(&bytes, &image);
            let _ = image.facts();
            match image.contents() {
                Contents::Booter(booter) => {
                    let _ = booter.signed(fuse);
                }
                Contents::Vbios(vbios) => roms::prepare(vbios, fuse),
                _ => {}
            }
        }
    }
}
