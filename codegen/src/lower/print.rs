//! Prints linear programs.

use std::fmt;

use super::program::{Access, Arg, Extent, Inst, Program, Reg};
use crate::dtype::DType;
use crate::ir::StoreMode;

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "program {} groups={} items={}",
            self.name, self.groups, self.items
        )?;
        for (i, arg) in self.args.iter().enumerate() {
            write!(f, "  arg{i} = ")?;
            print_arg(f, arg)?;
        }
        for (i, (dtype, len)) in self.locals.iter().enumerate() {
            writeln!(f, "  local{i} = {dtype}[{len}]")?;
        }
        let mut depth = 1;
        for inst in &self.insts {
            if matches!(inst, Inst::End | Inst::Commit { .. }) {
                depth -= 1;
            }
            write!(f, "{:indent$}", "", indent = depth * 2)?;
            self.print(f, inst)?;
            writeln!(f)?;
            if matches!(
                inst,
                Inst::Loop { .. } | Inst::Groups { .. } | Inst::Once | Inst::Attempt { .. }
            ) {
                depth += 1;
            }
        }
        Ok(())
    }
}

fn print_arg(f: &mut fmt::Formatter<'_>, arg: &Arg) -> fmt::Result {
    match arg {
        Arg::Buffer {
            slot,
            dtype,
            len,
            written,
        } => writeln!(
            f,
            "buffer {slot} {dtype}[{len}]{}",
            if *written { " written" } else { "" }
        ),
        Arg::Var { slot } => writeln!(f, "var {slot}"),
        Arg::Number { value } => writeln!(f, "number {value}"),
        Arg::Tensor(tensor) => writeln!(
            f,
            "tensor {} {} {:?} rows {}",
            tensor.slot,
            tensor.dtype,
            &tensor.dims[..usize::from(tensor.rank).min(tensor.dims.len())],
            tensor.rows
        ),
    }
}

fn print_access(access: &Access) -> String {
    match access {
        Access::Contiguous => String::new(),
        Access::Strided(by) => format!(" stride {by}"),
        Access::Gather => " gather".into(),
    }
}

fn print_gate(f: &mut fmt::Formatter<'_>, gate: &Option<Reg>) -> fmt::Result {
    match gate {
        Some(g) => write!(f, " if {g}"),
        None => Ok(()),
    }
}

impl Program {
    /// An instruction on a line.
    fn print(&self, f: &mut fmt::Formatter<'_>, inst: &Inst) -> fmt::Result {
        let opens = matches!(inst, Inst::Loop { .. } | Inst::Groups { .. });
        if let Some(dst) = inst.dst().filter(|_| !opens) {
            write!(f, "{dst}:{} = ", self.ty(dst))?;
        }
        match inst {
            Inst::Const { dst, bits } => match self.ty(*dst).dtype {
                DType::F32 => write!(f, "const {:?}", f32::from_bits(*bits as u32)),
                DType::F64 => write!(f, "const {:?}", f64::from_bits(*bits)),
                t if t.is_signed() => write!(f, "const {}", *bits as i64),
                _ => write!(f, "const {bits}"),
            },
            Inst::Var { arg, .. } => write!(f, "var arg{arg}"),
            Inst::Lanes { .. } => write!(f, "lanes"),
            Inst::Mask { count, .. } => write!(f, "mask {count}"),
            Inst::Item { .. } => write!(f, "item"),
            Inst::Splat { a, .. } => write!(f, "splat {a}"),
            Inst::Unary { op, a, .. } => write!(f, "{op:?} {a}"),
            Inst::Binary { op, a, b, .. } => write!(f, "{op:?} {a} {b}"),
            Inst::Select { cond, a, b, .. } => write!(f, "select {cond} {a} {b}"),
            Inst::Fma { a, b, c, .. } => write!(f, "fma {a} {b} {c}"),
            Inst::Dot { a, b, c, .. } => write!(f, "dot {a} {b} {c}"),
            Inst::Cast { a, .. } => write!(f, "cast {a}:{}", self.ty(*a)),
            Inst::Bitcast { a, .. } => write!(f, "bitcast {a}:{}", self.ty(*a)),
            Inst::Horizontal { op, a, .. } => write!(f, "horizontal {op:?} {a}"),
            Inst::SetAcc { acc, a } => write!(f, "{acc} = {a}"),
            Inst::GetAcc { acc, .. } => write!(f, "{acc}"),
            Inst::Load { .. } | Inst::Store { .. } | Inst::Attempt { .. } => print_memory(f, inst),
            Inst::Commit { value } => write!(f, "commit {value}"),
            Inst::Loop { var, extent } => match extent {
                Extent::Known(n) => write!(f, "loop {var} < {n}"),
                Extent::Arg(arg) => write!(f, "loop {var} < arg{arg}"),
            },
            Inst::Groups { var } => write!(f, "groups {var}"),
            Inst::Once => write!(f, "once"),
            Inst::End => write!(f, "end"),
            Inst::Barrier => write!(f, "barrier"),
            Inst::Mma { .. }
            | Inst::MmaThere { .. }
            | Inst::WgmmaWait { .. }
            | Inst::Expose
            | Inst::Copy { .. }
            | Inst::MbarrierInit { .. }
            | Inst::TmaLoad { .. }
            | Inst::MbarrierWait { .. }
            | Inst::Sent
            | Inst::Arrived { .. } => print_beside(f, inst),
        }
    }
}

/// Loads and stores.
fn print_memory(f: &mut fmt::Formatter<'_>, inst: &Inst) -> fmt::Result {
    match inst {
        Inst::Load {
            mem,
            index,
            access,
            gate,
            ..
        } => {
            write!(f, "load{} {mem}[{index}]", print_access(access))?;
            match gate {
                Some((g, alt)) => write!(f, " if {g} else {alt}"),
                None => Ok(()),
            }
        }
        Inst::Store {
            mode,
            mem,
            index,
            access,
            value,
            gate,
        } => {
            let how = match mode {
                StoreMode::Set => "",
                StoreMode::Combine(_) => " combine",
                StoreMode::Atomic(_) => " atomic",
            };
            let access = print_access(access);
            write!(f, "store{how}{access} {mem}[{index}] = ")?;
            if let Some(op) = mode.combines() {
                write!(f, "{op:?} ")?;
            }
            write!(f, "{value}")?;
            print_gate(f, gate)
        }
        Inst::Attempt {
            mem, index, gate, ..
        } => {
            write!(f, "attempt {mem}[{index}]")?;
            print_gate(f, gate)
        }
        _ => Ok(()),
    }
}

/// Products of matrices, and copies beside the work-items.
fn print_beside(f: &mut fmt::Formatter<'_>, inst: &Inst) -> fmt::Result {
    match inst {
        Inst::Mma { desc, a, b, c, .. } => {
            let (m, n, k) = (desc.m, desc.n, desc.k);
            write!(f, "mma.{m}x{n}x{k} {a} {b} {c}")
        }
        Inst::MmaThere {
            acc,
            desc,
            operands: [a, b],
            at,
        } => {
            write!(f, "{acc} += mma.{}x{}x{}", desc.m, desc.n, desc.k)?;
            for [x, y] in at {
                write!(f, " {}[{x}]*{}[{y}]", a.mem, b.mem)?;
            }
            Ok(())
        }
        Inst::WgmmaWait { left } => write!(f, "settle but {left}"),
        Inst::Expose => write!(f, "expose"),
        Inst::Copy {
            ty,
            to,
            from,
            there,
            gate,
        } => {
            write!(f, "copy {ty} {}[{}] = {}[{}]", to.0, to.1, from.0, from.1)?;
            if let Some(there) = there {
                write!(f, " if {there} else 0")?;
            }
            print_gate(f, gate)
        }
        Inst::MbarrierInit { mem, count } => write!(f, "arm {mem}[{count}]"),
        Inst::TmaLoad {
            barrier,
            gate,
            boxes,
        } => {
            write!(f, "fetch {}[{}]", barrier.0, barrier.1)?;
            for of in boxes {
                let at: Vec<String> = of.at.iter().map(Reg::to_string).collect();
                let at = at.join(",");
                write!(f, " {}[{}] = arg{}[{at}]", of.to.0, of.to.1, of.tensor)?;
            }
            write!(f, " if {gate}")
        }
        Inst::MbarrierWait { barrier, odd } => {
            write!(f, "landed {}[{}] odd {odd}", barrier.0, barrier.1)
        }
        Inst::Sent => write!(f, "sent"),
        Inst::Arrived { left } => write!(f, "arrived but {left}"),
        _ => Ok(()),
    }
}
