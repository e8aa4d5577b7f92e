//! A dispatch, as the command processor hands it to the shader cores: registers and state at the time of EXEC_CS or
//! RUN_OPENCL.
//!
//! Source: Mesa src/freedreno/registers/adreno/a6xx.xml (the registers named here, in `drivers_spec::qcom::regs`) and
//! src/freedreno/vulkan/tu_shader.cc, `tu6_emit_cs_config` and `tu6_emit_xs`.

use drivers_spec::qcom::chip::Chip;
use drivers_spec::qcom::descriptor::{SAMPLER_DWORDS, TEXTURE_DWORDS, UBO_DWORDS};

use crate::surface::Tiling;

/// Bindless bases of compute: SP_CS_BINDLESS_BASE has five on Adreno 6xx (Mesa tu_common.h, `MAX_SETS`).
pub const BINDLESS_BASES: usize = 5;

/// Dwords of shared constants, and the number of the first: c504.x. Mesa src/freedreno/registers/adreno/a6xx.xml,
/// HLSQ_SHARED_CONSTS.
pub const SHARED_CONSTANTS: usize = 32;
/// See [`SHARED_CONSTANTS`].
pub const FIRST_SHARED_CONSTANT: u32 = 504 * 4;

/// Fibers of a wave: THREADSIZE of SP_CS_CNTL_0 and SP_CS_WGE_CNTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadSize {
    /// One wave of the chip's size, 64 fibers on most chips.
    Thread64,
    /// Twice as many.
    Thread128,
}

/// Registers that hold system values at the start; ids are `4 * n + component`. None is 0xfc in the register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SystemRegisters {
    /// WGIDCONSTID of SP_CS_CONST_CONFIG_0: x, y and z of the workgroup, in shared registers.
    pub group_id: Option<u8>,
    /// WGSIZECONSTID: the local size, in shared registers.
    pub group_size: Option<u8>,
    /// WGOFFSETCONSTID: workgroup times local size, in shared registers.
    pub group_offset: Option<u8>,
    /// LOCALIDREGID: x, y and z of the fiber in its workgroup, in full registers.
    pub local_id: Option<u8>,
    /// LINEARLOCALIDREGID of SP_CS_WGE_CNTL: the fiber's number in its workgroup.
    pub linear_local_id: Option<u8>,
}

/// Private memory: SP_CS_PVT_MEM_*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Private {
    /// SP_CS_PVT_MEM_BASE.
    pub base: u64,
    /// MEMSIZEPERITEM in bytes, a multiple of 512; 0 is none.
    pub per_fiber: u32,
    /// TOTAL of SP_CS_PVT_MEM_SIZE in bytes: of one shader processor.
    pub total: u32,
    /// PERWAVEMEMLAYOUT: dwords of the fibers of a wave lie side by side.
    pub per_wave_layout: bool,
    /// HWSTACKSIZEPERTHREAD: return addresses that `call` may have pending. 0 allows none.
    pub stack: u32,
}

/// Descriptors that CP_LOAD_STATE6 has loaded. None is a slot that was not loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Descriptors {
    /// Textures, by the number in `t#`.
    pub textures: Vec<Option<[u32; TEXTURE_DWORDS]>>,
    /// Samplers, by the number in `s#`.
    pub samplers: Vec<Option<[u32; SAMPLER_DWORDS]>>,
    /// Images that are written (UAV, formerly IBO).
    pub images: Vec<Option<[u32; TEXTURE_DWORDS]>>,
    /// Buffers of constants.
    pub ubos: Vec<Option<[u32; UBO_DWORDS]>>,
    /// Bindless bases: addresses of arrays of descriptors of 64 bytes each.
    pub bindless: [Option<u64>; BINDLESS_BASES],
    /// TPL1_CS_BORDER_COLOR_BASE: the border colours, 128 bytes each.
    pub border_colors: Option<u64>,
    /// How tiled images are tiled.
    pub tiling: Tiling,
    /// Shared constants by dwords, from c504.x on; none where SHARED_CONSTS_ENABLE of SP_MODE_CNTL is not set.
    pub shared_constants: Option<[Option<u32>; SHARED_CONSTANTS]>,
}

/// What nobody has documented of arithmetic: a program must not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arithmetic {
    /// Units in the last place by which results of category 4 are off at most, of halves one. Which way and how far each is
    /// off follows from the operation and its source. 0: results are rounded to the nearest.
    pub ulp: u32,
    /// Whether `mad.f16` and `mad.f32` round once. Else they round the product, too.
    pub fused: bool,
}

/// A dispatch.
///
/// The command processor checks its own registers (alignments, footprints that both registers have, order of packets).
/// [`crate::Grid::new`] checks what the shader cores take.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The chip.
    pub chip: &'static Chip,
    /// SP_CS_BASE: address of the code.
    pub program: u64,
    /// SP_CS_PROGRAM_COUNTER_OFFSET in bytes: the first instruction behind `program`.
    pub first: u32,
    /// SP_CS_INSTR_SIZE in bytes, a multiple of 128.
    pub code_bytes: u32,
    /// Fibers of a wave.
    pub thread_size: ThreadSize,
    /// FULLREGFOOTPRINT: vectors of four full registers.
    pub full_footprint: u32,
    /// HALFREGFOOTPRINT: vectors of four half registers.
    pub half_footprint: u32,
    /// MERGEDREGS: half registers are halves of full ones.
    pub merged_registers: bool,
    /// BRANCHSTACK of SP_CS_CNTL_0, as the field has it: two pending points each.
    pub branch_stack: u32,
    /// SP_CS_BOOLEAN_CF_MASK: what `brac` reads.
    pub booleans: u32,
    /// The constant file by dwords, from c0.x on. None is a constant that nothing has loaded.
    pub constants: Vec<Option<u32>>,
    /// CONSTLEN in dwords: constants that the shader may read.
    pub const_dwords: u32,
    /// CONSTANT_DEMOTION of SP_MODE_CNTL: a half constant is a 32-bit one, converted.
    pub constant_demotion: bool,
    /// Fibers of a workgroup in x, y, z: SP_CS_NDRANGE_0.
    pub local_size: [u32; 3],
    /// Fibers of the grid in x, y, z: SP_CS_NDRANGE_1, 3 and 5. Those beyond are left out of the last workgroups.
    pub global_size: [u32; 3],
    /// SP_CS_NDRANGE_2, 4 and 6: the offset of the grid, which nothing but the driver reads.
    pub global_offset: [u32; 3],
    /// Workgroups in x, y, z: of EXEC_CS, or SP_CS_KERNEL_GROUP_*.
    pub groups: [u32; 3],
    /// System values.
    pub system: SystemRegisters,
    /// Private memory.
    pub private: Private,
    /// Local memory of a workgroup in bytes: SHARED_SIZE of SP_CS_CNTL_1, decoded.
    pub local_bytes: u32,
    /// Descriptors.
    pub descriptors: Descriptors,
    /// What is not documented of arithmetic.
    pub arithmetic: Arithmetic,
    /// Seeds the order of workgroups and waves.
    pub seed: u64,
    /// Instructions that a wave may issue before the launch is taken to hang.
    pub limit: u64,
}

impl Launch {
    /// Fibers of a wave.
    pub fn wave_size(&self) -> u32 {
        match self.thread_size {
            ThreadSize::Thread64 => self.chip.wave,
            ThreadSize::Thread128 => self.chip.wave * 2,
        }
    }

    /// Fibers of a workgroup.
    pub fn group_fibers(&self) -> u64 {
        self.local_size.iter().map(|n| u64::from(*n)).product()
    }

    /// Waves of a workgroup.
    pub fn waves_per_group(&self) -> u64 {
        let size = u64::from(self.wave_size().max(1));
        self.group_fibers().div_ceil(size)
    }

    /// Workgroups.
    pub fn group_count(&self) -> u64 {
        self.groups.iter().map(|n| u64::from(*n)).product()
    }

    /// Vectors of registers that a fiber takes: a half vector is half of one where the files are apart.
    pub fn register_vectors(&self) -> u32 {
        match self.merged_registers {
            true => self.full_footprint.max(self.half_footprint.div_ceil(2)),
            false => self.full_footprint + self.half_footprint.div_ceil(2),
        }
    }

    /// Waves of a shader processor at a time, by registers alone: those of the chip are for waves of its size, waves
    /// start in its granularity, and there are at most 16.
    ///
    /// Source: Mesa src/freedreno/ir3/ir3.c, `ir3_get_reg_dependent_max_waves`.
    pub fn occupancy(&self) -> u32 {
        let double = match self.thread_size {
            ThreadSize::Thread64 => 1,
            ThreadSize::Thread128 => 2,
        };
        let vectors = self.register_vectors().max(1) * double;
        let waves = self.chip.facts().registers / vectors * self.chip.wave_granularity;
        waves.min(Chip::MAX_WAVES)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A launch of one wave on an A630, without code.
    pub(crate) fn launch() -> Launch {
        let chips = drivers_spec::qcom::chip::CHIPS;
        Launch {
            chip: chips.iter().find(|chip| chip.name == "A630").unwrap(),
            program: 0x1000,
            first: 0,
            code_bytes: 128,
            thread_size: ThreadSize::Thread64,
            full_footprint: 4,
            half_footprint: 4,
            merged_registers: false,
            branch_stack: 0,
            booleans: 0,
            constants: Vec::new(),
            const_dwords: 0,
            constant_demotion: true,
            local_size: [64, 1, 1],
            global_size: [64, 1, 1],
            global_offset: [0; 3],
            groups: [1; 3],
            system: SystemRegisters::default(),
            private: Private::default(),
            local_bytes: 0,
            descriptors: Descriptors::default(),
            arithmetic: Arithmetic::default(),
            seed: 1,
            limit: 1 << 20,
        }
    }

    #[test]
    fn registers_limit_the_waves() {
        let mut all = launch();
        (all.full_footprint, all.half_footprint) = (24, 0);
        assert_eq!(all.occupancy(), 8);
        all.thread_size = ThreadSize::Thread128;
        assert_eq!((all.occupancy(), all.wave_size()), (4, 128));
        (all.full_footprint, all.half_footprint) = (6, 4);
        assert_eq!((all.register_vectors(), all.occupancy()), (8, 12));
        all.merged_registers = true;
        assert_eq!((all.register_vectors(), all.occupancy()), (6, 16));
    }

    #[test]
    fn waves_of_a_group() {
        let mut all = launch();
        all.local_size = [10, 10, 1];
        assert_eq!((all.group_fibers(), all.waves_per_group()), (100, 2));
        all.thread_size = ThreadSize::Thread128;
        assert_eq!(all.waves_per_group(), 1);
    }
}
