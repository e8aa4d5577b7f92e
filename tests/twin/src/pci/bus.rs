//! What a function reaches as bus master: memory of the host, by bus addresses.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, Weak};

use drivers_spec::pci::{Command, PCI_COMMAND};
use hcq::addr::{BusAddr, BusRange, BusRanges, Domain};
use hcq::mem::window::AccessWidth;
use hcq::sync::lock;
use hcq::transport::Dma;

use super::config::Space;
use crate::host::{Mapping, PAGE};
use crate::rule::{Journal, Proof, Rule};

/// Only a master accesses memory by itself.
pub static MASTER: Rule = Rule {
    name: "PCI-MASTER",
    text: "a function accesses host memory and interrupts only while PCI_COMMAND_MASTER is set",
    source: "PCI Local Bus Specification 3.0, 6.2.2",
    proof: Proof::Sourced,
};

/// Memory that nobody gave to a device is not the device's.
pub static GIVEN: Rule = Rule {
    name: "PCI-DMA-GIVEN",
    text: "a function accesses only host memory that is mapped for DMA at that time",
    source: "Linux, Documentation/core-api/dma-api-howto.rst: what is mapped is the device's until it is unmapped",
    proof: Proof::Sourced,
};

/// Memory of a process ends with it.
pub static FREED: Rule = Rule {
    name: "PCI-DMA-FREED",
    text: "a function does not access memory that was returned to the kernel after its process ended: memory of a file \
           stays allocated as long as the file has a name",
    source: "Linux, kernel/exit.c, do_exit: exit_mm; fs/hugetlbfs/inode.c, hugetlbfs_evict_inode",
    proof: Proof::Sourced,
};

/// Bus addresses start above 4 GiB: whoever cuts them to 32 bits misses.
const FIRST: u64 = 0x2_4000_0000;
/// Up to here memory is scattered page by page, as pinned memory is.
const SMALL: u64 = 64 << 10;
/// Larger memory comes in huge pages.
const HUGE: u64 = 2 << 20;

/// Memory of a machine, as its functions reach it.
#[derive(Default)]
pub struct HostMemory(Mutex<Ranges>);

/// What lies behind a BAR, for other functions: whatever their models agree on.
pub type Behind = Weak<dyn Any + Send + Sync>;

/// A BAR of a function, where it is on the bus.
struct Shown {
    of: usize,
    number: u8,
    at: u64,
    bytes: u64,
    behind: Behind,
    by: Weak<Bus>,
}

#[derive(Default)]
struct Ranges {
    /// How many functions there are.
    functions: usize,
    /// BARs that others may access.
    shown: Vec<Shown>,
    /// How far addresses have been used: none is used again, so that what stays behind misses.
    used: u64,
    ranges: BTreeMap<u64, Range>,
}

struct Range {
    bytes: u64,
    /// The page of the mapping that it begins at.
    page: u64,
    memory: Held,
    /// The process whose memory it is has ended.
    ended: bool,
    /// Which pages of it functions have asked for, where somebody wants to know.
    found: Option<BTreeSet<u64>>,
}

enum Held {
    /// No memory: a part of a BAR, at the address that it answers at.
    Bar(u64),
    /// For as long as the driver keeps it.
    Given(Weak<Mapping>),
    /// Until it is removed.
    Shared(Arc<Mapping>),
}

impl HostMemory {
    /// A machine's.
    pub fn new() -> Arc<HostMemory> {
        Arc::default()
    }

    /// Memory that the caller shares from a page on, at an address.
    pub fn add(&self, at: u64, bytes: u64, memory: Arc<Mapping>, page: u64) {
        let memory = Held::Shared(memory);
        let range = Range {
            bytes,
            page,
            memory,
            ended: false,
            found: None,
        };
        lock(&self.0).ranges.insert(at, range);
    }

    /// What answers at an address of the bus, from another one on.
    pub(crate) fn add_bar(&self, at: u64, bytes: u64, answers: u64) {
        let range = Range {
            bytes,
            page: 0,
            memory: Held::Bar(answers),
            ended: false,
            found: None,
        };
        lock(&self.0).ranges.insert(at, range);
    }

    /// Where on the bus it is that answers at an address, if a BAR does.
    fn bar(&self, at: u64) -> Option<u64> {
        let all = lock(&self.0);
        let (start, range) = all.ranges.range(..=at).next_back()?;
        match range.memory {
            Held::Bar(answers) if at - start < range.bytes => Some(answers + (at - start)),
            _ => None,
        }
    }

    /// The process that shares memory has ended: the kernel has all of it back that lies in no file with a name, and what
    /// loses its name from now on.
    pub fn process_ended(&self) {
        let mut all = lock(&self.0);
        let ranges = all.ranges.values_mut();
        ranges.for_each(|range| range.ended |= matches!(range.memory, Held::Shared(_)));
    }

    /// The process of a driver has ended without giving back what it was given: the kernel has it back.
    pub fn given_ended(&self) {
        let mut all = lock(&self.0);
        let ranges = all.ranges.values_mut();
        ranges.for_each(|range| range.ended |= matches!(range.memory, Held::Given(_)));
    }

    /// Takes back what begins inside of a range of addresses.
    pub fn remove(&self, at: u64, bytes: u64) {
        let end = at.saturating_add(bytes);
        lock(&self.0)
            .ranges
            .retain(|start, _| !(at..end).contains(start));
    }

    /// The memory at an address, and which page of it.
    pub fn find(&self, at: u64) -> Option<(Arc<Mapping>, u64)> {
        self.look(at).map(|(memory, page, _)| (memory, page))
    }

    /// The same; and whether the process that shared it has ended.
    fn look(&self, at: u64) -> Option<(Arc<Mapping>, u64, bool)> {
        let mut all = lock(&self.0);
        let (start, range) = all.ranges.range_mut(..=at).next_back()?;
        let memory = match &range.memory {
            Held::Bar(_) => return None,
            Held::Given(memory) => memory.upgrade()?,
            Held::Shared(memory) => memory.clone(),
        };
        if at - start >= range.bytes {
            return None;
        }
        let page = (at - start) / PAGE;
        if let Some(found) = &mut range.found {
            found.insert(page);
        }
        Some((memory, range.page + page, range.ended))
    }

    /// Writes to memory of a range. From then on it is known which pages of the range functions ask for; as yet none.
    ///
    /// Nobody finds memory meanwhile. A function that waits for the last bytes may see them before `write` returns: were
    /// pages forgotten only then, what it asks for at once would be forgotten, too, and it would seem never to have looked.
    pub(crate) fn watch(&self, at: u64, bytes: u64, write: impl FnOnce()) {
        let mut all = lock(&self.0);
        if let Some((start, range)) = all.ranges.range_mut(..=at).next_back() {
            let first = (at - start) / PAGE;
            let pages = first..first + bytes.div_ceil(PAGE);
            let found = range.found.get_or_insert_default();
            found.retain(|page| !pages.contains(page));
        }
        write();
    }

    /// Whether a function has asked for a page of a range that is watched.
    pub(crate) fn was_found(&self, at: u64, bytes: u64) -> bool {
        let all = lock(&self.0);
        let Some((start, range)) = all.ranges.range(..=at).next_back() else {
            return false;
        };
        let first = (at - start) / PAGE;
        let found = range.found.as_ref();
        found.is_some_and(|found| {
            found
                .range(first..first + bytes.div_ceil(PAGE))
                .next()
                .is_some()
        })
    }

    /// A BAR has an address from now on.
    pub(super) fn show(&self, by: &Arc<Bus>, number: u8, (at, bytes): (u64, u64), behind: Behind) {
        let mut all = lock(&self.0);
        all.shown
            .retain(|shown| (shown.of, shown.number) != (by.number, number));
        // Nobody has given it an address yet.
        if at == 0 {
            return;
        }
        all.shown.push(Shown {
            of: by.number,
            number,
            at,
            bytes,
            behind,
            by: Arc::downgrade(by),
        });
    }

    /// What lies behind the BAR that answers at an address, and where in it.
    fn behind(&self, at: u64) -> Option<(Arc<dyn Any + Send + Sync>, u64)> {
        let all = lock(&self.0);
        let mut shown = all.shown.iter();
        let found = shown.find(|shown| at >= shown.at && at - shown.at < shown.bytes)?;
        let answers = found.by.upgrade().is_some_and(|bus| bus.decodes());
        let behind = found.behind.upgrade().filter(|_| answers)?;
        Some((behind, at - found.at))
    }

    /// Memory for a driver. Neighbours in it are no neighbours on the bus, where the driver has not asked for that.
    pub(super) fn give(&self, bytes: u64, align: u64) -> Result<Dma, i32> {
        if !align.max(1).is_power_of_two() {
            return Err(libc::EINVAL);
        }
        let piece = if bytes <= SMALL { PAGE } else { HUGE };
        let piece = piece.max(align);
        let memory = Arc::new(Mapping::new(bytes)?);
        let mut all = lock(&self.0);
        all.ranges.retain(|_, range| match &range.memory {
            Held::Given(memory) => memory.strong_count() > 0,
            Held::Shared(_) | Held::Bar(_) => true,
        });
        let mut ranges = Vec::new();
        let mut done = 0;
        while done < memory.bytes() {
            let bytes = piece.min(memory.bytes() - done);
            let at = all.used.max(FIRST) + PAGE;
            let at = at.next_multiple_of(piece.min(bytes.next_power_of_two()).max(align));
            all.used = at + bytes;
            let range = Range {
                bytes,
                page: done / PAGE,
                memory: Held::Given(Arc::downgrade(&memory)),
                ended: false,
                found: None,
            };
            all.ranges.insert(at, range);
            let addr = BusAddr(at);
            ranges.push(BusRange { addr, bytes });
            done += bytes;
        }
        let view = memory.view();
        let ranges = BusRanges::new(Domain::BUS, ranges);
        Ok(Dma { view, ranges })
    }
}

/// Called with the number of an interrupt.
pub type OnInterrupt = Arc<dyn Fn(u32) + Send + Sync>;

/// A function's way to the memory of its machine.
pub struct Bus {
    /// Which function of the machine it is.
    number: usize,
    memory: Arc<HostMemory>,
    /// What an IOMMU translates for it, where one stands before it: it finds nothing else.
    iommu: Mutex<Option<Arc<HostMemory>>>,
    command: AtomicU16,
    /// It was master, and is no more, without a reset since then; and what of it went on all the same.
    withdrawn: Mutex<Option<Option<String>>>,
    on_interrupt: Mutex<Option<OnInterrupt>>,
    /// The function's configuration space.
    space: Mutex<Weak<Mutex<Space>>>,
}

impl Bus {
    /// The way of one function.
    pub fn new(memory: &Arc<HostMemory>) -> Arc<Bus> {
        let mut all = lock(&memory.0);
        let number = all.functions;
        all.functions += 1;
        Arc::new(Bus {
            number,
            memory: memory.clone(),
            iommu: Mutex::default(),
            command: AtomicU16::new(0),
            withdrawn: Mutex::default(),
            on_interrupt: Mutex::default(),
            space: Mutex::default(),
        })
    }

    /// Which function of the machine it is, from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The memory.
    pub fn memory(&self) -> &Arc<HostMemory> {
        &self.memory
    }

    /// Whether the function may access it.
    pub fn master(&self) -> bool {
        self.command() & Command::MASTER.bits() != 0
    }

    /// An IOMMU stands before the function from now on, and translates this for it.
    pub fn translate(&self, iommu: &Arc<HostMemory>) {
        *lock(&self.iommu) = Some(iommu.clone());
    }

    fn iommu(&self) -> Option<Arc<HostMemory>> {
        lock(&self.iommu).clone()
    }

    /// The memory at an address, and which page of it. Whether the function may access it is [`Bus::master`].
    pub fn find(&self, at: u64) -> Option<(Arc<Mapping>, u64)> {
        self.look(at).map(|(memory, page, _)| (memory, page))
    }

    fn look(&self, at: u64) -> Option<(Arc<Mapping>, u64, bool)> {
        match self.iommu() {
            Some(iommu) => iommu.look(at),
            None => self.memory.look(at),
        }
    }

    /// What lies behind the BAR of another function that answers at an address, and where in it.
    pub fn behind(&self, at: u64) -> Option<(Arc<dyn Any + Send + Sync>, u64)> {
        let at = match self.iommu() {
            Some(iommu) => iommu.bar(at)?,
            None => at,
        };
        self.memory.behind(at)
    }

    /// The memory at an address that the function accesses, and which page of it. Where it may not, or nothing is
    /// there, none, and the rule that `who` has broken is reported.
    pub fn reach(&self, at: u64, who: &str, journal: &Journal) -> Option<(Arc<Mapping>, u64)> {
        let found = self.look(at);
        // Before the command register: who takes both takes the right to access first.
        let freed = found
            .as_ref()
            .is_some_and(|(memory, _, ended)| *ended && !memory.has_name());
        let what = || format!("{who} accesses {at:#x} on the bus");
        let rule = match found {
            _ if !self.may_access(what, journal) => return None,
            Some(_) if freed => &FREED,
            Some((memory, page, _)) => return Some((memory, page)),
            None => &GIVEN,
        };
        journal.broken(rule, what());
        None
    }

    /// Whether the function is master; where it is not, what it does is reported.
    fn may_access(&self, what: impl Fn() -> String, journal: &Journal) -> bool {
        if self.master() {
            return true;
        }
        let mut withdrawn = lock(&self.withdrawn);
        if self.master() {
            return true;
        }
        match &mut *withdrawn {
            None => {
                drop(withdrawn);
                journal.broken(&MASTER, what());
            }
            Some(first) => {
                let what = what();
                journal.event(format!("{what}, and may not any more"));
                first.get_or_insert(what);
            }
        }
        false
    }

    /// The command register, of which the bus goes by what [`Command`] has.
    pub(super) fn command(&self) -> u16 {
        self.command.load(Ordering::Acquire)
    }

    /// Sets it. What a function did after it was master no more breaks [`MASTER`] when it becomes master again: it is taken
    /// from one that hangs to reset it (Linux, amdgpu_device.c, amdgpu_device_mode1_reset: pci_clear_master), and from no
    /// other.
    pub(super) fn set_command(&self, command: u16) -> Option<String> {
        let mut withdrawn = lock(&self.withdrawn);
        let was_master = self.master();
        self.command.store(command, Ordering::Release);
        match (was_master, self.master()) {
            (true, false) => *withdrawn = Some(None),
            (_, true) => return withdrawn.take().flatten(),
            _ => {}
        }
        None
    }

    /// Whether the function was master, and is no more: what it still does comes to nothing.
    pub fn is_withdrawn(&self) -> bool {
        lock(&self.withdrawn).is_some()
    }

    /// The configuration space that the function shows to the system.
    pub(super) fn set_space(&self, space: &Arc<Mutex<Space>>) {
        *lock(&self.space) = Arc::downgrade(space);
    }

    /// A dword of configuration space, for a function that shows it elsewhere, too; none where nothing is modelled.
    pub fn configuration(&self, offset: u16) -> Option<u32> {
        let space = lock(&self.space).upgrade()?;
        let mut space = lock(&space);
        if !space.knows(offset, 4) {
            return None;
        }
        if offset == PCI_COMMAND {
            space.set_command(self.command());
        }
        Some(space.read(offset, AccessWidth::W32))
    }

    /// Writes a register there that is the vendor's own, for the same. Whether it is one.
    pub fn set_configuration(&self, offset: u16, value: u32) -> bool {
        let Some(space) = lock(&self.space).upgrade() else {
            return false;
        };
        let mut space = lock(&space);
        let owns = space.owns(offset);
        if owns {
            space.write(offset, AccessWidth::W32, value);
        }
        owns
    }

    /// The function was reset: nothing of before goes on.
    pub fn was_reset(&self) {
        *lock(&self.withdrawn) = None;
    }

    /// Whether the function answers accesses to its BARs.
    pub(super) fn decodes(&self) -> bool {
        self.command() & Command::MEMORY.bits() != 0
    }

    /// The function forgets the command register, as a reset by its own firmware may have it.
    pub fn forget(&self) {
        self.set_command(0);
        self.was_reset();
    }

    /// What interrupts call from now on.
    pub fn on_interrupt(&self, call: OnInterrupt) {
        *lock(&self.on_interrupt) = Some(call);
    }

    /// Interrupts, as far as somebody listens and the function is master: whether it did.
    ///
    /// Functions call this while they hold locks of their own: what is called takes none that is held while a function is
    /// accessed.
    pub fn interrupt(&self, vector: u32) -> bool {
        let call = lock(&self.on_interrupt).clone();
        let heard = call.filter(|_| self.master());
        if let Some(call) = &heard {
            call(vector);
        }
        heard.is_some()
    }
}
