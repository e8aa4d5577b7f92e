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

impl Subject for TwinSubject {
    fn open(&self, index: u32, ring_words: u32) -> hcq::Result<Arc<dyn Device>> {
        let machine: Arc<dyn Machine> = self.twin.clone();
        let options = Options {
            entries: ring_words / 2,
            ring_timeout: Duration::from_millis(match ring_words {
                64 => 50,
                _ => 60_000,
            }),
            ..Options::default()
        };
        Ok(drivers_nv::open(&machine, index, &options)?)
    }

    fn kernel(&self, kernel: Kernel) -> KernelImage {
        let entry = match kernel {
            Kernel::Add => "add",
            Kernel::Step => "step",
            Kernel::Store => "store",
        };
        let file = format!("tests/nv/{}.cubin", self.arch);
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        KernelImage {
            name: entry.into(),
            arch: self.arch.into(),
            bytes: std::fs::read(file).unwrap().into(),
            entry: entry.into(),
            args: kernel.args(),
            local_bytes: 0,
        }
    }

    fn waits_for_ever(&self) {
        self.waits.store(true, Ordering::Relaxed);
    }
}

impl Drop for TwinSubject {
    fn drop(&mut self) {
        // Two cases go to these addresses to see what happens.
        let asked = |what: &str| what.contains("at 0x1230") || what.contains("at 0x4560");
        let all = self.twin.machine().journal.violations();
        let broken = all.iter().filter(|one| match one.rule.name {
            "MMU-FAULT" => !asked(&one.what),
            "HOST-DEADLOCK" => !self.waits.load(Ordering::Relaxed),
            _ => true,
        });
        let broken: Vec<_> = broken.map(ToString::to_string).collect();
        let broken = broken.join("\n\n");
        if std::thread::panicking() {
            eprintln!("{broken}");
            return;
        }
        assert!(broken.is_empty(), "{broken}");
    }
}
