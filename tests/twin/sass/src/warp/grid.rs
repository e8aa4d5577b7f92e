//! A grid: blocks, of which a GPU runs several at once.
//!
//! They run one after the other as long as each comes to its end; one that does not for a while lets others
//! begin, and they take turns, so that blocks may wait for one another. Which block runs when follows from
//! the program alone.

use std::collections::VecDeque;

use super::block::{Block, Launch};
use super::fault::Fault;
use super::memory::Memory;

/// How many instructions of its warps a block runs before others have a turn.
const TURN: u64 = 1 << 18;

/// The blocks of a launch, in the order of their numbers.
pub struct Grid<'a> {
    launch: Launch<'a>,
    size: [u32; 3],
    /// How many may have begun and not ended.
    resident: usize,
    /// The number of the next to begin.
    next: u64,
    running: VecDeque<Block<'a>>,
}

impl<'a> Grid<'a> {
    /// A grid of blocks, of which at most so many run at once.
    pub fn new(launch: Launch<'a>, size: [u32; 3], resident: usize) -> Self {
        Self {
            launch,
            size,
            resident: resident.max(1),
            next: 0,
            running: VecDeque::new(),
        }
    }

    /// Runs all blocks to their ends. Returns how many instructions their warps ran.
    ///
    /// # Errors
    /// As [`Block::run`], of the first block that has a fault; `limit` is for each block.
    pub fn run(&mut self, global: &mut dyn Memory, limit: u64) -> Result<u64, Fault> {
        let mut ran = 0;
        loop {
            if self.running.len() < self.resident
                && let Some(place) = self.place()
            {
                self.next += 1;
                self.running.push_front(Block::new(self.launch, place)?);
            }
            // The newest first: those before it have had a turn.
            let Some(mut block) = self.running.pop_front() else {
                return Ok(ran);
            };
            match block.turn(global, TURN, limit)? {
                Some(all) => ran += all,
                None => self.running.push_back(block),
            }
        }
    }

    /// Where the next block lies.
    fn place(&self) -> Option<[u32; 3]> {
        let [x, y, z] = self.size.map(u64::from);
        let [i, j, k] = [
            self.next % x.max(1),
            self.next / x.max(1) % y.max(1),
            self.next / (x * y).max(1),
        ];
        (x * y * z > self.next).then_some([i as u32, j as u32, k as u32])
    }
}
