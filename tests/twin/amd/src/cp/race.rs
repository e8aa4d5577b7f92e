//! Dispatches that run at the same time, and touch the same bytes.
//!
//! Only looked for where a queue has several dispatches under way: every access is noted then.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use hcq::sync::{lock, unpoisoned};
use twin::rule::{Proof, Rule};
use twin::touched::Touched;
use twin_shader::launch::Launch;
use twin_shader::memory::gws::Gws;
use twin_shader::page::{Access, MemFault, Memory, PAGE, Page, Port};

/// What depends on each other has a barrier in between.
pub static DISPATCH_RACE: Rule = Rule {
    name: "PM4-DISPATCH-RACE",
    text: "a dispatch does not read what another one writes without a wait in between: CS_PARTIAL_FLUSH, or in AQL the \
           barrier bit",
    source: "Mesa, radv_cmd_buffer.c, RADV_CMD_FLAG_CS_PARTIAL_FLUSH; HSA Runtime Programmer's Reference \
             Manual, 2.9: packets without the barrier bit may overlap",
    proof: Proof::Sourced,
};

/// What one dispatch touched.
#[derive(Clone, Default)]
pub(crate) struct Trace {
    shared: Touched,
    /// The slots of scratch that its waves have, and what each touched of its own.
    slots: Option<Slots>,
    own: Touched,
}

/// Scratch memory as TMPRING_SIZE divides it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slots {
    base: u64,
    wave: u32,
    waves: u32,
}

impl Slots {
    /// Those of a launch, if it has scratch.
    pub fn of(launch: &Launch) -> Option<Self> {
        let (base, wave, waves) = (
            launch.scratch_base,
            launch.scratch_wave,
            launch.scratch_waves,
        );
        (wave > 0).then_some(Self { base, wave, waves })
    }
}

impl Trace {
    /// Adds what another launch of the same dispatch has touched.
    pub fn add(&mut self, other: Self) {
        self.slots = other.slots;
        self.shared.add(other.shared);
        self.own.add(other.own);
    }

    /// A byte that one of two read and the other one wrote.
    ///
    /// Not what each wave touches of its own slot, where both divide scratch alike: waves that run at
    /// the same time have different slots. Source: LLVM, AMDGPUUsage, "Initial Kernel Execution
    /// State": SPI manages the scratch memory of a queue (Flat Scratch Init), and starts each wave
    /// with an offset of its own in it (Scratch Wavefront Offset). Whoever reaches into the slot of
    /// another wave has no such promise.
    pub fn race(&self, other: &Self) -> Option<u64> {
        let shared = self
            .shared
            .race(&other.shared)
            .or_else(|| self.shared.race(&other.own))
            .or_else(|| self.own.race(&other.shared));
        shared.or_else(|| match self.slots == other.slots {
            true => None,
            false => self.own.race(&other.own),
        })
    }
}

/// A way to memory on which every access is noted. Atomic operations are noted as writes, and two
/// writes are no race.
pub(crate) struct Watched<'a> {
    memory: &'a dyn Memory,
    slots: Option<Slots>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    shared: Touched,
    own: Touched,
    /// The runs that memory itself wants to hear of, by page, port and access.
    wanted: HashMap<(u64, Port, Access), u64>,
}

impl<'a> Watched<'a> {
    /// For a launch with these slots.
    pub fn new(memory: &'a dyn Memory, slots: Option<Slots>) -> Self {
        Self {
            memory,
            slots,
            state: Mutex::default(),
        }
    }

    /// Adds what was noted.
    pub fn into_trace(self, trace: &mut Trace) {
        let state = self.state.into_inner();
        let State { shared, own, .. } = unpoisoned(state);
        let slots = self.slots;
        trace.add(Trace { slots, shared, own });
    }
}

impl Memory for Watched<'_> {
    fn page(&self, port: Port, va: u64, access: Access) -> Result<Page, MemFault> {
        let page = self.memory.page(port, va, access)?;
        // Bits are only added, one at a time.
        let mut state = lock(&self.state);
        state.wanted.insert((va / PAGE, port, access), page.watch());
        Ok(page.watching(!0))
    }

    fn epoch(&self) -> &AtomicU64 {
        self.memory.epoch()
    }

    fn watched(&self, port: Port, va: u64, bytes: usize, access: Access, own: bool) {
        let offset = (va % PAGE) as usize;
        let runs = offset / 64..=(offset + bytes - 1).min(PAGE as usize - 1) / 64;
        let wanted = {
            let mut state = lock(&self.state);
            let touched = if own {
                &mut state.own
            } else {
                &mut state.shared
            };
            match access {
                Access::Read => touched.read(va, bytes),
                Access::Write => touched.write(va, bytes),
                Access::Execute => {}
            }
            let wanted = state.wanted.get(&(va / PAGE, port, access)).copied();
            runs.into_iter()
                .any(|run| wanted.unwrap_or(!0) >> run & 1 == 1)
        };
        if wanted {
            self.memory.watched(port, va, bytes, access, own);
        }
    }

    fn leaves(&self, va: u64) -> bool {
        self.memory.leaves(va)
    }

    fn gws(&self) -> Option<&Gws> {
        self.memory.gws()
    }

    fn invalidate(&self, port: Port, system: bool) {
        self.memory.invalidate(port, system);
    }

    fn write_back(&self, system: bool) {
        self.memory.write_back(system);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    struct Nothing;

    impl Memory for Nothing {
        fn page(&self, port: Port, va: u64, access: Access) -> Result<Page, MemFault> {
            Err(MemFault {
                va,
                access,
                port,
                kind: twin_shader::page::FaultKind::NotPresent,
            })
        }
    }

    /// What these accesses leave.
    pub(in crate::cp) fn trace(accesses: &[(u64, usize, Access)]) -> Trace {
        with_slots(None, accesses, false)
    }

    fn with_slots(slots: Option<Slots>, accesses: &[(u64, usize, Access)], own: bool) -> Trace {
        let watched = Watched::new(&Nothing, slots);
        for &(va, bytes, access) in accesses {
            watched.watched(Port::Vector, va, bytes, access, own);
        }
        let mut trace = Trace::default();
        watched.into_trace(&mut trace);
        trace
    }

    #[test]
    fn a_read_and_a_write_race_two_writes_do_not() {
        let write = trace(&[(0x1000, 64, Access::Write), (0x2ffc, 4, Access::Write)]);
        assert_eq!(trace(&[(0x2ff8, 4, Access::Read)]).race(&write), None);
        assert_eq!(
            trace(&[(0x2ff8, 8, Access::Read)]).race(&write),
            Some(0x2ffc)
        );
        let read = trace(&[(0x103f, 1, Access::Read)]);
        assert_eq!(write.race(&read), Some(0x103f));
        assert_eq!(write.race(&write), None);
    }

    #[test]
    fn scratch_that_is_divided_alike_is_no_race() {
        let slots = |base, wave| {
            Some(Slots {
                base,
                wave,
                waves: 8,
            })
        };
        let accesses = [(0x2000, 4, Access::Read), (0x2000, 4, Access::Write)];
        let mine = with_slots(slots(0x2000, 1024), &accesses, true);
        assert_eq!(mine.race(&mine.clone()), None);
        // Slots of another size lie across these, and whoever has none reads what waves leave.
        let others = with_slots(slots(0x2000, 2048), &accesses, true);
        assert_eq!(mine.race(&others), Some(0x2000));
        assert_eq!(trace(&accesses[..1]).race(&mine), Some(0x2000));
        assert_eq!(mine.race(&trace(&accesses[..1])), Some(0x2000));
        // The same bytes, by another wave than the one whose slot they are.
        let foreign = with_slots(slots(0x2000, 1024), &accesses[..1], false);
        assert_eq!(mine.race(&foreign), Some(0x2000));
        assert_eq!(foreign.race(&mine), Some(0x2000));
    }
}
