//! Containers and groups: who may have a function, and what functions reach.

use std::collections::BTreeMap;
use std::sync::Arc;

use drivers_spec::vfio::{
    self as uapi, CAP_DMA_AVAIL, CAP_IOVA_RANGE, CapDmaAvail, CapHeader, CapIovaRange, DmaMap,
    DmaUnmap, GroupFlags, GroupStatus, IommuFlags, IovaRange, MapFlags, Type1Info,
    VFIO_NOIOMMU_IOMMU, VFIO_TYPE1V2_IOMMU,
};
use hcq::transport::Pci;
use zerocopy::IntoBytes;

use super::device::Device;
use super::{File, Kernel, PAGE, Slot, State, rules};
use crate::caller::{Caller, Here};
use crate::errno::{Errno, Result};
use crate::host::Mapping;
use crate::pci::HostMemory;

/// Mappings that a container has room for, unless vfio_iommu_type1 was told otherwise (`dma_entry_limit`).
const MOST_MAPPINGS: usize = 0xffff;

#[derive(Default)]
pub(super) struct Container {
    /// Its file is closed; groups may still be in it.
    pub(super) is_closed: bool,
    asked_version: bool,
    /// Types that were asked for and are there.
    asked: Vec<u32>,
    /// The type that was set.
    iommu: Option<u32>,
    /// What functions reach: first addresses, and bytes.
    pub(super) maps: BTreeMap<u64, u64>,
    /// The same, as functions find it.
    reached: Arc<HostMemory>,
}

#[derive(Default)]
pub(super) struct Group {
    /// Somebody has its file, or that of its device.
    pub(super) is_open: bool,
    asked: bool,
    pub(super) container: Option<u32>,
    /// Its device, if that is open.
    pub(super) device: Option<Device>,
}

impl Container {
    /// Its last group has left.
    pub(super) fn empty(&mut self) {
        *self = Container {
            is_closed: self.is_closed,
            ..Container::default()
        };
    }
}

impl Kernel {
    /// Whether there is an IOMMU of a type.
    fn has(&self, kind: u32) -> bool {
        let of = |slot: &Slot| match slot.config.no_iommu {
            true => VFIO_NOIOMMU_IOMMU,
            false => VFIO_TYPE1V2_IOMMU,
        };
        self.slots.iter().any(|slot| of(slot) == kind)
    }

    /// The groups of a container.
    fn inside<'a>(&'a self, state: &State, number: u32) -> Vec<&'a Slot> {
        let groups = self.slots.iter().zip(&state.groups);
        let inside = groups.filter(|(_, group)| group.container == Some(number));
        inside.map(|(slot, _)| slot).collect()
    }

    pub(super) fn of_container(
        &self,
        state: &mut State,
        number: u32,
        request: u32,
        argument: u64,
    ) -> Result<i32> {
        let is = |ioctl: hcq::transport::Ioctl| ioctl.request == request;
        let has = self.has(argument as u32);
        let inside = self.inside(state, number);
        let container = state.containers.get_mut(&number).ok_or(Errno::EBADF)?;
        if is(uapi::GET_API_VERSION) {
            container.asked_version = true;
            return Ok(uapi::VFIO_API_VERSION);
        }
        if is(uapi::CHECK_EXTENSION) {
            if has {
                container.asked.push(argument as u32);
            }
            return Ok(has.into());
        }
        if is(uapi::SET_IOMMU) {
            return self.set_iommu(container, &inside, argument as u32);
        }
        if container.iommu.is_none() {
            let what = format!("{request:#x} of a container without IOMMU");
            return self.broken(&rules::ORDER, what, Errno::EINVAL);
        }
        let by_iommu = [
            uapi::IOMMU_GET_INFO,
            uapi::IOMMU_MAP_DMA,
            uapi::IOMMU_UNMAP_DMA,
        ];
        if container.iommu == Some(VFIO_NOIOMMU_IOMMU) && by_iommu.into_iter().any(is) {
            let what = format!("{request:#x} of a container without translation");
            return self.broken(&rules::TYPE, what, Errno::ENOTTY);
        }
        match request {
            _ if is(uapi::IOMMU_GET_INFO) => {
                let avail = MOST_MAPPINGS - container.maps.len();
                self.info(&inside, avail as u32, argument)
            }
            _ if is(uapi::IOMMU_MAP_DMA) => self.map_dma(state, number, argument),
            _ if is(uapi::IOMMU_UNMAP_DMA) => self.unmap_dma(container, argument),
            _ => {
                let what = format!("container request {request:#x}");
                self.broken(&rules::UNMODELLED, what, Errno::ENOTTY)
            }
        }
    }

    fn set_iommu(&self, container: &mut Container, inside: &[&Slot], kind: u32) -> Result<i32> {
        if inside.is_empty() || container.iommu.is_some() {
            let what = match container.iommu {
                Some(_) => "SET_IOMMU, for the second time",
                None => "SET_IOMMU of a container without a group",
            };
            return self.broken(&rules::ORDER, what.into(), Errno::EINVAL);
        }
        let wanted = match inside.iter().any(|slot| slot.config.no_iommu) {
            true => VFIO_NOIOMMU_IOMMU,
            false => VFIO_TYPE1V2_IOMMU,
        };
        if kind != wanted {
            let what = format!("SET_IOMMU with type {kind}");
            return self.broken(&rules::TYPE, what, Errno::EPERM);
        }
        if !container.asked_version || !container.asked.contains(&kind) {
            let what = format!("SET_IOMMU with type {kind}");
            // The kernel lets it pass.
            self.journal.broken(&rules::ASKED, what);
        }
        container.iommu = Some(kind);
        for slot in inside {
            reach(slot, container);
        }
        Ok(0)
    }

    fn info(&self, inside: &[&Slot], avail: u32, argument: u64) -> Result<i32> {
        let mut info: Type1Info = self.argument("IOMMU_GET_INFO", argument, |info| {
            // The struct has grown: the kernel takes what ends with the sizes of pages.
            match info {
                Type1Info { argsz: 16.., .. } => u32::MAX,
                Type1Info { argsz, .. } => *argsz,
            }
        })?;
        let ranges = translated(inside);
        let of_ranges = size_of::<CapIovaRange>() + size_of_val(ranges.as_slice());
        let first = size_of::<Type1Info>() as u32;
        let second = first + of_ranges as u32;
        let all = second + size_of::<CapDmaAvail>() as u32;
        let room = info.argsz;
        info.argsz = all;
        info.flags = (IommuFlags::PGSIZES | IommuFlags::CAPS).bits();
        info.iova_pgsizes = PAGE | 1 << 21 | 1 << 30;
        if room < all {
            // What does not fit is told by argsz.
            info.cap_offset = 0;
            let short = (room as usize).min(size_of::<Type1Info>());
            let here: &dyn Caller = &Here;
            here.write(argument, &info.as_bytes()[..short])?;
            return Ok(0);
        }
        info.cap_offset = first;
        let capability = CapIovaRange {
            header: CapHeader {
                id: CAP_IOVA_RANGE,
                version: 1,
                next: second,
            },
            nr_iovas: ranges.len() as u32,
            reserved: 0,
        };
        self.answer(argument, &info)?;
        let mut at = argument + u64::from(info.cap_offset);
        self.answer(at, &capability)?;
        at += size_of::<CapIovaRange>() as u64;
        for (start, end) in ranges {
            self.answer(at, &IovaRange { start, end })?;
            at += size_of::<IovaRange>() as u64;
        }
        let header = CapHeader {
            id: CAP_DMA_AVAIL,
            version: 1,
            next: 0,
        };
        self.answer(at, &CapDmaAvail { header, avail })
    }

    fn map_dma(&self, state: &mut State, number: u32, argument: u64) -> Result<i32> {
        let map: DmaMap = self.argument("IOMMU_MAP_DMA", argument, |map: &DmaMap| map.argsz)?;
        let DmaMap {
            vaddr,
            iova,
            size,
            flags,
            ..
        } = map;
        let ranges = translated(&self.inside(state, number));
        let bar = self.bar_at(state, vaddr, size)?;
        let what = format!("{size:#x} bytes of {vaddr:#x} at {iova:#x}");
        let flags = MapFlags::from_bits(flags).filter(|flags| !flags.is_empty());
        let is_whole = size != 0 && (vaddr | iova | size).is_multiple_of(PAGE);
        let last = iova.checked_add(size).and_then(|end| end.checked_sub(1));
        let (Some(flags), true, Some(last)) = (flags, is_whole, last) else {
            return self.broken(&rules::MAP, what, Errno::EINVAL);
        };
        let mut ranges = ranges.iter();
        if !ranges.any(|(start, end)| *start <= iova && last <= *end) {
            let what = format!("{what}, outside of what is translated");
            return self.broken(&rules::MAP, what, Errno::EINVAL);
        }
        let container = state.containers.get_mut(&number).ok_or(Errno::EBADF)?;
        let maps = &mut container.maps;
        let before = maps.range(..=last).next_back();
        if before.is_some_and(|(start, bytes)| start + bytes > iova) {
            let what = format!("{what}, where something is mapped");
            return self.broken(&rules::MAP, what, Errno::EEXIST);
        }
        if maps.len() == MOST_MAPPINGS {
            return Err(Errno::ENOSPC);
        }
        match bar {
            Some(answers) => container.reached.add_bar(iova, size, answers),
            None => {
                // It is pinned: all of it has to be there.
                let memory = Mapping::of_client(vaddr, size, flags.contains(MapFlags::WRITE))?;
                container.reached.add(iova, size, Arc::new(memory), 0);
            }
        }
        maps.insert(iova, size);
        Ok(0)
    }

    /// Where on the bus it is that answers at an address of the process, if a BAR is mapped there.
    ///
    /// Source: Linux, drivers/vfio/vfio_iommu_type1.c, vaddr_get_pfns and follow_fault_pfn: a mapping of frames that are no
    /// memory is mapped as it is; drivers/vfio/pci/vfio_pci_core.c, vfio_pci_mmap_huge_fault: while memory is decoded.
    fn bar_at(&self, state: &State, vaddr: u64, size: u64) -> Result<Option<u64>> {
        for (slot, group) in self.slots.iter().zip(&state.groups) {
            let memory = group.device.iter().flat_map(|device| &device.memory);
            for (bar, view) in memory {
                let start = view.as_ptr().addr() as u64;
                let Some(offset) = vaddr.checked_sub(start) else {
                    continue;
                };
                if offset >= view.len() as u64 {
                    continue;
                }
                let (at, decodes) = self.answers(slot, *bar)?;
                let fits = offset.saturating_add(size) <= view.len() as u64;
                return match fits && decodes {
                    true => Ok(Some(at + offset)),
                    false => Err(Errno::EFAULT),
                };
            }
        }
        Ok(None)
    }

    fn unmap_dma(&self, container: &mut Container, argument: u64) -> Result<i32> {
        let argsz = |unmap: &DmaUnmap| unmap.argsz;
        let mut unmap: DmaUnmap = self.argument("IOMMU_UNMAP_DMA", argument, argsz)?;
        let DmaUnmap { iova, size, .. } = unmap;
        let end = iova.saturating_add(size);
        let maps = &mut container.maps;
        let touched = |(start, bytes): &(&u64, &u64)| **start < end && **start + **bytes > iova;
        let whole = |(start, bytes): (&u64, &u64)| *start >= iova && start + bytes <= end;
        let mut all = maps.iter().filter(touched);
        if size == 0 || !(iova | size).is_multiple_of(PAGE) || !all.all(whole) {
            let what = format!("{size:#x} bytes at {iova:#x}");
            return self.broken(&rules::UNMAP, what, Errno::EINVAL);
        }
        let before: u64 = maps.values().sum();
        maps.retain(|start, bytes| !touched(&(start, bytes)));
        unmap.size = before - maps.values().sum::<u64>();
        container.reached.remove(iova, size);
        self.answer(argument, &unmap)
    }

    pub(super) fn of_group(
        &self,
        state: &mut State,
        group: usize,
        request: u32,
        argument: u64,
    ) -> Result<i32> {
        let is = |ioctl: hcq::transport::Ioctl| ioctl.request == request;
        let here: &dyn Caller = &Here;
        let slot = &self.slots[group];
        if is(uapi::GROUP_GET_STATUS) {
            let argsz = |status: &GroupStatus| status.argsz;
            let mut status: GroupStatus = self.argument("GROUP_GET_STATUS", argument, argsz)?;
            let mut flags = GroupFlags::empty();
            flags.set(GroupFlags::VIABLE, slot.config.viable);
            let is_inside = state.groups[group].container.is_some();
            flags.set(GroupFlags::CONTAINER_SET, is_inside);
            status.flags = flags.bits();
            state.groups[group].asked = true;
            return self.answer(argument, &status);
        }
        if is(uapi::GROUP_SET_CONTAINER) {
            let fd: i32 = here.get(argument)?;
            return self.set_container(state, group, fd);
        }
        if is(uapi::GROUP_GET_DEVICE_FD) {
            let mut name = [0; 32];
            for (i, byte) in name.iter_mut().enumerate() {
                *byte = here.get(argument + i as u64)?;
                if *byte == 0 {
                    break;
                }
            }
            let end = name
                .iter()
                .position(|byte| *byte == 0)
                .ok_or(Errno::EINVAL)?;
            if name[..end] != *slot.function.name().as_bytes() {
                return Err(Errno::ENODEV);
            }
            let container = state.groups[group].container;
            let container = container.and_then(|number| state.containers.get(&number));
            if container.is_none_or(|container| container.iommu.is_none()) {
                let what = "GROUP_GET_DEVICE_FD of a group whose container has no IOMMU".into();
                return self.broken(&rules::ORDER, what, Errno::EINVAL);
            }
            state.groups[group].device = Some(self.enable(group)?);
            return Ok(state.add(File::Device(group)));
        }
        let what = format!("group request {request:#x}");
        self.broken(&rules::UNMODELLED, what, Errno::ENOTTY)
    }

    /// Source: Linux, drivers/vfio/container.c, vfio_container_attach_group; drivers/vfio/vfio_iommu_type1.c,
    /// vfio_iommu_type1_attach_group.
    fn set_container(&self, state: &mut State, group: usize, fd: i32) -> Result<i32> {
        let slot = &self.slots[group];
        let File::Container(number) = state.file(fd)? else {
            let what = format!("GROUP_SET_CONTAINER with {:?}", state.file(fd)?);
            return self.broken(&rules::ORDER, what, Errno::EINVAL);
        };
        let Group {
            asked, container, ..
        } = state.groups[group];
        if !asked || !slot.config.viable || container.is_some() {
            let what = "GROUP_SET_CONTAINER".to_owned();
            let errno = match slot.config.viable {
                true => Errno::EINVAL,
                false => Errno::EPERM,
            };
            return self.broken(&rules::VIABLE, what, errno);
        }
        let inside = self.inside(state, number);
        // Real groups and those without IOMMU do not mix.
        if inside
            .iter()
            .any(|other| other.config.no_iommu != slot.config.no_iommu)
        {
            return Err(Errno::EPERM);
        }
        let container = state.containers.get(&number).ok_or(Errno::EBADF)?;
        if container.iommu.is_some() {
            let differs = |other: &&Slot| other.config.iommu != slot.config.iommu;
            let is_whole = |(start, bytes): (&u64, &u64)| {
                let last = start + (bytes - 1);
                let mut all = slot.config.iova.iter();
                all.any(|(first, end)| first <= start && last <= *end)
            };
            // What the new one does not translate is in use.
            if inside.iter().any(differs) || !container.maps.iter().all(is_whole) {
                self.journal
                    .event("GROUP_SET_CONTAINER: another IOMMU".into());
                return Err(Errno::EINVAL);
            }
            reach(slot, container);
        }
        state.groups[group].container = Some(number);
        Ok(0)
    }
}

/// A function finds what is mapped in a container.
fn reach(slot: &Slot, container: &Container) {
    if !slot.config.no_iommu {
        slot.function.bus().translate(&container.reached);
    }
}

/// What is translated for all of some groups.
fn translated(inside: &[&Slot]) -> Vec<(u64, u64)> {
    let mut all = vec![(0, u64::MAX)];
    for slot in inside {
        let cut = |&(start, end): &(u64, u64)| {
            let ranges = slot.config.iova.iter();
            ranges
                .map(|&(first, last)| (start.max(first), end.min(last)))
                .collect::<Vec<_>>()
        };
        all = all.iter().flat_map(cut).collect();
        all.retain(|(start, end)| start <= end);
    }
    all
}
