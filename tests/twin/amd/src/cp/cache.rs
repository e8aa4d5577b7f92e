//! What packets say about caches.

use drivers_spec::amd::packet::Gfx;
use drivers_spec::amd::pm4::{acquire, release};
use twin::rule::{Proof, Rule};

use super::Cx;
use crate::mem::Caches;

/// The metadata cache is written back and invalidated together.
pub static GLM_WB: Rule = Rule {
    name: "PM4-GLM-WB",
    text: "GLM_WB is set together with GLM_INV: the metadata cache has no write-back alone",
    source: "Mesa, src/amd/common/ac_gpu_info, GCR comments; Linux, nvd.h",
    proof: Proof::Sourced,
};

/// Whether any is acted on.
pub(crate) fn any(caches: Caches) -> bool {
    caches != Caches::default()
}

/// GCR_CNTL of ACQUIRE_MEM and of SDMA's GCR.
pub(crate) fn gcr(cx: &Cx, word: u32) -> Caches {
    if acquire::GLM_WB.get(word) == 1 && acquire::GLM_INV.get(word) == 0 {
        cx.note(&GLM_WB, format!("GCR_CNTL is {word:#x}"));
    }
    Caches {
        inst_inv: acquire::GLI_INV.get(word) != 0,
        scalar_inv: acquire::GLK_INV.get(word) == 1,
        vector_inv: acquire::GLV_INV.get(word) == 1,
        gl1_inv: acquire::GL1_INV.get(word) == 1,
        l2_inv: acquire::GL2_INV.get(word) == 1,
        l2_wb: acquire::GL2_WB.get(word) == 1,
    }
}

/// ACQUIRE_MEM.
pub(crate) fn acquire(cx: &Cx, body: &[u32]) -> Caches {
    if cx.gfx() != Gfx::Gfx9 {
        return gcr(cx, body[6]);
    }
    let word = body[0];
    let vector =
        acquire::TCL1_ACTION_ENA.get(word) == 1 || acquire::TCL1_VOL_ACTION_ENA.get(word) == 1;
    let scalar = acquire::SH_KCACHE_ACTION_ENA.get(word) == 1
        || acquire::SH_KCACHE_VOL_ACTION_ENA.get(word) == 1;
    Caches {
        inst_inv: acquire::SH_ICACHE_ACTION_ENA.get(word) == 1,
        scalar_inv: scalar,
        vector_inv: vector,
        gl1_inv: false,
        l2_inv: acquire::TC_ACTION_ENA.get(word) == 1,
        l2_wb: acquire::TC_WB_ACTION_ENA.get(word) == 1,
    }
}

/// The first dword of RELEASE_MEM.
pub(crate) fn release(cx: &Cx, word: u32) -> Caches {
    if cx.gfx() == Gfx::Gfx9 {
        return Caches {
            vector_inv: release::TCL1_ACTION_EN.get(word) == 1
                || release::TCL1_VOL_ACTION_EN.get(word) == 1,
            l2_inv: release::TC_ACTION_EN.get(word) == 1,
            l2_wb: release::TC_WB_ACTION_EN.get(word) == 1,
            ..Caches::default()
        };
    }
    if release::GLM_WB.get(word) == 1 && release::GLM_INV.get(word) == 0 {
        cx.note(&GLM_WB, format!("the event dword is {word:#x}"));
    }
    Caches {
        vector_inv: release::GLV_INV.get(word) == 1,
        gl1_inv: release::GL1_INV.get(word) == 1,
        l2_inv: release::GL2_INV.get(word) == 1,
        l2_wb: release::GL2_WB.get(word) == 1,
        ..Caches::default()
    }
}

/// The acquire fence of an AQL packet, by scope.
///
/// The XCCs of an agent have a GL2 each, which the agent's scope is about as well.
/// Source: LLVM AMDGPUUsage, memory model GFX942.
pub(crate) fn acquire_scope(cx: &Cx, scope: u32) -> Caches {
    let agent = u32::from(cx.core.chip.xccs == 1);
    Caches {
        // Code may be new in any scope: CP invalidates the instruction cache with the rest.
        inst_inv: scope > 0,
        scalar_inv: scope > 0,
        vector_inv: scope > 0,
        gl1_inv: scope > 0,
        l2_inv: scope > agent,
        l2_wb: false,
    }
}

/// The release fence of an AQL packet, by scope.
pub(crate) fn release_scope(cx: &Cx, scope: u32) -> Caches {
    let agent = u32::from(cx.core.chip.xccs == 1);
    Caches {
        l2_wb: scope > agent,
        ..Caches::default()
    }
}
