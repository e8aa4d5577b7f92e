//! The card's memory, and the way to that of the host.
//!
//! Source: WPR2: OGKM, src/common/inc/swref/published/turing/tu102/dev_fb.h; what is in it: gsp_fw_wpr_meta.h.

use std::ops::Range;
use std::sync::Arc;

use twin::host::{Mapping, PAGE};
use twin::pci::{Broken, Bus};
use twin::rule::{Journal, Proof, Rule};

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
    contents: Mapping,
    bytes: u64,
    /// WPR2, if it is there.
    pub(super) wpr2: Option<Range<u64>>,
}

impl Vram {
    /// # Errors
    /// An errno.
    pub(super) fn new(bytes: u64) -> Result<Vram, i32> {
        Ok(Vram {
            contents: Mapping::new(bytes)?,
            bytes,
            wpr2: None,
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
