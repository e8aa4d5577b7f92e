//! The container and the group: who may have the function, and what it reaches.

use std::collections::BTreeMap;
use std::sync::Arc;

use drivers_spec::vfio::{
    self as uapi, CAP_IOVA_RANGE, CapHeader, CapIovaRange, DmaMap, DmaUnmap, GroupFlags,
    GroupStatus, IommuFlags, IovaRange, MapFlags, Type1Info, VFIO_NOIOMMU_IOMMU,
    VFIO_TYPE1V2_IOMMU,
};
use hcq::transport::Pci;
use zerocopy::IntoBytes;

use super::{File, Kernel, PAGE, State, rules};
use crate::caller::{Caller, Here};
use crate::errno::{Errno, Result};
use crate::host::Mapping;

#[derive(Default)]
pub(super) struct Container {
    asked_version: bool,
    /// Types that were asked for and are there.
    asked: Vec<u32>,
    /// The type that was set.
    iommu: Option<u32>,
    /// What the function reaches: first addresses, and bytes.
    pub(super) maps: BTreeMap<u64, u64>,
}

#[derive(Default)]
pub(super) struct Group {
    asked: bool,
    in_container: bool,
}

impl Container {
    /// Its group has left.
    pub(super) fn leave(&mut self) {
        self.iommu = None;
    }
}

impl Kernel {
    /// Whether there is an IOMMU of a type.
    fn has(&self, kind: u32) -> bool {
        kind == match self.config.no_iommu {
            true => VFIO_NOIOMMU_IOMMU,
            false => VFIO_TYPE1V2_IOMMU,
        }
    }

    pub(super) fn of_container(
        &self,
        state: &mut State,
        request: u32,
        argument: u64,
    ) -> Result<i32> {
        let is = |ioctl: hcq::transport::Ioctl| ioctl.request == request;
        if is(uapi::GET_API_VERSION) {
            state.container.asked_version = true;
            return Ok(uapi::VFIO_API_VERSION);
        }
        if is(uapi::CHECK_EXTENSION) {
            let has = self.has(argument as u32);
            if has {
                state.container.asked.push(argument as u32);
            }
            return Ok(has.into());
        }
        if is(uapi::SET_IOMMU) {
            return self.set_iommu(state, argument as u32);
        }
        if state.container.iommu.is_none() {
            let what = format!("{request:#x} of a container without IOMMU");
            return self.broken(&rules::ORDER, what, Errno::EINVAL);
        }
        let by_iommu = [
            uapi::IOMMU_GET_INFO,
            uapi::IOMMU_MAP_DMA,
            uapi::IOMMU_UNMAP_DMA,
        ];
        if self.config.no_iommu && by_iommu.into_iter().any(is) {
            let what = format!("{request:#x} of a container without translation");
            return self.broken(&rules::TYPE, what, Errno::ENOTTY);
        }
        match request {
            _ if is(uapi::IOMMU_GET_INFO) => self.info(argument),
            _ if is(uapi::IOMMU_MAP_DMA) => self.map_dma(state, argument),
            _ if is(uapi::IOMMU_UNMAP_DMA) => self.unmap_dma(state, argument),
            _ => {
                let what = format!("container request {request:#x}");
                self.broken(&rules::UNMODELLED, what, Errno::ENOTTY)
            }
        }
    }

    fn set_iommu(&self, state: &mut State, kind: u32) -> Result<i32> {
        let container = &mut state.container;
        if !state.group.in_container || container.iommu.is_some() {
            let what = match container.iommu {
                Some(_) => "SET_IOMMU, for the second time",
                None => "SET_IOMMU of a container without a group",
            };
            return self.broken(&rules::ORDER, what.into(), Errno::EINVAL);
        }
        if !self.has(kind) {
            let what = format!("SET_IOMMU with type {kind}");
            return self.broken(&rules::TYPE, what, Errno::EPERM);
        }
        if !container.asked_version || !container.asked.contains(&kind) {
            let what = format!("SET_IOMMU with type {kind}");
            // The kernel lets it pass.
            self.journal.broken(&rules::ASKED, what);
        }
        container.iommu = Some(kind);
        Ok(0)
    }

    fn info(&self, argument: u64) -> Result<i32> {
        let mut info: Type1Info = self.argument("IOMMU_GET_INFO", argument, |info| {
            // The struct has grown: the kernel takes what ends with the sizes of pages.
            match info {
                Type1Info { argsz: 16.., .. } => u32::MAX,
                Type1Info { argsz, .. } => *argsz,
            }
        })?;
        let ranges = &self.config.iova;
        let capability = size_of::<CapIovaRange>() + size_of_val(ranges.as_slice());
        let all = (size_of::<Type1Info>() + capability) as u32;
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
        info.cap_offset = size_of::<Type1Info>() as u32;
        let capability = CapIovaRange {
            header: CapHeader {
                id: CAP_IOVA_RANGE,
                version: 1,
                next: 0,
            },
            nr_iovas: ranges.len() as u32,
            reserved: 0,
        };
        self.answer(argument, &info)?;
        let mut at = argument + u64::from(info.cap_offset);
        self.answer(at, &capability)?;
        at += size_of::<CapIovaRange>() as u64;
        for &(start, end) in ranges {
            self.answer(at, &IovaRange { start, end })?;
            at += size_of::<IovaRange>() as u64;
        }
        Ok(0)
    }

    fn map_dma(&self, state: &mut State, argument: u64) -> Result<i32> {
        let map: DmaMap = self.argument("IOMMU_MAP_DMA", argument, |map: &DmaMap| map.argsz)?;
        let DmaMap {
            vaddr,
            iova,
            size,
            flags,
            ..
        } = map;
        let what = format!("{size:#x} bytes of {vaddr:#x} at {iova:#x}");
        let flags = MapFlags::from_bits(flags).filter(|flags| !flags.is_empty());
        let is_whole = size != 0 && (vaddr | iova | size).is_multiple_of(PAGE);
        let last = iova.checked_add(size).and_then(|end| end.checked_sub(1));
        let (Some(flags), true, Some(last)) = (flags, is_whole, last) else {
            return self.broken(&rules::MAP, what, Errno::EINVAL);
        };
        let mut ranges = self.config.iova.iter();
        if !ranges.any(|(start, end)| *start <= iova && last <= *end) {
            let what = format!("{what}, outside of what is translated");
            return self.broken(&rules::MAP, what, Errno::EINVAL);
        }
        let maps = &mut state.container.maps;
        let before = maps.range(..=last).next_back();
        if before.is_some_and(|(start, bytes)| start + bytes > iova) {
            let what = format!("{what}, where something is mapped");
            return self.broken(&rules::MAP, what, Errno::EEXIST);
        }
        // It is pinned: all of it has to be there.
        let memory = Mapping::of_client(vaddr, size, flags.contains(MapFlags::WRITE))?;
        let bus = self.function.bus();
        bus.memory().add(iova, size, Arc::new(memory), 0);
        maps.insert(iova, size);
        Ok(0)
    }

    fn unmap_dma(&self, state: &mut State, argument: u64) -> Result<i32> {
        let argsz = |unmap: &DmaUnmap| unmap.argsz;
        let mut unmap: DmaUnmap = self.argument("IOMMU_UNMAP_DMA", argument, argsz)?;
        let DmaUnmap { iova, size, .. } = unmap;
        let end = iova.saturating_add(size);
        let maps = &mut state.container.maps;
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
        self.function.bus().memory().remove(iova, size);
        self.answer(argument, &unmap)
    }

    pub(super) fn of_group(&self, state: &mut State, request: u32, argument: u64) -> Result<i32> {
        let is = |ioctl: hcq::transport::Ioctl| ioctl.request == request;
        let here: &dyn Caller = &Here;
        if is(uapi::GROUP_GET_STATUS) {
            let argsz = |status: &GroupStatus| status.argsz;
            let mut status: GroupStatus = self.argument("GROUP_GET_STATUS", argument, argsz)?;
            let mut flags = GroupFlags::empty();
            flags.set(GroupFlags::VIABLE, self.config.viable);
            flags.set(GroupFlags::CONTAINER_SET, state.group.in_container);
            status.flags = flags.bits();
            state.group.asked = true;
            return self.answer(argument, &status);
        }
        if is(uapi::GROUP_SET_CONTAINER) {
            let fd: i32 = here.get(argument)?;
            if state.file(fd)? != File::Container {
                let what = format!("GROUP_SET_CONTAINER with {:?}", state.file(fd)?);
                return self.broken(&rules::ORDER, what, Errno::EINVAL);
            }
            if !state.group.asked || !self.config.viable || state.group.in_container {
                let what = "GROUP_SET_CONTAINER".to_owned();
                let errno = match self.config.viable {
                    true => Errno::EINVAL,
                    false => Errno::EPERM,
                };
                return self.broken(&rules::VIABLE, what, errno);
            }
            state.group.in_container = true;
            return Ok(0);
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
            if name[..end] != *self.function.name().as_bytes() {
                return Err(Errno::ENODEV);
            }
            if state.container.iommu.is_none() || !state.group.in_container {
                let what = "GROUP_GET_DEVICE_FD of a group whose container has no IOMMU".into();
                return self.broken(&rules::ORDER, what, Errno::EINVAL);
            }
            self.enable(state)?;
            return Ok(state.add(File::Device));
        }
        let what = format!("group request {request:#x}");
        self.broken(&rules::UNMODELLED, what, Errno::ENOTTY)
    }
}
