//! The rules of the shader cores.

use twin::rule::{Proof, Rule};

// --- What a program may contain ---

/// A word that is no instruction.
pub static ENCODING: Rule = Rule {
    name: "IR3-ENCODING",
    text: "a word is an instruction of generation 600, with reserved bits 0",
    source: "Mesa src/freedreno/isa/ir3-cat0.xml to ir3-cat7.xml",
    proof: Proof::Sourced,
};

/// An instruction that this chip or a compute shader does not have.
pub static COMPUTE: Rule = Rule {
    name: "IR3-COMPUTE",
    text: "an executed instruction exists on the chip and in compute shaders",
    source: "Mesa src/freedreno/common/freedreno_devices.py (has_sad, has_dp2acc, has_dp4acc, \
           has_getfiberid) and src/freedreno/isa/ir3-cat*.xml (documentation of the stages)",
    proof: Proof::Sourced,
};

/// An instruction whose effect no source tells.
pub static MEANING: Rule = Rule {
    name: "IR3-MEANING",
    text: "the effect of an executed instruction, or of a field of it, has a source",
    source: "this twin",
    proof: Proof::Twin,
};

/// Operands that the field holds and the hardware does not take.
pub static OPERANDS: Rule = Rule {
    name: "IR3-OPERANDS",
    text: "operands are of the kinds that the operation takes",
    source: "Mesa src/freedreno/ir3/ir3.c, ir3_valid_flags and ir3_valid_immediate; ir3.h, \
           ir3_cat2_absneg and ir3_cat3_absneg",
    proof: Proof::Sourced,
};

/// Execution outside of the code.
pub static CODE_RANGE: Rule = Rule {
    name: "IR3-CODE-RANGE",
    text: "execution stays within SP_CS_INSTR_SIZE units of 128 bytes from SP_CS_BASE on",
    source: "Mesa src/freedreno/registers/adreno/a6xx.xml, SP_CS_INSTR_SIZE; \
           src/freedreno/ir3/ir3.c, ir3_collect_info",
    proof: Proof::Sourced,
};

// --- Launches ---

/// A group that is too large, or empty.
pub static LAUNCH_SIZE: Rule = Rule {
    name: "IR3-LAUNCH-SIZE",
    text: "a workgroup has 1 to 1024 fibers in each direction",
    source: "Mesa src/freedreno/registers/adreno/a6xx.xml, SP_CS_NDRANGE_0",
    proof: Proof::Sourced,
};

/// Footprints that the fields or the chip do not hold.
pub static LAUNCH_FOOTPRINT: Rule = Rule {
    name: "IR3-LAUNCH-FOOTPRINT",
    text: "at most 48 vectors of full and 48 of half registers, at least one full",
    source: "Mesa src/freedreno/ir3/ir3.h, GPR_REG_SIZE",
    proof: Proof::Sourced,
};

/// Waves of double size where the chip has none.
pub static LAUNCH_THREADSIZE: Rule = Rule {
    name: "IR3-LAUNCH-THREADSIZE",
    text: "THREAD128 is set only on chips that have it",
    source: "Mesa src/freedreno/common/freedreno_devices.py, supports_double_threadsize",
    proof: Proof::Sourced,
};

/// More waves than fit.
pub static LAUNCH_OCCUPANCY: Rule = Rule {
    name: "IR3-LAUNCH-OCCUPANCY",
    text: "the registers of all waves of a workgroup fit into one shader processor",
    source: "Mesa src/freedreno/ir3/ir3.c, ir3_get_reg_dependent_max_waves and \
           ir3_should_double_threadsize",
    proof: Proof::Sourced,
};

/// System values in registers that cannot hold them.
pub static LAUNCH_SYSTEM: Rule = Rule {
    name: "IR3-LAUNCH-SYSTEM",
    text: "the workgroup's id, size and offset are in r48 to r55, local ids below the footprint",
    source: "Mesa src/freedreno/vulkan/tu_shader.cc, tu6_emit_cs_config; a6xx.xml, \
           SP_CS_CONST_CONFIG_0",
    proof: Proof::Sourced,
};

/// More local memory or constants than there are.
pub static LAUNCH_MEMORY: Rule = Rule {
    name: "IR3-LAUNCH-MEMORY",
    text: "local memory and constants fit into what the chip has",
    source: "Mesa src/freedreno/common/freedreno_devices.py (cs_shared_mem_size); ir3_compiler.c, \
           max_const_compute",
    proof: Proof::Sourced,
};

// --- Registers ---

/// A register that is not there.
pub static REGISTER: Rule = Rule {
    name: "IR3-REGISTER",
    text: "an operand names a register that exists: r0 to r55, a0.x, a1.x, p0, r63.x to discard",
    source: "Mesa src/freedreno/ir3/ir3.h, GPR_REG_SIZE, SHARED_REG_SIZE and NONGPR_REG_START",
    proof: Proof::Sourced,
};

/// A register beyond the footprint.
pub static FOOTPRINT: Rule = Rule {
    name: "IR3-FOOTPRINT",
    text: "registers are below FULLREGFOOTPRINT and HALFREGFOOTPRINT",
    source: "Mesa src/freedreno/registers/adreno/a6xx.xml, SP_CS_CNTL_0; src/freedreno/ir3/ir3.c, \
           collect_reg_info",
    proof: Proof::Sourced,
};

/// A register that nothing has written.
pub static REG_UNDEFINED: Rule = Rule {
    name: "IR3-REG-UNDEFINED",
    text: "a register is written before it is read",
    source: "this twin: the value is undefined",
    proof: Proof::Twin,
};

/// A shared register with more than one value.
pub static SHARED_UNIFORM: Rule = Rule {
    name: "IR3-SHARED-UNIFORM",
    text: "what is written to a shared register is the same in all active fibers",
    source: "Mesa src/freedreno/ir3/ir3.h, IR3_REG_SHARED; ir3_valid_flags of ir3.c",
    proof: Proof::Sourced,
};

/// A constant beyond CONSTLEN.
pub static CONST_RANGE: Rule = Rule {
    name: "IR3-CONST-RANGE",
    text: "constants are below CONSTLEN",
    source: "Mesa src/freedreno/registers/adreno/a6xx.xml, SP_CS_CONST_CONFIG",
    proof: Proof::Sourced,
};

/// A constant that nothing has loaded.
pub static CONST_UNDEFINED: Rule = Rule {
    name: "IR3-CONST-UNDEFINED",
    text: "a constant is loaded before it is read",
    source: "this twin: the value is undefined",
    proof: Proof::Twin,
};

// --- Delays and waits ---

/// A result of arithmetic that is read too soon by arithmetic.
pub static DELAY_ALU: Rule = Rule {
    name: "IR3-DELAY-ALU",
    text: "3 slots pass between arithmetic and arithmetic that reads its result, 1 before the \
           third source of mad and madsh; the cycles of a wait are no slots",
    source: "Mesa src/freedreno/ir3/ir3_delay.c, ir3_delayslots; ir3_compiler.c, delay_slots; \
           ir3_legalize.c, delay_update and count_instruction",
    proof: Proof::Sourced,
};

/// A result of the other size.
pub static DELAY_SIZE: Rule = Rule {
    name: "IR3-DELAY-SIZE",
    text: "6 slots pass between arithmetic and arithmetic that reads half of its full result, or \
           the full register of its half",
    source: "Mesa src/freedreno/ir3/ir3_delay.c, ir3_delayslots (mismatched_half); \
           ir3_legalize.c, delay_update",
    proof: Proof::Sourced,
};

/// A result that another unit reads.
pub static DELAY_OTHER: Rule = Rule {
    name: "IR3-DELAY-OTHER",
    text: "6 slots pass between arithmetic and categories 0, 4, 5 and 6 that read its result",
    source: "Mesa src/freedreno/ir3/ir3_delay.c, ir3_delayslots; ir3_compiler.c, \
           delay_slots.non_alu",
    proof: Proof::Sourced,
};

/// An address or a predicate that is used too soon.
pub static DELAY_SPECIAL: Rule = Rule {
    name: "IR3-DELAY-SPECIAL",
    text: "6 slots pass between a write to a0.x, a1.x or p0 and its use",
    source: "Mesa src/freedreno/ir3/ir3_legalize.c, get_ready_slot and delay_update",
    proof: Proof::Sourced,
};

/// A short-latency result that was not waited for.
pub static SS_MISSING: Rule = Rule {
    name: "IR3-SS-MISSING",
    text: "(ss) waits before a result of category 4, ldl, shfl, resinfo, an atomic on local \
           memory, or a write to a shared register is read or overwritten; not in the scalar ALU, \
           where it has written a register of the same size",
    source: "Mesa src/freedreno/ir3/ir3_legalize.c, sync_update and ir3_required_sync_flags",
    proof: Proof::Sourced,
};

/// A long-latency result that was not waited for.
pub static SY_MISSING: Rule = Rule {
    name: "IR3-SY-MISSING",
    text: "(sy) waits before a result of category 5, of a load other than ldl, or of an atomic on \
           addresses or images is read or overwritten",
    source: "Mesa src/freedreno/ir3/ir3_legalize.c, sync_update and ir3_required_sync_flags",
    proof: Proof::Sourced,
};

/// A source that is overwritten while another unit still reads it.
pub static WAR: Rule = Rule {
    name: "IR3-WAR",
    text: "(ss) waits before a source of categories 4, 5 and 6, or of the scalar ALU but by itself, \
           is overwritten; for textures and loads (sy) also does",
    source: "Mesa src/freedreno/ir3/ir3_legalize.c, sync_update (needs_ss_war, needs_ss_or_sy_war)",
    proof: Proof::Sourced,
};

/// No wait behind a barrier.
pub static BARRIER_SYNC: Rule = Rule {
    name: "IR3-BARRIER-SYNC",
    text: "the instruction behind a barrier or fence has (ss) and (sy), or nops between them have, \
           unless it begins a block: a branch leads to it, or it is end",
    source: "Mesa src/freedreno/ir3/ir3_legalize.c, sync_update (force_ss, force_sy), \
           legalize_block (insert_nop_flags), ir3_merge_pred_legalize_states (a block begins with \
           what the blocks before it leave: nothing, as their jumps have the waits; block_sched \
           asserts the jumps) and opt_jump (a jump to the next block goes, with its waits); \
           ir3_compiler_nir.c, emit_function (end is alone in a block)",
    proof: Proof::Sourced,
};

/// No wait behind resinfo.
pub static RESINFO_SYNC: Rule = Rule {
    name: "IR3-RESINFO-SYNC",
    text: "the instruction behind resinfo, or a nop between them, has (ss)",
    source: "Mesa src/freedreno/ir3/ir3_legalize.c, legalize_block (OPC_RESINFO)",
    proof: Proof::Sourced,
};

/// A constant that was stored and not waited for.
pub static CONST_SYNC: Rule = Rule {
    name: "IR3-CONST-SYNC",
    text: "a constant that stc wrote is read behind (ss), one of ldc.k behind (sy)",
    source: "Mesa src/freedreno/ir3/ir3_legalize.c, needs_ss_for_const and needs_sy_for_const",
    proof: Proof::Sourced,
};

// --- Control flow ---

/// Parked fibers that do not rejoin.
pub static JP_MISSING: Rule = Rule {
    name: "IR3-JP-MISSING",
    text: "an instruction where parked fibers rejoin has (jp)",
    source: "Mesa src/freedreno/ir3/ir3_reconvergence.c, head comment; ir3_legalize.c, \
           mark_xvergence_points",
    proof: Proof::Sourced,
};

/// More pending points than declared.
pub static BRANCH_STACK: Rule = Rule {
    name: "IR3-BRANCH-STACK",
    text: "at most twice BRANCHSTACK points are pending, 64 in all",
    source: "Mesa src/freedreno/ir3/ir3_reconvergence.c, branchstack; \
           src/freedreno/vulkan/tu_shader.cc, BRANCHSTACK; ir3_compiler.c, max_branchstack",
    proof: Proof::Sourced,
};

/// A barrier that not all fibers reach.
pub static BARRIER_DIVERGENT: Rule = Rule {
    name: "IR3-BARRIER-DIVERGENT",
    text: "all fibers of a wave that have not ended reach a barrier together",
    source: "Vulkan, OpControlBarrier in uniform control flow; a survey of what has run on A630",
    proof: Proof::Guess,
};

/// Control flow in predicated code.
pub static PREDICATED_FLOW: Rule = Rule {
    name: "IR3-PREDICATED-FLOW",
    text: "no branch is between predt or predf and prede",
    source: "Mesa src/freedreno/ir3/ir3_compiler_nir.c, predication of ifs; ir3_legalize.c, \
           prede_sched",
    proof: Proof::Sourced,
};

/// Too little time behind predication.
pub static PREDICATION_NOPS: Rule = Rule {
    name: "IR3-PREDICATION-NOPS",
    text: "six nops follow prede from A650 on, and four the second one of predt and predf from A660 on",
    source: "Mesa src/freedreno/ir3/ir3_legalize.c, add_predication_workaround; freedreno_devices.py, \
           prede_nop_quirk, predtf_nop_quirk",
    proof: Proof::Sourced,
};

/// Calls deeper than the stack, or returns without a call.
pub static CALL_STACK: Rule = Rule {
    name: "IR3-CALL-STACK",
    text: "calls are no deeper than HWSTACKSIZEPERTHREAD allows, and all fibers call and return \
           together",
    source: "Mesa src/freedreno/registers/adreno/a6xx.xml, SP_CS_PVT_MEM_PARAM",
    proof: Proof::Guess,
};

/// A register that should agree and does not.
pub static UNIFORM: Rule = Rule {
    name: "IR3-UNIFORM",
    text: "an index that is declared uniform is the same in all active fibers",
    source: "Mesa src/freedreno/isa/ir3-cat5.xml, #cat5-s2en-bindless-desc-mode; ir3-cat6.xml, \
           #cat6-src-mode and shfl; ir3-cat1.xml, movs",
    proof: Proof::Sourced,
};

/// Constants that are stored outside of the preamble.
pub static PREAMBLE: Rule = Rule {
    name: "IR3-PREAMBLE",
    text: "stc, ldc.k and shpe are between shps and shpe",
    source: "Mesa src/freedreno/isa/ir3-cat6.xml, stc; ir3-cat0.xml, shps and shpe",
    proof: Proof::Sourced,
};

// --- Memory ---

/// An access outside of local memory.
pub static LOCAL_RANGE: Rule = Rule {
    name: "IR3-LOCAL-RANGE",
    text: "accesses to local memory are below SHARED_SIZE",
    source: "Mesa src/freedreno/registers/adreno/a6xx.xml, SP_CS_CNTL_1 (SHARED_SIZE)",
    proof: Proof::Sourced,
};

/// Two waves that race.
pub static LOCAL_RACE: Rule = Rule {
    name: "IR3-LOCAL-RACE",
    text: "waves of a workgroup that access the same word of local memory, one writing, have a \
           barrier between",
    source: "Vulkan memory model, data races; Mesa src/freedreno/ir3/ir3_compiler_nir.c, \
           emit_control_barrier",
    proof: Proof::Sourced,
};

/// An access outside of a fiber's private memory.
pub static PRIVATE_RANGE: Rule = Rule {
    name: "IR3-PRIVATE-RANGE",
    text: "accesses to private memory are below MEMSIZEPERITEM, within TOTAL",
    source: "Mesa src/freedreno/registers/adreno/a6xx.xml, SP_CS_PVT_MEM_PARAM and \
           SP_CS_PVT_MEM_SIZE",
    proof: Proof::Sourced,
};

/// An address that is not aligned.
pub static ALIGN: Rule = Rule {
    name: "IR3-ALIGN",
    text: "local and private accesses and atomics are aligned to a component",
    source: "Vulkan, alignment of variables; Mesa src/freedreno/isa/ir3-cat6.xml allows others \
           for ldg and stg",
    proof: Proof::Guess,
};

/// A count of components that the instruction does not have.
pub static COUNT: Rule = Rule {
    name: "IR3-COUNT",
    text: "a load or store has 1 to 4 components",
    source: "Mesa src/freedreno/ir3/ir3_compiler_nir.c, emit_intrinsic_load_shared and its like",
    proof: Proof::Sourced,
};

/// A descriptor that is not there.
pub static DESCRIPTOR: Rule = Rule {
    name: "IR3-DESCRIPTOR",
    text: "a descriptor is loaded before it is used, and describes what the instruction accesses",
    source: "Mesa src/freedreno/registers/adreno/a6xx_descriptors.xml; adreno_pm4.xml, \
           CP_LOAD_STATE6",
    proof: Proof::Sourced,
};

/// A kind of image that is not modelled.
pub static IMAGE_KIND: Rule = Rule {
    name: "IR3-IMAGE-KIND",
    text: "images have no sRGB, no mipmaps, no samples, and are no cubes; tiled ones have one order of components",
    source: "this twin",
    proof: Proof::Twin,
};

/// Flags of UBWC that nobody has cleared.
pub static UBWC_FLAGS: Rule = Rule {
    name: "IR3-UBWC-FLAGS",
    text: "the flags of an image with UBWC are cleared before its pixels are read or written",
    source: "Mesa src/gallium/drivers/freedreno/freedreno_resource.c, needs_ubwc_clear; a6xx/fd6_blitter.cc, \
           fd6_clear_ubwc",
    proof: Proof::Sourced,
};

/// A type that does not fit the format.
pub static IMAGE_TYPE: Rule = Rule {
    name: "IR3-IMAGE-TYPE",
    text: "floats are read and written as floats, integers as integers of the same sign",
    source: "Vulkan, image formats and SPIR-V image operands; Mesa \
           ir3_get_type_for_image_intrinsic",
    proof: Proof::Sourced,
};

/// A fetch outside of a texture without a border.
pub static ISAM_OUTSIDE: Rule = Rule {
    name: "IR3-ISAM-OUTSIDE",
    text: "isam reads outside of a texture only with a sampler that clamps to the border",
    source: "a survey of what has run on A630: the border colour is read then",
    proof: Proof::Guess,
};

/// A read outside of a buffer of constants.
pub static UBO_RANGE: Rule = Rule {
    name: "IR3-UBO-RANGE",
    text: "ldc reads within the size of its buffer",
    source: "Mesa a6xx_descriptors.xml, A6XX_UBO_1 (SIZE)",
    proof: Proof::Guess,
};

/// An angle that was not reduced.
pub static SIN_RANGE: Rule = Rule {
    name: "IR3-SIN-RANGE",
    text: "arguments of 32 bits of sin and cos are from -pi to pi",
    source: "Mesa src/freedreno/ir3/ir3_nir_trig.py",
    proof: Proof::Guess,
};

/// All rules.
pub static ALL: &[&Rule] = &[
    &ENCODING,
    &COMPUTE,
    &MEANING,
    &OPERANDS,
    &CODE_RANGE,
    &LAUNCH_SIZE,
    &LAUNCH_FOOTPRINT,
    &LAUNCH_THREADSIZE,
    &LAUNCH_OCCUPANCY,
    &LAUNCH_SYSTEM,
    &LAUNCH_MEMORY,
    &REGISTER,
    &FOOTPRINT,
    &REG_UNDEFINED,
    &SHARED_UNIFORM,
    &CONST_RANGE,
    &CONST_UNDEFINED,
    &DELAY_ALU,
    &DELAY_SIZE,
    &DELAY_OTHER,
    &DELAY_SPECIAL,
    &SS_MISSING,
    &SY_MISSING,
    &WAR,
    &BARRIER_SYNC,
    &RESINFO_SYNC,
    &CONST_SYNC,
    &JP_MISSING,
    &BRANCH_STACK,
    &BARRIER_DIVERGENT,
    &PREDICATED_FLOW,
    &PREDICATION_NOPS,
    &CALL_STACK,
    &UNIFORM,
    &PREAMBLE,
    &LOCAL_RANGE,
    &LOCAL_RACE,
    &PRIVATE_RANGE,
    &ALIGN,
    &COUNT,
    &DESCRIPTOR,
    &IMAGE_KIND,
    &UBWC_FLAGS,
    &IMAGE_TYPE,
    &ISAM_OUTSIDE,
    &UBO_RANGE,
    &SIN_RANGE,
];
