//! The words of a push buffer: headers, and the methods that they make of what follows.
//!
//! Source: open-gpu-doc, manuals/ampere/ga100/dev_ram.ref.txt, "Host Pushbuffer Format".

use drivers_spec::nv::push::header;
use twin::rule::{Proof, Rule};

use super::super::error::{Result, xid};
use super::super::port::Port;

static ENTRY: Rule = Rule {
    name: "HOST-PB-ENTRY",
    text: "a header in the push buffer is one that the host supports, and its methods have valid addresses",
    source: "open-gpu-doc, manuals/ampere/ga100/dev_pbdma.ref.txt, NV_PPBDMA_INTR_0_PBENTRY; dev_ram.ref.txt, FIFO_DMA",
    proof: Proof::Sourced,
};

static RESERVED: Rule = Rule {
    name: "HOST-PB-RESERVED",
    text: "bit 12 of a header is 0",
    source: "open-gpu-doc, manuals/ampere/ga100/dev_ram.ref.txt, FIFO_DMA: reserved for the future expansion",
    proof: Proof::Sourced,
};

/// A word for an engine, or for the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Method {
    pub subchannel: u32,
    /// In dwords.
    pub dword: u32,
    pub value: u32,
    /// Whether it is the last one of its header.
    pub last: bool,
}

/// How addresses go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Steps {
    Each,
    Once,
    Never,
}

/// Methods that a header has announced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence {
    steps: Steps,
    subchannel: u32,
    dword: u32,
    left: u32,
    immediate: Option<u32>,
}

/// What a word is, where a header is due.
#[derive(Clone, Copy, Debug)]
pub(super) enum Header {
    Sequence(Sequence),
    /// The mask of subdevices is this one.
    Mask(u32),
    /// This mask is kept.
    Store(u32),
    /// The mask that was kept is used.
    Use,
    Nothing,
    /// The segment ends here.
    End,
}

/// The last address of a method, in dwords.
const LAST: u32 = 0xfff;

pub(super) fn header(port: &Port, word: u32) -> Result<Header> {
    if word == 0 {
        return Ok(Header::Nothing);
    }
    let illegal = |why: &str| Err(port.dead(&ENTRY, xid::PBDMA, format!("{word:#010x}: {why}")));
    let count = header::METHOD_COUNT.get(word);
    let dword = header::METHOD_ADDRESS.get(word);
    let sequence = |steps, left, immediate| {
        if word & 1 << 12 != 0 {
            port.broken(&RESERVED, format!("{word:#010x}"));
        }
        Ok(Header::Sequence(Sequence {
            steps,
            subchannel: header::METHOD_SUBCHANNEL.get(word),
            dword,
            left,
            immediate,
        }))
    };
    match header::SEC_OP.get(word) {
        0 => {
            // Bits 17:16 say which; those above are 0.
            let mask = word >> 4 & 0xfff;
            match word >> 16 {
                1 => Ok(Header::Mask(mask)),
                2 => Ok(Header::Store(mask)),
                3 => Ok(Header::Use),
                _ => illegal("a format that is no more"),
            }
        }
        // Without data, the rest is ignored.
        header::SEC_OP_INC_METHOD | header::SEC_OP_NON_INC_METHOD | header::SEC_OP_ONE_INC
            if count == 0 =>
        {
            Ok(Header::Nothing)
        }
        header::SEC_OP_INC_METHOD if dword + count - 1 > LAST => illegal("addresses wrap"),
        header::SEC_OP_INC_METHOD => sequence(Steps::Each, count, None),
        header::SEC_OP_NON_INC_METHOD => sequence(Steps::Never, count, None),
        header::SEC_OP_ONE_INC if count > 1 && dword == LAST => illegal("addresses wrap"),
        header::SEC_OP_ONE_INC => sequence(Steps::Once, count, None),
        header::SEC_OP_IMMD_DATA_METHOD => sequence(Steps::Never, 1, Some(count)),
        header::SEC_OP_END_PB_SEGMENT => Ok(Header::End),
        _ => illegal("a reserved operation"),
    }
}

impl Sequence {
    /// Whether its next method has its word with it.
    pub fn immediate(&self) -> Option<u32> {
        self.immediate
    }

    pub fn left(&self) -> u32 {
        self.left
    }

    /// The next method, with its word.
    pub fn method(&self, value: u32) -> Method {
        Method {
            subchannel: self.subchannel,
            dword: self.dword,
            value,
            last: self.left == 1,
        }
    }

    /// Goes on to the one after it.
    pub fn advance(&mut self) {
        self.left -= 1;
        match self.steps {
            Steps::Each => self.dword += 1,
            Steps::Once => {
                self.dword += 1;
                self.steps = Steps::Never;
            }
            Steps::Never => {}
        }
    }
}
