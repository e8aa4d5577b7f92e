//! [`Running`]: a started card and its shared resources: addresses, VRAM, queue slots, and exceptions.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use hcq::Error;
use hcq::addr::VramAddr;
use hcq::mem::tlsf::Tlsf;
use hcq::sync::lock;

use super::driver::Driver;
use super::function::Function;
use super::mmu::PAGE;
use super::queues::Live;
use super::space::AddressSpace;
use super::told::Told;
use crate::backend::Exception;

/// Where a queue that could not be dequeued may go on writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reach {
    /// In memory of the card.
    Card,
    /// In host memory, too.
    Host,
}

/// A card that is started, and left when the last one drops it.
pub struct Running<D: Driver> {
    driver: D,
    space: AddressSpace<D::Mmu>,
    vram: Mutex<Tlsf>,
    /// Slots that are taken, a bit for each.
    taken: Mutex<BTreeMap<&'static str, u64>>,
    /// Queues that are alive, of all handles.
    queues: Mutex<Vec<Weak<Live<D>>>>,
    /// Held by who brings queues into the hardware, or takes them out.
    turn: Mutex<()>,
    told: Mutex<Told>,
    /// A queue that could not be dequeued: the memory that it can access, and the reason.
    stuck: OnceLock<Reach>,
    /// Why nothing comes of the card any more.
    given_up: OnceLock<String>,
}

impl<D: Driver> Running<D> {
    /// A card without queues or mappings. The `bytes` bytes of VRAM from `from` on are free.
    ///
    /// # Errors
    /// [`Error::Fault`]: they are no range of whole pages.
    pub fn new(
        driver: D,
        space: AddressSpace<D::Mmu>,
        (from, bytes): (VramAddr, u64),
    ) -> Result<Running<D>, Error> {
        let vram = Tlsf::new(from.0, bytes & !(PAGE - 1), PAGE);
        let vram = vram.map_err(|e| driver.function().broken("VRAM", e))?;
        Ok(Running {
            driver,
            space,
            vram: Mutex::new(vram),
            taken: Mutex::default(),
            queues: Mutex::default(),
            turn: Mutex::default(),
            told: Mutex::default(),
            stuck: OnceLock::new(),
            given_up: OnceLock::new(),
        })
    }

    /// Its driver.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// The card.
    pub fn function(&self) -> &Function {
        self.driver.function()
    }

    /// Its addresses.
    pub fn space(&self) -> &AddressSpace<D::Mmu> {
        &self.space
    }

    /// VRAM for `bytes` bytes.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn vram(&self, bytes: u64, align: u64) -> Result<VramAddr, Error> {
        let mut vram = lock(&self.vram);
        vram.alloc(bytes, align).map(VramAddr).map_err(|error| {
            let stats = vram.stats();
            Error::OutOfMemory {
                device: self.function().device().clone(),
                asked: bytes,
                free: stats.free,
                total: stats.size,
                hint: format!("; {error}"),
            }
        })
    }

    /// Takes VRAM back, unless a queue that stays may go on writing there.
    pub fn give_back(&self, at: VramAddr) {
        if self.stuck().is_some() {
            return;
        }
        // Only allocated ranges are freed.
        let freed = lock(&self.vram).free(at.0);
        debug_assert!(freed.is_ok(), "{freed:?}");
    }

    /// Takes a slot for a queue.
    ///
    /// # Errors
    /// [`Error::Os`]: all are taken.
    pub(super) fn take(&self, kind: D::Kind) -> Result<u32, Error> {
        let slots = self.driver.slots(kind);
        let mut all = lock(&self.taken);
        let taken = all.entry(slots.of).or_default();
        let number = taken.trailing_ones();
        if number >= slots.count.min(u64::BITS) {
            return Err(Error::Os {
                device: self.function().device().clone(),
                call: format!("a slot of {} {}", slots.count, slots.of),
                source_text: "all in use".into(),
                errno: None,
                hint: "Close other devices of this process".into(),
            });
        }
        *taken |= 1 << number;
        Ok(number)
    }

    /// Frees a slot.
    pub(super) fn leave(&self, kind: D::Kind, number: u32) {
        if let Some(taken) = lock(&self.taken).get_mut(self.driver.slots(kind).of) {
            *taken &= !(1 << number);
        }
    }

    /// Notes a queue that is alive.
    pub(super) fn enter(&self, queue: &Arc<Live<D>>) {
        let mut queues = lock(&self.queues);
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(queue));
    }

    /// The right to bring queues into the hardware, and to take them out: a reset for one brings back others. Locks of
    /// memory and of the hardware are taken after it.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        lock(&self.turn)
    }

    /// Queues that are alive, of all handles.
    pub fn live(&self, which: impl Fn(&Live<D>) -> bool) -> Vec<Arc<Live<D>>> {
        let queues = lock(&self.queues);
        let queues = queues.iter().filter_map(Weak::upgrade);
        queues
            .filter(|queue| !queue.has_ended() && which(queue))
            .collect()
    }

    /// Marks a queue that could not be dequeued: its memory and its addresses are not reused before the next start of the
    /// card. The caller holds the card's turn.
    pub(super) fn stick(&self, reach: Reach, why: String) {
        // The first reason is kept.
        _ = self.stuck.set(reach);
        self.give_up(why);
    }

    /// What queues that stay in their slots may reach; none where there are none.
    pub(super) fn stuck(&self) -> Option<Reach> {
        // A card that is not there writes nothing.
        self.stuck
            .get()
            .copied()
            .filter(|_| !self.function().has_left())
    }

    /// Gives the card up: every handle gets the error at its next check.
    pub(super) fn give_up(&self, why: String) {
        self.function().mark_wedged();
        // The first cause is what counts.
        _ = self.given_up.set(why);
    }

    /// Why nothing comes of the card any more.
    pub fn given_up(&self) -> Option<&str> {
        self.given_up.get().map(String::as_str)
    }

    /// The reason why it cannot be opened again before its next start.
    pub(super) fn unfit(&self) -> Option<&str> {
        if self.function().has_left() {
            return Some("the card has left the bus");
        }
        self.given_up()
    }

    /// What went wrong that the handle of a number has not heard of, and whether it is known to be of this handle: where the
    /// card does not tell, all hear of it, since all use one address space. It counts in `heard`.
    ///
    /// # Errors
    /// [`Error::Fault`]: the card cannot be looked at.
    pub fn exception(
        &self,
        heard: &AtomicU64,
        number: u64,
    ) -> Result<Option<(bool, Exception)>, Error> {
        let mut told = lock(&self.told);
        self.hear(&mut told)?;
        Ok(told.next(heard, number))
    }

    /// The number of exceptions so far: a new handle ignores these.
    ///
    /// # Errors
    /// As [`Running::exception`].
    pub fn heard(&self) -> Result<u64, Error> {
        let mut told = lock(&self.told);
        if self.function().is_wedged() {
            self.hear(&mut told)?;
        }
        Ok(told.count())
    }

    fn hear(&self, told: &mut Told) -> Result<(), Error> {
        let found = self.driver.faults(told);
        let found = found.map_err(|e| self.function().broken("GPU", e))?;
        if !found.is_empty() {
            self.function().mark_wedged();
        }
        found.into_iter().for_each(|one| told.tell(one));
        Ok(())
    }
}
