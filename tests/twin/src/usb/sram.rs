//! The bridge's buffer, which the function reaches as bus master, pages of queues beside it, and the engine that
//! copies between the buffer and bulk transfers.
//!
//! A copy to the host waits until the function has written to the page of the completion queue. Nobody tells the
//! bridge here that it has: the page holds a pattern meanwhile, which a write changes. Who reads the page sees what
//! it held before where the pattern still is.
//!
//! Source: tinygrad/asm2464pd-firmware, README and pcie/test_sram_verify.py; tinygrad, runtime/ops_amd.py, USBIface.

use std::collections::VecDeque;
use std::sync::Arc;

use super::rules;
use crate::host::{Mapping, PAGE};
use crate::pci::HostMemory;
use crate::rng::Rng;
use crate::rule::Journal;

/// Bytes of a slot.
const SLOT: u64 = 0x4000;
/// Slots of the buffer.
const SLOTS: u64 = 32;
/// Bytes of a sector.
const SECTOR: u64 = 512;
/// Copies that may wait at a time.
const MOST: usize = 2;

/// Where the function finds the buffer, and what lies beside it: address, bytes, and where the processor sees it.
const BUFFER: u64 = 0x20_0000;
const QUEUE: u64 = 0x82_0000;
const ADMIN: u64 = 0x80_0000;
const COMPLETIONS: u64 = 0x82_2000;

/// A window of the processor's address space: its first address, its bytes, and what it shows.
pub(super) const WINDOWS: [(u16, u16, Shown); 4] = [
    (0xa000, 0x1000, Shown::Queue),
    (0xb000, 0x0200, Shown::Admin),
    (0xb800, 0x0800, Shown::Completions),
    (0xf000, 0x1000, Shown::Buffer),
];

/// What a window shows the start of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shown {
    Buffer,
    Queue,
    Admin,
    Completions,
}

/// A copy that waits for its bulk transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Copy {
    to_host: bool,
    at: u64,
    bytes: u64,
    /// How much of it is done.
    done: u64,
    /// Nothing but zeros has come.
    is_zero: bool,
    /// Whoever armed it has begun anew: the next to arm one sets the engine up anew.
    left: bool,
}

/// A part of the buffer that the host has sent: nobody has looked at it as long as no page of it was asked for.
struct Sent {
    at: u64,
    bytes: u64,
}

/// See the front page.
pub(super) struct Sram {
    buffer: Arc<Mapping>,
    queue: Arc<Mapping>,
    admin: Arc<Mapping>,
    completions: Arc<Mapping>,
    memory: Arc<HostMemory>,
    shown: bool,
    copies: VecDeque<Copy>,
    /// What the page of completions held, and the pattern that it holds now.
    gate: Option<(Vec<u8>, Vec<u8>)>,
    sent: Vec<Sent>,
    rng: Rng,
}

impl Sram {
    pub(super) fn new(memory: &Arc<HostMemory>) -> Result<Sram, i32> {
        let new = |bytes| Mapping::new(bytes).map(Arc::new);
        Ok(Sram {
            buffer: new(SLOT * SLOTS)?,
            queue: new(PAGE)?,
            admin: new(PAGE)?,
            completions: new(PAGE)?,
            memory: memory.clone(),
            shown: false,
            copies: VecDeque::new(),
            gate: None,
            sent: Vec::new(),
            rng: Rng::new(0x5a),
        })
    }

    /// The function reaches all of it from now on, or nothing any more.
    pub(super) fn show(&mut self, shown: bool) {
        if self.shown == shown {
            return;
        }
        self.shown = shown;
        for (at, mapping) in [
            (BUFFER, &self.buffer),
            (QUEUE, &self.queue),
            (ADMIN, &self.admin),
            (COMPLETIONS, &self.completions),
        ] {
            match shown {
                true => self.memory.add(at, mapping.bytes(), mapping.clone(), 0),
                false => self.memory.remove(at, mapping.bytes()),
            }
        }
    }

    /// What waits is forgotten, and who sent what.
    pub(super) fn forget(&mut self) {
        self.copies.clear();
        self.sent.clear();
        self.open();
    }

    /// Endpoints start anew. The engine is not told (asm2464pd-firmware, handmade/src/main.c, CLEAR_FEATURE,
    /// SET_INTERFACE): a copy takes what comes, until another is armed, which sets the engine up anew (0xF2).
    pub(super) fn leave(&mut self) {
        for copy in &mut self.copies {
            copy.left = true;
        }
        // Nobody is there any more who would want it read.
        self.sent.clear();
    }

    /// Power has gone.
    pub(super) fn lose(&mut self) {
        self.forget();
        for mapping in [&self.buffer, &self.queue, &self.admin, &self.completions] {
            let zeros = vec![0; mapping.bytes() as usize];
            mapping.write(0, &zeros);
        }
    }

    fn mapping(&self, shown: Shown) -> &Arc<Mapping> {
        match shown {
            Shown::Buffer => &self.buffer,
            Shown::Queue => &self.queue,
            Shown::Admin => &self.admin,
            Shown::Completions => &self.completions,
        }
    }

    /// The processor reads through a window.
    pub(super) fn read(&self, shown: Shown, offset: u16, to: &mut [u8]) {
        self.mapping(shown).read(offset.into(), to);
        if let (Shown::Completions, Some((before, pattern))) = (shown, &self.gate) {
            for (byte, at) in to.iter_mut().zip(usize::from(offset)..) {
                if *byte == pattern[at] {
                    *byte = before[at];
                }
            }
        }
    }

    /// The processor writes through a window.
    pub(super) fn write(&self, shown: Shown, offset: u16, byte: u8) {
        self.mapping(shown).write(offset.into(), &[byte]);
    }

    /// Whether a copy of a direction waits.
    pub(super) fn waits(&self, to_host: bool) -> bool {
        self.copies.iter().any(|copy| copy.to_host == to_host)
    }

    /// Arms a copy, as request 0xF2 does: of `sectors` from a slot on.
    pub(super) fn arm(
        &mut self,
        to_host: bool,
        sectors: u64,
        (slot, slots): (u64, u64),
        journal: &Journal,
    ) {
        let bytes = sectors * SECTOR;
        let what = format!("{sectors} sectors in {slots} slots from {slot} on");
        if sectors == 0 || bytes > slots * SLOT || slot + slots > SLOTS {
            journal.broken(&rules::SLOTS, what);
            return;
        }
        if self.copies.iter().any(|copy| copy.left) {
            self.copies.clear();
            self.open();
        }
        let waiting = self.copies.iter().filter(|copy| copy.to_host == to_host);
        if waiting.count() >= MOST {
            journal.broken(&rules::ENGINES, format!("{what}, while {MOST} wait"));
            self.copies.pop_front();
        }
        let at = slot * SLOT;
        if to_host {
            self.close();
        } else if let Some(unread) = self.unread(at, bytes) {
            let what = format!(
                "{what}, where {:#x} bytes at {:#x} lie unread",
                unread.1, unread.0
            );
            journal.broken(&rules::UNREAD, what);
        }
        self.copies.push_back(Copy {
            to_host,
            at,
            bytes,
            done: 0,
            is_zero: true,
            left: false,
        });
    }

    /// What the host has sent into a range, and nobody has looked at.
    fn unread(&mut self, at: u64, bytes: u64) -> Option<(u64, u64)> {
        let overlaps = |sent: &Sent| sent.at < at + bytes && at < sent.at + sent.bytes;
        // Its start: a look at its end is for whether it is there.
        let looked = |sent: &Sent| self.memory.was_found(BUFFER + sent.at, 1);
        let found = self
            .sent
            .iter()
            .find(|sent| overlaps(sent) && !looked(sent));
        let found = found.map(|sent| (sent.at, sent.bytes));
        self.sent.retain(|sent| !overlaps(sent));
        found
    }

    /// The gate of copies to the host falls shut.
    fn close(&mut self) {
        if self.gate.is_some() {
            return;
        }
        let mut before = vec![0; PAGE as usize];
        self.completions.read(0, &mut before);
        // Differs everywhere from what was there.
        let pattern: Vec<u8> = before
            .iter()
            .map(|byte| byte ^ (1 + self.rng.below(255) as u8))
            .collect();
        self.completions.write(0, &pattern);
        self.gate = Some((before, pattern));
    }

    /// It opens: what nobody has written is there again.
    fn open(&mut self) {
        if self.gate.is_some() {
            let mut now = vec![0; PAGE as usize];
            self.read(Shown::Completions, 0, &mut now);
            self.gate = None;
            self.completions.write(0, &now);
        }
    }

    /// Whether the function has written to the page of completions since the gate fell shut.
    fn is_open(&mut self) -> bool {
        let Some((_, pattern)) = &self.gate else {
            return true;
        };
        let mut now = vec![0; PAGE as usize];
        self.completions.read(0, &mut now);
        if now == *pattern {
            return false;
        }
        self.open();
        true
    }

    /// Bulk data from the host for the first copy that waits, of which a part may come. None where none does; else
    /// the bytes that the engine has taken.
    pub(super) fn take(&mut self, data: &[u8], packet: usize, journal: &Journal) -> Option<usize> {
        let index = self.copies.iter().position(|copy| !copy.to_host)?;
        let copy = &mut self.copies[index];
        let left = copy.bytes - copy.done;
        let taken = data.len().min(left as usize);
        if !is_part(data.len(), left, packet) {
            let what = format!("{:#x} bytes for {left:#x}", data.len());
            journal.broken(&rules::SECTORS, what);
        }
        let (at, bytes, to) = (copy.at, copy.bytes, copy.at + copy.done);
        copy.done += taken as u64;
        copy.is_zero &= data[..taken].iter().all(|byte| *byte == 0);
        let (is_whole, is_zero) = (copy.done == bytes, copy.is_zero);
        if !is_whole {
            self.buffer.write(to, &data[..taken]);
            return Some(taken);
        }
        // All of it is there with its last sector: what the function asks for from then on is what was sent.
        let (first, last) = data[..taken].split_at(taken.saturating_sub(SECTOR as usize));
        self.buffer.write(to, first);
        self.memory.watch(BUFFER + at, bytes, || {
            self.buffer.write(to + first.len() as u64, last);
        });
        self.copies.remove(index);
        let others = |sent: &Sent| sent.at >= at + bytes || at >= sent.at + sent.bytes;
        self.sent.retain(others);
        if !is_zero {
            self.sent.push(Sent { at, bytes });
        }
        Some(taken)
    }

    /// Bulk data for the host from the first copy that waits: none where none does, an error where the function has
    /// not released it yet; else how many bytes came.
    pub(super) fn give(
        &mut self,
        to: &mut [u8],
        packet: usize,
        journal: &Journal,
    ) -> Option<Result<usize, ()>> {
        let index = self.copies.iter().position(|copy| copy.to_host)?;
        if !self.is_open() {
            return Some(Err(()));
        }
        let copy = &mut self.copies[index];
        let left = copy.bytes - copy.done;
        if !is_part(to.len(), left, packet) {
            let what = format!("room for {:#x} bytes of {left:#x}", to.len());
            journal.broken(&rules::SECTORS, what);
        }
        let given = to.len().min(left as usize);
        self.buffer.read(copy.at + copy.done, &mut to[..given]);
        copy.done += given as u64;
        if copy.done == copy.bytes {
            self.copies.remove(index);
        }
        Some(Ok(given))
    }
}

/// Whether so many bytes are all that is left, or whole packets of it: the device does not see where transfers end.
fn is_part(bytes: usize, left: u64, packet: usize) -> bool {
    bytes as u64 == left || bytes as u64 <= left && bytes.is_multiple_of(packet)
}
