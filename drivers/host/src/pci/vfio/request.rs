//! Requests by their names and types, on descriptors that close themselves.

use std::io;
use std::sync::Arc;

use drivers_spec::vfio::{
    self as uapi, CAP_IOVA_RANGE, CapHeader, CapIovaRange, DependentDevice, DeviceInfo, DmaMap,
    DmaUnmap, GroupStatus, HotReset, HotResetInfo, IovaRange, IrqInfo, IrqSet, IrqSetFlags,
    MapFlags, RegionInfo, Type1Info,
};
use hcq::mem::view::View;
use hcq::transport::{Fault, Ioctl, TransportError};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::calls::{Argument, Calls};
use crate::devfile::refused;

/// The most that capabilities of an IOMMU may take: a list of ranges between what is reserved.
const MOST: usize = 1 << 16;
/// The most functions that a bus has.
const FUNCTIONS: usize = 256;

/// An open file, under its name.
pub(super) struct Descriptor {
    pub(super) calls: Arc<dyn Calls>,
    pub(super) fd: i32,
    pub(super) name: String,
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.calls.close(self.fd);
    }
}

impl Descriptor {
    pub(super) fn open(calls: &Arc<dyn Calls>, path: &str) -> Result<Descriptor, TransportError> {
        let fd = calls.open(path).map_err(|e| refused(path, "open", &e))?;
        Ok(Descriptor::of(calls, fd, path))
    }

    pub(super) fn event(calls: &Arc<dyn Calls>, name: &str) -> Result<Descriptor, TransportError> {
        let fd = calls.event().map_err(|e| refused(name, "eventfd", &e))?;
        Ok(Descriptor::of(calls, fd, name))
    }

    fn of(calls: &Arc<dyn Calls>, fd: i32, name: &str) -> Descriptor {
        Descriptor {
            calls: calls.clone(),
            fd,
            name: name.into(),
        }
    }

    /// What the system said to an operation.
    pub(super) fn failed(&self, operation: &str, error: &io::Error) -> TransportError {
        refused(&self.name, operation, error)
    }

    /// A request of `drivers_spec::vfio`.
    fn call(&self, ioctl: Ioctl, argument: Argument<'_>) -> Result<i32, TransportError> {
        // SAFETY: as the kernel's header has it, each request below comes with all bytes that the kernel takes,
        // and none of them holds an address but that of `map_dma`, which says why that is right.
        let done = unsafe { self.calls.ioctl(self.fd, ioctl.request, argument) };
        done.map_err(|error| self.failed(&format!("ioctl {}", ioctl.name), &error))
    }

    fn with<T: IntoBytes + FromBytes>(
        &self,
        ioctl: Ioctl,
        mut argument: T,
    ) -> Result<T, TransportError> {
        self.call(ioctl, Argument::Bytes(argument.as_mut_bytes()))?;
        Ok(argument)
    }

    // Of a container.

    pub(super) fn api_version(&self) -> Result<i32, TransportError> {
        self.call(uapi::GET_API_VERSION, Argument::Value(0))
    }

    pub(super) fn has(&self, iommu: u32) -> Result<bool, TransportError> {
        Ok(self.call(uapi::CHECK_EXTENSION, Argument::Value(iommu))? > 0)
    }

    pub(super) fn set_iommu(&self, iommu: u32) -> Result<(), TransportError> {
        self.call(uapi::SET_IOMMU, Argument::Value(iommu)).map(drop)
    }

    /// The addresses that can be mapped; none where the kernel does not tell.
    pub(super) fn ranges(&self) -> Result<Vec<IovaRange>, TransportError> {
        let ask = |bytes: usize| {
            let mut all = vec![0; bytes];
            let info = Type1Info {
                argsz: bytes as u32,
                ..Type1Info::default()
            };
            put(&mut all, &info);
            self.call(uapi::IOMMU_GET_INFO, Argument::Bytes(&mut all))?;
            Ok::<_, TransportError>(all)
        };
        let first = ask(size_of::<Type1Info>())?;
        let wanted = get::<Type1Info>(&first, 0).map_or(0, |info| info.argsz as usize);
        let all = match wanted {
            ..=24 => first,
            _ => ask(wanted.min(MOST))?,
        };
        Ok(ranges_in(&all))
    }

    /// Maps memory of this process for a function: all of a view, at an address of the bus.
    pub(super) fn map_dma(&self, view: &View, iova: u64) -> Result<(), TransportError> {
        // The address in it is right: a view is memory that others may change at any time, and who unmaps it
        // first takes this away (`Mapping`).
        let map = DmaMap {
            argsz: size_of::<DmaMap>() as u32,
            flags: (MapFlags::READ | MapFlags::WRITE).bits(),
            vaddr: view.as_ptr().addr() as u64,
            iova,
            size: view.len() as u64,
        };
        self.with(uapi::IOMMU_MAP_DMA, map).map(drop)
    }

    pub(super) fn unmap_dma(&self, iova: u64, bytes: u64) -> Result<(), TransportError> {
        let unmap = DmaUnmap {
            argsz: size_of::<DmaUnmap>() as u32,
            flags: 0,
            iova,
            size: bytes,
        };
        let done = self.with(uapi::IOMMU_UNMAP_DMA, unmap)?;
        match done.size == bytes {
            true => Ok(()),
            false => {
                let (wanted, moved) = (bytes as usize, done.size as usize);
                let fault = Fault::Short { wanted, moved };
                Err(TransportError::new(&*self.name, "unmap for DMA", fault))
            }
        }
    }

    // Of a group.

    pub(super) fn status(&self) -> Result<GroupStatus, TransportError> {
        let status = GroupStatus {
            argsz: size_of::<GroupStatus>() as u32,
            flags: 0,
        };
        self.with(uapi::GROUP_GET_STATUS, status)
    }

    pub(super) fn set_container(&self, container: &Descriptor) -> Result<(), TransportError> {
        self.with(uapi::GROUP_SET_CONTAINER, container.fd).map(drop)
    }

    pub(super) fn device(&self, address: &str) -> Result<Descriptor, TransportError> {
        let mut text = [address.as_bytes(), &[0]].concat();
        let fd = self.call(uapi::GROUP_GET_DEVICE_FD, Argument::Bytes(&mut text))?;
        Ok(Descriptor::of(&self.calls, fd, address))
    }

    // Of a device.

    pub(super) fn info(&self) -> Result<DeviceInfo, TransportError> {
        let info = DeviceInfo {
            argsz: size_of::<DeviceInfo>() as u32,
            ..DeviceInfo::default()
        };
        self.with(uapi::DEVICE_GET_INFO, info)
    }

    pub(super) fn region(&self, index: u32) -> Result<RegionInfo, TransportError> {
        let info = RegionInfo {
            argsz: size_of::<RegionInfo>() as u32,
            index,
            ..RegionInfo::default()
        };
        self.with(uapi::DEVICE_GET_REGION_INFO, info)
    }

    pub(super) fn interrupts(&self, index: u32) -> Result<IrqInfo, TransportError> {
        let info = IrqInfo {
            argsz: size_of::<IrqInfo>() as u32,
            index,
            ..IrqInfo::default()
        };
        self.with(uapi::DEVICE_GET_IRQ_INFO, info)
    }

    /// Each interrupt of a kind is told to its eventfd, from the first on; returns how many the machine can have
    /// where that are fewer, and none is told then.
    pub(super) fn set_events(
        &self,
        index: u32,
        events: &[Descriptor],
    ) -> Result<usize, TransportError> {
        let bytes = size_of::<IrqSet>() + events.len() * 4;
        let set = IrqSet {
            argsz: bytes as u32,
            flags: (IrqSetFlags::DATA_EVENTFD | IrqSetFlags::ACTION_TRIGGER).bits(),
            index,
            start: 0,
            count: events.len() as u32,
        };
        let mut argument = set.as_bytes().to_vec();
        argument.extend(events.iter().flat_map(|event| event.fd.to_ne_bytes()));
        let fewer = self.call(uapi::DEVICE_SET_IRQS, Argument::Bytes(&mut argument))?;
        Ok(usize::try_from(fewer).unwrap_or(0))
    }

    pub(super) fn reset(&self) -> Result<(), TransportError> {
        self.call(uapi::DEVICE_RESET, Argument::Value(0)).map(drop)
    }

    /// The functions that a reset of the bus takes along, this one among them.
    pub(super) fn taken_along(&self) -> Result<Vec<DependentDevice>, TransportError> {
        let (first, each) = (size_of::<HotResetInfo>(), size_of::<DependentDevice>());
        let mut all = vec![0; first + FUNCTIONS * each];
        let info = HotResetInfo {
            argsz: all.len() as u32,
            ..HotResetInfo::default()
        };
        put(&mut all, &info);
        let info = uapi::DEVICE_GET_PCI_HOT_RESET_INFO;
        self.call(info, Argument::Bytes(&mut all))?;
        let count = get::<HotResetInfo>(&all, 0).map_or(0, |info| info.count as usize);
        let places = (0..count.min(FUNCTIONS)).map(|i| first + i * each);
        Ok(places.map_while(|at| get(&all, at)).collect())
    }

    /// Resets the bus, all of whose functions are of a group.
    pub(super) fn hot_reset(&self, group: &Descriptor) -> Result<(), TransportError> {
        let reset = HotReset {
            argsz: (size_of::<HotReset>() + size_of::<i32>()) as u32,
            flags: 0,
            count: 1,
        };
        let mut argument = [reset.as_bytes(), &group.fd.to_ne_bytes()].concat();
        let reset = uapi::DEVICE_PCI_HOT_RESET;
        self.call(reset, Argument::Bytes(&mut argument)).map(drop)
    }
}

fn get<T: FromBytes>(bytes: &[u8], at: usize) -> Option<T> {
    T::read_from_prefix(bytes.get(at..)?)
        .ok()
        .map(|(value, _)| value)
}

fn put<T: IntoBytes + Immutable + KnownLayout>(bytes: &mut [u8], value: &T) {
    for (to, from) in bytes.iter_mut().zip(value.as_bytes()) {
        *to = *from;
    }
}

/// The ranges among the capabilities of an IOMMU. What the kernel wrote is not trusted: a list that leads nowhere
/// is none.
fn ranges_in(all: &[u8]) -> Vec<IovaRange> {
    let mut at = get::<Type1Info>(all, 0).map_or(0, |info| info.cap_offset as usize);
    while let Some(header) = get::<CapHeader>(all, at).filter(|_| at >= size_of::<Type1Info>()) {
        if header.id == CAP_IOVA_RANGE {
            let count = get::<CapIovaRange>(all, at).map_or(0, |cap| cap.nr_iovas as usize);
            let first = at + size_of::<CapIovaRange>();
            let each = (0..count.min(MOST)).map(|i| get(all, first + i * size_of::<IovaRange>()));
            return each.map_while(|range| range).collect();
        }
        // Forwards, so that it ends.
        match header.next as usize {
            next if next > at => at = next,
            _ => break,
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_that_lead_nowhere_are_none() {
        let info = |cap_offset: u32, rest: &[u8]| {
            let info = Type1Info {
                cap_offset,
                ..Type1Info::default()
            };
            [info.as_bytes(), rest].concat()
        };
        let header = |id, next| CapHeader {
            id,
            version: 1,
            next,
        };
        assert!(ranges_in(&[]).is_empty());
        assert!(ranges_in(&info(0, &[])).is_empty());
        assert!(ranges_in(&info(99, &[])).is_empty());
        // One that comes before itself.
        let loops = [header(7, 32), header(8, 24)];
        assert!(ranges_in(&info(24, loops.as_bytes())).is_empty());
        // More ranges than there are bytes.
        let cap = CapIovaRange {
            header: header(CAP_IOVA_RANGE, 0),
            nr_iovas: 9,
            reserved: 0,
        };
        let range = IovaRange { start: 1, end: 2 };
        let bytes = [header(7, 32).as_bytes(), cap.as_bytes(), range.as_bytes()].concat();
        assert_eq!(ranges_in(&info(24, &bytes)), [range]);
    }
}
