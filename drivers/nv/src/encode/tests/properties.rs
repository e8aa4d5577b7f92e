//! What holds for every launch, however large.

use drivers_spec::nv::qmd as table;
use proptest::prelude::*;

use super::*;

fn arch() -> impl Strategy<Value = Arch> {
    prop::sample::select(Arch::ALL.to_vec())
}

proptest! {
    /// No field runs into another, wherever the data block lies and whatever is launched.
    #[test]
    fn fields_stay_in_their_bits(
        arch in arch(),
        base in 0..DATA_END / DATA_ALIGN / 2,
        grid in (1..=i32::MAX as u32, 1..=65535u32, 1..=65535u32),
        block in (1..=32u32, 1..=16u32, 1..=2u32),
        registers in 1..=255u32,
        barriers in 0..=16u32,
        shared in 0..=1816u32,
        local in 0..=0x8000u32,
        entry in 0..1u64 << 32,
        bytes in 1..1u64 << 24,
    ) {
        let base = base * DATA_ALIGN;
        let limits = Limits::of(sm(arch)).unwrap();
        let code = Code {
            entry: entry * 128,
            bytes,
            registers,
            barriers,
            shared_bytes: (shared * 128).min(limits.shared()),
            local_bytes: local * 16,
            ..CODE
        };
        let program = program_of(arch, code, ArgLayout::buffers(0));
        let encoder = encoder(arch, QueueKind::Compute);
        encoder.set_local(&LocalMemory { thread_bytes: u32::MAX, ..LocalMemory::default() });
        let launch = Command::Exec {
            program: &program,
            args: &[],
            grid: grid.into(),
            block: block.into(),
        };
        let mut packets = encode(&encoder, &[launch]);
        packets.relocate(base);
        let version = *arch.facts().qmds.last().unwrap();
        let qmd = &packets.data[..version.dwords()];
        prop_assert_eq!(table::unnamed(version, qmd), None);
        let get = |field: table::Field| field.get(version, 0, qmd).unwrap();
        let grids = [table::GRID_WIDTH, table::GRID_HEIGHT, table::GRID_DEPTH].map(get);
        prop_assert_eq!(grids, [grid.0, grid.1, grid.2].map(u64::from));
        prop_assert_eq!(get(table::REGISTER_COUNT), u64::from(registers));
        prop_assert_eq!(get(table::BARRIER_COUNT), u64::from(barriers));
        prop_assert_eq!(get(table::SHARED_MEMORY_SIZE), u64::from(code.shared_bytes));
        prop_assert_eq!(get(table::SHADER_LOCAL_MEMORY_HIGH_SIZE), u64::from(code.local_bytes));
        let bank = table::CONSTANT_BUFFER_ADDR.get(version, 0, qmd);
        prop_assert_eq!(bank, Some(base + version.dwords() as u64 * 4));
        prop_assert_eq!(table::PROGRAM_ADDRESS.get(version, 0, qmd), Some(code.entry));
        let [least, target, most] = [
            table::MIN_SM_CONFIG_SHARED_MEM_SIZE,
            table::TARGET_SM_CONFIG_SHARED_MEM_SIZE,
            table::MAX_SM_CONFIG_SHARED_MEM_SIZE,
        ].map(get);
        prop_assert!(least <= target && target <= most);
        prop_assert!((least - 1) * 4096 >= u64::from(code.shared_bytes));
        let pcas = methods(arch, &packets.words)[0].1;
        prop_assert_eq!(u64::from(pcas) << 8, base);
    }

    /// All of a copy is copied, once.
    #[test]
    fn transfers_cover_a_range(arch in arch(), bytes in 0..1u64 << 36, dst in 0..1u64 << 40) {
        let copy = Command::Copy { dst: Val::Const(dst), src: Val::Const(dst + (1 << 41)), bytes };
        let words = encode(&encoder(arch, QueueKind::Copy), &[copy]).words;
        let mut done = 0;
        let (mut upper, mut at) = (0, 0);
        for (name, data) in methods(arch, &words) {
            match name {
                "OFFSET_OUT_UPPER" => upper = u64::from(data),
                "OFFSET_OUT_LOWER" => at = upper << 32 | u64::from(data),
                "LINE_LENGTH_IN" => {
                    prop_assert_eq!(at, dst + done);
                    done += u64::from(data);
                }
                _ => {}
            }
        }
        prop_assert_eq!(done, bytes);
    }
}
