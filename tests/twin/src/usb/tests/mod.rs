//! A bridge with a function of memory and one register behind it.

#![allow(clippy::unwrap_used)] // A test may panic.

mod copies;
mod judge;
mod mistakes;

use std::sync::Arc;
use std::time::Duration;

use drivers_spec::pci::PCI_BASE_ADDRESS_0;
use hcq::mem::window::AccessWidth;
use hcq::transport::{Fault, ResetKind, Setup, Transfer, UsbPipe};

use super::*;
use crate::fires::fires;
use crate::pci::{Bar, Broken, Bus, Function, HostMemory, Identity, Target};
use crate::rule::Journal;

const SECOND: Duration = Duration::from_secs(1);
/// Where the test puts the BARs.
const MEMORY: u64 = 0x8_0000_0000;
const REGISTER: u64 = 0x1000_0000;
const SRAM: u64 = 0x20_0000;
const CQ: u64 = 0x82_2000;

struct Bytes(Vec<u8>);

impl Target for Bytes {
    fn read(&mut self, offset: u64, width: AccessWidth) -> Result<u64, Broken> {
        let mut word = [0; 8];
        let at = offset as usize;
        word[..width.bytes()].copy_from_slice(&self.0[at..at + width.bytes()]);
        Ok(u64::from_le_bytes(word))
    }
    fn write(&mut self, offset: u64, width: AccessWidth, value: u64) -> Result<(), Broken> {
        let at = offset as usize;
        self.0[at..at + width.bytes()].copy_from_slice(&value.to_le_bytes()[..width.bytes()]);
        Ok(())
    }
    fn reset(&mut self, _: ResetKind) {
        self.0.fill(0);
    }
}

struct Rig {
    bridge: Arc<Bridge>,
    pipe: Arc<Pipe>,
    journal: Arc<Journal>,
}

fn function(memory: &Arc<HostMemory>, journal: &Arc<Journal>) -> Function {
    let identity = Identity {
        vendor: 0x1234,
        device: 1,
        class: 0x03_0000,
        revision: 0,
    };
    let bar = |number, bytes: usize, wide| Bar {
        number,
        bytes: bytes as u64,
        wide,
        prefetch: wide,
        target: Box::new(Bytes(vec![0; bytes])) as Box<dyn Target>,
    };
    let bars = vec![bar(0, 8 << 20, true), bar(5, 0x1000, false)];
    Function::new("behind", identity, bars, Bus::new(memory), journal.clone())
}

impl Rig {
    fn new(config: Config) -> Rig {
        let (memory, journal) = (HostMemory::new(), Arc::new(Journal::new()));
        let (to, told) = (memory.clone(), journal.clone());
        let make = Box::new(move || Ok(function(&to, &told)));
        let bridge = Bridge::new(config, &memory, &journal, make).unwrap();
        let pipe = bridge.open().unwrap();
        Rig {
            bridge,
            pipe,
            journal,
        }
    }

    /// With power, bus numbers, windows and BARs.
    fn ready() -> Rig {
        Rig::set_up(Config::default())
    }

    fn set_up(config: Config) -> Rig {
        let hops = config.hops as u8;
        let rig = Rig::new(config);
        rig.out(0xf3, 1, 0, &[]);
        rig.bridges(hops, 7);
        rig.bars(hops);
        rig.is_clean();
        rig
    }

    fn bridges(&self, hops: u8, command: u32) {
        for bus in 0..hops {
            let numbers = u32::from(bus + 1) << 8 | u32::from(hops) << 16;
            for (at, value) in [
                (0x18, numbers),
                (0x20, 0xffff_1000),
                (0x24, 0xffff_0000),
                (0x28, 8),
                (0x2c, u32::MAX),
                (0x04, command),
            ] {
                assert_eq!(self.write_config(bus, at, value), 0, "bus {bus} {at:#x}");
            }
        }
    }

    fn bars(&self, bus: u8) {
        self.write_config(bus, PCI_BASE_ADDRESS_0, MEMORY as u32);
        self.write_config(bus, PCI_BASE_ADDRESS_0 + 4, (MEMORY >> 32) as u32);
        self.write_config(bus, PCI_BASE_ADDRESS_0 + 20, REGISTER as u32);
        self.write_config(bus, 4, 7);
    }

    fn broken(&self) -> Vec<&'static str> {
        let violations = self.journal.violations();
        violations.iter().map(|one| one.rule.name).collect()
    }

    fn is_clean(&self) {
        let violations = self.journal.violations();
        assert!(violations.is_empty(), "{violations:?}");
    }

    fn try_out(&self, request: u8, value: u16, index: u16, data: &[u8]) -> Result<usize, Fault> {
        let setup = Setup {
            request_type: 0x40,
            request,
            value,
            index,
        };
        let sent = self.pipe.control_out(setup, data, SECOND);
        sent.map_err(|error| error.fault)
    }

    fn out(&self, request: u8, value: u16, index: u16, data: &[u8]) {
        let sent = self.try_out(request, value, index, data);
        assert_eq!(sent, Ok(data.len()), "{request:#x}");
    }

    fn get(&self, request: u8, value: u16, bytes: usize) -> Vec<u8> {
        let setup = Setup {
            request_type: 0xc0,
            request,
            value,
            index: 0,
        };
        let mut data = vec![0; bytes];
        let got = self.pipe.control_in(setup, &mut data, SECOND).unwrap();
        data.truncate(got);
        data
    }

    fn packet(&self, format: u8, enables: u8, at: u64, value: u32) {
        self.f0(0, format, enables, at, value);
    }

    fn f0(&self, mode: u16, format: u8, enables: u8, at: u64, value: u32) {
        let data = [(at as u32), (at >> 32) as u32, value].map(u32::to_le_bytes);
        let setup = u16::from_le_bytes([format, enables]);
        self.out(0xf0, setup, mode, data.as_flattened());
    }

    /// Data, status, byte count, result.
    fn completion(&self) -> (u32, u8, u16, u8) {
        let all = self.get(0xf0, 0, 8);
        let data = u32::from_le_bytes([all[0], all[1], all[2], all[3]]);
        let header = u16::from_be_bytes([all[4], all[5]]);
        (data, (header >> 13) as u8, header & 0xfff, all[7])
    }

    fn config_at(bus: u8, at: u16) -> (u64, u8) {
        (u64::from(bus) << 24 | u64::from(at), u8::from(bus > 0))
    }

    fn read_config(&self, bus: u8, at: u16) -> (u32, u8) {
        let (place, kind) = Rig::config_at(bus, at);
        self.packet(0x04 | kind, 0xf, place, 0);
        let (data, status, bytes, result) = self.completion();
        assert_eq!((bytes, result), (4, 0));
        (data, status)
    }

    /// The status.
    fn write_config(&self, bus: u8, at: u16, value: u32) -> u8 {
        let (place, kind) = Rig::config_at(bus, at);
        self.packet(0x44 | kind, 0xf, place, value);
        self.completion().1
    }

    fn stream_out(&self, at: u64, data: &[u8]) {
        self.f0(1, 0x60, 0xf, at, (data.len() / 4) as u32);
        assert_eq!(self.bulk_out(data), Ok(data.len()));
    }

    fn stream_in(&self, at: u64, bytes: usize) -> Vec<u8> {
        self.f0(2, 0x20, 0xf, at, (bytes / 4) as u32);
        self.bulk_in(bytes).unwrap()
    }

    fn bulk_out(&self, data: &[u8]) -> Result<usize, Fault> {
        let sent = self.pipe.bulk_out(0x02, data, SECOND);
        sent.map_err(|error| error.fault)
    }

    fn bulk_in(&self, bytes: usize) -> Result<Vec<u8>, Fault> {
        let mut data = vec![0; bytes];
        // What does not come is not waited for here.
        let limit = Duration::from_millis(5);
        let got = self.pipe.bulk_in(0x81, &mut data, limit);
        data.truncate(got.map_err(|error| error.fault)?);
        Ok(data)
    }

    /// The function itself reads or writes the bus.
    fn reach(&self, at: u64, run: impl FnOnce(&crate::host::Mapping, u64)) {
        let function = self.bridge.function().unwrap();
        let found = function.bus().reach(at, "the function", &self.journal);
        let (mapping, page) = found.unwrap();
        run(&mapping, page * 4096 + at % 4096);
    }

    fn sram(&self, at: u64, bytes: usize) -> Vec<u8> {
        let mut data = vec![0; bytes];
        self.reach(SRAM + at, |mapping, at| {
            assert!(mapping.read(at, &mut data))
        });
        data
    }
}

#[test]
fn numbers_windows_and_bars_lead_to_the_function() {
    let rig = Rig::new(Config {
        training: 2,
        retries: 1,
        ..Config::default()
    });
    assert_eq!(rig.get(0xe4, 0xb450, 1), [0]);
    rig.out(0xf3, 1, 0, &[]);
    let looks = [0, 1, 2].map(|_| rig.get(0xe4, 0xb450, 1)[0]);
    assert_eq!(looks, [0x01, 0x10, 0x78]);
    // Nobody is known behind the first bridge yet.
    assert_eq!(rig.read_config(0, 0).1, 0);
    assert_eq!(rig.read_config(1, 0).1, 1);
    rig.bridges(4, 7);
    for bus in 0..4 {
        let (header, status) = rig.read_config(bus, 0x0c);
        assert_eq!((header >> 16 & 0xff, status), (1, 0), "bus {bus}");
    }
    assert_eq!(rig.read_config(4, 0).1, 2, "to be sent again");
    assert_eq!(rig.read_config(4, 0), (0x0001_1234, 0));
    assert_eq!(rig.read_config(5, 0).1, 1);
    rig.bars(4);
    rig.packet(0x60, 0xf, REGISTER, 0x1234_5678);
    rig.packet(0x20, 0xf, REGISTER, 0);
    assert_eq!(rig.completion(), (0x1234_5678, 0, 4, 0));
    // Bytes by their lanes.
    rig.packet(0x60, 0b0100, REGISTER, 0x00ab_0000);
    rig.packet(0x20, 0b1100, REGISTER, 0);
    assert_eq!(rig.completion(), (0x12ab_0000, 0, 2, 0));
    rig.packet(0x20, 0xf, REGISTER + 0x1000, 0);
    assert_eq!(rig.completion().1, 1, "nothing is there");
    let data: Vec<u8> = (0..4096u32)
        .flat_map(|i| (i as u16).to_le_bytes())
        .collect();
    rig.stream_out(MEMORY + 0x1000, &data);
    assert_eq!(rig.stream_in(MEMORY + 0x1000, data.len()), data);
    rig.is_clean();
    let counts = rig.bridge.counts();
    assert_eq!((counts.bulk, counts.bytes_out), (2, data.len() as u64));
}

#[test]
fn registers_send_packets_as_requests_do() {
    let rig = Rig::ready();
    let poke = |at: u16, byte: u8| rig.out(0xe5, at, byte.into(), &[]);
    let send = |format: u8, at: u64, value: u32| {
        for (i, byte) in value.to_be_bytes().into_iter().enumerate() {
            poke(0xb220 + i as u16, byte);
        }
        for (i, byte) in (at as u32).to_be_bytes().into_iter().enumerate() {
            poke(0xb218 + i as u16, byte);
        }
        poke(0xb217, 0xf);
        poke(0xb210, format);
        poke(0xb254, 0xf);
        poke(0xb296, 4);
    };
    send(0x40, REGISTER, 0x5566_7788);
    send(0x00, REGISTER, 0);
    assert_eq!(rig.get(0xe4, 0xb296, 1), [0]);
    assert_eq!(rig.get(0xe4, 0xb296, 1), [2]);
    assert_eq!(rig.get(0xe4, 0xb220, 4), [0x55, 0x66, 0x77, 0x88]);
    assert_eq!(rig.get(0xe4, 0xb22a, 2), [0, 4]);
    assert_eq!(rig.get(0xe4, 0xb284, 1), [1]);
    rig.is_clean();
    send(0x00, REGISTER, 0);
    rig.get(0xe4, 0xb220, 4);
    assert!(rig.broken().iter().all(|rule| *rule == "ASM24-TLP-EARLY"));
    fires("ASM24-TLP-EARLY").first(&rig.broken());
}

#[test]
fn time_goes_by_as_documented() {
    let rig = Rig::ready();
    let before = rig.bridge.now();
    let data = vec![1; 0x4_0000];
    rig.out(0xf2, 512, 0x1000, &[]);
    rig.bulk_out(&data).unwrap();
    let took = rig.bridge.now() - before;
    // 256 KiB at 700 MB/s, two round trips and a control transfer.
    assert_eq!(took.as_micros(), 75 + 374);
    // What is queued at once costs one, and the transfers of endpoint 0 go beside the bulk.
    let setup = |value, index| Setup {
        request_type: 0x40,
        request: 0xf2,
        value,
        index,
    };
    let before = (rig.bridge.now(), rig.bridge.counts().round_trips);
    let mut queue = [
        Transfer::BulkOut(0x02, &data),
        Transfer::ControlOut(setup(512, 0x1010), &[]),
    ];
    assert_eq!(rig.pipe.queue(&mut queue, SECOND).unwrap(), [data.len(), 0]);
    assert_eq!((rig.bridge.now() - before.0).as_micros(), 25 + 374);
    assert_eq!(rig.bridge.counts().round_trips, before.1 + 1);
    // 4 MiB by 3.6 MB/s are more than a second.
    rig.f0(1, 0x60, 0xf, MEMORY, 1 << 20);
    let late = rig.bulk_out(&vec![0; 4 << 20]);
    assert!(matches!(late, Err(Fault::TimedOut(_))), "{late:?}");
}

#[test]
fn a_transfer_that_goes_wrong_is_an_error_and_what_comes_after_goes_right() {
    let rig = Rig::ready();
    let go_wrong = |what| rig.bridge.inject(Trouble { after: 1, what });
    for what in [What::Stall, What::Late, What::Vanish, What::Short] {
        rig.stream_out(MEMORY, &[0; 64]);
        rig.f0(1, 0x60, 0xf, MEMORY, 16);
        rig.bridge.inject(Trouble { after: 0, what });
        let sent = rig.bulk_out(&[5; 64]);
        let expected = match what {
            What::Stall => Err(Fault::Stall),
            What::Short => Ok(32),
            _ => Err(Fault::TimedOut(SECOND)),
        };
        assert_eq!(sent, expected, "{what:?}");
        if what == What::Stall {
            assert_eq!(
                rig.bulk_out(&[5; 64]),
                Err(Fault::Stall),
                "until it is cleared"
            );
        }
        rig.pipe.clear_halt(0x02).unwrap();
        let has = rig.stream_in(MEMORY, 64);
        let all = has.iter().filter(|byte| **byte == 5).count();
        let effect = match what {
            What::Late => 64,
            What::Short => 32,
            _ => 0,
        };
        assert_eq!(all, effect, "{what:?}");
    }
    go_wrong(What::Stall);
    rig.out(0xe5, 0xa000, 1, &[]);
    assert_eq!(rig.try_out(0xe5, 0xa000, 1, &[]), Err(Fault::Stall));
    rig.out(0xe5, 0xa000, 1, &[]);
    rig.is_clean();
}

#[test]
fn unplugged_it_is_gone_and_plugged_in_it_starts_anew() {
    let rig = Rig::ready();
    rig.stream_out(MEMORY, &[5; 64]);
    rig.bridge.unplug();
    assert_eq!(rig.bulk_out(&[0; 4]), Err(Fault::Gone));
    assert!(rig.pipe.clear_halt(2).is_err());
    assert!(rig.bridge.found().is_none() && rig.bridge.open().is_none());
    rig.bridge.plug();
    assert_eq!(
        rig.try_out(0xf3, 1, 0, &[]),
        Err(Fault::Gone),
        "opened before"
    );
    assert_eq!(rig.bridge.found().unwrap().number, 3);
    let rig = Rig {
        pipe: rig.bridge.open().unwrap(),
        ..rig
    };
    assert_eq!(rig.get(0xe4, 0xb450, 1), [0]);
    assert_eq!(rig.read_config(1, 0).1, 1, "bus numbers are forgotten");
    rig.out(0xf3, 1, 0, &[]);
    rig.bridges(4, 7);
    rig.bars(4);
    assert_eq!(rig.stream_in(MEMORY, 64), [0; 64]);
    rig.is_clean();
}

#[test]
fn descriptors_are_those_of_the_firmware() {
    let ask = |rig: &Rig, value: u16, bytes: usize| {
        let setup = Setup {
            request_type: 0x80,
            request: 6,
            value,
            index: 0,
        };
        let mut data = vec![0; bytes];
        let got = rig.pipe.control_in(setup, &mut data, SECOND).unwrap();
        data.truncate(got);
        data
    };
    let rig = Rig::new(Config::default());
    let device = ask(&rig, 0x100, 255);
    assert_eq!(device[..4], [18, 1, 0x20, 3]);
    assert_eq!(device[8..12], [0xd1, 0xad, 1, 0]);
    let configuration = ask(&rig, 0x200, 255);
    assert_eq!((configuration.len(), configuration[2]), (121, 121));
    assert_eq!(ask(&rig, 0x0f00, 255).len(), 22);
    let product = ask(&rig, 0x302, 255);
    assert_eq!((product[0], &product[2..6]), (24, &b"c\0u\0"[..]));
    let rig = Rig::new(Config {
        usb2: true,
        ..Config::default()
    });
    assert_eq!(ask(&rig, 0x200, 9), [9, 2, 46, 0, 1, 1, 0, 0xc0, 0]);
}
