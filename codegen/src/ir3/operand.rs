//! Operands: registers, constants, immediates.

/// A register: a number of four components each.
///
/// r0 to r47 are for general use, r48 to r55 are shared by the wave, a0.x and a1.x hold addresses, p0 holds
/// predicates, and what is written to r63.x is discarded (Mesa `ir3.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(pub u8);

impl Reg {
    /// The address register of relative operands.
    pub const A0: Self = Self(61 << 2);
    /// The address register of descriptors and constant stores.
    pub const A1: Self = Self((61 << 2) + 1);
    /// The predicate that branches read.
    pub const P0: Self = Self(62 << 2);

    /// Component `component` (0 is x) of r`number`.
    ///
    /// # Panics
    /// There is no such component or register.
    pub const fn r(number: u8, component: u8) -> Self {
        assert!(number < 64 && component < 4);
        Self(number << 2 | component)
    }

    /// A component of p0.
    ///
    /// # Panics
    /// There is no such component.
    pub const fn p(component: u8) -> Self {
        assert!(component < 4);
        Self(Self::P0.0 | component)
    }

    /// The number without the component.
    pub const fn number(self) -> u8 {
        self.0 >> 2
    }

    /// The component; 0 is x.
    pub const fn component(self) -> u8 {
        self.0 & 3
    }

    /// Whether it is one of the registers that a wave shares.
    pub const fn is_shared(self) -> bool {
        matches!(self.number(), 48..=55)
    }

    /// Whether it is a component of p0.
    pub const fn is_predicate(self) -> bool {
        self.number() == 62
    }
}

/// The floats of the table of immediates, in its order (Mesa `ir3-common.xml`, `#flut`).
pub const FLOATS: [&str; 12] = [
    "(0.0)",
    "(0.5)",
    "(1.0)",
    "(2.0)",
    "(e)",
    "(pi)",
    "(1/pi)",
    "(1/log2(e))",
    "(log2(e))",
    "(1/log2(10))",
    "(log2(10))",
    "(4.0)",
];

/// What an operand names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// A register.
    Reg(Reg),
    /// A constant: its number of components from c0.x.
    Const(u16),
    /// The register that a0.x and an offset give.
    RelReg(i16),
    /// The constant that a0.x and an offset give.
    RelConst(i16),
    /// The constant that a1.x and an offset give: where stc and ldg.k store.
    A1Const(u8),
    /// An immediate. Of a mov, the bits of its type.
    Imm(i32),
    /// An entry of [`FLOATS`].
    Float(u8),
}

/// An operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// What it names.
    pub value: Value,
    /// Whether it has 16 bits. False where a type says it: immediates of mov, a0.x, and integers of three-source
    /// instructions.
    pub half: bool,
    /// `(neg)`; of a predicate in a branch, `!`; of a bitwise instruction, not.
    pub neg: bool,
    /// `(abs)`.
    pub abs: bool,
    /// `(r)`: it advances with each repetition.
    pub advances: bool,
    /// `(last)`: the last use of the register.
    pub last: bool,
}

impl Operand {
    /// An operand without modifiers.
    pub const fn new(value: Value) -> Self {
        Self {
            value,
            half: false,
            neg: false,
            abs: false,
            advances: false,
            last: false,
        }
    }

    /// A full register.
    pub const fn reg(reg: Reg) -> Self {
        Self::new(Value::Reg(reg))
    }

    /// A half register.
    pub const fn half_reg(reg: Reg) -> Self {
        Self::reg(reg).half()
    }

    /// Constant `component` of c`number`.
    ///
    /// # Panics
    /// There is no such component.
    pub const fn constant(number: u16, component: u8) -> Self {
        assert!(component < 4);
        Self::new(Value::Const(number << 2 | component as u16))
    }

    /// An integer.
    pub const fn imm(value: i32) -> Self {
        Self::new(Value::Imm(value))
    }

    /// The bits of a float, as mov takes it.
    pub const fn imm_f32(value: f32) -> Self {
        Self::imm(value.to_bits() as i32)
    }

    /// The same with 16 bits.
    pub const fn half(mut self) -> Self {
        self.half = true;
        self
    }

    /// The same, negated.
    pub const fn neg(mut self) -> Self {
        self.neg = true;
        self
    }

    /// The magnitude of the same.
    pub const fn abs(mut self) -> Self {
        self.abs = true;
        self
    }

    /// The same, advancing with each repetition.
    pub const fn advances(mut self) -> Self {
        self.advances = true;
        self
    }

    /// Whether it is in the constant file, or in a register that the wave shares.
    pub const fn is_uniform(&self) -> bool {
        match self.value {
            Value::Const(_) | Value::RelConst(_) => true,
            Value::Reg(reg) => reg.is_shared(),
            _ => false,
        }
    }

    /// Whether it is part of the instruction word.
    pub const fn is_immediate(&self) -> bool {
        matches!(self.value, Value::Imm(_) | Value::Float(_))
    }
}
