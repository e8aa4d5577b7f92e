//! [`Panel`]: the gauges of all GPUs of a machine, from kernel files, NVIDIA's resource manager, and, on request, the
//! SMU of AMD cards without a driver.

use std::sync::Arc;

use drivers_asm24::machine::{Bridged, bridges, is_open};
use drivers_nv::nvk::meters::{Meters, Reading};
use hcq::transport::{Clock, Machine, MonotonicClock, UsbDevice};

use crate::bus::OnBus;
use crate::gauges::{self, Gauges, Way, command};
use crate::look::metrics;
use crate::open::Twin;

/// NVIDIA's kernel driver.
const NVIDIA: &str = "nvidia";

/// The gauges of a machine. Keeps its sources open for cheap repeated reads.
pub struct Panel {
    machine: Twin,
    /// RM is asked where it has a card that is awake.
    nvidia: Option<Meters>,
    /// What cannot be asked, and why.
    notes: Vec<String>,
    smu: bool,
}

impl Panel {
    /// Of a machine; `smu` has AMD's power management asked, of cards that neither a kernel driver nor a program has:
    /// each is opened for a moment, in which no other program can have it.
    pub fn new(machine: Twin, smu: bool) -> Panel {
        let mut notes = Vec::new();
        let awake = |card: &Gauges| !card.asleep && card.card.driver.as_deref() == Some(NVIDIA);
        let nvidia = match gauges::read(&*machine).iter().any(awake) {
            true => match Meters::new(&*machine) {
                Ok(meters) => {
                    let refused = meters.without.iter();
                    notes.extend(refused.map(|(place, why)| format!("{place}: {why}")));
                    Some(meters)
                }
                Err(why) => {
                    notes.push(why.to_string());
                    None
                }
            },
            false => None,
        };
        Panel {
            machine,
            nvidia,
            notes,
            smu,
        }
    }

    /// Every GPU, in bus order, then USB bridges; and the sources that failed, with the reason.
    pub fn read(&self) -> (Vec<Gauges>, Vec<String>) {
        let (mut cards, mut notes) = (gauges::read(&*self.machine), self.notes.clone());
        let readings = self.nvidia.iter().flat_map(Meters::read);
        for reading in readings {
            let card = cards
                .iter_mut()
                .find(|card| card.card.address == reading.place);
            if let Some(card) = card {
                told(&*self.machine, card, reading);
            }
        }
        if self.smu {
            for card in &mut cards {
                if card.is_free() && card.card.arch.is_some() {
                    notes.extend(measure(&self.machine, card));
                }
            }
        }
        let silent = cards.iter().filter(|card| is_silent(&card.card));
        notes.extend(silent.map(|card| silence(&card.card)));
        let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
        let through = Bridged::over(&self.machine, &clock);
        for bridge in bridges(&*self.machine).unwrap_or_default() {
            let mut card = behind(&bridge);
            if self.smu && is_open(&bridge) {
                notes.extend(measure(&through, &mut card));
            }
            cards.push(card);
        }
        (cards, notes)
    }
}

/// Whether it is an NVIDIA card that no kernel driver measures.
fn is_silent(card: &OnBus) -> bool {
    card.kind() == Some("NV") && card.taken().is_none()
}

/// Why it has no gauges. From Ampere on its clocks, power and temperature are the resource manager's, of which one process
/// has the queues of messages; of registers, NVIDIA's documents and headers have those of other chips only.
fn silence(card: &OnBus) -> String {
    let has = match card.driver.as_deref() {
        Some(driver) => format!("{driver} has the card"),
        None => "no kernel driver has the card".into(),
    };
    format!(
        "{}: clocks, power and temperature: expected NVIDIA's kernel driver to tell them, found that {has}. The card's resource \
         manager answers only the process that has started it, and registers for them are not documented. Bound to NVIDIA's driver it tells them; \
         `doorbell doctor` says how to bind it",
        card.address
    )
}

/// What the SMU of a card tells, or why it tells nothing.
fn measure(machine: &Twin, card: &mut Gauges) -> Option<String> {
    match metrics(machine, &card.card.address) {
        Ok(Some(measured)) => {
            card.measured(&measured);
            None
        }
        Ok(None) => Some(format!(
            "{}: power management not started; it starts with the first program that uses the card",
            card.card.address
        )),
        Err(error) => Some(error.to_string()),
    }
}

/// What RM has told of a card.
fn told(machine: &dyn Machine, card: &mut Gauges, by: Reading) {
    card.memory_used = by.memory.map(|(used, _)| used);
    card.memory_total = by.memory.map(|(_, all)| all);
    card.busy = by.percent.map(f64::from);
    card.celsius = by.celsius;
    card.watts = by.watts;
    card.watts_most = by.most_watts;
    card.core_mhz = by.core_mhz.map(f64::from);
    card.memory_mhz = by.memory_mhz.map(f64::from);
    card.fan_rpm = by.fan_rpm.map(f64::from);
    card.users_known = by.users.is_some();
    let user = |(pid, memory)| gauges::User {
        pid,
        command: command(machine, pid).unwrap_or_else(|| "?".into()),
        memory,
        queues: None,
    };
    card.users = by.users.unwrap_or_default().into_iter().map(user).collect();
}

/// What is known of a bridge that is not opened.
fn behind(bridge: &UsbDevice) -> Gauges {
    let name = bridge.product_name.as_deref().unwrap_or("unnamed");
    let card = OnBus {
        address: bridge.port.clone(),
        id: format!("{:04x}:{:04x}", bridge.vendor, bridge.product),
        driver: None,
        arch: None,
        name: format!("bridge to PCIe ({name})"),
    };
    Gauges {
        link: Some(format!("{} Mbit/s", bridge.speed)),
        ..Gauges::of(card, Way::Usb)
    }
}
