//! Tiles of eight rows of eight 16-bit numbers, of which each lane has two: between shared memory and
//! registers, and transposed. The manual of PTX says where they lie: `ldmatrix`, `stmatrix`, `movmatrix`.

use super::access::{Address, value};
use super::fault::Cause;
use super::memory::Space;
use super::program::Refusal;
use super::reach::{How, Memories};
use super::source::{Lanes, Place, Reading};
use super::state::{State, each};

#[derive(Clone, Copy, Debug)]
enum What {
    Load(Address),
    Store(Address),
    Move,
}

/// Up to four tiles, a register each. Eight lanes have the addresses of the rows of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    what: What,
    /// The first register in a warp, and the one that is read by a move.
    register: Place,
    from: Place,
    count: u8,
    transposed: bool,
}

/// A tile by rows.
type Tile = [[u16; 8]; 8];

pub(crate) fn lower(name: &str, r: &mut Reading) -> Result<Option<Op>, Refusal> {
    if !matches!(name, "LDSM" | "STSM" | "MOVM") {
        return Ok(None);
    }
    let transposed = r
        .choice(&[(".MT88", true), (".M88", false)])
        .ok_or_else(|| r.refuse("tiles of numbers that are not 16 bits are not modelled"))?;
    let count = r.choice(&[(".2", 2), (".4", 4)]).unwrap_or(1);
    let (what, register, from) = match name {
        "LDSM" => {
            let to = r.place()?;
            (What::Load(Address::read(r, Space::Shared)?), to, to)
        }
        "STSM" => {
            let at = Address::read(r, Space::Shared)?;
            let from = value(r)?;
            (What::Store(at), from, from)
        }
        _ => (What::Move, r.place()?, value(r)?),
    };
    Ok(Some(Op {
        what,
        register,
        from,
        count,
        transposed,
    }))
}

/// The lanes' parts of a tile, two neighbours of a row each.
fn spread(tile: &Tile) -> Lanes {
    each(|lane| {
        let (row, at) = (&tile[lane / 4], 2 * (lane % 4));
        u32::from(row[at]) | u32::from(row[at + 1]) << 16
    })
}

fn collect(lanes: &Lanes) -> Tile {
    let mut tile = Tile::default();
    for (lane, &word) in lanes.iter().enumerate() {
        let (row, at) = (&mut tile[lane / 4], 2 * (lane % 4));
        (row[at], row[at + 1]) = (word as u16, (word >> 16) as u16);
    }
    tile
}

fn transpose(tile: &Tile) -> Tile {
    std::array::from_fn(|row| std::array::from_fn(|column| tile[column][row]))
}

pub(crate) fn run(state: &mut State, memories: &mut Memories, op: &Op) -> Result<(), Cause> {
    let turned = |tile: Tile| {
        if op.transposed {
            transpose(&tile)
        } else {
            tile
        }
    };
    match &op.what {
        What::Move => {
            let tile = collect(&state.read(op.from));
            state.put(op.register, u32::MAX, &spread(&turned(tile)));
        }
        What::Load(at) => {
            let address = at.of(state);
            for k in 0..op.count {
                let mut tile = Tile::default();
                for (row, lane) in tile.iter_mut().zip(8 * usize::from(k)..) {
                    let mut bytes = [0; 16];
                    memories.access(at.space, lane, address[lane], &mut bytes, How::Read)?;
                    let halves = bytes.as_chunks().0;
                    *row = std::array::from_fn(|i| u16::from_le_bytes(halves[i]));
                }
                state.put(op.register.after(k), u32::MAX, &spread(&turned(tile)));
            }
        }
        What::Store(at) => {
            let address = at.of(state);
            for k in 0..op.count {
                let tile = turned(collect(&state.read(op.register.after(k))));
                for (row, lane) in tile.iter().zip(8 * usize::from(k)..) {
                    let mut bytes = [0; 16];
                    for (bytes, half) in bytes.as_chunks_mut().0.iter_mut().zip(row) {
                        *bytes = half.to_le_bytes();
                    }
                    memories.access(at.space, lane, address[lane], &mut bytes, How::Write)?;
                }
            }
        }
    }
    Ok(())
}
