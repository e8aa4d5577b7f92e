//! What fences get ahead: values that wait in accumulators, and copies beside the work-items.

use super::{Item, Level, Linear};
use crate::error::Result;
use crate::ir::{Id, Op};
use crate::rewrite::toposort;

impl Linear<'_> {
    /// The stores of a fence, and what they have in the next iteration if it is got ahead.
    pub(super) fn fills(&self, fence: Id) -> (&[Id], &[Id]) {
        let src = self.src(fence);
        match self.op(fence) {
            Op::Fence { ahead, .. } => src.split_at(src.len() - usize::from(ahead)),
            _ => (src, &[]),
        }
    }

    /// The copies that a fence makes before its loop, iteration by iteration, and those of each iteration; `None` if it
    /// makes none.
    pub(super) fn copies(&self, fence: Id) -> Option<(std::slice::ChunksExact<'_, Id>, &[Id])> {
        let src = self.src(fence);
        match self.op(fence) {
            Op::Fence { early, .. } if early > 0 => {
                let each = src.len() / (usize::from(early) + 1);
                let (first, late) = src.split_at(src.len() - each);
                Some((first.chunks_exact(each), late))
            }
            _ => None,
        }
    }

    /// What a copy reads: places and gates.
    pub(super) fn copied(&self, store: Id) -> Vec<Id> {
        if let Op::Box { .. } = self.op(store) {
            // Counts and steps are the tensor's.
            let src = self.src(store);
            let at = src[4..].iter().step_by(3);
            return [src[1], src[3]].iter().chain(at).copied().collect();
        }
        let mut to = self.operands(store);
        if self.op(to[1]) != Op::Load {
            return to;
        }
        let load = to.remove(1);
        // Without a gate it has no alternative either.
        let from = self.operands(load);
        to.extend(from.into_iter().take(2));
        to
    }

    /// What a fence that fills ahead needs before and in its loop.
    pub(super) fn place_ahead(&mut self, fence: Id, block: Level) -> Result<()> {
        let Some(range) = block else {
            return self.invalid("a prefetching fence has no loop");
        };
        if let Some((first, late)) = self.copies(fence) {
            let of =
                |list: &[Id]| -> Vec<Id> { list.iter().flat_map(|&s| self.copied(s)).collect() };
            let (first, late) = (first.flat_map(of).collect::<Vec<_>>(), of(late));
            let early = Item::Early(fence);
            for operand in first {
                self.edge(early, self.parent(range), operand)?;
            }
            for operand in late {
                self.edge(Item::Node(fence), block, operand)?;
            }
            self.before
                .entry(Item::Loop(range))
                .or_default()
                .push(early);
            self.ahead.push((block, fence, Vec::new()));
            return Ok(());
        }
        let (stores, next) = self.fills(fence);
        let next = next.to_vec();
        let (mut first, mut places) = (Vec::new(), Vec::new());
        for &store in stores {
            let operands = self.operands(store);
            first.push(operands[1]);
            places.extend(
                operands
                    .iter()
                    .enumerate()
                    .filter(|o| o.0 != 1)
                    .map(|o| *o.1),
            );
        }
        for place in places {
            self.edge(Item::Node(fence), block, place)?;
        }
        let (early, late) = (Item::Early(fence), Item::Late(fence));
        for operand in first {
            self.edge(early, self.parent(range), operand)?;
        }
        self.before
            .entry(Item::Loop(range))
            .or_default()
            .push(early);
        for &operand in &next {
            self.edge(late, block, operand)?;
        }
        self.before.entry(late).or_default().push(Item::Node(fence));
        let mut values = Vec::new();
        for &value in &next {
            for n in toposort(self.input.g, value) {
                let item = Item::Node(n);
                let here = self.op(n) == Op::Load && self.block_of(n) == block;
                if here && !values.contains(&item) {
                    values.push(item);
                }
            }
        }
        self.ahead.push((block, fence, values));
        Ok(())
    }
}
