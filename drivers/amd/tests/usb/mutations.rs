//! Deliberate bugs in what a bridge is asked: transfers are changed on their way, and the twin names the rule that is
//! broken.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use drivers_spec::asm24::{LTSSM, LTSSM_UP, open as request, tlp};
use hcq::KernelImage;
use hcq::mem::view::View;
use hcq::transport::{
    DevFile, Kept, Machine, Reserved, Setup, Transfer, TransportError, UsbDevice, UsbPipe,
};
use twin_amd::usb::UsbMachine;

use super::stand;
use super::{open, options};

/// A transfer, with what it sends.
#[derive(Clone)]
enum Sent {
    In(Setup, usize),
    Out(Setup, Vec<u8>),
    BulkIn(u8, usize),
    BulkOut(u8, Vec<u8>),
}

use Sent::{BulkIn, BulkOut, In, Out};

/// What becomes of a transfer.
enum Turn {
    Same,
    /// It is not made, and nobody notices.
    Lost,
    /// It is not made, and answered so.
    Said(Vec<u8>),
    /// Others are made, queued together.
    Else(Vec<Sent>),
}

use Turn::{Else, Lost, Said, Same};

struct Bug {
    what: &'static str,
    /// The rule that has to name it.
    rule: &'static str,
    /// What becomes of a transfer; how many came before, of a bulk transfer in its direction.
    turn: fn(&Sent, u64) -> Turn,
}

/// The type of the TLPs of a request, and its mode, if it is one for them.
fn of_tlp(sent: &Sent) -> Option<(u8, u16)> {
    match sent {
        Out(setup, _) if setup.request == request::TLP => Some((setup.value as u8, setup.index)),
        _ => None,
    }
}

/// The address of a request for TLPs.
fn address(body: &[u8]) -> u64 {
    u64::from_le_bytes(body[..8].try_into().unwrap())
}

/// A bug in requests for TLPs of a type and a mode.
fn at(sent: &Sent, kind: u8, mode: u16, change: impl FnOnce(Setup, Vec<u8>) -> Turn) -> Turn {
    match sent {
        Out(setup, body) if of_tlp(sent) == Some((kind, mode)) => change(*setup, body.clone()),
        _ => Same,
    }
}

const SINGLE: u16 = request::SINGLE;
const STREAM_OUT: u16 = request::STREAM_OUT;
/// Where a BAR of registers has the flush of the host data path.
const FLUSH: u64 = 0x7_f000;

/// Writes a dword where nobody is.
fn stray() -> Sent {
    let setup = Setup {
        request_type: request::TO_DEVICE,
        request: request::TLP,
        value: u16::from(tlp::MWR64) | 0xf00,
        index: SINGLE,
    };
    let mut body = vec![0; 12];
    body[..8].copy_from_slice(&0x8_0000_1000u64.to_le_bytes());
    Out(setup, body)
}

static BUGS: &[Bug] = &[
    Bug {
        what: "data goes to another endpoint",
        rule: "USB-ENDPOINT",
        turn: |sent, _| match sent {
            BulkOut(_, bytes) => Else(vec![BulkOut(0x04, bytes.clone())]),
            _ => Same,
        },
    },
    Bug {
        what: "a halt is cleared on one side",
        rule: "USB-TOGGLE",
        turn: |sent, nth| match sent {
            BulkOut(..) if nth == 3 => {
                let setup = Setup {
                    request_type: 0x02,
                    request: 1,
                    value: 0,
                    index: request::OUT.into(),
                };
                Else(vec![sent.clone(), Out(setup, Vec::new())])
            }
            _ => Same,
        },
    },
    Bug {
        what: "too little room for what comes",
        rule: "USB-BABBLE",
        turn: |sent, _| match sent {
            BulkIn(endpoint, bytes) => Else(vec![BulkIn(*endpoint, bytes - 4)]),
            _ => Same,
        },
    },
    Bug {
        what: "a request that there is not",
        rule: "ASM24-REQUEST",
        turn: |sent, _| match sent {
            In(setup, bytes) if setup.request == request::READ_XDATA => Else(vec![In(
                Setup {
                    request: 0xe6,
                    ..*setup
                },
                *bytes,
            )]),
            _ => Same,
        },
    },
    Bug {
        what: "the state of the link is looked for beside it",
        rule: "ASM24-XDATA",
        turn: |sent, _| match sent {
            In(setup, bytes) if setup.value == LTSSM => Else(vec![In(
                Setup {
                    value: LTSSM + 0x20,
                    ..*setup
                },
                *bytes,
            )]),
            _ => Same,
        },
    },
    Bug {
        what: "the link is taken to be up",
        rule: "ASM24-LINK",
        turn: |sent, _| match sent {
            In(setup, 1) if setup.value == LTSSM => Said(vec![LTSSM_UP]),
            _ => Same,
        },
    },
    Bug {
        what: "the first bus is asked as those behind it",
        rule: "ASM24-TLP-FORMAT",
        turn: |sent, _| {
            at(sent, tlp::CFG_RD0, SINGLE, |mut setup, body| {
                setup.value |= 1;
                Else(vec![Out(setup, body)])
            })
        },
    },
    Bug {
        what: "byte enables with a hole",
        rule: "ASM24-TLP-BYTES",
        turn: |sent, _| {
            at(sent, tlp::MRD64, SINGLE, |mut setup, body| {
                setup.value = setup.value & 0xff | 0x500;
                Else(vec![Out(setup, body)])
            })
        },
    },
    Bug {
        what: "an answer to what has none",
        rule: "ASM24-F0-COMPLETION",
        turn: |sent, _| {
            at(sent, tlp::MWR64, SINGLE, |setup, body| {
                let answer = Setup {
                    request_type: request::TO_HOST,
                    request: request::TLP,
                    value: 0,
                    index: 0,
                };
                Else(vec![Out(setup, body), In(answer, 8)])
            })
        },
    },
    Bug {
        what: "a write to where nobody is",
        rule: "ASM24-UNCLAIMED",
        turn: |sent, _| {
            at(sent, tlp::MWR64, SINGLE, |setup, mut body| {
                body[4] = 7;
                Else(vec![Out(setup, body)])
            })
        },
    },
    Bug {
        what: "a bus gets its number alone",
        rule: "ASM24-BUS-NUMBERS",
        turn: |sent, _| {
            at(sent, tlp::CFG_WR1, SINGLE, |mut setup, body| {
                if address(&body) & 0xff != 0x18 || address(&body) >> 24 > 3 {
                    return Same;
                }
                setup.value = setup.value & 0xff | 0x200;
                Else(vec![Out(setup, body)])
            })
        },
    },
    Bug {
        what: "data for which no stream is open",
        rule: "ASM24-BULK-ARMED",
        turn: |sent, _| at(sent, tlp::MWR64, STREAM_OUT, |_, _| Lost),
    },
    Bug {
        what: "more data than the stream was told",
        rule: "ASM24-STREAM-LENGTH",
        turn: |sent, _| {
            at(sent, tlp::MWR64, STREAM_OUT, |setup, mut body| {
                let dwords = u32::from_le_bytes(body[8..].try_into().unwrap());
                body[8..].copy_from_slice(&(dwords - 1).to_le_bytes());
                Else(vec![Out(setup, body)])
            })
        },
    },
    Bug {
        what: "the next request before the stream is through",
        rule: "ASM24-STREAM-CUT",
        turn: |sent, _| {
            at(sent, tlp::MWR64, STREAM_OUT, |setup, body| {
                Else(vec![Out(setup, body), stray()])
            })
        },
    },
    Bug {
        what: "a stream to the host that is not read",
        rule: "ASM24-STALE-IN",
        turn: |sent, nth| match sent {
            BulkIn(_, bytes) if nth == 1 => Said(vec![0; *bytes]),
            _ => Same,
        },
    },
    Bug {
        what: "a doorbell's high half first",
        rule: "AMD-DOORBELL-HALVES",
        turn: |sent, _| {
            at(sent, tlp::MWR64, SINGLE, |setup, mut body| {
                // Doorbells are behind the first BAR that is above 4 GiB.
                match address(&body) & !0xfff {
                    DOORBELLS if address(&body) & 4 == 0 => {
                        body[0] |= 4;
                        Else(vec![Out(setup, body)])
                    }
                    _ => Same,
                }
            })
        },
    },
    Bug {
        what: "the host data path is not flushed",
        rule: "HDP-NOT-FLUSHED",
        turn: |sent, _| {
            at(sent, tlp::MWR64, SINGLE, |_, body| {
                match address(&body) & 0xf_ffff == FLUSH {
                    true => Lost,
                    false => Same,
                }
            })
        },
    },
];

/// Where the page of doorbells of a card of 16 GiB is: behind its VRAM.
const DOORBELLS: u64 = 0xc_0000_0000;

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
    fn kept(&self) -> &Kept {
        self.machine.kept()
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

/// Works with a card whose driver has a bug, twice, as far as that goes. Which rules were broken.
fn broken(bug: &'static Bug, image: &KernelImage) -> Vec<&'static str> {
    let twin = UsbMachine::new("chip=gfx1201").unwrap();
    for twin in [twin.clone(), twin.again()] {
        let machine: Arc<dyn Machine> = Arc::new(Bent { machine: twin, bug });
        let work = || {
            let device = open(&machine, &options())?;
            stand::work_on(&*device, image, 0)
        };
        // Whether it comes to an end in words or not at all noticed, does not matter here.
        _ = work();
    }
    let violations = twin.journal().violations();
    violations
        .iter()
        .map(|violation| violation.rule.name)
        .collect()
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

/// The driver as it is.
static RIGHT: Bug = Bug {
    what: "none",
    rule: "",
    turn: |_, _| Same,
};
