//! Common properties of instructions.

use super::program::{Inst, Reg};

impl Inst {
    /// The register that it defines, if any.
    pub fn dst(&self) -> Option<Reg> {
        self.clone().dst_mut().copied()
    }

    /// The same, to be changed.
    fn dst_mut(&mut self) -> Option<&mut Reg> {
        match self {
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

    /// Shows every register: those that it reads, and then the one that it defines.
    pub fn registers(&mut self, see: &mut dyn FnMut(&mut Reg, bool)) {
        let mut reads = |list: &mut [&mut Reg]| list.iter_mut().for_each(|r| see(r, false));
        match self {
            Inst::Splat { a, .. }
            | Inst::Unary { a, .. }
            | Inst::Cast { a, .. }
            | Inst::Bitcast { a, .. }
            | Inst::Horizontal { a, .. }
            | Inst::SetAcc { a, .. }
            | Inst::Commit { value: a }
            | Inst::Mask { count: a, .. } => reads(&mut [a]),
            Inst::Binary { a, b, .. } => reads(&mut [a, b]),
            Inst::Select {
                cond: a,
                a: b,
                b: c,
                ..
            }
            | Inst::Fma { a, b, c, .. }
            | Inst::Dot { a, b, c, .. }
            | Inst::Mma { a, b, c, .. } => reads(&mut [a, b, c]),
            Inst::Load { index, gate, .. } => {
                reads(&mut [index]);
                if let Some((gate, alt)) = gate {
                    reads(&mut [gate, alt]);
                }
            }
            Inst::Store {
                index, value, gate, ..
            } => {
                reads(&mut [index, value]);
                gate.iter_mut().for_each(|r| reads(&mut [r]));
            }
            Inst::Attempt { index, gate, .. } => {
                reads(&mut [index]);
                gate.iter_mut().for_each(|r| reads(&mut [r]));
            }
            Inst::Copy {
                to,
                from,
                there,
                gate,
                ..
            } => {
                reads(&mut [&mut to.1, &mut from.1]);
                let conditions = there.iter_mut().chain(gate);
                conditions.for_each(|r| reads(&mut [r]));
            }
            Inst::TmaLoad {
                barrier,
                gate,
                boxes,
            } => {
                reads(&mut [&mut barrier.1, gate]);
                for of in boxes {
                    reads(&mut [&mut of.to.1]);
                    of.at.iter_mut().for_each(|r| reads(&mut [r]));
                }
            }
            Inst::MbarrierWait { barrier, odd } => reads(&mut [&mut barrier.1, odd]),
            Inst::MmaThere { at, .. } => at.iter_mut().flatten().for_each(|r| reads(&mut [r])),
            Inst::Const { .. }
            | Inst::Var { .. }
            | Inst::Lanes { .. }
            | Inst::Item { .. }
            | Inst::GetAcc { .. }
            | Inst::Loop { .. }
            | Inst::Groups { .. }
            | Inst::Once
            | Inst::End
            | Inst::WgmmaWait { .. }
            | Inst::MbarrierInit { .. }
            | Inst::Sent
            | Inst::Arrived { .. }
            | Inst::Expose
            | Inst::Barrier => {}
        }
        if let Some(dst) = self.dst_mut() {
            see(dst, true);
        }
    }

    /// The registers that it reads.
    pub fn reads(&self) -> Vec<Reg> {
        let mut all = Vec::new();
        self.clone().registers(&mut |r, defines| {
            if !defines {
                all.push(*r);
            }
        });
        all
    }

    /// Whether it opens what an [`Inst::End`] or an [`Inst::Commit`] closes.
    pub fn opens(&self) -> bool {
        matches!(
            self,
            Inst::Loop { .. } | Inst::Groups { .. } | Inst::Once | Inst::Attempt { .. }
        )
    }

    /// Whether it closes what another one has opened.
    pub fn closes(&self) -> bool {
        matches!(self, Inst::End | Inst::Commit { .. })
    }
}
