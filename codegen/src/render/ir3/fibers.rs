//! How many places the fibers of a wave read by one load: those that read the same one take it from the cache together.
//!
//! Integers are computed for the first wave of the first group, in the first iteration of each loop: further ones add
//! the same to all fibers, where indices are sums of products.

use crate::ir::scalar;
use crate::lower::{Inst, Program, Reg};

/// What integers are for each fiber of a wave.
pub(super) struct Fibers {
    count: usize,
    /// By the number of a register: one value for all, or one for each; `None` if that is not known.
    values: Vec<Option<Vec<u64>>>,
}

impl Fibers {
    /// Of waves of so many fibers.
    pub fn new(p: &Program, wave: usize) -> Fibers {
        let items = usize::try_from(p.items.max(1)).unwrap_or(usize::MAX);
        let mut fibers = Fibers {
            count: items.min(wave.max(1)),
            values: vec![None; p.regs.len()],
        };
        for inst in &p.insts {
            let Some((dst, values)) = fibers.compute(p, inst) else {
                continue;
            };
            let ty = p.ty(dst);
            if ty.lanes == 1 && !ty.dtype.is_float() {
                fibers.values[dst.0 as usize] = Some(values);
            }
        }
        fibers
    }

    /// How many values a register has in the wave; as many as fibers where they are not known.
    pub fn places(&self, reg: Reg) -> usize {
        let Some(values) = &self.values[reg.0 as usize] else {
            return self.count;
        };
        let mut sorted = values.clone();
        sorted.sort_unstable();
        sorted.dedup();
        sorted.len()
    }

    /// What an instruction defines, and its values.
    fn compute(&self, p: &Program, inst: &Inst) -> Option<(Reg, Vec<u64>)> {
        let dtype = |reg: Reg| p.ty(reg).dtype;
        Some(match *inst {
            Inst::Const { dst, bits } => (dst, vec![bits]),
            // The same for all, whatever it is.
            Inst::Var { dst, .. } => (dst, vec![1]),
            Inst::Item { dst } => (dst, (0..self.count as u64).collect()),
            Inst::Loop { var, .. } | Inst::Groups { var } => (var, vec![0]),
            Inst::Cast { dst, a } => {
                let (from, to) = (dtype(a), dtype(dst));
                let cast = |[a]: [u64; 1]| Some(scalar::cast(from, to, a));
                (dst, self.each([a], cast)?)
            }
            Inst::Binary { dst, op, a, b } => {
                let of = dtype(a);
                let compute = |[a, b]: [u64; 2]| scalar::binary(op, of, a, b);
                (dst, self.each([a, b], compute)?)
            }
            Inst::Select { dst, cond, a, b } => {
                let choose = |[cond, a, b]: [u64; 3]| Some(if cond != 0 { a } else { b });
                (dst, self.each([cond, a, b], choose)?)
            }
            _ => return None,
        })
    }

    /// A function of registers, for each fiber.
    fn each<const N: usize>(
        &self,
        from: [Reg; N],
        f: impl Fn([u64; N]) -> Option<u64>,
    ) -> Option<Vec<u64>> {
        let mut lists: [&[u64]; N] = [&[]; N];
        for (list, reg) in lists.iter_mut().zip(from) {
            *list = self.values[reg.0 as usize].as_deref()?;
        }
        let count = lists.iter().map(|list| list.len()).max().unwrap_or(0);
        let of = |fiber: usize| f(lists.map(|list| list[if list.len() == 1 { 0 } else { fiber }]));
        (0..count).map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::ir::Binary;
    use crate::lower::Ty;

    #[test]
    fn places_are_counted() {
        let scalar = Ty {
            dtype: DType::U32,
            lanes: 1,
        };
        let [item, eight, row, column, group, place, other] = [0, 1, 2, 3, 4, 5, 6].map(Reg);
        let binary = |dst, op, a, b| Inst::Binary { dst, op, a, b };
        let p = Program {
            name: "places".into(),
            args: Vec::new(),
            locals: Vec::new(),
            groups: 3,
            items: 100,
            regs: vec![scalar; 7],
            accs: Vec::new(),
            insts: vec![
                Inst::Groups { var: group },
                Inst::Item { dst: item },
                Inst::Const {
                    dst: eight,
                    bits: 8,
                },
                binary(row, Binary::FloorDiv, item, eight),
                binary(column, Binary::FloorMod, item, eight),
                binary(place, Binary::Add, row, group),
                Inst::End,
            ],
        };
        let fibers = Fibers::new(&p, 64);
        let places = [item, eight, row, column, group, place, other].map(|reg| fibers.places(reg));
        // Nothing defines the last one.
        assert_eq!(places, [64, 1, 8, 8, 1, 8, 64]);
    }
}
