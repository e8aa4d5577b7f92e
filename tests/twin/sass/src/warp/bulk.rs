//! Copies of many bytes that go on beside all warps: `cp.async.bulk` of PTX, in a row or by a tensor map.
//!
//! What is read of global memory is read when a copy begins; it lies in shared memory, and its bytes are counted at its
//! barrier, when somebody has looked at that barrier in vain, not before. What is read of shared memory is read,
//! and written to global memory, when the group of the copy is waited for: both as late as the hardware may.
//!
//! Source: the manual of PTX, `cp.async.bulk`, `cp.async.bulk.tensor`, `mbarrier`, "Tensors". Which registers an
//! instruction has its operands in is known from what NVIDIA's compiler makes of PTX.

use std::collections::VecDeque;

use super::copy::Groups;
use super::fault::Cause;
use super::memory::{Denied, Space};
use super::program::Refusal;
use super::reach::{How, Memories};
use super::source::Reading;
use super::state::State;
use super::tensor_map::{Piece, TensorMap};
use super::uses::Uses;
use crate::operand::Kind;

/// A piece of shared memory that is copied at once.
pub(crate) const PIECE: usize = 16;

/// Uniform registers, by the first one.
type Registers = u8;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Into shared memory, by a map: where and which barrier and what coordinates; the map; how many coordinates.
    LoadTile(Registers, Registers, usize),
    StoreTile(Registers, Registers, usize),
    /// Into shared memory: where and which barrier; from where; pieces.
    Load(Registers, Registers, Registers),
    /// To where, from where, pieces.
    Store(Registers, Registers, Registers),
    /// What is only brought into a cache.
    Nothing,
    /// The copies that have begun are a group, on a scoreboard.
    Close(Option<u8>),
}

pub(crate) fn lower(name: &str, r: &mut Reading) -> Result<Option<Op>, Refusal> {
    let dimensions = r.choice(&[(".1D", 1), (".2D", 2), (".3D", 3), (".4D", 4), (".5D", 5)]);
    let tile = matches!(name, "TMALDG" | "TMASTG");
    if (tile || name == "BLKCP") && (r.has(".IM2COL") || r.has(".MULTICAST")) {
        return Err(
            r.refuse("copies to several blocks, and of columns of pictures, are not modelled")
        );
    }
    let whole = |op| Ok(Some(op));
    match name {
        "TMACMDFLUSH" => whole(Op::Close(r.inst.control.reads)),
        "TMAPF" | "BLKPF" | "TMACCTL" => whole(Op::Nothing),
        "TMALDG" | "TMASTG" => {
            let count =
                dimensions.ok_or_else(|| r.refuse("how many coordinates it has is not known"))?;
            let (at, map) = (uniform(r)?, uniform(r)?);
            whole(if name == "TMALDG" {
                Op::LoadTile(at, map, count)
            } else {
                Op::StoreTile(at, map, count)
            })
        }
        "BLKCP" => {
            let (to, from) = (uniform(r)?, uniform(r)?);
            let operand = r.next()?;
            let Kind::Uniform(pieces) = operand.kind else {
                return Err(r.refuse(format!("a register was expected, not '{operand}'")));
            };
            let ways: Vec<_> = r
                .inst
                .modifiers
                .iter()
                .copied()
                .filter(|way| matches!(*way, ".S" | ".G"))
                .collect();
            match ways[..] {
                [".S", ".G"] => whole(Op::Load(to, from, pieces)),
                [".G", ".S"] => whole(Op::Store(to, from, pieces)),
                _ => Err(r.refuse("copies from one block to another are not modelled")),
            }
        }
        _ => Ok(None),
    }
}

/// The uniform register of an address.
fn uniform(r: &mut Reading) -> Result<Registers, Refusal> {
    let memory = r.memory()?;
    memory
        .uniform
        .filter(|_| memory.base.is_none() && memory.offset == 0)
        .ok_or_else(|| r.refuse("a register of the warp was expected as an address"))
}

/// Bytes on their way into shared memory.
struct Flight {
    barrier: u64,
    pieces: Vec<(u64, [u8; PIECE])>,
}

/// What goes on beside the warps of a block, and what copies and products see of its shared memory.
#[derive(Default)]
pub(crate) struct Flights {
    begun: VecDeque<Flight>,
    /// Bytes of shared memory that warps have written since one of them said that others shall see it; empty where
    /// no program asks.
    unseen: Vec<bool>,
}

impl Flights {
    /// `watched`: so many bytes of shared memory.
    pub fn new(watched: usize) -> Self {
        Self {
            begun: VecDeque::new(),
            unseen: vec![false; watched],
        }
    }

    /// Warps have written there.
    #[inline(never)]
    pub fn written(&mut self, at: u64, bytes: usize) {
        self.mark(at, bytes, true);
    }

    /// Whether somebody asks what was written.
    #[inline(always)]
    pub fn watches(&self) -> bool {
        !self.unseen.is_empty()
    }

    fn mark(&mut self, at: u64, bytes: usize, unseen: bool) {
        let at = at as usize;
        if let Some(part) = self.unseen.get_mut(at..at + bytes) {
            part.fill(unseen);
        }
    }

    /// A fence: what was written until now is seen. Of whom the writes are does not matter here: one
    /// warp's fence is enough for all. The manual asks for one on each way from a write to its reader.
    pub fn fence(&mut self) {
        self.unseen.fill(false);
    }

    /// Something beside the warps reads there.
    pub fn see(&self, at: u64, bytes: usize) -> Result<(), Cause> {
        let at = at as usize;
        let part = self.unseen.get(at..at + bytes).unwrap_or_default();
        match part.iter().position(|&unseen| unseen) {
            Some(first) => Err(Cause::Unfenced((at + first) as u64)),
            None => Ok(()),
        }
    }
}

/// A copy out of shared memory: pieces of it, and where they go.
pub(crate) struct Leaving(Vec<(u64, Piece)>);

fn low(state: &State, n: Registers, k: usize) -> u32 {
    state.uniform[(usize::from(n) + k).min(255)]
}

fn pair(state: &State, n: Registers) -> u64 {
    u64::from(low(state, n, 1)) << 32 | u64::from(low(state, n, 0))
}

fn denied(space: Space, address: u64, bytes: usize, write: bool, why: Denied) -> Cause {
    Cause::Memory {
        lane: 0,
        space,
        address,
        bytes,
        write,
        why,
    }
}

/// Checks a place in shared memory.
fn shared(
    memories: &Memories,
    at: u64,
    bytes: usize,
    align: u64,
    write: bool,
) -> Result<(), Cause> {
    let end = memories.shared.len() as u64;
    let wrong = |why| Err(denied(Space::Shared, at, bytes, write, why));
    if !at.is_multiple_of(align) {
        wrong(Denied::Misaligned)
    } else if at.saturating_add(bytes as u64) > end {
        wrong(Denied::End(end))
    } else {
        Ok(())
    }
}

fn read_map(
    state: &State,
    memories: &mut Memories,
    map: Registers,
    count: usize,
) -> Result<TensorMap, Cause> {
    let address = pair(state, map);
    let mut bytes = [0; 128];
    if !address.is_multiple_of(64) {
        return Err(denied(
            Space::Global,
            address,
            128,
            false,
            Denied::Misaligned,
        ));
    }
    let done = memories.global.read(address, &mut bytes);
    done.map_err(|why| denied(Space::Global, address, 128, false, why))?;
    TensorMap::read(&bytes, count).map_err(Cause::TensorMap)
}

pub(crate) fn run(
    state: &State,
    memories: &mut Memories,
    op: &Op,
    leaving: &mut Groups<Leaving>,
) -> Result<(), Cause> {
    match *op {
        Op::Nothing => {}
        Op::Close(scoreboard) => leaving.close(scoreboard),
        Op::Load(to, from, pieces) => {
            let (at, barrier) = (u64::from(low(state, to, 0)), u64::from(low(state, to, 1)));
            let (from, bytes) = (pair(state, from), PIECE * low(state, pieces, 0) as usize);
            shared(memories, at, bytes, PIECE as u64, true)?;
            if !from.is_multiple_of(PIECE as u64) {
                return Err(denied(
                    Space::Global,
                    from,
                    bytes,
                    false,
                    Denied::Misaligned,
                ));
            }
            let mut all = vec![0; bytes];
            let done = memories.global.read(from, &mut all);
            done.map_err(|why| denied(Space::Global, from, bytes, false, why))?;
            let pieces = all.as_chunks().0.iter().zip((at..).step_by(PIECE));
            let pieces = pieces.map(|(piece, at)| (at, *piece)).collect();
            memories.flights.begun.push_back(Flight { barrier, pieces });
        }
        Op::Store(to, from, pieces) => {
            let (to, at) = (pair(state, to), u64::from(low(state, from, 0)));
            let bytes = PIECE * low(state, pieces, 0) as usize;
            shared(memories, at, bytes, PIECE as u64, false)?;
            if !to.is_multiple_of(PIECE as u64) {
                return Err(denied(Space::Global, to, bytes, true, Denied::Misaligned));
            }
            memories.flights.see(at, bytes)?;
            let pieces = (0..bytes as u64).step_by(PIECE);
            let pieces = pieces.map(|k| {
                let piece = Piece {
                    address: to + k,
                    skip: 0,
                    bytes: PIECE,
                };
                (at + k, piece)
            });
            leaving.open.push(Leaving(pieces.collect()));
        }
        Op::LoadTile(at, map, count) => {
            let map = read_map(state, memories, map, count)?;
            let barrier = u64::from(low(state, at, 1));
            let start = u64::from(low(state, at, 0));
            let coordinates = |k: usize| low(state, at, 2 + k).cast_signed();
            shared(memories, start, map.bytes(), 128, true)?;
            let mut pieces = Vec::new();
            for (k, piece) in map.pieces(coordinates).into_iter().enumerate() {
                let mut bytes = [0; PIECE];
                let part = &mut bytes[piece.skip..piece.skip + piece.bytes];
                if !part.is_empty() {
                    let len = part.len();
                    let done = memories.global.read(piece.address, part);
                    done.map_err(|why| denied(Space::Global, piece.address, len, false, why))?;
                }
                pieces.push((map.place(start + (PIECE * k) as u64), bytes));
            }
            memories.flights.begun.push_back(Flight { barrier, pieces });
        }
        Op::StoreTile(at, map, count) => {
            let map = read_map(state, memories, map, count)?;
            let start = u64::from(low(state, at, 0));
            let coordinates = |k: usize| low(state, at, 1 + k).cast_signed();
            shared(memories, start, map.bytes(), 128, false)?;
            memories.flights.see(start, map.bytes())?;
            let pieces = map.pieces(coordinates).into_iter().enumerate();
            let pieces = pieces.map(|(k, piece)| (map.place(start + (PIECE * k) as u64), piece));
            leaving.open.push(Leaving(pieces.collect()));
        }
    }
    Ok(())
}

/// Somebody has looked at a barrier in vain: the first copy that is on its way to it arrives.
pub(crate) fn arrive(memories: &mut Memories, barrier: u64) -> Result<(), Cause> {
    let flights = &mut memories.flights.begun;
    let Some(first) = flights.iter().position(|flight| flight.barrier == barrier) else {
        return Ok(());
    };
    let Some(flight) = flights.remove(first) else {
        return Ok(());
    };
    for (at, piece) in &flight.pieces {
        let mut bytes = *piece;
        memories.access(Space::Shared, 0, *at, &mut bytes, How::Write)?;
        memories.flights.mark(*at, PIECE, false);
    }
    super::phase::come(memories, barrier, (PIECE * flight.pieces.len()) as u64)
}

/// Copies leave shared memory that an instruction waits for, or all.
pub(crate) fn leave(
    memories: &mut Memories,
    leaving: &mut Groups<Leaving>,
    uses: Option<&Uses>,
) -> Result<(), Cause> {
    let groups: Vec<Leaving> = match uses {
        Some(uses) => uses
            .waits()
            .flat_map(|(scoreboard, left)| leaving.over(scoreboard, left))
            .collect(),
        None => leaving.all(),
    };
    for (at, piece) in groups.iter().flat_map(|copy| &copy.0) {
        let mut bytes = [0; PIECE];
        memories.access(Space::Shared, 0, *at, &mut bytes, How::Read)?;
        memories.flights.see(*at, PIECE)?;
        let part = &bytes[piece.skip..piece.skip + piece.bytes];
        if !part.is_empty() {
            let done = memories.global.write(piece.address, part);
            done.map_err(|why| denied(Space::Global, piece.address, part.len(), true, why))?;
        }
    }
    Ok(())
}
