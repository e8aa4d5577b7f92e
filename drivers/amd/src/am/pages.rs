//! Page tables: the entry format of each generation.
//!
//! A VM hub takes four levels of 512 entries, huge pages of 2 MiB and 1 GiB, and fragments, which tell the TLB that
//! neighbours are one run. All else is [`drivers_gpu::bare`].

use drivers_gpu::bare::{self, Entry};
pub use drivers_gpu::bare::{Attr, Tables};
use drivers_spec::amd::packet::Gfx;
use drivers_spec::amd::pte::{self, Entries};
use hcq::addr::{BusAddr, GpuVa, PhysAddr, VramAddr};
use hcq::mem::pages::{Leaf, Level, PteFormat};

/// Where addresses of the device start: the tables of context 0 count from here.
pub const START: GpuVa = GpuVa(0x2000_0000_0000);
/// The last address.
pub const LAST: GpuVa = GpuVa(0x7fff_ffff_ffff);

/// Bytes of the smallest page.
pub const PAGE: u64 = 1 << pte::SHIFTS[pte::PTB];
const _: () = assert!(PAGE == bare::PAGE && TABLE == bare::PAGE);

/// Bytes of a table.
pub const TABLE: u64 = 8 << pte::INDEX_BITS;

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
            // On a generation with a directory bit, an entry without it is a page.
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

/// Names of levels, root first.
const LEVELS: [&str; 4] = ["PDB2", "PDB1", "PDB0", "PTB"];

impl bare::Format for Format {
    fn name(&self, level: usize) -> &'static str {
        LEVELS.get(level).copied().unwrap_or_default()
    }

    fn decode(&self, level: usize, entry: u128) -> Entry {
        let entry = entry as u64;
        let to = entry & pte::ADDRESS.mask();
        if pte::VALID.get(entry) == 0 {
            return Entry::None;
        }
        if !self.entries.is_leaf(level, entry) {
            return Entry::Table(PhysAddr::Vram(VramAddr(to)));
        }
        let to = match pte::SYSTEM.get(entry) {
            0 => PhysAddr::Vram(VramAddr(to)),
            _ => PhysAddr::Bus(BusAddr(to)),
        };
        let may = [
            (pte::READABLE, "read"),
            (pte::WRITEABLE, "written"),
            (pte::EXECUTABLE, "executed"),
        ];
        let may = may.iter().filter(|(bit, _)| bit.get(entry) == 1);
        Entry::Page(to, may.map(|(_, what)| *what).collect())
    }
}
