//! A card that vfio-pci has, behind an IOMMU: the driver over drivers-host, on the strict model of the kernel.

use std::sync::Arc;
use std::time::Duration;

use conformance::part::Part;
use drivers_amd::AmdDevice;
use drivers_host::pci::System;
use drivers_host::pci::vfio::{Domains, open};
use hcq::MemoryKind;
use hcq::transport::{Clock, Machine, Pci, TransportError, VirtualClock};
use tempfile::TempDir;
use twin::rng::Rng;
use twin::vfio::{Config, Kernel};
use twin_amd::pci::machine::PciMachine;

use super::device::{options, unbroken};
use super::killed::Load;
use super::model::{Model, system};
use super::stand;
use super::through::Through;

const ADDRESS: &str = "0000:03:00.0";

/// A machine with a card, its kernel, and the files that tell of it.
struct Rig {
    folder: TempDir,
    twin: Arc<PciMachine>,
    kernel: Arc<Kernel>,
}

impl Rig {
    fn new(config: &str) -> Rig {
        let twin = PciMachine::new(config).unwrap();
        let bars = &twin.pci_functions().unwrap()[0].bars;
        let config = Config {
            trapped: bars.iter().map(|bar| (bar.number, bar.bytes)).collect(),
            ..Config::behind_iommu(12)
        };
        let function = twin.function(0).unwrap().clone();
        let folder = tempfile::tempdir().unwrap();
        system(folder.path(), ADDRESS, false);
        Rig {
            kernel: Kernel::new(config, function, twin.journal().clone()),
            folder,
            twin,
        }
    }

    /// The file by which a process has the card.
    fn lock(&self) -> std::path::PathBuf {
        let name = format!("run/lock/doorbell-{ADDRESS}.lock");
        self.folder.path().join(name)
    }

    /// The function, as a process opens it.
    fn function(&self) -> Result<(Arc<dyn Pci>, Arc<Model>), TransportError> {
        self.function_by(Model::new(&self.kernel, None))
    }

    fn function_by(&self, model: Arc<Model>) -> Result<(Arc<dyn Pci>, Arc<Model>), TransportError> {
        let domains = Domains::new(model.clone());
        let system = System::at(self.folder.path());
        let pci = open(&system, &domains, ADDRESS, Duration::ZERO)?;
        Ok((pci, model))
    }

    /// The device, as a process opens it.
    fn device(&self) -> (Arc<AmdDevice>, Arc<Model>) {
        let (pci, model) = self.function().unwrap();
        (self.device_over(pci).unwrap(), model)
    }

    fn device_over(&self, pci: Arc<dyn Pci>) -> hcq::Result<Arc<AmdDevice>> {
        let machine: Arc<dyn Machine> = Through::new(&self.twin.again(), pci);
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
        let backend = drivers_amd::am::open(&machine, ADDRESS, 0, &clock, &options())?;
        drivers_amd::over(&backend, &options())
    }
}

#[test]
fn work_is_done_by_vfio_and_the_kernel_has_everything_back() {
    for chip in ["gfx1100", "gfx1201"] {
        let rig = Rig::new(&format!("chip={chip}"));
        let image = stand::kernel(chip, "sums", 2);
        for found in ["cold", "warm"] {
            let (device, model) = rig.device();
            assert!(!rig.kernel.mapped().is_empty());
            assert!(
                stand::work_on(&*device, &image, 4).unwrap(),
                "{chip} {found}"
            );
            // Nobody else gets it meanwhile.
            assert!(rig.function().is_err());
            drop(device);
            assert_eq!(rig.kernel.mapped(), [], "{chip} {found}");
            assert_eq!(model.open(), 0, "{chip} {found}");
            unbroken(&rig.twin);
        }
    }
}

/// The kernel resets the bus for who has its only group: a card whose reset has not ended is silent until then.
#[test]
fn a_silent_card_is_reset_by_vfio() {
    let rig = Rig::new("chip=gfx1201,before=kernel,stuck=2");
    let open = || {
        let (pci, _) = rig.function().unwrap();
        let machine: Arc<dyn Machine> = Through::new(&rig.twin.again(), pci);
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
        drivers_amd::am::open(&machine, ADDRESS, 0, &clock, &options())
    };
    let error = open().err().unwrap().to_string();
    assert!(error.contains("stage 4 of 13"), "{error}");
    drop(open().unwrap());
    unbroken(&rig.twin);
}

/// What the kernel does for a process that is killed: descriptors are closed, mappings go, and the function is no master.
#[test]
fn a_process_that_dies_leaves_a_card_that_reaches_nothing() {
    let rig = Rig::new("chip=gfx1201");
    let (device, model) = rig.device();
    let buffer = stand::memory(&*device, MemoryKind::Host, 1 << 20).unwrap();
    std::mem::forget((buffer, device));
    model.dies();
    std::fs::remove_file(rig.lock()).unwrap();
    assert_eq!(rig.kernel.mapped(), []);
    let (device, _) = rig.device();
    let image = stand::kernel("gfx1201", "sums", 2);
    assert!(stand::work_on(&*device, &image, 0).unwrap());
    drop(device);
    unbroken(&rig.twin);
}

/// How often a process is killed.
const KILLS: usize = 200;

/// Anywhere in a start, in kernels, in copies: the kernel takes mastering from the card before it takes its mappings.
#[test]
fn a_process_is_killed_at_any_moment_and_the_next_one_starts() {
    let part = Part::chosen();
    for (of, chip) in ["gfx1201", "gfx1100"].into_iter().enumerate() {
        let image = stand::kernel(chip, "sums", 2);
        // How many calls there are.
        let rig = Rig::new(&format!("chip={chip}"));
        let (device, model) = rig.device();
        let load = Load::new(&device, &image).unwrap();
        load.submit().unwrap();
        let all = model.made();
        drop((load, device));
        for index in (of..KILLS)
            .step_by(2)
            .filter(|index| part.has(*index / 2, 50))
        {
            // One in four with all of the work under way.
            let moment = Rng::new(index as u64).below(all + all / 3);
            let rig = Rig::new(&format!("chip={chip}"));
            let model = Model::killed(&rig.kernel, moment);
            // What the dead one goes on with reaches nobody; its memory is this test's, and stays.
            let opened = rig.function_by(model.clone());
            let opened = opened.map(|(pci, _)| (rig.device_over(pci.clone()), pci));
            let load = match &opened {
                Ok((Ok(device), _)) => Load::new(device, &image).ok(),
                _ => None,
            };
            _ = load.as_ref().map(Load::submit);
            if !model.is_dead() {
                model.dies();
            }
            assert_eq!(rig.kernel.mapped(), [], "{chip} {moment} of {all}");
            let master = rig.twin.function(0).unwrap().bus().master();
            assert!(!master, "{chip} {moment} of {all}");
            drop((load, opened));
            // What is kept for a card that nobody can stop keeps the lock, too; the system takes it from the dead.
            _ = std::fs::remove_file(rig.lock());
            let (device, _) = rig.device();
            let right = stand::work_on(&*device, &image, 0).unwrap();
            assert!(right, "{chip} {moment} of {all}");
            drop(device);
            unbroken(&rig.twin);
        }
    }
}
