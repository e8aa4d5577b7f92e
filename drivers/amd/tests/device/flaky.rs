//! Calls that have to be made again, waits that end without a reason: work is done all the same, and
//! what never ends well is an error in time.

use crate::stand;

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drivers_spec::amd::kfd::{self, WaitEventsArgs};
use hcq::transport::access::{Access, Answer, Verb};
use hcq::transport::errno::{EAGAIN, EINTR};
use hcq::transport::tap::{Tap, Tapped};
use hcq::transport::{Fault, Machine};
use hcq::{Command, Deadline, Device, Error, QueueKind, Stream, Val};

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

/// Lets calls go wrong.
struct Flaky {
    how: How,
    /// How often each call was refused, by its file and name.
    refused: Mutex<BTreeMap<(String, String), u32>>,
}

impl Tap for Flaky {
    fn before(&self, file: &str, access: &mut Access) -> Option<Result<Answer, Fault>> {
        if access.verb != Verb::Ioctl {
            return None;
        }
        let is_wait = access.name == kfd::WAIT_EVENTS.name;
        match self.how {
            How::Refuse(errno, times) => {
                let mut refused = self.refused.lock().unwrap();
                let count = refused
                    .entry((file.into(), access.name.clone()))
                    .or_default();
                *count += 1;
                if *count <= times {
                    return Some(Err(Fault::Errno(errno)));
                }
                *count = 0;
                None
            }
            How::Wake if is_wait => {
                let at = offset_of!(WaitEventsArgs, wait_result);
                let mut answer = Answer::value(0);
                answer.data = access.data.clone();
                answer.data[at..at + 4].copy_from_slice(&kfd::wait_result::COMPLETE.to_ne_bytes());
                Some(Ok(answer))
            }
            How::Interrupt if is_wait => Some(Err(Fault::Errno(EINTR))),
            How::Wake | How::Interrupt => None,
        }
    }
}

fn flaky(how: How) -> Arc<dyn Machine> {
    let refused = Mutex::default();
    Tapped::machine(stand::twin("vram=1G"), Arc::new(Flaky { how, refused }))
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
