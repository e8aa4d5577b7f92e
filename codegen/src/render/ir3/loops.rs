//! How far loops are unrolled.
//!
//! Mesa unrolls loops of up to 32 iterations whole, up to 26 operations for each of these (`ir3_compiler.c`,
//! max_unroll_iterations; `nir_opt_loop_unroll.c`, LOOP_UNROLL_LIMIT), and none by a factor. A wait is for all loads
//! that are under way, so that a loop which loads once in each iteration waits for memory in each: longer ones are
//! unrolled by a factor here. The instruction cache has 64 lines of 16 instructions (`freedreno_devices.py`,
//! instr_cache_size), and a kernel stays within it.

use crate::ir::{Binary, Unary};
use crate::lower::{Access, Inst, Limits, Program, Ty, fold, unroll};

const LIMITS: Limits = Limits {
    trips: 32,
    whole: 26 * 32,
    factor: 8,
    part: 256,
    program: 60 * 16,
};

/// A program with its loops unrolled.
pub(super) fn unrolled(p: &Program) -> Program {
    let mut made = unroll(p, &LIMITS, &count);
    fold(&mut made);
    made
}

/// About how many instructions of the machine one is.
pub(super) fn count(inst: &Inst, ty: Ty) -> usize {
    let (lanes, words) = (ty.lanes as usize, super::words(ty.dtype));
    // Lanes are neighbouring registers, over which an instruction repeats.
    let packed = lanes.div_ceil(4) * words;
    match inst {
        Inst::Const { .. }
        | Inst::Var { .. }
        | Inst::Lanes { .. }
        | Inst::Item { .. }
        | Inst::Splat { .. }
        | Inst::Bitcast { .. }
        | Inst::GetAcc { .. }
        | Inst::SetAcc { .. } => 0,
        Inst::Load {
            access: Access::Contiguous,
            ..
        }
        | Inst::Store {
            access: Access::Contiguous,
            ..
        } => packed,
        // The place of each is computed.
        Inst::Load { .. } | Inst::Store { .. } => 2 * lanes * words,
        Inst::Binary {
            op:
                Binary::FDiv | Binary::FloorDiv | Binary::FloorMod | Binary::TruncDiv | Binary::TruncMod,
            ..
        }
        | Inst::Unary {
            op: Unary::Recip | Unary::Sqrt,
            ..
        } => 8 * lanes * words,
        Inst::Unary {
            op: Unary::Exp2, ..
        } => lanes,
        Inst::Horizontal { .. } => 3,
        _ => packed,
    }
}
