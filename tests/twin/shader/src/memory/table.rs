//! FLAT, GLOBAL, SCRATCH, MUBUF and MTBUF: one row per operation, for all the formats that have it.

use std::sync::LazyLock;

use super::atomic::{self, Op32, Op64};
use crate::isa::Gen;

/// What one lane loads or stores, by the name of the ISA documents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cell {
    U8,
    I8,
    U16,
    I16,
    B32,
    B64,
    B96,
    B128,
}

use Cell::{B32, B64, B96, B128, I8, I16, U8, U16};

impl Cell {
    /// How many bytes.
    pub const fn bytes(self) -> usize {
        match self {
            U8 | I8 => 1,
            U16 | I16 => 2,
            B32 => 4,
            B64 => 8,
            B96 => 12,
            B128 => 16,
        }
    }

    /// How many registers hold it.
    pub const fn dwords(self) -> u8 {
        (self.bytes().div_ceil(4)) as u8
    }

    /// What a load of 8 or 16 bits puts into a register.
    pub const fn extend(self, value: u32) -> u32 {
        match self {
            I8 => value as i8 as u32,
            I16 => value as i16 as u32,
            _ => value,
        }
    }
}

/// Half of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Half {
    /// Bits 15:0.
    Low,
    /// Bits 31:16.
    High,
}

use Half::{High, Low};

/// What a row does.
#[derive(Clone, Copy)]
pub enum Does {
    /// Loads.
    Load(Cell),
    /// Loads 16 bits into half of a register; the other half stays.
    LoadHalf(Cell, Half),
    /// Stores.
    Store(Cell),
    /// Stores from bits 16 and up.
    StoreHigh(Cell),
    /// Loads into LDS, at M0.
    LoadLds(Cell),
    /// Loads, or stores, a dword at the address plus four times the lane.
    LoadTid,
    /// See [`Does::LoadTid`].
    StoreTid,
    /// Loads 1 to 4 elements, converted from the format of the buffer.
    LoadFormat(u8),
    /// As 16-bit values, two in a register.
    LoadFormatHalf(u8),
    /// One, into bits 31:16.
    LoadFormatHigh,
    /// Stores 1 to 4 elements, converted to the format of the buffer.
    StoreFormat(u8),
    /// From 16-bit values.
    StoreFormatHalf(u8),
    /// One, from bits 31:16.
    StoreFormatHigh,
    /// Changes 32 bits; takes this many data registers.
    Atomic32(Op32, u8),
    /// Changes 64 bits; takes this many pairs of data registers.
    Atomic64(Op64, u8),
    /// Writes back or invalidates caches: no operands.
    Cache,
    /// Loads a matrix, transposed: this many registers.
    LoadTransposed(u8),
    /// Not executed; so many registers are written and read.
    Other(u8, u8),
}

use Does::{
    Atomic32, Atomic64, Cache, Load, LoadFormat, LoadFormatHalf, LoadFormatHigh, LoadHalf, LoadLds,
    LoadTid, LoadTransposed, Other, Store, StoreFormat, StoreFormatHalf, StoreFormatHigh,
    StoreHigh, StoreTid,
};

impl Does {
    /// Registers that it writes; those of atomics only where they return.
    pub const fn written(self) -> u8 {
        match self {
            Load(cell) => cell.dwords(),
            LoadHalf(..) | LoadTid | LoadFormatHigh => 1,
            LoadFormat(n) | LoadTransposed(n) => n,
            LoadFormatHalf(n) => n.div_ceil(2),
            Atomic32(..) => 1,
            Atomic64(..) => 2,
            Other(written, _) => written,
            _ => 0,
        }
    }

    /// Data registers that it reads.
    pub const fn read(self) -> u8 {
        match self {
            Store(cell) => cell.dwords(),
            StoreHigh(_) | StoreTid | StoreFormatHigh => 1,
            StoreFormat(n) => n,
            StoreFormatHalf(n) => n.div_ceil(2),
            Atomic32(_, n) => n,
            Atomic64(_, n) => 2 * n,
            Other(_, read) => read,
            _ => 0,
        }
    }

    /// An atomic: may return what was there, where the instruction asks for it.
    pub const fn atomic(self) -> bool {
        matches!(self, Atomic32(..) | Atomic64(..) | Other(2, 2))
    }

    /// Stores, and returns nothing.
    pub const fn store(self) -> bool {
        matches!(
            self,
            Store(_)
                | StoreHigh(_)
                | StoreTid
                | StoreFormat(_)
                | StoreFormatHalf(_)
                | StoreFormatHigh
                | Other(0, _)
        )
    }
}

/// Formats of vector memory instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    Flat,
    Global,
    Scratch,
    Buffer,
    TypedBuffer,
}

impl Format {
    /// How its mnemonics begin.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Flat => "flat_",
            Self::Global => "global_",
            Self::Scratch => "scratch_",
            Self::Buffer => "buffer_",
            Self::TypedBuffer => "tbuffer_",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Sets of formats.
const FLAT: u8 = Format::Flat.bit();
const GLOBAL: u8 = Format::Global.bit();
const SCRATCH: u8 = Format::Scratch.bit();
const BUFFER: u8 = Format::Buffer.bit();
const TYPED: u8 = Format::TypedBuffer.bit();
const ALL: u8 = FLAT | GLOBAL | SCRATCH | BUFFER;
const ATOMIC: u8 = FLAT | GLOBAL | BUFFER;

/// A row of the table.
pub struct Row {
    /// Opcodes in RDNA2, RDNA3, RDNA4, CDNA3; -1 where there is none.
    ops: [i16; 4],
    formats: u8,
    names: [&'static str; 2],
    /// What it does.
    pub does: Does,
}

impl Row {
    /// The mnemonic without what the format puts before it.
    pub fn name(&self, generation: Gen) -> &'static str {
        match generation {
            Gen::Rdna2 | Gen::Cdna3 => self.names[0],
            Gen::Rdna3 | Gen::Rdna4 => self.names[1],
        }
    }

    /// Whether PCIe carries it: no atomic, or FetchAdd, Swap and CAS, of 32 and 64 bits. Told by the name:
    /// functions, which the compiler may copy or merge, have no addresses of their own.
    pub fn travels(&self) -> bool {
        !self.does.atomic() || CARRIED.contains(&self.names[1])
    }
}

/// Atomics of PCIe.
const CARRIED: [&str; 8] = [
    "atomic_add_u32",
    "atomic_add_u64",
    "atomic_sub_u32",
    "atomic_sub_u64",
    "atomic_swap_b32",
    "atomic_swap_b64",
    "atomic_cmpswap_b32",
    "atomic_cmpswap_b64",
];

/// The row of an opcode.
pub fn row(generation: Gen, format: Format, op: u32) -> Option<&'static Row> {
    static INDEX: LazyLock<Vec<Option<&'static Row>>> = LazyLock::new(|| {
        let mut index = vec![None; 4 * 5 * 256];
        for row in ROWS {
            for (column, &op) in row.ops.iter().enumerate() {
                for format in 0..5 {
                    if op >= 0 && row.formats >> format & 1 == 1 {
                        index[(column * 5 + format) * 256 + op as usize] = Some(row);
                    }
                }
            }
        }
        index
    });
    *INDEX.get((generation.column() * 5 + format as usize) * 256 + op as usize)?
}

const fn row_of(
    ops: [i16; 4],
    formats: u8,
    old: &'static str,
    new: &'static str,
    does: Does,
) -> Row {
    Row {
        ops,
        formats,
        names: [old, new],
        does,
    }
}

use row_of as r;

/// Source of names and opcodes: the microcode formats of the ISA documents.
///
/// Opcode in RDNA2, RDNA3, RDNA4, CDNA3; formats; name in RDNA2 and CDNA3; name in RDNA3 and 4.
#[rustfmt::skip]
static ROWS: &[Row] = &[
    r([ 0,  0,  0,  0], BUFFER, "load_format_x",    "load_format_x",    LoadFormat(1)),
    r([ 1,  1,  1,  1], BUFFER, "load_format_xy",   "load_format_xy",   LoadFormat(2)),
    r([ 2,  2,  2,  2], BUFFER, "load_format_xyz",  "load_format_xyz",  LoadFormat(3)),
    r([ 3,  3,  3,  3], BUFFER, "load_format_xyzw", "load_format_xyzw", LoadFormat(4)),
    r([ 4,  4,  4,  4], BUFFER, "store_format_x",    "store_format_x",    StoreFormat(1)),
    r([ 5,  5,  5,  5], BUFFER, "store_format_xy",   "store_format_xy",   StoreFormat(2)),
    r([ 6,  6,  6,  6], BUFFER, "store_format_xyz",  "store_format_xyz",  StoreFormat(3)),
    r([ 7,  7,  7,  7], BUFFER, "store_format_xyzw", "store_format_xyzw", StoreFormat(4)),
    r([128,  8,  8,  8], BUFFER, "load_format_d16_x",    "load_d16_format_x",    LoadFormatHalf(1)),
    r([129,  9,  9,  9], BUFFER, "load_format_d16_xy",   "load_d16_format_xy",   LoadFormatHalf(2)),
    r([130, 10, 10, 10], BUFFER, "load_format_d16_xyz",  "load_d16_format_xyz",  LoadFormatHalf(3)),
    r([131, 11, 11, 11], BUFFER, "load_format_d16_xyzw", "load_d16_format_xyzw", LoadFormatHalf(4)),
    r([132, 12, 12, 12], BUFFER, "store_format_d16_x",    "store_d16_format_x",    StoreFormatHalf(1)),
    r([133, 13, 13, 13], BUFFER, "store_format_d16_xy",   "store_d16_format_xy",   StoreFormatHalf(2)),
    r([134, 14, 14, 14], BUFFER, "store_format_d16_xyz",  "store_d16_format_xyz",  StoreFormatHalf(3)),
    r([135, 15, 15, 15], BUFFER, "store_format_d16_xyzw", "store_d16_format_xyzw", StoreFormatHalf(4)),
    r([38, 38, 38, 38], BUFFER, "load_format_d16_hi_x",  "load_d16_hi_format_x",  LoadFormatHigh),
    r([39, 39, 39, 39], BUFFER, "store_format_d16_hi_x", "store_d16_hi_format_x", StoreFormatHigh),

    r([ 0,  0, 128,  0], TYPED, "load_format_x",    "load_format_x",    LoadFormat(1)),
    r([ 1,  1, 129,  1], TYPED, "load_format_xy",   "load_format_xy",   LoadFormat(2)),
    r([ 2,  2, 130,  2], TYPED, "load_format_xyz",  "load_format_xyz",  LoadFormat(3)),
    r([ 3,  3, 131,  3], TYPED, "load_format_xyzw", "load_format_xyzw", LoadFormat(4)),
    r([ 4,  4, 132,  4], TYPED, "store_format_x",    "store_format_x",    StoreFormat(1)),
    r([ 5,  5, 133,  5], TYPED, "store_format_xy",   "store_format_xy",   StoreFormat(2)),
    r([ 6,  6, 134,  6], TYPED, "store_format_xyz",  "store_format_xyz",  StoreFormat(3)),
    r([ 7,  7, 135,  7], TYPED, "store_format_xyzw", "store_format_xyzw", StoreFormat(4)),
    r([ 8,  8, 136,  8], TYPED, "load_format_d16_x",    "load_d16_format_x",    LoadFormatHalf(1)),
    r([ 9,  9, 137,  9], TYPED, "load_format_d16_xy",   "load_d16_format_xy",   LoadFormatHalf(2)),
    r([10, 10, 138, 10], TYPED, "load_format_d16_xyz",  "load_d16_format_xyz",  LoadFormatHalf(3)),
    r([11, 11, 139, 11], TYPED, "load_format_d16_xyzw", "load_d16_format_xyzw", LoadFormatHalf(4)),
    r([12, 12, 140, 12], TYPED, "store_format_d16_x",    "store_d16_format_x",    StoreFormatHalf(1)),
    r([13, 13, 141, 13], TYPED, "store_format_d16_xy",   "store_d16_format_xy",   StoreFormatHalf(2)),
    r([14, 14, 142, 14], TYPED, "store_format_d16_xyz",  "store_d16_format_xyz",  StoreFormatHalf(3)),
    r([15, 15, 143, 15], TYPED, "store_format_d16_xyzw", "store_d16_format_xyzw", StoreFormatHalf(4)),

    r([ 8, 16, 16, 16], ALL, "load_ubyte",   "load_u8",   Load(U8)),
    r([ 9, 17, 17, 17], ALL, "load_sbyte",   "load_i8",   Load(I8)),
    r([10, 18, 18, 18], ALL, "load_ushort",  "load_u16",  Load(U16)),
    r([11, 19, 19, 19], ALL, "load_sshort",  "load_i16",  Load(I16)),
    r([12, 20, 20, 20], ALL, "load_dword",   "load_b32",  Load(B32)),
    r([13, 21, 21, 21], ALL, "load_dwordx2", "load_b64",  Load(B64)),
    r([15, 22, 22, 22], ALL, "load_dwordx3", "load_b96",  Load(B96)),
    r([14, 23, 23, 23], ALL, "load_dwordx4", "load_b128", Load(B128)),
    r([32, 30, 30, 32], ALL, "load_ubyte_d16",    "load_d16_u8",     LoadHalf(U8, Low)),
    r([33, 33, 33, 33], ALL, "load_ubyte_d16_hi", "load_d16_hi_u8",  LoadHalf(U8, High)),
    r([34, 31, 31, 34], ALL, "load_sbyte_d16",    "load_d16_i8",     LoadHalf(I8, Low)),
    r([35, 34, 34, 35], ALL, "load_sbyte_d16_hi", "load_d16_hi_i8",  LoadHalf(I8, High)),
    r([36, 32, 32, 36], ALL, "load_short_d16",    "load_d16_b16",    LoadHalf(U16, Low)),
    r([37, 35, 35, 37], ALL, "load_short_d16_hi", "load_d16_hi_b16", LoadHalf(U16, High)),
    r([24, 24, 24, 24], ALL, "store_byte",    "store_b8",   Store(U8)),
    r([26, 25, 25, 26], ALL, "store_short",   "store_b16",  Store(U16)),
    r([28, 26, 26, 28], ALL, "store_dword",   "store_b32",  Store(B32)),
    r([29, 27, 27, 29], ALL, "store_dwordx2", "store_b64",  Store(B64)),
    r([31, 28, 28, 30], ALL, "store_dwordx3", "store_b96",  Store(B96)),
    r([30, 29, 29, 31], ALL, "store_dwordx4", "store_b128", Store(B128)),
    r([25, 36, 36, 25], ALL, "store_byte_d16_hi",  "store_d16_hi_b8",  StoreHigh(U8)),
    r([27, 37, 37, 27], ALL, "store_short_d16_hi", "store_d16_hi_b16", StoreHigh(U16)),
    r([22, 40, 40, -1], GLOBAL, "load_dword_addtid",  "load_addtid_b32",  LoadTid),
    r([23, 41, 41, -1], GLOBAL, "store_dword_addtid", "store_addtid_b32", StoreTid),
    r([-1, -1, -1, 38], GLOBAL | SCRATCH, "load_lds_ubyte",  "", LoadLds(U8)),
    r([-1, -1, -1, 39], GLOBAL | SCRATCH, "load_lds_sbyte",  "", LoadLds(I8)),
    r([-1, -1, -1, 40], GLOBAL | SCRATCH, "load_lds_ushort", "", LoadLds(U16)),
    r([-1, -1, -1, 41], GLOBAL | SCRATCH, "load_lds_sshort", "", LoadLds(I16)),
    r([-1, -1, -1, 42], GLOBAL | SCRATCH, "load_lds_dword",  "", LoadLds(B32)),
    r([-1, -1, 83, -1], GLOBAL | SCRATCH, "", "load_block",  Other(32, 0)),
    r([-1, -1, 84, -1], GLOBAL | SCRATCH, "", "store_block", Other(0, 32)),
    r([-1, -1, 87, -1], GLOBAL, "", "load_tr_b128", LoadTransposed(4)),
    r([-1, -1, 88, -1], GLOBAL, "", "load_tr_b64",  LoadTransposed(2)),
    r([-1, -1, 115, -1], GLOBAL, "", "atomic_ordered_add_b64", Other(2, 2)),

    r([48, 51, 51, 64], ATOMIC, "atomic_swap",    "atomic_swap_b32",    Atomic32(atomic::swap, 1)),
    r([49, 52, 52, 65], ATOMIC, "atomic_cmpswap", "atomic_cmpswap_b32", Atomic32(atomic::cmpswap, 2)),
    r([50, 53, 53, 66], ATOMIC, "atomic_add",     "atomic_add_u32",     Atomic32(atomic::add, 1)),
    r([51, 54, 54, 67], ATOMIC, "atomic_sub",     "atomic_sub_u32",     Atomic32(atomic::sub, 1)),
    r([52, 55, -1, -1], GLOBAL | BUFFER, "atomic_csub", "atomic_csub_u32", Atomic32(atomic::sub_clamp, 1)),
    r([-1, -1, 55, -1], ATOMIC, "",               "atomic_sub_clamp_u32", Atomic32(atomic::sub_clamp, 1)),
    r([-1, -1, 80, -1], ATOMIC, "",               "atomic_cond_sub_u32", Atomic32(atomic::cond_sub, 1)),
    r([53, 56, 56, 68], ATOMIC, "atomic_smin",    "atomic_min_i32",     Atomic32(atomic::min_i, 1)),
    r([54, 57, 57, 69], ATOMIC, "atomic_umin",    "atomic_min_u32",     Atomic32(atomic::min_u, 1)),
    r([55, 58, 58, 70], ATOMIC, "atomic_smax",    "atomic_max_i32",     Atomic32(atomic::max_i, 1)),
    r([56, 59, 59, 71], ATOMIC, "atomic_umax",    "atomic_max_u32",     Atomic32(atomic::max_u, 1)),
    r([57, 60, 60, 72], ATOMIC, "atomic_and",     "atomic_and_b32",     Atomic32(atomic::and, 1)),
    r([58, 61, 61, 73], ATOMIC, "atomic_or",      "atomic_or_b32",      Atomic32(atomic::or, 1)),
    r([59, 62, 62, 74], ATOMIC, "atomic_xor",     "atomic_xor_b32",     Atomic32(atomic::xor, 1)),
    r([60, 63, 63, 75], ATOMIC, "atomic_inc",     "atomic_inc_u32",     Atomic32(atomic::inc, 1)),
    r([61, 64, 64, 76], ATOMIC, "atomic_dec",     "atomic_dec_u32",     Atomic32(atomic::dec, 1)),
    r([62, 80, -1, -1], ATOMIC, "atomic_fcmpswap", "atomic_cmpswap_f32", Atomic32(atomic::cmpswap_f32, 2)),
    r([63, 81, -1, -1], ATOMIC, "atomic_fmin",    "atomic_min_f32",     Atomic32(atomic::min_f32, 1)),
    r([64, 82, -1, -1], ATOMIC, "atomic_fmax",    "atomic_max_f32",     Atomic32(atomic::max_f32, 1)),
    r([-1, -1, 81, -1], ATOMIC, "",               "atomic_min_num_f32", Atomic32(atomic::min_num_f32, 1)),
    r([-1, -1, 82, -1], ATOMIC, "",               "atomic_max_num_f32", Atomic32(atomic::max_num_f32, 1)),
    r([-1, 86, 86, 77], ATOMIC, "atomic_add_f32", "atomic_add_f32",     Atomic32(atomic::add_f32, 1)),
    r([-1, -1, 89, 78], ATOMIC, "atomic_pk_add_f16", "atomic_pk_add_f16", Atomic32(atomic::pk_add_f16, 1)),
    r([-1, -1, 90, -1], ATOMIC, "",               "atomic_pk_add_bf16", Atomic32(atomic::pk_add_bf16, 1)),
    r([-1, -1, -1, 82], FLAT | GLOBAL, "atomic_pk_add_bf16", "",        Atomic32(atomic::pk_add_bf16, 1)),

    r([80, 65, 65,  96], ATOMIC, "atomic_swap_x2",    "atomic_swap_b64",    Atomic64(atomic::swap64, 1)),
    r([81, 66, 66,  97], ATOMIC, "atomic_cmpswap_x2", "atomic_cmpswap_b64", Atomic64(atomic::cmpswap64, 2)),
    r([82, 67, 67,  98], ATOMIC, "atomic_add_x2",     "atomic_add_u64",     Atomic64(atomic::add64, 1)),
    r([83, 68, 68,  99], ATOMIC, "atomic_sub_x2",     "atomic_sub_u64",     Atomic64(atomic::sub64, 1)),
    r([85, 69, 69, 100], ATOMIC, "atomic_smin_x2",    "atomic_min_i64",     Atomic64(atomic::min_i64, 1)),
    r([86, 70, 70, 101], ATOMIC, "atomic_umin_x2",    "atomic_min_u64",     Atomic64(atomic::min_u64, 1)),
    r([87, 71, 71, 102], ATOMIC, "atomic_smax_x2",    "atomic_max_i64",     Atomic64(atomic::max_i64, 1)),
    r([88, 72, 72, 103], ATOMIC, "atomic_umax_x2",    "atomic_max_u64",     Atomic64(atomic::max_u64, 1)),
    r([89, 73, 73, 104], ATOMIC, "atomic_and_x2",     "atomic_and_b64",     Atomic64(atomic::and64, 1)),
    r([90, 74, 74, 105], ATOMIC, "atomic_or_x2",      "atomic_or_b64",      Atomic64(atomic::or64, 1)),
    r([91, 75, 75, 106], ATOMIC, "atomic_xor_x2",     "atomic_xor_b64",     Atomic64(atomic::xor64, 1)),
    r([92, 76, 76, 107], ATOMIC, "atomic_inc_x2",     "atomic_inc_u64",     Atomic64(atomic::inc64, 1)),
    r([93, 77, 77, 108], ATOMIC, "atomic_dec_x2",     "atomic_dec_u64",     Atomic64(atomic::dec64, 1)),
    r([94, -1, -1,  -1], ATOMIC, "atomic_fcmpswap_x2", "",                  Atomic64(atomic::cmpswap_f64, 2)),
    r([95, -1, -1,  -1], ATOMIC, "atomic_fmin_x2",    "",                   Atomic64(atomic::min_f64, 1)),
    r([96, -1, -1,  -1], ATOMIC, "atomic_fmax_x2",    "",                   Atomic64(atomic::max_f64, 1)),
    r([-1, -1, -1,  79], ATOMIC, "atomic_add_f64",    "",                   Atomic64(atomic::add_f64, 1)),
    r([-1, -1, -1,  80], ATOMIC, "atomic_min_f64",    "",                   Atomic64(atomic::min_f64, 1)),
    r([-1, -1, -1,  81], ATOMIC, "atomic_max_f64",    "",                   Atomic64(atomic::max_f64, 1)),

    r([113, 43, -1, -1], BUFFER, "gl0_inv", "gl0_inv", Cache),
    r([114, 44, -1, -1], BUFFER, "gl1_inv", "gl1_inv", Cache),
    r([-1, -1, -1, 40], BUFFER, "wbl2", "", Cache),
    r([-1, -1, -1, 41], BUFFER, "inv",  "", Cache),
    r([-1, -1, 43, -1], GLOBAL, "", "inv",   Cache),
    r([-1, -1, 44, -1], GLOBAL, "", "wb",    Cache),
    r([-1, -1, 79, -1], GLOBAL, "", "wbinv", Cache),
];
