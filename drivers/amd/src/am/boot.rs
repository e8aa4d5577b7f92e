//! The start of a card, in the order of its blocks, and its end.
//!
//! A card is found in one of three states:
//!
//! | state | how it is known | what is done |
//! |---|---|---|
//! | cold | the secure OS does not run | everything |
//! | warm | an earlier process of this driver has stopped it cleanly | queues are set up again, nothing is loaded; if that fails, as in use |
//! | in use | anything else: another driver used it, or a process of this driver did not end cleanly | reset, then as cold |
//! | begun | the secure OS does not run, and a scratch register shows that this driver was starting it | bus reset, then as cold |
//!
//! Two scratch registers, which outlive a process but not a reset, show a clean stop: the version of
//! [`super::areas`] in one, and 0 in the other once queues are empty and engines are idle. The other also shows that
//! the PSP's bootloader has received parts: the PSP does not report how many, and it accepts each only once.
//!
//! Source: Linux, drivers/gpu/drm/amd/amdgpu: amdgpu_device.c (`amdgpu_device_mode1_reset`: the state that is saved),
//! soc21.c (`soc21_need_reset_on_init`: a running secure OS).

use std::sync::Arc;
use std::time::Duration;

use drivers_gpu::bare::Mmu as _;
use drivers_gpu::bare::config::{SavedBars, master};
use drivers_spec::amd::mmio::{RCC_CONFIG_MEMSIZE, Reg, gc};
use firmware_tools::search::Search;
use hcq::reg::At;
use hcq::transport::ResetKind;
use hcq::wait::{Look, poll_until};

use super::areas::{DUMMY_PAGE, ROOT, SCRATCH_PAGE, VERSION};
use super::card::Card;
use super::error::{AmError, Cause, Stage};
use super::firmware::{Entries, entries, find};
use super::hdp;
use super::hub::{Hubs, Kind};
use super::ih::Interrupts;
use super::nbio;
use super::psp::Psp;
use super::smu::{Level, Smu};

/// Timeout for a chip to respond after [`Smu::mode1_reset`].
const BACK: Duration = Duration::from_secs(10);
/// What `SCRATCH_REG6` holds while a process has the card, and after it has left it in order.
const IN_USE: u32 = 1;
const IN_ORDER: u32 = 0;
/// The same, from the first part of the PSP's firmware until all runs: no value that is there by chance.
const BEGUN: u32 = 0xd00b_5000;

/// How to start a card.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where firmware is.
    pub firmware: Search,
    /// Reset it, whatever it is found in.
    pub reset: bool,
}

/// A card with running firmware, up to power management. Later steps (queues) have their own files.
pub struct Started {
    card: Arc<Card>,
    hubs: Arc<Hubs>,
    interrupts: Interrupts,
    smu: Smu,
    entries: Entries,
    is_warm: bool,
}

/// Starts a card.
///
/// # Errors
/// [`AmError`] with the stage. The card cannot reach the host's memory then, and the next start resets it.
pub fn start(card: Arc<Card>, options: &Options) -> Result<Started, AmError> {
    let at = |stage: Stage| {
        let card = card.clone();
        move |cause: Cause| card.failed(stage, cause)
    };
    let files = find(&card, &options.firmware).map_err(at(Stage::Files))?;
    let boot = files
        .boot()
        .map_err(|error| at(Stage::Files)(error.into()))?;
    let entries = entries(&boot);

    let prepare = || {
        let hubs = Arc::new(Hubs::prepare(&card)?);
        let psp = Psp::of(&card, &hubs)?;
        Ok::<_, Cause>((hubs, psp, Smu::of(&card)?))
    };
    let (hubs, psp, smu) = prepare().map_err(at(Stage::Hub))?;
    let is_warm = !options.reset && is_warm(&card, &hubs).map_err(at(Stage::Card))?;
    let run = || {
        match is_warm {
            true => {
                tracing::info!(target: "hcq::amd", device = %card.device(), "card is already initialized")
            }
            false => reset(&card, &psp, &smu).map_err(at(Stage::Reset))?,
        }
        master(&**card.pci(), true).map_err(|e| at(Stage::Nbio)(e.into()))?;
        if is_warm {
            mark(&card, &gc::SCRATCH_REG6, IN_USE).map_err(at(Stage::Nbio))?;
            clear(&card, &hubs).map_err(at(Stage::Hub))?;
            hubs.attach(Kind::Mm);
            hubs.invalidate().map_err(at(Stage::Hub))?;
            return Ok(Interrupts::attach(&card));
        }
        nbio::start(&card).map_err(at(Stage::Nbio))?;
        clear(&card, &hubs).map_err(at(Stage::Hub))?;
        hubs.start(Kind::Mm).map_err(at(Stage::Hub))?;
        let interrupts = Interrupts::start(&card, &hubs).map_err(at(Stage::Ih))?;
        mark(&card, &gc::SCRATCH_REG6, BEGUN).map_err(at(Stage::Psp))?;
        psp.start(&boot).map_err(at(Stage::Psp))?;
        smu.start(&hubs).map_err(at(Stage::Smu))?;
        Ok(interrupts)
    };
    match run() {
        Ok(interrupts) => Ok(Started {
            card: card.clone(),
            hubs,
            interrupts,
            smu,
            entries,
            is_warm,
        }),
        Err(error) => {
            // Its running work must not access the host. If this fails as well, there is no caller to report it to.
            master(&**card.pci(), false).ok();
            match is_warm {
                true => anew(card, options, &error, start),
                false => Err(error),
            }
        }
    }
}

/// Starts a card from cold that was left in order, and does not start so.
pub(super) fn anew<T>(
    card: Arc<Card>,
    options: &Options,
    error: &AmError,
    start: impl FnOnce(Arc<Card>, &Options) -> Result<T, AmError>,
) -> Result<T, AmError> {
    tracing::warn!(target: "hcq::amd", %error, "warm start failed after a clean shutdown: resetting the card");
    let firmware = options.firmware.clone();
    let reset = true;
    start(card, &Options { firmware, reset })
}

/// Whether an earlier process has left the card in order.
fn is_warm(card: &Arc<Card>, hubs: &Hubs) -> Result<bool, Cause> {
    let Some(first) = card.blocks().gc.first() else {
        return Ok(false);
    };
    let io = card.registers(first);
    if io.read(&gc::SCRATCH_REG7)?.bits() != VERSION {
        return Ok(false);
    }
    if word(card)? != Some(IN_ORDER) {
        tracing::warn!(target: "hcq::amd", device = %card.device(), "last shutdown was not clean");
        return Ok(false);
    }
    hubs.look(Kind::Gc).map(|faults| faults.is_empty())
}

/// Resets a card in any state: see [`start`]. Returns whether a reset was needed.
///
/// # Errors
/// The cause in an [`AmError`] of [`Stage::Reset`].
pub(super) fn mode1_reset(card: &Arc<Card>) -> Result<bool, Cause> {
    let hubs = Arc::new(Hubs::prepare(card)?);
    let psp = Psp::of(card, &hubs)?;
    let runs = psp.is_alive()? || word(card)? == Some(BEGUN);
    reset(card, &psp, &Smu::of(card)?)?;
    Ok(runs)
}

/// Brings a card that runs back to where power leaves it.
fn reset(card: &Card, psp: &Psp, smu: &Smu) -> Result<(), Cause> {
    if !psp.is_alive()? {
        return match word(card)? {
            Some(BEGUN) => by_bus(card, psp),
            _ => Ok(()),
        };
    }
    // A process that died between two of its words has left it silent: most have another ear for this.
    let has_answered = smu.is_alive();
    tracing::info!(target: "hcq::amd", device = %card.device(), "reset the card (mode 1)");
    master(&**card.pci(), false)?;
    if !has_answered && !smu.has_another_ear() {
        return by_bus(card, psp);
    }
    let kept = SavedBars::of(&**card.pci())?;
    smu.mode1_reset()?;
    returns(card, &kept)?;
    match psp.is_alive().map_err(after("the PSP"))? {
        false => Ok(()),
        // A start was interrupted before power management had firmware: that start continues if needed.
        true if !has_answered => by_bus(card, psp).or_else(|error| {
            tracing::warn!(target: "hcq::amd", device = %card.device(), %error, "SMU not running: no mode 1 reset");
            Ok(())
        }),
        true => Err(after("the PSP")(Cause::Psp {
            what: "mode 1 reset".into(),
            register: "MP0_SMN_C2PMSG_81",
            status: 1,
            expected: 0,
        })),
    }
}

/// An error of the checks after a reset.
fn after(what: &'static str) -> impl Fn(Cause) -> Cause {
    move |cause| Cause::Reset {
        what,
        cause: Box::new(cause),
    }
}

/// What a reset has taken is put back, and the card answers.
fn returns(card: &Card, kept: &SavedBars) -> Result<(), Cause> {
    let restored = kept.restore(&**card.pci()).map_err(Cause::from);
    restored.map_err(after("configuration space"))?;
    back(card).map_err(after("RCC_CONFIG_MEMSIZE"))
}

/// Brings a card back whose own firmware cannot.
fn by_bus(card: &Card, psp: &Psp) -> Result<(), Cause> {
    tracing::info!(target: "hcq::amd", device = %card.device(), "reset the card (bus reset)");
    let not_reset = |why: String| Cause::Begun { why };
    let kept = SavedBars::of(&**card.pci())?;
    let done = card.pci().reset(ResetKind::Bus);
    done.map_err(|error| not_reset(error.to_string()))?;
    returns(card, &kept)?;
    match (psp.is_alive()?, word(card)?) {
        (false, Some(BEGUN)) | (true, _) => {
            let why = "the bus reset had no effect".into();
            Err(not_reset(why))
        }
        _ => Ok(()),
    }
}

/// The word of the process before.
fn word(card: &Card) -> Result<Option<u32>, Cause> {
    let Some(first) = card.blocks().gc.first() else {
        return Ok(None);
    };
    let word = card.registers(first).read(&gc::SCRATCH_REG6)?;
    Ok(Some(word.bits()))
}

/// Waits until the card answers again.
fn back(card: &Card) -> Result<(), Cause> {
    let At::Fixed(dword) = RCC_CONFIG_MEMSIZE.at else {
        return Ok(());
    };
    let clock = &**card.clock();
    let mib = (card.vram_bytes() >> 20) as u32;
    poll_until(clock, card.within(BACK), "the card to answer", || {
        let seen: u32 = card.mmio().read(u64::from(dword) * 4)?;
        Ok(match seen == mib {
            true => Look::Done(()),
            false => Look::Not(seen.into()),
        })
    })
}

/// Leaves word for the next process.
fn mark(card: &Card, register: &Reg, value: u32) -> Result<(), Cause> {
    if let Some(block) = card.blocks().gc.first() {
        card.registers(block).write(register, value)?;
    }
    Ok(())
}

/// Empty page tables, and dummy pages for unmapped accesses.
fn clear(card: &Card, hubs: &Hubs) -> Result<(), Cause> {
    for area in [ROOT, SCRATCH_PAGE, DUMMY_PAGE] {
        card.vram().fill(area.at.0, area.bytes, 0)?;
    }
    Ok(hubs.hdp().flush()?)
}

impl Started {
    /// The card.
    pub fn card(&self) -> &Arc<Card> {
        &self.card
    }

    /// Its memory hubs, of which MMHUB runs.
    pub fn hubs(&self) -> &Arc<Hubs> {
        &self.hubs
    }

    /// Its interrupt rings.
    pub fn interrupts(&self) -> &Interrupts {
        &self.interrupts
    }

    /// Its power management.
    pub fn smu(&self) -> &Smu {
        &self.smu
    }

    /// Where the processors of its compute engine start.
    pub fn entries(&self) -> Entries {
        self.entries
    }

    /// Whether its engines run already and are idle: firmware was not loaded again.
    pub fn is_warm(&self) -> bool {
        self.is_warm
    }

    /// Runs a stage.
    ///
    /// # Errors
    /// [`AmError`] with the stage.
    pub fn at<T>(
        &self,
        stage: Stage,
        run: impl FnOnce() -> Result<T, Cause>,
    ) -> Result<T, AmError> {
        run().map_err(|cause| self.card.failed(stage, cause))
    }

    /// Full speed; and another process may go on with this card when [`Started::finish`] has left it in order.
    ///
    /// # Errors
    /// [`AmError`] of [`Stage::Clocks`].
    pub fn running(&self) -> Result<(), AmError> {
        self.at(Stage::Clocks, || {
            self.smu.set_clocks(Level::Highest)?;
            hdp::gate_clocks(&self.card)?;
            // In this order: a process that finds the version also finds the card marked as in use.
            mark(&self.card, &gc::SCRATCH_REG6, IN_USE)?;
            mark(&self.card, &gc::SCRATCH_REG7, VERSION)
        })
    }

    /// Cuts off a card that cannot be stopped from host memory.
    ///
    /// # Errors
    /// The transport's.
    pub fn cut_off(&self) -> Result<(), Cause> {
        self.card.mark_wedged();
        Ok(master(&**self.card.pci(), false)?)
    }

    /// Stops the card's engines. `is_clean`: no error occurred on it.
    ///
    /// # Errors
    /// The cause why it was not stopped cleanly; the next process resets it.
    pub fn finish(&self, is_clean: bool) -> Result<(), Cause> {
        let slow = self.smu.set_clocks(Level::Lowest);
        let alone = master(&**self.card.pci(), false);
        slow?;
        alone?;
        let value = if is_clean { IN_ORDER } else { IN_USE };
        mark(&self.card, &gc::SCRATCH_REG6, value)
    }
}
