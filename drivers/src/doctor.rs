//! System checks. Writes no file: reads sysfs, and opens and closes the device files of kernel drivers to check
//! access. NVIDIA's driver is asked for the compute mode of each GPU; a GPU in an exclusive mode is reserved for that
//! moment.
//!
//! System files are read through [`Files`], so that tests describe a machine as a folder and see each access; kernel
//! drivers are accessed on a [`Machine`], so that tests describe their states with a twin.

mod kfd;
mod nvk;
mod opencl;
mod owner;
mod pci;
mod qcom;
mod runtime;
mod usb;

use drivers_host::cpuinfo::CpuInfo;
use drivers_host::pci::Files;
use drivers_spec::pci::{VENDOR_AMD, VENDOR_NVIDIA};
use hcq::transport::{Machine, PciFunction};

use crate::bus::{NVIDIA_CARDS, is_gpu};
use owner::Owner;

pub use runtime::runtimes;

/// How a row came out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Usable.
    Ok,
    /// Usable, but slower or less than it could be.
    Warn,
    /// Not there; nothing is wrong.
    Absent,
    /// There, and cannot be used.
    Fail,
}

impl Status {
    /// The word that is printed and put into JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Warn => "warn",
            Status::Absent => "not present",
            Status::Fail => "fail",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// A stable name, `cpu`, `amd.kfd`...
    pub check: String,
    /// How it came out.
    pub status: Status,
    /// What was seen, with the path it was read from.
    pub detail: String,
    /// What to do, empty if there is nothing to do.
    pub fix: String,
}

impl Row {
    fn new(check: impl Into<String>, status: Status, detail: impl Into<String>) -> Row {
        Row {
            check: check.into(),
            status,
            detail: detail.into(),
            fix: String::new(),
        }
    }

    fn fix(mut self, fix: impl Into<String>) -> Row {
        self.fix = fix.into();
        self
    }
}

/// Where to look beside the usual places.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Folders of firmware that go before the system's.
    pub firmware: Vec<String>,
}

/// Looks at everything, in the order in which it is printed. `machine` is the one that has these files.
pub fn examine(
    files: &dyn Files,
    machine: &dyn Machine,
    cpu: &CpuInfo,
    places: &Places,
) -> Vec<Row> {
    // A bus that cannot be listed has its row where it is looked at for cards.
    let functions = drivers_host::pci::functions(files).unwrap_or_default();
    let gpus = || functions.iter().filter(|function| is_gpu(function));
    let mut rows = vec![cpu_row(cpu), huge_pages(files)];
    let owner = |path: &str| Owner::of(files, path);
    let has = |vendor| gpus().any(|gpu| gpu.vendor == vendor);
    rows.extend(kfd::rows(machine, &owner, has(VENDOR_AMD)));
    rows.extend(pci::rows(files, &functions, &places.firmware));
    rows.extend(usb::rows(files, machine));
    rows.extend(nvk::rows(machine, &owner, has(VENDOR_NVIDIA)));
    let cards: Vec<_> = gpus().filter(|gpu| gpu.vendor == VENDOR_NVIDIA).collect();
    rows.push(nvidia(&cards));
    rows.extend(free_nvidia(&cards));
    rows.extend(qcom::rows(machine, &owner));
    rows.push(opencl::row(files));
    rows
}

/// Looks at a simulated machine: the rows of the kernel driver that it has, or of its cards and bridges, named
/// `twin.amd.kfd` and the like. Its firmware is that of the system with these files.
pub fn examine_twin(machine: &dyn Machine, files: &dyn Files, places: &Places) -> Vec<Row> {
    let mut rows = kfd::rows(machine, &|_| None, false);
    rows.extend(nvk::rows(machine, &|_| None, false));
    rows.extend(qcom::rows(machine, &|_| None));
    rows.retain(|row| row.status != Status::Absent);
    let functions = machine.pci_functions().unwrap_or_default();
    rows.extend(pci::simulated(files, &functions, &places.firmware));
    rows.extend(usb::simulated(machine));
    let of_nvidia = |function: &&PciFunction| function.vendor == VENDOR_NVIDIA && is_gpu(function);
    rows.extend(free_nvidia(
        &functions.iter().filter(of_nvidia).collect::<Vec<_>>(),
    ));
    for row in &mut rows {
        row.check.insert_str(0, "twin.");
    }
    rows
}

fn cpu_row(cpu: &CpuInfo) -> Row {
    let vectors = ["avx512f", "avx2", "sve", "asimd"]
        .into_iter()
        .find(|f| cpu.has(f));
    let detail = format!(
        "{}, {} usable cores, vectors: {}",
        cpu.model.as_deref().unwrap_or("unknown model"),
        cpu.cores,
        vectors.unwrap_or("128-bit or none")
    );
    Row::new("cpu", Status::Ok, detail)
}

fn huge_pages(files: &dyn Files) -> Row {
    const PATH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    match files.read(PATH) {
        Ok(text) if text.contains("[never]") => {
            Row::new("cpu.hugepages", Status::Warn, format!("{PATH}: {}", text.trim()))
                .fix("as root, for faster large tensors: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")
        }
        Ok(text) => Row::new("cpu.hugepages", Status::Ok, format!("{PATH}: {}", text.trim())),
        Err(e) => Row::new("cpu.hugepages", Status::Absent, format!("{PATH}: {e}")),
    }
}

/// What the functions are, for messages.
fn functions(gpus: &[&PciFunction]) -> Vec<String> {
    let one = |gpu: &&PciFunction| {
        let driver = gpu.driver.as_deref().unwrap_or("none");
        format!(
            "{} {:04x}:{:04x}, driver {driver}",
            gpu.address, gpu.vendor, gpu.device
        )
    };
    gpus.iter().map(one).collect()
}

/// How a function that vfio-pci has goes to NVIDIA's kernel driver: the override would keep others off, and a module that is
/// loaded probes nothing by itself.
fn back_to_nvidia(address: &str) -> String {
    format!(
        "`sudo modprobe nvidia; cd /sys/bus/pci; echo | sudo tee devices/{address}/driver_override; echo {address} | \
         sudo tee drivers/vfio-pci/unbind drivers_probe`"
    )
}

/// Whether no kernel driver has a GPU of NVIDIA, so that it can be opened without one.
fn is_free(gpu: &PciFunction) -> bool {
    matches!(gpu.driver.as_deref(), None | Some("vfio-pci"))
}

/// The GPUs of NVIDIA on the bus, and the drivers that have them.
fn nvidia(gpus: &[&PciFunction]) -> Row {
    const CHECK: &str = "nv.pci";
    if gpus.is_empty() {
        let text = "no NVIDIA function under /sys/bus/pci/devices";
        return Row::new(CHECK, Status::Absent, text);
    }
    let found = functions(gpus).join("; ");
    let others = gpus.iter().filter(|gpu| !is_free(gpu));
    let mut others = others.filter_map(|gpu| Some((&gpu.address, gpu.driver.as_deref()?)));
    if let Some((address, other)) = others.find(|(_, driver)| *driver != "nvidia") {
        return Row::new(CHECK, Status::Fail, found).fix(format!(
            "rebind {address} from {other} to nvidia: `echo {address} | sudo tee \
              /sys/bus/pci/drivers/{other}/unbind`, then `sudo modprobe nvidia`"
        ));
    }
    // Less than it could be: without its driver a card has been run on the simulator only.
    let Some(free) = gpus.iter().find(|gpu| is_free(gpu)) else {
        return Row::new(CHECK, Status::Ok, found);
    };
    let address = &free.address;
    let opens =
        format!("DEV=PCI+NV opens {address} if it is an {NVIDIA_CARDS} (not tested on a card)");
    Row::new(CHECK, Status::Warn, found).fix(match free.driver {
        None => format!("`sudo modprobe nvidia` for NVIDIA's kernel driver; without it, {opens}"),
        // It would find no card that is free.
        Some(_) => format!(
            "{opens}; for NVIDIA's kernel driver: {}",
            back_to_nvidia(address)
        ),
    })
}

/// Those that no kernel driver has, by the numbers that open them.
fn free_nvidia(gpus: &[&PciFunction]) -> Vec<Row> {
    let free = gpus.iter().enumerate().filter(|(_, gpu)| is_free(gpu));
    let row = |(number, gpu): (usize, &&PciFunction)| {
        let found = functions(&[*gpu]).join("; ");
        Row::new(format!("nv.pci.{number}"), Status::Warn, found).fix(format!(
            "DEV=PCI:{number}+NV opens it if it is an {NVIDIA_CARDS} (not tested on a card)"
        ))
    };
    free.map(row).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    use drivers_host::pci::System;
    use twin_amd::machine::TwinMachine;

    use super::*;

    pub(super) fn write(root: &Path, path: &str, content: &str) {
        let path = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// A machine without the kernel driver.
    pub(super) fn bare() -> Arc<TwinMachine> {
        TwinMachine::new(
            "gpus=0,fault=path:/dev/kfd:ENOENT;path:/sys/devices/virtual/kfd:ENOENT;\
             path:/sys/module/amdgpu:ENOENT",
        )
        .unwrap()
    }

    pub(super) fn all(files: &dyn Files) -> Vec<Row> {
        examine(files, &*bare(), &CpuInfo::read(), &Places::default())
    }

    fn row(root: &Path, check: &str) -> Row {
        let rows = all(&System::at(root));
        rows.into_iter().find(|r| r.check == check).unwrap()
    }

    #[test]
    fn an_empty_machine_has_nothing_wrong_and_every_way_in_is_listed() {
        let root = tempfile::tempdir().unwrap();
        let rows = all(&System::at(root.path()));
        for row in &rows {
            let expected = match row.check.as_str() {
                "cpu" => Status::Ok,
                _ => Status::Absent,
            };
            assert_eq!(row.status, expected, "{row:?}");
            assert!(row.fix.is_empty(), "{row:?}");
        }
        for check in [
            "amd.kfd",
            "amd.pci",
            "pci.rights",
            "pci.iommu",
            "pci.memory",
            "pci.vfio",
            "amd.firmware",
            "amd.usb",
            "nv.nvk",
            "nv.pci",
            "qcom.kgsl",
            "qcom.msm",
        ] {
            assert!(rows.iter().any(|row| row.check == check), "{check}");
        }
    }

    #[test]
    fn a_card_of_nvidia_is_named_with_its_driver() {
        let root = tempfile::tempdir().unwrap();
        let dir = "sys/bus/pci/devices/0000:03:00.0";
        let put = |name: &str, text: &str| write(root.path(), &format!("{dir}/{name}"), text);
        put("class", "0x030000\n");
        put("vendor", "0x10de\n");
        put("device", "0x2684\n");
        put("resource", "");
        let driven = |driver: &str| {
            put("uevent", &format!("DRIVER={driver}\n"));
            row(root.path(), "nv.pci")
        };
        let found = row(root.path(), "nv.pci");
        assert_eq!(found.detail, "0000:03:00.0 10de:2684, driver none");
        assert_eq!(found.status, Status::Warn);
        assert!(found.fix.contains("modprobe nvidia"), "{found:?}");
        assert!(found.fix.contains("DEV=PCI+NV"), "{found:?}");
        assert!(found.fix.contains("RTX 30, 40, 50 or Hopper"), "{found:?}");
        let free = row(root.path(), "nv.pci.0");
        assert_eq!(free.detail, found.detail);
        assert!(free.fix.contains("DEV=PCI:0+NV"), "{free:?}");
        let found = driven("vfio-pci");
        assert_eq!(found.status, Status::Warn);
        let unbind = "echo 0000:03:00.0 | sudo tee drivers/vfio-pci/unbind drivers_probe";
        assert!(found.fix.contains(unbind), "{found:?}");
        assert!(found.fix.contains("opens 0000:03:00.0"), "{found:?}");
        let found = driven("nouveau");
        assert_eq!(found.status, Status::Fail);
        assert!(found.fix.contains("from nouveau to nvidia"), "{found:?}");
        assert_eq!(row(root.path(), "nv.nvk").status, Status::Fail);
        assert_eq!(driven("nvidia").status, Status::Ok);
        let rows = all(&System::at(root.path()));
        assert!(rows.iter().all(|row| row.check != "nv.pci.0"), "{rows:?}");
        assert_eq!(row(root.path(), "amd.pci").status, Status::Absent);
    }
}
