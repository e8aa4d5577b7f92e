//! What goes wrong: hangs, page faults, lost interrupts, calls that fail.

use drivers_spec::qcom::kgsl::{self, Context, memory, reset};
use drivers_spec::qcom::packet::op;
use twin::errno::Errno;
use twin::fires::fires;

use super::rig::{Rig, SOON, errno};
use super::stream::Stream;

fn nop() -> Vec<u32> {
    Stream::default().command(op::NOP, &[]).words()
}

fn write(at: u64, value: u32) -> Stream {
    Stream::default().command(op::MEM_WRITE, &[at as u32, (at >> 32) as u32, value])
}

fn wait_for(at: u64, value: u32) -> Stream {
    let body = [0x13, at as u32, (at >> 32) as u32, value, u32::MAX, 32];
    Stream::default().command(op::WAIT_REG_MEM, &body)
}

#[test]
fn a_submission_that_hangs_once_runs_again() {
    let rig = Rig::new("fault=hang:1");
    let memory = rig.alloc(4096, memory::WRITECOMBINE);
    rig.run(&write(memory.gpu, 7).words());
    assert_eq!(memory.word(0), 7);
    assert_eq!(rig.reset_status(rig.context), Ok(reset::NO_ERROR));
    // The next one is told, and is queued all the same.
    let commands = rig.commands(&write(memory.gpu + 4, 8).words());
    let told = rig.submit_at(rig.context, commands.gpu, 4);
    assert_eq!(told, Err(Errno::EPROTO));
    rig.wait(2).unwrap();
    assert_eq!(memory.word(4), 8);
    assert_eq!(rig.submit(&nop()), Ok(3));
}

#[test]
fn a_submission_that_hangs_twice_is_left_out() {
    let rig = Rig::new("fault=hang:1:2");
    let memory = rig.alloc(4096, memory::WRITECOMBINE);
    rig.run(&write(memory.gpu, 7).words());
    assert_eq!(memory.word(0), 0);
    assert_eq!(rig.reset_status(rig.context), Ok(reset::NO_ERROR));
    // The next one runs, and the one after it is told.
    rig.run(&write(memory.gpu + 4, 8).words());
    assert_eq!(memory.word(4), 8);
    assert_eq!(errno(rig.submit(&nop())), Errno::EPROTO);
    assert_eq!(rig.submit(&nop()), Ok(4));
}

#[test]
fn a_context_that_hangs_again_is_invalid() {
    let rig = Rig::new("fault=hang:1:2;hang:2");
    let other = rig.other();
    rig.run(&nop());
    let last = rig.submit(&nop()).unwrap();
    assert_eq!(rig.wait(last), Err(Errno::EDEADLK));
    assert_eq!(errno(rig.submit(&nop())), Errno::EDEADLK);
    assert_eq!(rig.reset_status(rig.context), Ok(reset::GUILTY));
    // It is told once.
    assert_eq!(rig.reset_status(rig.context), Ok(reset::NO_ERROR));
    assert_eq!(other.reset_status(other.context), Ok(reset::INNOCENT));
    assert_eq!(other.reset_status(rig.context), Err(Errno::EINVAL));
    other.run(&nop());
    // All that it had is over.
    assert_eq!(rig.retired(), last);
}

#[test]
fn contexts_without_fault_tolerance_are_given_up_at_once() {
    let rig = Rig::new("fault=hang:1");
    let context = rig.create(Context::NO_FAULT_TOLERANCE).unwrap();
    let commands = rig.commands(&nop());
    let last = rig.submit_at(context, commands.gpu, 1).unwrap();
    assert_eq!(rig.wait_for(context, last, SOON), Err(Errno::EDEADLK));
    assert_eq!(rig.reset_status(context), Ok(reset::GUILTY));
}

#[test]
fn a_submission_that_takes_too_long_is_the_end_of_its_context() {
    let rig = Rig::new("timeout=50");
    let memory = rig.alloc(4096, memory::WRITECOMBINE);
    let last = rig.submit(&wait_for(memory.gpu, 1).words()).unwrap();
    let standing = rig.process.standing();
    assert!(!standing.is_empty(), "{standing:?}");
    assert_eq!(rig.wait(last), Err(Errno::EDEADLK));
    assert_eq!(rig.broken(), [""; 0]);
    // Without fault tolerance nobody looks at the time.
    let context = rig.create(Context::NO_FAULT_TOLERANCE).unwrap();
    let commands = rig.commands(&wait_for(memory.gpu, 1).words());
    let last = rig.submit_at(context, commands.gpu, 7).unwrap();
    assert_eq!(rig.wait_for(context, last, 300), Err(Errno::ETIMEDOUT));
    memory.put(0, &[1]);
    rig.wait_for(context, last, SOON).unwrap();
}

#[test]
fn an_address_without_a_page_is_a_fault() {
    let rig = Rig::new("");
    let last = rig.submit(&write(0x7f_0000_0000, 1).words()).unwrap();
    rig.wait(last).unwrap();
    fires("ADRENO-PAGE-FAULT").only(&rig.broken());
    let rig = Rig::new("");
    let only = kgsl::Memory::GPUREADONLY.bits();
    let (_, at) = rig.object(4096, only).unwrap();
    rig.run(&write(at, 1).words());
    fires("ADRENO-PAGE-FAULT").only(&rig.broken());
    // One that the config asks for breaks no rule.
    let rig = Rig::new("fault=page:1");
    rig.run(&nop());
    assert_eq!(rig.broken(), [""; 0]);
}

#[test]
fn faults_that_come_too_fast_are_the_end() {
    let rig = Rig::new("");
    let bad = rig.commands(&write(0x7f_0000_0000, 1).words());
    let good = rig.commands(&nop());
    let mut ends = 0;
    for _ in 0..8 {
        for at in [bad.gpu, good.gpu, good.gpu] {
            let dwords = if at == bad.gpu { 4 } else { 1 };
            match rig.submit_at(rig.context, at, dwords) {
                Err(Errno::EDEADLK) => ends += 1,
                Ok(_) | Err(Errno::EPROTO) => {}
                Err(errno) => panic!("{errno}"),
            }
            let queued = rig.timestamp(rig.context, kgsl::timestamp::QUEUED);
            let _ = rig.wait(queued.unwrap());
        }
    }
    assert!(ends > 0);
    assert_eq!(rig.reset_status(rig.context), Ok(reset::GUILTY));
}

#[test]
fn a_lost_interrupt_comes_with_the_next() {
    let rig = Rig::new("fault=lost:1");
    let first = rig.submit(&nop()).unwrap();
    assert_eq!(rig.wait_for(rig.context, first, 100), Err(Errno::ETIMEDOUT));
    // Memory has it.
    assert_eq!(rig.retired(), first);
    rig.submit(&nop()).unwrap();
    rig.wait(first).unwrap();
}

#[test]
fn calls_fail_where_the_config_says_so() {
    let config =
        "fault=call:GPU_COMMAND:ENOMEM:2;call:DEVICE_WAITTIMESTAMP_CTXTID:EINTR;call:mmap:ENOMEM:3";
    let rig = Rig::new(config);
    assert_eq!(rig.submit(&nop()), Ok(1));
    assert_eq!(rig.wait(1), Err(Errno::EINTR));
    rig.wait(1).unwrap();
    let commands = rig.commands(&nop());
    assert_eq!(
        rig.submit_at(rig.context, commands.gpu, 1),
        Err(Errno::ENOMEM)
    );
    assert_eq!(rig.submit_at(rig.context, commands.gpu, 1), Ok(2));
    let (id, _) = rig.object(4096, 0).unwrap();
    let map = || {
        let wanted = super::rig::anywhere(4096);
        rig.process.mmap(wanted, rig.fd, kgsl::mmap_offset(id))
    };
    assert_eq!(map(), Err(Errno::ENOMEM));
    map().unwrap();
    assert_eq!(rig.machine.faults_fired(), 3);
}

#[test]
fn a_context_that_is_destroyed_ends_what_it_runs() {
    let rig = Rig::new("timeout=50");
    let context = rig.create(Context::NO_FAULT_TOLERANCE).unwrap();
    let memory = rig.alloc(4096, memory::WRITECOMBINE);
    let commands = rig.commands(&wait_for(memory.gpu, 1).words());
    rig.submit_at(context, commands.gpu, 7).unwrap();
    let mut args = kgsl::DrawctxtDestroy {
        drawctxt_id: context,
    };
    rig.call(kgsl::DRAWCTXT_DESTROY, &mut args).unwrap();
    assert_eq!(errno(rig.timestamp(context, 3)), Errno::EINVAL);
    rig.run(&nop());
}
