//! Trusted applications: each is loaded into a session, by which it is called and unloaded.

use std::collections::BTreeSet;

use drivers_spec::amd::psp::{ALIGN, InvokeCmd, LoadTa, UnloadTa};
use twin::rule::{Proof, Rule};
use twin_shader::page::Access;

use super::image;
use super::ring::{BAD_PARAMETERS, check, wide};
use crate::pci::state::State;

/// A session is there as long as its application.
pub static SESSION: Rule = Rule {
    name: "AMD-PSP-SESSION",
    text: "an application of the PSP is called and unloaded with the session number that loading it returned, until it \
           is unloaded",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/psp_gfx_if.h, psp_gfx_cmd_unload_ta and psp_gfx_cmd_invoke_cmd; amdgpu_psp.c, psp_ta_load",
    proof: Proof::Sourced,
};

/// What an application shares with the driver is there.
pub static SHARED: Rule = Rule {
    name: "AMD-PSP-SHARED",
    text: "memory that an application of the PSP shares with the driver is whole pages of 4 KiB that the PSP can write, \
           or empty",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/psp_gfx_if.h, psp_gfx_cmd_load_ta",
    proof: Proof::Sourced,
};

/// GlobalPlatform's TEE_ERROR_NOT_SUPPORTED: Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_psp.h.
const NOT_SUPPORTED: u32 = 0xffff_000a;

/// The sessions that there are.
#[derive(Default)]
pub(super) struct Apps {
    sessions: BTreeSet<u32>,
    /// The last that was given.
    last: u32,
}

/// Takes an application, also the secure OS's own part for them: the status, and its session.
pub(super) fn load(state: &mut State, app: &LoadTa) -> (u32, u32) {
    let at = wide(app.app_phy_addr_lo, app.app_phy_addr_hi);
    let kinds = [image::APPLICATION];
    let status = check(state, "an application", at, app.app_len.get(), &kinds);
    if status != 0 {
        return (status, 0);
    }
    let shared = wide(app.cmd_buf_phy_addr_lo, app.cmd_buf_phy_addr_hi);
    let bytes = u64::from(app.cmd_buf_len.get());
    let is_whole = shared.is_multiple_of(ALIGN) && bytes.is_multiple_of(ALIGN);
    let hub = state.hubs.mm(0);
    let is_there = |page| hub.translate(0, shared + page, Access::Write).is_ok();
    if !is_whole || !(0..bytes).step_by(ALIGN as usize).all(is_there) {
        let what = format!("{bytes:#x} bytes at {shared:#x}");
        state.journal.broken(&SHARED, what);
        return (BAD_PARAMETERS, 0);
    }
    let apps = &mut state.psp.apps;
    apps.last += 1;
    apps.sessions.insert(apps.last);
    (0, apps.last)
}

fn no_session(state: &State, what: &str, session: u32) -> u32 {
    let there = &state.psp.apps.sessions;
    let what = format!("{what} of session {session}, where there are {there:?}");
    state.journal.broken(&SESSION, what);
    BAD_PARAMETERS
}

pub(super) fn unload(state: &mut State, app: &UnloadTa) -> u32 {
    let session = app.session_id.get();
    match state.psp.apps.sessions.remove(&session) {
        true => 0,
        false => no_session(state, "UNLOAD_TA", session),
    }
}

/// What applications do is theirs, and not modelled: none takes a command.
pub(super) fn call(state: &State, call: &InvokeCmd) -> u32 {
    let (session, command) = (call.session_id.get(), call.ta_cmd_id.get());
    if !state.psp.apps.sessions.contains(&session) {
        return no_session(state, "INVOKE_CMD", session);
    }
    let what = format!("session {session} is called with {command:#x}: not modelled");
    state.journal.event(what);
    NOT_SUPPORTED
}
