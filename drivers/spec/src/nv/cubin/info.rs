//! Attributes of kernels (`EIATTR_*`): a form, a number, and a value or the size of one that follows.

use std::collections::HashMap;

use super::{CubinError, Param, Result};

/// The value has as many bytes as the 16 bits say.
const SIZED: u8 = 4;

const MAX_THREADS: u8 = 0x05;
const PARAM_CBANK: u8 = 0x0a;
const FRAME_SIZE: u8 = 0x11;
const MIN_STACK_SIZE: u8 = 0x12;
const KPARAM_INFO: u8 = 0x17;
const CBANK_PARAM_SIZE: u8 = 0x19;
const REGCOUNT: u8 = 0x2f;
const NUM_BARRIERS: u8 = 0x4c;

fn damaged(what: &str) -> CubinError {
    CubinError::Malformed(format!("kernel attributes: {what}"))
}

/// The attributes of a section.
fn records(mut bytes: &[u8]) -> Result<Vec<(u8, u16, &[u8])>> {
    let mut out = Vec::new();
    while let [form, attribute, low, high, rest @ ..] = bytes {
        let value = u16::from_le_bytes([*low, *high]);
        let size = if *form == SIZED { value.into() } else { 0 };
        let (own, next) = rest.split_at_checked(size).ok_or_else(|| {
            damaged(&format!(
                "{attribute:#x} has {size} bytes, past the end of the section"
            ))
        })?;
        out.push((*attribute, value, own));
        bytes = next;
    }
    match bytes {
        [] => Ok(out),
        _ => Err(damaged("incomplete last attribute")),
    }
}

/// A dword of a value.
fn word(attribute: u8, bytes: &[u8], index: usize) -> Result<u32> {
    let at = bytes.get(4 * index..4 * index + 4);
    let word = at.and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
    word.ok_or_else(|| damaged(&format!("{attribute:#x} has {} bytes", bytes.len())))
}

/// What the file says of a symbol.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct OfSymbol {
    pub registers: Option<u32>,
    pub stack: u32,
}

/// What `.nv.info` says, by the number of a symbol.
pub(super) fn global(bytes: &[u8]) -> Result<HashMap<u32, OfSymbol>> {
    let mut out: HashMap<u32, OfSymbol> = HashMap::new();
    for (attribute, _, value) in records(bytes)? {
        if ![REGCOUNT, FRAME_SIZE, MIN_STACK_SIZE].contains(&attribute) {
            continue;
        }
        let entry = out.entry(word(attribute, value, 0)?).or_default();
        let number = word(attribute, value, 1)?;
        match attribute {
            REGCOUNT => entry.registers = Some(number),
            // The smallest stack counts what is called; without calls it is the frame.
            _ => entry.stack = entry.stack.max(number),
        }
    }
    Ok(out)
}

/// What `.nv.info.NAME` says of a kernel.
#[derive(Default, Debug)]
pub(super) struct Info {
    /// Where parameters begin in constant bank 0, and their bytes.
    pub bank: Option<(u32, u32)>,
    pub param_bytes: u32,
    pub params: Vec<Param>,
    pub barriers: Option<u32>,
    pub max_threads: Option<[u32; 3]>,
}

impl Info {
    pub fn of(bytes: &[u8]) -> Result<Info> {
        let mut info = Info::default();
        let mut params = Vec::new();
        for (attribute, inline, value) in records(bytes)? {
            let word = |index| word(attribute, value, index);
            match attribute {
                PARAM_CBANK => info.bank = Some((word(1)? & 0xffff, word(1)? >> 16)),
                CBANK_PARAM_SIZE => info.param_bytes = inline.into(),
                KPARAM_INFO => {
                    let (place, size) = (word(1)?, word(2)? >> 18);
                    let offset = place >> 16;
                    params.push((place & 0xffff, Param { offset, size }));
                }
                NUM_BARRIERS => info.barriers = Some(u32::from(inline & 0xff)),
                MAX_THREADS => info.max_threads = Some([word(0)?, word(1)?, word(2)?]),
                _ => {}
            }
        }
        params.sort_by_key(|(ordinal, _)| *ordinal);
        let numbered = params
            .iter()
            .zip(0..)
            .all(|((ordinal, _), i)| *ordinal == i);
        if !numbered {
            return Err(damaged("parameter numbers do not start at 0"));
        }
        info.params = params.into_iter().map(|(_, param)| param).collect();
        Ok(info)
    }
}
