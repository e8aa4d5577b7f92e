//! Relocations of x86-64 and AArch64: pure arithmetic on the bytes of a place.
//!
//! Sources: the System V ABI for AMD64 (psABI, table 4.9), and "ELF for the Arm 64-bit
//! Architecture" (AAELF64, section 5.7).

/// The machines whose objects are loaded, by `e_machine`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Machine {
    /// EM_X86_64, 62.
    X86_64,
    /// EM_AARCH64, 183.
    Aarch64,
}

/// What a relocation needs besides the symbol itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// The symbol's address.
    Direct,
    /// A jump that may go through a stub if the symbol is far.
    Call,
    /// The address of a slot that holds the symbol's address.
    Got,
}

/// Why a place cannot be relocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum RelocateError {
    /// A type that is not known here.
    #[error("type {0} is not supported; compile with -fPIC, -ffreestanding and no TLS")]
    Type(u32),
    /// The place is outside of its section.
    #[error("{bytes} bytes are outside the section of {size}")]
    Place {
        /// Size of the place.
        bytes: usize,
        /// Size of the section.
        size: usize,
    },
    /// The value does not fit.
    #[error("value {0:#x} does not fit the field; compile with -fPIC")]
    Overflow(i64),
    /// The value is not a multiple of what the instruction counts in.
    #[error("value {value:#x} is not a multiple of {align}")]
    Misaligned {
        /// The value.
        value: i64,
        /// The unit.
        align: u64,
    },
}

/// What the types of a machine refer to.
pub(crate) fn target(machine: Machine, r_type: u32) -> Target {
    match (machine, r_type) {
        // GOTPCREL, GOTPCRELX, REX_GOTPCRELX.
        (Machine::X86_64, 9 | 41 | 42) => Target::Got,
        // PLT32.
        (Machine::X86_64, 4) => Target::Call,
        // ADR_GOT_PAGE, LD64_GOT_LO12_NC.
        (Machine::Aarch64, 311 | 312) => Target::Got,
        // JUMP26, CALL26.
        (Machine::Aarch64, 282 | 283) => Target::Call,
        _ => Target::Direct,
    }
}

/// Whether a call from `place` reaches `symbol` without a stub.
pub(crate) fn reaches(machine: Machine, place: u64, symbol: u64) -> bool {
    let distance = symbol.wrapping_sub(place) as i64;
    let reach = match machine {
        Machine::X86_64 => 1i64 << 31,
        Machine::Aarch64 => 1 << 27,
    };
    (-reach + 64..reach - 64).contains(&distance)
}

/// Bytes of a stub.
pub(crate) const STUB: usize = 16;

/// Code that jumps to a far address.
pub(crate) fn stub(machine: Machine, address: u64) -> [u8; STUB] {
    let mut code = match machine {
        // jmp [rip + 2]; ud2; address
        Machine::X86_64 => *b"\xff\x25\x02\x00\x00\x00\x0f\x0b\0\0\0\0\0\0\0\0",
        // ldr x16, #8; br x16; address
        Machine::Aarch64 => *b"\x50\x00\x00\x58\x00\x02\x1f\xd6\0\0\0\0\0\0\0\0",
    };
    code[8..].copy_from_slice(&address.to_le_bytes());
    code
}

/// Applies a relocation to the place at `offset` of a section. `place` is the place's address;
/// `symbol` that of the symbol, its stub or its slot, as [`target`] says.
pub(crate) fn apply(
    machine: Machine,
    r_type: u32,
    section: &mut [u8],
    offset: usize,
    place: u64,
    symbol: u64,
    addend: i64,
) -> Result<(), RelocateError> {
    let absolute = symbol.wrapping_add(addend as u64);
    match machine {
        Machine::X86_64 => x86_64(r_type, section, offset, place, absolute),
        Machine::Aarch64 => aarch64(r_type, section, offset, place, absolute),
    }
}

/// The types of x86-64. `absolute` is the symbol with its addend.
fn x86_64(
    r_type: u32,
    section: &mut [u8],
    offset: usize,
    place: u64,
    absolute: u64,
) -> Result<(), RelocateError> {
    let relative = absolute.wrapping_sub(place) as i64;
    match r_type {
        // NONE
        0 => Ok(()),
        // 64
        1 => put(section, offset, absolute.to_le_bytes()),
        // PC32, PLT32, GOTPCREL, GOTPCRELX, REX_GOTPCRELX
        2 | 4 | 9 | 41 | 42 => {
            let value = i32::try_from(relative).map_err(|_| RelocateError::Overflow(relative))?;
            put(section, offset, value.to_le_bytes())
        }
        // 32, zero-extended
        10 => {
            let value =
                u32::try_from(absolute).map_err(|_| RelocateError::Overflow(absolute as i64))?;
            put(section, offset, value.to_le_bytes())
        }
        // 32S, sign-extended
        11 => {
            let value = i32::try_from(absolute as i64)
                .map_err(|_| RelocateError::Overflow(absolute as i64))?;
            put(section, offset, value.to_le_bytes())
        }
        // PC64
        24 => put(section, offset, relative.to_le_bytes()),
        other => Err(RelocateError::Type(other)),
    }
}

/// The types of AArch64. `absolute` is the symbol with its addend.
fn aarch64(
    r_type: u32,
    section: &mut [u8],
    offset: usize,
    place: u64,
    absolute: u64,
) -> Result<(), RelocateError> {
    let relative = absolute.wrapping_sub(place) as i64;
    match r_type {
        // NONE, and its old number
        0 | 256 => Ok(()),
        // ABS64
        257 => put(section, offset, absolute.to_le_bytes()),
        // ABS32
        258 => {
            let value =
                u32::try_from(absolute).map_err(|_| RelocateError::Overflow(absolute as i64))?;
            put(section, offset, value.to_le_bytes())
        }
        // PREL64
        260 => put(section, offset, relative.to_le_bytes()),
        // PREL32
        261 => {
            let value = i32::try_from(relative).map_err(|_| RelocateError::Overflow(relative))?;
            put(section, offset, value.to_le_bytes())
        }
        // LD_PREL_LO19, CONDBR19: words, bits 23:5
        273 | 280 => {
            let words = branch(relative, 19)?;
            insert(section, offset, words, 0x7_ffff, 5)
        }
        // ADR_PREL_LO21: bytes, split
        274 => {
            let value = fits(relative, 21)?;
            insert_adr(section, offset, value)
        }
        // ADR_PREL_PG_HI21, its NC variant, ADR_GOT_PAGE: pages, split
        275 | 276 | 311 => {
            let pages = ((absolute & !0xfff).wrapping_sub(place & !0xfff) as i64) >> 12;
            let pages = match r_type {
                276 => pages as u32,
                _ => fits(pages, 21)?,
            };
            insert_adr(section, offset, pages)
        }
        // ADD_ABS_LO12_NC, LDST8_ABS_LO12_NC
        277 | 278 => insert(section, offset, absolute as u32 & 0xfff, 0xfff, 10),
        // TSTBR14: words, bits 18:5
        279 => {
            let words = branch(relative, 14)?;
            insert(section, offset, words, 0x3fff, 5)
        }
        // JUMP26, CALL26: words, bits 25:0
        282 | 283 => {
            let words = branch(relative, 26)?;
            insert(section, offset, words, 0x3ff_ffff, 0)
        }
        // LDST16, LDST32, LDST64 (and LD64_GOT), LDST128: the low 12 bits in units of the access
        284 | 285 | 286 | 299 | 312 => {
            let shift = match r_type {
                284 => 1,
                285 => 2,
                286 | 312 => 3,
                _ => 4,
            };
            let low = absolute as u32 & 0xfff;
            if !low.is_multiple_of(1 << shift) {
                let (value, align) = (low as i64, 1 << shift);
                return Err(RelocateError::Misaligned { value, align });
            }
            insert(section, offset, low >> shift, 0xfff >> shift, 10)
        }
        other => Err(RelocateError::Type(other)),
    }
}

/// The value, if it fits into `bits` bits with sign.
fn fits(value: i64, bits: u32) -> Result<u32, RelocateError> {
    let half = 1i64 << (bits - 1);
    match (-half..half).contains(&value) {
        true => Ok(value as u32),
        false => Err(RelocateError::Overflow(value)),
    }
}

/// A branch distance in words of `bits` bits.
fn branch(bytes: i64, bits: u32) -> Result<u32, RelocateError> {
    if bytes & 3 != 0 {
        let (value, align) = (bytes, 4);
        return Err(RelocateError::Misaligned { value, align });
    }
    fits(bytes >> 2, bits).map_err(|_| RelocateError::Overflow(bytes))
}

fn put<const N: usize>(
    section: &mut [u8],
    offset: usize,
    bytes: [u8; N],
) -> Result<(), RelocateError> {
    *place::<N>(section, offset)? = bytes;
    Ok(())
}

/// The `N` bytes at an offset.
fn place<const N: usize>(section: &mut [u8], offset: usize) -> Result<&mut [u8; N], RelocateError> {
    let size = section.len();
    section
        .get_mut(offset..)
        .and_then(|rest| rest.first_chunk_mut())
        .ok_or(RelocateError::Place { bytes: N, size })
}

/// Replaces the bits `mask << at` of an instruction.
fn insert(
    section: &mut [u8],
    offset: usize,
    value: u32,
    mask: u32,
    at: u32,
) -> Result<(), RelocateError> {
    let bytes = place::<4>(section, offset)?;
    let word = u32::from_le_bytes(*bytes) & !(mask << at) | (value & mask) << at;
    *bytes = word.to_le_bytes();
    Ok(())
}

/// The 21 bits of ADR and ADRP: the low two in bits 30:29, the others in bits 23:5.
fn insert_adr(section: &mut [u8], offset: usize, value: u32) -> Result<(), RelocateError> {
    insert(section, offset, value, 3, 29)?;
    insert(section, offset, value >> 2, 0x7_ffff, 5)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(r_type: u32, instruction: u32, place: u64, symbol: u64) -> Result<u32, RelocateError> {
        let mut bytes = instruction.to_le_bytes();
        apply(Machine::Aarch64, r_type, &mut bytes, 0, place, symbol, 0)?;
        Ok(u32::from_le_bytes(bytes))
    }

    #[test]
    fn aarch64_instructions() {
        // bl +0x1000; bl -4
        assert_eq!(arm(283, 0x9400_0000, 0x1000, 0x2000), Ok(0x9400_0400));
        assert_eq!(arm(283, 0x9400_0000, 0x1004, 0x1000), Ok(0x97ff_ffff));
        // adrp x0, page of 0x12345678 seen from 0x12340010: 5 pages on
        assert_eq!(
            arm(275, 0x9000_0000, 0x1234_0010, 0x1234_5678),
            Ok(0xb000_0020)
        );
        // add x0, x0, #0x678
        assert_eq!(arm(277, 0x9100_0000, 0, 0x1234_5678), Ok(0x9119_e000));
        // ldr x0, [x0, #0x678]; ldr q0, [x0, #0x670]
        assert_eq!(arm(286, 0xf940_0000, 0, 0x1234_5678), Ok(0xf943_3c00));
        assert_eq!(arm(299, 0x3dc0_0000, 0, 0x1234_5670), Ok(0x3dc1_9c00));
        // b.eq +8
        assert_eq!(arm(280, 0x5400_0000, 0x100, 0x108), Ok(0x5400_0040));
        assert_eq!(
            arm(286, 0xf940_0000, 0, 0x1234_567c),
            Err(RelocateError::Misaligned {
                value: 0x67c,
                align: 8
            })
        );
        assert!(matches!(
            arm(283, 0, 0, 1 << 30),
            Err(RelocateError::Overflow(_))
        ));
        assert!(matches!(
            arm(283, 0, 0, 2),
            Err(RelocateError::Misaligned { .. })
        ));
        assert_eq!(arm(9999, 0, 0, 0), Err(RelocateError::Type(9999)));
    }

    #[test]
    fn x86_places() {
        let x86 = |r_type, place, symbol: u64, addend| {
            let mut bytes = [0xaa; 10];
            apply(
                Machine::X86_64,
                r_type,
                &mut bytes,
                1,
                place,
                symbol,
                addend,
            )
            .map(|()| bytes)
        };
        let bytes = x86(2, 0x1000, 0x1100, -4).unwrap();
        assert_eq!(bytes, [0xaa, 0xfc, 0, 0, 0, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa]);
        let bytes = x86(1, 0, 0x1122_3344_5566_7788, 0).unwrap();
        assert_eq!(
            bytes[1..9],
            [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]
        );
        assert!(matches!(
            x86(2, 0, 1 << 32, 0),
            Err(RelocateError::Overflow(_))
        ));
        assert!(matches!(
            x86(10, 0, 1 << 32, 0),
            Err(RelocateError::Overflow(_))
        ));
        assert!(x86(11, 0, u64::MAX, 0).is_ok());
        assert!(matches!(
            x86(11, 0, 1 << 31, 0),
            Err(RelocateError::Overflow(_))
        ));
        let mut short = [0; 6];
        let error = apply(Machine::X86_64, 1, &mut short, 0, 0, 0, 0).unwrap_err();
        assert_eq!(error, RelocateError::Place { bytes: 8, size: 6 });
        assert!(apply(Machine::X86_64, 1, &mut short, usize::MAX, 0, 0, 0).is_err());
    }

    #[test]
    fn calls_know_their_reach() {
        assert!(reaches(Machine::X86_64, 0x7000_0000_0000, 0x7000_7000_0000));
        assert!(!reaches(Machine::X86_64, 0, 1 << 31));
        assert!(!reaches(Machine::Aarch64, 0, 1 << 27));
        assert!(reaches(Machine::Aarch64, 1 << 27, 1 << 20));
    }
}
