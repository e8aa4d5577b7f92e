//! The bridge around its processor: registers of its USB side as the firmware knows them; the engines of the bus and
//! of copies are those of the twin.
//!
//! Source: tinygrad/asm2464pd-firmware, src/include/registers.h.

use std::collections::VecDeque;
use std::sync::Arc;

use super::core::{Core, Outside};
use crate::usb::bridge::Bridge;
use crate::usb::state::State;
use crate::usb::{sram, tlp};

/// Steps that no request takes.
const STEPS: u64 = 40_000_000;

mod at {
    pub(super) const LENGTH: usize = 0x9003;
    pub(super) const IN_LENGTH: usize = 0x9007;
    pub(super) const PHASE: u16 = 0x9091;
    pub(super) const TRIGGER: u16 = 0x9092;
    pub(super) const EVENTS: u16 = 0x9093;
    pub(super) const ARM: u16 = 0x9094;
    pub(super) const STATUS: usize = 0x9101;
    pub(super) const SETUP: usize = 0x9104;
    pub(super) const OUT_LENGTH: usize = 0x910d;
    pub(super) const CONTROL: usize = 0x9e00;
    pub(super) const LANDING: usize = 0x7000;
    pub(super) const LEAVING: usize = 0x8000;
    pub(super) const LINK: u16 = 0xb450;
    pub(super) const PERST: usize = 0xb480;
    pub(super) const UART: u16 = 0xc001;
    pub(super) const COPY: u16 = 0xc412;
    pub(super) const SLOTS: usize = 0xc414;
    pub(super) const SECTORS: usize = 0xc426;
    pub(super) const RAIL: usize = 0xc659;
    pub(super) const INTERRUPT: usize = 0xc802;
    pub(super) const FLASH: u16 = 0xc8a9;
    pub(super) const FLASH_COMMAND: usize = 0xc8aa;
    pub(super) const TIMER: u16 = 0xcc11;
    pub(super) const TRAIN: usize = 0xe764;
    pub(super) const LINK_UP: u16 = 0xe765;
}

/// Phases of a control transfer.
mod phase {
    pub(super) const SETUP: u8 = 1;
    pub(super) const STATUS_OUT: u8 = 2;
    pub(super) const DATA: u8 = 4;
    pub(super) const STATUS_IN: u8 = 0x10;
}

/// What the firmware is interrupted for.
const CONTROL: u8 = 2;
const BULK: u8 = 4;

/// What surrounds the processor.
pub(super) struct Chip {
    pub(super) hardware: Arc<Bridge>,
    memory: Vec<u8>,
    banked: Vec<u8>,
    asserted: bool,
    /// What the firmware has sent on endpoint 0 since its setup.
    sent: Option<Vec<u8>>,
    /// The endpoint from the host takes a packet.
    takes: bool,
    /// Packets for the host.
    packets: VecDeque<Vec<u8>>,
    /// What it has said on its serial line.
    pub(super) said: String,
}

/// A bridge that runs firmware.
pub(super) struct Board {
    core: Core,
    pub(super) chip: Chip,
}

impl Chip {
    fn half(&self, at: usize) -> usize {
        usize::from(u16::from_be_bytes([self.memory[at], self.memory[at + 1]]))
    }

    /// Power and reset of the function, as the pins have it.
    fn power(&self) {
        let on = self.memory[at::PERST] & 1 == 0
            && self.memory[at::RAIL] & 1 == 1
            && self.memory[at::TRAIN] == 0x1c;
        self.hardware.lock().power(on);
    }

    fn window(at: u16) -> Option<(sram::Shown, u16)> {
        let mut windows = sram::WINDOWS.into_iter();
        windows.find_map(|(first, bytes, shown)| {
            let inside = at.wrapping_sub(first);
            (at >= first && inside < bytes).then_some((shown, inside))
        })
    }
}

impl Outside for Chip {
    fn load(&mut self, at: u16, bank: u8) -> u8 {
        if bank != 0 {
            return self.banked[usize::from(at)];
        }
        if let Some((shown, inside)) = Chip::window(at) {
            let mut byte = [0];
            self.hardware.lock().sram.read(shown, inside, &mut byte);
            return byte[0];
        }
        match at {
            // Time goes by at once, and flash is never busy.
            at::TIMER => 2,
            at::FLASH => 0,
            at::LINK_UP => 2,
            at::LINK => {
                let mut byte = [0];
                self.hardware.lock().xdata_read(at, 0, &mut byte);
                byte[0]
            }
            tlp::FIRST..tlp::END => {
                let mut state = self.hardware.lock();
                let State {
                    engine, journal, ..
                } = &mut *state;
                engine.read(at, journal)
            }
            _ => self.memory[usize::from(at)],
        }
    }

    fn store(&mut self, at: u16, bank: u8, byte: u8) {
        if bank != 0 {
            self.banked[usize::from(at)] = byte;
            return;
        }
        if let Some((shown, inside)) = Chip::window(at) {
            self.hardware.lock().sram.write(shown, inside, byte);
            return;
        }
        let held = &mut self.memory[usize::from(at)];
        match at {
            // Bits are cleared by writing them.
            at::PHASE | at::EVENTS => *held &= !byte,
            at::UART => self.said.push(byte.into()),
            at::TRIGGER => {
                if byte == 4 {
                    let bytes = self.half(at::LENGTH);
                    let data = &self.memory[at::CONTROL..][..bytes];
                    self.sent = Some(data.to_vec());
                }
            }
            at::ARM => match byte {
                1 => self.packets.clear(),
                2 => {
                    let bytes = self.half(at::IN_LENGTH);
                    self.packets
                        .push_back(self.memory[at::LEAVING..][..bytes].to_vec());
                }
                8 => self.takes = false,
                0x10 => self.takes = true,
                other => panic!("endpoints: {other:#x}"),
            },
            at::COPY => {
                *held = byte;
                if byte & 2 != 0 {
                    let first = self.memory[at::SLOTS] & 0x7f;
                    let slots = self.memory[at::SLOTS + 1].wrapping_sub(first);
                    let sectors = self.half(at::SECTORS) as u64;
                    let mut state = self.hardware.lock();
                    let State { sram, journal, .. } = &mut *state;
                    sram.arm(
                        byte & 1 == 0,
                        sectors,
                        (first.into(), slots.into()),
                        journal,
                    );
                }
            }
            at::FLASH => {
                // An erased chip: all ones.
                if self.memory[at::FLASH_COMMAND] == 3 {
                    self.memory[at::LANDING..][..16].fill(0xff);
                }
            }
            tlp::FIRST..tlp::END => {
                let mut state = self.hardware.lock();
                let State {
                    engine,
                    fabric,
                    journal,
                    ..
                } = &mut *state;
                engine.write(at, byte, fabric, journal);
                state.follow();
            }
            _ => {
                *held = byte;
                if [at::PERST, at::RAIL, at::TRAIN].contains(&usize::from(at)) {
                    self.power();
                }
            }
        }
    }

    fn asserted(&self) -> bool {
        self.asserted
    }
}

impl Board {
    /// Starts firmware.
    pub(super) fn new(firmware: &[u8], hardware: Arc<Bridge>) -> Board {
        let mut chip = Chip {
            hardware,
            memory: vec![0; 0x1_0000],
            banked: vec![0; 0x1_0000],
            asserted: false,
            sent: None,
            takes: false,
            packets: VecDeque::new(),
            said: String::new(),
        };
        chip.memory[at::INTERRUPT] = 1;
        let mut board = Board {
            core: Core::new(firmware),
            chip,
        };
        board.until("it waits for interrupts", |before, core| core.pc == before);
        board
    }

    fn until(&mut self, what: &str, done: impl Fn(u16, &Core) -> bool) {
        for _ in 0..STEPS {
            let before = self.core.pc;
            self.core.step(&mut self.chip);
            // The interrupt has been taken.
            if !self.core.is_outside() {
                self.chip.asserted = false;
            }
            if !self.chip.asserted && done(before, &self.core) {
                return;
            }
        }
        panic!(
            "{what}: not after {STEPS} steps, at {:#06x}; it said:\n{}",
            self.core.pc, self.chip.said
        );
    }

    fn interrupt(&mut self, why: u8) {
        self.chip.memory[at::STATUS] = why;
        self.chip.asserted = true;
        self.until("an interrupt ends", |_, core| core.is_outside());
    }

    fn phase(&mut self, phase: u8) {
        self.chip.memory[usize::from(at::PHASE)] = phase;
        self.interrupt(CONTROL);
    }

    /// A control transfer: what comes, or none where nothing does.
    pub(super) fn control(&mut self, setup: [u8; 8], data: &[u8]) -> Option<Vec<u8>> {
        self.chip.memory[at::SETUP..][..8].copy_from_slice(&setup);
        self.chip.sent = None;
        self.phase(phase::SETUP);
        if setup[0] & 0x80 != 0 {
            let sent = self.chip.sent.take()?;
            self.phase(phase::STATUS_OUT);
            let most = usize::from(u16::from_le_bytes([setup[6], setup[7]]));
            return Some(sent[..sent.len().min(most)].to_vec());
        }
        if !data.is_empty() {
            self.chip.memory[at::CONTROL..][..data.len()].copy_from_slice(data);
            self.phase(phase::DATA);
        }
        self.phase(phase::STATUS_IN);
        self.chip.sent.take()
    }

    /// A bulk transfer from the host: how much was taken.
    pub(super) fn bulk_out(&mut self, data: &[u8]) -> usize {
        if !self.chip.takes {
            let mut state = self.chip.hardware.lock();
            let State { sram, journal, .. } = &mut *state;
            return sram.take(data, 1024, journal).unwrap_or(0);
        }
        let mut taken = 0;
        for packet in data.chunks(1024) {
            if !std::mem::take(&mut self.chip.takes) {
                break;
            }
            self.chip.memory[at::LANDING..][..packet.len()].copy_from_slice(packet);
            let length = (packet.len() as u16).to_be_bytes();
            self.chip.memory[at::OUT_LENGTH..][..2].copy_from_slice(&length);
            self.chip.memory[usize::from(at::EVENTS)] |= 2;
            self.interrupt(BULK);
            taken += packet.len();
        }
        taken
    }

    /// A bulk transfer to the host: what comes.
    pub(super) fn bulk_in(&mut self, most: usize) -> Vec<u8> {
        let mut data = Vec::new();
        if self.chip.packets.is_empty() {
            data.resize(most, 0);
            let mut state = self.chip.hardware.lock();
            let State { sram, journal, .. } = &mut *state;
            let given = sram.give(&mut data, 1024, journal).and_then(Result::ok);
            data.truncate(given.unwrap_or(0));
            return data;
        }
        while data.len() < most {
            let Some(packet) = self.chip.packets.pop_front() else {
                break;
            };
            data.extend(&packet);
            self.chip.memory[usize::from(at::EVENTS)] |= 8;
            self.interrupt(BULK);
            if packet.len() < 1024 {
                break;
            }
        }
        data
    }
}
