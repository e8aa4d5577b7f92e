//! The suite on the CPU. Its kernels are compiled by the system's C compiler.

// A failed step ends the test.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use conformance::{Kernel, Subject};
use drivers_cpu::{Config, CpuDevice};
use hcq::{Device, KernelImage};

conformance::conformance!(cpu, || CpuSubject);

struct CpuSubject;

impl Subject for CpuSubject {
    fn open(&self, index: u32, ring_words: u32) -> hcq::Result<Arc<dyn Device>> {
        CpuDevice::open(Config {
            index,
            // Helpers, also on a small machine.
            cores: 3,
            ring_words,
            ring_timeout: Duration::from_millis(match ring_words {
                64 => 50,
                _ => 60_000,
            }),
            ..Config::default()
        })
    }

    fn kernel(&self, kernel: Kernel) -> KernelImage {
        let entry = match kernel {
            Kernel::Add => "add",
            Kernel::Step => "step",
            Kernel::Store => "store",
        };
        static OBJECT: OnceLock<Arc<[u8]>> = OnceLock::new();
        KernelImage {
            name: entry.into(),
            arch: std::env::consts::ARCH.into(),
            bytes: OBJECT.get_or_init(compile).clone(),
            entry: entry.into(),
            args: kernel.args(),
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
