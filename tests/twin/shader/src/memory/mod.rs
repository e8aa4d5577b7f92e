//! LDS and vector memory: DS, FLAT, GLOBAL, SCRATCH, MUBUF, MTBUF, and what RDNA4 calls them
//! (VDS, VFLAT, VGLOBAL, VSCRATCH, VBUFFER).
//!
//! `table` and `ds_table` hold a row per operation; [`decode`](decode()) finds the row and cuts
//! the fields out of the words; `print` writes both as LLVM does; `ds` and `vector`
//! lower them; `target` and `buffer` say where a lane's bytes are.

use std::fmt;

use crate::isa::Gen;
use crate::step::Step;

mod atomic;
mod buffer;
mod decode;
mod ds;
mod ds_table;
mod format;
pub mod gws;
mod lower;
mod print;
mod rules;
mod table;
mod target;
mod vector;

#[cfg(test)]
mod tests;

pub use decode::decode;

use table::Format;

/// An instruction of this class.
#[derive(Clone)]
pub struct Inst {
    generation: Gen,
    op: Op,
    fields: Fields,
}

#[derive(Clone, Copy)]
enum Op {
    Ds(&'static ds_table::Row),
    Vector(Format, &'static table::Row),
}

/// The fields of all formats; zero where a format has no such field.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Fields {
    /// VGPRs; 256 and up are accumulation registers of CDNA.
    vdst: u16,
    vaddr: u16,
    /// DATA0 of DS.
    vdata: u16,
    /// DATA1 of DS.
    vdata1: u16,
    /// SADDR, or the first register of the buffer descriptor.
    saddr: u8,
    soffset: u8,
    /// The word after the instruction, where SOFFSET asks for it.
    literal: u32,
    /// OFFSET1 and OFFSET0 of DS are one number here.
    offset: i32,
    /// Scratch: VADDR is used.
    sve: bool,
    idxen: bool,
    offen: bool,
    gds: bool,
    lds: bool,
    tfe: bool,
    /// Format of a typed buffer; data and number format (bits 3:0 and 6:4) in CDNA3.
    format: u8,
    cache: Cache,
    scale_offset: bool,
}

/// How caches treat an access. Only the atomics' request to return the old value has a meaning here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Cache {
    /// SC0 of CDNA3.
    glc: bool,
    /// NT of CDNA3.
    slc: bool,
    /// SC1 of CDNA3.
    dlc: bool,
    /// Temporal hint of RDNA4.
    th: u8,
    /// Scope of RDNA4.
    scope: u8,
    /// Non-volatile, in RDNA4.
    nv: bool,
}

impl Inst {
    /// Whether an atomic returns what was there.
    fn returns(&self) -> bool {
        self.fields.cache.glc || self.fields.cache.th & 1 == 1
    }

    /// The instruction as a step for a wave of `halves` times 32 lanes.
    pub fn lower(&self, halves: usize) -> Step {
        lower::lower(self, halves)
    }
}

impl PartialEq for Inst {
    fn eq(&self, other: &Self) -> bool {
        let op = match (self.op, other.op) {
            (Op::Ds(a), Op::Ds(b)) => std::ptr::eq(a, b),
            (Op::Vector(f, a), Op::Vector(g, b)) => f == g && std::ptr::eq(a, b),
            _ => false,
        };
        op && self.generation == other.generation && self.fields == other.fields
    }
}

impl fmt::Debug for Inst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} `{self}` {:?}", self.generation, self.fields)
    }
}
