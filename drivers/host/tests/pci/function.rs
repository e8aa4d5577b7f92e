//! Functions by the files of sysfs, of a folder that looks like a machine.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use drivers_host::machine::Host;
use drivers_host::pci::{System, let_go_of_left};
use hcq::mem::window::AccessWidth;
use hcq::transport::{Pci, ResetKind, TransportError};
use hcq::wait::Deadline;

const ADDRESS: &str = "0000:03:00.0";

/// A folder that looks like a machine with one card: BAR 0 of 2 MiB, BAR 2 of 256 bytes, BAR 5 of 8 KiB.
fn machine() -> tempfile::TempDir {
    let top = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &[u8]| {
        let path = top.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let of = |name: &str| format!("sys/bus/pci/devices/{ADDRESS}/{name}");
    let none = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
    let bars = [
        "0x0000000800000000 0x00000008001fffff 0x000000000014220c\n",
        none,
        "0x0000000900000000 0x00000009000000ff 0x000000000014220c\n",
        none,
        none,
        "0x00000000fce00000 0x00000000fce01fff 0x0000000000040200\n",
    ];
    put(&of("resource"), bars.concat().as_bytes());
    for (name, text) in [
        ("vendor", "0x1002\n"),
        ("device", "0x7550\n"),
        ("class", "0x030000\n"),
        ("uevent", "PCI_CLASS=30000\n"),
        ("numa_node", "-1\n"),
        ("reset_method", "flr bus\n"),
        ("reset", ""),
    ] {
        put(&of(name), text.as_bytes());
    }
    let mut config = vec![0; 4096];
    config[..8].copy_from_slice(&[0x02, 0x10, 0x50, 0x75, 0x03, 0x00, 0x10, 0x00]);
    put(&of("config"), &config);
    put(&of("resource0"), &vec![0; 2 << 20]);
    put(&of("resource2"), &vec![0; 4096]);
    put(&of("resource5"), &vec![0; 8192]);
    std::fs::create_dir_all(top.path().join("run/lock")).unwrap();
    std::fs::create_dir_all(top.path().join("proc/self")).unwrap();
    std::os::unix::fs::symlink("/proc/self/pagemap", top.path().join("proc/self/pagemap")).unwrap();
    top
}

fn file(top: &Path, name: &str) -> std::path::PathBuf {
    top.join(format!("sys/bus/pci/devices/{ADDRESS}/{name}"))
}

fn opened(top: &Path) -> Result<Arc<dyn Pci>, TransportError> {
    Host::at(System::at(top)).open_pci(ADDRESS)
}

fn refused_with(result: Result<impl Sized, TransportError>) -> String {
    result.err().unwrap().to_string()
}

#[test]
fn bars_are_mapped_and_the_configuration_is_read_and_written() {
    let top = machine();
    let pci = opened(top.path()).unwrap();
    let registers = pci.bar(5).unwrap();
    assert_eq!(registers.name(), "0000:03:00.0 BAR5");
    assert_eq!(registers.len(), 8192);
    registers.store(0x378c, 7u32).unwrap_err();
    registers.store(0x178c, 7u32).unwrap();
    let seen = std::fs::read(file(top.path(), "resource5")).unwrap();
    assert_eq!(seen[0x178c..0x1790], [7, 0, 0, 0]);
    // Smaller than a page: what is behind it is not its own.
    let doorbells = pci.bar(2).unwrap();
    assert_eq!(doorbells.len(), 256);
    assert!(doorbells.write(256, 0u64).is_err());
    let error = refused_with(pci.bar(1));
    assert_eq!(
        error,
        "0000:03:00.0: BAR1: not supported: no such memory BAR; the function has 0, 2, 5"
    );

    assert_eq!(pci.config_read(0, AccessWidth::W32), Ok(0x7550_1002));
    assert_eq!(pci.config_read(2, AccessWidth::W16), Ok(0x7550));
    pci.config_write(4, AccessWidth::W16, 0x7).unwrap();
    assert_eq!(pci.config_read(4, AccessWidth::W8), Ok(7));
    pci.config_write(0xffc, AccessWidth::W32, 1).unwrap();
    for (offset, width) in [
        (1, AccessWidth::W16),
        (0x1000, AccessWidth::W8),
        (0, AccessWidth::W64),
    ] {
        assert!(pci.config_read(offset, width).is_err(), "{offset}");
        assert!(pci.config_write(offset, width, 0).is_err(), "{offset}");
    }
    let error = refused_with(pci.wait_irq(0, Deadline::after(Duration::ZERO)));
    assert!(error.contains("no interrupts through sysfs"), "{error}");
}

#[test]
fn what_another_has_is_not_opened() {
    let top = machine();
    let first = opened(top.path()).unwrap();
    let error = refused_with(opened(top.path()));
    let us = format!("process {} (", std::process::id());
    assert!(error.contains(&us), "{error}");
    drop(first);
    opened(top.path()).unwrap();
    std::fs::write(file(top.path(), "uevent"), "DRIVER=amdgpu\n").unwrap();
    assert_eq!(
        refused_with(opened(top.path())),
        "0000:03:00.0: open: not supported: bound to the kernel driver amdgpu; take it over with \
         `doorbell bind 0000:03:00.0` (preview: --plan)"
    );
    let host = Host::at(System::at(top.path()));
    let error = refused_with(host.open_pci("0000:07:00.0"));
    assert!(error.contains("no such PCI function"), "{error}");
}

#[test]
fn a_reset_is_the_one_that_was_asked_for_and_leaves_the_ways_as_they_were() {
    let top = machine();
    let pci = opened(top.path()).unwrap();
    let text = |name| std::fs::read_to_string(file(top.path(), name)).unwrap();
    pci.reset(ResetKind::Bus).unwrap();
    assert_eq!(text("reset"), "1\n");
    assert_eq!(text("reset_method"), "flr bus\n");
    let error = refused_with(pci.reset(ResetKind::Power));
    assert_eq!(
        error,
        "0000:03:00.0: power reset: not supported: 0000:03:00.0: cannot reset: available reset methods: flr bus"
    );
}

/// The machine has huge pages; a plain file system is in place of hugetlbfs.
fn with_huge_pages(top: &Path) -> std::path::PathBuf {
    let put = |path: &str, text: &str| {
        std::fs::create_dir_all(top.join(path).parent().unwrap()).unwrap();
        std::fs::write(top.join(path), text).unwrap();
    };
    let pool = "sys/kernel/mm/hugepages/hugepages-2048kB";
    put(
        "proc/mounts",
        "hugetlbfs /dev/hugepages hugetlbfs rw,pagesize=2M 0 0\n",
    );
    put(&format!("{pool}/nr_hugepages"), "4\n");
    put(&format!("{pool}/free_hugepages"), "4\n");
    std::fs::create_dir_all(top.join("dev/hugepages")).unwrap();
    top.join(format!("dev/hugepages/doorbell-{ADDRESS}"))
}

#[test]
fn memory_comes_from_huge_pages_or_it_is_said_how() {
    let top = machine();
    let pci = opened(top.path()).unwrap();
    let error = refused_with(pci.dma(0x5001, 0x1000));
    for part in [
        "no hugetlbfs with 2 MiB pages mounted",
        "mount -t hugetlbfs",
    ] {
        assert!(error.contains(part), "{error}");
    }
    for (bytes, align) in [(0, 0x1000), (0x1000, 3), (0x1000, 4 << 20)] {
        let error = refused_with(pci.dma(bytes, align));
        assert!(
            error.contains("pages of 0x1000 or 0x200000 bytes"),
            "{error}"
        );
    }
    let file = with_huge_pages(top.path());
    // What lies there is seen to be no huge page, where the kernel tells at all.
    let error = refused_with(pci.dma(0x5001, 0x1000));
    let known = ["not a huge page file", "CAP_SYS_ADMIN"];
    assert!(known.iter().any(|text| error.contains(text)), "{error}");
    assert!(file.exists());
    drop(pci);
    assert!(!file.exists());
}

/// The process that drove it was killed: before anything else the function loses its right to write there.
#[test]
fn what_a_process_has_left_is_let_go_when_the_function_has_stopped() {
    let top = machine();
    let left = with_huge_pages(top.path());
    let config = file(top.path(), "config");
    for by_name in [false, true] {
        std::fs::write(&left, "what a process has left").unwrap();
        let mut bytes = std::fs::read(&config).unwrap();
        bytes[4] = 0x6;
        std::fs::write(&config, &bytes).unwrap();
        match by_name {
            false => drop(opened(top.path()).unwrap()),
            true => let_go_of_left(&System::at(top.path()), ADDRESS).unwrap(),
        }
        assert_eq!(std::fs::read(&config).unwrap()[4], 0x2);
        assert!(!left.exists());
    }
    // Nothing is left: nobody touches it.
    let_go_of_left(&System::at("/no/such"), ADDRESS).unwrap();
}

#[test]
fn behind_an_iommu_that_translates_there_are_no_physical_addresses() {
    let top = machine();
    let group = top.path().join("sys/kernel/iommu_groups/12");
    std::fs::create_dir_all(group.join("devices").join(ADDRESS)).unwrap();
    std::fs::write(group.join("type"), "DMA-FQ\n").unwrap();
    let pci = opened(top.path()).unwrap();
    let error = refused_with(pci.dma(0x1000, 0x1000));
    assert!(error.contains("IOMMU group 12 has type DMA-FQ"), "{error}");
    drop(pci);
    std::fs::write(group.join("type"), "identity\n").unwrap();
    let pci = opened(top.path()).unwrap();
    let error = refused_with(pci.dma(0x1000, 0x1000));
    assert!(error.contains("hugetlbfs"), "{error}");
}
