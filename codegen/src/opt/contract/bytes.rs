//! Operands of 8 bits: numbers that are a byte less what is the same for all summed elements, as those of
//! quantised models are. The bytes are multiplied as they are, four of them at a time:
//!
//! `sum (a - y)(b - z) = sum ab - y sum b - z sum a + n y z`
//!
//! Integers wrap, so this is exact. One operand has to be unsigned and the other one signed; what is neither is
//! moved by 128, and what is taken off it too.

use hashbrown::HashMap;

use super::{Contraction, StageKernel, size};
use crate::dtype::DType;
use crate::ir::scalar::int_limits;
use crate::ir::{Binary, Graph, Id, Kernel, Op, RangeSets, ReduceOp, StoreMode};
use crate::rewrite::{simplify, substitute, toposort};

/// What is taken off all elements.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Zero {
    Number(i64),
    /// Of type `I32`.
    Node(Id),
}

/// One operand.
#[derive(Clone, Copy, Debug)]
struct Codes {
    /// Of type `U8` or `I8`.
    value: Id,
    /// Where this does not hold the number is 0, and its byte what is taken off.
    gate: Option<Id>,
    zero: Zero,
    /// The elements are those of a buffer, each of them once: a weight.
    whole: bool,
    /// What brings the byte to the sign that it needs.
    shift: i64,
}

/// Both operands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes {
    sides: [Codes; 2],
    /// Which of them is unsigned.
    unsigned: usize,
}

/// A constant, of which the low bits count.
fn wrapped(g: &mut Graph, n: i64) -> Id {
    g.bits(DType::I32, i64::from(n as i32) as u64)
}

impl Codes {
    fn of(g: &Graph, n: Id, summed: &dyn Fn(Id) -> bool) -> Option<Codes> {
        let codes = match (g.op(n), g.src(n)) {
            (Op::Cast, &[value]) if matches!(g.dtype(value), DType::U8 | DType::I8) => Codes {
                value,
                gate: None,
                zero: Zero::Number(0),
                whole: false,
                shift: 0,
            },
            (Op::Binary(op @ (Binary::Sub | Binary::Add)), &[x, z]) => {
                let codes = Codes::of(g, x, summed)?;
                if codes.gate.is_some() || codes.zero != Zero::Number(0) {
                    return None;
                }
                let zero = match (op, g.op(z)) {
                    (Binary::Sub, Op::Const(bits)) => Zero::Number(bits as i64),
                    (_, Op::Const(bits)) => Zero::Number((bits as i64).checked_neg()?),
                    (Binary::Sub, _) if !summed(z) => Zero::Node(z),
                    _ => return None,
                };
                Codes { zero, ..codes }
            }
            (Op::Where, &[gate, x, other]) if g.op(other) == Op::Const(0) => {
                let codes = Codes::of(g, x, summed)?;
                let dtype = g.dtype(codes.value);
                let fits = match codes.zero {
                    Zero::Number(n) => {
                        let (low, high) = int_limits(dtype);
                        (low..=high).contains(&i128::from(n))
                    }
                    Zero::Node(z) => g.op(z) == Op::Cast && g.dtype(g.src(z)[0]) == dtype,
                };
                if codes.gate.is_some() || !fits {
                    return None;
                }
                Codes {
                    gate: Some(gate),
                    ..codes
                }
            }
            _ => return None,
        };
        (g.dtype(n) == DType::I32).then_some(codes)
    }

    /// What is taken off the byte that is multiplied; `None` if it is nothing.
    fn zero(&self, g: &mut Graph, map: &HashMap<Id, Id>) -> Option<Id> {
        match self.zero {
            Zero::Number(n) if n + self.shift == 0 => None,
            Zero::Number(n) => Some(wrapped(g, n + self.shift)),
            Zero::Node(z) => {
                let z = substitute(g, z, map);
                let shift = g.bits(DType::I32, self.shift as u64);
                Some(g.binary(Binary::Add, z, shift))
            }
        }
    }

    fn is_off(&self) -> bool {
        self.zero != Zero::Number(-self.shift)
    }

    /// The byte as a number.
    fn number(&self, g: &mut Graph) -> Id {
        let mut x = g.cast(self.value, DType::I32);
        if let Some(gate) = self.gate {
            let zero = match self.zero {
                Zero::Number(n) => wrapped(g, n),
                Zero::Node(z) => z,
            };
            x = g.select(gate, x, zero);
        }
        let shift = g.bits(DType::I32, self.shift as u64);
        g.binary(Binary::Add, x, shift)
    }
}

impl Bytes {
    /// The operands of a contraction of a kernel, if both are of 8 bits.
    pub(super) fn of(kernel: &Kernel, c: &Contraction) -> Option<Bytes> {
        if c.acc != DType::I32 {
            return None;
        }
        let g = &kernel.graph;
        let mut sets = RangeSets::build(g, c.store);
        let mut varying: HashMap<Id, bool> = HashMap::new();
        for n in toposort(g, c.reduce) {
            let summed = c.summed.iter().any(|r| sets.depends(g, n, r.id));
            varying.insert(n, summed);
        }
        let summed = |n: Id| varying.get(&n).copied().unwrap_or(true);
        let side = |n: Id, list: i64| -> Option<Codes> {
            let codes = Codes::of(g, n, &summed)?;
            let elements = size(&c.batch)
                .saturating_mul(list)
                .saturating_mul(size(&c.summed));
            let whole = match (g.op(codes.value), g.src(codes.value)) {
                (Op::Load, &[ptr, _]) => match g.op(ptr) {
                    Op::Param { slot } => {
                        let len = kernel.params.get(usize::from(slot)).map(|p| p.len as i64);
                        codes.gate.is_none() && len.is_some_and(|len| len >= elements)
                    }
                    _ => false,
                },
                _ => false,
            };
            Some(Codes { whole, ..codes })
        };
        let [a, b] = [side(c.a, size(&c.rows))?, side(c.b, size(&c.cols))?];
        let unsigned = |x: &Codes| g.dtype(x.value) == DType::U8;
        // Equal signs: one of them moves. Sums of a weight are made once, others each time.
        let moved = |which: usize| {
            let mut sides = [a, b];
            let signed = !unsigned(&sides[which]);
            sides[which].shift = if signed { 128 } else { -128 };
            let cost = |off: &Codes, summed: &Codes| match off.is_off() {
                true if summed.whole => 1,
                true => 10,
                false => 0,
            };
            let costs = cost(&sides[0], &sides[1]) + cost(&sides[1], &sides[0]);
            let unsigned = if signed { which } else { 1 - which };
            (costs, Bytes { sides, unsigned })
        };
        Some(match (unsigned(&a), unsigned(&b)) {
            (true, false) => Bytes {
                sides: [a, b],
                unsigned: 0,
            },
            (false, true) => Bytes {
                sides: [a, b],
                unsigned: 1,
            },
            _ => {
                let (first, second) = (moved(0), moved(1));
                if first.0 < second.0 {
                    first.1
                } else {
                    second.1
                }
            }
        })
    }

    /// With the operands in each other's places.
    pub(super) fn swapped(self) -> Bytes {
        let [a, b] = self.sides;
        Bytes {
            sides: [b, a],
            unsigned: 1 - self.unsigned,
        }
    }

    /// Whether an operand is a weight.
    pub(super) fn whole(&self, side: usize) -> bool {
        self.sides[side].whole
    }

    /// Whether the sums over an operand are needed.
    pub(super) fn summed(&self, side: usize) -> bool {
        self.sides[1 - side].is_off()
    }

    /// The products of two words on top of nothing.
    pub(super) fn product(&self, g: &mut Graph, a: Id, b: Id) -> Id {
        let (a, b) = if self.unsigned == 0 { (a, b) } else { (b, a) };
        let zero = g.bits(DType::I32, 0);
        g.add(Op::Dot, DType::I32, &[a, b, zero])
    }

    /// An element of an operand as the byte that is multiplied, in the low bits of a word.
    pub(super) fn byte(&self, g: &mut Graph, side: usize) -> Id {
        let x = self.sides[side].number(g);
        let low = g.bits(DType::I32, 255);
        g.binary(Binary::And, x, low)
    }

    /// What the sum of the products of bytes is as that of the numbers, with the sums over both operands where
    /// they are needed.
    pub(super) fn corrected(
        &self,
        g: &mut Graph,
        (sum, sums): (Id, [Option<Id>; 2]),
        count: i64,
        map: &HashMap<Id, Id>,
    ) -> Id {
        let zeros = [0, 1].map(|side| self.sides[side].zero(g, map));
        let mut out = sum;
        for (zero, others) in [(zeros[0], sums[1]), (zeros[1], sums[0])] {
            if let (Some(zero), Some(others)) = (zero, others) {
                let part = g.binary(Binary::Mul, zero, others);
                out = g.binary(Binary::Sub, out, part);
            }
        }
        if let [Some(a), Some(b)] = zeros {
            let n = wrapped(g, count);
            let product = g.binary(Binary::Mul, a, b);
            let part = g.binary(Binary::Mul, product, n);
            out = g.binary(Binary::Add, out, part);
        }
        out
    }

    /// The sums over an operand, one for each of its rows (or columns).
    pub(super) fn sums(
        &self,
        base: &Kernel,
        c: &Contraction,
        slot: u16,
        (side, name): (usize, &str),
    ) -> StageKernel {
        let mut kernel = base.clone();
        kernel.name = format!("{}_sum_{name}", base.name);
        let g = &mut kernel.graph;
        let number = self.sides[side].number(g);
        let over: Vec<Id> = c.summed.iter().map(|r| r.id).collect();
        let sum = g.reduce(ReduceOp::Add, number, &over);
        let list = if side == 0 { &c.rows } else { &c.cols };
        let mut index = g.index(0);
        for r in c.batch.iter().chain(list) {
            index = super::stages::affine(g, index, r.extent, r.id);
        }
        let ptr = g.param(slot, DType::I32);
        let store = g.store(StoreMode::Set, ptr, index, sum, None);
        let sink = g.sink(&[store]);
        kernel.sink = simplify(g, sink);
        StageKernel {
            kernel,
            fixed: false,
        }
    }
}
