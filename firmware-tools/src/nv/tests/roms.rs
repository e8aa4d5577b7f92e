//! ROMs that were made for this, read again.

use vbios::{CODE, Card, DATA, INTERFACE, Ifr, MAPPER, PATCH};

use crate::nv::vbios::Vbios;
use crate::nv::vbios::fwsec::{Command, Descriptor};

const FRTS: Command = Command::Frts {
    offset: 0x2_3fe0_0000,
    size: 0x10_0000,
};

/// Prepares whatever there is, damaged or not.
pub fn prepare(vbios: &Vbios<'_>, fuse: u32) {
    for debug in [false, true] {
        if let Ok(fwsec) = vbios.fwsec(debug) {
            for command in [FRTS, Command::Sb] {
                if let Ok(ucode) = fwsec.prepared(command, fuse) {
                    assert_eq!(ucode.len(), fwsec.ucode().len());
                }
            }
        }
    }
}

fn text<T: std::fmt::Debug>(result: Result<T, crate::Error>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn what_was_made_is_what_is_read() {
    for (card, version, images) in [
        (Card::GA102, "94.02.42.40.5b", "pc efi extended extended"),
        (Card::AD102, "95.02.18.80.01", "pc efi extended extended"),
        (Card::TU102, "90.02.0b.00.0e", "pc efi extended extended"),
        (Card::GH100, "96.00.74.00.01", "pc extended extended"),
    ] {
        let rom = card.rom();
        let vbios = Vbios::parse("card.rom", &rom.bytes).unwrap();
        assert_eq!(vbios.version.as_deref(), Some(version));
        let names: Vec<String> = vbios.images.iter().map(|image| image.name()).collect();
        assert_eq!(names.join(" "), images);
        assert_eq!(vbios.images[0].ids, (0x10de, card.device));
        assert_eq!(vbios.images[0].sum, Some(true));
        assert_eq!(vbios.start as usize, rom.start);
        assert_eq!(vbios.bit.tokens.len(), 3);
        assert_eq!(vbios.dcb.is_some(), card.display);
        let fwsec = vbios.fwsec(false).unwrap();
        assert_eq!(fwsec.offset as usize, rom.descriptor);
        assert_eq!(fwsec.ucode_offset() as usize, rom.ucode);
        assert_eq!(fwsec.data, CODE..CODE + DATA);
        match fwsec.descriptor {
            Descriptor::V2(_) => {
                assert_eq!((fwsec.plain, fwsec.secure), (0..0x100, 0x100..CODE));
            }
            Descriptor::V3(d) => {
                assert_eq!((fwsec.plain, fwsec.secure), (0..0, 0..CODE));
                assert_eq!((d.engine_id_mask.get(), d.ucode_id), (0x400, 9));
            }
        }
        // There is none for chips whose fuses are not blown.
        assert!(text(vbios.fwsec(true)).contains("[0x85], expected 0x45, FWSEC"));
    }
}

#[test]
fn outputs_of_the_board() {
    let rom = Card::GA102.rom();
    let dcb = Vbios::parse("card.rom", &rom.bytes).unwrap().dcb.unwrap();
    assert_eq!(dcb.version, 0x41);
    let [displayport, hdmi] = &dcb.outputs[..] else {
        panic!("{dcb:?}")
    };
    assert_eq!(
        (displayport.kind, displayport.port, displayport.connector),
        (6, 0, 0)
    );
    assert_eq!(
        (hdmi.kind, hdmi.port, hdmi.connector, hdmi.resources),
        (2, 1, 1, 2)
    );
    assert_eq!(dcb.connectors, [0x46, 0x61]);
}

/// The bytes of both commands, by the numbers of the vendor's headers.
#[test]
fn commands_are_put_into_the_data() {
    for card in [Card::GA102, Card::TU102] {
        let rom = card.rom();
        let vbios = Vbios::parse("card.rom", &rom.bytes).unwrap();
        let fwsec = vbios.fwsec(false).unwrap();
        let before = fwsec.ucode();
        for (command, number) in [(FRTS, 0x15u32), (Command::Sb, 0x19)] {
            let mut expected = before.to_vec();
            let data = &mut expected[CODE..];
            data[MAPPER + 0x2c..MAPPER + 0x30].copy_from_slice(&number.to_le_bytes());
            let mut words = vec![1u32, 24, 0, 0, 0, 2];
            if number == 0x15 {
                words.extend([1, 20, 0x2_3fe00, 0x100, 2]);
            }
            for (i, word) in words.into_iter().enumerate() {
                data[0x100 + 4 * i..0x104 + 4 * i].copy_from_slice(&word.to_le_bytes());
            }
            if card.fwsec.version == 3 {
                data[PATCH..PATCH + 384].copy_from_slice(&vbios::Fwsec::signature(2));
            }
            let fuse = if card.fwsec.version == 3 { 2 } else { 0 };
            assert_eq!(
                fwsec.prepared(command, fuse).unwrap(),
                expected,
                "{number:#x}"
            );
        }
    }
}

#[test]
fn the_signature_is_that_of_the_fuse() {
    let rom = Card::GA102.rom();
    let vbios = Vbios::parse("card.rom", &rom.bytes).unwrap();
    let fwsec = vbios.fwsec(false).unwrap();
    assert_eq!(fwsec.signatures().count(), 2);
    for version in [0u8, 2] {
        let ucode = fwsec.prepared(Command::Sb, version.into()).unwrap();
        let place = &ucode[fwsec.patch.clone().unwrap()];
        assert_eq!(place, vbios::Fwsec::signature(version));
    }
    for fuse in [1, 3, 16, 40] {
        let text = text(fwsec.prepared(Command::Sb, fuse));
        assert!(
            text.contains("expected one that SignatureVersions 0x5 has"),
            "{text}"
        );
    }
    for (offset, size) in [(0, 4096), (4095, 4096), (4096, 1), (1 << 44, 4096)] {
        let text = text(fwsec.prepared(Command::Frts { offset, size }, 0));
        assert!(text.contains("a multiple of 4096"), "{text}");
    }
}

#[test]
fn roms_that_are_wrong_are_named() {
    let rom = Card::GA102.rom();
    let start = rom.start;
    let with = |at: usize, bytes: &[u8]| {
        let mut all = rom.bytes.clone();
        all[at..at + bytes.len()].copy_from_slice(bytes);
        all
    };
    for (bytes, expected) in [
        (
            vec![0xff; 4096],
            "the first bytes is ff ff ff ff, expected 55 aa",
        ),
        (with(5, &[9]), "the IFR's version is 9, expected 1, 2 or 3"),
        (with(0x24, &[2]), "the offset of the first image is 0x802"),
        (
            with(0x24, &[0, 0, 0, 1]),
            "the offset of the first image is 16777216",
        ),
        (
            with(start, &[1]),
            "the signature of the image at 0x0 is 0xaa01",
        ),
        (
            with(start + 0x170, b"R"),
            "the signature of PCI_DATA_STRUCT at 0x170",
        ),
        (
            with(start + 0x198, &[0, 0]),
            "the size of the image at 0x0 is 0",
        ),
        (with(start + 0x184, &[7]), "the images is type_0x07 efi"),
        (with(start + 0x1b0, &[0]), "the BIT is missing"),
        (
            with(start + 0x1b6, &[9]),
            "the sum of the BIT at 0x1b0 is 0x09",
        ),
        (with(start + 0x400, &[0x30]), "the DCB's version is 0x30"),
        (
            with(start + 0x406, &[0]),
            "the DCB's signature is 0x4edcbd00",
        ),
        (
            with(start + 0x403, &[7]),
            "the size of an entry of the DCB is 7",
        ),
        (
            with(start + 0x340, &[0, 1, 0, 0]),
            "the falcon data's pointer is 0x100, expected at least",
        ),
        (
            with(start + 0x343, &[0xff]),
            "the table of microcode needs 6 bytes",
        ),
    ] {
        let text = text(Vbios::parse("card.rom", &bytes));
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    // The sum of the first image is no reason to refuse it: drivers do not.
    let bytes = with(start + 0x2ff, &[1]);
    let vbios = Vbios::parse("card.rom", &bytes).unwrap();
    assert_eq!(vbios.images[0].sum, Some(false));
    // What the system makes of a ROM has the images for PCs alone.
    let public = &rom.bytes[start..start + 0x5000];
    let mut public = public.to_vec();
    let at = public
        .windows(4)
        .enumerate()
        .filter(|(_, w)| *w == b"NPDE")
        .nth(1)
        .unwrap()
        .0;
    public[at + 0x0a] = 0x80;
    let vbios = Vbios::parse("card.rom", &public).unwrap();
    assert!(
        text(vbios.fwsec(false)).contains("read all of it from the card"),
        "{vbios:?}"
    );
}

/// Every field of the descriptor and of the interface that is wrong is refused, or leads to bytes that are there.
#[test]
fn descriptors_that_are_wrong_are_refused() {
    let rom = Card::GA102.rom();
    let at = rom.start + rom.descriptor;
    let fwsec = |at: usize, bytes: &[u8]| {
        let mut all = rom.bytes.clone();
        all[at..at + bytes.len()].copy_from_slice(bytes);
        let vbios = Vbios::parse("card.rom", &all).unwrap();
        vbios
            .fwsec(false)
            .and_then(|fwsec| fwsec.prepared(FRTS, 0))
            .map_err(|e| e.to_string())
    };
    let data = rom.start + rom.ucode + CODE;
    for (at, bytes, expected) in [
        (at, &[0][..], "the version of FWSEC's descriptor is missing"),
        (at, &[5], "FWSEC is encrypted"),
        (at + 1, &[4], "the version of FWSEC's descriptor is 4"),
        (at + 2, &[43, 0], "the size of FWSEC's descriptor is 43"),
        (at + 4, &[0xff, 0xff, 0xff], "FWSEC needs 16777216 bytes"),
        (at + 8, &[0x81, 6], "PKCDataOffset is 1665"),
        (at + 20, &[0, 9], "the data needs 2048 bytes at offset 2304"),
        (at + 39, &[3], "SignatureCount is 3"),
        (at + 40, &[0xff], "SignatureVersions is 0xff"),
        (data + INTERFACE, &[2], "the interface's version is 2"),
        (
            data + INTERFACE + 2,
            &[7],
            "the size of the interface's entries is 7",
        ),
        (data + INTERFACE + 12, &[5], "the DMEM mapper is missing"),
        (
            data + INTERFACE + 16,
            &[0xc1, 7],
            "the DMEM mapper needs 64 bytes at offset 1985",
        ),
        (
            data + MAPPER + 8,
            &[0xd5, 7],
            "the command needs 44 bytes at offset 2005",
        ),
    ] {
        let text = fwsec(at, bytes).unwrap_err();
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    assert!(fwsec(data + MAPPER + 8, &[0xd4, 7]).is_ok());
}

#[test]
fn more_than_a_rom_is_not_read() {
    let mut card = Card::GA102;
    card.ifr = Ifr::None;
    let mut bytes = card.rom().bytes;
    bytes.resize(2 << 20, 0xff);
    assert!(
        Vbios::parse("card.rom", &bytes)
            .unwrap()
            .fwsec(false)
            .is_ok()
    );
}
