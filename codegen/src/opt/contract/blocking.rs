//! The sizes of a block, and the layout of its operands.

use std::fmt;

use super::up;
use crate::dtype::DType;
use crate::ir::mma::{MmaDesc, ROW, Rows};

/// The sizes of a contraction by groups of work-items.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Blocking {
    /// Work-items (or waves, with matrix instructions) along the rows of the block.
    pub along_rows: u32,
    /// Work-items (or waves) along the columns.
    pub along_cols: u32,
    /// Rows of the tile of each (in units of the matrix instruction, if there is one).
    pub rows: u32,
    /// Columns of the tile of each (in the same units).
    pub cols: u32,
    /// Summed elements per step.
    pub depth: u32,
    /// Number of groups that the sum is split over; their partial sums are added afterwards.
    pub parts: u32,
    /// Elements that a work-item loads from memory at a time, at most.
    pub vector: u32,
    /// Local memory holds so many slabs of each operand. With two, one can be filled while the other is read; with
    /// more, copies fill those after the next one beside the work-items.
    pub slabs: u32,
    /// Those copies are boxes of tensors.
    pub boxes: bool,
    /// The matrix instruction.
    pub mma: Option<MmaDesc>,
    /// The element type of the accumulator.
    pub acc: DType,
    /// Rows and columns are exchanged.
    pub swap: bool,
}

/// Products of numbers that a work-item does in one turn of its innermost loop, and products of
/// matrices that a wave does: enough of them for one pass over the registers to hide what the loop
/// costs, and few enough for the text to be compiled in milliseconds and to stay in the
/// instruction cache.
const TURN: [u32; 2] = [128, 8];

/// How an operand lies in local memory.
pub(super) struct Slab {
    /// Elements from one to the next along the slow direction.
    pub stride: i64,
    /// Elements more after every eight of them.
    pub skew: i64,
    /// All elements.
    pub elements: i64,
}

impl Blocking {
    /// Rows and columns of the results of a group.
    pub fn extent(&self) -> [i64; 2] {
        let unit = self
            .mma
            .map_or([1, 1], |d| [i64::from(d.m), i64::from(d.n)]);
        [
            i64::from(self.along_rows) * i64::from(self.rows) * unit[0],
            i64::from(self.along_cols) * i64::from(self.cols) * unit[1],
        ]
    }

    /// Work-items of a group.
    pub fn items(&self) -> i64 {
        let wave = self.mma.map_or(1, |d| i64::from(d.wave()));
        i64::from(self.along_rows) * i64::from(self.along_cols) * wave
    }

    /// Summed elements in one turn of the innermost loop, which goes through those of a step.
    pub(super) fn turn(&self) -> i64 {
        let (unit, most) = match self.mma {
            // Each is one instruction, and reads no registers.
            Some(d) if d.in_memory() => return i64::from(self.depth),
            Some(d) => (u32::from(d.k), TURN[1]),
            None => (1, TURN[0]),
        };
        let units = (most / (self.rows * self.cols).max(1)).max(1);
        let units = units.min(self.depth / unit).max(1);
        // A divisor of the units of a step.
        let whole = (1..=units)
            .rev()
            .find(|n| (self.depth / unit).is_multiple_of(*n));
        i64::from(whole.unwrap_or(1) * unit)
    }

    /// How an operand whose block has so many rows or columns lies in local memory.
    pub(super) fn slab(&self, width: i64, operand: DType) -> Slab {
        // Neighbours along the slow direction are sixteen bytes apart from where they would meet in
        // a bank; and so are rows eight apart, which work-items that load along the rows store at
        // the same time.
        let unit = (16 / operand.size() as i64).max(1);
        match self.mma {
            // Rows have their own order.
            Some(d) if d.in_memory() => Slab {
                stride: 0,
                skew: 0,
                elements: width * i64::from(self.depth),
            },
            Some(_) => Slab {
                stride: i64::from(self.depth) + unit,
                skew: unit,
                elements: width * (i64::from(self.depth) + unit) + up(width, 8) * unit,
            },
            None => Slab {
                stride: width + unit,
                skew: 0,
                elements: (width + unit) * i64::from(self.depth),
            },
        }
    }

    /// Steps that copies are ahead of the one that is computed; 0 where there are none. The slab before is still read.
    pub(super) fn early(&self) -> i64 {
        i64::from(self.slabs.saturating_sub(2))
    }

    /// Bytes of local memory per group.
    pub fn local_bytes(&self, operands: [DType; 2]) -> i64 {
        let [rows, cols] = self.extent();
        let slabs = i64::from(self.slabs);
        let bytes = |width: i64, t: DType| {
            up(self.slab(width, t).elements * t.size() as i64 * slabs, 16) * 16
        };
        let barriers = if self.boxes {
            (ROW as i64) * Rows::orders()
        } else {
            0
        };
        bytes(rows, operands[0]) + bytes(cols, operands[1]) + barriers
    }
}

impl fmt::Display for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [rows, cols] = self.extent();
        write!(
            f,
            "block({rows}x{cols}, k {}, {} work-items, ",
            self.depth,
            self.items()
        )?;
        match self.mma {
            Some(d) => write!(
                f,
                "waves {}x{} of {}x{} times {}x{}x{} {}",
                self.along_rows,
                self.along_cols,
                self.rows,
                self.cols,
                d.m,
                d.n,
                d.k,
                d.operands[0]
            )?,
            None => write!(f, "tile {}x{}", self.rows, self.cols)?,
        }
        if self.slabs > 2 {
            write!(f, ", {} slabs", self.slabs)?;
            f.write_str(if self.boxes { " of boxes" } else { "" })?;
        }
        if self.parts > 1 {
            write!(f, ", {} parts", self.parts)?;
        }
        f.write_str(")")
    }
}
