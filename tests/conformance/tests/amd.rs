//! The suite on AMD GPUs: our driver on the twin. Its kernels are compiled by clang.
//!
//! Every case ends with a look into the twin's journal: a rule that was broken fails it.

// A failed step ends the test.
#![allow(clippy::unwrap_used)]

#[path = "../../../drivers/amd/tests/device/cable/mod.rs"]
mod cable;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cable::Remote;
use conformance::part::Part;
use conformance::{Kernel, Subject};
use drivers_amd::{Language, Options};
use drivers_asm24::Bridged;
use hcq::transport::cable::Cable;
use hcq::transport::{Clock, Machine, VirtualClock};
use hcq::{Device, KernelImage};
use twin_amd::Journal;
use twin_amd::machine::TwinMachine;
use twin_amd::pci::machine::PciMachine;
use twin_amd::usb::UsbMachine;

conformance::conformance!(gfx1030, || TwinSubject::new("gfx1030", "", Language::Pm4));
conformance::conformance!(gfx1100, || TwinSubject::new("gfx1100", "", Language::Pm4));
conformance::conformance!(gfx1103, || TwinSubject::new("gfx1103", "", Language::Pm4));
conformance::conformance!(gfx1034, || TwinSubject::new("gfx1034", "", Language::Pm4));
conformance::conformance!(gfx1201, || TwinSubject::new("gfx1201", "", Language::Pm4));
conformance::conformance!(gfx942, || TwinSubject::new(
    "gfx942",
    "xcc=1",
    Language::Aql
));
conformance::conformance!(gfx942_8, || TwinSubject::new(
    "gfx942",
    "xcc=8",
    Language::Aql
));
// The other language of that chip, on one of its dies.
conformance::conformance!(gfx942_pm4, || TwinSubject::new(
    "gfx942",
    "xcc=1",
    Language::Pm4
));
// The same on several, each of which has a queue of its own.
conformance::conformance!(gfx942_8_pm4, || TwinSubject::new(
    "gfx942",
    "xcc=8",
    Language::Pm4
));
conformance::conformance!(gfx942_2_pm4, || TwinSubject::new(
    "gfx942",
    "xcc=2",
    Language::Pm4
));
// Half of the ways of the host to memory.
conformance::conformance!(small_bar, || TwinSubject::new(
    "gfx1100",
    "bar=small",
    Language::Pm4
));

conformance::conformance!(userptr, || {
    let mut subject = TwinSubject::new("gfx1100", "", Language::Pm4);
    subject.userptr = true;
    subject
});

// The host has no mapping: each access is a transfer over a cable.
conformance::conformance!(gfx1100_remote, || {
    let mut subject = TwinSubject::new("gfx1100", "", Language::Pm4);
    subject.cable = Some(Cable::new());
    subject
});

// Without a kernel driver: the card itself, which our driver starts.
conformance::conformance!(gfx1100_pci, || PciSubject::new("gfx1100", ""));
conformance::conformance!(gfx1201_pci, || PciSubject::new("gfx1201", ""));
// Eight XCCs, and AQL.
conformance::conformance!(gfx942_pci, || PciSubject::new("gfx942", ""));
// And behind a bridge of USB.
conformance::conformance!(gfx1201_usb, || UsbSubject::new("gfx1201", ""));

/// Of cards that differ little from these, one case in ten, which the part chooses.
#[test]
fn a_tenth_on_more_cards_without_a_kernel_driver() {
    let part = Part::chosen();
    // One behind a small BAR, one as VFIO gives it, by which interrupts end waits, one as sysfs does.
    let cards = [
        ("gfx1102", "bar=256"),
        ("gfx1200", "irq=on"),
        ("gfx1101", ""),
    ];
    for (number, (chip, config)) in cards.into_iter().enumerate() {
        for (i, (name, case)) in conformance::CASES.iter().enumerate() {
            // Of each another tenth.
            if part.has(i + 3 * number, 10) {
                println!("{chip}: {name}");
                case(&PciSubject::new(chip, config));
            }
        }
    }
}

/// Two GPUs of a kind.
struct TwinSubject {
    chip: &'static str,
    language: Language,
    /// What lies between the host and the memory of both.
    cable: Option<Arc<Cable>>,
    /// Host buffers are memory of the process.
    userptr: bool,
    twin: Arc<TwinMachine>,
}

impl TwinSubject {
    fn new(chip: &'static str, config: &str, language: Language) -> TwinSubject {
        let twin = TwinMachine::new(&format!("drain=never,chip={chip},gpus=2,{config}")).unwrap();
        TwinSubject {
            chip,
            language,
            cable: None,
            userptr: false,
            twin,
        }
    }
}

impl Subject for TwinSubject {
    fn open(&self, index: u32, ring_words: u32) -> hcq::Result<Arc<dyn Device>> {
        let machine: Arc<dyn Machine> = self.twin.clone();
        let options = Options {
            compute_ring: u64::from(ring_words) * 4,
            copy_ring: u64::from(ring_words) * 4,
            compute: Some(self.language),
            userptr: self.userptr,
            ring_timeout: Duration::from_millis(match ring_words {
                64 => 50,
                _ => 60_000,
            }),
            ..Options::default()
        };
        let mut interface = drivers_amd::kfd::open(&machine, index, &options)?;
        if let Some(cable) = &self.cable {
            interface = Remote::over(cable, interface);
        }
        Ok(drivers_amd::over(&interface, &options)?)
    }

    fn kernel(&self, kernel: Kernel) -> KernelImage {
        image(self.chip, kernel)
    }
}

impl Drop for TwinSubject {
    fn drop(&mut self) {
        unbroken(&self.twin.machine().journal);
    }
}

/// Two cards of a kind, which no kernel driver has.
struct PciSubject {
    chip: &'static str,
    twin: Arc<PciMachine>,
}

impl PciSubject {
    fn new(chip: &'static str, config: &str) -> PciSubject {
        let twin = PciMachine::new(&format!("chip={chip},gpus=2,{config}")).unwrap();
        PciSubject { chip, twin }
    }
}

impl Subject for PciSubject {
    fn open(&self, index: u32, ring_words: u32) -> hcq::Result<Arc<dyn Device>> {
        let machine: Arc<dyn Machine> = self.twin.clone();
        let options = bare(ring_words);
        let functions = machine.pci_functions().unwrap();
        let address = &functions[index as usize].address;
        // What the start of a card waits for is counted, not timed.
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
        let interface = drivers_amd::am::open(&machine, address, index, &clock, &options)?;
        Ok(drivers_amd::over(&interface, &options)?)
    }

    fn kernel(&self, kernel: Kernel) -> KernelImage {
        image(self.chip, kernel)
    }
}

impl Drop for PciSubject {
    fn drop(&mut self) {
        unbroken(self.twin.journal());
    }
}

/// Two cards behind bridges.
struct UsbSubject {
    chip: &'static str,
    twin: Arc<UsbMachine>,
}

impl UsbSubject {
    fn new(chip: &'static str, config: &str) -> UsbSubject {
        let twin = UsbMachine::new(&format!("chip={chip},gpus=2,{config}")).unwrap();
        UsbSubject { chip, twin }
    }
}

impl Subject for UsbSubject {
    fn open(&self, index: u32, ring_words: u32) -> hcq::Result<Arc<dyn Device>> {
        let machine: Arc<dyn Machine> = self.twin.clone();
        let options = bare(ring_words);
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
        let through = Bridged::over(&machine, &clock);
        let port = format!("2-{}", index + 1);
        let interface = drivers_amd::am::open(&through, &port, index, &clock, &options)?;
        Ok(drivers_amd::over(&interface, &options)?)
    }

    fn devices_meet(&self) -> bool {
        // The bus of each ends at its bridge.
        false
    }

    fn kernel(&self, kernel: Kernel) -> KernelImage {
        image(self.chip, kernel)
    }
}

impl Drop for UsbSubject {
    fn drop(&mut self) {
        unbroken(self.twin.journal());
    }
}

/// Options for a card without a kernel driver.
fn bare(ring_words: u32) -> Options {
    Options {
        compute_ring: u64::from(ring_words) * 4,
        copy_ring: u64::from(ring_words) * 4,
        ring_timeout: Duration::from_millis(match ring_words {
            64 => 50,
            _ => 60_000,
        }),
        firmware: vec![firmware()],
        ..Options::default()
    }
}

/// Debian's package, as `scripts/fetch firmware` leaves it.
fn firmware() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/firmware/bookworm-backports")
}

/// A kernel of `amdgpu.c` for a chip.
fn image(chip: &'static str, kernel: Kernel) -> KernelImage {
    let entry = match kernel {
        Kernel::Add => "add",
        Kernel::Step => "step",
        Kernel::Store => "store",
    };
    static OBJECTS: Mutex<BTreeMap<&str, Arc<[u8]>>> = Mutex::new(BTreeMap::new());
    let object = OBJECTS
        .lock()
        .unwrap()
        .entry(chip)
        .or_insert_with(|| conformance::amdgpu::object(chip).unwrap().into())
        .clone();
    KernelImage {
        name: entry.into(),
        arch: chip.into(),
        bytes: object,
        entry: entry.into(),
        args: kernel.args(),
        local_bytes: 0,
    }
}

/// What a case has left in the journal fails it; of a case that has failed it is shown.
fn unbroken(journal: &Journal) {
    if std::thread::panicking() {
        for violation in journal.violations() {
            eprintln!("{violation}\n");
        }
        return;
    }
    // Two cases go to these addresses to see what happens.
    let asked = |what: &str| what.contains("0x1230") || what.contains("0x4560");
    let broken: Vec<_> = journal
        .violations()
        .into_iter()
        .filter(|v| v.rule.name != "GPU-PAGE-FAULT" || !asked(&v.what))
        .map(|v| v.to_string())
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n\n"));
}
