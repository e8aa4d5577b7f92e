//! Loads and stores.

use super::{Text, scalar};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::StoreMode;
use crate::lower::{Access, Mem, Reg, Ty};

impl Text<'_> {
    pub(super) fn place(mem: Mem) -> String {
        match mem {
            Mem::Arg(i) => format!("arg{i}"),
            Mem::Local(i) => format!("local{i}"),
        }
    }

    pub(super) fn load(
        &mut self,
        dst: Reg,
        mem: Mem,
        index: Reg,
        access: Access,
        gate: Option<(Reg, Reg)>,
    ) {
        let ty = self.of(dst);
        let at = Self::place(mem);
        let gather = access == Access::Gather && self.of(index).lanes > 1;
        let i = self.r(index);
        let truth = if ty.dtype == DType::Bool { " != 0" } else { "" };
        let contiguous = access == Access::Contiguous;
        if gate.is_none() && contiguous && ty.lanes > 1 {
            let t = self.ty(ty);
            let value = format!("({t})*(const {t}u *)&{at}[{i}]");
            if ty.dtype == DType::Bool {
                let value = self.compare(ty.lanes, &format!("({value}) != 0"));
                self.define(dst, value);
            } else {
                self.define(dst, value);
            }
            return;
        }
        let element = if self.dialect.has_lanes_apart() {
            format!("{}{truth}", self.element(mem, index, access))
        } else if gather {
            format!("{at}[{i}[{{i}}]]{truth}")
        } else if let (Access::Strided(by), true) = (access, ty.lanes > 1) {
            format!("{at}[{i} + {{i}} * ({by})]{truth}")
        } else if ty.lanes > 1 {
            format!("{at}[{i} + {{i}}]{truth}")
        } else {
            format!("{at}[{i}]{truth}")
        };
        let each = match gate {
            Some((g, alt)) => {
                let (g, alt) = (self.r(g), self.r(alt));
                format!("{g}[{{i}}] ? {element} : {alt}[{{i}}]")
            }
            None => element,
        };
        self.lanewise(dst, &each);
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
        let ty = self.of(value);
        let at = Self::place(mem);
        let gather = access == Access::Gather && self.of(index).lanes > 1;
        let i = self.r(index);
        let v = self.r(value);
        if gate.is_none() && access == Access::Contiguous && ty.lanes > 1 {
            let t = self.ty(ty);
            let place = format!("*({t}u *)&{at}[{i}]");
            let value = match mode {
                StoreMode::Set => v,
                StoreMode::Combine(op) | StoreMode::Atomic(op) => {
                    self.line(format!("{t} old_{v} = {place};"));
                    match self.expression(ty, op.binary(), &format!("old_{v}"), &v)? {
                        Some(e) => e,
                        None => return self.unsupported(format!("combining by {op:?}")),
                    }
                }
            };
            self.line(format!("{place} = {value};"));
            return Ok(());
        }
        let lanes = ty.lanes;
        let pick = |r: String| match lanes {
            1 => r,
            _ => format!("{r}[i]"),
        };
        let place = match (gather, lanes, access) {
            _ if self.dialect.has_lanes_apart() => self.element(mem, index, access),
            (true, ..) => format!("{at}[{i}[i]]"),
            (false, 1, _) => format!("{at}[{i}]"),
            (false, _, Access::Strided(by)) => format!("{at}[{i} + i * ({by})]"),
            (false, ..) => format!("{at}[{i} + i]"),
        };
        if lanes > 1 {
            self.line("#pragma clang loop unroll(full)");
            self.line(format!("for (int i = 0; i < {lanes}; i++) {{"));
        } else {
            self.line("{");
        }
        if let Some(g) = gate {
            let g = pick(self.r(g));
            self.line(format!("  if ({g})"));
        }
        self.line("  {");
        let one = Ty { lanes: 1, ..ty };
        let value = match mode {
            StoreMode::Set => pick(v),
            StoreMode::Combine(op) | StoreMode::Atomic(op) => {
                let s = scalar(ty.dtype);
                self.line(format!("    {s} old = {place}; {s} add = {};", pick(v)));
                match self.expression(one, op.binary(), "old", "add")? {
                    Some(e) => e,
                    None => return self.unsupported(format!("combining by {op:?}")),
                }
            }
        };
        self.line(format!("    {place} = {value};"));
        self.line("  }");
        self.line("}");
        Ok(())
    }
}
