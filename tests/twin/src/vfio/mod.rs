//! VFIO as a program sees it: a container, one group, and the PCI function in it.
//!
//! What is modelled: `/dev/vfio/vfio`, the file of the group (behind an IOMMU of type 1, version 2, or without one),
//! the device's regions by read, write and mmap, message signalled interrupts by eventfds, and mappings
//! for DMA, which are what the function finds on its bus. Of several groups there is what a reset of the bus takes along. Not modelled: several groups that are open, dirty pages, INTx and MSI-X, cdevs and iommufd.
//!
//! The kernel answers wrong calls with an errno, and so does this; a rule says what was wrong. Regions do not lie
//! where Linux has them: where, the kernel tells.

mod device;
mod group;
pub mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hcq::mem::view::View;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::caller::{Caller, Here};
use crate::errno::{Errno, Result};
use crate::pci::Function;
use crate::rule::{Journal, Rule};

use device::Device;
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
    /// BARs that are read and written, with their bytes.
    pub trapped: Vec<(u8, u64)>,
    /// Addresses that the IOMMU translates: first and last.
    pub iova: Vec<(u64, u64)>,
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
            trapped: Vec::new(),
            iova: vec![(0, 0xfedf_ffff), (0xfef0_0000, (1 << 39) - 1)],
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
    Container,
    Group,
    Device,
    Event,
}

#[derive(Default)]
struct State {
    files: BTreeMap<i32, File>,
    container: Container,
    group: Group,
    device: Device,
    /// How often each eventfd was told of.
    events: BTreeMap<i32, u64>,
}

/// The kernel.
pub struct Kernel {
    config: Config,
    function: Arc<Function>,
    state: Mutex<State>,
    told: Condvar,
    journal: Arc<Journal>,
}

/// A descriptor that the twin has given; small, and none of the host's that anything is done with.
const FIRST: i32 = 100;

impl Kernel {
    /// A kernel with a function of one group, which vfio-pci has.
    pub fn new(config: Config, function: Arc<Function>, journal: Arc<Journal>) -> Arc<Kernel> {
        Arc::new_cyclic(|kernel: &Weak<Kernel>| {
            let kernel = kernel.clone();
            function.bus().on_interrupt(Box::new(move |vector| {
                // A kernel that is gone hears nothing.
                kernel
                    .upgrade()
                    .into_iter()
                    .for_each(|kernel| kernel.interrupt(vector));
            }));
            Kernel {
                config,
                function,
                state: Mutex::default(),
                told: Condvar::new(),
                journal,
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in a model is a failed test already.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a broken rule, and fails as the kernel does.
    fn broken<T>(&self, rule: &'static Rule, what: String, errno: Errno) -> Result<T> {
        self.journal.broken(rule, what);
        Err(errno)
    }

    /// The path of the group's file.
    pub fn group_path(&self) -> String {
        let kind = if self.config.no_iommu { "noiommu-" } else { "" };
        format!("/dev/vfio/{kind}{}", self.config.group)
    }

    /// Opens a file.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(&self, path: &str) -> Result<i32> {
        let mut state = self.lock();
        let file = match path {
            "/dev/vfio/vfio" => File::Container,
            path if path == self.group_path() => {
                // One program at a time has a group.
                if state.files.values().any(|file| *file == File::Group) {
                    return Err(Errno::EBUSY);
                }
                File::Group
            }
            _ => return Err(Errno::ENOENT),
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
            File::Container => {
                // The kernel takes away what was mapped.
                self.forget(&mut state);
                state.container = Container::default();
            }
            // The last group takes the IOMMU along.
            File::Group => {
                self.forget(&mut state);
                state.group = Group::default();
                state.container.leave();
            }
            File::Device => state.device = Device::default(),
            File::Event => _ = state.events.remove(&fd),
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
            File::Container => self.of_container(&mut state, request, argument),
            File::Group => self.of_group(&mut state, request, argument),
            File::Device => self.of_device(&mut state, request, argument),
            File::Event => Err(Errno::ENOTTY),
        }
    }

    /// An eventfd.
    pub fn event(&self) -> i32 {
        let mut state = self.lock();
        let fd = state.add(File::Event);
        state.events.insert(fd, 0);
        fd
    }

    /// Waits for an eventfd, and takes what it counts; none if nothing came in time.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn wait(&self, fd: i32, limit: Duration) -> Result<Option<u64>> {
        let state = self.lock();
        let waits = |state: &mut State| state.events.get(&fd) == Some(&0);
        let waited = self.told.wait_timeout_while(state, limit, waits);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let count = state.events.get_mut(&fd).ok_or(Errno::EBADF)?;
        Ok(Some(std::mem::take(count)).filter(|count| *count > 0))
    }

    /// The function raises an interrupt; it is lost where nobody has asked for it.
    fn interrupt(&self, vector: u32) {
        let mut state = self.lock();
        let fd = state.device.vectors.get(vector as usize).copied().flatten();
        if let Some(count) = fd.and_then(|fd| state.events.get_mut(&fd)) {
            *count += 1;
            self.told.notify_all();
        }
    }

    /// The function reaches nothing any more.
    fn forget(&self, state: &mut State) {
        let memory = self.function.bus().memory();
        let maps = state.container.maps.iter();
        maps.for_each(|(at, bytes)| memory.remove(*at, *bytes));
        state.container.maps.clear();
    }

    /// What is mapped for the function: first address and bytes.
    pub fn mapped(&self) -> Vec<(u64, u64)> {
        let state = self.lock();
        let all = state.container.maps.iter();
        all.map(|(at, bytes)| (*at, *bytes)).collect()
    }

    /// The memory behind a BAR that is mapped, as the function has it.
    pub fn memory(&self, bar: u8) -> Option<View> {
        self.lock().device.memory.get(&bar).cloned()
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
