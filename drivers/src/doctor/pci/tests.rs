use std::io;
use std::path::Path;
use std::sync::Mutex;

use drivers_host::pci::System;

use super::super::tests::{all, write};
use super::*;

const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";
const ADDRESS: &str = "0000:03:00.0";

/// Files that nobody may write, and that know what was read.
struct ReadOnly {
    inner: System,
    seen: Mutex<Vec<String>>,
    written: Mutex<Vec<String>>,
}

impl ReadOnly {
    fn of(root: &Path) -> ReadOnly {
        ReadOnly {
            inner: System::at(root),
            seen: Mutex::default(),
            written: Mutex::default(),
        }
    }

    fn saw(&self, path: &str) {
        self.seen.lock().unwrap().push(path.to_owned());
    }

    fn wrote(&self, path: &str) -> io::Result<()> {
        self.written.lock().unwrap().push(path.to_owned());
        Ok(())
    }
}

impl Files for ReadOnly {
    fn read(&self, path: &str) -> io::Result<String> {
        self.saw(path);
        self.inner.read(path)
    }
    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        self.saw(path);
        self.inner.list(path)
    }
    fn rights(&self, path: &str) -> io::Result<Rights> {
        self.saw(path);
        self.inner.rights(path)
    }
    fn may_write(&self, path: &str) -> io::Result<()> {
        self.saw(path);
        self.inner.may_write(path)
    }
    fn tell(&self, path: &str, _: &str) -> io::Result<()> {
        self.wrote(path)
    }
    fn append(&self, path: &str, _: &str) -> io::Result<()> {
        self.wrote(path)
    }
    fn kept(&self, path: &str) -> io::Result<String> {
        self.saw(path);
        self.inner.kept(path)
    }
    fn replace(&self, path: &str, _: &str) -> io::Result<()> {
        self.wrote(path)
    }
}

/// A machine with one card that passes all stages: no driver has it, root looks.
fn machine() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| write(root.path(), path, text);
    let of = |name: &str| format!("/sys/bus/pci/devices/{ADDRESS}/{name}");
    let none = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
    let bars = [
        "0x0000000800000000 0x0000000bffffffff 0x000000000014220c\n",
        none,
        "0x0000000900000000 0x00000009001fffff 0x000000000014220c\n",
        none,
        none,
        "0x00000000fce00000 0x00000000fcefffff 0x0000000000040200\n",
    ];
    put(&of("resource"), &bars.concat());
    for (name, text) in [
        ("vendor", "0x1002\n"),
        ("device", "0x7550\n"),
        ("class", "0x030000\n"),
        ("revision", "0xc0\n"),
        ("uevent", "PCI_CLASS=30000\n"),
        ("boot_vga", "0\n"),
        ("resource0_resize", "0000000000007f00\n"),
        ("config", ""),
        ("resource0", ""),
        ("resource2", ""),
        ("resource5", ""),
    ] {
        put(&of(name), text);
    }
    put("/proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n");
    let limits = "Max locked memory         8388608              8388608              bytes\n";
    put("/proc/self/limits", limits);
    for name in ["nr_hugepages", "free_hugepages"] {
        put(&format!("{POOL}/{name}"), "16\n");
    }
    put("/proc/mounts", "none /huge hugetlbfs rw,pagesize=2M 0 0\n");
    for file in CHIPS[5].blocks.boot_files(Edition::Usual) {
        put(&format!("/lib/firmware/amdgpu/{file}.zst"), "");
    }
    root
}

fn card(root: &Path) -> Row {
    let files = ReadOnly::of(root);
    let rows = all(&files);
    assert!(files.seen.lock().unwrap().len() > 10);
    // The doctor looks, and touches nothing.
    assert_eq!(*files.written.lock().unwrap(), Vec::<String>::new());
    rows.into_iter()
        .find(|row| row.check == "amd.pci.0")
        .unwrap()
}

#[test]
fn a_card_that_passes_all_stages_has_its_evidence_listed() {
    let root = machine();
    let row = card(root.path());
    assert_eq!(
        row.detail,
        "0000:03:00.0; 1002:7550, gfx1201 (Navi 48); drives no display; no kernel driver bound; CAP_SYS_ADMIN, no \
         lockdown; BAR 0 has 16384 MiB; no IOMMU: bus addresses are physical; 16 of 16 huge pages are free, under \
         /huge; 8 firmware files found; passed all 8 stages before the start: DEV=PCI+AMD"
    );
}

#[test]
fn the_first_stage_that_is_not_passed_is_named_with_one_thing_to_do() {
    let of = |name: &str| format!("/sys/bus/pci/devices/{ADDRESS}/{name}");
    let group = |name: &str| format!("/sys/kernel/iommu_groups/12/{name}");
    type Change = Vec<(String, &'static str)>;
    let cases: Vec<(Change, Status, &str, &str)> = vec![
        (
            vec![(of("device"), "0x1638\n")],
            Status::Fail,
            "stage 1 of 8, chip: 1002:1638",
            "modprobe amdgpu",
        ),
        (
            vec![
                (of("uevent"), "DRIVER=amdgpu\n"),
                (of("drm/card0/card0-DP-1/enabled"), "enabled\n"),
            ],
            Status::Ok,
            "stage 2 of 8, display: card0-DP-1 is on",
            "",
        ),
        (
            vec![(of("uevent"), "DRIVER=amdgpu\n")],
            Status::Ok,
            "stage 3 of 8, kernel driver: bound to amdgpu; to take it, see `doorbell bind 0000:03:00.0 --plan`",
            "",
        ),
        (
            vec![(of("uevent"), "DRIVER=radeon\n")],
            Status::Fail,
            "stage 3 of 8, kernel driver: bound to radeon",
            "doorbell bind 0000:03:00.0 --plan",
        ),
        (
            vec![("/proc/self/status".into(), "CapEff:\t0000000000000000\n")],
            Status::Fail,
            "stage 4 of 8, rights: no CAP_SYS_ADMIN",
            "run as root",
        ),
        (
            vec![(
                "/sys/kernel/security/lockdown".into(),
                "none [integrity] confidentiality\n",
            )],
            Status::Fail,
            "stage 4 of 8, rights: /sys/kernel/security/lockdown: [integrity]",
            "Secure Boot",
        ),
        (
            vec![(of("resource"), "0x0 0x0 0x0\n")],
            Status::Fail,
            "stage 5 of 8, windows: BAR 0 has no address",
            "Above 4G Decoding",
        ),
        (
            vec![
                (group(&format!("devices/{ADDRESS}/x")), ""),
                (group("type"), "DMA-FQ\n"),
            ],
            Status::Fail,
            "stage 6 of 8, addresses: IOMMU group 12 has type DMA-FQ",
            "doorbell bind 0000:03:00.0`; or boot",
        ),
        (
            vec![
                (group(&format!("devices/{ADDRESS}/x")), ""),
                (group("type"), "DMA-FQ\n"),
                (of("uevent"), "DRIVER=vfio-pci\n"),
            ],
            Status::Fail,
            "stage 4 of 8, rights: /dev/vfio/12: No such file",
            "chown",
        ),
        (
            // Locked memory is limited, and rights are those of a group's file.
            vec![
                (group(&format!("devices/{ADDRESS}/x")), ""),
                (group("type"), "DMA-FQ\n"),
                (of("uevent"), "DRIVER=vfio-pci\n"),
                ("/dev/vfio/12".into(), ""),
                ("/proc/self/status".into(), "CapEff:\t0000000000000000\n"),
            ],
            Status::Fail,
            "stage 7 of 8, memory: at most 8388608 bytes can be locked",
            "doorbell setup --print pci",
        ),
        (
            vec![("/proc/mounts".into(), "proc /proc proc rw 0 0\n")],
            Status::Fail,
            "stage 7 of 8, memory: /proc/mounts: no hugetlbfs with 2 MiB pages mounted",
            "mount -t hugetlbfs",
        ),
        (
            vec![(format!("{POOL}/nr_hugepages"), "0\n")],
            Status::Fail,
            "stage 7 of 8, memory: /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages is 0",
            "echo 1024 > /proc/sys/vm/nr_hugepages",
        ),
        (
            // The board wants another file.
            vec![(of("device"), "0x7551\n"), (of("revision"), "0xc8\n")],
            Status::Fail,
            "stage 8 of 8, firmware: psp_14_0_3_sos_kicker.bin, smu_14_0_3_kicker.bin",
            "doorbell fw list --chip gfx1201",
        ),
    ];
    for (changes, status, detail, fix) in cases {
        let root = machine();
        for (path, text) in &changes {
            write(root.path(), path, text);
        }
        let row = card(root.path());
        assert_eq!(row.status, status, "{row:?}");
        assert!(row.detail.contains(detail), "{row:?}");
        assert!(
            row.fix.contains(fix) && fix.is_empty() == row.fix.is_empty(),
            "{row:?}"
        );
    }
}

#[test]
fn a_small_bar_goes_with_less() {
    let root = machine();
    let path = format!("/sys/bus/pci/devices/{ADDRESS}/resource");
    let text = std::fs::read_to_string(root.path().join(&path[1..])).unwrap();
    write(
        root.path(),
        &path,
        &text.replace("0bffffffff", "080fffffff"),
    );
    let row = card(root.path());
    assert_eq!(row.status, Status::Warn);
    assert!(
        row.detail.contains("BAR 0 has 256 MiB of up to 16384"),
        "{row:?}"
    );
    assert!(row.fix.contains("--resize"), "{row:?}");
}
