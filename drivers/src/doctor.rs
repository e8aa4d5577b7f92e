//! What a system offers. No file is written: sysfs is read, and the device files of kernel drivers are opened, to
//! see whether they may be, and closed again. NVIDIA's is asked who may compute on each GPU, and one that is for one
//! program at a time is reserved for that moment.
//!
//! Every path is looked up under a root, so that tests describe a machine as a folder of files; kernel
//! drivers are looked up on a [`Machine`], so that tests describe their states by a twin.

mod kfd;
mod nvk;
mod owner;

use std::fs;
use std::path::{Path, PathBuf};

use drivers_host::cpuinfo::CpuInfo;
use drivers_spec::pci::{CLASS_ACCELERATOR, CLASS_DISPLAY, VENDOR_AMD, VENDOR_NVIDIA};
use drivers_spec::usb::GPU_BRIDGES;
use hcq::transport::Machine;

use owner::Owner;

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

/// PCI functions whose class is a display controller or a processing accelerator.
///
/// Source: PCI Code and ID Assignment, base classes 03h and 12h.
struct PciGpu {
    address: String,
    vendor: u16,
    device: u16,
    driver: Option<String>,
}

/// Looks at everything, in the order in which it is printed. `machine` is the one whose files lie
/// under `root`.
pub fn examine(root: &Path, machine: &dyn Machine, cpu: &CpuInfo) -> Vec<Row> {
    let gpus = pci_gpus(root);
    let mut rows = vec![cpu_row(cpu), huge_pages(root)];
    let owner = |path: &str| Owner::of(root, path);
    let has = |vendor| gpus.iter().any(|gpu| gpu.vendor == vendor);
    rows.extend(kfd::rows(machine, &owner, has(VENDOR_AMD)));
    rows.push(pci(&gpus, &AMD));
    rows.push(usb(root));
    rows.extend(nvk::rows(machine, &owner, has(VENDOR_NVIDIA)));
    rows.push(pci(&gpus, &NVIDIA));
    rows.push(node(
        root,
        "qcom.kgsl",
        "dev/kgsl-3d0",
        "Adreno GPUs through KGSL",
    ));
    rows
}

/// Looks at a simulated machine: the rows of the kernel driver that it has, named `twin.amd.kfd` and the like.
pub fn examine_twin(machine: &dyn Machine) -> Vec<Row> {
    let mut rows = kfd::rows(machine, &|_| None, false);
    rows.extend(nvk::rows(machine, &|_| None, false));
    rows.retain(|row| row.status != Status::Absent);
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

fn huge_pages(root: &Path) -> Row {
    const PATH: &str = "sys/kernel/mm/transparent_hugepage/enabled";
    match fs::read_to_string(root.join(PATH)) {
        Ok(text) if text.contains("[never]") => {
            Row::new("cpu.hugepages", Status::Warn, format!("/{PATH}: {}", text.trim()))
                .fix("large tensors are faster with: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)")
        }
        Ok(text) => Row::new("cpu.hugepages", Status::Ok, format!("/{PATH}: {}", text.trim())),
        Err(e) => Row::new("cpu.hugepages", Status::Absent, format!("/{PATH}: {e}")),
    }
}

fn node(root: &Path, check: &'static str, path: &'static str, what: &str) -> Row {
    match fs::metadata(root.join(path)) {
        Ok(_) => Row::new(check, Status::Fail, format!("/{path} is there ({what})"))
            .fix("this version has no driver for it; see the device matrix in README.md"),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Row::new(
            check,
            Status::Absent,
            format!("/{path}: no such file ({what})"),
        ),
        Err(e) => Row::new(check, Status::Fail, format!("/{path}: {e}"))
            .fix("look at the permissions of the folder"),
    }
}

fn functions(gpus: &[PciGpu], vendor: u16) -> Vec<String> {
    gpus.iter()
        .filter(|g| g.vendor == vendor)
        .map(|g| {
            let driver = g.driver.as_deref().unwrap_or("none");
            format!(
                "{} {:04x}:{:04x}, driver {driver}",
                g.address, g.vendor, g.device
            )
        })
        .collect()
}

/// A vendor whose GPUs are used through a kernel driver.
struct Vendor {
    check: &'static str,
    name: &'static str,
    id: u16,
    module: &'static str,
}

const AMD: Vendor = Vendor {
    check: "amd.pci",
    name: "AMD",
    id: VENDOR_AMD,
    module: "amdgpu",
};

const NVIDIA: Vendor = Vendor {
    check: "nv.pci",
    name: "NVIDIA",
    id: VENDOR_NVIDIA,
    module: "nvidia",
};

/// The GPUs of a vendor on the bus; without the kernel driver there is no way in yet.
fn pci(gpus: &[PciGpu], vendor: &Vendor) -> Row {
    let Vendor {
        check,
        name,
        id,
        module,
    } = *vendor;
    let found = functions(gpus, id);
    if found.is_empty() {
        let text = format!("no {name} function under /sys/bus/pci/devices");
        return Row::new(check, Status::Absent, text);
    }
    let without = |g: &&PciGpu| g.vendor == id && g.driver.as_deref() != Some(module);
    let Some(gpu) = gpus.iter().find(without) else {
        return Row::new(check, Status::Ok, found.join("; "));
    };
    Row::new(check, Status::Fail, found.join("; ")).fix(match gpu.driver.as_deref() {
        None => format!(
            "load its kernel driver (`sudo modprobe {module}`); this version has no driver for the bare PCI \
             device"
        ),
        Some(other) => format!(
            "{} belongs to {other}: only what {module} drives can be used (`echo {0} | sudo tee \
             /sys/bus/pci/drivers/{other}/unbind`, then `sudo modprobe {module}`)",
            gpu.address
        ),
    })
}

fn usb(root: &Path) -> Row {
    const PATH: &str = "sys/bus/usb/devices";
    let mut found = Vec::new();
    for dir in children(&root.join(PATH)) {
        let number = |file: &str| u16::from_str_radix(&text(&dir.join(file))?, 16).ok();
        if let (Some(vendor), Some(product)) = (number("idVendor"), number("idProduct"))
            && GPU_BRIDGES.contains(&(vendor, product))
        {
            found.push(format!("{} {vendor:04x}:{product:04x}", leaf(&dir)));
        }
    }
    if found.is_empty() {
        Row::new(
            "amd.usb",
            Status::Absent,
            format!("no ASM24xx bridge under /{PATH}"),
        )
    } else {
        Row::new("amd.usb", Status::Fail, found.join("; "))
            .fix("this version has no driver for it; see the device matrix in README.md")
    }
}

fn pci_gpus(root: &Path) -> Vec<PciGpu> {
    let mut gpus = Vec::new();
    for dir in children(&root.join("sys/bus/pci/devices")) {
        let number = |file: &str| {
            let text = text(&dir.join(file))?;
            u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
        };
        let (Some(class), Some(vendor), Some(device)) =
            (number("class"), number("vendor"), number("device"))
        else {
            continue;
        };
        if [CLASS_DISPLAY, CLASS_ACCELERATOR].contains(&((class >> 16) as u8)) {
            let driver = fs::read_link(dir.join("driver")).ok().map(|p| leaf(&p));
            let (vendor, device) = (vendor as u16, device as u16);
            gpus.push(PciGpu {
                address: leaf(&dir),
                vendor,
                device,
                driver,
            });
        }
    }
    gpus
}

fn children(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
    paths.sort();
    paths
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|t| t.trim().to_owned())
}

fn leaf(path: &Path) -> String {
    path.file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use twin_amd::machine::TwinMachine;

    use super::*;

    fn write(root: &Path, path: &str, content: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// A machine without the kernel driver.
    fn bare() -> Arc<TwinMachine> {
        TwinMachine::new(
            "gpus=0,fault=path:/dev/kfd:ENOENT;path:/sys/devices/virtual/kfd:ENOENT;\
             path:/sys/module/amdgpu:ENOENT",
        )
        .unwrap()
    }

    fn row(root: &Path, check: &str) -> Row {
        examine(root, &*bare(), &CpuInfo::read())
            .into_iter()
            .find(|r| r.check == check)
            .unwrap()
    }

    #[test]
    fn an_empty_machine_has_nothing_wrong() {
        let root = tempfile::tempdir().unwrap();
        for row in examine(root.path(), &*bare(), &CpuInfo::read()) {
            let expected = if row.check == "cpu" {
                Status::Ok
            } else {
                Status::Absent
            };
            assert_eq!(row.status, expected, "{row:?}");
        }
    }

    #[test]
    fn a_card_is_named_with_its_driver() {
        let root = tempfile::tempdir().unwrap();
        let dir = "sys/bus/pci/devices/0000:03:00.0";
        write(root.path(), &format!("{dir}/class"), "0x030000\n");
        write(root.path(), &format!("{dir}/vendor"), "0x1002\n");
        write(root.path(), &format!("{dir}/device"), "0x744c\n");
        let link = root.path().join(dir).join("driver");
        let drive = |driver: &str| {
            let _ = fs::remove_file(&link);
            let target = format!("../../../bus/pci/drivers/{driver}");
            std::os::unix::fs::symlink(target, &link).unwrap();
            row(root.path(), "amd.pci")
        };
        let found = row(root.path(), "amd.pci");
        assert_eq!(found.status, Status::Fail);
        assert_eq!(found.detail, "0000:03:00.0 1002:744c, driver none");
        assert!(found.fix.contains("modprobe amdgpu"), "{found:?}");
        let found = drive("vfio-pci");
        assert_eq!(found.status, Status::Fail);
        assert!(found.fix.contains("belongs to vfio-pci"), "{found:?}");
        let found = drive("amdgpu");
        assert_eq!((found.status, found.fix.as_str()), (Status::Ok, ""));
        assert_eq!(found.detail, "0000:03:00.0 1002:744c, driver amdgpu");
        assert_eq!(row(root.path(), "nv.pci").status, Status::Absent);
        write(root.path(), &format!("{dir}/vendor"), "0x10de\n");
        let found = drive("nouveau");
        assert_eq!(found.status, Status::Absent);
        let found = row(root.path(), "nv.pci");
        assert!(found.fix.contains("belongs to nouveau"), "{found:?}");
        assert_eq!(row(root.path(), "nv.nvk").status, Status::Fail);
        drive("nvidia");
        assert_eq!(row(root.path(), "nv.pci").status, Status::Ok);
        write(root.path(), &format!("{dir}/vendor"), "0x1002\n");
        // With a card and without the kernel driver there is something to do.
        assert_eq!(row(root.path(), "amd.kfd").status, Status::Fail);
    }

    #[test]
    fn a_bridge_on_the_bus_is_named() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "sys/bus/usb/devices/2-1/idVendor", "add1\n");
        write(root.path(), "sys/bus/usb/devices/2-1/idProduct", "0001\n");
        assert_eq!(row(root.path(), "amd.usb").detail, "2-1 add1:0001");
    }
}
