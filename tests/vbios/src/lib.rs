//! Makes the ROM of a card: images, tables and descriptors that drivers accept, with microcode that does nothing and
//! signatures that no chip accepts. It is written byte by byte from what the vendor's headers say, and shares no layout
//! with the parsers that it is for.
//!
//! Source: as `drivers_spec::nv::vbios` names it; numbers of the DCB's parts: Linux,
//! drivers/gpu/drm/nouveau/include/nvkm/subdev/bios/{dcb,conn}.h.
#![forbid(unsafe_code)]

mod fwsec;

pub use fwsec::{CODE, DATA, Fwsec, INTERFACE, MAPPER, PATCH, SIGNATURE};

/// What lies before the first image, for the card's own hardware.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ifr {
    /// Nothing.
    None,
    /// Version 1 or 2: an offset behind its fixed part.
    Fixed(u8),
    /// Version 3: a directory.
    Directory,
}

/// A card whose ROM is to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Card {
    /// Its PCI device.
    pub device: u16,
    /// The version of its VBIOS, as tools print it.
    pub version: [u8; 5],
    /// What lies before the first image.
    pub ifr: Ifr,
    /// Whether an EFI driver lies between the first image and NVIDIA's own, as on cards for displays.
    pub efi: bool,
    /// Whether it has outputs.
    pub display: bool,
    /// FWSEC.
    pub fwsec: Fwsec,
}

/// The first image's size.
const BASE: usize = 0x4000;
const EFI: usize = 0x1000;
/// The first of two images of NVIDIA's own type; the second has what matters.
const FIRST: usize = 0x800;

/// In the first image: its structures.
const PCIR: usize = 0x170;
const BIT: usize = 0x1b0;
const BIOSDATA: usize = 0x300;
const INTERNAL: usize = 0x320;
const FALCON: usize = 0x340;
const DCB: usize = 0x400;
const CCB: usize = 0x480;
const GPIO: usize = 0x4c0;
const CONNECTORS: usize = 0x500;

/// In the last image: the table of microcode, and the descriptor.
const TABLE: usize = 0x60;
const DESCRIPTOR: usize = 0x100;

/// A ROM, and where things are in it.
#[derive(Clone, Debug)]
pub struct Rom {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Where the first image is.
    pub start: usize,
    /// Where FWSEC's descriptor is, from the first image on.
    pub descriptor: usize,
    /// Where FWSEC's microcode is, from the first image on.
    pub ucode: usize,
}

impl Card {
    /// A GeForce RTX 3090: Ampere.
    pub const GA102: Card = Card {
        device: 0x2204,
        version: [0x94, 0x02, 0x42, 0x40, 0x5b],
        ifr: Ifr::Fixed(2),
        efi: true,
        display: true,
        fwsec: Fwsec::AMPERE,
    };
    /// A GeForce RTX 4090: Ada.
    pub const AD102: Card = Card {
        device: 0x2684,
        version: [0x95, 0x02, 0x18, 0x80, 0x01],
        ifr: Ifr::Directory,
        ..Card::GA102
    };
    /// A GeForce RTX 2080 Ti: Turing.
    pub const TU102: Card = Card {
        device: 0x1e07,
        version: [0x90, 0x02, 0x0b, 0x00, 0x0e],
        ifr: Ifr::Fixed(1),
        fwsec: Fwsec::TURING,
        ..Card::GA102
    };
    /// An H100: no display.
    pub const GH100: Card = Card {
        device: 0x2330,
        version: [0x96, 0x00, 0x74, 0x00, 0x01],
        ifr: Ifr::None,
        efi: false,
        display: false,
        ..Card::GA102
    };

    /// Makes the ROM.
    pub fn rom(&self) -> Rom {
        let descriptor = self.fwsec.descriptor();
        let ucode = self.fwsec.ucode();
        let last_size = (DESCRIPTOR + descriptor.len() + ucode.len()).next_multiple_of(512);
        let efi = if self.efi { EFI } else { 0 };

        // Pointers count as if there were no EFI driver.
        let pointer = |at: usize| (BASE + FIRST + at) as u32;
        let mut last = vec![0; last_size];
        own_header(&mut last, true, self.device);
        let size = if self.fwsec.version == 2 { 60 } else { 44 };
        put(&mut last, TABLE, &[1, 6, 6, 2, self.fwsec.version, size]);
        // Something that is not FWSEC, then FWSEC.
        put(&mut last, TABLE + 6, &[0x07, 0x00]);
        put(&mut last, TABLE + 8, &0u32.to_le_bytes());
        put(&mut last, TABLE + 12, &[0x85, 0x07]);
        put(&mut last, TABLE + 14, &pointer(DESCRIPTOR).to_le_bytes());
        put(&mut last, DESCRIPTOR, &descriptor);
        put(&mut last, DESCRIPTOR + descriptor.len(), &ucode);

        let mut first = vec![0; FIRST];
        own_header(&mut first, false, self.device);

        let mut bytes = self.ifr.bytes();
        let start = bytes.len();
        bytes.extend(self.base(pointer(TABLE)));
        if self.efi {
            let mut image = vec![0; EFI];
            put(&mut image, 0, &[0x55, 0xaa]);
            // The last for PCs, not for NVIDIA.
            header(&mut image, 0x1c, *b"PCIR", 0x03, [true, false], self.device);
            bytes.extend(image);
        }
        bytes.extend(first);
        bytes.extend(last);
        let extended = BASE + efi + FIRST;
        Rom {
            bytes,
            start,
            descriptor: extended + DESCRIPTOR,
            ucode: extended + DESCRIPTOR + descriptor.len(),
        }
    }

    /// The first image.
    fn base(&self, table: u32) -> Vec<u8> {
        let mut image = vec![0; BASE];
        put(&mut image, 0, &[0x55, 0xaa, (BASE / 512) as u8, 0xcb]);
        header(
            &mut image,
            PCIR,
            *b"PCIR",
            0x00,
            [!self.efi, false],
            self.device,
        );
        let [a, b, c, d, oem] = self.version;
        let tokens = [
            (b'B', 2, 16, BIOSDATA),
            (b'i', 2, 16, INTERNAL),
            (b'p', 2, 4, FALCON),
        ];
        put(&mut image, BIT, b"\xff\xb8BIT\0\x00\x01\x0c\x06");
        put(&mut image, BIT + 10, &[tokens.len() as u8]);
        let sum = sum(&image[BIT..BIT + 11]);
        put(&mut image, BIT + 11, &[sum.wrapping_neg()]);
        for (i, (id, version, size, at)) in tokens.into_iter().enumerate() {
            let [low, high] = (at as u16).to_le_bytes();
            put(
                &mut image,
                BIT + 12 + 6 * i,
                &[id, version, size, 0, low, high],
            );
        }
        put(&mut image, BIOSDATA, &[d, c, b, a, oem]);
        put(&mut image, INTERNAL, &[d, c, b, a, oem]);
        put(&mut image, FALCON, &table.to_le_bytes());
        if self.display {
            display(&mut image);
        }
        let sum = crate::sum(&image);
        put(&mut image, BASE - 1, &[sum.wrapping_neg()]);
        image
    }
}

impl Ifr {
    fn bytes(self) -> Vec<u8> {
        let (len, words) = match self {
            Ifr::None => return Vec::new(),
            // The fixed part's size, and behind it, at 4, the offset.
            Ifr::Fixed(version) => (
                0x800,
                vec![(4, (u32::from(version) << 8) | (0x20 << 16)), (0x24, 0x800)],
            ),
            // The size of all, where a word says where the flash's status is; the directory is 4 KiB behind it.
            Ifr::Directory => {
                let directory = [(0x1200, u32::from_le_bytes(*b"RFRD")), (0x1208, 0x1400)];
                (
                    0x1400,
                    [
                        vec![(4, 3 << 8), (8, 0x100), (0x100, 0x200)],
                        directory.to_vec(),
                    ]
                    .concat(),
                )
            }
        };
        let mut bytes = vec![0; len];
        put(&mut bytes, 0, b"NVGI");
        for (at, word) in words {
            put(&mut bytes, at, &word.to_le_bytes());
        }
        bytes
    }
}

/// The start of an image of NVIDIA's own type.
fn own_header(image: &mut [u8], last: bool, device: u16) {
    put(image, 0, &[0x56, 0x4e]);
    header(image, 0x20, *b"NPDS", 0xe0, [last, last], device);
}

/// The structures of an image: whether it is the last, for PCs and for NVIDIA.
fn header(image: &mut [u8], at: usize, sig: [u8; 4], code: u8, last: [bool; 2], device: u16) {
    let blocks = ((image.len() / 512) as u16).to_le_bytes();
    let [public, private] = last.map(|last| if last { 0x80 } else { 0 });
    put(image, 0x18, &(at as u16).to_le_bytes());
    put(image, at, &sig);
    put(image, at + 0x04, &0x10deu16.to_le_bytes());
    put(image, at + 0x06, &device.to_le_bytes());
    // Its length and version, and the class of a display controller.
    put(image, at + 0x0a, &[0x18, 0, 0, 0, 0, 3]);
    put(image, at + 0x10, &blocks);
    put(image, at + 0x14, &[code, public]);
    let next = (at + 0x18).next_multiple_of(16);
    put(image, next, b"NPDE");
    // Version 1.1, its length, the size again.
    put(image, next + 0x04, &[0x01, 0x01, 0x0c, 0]);
    put(image, next + 0x08, &blocks);
    put(image, next + 0x0a, &[private, 1]);
}

/// A DisplayPort and an HDMI, with the tables that they need.
fn display(image: &mut [u8]) {
    put(image, 0x36, &(DCB as u16).to_le_bytes());
    put(image, DCB, &[0x41, 0x1b, 3, 8]);
    put(image, DCB + 0x04, &(CCB as u16).to_le_bytes());
    put(image, DCB + 0x06, &0x4edc_bdcbu32.to_le_bytes());
    put(image, DCB + 0x0a, &(GPIO as u16).to_le_bytes());
    put(image, DCB + 0x14, &(CONNECTORS as u16).to_le_bytes());
    // Type, port, heads, connector, output resource; then what the type has.
    let displayport = [0x0100_0f06u32, 0x0f60_0010];
    let hdmi = [0x0200_1f12, 0x0000_0010];
    for (i, words) in [displayport, hdmi, [0x0e, 0]].into_iter().enumerate() {
        let at = DCB + 0x1b + 8 * i;
        put(image, at, &words[0].to_le_bytes());
        put(image, at + 4, &words[1].to_le_bytes());
    }
    // Ports: the I2C bus, and the AUX channel from bit 5 on; 31 for none.
    put(image, CCB, &[0x41, 5, 2, 4, 0]);
    put(image, CCB + 5, &0x1fu32.to_le_bytes());
    put(image, CCB + 9, &(0x01 | (0x1fu32 << 5)).to_le_bytes());
    put(image, GPIO, &[0x41, 6, 0, 5, 0, 0]);
    put(image, CONNECTORS, &[0x40, 5, 2, 4, 0]);
    put(image, CONNECTORS + 5, &[0x46, 0, 0, 0, 0x61, 0, 0, 0]);
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

/// Puts bytes to a place that there is.
fn put(image: &mut [u8], at: usize, bytes: &[u8]) {
    image[at..at + bytes.len()].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Read as the vendor's driver reads it, by numbers alone.
    #[test]
    fn the_pointers_lead_to_fwsec() {
        for card in [Card::GA102, Card::AD102, Card::TU102, Card::GH100] {
            let rom = card.rom();
            let all = &rom.bytes[rom.start..];
            let half = |at: usize| usize::from(u16::from_le_bytes([all[at], all[at + 1]]));
            let word = |at: usize| u32::from_le_bytes(all[at..at + 4].try_into().unwrap()) as usize;
            let mut at = 0;
            let mut types = Vec::new();
            let mut own = None;
            let base = loop {
                let data = at + half(at + 0x18);
                let ext = (data + half(data + 0x0a) + 15) & !15;
                assert_eq!(&all[ext..ext + 4], b"NPDE");
                types.push(all[data + 0x14]);
                if all[data + 0x14] == 0xe0 {
                    own = own.or(Some(at));
                }
                at += half(ext + 8) * 512;
                if all[ext + 0x0a] & 0x80 != 0 {
                    break half(0x190 + 8) * 512;
                }
            };
            assert_eq!(at, all.len());
            assert_eq!(types.len(), if card.efi { 4 } else { 3 });
            assert_eq!(sum(&all[..base]), 0);
            let shift = own.unwrap() - base;
            let table = word(half(BIT + 12 + 12 + 4)) + shift;
            assert_eq!(all[table], 1);
            let entry = table + 6 + 6;
            assert_eq!(all[entry], 0x85);
            assert_eq!(word(entry + 2) + shift, rom.descriptor);
            let size = word(rom.descriptor) >> 16;
            assert_eq!(rom.descriptor + size, rom.ucode);
        }
    }
}
