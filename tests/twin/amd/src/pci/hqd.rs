//! Hardware queue descriptors: the registers of a compute queue, one set for each queue of each pipe. Written to
//! CP_HQD_ACTIVE, they become a queue, whose descriptor in memory (MQD) the command processor loads the rest
//! from.

use std::collections::BTreeMap;

use drivers_spec::amd::mmio::{Reg, gc};
use twin::pci::Broken;
use twin::rule::{Proof, Rule};
use twin_shader::page::Access;

use super::engines::Wanted;
use super::graphics::{self, Selected, selected, units, xcc};
use super::registers::{At, Hook};
use super::state::State;
use super::wait::{Looks, Wait};
use crate::cp::dispatch::{PRIVATE_APERTURE, SHARED_APERTURE};
use crate::gpu::{QueueId, QueueKind};

/// Registers of queues are those of the queue that is selected.
pub static SELECT: Rule = Rule {
    name: "GFX-HQD-SELECT",
    text: "registers of a queue are accessed while GRBM_GFX_CNTL selects a pipe for compute that the chip has (ME 1, or ME 2 where there are two), and a queue of it",
    source: "Linux, gfx_v11_0.c, soc21_grbm_select before gfx_v11_0_kiq_init_register; num_pipe_per_mec, num_queue_per_pipe",
    proof: Proof::Sourced,
};

/// A queue is not changed below itself.
pub static BUSY: Rule = Rule {
    name: "GFX-HQD-BUSY",
    text: "registers of a queue are written while it is not active: DEQUEUE_REQUEST takes it off, and CP_HQD_ACTIVE tells when that is done",
    source: "Linux, gfx_v11_0.c, gfx_v11_0_kiq_init_register: disable the queue if it is active",
    proof: Proof::Sourced,
};

/// Queues run on processors that do.
pub static RUNS: Rule = Rule {
    name: "GFX-HQD-RUNS",
    text: "a queue is made active on a pipe that runs: its firmware started, not halted, not in reset",
    source: "Linux, gfx_v11_0.c, gfx_v11_0_cp_resume: gfx_v11_0_cp_compute_enable comes before the queues",
    proof: Proof::Sourced,
};

/// What a queue cannot be without.
pub static NEEDS: Rule = Rule {
    name: "GFX-HQD-NEEDS",
    text: "an active queue has a ring of at least 1024 bytes, addresses for its read and write pointer, an end-of-pipe buffer, and equal read and write pointers",
    source: "Linux, gfx_v11_0.c, gfx_v11_0_compute_mqd_init",
    proof: Proof::Sourced,
};

/// Its doorbell reaches it.
pub static DOORBELL: Rule = Rule {
    name: "GFX-HQD-DOORBELL",
    text: "the doorbell of a queue is enabled, its own, and inside of CP_MEC_DOORBELL_RANGE",
    source: "Linux, gfx_v11_0.c, gfx_v11_0_compute_mqd_init, gfx_v11_0_cp_set_doorbell_range",
    proof: Proof::Sourced,
};

/// Shaders need to know where LDS and scratch are.
pub static APERTURES: Rule = Rule {
    name: "GFX-SH-MEM",
    text: "the VMID of a queue has addresses of 64 bits and unaligned accesses in SH_MEM_CONFIG, and the apertures of LDS and scratch in SH_MEM_BASES",
    source: "Linux, gfx_v11_0.c, DEFAULT_SH_MEM_CONFIG; gfx_v11_0_init_compute_vmid, LDS_APP_BASE, SCRATCH_APP_BASE",
    proof: Proof::Sourced,
};

/// What a queue is loaded from says the same.
pub static MQD: Rule = Rule {
    name: "GFX-MQD",
    text: "the descriptor at CP_MQD_BASE_ADDR is there when its queue gets its first work: header 0xc0310800, compute units of every engine, and from dword 128 on the registers of the queue",
    source: "Linux, gfx_v11_0.c, gfx_v11_0_compute_mqd_init; CP_HQD_PERSISTENT_STATE.PRELOAD_REQ; include/v11_structs.h",
    proof: Proof::Sourced,
};

/// Which queue: micro engine, pipe, number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Bank {
    pub(super) me: u32,
    pub(super) pipe: u32,
    pub(super) queue: u32,
}

/// The registers of a queue, and what came of them.
#[derive(Default)]
pub(super) struct Hqd {
    words: BTreeMap<u64, u32>,
    queue: Option<QueueId>,
    /// It was asked to leave: how, and how long that takes.
    leaves: Option<(u32, Looks)>,
    /// The MQD was loaded.
    loaded: bool,
}

/// Hooks for registers that are there once for each queue.
macro_rules! banked {
    ($($name:ident)*) => {
        &[
            Hook::both(&gc::CP_HQD_ACTIVE, read_active, write_active),
            Hook::both(&gc::CP_HQD_DEQUEUE_REQUEST, read, write_dequeue),
            Hook::write(&gc::SPI_COMPUTE_QUEUE_RESET, write_reset),
            $(Hook::both(&gc::$name, read, write),)*
        ]
    };
}

pub(super) const HOOKS: &[Hook] = banked! {
    CP_MQD_BASE_ADDR CP_MQD_BASE_ADDR_HI CP_HQD_VMID CP_HQD_PERSISTENT_STATE CP_HQD_PIPE_PRIORITY
    CP_HQD_QUEUE_PRIORITY CP_HQD_QUANTUM CP_HQD_PQ_BASE CP_HQD_PQ_BASE_HI CP_HQD_PQ_RPTR
    CP_HQD_PQ_RPTR_REPORT_ADDR CP_HQD_PQ_RPTR_REPORT_ADDR_HI CP_HQD_PQ_WPTR_POLL_ADDR
    CP_HQD_PQ_WPTR_POLL_ADDR_HI CP_HQD_PQ_DOORBELL_CONTROL CP_HQD_PQ_CONTROL CP_HQD_IB_BASE_ADDR
    CP_HQD_IB_BASE_ADDR_HI CP_HQD_IB_RPTR CP_HQD_IB_CONTROL CP_HQD_IQ_TIMER CP_HQD_IQ_RPTR
    CP_HQD_DMA_OFFLOAD CP_HQD_OFFLOAD CP_HQD_SEMA_CMD CP_HQD_MSG_TYPE CP_HQD_ATOMIC0_PREOP_LO
    CP_HQD_ATOMIC0_PREOP_HI CP_HQD_ATOMIC1_PREOP_LO CP_HQD_ATOMIC1_PREOP_HI CP_HQD_HQ_SCHEDULER0
    CP_HQD_HQ_STATUS0 CP_HQD_HQ_CONTROL0 CP_HQD_HQ_SCHEDULER1 CP_MQD_CONTROL CP_HQD_HQ_STATUS1
    CP_HQD_HQ_CONTROL1 CP_HQD_EOP_BASE_ADDR CP_HQD_EOP_BASE_ADDR_HI CP_HQD_EOP_CONTROL CP_HQD_EOP_RPTR
    CP_HQD_EOP_WPTR CP_HQD_EOP_EVENTS CP_HQD_CTX_SAVE_BASE_ADDR_LO CP_HQD_CTX_SAVE_BASE_ADDR_HI
    CP_HQD_CTX_SAVE_CONTROL CP_HQD_CNTL_STACK_OFFSET CP_HQD_CNTL_STACK_SIZE CP_HQD_WG_STATE_OFFSET
    CP_HQD_CTX_SAVE_SIZE CP_HQD_GDS_RESOURCE_STATE CP_HQD_ERROR CP_HQD_EOP_WPTR_MEM CP_HQD_AQL_CONTROL
    CP_HQD_PQ_WPTR_LO CP_HQD_PQ_WPTR_HI
};

/// The queue that is selected.
fn bank(state: &State, at: At) -> Result<Bank, Broken> {
    let Selected {
        me, pipe, queue, ..
    } = selected(state, at.instance);
    let (pipes, queues) = units(state.gfx);
    let mes = if state.gfx == drivers_spec::amd::packet::Gfx::Gfx9 {
        1..=2
    } else {
        1..=1
    };
    if !mes.contains(&me) || pipe >= pipes || queue >= queues {
        let name = at.reg.word.name;
        let what = format!("{name} with ME {me}, pipe {pipe}, queue {queue} selected");
        return Err((&SELECT, what));
    }
    Ok(Bank { me, pipe, queue })
}

fn hqd(state: &mut State, at: At) -> Result<&mut Hqd, Broken> {
    let bank = bank(state, at)?;
    Ok(xcc(state, at)?.hqds.entry(bank).or_default())
}

fn read(state: &mut State, at: At) -> Result<u32, Broken> {
    let hqd = hqd(state, at)?;
    let word = hqd.words.get(&at.dword).copied().unwrap_or(0);
    let Some((rptr, wptr)) = hqd.queue.and_then(|queue| state.engines.pointers(queue)) else {
        return Ok(word);
    };
    // While the queue is there, its registers tell how far it is.
    Ok(match () {
        () if at.is(&gc::CP_HQD_PQ_RPTR) => rptr as u32,
        () if at.is(&gc::CP_HQD_PQ_WPTR_LO) => wptr as u32,
        () if at.is(&gc::CP_HQD_PQ_WPTR_HI) => (wptr >> 32) as u32,
        () => word,
    })
}

fn write(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    graphics::is_loaded(state, at)?;
    let hqd = hqd(state, at)?;
    if hqd.queue.is_some() {
        let what = format!("{} is written with {value:#x}", at.reg.word.name);
        return Err((&BUSY, what));
    }
    hqd.words.insert(at.dword, value);
    Ok(())
}

fn read_active(state: &mut State, at: At) -> Result<u32, Broken> {
    let hqd = hqd(state, at)?;
    let Some(queue) = hqd.queue else {
        return Ok(0);
    };
    /// `DEQUEUE_REQUEST`: take packets until there are none. Others end waves.
    const DRAIN: u32 = 1;
    if let Some((how, mut looks)) = hqd.leaves {
        let done = looks.look();
        hqd.leaves = Some((how, looks));
        if done && (how != DRAIN || state.engines.is_idle(queue)) {
            end(state, at)?;
            return Ok(0);
        }
    }
    Ok(1)
}

/// The selected queue is no more.
fn end(state: &mut State, at: At) -> Result<(), Broken> {
    let hqd = hqd(state, at)?;
    let queue = hqd.queue.take();
    (hqd.leaves, hqd.loaded) = (None, false);
    let Some(queue) = queue else {
        return Ok(());
    };
    // Where it was stays in its registers.
    let pointers = state.engines.pointers(queue);
    state.engines.stop(queue);
    if let Some((rptr, wptr)) = pointers {
        for (reg, value) in [
            (&gc::CP_HQD_PQ_RPTR, rptr as u32),
            (&gc::CP_HQD_PQ_WPTR_LO, wptr as u32),
            (&gc::CP_HQD_PQ_WPTR_HI, (wptr >> 32) as u32),
        ] {
            if let Some(dword) = state.registers.place(reg, at.instance) {
                self::hqd(state, at)?.words.insert(dword, value);
            }
        }
    }
    Ok(())
}

/// Queues end with their pipe.
pub(super) fn stop(state: &mut State, instance: u8, which: impl Fn(Bank) -> bool) {
    let Some(xcc) = state.graphics.xccs.get_mut(usize::from(instance)) else {
        return;
    };
    let of = xcc.hqds.iter_mut().filter(|(bank, _)| which(**bank));
    let queues: Vec<_> = of.filter_map(|(_, hqd)| hqd.queue.take()).collect();
    for queue in queues {
        state.engines.stop(queue);
    }
}

/// All queues end.
pub(super) fn reset(state: &mut State) {
    for instance in 0..state.graphics.xccs.len() as u8 {
        stop(state, instance, |_| true);
    }
}

fn write_dequeue(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    graphics::is_loaded(state, at)?;
    let how = state.field_of(at.reg, value, "dequeue_req");
    let looks = state.waits(Wait::Dequeue);
    let hqd = hqd(state, at)?;
    hqd.words.insert(at.dword, value);
    if hqd.queue.is_some() && how != 0 {
        hqd.leaves = Some((how, looks));
    }
    Ok(())
}

/// Waves of the queue end.
fn write_reset(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    bank(state, at)?;
    graphics::is_loaded(state, at)?;
    super::registers::hold(state, at, value)
}

fn write_active(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    graphics::is_loaded(state, at)?;
    let active = value & 1 == 1;
    let is_active = hqd(state, at)?.queue.is_some();
    match (is_active, active) {
        (true, _) => Err((&BUSY, format!("CP_HQD_ACTIVE is written with {value:#x}"))),
        (false, false) => Ok(()),
        (false, true) => activate(state, at),
    }
}

/// What the registers of a queue say.
struct View<'a> {
    state: &'a State,
    hqd: &'a Hqd,
    xcc: u8,
}

impl View<'_> {
    fn get(&self, reg: &Reg) -> u32 {
        let dword = self.state.registers.place(reg, self.xcc);
        let word = dword.and_then(|dword| self.hqd.words.get(&dword));
        word.copied().unwrap_or(0)
    }

    fn field(&self, reg: &Reg, name: &str) -> u32 {
        self.state.field_of(reg, self.get(reg), name)
    }

    fn wide(&self, low: &Reg, high: &Reg) -> u64 {
        u64::from(self.get(low)) | u64::from(self.get(high)) << 32
    }

    /// The byte of BAR 2 that rings it.
    fn doorbell(&self) -> u64 {
        let reg = &gc::CP_HQD_PQ_DOORBELL_CONTROL;
        u64::from(self.field(reg, "doorbell_offset")) * 4
    }

    fn wanted(&self, bank: Bank) -> Result<Wanted, Broken> {
        let needs = |what: String| Err((&NEEDS, what));
        let ring = self.wide(&gc::CP_HQD_PQ_BASE, &gc::CP_HQD_PQ_BASE_HI) << 8;
        let bytes = 8u64 << self.field(&gc::CP_HQD_PQ_CONTROL, "queue_size");
        if ring == 0 || bytes < 1024 {
            return needs(format!("a ring of {bytes:#x} bytes at {ring:#x}"));
        }
        let rptr = self.wide(
            &gc::CP_HQD_PQ_RPTR_REPORT_ADDR,
            &gc::CP_HQD_PQ_RPTR_REPORT_ADDR_HI,
        );
        let wptr = self.wide(
            &gc::CP_HQD_PQ_WPTR_POLL_ADDR,
            &gc::CP_HQD_PQ_WPTR_POLL_ADDR_HI,
        );
        if rptr == 0 || wptr == 0 {
            return needs(format!(
                "the read pointer at {rptr:#x}, the write pointer at {wptr:#x}"
            ));
        }
        let eop = self.wide(&gc::CP_HQD_EOP_BASE_ADDR, &gc::CP_HQD_EOP_BASE_ADDR_HI) << 8;
        let eop_bytes = 8u64 << self.field(&gc::CP_HQD_EOP_CONTROL, "eop_size");
        if eop == 0 {
            return needs("no end-of-pipe buffer".into());
        }
        let from = u64::from(self.get(&gc::CP_HQD_PQ_RPTR));
        let to = self.wide(&gc::CP_HQD_PQ_WPTR_LO, &gc::CP_HQD_PQ_WPTR_HI);
        if from != to {
            return needs(format!("read pointer {from:#x}, write pointer {to:#x}"));
        }
        let aql = self.field(&gc::CP_HQD_PQ_CONTROL, "slot_based_wptr") != 0;
        Ok(Wanted {
            kind: if aql { QueueKind::Aql } else { QueueKind::Pm4 },
            xcc: self.xcc.into(),
            vmid: self.field(&gc::CP_HQD_VMID, "vmid"),
            ring: (ring, bytes),
            rptr,
            wptr,
            eop: (eop, eop_bytes),
            from,
            doorbell: self.doorbell(),
            ring_id: bank.pipe | bank.me << 2 | bank.queue << 4,
        })
    }

    fn check_doorbell(&self) -> Result<(), Broken> {
        let control = &gc::CP_HQD_PQ_DOORBELL_CONTROL;
        let limit = |reg: &Reg| u64::from(self.state.registers.get(reg, self.xcc) & 0x0fff_fffc);
        let (low, high) = (
            limit(&gc::CP_MEC_DOORBELL_RANGE_LOWER),
            limit(&gc::CP_MEC_DOORBELL_RANGE_UPPER),
        );
        let bell = self.doorbell();
        let enabled = self.field(control, "doorbell_en") == 1;
        if !enabled || !(low..=high).contains(&bell) {
            let how = if enabled { "enabled" } else { "not enabled" };
            let what = format!("{how}, at byte {bell:#x}, in a range from {low:#x} to {high:#x}");
            return Err((&DOORBELL, what));
        }
        let mut others = self.state.graphics.xccs[usize::from(self.xcc)]
            .hqds
            .values();
        let same = |other: &Hqd| {
            let other = View {
                hqd: other,
                ..*self
            };
            other.hqd.queue.is_some() && other.doorbell() == bell
        };
        if others.any(same) {
            let what = format!("byte {bell:#x} is the doorbell of another queue");
            return Err((&DOORBELL, what));
        }
        Ok(())
    }

    fn check_memory(&self, vmid: u32) -> Result<(), Broken> {
        let [config, bases] = self.state.graphics.xccs[usize::from(self.xcc)].memory(vmid);
        let field = |name| self.state.field_of(&gc::SH_MEM_CONFIG, config, name);
        /// `SH_MEM_ALIGNMENT_MODE_UNALIGNED`.
        const UNALIGNED: u32 = 3;
        let wide = field("address_mode") == 0 && field("alignment_mode") == UNALIGNED;
        let apertures = SHARED_APERTURE & 0xffff_0000 | PRIVATE_APERTURE >> 16;
        if wide && bases == apertures {
            return Ok(());
        }
        let what = format!("VMID {vmid}: SH_MEM_CONFIG {config:#x}, SH_MEM_BASES {bases:#x}");
        Err((&APERTURES, what))
    }
}

fn activate(state: &mut State, at: At) -> Result<(), Broken> {
    let bank = bank(state, at)?;
    hqd(state, at)?;
    let xcc = &state.graphics.xccs[usize::from(at.instance)];
    if !xcc.runs(bank.pipe) {
        return Err((&RUNS, format!("pipe {} of ME {}", bank.pipe, bank.me)));
    }
    let view = View {
        state,
        hqd: &xcc.hqds[&bank],
        xcc: at.instance,
    };
    let wanted = view.wanted(bank)?;
    view.check_doorbell()?;
    view.check_memory(wanted.vmid)?;
    let queue = state.engines.start(&wanted);
    hqd(state, at)?.queue = queue;
    Ok(())
}

/// The doorbell of a queue for compute at a byte of BAR 2. Whether there is one.
pub(super) fn ring(state: &mut State, offset: u64) -> Result<bool, Broken> {
    let mut found = None;
    for (number, xcc) in state.graphics.xccs.iter().enumerate() {
        for (bank, hqd) in xcc.hqds.iter().filter(|(_, hqd)| hqd.queue.is_some()) {
            let view = View {
                state,
                hqd,
                xcc: number as u8,
            };
            if view.doorbell() == offset {
                if !hqd.loaded {
                    view.load()?;
                }
                found = Some((number, *bank));
            }
        }
    }
    let Some((number, bank)) = found else {
        return Ok(false);
    };
    if let Some(hqd) = state.graphics.xccs[number].hqds.get_mut(&bank) {
        hqd.loaded = true;
    }
    Ok(true)
}

/// Dwords of an MQD that the registers of its queue come from, from its dword 128 on.
const FROM: usize = 0x80;
/// Dwords of an MQD.
const DWORDS: usize = 512;

impl View<'_> {
    /// The command processor loads the rest of the queue from memory.
    fn load(&self) -> Result<(), Broken> {
        if self.field(&gc::CP_HQD_PERSISTENT_STATE, "preload_req") == 0 {
            return Ok(());
        }
        let at = self.wide(&gc::CP_MQD_BASE_ADDR, &gc::CP_MQD_BASE_ADDR_HI);
        let broken = |what: String| Err((&MQD, format!("at {at:#x}: {what}")));
        let hub = self.state.hubs.gc(self.xcc.into());
        let to = hub.and_then(|hub| hub.translate(0, at, Access::Read).ok());
        let Some(to) = to else {
            return broken("nothing is mapped there".into());
        };
        let mut bytes = vec![0; DWORDS * 4];
        let who = "the command processor, which loads an MQD".into();
        if let Err(missing) = self.state.physical.read(to.place, &mut bytes, &who) {
            return broken(missing.to_string());
        }
        let words: Vec<_> = bytes
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect();
        /// `header` of `v11_compute_mqd`.
        const HEADER: u32 = 0xc031_0800;
        if words[0] != HEADER {
            return broken(format!("its header is {:#x}", words[0]));
        }
        // compute_static_thread_mgmt_se0 to 3.
        for dword in [0x17, 0x18, 0x1a, 0x1b] {
            if words[dword] == 0 {
                return broken(format!("dword {dword:#x}: an engine without compute units"));
            }
        }
        // What the command processor writes itself.
        let own = [
            &gc::CP_HQD_ACTIVE,
            &gc::CP_HQD_DEQUEUE_REQUEST,
            &gc::CP_HQD_PQ_RPTR,
            &gc::CP_HQD_PQ_WPTR_LO,
            &gc::CP_HQD_PQ_WPTR_HI,
        ];
        let first = self.state.registers.place(&gc::CP_MQD_BASE_ADDR, self.xcc);
        for (dword, value) in &self.hqd.words {
            let Some(index) = first.and_then(|first| dword.checked_sub(first)) else {
                continue;
            };
            let slot = self.state.registers.slot(*dword);
            let is_own = slot.is_none_or(|slot| own.iter().any(|reg| slot.at.is(reg)));
            let word = words.get(FROM + index as usize);
            if !is_own && word.is_some_and(|word| word != value) {
                let name = slot.map_or("", |slot| slot.at.reg.word.name);
                let there = word.copied().unwrap_or(0);
                return broken(format!(
                    "{name} is {there:#x}, and {value:#x} in the register"
                ));
            }
        }
        Ok(())
    }
}
