//! Launches: QMDs and constant banks.

use drivers_spec::nv::cubin::Bank0;
use drivers_spec::nv::qmd as table;
use drivers_spec::nv::qmd::Version;

use super::*;

const DATA: u64 = 0x60_4000_0000;

fn exec<'a>(program: &'a Program, args: &'a [Val], grid: [u32; 3], block: [u32; 3]) -> Command<'a> {
    Command::Exec {
        program,
        args,
        grid,
        block,
    }
}

const ARGS: [Val; 3] = [
    Val::Const(0x6000_1111_2222),
    Val::Const(0x3333_4444),
    Val::Const(0x5555_6666_7777_8888),
];

/// The data block of a launch, placed: the QMD, and constant bank 0.
fn placed(arch: Arch, packets: &mut CommandBuffer, launch: usize) -> (Version, Vec<u32>, Vec<u32>) {
    packets.relocate(DATA);
    let version = *arch.facts().qmds.last().unwrap();
    let methods = methods(arch, &packets.words);
    let mut pcas = methods.iter().filter(|(name, _)| *name == "SEND_PCAS_A");
    let at = u64::from(pcas.nth(launch).unwrap().1) << 8;
    let start = ((at - DATA) / 4) as usize;
    let qmd = packets.data[start..start + version.dwords()].to_vec();
    let address = table::CONSTANT_BUFFER_ADDR.get(version, 0, &qmd).unwrap();
    let bytes = table::CONSTANT_BUFFER_SIZE.get(version, 0, &qmd).unwrap();
    let first = ((address - DATA) / 4) as usize;
    let bank = packets.data[first..first + bytes as usize / 4].to_vec();
    (version, qmd, bank)
}

#[test]
fn a_launch_completes_the_template() {
    for arch in Arch::ALL {
        let program = program(arch);
        let encoder = encoder(arch, QueueKind::Compute);
        let commands = [
            exec(&program, &ARGS, [7, 1, 1], [64, 1, 1]),
            exec(&program, &ARGS, [0x7fff_ffff, 65535, 65534], [16, 8, 2]),
        ];
        let mut packets = encode(&encoder, &commands);
        let (version, qmd, bank) = placed(arch, &mut packets, 1);
        assert_eq!(table::unnamed(version, &qmd), None);
        assert_eq!(Version::of(arch.facts().qmds, &qmd), Some(version));
        let get = |field: table::Field| field.get(version, 0, &qmd).unwrap();
        assert_eq!(get(table::GRID_WIDTH), 0x7fff_ffff);
        assert_eq!(
            (get(table::GRID_HEIGHT), get(table::GRID_DEPTH)),
            (65535, 65534)
        );
        let block = [
            table::CTA_THREAD_DIMENSION0,
            table::CTA_THREAD_DIMENSION1,
            table::CTA_THREAD_DIMENSION2,
        ];
        assert_eq!(block.map(get), [16, 8, 2]);
        assert_eq!(get(table::REGISTER_COUNT), 19);
        assert_eq!(get(table::BARRIER_COUNT), 1);
        assert_eq!(get(table::SHARED_MEMORY_SIZE), 0x800);
        let program_address = table::PROGRAM_ADDRESS.get(version, 0, &qmd);
        assert_eq!(program_address, Some(CODE.entry));
        // 0x480 bytes from the middle of a unit on.
        let prefetch = table::PROGRAM_PREFETCH_ADDR.get(version, 0, &qmd);
        assert_eq!(prefetch, Some(CODE.entry & !0xff));
        assert_eq!(get(table::PROGRAM_PREFETCH_SIZE), 5);
        assert_eq!(get(table::CWD_MEMBAR_TYPE), 1);
        assert_eq!(get(table::CONSTANT_BUFFER_VALID), 1);
        assert_eq!(get(table::CONSTANT_BUFFER_INVALIDATE), 1);

        let Bank0 {
            block,
            grid,
            shared_window,
            local_window,
            stack,
            params,
            ..
        } = *bank0(sm(arch)).unwrap();
        let word = |at: u32| bank[at as usize / 4];
        let three = |at: u32| [word(at), word(at + 4), word(at + 8)];
        let wide = |at: u32| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        assert_eq!(three(block), [16, 8, 2]);
        assert_eq!(three(grid), [0x7fff_ffff, 65535, 65534]);
        assert_eq!(wide(local_window), Windows::DEFAULT.local.0);
        assert_eq!(
            shared_window.map(wide),
            shared_window.map(|_| Windows::DEFAULT.shared.0)
        );
        assert_eq!(word(stack), 0xff_fdc0);
        assert_eq!(wide(params), 0x6000_1111_2222);
        assert_eq!(word(params + 8), 0x3333_4444);
        assert_eq!(wide(params + 16), 0x5555_6666_7777_8888);
    }
}

/// A kernel that takes a tensor map by its address finds it, and no cache has that of the launch before.
#[test]
fn parameters_have_addresses() {
    let layout = ArgLayout::buffers(16);
    let args: Vec<Val> = (0..16).map(Val::Const).collect();
    for (arch, known) in [(Arch::Ad10x, false), (Arch::Gh100, true)] {
        for by_address in [false, true] {
            let program = program_with(arch, CODE, layout.clone(), by_address);
            let one = exec(&program, &args, [1; 3], [1; 3]);
            let mut packets = encode(&encoder(arch, QueueKind::Compute), &[one, one]);
            let (version, qmd, bank) = placed(arch, &mut packets, 1);
            let get = |field: table::Field| field.get(version, 0, &qmd).unwrap();
            let stale = get(table::INVALIDATE_TEXTURE_HEADER_CACHE);
            assert_eq!(stale, u64::from(by_address));
            let Bank0 {
                params,
                param_window,
                ..
            } = *bank0(sm(arch)).unwrap();
            assert_eq!(param_window.is_some(), known);
            let Some(at) = param_window else { continue };
            let at = at as usize / 4;
            let found = u64::from(bank[at]) | u64::from(bank[at + 1]) << 32;
            let first = table::CONSTANT_BUFFER_ADDR.get(version, 0, &qmd).unwrap();
            let place = first + u64::from(params);
            assert_eq!(found, if by_address { place } else { 0 });
        }
    }
}

#[test]
fn the_scheduler_is_told_of_each_qmd() {
    for (arch, action) in [
        (Arch::Ga100, 3),
        (Arch::Ad10x, 3),
        (Arch::Gh100, 10),
        (Arch::Gb20x, 3),
    ] {
        let program = program(arch);
        let one = exec(&program, &ARGS, [1; 3], [1; 3]);
        let mut packets = encode(&encoder(arch, QueueKind::Compute), &[one, one]);
        packets.relocate(DATA);
        // The second begins at the next place for a QMD, and nothing lies behind it.
        let all = packets.data.len() as u64 * 4;
        let block = (all / 2).next_multiple_of(DATA_ALIGN);
        let template = launch::Launch::from_words(&program.launch_words)
            .unwrap()
            .template;
        assert_eq!(all - block, template.len() as u64 * 4);
        assert_eq!(
            methods(arch, &packets.words),
            [
                ("SEND_PCAS_A", (DATA >> 8) as u32),
                ("SEND_SIGNALING_PCAS2_B", action),
                ("SEND_PCAS_A", ((DATA + block) >> 8) as u32),
                ("SEND_SIGNALING_PCAS2_B", action),
            ]
        );
    }
}

/// Least, best and most shared memory of a multiprocessor, as KiB.
fn carve_outs(arch: Arch, shared_bytes: u32, threads: u32) -> [u64; 3] {
    let code = Code {
        shared_bytes,
        ..CODE
    };
    let program = program_of(arch, code, ArgLayout::buffers(0));
    let launch = exec(&program, &[], [1; 3], [threads, 1, 1]);
    let mut packets = encode(&encoder(arch, QueueKind::Compute), &[launch]);
    let (version, qmd, _) = placed(arch, &mut packets, 0);
    let fields = [
        table::MIN_SM_CONFIG_SHARED_MEM_SIZE,
        table::TARGET_SM_CONFIG_SHARED_MEM_SIZE,
        table::MAX_SM_CONFIG_SHARED_MEM_SIZE,
    ];
    fields.map(|field| (field.get(version, 0, &qmd).unwrap() - 1) * 4)
}

#[test]
fn shared_memory_is_set_aside_for_as_many_blocks_as_run() {
    assert_eq!(carve_outs(Arch::Gh100, 0x400, 1024), [8, 8, 228]);
    // 32 blocks of one warp.
    assert_eq!(carve_outs(Arch::Gh100, 0x400, 32), [8, 32, 228]);
    assert_eq!(carve_outs(Arch::Gh100, 0x4400, 256), [32, 164, 228]);
    assert_eq!(carve_outs(Arch::Gh100, 228 << 10, 128), [228, 228, 228]);
    assert_eq!(carve_outs(Arch::Ga10x, 0x400, 32), [8, 16, 100]);
    assert_eq!(carve_outs(Arch::Ad10x, 100 << 10, 32), [100, 100, 100]);
    assert_eq!(carve_outs(Arch::Ga100, 33 << 10, 512), [64, 132, 164]);
    assert_eq!(carve_outs(Arch::Gb20x, 0x1_0000, 1024), [64, 64, 100]);
}

#[test]
fn other_banks_and_local_memory_are_in_the_template() {
    let banks = [Bank {
        index: 3,
        address: 0x20_0a01_0080,
        bytes: 0x24,
    }];
    let code = Code {
        local_bytes: 0x2c0,
        banks: &banks,
        ..CODE
    };
    let local = LocalMemory {
        thread_bytes: 0x2c0,
        tpc_bytes: 0x12_0034_8000,
        base: GpuVa(0x61_0002_0000),
        bytes: 0,
    };
    for arch in Arch::ALL {
        let program = program_of(arch, code, ArgLayout::buffers(0));
        let encoder = encoder(arch, QueueKind::Compute);
        let launch = exec(&program, &[], [1; 3], [1; 3]);
        let why = refused(&encoder, launch);
        assert!(
            why.contains("704 bytes of local memory per thread, the queue has 0"),
            "{why}"
        );
        let mut out = CommandBuffer::new();
        encoder.local_memory(&local, &mut out);
        let expected = [
            ("WAIT_FOR_IDLE", 0),
            ("SET_SHADER_LOCAL_MEMORY_A", 0x61),
            ("SET_SHADER_LOCAL_MEMORY_B", 0x2_0000),
            ("SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A", 0x12),
            ("SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_B", 0x34_8000),
            ("SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_C", 0xff),
        ];
        assert_eq!(methods(arch, &out.words), expected);
        encoder.set_local(&local);
        let mut packets = encode(&encoder, &[launch]);
        let (version, qmd, _) = placed(arch, &mut packets, 0);
        let high = table::SHADER_LOCAL_MEMORY_HIGH_SIZE.get(version, 0, &qmd);
        assert_eq!(high, Some(0x2c0));
        let get = |field: table::Field| field.get(version, 3, &qmd);
        assert_eq!(get(table::CONSTANT_BUFFER_VALID), Some(1));
        assert_eq!(get(table::CONSTANT_BUFFER_SIZE), Some(0x30));
        let address = table::CONSTANT_BUFFER_ADDR.get(version, 3, &qmd);
        assert_eq!(address, Some(0x20_0a01_0080));
    }
}

#[test]
fn launches_that_cannot_be_are_refused() {
    let arch = Arch::Gh100;
    let encoder = encoder(arch, QueueKind::Compute);
    let ours = program(arch);
    let why = |args: &[Val], grid, block| refused(&encoder, exec(&ours, args, grid, block));
    assert!(why(&ARGS[..2], [1; 3], [1; 3]).contains("2 arguments given, the kernel takes 3"));
    assert!(why(&ARGS, [1; 3], [0, 1, 1]).contains("1 to 1024 threads"));
    assert!(why(&ARGS, [1; 3], [33, 32, 1]).contains("1 to 1024 threads"));
    assert!(why(&ARGS, [1; 3], [u32::MAX; 3]).contains("1 to 1024 threads"));
    assert!(why(&ARGS, [1; 3], [1, 1, 65]).contains("64 along z"));
    assert!(why(&ARGS, [1 << 31, 1, 1], [1; 3]).contains("at most [2147483647, 65535, 65535]"));
    assert!(why(&ARGS, [1, 1 << 16, 1], [1; 3]).contains("65535"));
    assert!(
        encode(&encoder, &[exec(&ours, &ARGS, [1, 0, 1], [1; 3])])
            .words
            .is_empty()
    );
    let of_ada = program(Arch::Ad10x);
    let why = refused(&encoder, exec(&of_ada, &ARGS, [1; 3], [1; 3]));
    assert!(why.contains("loaded by another driver"), "{why}");
    let mut short = program(arch);
    short.args = ArgLayout::buffers(8);
    let args = [Val::Const(0); 8];
    let why = refused(&encoder, exec(&short, &args, [1; 3], [1; 3]));
    assert!(why.contains("the 8-byte argument at offset 24"), "{why}");
}

/// Parameters of 4 KiB, and of 32 KiB less one.
#[test]
fn parameters_may_be_many() {
    for (arch, buffers) in [(Arch::Ad10x, 512), (Arch::Gh100, 4095), (Arch::Gb20x, 4095)] {
        let args = ArgLayout::buffers(buffers);
        let code = Code {
            bank0_bytes: (bank0(sm(arch)).unwrap().params + args.bytes).next_multiple_of(16),
            ..CODE
        };
        let program = program_of(arch, code, args);
        let values: Vec<_> = (0..buffers as u64).map(|i| Val::Const(i << 32)).collect();
        let launch = exec(&program, &values, [1; 3], [1; 3]);
        let mut packets = encode(&encoder(arch, QueueKind::Compute), &[launch, launch]);
        let (_, _, bank) = placed(arch, &mut packets, 1);
        let last = bank0(sm(arch)).unwrap().params as usize / 4 + buffers * 2 - 1;
        assert_eq!(bank[last], buffers as u32 - 1);
        assert!(bank.len() <= 1 << 14);
    }
}
