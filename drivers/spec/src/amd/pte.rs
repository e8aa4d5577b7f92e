//! Entries of the page tables that the VM hubs (GFXHUB, MMHUB) walk: 64 bits, of four levels. `PDB2`, `PDB1`
//! and `PDB0` lead to tables or map huge pages, `PTB` maps pages of 4 KiB.
//!
//! Source: Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_vm.h (`AMDGPU_PTE_*`, `AMDGPU_PDE_*`), gmc_v9_0.c,
//! gmc_v11_0.c, gmc_v12_0.c (`get_vm_pde`, `get_vm_pte`).

use super::packet::Gfx;

/// Bits of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bits {
    /// The highest.
    pub high: u8,
    /// The lowest.
    pub low: u8,
}

impl Bits {
    const fn one(bit: u8) -> Bits {
        Bits {
            high: bit,
            low: bit,
        }
    }

    const fn new(high: u8, low: u8) -> Bits {
        Bits { high, low }
    }

    /// All of them, in place.
    #[inline]
    pub const fn mask(self) -> u64 {
        (u64::MAX >> (63 - (self.high - self.low))) << self.low
    }

    /// Their value in an entry.
    #[inline]
    pub const fn get(self, entry: u64) -> u64 {
        (entry & self.mask()) >> self.low
    }

    /// An entry with nothing but this value, cut to its width.
    #[inline]
    pub const fn put(self, value: u64) -> u64 {
        (value << self.low) & self.mask()
    }
}

/// Bits that an address indexes a table by.
pub const INDEX_BITS: u32 = 9;

/// Levels, root first: the lowest bit of an address that indexes a table of it.
pub const SHIFTS: [u32; 4] = [39, 30, 21, 12];

/// `AMDGPU_VM_PDB2`: the level of the root.
pub const PDB2: usize = 0;
/// `AMDGPU_VM_PDB1`.
pub const PDB1: usize = 1;
/// `AMDGPU_VM_PDB0`.
pub const PDB0: usize = 2;
/// `AMDGPU_VM_PTB`: the last level.
pub const PTB: usize = 3;

/// `AMDGPU_PTE_VALID`.
pub const VALID: Bits = Bits::one(0);
/// `AMDGPU_PTE_SYSTEM`: the address is one of the bus, not of VRAM.
pub const SYSTEM: Bits = Bits::one(1);
/// `AMDGPU_PTE_SNOOPED`: accesses look into the caches of the processor.
pub const SNOOPED: Bits = Bits::one(2);
/// `AMDGPU_PTE_TMZ`: encrypted.
pub const TMZ: Bits = Bits::one(3);
/// `AMDGPU_PTE_EXECUTABLE`.
pub const EXECUTABLE: Bits = Bits::one(4);
/// `AMDGPU_PTE_READABLE`.
pub const READABLE: Bits = Bits::one(5);
/// `AMDGPU_PTE_WRITEABLE`.
pub const WRITEABLE: Bits = Bits::one(6);
/// `AMDGPU_PTE_FRAG`: log2 of the pages of 4 KiB of the aligned, contiguous run that it belongs to.
pub const FRAGMENT: Bits = Bits::new(11, 7);
/// The address, in place.
pub const ADDRESS: Bits = Bits::new(47, 12);

/// What differs between generations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entries {
    /// How memory is cached: one of the `MTYPE_*`.
    pub mtype: Bits,
    /// Nothing is there, and accesses are no faults (`PRT`).
    pub prt: Bits,
    /// The entry maps a page. From GFX12 on pages of 4 KiB have it, too (`AMDGPU_PTE_IS_PTE`); before, only
    /// huge ones (`AMDGPU_PDE_PTE`).
    pub leaf: Bits,
    /// Whether pages of 4 KiB have it.
    pub leaf_in_ptb: bool,
    /// In `PDB1`, where it leads to a table: log2 of the pages that an entry there covers (`AMDGPU_PDE_BFS`).
    pub block: Bits,
    /// In `PDB0`: it leads to a table (`AMDGPU_PTE_TF`). Without it, it is a huge page.
    pub further: Option<Bits>,
}

/// Cached, as the chip does by itself: `MTYPE_RW` or `MTYPE_NC`, 0 on all of these.
pub const MTYPE_DEFAULT: u64 = 0;
/// GFX9: cached, for memory that only this GPU accesses.
pub const MTYPE_RW_GFX9: u64 = 1;
/// GFX9: cached, kept coherent by probes.
pub const MTYPE_CC_GFX9: u64 = 2;
/// Uncached.
pub const MTYPE_UC: u64 = 3;

/// With `translate_further`, as the driver of GFX9 sets it up: the block size of `PDB0` is 9.
pub const BLOCK_GFX9: u64 = 9;

const GFX9: Entries = Entries {
    mtype: Bits::new(58, 57),
    prt: Bits::one(51),
    leaf: Bits::one(54),
    leaf_in_ptb: false,
    block: Bits::new(63, 59),
    further: Some(Bits::one(56)),
};

const GFX11: Entries = Entries {
    mtype: Bits::new(50, 48),
    prt: Bits::one(51),
    leaf: Bits::one(54),
    leaf_in_ptb: false,
    block: Bits::new(63, 59),
    further: None,
};

const GFX12: Entries = Entries {
    mtype: Bits::new(55, 54),
    prt: Bits::one(56),
    leaf: Bits::one(63),
    leaf_in_ptb: true,
    block: Bits::new(62, 58),
    further: None,
};

/// The entries of a generation.
pub const fn entries(gfx: Gfx) -> &'static Entries {
    match gfx {
        Gfx::Gfx9 => &GFX9,
        Gfx::Gfx10 | Gfx::Gfx11 => &GFX11,
        Gfx::Gfx12 => &GFX12,
    }
}

impl Entries {
    /// Whether a valid entry of a level maps a page.
    pub const fn is_leaf(&self, level: usize, entry: u64) -> bool {
        if level == PTB {
            return true;
        }
        if level == PDB0
            && let Some(further) = self.further
        {
            return further.get(entry) == 0;
        }
        self.leaf.get(entry) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bits_of_an_entry_overlap() {
        let all = [
            VALID, SYSTEM, SNOOPED, TMZ, EXECUTABLE, READABLE, WRITEABLE, FRAGMENT, ADDRESS,
        ];
        for gfx in [Gfx::Gfx9, Gfx::Gfx10, Gfx::Gfx11, Gfx::Gfx12] {
            let of = entries(gfx);
            let leaf = [of.mtype, of.prt, of.leaf];
            let table = [of.block];
            for own in [&leaf[..], &table[..]] {
                let masks = all.iter().chain(own).map(|bits| bits.mask());
                let sum = masks.clone().fold(0u64, |sum, mask| sum ^ mask);
                assert_eq!(sum.count_ones(), masks.map(u64::count_ones).sum::<u32>());
            }
        }
        assert_eq!(ADDRESS.put(u64::MAX), 0xffff_ffff_f000);
        assert_eq!(FRAGMENT.get(FRAGMENT.put(21)), 21);
    }
}
