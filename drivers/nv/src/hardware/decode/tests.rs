//! What the encoder has written is read back as what it was told; whatever else lies in memory ends somewhere.

use drivers_spec::nv::chip::Arch;
use hcq::{Command, CommandBuffer, Compare, QueueKind, Scope, Val, Width};
use proptest::prelude::*;

use super::*;
use crate::encode::Encoder;
use crate::encode::push::entry;
use crate::encode::tests::{CODE, encoder, program, signal_at};

/// Where words lie, and what they point to.
const WORDS: u64 = 0x12_3456_7000;
const DATA: u64 = 0x9a_0000_0100;

/// Memory in which there are words, cut into two segments, and their data block.
struct Memory {
    packets: CommandBuffer,
    entries: Vec<u32>,
}

impl Memory {
    fn new(mut packets: CommandBuffer) -> Memory {
        packets.relocate(DATA);
        let words = packets.words.len();
        let cut = crate::encode::push::packet_boundary(&packets.words, words / 2);
        let mut entries = Vec::new();
        for part in [0..cut, cut..words] {
            let at = WORDS + part.start as u64 * 4;
            // One of no length does nothing here.
            entries.extend(entry(at, part.len() as u32));
        }
        Memory { packets, entries }
    }

    fn read(&self, setup: &Setup, start: u64) -> Vec<Packet> {
        let peek = |at: u64, dwords: usize| {
            let parts = [(WORDS, &self.packets.words), (DATA, &self.packets.data)];
            parts.into_iter().find_map(|(base, words)| {
                let from = usize::try_from(at.checked_sub(base)? / 4).ok()?;
                let there = words.get(from..).filter(|there| !there.is_empty())?;
                Some(there[..there.len().min(dwords)].to_vec())
            })
        };
        walk(&peek, setup, &self.entries, start)
    }
}

fn read(encoder: &Encoder, commands: &[Command<'_>]) -> Vec<Doing> {
    let mut packets = CommandBuffer::new();
    encoder.encode(commands, &mut packets).unwrap();
    let found = Memory::new(packets).read(encoder.setup(), 0);
    found.into_iter().map(|packet| packet.doing).collect()
}

const fn at(address: u64) -> Val {
    Val::Const(address)
}

#[test]
fn a_queue_is_read_back_as_it_was_told() {
    for arch in Arch::ALL {
        let program = program(arch);
        let signal = signal_at(0x60_0000_2010);
        let args = [at(0x7000), at(5), at(9)];
        let launch = Command::Exec {
            program: &program,
            args: &args,
            grid: [3, 2, 1],
            block: [32, 1, 1],
        };
        let barrier = |scope| Command::Barrier { scope };
        let wait = Command::Wait {
            signal: &signal,
            value: at(7 << 32),
        };
        let copy = Command::Copy {
            dst: at(0x11_0000_0000),
            src: at(0x22_0000_0000),
            bytes: (1 << 31) + 12,
        };
        let fill = Command::Fill {
            at: at(0x33_0000_0004),
            value: 0xdead_beef,
            bytes: 64,
        };
        let write = |width| Command::Write {
            at: at(0x4008),
            value: at(0x1_0000_0002),
            width,
        };
        let told = Command::Signal {
            signal: &signal,
            value: at(8 << 32),
        };
        let bank = u64::from(program.launch_words[6]);
        let on_both = [
            copy,
            barrier(Scope::System),
            fill,
            Command::Timestamp { signal: &signal },
            write(Width::W32),
            write(Width::W64),
            told,
        ];
        let expected = [
            Doing::Copy {
                dst: 0x11_0000_0000,
                src: 0x22_0000_0000,
                bytes: 1 << 31,
            },
            Doing::Copy {
                dst: 0x11_8000_0000,
                src: 0x22_8000_0000,
                bytes: 12,
            },
            Doing::Fill {
                at: 0x33_0000_0004,
                value: 0xdead_beef,
                bytes: 64,
            },
            Doing::Signal {
                at: 0x4008,
                value: 2,
            },
            Doing::Signal {
                at: 0x4008,
                value: 0x1_0000_0002,
            },
            Doing::Signal {
                at: 0x60_0000_2010,
                value: 8 << 32,
            },
        ];
        let copies = encoder(arch, QueueKind::Copy);
        assert_eq!(read(&copies, &on_both), expected, "{arch:?}");
        let compute = encoder(arch, QueueKind::Compute);
        assert_eq!(read(&compute, &on_both), expected, "{arch:?}");
        let kernels = [
            wait,
            launch,
            barrier(Scope::Queue),
            Command::Exec {
                program: &program,
                args: &args,
                grid: [1, 1, 1],
                block: [1, 1, 1],
            },
        ];
        let found = read(&compute, &kernels);
        let bytes = (program.launch_words.len() as u64 - 10) * 4;
        let second = bytes.next_multiple_of(crate::encode::DATA_ALIGN);
        let launched = |from: u64| Doing::Launch {
            code: CODE.entry,
            arguments: [DATA + from + bank].into_iter().collect(),
        };
        let waited = Doing::Wait {
            at: 0x60_0000_2010,
            bytes: 8,
            mask: u64::MAX,
            value: 7 << 32,
            test: Test::GreaterEqual,
        };
        assert_eq!(found, [waited, launched(0), launched(second)], "{arch:?}");
    }
}

/// A packet is at the entry that leads to it: what is behind it in the ring is not done either.
#[test]
fn packets_are_where_their_entries_are() {
    let encoder = encoder(Arch::Gh100, QueueKind::Copy);
    let copy = |bytes| Command::Copy {
        dst: at(0x1000),
        src: at(0x8000),
        bytes,
    };
    let mut packets = CommandBuffer::new();
    encoder.encode(&[copy(4), copy(8)], &mut packets).unwrap();
    let found = Memory::new(packets).read(encoder.setup(), 1000);
    let positions: Vec<_> = found.iter().map(|packet| packet.position).collect();
    assert_eq!(positions, [1000, 1002]);
}

#[test]
fn what_is_not_there_is_left_out() {
    let encoder = encoder(Arch::Ga10x, QueueKind::Compute);
    // A launch whose QMD the host does not see; half an entry.
    let program = program(Arch::Ga10x);
    let launch = Command::Exec {
        program: &program,
        args: &[at(1), at(2), at(3)],
        grid: [1, 1, 1],
        block: [1, 1, 1],
    };
    let mut packets = CommandBuffer::new();
    encoder.encode(&[launch], &mut packets).unwrap();
    let mut memory = Memory::new(packets);
    memory.packets.data.clear();
    memory.entries.push(7);
    assert_eq!(memory.read(encoder.setup(), 0), []);
}

proptest! {
    /// A poll is waits that hold if and only if the command's comparison does.
    #[test]
    fn a_poll_waits_for_what_it_says(
        mask in prop_oneof![Just(u64::MAX), Just(0xffff_ffff), 0..16u64, any::<u64>()],
        value in prop_oneof![Just(0), 0..16u64, any::<u64>()],
        memory in prop_oneof![0..16u64, any::<u64>()],
        wide in any::<bool>(),
        compare in prop::sample::select(vec![Compare::Equal, Compare::NotEqual, Compare::GreaterEqual]),
    ) {
        let encoder = encoder(Arch::Gh100, QueueKind::Copy);
        let (width, all) = match wide {
            true => (Width::W64, u64::MAX),
            false => (Width::W32, 0xffff_ffff),
        };
        let (mask, value) = (mask & all, value & mask & all);
        let poll = Command::Poll { at: at(0x1000), mask, value: at(value), compare, width };
        let mut packets = CommandBuffer::new();
        // What the host cannot compare is refused.
        prop_assume!(encoder.encode(&[poll], &mut packets).is_ok());
        let waits = Memory::new(packets).read(encoder.setup(), 0);
        let held = waits.iter().all(|packet| match &packet.doing {
            Doing::Wait { bytes, mask, value, test, .. } => {
                let seen = if *bytes == 8 { memory } else { memory & 0xffff_ffff };
                test.holds(seen & mask, *value)
            }
            _ => false,
        });
        let seen = memory & mask;
        let expected = match compare {
            Compare::Equal => seen == value,
            Compare::NotEqual => seen != value,
            Compare::GreaterEqual => seen >= value,
        };
        prop_assert_eq!(held, expected);
    }

    /// Memory that somebody has written over is read to an end.
    #[test]
    fn any_words_have_an_end(words in prop::collection::vec(any::<u32>(), 0..400)) {
        let encoder = encoder(Arch::Gh100, QueueKind::Compute);
        let peek = |_: u64, dwords: usize| Some(words[..words.len().min(dwords)].to_vec());
        let found = walk(&peek, encoder.setup(), &words, 0);
        // The last segment is read to its end.
        prop_assert!(found.len() < MOST + words.len());
    }
}

/// What lies where the host does not see it, and what is behind the packets that are looked at.
#[test]
fn what_cannot_be_read_back_is_not_known() {
    let encoder = encoder(Arch::Ga10x, QueueKind::Compute);
    let signal = signal_at(0x60_0000_2010);
    let mut packets = CommandBuffer::new();
    let command = Command::Signal {
        signal: &signal,
        value: at(7),
    };
    encoder.encode(&[command], &mut packets).unwrap();
    let one = packets.words.clone();
    let unknown = |count: usize, entries: &[u32]| {
        let words = one.repeat(count);
        let peek = |at: u64, dwords: usize| {
            (at == WORDS).then(|| words[..dwords.min(words.len())].to_vec())
        };
        let found = walk(&peek, encoder.setup(), entries, 5);
        let all = found.iter().enumerate();
        let all = all.filter(|(_, packet)| matches!(packet.doing, Doing::Unknown { .. }));
        let all = all.map(|(i, packet)| (i, packet.position));
        (all.collect::<Vec<_>>(), found.len())
    };
    let there = |count: usize| entry(WORDS, (one.len() * count) as u32).to_vec();
    let hidden = entry(DATA, 4).to_vec();
    let (next, behind) = (5 + ENTRY as u64, 5 + 2 * ENTRY as u64);
    let entries = [there(1), hidden.clone(), there(1)].concat();
    assert_eq!(unknown(1, &entries), (vec![(1, next)], 3));
    assert_eq!(unknown(MOST, &there(MOST)), (vec![], MOST));
    let cut = (vec![(MOST, 5)], MOST + 1);
    assert_eq!(unknown(MOST + 1, &there(MOST + 1)), cut);
    let entries = [there(MOST - 1), hidden, there(MOST - 1)].concat();
    let cut = (vec![(MOST - 1, next), (MOST, behind)], MOST + 1);
    assert_eq!(unknown(MOST - 1, &entries), cut);
}
