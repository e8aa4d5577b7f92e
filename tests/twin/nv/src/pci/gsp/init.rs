//! What GSP is told before it starts: about the machine, and its settings.
//!
//! Source: OGKM, gsp_static_config.h of each branch, GspSystemInfo; rpc.c, rpcGspSetSystemInfo_v17_00, rpcSetRegistry_v17_00;
//! kernel_gsp.c, kgspQueueAsyncInitRpcs_IMPL; the table of settings: src/nvidia/arch/nvalloc/unix/include/nv-reg.h users,
//! Linux, drivers/gpu/drm/nouveau/nvkm/subdev/gsp/rm/r535/gsp.c, build_registry.

use drivers_spec::nv::abi::Branch;
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use crate::pci::memory::{long, word};

static ORDER: Rule = Rule {
    name: "NV-RPC-INIT",
    text: "GSP_SET_SYSTEM_INFO and SET_REGISTRY are in the queue, in this order and alone, before GSP is started; nothing else is \
           sent before GSP_INIT_DONE",
    source: "OGKM, kernel_gsp.c, kgspQueueAsyncInitRpcs_IMPL; kgspInitRm_IMPL: at this point we should be able to exchange RPCs",
    proof: Proof::Sourced,
};

static SYSTEM: Rule = Rule {
    name: "NV-RPC-SYSTEM-INFO",
    text: "GspSystemInfo has the size of the firmware's branch, the addresses of its BARs, the mirror of configuration \
           space at 88000, or 92000 from Hopper on, and the end of the addresses of programs",
    source: "OGKM, gsp_static_config.h of each branch; rpc.c, rpcGspSetSystemInfo_v17_00; Linux, nvkm/subdev/gsp/rm/r535/gsp.c, \
             r535_gsp_rpc_set_system_info; hopper/gh100/dev_xtl_ep_pri.h, NV_EP_PCFGM",
    proof: Proof::Sourced,
};

static REGISTRY: Rule = Rule {
    name: "NV-RPC-REGISTRY",
    text: "a table of settings has its size and the number of its entries; each has a name in the table that ends with 0, a type 1 \
           to 3, and 4 bytes of value or a value in the table",
    source: "Linux, nvkm/subdev/gsp/rm/r535/gsp.c, build_registry; OGKM, g_rpc-structures.h, PACKED_REGISTRY_TABLE",
    proof: Proof::Sourced,
};

/// `NV_VGPU_MSG_FUNCTION_GSP_SET_SYSTEM_INFO` and `SET_REGISTRY`.
const SET_SYSTEM_INFO: u32 = 72;
const SET_REGISTRY: u32 = 73;

/// An RPC came before GSP has started, as so-manieth: whether it is right.
pub(super) fn check(
    number: usize,
    function: u32,
    payload: &[u8],
    branch: Branch,
    card: ([u64; 3], u32),
) -> Result<(), Broken> {
    match (number, function) {
        (0, SET_SYSTEM_INFO) => system_info(payload, branch, card),
        (1, SET_REGISTRY) => registry(payload),
        _ => {
            let what = format!("message {number} is function {function}");
            Err((&ORDER, what))
        }
    }
}

/// So many came.
pub(super) fn complete(count: usize) -> Result<(), Broken> {
    match count {
        2 => Ok(()),
        _ => Err((&ORDER, format!("{count} messages"))),
    }
}

fn system_info(
    payload: &[u8],
    branch: Branch,
    (bars, place): ([u64; 3], u32),
) -> Result<(), Broken> {
    // Its size, and where maxUserVa and pciConfigMirrorBase are.
    let (bytes, user, mirror) = match branch {
        Branch::R535 => (0x298, 0x38, 0x40),
        Branch::R550 => (0x370, 0x40, 0x48),
        _ => (0x3a0, 0x48, 0x50),
    };
    if payload.len() != bytes {
        let what = format!("{:#x} bytes, {branch} has {bytes:#x}", payload.len());
        return Err((&SYSTEM, what));
    }
    let found = [0, 8, 16].map(|at| long(payload, at));
    let mirrored = [word(payload, mirror), word(payload, mirror + 4)];
    let user = long(payload, user);
    match found == bars && mirrored == [place, 0x1000] && user > 0 {
        true => Ok(()),
        false => {
            let what = format!(
                "BARs {found:#x?}, which are {bars:#x?}; mirror {mirrored:#x?}; maxUserVa {user:#x}"
            );
            Err((&SYSTEM, what))
        }
    }
}

fn registry(payload: &[u8]) -> Result<(), Broken> {
    let wrong = |what: String| Err((&REGISTRY as &'static Rule, what));
    let (size, count) = (word(payload, 0) as usize, word(payload, 4) as usize);
    let Some(table) = payload
        .get(..size)
        .filter(|table| table.len() >= 8 + 16 * count)
    else {
        return wrong(format!(
            "size {size:#x}, {count} entries, {:#x} bytes",
            payload.len()
        ));
    };
    for i in 0..count {
        let entry = &table[8 + 16 * i..][..16];
        let name = word(entry, 0) as usize;
        let (data, length) = (word(entry, 8) as usize, word(entry, 12) as usize);
        let ends = table.get(name..).is_some_and(|rest| rest.contains(&0));
        let fits = match entry[4] {
            1 => length == 4,
            2 | 3 => data.checked_add(length).is_some_and(|end| end <= size),
            _ => false,
        };
        if !ends || !fits || name < 8 + 16 * count {
            return wrong(format!("entry {i} is {entry:x?} of {size:#x} bytes"));
        }
    }
    Ok(())
}
