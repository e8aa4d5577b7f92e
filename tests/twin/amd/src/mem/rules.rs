//! What the cache model demands.
//!
//! Caches hold lines: once a port has read a byte, its line counts as held until the cache is invalidated,
//! whatever fits; of instructions, which are fetched ahead, the page does. All CUs of an XCC share one L0 here, so that
//! what is stale only between these does not show. XCCs have a GL2 each.

use twin::rule::{Proof, Rule};

/// A vector load got what an older state of L0 or GL1 holds.
pub static VECTOR_STALE: Rule = Rule {
    name: "CACHE-VECTOR-STALE",
    text: "the vector caches (GLV, and GL1 on GFX10 and GFX11) are invalidated between a write by others and a vector load",
    source: "LLVM AMDGPUUsage, memory models of the targets: L0 and scalar caches are not coherent",
    proof: Proof::Sourced,
};

/// A scalar load got what the scalar cache holds.
pub static SCALAR_STALE: Rule = Rule {
    name: "CACHE-SCALAR-STALE",
    text: "the scalar cache (GLK, and GL1 on GFX10 and GFX11) is invalidated between a write and a scalar load, unless \
           the load is the first guess of an atomic operation at that address",
    source: "LLVM AMDGPUUsage, memory models of the targets: L0 and scalar caches are not coherent; LLVM, AtomicExpandPass: a compare and swap follows a plain load",
    proof: Proof::Sourced,
};

/// Instructions came from the instruction cache that are no longer in memory.
pub static INST_STALE: Rule = Rule {
    name: "CACHE-INST-STALE",
    text: "the instruction cache (GLI) is invalidated between a write of code and its execution",
    source: "Linux amdgpu, gfx_v11_0.c: the memory sync of each ring has GLI_INV",
    proof: Proof::Sourced,
};

/// A load got what GL2 holds although memory has changed.
pub static L2_STALE: Rule = Rule {
    name: "CACHE-L2-STALE",
    text: "GL2 is invalidated between a write of memory by SDMA, another GPU, another XCC or the host and a read through GL2",
    source: "LLVM AMDGPUUsage: GL2 is not coherent with other agents for MTYPE NC, nor with the other L2s of an agent that has several (GFX942: buffer_inv sc1); Mesa, comment on GCR: INV drops lines that reflect memory",
    proof: Proof::Sourced,
};

/// Memory was read below dirty lines of GL2.
pub static L2_NOT_WRITTEN_BACK: Rule = Rule {
    name: "CACHE-L2-NOT-WRITTEN-BACK",
    text: "GL2 is written back between a write through it and a read of memory by SDMA, another GPU or another XCC",
    source: "LLVM AMDGPUUsage, GFX942: an agent may have several L2s (buffer_wbl2 sc1); ROCr writes GL2 back by a GCR packet before each SDMA copy; SDMA of GFX10 and later has policies for GL2 in SDMA0_UTCL1_PAGE, so it may see dirty lines, but nothing promises it",
    proof: Proof::Guess,
};

/// Memory that the host may read has dirty lines in GL2.
pub static L2_HOST_STALE: Rule = Rule {
    name: "CACHE-L2-HOST-STALE",
    text: "GL2 (of every XCC) is written back before the host is notified that memory mapped by the host is ready",
    source: "LLVM AMDGPUUsage: release at system scope writes GL2 back; that all of it matters to the host is our choice, but not after a barrier of AQL that releases nothing (HIP, rocvirtual.cpp, submitMarker: of such it reads the signal alone)",
    proof: Proof::Guess,
};

/// The host's writes to VRAM have not come through the HDP.
pub static HDP_NOT_FLUSHED: Rule = Rule {
    name: "HDP-NOT-FLUSHED",
    text: "the HDP is flushed, or read from, between writes of the host to VRAM through the BAR and a read by the GPU",
    source: "Linux amdgpu: amdgpu_asic_flush_hdp before each submission; ROCR, amd_gpu_agent.h, PcieWcFlush: a write is read back",
    proof: Proof::Sourced,
};

/// The packet that would have helped.
pub(crate) fn missing(rule: &Rule) -> &'static str {
    if rule == &VECTOR_STALE {
        "ACQUIRE_MEM with GLV_INV and GL1_INV (vector caches)"
    } else if rule == &SCALAR_STALE {
        "ACQUIRE_MEM with GLK_INV and GL1_INV (scalar cache)"
    } else if rule == &INST_STALE {
        "ACQUIRE_MEM with GLI_INV (instruction cache)"
    } else if rule == &L2_STALE {
        "ACQUIRE_MEM with GL2_INV"
    } else if rule == &HDP_NOT_FLUSHED {
        "an HDP flush (WAIT_REG_MEM on HDP_FLUSH_REQ and DONE, or a host write to the MMIO_REMAP page)"
    } else {
        "RELEASE_MEM or ACQUIRE_MEM with GL2_WB"
    }
}
