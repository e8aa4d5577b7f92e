//! From bits to an instruction.

use crate::Chip;
use crate::control::{self, Control};
use crate::inst::Inst;
use crate::operand::{Kind, Memory, Operand, Role, Sign};
use crate::special;
use crate::table;
use crate::template::{Address, Choice, Condition, Part, Spec, What, Width};
use crate::word::{Bits, Word};

/// Why the bits are no instruction that is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No line of the table has the operation.
    #[error("{chip}: no operation {opcode:#05x} is known (bits 11:0 of {word:032x})")]
    Operation {
        /// The chip.
        chip: &'static str,
        /// What bits 0 to 11 say.
        opcode: u16,
        /// The instruction.
        word: u128,
    },
    /// A field has a value without a meaning.
    #[error("{chip}: {name}: bits {bits} are {value}, which has no meaning (of {word:032x})")]
    Value {
        /// The chip.
        chip: &'static str,
        /// The operation.
        name: &'static str,
        /// The field.
        bits: String,
        /// Its value.
        value: u64,
        /// The instruction.
        word: u128,
    },
    /// Bits are set that are part of no field.
    #[error("{chip}: {name}: no field has the bits {bits:#034x}, which are set (of {word:032x})")]
    Bits {
        /// The chip.
        chip: &'static str,
        /// The operation.
        name: &'static str,
        /// The bits that are set.
        bits: u128,
        /// The instruction.
        word: u128,
    },
    /// A line of the table cannot be read: a mistake in this crate.
    #[error("the table of instructions: {0}")]
    Table(String),
}

/// What every instruction has: operation, guard, control word.
const COMMON: u128 = 0xffff | control::MASK;

/// Decodes the 16 bytes of an instruction.
///
/// # Errors
/// When the chip has no such instruction, or the tables do not know it; the error says which bits.
pub fn decode(chip: Chip, word: u128) -> Result<Inst, Error> {
    let opcode = word as u16 & 0xfff;
    let forms = table::forms(chip, opcode)?;
    let word = Word(word);
    let unknown = Error::Operation {
        chip: chip.name(),
        opcode,
        word: word.0,
    };
    let form = forms
        .iter()
        .find(|form| {
            form.conditions
                .iter()
                .all(|condition| holds(condition, word))
        })
        .ok_or(unknown)?;
    let mut reading = Reading {
        chip,
        word,
        name: form.template.name,
        known: COMMON,
    };
    for condition in &form.conditions {
        reading.known |= condition.bits.mask();
    }
    let mut inst = Inst {
        word,
        name: form.template.name,
        modifiers: Vec::new(),
        guard: reading.guard(form.uniform),
        operands: Vec::new(),
        control: Control::of(word),
    };
    for (conditions, part) in &form.template.parts {
        for condition in conditions {
            reading.known |= condition.bits.mask();
        }
        let there = conditions.iter().all(|condition| holds(condition, word));
        match part {
            Part::Text(text) if there => inst.modifiers.push(text),
            Part::Text(_) => {}
            Part::Choice(choice) if there => {
                let text = reading.choose(choice)?;
                if !text.is_empty() {
                    inst.modifiers.push(text);
                }
            }
            // What is not there may say anything.
            Part::Choice(choice) => reading.known |= choice.bits.mask(),
            Part::Operand(spec) => {
                let operand = reading.operand(spec, there)?;
                inst.operands.extend(there.then_some(operand));
            }
        }
    }
    let unknown = word.0 & !reading.known;
    if unknown != 0 {
        let (chip, name) = (chip.name(), inst.name);
        return Err(Error::Bits {
            chip,
            name,
            bits: unknown,
            word: word.0,
        });
    }
    Ok(inst)
}

fn holds(condition: &Condition, word: Word) -> bool {
    (condition.bits.of(word) == condition.value) == condition.equal
}

/// An instruction while it is read.
struct Reading {
    chip: Chip,
    word: Word,
    name: &'static str,
    /// The bits that have a meaning.
    known: u128,
}

impl Reading {
    fn field(&mut self, at: u8, len: u8) -> u8 {
        self.known |= Bits::one(at, len).mask();
        self.word.field(at, len) as u8
    }

    /// A register of the warp. Blackwell has more of them, and the last is that of zeros everywhere.
    fn uniform(&mut self, at: u8) -> u8 {
        if self.chip >= Chip::Sm120 {
            return self.field(at, 8);
        }
        match self.field(at, 6) {
            63 => 255,
            n => n,
        }
    }

    fn bit(&mut self, at: Option<u8>) -> bool {
        at.is_some_and(|at| self.field(at, 1) != 0)
    }

    fn choose(&mut self, choice: &Choice) -> Result<&'static str, Error> {
        self.known |= choice.bits.mask();
        let value = choice.bits.of(self.word);
        match choice.texts.get(value as usize) {
            _ if choice.texts == ["*"] => Ok(""),
            Some(&text) if text != "?" => Ok(text),
            _ => Err(self.meaningless(&choice.bits)),
        }
    }

    fn meaningless(&self, bits: &Bits) -> Error {
        Error::Value {
            chip: self.chip.name(),
            name: self.name,
            bits: bits.to_string(),
            value: bits.of(self.word),
            word: self.word.0,
        }
    }

    fn guard(&mut self, uniform: bool) -> Operand {
        let number = self.word.field(12, 3) as u8;
        let kind = if uniform {
            Kind::UniformPredicate(number)
        } else {
            Kind::Predicate(number)
        };
        Operand {
            kind,
            role: Role::Read,
            width: 1,
            sign: Sign {
                inverted: self.word.bit(15),
                ..Sign::default()
            },
            reuse: false,
            part: "",
            parts: false,
            joined: false,
            hidden: false,
        }
    }

    /// An operand. `there`: whether it matters what its fields say.
    fn operand(&mut self, spec: &Spec, there: bool) -> Result<Operand, Error> {
        let kind = match spec.what {
            What::Register(at) => Kind::Register(self.field(at, 8)),
            What::Uniform(at) => Kind::Uniform(self.uniform(at)),
            What::Predicate(at, flip) => Kind::Predicate(self.field(at, 3) ^ flip),
            What::UniformPredicate(at, flip) => Kind::UniformPredicate(self.field(at, 3) ^ flip),
            What::Join(at) => Kind::Join(self.field(at, 4)),
            What::Scoreboard(ref bits) => {
                self.known |= bits.mask();
                Kind::Scoreboard(bits.of(self.word) as u8)
            }
            What::Special(at) => {
                let number = self.field(at, 8);
                Kind::Special(number, special::name(self.chip, number))
            }
            What::Immediate(ref bits, number) => {
                use crate::operand::Number::{Absolute, Signed, Target};
                self.known |= bits.mask();
                let value = match number {
                    Signed => bits.signed(self.word).cast_unsigned(),
                    Target | Absolute => (bits.signed(self.word) << 2).cast_unsigned(),
                    _ => bits.of(self.word),
                };
                Kind::Immediate(value, number)
            }
            What::Constant(base) => {
                let bank = self.field(54, 5);
                let base = base.map(|at| self.field(at, 8));
                Kind::Constant(bank, self.constant(0), base)
            }
            What::ConstantSource => Kind::Constant(self.field(54, 5), self.constant(3), None),
            What::ConstantOf => {
                Kind::ConstantOf(self.uniform(32), self.constant(3).cast_unsigned())
            }
            What::ConstantBy(base, at) => {
                let bank = self.field(54, 5);
                let byte = Bits::one(at, 54 - at);
                self.known |= byte.mask();
                let byte = byte.signed(self.word) as i32;
                match (self.uniform(base), i16::try_from(byte)) {
                    (255, Ok(byte)) => Kind::Constant(bank, byte, None),
                    (base, _) => Kind::ConstantBy(bank, byte, base),
                }
            }
            What::Descriptor(at) => Kind::Descriptor(self.uniform(at)),
            What::Address(ref address) => Kind::Memory(self.address(address)?),
            What::Word(word) => Kind::Word(word),
        };
        let negative = self.bit(spec.negative);
        let inverted = self.bit(spec.inverted);
        let instead = negative && self.bit(spec.instead);
        let sign = Sign {
            negative: negative && !instead,
            inverted: inverted || instead,
            absolute: self.bit(spec.absolute),
        };
        let part = match &spec.part {
            Some(choice) if there => self.choose(choice)?,
            Some(choice) => {
                self.known |= choice.bits.mask();
                ""
            }
            None => "",
        };
        let width = match &spec.width {
            Width::Fixed(width) => *width,
            Width::By(choice) if there => self.choose(choice)?.parse().unwrap_or(1),
            Width::By(_) => 1,
        };
        let default = matches!(
            kind,
            Kind::Predicate(7)
                | Kind::UniformPredicate(7)
                | Kind::Register(255)
                | Kind::Uniform(255)
                | Kind::Immediate(0, _)
        );
        // A warp that gives way loses what the cache of operands holds.
        let reuse = self.bit(spec.reuse) && self.word.bit(109);
        Ok(Operand {
            kind,
            role: if spec.written {
                Role::Write
            } else {
                Role::Read
            },
            width,
            sign,
            reuse,
            part,
            parts: spec.part.is_some(),
            joined: spec.joined,
            hidden: spec.hidden && default && sign == Sign::default(),
        })
    }

    /// A byte in constant memory. `low`: the bits of it that are left out.
    fn constant(&mut self, low: u64) -> i16 {
        self.known |= Bits::one(38, 16).mask();
        ((self.word.field(38, 16) & !low) as u16).cast_signed()
    }

    fn address(&mut self, address: &Address) -> Result<Memory, Error> {
        let wide = self.bit(address.wide);
        let described = address.matrix || self.bit(address.descriptor);
        let present = address.present.is_none() || self.bit(address.present);
        let next = u8::from(address.next);
        let uniform = address
            .uniform
            .map(|at| self.uniform(at).saturating_add(next))
            .filter(|&n| present && !(address.quiet && wide && n == 255));
        let named =
            self.chip >= Chip::Sm90 || (address.descriptor.is_some() && self.bit(Some(101)));
        let base = address.base.map(|at| self.field(at, 8));
        let width = match (address.wide, wide) {
            // Ampere prints no width of a base that is zero, unless it stands alone.
            _ if base == Some(255) && self.chip < Chip::Sm90 && !described => 0,
            (Some(_), true) if present => 2,
            (Some(_), false) if present => 1,
            _ => 0,
        };
        if let (Some(at), Some(255), 2) = (address.base, base, width) {
            // The register after the one of zeros is none.
            return Err(self.meaningless(&Bits::one(at, 8)));
        }
        let scale = address
            .scale
            .map_or(1, |at| [1, 4, 8, 16][usize::from(self.field(at, 2))]);
        let offset = address.offset.as_ref().map_or(0, |bits| {
            self.known |= bits.mask();
            // What stands alone is an address, not a distance.
            let alone = matches!(base, None | Some(255)) && uniform.is_none();
            if alone {
                bits.of(self.word).cast_signed()
            } else {
                bits.signed(self.word)
            }
        });
        let offset = offset * i64::from(address.unit.unwrap_or(1));
        Ok(Memory {
            descriptor: uniform.filter(|_| described && named),
            matrix: address.matrix,
            base,
            width,
            scale,
            uniform: uniform.filter(|_| !described && !address.next),
            offset,
        })
    }
}
