//! GPU_COMMAND: what it takes, and in which order submissions run.

use drivers_spec::qcom::kgsl::{self, Batch, Context, Object, memory, syncpoint, timestamp};
use drivers_spec::qcom::packet::op;
use twin::errno::{Errno, Result};

use super::rig::{Rig, SOON, address, list};
use super::stream::Stream;

fn nop() -> Vec<u32> {
    Stream::default().command(op::NOP, &[]).words()
}

fn wait_for(at: u64, value: u32) -> Stream {
    let body = [0x13, at as u32, (at >> 32) as u32, value, u32::MAX, 32];
    Stream::default().command(op::WAIT_REG_MEM, &body)
}

fn write(at: u64, value: u32) -> Stream {
    Stream::default().command(op::MEM_WRITE, &[at as u32, (at >> 32) as u32, value])
}

/// Submits commands behind what they wait for.
fn submit(
    rig: &Rig,
    context: u32,
    flags: Batch,
    words: &[u32],
    points: &mut [kgsl::CommandSyncpoint],
) -> Result<u32> {
    let commands = rig.commands(if words.is_empty() { &[0] } else { words });
    let mut ibs = [kgsl::CommandObject {
        gpuaddr: commands.gpu,
        size: words.len() as u64 * 4,
        flags: Object::IB.bits(),
        ..kgsl::CommandObject::default()
    }];
    let mut args = kgsl::GpuCommand {
        flags: flags.bits(),
        context_id: context,
        ..kgsl::GpuCommand::default()
    };
    if !words.is_empty() {
        (args.cmdlist, args.numcmds) = (list(&mut ibs), 1);
        args.cmdsize = size_of::<kgsl::CommandObject>() as u32;
    }
    if !points.is_empty() {
        (args.synclist, args.numsyncs) = (list(points), points.len() as u32);
        args.syncsize = size_of::<kgsl::CommandSyncpoint>() as u32;
    }
    rig.call(kgsl::GPU_COMMAND, &mut args)?;
    Ok(args.timestamp)
}

fn point<T>(kind: u32, of: &mut T) -> kgsl::CommandSyncpoint {
    kgsl::CommandSyncpoint {
        priv_address: address(of),
        size: size_of::<T>() as u64,
        kind,
        ..kgsl::CommandSyncpoint::default()
    }
}

#[test]
fn timestamps_count() {
    let rig = Rig::new("");
    for expected in 1..=3 {
        let timestamp = rig.submit(&nop()).unwrap();
        assert_eq!(timestamp, expected);
    }
    rig.wait(3).unwrap();
    let kinds = [timestamp::QUEUED, timestamp::CONSUMED, timestamp::RETIRED];
    let all = kinds.map(|kind| rig.timestamp(rig.context, kind).unwrap());
    assert_eq!(all, [3, 3, 3]);
    // A marker behind nothing is over at once.
    let marker = submit(&rig, rig.context, Batch::MARKER, &[], &mut []);
    assert_eq!((marker, rig.retired()), (Ok(4), 4));
    assert_eq!(rig.broken(), [""; 0]);
}

#[test]
fn clients_may_choose_timestamps() {
    let rig = Rig::new("");
    let context = rig.create(Context::USER_GENERATED_TS).unwrap();
    let submit = |timestamp| {
        let commands = rig.commands(&nop());
        let mut ibs = [kgsl::CommandObject {
            gpuaddr: commands.gpu,
            size: 4,
            flags: Object::IB.bits(),
            ..kgsl::CommandObject::default()
        }];
        let mut args = kgsl::GpuCommand {
            context_id: context,
            timestamp,
            cmdlist: list(&mut ibs),
            cmdsize: size_of::<kgsl::CommandObject>() as u32,
            numcmds: 1,
            ..kgsl::GpuCommand::default()
        };
        rig.call(kgsl::GPU_COMMAND, &mut args)
    };
    assert_eq!(submit(5), Ok(()));
    assert_eq!(submit(5), Err(Errno::ERANGE));
    assert_eq!(submit(4), Err(Errno::ERANGE));
    assert_eq!(submit(9), Ok(()));
    rig.wait_for(context, 7, SOON).unwrap();
    assert_eq!(rig.timestamp(context, timestamp::RETIRED), Ok(9));
}

#[test]
fn submissions_are_checked() {
    let rig = Rig::new("");
    let at = rig.commands(&nop()).gpu;
    let context = rig.context;
    let submit = |context_id, gpuaddr, size, flags, cmdsize: usize, numcmds| {
        let mut ibs = [kgsl::CommandObject {
            gpuaddr,
            size,
            flags,
            ..kgsl::CommandObject::default()
        }];
        let mut args = kgsl::GpuCommand {
            context_id,
            cmdlist: list(&mut ibs),
            cmdsize: cmdsize as u32,
            numcmds,
            ..kgsl::GpuCommand::default()
        };
        rig.call(kgsl::GPU_COMMAND, &mut args)
    };
    let size = size_of::<kgsl::CommandObject>();
    let ib = Object::IB.bits();
    assert_eq!(submit(context, at, 4, ib, size, 1), Ok(()));
    for wrong in [
        submit(99, at, 4, ib, size, 1),
        submit(context, 0, 4, ib, size, 1),
        submit(context, at, 0, ib, size, 1),
        submit(context, at + 2, 4, ib, size, 1),
        submit(context, at, 4 << 20, ib, size, 1),
        submit(context, 1 << 48, 4, ib, size, 1),
        submit(context, at, 4, Object::MEMOBJ.bits(), size, 1),
        submit(context, at, 4, ib, 0, 1),
        submit(context, at, 4, ib, size, kgsl::MAX_COMMANDS + 1),
    ] {
        assert_eq!(wrong, Err(Errno::EINVAL));
    }
    let mut args = kgsl::GpuCommand {
        context_id: context,
        numsyncs: 1,
        ..kgsl::GpuCommand::default()
    };
    assert_eq!(rig.call(kgsl::GPU_COMMAND, &mut args), Err(Errno::EINVAL));
    assert_eq!(rig.broken(), [""; 0]);
}

#[test]
fn submissions_wait_for_timestamps_of_other_contexts() {
    let rig = Rig::new("timeout=60000");
    let other = rig.create(Context::empty()).unwrap();
    let memory = rig.alloc(4096, memory::WRITECOMBINE);
    let first = wait_for(memory.gpu, 1).then(write(memory.gpu + 4, 2));
    let first = rig.submit(&first.words()).unwrap();
    let mut of = kgsl::ContextTimestamp {
        context_id: rig.context,
        timestamp: first,
    };
    let mut points = [point(syncpoint::TIMESTAMP, &mut of)];
    let words = write(memory.gpu + 4, 3).words();
    let second = submit(&rig, other, Batch::empty(), &words, &mut points).unwrap();
    assert_eq!(rig.wait_for(other, second, 30), Err(Errno::ETIMEDOUT));
    assert_eq!(memory.word(4), 0);
    memory.put(0, &[1]);
    rig.wait_for(other, second, SOON).unwrap();
    assert_eq!(memory.word(4), 3);
    // What was not queued is not waited for.
    of.timestamp = first + 1;
    let mut points = [point(syncpoint::TIMESTAMP, &mut of)];
    let wrong = submit(&rig, other, Batch::empty(), &words, &mut points);
    assert_eq!(wrong, Err(Errno::EINVAL));
    let mut none = kgsl::Fence { fd: rig.fd };
    let mut points = [point(syncpoint::FENCE, &mut none)];
    let wrong = submit(&rig, other, Batch::empty(), &words, &mut points);
    assert_eq!(wrong, Err(Errno::EINVAL));
    let mut points = [point(7, &mut of)];
    let wrong = submit(&rig, other, Batch::empty(), &words, &mut points);
    assert_eq!(wrong, Err(Errno::EINVAL));
    assert_eq!(rig.broken(), [""; 0]);
}

#[test]
fn submissions_of_a_context_run_in_order() {
    for seed in 0..8 {
        let rig = Rig::new(&format!("seed={seed}"));
        let memory = rig.alloc(4096, memory::WRITECOMBINE);
        let mut last = 0;
        for i in 0..20 {
            last = rig.submit(&write(memory.gpu, i).words()).unwrap();
        }
        rig.wait(last).unwrap();
        assert_eq!(memory.word(0), 19);
    }
}

#[test]
fn rings_take_turns() {
    let rig = Rig::new("timeout=60000");
    let high = Context::from_bits_retain(1 << kgsl::context::PRIORITY_SHIFT);
    let other = rig.create(high).unwrap();
    let memory = rig.alloc(4096, memory::WRITECOMBINE);
    // Each waits for the other: one alone would never end.
    let one = write(memory.gpu, 1)
        .command(op::WAIT_MEM_WRITES, &[])
        .then(wait_for(memory.gpu + 4, 1));
    let two = wait_for(memory.gpu, 1).then(write(memory.gpu + 4, 1));
    let first = rig.submit(&one.words()).unwrap();
    let two = rig.commands(&two.words());
    let dwords = 11;
    let second = rig.submit_at(other, two.gpu, dwords).unwrap();
    rig.wait(first).unwrap();
    rig.wait_for(other, second, SOON).unwrap();
    assert_eq!(rig.broken(), [""; 0]);
}

#[test]
fn a_queue_that_is_full_is_waited_for() {
    let rig = Rig::new("timeout=100");
    let without = rig.create(Context::NO_FAULT_TOLERANCE).unwrap();
    let memory = rig.alloc(4096, memory::WRITECOMBINE);
    let waits = rig.commands(&wait_for(memory.gpu, 1).words());
    let nop = rig.commands(&nop());
    rig.submit_at(without, waits.gpu, 7).unwrap();
    let mut last = 0;
    let refused = loop {
        match rig.submit_at(without, nop.gpu, 1) {
            Ok(timestamp) => last = timestamp,
            Err(errno) => break errno,
        }
    };
    assert_eq!(refused, Errno::ETIMEDOUT);
    assert!((49..=51).contains(&last), "{last}");
    memory.put(0, &[1]);
    rig.wait_for(without, last, SOON).unwrap();
}
