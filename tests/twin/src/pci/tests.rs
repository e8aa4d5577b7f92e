//! A function with a scratch register behind BAR 0.

use super::*;
use crate::fires::fires;
use crate::host::Mapping;
use drivers_spec::pci::{
    Command, PCI_BASE_ADDRESS_0, PCI_CAPABILITY_LIST, VENDOR_AMD, VENDOR_NVIDIA,
};
use hcq::addr::Domain;
use std::os::fd::AsFd;
use std::sync::Barrier;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

static SCRATCH_ONLY: Rule = Rule {
    name: "TEST-SCRATCH",
    text: "only register 0 exists",
    source: "this test",
    proof: Proof::Guess,
};

struct Scratch(u32);

impl Target for Scratch {
    fn read(&mut self, offset: u64, _: AccessWidth) -> Result<u64, Broken> {
        if offset != 0 {
            return Err((&SCRATCH_ONLY, format!("read {offset:#x}")));
        }
        Ok(self.0.into())
    }
    fn write(&mut self, offset: u64, _: AccessWidth, v: u64) -> Result<(), Broken> {
        if offset != 0 {
            return Err((&SCRATCH_ONLY, format!("write {offset:#x}")));
        }
        self.0 = v as u32;
        Ok(())
    }
    fn configured(&mut self, offset: u16, value: u32) {
        self.0 = u32::from(offset) << 16 | value;
    }
    fn reset(&mut self, _: ResetKind) {
        self.0 = 0;
    }
}

fn function() -> (Function, Arc<Journal>) {
    of(VENDOR_AMD, &[(0, 1 << 28)])
}

/// A function of a vendor with BARs: their numbers, and bytes.
fn of(vendor: u16, bars: &[(u8, u64)]) -> (Function, Arc<Journal>) {
    let journal = Arc::new(Journal::new());
    let identity = Identity {
        vendor,
        device: 0x744c,
        class: 0x030000,
        revision: 0xc8,
    };
    let bar = |&(number, bytes)| Bar {
        number,
        bytes,
        wide: number != 0 || bars.len() == 1,
        prefetch: true,
        target: Box::new(Scratch(0)) as _,
    };
    let capabilities = match vendor {
        VENDOR_NVIDIA => Capabilities::GEFORCE,
        _ => Capabilities::RADEON,
    };
    (
        Function::with(
            "0000:03:00.0",
            (identity, capabilities),
            bars.iter().map(bar).collect(),
            Bus::new(&HostMemory::new()),
            journal.clone(),
        ),
        journal,
    )
}

fn named(journal: &Journal) -> Vec<&'static str> {
    let violations = journal.violations();
    violations.iter().map(|v| v.rule.name).collect()
}

#[test]
fn identity_and_sizing() {
    let (f, journal) = function();
    assert_eq!(
        f.config_read(PCI_VENDOR_ID, AccessWidth::W32).unwrap(),
        0x744c_1002
    );
    assert_eq!(
        f.config_read(PCI_DEVICE_ID, AccessWidth::W16).unwrap(),
        0x744c
    );
    assert_eq!(
        f.config_read(PCI_CLASS_REVISION + 3, AccessWidth::W8)
            .unwrap(),
        0x03
    );
    f.config_write(PCI_BASE_ADDRESS_0, AccessWidth::W32, !0)
        .unwrap();
    f.config_write(PCI_BASE_ADDRESS_0 + 4, AccessWidth::W32, !0)
        .unwrap();
    let low = f.config_read(PCI_BASE_ADDRESS_0, AccessWidth::W32).unwrap();
    let high = f
        .config_read(PCI_BASE_ADDRESS_0 + 4, AccessWidth::W32)
        .unwrap();
    assert_eq!(low & 0xf, 0xc);
    let size = (u64::from(high) << 32 | u64::from(low & !0xf)).wrapping_neg();
    assert_eq!(size, 1 << 28);
    assert!(journal.violations().is_empty());
}

#[test]
fn access_before_decoding_breaks_a_rule() {
    let (f, journal) = function();
    let bar = f.bar(0).unwrap();
    let text = bar.read::<u32>(0).unwrap_err().to_string();
    fires("PCI-MEM-DECODE").only(&named(&journal));
    assert!(text.contains("rule PCI-MEM-DECODE"), "{text}");
    f.config_write(PCI_COMMAND, AccessWidth::W16, Command::MEMORY.bits().into())
        .unwrap();
    bar.write::<u32>(0, 7).unwrap();
    assert_eq!(bar.read::<u32>(0).unwrap(), 7);
    f.reset(ResetKind::Function).unwrap();
    assert!(bar.read::<u32>(0).is_err(), "decoding is off after a reset");
    assert_eq!(journal.violations().len(), 2);
}

#[test]
fn broken_rules_are_named() {
    let (f, journal) = function();
    f.config_write(PCI_COMMAND, AccessWidth::W16, Command::MEMORY.bits().into())
        .unwrap();
    let bar = f.bar(0).unwrap();
    assert_eq!(f.config_read(0x40, AccessWidth::W32).unwrap(), 0);
    let cases = [
        (
            f.config_write(PCI_VENDOR_ID, AccessWidth::W16, 0).err(),
            fires("PCI-READ-ONLY"),
        ),
        (
            f.config_write(0x40, AccessWidth::W32, 0).err(),
            fires("PCI-UNMODELLED"),
        ),
        (
            f.config_read(0x01, AccessWidth::W16).err(),
            fires("PCI-CONFIG-ALIGNED"),
        ),
        (bar.read::<u32>(4).err(), fires("TEST-SCRATCH")),
    ];
    let broken = named(&journal);
    assert_eq!(broken.len(), cases.len());
    for ((done, rule), broken) in cases.into_iter().zip(broken) {
        rule.only(&[broken]);
        let text = done.unwrap().to_string();
        assert!(text.contains(broken), "{text}");
    }
}

#[test]
fn capabilities_are_a_list_and_a_reset_is_one_of_them() {
    let (f, journal) = function();
    let mut at = f.config_read(PCI_CAPABILITY_LIST, AccessWidth::W8).unwrap() as u16;
    let mut found = Vec::new();
    while at != 0 {
        found.push((f.config_read(at, AccessWidth::W8).unwrap(), at));
        at = f.config_read(at + 1, AccessWidth::W8).unwrap() as u16;
    }
    assert_eq!(
        found.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
        [1, 0x10, 5]
    );
    let mut at = 0x100;
    let mut extended = Vec::new();
    while at != 0 {
        let header = f.config_read(at, AccessWidth::W32).unwrap();
        extended.push(header & 0xffff);
        at = (header >> 20) as u16;
    }
    assert_eq!(extended, [0xb, 0x15]);
    // BAR 0 has one size: 256 MiB.
    let sizes = f.config_read(0x204, AccessWidth::W32).unwrap();
    assert_eq!(sizes >> 4, 1 << 8);
    let command = (Command::MEMORY | Command::MASTER).bits();
    f.config_write(PCI_COMMAND, AccessWidth::W16, command.into())
        .unwrap();
    let bar = f.bar(0).unwrap();
    bar.write::<u32>(0, 7).unwrap();
    assert!(f.bus().master());
    let control = found[1].1 + 8;
    let old = f.config_read(control, AccessWidth::W16).unwrap();
    f.config_write(control, AccessWidth::W16, old | 1 << 15)
        .unwrap();
    assert!(!f.bus().master());
    assert_eq!(f.config_read(PCI_COMMAND, AccessWidth::W16), Ok(0));
    f.config_write(PCI_COMMAND, AccessWidth::W16, command.into())
        .unwrap();
    assert_eq!(bar.read::<u32>(0), Ok(0));
    assert!(journal.violations().is_empty());
}

#[test]
fn vendors_have_their_own_layout() {
    let (f, journal) = of(VENDOR_NVIDIA, &[(0, 1 << 24), (1, 1 << 28), (3, 1 << 25)]);
    let read = |at| f.config_read(at, AccessWidth::W32).unwrap();
    let mut at = f.config_read(PCI_CAPABILITY_LIST, AccessWidth::W8).unwrap() as u16;
    let mut found = Vec::new();
    while at != 0 {
        found.push((read(at) & 0xff, at));
        at = (read(at) >> 8 & 0xff) as u16;
    }
    assert_eq!(found, [(1, 0x60), (5, 0x68), (0x10, 0x78)]);
    assert_eq!(read(0x100), 0xbb0 << 20 | 0x0001_0002);
    // Three BARs: 16, 256 and 32 MiB.
    assert_eq!(read(0xbb0), 0x0001_0015);
    let sizes = [0xbb4, 0xbbc, 0xbc4].map(read);
    assert_eq!(sizes, [1 << 8, 1 << 12, 1 << 9]);
    let controls = [0xbb8, 0xbc0, 0xbc8].map(read);
    assert_eq!(controls, [4 << 8 | 3 << 5, 8 << 8 | 1, 5 << 8 | 3]);
    // Its own registers: one holds a bit, of the other the function is told.
    f.config_write(PCI_COMMAND, AccessWidth::W16, Command::MEMORY.bits().into())
        .unwrap();
    let write = |at, value| f.config_write(at, AccessWidth::W32, value).unwrap();
    let told = || f.bar(0).unwrap().read::<u32>(0).unwrap();
    write(0x50, 3);
    assert_eq!((read(0x50), told()), (1, 0x50_0003));
    write(0x704, 7);
    assert_eq!((read(0x704), told()), (0, 0x704_0007));
    assert!(f.bus().set_configuration(0x50, 0));
    assert!(!f.bus().set_configuration(0x04, 0));
    assert_eq!(read(0x50), 0);
    assert!(journal.violations().is_empty());
}

#[test]
fn memory_of_the_host_is_scattered_and_is_given_as_long_as_it_is_kept() {
    let (f, journal) = function();
    let dma = f.dma(3 * 4096, 4096).unwrap();
    assert_eq!(dma.view.len(), 3 * 4096);
    let ranges = dma.ranges.for_domain(Domain::BUS).unwrap();
    assert_eq!(ranges.len(), 3);
    assert!(ranges[0].addr.0 + ranges[0].bytes < ranges[1].addr.0);
    dma.view.write::<u32>(2 * 4096 + 8, 0x1234_5678).unwrap();
    let at = ranges[2].addr.0;
    let (memory, page) = f.bus().find(at + 8).unwrap();
    assert_eq!(page, 2);
    assert_eq!(memory.load64(2 * 4096 + 8), 0x1234_5678);
    assert!(f.bus().find(at + 4096).is_none());
    drop(memory);
    let (engine, bus) = ("an engine", f.bus());
    assert!(bus.reach(at, engine, &journal).is_none());
    fires("PCI-MASTER").only(&named(&journal));
    let command = Command::MASTER.bits();
    f.config_write(PCI_COMMAND, AccessWidth::W16, command.into())
        .unwrap();
    assert!(bus.reach(at, engine, &journal).is_some());
    drop(dma);
    assert!(bus.reach(at, engine, &journal).is_none());
    fires("PCI-DMA-GIVEN").only(&named(&journal)[1..]);
    let huge = f.dma(5 << 20, 1 << 20).unwrap();
    let ranges = huge.ranges.for_domain(Domain::BUS).unwrap();
    assert_eq!(ranges.iter().map(|range| range.bytes).sum::<u64>(), 5 << 20);
    assert!(ranges.iter().all(|range| range.addr.0 % (1 << 20) == 0));
}

#[test]
fn memory_of_a_process_that_has_ended_is_reached_as_long_as_its_file_has_a_name() {
    for is_named in [false, true] {
        let (f, journal) = function();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pages");
        let file = std::fs::File::create_new(&path).unwrap();
        file.set_len(4096).unwrap();
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        let part = crate::host::Part {
            offset: 0,
            bytes: 4096,
        };
        let memory = Mapping::of_parts(file.as_fd(), &[part]).unwrap();
        let (at, bus) = (0x1_0000_0000, f.bus());
        bus.memory().add(at, 4096, Arc::new(memory), 0);
        let command = Command::MASTER.bits();
        f.config_write(PCI_COMMAND, AccessWidth::W16, command.into())
            .unwrap();
        if !is_named {
            std::fs::remove_file(&path).unwrap();
        }
        // Whoever has it mapped keeps it.
        assert!(bus.reach(at, "an engine", &journal).is_some());
        bus.memory().process_ended();
        assert_eq!(bus.reach(at, "an engine", &journal).is_some(), is_named);
        if is_named {
            std::fs::remove_file(&path).unwrap();
            assert!(bus.reach(at, "an engine", &journal).is_none());
        }
        fires("PCI-DMA-FREED").only(&named(&journal));
    }
}

#[test]
fn what_is_asked_for_while_the_last_bytes_are_written_is_known() {
    const AT: u64 = 0x20_0000;
    let memory = HostMemory::new();
    let mapping = Arc::new(Mapping::new(2 * 4096).unwrap());
    memory.add(AT, mapping.bytes(), mapping.clone(), 0);
    memory.watch(AT, mapping.bytes(), || {});
    memory.find(AT + 4096).unwrap();
    assert!(memory.was_found(AT + 4096, 1) && !memory.was_found(AT, 1));
    let (found, is_found) = mpsc::channel();
    let (function, begins) = (memory.clone(), Arc::new(Barrier::new(2)));
    let mut asks = None;
    memory.watch(AT, mapping.bytes(), || {
        mapping.store64(4096, 1);
        let begun = begins.clone();
        asks = Some(thread::spawn(move || {
            begun.wait();
            function.find(AT).unwrap();
            found.send(()).unwrap();
        }));
        begins.wait();
        // It finds it once the pages of before are forgotten, never between.
        let early = is_found.recv_timeout(Duration::from_millis(50));
        assert_eq!(early, Err(RecvTimeoutError::Timeout));
    });
    asks.unwrap().join().unwrap();
    assert!(memory.was_found(AT, 1) && !memory.was_found(AT + 4096, 1));
}
