//! What relocations write.
//!
//! Everything relative stays right wherever the image lies, and is written at once. What holds an
//! address waits until the image has one: [`Absolute`].
//!
//! Source: LLVM, AMDGPUUsage, "Relocation Records".

use super::ObjectError;

const R_AMDGPU_NONE: u32 = 0;
const R_AMDGPU_ABS32_LO: u32 = 1;
const R_AMDGPU_ABS32_HI: u32 = 2;
const R_AMDGPU_ABS64: u32 = 3;
const R_AMDGPU_REL32: u32 = 4;
const R_AMDGPU_REL64: u32 = 5;
const R_AMDGPU_ABS32: u32 = 6;
const R_AMDGPU_GOTPCREL: u32 = 7;
const R_AMDGPU_GOTPCREL32_LO: u32 = 8;
const R_AMDGPU_GOTPCREL32_HI: u32 = 9;
const R_AMDGPU_REL32_LO: u32 = 10;
const R_AMDGPU_REL32_HI: u32 = 11;
const R_AMDGPU_RELATIVE64: u32 = 13;
const R_AMDGPU_REL16: u32 = 14;

/// The numbers of a relocation, as offsets in the image.
pub(super) struct Relocation {
    /// Where it writes (P).
    pub at: u64,
    /// What it refers to (S).
    pub symbol: u64,
    /// What is added (A).
    pub addend: i64,
    /// The slot that holds the address of what it refers to (G), for those that need one.
    pub slot: Option<u64>,
}

/// Which part of an address is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    Low,
    High,
    /// 32 bits which must hold all of it.
    Narrow,
}

/// A place that holds an address of the image.
#[derive(Debug, Clone)]
pub(super) struct Absolute {
    at: u64,
    /// Offset in the image, with the addend.
    target: u64,
    part: Part,
    section: String,
    offset: u64,
    symbol: String,
}

impl Absolute {
    fn new(at: u64, target: u64, part: Part) -> Absolute {
        Absolute {
            at,
            target,
            part,
            section: String::new(),
            offset: 0,
            symbol: String::new(),
        }
    }

    /// A slot of the global offset table.
    pub fn slot(at: u64, target: u64) -> Absolute {
        Absolute::new(at, target, Part::Whole)
    }

    /// With the names for messages.
    pub fn named(self, section: &str, offset: u64, symbol: &str) -> Absolute {
        Absolute {
            section: section.into(),
            offset,
            symbol: symbol.into(),
            ..self
        }
    }

    /// Writes the address for an image at `base`.
    pub fn apply(&self, base: u64, image: &mut [u8]) -> Result<(), ObjectError> {
        let value = base.wrapping_add(self.target);
        let refused = |why: String| ObjectError::Relocation {
            section: self.section.clone(),
            offset: self.offset,
            symbol: self.symbol.clone(),
            why,
        };
        let written = match self.part {
            Part::Whole => put(image, self.at, &value.to_le_bytes()),
            Part::Low => put(image, self.at, &(value as u32).to_le_bytes()),
            Part::High => put(image, self.at, &((value >> 32) as u32).to_le_bytes()),
            Part::Narrow => match u32::try_from(value) {
                Ok(value) => put(image, self.at, &value.to_le_bytes()),
                Err(_) => {
                    return Err(refused(format!("address {value:#x} does not fit 32 bits")));
                }
            },
        };
        written.ok_or_else(|| refused("outside the image".into()))
    }
}

fn put(image: &mut [u8], at: u64, bytes: &[u8]) -> Option<()> {
    let start = usize::try_from(at).ok()?;
    let range = start..start.checked_add(bytes.len())?;
    image.get_mut(range)?.copy_from_slice(bytes);
    Some(())
}

/// Bytes that a type writes; `None` for one that is not supported.
pub(super) fn width(kind: u32) -> Option<u64> {
    Some(match kind {
        R_AMDGPU_NONE => 0,
        R_AMDGPU_REL16 => 2,
        R_AMDGPU_ABS64 | R_AMDGPU_REL64 | R_AMDGPU_RELATIVE64 => 8,
        R_AMDGPU_ABS32
        | R_AMDGPU_ABS32_LO
        | R_AMDGPU_ABS32_HI
        | R_AMDGPU_REL32
        | R_AMDGPU_REL32_LO
        | R_AMDGPU_REL32_HI
        | R_AMDGPU_GOTPCREL
        | R_AMDGPU_GOTPCREL32_LO
        | R_AMDGPU_GOTPCREL32_HI => 4,
        _ => return None,
    })
}

/// Whether a type goes through a slot of the global offset table.
pub(super) fn needs_slot(kind: u32) -> bool {
    matches!(
        kind,
        R_AMDGPU_GOTPCREL | R_AMDGPU_GOTPCREL32_LO | R_AMDGPU_GOTPCREL32_HI
    )
}

/// Writes a relocation whose bytes lie in the image, or says what stays open.
///
/// # Errors
/// What is wrong, in words.
pub(super) fn apply(
    kind: u32,
    place: Relocation,
    image: &mut [u8],
) -> Result<Option<Absolute>, String> {
    let Relocation {
        at,
        symbol,
        addend,
        slot,
    } = place;
    let addend = addend as u64;
    let target = symbol.wrapping_add(addend);
    let distance = target.wrapping_sub(at);
    let through_slot = slot.map(|slot| slot.wrapping_add(addend).wrapping_sub(at));
    let distance = if needs_slot(kind) {
        through_slot.ok_or("needs a GOT slot")?
    } else {
        distance
    };
    let narrow = |distance: u64| {
        i32::try_from(distance as i64)
            .map_err(|_| format!("distance {:#x} does not fit 32 bits", distance as i64))
    };
    let open = |part| Ok(Some(Absolute::new(at, target, part)));
    let written = match kind {
        R_AMDGPU_NONE => Some(()),
        R_AMDGPU_REL64 => put(image, at, &distance.to_le_bytes()),
        R_AMDGPU_REL32 | R_AMDGPU_GOTPCREL => put(image, at, &narrow(distance)?.to_le_bytes()),
        R_AMDGPU_REL32_LO | R_AMDGPU_GOTPCREL32_LO => {
            put(image, at, &(distance as u32).to_le_bytes())
        }
        R_AMDGPU_REL32_HI | R_AMDGPU_GOTPCREL32_HI => {
            put(image, at, &((distance >> 32) as u32).to_le_bytes())
        }
        R_AMDGPU_REL16 => {
            // From the next instruction on, in dwords.
            let dwords = (distance as i64).wrapping_sub(4) / 4;
            let dwords = i16::try_from(dwords)
                .map_err(|_| format!("{dwords} dwords exceed the branch range"))?;
            put(image, at, &dwords.to_le_bytes())
        }
        R_AMDGPU_ABS64 => return open(Part::Whole),
        // Its addend alone says what it refers to.
        R_AMDGPU_RELATIVE64 => return Ok(Some(Absolute::new(at, addend, Part::Whole))),
        R_AMDGPU_ABS32 => return open(Part::Narrow),
        R_AMDGPU_ABS32_LO => return open(Part::Low),
        R_AMDGPU_ABS32_HI => return open(Part::High),
        other => return Err(format!("type {other} is not supported")),
    };
    match written {
        Some(()) => Ok(None),
        None => Err("outside the image".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(at: u64, symbol: u64, addend: i64) -> Relocation {
        Relocation {
            at,
            symbol,
            addend,
            slot: Some(0x20),
        }
    }

    fn word(image: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(image[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn pairs_of_halves_have_their_own_addends() {
        let mut image = vec![0; 0x100];
        // s_getpc, then s_add and s_addc with 32 bits each: 4 and 12 bytes behind the program counter.
        for (kind, at, addend) in [(R_AMDGPU_REL32_LO, 8, 4), (R_AMDGPU_REL32_HI, 16, 12)] {
            assert!(
                apply(kind, place(at, 0, addend), &mut image)
                    .unwrap()
                    .is_none()
            );
        }
        assert_eq!(
            (word(&image, 8), word(&image, 16)),
            (-4i32 as u32, u32::MAX)
        );
    }

    #[test]
    fn addresses_wait_for_the_image() {
        let mut image = vec![0; 0x40];
        let parts = [
            (R_AMDGPU_ABS64, 0x00),
            (R_AMDGPU_ABS32_LO, 0x08),
            (R_AMDGPU_ABS32_HI, 0x0c),
        ];
        for (kind, at) in parts {
            let open = apply(kind, place(at, 0x30, 2), &mut image)
                .unwrap()
                .unwrap();
            open.apply(0x7e00_0000_1000, &mut image).unwrap();
        }
        let words = [0, 4, 8, 12].map(|at| word(&image, at));
        assert_eq!(words, [0x1032, 0x7e00, 0x1032, 0x7e00]);
        let narrow = apply(R_AMDGPU_ABS32, place(0, 0x30, 0), &mut image)
            .unwrap()
            .unwrap();
        let text = narrow.apply(1 << 32, &mut image).unwrap_err().to_string();
        assert!(text.contains("0x100000030 does not fit 32 bits"), "{text}");
        narrow.apply(0x1000, &mut image).unwrap();
        assert_eq!(word(&image, 0), 0x1030);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut image = vec![0; 0x40];
        let far = apply(R_AMDGPU_REL32, place(0, 1 << 40, 0), &mut image);
        assert!(far.unwrap_err().contains("does not fit 32 bits"));
        let far = apply(R_AMDGPU_REL16, place(0, 1 << 20, 0), &mut image);
        assert!(far.unwrap_err().contains("exceed the branch range"));
        assert!(apply(R_AMDGPU_REL64, place(0x3c, 0, 0), &mut image).is_err());
        assert!(apply(99, place(0, 0, 0), &mut image).is_err());
        assert_eq!(width(99), None);
    }

    #[test]
    fn the_global_offset_table_is_reached_relatively() {
        let mut image = vec![0; 0x40];
        apply(R_AMDGPU_GOTPCREL32_LO, place(8, 0x30, 4), &mut image).unwrap();
        assert_eq!(word(&image, 8), 0x20 + 4 - 8);
        let none = Relocation {
            slot: None,
            ..place(8, 0x30, 4)
        };
        assert!(apply(R_AMDGPU_GOTPCREL, none, &mut image).is_err());
    }
}
