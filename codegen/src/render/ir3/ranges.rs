//! What integers of a program can be: which products and quotients are cheap follows from it.

use hashbrown::HashMap;

use crate::dtype::DType;
use crate::ir::{Binary, scalar};
use crate::lower::{Inst, Mem, Program, Reg};

/// Bounds of a value.
pub(super) type Range = Option<(i64, i64)>;

/// The least and the most of these.
fn hull(values: &[i128]) -> Range {
    let (a, b) = (values.iter().min()?, values.iter().max()?);
    Some((i64::try_from(*a).ok()?, i64::try_from(*b).ok()?))
}

/// Every value of a type.
fn all(dtype: DType) -> Range {
    match dtype.is_float() {
        true => None,
        false => {
            let (a, b) = scalar::int_limits(dtype);
            hull(&[a, b])
        }
    }
}

/// Bounds of an operation on integers that does not wrap.
fn binary(op: Binary, x: (i64, i64), y: (i64, i64)) -> Range {
    let [a, b, c, d] = [x.0, x.1, y.0, y.1].map(i128::from);
    match op {
        Binary::Add => hull(&[a + c, b + d]),
        Binary::Sub => hull(&[a - d, b - c]),
        Binary::Mul => hull(&[a * c, a * d, b * c, b * d]),
        Binary::Max => hull(&[a.max(c), b.max(d)]),
        Binary::Min => hull(&[a.min(c), b.min(d)]),
        Binary::And if c >= 0 => hull(&[0, d]),
        Binary::And if a >= 0 => hull(&[0, b]),
        Binary::Shr if c >= 0 && d < 63 => hull(&[a >> c, a >> d, b >> c, b >> d]),
        Binary::Shl if c >= 0 && d < 32 => hull(&[a << c, a << d, b << c, b << d]),
        Binary::FloorDiv | Binary::TruncDiv if c > 0 && a >= 0 => hull(&[a / d, b / c]),
        Binary::FloorMod | Binary::TruncMod if c > 0 && a >= 0 => hull(&[0, b.min(d - 1)]),
        Binary::FloorMod if c > 0 => hull(&[0, d - 1]),
        Binary::Lt | Binary::Eq | Binary::Ne => Some((0, 1)),
        _ => None,
    }
}

/// Bounds of all registers.
pub(super) fn of(p: &Program) -> Vec<Range> {
    let mut found: Vec<Range> = p.regs.iter().map(|ty| all(ty.dtype)).collect();
    for inst in &p.insts {
        let Some(dst) = inst.dst() else { continue };
        let limits = all(p.ty(dst).dtype);
        let of = |r: Reg| found[r.0 as usize];
        let made = match *inst {
            Inst::Const { bits, .. } if limits.is_some() => {
                hull(&[scalar::to_int(p.ty(dst).dtype, bits)])
            }
            Inst::Item { .. } => Some((0, p.items - 1)),
            Inst::Lanes { .. } => Some((0, i64::from(p.ty(dst).lanes) - 1)),
            Inst::Loop { extent, .. } => Some((0, (p.extent(extent) - 1).max(0))),
            Inst::Groups { .. } => Some((0, p.groups - 1)),
            Inst::Splat { a, .. } | Inst::Cast { a, .. } => of(a),
            Inst::Select { a, b, .. } => {
                of(a).zip(of(b)).map(|(x, y)| (x.0.min(y.0), x.1.max(y.1)))
            }
            Inst::Binary { op, a, b, .. } => of(a).zip(of(b)).and_then(|(x, y)| binary(op, x, y)),
            _ => None,
        };
        // What does not fit wraps.
        let fits = |r: &(i64, i64)| limits.is_some_and(|l| r.0 >= l.0 && r.1 <= l.1);
        if let Some(made) = made.filter(fits) {
            found[dst.0 as usize] = Some(made);
        }
    }
    found
}

/// The registers that an instruction reads, for the kinds whose operands are counted.
fn operands(inst: &Inst) -> Vec<Reg> {
    match *inst {
        Inst::Splat { a, .. }
        | Inst::Unary { a, .. }
        | Inst::Cast { a, .. }
        | Inst::Bitcast { a, .. }
        | Inst::Horizontal { a, .. }
        | Inst::SetAcc { a, .. }
        | Inst::Commit { value: a }
        | Inst::Mask { count: a, .. } => vec![a],
        Inst::Binary { a, b, .. } => vec![a, b],
        Inst::Select { cond, a, b, .. } => vec![cond, a, b],
        Inst::Fma { a, b, c, .. } | Inst::Dot { a, b, c, .. } => vec![a, b, c],
        Inst::Load { index, gate, .. } => {
            let mut all = vec![index];
            all.extend(gate.into_iter().flat_map(|(g, alt)| [g, alt]));
            all
        }
        Inst::Store {
            index, value, gate, ..
        } => {
            let mut all = vec![index, value];
            all.extend(gate);
            all
        }
        Inst::Attempt { index, gate, .. } => {
            let mut all = vec![index];
            all.extend(gate);
            all
        }
        _ => Vec::new(),
    }
}

/// How often each register is read.
pub(super) fn uses(p: &Program) -> Vec<u32> {
    let mut uses = vec![0; p.regs.len()];
    for reg in p.insts.iter().flat_map(operands) {
        uses[reg.0 as usize] += 1;
    }
    uses
}

/// The instruction that defines each register.
pub(super) fn defs(p: &Program) -> Vec<Option<usize>> {
    let mut defs = vec![None; p.regs.len()];
    for (at, inst) in p.insts.iter().enumerate() {
        if let Some(dst) = inst.dst() {
            defs[dst.0 as usize] = Some(at);
        }
    }
    defs
}

/// An index as another one and a constant: the last step of those that have one.
pub(super) fn split(p: &Program, defs: &[Option<usize>], index: Reg) -> (Reg, i64) {
    let inst = |r: Reg| defs[r.0 as usize].map(|at| &p.insts[at]);
    let constant = |r: Reg| match inst(r) {
        Some(Inst::Const { bits, .. }) => Some(scalar::to_int(p.ty(r).dtype, *bits)),
        _ => None,
    };
    let Some(&Inst::Binary {
        op: Binary::Add,
        a,
        b,
        ..
    }) = inst(index)
    else {
        return (index, 0);
    };
    // Both are not negative, and do not wrap.
    if p.ty(index).dtype != DType::U32 {
        return (index, 0);
    }
    match (constant(a), constant(b)) {
        (None, Some(c)) => (a, c as i64),
        (Some(c), None) => (b, c as i64),
        _ => (index, 0),
    }
}

/// How many accesses there are to a memory from one index, whatever constant is added to it.
pub(super) fn shared(p: &Program) -> HashMap<(Mem, Reg), u32> {
    let defs = defs(p);
    let mut shared = HashMap::new();
    for inst in &p.insts {
        let (Inst::Load { mem, index, .. } | Inst::Store { mem, index, .. }) = inst else {
            continue;
        };
        let (base, _) = split(p, &defs, *index);
        *shared.entry((*mem, base)).or_insert(0) += 1;
    }
    shared
}
