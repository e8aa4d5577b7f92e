//! The conformance suite. Its kernels are compiled by the system's C compiler.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use conformance::{Kernel, Subject};
use drivers_cpu::{Config, CpuDevice};
use hcq::{Device, KernelImage};

use crate::cc::compile;

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
            bytes: OBJECT
                .get_or_init(|| compile(&["-O1", "-fPIC"], include_str!("kernels.c")).into())
                .clone(),
            entry: entry.into(),
            args: kernel.args(),
            local_bytes: 0,
        }
    }
}
