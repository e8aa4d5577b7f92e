//! A function that VFIO has given: its regions, its memory, its interrupts.

use std::sync::Arc;

use drivers_spec::vfio::{RegionFlags, RegionInfo};
use hcq::addr::{BusRanges, Domain};
use hcq::mem::view::View;
use hcq::mem::window::{AccessWidth, Window};
use hcq::transport::{Dma, Fault, Map, Pci, Prot, ResetKind, TransportError, shown_on_bus};
use hcq::wait::Deadline;

use super::calls::until;
use super::regions::{ConfigRegion, Region};
use super::request::Descriptor;
use crate::mmap::HUGE_PAGE;
use crate::pci::Lock;
use crate::pci::pages::HugePages;
use crate::pci::quiet::Config;
use crate::pci::space::{ShownBars, Space};
use crate::range::page_size;

/// Where memory lies for a function.
pub(super) enum Memory {
    /// Where the IOMMU is told to have it.
    Mapped(Arc<Space<Descriptor>>),
    /// Where it lies: there is no IOMMU. The container stays open.
    Physical(#[expect(dead_code, reason = "it is open")] Descriptor),
}

/// See the front page of the module. What comes first is closed first.
pub(super) struct Function {
    pub(super) address: String,
    /// BARs that are mapped for other functions.
    pub(super) shown: ShownBars<Descriptor>,
    /// Eventfds of its interrupts.
    pub(super) events: Vec<Descriptor>,
    pub(super) device: Arc<Descriptor>,
    /// BARs 0 to 5.
    pub(super) bars: Vec<RegionInfo>,
    pub(super) config: Arc<ConfigRegion>,
    pub(super) resets: bool,
    /// What it is given where there is no IOMMU.
    pub(super) pages: HugePages,
    pub(super) memory: Memory,
    /// The number of its group, and the group's file.
    pub(super) number: String,
    pub(super) group: Arc<Descriptor>,
    pub(super) _lock: Arc<Lock>,
}

impl Function {
    fn failed(&self, operation: impl Into<String>, fault: Fault) -> TransportError {
        TransportError::new(&*self.address, operation, fault)
    }

    /// The view of a BAR that can be mapped; none of others.
    fn view(&self, n: u8) -> Result<Option<View>, TransportError> {
        let Some(region) = self.bars.get(usize::from(n)) else {
            return Ok(None);
        };
        // Others may lie in the rest of the page of a small one, which is why it cannot be mapped.
        let can_map = RegionFlags::from_bits_retain(region.flags).contains(RegionFlags::MMAP);
        if !can_map || region.size == 0 || !region.size.is_multiple_of(page_size() as u64) {
            return Ok(None);
        }
        let map = Map {
            offset: region.offset,
            len: region.size as usize,
            prot: Prot::ReadWrite,
            at: None,
        };
        let view = self.device.calls.map(self.device.fd, map);
        let view = view.map_err(|error| self.device.failed(&map.to_string(), &error))?;
        Ok(Some(view))
    }

    /// Resets the bus, or the slot, that the function is on, if nothing else is there.
    fn hot_reset(&self) -> Result<(), TransportError> {
        let along = self.device.taken_along()?;
        let others = along
            .iter()
            .filter(|other| other.group_id.to_string() != self.number);
        let others: Vec<_> = others
            .map(|other| {
                let (slot, function) = (other.devfn >> 3, other.devfn & 7);
                let (segment, bus) = (other.segment, other.bus);
                let group = other.group_id;
                format!("{segment:04x}:{bus:02x}:{slot:02x}.{function} of group {group}")
            })
            .collect();
        if !others.is_empty() {
            let why = format!(
                "a bus reset also resets {}, which this program does not own. Remove those you do not need \
                 (see `doorbell bind {} --plan`), or power-cycle the machine",
                others.join(", "),
                self.address
            );
            return Err(self.failed("bus reset", Fault::Unsupported(why)));
        }
        self.device.hot_reset(&self.group)
    }
}

impl Pci for Function {
    fn name(&self) -> &str {
        &self.address
    }

    fn bar(&self, n: u8) -> Result<Window, TransportError> {
        let name = format!("{} BAR{n}", self.address);
        let region = self.bars.get(usize::from(n)).filter(|bar| bar.size > 0);
        let Some(region) = region else {
            let there = (0..6u8).filter(|n| self.bars[usize::from(*n)].size > 0);
            let there: Vec<_> = there.map(|n| n.to_string()).collect();
            let why = format!("no such memory BAR; the function has {}", there.join(", "));
            return Err(self.failed(format!("BAR{n}"), Fault::Unsupported(why)));
        };
        if let Some(view) = self.view(n)? {
            return Ok(Window::mapped(name, view));
        }
        let region = Region {
            device: self.device.clone(),
            number: n,
            start: region.offset,
            len: region.size,
        };
        Ok(Window::remote(name, Arc::new(region)))
    }

    fn config_read(&self, offset: u16, width: AccessWidth) -> Result<u32, TransportError> {
        self.config.read(offset, width)
    }

    fn config_write(
        &self,
        offset: u16,
        width: AccessWidth,
        value: u32,
    ) -> Result<(), TransportError> {
        self.config.write(offset, width, value)
    }

    fn dma(&self, bytes: u64, align: u64) -> Result<Dma, TransportError> {
        let operation = format!("map {bytes:#x} bytes aligned to {align:#x}");
        if !align.is_power_of_two() || bytes == 0 || align > HUGE_PAGE as u64 {
            let why = format!(
                "expected pages of {:#x} or {HUGE_PAGE:#x} bytes",
                page_size()
            );
            return Err(self.failed(operation, Fault::Unsupported(why)));
        }
        match &self.memory {
            Memory::Mapped(space) => {
                let dma = space.dma(self.group.clone(), bytes, align);
                let how = ": locked in memory (`ulimit -l`)";
                dma.map_err(|fault| self.failed(format!("{operation}{how}"), fault))
            }
            Memory::Physical(_) => self.pages.dma(&operation, bytes, align),
        }
    }

    fn domain(&self) -> Domain {
        match &self.memory {
            Memory::Mapped(space) => space.domain,
            Memory::Physical(_) => Domain::BUS,
        }
    }

    fn shown(&self, n: u8, bytes: u64) -> Result<BusRanges, TransportError> {
        let Memory::Mapped(space) = &self.memory else {
            return shown_on_bus(self, n, bytes);
        };
        let bar = (&*self.address, n, bytes);
        self.shown
            .find(space, self.group.clone(), bar, || self.view(n))
    }

    fn reset(&self, kind: ResetKind) -> Result<(), TransportError> {
        let refused = |why: &str| {
            let why = Fault::Unsupported(why.into());
            Err(self.failed(format!("{kind} reset"), why))
        };
        match kind {
            ResetKind::Function if self.resets => self.device.reset(),
            ResetKind::Function => refused("the kernel has no reset method for it"),
            ResetKind::Bus => self.hot_reset(),
            ResetKind::Power => {
                refused("not supported by VFIO; use `doorbell reset ADDRESS --kind pm`")
            }
        }
    }

    fn wait_irq(&self, vector: u32, deadline: Deadline) -> Result<u64, TransportError> {
        let operation = format!("wait for interrupt {vector}");
        let Some(event) = self.events.get(vector as usize) else {
            let why = format!("the function has {} interrupts", self.events.len());
            return Err(self.failed(operation, Fault::Unsupported(why)));
        };
        let came = until(&*event.calls, event.fd, deadline);
        let came = came.map_err(|error| event.failed(&operation, &error))?;
        came.ok_or_else(|| self.failed(operation, Fault::TimedOut(deadline.limit())))
    }
}
