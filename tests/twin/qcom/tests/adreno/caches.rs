//! Old data in caches: what is read is really old, and a rule names what is missing.

use drivers_spec::qcom::kgsl::CacheOp;
use drivers_spec::qcom::kgsl::memory::{UNCACHED, WRITEBACK, WRITECOMBINE, WRITETHROUGH};
use drivers_spec::qcom::packet::op;
use twin::errno::Errno;
use twin::fires::fires;

use super::bench::Bench;
use super::rig::{Rig, errno};
use super::stream::Stream;

/// Event CACHE_INVALIDATE.
const INVALIDATE: u32 = 0x31;

fn write(at: u64, value: u32) -> Vec<u32> {
    let body = [at as u32, (at >> 32) as u32, value];
    Stream::default().command(op::MEM_WRITE, &body).words()
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
    let rig = Rig::new("");
    let memory = rig.alloc(4096, WRITEBACK);
    memory.put(0, &[1]);
    rig.sync(memory.id, CacheOp::FROM_GPU).unwrap();
    assert_eq!(memory.word(0), 0);
    fires("CPU-CACHE-DROPS").only(&rig.broken());
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
    use super::rig::list;
    use drivers_spec::qcom::kgsl;
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
