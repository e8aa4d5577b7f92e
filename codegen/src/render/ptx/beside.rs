//! What goes on beside the warps: copies into shared memory, and products of what is read there.

use super::Text;
use crate::DType;
use crate::error::Result;
use crate::ir::mma::MmaDesc;
use crate::lower::{Acc, Mem, Operand, Reg, Ty};
use crate::render::factors::WIDEST;
use crate::target::nv::{Warpgroup, descriptor};

impl Text<'_> {
    /// Copies sixteen bytes, or clears them.
    pub(super) fn copy(
        &mut self,
        ty: Ty,
        to: (Mem, Reg),
        from: (Mem, Reg),
        there: Option<Reg>,
        gate: Option<Reg>,
    ) -> Result<()> {
        let bytes = ty.dtype.size() as u32 * ty.lanes;
        if bytes as usize != WIDEST {
            return self.unsupported(format!("a copy of {bytes} bytes"));
        }
        let to = self.address(to.0, ty.dtype, to.1).base;
        let from = self.address(from.0, ty.dtype, from.1).base;
        let read = match there.map(|r| self.r(r)) {
            Some(there) => self.let_("b32", &format!("selp.b32 {{}}, {bytes}, 0, {there}")),
            None => bytes.to_string(),
        };
        let gate = gate.map_or(String::new(), |r| format!("@{} ", self.r(r)));
        self.line(format!(
            "{gate}cp.async.cg.shared.global [{to}], [{from}], {bytes}, {read}"
        ));
        Ok(())
    }

    /// Adds products to an accumulator, beside the warps.
    pub(super) fn mma_async(
        &mut self,
        acc: Acc,
        d: &MmaDesc,
        operands: &[Operand; 2],
        at: &[[Reg; 2]],
    ) -> Result<()> {
        let rows = operands.map(|o| o.rows);
        let Some(group) = Warpgroup::rows(d, rows).filter(|_| self.t.mma.contains(d)) else {
            return self.unsupported(format!("the matrix instruction {d:?}"));
        };
        let lanes = 0..self.p.accs[acc.0 as usize].lanes;
        let sums: Vec<String> = lanes.map(|i| format!("%acc{}_{i}", acc.0)).collect();
        let sums = sums.join(", ");
        let goes_on = self.let_("pred", "setp.eq.u32 {}, 0, 0");
        let mut pairs = Vec::new();
        for pair in at {
            let mut both = Vec::new();
            for i in 0..2 {
                both.push(self.matrix(operands[i], d.operands[i], pair[i]));
            }
            pairs.push(both.join(", "));
        }
        self.line("wgmma.fence.sync.aligned");
        for pair in pairs {
            let (name, rest) = (&group.name, &group.rest);
            self.line(format!("{name} {{{sums}}}, {pair}, {goes_on}{rest}"));
        }
        self.line("wgmma.commit_group.sync.aligned");
        Ok(())
    }

    /// The descriptor of the matrix that begins at an element.
    fn matrix(&mut self, operand: Operand, dtype: DType, at: Reg) -> String {
        let base = self.address(operand.mem, dtype, at).base;
        let place = self.let_("b32", &format!("bfe.u32 {{}}, {base}, 4, 14"));
        let place = self.let_("b64", &format!("cvt.u64.u32 {{}}, {place}"));
        let rest = descriptor(operand.rows, dtype);
        self.let_("b64", &format!("or.b64 {{}}, {place}, {rest:#x}"))
    }
}
