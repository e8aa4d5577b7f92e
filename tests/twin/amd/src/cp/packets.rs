//! What PM4 packets do.

use drivers_spec::amd::packet::Gfx;
use drivers_spec::amd::pm4::{self, op, release, wait};
use drivers_spec::amd::regs;
use twin::rule::{Proof, Rule};
use twin_shader::launch::Launch;

use super::pm4::{Do, IB_CHAIN, IB_NESTED, Pm4, Pred};
use super::work::{Data, End, Work};
use super::xcc;
use super::{Cx, Stop, atomic, cache, compare, dispatch, refuse, regs as registers, sign, wide};
use crate::gpu::QueueKind;

/// PRED_EXEC needs an indirect buffer.
pub static PRED_RING: Rule = Rule {
    name: "PM4-PRED-EXEC-RING",
    text: "PRED_EXEC is in an indirect buffer, not in a ring",
    source: "a driver that has run on MI300X wraps it for this reason; no vendor text is known",
    proof: Proof::Guess,
};

/// One XCC signals.
pub static XCC_SIGNAL: Rule = Rule {
    name: "PM4-XCC-SIGNAL",
    text: "a packet that writes memory or interrupts runs on one XCC: in an AQL queue every XCC runs the packets of an \
           indirect buffer, and the first would signal for all",
    source: "ROCR, amd_aql_queue.cpp, ExecutePM4; drivers of MI300X use PRED_EXEC for it",
    proof: Proof::Guess,
};

/// PRED_EXEC names XCCs that there are.
pub static PRED_MASK: Rule = Rule {
    name: "PM4-PRED-MASK",
    text: "VIRTUAL_XCC_MASK of PRED_EXEC names XCCs of the partition, and at least one",
    source: "Linux, soc15d.h, PRED_EXEC; a packet that no XCC runs is none",
    proof: Proof::Sourced,
};

/// Wait packets are made of what MEC knows.
pub static WAIT: Rule = Rule {
    name: "PM4-WAIT",
    text: "a wait compares with function 0 to 6, on memory (operation 0 or 3) or registers (operation 0, \
           or 1 to write one first)",
    source: "Linux, nvd.h, soc15d.h, WAIT_REG_MEM",
    proof: Proof::Sourced,
};

/// Events that compute knows.
pub static EVENT: Rule = Rule {
    name: "PM4-EVENT",
    text: "EVENT_WRITE sends an event that MEC supports, with its index: CS_PARTIAL_FLUSH (7) with 4, thread trace and \
           counter events with 0",
    source: "Linux, nvd.h, EVENT_WRITE; navi10_enum.h, enum VGT_EVENT_TYPE",
    proof: Proof::Sourced,
};

/// RELEASE_MEM as MEC takes it.
pub static RELEASE: Rule = Rule {
    name: "PM4-RELEASE",
    text: "RELEASE_MEM has event CACHE_FLUSH_AND_INV_TS (0x14) or BOTTOM_OF_PIPE_TS (0x28) with index 5, \
           DST_SEL 0 or 1, INT_SEL 0 to 2, DATA_SEL 0 to 4",
    source: "Linux, kfd_pm4_headers_ai.h, nvd.h; others are not modelled",
    proof: Proof::Sourced,
};

/// RELEASE_MEM needs the queue's buffer.
pub static EOP_BUFFER: Rule = Rule {
    name: "PM4-EOP-BUFFER",
    text: "a PM4 queue that uses RELEASE_MEM has an end-of-pipe buffer: MEC queues the events there",
    source: "Linux, kfd_mqd_manager_v11.c, cp_hqd_eop_base_addr; ROCR, libhsakmt queues.c",
    proof: Proof::Sourced,
};

/// Selectors that are modelled.
pub static SELECT: Rule = Rule {
    name: "PM4-SELECT",
    text: "COPY_DATA, WRITE_DATA and DMA_DATA use sources and destinations that a user queue has: memory, \
           the packet, clocks, counters, modelled registers",
    source: "Linux, nvd.h, soc15d.h",
    proof: Proof::Sourced,
};

/// Registers are set in their space.
pub static SET_REG: Rule = Rule {
    name: "PM4-SET-REG",
    text: "SET_SH_REG and SET_UCONFIG_REG stay within their spaces, do not change the VMID, and SET_SH_REG has index 0",
    source: "Linux, nvd.h, PACKET3_SET_SH_REG_END; soc15d.h",
    proof: Proof::Sourced,
};

/// Event: bottom of the pipe.
const BOTTOM_OF_PIPE_TS: u32 = 0x28;

impl Pm4 {
    /// Runs a packet on the XCCs of a mask.
    pub(super) fn execute(
        &mut self,
        cx: &mut Cx,
        opcode: u8,
        body: &[u32],
        mask: u32,
    ) -> Result<Do, Stop> {
        match opcode {
            pm4::NOP => {}
            pm4::SET_SH_REG | pm4::SET_SH_REG_INDEX => {
                let plain = opcode == pm4::SET_SH_REG;
                let (start, end) = (pm4::SH_REG_START, pm4::SH_REG_END);
                self.set_registers(cx, body, mask, (start, end), plain)?;
            }
            pm4::SET_UCONFIG_REG => {
                let (start, end) = (pm4::UCONFIG_REG_START, pm4::UCONFIG_REG_END);
                self.set_registers(cx, body, mask, (start, end), false)?;
            }
            pm4::DISPATCH_DIRECT => {
                self.dispatch(cx, [body[0], body[1], body[2]], body[3], mask)?;
            }
            pm4::DISPATCH_INDIRECT => {
                let words = cx.words(wide(body[0], body[1]), 3)?;
                self.dispatch(cx, [words[0], words[1], words[2]], body[2], mask)?;
            }
            pm4::INDIRECT_BUFFER => return self.indirect(cx, body, mask),
            pm4::WAIT_REG_MEM => return self.wait(cx, body, mask, false),
            pm4::WAIT_REG_MEM64 => return self.wait(cx, body, mask, true),
            pm4::ACQUIRE_MEM => {
                cx.caches(cache::acquire(cx, body), mask);
            }
            pm4::RELEASE_MEM => self.release(cx, body, mask)?,
            pm4::EVENT_WRITE => return self.event(cx, body[0]),
            pm4::COPY_DATA => self.copy_data(cx, body, mask)?,
            pm4::WRITE_DATA => self.write_data(cx, body, mask)?,
            pm4::ATOMIC_MEM => return self.atomic_mem(cx, body, mask),
            pm4::DMA_DATA => self.dma(cx, body, mask)?,
            pm4::PRED_EXEC => {
                if !self.in_ib() {
                    return Err(refuse(&PRED_RING, "in the ring"));
                }
                let named = op::VIRTUAL_XCC_MASK.get(body[0]);
                if named == 0 || named >> cx.core.chip.xccs.min(31) != 0 {
                    let xccs = cx.core.chip.xccs;
                    cx.note(&PRED_MASK, format!("mask {named:#b} of {xccs} XCCs"));
                }
                return Ok(Do::Predicate(Pred {
                    mask: self.virtual_mask(cx, named),
                    named: Some(named),
                    left: op::EXEC_COUNT.get(body[0]) as usize,
                }));
            }
            pm4::COND_EXEC => {
                let run = cx.read32(wide(body[0], body[1]))? != 0;
                return Ok(Do::Predicate(Pred {
                    mask: if run { self.xccs } else { 0 },
                    named: None,
                    left: op::COND_EXEC_COUNT.get(body[3]) as usize,
                }));
            }
            _ => return Err(refuse(&super::pm4::OPCODE, format!("opcode {opcode:#x}"))),
        }
        Ok(Do::Next)
    }

    /// XCC numbers as the bits of this queue: a PM4 queue has one XCC, its bit is 0.
    fn virtual_mask(&self, cx: &Cx, mask: u32) -> u32 {
        match cx.desc.kind {
            QueueKind::Pm4 => mask >> cx.desc.xcc & 1,
            QueueKind::Aql | QueueKind::Sdma { .. } => mask,
        }
    }

    fn set_registers(
        &mut self,
        cx: &Cx,
        body: &[u32],
        mask: u32,
        (start, end): (u32, u32),
        plain: bool,
    ) -> Result<(), Stop> {
        let first = start + op::REG_OFFSET.get(body[0]);
        let values = &body[1..];
        if first as usize + values.len() > end as usize
            || op::VMID_SHIFT.get(body[0]) != 0
            || (plain && op::REG_INDEX.get(body[0]) != 0)
        {
            return Err(refuse(
                &SET_REG,
                format!("dword 1 is {:#x}, {} values", body[0], values.len()),
            ));
        }
        self.registers.set(cx, mask, first, values)
    }

    fn dispatch(
        &mut self,
        cx: &mut Cx,
        dims: [u32; 3],
        initiator: u32,
        mask: u32,
    ) -> Result<(), Stop> {
        let mut launches = Vec::new();
        let of = cx.core.chip.xccs.max(1);
        let mut number = 0;
        if let Some(place) = &self.place {
            number = place.group.issue(place.xcc, !dims.contains(&0));
        }
        for set in 0..32 {
            if mask >> set & 1 == 0 {
                continue;
            }
            let xcc = match (cx.gfx(), cx.desc.kind) {
                (_, QueueKind::Aql) => (set, of),
                (Gfx::Gfx9, _) => self.share(cx, set, of)?,
                _ => (0, 1),
            };
            let launch = dispatch::launch(cx, &self.registers, (set, of), dims, initiator)?;
            launches.extend(launch.map(|launch| (set, Launch { xcc, ..launch })));
        }
        cx.rng.shuffle(&mut launches);
        let who = cx.who.clone();
        let end = None;
        if !launches.is_empty() {
            let work = Work::Run {
                who,
                launches,
                number,
                end,
            };
            self.pending.push(cx, work)?;
        }
        Ok(())
    }

    /// The share of an XCC in a dispatch of PM4: registers tell, which are zero at first.
    fn share(&self, cx: &Cx, set: u32, of: u32) -> Result<(u32, u32), Stop> {
        let register = |addr| self.registers.get(set, addr).unwrap_or(0);
        let (chunk, logic) = (register(TG_CHUNK_SIZE), register(CURRENT_LOGIC_XCC_ID));
        let logic = match chunk {
            0 => None,
            1 if logic < of => Some(logic),
            _ => {
                let what = format!("XCC number {logic} of {of}, chunks of {chunk}");
                return Err(refuse(&xcc::SHARE, what));
            }
        };
        if let Some(place) = &self.place
            && let Some(what) = place.group.share(place.xcc, logic)
        {
            cx.note(&xcc::SHARE, what);
        }
        Ok(logic.map_or((0, 1), |logic| (logic, of)))
    }

    fn indirect(&mut self, cx: &Cx, body: &[u32], mask: u32) -> Result<Do, Stop> {
        let (ib, chain) = self.ib(cx, body, mask)?;
        match (chain, self.in_ib()) {
            (true, true) => Ok(Do::Chain(ib)),
            (true, false) => Err(refuse(&IB_CHAIN, "a chained buffer in the ring")),
            (false, true) => Err(refuse(&IB_NESTED, "a second level")),
            (false, false) => Ok(Do::Enter(ib)),
        }
    }

    fn wait(&mut self, cx: &Cx, body: &[u32], mask: u32, wide64: bool) -> Result<Do, Stop> {
        let info = body[0];
        let function = wait::FUNCTION.get(info);
        let (reference, bits) = if wide64 {
            (wide(body[3], body[4]), wide(body[5], body[6]))
        } else {
            (u64::from(body[3]), u64::from(body[4]))
        };
        let mut polled = None;
        let (what, value) = match (wait::MEM_SPACE.get(info), wait::OPERATION.get(info)) {
            (1, 0 | 3) => {
                let va = wide(body[1], body[2]);
                atomic::aligned(va, if wide64 { 8 } else { 4 })?;
                let value = if wide64 {
                    cx.look64(va)?
                } else {
                    u64::from(cx.look32(va)?)
                };
                polled = Some(va);
                (format!("[{va:#x}]"), value)
            }
            (0, 1) if (body[1], body[2]) == (regs::GPU_HDP_FLUSH_REQ, regs::GPU_HDP_FLUSH_DONE) => {
                cx.desc.vm.hdp_flush(&cx.who);
                // Every client whose bit was written is done at once.
                ("HDP flush".to_string(), reference)
            }
            (0, 0) => {
                let set = mask.trailing_zeros();
                let value = self.registers.read(cx, set, body[1])?;
                (format!("register {:#x}", body[1]), u64::from(value))
            }
            (0, 1) => return Err(registers::unmodelled(body[1])),
            _ => return Err(refuse(&WAIT, format!("info is {info:#x}"))),
        };
        match compare(function, value & bits, reference) {
            Some(true) => {
                match polled {
                    Some(va) if wide64 => cx.read64(va).map(drop)?,
                    Some(va) => cx.read32(va).map(drop)?,
                    None => {}
                }
                Ok(Do::Next)
            }
            Some(false) => Ok(Do::Wait(format!(
                "{what} is {value:#x}, waits for (it & {bits:#x}) {} {reference:#x}",
                sign(function)
            ))),
            None => Err(refuse(&WAIT, format!("info is {info:#x}"))),
        }
    }

    /// Only one XCC may do what everybody sees.
    fn one_xcc(&mut self, cx: &Cx, mask: u32) {
        let named = self.named();
        let mask = match &self.place {
            // Every XCC of the ring comes by, each in its own queue.
            Some(place) => place.group.xccs() & named.unwrap_or(u32::MAX),
            None => mask,
        };
        if mask.count_ones() > 1 {
            cx.note(&XCC_SIGNAL, format!("XCCs {mask:#b}"));
        }
    }

    fn release(&mut self, cx: &mut Cx, body: &[u32], mask: u32) -> Result<(), Stop> {
        let (event, select) = (body[0], body[1]);
        let kind = release::EVENT_TYPE.get(event);
        let (int_sel, data_sel) = (release::INT_SEL.get(select), release::DATA_SEL.get(select));
        let known = matches!(kind, pm4::CACHE_FLUSH_AND_INV_TS_EVENT | BOTTOM_OF_PIPE_TS)
            && release::EVENT_INDEX.get(event) == pm4::EVENT_INDEX_END_OF_PIPE;
        if !known || release::DST_SEL.get(select) > 1 || int_sel > 2 || data_sel > 4 {
            return Err(refuse(&RELEASE, format!("dwords {event:#x} {select:#x}")));
        }
        if cx.desc.kind == QueueKind::Pm4 && cx.desc.eop.1 == 0 {
            return Err(refuse(&EOP_BUFFER, "the queue has none"));
        }
        if cx.desc.kind == QueueKind::Pm4 {
            // What an event looks like there is not known; that it cannot be put there, the page tables tell.
            cx.read::<4>(cx.desc.eop.0)?;
        }
        let va = wide(body[2], body[3]);
        let data = match data_sel {
            0 => None,
            1 => Some(Data::Low(body[4])),
            2 => Some(Data::Wide(wide(body[4], body[5]))),
            _ => Some(Data::Clock),
        };
        match data {
            None => {}
            Some(Data::Low(_)) => atomic::aligned(va, 4)?,
            Some(Data::Wide(_) | Data::Clock) => atomic::aligned(va, 8)?,
        }
        // Context 0 is no event: nobody is woken by it.
        let wakes = int_sel != 0 && body[6] != 0;
        if data.is_some() || wakes {
            self.one_xcc(cx, mask);
        }
        let end = End {
            who: cx.who.clone(),
            caches: cache::release(cx, event),
            write: data.map(|data| (va, data)),
            interrupt: (int_sel != 0).then_some(body[6]),
            ..End::default()
        };
        let tells = matches!(data, Some(Data::Low(_) | Data::Wide(_))) || wakes;
        let after = self.place.as_ref().filter(|_| tells);
        let after = after.map(|place| place.group.issued(place.xcc));
        for xcc in (0..32).filter(|xcc| mask >> xcc & 1 == 1) {
            let end = End {
                xccs: 1 << xcc,
                after,
                ..end.clone()
            };
            self.pending.push(cx, Work::End(end))?;
        }
        Ok(())
    }

    fn event(&mut self, cx: &mut Cx, word: u32) -> Result<Do, Stop> {
        let (kind, index) = (op::EVENT_TYPE.get(word), op::EVENT_INDEX.get(word));
        match (kind, index) {
            (pm4::CS_PARTIAL_FLUSH, pm4::EVENT_INDEX_PARTIAL_FLUSH) => {
                if !self.pending.flush(cx)? {
                    return Ok(Do::Busy);
                }
            }
            (
                pm4::THREAD_TRACE_FINISH
                | pm4::THREAD_TRACE_MARKER
                | pm4::PERFCOUNTER_START
                | pm4::PERFCOUNTER_STOP
                | pm4::PERFCOUNTER_SAMPLE,
                0,
            ) => {}
            _ => return Err(refuse(&EVENT, format!("event {kind:#x} index {index}"))),
        }
        Ok(Do::Next)
    }

    fn copy_data(&mut self, cx: &Cx, body: &[u32], mask: u32) -> Result<(), Stop> {
        let control = body[0];
        let wide64 = op::COUNT_SEL.get(control) == 1;
        let bytes = if wide64 { 8 } else { 4 };
        let (src, dst) = (wide(body[1], body[2]), wide(body[3], body[4]));
        let value = match op::SRC_SEL.get(control) {
            0 => {
                let set = mask.trailing_zeros();
                u64::from(self.registers.read(cx, set, body[1])?)
            }
            1 | 2 => {
                atomic::aligned(src, bytes)?;
                if wide64 {
                    cx.read64(src)?
                } else {
                    u64::from(cx.read32(src)?)
                }
            }
            4 => 0,
            5 => src,
            6 => self.atomic,
            9 | 10 => cx.core.clock.now(),
            other => return Err(refuse(&SELECT, format!("source {other}"))),
        };
        match op::DST_SEL.get(control) {
            0 => self.registers.set(cx, mask, body[3], &[value as u32]),
            2 | 5 => {
                self.one_xcc(cx, mask);
                atomic::aligned(dst, bytes)?;
                cx.write(dst, &value.to_le_bytes()[..bytes as usize])
            }
            other => Err(refuse(&SELECT, format!("destination {other}"))),
        }
    }

    fn write_data(&mut self, cx: &Cx, body: &[u32], mask: u32) -> Result<(), Stop> {
        let (control, data) = (body[0], &body[3..]);
        let va = wide(body[1], body[2]);
        let one = op::WR_ONE_ADDR.get(control) == 1;
        match op::WRITE_DST_SEL.get(control) {
            0 => self.registers.set(cx, mask, body[1], data),
            2 | 5 => {
                self.one_xcc(cx, mask);
                atomic::aligned(va, 4)?;
                for (i, value) in data.iter().enumerate() {
                    let at = va + if one { 0 } else { i as u64 * 4 };
                    cx.write(at, &value.to_le_bytes())?;
                }
                Ok(())
            }
            other => Err(refuse(&SELECT, format!("destination {other}"))),
        }
    }

    fn atomic_mem(&mut self, cx: &Cx, body: &[u32], mask: u32) -> Result<Do, Stop> {
        let (operation, command) = (op::ATOMIC_OP.get(body[0]), op::COMMAND.get(body[0]));
        let va = wide(body[1], body[2]);
        let (src, cmp) = (wide(body[3], body[4]), wide(body[5], body[6]));
        for _ in 0..mask.count_ones() {
            self.atomic = atomic::run(cx, operation, va, src, cmp)?;
        }
        // Command 1 repeats a compare and swap until it has swapped.
        if command == 1 && self.atomic != cmp {
            return Ok(Do::Wait(format!(
                "[{va:#x}] is {:#x}, waits for {cmp:#x}",
                self.atomic
            )));
        }
        Ok(Do::Next)
    }

    fn dma(&mut self, cx: &Cx, body: &[u32], mask: u32) -> Result<(), Stop> {
        let (control, command) = (body[0], body[5]);
        let bytes = op::BYTE_COUNT.get(command) as usize;
        let registers = op::SAS.get(command) | op::DAS.get(command);
        let fixed = op::SAIC.get(command) | op::DAIC.get(command);
        let dst_sel = op::DMA_DST_SEL.get(control);
        if registers | fixed != 0 || !matches!(dst_sel, 0 | 3) {
            return Err(refuse(&SELECT, format!("dwords {control:#x} {command:#x}")));
        }
        self.one_xcc(cx, mask);
        let dst = wide(body[3], body[4]);
        match op::DMA_SRC_SEL.get(control) {
            0 | 3 => {
                let mut data = vec![0; bytes];
                cx.desc
                    .vm
                    .read(cx.port(), wide(body[1], body[2]), &mut data)?;
                cx.write(dst, &data)
            }
            2 => {
                let word = body[1].to_le_bytes();
                let data: Vec<_> = word.iter().copied().cycle().take(bytes).collect();
                cx.write(dst, &data)
            }
            other => Err(refuse(&SELECT, format!("source {other}"))),
        }
    }
}

/// The share of an XCC in a dispatch (GFX9).
const CURRENT_LOGIC_XCC_ID: u32 = 0x2e25;
/// Workgroups that go to an XCC before the next one gets some (GFX9).
const TG_CHUNK_SIZE: u32 = 0x2e27;
