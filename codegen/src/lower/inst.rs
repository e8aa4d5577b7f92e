//! Common properties of instructions.

use super::program::{Inst, Reg};

impl Inst {
    /// The register that it defines, if any.
    pub fn dst(&self) -> Option<Reg> {
        match *self {
            Inst::Const { dst, .. }
            | Inst::Var { dst, .. }
            | Inst::Lanes { dst }
            | Inst::Mask { dst, .. }
            | Inst::Item { dst }
            | Inst::Splat { dst, .. }
            | Inst::Unary { dst, .. }
            | Inst::Binary { dst, .. }
            | Inst::Select { dst, .. }
            | Inst::Fma { dst, .. }
            | Inst::Dot { dst, .. }
            | Inst::Mma { dst, .. }
            | Inst::Cast { dst, .. }
            | Inst::Bitcast { dst, .. }
            | Inst::Load { dst, .. }
            | Inst::Horizontal { dst, .. }
            | Inst::GetAcc { dst, .. }
            | Inst::Attempt { dst, .. } => Some(dst),
            Inst::Loop { var, .. } | Inst::Groups { var } => Some(var),
            Inst::Store { .. }
            | Inst::SetAcc { .. }
            | Inst::MmaThere { .. }
            | Inst::WgmmaWait { .. }
            | Inst::Expose
            | Inst::Copy { .. }
            | Inst::MbarrierInit { .. }
            | Inst::TmaLoad { .. }
            | Inst::MbarrierWait { .. }
            | Inst::Sent
            | Inst::Arrived { .. }
            | Inst::Once
            | Inst::End
            | Inst::Commit { .. }
            | Inst::Barrier => None,
        }
    }
}
