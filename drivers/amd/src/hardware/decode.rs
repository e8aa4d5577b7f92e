//! Decodes packets of AMD's queues, for messages and traces. Submissions do not use it.

use drivers_gpu::core::Core;
use drivers_gpu::submit::decode::{Doing, Packet, Test, peek_words, wide};
use drivers_spec::amd::packet::Gfx;
use drivers_spec::amd::{aql, pm4, regs, sdma};

use crate::chip::{Chip, Language};

/// Maximum number of decoded packets. The rest is reported as one unknown packet.
const MOST: usize = 4096;

/// What packets of a language do, in order. Their positions are counted from `start` on. PM4 in indirect
/// buffers is read from memory.
pub(crate) fn decode(
    core: &Core,
    chip: &Chip,
    language: Language,
    words: &[u32],
    start: u64,
) -> Vec<Packet> {
    let mut found = Vec::new();
    let gfx = chip.generation.gfx;
    let peek = |at, dwords| peek_words(core, at, dwords);
    match language {
        Language::Pm4 => walk_pm4((&peek, gfx), words, start, 0, &mut found),
        Language::Aql => walk_aql((&peek, gfx), words, start, &mut found),
        Language::Sdma => walk_sdma(gfx, words, start, &mut found),
    }
    found
}

/// Gives dwords of memory at an address, as many of them as there are.
type Peek<'a> = &'a dyn Fn(u64, usize) -> Option<Vec<u32>>;

/// How a wait compares, by the number that WAIT_REG_MEM and POLL_REGMEM have for it; those without a
/// meaning always hold.
fn test(function: u32) -> Test {
    match function {
        1 => Test::Less,
        2 => Test::LessEqual,
        3 => Test::Equal,
        4 => Test::NotEqual,
        5 => Test::GreaterEqual,
        6 => Test::Greater,
        _ => Test::Always,
    }
}

/// The first of the registers that are followed, and how many they are.
const FIRST: u32 = regs::COMPUTE_PGM_LO;
const REGISTERS: usize = 0x100;

/// The launch that DISPATCH_DIRECT starts with these registers.
fn launch(peek: Peek<'_>, registers: &[u32; REGISTERS]) -> Doing {
    let user = (regs::COMPUTE_USER_DATA_0 - FIRST) as usize;
    // Which of the user's registers point to the arguments only the kernel knows.
    let pointers = (user..user + regs::USER_DATA as usize - 1)
        .map(|i| wide(registers, i))
        .filter(|&va| peek(va & !3, 1).is_some())
        .collect();
    Doing::Launch {
        code: (wide(registers, 0) & 0xff_ffff_ffff) << 8,
        arguments: pointers,
    }
}

/// What DMA_DATA does.
fn moved(packet: &[u32]) -> Doing {
    let word = |i: usize| packet.get(i).copied().unwrap_or(0);
    let (from, dst) = (wide(packet, 2), wide(packet, 4));
    let bytes = pm4::op::BYTE_COUNT.get(word(6)).into();
    match pm4::op::DMA_SRC_SEL.get(word(1)) {
        pm4::DMA_SRC_DATA => Doing::Fill {
            at: dst,
            value: from as u32,
            bytes,
        },
        _ => Doing::Copy {
            src: from,
            dst,
            bytes,
        },
    }
}

fn walk_pm4(
    (peek, gfx): (Peek<'_>, Gfx),
    words: &[u32],
    start: u64,
    depth: u32,
    found: &mut Vec<Packet>,
) {
    let mut registers = [0u32; REGISTERS];
    let mut at = 0;
    while at < words.len() && found.len() < MOST {
        let packet = &words[at..];
        let header = packet[0];
        let length = match header {
            // Fill of a ring that was not written by us.
            0 => 1,
            header => crate::encode::pm4::length(header),
        };
        let word = |i: usize| packet.get(i).copied().unwrap_or(0);
        let mut push = |doing| {
            found.push(Packet {
                position: start + if depth == 0 { at as u64 } else { 0 },
                doing,
            });
        };
        let opcode = pm4::OPCODE.get(header) as u8;
        let is_packet = pm4::TYPE.get(header) == 3 && pm4::find(gfx, opcode).is_some();
        if header != 0 && !is_packet {
            push(Doing::Unknown { word: header });
            return;
        }
        match opcode {
            pm4::SET_SH_REG => {
                for (i, &value) in packet.iter().take(length).skip(2).enumerate() {
                    let register = (word(1) + pm4::SH_REG_START + i as u32).wrapping_sub(FIRST);
                    if let Some(place) = registers.get_mut(register as usize) {
                        *place = value;
                    }
                }
            }
            pm4::DISPATCH_DIRECT => push(launch(peek, &registers)),
            pm4::WAIT_REG_MEM if pm4::wait::MEM_SPACE.get(word(1)) == 1 => push(Doing::Wait {
                at: wide(packet, 2),
                bytes: 4,
                mask: word(5).into(),
                value: word(4).into(),
                test: test(pm4::wait::FUNCTION.get(word(1))),
            }),
            pm4::WAIT_REG_MEM64 => push(Doing::Wait {
                at: wide(packet, 2),
                bytes: 8,
                mask: wide(packet, 6),
                value: wide(packet, 4),
                test: test(pm4::wait::FUNCTION.get(word(1))),
            }),
            pm4::RELEASE_MEM => push(Doing::Signal {
                at: wide(packet, 3),
                value: wide(packet, 5),
            }),
            pm4::DMA_DATA => push(moved(packet)),
            pm4::INDIRECT_BUFFER if depth == 0 => {
                let dwords = pm4::ib::IB_SIZE.get(word(3)) as usize;
                match peek(wide(packet, 1), dwords) {
                    Some(words) => {
                        walk_pm4((peek, gfx), &words, start + at as u64, depth + 1, found);
                    }
                    None => push(Doing::Unknown { word: header }),
                }
            }
            _ => {}
        }
        at += length.max(1);
    }
    let position = start + if depth == 0 { at as u64 } else { 0 };
    rest(words.get(at..), position, found);
}

/// Reports the rest after the decoded packets, once.
fn rest(words: Option<&[u32]>, position: u64, found: &mut Vec<Packet>) {
    let is_named = |last: &Packet| matches!(last.doing, Doing::Unknown { .. });
    if let Some(&word) = words.and_then(<[u32]>::first)
        && !found.last().is_some_and(is_named)
    {
        let doing = Doing::Unknown { word };
        found.push(Packet { position, doing });
    }
}

fn walk_aql((peek, gfx): (Peek<'_>, Gfx), words: &[u32], start: u64, found: &mut Vec<Packet>) {
    // The device marks fetched packets invalid; their contents are unchanged.
    for (i, packet) in words.chunks_exact(crate::encode::aql::PACKET).enumerate() {
        let position = start + (i * packet.len()) as u64;
        if found.len() >= MOST {
            return rest(Some(packet), position, found);
        }
        let field = |bytes: usize| wide(packet, bytes / 4);
        let unknown = Packet {
            position,
            doing: Doing::Unknown { word: packet[0] },
        };
        if packet[1] == pm4::header(pm4::INDIRECT_BUFFER, 3) {
            let dwords = pm4::ib::IB_SIZE.get(packet[4]) as usize;
            match peek(wide(packet, 2), dwords) {
                Some(words) => walk_pm4((peek, gfx), &words, position, 1, found),
                None => found.push(unknown),
            }
        } else if aql::TYPE.get(packet[0]) > aql::BARRIER_OR {
            found.push(unknown);
            return;
        } else if field(aql::dispatch::KERNEL_OBJECT) != 0 {
            found.push(Packet {
                position,
                doing: Doing::Launch {
                    code: field(aql::dispatch::KERNEL_OBJECT),
                    arguments: [field(aql::dispatch::KERNARG_ADDRESS)]
                        .into_iter()
                        .collect(),
                },
            });
        }
    }
}

fn walk_sdma(gfx: Gfx, words: &[u32], start: u64, found: &mut Vec<Packet>) {
    let mut at = 0;
    while at < words.len() && found.len() < MOST {
        let packet = &words[at..];
        let word = |i: usize| packet.get(i).copied().unwrap_or(0);
        let length = crate::encode::sdma::length(gfx, packet);
        let doing = match (packet[0] & 0xffff) as u16 {
            sdma::COPY_LINEAR => Some(Doing::Copy {
                src: wide(packet, 3),
                dst: wide(packet, 5),
                bytes: u64::from(word(1)) + 1,
            }),
            sdma::CONST_FILL => Some(Doing::Fill {
                at: wide(packet, 1),
                value: word(3),
                bytes: u64::from(sdma::FILL_BYTES.get(word(4))) + 4,
            }),
            sdma::FENCE => {
                let (at, value) = (wide(packet, 1), u64::from(word(3)));
                match found.last_mut().map(|last| &mut last.doing) {
                    // The high half of the value before.
                    Some(Doing::Signal { at: low, value: v }) if *low + 4 == at => {
                        *v |= value << 32;
                        None
                    }
                    _ => Some(Doing::Signal { at, value }),
                }
            }
            sdma::POLL_REGMEM if sdma::MEM_POLL.get(packet[0]) == 1 => Some(Doing::Wait {
                at: wide(packet, 1),
                bytes: 4,
                mask: word(4).into(),
                value: word(3).into(),
                test: test(sdma::FUNC.get(packet[0])),
            }),
            _ if sdma::find(gfx, packet[0]).is_none() => Some(Doing::Unknown { word: packet[0] }),
            _ => None,
        };
        found.extend(doing.map(|doing| Packet {
            position: start + at as u64,
            doing,
        }));
        at += length.max(1);
    }
    rest(words.get(at..), start + at as u64, found);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::aql as encoded;

    const LIST: u64 = 0x10_0000;

    /// Nothing but packets that fill memory, as a list at an address.
    fn fills(count: usize) -> Vec<u32> {
        let fill = [
            pm4::header(pm4::DMA_DATA, 6),
            pm4::op::DMA_SRC_SEL.put(pm4::DMA_SRC_DATA),
            0,
            0,
            0x1000,
            0,
            4,
        ];
        fill.repeat(count)
    }

    fn unknown(found: &[Packet]) -> Vec<(usize, u64)> {
        let all = found.iter().enumerate();
        all.filter(|(_, packet)| matches!(packet.doing, Doing::Unknown { .. }))
            .map(|(i, packet)| (i, packet.position))
            .collect()
    }

    #[test]
    fn what_is_behind_the_packets_that_are_looked_at_is_not_known() {
        for (count, cut) in [(MOST, vec![]), (MOST + 1, vec![(MOST, 5)])] {
            let list = fills(count);
            let peek = |at: u64, dwords: usize| {
                (at == LIST).then(|| list[..dwords.min(list.len())].to_vec())
            };
            let run = crate::encode::pm4::indirect(LIST, list.len() as u32);
            let (mut pm4, mut aql, mut sdma) = (Vec::new(), Vec::new(), Vec::new());
            walk_pm4((&peek, Gfx::Gfx11), &run, 5, 0, &mut pm4);
            let mut packet = [0; encoded::PACKET];
            packet[1..][..run.len()].copy_from_slice(&run);
            walk_aql((&peek, Gfx::Gfx11), &packet, 5, &mut aql);
            for found in [pm4, aql] {
                assert_eq!(unknown(&found), cut);
                assert_eq!(found.len(), count);
            }
            let fill = [u32::from(sdma::CONST_FILL), 0x1000, 0, 1, 0];
            walk_sdma(Gfx::Gfx11, &fill.repeat(count), 5, &mut sdma);
            let cut: Vec<_> = cut.iter().map(|_| (MOST, 5 + 5 * MOST as u64)).collect();
            assert_eq!(unknown(&sdma), cut);
        }
    }

    #[test]
    fn a_list_that_the_host_cannot_read_is_not_known() {
        let run = crate::encode::pm4::indirect(LIST, 7);
        let mut packets = run.to_vec();
        packets.extend(fills(1));
        let (mut pm4, mut aql) = (Vec::new(), Vec::new());
        walk_pm4((&|_, _| None, Gfx::Gfx11), &packets, 9, 0, &mut pm4);
        assert_eq!((unknown(&pm4), pm4.len()), (vec![(0, 9)], 2));
        let mut packet = [0; encoded::PACKET];
        packet[1..][..run.len()].copy_from_slice(&run);
        walk_aql((&|_, _| None, Gfx::Gfx11), &packet.repeat(2), 9, &mut aql);
        assert_eq!(unknown(&aql), [(0, 9), (1, 9 + encoded::PACKET as u64)]);
    }
}
