//! A compiled kernel as bytes, for the compile cache: a hit skips everything between the kernel and
//! the object code.
//!
//! The format has no version: the key of an entry covers the code of this crate, and malformed bytes are a miss.
//! The name of the kernel is in neither the entry nor the key.

use std::sync::Arc;

use crate::opt::contract::ScratchSpec;
use crate::resources::Resources;
use crate::stage::{Stage, StageArg};

/// What of a compiled kernel is worth keeping.
pub(crate) struct CacheEntry {
    /// Their names are without that of the kernel.
    pub stages: Vec<Stage>,
    pub scratch: Vec<ScratchSpec>,
    /// The steps that were applied, per stage.
    pub opts: Vec<String>,
    /// What each stage takes of a GPU.
    pub resources: Vec<Resources>,
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, n: u64) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn small<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.number()?).ok()
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let n = self.small()?;
        self.take(n)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    /// The length of a list; each element has at least a byte.
    fn length(&mut self) -> Option<usize> {
        self.small().filter(|&n| n <= self.0.len())
    }

    fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        (0..self.length()?).map(|_| one(self)).collect()
    }
}

impl CacheEntry {
    /// As bytes.
    pub fn encode(&self) -> Arc<[u8]> {
        let mut w = Writer(Vec::new());
        w.number(self.scratch.len() as u64);
        for s in &self.scratch {
            w.number(s.bytes as u64);
            w.number(s.align as u64);
        }
        w.number(self.opts.len() as u64);
        for text in &self.opts {
            w.bytes(text.as_bytes());
        }
        w.number(self.resources.len() as u64);
        for r in &self.resources {
            for n in r.words() {
                w.number(u64::from(n));
            }
        }
        w.number(self.stages.len() as u64);
        for stage in &self.stages {
            w.bytes(stage.name.as_bytes());
            w.bytes(&stage.object);
            w.bytes(&stage.module);
            w.bytes(stage.entry.as_bytes());
            w.number(stage.args.len() as u64);
            for (arg, &written) in stage.args.iter().zip(&stage.writes) {
                let (kind, n) = match *arg {
                    StageArg::Param(n) => (0u64, u64::from(n)),
                    StageArg::Scratch(n) => (1, u64::from(n)),
                    StageArg::Var(n) => (2, u64::from(n)),
                    StageArg::Number(n) => (3, n as u64),
                };
                w.number(kind | u64::from(written) << 8);
                w.number(n);
            }
            w.bytes(&stage.content);
            for n in stage.grid.iter().chain(&stage.block) {
                w.number(u64::from(*n));
            }
            w.number(u64::from(stage.local_bytes));
            w.number(stage.flops.to_bits());
            w.number(stage.bytes.to_bits());
        }
        w.0.into()
    }

    /// From bytes; `None` if anything is not as [`CacheEntry::encode`] makes it.
    pub fn decode(bytes: &[u8]) -> Option<CacheEntry> {
        let mut r = Reader(bytes);
        let scratch = r.list(|r| {
            Some(ScratchSpec {
                bytes: r.small()?,
                align: r.small()?,
            })
        })?;
        let opts = r.list(Reader::text)?;
        let resources = r.list(|r| {
            let mut words = [0; 7];
            for word in &mut words {
                *word = r.small()?;
            }
            Some(Resources::of_words(words))
        })?;
        let stages = r.list(|r| {
            let (name, object) = (r.text()?, r.bytes()?.into());
            let (module, entry) = (r.bytes()?.try_into().ok()?, r.text()?);
            let args = r.list(|r| {
                let word = r.number()?;
                let n = r.number()?;
                let slot = u16::try_from(n).ok();
                let arg = match word & 0xff {
                    0 => StageArg::Param(slot?),
                    1 => StageArg::Scratch(slot?),
                    2 => StageArg::Var(slot?),
                    3 => StageArg::Number(n as i64),
                    _ => return None,
                };
                Some((arg, word >> 8 & 1 == 1))
            })?;
            let (args, writes) = args.into_iter().unzip();
            let content = r.bytes()?.try_into().ok()?;
            let mut three = || Some([r.small()?, r.small()?, r.small()?]);
            let (grid, block) = (three()?, three()?);
            Some(Stage {
                name,
                object,
                module,
                entry,
                args,
                writes,
                content,
                grid,
                block,
                local_bytes: r.small()?,
                flops: f64::from_bits(r.number()?),
                bytes: f64::from_bits(r.number()?),
            })
        })?;
        let whole = r.0.is_empty() && !stages.is_empty();
        whole.then_some(CacheEntry {
            stages,
            scratch,
            opts,
            resources,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_back_and_cut_ones_do_not() {
        let kept = CacheEntry {
            stages: vec![Stage {
                name: "a".into(),
                object: vec![1u8, 2, 3].into(),
                module: [9; 32],
                entry: "a_0".into(),
                args: vec![
                    StageArg::Param(1),
                    StageArg::Scratch(2),
                    StageArg::Var(0),
                    StageArg::Number(-5),
                ],
                writes: vec![false, true, false, false],
                content: [7; 32],
                grid: [4, 1, 1],
                block: [1, 1, 1],
                local_bytes: 0,
                flops: 2.5,
                bytes: 12.0,
            }],
            scratch: vec![ScratchSpec {
                bytes: 640,
                align: 64,
            }],
            opts: vec!["vec(0, 16)".into()],
            resources: vec![Resources::of_words([1, 2, 3, 4, 5, 6, 7])],
        };
        let bytes = kept.encode();
        let again = CacheEntry::decode(&bytes).unwrap();
        assert_eq!(again.encode(), bytes);
        assert_eq!(again.stages[0].args, kept.stages[0].args);
        assert_eq!(again.stages[0].writes, kept.stages[0].writes);
        let stage = &again.stages[0];
        assert_eq!((stage.flops, stage.bytes), (2.5, 12.0));
        assert_eq!(again.resources, kept.resources);
        for n in 0..bytes.len() {
            assert!(CacheEntry::decode(&bytes[..n]).is_none(), "{n} bytes");
        }
        assert!(CacheEntry::decode(&[&bytes[..], &[0]].concat()).is_none());
    }
}
