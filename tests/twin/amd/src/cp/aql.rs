//! AQL: the packet processor of a queue in the architected language.

use drivers_spec::amd::aql::{self as packet, barrier, barrier_value, dispatch, inactive};
use drivers_spec::amd::{aql, pm4};
use twin::rule::{Proof, Rule};

use super::object::{self, Ready};
use super::pm4::Pm4;
use super::ring::Ring;
use super::work::{End, Work};
use super::{Cx, Step, Stop, cache, exception, inactive as queue_inactive, wide};

/// Types that a GPU takes.
pub static TYPE: Rule = Rule {
    name: "AQL-TYPE",
    text: "a packet is a kernel dispatch, a barrier, or AMD's packet with PM4; GPUs do not run agent dispatches",
    source: "HSA Runtime Programmer's Reference Manual, 2.9; ROCR, amd_aql_queue.cpp, ExecutePM4",
    proof: Proof::Sourced,
};

/// Reserved bits are zero.
pub static RESERVED: Rule = Rule {
    name: "AQL-RESERVED",
    text: "reserved bits and words of a packet are zero",
    source: "HSA Runtime Programmer's Reference Manual, 2.9.5 to 2.9.9",
    proof: Proof::Sourced,
};

/// PM4 in AQL.
pub static PM4_IB: Rule = Rule {
    name: "AQL-PM4-IB",
    text: "a vendor packet has format 1, an INDIRECT_BUFFER packet in dwords 1 to 4, 10 in dword 5 and \
           zero in dwords 6 to 13; or format 2, a condition of 0 to 3, and a value to wait for",
    source: "ROCR, amd_aql_queue.cpp, ExecutePM4, struct amd_aql_pm4_ib; inc/hsa_ext_amd.h, \
             hsa_amd_barrier_value_packet_t",
    proof: Proof::Sourced,
};

/// The header is written last.
pub static HEADER_LAST: Rule = Rule {
    name: "AQL-HEADER-LAST",
    text: "a packet before the doorbell's index has a header before the queue is destroyed: the header is written after \
           the body and before the doorbell",
    source: "HSA Runtime Programmer's Reference Manual, 2.9.2; the time is ours",
    proof: Proof::Guess,
};

/// Signals are signals.
pub static SIGNAL: Rule = Rule {
    name: "AQL-SIGNAL",
    text: "a signal handle is the address of an amd_signal_t, aligned to 64 bytes, of the user's kind",
    source: "ROCR, inc/amd_hsa_signal.h",
    proof: Proof::Sourced,
};

/// The queue structure is where CP looks for it.
pub static QUEUE: Rule = Rule {
    name: "AQL-QUEUE",
    text: "the read pointer is in an amd_queue_t whose read_dispatch_id_field_base_byte_offset is 128",
    source: "ROCR, inc/amd_hsa_queue.h",
    proof: Proof::Sourced,
};

/// The form of a packet that CP cannot take.
fn refuse(rule: &'static Rule, what: impl Into<String>) -> Stop {
    Stop::Rule {
        rule,
        what: what.into(),
        code: exception::PACKET_VENDOR_UNSUPPORTED,
    }
}

/// An AQL queue. PM4 in it runs on every XCC at once.
pub(crate) struct Aql {
    pub pm4: Pm4,
    /// The completion signal of the indirect buffer that runs, and what its release fence does.
    running: Option<End>,
    /// Whether the acquire fence of the packet at the head has been done.
    acquired: bool,
    who: String,
    /// Whether the packet at the head has no header.
    headless: bool,
    /// What the runtime has been asked for: the signal that it sets to 0.
    asked: Option<u64>,
    /// The packet before had scratch for itself alone, which the runtime shall take back.
    once: bool,
}

/// A packet.
pub(crate) struct Slot {
    pub words: [u32; 16],
    /// Where it is.
    pub va: u64,
    /// Its number.
    pub id: u64,
}

impl Slot {
    pub fn u16(&self, at: usize) -> u32 {
        self.words[at / 4] >> (at % 4 * 8) & 0xffff
    }

    pub fn u32(&self, at: usize) -> u32 {
        self.words[at / 4]
    }

    pub fn u64(&self, at: usize) -> u64 {
        wide(self.words[at / 4], self.words[at / 4 + 1])
    }
}

impl Aql {
    pub fn new(xccs: u32) -> Self {
        Self {
            pm4: Pm4::new(xccs, None),
            running: None,
            acquired: false,
            who: String::new(),
            headless: false,
            asked: None,
            once: false,
        }
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.running.is_none() && self.pm4.pending.is_empty() && self.asked.is_none() && !self.once
    }

    /// Starts the grids of a dispatch, or asks for the memory that they need.
    fn dispatch(
        &mut self,
        cx: &mut Cx,
        ring: &mut Ring,
        slot: &Slot,
        end: End,
    ) -> Result<Step, Stop> {
        self.acquire(cx, slot.words[0]);
        let launches = match object::launches(cx, slot)? {
            Ready::Runs(launches) => launches,
            Ready::Asks(value) => return self.ask(cx, value),
        };
        self.once = launches.iter().any(|(_, launch)| launch.scratch_wave > 0)
            && properties(cx)?.contains(aql::QueueProperties::USE_SCRATCH_ONCE);
        self.take(cx, ring, slot)?;
        let (who, end) = (cx.who.clone(), Some(end));
        self.pm4.pending.push(
            cx,
            Work::Run {
                who,
                launches,
                number: 0,
                end,
            },
        )?;
        Ok(Step::Next)
    }

    /// Runs one packet, or one PM4 packet of an indirect buffer.
    pub fn step(&mut self, cx: &mut Cx, ring: &mut Ring) -> Result<Step, Stop> {
        if let Some(end) = &self.running {
            let step = self.pm4.step(cx, None)?;
            if !matches!(step, Step::Empty) {
                return Ok(step);
            }
            let end = end.clone();
            self.running = None;
            self.pm4.pending.push(cx, Work::End(end))?;
            return Ok(Step::Next);
        }
        if let Some(signal) = self.asked {
            let value = cx.read64(signal + aql::signal::VALUE as u64)?;
            if value != 0 {
                return Ok(Step::Wait(format!(
                    "queue_inactive_signal {signal:#x} is {value:#x}"
                )));
            }
            self.asked = None;
            cx.first |= std::mem::take(&mut self.once);
        } else if self.once {
            return self.ask(cx, inactive::SCRATCH_ONCE);
        }
        let Some(words) = ring.peek(cx, 16)? else {
            return Ok(Step::Empty);
        };
        let Ok(words) = words.try_into() else {
            return Ok(Step::Empty);
        };
        let slot = Slot {
            words,
            va: ring.at(),
            id: ring.rptr(),
        };
        let header = slot.words[0];
        let kind = packet::TYPE.get(header);
        if kind == packet::INVALID {
            cx.who = format!("gpu {} queue {} packet {}", cx.core.index, cx.id, slot.id);
            cx.read32(slot.va)?;
            self.headless = true;
            return Ok(Step::Wait("the header is INVALID".into()));
        }
        cx.first |= std::mem::take(&mut self.headless);
        if cx.first {
            self.who = format!(
                "gpu {} queue {} packet {}: {}",
                cx.core.index,
                cx.id,
                slot.id,
                text(&slot)
            );
            self.acquired = false;
        }
        cx.who.clone_from(&self.who);
        cx.announce();
        // A barrier starts when everything before is complete.
        if packet::BARRIER.get(header) == 1 && !self.pm4.pending.flush(cx)? {
            return Ok(Step::Busy);
        }
        let mut end = self.end(cx, header, slot.u64(dispatch::COMPLETION_SIGNAL))?;
        let value = packet::FORMAT.get(header) == packet::AMD_AQL_FORMAT_BARRIER_VALUE;
        match kind {
            packet::BARRIER_AND | packet::BARRIER_OR => {
                if let Some(why) = barrier_waits(cx, &slot, kind)? {
                    return Ok(Step::Wait(why));
                }
                self.pass(cx, ring, &slot, end)?;
            }
            packet::VENDOR_SPECIFIC if value => {
                if let Some(why) = value_waits(cx, &slot)? {
                    return Ok(Step::Wait(why));
                }
                self.pass(cx, ring, &slot, end)?;
            }
            packet::KERNEL_DISPATCH => return self.dispatch(cx, ring, &slot, end),
            packet::VENDOR_SPECIFIC => {
                let body = pm4_ib(&slot)?;
                end.start = Some(cx.core.clock.now());
                self.acquire(cx, header);
                self.pm4.enter(cx, body, self.pm4.xccs)?;
                self.take(cx, ring, &slot)?;
                self.running = Some(end);
            }
            _ => return Err(refuse(&TYPE, format!("header {header:#06x}"))),
        }
        Ok(Step::Next)
    }

    /// The queue is destroyed: no header will come.
    pub fn end_of_queue(&self, cx: &Cx) {
        if self.headless {
            cx.note(
                &HEADER_LAST,
                "the header was INVALID to the end of the queue",
            );
        }
    }

    /// What happens when the packet is complete.
    fn end(&self, cx: &Cx, header: u32, signal: u64) -> Result<End, Stop> {
        let reserved = header & 0xffff & !packet::HEADER.mask(cx.gfx());
        let scopes = [packet::ACQUIRE_SCOPE, packet::RELEASE_SCOPE].map(|scope| scope.get(header));
        if reserved != 0 || scopes.contains(&3) {
            cx.note(&RESERVED, format!("header {:#06x}", header & 0xffff));
        }
        let mut end = End {
            who: cx.who.clone(),
            caches: cache::release_scope(cx, scopes[1]),
            xccs: u32::MAX,
            ..End::default()
        };
        if signal != 0 {
            check_signal(cx, signal)?;
            let profiles = properties(cx)?.contains(aql::QueueProperties::ENABLE_PROFILING);
            end.signal = Some((signal, profiles));
        }
        Ok(end)
    }

    fn acquire(&mut self, cx: &Cx, header: u32) {
        if !std::mem::replace(&mut self.acquired, true) {
            let scope = packet::ACQUIRE_SCOPE.get(header);
            cx.caches(cache::acquire_scope(cx, scope), u32::MAX);
        }
    }

    /// A barrier is passed.
    fn pass(&mut self, cx: &mut Cx, ring: &mut Ring, slot: &Slot, end: End) -> Result<(), Stop> {
        let start = Some(cx.core.clock.now());
        self.acquire(cx, slot.words[0]);
        self.take(cx, ring, slot)?;
        let bare = packet::RELEASE_SCOPE.get(slot.words[0]) == 0;
        let end = End { start, bare, ..end };
        self.pm4.pending.push(cx, Work::End(end))
    }

    /// Asks the runtime by `queue_inactive_signal`, once nothing of the queue runs.
    fn ask(&mut self, cx: &mut Cx, value: u64) -> Result<Step, Stop> {
        if !self.pm4.pending.flush(cx)? {
            return Ok(Step::Busy);
        }
        self.asked = queue_inactive::tell(cx.desc, &cx.core.clock, value, cx.out)?;
        // Nobody takes back scratch that was for one dispatch.
        self.once &= self.asked.is_some();
        Ok(Step::More)
    }

    /// The slot is free again.
    fn take(&mut self, cx: &Cx, ring: &mut Ring, slot: &Slot) -> Result<(), Stop> {
        self.acquired = false;
        cx.write(slot.va, &(packet::INVALID as u16).to_le_bytes())?;
        ring.advance(cx, 16)
    }
}

/// Address of the `amd_queue_t`.
pub(crate) fn queue_of(cx: &Cx) -> Result<u64, Stop> {
    let (read, offset) = (
        aql::queue::READ_DISPATCH_ID as u64,
        aql::queue::READ_DISPATCH_ID_FIELD_BASE_BYTE_OFFSET as u64,
    );
    let back = cx.read32(cx.desc.rptr + offset - read)?;
    if u64::from(back) != read {
        return Err(refuse(&QUEUE, format!("it is {back}")));
    }
    Ok(cx.desc.rptr - read)
}

fn properties(cx: &Cx) -> Result<aql::QueueProperties, Stop> {
    let at = queue_of(cx)? + aql::queue::QUEUE_PROPERTIES as u64;
    Ok(aql::QueueProperties::from_bits_retain(cx.read32(at)?))
}

fn check_signal(cx: &Cx, signal: u64) -> Result<(), Stop> {
    let kind = if signal.is_multiple_of(64) {
        cx.read64(signal + aql::signal::KIND as u64)? as i64
    } else {
        0
    };
    if kind != aql::signal::KIND_USER {
        return Err(refuse(&SIGNAL, format!("{signal:#x}, kind {kind}")));
    }
    Ok(())
}

/// Why a barrier waits.
fn barrier_waits(cx: &Cx, slot: &Slot, kind: u32) -> Result<Option<String>, Stop> {
    let zero = slot.words[0] >> 16 == 0
        && slot.u32(barrier::RESERVED1) == 0
        && slot.u64(barrier::RESERVED2) == 0;
    if !zero {
        cx.note(&RESERVED, format!("{:x?}", slot.words));
    }
    let (mut any, mut open) = (false, Vec::new());
    for i in 0..barrier::DEP_SIGNALS {
        let signal = slot.u64(barrier::DEP_SIGNAL + 8 * i);
        if signal == 0 {
            continue;
        }
        if cx.first {
            check_signal(cx, signal)?;
        }
        let value = cx.read64(signal + aql::signal::VALUE as u64)?;
        if value == 0 {
            any = true;
        } else {
            open.push(format!("signal {signal:#x} is {value:#x}"));
        }
    }
    let done = open.is_empty() || kind == packet::BARRIER_OR && any;
    Ok((!done).then(|| open.join(", ")))
}

/// Why AMD's barrier waits.
fn value_waits(cx: &Cx, slot: &Slot) -> Result<Option<String>, Stop> {
    let rest = (barrier_value::RESERVED1..barrier_value::COMPLETION_SIGNAL).step_by(4);
    let zero = slot.u32(barrier_value::RESERVED0) == 0 && slot.words[0] >> 24 == 0;
    if !zero || rest.map(|at| slot.u32(at)).any(|word| word != 0) {
        cx.note(&RESERVED, format!("{:x?}", slot.words));
    }
    let signal = slot.u64(barrier_value::SIGNAL);
    if signal == 0 {
        return Ok(None);
    }
    if cx.first {
        check_signal(cx, signal)?;
    }
    let (reference, mask) = (
        slot.u64(barrier_value::VALUE) as i64,
        slot.u64(barrier_value::MASK),
    );
    let value = cx.read64(signal + aql::signal::VALUE as u64)?;
    let masked = (value & mask) as i64;
    let (done, sign) = match slot.u32(barrier_value::CONDITION) {
        0 => (masked == reference, "=="),
        1 => (masked != reference, "!="),
        2 => (masked < reference, "<"),
        3 => (masked >= reference, ">="),
        _ => return Err(refuse(&PM4_IB, format!("{:x?}", slot.words))),
    };
    let why = || {
        format!(
            "signal {signal:#x} is {value:#x}, waits for (it & {mask:#x}) {sign} {reference:#x}"
        )
    };
    Ok((!done).then(why))
}

/// The body of the INDIRECT_BUFFER packet in a vendor packet.
fn pm4_ib(slot: &Slot) -> Result<&[u32], Stop> {
    let words = &slot.words;
    let format = packet::FORMAT.get(words[0]) == packet::AMD_AQL_FORMAT_PM4_IB;
    let header = words[1] == pm4::header(pm4::INDIRECT_BUFFER, 3);
    let rest = words[5] == packet::PM4_IB_REMAINING && words[6..14].iter().all(|&word| word == 0);
    if !(format && words[0] >> 24 == 0 && header && rest) {
        return Err(refuse(&PM4_IB, format!("{words:x?}")));
    }
    Ok(&words[2..5])
}

fn text(slot: &Slot) -> String {
    let header = slot.words[0];
    let scopes = format!(
        "barrier={} acquire={} release={}",
        packet::BARRIER.get(header),
        packet::ACQUIRE_SCOPE.get(header),
        packet::RELEASE_SCOPE.get(header)
    );
    let three = |at: usize, bytes: usize| {
        let value = |i: usize| match bytes {
            2 => slot.u16(at + 2 * i),
            _ => slot.u32(at + 4 * i),
        };
        [value(0), value(1), value(2)]
    };
    match packet::TYPE.get(header) {
        packet::KERNEL_DISPATCH => format!(
            "KERNEL_DISPATCH {scopes} workgroup={:?} grid={:?} private={} group={} object={:#x} \
             kernarg={:#x} signal={:#x}",
            three(dispatch::WORKGROUP_SIZE, 2),
            three(dispatch::GRID_SIZE, 4),
            slot.u32(dispatch::PRIVATE_SEGMENT_SIZE),
            slot.u32(dispatch::GROUP_SEGMENT_SIZE),
            slot.u64(dispatch::KERNEL_OBJECT),
            slot.u64(dispatch::KERNARG_ADDRESS),
            slot.u64(dispatch::COMPLETION_SIGNAL),
        ),
        packet::BARRIER_AND => format!("BARRIER_AND {scopes}"),
        packet::BARRIER_OR => format!("BARRIER_OR {scopes}"),
        packet::VENDOR_SPECIFIC
            if packet::FORMAT.get(header) == packet::AMD_AQL_FORMAT_BARRIER_VALUE =>
        {
            format!(
                "BARRIER_VALUE {scopes} signal={:#x} value={:#x} mask={:#x} condition={}",
                slot.u64(barrier_value::SIGNAL),
                slot.u64(barrier_value::VALUE),
                slot.u64(barrier_value::MASK),
                slot.u32(barrier_value::CONDITION),
            )
        }
        packet::VENDOR_SPECIFIC => format!(
            "PM4_IB {scopes} base={:#x} control={:#x}",
            wide(slot.words[2], slot.words[3]),
            slot.words[4]
        ),
        other => format!("type {other}"),
    }
}
