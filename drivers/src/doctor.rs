//! What a system offers. No file is written and nothing is asked of hardware: sysfs is read, and
//! the files of KFD are opened, to see whether they may be, and closed again.
//!
//! Every path is looked up under a root, so that tests describe a machine as a folder of files; KFD
//! is looked up on a [`Machine`], so that tests describe its states by a twin.

mod kfd;

use std::fs;
use std::path::{Path, PathBuf};

use drivers_host::cpuinfo::CpuInfo;
use drivers_spec::pci::{CLASS_ACCELERATOR, CLASS_DISPLAY, VENDOR_AMD, VENDOR_NVIDIA};
use drivers_spec::usb::GPU_BRIDGES;
use hcq::transport::Machine;

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
    let amd = gpus.iter().any(|gpu| gpu.vendor == VENDOR_AMD);
    rows.extend(kfd::rows(machine, &|path| kfd::Owner::of(root, path), amd));
    rows.push(amd_pci(&gpus));
    rows.push(usb(root));
    rows.push(node(
        root,
        "nv.nvk",
        "dev/nvidiactl",
        "NVIDIA GPUs through the nvidia kernel driver",
    ));
    rows.push(pci(&gpus, "nv.pci", VENDOR_NVIDIA, "NVIDIA"));
    rows.push(node(
        root,
        "qcom.kgsl",
        "dev/kgsl-3d0",
        "Adreno GPUs through KGSL",
    ));
    rows
}

/// Looks at a simulated machine: the rows of KFD, named `twin.amd.kfd`.
pub fn examine_twin(machine: &dyn Machine) -> Vec<Row> {
    let mut rows = kfd::rows(machine, &|_| None, true);
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

/// GPUs of AMD are used through their kernel driver; without it there is no way in yet.
fn amd_pci(gpus: &[PciGpu]) -> Row {
    let without = |g: &&PciGpu| g.vendor == VENDOR_AMD && g.driver.as_deref() != Some("amdgpu");
    match gpus.iter().find(without) {
        None if gpus.iter().any(|g| g.vendor == VENDOR_AMD) => Row::new(
            "amd.pci",
            Status::Ok,
            functions(gpus, VENDOR_AMD).join("; "),
        ),
        None => pci(gpus, "amd.pci", VENDOR_AMD, "AMD"),
        Some(gpu) => Row::new(
            "amd.pci",
            Status::Fail,
            functions(gpus, VENDOR_AMD).join("; "),
        )
        .fix(match gpu.driver.as_deref() {
            None => "load its kernel driver (`sudo modprobe amdgpu`); this version has no driver \
                     for the bare PCI device"
                .to_owned(),
            Some(other) => format!(
                "{} belongs to {other}: only what amdgpu drives can be used (`echo {0} | sudo tee \
                 /sys/bus/pci/drivers/{other}/unbind`, then `sudo modprobe amdgpu`)",
                gpu.address
            ),
        }),
    }
}

fn pci(gpus: &[PciGpu], check: &'static str, vendor: u16, name: &str) -> Row {
    let found = functions(gpus, vendor);
    if found.is_empty() {
        Row::new(
            check,
            Status::Absent,
            format!("no {name} function under /sys/bus/pci/devices"),
        )
    } else {
        Row::new(check, Status::Fail, found.join("; "))
            .fix("this version has no driver for it; see the device matrix in README.md")
    }
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
