//! Accesses to memory: one instruction each.

use super::Select;
use super::address::Address;
use super::build::List;
use crate::dtype::DType;
use crate::error::Result;
use crate::ir3::virt::{Code, Dst, FULL, HALF, Src};
use crate::ir3::{Op, Type};
use crate::lower::{Access, Reg, Ty};
use crate::machine::{Class, Part};

/// How an element is in memory: its type there, and its class in a register.
pub(super) fn access_type(dtype: DType) -> (Type, Class) {
    match dtype.size() {
        1 => (Type::U8, HALF),
        2 => (Type::U16, HALF),
        _ => (Type::U32, FULL),
    }
}

impl Select<'_> {
    /// Reads neighbours into lanes that lie side by side.
    pub(super) fn read(&mut self, ty: Type, to: Part, place: Address) {
        let (op, srcs, offset, shift) = match place {
            Address::Global(at, offset) => (Op::Ldg, vec![Src::part(at)], offset, 0),
            Address::Indexed(at, index, shift, offset) => (
                Op::LdgA,
                vec![Src::part(at), Src::part(index)],
                offset,
                shift,
            ),
            Address::Local(at, offset) => (Op::Ldl, vec![Src::part(at)], offset, 0),
        };
        let mut code = Code::new(op, Dst::Part(to), srcs);
        code.mods.ty = Some(ty);
        code.mods.shift = shift;
        code.mods.count = u16::from(to.lanes);
        code.mods.offset = offset;
        self.emit(code);
    }

    pub(super) fn write(&mut self, ty: Type, place: Address, from: Part) {
        let value = Src::part(from);
        let (op, srcs, offset, shift) = match place {
            Address::Global(at, offset) => (Op::Stg, vec![Src::part(at), value], offset, 0),
            Address::Indexed(at, index, shift, offset) => (
                Op::StgA,
                vec![Src::part(at), Src::part(index), value],
                offset,
                shift,
            ),
            Address::Local(at, offset) => (Op::Stl, vec![Src::part(at), value], offset, 0),
        };
        let mut code = Code::new(op, Dst::None, srcs);
        code.mods.ty = Some(ty);
        code.mods.shift = shift;
        code.mods.count = u16::from(from.lanes);
        code.mods.offset = offset;
        self.emit(code);
    }

    /// How far behind the index a lane is.
    pub(super) fn further(access: Access, lane: u32) -> i64 {
        match access {
            Access::Contiguous => i64::from(lane),
            Access::Strided(by) => by.wrapping_mul(i64::from(lane)),
            Access::Gather => 0,
        }
    }

    /// Neighbours that one access reaches: their words fit four registers. Each has to be aligned as an element is, the
    /// vector as a whole need not be (Mesa `ir3_nir_should_vectorize_mem`, `ir3_mem_access_size_align`).
    pub(super) fn neighbours(ty: Ty, access: Access) -> u32 {
        if access != Access::Contiguous {
            return 1;
        }
        let most = 4 / super::words(ty.dtype) as u32;
        let fits = |k: &u32| *k <= most && ty.lanes.is_multiple_of(*k);
        [4, 2].into_iter().find(fits).unwrap_or(1)
    }

    /// The words of the index of a lane.
    pub(super) fn index_of(&mut self, index: Reg, lane: u32) -> Result<(List, Option<Reg>)> {
        let ty = self.ty(index);
        let list = self.r(index)?;
        let words = super::words(ty.dtype);
        if ty.lanes == 1 {
            return Ok((list, Some(index)));
        }
        let from = lane as usize * words;
        Ok((list[from..from + words].to_vec(), None))
    }

    /// Words in neighbouring registers.
    pub(super) fn side_by_side(&mut self, class: Class, list: &List) -> Part {
        if let Some(part) = Self::run(list)
            && self.f.shape(part.value).class == class
        {
            return part;
        }
        let to = self.lanes_of(class, list.len());
        for (&to, &from) in to.iter().zip(list) {
            self.move_to(class, to, from);
        }
        Part {
            lanes: list.len() as u8,
            ..to[0]
        }
    }
}
