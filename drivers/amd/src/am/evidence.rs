//! What can be read of a card when something has gone wrong: where its queues are by its own registers, where waves are,
//! the firmware that it was started with. Nothing is changed by looking.

use drivers_bundle::schema::{Firmware, Register};
use drivers_bundle::{Evidence, Hex};
use drivers_spec::amd::mmio::{Reg, gc, mmhub, osssys};
use drivers_spec::amd::packet::Gfxs;
use firmware_tools::search::Search;
use hcq::reg::block::Registers;
use hcq::reg::error::RegError;

use super::card::Card;
use super::firmware;
use super::waves;
use super::xcc::{Bank, Xcc};

/// Status registers of a graphics block.
const BLOCK: [&Reg; 6] = [
    &gc::GRBM_STATUS,
    &gc::GRBM_STATUS2,
    &gc::CP_STAT,
    &gc::CP_MEC_CNTL,
    &gc::CP_MEC_RS64_CNTL,
    &gc::SCRATCH_REG6,
];

/// Registers of a slot with a compute queue.
const SLOT: [&Reg; 5] = [
    &gc::CP_HQD_ACTIVE,
    &gc::CP_HQD_PQ_RPTR,
    &gc::CP_HQD_PQ_WPTR_LO,
    &gc::CP_HQD_PQ_WPTR_HI,
    &gc::CP_HQD_PQ_DOORBELL_CONTROL,
];

/// Slots that are looked at.
const SLOTS: u32 = 2;

/// Everything but page tables.
pub(super) fn of(card: &Card, xccs: &[Xcc], search: &Search) -> Evidence {
    let mut found = Evidence::default();
    for xcc in xccs {
        let name = &*xcc.block().name;
        read(&mut found, &xcc.registers(), (name, ""), &BLOCK);
        for queue in 0..SLOTS {
            let bank = Bank {
                me: 1,
                queue,
                ..Bank::default()
            };
            let slot = format!(" of queue {queue}");
            let looked = xcc.with(bank, |registers| {
                read(&mut found, &registers, (name, &slot), &SLOT);
                Ok::<_, RegError>(())
            });
            if let Err(error) = looked {
                missed(&mut found, &error);
            }
        }
    }
    let blocks = card.blocks();
    let interrupts = [&osssys::IH_RB_WPTR, &osssys::IH_RB_RPTR];
    let ih = &blocks.osssys;
    read(&mut found, &card.registers(ih), (&ih.name, ""), &interrupts);
    for block in &blocks.mmhub {
        let fault = [&mmhub::MMVM_L2_PROTECTION_FAULT_STATUS];
        read(
            &mut found,
            &card.registers(block),
            (&block.name, ""),
            &fault,
        );
    }
    let units = card.discovery().units;
    for xcc in xccs {
        match waves::of(xcc, &units) {
            Ok(Some(waves)) => found.shader_waves.extend(waves),
            Ok(None) => {
                let waves = "waves: registers unknown for this GPU generation";
                found.missing.push(waves.into());
                break;
            }
            Err(error) => found.missing.push(format!("waves: {error}")),
        }
    }
    match firmware::find(card, search) {
        Ok(files) => {
            let files = files.sums();
            found.firmware = files
                .map(|(name, sha256)| Firmware {
                    name: name.into(),
                    version: None,
                    sha256: Some(sha256),
                })
                .collect();
        }
        Err(error) => found.missing.push(format!("firmware: {error}")),
    }
    found
}

/// Where waves are, for who compares it with another look; none where GPUs of this generation do not show that, or it
/// cannot be read.
pub(super) fn places(card: &Card, xccs: &[Xcc]) -> Option<Vec<u64>> {
    let units = card.discovery().units;
    let mut found = Vec::new();
    for xcc in xccs {
        let waves = waves::of(xcc, &units).ok()??;
        found.extend(waves.iter().flat_map(|wave| [wave.pc.0, wave.exec.0]));
    }
    Some(found)
}

/// Reads registers of a block of that name.
fn read(found: &mut Evidence, of: &Registers<'_, Gfxs>, (block, what): (&str, &str), all: &[&Reg]) {
    for register in all {
        // Not every generation has all of them.
        if of.place(register).is_err() {
            continue;
        }
        match of.read(register) {
            Ok(value) => found.registers.push(Register {
                name: format!("{block}.{}{what}", register.word.name),
                value: Hex(value.bits().into()),
                text: format!("{block}.{value:?}{what}"),
            }),
            Err(error) => missed(found, &error),
        }
    }
}

/// Notes what could not be read; of what fails for one reason, the first.
fn missed(found: &mut Evidence, error: &RegError) {
    let why = error.fault.to_string();
    if !found.missing.iter().any(|said| said.ends_with(&why)) {
        found.missing.push(error.to_string());
    }
}
