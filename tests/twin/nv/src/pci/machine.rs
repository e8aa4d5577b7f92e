//! A machine with cards and no kernel driver for them, and a process on it: what drivers of this repository open.
//!
//! The cards are the machine's: a process that has gone leaves them as they are, and the next finds them so
//! ([`PciMachine::again`]).
//!
//! The config string is a list of `key=value` with commas between; `""` is one ad102.
//!
//! | key | value |
//! |---|---|
//! | `chip` | one of [`CHIPS`], also as compilers call them (`sm_89`) |
//! | `gpus` | how many of it, 1 to 8 |
//! | `bar1` | bytes of BAR 1, a power of two, as firmware has resized it: `32G`; default: 256 MiB |
//! | `before` | `driver`: one has left GSP's firmware running, and its memory is gone; default: `nobody` |
//! | `looks` | how many looks find what a driver waits for not done yet; default: 2 |
//! | `never` | what is never done: one of [`WAITS`] |
//! | `stuck` | which of the things that are waited for, counted from 1 as they begin, is never done |
//! | `resets` | what the machine can reset cards by: `bus` (default), or `none` |
//! | `gone` | after how many accesses to registers the card has left the bus |
//! | `irq` | `on`: a driver can wait for interrupts, as VFIO lets it; default: `off`, as by sysfs |
//! | `ifr` | `shown`: registers show the ROM with what lies before its first image, as on an A100; default: `skipped` |
//! | `lockdown` | `on`: GSP says that it locks itself up for a moment while it starts; default: `off` |
//! | `rpc` | an RPC that fails: function and result, `76:0x51`; the third call of it alone: `76:0x51:3` |
//! | `channel` | `hangs:N` or `dies:N`: what a channel does when the N-th doorbell is rung |

use std::sync::Arc;

use drivers_spec::pci::{Command, PCI_BASE_ADDRESS_0, PCI_COMMAND, VENDOR_NVIDIA};
use hcq::mem::view::View;
use hcq::mem::window::AccessWidth;
use hcq::transport::{
    Bar, DevFile, Fault, Machine, Pci, PciFunction, PerProcess, Reserved, ResetKind, TransportError,
};
use twin::config::{Part, Wrong, number};
use twin::host::client::{self, Reservations};
use twin::pci::{Function, HostMemory};
use twin::rule::Journal;

use super::card::{Before, Card, Config, Trouble};
use super::chip::{CHIPS, Chip, INSTANCES, WINDOW};
use super::wait::WAITS;

/// Keys of a config string.
const KEYS: &str =
    "chip, gpus, bar1, before, looks, never, stuck, resets, gone, irq, ifr, lockdown, rpc, channel";

/// The cards of a machine.
struct Slots {
    chip: &'static Chip,
    cards: Vec<(PciFunction, Arc<Function>)>,
    journal: Arc<Journal>,
}

/// A process on a machine with cards.
pub struct PciMachine {
    slots: Arc<Slots>,
    reservations: Reservations,
    per_process: PerProcess,
}

/// The cards of a config string, and how many.
fn parse(text: &str) -> Result<(Config, usize), Wrong> {
    let mut config = Config::of(&CHIPS[1]);
    let mut gpus = 1;
    for part in Part::all(text, KEYS) {
        let part = part?;
        match part.key {
            "chip" => {
                config.chip = Chip::of(part.value).ok_or_else(|| {
                    let names = CHIPS.each_ref().map(|chip| chip.name).join(", ");
                    Wrong(format!(
                        "no chip '{}'; known behind PCI: {names}",
                        part.value
                    ))
                })?;
            }
            "gpus" => gpus = part.within(1..=8)?,
            "bar1" => {
                let bytes = part.bytes()?;
                if !bytes.is_power_of_two() || !(WINDOW..=WIDE / 2).contains(&bytes) {
                    return Err(part.wrong("a power of two, 256M or more"));
                }
                config.window = bytes;
            }
            "before" => {
                let before = [("nobody", Before::Nobody), ("driver", Before::Driver)];
                config.before = part.word(&before)?;
            }
            "looks" => config.looks = part.number()?,
            "never" => config.never = Some(part.word(&WAITS)?),
            "stuck" => config.stuck = Some(part.number()?),
            "resets" => {
                let bus = vec![ResetKind::Function, ResetKind::Bus];
                config.resets = part.word(&[("bus", bus), ("none", Vec::new())])?;
            }
            "gone" => config.gone_after = Some(part.number()?),
            "ifr" => config.ifr_shown = part.word(&[("shown", true), ("skipped", false)])?,
            "irq" => config.interrupts = part.word(&[("on", true), ("off", false)])?,
            "lockdown" => config.lockdown = part.word(&[("on", true), ("off", false)])?,
            "rpc" => {
                let words: Vec<_> = part.value.split(':').collect();
                let numbers = match words[..] {
                    [function, result] => number(function).zip(number(result)),
                    [function, result, nth] => {
                        // They are counted from 1: the 0th would never fail.
                        config.rpc_nth = number::<u64>(nth).filter(|nth| *nth > 0);
                        let both = number(function).zip(number(result));
                        both.filter(|_| config.rpc_nth.is_some())
                    }
                    _ => None,
                };
                let wrong = || {
                    part.wrong("a function, a result and which call, if not each, as in 76:0x51:3")
                };
                config.rpc_error = Some(numbers.ok_or_else(wrong)?);
            }
            "channel" => {
                let words = part.value.split_once(':');
                let trouble = words.and_then(|(word, ring)| {
                    let trouble = match word {
                        "hangs" => Trouble::Hangs,
                        "dies" => Trouble::Dies,
                        _ => return None,
                    };
                    Some((trouble, number(ring)?))
                });
                let wrong = || part.wrong("hangs or dies, and a number, as in dies:3");
                config.channel = Some(trouble.ok_or_else(wrong)?);
            }
            _ => return Err(part.unknown(KEYS)),
        }
    }
    Ok((config, gpus))
}

/// Where firmware puts the BARs of a card: those that are prefetchable above 4 GiB.
const WIDE: u64 = 0x100_0000_0000;
const NARROW: u64 = 0xd000_0000;

impl PciMachine {
    /// A machine with the cards that a config string says, and a process on it.
    ///
    /// # Errors
    /// What is wrong with the string, or what the host lacks.
    pub fn new(config: &str) -> Result<Arc<PciMachine>, String> {
        let (config, gpus) = parse(config).map_err(|wrong| wrong.0)?;
        let configs: Vec<_> = (0..gpus)
            .map(|_| Config {
                begun: Arc::default(),
                rpc_calls: Arc::default(),
                rpc_failed: Arc::default(),
                ..config.clone()
            })
            .collect();
        PciMachine::of(&configs)
    }

    /// A machine with these cards, and a process on it.
    ///
    /// # Errors
    /// What the host lacks.
    pub fn of(configs: &[Config]) -> Result<Arc<PciMachine>, String> {
        let journal = Arc::new(Journal::new());
        let memory = HostMemory::new();
        let mut cards = Vec::new();
        for (number, config) in configs.iter().enumerate() {
            let address = format!("0000:{:02x}:00.0", 1 + number);
            let card = Card::function(&address, config, &memory, &journal);
            let card = card.map_err(|errno| {
                let error = std::io::Error::from_raw_os_error(errno);
                format!("the host of the simulated card {address}: {error}")
            })?;
            let card = match config.interrupts {
                true => card.with_interrupts(1),
                false => card,
            };
            let found = placed(&card, &address, config, number as u64);
            let found = found.map_err(|error| error.to_string())?;
            cards.push((found, Arc::new(card)));
        }
        let slots = Slots {
            chip: configs.first().map_or(&CHIPS[1], |config| config.chip),
            cards,
            journal,
        };
        Ok(Self::on(Arc::new(slots)))
    }

    fn on(slots: Arc<Slots>) -> Arc<PciMachine> {
        client::watch_forks();
        Arc::new(PciMachine {
            slots,
            reservations: Reservations::default(),
            per_process: PerProcess::default(),
        })
    }

    /// Another process on the same machine: it finds the cards as they were left.
    #[must_use]
    pub fn again(&self) -> Arc<PciMachine> {
        Self::on(self.slots.clone())
    }

    /// The process is killed; another one finds the cards as the kernel leaves them that are in the hands of VFIO and cannot be
    /// reset: they are master no more, and go on; the memory is gone.
    ///
    /// Source: Linux, drivers/vfio/pci/vfio_pci_core.c, vfio_pci_core_disable: pci_clear_master.
    ///
    /// # Errors
    /// The configuration of a card cannot be written.
    pub fn killed(&self) -> Result<Arc<PciMachine>, TransportError> {
        for (_, card) in &self.slots.cards {
            let command = card.config_read(PCI_COMMAND, AccessWidth::W16)?;
            let without = command & !u32::from(Command::MASTER.bits());
            card.config_write(PCI_COMMAND, AccessWidth::W16, without)?;
            card.bus().memory().given_ended();
        }
        Ok(self.again())
    }

    /// What happened to its cards.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.slots.journal
    }

    /// The chip of the first card.
    pub fn chip(&self) -> &'static Chip {
        self.slots.chip
    }

    /// A card by its number.
    pub fn function(&self, number: usize) -> Option<&Arc<Function>> {
        self.slots.cards.get(number).map(|(_, card)| card)
    }
}

/// Firmware gives a card its addresses, and the system finds it there.
fn placed(
    card: &Function,
    address: &str,
    config: &Config,
    number: u64,
) -> Result<PciFunction, TransportError> {
    let (chip, first) = (config.chip, WIDE * (number + 1));
    let bar = |number, start, bytes, is_prefetchable| Bar {
        number,
        start,
        bytes,
        is_prefetchable,
    };
    let [registers, window, instances] = chip.bars();
    let behind = first + config.window.max(1 << 30);
    let bytes = chip.registers();
    let is_wide = window > registers + 1;
    let at = match is_wide {
        true => behind + INSTANCES,
        false => NARROW + number * bytes,
    };
    let bars = vec![
        bar(registers, at, bytes, is_wide),
        bar(window, first, config.window, true),
        bar(instances, behind, INSTANCES, true),
    ];
    for bar in &bars {
        let register = PCI_BASE_ADDRESS_0 + 4 * u16::from(bar.number);
        card.config_write(register, AccessWidth::W32, bar.start as u32)?;
        if bar.is_prefetchable {
            let high = (bar.start >> 32) as u32;
            card.config_write(register + 4, AccessWidth::W32, high)?;
        }
    }
    Ok(PciFunction {
        address: address.into(),
        vendor: VENDOR_NVIDIA,
        device: chip.twin.device_id,
        class: chip.twin.pci_class,
        bars,
        driver: None,
        numa_node: None,
        iommu_group: None,
    })
}

fn missing(path: &str, verb: &str) -> TransportError {
    TransportError::new(path, verb, Fault::Errno(libc::ENOENT))
}

impl Machine for PciMachine {
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
        let cards = self.slots.cards.iter();
        Ok(cards.map(|(found, _)| found.clone()).collect())
    }

    fn open_pci(&self, address: &str) -> Result<Arc<dyn Pci>, TransportError> {
        let mut cards = self.slots.cards.iter();
        let card = cards.find(|(found, _)| found.address == address);
        let (_, card) = card.ok_or_else(|| missing(address, "open"))?;
        Ok(card.clone())
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
        &self.per_process
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_the_cards_that_its_config_says() {
        let machine = PciMachine::new(
            "chip=ga102,gpus=2,bar1=32G,before=driver,looks=1,never=halt,gone=9,rpc=76:0x51:3,channel=dies:3",
        )
        .unwrap();
        assert_eq!(machine.chip().name, "ga102");
        let found = machine.pci_functions().unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].address, "0000:02:00.0");
        assert_eq!(found[1].bars[1].bytes, 32 << 30);
        let card = machine.open_pci("0000:02:00.0").unwrap();
        let word = |at| card.config_read(at, AccessWidth::W32).unwrap();
        assert_eq!(word(0), 0x2204_10de);
        assert_eq!(
            word(PCI_BASE_ADDRESS_0 + 8),
            (found[1].bars[1].start >> 32) as u32
        );
        // Another process finds the same cards.
        let again = machine.again();
        let same = again.function(1).map(Arc::as_ptr);
        assert_eq!(same, machine.function(1).map(Arc::as_ptr));
        // Whose process is killed are no masters any more.
        let command = |card: &Arc<Function>| card.config_read(PCI_COMMAND, AccessWidth::W16);
        let first = machine.function(0).unwrap();
        first
            .config_write(PCI_COMMAND, AccessWidth::W16, 6)
            .unwrap();
        let killed = machine.killed().unwrap();
        assert_eq!(command(killed.function(0).unwrap()).unwrap() & 6, 2);
        assert!(machine.open_pci("0000:05:00.0").is_err());
        assert!(machine.open("/dev/nvidiactl").is_err());
        assert!(machine.journal().violations().is_empty());
        for (config, text) in [
            (
                "chip=h200",
                "no chip 'h200'; known behind PCI: ga102, ad102, gh100, gb202",
            ),
            ("gpu=2", "'gpu' is no key; keys: chip"),
            ("gpus=9", "gpus=9: expected 1 to 8"),
            ("bar1=3G", "bar1=3G: expected a power of two, 256M or more"),
            ("never=ever", "never=ever: expected gfw"),
            ("before=me", "before=me: expected nobody or driver"),
            ("rpc=7", "rpc=7: expected a function, a result and which"),
            ("rpc=7:8:", "rpc=7:8:: expected a function, a result"),
            ("rpc=7:8:0", "rpc=7:8:0: expected a function, a result"),
            ("irq=1", "irq=1: expected on or off"),
            ("channel=ends:1", "channel=ends:1: expected hangs or dies"),
        ] {
            let error = PciMachine::new(config).err().unwrap();
            assert!(error.contains(text), "{error}");
        }
    }
}
