//! Recorded transfers of a foreign driver on the bridge: answers are the same.
//!
//! They were recorded on a mock of the bridge and of a card, which answers whatever it is asked, whether a stream or a
//! copy is armed or not. What differs here, and why: the header of completions, which the mock leaves at zero
//! (`status`); registers of configuration space that the mock holds as plain memory (`OTHERWISE`); and a copy to the
//! host comes once the function has written to the page of completions, which the doorbell here has it do.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hcq::mem::window::AccessWidth;
use hcq::transport::{Pci, ResetKind, Setup, UsbPipe};
use serde_json::Value;
use twin::host::Mapping;
use twin::pci::{Bar, Broken, Bus, Function, HostMemory, Identity, Target};
use twin::usb::{Bridge, Config, Pipe};
use twin_amd::Journal;

const SECOND: Duration = Duration::from_secs(1);
/// Where the mock's card has a register that does not read as zero.
const REMAP: u64 = 0x378c;
/// The page of completions, and where the recorded driver has its fence.
const COMPLETION: u64 = 0x82_2000;
const FENCE: u64 = 0x82_0800;

/// By section and place in it: why a read of configuration space answers otherwise.
const OTHERWISE: &[(&str, &[usize], &str)] = &[
    ("cfg_read_vendor_bus0", &[1], "a bridge has a vendor"),
    ("cfg_read_bus4_word_off2", &[1], "a function has a number"),
    ("cfg_read_bus4_byte", &[1], "and a size of cache lines"),
    (
        "setup_bars_bus4",
        &[65, 67, 69, 71],
        "the resizable BAR lies elsewhere in the list of capabilities",
    ),
];

struct Memory {
    bytes: Arc<Mapping>,
    /// The way to the page of completions, behind doorbells.
    tell: Option<Arc<Bus>>,
}

impl Target for Memory {
    fn read(&mut self, offset: u64, width: AccessWidth) -> Result<u64, Broken> {
        let mut word = [0; 8];
        self.bytes.read(offset, &mut word[..width.bytes()]);
        Ok(u64::from_le_bytes(word))
    }
    fn write(&mut self, offset: u64, width: AccessWidth, value: u64) -> Result<(), Broken> {
        self.bytes
            .write(offset, &value.to_le_bytes()[..width.bytes()]);
        if let Some((page, number)) = self.tell.as_ref().and_then(|bus| bus.find(COMPLETION)) {
            page.write(number * 4096 + 12, &[0; 4]);
        }
        Ok(())
    }
    fn reset(&mut self, _: ResetKind) {}
}

/// A function as the mock's card is: VRAM, doorbells, registers. The mock lets a BAR lie anywhere; here it is as
/// large as its place below 4 GiB lets it be, where it is there.
fn function(memory: &Arc<HostMemory>, journal: &Arc<Journal>, prefetch: bool) -> Function {
    let identity = Identity {
        vendor: 0x1002,
        device: 0x7550,
        class: 0x03_0000,
        revision: 0,
    };
    let bus = Bus::new(memory);
    let bar = |number, bytes: u64, wide, tells: bool| {
        let bytes = Arc::new(Mapping::new(bytes).unwrap());
        if number == 5 {
            bytes.write(REMAP, &[0, 2, 0, 0]);
        }
        Bar {
            number,
            bytes: bytes.bytes(),
            wide,
            prefetch: wide && prefetch,
            target: Box::new(Memory {
                bytes,
                tell: tells.then(|| bus.clone()),
            }) as Box<dyn Target>,
        }
    };
    let bars = vec![
        bar(
            0,
            if prefetch { 0x2000_0000 } else { 0x1000_0000 },
            true,
            false,
        ),
        bar(2, 0x2000, false, true),
        bar(5, 0x20_0000, false, false),
    ];
    Function::new("the card", identity, bars, bus, journal.clone())
}

struct Rig {
    bridge: Arc<Bridge>,
    pipe: Arc<Pipe>,
    journal: Arc<Journal>,
    cases: Value,
    /// What the engine of the recorded driver has copied in.
    fence: u64,
}

fn hex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).unwrap() as u8;
    let pairs = text.as_bytes().chunks_exact(2);
    pairs
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

/// Bytes of a recording: long ones are left out there, any will do.
fn data(value: &Value) -> Vec<u8> {
    match value.as_str() {
        Some(text) => hex(text),
        None => {
            let fill = if value["zero"] == true { 0 } else { 0x5a };
            vec![fill; value["len"].as_u64().unwrap() as usize]
        }
    }
}

fn setup(bytes: &[u8]) -> (Setup, usize) {
    let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let setup = Setup {
        request_type: bytes[0],
        request: bytes[1],
        value: half(2),
        index: half(4),
    };
    (setup, half(6).into())
}

impl Rig {
    fn new(prefetch: bool) -> Rig {
        let (memory, journal) = (HostMemory::new(), Arc::new(Journal::new()));
        let (to, told) = (memory.clone(), journal.clone());
        let make = Box::new(move || Ok(function(&to, &told, prefetch)));
        let bridge = Bridge::new(Config::default(), &memory, &journal, make).unwrap();
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/amd");
        let text = std::fs::read_to_string(golden.join("usb_asm24.json")).unwrap();
        Rig {
            pipe: bridge.open().unwrap(),
            bridge,
            journal,
            cases: serde_json::from_str(&text).unwrap(),
            fence: 0,
        }
    }

    fn fence(&self, value: u64) {
        let function = self.bridge.function().unwrap();
        let (page, number) = function.bus().find(FENCE).unwrap();
        page.write(number * 4096 + FENCE % 4096, &value.to_le_bytes());
    }

    /// Replays a section; returns how many transfers it has.
    fn replay(&mut self, name: &str) -> usize {
        let events = self.cases[name].as_array().unwrap().clone();
        let others = OTHERWISE.iter().find(|(section, ..)| *section == name);
        let others = others.map_or(&[][..], |(_, places, _)| *places);
        let mut armed = false;
        for (at, event) in events.iter().enumerate() {
            let what = format!("{name}, {at}: {event}");
            match event[0].as_str().unwrap() {
                "ctrl_out" | "ctrl_out_async" => {
                    let (setup, bytes) = setup(&hex(event[1].as_str().unwrap()));
                    let sent = data(&event[2]);
                    assert_eq!(sent.len(), bytes, "{what}");
                    armed = setup.request == 0xf2;
                    assert_eq!(
                        self.pipe.control_out(setup, &sent, SECOND),
                        Ok(bytes),
                        "{what}"
                    );
                }
                "ctrl_in" | "ctrl_in_async" => {
                    let (setup, bytes) = setup(&hex(event[1].as_str().unwrap()));
                    let mut got = vec![0; bytes];
                    assert_eq!(
                        self.pipe.control_in(setup, &mut got, SECOND),
                        Ok(bytes),
                        "{what}"
                    );
                    if setup.request == 0xf0 {
                        // The status says success where the mock says nothing.
                        assert_eq!((got[4] >> 5, got[7]), (0, 0), "{what}");
                        got[4..7].fill(0);
                    }
                    if !event[2].is_null() && !others.contains(&at) {
                        assert_eq!(got, data(&event[2]), "{what}");
                    }
                }
                "bulk_out" | "bulk_out_async" => {
                    let sent = data(&event[2]);
                    let moved = self.pipe.bulk_out(0x02, &sent, SECOND);
                    assert_eq!(moved, Ok(sent.len()), "{what}");
                    if armed && self.fence > 0 {
                        self.fence += 1;
                        let function = self.bridge.function().unwrap();
                        for page in 0..128 {
                            // The copy engine reads what has come.
                            assert!(function.bus().find(0x20_0000 + page * 4096).is_some());
                        }
                        self.fence(self.fence);
                    }
                }
                "bulk_in" => {
                    let expected = data(&event[2]);
                    let mut got = vec![0; expected.len()];
                    let moved = self.pipe.bulk_in(0x81, &mut got, SECOND);
                    assert_eq!(moved, Ok(expected.len()), "{what}");
                    assert!(got == expected, "{what}");
                }
                "wait_async" | "tag" => {}
                other => panic!("{other}"),
            }
        }
        let violations = self.journal.violations();
        assert!(violations.is_empty(), "{name}: {violations:?}");
        events.len()
    }
}

#[test]
fn recorded_requests_get_the_recorded_answers() {
    let mut rig = Rig::new(true);
    let mut all = 0;
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
        "mem_read_tlp_dword",
        "mem_write_tlp_dword",
        "mem_write_tlp_byte",
        "mmio_read_dword_streaming",
        "mmio_write_dword_streaming",
        "vram_write_256",
        "vram_read_256",
        "sram_write_1000",
        "sram_write_64k_slot16",
    ] {
        all += rig.replay(name);
    }
    assert_eq!(all, 157);
}

/// Where the recorded driver found the BARs of the mock's card when it opened it: below 4 GiB.
fn below(rig: &mut Rig) {
    rig.replay("controller_probe");
    let out = |request_type: u8, value: u16, data: &[u8]| {
        let setup = Setup {
            request_type,
            request: 0xf0,
            value,
            index: 0,
        };
        rig.pipe.control_out(setup, data, SECOND).unwrap();
    };
    let write = |bus: u32, at: u32, value: u32| {
        let words = [bus << 24 | at, 0, value].map(u32::to_le_bytes);
        let kind = 0x0f44 | u16::from(bus > 0);
        out(0x40, kind, words.as_flattened());
    };
    for bus in 0..4 {
        write(bus, 0x18, (bus + 1) << 8 | 4 << 16);
        write(bus, 0x20, 0xffff_1000);
        write(bus, 0x04, 7);
    }
    for (at, value) in [
        (0x10, 0x1000_0000),
        (0x18, 0x3000_0000),
        (0x24, 0x3020_0000),
    ] {
        write(4, at, value);
    }
    write(4, 0x04, 7);
}

#[test]
fn recorded_copies_go_through_both_windows() {
    let mut rig = Rig::new(false);
    below(&mut rig);
    // One chunk had been copied before.
    rig.fence = 1;
    rig.fence(1);
    rig.replay("device_copyin_768k");
    assert_eq!(rig.fence, 5);
    let counts = rig.bridge.counts();
    assert_eq!(counts.bytes_out, 344 + 16 + 3 * 0x4_0000 + 512);

    let mut rig = Rig::new(false);
    below(&mut rig);
    let function = rig.bridge.function().unwrap();
    let vram = function.bar(0).unwrap();
    vram.write(0x210_6ff0, 3u64).unwrap();
    rig.replay("device_copyout_576k");
}

#[test]
fn a_buffer_that_was_written_is_read_back_once_it_is_released() {
    let mut rig = Rig::new(true);
    rig.replay("controller_probe");
    rig.replay("setup_bars_bus4");
    rig.replay("sram_write_1000");
    let read = rig.cases["sram_read_1000"].as_array().unwrap().clone();
    let (setup, _) = setup(&hex(read[0][1].as_str().unwrap()));
    rig.pipe.control_out(setup, &[], SECOND).unwrap();
    let mut got = [0; 1024];
    let soon = Duration::from_millis(2);
    assert!(
        rig.pipe.bulk_in(0x81, &mut got, soon).is_err(),
        "nobody has released it"
    );
    let function = rig.bridge.function().unwrap();
    let (page, number) = function.bus().find(COMPLETION).unwrap();
    page.write(number * 4096 + 14, &[1]);
    assert_eq!(rig.pipe.bulk_in(0x81, &mut got, SECOND), Ok(1024));
    assert_eq!(got.to_vec(), data(&read[1][2]));
    assert!(rig.journal.violations().is_empty());
}
