//! The counter by which packets take times, for who reads it over the bus: in SMUIO from GFX11 on, before that in the
//! RLC of each XCC, which is asked to hold it. A reset does not stop it.
//!
//! Source: Linux, drivers/gpu/drm/amd/amdgpu/gfx_v11_0.c and gfx_v9_4_3.c, `get_gpu_clock_counter`.

use drivers_spec::amd::mmio::{GOLDEN_TSC_COUNT_LOWER, GOLDEN_TSC_COUNT_UPPER, gc};
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use super::graphics;
use super::registers::{At, Hook};
use super::state::State;

/// Halves of one moment.
pub static CAPTURE: Rule = Rule {
    name: "GFX-CLOCK-CAPTURE",
    text: "RLC_GPU_CLOCK_COUNT_LSB and MSB are read after RLC_CAPTURE_GPU_CLOCK_COUNT was written with CAPTURE",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/gfx_v9_4_3.c, gfx_v9_4_3_get_gpu_clock_counter",
    proof: Proof::Sourced,
};

pub(super) const HOOKS: &[Hook] = &[
    Hook::read(&GOLDEN_TSC_COUNT_UPPER, upper),
    Hook::read(&GOLDEN_TSC_COUNT_LOWER, lower),
    Hook::write(&gc::RLC_CAPTURE_GPU_CLOCK_COUNT, capture),
    Hook::read(&gc::RLC_GPU_CLOCK_COUNT_LSB, low),
    Hook::read(&gc::RLC_GPU_CLOCK_COUNT_MSB, high),
];

fn upper(state: &mut State, _: At) -> Result<u32, Broken> {
    Ok((state.engines.clock() >> 32) as u32)
}

fn lower(state: &mut State, _: At) -> Result<u32, Broken> {
    Ok(state.engines.clock() as u32)
}

fn capture(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    let now = state.engines.clock();
    if value & 1 == 1 {
        graphics::xcc(state, at)?.clock = Some(now);
    }
    Ok(())
}

fn captured(state: &mut State, at: At) -> Result<u64, Broken> {
    let clock = graphics::xcc(state, at)?.clock;
    clock.ok_or_else(|| (&CAPTURE, at.reg.word.name.to_owned()))
}

fn low(state: &mut State, at: At) -> Result<u32, Broken> {
    Ok(captured(state, at)? as u32)
}

fn high(state: &mut State, at: At) -> Result<u32, Broken> {
    Ok((captured(state, at)? >> 32) as u32)
}
