//! Several cards that vfio-pci has, in one process: what one has of memory, the others find at the same place or not at all.

use std::sync::Arc;
use std::time::Duration;

use drivers_amd::AmdDevice;
use drivers_host::pci::System;
use drivers_host::pci::vfio::{Domains, open};
use hcq::addr::{BusRanges, Domain};
use hcq::mem::window::{AccessWidth, Window};
use hcq::transport::{Clock, Dma, Machine, Pci, ResetKind, TransportError, VirtualClock};
use hcq::wait::Deadline;
use hcq::{Buffer, Command, Device, MemoryKind, QueueKind, Stream};
use tempfile::TempDir;
use twin::vfio::{Config, Kernel};
use twin_amd::pci::machine::PciMachine;

use super::device::{options, unbroken};
use super::model::{Model, system_of};
use super::stand::{self, at, memory, soon};
use super::through::Through;

/// A card as VFIO gives it, but for the window of its memory: no model sees what goes through a mapping.
struct Seen {
    by_vfio: Arc<dyn Pci>,
    twin: Arc<twin::pci::Function>,
}

impl Pci for Seen {
    fn name(&self) -> &str {
        self.by_vfio.name()
    }
    fn bar(&self, n: u8) -> Result<Window, TransportError> {
        match n {
            0 => self.twin.bar(0),
            _ => self.by_vfio.bar(n),
        }
    }
    fn config_read(&self, offset: u16, width: AccessWidth) -> Result<u32, TransportError> {
        self.by_vfio.config_read(offset, width)
    }
    fn config_write(
        &self,
        offset: u16,
        width: AccessWidth,
        value: u32,
    ) -> Result<(), TransportError> {
        self.by_vfio.config_write(offset, width, value)
    }
    fn dma(&self, bytes: u64, align: u64) -> Result<Dma, TransportError> {
        self.by_vfio.dma(bytes, align)
    }
    fn domain(&self) -> Domain {
        self.by_vfio.domain()
    }
    fn shown(&self, n: u8, bytes: u64) -> Result<BusRanges, TransportError> {
        self.by_vfio.shown(n, bytes)
    }
    fn reset(&self, kind: ResetKind) -> Result<(), TransportError> {
        self.by_vfio.reset(kind)
    }
    fn wait_irq(&self, vector: u32, deadline: Deadline) -> Result<u64, TransportError> {
        self.by_vfio.wait_irq(vector, deadline)
    }
}

/// A machine with cards, each in an IOMMU group of its own, and a process on it.
struct Rig {
    twin: Arc<PciMachine>,
    kernel: Arc<Kernel>,
    model: Arc<Model>,
    machine: Arc<dyn Machine>,
    _folder: TempDir,
}

impl Rig {
    fn of(config: &str, change: impl Fn(usize, &mut Config)) -> Rig {
        let twin = PciMachine::new(config).unwrap();
        let found = twin.pci_functions().unwrap();
        let groups: Vec<_> = found
            .iter()
            .enumerate()
            .map(|(number, function)| {
                let bars = function.bars.iter();
                let of = |bar: &hcq::transport::Bar| (bar.number, bar.bytes);
                let (windows, trapped) = bars.map(of).partition(|(bar, _)| *bar == 0);
                let mut config = Config {
                    windows,
                    trapped,
                    ..Config::behind_iommu(12 + number as u32)
                };
                change(number, &mut config);
                (config, twin.function(number).unwrap().clone())
            })
            .collect();
        let folder = tempfile::tempdir().unwrap();
        let places = (12..).zip(&found);
        let places: Vec<_> = places
            .map(|(group, function)| (group, &*function.address))
            .collect();
        system_of(folder.path(), &places, false);
        let kernel = Kernel::of(groups, twin.journal().clone());
        let model = Model::new(&kernel, None);
        let (domains, system) = (Domains::new(model.clone()), System::at(folder.path()));
        let near = twin.clone();
        let machine = Through::by(
            &twin,
            Box::new(move |address| {
                let mut all = near.pci_functions()?.into_iter();
                let number = all.position(|function| function.address == address);
                let twin = near.function(number.unwrap()).unwrap().clone();
                let by_vfio = open(&system, &domains, address, Duration::ZERO)?;
                Ok(Arc::new(Seen { by_vfio, twin }))
            }),
        );
        Rig {
            twin,
            kernel,
            model,
            machine,
            _folder: folder,
        }
    }

    fn open(&self, index: u32) -> Arc<AmdDevice> {
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
        let address = format!("0000:{:02x}:00.0", 3 + index);
        let card = drivers_amd::am::open(&self.machine, &address, index, &clock, &options());
        drivers_amd::over(&card.unwrap(), &options()).unwrap()
    }
}

const BYTES: u64 = 300_000;

fn content(seed: u64) -> Vec<u8> {
    (0..BYTES)
        .map(|i| ((i * 11 + seed * 37) >> 2) as u8)
        .collect()
}

fn filled(device: &AmdDevice, kind: MemoryKind, seed: u64) -> Buffer {
    let buffer = memory(device, kind, BYTES).unwrap();
    buffer.write(0, &content(seed)).unwrap();
    buffer
}

/// Copies by a card, and says whether it has arrived.
fn copied(by: &AmdDevice, from: &Buffer, to: &Buffer, seed: u64) -> bool {
    let stream = Stream::new(by.queue(QueueKind::Copy, 0).unwrap());
    let copy = Command::Copy {
        dst: at(to),
        src: at(from),
        bytes: BYTES,
    };
    stream.submit(&[], &[copy]).unwrap().wait(soon()).unwrap();
    let mut seen = vec![0; BYTES as usize];
    to.read(0, &mut seen).unwrap();
    seen == content(seed)
}

#[test]
fn cards_in_one_container_copy_between_all_and_share_memory_of_the_host() {
    for (chip, cards) in [("gfx1201", 2), ("gfx1100", 3)] {
        let rig = Rig::of(&format!("chip={chip},gpus={cards}"), |_, _| {});
        // Memory that is there before the second card is, and after.
        let mut devices = vec![rig.open(0)];
        let early = filled(&devices[0], MemoryKind::Host, 90);
        devices.extend((1..cards).map(|index| rig.open(index)));
        assert_eq!(rig.kernel.containers(), 1);
        let hosts: Vec<_> = devices
            .iter()
            .zip(0..)
            .map(|(device, seed)| filled(device, MemoryKind::Host, seed))
            .collect();
        let vrams: Vec<_> = devices
            .iter()
            .zip(10..)
            .map(|(device, seed)| filled(device, MemoryKind::Device, seed))
            .collect();
        let seeds = (0..).zip(&hosts).chain((10..).zip(&vrams));
        for (seed, from) in seeds.chain([(90, &early)]) {
            for by in &devices {
                assert!(by.reaches(from), "{chip}: {seed}");
                // Into memory of each card, and of the host.
                for other in &devices {
                    let to = memory(&**other, MemoryKind::Device, BYTES).unwrap();
                    assert!(copied(by, from, &to, seed), "{chip}: {seed}");
                    let to = memory(&**other, MemoryKind::Host, BYTES).unwrap();
                    assert!(copied(by, from, &to, seed), "{chip}: {seed}");
                }
            }
        }
        // Rings of all are where they were.
        let image = stand::kernel(chip, "sums", 2);
        for device in &devices {
            assert!(stand::work_on(&**device, &image, 2).unwrap(), "{chip}");
        }
        drop((early, hosts, vrams));
        // Who opened the container first is gone first.
        let rest = devices.split_off(1);
        drop(devices);
        for device in &rest {
            assert!(stand::work_on(&**device, &image, 2).unwrap(), "{chip}");
        }
        drop(rest);
        assert_eq!((rig.kernel.mapped(), rig.model.open()), (vec![], 0));
        unbroken(&rig.twin);
    }
}

/// A group that the kernel does not let in has a container of its own. Nothing is shared, which is said and no error.
#[test]
fn a_card_behind_another_kind_of_iommu_shares_nothing() {
    for mistake in ["other", "fewer addresses"] {
        let rig = Rig::of("chip=gfx1201,gpus=2", |number, config| {
            match (number, mistake) {
                (1, "other") => config.iommu = 1,
                (1, _) => config.iova = vec![(0x20_0000, (1 << 36) - 1)],
                _ => {}
            }
        });
        let (first, second) = (rig.open(0), rig.open(1));
        assert_eq!(rig.kernel.containers(), 2, "{mistake}");
        for kind in [MemoryKind::Host, MemoryKind::Device] {
            let (a, b) = (filled(&first, kind, 1), filled(&second, kind, 2));
            assert!(first.reaches(&a) && second.reaches(&b), "{mistake}");
            assert!(!first.reaches(&b) && !second.reaches(&a), "{mistake}");
        }
        let image = stand::kernel("gfx1201", "sums", 2);
        for device in [first, second] {
            assert!(stand::work_on(&*device, &image, 2).unwrap(), "{mistake}");
        }
        assert_eq!((rig.kernel.mapped(), rig.model.open()), (vec![], 0));
        unbroken(&rig.twin);
    }
}
