//! Loads.
//!
//! One that does not happen everywhere reads the first element instead, and its value is not taken: several of them are
//! under way at once then, and fibers stay together. Loads of local memory are jumped over.

use super::Select;
use super::build::Template;
use super::memory::access_type;
use super::operand::{List, Opnd};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir3::virt::{FULL, HALF};
use crate::ir3::{Op, Round, Type};
use crate::lower::{Access, Arg, Mem, Reg, Ty};
use crate::machine::Part;
use crate::render::factors::splat;

impl Select<'_> {
    /// What was read, as a value of a type.
    pub(super) fn arrived(&mut self, dtype: DType, list: List) -> List {
        match dtype {
            DType::F16 => list,
            DType::U16 | DType::BF16 => self.convert(Type::U16, Type::U32, Round::Zero, &list),
            DType::I16 => self.convert(Type::S16, Type::S32, Round::Zero, &list),
            DType::I8 => {
                // What is above the byte is not known.
                let by = self.same(8, list.len());
                let up = self.make(Template::of(Op::ShlB, HALF), &[&list, &by]);
                let wide = self.convert(Type::S16, Type::S32, Round::Zero, &up);
                self.ashr_by(&wide, 8)
            }
            t if t.size() == 1 => {
                let mask = self.same(0xff, list.len());
                let template = Template {
                    to: FULL,
                    ..Template::of(Op::AndB, HALF)
                };
                let byte = self.make(template, &[&list, &mask]);
                if t == DType::Bool {
                    self.truth(&byte)
                } else {
                    byte
                }
            }
            _ => list,
        }
    }

    pub(super) fn load(
        &mut self,
        dst: Reg,
        mem: Mem,
        index: Reg,
        access: Access,
        gate: Option<(Reg, Reg)>,
    ) -> Result<()> {
        let ty = self.ty(dst);
        self.has(ty.dtype)?;
        let list = match (gate, mem) {
            (None, _) => {
                let list = match self.plan.of(dst) {
                    Some(fetch) => self.fetch(fetch, ty)?,
                    None => self.load_words(ty, mem, index, access, None)?,
                };
                self.arrived(ty.dtype, list)
            }
            (Some((gate, alt)), Mem::Arg(_)) => {
                let list = match self.plan.of(dst) {
                    Some(fetch) => self.fetch(fetch, ty)?,
                    None => self.load_words(ty, mem, index, access, Some(gate))?,
                };
                let list = self.arrived(ty.dtype, list);
                let (cond, alt) = (self.r(gate)?, self.r(alt)?);
                self.select_list(ty.dtype, &cond, list, alt)
            }
            (Some((gate, alt)), Mem::Local(_)) => {
                self.load_gated(ty, mem, index, access, gate, alt)?
            }
        };
        self.define(dst, list);
        Ok(())
    }

    /// The words of lanes from memory. Where the gate is false, the first element is read.
    fn load_words(
        &mut self,
        ty: Ty,
        mem: Mem,
        index: Reg,
        access: Access,
        gate: Option<Reg>,
    ) -> Result<List> {
        let Ty { dtype, lanes } = ty;
        let (memory, class) = access_type(dtype);
        let words = super::words(dtype);
        let common = match gate {
            Some(gate) if lanes > 1 => splat(self.p, gate),
            gate => gate,
        };
        let k = match (gate, common) {
            (Some(_), None) => 1,
            (Some(_), _) if !self.has_elements(mem, lanes) => 1,
            _ => Self::neighbours(ty, access),
        };
        let gates = match gate {
            Some(gate) => Some(self.r(gate)?),
            None => None,
        };
        let mut out = List::new();
        for lane in (0..lanes).step_by(k as usize) {
            let (mut at, mut known) = self.index_of(index, lane)?;
            let mut further = Self::further(access, lane);
            if let Some(gates) = &gates {
                let gate = vec![gates[lane as usize]];
                let there = self.shifted(&at, further);
                at = self.clamped(&gate, &there);
                (known, further) = (None, 0);
            }
            let place = self.place(mem, &at, known, further, dtype.size())?;
            let count = k as usize * words;
            let to = self.lanes_of(class, count);
            let whole = Part {
                lanes: count as u8,
                ..to[0]
            };
            self.read(memory, whole, place);
            out.extend(to.into_iter().map(Opnd::part));
        }
        Ok(out)
    }

    /// Whether so many elements can be read from the first one on.
    fn has_elements(&self, mem: Mem, count: u32) -> bool {
        match mem {
            Mem::Local(_) => true,
            Mem::Arg(arg) => match self.p.args.get(arg as usize) {
                Some(Arg::Buffer { len, .. }) => *len >= count as usize,
                _ => false,
            },
        }
    }

    /// An index, or 0 where a boolean is false.
    pub(super) fn clamped(&mut self, gate: &List, index: &List) -> List {
        let zero = self.same(0, 1);
        let words = index.clone();
        words
            .iter()
            .map(|&w| self.choose(FULL, gate, &vec![w], &zero)[0])
            .collect()
    }

    /// A load that is jumped over: its lanes have the alternative before.
    fn load_gated(
        &mut self,
        ty: Ty,
        mem: Mem,
        index: Reg,
        access: Access,
        gate: Reg,
        alt: Reg,
    ) -> Result<List> {
        let Ty { dtype, lanes } = ty;
        let words = super::words(dtype);
        let class = super::class(dtype);
        let (gates, alts) = (self.r(gate)?, self.r(alt)?);
        let alts = self.plain(class, alts);
        let to = self.lanes_of(class, lanes as usize * words);
        for (&to, &from) in to.iter().zip(&alts) {
            self.move_to(class, to, from);
        }
        let common = lanes == 1 || splat(self.p, gate).is_some();
        let step = if common { lanes } else { 1 };
        for lane in (0..lanes).step_by(step as usize) {
            self.open_if(gates[lane as usize], true, true);
            let list = if common {
                self.load_words(ty, mem, index, access, None)?
            } else {
                let (memory, from) = access_type(dtype);
                let (at, known) = self.index_of(index, lane)?;
                let place =
                    self.place(mem, &at, known, Self::further(access, lane), dtype.size())?;
                let parts = self.lanes_of(from, words);
                let whole = Part {
                    lanes: words as u8,
                    ..parts[0]
                };
                self.read(memory, whole, place);
                parts.into_iter().map(Opnd::part).collect()
            };
            let list = self.arrived(dtype, list);
            let first = lane as usize * words;
            for (&to, &from) in to[first..].iter().zip(&list) {
                self.move_to(class, to, from);
            }
            self.close()?;
        }
        Ok(to.into_iter().map(Opnd::part).collect())
    }
}
