//! Commands but launches.

use super::*;

const AT: u64 = 0x60_0000_1010;

/// The payload and the operation of the semaphores in words.
fn semaphores(arch: Arch, words: &[u32]) -> Vec<(u64, u64, u32)> {
    let methods = methods(arch, words);
    let each = methods.chunks(5).map(|five| {
        let names: Vec<_> = five.iter().map(|(name, _)| *name).collect();
        assert_eq!(
            names,
            [
                "SEM_ADDR_LO",
                "SEM_ADDR_HI",
                "SEM_PAYLOAD_LO",
                "SEM_PAYLOAD_HI",
                "SEM_EXECUTE"
            ]
        );
        let wide = |i: usize| u64::from(five[i].1) | u64::from(five[i + 1].1) << 32;
        (wide(0), wide(2), five[4].1)
    });
    each.collect()
}

#[test]
fn signals_are_semaphores_of_the_host_on_every_channel() {
    let (s, value) = (signal(), Val::Const(0x1_0000_0007));
    for arch in Arch::ALL {
        for kind in [QueueKind::Compute, QueueKind::Copy] {
            let encoder = encoder(arch, kind);
            let wait = encode(&encoder, &[Command::Wait { signal: &s, value }]);
            let expected = [(AT, 0x1_0000_0007, 0x0100_1003)];
            assert_eq!(semaphores(arch, &wait.words), expected);
            let signal = encode(&encoder, &[Command::Signal { signal: &s, value }]);
            let expected = [(AT, 0x1_0000_0007, 0x0310_0001)];
            assert_eq!(semaphores(arch, &signal.words), expected);
            let time = encode(&encoder, &[Command::Timestamp { signal: &s }]);
            // IOR of nothing, with the time.
            assert_eq!(semaphores(arch, &time.words), [(AT, 0, 0xa310_0006)]);
        }
    }
}

#[test]
fn the_signal_of_a_timeline_interrupts() {
    let s = signal();
    let encoder = Encoder::new(Setup {
        interrupt: Some(s.va()),
        ..setup(Arch::Gh100, QueueKind::Compute)
    });
    let value = Val::Const(1);
    let words = encode(&encoder, &[Command::Signal { signal: &s, value }]).words;
    let last = *methods(Arch::Gh100, &words).last().unwrap();
    assert_eq!(last, ("NON_STALL_INTERRUPT", 0));
    let other = signal_at(0x60_0000_2000);
    let signal = Command::Signal {
        signal: &other,
        value,
    };
    assert_eq!(encode(&encoder, &[signal]).words.len(), 6);
}

#[test]
fn words_are_written_behind_what_came_before() {
    let encoder = encoder(Arch::Ga10x, QueueKind::Copy);
    let write = |width| Command::Write {
        at: Val::Const(0x1008),
        value: Val::Const(0x1122_3344_5566_7788),
        width,
    };
    let words = encode(&encoder, &[write(Width::W32), write(Width::W64)]).words;
    let expected = [
        (0x1008, 0x5566_7788, 0x10_0001),
        (0x1008, 0x1122_3344_5566_7788, 0x110_0001),
    ];
    assert_eq!(semaphores(Arch::Ga10x, &words), expected);
}

#[test]
fn polls_are_acquires() {
    let encoder = encoder(Arch::Ad10x, QueueKind::Compute);
    let poll = |mask, value, compare, width| Command::Poll {
        at: Val::Const(0x1000),
        mask,
        value: Val::Const(value),
        compare,
        width,
    };
    let of = |mask, value, compare, width| {
        let words = encode(&encoder, &[poll(mask, value, compare, width)]).words;
        let semaphores = semaphores(Arch::Ad10x, &words);
        let pairs = semaphores.into_iter().map(|(_, payload, op)| (payload, op));
        pairs.collect::<Vec<_>>()
    };
    let (all, half) = (u64::MAX, u64::from(u32::MAX));
    use Compare::{Equal, GreaterEqual, NotEqual};
    use Width::{W32, W64};
    assert_eq!(of(all, 7, Equal, W32), [(7, 0x1000)]);
    assert_eq!(of(all, 7, Equal, W64), [(7, 0x100_1000)]);
    assert_eq!(of(half, 7, GreaterEqual, W32), [(7, 0x1002)]);
    assert_eq!(of(all, 7, GreaterEqual, W64), [(7, 0x100_1002)]);
    // A bit that is set; one that is not.
    assert_eq!(of(0x10, 0x10, Equal, W32), [(0x10, 0x1004)]);
    assert_eq!(of(0x10, 0, Equal, W32), [(0xffff_ffef, 0x1005)]);
    assert_eq!(
        of(0x3, 0x1, Equal, W32),
        [(1, 0x1004), (0xffff_fffd, 0x1005)]
    );
    assert_eq!(of(0xff, 0, NotEqual, W64), [(0xff, 0x100_1004)]);
    assert_eq!(of(0xff, 0xff, NotEqual, W64), [(!0xff, 0x100_1005)]);
    assert_eq!(of(0xff, 0, GreaterEqual, W32), []);
    for (mask, value, compare) in [
        (0xff, 1, NotEqual),
        (all, 1, NotEqual),
        (0xff, 1, GreaterEqual),
        // What the mask hides.
        (0xff, 0x100, Equal),
    ] {
        let why = refused(&encoder, poll(mask, value, compare, W32));
        assert!(
            why.starts_with("NV:0 compute 1 queue: poll: a channel's host engine cannot wait"),
            "{why}"
        );
    }
    // A value that comes later is compared as a whole.
    let later = |mask| Command::Poll {
        at: Val::Slot(Slot(0), 8),
        mask,
        value: Val::Slot(Slot(1), 0),
        compare: Equal,
        width: W64,
    };
    assert_eq!(encode(&encoder, &[later(all)]).patches.len(), 4);
    assert!(refused(&encoder, later(1)).contains("whole word"));
}

#[test]
fn barriers_wait_for_engines() {
    for (kind, scope, expected) in [
        (QueueKind::Compute, Scope::Queue, &["WAIT_FOR_IDLE"][..]),
        (QueueKind::Compute, Scope::System, &["WAIT_FOR_IDLE"]),
        (QueueKind::Copy, Scope::Queue, &[]),
        (
            QueueKind::Copy,
            Scope::Device,
            &["WFI", "MEM_OP_A", "MEM_OP_B", "MEM_OP_C", "MEM_OP_D"],
        ),
    ] {
        let encoder = encoder(Arch::Gb20x, kind);
        let words = encode(&encoder, &[Command::Barrier { scope }]).words;
        let methods = methods(Arch::Gb20x, &words);
        let names: Vec<_> = methods.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, expected, "{kind} {scope:?}");
    }
    let copies = encoder(Arch::Gh100, QueueKind::Copy);
    let membar = |scope| encode(&copies, &[Command::Barrier { scope }]).words[4];
    assert_eq!([membar(Scope::Device), membar(Scope::System)], [1, 0]);
}

/// LAUNCH_DMA of words, and what lines lead to: source, destination, length.
fn transfers(arch: Arch, words: &[u32]) -> Vec<(u64, u64, u32, u32)> {
    let (mut src, mut dst, mut length) = (0u64, 0u64, 0);
    let mut found = Vec::new();
    for (name, data) in methods(arch, words) {
        match name {
            "OFFSET_IN_UPPER" => src = u64::from(data) << 32,
            "OFFSET_IN_LOWER" => src |= u64::from(data),
            "OFFSET_OUT_UPPER" => dst = u64::from(data) << 32,
            "OFFSET_OUT_LOWER" => dst |= u64::from(data),
            "LINE_LENGTH_IN" => length = data,
            "LAUNCH_DMA" => found.push((src, dst, length, data)),
            _ => {}
        }
    }
    found
}

fn copy(dst: u64, src: u64, bytes: u64) -> Command<'static> {
    Command::Copy {
        dst: Val::Const(dst),
        src: Val::Const(src),
        bytes,
    }
}

#[test]
fn copies_are_lines_of_two_gigabytes_at_most() {
    for kind in [QueueKind::Compute, QueueKind::Copy] {
        let encoder = encoder(Arch::Gh100, kind);
        let words = encode(
            &encoder,
            &[copy(0x7000_0000_0000, 0x6000_0000_0000, 5 << 30)],
        )
        .words;
        let gib = 1 << 30;
        assert_eq!(
            transfers(Arch::Gh100, &words),
            [
                (0x6000_0000_0000, 0x7000_0000_0000, 2 * gib, 0x182),
                (0x6000_8000_0000, 0x7000_8000_0000, 2 * gib, 0x181),
                (0x6001_0000_0000, 0x7001_0000_0000, gib, 0x181),
            ]
        );
        assert_eq!(encode(&encoder, &[copy(0, 0, 0)]).words, [0u32; 0]);
    }
}

#[test]
fn the_first_transfer_behind_a_barrier_waits() {
    let encoder = encoder(Arch::Ad10x, QueueKind::Copy);
    let barrier = Command::Barrier {
        scope: Scope::Queue,
    };
    let commands = [
        copy(0x1000, 0x2000, 16),
        copy(0x1010, 0x3000, 16),
        barrier,
        copy(0x4000, 0x1000, 16),
    ];
    let words = encode(&encoder, &commands).words;
    let launches: Vec<_> = transfers(Arch::Ad10x, &words).iter().map(|t| t.3).collect();
    assert_eq!(launches, [0x182, 0x181, 0x182]);
}

#[test]
fn fills_are_copies_of_a_constant() {
    let encoder = encoder(Arch::Ga100, QueueKind::Copy);
    let fill = |at, bytes| Command::Fill {
        at: Val::Const(at),
        value: 0xdead_beef,
        bytes,
    };
    let words = encode(&encoder, &[fill(0x5000, 3 << 30)]).words;
    let all = methods(Arch::Ga100, &words);
    assert_eq!(all[0], ("SET_REMAP_CONST_B", 0xdead_beef));
    assert_eq!(all[1], ("SET_REMAP_COMPONENTS", 0x3_0005));
    let transfers: Vec<_> = transfers(Arch::Ga100, &words)
        .iter()
        .map(|t| (t.1, t.2, t.3))
        .collect();
    assert_eq!(
        transfers,
        [(0x5000, 1 << 29, 0x582), (0x8000_5000, 1 << 28, 0x581)]
    );
    assert_eq!(encode(&encoder, &[fill(0, 0)]).words, [0u32; 0]);
    assert!(refused(&encoder, fill(0x1000, 6)).contains("expected a multiple of the 4"));
    assert!(refused(&encoder, fill(0x1002, 8)).contains("a multiple of 4"));
}

#[test]
fn what_no_channel_can_reach_is_refused() {
    let s = signal_at(1 << 40);
    let value = Val::Const(1);
    let old = encoder(Arch::Ad10x, QueueKind::Copy);
    let why = refused(&old, Command::Wait { signal: &s, value });
    assert_eq!(
        why,
        "NV:0 copy 1 queue: wait: address 0x10000000000: expected a multiple of 16 of at most 40 bits"
    );
    let new = encoder(Arch::Gh100, QueueKind::Copy);
    assert_eq!(
        encode(&new, &[Command::Wait { signal: &s, value }])
            .words
            .len(),
        6
    );
    // Engines reach further than semaphores.
    assert!(!encode(&old, &[copy(1 << 48, 1 << 47, 16)]).words.is_empty());
    assert!(refused(&old, copy(1 << 49, 0, 16)).contains("the last 49-bit"));
    assert!(refused(&new, copy(0, (1 << 57) - 8, 16)).contains("the last 57-bit"));
    assert!(refused(&new, copy(u64::MAX, 0, 16)).contains("run past the last"));
    assert!(refused(&new, copy(0x1000, 0x1008, 16)).contains("overlap"));
    assert!(refused(&new, copy(0, 1 << 56, 1 << 55)).contains("split it"));
    let program = program(Arch::Gh100);
    let exec = Command::Exec {
        program: &program,
        args: &[],
        grid: [1; 3],
        block: [1; 3],
    };
    assert!(refused(&new, exec).contains("cannot run kernels"));
}

/// Addresses and values that come with a submission land in the words that known ones lie in.
#[test]
fn open_values_are_patched_into_the_same_words() {
    let encoder = encoder(Arch::Gh100, QueueKind::Compute);
    let s = signal();
    let values = [0x6000_1234_5670u64, 0x7000_0000_1230, 0x1_0000_0009];
    let commands = |val: &dyn Fn(u16, u64) -> Val| {
        let program = program(Arch::Gh100);
        let args = [val(0, 0x10), val(2, 0), val(1, 0x20)];
        let commands = [
            Command::Wait {
                signal: &s,
                value: val(2, 0),
            },
            Command::Copy {
                dst: val(1, 0),
                src: val(0, 0x20),
                bytes: 0x1_8000_0000,
            },
            Command::Fill {
                at: val(1, 0x40),
                value: 3,
                bytes: 32,
            },
            Command::Write {
                at: val(0, 8),
                value: val(2, 1),
                width: Width::W64,
            },
            Command::Exec {
                program: &program,
                args: &args,
                grid: [2, 3, 4],
                block: [32, 2, 1],
            },
            Command::Signal {
                signal: &s,
                value: val(2, 2),
            },
        ];
        encode(&encoder, &commands)
    };
    let known = commands(&|slot, add| Val::Const(values[slot as usize] + add));
    let mut open = commands(&|slot, add| Val::Slot(Slot(slot), add));
    assert_ne!(open.words, known.words);
    open.patch(&values).unwrap();
    assert_eq!((&open.words, &open.data), (&known.words, &known.data));
    assert_eq!(open.relocs, known.relocs);
}

#[test]
fn a_channel_begins_with_its_engines_and_windows() {
    for arch in Arch::ALL {
        let mut out = CommandBuffer::new();
        encoder(arch, QueueKind::Compute).open(&mut out);
        let facts = arch.facts();
        let expected = [
            ("SET_OBJECT", facts.compute.number),
            ("SET_SHADER_LOCAL_MEMORY_WINDOW_A", 0x7293),
            ("SET_SHADER_LOCAL_MEMORY_WINDOW_B", 0),
            ("SET_SHADER_SHARED_MEMORY_WINDOW_A", 0x7294),
            ("SET_SHADER_SHARED_MEMORY_WINDOW_B", 0),
            ("INVALIDATE_SKED_CACHES", 0),
            ("SET_OBJECT", facts.copy.number),
        ];
        assert_eq!(methods(arch, &out.words), expected);
        out.clear();
        encoder(arch, QueueKind::Copy).open(&mut out);
        assert_eq!(methods(arch, &out.words), expected[6..]);
        out.clear();
        encoder(arch, QueueKind::Compute).begin(&mut out);
        assert_eq!(
            methods(arch, &out.words),
            [("INVALIDATE_SHADER_CACHES_NO_WFI", 0x1011)]
        );
        out.clear();
        encoder(arch, QueueKind::Copy).begin(&mut out);
        assert_eq!(out.words, [0u32; 0]);
    }
}

#[test]
fn words_are_cut_between_methods() {
    let encoder = encoder(Arch::Ga10x, QueueKind::Compute);
    let (s, value) = (signal(), Val::Const(1));
    let barrier = Command::Barrier {
        scope: Scope::Queue,
    };
    let wait = Command::Wait { signal: &s, value };
    let words = encode(&encoder, &[wait, barrier, wait]).words;
    let lengths = [13, 12, 7, 6, 5, 0].map(|room| push::packet_boundary(&words, room));
    assert_eq!(lengths, [13, 7, 7, 6, 0, 0]);
}

#[test]
fn entries_of_a_ring_lead_to_segments() {
    use spec::{gp_entry0, gp_entry1};
    let [low, high] = push::entry(0x12_3456_789c, push::SEGMENT_MAX as u32);
    assert_eq!(low, 0x3456_789c);
    assert_eq!(gp_entry0::FETCH.get(low), gp_entry0::FETCH_UNCONDITIONAL);
    assert_eq!(gp_entry1::GET_HI.get(high), 0x12);
    assert_eq!(gp_entry1::LENGTH.get(high) as usize, push::SEGMENT_MAX);
    assert_eq!(high & !spec::GP_ENTRY1.mask(Arch::Gh100), 0);
}
