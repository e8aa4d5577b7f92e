//! [`Am`]: a started card with its engines, as a driver for [`drivers_gpu::bare`].

use std::sync::Arc;

use drivers_bundle::Evidence;
use drivers_gpu::bare::{self, AddressSpace, Driver, Found, Function, Tables, Told};
use firmware_tools::search::Search;

use super::areas::ROOT;
use super::boot::{self, Options, Started};
use super::card::Card;
use super::clock::Counter;
use super::error::{AmError, Cause, Stage};
use super::evidence;
use super::exception;
use super::gfx::{self, Gfx};
use super::hub::{Hubs, Kind};
use super::nbio::{self, Route};
use super::sdma::Sdma;
use crate::backend::Gpu;

/// A card that is started, and left when it is dropped.
pub(super) struct Am {
    started: Started,
    firmware: Search,
    gfx: Gfx,
    sdma: Sdma,
    counter: Counter,
}

/// The same, with its shared resources.
pub(super) type Running = bare::Running<Am>;

impl Am {
    /// Starts a card, all of it.
    ///
    /// # Errors
    /// [`AmError`], with the stage.
    pub(super) fn start(card: Arc<Card>, options: &Options) -> Result<Running, AmError> {
        let started = boot::start(card.clone(), options)?;
        let (gfx, sdma, space) = match engines(&started) {
            Ok(engines) => engines,
            Err(error) => {
                // The first error is returned.
                started.finish(false).ok();
                return match started.is_warm() {
                    true => boot::anew(card, options, &error, Am::start),
                    false => Err(error),
                };
            }
        };
        let am = Am {
            gfx,
            sdma,
            counter: Counter::of(started.card()),
            firmware: options.firmware.clone(),
            started,
        };
        let rest = card.areas().rest;
        let running = Running::new(am, space, (rest.at, rest.bytes));
        running.map_err(|error| card.failed(Stage::Clocks, error.into()))
    }

    /// Its compute engine.
    pub(super) fn gfx(&self) -> &Gfx {
        &self.gfx
    }

    /// Its copy engines.
    pub(super) fn sdma(&self) -> &Sdma {
        &self.sdma
    }

    /// The started parts.
    pub(super) fn started(&self) -> &Started {
        &self.started
    }

    /// The card.
    pub(super) fn card(&self) -> &Arc<Card> {
        self.started.card()
    }
}

/// The parts of a card after its firmware: engines without queues, and an empty address space.
fn engines(started: &Started) -> Result<(Gfx, Sdma, AddressSpace<Hubs>), AmError> {
    let (card, hubs) = (started.card(), started.hubs());
    let gfx = started.at(Stage::Gfx, || {
        gfx::wait_autoload(card)?;
        Gfx::new(card, started.entries())
    })?;
    started.at(Stage::GcHub, || hubs.start(Kind::Gc))?;
    // The hubs know the root already.
    let space = started.at(Stage::GcHub, || {
        let area = card.areas().tables;
        let tables = Tables::new(card.device(), card.vram(), area.at, area.bytes)?;
        let tables = tables.rooted(ROOT.at);
        let tables = tables.map_err(|e| card.broken("VRAM", e))?;
        Ok(AddressSpace::new(hubs, tables)?)
    })?;
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
    Ok((gfx, sdma, space))
}

impl Driver for Am {
    type Mmu = Hubs;
    type Gpu = Gpu;

    fn function(&self) -> &Function {
        self.card()
    }

    fn mmu(&self) -> &Arc<Hubs> {
        self.started.hubs()
    }

    fn faults(&self, told: &Told) -> Result<Vec<Found>, Cause> {
        let found = exception::faults(&self.started, told)?;
        Ok(found.into_iter().map(|one| (None, one)).collect())
    }

    fn cut_off(&self) -> Result<(), Cause> {
        self.started.cut_off()
    }

    fn interrupt(&self) -> Result<bool, Cause> {
        self.gfx.interrupt_at_ends()?;
        Ok(true)
    }

    fn ticks(&self) -> Result<u64, Cause> {
        self.counter.now()
    }

    fn places(&self) -> Option<Vec<u64>> {
        evidence::places(self.card(), self.gfx.xccs())
    }

    fn evidence(&self) -> Evidence {
        evidence::of(self.card(), self.gfx.xccs(), &self.firmware)
    }
}

impl Drop for Am {
    fn drop(&mut self) {
        if self.card().has_left() {
            tracing::warn!(target: "hcq::amd", device = %self.card().device(), "the card has left the bus");
            return;
        }
        let stopped = self.sdma.stop().and(self.gfx.stop());
        let is_clean = stopped.is_ok() && !self.card().is_wedged();
        if let Err(error) = self.started.finish(is_clean).and(stopped) {
            tracing::warn!(target: "hcq::amd", %error, "shutdown failed; the next start resets the card");
        }
    }
}
