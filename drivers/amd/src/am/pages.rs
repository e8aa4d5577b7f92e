//! Page tables: what an entry of each generation holds, and VRAM to put tables into.
//!
//! The walk, and which pages a mapping is made of, are [`hcq::mem::pages`]. Here is what a VM hub takes: four
//! levels of 512 entries, huge pages of 2 MiB and 1 GiB, and fragments, which tell the TLB that neighbours are
//! one run.

use drivers_spec::amd::packet::Gfx;
use drivers_spec::amd::pte::{self, Entries};
use hcq::addr::{GpuVa, PhysAddr, VramAddr};
use hcq::mem::pages::{Frame, Leaf, Level, PteFormat, TableMemory};
use hcq::mem::tlsf::{Tlsf, TlsfError};
use hcq::mem::window::Window;
use hcq::transport::TransportError;
use hcq::{DeviceId, Error};

/// Where addresses of the device start: the tables of context 0 count from here.
pub const START: GpuVa = GpuVa(0x2000_0000_0000);
/// The last address.
pub const LAST: GpuVa = GpuVa(0x7fff_ffff_ffff);

/// Bytes of the smallest page.
pub const PAGE: u64 = 1 << pte::SHIFTS[pte::PTB];

/// Bytes of a table.
pub const TABLE: u64 = 8 << pte::INDEX_BITS;

/// What a page may be used for, and how it is cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attr {
    /// Stores are no fault.
    pub write: bool,
    /// Instructions may be fetched.
    pub execute: bool,
    /// Accesses look into the caches of the processor, or of the GPU that has the memory.
    pub snooped: bool,
    /// Kept by no cache of the GPU.
    pub uncached: bool,
}

impl Attr {
    /// Memory of its own: all accesses, cached.
    pub const LOCAL: Attr = Attr {
        write: true,
        execute: true,
        snooped: false,
        uncached: false,
    };

    /// Memory of its own that it shares with the host: cached by nobody.
    pub const SHARED: Attr = Attr {
        write: true,
        execute: true,
        snooped: false,
        uncached: true,
    };

    /// Memory of the host, which sees what the GPU writes, and the other way round.
    pub const HOST: Attr = Attr {
        write: true,
        execute: true,
        snooped: true,
        uncached: true,
    };
}

/// The entries of a generation.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    entries: &'static Entries,
    levels: [Level; 4],
}

impl Format {
    /// The entries of a generation.
    pub fn of(gfx: Gfx) -> Format {
        let levels = pte::SHIFTS.map(|shift| Level {
            index_bits: pte::INDEX_BITS,
            shift,
            entry_bytes: 8,
            // A page of 512 GiB is more than any of these GPUs has.
            leaf: shift < pte::SHIFTS[pte::PDB2],
        });
        Format {
            entries: pte::entries(gfx),
            levels,
        }
    }
}

/// The bits that say where something is.
fn place(to: PhysAddr) -> u64 {
    let system = match to {
        PhysAddr::Vram(_) => 0,
        PhysAddr::Bus(_) => 1,
    };
    // Both are multiples of 4 KiB: the bits below are free for the rest of an entry.
    to.raw() & pte::ADDRESS.mask() | pte::SYSTEM.put(system)
}

impl PteFormat for Format {
    type Attr = Attr;

    fn levels(&self) -> &[Level] {
        &self.levels
    }

    fn max_run(&self, _: usize) -> u32 {
        pte::SHIFTS[pte::PTB] + pte::FRAGMENT.get(u64::MAX) as u32
    }

    fn encode_table(&self, level: usize, table: PhysAddr) -> u128 {
        let mut entry = place(table) | pte::VALID.put(1);
        if let Some(further) = self.entries.further {
            match level {
                pte::PDB1 => entry |= self.entries.block.put(pte::BLOCK_GFX9),
                pte::PDB0 => entry |= further.put(1),
                _ => {}
            }
        }
        entry.into()
    }

    fn encode_leaf(&self, level: usize, leaf: Leaf<Attr>) -> u128 {
        let Entries {
            mtype,
            leaf: mark,
            leaf_in_ptb,
            further,
            ..
        } = *self.entries;
        let marked = match level {
            pte::PTB => leaf_in_ptb,
            // Where an entry says that it leads to a table, one that does not is a page.
            pte::PDB0 => further.is_none(),
            _ => true,
        };
        let cached = match leaf.attr.uncached {
            true => pte::MTYPE_UC,
            false => pte::MTYPE_DEFAULT,
        };
        let run = u64::from(leaf.run - pte::SHIFTS[pte::PTB]);
        let entry = place(leaf.to)
            | pte::VALID.put(1)
            | pte::SNOOPED.put(leaf.attr.snooped.into())
            | pte::READABLE.put(1)
            | pte::WRITEABLE.put(leaf.attr.write.into())
            | pte::EXECUTABLE.put(leaf.attr.execute.into())
            | pte::FRAGMENT.put(run)
            | mtype.put(cached)
            | mark.put(marked.into());
        entry.into()
    }
}

/// VRAM for tables, all of which the host reaches through the BAR. Where the BAR shows but a part of VRAM,
/// tables need a range of that part for themselves.
#[derive(Debug)]
pub struct Tables {
    device: DeviceId,
    vram: Window,
    range: Tlsf,
    /// The first that is asked for.
    root: Option<Frame>,
}

impl Tables {
    /// Tables in `bytes` bytes of VRAM from `from` on, both multiples of [`TABLE`]. `vram` is the BAR, from
    /// the first byte of VRAM on.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]: the range is none, or goes beyond what the BAR shows.
    pub fn new(
        device: &DeviceId,
        vram: &Window,
        from: VramAddr,
        bytes: u64,
    ) -> Result<Tables, Error> {
        let refused = |hint: String| Error::OutOfMemory {
            device: device.clone(),
            asked: bytes,
            free: vram.len().saturating_sub(from.0),
            total: vram.len(),
            hint,
        };
        if from.0.checked_add(bytes).is_none_or(|end| end > vram.len()) {
            let hint =
                format!(" from {from} on behind the BAR, where tables have to lie; resize the BAR");
            return Err(refused(hint));
        }
        let range = Tlsf::new(from.0, bytes, TABLE);
        let range = range.map_err(|error| refused(format!(" ({error})")))?;
        Ok(Tables {
            device: device.clone(),
            vram: vram.clone(),
            range,
            root: None,
        })
    }

    /// The first table lies at `at`, outside of the range: a hub has been told of the root before there is any.
    ///
    /// # Errors
    /// [`TransportError`]: the BAR does not show it.
    pub fn rooted(self, at: VramAddr) -> Result<Tables, TransportError> {
        let window = self.vram.sub(at.0, TABLE)?;
        let at = PhysAddr::Vram(at);
        let root = Some(Frame { at, window });
        Ok(Tables { root, ..self })
    }
}

impl TableMemory for Tables {
    fn alloc(&mut self, bytes: u64) -> Result<Frame, Error> {
        if let Some(root) = self.root.take() {
            return Ok(root);
        }
        let full = |range: &Tlsf, error: TlsfError| {
            let stats = range.stats();
            Error::OutOfMemory {
                device: self.device.clone(),
                asked: bytes,
                free: stats.free,
                total: stats.size,
                hint: format!(" of what is for page tables ({error})"),
            }
        };
        let at = self.range.alloc(bytes, bytes);
        let at = at.map_err(|error| full(&self.range, error))?;
        match self.vram.sub(at, bytes) {
            Ok(window) => Ok(Frame {
                at: PhysAddr::Vram(VramAddr(at)),
                window,
            }),
            Err(error) => {
                // PANIC: just allocated.
                self.range.free(at).ok();
                Err(Error::Os {
                    device: self.device.clone(),
                    call: format!("a page table at VRAM {at:#x}"),
                    source_text: error.to_string(),
                    errno: None,
                    hint: "Open the device again".into(),
                })
            }
        }
    }

    fn free(&mut self, frame: Frame) {
        // What was not allocated here is not taken back.
        let freed = self.range.free(frame.at.raw());
        debug_assert!(freed.is_ok(), "{freed:?}");
    }
}
