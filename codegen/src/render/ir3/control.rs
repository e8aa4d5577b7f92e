//! Control flow: blocks in the order of the program, and branches over them.
//!
//! Fibers that a branch leaves apart run one after the other, and are parked at the later one of its targets, which is
//! marked with (jp); Mesa `ir3_legalize.c`, `ir3_reconvergence.c`. Branches that all fibers of a wave take the same way
//! need no mark: loops of a known length, and whatever depends on the number of the group alone.

use super::Select;
use super::atomic::Attempt;
use super::operand::{At, List, Opnd};
use crate::error::Result;
use crate::ir3::virt::{Code, Dst, FULL, Name, Src};
use crate::ir3::{Cond, Flags, GROUP, Op, Reg as Register};
use crate::lower::{Extent, Inst, Reg};
use crate::machine::{Block, Part};

/// What an [`Inst::End`] or an [`Inst::Commit`] closes.
pub(super) enum Open {
    /// Runs once.
    Always,
    Loop {
        head: usize,
        var: Part,
        /// The number of iterations less one.
        last: Opnd,
    },
    /// Jumped over; the block with the branch, and how many addresses there were.
    If {
        from: usize,
        made: usize,
        diverges: bool,
    },
    Attempt(Attempt),
}

/// Whether an instruction does something else than to write a value.
pub(super) fn has_effects(code: &Code) -> bool {
    let atomic = (Op::AtomicAdd..=Op::AtomicGXor).contains(&code.op);
    let stores = matches!(code.op, Op::Stg | Op::StgA | Op::Stl | Op::Stp);
    let predicate = matches!(code.dst, Dst::Predicate(_));
    atomic || stores || predicate || matches!(code.op.category(), 0 | 7)
}

/// Whether an instruction of a program ends a block, or begins one.
pub(super) fn is_control(inst: &Inst) -> bool {
    matches!(
        inst,
        Inst::Loop { .. }
            | Inst::Groups { .. }
            | Inst::Once
            | Inst::End
            | Inst::Attempt { .. }
            | Inst::Commit { .. }
            | Inst::Barrier
    )
}

impl Select<'_> {
    /// A new block behind the one that is written, which goes on there.
    pub(super) fn enter(&mut self, depth: u32) -> usize {
        let new = self.f.blocks.len();
        self.f.blocks.push(Block::new(depth));
        self.f.blocks[self.at].next.push(new);
        self.at = new;
        self.depth = depth;
        new
    }

    /// Goes back to the head of a loop under a condition, and on behind it.
    pub(super) fn again(&mut self, predicate: Name, negated: bool, head: usize) {
        self.branch(predicate, negated, Some(head));
        let from = self.at;
        self.enter(self.depth.saturating_sub(1));
        self.f.blocks[from].next.push(head);
    }

    /// A branch; one without a target gets it later.
    fn branch(&mut self, predicate: Name, negated: bool, target: Option<usize>) {
        let src = Src {
            neg: negated,
            ..Src::new(predicate)
        };
        let mut code = Code::new(Op::Br, Dst::None, vec![src]);
        code.target = target;
        self.emit(code);
    }

    /// Fibers that were apart meet at the block that begins here.
    pub(super) fn join(&mut self) {
        self.joins.push(self.at);
    }

    /// The block with the branch, and how many addresses there were, of the condition that is open last.
    pub(super) fn take_if(&mut self) -> Option<(usize, usize)> {
        match self.opened.pop() {
            Some(Open::If { from, made, .. }) => Some((from, made)),
            _ => None,
        }
    }

    /// A loop that compares and swaps begins.
    pub(super) fn open_attempt(&mut self, attempt: Attempt) {
        self.opened.push(Open::Attempt(attempt));
    }

    /// The loop that compares and swaps, if one is what is open last.
    pub(super) fn close_attempt(&mut self) -> Option<Attempt> {
        match self.opened.pop() {
            Some(Open::Attempt(attempt)) => Some(attempt),
            _ => None,
        }
    }

    /// Counts points where fibers may be parked beside those around.
    pub(super) fn diverge(&mut self, points: u32) {
        let around = self.opened.iter().map(|open| match open {
            Open::If { diverges: true, .. } => 1,
            Open::Attempt(_) => 2,
            _ => 0,
        });
        self.branches = self.branches.max(around.sum::<u32>() + points);
    }

    /// Opens what happens where a boolean is true, or false.
    pub(super) fn open_if(&mut self, truth: Opnd, when: bool, diverges: bool) {
        if diverges {
            self.diverge(1);
        }
        self.predicate(1, truth);
        self.branch(Name::Predicate(1), when, None);
        let from = self.at;
        self.enter(self.depth);
        self.opened.push(Open::If {
            from,
            made: self.made.len(),
            diverges,
        });
    }

    /// The block behind an if.
    pub(super) fn close_if(&mut self, from: usize, made: usize, diverges: bool) {
        let end = self.enter(self.depth);
        self.f.blocks[from].next.push(end);
        let branch = self.f.blocks[from].insts.last_mut();
        if let Some(code) = branch.filter(|c| c.op == Op::Br) {
            code.target = Some(end);
        }
        // What was made inside is not there behind it.
        for key in self.made.drain(made..) {
            self.addresses.remove(&key);
        }
        if diverges {
            self.join();
        }
    }

    pub(super) fn close(&mut self) -> Result<()> {
        match self.opened.pop() {
            Some(Open::Loop { head, var, last }) => {
                self.compare_to(0, Op::CmpsS, Cond::Lt, [Opnd::part(var), last]);
                self.emit(Code::new(
                    Op::AddS,
                    Dst::Part(var),
                    vec![Src::part(var), Src::imm(1)],
                ));
                self.again(Name::Predicate(0), false, head);
                Ok(())
            }
            Some(Open::If {
                from,
                made,
                diverges,
            }) => {
                self.close_if(from, made, diverges);
                Ok(())
            }
            Some(Open::Always) => Ok(()),
            Some(Open::Attempt(_)) | None => self.unsupported("an end without a beginning"),
        }
    }

    /// The number of the group: `x + grid[0] * (y + grid[1] * z)`.
    pub(super) fn group_number(&mut self) -> Result<()> {
        let Some(grid) = self
            .p
            .grid(self.t)
            .filter(|_| i32::try_from(self.p.groups).is_ok())
        else {
            return self.unsupported(format!("{} groups", self.p.groups));
        };
        let axis = |n: u8| -> List { vec![Opnd::new(At::Shared(Register(GROUP.0 + n)))] };
        let mut group = axis(0);
        let mut below = grid[0];
        for (n, count) in [(1, grid[1]), (2, grid[2])] {
            if count > 1 {
                let next = axis(n);
                let by = vec![Opnd::bits(below)];
                let part = self.mul(&next, &by);
                group = self.add(&group, &part);
            }
            below = below.wrapping_mul(count);
        }
        self.group = Some(group[0]);
        Ok(())
    }

    /// What opens and closes blocks, and barriers.
    pub(super) fn control(&mut self, inst: &Inst) -> Result<()> {
        match *inst {
            Inst::Loop { var, extent } => self.open_loop(var, extent)?,
            Inst::Groups { var } => {
                let Some(group) = self.group else {
                    return self.unsupported("groups without a number");
                };
                let grid = self.p.grid(self.t).unwrap_or([1; 3]);
                let all: i64 = grid.iter().map(|&n| i64::from(n)).product();
                match all > self.p.groups {
                    true => {
                        let last = vec![Opnd::bits(self.p.groups as u32)];
                        let inside = self.compare(Op::CmpsU, Cond::Lt, FULL, &vec![group], &last);
                        self.open_if(inside[0], true, false);
                    }
                    false => self.opened.push(Open::Always),
                }
                let list = [group, Opnd::bits(0)];
                self.define(var, list[..super::words(self.ty(var).dtype)].to_vec());
            }
            Inst::Once => {
                let Some(group) = self.group else {
                    return self.unsupported("a first group without a number");
                };
                let zero = vec![Opnd::bits(0)];
                let first = self.compare(Op::CmpsU, Cond::Eq, FULL, &vec![group], &zero);
                self.open_if(first[0], true, false);
            }
            Inst::End => self.close()?,
            Inst::Attempt {
                dst,
                mem,
                index,
                gate,
            } => self.attempt(dst, mem, index, gate)?,
            Inst::Commit { value } => self.commit(value)?,
            Inst::Barrier => {
                let mut fence = Code::new(Op::Fence, Dst::None, Vec::new());
                fence.flags = Flags::GLOBAL | Flags::LOCAL | Flags::READ | Flags::WRITE;
                self.emit(fence);
                let mut bar = Code::new(Op::Bar, Dst::None, Vec::new());
                bar.flags = Flags::GLOBAL;
                self.emit(bar);
            }
            _ => return self.unsupported(format!("{inst:?} here")),
        }
        Ok(())
    }

    fn open_loop(&mut self, var: Reg, extent: Extent) -> Result<()> {
        let words = super::words(self.ty(var).dtype);
        let known = match extent {
            Extent::Known(n) => Some(n),
            Extent::Arg(_) => None,
        };
        if i32::try_from(self.p.extent(extent)).is_err() {
            return self.unsupported(format!("{} iterations", self.p.extent(extent)));
        }
        if known == Some(1) {
            self.define(var, vec![Opnd::bits(0); words]);
            self.opened.push(Open::Always);
            return Ok(());
        }
        let last = match extent {
            Extent::Known(n) => Opnd::bits(n as u32 - 1),
            Extent::Arg(arg) => {
                let count = vec![Opnd::new(At::Const(2 * arg as u16))];
                let one = self.same(1, 1);
                self.sub(&count, &one)[0]
            }
        };
        let counter = self.lane(FULL);
        self.move_to(FULL, counter, Opnd::bits(0));
        let head = self.enter(self.depth + 1);
        let list = [Opnd::part(counter), Opnd::bits(0)];
        self.define(var, list[..words].to_vec());
        self.opened.push(Open::Loop {
            head,
            var: counter,
            last,
        });
        Ok(())
    }
}
