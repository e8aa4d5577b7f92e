//! Reports out-of-range indices found by kernels. Each operation and size has a word in host-visible memory; a
//! kernel writes the index there, and the next wait for results checks it.

use hashbrown::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use hcq::Buffer;
use hcq::memory::{AllocSpec, MemoryKind};
use hcq::sync::lock;

use crate::error::{Error, Result};
use crate::graph::Bounds;

/// Bytes of a word.
const WORD: usize = 8;

/// Words of a block.
const BLOCK: usize = 512;

/// The words of a device.
#[derive(Default)]
pub(super) struct Faults(Mutex<Words>);

#[derive(Default)]
struct Words {
    words: Vec<Word>,
    known: HashMap<Bounds, usize>,
    blocks: Vec<Buffer>,
}

struct Word {
    /// What it is for.
    bounds: Bounds,
    /// Whoever may still name it in a kernel.
    users: Weak<Buffer>,
}

impl Faults {
    fn words(&self) -> MutexGuard<'_, Words> {
        lock(&self.0)
    }

    /// The word for indices in these bounds. `is_busy` says whether work under way may write the word at an address.
    pub(super) fn word(
        &self,
        bounds: &Bounds,
        alloc: impl FnOnce(AllocSpec) -> hcq::Result<Buffer>,
        is_busy: impl Fn(u64) -> bool,
    ) -> Result<Arc<Buffer>> {
        let mut words = self.words();
        if let Some(&at) = words.known.get(bounds) {
            return words.at(at);
        }
        // Sizes that grow from call to call would else have a word each, for good.
        if words.words.len() >= BLOCK
            && let Some(at) = words.free(is_busy)?
        {
            let old = std::mem::replace(&mut words.words[at].bounds, *bounds);
            words.known.remove(&old);
            words.known.insert(*bounds, at);
            return words.at(at);
        }
        let at = words.words.len();
        if at / BLOCK == words.blocks.len() {
            words.blocks.push(alloc(AllocSpec {
                kind: MemoryKind::Host,
                zeroed: true,
                ..AllocSpec::device((BLOCK * WORD) as u64)
            })?);
        }
        words.words.push(Word {
            bounds: *bounds,
            users: Weak::new(),
        });
        words.known.insert(*bounds, at);
        words.at(at)
    }

    /// The error of an index that a kernel has noted. From then on it is forgotten, and so are others
    /// that were noted beside it.
    pub(super) fn check(&self) -> Result<()> {
        let words = self.words();
        let mut found: Option<Error> = None;
        for (block, of_block) in words.blocks.iter().zip(words.words.chunks(BLOCK)) {
            let mut bytes = [0; BLOCK * WORD];
            let bytes = &mut bytes[..of_block.len() * WORD];
            block.read(0, bytes)?;
            for (i, (noted, word)) in bytes.as_chunks().0.iter().zip(of_block).enumerate() {
                let index = i64::from_le_bytes(*noted);
                if index != 0 {
                    block.write((i * WORD) as u64, &[0; WORD])?;
                    found.get_or_insert_with(|| word.bounds.error(index));
                }
            }
        }
        found.map_or(Ok(()), Err)
    }
}

impl Words {
    /// The buffer of a word.
    fn at(&mut self, at: usize) -> Result<Arc<Buffer>> {
        if let Some(buffer) = self.words[at].users.upgrade() {
            return Ok(buffer);
        }
        let offset = at % BLOCK * WORD;
        let buffer = Arc::new(self.blocks[at / BLOCK].slice(offset as u64, WORD as u64)?);
        self.words[at].users = Arc::downgrade(&buffer);
        Ok(buffer)
    }

    /// A word that no tensor has, no kernel has written and none under way may write, if there is one.
    fn free(&self, is_busy: impl Fn(u64) -> bool) -> Result<Option<usize>> {
        for (at, word) in self.words.iter().enumerate() {
            if word.users.strong_count() > 0 {
                continue;
            }
            let (block, offset) = (&self.blocks[at / BLOCK], (at % BLOCK * WORD) as u64);
            // First: a kernel that ends between the two looks has written by the second one.
            if is_busy(block.va().0 + offset) {
                continue;
            }
            let mut noted = [0; WORD];
            block.read(offset, &mut noted)?;
            if noted == [0; WORD] {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
}
