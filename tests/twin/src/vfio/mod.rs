//! VFIO as a program sees it: containers, groups, and the PCI function in each group.
//!
//! What is modelled: `/dev/vfio/vfio`, the files of groups (behind an IOMMU of type 1, version 2, or without one),
//! a device's regions by read, write and mmap, message signalled interrupts by eventfds, and mappings
//! for DMA, which are what all functions of a container find on their bus: memory of the process, and windows of functions
//! that are mapped there. Groups whose IOMMUs differ do not share a container. A group leaves its container when its file
//! and that of its device are closed; with the last one go the mappings. Not modelled: groups of several functions, dirty
//! pages, INTx and MSI-X, cdevs and iommufd; nor the reset that vfio-pci makes, where it can, when a device is opened and
//! when it is closed: a program finds its function as the one before it has left it, which is harder.
//!
//! The kernel answers wrong calls with an errno, and so does this; a rule says what was wrong. Regions do not lie
//! where Linux has them: where, the kernel tells.

mod device;
mod group;
pub mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::Duration;

use hcq::mem::view::View;
use hcq::sync::{lock, unpoisoned};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::caller::{Caller, Here};
use crate::errno::{Errno, Result};
use crate::pci::{Function, HostMemory};
use crate::rule::{Journal, Rule};

use group::{Container, Group};

/// The page of the process and of the IOMMU.
pub(crate) const PAGE: u64 = 4096;

/// What the group and its function are like.
#[derive(Clone, Debug)]
pub struct Config {
    /// The number of the group.
    pub group: u32,
    /// Whether the group is one that has no IOMMU.
    pub no_iommu: bool,
    /// Whether no kernel driver has a function of the group.
    pub viable: bool,
    /// BARs that can be mapped, with their bytes; others are read and written.
    pub mapped: Vec<(u8, u64)>,
    /// BARs that can be mapped for other functions, with their bytes. To the process they are addresses without rights: a
    /// test reaches what is there by the function's own windows.
    pub windows: Vec<(u8, u64)>,
    /// BARs that are read and written, with their bytes.
    pub trapped: Vec<(u8, u64)>,
    /// Addresses that the IOMMU translates: first and last.
    pub iova: Vec<(u64, u64)>,
    /// Which kind of IOMMU stands before it: groups of different ones share no container.
    pub iommu: u32,
    /// Message signalled interrupts.
    pub vectors: u32,
    /// How many of them the machine has room for.
    pub room: u32,
    /// Whether the function can be reset.
    pub resets: bool,
    /// Other functions on its bus, each with the number of its group: device in bits 7:3, function in 2:0.
    pub beside: Vec<(u32, u8)>,
}

impl Config {
    /// A group behind an IOMMU as those of x86 are: below the local APIC's addresses, and above.
    pub fn behind_iommu(group: u32) -> Config {
        Config {
            group,
            no_iommu: false,
            viable: true,
            mapped: Vec::new(),
            windows: Vec::new(),
            trapped: Vec::new(),
            iova: vec![(0, 0xfedf_ffff), (0xfef0_0000, (1 << 39) - 1)],
            iommu: 0,
            vectors: 1,
            room: 32,
            resets: true,
            beside: Vec::new(),
        }
    }
}

/// An open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum File {
    /// By its number.
    Container(u32),
    /// By the place of the group among all of them, and so a device.
    Group(usize),
    Device(usize),
    Event,
}

#[derive(Default)]
struct State {
    files: BTreeMap<i32, File>,
    /// How many containers there were.
    made: u32,
    containers: BTreeMap<u32, Container>,
    groups: Vec<Group>,
}

/// What interrupts lead to. A function raises one while it holds locks of its own, which requests of programs take while they
/// hold [`State`]: this is apart from it, and nothing else is locked while this is.
#[derive(Default)]
struct Heard {
    /// The eventfds of the vectors of each device, by the place of its group.
    vectors: BTreeMap<usize, Vec<Option<i32>>>,
    /// How often each eventfd was told of.
    events: BTreeMap<i32, u64>,
}

/// A group, and what is in it.
struct Slot {
    config: Config,
    function: Arc<Function>,
}

/// The kernel.
pub struct Kernel {
    slots: Vec<Slot>,
    state: Mutex<State>,
    heard: Mutex<Heard>,
    told: Condvar,
    journal: Arc<Journal>,
}

/// A descriptor that the twin has given; small, and none of the host's that anything is done with.
const FIRST: i32 = 100;

impl Kernel {
    /// A kernel with a function of one group, which vfio-pci has.
    pub fn new(config: Config, function: Arc<Function>, journal: Arc<Journal>) -> Arc<Kernel> {
        Kernel::of(vec![(config, function)], journal)
    }

    /// A kernel with several groups, each with a function.
    pub fn of(groups: Vec<(Config, Arc<Function>)>, journal: Arc<Journal>) -> Arc<Kernel> {
        Arc::new_cyclic(|kernel: &Weak<Kernel>| {
            let slot = |(group, (config, function)): (usize, (Config, Arc<Function>))| {
                let kernel = kernel.clone();
                function.bus().on_interrupt(Arc::new(move |vector| {
                    // A kernel that is gone hears nothing.
                    kernel
                        .upgrade()
                        .into_iter()
                        .for_each(|kernel| kernel.interrupt(group, vector));
                }));
                if !config.no_iommu {
                    function.bus().translate(&HostMemory::new());
                }
                Slot { config, function }
            };
            let slots: Vec<_> = groups.into_iter().enumerate().map(slot).collect();
            let groups = slots.iter().map(|_| Group::default()).collect();
            Kernel {
                slots,
                state: Mutex::new(State {
                    groups,
                    ..State::default()
                }),
                heard: Mutex::default(),
                told: Condvar::new(),
                journal,
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in a model is a failed test already.
        lock(&self.state)
    }

    /// Notes a broken rule, and fails as the kernel does.
    fn broken<T>(&self, rule: &'static Rule, what: String, errno: Errno) -> Result<T> {
        self.journal.broken(rule, what);
        Err(errno)
    }

    /// The path of the first group's file.
    pub fn group_path(&self) -> String {
        self.slots[0].path()
    }

    /// Opens a file.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(&self, path: &str) -> Result<i32> {
        let mut state = self.lock();
        let file = if path == "/dev/vfio/vfio" {
            state.made += 1;
            let number = state.made;
            state.containers.insert(number, Container::default());
            File::Container(number)
        } else {
            let group = self.slots.iter().position(|slot| slot.path() == path);
            let group = group.ok_or(Errno::ENOENT)?;
            // One program at a time has a group.
            if state.groups[group].is_open {
                return Err(Errno::EBUSY);
            }
            state.groups[group].is_open = true;
            File::Group(group)
        };
        self.journal.event(format!("open {path}"));
        Ok(state.add(file))
    }

    /// Closes a file.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn close(&self, fd: i32) -> Result {
        let mut state = self.lock();
        let file = state.files.remove(&fd).ok_or(Errno::EBADF)?;
        self.journal.event(format!("close of {file:?}"));
        match file {
            File::Container(number) => {
                let container = state.containers.get_mut(&number).ok_or(Errno::EBADF)?;
                container.is_closed = true;
                self.forget(&mut state, number);
            }
            File::Device(group) => {
                self.disable(group);
                state.groups[group].device = None;
                lock(&self.heard).vectors.remove(&group);
                self.leave(&mut state, group);
            }
            File::Group(group) => self.leave(&mut state, group),
            File::Event => _ = lock(&self.heard).events.remove(&fd),
        }
        Ok(())
    }

    /// A request to a file.
    ///
    /// # Errors
    /// The kernel's.
    pub fn ioctl(&self, fd: i32, request: u32, argument: u64) -> Result<i32> {
        let mut state = self.lock();
        let file = state.file(fd)?;
        self.journal.event(format!("{file:?} {request:#x}"));
        match file {
            File::Container(number) => self.of_container(&mut state, number, request, argument),
            File::Group(group) => self.of_group(&mut state, group, request, argument),
            File::Device(group) => self.of_device(&mut state, group, request, argument),
            File::Event => Err(Errno::ENOTTY),
        }
    }

    /// An eventfd.
    pub fn event(&self) -> i32 {
        let mut state = self.lock();
        let fd = state.add(File::Event);
        lock(&self.heard).events.insert(fd, 0);
        fd
    }

    /// Waits for an eventfd, and takes what it counts; none if nothing came in time.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn wait(&self, fd: i32, limit: Duration) -> Result<Option<u64>> {
        let heard = lock(&self.heard);
        let waits = |heard: &mut Heard| heard.events.get(&fd) == Some(&0);
        let waited = self.told.wait_timeout_while(heard, limit, waits);
        let (mut heard, _) = unpoisoned(waited);
        let count = heard.events.get_mut(&fd).ok_or(Errno::EBADF)?;
        Ok(Some(std::mem::take(count)).filter(|count| *count > 0))
    }

    /// A function raises an interrupt; it is lost where nobody has asked for it.
    fn interrupt(&self, group: usize, vector: u32) {
        let mut heard = lock(&self.heard);
        let vectors = heard.vectors.get(&group);
        let fd = vectors.and_then(|vectors| vectors.get(vector as usize).copied().flatten());
        if let Some(count) = fd.and_then(|fd| heard.events.get_mut(&fd)) {
            *count += 1;
            self.told.notify_all();
        }
    }

    /// A group whose files are closed leaves its container.
    ///
    /// Source: Linux, drivers/vfio/group.c, vfio_group_fops_release: a device's file holds that of its group.
    fn leave(&self, state: &mut State, group: usize) {
        let has_file = state.files.values().any(|file| *file == File::Group(group));
        if has_file || state.groups[group].device.is_some() {
            return;
        }
        let left = std::mem::take(&mut state.groups[group]);
        if !self.slots[group].config.no_iommu {
            let bus = self.slots[group].function.bus();
            bus.translate(&HostMemory::new());
        }
        if let Some(number) = left.container {
            self.forget(state, number);
        }
    }

    /// A container without groups has neither an IOMMU nor mappings; without groups and file it is gone.
    ///
    /// Source: Linux, drivers/vfio/container.c, vfio_group_detach_container and vfio_fops_release.
    fn forget(&self, state: &mut State, number: u32) {
        let is_used = state
            .groups
            .iter()
            .any(|group| group.container == Some(number));
        if is_used {
            return;
        }
        if let Some(container) = state.containers.get_mut(&number) {
            container.empty();
        }
        state
            .containers
            .retain(|other, container| *other != number || !container.is_closed);
    }

    /// What is mapped for functions: first address and bytes.
    pub fn mapped(&self) -> Vec<(u64, u64)> {
        let state = self.lock();
        let all = state.containers.values();
        let all = all.flat_map(|container| container.maps.iter());
        all.map(|(at, bytes)| (*at, *bytes)).collect()
    }

    /// How many containers are open, or have groups.
    pub fn containers(&self) -> usize {
        self.lock().containers.len()
    }

    /// The memory behind a BAR that is mapped, as the first function has it.
    pub fn memory(&self, bar: u8) -> Option<View> {
        let state = self.lock();
        let device = state.groups[0].device.as_ref()?;
        device.memory.get(&bar).cloned()
    }

    /// The struct of a request, as long as it says that it is.
    fn argument<T: FromBytes + IntoBytes + Copy>(
        &self,
        name: &str,
        argument: u64,
        argsz: impl Fn(&T) -> u32,
    ) -> Result<T> {
        let here: &dyn Caller = &Here;
        let value: T = here.get(argument)?;
        let (told, wanted) = (argsz(&value) as usize, size_of::<T>());
        if told < wanted {
            let what = format!("{name} with argsz {told}, its struct has {wanted}");
            return self.broken(&rules::ARGSZ, what, Errno::EINVAL);
        }
        Ok(value)
    }

    fn answer<T: IntoBytes + Immutable>(&self, argument: u64, value: &T) -> Result<i32> {
        let here: &dyn Caller = &Here;
        here.put(argument, value)?;
        Ok(0)
    }
}

impl Slot {
    /// The path of the group's file.
    fn path(&self) -> String {
        let kind = if self.config.no_iommu { "noiommu-" } else { "" };
        format!("/dev/vfio/{kind}{}", self.config.group)
    }
}

impl State {
    fn add(&mut self, file: File) -> i32 {
        let next = self.files.last_key_value().map_or(FIRST, |(fd, _)| fd + 1);
        self.files.insert(next, file);
        next
    }

    fn file(&self, fd: i32) -> Result<File> {
        self.files.get(&fd).copied().ok_or(Errno::EBADF)
    }
}
