//! The scheduler of the graphics block (MES): two pipes of a micro engine of its own, ME 3. The second takes packets by
//! which the kernel driver maps queues (KIQ), among them that of the first, which takes frames (`frame`).

mod frame;
mod kiq;

use drivers_spec::amd::fw_type::GfxFwType as Fw;
use drivers_spec::amd::packet::Gfx;
use twin::pci::Broken;
use twin::rule::{Proof, Rule};
use twin_shader::page::Access;

use super::hqd::Bank;
use super::registers::{At, Hook, held, hold};
use super::state::State;
use super::{graphics, hqd, kernel};

/// The firmware of a pipe starts where its header says.
pub static START: Rule = Rule {
    name: "GFX-MES-START",
    text: "a pipe of the scheduler (MES) is activated after its reset, with its firmware loaded and \
           CP_MES_PRGRM_CNTR_START of that pipe set to the firmware's start, in dwords",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/mes_v11_0.c, mes_v11_0_enable; the start in mes_firmware_header_v1_0 of gc_11_0_0_mes_2.bin and gc_11_0_0_mes1.bin",
    proof: Proof::Sourced,
};

/// A queue that is mapped has a descriptor.
pub static MAPPED: Rule = Rule {
    name: "GFX-MES-MAP",
    text: "a queue that KIQ or MES map has a descriptor at the given address, with the header of a compute descriptor \
           and the given doorbell, and an existing slot",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/gfx_v11_0.c, gfx11_kiq_map_queues; mes_v11_0.c, mes_v11_0_map_legacy_queue, mes_v11_0_mqd_init",
    proof: Proof::Sourced,
};

/// A doorbell says how far the driver is.
pub static WPTR: Rule = Rule {
    name: "GFX-MES-WPTR",
    text: "doorbells of KIQ and MES carry the number of dwords written since the queue was created: at least the dwords \
           read, and at most a ring more",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/mes_v11_0.c, mes_v11_0_ring_set_wptr: a pointer of 64 bits that does not wrap; amdgpu_ring.c, amdgpu_ring_alloc",
    proof: Proof::Sourced,
};

/// The micro engine that it is.
pub(super) const ME: u32 = 3;
/// Its pipes, by what their queue takes.
const FRAMES: u32 = 0;
const PACKETS: u32 = 1;
const PIPES: usize = 2;

/// The number of the command processor for compute among the clients of the GC hub: Linux, gfxhub_v3_0.c,
/// `gfxhub_client_ids`, CPC.
const CLIENT: u32 = 5;
/// Where firmware of both starts, in bytes.
const ENTRY: u64 = 0xffff_ffff_f000_5000;
/// What it says of itself once it runs: 11:0 its version, 23:12 that of its frames. Made up: the first by which Linux has it map
/// the kernel's queues (`enable_legacy_queue_map`).
const VERSION: u32 = 2 << 12 | 0x47;

/// Bits of CP_MES_CNTL: of the first pipe, the second's are next to them. Source: gc_11_0_0_sh_mask.h.
const RESET: u32 = 16;
const ACTIVE: u32 = 26;
const HALT: u32 = 30;

/// A pipe.
#[derive(Clone, Copy, Default)]
struct Pipe {
    /// CP_MES_PRGRM_CNTR_START, low and high.
    start: [u32; 2],
    in_reset: bool,
    runs: bool,
    /// Dwords that its queue has taken.
    taken: u64,
}

/// Both pipes.
#[derive(Default)]
pub(super) struct Mes {
    pipes: [Pipe; PIPES],
    /// The scheduler has been told what the card has.
    has_resources: bool,
}

impl Mes {
    /// Whether a pipe takes what its queue has.
    pub(super) fn runs(&self, pipe: u32) -> bool {
        self.pipes.get(pipe as usize).is_some_and(|pipe| pipe.runs)
    }
}

pub(super) const HOOKS: &[Hook] = &[
    Hook::write(&kernel::CP_MES_CNTL, control),
    Hook::both(&kernel::CP_MES_PRGRM_CNTR_START, read_start, write_start),
    Hook::both(&kernel::CP_MES_PRGRM_CNTR_START_HI, read_start, write_start),
    Hook::read(&kernel::CP_MES_GP3_LO, version),
];

/// Whether a chip has one that is modelled, and a place is in it.
pub(super) fn has(gfx: Gfx, bank: Bank) -> bool {
    gfx == Gfx::Gfx11 && bank.me == ME && (bank.pipe as usize) < PIPES && bank.queue == 0
}

/// The pipe that is selected.
fn selected(state: &State, at: At) -> Option<usize> {
    let selected = graphics::selected(state, at.instance);
    let is_one = selected.me == ME && (selected.pipe as usize) < PIPES;
    is_one.then_some(selected.pipe as usize)
}

fn is_high(at: At) -> usize {
    usize::from(at.is(&kernel::CP_MES_PRGRM_CNTR_START_HI))
}

fn read_start(state: &mut State, at: At) -> Result<u32, Broken> {
    Ok(selected(state, at).map_or(0, |pipe| state.mes.pipes[pipe].start[is_high(at)]))
}

fn write_start(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    graphics::is_loaded(state, at)?;
    let Some(pipe) = selected(state, at) else {
        let what = format!("{} without ME {ME} selected", at.reg.word.name);
        return Err((&hqd::SELECT, what));
    };
    state.mes.pipes[pipe].start[is_high(at)] = value;
    Ok(())
}

fn version(state: &mut State, at: At) -> Result<u32, Broken> {
    match selected(state, at) {
        Some(pipe) if state.mes.pipes[pipe].runs => Ok(VERSION),
        Some(_) => Ok(0),
        None => held(state, at),
    }
}

fn control(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    graphics::is_loaded(state, at)?;
    let bit = |shift: u32| value >> shift & 1 == 1;
    for pipe in 0..PIPES {
        let in_reset = bit(RESET + pipe as u32);
        let runs = bit(ACTIVE + pipe as u32) && !in_reset && !bit(HALT);
        let before = state.mes.pipes[pipe];
        if runs && !before.runs {
            check_start(state, pipe)?;
        }
        if before.runs && !runs {
            hqd::stop(state, at.instance, |bank| {
                bank.me == ME && bank.pipe as usize == pipe
            });
            state.mes.has_resources = false;
        }
        let pipe = &mut state.mes.pipes[pipe];
        (pipe.in_reset, pipe.runs) = (in_reset, runs);
    }
    hold(state, at, value)
}

fn check_start(state: &State, pipe: usize) -> Result<(), Broken> {
    let Pipe {
        start: [low, high],
        in_reset,
        ..
    } = state.mes.pipes[pipe];
    let firmware = match pipe as u32 {
        FRAMES => [Fw::CP_MES, Fw::RS64_MES],
        _ => [Fw::CP_MES_KIQ, Fw::RS64_KIQ],
    };
    let start = (u64::from(high) << 32 | u64::from(low)) << 2;
    let wrong = match () {
        () if !firmware.iter().any(|fw| state.psp.has(*fw)) => "without its firmware".to_owned(),
        () if !in_reset => "without a reset before".to_owned(),
        () if start != ENTRY => format!("at {start:#x}, not at {ENTRY:#x}"),
        () => return Ok(()),
    };
    Err((&START, format!("pipe {pipe} would start {wrong}")))
}

/// Its queue becomes active: it has taken nothing.
pub(super) fn begin(state: &mut State, pipe: u32, from: u64) {
    if let Some(pipe) = state.mes.pipes.get_mut(pipe as usize) {
        pipe.taken = from;
    }
}

/// A doorbell is rung up to a number of dwords: what the queue that has it has not taken yet, if it is one of these.
pub(super) fn ring(state: &mut State, doorbell: u64, dwords: u64) -> Result<(), Broken> {
    for pipe in [FRAMES, PACKETS] {
        let bank = Bank {
            me: ME,
            pipe,
            queue: 0,
        };
        let ring = hqd::ring_of(state, bank, doorbell);
        let Some((base, bytes)) = ring else { continue };
        let taken = state.mes.pipes[pipe as usize].taken;
        if dwords < taken || dwords - taken > bytes / 4 {
            let what = format!("{dwords:#x} after {taken:#x}, in a ring of {bytes:#x} bytes");
            return Err((&WPTR, what));
        }
        let words: Option<Vec<u32>> = (taken..dwords)
            .map(|at| word(state, base + at * 4 % bytes))
            .collect();
        // What it cannot read is a fault, which its hub has told.
        let Some(words) = words else { return Ok(()) };
        state.mes.pipes[pipe as usize].taken = dwords;
        match pipe {
            PACKETS => kiq::take(state, &words)?,
            _ => frame::take(state, &words)?,
        }
    }
    Ok(())
}

fn word(state: &State, at: u64) -> Option<u32> {
    let mut bytes = [0; 4];
    let read = state.hubs.gc(0)?.read(CLIENT, at, &mut bytes);
    read.ok().map(|()| u32::from_le_bytes(bytes))
}

/// Writes to memory. What it cannot write is a fault, which its hub has told.
fn store(state: &State, at: u64, data: &[u8]) {
    if let Some(hub) = state.hubs.gc(0) {
        _ = hub.write(CLIENT, at, data);
    }
}

/// What is asked to be mapped: a queue in a place, by its descriptor.
#[derive(Clone, Copy, Debug)]
struct Map {
    bank: Bank,
    mqd: u64,
    /// In dwords of BAR 2.
    doorbell: u32,
}

/// Maps a queue.
fn map(state: &mut State, map: Map) -> Result<(), Broken> {
    /// Dwords of a descriptor, and its header: `v11_compute_mqd`.
    const DWORDS: usize = 512;
    const HEADER: u32 = 0xc031_0800;
    let broken = |what: &str| Err((&MAPPED, format!("{map:x?}: {what}")));
    let mut bytes = vec![0; DWORDS * 4];
    let hub = state.hubs.gc(0).cloned();
    let read = hub.map(|hub| {
        // So that the fault is told once.
        hub.translate(0, map.mqd, Access::Read)
            .and_then(|_| hub.read(CLIENT, map.mqd, &mut bytes))
    });
    if !matches!(read, Some(Ok(()))) {
        return broken("nothing is mapped there");
    }
    let words: Vec<_> = bytes
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect();
    if words[0] != HEADER {
        return broken(&format!("its header is {:#x}", words[0]));
    }
    if !hqd::has(state, map.bank) {
        return broken("the chip has no such place");
    }
    hqd::map(state, map.bank, &words, u64::from(map.doorbell) * 4)
}
