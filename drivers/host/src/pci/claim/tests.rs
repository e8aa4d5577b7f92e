use super::*;
use std::cell::RefCell;
use std::collections::BTreeMap;

const GPU: &str = "0000:03:00.0";
const AUDIO: &str = "0000:03:00.1";

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
            (of(AUDIO, "vendor"), "0x1002\n"),
            (of("0000:04:00.0", "vendor"), "0x1002\n"),
            (COMPACT.to_owned(), "1\n"),
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

    fn tell(&self, path: &str, value: &str) -> io::Result<()> {
        let number = self.told.borrow().len();
        self.told.borrow_mut().push(format!("{value} > {path}"));
        if *self.fails.borrow() == Some(number) {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        let uevent = format!("{}/uevent", in_sysfs(GPU));
        let has_driver = self.read(&uevent)?.contains("DRIVER=");
        let mut files = self.files.borrow_mut();
        let audio = format!("{}/vendor", in_sysfs(AUDIO));
        match path.rsplit('/').next().unwrap_or(path) {
            "unbind" if has_driver => {
                files.insert(uevent, "PCI_ID=1002:7550\n".into());
                files.insert(format!("{}/enable", in_sysfs(GPU)), "0\n".into());
            }
            "bind" if !has_driver => {
                files.insert(format!("{}/enable", in_sysfs(GPU)), "1\n".into());
                _ = files.insert(uevent, "DRIVER=amdgpu\nPCI_ID=1002:7550\n".into());
            }
            "unbind" | "bind" => return Err(io::Error::from_raw_os_error(libc::ENODEV)),
            "remove" => _ = files.remove(&audio),
            "rescan" => _ = files.insert(audio, "0x1002\n".into()),
            "resource0_resize" => {
                if has_driver {
                    return Err(io::Error::from_raw_os_error(libc::EBUSY));
                }
                let end = 0x8_0000_0000u64 + (1 << (20 + value.parse::<u32>().unwrap())) - 1;
                let line = format!("0x800000000 {end:#x} 0x14220c\n");
                files.insert(format!("{}/resource", in_sysfs(GPU)), line);
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

    fn remove(&self, path: &str) -> io::Result<()> {
        self.files
            .borrow_mut()
            .remove(path)
            .map(drop)
            .ok_or_else(absent)
    }
}

const ALL: Wanted = Wanted {
    display: false,
    resize: true,
};

#[test]
fn a_plan_says_each_write_its_reason_and_its_undoing_and_writes_nothing() {
    let kernel = Kernel::new();
    let steps = plan(&kernel, GPU, ALL).unwrap();
    let text: Vec<_> = steps.iter().map(Step::to_string).collect();
    assert_eq!(
        text,
        [
            "echo 0 > /proc/sys/vm/compact_unevictable_allowed  # pinned memory must not be moved; undone by: \
             echo 1 > /proc/sys/vm/compact_unevictable_allowed",
            "echo 0000:03:00.0 > /sys/bus/pci/devices/0000:03:00.0/driver/unbind  # the kernel driver amdgpu has \
             it; undone by: echo 0000:03:00.0 > /sys/bus/pci/drivers/amdgpu/bind",
            "echo 1 > /sys/bus/pci/devices/0000:03:00.1/remove  # a function of the same card, which a reset \
             takes along; undone by: echo 1 > /sys/bus/pci/rescan",
            "echo 14 > /sys/bus/pci/devices/0000:03:00.0/resource0_resize  # all VRAM behind BAR 0: 16384 MiB \
             instead of 256; undone by: echo 8 > /sys/bus/pci/devices/0000:03:00.0/resource0_resize",
            "echo on > /sys/bus/pci/devices/0000:03:00.0/power/control  # a function without a driver sleeps when its \
             bridge does; undone by: echo auto > /sys/bus/pci/devices/0000:03:00.0/power/control",
            "echo 1 > /sys/bus/pci/devices/0000:03:00.0/enable  # it does not answer while it is disabled; undone \
             by: echo 0 > /sys/bus/pci/devices/0000:03:00.0/enable",
        ]
    );
    assert!(kernel.told().is_empty());
    let small = plan(&kernel, GPU, Wanted::default()).unwrap();
    assert_eq!(small.len(), 5);
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
    assert_eq!(written.len(), 6);
    assert_eq!(kernel.state(), before);
    let told = kernel.told();
    assert!(told[0].ends_with("enable") && told[5].ends_with("compact_unevictable_allowed"));
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
            kernel.append(&journal(GPU), &text).unwrap();
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
                _ => "What was changed before is undone",
            };
            assert!(error.ends_with(rest), "{n}: {error}");
        }
        assert_eq!(kernel.state(), before, "{n}");
        assert!(kernel.read(&journal(GPU)).is_err(), "{n}");
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
        "0000:03:00.0: not undone: `echo 1 > /sys/bus/pci/rescan`: Device or resource busy (os error 16). What is \
         wrong there? Then try again"
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
    let flagged = Wanted {
        display: true,
        ..ALL
    };
    kernel.put(
        &format!("{}/drm/card0/card0-DP-1/enabled", in_sysfs(GPU)),
        "enabled\n",
    );
    let error = plan(&kernel, GPU, ALL).unwrap_err().to_string();
    assert!(
        error.contains("it drives a display (card0-DP-1 is on)"),
        "{error}"
    );
    assert_eq!(plan(&kernel, GPU, flagged).unwrap().len(), 6);
    kernel.put(&format!("{}/boot_vga", in_sysfs(GPU)), "1\n");
    let error = plan(&kernel, GPU, ALL).unwrap_err().to_string();
    assert!(error.contains("boot_vga"), "{error}");
    let error = plan(&kernel, "0000:09:00.0", ALL).unwrap_err().to_string();
    assert!(error.contains("there is no such PCI function"), "{error}");
}

#[test]
fn a_driver_that_does_not_leave_is_named() {
    let kernel = Kernel::new();
    let mut steps = plan(&kernel, GPU, ALL).unwrap();
    // Taken by a file that does nothing.
    steps.truncate(2);
    steps[1].write.path = "/sys/deaf/driver/unbind".into();
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
        fn tell(&self, path: &str, value: &str) -> io::Result<()> {
            match path.ends_with("bind") {
                true => Ok(()),
                false => self.0.tell(path, value),
            }
        }
        fn append(&self, path: &str, text: &str) -> io::Result<()> {
            self.0.append(path, text)
        }
        fn remove(&self, path: &str) -> io::Result<()> {
            self.0.remove(path)
        }
    }
    let error = apply(&Deaf(kernel), GPU, &steps).unwrap_err().to_string();
    assert_eq!(
        error,
        "0000:03:00.0: the kernel driver amdgpu still has it after it was told to leave. What was changed before \
         is undone"
    );
}
