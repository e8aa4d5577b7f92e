//! A QMD that comes in the push buffer: its last word starts the grid, without a SEND_PCAS.
//!
//! Source: open-gpu-doc, classes/compute/{clc6c0,clcbc0}.h, SET_INLINE_QMD_ADDRESS,
//! LOAD_INLINE_QMD_DATA; tinygrad 0.9, runtime/ops_nv.py, which started its kernels so.

use drivers_spec::nv::chip::Method;
use drivers_spec::nv::compute::{self as spec, set_inline_qmd_address_a as bits};
use twin::rule::{Proof, Rule};

use super::super::error::{Result, xid};
use super::super::port::Port;
use super::super::registers::Registers;

static ORDER: Rule = Rule {
    name: "COMPUTE-INLINE-QMD",
    text: "all words of an inline QMD are sent in order, after SET_INLINE_QMD_ADDRESS has set its address",
    source: "open-gpu-doc, classes/compute/clc7c0.h, LOAD_INLINE_QMD_DATA; tinygrad 0.9, ops_nv.py, exec; that another order is none is ours",
    proof: Proof::Guess,
};

/// The words of QMDs of 256 and of 384 bytes.
const WORDS: [u32; 2] = [64, 96];

/// Which word of an inline QMD a method is, of the row of the table that it is in.
pub(super) fn index(named: &Method, dword: u32) -> Option<u32> {
    let first = spec::LOAD_INLINE_QMD_DATA.dword();
    (named.dword() == first).then(|| dword - first)
}

/// The words that have come.
#[derive(Debug, Default)]
pub(super) struct Load(Vec<u32>);

impl Load {
    /// A word has come; where the QMD lies, and all of it, once it was the last one.
    pub fn word(
        &mut self,
        port: &Port,
        r: &Registers,
        index: u32,
    ) -> Result<Option<(u64, Vec<u32>)>> {
        let upper = r.get(&spec::SET_INLINE_QMD_ADDRESS_A);
        let late = bits::INLINE_SIZE.on.has(port.arch);
        let (mask, long) = match late {
            true => (
                bits::QMD_ADDRESS_SHIFTED8_UPPER.mask(),
                bits::INLINE_SIZE.get(upper) == bits::INLINE_SIZE_INLINE_384,
            ),
            false => (bits::QMD_ADDRESS_SHIFTED8_UPPER_TO_AD10X.mask(), false),
        };
        let address = r.long(
            &spec::SET_INLINE_QMD_ADDRESS_A,
            &spec::SET_INLINE_QMD_ADDRESS_B,
            mask,
        );
        let (va, words) = (address << 8, WORDS[usize::from(long)]);
        let next = self.0.len() as u32;
        if index != next || va == 0 {
            let what = format!("word {index} of {words}, after {next}, for a QMD at {va:#x}");
            return Err(port.dead(&ORDER, xid::GR_CLASS, what));
        }
        self.0
            .push(r.word(index + spec::LOAD_INLINE_QMD_DATA.dword()));
        if next + 1 < words {
            return Ok(None);
        }
        let words = std::mem::take(&mut self.0);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        port.write("the scheduler keeps an inline QMD", va, &bytes)?;
        Ok(Some((va, words)))
    }
}
