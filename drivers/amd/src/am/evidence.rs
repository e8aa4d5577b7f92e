//! What can be read of a card when something has gone wrong: where its queues are by its own registers, the walk of
//! the page tables to an address, the firmware that it was started with. Nothing is changed by looking.

use drivers_bundle::schema::{Firmware, Register, Step};
use drivers_bundle::{Evidence, Hex};
use drivers_gpu::interface::Exception;
use drivers_spec::amd::mmio::{Reg, gc, mmhub, osssys};
use drivers_spec::amd::packet::Gfxs;
use drivers_spec::amd::pte;
use firmware_tools::search::Search;
use hcq::reg::block::Registers;
use hcq::reg::error::RegError;
use hcq::transport::TransportError;

use super::areas::ROOT;
use super::card::Card;
use super::firmware;
use super::pages::START;
use super::running::Running;
use super::waves;
use super::xcc::Bank;

/// What a graphics block says of all of its work.
const BLOCK: [&Reg; 4] = [
    &gc::GRBM_STATUS,
    &gc::GRBM_STATUS2,
    &gc::CP_STAT,
    &gc::SCRATCH_REG6,
];

/// What a slot says of its compute queue.
const SLOT: [&Reg; 5] = [
    &gc::CP_HQD_ACTIVE,
    &gc::CP_HQD_PQ_RPTR,
    &gc::CP_HQD_PQ_WPTR_LO,
    &gc::CP_HQD_PQ_WPTR_HI,
    &gc::CP_HQD_PQ_DOORBELL_CONTROL,
];

/// Slots that are looked at.
const SLOTS: u32 = 2;

/// Names of levels, root first.
const LEVELS: [&str; 4] = ["PDB2", "PDB1", "PDB0", "PTB"];

/// Everything, with regard to an exception if there was one.
pub(super) fn of(running: &Running, search: &Search, exception: Option<&Exception>) -> Evidence {
    let card = running.card();
    let mut found = Evidence {
        way: card.pci().condition(),
        ..Evidence::default()
    };
    if card.has_left() {
        let nothing = "registers, page tables and waves: the card has left the bus";
        found.missing.push(nothing.into());
        return found;
    }
    if let Some(Exception::Memory(fault)) = exception {
        match walk(card, fault.va) {
            Ok(steps) => found.walk = steps,
            Err(error) => found.missing.push(format!("page tables: {error}")),
        }
    }
    for xcc in running.gfx().xccs() {
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
    for xcc in running.gfx().xccs() {
        match waves::of(xcc, &units) {
            Ok(Some(waves)) => found.shader_waves.extend(waves),
            Ok(None) => {
                let waves = "waves: where GPUs of this generation show them is not known here";
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
pub(super) fn places(running: &Running) -> Option<Vec<u64>> {
    if running.card().has_left() {
        return None;
    }
    let units = running.card().discovery().units;
    let mut found = Vec::new();
    for xcc in running.gfx().xccs() {
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

/// The walk of the tables of VMID 0 to an address, as a hub does it.
fn walk(card: &Card, va: u64) -> Result<Vec<Step>, TransportError> {
    let entries = pte::entries(card.gfx());
    let mut steps = Vec::new();
    // Tables count from the first address of the context.
    let Some(at) = va.checked_sub(START.0) else {
        return Ok(vec![Step {
            level: "context".into(),
            text: format!("below {}, where the addresses of the context start", START),
            ..Step::default()
        }]);
    };
    let mut table = ROOT.at.0;
    for (level, shift) in pte::SHIFTS.into_iter().enumerate() {
        let index = at >> shift & ((1 << pte::INDEX_BITS) - 1);
        let place = table + index * 8;
        let entry: u64 = card.vram().read(place)?;
        let to = entry & pte::ADDRESS.mask();
        let is_page = entries.is_leaf(level, entry);
        let text = match (pte::VALID.get(entry), is_page) {
            (0, _) => "not valid: nothing is mapped here".into(),
            (_, true) => page(entry, to),
            (_, false) => format!("leads to the table at VRAM {to:#x}"),
        };
        steps.push(Step {
            level: LEVELS[level].into(),
            at: Hex(place),
            entry: Hex(entry),
            text,
        });
        if is_page || pte::VALID.get(entry) == 0 {
            break;
        }
        table = to;
    }
    Ok(steps)
}

fn page(entry: u64, to: u64) -> String {
    let place = match pte::SYSTEM.get(entry) {
        0 => "VRAM",
        _ => "the host's memory, by the bus, at",
    };
    let may = [
        (pte::READABLE, "read"),
        (pte::WRITEABLE, "written"),
        (pte::EXECUTABLE, "executed"),
    ];
    let may = may.iter().filter(|(bit, _)| bit.get(entry) == 1);
    let may: Vec<_> = may.map(|(_, what)| *what).collect();
    format!("a page of {place} {to:#x}, which may be {}", may.join(", "))
}
