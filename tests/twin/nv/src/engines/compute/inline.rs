//! Bytes that come in the push buffer itself (I2M).
//!
//! Source: open-gpu-doc, classes/compute/clc7c0.h, LAUNCH_DMA, LOAD_INLINE_DATA; Mesa,
//! src/nouveau/vulkan/nvk_cmd_buffer.c; tinygrad, ops_nv.py.

use drivers_spec::nv::compute::{self as spec, launch_dma as bits};
use twin::rule::{Proof, Rule};

use super::super::error::{Result, xid};
use super::super::port::Port;
use super::super::registers::Registers;

static INLINE: Rule = Rule {
    name: "COMPUTE-INLINE",
    text: "LAUNCH_DMA is followed by as many words of LOAD_INLINE_DATA as its lines have",
    source: "open-gpu-doc, classes/compute/clc7c0.h, LAUNCH_DMA, LOAD_INLINE_DATA; Mesa, nvk_cmd_buffer.c",
    proof: Proof::Sourced,
};

static NOT_MODELLED: Rule = Rule {
    name: "COMPUTE-INLINE-NOT-MODELLED",
    text: "inline data is written to lines in memory, without a semaphore and without a reduction",
    source: "this twin: src/engines/compute/inline.rs",
    proof: Proof::Twin,
};

/// Data on its way.
#[derive(Debug)]
pub(crate) struct Inline {
    va: u64,
    pitch: u64,
    length: usize,
    lines: usize,
    bytes: Vec<u8>,
}

impl Inline {
    /// LAUNCH_DMA.
    pub fn new(port: &Port, r: &Registers, value: u32, old: Option<Self>) -> Result<Self> {
        let text = format!("LAUNCH_DMA {value:#x} of compute");
        if let Some(old) = old {
            let what = format!("{text}, of {} bytes of the one before", old.bytes.len());
            return Err(port.dead(&INLINE, xid::GR_CLASS, what));
        }
        let plain = bits::DST_MEMORY_LAYOUT.get(value) == bits::DST_MEMORY_LAYOUT_PITCH
            && bits::REDUCTION_ENABLE.get(value) == 0
            && bits::COMPLETION_TYPE.get(value) != bits::COMPLETION_TYPE_RELEASE_SEMAPHORE;
        if !plain {
            return Err(port.dead(&NOT_MODELLED, xid::GR_CLASS, text));
        }
        let mask = spec::OFFSET_OUT_UPPER.mask(port.arch);
        Ok(Self {
            va: r.long(&spec::OFFSET_OUT_UPPER, &spec::OFFSET_OUT, mask),
            pitch: r.get(&spec::PITCH_OUT).into(),
            length: r.get(&spec::LINE_LENGTH_IN) as usize,
            lines: r.get(&spec::LINE_COUNT).max(1) as usize,
            bytes: Vec::new(),
        })
    }

    /// LOAD_INLINE_DATA; what is complete is done.
    pub fn load(port: &Port, open: &mut Option<Self>, value: u32) -> Result<Option<Self>> {
        let Some(inline) = open else {
            let what = format!("LOAD_INLINE_DATA {value:#x} after none, or too much");
            return Err(port.dead(&INLINE, xid::GR_CLASS, what));
        };
        inline.bytes.extend(value.to_le_bytes());
        let total = inline.length.next_multiple_of(4) * inline.lines;
        Ok(match inline.bytes.len() < total {
            true => None,
            false => open.take(),
        })
    }

    pub fn run(&self, port: &Port) -> Result {
        let step = self.length.next_multiple_of(4);
        for line in 0..self.lines {
            let data = &self.bytes[line * step..][..self.length];
            port.write("inline data", self.va + line as u64 * self.pitch, data)?;
        }
        Ok(())
    }
}
