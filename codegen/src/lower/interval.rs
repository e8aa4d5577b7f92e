//! What integers of a program can be.

use super::program::{Inst, Program, Reg};
use crate::dtype::DType;
use crate::ir::{Binary, scalar};

/// The least and the greatest value; `None` for floats, and where nothing is known.
pub type Interval = Option<(i64, i64)>;

/// The least and the greatest of these.
pub(crate) fn hull(values: &[i128]) -> Interval {
    let (a, b) = (values.iter().min()?, values.iter().max()?);
    Some((i64::try_from(*a).ok()?, i64::try_from(*b).ok()?))
}

/// Bounds of an operation that does not wrap.
pub(crate) fn bounds(op: Binary, x: (i64, i64), y: (i64, i64)) -> Interval {
    let [a, b, c, d] = [x.0, x.1, y.0, y.1].map(i128::from);
    match op {
        Binary::Add => hull(&[a + c, b + d]),
        Binary::Sub => hull(&[a - d, b - c]),
        Binary::Mul => hull(&[a * c, a * d, b * c, b * d]),
        Binary::Max => hull(&[a.max(c), b.max(d)]),
        Binary::Min => hull(&[a.min(c), b.min(d)]),
        Binary::And if c >= 0 => hull(&[0, if a >= 0 { b.min(d) } else { d }]),
        Binary::And if a >= 0 => hull(&[0, b]),
        Binary::Or | Binary::Xor if a >= 0 && c >= 0 => {
            let bits = 128 - (b | d).leading_zeros();
            hull(&[0, (1i128 << bits) - 1])
        }
        Binary::Shr if c >= 0 && d < 63 => hull(&[a >> c, a >> d, b >> c, b >> d]),
        Binary::Shl if c >= 0 && d < 32 => hull(&[a << c, a << d, b << c, b << d]),
        Binary::FloorDiv | Binary::TruncDiv if c > 0 && a >= 0 => hull(&[a / d, b / c]),
        Binary::FloorDiv if c > 0 => {
            hull(&[a, b].map(|n| [n.div_euclid(c), n.div_euclid(d)]).concat())
        }
        Binary::TruncDiv if c > 0 => hull(&[a / c, b / c, 0]),
        Binary::FloorMod if c > 0 => hull(&[0, if a >= 0 { b.min(d - 1) } else { d - 1 }]),
        Binary::TruncMod if c > 0 && a >= 0 => hull(&[0, b.min(d - 1)]),
        Binary::TruncMod if c > 0 => hull(&[1 - d, d - 1]),
        _ => None,
    }
}

/// Every value of a type.
fn all(dtype: DType) -> Interval {
    if dtype.is_float() {
        return None;
    }
    let (a, b) = scalar::int_limits(dtype);
    hull(&[a, b])
}

/// Intervals of registers.
pub struct Intervals {
    of: Vec<Interval>,
}

impl Intervals {
    /// What types say of the registers of a program.
    pub fn new(p: &Program) -> Intervals {
        Intervals {
            of: p.regs.iter().map(|ty| all(ty.dtype)).collect(),
        }
    }

    /// Of a whole program.
    pub fn of_program(p: &Program) -> Vec<Interval> {
        let mut found = Intervals::new(p);
        p.insts.iter().for_each(|inst| found.see(p, inst));
        found.of
    }

    /// Of a register.
    pub fn of(&self, r: Reg) -> Interval {
        self.of.get(r.0 as usize).copied().flatten()
    }

    /// Takes in what an instruction makes of its operands, for a register that may be new.
    pub fn see(&mut self, p: &Program, inst: &Inst) {
        let Some(dst) = inst.dst() else { return };
        let added = p.regs.iter().skip(self.of.len());
        self.of.extend(added.map(|ty| all(ty.dtype)));
        let limits = all(p.ty(dst).dtype);
        let made = match *inst {
            Inst::Const { bits, .. } if limits.is_some() => {
                hull(&[scalar::to_int(p.ty(dst).dtype, bits)])
            }
            Inst::Item { .. } => Some((0, p.items - 1)),
            Inst::Lanes { .. } => Some((0, i64::from(p.ty(dst).lanes) - 1)),
            Inst::Loop { extent, .. } => Some((0, (p.extent(extent) - 1).max(0))),
            Inst::Groups { .. } => Some((0, p.groups - 1)),
            Inst::Splat { a, .. } | Inst::Cast { a, .. } => self.of(a),
            Inst::Select { a, b, .. } => {
                let both = self.of(a).zip(self.of(b));
                both.map(|(x, y)| (x.0.min(y.0), x.1.max(y.1)))
            }
            Inst::Binary { op, .. } if op.is_compare() => Some((0, 1)),
            Inst::Binary { op, a, b, .. } => {
                let both = self.of(a).zip(self.of(b));
                both.and_then(|(x, y)| bounds(op, x, y))
            }
            _ => None,
        };
        // What does not fit wraps.
        let fits = |r: &(i64, i64)| limits.is_some_and(|l| r.0 >= l.0 && r.1 <= l.1);
        if let (Some(made), Some(slot)) = (made.filter(fits), self.of.get_mut(dst.0 as usize)) {
            *slot = Some(made);
        }
    }
}
