use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use drivers_spec::pci::PCI_COMMAND;
use hcq::mem::window::AccessWidth;

use super::super::left::{has_left, let_go};
use super::*;

const ADDRESS: &str = "0000:03:00.0";
const MASTER: u16 = 4;

/// A command register.
struct Command(AtomicU16);

impl Command {
    fn new() -> Arc<Command> {
        Arc::new(Command(AtomicU16::new(0x2)))
    }
}

impl Config for Command {
    fn read(&self, offset: u16, _: AccessWidth) -> Result<u32, TransportError> {
        let command = self.0.load(Ordering::SeqCst);
        Ok(if offset == PCI_COMMAND {
            command.into()
        } else {
            0
        })
    }
    fn write(&self, _: u16, _: AccessWidth, value: u32) -> Result<(), TransportError> {
        self.0.store(value as u16, Ordering::SeqCst);
        Ok(())
    }
}

/// Huge pages in no order, of a system that moves none of them.
struct Scattered;

impl Frames for Scattered {
    fn places(&self, _: &File, offset: u64, view: &View) -> Result<Vec<u64>, Fault> {
        let place = |page: u64| (page ^ 1) * HUGE + (1 << 32);
        let first = offset / HUGE;
        Ok((first..first + view.len() as u64 / HUGE)
            .map(place)
            .collect())
    }
}

/// A folder that looks like a machine with so many huge pages; a plain file system is in place of hugetlbfs.
fn machine(pages: u32) -> (tempfile::TempDir, System) {
    let top = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = top.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put(
        "proc/mounts",
        "proc /proc proc rw 0 0\nhugetlbfs /dev/hugepages1G hugetlbfs rw,pagesize=1024M 0 0\n\
         hugetlbfs /dev/hugepages hugetlbfs rw,relatime,pagesize=2M 0 0\n",
    );
    put(&format!("{POOL}/nr_hugepages"), &format!("{pages}\n"));
    put(&format!("{POOL}/free_hugepages"), &format!("{pages}\n"));
    std::fs::create_dir_all(top.path().join("dev/hugepages")).unwrap();
    std::fs::create_dir_all(top.path().join("run/lock")).unwrap();
    let system = System::at(top.path());
    (top, system)
}

fn pages(system: &System, command: &Arc<Command>) -> Result<Arc<Pages>, TransportError> {
    let lock = Lock::take(system, ADDRESS, Duration::ZERO).unwrap();
    let (config, frames) = (command.clone(), Box::new(Scattered));
    Pages::new(system, ADDRESS, config, frames, &Arc::new(lock))
}

fn found(dma: &Dma) -> Vec<(u64, u64)> {
    let ranges = dma.ranges.for_domain(Domain::BUS).unwrap();
    ranges.iter().map(|r| (r.addr.0, r.bytes)).collect()
}

#[test]
fn memory_comes_from_huge_pages_by_where_they_lie() {
    let (_top, system) = machine(8);
    let pages = pages(&system, &Command::new()).unwrap();
    let small = pages.dma(0x5001, 0x1000).unwrap();
    assert_eq!(small.view.len(), 0x6000);
    let [(at, 0x6000)] = found(&small)[..] else {
        panic!("{:x?}", found(&small));
    };
    // Of three huge pages: the second of two is one before the first.
    let large = pages.dma(3 * HUGE, HUGE).unwrap();
    let ranges = found(&large);
    assert!(ranges.iter().all(|(at, _)| at.is_multiple_of(HUGE)));
    assert_eq!(ranges.iter().map(|(_, bytes)| bytes).sum::<u64>(), 3 * HUGE);
    assert!(ranges.len() > 1);
    large.view.write(3 * HUGE_PAGE - 8, 7u64).unwrap();
    // What was given back is given again, without what was there.
    small.view.write(0x5ff8, 7u64).unwrap();
    drop(small);
    let again = pages.dma(0x6000, 0x1000).unwrap();
    assert_eq!(found(&again), [(at, 0x6000)]);
    assert_eq!(again.view.read::<u64>(0x5ff8), Ok(0));
    // Nothing that is given lies in something else that is.
    let all: Vec<_> = (0..200)
        .map(|_| pages.dma(0x1000, 0x1000).unwrap())
        .collect();
    let places: BTreeSet<_> = all.iter().flat_map(found).collect();
    assert_eq!(places.len(), 200);
    let error = pages.dma(9 * HUGE, 0x1000).unwrap_err();
    assert_eq!(error, Fault::Errno(libc::ENOMEM));
}

#[test]
fn its_file_outlives_who_is_killed_until_the_function_has_stopped() {
    let (top, system) = machine(4);
    let file = top.path().join("dev/hugepages/doorbell-0000:03:00.0");
    let command = Command::new();
    let first = pages(&system, &command).unwrap();
    let dma = first.dma(0x1000, 0x1000).unwrap();
    command.0.fetch_or(MASTER, Ordering::SeqCst);
    assert!(file.exists() && has_left(&system, ADDRESS));
    // In order: memory that somebody still has keeps it, and then the function is no master before the file goes.
    drop(first);
    assert!(file.exists() && command.0.load(Ordering::SeqCst) & MASTER != 0);
    drop(dma);
    assert!(!file.exists() && command.0.load(Ordering::SeqCst) & MASTER == 0);
    // Killed: nothing is dropped, and the kernel gives the lock back.
    std::fs::write(&file, "what a process has left").unwrap();
    command.0.fetch_or(MASTER, Ordering::SeqCst);
    let next = pages(&system, &command).unwrap();
    assert_eq!(command.0.load(Ordering::SeqCst) & MASTER, 0);
    assert_eq!(next.dma(8, 8).unwrap().view.read::<u64>(0), Ok(0));
}

/// A function that does not stop keeps its memory.
#[test]
fn memory_stays_where_the_function_does_not_stop() {
    struct Stubborn;
    impl Config for Stubborn {
        fn read(&self, _: u16, _: AccessWidth) -> Result<u32, TransportError> {
            Ok(0x6)
        }
        fn write(&self, _: u16, _: AccessWidth, _: u32) -> Result<(), TransportError> {
            Ok(())
        }
    }
    let (top, system) = machine(4);
    let file = top.path().join("dev/hugepages/doorbell-0000:03:00.0");
    std::fs::write(&file, "what a process has left").unwrap();
    let error = let_go(&system, ADDRESS, &Stubborn).unwrap_err().to_string();
    assert!(error.contains("still bus master"), "{error}");
    assert!(file.exists());
}

/// A process had two functions, and memory of one is in the page tables of the other: it stays until both are quiet.
#[test]
fn memory_goes_when_all_functions_that_a_process_had_are_quiet() {
    const OTHER: &str = "0000:04:00.0";
    let (top, system) = machine(4);
    let file = |address: &str| top.path().join("dev/hugepages").join(name(address));
    let folder = top.path().join("sys/bus/pci/devices").join(OTHER);
    std::fs::create_dir_all(&folder).unwrap();
    let config = folder.join("config");
    let master = || std::fs::read(&config).unwrap()[usize::from(PCI_COMMAND)] & 4 != 0;
    let leave = || {
        let mut bytes = [0u8; 256];
        bytes[usize::from(PCI_COMMAND)] = 6;
        std::fs::write(&config, bytes).unwrap();
        for address in [ADDRESS, OTHER] {
            std::fs::write(file(address), "what a process has left").unwrap();
        }
    };
    leave();
    let_go(&system, ADDRESS, &*Command::new()).unwrap();
    assert!(!master() && !file(ADDRESS).exists() && file(OTHER).exists());

    // One that a program has is not its own any more; the file says so.
    leave();
    let held = File::open(file(OTHER)).unwrap();
    held.lock().unwrap();
    let lock = Lock::take(&system, OTHER, Duration::ZERO).unwrap();
    let_go(&system, ADDRESS, &*Command::new()).unwrap();
    assert!(master() && !file(ADDRESS).exists());
    drop((held, lock));

    // One that a program is about to make quiet is waited for.
    leave();
    let lock = Lock::take(&system, OTHER, Duration::ZERO).unwrap();
    std::thread::scope(|scope| {
        let goes = scope.spawn(|| let_go(&system, ADDRESS, &*Command::new()));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!goes.is_finished() && has_left(&system, ADDRESS));
        let_go(&system, OTHER, &*Command::new()).unwrap();
        goes.join().unwrap().unwrap();
    });
    assert!(!has_left(&system, ADDRESS) && !has_left(&system, OTHER));
    drop(lock);

    // Drivers of the kernel's have begun anew, and are left alone; one that does nothing has not.
    for (driver, is_kept) in [("amdgpu", true), ("vfio-pci", true), ("pci-stub", false)] {
        leave();
        std::fs::write(folder.join("uevent"), format!("DRIVER={driver}\n")).unwrap();
        let_go(&system, ADDRESS, &*Command::new()).unwrap();
        assert!(
            !has_left(&system, ADDRESS) && master() == is_kept,
            "{driver}"
        );
    }

    // One that is not there any more may have been taken out, or only be hidden.
    leave();
    std::fs::remove_dir_all(&folder).unwrap();
    let error = let_go(&system, ADDRESS, &*Command::new())
        .unwrap_err()
        .to_string();
    for part in [OTHER, "pci/rescan", "delete ", "doorbell-0000:04:00.0"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(has_left(&system, ADDRESS));
    std::fs::remove_file(file(OTHER)).unwrap();
    let_go(&system, ADDRESS, &*Command::new()).unwrap();
    assert!(!has_left(&system, ADDRESS));
}

/// Who is killed between, leaves a file of a name that says so.
#[test]
fn a_file_that_was_nearly_let_go_is_found() {
    let (top, system) = machine(4);
    let folder = top.path().join("dev/hugepages");
    for files in [
        &["doorbell-0000:03:00.0.quiet"][..],
        &["doorbell-0000:03:00.0", "doorbell-0000:03:00.0.quiet"],
    ] {
        for file in files {
            std::fs::write(folder.join(file), "what a process has left").unwrap();
        }
        assert!(has_left(&system, ADDRESS));
        let_go(&system, ADDRESS, &*Command::new()).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "{files:?}");
    }
}

/// Bus mastering is not taken from under a driver of the kernel's.
#[test]
fn memory_stays_where_a_kernel_driver_has_the_function() {
    let (top, system) = machine(4);
    let folder = top.path().join("sys/bus/pci/devices").join(ADDRESS);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("uevent"), "DRIVER=amdgpu\n").unwrap();
    std::fs::write(top.path().join("dev/hugepages").join(name(ADDRESS)), "left").unwrap();
    let command = Command::new();
    command.0.fetch_or(MASTER, Ordering::SeqCst);
    let error = let_go(&system, ADDRESS, &*command).unwrap_err().to_string();
    assert!(
        error.contains("amdgpu") && error.contains("doorbell unbind"),
        "{error}"
    );
    assert!(command.0.load(Ordering::SeqCst) & MASTER != 0 && has_left(&system, ADDRESS));
}

#[test]
fn a_machine_without_huge_pages_is_told_what_to_mount_and_reserve() {
    let (_top, system) = machine(0);
    let error = pages(&system, &Command::new()).err().unwrap().to_string();
    for part in [
        "nr_hugepages is 0",
        "echo 1024 > /proc/sys/vm/nr_hugepages",
        "IOMMU",
    ] {
        assert!(error.contains(part), "{error}");
    }
    let (top, system) = machine(4);
    assert!(
        available(&system)
            .unwrap()
            .starts_with("4 of 4 huge pages are free")
    );
    std::fs::write(top.path().join("proc/mounts"), "proc /proc proc rw 0 0\n").unwrap();
    let error = pages(&system, &Command::new()).err().unwrap().to_string();
    assert!(
        error.contains("mount -t hugetlbfs -o pagesize=2M"),
        "{error}"
    );
    // The folder is not there, or not ours.
    let (top, system) = machine(4);
    std::fs::remove_dir(top.path().join("dev/hugepages")).unwrap();
    let error = pages(&system, &Command::new()).err().unwrap();
    assert_eq!(error.fault, Fault::Errno(libc::ENOENT));
}

#[test]
fn entries_that_say_no_place_are_errors() {
    const PRESENT: u64 = 1 << 63;
    assert_eq!(place(PRESENT | 1 << 61 | 0x200, 0x1000), Ok(0x20_0000));
    for (entry, text) in [
        (0x200, "not in memory"),
        (PRESENT, "CAP_SYS_ADMIN"),
        (PRESENT | 0x201, "not a huge page file"),
    ] {
        let error = place(entry, 0x1000).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
    let (top, system) = machine(4);
    let file = File::create(top.path().join("file")).unwrap();
    let view = View::alloc(HUGE_PAGE, HUGE_PAGE).unwrap();
    let error = Pagemap(system).places(&file, 0, &view).unwrap_err();
    assert_eq!(error, Fault::Errno(libc::ENOENT));
}

/// On a machine that has some: memory of the kernel's own hugetlbfs, by its own word.
#[test]
fn the_kernel_gives_huge_pages_by_their_places() {
    let this = System::this();
    if let Err(why) = available(&this) {
        println!("no huge pages here: {why}");
        return;
    }
    let (top, _) = machine(4);
    for path in ["proc/self", "sys/kernel/mm"] {
        _ = std::fs::remove_dir_all(top.path().join(path));
    }
    // A file of its own: no card of this machine has that address.
    let address = "ffff:ff:1f.7";
    let lock = Lock::take(&System::at(top.path()), address, Duration::ZERO).unwrap();
    let frames = Box::new(Pagemap(this.clone()));
    let config = Command::new();
    let pages = Pages::new(&this, address, config.clone(), frames, &Arc::new(lock));
    let pages = match pages {
        Ok(pages) => pages,
        Err(error) => return println!("no huge pages for this user: {error}"),
    };
    match pages.dma(0x3000, 0x1000) {
        Ok(dma) => {
            assert!(found(&dma)[0].0 > 0);
            dma.view.write(0, 7u64).unwrap();
        }
        // None is free, or the kernel tells nobody.
        Err(error) => println!("{error}"),
    }
    assert!(has_left(&this, address));
    drop(pages);
    assert!(!has_left(&this, address));
}
