//! The address space of the bridge's processor, as far as it is known what lies there.
//!
//! | from | to | what |
//! |---|---|---|
//! | 0x0000 | 0x6000 | memory of the firmware: read only |
//! | 0x7000 | 0x9000 | where bulk transfers land and leave |
//! | 0x9000 | 0x9400 | registers of the USB side: read only |
//! | 0x9e00 | 0xa000 | data of control transfers: read only |
//! | 0xa000 | 0xb000 | the page at 0x820000 of the bus |
//! | 0xb000 | 0xb200 | that at 0x800000 |
//! | 0xb210 | 0xb2a0 | the engine for single packets (`tlp`) |
//! | 0xb450 | | state of the link: 0x78 when it is up |
//! | 0xb800 | 0xc000 | the page at 0x822000 |
//! | 0xc412 | 0xc42b | the engine of copies: read only |
//! | 0xcc30 | | 1 on USB2 |
//! | 0xf000 | 0x10000 | the start of the buffer, at 0x200000 |

use std::ops::Range;

use super::state::State;
use super::{rules, sram, tlp};

/// The state of the link.
const LINK: u16 = 0xb450;
/// What it is when the link is up.
const UP: u8 = 0x78;
/// What it is while the link is trained: a receiver is seen, then both sides talk.
const TRAINING: [u8; 2] = [0x01, 0x10];

const MEMORY: Range<u32> = 0..0x6000;
const BUFFERS: Range<u32> = 0x7000..0x9000;
const USB: Range<u32> = 0x9000..0x9400;
const CONTROL: Range<u32> = 0x9e00..0xa000;
const ENGINE: Range<u32> = tlp::FIRST as u32..tlp::END as u32;
const COPIES: Range<u32> = 0xc412..0xc42b;
const SPEED: u16 = 0xcc30;

/// A block of the address space.
fn block(at: u32) -> Option<Range<u32>> {
    let windows = sram::WINDOWS.map(|(first, bytes, _)| {
        let first = u32::from(first);
        first..first + u32::from(bytes)
    });
    let one = |at: u16| u32::from(at)..u32::from(at) + 1;
    let others = [
        MEMORY,
        BUFFERS,
        USB,
        CONTROL,
        ENGINE,
        one(LINK),
        COPIES,
        one(SPEED),
    ];
    let mut all = windows.into_iter().chain(others);
    all.find(|block| block.contains(&at))
}

impl State {
    /// Reads as request 0xE4 does.
    pub(super) fn xdata_read(&mut self, at: u16, bank: u8, to: &mut [u8]) {
        let what = format!("{} bytes at {at:#06x} of bank {bank} are read", to.len());
        to.fill(0);
        let (first, end) = (u32::from(at), u32::from(at) + to.len() as u32);
        let Some(block) = block(first).filter(|_| bank == 0) else {
            self.broken(&rules::XDATA, what);
            return;
        };
        if end > block.end {
            self.broken(&rules::BORDER, what);
        }
        let inside = (block.end.min(end) - first) as usize;
        let to = &mut to[..inside];
        for (window, _, shown) in sram::WINDOWS {
            if block.start == u32::from(window) {
                self.sram.read(shown, at - window, to);
                return;
            }
        }
        for (byte, at) in to.iter_mut().zip(at..) {
            *byte = self.register(at);
        }
    }

    fn register(&mut self, at: u16) -> u8 {
        match at {
            LINK => self.link(),
            SPEED => self.config.usb2.into(),
            _ if ENGINE.contains(&at.into()) => {
                if !tlp::Engine::knows(at) {
                    self.broken(&rules::XDATA, format!("{at:#06x} is read"));
                }
                self.engine.read(at, &self.journal)
            }
            // 0x9100, the speed: 2 is SuperSpeed, 1 high speed; 0x92c0, power: on.
            0x9100 => 2 - u8::from(self.config.usb2),
            0x92c0 => 0x81,
            _ => self.ram.get(&at).copied().unwrap_or(0),
        }
    }

    /// The state of the link; each look lets training go on.
    fn link(&mut self) -> u8 {
        if self.fabric.function().is_none() {
            return 0;
        }
        match self.training.checked_sub(1) {
            None => UP,
            Some(left) => {
                self.training = left;
                TRAINING[usize::from(left == 0)]
            }
        }
    }

    /// Writes a byte as request 0xE5 does.
    pub(super) fn xdata_write(&mut self, at: u16, bank: u8, byte: u8) {
        let what = format!("{byte:#04x} is written to {at:#06x} of bank {bank}");
        let here = u32::from(at);
        for (window, bytes, shown) in sram::WINDOWS {
            if bank == 0 && (here.wrapping_sub(window.into())) < u32::from(bytes) {
                self.sram.write(shown, at - window, byte);
                return;
            }
        }
        let known = match here {
            _ if bank != 0 => false,
            _ if BUFFERS.contains(&here) => {
                self.ram.insert(at, byte);
                true
            }
            _ if ENGINE.contains(&here) => {
                self.engine.write(at, byte, &mut self.fabric, &self.journal)
            }
            _ => false,
        };
        if !known {
            self.broken(&rules::XDATA, what);
        }
    }
}
