//! How the lanes of a warp reach memory: together where they can.
//!
//! Lanes that ask for neighbours, or for the same, are one access to global memory; shared and local
//! memory are slices here.

use super::bulk::Flights;
use super::fault::Cause;
use super::memory::{Denied, Memory, Space, Windows, local, part};
use super::source::Pairs;
use super::state::{each, mask};

/// What a block's warps share, and what is beyond.
pub(crate) struct Memories<'a> {
    pub global: &'a mut dyn Memory,
    pub shared: &'a mut [u8],
    /// That of the warp's lanes, one after the other.
    pub local: &'a mut [u8],
    pub windows: Windows,
    pub flights: &'a mut Flights,
}

/// What is done with bytes of memory.
pub(crate) enum How<'a> {
    Read,
    Write,
    Update(&'a mut dyn FnMut(&mut [u8])),
}

/// The bytes of each lane.
type Each<const BYTES: usize> = [[u8; BYTES]; 32];

impl Memories<'_> {
    #[inline(always)]
    fn own(&mut self, space: Space, lane: usize) -> &mut [u8] {
        if space == Space::Shared {
            return self.shared;
        }
        let each = self.local.len() / 32;
        &mut self.local[lane * each..(lane + 1) * each]
    }

    /// Does something with the bytes at the address of a lane.
    pub fn access(
        &mut self,
        space: Space,
        lane: usize,
        address: u64,
        bytes: &mut [u8],
        how: How,
    ) -> Result<(), Cause> {
        let (space, address) = self.windows.resolve(space, address);
        let write = !matches!(how, How::Read);
        let len = bytes.len();
        let done = if address & (len as u64 - 1) != 0 {
            Err(Denied::Misaligned)
        } else if space == Space::Global {
            match how {
                How::Read => self.global.read(address, bytes),
                How::Write => self.global.write(address, bytes),
                How::Update(change) => self.global.update(address, bytes, change),
            }
        } else {
            if write && space == Space::Shared && self.flights.watches() {
                self.flights.written(address, len);
            }
            let own = self.own(space, lane);
            let place = match space {
                Space::Local => local(address, own.len()),
                _ => address,
            };
            part(own, place, len).map(|there| match how {
                How::Read => bytes.copy_from_slice(there),
                How::Write => there.copy_from_slice(bytes),
                How::Update(change) => {
                    bytes.copy_from_slice(there);
                    change(there);
                }
            })
        };
        done.map_err(|why| Cause::Memory {
            lane: lane as u8,
            space,
            address,
            bytes: len,
            write,
            why,
        })
    }

    /// The memory that all lanes mean, and their addresses in it, if it is one.
    #[inline(always)]
    fn resolve(&self, space: Space, address: &Pairs, active: u32) -> Option<(Space, Pairs)> {
        if space != Space::Generic {
            return Some((space, *address));
        }
        let [shared, local] = [Space::Shared, Space::Local].map(|space| {
            let base = self.windows.base(space);
            active & mask(|i| Windows::holds(base, address[i]))
        });
        match (shared | local, active) {
            (0, _) => Some((Space::Global, *address)),
            (some, active) if some == active && (shared == 0 || local == 0) => {
                let space = if shared != 0 {
                    Space::Shared
                } else {
                    Space::Local
                };
                let base = self.windows.base(space);
                Some((space, each(|i| address[i].wrapping_sub(base))))
            }
            _ => None,
        }
    }

    /// Where the bytes of each lane begin in a slice, if all are there and aligned; those of a lane that
    /// does not take part begin where some are.
    #[inline(always)]
    fn places(
        space: Space,
        len: usize,
        bytes: usize,
        address: &Pairs,
        active: u32,
    ) -> Option<Places> {
        let size = bytes as u64;
        // Local memory is one part for each lane.
        let (end, stride, address) = match space {
            Space::Local => {
                let own = len / 32;
                (own as u64, own, each(|i| local(address[i], own)))
            }
            _ => (len as u64, 0, *address),
        };
        let last = end.checked_sub(size)?;
        let wrong = active & mask(|i| address[i] > last || address[i] & (size - 1) != 0);
        (wrong == 0).then(|| {
            each(|i| {
                let at = if active >> i & 1 != 0 { address[i] } else { 0 };
                at as usize + i * stride
            })
        })
    }

    /// Reads for each lane of a mask; the others get anything.
    #[inline(always)]
    pub fn read<const BYTES: usize>(
        &mut self,
        space: Space,
        address: &Pairs,
        active: u32,
    ) -> Result<Each<BYTES>, Cause> {
        let mut values = [[0; BYTES]; 32];
        match self.resolve(space, address, active) {
            Some((Space::Global, address)) => {
                let mut first = 0;
                while let Some(run) = Run::next::<BYTES>(&address, active, &mut first) {
                    let into = values[run.first..run.end].as_flattened_mut();
                    if run.aligned && self.global.read(address[run.first], into).is_ok() {
                        let value = values[run.end - 1];
                        values[run.end..run.same].fill(value);
                        continue;
                    }
                    for lane in run.first..run.same {
                        let into = &mut values[lane];
                        self.access(Space::Global, lane, address[lane], into, How::Read)?;
                    }
                }
                return Ok(values);
            }
            Some((space, address)) => {
                let slice = match space {
                    Space::Shared => &*self.shared,
                    _ => &*self.local,
                };
                let places = Self::places(space, slice.len(), BYTES, &address, active);
                if let Some(places) = places {
                    for (value, at) in values.iter_mut().zip(places) {
                        // It is there: this was just looked at.
                        if let Some(bytes) = slice.get(at..).and_then(<[u8]>::first_chunk) {
                            *value = *bytes;
                        }
                    }
                    return Ok(values);
                }
            }
            None => {}
        }
        for lane in lanes(active) {
            self.access(space, lane, address[lane], &mut values[lane], How::Read)?;
        }
        Ok(values)
    }

    /// Writes for each lane of a mask; of those at the same place the last one stays.
    #[inline(always)]
    pub fn write<const BYTES: usize>(
        &mut self,
        space: Space,
        address: &Pairs,
        active: u32,
        values: &mut Each<BYTES>,
    ) -> Result<(), Cause> {
        match self.resolve(space, address, active) {
            Some((Space::Global, address)) => {
                let mut first = 0;
                while let Some(run) = Run::next::<BYTES>(&address, active, &mut first) {
                    values[run.end - 1] = values[run.same - 1];
                    let from = values[run.first..run.end].as_flattened();
                    if run.aligned && self.global.write(address[run.first], from).is_ok() {
                        continue;
                    }
                    for lane in run.first..run.same {
                        let from = &mut values[lane];
                        self.access(Space::Global, lane, address[lane], from, How::Write)?;
                    }
                }
                return Ok(());
            }
            Some((space, address)) => {
                let slice = match space {
                    Space::Shared => &mut *self.shared,
                    _ => &mut *self.local,
                };
                let places = Self::places(space, slice.len(), BYTES, &address, active);
                if let Some(places) = places {
                    let watched = space == Space::Shared && self.flights.watches();
                    for lane in lanes(active) {
                        let there = slice.get_mut(places[lane]..);
                        if let Some(bytes) = there.and_then(<[u8]>::first_chunk_mut) {
                            *bytes = values[lane];
                        }
                        if watched {
                            self.flights.written(places[lane] as u64, BYTES);
                        }
                    }
                    return Ok(());
                }
            }
            None => {}
        }
        for lane in lanes(active) {
            self.access(space, lane, address[lane], &mut values[lane], How::Write)?;
        }
        Ok(())
    }
}

type Places = [usize; 32];

/// Lanes whose bytes follow one another in memory, up to `end`; from there on up to `same` those that
/// mean what the last one does.
struct Run {
    first: usize,
    end: usize,
    same: usize,
    aligned: bool,
}

impl Run {
    /// The next run of lanes of a mask, from a lane on.
    #[inline(always)]
    fn next<const BYTES: usize>(address: &Pairs, active: u32, from: &mut usize) -> Option<Self> {
        let rest = if *from > 31 { 0 } else { active >> *from };
        if rest == 0 {
            return None;
        }
        let first = *from + rest.trailing_zeros() as usize;
        let length = (active >> first).trailing_ones() as usize;
        let last = first + length;
        let mut end = first + 1;
        while end < last && address[end] == address[end - 1].wrapping_add(BYTES as u64) {
            end += 1;
        }
        let mut same = end;
        while same < last && address[same] == address[end - 1] {
            same += 1;
        }
        *from = same;
        let aligned = address[first] & (BYTES as u64 - 1) == 0;
        Some(Self {
            first,
            end,
            same,
            aligned,
        })
    }
}

/// The lanes of a mask.
#[inline(always)]
pub(crate) fn lanes(active: u32) -> impl Iterator<Item = usize> {
    let mut rest = active;
    std::iter::from_fn(move || {
        let lane = rest.trailing_zeros() as usize;
        rest &= rest.wrapping_sub(1);
        (lane < 32).then_some(lane)
    })
}
