//! Bindless descriptors: where they lie, and whether shader cores have forgotten what they knew of another place.
//!
//! Source: Mesa, src/freedreno/vulkan/tu_cmd_buffer.cc, `tu6_emit_descriptor_sets`; src/freedreno/registers/adreno/
//! a6xx.xml, SP_CS_BINDLESS_BASE, HLSQ_CS_BINDLESS_BASE, `a6xx_bindless_descriptor_size`.

use twin::rule::{Proof, Rule};
use twin_ir3::launch::BINDLESS_BASES;

use super::Broken;
use super::registers::Registers;

static MIRROR: Rule = Rule {
    name: "CS-BINDLESS",
    text: "a base of SP_CS_BINDLESS_BASE is that of HLSQ_CS_BINDLESS_BASE, and of descriptors of 64 bytes",
    source: "Mesa, src/freedreno/vulkan/tu_cmd_buffer.cc, tu6_emit_descriptor_sets: both, with \
             BINDLESS_DESCRIPTOR_64B",
    proof: Proof::Sourced,
};

static CHANGED: Rule = Rule {
    name: "CS-BINDLESS-INVALIDATE",
    text: "SP_UPDATE_CNTL with CS_BINDLESS of a base stands between a write of the base and a dispatch",
    source: "Mesa, src/freedreno/vulkan/tu_cmd_buffer.cc, tu6_emit_descriptor_sets: HLSQ_INVALIDATE_CMD behind them",
    proof: Proof::Sourced,
};

/// SP_CS_BINDLESS_BASE, and HLSQ_CS_BINDLESS_BASE: two registers for each base.
const FIRST: u32 = 0xa9e8;
const MIRRORS: u32 = 0xb9c0;
/// DESC_SIZE, and BINDLESS_DESCRIPTOR_64B of it.
const SIZE: u64 = 3;
const SIZE_64: u64 = 3;

/// Bases that have changed since shader cores forgot them, a bit each.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Changed(u32);

impl Changed {
    /// A register is written.
    pub fn written(&mut self, register: u32) {
        for first in [FIRST, MIRRORS] {
            if let Some(inside) = register.checked_sub(first)
                && inside < 2 * BINDLESS_BASES as u32
            {
                self.0 |= 1 << (inside / 2);
            }
        }
    }

    /// Shader cores forget bases, a bit each.
    pub fn forgotten(&mut self, bases: u32) {
        self.0 &= !bases;
    }
}

/// The bases of a dispatch.
///
/// # Errors
/// The rule that one breaks.
pub fn bases(
    registers: &Registers,
    changed: Changed,
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
        if changed.0 >> number & 1 == 1 {
            let what = format!("base {number} is {word:#x} since then");
            return Err(Broken::new(&CHANGED, what));
        }
        *base = Some(word & !SIZE);
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
        let (mut registers, mut changed) = (Registers::default(), Changed::default());
        let mut write = |register: u32, value: u32, changed: &mut Changed| {
            changed.written(register);
            assert!(registers.write(Gen::Gen1, register, value).is_ok());
            registers.clone()
        };
        let rule = |registers: &Registers, changed| {
            let names = bases(registers, changed)
                .err()
                .map(|broken| broken.rule.name);
            names.into_iter().collect::<Vec<_>>()
        };
        write(FIRST + 2, 0x1003, &mut changed);
        let now = write(FIRST + 3, 1, &mut changed);
        fires("CS-BINDLESS").only(&rule(&now, changed));
        write(MIRRORS + 2, 0x1003, &mut changed);
        let now = write(MIRRORS + 3, 1, &mut changed);
        fires("CS-BINDLESS-INVALIDATE").only(&rule(&now, changed));
        changed.forgotten(1);
        fires("CS-BINDLESS-INVALIDATE").only(&rule(&now, changed));
        changed.forgotten(2);
        let found = bases(&now, changed).map_err(|broken| broken.what);
        assert_eq!(found, Ok([None, Some(0x1_0000_1000), None, None, None]));
    }
}
