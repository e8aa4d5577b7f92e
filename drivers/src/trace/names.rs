//! [`Names`]: the meaning of the lines of a recording. Register offsets come from the recording itself, which starts
//! with the card's discovery table.

use std::collections::BTreeMap;
use std::sync::Arc;

use drivers_amd::am::areas;
use drivers_spec::amd::discovery as ip;
use drivers_spec::amd::mmio::tables::Named;
use drivers_spec::amd::packet::{Gfx, Gfxs};
use drivers_spec::fields::{self, Drivers, Drm};
use drivers_spec::nv::abi::Branch;
use hcq::reg::Value;
use hcq::transport::Pci;
use hcq::transport::access::{Access, Record, Verb};
use hcq::transport::tap::Tapped;

use super::messages;
use super::recording::Recording;
use crate::regs::Card;

/// All stages, in the order of a start.
pub const STAGES: [&str; 15] = [
    "machine",
    "memory",
    CALLS,
    "bus",
    "PSP",
    "SMU",
    "IH",
    "HDP",
    "MMHUB",
    "GCHUB",
    "SDMA",
    "GFX",
    "VRAM",
    "doorbells",
    OTHER,
];

/// BARs of AMD's cards: VRAM, doorbells, registers.
const VRAM: u64 = 0;
const DOORBELLS: u64 = 2;
const REGISTERS: u64 = 5;

/// A register of a card.
#[derive(Clone, Debug)]
struct Place {
    block: String,
    named: Named,
}

/// The registers of a card, by their byte addresses.
struct Registers {
    gfx: Gfx,
    places: BTreeMap<u64, Place>,
    /// What the index of the pair that reaches beyond the BAR holds.
    index: u64,
}

/// What an access means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    /// What it belongs to: `PSP`, `GFX`, `bus`.
    pub stage: &'static str,
    /// What is accessed: `MP0.MP0_SMN_C2PMSG_35`, `config 0x4`.
    pub what: String,
    /// What was read or written there, where that is a number.
    pub value: Option<u64>,
    /// The vendor's name of the message that the value is.
    pub message: Option<&'static str>,
    /// Whether it was written.
    pub is_write: bool,
    /// All of it, for people.
    pub text: String,
}

/// Cards whose registers get names; a machine has a few.
const CARDS: usize = 64;

/// The names of a recording. Lines are told in their order: an index says what the data behind it is.
#[derive(Default)]
pub struct Names(BTreeMap<String, Registers>);

impl Names {
    /// The names of the cards that a recording opens.
    pub fn of(recording: &Recording) -> Names {
        let mut names = Names::default();
        for entry in &recording.entries {
            let record = &entry.record;
            let is_pci = matches!(record.access.verb, Verb::ConfigRead | Verb::Bar);
            if !is_pci || names.0.contains_key(&record.device) {
                continue;
            }
            // Each is opened, and has thousands of registers.
            if names.0.len() >= CARDS {
                break;
            }
            // What opened it then opens it now: the same questions get the same answers.
            let tape = recording.tape_of(&record.device);
            let pci: Arc<Tapped<dyn Pci>> = Tapped::alone(&record.device, Arc::new(tape));
            let known = Card::open(pci).map(|card| Registers {
                gfx: card.gfx(),
                places: card
                    .all()
                    .map(|(at, block, named)| (at, Place { block, named }))
                    .collect(),
                index: 0,
            });
            // Without names there are still numbers.
            let none = Registers {
                gfx: Gfx::Gfx11,
                places: BTreeMap::new(),
                index: 0,
            };
            names.0.insert(record.device.clone(), known.unwrap_or(none));
        }
        names
    }

    /// How many registers have names.
    pub fn registers(&self) -> usize {
        self.0.values().map(|card| card.places.len()).sum()
    }

    /// What a register at a byte address is called, on the only card, the stage it belongs to, and the message that a value
    /// in it is.
    pub(super) fn register(
        &self,
        at: u64,
        value: u64,
    ) -> (String, &'static str, Option<&'static str>) {
        let mut cards = self.0.values();
        let found = cards.find_map(|card| Some((card.gfx, card.places.get(&at)?)));
        match found {
            Some((gfx, place)) => {
                let message = messages::in_mailbox(place.named.reg.word.name, gfx, value as u32);
                (name(place), stage(place.named), message)
            }
            None => (format!("register {at:#x}"), OTHER, None),
        }
    }

    /// The fields in which two values of a register differ, as `name 1 -> 2`.
    pub fn differences(&self, what: &str, first: u64, second: u64) -> Vec<String> {
        let cards = self.0.values();
        let mut all = cards.flat_map(|card| card.places.values().map(|place| (card.gfx, place)));
        let Some((gfx, place)) = all.find(|(_, place)| name(place) == what) else {
            return Vec::new();
        };
        let fields = place.named.reg.word.fields.iter();
        let fields = fields.filter(|field| field.on.has(gfx));
        let both = fields.map(|field| (field, field.get(first as u32), field.get(second as u32)));
        both.filter(|(_, a, b)| a != b)
            .map(|(field, a, b)| format!("{} {a:#x} -> {b:#x}", field.name))
            .collect()
    }

    /// What an access means.
    pub fn tell(&mut self, record: &Record) -> Told {
        let Record {
            device,
            access,
            answer,
        } = record;
        let is_write = matches!(
            access.verb,
            Verb::Write | Verb::WriteBytes | Verb::ConfigWrite | Verb::Store | Verb::StoreBytes
        );
        let value = match is_write {
            true => access
                .verb
                .args()
                .contains(&"value")
                .then(|| access.arg("value")),
            false => answer
                .as_ref()
                .ok()
                .and_then(|answer| answer.values.first().copied()),
        };
        let Meant {
            stage,
            what,
            meaning,
            message,
        } = self.place(device, access, value);
        let command = psp_command(access);
        let value = value.or(command.map(|(id, _)| id.into()));
        let message = message.or(command.map(|(_, name)| name));
        let mut text = match (is_write, &access.verb) {
            (true, _) => format!("write {what}"),
            (
                false,
                Verb::Read | Verb::ReadBytes | Verb::ConfigRead | Verb::Load | Verb::LoadBytes,
            ) => format!("read {what}"),
            _ => what.clone(),
        };
        match (meaning, value) {
            (Some(meaning), _) => text += &meaning,
            (None, Some(value)) => text += &format!(" {value:#x}"),
            (None, None) => {}
        }
        if let Some(message) = message {
            text += &format!(" {message}");
        }
        let bytes = match (is_write, answer) {
            (true, _) => access.data.len(),
            (false, Ok(answer)) => answer.data.len(),
            _ => 0,
        };
        if bytes > 0 && access.verb != Verb::Ioctl {
            text += &format!(" ({bytes} bytes)");
        }
        if let Err(fault) = answer {
            text += &format!(" failed: {fault}");
        }
        Told {
            stage,
            what,
            value,
            message,
            is_write,
            text,
        }
    }

    /// What is accessed, and what a value there means.
    fn place(&mut self, device: &str, access: &Access, value: Option<u64>) -> Meant {
        let verb = access.verb;
        let at = access.arg("offset");
        match verb {
            Verb::Read | Verb::Write | Verb::ReadBytes | Verb::WriteBytes => {
                match access.arg("bar") {
                    REGISTERS => self.in_registers(device, verb, at, value),
                    DOORBELLS => Meant::plain("doorbells", format!("doorbell {}", at / 8)),
                    VRAM => {
                        let (stage, what) = vram(at);
                        Meant::plain(stage, what)
                    }
                    bar => Meant::plain(OTHER, format!("BAR {bar} {at:#x}")),
                }
            }
            Verb::ConfigRead | Verb::ConfigWrite => Meant::plain("bus", format!("config {at:#x}")),
            Verb::Load | Verb::Store | Verb::LoadBytes | Verb::StoreBytes => {
                Meant::plain("memory", format!("memory {:#x}", access.arg("at")))
            }
            Verb::Ioctl => Meant::plain(CALLS, access.name.clone()),
            _ => {
                let mut bare = access.clone();
                bare.data.clear();
                Meant::plain("machine", bare.to_string())
            }
        }
    }

    fn in_registers(&mut self, device: &str, verb: Verb, at: u64, value: Option<u64>) -> Meant {
        let unnamed = |at: u64| Meant::plain(OTHER, format!("register {at:#x}"));
        let Some(card) = self.0.get_mut(device) else {
            return unnamed(at);
        };
        let Some(direct) = card.places.get(&at) else {
            return unnamed(at);
        };
        let place = match direct.named.reg.word.name {
            "BIF_BX_PF0_RSMU_INDEX" if verb == Verb::Write => {
                card.index = value.unwrap_or_default();
                direct
            }
            "BIF_BX_PF0_RSMU_DATA" => match card.places.get(&card.index) {
                Some(place) => place,
                None => return unnamed(card.index),
            },
            _ => direct,
        };
        let word = place.named.reg.word;
        let meaning = value.map(|value| {
            let text = format!("{:?}", Value::<Gfxs>::new(word, card.gfx, value as u32));
            text.strip_prefix(word.name).unwrap_or(&text).to_owned()
        });
        let message =
            value.and_then(|value| messages::in_mailbox(word.name, card.gfx, value as u32));
        Meant {
            stage: stage(place.named),
            what: name(place),
            meaning,
            message,
        }
    }
}

/// What an access is of, and what its value means.
struct Meant {
    stage: &'static str,
    what: String,
    /// The value by its fields.
    meaning: Option<String>,
    /// The vendor's name of the message that it is.
    message: Option<&'static str>,
}

impl Meant {
    /// A place whose values are numbers.
    fn plain(stage: &'static str, what: String) -> Meant {
        Meant {
            stage,
            what,
            meaning: None,
            message: None,
        }
    }
}

/// The command for the PSP's ring that an access writes, with its name.
fn psp_command(access: &Access) -> Option<messages::Row> {
    let is_start = access.verb == Verb::WriteBytes
        && access.arg("bar") == VRAM
        && access.arg("offset") == areas::PSP_COMMAND.at.0;
    is_start.then(|| messages::command(&access.data)).flatten()
}

/// The stage of calls of a kernel driver.
pub const CALLS: &str = "calls";

/// What belongs to nothing that is known.
const OTHER: &str = "other";

fn name(place: &Place) -> String {
    format!("{}.{}", place.block, place.named.reg.word.name)
}

/// The stage of a start that a register belongs to: that of its block, and in the graphics block of its part.
fn stage(named: Named) -> &'static str {
    let name = named.reg.word.name;
    let starts = |parts: &[&str]| parts.iter().any(|part| name.starts_with(part));
    match named.hw_id {
        ip::MP0 => "PSP",
        ip::MP1 => "SMU",
        ip::OSSSYS => "IH",
        ip::HDP => "HDP",
        ip::MMHUB => "MMHUB",
        ip::GC if starts(&["GCVM", "GCMC", "VM_", "MC_VM"]) => "GCHUB",
        ip::GC if starts(&["SDMA"]) => "SDMA",
        ip::GC => "GFX",
        ip::SDMA0 => "SDMA",
        _ => "bus",
    }
}

/// What lies at a place in VRAM.
fn vram(at: u64) -> (&'static str, String) {
    const KNOWN: [(areas::Area, &str, &str); 12] = [
        (areas::ROOT, "GCHUB", "root of the page tables"),
        (areas::SCRATCH_PAGE, "MMHUB", "scratch page"),
        (areas::DUMMY_PAGE, "MMHUB", "dummy page"),
        (areas::IH_RING0, "IH", "interrupt ring 0"),
        (areas::IH_WPTR0, "IH", "write pointer of interrupt ring 0"),
        (areas::IH_RING1, "IH", "interrupt ring 1"),
        (areas::PSP_COMMAND, "PSP", "PSP command"),
        (areas::PSP_FENCE, "PSP", "PSP fence"),
        (areas::PSP_RING, "PSP", "PSP ring"),
        (areas::SMU_TABLE, "SMU", "SMU table"),
        (areas::MQDS, "GFX", "queue descriptors"),
        (areas::PSP_FIRMWARE, "PSP", "firmware"),
    ];
    let found = KNOWN
        .iter()
        .find(|(area, ..)| (area.at.0..area.end()).contains(&at));
    match found {
        Some((area, stage, name)) => (
            stage,
            format!("VRAM {at:#x} ({name} + {:#x})", at - area.at.0),
        ),
        None => ("VRAM", format!("VRAM {at:#x}")),
    }
}

/// An ioctl by its fields, as a line.
pub fn ioctl(record: &Record) -> Option<String> {
    let access = &record.access;
    if access.verb != Verb::Ioctl {
        return None;
    }
    let after = record
        .answer
        .as_ref()
        .map_or(&[][..], |answer| &answer.data[..]);
    let request = access.arg("request") as u32;
    let drivers = Drivers {
        nvidia: Branch::R580,
        drm: match access.name.starts_with("DRM_IOCTL_MSM_") {
            true => Drm::Msm,
            false => Drm::Amdgpu,
        },
    };
    fields::describe(drivers, request, &access.data, after)
}

#[cfg(test)]
mod tests {
    use drivers_spec::amd::mmio::tables;

    use super::*;

    #[test]
    fn every_stage_is_in_the_list() {
        for named in tables::all() {
            assert!(STAGES.contains(&stage(named)), "{}", stage(named));
        }
        for at in (0..1 << 24).step_by(0x1000) {
            assert!(STAGES.contains(&vram(at).0), "{at:#x}");
        }
    }
}
