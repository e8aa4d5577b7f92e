//! An address space of the GPU: which memory lies where.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Object;

/// Memory at an address.
#[derive(Clone, Debug)]
pub struct Area {
    /// Bytes.
    pub bytes: u64,
    /// Whose memory.
    pub object: Arc<Object>,
    /// Whether the GPU may write there.
    pub writable: bool,
    /// The object's number or handle in its kernel driver.
    pub handle: u32,
}

/// See the front page.
#[derive(Default, Debug)]
pub struct Space {
    areas: BTreeMap<u64, Area>,
    guard: Option<Arc<Object>>,
}

impl Space {
    /// A page to read behind all memory, where there is no other. Source: KGSL, kgsl_iommu.c, `_iommu_map_guard_page`.
    pub fn set_guard(&mut self, page: Arc<Object>) {
        self.guard = Some(page);
    }

    /// The guard page, where one lies at an address.
    pub fn guard(&self, at: u64) -> Option<Area> {
        let object = self.guard.as_ref()?;
        let (behind, _) = self.find(at.checked_sub(object.bytes)?)?;
        Some(Area {
            bytes: object.bytes,
            object: object.clone(),
            writable: false,
            handle: behind.handle,
        })
    }

    /// Puts memory at an address; false where something is.
    pub fn insert(&mut self, at: u64, area: Area) -> bool {
        let free = at.checked_add(area.bytes).is_some() && self.overlap(at, area.bytes).is_none();
        if free && area.bytes > 0 {
            self.areas.insert(at, area);
        }
        free
    }

    /// Takes memory away that begins there.
    pub fn remove(&mut self, at: u64) -> Option<Area> {
        self.areas.remove(&at)
    }

    /// What lies at an address, and how far into it that is.
    pub fn find(&self, at: u64) -> Option<(&Area, u64)> {
        let (first, area) = self.areas.range(..=at).next_back()?;
        let inside = at - first;
        (inside < area.bytes).then_some((area, inside))
    }

    /// Where what overlaps a range begins.
    pub fn overlap(&self, at: u64, bytes: u64) -> Option<u64> {
        let end = at.saturating_add(bytes);
        let (first, area) = self.areas.range(..end).next_back()?;
        (first + area.bytes > at).then_some(*first)
    }

    /// The first free address of a window.
    pub fn free(&self, from: u64, to: u64, bytes: u64, align: u64) -> Option<u64> {
        let align = align.max(1);
        let mut at = from.checked_next_multiple_of(align)?;
        loop {
            let end = at.checked_add(bytes).filter(|&end| end <= to)?;
            let next = self.areas.range(at..end).next_back();
            let before = self.find(at).map(|(area, inside)| at - inside + area.bytes);
            let behind = next.map(|(first, area)| first + area.bytes);
            match before.max(behind) {
                None => return Some(at),
                Some(taken) => at = taken.checked_next_multiple_of(align)?,
            }
        }
    }

    /// Everything, in order.
    pub fn areas(&self) -> impl Iterator<Item = (u64, &Area)> {
        self.areas.iter().map(|(at, area)| (*at, area))
    }
}

#[cfg(test)]
mod tests {
    use twin::host::PAGE;

    use super::*;

    fn area(pages: u64) -> Area {
        let bytes = pages * PAGE;
        Area {
            bytes,
            object: Arc::new(Object::zeros(1, bytes, "test".into(), false).unwrap()),
            writable: true,
            handle: 1,
        }
    }

    #[test]
    fn a_guard_page_lies_behind_memory() {
        let mut space = Space::default();
        assert!(space.insert(0x4000, area(2)));
        assert!(space.guard(0x6000).is_none());
        space.set_guard(area(1).object);
        let at = |at| space.guard(at).map(|area| (area.bytes, area.writable));
        assert_eq!(at(0x6000), Some((0x1000, false)));
        assert_eq!(at(0x6fff), Some((0x1000, false)));
        assert_eq!((at(0x7000), at(0x3fff), at(0)), (None, None, None));
    }

    #[test]
    fn memory_lies_where_nothing_else_does() {
        let mut space = Space::default();
        assert!(space.insert(0x1000, area(2)));
        assert!(!space.insert(0x2000, area(1)) && !space.insert(0, area(2)));
        assert!(space.insert(0x4000, area(1)));
        assert_eq!(space.find(0x2fff).map(|(_, inside)| inside), Some(0x1fff));
        assert!(space.find(0x3000).is_none() && space.find(0xfff).is_none());
        assert_eq!(space.overlap(0x2000, 0x8000), Some(0x4000));
        assert_eq!(space.free(0x1000, 0x9000, PAGE, PAGE), Some(0x3000));
        assert_eq!(space.free(0x1000, 0x9000, 2 * PAGE, PAGE), Some(0x5000));
        assert_eq!(space.free(0, 0x9000, PAGE, 0x8000), Some(0));
        assert_eq!(space.free(0x1000, 0x5000, 2 * PAGE, PAGE), None);
        assert!(space.remove(0x1000).is_some() && space.remove(0x2000).is_none());
    }
}
