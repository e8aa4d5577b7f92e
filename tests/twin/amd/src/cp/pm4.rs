//! PM4: fetches packets from a ring and from indirect buffers, and checks their form.

use std::sync::Arc;

use drivers_spec::amd::packet::Rest;
use drivers_spec::amd::pm4;
use twin::rule::{Proof, Rule};

use super::regs::Registers;
use super::ring::Ring;
use super::work::Pending;
use super::xcc::Place;
use super::{Cx, Step, Stop, refuse, text};

/// Only packets of type 3.
pub static TYPE: Rule = Rule {
    name: "PM4-TYPE",
    text: "every packet of a compute queue has type 3",
    source: "Linux, soc15d.h, nvd.h: PACKET_TYPE3; MEC knows no other",
    proof: Proof::Sourced,
};

/// Only packets that MEC knows.
pub static OPCODE: Rule = Rule {
    name: "PM4-OPCODE",
    text: "MEC accepts the opcode from a user queue",
    source: "drivers/spec/src/amd/pm4.rs; Linux, soc15d.h, nvd.h",
    proof: Proof::Sourced,
};

/// Only packets of the generation.
pub static GENERATION: Rule = Rule {
    name: "PM4-GENERATION",
    text: "the packet exists on this generation",
    source: "drivers/spec/src/amd/pm4.rs; Linux, soc15d.h, nvd.h",
    proof: Proof::Sourced,
};

/// A packet has its length.
pub static LENGTH: Rule = Rule {
    name: "PM4-LENGTH",
    text: "the count in the header matches the length of the packet on this generation",
    source: "drivers/spec/src/amd/pm4.rs; Linux, soc15d.h, nvd.h",
    proof: Proof::Sourced,
};

/// Reserved bits are zero.
pub static RESERVED: Rule = Rule {
    name: "PM4-RESERVED",
    text: "bits of a packet without a field on this generation are zero",
    source: "drivers/spec/src/amd/pm4.rs; Linux, soc15d.h, nvd.h, kfd_pm4_headers_ai.h",
    proof: Proof::Sourced,
};

/// Only whole packets are published.
pub static CROSSES_WPTR: Rule = Rule {
    name: "PM4-CROSSES-WPTR",
    text: "the write pointer is at a packet boundary",
    source: "Linux, amdgpu_ring.c, amdgpu_ring_commit: the write pointer moves after the packets",
    proof: Proof::Sourced,
};

/// Only whole packets are in an indirect buffer.
pub static CROSSES_IB: Rule = Rule {
    name: "PM4-CROSSES-IB",
    text: "an indirect buffer ends at a packet boundary",
    source: "Linux, nvd.h, INDIRECT_BUFFER: the size is that of the packets",
    proof: Proof::Sourced,
};

/// Indirect buffers are described right.
pub static IB_CONTROL: Rule = Rule {
    name: "PM4-IB-VALID",
    text: "an indirect buffer has VALID set, a size of 1 dword or more, and VMID and PRIV zero",
    source: "Linux, nvd.h, soc15d.h, INDIRECT_BUFFER; a user queue has its own VMID",
    proof: Proof::Sourced,
};

/// Indirect buffers do not nest on MEC.
pub static IB_NESTED: Rule = Rule {
    name: "PM4-IB-NESTED",
    text: "an indirect buffer contains no indirect buffer except a chained one: MEC has one level",
    source: "Mesa, radv_amdgpu_cs.c: compute queues only chain; no vendor text is known",
    proof: Proof::Guess,
};

/// Only an indirect buffer can be chained.
pub static IB_CHAIN: Rule = Rule {
    name: "PM4-IB-CHAIN",
    text: "CHAIN is set only within an indirect buffer, and replaces the rest of it",
    source: "Mesa, radv_amdgpu_cs.c; Linux, nvd.h",
    proof: Proof::Sourced,
};

/// Skipped dwords are whole packets.
pub static PRED_CROSSES: Rule = Rule {
    name: "PM4-PRED-CROSSES",
    text: "the dwords that PRED_EXEC or COND_EXEC counts are whole packets of the same buffer",
    source: "Linux, soc15d.h, PRED_EXEC, COND_EXEC: the count is skipped as it is",
    proof: Proof::Sourced,
};

/// Packets after PRED_EXEC or COND_EXEC that only some XCCs run.
#[derive(Clone, Copy)]
pub(crate) struct Pred {
    /// The XCCs of this queue.
    pub mask: u32,
    /// The XCCs that the packet names, where it names some.
    pub named: Option<u32>,
    /// Dwords left.
    pub left: usize,
}

/// An indirect buffer that runs.
pub(crate) struct Ib {
    base: u64,
    dwords: usize,
    pos: usize,
    /// The XCCs that run it.
    mask: u32,
    pred: Option<Pred>,
}

/// What a packet asks of the fetcher.
pub(crate) enum Do {
    Next,
    Wait(String),
    Busy,
    Enter(Ib),
    Chain(Ib),
    /// Only these XCCs run the dwords that follow.
    Predicate(Pred),
}

/// A queue that runs PM4.
pub(crate) struct Pm4 {
    pub registers: Registers,
    pub pending: Pending,
    /// What the last ATOMIC_MEM returned.
    pub atomic: u64,
    /// The XCCs: one bit each.
    pub xccs: u32,
    /// The other XCCs, where each has a queue of its own on the same ring.
    pub place: Option<Arc<Place>>,
    ibs: Vec<Ib>,
    ring_pred: Option<Pred>,
    /// The packet that waits, with its place.
    who: String,
}

impl Pm4 {
    /// A queue whose packets run on so many XCCs at once.
    pub fn new(xccs: u32, place: Option<Place>) -> Self {
        let place = place.map(Arc::new);
        Self {
            registers: Registers::new(xccs),
            pending: Pending::new(place.clone()),
            place,
            atomic: 0,
            xccs: u32::MAX >> (32 - xccs.clamp(1, 32)),
            ibs: Vec::new(),
            ring_pred: None,
            who: String::new(),
        }
    }

    /// Whether it is inside of an indirect buffer.
    pub fn in_ib(&self) -> bool {
        !self.ibs.is_empty()
    }

    /// Runs one packet. Without a ring, [`Step::Empty`] says that the indirect buffers are done.
    pub fn step(&mut self, cx: &mut Cx, mut ring: Option<&mut Ring>) -> Result<Step, Stop> {
        while self.ibs.pop_if(|ib| ib.pos == ib.dwords).is_some() {}
        if self.left(ring.as_deref()) == 0 {
            return Ok(Step::Empty);
        }
        if cx.first {
            self.who = self.place(cx, ring.as_deref());
        }
        cx.who.clone_from(&self.who);
        let words = self.fetch(cx, ring.as_deref())?;
        let (header, body) = (words[0], &words[1..]);
        self.check(cx, header, body)?;
        cx.announce();

        let opcode = pm4::OPCODE.get(header) as u8;
        let pred = *self.pred();
        let mask = match (self.ibs.last(), pred) {
            (Some(ib), None) => ib.mask,
            (Some(ib), Some(pred)) => ib.mask & pred.mask,
            (None, None) => self.xccs,
            (None, Some(pred)) => self.xccs & pred.mask,
        };
        let action = if mask == 0 {
            self.skip(opcode);
            Do::Next
        } else {
            self.execute(cx, opcode, body, mask)?
        };
        match action {
            Do::Wait(why) => return Ok(Step::Wait(why)),
            Do::Busy => return Ok(Step::Busy),
            Do::Next => self.advance(cx, ring, words.len())?,
            Do::Predicate(new) => {
                self.advance(cx, ring.as_deref_mut(), words.len())?;
                *self.pred() = (new.left > 0).then_some(new);
            }
            Do::Enter(ib) => {
                self.advance(cx, ring, words.len())?;
                self.ibs.push(ib);
            }
            Do::Chain(ib) => {
                self.ibs.pop();
                self.ibs.push(ib);
            }
        }
        Ok(Step::Next)
    }

    /// Starts an indirect buffer, as the dwords of the packet after its header describe it.
    pub fn enter(&mut self, cx: &Cx, body: &[u32], mask: u32) -> Result<(), Stop> {
        let (ib, _) = self.ib(cx, body, mask)?;
        self.ibs.push(ib);
        Ok(())
    }

    /// The indirect buffer of a packet, and whether it is chained.
    pub fn ib(&self, cx: &Cx, body: &[u32], mask: u32) -> Result<(Ib, bool), Stop> {
        let [low, high, control] = body[..3] else {
            return Err(refuse(&LENGTH, "INDIRECT_BUFFER"));
        };
        let dwords = pm4::ib::IB_SIZE.get(control) as usize;
        let privileged = pm4::ib::PRIV.on.has(cx.gfx()) && pm4::ib::PRIV.get(control) != 0;
        if pm4::ib::VALID.get(control) == 0
            || dwords == 0
            || pm4::ib::VMID.get(control) != 0
            || privileged
        {
            return Err(refuse(
                &IB_CONTROL,
                format!("the control dword is {control:#x}"),
            ));
        }
        let ib = Ib {
            base: super::wide(low, high),
            dwords,
            pos: 0,
            mask,
            pred: None,
        };
        Ok((ib, pm4::ib::CHAIN.get(control) == 1))
    }

    /// A packet is not for this XCC.
    fn skip(&self, opcode: u8) {
        if let Some(place) = &self.place
            && matches!(opcode, pm4::DISPATCH_DIRECT | pm4::DISPATCH_INDIRECT)
        {
            place.group.issue(place.xcc, false);
        }
    }

    /// What the packet that is looked at is predicated to.
    pub fn named(&mut self) -> Option<u32> {
        self.pred().and_then(|pred| pred.named)
    }

    fn pred(&mut self) -> &mut Option<Pred> {
        match self.ibs.last_mut() {
            Some(ib) => &mut ib.pred,
            None => &mut self.ring_pred,
        }
    }

    /// Dwords until the end of the buffer, or until the write pointer.
    fn left(&self, ring: Option<&Ring>) -> usize {
        match self.ibs.last() {
            Some(ib) => ib.dwords - ib.pos,
            None => ring.map_or(0, Ring::dwords),
        }
    }

    /// Where the next packet is.
    fn place(&self, cx: &Cx, ring: Option<&Ring>) -> String {
        let mut place = format!("gpu {} queue {}", cx.core.index, cx.id);
        if let Some(ring) = ring {
            place += &format!(" dword {}", ring.rptr());
        }
        if let Some(ib) = self.ibs.last() {
            place += &format!(" IB {:#x} dword {}", ib.base, ib.pos);
        }
        place
    }

    fn peek(&self, cx: &Cx, ring: Option<&Ring>, count: usize) -> Result<Option<Vec<u32>>, Stop> {
        match (self.ibs.last(), ring) {
            (Some(ib), _) if ib.dwords - ib.pos < count => Ok(None),
            (Some(ib), _) => cx.words(ib.base + ib.pos as u64 * 4, count).map(Some),
            (None, Some(ring)) => ring.peek(cx, count),
            (None, None) => Ok(None),
        }
    }

    /// The next packet, whole.
    fn fetch(&self, cx: &Cx, ring: Option<&Ring>) -> Result<Vec<u32>, Stop> {
        let Some(&header) = self.peek(cx, ring, 1)?.as_deref().and_then(<[u32]>::first) else {
            return Err(refuse(&CROSSES_WPTR, "no dword is left"));
        };
        if pm4::TYPE.get(header) != 3 {
            return Err(refuse(&TYPE, format!("the header is {header:#010x}")));
        }
        let body = if header == pm4::NOP_PAD {
            0
        } else {
            pm4::COUNT.get(header) as usize + 1
        };
        self.peek(cx, ring, 1 + body)?.ok_or_else(|| {
            let rule = if self.in_ib() {
                &CROSSES_IB
            } else {
                &CROSSES_WPTR
            };
            let left = self.left(ring);
            refuse(
                rule,
                format!(
                    "header {header:#010x}: {} dwords, {left} are there",
                    1 + body
                ),
            )
        })
    }

    /// Checks a packet against its description; the place gets its text.
    fn check(&mut self, cx: &mut Cx, header: u32, body: &[u32]) -> Result<(), Stop> {
        let gfx = cx.gfx();
        let op = pm4::OPCODE.get(header) as u8;
        let Some(packet) = pm4::find(gfx, op) else {
            let known = pm4::PACKETS
                .iter()
                .find(|packet| packet.op == u16::from(op));
            return Err(match known {
                Some(packet) => refuse(&GENERATION, format!("{} on {gfx:?}", packet.name)),
                None => refuse(&OPCODE, format!("opcode {op:#04x}, header {header:#010x}")),
            });
        };
        if cx.first {
            self.who = format!("{}: {}", self.who, text::pm4(gfx, packet, body));
            cx.who.clone_from(&self.who);
        }
        let fixed = packet.fixed(gfx);
        let fits = match packet.rest {
            Rest::None => body.len() == fixed,
            Rest::Data(least) => body.len() >= fixed + least,
        };
        if !fits {
            return Err(refuse(
                &LENGTH,
                format!("{} has {} dwords after its header", packet.name, body.len()),
            ));
        }
        let known =
            pm4::TYPE.mask() | pm4::COUNT.mask() | pm4::OPCODE.mask() | pm4::SHADER_TYPE.mask();
        if header & !known != 0 {
            cx.note(&RESERVED, format!("header {header:#010x}"));
        }
        for (word, value) in packet.words(gfx).zip(body) {
            let reserved = value & !word.mask(gfx);
            if reserved != 0 {
                cx.note(
                    &RESERVED,
                    format!(
                        "{} {} = {value:#x}: bits {reserved:#x}",
                        packet.name, word.name
                    ),
                );
            }
        }
        let left = self.pred().map(|pred| pred.left);
        if left.is_some_and(|left| left < body.len() + 1) {
            return Err(refuse(
                &PRED_CROSSES,
                format!(
                    "{} is {} dwords, {left:?} are left",
                    packet.name,
                    body.len() + 1
                ),
            ));
        }
        Ok(())
    }

    fn advance(&mut self, cx: &Cx, ring: Option<&mut Ring>, dwords: usize) -> Result<(), Stop> {
        let pred = self.pred();
        *pred = pred
            .map(|pred| Pred {
                left: pred.left - dwords.min(pred.left),
                ..pred
            })
            .filter(|pred| pred.left > 0);
        match (self.ibs.last_mut(), ring) {
            (Some(ib), _) => ib.pos += dwords,
            (None, Some(ring)) => ring.advance(cx, dwords)?,
            (None, None) => {}
        }
        Ok(())
    }
}
