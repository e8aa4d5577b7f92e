//! What FSP starts on GSP: it reads what the host has prepared, lays WPR2 out, and starts GSP's firmware. Until then registers of
//! GSP are FSP's, and then locked.
//!
//! Source: OGKM, kernel_gsp_gh100.c: kgspSetupGspFmcArgs_GH100, kgspCalculateFbLayout_GH100 (what it is handed, and how memory is laid
//! out), _kgspLockdownReleasedOrFmcError, kgspTeardown_GH100; kern_fsp_gh100.c, _kfspIsGspTargetMaskReleased; gspifpub.h.

use std::ops::Range;

use drivers_spec::nv::abi::Branch;
use twin::host::PAGE;
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use crate::pci::booter;
use crate::pci::chip::Fsp as Facts;
use crate::pci::falcon::{self, Engine};
use crate::pci::gsp;
use crate::pci::memory::{long, word};
use crate::pci::meta::{self, Checked, Meta};
use crate::pci::registers::falcon as reg;
use crate::pci::state::State;
use crate::pci::wait::{Looks, Wait};

static TARGET: Rule = Rule {
    name: "NV-GSP-TARGET-MASK",
    text: "registers of GSP are not written while they are FSP's: from the chain of trust on until one of them no longer reads as \
           BADF41XX",
    source: "OGKM, kern_fsp_gh100.c, kfspWaitForGspTargetMaskReleased_GH100; Linux, nova-core/gsp/hal/gh100.rs: GSP register reads are \
             not meaningful until the PRIV target mask is released",
    proof: Proof::Sourced,
};

static PRIV: Rule = Rule {
    name: "NV-GSP-PRIV-LOCKDOWN",
    text: "while HWCFG2.RISCV_BR_PRIV_LOCKDOWN is LOCK, of GSP's registers only HWCFG2, the mailboxes and the RISC-V core's CPUCTL are \
           read, and none is written",
    source: "OGKM, kernel_gsp_gh100.c, _kgspLockdownReleasedOrFmcError: MAILBOX0 can be accessed when GSP PRIV is locked down; Linux, \
             nova-core/gsp/hal/gh100.rs, which reads CPUCTL, too, when the start has failed",
    proof: Proof::Sourced,
};

static STARTED_BY: Rule = Rule {
    name: "NV-GSP-STARTED-BY-FSP",
    text: "the host does not reset GSP, load its memory, select its core or start it: FSP and what it starts do that",
    source: "OGKM, kern_fsp_gh100.c, kfspSafeToSendBootCommands: Enforce GSP-FMC can only be booted by FSP on silicon; kernel_gsp_gh100.c, \
             kgspBootstrap_GH100: the GSP-FMC blocks RISCV_BCR_CTRL reads; kgspTeardown_GH100, without a reset",
    proof: Proof::Sourced,
};

static ARGUMENTS: Rule = Rule {
    name: "NV-FMC-ARGUMENTS",
    text: "gspBootArgsSysmemOffset is a page with GSP_FMC_BOOT_PARAMS: where GspFwWprMeta is, with its 256 bytes, and where the libos \
           arguments are, both in memory of the host; bIsGspRmBoot",
    source: "OGKM, kernel_gsp_gh100.c, kgspSetupGspFmcArgs_GH100; kgspAllocBootArgs_GH100: 0x1000; _kgspLockdownReleasedOrFmcError: the \
             address is told apart from an error code by its alignment; gspifpub.h",
    proof: Proof::Sourced,
};

static SIZES: Rule = Rule {
    name: "NV-FMC-META-SIZES",
    text: "GspFwWprMeta has sizes, and 0 for each place: vgaWorkspaceSize 128 KiB, frtsSize as FSP was told, pmuReservedSize and \
           at least the chip's heap outside of WPR2: 2 MiB on Hopper, 2.125 MiB on Blackwell",
    source: "OGKM, kernel_gsp_gh100.c, kgspCalculateFbLayout_GH100: the actual offsets get filled in by ACR ucode when it sets up WPR2; \
             g_kernel_gsp_nvoc.h, kgspGetNonWprHeapSize; the same in nova-core/gsp/fw.rs and nvkm/subdev/gsp/gh100.c",
    proof: Proof::Sourced,
};

/// What is on its way, and with what.
pub(super) struct Start {
    arguments: u64,
    frts: Range<u64>,
    /// The firmware's version, and what it is started with; when these are known.
    firmware: Option<(&'static str, [u32; 2])>,
}

/// Which registers of GSP the host has.
#[derive(Default)]
pub(super) enum Gate {
    /// Those that it needs for messages. So it is before a chain of trust, too: whether FSP has them already then is not
    /// published, and the vendor's driver rings GSP's queue before.
    #[default]
    Open,
    /// None: they are FSP's.
    Target(Looks, Start),
    /// They are locked, and the mailboxes have the address of the arguments.
    Arguments(Looks, Start),
    /// They are locked, and the mailboxes are empty.
    Locked(Looks, Start),
    /// They are locked, and MAILBOX0 says what was wrong.
    Failed,
    /// GSP ends.
    Ending(Looks),
}

impl Gate {
    /// Whether nothing is on its way.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Gate::Open)
    }

    fn is_locked(&self) -> bool {
        matches!(self, Gate::Arguments(..) | Gate::Locked(..) | Gate::Failed)
    }
}

/// How registers read that are FSP's; the lowest byte says more about the error.
const NOT_YOURS: u32 = 0xbadf_4100 | 0x11;
/// `RISCV_BR_PRIV_LOCKDOWN` of `HWCFG2`, and `RISCV`.
const LOCK: u32 = 1 << 13;
const RISCV: u32 = 1 << 10;

/// Results in MAILBOX0: what the codes of real ones mean is not published.
const BAD_ARGUMENTS: u32 = 0x10;
const BAD_META: u32 = 0x11;
/// With the booter's own codes for images behind it.
const BAD_IMAGE: u32 = 0x20;

/// FSP has verified a chain of trust.
pub(super) fn begins(state: &mut State, arguments: u64, frts: Range<u64>) {
    let start = Start {
        arguments,
        frts,
        firmware: None,
    };
    state.fsp.gate = Gate::Target(state.waits(Wait::Target), start);
}

/// GSP's firmware has been told to end: its core halts, and what has laid WPR2 out takes it down.
pub(in crate::pci) fn ends(state: &mut State) {
    state.fsp.gate = Gate::Ending(state.waits(Wait::Halt));
}

/// The host looks at a register that it waits by: something may be done now.
fn look(state: &mut State, offset: u32) {
    let polled = [reg::HWCFG2, reg::MAILBOX0].contains(&offset);
    let gate = std::mem::take(&mut state.fsp.gate);
    state.fsp.gate = match gate {
        Gate::Target(mut looks, start) if polled => match looks.look() {
            true => {
                let at = start.arguments;
                state.gsp.mailbox = [at as u32, (at >> 32) as u32];
                Gate::Arguments(state.waits(Wait::Fmc), start)
            }
            false => Gate::Target(looks, start),
        },
        Gate::Arguments(mut looks, start) if polled => match looks.look() {
            true => prepares(state, start),
            false => Gate::Arguments(looks, start),
        },
        Gate::Locked(mut looks, start) if polled => match looks.look() {
            true => {
                if let Some((version, arguments)) = start.firmware {
                    booter::start_core(state);
                    gsp::start(state, version, arguments);
                }
                Gate::Open
            }
            false => Gate::Locked(looks, start),
        },
        Gate::Ending(mut looks) if offset == reg::RISCV_CPUCTL => match looks.look() {
            true => {
                state.gsp.riscv = None;
                state.vram.wpr2 = None;
                state.vram.plain_heap = None;
                Gate::Open
            }
            false => Gate::Ending(looks),
        },
        other => other,
    };
}

/// It reads its arguments and verifies what they lead to.
fn prepares(state: &mut State, mut start: Start) -> Gate {
    state.gsp.mailbox = [0, 0];
    match verify(state, &start) {
        Ok(firmware) => {
            start.firmware = Some(firmware);
            Gate::Locked(state.waits(Wait::Release), start)
        }
        Err((broken, code)) => {
            if let Some((rule, what)) = broken {
                state.journal.broken(rule, what);
            }
            state.gsp.mailbox[0] = code;
            Gate::Failed
        }
    }
}

/// The firmware, and what it is to be started with.
fn verify(state: &mut State, start: &Start) -> Result<(&'static str, [u32; 2]), booter::Failed> {
    let chip = state.config.chip;
    let Some(facts) = &chip.fsp else {
        return Err((None, BAD_ARGUMENTS));
    };
    let host = state.host();
    let at = start.arguments;
    let mut arguments = [0; 0x50];
    let wrong = |what: String| (Some((&ARGUMENTS as &'static Rule, what)), BAD_ARGUMENTS);
    if !at.is_multiple_of(PAGE) {
        return Err(wrong(format!("they are at {at:#x}")));
    }
    if !host.read(at, &mut arguments, "the FMC, its arguments") {
        return Err((None, BAD_ARGUMENTS));
    }
    let field = |at: usize| word(&arguments, at);
    // Memory of the host is a target of either coherence.
    let is_host = |target: u32| matches!(target, 1 | 2);
    let libos = long(&arguments, 0x30);
    let targets = [field(0x8), field(0x28)];
    let size = field(0xc) as usize;
    if !targets.iter().all(|target| is_host(*target)) || size != meta::BYTES || arguments[0x24] != 1
    {
        return Err(wrong(format!(
            "targets {targets:?}, {size:#x} bytes, bIsGspRmBoot {}",
            arguments[0x24]
        )));
    }
    let mut bytes = [0; meta::BYTES];
    let place = long(&arguments, 0x10);
    if !host.read(place, &mut bytes, "the FMC, the metadata") {
        return Err((None, BAD_META));
    }
    let meta = Meta::new(bytes);
    let bad = booter::with(BAD_META);
    meta.check_magic().map_err(&bad)?;
    sizes(&meta, facts, &start.frts).map_err(&bad)?;
    let image = booter::image(state, &meta).map_err(is_of_image)?;
    let number = Branch::of(image.version).map_or(570, Branch::number);
    meta.check_heap(number).map_err(&bad)?;
    booter::loader(state, &meta).map_err(booter::with(BAD_IMAGE))?;
    lay_out(state, &meta, &start.frts);
    Ok((image.version, [libos as u32, (libos >> 32) as u32]))
}

fn is_of_image((broken, code): booter::Failed) -> booter::Failed {
    (broken, BAD_IMAGE + code)
}

/// Where `GspFwWprMeta` has what depends on where things go, and the sizes that the host chooses.
const PLACES: [usize; 10] = [0x58, 0x60, 0x70, 0x78, 0x88, 0x90, 0x98, 0xa8, 0xb0, 0xb8];
const PLAIN_HEAP: usize = 0x68;
const HEAP: usize = 0x80;
const FRTS_SIZE: usize = 0xa0;
const VGA_SIZE: usize = 0xc0;
const PMU_SIZE: usize = 0xf4;

fn sizes(meta: &Meta, facts: &Facts, frts: &Range<u64>) -> Checked {
    let at = |offset: usize| long(&meta.bytes, offset);
    let pmu = word(&meta.bytes, PMU_SIZE);
    let set = PLACES.iter().find(|place| at(**place) != 0);
    let found = [at(VGA_SIZE), at(FRTS_SIZE), pmu.into()];
    let wanted = [0x2_0000, frts.end - frts.start, facts.pmu.into()];
    match set {
        None if found == wanted && at(PLAIN_HEAP) >= facts.plain_heap => Ok(()),
        Some(place) => Err((&SIZES, format!("{:#x} at {place:#x}", at(*place)))),
        None => {
            let heap = at(PLAIN_HEAP);
            let what = format!("{found:x?}, expected {wanted:x?}; nonWprHeapSize {heap:#x}");
            Err((&SIZES, what))
        }
    }
}

/// From FRTS downwards: the boot loader, the firmware, its heap, the metadata, and before WPR2 the other heap.
fn lay_out(state: &mut State, meta: &Meta, frts: &Range<u64>) {
    let below = |end: u64, bytes: u64, unit: u64| end.saturating_sub(bytes) / unit * unit;
    let loader = below(frts.start, meta.loader.1, 0x1000);
    let firmware = below(loader, meta.image.1, 0x1_0000);
    let heap = below(firmware, long(&meta.bytes, HEAP), 1 << 20);
    let start = below(heap, 1 << 20, 0x2_0000);
    let plain = long(&meta.bytes, PLAIN_HEAP);
    let mut verified = meta.bytes;
    for (at, value) in [
        (0x58, start.saturating_sub(plain)),
        (0x60, start.saturating_sub(plain)),
        (0x70, start),
        (0x78, heap),
        (0x80, firmware - heap),
        (0x88, firmware),
        (0x90, loader),
        (0x98, frts.start),
        (0xa8, frts.end),
        (0xb0, state.vram.bytes()),
        (0xf8, meta::VERIFIED),
    ] {
        verified[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    state.vram.put(start, &verified);
    state.vram.plain_heap = Some(start.saturating_sub(plain)..start);
    state.vram.frts = frts.start;
    state.vram.wpr2 = Some(start..frts.end);
}

/// What only FSP and the FMC do with GSP.
fn is_a_start(offset: u32) -> bool {
    matches!(
        offset,
        reg::CPUCTL
            | reg::BOOTVEC
            | reg::DMACTL..=reg::DMATRFFBOFFS
            | reg::DMATRFBASE1
            | reg::CPUCTL_ALIAS
            | reg::IMEMC..reg::SCRATCH
            | reg::ENGINE
            | reg::TRANSCFG..=reg::FBIF_CTL
            | reg::MOD_SEL..=reg::PARAADDR
            | reg::BCR_CTRL
    )
}

/// The host reads a register of GSP.
pub(super) fn read(state: &mut State, offset: u32) -> Result<u32, Broken> {
    look(state, offset);
    let gate = &state.fsp.gate;
    if matches!(gate, Gate::Target(..)) {
        return Ok(NOT_YOURS);
    }
    let is_locked = gate.is_locked();
    match offset {
        reg::HWCFG2 => Ok(RISCV | if is_locked { LOCK } else { 0 }),
        reg::MAILBOX0 | reg::MAILBOX1 | reg::RISCV_CPUCTL => {
            falcon::read(state, Engine::Gsp, offset)
        }
        _ if is_locked => Err((&PRIV, format!("read of {offset:#x} of GSP"))),
        _ if is_a_start(offset) => Err((&STARTED_BY, format!("read of {offset:#x} of GSP"))),
        _ => falcon::read(state, Engine::Gsp, offset),
    }
}

/// The host writes a register of GSP.
pub(super) fn write(state: &mut State, offset: u32, value: u32) -> Result<(), Broken> {
    let gate = &state.fsp.gate;
    let what = || format!("write to {offset:#x} of GSP");
    match gate {
        Gate::Target(..) => Err((&TARGET, what())),
        _ if gate.is_locked() => Err((&PRIV, what())),
        _ if is_a_start(offset) => Err((&STARTED_BY, what())),
        _ => falcon::write(state, Engine::Gsp, offset, value),
    }
}
