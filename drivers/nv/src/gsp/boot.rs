//! The order in which a card is started, and its undo.
//!
//! What is the same for all: firmware, queues and arguments are put into memory of the host; GSP is started in the way of its
//! generation; RM reads what was put into its queue before. To end it, RM is told, then the generation's way is gone back:
//! then any driver may come. Where that fails, or a start has failed that may have started GSP, the card is reset: memory of
//! the host is freed when nothing on the card can access it any more, whoever makes it master again.
//!
//! A card that was cut off from memory of the host, since RM does not stop a channel, hears no call and fetches no microcode
//! any more (the vendor's driver skips calls then: `gpuCheckSysmemAccess` in `_kgspRpcSanityCheck`): the reset alone ends it.
//!
//! Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu/gsp/kernel_gsp.c (`kgspUnloadRm_IMPL`,
//! `_kgspInitLibosLoggingStructures`, `kgspSetupLibosInitArgs_IMPL`, `kgspPopulateGspRmInitArgs_IMPL`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use drivers_gpu::bare::config::{self, SavedBars};
use drivers_spec::nv::abi::{Branch, Struct};
use drivers_spec::nv::gsp::{
    GspArguments, LIBOS_MEMORY_REGION_CONTIGUOUS, LIBOS_MEMORY_REGION_LOC_SYSMEM, LibosArgument,
    PAGE, WprMeta, function,
};
use drivers_spec::nv::mmio::falcon::GSP;
use firmware_tools::nv::Version;
use firmware_tools::nv::chip::Start;
use firmware_tools::nv::fmc::Fmc;
use firmware_tools::search::Search;
use hcq::addr::BusAddr;
use hcq::mem::window::Window;
use hcq::transport::{Dma, ResetKind};

use super::ampere::{Ampere, Codes};
use super::card::Card;
use super::error::{Cause, GspError, Note, Stage};
use super::event::Event;
use super::falcon::Falcon;
use super::firmware::{By, Firmware, Parts};
use super::flush;
use super::hopper::{self, Hopper};
use super::info;
use super::memory::{BootMemory, Image};
use super::queue::{self, Queues};
use super::rpc::Rpc;
use super::sequencer::Resume;
use super::transport::Messages;
use crate::rm::client::Client;
use crate::rm::device::Device;
use crate::rm::facts::Asked;
use crate::rm::transport::CallError;

/// Bytes of a log of GSP's operating system.
const LOG: u64 = 0x1_0000;
/// How long GSP may take to set its queue up, and RM to start. The vendor's driver allows 4 s and 6 s; slow hosts need more.
const LINK: Duration = Duration::from_secs(4);
const INIT: Duration = Duration::from_secs(10);
/// What RM leaves in GSP's mailbox when it has ended (`LIBOS_INTERRUPT_PROCESSOR_SUSPENDED`).
const SUSPENDED: u32 = 0x8000_0000;

/// How to start a card.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to find firmware.
    pub firmware: Search,
    /// Whether a card may be reset on which an earlier driver has left GSP running. One that this driver has started, and
    /// cannot end in order, is reset in any case.
    pub reset: bool,
}

/// The logs that GSP's operating system has in a branch, as its arguments name them.
fn logs(branch: Branch) -> &'static [&'static str] {
    match branch {
        Branch::R535 | Branch::R550 => &["LOGINIT", "LOGINTR", "LOGRM"],
        Branch::R570 | Branch::R580 => &["LOGINIT", "LOGINTR", "LOGRM", "LOGMNOC", "LOGKRNL"],
    }
}

/// The name of a piece of memory as a number: its letters, the first one in the highest byte that is used.
fn id8(name: &str) -> u64 {
    let letters = name.bytes().take(size_of::<u64>());
    letters.fold(0, |id, letter| id << 8 | u64::from(letter))
}

/// A piece of memory for GSP's operating system.
fn argument(name: &str, at: BusAddr, size: u64) -> LibosArgument {
    LibosArgument {
        id8: id8(name),
        pa: at.0,
        size,
        kind: LIBOS_MEMORY_REGION_CONTIGUOUS,
        loc: LIBOS_MEMORY_REGION_LOC_SYSMEM,
        ..LibosArgument::default()
    }
}

/// Memory that the card may access: freed when it cannot any more.
struct Held {
    _boot: Dma,
    _image: Dma,
}

/// How GSP is started.
enum Way {
    Ampere(Box<Ampere>),
    Hopper(Hopper),
}

/// What a start needs on the card's side, all in place.
struct Prepared {
    way: Way,
    meta: BusAddr,
    resume: Resume,
    queues: Queues,
    window: Window,
    /// The page that flushes read.
    flush: BusAddr,
    held: Held,
}

/// What there is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Left {
    /// Nothing has run.
    Nothing,
    /// Microcode on falcons, and no GSP.
    Falcons,
    /// GSP, perhaps, which has not said that it takes messages.
    Gsp,
    /// RM on GSP.
    Rm,
}

/// What an earlier driver has left.
enum Old {
    /// WPR2: its first byte and its end.
    Wpr2(u64, u64),
    /// A core that runs.
    Runs(u32),
}

/// A card whose RM runs on GSP. It ends with this.
pub struct Started {
    card: Arc<Card>,
    pub(super) rpc: Arc<Rpc>,
    version: Version,
    way: Way,
    flush: BusAddr,
    held: Option<Held>,
    /// It has no memory of the host any more, though GSP may run.
    is_cut_off: AtomicBool,
}

/// Starts a card, from any state that an earlier driver has left.
///
/// # Errors
/// [`GspError`], with the stage; the card is taken down again as far as it goes.
pub fn start(card: &Arc<Card>, options: &Options) -> Result<Started, GspError> {
    let at = |stage: Stage| move |cause: Cause| card.failed(stage, cause);
    let firmware = Firmware::find(&card.chip(), &options.firmware).map_err(at(Stage::Files))?;
    let parts = firmware.parts().map_err(at(Stage::Files))?;
    tracing::info!(target: "hcq::nv::gsp", device = %card.device(), version = %parts.gsp.version, "start GSP");
    wait_own(card).map_err(at(Stage::Gfw))?;
    clear(card, options.reset).map_err(at(Stage::Reset))?;
    let plan = Plan::of(card, &parts).map_err(at(Stage::Vbios))?;
    let prepared = Prepared::new(card, &parts, plan).map_err(at(Stage::Memory))?;
    prepared.start(card, &parts)
}

/// Waits until the card's own firmware has set it up.
fn wait_own(card: &Card) -> Result<(), Cause> {
    match card.chip().start {
        Start::Booter => card.wait_gfw(),
        Start::Fsp => Hopper::wait_boot(card),
    }
}

/// Where in VRAM everything goes, and what is to run.
enum Plan<'p> {
    Ampere(Box<Codes>),
    Hopper(Box<WprMeta>, &'p Fmc<'p>),
}

impl<'p> Plan<'p> {
    fn of(card: &Card, parts: &'p Parts<'_>) -> Result<Plan<'p>, Cause> {
        Ok(match &parts.by {
            By::Booter(load, unload) => {
                Plan::Ampere(Box::new(Codes::of(card, parts, (load, unload))?))
            }
            By::Fsp(fmc) => Plan::Hopper(Box::new(hopper::meta(card, parts)?), fmc),
        })
    }

    fn meta(&self) -> WprMeta {
        match self {
            Plan::Ampere(codes) => codes.meta,
            Plan::Hopper(meta, _) => **meta,
        }
    }
}

/// What an earlier driver has left, or a process that was killed.
fn old(card: &Card) -> Result<Option<Old>, Cause> {
    if let Some((lo, hi)) = card.wpr2()? {
        return Ok(Some(Old::Wpr2(lo, hi)));
    }
    // The FSP starts GSP before there is WPR2.
    match card.chip().start {
        Start::Booter => Ok(None),
        Start::Fsp => Ok(Falcon::of(card, GSP).running()?.map(Old::Runs)),
    }
}

impl Old {
    /// Why a card is not started.
    fn cause(&self, card: &Card, why: String) -> Cause {
        let address = card.pci().name().to_owned();
        match *self {
            Old::Wpr2(lo, hi) => Cause::Wpr2 {
                lo,
                hi,
                why,
                address,
            },
            Old::Runs(cpuctl) => Cause::Runs {
                cpuctl,
                why,
                address,
            },
        }
    }
}

/// Resets a card on which GSP runs.
fn clear(card: &Card, may_reset: bool) -> Result<(), Cause> {
    let Some(old) = old(card)? else {
        return Ok(());
    };
    if !may_reset {
        return Err(old.cause(card, "the card may not be reset here".into()));
    }
    tracing::info!(target: "hcq::nv::gsp", device = %card.device(), "GSP firmware of an earlier driver is still loaded: resetting the card");
    reset_any(card).map_err(|why| old.cause(card, why))
}

/// Resets a card by what there is, until nothing runs.
///
/// # Errors
/// What was tried.
fn reset_any(card: &Card) -> Result<(), String> {
    let mut why = Vec::new();
    for kind in [ResetKind::Function, ResetKind::Bus] {
        match reset(card, kind).and_then(|()| old(card)) {
            Ok(None) => return Ok(()),
            Ok(Some(_)) => why.push(format!("a {kind} reset did not stop it")),
            Err(error) => why.push(format!("a {kind} reset failed ({error})")),
        }
    }
    Err(why.join(", "))
}

/// Resets a card, which may not access memory of the host afterwards.
fn reset(card: &Card, kind: ResetKind) -> Result<(), Cause> {
    let pci = &**card.pci();
    config::master(pci, false)?;
    let saved = SavedBars::of(pci)?;
    pci.reset(kind)?;
    saved.restore(pci)?;
    card.wait_back()?;
    wait_own(card)
}

impl Prepared {
    /// Puts everything into memory of the host.
    fn new(card: &Arc<Card>, parts: &Parts<'_>, plan: Plan<'_>) -> Result<Prepared, Cause> {
        let pci = &**card.pci();
        let image = Image::new(pci, parts.gsp.image())?;
        let mut memory = BootMemory::new(pci)?;
        let libos = memory.take("the LIBOS arguments", PAGE)?;
        let shared = memory.take("GSP's message queues", queue::BYTES)?;
        let flush = memory.take("the sysmem flush page", PAGE)?.at;
        let pages: Vec<_> = (0..queue::BYTES / PAGE)
            .map(|page| BusAddr(shared.at.0 + page * PAGE))
            .collect();
        let queues = Queues::new(&shared.window, &pages)?;
        let arguments = GspArguments {
            shared_mem_phys_addr: shared.at.0,
            page_table_entry_count: pages.len() as u32,
            cmd_queue_offset: queue::COMMANDS,
            stat_queue_offset: queue::STATUS,
            // Where RM has its stack, if no setting says otherwise. The number of the GPU is 0: RM has this one alone.
            dmem_stack: 1,
            ..GspArguments::default()
        };
        let rm = memory.put("the RM arguments", &arguments.encode(parts.branch))?;
        let mut named = Vec::new();
        for name in logs(parts.branch) {
            let log = memory.take("a log of GSP", LOG)?;
            // Behind how far it is written: where its pages are.
            let table = (0..LOG / PAGE).flat_map(|page| (log.at.0 + page * PAGE).to_le_bytes());
            let table: Vec<u8> = table.collect();
            log.window.write_bytes(size_of::<u64>() as u64, &table)?;
            named.push(argument(name, log.at, LOG));
        }
        named.push(argument("RMARGS", rm.at, PAGE));
        let table: Vec<u8> = named
            .iter()
            .flat_map(|argument| argument.encode(parts.branch))
            .collect();
        libos.window.write_bytes(0, &table)?;
        let signature = memory.put("GSP's signature", parts.signature)?;
        let loader = memory.put("GSP's boot loader", parts.loader.image())?;
        let meta = WprMeta {
            sysmem_addr_of_radix3_elf: image.root.0,
            sysmem_addr_of_bootloader: loader.at.0,
            bootloader_code_offset: parts.loader.code.start as u64,
            bootloader_data_offset: parts.loader.data.start as u64,
            bootloader_manifest_offset: parts.loader.manifest.start as u64,
            sysmem_addr_of_signature: signature.at.0,
            size_of_signature: parts.signature.len() as u64,
            ..plan.meta()
        };
        let meta = memory.put("WPR metadata", &meta.encode(parts.branch))?.at;
        let way = match plan {
            Plan::Ampere(codes) => Way::Ampere(Box::new(Ampere::new(&mut memory, *codes)?)),
            Plan::Hopper(_, fmc) => {
                let places = (meta, libos.at);
                let fmc = (parts.branch, fmc);
                Way::Hopper(Hopper::new(card, &mut memory, fmc, places)?)
            }
        };
        Ok(Prepared {
            way,
            meta,
            resume: Resume {
                libos: libos.at,
                version: parts.loader.app_version,
            },
            queues,
            window: libos.window,
            flush,
            held: Held {
                _boot: memory.into_dma(),
                _image: image.dma,
            },
        })
    }

    /// Runs it, on the card; takes it down again where that fails.
    fn start(self, card: &Arc<Card>, parts: &Parts<'_>) -> Result<Started, GspError> {
        let rpc = Rpc::new(card, parts.branch, self.queues, self.resume);
        let started = Started {
            card: card.clone(),
            rpc: Arc::new(rpc),
            version: parts.gsp.version,
            way: self.way,
            flush: self.flush,
            held: Some(self.held),
            is_cut_off: AtomicBool::new(false),
        };
        let run = || {
            let failed = |stage: Stage| move |cause: Cause| card.failed(stage, cause);
            let master = config::master(&**card.pci(), true);
            master.map_err(|error| failed(Stage::Memory)(error.into()))?;
            flush::set(card, self.flush).map_err(failed(Stage::Memory))?;
            started
                .announce(parts.branch)
                .map_err(failed(Stage::Memory))?;
            // What is in memory is there before the falcons look.
            let flushed = self.window.flush();
            flushed.map_err(|error| failed(Stage::Memory)(error.into()))?;
            let run = match &started.way {
                Way::Ampere(ampere) => ampere.start(card, &self.resume, self.meta),
                Way::Hopper(hopper) => hopper.start(card, &self.resume),
            };
            run.map_err(|(stage, cause)| card.failed(stage, cause))?;
            let done = started.rpc.wait_started(LINK, INIT);
            done.map_err(failed(Stage::Init))
        };
        match run() {
            Ok(()) => Ok(started),
            Err(error) => {
                started.abandon(&error);
                Err(error)
            }
        }
    }
}

impl Started {
    /// The card.
    pub fn card(&self) -> &Arc<Card> {
        &self.card
    }

    /// The version of its firmware.
    pub fn version(&self) -> Version {
        self.version
    }

    /// What RM has told since the last call.
    ///
    /// # Errors
    /// [`Cause::Message`]; the bus's.
    pub fn events(&self) -> Result<Vec<Event>, Cause> {
        self.rpc.events()
    }

    /// The product's name, by RM: it answers, then.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn product(&self) -> Result<String, CallError> {
        let rm = self.client()?;
        let gpu = Device::new(&rm, 0, 0)?;
        Asked::of(&gpu, self.card.pci().name(), 0).product()
    }

    /// A client of RM on this card.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) fn client(&self) -> Result<Arc<Client>, CallError> {
        Client::new(self.messages())
    }

    /// Messages to RM on this card.
    pub(crate) fn messages(&self) -> Arc<Messages> {
        Arc::new(Messages::new(&self.rpc))
    }

    /// Cuts the card off from memory of the host: nothing on it reads or writes there any more. RM hears no call from then on;
    /// the end resets the card.
    ///
    /// # Errors
    /// The configuration cannot be written: the card may go on.
    pub(crate) fn cut_off(&self) -> Result<(), Cause> {
        config::master(&**self.card.pci(), false)?;
        self.is_cut_off.store(true, Ordering::Release);
        self.rpc.close(Cause::CutOff);
        Ok(())
    }

    /// Puts into GSP's queue what RM reads first.
    fn announce(&self, branch: Branch) -> Result<(), Cause> {
        let system = info::system(&**self.card.pci(), self.card.arch(), branch)?;
        self.rpc.tell(function::GSP_SET_SYSTEM_INFO, &system)?;
        self.rpc
            .tell(function::SET_REGISTRY, &info::registry(branch))
    }

    /// Ends it: RM, then WPR2. Any driver may come then. Clients that are still there are told that it has ended.
    ///
    /// # Errors
    /// [`GspError`] of [`Stage::Unload`]: the first that went wrong; what follows was tried all the same, and the card reset.
    pub fn stop(mut self) -> Result<(), GspError> {
        self.end(Left::Rm)
    }

    /// Ends a start that has failed.
    fn abandon(mut self, error: &GspError) {
        let left = match (&self.way, error.stage, &*error.cause) {
            (_, Stage::Memory, _) | (Way::Hopper(_), Stage::Fsp, Cause::FspRefused { .. }) => {
                Left::Nothing
            }
            (Way::Ampere(_), Stage::Frts, _)
            | (Way::Ampere(_), Stage::Booter, Cause::Booter { .. }) => Left::Falcons,
            _ => Left::Gsp,
        };
        if let Err(error) = self.end(left) {
            tracing::warn!(target: "hcq::nv::gsp", %error, "cleanup after a failed start failed");
        }
    }

    fn end(&mut self, left: Left) -> Result<(), GspError> {
        let Some(held) = self.held.take() else {
            return Ok(());
        };
        let card = &*self.card;
        let mut first: Option<GspError> = None;
        let mut note = |done: Result<(), Cause>| {
            let error = done.err().map(|cause| card.failed(Stage::Unload, cause));
            let is_good = error.is_none();
            if first.is_none() {
                first = error;
            } else if let Some(error) = error {
                tracing::warn!(target: "hcq::nv::gsp", %error, "another error of the shutdown");
            }
            is_good
        };
        let is_cut_off = self.is_cut_off.load(Ordering::Acquire);
        if left == Left::Rm && !is_cut_off {
            note(self.rpc.end());
            let gsp = Falcon::of(card, GSP);
            note(gsp.wait_mailbox("RM on GSP to shut down", SUSPENDED));
        }
        self.rpc.close(Cause::Ended);
        let is_down = match left {
            _ if is_cut_off => false,
            Left::Nothing => true,
            Left::Falcons | Left::Rm => self.way.end(card, &mut note),
            Left::Gsp => false,
        };
        if !self.quiet(is_down, &mut note) {
            // It may still access its memory.
            std::mem::forget(held);
        }
        first.map_or(Ok(()), Err)
    }

    /// Lets nothing on the card access memory of the host any more: whether that is so.
    fn quiet(&self, is_down: bool, note: &mut Note<'_>) -> bool {
        let card = &*self.card;
        if is_down || card.has_left() {
            note(flush::clear(card, self.flush));
        } else {
            let address = card.pci().name().to_owned();
            let reset = reset_any(card).map_err(|why| Cause::Left { why, address });
            if !note(reset) {
                return false;
            }
        }
        note(config::master(&**card.pci(), false).map_err(Cause::from))
    }
}

impl Way {
    /// Goes it back; what went wrong is noted. Whether it is down.
    fn end(&self, card: &Card, note: &mut Note<'_>) -> bool {
        match self {
            Way::Ampere(ampere) => ampere.end(card, note),
            Way::Hopper(_) => Hopper::end(card, note),
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Err(error) = self.end(Left::Rm) {
            tracing::warn!(target: "hcq::nv::gsp", %error, "GSP shutdown failed: the next start resets the card");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_gsp_is_named_by_letters() {
        // As the vendor's driver makes it of "LOGINIT" and "RMARGS".
        assert_eq!(id8("LOGINIT"), 0x4c_4f47_494e_4954);
        assert_eq!(id8("RMARGS"), 0x524d_4152_4753);
        assert_eq!(id8("LONGERTHAN8"), 0x4c4f_4e47_4552_5448);
        let bytes = argument("LOGRM", BusAddr(0x1234_5000), LOG).encode(Branch::R570);
        let mut expected = vec![0x4d, 0x52, 0x47, 0x4f, 0x4c, 0, 0, 0];
        expected.extend(0x1234_5000u64.to_le_bytes());
        expected.extend(0x1_0000u64.to_le_bytes());
        expected.extend([1, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes, expected);
        assert_eq!(logs(Branch::R535).len() + 2, logs(Branch::R570).len());
    }
}
