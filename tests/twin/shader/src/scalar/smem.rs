//! SMEM: scalar memory.

use std::fmt::Write;

use smallvec::smallvec;

use super::Inst;
use super::meaning::*;
use super::operand::{Source, Value, registers};
use super::{names, operand};
use crate::counters::Counter;
use crate::isa::Gen;
use crate::page::Port;
use crate::step::Flow;
use crate::wave::Wave;
use Gen::{Cdna3, Rdna2, Rdna3, Rdna4};

/// The fields of an encoding.
struct Fields {
    /// The destination; a number in some instructions.
    data: u8,
    /// The first of the registers with the address.
    base: u8,
    /// A constant that is added.
    offset: Option<i32>,
    /// A register that is added.
    register: Option<u8>,
}

fn fields(inst: &Inst) -> Fields {
    let [low, high] = inst.words;
    let signed = |bits: u32| (high << (32 - bits)) as i32 >> (32 - bits);
    let register = (high >> 25) as u8;
    let (offset, register) = match inst.generation {
        Rdna2 | Rdna3 => (Some(signed(21)), Some(register)),
        Rdna4 => (Some(signed(24)), Some(register)),
        // CDNA3: bit 17 says that there is a constant, bit 14 that there is a register. Without both
        // the constant is the code of a register.
        Cdna3 => match (low >> 17 & 1, low >> 14 & 1) {
            (0, 0) => (None, Some(high as u8 & 127)),
            (0, _) => (None, Some(register)),
            (_, 0) => (Some(signed(21)), None),
            _ => (Some(signed(21)), Some(register)),
        },
    };
    let null = operand::null_code(inst.generation);
    Fields {
        data: (low >> 6) as u8 & 127,
        base: (low as u8 & 63) * 2,
        offset,
        register: register.filter(|r| u16::from(*r) != null || inst.generation == Cdna3),
    }
}

/// The operands of an instruction with an address.
fn address_args(data: Arg, base: u16) -> smallvec::SmallVec<[Arg; 4]> {
    smallvec![data, Arg::Base(base), Arg::Offset, Arg::Cache]
}

/// Where an instruction reads.
#[derive(Clone, Copy)]
struct Address {
    base: u8,
    offset: i64,
    register: Option<Source>,
    buffer: bool,
}

impl Address {
    fn new(inst: &Inst, buffer: bool) -> Option<Self> {
        let fields = fields(inst);
        let dwords = if buffer { 4 } else { 2 };
        operand::register(inst.generation, fields.base, dwords)?;
        let register = match fields.register {
            Some(code) => Some(Source::new::<u32>(inst.generation, code, 0)?),
            None => None,
        };
        Some(Self {
            base: fields.base,
            offset: fields.offset.unwrap_or(0).into(),
            register,
            buffer,
        })
    }

    fn touches(&self) -> [Option<crate::step::Regs>; 2] {
        [
            Some(registers(self.base, if self.buffer { 4 } else { 2 })),
            self.register.and_then(|r| r.touches(1)),
        ]
    }

    /// The address and, of a buffer, how many bytes there are from it on.
    fn of(&self, wave: &Wave) -> (u64, u64) {
        let register = self.register.map_or(0, |r| u32::get(r, wave));
        let offset = self.offset.wrapping_add(register.into());
        let base = wave.scalar64(self.base.into());
        if !self.buffer {
            return (base.wrapping_add_signed(offset), u64::MAX);
        }
        // The V#: an address of 48 bits, a stride of 14, a number of records (of bytes without a
        // stride).
        let stride = base >> 48 & 0x3fff;
        let records = u64::from(wave.scalar(u16::from(self.base) + 2));
        let size = if stride == 0 {
            records
        } else {
            records * stride
        };
        let left = size.saturating_sub(offset.max(0) as u64);
        let base = base & 0xffff_ffff_ffff;
        (
            base.wrapping_add_signed(offset),
            if offset < 0 { 0 } else { left },
        )
    }
}

/// Loads `dwords` dwords; those outside of a buffer are zero.
fn load(dwords: u16, buffer: bool) -> Meaning {
    Meaning {
        args: address_args(Arg::Data(dwords), if buffer { 4 } else { 2 }),
        lower: Box::new(move |inst, _| {
            let address = Address::new(inst, buffer)?;
            let data = destination(inst, dwords)?;
            let null = u16::from(data) == operand::null_code(inst.generation);
            let regs = registers(data, dwords);
            let [a, b] = address.touches();
            step([a, b, Some(regs)], move |wave| {
                let (va, left) = address.of(wave);
                let mut words = [0; 16];
                // The two lowest bits of the address are ignored.
                let inside = usize::from(dwords).min((left / 4) as usize);
                wave.bus.read(Port::Scalar, va & !3, &mut words[..inside])?;
                if !null {
                    for (i, word) in words[..usize::from(dwords)].iter().enumerate() {
                        wave.set_scalar(u16::from(data) + i as u16, *word);
                    }
                    wave.counters.issue(&[Counter::Scalar], Some(regs));
                } else {
                    wave.counters.issue(&[Counter::Scalar], None);
                }
                Ok(Flow::Next)
            })
        }),
    }
}

/// Loads 8 or 16 bits (RDNA4).
fn load_small(bytes: usize, extend: fn(u64) -> u32, buffer: bool) -> Meaning {
    Meaning {
        args: address_args(Arg::Data(1), if buffer { 4 } else { 2 }),
        lower: Box::new(move |inst, _| {
            let address = Address::new(inst, buffer)?;
            let data = destination(inst, 1)?;
            let regs = registers(data, 1);
            let [a, b] = address.touches();
            step([a, b, Some(regs)], move |wave| {
                let (va, left) = address.of(wave);
                let va = va & !(bytes as u64 - 1);
                let value = if left >= bytes as u64 {
                    wave.bus.read_any(Port::Scalar, va, bytes)?
                } else {
                    0
                };
                wave.set_scalar(data.into(), extend(value));
                wave.counters.issue(&[Counter::Scalar], Some(regs));
                Ok(Flow::Next)
            })
        }),
    }
}

/// D = the clock.
fn time() -> Meaning {
    Meaning {
        args: smallvec![Arg::Data(2)],
        lower: Box::new(move |inst, _| {
            let data = destination(inst, 2)?;
            let regs = registers(data, 2);
            step([Some(regs)], move |wave| {
                wave.seat.now().put(data, wave);
                wave.counters.issue(&[Counter::Scalar], Some(regs));
                Ok(Flow::Next)
            })
        }),
    }
}

/// The scalar cache fetches anew.
fn invalidate() -> Meaning {
    special(&[], |_, _| {
        step([], |wave| {
            wave.bus.memory.invalidate(Port::Scalar, false);
            Ok(Flow::Next)
        })
    })
}

/// A hint, or what changes nothing in the model (GL1 is one with L0, scalar stores are not run);
/// printed with these operands.
fn hint(args: &[Arg]) -> Meaning {
    special(args, |_, _| step([], |_| Ok(Flow::Next)))
}

fn i8(value: u64) -> u32 {
    i32::from(value as i8) as u32
}

fn i16(value: u64) -> u32 {
    i32::from(value as i16) as u32
}

fn zero_extend(value: u64) -> u32 {
    value as u32
}

/// Columns: RDNA2, RDNA3, RDNA4, CDNA3.
#[rustfmt::skip]
pub fn rows() -> Vec<Row> {
    use Arg::{Base, Data, DataImm, Offset, Cache, Prefetch};
    let mut rows = vec![
        row("s_load_dword",           [0x00, 0x00, 0x00, 0x00], load(1, false)).since(Rdna3, "s_load_b32"),
        row("s_load_dwordx2",         [0x01, 0x01, 0x01, 0x01], load(2, false)).since(Rdna3, "s_load_b64"),
        row("s_load_dwordx4",         [0x02, 0x02, 0x02, 0x02], load(4, false)).since(Rdna3, "s_load_b128"),
        row("s_load_dwordx8",         [0x03, 0x03, 0x03, 0x03], load(8, false)).since(Rdna3, "s_load_b256"),
        row("s_load_dwordx16",        [0x04, 0x04, 0x04, 0x04], load(16, false)).since(Rdna3, "s_load_b512"),
        row("s_load_b96",             [__,   __,   0x05, __  ], load(3, false)),
        row("s_load_i8",              [__,   __,   0x08, __  ], load_small(1, i8, false)),
        row("s_load_u8",              [__,   __,   0x09, __  ], load_small(1, zero_extend, false)),
        row("s_load_i16",             [__,   __,   0x0a, __  ], load_small(2, i16, false)),
        row("s_load_u16",             [__,   __,   0x0b, __  ], load_small(2, zero_extend, false)),
        row("s_buffer_load_dword",    [0x08, 0x08, 0x10, 0x08], load(1, true)).since(Rdna3, "s_buffer_load_b32"),
        row("s_buffer_load_dwordx2",  [0x09, 0x09, 0x11, 0x09], load(2, true)).since(Rdna3, "s_buffer_load_b64"),
        row("s_buffer_load_dwordx4",  [0x0a, 0x0a, 0x12, 0x0a], load(4, true)).since(Rdna3, "s_buffer_load_b128"),
        row("s_buffer_load_dwordx8",  [0x0b, 0x0b, 0x13, 0x0b], load(8, true)).since(Rdna3, "s_buffer_load_b256"),
        row("s_buffer_load_dwordx16", [0x0c, 0x0c, 0x14, 0x0c], load(16, true)).since(Rdna3, "s_buffer_load_b512"),
        row("s_buffer_load_b96",      [__,   __,   0x15, __  ], load(3, true)),
        row("s_buffer_load_i8",       [__,   __,   0x18, __  ], load_small(1, i8, true)),
        row("s_buffer_load_u8",       [__,   __,   0x19, __  ], load_small(1, zero_extend, true)),
        row("s_buffer_load_i16",      [__,   __,   0x1a, __  ], load_small(2, i16, true)),
        row("s_buffer_load_u16",      [__,   __,   0x1b, __  ], load_small(2, zero_extend, true)),
        row("s_gl1_inv",              [0x1f, 0x20, __,   __  ], hint(&[])),
        row("s_dcache_inv",           [0x20, 0x21, 0x21, 0x20], invalidate()),
        row("s_dcache_wb",            [__,   __,   __,   0x21], hint(&[])),
        row("s_dcache_inv_vol",       [__,   __,   __,   0x22], invalidate()),
        row("s_dcache_wb_vol",        [__,   __,   __,   0x23], hint(&[])),
        row("s_memtime",              [0x24, __,   __,   0x24], time()),
        row("s_memrealtime",          [0x25, __,   __,   0x25], time()),
        row("s_atc_probe",            [0x26, 0x22, 0x22, 0x26], hint(&[DataImm, Base(2), Offset])),
        row("s_atc_probe_buffer",     [0x27, 0x23, 0x23, 0x27], hint(&[DataImm, Base(4), Offset])),
        row("s_prefetch_inst",        [__,   __,   0x24, __  ], hint(&[Base(2), Prefetch])),
        row("s_prefetch_inst_pc_rel", [__,   __,   0x25, __  ], hint(&[Prefetch])),
        row("s_prefetch_data",        [__,   __,   0x26, __  ], hint(&[Base(2), Prefetch])),
        row("s_buffer_prefetch_data", [__,   __,   0x27, __  ], hint(&[Base(4), Prefetch])),
        row("s_prefetch_data_pc_rel", [__,   __,   0x28, __  ], hint(&[Prefetch])),
        // Scalar stores and atomics: LLVM still decodes them for CDNA3, which lacks them.
        row("s_scratch_load_dword",    [__, __, __, 0x05], unsupported(&[Data(1), Base(2), Offset, Cache])),
        row("s_scratch_load_dwordx2",  [__, __, __, 0x06], unsupported(&[Data(2), Base(2), Offset, Cache])),
        row("s_scratch_load_dwordx4",  [__, __, __, 0x07], unsupported(&[Data(4), Base(2), Offset, Cache])),
        row("s_store_dword",           [__, __, __, 0x10], unsupported(&[Data(1), Base(2), Offset, Cache])),
        row("s_store_dwordx2",         [__, __, __, 0x11], unsupported(&[Data(2), Base(2), Offset, Cache])),
        row("s_store_dwordx4",         [__, __, __, 0x12], unsupported(&[Data(4), Base(2), Offset, Cache])),
        row("s_scratch_store_dword",   [__, __, __, 0x15], unsupported(&[Data(1), Base(2), Offset, Cache])),
        row("s_scratch_store_dwordx2", [__, __, __, 0x16], unsupported(&[Data(2), Base(2), Offset, Cache])),
        row("s_scratch_store_dwordx4", [__, __, __, 0x17], unsupported(&[Data(4), Base(2), Offset, Cache])),
        row("s_buffer_store_dword",    [__, __, __, 0x18], unsupported(&[Data(1), Base(4), Offset, Cache])),
        row("s_buffer_store_dwordx2",  [__, __, __, 0x19], unsupported(&[Data(2), Base(4), Offset, Cache])),
        row("s_buffer_store_dwordx4",  [__, __, __, 0x1a], unsupported(&[Data(4), Base(4), Offset, Cache])),
        row("s_dcache_discard",        [__, __, __, 0x28], unsupported(&[Base(2), Offset])),
        row("s_dcache_discard_x2",     [__, __, __, 0x29], unsupported(&[Base(2), Offset])),
    ];
    /// An atomic: on a buffer, plain; of 32 bits and 64; `$dwords` is what the first takes.
    macro_rules! atomics {
        ($($op:literal $dwords:literal $buffer:literal $buffer_x2:literal $plain:literal $plain_x2:literal;)*) => {$(
            rows.push(row($buffer,    [__, __, __, 0x40 + $op], unsupported(&[Data($dwords), Base(4), Offset, Cache])));
            rows.push(row($buffer_x2, [__, __, __, 0x60 + $op], unsupported(&[Data(2 * $dwords), Base(4), Offset, Cache])));
            rows.push(row($plain,     [__, __, __, 0x80 + $op], unsupported(&[Data($dwords), Base(2), Offset, Cache])));
            rows.push(row($plain_x2,  [__, __, __, 0xa0 + $op], unsupported(&[Data(2 * $dwords), Base(2), Offset, Cache])));
        )*};
    }
    atomics! {
        0x0 1 "s_buffer_atomic_swap"    "s_buffer_atomic_swap_x2"    "s_atomic_swap"    "s_atomic_swap_x2";
        0x1 2 "s_buffer_atomic_cmpswap" "s_buffer_atomic_cmpswap_x2" "s_atomic_cmpswap" "s_atomic_cmpswap_x2";
        0x2 1 "s_buffer_atomic_add"     "s_buffer_atomic_add_x2"     "s_atomic_add"     "s_atomic_add_x2";
        0x3 1 "s_buffer_atomic_sub"     "s_buffer_atomic_sub_x2"     "s_atomic_sub"     "s_atomic_sub_x2";
        0x4 1 "s_buffer_atomic_smin"    "s_buffer_atomic_smin_x2"    "s_atomic_smin"    "s_atomic_smin_x2";
        0x5 1 "s_buffer_atomic_umin"    "s_buffer_atomic_umin_x2"    "s_atomic_umin"    "s_atomic_umin_x2";
        0x6 1 "s_buffer_atomic_smax"    "s_buffer_atomic_smax_x2"    "s_atomic_smax"    "s_atomic_smax_x2";
        0x7 1 "s_buffer_atomic_umax"    "s_buffer_atomic_umax_x2"    "s_atomic_umax"    "s_atomic_umax_x2";
        0x8 1 "s_buffer_atomic_and"     "s_buffer_atomic_and_x2"     "s_atomic_and"     "s_atomic_and_x2";
        0x9 1 "s_buffer_atomic_or"      "s_buffer_atomic_or_x2"      "s_atomic_or"      "s_atomic_or_x2";
        0xa 1 "s_buffer_atomic_xor"     "s_buffer_atomic_xor_x2"     "s_atomic_xor"     "s_atomic_xor_x2";
        0xb 1 "s_buffer_atomic_inc"     "s_buffer_atomic_inc_x2"     "s_atomic_inc"     "s_atomic_inc_x2";
        0xc 1 "s_buffer_atomic_dec"     "s_buffer_atomic_dec_x2"     "s_atomic_dec"     "s_atomic_dec_x2";
    }
    rows
}

/// The opcode field.
pub fn opcode(generation: Gen, word: u32) -> u32 {
    match generation {
        Rdna4 => word >> 13 & 0x3f,
        _ => word >> 18 & 0xff,
    }
}

/// Whether the bits that an instruction does not use are as LLVM wants them: RDNA3 has no bits for
/// caches where no cache is used, offsets into buffers are positive in RDNA4, CDNA3 wants all zero
/// where there is no operand.
pub fn valid(inst: &Inst) -> bool {
    let args = &inst.row().meaning.args;
    let [low, high] = inst.words;
    match inst.generation {
        Rdna2 => true,
        Rdna3 => args.contains(&Arg::Cache) || low >> 13 & 3 == 0,
        Rdna4 => !(args.contains(&Arg::Base(4)) && high >> 23 & 1 == 1),
        Cdna3 => args.contains(&Arg::Offset) || low >> 17 & 1 == 0,
    }
}

/// The destination, which cannot be EXEC or M0.
fn destination(inst: &Inst, dwords: u16) -> Option<u8> {
    let data = fields(inst).data;
    operand::register(inst.generation, data, dwords)?;
    (data < 124 || u16::from(data) == operand::null_code(inst.generation)).then_some(data)
}

fn hex(value: i32) -> String {
    match value {
        0.. => format!("{value:#x}"),
        _ => format!("-{:#x}", value.unsigned_abs()),
    }
}

/// The text of an operand of this format; none where the encoding is invalid.
pub fn print(inst: &Inst, arg: Arg) -> Option<String> {
    let fields = fields(inst);
    let generation = inst.generation;
    let name = |code| operand::name(generation, code, 1);
    Some(match arg {
        // LLVM has no groups of three TTMPs, and prints eight.
        Arg::Data(3) if (108..124).contains(&fields.data) => {
            let first = (fields.data - 108) / 4 * 4;
            let name = (first < 12).then(|| format!("ttmp[{first}:{}]", first + 7))?;
            format!("{name}/*Invalid register, operand has 'SReg_96' register class*/")
        }
        Arg::Data(dwords) => {
            let name = operand::name(generation, fields.data, dwords)?;
            let class = match (fields.data, dwords) {
                (126..=127, 1) => "SReg_32_XM0_XEXEC",
                (m0, 1) if m0 == operand::m0_code(generation) => "SReg_32_XM0_XEXEC",
                (126, 2) => "SReg_64_XEXEC",
                _ => return Some(name),
            };
            format!("{name}/*Invalid register, operand has '{class}' register class*/")
        }
        Arg::DataImm if generation == Rdna4 && fields.data > 31 => return None,
        Arg::DataImm => names::constant(fields.data.into()),
        Arg::Base(dwords) => operand::name(generation, fields.base, dwords)?,
        Arg::Offset => match (fields.register, fields.offset) {
            // Neither a register nor an offset.
            (None, Some(0)) if matches!(generation, Rdna2 | Rdna3) => "null".into(),
            (None, offset) => hex(offset.unwrap_or(0)),
            (Some(register), None | Some(0)) => name(register)?,
            (Some(register), Some(offset)) => {
                format!("{} offset:{}", name(register)?, hex(offset))
            }
        },
        Arg::Prefetch => {
            let register = fields.register.map_or(Some("null".into()), name)?;
            let offset = hex(fields.offset.unwrap_or(0));
            let count = (fields.data < 32).then_some(fields.data)?;
            format!("{offset}, {register}, {count}")
        }
        _ => return None,
    })
}

/// The bits that say how caches are used.
pub fn cache_policy(inst: &Inst) -> String {
    let low = inst.words[0];
    let mut text = String::new();
    let mut flag = |bit: u32, name: &str| {
        if low >> bit & 1 == 1 {
            let _ = write!(text, " {name}");
        }
    };
    match inst.generation {
        Rdna2 => {
            flag(16, "glc");
            flag(14, "dlc");
        }
        Rdna3 => {
            flag(14, "glc");
            flag(13, "dlc");
        }
        Cdna3 => flag(16, "glc"),
        Rdna4 => {
            if inst.words[1] >> 24 & 1 == 1 {
                text.push_str(" scale_offset");
            }
            let (th, scope) = (low >> 23 & 3, low >> 21 & 3);
            let th = match (th, scope) {
                (3, 3) => "BYPASS",
                _ => ["", "NT", "HT", "LU"][th as usize],
            };
            if !th.is_empty() {
                let _ = write!(text, " th:TH_LOAD_{th}");
            }
            if scope != 0 {
                let scope = ["", "SE", "DEV", "SYS"][scope as usize];
                let _ = write!(text, " scope:SCOPE_{scope}");
            }
            if low >> 20 & 1 == 1 {
                text.push_str(" nv");
            }
        }
    }
    text
}
