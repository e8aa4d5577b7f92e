//! Unrolls loops: short ones whole, longer ones by a factor.
//!
//! Without the branch between them, loads of several iterations are under way at once, neighbours become one load, and
//! what depends on the counter alone becomes a constant. [`super::fold()`] takes in what this leaves. Compilers with
//! an unrolling of their own need none of it.
//!
//! Only innermost loops are unrolled, from the inside to the outside: one around a loop that stays is not. What an
//! iteration defines is defined once for each copy; the last one keeps the registers.

use hashbrown::HashMap;

use super::program::{Extent, Inst, Program, Reg, Ty};
use crate::ir::Binary;

/// How far loops are unrolled. Instructions are counted as [`unroll`] is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Iterations of a loop that is unrolled whole, at most.
    pub trips: i64,
    /// Instructions of all iterations of it, at most.
    pub whole: usize,
    /// Iterations of a longer loop that become one, at most.
    pub factor: i64,
    /// Instructions of those, and of the rest behind the loop, at most.
    pub part: usize,
    /// Instructions of a program, at most.
    pub program: usize,
}

/// Unrolls the loops of a program. `count` says how many instructions of the machine one is; the type is that of what it
/// defines or stores.
pub fn unroll(p: &Program, limits: &Limits, count: &dyn Fn(&Inst, Ty) -> usize) -> Program {
    let mut pass = Unroll {
        p: p.clone(),
        limits,
        count,
        room: 0,
    };
    pass.room = limits.program.saturating_sub(pass.size(&p.insts));
    pass.p.insts = pass.block(&p.insts);
    pass.p
}

/// What is done with a loop.
enum Way {
    Whole,
    By(i64),
    Stays,
}

struct Unroll<'a> {
    p: Program,
    limits: &'a Limits,
    count: &'a dyn Fn(&Inst, Ty) -> usize,
    /// Instructions that may be added to the program.
    room: usize,
}

/// Where the instruction that closes another one is.
fn end_of(insts: &[Inst], at: usize) -> Option<usize> {
    let mut depth = 0usize;
    insts.iter().enumerate().skip(at).find_map(|(n, inst)| {
        depth += usize::from(inst.opens());
        depth = depth.saturating_sub(usize::from(inst.closes()));
        (depth == 0).then_some(n)
    })
}

/// What makes the value of the counter in an iteration, in a register.
type Counter<'a> = &'a dyn Fn(Reg) -> Inst;

impl Unroll<'_> {
    /// Instructions of the machine.
    fn size(&self, insts: &[Inst]) -> usize {
        let one = |inst: &Inst| {
            let made = match inst {
                Inst::Store { value, .. } => Some(*value),
                _ => inst.dst(),
            };
            (self.count)(inst, made.map_or(Program::INDEX, |r| self.p.ty(r)))
        };
        insts.iter().map(one).sum()
    }

    fn register(&mut self, like: Reg) -> Reg {
        self.p.regs.push(self.p.ty(like));
        Reg(self.p.regs.len() as u32 - 1)
    }

    /// Instructions with their loops unrolled.
    fn block(&mut self, insts: &[Inst]) -> Vec<Inst> {
        let mut out = Vec::with_capacity(insts.len());
        let mut at = 0;
        while let Some(inst) = insts.get(at) {
            at += 1;
            let Inst::Loop {
                var,
                extent: Extent::Known(trips),
            } = *inst
            else {
                out.push(inst.clone());
                continue;
            };
            let Some(end) = end_of(insts, at - 1) else {
                out.push(inst.clone());
                continue;
            };
            let body = self.block(&insts[at..end]);
            self.one(var, trips, body, &mut out);
            at = end + 1;
        }
        out
    }

    fn way(&mut self, trips: i64, body: &[Inst]) -> Way {
        if trips == 1 {
            return Way::Whole;
        }
        let has = |what: fn(&Inst) -> bool| body.iter().any(what);
        if trips < 1 || has(|i| matches!(i, Inst::Loop { .. })) {
            return Way::Stays;
        }
        let size = self.size(body).max(1);
        let times = |n: i64| size.saturating_mul(usize::try_from(n).unwrap_or(usize::MAX));
        let fits = |n: i64| times(n - 1) <= self.room;
        let limits = self.limits;
        if trips <= limits.trips && times(trips) <= limits.whole && fits(trips) {
            self.room -= times(trips - 1);
            return Way::Whole;
        }
        // Nothing goes across a barrier, and without loads nothing waits.
        if has(|i| matches!(i, Inst::Barrier)) || !has(|i| matches!(i, Inst::Load { .. })) {
            return Way::Stays;
        }
        let copies = |n: i64| n + trips % n;
        let good = |n: &i64| times(copies(*n)) <= limits.part && fits(copies(*n));
        let all = || (2..=limits.factor.min(trips / 2)).rev().filter(good);
        // One without a rest is taken instead of a larger one, but not of one of twice its size.
        let most = all().next();
        let even = all().find(|n| trips % n == 0);
        let found = even.filter(|n| most.is_some_and(|m| m < 2 * n)).or(most);
        match found {
            Some(n) => {
                self.room -= times(copies(n) - 1);
                Way::By(n)
            }
            None => Way::Stays,
        }
    }

    /// Appends a loop.
    fn one(&mut self, var: Reg, trips: i64, body: Vec<Inst>, out: &mut Vec<Inst>) {
        let constant = |n: i64| {
            move |dst| Inst::Const {
                dst,
                bits: n as u64,
            }
        };
        let open = |var, trips| Inst::Loop {
            var,
            extent: Extent::Known(trips),
        };
        match self.way(trips, &body) {
            Way::Stays => {
                out.push(open(var, trips));
                out.extend(body);
                out.push(Inst::End);
            }
            Way::Whole => {
                for n in 0..trips {
                    self.copy(var, &body, &constant(n), n + 1 == trips, out);
                }
            }
            Way::By(factor) => {
                let rest = trips % factor;
                let [turn, step, first] = [(); 3].map(|()| self.register(var));
                out.push(constant(factor)(step));
                out.push(open(turn, trips / factor));
                let (op, a, b) = (Binary::Mul, turn, step);
                out.push(Inst::Binary {
                    dst: first,
                    op,
                    a,
                    b,
                });
                for n in 0..factor {
                    let more = self.register(var);
                    out.push(constant(n)(more));
                    let (op, a, b) = (Binary::Add, first, more);
                    let counter = |dst| Inst::Binary { dst, op, a, b };
                    let last = rest == 0 && n + 1 == factor;
                    self.copy(var, &body, &counter, last, out);
                }
                out.push(Inst::End);
                for n in trips - rest..trips {
                    self.copy(var, &body, &constant(n), n + 1 == trips, out);
                }
            }
        }
    }

    /// Appends one iteration. It has registers of its own unless it `keeps` those of the loop.
    fn copy(
        &mut self,
        var: Reg,
        body: &[Inst],
        counter: Counter<'_>,
        keeps: bool,
        out: &mut Vec<Inst>,
    ) {
        if keeps {
            out.push(counter(var));
            out.extend_from_slice(body);
            return;
        }
        let now = self.register(var);
        out.push(counter(now));
        let mut own: HashMap<Reg, Reg> = HashMap::from([(var, now)]);
        for inst in body {
            let mut inst = inst.clone();
            inst.registers(&mut |r, defines| {
                if defines {
                    let new = self.register(*r);
                    own.insert(*r, new);
                }
                *r = own.get(&*r).copied().unwrap_or(*r);
            });
            out.push(inst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::ir::StoreMode;
    use crate::lower::exec::{ItemOrder, run};
    use crate::lower::fold;
    use crate::lower::{Acc, Access, Arg, Mem};

    const F32: Ty = Ty {
        dtype: DType::F32,
        lanes: 1,
    };

    /// `out[0] = sum of (in[i * inner + j] * 3)`, over `outer` times `inner` elements.
    fn sum(outer: i64, inner: i64) -> Program {
        let buffer = |slot, len, written| Arg::Buffer {
            slot,
            dtype: DType::F32,
            len,
            written,
        };
        let [
            zero,
            i,
            width,
            row,
            j,
            at,
            x,
            three,
            product,
            old,
            new,
            last,
            to,
        ] = std::array::from_fn(|n| Reg(n as u32));
        let index = [
            false, true, true, true, true, true, false, false, false, false, false, false, true,
        ];
        let all = |dst, bits| Inst::Const { dst, bits };
        let two = |dst, op, a, b| Inst::Binary { dst, op, a, b };
        let loops = |var, n| Inst::Loop {
            var,
            extent: Extent::Known(n),
        };
        Program {
            name: "sum".into(),
            args: vec![
                buffer(0, 1, true),
                buffer(1, (outer * inner) as usize, false),
            ],
            locals: Vec::new(),
            groups: 1,
            items: 1,
            regs: index.map(|i| if i { Program::INDEX } else { F32 }).into(),
            accs: vec![F32],
            insts: vec![
                all(zero, 0),
                Inst::SetAcc {
                    acc: Acc(0),
                    a: zero,
                },
                loops(i, outer),
                all(width, inner as u64),
                two(row, Binary::Mul, i, width),
                loops(j, inner),
                two(at, Binary::Add, row, j),
                Inst::Load {
                    dst: x,
                    mem: Mem::Arg(1),
                    index: at,
                    access: Access::Contiguous,
                    gate: None,
                },
                all(three, u64::from(3f32.to_bits())),
                two(product, Binary::Mul, x, three),
                Inst::GetAcc {
                    dst: old,
                    acc: Acc(0),
                },
                two(new, Binary::Add, old, product),
                Inst::SetAcc {
                    acc: Acc(0),
                    a: new,
                },
                Inst::End,
                Inst::End,
                Inst::GetAcc {
                    dst: last,
                    acc: Acc(0),
                },
                all(to, 0),
                Inst::Store {
                    mode: StoreMode::Set,
                    mem: Mem::Arg(0),
                    index: to,
                    access: Access::Contiguous,
                    value: last,
                    gate: None,
                },
            ],
        }
    }

    fn limits(trips: i64, factor: i64) -> Limits {
        Limits {
            trips,
            whole: 1000,
            factor,
            part: 1000,
            program: 2000,
        }
    }

    fn one(_: &Inst, _: Ty) -> usize {
        1
    }

    /// What is computed, and the loops that are left.
    fn outcome(p: &Program) -> (f32, Vec<i64>) {
        let len = match p.args[1] {
            Arg::Buffer { len, .. } => len,
            _ => 0,
        };
        let input: Vec<u8> = (0..len)
            .flat_map(|n| ((n * n % 7) as f32).to_le_bytes())
            .collect();
        let mut buffers = [vec![0; 4], input];
        run(p, &mut buffers, &[], ItemOrder::Forward).unwrap_or_else(|e| panic!("{e}\n{p}"));
        let loops = p.insts.iter().filter_map(|i| match i {
            Inst::Loop { extent, .. } => Some(p.extent(*extent)),
            _ => None,
        });
        let bytes: [u8; 4] = buffers[0][..].try_into().unwrap();
        (f32::from_le_bytes(bytes), loops.collect())
    }

    #[test]
    fn loops_keep_their_sums() {
        for (outer, inner, most, factor, left) in [
            (1, 1, 8, 4, vec![]),
            (3, 4, 8, 4, vec![]),
            // The inner one by its half, without and with a rest; the outer one stays around it.
            (3, 12, 8, 8, vec![3, 2]),
            (3, 13, 8, 8, vec![3, 2]),
            (2, 64, 8, 8, vec![2, 8]),
            (3, 16, 4, 1, vec![3, 16]),
            // The outer one by what leaves no rest.
            (9, 4, 8, 4, vec![3]),
        ] {
            let p = sum(outer, inner);
            let (want, _) = outcome(&p);
            let mut unrolled = unroll(&p, &limits(most, factor), &one);
            let what = format!("{outer}x{inner}");
            assert_eq!(outcome(&unrolled), (want, left.clone()), "{what}");
            fold(&mut unrolled);
            assert_eq!(outcome(&unrolled), (want, left), "{what}\n{unrolled}");
        }
    }

    #[test]
    fn code_is_limited() {
        let p = sum(1, 32);
        let size = p.insts.len();
        for (program, left) in [
            (size, vec![32]),
            (size + 7 * 8, vec![8]),
            (size + 8 * 32, vec![]),
        ] {
            let limits = Limits {
                program,
                ..limits(32, 4)
            };
            assert_eq!(outcome(&unroll(&p, &limits, &one)).1, left, "{program}");
        }
        let limits = Limits {
            whole: 100,
            part: 8 * 2,
            ..limits(32, 8)
        };
        assert_eq!(outcome(&unroll(&p, &limits, &one)).1, [16]);
    }

    #[test]
    fn registers_are_defined_once() {
        let p = unroll(&sum(3, 13), &limits(8, 8), &one);
        let mut defined: Vec<Reg> = p.insts.iter().filter_map(Inst::dst).collect();
        let all = defined.len();
        defined.sort_unstable();
        defined.dedup();
        assert_eq!(defined.len(), all);
    }
}
