//! Index expressions over loop ranges, to which movement operations are lowered.
//!
//! An [`Ix`] is a sum of atoms in the normal form of the compiler ([`Sum`]), so that equal
//! expressions are one number. A reshape is a flattening followed by divisions and remainders; most
//! of them vanish here because the factors and the bounds of the parts are known.

use hashbrown::HashMap;

use codegen::ir::RangeKind;
use codegen::symbolic::division::{self, Part, Terms};
use codegen::symbolic::sum::{Sum, gcd};
use smallvec::SmallVec;

/// A set of ranges of one kernel, by number.
pub type RangeSet = u128;

/// Ranges that one kernel may have; kernels are cut before they need more.
pub const MAX_RANGES: usize = 120;

/// An interned index expression.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Ix(pub u32);

/// A term of an index expression that is not a sum.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Atom {
    /// The value of a range.
    Range(u32),
    /// Where this part of a tensor begins along this axis: an argument of the kernel, from 0 to the number.
    Place(u32, u32, i64),
    /// Rounded down.
    Div(Ix, i64),
    /// Never negative.
    Mod(Ix, i64),
    /// An expression that the surrounding conditions keep in `0..size`.
    Guard(Ix, i64),
    /// The value of a request for an index tensor, with negative values counted from `size`, and
    /// kept in `0..size` by the surrounding conditions.
    Loaded(u32, i64),
}

/// A loop of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoopRange {
    /// Number of iterations, at least 2.
    pub extent: i64,
    /// `Loop`, `Serial` or `Reduce`.
    pub kind: RangeKind,
}

/// A sum of atoms, by number.
pub type Lin = Sum<u32>;

#[derive(Clone, Copy, Debug)]
struct Facts {
    min: i64,
    max: i64,
    deps: RangeSet,
    affine: bool,
}

/// The arena of index expressions of one kernel.
#[derive(Default, Debug)]
pub struct Indices {
    /// The loops, by number.
    pub ranges: Vec<LoopRange>,
    atoms: Vec<Atom>,
    atom_facts: Vec<Facts>,
    atom_table: HashMap<Atom, u32>,
    lins: Vec<Lin>,
    lin_facts: Vec<Facts>,
    lin_table: HashMap<Lin, u32>,
}

impl Indices {
    /// A constant.
    pub fn constant(&mut self, value: i64) -> Ix {
        self.intern(Lin::number(value))
    }

    /// A new loop; one with a single iteration is the constant 0.
    pub fn range(&mut self, extent: usize, kind: RangeKind) -> Ix {
        if extent == 1 {
            return self.constant(0);
        }
        let number = self.ranges.len() as u32;
        let extent = extent as i64;
        self.ranges.push(LoopRange { extent, kind });
        let facts = Facts {
            min: 0,
            max: extent - 1,
            deps: 1 << number.min(127),
            affine: true,
        };
        self.alone(Atom::Range(number), facts)
    }

    /// Smallest and largest value.
    pub fn bounds(&self, ix: Ix) -> (i64, i64) {
        let facts = self.lin_facts[ix.0 as usize];
        (facts.min, facts.max)
    }

    /// The ranges that it depends on.
    pub fn deps(&self, ix: Ix) -> RangeSet {
        self.lin_facts[ix.0 as usize].deps
    }

    /// No division, remainder or loaded value in it.
    pub fn is_affine(&self, ix: Ix) -> bool {
        self.lin_facts[ix.0 as usize].affine
    }

    /// Product of the extents of a set of ranges, saturating.
    pub fn extent_of(&self, set: RangeSet) -> u64 {
        let ranges = self.ranges.iter().enumerate();
        ranges
            .filter(|(i, _)| set >> i & 1 == 1)
            .fold(1u64, |n, (_, r)| n.saturating_mul(r.extent as u64))
    }

    /// The ranges of one kind.
    pub fn of_kind(&self, kind: RangeKind) -> RangeSet {
        let ranges = self.ranges.iter().enumerate();
        ranges
            .filter(|(_, r)| r.kind == kind)
            .fold(0, |set, (i, _)| set | 1 << i)
    }

    /// The sum behind an expression.
    pub fn lin(&self, ix: Ix) -> &Lin {
        &self.lins[ix.0 as usize]
    }

    /// The atom behind a number.
    pub fn atom_of(&self, atom: u32) -> Atom {
        self.atoms[atom as usize]
    }

    /// If it is one range and nothing else, its number.
    pub fn as_range(&self, ix: Ix) -> Option<u32> {
        match (self.lin(ix).terms(), self.lin(ix).constant) {
            (&[(atom, 1)], 0) => match self.atoms[atom as usize] {
                Atom::Range(number) => Some(number),
                _ => None,
            },
            _ => None,
        }
    }

    /// a + b.
    pub fn add(&mut self, a: Ix, b: Ix) -> Ix {
        let sum = self.lin(a).plus(self.lin(b), 1);
        self.intern(sum)
    }

    /// a * factor.
    pub fn scale(&mut self, a: Ix, factor: i64) -> Ix {
        let product = self.lin(a).scale(factor);
        self.intern(product)
    }

    /// a + constant.
    pub fn offset(&mut self, a: Ix, constant: i64) -> Ix {
        let sum = self.lin(a).offset(constant);
        self.intern(sum)
    }

    /// a / by, rounded down.
    pub fn div(&mut self, a: Ix, by: i64) -> Ix {
        self.part(a, by, Part::Quotient)
    }

    /// The remainder of a / by, never negative.
    pub fn modulo(&mut self, a: Ix, by: i64) -> Ix {
        self.part(a, by, Part::Remainder)
    }

    fn part(&mut self, a: Ix, by: i64, part: Part) -> Ix {
        let sum = self.lin(a).clone();
        let sum = self.divided(&sum, by, part);
        self.intern(sum)
    }

    /// The same value, known to be in `0..size` where it is used.
    pub fn guard(&mut self, a: Ix, size: i64) -> Ix {
        let facts = Facts {
            min: 0,
            max: size - 1,
            ..self.lin_facts[a.0 as usize]
        };
        self.alone(Atom::Guard(a, size), facts)
    }

    /// Where a part of a tensor begins along an axis, at most at `max`.
    pub fn place(&mut self, node: u32, axis: usize, max: i64) -> Ix {
        let facts = Facts {
            min: 0,
            max,
            deps: 0,
            affine: true,
        };
        self.alone(Atom::Place(node, axis as u32, max), facts)
    }

    /// A value read from an index tensor.
    pub fn loaded(&mut self, request: u32, size: i64, deps: RangeSet) -> Ix {
        let facts = Facts {
            min: 0,
            max: size - 1,
            deps,
            affine: false,
        };
        self.alone(Atom::Loaded(request, size), facts)
    }

    /// The row-major position of an index in a shape.
    pub fn flatten(&mut self, index: &[Ix], shape: &[usize]) -> Ix {
        let mut flat = self.constant(0);
        let mut stride = 1;
        for (&ix, &size) in index.iter().zip(shape).rev() {
            let part = self.scale(ix, stride);
            flat = self.add(flat, part);
            stride *= size as i64;
        }
        flat
    }

    /// The index into `from` of the element at `index` in `to`, both in row-major order.
    pub fn reshape(&mut self, index: &[Ix], to: &[usize], from: &[usize]) -> SmallVec<[Ix; 4]> {
        let zero = self.constant(0);
        let mut out: SmallVec<[Ix; 4]> = SmallVec::from_elem(zero, from.len());
        let (mut i, mut j) = (0, 0);
        // Runs of axes with equal products are independent of each other.
        while i < from.len() && j < to.len() {
            let (i0, j0) = (i, j);
            let (mut inside, mut outside) = (from[i], to[j]);
            (i, j) = (i + 1, j + 1);
            while inside != outside {
                if inside < outside && i < from.len() {
                    inside *= from[i];
                    i += 1;
                } else if j < to.len() {
                    outside *= to[j];
                    j += 1;
                } else {
                    break;
                }
            }
            if i - i0 == 1 && j - j0 == 1 {
                out[i0] = index[j0];
                continue;
            }
            let flat = self.flatten(&index[j0..j], &to[j0..j]);
            let mut stride = 1;
            for axis in (i0..i).rev() {
                let size = from[axis] as i64;
                let high = self.div(flat, stride);
                out[axis] = if axis == i0 {
                    high
                } else {
                    self.modulo(high, size)
                };
                stride *= size;
            }
        }
        out
    }

    /// If a loop range is divided or taken modulo by a divisor of its extent somewhere in `ix`,
    /// that range and the divisor: splitting the range there makes the expression a sum.
    pub fn split_hint(&self, ix: Ix) -> Option<(u32, i64)> {
        let mut pending = vec![ix];
        while let Some(ix) = pending.pop() {
            for &(atom, _) in self.lin(ix).terms() {
                match self.atoms[atom as usize] {
                    Atom::Div(inner, by) | Atom::Mod(inner, by) => {
                        for &(part, factor) in self.lin(inner).terms() {
                            if let Atom::Range(number) = self.atoms[part as usize] {
                                let extent = self.ranges[number as usize].extent;
                                let by = by / gcd(by, factor);
                                if by > 1 && by < extent && extent % by == 0 {
                                    return Some((number, by));
                                }
                            }
                        }
                        pending.push(inner);
                    }
                    Atom::Guard(inner, _) => pending.push(inner),
                    Atom::Range(_) | Atom::Place(..) | Atom::Loaded(..) => {}
                }
            }
        }
        None
    }

    /// An expression without guards at its top level, as a sum for emission.
    pub fn unguarded(&self, ix: Ix) -> Lin {
        let mut sum = Lin::default();
        let mut pending: SmallVec<[(Ix, i64); 4]> = SmallVec::from_slice(&[(ix, 1)]);
        while let Some((ix, factor)) = pending.pop() {
            let guarded = |atom: u32| match self.atoms[atom as usize] {
                Atom::Guard(inner, _) => Some(inner),
                _ => None,
            };
            let lin = self.lin(ix);
            sum = sum.plus(&lin.filter(|atom| guarded(atom).is_none()), factor);
            let inner = |&(atom, by): &(u32, i64)| Some((guarded(atom)?, factor * by));
            pending.extend(lin.terms().iter().filter_map(inner));
        }
        sum
    }

    /// The sum that is one atom.
    fn alone(&mut self, atom: Atom, facts: Facts) -> Ix {
        let atom = self.atom(atom, facts);
        self.intern(Lin::term(atom, 1))
    }

    fn atom(&mut self, atom: Atom, facts: Facts) -> u32 {
        if let Some(&found) = self.atom_table.get(&atom) {
            return found;
        }
        let number = self.atoms.len() as u32;
        self.atoms.push(atom);
        self.atom_facts.push(facts);
        self.atom_table.insert(atom, number);
        number
    }

    /// Smallest and largest value of a sum.
    fn extremes(&self, lin: &Lin) -> (i64, i64) {
        let (mut min, mut max) = (lin.constant, lin.constant);
        for &(atom, factor) in lin.terms() {
            let part = self.atom_facts[atom as usize];
            let (a, b) = (part.min * factor, part.max * factor);
            min += a.min(b);
            max += a.max(b);
        }
        (min, max)
    }

    fn intern(&mut self, lin: Lin) -> Ix {
        if let Some(&found) = self.lin_table.get(&lin) {
            return Ix(found);
        }
        let (min, max) = self.extremes(&lin);
        let parts = || lin.terms().iter().map(|t| self.atom_facts[t.0 as usize]);
        let facts = Facts {
            min,
            max,
            deps: parts().fold(0, |set, part| set | part.deps),
            affine: parts().all(|part| part.affine),
        };
        let number = self.lins.len() as u32;
        self.lins.push(lin.clone());
        self.lin_facts.push(facts);
        self.lin_table.insert(lin, number);
        Ix(number)
    }
}

impl Terms for Indices {
    type Term = u32;

    fn interval(&mut self, sum: &Lin) -> Option<(i64, i64)> {
        Some(self.extremes(sum))
    }

    fn divisor(&self, atom: u32, part: Part) -> Option<i64> {
        match (self.atoms[atom as usize], part) {
            (Atom::Div(_, by), Part::Quotient) | (Atom::Mod(_, by), Part::Remainder) => Some(by),
            _ => None,
        }
    }

    fn dividend(&self, atom: u32) -> Lin {
        match self.atoms[atom as usize] {
            Atom::Div(inner, _) | Atom::Mod(inner, _) => self.lin(inner).clone(),
            _ => Lin::term(atom, 1),
        }
    }

    /// As simple as it gets.
    fn divided(&mut self, sum: &Lin, by: i64, part: Part) -> Lin {
        if by == 1 {
            return match part {
                Part::Quotient => sum.clone(),
                Part::Remainder => Lin::number(0),
            };
        }
        if let Some(simpler) = division::simpler(self, sum, by, part) {
            return simpler;
        }
        let ix = self.intern(sum.clone());
        let (low, high) = self.bounds(ix);
        let (atom, min, max) = match part {
            Part::Quotient => (Atom::Div(ix, by), low.div_euclid(by), high.div_euclid(by)),
            Part::Remainder => (Atom::Mod(ix, by), 0, by - 1),
        };
        let deps = self.deps(ix);
        let facts = Facts {
            min,
            max,
            deps,
            affine: false,
        };
        Lin::term(self.atom(atom, facts), 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of an expression for given range values.
    fn value(ix: &Indices, at: Ix, ranges: &[i64]) -> i64 {
        let lin = ix.lin(at);
        let mut sum = lin.constant;
        for &(atom, factor) in lin.terms() {
            sum += factor
                * match ix.atom_of(atom) {
                    Atom::Range(n) => ranges[n as usize],
                    Atom::Div(a, by) => value(ix, a, ranges).div_euclid(by),
                    Atom::Mod(a, by) => value(ix, a, ranges).rem_euclid(by),
                    Atom::Guard(a, _) => value(ix, a, ranges),
                    Atom::Place(..) | Atom::Loaded(..) => {
                        unreachable!("no arguments and index tensors in these tests")
                    }
                };
        }
        sum
    }

    #[test]
    fn merged_axes_come_apart() {
        let mut ix = Indices::default();
        let index = [2, 3, 4].map(|n| ix.range(n, RangeKind::Loop));
        // [2, 3, 4] -> [6, 4] -> [2, 3, 4] is nothing.
        let merged = ix.reshape(&index, &[2, 3, 4], &[6, 4]);
        let back = ix.reshape(&merged, &[6, 4], &[2, 3, 4]);
        assert_eq!(back.as_slice(), index);
    }

    #[test]
    fn reshapes_keep_the_row_major_position() {
        let shapes: [&[usize]; 6] = [&[24], &[2, 12], &[4, 6], &[2, 3, 4], &[3, 8], &[1, 6, 2, 2]];
        for from in shapes {
            for through in shapes {
                for to in shapes {
                    let mut ix = Indices::default();
                    let index: Vec<Ix> = to.iter().map(|&n| ix.range(n, RangeKind::Loop)).collect();
                    let middle = ix.reshape(&index, to, through);
                    let inner = ix.reshape(&middle, through, from);
                    let flat_out = ix.flatten(&index, to);
                    let flat_in = ix.flatten(&inner, from);
                    let extents: Vec<i64> = ix.ranges.iter().map(|r| r.extent).collect();
                    for n in 0..24i64 {
                        let mut rest = n;
                        let mut at = vec![0; extents.len()];
                        for (slot, extent) in at.iter_mut().zip(&extents).rev() {
                            *slot = rest % extent;
                            rest /= extent;
                        }
                        assert_eq!(value(&ix, flat_in, &at), value(&ix, flat_out, &at));
                    }
                }
            }
        }
    }
}
