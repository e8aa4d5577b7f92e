//! FWSEC: a descriptor, signatures, and microcode that does nothing but halt.

use crate::put;

/// The size of its code.
pub const CODE: usize = 0x200;
/// The size of its data.
pub const DATA: usize = 0x800;
/// Where in the data its interface is.
pub const INTERFACE: usize = 0x10;
/// Where in the data the DMEM mapper is.
pub const MAPPER: usize = 0x40;
/// Where in the data commands go.
const COMMAND: usize = 0x100;
/// Where in the data the signature goes.
pub const PATCH: usize = 0x400;
/// The size of a signature.
pub const SIGNATURE: usize = 384;
/// What is secure of a Turing's code.
const SECURE: usize = 0x100;

/// `exit`, which halts a falcon.
const EXIT: [u8; 2] = [0xf8, 0x02];

/// How FWSEC is described.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fwsec {
    /// The version of its descriptor: 2 or 3.
    pub version: u8,
    /// The falcons that may run it.
    pub engine_id_mask: u16,
    /// Which fuse its signatures are held against.
    pub ucode_id: u8,
    /// The versions that there are signatures of, a bit for each.
    pub signature_versions: u16,
}

impl Fwsec {
    /// With a boot loader.
    pub const TURING: Fwsec = Fwsec {
        version: 2,
        engine_id_mask: 0,
        ucode_id: 0,
        signature_versions: 0,
    };
    /// Verified by GSP's boot ROM. Two versions, as if one had been withdrawn.
    pub const AMPERE: Fwsec = Fwsec {
        version: 3,
        engine_id_mask: 0x400,
        ucode_id: 9,
        signature_versions: 0b101,
    };

    /// The signature of a version: no chip accepts it.
    pub fn signature(version: u8) -> [u8; SIGNATURE] {
        std::array::from_fn(|i| (i as u8).wrapping_mul(3) ^ version.wrapping_mul(0x55) ^ 0xa0)
    }

    /// The descriptor, with signatures.
    pub(crate) fn descriptor(&self) -> Vec<u8> {
        let versions = (0..16).filter(|bit| self.signature_versions >> bit & 1 != 0);
        let signatures: Vec<u8> = versions.clone().flat_map(Fwsec::signature).collect();
        let words = |size: usize, words: &[usize]| -> Vec<u8> {
            let header = 1 | (usize::from(self.version) << 8) | (size << 16);
            let words = std::iter::once(&header).chain(words);
            words
                .flat_map(|word| (*word as u32).to_le_bytes())
                .collect()
        };
        if self.version == 2 {
            // The secure code is the second half of what is loaded, and has the addresses behind the first.
            let stored = CODE + DATA;
            let imem = [0, CODE, 0, SECURE, CODE - SECURE];
            let dmem = [CODE, 0, DATA, CODE, DATA];
            return words(
                60,
                &[&[stored, stored, 0, INTERFACE], &imem[..], &dmem[..]].concat(),
            );
        }
        let size = 44 + signatures.len();
        let mut bytes = words(size, &[CODE + DATA, PATCH, INTERFACE, 0, CODE, 0, 0, DATA]);
        bytes.extend(self.engine_id_mask.to_le_bytes());
        bytes.extend([self.ucode_id, versions.count() as u8]);
        bytes.extend(self.signature_versions.to_le_bytes());
        bytes.extend([0, 0]);
        bytes.extend(signatures);
        bytes
    }

    /// Code, then data.
    pub(crate) fn ucode(&self) -> Vec<u8> {
        let mut ucode = vec![0; CODE + DATA];
        put(&mut ucode, 0, &EXIT);
        put(&mut ucode, SECURE, &EXIT);
        let data = &mut ucode[CODE..];
        // Version, sizes of header and entries, entries: number and place.
        put(data, INTERFACE, &[1, 4, 8, 2]);
        let word = |at: usize, value: usize, data: &mut [u8]| {
            put(data, at, &(value as u32).to_le_bytes());
        };
        for (i, value) in [1, 0x700, 4, MAPPER].into_iter().enumerate() {
            word(INTERFACE + 4 + 4 * i, value, data);
        }
        // Version and size of the mapper, then offsets and sizes of its buffers.
        put(data, MAPPER + 4, &[3, 0, 64, 0]);
        for (i, value) in [COMMAND, 0x80, COMMAND + 0x80, 0x80, 0x200, 0x100]
            .into_iter()
            .enumerate()
        {
            word(MAPPER + 8 + 4 * i, value, data);
        }
        // The commands that it has.
        word(MAPPER + 0x34, (1 << 0x15) | (1 << 0x19), data);
        ucode
    }
}
