//! The rules of the shader cores.

use twin::rule::{Proof, Rule};

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident $id:literal $proof:ident: $text:literal, $source:literal;)*) => {
        $($(#[$doc])* pub static $name: Rule = Rule {
            name: $id,
            text: $text,
            source: $source,
            proof: Proof::$proof,
        };)*

        /// All rules.
        pub static ALL: &[&Rule] = &[$(&$name),*];
    };
}

rules! {
    // --- What a program may contain -------------------------------------------------------------------------------

    /// A word that is no instruction.
    ENCODING "IR3-ENCODING" Sourced: "a word is an instruction of generation 600, with reserved bits 0",
        "Mesa src/freedreno/isa/ir3-cat0.xml to ir3-cat7.xml";
    /// An instruction that this chip or a compute shader does not have.
    COMPUTE "IR3-COMPUTE" Sourced: "an executed instruction exists on the chip and in compute shaders",
        "Mesa src/freedreno/common/freedreno_devices.py (has_sad, has_dp2acc, has_dp4acc, has_getfiberid) and \
         src/freedreno/isa/ir3-cat*.xml (documentation of the stages)";
    /// An instruction whose effect no source tells.
    MEANING "IR3-MEANING" Twin: "the effect of an executed instruction, or of a field of it, has a source", "this executor";
    /// Operands that the field holds and the hardware does not take.
    OPERANDS "IR3-OPERANDS" Sourced: "operands are of the kinds that the operation takes",
        "Mesa src/freedreno/ir3/ir3.c, ir3_valid_flags and ir3_valid_immediate; ir3.h, ir3_cat2_absneg and ir3_cat3_absneg";
    /// Execution outside of the code.
    CODE_RANGE "IR3-CODE-RANGE" Sourced: "execution stays within SP_CS_INSTR_SIZE units of 128 bytes from SP_CS_BASE on",
        "Mesa src/freedreno/registers/adreno/a6xx.xml, SP_CS_INSTR_SIZE; src/freedreno/ir3/ir3.c, ir3_collect_info";

    // --- Launches -------------------------------------------------------------------------------------------------

    /// A group that is too large, or empty.
    LAUNCH_SIZE "IR3-LAUNCH-SIZE" Sourced: "a workgroup has 1 to 1024 fibers in each direction and in all",
        "Mesa src/freedreno/registers/adreno/a6xx.xml, SP_CS_NDRANGE_0; src/freedreno/ir3/ir3_compiler.c, \
         max_variable_workgroup_size";
    /// Footprints that the fields or the chip do not hold.
    LAUNCH_FOOTPRINT "IR3-LAUNCH-FOOTPRINT" Sourced: "at most 48 vectors of full and 48 of half registers, at least one full",
        "Mesa src/freedreno/ir3/ir3.h, GPR_REG_SIZE";
    /// Waves of double size where the chip has none.
    LAUNCH_THREADSIZE "IR3-LAUNCH-THREADSIZE" Sourced: "THREAD128 is set only on chips that have it",
        "Mesa src/freedreno/common/freedreno_devices.py, supports_double_threadsize";
    /// More waves than fit.
    LAUNCH_OCCUPANCY "IR3-LAUNCH-OCCUPANCY" Sourced: "the registers of all waves of a workgroup fit into one shader processor",
        "Mesa src/freedreno/ir3/ir3.c, ir3_get_reg_dependent_max_waves and ir3_should_double_threadsize";
    /// System values in registers that cannot hold them.
    LAUNCH_SYSTEM "IR3-LAUNCH-SYSTEM" Sourced: "the workgroup's id, size and offset are in r48 to r55, local ids below the footprint",
        "Mesa src/freedreno/vulkan/tu_shader.cc, tu6_emit_cs_config; a6xx.xml, SP_CS_CONST_CONFIG_0";
    /// More local memory or constants than there are.
    LAUNCH_MEMORY "IR3-LAUNCH-MEMORY" Sourced: "local memory and constants fit into what the chip has",
        "Mesa src/freedreno/common/freedreno_devices.py (cs_shared_mem_size); ir3_compiler.c, max_const_compute";

    // --- Registers ------------------------------------------------------------------------------------------------

    /// A register that is not there.
    REGISTER "IR3-REGISTER" Sourced: "an operand names a register that exists: r0 to r55, a0.x, a1.x, p0, r63.x to discard",
        "Mesa src/freedreno/ir3/ir3.h, GPR_REG_SIZE, SHARED_REG_SIZE and NONGPR_REG_START";
    /// A register beyond the footprint.
    FOOTPRINT "IR3-FOOTPRINT" Sourced: "registers are below FULLREGFOOTPRINT and HALFREGFOOTPRINT",
        "Mesa src/freedreno/registers/adreno/a6xx.xml, SP_CS_CNTL_0; src/freedreno/ir3/ir3.c, collect_reg_info";
    /// A register that nothing has written.
    REG_UNDEFINED "IR3-REG-UNDEFINED" Twin: "a register is written before it is read", "this executor: the value is undefined";
    /// A shared register with more than one value.
    SHARED_UNIFORM "IR3-SHARED-UNIFORM" Sourced: "what is written to a shared register is the same in all active fibers",
        "Mesa src/freedreno/ir3/ir3.h, IR3_REG_SHARED; ir3_valid_flags of ir3.c";
    /// A constant beyond CONSTLEN.
    CONST_RANGE "IR3-CONST-RANGE" Sourced: "constants are below CONSTLEN",
        "Mesa src/freedreno/registers/adreno/a6xx.xml, SP_CS_CONST_CONFIG";
    /// A constant that nothing has loaded.
    CONST_UNDEFINED "IR3-CONST-UNDEFINED" Twin: "a constant is loaded before it is read", "this executor: the value is undefined";

    // --- Delays and waits -----------------------------------------------------------------------------------------

    /// A result of arithmetic that is read too soon by arithmetic.
    DELAY_ALU "IR3-DELAY-ALU" Sourced:
        "3 slots pass between arithmetic and arithmetic that reads its result, 1 before the third source of mad and madsh",
        "Mesa src/freedreno/ir3/ir3_delay.c, ir3_delayslots; ir3_compiler.c, delay_slots";
    /// A result of the other size.
    DELAY_SIZE "IR3-DELAY-SIZE" Sourced:
        "6 slots pass between arithmetic and arithmetic that reads half of its full result, or the full register of its half",
        "Mesa src/freedreno/ir3/ir3_delay.c, ir3_delayslots (mismatched_half); ir3_legalize.c, delay_update";
    /// A result that another unit reads.
    DELAY_OTHER "IR3-DELAY-OTHER" Sourced: "6 slots pass between arithmetic and categories 0, 4, 5 and 6 that read its result",
        "Mesa src/freedreno/ir3/ir3_delay.c, ir3_delayslots; ir3_compiler.c, delay_slots.non_alu";
    /// An address or a predicate that is used too soon.
    DELAY_SPECIAL "IR3-DELAY-SPECIAL" Sourced: "6 slots pass between a write to a0.x, a1.x or p0 and its use",
        "Mesa src/freedreno/ir3/ir3_legalize.c, get_ready_slot and delay_update";
    /// A short-latency result that was not waited for.
    SS_MISSING "IR3-SS-MISSING" Sourced:
        "(ss) waits before a result of category 4, ldl, shfl, resinfo, an atomic on local memory, or a vector write to a \
         shared register is read or overwritten",
        "Mesa src/freedreno/ir3/ir3_legalize.c, sync_update and ir3_required_sync_flags";
    /// A long-latency result that was not waited for.
    SY_MISSING "IR3-SY-MISSING" Sourced:
        "(sy) waits before a result of category 5, of a load other than ldl, or of an atomic on addresses or images is read \
         or overwritten",
        "Mesa src/freedreno/ir3/ir3_legalize.c, sync_update and ir3_required_sync_flags";
    /// A source that is overwritten while another unit still reads it.
    WAR "IR3-WAR" Sourced:
        "(ss) waits before a source of categories 4, 5 and 6 is overwritten; for textures and loads (sy) also does",
        "Mesa src/freedreno/ir3/ir3_legalize.c, sync_update (needs_ss_war, needs_ss_or_sy_war)";
    /// No wait behind a barrier.
    BARRIER_SYNC "IR3-BARRIER-SYNC" Sourced: "the instruction behind a barrier or fence has (ss) and (sy)",
        "Mesa src/freedreno/ir3/ir3_legalize.c, sync_update (force_ss, force_sy)";
    /// No wait behind resinfo.
    RESINFO_SYNC "IR3-RESINFO-SYNC" Sourced: "the instruction behind resinfo has (ss)",
        "Mesa src/freedreno/ir3/ir3_legalize.c, legalize_block (OPC_RESINFO)";
    /// A constant that was stored and not waited for.
    CONST_SYNC "IR3-CONST-SYNC" Sourced: "a constant that stc wrote is read behind (ss), one of ldc.k behind (sy)",
        "Mesa src/freedreno/ir3/ir3_legalize.c, needs_ss_for_const and needs_sy_for_const";

    // --- Control flow ---------------------------------------------------------------------------------------------

    /// Parked fibers that do not rejoin.
    JP_MISSING "IR3-JP-MISSING" Sourced: "an instruction where parked fibers rejoin has (jp)",
        "Mesa src/freedreno/ir3/ir3_reconvergence.c, head comment; ir3_legalize.c, mark_xvergence_points";
    /// More pending points than declared.
    BRANCH_STACK "IR3-BRANCH-STACK" Sourced: "at most twice BRANCHSTACK points are pending, 64 in all",
        "Mesa src/freedreno/ir3/ir3_reconvergence.c, branchstack; src/freedreno/vulkan/tu_shader.cc, BRANCHSTACK; \
         ir3_compiler.c, max_branchstack";
    /// A barrier that not all fibers reach.
    BARRIER_DIVERGENT "IR3-BARRIER-DIVERGENT" Guess: "all fibers of a wave that have not ended reach a barrier together",
        "Vulkan, OpControlBarrier in uniform control flow; a survey of what has run on A630";
    /// Control flow in predicated code.
    PREDICATED_FLOW "IR3-PREDICATED-FLOW" Sourced: "no branch is between predt or predf and prede",
        "Mesa src/freedreno/ir3/ir3_compiler_nir.c, predication of ifs; ir3_legalize.c, prede_sched";
    /// Calls deeper than the stack, or returns without a call.
    CALL_STACK "IR3-CALL-STACK" Guess: "calls are no deeper than HWSTACKSIZEPERTHREAD allows, and all fibers call and return together",
        "Mesa src/freedreno/registers/adreno/a6xx.xml, SP_CS_PVT_MEM_PARAM";
    /// A register that should agree and does not.
    UNIFORM "IR3-UNIFORM" Sourced: "an index that is declared uniform is the same in all active fibers",
        "Mesa src/freedreno/isa/ir3-cat5.xml, #cat5-s2en-bindless-desc-mode; ir3-cat6.xml, #cat6-src-mode and shfl; \
         ir3-cat1.xml, movs";
    /// Constants that are stored outside of the preamble.
    PREAMBLE "IR3-PREAMBLE" Sourced: "stc, ldc.k and shpe are between shps and shpe",
        "Mesa src/freedreno/isa/ir3-cat6.xml, stc; ir3-cat0.xml, shps and shpe";

    // --- Memory ---------------------------------------------------------------------------------------------------

    /// An access outside of local memory.
    LOCAL_RANGE "IR3-LOCAL-RANGE" Sourced: "accesses to local memory are below SHARED_SIZE",
        "Mesa src/freedreno/registers/adreno/a6xx.xml, SP_CS_CNTL_1 (SHARED_SIZE)";
    /// Two waves that race.
    LOCAL_RACE "IR3-LOCAL-RACE" Sourced: "waves of a workgroup that access the same word of local memory, one writing, have a barrier between",
        "Vulkan memory model, data races; Mesa src/freedreno/ir3/ir3_compiler_nir.c, emit_control_barrier";
    /// An access outside of a fiber's private memory.
    PRIVATE_RANGE "IR3-PRIVATE-RANGE" Sourced: "accesses to private memory are below MEMSIZEPERITEM, within TOTAL",
        "Mesa src/freedreno/registers/adreno/a6xx.xml, SP_CS_PVT_MEM_PARAM and SP_CS_PVT_MEM_SIZE";
    /// An address that is not aligned.
    ALIGN "IR3-ALIGN" Guess: "local and private accesses and atomics are aligned to a component",
        "Vulkan, alignment of variables; Mesa src/freedreno/isa/ir3-cat6.xml allows others for ldg and stg";
    /// A count of components that the instruction does not have.
    COUNT "IR3-COUNT" Sourced: "a load or store has 1 to 4 components",
        "Mesa src/freedreno/ir3/ir3_compiler_nir.c, emit_intrinsic_load_shared and its like";
    /// A descriptor that is not there.
    DESCRIPTOR "IR3-DESCRIPTOR" Sourced: "a descriptor is loaded before it is used, and describes what the instruction accesses",
        "Mesa src/freedreno/registers/adreno/a6xx_descriptors.xml; adreno_pm4.xml, CP_LOAD_STATE6";
    /// A kind of image that is not modelled.
    IMAGE_KIND "IR3-IMAGE-KIND" Twin: "images are linear, without sRGB, component swap, mipmaps, samples and cubes", "this executor";
    /// A type that does not fit the format.
    IMAGE_TYPE "IR3-IMAGE-TYPE" Sourced: "floats are read and written as floats, integers as integers of the same sign",
        "Vulkan, image formats and SPIR-V image operands; Mesa ir3_get_type_for_image_intrinsic";
    /// A fetch outside of a texture without a border.
    ISAM_OUTSIDE "IR3-ISAM-OUTSIDE" Guess: "isam reads outside of a texture only with a sampler that clamps to the border",
        "a survey of what has run on A630: the border colour is read then";
    /// A read outside of a buffer of constants.
    UBO_RANGE "IR3-UBO-RANGE" Guess: "ldc reads within the size of its buffer", "Mesa a6xx_descriptors.xml, A6XX_UBO_1 (SIZE)";
    /// An angle that was not reduced.
    SIN_RANGE "IR3-SIN-RANGE" Guess: "arguments of sin and cos are from -pi to pi",
        "Mesa src/freedreno/ir3/ir3_nir_trig.py";
}
