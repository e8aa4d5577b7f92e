//! Launches: registers, packets, arguments.

use super::*;

#[test]
fn open_values_land_wherever_the_words_and_arguments_name_them() {
    let program = program(launch());
    let signal = signal();
    for encoder in [
        pm4(&GFX1100),
        pm4(&GFX942),
        aql(&GFX942, 8),
        aql(&GFX1201, 1),
    ] {
        let wait = Command::Wait {
            signal: &signal,
            value: Val::Slot(Slot(3), 1),
        };
        let done = Command::Signal {
            signal: &signal,
            value: Val::Slot(Slot(3), 2),
        };
        let mut out = encode(&encoder, &[wait, exec(&program), copy(5), done]);
        out.relocate(0x7e20_0000_0000);
        out.patch(&[0x1_0000_0000, 0x77, 0x7e11_0000_0000, 0x5_ffff_fffe])
            .unwrap();
        let all: Vec<u32> = out.words.iter().chain(&out.data).copied().collect();
        let has = |words: &[u32]| all.windows(words.len()).any(|window| window == words);
        // Arguments, the source of the copy, the value that is signalled.
        assert!(has(&[0, 0x7e10, 0x40, 1, 0x77]), "{encoder:?}");
        assert!(has(&[3, 0x7e11, 1, 0x7e10]), "{encoder:?}");
        assert!(has(&[0, 6]), "{encoder:?}");
        // Twice the same.
        out.patch(&[0x40, 0x78, 0x7e11_0000_0000, 1]).unwrap();
        let all: Vec<u32> = out.words.iter().chain(&out.data).copied().collect();
        let has = |words: &[u32]| all.windows(words.len()).any(|window| window == words);
        assert!(has(&[0, 0x7e10, 0x80, 0, 0x78]), "{encoder:?}");
        assert!(has(&[3, 0]), "{encoder:?}");
        assert_eq!(out.patch(&[0, 0, 0]), Err(Slot(3)));
    }
}

#[test]
fn grids_and_copies_of_nothing_are_nothing() {
    let program = program(launch());
    let nothing = Command::Exec {
        program: &program,
        args: &ARGS,
        grid: [2, 0, 4],
        block: [64, 1, 1],
    };
    for encoder in [pm4(&GFX1100), aql(&GFX942, 8)] {
        for command in [nothing, copy(0)] {
            let out = encode(&encoder, &[command]);
            assert!(out.words.is_empty() && out.patches.is_empty() && out.relocs.is_empty());
        }
    }
    assert!(encode(&sdma(&GFX1100), &[copy(0)]).words.is_empty());
}

#[test]
fn aql_orders_dispatches_only_where_it_must() {
    let program = program(launch());
    let encoder = aql(&GFX942, 8);
    let headers = |commands: &[Command<'_>]| {
        let out = encode(&encoder, commands);
        let packets = out.words.chunks(aql::PACKET);
        packets.map(|packet| packet[0] & 0xffff).collect::<Vec<_>>()
    };
    let (exec, queue) = (exec(&program), barrier(Scope::Queue));
    let system = barrier(Scope::System);
    // Nothing is known of what came before the first one.
    assert_eq!(headers(&[exec, exec]), [0x1302, 0x1202]);
    assert_eq!(headers(&[exec, queue, exec]), [0x1302, 0x1302]);
    assert_eq!(
        headers(&[exec, queue, system, queue, exec]),
        [0x1302, 0x1502]
    );
    // A barrier that nothing follows is a packet; PM4 is a barrier by itself.
    assert_eq!(headers(&[exec, queue]), [0x1302, 0x1303]);
    assert_eq!(headers(&[exec, system]), [0x1302, 0x1503]);
    assert_eq!(
        headers(&[exec, queue, copy(4), exec]),
        [0x1302, 0x1500, 0x1302]
    );
    // One indirect buffer for what stands together.
    assert_eq!(
        headers(&[copy(4), copy(4), exec, copy(4)]),
        [0x1500, 0x1302, 0x1500]
    );
    let out = encode(&encoder, &[exec]);
    assert_eq!(out.words[0] >> 16, 3);
    assert_eq!(spec_aql::TYPE.get(out.words[0]), spec_aql::KERNEL_DISPATCH);
    assert_eq!(out.words[1..6], [64 | 1 << 16, 1, 128, 3, 4]);
    assert_eq!(out.words[8..10], [0x400, 0x7e30]);
}

#[test]
fn a_launch_that_its_kernel_or_chip_cannot_take_says_why() {
    let program = program(launch());
    let launch_of = |args, grid, block| Command::Exec {
        program: &program,
        args,
        grid,
        block,
    };
    let text = |command| refused(&pm4(&GFX1201), command);
    assert_eq!(
        text(launch_of(&ARGS[..1], [1; 3], [1; 3])),
        "AMD:0 compute 1 queue: exec k: 1 arguments given, the kernel takes 3"
    );
    for block in [[257, 1, 1], [16, 16, 2], [0, 1, 1], [u32::MAX; 3]] {
        let text = text(launch_of(&ARGS, [1; 3], block));
        assert!(text.contains("expected 1 to 256 work-items"), "{text}");
    }
    let wide = text(launch_of(&ARGS, [1, 0x1_0000, 1], [1; 3]));
    assert!(
        wide.contains("starts at most [2147483647, 65535, 65535]"),
        "{wide}"
    );
    encode(
        &pm4(&GFX1100),
        &[launch_of(&ARGS, [1, 0x1_0000, 1], [1; 3])],
    );
    let large = refused(
        &aql(&GFX942, 8),
        launch_of(&ARGS, [1 << 25, 1, 1], [256, 1, 1]),
    );
    assert!(
        large.contains("exceeds the 32-bit work-item count"),
        "{large}"
    );
    let copies = refused(&sdma(&GFX1100), exec(&program));
    assert_eq!(
        copies,
        "AMD:0 copy 1 queue: exec k: copy queues cannot run kernels: submit it to a compute queue"
    );
}

#[test]
fn a_program_that_does_not_fit_says_why() {
    let text = |change: &dyn Fn(&mut Program, &mut Launch)| {
        let mut launch = launch();
        let mut of = program(launch);
        change(&mut of, &mut launch);
        if !of.launch_words.is_empty() {
            of.launch_words = launch.words();
        }
        refused(&pm4(&GFX1030), exec(&of))
    };
    let t = text(&|program, _| program.launch_words = Box::new([]));
    assert!(t.contains("loaded by another driver"), "{t}");
    let t = text(&|program, _| program.args.fields[2].offset = 18);
    assert!(t.contains("is outside its 20-byte block"), "{t}");
    let t = text(&|program, _| program.args.fields[2].offset = u32::MAX - 3);
    assert!(t.contains("is outside its 20-byte block"), "{t}");
    let t = text(&|program, _| program.args.align = 512);
    assert!(t.contains("alignment is 512 bytes"), "{t}");
    let t = text(&|_, launch| launch.required = Some([32, 2, 1]));
    assert!(t.contains("compiled for [32, 2, 1]"), "{t}");
    let t = text(&|_, launch| (launch.rsrc[1], launch.private_bytes) = (1, 64));
    assert!(
        t.contains("needs 64 bytes of scratch per lane, the queue has 0"),
        "{t}"
    );
    let t = text(&|_, launch| launch.properties |= kd::ENABLE_SGPR_DISPATCH_ID.put(1) as u16);
    assert!(t.contains("available on AQL queues only"), "{t}");
    let t = text(&|_, launch| launch.preload = 15);
    assert!(t.contains("requests 17 initial SGPRs"), "{t}");
}

#[test]
fn scratch_is_told_by_registers_or_by_sgprs() {
    let launch = Launch {
        rsrc: [1, 1, 3],
        private_bytes: 16,
        properties: (kd::ENABLE_SGPR_PRIVATE_SEGMENT_BUFFER.put(1)
            | kd::ENABLE_SGPR_KERNARG_SEGMENT_PTR.put(1)
            | kd::ENABLE_SGPR_FLAT_SCRATCH_INIT.put(1)
            | kd::ENABLE_SGPR_PRIVATE_SEGMENT_SIZE.put(1)) as u16,
        ..launch()
    };
    let scratch = Scratch {
        base: GpuVa(0x7e40_0000_0000),
        bytes: 1 << 20,
        lane_bytes: 16,
        tmpring: 0x1234,
    };
    let of = |chip| {
        let encoder = pm4(chip);
        encoder.set_scratch(scratch, None);
        encode(&encoder, &[exec(&program(launch))])
    };
    let has =
        |out: &CommandBuffer, words: &[u32]| out.words.windows(words.len()).any(|w| w == words);
    let out = of(&GFX1030);
    assert!(has(&out, &[0xc001_7600, 0x218, 0x1234]));
    // Resource, arguments, flat scratch, size.
    let user = [
        0xc009_7600,
        0x240,
        0,
        0x8000_7e40,
        u32::MAX,
        0x21e1_4fac,
        0,
        0,
        0,
        0x7e40,
        16,
    ];
    assert!(has(&out, &user), "{:x?}", out.words);
    assert!(!has(&out, &[0xc002_7600, 0x210]));
    let out = of(&GFX1100);
    assert!(has(&out, &[0xc002_7600, 0x210, 0x4000_0000, 0x7e]));
    let text = {
        let encoder = pm4(&GFX942);
        encoder.set_scratch(scratch, None);
        refused(&encoder, exec(&program(launch)))
    };
    assert!(
        text.contains("requests a scratch buffer resource"),
        "{text}"
    );
}

#[test]
fn arguments_in_sgprs_are_those_in_memory() {
    let launch = Launch {
        // 3 dwords from dword 2 on: the second argument, and the third one.
        preload: (kd::KERNARG_PRELOAD_SPEC_LENGTH.put(3) | kd::KERNARG_PRELOAD_SPEC_OFFSET.put(2))
            as u16,
        ..launch()
    };
    let mut out = encode(&pm4(&GFX942), &[exec(&program(launch))]);
    out.relocate(0x7e20_0000_0000);
    out.patch(&[0x1_0000_0000, 0x55]).unwrap();
    let user = [0xc005_7600, 0x240, 0, 0x7e20, 0x40, 1, 0x55];
    assert!(out.words.windows(7).any(|w| w == user), "{:x?}", out.words);
    let sections: Vec<_> = out.patches.iter().map(|p| (p.section, p.part)).collect();
    assert_eq!(
        sections,
        [
            (Section::Data, Part::Whole),
            (Section::Data, Part::Low),
            (Section::Words, Part::Low),
            (Section::Words, Part::High),
            (Section::Words, Part::Low),
        ]
    );
}

#[test]
fn hidden_arguments_tell_the_size_of_the_grid() {
    let launch = Launch {
        kernarg_bytes: 24 + 256,
        hidden: Some(24),
        ..launch()
    };
    let out = encode(&pm4(&GFX1100), &[exec(&program(launch))]);
    assert_eq!(out.data.len(), 70);
    assert_eq!(out.data[6..12], [2, 3, 4, 64 | 1 << 16, 1, 0]);
    assert_eq!((out.data[6 + 16], out.data[6 + 50]), (3, 0x1000));
    // A block that ends earlier has fewer.
    let launch = Launch {
        kernarg_bytes: 36,
        ..launch
    };
    let out = encode(&pm4(&GFX1100), &[exec(&program(launch))]);
    assert_eq!(out.data[6..], [2, 3, 4]);
}
