//! [`BootMemory`]: host memory that GSP and the falcons read and write, at bus addresses.
//!
//! All but GSP's image is needed in single pieces: they are cut from one allocation. The image has a page table of its own
//! (radix-3), and may lie anywhere.

use drivers_spec::nv::gsp::PAGE;
use firmware_tools::nv::radix3::Sizes;
use hcq::addr::BusAddr;
use hcq::mem::window::Window;
use hcq::transport::{Dma, Pci};

use super::error::Cause;

/// How much memory in one piece is asked for: a huge page, which every machine has in one piece.
const BYTES: u64 = 2 << 20;

/// Memory in one piece, which is given away from its start on.
pub(super) struct BootMemory {
    dma: Dma,
    window: Window,
    first: BusAddr,
    next: u64,
}

/// A piece of it.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// Where it is for the card.
    pub at: BusAddr,
    /// The host's access.
    pub window: Window,
}

impl BootMemory {
    /// Zeroed memory of the host for a card.
    ///
    /// # Errors
    /// The transport's; [`Cause::Pieces`].
    pub(super) fn new(pci: &dyn Pci) -> Result<BootMemory, Cause> {
        let dma = pci.dma(BYTES, BYTES).or_else(|_| pci.dma(BYTES, PAGE))?;
        let pages = pages(pci, &dma)?;
        let first = pages.first().copied().unwrap_or_default();
        let joined = pages.iter().zip(0..);
        let joined = joined.take_while(|&(page, number)| page.0 == first.0 + number * PAGE);
        let largest = joined.count() as u64 * PAGE;
        if largest < BYTES {
            return Err(Cause::Pieces {
                bytes: BYTES,
                largest,
            });
        }
        Ok(BootMemory {
            window: pci.window("GSP boot memory", &dma),
            first,
            next: 0,
            dma,
        })
    }

    /// A piece of whole pages.
    ///
    /// # Errors
    /// [`Cause::Room`]; the window's.
    pub(super) fn take(&mut self, what: &'static str, bytes: u64) -> Result<Piece, Cause> {
        let size = bytes.next_multiple_of(PAGE);
        let room = BYTES - self.next;
        if size > room {
            return Err(Cause::Room { what, bytes, room });
        }
        let piece = Piece {
            at: BusAddr(self.first.0 + self.next),
            window: self.window.sub(self.next, size)?,
        };
        self.next += size;
        Ok(piece)
    }

    /// A piece that holds these bytes.
    ///
    /// # Errors
    /// As [`BootMemory::take`].
    pub(super) fn put(&mut self, what: &'static str, bytes: &[u8]) -> Result<Piece, Cause> {
        let piece = self.take(what, bytes.len() as u64)?;
        piece.window.write_bytes(0, bytes)?;
        Ok(piece)
    }

    /// The memory, which must not be freed while the card may access it.
    pub(super) fn into_dma(self) -> Dma {
        self.dma
    }
}

/// The bus addresses of the pages of memory.
///
/// # Errors
/// It is not this function's.
pub(super) fn pages(pci: &dyn Pci, dma: &Dma) -> Result<Vec<BusAddr>, Cause> {
    let ranges = dma.ranges.for_domain(pci.domain());
    let ranges = ranges.map_err(|error| Cause::Contents {
        file: "host memory".into(),
        what: error.to_string(),
    })?;
    let pages = |range: &hcq::transport::BusRange| {
        let first = range.addr.0;
        (0..range.bytes / PAGE).map(move |page| BusAddr(first + page * PAGE))
    };
    Ok(ranges.iter().flat_map(pages).collect())
}

/// GSP's image, and where the first page of its page table is.
pub(super) struct Image {
    /// Its memory.
    pub dma: Dma,
    /// The page table's first page.
    pub root: BusAddr,
}

impl Image {
    /// Copies an image into memory of the host, and makes its page table.
    ///
    /// # Errors
    /// The transport's; [`Cause::Radix`].
    pub(super) fn new(pci: &dyn Pci, image: &[u8]) -> Result<Image, Cause> {
        let sizes = Sizes::of(image.len() as u64)?;
        let [first, second, third] = sizes.levels;
        let all = first + second + third + sizes.image;
        let dma = pci.dma(all * PAGE, PAGE)?;
        let pages = pages(pci, &dma)?;
        // The levels come first, the image last.
        let before = [0, first, first + second, first + second + third];
        let place = |level: usize, page: u64| {
            let start = before.get(level).copied().unwrap_or_default();
            let found = pages.get((start + page) as usize);
            found.copied().unwrap_or_default().0
        };
        let table = sizes.table(place)?;
        let window = pci.window("GSP image", &dma);
        for (bytes, start) in table.iter().zip(before) {
            window.write_bytes(start * PAGE, bytes)?;
        }
        let start = before.last().copied().unwrap_or_default();
        window.write_bytes(start * PAGE, image)?;
        Ok(Image {
            root: pages.first().copied().unwrap_or_default(),
            dma,
        })
    }
}
