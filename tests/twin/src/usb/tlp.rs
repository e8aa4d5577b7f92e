//! The engine that sends one packet to the bus and has its completion, by its registers.
//!
//! Numbers lie in the registers with their highest byte first.

use super::fabric::{Completion, Fabric, Place};
use super::rules;
use crate::rule::Journal;

/// The first of its registers.
pub(super) const FIRST: u16 = 0xb210;
/// Behind the last of them.
pub(super) const END: u16 = 0xb2a0;

const FORMAT: u16 = 0xb210;
const CONTROL: u16 = 0xb213;
const LENGTH: u16 = 0xb216;
const ENABLES: u16 = 0xb217;
const ADDRESS: u16 = 0xb218;
const HIGH: u16 = 0xb21c;
const DATA: u16 = 0xb220;
const COMPLETED: u16 = 0xb22a;
const TRIGGER: u16 = 0xb254;
const HAS_DATA: u16 = 0xb284;
const STATUS: u16 = 0xb296;
const TUNNEL: u16 = 0xb298;

/// Bits of [`STATUS`].
const ERROR: u8 = 1;
const COMPLETE: u8 = 2;
/// What starts a packet in [`TRIGGER`].
const EXECUTE: u8 = 0xf;

/// A packet has data.
const WITH_DATA: u8 = 0x40;
/// A packet has an address of 64 bits.
const WIDE: u8 = 0x20;
/// Memory, with an address of 64 bits: what streams are.
pub(super) const READ: u8 = WIDE;
pub(super) const WRITE: u8 = WIDE | WITH_DATA;

/// What a packet's completion says to who asks by request: data, completion header, and whether it has data.
pub(super) type Answer = Result<[u8; 7], u8>;

/// What came of the last packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// Nothing was sent, or its completion has been read.
    Nothing,
    /// It has no completion.
    Posted,
    /// It has one, which is there after so many looks.
    Waits(u32),
    Done,
    /// Nobody answered.
    Failed,
}

/// See the front page.
pub(super) struct Engine {
    registers: [u8; (END - FIRST) as usize],
    sent: Sent,
    /// How often a completion is looked for in vain.
    looks: u32,
}

fn slot(at: u16) -> usize {
    usize::from(at - FIRST)
}

impl Engine {
    /// As the firmware has set it up.
    pub(super) fn new(looks: u32) -> Engine {
        let mut registers = [0; (END - FIRST) as usize];
        registers[slot(CONTROL)] = 1;
        registers[slot(LENGTH)] = 0x20;
        registers[slot(TUNNEL)] = 0x10;
        Engine {
            registers,
            sent: Sent::Nothing,
            looks,
        }
    }

    fn word(&self, at: u16) -> u32 {
        let bytes = &self.registers[slot(at)..];
        u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    fn set_word(&mut self, at: u16, value: u32) {
        self.registers[slot(at)..][..4].copy_from_slice(&value.to_be_bytes());
    }

    /// What the data registers hold.
    pub(super) fn data(&self) -> u32 {
        self.word(DATA)
    }

    /// Sets up a packet. One without data leaves what the data registers hold.
    pub(super) fn set(&mut self, format: u8, enables: u8, address: u64, value: u32) {
        self.registers[slot(FORMAT)] = format;
        self.registers[slot(ENABLES)] = enables;
        self.set_word(ADDRESS, address as u32);
        self.set_word(HIGH, (address >> 32) as u32);
        if format & WITH_DATA != 0 {
            self.set_word(DATA, value);
        }
    }

    /// Sets up a stream, whose packets have no completion that can be asked for.
    pub(super) fn streams(&mut self, format: u8, enables: u8, address: u64) {
        let data = self.data();
        self.set(format, enables, address, data);
        self.sent = Sent::Posted;
    }

    /// A stream has gone on to an address; this was its last dword.
    pub(super) fn passed(&mut self, address: u64, data: u32) {
        self.set_word(ADDRESS, address as u32);
        self.set_word(HIGH, (address >> 32) as u32);
        self.set_word(DATA, data);
    }

    /// Sends the packet that the registers describe.
    pub(super) fn fire(&mut self, fabric: &mut Fabric, journal: &Journal) {
        let format = self.registers[slot(FORMAT)];
        let enables = self.registers[slot(ENABLES)];
        let low = self.word(ADDRESS);
        let at = match format & WIDE {
            0 => low.into(),
            _ => u64::from(low) | u64::from(self.word(HIGH)) << 32,
        };
        let value = self.data();
        let what = format!("packet {format:#04x} for {at:#x}, byte enables {enables:#06b}");
        let run = enables >> enables.trailing_zeros().min(7);
        if enables == 0 || enables > 0xf || run & run.wrapping_add(1) != 0 || low & 3 != 0 {
            journal.broken(&rules::BYTES, what.clone());
        }
        let (at, enables) = (at & !3, enables & 0xf);
        let place = Place {
            bus: (low >> 24) as u8,
            device: (low >> 19) as u8 & 0x1f,
            function: (low >> 16) as u8 & 7,
            offset: low as u16 & 0xffc,
        };
        let is_config = format & !(WITH_DATA | 1) == 4;
        if is_config && (format & 1 == 0) != (place.bus == 0) {
            journal.broken(&rules::FORMAT, format!("{what}: bus {}", place.bus));
        }
        let completion = match format {
            0x04 | 0x05 => fabric.config_read(place),
            0x44 | 0x45 => fabric.config_write(place, value, enables),
            0x00 | 0x20 => fabric.read(at, enables),
            0x40 | 0x60 => {
                fabric.write(at, value, enables);
                self.sent = Sent::Posted;
                return;
            }
            _ => {
                journal.broken(&rules::FORMAT, what);
                None
            }
        };
        let bytes = if is_config {
            4
        } else {
            enables.count_ones() as u16
        };
        let (status, read) = match completion {
            None => {
                self.sent = Sent::Failed;
                return;
            }
            Some(Completion::Done(read)) => (0, Some(read).filter(|_| format & WITH_DATA == 0)),
            Some(Completion::Unsupported) => (1, None),
            Some(Completion::Retry) => (2, None),
        };
        if let Some(read) = read {
            self.set_word(DATA, read);
        }
        let header: u16 = status << 13 | bytes;
        self.registers[slot(COMPLETED)..][..2].copy_from_slice(&header.to_be_bytes());
        self.registers[slot(HAS_DATA)] = read.is_some().into();
        self.sent = Sent::Waits(self.looks);
    }

    /// What request 0xF0 IN answers: an error is the code that it ends with.
    pub(super) fn completion(&mut self, journal: &Journal) -> Answer {
        match std::mem::replace(&mut self.sent, Sent::Nothing) {
            Sent::Waits(_) | Sent::Done => {}
            Sent::Failed => return Err(1),
            Sent::Nothing | Sent::Posted => {
                let what = "none is there".to_owned();
                journal.broken(&rules::COMPLETION, what);
                return Err(0xff);
            }
        }
        let [a, b, c, d] = self.data().to_le_bytes();
        let header = &self.registers[slot(COMPLETED)..];
        Ok([
            a,
            b,
            c,
            d,
            header[0],
            header[1],
            self.registers[slot(HAS_DATA)],
        ])
    }

    /// Reads a register.
    pub(super) fn read(&mut self, at: u16, journal: &Journal) -> u8 {
        if at == STATUS {
            return match self.sent {
                Sent::Waits(0) | Sent::Done => {
                    self.sent = Sent::Done;
                    COMPLETE
                }
                Sent::Waits(more) => {
                    self.sent = Sent::Waits(more - 1);
                    0
                }
                Sent::Failed => ERROR,
                Sent::Nothing | Sent::Posted => 0,
            };
        }
        let is_result = (DATA..DATA + 4).contains(&at)
            || (COMPLETED..COMPLETED + 2).contains(&at)
            || at == HAS_DATA;
        if is_result && matches!(self.sent, Sent::Waits(_)) {
            journal.broken(&rules::EARLY, format!("{at:#x} is read"));
        }
        self.registers[slot(at)]
    }

    /// Writes a register. Whether there is such a one.
    pub(super) fn write(
        &mut self,
        at: u16,
        value: u8,
        fabric: &mut Fabric,
        journal: &Journal,
    ) -> bool {
        match at {
            TRIGGER if value == EXECUTE => self.fire(fabric, journal),
            STATUS => {
                // Bits are cleared by writing them.
                let cleared = match self.sent {
                    Sent::Done => value & COMPLETE != 0,
                    Sent::Failed => value & ERROR != 0,
                    Sent::Nothing | Sent::Posted | Sent::Waits(_) => false,
                };
                if cleared {
                    self.sent = Sent::Nothing;
                }
            }
            FORMAT | CONTROL | LENGTH..=0xb223 | TUNNEL => self.registers[slot(at)] = value,
            _ => return false,
        }
        true
    }

    /// Whether a register is one that is known.
    pub(super) fn knows(at: u16) -> bool {
        matches!(
            at,
            FORMAT | CONTROL | LENGTH..=0xb223 | HAS_DATA | STATUS | TUNNEL
        ) || (COMPLETED..COMPLETED + 2).contains(&at)
    }
}
