//! Bugs of packets: headers, lengths, fields, order.

use drivers_spec::qcom::packet::{
    event_write_0 as event, header4, header7, load_state6_0 as load, op, reg_to_mem_0, type4, type7,
};
use drivers_spec::qcom::regs::{self, dword};

use super::mutant::{Bug, How, Packet, Packets, is_constants, is_texture};

/// Edits the first header that a test finds.
fn header(words: &mut [u32], is: impl Fn(u32) -> bool, edit: impl Fn(&mut u32)) {
    if let Some(word) = words.iter_mut().find(|word| is(**word)) {
        edit(word);
    }
}

fn is_exec(word: u32) -> bool {
    word == type7(op::EXEC_CS, 4)
}

fn is_range(word: u32) -> bool {
    word == type4(dword(&regs::SP_CS_NDRANGE_0), 12)
}

/// Puts packets before each launch.
fn before_launches(packets: &mut Packets, added: &[Packet]) {
    let mut all = Vec::new();
    for packet in packets.0.drain(..) {
        if matches!(
            &packet,
            Packet::Command {
                op: op::EXEC_CS,
                ..
            }
        ) {
            all.extend_from_slice(added);
        }
        all.push(packet);
    }
    packets.0 = all;
}

fn command(op: u8, body: &[u32]) -> Packet {
    let body = body.to_vec();
    Packet::Command { op, body }
}

/// Edits events that write a value.
fn events(packets: &mut Packets, edit: impl Fn(&mut Vec<u32>)) {
    packets.change(op::EVENT_WRITE, |body| {
        if body.len() == 4 {
            edit(body);
        }
    });
}

pub const BUGS: &[Bug] = &[
    Bug {
        what: "the parity bit of a count is the other one",
        rule: "CP-HEADER-PARITY",
        how: How::Words(|w| header(w, is_exec, |h| *h ^= header7::COUNT_PARITY.put(1))),
    },
    Bug {
        what: "the parity bit of an operation is the other one",
        rule: "CP-HEADER-PARITY",
        how: How::Words(|w| header(w, is_exec, |h| *h ^= header7::OPCODE_PARITY.put(1))),
    },
    Bug {
        what: "the parity bit of a register is the other one",
        rule: "CP-HEADER-PARITY",
        how: How::Words(|w| header(w, is_range, |h| *h ^= header4::REGISTER_PARITY.put(1))),
    },
    Bug {
        what: "a bit of a header that has no meaning is set",
        rule: "CP-HEADER-RESERVED",
        how: How::Words(|w| header(w, is_exec, |h| *h |= 1 << 24)),
    },
    Bug {
        what: "a packet is of type 3, as those of older generations",
        rule: "CP-PACKET-TYPE",
        how: How::Words(|w| header(w, is_exec, |h| *h = *h & 0x0fff_ffff | 3 << 30)),
    },
    Bug {
        what: "the last packet of a submission ends behind it",
        rule: "CP-PACKET-WHOLE",
        how: How::Words(|w| {
            if w.contains(&type7(op::EVENT_WRITE, 4)) {
                w.pop();
            }
        }),
    },
    Bug {
        what: "a packet writes no register",
        rule: "CP-REGISTER-RANGE",
        how: How::Words(|w| {
            header(w, is_range, |h| {
                *h = *h & !(header4::COUNT.mask() | header4::COUNT_PARITY.mask())
                    | header4::COUNT_PARITY.put(1);
            });
        }),
    },
    Bug {
        what: "a launch has three dwords",
        rule: "CP-PACKET-LENGTH",
        how: How::Packets(|p| p.change(op::EXEC_CS, |body| body.truncate(body.len() - 1))),
    },
    Bug {
        what: "a flush has no address",
        rule: "CP-PACKET-LENGTH",
        how: How::Packets(|p| events(p, |body| body.truncate(1))),
    },
    Bug {
        what: "an invalidation has an address",
        rule: "CP-PACKET-LENGTH",
        how: How::Packets(|p| {
            p.change(op::EVENT_WRITE, |body| {
                if body.len() == 1 {
                    body.extend([0x1000, 0, 0]);
                }
            });
        }),
    },
    Bug {
        what: "a time is written to half an address",
        rule: "CP-PACKET-LENGTH",
        how: How::Packets(|p| p.change(op::REG_TO_MEM, |body| body.truncate(body.len() - 1))),
    },
    Bug {
        what: "a wait has a bit that no field has",
        rule: "CP-PACKET-BITS",
        how: How::Packets(|p| p.change(op::WAIT_REG_MEM, |body| body[0] |= 1 << 20)),
    },
    Bug {
        what: "the first dword of a launch is not zero",
        rule: "CP-PACKET-BITS",
        how: How::Packets(|p| p.change(op::EXEC_CS, |body| body[0] = 1)),
    },
    Bug {
        what: "an event is one of graphics",
        rule: "CP-EVENT",
        how: How::Packets(|p| {
            p.change(op::EVENT_WRITE, |body| {
                if body.len() == 1 {
                    body[0] = event::EVENT.put(0x25);
                }
            });
        }),
    },
    Bug {
        what: "a marker is one of the kernel's",
        rule: "CP-MARKER",
        how: How::Packets(|p| p.change(op::SET_MARKER, |body| body[0] = 13)),
    },
    Bug {
        what: "nothing says that what follows is compute",
        rule: "CS-MARKER",
        how: How::Packets(|p| p.without(op::SET_MARKER, |_| true)),
    },
    Bug {
        what: "the marker is that of drawing",
        rule: "CS-MARKER",
        how: How::Packets(|p| p.change(op::SET_MARKER, |body| body[0] = 1)),
    },
    Bug {
        what: "a launch has the operation of a draw",
        rule: "CP-OPERATION",
        how: How::Packets(|p| {
            for packet in &mut p.0 {
                if let Packet::Command { op, .. } = packet
                    && *op == op::EXEC_CS
                {
                    // CP_DRAW_INDX_OFFSET.
                    *op = 0x38;
                }
            }
        }),
    },
    Bug {
        what: "registers of a launch begin one too early",
        rule: "CP-REGISTER",
        how: How::Packets(|p| {
            for packet in &mut p.0 {
                if let Packet::Registers { first, .. } = packet
                    && *first == dword(&regs::SP_CS_NDRANGE_0)
                {
                    *first -= 1;
                }
            }
        }),
    },
    Bug {
        what: "more textures are counted than the field holds",
        rule: "CP-REGISTER-BITS",
        how: How::Packets(|p| p.set(&regs::SP_CS_TSIZE, |_| 0x100)),
    },
    Bug {
        what: "the mode of image loads is none",
        rule: "CP-REGISTER-VALUE",
        how: How::Packets(|p| p.set(&regs::TPL1_MODE_CNTL, |_| 0)),
    },
    Bug {
        what: "code begins at a multiple of 16",
        rule: "CP-REGISTER-VALUE",
        how: How::Packets(|p| p.set(&regs::SP_CS_BASE, |base| base + 16)),
    },
    Bug {
        what: "descriptors of textures lie at a multiple of 32",
        rule: "CP-REGISTER-VALUE",
        how: How::Packets(|p| p.set(&regs::SP_CS_TEXMEMOBJ_BASE, |base| base + 32)),
    },
    Bug {
        what: "border colours lie at a multiple of 64",
        rule: "CP-REGISTER-VALUE",
        how: How::Packets(|p| p.set(&regs::TPL1_CS_BORDER_COLOR_BASE, |base| base + 64)),
    },
    Bug {
        what: "the counter for times is set",
        rule: "CP-REGISTER-READ-ONLY",
        how: How::Packets(|p| {
            p.0.push(Packet::Registers {
                first: dword(&regs::CP_ALWAYS_ON_COUNTER),
                values: vec![0],
            });
        }),
    },
    Bug {
        what: "a signal lies 2 bytes further on",
        rule: "CP-ADDRESS-ALIGN",
        how: How::Packets(|p| events(p, |body| body[1] += 2)),
    },
    Bug {
        what: "a time is three registers, read in pairs",
        rule: "CP-REG-TO-MEM-PAIRS",
        how: How::Packets(|p| {
            p.change(op::REG_TO_MEM, |body| {
                body[0] = body[0] & !reg_to_mem_0::CNT.mask() | reg_to_mem_0::CNT.put(3);
            });
        }),
    },
    Bug {
        what: "an indirect buffer has no dwords",
        rule: "CP-IB-SIZE",
        how: How::Packets(|p| {
            before_launches(p, &[command(op::INDIRECT_BUFFER, &[0x1000, 0, 0])]);
        }),
    },
    Bug {
        what: "state is loaded as that of geometry",
        rule: "CP-LOAD-STATE",
        how: How::Packets(|p| {
            for packet in &mut p.0 {
                if let Packet::Command { op, .. } = packet
                    && *op == op::LOAD_STATE6_FRAG
                {
                    *op = op::LOAD_STATE6_GEOM;
                }
            }
        }),
    },
    Bug {
        what: "no units of constants are loaded",
        rule: "CP-LOAD-STATE",
        how: How::Packets(|p| {
            p.loads(|state| {
                if is_constants(state) {
                    state.units = 0;
                }
                true
            });
        }),
    },
    Bug {
        what: "textures are those of pixel shaders",
        rule: "CP-LOAD-STATE",
        how: How::Packets(|p| {
            p.loads(|state| {
                if is_texture(state) {
                    // SB6_FS_TEX.
                    state.block = 4;
                }
                true
            });
        }),
    },
    Bug {
        what: "more constants are loaded than there are",
        rule: "CP-LOAD-STATE-RANGE",
        how: How::Packets(|p| {
            p.loads(|state| {
                if is_constants(state) {
                    state.units = 257;
                }
                true
            });
        }),
    },
    Bug {
        what: "constants are loaded from a bindless base",
        rule: "CP-LOAD-STATE-NOT-MODELLED",
        how: How::Packets(|p| {
            p.loads(|state| {
                if is_constants(state) {
                    state.source = load::SS6_BINDLESS;
                }
                true
            });
        }),
    },
];
