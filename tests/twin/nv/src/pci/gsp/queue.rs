//! The queues between host and GSP, as GSP has them: it reads commands and writes what comes back.
//!
//! Source: OGKM, src/common/shared/msgq/msgq.c and inc/msgq/msgq_priv.h; message_queue_priv.h and message_queue_cpu.c;
//! rpc_headers.h, g_rpc-message-header.h.

use std::collections::VecDeque;

use twin::host::PAGE;
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use super::args::{Failed, Shared};
use crate::pci::memory::{Host, long, word};

static HEADER: Rule = Rule {
    name: "NV-QUEUE-HEADER",
    text: "the queue of commands begins with version 0, its size, entries of 4 KiB and how many fit behind the header's page, a \
           write pointer among them, SWAP_RX, rxHdrOff 20 and entryOff 1000",
    source: "OGKM, msgq.c, msgqTxCreate and msgqRxLink; message_queue_cpu.c, _gspMsgQueueInit",
    proof: Proof::Sourced,
};

static POINTER: Rule = Rule {
    name: "NV-QUEUE-POINTER",
    text: "pointers of queues are numbers of entries, and that of the reader does not pass that of the writer",
    source: "OGKM, msgq.c, msgqTxGetFreeSpace, msgqRxGetReadAvailable, msgqRxMarkConsumed",
    proof: Proof::Sourced,
};

static ELEMENT: Rule = Rule {
    name: "NV-QUEUE-ELEMENT",
    text: "elemCount is how many entries header and RPC take, 1 to 16, and all of them lie before the write pointer",
    source: "OGKM, message_queue_cpu.c, GspMsgQueueSendCommand: GSP_MSG_QUEUE_BYTES_TO_ELEMENTS, GSP_MSG_QUEUE_ELEMENT_SIZE_MAX",
    proof: Proof::Sourced,
};

static CHECKSUM: Rule = Rule {
    name: "NV-QUEUE-CHECKSUM",
    text: "the words of 64 bits of header and RPC, padded with zeros, give 0 by exclusive or of their halves",
    source: "OGKM, message_queue_priv.h, _checkSum32; message_queue_cpu.c, GspMsgQueueSendCommand",
    proof: Proof::Sourced,
};

static SEQUENCE: Rule = Rule {
    name: "NV-QUEUE-SEQUENCE",
    text: "seqNum counts messages from 0, continuation records too",
    source: "OGKM, message_queue_cpu.c, GspMsgQueueSendCommand: txSeqNum; GspMsgQueueReceiveStatus: Bad sequence number",
    proof: Proof::Sourced,
};

static RPC: Rule = Rule {
    name: "NV-RPC-HEADER",
    text: "an RPC has header_version 03000000, the signature VRPC, and a length of 32 bytes or more",
    source: "OGKM, rpc_headers.h: NV_VGPU_MSG_HEADER_VERSION, NV_VGPU_MSG_SIGNATURE_VALID; rpc_common.c, rpcWriteCommonHeader",
    proof: Proof::Sourced,
};

/// Bytes of an entry.
const ENTRY: u64 = PAGE;
/// Bytes before an RPC in a message, and of the header of an RPC.
const HEAD: usize = 0x30;
const RPC_HEAD: usize = 0x20;
/// The most that an RPC has with its header.
const MOST: usize = 16 * ENTRY as usize - HEAD;
/// The payload of a full record.
pub(super) const FULL: usize = MOST - RPC_HEAD;
/// `NV_VGPU_MSG_FUNCTION_CONTINUATION_RECORD`.
pub(super) const CONTINUATION: u32 = 71;
/// Where a header has its write pointer, and where the pointer of the other side is behind it.
const WRITE: u64 = 0x10;
const READ: u64 = 0x20;

/// An RPC.
#[derive(Clone)]
pub(super) struct Message {
    pub(super) function: u32,
    pub(super) result: u32,
    pub(super) sequence: u32,
    pub(super) payload: Vec<u8>,
}

/// Both queues.
pub(super) struct Queues {
    shared: Shared,
    /// Entries of each.
    commands: u32,
    statuses: u32,
    read: u32,
    write: u32,
    /// Numbers of the next message of each.
    next_in: u32,
    next_out: u32,
    /// What has found no room yet.
    waiting: VecDeque<Vec<u8>>,
}

impl Shared {
    fn read(&self, host: &Host, at: u64, out: &mut [u8]) -> bool {
        self.walk(at, out.len(), |place, part| {
            host.read(place, &mut out[part], "GSP, its queues")
        })
    }

    fn write(&self, host: &Host, at: u64, data: &[u8]) -> bool {
        self.walk(at, data.len(), |place, part| {
            host.write(place, &data[part], "GSP, its queues")
        })
    }

    fn walk(
        &self,
        at: u64,
        bytes: usize,
        mut each: impl FnMut(u64, std::ops::Range<usize>) -> bool,
    ) -> bool {
        let mut done = 0;
        while done < bytes {
            let here = at + done as u64;
            let piece = ((PAGE - here % PAGE) as usize).min(bytes - done);
            let page = self.pages.get((here / PAGE) as usize);
            let there = page.is_some_and(|page| each(page + here % PAGE, done..done + piece));
            if !there {
                return false;
            }
            done += piece;
        }
        true
    }

    fn word(&self, host: &Host, at: u64) -> Option<u32> {
        let mut word = [0; 4];
        let read = self.read(host, at, &mut word);
        read.then(|| u32::from_le_bytes(word))
    }
}

impl Queues {
    /// Finds the queue of commands, and makes the other one.
    pub(super) fn link(host: &Host, shared: Shared) -> Result<Queues, Failed> {
        let mut header = [0; 0x20];
        if !shared.read(host, shared.command, &mut header) {
            return Err(None);
        }
        let words: Vec<u32> = header.chunks(4).map(|chunk| word(chunk, 0)).collect();
        let size = shared.status - shared.command;
        let commands = ((size - ENTRY) / ENTRY) as u32;
        let wanted = [0, size as u32, ENTRY as u32, commands];
        let rest = [1, READ as u32, ENTRY as u32];
        if words[..4] != wanted || words[4] >= commands || words[5..] != rest {
            return Err(Some((&HEADER, format!("{words:x?} of {size:#x} bytes"))));
        }
        let bytes = shared.pages.len() as u64 * PAGE - shared.status;
        let statuses = (bytes.saturating_sub(ENTRY) / ENTRY) as u32;
        let own = [
            0,
            bytes as u32,
            ENTRY as u32,
            statuses,
            0,
            1,
            READ as u32,
            ENTRY as u32,
            0,
        ];
        let own: Vec<u8> = own.iter().flat_map(|word| word.to_le_bytes()).collect();
        if !shared.write(host, shared.status, &own) {
            return Err(None);
        }
        Ok(Queues {
            shared,
            commands,
            statuses,
            read: 0,
            write: 0,
            next_in: 0,
            next_out: 0,
            waiting: VecDeque::new(),
        })
    }

    /// The next command, if there is one.
    ///
    /// # Errors
    /// What is wrong with a command; it is left out then.
    pub(super) fn next(&mut self, host: &Host) -> Result<Option<Message>, Broken> {
        let Some(write) = self.shared.word(host, self.shared.command + WRITE) else {
            return Ok(None);
        };
        if write >= self.commands {
            let what = format!("writePtr {write} of {} commands", self.commands);
            host.journal.broken(&POINTER, what);
            return Ok(None);
        }
        let available = (write + self.commands - self.read) % self.commands;
        if available == 0 {
            return Ok(None);
        }
        let taken = self.take(host, available);
        // What cannot be told apart is left out as a whole.
        let count = taken.as_ref().map_or(available, |(count, _)| *count);
        self.read = (self.read + count) % self.commands;
        self.next_in += 1;
        let read = self.read.to_le_bytes();
        self.shared.write(host, self.shared.status + READ, &read);
        taken.map(|(_, message)| Some(message))
    }

    /// How many entries the next command has, and the command.
    fn take(&self, host: &Host, available: u32) -> Result<(u32, Message), Broken> {
        let entry = |number: u32| {
            let number = (self.read + number) % self.commands;
            self.shared.command + ENTRY + u64::from(number) * ENTRY
        };
        let mut bytes = vec![0; ENTRY as usize];
        self.shared.read(host, entry(0), &mut bytes);
        let count = word(&bytes, 0x28);
        let length = word(&bytes, HEAD + 8) as usize;
        let needed = (HEAD + length).div_ceil(ENTRY as usize) as u32;
        if word(&bytes, HEAD) != 0x0300_0000
            || word(&bytes, HEAD + 4) != u32::from_le_bytes(*b"VRPC")
            || length < RPC_HEAD
        {
            let head = &bytes[HEAD..HEAD + 12];
            return Err((&RPC, format!("the header begins with {head:x?}")));
        }
        if count == 0 || count > 16 || count > available || count != needed {
            let what = format!("elemCount {count}, {length:#x} bytes, {available} entries written");
            return Err((&ELEMENT, what));
        }
        bytes.resize(count as usize * ENTRY as usize, 0);
        for (number, part) in (0..).zip(bytes.chunks_mut(ENTRY as usize)) {
            self.shared.read(host, entry(number), part);
        }
        let checked = &bytes[..(HEAD + length).next_multiple_of(8)];
        let sum = fold(checked);
        if sum != 0 {
            return Err((&CHECKSUM, format!("{sum:#x} over {length:#x} bytes")));
        }
        let number = word(&bytes, 0x24);
        if number != self.next_in {
            let what = format!("seqNum {number}, expected {}", self.next_in);
            return Err((&SEQUENCE, what));
        }
        let rpc = &bytes[HEAD..HEAD + length];
        let message = Message {
            function: word(rpc, 12),
            result: word(rpc, 16),
            sequence: word(rpc, 24),
            payload: rpc[RPC_HEAD..].to_vec(),
        };
        Ok((count, message))
    }

    /// Sends a message, in several records where it is long. Whether one of them has arrived.
    ///
    /// # Errors
    /// The host has broken its own pointer.
    pub(super) fn send(&mut self, host: &Host, message: &Message) -> Result<bool, Broken> {
        let mut function = message.function;
        let mut rest = &message.payload[..];
        loop {
            let (now, later) = rest.split_at(rest.len().min(FULL));
            let record = self.record(function, message, now);
            self.waiting.push_back(record);
            function = CONTINUATION;
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        self.flush(host)
    }

    /// Where the next record goes.
    pub(super) fn written(&self) -> u32 {
        self.write
    }

    /// Up to where the host has taken records, as it says itself.
    pub(super) fn taken(&self, host: &Host) -> Option<u32> {
        self.shared.word(host, self.shared.command + READ)
    }

    /// A record: header, RPC, and zeros up to the end of its last entry.
    fn record(&mut self, function: u32, message: &Message, payload: &[u8]) -> Vec<u8> {
        let length = RPC_HEAD + payload.len();
        let count = (HEAD + length).div_ceil(ENTRY as usize);
        let mut bytes = vec![0; count * ENTRY as usize];
        let words = [
            (0x24, self.next_out),
            (0x28, count as u32),
            (HEAD, 0x0300_0000),
            (HEAD + 4, u32::from_le_bytes(*b"VRPC")),
            (HEAD + 8, length as u32),
            (HEAD + 12, function),
            (HEAD + 16, message.result),
            (HEAD + 24, message.sequence),
        ];
        for (at, word) in words {
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[HEAD + RPC_HEAD..][..payload.len()].copy_from_slice(payload);
        let sum = fold(&bytes);
        bytes[0x20..0x24].copy_from_slice(&sum.to_le_bytes());
        self.next_out += 1;
        bytes
    }

    /// Writes what waits, as far as there is room. Whether something was written.
    ///
    /// # Errors
    /// As [`Queues::send`].
    pub(super) fn flush(&mut self, host: &Host) -> Result<bool, Broken> {
        let mut wrote = false;
        while let Some(record) = self.waiting.front() {
            let Some(read) = self.taken(host) else {
                break;
            };
            if read >= self.statuses {
                let what = format!("readPtr {read} of {} entries", self.statuses);
                return Err((&POINTER, what));
            }
            let free = (read + self.statuses - self.write - 1) % self.statuses;
            let count = (record.len() as u64 / ENTRY) as u32;
            if count > free {
                break;
            }
            for (number, part) in (0..).zip(record.chunks(ENTRY as usize)) {
                let number = (self.write + number) % self.statuses;
                let at = self.shared.status + ENTRY + u64::from(number) * ENTRY;
                self.shared.write(host, at, part);
            }
            self.write = (self.write + count) % self.statuses;
            let write = self.write.to_le_bytes();
            self.shared.write(host, self.shared.status + WRITE, &write);
            self.waiting.pop_front();
            wrote = true;
        }
        Ok(wrote)
    }
}

/// The checksum of bytes whose number is a multiple of 8.
fn fold(bytes: &[u8]) -> u32 {
    let words = (0..bytes.len()).step_by(8).map(|at| long(bytes, at));
    let sum = words.fold(0, |sum, word| sum ^ word);
    (sum >> 32) as u32 ^ sum as u32
}
