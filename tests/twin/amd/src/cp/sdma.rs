//! SDMA: fetches, checks and runs the packets of a copy queue.
//!
//! Copies and fills are done in order, but late: no earlier than the next packet that is ordered
//! behind them (FENCE, TRAP, TIMESTAMP, ATOMIC, POLL, GCR), or when the queue has nothing else to
//! do. A WRITE may overtake them.

use std::collections::VecDeque;

use drivers_spec::amd::packet::{Field, Gfx, Packet};
use drivers_spec::amd::sdma as packet;
use twin::rule::{Proof, Rule};

use super::copy::{Copy, Source};
use super::ring::Ring;
use super::{Cx, Step, Stop, atomic, cache, clock, compare, refuse, sign, text, wide};
use crate::gpu::Interrupt;

/// Only packets that the engine knows.
pub static OPCODE: Rule = Rule {
    name: "SDMA-OPCODE",
    text: "SDMA of this generation accepts the operation and sub-operation from a user queue",
    source: "drivers/spec/src/amd/sdma.rs; Linux, sdma_v6_0_0_pkt_open.h and its like",
    proof: Proof::Sourced,
};

/// Reserved bits are zero.
pub static RESERVED: Rule = Rule {
    name: "SDMA-RESERVED",
    text: "bits of a packet without a field on this engine are zero",
    source: "Linux, vega10_sdma_pkt_open.h, navi10_sdma_pkt_open.h, sdma_v6_0_0_pkt_open.h",
    proof: Proof::Sourced,
};

/// Counts fit the engine.
pub static COUNT: Rule = Rule {
    name: "SDMA-COUNT",
    text: "the count of a copy or fill is the number of bytes minus 1, and has at most 30 bits",
    source: "ROCR, amd_gpu_agent.cpp, Increase SDMA copy size: SDMA 4.4 and 5.2; Linux, sdma_v4_4_2.c and \
             sdma_v5_2.c, adjust SDMA limits",
    proof: Proof::Sourced,
};

/// A packet does not wrap.
pub static STRADDLES: Rule = Rule {
    name: "SDMA-STRADDLE",
    text: "a packet does not straddle the end of the ring: NOPs fill the rest",
    source: "ROCR, amd_blit_sdma.cpp, CanWriteUpto, PadRingToEnd",
    proof: Proof::Sourced,
};

/// Only whole packets are published.
pub static CROSSES_WPTR: Rule = Rule {
    name: "SDMA-CROSSES-WPTR",
    text: "the write pointer is at a packet boundary, and an indirect buffer ends at one",
    source: "ROCR, amd_blit_sdma.cpp, ReleaseWriteAddress; Linux, amdgpu_ring_commit",
    proof: Proof::Sourced,
};

/// FENCE reaches memory.
pub static FENCE_MTYPE: Rule = Rule {
    name: "SDMA-FENCE-MTYPE",
    text: "from SDMA 5 on, FENCE has MTYPE 3 (uncached), so that its write reaches memory",
    source: "Linux, sdma_v5_2.c, sdma_v6_0.c, sdma_v7_0.c: SDMA_PKT_FENCE_HEADER_MTYPE(0x3)",
    proof: Proof::Sourced,
};

/// A poll does not give up.
pub static POLL: Rule = Rule {
    name: "SDMA-POLL",
    text: "POLL_REGMEM has function 0 to 6, and polls memory without limit (RETRY_COUNT 0xfff) or flushes the HDP",
    source: "Linux, sdma_v6_0.c: RETRY_COUNT(0xfff); sdma_v6_0_0_pkt_open.h",
    proof: Proof::Sourced,
};

/// A copy does not read what it writes.
pub static OVERLAP: Rule = Rule {
    name: "SDMA-COPY-OVERLAP",
    text: "source and destination of a copy do not overlap: the engine reads ahead of its writes",
    source: "ROCR: hsa_memory_copy, overlapping is undefined; no vendor text for the packet is known",
    proof: Proof::Guess,
};

/// Where an INDIRECT packet ends.
pub static INDIRECT_END: Rule = Rule {
    name: "SDMA-INDIRECT-END",
    text: "an INDIRECT packet ends at a multiple of 8 dwords of the ring",
    source: "Linux, sdma_v4_4_2.c, sdma_v6_0.c, emit_ib: (2 - wptr) & 7",
    proof: Proof::Sourced,
};

/// What an INDIRECT packet says.
pub static INDIRECT: Rule = Rule {
    name: "SDMA-INDIRECT",
    text: "an indirect buffer has at least 1 dword, VMID 0, and contains no indirect buffer",
    source: "Linux, sdma_v6_0_0_pkt_open.h; a user queue has its own VMID",
    proof: Proof::Sourced,
};

/// What a fill says.
pub static FILL: Rule = Rule {
    name: "SDMA-FILL",
    text: "CONST_FILL fills bytes (size 0) or dwords (size 2, count a multiple of 4, address aligned to 4)",
    source: "Linux, sdma_v6_0.c, emit_fill_buffer; ROCR, amd_blit_sdma.cpp, BuildFillCommand",
    proof: Proof::Sourced,
};

/// What a box says.
pub static WINDOW: Rule = Rule {
    name: "SDMA-WINDOW",
    text: "COPY_LINEAR_SUB_WIND has elements of at most 16 bytes and a box within its pitches",
    source: "ROCR, amd_blit_sdma.cpp, BuildCopyRectCommand",
    proof: Proof::Sourced,
};

/// An indirect buffer that runs.
struct Ib {
    base: u64,
    dwords: usize,
    pos: usize,
}

/// A copy queue.
pub(crate) struct Sdma {
    ib: Option<Ib>,
    copies: VecDeque<Copy>,
    /// Dwords that COND_EXE skips.
    skip: usize,
    /// Whether the packet that waits for copies has not been tried.
    untried: bool,
    who: String,
    /// Before the last FENCE.
    fenced: u64,
}

impl Sdma {
    pub fn new(now: u64) -> Self {
        Self {
            ib: None,
            copies: VecDeque::new(),
            skip: 0,
            untried: false,
            who: String::new(),
            fenced: now,
        }
    }

    /// Whether all copies are done.
    pub fn is_idle(&self) -> bool {
        self.copies.is_empty() && self.ib.is_none()
    }

    /// Moves a piece of a copy; whether there was one.
    pub fn work(&mut self, cx: &Cx) -> Result<bool, Stop> {
        let Some(copy) = self.copies.front_mut() else {
            return Ok(false);
        };
        cx.core.clock.pass(clock::PACKET);
        if copy.step(cx)? {
            self.copies.pop_front();
        }
        Ok(true)
    }

    /// Runs one packet.
    pub fn step(&mut self, cx: &mut Cx, ring: &mut Ring) -> Result<Step, Stop> {
        if self.ib.as_ref().is_some_and(|ib| ib.pos == ib.dwords) {
            self.ib = None;
        }
        let left = self.left(ring);
        if left == 0 {
            return Ok(Step::Empty);
        }
        let skip = std::mem::take(&mut self.skip);
        if skip > 0 {
            if skip > left {
                return Err(refuse(
                    &CROSSES_WPTR,
                    format!("COND_EXE skips {skip} of {left}"),
                ));
            }
            self.advance(cx, ring, skip)?;
            return Ok(Step::Next);
        }
        if cx.first {
            self.who = match &self.ib {
                Some(ib) => format!(
                    "gpu {} queue {} byte {} IB {:#x} dword {}",
                    cx.core.index,
                    cx.id,
                    ring.rptr(),
                    ib.base,
                    ib.pos
                ),
                None => format!("gpu {} queue {} byte {}", cx.core.index, cx.id, ring.rptr()),
            };
        }
        cx.who.clone_from(&self.who);
        let header = self.peek(cx, ring, 1)?[0];
        if header == 0 {
            self.advance(cx, ring, 1)?;
            return Ok(Step::Next);
        }
        let gfx = cx.gfx();
        let Some(found) = packet::find(gfx, header) else {
            return Err(refuse(
                &OPCODE,
                format!("the first dword is {header:#010x}"),
            ));
        };
        let words = self.fetch(cx, ring, found, header)?;
        if cx.first {
            self.who = format!("{}: {}", self.who, text::sdma(gfx, found, &words));
            cx.who.clone_from(&self.who);
            for (word, value) in found.words(gfx).zip(&words) {
                let reserved = value & !word.mask(gfx);
                if reserved != 0 {
                    let count = word == &packet::COPY_COUNT || word == &packet::FILL_COUNT;
                    cx.note(
                        if count { &COUNT } else { &RESERVED },
                        format!(
                            "{} {} = {value:#x}: bits {reserved:#x}",
                            found.name, word.name
                        ),
                    );
                }
            }
        }
        cx.announce();
        if Self::waits_for_copies(found.op) && self.work(cx)? {
            self.untried |= cx.first;
            return Ok(Step::More);
        }
        // What waited for copies is looked at now.
        cx.first |= std::mem::take(&mut self.untried);
        if found.op == packet::INDIRECT {
            let ib = self.indirect(cx, ring, &words)?;
            self.advance(cx, ring, words.len())?;
            self.ib = Some(ib);
            return Ok(Step::Next);
        }
        if let Some(why) = self.execute(cx, found.op, &words)? {
            return Ok(Step::Wait(why));
        }
        self.advance(cx, ring, words.len())?;
        Ok(Step::Next)
    }

    /// Dwords until the write pointer or the end of the indirect buffer.
    fn left(&self, ring: &Ring) -> usize {
        match &self.ib {
            Some(ib) => ib.dwords - ib.pos,
            None => ring.dwords(),
        }
    }

    fn peek(&self, cx: &Cx, ring: &Ring, count: usize) -> Result<Vec<u32>, Stop> {
        let crosses = || {
            let left = self.left(ring);
            refuse(
                &CROSSES_WPTR,
                format!("a packet of {count} dwords, {left} are there"),
            )
        };
        match &self.ib {
            Some(ib) if ib.dwords - ib.pos < count => Err(crosses()),
            Some(ib) => cx.words(ib.base + ib.pos as u64 * 4, count),
            None => ring.peek(cx, count)?.ok_or_else(crosses),
        }
    }

    /// The whole packet.
    fn fetch(&self, cx: &Cx, ring: &Ring, found: &Packet, header: u32) -> Result<Vec<u32>, Stop> {
        let fixed = found.fixed(cx.gfx());
        let count = match found.op {
            packet::NOP => 1 + packet::NOP_COUNT.get(header) as usize,
            packet::COPY_LINEAR => {
                let second = 2 * packet::COPY_BROADCAST.get(header) as usize;
                let policy = cx.gfx() == Gfx::Gfx12 && packet::COPY_CPV.get(header) == 1;
                fixed + second + usize::from(policy)
            }
            packet::WRITE => {
                let words = self.peek(cx, ring, fixed)?;
                fixed + packet::WRITE_COUNT.get(words[3]) as usize + 1
            }
            _ => fixed,
        };
        if self.ib.is_none() && ring.offset() + count as u64 * 4 > ring.bytes() {
            return Err(refuse(
                &STRADDLES,
                format!(
                    "{} of {count} dwords at byte {:#x}",
                    found.name,
                    ring.offset()
                ),
            ));
        }
        self.peek(cx, ring, count)
    }

    fn advance(&mut self, cx: &Cx, ring: &mut Ring, dwords: usize) -> Result<(), Stop> {
        match &mut self.ib {
            Some(ib) => ib.pos += dwords,
            None => ring.advance(cx, dwords)?,
        }
        Ok(())
    }

    /// Whether a packet is ordered behind the copies before it. WRITE is: tinygrad tells a bridge by one that a copy is
    /// through, on cards (runtime/ops_amd.py, _copyout over USB).
    fn waits_for_copies(op: u16) -> bool {
        !matches!(
            op,
            packet::NOP
                | packet::COPY_LINEAR
                | packet::COPY_LINEAR_SUB_WIND
                | packet::CONST_FILL
                | packet::INDIRECT
        )
    }

    fn indirect(&self, cx: &Cx, ring: &Ring, words: &[u32]) -> Result<Ib, Stop> {
        let dwords = packet::IB_SIZE.get(words[3]) as usize;
        let privileged = packet::INDIRECT_PRIV.on.has(cx.gfx()) && words[0] >> 31 == 1;
        let vmid = packet::INDIRECT_VMID.get(words[0]);
        if self.ib.is_some() || dwords == 0 || vmid != 0 || privileged {
            return Err(refuse(&INDIRECT, format!("{words:x?}")));
        }
        let end = ring.rptr() / 4 + words.len() as u64;
        if !end.is_multiple_of(packet::INDIRECT_END) {
            return Err(refuse(&INDIRECT_END, format!("it ends at dword {end}")));
        }
        Ok(Ib {
            base: wide(words[1], words[2]),
            dwords,
            pos: 0,
        })
    }

    /// Runs a packet; says what it waits for.
    fn execute(&mut self, cx: &mut Cx, op: u16, words: &[u32]) -> Result<Option<String>, Stop> {
        let va = wide(
            words.get(1).copied().unwrap_or(0),
            words.get(2).copied().unwrap_or(0),
        );
        match op {
            packet::COPY_LINEAR => self.copy_linear(cx, words),
            packet::COPY_LINEAR_SUB_WIND => self.copy_window(cx, words)?,
            packet::CONST_FILL => self.fill(cx, words)?,
            packet::WRITE => {
                for (i, value) in words[4..].iter().enumerate() {
                    cx.write(va + i as u64 * 4, &value.to_le_bytes())?;
                }
            }
            packet::FENCE => {
                let mtype = packet::FENCE_MTYPE.get(words[0]);
                if cx.gfx() != Gfx::Gfx9 && mtype != packet::MTYPE_UC {
                    cx.note(&FENCE_MTYPE, format!("MTYPE is {mtype}"));
                }
                self.fenced = cx.core.clock.now();
                cx.write(va, &words[3].to_le_bytes())?;
            }
            packet::TRAP => cx.out.push(Interrupt::SdmaTrap {
                since: self.fenced,
                process: cx.desc.process,
                context: packet::INT_CONTEXT.get(words[1]),
            }),
            packet::POLL_REGMEM => return poll(cx, words, va),
            packet::COND_EXE => {
                let run = cx.read32(va)? == words[3];
                let dwords = packet::EXEC_COUNT.get(words[4]) as usize;
                self.skip = if run { 0 } else { dwords };
            }
            packet::ATOMIC => return run_atomic(cx, words, va),
            packet::TIMESTAMP_GET | packet::TIMESTAMP_GET_GLOBAL => {
                cx.write(va, &cx.core.clock.now().to_le_bytes())?;
            }
            packet::GCR_REQ | packet::GCR_USER => {
                let control = packet::GCR_CONTROL_15_0.get(words[2])
                    | packet::GCR_CONTROL_18_16.get(words[3]) << 16;
                cx.caches(cache::gcr(cx, control), u32::MAX);
            }
            _ => {}
        }
        Ok(None)
    }

    fn copy_linear(&mut self, cx: &Cx, words: &[u32]) {
        let bytes = u64::from(packet::COUNT.get(words[1])) + 1;
        let src = wide(words[3], words[4]);
        let mut to = vec![wide(words[5], words[6])];
        if packet::COPY_BROADCAST.get(words[0]) == 1 {
            to.push(wide(words[7], words[8]));
        }
        for dst in to {
            if src < dst + bytes && dst < src + bytes {
                cx.note(
                    &OVERLAP,
                    format!("{bytes:#x} bytes from {src:#x} to {dst:#x}"),
                );
            }
            self.copies
                .push_back(Copy::linear(&cx.who, Source::Memory(src), dst, bytes));
        }
    }

    fn copy_window(&mut self, cx: &Cx, words: &[u32]) -> Result<(), Stop> {
        let element = packet::ELEMENT_SIZE.get(words[0]);
        let fields = packet::window(cx.gfx());
        let get = |field: Field, at: usize| u64::from(field.get(words[at]));
        let [x, y, z] = fields.start;
        let side = |at: usize| {
            let pitch = get(fields.pitch, at + 3) + 1;
            let slice = get(fields.slice, at + 4) + 1;
            let first = get(x, at + 2) + get(y, at + 2) * pitch + get(z, at + 3) * slice;
            let base = wide(words[at], words[at + 1]) + (first << element);
            (base, [pitch << element, slice << element])
        };
        let (src, src_pitch) = side(1);
        let (dst, dst_pitch) = side(6);
        let [x, y, z] = fields.size;
        let row = (get(x, 11) + 1) << element;
        let rows = [get(y, 11) + 1, get(z, 12) + 1];
        if element > 4 || row > src_pitch[0] || row > dst_pitch[0] {
            return Err(refuse(&WINDOW, format!("{words:x?}")));
        }
        self.copies.push_back(Copy::rows(
            &cx.who,
            Source::Memory(src),
            dst,
            row,
            rows,
            src_pitch,
            dst_pitch,
        ));
        Ok(())
    }

    fn fill(&mut self, cx: &Cx, words: &[u32]) -> Result<(), Stop> {
        let dst = wide(words[1], words[2]);
        let less = u64::from(packet::FILL_BYTES.get(words[4]));
        let word = words[3].to_le_bytes();
        let (pattern, bytes) = match packet::FILL_SIZE.get(words[0]) {
            0 => ([word[0]; 4], less + 1),
            2 if dst.is_multiple_of(4) && less.is_multiple_of(4) => (word, less + 4),
            _ => return Err(refuse(&FILL, format!("{words:x?}"))),
        };
        self.copies
            .push_back(Copy::linear(&cx.who, Source::Fill(pattern), dst, bytes));
        Ok(())
    }
}

fn poll(cx: &Cx, words: &[u32], va: u64) -> Result<Option<String>, Stop> {
    let header = words[0];
    if packet::HDP_FLUSH.get(header) == 1 || words == packet::HDP_FLUSH_PACKET {
        cx.desc.vm.hdp_flush(&cx.who);
        return Ok(None);
    }
    let function = packet::FUNC.get(header);
    let retries = packet::RETRY_COUNT.get(words[5]);
    if packet::MEM_POLL.get(header) == 0 || retries != packet::RETRY_COUNT.get(u32::MAX) {
        return Err(refuse(
            &POLL,
            format!("header {header:#x}, {retries:#x} retries"),
        ));
    }
    let (value, mask, reference) = (cx.look32(va)?, words[4], words[3]);
    match compare(function, u64::from(value & mask), u64::from(reference)) {
        Some(true) => cx.read32(va).map(|_| None),
        Some(false) => Ok(Some(format!(
            "[{va:#x}] is {value:#x}, waits for (it & {mask:#x}) {} {reference:#x}",
            sign(function)
        ))),
        None => Err(refuse(&POLL, format!("header {header:#x}"))),
    }
}

fn run_atomic(cx: &Cx, words: &[u32], va: u64) -> Result<Option<String>, Stop> {
    let (src, cmp) = (wide(words[3], words[4]), wide(words[5], words[6]));
    let old = atomic::run(cx, packet::ATOMIC_OP.get(words[0]), va, src, cmp)?;
    if packet::ATOMIC_LOOP.get(words[0]) == 1 && old != cmp {
        return Ok(Some(format!("[{va:#x}] is {old:#x}, waits for {cmp:#x}")));
    }
    Ok(None)
}
