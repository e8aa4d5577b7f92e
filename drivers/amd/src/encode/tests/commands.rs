//! Every command but launches; where words are cut.

use super::*;

#[test]
fn scopes_act_on_the_caches_between() {
    for chip in CHIPS {
        let generation = chip.generation;
        let last = |scope| {
            let words = encode(&pm4(chip), &[barrier(scope)]).words;
            let acquire = match generation.gfx {
                Gfx::Gfx9 => words[3],
                _ => words[9],
            };
            (opcodes(&words), acquire)
        };
        let both = vec![spec_pm4::EVENT_WRITE, spec_pm4::ACQUIRE_MEM];
        assert_eq!(last(Scope::Queue), (both.clone(), generation.acquire_queue));
        for scope in [Scope::Device, Scope::System] {
            assert_eq!(last(scope), (both.clone(), generation.acquire_system));
        }
    }
}

#[test]
fn waits_in_a_row_share_their_cache_actions_but_not_those_of_a_barrier() {
    let signal = signal();
    let wait = |value| Command::Wait {
        signal: &signal,
        value: Val::Const(value),
    };
    let (wait64, acquire) = (spec_pm4::WAIT_REG_MEM64, spec_pm4::ACQUIRE_MEM);
    let mut out = encode(&pm4(&GFX1100), &[wait(1)]);
    pm4(&GFX1100).encode(&[wait(2)], &mut out).unwrap();
    assert_eq!(opcodes(&out.words), [wait64, wait64, acquire]);
    let out = encode(&pm4(&GFX1100), &[barrier(Scope::System), wait(1)]);
    assert_eq!(
        opcodes(&out.words),
        [spec_pm4::EVENT_WRITE, acquire, wait64, acquire]
    );
    // Indirect buffers of their own.
    let mut out = encode(&aql(&GFX1100, 1), &[wait(1)]);
    let first = out.data.clone();
    aql(&GFX1100, 1).encode(&[wait(2)], &mut out).unwrap();
    assert_eq!(out.data[..first.len()], first);
    assert_eq!(opcodes(&first), [wait64, acquire]);
}

#[test]
fn copies_are_cut_where_a_packet_ends() {
    for chip in CHIPS {
        let most = chip.generation.sdma_bytes_max;
        for (bytes, packets) in [(1, 1), (most, 1), (most + 1, 2), (3 * most, 3)] {
            let out = encode(&sdma(chip), &[copy(bytes)]);
            assert_eq!(out.words.len(), packets * 7, "{} {bytes}", chip.name);
            let counts = out.words.chunks(7).map(|packet| u64::from(packet[1]) + 1);
            assert_eq!(counts.sum::<u64>(), bytes);
        }
        let most = u64::from(chip.generation.dma_max);
        for (bytes, packets) in [(1, 1), (most, 1), (most + 1, 2), (3 * most + 5, 4)] {
            let words = encode(&pm4(chip), &[copy(bytes)]).words;
            let around = if chip.generation.dma_through_gl2 {
                0
            } else {
                2
            };
            let opcodes = opcodes(&words);
            let copies = opcodes
                .iter()
                .filter(|&&op| op == spec_pm4::DMA_DATA)
                .count();
            assert_eq!((copies, opcodes.len()), (packets, packets + around));
        }
    }
    // Each piece of a copy goes on where the one before ended.
    let mut out = encode(&sdma(&GFX942), &[copy((1 << 22) + 1)]);
    out.patch(&[0, 0, 0x1000]).unwrap();
    assert_eq!(out.words[3..7], [0x1003, 0, 1, 0x7e10]);
    assert_eq!(out.words[10..14], [0x40_1003, 0, 0x40_0001, 0x7e10]);
}

#[test]
fn only_one_xcc_writes() {
    let signal = signal();
    let commands = [
        Command::Signal {
            signal: &signal,
            value: Val::Const(1),
        },
        Command::Timestamp { signal: &signal },
        copy(100),
        Command::Write {
            at: Val::Const(0x1000),
            value: Val::Const(1),
            width: Width::W32,
        },
    ];
    for command in commands {
        let out = encode(&aql(&GFX942, 8), &[command]);
        let mut at = 0;
        let mut writes = 0;
        let mut predicated = 0;
        while at < out.data.len() {
            let length = pm4::length(out.data[at]);
            let opcode = spec_pm4::OPCODE.get(out.data[at]) as u8;
            if opcode == spec_pm4::PRED_EXEC {
                assert_eq!(out.data[at + 1] >> 24, 1);
                predicated = at + length + (out.data[at + 1] & 0x3fff) as usize;
            } else if [
                spec_pm4::RELEASE_MEM,
                spec_pm4::DMA_DATA,
                spec_pm4::WRITE_DATA,
            ]
            .contains(&opcode)
            {
                assert!(at + length <= predicated, "{opcode:#x}");
                writes += 1;
            }
            at += length;
        }
        assert_eq!(writes, 1, "{command:?}");
    }
}

#[test]
fn indirect_buffers_fit_their_packets() {
    // GFX11 takes many small pieces.
    let gib = |n: u64| Command::Copy {
        dst: Val::Const(0x7e00_0000_0000),
        src: Val::Const(0x7d00_0000_0000),
        bytes: n << 30,
    };
    let out = encode(&aql(&GFX1100, 1), &[gib(3), gib(1), gib(1), gib(1)]);
    let sizes = out
        .words
        .chunks(aql::PACKET)
        .map(|packet| packet[4] & 0xf_ffff);
    let sizes: Vec<u32> = sizes.collect();
    assert!(sizes.len() >= 3, "{sizes:?}");
    let pieces = (1u32 << 30).div_ceil(0x7fe0) * 6;
    assert_eq!(sizes.iter().sum::<u32>(), pieces * 7);
}

#[test]
fn engines_of_32_bits_compare_halves() {
    let signal = signal();
    let at = Val::Const(signal.va().0);
    let wait = |value| Command::Wait {
        signal: &signal,
        value,
    };
    let poll = |mask, value, compare| Command::Poll {
        at,
        mask,
        value: Val::Const(value),
        compare,
        width: Width::W64,
    };
    // (address, value, mask, function) of each poll.
    let polls = |command| {
        let words = encode(&sdma(&GFX1100), &[command]).words;
        let packets = words.chunks(6);
        packets
            .map(|p| (p[1], p[3], p[4], spec_sdma::FUNC.get(p[0])))
            .collect::<Vec<_>>()
    };
    let all = u32::MAX;
    assert_eq!(polls(wait(Val::Const(7))), [(0x10, 7, all, 5)]);
    assert_eq!(
        polls(wait(Val::Const(0x3_0000_0007))),
        [(0x14, 3, all, 5), (0x10, 7, all, 5)]
    );
    assert_eq!(polls(wait(Val::Slot(Slot(0), 0))).len(), 2);
    let high = poll(0xffff_0000_0000_0000, 0, Compare::NotEqual);
    assert_eq!(polls(high), [(0x14, 0, 0xffff_0000, 4)]);
    let low = poll(0xff, 0x88, Compare::Equal);
    assert_eq!(polls(low), [(0x10, 0x88, 0xff, 3)]);
    for encoder in [sdma(&GFX1100), pm4(&GFX942)] {
        let text = refused(&encoder, poll(u64::MAX, 1, Compare::NotEqual));
        assert!(text.contains("compares 32 bits at a time"), "{text}");
        let text = refused(&encoder, poll(0xff, 1 << 32, Compare::Equal));
        assert!(text.contains("inside the mask"), "{text}");
    }
    // What the others compare at once.
    let words = encode(
        &pm4(&GFX1100),
        &[poll(u64::MAX, 1 << 40, Compare::NotEqual)],
    )
    .words;
    assert_eq!(
        words[..9],
        [0xc007_9300, 0x14, 0x10, 0x7e00, 0, 0x100, all, all, 4]
    );
}

#[test]
fn values_of_64_bits_are_fenced_low_half_first() {
    let signal = signal();
    let fences = |value| {
        let command = Command::Signal {
            signal: &signal,
            value,
        };
        let mut out = encode(&sdma(&GFX1100), &[command]);
        out.patch(&[0x9_0000_0001]).unwrap();
        let packets = out.words.chunks(4);
        packets.map(|p| (p[0], p[1], p[3])).collect::<Vec<_>>()
    };
    assert_eq!(fences(Val::Const(5)), [(0x30005, 0x10, 5)]);
    let wide = [(0x30005, 0x10, 1), (0x30005, 0x14, 9)];
    assert_eq!(fences(Val::Const(0x9_0000_0001)), wide);
    assert_eq!(fences(Val::Slot(Slot(0), 0)), wide);
}

#[test]
fn a_barrier_of_sdma_waits_for_its_own_fence() {
    let of = |chip, scope| encode(&sdma(chip), &[barrier(scope)]).words;
    let queue = of(&GFX1100, Scope::Queue);
    assert_eq!(
        queue,
        [
            0x30005,
            0x2000,
            0x7d00,
            1, //
            0xb000_0008,
            0x2000,
            0x7d00,
            1,
            u32::MAX,
            0x0fff_0004, //
            0x30005,
            0x2000,
            0x7d00,
            0,
        ]
    );
    let device = of(&GFX1100, Scope::Device);
    assert_eq!(device[..queue.len()], queue);
    assert_eq!(device[queue.len()..], [0x111, 0, 0xc000_0000, 0, 0]);
    assert_eq!(of(&GFX942, Scope::System).len(), queue.len());
}

#[test]
fn addresses_and_sizes_that_no_engine_takes_are_refused() {
    let write = |at, width| Command::Write {
        at,
        value: Val::Const(1),
        width,
    };
    let copy = |dst, src, bytes| Command::Copy {
        dst: Val::Const(dst),
        src: Val::Const(src),
        bytes,
    };
    for encoder in [pm4(&GFX1100), sdma(&GFX1100), aql(&GFX942, 8)] {
        let text = refused(&encoder, write(Val::Const(0x44), Width::W64));
        assert!(
            text.contains("0x44 is not aligned to the 8-byte word"),
            "{text}"
        );
        let text = refused(&encoder, write(Val::Slot(Slot(3), 2), Width::W32));
        assert!(
            text.contains("slot 3 + 0x2 is not aligned to the 4-byte word"),
            "{text}"
        );
        let text = refused(&encoder, copy(0x1000, 0x1800, 0x1000));
        assert!(text.contains("overlap"), "{text}");
        encode(&encoder, &[copy(0x1000, 0x2000, 0x1000)]);
        let text = refused(&encoder, copy(0x1000, u64::MAX - 4, 64));
        assert!(text.contains("run past the last 64-bit address"), "{text}");
        let text = refused(&encoder, copy(0, 1 << 63, 1 << 62));
        assert!(text.contains("split it"), "{text}");
    }
}

#[test]
fn words_are_cut_between_packets() {
    let signal = signal();
    let program = program(launch());
    let done = Command::Signal {
        signal: &signal,
        value: Val::Const(1),
    };
    let cases = [
        (
            &GFX1100,
            pm4(&GFX1100),
            vec![exec(&program), barrier(Scope::System), done],
        ),
        (
            &GFX942,
            sdma(&GFX942),
            vec![copy(9 << 20), barrier(Scope::Device), done],
        ),
        (
            &GFX942,
            aql(&GFX942, 8),
            vec![exec(&program), copy(9), done],
        ),
    ];
    for (chip, encoder, commands) in cases {
        let words = encode(&encoder, &commands).words;
        let gfx = chip.generation.gfx;
        let boundary = |words: &[u32], room| encoder.language().packet_boundary(gfx, words, room);
        let mut cuts = Vec::new();
        let mut last = 0;
        for room in 0..=words.len() {
            let end = boundary(&words, room);
            assert!(end <= room && end >= last);
            if end > last {
                // Nothing is cut in two: from there on it goes on the same.
                cuts.push(end);
            }
            last = end;
        }
        assert_eq!(last, words.len());
        // Each cut starts a packet, so that cutting again there gives the next one.
        let mut at = 0;
        for cut in cuts {
            assert_eq!(boundary(&words[at..], cut - at), cut - at);
            assert_eq!(boundary(&words[at..], cut - at - 1), 0);
            at = cut;
        }
    }
    assert_eq!(Language::Aql.packet_boundary(Gfx::Gfx9, &[0; 48], 47), 32);
    // NOPs of SDMA, and what is skipped.
    let sdma = |words: &[u32], room| Language::Sdma.packet_boundary(Gfx::Gfx11, words, room);
    assert_eq!(sdma(&[0, 0, 0, 0], 3), 3);
    let skip = [9, 0, 0, 1, 4, 5, 0, 0, 0];
    assert_eq!((sdma(&skip, 8), sdma(&skip, 9)), (0, 9));
}

#[test]
fn a_submission_begins_with_what_the_host_wrote() {
    let of = |encoder: Encoder| {
        let mut out = CommandBuffer::new();
        encoder.begin(&mut out);
        out
    };
    let words = of(pm4(&GFX1100)).words;
    assert_eq!(words[..4], [0xc005_3c00, 0x45, 0xe26, 0xe27]);
    assert_eq!(words[14], GFX1100.generation.acquire_system);
    let out = of(aql(&GFX942, 8));
    assert_eq!((out.words.len(), out.words[0]), (16, 0x1_1500));
    assert_eq!(out.words[4], out.data.len() as u32 | 1 << 23);
    assert_eq!(
        of(sdma(&GFX1100)).words[..3],
        [0x3400_0008, 0xe27 << 2, 0xe26 << 2]
    );
}

#[test]
fn the_timeline_interrupts() {
    let signal = signal();
    let interrupt = Interrupt {
        signal: signal.va(),
        mailbox: GpuVa(0x7d00_0000_3008),
        event: 7,
    };
    let setup = Setup {
        interrupt: Some(interrupt),
        ..setup(&GFX1100, 1)
    };
    let done = Command::Signal {
        signal: &signal,
        value: Val::Const(1),
    };
    let out = encode(&Encoder::Pm4(Pm4::new(setup.clone())), &[done]);
    assert_eq!(
        out.words[8..],
        [0xc006_4900, 0x514, 0x2200_0000, 0x3008, 0x7d00, 7, 0, 7]
    );
    let out = encode(&Encoder::Sdma(Sdma::new(setup.clone())), &[done]);
    assert_eq!(out.words[4..], [0x30005, 0x3008, 0x7d00, 7, 6, 7]);
    let other = Signal::new("other", GpuVa(0x7e00_0000_0020), Arc::new(Absent));
    let done = Command::Signal {
        signal: &other,
        value: Val::Const(1),
    };
    let out = encode(&Encoder::Pm4(Pm4::new(setup)), &[done]);
    assert_eq!(out.words.len(), 8);
}

#[test]
fn fills_are_cut_where_engines_end() {
    let at = Val::Slot(Slot(0), 0x100);
    let fill = |bytes| Command::Fill {
        at,
        value: 0xdead_beef,
        bytes,
    };
    for chip in CHIPS {
        let max = chip.generation.sdma_bytes_max;
        let out = encode(&sdma(chip), &[fill(max + 8)]);
        let count = spec_sdma::FILL_BYTES;
        let head = 0x8000_000b;
        let last = count.put(4);
        assert_eq!(
            out.words,
            [
                head,
                0,
                0,
                0xdead_beef,
                count.put((max - 4) as u32),
                head,
                0,
                0,
                0xdead_beef,
                last
            ],
            "{}",
            chip.name
        );
        assert_eq!(count.get(out.words[4]), (max - 4) as u32, "{}", chip.name);
        assert_eq!(out.patches[1].add, 0x100 + max);
        assert!(encode(&sdma(chip), &[fill(0)]).words.is_empty());
    }
    let out = encode(&pm4(&GFX1100), &[fill(12)]);
    assert_eq!(
        out.words,
        [0xc005_5000, 2 << 29 | 3 << 20, 0xdead_beef, 0, 0, 0, 12]
    );
}

#[test]
fn what_the_host_has_seen_is_not_waited_for_by_halves() {
    let wait = |signal: &Signal| {
        let wait = Command::Wait {
            signal,
            value: Val::Const(0x1_ffff_ffff),
        };
        encode(&sdma(&GFX1100), &[wait]).words.len()
    };
    let signal = Signal::new("s", GpuVa(0x7e00_0000_0010), Arc::new(Silent));
    assert_eq!(wait(&signal), 12);
    // The low half starts over: only who looks at memory could know.
    signal.wait(0x2_0000_0000, soon()).unwrap();
    assert_eq!(wait(&signal), 0);
}

/// A signal that tells nothing, but whose waits end.
struct Silent;

impl SignalMemory for Silent {
    fn value(&self) -> Result<u64> {
        Absent.value()
    }
    fn set(&self, value: u64) -> Result<()> {
        Absent.set(value)
    }
    fn timestamp(&self) -> Result<u64> {
        Absent.timestamp()
    }
    fn wait(&self, _: u64, _: hcq::Deadline) -> Result<()> {
        Ok(())
    }
}

fn soon() -> hcq::Deadline {
    hcq::Deadline::after(std::time::Duration::from_secs(1))
}
