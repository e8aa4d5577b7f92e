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

use super::recording::Recording;
use crate::regs::Card;

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

    /// What a register at a byte address is called, on the only card, and the stage it belongs to.
    pub(super) fn register(&self, at: u64) -> (String, &'static str) {
        let place = self.0.values().find_map(|card| card.places.get(&at));
        match place {
            Some(place) => (name(place), stage(place.named)),
            None => (format!("register {at:#x}"), OTHER),
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
        let (stage, what, meaning) = self.place(device, access, value);
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
            is_write,
            text,
        }
    }

    /// Stage, name, and what a value there means.
    fn place(
        &mut self,
        device: &str,
        access: &Access,
        value: Option<u64>,
    ) -> (&'static str, String, Option<String>) {
        let verb = access.verb;
        let at = access.arg("offset");
        match verb {
            Verb::Read | Verb::Write | Verb::ReadBytes | Verb::WriteBytes => {
                match access.arg("bar") {
                    REGISTERS => self.in_registers(device, verb, at, value),
                    DOORBELLS => ("doorbells", format!("doorbell {}", at / 8), None),
                    VRAM => {
                        let (stage, what) = vram(at);
                        (stage, what, None)
                    }
                    bar => (OTHER, format!("BAR {bar} {at:#x}"), None),
                }
            }
            Verb::ConfigRead | Verb::ConfigWrite => ("bus", format!("config {at:#x}"), None),
            Verb::Load | Verb::Store | Verb::LoadBytes | Verb::StoreBytes => {
                ("memory", format!("memory {:#x}", access.arg("at")), None)
            }
            Verb::Ioctl => ("calls", access.name.clone(), None),
            _ => {
                let mut bare = access.clone();
                bare.data.clear();
                ("machine", bare.to_string(), None)
            }
        }
    }

    fn in_registers(
        &mut self,
        device: &str,
        verb: Verb,
        at: u64,
        value: Option<u64>,
    ) -> (&'static str, String, Option<String>) {
        let unnamed = (OTHER, format!("register {at:#x}"), None);
        let Some(card) = self.0.get_mut(device) else {
            return unnamed;
        };
        let Some(direct) = card.places.get(&at) else {
            return unnamed;
        };
        let place = match direct.named.reg.word.name {
            "BIF_BX_PF0_RSMU_INDEX" if verb == Verb::Write => {
                card.index = value.unwrap_or_default();
                direct
            }
            "BIF_BX_PF0_RSMU_DATA" => match card.places.get(&card.index) {
                Some(place) => place,
                None => return (OTHER, format!("register {:#x}", card.index), None),
            },
            _ => direct,
        };
        let word = place.named.reg.word;
        let meaning = value.map(|value| {
            let text = format!("{:?}", Value::<Gfxs>::new(word, card.gfx, value as u32));
            text.strip_prefix(word.name).unwrap_or(&text).to_owned()
        });
        (stage(place.named), name(place), meaning)
    }
}

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
