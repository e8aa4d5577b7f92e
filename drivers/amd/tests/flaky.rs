//! Calls that have to be made again, waits that end without a reason: work is done all the same, and
//! what never ends well is an error in time.

#![allow(clippy::unwrap_used)]

mod stand;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doorbell_twin::machine::TwinMachine;
use drivers_spec::amd::kfd::{self, WaitEventsArgs};
use hcq::mem::view::View;
use hcq::transport::{DevFile, Fault, Kept, Machine, Map, Reserved, TransportError};
use hcq::{Command, Deadline, Device, Error, QueueKind, Stream, Val};
use zerocopy::FromBytes;

const EINTR: i32 = 4;
const EAGAIN: i32 = 11;

/// What goes wrong.
#[derive(Clone, Copy, PartialEq)]
enum How {
    /// Every ioctl fails with this errno so often before it is made.
    Refuse(i32, u32),
    /// Waits for events end at once, as if one had come.
    Wake,
    /// Waits for events are interrupted, always.
    Interrupt,
}

/// A twin whose calls go wrong.
struct Flaky {
    twin: Arc<TwinMachine>,
    how: How,
}

struct FlakyFile {
    file: Arc<dyn DevFile>,
    how: How,
    refused: Mutex<BTreeMap<u32, u32>>,
}

impl DevFile for FlakyFile {
    fn name(&self) -> &str {
        self.file.name()
    }

    fn ioctl(&self, request: u32, name: &str, payload: &mut [u8]) -> Result<i32, TransportError> {
        let wait = request == kfd::WAIT_EVENTS.request;
        match self.how {
            How::Refuse(errno, times) => {
                let mut refused = self.refused.lock().unwrap();
                let count = refused.entry(request).or_default();
                *count += 1;
                if *count <= times {
                    return Err(TransportError::new(self.name(), name, Fault::Errno(errno)));
                }
                *count = 0;
                drop(refused);
            }
            How::Wake if wait => {
                let args = WaitEventsArgs::mut_from_bytes(payload).unwrap();
                args.wait_result = kfd::wait_result::COMPLETE;
                return Ok(0);
            }
            How::Interrupt if wait => {
                return Err(TransportError::new(self.name(), name, Fault::Errno(EINTR)));
            }
            How::Wake | How::Interrupt => {}
        }
        self.file.ioctl(request, name, payload)
    }

    fn mmap(&self, map: Map) -> Result<View, TransportError> {
        self.file.mmap(map)
    }

    fn number(&self) -> Result<u32, TransportError> {
        self.file.number()
    }
}

impl Machine for Flaky {
    fn open(&self, path: &str) -> Result<Arc<dyn DevFile>, TransportError> {
        Ok(Arc::new(FlakyFile {
            file: self.twin.open(path)?,
            how: self.how,
            refused: Mutex::default(),
        }))
    }
    fn read(&self, path: &str) -> Result<String, TransportError> {
        self.twin.read(path)
    }
    fn list(&self, path: &str) -> Result<Vec<String>, TransportError> {
        self.twin.list(path)
    }
    fn reserve(&self, bytes: u64, align: u64) -> Result<Reserved, TransportError> {
        self.twin.reserve(bytes, align)
    }
    fn memory(&self, bytes: u64, align: u64) -> Result<View, TransportError> {
        self.twin.memory(bytes, align)
    }
    fn kept(&self) -> &Kept {
        self.twin.kept()
    }
}

fn flaky(how: How) -> Arc<dyn Machine> {
    let twin = stand::twin("vram=1G");
    Arc::new(Flaky { twin, how })
}

#[test]
fn calls_that_are_to_be_made_again_are() {
    let image = stand::kernel("gfx1100", "sums", 2);
    stand::work(&flaky(How::Refuse(EAGAIN, 2)), &image).unwrap();
    // Not for ever.
    let machine = flaky(How::Refuse(EAGAIN, u32::MAX));
    let error = drivers_amd::open(&machine, 0, &stand::options()).unwrap_err();
    assert!(error.to_string().contains("errno 11"), "{error}");
}

#[test]
fn waits_that_end_without_a_reason_are_waited_again() {
    let image = stand::kernel("gfx1100", "sums", 2);
    for how in [How::Wake, How::Interrupt] {
        let machine = flaky(how);
        stand::work(&machine, &image).unwrap();
        let device = drivers_amd::open(&machine, 0, &stand::options()).unwrap();
        let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
        let gate = device.signal("the gate").unwrap();
        let wait = Command::Wait {
            signal: &gate,
            value: Val::Const(1),
        };
        let held = stream.submit(&[], &[wait]).unwrap();
        let soon = Deadline::after(Duration::from_millis(20));
        let error = held.wait(soon).unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
        gate.set(1).unwrap();
        held.wait(stand::soon()).unwrap();
    }
}
