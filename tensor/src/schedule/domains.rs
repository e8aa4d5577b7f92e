//! Index expressions over loop ranges: what movement operations are made of.
//!
//! An [`Ix`] is a sum of atoms with constant factors, kept in one canonical form, so that equal
//! expressions are one number. A reshape is a flattening followed by divisions and remainders; most
//! of them vanish here because the factors and the bounds of the parts are known.

use std::collections::HashMap;

use codegen::ir::RangeKind;
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

/// Atoms with their factors, ascending by atom.
pub type Terms = SmallVec<[(u32, i64); 4]>;

/// A sum of atoms with factors, and a constant.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Lin {
    /// Factors are never 0.
    pub terms: Terms,
    /// The constant part.
    pub constant: i64,
}

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
        let terms = Terms::new();
        self.intern(Lin {
            terms,
            constant: value,
        })
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
        self.atom(Atom::Range(number), facts)
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
        match (self.lin(ix).terms.as_slice(), self.lin(ix).constant) {
            ([(atom, 1)], 0) => match self.atoms[*atom as usize] {
                Atom::Range(number) => Some(number),
                _ => None,
            },
            _ => None,
        }
    }

    /// a + b.
    pub fn add(&mut self, a: Ix, b: Ix) -> Ix {
        let (a, b) = (self.lin(a), self.lin(b));
        let mut terms = Terms::with_capacity(a.terms.len() + b.terms.len());
        let (mut i, mut j) = (0, 0);
        while i < a.terms.len() || j < b.terms.len() {
            let left = a.terms.get(i).copied();
            let right = b.terms.get(j).copied();
            match (left, right) {
                (Some(x), Some(y)) if x.0 == y.0 => {
                    if x.1 + y.1 != 0 {
                        terms.push((x.0, x.1 + y.1));
                    }
                    i += 1;
                    j += 1;
                }
                (Some(x), y) if y.is_none_or(|y| x.0 < y.0) => {
                    terms.push(x);
                    i += 1;
                }
                (_, Some(y)) => {
                    terms.push(y);
                    j += 1;
                }
                (_, None) => break,
            }
        }
        let constant = a.constant + b.constant;
        self.intern(Lin { terms, constant })
    }

    /// a * factor.
    pub fn scale(&mut self, a: Ix, factor: i64) -> Ix {
        if factor == 0 {
            return self.constant(0);
        }
        let mut lin = self.lin(a).clone();
        for term in &mut lin.terms {
            term.1 *= factor;
        }
        lin.constant *= factor;
        self.intern(lin)
    }

    /// a + constant.
    pub fn offset(&mut self, a: Ix, constant: i64) -> Ix {
        let mut lin = self.lin(a).clone();
        lin.constant += constant;
        self.intern(lin)
    }

    /// a / by, rounded down.
    pub fn div(&mut self, a: Ix, by: i64) -> Ix {
        let (min, max) = self.bounds(a);
        if by == 1 {
            return a;
        }
        if min.div_euclid(by) == max.div_euclid(by) {
            return self.constant(min.div_euclid(by));
        }
        if let Some((Atom::Div(inner, first), 1, 0)) = self.single(a) {
            return self.div(inner, first * by);
        }
        let (quotient, rest) = self.split(a, by);
        let (low, high) = self.bounds(rest);
        if low >= 0 && high < by {
            return quotient;
        }
        let part = match self.split_by_factor(rest, by) {
            Some((high, _, factor)) => self.div(high, by / factor),
            None => {
                let facts = Facts {
                    min: low.div_euclid(by),
                    max: high.div_euclid(by),
                    deps: self.deps(rest),
                    affine: false,
                };
                self.atom(Atom::Div(rest, by), facts)
            }
        };
        self.add(quotient, part)
    }

    /// The remainder of a / by, never negative.
    pub fn modulo(&mut self, a: Ix, by: i64) -> Ix {
        if by == 1 {
            return self.constant(0);
        }
        let (_, rest) = self.split(a, by);
        let (min, max) = self.bounds(rest);
        if min.div_euclid(by) == max.div_euclid(by) {
            return self.offset(rest, -(min.div_euclid(by) * by));
        }
        if let Some((Atom::Mod(inner, first), 1, 0)) = self.single(rest)
            && first % by == 0
        {
            return self.modulo(inner, by);
        }
        if let Some((high, low, factor)) = self.split_by_factor(rest, by) {
            let high = self.modulo(high, by / factor);
            let high = self.scale(high, factor);
            return self.add(high, low);
        }
        let facts = Facts {
            min: 0,
            max: by - 1,
            deps: self.deps(rest),
            affine: false,
        };
        self.atom(Atom::Mod(rest, by), facts)
    }

    /// The same value, known to be in `0..size` where it is used.
    pub fn guard(&mut self, a: Ix, size: i64) -> Ix {
        let facts = Facts {
            min: 0,
            max: size - 1,
            ..self.lin_facts[a.0 as usize]
        };
        self.atom(Atom::Guard(a, size), facts)
    }

    /// A value read from an index tensor.
    pub fn loaded(&mut self, request: u32, size: i64, deps: RangeSet) -> Ix {
        let facts = Facts {
            min: 0,
            max: size - 1,
            deps,
            affine: false,
        };
        self.atom(Atom::Loaded(request, size), facts)
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
            for &(atom, _) in &self.lin(ix).terms {
                match self.atoms[atom as usize] {
                    Atom::Div(inner, by) | Atom::Mod(inner, by) => {
                        for &(part, factor) in &self.lin(inner).terms {
                            if let Atom::Range(number) = self.atoms[part as usize] {
                                let extent = self.ranges[number as usize].extent;
                                let by = by / gcd(by, factor.abs());
                                if by > 1 && by < extent && extent % by == 0 {
                                    return Some((number, by));
                                }
                            }
                        }
                        pending.push(inner);
                    }
                    Atom::Guard(inner, _) => pending.push(inner),
                    Atom::Range(_) | Atom::Loaded(..) => {}
                }
            }
        }
        None
    }

    /// An expression without guards at its top level, as a sum for emission.
    pub fn unguarded(&self, ix: Ix) -> Lin {
        let mut sum: Vec<(u32, i64)> = Vec::new();
        let mut constant = 0;
        let mut pending = vec![(ix, 1i64)];
        while let Some((ix, factor)) = pending.pop() {
            let lin = self.lin(ix);
            constant += lin.constant * factor;
            for &(atom, by) in &lin.terms {
                match self.atoms[atom as usize] {
                    Atom::Guard(inner, _) => pending.push((inner, factor * by)),
                    _ => sum.push((atom, factor * by)),
                }
            }
        }
        sum.sort_unstable_by_key(|term| term.0);
        let mut terms = Terms::new();
        for (atom, factor) in sum {
            match terms.last_mut() {
                Some(last) if last.0 == atom => last.1 += factor,
                _ => terms.push((atom, factor)),
            }
        }
        terms.retain(|term| term.1 != 0);
        Lin { terms, constant }
    }

    /// If it is one atom: the atom, its factor and the constant.
    fn single(&self, ix: Ix) -> Option<(Atom, i64, i64)> {
        let lin = self.lin(ix);
        match lin.terms.as_slice() {
            [(atom, factor)] => Some((self.atoms[*atom as usize], *factor, lin.constant)),
            _ => None,
        }
    }

    /// `a = by * first + second`, with all that is divisible in the first.
    fn split(&mut self, a: Ix, by: i64) -> (Ix, Ix) {
        let lin = self.lin(a);
        let mut high = Lin {
            terms: Terms::new(),
            constant: lin.constant.div_euclid(by),
        };
        let mut low = Lin {
            terms: Terms::new(),
            constant: lin.constant.rem_euclid(by),
        };
        for &(atom, factor) in &lin.terms {
            if factor % by == 0 {
                high.terms.push((atom, factor / by));
            } else {
                low.terms.push((atom, factor));
            }
        }
        (self.intern(high), self.intern(low))
    }

    /// `a = factor * high + low` with a factor that divides `by` and `low` in `0..factor`.
    fn split_by_factor(&mut self, a: Ix, by: i64) -> Option<(Ix, Ix, i64)> {
        let mut factors: SmallVec<[i64; 4]> = self.lin(a).terms.iter().map(|t| t.1.abs()).collect();
        factors.sort_unstable();
        factors.dedup();
        for factor in factors.into_iter().rev() {
            if factor <= 1 || factor >= by || by % factor != 0 {
                continue;
            }
            let (high, low) = self.split(a, factor);
            let (min, max) = self.bounds(low);
            if min >= 0 && max < factor {
                return Some((high, low, factor));
            }
        }
        None
    }

    fn atom(&mut self, atom: Atom, facts: Facts) -> Ix {
        let number = match self.atom_table.get(&atom) {
            Some(&found) => found,
            None => {
                let number = self.atoms.len() as u32;
                self.atoms.push(atom);
                self.atom_facts.push(facts);
                self.atom_table.insert(atom, number);
                number
            }
        };
        let mut terms = Terms::new();
        terms.push((number, 1));
        self.intern(Lin { terms, constant: 0 })
    }

    fn intern(&mut self, lin: Lin) -> Ix {
        if let Some(&found) = self.lin_table.get(&lin) {
            return Ix(found);
        }
        let mut facts = Facts {
            min: lin.constant,
            max: lin.constant,
            deps: 0,
            affine: true,
        };
        for &(atom, factor) in &lin.terms {
            let part = self.atom_facts[atom as usize];
            let (a, b) = (part.min * factor, part.max * factor);
            facts.min += a.min(b);
            facts.max += a.max(b);
            facts.deps |= part.deps;
            facts.affine &= part.affine;
        }
        let number = self.lins.len() as u32;
        self.lins.push(lin.clone());
        self.lin_facts.push(facts);
        self.lin_table.insert(lin, number);
        Ix(number)
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of an expression for given range values.
    fn value(ix: &Indices, at: Ix, ranges: &[i64]) -> i64 {
        let lin = ix.lin(at);
        let mut sum = lin.constant;
        for &(atom, factor) in &lin.terms {
            sum += factor
                * match ix.atom_of(atom) {
                    Atom::Range(n) => ranges[n as usize],
                    Atom::Div(a, by) => value(ix, a, ranges).div_euclid(by),
                    Atom::Mod(a, by) => value(ix, a, ranges).rem_euclid(by),
                    Atom::Guard(a, _) => value(ix, a, ranges),
                    Atom::Loaded(..) => unreachable!("no index tensors in these tests"),
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
