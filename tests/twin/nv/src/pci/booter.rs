//! The booter on SEC2, as a black box: it verifies all that it is given, makes WPR2 and starts GSP; resumes GSP where its
//! firmware asked for it; and takes WPR2 down.
//!
//! Source: OGKM, kernel_gsp_booter_tu102.c (arguments, results), kernel_gsp_tu102.c, kgspBootstrap_TU102 (order),
//! kernel_gsp_ga102.c, kgspExecuteSequencerCommand_GA102 (resume), gsp_fw_wpr_meta.h (what is verified).

use drivers_spec::nv::abi::Branch;
use twin::rule::{Proof, Rule};

use super::meta::{self, Checked, Meta};
use super::signed::{Does, Image, Loader, Sum, sum};
use super::state::State;
use super::wait::{Looks, Wait};
use super::{gsp, radix};

static RADIX: Rule = Rule {
    name: "NV-GSP-RADIX",
    text: "an image lies behind three levels of pages of 4 KiB, whose entries are addresses of pages that are mapped for the \
           card, aligned and in order",
    source: "OGKM, kernel_gsp.c, kgspCreateRadix3_IMPL; libos_init_args.h: LIBOS_MEMORY_REGION_RADIX_PAGE_SIZE",
    proof: Proof::Sourced,
};

static IMAGE: Rule = Rule {
    name: "NV-GSP-IMAGE",
    text: "the image is .fwimage of a published firmware, whole and unchanged, and its signature that of .fwsignature_ for the chip's family",
    source: "OGKM, kernel_gsp.c, _kgspPrepareGspRmBinaryImage, _kgspGetSectionNameForPrefix; which bytes: the files of linux-firmware",
    proof: Proof::Sourced,
};

static LOADER: Rule = Rule {
    name: "NV-GSP-LOADER",
    text: "the boot loader is a published one of the chip, whole, with the offsets of code, data and manifest of its descriptor",
    source: "OGKM, kernel_gsp_tu102.c: bootloaderCodeOffset is monitorCodeOffset, bootloaderDataOffset monitorDataOffset; which \
             bytes: the files of linux-firmware",
    proof: Proof::Sourced,
};

static SELECTED: Rule = Rule {
    name: "NV-GSP-CORE",
    text: "GSP was reset into its RISC-V core (BCR_CTRL CORE_SELECT RISCV, BRFETCH TRUE), with the address of the libos arguments in its \
           mailboxes, before SEC2 starts it, and with the same again before SEC2 resumes it",
    source: "OGKM, kernel_gsp_tu102.c, kgspBootstrap_TU102: kflcnResetIntoRiscv_HAL, kgspProgramLibosBootArgsAddr_HAL, then the booter; \
             kernel_gsp_ga102.c, kgspExecuteSequencerCommand_GA102: CORE_RESUME; \
             Linux's nova-core writes the mailboxes only, and runs on cards: whether the core must be selected is open",
    proof: Proof::Guess,
};

static UNLOAD: Rule = Rule {
    name: "NV-BOOTER-UNLOAD",
    text: "booter_unload runs, with mailboxes ff, while GSP's RISC-V core does not: it has suspended itself, or GSP was reset",
    source: "OGKM, kernel_gsp.c, kgspUnloadRm_IMPL, which goes on where GSP has not suspended itself; kernel_gsp_tu102.c, \
             kgspTeardown_TU102: Reset GSP; kernel_gsp_booter_tu102.c, kgspExecuteBooterUnloadIfNeeded_TU102",
    proof: Proof::Sourced,
};

/// Results in MAILBOX0, 0 for none; what the codes of real ones mean is not published.
const META: u32 = 0x2;
const IMAGE_WRONG: u32 = 0x3;
const LOADER_WRONG: u32 = 0x4;
const CORE_WRONG: u32 = 0x5;
const STATE_WRONG: u32 = 0x6;

/// What went wrong, where that has not been said yet, and the result.
pub(super) type Failed = (Option<(&'static Rule, String)>, u32);

pub(super) fn with(code: u32) -> impl Fn((&'static Rule, String)) -> Failed {
    move |broken| (Some(broken), code)
}

/// The booter runs on SEC2.
pub(super) fn run(state: &mut State, does: Does) {
    let [low, high] = state.sec2.mailbox;
    let argument = u64::from(low) | u64::from(high) << 32;
    let done = match does {
        Does::Load if state.firmware.wants_resume() => resume(state),
        Does::Load => load(state, argument),
        Does::Unload => unload(state, argument),
    };
    state.sec2.mailbox = [0, 0];
    if let Err((broken, code)) = done {
        if let Some((rule, what)) = broken {
            state.journal.broken(rule, what);
        }
        state.sec2.mailbox[0] = code;
    }
}

/// Verifies, and starts.
fn load(state: &mut State, argument: u64) -> Result<(), Failed> {
    let host = state.host();
    let mut bytes = [0; meta::BYTES];
    if !host.read(argument, &mut bytes, "the booter, its metadata") {
        return Err((None, META));
    }
    let meta = Meta::new(bytes);
    let set_up = state.vram.wpr2.as_ref();
    meta.check(state.vram.bytes(), set_up).map_err(with(META))?;
    let image = image(state, &meta)?;
    let branch = Branch::of(image.version);
    let number = branch.map_or(570, Branch::number);
    meta.check_heap(number).map_err(with(META))?;
    loader(state, &meta).map_err(with(LOADER_WRONG))?;
    selected(state).map_err(with(CORE_WRONG))?;
    // It comes first in WPR2, as verified. Nothing here looks at the image there.
    let mut verified = meta.bytes;
    verified[0xf8..].copy_from_slice(&meta::VERIFIED.to_le_bytes());
    state.vram.put(meta.wpr2.start, &verified);
    state.journal.event(format!(
        "the booter starts GSP with {}, flags {:#x}",
        image.version,
        meta.flags()
    ));
    state.vram.plain_heap = Some(meta.plain_heap());
    state.vram.wpr2 = Some(meta.wpr2);
    start_core(state);
    let arguments = state.gsp.mailbox;
    gsp::start(state, image.version, arguments);
    Ok(())
}

/// GSP's core runs from now on: drivers look once, when the booter has halted (kgspBootstrap_TU102), or when what FSP has
/// started has unlocked GSP (kgspBootstrap_GH100).
pub(super) fn start_core(state: &mut State) {
    let looks = state.waits(Wait::RiscV);
    state.gsp.riscv = Some(match looks.is_never() {
        true => looks,
        false => Looks::default(),
    });
}

/// The image and its signature.
pub(super) fn image(state: &State, meta: &Meta) -> Result<Image, Failed> {
    let host = state.host();
    let (root, bytes) = meta.image;
    let mut all = Sum::default();
    radix::walk(&host, root, bytes, |page| all.add(page))
        .map_err(|what| (Some((&RADIX, what)), IMAGE_WRONG))?;
    let wrong = |what: String| (Some((&IMAGE, what)), IMAGE_WRONG);
    let found = (all.value(), bytes);
    let mut images = state.config.signed.images.iter();
    let image = images
        .find(|image| image.image == found)
        .ok_or_else(|| wrong(format!("{bytes:#x} bytes with the sum {:#x}", found.0)))?;
    let (at, size) = meta.signature;
    let mut signature = vec![0; size.min(1 << 20) as usize];
    if !host.read(at, &mut signature, "who verifies a signature") {
        return Err((None, IMAGE_WRONG));
    }
    let family = state.config.chip.family;
    let mut own = image.signatures.iter();
    match own.any(|one| *one == (family, sum(&signature))) {
        true => Ok(image.clone()),
        false => {
            let version = image.version;
            Err(wrong(format!(
                "{size:#x} bytes are no signature of {version} for {family:?}"
            )))
        }
    }
}

/// The boot loader.
pub(super) fn loader(state: &State, meta: &Meta) -> Checked {
    let (at, bytes) = meta.loader;
    let mut code = vec![0; bytes.min(1 << 20) as usize];
    let host = state.host();
    if !host.read(at, &mut code, "who verifies the boot loader") {
        return Err((&LOADER, format!("the boot loader at {at:#x} is not mapped")));
    }
    let found = (sum(&code), bytes);
    let family = state.config.chip.family;
    let known = |one: &&Loader| one.code == found && one.family == family;
    let mut loaders = state.config.signed.loaders.iter();
    match loaders.find(known) {
        Some(loader) if loader.offsets == meta.loader_offsets => Ok(()),
        Some(loader) => {
            let (found, wanted) = (meta.loader_offsets, loader.offsets);
            Err((&LOADER, format!("offsets {found:x?}, expected {wanted:x?}")))
        }
        None => {
            let what = format!("{bytes:#x} bytes with the sum {:#x}", found.0);
            Err((&LOADER, what))
        }
    }
}

/// GSP waits for its start.
fn selected(state: &State) -> Checked {
    let mailbox = state.gsp.mailbox;
    let wanted = state.firmware.wants_resume();
    let is_same = !wanted || mailbox == state.firmware.arguments();
    match state.gsp.is_riscv_selected() && mailbox != [0, 0] && is_same {
        true => Ok(()),
        false => {
            let selected = state.gsp.is_riscv_selected();
            let what = format!("RISC-V selected: {selected}; mailboxes of GSP {mailbox:x?}");
            Err((&SELECTED, what))
        }
    }
}

/// SEC2 is started again because GSP's sequencer says so.
fn resume(state: &mut State) -> Result<(), Failed> {
    selected(state).map_err(with(CORE_WRONG))?;
    state.handoff = Some(state.waits(Wait::Resume));
    start_core(state);
    gsp::resume(state);
    Ok(())
}

/// WPR2 goes away.
fn unload(state: &mut State, argument: u64) -> Result<(), Failed> {
    let told = argument == 0xff | 0xff << 32;
    if state.gsp.riscv.is_some() || !told {
        let phase = state.firmware.phase_name();
        let what = format!("GSP's firmware is {phase}, mailboxes {argument:#x}");
        return Err((Some((&UNLOAD, what)), STATE_WRONG));
    }
    state.vram.wpr2 = None;
    state.vram.plain_heap = None;
    state.firmware = gsp::Gsp::default();
    state.handoff = None;
    Ok(())
}
