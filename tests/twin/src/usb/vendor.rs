//! The requests of the firmware.
//!
//! | request | value | index | data |
//! |---|---|---|---|
//! | 0xE4 in | address | high byte: bank | bytes of the processor's address space |
//! | 0xE5 out | address | byte; high byte: bank | none |
//! | 0xF0 out | format, byte enables | 0: one packet, 1: stream out, 2: stream in | address (8 bytes), value or dwords (4) |
//! | 0xF0 in | 0 | 0 | data (4), completion header (2), whether it has data, result |
//! | 0xF2 out | sectors; bit 15: to the host | first slot; high byte: slots, 0 is 1 | none |
//! | 0xF3 out | bit 0: power | 0 | none |

use std::time::Duration;

use hcq::transport::Setup;

use super::device::Answer;
use super::state::State;
use super::stream::Stream;
use super::{rules, tlp};

const READ: u8 = 0xe4;
const WRITE: u8 = 0xe5;
const PACKET: u8 = 0xf0;
const COPY: u8 = 0xf2;
const POWER: u8 = 0xf3;

/// Vendor requests, out of the device and into it.
const IN: u8 = 0xc0;
const OUT: u8 = 0x40;
/// Of request types: what kind.
const KIND: u8 = 0x60;

/// What the firmware waits after power comes: three looks at the link.
const POWERED: Duration = Duration::from_millis(300);

impl State {
    /// A control transfer to the host.
    pub(super) fn control_in(&mut self, setup: Setup, to: &mut [u8]) -> Answer {
        if setup.request_type & KIND == 0 {
            return self.standard_in(setup, to);
        }
        if self.config.stock {
            return Answer::Stall;
        }
        match (setup.request_type, setup.request) {
            (IN, READ) => {
                let most = if self.config.usb2 { 64 } else { 512 };
                if to.len() > most {
                    let what = format!("{} bytes of {:#06x}", to.len(), setup.value);
                    self.broken(&rules::LENGTH, what);
                }
                let bytes = to.len().min(most);
                let bank = (setup.index >> 8) as u8;
                self.xdata_read(setup.value, bank, &mut to[..bytes]);
                Answer::Moved(bytes)
            }
            (IN, PACKET) if to.len() == 8 => {
                let mut all = [0; 8];
                match self.engine.completion(&self.journal) {
                    Ok(found) => all[..7].copy_from_slice(&found),
                    Err(code) => all[7] = code,
                }
                to.copy_from_slice(&all);
                Answer::Moved(8)
            }
            _ => {
                let what = format!("{setup:x?}, {} bytes", to.len());
                self.broken(&rules::REQUEST, what);
                Answer::Quiet
            }
        }
    }

    /// A control transfer to the device.
    pub(super) fn control_out(&mut self, setup: Setup, from: &[u8]) -> Answer {
        if setup.request_type & KIND == 0 {
            return self.standard_out(setup, from);
        }
        if self.config.stock {
            return Answer::Stall;
        }
        let [low, high] = setup.index.to_le_bytes();
        match (setup.request_type, setup.request, from) {
            (OUT, WRITE, []) => self.xdata_write(setup.value, high, low),
            (OUT, COPY, []) => {
                let to_host = setup.value >> 15 == 1;
                let sectors = u64::from(setup.value & 0x7fff);
                let slots = (u64::from(low), u64::from(high.max(1)));
                if self.stream.is_some_and(|stream| stream.to_host == to_host) {
                    let what = format!("{setup:x?} while a stream waits");
                    self.broken(&rules::ENGINES, what);
                }
                self.sram.arm(to_host, sectors, slots, &self.journal);
            }
            (OUT, POWER, []) => {
                // Reset is asserted before power comes, whether there was some or not.
                self.power(false);
                if setup.value & 1 == 1 {
                    self.power(true);
                    self.took += POWERED;
                }
            }
            (OUT, PACKET, from) if from.len() == 12 && low < 3 && high == 0 => {
                let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| from[at + i]));
                let at = u64::from(word(0)) | u64::from(word(4)) << 32;
                let [format, enables] = setup.value.to_le_bytes();
                self.packet_request(low, format, enables, at, word(8));
            }
            _ => {
                let what = format!("{setup:x?}, {} bytes", from.len());
                self.broken(&rules::REQUEST, what);
                // Without data it is acknowledged all the same.
                if !from.is_empty() {
                    return Answer::Quiet;
                }
            }
        }
        self.follow();
        Answer::Moved(from.len())
    }

    fn packet_request(&mut self, mode: u8, format: u8, enables: u8, at: u64, value: u32) {
        self.end();
        let to_host = match mode {
            0 => {
                self.engine.set(format, enables, at, value);
                self.engine.fire(&mut self.fabric, &self.journal);
                return;
            }
            mode => mode == 2,
        };
        let expected = if to_host { tlp::READ } else { tlp::WRITE };
        if (format, enables) != (expected, 0xf) || at & 3 != 0 {
            let what = format!("a stream of {format:#04x} at {at:#x}, byte enables {enables:#06b}");
            self.broken(&rules::FORMAT, what);
        }
        self.engine.streams(format, enables, at);
        self.begin(Stream {
            to_host,
            at: at & !3,
            dwords: value,
        });
    }
}
