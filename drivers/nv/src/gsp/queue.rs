//! [`Queues`]: the two rings of messages that host and GSP share, each written by one side.
//!
//! The first page holds the bus addresses of all pages. A ring starts with its sender's header; the page behind it, and
//! those that follow, are elements. A message takes 1 to 16 of them in a row. Where a side has read to is in its own ring.
//!
//! Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu/gsp/message_queue_cpu.c, src/common/shared/msgq/
//! msgq.c.

use std::time::Duration;

use drivers_spec::nv::gsp::{
    MSG_ELEMENT, MSG_ELEMENT_HEADER, MSG_ELEMENTS_MAX, MSGQ_FLAGS_SWAP_RX, MSGQ_VERSION,
    MsgElement, MsgqTxHeader, PAGE, RPC_HEADER_VERSION, RPC_SIGNATURE, RpcHeader,
};
use hcq::addr::BusAddr;
use hcq::mem::window::Window;
use hcq::transport::Clock;
use hcq::wait::{Deadline, Look, poll_until};
use zerocopy::{FromBytes, IntoBytes};

use super::error::Cause;

/// Bytes of a ring.
const RING: u64 = 0x4_0000;
/// Elements of a ring: the first page is its header.
const COUNT: u32 = (RING / PAGE) as u32 - 1;
/// Where in a ring its other side's read pointer is.
const READ: u64 = size_of::<MsgqTxHeader>() as u64;
/// Where in a ring its write pointer is.
const WRITE: u64 = std::mem::offset_of!(MsgqTxHeader, write_ptr) as u64;

/// Bytes of both rings with the page of addresses.
pub(super) const BYTES: u64 = PAGE + 2 * RING;
/// Where the ring of commands is.
pub(super) const COMMANDS: u64 = PAGE;
/// Where the ring of answers is.
pub(super) const STATUS: u64 = PAGE + RING;

/// How much a message may have, with its header.
pub(super) const MESSAGE: usize = (MSG_ELEMENT * MSG_ELEMENTS_MAX) as usize - MSG_ELEMENT_HEADER;

/// How long GSP may take to make room.
const ROOM: Duration = Duration::from_secs(1);
/// How often a message is read that is wrong, and how long it may still be on its way meanwhile.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_micros(10);

/// Both rings, as the host has them.
pub(super) struct Queues {
    commands: Window,
    status: Window,
    /// The next element that is written, and the number of the next message.
    write: u32,
    sent: u32,
    /// The next element that is read, and the number of the next message.
    read: u32,
    received: u32,
    /// How far the last old message was behind that.
    closest: u32,
}

/// A message that was read.
struct Read {
    header: RpcHeader,
    parameters: Vec<u8>,
    /// Its number, and how many elements it has.
    number: u32,
    elements: u32,
}

/// The sum over a message: zero for one that is whole.
fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word.iter_mut()
            .zip(chunk)
            .for_each(|(to, from)| *to = *from);
        u64::from_le_bytes(word)
    });
    let all = words.fold(0, |all, word| all ^ word);
    (all >> 32) as u32 ^ all as u32
}

/// The elements of a message: header, message, zeros.
fn elements(message: &[u8], number: u32) -> Vec<u8> {
    let bytes = MSG_ELEMENT_HEADER + message.len();
    let count = bytes.div_ceil(MSG_ELEMENT as usize);
    let mut all = vec![0; count * MSG_ELEMENT as usize];
    let mut header = MsgElement {
        seq_num: number,
        elem_count: count as u32,
        ..MsgElement::default()
    };
    let mut put = |header: &MsgElement| {
        let head = header.as_bytes().iter();
        all.iter_mut().zip(head).for_each(|(to, from)| *to = *from);
        let body = all.iter_mut().skip(MSG_ELEMENT_HEADER);
        body.zip(message).for_each(|(to, from)| *to = *from);
        sum(all.get(..bytes).unwrap_or_default())
    };
    header.check_sum = put(&header);
    put(&header);
    all
}

fn wrong(field: &'static str, found: impl Into<u64>, expected: impl ToString) -> Cause {
    Cause::Message {
        field,
        found: found.into(),
        expected: expected.to_string(),
    }
}

impl Queues {
    /// Empty rings in zeroed memory, whose pages are there for GSP.
    ///
    /// # Errors
    /// The window's; [`Cause::Long`].
    pub(super) fn new(shared: &Window, pages: &[BusAddr]) -> Result<Queues, Cause> {
        let needed = BYTES / PAGE;
        if (pages.len() as u64) < needed {
            return Err(Cause::Long {
                what: "GSP's message queues",
                bytes: BYTES,
                room: pages.len() as u64 * PAGE,
            });
        }
        let table: Vec<u8> = pages
            .iter()
            .take(needed as usize)
            .flat_map(|page| page.0.to_le_bytes())
            .collect();
        shared.write_bytes(0, &table)?;
        let commands = shared.sub(COMMANDS, RING)?;
        let header = MsgqTxHeader {
            version: MSGQ_VERSION,
            size: RING as u32,
            msg_size: MSG_ELEMENT,
            msg_count: COUNT,
            write_ptr: 0,
            flags: MSGQ_FLAGS_SWAP_RX,
            rx_hdr_off: READ as u32,
            entry_off: PAGE as u32,
        };
        commands.write_bytes(0, header.as_bytes())?;
        Ok(Queues {
            commands,
            status: shared.sub(STATUS, RING)?,
            write: 0,
            sent: 0,
            read: 0,
            received: 0,
            closest: u32::MAX,
        })
    }

    /// Waits until GSP has made its ring.
    ///
    /// # Errors
    /// [`Cause::Waited`]; [`Cause::Header`]: it made another one than is known.
    pub(super) fn link(&self, clock: &dyn Clock, deadline: Deadline) -> Result<(), Cause> {
        let what = "GSP to set up its status queue";
        // The last field of the header is written last, or all of it at once.
        let header = poll_until(clock, deadline, what, || {
            let mut bytes = [0; size_of::<MsgqTxHeader>()];
            self.status.read_bytes(0, &mut bytes)?;
            let header = MsgqTxHeader::read_from_bytes(&bytes).unwrap_or_default();
            Ok::<_, Cause>(match header.size != 0 && header.entry_off != 0 {
                true => Look::Done(header),
                false => Look::Not(header.size.into()),
            })
        })?;
        for (field, found, expected) in [
            ("version", header.version, MSGQ_VERSION),
            ("size", header.size, RING as u32),
            ("msgSize", header.msg_size, MSG_ELEMENT),
            ("msgCount", header.msg_count, COUNT),
            ("flags", header.flags, MSGQ_FLAGS_SWAP_RX),
            ("rxHdrOff", header.rx_hdr_off, READ as u32),
            ("entryOff", header.entry_off, PAGE as u32),
        ] {
            if found != expected {
                return Err(Cause::Header {
                    field,
                    found,
                    expected,
                });
            }
        }
        Ok(())
    }

    /// Writes a message of at most [`MESSAGE`] bytes. GSP does not look before it is told.
    ///
    /// # Errors
    /// [`Cause::Full`]; [`Cause::Long`]; the windows'.
    pub(super) fn send(&mut self, clock: &dyn Clock, message: &[u8]) -> Result<(), Cause> {
        if message.len() > MESSAGE {
            return Err(Cause::Long {
                what: "a message to GSP",
                bytes: message.len() as u64,
                room: MESSAGE as u64,
            });
        }
        let all = elements(message, self.sent);
        let needed = all.len() as u32 / MSG_ELEMENT;
        self.wait_room(clock, needed)?;
        for (element, number) in all.chunks(MSG_ELEMENT as usize).zip(0..) {
            let at = PAGE * (1 + u64::from((self.write + number) % COUNT));
            self.commands.write_bytes(at, element)?;
        }
        self.write = (self.write + needed) % COUNT;
        // The elements are there before.
        self.commands.ring(WRITE, self.write)?;
        self.sent = self.sent.wrapping_add(1);
        Ok(())
    }

    fn wait_room(&self, clock: &dyn Clock, needed: u32) -> Result<(), Cause> {
        let deadline = Deadline::on(clock, ROOM);
        let mut free = 0;
        let what = "room in GSP's command queue";
        let waited = poll_until(clock, deadline, what, || {
            let read = self.status.load::<u32>(READ)?;
            if read >= COUNT {
                return Err(wrong(
                    "readPtr of the commands",
                    read,
                    format!("below {COUNT}"),
                ));
            }
            // One element stays free: a full ring is none that is empty.
            free = (read + COUNT - self.write - 1) % COUNT;
            Ok::<_, Cause>(match free >= needed {
                true => Look::Done(()),
                false => Look::Not(free.into()),
            })
        });
        match waited {
            Err(Cause::Waited(timeout)) => Err(Cause::Full {
                free,
                needed,
                limit: timeout.limit,
            }),
            waited => waited,
        }
    }

    /// Takes the next message, if there is one: header and parameters. None, too, where it was an old one.
    ///
    /// # Errors
    /// [`Cause::Message`]; the windows'.
    pub(super) fn receive(
        &mut self,
        clock: &dyn Clock,
    ) -> Result<Option<(RpcHeader, Vec<u8>)>, Cause> {
        let mut tries = 1;
        loop {
            let there = self.there()?;
            if there == 0 {
                return Ok(None);
            }
            let read = match self.whole(there) {
                Err(Cause::Message { .. }) if tries < TRIES => {
                    tries += 1;
                    clock.sleep(PAUSE);
                    continue;
                }
                read => read?,
            };
            if read.number == self.received {
                self.take(read.elements)?;
                self.received = self.received.wrapping_add(1);
                self.closest = u32::MAX;
                return Ok(Some((read.header, read.parameters)));
            }
            // One of before is left out, if they come closer to the one that is due: as the vendor's driver does.
            let behind = self.received.saturating_sub(read.number);
            if behind == 0 || behind >= self.closest {
                let expected = format!("{:#x}", self.received);
                return Err(wrong("seqNum", read.number, expected));
            }
            tracing::warn!(target: "hcq::nv::gsp", number = read.number, due = self.received, "stale GSP message discarded");
            self.closest = behind;
            self.take(read.elements)?;
            return Ok(None);
        }
    }

    /// How many elements are there.
    fn there(&self) -> Result<u32, Cause> {
        let write = self.status.load::<u32>(WRITE)?;
        match write < COUNT {
            true => Ok((write + COUNT - self.read) % COUNT),
            false => Err(wrong(
                "writePtr of the answers",
                write,
                format!("below {COUNT}"),
            )),
        }
    }

    /// Gives elements back.
    fn take(&mut self, elements: u32) -> Result<(), Cause> {
        self.read = (self.read + elements) % COUNT;
        Ok(self.commands.ring(READ, self.read)?)
    }

    /// The message that starts at the next element.
    fn whole(&self, there: u32) -> Result<Read, Cause> {
        let mut bytes = vec![0; MSG_ELEMENT as usize];
        self.element(0, &mut bytes)?;
        let (head, rest) = bytes.split_at(size_of::<MsgElement>());
        let head = MsgElement::read_from_bytes(head).unwrap_or_default();
        if head.elem_count == 0 || head.elem_count > there.min(MSG_ELEMENTS_MAX) {
            let most = there.min(MSG_ELEMENTS_MAX);
            return Err(wrong("elemCount", head.elem_count, format!("1 to {most}")));
        }
        let start = MSG_ELEMENT_HEADER - size_of::<MsgElement>();
        let rpc = rest
            .get(start..)
            .and_then(|rest| RpcHeader::read_from_prefix(rest).ok());
        let rpc = rpc.map(|(rpc, _)| rpc).unwrap_or_default();
        let most = (head.elem_count * MSG_ELEMENT) as usize - MSG_ELEMENT_HEADER;
        let length = rpc.length as usize;
        if length < size_of::<RpcHeader>() || length > most {
            let expected = format!("{} to {most}", size_of::<RpcHeader>());
            return Err(wrong("length", rpc.length, expected));
        }
        bytes.resize((head.elem_count * MSG_ELEMENT) as usize, 0);
        for (element, number) in bytes.chunks_mut(MSG_ELEMENT as usize).zip(0..).skip(1) {
            self.element(number, element)?;
        }
        bytes.truncate(MSG_ELEMENT_HEADER + length);
        let sum = sum(&bytes);
        if sum != 0 {
            return Err(wrong("its checksum (checkSum)", sum, 0));
        }
        for (field, found, expected) in [
            ("signature", rpc.signature, RPC_SIGNATURE),
            ("header_version", rpc.header_version, RPC_HEADER_VERSION),
        ] {
            if found != expected {
                return Err(wrong(field, found, format!("{expected:#x}")));
            }
        }
        Ok(Read {
            parameters: bytes.split_off(MSG_ELEMENT_HEADER + size_of::<RpcHeader>()),
            header: rpc,
            number: head.seq_num,
            elements: head.elem_count,
        })
    }

    fn element(&self, number: u32, bytes: &mut [u8]) -> Result<(), Cause> {
        let at = PAGE * (1 + u64::from((self.read + number) % COUNT));
        Ok(self.status.read_bytes(at, bytes)?)
    }
}

/// What starts a message: its header, with as many bytes of parameters.
pub(super) fn header(function: u32, parameters: usize) -> RpcHeader {
    RpcHeader {
        header_version: RPC_HEADER_VERSION,
        signature: RPC_SIGNATURE,
        length: (size_of::<RpcHeader>() + parameters) as u32,
        function,
        rpc_result: drivers_spec::nv::gsp::RPC_PENDING,
        rpc_result_private: drivers_spec::nv::gsp::RPC_PENDING,
        ..RpcHeader::default()
    }
}
