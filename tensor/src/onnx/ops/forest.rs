//! Decision trees: all rows go down a tree at once, a level at a time, and then its leaves vote.

use codegen::DType;

use crate::graph::{Engine, Tensor};
use crate::onnx::error::{Result, unsupported, wrong};
use crate::ops::movement::PadMode;

/// Levels that trees may have.
const MOST_LEVELS: usize = 512;

/// Levels that a kernel goes down. Behind them trees that are done are left out.
const TOGETHER: usize = 4;

/// Trees whose votes are added for all rows before those of the next ones.
const PART: usize = 32;

/// Elements of the table of votes, leaves by targets.
const MOST_VOTES: usize = 1 << 26;

/// How an inner node compares a feature with its value, by the number that the format gives it.
pub(super) const LEQ: i64 = 0;
const MEMBER: i64 = 6;

/// Nodes of all trees: inner ones, then the leaves, which lead to themselves.
#[derive(Default)]
pub(super) struct Trees {
    pub(super) modes: Vec<i64>,
    pub(super) features: Vec<i64>,
    pub(super) values: Vec<f64>,
    /// Whether a feature that is no number goes the true way.
    pub(super) missing: Vec<bool>,
    pub(super) yes: Vec<i64>,
    pub(super) no: Vec<i64>,
    pub(super) roots: Vec<i64>,
    /// Number of inner nodes.
    pub(super) inner: usize,
    /// What the nodes with mode `MEMBER` hold, in their order.
    pub(super) members: Vec<Vec<f64>>,
    /// Leaf, target and weight.
    pub(super) votes: Vec<(usize, usize, f64)>,
}

/// How a number says where a row is in a tree and what comes next, so that a level reads it once: the place of
/// the node, leaves first, the feature that it looks at, whether the true way is that of a missing one, and the
/// mode. Each part has whole bits: what they can be is within the tables, which have powers of two of rows.
struct Layout {
    inner: usize,
    /// Number of leaves.
    ends: usize,
    place: u32,
    feature: u32,
}

impl Layout {
    fn of(trees: &Trees, width: usize) -> Result<Layout> {
        let bits = |n: usize| n.max(1).next_power_of_two().trailing_zeros();
        let layout = Layout {
            inner: trees.inner,
            ends: trees.modes.len() - trees.inner,
            place: bits(trees.modes.len()),
            feature: bits(width),
        };
        match layout.place + layout.feature {
            0..=56 => Ok(layout),
            _ => unsupported(format!(
                "trees of {} nodes over {width} features",
                trees.modes.len()
            )),
        }
    }

    /// Rows of the tables of nodes.
    fn size(&self) -> usize {
        1 << self.place
    }

    /// Rows of the tables of leaves.
    fn leaves(&self) -> usize {
        self.ends.max(1).next_power_of_two()
    }

    fn columns(&self) -> usize {
        1 << self.feature
    }

    /// The node at a place of the tables.
    fn node(&self, trees: &Trees, place: usize) -> Option<usize> {
        match place < self.ends {
            true => Some(self.inner + place),
            false => Some(place - self.ends).filter(|&n| n < trees.inner),
        }
    }

    fn entry(&self, trees: &Trees, n: i64) -> i64 {
        let n = n as usize;
        let place = match n < self.inner {
            true => self.ends + n,
            false => n - self.inner,
        } as i64;
        let rest = trees.features[n] | i64::from(trees.missing[n]) << self.feature;
        let rest = rest | trees.modes[n] << (self.feature + 1);
        place | rest << self.place
    }

    fn place(&self, at: &Tensor) -> crate::Result<Tensor> {
        at.bitand(self.size() as i64 - 1)
    }

    fn feature(&self, at: &Tensor) -> crate::Result<Tensor> {
        at.shr(i64::from(self.place))?
            .bitand(self.columns() as i64 - 1)
    }

    fn missing(&self, at: &Tensor) -> crate::Result<Tensor> {
        let bit = at.shr(i64::from(self.place + self.feature))?.bitand(1)?;
        bit.eq(1)
    }

    fn mode(&self, at: &Tensor) -> crate::Result<Tensor> {
        at.shr(i64::from(self.place + self.feature + 1))
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Aggregate {
    Average,
    Sum,
    Min,
    Max,
}

impl Trees {
    /// Adds `count` leaves after the inner nodes.
    pub(super) fn add_leaves(&mut self, count: usize) {
        for leaf in self.inner as i64..(self.inner + count) as i64 {
            self.modes.push(LEQ);
            self.features.push(0);
            self.values.push(0.0);
            self.missing.push(false);
            self.yes.push(leaf);
            self.no.push(leaf);
        }
    }

    /// The number of levels of the tree at a root; one that does not end is refused.
    fn levels(&self, root: i64) -> Result<usize> {
        let mut front = vec![root];
        for level in 0..=MOST_LEVELS {
            front.sort_unstable();
            front.dedup();
            front.retain(|&n| (n as usize) < self.inner);
            if front.is_empty() {
                return Ok(level);
            }
            front = front
                .iter()
                .flat_map(|&n| [self.yes[n as usize], self.no[n as usize]])
                .collect();
        }
        unsupported(format!(
            "trees of more than {MOST_LEVELS} levels, or with cycles"
        ))
    }

    /// The leaf that each row comes to in each tree, `[trees, n]`, the trees in any order.
    fn ends(&self, x: &Tensor, layout: &Layout) -> Result<Tensor> {
        let (engine, dtype) = (x.engine(), x.dtype());
        let mut trees: Vec<(usize, i64)> = Vec::with_capacity(self.roots.len());
        for &root in &self.roots {
            trees.push((self.levels(root)?, root));
        }
        // Those that are done are the last ones, and left out.
        trees.sort_by_key(|&(levels, _)| std::cmp::Reverse(levels));
        let entries = |list: &[i64]| -> crate::Result<Tensor> {
            let list: Vec<i64> = list.iter().map(|&n| layout.entry(self, n)).collect();
            Tensor::from_slice(engine, &list, &[list.len()])
        };
        let roots: Vec<i64> = trees.iter().map(|t| t.1).collect();
        // All rows go down a tree before the next one, whose nodes are then close by.
        let shape = [roots.len(), x.shape()[0]];
        let mut at = entries(&roots)?.unsqueeze(1)?.expand(&shape)?;
        // Where a node leads, the false way and then the true one.
        let both = (0..layout.size()).flat_map(|place| {
            let n = layout.node(self, place);
            n.map_or([0, 0], |n| [self.no[n], self.yes[n]])
        });
        let ways = entries(&both.collect::<Vec<i64>>())?;
        let values: Vec<f64> = (0..layout.size())
            .map(|place| layout.node(self, place).map_or(0.0, |n| self.values[n]))
            .collect();
        let values = Tensor::from_floats(engine, &values, &[values.len()], dtype)?;
        // By feature, a power of two of them: rows of one tree look at the same one at first.
        let more = (layout.columns() - x.shape()[1]) as isize;
        let x = x
            .t()?
            .pad(&[(0, more), (0, 0)], PadMode::Constant(0.into()))?;
        let x = x.contiguous()?;
        let mut modes = self.modes[..self.inner].to_vec();
        modes.sort_unstable();
        modes.dedup();
        let tracked = self.missing[..self.inner].contains(&true);
        let members = self.member_table(engine, dtype, layout)?;
        let mut done = Vec::new();
        let most = trees.first().map_or(0, |t| t.0);
        for level in 0..most {
            let active = trees.partition_point(|t| t.0 > level);
            let all = at.shape()[0];
            if level % TOGETHER == 0 && active < all {
                done.push(at.narrow(0, active, all - active)?);
                at = at.narrow(0, 0, active)?;
            }
            let place = layout.place(&at)?;
            let feature = x.pick(0, &layout.feature(&at)?)?;
            let value = values.rows(0, &place)?;
            let mut way: Option<Tensor> = None;
            for &mode in &modes {
                let this = match mode {
                    LEQ => feature.le(&value)?,
                    1 => feature.lt(&value)?,
                    2 => feature.ge(&value)?,
                    3 => feature.gt(&value)?,
                    4 => feature.eq(&value)?,
                    5 => feature.eq(&value)?.logical_not()?,
                    MEMBER => {
                        let sets = members.1.rows(0, &members.0.rows(0, &place)?)?;
                        sets.eq(&feature.unsqueeze(-1)?)?.any(&[-1], false)?
                    }
                    other => return wrong(format!("expected modes 0 to 6, found {other}")),
                };
                way = Some(match way {
                    Some(way) => layout.mode(&at)?.eq(mode)?.where_(&this, &way)?,
                    None => this,
                });
            }
            let Some(mut way) = way else { break };
            if tracked {
                let lost = feature.isnan()?.logical_and(&layout.missing(&at)?)?;
                way = way.logical_or(&lost)?;
            }
            at = ways.rows(0, &place.mul(2)?.add(&way.cast(DType::I64)?)?)?;
            if (level + 1) % TOGETHER == 0 {
                at = at.contiguous()?;
            }
        }
        done.push(at);
        let all = Tensor::cat(&done.iter().collect::<Vec<_>>(), 0)?;
        Ok(all.bitand((layout.leaves() - 1) as i64)?)
    }

    /// The votes for each target, `[n, targets]`.
    pub(super) fn scores(
        &self,
        x: &Tensor,
        targets: usize,
        aggregate: Aggregate,
    ) -> Result<Tensor> {
        let (rows, width) = (x.shape()[0], x.shape()[1]);
        let outside = |&f: &i64| usize::try_from(f).map_or(true, |f| f >= width);
        if self.inner > 0 && self.features[..self.inner].iter().any(outside) {
            return wrong(format!("expected features below {width} in all nodes"));
        }
        if self.roots.is_empty() {
            return wrong("expected at least one tree, found none");
        }
        let (engine, dtype) = (x.engine(), x.dtype());
        crate::ops::check_size("TreeEnsemble", &[rows, self.roots.len(), targets], dtype)?;
        let layout = Layout::of(self, width)?;
        let ends = self.ends(x, &layout)?;
        let leaves = layout.leaves();
        let empty = match aggregate {
            Aggregate::Average | Aggregate::Sum => 0.0,
            Aggregate::Min => f64::INFINITY,
            Aggregate::Max => f64::NEG_INFINITY,
        };
        let table = self.vote_table(leaves, targets, empty, aggregate)?;
        let table = Tensor::from_floats(engine, &table, &[leaves, targets], dtype)?;
        let over = |votes: &Tensor, axis: isize| match aggregate {
            Aggregate::Sum | Aggregate::Average => votes.sum(&[axis], false),
            Aggregate::Min => votes.min(&[axis], false),
            Aggregate::Max => votes.max(&[axis], false),
        };
        let votes = |ends: &Tensor| table.rows(0, ends);
        // A few trees for all rows, whose leaves the caches hold, and then the next ones.
        let (trees, parts) = (self.roots.len(), self.roots.len() / PART);
        let found = match parts {
            0 | 1 => over(&votes(&ends)?, 0)?,
            _ => {
                let whole = ends.narrow(0, 0, parts * PART)?;
                let whole = whole.reshape(&[parts, PART, rows])?;
                let rest = ends.narrow(0, parts * PART, trees - parts * PART)?;
                let mut sums = vec![over(&votes(&whole)?, 1)?.contiguous()?];
                if rest.numel() > 0 {
                    sums.push(over(&votes(&rest)?, 0)?.unsqueeze(0)?);
                }
                over(&Tensor::cat(&sums.iter().collect::<Vec<_>>(), 0)?, 0)?
            }
        };
        let found = match aggregate {
            Aggregate::Average => found.div(trees as f64)?,
            _ => found,
        };
        match empty {
            0.0 => Ok(found),
            // A target without votes has 0.
            empty => Ok(found.eq(empty)?.where_(0.0, &found)?),
        }
    }

    /// The weight of each leaf for each target.
    fn vote_table(
        &self,
        leaves: usize,
        targets: usize,
        empty: f64,
        aggregate: Aggregate,
    ) -> Result<Vec<f64>> {
        let size = leaves.checked_mul(targets).filter(|&n| n <= MOST_VOTES);
        let Some(size) = size else {
            return unsupported(format!("trees of {leaves} leaves for {targets} targets"));
        };
        let mut table = vec![empty; size];
        for &(leaf, target, weight) in &self.votes {
            let known = self.modes.len() - self.inner;
            if leaf >= known || target >= targets {
                return wrong(format!(
                    "expected votes of {known} leaves for {targets} targets, found leaf {leaf} \
                     for target {target}"
                ));
            }
            let place = &mut table[leaf * targets + target];
            *place = match aggregate {
                Aggregate::Average | Aggregate::Sum => *place + weight,
                Aggregate::Min => place.min(weight),
                Aggregate::Max => place.max(weight),
            };
        }
        Ok(table)
    }

    /// The number of the set of each node, and the sets, filled up with NaN, which is in none.
    fn member_table(
        &self,
        engine: &Engine,
        dtype: DType,
        layout: &Layout,
    ) -> Result<(Tensor, Tensor)> {
        let width = self.members.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let sets = self.members.len().max(1);
        let Some(size) = sets.checked_mul(width).filter(|&n| n <= MOST_VOTES) else {
            return unsupported(format!("{sets} sets of up to {width} members in trees"));
        };
        let mut table = vec![f64::NAN; size];
        for (row, set) in table.chunks_exact_mut(width).zip(&self.members) {
            row[..set.len()].copy_from_slice(set);
        }
        let mut next = -1;
        let numbers = self.modes.iter().map(|&mode| match mode {
            MEMBER => {
                next += 1;
                next
            }
            _ => 0,
        });
        let numbers: Vec<i64> = numbers.collect();
        if next >= self.members.len() as i64 {
            return wrong(format!(
                "expected a set for each of {} nodes, found {}",
                next + 1,
                self.members.len()
            ));
        }
        let numbers: Vec<i64> = (0..layout.size())
            .map(|place| layout.node(self, place).map_or(0, |n| numbers[n]))
            .collect();
        Ok((
            Tensor::from_slice(engine, &numbers, &[numbers.len()])?,
            Tensor::from_floats(engine, &table, &[sets, width], dtype)?,
        ))
    }
}
