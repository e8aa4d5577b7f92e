//! Who defines and who reads registers, and which accesses share an index.

use hashbrown::HashMap;

use crate::dtype::DType;
use crate::ir::{Binary, scalar};
use crate::lower::{Inst, Mem, Program, Reg};

/// How often each register is read.
pub(super) fn uses(p: &Program) -> Vec<u32> {
    let mut uses = vec![0; p.regs.len()];
    for reg in p.insts.iter().flat_map(Inst::reads) {
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

/// An index as another one and a constant: the last step of those that have one. Addresses of local memory have 32 bits
/// and may wrap (Mesa `ir3_nir.c`, allow_offset_wrap), those of global memory have more.
pub(super) fn split(p: &Program, defs: &[Option<usize>], mem: Mem, index: Reg) -> (Reg, i64) {
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
    let narrow = match mem {
        Mem::Local(_) => matches!(p.ty(index).dtype, DType::U32 | DType::I32),
        Mem::Arg(_) => p.ty(index).dtype == DType::U32,
    };
    if !narrow {
        return (index, 0);
    }
    // An unsigned constant beyond that is a negative one, whose sum wraps around.
    let taken = |c: i128| i32::try_from(c).ok().filter(|c| *c >= 0).map(i64::from);
    match (constant(a), constant(b)) {
        (None, Some(c)) => taken(c).map_or((index, 0), |c| (a, c)),
        (Some(c), None) => taken(c).map_or((index, 0), |c| (b, c)),
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
        let (base, _) = split(p, &defs, *mem, *index);
        *shared.entry((*mem, base)).or_insert(0) += 1;
    }
    shared
}
