//! Sets up the buses behind the bridge as PC firmware would: bus numbers, bridge windows, and the BARs of the
//! function at the end.
//!
//! One hop at a time: a bus has a bridge with another bus behind it, or the function. A card with its own switch is
//! three hops away.
//!
//! Source: PCI Local Bus Specification 3.0, 6.2.5 (base addresses); PCI-to-PCI Bridge Architecture Specification 1.2,
//! 3.2; PCI Express Base Specification, 7.8.6 (resizable BAR).

use drivers_spec::asm24::{LTSSM, LTSSM_UP};
use drivers_spec::pci::{
    Command, PCI_BASE_ADDRESS_0, PCI_BASE_ADDRESS_MEM_PREFETCH, PCI_BASE_ADDRESS_MEM_TYPE_64,
    PCI_BASE_ADDRESS_SPACE_IO, PCI_CLASS_REVISION, PCI_COMMAND, PCI_EXT_CAP_ID_REBAR,
    PCI_EXT_CAPABILITIES, PCI_HEADER_TYPE, PCI_HEADER_TYPE_BRIDGE, PCI_MEMORY_BASE,
    PCI_PREF_BASE_UPPER32, PCI_PREF_LIMIT_UPPER32, PCI_PREF_MEMORY_BASE, PCI_PRIMARY_BUS,
    PCI_REBAR_CAP_SIZES, PCI_REBAR_CTRL_BAR_IDX, PCI_REBAR_CTRL_BAR_SIZE, PCI_REBAR_CTRL_NBAR,
    PCI_VENDOR_ID,
};
use hcq::transport::{Bar, Fault, TransportError};
use hcq::wait::{Deadline, Look, poll_until};
use std::time::Duration;

use crate::bridge::Bridge;
use crate::tlp::{Place, Tlp};

/// Where BARs below 4 GiB are put, and those above.
const LOW: u64 = 0x1000_0000;
const HIGH: u64 = 0x8_0000_0000;
/// The end of the addresses below 4 GiB.
const LOW_END: u64 = 1 << 32;
/// Maximum number of bridges on the path.
const HOPS: u8 = 8;
/// How long the link may take after the firmware has turned power on.
const TRAINING: Duration = Duration::from_secs(2);
/// BARs of a function.
const BARS: u8 = 6;
/// Extended capabilities of a function at most: the space has room for no more.
const CAPABILITIES: usize = 960;

/// The function at the end of the buses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Where.
    pub place: Place,
    /// Who made it.
    pub vendor: u16,
    /// Its device ID.
    pub device: u16,
    /// Its class code: base class, sub-class, interface.
    pub class: u32,
}

/// Turns the slot on if it is not, and waits until the link is up.
///
/// # Errors
/// The transport's; [`Fault::Beyond`] with the state of the link.
pub fn train(bridge: &Bridge) -> Result<(), TransportError> {
    let state = || {
        let mut state = [0];
        bridge.read_xdata(LTSSM, &mut state)?;
        Ok::<_, TransportError>(state[0])
    };
    if state()? == LTSSM_UP {
        return Ok(());
    }
    bridge.power(true)?;
    let clock = bridge.clock();
    let mut seen = 0;
    let up = poll_until(
        clock,
        Deadline::on(clock, TRAINING),
        "the link is up",
        || {
            seen = state()?;
            Ok::<_, Wait>(match seen == LTSSM_UP {
                true => Look::Done(()),
                false => Look::Not(seen.into()),
            })
        },
    );
    up.map_err(|error| match error {
        Wait::Transport(error) => error,
        Wait::Late => {
            let why = format!("the link is in state {seen:#04x} (LTSSM), expected {LTSSM_UP:#04x}");
            bridge.error("train the PCIe link", Fault::Beyond(why))
        }
    })
}

/// Why the link is not waited for any longer.
enum Wait {
    Transport(TransportError),
    Late,
}

impl From<TransportError> for Wait {
    fn from(error: TransportError) -> Wait {
        Wait::Transport(error)
    }
}

impl From<hcq::wait::Timeout> for Wait {
    fn from(_: hcq::wait::Timeout) -> Wait {
        Wait::Late
    }
}

/// Configuration space of a function.
struct Config<'a> {
    bridge: &'a Bridge,
    place: Place,
}

impl Config<'_> {
    fn read(&self, at: u16) -> Result<u32, TransportError> {
        self.bridge.ask(&Tlp::config_read(self.place, at, 4))
    }

    fn write(&self, at: u16, value: u32) -> Result<(), TransportError> {
        let tlp = Tlp::config_write(self.place, at, 4, value);
        self.bridge.ask(&tlp).map(|_| ())
    }

    fn command(&self, command: Command) -> Result<(), TransportError> {
        let tlp = Tlp::config_write(self.place, PCI_COMMAND, 2, command.bits().into());
        self.bridge.ask(&tlp).map(|_| ())
    }

    /// Sets a bridge's secondary bus, and its windows for all assigned addresses.
    fn pass_on(&self) -> Result<(), TransportError> {
        let bus = u32::from(self.place.bus);
        // In one write, so that the three are consistent.
        self.write(PCI_PRIMARY_BUS, bus | (bus + 1) << 8 | 0xff << 16)?;
        let window = |first: u64| (first >> 16) as u32 & 0xfff0 | 0xfff0_0000;
        self.write(PCI_MEMORY_BASE, window(LOW))?;
        self.write(PCI_PREF_MEMORY_BASE, window(HIGH & (LOW_END - 1)))?;
        self.write(PCI_PREF_BASE_UPPER32, (HIGH >> 32) as u32)?;
        self.write(PCI_PREF_LIMIT_UPPER32, u32::MAX)?;
        self.command(Command::MEMORY | Command::MASTER)
    }
}

/// Numbers the buses up to the first function that is no bridge.
///
/// # Errors
/// The transport's; [`Fault::Beyond`] without a completion.
pub fn number(bridge: &Bridge) -> Result<Found, TransportError> {
    for bus in 0..HOPS {
        let place = Place::first(bus);
        let config = Config { bridge, place };
        let id = config.read(PCI_VENDOR_ID)?;
        let (vendor, device) = (id as u16, (id >> 16) as u16);
        if vendor == u16::MAX || vendor == 0 {
            let why = format!("bus {bus} is empty: its first device reads {id:#010x}");
            let operation = "number the buses";
            return Err(bridge.error(operation, Fault::Beyond(why)));
        }
        let header = (config.read(PCI_HEADER_TYPE & !3)? >> 16) as u8 & 0x7f;
        if header != PCI_HEADER_TYPE_BRIDGE {
            let class = config.read(PCI_CLASS_REVISION)? >> 8;
            return Ok(Found {
                place,
                vendor,
                device,
                class,
            });
        }
        config.pass_on()?;
    }
    let why = format!("found {HOPS} bridges in a row and no function behind them");
    Err(bridge.error("number the buses", Fault::Beyond(why)))
}

/// Makes BAR 0 as large as it can be, and gives all BARs of memory an address.
///
/// # Errors
/// The transport's; [`Fault::Beyond`] for BARs that there is no room for.
pub fn place_bars(bridge: &Bridge, place: Place) -> Result<Vec<Bar>, TransportError> {
    let config = Config { bridge, place };
    // Decoding is off while addresses change.
    config.command(Command::empty())?;
    resize(&config)?;
    let (mut low, mut high) = (LOW, HIGH);
    let mut bars = Vec::new();
    let mut number = 0;
    while number < BARS {
        let at = PCI_BASE_ADDRESS_0 + 4 * u16::from(number);
        config.write(at, u32::MAX)?;
        let mask = config.read(at)?;
        let is_io = mask & PCI_BASE_ADDRESS_SPACE_IO != 0;
        let is_wide = !is_io && mask & PCI_BASE_ADDRESS_MEM_TYPE_64 != 0;
        let upper = match is_wide {
            true => {
                config.write(at + 4, u32::MAX)?;
                config.read(at + 4)?
            }
            false => u32::MAX,
        };
        let sizes = u64::from(mask & !0xf) | u64::from(upper) << 32;
        let bytes = sizes.wrapping_neg();
        let is_prefetchable = mask & PCI_BASE_ADDRESS_MEM_PREFETCH != 0;
        let is_there = !is_io && mask & !0xf != 0 || is_wide && sizes != 0;
        let next = match is_wide && is_prefetchable {
            true => &mut high,
            false => &mut low,
        };
        let start = next.next_multiple_of(bytes.max(1));
        if is_there {
            let end = start.saturating_add(bytes);
            if !(is_wide && is_prefetchable) && end > LOW_END {
                let why = format!("BAR {number} of {bytes:#x} bytes does not fit below 4 GiB");
                return Err(bridge.error("place the BARs", Fault::Beyond(why)));
            }
            *next = end;
            config.write(at, start as u32)?;
            bars.push(Bar {
                number,
                start,
                bytes,
                is_prefetchable,
            });
        } else {
            config.write(at, 0)?;
        }
        if is_wide {
            config.write(at + 4, if is_there { (start >> 32) as u32 } else { 0 })?;
        }
        number += if is_wide { 2 } else { 1 };
    }
    config.command(Command::MEMORY)?;
    Ok(bars)
}

/// Makes BAR 0 as large as it can be, where it can be told to.
fn resize(config: &Config<'_>) -> Result<(), TransportError> {
    let mut at = PCI_EXT_CAPABILITIES;
    for _ in 0..CAPABILITIES {
        let header = config.read(at)?;
        if header as u16 == PCI_EXT_CAP_ID_REBAR {
            let first = config.read(at + 8)?;
            let entries = ((first & PCI_REBAR_CTRL_NBAR) >> 5) as u16;
            for entry in 0..entries.clamp(1, BARS.into()) {
                let sizes = config.read(at + 4 + 8 * entry)? & PCI_REBAR_CAP_SIZES;
                let control = config.read(at + 8 + 8 * entry)?;
                let Some(largest) = (sizes >> 4).checked_ilog2() else {
                    continue;
                };
                if control & PCI_REBAR_CTRL_BAR_IDX == 0 {
                    let size = largest << PCI_REBAR_CTRL_BAR_SIZE.trailing_zeros();
                    config.write(
                        at + 8 + 8 * entry,
                        control & !PCI_REBAR_CTRL_BAR_SIZE | size,
                    )?;
                }
            }
        }
        at = (header >> 20) as u16 & 0xffc;
        if at < PCI_EXT_CAPABILITIES || header == u32::MAX {
            break;
        }
    }
    Ok(())
}
