//! Calls that have to be made again, waits that end without a reason or never wake up: work is done all the
//! same, and what never ends well is an error in time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hcq::transport::access::{Access, Answer, Verb};
use hcq::transport::errno::EAGAIN;
use hcq::transport::tap::{Tap, Tapped};
use hcq::transport::{Fault, Machine};
use hcq::{Command, Deadline, Device, Error, Val};

use super::stand::{Rig, ends, kernel, machine, soon, twin};

const CONFIG: &str = "chip=h100";
/// Calls that the kernel driver never wants to have made again.
const ONCE: [&str; 3] = ["REGISTER_FD", "CARD_INFO", "CHECK_VERSION_STR"];

/// What goes wrong.
#[derive(Clone, Copy, PartialEq)]
enum How {
    /// Every ioctl fails so often before it is made.
    Refuse(u32),
    /// Waits for interrupts end at once, as if one had come.
    Wake,
    /// Interrupts wake up nobody.
    Deaf,
}

/// Lets calls go wrong.
struct Flaky {
    how: How,
    /// How often each call was refused, by its name.
    refused: Mutex<BTreeMap<String, u32>>,
}

impl Tap for Flaky {
    fn before(&self, _: &str, access: &mut Access) -> Option<Result<Answer, Fault>> {
        match (self.how, access.verb) {
            (How::Refuse(times), Verb::Ioctl) => {
                if ONCE.iter().any(|name| access.name.ends_with(name)) {
                    return None;
                }
                let mut refused = self.refused.lock().unwrap();
                let count = refused.entry(access.name.clone()).or_default();
                *count += 1;
                if *count <= times {
                    return Some(Err(Fault::Errno(EAGAIN)));
                }
                *count = 0;
                None
            }
            (How::Wake, Verb::Poll) => Some(Ok(Answer::value(1))),
            (How::Deaf, Verb::Poll) => {
                std::thread::sleep(Duration::from_nanos(access.arg("ns")));
                Some(Ok(Answer::value(0)))
            }
            _ => None,
        }
    }
}

fn flaky(machine: Arc<dyn Machine>, how: How) -> Arc<dyn Machine> {
    let refused = Mutex::default();
    Tapped::machine(machine, Arc::new(Flaky { how, refused }))
}

#[test]
fn calls_that_are_to_be_made_again_are() {
    let twin = twin(CONFIG);
    let again = flaky(machine(&twin), How::Refuse(1));
    let rig = Rig::open(&again, 0, &kernel(CONFIG, "step")).unwrap();
    (0..4).for_each(|i| rig.round(i).unwrap());
    drop(rig);
    ends(&twin, &[], CONFIG);
    // Not for ever.
    let never = flaky(machine(&twin), How::Refuse(u32::MAX));
    let start = Instant::now();
    let error = Rig::open(&never, 0, &kernel(CONFIG, "step")).map(|_| ());
    let text = error.unwrap_err().to_string();
    assert!(text.contains("errno 11"), "{text}");
    assert!(start.elapsed() < soon().limit());
    assert!(twin.machine().state().is_empty());
}

#[test]
fn waits_do_without_interrupts_and_with_too_many() {
    for how in [How::Wake, How::Deaf] {
        let twin = twin(CONFIG);
        let machine = flaky(machine(&twin), how);
        let rig = Rig::open(&machine, 0, &kernel(CONFIG, "step")).unwrap();
        (0..4).for_each(|i| rig.round(i).unwrap());
        let gate = rig.device.signal("the gate").unwrap();
        let wait = Command::Wait {
            signal: &gate,
            value: Val::Const(1),
        };
        let held = rig.compute.submit(&[], &[wait]).unwrap();
        let now = Deadline::after(Duration::from_millis(20));
        let error = held.wait(now).unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
        gate.set(1).unwrap();
        held.wait(soon()).unwrap();
        rig.device.synchronize(soon()).unwrap();
        drop((rig, gate, held));
        ends(&twin, &[], CONFIG);
    }
}
