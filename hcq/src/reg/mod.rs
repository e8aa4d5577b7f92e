//! Registers and the dwords of packets: which bits mean what, and where a register is.
//!
//! Tables of constants define them once: [`Field`]s in a [`Word`], and for a [`Register`] its offset in every version
//! of its block. Packet encoders, decoders and register accesses use the same fields; a [`Value`] prints itself by
//! them. [`bus`] accesses registers, [`block`] reads and writes them by name.
//!
//! Entries may exist in some generations of a chip only. The vendor defines the generations: [`Generations`].

pub mod block;
pub mod bus;
pub mod error;

use std::fmt;

/// A set of generations of a vendor's chips.
pub trait Generations: Copy + Eq + fmt::Debug + 'static {
    /// One of them.
    type One: Copy + Eq + fmt::Debug;

    /// All of them.
    const ALL: Self;

    /// Whether it has `one`.
    fn has(self, one: Self::One) -> bool;
}

/// Bits of a dword.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field<G> {
    /// The vendor's name.
    pub name: &'static str,
    /// The highest bit.
    pub high: u8,
    /// The lowest bit.
    pub low: u8,
    /// Where it exists.
    pub on: G,
}

impl<G: Copy> Field<G> {
    /// Its bits.
    #[inline]
    pub const fn mask(self) -> u32 {
        (u32::MAX >> (31 - (self.high - self.low))) << self.low
    }

    /// Its value in a dword.
    #[inline]
    pub const fn get(self, word: u32) -> u32 {
        (word & self.mask()) >> self.low
    }

    /// A dword with nothing but this value, cut to its width.
    #[inline]
    pub const fn put(self, value: u32) -> u32 {
        (value << self.low) & self.mask()
    }
}

/// A dword of a packet, or a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word<G: 'static> {
    /// The vendor's name.
    pub name: &'static str,
    /// Its fields; none where it is one field of 32 bits.
    pub fields: &'static [Field<G>],
    /// Where it exists.
    pub on: G,
}

impl<G: Generations> Word<G> {
    /// A dword of one field.
    pub const fn whole(name: &'static str) -> Self {
        Self {
            name,
            fields: &[],
            on: G::ALL,
        }
    }

    /// The same, only on some generations.
    pub const fn on(self, on: G) -> Self {
        Self { on, ..self }
    }

    /// The field of a name on a generation: the vendor moves fields, and keeps their names.
    pub fn field(&self, one: G::One, name: &str) -> Option<Field<G>> {
        let mut fields = self.fields.iter();
        let found = fields.find(|field| field.name == name && field.on.has(one));
        found.copied()
    }

    /// The bits that mean something on a generation.
    pub fn mask(&self, one: G::One) -> u32 {
        if self.fields.is_empty() {
            return u32::MAX;
        }
        let fields = self.fields.iter().filter(|field| field.on.has(one));
        fields.fold(0, |mask, field| mask | field.mask())
    }
}

/// The value of a dword on a generation. `Debug` prints its fields by name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Value<G: Generations> {
    word: Word<G>,
    one: G::One,
    bits: u32,
}

impl<G: Generations> Value<G> {
    /// Bits of a dword.
    pub const fn new(word: Word<G>, one: G::One, bits: u32) -> Self {
        Value { word, one, bits }
    }

    /// All bits.
    pub const fn bits(self) -> u32 {
        self.bits
    }

    /// The value of a field.
    pub fn get(self, field: Field<G>) -> u32 {
        self.holds(field);
        field.get(self.bits)
    }

    /// With a field replaced, by a value cut to its width.
    #[must_use]
    pub fn with(self, field: Field<G>, value: u32) -> Self {
        self.holds(field);
        let bits = self.bits & !field.mask() | field.put(value);
        Value { bits, ..self }
    }

    /// A field of another dword is a bug in the driver.
    fn holds(self, field: Field<G>) {
        debug_assert!(
            self.word.fields.contains(&field) && field.on.has(self.one),
            "{} has no {field:?} on {:?}",
            self.word.name,
            self.one
        );
    }
}

impl<G: Generations> fmt::Debug for Value<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({:#010x})", self.word.name, self.bits)?;
        let fields = self.word.fields.iter();
        let mut fields = fields.filter(|field| field.on.has(self.one)).peekable();
        if fields.peek().is_none() {
            return Ok(());
        }
        f.write_str(" {")?;
        let mut separator = " ";
        for field in fields {
            write!(f, "{separator}{}: {:#x}", field.name, field.get(self.bits))?;
            separator = ", ";
        }
        f.write_str(" }")
    }
}

/// A register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Register<G: 'static> {
    /// Its name, its fields, where it exists.
    pub word: Word<G>,
    /// Where it is.
    pub at: At,
}

impl<G: Generations> Register<G> {
    /// A register whose address is the same on every device that has it.
    pub const fn fixed(word: Word<G>, dword: u32) -> Self {
        let at = At::Fixed(dword);
        Register { word, at }
    }

    /// The same, only on some generations.
    pub const fn on(self, on: G) -> Self {
        Register {
            word: self.word.on(on),
            ..self
        }
    }
}

/// Where a register is, in dwords.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// From the start of the bus.
    Fixed(u32),
    /// By the version of its block.
    Rows(&'static [Row]),
}

/// Where a register is in a version of its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// The version.
    pub version: IpVersion,
    /// The segment; the device reports its base.
    pub segment: u8,
    /// How far into it.
    pub dword: u32,
}

/// Version of a hardware block, as its vendor counts: major, minor, revision.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IpVersion(pub u8, pub u8, pub u8);

impl fmt::Display for IpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// Two generations, for the tests here.
#[cfg(test)]
pub(crate) mod table {
    use super::{At, Field, Generations, IpVersion, Register, Row, Word};

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Chip {
        Old,
        New,
    }

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Chips(pub u8);

    impl Generations for Chips {
        type One = Chip;
        const ALL: Chips = Chips(3);
        fn has(self, one: Chip) -> bool {
            self.0 >> one as u8 & 1 == 1
        }
    }

    const fn field(name: &'static str, high: u8, low: u8, on: Chips) -> Field<Chips> {
        Field {
            name,
            high,
            low,
            on,
        }
    }

    pub const ACTIVE: Field<Chips> = field("ACTIVE", 0, 0, Chips::ALL);
    pub const VMID: Field<Chips> = field("VMID", 7, 4, Chips::ALL);
    pub const LEVEL_OLD: Field<Chips> = field("LEVEL", 31, 30, Chips(1));
    pub const LEVEL: Field<Chips> = field("LEVEL", 31, 28, Chips(2));
    pub const CP_HQD_ACTIVE: Register<Chips> = Register {
        word: Word {
            name: "CP_HQD_ACTIVE",
            fields: &[ACTIVE, VMID, LEVEL_OLD, LEVEL],
            on: Chips::ALL,
        },
        at: At::Rows(&[
            Row {
                version: IpVersion(9, 4, 3),
                segment: 0,
                dword: 0x10,
            },
            Row {
                version: IpVersion(11, 0, 0),
                segment: 1,
                dword: 0x2,
            },
        ]),
    };
    pub const MM_INDEX: Register<Chips> = Register::fixed(Word::whole("MM_INDEX"), 0);
}

#[cfg(test)]
mod tests {
    use super::table::{ACTIVE, CP_HQD_ACTIVE, Chip, Chips, LEVEL, LEVEL_OLD, MM_INDEX, VMID};
    use super::*;

    #[test]
    fn a_field_keeps_to_its_bits() {
        let field = Field {
            name: "F",
            high: 9,
            low: 4,
            on: (),
        };
        assert_eq!(field.mask(), 0x3f0);
        assert_eq!(field.put(0xff), 0x3f0);
        assert_eq!(field.get(0x1235), 0x23);
        let all = Field {
            high: 31,
            low: 0,
            ..field
        };
        assert_eq!(all.mask(), u32::MAX);
    }

    #[test]
    fn values_print_what_their_generation_has() {
        let word = CP_HQD_ACTIVE.word;
        assert_eq!(word.mask(Chip::Old), 0xc000_00f1);
        assert_eq!(word.mask(Chip::New), 0xf000_00f1);
        let value = Value::new(word, Chip::New, 0xa000_0001);
        let text = "CP_HQD_ACTIVE(0xa0000001) { ACTIVE: 0x1, VMID: 0x0, LEVEL: 0xa }";
        assert_eq!(format!("{value:?}"), text);
        let value = value.with(VMID, 0x1f).with(ACTIVE, 0);
        assert_eq!((value.bits(), value.get(VMID)), (0xa000_00f0, 0xf));
        let old = Value::new(word, Chip::Old, value.bits());
        assert_eq!((old.get(LEVEL_OLD), value.get(LEVEL)), (2, 10));
        let whole = Value::new(MM_INDEX.word, Chip::Old, 7);
        assert_eq!(format!("{whole:?}"), "MM_INDEX(0x00000007)");
        assert_eq!(word.field(Chip::Old, "LEVEL"), Some(LEVEL_OLD));
        assert_eq!(word.field(Chip::New, "LEVEL"), Some(LEVEL));
        assert_eq!(word.field(Chip::New, "NONE"), None);
        assert_eq!(MM_INDEX.word.mask(Chip::Old), u32::MAX);
        assert_eq!(MM_INDEX.on(Chips(1)).word.on, Chips(1));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "CP_HQD_ACTIVE has no Field")]
    fn a_field_of_another_generation_is_a_slip() {
        _ = Value::new(CP_HQD_ACTIVE.word, Chip::Old, 0).with(LEVEL, 1);
    }
}
