//! VRAM of the made-up card, and what the host sees of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use hcq::mem::window::{AccessWidth, Piece, RemoteWindow};
use hcq::transport::TransportError;

use super::card::State;
use super::objects::BAR1_ROOT;

type Transport<T> = Result<T, TransportError>;

const PAGE: u64 = 4096;

/// Memory that is there where it was written; the rest holds what nobody has cleared.
#[derive(Default)]
pub struct Vram {
    pages: BTreeMap<u64, Vec<u8>>,
    /// What the register says of the window in BAR0.
    pub window: u32,
    /// How often TLBs were invalidated.
    pub invalidations: usize,
}

/// What memory holds that was never written.
const STALE: u8 = 0xa5;

/// Where an address leads: a place, and whether it is in VRAM.
pub type Found = Option<(u64, bool)>;

/// The parts of a range that are within a page each: where they are, and which bytes.
fn pages(at: u64, bytes: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let place = at + done as u64;
        let length = (PAGE - place % PAGE).min((bytes - done) as u64) as usize;
        let range = done..done + length;
        done += length;
        (length > 0).then_some((place, range))
    })
}

impl Vram {
    pub fn read(&self, at: u64, to: &mut [u8]) {
        for (place, range) in pages(at, to.len()) {
            let inside = (place % PAGE) as usize;
            let part = &mut to[range];
            match self.pages.get(&(place - place % PAGE)) {
                Some(page) => part.copy_from_slice(&page[inside..][..part.len()]),
                None => part.fill(STALE),
            }
        }
    }

    pub fn write(&mut self, at: u64, from: &[u8]) {
        for (place, range) in pages(at, from.len()) {
            let inside = (place % PAGE) as usize;
            let page = self.pages.entry(place - place % PAGE);
            let page = page.or_insert_with(|| vec![STALE; PAGE as usize]);
            page[inside..][..range.len()].copy_from_slice(&from[range]);
        }
    }

    pub fn quad(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Whether all of a range was cleared.
    pub fn is_clear(&self, at: u64, bytes: u64) -> bool {
        let mut pages = (at..at + bytes).step_by(PAGE as usize);
        pages.all(|page| {
            let mut all = vec![0xff; PAGE.min(at + bytes - page) as usize];
            self.read(page, &mut all);
            all.iter().all(|byte| *byte == 0)
        })
    }

    /// The place in VRAM of an offset of the window in BAR0.
    pub fn pramin(&self, offset: u64) -> u64 {
        assert_eq!(self.window >> 24, 0, "the window shows VRAM");
        (u64::from(self.window) << 16) + offset
    }

    /// Walks page tables of version 2 as the MMU does, by the shifts and widths of its manual.
    pub fn walk(&self, root: u64, va: u64) -> Found {
        let address = |entry: u64, is_vram: bool| match is_vram {
            true => (entry >> 8 & 0x1ff_ffff) << 12,
            false => (entry >> 8 & 0x3fff_ffff_ffff) << 12,
        };
        let mut table = root;
        for (shift, bits) in [(47, 2), (38, 9), (29, 9), (21, 8), (12, 9)] {
            let index = va >> shift & ((1 << bits) - 1);
            let is_pair = shift == 21;
            let at = table + index * if is_pair { 16 } else { 8 };
            let entry = self.quad(at);
            if entry & 1 == 1 {
                let is_vram = entry >> 1 & 3 == 0;
                assert!(
                    is_vram || entry >> 1 & 3 == 2,
                    "coherent memory of the host"
                );
                let inside = va & ((1 << shift) - 1);
                return Some((address(entry, is_vram) + inside, is_vram));
            }
            let next = if is_pair { self.quad(at + 8) } else { entry };
            match next >> 1 & 3 {
                0 => return None,
                1 => table = address(next, true),
                other => panic!("a table in aperture {other}"),
            }
        }
        None
    }
}

/// BAR1, whose addresses are virtual.
pub struct Bar1(pub Arc<Mutex<State>>, pub u64);

impl Bar1 {
    /// Runs an access to each part of a range that is within a page.
    fn each(
        &self,
        offset: u64,
        bytes: usize,
        mut access: impl FnMut(&mut Vram, u64, usize, usize),
    ) {
        let mut state = self.0.lock().unwrap();
        for (at, range) in pages(offset, bytes) {
            let (place, is_vram) = state
                .vram
                .walk(BAR1_ROOT, at)
                .unwrap_or_else(|| panic!("BAR1 at {at:#x}: nothing is mapped"));
            assert!(is_vram && state.vram.invalidations > 0);
            access(&mut state.vram, place, range.start, range.len());
        }
    }
}

impl RemoteWindow for Bar1 {
    fn len(&self) -> u64 {
        self.1
    }
    fn read(&self, offset: u64, width: AccessWidth) -> Transport<u64> {
        let mut bytes = [0; 8];
        self.read_bytes(offset, &mut bytes[..width.bytes()])?;
        Ok(u64::from_le_bytes(bytes))
    }
    fn read_bytes(&self, offset: u64, to: &mut [u8]) -> Transport<()> {
        let bytes = to.len();
        self.each(offset, bytes, |vram, place, done, length| {
            vram.read(place, &mut to[done..][..length]);
        });
        Ok(())
    }
    fn write(&self, offset: u64, width: AccessWidth, value: u64) -> Transport<()> {
        self.write_many(&[(offset, &value.to_le_bytes()[..width.bytes()])])
    }
    fn write_many(&self, pieces: &[Piece<'_>]) -> Transport<()> {
        for (offset, bytes) in pieces {
            self.each(*offset, bytes.len(), |vram, place, done, length| {
                vram.write(place, &bytes[done..][..length]);
            });
        }
        Ok(())
    }
    fn send(&self) -> Transport<()> {
        Ok(())
    }
    fn flush(&self) -> Transport<()> {
        Ok(())
    }
}
