//! Loads, stores, and the folding of lanes.

use super::{Open, Text, mangled, memory_type, scalar, spelled, vector};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::{ReduceOp, StoreMode};
use crate::lower::{Access, Arg, Mem, Reg, Ty};

impl Text<'_> {
    /// How far a block of memory reaches, in elements.
    fn length(&self, mem: Mem) -> usize {
        match mem {
            Mem::Local(i) => self.p.locals[i as usize].1,
            Mem::Arg(i) => match self.p.args[i as usize] {
                Arg::Buffer { len, .. } => len,
                Arg::Var { .. } | Arg::Number { .. } | Arg::Tensor(_) => 0,
            },
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

    pub(super) fn stored_value(&mut self, ty: Ty, value: String) -> String {
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
                let plain = ty.dtype != DType::Bool;
                let other = if plain {
                    alt.as_str()
                } else {
                    "zeroinitializer"
                };
                let raw = self.masked_load(ty, &ptr_ty, &address, align, &g, other);
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

    /// Elements at a distance: for a small one whole vectors, out of which the lanes are taken.
    fn strided_load(&mut self, ty: Ty, mem: Mem, index: Reg, by: i64) -> String {
        let element = memory_type(ty.dtype);
        let t = vector(element, ty.lanes);
        let align = ty.dtype.size();
        let ptr_ty = self.pointer(mem);
        let lanes = i64::from(ty.lanes);
        if !(2..=4).contains(&by) {
            let mut all = "poison".to_string();
            for lane in 0..lanes {
                let at = self.address_past(mem, element, index, by.wrapping_mul(lane));
                let one = self.let_(format!("load {element}, {ptr_ty} {at}, align {align}"));
                all = self.let_(format!(
                    "insertelement {t} {all}, {element} {one}, i64 {lane}"
                ));
            }
            return all;
        }
        let address = self.address(mem, element, index);
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

    /// A load of the lanes in a mask; the others have those of another value.
    fn masked_load(
        &mut self,
        ty: Ty,
        ptr_ty: &str,
        address: &str,
        align: usize,
        mask: &str,
        other: &str,
    ) -> String {
        let element = memory_type(ty.dtype);
        let (t, mask_ty) = (vector(element, ty.lanes), vector("i1", ty.lanes));
        let name = format!(
            "llvm.masked.load.{}.{}",
            mangled(element, ty.lanes),
            mangled(ptr_ty, 1)
        );
        let ptr = format!("{ptr_ty} align {align}");
        self.call(&name, &t, &[(&ptr, address), (&mask_ty, mask), (&t, other)])
    }

    /// Elements at a distance, one by one: better than a scatter, which takes several cycles per lane as well.
    fn strided_store(&mut self, ty: Ty, mem: Mem, index: Reg, by: i64, value: &str) {
        let element = memory_type(ty.dtype);
        let t = vector(element, ty.lanes);
        let ptr_ty = self.pointer(mem);
        let align = ty.dtype.size();
        for lane in 0..ty.lanes {
            let further = by.wrapping_mul(i64::from(lane));
            let at = self.address_past(mem, element, index, further);
            let one = self.let_(format!("extractelement {t} {value}, i64 {lane}"));
            self.line(format!(
                "store {element} {one}, {ptr_ty} {at}, align {align}"
            ));
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
        if let StoreMode::Atomic(op) = mode {
            return self.atomic(op, mem, index, value, gate);
        }
        let ty = self.p.ty(value);
        if let Some(gate) = gate
            && self.gpu()
            && let Some(cond) = self.uniform(gate)
        {
            // What addresses have in common stays outside, where others find it.
            if ty.lanes == 1 || access == Access::Contiguous {
                self.address(mem, memory_type(ty.dtype), index);
            }
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
        let mask_ty = vector("i1", ty.lanes);
        let mut value = self.v(value);
        if let (Access::Strided(by), true, None) = (access, ty.lanes > 1, gate) {
            let value = self.stored_value(ty, value);
            self.strided_store(ty, mem, index, by, &value);
            return Ok(());
        }
        let mut address = self.address(mem, element, index);
        let gate = gate.map(|g| self.v(g));
        let scatter = access == Access::Gather && ty.lanes > 1;
        if let (Some(g), 1) = (&gate, ty.lanes) {
            address = self.let_(format!("select i1 {g}, ptr {address}, ptr %nowhere"));
        }
        if let Some(op) = mode.combines() {
            let raw = match &gate {
                Some(g) if ty.lanes > 1 => {
                    self.masked_load(ty, &ptr_ty, &address, align, g, "zeroinitializer")
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
