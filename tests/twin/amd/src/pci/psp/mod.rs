//! The security processor: its bootloader takes the PSP's own firmware part by part until the secure OS runs, which
//! takes that of all other blocks by a ring.

mod apps;
mod image;
mod ring;

use std::collections::BTreeSet;
use std::ops::Range;

use drivers_spec::amd::mmio::mp;
use drivers_spec::amd::psp::{BOOTLOADER_ALIGN, bl, ctrl};
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use self::image::HEADER;
use super::card::Config;
use super::registers::{At, Hook, hold};
use super::state::State;
use super::wait::{Looks, Wait};

/// The bootloader takes parts one by one.
pub static BOOTLOADER: Rule = Rule {
    name: "AMD-PSP-BOOTLOADER",
    text: "a command is sent to the PSP's bootloader when bit 31 of C2PMSG_35 shows that it is ready, each once and in \
           order: keys, patch levels, system driver, drivers of chip, interfaces, debugging, errors, keys of blocks, \
           secure OS; keys, system driver and secure OS are required",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_psp.c, psp_hw_start; psp_v13_0.c, psp_v13_0_wait_for_bootloader",
    proof: Proof::Sourced,
};

/// What it takes is what was said.
pub static IMAGE: Rule = Rule {
    name: "AMD-PSP-IMAGE",
    text: "an image for the PSP is complete and of the kind that the command names",
    source: "Debian's firmware-amd-graphics 20250410 and 20260916: headers of the files of all chips here",
    proof: Proof::Observed,
};

/// The ring of the secure OS.
pub static RING: Rule = Rule {
    name: "AMD-PSP-RING",
    text: "a ring is created when the secure OS is ready and has no ring, at a multiple of 4 KiB and with a size of \
           whole frames; its write pointer counts dwords, 16 per frame, and wraps at the end",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/psp_v13_0.c, psp_v13_0_ring_create; amdgpu_psp.c, psp_ring_cmd_submit",
    proof: Proof::Sourced,
};

/// What the PSP has taken is its own.
pub static TMR: Rule = Rule {
    name: "AMD-PSP-TMR",
    text: "the host does not access the trusted memory region after SETUP_TMR",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_psp.c: Trusted Memory Region; what an access does is a guess",
    proof: Proof::Guess,
};

/// The block's number among the clients of the MM hub: Linux, mmhub_v3_0.c, mmhub_client_ids_v3_0_0.
const CLIENT: u32 = 6;

/// What the bootloader says of an image that is none.
const BAD_IMAGE: u32 = 1;

pub(super) const HOOKS: &[Hook] = &[
    Hook::read(&mp::MP0_SMN_C2PMSG_33, started),
    Hook::both(&mp::MP0_SMN_C2PMSG_35, bootloader, load),
    Hook::both(&mp::MP0_SMN_C2PMSG_64, mailbox, command),
    Hook::write(&mp::MP0_SMN_C2PMSG_67, submit),
    Hook::read(&mp::MP0_SMN_C2PMSG_81, alive),
];

/// The order in which the bootloader takes parts, and which it has to have.
const ORDER: [(u32, bool); 9] = [
    (bl::LOAD_KEY_DATABASE, true),
    (bl::LOAD_TOS_SPL_TABLE, false),
    (bl::LOAD_SYSDRV, true),
    (bl::LOAD_SOCDRV, false),
    (bl::LOAD_INTFDRV, false),
    (bl::LOAD_DBGDRV, false),
    (bl::LOAD_RASDRV, false),
    (bl::LOAD_IPKEYMGRDRV, false),
    (bl::LOAD_SOSDRV, true),
];

/// The state of the PSP.
pub(super) struct Psp {
    /// How often its firmware has not started before it has.
    starting: u32,
    /// How many parts of [`ORDER`] have come or been left out.
    next: usize,
    ready: Looks,
    error: u32,
    /// Since the secure OS was loaded.
    alive: Option<Looks>,
    /// Since the last command of the mailbox, and what it came to.
    answer: (Looks, u32),
    ring: Option<ring::Ring>,
    /// What has been loaded, by its number.
    loaded: BTreeSet<u32>,
    has_tmr: bool,
    /// The memory that it keeps for itself.
    tmr: Range<u64>,
    /// What is written when a command is done, after so many looks at it.
    fence: Option<ring::Fence>,
    apps: apps::Apps,
}

impl Psp {
    /// As it is when power has come.
    pub(super) fn new(config: &Config) -> Psp {
        Psp {
            starting: config.starting,
            next: 0,
            ready: Looks::new(config.looks),
            error: 0,
            alive: None,
            answer: (Looks::default(), ctrl::RESPONSE),
            ring: None,
            loaded: BTreeSet::new(),
            has_tmr: false,
            tmr: 0..0,
            fence: None,
            apps: apps::Apps::default(),
        }
    }

    /// Whether the secure OS runs.
    pub(super) fn is_alive(&self) -> bool {
        self.alive.is_some_and(Looks::is_done)
    }

    /// Whether the host may touch a range of VRAM.
    pub(super) fn allows(&self, at: u64, bytes: usize) -> Result<(), Broken> {
        let end = at.saturating_add(bytes as u64);
        match at < self.tmr.end && self.tmr.start < end {
            true => Err((
                &TMR,
                format!("{bytes:#x} bytes at {at:#x}, of {:x?}", self.tmr),
            )),
            false => Ok(()),
        }
    }

    /// Whether firmware of that number is there.
    pub(super) fn has(&self, fw: drivers_spec::amd::fw_type::GfxFwType) -> bool {
        self.loaded.contains(&fw.0)
    }
}

/// The secure OS runs, has a ring, and has loaded what there is.
pub(super) fn leave_running(state: &mut State) {
    let at = state.config.fb + 0x20_0000;
    state.registers.set(&mp::MP0_SMN_C2PMSG_69, 0, at as u32);
    state
        .registers
        .set(&mp::MP0_SMN_C2PMSG_70, 0, (at >> 32) as u32);
    state.registers.set(&mp::MP0_SMN_C2PMSG_71, 0, 0x1000);
    let psp = &mut state.psp;
    psp.next = ORDER.len();
    psp.alive = Some(Looks::default());
    psp.ring = ring::Ring::new(at, 0x1000).ok();
    psp.loaded = image::all().map(|fw| fw.0).collect();
    psp.has_tmr = true;
}

fn started(state: &mut State, _: At) -> Result<u32, Broken> {
    let has_started = state.psp.starting == 0;
    state.psp.starting = state.psp.starting.saturating_sub(1);
    Ok(u32::from(has_started) << 31)
}

fn bootloader(state: &mut State, _: At) -> Result<u32, Broken> {
    let psp = &mut state.psp;
    // Whoever does not ask for its own firmware waits for it here.
    if psp.starting > 0 {
        psp.starting -= 1;
        return Ok(0);
    }
    let is_ready = psp.alive.is_none() && psp.ready.look();
    Ok(match is_ready {
        true => ctrl::RESPONSE | psp.error,
        false => 0,
    })
}

fn load(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    let broken = |what: String| (&BOOTLOADER, format!("command {value:#x}: {what}"));
    if state.psp.alive.is_some() {
        return Err(broken("the secure OS has been started".into()));
    }
    if state.psp.starting > 0 || !state.psp.ready.is_done() {
        return Err(broken("bit 31 of C2PMSG_35 has not been seen".into()));
    }
    let left = &ORDER[state.psp.next.min(ORDER.len())..];
    let found = left.iter().position(|(command, _)| *command == value);
    let found = found.ok_or_else(|| broken("it is none, or comes too late".into()))?;
    if let Some((missing, _)) = left[..found].iter().find(|(_, has_to)| *has_to) {
        return Err(broken(format!("{missing:#x} has to come before")));
    }
    let place = u64::from(state.registers.get(&mp::MP0_SMN_C2PMSG_36, at.instance));
    let place = place * BOOTLOADER_ALIGN;
    hold(state, at, value)?;
    let hub = state.hubs.mm(0);
    let mut start = [0; HEADER];
    let kinds = image::of_command(value).unwrap_or_default();
    let read = hub.read(CLIENT, place, &mut start).and_then(|()| {
        let bytes = image::bytes(&start).min(BOOTLOADER_ALIGN);
        hub.read(CLIENT, place, &mut vec![0; bytes as usize])
    });
    let wrong = match read {
        Ok(()) => image::wrong(&start, kinds, BOOTLOADER_ALIGN),
        Err(fault) => Some(format!("{fault:?}")),
    };
    let (ready, alive) = (state.waits(Wait::Bootloader), state.waits(Wait::SecureOs));
    let answer = state.waits(Wait::Ring);
    let injected = state.config.bootloader_error;
    let injected = injected.filter(|(command, _)| *command == value);
    let psp = &mut state.psp;
    psp.ready = ready;
    psp.error = match injected {
        Some((_, error)) => error & 0xff,
        None => u32::from(wrong.is_some()) * BAD_IMAGE,
    };
    if let Some(wrong) = wrong {
        let what = format!("the image of {value:#x} at {place:#x}: {wrong}");
        return Err((&IMAGE, what));
    }
    if psp.error == 0 {
        psp.next += found + 1;
        if value == bl::LOAD_SOSDRV {
            psp.alive = Some(alive);
            psp.answer = (answer, ctrl::RESPONSE);
        }
    }
    Ok(())
}

fn alive(state: &mut State, _: At) -> Result<u32, Broken> {
    let is_alive = state.psp.alive.as_mut().is_some_and(Looks::look);
    Ok(is_alive.into())
}

fn mailbox(state: &mut State, _: At) -> Result<u32, Broken> {
    let psp = &mut state.psp;
    let (looks, answer) = &mut psp.answer;
    Ok(
        match psp.alive.is_some_and(Looks::is_done) && looks.look() {
            true => *answer,
            false => 0,
        },
    )
}

fn command(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    let broken = |what: &str| (&RING, format!("{value:#x} in C2PMSG_64: {what}"));
    if !state.psp.is_alive() {
        return Err(broken("the secure OS does not run"));
    }
    if !state.psp.answer.0.is_done() {
        return Err(broken("bit 31 has not been seen"));
    }
    hold(state, at, value)?;
    let looks = state.waits(Wait::Ring);
    let answer = match value {
        ctrl::INIT_GPCOM_RING => {
            let get = |reg| state.registers.get(reg, at.instance);
            let low = u64::from(get(&mp::MP0_SMN_C2PMSG_69));
            let high = u64::from(get(&mp::MP0_SMN_C2PMSG_70));
            let bytes = get(&mp::MP0_SMN_C2PMSG_71);
            if state.psp.ring.is_some() {
                return Err(broken("there is a ring, which was not destroyed"));
            }
            state.psp.ring = Some(ring::Ring::new(low | high << 32, bytes)?);
            state.registers.set(&mp::MP0_SMN_C2PMSG_67, at.instance, 0);
            0
        }
        ctrl::DESTROY_RINGS => {
            state.psp.ring = None;
            state.registers.set(&mp::MP0_SMN_C2PMSG_71, at.instance, 0);
            0
        }
        _ => return Err(broken("it is none that is modelled")),
    };
    let injected = state.config.ring_error;
    state.psp.answer = (
        looks,
        ctrl::RESPONSE | injected.unwrap_or(answer) & ctrl::STATUS,
    );
    Ok(())
}

fn submit(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    let old = state.registers.get(at.reg, at.instance);
    let Some(ring) = state.psp.ring.clone() else {
        return Err((
            &RING,
            format!("C2PMSG_67 becomes {value:#x} without a ring"),
        ));
    };
    let frames = ring.frames(old, value)?;
    hold(state, at, value)?;
    for frame in frames {
        ring::run(state, frame);
    }
    Ok(())
}

/// The host reads a range of VRAM: the fence in it may come.
pub(super) fn look(state: &mut State, at: u64, bytes: usize) {
    ring::look(state, at, bytes);
}
