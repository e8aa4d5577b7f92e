//! Relocations: which bytes of an image depend on where it lies, and how.

use object::elf::SHT_NOBITS;
use object::read::elf::SectionHeader;
use object::{
    LittleEndian, Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget,
};

use super::{CubinError, File, Image, Result, shown};

/// Bytes of an instruction.
const INSTRUCTION: u64 = 16;

/// A value that depends on where the image lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Address {
    at: usize,
    /// From the beginning of the image.
    target: u64,
    part: Part,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Whole,
    /// The immediate of an instruction, its second dword.
    Low,
    High,
    /// What an instruction jumps to, in dwords, from bit 34 of it on.
    Jump,
    /// The same with its lowest byte at bit 16.
    SplitJump,
}

impl Part {
    /// Of a type of relocation, and how many bytes it changes.
    fn of(r_type: u32) -> Option<(Part, u64)> {
        Some(match r_type {
            // R_CUDA_64, and R_CUDA_G64, a generic address, which is the same for what is loaded.
            2 | 4 => (Part::Whole, 8),
            // R_CUDA_ABS32_LO_32, R_CUDA_ABS32_HI_32, R_CUDA_ABS47_34, R_CUDA_ABS55_16_34.
            0x38 => (Part::Low, 16),
            0x39 => (Part::High, 16),
            0x3a => (Part::Jump, 16),
            0x4b => (Part::SplitJump, 16),
            _ => return None,
        })
    }

    fn write(self, value: u64, place: &mut [u8]) {
        let put = |place: &mut [u8], bits: u128, mask: u128| {
            let Ok(old) = <[u8; 16]>::try_from(&*place) else {
                return;
            };
            let new = u128::from_le_bytes(old) & !mask | bits & mask;
            place.copy_from_slice(&new.to_le_bytes());
        };
        let (dword, high) = (
            u128::from(u32::MAX) << 32,
            u128::from((1u64 << 47) - 1) << 34,
        );
        let dwords = u128::from(value >> 2);
        match self {
            Part::Whole => place.copy_from_slice(&value.to_le_bytes()),
            Part::Low => put(place, u128::from(value) << 32, dword),
            Part::High => put(place, u128::from(value), dword),
            Part::Jump => put(place, dwords << 34, high),
            Part::SplitJump => {
                put(place, dwords << 16, 0xff << 16);
                put(place, dwords >> 8 << 34, high);
            }
        }
    }
}

impl Address {
    /// Writes it into an image that lies at `base`.
    pub(super) fn write(&self, base: u64, image: &mut [u8]) {
        let bytes = if self.part == Part::Whole { 8 } else { 16 };
        let place = &mut image[self.at..self.at + bytes];
        self.part.write(base.wrapping_add(self.target), place);
    }
}

impl Image {
    /// What has to be written where. Of what is not loaded (debug information) nothing is.
    ///
    /// # Errors
    /// [`CubinError`].
    pub(super) fn addresses(&self, file: &File<'_>) -> Result<Vec<Address>> {
        let mut out = Vec::new();
        for section in file.sections() {
            let Some(&start) = self.at.get(&section.index()) else {
                continue;
            };
            for (offset, relocation) in section.relocations() {
                let symbol = match relocation.target() {
                    RelocationTarget::Symbol(index) => Some(file.symbol_by_index(index)?),
                    _ => None,
                };
                let name = symbol.as_ref().and_then(|s| s.name().ok()).unwrap_or("");
                let wrong = |why: String| CubinError::Relocation {
                    section: shown(section.name().unwrap_or("")),
                    offset,
                    symbol: shown(name),
                    why,
                };
                let RelocationFlags::Elf { r_type } = relocation.flags() else {
                    return Err(wrong("not an ELF relocation".into()));
                };
                if r_type.0 == 0 {
                    continue;
                }
                let Some((part, bytes)) = Part::of(r_type.0) else {
                    return Err(wrong(format!(
                        "unknown type {:#x}, expected R_CUDA_64, G64, ABS32_LO_32, ABS32_HI_32, ABS47_34 or \
                         ABS55_16_34",
                        r_type.0
                    )));
                };
                let of = symbol.as_ref().and_then(|s| s.section_index());
                let place = of.and_then(|of| Some((self.at.get(&of)?, self.bytes(file, of)?)));
                let Some((target, size)) = place else {
                    return Err(wrong(
                        "undefined, or not in loaded memory: printf, assert and malloc are not available"
                            .into(),
                    ));
                };
                let at = start.saturating_add(offset);
                let end = at.saturating_add(bytes);
                if end > start + section.size() {
                    return Err(wrong("past the end of the section".into()));
                }
                if section.elf_section_header().sh_type(LittleEndian) == SHT_NOBITS {
                    return Err(wrong("the section has no bytes".into()));
                }
                if bytes == INSTRUCTION && !offset.is_multiple_of(INSTRUCTION) {
                    return Err(wrong("no instruction starts there".into()));
                }
                let value = symbol.map_or(0, |s| s.address());
                // What is added may lead out of it, and an index back.
                if value > size {
                    return Err(wrong(format!(
                        "symbol at {value:#x} of a section of {size:#x} bytes"
                    )));
                }
                let addend = match relocation.has_implicit_addend() {
                    true if bytes == 8 => {
                        let place = &self.image[at as usize..end as usize];
                        i64::from_le_bytes(place.try_into().unwrap_or_default())
                    }
                    true => 0,
                    false => relocation.addend(),
                };
                out.push(Address {
                    at: at as usize,
                    target: target.wrapping_add(value).wrapping_add_signed(addend),
                    part,
                });
            }
        }
        Ok(out)
    }
}
