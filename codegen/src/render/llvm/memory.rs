//! Loads, stores, and the folding of lanes.

use super::amdgpu::{GLOBAL, LOCAL};
use super::{Open, Text, mangled, memory_type, scalar, spelled, vector};
use crate::DType;
use crate::error::Result;
use crate::ir::{Binary, ReduceOp, StoreMode};
use crate::lower::{Access, Arg, Inst, Mem, Reg, Ty};

impl Text<'_> {
    /// The type of pointers into memory, and its name in names of intrinsics.
    fn pointer(&self, mem: Mem) -> String {
        match mem {
            _ if !self.gpu() => "ptr".into(),
            Mem::Arg(_) => format!("ptr addrspace({GLOBAL})"),
            Mem::Local(_) => format!("ptr addrspace({LOCAL})"),
        }
    }

    /// The address, or the vector of addresses, of an access.
    fn address(&mut self, mem: Mem, element: &str, index: Reg) -> String {
        let value = self.v(index);
        self.address_of(mem, element, self.p.ty(index), &value)
    }

    fn address_of(&mut self, mem: Mem, element: &str, ty: Ty, index: &str) -> String {
        let base = match mem {
            Mem::Arg(i) => format!("%arg{i}"),
            Mem::Local(i) if self.gpu() => format!("@local{i}"),
            Mem::Local(i) => format!("%local{i}"),
        };
        let ptr = self.pointer(mem);
        let mut spelled_ty = spelled(ty);
        let mut index = index.to_string();
        let mut element = element;
        if ty.dtype == DType::U32 {
            // The offset of an address is taken as signed.
            let wide = vector("i64", ty.lanes);
            if let Some(shift) = self.small(mem).filter(|_| self.gpu()) {
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

    /// How far a block of memory reaches, in elements.
    fn length(&self, mem: Mem) -> usize {
        match mem {
            Mem::Local(i) => self.p.locals[i as usize].1,
            Mem::Arg(i) => match self.p.args[i as usize] {
                Arg::Buffer { len, .. } => len,
                Arg::Var { .. } => 0,
            },
        }
    }

    /// Alignment of an access in bytes. Blocks of local memory are aligned to 16; of a buffer only
    /// its elements are known to be, which is enough for GPUs: they read global memory anywhere.
    fn alignment(&self, mem: Mem, ty: Ty, index: Reg) -> usize {
        let size = ty.dtype.size();
        match mem {
            Mem::Local(_) if self.gpu() => {
                let factor = self.factors[index.0 as usize].min(4);
                (size << factor).min(16)
            }
            _ => size,
        }
    }

    /// Follows which powers of two divide indices.
    pub(super) fn factor(&mut self, inst: &Inst) {
        let of = |r: &Reg| self.factors[r.0 as usize];
        let (dst, factor) = match inst {
            Inst::Const { dst, bits } => (dst, bits.trailing_zeros()),
            Inst::Cast { dst, a } | Inst::Splat { dst, a } => (dst, of(a)),
            Inst::Select { dst, a, b, .. } => (dst, of(a).min(of(b))),
            Inst::Binary { dst, op, a, b } => {
                let (a, b) = (of(a), of(b));
                let factor = match op {
                    Binary::Add | Binary::Sub | Binary::Or | Binary::Xor => a.min(b),
                    Binary::FloorMod | Binary::TruncMod => a.min(b),
                    Binary::Mul => a.saturating_add(b),
                    Binary::And => a.max(b),
                    _ => 0,
                };
                (dst, factor)
            }
            _ => return,
        };
        if self.p.ty(*dst).dtype.is_int() {
            self.factors[dst.0 as usize] = factor.min(31);
        }
    }

    fn loaded_value(&mut self, ty: Ty, value: String) -> String {
        if ty.dtype != DType::Bool {
            return value;
        }
        let t = vector("i8", ty.lanes);
        let zero = self.splat_constant("i8", ty.lanes, "0");
        self.let_(format!("icmp ne {t} {value}, {zero}"))
    }

    fn stored_value(&mut self, ty: Ty, value: String) -> String {
        if ty.dtype != DType::Bool {
            return value;
        }
        self.let_(format!(
            "zext {} {value} to {}",
            spelled(ty),
            vector("i8", ty.lanes)
        ))
    }

    pub(super) fn load(
        &mut self,
        dst: Reg,
        mem: Mem,
        index: Reg,
        access: Access,
        gate: Option<(Reg, Reg)>,
    ) -> String {
        let ty = self.p.ty(dst);
        let element = memory_type(ty.dtype);
        let t = vector(element, ty.lanes);
        let align = self.alignment(mem, ty, index);
        let ptr_ty = self.pointer(mem);
        if let (Access::Strided(by), true) = (access, ty.lanes > 1) {
            let raw = self.strided_load(ty, mem, index, by);
            return self.loaded_value(ty, raw);
        }
        if let Some((gate, alt)) = gate
            && let Some(value) = self.gated_load(ty, mem, index, access, gate, alt)
        {
            return value;
        }
        let mut address = self.address(mem, element, index);
        let all = self.splat_constant("i1", ty.lanes, "true");
        let mask_ty = vector("i1", ty.lanes);
        let gate_value = gate.map(|(g, alt)| (self.v(g), self.v(alt)));
        if access == Access::Gather && ty.lanes > 1 {
            let name = format!(
                "llvm.masked.gather.{}.{}",
                mangled(element, ty.lanes),
                mangled(&ptr_ty, ty.lanes)
            );
            let mask = gate_value.as_ref().map_or(all, |(g, _)| g.clone());
            let ptrs = format!("{} align {align}", vector(&ptr_ty, ty.lanes));
            let raw = self.call(
                &name,
                &t,
                &[
                    (&ptrs, &address),
                    (&mask_ty, &mask),
                    (&t, "zeroinitializer"),
                ],
            );
            let value = self.loaded_value(ty, raw);
            return match gate_value {
                Some((g, alt)) => self.pick(ty, &g, &value, &alt),
                None => value,
            };
        }
        match gate_value {
            None => {
                let raw = self.let_(format!("load {t}, {ptr_ty} {address}, align {align}"));
                self.loaded_value(ty, raw)
            }
            Some((g, alt)) if ty.lanes == 1 => {
                address = self.let_(format!("select i1 {g}, ptr {address}, ptr %nowhere"));
                let raw = self.let_(format!("load {t}, ptr {address}, align {align}"));
                let value = self.loaded_value(ty, raw);
                self.pick(ty, &g, &value, &alt)
            }
            Some((g, alt)) => {
                let name = format!(
                    "llvm.masked.load.{}.{}",
                    mangled(element, ty.lanes),
                    mangled(&ptr_ty, 1)
                );
                let ptr = format!("{ptr_ty} align {align}");
                let plain = ty.dtype != DType::Bool;
                let other = if plain {
                    alt.as_str()
                } else {
                    "zeroinitializer"
                };
                let raw = self.call(&name, &t, &[(&ptr, &address), (&mask_ty, &g), (&t, other)]);
                if plain {
                    return raw;
                }
                let value = self.loaded_value(ty, raw);
                self.pick(ty, &g, &value, &alt)
            }
        }
    }

    /// The condition, if it is the same for all lanes.
    fn uniform(&self, gate: Reg) -> Option<String> {
        match self.p.ty(gate).lanes {
            1 => Some(self.v(gate)),
            _ => self.splats.get(&gate).map(|&r| self.v(r)),
        }
    }

    /// On GPUs a load that is switched off as a whole reads the first elements of its block
    /// instead: there is no address that costs nothing, and a branch costs more.
    fn gated_load(
        &mut self,
        ty: Ty,
        mem: Mem,
        index: Reg,
        access: Access,
        gate: Reg,
        alt: Reg,
    ) -> Option<String> {
        let there = self.length(mem) >= ty.lanes as usize;
        let together = ty.lanes == 1 || access == Access::Contiguous;
        if !(self.gpu() && there && together) {
            return None;
        }
        let cond = self.uniform(gate)?;
        let element = memory_type(ty.dtype);
        let (index_ty, at) = (self.p.ty(index), self.v(index));
        let i = spelled(index_ty);
        let at = self.let_(format!("select i1 {cond}, {i} {at}, {i} 0"));
        let address = self.address_of(mem, element, index_ty, &at);
        let t = vector(element, ty.lanes);
        let align = self.alignment(mem, ty, index);
        let ptr = self.pointer(mem);
        let raw = self.let_(format!("load {t}, {ptr} {address}, align {align}"));
        let value = self.loaded_value(ty, raw);
        let whole = spelled(ty);
        let alt = self.v(alt);
        Some(self.let_(format!("select i1 {cond}, {whole} {value}, {whole} {alt}")))
    }

    /// The shift from elements to bytes, for arguments in which 32 bits count bytes.
    fn small(&self, mem: Mem) -> Option<u32> {
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
    fn apart(&mut self, ptr: &str, element: &str, address: &str, by: i64) -> String {
        self.let_(format!(
            "getelementptr {element}, {ptr} {address}, i64 {by}"
        ))
    }

    /// Elements at a distance: for a small one whole vectors, out of which the lanes are taken.
    fn strided_load(&mut self, ty: Ty, mem: Mem, index: Reg, by: i64) -> String {
        let element = memory_type(ty.dtype);
        let t = vector(element, ty.lanes);
        let align = ty.dtype.size();
        let ptr_ty = self.pointer(mem);
        let address = self.address(mem, element, index);
        let lanes = i64::from(ty.lanes);
        if !(2..=4).contains(&by) {
            let mut all = "poison".to_string();
            for lane in 0..lanes {
                let at = self.apart(&ptr_ty, element, &address, by.wrapping_mul(lane));
                let one = self.let_(format!("load {element}, {ptr_ty} {at}, align {align}"));
                all = self.let_(format!(
                    "insertelement {t} {all}, {element} {one}, i64 {lane}"
                ));
            }
            return all;
        }
        let mut all = String::new();
        for part in 0..by {
            // The last one ends with the last lane: nothing beyond it is touched.
            let start = (part * lanes).min((lanes - 1) * by + 1 - lanes);
            let at = self.apart(&ptr_ty, element, &address, start);
            let next = self.let_(format!("load {t}, {ptr_ty} {at}, align {align}"));
            if part == 0 {
                all.clone_from(&next);
            }
            // Lanes whose element an earlier part had are in their places; the first part has none.
            let mask: Vec<String> = (0..lanes)
                .map(|lane| {
                    let place = lane * by;
                    let from = match part {
                        _ if place >= part * lanes => lanes + (place - start).min(lanes - 1),
                        _ => lane,
                    };
                    format!("i32 {from}")
                })
                .collect();
            let list = mask.join(", ");
            let other = if part == 0 { all.clone() } else { next };
            all = self.let_(format!(
                "shufflevector {t} {all}, {t} {other}, <{lanes} x i32> <{list}>"
            ));
        }
        all
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
        let ty = self.p.ty(value);
        if let Some(gate) = gate
            && self.gpu()
            && let Some(cond) = self.uniform(gate)
        {
            self.open_if(&cond);
            self.store(mode, mem, index, access, value, None)?;
            if let Some(Open::Once { id }) = self.opened.pop() {
                self.close_if(id);
            }
            return Ok(());
        }
        let element = memory_type(ty.dtype);
        let t = vector(element, ty.lanes);
        let align = self.alignment(mem, ty, index);
        let ptr_ty = self.pointer(mem);
        let mut address = self.address(mem, element, index);
        let mask_ty = vector("i1", ty.lanes);
        let mut value = self.v(value);
        if let (Access::Strided(by), true, None) = (access, ty.lanes > 1, gate) {
            // Better than a scatter, which takes several cycles per lane as well.
            let value = self.stored_value(ty, value);
            let align = ty.dtype.size();
            for lane in 0..ty.lanes {
                let at = self.apart(&ptr_ty, element, &address, by.wrapping_mul(i64::from(lane)));
                let one = self.let_(format!("extractelement {t} {value}, i64 {lane}"));
                self.line(format!(
                    "store {element} {one}, {ptr_ty} {at}, align {align}"
                ));
            }
            return Ok(());
        }
        let gate = gate.map(|g| self.v(g));
        let scatter = access == Access::Gather && ty.lanes > 1;
        if let (Some(g), 1) = (&gate, ty.lanes) {
            address = self.let_(format!("select i1 {g}, ptr {address}, ptr %nowhere"));
        }
        if let StoreMode::Combine(op) = mode {
            let raw = match &gate {
                Some(g) if ty.lanes > 1 => {
                    let name = format!(
                        "llvm.masked.load.{}.{}",
                        mangled(element, ty.lanes),
                        mangled(&ptr_ty, 1)
                    );
                    let ptr = format!("{ptr_ty} align {align}");
                    self.call(
                        &name,
                        &t,
                        &[(&ptr, &address), (&mask_ty, g), (&t, "zeroinitializer")],
                    )
                }
                _ => self.let_(format!("load {t}, {ptr_ty} {address}, align {align}")),
            };
            let old = self.loaded_value(ty, raw);
            value = self.binary(ty, op.binary(), &old, &value)?;
        }
        let value = self.stored_value(ty, value);
        if scatter {
            let name = format!(
                "llvm.masked.scatter.{}.{}",
                mangled(element, ty.lanes),
                mangled(&ptr_ty, ty.lanes)
            );
            let mask = gate.unwrap_or_else(|| self.splat_constant("i1", ty.lanes, "true"));
            let ptrs = format!("{} align {align}", vector(&ptr_ty, ty.lanes));
            self.call(
                &name,
                "void",
                &[(&t, &value), (&ptrs, &address), (&mask_ty, &mask)],
            );
            return Ok(());
        }
        match gate {
            Some(g) if ty.lanes > 1 => {
                let name = format!(
                    "llvm.masked.store.{}.{}",
                    mangled(element, ty.lanes),
                    mangled(&ptr_ty, 1)
                );
                let ptr = format!("{ptr_ty} align {align}");
                self.call(
                    &name,
                    "void",
                    &[(&t, &value), (&ptr, &address), (&mask_ty, &g)],
                );
            }
            _ => self.line(format!(
                "store {t} {value}, {ptr_ty} {address}, align {align}"
            )),
        }
        Ok(())
    }

    /// Folds halves onto each other; an odd lane count is folded one by one.
    pub(super) fn horizontal(&mut self, op: ReduceOp, a: Reg) -> Result<String> {
        let mut ty = self.p.ty(a);
        let mut value = self.v(a);
        let element = scalar(ty.dtype);
        while ty.lanes > 1 {
            let whole = spelled(ty);
            if ty.lanes % 2 == 1 {
                let one = Ty { lanes: 1, ..ty };
                let mut sum = self.let_(format!("extractelement {whole} {value}, i64 0"));
                for lane in 1..ty.lanes {
                    let next = self.let_(format!("extractelement {whole} {value}, i64 {lane}"));
                    sum = self.binary(one, op.binary(), &sum, &next)?;
                }
                return Ok(sum);
            }
            let half = ty.lanes / 2;
            let mut part = |from: u32| {
                let list: Vec<String> = (from..from + half).map(|i| format!("i32 {i}")).collect();
                self.let_(format!(
                    "shufflevector {whole} {value}, {whole} poison, <{half} x i32> <{}>",
                    list.join(", ")
                ))
            };
            let (low, high) = (part(0), part(half));
            ty.lanes = half;
            if half == 1 {
                let v = vector(element, 1);
                let single = format!("<1 x {v}>");
                let low = self.let_(format!("extractelement {single} {low}, i64 0"));
                let high = self.let_(format!("extractelement {single} {high}, i64 0"));
                value = self.binary(ty, op.binary(), &low, &high)?;
            } else {
                value = self.binary(ty, op.binary(), &low, &high)?;
            }
        }
        Ok(value)
    }
}
