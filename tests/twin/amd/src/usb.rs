//! A machine with cards behind USB3 bridges, and a process on it: what drivers of this repository open.
//!
//! The bridges and their cards are the machine's: a process that has gone leaves them as they are, and the next finds
//! them so ([`UsbMachine::again`]).
//!
//! The config string is that of cards on the bus ([`crate::pci::machine`]) with these keys:
//!
//! | key | value |
//! |---|---|
//! | `speed` | `super` (10 Gb/s, default) or `high` (USB2) |
//! | `copy` | MB/s of copies to and from the bridge's buffer; default: 700, 40 on USB2 |
//! | `round` | microseconds of a round trip; default: 25, 125 on USB2 |
//! | `hops` | bridges before the card, 1 to 4; default: 4, two of the bridge's and two of the card's |
//! | `power` | `off` (default) or `on`: whether the firmware gives the card power by itself |
//! | `training` | how many looks find the link in training after power has come; default: 0 |
//! | `retries` | how many configuration requests the card wants again; default: 0 |
//! | `trouble` | what goes wrong with a transfer, and after how many: `stall:N`, `short:N`, `late:N`, `vanish:N`, `unplug:N` |
//! | `away` | at how many looks for it an unplugged bridge is away; default: for good |
//! | `firmware` | `open` (default), or `stock`: the maker's, which is seen on the bus and stalls vendor requests |
//! | `reset` | `keeps`: firmware that keeps a copy over a reset of the device; default: `forgets` |

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hcq::mem::view::View;
use hcq::transport::{
    DevFile, Fault, Machine, PciFunction, PerProcess, Reserved, TransportError, UsbDevice, UsbPipe,
};
use twin::config::{Part, Wrong, number};
use twin::host::client::{self, Reservations};
use twin::pci::HostMemory;
use twin::rule::Journal;
use twin::usb::clock::Rates;
use twin::usb::{self, Bridge, Trouble, What};

use crate::pci::card::{self, Card};
use crate::pci::machine;

const KEYS: &str =
    "speed, copy, round, hops, power, training, retries, trouble, away, firmware, reset";

/// What a config string says.
#[derive(Clone, Debug)]
struct Config {
    card: card::Config,
    cards: usize,
    bridge: usb::Config,
    troubles: Vec<Trouble>,
    away: Option<u64>,
}

fn trouble(value: &str) -> Option<Trouble> {
    let (what, after) = value.split_once(':')?;
    let what = match what {
        "stall" => What::Stall,
        "short" => What::Short,
        "late" => What::Late,
        "vanish" => What::Vanish,
        "unplug" => What::Unplug,
        _ => return None,
    };
    let after = after.parse().ok()?;
    Some(Trouble { after, what })
}

fn parse(text: &str) -> Result<Config, Wrong> {
    let mut bridge = usb::Config::default();
    let mut troubles = Vec::new();
    let mut away = None;
    let (mut copy, mut round) = (None, None);
    let mut others = Vec::new();
    let keys = format!("{}, {KEYS}", machine::KEYS);
    for part in Part::all(text, &keys) {
        let part = part?;
        match part.key {
            "speed" => bridge.usb2 = part.word(&[("super", false), ("high", true)])?,
            "copy" => {
                let rate = number(part.value).filter(|rate: &u64| *rate > 0);
                copy = Some(rate.ok_or_else(|| part.wrong("MB/s"))? * 1_000_000);
            }
            "round" => {
                let time = number(part.value).ok_or_else(|| part.wrong("microseconds"))?;
                round = Some(Duration::from_micros(time));
            }
            "hops" => bridge.hops = part.within(1..=4)?,
            "power" => bridge.powered = part.word(&[("off", false), ("on", true)])?,
            "training" => bridge.training = part.number()?,
            "retries" => bridge.retries = part.number()?,
            "firmware" => bridge.stock = part.word(&[("open", false), ("stock", true)])?,
            "reset" => bridge.keeps = part.word(&[("forgets", false), ("keeps", true)])?,
            "trouble" => {
                let expected = "stall, short, late, vanish or unplug, a colon, a number";
                troubles.push(trouble(part.value).ok_or_else(|| part.wrong(expected))?);
            }
            "away" => away = Some(part.number()?),
            _ => others.push(format!("{}={}", part.key, part.value)),
        }
    }
    let usual = if bridge.usb2 {
        Rates::USB2
    } else {
        Rates::USB3
    };
    bridge.rates = Some(Rates {
        copy: copy.unwrap_or(usual.copy),
        round: round.unwrap_or(usual.round),
        ..usual
    });
    let parsed = machine::parse(&others.join(","));
    let (card, cards) = parsed.map_err(|why| match why.0.contains(machine::KEYS) {
        true => Wrong(format!("{why}, {KEYS}")),
        false => why,
    })?;
    Ok(Config {
        card,
        cards,
        bridge,
        troubles,
        away,
    })
}

/// The bridges of a machine.
struct Slots {
    chip: &'static str,
    bridges: Vec<Arc<Bridge>>,
    journal: Arc<Journal>,
    /// At how many more looks those that are out are away.
    away: Option<AtomicU64>,
}

/// A process on a machine with bridges.
pub struct UsbMachine {
    slots: Arc<Slots>,
    reservations: Reservations,
    kept: PerProcess,
}

impl UsbMachine {
    /// A machine with the bridges and cards that a config string says, and a process on it.
    ///
    /// # Errors
    /// What is wrong with the string, or what the host lacks.
    pub fn new(config: &str) -> Result<Arc<UsbMachine>, String> {
        let config = parse(config).map_err(|wrong| wrong.0)?;
        let journal = Arc::new(Journal::new());
        let mut bridges = Vec::new();
        for number in 0..config.cards {
            let port = format!("2-{}", number + 1);
            // Each bridge has a bus of its own.
            let memory = HostMemory::new();
            let card = card::Config {
                // The bridge's engine sends dwords.
                halves: true,
                seed: config.card.seed ^ (number as u64) << 48,
                ..config.card.clone()
            };
            let (name, to, told) = (
                format!("the card at {port}"),
                memory.clone(),
                journal.clone(),
            );
            let make = move || Card::function(&name, &card, &to, &told);
            let about = usb::Config {
                port: port.clone(),
                ..config.bridge.clone()
            };
            let bridge = Bridge::new(about, &memory, &journal, Box::new(make));
            let bridge = bridge.map_err(|errno| {
                let error = std::io::Error::from_raw_os_error(errno);
                format!("the host of the simulated bridge {port}: {error}")
            })?;
            for trouble in &config.troubles {
                bridge.inject(*trouble);
            }
            bridges.push(bridge);
        }
        let slots = Slots {
            chip: config.card.chip.name,
            bridges,
            journal,
            away: config.away.map(AtomicU64::new),
        };
        Ok(Self::on(Arc::new(slots)))
    }

    fn on(slots: Arc<Slots>) -> Arc<UsbMachine> {
        client::watch_forks();
        Arc::new(UsbMachine {
            slots,
            reservations: Reservations::default(),
            kept: PerProcess::default(),
        })
    }

    /// Another process on the same machine: it finds bridges and cards as they were left.
    #[must_use]
    pub fn again(&self) -> Arc<UsbMachine> {
        Self::on(self.slots.clone())
    }

    /// What happened to its bridges and cards.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.slots.journal
    }

    /// The chip of the first card.
    pub fn chip(&self) -> &'static str {
        self.slots.chip
    }

    /// A bridge by its number.
    pub fn bridge(&self, number: usize) -> Option<&Arc<Bridge>> {
        self.slots.bridges.get(number)
    }

    /// One that is out is in again after so many looks.
    fn look(&self) {
        let out = self
            .slots
            .bridges
            .iter()
            .filter(|bridge| bridge.found().is_none());
        for bridge in out {
            let less = |left: u64| left.checked_sub(1);
            let left = self
                .slots
                .away
                .as_ref()
                .map(|away| away.fetch_update(Ordering::AcqRel, Ordering::Acquire, less));
            if left.is_some_and(|left| left.is_err()) {
                bridge.plug();
            }
        }
    }
}

fn missing(path: &str, verb: &str) -> TransportError {
    TransportError::new(path, verb, Fault::Errno(libc::ENOENT))
}

impl Machine for UsbMachine {
    fn open(&self, path: &str) -> Result<Arc<dyn DevFile>, TransportError> {
        Err(missing(path, "open"))
    }

    fn read(&self, path: &str) -> Result<String, TransportError> {
        Err(missing(path, "read"))
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TransportError> {
        Err(missing(path, "list"))
    }

    fn pci_functions(&self) -> Result<Vec<PciFunction>, TransportError> {
        Ok(Vec::new())
    }

    fn usb_devices(&self) -> Result<Vec<UsbDevice>, TransportError> {
        self.look();
        let bridges = self.slots.bridges.iter();
        Ok(bridges.filter_map(|bridge| bridge.found()).collect())
    }

    fn open_usb(&self, port: &str) -> Result<Arc<dyn UsbPipe>, TransportError> {
        let at = |bridge: &&Arc<Bridge>| bridge.found().is_some_and(|found| found.port == port);
        let bridge = self.slots.bridges.iter().find(at);
        let pipe = bridge.and_then(Bridge::open);
        let pipe =
            pipe.ok_or_else(|| TransportError::new(port, "open", Fault::Errno(libc::ENODEV)))?;
        Ok(pipe)
    }

    fn reserve(&self, bytes: u64, align: u64, below: u64) -> Result<Reserved, TransportError> {
        let reserved = self.reservations.reserve(bytes, align, below);
        let what = || format!("reserve {bytes:#x} bytes, aligned to {align:#x}, below {below:#x}");
        reserved.map_err(|fault| TransportError::new("twin memory", what(), fault))
    }

    fn memory(&self, bytes: u64, align: u64) -> Result<View, TransportError> {
        let what = || format!("map {bytes:#x} bytes, aligned to {align:#x}");
        let memory = client::memory(bytes, align);
        memory.map_err(|fault| TransportError::new("twin memory", what(), fault))
    }

    fn per_process(&self) -> &PerProcess {
        &self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_the_bridges_that_its_config_says() {
        let config =
            "chip=gfx1201,gpus=2,speed=high,hops=2,power=on,trouble=unplug:1,away=1,copy=30";
        let machine = UsbMachine::new(config).unwrap();
        assert_eq!(machine.chip(), "gfx1201");
        let found = machine.usb_devices().unwrap();
        let ports: Vec<_> = found.iter().map(|found| found.port.as_str()).collect();
        assert_eq!((ports, found[0].speed), (vec!["2-1", "2-2"], 480));
        assert!(machine.bridge(0).unwrap().function().is_some());
        assert!(machine.open_usb("2-3").is_err());
        let pipe = machine.open_usb("2-1").unwrap();
        let setup = hcq::transport::Setup {
            request_type: 0xc0,
            request: 0xe4,
            value: 0xb450,
            index: 0,
        };
        let second = Duration::from_secs(1);
        let look = || {
            pipe.control_in(setup, &mut [0], second)
                .map_err(|e| e.fault)
        };
        assert_eq!(
            (look(), look(), look()),
            (Ok(1), Err(Fault::Gone), Err(Fault::Gone))
        );
        // Away at one look, back at the next.
        let again = machine.again();
        assert_eq!(again.usb_devices().unwrap().len(), 1);
        let found = again.usb_devices().unwrap();
        assert_eq!((found.len(), found[0].number), (2, 3));
        assert!(again.open_usb("2-1").is_ok());
        assert!(machine.journal().violations().is_empty());
        for (config, text) in [
            ("chip=gfx900", "no chip 'gfx900'; known behind PCI: gfx1100"),
            ("hop=2", "'hop' is no key; keys: chip"),
            ("hop=2", "speed, copy"),
            ("hops=5", "hops=5: expected 1 to 4"),
            ("speed=low", "speed=low: expected super or high"),
            ("trouble=stall", "trouble=stall: expected stall, short"),
            ("power", "'power': expected key=value"),
            ("power=", "power=: expected off or on"),
            ("copy=0", "copy=0: expected MB/s"),
        ] {
            let error = UsbMachine::new(config).err().unwrap();
            assert!(error.contains(text), "{error}");
        }
    }
}
