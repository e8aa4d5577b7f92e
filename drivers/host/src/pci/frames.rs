//! Where pages of this process lie in physical memory, which is where a function finds them if no IOMMU
//! translates for it.
//!
//! Source: Linux, Documentation/admin-guide/mm/pagemap.rst.

use std::fs::File;
use std::os::unix::fs::FileExt;

use hcq::addr::BusAddr;
use hcq::transport::{BusRange, Dma, Fault};

use super::System;
use crate::devfile::fault;
use crate::range::page_size;
use crate::reserve::pinned;

/// Bits 54:0 of an entry: the number of the frame, if the page is in memory.
const FRAME: u64 = (1 << 55) - 1;
/// Bit 63: the page is in memory.
const PRESENT: u64 = 1 << 63;

/// Memory that stays where it is, given by its physical addresses: each range starts at a multiple of `align`, which
/// is at most that of a huge page.
///
/// # Errors
/// [`Fault::Errno`] of what the system refused, and [`Fault::Unsupported`] where it does not say where memory is; what
/// was done, in words.
pub(super) fn pinned_at(
    system: &System,
    bytes: u64,
    align: u64,
) -> Result<Dma, (&'static str, Fault)> {
    let page = page_size();
    let is_huge = align > page as u64;
    let view = pinned(bytes, is_huge).map_err(|fault| match is_huge {
        true => (": in huge pages (/proc/sys/vm/nr_hugepages)", fault),
        false => (": locked in memory (`ulimit -l`)", fault),
    })?;
    let entries = entries(system, view.as_ptr().addr(), view.len() / page);
    let ranges = entries.and_then(|entries| ranges(&entries, page as u64, align));
    let ranges = ranges.map_err(|fault| (": where it is (/proc/self/pagemap)", fault))?;
    Ok(Dma { view, ranges })
}

/// The entries of `pages` pages from an address on.
fn entries(system: &System, at: usize, pages: usize) -> Result<Vec<u64>, Fault> {
    let file = File::open(system.path("/proc/self/pagemap")).map_err(|e| fault(&e))?;
    let mut bytes = vec![0; pages * 8];
    let offset = (at / page_size() * 8) as u64;
    file.read_exact_at(&mut bytes, offset)
        .map_err(|e| fault(&e))?;
    let word = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    };
    Ok(bytes.chunks_exact(8).map(word).collect())
}

/// The ranges that the pages of some entries make, in their order: each starts at a multiple of `align`.
fn ranges(entries: &[u64], page: u64, align: u64) -> Result<Vec<BusRange>, Fault> {
    let mut ranges: Vec<BusRange> = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        if entry & PRESENT == 0 {
            return Err(Fault::Unsupported(format!(
                "page {i} is not in memory though it is locked: the machine is out of memory"
            )));
        }
        let frame = entry & FRAME;
        if frame == 0 {
            let why = "the kernel does not say where memory is: run as root, or with the capability CAP_SYS_ADMIN";
            return Err(Fault::Unsupported(why.into()));
        }
        let at = frame * page;
        match ranges.last_mut() {
            Some(last) if last.addr.0 + last.bytes == at => last.bytes += page,
            _ => ranges.push(BusRange {
                addr: BusAddr(at),
                bytes: page,
            }),
        }
    }
    match ranges.iter().find(|range| !range.addr.is_aligned(align)) {
        None => Ok(ranges),
        Some(range) => Err(Fault::Unsupported(format!(
            "memory at {} is no multiple of {align:#x}",
            range.addr
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(frame: u64) -> u64 {
        PRESENT | 1 << 61 | frame
    }

    #[test]
    fn neighbours_are_one_range() {
        let found = ranges(&[at(5), at(6), at(9), at(8)], 0x1000, 0x1000).unwrap();
        let found: Vec<_> = found.iter().map(|r| (r.addr.0, r.bytes)).collect();
        assert_eq!(
            found,
            [(0x5000, 0x2000), (0x9000, 0x1000), (0x8000, 0x1000)]
        );
        assert!(ranges(&[at(0x200), at(0x201)], 0x1000, 2 << 20).is_ok());
        let error = ranges(&[at(0x201)], 0x1000, 2 << 20).unwrap_err();
        let why = "memory at 0x201000 is no multiple of 0x200000";
        assert_eq!(error, Fault::Unsupported(why.into()));
    }

    #[test]
    fn pages_that_are_hidden_or_absent_are_errors() {
        let error = ranges(&[at(5), PRESENT], 0x1000, 0x1000).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("CAP_SYS_ADMIN"), "{error}");
        let error = ranges(&[at(5), 7], 0x1000, 0x1000).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("page 1 is not in memory"), "{error}");
    }

    #[test]
    fn a_file_that_is_refused_is_an_error_with_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let error = entries(&System::at(folder.path()), 0, 1).unwrap_err();
        assert_eq!(error, Fault::Errno(libc::ENOENT));
    }
}
