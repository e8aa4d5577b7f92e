//! The device: its regions, its interrupts, its reset.

use std::collections::BTreeMap;

use drivers_spec::pci::{CONFIG_BYTES, Command, PCI_BASE_ADDRESS_0, PCI_COMMAND};
use drivers_spec::vfio::{
    self as uapi, DependentDevice, DeviceFlags, DeviceInfo, HotReset, HotResetInfo, IrqFlags,
    IrqInfo, IrqSet, IrqSetFlags, RegionFlags, RegionInfo, VFIO_PCI_CONFIG_REGION_INDEX,
    VFIO_PCI_MSI_IRQ_INDEX,
};
use hcq::mem::view::View;
use hcq::mem::window::AccessWidth;
use hcq::sync::lock;
use hcq::transport::{Map, Pci, ResetKind, TransportError};
use zerocopy::IntoBytes;

use super::{File, Kernel, PAGE, Slot, State, rules};
use crate::caller::{Caller, Here};
use crate::errno::{Errno, Result};
use crate::host::client;
use crate::pci::Function;

/// Linux has regions 1 TiB apart; programs are to ask.
const APART: u64 = 1 << 42;
const REGIONS: u32 = 9;
const IRQS: u32 = 5;

#[derive(Default)]
pub(super) struct Device {
    /// What a reset of the bus takes along was asked.
    asked: bool,
    /// Behind BARs that can be mapped.
    pub(super) memory: BTreeMap<u8, View>,
}

/// What the model of the function says is an input or output error to who reads a file.
fn io(error: TransportError) -> Errno {
    // The function's own rules are in the journal.
    drop(error);
    Errno::EIO
}

impl Kernel {
    /// vfio-pci enables the function when it is opened, and lets it start nothing.
    pub(super) fn enable(&self, group: usize) -> Result<Device> {
        let Slot { config, function } = &self.slots[group];
        self.command(function, |command| {
            (command | Command::MEMORY) - Command::MASTER
        })?;
        let mut device = Device::default();
        for &(bar, bytes) in &config.mapped {
            let view = client::memory(bytes, PAGE).map_err(|_| Errno::ENOMEM)?;
            device.memory.insert(bar, view);
        }
        for &(bar, bytes) in &config.windows {
            let view = client::without_rights(bytes, PAGE).map_err(|_| Errno::ENOMEM)?;
            device.memory.insert(bar, view);
        }
        Ok(device)
    }

    /// The function is closed: it starts nothing any more, before anything else of it goes.
    ///
    /// Source: Linux, drivers/vfio/pci/vfio_pci_core.c, vfio_pci_core_disable.
    pub(super) fn disable(&self, group: usize) {
        // A function that has left the bus starts nothing.
        let function = &self.slots[group].function;
        _ = self.command(function, |command| command - Command::MASTER);
    }

    fn command(&self, function: &Function, change: impl FnOnce(Command) -> Command) -> Result {
        let command = function.config_read(PCI_COMMAND, AccessWidth::W16);
        let command = change(Command::from_bits_retain(command.map_err(io)? as u16));
        let written = function.config_write(PCI_COMMAND, AccessWidth::W16, command.bits().into());
        written.map_err(io)
    }

    /// Where a BAR answers on the bus, and whether it does.
    pub(super) fn answers(&self, slot: &Slot, bar: u8) -> Result<(u64, bool)> {
        let word = |at| slot.function.config_read(at, AccessWidth::W32);
        let at = PCI_BASE_ADDRESS_0 + 4 * u16::from(bar);
        let half = |at| word(at).map(u64::from).map_err(io);
        let low = half(at)?;
        // Bits 2:1: whether the next register has the upper half.
        let high = if low & 6 == 4 { half(at + 4)? } else { 0 };
        let command = Command::from_bits_retain(word(PCI_COMMAND).map_err(io)? as u16);
        let decodes = command.contains(Command::MEMORY);
        Ok(((low & !0xf) | high << 32, decodes))
    }

    /// The bytes of a region, and whether it can be mapped.
    fn region(&self, slot: &Slot, index: u32) -> (u64, bool) {
        if index == VFIO_PCI_CONFIG_REGION_INDEX {
            return (CONFIG_BYTES.into(), false);
        }
        let of = |all: &[(u8, u64)]| {
            let found = all.iter().find(|(bar, _)| u32::from(*bar) == index);
            found.map(|(_, bytes)| *bytes)
        };
        let mapped = of(&slot.config.mapped).or_else(|| of(&slot.config.windows));
        match (mapped, of(&slot.config.trapped)) {
            (Some(bytes), _) => (bytes, true),
            (_, bytes) => (bytes.unwrap_or(0), false),
        }
    }

    pub(super) fn of_device(
        &self,
        state: &mut State,
        group: usize,
        request: u32,
        argument: u64,
    ) -> Result<i32> {
        let slot = &self.slots[group];
        let is = |ioctl: hcq::transport::Ioctl| ioctl.request == request;
        if is(uapi::DEVICE_GET_INFO) {
            let argsz = |info: &DeviceInfo| info.argsz;
            let mut info: DeviceInfo = self.argument("DEVICE_GET_INFO", argument, argsz)?;
            let mut flags = DeviceFlags::PCI;
            flags.set(DeviceFlags::RESET, slot.config.resets);
            info.flags = flags.bits();
            (info.num_regions, info.num_irqs) = (REGIONS, IRQS);
            return self.answer(argument, &info);
        }
        if is(uapi::DEVICE_GET_REGION_INFO) {
            let argsz = |info: &RegionInfo| info.argsz;
            let mut info: RegionInfo = self.argument("DEVICE_GET_REGION_INFO", argument, argsz)?;
            if info.index >= REGIONS {
                return Err(Errno::EINVAL);
            }
            let (bytes, is_mapped) = self.region(slot, info.index);
            let mut flags = RegionFlags::empty();
            flags.set(RegionFlags::READ | RegionFlags::WRITE, bytes > 0);
            flags.set(RegionFlags::MMAP, is_mapped);
            info.flags = flags.bits();
            info.size = bytes;
            info.offset = APART * u64::from(info.index + 1);
            return self.answer(argument, &info);
        }
        if is(uapi::DEVICE_GET_IRQ_INFO) {
            let argsz = |info: &IrqInfo| info.argsz;
            let mut info: IrqInfo = self.argument("DEVICE_GET_IRQ_INFO", argument, argsz)?;
            if info.index >= IRQS {
                return Err(Errno::EINVAL);
            }
            info.flags = IrqFlags::EVENTFD.bits();
            info.count = match info.index {
                VFIO_PCI_MSI_IRQ_INDEX => slot.config.vectors,
                _ => 0,
            };
            return self.answer(argument, &info);
        }
        if is(uapi::DEVICE_SET_IRQS) {
            return self.set_irqs(state, group, argument);
        }
        if is(uapi::DEVICE_RESET) {
            if !slot.config.resets {
                let what = "DEVICE_RESET".to_owned();
                return self.broken(&rules::RESET, what, Errno::EINVAL);
            }
            return self.reset(slot, ResetKind::Function);
        }
        if is(uapi::DEVICE_GET_PCI_HOT_RESET_INFO) {
            return self.hot_reset_info(state, group, argument);
        }
        if is(uapi::DEVICE_PCI_HOT_RESET) {
            return self.hot_reset(state, group, argument);
        }
        let what = format!("device request {request:#x}");
        self.broken(&rules::UNMODELLED, what, Errno::ENOTTY)
    }

    /// Configuration is kept over it.
    fn reset(&self, slot: &Slot, kind: ResetKind) -> Result<i32> {
        let command = slot.function.config_read(PCI_COMMAND, AccessWidth::W16);
        slot.function.reset(kind).map_err(io)?;
        let command = command.map_err(io)?;
        let back = slot
            .function
            .config_write(PCI_COMMAND, AccessWidth::W16, command);
        back.map(|()| 0).map_err(io)
    }

    fn hot_reset_info(&self, state: &mut State, group: usize, argument: u64) -> Result<i32> {
        let slot = &self.slots[group];
        let argsz = |info: &HotResetInfo| info.argsz;
        let name = "DEVICE_GET_PCI_HOT_RESET_INFO";
        let mut info: HotResetInfo = self.argument(name, argument, argsz)?;
        // An address: segment, bus, device, function.
        let words = slot.function.name().split([':', '.']);
        let words: Vec<_> = words
            .map(|word| u16::from_str_radix(word, 16).unwrap_or(0))
            .collect();
        let &[segment, bus, device, function] = &*words else {
            return Err(Errno::ENODEV);
        };
        let own = (slot.config.group, (device << 3 | function) as u8);
        let all = [&[own][..], &slot.config.beside].concat();
        let all = all.iter().map(|&(group_id, devfn)| DependentDevice {
            group_id,
            segment,
            bus: bus as u8,
            devfn,
        });
        let all: Vec<_> = all.collect();
        info.count = all.len() as u32;
        let room = info.argsz as usize - size_of::<HotResetInfo>();
        let here: &dyn Caller = &Here;
        if room < size_of_val(&*all) {
            here.put(argument, &info)?;
            return Err(Errno::ENOSPC);
        }
        if let Some(device) = &mut state.groups[group].device {
            device.asked = true;
        }
        here.write(argument + size_of::<HotResetInfo>() as u64, all.as_bytes())?;
        info.flags = 0;
        self.answer(argument, &info)
    }

    fn hot_reset(&self, state: &mut State, group: usize, argument: u64) -> Result<i32> {
        let slot = &self.slots[group];
        let argsz = |reset: &HotReset| reset.argsz;
        let reset: HotReset = self.argument("DEVICE_PCI_HOT_RESET", argument, argsz)?;
        let HotReset {
            argsz,
            flags,
            count,
        } = reset;
        let wrong = |what: String| self.broken(&rules::HOT_RESET, what, Errno::EINVAL);
        let bytes = size_of::<HotReset>() as u64 + u64::from(count) * 4;
        let most = 1 + slot.config.beside.len();
        if flags != 0 || count == 0 || count as usize > most || u64::from(argsz) < bytes {
            return wrong(format!(
                "flags {flags:#x}, {count} groups in {argsz} bytes, for {most} functions"
            ));
        }
        let here: &dyn Caller = &Here;
        let from = argument + size_of::<HotReset>() as u64;
        let fds: Vec<i32> = here.get_all(from, count as usize)?;
        let mut given = Vec::new();
        for fd in fds {
            match state.file(fd) {
                Ok(File::Group(group)) => given.push(self.slots[group].config.group),
                _ => return wrong(format!("descriptor {fd} is no group")),
            }
        }
        let own = slot.config.group;
        let on_bus = slot.config.beside.iter().map(|(group, _)| *group);
        if let Some(group) = on_bus.chain([own]).find(|group| !given.contains(group)) {
            return wrong(format!("a function of group {group} is on the bus, too"));
        }
        let device = state.groups[group].device.as_mut();
        if !device.is_some_and(|device| std::mem::take(&mut device.asked)) {
            return wrong("nobody has asked what it takes along".into());
        }
        self.reset(slot, ResetKind::Bus)
    }

    fn set_irqs(&self, state: &State, group: usize, argument: u64) -> Result<i32> {
        let config = &self.slots[group].config;
        let argsz = |set: &IrqSet| set.argsz;
        let set: IrqSet = self.argument("DEVICE_SET_IRQS", argument, argsz)?;
        let here: &dyn Caller = &Here;
        let IrqSet {
            argsz,
            index,
            start,
            count,
            ..
        } = set;
        if index != VFIO_PCI_MSI_IRQ_INDEX {
            let what = format!("DEVICE_SET_IRQS of kind {index}");
            return self.broken(&rules::UNMODELLED, what, Errno::EINVAL);
        }
        let wrong = |what: String| self.broken(&rules::IRQ, what, Errno::EINVAL);
        let flags = IrqSetFlags::from_bits_retain(set.flags);
        if flags == IrqSetFlags::DATA_NONE | IrqSetFlags::ACTION_TRIGGER && count == 0 {
            lock(&self.heard).vectors.remove(&group);
            return Ok(0);
        }
        if flags != IrqSetFlags::DATA_EVENTFD | IrqSetFlags::ACTION_TRIGGER || count == 0 {
            return wrong(format!("{flags:?} for {count} interrupts"));
        }
        let end = start.checked_add(count);
        if end.is_none_or(|end| end > config.vectors) {
            let has = config.vectors;
            return wrong(format!(
                "{count} interrupts from {start} on, there are {has}"
            ));
        }
        let bytes = size_of::<IrqSet>() as u64 + u64::from(count) * 4;
        if u64::from(argsz) < bytes {
            return wrong(format!("argsz {argsz} with {count} descriptors"));
        }
        // Source: Linux, drivers/vfio/pci/vfio_pci_intrs.c, vfio_msi_enable: what could be had is returned, and
        // nothing is turned on.
        if end.is_some_and(|end| end > config.room) {
            return Ok(config.room as i32);
        }
        let from = argument + size_of::<IrqSet>() as u64;
        let fds: Vec<i32> = here.get_all(from, count as usize)?;
        for (vector, fd) in (start as usize..).zip(fds) {
            let event = match fd {
                -1 => None,
                fd if state.file(fd) == Ok(File::Event) => Some(fd),
                fd => return wrong(format!("descriptor {fd} is no eventfd")),
            };
            let mut heard = lock(&self.heard);
            let vectors = heard.vectors.entry(group).or_default();
            vectors.resize(vectors.len().max(vector + 1), None);
            vectors[vector] = event;
        }
        Ok(0)
    }

    /// The region that an access to a device's file is in, and where.
    fn placed(&self, fd: i32, offset: u64, bytes: u64) -> Result<(usize, u32, u64)> {
        let File::Device(group) = self.lock().file(fd)? else {
            return Err(Errno::EINVAL);
        };
        let slot = &self.slots[group];
        let (index, inside) = (offset / APART, offset % APART);
        let index = index.checked_sub(1).unwrap_or(u64::MAX);
        let size = u32::try_from(index).map_or(0, |index| self.region(slot, index).0);
        if inside.checked_add(bytes).is_none_or(|end| end > size) {
            let what = format!("{bytes:#x} bytes at offset {offset:#x}");
            return self.broken(&rules::REGION, what, Errno::EINVAL);
        }
        Ok((group, index as u32, inside))
    }

    /// As [`Kernel::placed`], of one element.
    fn element(
        &self,
        fd: i32,
        offset: u64,
        bytes: usize,
    ) -> Result<(&Function, u32, u64, AccessWidth)> {
        let (group, region, at) = self.placed(fd, offset, bytes as u64)?;
        let is_config = region == VFIO_PCI_CONFIG_REGION_INDEX;
        let width = AccessWidth::from_bytes(bytes).filter(|_| !is_config || bytes <= 4);
        match width {
            Some(width) if at.is_multiple_of(bytes as u64) => {
                Ok((&*self.slots[group].function, region, at, width))
            }
            _ => {
                let what = format!("{bytes:#x} bytes at {at:#x} of region {region}");
                self.broken(&rules::REGION, what, Errno::EINVAL)
            }
        }
    }

    /// Reads a device's file.
    ///
    /// # Errors
    /// The kernel's.
    pub fn read_at(&self, fd: i32, to: &mut [u8], offset: u64) -> Result<usize> {
        let (function, region, at, width) = self.element(fd, offset, to.len())?;
        let value = if region == VFIO_PCI_CONFIG_REGION_INDEX {
            u64::from(function.config_read(at as u16, width).map_err(io)?)
        } else {
            let window = function.bar(region as u8).map_err(io)?;
            match width {
                AccessWidth::W8 => window.read::<u8>(at).map(u64::from),
                AccessWidth::W16 => window.read::<u16>(at).map(u64::from),
                AccessWidth::W32 => window.read::<u32>(at).map(u64::from),
                AccessWidth::W64 => window.read::<u64>(at),
            }
            .map_err(io)?
        };
        to.copy_from_slice(&value.to_le_bytes()[..to.len()]);
        Ok(to.len())
    }

    /// Writes a device's file.
    ///
    /// # Errors
    /// The kernel's.
    pub fn write_at(&self, fd: i32, from: &[u8], offset: u64) -> Result<usize> {
        let (function, region, at, width) = self.element(fd, offset, from.len())?;
        let mut word = [0; 8];
        word[..from.len()].copy_from_slice(from);
        let value = u64::from_le_bytes(word);
        let written = if region == VFIO_PCI_CONFIG_REGION_INDEX {
            function.config_write(at as u16, width, value as u32)
        } else {
            let window = function.bar(region as u8).map_err(io)?;
            match width {
                AccessWidth::W8 => window.write(at, value as u8),
                AccessWidth::W16 => window.write(at, value as u16),
                AccessWidth::W32 => window.write(at, value as u32),
                AccessWidth::W64 => window.write(at, value),
            }
        };
        written.map_err(io)?;
        Ok(from.len())
    }

    /// Maps a part of a device's file.
    ///
    /// # Errors
    /// The kernel's.
    pub fn map(&self, fd: i32, map: Map) -> Result<View> {
        let (group, region, at) = self.placed(fd, map.offset, map.len as u64)?;
        let is_whole = map.len > 0 && (at | map.len as u64).is_multiple_of(PAGE);
        let state = self.lock();
        let device = state.groups[group].device.as_ref();
        let memory = device.and_then(|device| device.memory.get(&(region as u8)));
        match memory.filter(|_| is_whole && region < VFIO_PCI_CONFIG_REGION_INDEX) {
            Some(view) => view.sub(at as usize, map.len).map_err(|_| Errno::EINVAL),
            None => {
                let what = format!("{map} of region {region}");
                self.broken(&rules::REGION, what, Errno::EINVAL)
            }
        }
    }
}
