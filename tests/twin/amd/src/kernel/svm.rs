//! Shared virtual memory: ranges of the client's memory with attributes, which GPUs with access have
//! mapped.
//!
//! Source: Linux 6.12, amdkfd/kfd_svm.c, `svm_ioctl`, `svm_range_set_attr`, `svm_range_get_attr`. Pages
//! do not migrate: locations are kept and have no effect. GPUs have a range mapped as soon as it is
//! accessible, as with XNACK off.

use std::collections::BTreeMap;
use std::sync::Arc;

use drivers_spec::amd::kfd::{Alloc, SvmArgs, SvmAttribute, SvmFlags, svm};
use hcq::sync::lock;

use crate::mem::{Kind as MemKind, Object, Rights};

use super::errno::{Errno, Result};
use super::ioctl::Call;
use super::memory::mtype;
use super::{Kfd, Process};

const PAGE: u64 = 4096;
/// Flags of a range that was never told any.
const DEFAULT_FLAGS: SvmFlags = SvmFlags::HOST_ACCESS.union(SvmFlags::COHERENT);
/// Pages that migrate together, as a power of two: 2 MiB.
const DEFAULT_GRANULARITY: u32 = 9;

/// What a range is told of how it is mapped.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Attributes {
    flags: SvmFlags,
    /// By GPU: none, ACCESS, ACCESS_IN_PLACE or NO_ACCESS.
    access: BTreeMap<usize, u32>,
}

impl Default for Attributes {
    fn default() -> Self {
        Self {
            flags: DEFAULT_FLAGS,
            access: BTreeMap::new(),
        }
    }
}

/// Where the pages of a range shall be: kept, and without effect. Waves that run meanwhile notice nothing, as
/// where queues stop until pages have migrated (`svm_range_evict`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Hint {
    end: u64,
    preferred: u32,
    prefetch: u32,
    granularity: u32,
}

impl Hint {
    /// Of what was never told any.
    fn none(end: u64) -> Hint {
        Hint {
            end,
            preferred: svm::LOCATION_UNDEFINED,
            prefetch: svm::LOCATION_UNDEFINED,
            granularity: DEFAULT_GRANULARITY,
        }
    }
}

/// A range.
struct Range {
    end: u64,
    attributes: Attributes,
    /// On which GPUs it is mapped.
    mapped: Vec<usize>,
}

/// The ranges of a process, by their start. They do not overlap.
#[derive(Default)]
pub(super) struct Svm {
    ranges: BTreeMap<u64, Range>,
    /// Of the same bytes, in pieces of their own.
    hints: BTreeMap<u64, Hint>,
}

impl Svm {
    /// Whether a range has anything of these bytes.
    pub(super) fn overlaps(&self, start: u64, bytes: u64) -> bool {
        let end = start.saturating_add(bytes);
        self.ranges
            .range(..end)
            .next_back()
            .is_some_and(|(_, range)| range.end > start)
    }

    /// Whether ranges that are always mapped have all of these bytes.
    pub(super) fn holds(&self, start: u64, bytes: u64) -> bool {
        let (mut at, end) = (start, start.saturating_add(bytes));
        while at < end {
            match self.ranges.range(..=at).next_back() {
                Some((_, range))
                    if range.end > at
                        && !range.mapped.is_empty()
                        && range.attributes.flags.contains(SvmFlags::GPU_ALWAYS_MAPPED) =>
                {
                    at = range.end;
                }
                _ => return false,
            }
        }
        true
    }

    /// Takes out what lies in a range, cut to it; what sticks out stays, unmapped pieces apart.
    fn cut(&mut self, start: u64, end: u64) -> Vec<(u64, Range)> {
        let touched: Vec<u64> = self
            .ranges
            .range(..end)
            .rev()
            .take_while(|(_, range)| range.end > start)
            .map(|(&at, _)| at)
            .collect();
        touched
            .into_iter()
            .rev()
            .filter_map(|at| Some((at, self.ranges.remove(&at)?)))
            .collect()
    }

    /// Takes out the hints of a range, cut to it.
    fn cut_hints(&mut self, start: u64, end: u64) -> Vec<(u64, Hint)> {
        let before = self.hints.range(..start).next_back();
        let first = before.filter(|(_, hint)| hint.end > start);
        let first = first.map_or(start, |(&at, _)| at);
        let touched: Vec<(u64, Hint)> = self
            .hints
            .range(first..end)
            .map(|(&at, &h)| (at, h))
            .collect();
        for (at, hint) in &touched {
            self.hints.remove(at);
            if *at < start {
                self.hints.insert(
                    *at,
                    Hint {
                        end: start,
                        ..*hint
                    },
                );
            }
            if hint.end > end {
                self.hints.insert(end, *hint);
            }
        }
        let inside = |(at, hint): (u64, Hint)| {
            let end = hint.end.min(end);
            (at.max(start), Hint { end, ..hint })
        };
        touched.into_iter().map(inside).collect()
    }

    fn hint(&mut self, start: u64, end: u64, change: impl Fn(&mut Hint)) {
        let mut at = start;
        let mut pieces = self.cut_hints(start, end);
        pieces.push((end, Hint::none(end)));
        for (from, hint) in pieces {
            for (from, mut hint) in [(at, Hint::none(from)), (from, hint)] {
                if from < hint.end {
                    change(&mut hint);
                    self.hints.insert(from, hint);
                }
            }
            at = hint.end;
        }
    }

    /// Whether ranges have all of these bytes, and a change leaves them as they are.
    fn stays(&self, start: u64, end: u64, change: impl Fn(&mut Attributes)) -> bool {
        let mut at = start;
        while at < end {
            let found = self.ranges.range(..=at).next_back();
            let Some((_, range)) = found.filter(|(_, range)| range.end > at) else {
                return false;
            };
            let mut changed = range.attributes.clone();
            change(&mut changed);
            if changed != range.attributes {
                return false;
            }
            at = range.end;
        }
        true
    }
}

impl Process {
    pub(super) fn svm(&self, call: &mut Call) -> Result {
        let args: SvmArgs = *call.args()?;
        let (start, size, count) = (args.start_addr, args.size, args.nattr as usize);
        if start == 0 || size == 0 || !(start | size).is_multiple_of(PAGE) {
            return self.fail(Errno::EINVAL, || {
                format!("{start:#x}, {size:#x} bytes: not whole pages")
            });
        }
        let end = start.checked_add(size).ok_or(Errno::EINVAL)?;
        let attributes = call.rest::<SvmAttribute>(size_of::<SvmArgs>(), count)?;
        match args.op {
            svm::OP_SET_ATTR => {
                let attributes = attributes.to_vec();
                self.svm_set(start, end, &attributes)
            }
            svm::OP_GET_ATTR => self.svm_get(start, end, attributes),
            op => self.fail(Errno::EINVAL, || format!("operation {op}")),
        }
    }

    fn svm_check(&self, attribute: SvmAttribute) -> Result {
        let SvmAttribute { kind, value } = attribute;
        let gpu = || self.machine.gpu_of(value).is_some();
        let good = match kind {
            svm::ATTR_PREFERRED_LOC | svm::ATTR_PREFETCH_LOC => {
                value == 0 || value == svm::LOCATION_UNDEFINED || gpu()
            }
            svm::ATTR_ACCESS | svm::ATTR_ACCESS_IN_PLACE | svm::ATTR_NO_ACCESS => gpu(),
            svm::ATTR_SET_FLAGS | svm::ATTR_CLR_FLAGS => SvmFlags::from_bits(value).is_some(),
            svm::ATTR_GRANULARITY => true,
            _ => false,
        };
        if good {
            Ok(())
        } else {
            self.fail(Errno::EINVAL, || {
                format!("attribute {kind} with {value:#x}")
            })
        }
    }

    fn svm_set(&self, start: u64, end: u64, attributes: &[SvmAttribute]) -> Result {
        for &attribute in attributes {
            self.svm_check(attribute)?;
        }
        let mut kfd = self.kfd();
        let size = end - start;
        let in_use = (0..kfd.devices.len()).any(|gpu| {
            kfd.space(gpu).is_some_and(|space| {
                let maps = lock(&space.maps);
                let below = maps.range(..end).next_back();
                below.is_some_and(|(at, map)| at + map.bytes > start && !map.svm)
            })
        });
        if in_use {
            return self.fail(Errno::EADDRINUSE, || {
                format!("memory of ALLOC is mapped in {start:#x} to {end:#x}")
            });
        }
        // The memory is there, or EFAULT.
        let object = self.svm_object(start, size)?;
        drop(object);
        kfd.svm.hint(start, end, |hint| {
            for SvmAttribute { kind, value } in attributes {
                match *kind {
                    svm::ATTR_PREFERRED_LOC => hint.preferred = *value,
                    svm::ATTR_PREFETCH_LOC => hint.prefetch = *value,
                    svm::ATTR_GRANULARITY => hint.granularity = (*value).min(0x3f),
                    _ => (),
                }
            }
        });
        let change = |base: &mut Attributes| {
            for SvmAttribute { kind, value } in attributes {
                match *kind {
                    svm::ATTR_SET_FLAGS => base.flags |= SvmFlags::from_bits_truncate(*value),
                    svm::ATTR_CLR_FLAGS => base.flags -= SvmFlags::from_bits_truncate(*value),
                    svm::ATTR_ACCESS | svm::ATTR_ACCESS_IN_PLACE | svm::ATTR_NO_ACCESS => {
                        if let Some(gpu) = self.machine.gpu_of(*value) {
                            base.access.insert(gpu, *kind);
                        }
                    }
                    _ => (),
                }
            }
        };
        // What has these attributes is not mapped anew (`svm_range_is_same_attrs`).
        if kfd.svm.stays(start, end, change) {
            return Ok(());
        }
        let old = kfd.svm.cut(start, end);
        let mut base = Attributes::default();
        for (at, range) in old {
            self.svm_unmap(&kfd, at, &range);
            base = range.attributes.clone();
            for (from, to) in [(at, start.min(range.end)), (end.max(at), range.end)] {
                if from < to {
                    self.svm_insert(&mut kfd, from, to, range.attributes.clone())?;
                }
            }
        }
        change(&mut base);
        self.svm_insert(&mut kfd, start, end, base)
    }

    fn svm_object(&self, start: u64, bytes: u64) -> Result<Arc<Object>> {
        let name = format!("SVM at {start:#x}");
        let pages = match self.caller.pin(start, bytes, true) {
            Ok(pages) => Arc::new(pages),
            Err(errno) => return self.fail(errno, || format!("{name}, {bytes:#x} bytes")),
        };
        let kind = MemKind::Userptr {
            address: start,
            pages,
        };
        let home = &self.machine.nodes[0].gmc;
        match Object::new(home, &self.machine.system, kind, bytes, &name) {
            Ok(object) => Ok(object),
            Err(errno) => self.fail(errno.into(), || format!("{name}, {bytes:#x} bytes")),
        }
    }

    fn svm_insert(&self, kfd: &mut Kfd, start: u64, end: u64, attributes: Attributes) -> Result {
        let mut mapped = Vec::new();
        let with_access = |(_, kind): &(&usize, &u32)| **kind != svm::ATTR_NO_ACCESS;
        for (&gpu, _) in attributes.access.iter().filter(with_access) {
            let Some(space) = kfd.space(gpu) else {
                continue;
            };
            let object = self.svm_object(start, end - start)?;
            let rights = Rights {
                write: !attributes.flags.contains(SvmFlags::GPU_RO),
                execute: attributes.flags.contains(SvmFlags::GPU_EXEC),
            };
            let coherent = SvmFlags::COHERENT | SvmFlags::EXT_COHERENT;
            let mut flags = Alloc::USERPTR;
            flags.set(Alloc::COHERENT, attributes.flags.intersects(coherent));
            let mtype = mtype(self.machine.config.chip.generation, flags, true);
            space.map(start, &object, 0, end - start, rights, mtype)?;
            space.is_svm(start);
            mapped.push(gpu);
        }
        kfd.svm.ranges.insert(
            start,
            Range {
                end,
                attributes,
                mapped,
            },
        );
        Ok(())
    }

    fn svm_unmap(&self, kfd: &Kfd, start: u64, range: &Range) {
        for space in range.mapped.iter().filter_map(|&gpu| kfd.space(gpu)) {
            let _ = space.unmap(start);
        }
    }

    /// The client has unmapped a part of its memory: the ranges there are gone.
    pub(super) fn svm_unmapped(&self, kfd: &mut Kfd, start: u64, bytes: u64) {
        let end = start.saturating_add(bytes);
        kfd.svm.cut_hints(start, end);
        for (at, range) in kfd.svm.cut(start, end) {
            self.svm_unmap(kfd, at, &range);
            for (from, to) in [(at, start.min(range.end)), (end.max(at), range.end)] {
                if from < to {
                    let _ = self.svm_insert(kfd, from, to, range.attributes.clone());
                }
            }
        }
    }

    /// Answers with what holds for the whole range.
    fn svm_get(&self, start: u64, end: u64, wanted: &mut [SvmAttribute]) -> Result {
        for &attribute in wanted.iter() {
            self.svm_check(attribute)?;
        }
        let kfd = self.kfd();
        let mut found: Vec<Attributes> = kfd
            .svm
            .ranges
            .range(..end)
            .filter(|(_, range)| range.end > start)
            .map(|(_, range)| range.attributes.clone())
            .collect();
        if found.is_empty() {
            found.push(Attributes::default());
        }
        let mut hints: Vec<Hint> = kfd
            .svm
            .hints
            .range(..end)
            .filter(|(_, hint)| hint.end > start)
            .map(|(_, &hint)| hint)
            .collect();
        if hints.is_empty() {
            hints.push(Hint::none(end));
        }
        let same = |of: fn(&Hint) -> u32| {
            let first = of(&hints[0]);
            hints.iter().all(|a| of(a) == first).then_some(first)
        };
        for SvmAttribute { kind, value } in wanted {
            match *kind {
                svm::ATTR_PREFERRED_LOC => {
                    *value = same(|a| a.preferred).unwrap_or(svm::LOCATION_UNDEFINED);
                }
                svm::ATTR_PREFETCH_LOC => {
                    *value = same(|a| a.prefetch).unwrap_or(svm::LOCATION_UNDEFINED);
                }
                // Flags that all have, and flags that none has.
                svm::ATTR_SET_FLAGS => {
                    let all = found.iter().fold(SvmFlags::all(), |all, a| all & a.flags);
                    *value = all.bits();
                }
                svm::ATTR_CLR_FLAGS => {
                    let any = found.iter().fold(SvmFlags::empty(), |any, a| any | a.flags);
                    *value = !any.bits();
                }
                svm::ATTR_GRANULARITY => {
                    *value = hints
                        .iter()
                        .map(|a| a.granularity)
                        .min()
                        .unwrap_or(DEFAULT_GRANULARITY);
                }
                _ => {
                    let gpu = self.machine.gpu_of(*value);
                    let of = |a: &Attributes| gpu.and_then(|gpu| a.access.get(&gpu).copied());
                    let first = of(&found[0]).unwrap_or(svm::ATTR_NO_ACCESS);
                    let all = found.iter().all(|a| of(a) == Some(first));
                    *kind = if all { first } else { svm::ATTR_NO_ACCESS };
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A prefetch on memory that waves work on takes nothing away from under them.
    #[test]
    fn hints_leave_what_is_mapped() {
        let mut svm = Svm::default();
        let range = Range {
            end: 5 * PAGE,
            attributes: Attributes::default(),
            mapped: vec![0],
        };
        svm.ranges.insert(PAGE, range);
        assert!(svm.stays(2 * PAGE, 4 * PAGE, |_| ()));
        assert!(!svm.stays(2 * PAGE, 6 * PAGE, |_| ()));
        assert!(!svm.stays(0, 2 * PAGE, |_| ()));
        let executable = |to: &mut Attributes| to.flags |= SvmFlags::GPU_EXEC;
        assert!(!svm.stays(2 * PAGE, 4 * PAGE, executable));

        svm.hint(2 * PAGE, 3 * PAGE, |hint| hint.prefetch = 7);
        svm.hint(PAGE, 5 * PAGE, |hint| hint.preferred = 8);
        svm.hint(4 * PAGE, 6 * PAGE, |hint| hint.granularity = 1);
        let told = |(&at, hint): (&u64, &Hint)| {
            let pages = (at / PAGE, hint.end / PAGE);
            (pages, hint.prefetch, hint.preferred, hint.granularity)
        };
        const NONE: u32 = svm::LOCATION_UNDEFINED;
        assert_eq!(
            svm.hints.iter().map(told).collect::<Vec<_>>(),
            [
                ((1, 2), NONE, 8, 9),
                ((2, 3), 7, 8, 9),
                ((3, 4), NONE, 8, 9),
                ((4, 5), NONE, 8, 1),
                ((5, 6), NONE, NONE, 1),
            ]
        );
        svm.cut_hints(0, 3 * PAGE);
        assert_eq!(
            svm.hints.keys().copied().collect::<Vec<_>>(),
            [3 * PAGE, 4 * PAGE, 5 * PAGE]
        );
    }
}
