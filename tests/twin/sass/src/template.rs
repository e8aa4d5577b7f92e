//! The language of the tables: an instruction as it prints, with the places of its fields.
//!
//! ```text
//! FFMA{76 |.FMZ}{78+2 |.RM|.RP|.RZ} R16=, A-|, Bf-|, C-|
//! ```
//!
//! Up to the first space stands the name with its modifiers, then the operands. Bits are a number, a
//! run `first+count`, or several of either with `&` between, lowest first.
//!
//! | text | meaning |
//! | --- | --- |
//! | `{bits a\|b\|c}` | a modifier: the text for 0, 1, 2 and so on; `?` is an error, and so is what is missing; `*` alone: it says nothing |
//! | `<bits=n>`, `<bits!n>`, `<bit>` before a part | the part is there only if the field is, is not, `n`; the bit is set |
//! | `?` before an operand | it is not printed when it is the register that is always true or zero |
//! | `-n`, `~n`, `!n`, `\|n` before one | the bit that makes it negative, inverted, opposite, absolute |
//! | `-n^m` | the same, but inverted if bit `m` is set |
//! | `R` `U` `P` `Q` `J` `S` `Z` and a bit | register, uniform register, predicate, uniform predicate, join barrier, scoreboard, special register |
//! | `p` `q` and a bit | predicates again, their number inverted |
//! | `x` `s` `f` `d` `h` `b` `t` `a` `m` and bits | immediate: hexadecimal, signed, single, double, halves, bfloat16s, target from here, target, set |
//! | `c`, `c24`, `u` | constant memory; with the register at a bit; by a handle in a uniform register |
//! | `v24+37` | constant memory with the uniform register at a bit, the byte from another bit on |
//! | `D` and a bit | a descriptor in a uniform register, which says how caches treat what is accessed |
//! | `[...]` | an address, see [`Address`] |
//! | `"word"` | a word as it stands |
//! | `_` before one | only a space stands before it |
//! | `:n` or `:{bits 1\|2\|4}` after one | how many registers it is, if not one |
//! | `=` after one | it is written |
//! | `{bits ...}` after one | which part of it is meant |
//! | `A` `B` `C` | the sources of arithmetic, see [`Slot`] |

use crate::operand::Number;
use crate::word::Bits;

/// A field must be, or must not be, a number.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub bits: Bits,
    pub value: u64,
    pub equal: bool,
}

/// A text for each value of a field.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub bits: Bits,
    pub texts: Vec<&'static str>,
}

/// How many registers.
#[derive(Clone, Debug)]
pub(crate) enum Width {
    Fixed(u8),
    By(Choice),
}

/// Where an address has its parts: `R24` a base register, `U64` a uniform one, `D76` the bit that
/// says that the uniform register is a descriptor, `@91` the bit that says that there is one, `W90`
/// the bit that makes the base 64 bits wide, `O40+24` a signed offset, `*32` after it what it counts
/// in, `X78` the two bits of a scale, `G` a descriptor of a matrix. `V64` is a uniform register that is
/// not named beside a wide base when it is that of zeros, `E64` the one after it, a descriptor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Address {
    pub base: Option<u8>,
    pub uniform: Option<u8>,
    pub present: Option<u8>,
    pub descriptor: Option<u8>,
    pub wide: Option<u8>,
    pub offset: Option<Bits>,
    /// What the offset counts in.
    pub unit: Option<u8>,
    /// Whether a uniform register of zeros goes without saying.
    pub quiet: bool,
    /// Whether the descriptor is in the register after the one that is named.
    pub next: bool,
    pub scale: Option<u8>,
    pub matrix: bool,
}

/// What an operand is.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Register(u8),
    Uniform(u8),
    /// With what its number is combined by exclusive or.
    Predicate(u8, u8),
    UniformPredicate(u8, u8),
    Join(u8),
    Scoreboard(Bits),
    Special(u8),
    Immediate(Bits, Number),
    /// With the bit of a register that is added.
    Constant(Option<u8>),
    /// Constant memory as a source of arithmetic: whole words.
    ConstantSource,
    ConstantOf,
    /// With the bit of a uniform register that is added, and the bit where its byte begins.
    ConstantBy(u8, u8),
    Descriptor(u8),
    Address(Address),
    Word(&'static str),
}

/// An operand and where its parts lie.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub what: What,
    pub hidden: bool,
    pub joined: bool,
    pub written: bool,
    pub negative: Option<u8>,
    /// The bit that makes inverted what would be negative.
    pub instead: Option<u8>,
    pub inverted: Option<u8>,
    pub absolute: Option<u8>,
    pub reuse: Option<u8>,
    pub width: Width,
    pub part: Option<Choice>,
}

/// A piece of an instruction.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Text(&'static str),
    Choice(Choice),
    Operand(Box<Spec>),
}

/// A template that was read.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub name: &'static str,
    pub parts: Vec<(Vec<Condition>, Part)>,
}

/// Where arithmetic finds its sources, which bits 9 to 11 say: `A` is always a register; `B` and `C`
/// are registers but for one, which is an immediate, constant memory or a uniform register. That one
/// lies where `B` lies, and takes the place of `C` in the forms 2, 3 and 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    First,
    Second,
    Third,
}

/// Reads a template.
struct Reader {
    rest: &'static str,
    form: u8,
    /// Whether there is a third source.
    three: bool,
    /// Whether the second place counts as the third.
    last: bool,
    /// Whether sources are pairs of halves.
    halves: bool,
    /// Whether the registers of arithmetic are those of the warp.
    uniform: bool,
    /// Whether constant memory is found by a handle.
    handle: bool,
}

/// Reads the template of an instruction in one of its forms.
///
/// # Errors
/// A sentence that says what is wrong with the template.
pub(crate) fn read(
    text: &'static str,
    form: u8,
    last: bool,
    uniform: bool,
    handle: bool,
) -> Result<Template, String> {
    let mut depth = 0;
    let outside = |c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ' ' && depth == 0
    };
    let (head, tail) = text.split_once(outside).unwrap_or((text, ""));
    let three = split(tail).any(|operand| slot_letter(operand) == Some('C'))
        && split(tail).any(|operand| slot_letter(operand) == Some('B'));
    let halves = split(tail).any(|operand| operand.contains(['%', '#']));
    let mut reader = Reader {
        rest: head,
        form,
        three,
        last,
        halves,
        uniform,
        handle,
    };
    let result = reader.head().and_then(|mut template| {
        for operand in split(tail) {
            reader.rest = operand;
            let conditions = reader.conditions()?;
            let spec = reader.operand()?;
            if !reader.rest.is_empty() {
                return Err(format!("'{}' was not expected", reader.rest));
            }
            template
                .parts
                .push((conditions, Part::Operand(Box::new(spec))));
        }
        Ok(template)
    });
    result.map_err(|error| format!("{text}: {error}"))
}

/// The letter of a slot, after conditions.
fn slot_letter(operand: &str) -> Option<char> {
    let operand = operand.rsplit_once('>').map_or(operand, |(_, rest)| rest);
    operand
        .chars()
        .next()
        .filter(|c| matches!(c, 'A' | 'B' | 'C'))
}

/// The operands of a template: what commas outside of brackets separate.
fn split(tail: &'static str) -> impl Iterator<Item = &'static str> {
    let mut depth = 0;
    tail.split(move |c| {
        match c {
            '{' | '[' | '<' | '(' => depth += 1,
            '}' | ']' | '>' | ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|operand| !operand.is_empty())
}

impl Reader {
    fn eat(&mut self, c: char) -> bool {
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn need(&mut self, c: char) -> Result<(), String> {
        if self.eat(c) {
            Ok(())
        } else {
            Err(format!("expected '{c}' before '{}'", self.rest))
        }
    }

    /// What comes before the first of some characters.
    fn until(&mut self, stops: &[char]) -> &'static str {
        let end = self.rest.find(stops).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        text
    }

    fn number(&mut self) -> Result<u8, String> {
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        digits
            .parse()
            .map_err(|_| format!("expected a bit before '{rest}', found '{digits}'"))
    }

    fn bits(&mut self) -> Result<Bits, String> {
        let mut runs = Vec::new();
        loop {
            let at = self.number()?;
            let len = if self.eat('+') { self.number()? } else { 1 };
            if u32::from(at) + u32::from(len) > 128 || len == 0 {
                return Err(format!("{len} bits from bit {at} on"));
            }
            runs.push((at, len));
            if !self.eat('&') {
                return Ok(Bits(runs));
            }
        }
    }

    /// After the brace that opens it.
    fn choice(&mut self) -> Result<Choice, String> {
        let bits = self.bits()?;
        self.need(' ')?;
        let texts: Vec<_> = self.until(&['}']).split('|').collect();
        self.need('}')?;
        if texts.len() > 1 << bits.len() {
            return Err(format!("{} texts for the bits {bits}", texts.len()));
        }
        Ok(Choice { bits, texts })
    }

    fn conditions(&mut self) -> Result<Vec<Condition>, String> {
        let mut conditions = Vec::new();
        while self.eat('<') {
            let bits = self.bits()?;
            let equal = !self.eat('!');
            let value = if !equal || self.eat('=') {
                u64::from(self.number()?)
            } else {
                1
            };
            self.need('>')?;
            conditions.push(Condition { bits, value, equal });
        }
        Ok(conditions)
    }

    fn head(&mut self) -> Result<Template, String> {
        let name = self.until(&['.', '{', '<']);
        let mut parts = Vec::new();
        while !self.rest.is_empty() {
            let conditions = self.conditions()?;
            let part = if self.eat('{') {
                Part::Choice(self.choice()?)
            } else {
                Part::Text(self.until(&['{', '<']))
            };
            parts.push((conditions, part));
        }
        Ok(Template { name, parts })
    }

    fn operand(&mut self) -> Result<Spec, String> {
        let mut spec = Spec {
            what: What::Constant(None),
            hidden: self.eat('?'),
            joined: self.eat('_'),
            written: false,
            negative: None,
            instead: None,
            inverted: None,
            absolute: None,
            reuse: None,
            width: Width::Fixed(1),
            part: None,
        };
        loop {
            match () {
                () if self.eat('-') => spec.negative = Some(self.number()?),
                () if self.eat('^') => spec.instead = Some(self.number()?),
                () if self.eat('~') || self.eat('!') => spec.inverted = Some(self.number()?),
                () if self.eat('|') => spec.absolute = Some(self.number()?),
                () => break,
            }
        }
        let letter = self.rest.chars().next().ok_or("an operand is missing")?;
        self.need(letter)?;
        let immediate = |number| move |bits| What::Immediate(bits, number);
        spec.what = match letter {
            'A' => return self.slot(Slot::First, spec),
            'B' => return self.slot(Slot::Second, spec),
            'C' => return self.slot(Slot::Third, spec),
            'R' => What::Register(self.number()?),
            'U' => What::Uniform(self.number()?),
            'P' => What::Predicate(self.number()?, 0),
            'Q' => What::UniformPredicate(self.number()?, 0),
            'p' => What::Predicate(self.number()?, 7),
            'q' => What::UniformPredicate(self.number()?, 7),
            'J' => What::Join(self.number()?),
            'Z' => What::Special(self.number()?),
            'S' => What::Scoreboard(self.bits()?),
            'x' => self.bits().map(immediate(Number::Hex))?,
            's' => self.bits().map(immediate(Number::Signed))?,
            'f' => self.bits().map(immediate(Number::F32))?,
            'd' => self.bits().map(immediate(Number::F64))?,
            'h' => self.bits().map(immediate(Number::F16x2))?,
            'b' => self.bits().map(immediate(Number::Bf16x2))?,
            'a' => self.bits().map(immediate(Number::Absolute))?,
            't' => self.bits().map(immediate(Number::Target))?,
            'm' => self.bits().map(immediate(Number::Set))?,
            'c' if self.rest.starts_with(|c: char| c.is_ascii_digit()) => {
                What::Constant(Some(self.number()?))
            }
            'c' => What::Constant(None),
            'u' => What::ConstantOf,
            'v' => {
                let base = self.number()?;
                self.need('+')?;
                What::ConstantBy(base, self.number()?)
            }
            'D' => What::Descriptor(self.number()?),
            '[' => What::Address(self.address()?),
            '"' => {
                let word = self.until(&['"']);
                self.need('"')?;
                What::Word(word)
            }
            other => return Err(format!("no kind of operand is called '{other}'")),
        };
        self.rest_of(spec)
    }

    /// What may stand after an operand.
    fn rest_of(&mut self, mut spec: Spec) -> Result<Spec, String> {
        self.width(&mut spec)?;
        // The cache of operands has a place for each of the three fields of registers.
        spec.reuse = match spec.what {
            What::Register(24) => Some(122),
            What::Register(32) => Some(123),
            What::Register(64) => Some(124),
            _ => None,
        };
        spec.written = self.eat('=');
        if self.eat('{') {
            spec.part = Some(self.choice()?);
        }
        Ok(spec)
    }

    fn width(&mut self, spec: &mut Spec) -> Result<(), String> {
        if self.eat(':') {
            spec.width = if self.eat('{') {
                Width::By(self.choice()?)
            } else {
                Width::Fixed(self.number()?)
            };
        }
        Ok(())
    }

    fn address(&mut self) -> Result<Address, String> {
        let mut address = Address::default();
        let (inside, rest) = self.rest.split_once(']').ok_or("an address does not end")?;
        for part in inside.split(' ') {
            self.rest = part;
            let letter = part.chars().next().ok_or("an address is empty")?;
            self.need(letter)?;
            match letter {
                'R' => address.base = Some(self.number()?),
                'U' => address.uniform = Some(self.number()?),
                'V' => {
                    address.uniform = Some(self.number()?);
                    address.quiet = true;
                }
                'E' => {
                    address.uniform = Some(self.number()?);
                    address.next = true;
                }
                'D' => address.descriptor = Some(self.number()?),
                '@' => address.present = Some(self.number()?),
                'W' => address.wide = Some(self.number()?),
                'X' => address.scale = Some(self.number()?),
                'O' => {
                    address.offset = Some(self.bits()?);
                    if self.eat('*') {
                        address.unit = Some(self.number()?);
                    }
                }
                'G' => address.matrix = true,
                other => return Err(format!("no part of an address is called '{other}'")),
            }
        }
        self.rest = rest;
        Ok(address)
    }

    /// A source of arithmetic: `B`, the letter of its immediates, `:2` for pairs of registers, then
    /// `-`, `-^74`, `|` and `%` for what may be done to it: `%` picks halves, `%s` or a single, `#`
    /// says that there are halves of which none can be picked.
    fn slot(&mut self, slot: Slot, mut spec: Spec) -> Result<Spec, String> {
        let letter = self.rest.chars().next().filter(char::is_ascii_lowercase);
        if let Some(letter) = letter {
            self.need(letter)?;
        }
        self.width(&mut spec)?;
        // Where the odd one out lies, and where a register in the third place.
        let odd = match slot {
            Slot::First => false,
            Slot::Second => !matches!(self.form, 2 | 3 | 7) || !self.three,
            Slot::Third => matches!(self.form, 2 | 3 | 7),
        };
        let (at, negative, absolute, half) = match (slot, odd) {
            (Slot::First, _) => (24, 72, 73, 74),
            (_, true) => (32, 63, 62, 60),
            (_, false) if self.halves => (64, 84, 83, 81),
            (_, false) => (64, 75, 74, 81),
        };
        let form = if odd { self.form } else { 1 };
        spec.what = match form {
            1 if self.uniform => What::Uniform(at),
            1 => What::Register(at),
            6 | 7 => What::Uniform(at),
            3 | 5 if self.handle => What::ConstantOf,
            3 | 5 => What::ConstantSource,
            2 | 4 => {
                let number = match letter.unwrap_or('x') {
                    'x' => Number::Hex,
                    's' => Number::Signed,
                    'f' => Number::F32,
                    'd' => Number::F64,
                    'h' => Number::F16x2,
                    'b' => Number::Bf16x2,
                    other => return Err(format!("no kind of immediate is called '{other}'")),
                };
                What::Immediate(Bits::one(32, 32), number)
            }
            other => return Err(format!("there is no form {other}")),
        };
        spec.reuse = matches!(spec.what, What::Register(_)).then_some(match slot {
            Slot::First => 122,
            Slot::Second if !self.last => 123,
            Slot::Second | Slot::Third => 124,
        });
        let immediate = matches!(form, 2 | 4);
        loop {
            match () {
                () if self.eat('-') => spec.negative = Some(negative).filter(|_| !immediate),
                () if self.eat('^') => spec.instead = Some(self.number()?),
                () if self.eat('~') => spec.inverted = Some(negative).filter(|_| !immediate),
                () if self.eat('|') => spec.absolute = Some(absolute).filter(|_| !immediate),
                () if self.eat('#') => {}
                () if self.eat('%') => {
                    let single = if self.eat('s') { ".F32" } else { "?" };
                    let texts = vec!["", single, ".H0_H0", ".H1_H1"];
                    let choice = Choice {
                        bits: Bits::one(half, 2),
                        texts,
                    };
                    spec.part = Some(choice).filter(|_| !immediate);
                }
                () => break,
            }
        }
        if self.eat('{') {
            spec.part = Some(self.choice()?).filter(|_| !immediate);
        }
        Ok(spec)
    }
}
