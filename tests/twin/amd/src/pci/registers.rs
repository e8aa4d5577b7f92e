//! The registers of a card: where each of them is, from the blocks that the card says it has, and what it holds.

use std::collections::BTreeMap;

use drivers_spec::amd::discovery as ip;
use drivers_spec::amd::mmio::{self, Reg, header};
use hcq::reg::{At, IpVersion};

use super::discovery::Block;

/// A register that is there.
pub(super) struct Slot {
    /// The vendor's name.
    pub(super) name: &'static str,
    /// What it holds.
    pub(super) value: u32,
}

/// Registers by their dword.
pub(super) struct Registers(BTreeMap<u64, Slot>);

/// The tables of the vendor's registers, by what a block is.
const TABLES: [(u16, &[&Reg]); 7] = [
    (ip::GC, mmio::gc::ALL),
    (ip::MMHUB, mmio::mmhub::ALL),
    (ip::NBIF, mmio::nbio::ALL),
    (ip::OSSSYS, mmio::osssys::ALL),
    (ip::HDP, mmio::hdp::ALL),
    (ip::MP0, mmio::mp::ALL),
    (ip::MP1, mmio::mp::ALL),
];

impl Registers {
    pub(super) fn of(blocks: &[Block]) -> Registers {
        let mut all = BTreeMap::new();
        let fixed = [
            &mmio::MM_INDEX,
            &mmio::MM_DATA,
            &mmio::MM_INDEX_HI,
            &mmio::RCC_CONFIG_MEMSIZE,
        ];
        let mut add = |dword: u64, reg: &'static Reg| {
            let name = reg.word.name;
            all.entry(dword).or_insert(Slot { name, value: 0 });
        };
        for reg in fixed {
            if let At::Fixed(dword) = reg.at {
                add(dword.into(), reg);
            }
        }
        for block in blocks {
            let (major, minor, revision) = block.version;
            let Ok(version) = header(block.hw_id, IpVersion(major, minor, revision)) else {
                continue;
            };
            let tables = TABLES.iter().filter(|(hw_id, _)| *hw_id == block.hw_id);
            for &reg in tables.flat_map(|(_, regs)| *regs) {
                let At::Rows(rows) = reg.at else { continue };
                let row = rows.iter().find(|row| row.version == version);
                let base = row.and_then(|row| block.bases.get(usize::from(row.segment)));
                if let (Some(row), Some(base)) = (row, base) {
                    add(base + u64::from(row.dword), reg);
                }
            }
        }
        Registers(all)
    }

    pub(super) fn at(&mut self, dword: u64) -> Option<&mut Slot> {
        self.0.get_mut(&dword)
    }

    /// What a register holds.
    pub(super) fn value(&self, reg: &Reg) -> u32 {
        let found = self.0.values().find(|slot| slot.name == reg.word.name);
        found.map_or(0, |slot| slot.value)
    }
}
