//! A dispatch: registers and loaded state become a [`Launch`], if they fit together.
//!
//! Source: Mesa, src/freedreno/vulkan/tu_shader.cc, `tu6_emit_cs_config`, `tu6_emit_xs`; tu_cmd_buffer.cc,
//! `tu_dispatch`; src/freedreno/computerator/a6xx.cc.

use drivers_spec::qcom::chip::Chip;
use drivers_spec::qcom::packet::{exec_cs_indirect_3, set_marker_0};
use drivers_spec::qcom::regs::{
    self, CONSTLEN_UNIT, INSTRUCTION_UNIT, MAX_CONSTANTS, MIRRORS, NO_REGISTER, PRIVATE_TOTAL_UNIT,
    PRIVATE_UNIT, Reg, SHARED_REGISTERS, sp_cs_cntl_0 as cntl0, sp_cs_cntl_1 as cntl1,
    sp_cs_config, sp_cs_const_config, sp_cs_const_config_0 as ids, sp_cs_instr_size,
    sp_cs_ndrange_0 as ndrange, sp_cs_pvt_mem_param, sp_cs_pvt_mem_size, sp_cs_tsize, sp_cs_usize,
    sp_cs_wge_cntl as wge, sp_mode_cntl,
};
use twin::rule::{Proof, Rule};
use twin_ir3::launch::{
    Arithmetic, Launch, Private, SHARED_CONSTANTS, SystemRegisters, ThreadSize,
};
use twin_ir3::surface::Tiling;

use super::Broken;
use super::bindless::{self, Cached};
use super::registers::Registers;
use super::state::State;

static MARKER: Rule = Rule {
    name: "CS-MARKER",
    text: "CP_SET_MARKER with RM6_COMPUTE comes before a dispatch",
    source: "Mesa, src/freedreno/vulkan/tu_cmd_buffer.cc, tu_dispatch: tu_cs_emit_pkt7(CP_SET_MARKER), RM6_COMPUTE",
    proof: Proof::Sourced,
};

static SHARED: Rule = Rule {
    name: "CS-SHARED-CONSTANTS",
    text: "SHARED_CONSTS_ENABLE of SP_MODE_CNTL and HLSQ_SHARED_CONSTS are the same",
    source: "Mesa, src/freedreno/vulkan/tu_shader.cc, tu6_emit_shared_consts_enable: both",
    proof: Proof::Sourced,
};

static MISSING: Rule = Rule {
    name: "CS-REGISTER-MISSING",
    text: "registers of a dispatch are written by its context before",
    source: "Mesa, src/freedreno/vulkan/tu_shader.cc, tu6_emit_cs_config, tu6_emit_xs; tu_cmd_buffer.cc, tu_dispatch",
    proof: Proof::Sourced,
};

static MIRROR: Rule = Rule {
    name: "CS-MIRROR",
    text: "where there is LPAC, SP_CS_WIE_CNTL_0, SP_CS_WIE_CNTL_1 and HLSQ_CS_CTRL_REG1 have the values of the \
           registers that they mirror",
    source: "Mesa, src/freedreno/vulkan/tu_shader.cc, tu6_emit_cs_config: has_lpac",
    proof: Proof::Sourced,
};

static THREADSIZE: Rule = Rule {
    name: "CS-THREADSIZE",
    text: "SP_CS_CNTL_0 and SP_CS_WGE_CNTL have the same THREADSIZE, and 128 fibers only where the chip has such waves",
    source: "Mesa, src/freedreno/vulkan/tu_shader.cc, tu6_emit_cs_config: thrsz; freedreno_devices.py, \
             supports_double_threadsize",
    proof: Proof::Sourced,
};

static GROUP: Rule = Rule {
    name: "CS-GROUP-SIZE",
    text: "a group has no more waves than a shader processor holds, 16, nor than registers are for: at most 1024 fibers, or \
           2048 in waves of 128",
    source: "Mesa, src/freedreno/ir3/ir3.c, ir3_get_reg_dependent_max_waves; freedreno_devices.py, reg_size_vec4; \
             ir3_compiler.c, max_workgroup_invocations; src/freedreno/vulkan/tu_device.cc, \
             maxComputeWorkGroupInvocations: 2048 with supports_double_threadsize",
    proof: Proof::Sourced,
};

static GRID: Rule = Rule {
    name: "CS-GRID",
    text: "a dispatch has groups, fibers along each dimension up to the last group, and no fewer than the last group \
           begins with; CP_EXEC_CS has whole groups",
    source: "Mesa, src/freedreno/vulkan/tu_cmd_buffer.cc, tu_dispatch: NDRANGE is local size times groups",
    proof: Proof::Sourced,
};

static IDS: Rule = Rule {
    name: "CS-SYSTEM-REGISTERS",
    text: "WGIDCONSTID, WGSIZECONSTID and WGOFFSETCONSTID are shared registers (r48 to r55) or none, LOCALIDREGID and \
           LINEARLOCALIDREGID lie within the footprint or are none",
    source: "Mesa, src/freedreno/ir3/ir3_compiler_nir.c, emit_intrinsic: work_group_id is a shared register on a6xx; \
             ir3_shader.h, regid(63, 0)",
    proof: Proof::Sourced,
};

static CODE: Rule = Rule {
    name: "CS-CODE",
    text: "SP_CS_INSTR_SIZE counts at least one unit of code, which CP_LOAD_STATE6 has loaded from SP_CS_BASE since the \
           last SP_UPDATE_CNTL, and the first instruction lies within it",
    source: "Mesa, src/freedreno/vulkan/tu_shader.cc, tu6_emit_xs: INSTRLEN, OBJ_START, CP_LOAD_STATE6 of ST6_SHADER",
    proof: Proof::Sourced,
};

static CONSTANTS: Rule = Rule {
    name: "CS-CONSTANTS",
    text: "CONSTLEN is at most 256 vectors, and CONSTANTRAMMODE has room for them",
    source: "Mesa, src/freedreno/registers/adreno/a6xx.xml, a6xx_const_ram_mode; tu_shader.cc, tu6_emit_cs_config",
    proof: Proof::Sourced,
};

static ENABLED: Rule = Rule {
    name: "CS-ENABLED",
    text: "SP_CS_CONFIG and SP_CS_CONST_CONFIG have ENABLED",
    source: "Mesa, src/freedreno/vulkan/tu_shader.cc, tu6_emit_xs_config: enabled = true",
    proof: Proof::Sourced,
};

static COUNTS: Rule = Rule {
    name: "CS-COUNTS",
    text: "textures, samplers and images of SP_CS_CONFIG are loaded or bindless, and SP_CS_TSIZE and SP_CS_USIZE count no fewer",
    source: "Mesa, src/freedreno/registers/adreno/a6xx.xml, SP_CS_CONFIG; tu_shader.cc, tu6_emit_xs_config",
    proof: Proof::Sourced,
};

static PRIVATE: Rule = Rule {
    name: "CS-PRIVATE",
    text: "private memory of all fibers of a shader processor is MEMSIZEPERITEM times their number",
    source: "Mesa, src/freedreno/vulkan/tu_shader.cc, tu6_emit_xs, and tu_pipeline.cc, tu_setup_pvtmem: \
             fibers_per_sp * per_fiber_size",
    proof: Proof::Sourced,
};

/// By a6xx.xml.
const HLSQ_SHARED_CONSTS: u32 = 0xbb11;

/// Groups of a dispatch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grid {
    /// CP_EXEC_CS: so many.
    Groups([u32; 3]),
    /// CP_EXEC_CS_INDIRECT: so many, of that many fibers less 1 each.
    Indirect([u32; 3], u32),
    /// CP_RUN_OPENCL: as SP_CS_KERNEL_GROUP_X and so on say. Fibers beyond the grid do not run.
    Registers,
}

/// Registers that each dispatch needs.
const NEEDED: &[Reg] = &[
    regs::SP_CS_CNTL_0,
    regs::SP_CS_CNTL_1,
    regs::SP_CS_BASE,
    regs::SP_CS_BASE_HI,
    regs::SP_CS_PROGRAM_COUNTER_OFFSET,
    regs::SP_CS_CONFIG,
    regs::SP_CS_INSTR_SIZE,
    regs::SP_CS_CONST_CONFIG,
    regs::SP_CS_NDRANGE_0,
    regs::SP_CS_NDRANGE_1,
    regs::SP_CS_NDRANGE_2,
    regs::SP_CS_NDRANGE_3,
    regs::SP_CS_NDRANGE_4,
    regs::SP_CS_NDRANGE_5,
    regs::SP_CS_NDRANGE_6,
    regs::SP_CS_CONST_CONFIG_0,
    regs::SP_CS_WGE_CNTL,
    regs::SP_MODE_CNTL,
    regs::TPL1_MODE_CNTL,
];

/// What a dispatch is made of.
pub struct Parts<'a> {
    /// The chip.
    pub chip: &'static Chip,
    /// Registers.
    pub registers: &'a Registers,
    /// What was loaded.
    pub state: &'a State,
    /// Bases whose descriptors shader cores may have.
    pub cached: Cached,
    /// How images are tiled.
    pub tiling: Tiling,
    /// CP_SET_MARKER.
    pub marker: Option<u32>,
    /// Groups.
    pub grid: Grid,
    /// Random choices.
    pub seed: u64,
    /// Instructions of a wave.
    pub limit: u64,
    /// What is not documented of arithmetic.
    pub arithmetic: Arithmetic,
}

/// A register's value; `needed` has been looked at before.
fn value(registers: &Registers, reg: &Reg) -> u32 {
    registers.get(reg).unwrap_or(0)
}

fn broken<T>(rule: &'static Rule, what: String) -> Result<T, Broken> {
    Err(Broken::new(rule, what))
}

impl Parts<'_> {
    fn get(&self, reg: &Reg) -> u32 {
        value(self.registers, reg)
    }

    /// The dispatch.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn launch(&self) -> Result<Launch, Broken> {
        if self.marker.map(|word| set_marker_0::MODE.get(word)) != Some(set_marker_0::RM6_COMPUTE) {
            return broken(&MARKER, format!("the marker is {:x?}", self.marker));
        }
        self.needed()?;
        let c0 = self.get(&regs::SP_CS_CNTL_0);
        let thread_size = self.thread_size(c0)?;
        let local_size = self.local_size();
        let (groups, global_size) = self.grid(local_size)?;
        let (full, half) = (
            cntl0::FULLREGFOOTPRINT.get(c0),
            cntl0::HALFREGFOOTPRINT.get(c0),
        );
        let (program, first, code_bytes) = self.code()?;
        let constants = self.constants()?;
        self.counts()?;
        let c1 = self.get(&regs::SP_CS_CNTL_1);
        let shared = match cntl1::SHARED_SIZE.get(c1) {
            0 => self.chip.shared,
            kib => (kib + 1) << 10,
        };
        let mut descriptors = self.state.descriptors.clone();
        descriptors.bindless = bindless::bases(self.registers, self.cached)?;
        descriptors.tiling = self.tiling;
        descriptors.shared_constants = self.shared_constants()?;
        descriptors.border_colors = self.registers.address(&regs::TPL1_CS_BORDER_COLOR_BASE);
        let mode = self.get(&regs::SP_MODE_CNTL);
        let launch = Launch {
            chip: self.chip,
            program,
            first,
            code_bytes,
            thread_size,
            full_footprint: full,
            half_footprint: half,
            merged_registers: cntl0::MERGEDREGS.get(c0) != 0,
            branch_stack: cntl0::BRANCHSTACK.get(c0),
            booleans: self.get(&regs::SP_CS_BOOLEAN_CF_MASK),
            constants: self.state.constants.clone(),
            const_dwords: constants,
            constant_demotion: sp_mode_cntl::CONSTANT_DEMOTION_ENABLE.get(mode) != 0,
            local_size,
            global_size,
            global_offset: [
                self.get(&regs::SP_CS_NDRANGE_2),
                self.get(&regs::SP_CS_NDRANGE_4),
                self.get(&regs::SP_CS_NDRANGE_6),
            ],
            groups,
            system: self.system(full)?,
            private: self.private()?,
            local_bytes: shared.min(self.chip.shared),
            descriptors,
            arithmetic: self.arithmetic,
            seed: self.seed,
            limit: self.limit,
        };
        self.fits(&launch)?;
        Ok(launch)
    }

    fn needed(&self) -> Result<(), Broken> {
        for reg in NEEDED {
            if self.registers.get(reg).is_none() {
                return broken(&MISSING, format!("{} was not written", reg.word.name));
            }
        }
        if !self.chip.facts().lpac {
            return Ok(());
        }
        for (mirror, of) in MIRRORS {
            let (has, wants) = (
                self.registers.get(mirror),
                self.get(of) & mirror.word.mask(self.chip.generation),
            );
            if has != Some(wants) {
                let what = format!(
                    "{} is {has:x?}, {} {wants:#x}",
                    mirror.word.name, of.word.name
                );
                return broken(&MIRROR, what);
            }
        }
        Ok(())
    }

    fn thread_size(&self, c0: u32) -> Result<ThreadSize, Broken> {
        let other = wge::THREADSIZE.get(self.get(&regs::SP_CS_WGE_CNTL));
        let size = cntl0::THREADSIZE.get(c0);
        if size != other {
            let what = format!("SP_CS_CNTL_0 has {size}, SP_CS_WGE_CNTL {other}");
            return broken(&THREADSIZE, what);
        }
        match size {
            cntl0::THREAD64 => Ok(ThreadSize::Thread64),
            _ if self.chip.double_threadsize => Ok(ThreadSize::Thread128),
            _ => broken(
                &THREADSIZE,
                format!("{} has no waves of 128", self.chip.name),
            ),
        }
    }

    fn local_size(&self) -> [u32; 3] {
        let word = self.get(&regs::SP_CS_NDRANGE_0);
        let sides = [
            ndrange::LOCALSIZEX,
            ndrange::LOCALSIZEY,
            ndrange::LOCALSIZEZ,
        ];
        sides.map(|side| side.get(word) + 1)
    }

    /// Groups, and fibers along each dimension.
    fn grid(&self, local: [u32; 3]) -> Result<([u32; 3], [u32; 3]), Broken> {
        let global = [
            self.get(&regs::SP_CS_NDRANGE_1),
            self.get(&regs::SP_CS_NDRANGE_3),
            self.get(&regs::SP_CS_NDRANGE_5),
        ];
        let (groups, exact) = match self.grid {
            Grid::Groups(groups) => (groups, true),
            Grid::Indirect(groups, word) => {
                let sides = [
                    exec_cs_indirect_3::LOCALSIZEX,
                    exec_cs_indirect_3::LOCALSIZEY,
                    exec_cs_indirect_3::LOCALSIZEZ,
                ];
                let said = sides.map(|side| side.get(word) + 1);
                if said != local {
                    let what =
                        format!("the packet has groups of {said:?}, SP_CS_NDRANGE_0 of {local:?}");
                    return broken(&GRID, what);
                }
                // The CP computes the grid from what it has read.
                let global = [0, 1, 2].map(|i| groups[i].saturating_mul(local[i]));
                return Ok((groups, global));
            }
            Grid::Registers => {
                let groups = [
                    regs::SP_CS_KERNEL_GROUP_X,
                    regs::SP_CS_KERNEL_GROUP_Y,
                    regs::SP_CS_KERNEL_GROUP_Z,
                ];
                if let Some(reg) = groups.iter().find(|reg| self.registers.get(reg).is_none()) {
                    return broken(&MISSING, format!("{} was not written", reg.word.name));
                }
                (groups.map(|reg| self.get(&reg)), false)
            }
        };
        for i in 0..3 {
            let whole = u64::from(groups[i]) * u64::from(local[i]);
            let least = whole.saturating_sub(u64::from(local[i]));
            let fibers = u64::from(global[i]);
            let fits = match exact {
                true => fibers == whole,
                false => fibers <= whole && fibers > least,
            };
            if groups[i] == 0 || !fits {
                let what = format!(
                    "dimension {i}: {} groups of {}, {fibers} fibers",
                    groups[i], local[i]
                );
                return broken(&GRID, what);
            }
        }
        Ok((groups, global))
    }

    fn code(&self) -> Result<(u64, u32, u32), Broken> {
        let program = self.registers.address(&regs::SP_CS_BASE).unwrap_or(0);
        let units = sp_cs_instr_size::UNITS.get(self.get(&regs::SP_CS_INSTR_SIZE));
        let first = self.get(&regs::SP_CS_PROGRAM_COUNTER_OFFSET);
        let bytes = units.saturating_mul(INSTRUCTION_UNIT);
        if units == 0 || first >= bytes || !first.is_multiple_of(8) {
            return broken(
                &CODE,
                format!("{units} units, the first instruction at {first:#x}"),
            );
        }
        let preloaded = units.min(self.chip.facts().instruction_cache);
        match self.state.code {
            Some((from, loaded)) if from == program && loaded >= preloaded => {}
            loaded => {
                let what = format!("{units} units at {program:#x}; loaded: {loaded:x?}");
                return broken(&CODE, what);
            }
        }
        Ok((program, first, bytes))
    }

    /// Dwords of constants. CONSTLEN 0 has run on an A630: all that CONSTANTRAMMODE has room for, which is a guess.
    fn constants(&self) -> Result<u32, Broken> {
        let config = self.get(&regs::SP_CS_CONST_CONFIG);
        let shader = self.get(&regs::SP_CS_CONFIG);
        if sp_cs_const_config::ENABLED.get(config) == 0 || sp_cs_config::ENABLED.get(shader) == 0 {
            return broken(
                &ENABLED,
                format!("SP_CS_CONST_CONFIG {config:#x}, SP_CS_CONFIG {shader:#x}"),
            );
        }
        let room = match cntl1::CONSTANTRAMMODE.get(self.get(&regs::SP_CS_CNTL_1)) {
            cntl1::CONSTLEN_128 => 128,
            cntl1::CONSTLEN_192 => 192,
            _ => 256,
        };
        let vectors = sp_cs_const_config::CONSTLEN.get(config) * CONSTLEN_UNIT;
        if vectors > room || vectors > MAX_CONSTANTS {
            return broken(&CONSTANTS, format!("{vectors} vectors, room for {room}"));
        }
        Ok(if vectors == 0 { room } else { vectors } * 4)
    }

    fn shared_constants(&self) -> Result<Option<[Option<u32>; SHARED_CONSTANTS]>, Broken> {
        let mode = self.get(&regs::SP_MODE_CNTL);
        let enabled = sp_mode_cntl::SHARED_CONSTS_ENABLE.get(mode);
        let other = self.registers.raw(HLSQ_SHARED_CONSTS).unwrap_or(0);
        match enabled == other {
            true => Ok((enabled == 1).then_some(self.state.shared)),
            false => broken(
                &SHARED,
                format!("SP_MODE_CNTL {mode:#x}, HLSQ_SHARED_CONSTS {other:#x}"),
            ),
        }
    }

    fn counts(&self) -> Result<(), Broken> {
        let config = self.get(&regs::SP_CS_CONFIG);
        let descriptors = &self.state.descriptors;
        let loaded = [
            (
                "textures",
                sp_cs_config::NTEX.get(config),
                descriptors.textures.len(),
                {
                    let word = self.registers.get(&regs::SP_CS_TSIZE);
                    word.map(|word| sp_cs_tsize::COUNT.get(word))
                },
            ),
            (
                "samplers",
                sp_cs_config::NSAMP.get(config),
                descriptors.samplers.len(),
                None,
            ),
            (
                "images",
                sp_cs_config::NUAV.get(config),
                descriptors.images.len(),
                {
                    let word = self.registers.get(&regs::SP_CS_USIZE);
                    word.map(|word| sp_cs_usize::COUNT.get(word))
                },
            ),
        ];
        // Those in memory are not loaded. tu6_emit_xs_config: bindless_tex, bindless_samp, bindless_ibo.
        let bindless = [
            sp_cs_config::BINDLESS_TEX,
            sp_cs_config::BINDLESS_SAMP,
            sp_cs_config::BINDLESS_UAV,
        ];
        for ((what, wanted, loaded, counted), bindless) in loaded.into_iter().zip(bindless) {
            let elsewhere = bindless.get(config) != 0;
            let fits = (elsewhere || wanted as usize <= loaded)
                && counted.is_none_or(|counted| counted >= wanted);
            if !fits {
                let what = format!("{wanted} {what}, {loaded} are loaded, {counted:?} are counted");
                return broken(&COUNTS, what);
            }
        }
        Ok(())
    }

    fn system(&self, full: u32) -> Result<SystemRegisters, Broken> {
        let word = self.get(&regs::SP_CS_CONST_CONFIG_0);
        let shared = |name: &str, id: u32| match id {
            NO_REGISTER => Ok(None),
            // Three registers each, up to r55.w.
            id if (SHARED_REGISTERS..=SHARED_REGISTERS + 29).contains(&id) => Ok(Some(id as u8)),
            id => broken(&IDS, format!("{name} {id:#x}")),
        };
        let own = |name: &str, id: u32, width: u32| match id {
            NO_REGISTER => Ok(None),
            id if id + width <= full * 4 => Ok(Some(id as u8)),
            id => broken(&IDS, format!("{name} {id:#x}, a footprint of {full}")),
        };
        let linear = wge::LINEARLOCALIDREGID.get(self.get(&regs::SP_CS_WGE_CNTL));
        Ok(SystemRegisters {
            group_id: shared("WGIDCONSTID", ids::WGIDCONSTID.get(word))?,
            group_size: shared("WGSIZECONSTID", ids::WGSIZECONSTID.get(word))?,
            group_offset: shared("WGOFFSETCONSTID", ids::WGOFFSETCONSTID.get(word))?,
            local_id: own("LOCALIDREGID", ids::LOCALIDREGID.get(word), 3)?,
            linear_local_id: own("LINEARLOCALIDREGID", linear, 1)?,
        })
    }

    fn private(&self) -> Result<Private, Broken> {
        let param = self.get(&regs::SP_CS_PVT_MEM_PARAM);
        let size = self.get(&regs::SP_CS_PVT_MEM_SIZE);
        let per_fiber = sp_cs_pvt_mem_param::MEMSIZEPERITEM.get(param) * PRIVATE_UNIT;
        let total = sp_cs_pvt_mem_size::TOTALPVTMEMSIZE
            .get(size)
            .saturating_mul(PRIVATE_TOTAL_UNIT);
        let wanted = (per_fiber * self.chip.fibers).next_multiple_of(PRIVATE_TOTAL_UNIT);
        let base = self.registers.address(&regs::SP_CS_PVT_MEM_BASE);
        if per_fiber > 0 && (total < wanted || base.is_none()) {
            let what = format!(
                "{per_fiber} bytes a fiber, {total:#x} in all, expected {wanted:#x}; at {base:x?}"
            );
            return broken(&PRIVATE, what);
        }
        Ok(Private {
            base: base.unwrap_or(0),
            per_fiber,
            total,
            per_wave_layout: sp_cs_pvt_mem_size::PERWAVEMEMLAYOUT.get(size) != 0,
            stack: sp_cs_pvt_mem_param::HWSTACKSIZEPERTHREAD.get(param),
        })
    }

    /// Whether a group fits on a shader processor.
    fn fits(&self, launch: &Launch) -> Result<(), Broken> {
        let waves = launch.waves_per_group();
        let most = u64::from(launch.occupancy());
        if waves > most {
            let what = format!("{:?}: {waves} waves, room for {most}", launch.local_size);
            return broken(&GROUP, what);
        }
        Ok(())
    }
}
