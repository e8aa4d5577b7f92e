//! Deliberate bugs in what a bridge is asked: transfers are changed on their way, and the twin names the rule that is
//! broken.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hcq::mem::view::View;
use hcq::transport::{
    DevFile, Machine, PerProcess, Reserved, Setup, Transfer, TransportError, UsbDevice, UsbPipe,
};
use hcq::{KernelImage, MemoryKind};
use twin_amd::usb::UsbMachine;

use super::bugs::Sent::{self, BulkIn, BulkOut, In, Out};
use super::bugs::Turn::{Else, Lost, Said, Same};
use super::bugs::{BUGS, Bug, RIGHT};
use super::stand;
use super::{open, options};

/// A machine whose pipes have a bug.
struct Bent {
    machine: Arc<dyn Machine>,
    bug: &'static Bug,
}

impl Machine for Bent {
    fn open(&self, path: &str) -> Result<Arc<dyn DevFile>, TransportError> {
        self.machine.open(path)
    }
    fn read(&self, path: &str) -> Result<String, TransportError> {
        self.machine.read(path)
    }
    fn list(&self, path: &str) -> Result<Vec<String>, TransportError> {
        self.machine.list(path)
    }
    fn usb_devices(&self) -> Result<Vec<UsbDevice>, TransportError> {
        self.machine.usb_devices()
    }
    fn open_usb(&self, port: &str) -> Result<Arc<dyn UsbPipe>, TransportError> {
        Ok(Arc::new(Pipe {
            pipe: self.machine.open_usb(port)?,
            bug: self.bug,
            bulk: Default::default(),
        }))
    }
    fn reserve(&self, bytes: u64, align: u64, below: u64) -> Result<Reserved, TransportError> {
        self.machine.reserve(bytes, align, below)
    }
    fn memory(&self, bytes: u64, align: u64) -> Result<View, TransportError> {
        self.machine.memory(bytes, align)
    }
    fn per_process(&self) -> &PerProcess {
        self.machine.per_process()
    }
}

struct Pipe {
    pipe: Arc<dyn UsbPipe>,
    bug: &'static Bug,
    /// Bulk transfers so far, to the host and to the device.
    bulk: [AtomicU64; 2],
}

impl Pipe {
    fn sent(transfer: &Transfer<'_>) -> Sent {
        match transfer {
            Transfer::ControlIn(setup, to) => In(*setup, to.len()),
            Transfer::ControlOut(setup, from) => Out(*setup, from.to_vec()),
            Transfer::BulkIn(endpoint, to) => BulkIn(*endpoint, to.len()),
            Transfer::BulkOut(endpoint, from) => BulkOut(*endpoint, from.to_vec()),
        }
    }
}

impl UsbPipe for Pipe {
    fn name(&self) -> &str {
        self.pipe.name()
    }

    fn queue(
        &self,
        transfers: &mut [Transfer<'_>],
        limit: Duration,
    ) -> Result<Vec<usize>, TransportError> {
        // What is made: the transfers, each with the one that it is for.
        let mut made: Vec<(Option<usize>, Sent, Vec<u8>)> = Vec::new();
        for (i, transfer) in transfers.iter_mut().enumerate() {
            let sent = Pipe::sent(transfer);
            let nth = match sent {
                BulkIn(..) => self.bulk[0].fetch_add(1, Ordering::Relaxed),
                BulkOut(..) => self.bulk[1].fetch_add(1, Ordering::Relaxed),
                _ => 0,
            };
            match (self.bug.turn)(&sent, nth) {
                Same => made.push((Some(i), sent, Vec::new())),
                Lost => {}
                Said(bytes) => {
                    if let Transfer::ControlIn(_, to) | Transfer::BulkIn(_, to) = transfer {
                        to.copy_from_slice(&bytes);
                    }
                }
                Else(all) => {
                    for (n, sent) in all.into_iter().enumerate() {
                        made.push(((n == 0).then_some(i), sent, Vec::new()));
                    }
                }
            }
        }
        for (_, sent, room) in &mut made {
            if let In(_, bytes) | BulkIn(_, bytes) = sent {
                room.resize(*bytes, 0);
            }
        }
        let mut queue: Vec<_> = made
            .iter_mut()
            .map(|(_, sent, room)| match sent {
                In(setup, _) => Transfer::ControlIn(*setup, room),
                Out(setup, body) => Transfer::ControlOut(*setup, body),
                BulkIn(endpoint, _) => Transfer::BulkIn(*endpoint, room),
                BulkOut(endpoint, bytes) => Transfer::BulkOut(*endpoint, bytes),
            })
            .collect();
        self.pipe.queue(&mut queue, limit)?;
        drop(queue);
        // What a bug has made short, nobody notices.
        for (of, _, room) in made {
            let transfer = of.and_then(|i| transfers.get_mut(i));
            if let Some(Transfer::ControlIn(_, to) | Transfer::BulkIn(_, to)) = transfer {
                let bytes = to.len().min(room.len());
                to[..bytes].copy_from_slice(&room[..bytes]);
            }
        }
        let length = |transfer: &Transfer<'_>| match transfer {
            Transfer::ControlIn(_, to) | Transfer::BulkIn(_, to) => to.len(),
            Transfer::ControlOut(_, from) | Transfer::BulkOut(_, from) => from.len(),
        };
        Ok(transfers.iter().map(length).collect())
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

    fn clear_halt(&self, endpoint: u8) -> Result<(), TransportError> {
        self.pipe.clear_halt(endpoint)
    }
}

fn named(twin: &UsbMachine) -> Vec<&'static str> {
    let violations = twin.journal().violations();
    let name = |violation: &twin::rule::Violation| violation.rule.name;
    violations.iter().map(name).collect()
}

/// Works with a card whose driver has a bug, twice, as far as that goes. Which rules were broken.
fn broken(bug: &'static Bug, image: &KernelImage) -> Vec<&'static str> {
    let twin = UsbMachine::new("chip=gfx1201").unwrap();
    for process in [twin.clone(), twin.again()] {
        let machine: Arc<dyn Machine> = Arc::new(Bent {
            machine: process,
            bug,
        });
        let work = || {
            let device = open(&machine, &options())?;
            stand::work_on(&*device, image, 0)?;
            // Six windows full, and back.
            let buffer = stand::memory(&*device, MemoryKind::Device, 3 << 19)?;
            buffer.write(0, &[1; 3 << 19])?;
            buffer.read(0, &mut vec![0; 3 << 19])
        };
        // Whether it comes to an end in words or not at all noticed, does not matter here.
        _ = work();
        if named(&twin).contains(&bug.rule) {
            break;
        }
    }
    named(&twin)
}

#[test]
fn each_bug_is_named_by_its_rule() {
    stand::hurry();
    let image = stand::kernel("gfx1201", "sums", 2);
    assert_eq!(broken(&RIGHT, &image), [""; 0]);
    let mut missed = Vec::new();
    for bug in BUGS {
        let found = broken(bug, &image);
        if !found.contains(&bug.rule) {
            missed.push(format!(
                "{}: expected {}, found {found:?}",
                bug.what, bug.rule
            ));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
