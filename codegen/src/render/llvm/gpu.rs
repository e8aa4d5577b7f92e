//! Common to all GPUs: arguments, local memory, groups and work-items.
//!
//! Arguments are 8 bytes each: addresses in global memory and `i64`. One call is one work-item. Pointers are not
//! `noalias`: the scheduler lets a kernel write what it has just read.
//!
//! Source: LLVM, "User Guide for AMDGPU Backend" and "User Guide for NVPTX Back-end": address spaces, intrinsics.

use std::fmt::Write as _;

use super::amdgpu::PRIVATE;
use super::{Open, Text, memory_type, scalar, spelled, vector};
use crate::error::Result;
use crate::lower::{Arg, Inst, Reg};
use crate::target::TargetKind;

/// Numbers of address spaces.
pub(super) const GLOBAL: u32 = 1;
pub(super) const LOCAL: u32 = 3;

impl Text<'_> {
    /// Whether a call is one work-item.
    pub(super) fn gpu(&self) -> bool {
        self.t.kind == TargetKind::Gpu
    }

    /// What stands before a function.
    pub(super) fn globals(&self) -> String {
        let mut out = format!("target triple = \"{}\"\n\n", self.t.triple);
        for (i, (dtype, len)) in self.p.locals.iter().enumerate() {
            let _ = writeln!(
                out,
                "@local{i} = internal addrspace({LOCAL}) global [{len} x {}] poison, align 16",
                memory_type(*dtype)
            );
        }
        for line in &self.declared {
            let _ = writeln!(out, "declare {line}");
        }
        out
    }

    /// The arguments of a kernel.
    pub(super) fn arguments(&self) -> String {
        let spell = |(i, arg): (usize, &Arg)| match arg {
            Arg::Buffer { written: true, .. } => format!("ptr addrspace({GLOBAL}) %arg{i}"),
            Arg::Buffer { .. } => format!("ptr addrspace({GLOBAL}) readonly %arg{i}"),
            Arg::Var { .. } | Arg::Number { .. } | Arg::Tensor(_) => format!("i64 %arg{i}"),
        };
        let list: Vec<String> = self.p.args.iter().enumerate().map(spell).collect();
        list.join(", ")
    }

    /// The beginning of a kernel: accumulators, and the number of the group where it is asked for.
    pub(super) fn kernel(&mut self) -> Result<()> {
        for (i, acc) in self.p.accs.iter().enumerate() {
            let space = match self.amd() {
                true => format!(", addrspace({PRIVATE})"),
                false => String::new(),
            };
            self.line(format!("%acc{i} = alloca {}{space}", spelled(*acc)));
        }
        let reads = |i: &Inst| matches!(i, Inst::Groups { .. } | Inst::Once);
        if self.p.insts.iter().any(reads) {
            self.group_number()?;
        }
        let runs = self.runs();
        for (at, inst) in self.p.insts.iter().enumerate() {
            match runs.get(&at) {
                Some(Some(run)) => self.store_run(run),
                Some(None) => {}
                None => self.inst(inst)?,
            }
        }
        Ok(())
    }

    /// `%group`, the number of this group.
    fn group_number(&mut self) -> Result<()> {
        let Some(grid) = self.p.grid(self.t) else {
            return self.unsupported(format!("{} groups", self.p.groups));
        };
        let id = |s: &mut Self, axis| {
            let name = match s.amd() {
                true => format!("llvm.amdgcn.workgroup.id.{axis}"),
                false => format!("llvm.nvvm.read.ptx.sreg.ctaid.{axis}"),
            };
            let small = s.call(&name, "i32", &[]);
            s.let_(format!("zext i32 {small} to i64"))
        };
        let mut number = id(self, "x");
        let mut below = u64::from(grid[0]);
        for (axis, n) in [("y", grid[1]), ("z", grid[2])] {
            if n > 1 {
                let next = id(self, axis);
                let part = self.let_(format!("mul nuw nsw i64 {next}, {below}"));
                number = self.let_(format!("add nuw nsw i64 {number}, {part}"));
            }
            below *= u64::from(n);
        }
        self.line(format!("%group = add nuw nsw i64 {number}, 0"));
        Ok(())
    }

    /// The group of this call, as the variable of what would be a loop over groups elsewhere.
    pub(super) fn open_group(&mut self, var: Reg) {
        let value = self.sized(var, "%group");
        self.set(var, value);
        let made = self.p.grid(self.t).map_or(1, |grid| {
            grid.iter().map(|&n| i64::from(n)).product::<i64>()
        });
        if made == self.p.groups {
            self.opened.push(Open::Nothing);
            return;
        }
        let there = self.let_(format!("icmp ult i64 %group, {}", self.p.groups));
        self.open_if(&there);
    }

    /// What follows, up to the end, happens under a condition.
    pub(super) fn open_if(&mut self, cond: &str) {
        let id = self.loops;
        self.loops += 1;
        self.line(format!("br i1 {cond}, label %B{id}, label %B{id}.exit"));
        self.start(&format!("B{id}"));
        self.marks.push(self.known.len());
        self.opened.push(Open::Once { id });
    }

    pub(super) fn close_if(&mut self, id: usize) {
        self.known.truncate(self.marks.pop().unwrap_or(0));
        self.line(format!("br label %B{id}.exit"));
        self.start(&format!("B{id}.exit"));
    }

    /// An `i64` that fits the type of an index register.
    fn sized(&mut self, reg: Reg, wide: &str) -> String {
        match scalar(self.p.ty(reg).dtype) {
            "i64" => wide.to_string(),
            small => self.let_(format!("trunc i64 {wide} to {small}")),
        }
    }

    /// The number of the work-item in its group.
    pub(super) fn item(&mut self, dst: Reg) -> String {
        if self.p.items == 1 {
            return "0".into();
        }
        let name = match self.amd() {
            true => "llvm.amdgcn.workitem.id.x",
            false => "llvm.nvvm.read.ptx.sreg.tid.x",
        };
        let id = self.call(name, "i32", &[]);
        match scalar(self.p.ty(dst).dtype) {
            "i32" => id,
            t => self.let_(format!("zext i32 {id} to {t}")),
        }
    }

    /// A register as another type of the same width.
    pub(super) fn as_type(&mut self, reg: Reg, to: &str) -> String {
        let ty = self.p.ty(reg);
        let from = vector(scalar(ty.dtype), ty.lanes);
        let value = self.v(reg);
        if from == to {
            value
        } else {
            self.let_(format!("bitcast {from} {value} to {to}"))
        }
    }
}
