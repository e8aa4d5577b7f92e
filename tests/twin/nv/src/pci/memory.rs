//! The card's memory, the way to that of the host, and both by physical addresses, as engines and tables have them.
//!
//! Source: WPR2: OGKM, src/common/inc/swref/published/turing/tu102/dev_fb.h; what is in it: gsp_fw_wpr_meta.h.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use twin::host::{Mapping, PAGE};
use twin::pci::{Broken, Bus};
use twin::rule::{Journal, Proof, Rule};

use crate::contents::Contents;

static END: Rule = Rule {
    name: "NV-PCI-VRAM-END",
    text: "accesses to the card's memory are below its end, even if a window is larger",
    source: "OGKM, src/common/inc/swref/published/ampere/ga102/dev_gc6_island_addendum.h: NV_USABLE_FB_SIZE_IN_MB",
    proof: Proof::Sourced,
};

static PROTECTED: Rule = Rule {
    name: "NV-PCI-WPR2",
    text: "the host does not access the write-protected region WPR2: microcode with privileges has it",
    source: "OGKM, src/nvidia/arch/nvalloc/common/inc/gsp/gsp_fw_wpr_meta.h: what lies between gspFwWprStart and gspFwWprEnd",
    proof: Proof::Sourced,
};

/// The card's memory.
pub(super) struct Vram {
    contents: Arc<Contents>,
    bytes: u64,
    /// WPR2, if it is there.
    pub(super) wpr2: Option<Range<u64>>,
    /// What firmware has outside of it, as the booter was told.
    pub(super) plain_heap: Option<Range<u64>>,
    /// Where FRTS starts, of cards whose firmware lays memory out.
    pub(super) frts: u64,
}

impl Vram {
    /// # Errors
    /// An errno.
    pub(super) fn new(bytes: u64) -> Result<Vram, i32> {
        let contents = Contents::whole(Arc::new(Mapping::new(bytes)?));
        Ok(Vram {
            contents: Arc::new(contents),
            bytes,
            wpr2: None,
            plain_heap: None,
            frts: 0,
        })
    }

    /// Its size.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The host accesses a place.
    fn allows(&self, verb: &str, at: u64, bytes: usize) -> Result<(), Broken> {
        let end = at.saturating_add(bytes as u64);
        if end > self.bytes {
            let what = format!("{verb} at {at:#x} of {:#x} bytes", self.bytes);
            return Err((&END, what));
        }
        match &self.wpr2 {
            Some(wpr2) if at < wpr2.end && end > wpr2.start => {
                let what = format!(
                    "{verb} at {at:#x}; WPR2 is {:#x} to {:#x}",
                    wpr2.start, wpr2.end
                );
                Err((&PROTECTED, what))
            }
            _ => Ok(()),
        }
    }

    /// The host reads.
    pub(super) fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Broken> {
        self.allows("read", at, out.len())?;
        self.contents.read(at, out);
        Ok(())
    }

    /// The host writes.
    pub(super) fn write(&self, at: u64, data: &[u8]) -> Result<(), Broken> {
        self.allows("write", at, data.len())?;
        self.contents.write(at, data);
        Ok(())
    }

    /// Microcode with privileges writes, inside of the memory.
    pub(super) fn put(&self, at: u64, data: &[u8]) {
        self.contents.write(at, data);
    }
}

/// Which memory a physical address is one of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Aperture {
    /// The card's.
    Vram,
    /// The host's, coherent or not: nothing here caches it.
    Host,
}

/// A physical address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    pub(super) aperture: Aperture,
    pub(super) at: u64,
}

impl Place {
    /// In the card's memory.
    pub(super) fn vram(at: u64) -> Place {
        let aperture = Aperture::Vram;
        Place { aperture, at }
    }

    /// So many bytes behind it.
    pub(super) fn plus(self, bytes: u64) -> Place {
        Place {
            at: self.at.saturating_add(bytes),
            ..self
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = match self.aperture {
            Aperture::Vram => "the card",
            Aperture::Host => "the host",
        };
        write!(f, "{:#x} of {of}", self.at)
    }
}

/// Both memories, as engines have them: without what is protected.
#[derive(Clone)]
pub(super) struct Physical {
    vram: Arc<Contents>,
    bytes: u64,
    wpr2: Option<Range<u64>>,
    host: Host,
}

impl Physical {
    pub(super) fn new(vram: &Vram, host: Host) -> Physical {
        Physical {
            vram: vram.contents.clone(),
            bytes: vram.bytes,
            wpr2: vram.wpr2.clone(),
            host,
        }
    }

    /// Whether a range is one of memory that engines may access.
    pub(super) fn allows(&self, place: Place, bytes: u64) -> bool {
        let Some(end) = place.at.checked_add(bytes) else {
            return false;
        };
        match (place.aperture, &self.wpr2) {
            (Aperture::Host, _) => {
                let pages = place.at / PAGE..end.div_ceil(PAGE);
                pages
                    .into_iter()
                    .all(|page| self.host.bus.find(page * PAGE).is_some())
            }
            (Aperture::Vram, Some(wpr2)) if place.at < wpr2.end && end > wpr2.start => false,
            (Aperture::Vram, _) => end <= self.bytes,
        }
    }

    /// Reads; whether it could. `who` is told of where the host has nothing.
    pub(super) fn read(&self, place: Place, out: &mut [u8], who: &str) -> bool {
        match place.aperture {
            Aperture::Host => self.host.read(place.at, out, who),
            Aperture::Vram => self.allows(place, out.len() as u64) && self.vram.read(place.at, out),
        }
    }

    /// Writes, as [`Physical::read`].
    pub(super) fn write(&self, place: Place, data: &[u8], who: &str) -> bool {
        match place.aperture {
            Aperture::Host => self.host.write(place.at, data, who),
            Aperture::Vram => {
                self.allows(place, data.len() as u64) && self.vram.write(place.at, data)
            }
        }
    }

    /// Changes up to 16 bytes, naturally aligned, with nobody between; `held` gets what was there. Whether it could.
    pub(super) fn update(
        &self,
        place: Place,
        held: &mut [u8],
        change: &mut dyn FnMut(&mut [u8]),
        who: &str,
    ) -> bool {
        match place.aperture {
            Aperture::Vram => {
                self.allows(place, held.len() as u64) && self.vram.update(place.at, held, change)
            }
            Aperture::Host => {
                let found = self.host.bus.reach(place.at, who, &self.host.journal);
                found.is_some_and(|(memory, page)| {
                    let at = page * PAGE + place.at % PAGE;
                    Contents::whole(memory).update(at, held, change)
                })
            }
        }
    }

    /// A word of 8 bytes.
    pub(super) fn long(&self, place: Place, who: &str) -> Option<u64> {
        let mut word = [0; 8];
        self.read(place, &mut word, who)
            .then(|| u64::from_le_bytes(word))
    }
}

/// The way to memory of the host.
#[derive(Clone)]
pub(super) struct Host {
    pub(super) bus: Arc<Bus>,
    pub(super) journal: Arc<Journal>,
}

impl Host {
    /// Reads from a bus address on; false, and a broken rule, where nothing is mapped for the card.
    pub(super) fn read(&self, at: u64, out: &mut [u8], who: &str) -> bool {
        self.walk(at, out.len(), who, |memory, from, part| {
            memory.read(from, &mut out[part])
        })
    }

    /// Writes, as [`Host::read`].
    pub(super) fn write(&self, at: u64, data: &[u8], who: &str) -> bool {
        self.walk(at, data.len(), who, |memory, from, part| {
            memory.write(from, &data[part])
        })
    }

    /// Whether every page of a range is mapped for the card.
    pub(super) fn is_mapped(&self, at: u64, bytes: u64, who: &str) -> bool {
        let pages = at / PAGE..at.saturating_add(bytes).div_ceil(PAGE);
        pages
            .into_iter()
            .all(|page| self.bus.reach(page * PAGE, who, &self.journal).is_some())
    }

    fn walk(
        &self,
        at: u64,
        bytes: usize,
        who: &str,
        mut each: impl FnMut(&Mapping, u64, Range<usize>) -> bool,
    ) -> bool {
        let mut done = 0;
        while done < bytes {
            let Some(here) = at.checked_add(done as u64) else {
                return false;
            };
            let inside = here % PAGE;
            let piece = ((PAGE - inside) as usize).min(bytes - done);
            let Some((memory, page)) = self.bus.reach(here, who, &self.journal) else {
                return false;
            };
            if !each(&memory, page * PAGE + inside, done..done + piece) {
                return false;
            }
            done += piece;
        }
        true
    }
}

/// A little-endian word of a place that there is; 0 beyond the end.
pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u32::from_le_bytes(*word))
}

/// The same, of 64 bits.
pub(super) fn long(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u64::from_le_bytes(*word))
}
