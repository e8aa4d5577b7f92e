//! The CPU's cache before memory that is write-back and that the GPU does not snoop.
//!
//! The program has pages of its own mapped, or memory of its own imported, which stand for what the CPU sees. They and
//! DRAM meet when the cache is cleaned or invalidated, whole lines at once. What was there the last time tells which lines the program has written
//! since: these are dirty.
//!
//! Source: arm64, the domain of `dma_sync_sg_for_device` and `_for_cpu` (KGSL kgsl_sharedmem.c, `_dma_cache_op`): clean
//! writes dirty lines back, invalidate drops lines.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use hcq::sync::lock;
use twin::errno::Result;
use twin::host::{Mapping, PAGE};

use super::LINE;

type Page = [u8; PAGE as usize];

/// See the front page.
pub struct CpuCache {
    seen: Arc<Mapping>,
    /// Pages as CPU and DRAM had them when they last met; zeros where there is none.
    met: Mutex<BTreeMap<u64, Box<Page>>>,
}

/// What a whole line was written over or dropped.
pub type Lines = Vec<u64>;

impl CpuCache {
    /// Of zeroed memory.
    ///
    /// # Errors
    /// The host has no memory left.
    pub fn new(bytes: u64) -> Result<CpuCache> {
        Ok(CpuCache::over(Mapping::new(bytes)?))
    }

    /// Of memory that the program has, before memory of zeros.
    pub fn over(seen: Mapping) -> CpuCache {
        CpuCache {
            seen: Arc::new(seen),
            met: Mutex::default(),
        }
    }

    /// What the program maps.
    pub fn seen(&self) -> &Arc<Mapping> {
        &self.seen
    }

    /// Calls `each` for the lines of a range, by page: where, what the CPU sees, and what there was when they met.
    fn lines(&self, at: u64, bytes: u64, mut each: impl FnMut(u64, &mut [u8], &mut [u8])) -> bool {
        let mut met = lock(&self.met);
        let end = at.saturating_add(bytes).min(self.seen.bytes());
        let mut now: Page = [0; PAGE as usize];
        for page in at / PAGE..end.div_ceil(PAGE) {
            if !self.seen.read(page * PAGE, &mut now) {
                return false;
            }
            let before = met
                .entry(page)
                .or_insert_with(|| Box::new([0; PAGE as usize]));
            let first = at.max(page * PAGE) / LINE * LINE;
            let last = end.min((page + 1) * PAGE);
            for line in (first..last).step_by(LINE as usize) {
                let inside = (line - page * PAGE) as usize;
                let range = inside..inside + LINE as usize;
                let (now, before) = (&mut now[range.clone()], &mut before[range]);
                each(line, now, before);
            }
        }
        true
    }

    /// Writes dirty lines to DRAM. Returns those that the GPU has changed, too, since they met: its data are gone.
    pub fn clean(&self, dram: &Mapping, at: u64, bytes: u64) -> Lines {
        let mut lost = Lines::new();
        let mut there = [0; LINE as usize];
        self.lines(at, bytes, |line, now, before| {
            if now == before {
                return;
            }
            if dram.read(line, &mut there) && there[..] != *before {
                lost.push(line);
            }
            dram.write(line, now);
            before.copy_from_slice(now);
        });
        lost
    }

    /// Drops lines: the CPU sees DRAM. Returns dirty ones: what the CPU had written there is gone.
    pub fn invalidate(&self, dram: &Mapping, at: u64, bytes: u64) -> Lines {
        let mut lost = Lines::new();
        let mut there = [0; LINE as usize];
        let seen = &self.seen;
        self.lines(at, bytes, |line, now, before| {
            if now != before {
                lost.push(line);
            }
            if dram.read(line, &mut there) {
                if there[..] != *now {
                    seen.write(line, &there);
                }
                before.copy_from_slice(&there);
            }
        });
        lost
    }

    /// The first dirty line of a range.
    pub fn dirty(&self, at: u64, bytes: u64) -> Option<u64> {
        let mut found = None;
        self.lines(at, bytes, |line, now, before| {
            if now != before {
                found.get_or_insert(line);
            }
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn byte(of: &Mapping, at: u64) -> u8 {
        let mut byte = [0];
        assert!(of.read(at, &mut byte));
        byte[0]
    }

    #[test]
    fn lines_are_dirty_until_they_are_cleaned() {
        let (cache, dram) = (CpuCache::new(PAGE).unwrap(), Mapping::new(PAGE).unwrap());
        assert_eq!(cache.dirty(0, PAGE), None);
        cache.seen().write(70, &[7]);
        assert_eq!(cache.dirty(0, PAGE), Some(64));
        assert_eq!((cache.dirty(0, 64), byte(&dram, 70)), (None, 0));
        assert!(cache.clean(&dram, 0, PAGE).is_empty());
        assert_eq!((cache.dirty(0, PAGE), byte(&dram, 70)), (None, 7));
    }

    #[test]
    fn the_cpu_sees_old_data_until_it_invalidates() {
        let (cache, dram) = (CpuCache::new(PAGE).unwrap(), Mapping::new(PAGE).unwrap());
        dram.write(128, &[9]);
        assert_eq!(byte(cache.seen(), 128), 0);
        assert!(cache.invalidate(&dram, 0, PAGE).is_empty());
        assert_eq!(byte(cache.seen(), 128), 9);
        // What was written meanwhile is dropped.
        cache.seen().write(129, &[3]);
        assert_eq!(cache.invalidate(&dram, 128, 1), [128]);
        assert_eq!(byte(cache.seen(), 129), 0);
    }

    #[test]
    fn a_dirty_line_goes_over_what_the_gpu_wrote_beside() {
        let (cache, dram) = (CpuCache::new(PAGE).unwrap(), Mapping::new(PAGE).unwrap());
        cache.seen().write(0, &[1]);
        dram.write(1, &[2]);
        assert_eq!(cache.clean(&dram, 0, PAGE), [0]);
        assert_eq!((byte(&dram, 0), byte(&dram, 1)), (1, 0));
    }
}
