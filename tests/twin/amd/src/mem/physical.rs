//! The memory of a card that no kernel driver hands out: VRAM by its offset, and what lies on the bus.
//!
//! VRAM is one object, whose pages show in BAR 0. What the host writes there stays in the HDP until it is
//! flushed; the card's own blocks (PSP, interrupt ring, the walkers of page tables) access memory below all
//! caches, as SDMA does. All functions may be called from any thread: the locks in here are leaves.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use hcq::sync::lock;
use twin::pci::{Bus, GIVEN};
use twin::rule::Journal;
use twin_shader::page::{PAGE, Port};

use super::Mapping;
use super::cache::{At, State};
use super::frame::Frame;
use super::gmc::{Budget, Drain, Gmc};
use super::object::{Kind, Object};
use super::table::{Mtype, Rights};
use crate::chip::Chip;

/// A physical address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In VRAM of the card, from its start.
    Vram(u64),
    /// On the bus: host memory, or another card.
    Bus(u64),
}

impl Place {
    /// The place so many bytes further on.
    #[must_use]
    pub fn plus(self, bytes: u64) -> Place {
        match self {
            Place::Vram(at) => Place::Vram(at.wrapping_add(bytes)),
            Place::Bus(at) => Place::Bus(at.wrapping_add(bytes)),
        }
    }

    /// Its address, in VRAM or on the bus.
    pub fn address(self) -> u64 {
        match self {
            Place::Vram(at) | Place::Bus(at) => at,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Vram(at) => write!(f, "{at:#x} of VRAM"),
            Place::Bus(at) => write!(f, "{at:#x} on the bus"),
        }
    }
}

/// What an address of an engine is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Translation {
    /// The physical address.
    pub place: Place,
    /// What may be done there.
    pub rights: Rights,
    /// How caches take it.
    pub mtype: Mtype,
}

/// Nothing answers there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missing(pub Place);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nothing is at {}", self.0)
    }
}

/// The memory of a card.
pub struct Physical {
    /// Its caches.
    pub gmc: Arc<Gmc>,
    vram: Arc<Object>,
    bus: Arc<Bus>,
    /// Memory of the host that the card has accessed, by where the twin has it: what caches know of it stays.
    host: Mutex<BTreeMap<usize, Arc<Object>>>,
}

impl Physical {
    /// The memory of a card with so many bytes of VRAM, all zeros, and the way to that of its machine.
    ///
    /// # Errors
    /// An errno: the host has no memory left.
    pub fn new(
        chip: &Chip,
        vram: u64,
        bus: Arc<Bus>,
        journal: Arc<Journal>,
    ) -> Result<Arc<Physical>, i32> {
        let gmc = Gmc::with_xccs(
            chip.xccs,
            bus.number(),
            chip.generation,
            vram,
            Drain::Never,
            journal,
        )?;
        let vram = Object::card(&gmc, vram)?;
        Ok(Arc::new(Physical {
            gmc,
            vram,
            bus,
            host: Mutex::default(),
        }))
    }

    /// Bytes of VRAM.
    pub fn vram_bytes(&self) -> u64 {
        self.vram.bytes
    }

    /// What the host reads through BAR 0. Whether all of it is there; else nothing is read.
    pub fn host_read(&self, at: u64, out: &mut [u8]) -> bool {
        self.gmc.mirror();
        self.host(at, out.len(), |frame, inside, part| {
            frame.read(inside, &mut out[part]);
        })
    }

    /// The host writes through BAR 0: memory has it when the HDP is flushed. Whether all of it is there; else
    /// nothing is written.
    pub fn host_write(&self, at: u64, data: &[u8]) -> bool {
        let written = self.host(at, data.len(), |frame, inside, part| {
            frame.write(inside, &data[part]);
        });
        if written && !data.is_empty() {
            for page in at / PAGE..=(at + data.len() as u64 - 1) / PAGE {
                self.vram.called(page);
            }
        }
        written
    }

    fn host(
        &self,
        at: u64,
        bytes: usize,
        mut each: impl FnMut(Frame, usize, Range<usize>),
    ) -> bool {
        let end = at.checked_add(bytes as u64);
        if end.is_none_or(|end| end > self.vram_bytes()) {
            return false;
        }
        pieces(at, bytes).all(|(at, part)| {
            let bar = self.vram.bar(at / PAGE);
            bar.map(|frame| each(frame, (at % PAGE) as usize, part))
                .is_some()
        })
    }

    /// What the host has written becomes memory. `who` is what asked for it.
    pub fn hdp_flush(&self, who: &str) {
        self.gmc.hdp_flush(who);
    }

    /// Reads memory. A byte that the host has written and the HDP still holds breaks a rule; `who` reads.
    ///
    /// # Errors
    /// The first place that does not answer.
    pub fn read(&self, place: Place, out: &mut [u8], who: &Arc<str>) -> Result<(), Missing> {
        let bytes = out.len();
        self.pages(place, bytes, who, |at, state, place, range, part| {
            state.check(at, Port::Sdma, place.address(), &range);
            state.read(at, Port::Sdma, range.start, &mut out[part]);
        })
    }

    /// Writes memory: it shows in BAR 0 at once.
    ///
    /// # Errors
    /// The first place that does not answer.
    pub fn write(&self, place: Place, data: &[u8], who: &Arc<str>) -> Result<(), Missing> {
        self.pages(place, data.len(), who, |at, state, _, range, part| {
            let start = range.start;
            state.write(at, Port::Sdma, &range, &mut |frame| {
                frame.write(start, &data[part.clone()]);
            });
        })
    }

    /// A word of memory.
    ///
    /// # Errors
    /// As [`Physical::read`].
    pub fn read64(&self, place: Place, who: &Arc<str>) -> Result<u64, Missing> {
        let mut word = [0; 8];
        self.read(place, &mut word, who)?;
        Ok(u64::from_le_bytes(word))
    }

    /// The object and the page of it that a place lies in. Who may not access it, or was not given it, hears so.
    pub(crate) fn object(&self, place: Place) -> Option<(Arc<Object>, u64)> {
        match place {
            Place::Vram(at) => (at < self.vram_bytes()).then(|| (self.vram.clone(), at / PAGE)),
            Place::Bus(at) => self.of_host(at),
        }
    }

    /// Whether the card may not reach the host any more.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.bus.is_withdrawn()
    }

    fn of_host(&self, at: u64) -> Option<(Arc<Object>, u64)> {
        if self.bus.master()
            && let Some((behind, offset)) = self.bus.behind(at)
            && let Ok(other) = behind.downcast::<Physical>()
        {
            return other.object(Place::Vram(offset));
        }
        let (memory, page) = self.bus.reach(at, "the card", &self.gmc.journal)?;
        let object = self.held(&memory);
        if object.is_none() {
            let what = format!("the card accesses {at:#x}, which nobody else has any more");
            self.gmc.journal.broken(&GIVEN, what);
        }
        Some((object?, page))
    }

    /// What the card knows of memory of the host; none once only the card has it.
    fn held(&self, memory: &Arc<Mapping>) -> Option<Arc<Object>> {
        // An object is inserted and removed whole.
        let mut host = lock(&self.host);
        let key = Arc::as_ptr(memory).addr();
        if let Some(object) = host.get(&key) {
            // The caller has it, too.
            return object.is_shared(1).then(|| object.clone());
        }
        let mut left = Vec::new();
        host.retain(|_, object| {
            let shared = object.is_shared(0);
            left.extend((!shared).then(|| object.clone()));
            shared
        });
        let kind = Kind::Userptr {
            address: 0,
            pages: memory.clone(),
        };
        let budget = Arc::new(Budget::new(u64::MAX));
        let name = "memory of the host";
        let object = Object::new(&self.gmc, &budget, kind, memory.bytes(), name).ok()?;
        host.insert(key, object.clone());
        drop(host);
        // Waves may be at it.
        left.into_iter().for_each(|object| self.gmc.leave(object));
        Some(object)
    }

    fn pages(
        &self,
        place: Place,
        bytes: usize,
        who: &Arc<str>,
        mut each: impl FnMut(&At, &mut State, Place, Range<usize>, Range<usize>),
    ) -> Result<(), Missing> {
        for (address, part) in pieces(place.address(), bytes) {
            let place = place.plus(part.start as u64);
            let (object, page) = self.object(place).ok_or(Missing(place))?;
            let frame = object.frame(page).ok_or(Missing(place))?;
            let at = At {
                gmc: &self.gmc,
                object: &object,
                page,
                frame,
                mtype: Mtype::Uc,
                who,
                launch: 0,
            };
            let inside = (address % PAGE) as usize;
            let (mut states, mut none) = (object.states(), State::default());
            let state = states.get_mut(&page).unwrap_or(&mut none);
            each(&at, state, place, inside..inside + part.len(), part);
        }
        Ok(())
    }

    /// A reset: what VRAM held is gone, and so is what the HDP and caches held of it. Who calls has ended the
    /// queues.
    pub fn lose(&self) {
        self.vram.lose();
        self.gmc.next_epoch();
    }
}

/// A range of bytes, page by page: where each piece starts, and where it lies in the range.
fn pieces(at: u64, bytes: usize) -> impl Iterator<Item = (u64, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let start = done;
        let here = at.wrapping_add(start as u64);
        let piece = (bytes - start).min((PAGE - here % PAGE) as usize);
        done += piece;
        (piece > 0).then_some((here, start..done))
    })
}
