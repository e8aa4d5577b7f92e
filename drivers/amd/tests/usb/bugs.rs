//! Deliberate bugs in what a bridge is asked, each with the rule that has to name it.

use drivers_spec::asm24::{LTSSM, LTSSM_UP, open as request, tlp};
use hcq::transport::Setup;

/// A transfer, with what it sends.
#[derive(Clone)]
pub(super) enum Sent {
    In(Setup, usize),
    Out(Setup, Vec<u8>),
    BulkIn(u8, usize),
    BulkOut(u8, Vec<u8>),
}

use Sent::{BulkIn, BulkOut, In, Out};

/// What becomes of a transfer.
pub(super) enum Turn {
    Same,
    /// It is not made, and nobody notices.
    Lost,
    /// It is not made, and answered so.
    Said(Vec<u8>),
    /// Others are made, queued together.
    Else(Vec<Sent>),
}

use Turn::{Else, Lost, Said, Same};

pub(super) struct Bug {
    pub(super) what: &'static str,
    /// The rule that has to name it.
    pub(super) rule: &'static str,
    /// What becomes of a transfer; how many came before, of a bulk transfer in its direction.
    pub(super) turn: fn(&Sent, u64) -> Turn,
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

pub(super) static BUGS: &[Bug] = &[
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
        what: "the window is not moved",
        rule: "ASM24-SRAM-UNREAD",
        turn: |sent, _| {
            armed(sent, |mut setup| {
                setup.index &= !0x10;
                setup
            })
        },
    },
    Bug {
        what: "a window is taken to be free",
        rule: "ASM24-SRAM-UNREAD",
        turn: |sent, _| match sent {
            In(setup, 4) if setup.value == COUNT => Said(vec![2, 0, 0, 0]),
            // The card never finds that it is full.
            BulkOut(endpoint, bytes) if is_window(bytes) => {
                let mut bytes = bytes.clone();
                bytes[WINDOW - 1] = 0;
                Else(vec![BulkOut(*endpoint, bytes)])
            }
            _ => Same,
        },
    },
    Bug {
        what: "what the card has done is read over a border of 4 KiB",
        rule: "ASM24-XDATA-BORDER",
        turn: |sent, _| match sent {
            In(setup, 4) if setup.value == COUNT => Else(vec![In(
                Setup {
                    value: 0xaffe,
                    ..*setup
                },
                4,
            )]),
            _ => Same,
        },
    },
    Bug {
        what: "a sector less than armed",
        rule: "ASM24-F2-LENGTH",
        turn: |sent, _| match sent {
            BulkOut(endpoint, bytes) if is_window(bytes) => {
                Else(vec![BulkOut(*endpoint, bytes[512..].to_vec())])
            }
            _ => Same,
        },
    },
    Bug {
        what: "a slot less than the window has",
        rule: "ASM24-F2-SLOTS",
        turn: |sent, _| {
            armed(sent, |mut setup| {
                setup.index -= 0x100;
                setup
            })
        },
    },
    Bug {
        what: "three windows are armed at once",
        rule: "ASM24-TWO-ENGINES",
        turn: |sent, _| match armed(sent, |setup| setup) {
            Else(mut arms) => {
                arms.extend_from_within(..);
                arms.extend_from_within(..1);
                Else(arms)
            }
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

/// Bytes of a window of the bridge's buffer.
const WINDOW: usize = 256 << 10;
/// Whether data fills one: it ends so.
fn is_window(bytes: &[u8]) -> bool {
    bytes.len() == WINDOW && bytes.last() == Some(&0x51)
}

/// Where the card says which windows it is done with.
const COUNT: u16 = 0xa800;

/// A bug in how a whole window of the bridge's buffer is armed.
fn armed(sent: &Sent, change: impl FnOnce(Setup) -> Setup) -> Turn {
    match sent {
        Out(setup, body)
            if setup.request == request::ARM && usize::from(setup.value) == WINDOW / 512 =>
        {
            Else(vec![Out(change(*setup), body.clone())])
        }
        _ => Same,
    }
}

/// Where the page of doorbells of a card of 16 GiB is: behind its VRAM.
const DOORBELLS: u64 = 0xc_0000_0000;

/// The driver as it is.
pub(super) static RIGHT: Bug = Bug {
    what: "none",
    rule: "",
    turn: |_, _| Same,
};
