//! [`Private`]: the private memory of kernels, for values that do not fit into registers.
//!
//! Every fiber that a shader processor can hold has its own part, so one memory serves all launches of the queue.
//!
//! Source: Mesa, src/freedreno/vulkan/tu_shader.cc and tu_pipeline.cc, `tu_setup_pvtmem`; drivers/spec/src/qcom/regs.rs
//! for the units.

use drivers_spec::qcom::chip::Chip;
use drivers_spec::qcom::regs::{
    PRIVATE_STACK_UNIT, PRIVATE_TOTAL_UNIT, PRIVATE_UNIT, sp_cs_pvt_mem_param, sp_cs_pvt_mem_size,
    sp_cs_pvt_mem_stack_offset,
};
use hcq::GpuVa;

/// The private memory of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Private {
    /// Where it is.
    pub base: GpuVa,
    /// Bytes of it, for all shader processors.
    pub bytes: u64,
    /// Bytes of a fiber.
    pub fiber_bytes: u32,
    /// Bytes of a shader processor.
    pub processor_bytes: u32,
}

impl Private {
    /// The memory for at least `fiber_bytes` of each fiber; its address is set later ([`Private::at`]). `None` if a fiber
    /// cannot have that much.
    pub fn plan(chip: &Chip, fiber_bytes: u32) -> Option<Private> {
        let fiber = fiber_bytes.checked_next_multiple_of(PRIVATE_UNIT)?;
        let processor = fiber.checked_mul(chip.fibers)?;
        let processor = processor.checked_next_multiple_of(PRIVATE_TOTAL_UNIT)?;
        let fits = |field: hcq::reg::Field<_>, value: u32| field.get(field.put(value)) == value;
        let is_possible = fits(sp_cs_pvt_mem_param::MEMSIZEPERITEM, fiber / PRIVATE_UNIT)
            && fits(
                sp_cs_pvt_mem_size::TOTALPVTMEMSIZE,
                processor / PRIVATE_TOTAL_UNIT,
            )
            && fits(
                sp_cs_pvt_mem_stack_offset::OFFSET,
                processor / PRIVATE_STACK_UNIT,
            );
        is_possible.then_some(Private {
            base: GpuVa(0),
            bytes: u64::from(processor) * u64::from(chip.cores),
            fiber_bytes: fiber,
            processor_bytes: processor,
        })
    }

    /// The same at an address, a multiple of 32.
    #[must_use]
    pub fn at(self, base: GpuVa) -> Private {
        Private { base, ..self }
    }

    /// `SP_CS_PVT_MEM_PARAM`, the halves of `SP_CS_PVT_MEM_BASE`, `SP_CS_PVT_MEM_SIZE`.
    pub fn registers(&self, per_wave: bool) -> [u32; 4] {
        [
            sp_cs_pvt_mem_param::MEMSIZEPERITEM.put(self.fiber_bytes / PRIVATE_UNIT),
            self.base.lo(),
            self.base.hi(),
            sp_cs_pvt_mem_size::TOTALPVTMEMSIZE.put(self.processor_bytes / PRIVATE_TOTAL_UNIT)
                | sp_cs_pvt_mem_size::PERWAVEMEMLAYOUT.put(per_wave.into()),
        ]
    }

    /// `SP_CS_PVT_MEM_STACK_OFFSET`: behind what fibers have.
    pub fn stack_offset(&self) -> u32 {
        sp_cs_pvt_mem_stack_offset::OFFSET.put(self.processor_bytes / PRIVATE_STACK_UNIT)
    }
}

#[cfg(test)]
mod tests {
    use drivers_spec::qcom::chip::find;

    use super::*;

    #[test]
    fn fibers_have_whole_units_and_a_limit() {
        let a630 = find(0x0603_0001).unwrap();
        let plan =
            |bytes| Private::plan(a630, bytes).map(|p| (p.fiber_bytes, p.processor_bytes, p.bytes));
        assert_eq!(plan(0), Some((0, 0, 0)));
        // 2048 fibers of each of two processors.
        assert_eq!(plan(1), Some((512, 1 << 20, 2 << 20)));
        assert_eq!(plan(513), Some((1024, 2 << 20, 4 << 20)));
        assert_eq!(plan(255 * 512).map(|p| p.0), Some(255 * 512));
        assert_eq!(plan(255 * 512 + 1), None);
        assert_eq!(plan(u32::MAX), None);
    }

    #[test]
    fn registers_have_the_units_of_the_hardware() {
        let a630 = find(0x0603_0001).unwrap();
        let private = Private::plan(a630, 1000).unwrap().at(GpuVa(0x50_06e0_0000));
        assert_eq!(
            private.registers(true),
            [2, 0x06e0_0000, 0x50, 512 | 1 << 31]
        );
        assert_eq!(
            (private.registers(false)[3], private.stack_offset()),
            (512, 1024)
        );
    }
}
