//! A walk of page tables in VRAM, as a hub does it.

use drivers_spec::amd::packet::Gfx;
use drivers_spec::amd::pte;
use hcq::mem::window::Window;

/// Where a walk has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The level whose entry maps the page.
    pub level: usize,
    /// The entry, without the bits of the run.
    pub entry: u64,
    /// Where the first byte of the page of 4 KiB is.
    pub to: u64,
    /// Log2 of the bytes of the run.
    pub run: u32,
}

/// Walks from the root, with an address that counts from the start of the context.
pub fn walk(gfx: Gfx, vram: &Window, root: u64, at: u64) -> Option<Found> {
    let entries = pte::entries(gfx);
    let mut table = root;
    for (level, shift) in pte::SHIFTS.into_iter().enumerate() {
        let index = at >> shift & ((1 << pte::INDEX_BITS) - 1);
        let entry: u64 = vram.load(table + index * 8).unwrap();
        if pte::VALID.get(entry) == 0 {
            assert_eq!(entry, 0, "an entry that is not valid holds nothing");
            return None;
        }
        let place = entry & pte::ADDRESS.mask();
        if entries.is_leaf(level, entry) {
            assert_eq!(place & ((1 << shift) - 1), 0, "a page lies aligned");
            let inside = at & ((1 << shift) - 1) & !0xfff;
            let run = pte::SHIFTS[pte::PTB] + pte::FRAGMENT.get(entry) as u32;
            let entry = entry & !pte::FRAGMENT.mask() & !pte::ADDRESS.mask();
            let to = place + inside;
            return Some(Found {
                level,
                entry,
                to,
                run,
            });
        }
        let rights = pte::READABLE.mask() | pte::WRITEABLE.mask() | pte::EXECUTABLE.mask();
        assert_eq!(entry & (rights | pte::FRAGMENT.mask()), 0, "{entry:#x}");
        if gfx == Gfx::Gfx9 && level == pte::PDB1 {
            assert_eq!(entries.block.get(entry), pte::BLOCK_GFX9);
        }
        table = place;
    }
    panic!("a page of 4 KiB is always one");
}
