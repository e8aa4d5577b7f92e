//! Matrix instructions of a wave.

use super::Item;
use crate::dtype::DType;
use crate::ir::mma::{Fragment, MmaDesc};
use crate::ir::scalar;
use crate::lower::program::{Inst, Mem, Operand, Reg};

/// The matrix that the lanes of a wave hold together, row by row. Elements that several lanes hold
/// have to be the same.
fn gather(
    lanes: &[Vec<u64>],
    fragment: &Fragment,
    [rows, cols]: [usize; 2],
) -> Result<Vec<u64>, String> {
    let count = fragment.elements();
    let mut out: Vec<Option<u64>> = vec![None; rows * cols];
    for (lane, held) in lanes.iter().enumerate() {
        if held.len() != count as usize {
            return Err(format!(
                "lane {lane} has {} elements, expected {count}",
                held.len()
            ));
        }
        for (i, &value) in held.iter().enumerate() {
            let [r, c] = fragment.at(lane as i64, i as i64);
            let place = &mut out[r as usize * cols + c as usize];
            if place.is_some_and(|other| other != value) {
                return Err(format!("lanes disagree about element {r}, {c}"));
            }
            *place = Some(value);
        }
    }
    out.into_iter()
        .map(|v| v.ok_or_else(|| String::from("no lane holds an element")))
        .collect()
}

/// The matrix that begins at an element of local memory, row by row.
fn read(
    locals: &[Vec<u8>],
    operand: &Operand,
    dtype: DType,
    start: &[u64],
    [rows, cols]: [usize; 2],
) -> Result<Vec<u64>, String> {
    let (Mem::Local(block), &[start]) = (operand.mem, start) else {
        return Err(format!("a matrix is read in {}", operand.mem));
    };
    let bytes = locals.get(block as usize).map_or(&[][..], Vec::as_slice);
    let places = (0..rows * cols).map(|i| {
        let (side, k) = ((i / cols) as i64, (i % cols) as i64);
        let at = operand.rows.at(dtype, start as i64, side, k);
        let first = usize::try_from(at)
            .ok()
            .and_then(|at| at.checked_mul(dtype.size()));
        let element = first.and_then(|at| bytes.get(at..at + dtype.size()));
        element
            .map(|element| scalar::read(dtype, element))
            .ok_or_else(|| format!("element {at} is not in {}", operand.mem))
    });
    places.collect()
}

/// Executes a matrix instruction. Products are added by rising `k`.
pub(super) fn multiply(inst: &Inst, items: &mut [Item], locals: &[Vec<u8>]) -> Result<(), String> {
    let desc = match inst {
        Inst::Mma { desc, .. } | Inst::MmaThere { desc, .. } => *desc,
        _ => {
            return Err(
                "the work-items wait at an instruction that is not a matrix instruction".into(),
            );
        }
    };
    let [m, n, k] = [desc.m, desc.n, desc.k].map(usize::from);
    let Some(fragments) = desc.fragments else {
        return Err("a single-thread instruction was executed by a wave".into());
    };
    if items.len() != desc.wave() as usize {
        return Err(format!("{} lanes, expected {}", items.len(), desc.wave()));
    }
    let values = |reg: &Reg| -> Vec<Vec<u64>> {
        let of = |item: &Item| item.regs[reg.0 as usize].clone();
        items.iter().map(of).collect()
    };
    let sums = match inst {
        Inst::Mma { a, b, c, .. } => {
            let left = gather(&values(a), &fragments.a, [m, k])?;
            let right = gather(&values(b), &fragments.b, [n, k])?;
            let mut sums = gather(&values(c), &fragments.c, [m, n])?;
            add(&desc, &mut sums, &left, &right)?;
            sums
        }
        Inst::MmaThere {
            acc, operands, at, ..
        } => {
            let held: Vec<_> = items
                .iter()
                .map(|i| i.accs[acc.0 as usize].clone())
                .collect();
            let mut sums = gather(&held, &fragments.c, [m, n])?;
            for regs in at {
                let mut both = [Vec::new(), Vec::new()];
                for side in 0..2 {
                    let starts = values(&regs[side]);
                    if starts.iter().any(|s| *s != starts[0]) {
                        return Err(format!("lanes disagree about {}", regs[side]));
                    }
                    let shape = [[m, n][side], k];
                    let (operand, dtype) = (&operands[side], desc.operands[side]);
                    both[side] = read(locals, operand, dtype, &starts[0], shape)?;
                }
                add(&desc, &mut sums, &both[0], &both[1])?;
            }
            sums
        }
        _ => return Ok(()),
    };
    for (lane, item) in items.iter_mut().enumerate() {
        let held = (0..i64::from(fragments.c.elements()))
            .map(|i| {
                let [r, c] = fragments.c.at(lane as i64, i);
                sums[r as usize * n + c as usize]
            })
            .collect();
        match inst {
            Inst::MmaThere { acc, .. } => item.accs[acc.0 as usize] = held,
            Inst::Mma { dst, .. } => item.regs[dst.0 as usize] = held,
            _ => {}
        }
    }
    Ok(())
}

/// Adds the product of two matrices.
fn add(desc: &MmaDesc, sums: &mut [u64], left: &[u64], right: &[u64]) -> Result<(), String> {
    let MmaDesc { operands, acc, .. } = *desc;
    let [n, k] = [desc.n, desc.k].map(usize::from);
    let wide = |side: usize, x: u64| scalar::cast(operands[side], acc, x);
    for (at, sum) in sums.iter_mut().enumerate() {
        let (row, col) = (at / n, at % n);
        for at in 0..k {
            let (x, y) = (wide(0, left[row * k + at]), wide(1, right[col * k + at]));
            *sum = product(acc, x, y, *sum)?;
        }
    }
    Ok(())
}

fn product(t: DType, x: u64, y: u64, sum: u64) -> Result<u64, String> {
    scalar::fma(t, x, y, sum).ok_or_else(|| format!("no matrix product of {t}"))
}
