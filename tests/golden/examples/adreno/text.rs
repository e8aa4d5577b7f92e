//! A linear program as lines of words, for `scripts/ir3-mesa`.

use std::fmt::Write as _;

use codegen::Target;
use codegen::ir::StoreMode;
use codegen::lower::{Access, Arg, Extent, Inst, Mem, Program, Reg, Ty};

fn mem(mem: Mem) -> String {
    match mem {
        Mem::Arg(n) => format!("a{n}"),
        Mem::Local(n) => format!("l{n}"),
    }
}

fn access(access: Access) -> String {
    match access {
        Access::Contiguous => "contiguous".into(),
        Access::Strided(by) => by.to_string(),
        Access::Gather => "gather".into(),
    }
}

fn ty(ty: &Ty) -> String {
    format!(" {}:{}", ty.dtype, ty.lanes)
}

fn maybe(reg: Option<Reg>) -> String {
    reg.map_or("-".into(), |r| r.0.to_string())
}

/// The name of an instruction, and its operands. What only other GPUs have, and atomics, have a name alone.
fn line(inst: &Inst) -> String {
    match *inst {
        Inst::Const { dst, bits } => format!("const {} {bits}", dst.0),
        Inst::Var { dst, arg } => format!("var {} {arg}", dst.0),
        Inst::Lanes { dst } => format!("lanes {}", dst.0),
        Inst::Mask { dst, count } => format!("mask {} {}", dst.0, count.0),
        Inst::Item { dst } => format!("item {}", dst.0),
        Inst::Splat { dst, a } => format!("splat {} {}", dst.0, a.0),
        Inst::Unary { dst, op, a } => format!("unary {} {op:?} {}", dst.0, a.0),
        Inst::Binary { dst, op, a, b } => format!("binary {} {op:?} {} {}", dst.0, a.0, b.0),
        Inst::Select { dst, cond, a, b } => {
            format!("select {} {} {} {}", dst.0, cond.0, a.0, b.0)
        }
        Inst::Fma { dst, a, b, c } => format!("fma {} {} {} {}", dst.0, a.0, b.0, c.0),
        Inst::Cast { dst, a } => format!("cast {} {}", dst.0, a.0),
        Inst::Bitcast { dst, a } => format!("bitcast {} {}", dst.0, a.0),
        Inst::Load {
            dst,
            mem: from,
            index,
            access: how,
            gate,
        } => format!(
            "load {} {} {} {} {} {}",
            dst.0,
            mem(from),
            index.0,
            access(how),
            maybe(gate.map(|g| g.0)),
            maybe(gate.map(|g| g.1))
        ),
        Inst::Store {
            mode,
            mem: to,
            index,
            access: how,
            value,
            gate,
        } => {
            let mode = match mode {
                StoreMode::Set => "set".into(),
                StoreMode::Combine(op) => format!("{:?}", op.binary()),
                StoreMode::Atomic(_) => "atomic".into(),
            };
            let (to, how) = (mem(to), access(how));
            format!(
                "store {mode} {to} {} {how} {} {}",
                index.0,
                value.0,
                maybe(gate)
            )
        }
        Inst::Horizontal { dst, op, a } => {
            format!("horizontal {} {:?} {}", dst.0, op.binary(), a.0)
        }
        Inst::SetAcc { acc, a } => format!("setacc {} {}", acc.0, a.0),
        Inst::GetAcc { dst, acc } => format!("getacc {} {}", dst.0, acc.0),
        Inst::Loop { var, extent } => match extent {
            Extent::Known(n) => format!("loop {} {n}", var.0),
            Extent::Arg(arg) => format!("loop {} a{arg}", var.0),
        },
        Inst::Groups { var } => format!("groups {}", var.0),
        Inst::Once => "once".into(),
        Inst::End => "end".into(),
        Inst::Barrier => "barrier".into(),
        Inst::Attempt { .. } | Inst::Commit { .. } => "attempt".into(),
        _ => "other".into(),
    }
}

/// A program for a chip.
pub fn of(p: &Program, chip: &str) -> String {
    let grid = p.grid(&Target::qcom(chip, 0).unwrap()).unwrap_or([0; 3]);
    let mut text = String::new();
    let [x, y, z] = grid;
    let _ = writeln!(text, "program {} {} {x} {y} {z}", p.items, p.groups);
    for arg in &p.args {
        let _ = match arg {
            Arg::Buffer {
                dtype,
                len,
                written,
                ..
            } => writeln!(text, "arg buffer {dtype} {len} {written}"),
            Arg::Number { value } => writeln!(text, "arg number {value}"),
            _ => writeln!(text, "arg other"),
        };
    }
    for (n, (dtype, len)) in p.locals.iter().enumerate() {
        let bytes = dtype.size() * len;
        let _ = writeln!(text, "local {dtype} {} {bytes}", p.local_place(n));
    }
    for (what, list) in [("regs", &p.regs), ("accs", &p.accs)] {
        let all: String = list.iter().map(ty).collect();
        let _ = writeln!(text, "{what}{all}");
    }
    for inst in &p.insts {
        text += &line(inst);
        text.push('\n');
    }
    text
}
