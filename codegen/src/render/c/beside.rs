//! What goes on beside the warps: copies into shared memory, and products of what is read there. Lines of PTX in
//! CUDA C.

use super::Text;
use crate::error::Result;
use crate::ir::mma::MmaDesc;
use crate::lower::{Acc, Inst, Operand, Reg};
use crate::render::factors::WIDEST;
use crate::target::nv::{Warpgroup, descriptor};

impl Text<'_> {
    /// Spells what is no product; false if it is something else.
    pub(super) fn beside(&mut self, inst: &Inst) -> Result<bool> {
        let line = match *inst {
            Inst::Settle { left } => format!("wgmma.wait_group.sync.aligned {left}"),
            Inst::Expose => "fence.proxy.async.shared::cta".into(),
            Inst::Sent => "cp.async.commit_group".into(),
            Inst::Arrived { left } => format!("cp.async.wait_group {left}"),
            Inst::Copy {
                ty,
                to,
                from,
                there,
                gate,
            } => {
                let bytes = ty.dtype.size() as u32 * ty.lanes;
                if bytes as usize != WIDEST {
                    return self.unsupported(format!("a copy of {bytes} bytes"));
                }
                let there = there.map_or("true".into(), |r| self.r(r));
                let [to, from] =
                    [to, from].map(|(mem, at)| format!("{} + {}", Self::place(mem), self.r(at)));
                let text = format!("copy_{bytes}({to}, {from}, {there});");
                match gate.map(|r| self.r(r)) {
                    Some(gate) => self.line(format!("if ({gate}) {text}")),
                    None => self.line(text),
                }
                return Ok(true);
            }
            _ => return Ok(false),
        };
        self.line(format!("asm volatile(\"{line};\" ::: \"memory\");"));
        Ok(true)
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
        let lanes = self.p.accs[acc.0 as usize].lanes;
        let sums: Vec<String> = (0..lanes).map(|i| format!("%{i}")).collect();
        let names: Vec<String> = (0..lanes)
            .map(|i| format!("\"+{}\"(acc{}_{i})", group.letter, acc.0))
            .collect();
        self.line("asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");");
        for pair in at {
            let places: Vec<String> = (0..2)
                .map(|i| {
                    let (operand, dtype) = (operands[i], d.operands[i]);
                    let place = format!("{} + {}", Self::place(operand.mem), self.r(pair[i]));
                    let bits = descriptor(operand.rows, dtype);
                    format!("\"l\"(matrix({place}, {bits:#x}ull))")
                })
                .collect();
            self.line(format!(
                "asm volatile(\"{{ .reg .pred p; setp.eq.u32 p, 0, 0; {} {{{}}}, %{lanes}, %{}, p{}; }}\" : {} : {} : \"memory\");",
                group.name,
                sums.join(", "),
                lanes + 1,
                group.rest,
                names.join(", "),
                places.join(", ")
            ));
        }
        self.line("asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\");");
        Ok(())
    }
}
