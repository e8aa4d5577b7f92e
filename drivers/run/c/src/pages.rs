//! Pages of the process that a C program has imported.
//!
//! Rust programs give memory with an owner that keeps it mapped. C programs promise it until they release what they have
//! imported. Then they may unmap the pages and map others at the same address, while a model still has the old ones bound: those
//! others are another mapping, with another owner, and drivers import them anew.

use std::sync::{Arc, Mutex, Weak};

use hcq::sync::lock;

/// Pages that are imported and not released.
pub(crate) struct Pages {
    at: usize,
    bytes: usize,
    /// Stands for the mapping.
    pub(crate) owner: Arc<()>,
}

static ALL: Mutex<Vec<Weak<Pages>>> = Mutex::new(Vec::new());

impl Pages {
    /// Those of a range: the same for each import until all of them are released.
    pub(crate) fn of(at: usize, bytes: usize) -> Arc<Pages> {
        let mut all = lock(&ALL);
        all.retain(|pages| pages.strong_count() > 0);
        let mut known = all.iter().filter_map(Weak::upgrade);
        if let Some(known) = known.find(|pages| (pages.at, pages.bytes) == (at, bytes)) {
            return known;
        }
        let pages = Arc::new(Pages {
            at,
            bytes,
            owner: Arc::default(),
        });
        all.push(Arc::downgrade(&pages));
        pages
    }
}

/// Why memory of this process cannot be imported; nothing if it can, or if the system does not tell.
pub(crate) fn unfit(at: usize, bytes: usize) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    unfit_in(&maps, at, bytes)
}

/// The same by the text of that file, proc_pid_maps(5): `7f12a000-7f12c000 rw-p 00000000 00:00 0`, in the order of addresses.
fn unfit_in(maps: &str, at: usize, bytes: usize) -> Option<String> {
    let end = at.saturating_add(bytes);
    let mut next = at;
    for line in maps.lines() {
        let (range, rights) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let (from, to) = (number(from)?, number(to)?);
        if to <= next {
            continue;
        }
        if from > next {
            break;
        }
        if !rights.starts_with("rw") {
            let rights = rights.split(' ').next().unwrap_or_default();
            return Some(format!(
                "expected pages that may be read and written, found {rights} at {next:#x}: map them with PROT_READ and PROT_WRITE, \
                 those of an input as well"
            ));
        }
        next = to;
        if next >= end {
            return None;
        }
    }
    Some(format!(
        "expected {bytes} bytes of mapped memory at {at:#x}, found nothing at {next:#x}: map it first"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_those_of_before_until_all_imports_are_released() {
        let range = (0x1234_5000, 8192);
        let of = |(at, bytes)| Pages::of(at, bytes);
        let (first, second) = (of(range), of(range));
        let owner = first.owner.clone();
        assert!(Arc::ptr_eq(&owner, &second.owner));
        assert!(!Arc::ptr_eq(&owner, &of((range.0, 4096)).owner));
        drop(first);
        assert!(Arc::ptr_eq(&owner, &of(range).owner));
        drop(second);
        // A model may still have the old ones.
        assert!(!Arc::ptr_eq(&owner, &of(range).owner));
    }

    #[test]
    fn memory_has_to_be_mapped_for_reads_and_writes() {
        let maps = "\
10000-12000 rw-p 00000000 00:00 0
12000-13000 rw-s 00000000 00:05 7    /dev/shm/ring
13000-14000 r--p 00001000 08:01 9    /lib/a b.so
20000-21000 ---p 00000000 00:00 0
";
        let found = |at, bytes| unfit_in(maps, at, bytes);
        for (at, bytes) in [(0x10000, 0x1000), (0x11000, 0x2000), (0x10000, 0x3000)] {
            assert_eq!(found(at, bytes), None, "{at:#x}");
        }
        for (at, bytes, part) in [
            (0xf000, 0x2000, "found nothing at 0xf000"),
            (0x12000, 0x2000, "found r--p at 0x13000"),
            (0x20000, 0x1000, "found ---p at 0x20000"),
            (0x14000, 0x1000, "found nothing at 0x14000"),
            (0x30000, 0x1000, "found nothing at 0x30000"),
            (usize::MAX - 0xfff, 0x1000, "found nothing at"),
        ] {
            let text = found(at, bytes).unwrap_or_default();
            assert!(text.contains(part), "{part}: {text}");
        }
        let here = Box::new([0u8; 64]);
        assert_eq!(unfit(here.as_ptr().addr(), 64), None);
    }
}
