//! Objects by address. Addresses begin where those of a process end, and are never used twice, so that an address of a freed
//! object is an error.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use hcq::sync::lock;

use crate::api::{Handle, Object};

/// The first address: processors of 64 bits have none of a process from here on.
pub const FIRST: u64 = 1 << 56;

/// Left free behind each range: what runs over an end is in no object.
const GAP: u64 = 64 << 10;

/// What ranges begin at a multiple of.
const PAGE: u64 = 4096;

static NEXT: AtomicU64 = AtomicU64::new(FIRST);

/// The objects of the process, by their first address.
static BLOCKS: Mutex<BTreeMap<u64, Weak<Block>>> = Mutex::new(BTreeMap::new());

/// An object of some bytes.
pub(crate) struct Block {
    range: Range<u64>,
    object: Object,
    /// The context that has it: queues of others cannot use it.
    context: Handle,
}

impl Block {
    pub(crate) fn new(range: Range<u64>, object: Object, context: Handle) -> Arc<Block> {
        let start = range.start;
        let block = Arc::new(Block {
            range,
            object,
            context,
        });
        lock(&BLOCKS).insert(start, Arc::downgrade(&block));
        block
    }

    pub(crate) fn handle(&self) -> Handle {
        self.object.handle()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        lock(&BLOCKS).remove(&self.range.start);
    }
}

/// Whether an address is one of these.
pub fn is_ours(at: u64) -> bool {
    at >= FIRST
}

/// Addresses for so many bytes, from a multiple of `align` on; none once there are no more.
pub fn reserve(bytes: u64, align: u64) -> Option<Range<u64>> {
    let align = align.max(PAGE);
    let mut range = None;
    let taken = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
        let start = next.checked_next_multiple_of(align)?;
        let end = start.checked_add(bytes)?;
        range = Some(start..end);
        end.checked_add(GAP)
    });
    taken.ok().and(range)
}

/// The object that some bytes lie in, and where in it.
///
/// # Errors
/// Why not: there is none, it ends before, another context has it.
pub(crate) fn find(at: u64, bytes: u64, context: Handle) -> Result<(Arc<Block>, usize), String> {
    let found = {
        let blocks = lock(&BLOCKS);
        let before = blocks.range(..=at).next_back();
        before.and_then(|(_, block)| block.upgrade())
    };
    let Some(block) = found.filter(|block| at < block.range.end) else {
        return Err(format!(
            "{at:#x} is in no buffer: it was freed, or never there"
        ));
    };
    let (start, end) = (block.range.start, block.range.end);
    if bytes > end - at {
        return Err(format!(
            "{bytes} bytes at {at:#x} do not fit into the buffer {start:#x}+{:#x}",
            end - start
        ));
    }
    if block.context != context {
        return Err(format!(
            "{at:#x} is memory of another device; copy it through the host"
        ));
    }
    let offset = usize::try_from(at - start).map_err(|e| e.to_string())?;
    Ok((block, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_aligned_apart_and_beyond_those_of_the_process() {
        let a = reserve(100, 1).unwrap();
        let b = reserve(1 << 20, 1 << 21).unwrap();
        assert!(is_ours(a.start) && a.start.is_multiple_of(PAGE));
        assert!(b.start >= a.end + GAP && b.start.is_multiple_of(1 << 21));
        assert_eq!(b.end - b.start, 1 << 20);
        assert!(!is_ours(0x7fff_ffff_ffff));
        assert!(reserve(u64::MAX, 1).is_none());
    }
}
