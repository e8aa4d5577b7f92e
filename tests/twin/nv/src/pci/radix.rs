//! Three levels of pages of addresses, by which an image lies scattered in host memory.
//!
//! Source: OGKM, kernel_gsp.c, kgspCreateRadix3_IMPL; libos_init_args.h, LIBOS_MEMORY_REGION_RADIX_PAGE_SIZE.

use super::memory::{Host, long};

/// Bytes of a page, and how many addresses it holds.
const PAGE: usize = 4096;
const ENTRIES: u64 = 512;

/// Calls for each page of an image, in order, with as many bytes of it as belong to the image.
///
/// # Errors
/// What is wrong with the tables.
pub(super) fn walk(
    host: &Host,
    root: u64,
    bytes: u64,
    mut each: impl FnMut(&[u8]),
) -> Result<(), String> {
    let pages = bytes.div_ceil(PAGE as u64);
    if pages == 0 || pages > ENTRIES * ENTRIES * ENTRIES {
        return Err(format!("{bytes:#x} bytes in three levels"));
    }
    if !root.is_multiple_of(PAGE as u64) {
        return Err(format!("the root is at {root:#x}"));
    }
    let tables = pages.div_ceil(ENTRIES);
    let directories = tables.div_ceil(ENTRIES);
    let mut level = vec![root];
    for (number, count) in [directories, tables, pages].into_iter().enumerate() {
        level = entries(host, &level, count)
            .map_err(|(index, what)| format!("entry {index} of level {number} {what}"))?;
    }
    let mut left = bytes;
    let mut page = [0; PAGE];
    for at in level {
        if !host.read(at, &mut page, "who verifies an image") {
            return Err(format!("a page at {at:#x} is not mapped"));
        }
        let here = left.min(PAGE as u64);
        each(&page[..here as usize]);
        left -= here;
    }
    Ok(())
}

/// So many addresses from pages of them.
fn entries(host: &Host, level: &[u64], count: u64) -> Result<Vec<u64>, (u64, String)> {
    let mut all = Vec::new();
    let mut page = [0; PAGE];
    for index in 0..count {
        let inside = (index % ENTRIES) as usize;
        if inside == 0 {
            let at = level[(index / ENTRIES) as usize];
            if !host.read(at, &mut page, "who verifies a table of an image") {
                return Err((
                    index,
                    format!("is in a table at {at:#x}, which is not mapped"),
                ));
            }
        }
        let entry = long(&page, 8 * inside);
        if entry == 0 || !entry.is_multiple_of(PAGE as u64) {
            return Err((index, format!("is {entry:#x}")));
        }
        all.push(entry);
    }
    Ok(all)
}
