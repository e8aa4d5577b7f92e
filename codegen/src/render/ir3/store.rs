//! Stores: one that does not happen everywhere is jumped over.

use super::Select;
use super::address::Address;
use super::memory::access_type;
use super::operand::{List, Opnd};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::StoreMode;
use crate::ir3::{Round, Type};
use crate::lower::{Access, Mem, Reg};
use crate::machine::Part;
use crate::render::factors::splat;

impl Select<'_> {
    /// A value of a type, as it is written.
    fn leaving(&mut self, dtype: DType, list: List) -> List {
        let list = self.plain(super::class(dtype), list);
        match dtype {
            DType::F16 => list,
            t if t.size() <= 2 => match super::integer::constant(&list) {
                Some(bits) => self.same(bits & 0xffff, list.len()),
                None => self.convert(Type::U32, Type::U16, Round::Zero, &list),
            },
            _ => list,
        }
    }

    pub(super) fn store(
        &mut self,
        mode: StoreMode,
        mem: Mem,
        index: Reg,
        access: Access,
        value: Reg,
        gate: Option<Reg>,
    ) -> Result<()> {
        let ty = self.ty(value);
        self.has(ty.dtype)?;
        let lanes = ty.lanes;
        let Some(gate) = gate else {
            return self.store_lanes(mode, mem, index, access, value, 0..lanes);
        };
        let gates = self.r(gate)?;
        // What is stored is computed outside: it may be read elsewhere.
        let whole = lanes == 1 || splat(self.p, gate).is_some();
        let step = if whole { lanes } else { 1 };
        let parts = (0..lanes).step_by(step as usize);
        if mode != StoreMode::Set {
            for lane in parts {
                self.open_if(gates[lane as usize], true, true);
                self.store_lanes(mode, mem, index, access, value, lane..lane + step)?;
                self.close()?;
            }
            return Ok(());
        }
        // Places as well: the condition takes its time, too.
        let mut ready = Vec::new();
        for lane in parts {
            let writes = self.prepared(mem, index, access, value, lane..lane + step)?;
            ready.push((gates[lane as usize], writes));
        }
        for (gate, writes) in ready {
            self.open_if(gate, true, true);
            for (memory, place, from) in writes {
                self.write(memory, place, from);
            }
            self.close()?;
        }
        Ok(())
    }

    /// Types, places and values of the accesses that set lanes.
    fn prepared(
        &mut self,
        mem: Mem,
        index: Reg,
        access: Access,
        value: Reg,
        range: std::ops::Range<u32>,
    ) -> Result<Vec<(Type, Address, Part)>> {
        let ty = self.ty(value);
        let words = super::words(ty.dtype);
        let list = self.r(value)?;
        let whole = range.len() as u32 == ty.lanes;
        let k = if whole {
            Self::neighbours(ty, access)
        } else {
            1
        };
        let mut made = Vec::new();
        for lane in range.step_by(k as usize) {
            let (at, known, further) = self.start_of(index, access, lane, whole)?;
            let first = lane as usize * words;
            let list = list[first..first + k as usize * words].to_vec();
            let place = self.place(mem, &at, known, further, ty.dtype.size())?;
            let (memory, class) = access_type(ty.dtype);
            let list = self.leaving(ty.dtype, list);
            made.push((memory, place, self.side_by_side(class, &list)));
        }
        Ok(made)
    }

    /// The index of a lane, its register, and how far behind it the lane is.
    fn start_of(
        &mut self,
        index: Reg,
        access: Access,
        lane: u32,
        whole: bool,
    ) -> Result<(List, Option<Reg>, i64)> {
        let (at, known) = self.index_of(index, lane)?;
        let further = Self::further(access, lane);
        // The first lane may be left out because its index is negative, which addresses do not extend.
        if !whole && self.ty(index).dtype != DType::U32 {
            return Ok((self.shifted(&at, further), None, 0));
        }
        Ok((at, known, further))
    }

    fn store_lanes(
        &mut self,
        mode: StoreMode,
        mem: Mem,
        index: Reg,
        access: Access,
        value: Reg,
        range: std::ops::Range<u32>,
    ) -> Result<()> {
        let ty = self.ty(value);
        let dtype = ty.dtype;
        if mode == StoreMode::Set {
            for (memory, place, from) in self.prepared(mem, index, access, value, range)? {
                self.write(memory, place, from);
            }
            return Ok(());
        }
        let words = super::words(dtype);
        let list = self.r(value)?;
        let whole = range.len() as u32 == ty.lanes;
        for lane in range {
            let (at, known, further) = self.start_of(index, access, lane, whole)?;
            let first = lane as usize * words;
            let list = list[first..first + words].to_vec();
            if let StoreMode::Atomic(op) = mode {
                self.atomic(op, dtype, mem, (&at, known, further), list)?;
                continue;
            }
            let place = self.place(mem, &at, known, further, dtype.size())?;
            let (memory, class) = access_type(dtype);
            let list = match mode {
                StoreMode::Combine(op) => {
                    let to = self.lanes_of(class, words);
                    let all = Part {
                        lanes: words as u8,
                        ..to[0]
                    };
                    self.read(memory, all, place);
                    let old = to.into_iter().map(Opnd::part).collect();
                    let old = self.arrived(dtype, old);
                    self.binary(op.binary(), dtype, [None; 2], old, list)?
                }
                _ => list,
            };
            let list = self.leaving(dtype, list);
            let from = self.side_by_side(class, &list);
            self.write(memory, place, from);
        }
        Ok(())
    }
}
