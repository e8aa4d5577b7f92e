//! Program counters of waves, read as the kernel driver's debugfs files do: each SIMD reports which of its slots have
//! a wave, and each wave its PC. Read-only; waves that keep running may appear twice.
//!
//! Source: Linux, amdgpu/gfx_v11_0.c, `gfx_v11_0_read_wave_data`, and amdgpu_debugfs.c, `amdgpu_debugfs_wave_read`.

use drivers_bundle::Hex;
use drivers_bundle::schema::Wave;
use drivers_spec::amd::mmio::gc;
use drivers_spec::amd::packet::Gfxs;
use drivers_spec::amd::sq;
use hcq::reg::block::Registers;
use hcq::reg::error::RegError;

use super::discovery::Units;
use super::xcc::{Bank, Xcc};

/// Waves that are read at most: a grid that hangs has thousands, which are all at the same few places.
const MOST: usize = 64;

/// Waves of an XCC; none where the places of these registers are not known for its generation.
///
/// # Errors
/// The transport's.
pub(super) fn of(xcc: &Xcc, units: &Units) -> Result<Option<Vec<Wave>>, RegError> {
    if xcc.registers().place(&gc::SQ_IND_INDEX).is_err() {
        return Ok(None);
    }
    // The lock prevents other selections.
    xcc.with(Bank::default(), |registers| {
        let found = read(&registers, units);
        // Whatever went wrong: later writes are for all units again.
        let all = [
            ("se_broadcast_writes", 1),
            ("sa_broadcast_writes", 1),
            ("instance_broadcast_writes", 1),
        ];
        let restored = registers.put(&gc::GRBM_GFX_INDEX, &all);
        let found = found?;
        restored?;
        Ok(Some(found))
    })
}

fn read(registers: &Registers<'_, Gfxs>, units: &Units) -> Result<Vec<Wave>, RegError> {
    let mut found = Vec::new();
    // A workgroup processor has two compute units.
    let simds = units.cus_per_array / 2 * sq::SIMDS;
    for engine in 0..units.engines {
        for array in 0..units.arrays_per_engine {
            for simd in 0..simds {
                let one = [
                    ("se_index", engine),
                    ("sa_index", array),
                    ("instance_index", simd),
                ];
                registers.put(&gc::GRBM_GFX_INDEX, &one)?;
                let active = indirect(registers, 0, sq::WAVE_ACTIVE)?;
                // A unit that is not there.
                if active == sq::ABSENT {
                    continue;
                }
                for slot in (0..sq::SLOTS).filter(|slot| active >> slot & 1 == 1) {
                    if found.len() == MOST {
                        return Ok(found);
                    }
                    let status = indirect(registers, slot, sq::WAVE_STATUS)?;
                    // It has ended since.
                    if sq::VALID.get(status) == 0 {
                        continue;
                    }
                    let (processor, simd) = (simd / sq::SIMDS, simd % sq::SIMDS);
                    found.push(Wave {
                        place: format!(
                            "SE {engine} SA {array} WGP {processor} SIMD {simd} wave {slot}"
                        ),
                        pc: wide(registers, slot, [sq::WAVE_PC_LO, sq::WAVE_PC_HI])?,
                        exec: wide(registers, slot, [sq::WAVE_EXEC_LO, sq::WAVE_EXEC_HI])?,
                        status: Hex(status.into()),
                        exceptions: Hex(indirect(registers, slot, sq::WAVE_TRAPSTS)?.into()),
                        in_barrier: sq::IN_BARRIER.get(status) == 1,
                        halted: sq::HALT.get(status) == 1,
                    });
                }
            }
        }
    }
    Ok(found)
}

fn indirect(registers: &Registers<'_, Gfxs>, slot: u32, register: u32) -> Result<u32, RegError> {
    let index = [("wave_id", slot), ("index", register)];
    registers.put(&gc::SQ_IND_INDEX, &index)?;
    Ok(registers.read(&gc::SQ_IND_DATA)?.bits())
}

fn wide(
    registers: &Registers<'_, Gfxs>,
    slot: u32,
    [low, high]: [u32; 2],
) -> Result<Hex, RegError> {
    let low = indirect(registers, slot, low)?;
    let high = indirect(registers, slot, high)?;
    Ok(Hex(u64::from(low) | u64::from(high) << 32))
}
