//! Addresses: a base, an index of 32 bits where that is enough, and a constant that is part of the
//! access. What accesses have in common is computed once.

use super::gpu::{GLOBAL, LOCAL};
use super::{Text, spelled, vector};
use crate::dtype::DType;
use crate::ir::Binary;
use crate::lower::{Arg, Inst, Mem, Reg, Ty};
use crate::render::factors::together;

/// An address that later accesses in the same block can start from.
pub(super) struct Known {
    mem: Mem,
    index: Reg,
    /// Bytes that were added to it.
    more: i64,
    value: String,
}

impl Text<'_> {
    /// The type of pointers into memory, and its name in names of intrinsics.
    pub(super) fn pointer(&self, mem: Mem) -> String {
        match mem {
            _ if !self.gpu() => "ptr".into(),
            Mem::Arg(_) => format!("ptr addrspace({GLOBAL})"),
            Mem::Local(_) => format!("ptr addrspace({LOCAL})"),
        }
    }

    /// The address, or the vector of addresses, of an access.
    pub(super) fn address(&mut self, mem: Mem, element: &str, index: Reg) -> String {
        self.address_past(mem, element, index, 0)
    }

    /// The address that many elements further.
    pub(super) fn address_past(
        &mut self,
        mem: Mem,
        element: &str,
        index: Reg,
        further: i64,
    ) -> String {
        let ty = self.p.ty(index);
        if !self.gpu() || ty.dtype != DType::U32 || ty.lanes != 1 {
            let value = self.v(index);
            let start = self.address_of(mem, element, ty, &value);
            return match further {
                0 => start,
                by => self.apart(&self.pointer(mem), element, &start, by),
            };
        }
        let (base, elements) = self.sums.get(&index).copied().unwrap_or((index, 0));
        let bytes = (elements + further) * self.element_bytes(mem);
        let reach = self.t.offset_bytes;
        // What does not fit the offset field is added in 32 bits; the rest may be taken from many.
        let more = match mem {
            Mem::Arg(_) if bytes >= reach && self.small(mem).is_some() => bytes / reach * reach,
            _ => 0,
        };
        let start = self.begin(mem, element, base, more);
        match bytes - more {
            0 => start,
            rest => self.apart(&self.pointer(mem), "i8", &start, rest),
        }
    }

    fn begin(&mut self, mem: Mem, element: &str, index: Reg, more: i64) -> String {
        let same = |k: &&Known| k.mem == mem && k.index == index && k.more == more;
        if let Some(known) = self.known.iter().find(same) {
            return known.value.clone();
        }
        let value = self.v(index);
        let value = match (more, self.small(mem)) {
            (1.., Some(shift)) => {
                let bytes = self.let_(format!("shl i32 {value}, {shift}"));
                let bytes = self.let_(format!("add i32 {bytes}, {more}"));
                let wide = self.let_(format!("zext i32 {bytes} to i64"));
                let (ptr, base) = (self.pointer(mem), self.base(mem));
                self.let_(format!("getelementptr i8, {ptr} {base}, i64 {wide}"))
            }
            _ => self.address_of(mem, element, self.p.ty(index), &value),
        };
        self.known.push(Known {
            mem,
            index,
            more,
            value: value.clone(),
        });
        value
    }

    fn base(&self, mem: Mem) -> String {
        match mem {
            Mem::Arg(i) => format!("%arg{i}"),
            Mem::Local(i) if self.gpu() => format!("@local{i}"),
            Mem::Local(i) => format!("%local{i}"),
        }
    }

    pub(super) fn address_of(&mut self, mem: Mem, element: &str, ty: Ty, index: &str) -> String {
        let base = self.base(mem);
        let ptr = self.pointer(mem);
        let mut spelled_ty = spelled(ty);
        let mut index = index.to_string();
        let mut element = element;
        // Addresses of local memory have 32 bits themselves.
        let near = self.gpu() && matches!(mem, Mem::Local(_));
        if ty.dtype == DType::U32 && !near {
            // The offset of an address is taken as signed.
            let wide = vector("i64", ty.lanes);
            if let Some(shift) = self.small(mem).filter(|&s| s > 0 && self.gpu()) {
                // In bytes while it has 32 bits: the address is then a scalar base and one register.
                let by = match ty.lanes {
                    1 => shift.to_string(),
                    _ => format!("splat (i32 {shift})"),
                };
                index = self.let_(format!("shl {spelled_ty} {index}, {by}"));
                element = "i8";
            }
            index = self.let_(format!("zext {spelled_ty} {index} to {wide}"));
            spelled_ty = wide;
        }
        self.let_(format!(
            "getelementptr {element}, {ptr} {base}, {spelled_ty} {index}"
        ))
    }

    /// Follows which registers are another one plus a constant.
    pub(super) fn sum(&mut self, inst: &Inst) {
        match inst {
            Inst::Const { dst, bits } if self.p.ty(*dst).dtype == DType::U32 => {
                self.constants.insert(*dst, i64::from(*bits as u32 as i32));
            }
            Inst::Binary {
                dst,
                op: Binary::Add,
                a,
                b,
            } if self.p.ty(*dst).dtype == DType::U32 => {
                if let Some(&more) = self.constants.get(b) {
                    self.sums.insert(*dst, (*a, more));
                }
            }
            _ => {}
        }
    }

    fn element_bytes(&self, mem: Mem) -> i64 {
        let dtype = match mem {
            Mem::Local(i) => self.p.locals.get(i as usize).map(|l| l.0),
            Mem::Arg(i) => match self.p.args.get(i as usize) {
                Some(Arg::Buffer { dtype, .. }) => Some(*dtype),
                _ => None,
            },
        };
        dtype.map_or(1, |d| d.size() as i64)
    }

    /// The shift from elements to bytes, for arguments in which 32 bits count bytes.
    pub(super) fn small(&self, mem: Mem) -> Option<u32> {
        let Mem::Arg(i) = mem else { return None };
        match self.p.args.get(i as usize) {
            Some(&Arg::Buffer { dtype, len, .. }) => {
                let bytes = len.checked_mul(dtype.size())?;
                (bytes as u64 <= 1 << 32).then(|| dtype.size().ilog2())
            }
            _ => None,
        }
    }

    /// The address that many elements further.
    pub(super) fn apart(&mut self, ptr: &str, element: &str, address: &str, by: i64) -> String {
        self.let_(format!(
            "getelementptr {element}, {ptr} {address}, i64 {by}"
        ))
    }

    /// Alignment of an access in bytes. Blocks of local memory are aligned to 16, and so are buffers of NVIDIA's
    /// GPUs; of other buffers only the elements are known to be, which is enough for AMD's: they read
    /// global memory anywhere.
    pub(super) fn alignment(&self, mem: Mem, ty: Ty, index: Reg) -> usize {
        let size = ty.dtype.size();
        match mem {
            Mem::Arg(_) if self.t.is_nv() => size * together(&self.factors, ty, index) as usize,
            Mem::Local(_) if self.gpu() => {
                let factor = self.factors[index.0 as usize].min(4);
                (size << factor).min(16)
            }
            _ => size,
        }
    }
}
