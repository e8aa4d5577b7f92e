//! Copies from global to shared memory that go on beside the warp.
//!
//! What they read is read when they begin; it lies in shared memory when their group is waited for, not
//! before: as late as the hardware may be. A group ends at LDGDEPBAR and is counted by a scoreboard.

use std::collections::VecDeque;

use super::access::Address;
use super::fault::Cause;
use super::memory::{Denied, Space};
use super::program::Refusal;
use super::reach::{How, Memories, lanes};
use super::source::{Condition, Reading};
use super::state::State;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    to: Address,
    from: Address,
    bytes: usize,
    /// The low bits of the address say how many bytes of the end are zero instead. No document says so:
    /// compilers make that address of the size that PTX has.
    fill: bool,
    /// Where it does not hold all bytes are zero.
    when: Condition,
}

pub(crate) fn lower(name: &str, r: &mut Reading) -> Result<Option<Op>, Refusal> {
    if name != "LDGSTS" {
        return Ok(None);
    }
    Ok(Some(Op {
        to: Address::read(r, Space::Shared)?,
        from: Address::read(r, Space::Global)?,
        bytes: r.choice(&[(".64", 8), (".128", 16)]).unwrap_or(4),
        fill: r.has(".ZFILL"),
        when: r.condition()?,
    }))
}

/// Bytes on their way.
pub(crate) struct Landing {
    lane: u8,
    at: u64,
    bytes: [u8; 16],
    len: usize,
}

/// What has begun: that of no group yet, then groups and what counts them.
pub(crate) struct Groups<T> {
    pub open: Vec<T>,
    groups: VecDeque<(Option<u8>, Vec<T>)>,
}

impl<T> Default for Groups<T> {
    fn default() -> Self {
        Self {
            open: Vec::new(),
            groups: VecDeque::new(),
        }
    }
}

impl<T> Groups<T> {
    /// Whether there are none that wait could be for.
    pub fn none(&self) -> bool {
        self.groups.is_empty()
    }

    /// What has begun since is a group, on a scoreboard.
    pub fn close(&mut self, scoreboard: Option<u8>) {
        let group = std::mem::take(&mut self.open);
        self.groups.push_back((scoreboard, group));
    }

    /// The first groups on a scoreboard, until so many are left.
    pub fn over(&mut self, scoreboard: u8, left: usize) -> Vec<T> {
        let on = |group: &(Option<u8>, Vec<T>)| group.0 == Some(scoreboard);
        let mut over = self.groups.iter().filter(|group| on(group)).count();
        let (mut k, mut all) = (0, Vec::new());
        while over > left && k < self.groups.len() {
            if on(&self.groups[k]) {
                over -= 1;
                all.extend(self.groups.remove(k).into_iter().flat_map(|group| group.1));
            } else {
                k += 1;
            }
        }
        all
    }

    /// All that is left.
    pub fn all(&mut self) -> Vec<T> {
        self.close(None);
        self.groups.drain(..).flat_map(|group| group.1).collect()
    }
}

/// Copies of a warp.
pub(crate) type Copies = Groups<Landing>;

impl Copies {
    pub fn begin(
        &mut self,
        state: &State,
        memories: &mut Memories,
        op: &Op,
        active: u32,
    ) -> Result<(), Cause> {
        let (to, from) = (op.to.of(state), op.from.of(state));
        let when = state.test(op.when);
        let size = op.bytes as u64;
        for lane in lanes(active) {
            let mut bytes = [0; 16];
            let end = memories.shared.len() as u64;
            let why = if to[lane] & (size - 1) != 0 {
                Some(Denied::Misaligned)
            } else if to[lane].saturating_add(size) > end {
                Some(Denied::End(end))
            } else {
                None
            };
            if let Some(why) = why {
                return Err(Cause::Memory {
                    lane: lane as u8,
                    space: Space::Shared,
                    address: to[lane],
                    bytes: op.bytes,
                    write: true,
                    why,
                });
            }
            if when >> lane & 1 != 0 {
                let zeros = if op.fill { from[lane] & (size - 1) } else { 0 };
                let address = from[lane] - zeros;
                let part = &mut bytes[..op.bytes];
                memories.access(Space::Global, lane, address, part, How::Read)?;
                part[op.bytes - zeros as usize..].fill(0);
            }
            self.open.push(Landing {
                lane: lane as u8,
                at: to[lane],
                bytes,
                len: op.bytes,
            });
        }
        Ok(())
    }

    /// Lets the first groups on a scoreboard land until so many are left.
    pub fn wait(
        &mut self,
        memories: &mut Memories,
        scoreboard: u8,
        left: usize,
    ) -> Result<(), Cause> {
        land(memories, &self.over(scoreboard, left))
    }

    /// The warp has ended: nobody waits any more.
    pub fn end(&mut self, memories: &mut Memories) -> Result<(), Cause> {
        land(memories, &self.all())
    }
}

fn land(memories: &mut Memories, group: &[Landing]) -> Result<(), Cause> {
    for landing in group {
        let mut bytes = landing.bytes;
        let (lane, bytes) = (usize::from(landing.lane), &mut bytes[..landing.len]);
        memories.access(Space::Shared, lane, landing.at, bytes, How::Write)?;
    }
    Ok(())
}
