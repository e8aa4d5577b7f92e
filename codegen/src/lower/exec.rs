//! Runs linear programs, one work-item after the other between barriers: the reference for renderers and for the
//! lowering.

mod matrix;

use super::program::{Acc, Access, Arg, Inst, Mem, Program, Reg, Ty};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir::mma::Rows;
use crate::ir::{Binary, scalar};

/// The order in which work-items run between two barriers. A program whose result depends on it lacks a barrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ItemOrder {
    /// First to last.
    Forward,
    /// Last to first.
    Backward,
}

/// One work-item between two barriers.
struct Item {
    at: usize,
    regs: Vec<Vec<u64>>,
    accs: Vec<Vec<u64>>,
    /// Start of the body, counter, end of the counter.
    loops: Vec<(usize, Option<Reg>, i64, i64)>,
    /// The element that an attempt has read.
    attempt: Option<(Mem, DType, i64)>,
    done: bool,
}

impl Item {
    /// The lanes of a register.
    #[inline]
    fn get(&self, r: &Reg) -> Vec<u64> {
        self.regs[r.0 as usize].clone()
    }
}

struct Machine<'a> {
    p: &'a Program,
    vars: &'a [i64],
    /// The matching end of each opening instruction.
    ends: Vec<usize>,
    locals: Vec<Vec<u8>>,
    group: i64,
}

/// Runs all groups of a program. `buffers` are those of the kernel, by slot; `vars` likewise.
pub fn run(p: &Program, buffers: &mut [Vec<u8>], vars: &[i64], order: ItemOrder) -> Result<()> {
    let invalid = |what: String| Error::Invalid {
        kernel: p.name.clone(),
        what,
    };
    let mut ends = vec![0; p.insts.len()];
    let mut open = Vec::new();
    for (i, inst) in p.insts.iter().enumerate() {
        match inst {
            Inst::Loop { .. } | Inst::Groups { .. } | Inst::Once | Inst::Attempt { .. } => {
                open.push(i);
            }
            Inst::End | Inst::Commit { .. } => {
                let Some(start) = open.pop() else {
                    return Err(invalid("an end without a start".into()));
                };
                ends[start] = i;
            }
            _ => {}
        }
    }
    if !open.is_empty() {
        return Err(invalid("a loop without an end".into()));
    }
    let waves = p.insts.iter().filter_map(|inst| match inst {
        Inst::Mma { desc, .. } | Inst::MmaThere { desc, .. } => Some(desc.wave() as usize),
        _ => None,
    });
    let wave = waves.max().unwrap_or(1);
    if p.items % wave as i64 != 0 {
        let what = format!("{} work-items in waves of {wave}", p.items);
        return Err(invalid(what));
    }
    let mut machine = Machine {
        p,
        vars,
        ends,
        locals: Vec::new(),
        group: 0,
    };
    for group in 0..p.groups {
        machine.group = group;
        machine.locals = p
            .locals
            .iter()
            .map(|(t, n)| vec![0xa5; t.size() * n])
            .collect();
        let mut items: Vec<Item> = (0..p.items)
            .map(|_| Item {
                at: 0,
                regs: vec![Vec::new(); p.regs.len()],
                accs: vec![Vec::new(); p.accs.len()],
                loops: Vec::new(),
                attempt: None,
                done: false,
            })
            .collect();
        while items.iter().any(|i| !i.done) {
            let waves = items.len().div_ceil(wave);
            for k in 0..waves {
                let first = wave
                    * if order == ItemOrder::Forward {
                        k
                    } else {
                        waves - 1 - k
                    };
                let end = (first + wave).min(items.len());
                machine
                    .run_wave(&mut items[first..end], first, order, buffers)
                    .map_err(&invalid)?;
            }
            let at = items[0].at;
            if items.iter().any(|i| i.at != at) {
                return Err(invalid("work-items wait at different barriers".into()));
            }
        }
    }
    Ok(())
}

impl Machine<'_> {
    /// Runs the work-items of a wave up to the next barrier or to the end. They meet at matrix
    /// instructions.
    fn run_wave(
        &mut self,
        items: &mut [Item],
        first: usize,
        order: ItemOrder,
        buffers: &mut [Vec<u8>],
    ) -> Result<(), String> {
        loop {
            let count = items.len();
            let mut met = 0;
            for k in 0..count {
                let i = if order == ItemOrder::Forward {
                    k
                } else {
                    count - 1 - k
                };
                met += usize::from(self.run_item(&mut items[i], (first + i) as i64, buffers)?);
            }
            let at = items[0].at;
            match met {
                0 => return Ok(()),
                _ if met < count || items.iter().any(|i| i.at != at) => {
                    return Err("lanes of a wave are at different matrix instructions".into());
                }
                _ => matrix::multiply(&self.p.insts[at - 1], items, &self.locals)?,
            }
        }
    }

    /// Runs up to the next barrier, matrix instruction (then it gives true) or to the end.
    fn run_item(
        &mut self,
        item: &mut Item,
        number: i64,
        buffers: &mut [Vec<u8>],
    ) -> Result<bool, String> {
        while item.at < self.p.insts.len() {
            let here = item.at;
            item.at += 1;
            match &self.p.insts[here] {
                Inst::Barrier => return Ok(false),
                Inst::Mma { .. } | Inst::MmaThere { .. } => return Ok(true),
                Inst::Loop { var, extent } => {
                    item.regs[var.0 as usize] = vec![0];
                    let times = self.p.extent(*extent);
                    item.loops.push((here + 1, Some(*var), 0, times));
                }
                Inst::Groups { var } => {
                    item.regs[var.0 as usize] = vec![self.group as u64];
                    item.loops.push((here + 1, None, 0, 1));
                }
                Inst::Once => {
                    if self.group == 0 {
                        item.loops.push((here + 1, None, 0, 1));
                    } else {
                        item.at = self.ends[here] + 1;
                    }
                }
                Inst::Attempt { gate: Some(g), .. } if item.regs[g.0 as usize][0] == 0 => {
                    item.at = self.ends[here] + 1;
                }
                Inst::Attempt {
                    dst, mem, index, ..
                } => {
                    let at = item.regs[index.0 as usize][0] as i64;
                    let t = self.p.ty(*dst).dtype;
                    let old = scalar::read(t, self.bytes(*mem, t, at, buffers)?);
                    item.regs[dst.0 as usize] = vec![old];
                    item.attempt = Some((*mem, t, at));
                }
                Inst::Commit { value } => {
                    let new = item.regs[value.0 as usize][0];
                    let Some((mem, t, at)) = item.attempt.take() else {
                        return Err("a commit without an attempt".into());
                    };
                    scalar::write(new, self.bytes(mem, t, at, buffers)?);
                }
                Inst::End => {
                    let Some(top) = item.loops.last_mut() else {
                        return Err("an end without a start".into());
                    };
                    top.2 += 1;
                    if top.2 < top.3 {
                        item.at = top.0;
                        if let Some(var) = top.1 {
                            item.regs[var.0 as usize] = vec![top.2 as u64];
                        }
                    } else {
                        item.loops.pop();
                    }
                }
                inst => self.step(inst, item, number, buffers)?,
            }
        }
        item.done = true;
        Ok(false)
    }

    fn step(
        &mut self,
        inst: &Inst,
        item: &mut Item,
        number: i64,
        buffers: &mut [Vec<u8>],
    ) -> Result<(), String> {
        let lanes = |r: &Reg| self.p.ty(*r).lanes as usize;
        let (dst, value) = match inst {
            Inst::Const { dst, bits } => (dst, vec![*bits; lanes(dst)]),
            Inst::Var { dst, arg } => (dst, vec![self.var(*arg)? as u64]),
            Inst::Lanes { dst } => (dst, (0..lanes(dst) as u64).collect()),
            Inst::Mask { dst, count } => {
                let n = item.get(count)[0] as i64;
                let below = (0..lanes(dst) as i64).map(|i| u64::from(i < n));
                (dst, below.collect())
            }
            Inst::Item { dst } => (dst, vec![number as u64]),
            Inst::Splat { dst, a } => (dst, vec![item.get(a)[0]; lanes(dst)]),
            Inst::Unary { dst, .. }
            | Inst::Binary { dst, .. }
            | Inst::Select { dst, .. }
            | Inst::Fma { dst, .. }
            | Inst::Dot { dst, .. }
            | Inst::Cast { dst, .. }
            | Inst::Bitcast { dst, .. }
            | Inst::Horizontal { dst, .. } => (dst, arithmetic(self.p, inst, item)?),
            Inst::Load { dst, .. } => (dst, self.load(inst, item, buffers)?),
            Inst::GetAcc { dst, acc: Acc(acc) } => (dst, item.accs[*acc as usize].clone()),
            Inst::SetAcc { acc: Acc(acc), a } => {
                item.accs[*acc as usize] = item.get(a);
                return Ok(());
            }
            Inst::Store { .. } => return self.store(inst, item, buffers),
            Inst::Copy { .. } => return self.copy(inst, item, buffers),
            Inst::TmaLoad { gate, boxes, .. } => {
                if number == 0 && item.get(gate)[0] != 0 {
                    for of in boxes {
                        let first = |r: &Reg| item.get(r)[0] as i64;
                        let at: Vec<i64> = of.at.iter().map(first).collect();
                        let to = (of.to.0, first(&of.to.1));
                        self.copy_box(of.tensor, to, &at, buffers)?;
                    }
                }
                return Ok(());
            }
            Inst::Loop { .. }
            | Inst::Groups { .. }
            | Inst::Once
            | Inst::End
            | Inst::Attempt { .. }
            | Inst::Commit { .. }
            | Inst::Barrier
            // Products and copies happen at once.
            | Inst::WgmmaWait { .. }
            | Inst::Expose
            | Inst::MbarrierInit { .. }
            | Inst::MbarrierWait { .. }
            | Inst::Sent
            | Inst::Arrived { .. }
            | Inst::MmaThere { .. }
            | Inst::Mma { .. } => return Ok(()),
        };
        if value.len() != lanes(dst) {
            return Err(format!(
                "{dst} has {} lanes, expected {}",
                value.len(),
                lanes(dst)
            ));
        }
        item.regs[dst.0 as usize] = value;
        Ok(())
    }

    /// The value of an argument that is a number.
    fn var(&self, arg: u32) -> Result<i64, String> {
        match self.p.args.get(arg as usize) {
            Some(Arg::Number { value }) => Ok(*value),
            Some(Arg::Var { slot }) => match self.vars.get(usize::from(*slot)) {
                Some(&value) => Ok(value),
                None => Err(format!("variable {slot} was not passed")),
            },
            other => Err(format!("argument {arg} is {other:?}, expected an integer")),
        }
    }

    #[inline]
    fn load(
        &mut self,
        inst: &Inst,
        item: &Item,
        buffers: &mut [Vec<u8>],
    ) -> Result<Vec<u64>, String> {
        let Inst::Load {
            dst,
            mem,
            index,
            access,
            gate,
        } = inst
        else {
            return Err(format!("{inst:?} is not a load"));
        };
        let Ty { dtype: t, lanes } = self.p.ty(*dst);
        let index = item.get(index);
        let gate = gate.map(|(g, alt)| (item.get(&g), item.get(&alt)));
        let mut out = Vec::with_capacity(lanes as usize);
        for lane in 0..lanes as usize {
            match &gate {
                Some((g, alt)) if g[lane] == 0 => out.push(alt[lane]),
                _ => {
                    let at = element(&index, *access, lane);
                    let bytes = self.bytes(*mem, t, at, buffers)?;
                    out.push(scalar::read(t, bytes));
                }
            }
        }
        Ok(out)
    }

    #[inline]
    fn store(&mut self, inst: &Inst, item: &Item, buffers: &mut [Vec<u8>]) -> Result<(), String> {
        let Inst::Store {
            mode,
            mem,
            index,
            access,
            value,
            gate,
        } = inst
        else {
            return Err(format!("{inst:?} is not a store"));
        };
        let t = self.p.ty(*value).dtype;
        let (index, new) = (item.get(index), item.get(value));
        let gate = gate.map(|g| item.get(&g));
        for (lane, &value) in new.iter().enumerate() {
            if gate.as_ref().is_some_and(|g| g[lane] == 0) {
                continue;
            }
            let at = element(&index, *access, lane);
            let bytes = self.bytes(*mem, t, at, buffers)?;
            let mut value = value;
            if let Some(op) = mode.combines() {
                let old = scalar::read(t, bytes);
                value = binary(op.binary(), t, &[old], &[value])?[0];
            }
            scalar::write(value, bytes);
        }
        Ok(())
    }

    /// Copies the elements of a vector to local memory.
    fn copy(&mut self, inst: &Inst, item: &Item, buffers: &mut [Vec<u8>]) -> Result<(), String> {
        let Inst::Copy {
            ty,
            to,
            from,
            there,
            gate,
        } = inst
        else {
            return Err(format!("{inst:?} is not a copy"));
        };
        let yes = |gate: &Option<Reg>| gate.is_none_or(|r| item.get(&r)[0] != 0);
        if !yes(gate) {
            return Ok(());
        }
        let there = yes(there);
        let [to_index, from_index] = [to.1, from.1].map(|r| item.get(&r)[0] as i64);
        for lane in 0..i64::from(ty.lanes) {
            let element = match there {
                true => self
                    .bytes(from.0, ty.dtype, from_index + lane, buffers)?
                    .to_vec(),
                false => vec![0; ty.dtype.size()],
            };
            let place = self.bytes(to.0, ty.dtype, to_index + lane, buffers)?;
            place.copy_from_slice(&element);
        }
        Ok(())
    }

    /// Copies a box of a tensor, into rows whose pieces are mixed.
    fn copy_box(
        &mut self,
        tensor: u32,
        (to, first): (Mem, i64),
        at: &[i64],
        buffers: &mut [Vec<u8>],
    ) -> Result<(), String> {
        let Some(Arg::Tensor(tensor)) = self.p.args.get(tensor as usize).copied() else {
            return Err(format!("argument {tensor} is not a tensor"));
        };
        let dtype = tensor.dtype;
        let rows = Rows {
            turned: false,
            slab: 0,
        };
        for row in 0..i64::from(tensor.rows) {
            for column in 0..Rows::width(dtype) {
                let inside = [column, row].into_iter().chain(std::iter::repeat(0));
                let place: Vec<i64> = at.iter().zip(inside).map(|(a, b)| a + b).collect();
                let dims = place.iter().zip(&tensor.dims);
                let there = dims.clone().all(|(&x, dim)| (0..dim[0]).contains(&x));
                let index: i64 = dims.map(|(x, dim)| x * dim[1]).sum();
                let buffer = buffers.get(usize::from(tensor.slot));
                let element = match there {
                    true => buffer
                        .and_then(|b| b.get(index as usize * dtype.size()..)?.get(..dtype.size())),
                    false => Some(&[0; 8][..dtype.size()]),
                };
                let Some(element) = element.map(<[u8]>::to_vec) else {
                    return Err(format!(
                        "element {place:?} is not in buffer {}",
                        tensor.slot
                    ));
                };
                let index = rows.at(dtype, first, row, column);
                self.bytes(to, dtype, index, buffers)?
                    .copy_from_slice(&element);
            }
        }
        Ok(())
    }

    fn bytes<'b>(
        &'b mut self,
        mem: Mem,
        t: DType,
        at: i64,
        buffers: &'b mut [Vec<u8>],
    ) -> Result<&'b mut [u8], String> {
        let memory = match mem {
            Mem::Local(i) => self.locals.get_mut(i as usize),
            Mem::Arg(i) => match self.p.args.get(i as usize) {
                Some(Arg::Buffer { slot, .. }) => buffers.get_mut(usize::from(*slot)),
                _ => None,
            },
        };
        let Some(memory) = memory else {
            return Err(format!("{mem} is not a buffer"));
        };
        let len = memory.len();
        usize::try_from(at)
            .ok()
            .and_then(|at| at.checked_mul(t.size()))
            .and_then(|start| memory.get_mut(start..start + t.size()))
            .ok_or_else(|| format!("element {at} of {mem}, which has {len} bytes of {t}"))
    }
}

/// The value of what computes with registers alone.
#[inline]
fn arithmetic(p: &Program, inst: &Inst, item: &Item) -> Result<Vec<u64>, String> {
    let dtype = |r: &Reg| p.ty(*r).dtype;
    Ok(match inst {
        Inst::Unary { op, a, .. } => {
            let t = dtype(a);
            let all = item.get(a).into_iter();
            let out: Option<Vec<u64>> = all.map(|a| scalar::unary(*op, t, a)).collect();
            out.ok_or_else(|| format!("{op:?} of {t}"))?
        }
        Inst::Binary { op, a, b, .. } => binary(*op, dtype(a), &item.get(a), &item.get(b))?,
        Inst::Select { cond, a, b, .. } => {
            let (a, b) = (item.get(a), item.get(b));
            let both = a.iter().zip(&b);
            let all = item.get(cond).into_iter().zip(both);
            all.map(|(c, (&a, &b))| if c != 0 { a } else { b })
                .collect()
        }
        Inst::Fma { dst, a, b, c } => {
            let Ty { dtype: t, lanes } = p.ty(*dst);
            let (a, b, c) = (item.get(a), item.get(b), item.get(c));
            let out: Option<Vec<u64>> = (0..lanes as usize)
                .map(|i| scalar::fma(t, *a.get(i)?, *b.get(i)?, *c.get(i)?))
                .collect();
            out.ok_or_else(|| format!("multiply-add of {t}"))?
        }
        Inst::Dot { a, b, c, .. } => {
            let (a, b, c) = (item.get(a), item.get(b), item.get(c));
            let all = a.iter().zip(b.iter().zip(&c));
            all.map(|(&a, (&b, &c))| scalar::dot(a, b, c)).collect()
        }
        Inst::Cast { dst, a } => {
            let (from, to) = (dtype(a), dtype(dst));
            let all = item.get(a).into_iter();
            all.map(|a| scalar::cast(from, to, a)).collect()
        }
        Inst::Bitcast { dst, a } => {
            let (from, to) = (dtype(a), dtype(dst));
            let all = item.get(a).into_iter();
            all.map(|a| scalar::bitcast(from, to, a)).collect()
        }
        Inst::Horizontal { op, a, .. } => {
            let t = dtype(a);
            let mut parts = item.get(a);
            while parts.len() > 1 && parts.len().is_multiple_of(2) {
                let (low, high) = parts.split_at(parts.len() / 2);
                parts = binary(op.binary(), t, low, high)?;
            }
            let mut sum = parts[0];
            for &next in &parts[1..] {
                sum = binary(op.binary(), t, &[sum], &[next])?[0];
            }
            vec![sum]
        }
        other => return Err(format!("{other:?} is not arithmetic")),
    })
}

fn element(index: &[u64], access: Access, lane: usize) -> i64 {
    match access {
        Access::Gather if index.len() > 1 => index[lane] as i64,
        Access::Strided(by) => (index[0] as i64).wrapping_add(by.wrapping_mul(lane as i64)),
        _ => (index[0] as i64).wrapping_add(lane as i64),
    }
}

fn binary(op: Binary, t: DType, a: &[u64], b: &[u64]) -> Result<Vec<u64>, String> {
    let out: Option<Vec<u64>> = a
        .iter()
        .zip(b)
        .map(|(&a, &b)| scalar::binary(op, t, a, b))
        .collect();
    out.ok_or_else(|| format!("{op:?} of {t}"))
}
