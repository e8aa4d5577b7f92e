//! What goes on beside the warps: copies into shared memory, and products of what is read there.

use super::Text;
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::mma::MmaDesc;
use crate::lower::{Acc, Arg, BoxOf, Inst, Mem, Operand, Reg, Ty};
use crate::render::factors::WIDEST;
use crate::target::nv::{Warpgroup, box_copy, descriptor};

impl Text<'_> {
    /// Spells what starts, orders or waits for it.
    pub(super) fn beside(&mut self, inst: &Inst) -> Result<()> {
        match *inst {
            Inst::WgmmaWait { left } => {
                self.line(format!("wgmma.wait_group.sync.aligned {left}"));
            }
            Inst::Expose => self.line("fence.proxy.async.shared::cta"),
            Inst::Copy {
                ty,
                to,
                from,
                there,
                gate,
            } => self.copy(ty, to, from, there, gate)?,
            Inst::MbarrierInit { mem, count } => self.arm(mem, count),
            Inst::TmaLoad {
                barrier,
                gate,
                ref boxes,
            } => self.fetch(barrier, gate, boxes),
            Inst::MbarrierWait { barrier, odd } => self.landed(barrier, odd),
            Inst::Sent => self.line("cp.async.commit_group"),
            Inst::Arrived { left } => self.line(format!("cp.async.wait_group {left}")),
            _ => debug_assert!(false, "{inst:?} is rendered elsewhere"),
        }
        Ok(())
    }

    /// Copies sixteen bytes, or clears them.
    fn copy(
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

    /// Whether this is the first thread of its block.
    fn first(&mut self) -> String {
        let item = self.let_("b32", "mov.u32 {}, %tid.x");
        self.let_("pred", &format!("setp.eq.u32 {{}}, {item}, 0"))
    }

    /// Makes barriers, each of which one thread arrives at.
    fn arm(&mut self, mem: Mem, count: u32) {
        let Mem::Local(block) = mem else { return };
        let first = self.first();
        for i in 0..count {
            let at = i * 8;
            self.line(format!(
                "@{first} mbarrier.init.shared::cta.b64 [%local{block}+{at}], 1"
            ));
        }
        self.line("fence.proxy.async.shared::cta");
    }

    /// Copies boxes of tensors, by one thread.
    fn fetch(&mut self, barrier: (Mem, Reg), gate: Reg, boxes: &[BoxOf]) {
        let barrier = self.address(barrier.0, DType::U64, barrier.1).base;
        let mut copies = Vec::new();
        for of in boxes {
            let Some(Arg::Tensor(tensor)) = self.p.args.get(of.tensor as usize) else {
                continue;
            };
            let to = self.address(of.to.0, tensor.dtype, of.to.1).base;
            let mut at = Vec::new();
            for &r in &of.at {
                let place = self.r(r);
                at.push(match self.p.ty(r).dtype.size() {
                    8 => self.let_("b32", &format!("cvt.u32.u64 {{}}, {place}")),
                    _ => place,
                });
            }
            let (copy, at) = (box_copy(of.at.len()), at.join(", "));
            copies.push(format!(
                "{copy} [{to}], [%arg{}, {{{at}}}], [{barrier}]",
                of.tensor
            ));
        }
        let (first, gate) = (self.first(), self.r(gate));
        let runs = self.let_("pred", &format!("and.pred {{}}, {first}, {gate}"));
        let label = self.new_label();
        self.line(format!("@!{runs} bra $L{label}"));
        let bytes = self.p.box_bytes(boxes);
        self.line(format!(
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [{barrier}], {bytes}"
        ));
        for copy in copies {
            self.line(copy);
        }
        self.label(&format!("$L{label}"));
    }

    /// Waits for the boxes of a barrier.
    fn landed(&mut self, barrier: (Mem, Reg), odd: Reg) {
        let barrier = self.address(barrier.0, DType::U64, barrier.1).base;
        let mut turn = self.r(odd);
        if self.p.ty(odd).dtype.size() == 8 {
            turn = self.let_("b32", &format!("cvt.u32.u64 {{}}, {turn}"));
        }
        let there = self.temporary("pred");
        let label = self.new_label();
        self.label(&format!("$L{label}"));
        self.line(format!(
            "mbarrier.try_wait.parity.shared::cta.b64 {there}, [{barrier}], {turn}"
        ));
        self.line(format!("@!{there} bra $L{label}"));
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
