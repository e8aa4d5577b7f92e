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
            match arg {
                Arg::Buffer {
                    slot,
                    dtype,
                    len,
                    written,
                } => writeln!(
                    f,
                    "  arg{i} = buffer {slot} {dtype}[{len}]{}",
                    if *written { " written" } else { "" }
                )?,
                Arg::Var { slot } => writeln!(f, "  arg{i} = var {slot}")?,
                Arg::Number { value } => writeln!(f, "  arg{i} = number {value}")?,
                Arg::Tensor(tensor) => writeln!(
                    f,
                    "  arg{i} = tensor {} {} {:?} rows {}",
                    tensor.slot,
                    tensor.dtype,
                    &tensor.dims[..usize::from(tensor.rank).min(tensor.dims.len())],
                    tensor.rows
                )?,
            }
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
            let def =
                |f: &mut fmt::Formatter<'_>, dst: &Reg| write!(f, "{dst}:{} = ", self.ty(*dst));
            let at = |access: &Access| match access {
                Access::Contiguous => String::new(),
                Access::Strided(by) => format!(" stride {by}"),
                Access::Gather => " gather".into(),
            };
            match inst {
                Inst::Const { dst, bits } => {
                    def(f, dst)?;
                    match self.ty(*dst).dtype {
                        DType::F32 => writeln!(f, "const {:?}", f32::from_bits(*bits as u32))?,
                        DType::F64 => writeln!(f, "const {:?}", f64::from_bits(*bits))?,
                        t if t.is_signed() => writeln!(f, "const {}", *bits as i64)?,
                        _ => writeln!(f, "const {bits}")?,
                    }
                }
                Inst::Var { dst, arg } => {
                    def(f, dst)?;
                    writeln!(f, "var arg{arg}")?;
                }
                Inst::Lanes { dst } => {
                    def(f, dst)?;
                    writeln!(f, "lanes")?;
                }
                Inst::Mask { dst, count } => {
                    def(f, dst)?;
                    writeln!(f, "mask {count}")?;
                }
                Inst::Item { dst } => {
                    def(f, dst)?;
                    writeln!(f, "item")?;
                }
                Inst::Splat { dst, a } => {
                    def(f, dst)?;
                    writeln!(f, "splat {a}")?;
                }
                Inst::Unary { dst, op, a } => {
                    def(f, dst)?;
                    writeln!(f, "{op:?} {a}")?;
                }
                Inst::Binary { dst, op, a, b } => {
                    def(f, dst)?;
                    writeln!(f, "{op:?} {a} {b}")?;
                }
                Inst::Select { dst, cond, a, b } => {
                    def(f, dst)?;
                    writeln!(f, "select {cond} {a} {b}")?;
                }
                Inst::Fma { dst, a, b, c } => {
                    def(f, dst)?;
                    writeln!(f, "fma {a} {b} {c}")?;
                }
                Inst::Dot { dst, a, b, c } => {
                    def(f, dst)?;
                    writeln!(f, "dot {a} {b} {c}")?;
                }
                Inst::Mma { dst, desc, a, b, c } => {
                    def(f, dst)?;
                    let (m, n, k) = (desc.m, desc.n, desc.k);
                    writeln!(f, "mma.{m}x{n}x{k} {a} {b} {c}")?;
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
                    writeln!(f)?;
                }
                Inst::WgmmaWait { left } => writeln!(f, "settle but {left}")?,
                Inst::Expose => writeln!(f, "expose")?,
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
                    match gate {
                        Some(g) => writeln!(f, " if {g}")?,
                        None => writeln!(f)?,
                    }
                }
                Inst::MbarrierInit { mem, count } => writeln!(f, "arm {mem}[{count}]")?,
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
                    writeln!(f, " if {gate}")?;
                }
                Inst::MbarrierWait { barrier, odd } => {
                    writeln!(f, "landed {}[{}] odd {odd}", barrier.0, barrier.1)?;
                }
                Inst::Sent => writeln!(f, "sent")?,
                Inst::Arrived { left } => writeln!(f, "arrived but {left}")?,
                Inst::Cast { dst, a } => {
                    def(f, dst)?;
                    writeln!(f, "cast {a}:{}", self.ty(*a))?;
                }
                Inst::Bitcast { dst, a } => {
                    def(f, dst)?;
                    writeln!(f, "bitcast {a}:{}", self.ty(*a))?;
                }
                Inst::Load {
                    dst,
                    mem,
                    index,
                    access,
                    gate,
                } => {
                    def(f, dst)?;
                    write!(f, "load{} {mem}[{index}]", at(access))?;
                    match gate {
                        Some((g, alt)) => writeln!(f, " if {g} else {alt}")?,
                        None => writeln!(f)?,
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
                    write!(f, "store{how}{} {mem}[{index}] = ", at(access))?;
                    if let Some(op) = mode.combines() {
                        write!(f, "{op:?} ")?;
                    }
                    write!(f, "{value}")?;
                    match gate {
                        Some(g) => writeln!(f, " if {g}")?,
                        None => writeln!(f)?,
                    }
                }
                Inst::Horizontal { dst, op, a } => {
                    def(f, dst)?;
                    writeln!(f, "horizontal {op:?} {a}")?;
                }
                Inst::SetAcc { acc, a } => writeln!(f, "{acc} = {a}")?,
                Inst::GetAcc { dst, acc } => {
                    def(f, dst)?;
                    writeln!(f, "{acc}")?;
                }
                Inst::Loop { var, extent } => {
                    match extent {
                        Extent::Known(n) => writeln!(f, "loop {var} < {n}")?,
                        Extent::Arg(arg) => writeln!(f, "loop {var} < arg{arg}")?,
                    }
                    depth += 1;
                }
                Inst::Groups { var } => {
                    writeln!(f, "groups {var}")?;
                    depth += 1;
                }
                Inst::Once => {
                    writeln!(f, "once")?;
                    depth += 1;
                }
                Inst::End => writeln!(f, "end")?,
                Inst::Attempt {
                    dst,
                    mem,
                    index,
                    gate,
                } => {
                    def(f, dst)?;
                    write!(f, "attempt {mem}[{index}]")?;
                    match gate {
                        Some(g) => writeln!(f, " if {g}")?,
                        None => writeln!(f)?,
                    }
                    depth += 1;
                }
                Inst::Commit { value } => writeln!(f, "commit {value}")?,
                Inst::Barrier => writeln!(f, "barrier")?,
            }
        }
        Ok(())
    }
}
