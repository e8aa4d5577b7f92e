//! Bindless descriptors: where they lie, and whether shader cores have forgotten what they knew of another place.
//!
//! Source: Mesa, src/freedreno/vulkan/tu_cmd_buffer.cc, `tu6_emit_descriptor_sets`; src/freedreno/registers/adreno/
//! a6xx.xml, SP_CS_BINDLESS_BASE, HLSQ_CS_BINDLESS_BASE, `a6xx_bindless_descriptor_size`.

use twin::rule::{Proof, Rule};
use twin_ir3::launch::BINDLESS_BASES;

use crate::memory::descriptors::CHANGED;

use super::Broken;
use super::registers::Registers;

static MIRROR: Rule = Rule {
    name: "CS-BINDLESS",
    text: "a base of SP_CS_BINDLESS_BASE is that of HLSQ_CS_BINDLESS_BASE, and of descriptors of 64 bytes",
    source: "Mesa, src/freedreno/vulkan/tu_cmd_buffer.cc, tu6_emit_descriptor_sets: both, with \
             BINDLESS_DESCRIPTOR_64B",
    proof: Proof::Sourced,
};

/// SP_CS_BINDLESS_BASE, and HLSQ_CS_BINDLESS_BASE: two registers for each base.
const FIRST: u32 = 0xa9e8;
const MIRRORS: u32 = 0xb9c0;
/// DESC_SIZE, and BINDLESS_DESCRIPTOR_64B of it.
const SIZE: u64 = 3;
const SIZE_64: u64 = 3;

/// What each base was where shader cores may still have descriptors of it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Cached([Option<u64>; BINDLESS_BASES]);

impl Cached {
    /// Descriptors of bases are used.
    pub fn used(&mut self, bases: &[Option<u64>; BINDLESS_BASES]) {
        for (cached, base) in self.0.iter_mut().zip(bases) {
            *cached = base.or(*cached);
        }
    }

    /// Shader cores forget bases, a bit each.
    pub fn forgotten(&mut self, bases: u32) {
        for (number, cached) in self.0.iter_mut().enumerate() {
            if bases >> number & 1 == 1 {
                *cached = None;
            }
        }
    }
}

/// The bases of a dispatch.
///
/// # Errors
/// The rule that one breaks.
pub fn bases(
    registers: &Registers,
    cached: Cached,
) -> Result<[Option<u64>; BINDLESS_BASES], Broken> {
    let mut bases = [None; BINDLESS_BASES];
    for (number, base) in bases.iter_mut().enumerate() {
        let at = 2 * number as u32;
        let (word, mirror) = (registers.pair(FIRST + at), registers.pair(MIRRORS + at));
        let Some(word) = word.filter(|word| *word != 0) else {
            continue;
        };
        if mirror != Some(word) || word & SIZE != SIZE_64 {
            let what = format!("base {number} is {word:#x}, its mirror {mirror:x?}");
            return Err(Broken::new(&MIRROR, what));
        }
        let address = word & !SIZE;
        if let Some(before) = cached.0[number].filter(|before| *before != address) {
            let what = format!("base {number} is {address:#x}, and was {before:#x}");
            return Err(Broken::new(&CHANGED, what));
        }
        *base = Some(address);
    }
    Ok(bases)
}

#[cfg(test)]
mod tests {
    use drivers_spec::qcom::chip::Gen;
    use twin::fires::fires;

    use super::*;

    #[test]
    fn bases_are_told_twice_and_forgotten() {
        let (mut registers, mut cached) = (Registers::default(), Cached::default());
        let mut write = |register: u32, value: u32| {
            assert!(registers.write(Gen::Gen1, register, value).is_ok());
            registers.clone()
        };
        let rule = |registers: &Registers, cached| {
            let names = bases(registers, cached)
                .err()
                .map(|broken| broken.rule.name);
            names.into_iter().collect::<Vec<_>>()
        };
        write(FIRST + 2, 0x1003);
        let now = write(FIRST + 3, 1);
        fires("CS-BINDLESS").only(&rule(&now, cached));
        write(MIRRORS + 2, 0x1003);
        let now = write(MIRRORS + 3, 1);
        let found = bases(&now, cached).map_err(|broken| broken.what);
        let expected = [None, Some(0x1_0000_1000), None, None, None];
        assert_eq!(found, Ok(expected));
        cached.used(&expected);
        write(FIRST + 2, 0x2003);
        let now = write(MIRRORS + 2, 0x2003);
        fires("CS-BINDLESS-INVALIDATE").only(&rule(&now, cached));
        cached.forgotten(1);
        fires("CS-BINDLESS-INVALIDATE").only(&rule(&now, cached));
        cached.forgotten(2);
        assert_eq!(rule(&now, cached), [""; 0]);
    }
}
