//! The bridge's own firmware as judge: an image of it runs on a model of the bridge's processor, and answers what the
//! twin answers.
//!
//! The variable `DOORBELL_ASM24_FIRMWARE` names an image, as it is built or wrapped for flashing; without it the
//! comparison is left out. What the firmware finds below it (the engines, the buses, the buffer) is the twin's: judged is
//! what the twin says of the firmware.

mod chip;
mod core;

use std::path::Path;

use serde_json::Value;

use super::*;
use chip::Board;

const VARIABLE: &str = "DOORBELL_ASM24_FIRMWARE";

/// The image, without what wraps it for flashing: its length, its bytes, a mark, sums.
fn firmware() -> Option<Vec<u8>> {
    let path = std::env::var(VARIABLE).ok()?;
    let all = std::fs::read(&path).unwrap_or_else(|error| panic!("{VARIABLE}={path}: {error}"));
    let length = u32::from_le_bytes([all[0], all[1], all[2], all[3]]) as usize;
    Some(match all.get(4 + length) {
        Some(0xa5) => all[4..4 + length].to_vec(),
        _ => all,
    })
}

fn hex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks_exact(2);
    let digit = |byte: u8| (byte as char).to_digit(16).unwrap() as u8;
    pairs
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

fn data(value: &Value) -> Vec<u8> {
    match value.as_str() {
        Some(text) => hex(text),
        None => vec![0x5a; value["len"].as_u64().unwrap() as usize],
    }
}

/// A bridge that runs firmware and one that is the twin, asked the same.
struct Both {
    board: Board,
    rig: Rig,
    asked: usize,
}

impl Both {
    fn control(&mut self, setup: &[u8], sent: &[u8]) {
        let all: [u8; 8] = setup.try_into().unwrap();
        let half = |at: usize| u16::from_le_bytes([all[at], all[at + 1]]);
        let about = Setup {
            request_type: all[0],
            request: all[1],
            value: half(2),
            index: half(4),
        };
        let judged = self.board.control(all, sent);
        let got = match all[0] & 0x80 {
            0 => self
                .rig
                .pipe
                .control_out(about, sent, SECOND * 20)
                .map(|_| Vec::new()),
            _ => {
                let mut data = vec![0; usize::from(half(6))];
                let got = self.rig.pipe.control_in(about, &mut data, SECOND * 20);
                got.map(|bytes| data[..bytes].to_vec())
            }
        };
        self.asked += 1;
        assert_eq!(
            got.ok(),
            judged,
            "{about:x?}; firmware said:\n{}",
            self.board.chip.said
        );
    }

    fn out(&mut self, data: &[u8]) {
        let judged = self.board.bulk_out(data);
        let got = self.rig.bulk_out(data).unwrap_or(0);
        self.asked += 1;
        assert_eq!(got, judged, "{:#x} bytes", data.len());
    }

    fn come(&mut self, bytes: usize) {
        let judged = self.board.bulk_in(bytes);
        let got = self.rig.bulk_in(bytes).unwrap_or_default();
        self.asked += 1;
        assert!(
            got == judged,
            "{bytes:#x} bytes: {got:x?}, firmware: {judged:x?}"
        );
    }

    /// The function behind each writes to the page of completions.
    fn release(&mut self) {
        for bridge in [&self.rig.bridge, &self.board.chip.hardware] {
            let function = bridge.function().unwrap();
            let (mapping, page) = function.bus().find(CQ).unwrap();
            mapping.write(page * 4096 + 12, &[0; 4]);
        }
    }
}

#[test]
fn the_firmware_answers_as_the_twin_does() {
    let Some(firmware) = firmware() else {
        eprintln!("left out: {VARIABLE} names no image of the bridge's firmware");
        return;
    };
    let powered = || Config {
        powered: true,
        ..Config::default()
    };
    let board = Board::new(&firmware, Rig::new(Config::default()).bridge);
    let mut both = Both {
        board,
        rig: Rig::new(powered()),
        asked: 0,
    };
    // What a host asks before it has anything to ask: descriptors, and its settings.
    for value in [0x100u16, 0x200, 0xf00, 0x300, 0x301, 0x302, 0x303] {
        for length in [8u8, 255] {
            let [low, high] = value.to_le_bytes();
            both.control(&[0x80, 6, low, high, 0, 0, length, 0], &[]);
        }
    }
    both.control(&[0, 9, 1, 0, 0, 0, 0, 0], &[]);
    both.control(&[1, 11, 0, 0, 0, 0, 0, 0], &[]);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/amd/usb_asm24.json");
    let cases = std::fs::read_to_string(golden).unwrap();
    let cases: Value = serde_json::from_str(&cases).unwrap();
    for name in [
        "controller_probe",
        "pcie_power_on",
        "setup_bars_bus4",
        "xdata_read_1",
        "xdata_write_4",
        "cfg_read_vendor_bus0",
        "cfg_read_bus4_word_off2",
        "cfg_read_bus4_byte",
        "cfg_write_bus4_dword",
        "cfg_write_bus0_word",
        "cfg_write_bus0_byte",
        "vram_write_256",
        "vram_read_256",
        "sram_write_1000",
        "sram_write_64k_slot16",
        "sram_read_1000",
    ] {
        for event in cases[name].as_array().unwrap() {
            match event[0].as_str().unwrap() {
                "ctrl_out" => both.control(&hex(event[1].as_str().unwrap()), &data(&event[2])),
                "ctrl_in" => both.control(&hex(event[1].as_str().unwrap()), &[]),
                "bulk_out" => both.out(&data(&event[2])),
                "bulk_in" => {
                    if name == "sram_read_1000" {
                        both.release();
                    }
                    both.come(data(&event[2]).len());
                }
                other => panic!("{other}"),
            }
        }
    }
    // Streams of several packets, and of which some is left; halts that are cleared.
    let f0 = |mode: u8, format: u8, at: u64, dwords: u32| {
        let words = [at as u32, (at >> 32) as u32, dwords].map(u32::to_le_bytes);
        (
            [0x40, 0xf0, format, 0xf, mode, 0, 12, 0],
            words.as_flattened().to_vec(),
        )
    };
    let many: Vec<u8> = (0..5000u32).map(|i| (i * 3) as u8).collect();
    let (setup, words) = f0(1, 0x60, MEMORY + 0x100, 1250);
    both.control(&setup, &words);
    both.out(&many);
    let (setup, words) = f0(2, 0x20, MEMORY + 0x100, 1250);
    both.control(&setup, &words);
    both.come(5000);
    let (setup, words) = f0(1, 0x60, MEMORY + 0x100, 100);
    both.control(&setup, &words);
    both.out(&many[..64]);
    both.control(&[2, 1, 0, 0, 2, 0, 0, 0], &[]);
    both.rig.pipe.clear_halt(2).unwrap();
    let (setup, words) = f0(2, 0x20, MEMORY + 0x100, 100);
    both.control(&setup, &words);
    both.come(400);
    // Nobody is there; a packet that the firmware asks the engine for.
    let (setup, words) = f0(0, 0x20, 0xdead_0000, 0);
    both.control(&setup, &words);
    both.control(&[0xc0, 0xf0, 0, 0, 0, 0, 8, 0], &[]);
    assert!(both.asked > 150, "{}", both.asked);
    eprintln!(
        "{} transfers; the firmware says:\n{}",
        both.asked, both.board.chip.said
    );
}
