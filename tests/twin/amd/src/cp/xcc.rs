//! PM4 queues of one process that share a ring, each on an XCC of its own.
//!
//! Every one of them runs the same packets, and the workgroups of a dispatch are shared among them. The
//! command processors of XCCs do not know of each other: what makes them meet is in the packets. What
//! is watched here is that they do meet where one depends on the other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use hcq::sync::lock;
use twin::rule::{Proof, Rule};

use super::race::Trace;
use crate::gpu::ProcessId;

/// XCCs that run the same ring wait for each other where they depend on each other.
pub static RACE: Rule = Rule {
    name: "PM4-XCC-RACE",
    text: "if XCCs share a ring, no XCC starts a dispatch that accesses what an earlier one writes, or writes what it \
           reads, before every XCC has completed its share of that one",
    source: "Linux, amdkfd/kfd_mqd_manager_v9.c: each XCC of a PM4 queue has a queue of its own; \
             CS_PARTIAL_FLUSH waits for the waves of its XCC",
    proof: Proof::Sourced,
};

/// One XCC signals for all once all are done.
pub static EARLY: Rule = Rule {
    name: "PM4-XCC-EARLY",
    text: "if XCCs share a ring, an end-of-pipe write or interrupt of one XCC happens only after all XCCs have \
           completed the earlier dispatches",
    source: "drivers that have run on MI300X let XCCs meet before one of them signals; the end of the pipe \
             is that of an XCC",
    proof: Proof::Guess,
};

/// The shares of XCCs are all of a dispatch.
pub static SHARE: Rule = Rule {
    name: "PM4-XCC-SHARE",
    text: "if XCCs share a ring, each has its own COMPUTE_CURRENT_LOGIC_XCC_ID below their number, and \
           COMPUTE_TG_CHUNK_SIZE 1 (other sizes are not modelled); with 0 each runs the whole grid",
    source: "Linux, amdkfd/kfd_mqd_manager_v9.c, init_mqd_v9_4_3: AQL queues get these values, PM4 queues \
             zeros",
    proof: Proof::Sourced,
};

/// Dispatches that are remembered of each XCC.
const KEPT: usize = 64;

/// A dispatch that an XCC has run: when, counted by the group, and what it touched.
struct Ran {
    number: u64,
    began: u64,
    ended: u64,
    who: String,
    trace: Trace,
}

/// A queue of the group.
#[derive(Default)]
struct Member {
    /// Dispatch packets that it has come to.
    issued: u64,
    /// Those that are not done.
    open: BTreeSet<u64>,
    /// Its share, where one is set.
    logic: Option<u32>,
    ran: VecDeque<Ran>,
}

#[derive(Default)]
struct State {
    clock: u64,
    members: BTreeMap<u32, Member>,
}

/// The queues that share a ring, by XCC.
#[derive(Default)]
pub(crate) struct Group(Mutex<State>);

/// The groups of a GPU.
pub(crate) type Groups = Mutex<Vec<(ProcessId, u64, Weak<Group>)>>;

/// A queue's place in its group.
pub(crate) struct Place {
    pub group: Arc<Group>,
    pub xcc: u32,
}

impl Place {
    /// A queue on an XCC, whose ring is at an address.
    pub fn new(groups: &Groups, process: ProcessId, ring: u64, xcc: u32) -> Self {
        // Only whole entries are pushed.
        let mut groups = lock(groups);
        groups.retain(|(.., group)| group.strong_count() > 0);
        let mut known = groups.iter().filter(|g| (g.0, g.1) == (process, ring));
        let group = known
            .find_map(|(.., group)| group.upgrade())
            .unwrap_or_else(|| {
                let group = Arc::<Group>::default();
                groups.push((process, ring, Arc::downgrade(&group)));
                group
            });
        group.lock().members.insert(xcc, Member::default());
        Self { group, xcc }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.group.lock().members.remove(&self.xcc);
    }
}

impl Group {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics while it holds the lock.
        lock(&self.0)
    }

    /// The XCCs, a bit each.
    pub fn xccs(&self) -> u32 {
        self.lock()
            .members
            .keys()
            .fold(0, |bits, xcc| bits | 1 << xcc)
    }

    /// Whether several queues share the ring.
    pub fn several(&self) -> bool {
        self.lock().members.len() > 1
    }

    /// An XCC has come to its next dispatch packet; it has work to do for it or not. Returns the number
    /// of the packet, from 1.
    pub fn issue(&self, xcc: u32, work: bool) -> u64 {
        let mut state = self.lock();
        let Some(member) = state.members.get_mut(&xcc) else {
            return 0;
        };
        member.issued += 1;
        if work {
            member.open.insert(member.issued);
        }
        member.issued
    }

    /// How many dispatch packets an XCC has come to.
    pub fn issued(&self, xcc: u32) -> u64 {
        self.lock().members.get(&xcc).map_or(0, |m| m.issued)
    }

    /// The share of an XCC in a dispatch. Returns what is wrong with it.
    pub fn share(&self, xcc: u32, logic: Option<u32>) -> Option<String> {
        let mut state = self.lock();
        if state.members.len() < 2 {
            return None;
        }
        state.members.get_mut(&xcc)?.logic = logic;
        let Some(logic) = logic else {
            return Some(format!("XCC {xcc} runs all of the grid, as others do"));
        };
        let mut others = state.members.iter().filter(|(other, _)| **other != xcc);
        let (other, _) = others.find(|(_, member)| member.logic == Some(logic))?;
        Some(format!("XCCs {other} and {xcc} both are number {logic}"))
    }

    /// The time, for [`Group::ran`].
    pub fn tick(&self) -> u64 {
        let mut state = self.lock();
        state.clock += 1;
        state.clock
    }

    /// An XCC has run a dispatch. Returns the byte and the other dispatch where it should have waited
    /// for another XCC, or another one for it.
    pub fn ran(
        &self,
        xcc: u32,
        number: u64,
        began: u64,
        who: &str,
        trace: Trace,
    ) -> Option<(u64, String)> {
        let mut state = self.lock();
        state.clock += 1;
        let ended = state.clock;
        let mine = Ran {
            number,
            began,
            ended,
            who: who.into(),
            trace,
        };
        let others = state.members.iter().filter(|(other, _)| **other != xcc);
        let found = others
            .flat_map(|(_, member)| &member.ran)
            .find_map(|theirs| {
                let (first, second) = match mine.number < theirs.number {
                    true => (&mine, theirs),
                    false => (theirs, &mine),
                };
                let unordered = first.number < second.number && second.began < first.ended;
                let byte = unordered.then(|| mine.trace.race(&theirs.trace))??;
                Some((byte, theirs.who.clone()))
            });
        let member = state.members.get_mut(&xcc)?;
        member.open.remove(&number);
        member.ran.push_back(mine);
        if member.ran.len() > KEPT {
            member.ran.pop_front();
        }
        found
    }

    /// An XCC that has not done all of the first `number` dispatches.
    pub fn behind(&self, number: u64) -> Option<u32> {
        let state = self.lock();
        if state.members.len() < 2 {
            return None;
        }
        let late = |m: &Member| m.issued < number || m.open.range(..=number).next().is_some();
        state
            .members
            .iter()
            .find(|(_, m)| late(m))
            .map(|(xcc, _)| *xcc)
    }
}

#[cfg(test)]
mod tests {
    use twin_shader::page::Access;

    use super::*;
    use crate::cp::race::tests::trace;

    fn group(xccs: u32) -> Vec<Place> {
        let groups = Groups::default();
        (0..xccs)
            .map(|xcc| Place::new(&groups, 1, 0x1000, xcc))
            .collect()
    }

    #[test]
    fn what_starts_before_another_xcc_is_done_races() {
        let places = group(2);
        let group = &places[0].group;
        assert_eq!(group.xccs(), 3);
        for xcc in [0, 1, 0, 1] {
            group.issue(xcc, true);
        }
        let write = || trace(&[(0x1000, 64, Access::Write)]);
        let read = || trace(&[(0x1020, 4, Access::Read)]);
        let slow = group.tick();
        let began = group.tick();
        assert_eq!(group.ran(0, 1, began, "a", write()), None);
        assert_eq!(group.behind(1), Some(1));
        let began = group.tick();
        assert_eq!(group.ran(0, 2, began, "b", read()), None);
        let raced = group.ran(1, 1, slow, "c", write());
        assert_eq!(raced, Some((0x1020, "b".into())));
        assert_eq!((group.behind(1), group.behind(2)), (None, Some(1)));
        let began = group.tick();
        assert_eq!(group.ran(1, 2, began, "d", read()), None);
        assert_eq!(group.behind(2), None);
    }

    #[test]
    fn shares_are_apart() {
        let places = group(2);
        let group = &places[0].group;
        assert_eq!(group.share(0, Some(0)), None);
        assert!(group.share(1, Some(0)).is_some());
        assert_eq!(group.share(1, Some(1)), None);
        assert!(group.share(1, None).is_some());
        drop(places);
        assert_eq!(group_of_one(), None);
    }

    fn group_of_one() -> Option<String> {
        group(1)[0].group.share(0, None)
    }
}
