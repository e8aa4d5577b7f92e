//! What lies behind the bridge: functions of type 1 in a row, each with the next on its secondary bus, and at the end
//! the function that is carried. The link, which may be down, is behind the second.
//!
//! Source: PCI Local Bus Specification 3.0, 6.1; PCI-to-PCI Bridge Architecture Specification 1.2, 3.2; identifiers
//! of the inner switch (1002:1478, 1002:1479) as lspci shows of an RX 7900 XTX; those of ASMedia's are a guess.

use std::sync::Arc;

use drivers_spec::pci::{Command, PCI_COMMAND, VENDOR_AMD};
use hcq::mem::window::{AccessWidth, Window};
use hcq::transport::Pci;

use super::rules;
use crate::pci::Function;
use crate::rule::Journal;

/// How a request was completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Completion {
    /// Successfully, with what was read.
    Done(u32),
    /// Unsupported request: nobody answers there.
    Unsupported,
    /// Configuration request retry: not yet.
    Retry,
}

/// A bridge in between: registers, and which bits of them can be written.
struct Hop {
    image: [u8; BYTES],
    writable: [u8; BYTES],
}

/// Bytes of configuration space that bridges have here.
const BYTES: usize = 0x100;
/// Vendor of the first two.
const ASMEDIA: u16 = 0x1b21;
/// Vendor and device of bridges, in a row.
const HOPS: [(u16, u16); 4] = [
    (ASMEDIA, 0x2461),
    (ASMEDIA, 0x2463),
    (VENDOR_AMD, 0x1478),
    (VENDOR_AMD, 0x1479),
];
/// How many of them are the bridge's own: the link is behind them.
const OWN: usize = 2;

const NUMBERS: usize = 0x18;
const MEMORY: usize = 0x20;
const PREFETCH: usize = 0x24;
const UPPER: usize = 0x28;

impl Hop {
    fn new(number: usize, last: bool) -> Hop {
        let mut hop = Hop {
            image: [0; BYTES],
            writable: [0; BYTES],
        };
        let (vendor, device) = HOPS[number];
        hop.put(0, 4, u32::from(vendor) | u32::from(device) << 16, 0);
        hop.put(4, 4, 0x0010_0000, 0x0547);
        hop.put(8, 4, 0x0604_0000, 0);
        hop.put(0x0c, 4, 0x0001_0000, 0xff);
        hop.put(NUMBERS, 4, 0, 0x00ff_ffff);
        hop.put(MEMORY, 4, 0, 0xfff0_fff0);
        // Of 64 bits.
        hop.put(PREFETCH, 4, 0x0001_0001, 0xfff0_fff0);
        hop.put(UPPER, 4, 0, u32::MAX);
        hop.put(UPPER + 4, 4, 0, u32::MAX);
        hop.put(0x34, 1, EXPRESS as u32, 0);
        hop.put(0x3c, 4, 0x0000_0100, 0x00ff);
        // Root port, upstream and downstream port of a switch.
        let kind = match (number, last) {
            (0, _) => 4,
            (_, true) => 6,
            (1 | 3, false) => 6,
            _ => 5,
        };
        hop.put(EXPRESS, 4, 0x0002_0010 | kind << 20, 0);
        hop.put(EXPRESS + 8, 2, 0, 0x7fff);
        // 8 GT/s by four lanes.
        hop.put(EXPRESS + 0xc, 4, 0x0040_0043, 0);
        hop.put(EXPRESS + 0x10, 4, 0x1043_0000, 0x0fff);
        hop
    }

    fn put(&mut self, at: usize, bytes: usize, value: u32, writable: u32) {
        self.image[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
        self.writable[at..at + bytes].copy_from_slice(&writable.to_le_bytes()[..bytes]);
    }

    fn dword(&self, at: usize) -> u32 {
        let bytes = self.image.get(at..at + 4);
        bytes.map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    fn write(&mut self, at: usize, value: u32, enables: u8) {
        for (lane, byte) in value.to_le_bytes().into_iter().enumerate() {
            if enables >> lane & 1 == 1
                && let Some(mask) = self.writable.get(at + lane)
            {
                let old = &mut self.image[at + lane];
                *old = *old & !mask | byte & mask;
            }
        }
    }

    fn command(&self) -> Command {
        Command::from_bits_truncate(self.dword(4) as u16)
    }

    /// Secondary and subordinate bus.
    fn buses(&self) -> (u8, u8) {
        let [_, secondary, subordinate, _] = self.dword(NUMBERS).to_le_bytes();
        (secondary, subordinate)
    }

    /// Whether an access from above goes through.
    fn passes(&self, at: u64) -> bool {
        let half = |word: u32, high: u32| u64::from(word & 0xfff0) << 16 | u64::from(high) << 32;
        let (memory, prefetch) = (self.dword(MEMORY), self.dword(PREFETCH));
        let within = |first: u64, last: u64| (first..=last | 0xf_ffff).contains(&at);
        let plain = within(half(memory, 0), half(memory >> 16, 0));
        let (low, high) = (self.dword(UPPER), self.dword(UPPER + 4));
        let wide = within(half(prefetch, low), half(prefetch >> 16, high));
        self.command().contains(Command::MEMORY) && (plain || wide)
    }
}

/// Where the express capability of a bridge is.
const EXPRESS: usize = 0x80;

/// A BAR of the function: where it is, and what lies behind.
struct Bar {
    start: u64,
    window: Window,
    number: u8,
}

/// The way to the function.
pub(super) struct Fabric {
    hops: Vec<Hop>,
    function: Option<Arc<Function>>,
    bars: Vec<Bar>,
    /// How many configuration requests the function still wants to be sent again.
    retries: u32,
    journal: Arc<Journal>,
}

/// Who a configuration request is for.
enum Meant {
    Hop(usize),
    Function,
    Nobody,
    /// The link is down.
    Cut,
}

/// A configuration request: a dword of a function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) bus: u8,
    pub(super) device: u8,
    pub(super) function: u8,
    pub(super) offset: u16,
}

impl Fabric {
    /// So many bridges with nothing behind: there is no power.
    pub(super) fn new(hops: usize, journal: &Arc<Journal>) -> Fabric {
        let hops = hops.clamp(1, HOPS.len());
        Fabric {
            hops: (0..hops).map(|n| Hop::new(n, n + 1 == hops)).collect(),
            function: None,
            bars: Vec::new(),
            retries: 0,
            journal: journal.clone(),
        }
    }

    /// The function gets power, and wants some requests again before it answers.
    pub(super) fn attach(&mut self, function: Arc<Function>, retries: u32) {
        self.function = Some(function);
        self.retries = retries;
        self.look();
    }

    /// The function loses power, and with it the bridges behind the link forget.
    pub(super) fn detach(&mut self) {
        self.function = None;
        self.bars.clear();
        let hops = self.hops.len();
        for number in OWN..hops {
            self.hops[number] = Hop::new(number, number + 1 == hops);
        }
    }

    /// The function, as long as it has power.
    pub(super) fn function(&self) -> Option<&Arc<Function>> {
        self.function.as_ref()
    }

    /// Whether every bridge lets requests of the function through.
    pub(super) fn is_master(&self) -> bool {
        let mut hops = self.hops.iter();
        hops.all(|hop| hop.command().contains(Command::MASTER))
    }

    fn is_up(&self) -> bool {
        self.function.is_some()
    }

    fn meant(&self, place: Place) -> Meant {
        if (place.device, place.function) != (0, 0) {
            return Meant::Nobody;
        }
        if place.bus == 0 {
            return Meant::Hop(0);
        }
        for (number, hop) in self.hops.iter().enumerate() {
            let (secondary, subordinate) = hop.buses();
            if place.bus == secondary {
                let next = number + 1;
                return match () {
                    () if next >= OWN.min(self.hops.len()) && !self.is_up() => Meant::Cut,
                    () if next < self.hops.len() => Meant::Hop(next),
                    () => Meant::Function,
                };
            }
            if secondary == 0 || !(secondary..=subordinate).contains(&place.bus) {
                break;
            }
        }
        Meant::Nobody
    }

    fn cut(&self, what: &str) {
        let what = format!("{what} while the link is down");
        self.journal.broken(&rules::LINK, what);
    }

    /// Reads a dword of configuration space; none where nobody is there to complete it.
    pub(super) fn config_read(&mut self, place: Place) -> Option<Completion> {
        Some(match self.meant(place) {
            Meant::Cut => {
                self.cut(&format!("a read of {place:x?}"));
                return None;
            }
            Meant::Nobody => Completion::Unsupported,
            Meant::Hop(hop) => Completion::Done(self.hops[hop].dword(place.offset.into())),
            Meant::Function if self.retries > 0 => {
                self.retries -= 1;
                Completion::Retry
            }
            Meant::Function => {
                let function = self.function.as_ref()?;
                let read = function.config_read(place.offset, AccessWidth::W32);
                read.map_or(Completion::Unsupported, Completion::Done)
            }
        })
    }

    /// Writes those bytes of a dword of configuration space that are enabled.
    pub(super) fn config_write(
        &mut self,
        place: Place,
        value: u32,
        enables: u8,
    ) -> Option<Completion> {
        match self.meant(place) {
            Meant::Cut => {
                self.cut(&format!("a write of {place:x?}"));
                return None;
            }
            Meant::Nobody => return Some(Completion::Unsupported),
            Meant::Hop(hop) => {
                if usize::from(place.offset) == NUMBERS && enables & 7 != 7 {
                    let what = format!("bytes {enables:#06b} of them on bus {}", place.bus);
                    self.journal.broken(&rules::NUMBERS, what);
                }
                self.hops[hop].write(place.offset.into(), value, enables);
            }
            Meant::Function => {
                let function = self.function.clone()?;
                for (at, width, value) in runs(value, enables) {
                    // What is wrong with it is in the journal.
                    let written = function.config_write(place.offset + at, width, value);
                    if written.is_err() {
                        return Some(Completion::Unsupported);
                    }
                }
                self.look();
            }
        }
        Some(Completion::Done(value))
    }

    /// Where the BARs of the function are now.
    fn look(&mut self) {
        let Some(function) = &self.function else {
            return;
        };
        let dword = |at| function.config_read(at, AccessWidth::W32).unwrap_or(0);
        let mut bars = Vec::new();
        for number in 0..6 {
            let Ok(window) = function.bar(number) else {
                continue;
            };
            let at = drivers_spec::pci::PCI_BASE_ADDRESS_0 + 4 * u16::from(number);
            let low = dword(at);
            let high = match low & drivers_spec::pci::PCI_BASE_ADDRESS_MEM_TYPE_64 {
                0 => 0,
                _ => dword(at + 4),
            };
            let start = u64::from(low & !0xf) | u64::from(high) << 32;
            bars.push(Bar {
                start,
                window,
                number,
            });
        }
        self.bars = bars;
    }

    /// Who answers an address, how far into it that is, and how many bytes are left of it. An error where nobody
    /// does: `true` where the link is down.
    fn at(&self, at: u64) -> Result<(&Bar, u64, u64), bool> {
        if !self.hops.iter().take(OWN).all(|hop| hop.passes(at)) {
            return Err(false);
        }
        let Some(function) = &self.function else {
            return Err(true);
        };
        let command = function.config_read(PCI_COMMAND, AccessWidth::W16);
        let decodes = command.unwrap_or(0) as u16 & Command::MEMORY.bits() != 0;
        let passes = self.hops.iter().all(|hop| hop.passes(at));
        let mut bars = self.bars.iter();
        let bar =
            bars.find(|bar| bar.start != 0 && at >= bar.start && at - bar.start < bar.window.len());
        let bar = bar.filter(|_| decodes && passes).ok_or(false)?;
        Ok((bar, at - bar.start, bar.window.len() - (at - bar.start)))
    }

    /// Reads those bytes of a dword that are enabled; none where the link is down.
    pub(super) fn read(&self, at: u64, enables: u8) -> Option<Completion> {
        let (bar, offset, _) = match self.at(at) {
            Ok(found) => found,
            Err(false) => return Some(Completion::Unsupported),
            Err(true) => {
                self.cut(&format!("a read of {at:#x}"));
                return None;
            }
        };
        let mut word = [0; 4];
        for (lane, width, _) in runs(0, enables) {
            let from = offset + u64::from(lane);
            let value = load(&bar.window, from, width);
            let lane = usize::from(lane);
            word[lane..lane + width.bytes()].copy_from_slice(&value.to_le_bytes()[..width.bytes()]);
        }
        Some(Completion::Done(u32::from_le_bytes(word)))
    }

    /// Writes those bytes of a dword that are enabled. Nobody answers.
    pub(super) fn write(&self, at: u64, value: u32, enables: u8) {
        let (bar, offset, _) = match self.at(at) {
            Ok(found) => found,
            Err(down) => return self.lost(at, down),
        };
        for (lane, width, value) in runs(value, enables) {
            store(&bar.window, offset + u64::from(lane), width, value);
        }
    }

    fn lost(&self, at: u64, down: bool) {
        match down {
            true => self.cut(&format!("a write of {at:#x}")),
            false => {
                _ = self
                    .journal
                    .broken(&rules::UNCLAIMED, format!("a write of {at:#x}"))
            }
        }
    }

    /// Writes dwords one after the other.
    pub(super) fn write_all(&self, mut at: u64, mut data: &[u8]) {
        while !data.is_empty() {
            let part = match self.at(at) {
                Ok((bar, offset, left)) => {
                    let part = data.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    let (now, _) = data.split_at(part);
                    match bar.number {
                        // Memory does not tell dwords from one another.
                        0 => _ = bar.window.write_many(&[(offset, now)]),
                        _ => {
                            for (to, word) in (offset..).step_by(4).zip(now.as_chunks::<4>().0) {
                                let value = u32::from_le_bytes(*word);
                                store(&bar.window, to, AccessWidth::W32, value);
                            }
                        }
                    }
                    part
                }
                Err(down) => return self.lost(at, down),
            };
            (at, data) = (at.wrapping_add(part as u64), &data[part..]);
        }
    }

    /// Reads dwords one after the other. Where nobody answers, `stale` is what there is to read.
    pub(super) fn read_all(&self, mut at: u64, mut to: &mut [u8], stale: u32) {
        while !to.is_empty() {
            let (bar, offset, left) = match self.at(at) {
                Ok(found) => found,
                Err(down) => {
                    match down {
                        true => self.cut(&format!("a stream from {at:#x}")),
                        false => {
                            let what = format!("a stream from {at:#x}");
                            self.journal.broken(&rules::UNCLAIMED, what);
                        }
                    }
                    for word in to.as_chunks_mut::<4>().0 {
                        *word = stale.to_le_bytes();
                    }
                    return;
                }
            };
            let part = to.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let (now, rest) = to.split_at_mut(part);
            match bar.number {
                0 => {
                    if bar.window.read_bytes(offset, now).is_err() {
                        now.fill(0xff);
                    }
                }
                _ => {
                    for (from, word) in (offset..).step_by(4).zip(now.as_chunks_mut::<4>().0) {
                        *word = load(&bar.window, from, AccessWidth::W32).to_le_bytes();
                    }
                }
            }
            (at, to) = (at.wrapping_add(part as u64), rest);
        }
    }
}

/// What a function does not answer is all ones; why not is in the journal.
fn load(window: &Window, at: u64, width: AccessWidth) -> u32 {
    let read = match width {
        AccessWidth::W8 => window.read::<u8>(at).map(u32::from),
        AccessWidth::W16 => window.read::<u16>(at).map(u32::from),
        _ => window.read::<u32>(at),
    };
    read.unwrap_or(u32::MAX)
}

fn store(window: &Window, at: u64, width: AccessWidth, value: u32) {
    // A write that is refused is lost; why is in the journal.
    _ = match width {
        AccessWidth::W8 => window.write(at, value as u8),
        AccessWidth::W16 => window.write(at, value as u16),
        _ => window.write(at, value),
    };
}

/// The accesses that a dword with byte enables is: where in it, how wide, and the value there.
fn runs(value: u32, enables: u8) -> Vec<(u16, AccessWidth, u32)> {
    let one = |at: u16, width: AccessWidth| {
        let bits = 8 * width.bytes() as u32;
        let value = value >> (8 * u32::from(at)) & (u64::MAX >> (64 - bits)) as u32;
        (at, width, value)
    };
    match enables & 0xf {
        0b1111 => vec![one(0, AccessWidth::W32)],
        0b0011 => vec![one(0, AccessWidth::W16)],
        0b1100 => vec![one(2, AccessWidth::W16)],
        other => (0..4)
            .filter(|lane| other >> lane & 1 == 1)
            .map(|lane| one(lane, AccessWidth::W8))
            .collect(),
    }
}
