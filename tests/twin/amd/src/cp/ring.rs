//! Rings: what is published, what is taken.

use std::collections::VecDeque;

use drivers_spec::amd::aql;
use twin::rule::{Proof, Rule};

use super::{Cx, Stop, refuse};
use crate::gpu::{Begin, QueueDesc, QueueKind};

/// A doorbell is written with 64 bits.
pub static DOORBELL_64: Rule = Rule {
    name: "Q-DOORBELL-64",
    text: "a doorbell is written with one 64-bit store",
    source: "Linux, gfx_v9_4_3.c, gfx_v11_0.c, sdma_v6_0.c: WDOORBELL64; the doorbell of a user queue \
             is 8 bytes",
    proof: Proof::Sourced,
};

/// A doorbell carries the write pointer.
pub static DOORBELL_WPTR: Rule = Rule {
    name: "Q-DOORBELL-WPTR",
    text: "the write pointer in memory is written before the doorbell, and the doorbell carries it: dwords for PM4, \
           bytes for SDMA, the index of the last packet for AQL (with several producers, of any written packet)",
    source: "Linux, gfx_v11_0.c and sdma_v6_0.c, set_wptr; ROCR, amd_aql_queue.cpp, StoreRelaxed; hsa.h, \
             hsa_queue_t.doorbell_signal",
    proof: Proof::Sourced,
};

/// A write pointer only grows.
pub static WPTR_MONOTONE: Rule = Rule {
    name: "Q-WPTR-MONOTONE",
    text: "a write pointer does not wrap at the end of the ring and never decreases",
    source: "Linux, amdgpu_ring.c; gfx_v11_0.c: CP_HQD_PQ_WPTR has 64 bits",
    proof: Proof::Sourced,
};

/// A ring is not overrun.
pub static WPTR_RING: Rule = Rule {
    name: "Q-WPTR-RING",
    text: "the write pointer is at most the size of the ring ahead of the read pointer",
    source: "Linux, amdgpu_ring.c, amdgpu_ring_alloc; ROCR, amd_blit_sdma.cpp, AcquireWriteAddress",
    proof: Proof::Sourced,
};

/// SDMA's pointers are bytes of whole dwords.
pub static WPTR_UNIT: Rule = Rule {
    name: "SDMA-WPTR-UNIT",
    text: "the write pointer of an SDMA queue counts bytes, in steps of 4",
    source: "Linux, sdma_v6_0.c, set_wptr: wptr << 2",
    proof: Proof::Sourced,
};

/// What is published stays.
pub static RING_CHANGED: Rule = Rule {
    name: "Q-RING-CHANGED",
    text: "the ring between the read and the write pointer is not written: it may have been prefetched",
    source: "HSA Runtime Programmer's Reference Manual, 2.9; the prefetcher of CP",
    proof: Proof::Sourced,
};

/// A ring, as its consumer sees it. Counts are in the unit of the queue.
pub(crate) struct Ring {
    addr: u64,
    bytes: u64,
    /// Bytes of the unit of pointers.
    unit: u64,
    /// The next to take.
    rptr: u64,
    /// The end of what is published.
    limit: u64,
    /// The dwords in between, as they were when they were published.
    published: VecDeque<u32>,
    /// What the doorbell held last.
    bell: u64,
    /// Look at the write pointer without a doorbell: the queue has just been mapped.
    look: bool,
}

/// The write pointer that a doorbell carries.
fn rung_for(kind: QueueKind, bell: u64) -> u64 {
    match kind {
        QueueKind::Aql => bell.wrapping_add(1),
        QueueKind::Pm4 | QueueKind::Sdma { .. } => bell,
    }
}

/// A doorbell that has not been rung.
const NOT_RUNG: u64 = u64::MAX;

impl Ring {
    pub fn new(desc: &QueueDesc) -> Self {
        desc.doorbell.page.store64(desc.doorbell.offset, NOT_RUNG);
        let from = match desc.begin {
            Begin::Memory => 0,
            Begin::Registers(from) => from,
        };
        Self {
            addr: desc.ring,
            bytes: desc.ring_bytes,
            unit: match desc.kind {
                QueueKind::Pm4 => 4,
                QueueKind::Aql => aql::PACKET_BYTES,
                QueueKind::Sdma { .. } => 1,
            },
            rptr: from,
            limit: from,
            published: VecDeque::new(),
            bell: NOT_RUNG,
            look: desc.begin == Begin::Memory,
        }
    }

    /// Moves it: the kernel driver has unmapped the queue.
    pub fn set(&mut self, addr: u64, bytes: u64) {
        (self.addr, self.bytes) = (addr, bytes);
    }

    /// The queue has been mapped.
    pub fn mapped(&mut self) {
        self.look = true;
    }

    /// Whether everything published has been taken.
    pub fn is_empty(&self) -> bool {
        self.rptr == self.limit
    }

    /// Whether everything that was rung for has been taken. A queue that has just been mapped may have taken
    /// it before it was rung for: then the doorbell that nobody has looked at says nothing new.
    pub fn is_quiet(&self, desc: &QueueDesc) -> bool {
        let bell = desc.doorbell.page.load64(desc.doorbell.offset);
        let known = bell == self.bell || rung_for(desc.kind, bell) == self.limit;
        self.is_empty() && !self.look && known
    }

    /// Whether everything that was rung for has been published.
    pub fn is_looked_at(&self, desc: &QueueDesc) -> bool {
        !self.look && desc.doorbell.page.load64(desc.doorbell.offset) == self.bell
    }

    /// The count of what has been taken.
    pub fn rptr(&self) -> u64 {
        self.rptr
    }

    /// The count of what has been taken, and of what is published.
    pub fn pointers(&self) -> (u64, u64) {
        (self.rptr, self.limit)
    }

    /// Bytes from the start of the ring to the next to take.
    pub fn offset(&self) -> u64 {
        (self.rptr * self.unit) % self.bytes
    }

    /// Address of the next to take.
    pub fn at(&self) -> u64 {
        self.addr + self.offset()
    }

    /// Bytes of the ring.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Published dwords that have not been taken.
    pub fn dwords(&self) -> usize {
        ((self.limit - self.rptr) * self.unit / 4) as usize
    }

    /// Looks at the doorbell.
    pub fn poll(&mut self, cx: &mut Cx) -> Result<(), Stop> {
        let bell = cx.desc.doorbell.page.load64(cx.desc.doorbell.offset);
        if bell == self.bell && !self.look {
            return Ok(());
        }
        let who = format!("gpu {} queue {}: doorbell {bell:#x}", cx.core.index, cx.id);
        let waits = (std::mem::replace(&mut cx.who, who), cx.first);
        cx.first = true;
        self.rung(cx, bell)?;
        (cx.who, cx.first) = waits;
        Ok(())
    }

    fn rung(&mut self, cx: &Cx, bell: u64) -> Result<(), Stop> {
        let mut limit = self.limit;
        if bell != self.bell {
            self.bell = bell;
            cx.desc.vm.ring();
            let mut value = bell;
            if bell >> 32 == NOT_RUNG >> 32 {
                cx.note(
                    &DOORBELL_64,
                    format!("the doorbell, not rung before, holds {bell:#x}"),
                );
                value = bell & 0xffff_ffff;
            }
            let rung = rung_for(cx.desc.kind, value);
            let wptr = cx.wptr()?;
            if wptr < rung {
                cx.note(
                    &DOORBELL_WPTR,
                    format!("the doorbell says {rung}, the write pointer in memory {wptr}"),
                );
            }
            limit = match cx.desc.kind {
                QueueKind::Aql => self.written(cx, rung.max(limit), wptr)?,
                QueueKind::Pm4 | QueueKind::Sdma { .. } => rung,
            };
        }
        if self.look {
            self.look = false;
            limit = limit.max(cx.wptr()?);
        }
        self.publish(cx, limit)
    }

    /// How far packets are written from there on. Several producers ring in any order, and nobody sees here that the doorbell held
    /// more before: a packet whose header is there was rung for, or will be. One producer alone rings in order.
    fn written(&self, cx: &Cx, from: u64, wptr: u64) -> Result<u64, Stop> {
        let kind = cx.desc.rptr - (aql::queue::READ_DISPATCH_ID - aql::queue::TYPE) as u64;
        if wptr <= from || cx.words(kind, 1)? != [aql::queue::TYPE_MULTI] {
            return Ok(from);
        }
        let end = wptr.min(self.rptr + self.bytes / self.unit);
        for slot in from..end {
            let header = self.read(cx, slot * self.unit, 1)?;
            if aql::TYPE.get(header[0]) == aql::INVALID {
                return Ok(slot);
            }
        }
        Ok(end.max(from))
    }

    /// The write pointer, where it is not what the doorbell says.
    fn wptr_ahead(&self, cx: &Cx) -> Result<Option<u64>, Stop> {
        let wptr = cx.wptr()?;
        let bell = cx.desc.doorbell.page.load64(cx.desc.doorbell.offset);
        let ahead = wptr != self.limit && bell == self.bell && !self.look;
        Ok(ahead.then_some(wptr))
    }

    /// The queue is destroyed: the client is not between its two stores any more, so that a write pointer
    /// that is ahead of the doorbell was rung for with something else.
    pub fn end_of_queue(&self, cx: &Cx) {
        if self.bell != NOT_RUNG
            && self.is_empty()
            && let Ok(Some(wptr)) = self.wptr_ahead(cx)
        {
            let (id, limit) = (cx.id, self.limit);
            cx.note(
                &DOORBELL_WPTR,
                format!(
                    "queue {id}: to its end the doorbell has said {limit}, the write pointer in memory {wptr}"
                ),
            );
        }
    }

    fn publish(&mut self, cx: &Cx, limit: u64) -> Result<(), Stop> {
        if limit == self.limit {
            return Ok(());
        }
        if limit < self.limit {
            return Err(refuse(
                &WPTR_MONOTONE,
                format!("the write pointer went from {} to {limit}", self.limit),
            ));
        }
        let size = self.bytes / self.unit;
        if limit - self.rptr > size {
            return Err(refuse(
                &WPTR_RING,
                format!(
                    "the write pointer is {limit}, the read pointer {}, the ring holds {size}",
                    self.rptr
                ),
            ));
        }
        if !(limit * self.unit).is_multiple_of(4) {
            return Err(refuse(&WPTR_UNIT, format!("the write pointer is {limit}")));
        }
        let from = self.limit * self.unit;
        let words = self.read(cx, from, ((limit - self.limit) * self.unit / 4) as usize)?;
        self.published.extend(words);
        self.limit = limit;
        Ok(())
    }

    /// Dwords of the ring from a count of bytes on, around its end.
    fn read(&self, cx: &Cx, from: u64, dwords: usize) -> Result<Vec<u32>, Stop> {
        let start = from % self.bytes;
        let until_end = ((self.bytes - start) / 4) as usize;
        let mut words = cx.words(self.addr + start, dwords.min(until_end))?;
        if dwords > until_end {
            words.extend(cx.words(self.addr, dwords - until_end)?);
        }
        Ok(words)
    }

    /// The next dwords; none where not so many are published.
    pub fn peek(&self, cx: &Cx, dwords: usize) -> Result<Option<Vec<u32>>, Stop> {
        if dwords > self.dwords() {
            return Ok(None);
        }
        let words = self.read(cx, self.rptr * self.unit, dwords)?;
        for (i, (now, then)) in words.iter().zip(&self.published).enumerate() {
            if now != then && !self.free(i, *then) {
                return Err(refuse(
                    &RING_CHANGED,
                    format!(
                        "dword {i} of the packet at byte {:#x} of the ring was {then:#010x} when it \
                         was published and is {now:#010x} now",
                        self.offset()
                    ),
                ));
            }
        }
        Ok(Some(words))
    }

    /// Whether a dword belongs to an AQL packet that was still free when it was published.
    fn free(&self, dword: usize, _then: u32) -> bool {
        let slot = dword / 16 * 16;
        self.unit == aql::PACKET_BYTES
            && self
                .published
                .get(slot)
                .is_some_and(|header| aql::TYPE.get(*header) == aql::INVALID)
    }

    /// Takes dwords, and says so in memory.
    pub fn advance(&mut self, cx: &Cx, dwords: usize) -> Result<(), Stop> {
        self.published.drain(..dwords.min(self.published.len()));
        self.rptr += dwords as u64 * 4 / self.unit;
        match cx.desc.kind {
            // The kernel driver takes the read pointer of a PM4 queue for 32 bits.
            QueueKind::Pm4 => cx.write(cx.desc.rptr, &(self.rptr as u32).to_le_bytes()),
            QueueKind::Aql | QueueKind::Sdma { .. } => {
                cx.write(cx.desc.rptr, &self.rptr.to_le_bytes())
            }
        }
    }
}
