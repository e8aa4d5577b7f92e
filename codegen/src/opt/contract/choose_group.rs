//! Chooses the block of GPU groups by estimating the cycles of the whole launch.

use super::blocking::Blocking;
use super::fill::{Along, is_copied, is_turned, side_vector, stored, tensor};
use super::{Contraction, up};
use crate::dtype::DType;
use crate::ir::mma::{MmaDesc, Rows};
use crate::ir::{Graph, Id};
use crate::opt::RangeInfo;
use crate::target::{GroupCosts, Target};

/// Multiplications below which the steps through local memory cost more than they gain.
const MIN_WORK: i64 = 1 << 15;
/// A block of matrix instructions may look so many times as slow as the best of plain loops: small products
/// are latency and launch, which the estimate knows least, and plain loops keep a whole unit busy for them.
const MATRIX_LEEWAY: f64 = 1.25;
/// So many times as fast are products of what is in local memory.
const THERE: f64 = 2.0;
/// Elements of the sum that a part has at least.
const MIN_PART: i64 = 256;
/// And at most, where operands have as many digits as the accumulator: a block has no second level of accumulators
/// (see `lower::blocked`), and each addition rounds to the digits of the whole.
const MAX_PART: i64 = 2048;

/// What [`side_vector`] is asked for where no block is chosen yet: elements at most, of a step along the sum, of a
/// block along the side.
const SIDE: [i64; 3] = [16, 64, 64];

/// Groups that a compute unit keeps at the same time, and its SIMDs; `None` if it has no room.
fn residents(target: &Target, registers: i64, local: i64, waves: i64) -> Option<(f64, f64)> {
    let small = |n: i64| u32::try_from(n).ok();
    let Some(file) = target.registers else {
        // Nothing is known but the limits of a group.
        let groups = target.max_local_bytes as i64 / local.max(1);
        return Some((groups.clamp(1, 4) as f64, 4.0));
    };
    let waves_of_simd = file.occupancy(small(registers)?, small(local)?, small(waves)?);
    let groups = i64::from(waves_of_simd * file.simds) / waves;
    (groups > 0).then_some((groups as f64, f64::from(file.simds)))
}

/// Pairs of powers of two, up to so many.
fn powers(a: u32, b: u32) -> impl Iterator<Item = (u32, u32)> {
    let each = |most: u32| (0..=most.ilog2()).map(|p| 1u32 << p);
    each(a).flat_map(move |x| each(b).map(move |y| (x, y)))
}

/// The blocks without matrix instructions.
fn plain_blocks(base: Blocking, consider: &mut impl FnMut(Blocking)) {
    for (depth, slabs) in [8u32, 16, 32]
        .iter()
        .flat_map(|&depth| [2, 1].map(|slabs| (depth, slabs)))
    {
        for (along_rows, along_cols) in powers(32, 32) {
            for (rows, cols) in powers(8, 8) {
                consider(Blocking {
                    along_rows,
                    along_cols,
                    rows,
                    cols,
                    depth,
                    slabs,
                    ..base
                });
            }
        }
    }
}

/// What a work-item does in a step.
struct Step {
    /// Registers of its sums.
    sums: i64,
    /// Registers of what it reads for them.
    read: i64,
    /// Products of a compute unit in a cycle.
    products: f64,
    /// Bytes that the group reads in local memory.
    fetched: i64,
}

/// Registers of 32 bits for so many elements.
fn words(elements: i64, t: DType) -> i64 {
    up(elements * t.size() as i64, 4)
}

impl Step {
    fn of(t: &Blocking, operands: [DType; 2], costs: &GroupCosts, wave: i64) -> Step {
        let bytes = |i: usize| operands[i].size() as i64;
        let (tile_rows, tile_cols) = (i64::from(t.rows), i64::from(t.cols));
        let (items, depth) = (t.items(), i64::from(t.depth));
        let rate = |d: &MmaDesc| costs.matrix_products[d.operands[0].size().ilog2() as usize];
        match t.mma {
            Some(d) if d.in_memory() => {
                // Each instruction reads both of its operands.
                let each = i64::from(d.m) * bytes(0) + i64::from(d.n) * bytes(1);
                let tiles = tile_rows * tile_cols * (items / i64::from(d.wave()));
                Step {
                    sums: tile_rows * tile_cols * words(i64::from(d.elements()[2]), t.acc),
                    read: 0,
                    products: rate(&d) * THERE,
                    fetched: depth * each * tiles,
                }
            }
            Some(d) => {
                let [a, b, c] = d.elements().map(i64::from);
                let read = tile_rows * words(a, operands[0]) + tile_cols * words(b, operands[1]);
                let steps = depth / i64::from(d.k);
                let lanes = wave * (tile_rows * a * bytes(0) + tile_cols * b * bytes(1));
                Step {
                    sums: tile_rows * tile_cols * words(c, t.acc),
                    read: read * t.turn() / i64::from(d.k),
                    products: rate(&d),
                    fetched: steps * lanes * (items / wave),
                }
            }
            None => {
                let per = tile_rows * bytes(0) + tile_cols * bytes(1);
                // Neighbouring work-items share rows, which are read once for all of them.
                let shared = tile_rows * bytes(0) / 2 + tile_cols * bytes(1);
                Step {
                    sums: words(tile_rows * tile_cols, t.acc),
                    read: words(tile_rows + tile_cols, t.acc) * t.turn(),
                    products: costs.products * 4.0 / t.acc.size().max(4) as f64,
                    fetched: depth * items * per.min(shared.max(1)),
                }
            }
        }
    }
}

/// Whether a work-item has the registers.
fn fits_registers(
    t: &Blocking,
    (sums, registers, waves): (i64, i64, i64),
    costs: &GroupCosts,
    target: &Target,
) -> bool {
    let most = match t.mma {
        // They are not read over and over.
        Some(d) if d.in_memory() => costs.max_sums * 2,
        _ => costs.max_sums,
    };
    if sums > most || registers > target.vector_regs as i64 {
        return false;
    }
    // Where a SIMD keeps two waves of a group or more, half of their registers are accumulators, and
    // what else there is has to fit the other half.
    match target.registers {
        Some(file) if target.vector_regs > file.general => {
            let half = i64::from(file.per_simd) / up(waves, i64::from(file.simds)) / 2;
            registers * 4 <= half * 3
        }
        _ => true,
    }
}

impl Contraction {
    /// The block that is expected to be the fastest, or `None` if plain loops are.
    pub fn choose_block(&self, g: &Graph, target: &Target) -> Option<Blocking> {
        let (batch, m, n, k) = self.sizes();
        let work = m.checked_mul(n)?.checked_mul(k)?.checked_mul(batch)?;
        if work < MIN_WORK || m.min(n) < 4 || k < 4 {
            return None;
        }
        // The columns are those that neighbouring work-items store.
        let other = self.clone().oriented(!self.swap);
        let c = match self.unit_columns(g) || !other.unit_columns(g) {
            true => self.clone(),
            false => other,
        };
        let operands = c.stored_types(g);
        // How many elements each operand loads at a time, for vectors of at most so many.
        let vectors = c.sides().map(|(list, x)| {
            let value = stored(g, x);
            side_vector(g, &c, list, value, SIDE).1
        });
        let mut best: Option<(f64, Blocking)> = None;
        let mut consider = |mut block: Blocking| {
            let kept = block.mma.map_or(operands, |d| d.operands);
            block.parts = c.parts(&block, kept, target);
            if let Some(cycles) = c.cycles(&block, kept, &vectors, target) {
                let cost = match block.mma {
                    Some(_) => cycles / MATRIX_LEEWAY,
                    None => cycles,
                };
                if best.is_none_or(|b| cost < b.0) {
                    best = Some((cost, block));
                }
            }
        };
        let matrix = |d: &&MmaDesc| {
            d.fragments.is_some()
                && d.acc == c.acc
                && d.takes(operands)
                && d.keeps_sums()
                && (d.in_memory() || d.wave() as usize == target.wave)
        };
        let wide = [c.a, c.b].map(|x| (16 / g.dtype(stored(g, x)).size()).max(1));
        let vector = wide[0].max(wide[1]) as u32;
        let base = Blocking {
            along_rows: 1,
            along_cols: 1,
            rows: 1,
            cols: 1,
            depth: 1,
            parts: 1,
            vector,
            slabs: 2,
            boxes: false,
            mma: None,
            acc: c.acc,
            swap: c.swap,
        };
        for d in target.mma.iter().filter(matrix) {
            c.matrix_blocks(g, target, d, base, &mut consider);
        }
        plain_blocks(base, &mut consider);
        Some(best?.1)
    }

    /// What the operand of each side is, and its ranges.
    fn sides(&self) -> [(&[RangeInfo], Id); 2] {
        [(&self.rows, self.a), (&self.cols, self.b)]
    }

    /// Whether copies beside the warps bring both operands: what is as it is in memory.
    fn copied(&self, g: &Graph, d: &MmaDesc) -> bool {
        let mut sides = self.sides().into_iter().zip(d.operands);
        sides.all(|((list, x), operand)| {
            let value = stored(g, x);
            let (along, vector) = side_vector(g, self, list, value, SIDE);
            let turned = is_turned(d, along);
            g.dtype(value) == operand && is_copied(g, value, (along, vector), turned)
        })
    }

    /// Whether the hardware copies boxes of both operands.
    fn boxed(&self, g: &Graph, d: &MmaDesc) -> bool {
        let mut sides = self.sides().into_iter().zip(d.operands);
        sides.all(|((list, x), operand)| {
            let value = stored(g, x);
            let (along, _) = side_vector(g, self, list, value, SIDE);
            let turned = is_turned(d, along);
            g.dtype(value) == operand
                && (along == Along::Side) == turned
                && tensor(g, self, list, value, turned).is_some()
        })
    }

    /// The blocks of a matrix instruction.
    fn matrix_blocks(
        &self,
        g: &Graph,
        target: &Target,
        d: &MmaDesc,
        base: Blocking,
        consider: &mut impl FnMut(Blocking),
    ) {
        let depths = match d.in_memory() {
            // Whole rows.
            true => [1, 2, 4].map(|rows| rows * Rows::width(d.operands[0]) as u32),
            false => [16, 32, 64],
        };
        let boxes = d.in_memory() && self.boxed(g, d);
        let copied = || d.in_memory() && target.is_nv() && self.copied(g, d);
        let most = if boxes || copied() { 4 } else { 2 };
        for (depth, slabs) in depths
            .iter()
            .flat_map(|&depth| (1..=most).rev().map(move |slabs| (depth, slabs)))
            .filter(|(depth, _)| depth % u32::from(d.k) == 0)
        {
            for (along_rows, along_cols) in powers(4, 4) {
                for (rows, cols) in powers(4, 4) {
                    consider(Blocking {
                        along_rows,
                        along_cols,
                        rows,
                        cols,
                        depth,
                        slabs,
                        boxes: boxes && slabs > 2,
                        mma: Some(*d),
                        ..base
                    });
                }
            }
        }
    }

    /// Parts of the sum, so that no compute unit is without work, and none is so long that it loses digits.
    fn parts(&self, block: &Blocking, operands: [DType; 2], target: &Target) -> u32 {
        let (batch, m, n, k) = self.sizes();
        let [rows, cols] = block.extent();
        let groups = batch
            .saturating_mul(up(m, rows))
            .saturating_mul(up(n, cols));
        let wanted = (target.cores as i64 / groups.max(1)).min(k / MIN_PART);
        // What the parts take in memory is no more than the operands.
        let room = k.saturating_mul(m.saturating_add(n)) / m.saturating_mul(n).max(1);
        let digits = match operands.contains(&self.acc) {
            true => up(k, MAX_PART).min(room),
            false => 1,
        };
        wanted.clamp(1, 64).max(digits).min(i64::from(u16::MAX)) as u32
    }

    /// Cycles of a launch, or `None` if the target has no room for the block.
    fn cycles(
        &self,
        t: &Blocking,
        operands: [DType; 2],
        vectors: &[i64; 2],
        target: &Target,
    ) -> Option<f64> {
        let costs = target.groups.as_ref()?;
        let (batch, m, n, k) = self.sizes();
        let [rows, cols] = t.extent();
        let items = t.items();
        let wave = target.wave as i64;
        let depth = i64::from(t.depth);
        let local = t.local_bytes(operands);
        if items > costs.max_items.min(target.max_items as i64)
            || local > target.max_local_bytes as i64
        {
            return None;
        }
        if items % wave != 0 || depth > k.max(8) * 2 {
            return None;
        }
        let long =
            t.mma.is_none() && depth * i64::from(t.rows) * i64::from(t.cols) > costs.max_products;
        if long {
            return None;
        }
        let bytes = |i: usize| operands[i].size() as i64;
        let [loads_a, loads_b] =
            [(rows, vectors[0]), (cols, vectors[1])].map(|(side, vector)| match t.boxes {
                true => 0,
                false => up(side * depth / vector, items),
            });
        let single: i64 = [(loads_a, vectors[0]), (loads_b, vectors[1])]
            .map(|(loads, vector)| if vector == 1 { loads } else { 0 })
            .iter()
            .sum();
        let most = costs.max_single_loads[usize::from(t.mma.is_some())];
        if loads_a + loads_b > costs.max_loads || single > most {
            return None;
        }
        let loaded = match t.early() {
            0 => {
                loads_a * words(vectors[0], operands[0]) + loads_b * words(vectors[1], operands[1])
            }
            _ => 0,
        };
        let Step {
            sums,
            read,
            products,
            fetched,
        } = Step::of(t, operands, costs, wave);
        let registers = sums + read + loaded + costs.other_registers;
        let waves = items / wave;
        if !fits_registers(t, (sums, registers, waves), costs, target) {
            return None;
        }
        let parts = f64::from(t.parts);
        let steps = up(up(k, depth), i64::from(t.parts));
        let groups = batch as f64 * (up(m, rows) * up(n, cols)) as f64 * parts;
        // How many groups are on a compute unit at the same time.
        let (resident, simds) = residents(target, registers, local, waves)?;
        let compute = (rows * cols * depth) as f64 / products;
        let moved = (rows * bytes(0) + cols * bytes(1)) as f64 * depth as f64;
        let busy = compute
            .max(fetched as f64 / costs.local_bytes + moved / costs.local_bytes)
            .max(moved / costs.memory_bytes)
            + 0.3 * (fetched as f64 / costs.local_bytes + moved / costs.memory_bytes)
            + (costs.step_issue + single as f64 * costs.address) * waves as f64 / simds;
        // A SIMD runs a wave, so a single group of one wave leaves most of a unit idle.
        let share = (waves as f64 * resident / simds).min(1.0);
        // With two slabs loads are under way while the group computes.
        let alone = match t.slabs {
            1 => busy + costs.step_latency,
            2 => busy.max(costs.step_latency),
            _ => busy.max(costs.step_latency / t.early() as f64),
        };
        let step = (busy / share).max(alone / resident);
        let rounds = (groups / target.cores as f64).max(1.0);
        let whole = (groups / target.cores as f64).ceil().max(1.0);
        let end = rows as f64 * cols as f64 * 4.0 / costs.memory_bytes;
        let adding = match t.parts {
            1 => 0.0,
            _ => {
                let results = batch as f64 * m as f64 * n as f64 * t.acc.size() as f64;
                costs.launch
                    + results * (parts * 2.0 + 1.0) / costs.memory_bytes / target.cores as f64
            }
        };
        Some((rounds * 0.5 + whole * 0.5) * (steps as f64 * step + end) + costs.launch + adding)
    }
}
