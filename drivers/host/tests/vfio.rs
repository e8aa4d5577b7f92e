//! Functions by VFIO, on a strict model of the kernel: order of calls, memory, interrupts, each call that fails.

#![allow(clippy::unwrap_used)]

#[path = "vfio/model.rs"]
mod model;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use drivers_host::pci::System;
use drivers_host::pci::vfio::{Domains, open};
use drivers_spec::pci::PCI_COMMAND;
use hcq::mem::window::AccessWidth;
use hcq::transport::{BusRange, Dma, Fault, Pci, ResetKind, TransportError};
use hcq::wait::Deadline;
use twin::errno::Errno;
use twin::pci::{Bar, Bus, Function, HostMemory, Identity, Target};
use twin::rule::{Journal, Rule};
use twin::vfio::{Config, Kernel};

use model::{Model, system};

const ADDRESS: &str = "0000:03:00.0";

/// Registers of 32 bits.
struct Registers([u32; 64]);

impl Target for Registers {
    fn read(&mut self, at: u64, width: AccessWidth) -> Result<u64, (&'static Rule, String)> {
        let word = u64::from(self.0[at as usize / 4]) >> (at % 4 * 8);
        Ok(word & width.ones())
    }
    fn write(
        &mut self,
        at: u64,
        width: AccessWidth,
        value: u64,
    ) -> Result<(), (&'static Rule, String)> {
        let shift = at % 4 * 8;
        let word = &mut self.0[at as usize / 4];
        *word = *word & !((width.ones() << shift) as u32) | (value << shift) as u32;
        Ok(())
    }
    fn reset(&mut self, _: ResetKind) {
        self.0 = [0; 64];
    }
}

/// A machine with a card in a group, and its kernel.
struct Rig {
    folder: tempfile::TempDir,
    kernel: Arc<Kernel>,
    bus: Arc<Bus>,
    journal: Arc<Journal>,
}

impl Rig {
    fn of(change: impl FnOnce(&mut Config)) -> Rig {
        let mut config = Config::behind_iommu(12);
        config.mapped = vec![(0, 0x4000)];
        config.trapped = vec![(5, 0x100)];
        change(&mut config);
        let folder = tempfile::tempdir().unwrap();
        system(folder.path(), ADDRESS, config.no_iommu);
        let journal = Arc::new(Journal::new());
        let identity = Identity {
            vendor: 0x1002,
            device: 0x7550,
            class: 0x03_0000,
            revision: 0,
        };
        let bar = Bar {
            number: 5,
            bytes: 0x100,
            wide: false,
            prefetch: false,
            target: Box::new(Registers([0; 64])),
        };
        let bus = Bus::new(&HostMemory::new());
        let function = Function::new(ADDRESS, identity, vec![bar], bus.clone(), journal.clone());
        let kernel = Kernel::new(config, Arc::new(function), journal.clone());
        Rig {
            folder,
            kernel,
            bus,
            journal,
        }
    }

    fn new() -> Rig {
        Rig::of(|_| {})
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    fn model(&self, fails: Option<usize>) -> Arc<Model> {
        Model::new(&self.kernel, fails)
    }

    fn open(&self) -> Result<Arc<dyn Pci>, TransportError> {
        let domains = Domains::new(self.model(None));
        open(&System::at(self.root()), &domains, ADDRESS, Duration::ZERO)
    }

    fn refused(&self) -> String {
        self.open().err().unwrap().to_string()
    }

    /// A byte of memory, as the function finds it.
    fn finds(&self, at: u64) -> u8 {
        let (memory, page) = self.bus.reach(at, "the function", &self.journal).unwrap();
        let mut byte = [0];
        memory
            .frame(page)
            .unwrap()
            .read((at % 0x1000) as usize, &mut byte);
        byte[0]
    }

    /// Writes a byte of memory, as the function does.
    fn writes(&self, at: u64, byte: u8) {
        let (memory, page) = self.bus.reach(at, "the function", &self.journal).unwrap();
        let frame = memory.frame(page).unwrap();
        frame.write((at % 0x1000) as usize, &[byte]);
    }

    fn unbroken(&self) {
        let broken: Vec<_> = self.journal.violations();
        let broken: Vec<_> = broken.iter().map(ToString::to_string).collect();
        assert!(broken.is_empty(), "{broken:?}");
    }
}

/// Where a function finds memory.
fn found<'a>(pci: &dyn Pci, dma: &'a Dma) -> &'a [BusRange] {
    dma.ranges.for_domain(pci.domain()).unwrap()
}

fn master(pci: &dyn Pci) {
    let command = pci.config_read(PCI_COMMAND, AccessWidth::W16).unwrap();
    pci.config_write(PCI_COMMAND, AccessWidth::W16, command | 4)
        .unwrap();
}

#[test]
fn windows_are_mapped_or_read_and_written_and_the_configuration_too() {
    let rig = Rig::new();
    let pci = rig.open().unwrap();
    assert_eq!(pci.config_read(0, AccessWidth::W32), Ok(0x7550_1002));
    assert_eq!(pci.config_read(2, AccessWidth::W16), Ok(0x7550));
    for (offset, width) in [
        (1, AccessWidth::W16),
        (0, AccessWidth::W64),
        (0x1000, AccessWidth::W8),
    ] {
        assert!(pci.config_read(offset, width).is_err(), "{offset}");
    }
    let vram = pci.bar(0).unwrap();
    assert_eq!((vram.name(), vram.len()), ("0000:03:00.0 BAR0", 0x4000));
    vram.write(0x3ff8, 9u64).unwrap();
    let behind = rig.kernel.memory(0).unwrap();
    assert_eq!(behind.read::<u64>(0x3ff8), Ok(9));
    let registers = pci.bar(5).unwrap();
    registers.write(0x10, 0x1234_5678u32).unwrap();
    assert_eq!(registers.read::<u32>(0x10), Ok(0x1234_5678));
    // What is not aligned goes by smaller elements.
    registers.write_bytes(0x21, &[1, 2, 3, 4, 5]).unwrap();
    let mut bytes = [0; 7];
    registers.read_bytes(0x20, &mut bytes).unwrap();
    assert_eq!(bytes, [0, 1, 2, 3, 4, 5, 0]);
    assert!(registers.read::<u32>(0x100).is_err());
    let error = pci.bar(2).err().unwrap().to_string();
    assert!(
        error.contains("no such memory BAR; the function has 0, 5"),
        "{error}"
    );
    pci.reset(ResetKind::Function).unwrap();
    assert_eq!(registers.read::<u32>(0x10), Ok(0));
    let error = pci.reset(ResetKind::Power).unwrap_err().to_string();
    assert!(
        error.contains("doorbell reset ADDRESS --kind pm"),
        "{error}"
    );
    rig.unbroken();
}

#[test]
fn a_bus_is_reset_if_nobody_else_is_on_it() {
    // Alone; with a function of the same group; with one of another group.
    for beside in [vec![], vec![(12, 1)], vec![(12, 1), (13, 2)]] {
        let is_alone = beside.len() < 2;
        let rig = Rig::of(|config| config.beside = beside);
        let pci = rig.open().unwrap();
        let registers = pci.bar(5).unwrap();
        registers.write(0x10, 7u32).unwrap();
        let done = pci.reset(ResetKind::Bus);
        assert_eq!(done.is_ok(), is_alone, "{done:?}");
        if let Err(error) = done {
            let error = error.to_string();
            assert!(error.contains("0000:03:00.2 of group 13"), "{error}");
        }
        let left = if is_alone { 0 } else { 7 };
        assert_eq!(registers.read::<u32>(0x10), Ok(left));
        rig.unbroken();
    }
}

#[test]
fn memory_is_where_the_function_finds_it_as_long_as_somebody_has_it() {
    let rig = Rig::new();
    let pci = rig.open().unwrap();
    master(&*pci);
    let first = pci.dma(0x5001, 0x1000).unwrap();
    let second = pci.dma(0x1000, 2 << 20).unwrap();
    assert_eq!((first.view.len(), found(&*pci, &first).len()), (0x6000, 1));
    let above = found(&*pci, &second)[0].addr;
    assert!(above.is_aligned(2 << 20));
    let at = found(&*pci, &first)[0].addr.0;
    first.view.write(0x5ff8, 7u64).unwrap();
    assert_eq!((rig.finds(at + 0x5ff8), rig.finds(at + 0x5ff9)), (7, 0));
    rig.writes(above.0, 5);
    assert_eq!(second.view.read::<u8>(0), Ok(5));
    assert_eq!(rig.kernel.mapped().len(), 2);
    // A part keeps all of it; the group stays with us while something is mapped.
    let part = first.view.sub(0x1000, 8).unwrap();
    drop(first);
    rig.writes(at + 0x1000, 3);
    assert_eq!(part.read::<u8>(0), Ok(3));
    drop(pci);
    assert!(!rig.bus.master());
    drop(second);
    assert_eq!(rig.kernel.mapped(), [(at, 0x6000)]);
    drop(part);
    assert_eq!(rig.kernel.mapped(), []);
    rig.unbroken();
    // All of it is given back: the next one opens.
    let pci = rig.open().unwrap();
    for (bytes, align) in [(0, 0x1000), (0x1000, 3), (0x1000, 4 << 20)] {
        let error = pci.dma(bytes, align).unwrap_err().to_string();
        assert!(
            error.contains("pages of 0x1000 or 0x200000 bytes"),
            "{error}"
        );
    }
    rig.unbroken();
}

#[test]
fn interrupts_end_a_wait_also_those_that_came_before_it() {
    let rig = Rig::of(|config| config.vectors = 2);
    let pci = rig.open().unwrap();
    master(&*pci);
    rig.bus.interrupt(1);
    rig.bus.interrupt(1);
    let long = || Deadline::after(Duration::from_secs(60));
    assert_eq!(pci.wait_irq(1, long()), Ok(2));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| pci.wait_irq(0, long()));
        rig.bus.interrupt(0);
        assert_eq!(waits.join().unwrap(), Ok(1));
    });
    let error = pci.wait_irq(0, Deadline::after(Duration::from_millis(5)));
    assert!(matches!(error.unwrap_err().fault, Fault::TimedOut(_)));
    let error = pci.wait_irq(2, long()).unwrap_err().to_string();
    assert!(error.contains("the function has 2 interrupts"), "{error}");
    rig.unbroken();
    // Of four, the machine has room for one.
    let rig = Rig::of(|config| (config.vectors, config.room) = (4, 1));
    let pci = rig.open().unwrap();
    master(&*pci);
    rig.bus.interrupt(0);
    assert_eq!(pci.wait_irq(0, long()), Ok(1));
    assert!(pci.wait_irq(1, long()).is_err());
    rig.unbroken();
    // A function without any is opened too.
    let rig = Rig::of(|config| config.vectors = 0);
    rig.open().unwrap();
    rig.unbroken();
}

#[test]
fn without_an_iommu_memory_lies_in_huge_pages() {
    let rig = Rig::of(|config| config.no_iommu = true);
    let pci = rig.open().unwrap();
    assert_eq!(pci.bar(5).unwrap().read::<u32>(0), Ok(0));
    let error = pci.dma(0x2000, 0x1000).unwrap_err().to_string();
    assert!(error.contains("mount -t hugetlbfs"), "{error}");
    rig.unbroken();
}

/// Who keeps memory for reuse gives it back by the number of the error, and asks again.
#[test]
fn memory_that_cannot_be_locked_is_an_error_with_its_number() {
    let rig = Rig::new();
    let model = rig.model(None);
    let domains = Domains::new(model.clone());
    let pci = open(&System::at(rig.root()), &domains, ADDRESS, Duration::ZERO).unwrap();
    for errno in [Errno::ENOMEM, Errno::EAGAIN, Errno::EPERM] {
        *model.full.lock().unwrap() = Some(errno);
        let error = pci.dma(0x1000, 0x1000).unwrap_err();
        assert_eq!(error.fault, Fault::Errno(errno.0), "{error}");
        assert!(error.to_string().contains("ulimit -l"), "{error}");
    }
    *model.full.lock().unwrap() = None;
    let dma = pci.dma(0x1000, 0x1000).unwrap();
    drop(dma);
    drop(pci);
    rig.unbroken();
    // Addresses of the bus are used up as memory is.
    let rig = Rig::of(|config| config.iova = vec![(1 << 20, (1 << 20) + 0x3fff)]);
    let pci = rig.open().unwrap();
    let error = pci.dma(0x8000, 0x1000).unwrap_err();
    assert_eq!(error.fault, Fault::Errno(Errno::ENOMEM.0), "{error}");
    drop(pci);
    rig.unbroken();
}

#[test]
fn what_is_in_the_way_is_said() {
    let rig = Rig::of(|config| config.viable = false);
    let error = rig.refused();
    assert!(error.contains("IOMMU group 12 is not viable"), "{error}");
    rig.unbroken();
    // The kernel has made a group without IOMMU of it meanwhile.
    let rig = Rig::new();
    let name = rig.root().join("sys/kernel/iommu_groups/12/name");
    std::fs::write(name, "vfio-noiommu\n").unwrap();
    let error = rig.refused();
    assert!(error.contains("no IOMMU of type 8"), "{error}");
    let rig = Rig::of(|config| config.iova = vec![(0, 0xfff)]);
    let error = rig.refused();
    assert!(error.contains("no usable IOMMU address range"), "{error}");
    let rig = Rig::new();
    std::fs::remove_dir_all(rig.root().join("sys/kernel")).unwrap();
    let error = rig.refused();
    assert!(error.contains("not in an IOMMU group"), "{error}");
    // Another program has it: the lock says which.
    let rig = Rig::new();
    let _first = rig.open().unwrap();
    assert!(rig.refused().contains("process"), "{}", rig.refused());
}

#[test]
fn each_call_that_fails_is_named_and_leaves_nothing_behind() {
    let rig = Rig::new();
    let mut named = BTreeSet::new();
    for n in 0.. {
        let model = rig.model(Some(n));
        let domains = Domains::new(model.clone());
        let run = || {
            let pci = open(&System::at(rig.root()), &domains, ADDRESS, Duration::ZERO)?;
            let dma = pci.dma(0x1000, 0x1000)?;
            pci.bar(0)?;
            pci.bar(5)?.read::<u32>(0)?;
            drop(dma);
            pci.reset(ResetKind::Function)?;
            pci.reset(ResetKind::Bus)
        };
        let done = run();
        let failed = model.made() > n;
        drop(domains);
        assert_eq!(model.open(), 0, "{n}");
        match done {
            Err(error) => _ = named.insert(error.operation),
            // What was not unmapped the kernel takes away with the group.
            Ok(()) if failed => assert_eq!(rig.kernel.mapped(), []),
            Ok(()) => break,
        }
    }
    for operation in [
        "open",
        "ioctl VFIO_GET_API_VERSION",
        "ioctl VFIO_CHECK_EXTENSION",
        "ioctl VFIO_GROUP_GET_STATUS",
        "ioctl VFIO_GROUP_SET_CONTAINER",
        "ioctl VFIO_SET_IOMMU",
        "ioctl VFIO_IOMMU_GET_INFO",
        "ioctl VFIO_GROUP_GET_DEVICE_FD",
        "ioctl VFIO_DEVICE_GET_INFO",
        "ioctl VFIO_DEVICE_GET_REGION_INFO",
        "ioctl VFIO_DEVICE_GET_IRQ_INFO",
        "eventfd",
        "ioctl VFIO_DEVICE_SET_IRQS",
        "map 0x1000 bytes aligned to 0x1000: locked in memory (`ulimit -l`)",
        "mmap 0x4000 bytes rw at offset 0x40000000000",
        "read BAR5 0x0 4 bytes",
        "ioctl VFIO_DEVICE_RESET",
        "ioctl VFIO_DEVICE_GET_PCI_HOT_RESET_INFO",
        "ioctl VFIO_DEVICE_PCI_HOT_RESET",
    ] {
        assert!(named.contains(operation), "{operation}: {named:?}");
    }
    // The kernel still gives it away.
    rig.open().unwrap();
    rig.unbroken();
}
