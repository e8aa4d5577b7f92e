//! The suite on NVIDIA GPUs: our driver on the twin. `nv/kernels.ptx` says what its kernels are.
//!
//! Every case ends with a look at what the twin saw: a rule that was broken fails it.

// A failed step ends the test.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conformance::{Kernel, Subject};
use drivers_nv::Options;
use hcq::transport::Machine;
use hcq::{Device, KernelImage};
use twin_nv::machine::TwinMachine;

#[path = "nv/pci.rs"]
mod pci;

conformance::conformance!(sm_86, || TwinSubject::new("ga102", "sm_86", ""));
conformance::conformance!(sm_89, || TwinSubject::new("ad102", "sm_89", ""));
conformance::conformance!(sm_90, || TwinSubject::new("h100", "sm_90", ""));
conformance::conformance!(sm_120, || TwinSubject::new("gb202", "sm_120", ""));
// The oldest driver, and one that nobody has described yet.
conformance::conformance!(sm_90_by_535, || TwinSubject::new(
    "h100",
    "sm_90",
    "driver=535,"
));
conformance::conformance!(sm_90_by_590, || TwinSubject::new(
    "h100",
    "sm_90",
    "says=590.44.01,"
));
// Memory is mapped by the resource manager alone.
conformance::conformance!(sm_90_without_uvm, || TwinSubject::new(
    "h100",
    "sm_90",
    "fault=path:/dev/nvidia-uvm:ENOENT"
));

// Without the kernel driver.
conformance::conformance!(sm_86_by_pci, || PciSubject::new("ga102", "sm_86"));
conformance::conformance!(sm_89_by_pci, || PciSubject::new("ad102", "sm_89"));
conformance::conformance!(sm_90_by_pci, || PciSubject::new("gh100", "sm_90"));
conformance::conformance!(sm_120_by_pci, || PciSubject::new("gb202", "sm_120"));

/// Two GPUs of a kind.
struct TwinSubject {
    arch: &'static str,
    /// A queue is left at a wait: the twin names that (HOST-DEADLOCK), though hardware waits as long as it
    /// is let.
    waits: AtomicBool,
    twin: Arc<TwinMachine>,
}

impl TwinSubject {
    fn new(chip: &'static str, arch: &'static str, config: &str) -> TwinSubject {
        let twin = TwinMachine::new(&format!("chip={chip},gpus=2,{config}")).unwrap();
        TwinSubject {
            arch,
            waits: AtomicBool::new(false),
            twin,
        }
    }
}

/// How devices are opened.
fn options(ring_words: u32) -> Options {
    Options {
        entries: ring_words / 2,
        ring_timeout: Duration::from_millis(match ring_words {
            64 => 50,
            _ => 60_000,
        }),
        ..Options::default()
    }
}

/// A kernel for an architecture.
fn image(arch: &str, kernel: Kernel) -> KernelImage {
    let entry = match kernel {
        Kernel::Add => "add",
        Kernel::Step => "step",
        Kernel::Store => "store",
    };
    let file = format!("tests/nv/{arch}.cubin");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    KernelImage {
        name: entry.into(),
        arch: arch.into(),
        bytes: std::fs::read(file).unwrap().into(),
        entry: entry.into(),
        args: kernel.args(),
        local_bytes: 0,
    }
}

impl Subject for TwinSubject {
    fn open(&self, index: u32, ring_words: u32) -> hcq::Result<Arc<dyn Device>> {
        let machine: Arc<dyn Machine> = self.twin.clone();
        Ok(drivers_nv::open(&machine, index, &options(ring_words))?)
    }

    fn kernel(&self, kernel: Kernel) -> KernelImage {
        image(self.arch, kernel)
    }

    fn waits_for_ever(&self) {
        self.waits.store(true, Ordering::Relaxed);
    }
}

impl Drop for TwinSubject {
    fn drop(&mut self) {
        let all = self.twin.machine().journal.violations();
        let all = all
            .iter()
            .map(|one| (one.rule.name, one.what.clone(), one.to_string()));
        check(all.collect(), self.waits.load(Ordering::Relaxed));
    }
}

/// Two cards without the kernel driver.
struct PciSubject {
    arch: &'static str,
    waits: AtomicBool,
    cards: pci::Cards,
}

impl PciSubject {
    fn new(chip: &'static str, arch: &'static str) -> PciSubject {
        PciSubject {
            arch,
            waits: AtomicBool::new(false),
            cards: pci::Cards::new(chip),
        }
    }
}

impl Subject for PciSubject {
    fn open(&self, index: u32, ring_words: u32) -> hcq::Result<Arc<dyn Device>> {
        self.cards.open(index, options(ring_words))
    }

    fn kernel(&self, kernel: Kernel) -> KernelImage {
        image(self.arch, kernel)
    }

    fn waits_for_ever(&self) {
        self.waits.store(true, Ordering::Relaxed);
    }
}

impl Drop for PciSubject {
    fn drop(&mut self) {
        let all = self.cards.machine.journal().violations();
        let all = all
            .iter()
            .map(|one| (one.rule.name, one.what.clone(), one.to_string()));
        check(all.collect(), self.waits.load(Ordering::Relaxed));
    }
}

/// No rule is broken, but where a case goes to see what happens.
fn check(all: Vec<(&'static str, String, String)>, waits: bool) {
    // Two cases go to these addresses to see what happens.
    let asked = |what: &str| what.contains("at 0x1230") || what.contains("at 0x4560");
    let broken = all.into_iter().filter(|(rule, what, _)| match *rule {
        "MMU-FAULT" => !asked(what),
        "HOST-DEADLOCK" => !waits,
        _ => true,
    });
    let broken: Vec<_> = broken.map(|(_, _, text)| text).collect();
    let broken = broken.join("\n\n");
    if std::thread::panicking() {
        eprintln!("{broken}");
        return;
    }
    assert!(broken.is_empty(), "{broken}");
}
