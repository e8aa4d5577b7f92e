//! From words to fields.

use super::ds_table;
use super::print::{LITERAL, scalar_name};
use super::table::{self, Does, Format};
use super::{Cache, Fields, Inst, Op};
use crate::isa::Gen;

/// Decodes an instruction and says how many words it takes; none where it is not of this class or
/// the generation has no such instruction.
///
/// As LLVM does, registers that a row does not use must be 0 in DS and may be anything in the other
/// formats.
pub fn decode(generation: Gen, words: &[u32]) -> Option<(Inst, usize)> {
    let low = *words.first()?;
    let high = *words.get(1)?;
    let word = u64::from(low) | u64::from(high) << 32;
    let (op, fields, length) = match (low >> 26, generation) {
        (0b11_0110, _) => ds(generation, word)?,
        (0b11_0111, Gen::Rdna2) => flat_rdna2(word)?,
        (0b11_0111, Gen::Rdna3) => flat_rdna3(word)?,
        (0b11_0111, Gen::Cdna3) => flat_cdna3(word)?,
        (0b11_1011, Gen::Rdna4) => flat_rdna4(word, *words.get(2)?)?,
        (0b11_1000 | 0b11_1010, Gen::Rdna2) => literal(buffer_rdna2(word)?, words)?,
        (0b11_1000 | 0b11_1010, Gen::Rdna3) => literal(buffer_rdna3(word)?, words)?,
        (0b11_1000 | 0b11_1010, Gen::Cdna3) => buffer_cdna3(word)?,
        (0b11_0001, Gen::Rdna4) => buffer_rdna4(word, *words.get(2)?)?,
        _ => return None,
    };
    let inst = Inst {
        generation,
        op,
        fields,
    };
    Some((inst, length))
}

type Found = Option<(Op, Fields, usize)>;

/// `width` bits of `word` from `first` up.
fn bits(word: u64, first: u32, width: u32) -> u32 {
    (word >> first) as u32 & ((1u64 << width) - 1) as u32
}

fn bit(word: u64, at: u32) -> bool {
    word >> at & 1 == 1
}

fn byte(word: u64, first: u32) -> u16 {
    bits(word, first, 8) as u16
}

fn signed(value: u32, width: u32) -> i32 {
    (value << (32 - width)) as i32 >> (32 - width)
}

fn ds(generation: Gen, word: u64) -> Found {
    let cdna = generation == Gen::Cdna3;
    let row = ds_table::find(generation, bits(word, if cdna { 17 } else { 18 }, 8))?;
    let gds = bit(word, if cdna { 16 } else { 17 });
    let acc = if cdna && bit(word, 25) { 256 } else { 0 };
    let shape = row.does.shape();
    let fields = Fields {
        vdst: byte(word, 56) + acc,
        // The register of a wave sync is data.
        vaddr: byte(word, 32)
            + if matches!(row.does, Does2::Gws(_)) {
                acc
            } else {
                0
            },
        vdata: byte(word, 40) + acc,
        vdata1: byte(word, 48) + acc,
        offset: bits(word, 0, 16) as i32,
        // CDNA3 has no global data share; LLVM ignores the bit.
        gds: gds && (!cdna || matches!(row.does, Does2::Gws(_))),
        ..Fields::default()
    };
    let unused = [
        (shape.dst == 0, byte(word, 56)),
        (!shape.addr, byte(word, 32)),
        (shape.data[0] == 0, byte(word, 40)),
        (shape.data[1] == 0, byte(word, 48)),
    ];
    let gds_is = match row.does {
        Does2::Gws(_) | Does2::Ordered | Does2::GsReg => Some(true),
        Does2::Permute | Does2::Bpermute(_) | Does2::Nop | Does2::Bvh(..) => Some(false),
        _ if generation == Gen::Rdna4 => Some(false),
        _ => None,
    };
    let valid = unused.iter().all(|&(unused, field)| !unused || field == 0)
        && gds_is.is_none_or(|is| is == gds)
        && (acc == 0 || shape.inside([byte(word, 56), byte(word, 40), byte(word, 48)]))
        && match row.does {
            Does2::Nop => fields.offset == 0 && acc == 0,
            Does2::Gws(false) => acc == 0,
            _ => true,
        };
    valid.then_some((Op::Ds(row), fields, 2))
}

use ds_table::Does as Does2;

fn flat_format(segment: u32) -> Option<Format> {
    match segment {
        0 => Some(Format::Flat),
        1 => Some(Format::Scratch),
        2 => Some(Format::Global),
        _ => None,
    }
}

/// The code of SADDR that says that there is none.
pub(super) fn saddr_off(generation: Gen) -> u8 {
    match generation {
        Gen::Rdna2 => 0x7d,
        Gen::Rdna3 | Gen::Rdna4 => 0x7c,
        Gen::Cdna3 => 0x7f,
    }
}

/// What holds for FLAT, GLOBAL and SCRATCH of every generation.
fn flat(generation: Gen, format: Format, op: u32, mut fields: Fields, length: usize) -> Found {
    let row = table::row(generation, format, op)?;
    let off = saddr_off(generation);
    let valid = match format {
        Format::Flat => {
            let none = if generation == Gen::Cdna3 { 0 } else { off };
            fields.saddr == none && !fields.sve
        }
        Format::Global if matches!(row.does, Does::Cache) => fields.saddr == off && !fields.sve,
        Format::Global => {
            let named = || scalar_name(generation, fields.saddr, 2).is_some();
            (fields.saddr == off || named()) && !fields.sve
        }
        _ => true,
    };
    if format == Format::Flat {
        fields.saddr = off;
    }
    let lds = !fields.lds
        || matches!(row.does, Does::Load(cell) if cell.bytes() <= 4) && format != Format::Flat;
    (valid && lds).then_some((Op::Vector(format, row), fields, length))
}

fn flat_rdna2(word: u64) -> Found {
    let format = flat_format(bits(word, 14, 2))?;
    let saddr = bits(word, 48, 7) as u8;
    let mut fields = Fields {
        vdst: byte(word, 56),
        vaddr: byte(word, 32),
        vdata: byte(word, 40),
        saddr,
        offset: signed(bits(word, 0, 12), 12),
        sve: format == Format::Scratch && saddr == 0x7d,
        lds: bit(word, 13),
        cache: Cache {
            glc: bit(word, 16),
            slc: bit(word, 17),
            dlc: bit(word, 12),
            ..Cache::default()
        },
        ..Fields::default()
    };
    if format == Format::Flat {
        fields.offset = bits(word, 0, 12) as i32;
    }
    if bit(word, 55) {
        return None;
    }
    // 0x7f: neither a register nor an address.
    if format == Format::Scratch && saddr == 0x7f {
        fields.saddr = 0x7d;
    }
    flat(Gen::Rdna2, format, bits(word, 18, 7), fields, 2)
}

fn flat_rdna3(word: u64) -> Found {
    let format = flat_format(bits(word, 16, 2))?;
    let mut fields = Fields {
        vdst: byte(word, 56),
        vaddr: byte(word, 32),
        vdata: byte(word, 40),
        saddr: bits(word, 48, 7) as u8,
        offset: signed(bits(word, 0, 13), 13),
        sve: bit(word, 55),
        cache: Cache {
            glc: bit(word, 14),
            slc: bit(word, 15),
            dlc: bit(word, 13),
            ..Cache::default()
        },
        ..Fields::default()
    };
    if format == Format::Flat {
        fields.offset = bits(word, 0, 13) as i32;
    }
    flat(Gen::Rdna3, format, bits(word, 18, 7), fields, 2)
}

fn flat_rdna4(word: u64, third: u32) -> Found {
    let format = flat_format(bits(word, 24, 2))?;
    let fields = Fields {
        vdst: byte(word, 32),
        vaddr: (third & 255) as u16,
        vdata: byte(word, 55),
        saddr: bits(word, 0, 7) as u8,
        offset: signed(third >> 8, 24),
        sve: bit(word, 49),
        scale_offset: bit(word, 48),
        cache: cache_rdna4(word),
        ..Fields::default()
    };
    flat(Gen::Rdna4, format, bits(word, 14, 8), fields, 3)
}

fn cache_rdna4(word: u64) -> Cache {
    Cache {
        th: bits(word, 52, 3) as u8,
        scope: bits(word, 50, 2) as u8,
        nv: bit(word, 7),
        ..Cache::default()
    }
}

fn flat_cdna3(word: u64) -> Found {
    let format = flat_format(bits(word, 14, 2))?;
    let acc = if bit(word, 55) { 256 } else { 0 };
    let mut fields = Fields {
        vdst: byte(word, 56) + acc,
        vaddr: byte(word, 32),
        vdata: byte(word, 40) + acc,
        saddr: bits(word, 48, 7) as u8,
        offset: signed(bits(word, 0, 13), 13),
        sve: bit(word, 13),
        cache: Cache {
            glc: bit(word, 16),
            slc: bit(word, 17),
            dlc: bit(word, 25),
            ..Cache::default()
        },
        ..Fields::default()
    };
    if format == Format::Flat {
        fields.offset = bits(word, 0, 13) as i32;
    }
    let found = flat(Gen::Cdna3, format, bits(word, 18, 7), fields, 2)?;
    let lds = matches!(found.0, Op::Vector(_, row) if matches!(row.does, Does::LoadLds(_)));
    (inside(&found) && (!lds || acc == 0) && !odd(format, &found)).then_some(found)
}

/// What holds for MUBUF and MTBUF of every generation.
fn buffer(generation: Gen, format: Format, op: u32, fields: Fields, length: usize) -> Found {
    let row = table::row(generation, format, op)?;
    let cache = fields.cache;
    let valid = match row.does {
        Does::Cache => {
            let flags = [fields.idxen, fields.offen, fields.lds, fields.tfe];
            let cached = generation != Gen::Cdna3 && (cache.glc || cache.dlc);
            !flags.contains(&true) && !cached && fields.vdata < 256
        }
        does => {
            let lds = match does {
                Does::Load(cell) => cell.bytes() <= 4,
                Does::LoadFormat(1) => format == Format::Buffer,
                _ => false,
            };
            (!fields.lds || lds && !fields.tfe)
                && !(fields.tfe && (does.atomic() || format == Format::TypedBuffer))
                && !(generation == Gen::Rdna2 && does.atomic() && cache.dlc)
                && scalar_name(generation, fields.saddr, 4).is_some()
                && (scalar_name(generation, fields.soffset, 1).is_some()
                    || fields.soffset == LITERAL && generation != Gen::Cdna3)
        }
    };
    valid.then_some((Op::Vector(format, row), fields, length))
}

/// Takes the literal that follows, where there is one.
fn literal((op, mut fields, length): (Op, Fields, usize), words: &[u32]) -> Found {
    let cache = matches!(op, Op::Vector(_, row) if matches!(row.does, Does::Cache));
    if fields.soffset != LITERAL || cache {
        return Some((op, fields, length));
    }
    fields.literal = *words.get(length)?;
    Some((op, fields, length + 1))
}

fn buffer_format(word: u64) -> Format {
    if bits(word, 26, 6) == 0b11_1000 {
        Format::Buffer
    } else {
        Format::TypedBuffer
    }
}

/// What MUBUF and MTBUF of RDNA2, RDNA3 and CDNA3 share.
fn buffer_fields(word: u64) -> Fields {
    Fields {
        vdst: byte(word, 40),
        vaddr: byte(word, 32),
        vdata: byte(word, 40),
        saddr: bits(word, 48, 5) as u8 * 4,
        soffset: byte(word, 56) as u8,
        offset: bits(word, 0, 12) as i32,
        format: bits(word, 19, 7) as u8,
        ..Fields::default()
    }
}

fn buffer_rdna2(word: u64) -> Found {
    let format = buffer_format(word);
    let mut fields = Fields {
        offen: bit(word, 12),
        idxen: bit(word, 13),
        tfe: bit(word, 55),
        cache: Cache {
            glc: bit(word, 14),
            slc: bit(word, 54),
            dlc: bit(word, 15),
            ..Cache::default()
        },
        ..buffer_fields(word)
    };
    let op = if format == Format::Buffer {
        fields.lds = bit(word, 16);
        bits(word, 18, 8)
    } else {
        bits(word, 16, 3) | bits(word, 53, 1) << 3
    };
    buffer(Gen::Rdna2, format, op, fields, 2)
}

fn buffer_rdna3(word: u64) -> Found {
    let format = buffer_format(word);
    let fields = Fields {
        offen: bit(word, 54),
        idxen: bit(word, 55),
        tfe: bit(word, 53),
        cache: Cache {
            glc: bit(word, 14),
            slc: bit(word, 12),
            dlc: bit(word, 13),
            ..Cache::default()
        },
        ..buffer_fields(word)
    };
    let op = if format == Format::Buffer {
        bits(word, 18, 8)
    } else {
        bits(word, 15, 4)
    };
    buffer(Gen::Rdna3, format, op, fields, 2)
}

fn buffer_cdna3(word: u64) -> Found {
    let format = buffer_format(word);
    let acc = if bit(word, 55) { 256 } else { 0 };
    let mut fields = Fields {
        offen: bit(word, 12),
        idxen: bit(word, 13),
        ..buffer_fields(word)
    };
    fields.vdst += acc;
    fields.vdata += acc;
    fields.cache.glc = bit(word, 14);
    let op = if format == Format::Buffer {
        fields.cache.slc = bit(word, 17);
        fields.cache.dlc = bit(word, 15);
        fields.lds = bit(word, 16);
        bits(word, 18, 7)
    } else {
        fields.cache.slc = bit(word, 54);
        fields.cache.dlc = bit(word, 53);
        bits(word, 15, 4)
    };
    let found = buffer(Gen::Cdna3, format, op, fields, 2)?;
    (inside(&found) && !(fields.lds && acc != 0)).then_some(found)
}

/// Atomics of CDNA3 that LLVM does not decode: sums into global memory that return to AGPRs, and
/// those of 64 bits with SC1.
fn odd(format: Format, (op, fields, _): &(Op, Fields, usize)) -> bool {
    let Op::Vector(_, row) = op else { return false };
    if !fields.cache.glc || fields.vdst < 256 {
        return false;
    }
    match row.name(Gen::Cdna3) {
        "atomic_add_f32" | "atomic_pk_add_f16" => format == Format::Global,
        "atomic_add_f64" | "atomic_min_f64" | "atomic_max_f64" => fields.cache.dlc,
        _ => false,
    }
}

/// Whether the accumulation registers of an instruction of CDNA3 exist; of others, LLVM does not ask.
fn inside((op, fields, _): &(Op, Fields, usize)) -> bool {
    let Op::Vector(_, row) = op else { return true };
    let fits = |first: u16, count: u8| first < 256 || first + u16::from(count) <= 512;
    let returns = !row.does.atomic() || fields.cache.glc;
    (!returns || fits(fields.vdst, row.does.written())) && fits(fields.vdata, row.does.read())
}

fn buffer_rdna4(word: u64, third: u32) -> Found {
    if bits(word, 48, 2) != 0 || third >> 31 == 1 {
        return None;
    }
    let op = bits(word, 14, 8);
    let format = if op < 128 {
        Format::Buffer
    } else {
        Format::TypedBuffer
    };
    let fields = Fields {
        vdst: byte(word, 32),
        vaddr: (third & 255) as u16,
        vdata: byte(word, 32),
        saddr: bits(word, 41, 7) as u8,
        soffset: bits(word, 0, 7) as u8,
        offset: (third >> 8) as i32,
        idxen: bit(word, 63),
        offen: bit(word, 62),
        tfe: bit(word, 22),
        format: bits(word, 55, 7) as u8,
        cache: cache_rdna4(word),
        ..Fields::default()
    };
    buffer(Gen::Rdna4, format, op, fields, 3)
}
