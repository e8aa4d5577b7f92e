//! Address spaces, and the offsets at which render nodes are mapped.
//!
//! Source: Linux 6.12, amdgpu/amdgpu_vm.c, `amdgpu_vm_bo_map` (which addresses can be mapped);
//! drm_vma_manager.c (offsets of render nodes).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use hcq::sync::lock;

use crate::mem::{Mtype, Object, Rights, Vm};

use super::errno::{Errno, Result};

const PAGE: u64 = 4096;
/// The first offset of a render node: `DRM_FILE_PAGE_OFFSET_START`.
const FIRST_OFFSET: u64 = 1 << 32;
/// Addresses of a GPU end here (48 bits, of which user space has half).
const VA_LIMIT: u64 = 1 << 47;

/// The offsets at which a render node can be mapped.
pub(super) struct Areas {
    next: u64,
    areas: BTreeMap<u64, Area>,
}

/// Memory at an offset of a render node.
#[derive(Clone)]
pub(super) struct Area {
    pub(super) object: Arc<Object>,
    /// The files that may map it.
    pub(super) allowed: Vec<u64>,
    users: u32,
}

impl Default for Areas {
    fn default() -> Self {
        Self {
            next: FIRST_OFFSET,
            areas: BTreeMap::new(),
        }
    }
}

impl Areas {
    /// Gives memory an offset, for a file.
    pub(super) fn add(&mut self, object: &Arc<Object>, file: u64) -> u64 {
        let offset = self.next;
        self.next += object.bytes;
        let area = Area {
            object: object.clone(),
            allowed: vec![file],
            users: 1,
        };
        self.areas.insert(offset, area);
        offset
    }

    /// Another user of that memory, perhaps through another file.
    pub(super) fn share(&mut self, offset: u64, file: u64) {
        if let Some(area) = self.areas.get_mut(&offset) {
            area.users += 1;
            if !area.allowed.contains(&file) {
                area.allowed.push(file);
            }
        }
    }

    /// A user has gone.
    pub(super) fn remove(&mut self, offset: u64) {
        if let Some(area) = self.areas.get_mut(&offset) {
            area.users -= 1;
            if area.users == 0 {
                self.areas.remove(&offset);
            }
        }
    }

    /// What is at an offset.
    pub(super) fn find(&self, offset: u64) -> Option<&Area> {
        self.areas.get(&offset)
    }
}

/// The address space of an open render node.
pub struct Space {
    pub(super) vm: Arc<Vm>,
    pub(super) maps: Mutex<BTreeMap<u64, Mapped>>,
    /// The process has taken it for compute.
    pub(super) taken: Mutex<bool>,
}

/// What is mapped at an address.
#[derive(Clone)]
pub(super) struct Mapped {
    pub(super) bytes: u64,
    pub(super) object: Arc<Object>,
    /// How often queues use it.
    pub(super) pins: u32,
    /// It is a range of SVM, which the kernel keeps in books of its own.
    pub(super) svm: bool,
}

impl Space {
    pub(super) fn new(vm: Arc<Vm>) -> Arc<Self> {
        Arc::new(Self {
            vm,
            maps: Mutex::default(),
            taken: Mutex::default(),
        })
    }

    /// Maps; the kernel's checks of addresses.
    pub(super) fn map(
        &self,
        va: u64,
        object: &Arc<Object>,
        offset: u64,
        bytes: u64,
        rights: Rights,
        mtype: Mtype,
    ) -> Result {
        let end = va.checked_add(bytes).filter(|&end| end <= VA_LIMIT);
        let (Some(end), true) = (
            end,
            va != 0 && bytes != 0 && (va | bytes | offset).is_multiple_of(PAGE),
        ) else {
            return Err(Errno::EINVAL);
        };
        let mut maps = lock(&self.maps);
        let below = maps.range(..end).next_back();
        if below.is_some_and(|(start, map)| start + map.bytes > va) {
            return Err(Errno::EINVAL);
        }
        self.vm.map(va, object, offset, bytes, rights, mtype)?;
        let map = Mapped {
            bytes,
            object: object.clone(),
            pins: 0,
            svm: false,
        };
        maps.insert(va, map);
        Ok(())
    }

    /// Unmaps what starts there.
    pub(super) fn unmap(&self, va: u64) -> Result {
        let map = lock(&self.maps).remove(&va).ok_or(Errno::EINVAL)?;
        // The pages may have gone before: the client may have unmapped memory of its own.
        let _ = self.vm.unmap(va, map.bytes);
        Ok(())
    }

    /// What is mapped at an address, and where it starts.
    pub(super) fn find(&self, va: u64) -> Option<(u64, Mapped)> {
        let maps = lock(&self.maps);
        let (&start, map) = maps.range(..=va).next_back()?;
        (va - start < map.bytes).then(|| (start, map.clone()))
    }

    /// What starts there is a range of SVM.
    pub(super) fn is_svm(&self, va: u64) {
        if let Some(map) = lock(&self.maps).get_mut(&va) {
            map.svm = true;
        }
    }

    /// Changes how often queues use what starts there.
    pub(super) fn pin(&self, va: u64, up: bool) {
        if let Some(map) = lock(&self.maps).get_mut(&va) {
            map.pins = if up {
                map.pins + 1
            } else {
                map.pins.saturating_sub(1)
            };
        }
    }
}
