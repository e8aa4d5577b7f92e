//! [`Running`]: a card that is started, with what is divided among those who use it: its addresses, its VRAM, the slots
//! for queues.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use drivers_gpu::interface::Exception;
use hcq::Error;
use hcq::addr::VramAddr;
use hcq::mem::tlsf::Tlsf;

use super::areas::MQDS;
use super::boot::{self, Options, Started};
use super::card::Card;
use super::clock::Counter;
use super::error::{AmError, Stage};
use super::exception::{broken, of_entry, of_hub};
use super::gfx::{self, Gfx};
use super::hqd;
use super::hub::Kind;
use super::live::Live;
use super::mqd;
use super::nbio::{self, Route};
use super::pages::PAGE;
use super::sdma::Sdma;
use super::space::AddressSpace;
use crate::chip::Language;

/// A card that is started, and finished when the last one drops it.
pub(super) struct Running {
    started: Started,
    gfx: Gfx,
    sdma: Sdma,
    counter: Counter,
    /// Its addresses.
    pub(super) space: AddressSpace,
    vram: Mutex<Tlsf>,
    slots: Mutex<Slots>,
    /// Queues that are alive.
    queues: Mutex<Vec<Weak<Live>>>,
    told: Mutex<Told>,
}

/// What went wrong, for every handle of the card: each hears of all, in order.
#[derive(Default)]
struct Told {
    /// How many there were before those that are kept.
    before: u64,
    kept: VecDeque<Exception>,
}

/// Exceptions that are kept for handles that have not looked yet.
const KEPT: usize = 64;

impl Told {
    fn count(&self) -> u64 {
        self.before + self.kept.len() as u64
    }

    fn tell(&mut self, exception: Exception) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
            self.before += 1;
        }
        self.kept.push_back(exception);
    }

    /// The first that a handle has not heard of.
    fn next(&self, heard: &AtomicU64) -> Option<Exception> {
        let first = heard.load(Ordering::Relaxed).max(self.before);
        let found = self.kept.get((first - self.before) as usize)?;
        heard.store(first + 1, Ordering::Relaxed);
        Some(found.clone())
    }

    /// Whether a fault of that page was told.
    fn has(&self, va: u64) -> bool {
        let is = |one: &Exception| matches!(one, Exception::Memory(fault) if fault.va == va);
        self.kept.iter().any(is)
    }
}

/// Slots that are taken, a bit for each.
#[derive(Default)]
struct Slots {
    compute: u64,
    copy: u64,
}

impl Running {
    /// Starts a card, all of it.
    ///
    /// # Errors
    /// [`AmError`], with the stage.
    pub(super) fn start(card: Arc<Card>, options: &Options) -> Result<Running, AmError> {
        let started = boot::start(card.clone(), options)?;
        let (gfx, sdma, space, vram) = match engines(&started) {
            Ok(engines) => engines,
            Err(error) => {
                // The error that is told is the first one.
                started.finish(false).ok();
                return match started.is_warm() {
                    true => boot::anew(card, options, &error, Running::start),
                    false => Err(error),
                };
            }
        };
        Ok(Running {
            gfx,
            sdma,
            counter: Counter::of(started.card()),
            space,
            vram: Mutex::new(vram),
            slots: Mutex::default(),
            queues: Mutex::default(),
            told: Mutex::default(),
            started,
        })
    }

    /// Its compute engine.
    pub(super) fn gfx(&self) -> &Gfx {
        &self.gfx
    }

    /// Its copy engines.
    pub(super) fn sdma(&self) -> &Sdma {
        &self.sdma
    }

    /// Its clock.
    pub(super) fn counter(&self) -> &Counter {
        &self.counter
    }

    /// What was started.
    pub(super) fn started(&self) -> &Started {
        &self.started
    }

    /// The card.
    pub(super) fn card(&self) -> &Arc<Card> {
        self.started.card()
    }

    /// VRAM for so many bytes.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(super) fn vram(&self, bytes: u64, align: u64) -> Result<VramAddr, Error> {
        let mut vram = lock(&self.vram);
        vram.alloc(bytes, align).map(VramAddr).map_err(|error| {
            let stats = vram.stats();
            Error::OutOfMemory {
                device: self.card().device().clone(),
                asked: bytes,
                free: stats.free,
                total: stats.size,
                hint: format!("; {error}"),
            }
        })
    }

    /// Takes VRAM back.
    pub(super) fn give_back(&self, at: VramAddr) {
        // What was not given out is not taken back.
        let freed = lock(&self.vram).free(at.0);
        debug_assert!(freed.is_ok(), "{freed:?}");
    }

    /// A slot for a queue.
    ///
    /// # Errors
    /// [`Error::Os`]: all are taken.
    pub(super) fn slot(self: &Arc<Self>, language: Language) -> Result<Slot, Error> {
        let mut slots = lock(&self.slots);
        let (taken, most, what) = match language {
            Language::Sdma => {
                let most = self.sdma.queues();
                (&mut slots.copy, most, "copy queues")
            }
            Language::Pm4 | Language::Aql => {
                let images = (MQDS.bytes / mqd::STRIDE) as u32;
                let most = images / (self.gfx.xccs().len() as u32).max(1);
                let most = most.min(hqd::queues(self.card().gfx()));
                (&mut slots.compute, most, "compute queues")
            }
        };
        let number = taken.trailing_ones();
        if number >= most.min(u64::BITS) {
            return Err(Error::Os {
                device: self.card().device().clone(),
                call: format!("a slot among {most} {what}"),
                source_text: "all of them are taken".into(),
                errno: None,
                hint: "Close other devices of this process".into(),
            });
        }
        *taken |= 1 << number;
        Ok(Slot {
            card: self.clone(),
            language,
            number,
        })
    }

    /// Notes a queue that is alive.
    pub(super) fn enter(&self, queue: &Arc<Live>) {
        let mut queues = lock(&self.queues);
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(queue));
    }

    /// Queues that are alive, of all handles.
    pub(super) fn live(&self, which: impl Fn(&Live) -> bool) -> Vec<Arc<Live>> {
        let queues = lock(&self.queues);
        let queues = queues.iter().filter_map(Weak::upgrade);
        queues.filter(|queue| which(queue)).collect()
    }

    /// What went wrong that a handle has not heard of. It counts in `heard`; whose it is the card does not say: all use one
    /// address space.
    ///
    /// # Errors
    /// [`Error::Fault`]: the card cannot be looked at.
    pub(super) fn exception(&self, heard: &AtomicU64) -> Result<Option<Exception>, Error> {
        let mut told = lock(&self.told);
        self.hear(&mut told)?;
        Ok(told.next(heard))
    }

    /// How much went wrong so far, for a new handle, which has nothing to do with it.
    ///
    /// # Errors
    /// As [`Running::exception`].
    pub(super) fn heard(&self) -> Result<u64, Error> {
        let mut told = lock(&self.told);
        if self.card().is_dirty() {
            self.hear(&mut told)?;
        }
        Ok(told.count())
    }

    fn hear(&self, told: &mut Told) -> Result<(), Error> {
        let failed = |e| broken(self.card(), "GPU", e);
        // Of one that is not there, rings are full, and hubs have faults.
        self.card().look().map_err(failed)?;
        let (hubs, interrupts) = (self.started.hubs(), self.started.interrupts());
        let entries = interrupts.entries().map_err(failed)?;
        let faults = hubs.faults().map_err(failed)?;
        let gfx = self.card().gfx();
        let mut found: Vec<_> = faults.iter().map(of_hub).collect();
        for exception in entries.iter().filter_map(|entry| of_entry(gfx, entry)) {
            // Hubs say more than what they send.
            let is_known = match &exception {
                Exception::Memory(fault) => !faults.is_empty() || told.has(fault.va),
                _ => false,
            };
            if !is_known && !found.contains(&exception) {
                found.push(exception);
            }
        }
        if found.is_empty() {
            return Ok(());
        }
        self.card().soil();
        for fault in &faults {
            tracing::warn!(target: "hcq::amd", device = %self.card().device(), "{fault}");
        }
        hubs.clear_faults().map_err(failed)?;
        found.into_iter().for_each(|one| told.tell(one));
        Ok(())
    }
}

/// What of a card comes behind its firmware: engines, with no queue in them, addresses that mean nothing, free VRAM.
fn engines(started: &Started) -> Result<(Gfx, Sdma, AddressSpace, Tlsf), AmError> {
    let (card, hubs) = (started.card(), started.hubs());
    let gfx = started.at(Stage::Gfx, || {
        gfx::wait_autoload(card)?;
        Gfx::new(card, started.entries())
    })?;
    started.at(Stage::GcHub, || hubs.start(Kind::Gc))?;
    let space = started.at(Stage::GcHub, || Ok(AddressSpace::new(card, hubs)?))?;
    started.at(Stage::Gfx, || {
        nbio::route(card, Route::Compute)?;
        match started.is_warm() {
            true => gfx.restart(),
            false => gfx.start(),
        }
    })?;
    let sdma = started.at(Stage::Sdma, || {
        let sdma = Sdma::new(card)?;
        nbio::route(card, Route::Copy(sdma.numbers()))?;
        sdma.start()?;
        Ok(sdma)
    })?;
    started.at(Stage::Clocks, || gfx.gate_clocks())?;
    started.running()?;
    let vram = started.at(Stage::Clocks, || {
        let rest = card.areas().rest;
        let vram = Tlsf::new(rest.at.0, rest.bytes & !(PAGE - 1), PAGE);
        Ok(vram.map_err(|e| broken(card, "VRAM", e))?)
    })?;
    Ok((gfx, sdma, space, vram))
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.card().has_left() {
            tracing::warn!(target: "hcq::amd", device = %self.card().device(), "the card has left the bus");
            return;
        }
        let stopped = self.sdma.stop().and(self.gfx.stop());
        let is_clean = stopped.is_ok() && !self.card().is_dirty();
        if let Err(error) = self.started.finish(is_clean).and(stopped) {
            tracing::warn!(target: "hcq::amd", %error, "the card is left as it is; the next start is from cold");
        }
    }
}

/// A slot of a queue, which is free again when it is dropped.
pub(super) struct Slot {
    /// The card.
    pub(super) card: Arc<Running>,
    /// What its queue takes.
    pub(super) language: Language,
    /// Its number among those of the kind.
    pub(super) number: u32,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut slots = lock(&self.card.slots);
        let taken = match self.language {
            Language::Sdma => &mut slots.copy,
            Language::Pm4 | Language::Aql => &mut slots.compute,
        };
        *taken &= !(1 << self.number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is one call of a collection, or one store.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
