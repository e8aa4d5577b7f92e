//! Old data in caches: what is read is really old, and a rule names what is missing.

use drivers_spec::qcom::kgsl::memory::{UNCACHED, WRITEBACK, WRITECOMBINE, WRITETHROUGH};
use drivers_spec::qcom::kgsl::{self, CacheOp, user};
use drivers_spec::qcom::packet::op;
use twin::errno::Errno;
use twin::fires::fires;

use super::bench::Bench;
use super::rig::{Memory, Rig, address, anywhere, errno, list};
use super::stream::Stream;

/// Event CACHE_INVALIDATE.
const INVALIDATE: u32 = 0x31;

fn write(at: u64, value: u32) -> Vec<u32> {
    let body = [at as u32, (at >> 32) as u32, value];
    Stream::default().command(op::MEM_WRITE, &body).words()
}

/// What the command processor finds in memory.
fn seen(rig: &Rig, memory: &Memory, at: u64) -> u32 {
    let to = rig.alloc(4096, WRITECOMBINE);
    let from = memory.gpu + at;
    let [to_low, to_high] = [to.gpu as u32, (to.gpu >> 32) as u32];
    let body = [0, to_low, to_high, from as u32, (from >> 32) as u32];
    let copy = Stream::default().command(op::MEM_TO_MEM, &body);
    rig.run(&copy.command(op::WAIT_MEM_WRITES, &[]).words());
    to.word(0)
}

/// A cache call for a range.
fn ranged(rig: &Rig, memory: &Memory, op: CacheOp, offset: u64, length: u64) {
    let mut args = kgsl::GpumemSyncCache {
        gpuaddr: 0,
        id: memory.id,
        op: (op | CacheOp::RANGE).bits(),
        offset,
        length,
    };
    rig.call(kgsl::GPUMEM_SYNC_CACHE, &mut args).unwrap();
}

#[test]
fn a_second_dispatch_reads_what_uche_has() {
    let bench = Bench::new("");
    let dispatch = bench.dispatch();
    assert_eq!(bench.run(&dispatch), [""; 0]);
    bench.arrays[1].put(0, &[5_f32.to_bits()]);
    let broken = bench.run(&dispatch);
    assert_eq!(bench.number(0, 0), 1000.0);
    fires("GPU-UCHE-INVALIDATE").only(&broken);
    // With the event it is right.
    let bench = Bench::new("");
    bench.run(&bench.dispatch());
    bench.arrays[1].put(0, &[5_f32.to_bits()]);
    let invalidate = Stream::default().command(op::EVENT_WRITE, &[INVALIDATE]);
    assert_eq!(bench.run(&invalidate.then(bench.dispatch())), [""; 0]);
    assert_eq!(bench.number(0, 0), 1005.0);
}

#[test]
fn code_that_changes_is_fetched_anew() {
    let bench = Bench::new("");
    assert_eq!(bench.run(&bench.dispatch()), [""; 0]);
    let mut again = bench.dispatch();
    again.omit(&drivers_spec::qcom::regs::SP_UPDATE_CNTL);
    let first = bench.code.word(0);
    // Its first instruction reads another register: the old code runs.
    bench.code.put(0, &[first ^ 1]);
    let broken = bench.run(&again);
    fires("GPU-INSTRUCTION-INVALIDATE").only(&broken);
    assert!(bench.is_right());
}

#[test]
fn memory_of_the_cpu_is_cleaned() {
    let bench = Bench::with("", WRITEBACK);
    let broken = bench.run(&bench.dispatch());
    fires("CPU-CACHE-CLEAN").first(&broken);
    let bench = Bench::with("", WRITEBACK);
    for array in &bench.arrays[1..] {
        bench.rig.sync(array.id, CacheOp::TO_GPU).unwrap();
    }
    assert_eq!(bench.run(&bench.dispatch()), [""; 0]);
    // The CPU sees the sum once it has invalidated it.
    assert_eq!(bench.number(0, 3), 0.0);
    let sum = bench.arrays[0].id;
    bench.rig.sync(sum, CacheOp::FROM_GPU).unwrap();
    assert!(bench.is_right());
    assert_eq!(bench.rig.broken(), [""; 0]);
}

#[test]
fn lines_that_both_write_lose_something() {
    let rig = Rig::new("");
    let memory = rig.alloc(4096, WRITEBACK);
    memory.put(0, &[1]);
    rig.run(&write(memory.gpu + 4, 2));
    rig.sync(memory.id, CacheOp::TO_GPU).unwrap();
    fires("CPU-CACHE-OVERWRITES").only(&rig.broken());
    let rig = Rig::new("version=5.15");
    let memory = rig.alloc(4096, WRITEBACK);
    memory.put(0, &[1]);
    rig.sync(memory.id, CacheOp::FROM_GPU).unwrap();
    assert_eq!(memory.word(0), 0);
    fires("CPU-CACHE-DROPS").only(&rig.broken());
    // The kernel 4.9 cleans lines before it invalidates them.
    let rig = Rig::new("version=4.9");
    let memory = rig.alloc(4096, WRITEBACK);
    memory.put(0, &[1]);
    rig.sync(memory.id, CacheOp::FROM_GPU).unwrap();
    assert_eq!((memory.word(0), seen(&rig, &memory, 0)), (1, 1));
    assert_eq!(rig.broken(), [""; 0]);
    memory.put(0, &[3]);
    rig.run(&write(memory.gpu + 4, 2));
    rig.sync(memory.id, CacheOp::FROM_GPU).unwrap();
    assert_eq!(memory.words::<2>(0), [3, 0]);
    fires("CPU-CACHE-OVERWRITES").only(&rig.broken());
    // Both at once: clean, then invalidate.
    let rig = Rig::new("");
    let memory = rig.alloc(4096, WRITEBACK);
    rig.run(&write(memory.gpu + 64, 2));
    memory.put(0, &[1]);
    rig.sync(memory.id, CacheOp::TO_GPU | CacheOp::FROM_GPU)
        .unwrap();
    assert_eq!((memory.word(0), memory.word(64)), (1, 2));
    assert_eq!(rig.broken(), [""; 0]);
}

#[test]
fn modes_without_a_cache_need_no_calls() {
    let rig = Rig::new("");
    for mode in [WRITECOMBINE, UNCACHED] {
        let memory = rig.alloc(4096, mode);
        rig.run(&write(memory.gpu, 7));
        assert_eq!(memory.word(0), 7);
        rig.sync(memory.id, CacheOp::TO_GPU).unwrap();
    }
    // Writing through is write-back on these kernels.
    let memory = rig.alloc(4096, WRITETHROUGH);
    rig.run(&write(memory.gpu, 7));
    assert_eq!(memory.word(0), 0);
    rig.sync(memory.id, CacheOp::FROM_GPU).unwrap();
    assert_eq!(memory.word(0), 7);
    assert_eq!(rig.broken(), [""; 0]);
}

#[test]
fn cache_calls_are_checked() {
    let rig = Rig::new("");
    let memory = rig.alloc(8192, WRITEBACK);
    assert_eq!(errno(rig.sync(memory.id, CacheOp::empty())), Errno::EINVAL);
    // An object that is not there is left out.
    rig.sync(999, CacheOp::TO_GPU).unwrap();
    let ranged = |offset, length, count, obj_len: usize| {
        let mut one = [kgsl::GpuobjSyncObj {
            offset,
            length,
            id: memory.id,
            op: (CacheOp::TO_GPU | CacheOp::RANGE).bits(),
        }];
        let mut args = kgsl::GpuobjSync {
            objs: list(&mut one),
            obj_len: obj_len as u32,
            count,
        };
        rig.call(kgsl::GPUOBJ_SYNC, &mut args)
    };
    let whole = size_of::<kgsl::GpuobjSyncObj>();
    assert_eq!(ranged(0, 4096, 1, whole), Ok(()));
    assert_eq!(ranged(4096, 4097, 1, whole), Err(Errno::ERANGE));
    assert_eq!(ranged(0, 0, 1, whole), Err(Errno::EINVAL));
    assert_eq!(ranged(0, 4096, 0, whole), Err(Errno::EINVAL));
    assert_eq!(ranged(0, 4096, 129, whole), Err(Errno::EINVAL));
    // Without the op nothing is to be done.
    assert_eq!(ranged(0, 4096, 1, 20), Err(Errno::EINVAL));
    let by = |id, gpuaddr, op: CacheOp, length| {
        let mut args = kgsl::GpumemSyncCache {
            gpuaddr,
            id,
            op: op.bits(),
            offset: 0,
            length,
        };
        rig.call(kgsl::GPUMEM_SYNC_CACHE, &mut args)
    };
    assert_eq!(by(memory.id, 0, CacheOp::TO_GPU, 0), Ok(()));
    assert_eq!(by(0, memory.gpu, CacheOp::FROM_GPU, 0), Ok(()));
    assert_eq!(by(0, 0, CacheOp::TO_GPU, 0), Err(Errno::EINVAL));
    assert_eq!(by(77, 0, CacheOp::TO_GPU, 0), Err(Errno::EINVAL));
    assert_eq!(by(0, 4096, CacheOp::TO_GPU, 0), Err(Errno::EINVAL));
    assert_eq!(rig.broken(), [""; 0]);
}

#[test]
fn calls_for_ranges_reach_lines_or_pages() {
    // 4.9: the lines of the range.
    let rig = Rig::new("version=4.9");
    let memory = rig.alloc(3 * 4096, WRITEBACK);
    memory.put(4096 + 60, &[1, 2, 3]);
    memory.put(4096 + 128, &[4]);
    ranged(&rig, &memory, CacheOp::TO_GPU, 4096 + 67, 1);
    assert_eq!(seen(&rig, &memory, 4096 + 64), 2);
    assert_eq!(rig.broken(), [""; 0]);
    assert_eq!(seen(&rig, &memory, 4096 + 128), 0);
    fires("CPU-CACHE-CLEAN").only(&rig.broken());
    // 5.15: from the first page on, up to that of the end.
    let rig = Rig::new("version=5.15");
    let memory = rig.alloc(3 * 4096, WRITEBACK);
    for page in 0..3 {
        memory.put(page * 4096, &[page as u32 + 1]);
    }
    ranged(&rig, &memory, CacheOp::TO_GPU, 4096, 4);
    let found = [0, 4096].map(|at| seen(&rig, &memory, at));
    assert_eq!((found, rig.broken()), ([1, 2], vec![]));
    assert_eq!(seen(&rig, &memory, 8192), 0);
    fires("CPU-CACHE-CLEAN").only(&rig.broken());
    // But not the first one, where the range does not begin with its page.
    let rig = Rig::new("version=5.15");
    let memory = rig.alloc(2 * 4096, WRITEBACK);
    memory.put(4, &[1]);
    memory.put(4100, &[2]);
    ranged(&rig, &memory, CacheOp::TO_GPU, 4100, 4);
    assert_eq!((seen(&rig, &memory, 4100), rig.broken()), (2, vec![]));
    ranged(&rig, &memory, CacheOp::TO_GPU, 4, 4);
    assert_eq!(seen(&rig, &memory, 4), 0);
    fires("CPU-CACHE-CLEAN").only(&rig.broken());
}

#[test]
fn nothing_behind_an_unknown_object_is_cleaned() {
    let rig = Rig::new("");
    let memory = rig.alloc(4096, WRITEBACK);
    memory.put(0, &[1]);
    let mut all = [999, memory.id].map(|id| kgsl::GpuobjSyncObj {
        id,
        op: CacheOp::TO_GPU.bits(),
        ..kgsl::GpuobjSyncObj::default()
    });
    let mut args = kgsl::GpuobjSync {
        objs: list(&mut all),
        obj_len: size_of::<kgsl::GpuobjSyncObj>() as u32,
        count: 2,
    };
    rig.call(kgsl::GPUOBJ_SYNC, &mut args).unwrap();
    fires("KGSL-SYNC-LEFT-OUT").only(&rig.broken());
    assert_eq!(seen(&rig, &memory, 0), 0);
    assert_eq!(rig.broken(), ["KGSL-SYNC-LEFT-OUT", "CPU-CACHE-CLEAN"]);
}

/// Pages of the program, which the GPU has, and the memory that they are.
fn imported(rig: &Rig, flags: u64) -> (Memory, twin::host::Mapping) {
    let whole = twin::host::Mapping::new(8192).unwrap();
    let cpu = twin::caller::Caller::map(&twin::caller::Here, anywhere(8192), &whole, 0).unwrap();
    whole.write(0, &7_u32.to_le_bytes());
    let mut from = kgsl::ImportUserAddress { virtaddr: cpu };
    let mut args = kgsl::GpuobjImport {
        priv_address: address(&mut from),
        priv_len: 8192,
        kind: user::ADDR,
        flags,
        ..kgsl::GpuobjImport::default()
    };
    rig.call(kgsl::GPUOBJ_IMPORT, &mut args).unwrap();
    let (id, gpu) = (args.id, rig.info(args.id).unwrap().gpuaddr);
    (Memory { id, gpu, cpu }, whole)
}

#[test]
fn the_program_cleans_its_own_pages() {
    let cached = WRITEBACK << kgsl::memory::CACHEMODE_SHIFT;
    for version in ["version=4.9,pages=cached", "version=5.15,pages=cached"] {
        let rig = Rig::new(version);
        let (memory, _whole) = imported(&rig, cached);
        // The kernel flushes the pages when it imports them.
        assert_eq!(seen(&rig, &memory, 0), 7);
        memory.put(0, &[8]);
        rig.process.clean(memory.cpu + 2, 1);
        assert_eq!(seen(&rig, &memory, 0), 8);
        rig.run(&write(memory.gpu + 64, 9));
        assert_eq!(memory.word(64), 0);
        rig.process.clean_and_invalidate(memory.cpu + 64, 4);
        assert_eq!(memory.word(64), 9);
        assert_eq!(rig.broken(), [""; 0]);
        // The kernel's call is for what it takes to be cached: only 5.15 keeps the mode.
        memory.put(0, &[10]);
        rig.sync(memory.id, CacheOp::TO_GPU).unwrap();
        let found = seen(&rig, &memory, 0);
        match version.contains("4.9") {
            true => {
                assert_eq!(found, 8);
                fires("CPU-CACHE-CLEAN").only(&rig.broken());
            }
            false => assert_eq!((found, rig.broken()), (10, vec![])),
        }
    }
    // Of imported memory 5.15 takes pages from the first on, as many as the length needs.
    let rig = Rig::new("version=5.15,pages=cached");
    let (memory, _whole) = imported(&rig, cached);
    memory.put(4092, &[1, 2]);
    ranged(&rig, &memory, CacheOp::TO_GPU, 4092, 8);
    assert_eq!((seen(&rig, &memory, 4092), rig.broken()), (1, vec![]));
    assert_eq!(seen(&rig, &memory, 4096), 0);
    fires("CPU-CACHE-CLEAN").only(&rig.broken());
}

#[test]
fn pages_with_a_cache_are_imported_once() {
    let import_again = |rig: &Rig, memory: &Memory| {
        let mut args = kgsl::MapUserMem {
            hostptr: memory.cpu + 4096,
            len: 4096,
            memtype: user::ADDR,
            ..kgsl::MapUserMem::default()
        };
        rig.call(kgsl::MAP_USER_MEM, &mut args).unwrap();
    };
    let rig = Rig::new("pages=cached");
    let (memory, _whole) = imported(&rig, 0);
    import_again(&rig, &memory);
    fires("KGSL-IMPORT-OVERLAP").only(&rig.broken());
    let rig = Rig::new("");
    let (memory, _whole) = imported(&rig, 0);
    import_again(&rig, &memory);
    assert_eq!(rig.broken(), [""; 0]);
}
