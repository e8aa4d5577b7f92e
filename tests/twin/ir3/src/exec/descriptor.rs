//! How instructions find descriptors.

use drivers_spec::qcom::descriptor::{
    SAMPLER_DWORDS, Sampler, TEXTURE_DWORDS, UBO_DWORDS, Ubo, sampler_2,
};

use crate::fault::{Result, broken};
use crate::hazard::Late;
use crate::inst::{Inst, Mode, Operand, Value};
use crate::memory::Path;
use crate::regs::{LANES, Lanes, Mask};
use crate::rules;
use crate::surface::Surface;
use crate::wave::{Core, Wave};

/// Bytes from a bindless descriptor to the next: Mesa src/freedreno/fdl/fd6_format_table.h, `A6XX_TEX_CONST_DWORDS`.
const BINDLESS_STRIDE: u64 = 64;

impl Core<'_> {
    /// The dwords of a descriptor: of a slot, or of a bindless base.
    fn dwords<const N: usize>(
        &mut self,
        what: &str,
        index: u32,
        base: Option<u8>,
        slots: impl Fn(&Self) -> Option<[u32; N]>,
    ) -> Result<[u32; N]> {
        let Some(base) = base else {
            return match slots(self) {
                Some(words) => Ok(words),
                None => broken(&rules::DESCRIPTOR, format!("{what} {index} was not loaded")),
            };
        };
        let bases = &self.launch.descriptors.bindless;
        let Some(Some(at)) = bases.get(usize::from(base)).copied() else {
            return broken(
                &rules::DESCRIPTOR,
                format!("bindless base {base} is not set"),
            );
        };
        let at = at + u64::from(index) * BINDLESS_STRIDE;
        let mut words = [0; N];
        for (n, word) in words.iter_mut().enumerate() {
            let mut bytes = [0; 4];
            self.read(Path::Descriptor(base), at + 4 * n as u64, &mut bytes)?;
            *word = u32::from_le_bytes(bytes);
        }
        Ok(words)
    }

    fn decoded(&self, what: &str, index: u32, words: [u32; TEXTURE_DWORDS]) -> Result<Surface> {
        let tiling = self.launch.descriptors.tiling;
        Surface::decode(&words, tiling).map_err(|stop| stop.about(&format!("{what} {index}")))
    }

    /// A texture.
    pub fn texture(&mut self, index: u32, base: Option<u8>) -> Result<Surface> {
        let words = self.dwords("texture", index, base, |core| {
            core.launch
                .descriptors
                .textures
                .get(index as usize)
                .copied()
                .flatten()
        })?;
        self.decoded("texture", index, words)
    }

    /// An image that may be written.
    pub fn image(&mut self, index: u32, base: Option<u8>) -> Result<Surface> {
        let words = self.dwords("image", index, base, |core| {
            core.launch
                .descriptors
                .images
                .get(index as usize)
                .copied()
                .flatten()
        })?;
        self.decoded("image", index, words)
    }

    /// A sampler, and the number of its border colour where that is none of memory.
    pub fn sampler(&mut self, index: u32, base: Option<u8>) -> Result<(Sampler, Option<u32>)> {
        let mut words: [u32; SAMPLER_DWORDS] = self.dwords("sampler", index, base, |core| {
            core.launch
                .descriptors
                .samplers
                .get(index as usize)
                .copied()
                .flatten()
        })?;
        let fast = sampler_2::FASTBORDERCOLOREN.get(words[2]) != 0;
        let fast = fast.then_some(sampler_2::FASTBORDERCOLOR.get(words[2]));
        // CHROMA_LINEAR is of planes, which no image here has.
        words[2] &= sampler_2::BCOLOR.mask() | sampler_2::REDUCTION_MODE.mask();
        match Sampler::decode(&words) {
            Ok(sampler) => Ok((sampler, fast)),
            Err(error) => broken(&rules::DESCRIPTOR, format!("sampler {index}: {error}")),
        }
    }

    /// A buffer of constants.
    pub fn ubo(&mut self, index: u32, base: Option<u8>) -> Result<Ubo> {
        let words: [u32; UBO_DWORDS] = self.dwords("buffer of constants", index, base, |core| {
            core.launch
                .descriptors
                .ubos
                .get(index as usize)
                .copied()
                .flatten()
        })?;
        Ok(Ubo::decode(&words))
    }
}

impl Wave {
    /// The descriptor index of category 6 for each fiber.
    pub(super) fn indices(
        &mut self,
        inst: &Inst,
        operand: Option<&Operand>,
        mask: Mask,
        late: Late,
    ) -> Result<Lanes> {
        match (inst.mods.mode, operand.map(|o| o.value)) {
            (Some(Mode::Imm) | None, Some(Value::Imm(index))) => Ok([index; LANES]),
            (Some(Mode::Uniform), _) => {
                let index = self.agreed(operand, late, "a descriptor's index")?;
                Ok([index; LANES])
            }
            _ => self.read_late(Self::register(operand)?, mask, late),
        }
    }
}
