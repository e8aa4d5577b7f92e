use std::sync::OnceLock;

use drivers_spec::pci::PCI_COMMAND;
use drivers_spec::vfio::{
    self as uapi, DeviceInfo, DmaMap, DmaUnmap, GroupStatus, IrqInfo, IrqSet, IrqSetFlags,
    MapFlags, RegionInfo, Type1Info, VFIO_NOIOMMU_IOMMU, VFIO_TYPE1V2_IOMMU,
};
use hcq::mem::view::View;
use hcq::mem::window::AccessWidth;
use hcq::transport::{Ioctl, Map, Prot, ResetKind};

use super::*;
use crate::fires::fires;
use crate::pci::{Bar, Bus, Function, HostMemory, Identity, Target};

const ADDRESS: &str = "0000:03:00.0";

/// A register of 32 bits, at the start of a BAR.
struct Register(u32, Arc<OnceLock<Weak<Kernel>>>);

impl Target for Register {
    fn read(
        &mut self,
        _: u64,
        _: AccessWidth,
    ) -> std::result::Result<u64, (&'static Rule, String)> {
        Ok(self.0.into())
    }
    fn write(
        &mut self,
        _: u64,
        _: AccessWidth,
        value: u64,
    ) -> std::result::Result<(), (&'static Rule, String)> {
        self.0 = value as u32;
        Ok(())
    }
    fn reset(&mut self, _: ResetKind) {
        self.0 = 0;
        // A thread of the function may raise an interrupt, while a program resets it.
        let kernel = self.1.get().and_then(Weak::upgrade);
        kernel.into_iter().for_each(|kernel| kernel.interrupt(0, 0));
    }
}

struct Rig {
    kernel: Arc<Kernel>,
    bus: Arc<Bus>,
    journal: Arc<Journal>,
    container: i32,
    group: i32,
}

impl Rig {
    fn of(change: impl FnOnce(&mut Config)) -> Rig {
        let mut config = Config::behind_iommu(12);
        config.trapped = vec![(5, 0x100)];
        config.mapped = vec![(0, 0x4000)];
        config.vectors = 2;
        change(&mut config);
        let journal = Arc::new(Journal::new());
        let identity = Identity {
            vendor: 0x1002,
            device: 0x7550,
            class: 0x03_0000,
            revision: 0,
        };
        let found: Arc<OnceLock<Weak<Kernel>>> = Arc::default();
        let bar = Bar {
            number: 5,
            bytes: 0x100,
            wide: false,
            prefetch: false,
            target: Box::new(Register(0, found.clone())),
        };
        let bus = Bus::new(&HostMemory::new());
        let function = Function::new(ADDRESS, identity, vec![bar], bus.clone(), journal.clone());
        let kernel = Kernel::new(config, Arc::new(function), journal.clone());
        found.set(Arc::downgrade(&kernel)).unwrap();
        let container = kernel.open("/dev/vfio/vfio").unwrap();
        let group = kernel.open(&kernel.group_path()).unwrap();
        Rig {
            kernel,
            bus,
            journal,
            container,
            group,
        }
    }

    fn new() -> Rig {
        Rig::of(|_| {})
    }

    fn by_value(&self, fd: i32, ioctl: Ioctl, value: u64) -> Result<i32> {
        self.kernel.ioctl(fd, ioctl.request, value)
    }

    fn with<T>(&self, fd: i32, ioctl: Ioctl, argument: &mut T) -> Result<i32> {
        self.kernel
            .ioctl(fd, ioctl.request, &raw mut *argument as u64)
    }

    fn ask(&self) {
        let version = self.by_value(self.container, uapi::GET_API_VERSION, 0);
        assert_eq!(version, Ok(0));
        let kind = VFIO_TYPE1V2_IOMMU.into();
        _ = self.by_value(self.container, uapi::CHECK_EXTENSION, kind);
    }

    fn join(&self) -> Result<i32> {
        let mut status = GroupStatus { argsz: 8, flags: 0 };
        self.with(self.group, uapi::GROUP_GET_STATUS, &mut status)?;
        let mut container = self.container;
        self.with(self.group, uapi::GROUP_SET_CONTAINER, &mut container)
    }

    fn set(&self, kind: u32) -> Result<i32> {
        self.by_value(self.container, uapi::SET_IOMMU, kind.into())
    }

    fn device(&self) -> Result<i32> {
        let mut name = *b"0000:03:00.0\0";
        self.with(self.group, uapi::GROUP_GET_DEVICE_FD, &mut name)
    }

    /// Everything in its order.
    fn opened(&self) -> i32 {
        self.ask();
        self.join().unwrap();
        self.set(VFIO_TYPE1V2_IOMMU).unwrap();
        self.device().unwrap()
    }

    fn map(&self, memory: &View, iova: u64, size: u64) -> Result<i32> {
        let mut map = DmaMap {
            argsz: size_of::<DmaMap>() as u32,
            flags: (MapFlags::READ | MapFlags::WRITE).bits(),
            vaddr: memory.as_ptr() as u64,
            iova,
            size,
        };
        self.with(self.container, uapi::IOMMU_MAP_DMA, &mut map)
    }

    fn unmap(&self, iova: u64, size: u64) -> Result<i32> {
        let mut unmap = DmaUnmap {
            argsz: size_of::<DmaUnmap>() as u32,
            flags: 0,
            iova,
            size,
        };
        self.with(self.container, uapi::IOMMU_UNMAP_DMA, &mut unmap)
    }

    fn region(&self, device: i32, index: u32) -> RegionInfo {
        let mut info = RegionInfo {
            argsz: size_of::<RegionInfo>() as u32,
            index,
            ..RegionInfo::default()
        };
        self.with(device, uapi::DEVICE_GET_REGION_INFO, &mut info)
            .unwrap();
        info
    }

    /// Bus mastering on.
    fn master(&self, device: i32) {
        let config = self
            .region(device, uapi::VFIO_PCI_CONFIG_REGION_INDEX)
            .offset;
        let command = [6, 0];
        let at = config + u64::from(PCI_COMMAND);
        assert_eq!(self.kernel.write_at(device, &command, at), Ok(2));
    }

    /// A byte of memory, as the function writes it: whether it may.
    fn write(&self, at: u64, byte: u8) -> bool {
        let found = self.bus.reach(at, "the function", &self.journal);
        found.is_some_and(|(memory, page)| {
            let frame = memory.frame(page).unwrap();
            frame.write((at % PAGE) as usize, &[byte]);
            true
        })
    }

    fn broken(&self) -> Vec<&'static str> {
        let violations = self.journal.violations();
        violations.iter().map(|v| v.rule.name).collect()
    }
}

#[test]
fn a_function_is_given_read_mapped_and_reset() {
    let rig = Rig::new();
    let device = rig.opened();
    let mut info = DeviceInfo {
        argsz: size_of::<DeviceInfo>() as u32,
        ..DeviceInfo::default()
    };
    rig.with(device, uapi::DEVICE_GET_INFO, &mut info).unwrap();
    assert_eq!((info.flags, info.num_regions), (3, 9));
    // Memory is decoded, and nothing started.
    let config = rig.region(device, uapi::VFIO_PCI_CONFIG_REGION_INDEX);
    let mut word = [0; 4];
    rig.kernel
        .read_at(device, &mut word, config.offset)
        .unwrap();
    assert_eq!(u32::from_le_bytes(word), 0x7550_1002);
    let registers = rig.region(device, 5);
    assert_eq!((registers.size, registers.flags), (0x100, 3));
    rig.kernel
        .write_at(device, &7u32.to_le_bytes(), registers.offset)
        .unwrap();
    rig.kernel
        .read_at(device, &mut word, registers.offset)
        .unwrap();
    assert_eq!(u32::from_le_bytes(word), 7);
    let memory = rig.region(device, 0);
    let map = Map {
        offset: memory.offset + 0x1000,
        len: 0x1000,
        prot: Prot::ReadWrite,
        at: None,
    };
    rig.kernel.map(device, map).unwrap().write(8, 9u64).unwrap();
    assert_eq!(rig.kernel.memory(0).unwrap().read::<u64>(0x1008), Ok(9));
    rig.by_value(device, uapi::DEVICE_RESET, 0).unwrap();
    rig.kernel
        .read_at(device, &mut word, registers.offset)
        .unwrap();
    assert_eq!(u32::from_le_bytes(word), 0);
    assert!(rig.broken().is_empty());
    // One program at a time.
    assert_eq!(rig.kernel.open("/dev/vfio/12"), Err(Errno::EBUSY));
    assert_eq!(rig.kernel.open("/dev/vfio/13"), Err(Errno::ENOENT));
    for fd in [device, rig.group, rig.container] {
        rig.kernel.close(fd).unwrap();
    }
    assert_eq!(rig.kernel.close(device), Err(Errno::EBADF));
}

/// The argument of a reset of the bus, with the descriptor of a group.
fn hot_reset(group: i32) -> [i32; 4] {
    [16, 0, 1, group]
}

#[test]
fn a_bus_is_reset_with_all_that_is_on_it() {
    let rig = Rig::of(|config| config.beside = vec![(12, 3 << 3 | 1)]);
    let device = rig.opened();
    let registers = rig.region(device, 5).offset;
    rig.kernel
        .write_at(device, &7u32.to_le_bytes(), registers)
        .unwrap();
    // First too little room, then enough for two functions.
    let mut short = [12u32, 0, 0];
    let info = uapi::DEVICE_GET_PCI_HOT_RESET_INFO;
    assert_eq!(rig.with(device, info, &mut short), Err(Errno::ENOSPC));
    assert_eq!(short[2], 2);
    let mut all = [28u32, 9, 0, 0, 0, 0, 0];
    rig.with(device, info, &mut all).unwrap();
    assert_eq!(all, [28, 0, 2, 12, 0x0003_0000, 12, 0x1903_0000]);
    let reset = uapi::DEVICE_PCI_HOT_RESET;
    rig.with(device, reset, &mut hot_reset(rig.group)).unwrap();
    let mut word = [1; 4];
    rig.kernel.read_at(device, &mut word, registers).unwrap();
    assert_eq!(word, [0; 4]);
    assert!(rig.broken().is_empty());
}

#[test]
fn a_bus_is_not_reset_under_others() {
    let reset = uapi::DEVICE_PCI_HOT_RESET;
    let info = uapi::DEVICE_GET_PCI_HOT_RESET_INFO;
    // Nobody has asked; no group; a descriptor of something else; a function of another group.
    for mistake in 0..4 {
        let rig = Rig::of(|config| {
            if mistake == 3 {
                config.beside.push((13, 1));
            }
        });
        let device = rig.opened();
        if mistake > 0 {
            rig.with(device, info, &mut [28u32; 7]).unwrap();
        }
        let mut argument = hot_reset(if mistake == 2 { device } else { rig.group });
        if mistake == 1 {
            argument[2] = 0;
        }
        let done = rig.with(device, reset, &mut argument);
        assert_eq!(done, Err(Errno::EINVAL), "{mistake}");
        fires("VFIO-HOT-RESET").only(&rig.broken());
    }
}

#[test]
fn memory_is_mapped_reached_and_taken_away() {
    let rig = Rig::new();
    let device = rig.opened();
    let mut info = Type1Info {
        argsz: size_of::<Type1Info>() as u32,
        ..Type1Info::default()
    };
    rig.with(rig.container, uapi::IOMMU_GET_INFO, &mut info)
        .unwrap();
    // The header, two ranges, and how many mappings there is room for.
    assert_eq!(
        (info.argsz, info.flags, info.cap_offset),
        (24 + 16 + 32 + 12, 3, 0)
    );
    let memory = View::alloc(0x4000, 0x1000).unwrap();
    rig.map(&memory, 0x10_0000, 0x2000).unwrap();
    rig.map(&memory.sub(0x2000, 0x2000).unwrap(), 0x10_2000, 0x2000)
        .unwrap();
    let mut all = [0u32; 21];
    all[0] = info.argsz;
    rig.with(rig.container, uapi::IOMMU_GET_INFO, &mut all)
        .unwrap();
    assert_eq!((all[4], all[6], all[7]), (24, 1 << 16 | 1, 24 + 16 + 32));
    assert_eq!(all[18..], [1 << 16 | 3, 0, 0xffff - 2]);
    rig.master(device);
    assert!(rig.write(0x10_1fff, 1) && rig.write(0x10_3000, 2));
    assert_eq!(memory.read::<u8>(0x1fff), Ok(1));
    assert_eq!(memory.read::<u8>(0x3000), Ok(2));
    // Both at once.
    rig.unmap(0x10_0000, 0x4000).unwrap();
    assert_eq!(rig.kernel.mapped(), []);
    assert!(rig.broken().is_empty());
    assert!(!rig.write(0x10_0000, 1));
    fires("PCI-DMA-GIVEN").only(&rig.broken());
    // What is left is taken away with the group.
    let rig = Rig::new();
    let device = rig.opened();
    rig.map(&memory, 0x10_0000, 0x1000).unwrap();
    rig.master(device);
    // Its device holds the group, and that the container.
    rig.kernel.close(rig.container).unwrap();
    rig.kernel.close(rig.group).unwrap();
    assert!(rig.write(0x10_0000, 1));
    assert_eq!(rig.kernel.open("/dev/vfio/12"), Err(Errno::EBUSY));
    rig.kernel.close(device).unwrap();
    assert_eq!((rig.kernel.mapped(), rig.kernel.containers()), (vec![], 0));
    // It is no master any more: what it still does comes to nothing.
    assert!(!rig.write(0x10_0000, 1) && rig.broken().is_empty());
}

#[test]
fn a_function_that_was_just_opened_may_start_nothing() {
    let rig = Rig::new();
    rig.opened();
    let memory = View::alloc(0x1000, 0x1000).unwrap();
    rig.map(&memory, 0x10_0000, 0x1000).unwrap();
    assert!(!rig.write(0x10_0000, 1));
    fires("PCI-MASTER").only(&rig.broken());
    assert!(!rig.bus.interrupt(0));
}

#[test]
fn interrupts_are_counted_until_somebody_waits() {
    let rig = Rig::new();
    let device = rig.opened();
    let mut info = IrqInfo {
        argsz: size_of::<IrqInfo>() as u32,
        index: uapi::VFIO_PCI_MSI_IRQ_INDEX,
        ..IrqInfo::default()
    };
    rig.with(device, uapi::DEVICE_GET_IRQ_INFO, &mut info)
        .unwrap();
    assert_eq!((info.count, info.flags), (2, 1));
    let event = rig.kernel.event();
    let mut words = [0u32; 6];
    let set = IrqSet {
        argsz: 24,
        flags: (IrqSetFlags::DATA_EVENTFD | IrqSetFlags::ACTION_TRIGGER).bits(),
        index: uapi::VFIO_PCI_MSI_IRQ_INDEX,
        start: 1,
        count: 1,
    };
    let put = |words: &mut [u32; 6], set: &IrqSet, fd: i32| {
        words.as_mut_bytes()[..20].copy_from_slice(set.as_bytes());
        words[5] = fd as u32;
    };
    put(&mut words, &set, event);
    rig.with(device, uapi::DEVICE_SET_IRQS, &mut words).unwrap();
    rig.master(device);
    // Nobody listens to the first one.
    rig.bus.interrupt(0);
    let limit = Duration::from_millis(5);
    assert_eq!(rig.kernel.wait(event, limit), Ok(None));
    rig.bus.interrupt(1);
    rig.bus.interrupt(1);
    assert_eq!(rig.kernel.wait(event, limit), Ok(Some(2)));
    assert!(rig.broken().is_empty());
    let wrong = [
        IrqSet { count: 2, ..set },
        IrqSet { argsz: 20, ..set },
        IrqSet { flags: 0, ..set },
    ];
    for set in wrong {
        put(&mut words, &set, event);
        let done = rig.with(device, uapi::DEVICE_SET_IRQS, &mut words);
        assert_eq!(done, Err(Errno::EINVAL));
    }
    // No eventfd.
    put(&mut words, &set, rig.group);
    let done = rig.with(device, uapi::DEVICE_SET_IRQS, &mut words);
    assert_eq!(done, Err(Errno::EINVAL));
    assert_eq!(rig.broken().len(), 4);
    fires("VFIO-IRQ").first(&rig.broken());
}

#[test]
fn each_step_of_opening_that_comes_too_early_is_named() {
    let rig = Rig::new();
    rig.ask();
    assert_eq!(rig.set(VFIO_TYPE1V2_IOMMU), Err(Errno::EINVAL));
    fires("VFIO-ORDER").only(&rig.broken());
    // A device before its container has an IOMMU.
    let rig = Rig::new();
    rig.join().unwrap();
    assert_eq!(rig.device(), Err(Errno::EINVAL));
    fires("VFIO-ORDER").only(&rig.broken());
    // A mapping before there is an IOMMU.
    let rig = Rig::new();
    let memory = View::alloc(0x1000, 0x1000).unwrap();
    assert_eq!(rig.map(&memory, 0x10_0000, 0x1000), Err(Errno::EINVAL));
    fires("VFIO-ORDER").only(&rig.broken());
    // Another file in place of the container.
    let rig = Rig::new();
    let mut wrong = rig.group;
    let done = rig.with(rig.group, uapi::GROUP_SET_CONTAINER, &mut wrong);
    assert_eq!(done, Err(Errno::EINVAL));
    fires("VFIO-ORDER").only(&rig.broken());
    // A group whose status nobody knows.
    let rig = Rig::new();
    let mut container = rig.container;
    let done = rig.with(rig.group, uapi::GROUP_SET_CONTAINER, &mut container);
    assert_eq!(done, Err(Errno::EINVAL));
    fires("VFIO-VIABLE").only(&rig.broken());
    let rig = Rig::of(|config| config.viable = false);
    assert_eq!(rig.join(), Err(Errno::EPERM));
    fires("VFIO-VIABLE").only(&rig.broken());
    // Without questions: the kernel lets it pass.
    let rig = Rig::new();
    rig.join().unwrap();
    rig.set(VFIO_TYPE1V2_IOMMU).unwrap();
    fires("VFIO-ASKED").only(&rig.broken());
}

#[test]
fn the_wrong_kind_of_iommu_is_named() {
    let rig = Rig::new();
    rig.ask();
    rig.join().unwrap();
    assert_eq!(rig.set(VFIO_NOIOMMU_IOMMU), Err(Errno::EPERM));
    fires("VFIO-TYPE").only(&rig.broken());
    let rig = Rig::of(|config| config.no_iommu = true);
    assert_eq!(rig.kernel.group_path(), "/dev/vfio/noiommu-12");
    let kind = VFIO_NOIOMMU_IOMMU;
    rig.ask();
    let has = rig.by_value(rig.container, uapi::CHECK_EXTENSION, kind.into());
    assert_eq!(has, Ok(1));
    rig.join().unwrap();
    rig.set(kind).unwrap();
    rig.device().unwrap();
    assert!(rig.broken().is_empty());
    let memory = View::alloc(0x1000, 0x1000).unwrap();
    assert_eq!(rig.map(&memory, 0x10_0000, 0x1000), Err(Errno::ENOTTY));
    fires("VFIO-TYPE").only(&rig.broken());
}

#[test]
fn mappings_that_cannot_be_are_named() {
    let memory = View::alloc(0x4000, 0x1000).unwrap();
    for (iova, size, errno) in [
        (0x10_0800, 0x1000, Errno::EINVAL),
        (0x10_0000, 0x800, Errno::EINVAL),
        (0x10_0000, 0, Errno::EINVAL),
        (0xfee0_0000, 0x1000, Errno::EINVAL),
        (u64::MAX - 0xfff, 0x2000, Errno::EINVAL),
        (0x20_1000, 0x2000, Errno::EEXIST),
    ] {
        let rig = Rig::new();
        rig.opened();
        rig.map(&memory, 0x20_0000, 0x2000).unwrap();
        assert_eq!(rig.map(&memory, iova, size), Err(errno), "{iova:#x}");
        fires("VFIO-MAP").only(&rig.broken());
    }
    // Half of a mapping.
    let rig = Rig::new();
    rig.opened();
    rig.map(&memory, 0x20_0000, 0x2000).unwrap();
    assert_eq!(rig.unmap(0x20_0000, 0x1000), Err(Errno::EINVAL));
    fires("VFIO-UNMAP").only(&rig.broken());
    // A struct that is shorter than it is.
    let rig = Rig::new();
    rig.opened();
    let mut map = DmaMap::default();
    let done = rig.with(rig.container, uapi::IOMMU_MAP_DMA, &mut map);
    assert_eq!(done, Err(Errno::EINVAL));
    fires("VFIO-ARGSZ").only(&rig.broken());
}

#[test]
fn what_no_region_has_is_named() {
    let map = |offset, len| Map {
        offset,
        len,
        prot: Prot::ReadWrite,
        at: None,
    };
    // Where Linux has it, and not where it was said to be; beyond an end; a trapped one mapped; not aligned.
    for access in [0, 1, 2, 3] {
        let rig = Rig::new();
        let device = rig.opened();
        let at = rig.region(device, 5).offset;
        let done = match access {
            0 => rig.kernel.read_at(device, &mut [0; 4], 5 << 40).map(drop),
            1 => rig.kernel.write_at(device, &[0; 4], at + 0x100).map(drop),
            2 => rig.kernel.map(device, map(at, 0x1000)).map(drop),
            _ => rig.kernel.read_at(device, &mut [0; 4], at + 2).map(drop),
        };
        assert_eq!(done, Err(Errno::EINVAL), "{access}");
        fires("VFIO-REGION").only(&rig.broken());
    }
    let rig = Rig::of(|config| config.resets = false);
    let device = rig.opened();
    let done = rig.by_value(device, uapi::DEVICE_RESET, 0);
    assert_eq!(done, Err(Errno::EINVAL));
    fires("VFIO-RESET").only(&rig.broken());
    let rig = Rig::new();
    let device = rig.opened();
    assert_eq!(rig.kernel.ioctl(device, 0x3b72, 0), Err(Errno::ENOTTY));
    fires("VFIO-UNMODELLED").only(&rig.broken());
}
