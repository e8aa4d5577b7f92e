//! The registers of a card: where each of them is, from the blocks that the card says it has, what it holds, and
//! what an access to it does.

use std::collections::{BTreeMap, HashMap};

use drivers_spec::amd::discovery as ip;
use drivers_spec::amd::mmio::{self, Reg, gc, header, mmhub};
use hcq::reg::{At as Where, IpVersion};
use twin::pci::Broken;

use super::discovery::Block;
use super::state::State;
use super::{kernel, nbio, sdma};

/// A register of a card.
#[derive(Clone, Copy)]
pub(super) struct At {
    /// What it is.
    pub(super) reg: &'static Reg,
    /// Of which of the blocks of its kind.
    pub(super) instance: u8,
    /// Where.
    pub(super) dword: u64,
}

impl At {
    /// Whether it is this register, of any block.
    pub(super) fn is(&self, reg: &Reg) -> bool {
        self.reg.word.name == reg.word.name
    }
}

/// What a read of a register does.
pub(super) type Read = fn(&mut State, At) -> Result<u32, Broken>;
/// What a write to a register does.
pub(super) type Write = fn(&mut State, At, u32) -> Result<(), Broken>;

/// A register that does more than to hold what was written.
pub(super) struct Hook {
    /// Which one.
    pub(super) reg: &'static Reg,
    /// What a read does.
    pub(super) read: Read,
    /// What a write does.
    pub(super) write: Write,
}

impl Hook {
    /// A register that only reads do something to.
    pub(super) const fn read(reg: &'static Reg, read: Read) -> Hook {
        Hook {
            reg,
            read,
            write: hold,
        }
    }

    /// A register that only writes do something to.
    pub(super) const fn write(reg: &'static Reg, write: Write) -> Hook {
        Hook {
            reg,
            read: held,
            write,
        }
    }

    /// A register that both do something to.
    pub(super) const fn both(reg: &'static Reg, read: Read, write: Write) -> Hook {
        Hook { reg, read, write }
    }
}

/// What a register holds.
pub(super) fn held(state: &mut State, at: At) -> Result<u32, Broken> {
    Ok(state.registers.slot(at.dword).map_or(0, |slot| slot.value))
}

/// A register holds a value from now on.
pub(super) fn hold(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    if let Some(slot) = state.registers.slot_mut(at.dword) {
        slot.value = value;
    }
    Ok(())
}

/// A register that is there.
pub(super) struct Slot {
    pub(super) at: At,
    pub(super) value: u32,
    pub(super) hook: Option<&'static Hook>,
}

/// Registers by their dword.
pub(super) struct Registers {
    slots: BTreeMap<u64, Slot>,
    places: HashMap<(&'static str, u8), u64>,
}

/// The tables of the vendor's registers, by what a block is.
const TABLES: [(u16, &[&Reg]); 8] = [
    (ip::GC, gc::ALL),
    (ip::MMHUB, mmhub::ALL),
    (ip::NBIF, mmio::nbio::ALL),
    (ip::OSSSYS, mmio::osssys::ALL),
    (ip::HDP, mmio::hdp::ALL),
    (ip::MP0, mmio::mp::ALL),
    (ip::MP1, mmio::mp::ALL),
    (ip::SDMA0, mmio::sdma::ALL),
];

/// Registers of which the tables have the first, the second and the last: the others lie between.
const ROWS: [[&Reg; 2]; 2] = [
    [
        &gc::GCVM_INVALIDATE_ENG1_ADDR_RANGE_HI32,
        &gc::GCVM_INVALIDATE_ENG17_ADDR_RANGE_LO32,
    ],
    [
        &mmhub::MMVM_INVALIDATE_ENG1_ADDR_RANGE_HI32,
        &mmhub::MMVM_INVALIDATE_ENG17_ADDR_RANGE_LO32,
    ],
];

impl Registers {
    /// The registers of blocks, all 0.
    pub(super) fn of(blocks: &[Block], hooks: &[&'static [Hook]]) -> Registers {
        let hooks: HashMap<_, _> = hooks
            .iter()
            .flat_map(|hooks| *hooks)
            .map(|hook| (hook.reg.word.name, hook))
            .collect();
        let mut all = Registers {
            slots: BTreeMap::new(),
            places: HashMap::new(),
        };
        let mut add = |reg: &'static Reg, instance: u8, dword: u64| {
            let at = At {
                reg,
                instance,
                dword,
            };
            let hook = hooks.get(reg.word.name).copied();
            all.slots
                .entry(dword)
                .or_insert(Slot { at, value: 0, hook });
            all.places.entry((reg.word.name, instance)).or_insert(dword);
        };
        let fixed = [
            &mmio::MM_INDEX,
            &mmio::MM_DATA,
            &mmio::MM_INDEX_HI,
            &mmio::RCC_CONFIG_MEMSIZE,
        ];
        let counters = [&mmio::GOLDEN_TSC_COUNT_UPPER, &mmio::GOLDEN_TSC_COUNT_LOWER];
        // Before GFX11 the graphics block has it.
        let is_gfx9 = |block: &Block| block.hw_id == ip::GC && block.version.0 == 9;
        let has_counters = !blocks.iter().any(is_gfx9);
        let counters = counters.into_iter().filter(|_| has_counters);
        for reg in fixed.into_iter().chain(counters) {
            if let Where::Fixed(dword) = reg.at {
                add(reg, 0, dword.into());
            }
        }
        for block in blocks {
            let (major, minor, revision) = block.version;
            let version = IpVersion(major, minor, revision);
            let version = header(block.hw_id, version).unwrap_or(version);
            let segment = |reg: &Reg| {
                let Where::Rows(rows) = reg.at else {
                    return None;
                };
                let row = rows.iter().find(|row| row.version == version)?;
                let base = block.bases.get(usize::from(row.segment))?;
                let die = nbio::die(block);
                Some((row.segment, base + u64::from(row.dword) + die))
            };
            let place = |reg: &Reg| segment(reg).map(|(_, dword)| dword);
            let tables = TABLES
                .iter()
                .chain(kernel::TABLES)
                .filter(|(hw_id, _)| *hw_id == block.hw_id);
            for &reg in tables.flat_map(|(_, regs)| *regs) {
                let Some((segment, dword)) = segment(reg) else {
                    continue;
                };
                add(reg, block.instance, dword);
                for (number, further) in sdma::copies(reg, segment) {
                    add(reg, number, dword + further);
                }
            }
            for [before, after] in ROWS {
                if let (Some(first), Some(end)) = (place(before), place(after)) {
                    (first + 1..end).for_each(|dword| add(before, block.instance, dword));
                }
            }
        }
        all
    }

    pub(super) fn slot(&self, dword: u64) -> Option<&Slot> {
        self.slots.get(&dword)
    }

    pub(super) fn slot_mut(&mut self, dword: u64) -> Option<&mut Slot> {
        self.slots.get_mut(&dword)
    }

    /// Where a register of a block is, if the chip has it.
    pub(super) fn place(&self, reg: &Reg, instance: u8) -> Option<u64> {
        self.places.get(&(reg.word.name, instance)).copied()
    }

    /// A register of a block holds nothing where the chip has none.
    pub(super) fn get(&self, reg: &Reg, instance: u8) -> u32 {
        let dword = self.places.get(&(reg.word.name, instance));
        let slot = dword.and_then(|dword| self.slots.get(dword));
        slot.map_or(0, |slot| slot.value)
    }

    /// As [`Registers::get`].
    pub(super) fn set(&mut self, reg: &Reg, instance: u8, value: u32) {
        let dword = self.places.get(&(reg.word.name, instance));
        let slot = dword.and_then(|dword| self.slots.get_mut(dword));
        if let Some(slot) = slot {
            slot.value = value;
        }
    }

    /// A register of all blocks that have it.
    pub(super) fn all(&self, reg: &Reg) -> Vec<At> {
        let slots = self.slots.values().filter(|slot| slot.at.is(reg));
        slots.map(|slot| slot.at).collect()
    }

    /// All registers hold 0.
    pub(super) fn clear(&mut self) {
        for slot in self.slots.values_mut() {
            slot.value = 0;
        }
    }
}
