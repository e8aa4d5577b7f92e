//! The counter by which packets take times (SMUIO), for who reads it over the bus. A reset does not stop it.
//!
//! Source: Linux, drivers/gpu/drm/amd/amdgpu/gfx_v11_0.c, gfx_v11_0_get_gpu_clock_counter.

use drivers_spec::amd::mmio::{GOLDEN_TSC_COUNT_LOWER, GOLDEN_TSC_COUNT_UPPER};
use twin::pci::Broken;

use super::registers::{At, Hook};
use super::state::State;

pub(super) const HOOKS: &[Hook] = &[
    Hook::read(&GOLDEN_TSC_COUNT_UPPER, upper),
    Hook::read(&GOLDEN_TSC_COUNT_LOWER, lower),
];

fn upper(state: &mut State, _: At) -> Result<u32, Broken> {
    Ok((state.engines.clock() >> 32) as u32)
}

fn lower(state: &mut State, _: At) -> Result<u32, Broken> {
    Ok(state.engines.clock() as u32)
}
