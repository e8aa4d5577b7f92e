//! Decodes the packets of submissions, for messages, traces, and looks at a long run. Not on the submission path.

use drivers_gpu::core::Core;
use drivers_gpu::submit::decode::{Doing, Packet, Test, peek_words_into, wide};
use drivers_spec::qcom::packet::{
    self, LoadState, event_write_0, event_writes, load_state6_0 as load, op, wait_reg_mem_0 as wait,
};
use drivers_spec::qcom::regs::{SP_CS_BASE, SP_CS_CNTL_0, SP_CS_NDRANGE_0, dword, sp_cs_ndrange_0};

use super::way::buffers;
use crate::encode::Encoder;
use crate::encode::builtin::Kernel;

/// Maximum number of decoded packets. The rest is reported as one unknown packet.
const MOST: usize = 4096;

/// Constants of the driver's own kernels that are read back, in dwords.
const CONSTANTS: usize = 6;

/// Room for what is read back. It grows with the submissions, then looks allocate nothing.
#[derive(Default)]
pub(super) struct Room {
    packets: Vec<u32>,
    constants: Vec<u32>,
}

/// What the indirect buffers do that words name, in order. Positions are those of the calls: `start` for all.
pub(super) fn visit(
    core: &Core,
    encoder: &Encoder,
    (words, position): (&[u32], u64),
    room: &mut Room,
    see: &mut dyn FnMut(Packet),
) {
    let Room { packets, constants } = room;
    let mut left = MOST;
    let mut see = |doing: Doing| -> bool {
        let less = left.checked_sub(1);
        let doing = less.map_or(Doing::Unknown { word: 0 }, |_| doing);
        see(Packet { position, doing });
        left = less.unwrap_or(0);
        less.is_some()
    };
    let mut read = |at: u64| -> Option<[u32; CONSTANTS]> {
        peek_words_into(core, at, CONSTANTS, constants)?;
        constants.first_chunk().copied()
    };
    for buffer in buffers(words) {
        let there = peek_words_into(core, buffer.address, buffer.dwords as usize, packets);
        let goes_on = match there {
            Some(()) => walk(encoder, packets, &mut read, &mut see),
            None => see(Doing::Unknown {
                word: buffer.address as u32,
            }),
        };
        if !goes_on {
            break;
        }
    }
}

/// Shows what packets do that shows what a queue runs or waits for, as long as `see` wants more. Whether it does.
fn walk(
    encoder: &Encoder,
    words: &[u32],
    read: &mut dyn FnMut(u64) -> Option<[u32; CONSTANTS]>,
    see: &mut dyn FnMut(Doing) -> bool,
) -> bool {
    // Of the next launch.
    let (mut code, mut constants, mut fibers) = (0, 0, 0);
    // A signal whose upper half may follow.
    let mut last: Option<Doing> = None;
    for packet in packet::packets(words) {
        let doing = match packet {
            Ok((_, packet::Packet::Registers { first, values })) => {
                let base = dword(&SP_CS_BASE);
                if first == dword(&SP_CS_CNTL_0) && values.len() > (base - first) as usize {
                    code = wide(values, (base - first) as usize);
                }
                if let (true, [range, ..]) = (first == dword(&SP_CS_NDRANGE_0), values) {
                    fibers = u64::from(sp_cs_ndrange_0::LOCALSIZEX.get(*range)) + 1;
                }
                None
            }
            Ok((_, packet::Packet::Command { op, body })) => match (op, body) {
                (op::LOAD_STATE6_FRAG, [state, ..]) => {
                    let state = LoadState::decode(*state);
                    if (state.kind, state.block) == (load::ST6_CONSTANTS, load::SB6_CS_SHADER) {
                        constants = wide(body, 1);
                    }
                    None
                }
                (op::EXEC_CS | op::RUN_OPENCL, _) => {
                    let at = std::mem::take(&mut constants);
                    let groups = body.get(1).copied().unwrap_or(0);
                    let units = u64::from(groups) * fibers;
                    let own = encoder.builtin().at(code);
                    let own = own.and_then(|kernel| Some(moving(kernel, read(at)?, units)));
                    Some(own.unwrap_or_else(|| Doing::Launch {
                        code,
                        arguments: (at != 0).then_some(at).into_iter().collect(),
                    }))
                }
                _ => synchronizing(encoder, op, body),
            },
            Err(_) => {
                let word = words.first().copied().unwrap_or(0);
                Some(Doing::Unknown { word })
            }
        };
        let Some(doing) = doing else {
            continue;
        };
        match (&doing, &mut last) {
            (
                Doing::Signal { at, value },
                Some(Doing::Signal {
                    at: low,
                    value: all,
                }),
            ) if *at == *low + 4 && *low % 8 == 0 => {
                *all |= value << 32;
            }
            _ => {
                if let Some(before) = last.replace(doing)
                    && !see(before)
                {
                    return false;
                }
            }
        }
    }
    last.is_none_or(see)
}

/// A wait or a signal.
fn synchronizing(encoder: &Encoder, op: u8, body: &[u32]) -> Option<Doing> {
    match (op, body) {
        (op::WAIT_REG_MEM, [control, _, _, value, mask, ..]) => Some(Doing::Wait {
            at: wide(body, 1),
            bytes: 4,
            mask: (*mask).into(),
            value: (*value).into(),
            test: test(*control),
        }),
        (op::EVENT_WRITE, [event, _, _, value]) => {
            let at = wide(body, 1);
            let writes = event_writes(event_write_0::EVENT.get(*event));
            (writes && at != encoder.setup().scratch.0).then_some(Doing::Signal {
                at,
                value: (*value).into(),
            })
        }
        _ => None,
    }
}

/// What a launch of the driver's own kernels does, by its constants.
fn moving(kernel: Kernel, constants: [u32; CONSTANTS], units: u64) -> Doing {
    let bytes = units * kernel.unit();
    let [_, _, word, _, fifth, _] = constants;
    let (at, src) = (wide(&constants, 0), wide(&constants, 2));
    match kernel {
        Kernel::CopyWide | Kernel::CopyByte => Doing::Copy {
            dst: at,
            src,
            bytes,
        },
        Kernel::CopyShift => Doing::Copy {
            dst: at,
            src: src + u64::from(fifth / 8),
            bytes,
        },
        Kernel::CopyOpen => Doing::Copy {
            dst: at,
            src,
            bytes: fifth.into(),
        },
        Kernel::FillWide | Kernel::FillWord => Doing::Fill {
            at,
            value: word,
            bytes,
        },
    }
}

/// How a wait compares.
fn test(control: u32) -> Test {
    match wait::FUNCTION.get(control) {
        wait::WRITE_LT => Test::Less,
        wait::WRITE_LE => Test::LessEqual,
        wait::WRITE_EQ => Test::Equal,
        wait::WRITE_NE => Test::NotEqual,
        wait::WRITE_GE => Test::GreaterEqual,
        wait::WRITE_GT => Test::Greater,
        _ => Test::Always,
    }
}

#[cfg(test)]
mod tests {
    use hcq::{Command, CommandBuffer, Compare, Scope, Val, Width};

    use super::*;
    use crate::encode::tests::encoder;

    fn walked(encoder: &Encoder, words: &[u32], constants: Option<[u32; CONSTANTS]>) -> Vec<Doing> {
        let mut found = Vec::new();
        let more = walk(encoder, words, &mut |_| constants, &mut |doing| {
            found.push(doing);
            true
        });
        assert!(more);
        found
    }

    #[test]
    fn what_was_encoded_is_read_back() {
        let encoder = encoder();
        let mut out = CommandBuffer::new();
        encoder.begin(&mut out);
        let commands = [
            Command::Poll {
                at: Val::Const(0x60_0000_1000),
                mask: 0xff,
                value: Val::Const(7),
                compare: Compare::Equal,
                width: Width::W32,
            },
            Command::Barrier {
                scope: Scope::Queue,
            },
            Command::Fill {
                at: Val::Const(0x60_1000_0000),
                value: 1,
                bytes: 2048,
            },
            Command::Write {
                at: Val::Const(0x60_0000_1008),
                value: Val::Const(3 << 32 | 5),
                width: Width::W64,
            },
        ];
        encoder.encode(&commands, &mut out).unwrap();
        // Where the host does not see the constants, and where it does.
        let fill = [0x1000_0000, 0x60, 1, 0, 0, 0];
        let found = walked(&encoder, &out.words, Some(fill));
        let filled = Doing::Fill {
            at: 0x60_1000_0000,
            value: 1,
            bytes: 2048,
        };
        assert_eq!(found[1], filled);
        let found = walked(&encoder, &out.words, None);
        let [wait, launch, signal] = &found[..] else {
            panic!("{found:?}");
        };
        let expected = Doing::Wait {
            at: 0x60_0000_1000,
            bytes: 4,
            mask: 0xff,
            value: 7,
            test: Test::Equal,
        };
        assert_eq!(*wait, expected);
        assert!(matches!(launch, Doing::Launch { code, .. } if *code != 0));
        let expected = Doing::Signal {
            at: 0x60_0000_1008,
            value: 3 << 32 | 5,
        };
        assert_eq!(*signal, expected);
        out.words.push(0x1234_5678);
        let found = walked(&encoder, &out.words, None);
        assert!(matches!(found.last(), Some(Doing::Unknown { .. })));
        // Who has seen enough is shown no more.
        let mut count = 0;
        let more = walk(&encoder, &out.words, &mut |_| None, &mut |_| {
            count += 1;
            count < 2
        });
        assert_eq!((more, count), (false, 2));
    }
}
