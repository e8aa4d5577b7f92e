//! The suite on the CPU. Its kernels are compiled by the system's C compiler.

// A failed step ends the test.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use conformance::{Kernel, Opened, Subject};
use drivers_cpu::{Config, CpuDevice};
use hcq::{ArgLayout, KernelImage};

conformance::conformance!(cpu, || CpuSubject);

struct CpuSubject;

impl Subject for CpuSubject {
    fn open(&self, index: u32, ring_words: u32) -> hcq::Result<Opened> {
        let device = CpuDevice::open_cpu(Config {
            index,
            // Helpers, also on a small machine.
            cores: 3,
            ring_words,
            ring_timeout: Duration::from_millis(match ring_words {
                64 => 50,
                _ => 60_000,
            }),
            ..Config::default()
        })?;
        // The hook must not keep the device open.
        let broken = Arc::downgrade(&device);
        Ok(Opened {
            device,
            lose: Box::new(move |reason| {
                if let Some(device) = broken.upgrade() {
                    device.inject_fault(reason);
                }
            }),
        })
    }

    fn kernel(&self, kernel: Kernel) -> KernelImage {
        let (entry, args) = match kernel {
            Kernel::Add => ("add", 4),
            Kernel::Step => ("step", 2),
            Kernel::Store => ("store", 1),
        };
        static OBJECT: OnceLock<Arc<[u8]>> = OnceLock::new();
        KernelImage {
            name: entry.into(),
            arch: std::env::consts::ARCH.into(),
            bytes: OBJECT.get_or_init(compile).clone(),
            entry: entry.into(),
            args: ArgLayout::words(args),
            local_bytes: 0,
        }
    }
}

fn compile() -> Arc<[u8]> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels.c");
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("kernels.o");
    let run = Command::new("cc")
        .args([
            "-c",
            "-O1",
            "-ffreestanding",
            "-fPIC",
            "-fno-stack-protector",
        ])
        .arg(source)
        .arg("-o")
        .arg(&object)
        .output()
        .expect("a C compiler is installed as cc");
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    std::fs::read(object).unwrap().into()
}
