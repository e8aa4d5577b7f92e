//! Stores to local memory that are neighbours of each other: vectors whose lanes go to elements at a
//! distance, each vector one element further than the one before. They are turned round in
//! registers, and stored as vectors along the other direction.

use hashbrown::HashMap;

use super::{Text, memory_type, vector};
use crate::dtype::DType;
use crate::ir::{Binary, StoreMode};
use crate::lower::{Access, Inst, Mem, Reg};

/// Bytes of a store at most.
const WIDEST: usize = 16;

/// Such stores, in the order of their places.
#[derive(Clone)]
pub(super) struct Run {
    mem: Mem,
    /// Elements from one lane to the next.
    by: i64,
    /// Place of the first lane of the first vector.
    index: Reg,
    values: Vec<Reg>,
}

/// One store, as far as it can be part of a run.
struct Member {
    at: usize,
    mem: Mem,
    by: i64,
    index: Reg,
    value: Reg,
}

impl Text<'_> {
    /// What becomes of the stores that are part of a run, by the numbers of their instructions: the
    /// last one stores for all of them.
    pub(super) fn runs(&mut self) -> HashMap<usize, Option<Run>> {
        let insts = &self.p.insts;
        insts.iter().for_each(|inst| self.sum(inst));
        let mut out = HashMap::new();
        let mut run: Vec<Member> = Vec::new();
        for (at, inst) in insts.iter().enumerate() {
            if let Some(next) = self.member(at, inst) {
                if run.last().is_some_and(|last| !self.follows(last, &next)) {
                    self.split(&mut run, &mut out);
                }
                run.push(next);
                continue;
            }
            let between = match inst {
                Inst::GetAcc { .. } => true,
                Inst::Const { dst, .. }
                | Inst::Cast { dst, .. }
                | Inst::Binary {
                    dst,
                    op: Binary::Add,
                    ..
                } => self.p.ty(*dst).dtype == DType::U32,
                _ => false,
            };
            if !between {
                self.split(&mut run, &mut out);
            }
        }
        self.split(&mut run, &mut out);
        out
    }

    fn member(&self, at: usize, inst: &Inst) -> Option<Member> {
        match *inst {
            Inst::Store {
                mode: StoreMode::Set,
                mem: mem @ Mem::Local(_),
                index,
                access: Access::Strided(by),
                value,
                gate: None,
            } if self.p.ty(value).lanes.is_power_of_two() && self.p.ty(value).lanes > 1 => {
                Some(Member {
                    at,
                    mem,
                    by,
                    index,
                    value,
                })
            }
            _ => None,
        }
    }

    fn place(&self, index: Reg) -> (Reg, i64) {
        self.sums.get(&index).copied().unwrap_or((index, 0))
    }

    fn follows(&self, a: &Member, b: &Member) -> bool {
        let ((x, i), (y, j)) = (self.place(a.index), self.place(b.index));
        let same = a.mem == b.mem && a.by == b.by && self.p.ty(a.value) == self.p.ty(b.value);
        same && x == y && j == i + 1
    }

    /// Cuts a run into parts that are as long as a store is wide, or half as long, and so on.
    fn split(&self, run: &mut Vec<Member>, out: &mut HashMap<usize, Option<Run>>) {
        let mut rest = &run[..];
        while let Some(first) = rest.first() {
            let ty = self.p.ty(first.value);
            let most = (WIDEST / ty.dtype.size()).min(ty.lanes as usize);
            let (part, after) = rest.split_at(most.min(1 << rest.len().ilog2()));
            rest = after;
            let Some(last) = part.last().filter(|_| part.len() > 1) else {
                continue;
            };
            out.extend(part.iter().map(|m| (m.at, None)));
            let whole = Run {
                mem: first.mem,
                by: first.by,
                index: first.index,
                values: part.iter().map(|m| m.value).collect(),
            };
            out.insert(last.at, Some(whole));
        }
        run.clear();
    }

    /// Turns a square of elements round: in each round, vectors that are `block` apart exchange
    /// blocks of as many lanes.
    pub(super) fn store_run(&mut self, run: &Run) {
        let ty = self.p.ty(run.values[0]);
        let (lanes, count) = (ty.lanes as usize, run.values.len());
        let element = memory_type(ty.dtype);
        let t = vector(element, ty.lanes);
        let mut all: Vec<String> = Vec::new();
        for &value in &run.values {
            let value = self.v(value);
            all.push(self.stored_value(ty, value));
        }
        let mut block = 1;
        while block < count {
            for low in (0..count).filter(|i| i & block == 0) {
                let (a, b) = (all[low].clone(), all[low + block].clone());
                let masks = [0, block].map(|start| {
                    let from = |lane: usize| match lane & block {
                        0 => lane + start,
                        _ => lanes + lane - block + start,
                    };
                    let list: Vec<String> = (0..lanes)
                        .map(|lane| format!("i32 {}", from(lane)))
                        .collect();
                    list.join(", ")
                });
                for (at, mask) in [low, low + block].into_iter().zip(masks) {
                    all[at] = self.let_(format!(
                        "shufflevector {t} {a}, {t} {b}, <{lanes} x i32> <{mask}>"
                    ));
                }
            }
            block *= 2;
        }
        let part = vector(element, count as u32);
        let ptr = self.pointer(run.mem);
        let align = self.alignment(run.mem, ty, run.index);
        let align = align.min(1 << (run.by * ty.dtype.size() as i64).trailing_zeros().min(4));
        for lane in 0..lanes {
            let first = lane / count * count;
            let mut value = all[lane % count].clone();
            if count < lanes {
                let list: Vec<String> =
                    (first..first + count).map(|i| format!("i32 {i}")).collect();
                value = self.let_(format!(
                    "shufflevector {t} {value}, {t} poison, <{count} x i32> <{}>",
                    list.join(", ")
                ));
            }
            let further = run.by.wrapping_mul(lane as i64);
            let at = self.address_past(run.mem, element, run.index, further);
            self.line(format!("store {part} {value}, {ptr} {at}, align {align}"));
        }
    }
}
