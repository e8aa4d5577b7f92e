//! [`Domains`]: the containers of a process. All groups that can go into one, so that their functions find the same memory
//! at the same addresses.

use std::sync::{Arc, Mutex, MutexGuard, Weak};

use drivers_spec::vfio::{
    GroupFlags, IovaRange, VFIO_API_VERSION, VFIO_NOIOMMU_IOMMU, VFIO_TYPE1V2_IOMMU,
};
use hcq::mem::view::View;
use hcq::sync::lock;
use hcq::transport::{Fault, TransportError};

use super::calls::Calls;
use super::function::Memory;
use super::request::Descriptor;
use crate::pci::look::Group;
use crate::pci::space::{Iommu, LOWEST, Space};

const CONTAINER: &str = "/dev/vfio/vfio";

/// The containers that a process has, and the kernel that it has them of.
pub struct Domains {
    calls: Arc<dyn Calls>,
    joined: Mutex<Vec<Joined>>,
}

/// A group in a container.
struct Joined {
    number: String,
    file: Weak<Descriptor>,
    space: Weak<Space<Descriptor>>,
}

impl Domains {
    /// None yet.
    pub fn new(calls: Arc<dyn Calls>) -> Domains {
        Domains {
            calls,
            joined: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Joined>> {
        // Entries are added and removed whole.
        lock(&self.joined)
    }

    /// A group, in a container of this process: in one that there is, if the kernel lets it in, else in one of its own.
    pub(super) fn join(
        &self,
        group: &Group,
        address: &str,
    ) -> Result<(Arc<Descriptor>, Memory), TransportError> {
        if group.no_iommu {
            let container = self.container(VFIO_NOIOMMU_IOMMU)?;
            let file = self.group(group, address)?;
            file.set_container(&container)?;
            container.set_iommu(VFIO_NOIOMMU_IOMMU)?;
            return Ok((file, Memory::Physical(container)));
        }
        let mut joined = self.lock();
        joined.retain(|one| one.file.strong_count() > 0);
        // A group is opened once: its other functions have the same file.
        let same = joined.iter().find(|one| one.number == group.number);
        if let Some(both) = same.and_then(Joined::both) {
            return Ok((both.0, Memory::Mapped(both.1)));
        }
        // Each is held while another one joins: a container whose last group leaves has no IOMMU any more.
        let held: Vec<_> = joined.iter().filter_map(Joined::both).collect();
        let mut tried: Vec<&Arc<Space<Descriptor>>> = Vec::new();
        for (_, space) in &held {
            if tried.iter().any(|other| Arc::ptr_eq(other, space)) {
                continue;
            }
            tried.push(space);
            let file = self.group(group, address)?;
            match file.set_container(&space.iommu) {
                Ok(()) if space.is_within(&translated(&space.iommu)?) => {
                    joined.push(Joined::of(group, &file, space));
                    return Ok((file, Memory::Mapped(space.clone())));
                }
                // Its IOMMU is of another kind, or reserves addresses that are in use.
                Err(error) if error.fault != Fault::Errno(libc::EINVAL) => return Err(error),
                // The file is closed, and with that the group leaves.
                _ => {}
            }
        }
        if !tried.is_empty() {
            tracing::warn!(
                target: "hcq::host",
                "{address}: IOMMU group {} cannot share a container with this process's other cards (different IOMMU): \
                 no shared memory, copies between them go through the host",
                group.number
            );
        }
        let container = self.container(VFIO_TYPE1V2_IOMMU)?;
        let file = self.group(group, address)?;
        file.set_container(&container)?;
        container.set_iommu(VFIO_TYPE1V2_IOMMU)?;
        let all = translated(&container)?;
        let space = Space::of(container, &all, address)?;
        joined.push(Joined::of(group, &file, &space));
        Ok((file, Memory::Mapped(space)))
    }

    /// A group's file, which says that it can be given away.
    fn group(&self, group: &Group, address: &str) -> Result<Arc<Descriptor>, TransportError> {
        let file = Descriptor::open(&self.calls, &group.node())?;
        let status = GroupFlags::from_bits_retain(file.status()?.flags);
        match status.contains(GroupFlags::VIABLE) {
            true => Ok(Arc::new(file)),
            false => {
                let why = format!(
                    "IOMMU group {} is not viable: another of its functions ({}) has a kernel driver; see `doorbell \
                     bind {address} --plan`",
                    group.number,
                    group.members.join(", ")
                );
                Err(TransportError::new(
                    address,
                    "open",
                    Fault::Unsupported(why),
                ))
            }
        }
    }

    /// A container, which can have an IOMMU of a type.
    fn container(&self, iommu: u32) -> Result<Descriptor, TransportError> {
        let unsupported = |why: String| {
            let fault = Fault::Unsupported(why);
            Err(TransportError::new(CONTAINER, "open", fault))
        };
        let container = Descriptor::open(&self.calls, CONTAINER)?;
        match container.api_version()? {
            VFIO_API_VERSION => {}
            version => {
                return unsupported(format!("version {version}, expected {VFIO_API_VERSION}"));
            }
        }
        match container.has(iommu)? {
            true => Ok(container),
            false => unsupported(format!(
                "no IOMMU of type {iommu}; `modprobe vfio_iommu_type1`, or set enable_unsafe_noiommu_mode if there is \
                 none"
            )),
        }
    }
}

impl Joined {
    fn of(group: &Group, file: &Arc<Descriptor>, space: &Arc<Space<Descriptor>>) -> Joined {
        Joined {
            number: group.number.clone(),
            file: Arc::downgrade(file),
            space: Arc::downgrade(space),
        }
    }

    fn both(&self) -> Option<(Arc<Descriptor>, Arc<Space<Descriptor>>)> {
        Some((self.file.upgrade()?, self.space.upgrade()?))
    }
}

impl Iommu for Descriptor {
    fn map(&self, view: &View, at: u64) -> Result<(), TransportError> {
        self.map_dma(view, at)
    }

    fn unmap(&self, at: u64, bytes: u64) -> Result<(), TransportError> {
        self.unmap_dma(at, bytes)
    }
}

/// What an IOMMU translates for each group that is in a container by now.
///
/// Source: Linux, drivers/vfio/vfio_iommu_type1.c, vfio_iommu_type1_attach_group: what a group reserves is taken out of
/// the ranges of a container.
fn translated(container: &Descriptor) -> Result<Vec<IovaRange>, TransportError> {
    let ranges = container.ranges()?;
    // Kernels before 5.4 do not tell: what all IOMMUs translate, without the addresses of interrupts.
    let usual = IovaRange {
        start: LOWEST,
        end: 0xfedf_ffff,
    };
    Ok(match ranges.is_empty() {
        true => vec![usual],
        false => ranges,
    })
}
