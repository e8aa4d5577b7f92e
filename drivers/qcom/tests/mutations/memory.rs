//! Bugs of memory: what is not flushed, invalidated, waited for or cleaned; wrong addresses; wrong descriptors.

use drivers_spec::qcom::kgsl::{CacheOp, Memory};
use drivers_spec::qcom::packet::{event_write_0 as event, op};
use drivers_spec::qcom::regs::{self, dword};

use super::mutant::{Bug, How, Packet, Packets, is_constants, is_image, is_texture};

const SYNC: &str = "IOCTL_KGSL_GPUMEM_SYNC_CACHE";
const ALLOC: &str = "IOCTL_KGSL_GPUOBJ_ALLOC";

/// Where GPUMEM_SYNC_CACHE has its operation and its length, and GPUOBJ_ALLOC its flags.
const SYNC_OP: usize = 12;
const SYNC_LENGTH: usize = 24;
const ALLOC_FLAGS: usize = 8;

/// The operation of a call for the CPU's cache.
fn operation(data: &[u8]) -> CacheOp {
    let word = data[SYNC_OP..].first_chunk().unwrap();
    CacheOp::from_bits_retain(u32::from_le_bytes(*word))
}

fn is_clean(data: &[u8]) -> bool {
    !operation(data).contains(CacheOp::FROM_GPU)
}

fn without_event(packets: &mut Packets, number: u32) {
    packets.without(op::EVENT_WRITE, |body| event::EVENT.get(body[0]) == number);
}

/// Nothing in place of packets of an operation.
fn without(packets: &mut Packets, op: u8) {
    packets.without(op, |_| true);
}

pub const BUGS: &[Bug] = &[
    Bug {
        what: "caches are never invalidated",
        rule: "GPU-UCHE-INVALIDATE",
        how: How::Packets(|p| without_event(p, event::CACHE_INVALIDATE)),
    },
    Bug {
        what: "texture caches are not invalidated between a copy and a launch that reads an image",
        rule: "GPU-TEXTURE-INVALIDATE",
        how: How::Packets(|p| {
            if p.has_load(is_texture) {
                without_event(p, event::CACHE_INVALIDATE);
            }
        }),
    },
    Bug {
        what: "code in the place of other code is not fetched anew",
        rule: "GPU-INSTRUCTION-INVALIDATE",
        how: How::Packets(|p| p.omit(&regs::SP_UPDATE_CNTL)),
    },
    Bug {
        what: "a barrier flushes the caches of pixels, not those of shaders",
        rule: "GPU-UCHE-FLUSH",
        how: How::Packets(|p| {
            p.change(op::EVENT_WRITE, |body| {
                if event::EVENT.get(body[0]) == event::CACHE_FLUSH_TS {
                    body[0] = event::EVENT.put(event::RB_DONE_TS);
                }
            });
        }),
    },
    Bug {
        what: "launches that depend on each other do not wait",
        rule: "CS-OVERLAP",
        how: How::Packets(|p| without(p, op::WAIT_FOR_IDLE)),
    },
    Bug {
        what: "a word is looked at while a launch may still write it",
        rule: "CP-WAIT-FOR-IDLE",
        how: How::Packets(|p| without(p, op::WAIT_FOR_IDLE)),
    },
    Bug {
        what: "a time is read before it is in memory",
        rule: "CP-WAIT-MEM-WRITES",
        how: How::Packets(|p| without(p, op::WAIT_MEM_WRITES)),
    },
    Bug {
        what: "what the CPU has written is not cleaned",
        rule: "CPU-CACHE-CLEAN",
        how: How::Call(SYNC, |data| !is_clean(data)),
    },
    Bug {
        what: "only the first line of what the CPU has written is cleaned",
        rule: "CPU-CACHE-CLEAN",
        how: How::Call(SYNC, |data| {
            data[SYNC_LENGTH..SYNC_LENGTH + 8].copy_from_slice(&64u64.to_le_bytes());
            true
        }),
    },
    Bug {
        what: "what the GPU has written is not fetched before the CPU writes beside it",
        rule: "CPU-CACHE-OVERWRITES",
        how: How::Call(SYNC, |data| is_clean(data)),
    },
    Bug {
        what: "memory that the GPU writes is mapped for reads",
        rule: "ADRENO-PAGE-FAULT",
        how: How::Call(ALLOC, |data| {
            let flags = data[ALLOC_FLAGS..].first_chunk().unwrap();
            let flags = u64::from_le_bytes(*flags) | Memory::GPUREADONLY.bits();
            data[ALLOC_FLAGS..ALLOC_FLAGS + 8].copy_from_slice(&flags.to_le_bytes());
            true
        }),
    },
    Bug {
        what: "the upper halves of the arguments' addresses are another one",
        rule: "ADRENO-PAGE-FAULT",
        how: How::State(|state, words| {
            if is_constants(&state) {
                words[1] |= 0x1000;
            }
        }),
    },
    Bug {
        what: "private memory is at address 0",
        rule: "ADRENO-PAGE-FAULT",
        how: How::Packets(|p| {
            p.set(&regs::SP_CS_PVT_MEM_BASE, |_| 0);
            p.set(&regs::SP_CS_PVT_MEM_BASE_HI, |_| 0);
        }),
    },
    Bug {
        what: "a signal is written where nothing is",
        rule: "ADRENO-PAGE-FAULT",
        how: How::Packets(|p| {
            p.change(op::EVENT_WRITE, |body| {
                if body.len() == 4 {
                    body[2] ^= 0x70;
                }
            });
        }),
    },
    Bug {
        what: "images lie at address 0",
        rule: "ADRENO-PAGE-FAULT",
        how: How::State(|state, words| {
            if is_texture(&state) || is_image(&state) {
                (words[4], words[5]) = (0, words[5] & !0x1_ffff);
            }
        }),
    },
    Bug {
        what: "the rows of a texture overlap",
        rule: "IR3-DESCRIPTOR",
        how: How::State(|state, words| {
            if is_texture(&state) {
                // PITCH is 28:7.
                words[2] = words[2] & !(0x3f_ffff << 7) | 16 << 7;
            }
        }),
    },
    Bug {
        what: "a texture has a format that there is not",
        rule: "IR3-DESCRIPTOR",
        how: How::State(|state, words| {
            if is_texture(&state) {
                words[0] |= 0xff << 22;
            }
        }),
    },
    Bug {
        what: "registers before others of the launch are written behind it",
        rule: "CS-REGISTER-MISSING",
        how: How::Packets(|p| {
            let is_config = |packet: &Packet| {
                matches!(packet, Packet::Registers { first, .. }
                    if *first == dword(&regs::SP_CS_CONFIG))
            };
            if let Some(at) = p.0.iter().position(is_config) {
                let config = p.0.remove(at);
                p.0.push(config);
            }
        }),
    },
];

/// Those that do no harm on Linux 4.9, which cleans lines before it drops them.
pub const NEWER: &[Bug] = &[Bug {
    what: "what the CPU has written is dropped, not cleaned",
    rule: "CPU-CACHE-DROPS",
    how: How::Call(SYNC, |data| {
        let op = CacheOp::FROM_GPU | CacheOp::RANGE;
        data[SYNC_OP..SYNC_OP + 4].copy_from_slice(&op.bits().to_le_bytes());
        true
    }),
}];
