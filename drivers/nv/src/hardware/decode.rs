//! Decodes push buffers, for messages and traces. Not on the submission path.

use std::collections::HashMap;

use drivers_gpu::core::Core;
use drivers_gpu::submit::decode::{Doing, Packet, Test, peek_words};
use drivers_spec::nv::cubin::bank0;
use drivers_spec::nv::host::{self, sem_execute as sem};
use drivers_spec::nv::push::header::{
    METHOD_ADDRESS, METHOD_COUNT, METHOD_SUBCHANNEL, SEC_OP, SEC_OP_IMMD_DATA_METHOD,
    SEC_OP_INC_METHOD, SEC_OP_NON_INC_METHOD, SEC_OP_ONE_INC,
};
use drivers_spec::nv::push::subchannel::{COMPUTE, COPY};
use drivers_spec::nv::push::{gp_entry0, gp_entry1};
use drivers_spec::nv::qmd::{self, Version};
use drivers_spec::nv::{compute, copy};

use super::ring::ENTRY;
use crate::encode::Setup;
use crate::encode::push::length;

#[cfg(test)]
mod tests;

/// Maximum number of decoded packets. The rest is reported as one unknown packet.
const MOST: usize = 4096;

/// Methods below are the channel's own, on every subchannel.
const HOST: u32 = 0x40;

/// What the push buffers do that entries name, in order. Positions are those of the entries, counted from
/// `start` on.
pub(super) fn decode(core: &Core, setup: &Setup, entries: &[u32], start: u64) -> Vec<Packet> {
    walk(
        &|at, dwords| peek_words(core, at, dwords),
        setup,
        entries,
        start,
    )
}

/// Gives dwords of memory at an address, as many of them as there are.
type Peek<'a> = &'a dyn Fn(u64, usize) -> Option<Vec<u32>>;

fn walk(peek: Peek<'_>, setup: &Setup, entries: &[u32], start: u64) -> Vec<Packet> {
    let mut walk = Walk {
        peek,
        setup,
        state: HashMap::new(),
        found: Vec::new(),
        position: start,
        is_cut: false,
    };
    for entry in entries.chunks_exact(ENTRY) {
        if walk.found.len() >= MOST {
            walk.unknown(entry[0]);
            break;
        }
        let dwords = gp_entry1::LENGTH.get(entry[1]);
        let low = u64::from(gp_entry0::GET.get(entry[0])) << 2;
        let address = low | u64::from(gp_entry1::GET_HI.get(entry[1])) << 32;
        // Entries without a length are instructions.
        if dwords > 0 {
            match peek(address, dwords as usize) {
                Some(words) => walk.words(&words),
                None => walk.unknown(entry[0]),
            }
        }
        if walk.is_cut {
            break;
        }
        walk.position += ENTRY as u64;
    }
    walk.found
}

struct Walk<'a> {
    peek: Peek<'a>,
    setup: &'a Setup,
    /// The last value of each method of a subchannel; the channel's own methods are on subchannel 0.
    state: HashMap<(u32, u32), u32>,
    found: Vec<Packet>,
    position: u64,
    /// There are more packets than are looked at.
    is_cut: bool,
}

impl Walk<'_> {
    fn words(&mut self, words: &[u32]) {
        let mut at = 0;
        while at < words.len() && self.found.len() < MOST {
            let header = words[at];
            let subchannel = METHOD_SUBCHANNEL.get(header);
            let first = METHOD_ADDRESS.get(header);
            let length = length(header);
            let data = words.get(at + 1..).unwrap_or_default();
            let data = &data[..data.len().min(length - 1)];
            match SEC_OP.get(header) {
                SEC_OP_IMMD_DATA_METHOD => self.method(subchannel, first, METHOD_COUNT.get(header)),
                op @ (SEC_OP_INC_METHOD | SEC_OP_NON_INC_METHOD | SEC_OP_ONE_INC) => {
                    for (i, &value) in data.iter().enumerate() {
                        let step = match op {
                            SEC_OP_INC_METHOD => i as u32,
                            SEC_OP_ONE_INC => i.min(1) as u32,
                            _ => 0,
                        };
                        self.method(subchannel, first + step, value);
                    }
                }
                _ => {}
            }
            at += length;
        }
        if let Some(&word) = words.get(at) {
            self.unknown(word);
            self.is_cut = true;
        }
    }

    /// What cannot be read back.
    fn unknown(&mut self, word: u32) {
        self.found.push(Packet {
            position: self.position,
            doing: Doing::Unknown { word },
        });
    }

    fn method(&mut self, subchannel: u32, method: u32, value: u32) {
        let subchannel = match method < HOST {
            true => 0,
            false => subchannel,
        };
        self.state.insert((subchannel, method), value);
        let doing = match subchannel {
            0 if method == host::SEM_EXECUTE.dword() => self.semaphore(value),
            COPY if method == copy::LAUNCH_DMA.dword() => self.transfer(value),
            COMPUTE if method == compute::SEND_PCAS_A.dword() => self.launch(u64::from(value) << 8),
            _ => None,
        };
        let position = self.position;
        self.found
            .extend(doing.map(|doing| Packet { position, doing }));
    }

    /// A method's value.
    fn of(&self, subchannel: u32, method: u32) -> u64 {
        let value = self.state.get(&(subchannel, method));
        value.copied().unwrap_or(0).into()
    }

    /// Two methods as one value.
    fn wide(&self, subchannel: u32, low: u32, high: u32) -> u64 {
        self.of(subchannel, low) | self.of(subchannel, high) << 32
    }

    fn semaphore(&self, execute: u32) -> Option<Doing> {
        let at = self.wide(0, host::SEM_ADDR_LO.dword(), host::SEM_ADDR_HI.dword());
        let bytes = match sem::PAYLOAD_SIZE.get(execute) {
            sem::PAYLOAD_SIZE_64BIT => 8,
            _ => 4,
        };
        let all = u64::MAX >> (64 - bytes * 8);
        let (low, high) = (host::SEM_PAYLOAD_LO, host::SEM_PAYLOAD_HI);
        let payload = self.wide(0, low.dword(), high.dword()) & all;
        let (mask, value, test) = match sem::OPERATION.get(execute) {
            sem::OPERATION_RELEASE => return Some(Doing::Signal { at, value: payload }),
            sem::OPERATION_ACQUIRE => (all, payload, Test::Equal),
            // Around the circle: values are far from its other half.
            sem::OPERATION_ACQ_STRICT_GEQ | sem::OPERATION_ACQ_CIRC_GEQ => {
                (all, payload, Test::GreaterEqual)
            }
            sem::OPERATION_ACQ_AND => (payload, 0, Test::NotEqual),
            sem::OPERATION_ACQ_NOR => (!payload & all, !payload & all, Test::NotEqual),
            _ => return None,
        };
        Some(Doing::Wait {
            at,
            bytes,
            mask,
            value,
            test,
        })
    }

    fn transfer(&self, launch: u32) -> Option<Doing> {
        let (upper, lower) = (copy::OFFSET_OUT_UPPER, copy::OFFSET_OUT_LOWER);
        let dst = self.wide(COPY, lower.dword(), upper.dword());
        let length = self.of(COPY, copy::LINE_LENGTH_IN.dword());
        Some(match copy::launch_dma::REMAP_ENABLE.get(launch) {
            1 => Doing::Fill {
                at: dst,
                value: self.of(COPY, copy::SET_REMAP_CONST_B.dword()) as u32,
                bytes: length * 4,
            },
            _ => {
                let (upper, lower) = (copy::OFFSET_IN_UPPER, copy::OFFSET_IN_LOWER);
                Doing::Copy {
                    dst,
                    src: self.wide(COPY, lower.dword(), upper.dword()),
                    bytes: length,
                }
            }
        })
    }

    /// The grid of a QMD.
    fn launch(&self, at: u64) -> Option<Doing> {
        let known = self.setup.arch.facts().qmds;
        let most = known.iter().map(|version| version.dwords()).max()?;
        let words = (self.peek)(at, most)?;
        let version = Version::of(known, &words)?;
        let code = qmd::PROGRAM_ADDRESS.get(version, 0, &words)?;
        let bank = qmd::CONSTANT_BUFFER_ADDR.get(version, 0, &words);
        let params = bank0(self.setup.limits.sm).map(|bank0| u64::from(bank0.params));
        Some(Doing::Launch {
            code,
            arguments: bank
                .zip(params)
                .map(|(bank, at)| bank + at)
                .into_iter()
                .collect(),
        })
    }
}
