//! Taking functions over and giving them back, before a model of the kernel's files.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use drivers_host::pci::claim::{ClaimError, ClaimOptions, Step, Way, plan, release};
use drivers_host::pci::journal::{self, pending, restore};
use drivers_host::pci::look::driver;
use drivers_host::pci::{Files, Rights, System, reset};

/// Where journals are.
const JOURNALS: &str = "/run/doorbell";

/// Writes the steps; nothing asks to end.
fn apply(files: &dyn Files, address: &str, steps: &[Step]) -> Result<(), ClaimError> {
    journal::apply(files, address, steps, &|| false)
}

/// The journal of a function.
fn undo_file(address: &str) -> String {
    format!("{JOURNALS}/{address}.undo")
}

/// The folder of a function.
fn in_sysfs(address: &str) -> String {
    format!("/sys/bus/pci/devices/{address}")
}

const GPU: &str = "0000:03:00.0";
const AUDIO: &str = "0000:03:00.1";
const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// A model of the kernel behind the files: drivers leave and come back, functions are removed and found again.
struct Kernel {
    files: RefCell<BTreeMap<String, String>>,
    told: RefCell<Vec<String>>,
    /// The write that is refused, counted from 0.
    fails: RefCell<Option<usize>>,
}

impl Kernel {
    fn new() -> Kernel {
        let of = |address: &str, name: &str| format!("{}/{name}", in_sysfs(address));
        let files = [
            (of(GPU, "vendor"), "0x1002\n"),
            (of(GPU, "uevent"), "DRIVER=amdgpu\nPCI_ID=1002:7550\n"),
            (of(GPU, "boot_vga"), "0\n"),
            (of(GPU, "enable"), "1\n"),
            (of(GPU, "power/control"), "auto\n"),
            (of(GPU, "resource"), "0x800000000 0x80fffffff 0x14220c\n"),
            (of(GPU, "resource0_resize"), "0000000000007f00\n"),
            (of(GPU, "drm/card0/card0-DP-1/enabled"), "disabled\n"),
            (of(GPU, "driver_override"), "(null)\n"),
            (of(GPU, "reset_method"), "flr bus\n"),
            (of(AUDIO, "vendor"), "0x1002\n"),
            (of("0000:04:00.0", "vendor"), "0x1002\n"),
            (
                "/proc/mounts".to_owned(),
                "none /huge hugetlbfs rw,pagesize=2M 0 0\n",
            ),
            (format!("{POOL}/nr_hugepages"), "8\n"),
            (format!("{POOL}/free_hugepages"), "8\n"),
        ];
        let files = files.map(|(path, text)| (path, text.to_owned()));
        Kernel {
            files: RefCell::new(files.into()),
            told: RefCell::default(),
            fails: RefCell::default(),
        }
    }

    fn put(&self, path: &str, text: &str) {
        self.files.borrow_mut().insert(path.into(), text.into());
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.borrow_mut())
    }

    /// All but the journals.
    fn state(&self) -> BTreeMap<String, String> {
        let mut files = self.files.borrow().clone();
        files.retain(|path, _| !path.starts_with(JOURNALS));
        files
    }
}

fn absent() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOENT)
}

impl Files for Kernel {
    fn read(&self, path: &str) -> io::Result<String> {
        self.files.borrow().get(path).cloned().ok_or_else(absent)
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let files = self.files.borrow();
        let below = files
            .keys()
            .filter_map(|file| file.strip_prefix(&format!("{path}/")));
        let mut names: Vec<_> = below
            .map(|rest| rest.split('/').next().unwrap_or(rest).to_owned())
            .collect();
        names.dedup();
        match names.is_empty() {
            true => Err(absent()),
            false => Ok(names),
        }
    }

    fn rights(&self, path: &str) -> io::Result<Rights> {
        let (mode, gid) = (0o600, 0);
        self.read(path).map(|_| Rights { mode, gid })
    }

    fn may_write(&self, path: &str) -> io::Result<()> {
        self.read(path).map(drop)
    }

    fn tell(&self, path: &str, value: &str) -> io::Result<()> {
        let number = self.told.borrow().len();
        self.told.borrow_mut().push(format!("{value} > {path}"));
        if *self.fails.borrow() == Some(number) {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        let of = |name: &str| format!("{}/{name}", in_sysfs(GPU));
        let uevent = of("uevent");
        let has = driver(self, GPU);
        let has_driver = has.is_some();
        let leave = |files: &mut BTreeMap<String, String>| {
            files.insert(of("uevent"), "PCI_ID=1002:7550\n".into());
            files.insert(of("enable"), "0\n".into());
        };
        let absent = || Err(io::Error::from_raw_os_error(libc::ENODEV));
        let mut files = self.files.borrow_mut();
        let audio = format!("{}/vendor", in_sysfs(AUDIO));
        let wish = files.get(&of("driver_override")).cloned();
        let mut parts = path.rsplit('/');
        match (parts.next().unwrap_or(path), parts.next().unwrap_or("")) {
            ("unbind", "driver") if has_driver => leave(&mut files),
            ("unbind", name) if has.as_deref() == Some(name) => leave(&mut files),
            ("bind", driver) if !has_driver => {
                files.insert(of("enable"), "1\n".into());
                files.insert(uevent, format!("DRIVER={driver}\nPCI_ID=1002:7550\n"));
            }
            ("unbind" | "bind", _) => return absent(),
            ("drivers_probe", _) => {
                if let Some("vfio-pci") = wish.as_deref().map(str::trim) {
                    files.insert(uevent, "DRIVER=vfio-pci\nPCI_ID=1002:7550\n".into());
                }
            }
            ("driver_override", _) if value.is_empty() => {
                files.insert(path.into(), "(null)\n".into());
            }
            ("remove", _) => _ = files.remove(&audio),
            ("rescan", _) => _ = files.insert(audio, "0x1002\n".into()),
            ("reset", _) => {}
            // Who has it has enabled it.
            ("enable", _) if has_driver => return Err(io::Error::from_raw_os_error(libc::EBUSY)),
            // Source: Linux, drivers/pci/pci-sysfs.c, enable_store.
            ("enable", _) if value == "0" && files[path].trim() == "0" => {
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
            ("resource0_resize", _) => {
                if has_driver {
                    return Err(io::Error::from_raw_os_error(libc::EBUSY));
                }
                let end = 0x8_0000_0000u64 + (1 << (20 + value.parse::<u32>().unwrap())) - 1;
                let line = format!("0x800000000 {end:#x} 0x14220c\n");
                files.insert(of("resource"), line);
            }
            _ => _ = files.insert(path.into(), format!("{value}\n")),
        }
        Ok(())
    }

    fn append(&self, path: &str, text: &str) -> io::Result<()> {
        let mut files = self.files.borrow_mut();
        files.entry(path.into()).or_default().push_str(text);
        Ok(())
    }

    fn kept(&self, path: &str) -> io::Result<String> {
        self.read(path)
    }

    fn replace(&self, path: &str, text: &str) -> io::Result<()> {
        let mut files = self.files.borrow_mut();
        match text.is_empty() {
            true => files.remove(path).map(drop).ok_or_else(absent),
            false => {
                files.insert(path.into(), text.into());
                Ok(())
            }
        }
    }
}

/// What the kernel does, with something before each call that asks it for a change; or that reads.
struct Watched<'a> {
    kernel: &'a Kernel,
    before_change: &'a dyn Fn() -> io::Result<()>,
    before_read: &'a dyn Fn() -> io::Result<()>,
}

impl Files for Watched<'_> {
    fn read(&self, path: &str) -> io::Result<String> {
        (self.before_read)()?;
        self.kernel.read(path)
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        (self.before_read)()?;
        self.kernel.list(path)
    }

    fn rights(&self, path: &str) -> io::Result<Rights> {
        self.kernel.rights(path)
    }

    fn may_write(&self, path: &str) -> io::Result<()> {
        self.kernel.may_write(path)
    }

    fn tell(&self, path: &str, value: &str) -> io::Result<()> {
        (self.before_change)()?;
        self.kernel.tell(path, value)
    }

    fn append(&self, path: &str, text: &str) -> io::Result<()> {
        (self.before_change)()?;
        self.kernel.append(path, text)
    }

    fn kept(&self, path: &str) -> io::Result<String> {
        (self.before_read)()?;
        self.kernel.kept(path)
    }

    fn replace(&self, path: &str, text: &str) -> io::Result<()> {
        (self.before_change)()?;
        self.kernel.replace(path, text)
    }
}

/// Does something of which a kill ends the program before so many changes; whether it came to its end.
fn killed_before(changes: usize, kernel: &Kernel, work: impl Fn(&dyn Files)) -> bool {
    struct Kill;
    let left = std::cell::Cell::new(changes);
    let files = Watched {
        kernel,
        before_change: &|| match left.get() {
            // As a panic of which nobody is told.
            0 => std::panic::resume_unwind(Box::new(Kill)),
            n => {
                left.set(n - 1);
                Ok(())
            }
        },
        before_read: &|| Ok(()),
    };
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&files)));
    match ended {
        Ok(()) => true,
        Err(why) if why.is::<Kill>() => false,
        Err(why) => std::panic::resume_unwind(why),
    }
}

const ALL: ClaimOptions = ClaimOptions {
    display: false,
    resize: true,
    way: Way::Sysfs,
};

#[test]
fn a_plan_says_each_write_its_reason_and_its_undoing_and_writes_nothing() {
    let kernel = Kernel::new();
    let steps = plan(&kernel, GPU, ALL).unwrap();
    let text: Vec<_> = steps.iter().map(Step::to_string).collect();
    assert_eq!(
        text,
        [
            "echo 0000:03:00.0 > /sys/bus/pci/devices/0000:03:00.0/driver/unbind  # bound to the kernel driver \
             amdgpu; undone by: echo 0000:03:00.0 > /sys/bus/pci/drivers/amdgpu/bind",
            "echo 1 > /sys/bus/pci/devices/0000:03:00.1/remove  # same card: a reset affects it too; undone by: echo \
             1 > /sys/bus/pci/rescan",
            "echo 14 > /sys/bus/pci/devices/0000:03:00.0/resource0_resize  # expose all VRAM in BAR 0: 16384 MiB \
             instead of 256; undone by: echo 8 > /sys/bus/pci/devices/0000:03:00.0/resource0_resize",
            "echo on > /sys/bus/pci/devices/0000:03:00.0/power/control  # without a driver, runtime PM would suspend \
             it with its bridge; undone by: echo auto > /sys/bus/pci/devices/0000:03:00.0/power/control",
            "echo 1 > /sys/bus/pci/devices/0000:03:00.0/enable  # a disabled function does not respond; undone \
             by: echo 0 > /sys/bus/pci/devices/0000:03:00.0/enable",
        ]
    );
    assert!(kernel.told().is_empty());
    let small = plan(&kernel, GPU, ClaimOptions::default()).unwrap();
    assert_eq!(small.len(), 4);
    // Without an IOMMU the card writes to where it was told, also when nobody is there any more.
    kernel.put("/proc/mounts", "");
    let error = plan(&kernel, GPU, ALL).unwrap_err().to_string();
    for part in [
        "no hugetlbfs with 2 MiB pages mounted",
        "nr_hugepages",
        "enable an IOMMU",
    ] {
        assert!(error.contains(part), "{error}");
    }
    assert!(kernel.told().is_empty());
}

#[test]
fn what_was_taken_is_given_back_as_it_was() {
    let kernel = Kernel::new();
    let before = kernel.state();
    let steps = plan(&kernel, GPU, ALL).unwrap();
    apply(&kernel, GPU, &steps).unwrap();
    assert_eq!(driver(&kernel, GPU), None);
    assert_eq!(plan(&kernel, GPU, ALL).unwrap(), []);
    kernel.told();
    let written = restore(&kernel, GPU).unwrap();
    assert_eq!(written.len(), 5);
    assert_eq!(kernel.state(), before);
    let told = kernel.told();
    assert!(told[0].ends_with("enable") && told[4].ends_with("amdgpu/bind"));
    // There is nothing left to do.
    assert_eq!(restore(&kernel, GPU).unwrap(), []);
    assert!(kernel.told().is_empty());
}

#[test]
fn a_process_that_was_killed_anywhere_leaves_what_the_next_one_undoes() {
    let kernel = Kernel::new();
    let before = kernel.state();
    let steps = plan(&kernel, GPU, ALL).unwrap();
    for killed in 0..steps.len() {
        for is_written in [false, true] {
            apply(&kernel, GPU, &steps[..killed]).unwrap();
            // The journal has the write that was under way, which was made or not.
            let Step { write, undo, .. } = &steps[killed];
            let text = format!("try\t{}\t{}\n", undo.path, undo.value);
            kernel.append(&undo_file(GPU), &text).unwrap();
            if is_written {
                kernel.tell(&write.path, &write.value).unwrap();
            }
            restore(&kernel, GPU).unwrap();
            assert_eq!(kernel.state(), before, "{killed} {is_written}");
        }
    }
    // A take-over on top of another one that was killed: both are undone.
    apply(&kernel, GPU, &steps[..2]).unwrap();
    let more = plan(&kernel, GPU, ALL).unwrap();
    apply(&kernel, GPU, &more).unwrap();
    restore(&kernel, GPU).unwrap();
    assert_eq!(kernel.state(), before);
}

/// The program that takes over is killed, then the one that gives back, each anywhere: the next one gives back all.
#[test]
fn two_programs_that_were_killed_anywhere_leave_what_the_next_one_undoes() {
    let free = |kernel: &Kernel| {
        kernel.put(&format!("{}/uevent", in_sysfs(GPU)), "PCI_ID=1002:7550\n");
        kernel.put(&format!("{}/enable", in_sysfs(GPU)), "0\n");
    };
    let take = |files: &dyn Files, way| {
        let steps = plan(files, GPU, ClaimOptions { way, ..ALL }).unwrap();
        apply(files, GPU, &steps).unwrap();
    };
    let again_and_again = |files: &dyn Files, way| {
        take(files, way);
        apply(files, GPU, &release(files, GPU, false).unwrap()).unwrap();
        take(files, way);
    };
    type Work<'a> = &'a dyn Fn(&dyn Files, Way);
    let works: [(Work<'_>, Way); 3] = [
        (&take, Way::Sysfs),
        (&take, Way::Vfio),
        (&again_and_again, Way::Vfio),
    ];
    let mut count = 0;
    for ((work, way), is_bound) in works.into_iter().flat_map(|w| [(w, true), (w, false)]) {
        for first in 0.. {
            let mut is_whole = false;
            for second in 0.. {
                count += 1;
                let kernel = with_vfio();
                if !is_bound {
                    free(&kernel);
                }
                let before = kernel.state();
                is_whole = killed_before(first, &kernel, |files| work(files, way));
                let is_restored = killed_before(second, &kernel, |files| {
                    restore(files, GPU).unwrap();
                });
                let case = format!("{way:?}, {is_bound}: killed before {first}, {second}");
                restore(&kernel, GPU).unwrap_or_else(|error| panic!("{case}: {error}"));
                assert_eq!(kernel.state(), before, "{case}");
                assert!(kernel.read(&undo_file(GPU)).is_err(), "{case}");
                if is_restored {
                    break;
                }
            }
            if is_whole {
                break;
            }
        }
    }
    assert!(count > 500, "{count} cases");
}

/// It was killed after the write, and cannot say so: what is not as it was before is still to be undone.
#[test]
fn what_cannot_be_undone_after_a_kill_stays_in_the_journal() {
    let kernel = Kernel::new();
    let before = kernel.state();
    let steps = plan(&kernel, GPU, ALL).unwrap();
    // Each has its line before it.
    assert!(!killed_before(2, &kernel, |files| {
        apply(files, GPU, &steps).unwrap();
    }));
    assert_eq!(driver(&kernel, GPU), None);
    kernel.told();
    *kernel.fails.borrow_mut() = Some(0);
    for _ in 0..2 {
        let error = restore(&kernel, GPU).unwrap_err().to_string();
        assert_eq!(
            error,
            "0000:03:00.0: not undone: `echo 0000:03:00.0 > /sys/bus/pci/drivers/amdgpu/bind`: Device or resource \
             busy (os error 16). Fix the cause and rerun"
        );
        kernel.told();
    }
    *kernel.fails.borrow_mut() = None;
    assert_eq!(restore(&kernel, GPU).unwrap().len(), 1);
    assert_eq!(kernel.state(), before);
    assert!(kernel.read(&undo_file(GPU)).is_err());
}

/// As where too many files are open: the line is there, and the write that it is for was never made.
#[test]
fn a_line_that_is_there_though_keeping_it_failed_is_no_harm() {
    let kernel = Kernel::new();
    let before = kernel.state();
    for Step { undo, .. } in plan(&kernel, GPU, ALL).unwrap() {
        let text = format!("try\t{}\t{}\n", undo.path, undo.value);
        kernel.append(&undo_file(GPU), &text).unwrap();
        restore(&kernel, GPU).unwrap();
        assert_eq!(kernel.state(), before, "{undo}");
        assert!(kernel.read(&undo_file(GPU)).is_err(), "{undo}");
    }
}

#[test]
fn a_function_is_missing_only_where_the_system_says_so() {
    let kernel = Kernel::new();
    for (errno, is_missing, hint) in [
        (libc::ENOENT, true, "List them with `lspci`"),
        (libc::ENOTDIR, true, "List them with `lspci`"),
        (libc::ENODEV, true, "List them with `lspci`"),
        (libc::EMFILE, false, "`ulimit -n`"),
        (libc::ENFILE, false, "`sysctl fs.file-max`"),
        (libc::EIO, false, "/vendor: Input/output error"),
    ] {
        let files = Watched {
            kernel: &kernel,
            before_change: &|| Ok(()),
            before_read: &|| Err(io::Error::from_raw_os_error(errno)),
        };
        for error in [
            plan(&files, GPU, ALL).unwrap_err(),
            release(&files, GPU, false).unwrap_err(),
            reset::plan(&files, GPU, None).unwrap_err(),
        ] {
            let text = error.to_string();
            assert_eq!(
                matches!(error, ClaimError::Missing { .. }),
                is_missing,
                "{text}"
            );
            assert!(text.contains(hint), "{text}");
        }
    }
    // Nor is its journal.
    let files = Watched {
        kernel: &kernel,
        before_change: &|| Ok(()),
        before_read: &|| Err(io::Error::from_raw_os_error(libc::EMFILE)),
    };
    let error = restore(&files, GPU).unwrap_err().to_string();
    assert!(error.contains(".undo: Too many open files"), "{error}");
    assert!(error.contains("`ulimit -n`"), "{error}");
}

#[test]
fn nothing_is_given_back_of_a_function_that_is_not_there() {
    const GONE: &str = "0000:09:00.0";
    let kernel = Kernel::new();
    for error in [pending(&kernel, GONE).err(), restore(&kernel, GONE).err()] {
        let error = error.unwrap();
        assert!(matches!(error, ClaimError::Missing { .. }), "{error}");
    }
    // What its journal has is still to be undone.
    kernel.put(&undo_file(GONE), "try\t/sys/bus/pci/rescan\t1\n");
    assert_eq!(pending(&kernel, GONE).unwrap().len(), 1);
    assert_eq!(restore(&kernel, GONE).unwrap().len(), 1);
}

#[test]
fn each_write_that_is_refused_undoes_those_before_it() {
    let kernel = Kernel::new();
    let before = kernel.state();
    let steps = plan(&kernel, GPU, ALL).unwrap();
    for n in 0..steps.len() {
        kernel.told();
        *kernel.fails.borrow_mut() = Some(n);
        let done = apply(&kernel, GPU, &steps);
        if steps[n].may_fail {
            // A small BAR is slower, and works.
            done.unwrap();
            *kernel.fails.borrow_mut() = None;
            restore(&kernel, GPU).unwrap();
        } else {
            let error = done.unwrap_err().to_string();
            assert!(error.starts_with("0000:03:00.0: `echo "), "{error}");
            let rest = match n {
                0 => "Nothing else was changed",
                _ => "Earlier changes were undone",
            };
            assert!(error.ends_with(rest), "{n}: {error}");
        }
        assert_eq!(kernel.state(), before, "{n}");
        assert!(kernel.read(&undo_file(GPU)).is_err(), "{n}");
    }
}

#[test]
fn what_cannot_be_undone_stays_in_the_journal() {
    let kernel = Kernel::new();
    let before = kernel.state();
    let steps = plan(&kernel, GPU, ALL).unwrap();
    apply(&kernel, GPU, &steps).unwrap();
    kernel.told();
    *kernel.fails.borrow_mut() = Some(3);
    let error = restore(&kernel, GPU).unwrap_err().to_string();
    assert_eq!(
        error,
        "0000:03:00.0: not undone: `echo 1 > /sys/bus/pci/rescan`: Device or resource busy (os error 16). Fix the \
         cause and rerun"
    );
    kernel.told();
    *kernel.fails.borrow_mut() = None;
    let written = restore(&kernel, GPU).unwrap();
    assert_eq!(written.len(), 1);
    assert_eq!(kernel.state(), before);
}

#[test]
fn a_card_that_somebody_looks_at_needs_a_flag() {
    let kernel = Kernel::new();
    let flagged = ClaimOptions {
        display: true,
        ..ALL
    };
    kernel.put(
        &format!("{}/drm/card0/card0-DP-1/enabled", in_sysfs(GPU)),
        "enabled\n",
    );
    let error = plan(&kernel, GPU, ALL).unwrap_err().to_string();
    assert!(
        error.contains("drives a display (card0-DP-1 is on)"),
        "{error}"
    );
    assert_eq!(plan(&kernel, GPU, flagged).unwrap().len(), 5);
    kernel.put(&format!("{}/boot_vga", in_sysfs(GPU)), "1\n");
    let error = plan(&kernel, GPU, ALL).unwrap_err().to_string();
    assert!(error.contains("boot_vga"), "{error}");
    let error = plan(&kernel, "0000:09:00.0", ALL).unwrap_err().to_string();
    assert!(error.contains("no such PCI function"), "{error}");
}

#[test]
fn a_driver_that_does_not_leave_is_named() {
    let kernel = Kernel::new();
    let mut steps = plan(&kernel, GPU, ALL).unwrap();
    // Taken by a file that does nothing.
    steps.truncate(1);
    steps[0].write.path = "/sys/deaf/driver/unbind".into();
    kernel.put("/sys/deaf/driver/unbind", "");
    kernel.put(&format!("{}/uevent", in_sysfs(GPU)), "DRIVER=amdgpu\n");
    struct Deaf(Kernel);
    impl Files for Deaf {
        fn read(&self, path: &str) -> io::Result<String> {
            self.0.read(path)
        }
        fn list(&self, path: &str) -> io::Result<Vec<String>> {
            self.0.list(path)
        }
        fn rights(&self, path: &str) -> io::Result<Rights> {
            self.0.rights(path)
        }
        fn may_write(&self, path: &str) -> io::Result<()> {
            self.0.may_write(path)
        }
        fn tell(&self, path: &str, value: &str) -> io::Result<()> {
            match path.ends_with("bind") {
                true => Ok(()),
                false => self.0.tell(path, value),
            }
        }
        fn append(&self, path: &str, text: &str) -> io::Result<()> {
            self.0.append(path, text)
        }
        fn kept(&self, path: &str) -> io::Result<String> {
            self.0.kept(path)
        }
        fn replace(&self, path: &str, text: &str) -> io::Result<()> {
            self.0.replace(path, text)
        }
    }
    let error = apply(&Deaf(kernel), GPU, &steps).unwrap_err().to_string();
    assert_eq!(
        error,
        "0000:03:00.0: after `echo 0000:03:00.0 > /sys/deaf/driver/unbind` it is still bound to the kernel driver \
         amdgpu. Earlier changes were undone"
    );
}

/// What is the machine's is taken back by the last function that needs it, not by the first that leaves.
#[test]
fn a_setting_of_the_machine_is_counted_over_all_functions() {
    const OTHER: &str = "0000:04:00.0";
    const MODE: &str = "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
    let wanted = ClaimOptions {
        way: Way::VfioNoIommu,
        resize: false,
        ..ALL
    };
    for first in [GPU, OTHER] {
        let last = if first == GPU { OTHER } else { GPU };
        let kernel = Kernel::new();
        kernel.put("/sys/bus/pci/drivers/vfio-pci/new_id", "");
        kernel.put(&format!("{}/driver_override", in_sysfs(OTHER)), "(null)\n");
        kernel.put(MODE, "N\n");
        for address in [GPU, OTHER] {
            // vfio-pci takes the other one as well, which this model does not show.
            let mut steps = plan(&kernel, address, wanted).unwrap();
            steps.retain(|step| step.write.path == MODE);
            assert_eq!(steps.len(), 1, "{address}");
            apply(&kernel, address, &steps).unwrap();
        }
        let mode = || kernel.read(MODE).unwrap();
        assert_eq!(pending(&kernel, first).unwrap(), []);
        assert_eq!(restore(&kernel, first).unwrap(), []);
        assert_eq!(mode(), "Y\n");
        assert_eq!(restore(&kernel, last).unwrap().len(), 1);
        assert_eq!(mode(), "N\n");
        assert!(kernel.list(JOURNALS).is_err());
    }
    // One that a person has set stays.
    let kernel = Kernel::new();
    kernel.put("/sys/bus/pci/drivers/vfio-pci/new_id", "");
    kernel.put(MODE, "Y\n");
    let steps = plan(&kernel, GPU, wanted).unwrap();
    assert!(steps.iter().all(|step| step.write.path != MODE));
}

/// A kernel with VFIO, and an IOMMU group with the card alone.
fn with_vfio() -> Kernel {
    let kernel = Kernel::new();
    kernel.put("/sys/bus/pci/drivers/vfio-pci/new_id", "");
    kernel.put("/sys/kernel/iommu_groups/12/type", "DMA-FQ\n");
    for member in [GPU, AUDIO] {
        let path = format!("/sys/kernel/iommu_groups/12/devices/{member}/x");
        kernel.put(&path, "");
    }
    kernel
}

#[test]
fn vfio_takes_a_function_over_and_gives_it_back() {
    let kernel = with_vfio();
    let before = kernel.state();
    let wanted = ClaimOptions {
        way: Way::Vfio,
        ..ALL
    };
    let steps = plan(&kernel, GPU, wanted).unwrap();
    // Where an IOMMU is there, nothing else is meant, and memory needs no huge pages.
    let best = ClaimOptions {
        way: Way::Best,
        ..ALL
    };
    assert_eq!(plan(&kernel, GPU, best).unwrap(), steps);
    assert_eq!(
        plan(&Kernel::new(), GPU, best).unwrap(),
        plan(&Kernel::new(), GPU, ALL).unwrap()
    );
    kernel.put("/proc/mounts", "");
    assert_eq!(plan(&kernel, GPU, best).unwrap(), steps);
    kernel.put("/proc/mounts", "none /huge hugetlbfs rw,pagesize=2M 0 0\n");
    let text: Vec<_> = steps.iter().map(|step| step.write.to_string()).collect();
    assert_eq!(
        text,
        [
            "echo 0000:03:00.0 > /sys/bus/pci/devices/0000:03:00.0/driver/unbind",
            "echo 1 > /sys/bus/pci/devices/0000:03:00.1/remove",
            "echo 14 > /sys/bus/pci/devices/0000:03:00.0/resource0_resize",
            "echo vfio-pci > /sys/bus/pci/devices/0000:03:00.0/driver_override",
            "echo 0000:03:00.0 > /sys/bus/pci/drivers_probe",
        ]
    );
    let wish = &steps[3].undo;
    assert_eq!(
        wish.to_string(),
        "echo > /sys/bus/pci/devices/0000:03:00.0/driver_override"
    );
    apply(&kernel, GPU, &steps).unwrap();
    assert_eq!(driver(&kernel, GPU).as_deref(), Some("vfio-pci"));
    assert_eq!(plan(&kernel, GPU, wanted).unwrap(), []);
    // By sysfs instead: both take-overs are undone.
    apply(&kernel, GPU, &plan(&kernel, GPU, ALL).unwrap()).unwrap();
    assert_eq!(driver(&kernel, GPU), None);
    let writes = pending(&kernel, GPU).unwrap();
    kernel.told();
    assert_eq!(restore(&kernel, GPU).unwrap(), writes);
    assert_eq!(kernel.state(), before);
    assert_eq!(pending(&kernel, GPU).unwrap(), []);
}

/// A driver that has got a function several times gives it back as often.
#[test]
fn what_was_taken_and_let_go_again_and_again_is_given_back() {
    for way in [Way::Vfio, Way::Sysfs] {
        let kernel = with_vfio();
        let before = kernel.state();
        for times in 0..3 {
            let wanted = ClaimOptions { way, ..ALL };
            apply(&kernel, GPU, &plan(&kernel, GPU, wanted).unwrap()).unwrap();
            if times < 2 {
                apply(&kernel, GPU, &release(&kernel, GPU, false).unwrap()).unwrap();
                assert_eq!(driver(&kernel, GPU), None);
            }
        }
        let writes = pending(&kernel, GPU).unwrap();
        assert_eq!(restore(&kernel, GPU).unwrap(), writes);
        assert_eq!(driver(&kernel, GPU).as_deref(), Some("amdgpu"), "{way:?}");
        assert_eq!(kernel.state(), before, "{way:?}");
        assert_eq!(pending(&kernel, GPU).unwrap(), []);
    }
}

/// Somebody else has given the function back in between: what is as it was is no error, and nothing stays in the journal.
#[test]
fn what_somebody_else_has_undone_is_done() {
    for way in [Way::Vfio, Way::Sysfs] {
        let kernel = with_vfio();
        for _ in 0..2 {
            let wanted = ClaimOptions {
                way,
                ..ClaimOptions::default()
            };
            apply(&kernel, GPU, &plan(&kernel, GPU, wanted).unwrap()).unwrap();
            kernel.put(
                &format!("{}/uevent", in_sysfs(GPU)),
                "DRIVER=amdgpu\nPCI_ID=1002:7550\n",
            );
            kernel.put(&format!("{}/enable", in_sysfs(GPU)), "1\n");
        }
        restore(&kernel, GPU).unwrap();
        assert_eq!(pending(&kernel, GPU).unwrap(), [], "{way:?}");
        assert_eq!(driver(&kernel, GPU).as_deref(), Some("amdgpu"), "{way:?}");
    }
}

#[test]
fn what_vfio_cannot_give_away_is_said() {
    let refused = |kernel: &Kernel, way| {
        let wanted = ClaimOptions { way, ..ALL };
        plan(kernel, GPU, wanted).unwrap_err().to_string()
    };
    let kernel = Kernel::new();
    let error = refused(&kernel, Way::Vfio);
    assert!(error.contains("`modprobe vfio-pci`"), "{error}");
    kernel.put("/sys/bus/pci/drivers/vfio-pci/new_id", "");
    let error = refused(&kernel, Way::Vfio);
    assert!(error.contains("no IOMMU is enabled"), "{error}");
    let error = refused(&kernel, Way::VfioNoIommu);
    assert!(error.contains("CONFIG_VFIO_NOIOMMU"), "{error}");
    kernel.put(
        "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode",
        "N\n",
    );
    let wanted = ClaimOptions {
        way: Way::VfioNoIommu,
        ..ALL
    };
    let steps = plan(&kernel, GPU, wanted).unwrap();
    let unsafe_mode = steps.iter().find(|step| step.write.value == "Y").unwrap();
    assert_eq!(unsafe_mode.undo.value, "N");
    let kernel = with_vfio();
    let error = refused(&kernel, Way::VfioNoIommu);
    assert!(
        error.contains("IOMMU group 12: pass --vfio without noiommu"),
        "{error}"
    );
    kernel.put("/sys/kernel/iommu_groups/12/devices/0000:04:00.0/x", "");
    kernel.put(
        &format!("{}/uevent", in_sysfs("0000:04:00.0")),
        "DRIVER=xhci_hcd\n",
    );
    let error = refused(&kernel, Way::Vfio);
    assert!(
        error.contains("also contains 0000:04:00.0, bound to the kernel driver xhci_hcd"),
        "{error}"
    );
    // A driver that does not come.
    let kernel = with_vfio();
    let before = kernel.state();
    let wanted = ClaimOptions {
        way: Way::Vfio,
        ..ALL
    };
    let mut steps = plan(&kernel, GPU, wanted).unwrap();
    steps.retain(|step| !step.write.path.ends_with("driver_override"));
    let error = apply(&kernel, GPU, &steps).unwrap_err().to_string();
    assert!(
        error.ends_with("no driver is bound: see `dmesg`. Earlier changes were undone"),
        "{error}"
    );
    assert_eq!(kernel.state(), before);
}

#[test]
fn a_driver_alone_is_let_go_and_comes_back() {
    let kernel = Kernel::new();
    let before = kernel.state();
    let steps = release(&kernel, GPU, false).unwrap();
    assert_eq!(steps.len(), 1);
    apply(&kernel, GPU, &steps).unwrap();
    assert_eq!(driver(&kernel, GPU), None);
    assert_eq!(release(&kernel, GPU, false).unwrap(), []);
    restore(&kernel, GPU).unwrap();
    assert_eq!(kernel.state(), before);
}

#[test]
fn a_reset_chooses_a_way_and_puts_it_back() {
    use hcq::transport::ResetKind;

    let kernel = Kernel::new();
    let refused = |kind| reset::plan(&kernel, GPU, kind).unwrap_err().to_string();
    let error = refused(None);
    assert!(
        error.contains("bound to the kernel driver amdgpu"),
        "{error}"
    );
    apply(&kernel, GPU, &release(&kernel, GPU, false).unwrap()).unwrap();
    let before = kernel.state();
    kernel.told();
    let usual = reset::plan(&kernel, GPU, None).unwrap();
    assert_eq!(usual.way, None);
    reset::apply(&kernel, GPU, &usual).unwrap();
    let bus = reset::plan(&kernel, GPU, Some(ResetKind::Bus)).unwrap();
    reset::apply(&kernel, GPU, &bus).unwrap();
    let folder = in_sysfs(GPU);
    assert_eq!(
        kernel.told(),
        [
            format!("1 > {folder}/reset"),
            format!("bus > {folder}/reset_method"),
            format!("1 > {folder}/reset"),
            format!("flr bus > {folder}/reset_method"),
        ]
    );
    // One that fails, too.
    *kernel.fails.borrow_mut() = Some(1);
    let error = reset::apply(&kernel, GPU, &bus).unwrap_err().to_string();
    assert!(error.contains("Device or resource busy"), "{error}");
    assert_eq!(kernel.state(), before);
    assert!(refused(Some(ResetKind::Power)).ends_with("available reset methods: flr bus"));
    kernel.put(&format!("{folder}/reset_method"), "\n");
    assert!(refused(None).contains("all reset methods are disabled"));
}

#[test]
fn a_program_that_is_asked_to_end_undoes_what_it_has_done() {
    let kernel = Kernel::new();
    let before = kernel.state();
    let steps = plan(&kernel, GPU, ALL).unwrap();
    for most in 0..steps.len() {
        let looked = std::cell::Cell::new(0);
        let ends = || {
            looked.set(looked.get() + 1);
            looked.get() > most
        };
        let error = journal::apply(&kernel, GPU, &steps, &ends).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("Earlier changes were undone"), "{text}");
        assert_eq!(kernel.state(), before, "{most}");
        assert_eq!(pending(&kernel, GPU).unwrap(), []);
    }
}

/// A crash may end a journal anywhere; what follows must not change what its lines say.
#[test]
fn a_line_that_was_cut_short_is_of_nothing() {
    let kernel = Kernel::new();
    let cut = "try\t/sys/a\t1\ndone\ntry\t/sys/b\t12";
    for (text, wanted) in [
        (cut.to_owned(), vec!["/sys/a"]),
        (
            format!("{cut}\tcut\tcut\tcut\ntry\t/sys/c\t1\n"),
            vec!["/sys/c", "/sys/a"],
        ),
        ("try\t/sys/a".to_owned(), vec![]),
    ] {
        kernel.put(&undo_file(GPU), &text);
        let pending = pending(&kernel, GPU).unwrap();
        let paths: Vec<_> = pending.iter().map(|write| &*write.path).collect();
        assert_eq!(paths, wanted, "{text:?}");
    }
}

/// What a line that nobody understands was to undo would be lost with it.
#[test]
fn a_line_that_is_wrong_is_an_error_and_the_journal_stays() {
    for (text, what) in [
        ("try\t/sys/a\t0\ndone\ntrx\t/sys/b\tauto\ndone\n", "line 3"),
        ("try\t/sys/a\n", "line 1"),
        ("\n", "line 1"),
    ] {
        let kernel = Kernel::new();
        kernel.put(&undo_file(GPU), text);
        let before = kernel.state();
        let steps = plan(&kernel, GPU, ALL).unwrap();
        for error in [
            pending(&kernel, GPU).err(),
            restore(&kernel, GPU).err(),
            journal::apply(&kernel, GPU, &steps, &|| false).err(),
        ] {
            let error = error.unwrap().to_string();
            assert!(error.contains(what) && error.contains("`done`"), "{error}");
            assert!(!error.contains("as root"), "{error}");
        }
        assert_eq!(kernel.state(), before);
    }
}

/// Its end would be lost.
#[test]
fn a_journal_that_is_too_large_or_no_text_is_an_error() {
    let top = tempfile::tempdir().unwrap();
    let folder = top.path().join("run/doorbell");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{GPU}.undo"));
    let system = System::at(top.path());
    let large = "try\t/sys/a\t1\ndone\n".repeat(1 << 16);
    for (bytes, what) in [
        (large.as_bytes(), "is larger than 1048576 bytes"),
        (&b"try\t/sys/\xff\t1\ndone\n"[..], "is not UTF-8 text"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        for error in [pending(&system, GPU).err(), restore(&system, GPU).err()] {
            let error = error.unwrap().to_string();
            assert!(error.contains(what), "{error}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}

/// Who cannot read what is to be undone must not say that there is nothing.
#[test]
fn a_journal_that_is_not_ours_is_an_error_and_nothing_is_written() {
    let top = tempfile::tempdir().unwrap();
    let folder = top.path().join("run/doorbell");
    std::fs::create_dir_all(&folder).unwrap();
    let elsewhere = top.path().join("elsewhere");
    std::fs::write(&elsewhere, "try\t/told\t1\ndone\n").unwrap();
    std::fs::write(top.path().join("told"), "").unwrap();
    std::os::unix::fs::symlink(&elsewhere, folder.join(format!("{GPU}.undo"))).unwrap();
    let system = System::at(top.path());
    for error in [pending(&system, GPU).err(), restore(&system, GPU).err()] {
        let error = error.unwrap().to_string();
        assert!(error.contains(".undo is a link"), "{error}");
    }
    assert_eq!(
        std::fs::read_to_string(top.path().join("told")).unwrap(),
        ""
    );
    assert!(elsewhere.exists());
}
