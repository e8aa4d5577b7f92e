//! Registers of AMD cards by the vendor's names: the tables of a chip, and the values of a card.

use std::sync::Arc;

use drivers_amd::am::{AmError, card};
use drivers_spec::amd::discovery as ip;
use drivers_spec::amd::mmio::tables::{self, CHIPS, Chip, Named};
use drivers_spec::amd::mmio::{self, Reg};
use drivers_spec::amd::packet::{Gfx, Gfxs};
use hcq::DeviceId;
use hcq::reg::Value;
use hcq::reg::block::Block;
use hcq::reg::error::RegError;
use hcq::transport::{MonotonicClock, Pci};
use thiserror::Error;

/// Why registers could not be listed, read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RegsError {
    /// No such chip in the tables.
    #[error("no registers known for chip {chip:?}, only for {}", .known.join(", "))]
    Chip {
        /// What was asked for.
        chip: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// No such register.
    #[error("{name}: no such register on {chip}{}", nearest(.near))]
    Name {
        /// What was asked for.
        name: String,
        /// The chip.
        chip: String,
        /// The nearest one.
        near: Option<&'static str>,
    },
    /// The card cannot be looked at.
    #[error(transparent)]
    Card(#[from] Box<AmError>),
    /// A register cannot be read or written.
    #[error(transparent)]
    Register(#[from] RegError),
}

fn nearest(near: &Option<&str>) -> String {
    match near {
        Some(near) => format!("; did you mean {near}?"),
        None => "; search with `doorbell regs list TEXT`".into(),
    }
}

/// Bits of a register, by the vendor's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bits {
    /// The name.
    pub name: &'static str,
    /// The highest bit.
    pub high: u8,
    /// The lowest bit.
    pub low: u8,
}

/// A register of a chip.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The block that it is of.
    pub block: &'static str,
    /// The vendor's name.
    pub name: &'static str,
    /// The segment of the block; the card reports its base.
    pub segment: u8,
    /// How far into it, in dwords.
    pub dword: u32,
    /// Its fields; none where it is one number.
    pub fields: Vec<Bits>,
}

/// The names of chips with known registers.
pub fn chips() -> Vec<&'static str> {
    CHIPS.iter().map(|chip| chip.name).collect()
}

/// Registers that are found before anybody has said where blocks are.
static FIXED: [&Reg; 6] = [
    &mmio::RCC_CONFIG_MEMSIZE,
    &mmio::MM_INDEX,
    &mmio::MM_INDEX_HI,
    &mmio::MM_DATA,
    &mmio::GOLDEN_TSC_COUNT_UPPER,
    &mmio::GOLDEN_TSC_COUNT_LOWER,
];

fn chip(name: &str) -> Result<&'static Chip, RegsError> {
    CHIPS
        .iter()
        .find(|chip| chip.name == name)
        .ok_or_else(|| RegsError::Chip {
            chip: name.into(),
            known: chips(),
        })
}

/// The fields that a register has on a generation.
fn fields(named: Named, gfx: Gfx) -> Vec<Bits> {
    let all = named.reg.word.fields.iter();
    let here = all.filter(|field| field.on.has(gfx));
    here.map(|field| Bits {
        name: field.name,
        high: field.high,
        low: field.low,
    })
    .collect()
}

/// The registers of a chip whose name contains `part`, ignoring case.
///
/// # Errors
/// [`RegsError::Chip`].
pub fn list(name: &str, part: &str) -> Result<Vec<Listed>, RegsError> {
    let chip = chip(name)?;
    let part = part.to_uppercase();
    let meant = tables::all().filter(|named| named.reg.word.name.to_uppercase().contains(&part));
    let listed = meant.filter_map(|named| {
        let row = chip.row(named)?;
        Some(Listed {
            block: ip::name(named.hw_id).unwrap_or("block"),
            name: named.reg.word.name,
            segment: row.segment,
            dword: row.dword,
            fields: fields(named, chip.gfx),
        })
    });
    Ok(listed.collect())
}

/// What a value of a register of a chip means, by its fields.
///
/// # Errors
/// [`RegsError::Chip`], [`RegsError::Name`].
pub fn decode(name: &str, register: &str, value: u32) -> Result<Seen, RegsError> {
    let chip = chip(name)?;
    let here = tables::all().filter(|named| chip.row(*named).is_some());
    let named = find(here, register, chip.name)?;
    let block = ip::name(named.hw_id).unwrap_or("block");
    Ok(Seen::of(block, named, chip.gfx, value, None))
}

fn find(among: impl Iterator<Item = Named>, name: &str, chip: &str) -> Result<Named, RegsError> {
    let among: Vec<_> = among.collect();
    let is_meant = |named: &&Named| named.reg.word.name.eq_ignore_ascii_case(name);
    if let Some(named) = among.iter().find(is_meant) {
        return Ok(*named);
    }
    let upper = name.to_uppercase();
    let distance = |named: &&Named| strsim::damerau_levenshtein(named.reg.word.name, &upper);
    let near = among.iter().min_by_key(distance);
    let near = near.filter(|near| distance(near) <= 1 + name.len() / 4);
    Err(RegsError::Name {
        name: name.into(),
        chip: chip.into(),
        near: near.map(|near| near.reg.word.name),
    })
}

/// A register and its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The block, and which one of several: `GC0`.
    pub block: String,
    /// The vendor's name.
    pub name: &'static str,
    /// Its byte address on the card's register bus, where a card was asked.
    pub address: Option<u64>,
    /// All bits.
    pub value: u32,
    /// The values of its fields; none where it is one number.
    pub fields: Vec<(Bits, u32)>,
    /// All of it as one line.
    pub text: String,
}

impl Seen {
    fn of(block: &str, named: Named, gfx: Gfx, value: u32, address: Option<u64>) -> Seen {
        let of = |bits: Bits| {
            let field = named.reg.word.field(gfx, bits.name);
            let value = field.map_or(0, |field| field.get(value));
            (bits, value)
        };
        let text = format!("{:?}", Value::<Gfxs>::new(named.reg.word, gfx, value));
        Seen {
            block: block.into(),
            name: named.reg.word.name,
            address,
            value,
            fields: fields(named, gfx).into_iter().map(of).collect(),
            text: format!("{block}.{text}"),
        }
    }
}

/// What to write to a register.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// All bits.
    All(u32),
    /// A field of it, by its name; the others stay.
    Field(String, u32),
}

/// A card opened for register access. Starts nothing.
pub struct Card(card::Card);

impl Card {
    /// Reads a card's discovery table. Changes nothing but enabling its memory accesses on the bus.
    ///
    /// # Errors
    /// [`RegsError::Card`].
    pub fn open(pci: Arc<dyn Pci>) -> Result<Card, RegsError> {
        let clock = Arc::new(MonotonicClock);
        let card = card::Card::open(DeviceId::new("AMD", 0), pci, clock);
        Ok(Card(card.map_err(Box::new)?))
    }

    /// Its generation.
    pub(crate) fn gfx(&self) -> Gfx {
        self.0.gfx()
    }

    /// All registers that it has, each with its byte address and its block.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, String, Named)> {
        // What lies at one place on all cards, in no table of a block.
        let fixed = FIXED.iter().map(|&reg| Named {
            hw_id: ip::NBIF,
            reg,
        });
        fixed.chain(tables::all()).flat_map(move |named| {
            let blocks = self.of(named.hw_id).into_iter();
            blocks.filter_map(move |block| {
                let at = self.0.registers(block).place(named.reg).ok()?;
                Some((at, block.name.clone(), named))
            })
        })
    }

    fn of(&self, hw_id: u16) -> Vec<&Block<Gfxs>> {
        let blocks = self.0.blocks();
        match hw_id {
            ip::GC => blocks.gc.iter().collect(),
            ip::MMHUB => blocks.mmhub.iter().collect(),
            ip::NBIF => vec![&blocks.nbif],
            ip::OSSSYS => vec![&blocks.osssys],
            ip::HDP => vec![&blocks.hdp],
            ip::MP0 => vec![&blocks.mp0],
            ip::MP1 => vec![&blocks.mp1],
            _ => Vec::new(),
        }
    }

    /// The blocks of the card that a register is in.
    fn places(&self, register: &str) -> Result<(Named, Vec<&Block<Gfxs>>), RegsError> {
        let here = tables::all().filter(|named| {
            let registers = self
                .of(named.hw_id)
                .first()
                .map(|block| self.0.registers(block));
            registers.is_some_and(|registers| registers.place(named.reg).is_ok())
        });
        let named = find(here, register, "this card")?;
        Ok((named, self.of(named.hw_id)))
    }

    /// Reads a register, of each block of its kind.
    ///
    /// # Errors
    /// [`RegsError::Name`], [`RegsError::Register`].
    pub fn read(&self, register: &str) -> Result<Vec<Seen>, RegsError> {
        let (named, blocks) = self.places(register)?;
        let read = |block: &&Block<Gfxs>| {
            let registers = self.0.registers(block);
            let address = registers.place(named.reg)?;
            let value = registers.read(named.reg)?.bits();
            let gfx = self.0.gfx();
            Ok(Seen::of(&block.name, named, gfx, value, Some(address)))
        };
        blocks.iter().map(read).collect()
    }

    /// Writes a register, of each block of its kind, and returns what was written.
    ///
    /// # Errors
    /// [`RegsError::Name`]; [`RegsError::Register`], also for a field that it does not have, or that is too narrow.
    pub fn write(&self, register: &str, change: &Change) -> Result<Vec<Seen>, RegsError> {
        let (named, blocks) = self.places(register)?;
        let write = |block: &&Block<Gfxs>| {
            let registers = self.0.registers(block);
            let address = registers.place(named.reg)?;
            let value = match change {
                Change::All(value) => {
                    registers.write(named.reg, *value)?;
                    *value
                }
                Change::Field(field, value) => registers.set(named.reg, &[(field, *value)])?.bits(),
            };
            let gfx = self.0.gfx();
            Ok(Seen::of(&block.name, named, gfx, value, Some(address)))
        };
        blocks.iter().map(write).collect()
    }
}

#[cfg(test)]
mod tests {
    use twin_amd::pci::machine::PciMachine;

    use super::*;

    #[test]
    fn registers_are_listed_and_decoded_without_a_card() {
        let found = list("gfx1100", "grbm_gfx_cntl").unwrap();
        let [grbm] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!((grbm.block, grbm.segment, grbm.dword), ("GC", 1, 0x900));
        let vmid = grbm.fields.iter().find(|bits| bits.name == "vmid").unwrap();
        assert_eq!((vmid.high, vmid.low), (7, 4));
        for chip in chips() {
            assert!(list(chip, "").unwrap().len() > 200, "{chip}");
        }
        let seen = decode("gfx1201", "GRBM_GFX_CNTL", 0x854).unwrap();
        assert_eq!(
            seen.text,
            "GC.GRBM_GFX_CNTL(0x00000854) { pipeid: 0x0, meid: 0x1, vmid: 0x5, queueid: 0x0, ctxid: 0x1 }"
        );
        assert_eq!(seen.fields[2].1, 5);
        let error = decode("gfx1201", "GRBM_GFX_CTL", 0)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "GRBM_GFX_CTL: no such register on gfx1201; did you mean GRBM_GFX_CNTL?"
        );
        let error = list("gfx906", "").unwrap_err().to_string();
        assert!(error.contains("only for gfx942, gfx1100"), "{error}");
    }

    #[test]
    fn registers_of_a_card_are_read_and_written_by_name() {
        let machine = PciMachine::new("chip=gfx1201").unwrap();
        let card = Card::open(machine.function(0).unwrap().clone()).unwrap();
        card.write("SCRATCH_REG7", &Change::All(0x1234)).unwrap();
        let seen = card.read("scratch_reg7").unwrap();
        assert_eq!((seen.len(), seen[0].value), (1, 0x1234));
        assert_eq!(seen[0].block, "GC0");
        assert!(seen[0].address.is_some());
        let size = Change::Field("rb_size".into(), 16);
        let written = card.write("IH_RB_CNTL", &size).unwrap();
        assert_eq!(written[0].value, 16 << 1);
        let wide = Change::Field("rb_size".into(), 77);
        let error = card.write("IH_RB_CNTL", &wide).unwrap_err().to_string();
        assert!(error.contains("bit field rb_size"), "{error}");
        let error = card.read("IH_RB_CTL").unwrap_err().to_string();
        assert!(error.ends_with("did you mean IH_RB_CNTL?"), "{error}");
        assert!(machine.journal().violations().is_empty());
    }
}
