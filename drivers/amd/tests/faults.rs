//! Everything that the kernel may refuse is refused once: the error is typed, nothing is left behind,
//! and the next open works.

#![allow(clippy::unwrap_used)]

mod stand;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use doorbell_twin::kernel::ioctl;
use doorbell_twin::machine::TwinMachine;
use hcq::mem::view::View;
use hcq::transport::{DevFile, Fault, Kept, Machine, Reserved, TransportError};
use hcq::{Error, KernelImage};

/// What is left where nothing is leaked: files that the process keeps, and the event page, which the
/// kernel never gives back.
fn leaks(twin: &TwinMachine) -> Vec<String> {
    let kept = |line: &String| line.starts_with("file /dev/") || line.starts_with("event page");
    let all = twin.process().objects();
    all.into_iter().filter(|line| !kept(line)).collect()
}

/// Works with a fault; says whether it fired.
fn refused_once(chip: &str, fault: &str, image: &KernelImage) -> bool {
    let twin = stand::twin(&format!("chip={chip},vram=2G,gtt=1G,fault={fault}"));
    let machine = stand::machine(&twin);
    let first = stand::work(&machine, image);
    let fired = twin.machine().faults_fired() > 0;
    if let Err(error) = &first {
        assert!(fired, "{fault}: {error}");
        let text = error.to_string();
        assert!(text.contains("AMD:0"), "{fault}: {text}");
        if fault.starts_with("ioctl:ALLOC_MEMORY_OF_GPU:ENOMEM") {
            assert!(
                matches!(error, Error::OutOfMemory { .. }),
                "{fault}: {text}"
            );
        }
    }
    assert_eq!(leaks(&twin), [""; 0], "{fault}: {first:?}");
    if fired {
        let again = stand::work(&machine, image);
        assert!(again.is_ok(), "{fault}, opened again: {again:?}");
        assert_eq!(leaks(&twin), [""; 0], "{fault}, opened again");
    }
    let broken = twin.machine().journal.violations();
    let broken: Vec<_> = broken.iter().map(ToString::to_string).collect();
    assert!(broken.is_empty(), "{fault}: {}", broken.join("\n"));
    let kernel = twin.machine().clone();
    drop((machine, twin));
    assert_eq!(kernel.memory_in_use(), (vec![0], 0), "{fault}");
    fired
}

/// Each call of that name fails in its turn.
fn each_call(chip: &str, name: &str, errno: &str, image: &KernelImage) -> u32 {
    let call = |n: &u32| refused_once(chip, &format!("{name}:{errno}:{n}"), image);
    (1..200).take_while(call).count() as u32
}

fn every_ioctl(chip: &str) {
    let name = chip.split(',').next().unwrap();
    let image = stand::kernel(name, "sums", 2);
    let mut calls = 0;
    for entry in ioctl::TABLE {
        for errno in entry.errnos {
            let name = format!("ioctl:{}", entry.name());
            calls += each_call(chip, &name, &errno.name(), &image);
        }
    }
    for errno in ["EINVAL", "EFAULT", "ENODEV"] {
        calls += each_call(chip, "ioctl:AMDGPU_INFO", errno, &image);
        calls += each_call(chip, "ioctl:GET_VERSION", errno, &image);
        calls += each_call(chip, "ioctl:GET_CLOCK_COUNTERS", errno, &image);
    }
    assert!(calls > 100, "only {calls} calls were refused");
}

#[test]
fn every_ioctl_fails_once_on_gfx1100() {
    every_ioctl("gfx1100");
}

/// With AQL, whose scratch takes calls of its own.
#[test]
fn every_ioctl_fails_once_on_gfx942() {
    every_ioctl("gfx942,xcc=1");
}

#[test]
fn every_mapping_and_open_fails_once() {
    let image = stand::kernel("gfx1100", "sums", 2);
    for errno in ["ENOMEM", "EINVAL", "EAGAIN"] {
        assert!(each_call("gfx1100", "mmap", errno, &image) > 10);
    }
    for errno in ["EACCES", "ENOENT", "EBUSY", "EMFILE", "ENODEV", "EIO"] {
        assert!(each_call("gfx1100", "open", errno, &image) > 10);
    }
}

/// A machine whose host runs out of memory or addresses once.
struct Short {
    twin: Arc<TwinMachine>,
    left: AtomicU32,
}

impl Short {
    fn take<T>(
        &self,
        make: impl FnOnce() -> Result<T, TransportError>,
    ) -> Result<T, TransportError> {
        match self.left.fetch_sub(1, Ordering::Relaxed) {
            1 => Err(TransportError::new(
                "host memory",
                "reserve",
                Fault::Errno(12),
            )),
            _ => make(),
        }
    }
}

impl Machine for Short {
    fn open(&self, path: &str) -> Result<Arc<dyn DevFile>, TransportError> {
        self.twin.open(path)
    }
    fn read(&self, path: &str) -> Result<String, TransportError> {
        self.twin.read(path)
    }
    fn list(&self, path: &str) -> Result<Vec<String>, TransportError> {
        self.twin.list(path)
    }
    fn reserve(&self, bytes: u64, align: u64) -> Result<Reserved, TransportError> {
        self.take(|| self.twin.reserve(bytes, align))
    }
    fn memory(&self, bytes: u64, align: u64) -> Result<View, TransportError> {
        self.take(|| self.twin.memory(bytes, align))
    }
    fn kept(&self) -> &Kept {
        self.twin.kept()
    }
}

#[test]
fn every_reservation_fails_once() {
    let image = stand::kernel("gfx1100", "sums", 2);
    for nth in 1..100 {
        let twin = stand::twin("vram=2G,gtt=1G");
        let short = Arc::new(Short {
            twin: twin.clone(),
            left: AtomicU32::new(nth),
        });
        let machine: Arc<dyn Machine> = short.clone();
        let first = stand::work(&machine, &image);
        assert_eq!(leaks(&twin), [""; 0], "reservation {nth}: {first:?}");
        if short.left.load(Ordering::Relaxed) as i32 > 0 {
            assert!(nth > 10, "only {nth} reservations");
            first.unwrap();
            return;
        }
        match first {
            // A large buffer is tried once more after what is kept for reuse was given back.
            Ok(()) | Err(Error::OutOfMemory { .. }) => {}
            other => panic!("reservation {nth}: expected OutOfMemory, found {other:?}"),
        }
        stand::work(&machine, &image).unwrap();
        assert_eq!(leaks(&twin), [""; 0], "reservation {nth}, opened again");
    }
    panic!("100 reservations");
}
