//! Signals of the user's, and who sleeps until one is set.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use hcq::transport::Fault;
use hcq::transport::access::{Access, Answer, Verb};
use hcq::transport::tap::{Tap, Tapped};
use hcq::{Command, Device};

use super::stand::{Rig, ends, kernel, machine, soon, twin};

/// Counts how often a thread sleeps on a file.
#[derive(Default)]
struct Sleeps(AtomicU64);

impl Tap for Sleeps {
    fn before(&self, _: &str, access: &mut Access) -> Option<Result<Answer, Fault>> {
        if access.verb == Verb::Poll {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        None
    }
}

#[test]
fn who_waits_for_a_signal_sleeps_where_the_end_of_a_submission_wakes() {
    let twin = twin("chip=h100");
    let sleeps = Arc::new(Sleeps::default());
    let tapped = Tapped::machine(machine(&twin), sleeps.clone());
    let rig = Rig::open(&tapped, 0, &kernel("h100", "step")).unwrap();
    for stream in [&rig.compute, &rig.copy] {
        let [gate, set] = ["gate", "set"].map(|name| rig.device.signal(name).unwrap());
        let [waits, signals] = [(&gate, true), (&set, false)].map(|(signal, waits)| match waits {
            true => Command::Wait {
                signal,
                value: 1.into(),
            },
            false => Command::Signal {
                signal,
                value: 1.into(),
            },
        });
        stream.submit(&[], &[waits, signals]).unwrap();
        let (before, start) = (sleeps.0.load(Ordering::Relaxed), Instant::now());
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| set.wait(1, soon()));
            while sleeps.0.load(Ordering::Relaxed) == before {
                assert!(start.elapsed() < soon().limit(), "nobody sleeps on a file");
                std::thread::yield_now();
            }
            gate.set(1).unwrap();
            sleeper.join().unwrap().unwrap();
        });
        stream.wait(soon()).unwrap();
    }
    drop((rig, tapped));
    ends(&twin, &[], "signals");
}
