//! What accesses cost: how often the host waits, and for which transfers.

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drivers_asm24::bridge::Bridge;
use hcq::mem::window::AccessWidth;
use hcq::transport::{Fault, Setup, Transfer, TransportError, UsbPipe, VirtualClock};

/// A pipe whose other end answers these words, and zeros after them, and that notes each wait.
#[derive(Default)]
struct Pipe {
    words: Mutex<VecDeque<u32>>,
    waits: Mutex<Vec<String>>,
    /// The wait that fails.
    fails: Option<(usize, Fault)>,
}

impl Pipe {
    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.waits.lock().unwrap())
    }
}

impl UsbPipe for Pipe {
    fn name(&self) -> &str {
        "2-1"
    }

    fn queue(
        &self,
        transfers: &mut [Transfer<'_>],
        _: Duration,
    ) -> Result<Vec<usize>, TransportError> {
        let mut waits = self.waits.lock().unwrap();
        let mut moved = Vec::new();
        let mut text = String::new();
        for transfer in &mut *transfers {
            if let Transfer::ControlIn(_, to) = transfer {
                let word = self.words.lock().unwrap().pop_front().unwrap_or(0);
                to[..4].copy_from_slice(&word.to_le_bytes());
            }
            let (sign, bytes) = match transfer {
                Transfer::ControlIn(_, to) => ('i', to.len()),
                Transfer::ControlOut(_, from) => ('o', from.len()),
                Transfer::BulkIn(_, to) => ('I', to.len()),
                Transfer::BulkOut(_, from) => ('O', from.len()),
            };
            text += &format!("{sign}{bytes} ");
            moved.push(bytes);
        }
        waits.push(text.trim().to_owned());
        match &self.fails {
            Some((at, fault)) if waits.len() > *at => {
                Err(TransportError::new("2-1", "queue", fault.clone()))
            }
            _ => Ok(moved),
        }
    }

    fn control_in(&self, _: Setup, _: &mut [u8], _: Duration) -> Result<usize, TransportError> {
        unreachable!("all transfers are queued")
    }

    fn control_out(&self, _: Setup, _: &[u8], _: Duration) -> Result<usize, TransportError> {
        unreachable!("all transfers are queued")
    }

    fn bulk_in(&self, _: u8, _: &mut [u8], _: Duration) -> Result<usize, TransportError> {
        unreachable!("all transfers are queued")
    }

    fn bulk_out(&self, _: u8, _: &[u8], _: Duration) -> Result<usize, TransportError> {
        unreachable!("all transfers are queued")
    }

    fn clear_halt(&self, _: u8) -> Result<(), TransportError> {
        Ok(())
    }
}

fn bridge(fails: Option<(usize, Fault)>) -> (Arc<Pipe>, Bridge) {
    let pipe = Arc::new(Pipe {
        fails,
        ..Pipe::default()
    });
    let bridge = Bridge::new(pipe.clone(), Arc::new(VirtualClock::new())).unwrap();
    // What an earlier process may have left armed.
    assert_eq!(*pipe.waits.lock().unwrap(), ["o0 O512"]);
    (pipe, bridge)
}

#[test]
fn a_submission_and_the_look_for_its_end_are_three_waits() {
    let (pipe, bridge) = bridge(None);
    // Arguments, packets, the write pointer, a flush of the host data path, a doorbell.
    bridge.write(0x8_0000_0000, &[1; 256]).unwrap();
    bridge.write(0x8_0010_0000, &[2; 300]).unwrap();
    bridge.write(0x8_0020_0000, &[3; 8]).unwrap();
    bridge.write(0x107f_f000, &[0; 4]).unwrap();
    bridge.write(0x1800_0018, &[4; 8]).unwrap();
    assert_eq!(pipe.taken().len(), 1);
    let seen = bridge.read(0x8_0030_0000, AccessWidth::W64).unwrap();
    assert_eq!(seen, 0);
    let look = "o12 o12 o12 o12 o12 o12 i8 o12 i8 o12 i8";
    assert_eq!(pipe.taken(), ["o12 O256", "o12 O300", look]);
}

#[test]
fn halves_that_do_not_belong_together_are_read_again() {
    let (pipe, bridge) = bridge(None);
    let read = |words: &[u32]| {
        *pipe.words.lock().unwrap() = words.iter().copied().collect();
        bridge.read(0x8_0000_0000, AccessWidth::W64)
    };
    assert_eq!(read(&[3, 4, 3]), Ok(0x3_0000_0004));
    // From 0xffff_ffff to 0x1_0000_0000, after the lower half was read.
    assert_eq!(read(&[0, u32::MAX, 1, 1, 0, 1]), Ok(0x1_0000_0000));
    let many: Vec<u32> = (0..100).collect();
    let error = read(&many).unwrap_err();
    assert!(matches!(error.fault, Fault::Beyond(_)), "{error}");
}

#[test]
fn memory_is_read_behind_a_request_that_says_whether_it_is_there() {
    let (pipe, bridge) = bridge(None);
    pipe.taken();
    let mut bytes = [1; 30];
    bridge.read_bytes(0x8_0000_0002, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 30]);
    assert_eq!(pipe.taken(), ["o12 i8", "o12 I32"]);
    bridge.read_bytes(0x8_0000_0001, &mut bytes[..6]).unwrap();
    assert_eq!(pipe.taken(), ["o12 i8 o12 i8"]);
}

#[test]
fn nothing_is_sent_after_a_transfer_that_failed() {
    let (pipe, bridge) = bridge(Some((1, Fault::Gone)));
    bridge.write(0x8_0000_0000, &[1; 4]).unwrap();
    let first = bridge.send().unwrap_err();
    assert_eq!(first.fault, Fault::Gone);
    assert_eq!(pipe.taken().len(), 2);
    assert_eq!(bridge.read(0, AccessWidth::W32), Err(first));
    assert!(pipe.taken().is_empty());
}
