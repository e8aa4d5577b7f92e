//! Chooses the tile, the vectorised operand and the packed operands by estimating the cycles on one core.

use hashbrown::HashMap;

use super::{Contraction, Tile, WORD, kept, unit, up};
use crate::dtype::DType;
use crate::ir::{Graph, Id, Kernel, Op, RangeSets};
use crate::opt::RangeInfo;
use crate::rewrite::toposort;
use crate::symbolic::Lin;
use crate::symbolic::sum::gcd;
use crate::target::{MmaDesc, Target};

/// Multiplications below which a register tile costs more than it gains.
const MIN_WORK: i64 = 50_000;
/// The same of bytes, whose weights are packed once.
const MIN_BYTES: i64 = 16_000;
/// Bytes of a cache line.
const LINE: i64 = 64;
/// Lines of one set of a cache that are safe to use at a time.
const WAYS: i64 = 6;

/// Passes at most: each adds to what memory holds, and rounds.
const PASSES: i64 = 32;

/// Cycles below which one core is done before another one has come.
const ALONE: f64 = 8000.0;

/// Cycles to hand a stage to the cores and to wait for the last of them.
const STAGE: f64 = 5000.0;

/// How an operand is in memory, if it is read as it is.
struct OperandStrides {
    strides: HashMap<Id, i64>,
}

impl OperandStrides {
    /// `None` if the operand is more than a load, or not at one stride per range.
    fn of(g: &Graph, operand: Id, acc: DType, ranges: &[&[RangeInfo]]) -> Option<OperandStrides> {
        if g.op(operand) != Op::Load || g.dtype(operand) != acc {
            return None;
        }
        let &[_, index] = g.src(operand) else {
            return None;
        };
        let mut sets = RangeSets::build(g, index);
        let lin = Lin::of(g, index);
        let mut strides = HashMap::new();
        for r in ranges.iter().copied().flatten() {
            strides.insert(r.id, lin.stride(g, &mut sets, r.id)?);
        }
        Some(OperandStrides { strides })
    }

    fn stride(&self, r: &RangeInfo) -> i64 {
        self.strides.get(&r.id).copied().unwrap_or(0)
    }
}

/// What is known of the two operands in one orientation.
struct Operands {
    rows: Option<OperandStrides>,
    cols: Option<OperandStrides>,
    pack: [f64; 2],
    /// Bytes of the constants that it is made of alone.
    constant: [Option<usize>; 2],
}

/// Cycles per packed element: a copy of vectors, a gather along the summed ranges, or anything.
fn pack_cost(g: &Graph, operand: Id, side: &[RangeInfo], summed: &[RangeInfo]) -> f64 {
    let mut worst: f64 = 0.3;
    for n in toposort(g, operand) {
        if g.op(n) != Op::Load {
            continue;
        }
        let index = g.src(n)[1];
        let gated = g.src(n).len() > 2;
        let last = summed.last().map_or(&[][..], std::slice::from_ref);
        let cost = if unit(g, index, side) && !gated {
            0.3
        } else if unit(g, index, last) && !gated {
            1.0
        } else {
            2.0
        };
        worst = worst.max(cost);
    }
    worst
}

/// Bytes of the parameters below an operand that reads constants, and nothing else.
fn constants(kernel: &Kernel, operand: Id) -> Option<usize> {
    let g = &kernel.graph;
    let mut slots = Vec::new();
    for n in toposort(g, operand) {
        if let Op::Param { slot, .. } = g.op(n) {
            slots.push(usize::from(slot));
        }
    }
    let params = slots.iter().map(|&slot| kernel.params.get(slot));
    let bytes = params.map(|p| p.filter(|p| p.constant).map(|p| p.len * p.dtype.size()));
    let bytes: Option<usize> = bytes.sum();
    bytes.filter(|_| !slots.is_empty())
}

impl Operands {
    fn of(c: &Contraction, kernel: &Kernel) -> Operands {
        let g = &kernel.graph;
        let ranges = [&c.batch[..], &c.rows, &c.cols, &c.summed];
        let rows = OperandStrides::of(g, c.a, c.acc, &ranges);
        let cols = OperandStrides::of(g, c.b, c.acc, &ranges).filter(|_| {
            g.src(c.b)
                .get(1)
                .is_some_and(|&index| unit(g, index, &c.cols))
        });
        Operands {
            rows,
            cols,
            pack: [
                pack_cost(g, c.a, &c.rows, &c.summed),
                pack_cost(g, c.b, &c.cols, &c.summed),
            ],
            constant: [c.a, c.b].map(|operand| constants(kernel, operand)),
        }
    }

    /// Whether the lines that a column of the row tile is in stay in the first level while the sum
    /// goes through them.
    fn rows_fit(&self, c: &Contraction, rows: i64) -> bool {
        let (Some(place), Some(inner)) = (&self.rows, c.rows.last()) else {
            return false;
        };
        let bytes = place
            .stride(inner)
            .abs()
            .saturating_mul(c.acc.size() as i64);
        if bytes * rows <= 8 * LINE {
            return true;
        }
        // Whole lines apart, and each used for neighbours along the sum.
        let along = c.summed.last().is_some_and(|k| place.stride(k) == 1);
        let sets = 64 / gcd(up(bytes, LINE), 64).max(1);
        along && rows <= sets * WAYS
    }

    /// Whether the vectors of one tile of columns stay in the second level while the rows go by.
    fn cols_fit(&self, c: &Contraction, k: i64, vectors: i64, target: &Target) -> bool {
        let (Some(place), Some(inner)) = (&self.cols, c.summed.last()) else {
            return false;
        };
        let bytes = place
            .stride(inner)
            .abs()
            .saturating_mul(c.acc.size() as i64);
        let sets = target.l2_bytes as i64 / LINE / 8;
        let used = sets / gcd(up(bytes, LINE), sets).max(1);
        // One line more for a vector that is not aligned.
        c.summed.len() == 1 && k.saturating_mul(vectors + 1) <= used * WAYS * vectors.max(1)
    }
}

struct Candidate {
    cycles: f64,
    rows: i64,
    vectors: i64,
    direct: [bool; 2],
    swap: bool,
}

impl Contraction {
    /// The tile that is expected to be the fastest, or `None` if a plain loop nest is.
    pub fn choose(&self, kernel: &Kernel, target: &Target) -> Option<Tile> {
        let (batch, m, n, k) = self.sizes();
        let work = m.checked_mul(n)?.checked_mul(k)?.checked_mul(batch)?;
        if let Some(tile) = self.choose_words(&kernel.graph, target, work) {
            return Some(tile);
        }
        if work < MIN_WORK || m.min(n) < 4 || m.max(n) < 8 || k < 4 {
            return None;
        }
        let desc = target
            .mma
            .iter()
            .find(|d: &&MmaDesc| d.acc == self.acc && d.fragments.is_none())?;
        let mut best: Option<Candidate> = None;
        for swap in [self.swap, !self.swap] {
            let c = self.clone().oriented(swap);
            let operands = Operands::of(&c, kernel);
            for direct in [[true, true], [true, false], [false, true], [false, false]] {
                c.candidates(&kernel.graph, target, desc, &operands, direct, &mut best);
            }
        }
        let best = best?;
        self.clone()
            .oriented(best.swap)
            .tile(target, &best, k, false)
    }

    fn candidates(
        &self,
        g: &Graph,
        target: &Target,
        desc: &MmaDesc,
        operands: &Operands,
        direct: [bool; 2],
        best: &mut Option<Candidate>,
    ) {
        let (batch, m, n, k) = self.sizes();
        let lanes = target.lanes(self.acc) as i64;
        if n < lanes.min(8) {
            return;
        }
        let contiguous = self.unit_columns(g);
        let any = direct[0] || direct[1];
        let inner = self.rows.last().map_or(1, |r| r.extent);
        let budget = target.vector_regs as i64 - 1;
        for vectors in 1..=4i64 {
            let cols = vectors * lanes;
            // Without passes the whole sum of a tile of columns has to stay in the second level.
            let panel = k
                .saturating_mul(cols)
                .saturating_mul(self.acc.size() as i64);
            let large = any && panel > target.l2_bytes as i64 / 4 * 3;
            if large || direct[1] && !operands.cols_fit(self, k, vectors, target) {
                continue;
            }
            let most = (budget - vectors) / vectors;
            for rows in 1..=most.min(i64::from(desc.m) * 2).min(m) {
                if direct[0] && !operands.rows_fit(self, rows) {
                    continue;
                }
                let padded = [up(m, rows) * rows, up(n, cols) * cols];
                let steps = batch as f64 * up(m, rows) as f64 * up(n, cols) as f64 * k as f64;
                let products = (rows * vectors) as f64;
                // Four cycles of latency on two units need eight independent sums.
                let latency = (products / 8.0).min(1.0);
                let mut cycles = steps * (products + 0.25 * (rows + vectors) as f64) / latency;
                if direct[0] && inner % rows != 0 {
                    // Each row has an address of its own.
                    cycles *= 1.06;
                }
                if direct[1] {
                    // Vectors across two lines, and masks at the end.
                    cycles *= 1.03;
                }
                let elements = |i: usize| (batch * k * padded[i]) as f64;
                let ahead = [0, 1].map(|i| {
                    // Weights that the caches hold are as fast where they are.
                    let read = operands.constant[i].filter(|&read| read > target.l2_bytes / 2);
                    let bytes = elements(i) * self.acc.size() as f64;
                    read.is_some_and(|read| kept(bytes as usize, read))
                });
                // Others are read once per tile of the other side, from far away and by short pieces.
                if (0..2).any(|i| ahead[i] && direct[i]) {
                    continue;
                }
                for i in (0..2).filter(|&i| !ahead[i] && !direct[i]) {
                    cycles += elements(i) * operands.pack[i] + STAGE;
                }
                let results = (batch * m * n) as f64;
                cycles += results * if contiguous { 0.1 } else { 1.6 };
                if !any && panel > target.l2_bytes as i64 / 4 {
                    // In passes, with the sums in memory between them.
                    cycles += 2.0 * STAGE + results * 3.0;
                }
                if best.as_ref().is_none_or(|b| cycles < b.cycles * 0.9999) {
                    *best = Some(Candidate {
                        cycles,
                        rows,
                        vectors,
                        direct,
                        swap: self.swap,
                    });
                }
            }
        }
    }

    /// The tile for operands of 8 bits. Fewer than four rows are worth it where the other operand is a weight, which
    /// is packed once.
    fn choose_words(&self, g: &Graph, target: &Target, work: i64) -> Option<Tile> {
        let bytes = self.bytes?;
        let (.., elements) = self.sizes();
        if work < MIN_BYTES || elements < 2 * WORD {
            return None;
        }
        let k = up(elements, WORD);
        let lanes = target.lanes(self.acc) as i64;
        let mut best: Option<Candidate> = None;
        for swap in [self.swap, !self.swap] {
            let c = self.clone().oriented(swap);
            let whole = [0, 1].map(|side| bytes.whole(side ^ usize::from(swap != self.swap)));
            let (batch, m, n, _) = c.sizes();
            if n < lanes.min(8) || m < 4 && !whole[1] || m.min(n) < 4 && k < lanes {
                continue;
            }
            let costs = [
                pack_cost(g, c.a, &c.rows, &c.summed),
                pack_cost(g, c.b, &c.cols, &c.summed),
            ];
            let contiguous = c.unit_columns(g);
            // What the products of other instructions than the best ones need for themselves.
            let budget = target.vector_regs as i64 * 3 / 4;
            for vectors in 1..=4i64 {
                let cols = vectors * lanes;
                for rows in 1..=((budget - vectors) / vectors).min(m) {
                    let products = (rows * vectors) as f64;
                    let steps = (batch * up(m, rows) * up(n, cols) * k) as f64;
                    let latency = (products / 8.0).min(1.0);
                    let mut cycles = steps * (products + 0.25 * (rows + vectors) as f64) / latency;
                    let padded = [up(m, rows) * rows, up(n, cols) * cols];
                    for side in [0, 1] {
                        if !whole[side] {
                            let each = costs[side] * WORD as f64;
                            cycles += STAGE + (batch * k * padded[side]) as f64 * each;
                        }
                    }
                    cycles += (batch * m * n) as f64 * if contiguous { 0.1 } else { 1.6 };
                    if best.as_ref().is_none_or(|b| cycles < b.cycles * 0.9999) {
                        best = Some(Candidate {
                            cycles,
                            rows,
                            vectors,
                            direct: [false; 2],
                            swap,
                        });
                    }
                }
            }
        }
        let best = best?;
        self.clone()
            .oriented(best.swap)
            .tile(target, &best, k, true)
    }

    /// The blocks around a register tile.
    fn tile(&self, target: &Target, best: &Candidate, k: i64, bytes: bool) -> Option<Tile> {
        let (batch, m, n, _) = self.sizes();
        let lanes = target.lanes(self.acc) as i64;
        let (rows, cols) = (best.rows, best.vectors * lanes);
        let each = self.acc.size() as i64;
        let any = best.direct[0] || best.direct[1];
        // A sliver of columns stays in the second level; above that the sum is done in passes.
        let most = (target.l2_bytes as i64 / 4 / (cols * each)).clamp(64, 1024);
        let passes = if any { 1 } else { up(k, most).min(PASSES) };
        let depth = up(k, passes);
        let row_tiles = up(m, rows);
        let col_tiles = up(n, cols);
        // A block of rows stays in the second level while the columns go by.
        let fit = (target.l2_bytes as i64 / 2 / (rows * depth * each)).clamp(1, row_tiles);
        let cores = match bytes && best.cycles < ALONE {
            true => 1,
            false => target.cores as i64,
        };
        let (row_block, col_block) = blocks(batch, [row_tiles, col_tiles], fit, cores);
        Some(Tile {
            rows: u32::try_from(rows).ok()?,
            cols: u32::try_from(cols).ok()?,
            lanes: u32::try_from(lanes).ok()?,
            depth: u32::try_from(depth).ok()?,
            row_block: u32::try_from(row_block).ok()?,
            col_block: u32::try_from(col_block).ok()?,
            acc: self.acc,
            bytes,
            swap: self.swap,
            direct_rows: best.direct[0],
            direct_cols: best.direct[1],
        })
    }
}

/// Tiles per group along rows and columns: those with which the cores are done the earliest. At most
/// `most` rows of tiles are a group.
fn blocks(batch: i64, tiles: [i64; 2], most: i64, cores: i64) -> (i64, i64) {
    let cores = cores.max(1);
    let mut best = (f64::INFINITY, 1, 1);
    for rows in (1..=32).map(|n| up(tiles[0], n)).filter(|&b| b <= most) {
        for cols in (1..=32).map(|n| up(tiles[1], n)) {
            let groups = batch * up(tiles[0], rows) * up(tiles[1], cols);
            let rounds = up(groups, cores);
            // A group begins with operands that are not in the caches yet.
            let reuse = 1.0 + 0.05 / rows as f64 + 0.05 / cols as f64;
            let mut time = rounds as f64 * ((rows * cols) as f64 * reuse + 0.2);
            if cores > 1 && rounds < 4 {
                // A core that has something else to do for a while holds the others up.
                time *= 1.0 + 0.02 * (4 - rounds) as f64;
            }
            if time < best.0 {
                best = (time, rows, cols);
            }
        }
    }
    if best.0.is_infinite() {
        // Very many rows of tiles that are large: their number decides.
        let rows = most.clamp(1, tiles[0]);
        return (rows, up(tiles[1], up(32, up(tiles[0], rows)).max(1)).max(1));
    }
    (best.1, best.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_leave_no_core_idle() {
        for cores in [1, 2, 3, 8] {
            for tiles in [[1, 7], [57, 13], [224, 2], [9, 262], [4000, 300]] {
                let (rows, cols) = blocks(1, tiles, 20, cores);
                assert!((1..=20).contains(&rows) && (1..=tiles[1]).contains(&cols));
                let groups = up(tiles[0], rows) * up(tiles[1], cols);
                let time = up(groups, cores) * rows * cols * cores;
                let work = tiles[0] * tiles[1];
                if work >= 64 * cores {
                    assert!(
                        time <= work * 6 / 5,
                        "{tiles:?} on {cores}: {rows} by {cols}"
                    );
                }
            }
        }
    }
}
