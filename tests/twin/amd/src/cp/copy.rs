//! The bytes that SDMA moves, a piece at a time.

use super::{Cx, Stop};

/// How much is moved before other queues have a turn.
const PIECE: u64 = 1 << 20;

/// Where bytes come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// Memory.
    Memory(u64),
    /// The same 4 bytes, again and again.
    Fill([u8; 4]),
}

/// A box of rows. A linear copy is one row.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    /// The packet, for reports: copies are done later.
    who: String,
    pub source: Source,
    pub dst: u64,
    /// Bytes of a row.
    pub row: u64,
    /// Rows of a slice, slices.
    pub rows: [u64; 2],
    /// Bytes from row to row and from slice to slice, in the source and in the destination.
    pub src_pitch: [u64; 2],
    pub dst_pitch: [u64; 2],
    /// What is done: bytes of the row, rows, slices.
    at: [u64; 3],
}

impl Copy {
    /// Of one row.
    pub fn linear(who: &str, source: Source, dst: u64, bytes: u64) -> Self {
        Self::rows(who, source, dst, bytes, [1, 1], [0, 0], [0, 0])
    }

    /// Of many.
    pub fn rows(
        who: &str,
        source: Source,
        dst: u64,
        row: u64,
        rows: [u64; 2],
        src_pitch: [u64; 2],
        dst_pitch: [u64; 2],
    ) -> Self {
        Self {
            who: who.into(),
            source,
            dst,
            row,
            rows,
            src_pitch,
            dst_pitch,
            at: [0; 3],
        }
    }

    /// Moves a piece; true once all is done.
    pub fn step(&mut self, cx: &Cx) -> Result<bool, Stop> {
        cx.desc.vm.set_origin(&self.who);
        let mut left = PIECE;
        while left > 0 {
            let [done, y, z] = self.at;
            let bytes = (self.row - done).min(left);
            let to = self.dst + self.dst_pitch[0] * y + self.dst_pitch[1] * z + done;
            match self.source {
                Source::Memory(src) => {
                    let from = src + self.src_pitch[0] * y + self.src_pitch[1] * z + done;
                    cx.desc.vm.copy(cx.port(), from, to, bytes)?;
                }
                Source::Fill(pattern) => {
                    // Pieces are whole dwords: every piece starts with the pattern.
                    let data: Vec<_> = pattern.into_iter().cycle().take(bytes as usize).collect();
                    cx.write(to, &data)?;
                }
            }
            left -= bytes;
            self.at[0] += bytes;
            if self.at[0] == self.row {
                self.at = [0, y + 1, z];
                if self.at[1] == self.rows[0] {
                    self.at = [0, 0, z + 1];
                }
                if self.at[2] == self.rows[1] {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}
