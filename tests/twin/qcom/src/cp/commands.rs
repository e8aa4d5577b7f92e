//! Commands of type 7.
//!
//! Source: Mesa, src/freedreno/registers/adreno/adreno_pm4.xml, the domain of each command.

use drivers_spec::qcom::packet::{
    self as spec, event_write_0, event_writes, op, reg_rmw_0, set_marker_0, wait_reg_mem_0 as wait,
};
use twin::rule::{Proof, Rule};

use crate::memory::view::Via;

use super::bindless;
use super::launch::{Grid, Parts};
use super::pipe::{Ahead, Value};
use super::state::{Load, Place};
use super::{Around, Broken, Cp, Ib, PACKETS, Stop, Wait};

static OPERATION: Rule = Rule {
    name: "CP-OPERATION",
    text: "a command is one of compute; others are not modelled",
    source: "this twin: drivers_spec::qcom::packet, src/cp/commands.rs",
    proof: Proof::Twin,
};

static LENGTH: Rule = Rule {
    name: "CP-PACKET-LENGTH",
    text: "a command has as many dwords as its domain says; CP_EVENT_WRITE has an address if, and only if, its event \
           writes",
    source: "Mesa, src/freedreno/registers/adreno/adreno_pm4.xml; tu_cmd_buffer.cc, tu6_emit_event_write",
    proof: Proof::Sourced,
};

static BITS: Rule = Rule {
    name: "CP-PACKET-BITS",
    text: "bits of a command that no field has are zero, and fields have one of their values",
    source: "Mesa, src/freedreno/registers/adreno/adreno_pm4.xml",
    proof: Proof::Sourced,
};

static EVENT: Rule = Rule {
    name: "CP-EVENT",
    text: "an event is one of those that compute has",
    source: "this twin: drivers_spec::qcom::packet, event_write_0",
    proof: Proof::Twin,
};

static MARKER: Rule = Rule {
    name: "CP-MARKER",
    text: "a mode of CP_SET_MARKER is one that programs set: 1 to 8 or 12; 13 and 14 are the kernel's",
    source: "Mesa, src/freedreno/registers/adreno/adreno_pm4.xml, a6xx_marker",
    proof: Proof::Sourced,
};

static SKIP: Rule = Rule {
    name: "CP-COND-RANGE",
    text: "what a condition leaves out ends where its indirect buffer ends, or before",
    source: "Mesa, src/freedreno/vulkan/tu_cs.h, tu_cond_exec_end",
    proof: Proof::Sourced,
};

static PREFETCH: Rule = Rule {
    name: "CP-LOAD-STATE-BINDLESS",
    text: "CP_LOAD_STATE6 with SS6_BINDLESS is of a base that is set",
    source: "Mesa, src/freedreno/vulkan/tu_pipeline.cc, emit_load_state, and tu_cmd_buffer.cc, tu_dispatch: behind \
             tu6_emit_descriptor_sets",
    proof: Proof::Sourced,
};

/// Commands that the table does not have. Source: adreno_pm4.xml, adreno_pm4_type3_packets, and the domains.
pub(super) mod more {
    /// CP_REG_TEST: tests a bit of a register for CP_COND_REG_EXEC.
    pub(in crate::cp) const REG_TEST: u8 = 0x39;
    /// CP_COND_REG_EXEC: runs what follows if the last test was true.
    pub(in crate::cp) const COND_REG_EXEC: u8 = 0x47;
    /// CP_BLIT: the 2D engine.
    pub(in crate::cp) const BLIT: u8 = 0x2c;
    /// CP_SET_DRAW_STATE: state of draws, by groups.
    pub(in crate::cp) const SET_DRAW_STATE: u8 = 0x43;
    /// CP_SET_AMBLE: what runs when contexts are switched.
    pub(in crate::cp) const SET_AMBLE: u8 = 0x55;
    /// CP_CONTEXT_REG_BUNCH: registers, each with its address.
    pub(in crate::cp) const CONTEXT_REG_BUNCH: u8 = 0x5c;
    /// CP_REG_WRITE: a register that the command processor keeps an eye on (`reg_tracker`), for draws.
    pub(in crate::cp) const REG_WRITE: u8 = 0x6d;
    /// CP_SKIP_IB2_ENABLE_GLOBAL: whether indirect buffers are left out that draw nothing.
    pub(in crate::cp) const SKIP_IB2_ENABLE_GLOBAL: u8 = 0x1d;
    /// CP_SET_MODE: which draw states run.
    pub(in crate::cp) const SET_MODE: u8 = 0x63;
    /// `BLIT_OP_SCALE` of `cp_blit_cmd`.
    pub(in crate::cp) const OP_SCALE: u32 = 3;
    /// TYPE 21:20 of CP_SET_AMBLE_2, behind DWORDS 19:0: BIN_PREAMBLE_AMBLE_TYPE.
    pub(in crate::cp) const BIN_PREAMBLE: u32 = 1;
    /// Dwords of each.
    pub(in crate::cp) const LENGTHS: [(u8, usize); 7] = [
        (REG_WRITE, 3),
        (SKIP_IB2_ENABLE_GLOBAL, 1),
        (SET_MODE, 1),
        (BLIT, 1),
        (SET_AMBLE, 3),
        (REG_TEST, 1),
        (COND_REG_EXEC, 2),
    ];
    /// `PRED_TEST` of `compare_mode`, bits 31:28 of CP_COND_REG_EXEC.
    pub(in crate::cp) const PRED_TEST: u32 = 1;
}

/// `PC_CCU_INVALIDATE_DEPTH`, `PC_CCU_INVALIDATE_COLOR`, `LRZ_FLUSH` of `vgt_event_type`: of caches that compute does
/// not use, or that hold nothing that was only read.
const CCU: [u32; 3] = [24, 25, 38];

/// Checks a command by its table.
fn check(operation: u8, body: &[u32]) -> Result<(), Broken> {
    let length = |name: &str, wanted: String| {
        let what = format!("{name} has {} dwords, expected {wanted}", body.len());
        Err(Broken::new(&LENGTH, what))
    };
    if let Some((_, wanted)) = more::LENGTHS.iter().find(|(op, _)| *op == operation) {
        return match body.len() == *wanted {
            true => Ok(()),
            false => length(&format!("operation {operation:#x}"), wanted.to_string()),
        };
    }
    if operation == more::CONTEXT_REG_BUNCH {
        return match body.len() {
            0 => length("CP_CONTEXT_REG_BUNCH", "a pair".into()),
            all if all.is_multiple_of(2) => Ok(()),
            _ => length("CP_CONTEXT_REG_BUNCH", "pairs".into()),
        };
    }
    if operation == more::SET_DRAW_STATE {
        return match body.len() {
            0 => length("CP_SET_DRAW_STATE", "a group".into()),
            all if all.is_multiple_of(3) => Ok(()),
            _ => length("CP_SET_DRAW_STATE", "three dwords a group".into()),
        };
    }
    let Some(command) = spec::command(operation) else {
        return Err(Broken::new(&OPERATION, format!("operation {operation:#x}")));
    };
    let fits = match command.length {
        spec::Length::Exactly(wanted) => body.len() == wanted,
        spec::Length::Either(one, other) => body.len() == one || body.len() == other,
        spec::Length::AtLeast(least) => body.len() >= least,
        spec::Length::LoadState => {
            let first = body.first().copied().unwrap_or(0);
            // Where no size is known, the state itself is wrong: that is said later.
            let wanted = spec::LoadState::decode(first).body();
            body.len() >= 3 && wanted.is_none_or(|wanted| wanted == body.len())
        }
    };
    if !fits {
        return length(command.name, format!("{:?}", command.length));
    }
    if operation == op::EVENT_WRITE {
        let writes = event_writes(event_write_0::EVENT.get(body[0]));
        if writes != (body.len() == 4) {
            return length(command.name, format!("an address: {writes}"));
        }
    }
    if operation == op::MEM_TO_MEM && (body.len().is_multiple_of(2) || body.len() > 9) {
        return length(command.name, "pairs, of at most 3 sources".into());
    }
    for (word, dword) in command.words.iter().zip(body) {
        let bits = dword & !word.mask(PACKETS);
        if bits != 0 {
            let what = format!("{}: bits {bits:#x} of {}", command.name, word.name);
            return Err(Broken::new(&BITS, what));
        }
    }
    Ok(())
}

/// An address of two dwords.
pub(super) fn address(body: &[u32], at: usize) -> u64 {
    let word = |at: usize| u64::from(body.get(at).copied().unwrap_or(0));
    word(at + 1) << 32 | word(at)
}

/// How a function of CP_WAIT_REG_MEM compares.
fn holds(function: u32, signed: bool, value: u32, reference: u32) -> Option<bool> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = match signed {
        true => (value as i32).cmp(&(reference as i32)),
        false => value.cmp(&reference),
    };
    Some(match function {
        wait::WRITE_ALWAYS => true,
        wait::WRITE_LT => order == Less,
        wait::WRITE_LE => order != Greater,
        wait::WRITE_EQ => order == Equal,
        wait::WRITE_NE => order != Equal,
        wait::WRITE_GE => order != Less,
        wait::WRITE_GT => order == Greater,
        _ => return None,
    })
}

impl Cp {
    /// Does a command.
    pub(super) fn command(
        &mut self,
        around: &mut Around<'_>,
        operation: u8,
        body: &[u32],
    ) -> Result<(), Stop> {
        check(operation, body)?;
        match operation {
            op::NOP | op::WAIT_FOR_ME | op::INTERRUPT | op::INVALIDATE_STATE => Ok(()),
            op::WAIT_MEM_WRITES => self.land(around),
            op::WAIT_FOR_IDLE => self.idle(around),
            op::REG_RMW => self.modify(around, body),
            op::RUN_OPENCL => self.dispatch(around, Grid::Registers),
            op::EXEC_CS => self.dispatch(around, Grid::Groups([body[1], body[2], body[3]])),
            op::EXEC_CS_INDIRECT => {
                let words = self.fetch_words(around, self.aligned(address(body, 1), 4)?, 3)?;
                let groups = [words[0], words[1], words[2]];
                if groups.contains(&0) {
                    // Nothing to run.
                    return Ok(());
                }
                self.dispatch(around, Grid::Indirect(groups, body[3]))
            }
            op::LOAD_STATE6 | op::LOAD_STATE6_FRAG | op::LOAD_STATE6_GEOM => {
                self.load(around, operation, body)
            }
            op::WAIT_REG_MEM => self.wait(around, body),
            op::WAIT_MEM_GTE => {
                let body = [
                    wait::FUNCTION.put(wait::WRITE_GE)
                        | wait::SIGNED_COMPARE.put(1)
                        | wait::POLL.put(wait::POLL_MEMORY),
                    body[1],
                    body[2],
                    body[3],
                    u32::MAX,
                    0,
                ];
                self.wait(around, &body)
            }
            op::INDIRECT_BUFFER => {
                let (address, dwords) = (
                    address(body, 0),
                    spec::indirect_buffer_2::IB_SIZE.get(body[2]),
                );
                self.call(around, Ib { address, dwords }, false)
            }
            op::EVENT_WRITE => self.event(body),
            op::SET_MARKER => self.mark(body[0]),
            op::MEM_WRITE => self.write_memory(around, body),
            op::REG_TO_MEM => self.store_registers(around, body),
            op::MEM_TO_REG => self.load_registers(around, body),
            op::MEM_TO_MEM => self.add_memory(around, body),
            op::MEMCPY => self.copy(around, body),
            more::REG_TEST => self.test(around, body[0]),
            more::CONTEXT_REG_BUNCH => {
                for pair in body.as_chunks::<2>().0 {
                    self.write(around, pair[0], pair[1]);
                }
                Ok(())
            }
            more::BLIT
            | more::SET_DRAW_STATE
            | more::SET_MODE
            | more::SET_AMBLE
            | more::SKIP_IB2_ENABLE_GLOBAL => Ok(self.of_graphics(around, operation, body)?),
            more::REG_WRITE => {
                if body[0] == 0 || body[0] > 0xf {
                    return Err(Broken::new(&BITS, format!("CP_REG_WRITE {:#x}", body[0])).into());
                }
                self.write(around, body[1], body[2]);
                Ok(())
            }
            more::COND_REG_EXEC => self.condition(body),
            op::COND_EXEC => self.condition_of_memory(around, body),
            other => Err(Broken::new(&OPERATION, format!("operation {other:#x}")).into()),
        }
    }

    /// REG_RMW: AND, then OR. What is rotated, added or from a register is not described by its table.
    fn modify(&mut self, around: &mut Around<'_>, body: &[u32]) -> Result<(), Stop> {
        let register = reg_rmw_0::DST_REG.get(body[0]);
        let before = self.read(around, register)?;
        self.write(around, register, before & body[1] | body[2]);
        Ok(())
    }

    fn dispatch(&mut self, around: &mut Around<'_>, grid: Grid) -> Result<(), Stop> {
        let parts = Parts {
            chip: around.core.chip.spec(),
            registers: &self.registers,
            state: &self.state,
            cached: self.cached,
            tiling: around.core.chip.tiling(),
            marker: self.marker,
            grid,
            seed: around.core.random(),
            limit: around.core.limit,
            arithmetic: around.core.arithmetic,
        };
        match parts.launch() {
            Ok(launch) => {
                self.cached.used(&launch.descriptors.bindless);
                self.pipe.dispatch(launch, around.core.dispatch());
            }
            // What shader cores do then is not known: they do nothing here.
            Err(broken) => self.note(around, broken),
        }
        Ok(())
    }

    fn load(&mut self, around: &mut Around<'_>, operation: u8, body: &[u32]) -> Result<(), Stop> {
        let chip = around.core.chip.spec();
        let mut load = match Load::of(chip, operation, body) {
            Ok(load) => load,
            Err(broken) => {
                self.note(around, broken);
                return Ok(());
            }
        };
        if let Some(broken) = load.fit(chip) {
            self.note(around, broken);
        }
        let words = match load.from {
            Place::Memory(_) if load.is_code() => Vec::new(),
            Place::Memory(from) => self.fetch_words(around, from, load.dwords())?,
            Place::Packet => body[3..].to_vec(),
            Place::Bindless(number, inside) => {
                let mut bases = bindless::bases(&self.registers, self.cached)?;
                let Some(base) = bases.get(number).copied().flatten() else {
                    let what = format!("base {number} is not set");
                    return Err(Broken::new(&PREFETCH, what).into());
                };
                self.pipe.ahead(Ahead {
                    base: number as u8,
                    at: base + inside * 4,
                    bytes: load.bindless_bytes(),
                });
                for (other, base) in bases.iter_mut().enumerate() {
                    *base = base.filter(|_| other == number);
                }
                self.cached.used(&bases);
                return Ok(());
            }
        };
        self.state.load(&load, &words);
        Ok(())
    }

    /// The value of a register: the counters are never written.
    pub(super) fn read(&self, around: &mut Around<'_>, register: u32) -> Result<u32, Stop> {
        match around.core.counter(register) {
            Some(value) => Ok(value),
            None => Ok(self.registers.read(around.core.generation(), register)?),
        }
    }

    fn wait(&mut self, around: &mut Around<'_>, body: &[u32]) -> Result<(), Stop> {
        let (reference, mask) = (body[3], body[4]);
        let function = wait::FUNCTION.get(body[0]);
        let signed = wait::SIGNED_COMPARE.get(body[0]) != 0;
        let poll = wait::POLL.get(body[0]);
        let from_memory = poll == wait::POLL_MEMORY;
        let illegal = holds(function, signed, 0, 0).is_none()
            || !(poll == wait::POLL_REGISTER || from_memory)
            || wait::WRITE_MEMORY.get(body[0]) != 0;
        if illegal {
            let what = format!("FUNCTION {function}, POLL {poll} of {:#x}", body[0]);
            return Err(Broken::new(&BITS, what).into());
        }
        let at = address(body, 1);
        loop {
            let value = match from_memory {
                true => self.fetch_words(around, self.aligned(at, 4)?, 1)?[0],
                false => self.read(around, body[1])?,
            };
            if holds(function, signed, value & mask, reference) == Some(true) {
                return Ok(());
            }
            // While it polls, what is under way goes on.
            if self.writes.has(Via::Commands) {
                self.land(around)?;
            } else if !self.advance(around)? {
                let sign = ["", "<", "<=", "==", "!=", ">=", ">"].get(function as usize);
                let why = format!(
                    "{value:#x} & {mask:#x} {} {reference:#x}",
                    sign.unwrap_or(&"")
                );
                return Err(Stop::Wait(Wait {
                    at: from_memory.then_some(at),
                    held: value.into(),
                    why,
                }));
            }
        }
    }

    fn event(&mut self, body: &[u32]) -> Result<(), Stop> {
        let number = event_write_0::EVENT.get(body[0]);
        let known = event_writes(number)
            || CCU.contains(&number)
            || matches!(
                number,
                event_write_0::CACHE_INVALIDATE
                    | event_write_0::START_COMPUTE_CTRS
                    | event_write_0::STOP_COMPUTE_CTRS
                    | event_write_0::DEBUG_LABEL
            );
        if !known {
            return Err(Broken::new(&EVENT, format!("event {number}")).into());
        }
        let write = match *body {
            [first, _, _, word] => {
                let stamp = event_write_0::TIMESTAMP.get(first) != 0;
                let at = self.aligned(address(body, 1), if stamp { 8 } else { 4 })?;
                Some((
                    at,
                    if stamp {
                        Value::Counter
                    } else {
                        Value::Word(word)
                    },
                ))
            }
            _ => None,
        };
        self.pipe.event(number, write);
        Ok(())
    }

    fn mark(&mut self, word: u32) -> Result<(), Stop> {
        let mode = set_marker_0::MODE.get(word);
        if !(1..=8).contains(&mode) && mode != 12 {
            return Err(Broken::new(&MARKER, format!("mode {mode}")).into());
        }
        self.marker = Some(word);
        Ok(())
    }

    /// REG_TEST: REG 17:0, BIT 24:20, SKIP_WAIT_FOR_ME 25.
    fn test(&mut self, around: &mut Around<'_>, word: u32) -> Result<(), Stop> {
        if word & !0x03f3_ffff != 0 {
            return Err(Broken::new(&BITS, format!("REG_TEST {word:#x}")).into());
        }
        let value = self.read(around, word & 0x3_ffff)?;
        self.predicate = value >> (word >> 20 & 0x1f) & 1 == 1;
        Ok(())
    }

    fn condition(&mut self, body: &[u32]) -> Result<(), Stop> {
        if body[0] != more::PRED_TEST << 28 {
            let what = format!("COND_REG_EXEC {:#x}: expected PRED_TEST", body[0]);
            return Err(Broken::new(&BITS, what).into());
        }
        self.leave_out(!self.predicate, body.len(), body[1])
    }

    fn condition_of_memory(&mut self, around: &mut Around<'_>, body: &[u32]) -> Result<(), Stop> {
        let first = self.fetch_words(around, self.aligned(address(body, 0), 4)?, 1)?[0];
        let second = self.fetch_words(around, self.aligned(address(body, 2), 4)?, 1)?[0];
        let runs = first != 0 && (second as i32) < body[4] as i32;
        self.leave_out(!runs, body.len(), body[5])
    }

    /// Leaves out what follows, or not.
    fn leave_out(&mut self, whether: bool, count: usize, dwords: u32) -> Result<(), Stop> {
        let dwords = dwords as usize;
        let left = self
            .stack
            .last()
            .map_or(0, |frame| frame.words.len() - frame.at - 1 - count);
        if dwords > left {
            let what = format!("{dwords} dwords, {left} are left");
            return Err(Broken::new(&SKIP, what).into());
        }
        if whether {
            self.skip(count, dwords);
        }
        Ok(())
    }
}
