//! What waves are at, as the debug files of the kernel driver read it: GRBM_GFX_INDEX selects a SIMD, SQ_IND_INDEX a
//! wave of it and one of its registers. Waves that have run for long are shown; which SIMD has which is a choice.

use drivers_spec::amd::mmio::gc;
use drivers_spec::amd::sq;
use twin::pci::Broken;
use twin::rule::{Proof, Rule};
use twin_shader::launch::Standing;

use super::registers::{At, Hook};
use super::state::State;

/// A wave is one of a SIMD.
pub static SELECT: Rule = Rule {
    name: "GFX-SQ-SELECT",
    text: "SQ_IND_DATA is read while GRBM_GFX_INDEX selects one existing shader engine, array and SIMD, not all of them",
    source: "Linux, gfx_v11_0.c, gfx_v11_0_read_wave_data; amdgpu_debugfs.c, amdgpu_debugfs_wave_read",
    proof: Proof::Sourced,
};

/// What is read of it is there.
pub static REGISTER: Rule = Rule {
    name: "GFX-SQ-REGISTER",
    text: "SQ_IND_INDEX names an existing wave slot of a SIMD, and a modelled wave register from the headers",
    source: "Linux, gc_11_0_0_offset.h, ixSQ_WAVE_*",
    proof: Proof::Sourced,
};

/// Arrays of an engine, and workgroup processors of an array, as the discovery binary tells them.
const ARRAYS: u32 = 2;
const PROCESSORS: u32 = 4;

pub(super) const HOOKS: &[Hook] = &[Hook::read(&gc::SQ_IND_DATA, read)];

/// The number of the SIMD that is selected, and how many there are.
fn simd(state: &State, instance: u8) -> Result<(u32, u32), Broken> {
    let reg = &gc::GRBM_GFX_INDEX;
    let field = |name: &str| state.field(reg, instance, name);
    let all = [
        "se_broadcast_writes",
        "sa_broadcast_writes",
        "instance_broadcast_writes",
    ];
    let all = all.map(|of| field(of) == 1);
    let (engine, array, unit) = (
        field("se_index"),
        field("sa_index"),
        field("instance_index"),
    );
    let (processor, simd) = (unit / sq::SIMDS, unit % sq::SIMDS);
    let engines = state.config.chip.engines;
    if all.contains(&true) || engine >= engines || array >= ARRAYS || processor >= PROCESSORS {
        let value = state.registers.get(reg, instance);
        return Err((&SELECT, format!("{} is {value:#x}", reg.word.name)));
    }
    let number = ((simd * PROCESSORS + processor) * ARRAYS + array) * engines + engine;
    Ok((number, engines * ARRAYS * PROCESSORS * sq::SIMDS))
}

fn read(state: &mut State, at: At) -> Result<u32, Broken> {
    let (simd, simds) = simd(state, at.instance)?;
    let index = &gc::SQ_IND_INDEX;
    let (slot, register) = (
        state.field(index, at.instance, "wave_id"),
        state.field(index, at.instance, "index"),
    );
    let waves = state.engines.waves();
    // Work is spread over SIMDs first.
    let wave = |slot: u32| waves.get((slot * simds + simd) as usize);
    if register == sq::WAVE_ACTIVE {
        let active = (0..sq::SLOTS).filter(|slot| wave(*slot).is_some());
        return Ok(active.fold(0, |all, slot| all | 1 << slot));
    }
    let known = [
        sq::WAVE_STATUS,
        sq::WAVE_TRAPSTS,
        sq::WAVE_PC_LO,
        sq::WAVE_PC_HI,
        sq::WAVE_EXEC_LO,
        sq::WAVE_EXEC_HI,
    ];
    if !known.contains(&register) || slot >= sq::SLOTS {
        let what = format!("register {register:#x} of wave {slot}");
        return Err((&REGISTER, what));
    }
    Ok(wave(slot).map_or(sq::ABSENT, |wave| word(wave, register)))
}

fn word(wave: &Standing, register: u32) -> u32 {
    match register {
        sq::WAVE_STATUS => {
            sq::VALID.put(1)
                | sq::IN_BARRIER.put(wave.in_barrier.into())
                | sq::HALT.put(wave.halted.into())
        }
        sq::WAVE_PC_LO => wave.pc as u32,
        sq::WAVE_PC_HI => (wave.pc >> 32) as u32,
        sq::WAVE_EXEC_LO => wave.exec as u32,
        sq::WAVE_EXEC_HI => (wave.exec >> 32) as u32,
        // No exceptions: a wave that meets one ends its queue here.
        _ => 0,
    }
}
