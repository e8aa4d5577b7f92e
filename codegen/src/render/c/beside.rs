//! What goes on beside the warps: copies into shared memory, and products of what is read there. Lines of PTX in
//! CUDA C.

use super::Text;
use crate::error::Result;
use crate::ir::mma::MmaDesc;
use crate::lower::{Acc, BoxOf, Inst, Mem, Operand, Reg};
use crate::render::factors::WIDEST;
use crate::target::nv::{Warpgroup, box_copy, descriptor};

impl Text<'_> {
    /// Spells what is no product; false if it is something else.
    pub(super) fn beside(&mut self, inst: &Inst) -> Result<bool> {
        let line = match *inst {
            Inst::WgmmaWait { left } => format!("wgmma.wait_group.sync.aligned {left}"),
            Inst::Expose => "fence.proxy.async.shared::cta".into(),
            Inst::Sent => "cp.async.commit_group".into(),
            Inst::Arrived { left } => format!("cp.async.wait_group {left}"),
            Inst::MbarrierInit { mem, count } => {
                self.line("if (threadIdx.x == 0) {");
                for i in 0..count {
                    self.line(format!("  arm(in_shared({} + {i}));", Self::place(mem)));
                }
                self.line("  asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");");
                self.line("}");
                return Ok(true);
            }
            Inst::TmaLoad {
                barrier,
                gate,
                ref boxes,
            } => {
                self.fetch_boxes(barrier, gate, boxes)?;
                return Ok(true);
            }
            Inst::MbarrierWait { barrier, odd } => {
                let (at, odd) = (self.in_shared(barrier), self.r(odd));
                self.line(format!("landed({at}, {odd});"));
                return Ok(true);
            }
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

    /// The address in shared memory of an element.
    fn in_shared(&mut self, (mem, at): (Mem, Reg)) -> String {
        format!("in_shared({} + {})", Self::place(mem), self.r(at))
    }

    /// Copies boxes of tensors, by one thread.
    fn fetch_boxes(&mut self, barrier: (Mem, Reg), gate: Reg, boxes: &[BoxOf]) -> Result<()> {
        let barrier = self.in_shared(barrier);
        let gate = self.r(gate);
        self.line(format!("if (threadIdx.x == 0 && {gate}) {{"));
        let all = self.p.box_bytes(boxes);
        self.line(format!("  u32 barrier = {barrier};"));
        self.line(format!("  expect(barrier, {all});"));
        for of in boxes {
            let to = self.in_shared(of.to);
            let at: Vec<String> = (0..of.at.len()).map(|i| format!("%{}", i + 2)).collect();
            let coordinates: Vec<String> = of
                .at
                .iter()
                .map(|&r| format!("\"r\"((i32)({}))", self.r(r)))
                .collect();
            self.line(format!(
                "  asm volatile(\"{} [%0], [%1, {{{}}}], [%{}];\" :: \"r\"({to}), \"l\"(&arg{}), {}, \"r\"(barrier) : \"memory\");",
                box_copy(of.at.len()),
                at.join(", "),
                at.len() + 2,
                of.tensor,
                coordinates.join(", ")
            ));
        }
        self.line("}");
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
