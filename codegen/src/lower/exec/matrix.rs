//! Matrix instructions of a wave.

use super::Item;
use crate::DType;
use crate::interp::scalar;
use crate::ir::mma::{Fragment, MmaDesc};
use crate::lower::program::{Inst, Reg};

/// The matrix that the lanes of a wave hold together, row by row. Elements that several lanes hold
/// have to be the same.
fn gather(
    items: &[Item],
    reg: Reg,
    fragment: &Fragment,
    [rows, cols]: [usize; 2],
) -> Result<Vec<u64>, String> {
    let count = fragment.elements();
    let mut out: Vec<Option<u64>> = vec![None; rows * cols];
    for (lane, item) in items.iter().enumerate() {
        let held = &item.regs[reg.0 as usize];
        if held.len() != count as usize {
            return Err(format!(
                "{reg} has {} elements, expected {count}",
                held.len()
            ));
        }
        for (i, &value) in held.iter().enumerate() {
            let [r, c] = fragment.at(lane as i64, i as i64);
            let place = &mut out[r as usize * cols + c as usize];
            if place.is_some_and(|other| other != value) {
                return Err(format!("lanes disagree about element {r}, {c} of {reg}"));
            }
            *place = Some(value);
        }
    }
    out.into_iter()
        .map(|v| v.ok_or_else(|| format!("no lane has an element of {reg}")))
        .collect()
}

/// Executes a matrix instruction. Products are added by rising `k`.
pub(super) fn multiply(inst: &Inst, items: &mut [Item]) -> Result<(), String> {
    let Inst::Mma { dst, desc, a, b, c } = inst else {
        return Err("the work-items wait at something that is no matrix instruction".into());
    };
    let MmaDesc { operands, acc, .. } = *desc;
    let (m, n, k) = (
        usize::from(desc.m),
        usize::from(desc.n),
        usize::from(desc.k),
    );
    let Some(fragments) = desc.fragments else {
        return Err("an instruction of one thread in a wave".into());
    };
    if items.len() != desc.wave() as usize {
        return Err(format!("{} lanes, expected {}", items.len(), desc.wave()));
    }
    let left = gather(items, *a, &fragments.a, [m, k])?;
    let right = gather(items, *b, &fragments.b, [n, k])?;
    let mut sums = gather(items, *c, &fragments.c, [m, n])?;
    let wide = |side: usize, x: u64| scalar::cast(operands[side], acc, x);
    for row in 0..m {
        for col in 0..n {
            let sum = &mut sums[row * n + col];
            for at in 0..k {
                let (x, y) = (wide(0, left[row * k + at]), wide(1, right[col * k + at]));
                *sum = product(acc, x, y, *sum)?;
            }
        }
    }
    for (lane, item) in items.iter_mut().enumerate() {
        item.regs[dst.0 as usize] = (0..i64::from(fragments.c.elements()))
            .map(|i| {
                let [r, c] = fragments.c.at(lane as i64, i);
                sums[r as usize * n + c as usize]
            })
            .collect();
    }
    Ok(())
}

fn product(t: DType, x: u64, y: u64, sum: u64) -> Result<u64, String> {
    scalar::fma(t, x, y, sum).ok_or_else(|| format!("no product of {t}"))
}
