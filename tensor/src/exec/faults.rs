//! Indices out of range that only a kernel has seen. For each operation and size there is a word in
//! memory that the host reads at no cost; a kernel puts the index there, and whoever waits for results
//! finds it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hcq::Buffer;
use hcq::memory::{AllocSpec, MemoryKind};

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
    /// What each word is for.
    bounds: Vec<Bounds>,
    blocks: Vec<Buffer>,
}

impl Faults {
    fn words(&self) -> MutexGuard<'_, Words> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The word for indices in these bounds.
    pub(super) fn word(
        &self,
        bounds: &Bounds,
        alloc: impl FnOnce(AllocSpec) -> hcq::Result<Buffer>,
    ) -> Result<Buffer> {
        let mut words = self.words();
        let known = words.bounds.iter().position(|b| b == bounds);
        let at = known.unwrap_or(words.bounds.len());
        if at / BLOCK == words.blocks.len() {
            words.blocks.push(alloc(AllocSpec {
                kind: MemoryKind::Host,
                zeroed: true,
                ..AllocSpec::device((BLOCK * WORD) as u64)
            })?);
        }
        if known.is_none() {
            words.bounds.push(*bounds);
        }
        let offset = at % BLOCK * WORD;
        Ok(words.blocks[at / BLOCK].slice(offset as u64, WORD as u64)?)
    }

    /// The error of an index that a kernel has noted. From then on it is forgotten, and so are others
    /// that were noted beside it.
    pub(super) fn check(&self) -> Result<()> {
        let words = self.words();
        let mut found: Option<Error> = None;
        for (block, bounds) in words.blocks.iter().zip(words.bounds.chunks(BLOCK)) {
            let mut bytes = [0; BLOCK * WORD];
            let bytes = &mut bytes[..bounds.len() * WORD];
            block.read(0, bytes)?;
            for (i, (word, bounds)) in bytes.as_chunks().0.iter().zip(bounds).enumerate() {
                let index = i64::from_le_bytes(*word);
                if index != 0 {
                    block.write((i * WORD) as u64, &[0; WORD])?;
                    found.get_or_insert_with(|| bounds.error(index));
                }
            }
        }
        found.map_or(Ok(()), Err)
    }
}
