//! A card that the crate `pci-driver` has opened, handed to our driver: the crate's own VFIO code on the strict model of the
//! kernel.

#![allow(clippy::unwrap_used)]

mod hooks;
#[path = "../../../host/tests/vfio/model.rs"]
mod model;
#[path = "../stand/mod.rs"]
mod stand;
#[path = "../am/through.rs"]
mod through;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use drivers_amd::Options;
use drivers_host::machine::Host;
use drivers_host::pci::lent::Container;
use hcq::mem::window::AccessWidth;
use hcq::transport::{Clock, Fault, Machine, MonotonicClock, Pci, ResetKind};
use hcq::wait::Deadline;
use pci_driver::backends::vfio::VfioPciDevice;
use tempfile::TempDir;
use through::Through;
use twin::vfio::{Config, Kernel};
use twin_amd::pci::machine::PciMachine;

const ADDRESS: &str = "0000:03:00.0";
const DOORBELLS: u8 = 2;

/// A machine with a card in a group, its kernel, and the files that tell of it.
struct Rig {
    folder: TempDir,
    twin: Arc<PciMachine>,
    kernel: Arc<Kernel>,
}

impl Rig {
    fn new(config: &str) -> Rig {
        let twin = PciMachine::new(config).unwrap();
        let bars = &twin.pci_functions().unwrap()[0].bars;
        let of = |mapped: bool| {
            let bars = bars
                .iter()
                .filter(|bar| (bar.number == DOORBELLS) == mapped);
            bars.map(|bar| (bar.number, bar.bytes)).collect()
        };
        let config = Config {
            mapped: of(true),
            trapped: of(false),
            ..Config::behind_iommu(12)
        };
        let function = twin.function(0).unwrap().clone();
        let kernel = Kernel::new(config, function, twin.journal().clone());
        let folder = tempfile::tempdir().unwrap();
        model::system(folder.path(), ADDRESS, false);
        let device = folder.path().join("sys/bus/pci/devices").join(ADDRESS);
        std::fs::create_dir_all(&device).unwrap();
        let group = folder.path().join("sys/kernel/iommu_groups/12");
        std::os::unix::fs::symlink(group, device.join("iommu_group")).unwrap();
        hooks::install(&kernel);
        Rig {
            folder,
            twin,
            kernel,
        }
    }

    /// The card, as a program opens it that knows nothing of us.
    fn device(&self) -> Arc<VfioPciDevice> {
        let path = self.folder.path().join("sys/bus/pci/devices").join(ADDRESS);
        Arc::new(VfioPciDevice::open(path).unwrap())
    }

    fn function(&self) -> (Arc<dyn Pci>, Arc<VfioPciDevice>) {
        let device = self.device();
        let container = Container::new(device.clone(), 0..=u64::MAX).unwrap();
        (container.function(ADDRESS, device.clone()).unwrap(), device)
    }

    fn unbroken(&self) {
        let broken = self.twin.journal().violations();
        let broken: Vec<_> = broken.iter().map(ToString::to_string).collect();
        assert!(broken.is_empty(), "{}", broken.join("\n"));
    }

    /// Rings on the card what is stored in the memory that stands for its doorbells, until the test is over.
    fn rings<T>(&self, work: impl FnOnce() -> T) -> T {
        let doorbells = self.twin.function(0).unwrap().bar(DOORBELLS).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut last = vec![0; doorbells.len() as usize / 8];
                while !done.load(Ordering::Relaxed) {
                    let stored = self.kernel.memory(DOORBELLS);
                    for (slot, last) in last.iter_mut().enumerate() {
                        let value = stored
                            .as_ref()
                            .map_or(Ok(0), |view| view.load_u64(slot * 8));
                        let value = value.unwrap();
                        if std::mem::replace(last, value) != value && value != 0 {
                            doorbells.write(slot as u64 * 8, value).unwrap();
                        }
                    }
                    std::thread::sleep(Duration::from_micros(50));
                }
            });
            let worked = work();
            done.store(true, Ordering::Relaxed);
            worked
        })
    }
}

fn options() -> Options {
    let firmware = Path::new(env!("CARGO_MANIFEST_DIR"));
    Options {
        firmware: vec![firmware.join("../../target/firmware/bookworm-backports")],
        ..stand::options()
    }
}

#[test]
fn a_card_that_somebody_else_has_opened_works() {
    let rig = Rig::new("chip=gfx1100");
    let image = stand::kernel("gfx1100", "sums", 2);
    for found in ["cold", "warm"] {
        rig.rings(|| {
            let (function, device) = rig.function();
            let machine: Arc<dyn Machine> = Through::new(&rig.twin.again(), function);
            let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
            let way = drivers_amd::am::open(&machine, ADDRESS, 0, &clock, &options()).unwrap();
            let card = drivers_amd::over(&way, &options()).unwrap();
            assert!(!rig.kernel.mapped().is_empty());
            assert!(stand::work_on(&*card, &image, 4).unwrap(), "{found}");
            drop((card, way, machine));
            assert_eq!(rig.kernel.mapped(), [], "{found}");
            // It is still the program's.
            assert_eq!(rig.kernel.containers(), 1);
            drop(device);
        });
        assert_eq!(rig.kernel.containers(), 0, "{found}");
        rig.unbroken();
    }
}

#[test]
fn what_the_function_has_is_there_and_the_rest_is_refused_by_name() {
    let rig = Rig::new("chip=gfx1100");
    let (function, device) = rig.function();
    assert_eq!(function.config_read(0, AccessWidth::W16), Ok(0x1002));
    for (offset, width) in [(1, AccessWidth::W16), (0, AccessWidth::W64)] {
        assert!(function.config_read(offset, width).is_err(), "{offset}");
    }
    let error = function.bar(1).err().unwrap().to_string();
    assert!(
        error.contains("no such BAR; the function has 0, 2, 5"),
        "{error}"
    );
    // Memory is where it is said to be, and as the card finds it; two functions of a container share addresses.
    let dma = function.dma(3 << 12, 1 << 16).unwrap();
    let range = &dma.ranges.for_domain(function.domain()).unwrap()[0];
    assert!(range.addr.0.is_multiple_of(1 << 16));
    assert_eq!(rig.kernel.mapped(), [(range.addr.0, 3 << 12)]);
    assert!(function.dma(0, 1).is_err());
    // VRAM is read and written by calls here, and not by 8 bytes at once.
    let vram = function.bar(0).unwrap();
    assert!(
        vram.write(0x1000, 1u64)
            .unwrap_err()
            .to_string()
            .contains("at most 4 bytes")
    );
    vram.write_bytes(0x1003, &[1, 2, 3, 4, 5, 6, 7, 8, 9])
        .unwrap();
    assert_eq!(vram.read::<u64>(0x1000), Ok(0x0504_0302_0100_0000));
    // Others of the container find the doorbells, which can be mapped, and not VRAM, which cannot.
    assert!(function.shown(DOORBELLS, 0x1000).is_ok());
    assert!(function.shown(0, 0x1000).is_err());
    let error = function.reset(ResetKind::Bus).unwrap_err().to_string();
    assert!(
        error.contains("not supported by the crate pci-driver"),
        "{error}"
    );
    drop((vram, dma, function));
    assert_eq!(rig.kernel.mapped(), []);
    drop(device);
    rig.unbroken();
}

#[test]
fn an_interrupt_is_waited_for() {
    let rig = Rig::new("chip=gfx1100");
    let (function, device) = rig.function();
    let soon = || Deadline::after(Duration::from_millis(5));
    let late = function.wait_irq(0, soon()).unwrap_err();
    assert_eq!(late.fault, Fault::TimedOut(soon().limit()));
    assert!(function.wait_irq(1, soon()).is_err());
    function.config_write(4, AccessWidth::W16, 6).unwrap();
    rig.twin.function(0).unwrap().bus().interrupt(0);
    assert_eq!(function.wait_irq(0, soon()), Ok(1));
    // Whoever is lent the card starts nothing any more, once he is gone.
    drop(function);
    assert!(!rig.twin.function(0).unwrap().bus().master());
    drop(device);
    rig.unbroken();
}

#[test]
fn a_machine_lends_what_it_was_given() {
    let rig = Rig::new("chip=gfx1100");
    let (function, _device) = rig.function();
    let machine = Host::lending(vec![function.clone()]);
    assert!(Arc::ptr_eq(&machine.open_pci(ADDRESS).unwrap(), &function));
    assert!(machine.open_pci("ffff:ff:1f.7").is_err());
}
