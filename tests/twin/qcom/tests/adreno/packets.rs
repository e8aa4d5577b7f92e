//! Packets with mistakes, and what packets do that are right.

use drivers_spec::qcom::kgsl::memory::WRITECOMBINE;
use drivers_spec::qcom::packet::{op, type7};
use drivers_spec::qcom::regs;
use twin::fires::fires;

use super::rig::{Memory, Rig};
use super::stream::Stream;

/// Runs commands that break a rule.
fn broken_by(words: &[u32]) -> Vec<&'static str> {
    let rig = Rig::new("");
    rig.run(words);
    rig.broken()
}

fn command(op: u8, body: &[u32]) -> Stream {
    Stream::default().command(op, body)
}

fn broken_command(op: u8, body: &[u32]) -> Vec<&'static str> {
    broken_by(&command(op, body).words())
}

fn halves(at: u64) -> [u32; 2] {
    [at as u32, (at >> 32) as u32]
}

#[test]
fn commands_are_checked() {
    // CP_DRAW_INDX_OFFSET.
    fires("CP-OPERATION").only(&broken_command(0x38, &[0; 3]));
    fires("CP-PACKET-LENGTH").only(&broken_command(op::WAIT_FOR_IDLE, &[0]));
    // CACHE_FLUSH_TS writes, CACHE_INVALIDATE does not.
    fires("CP-PACKET-LENGTH").only(&broken_command(op::EVENT_WRITE, &[4]));
    fires("CP-PACKET-LENGTH").only(&broken_command(op::EVENT_WRITE, &[0x31, 0, 0, 0]));
    fires("CP-PACKET-BITS").only(&broken_command(op::EXEC_CS, &[1, 1, 1, 1]));
    // POLL_SCRATCH.
    fires("CP-PACKET-BITS").only(&broken_command(op::WAIT_REG_MEM, &[0x23, 0, 0, 0, 0, 0]));
    fires("CP-EVENT").only(&broken_command(op::EVENT_WRITE, &[0x11]));
    fires("CP-MARKER").only(&broken_command(op::SET_MARKER, &[13]));
    fires("CP-COND-RANGE").only(&broken_command(0x47, &[1 << 28, 1]));
    fires("CP-ADDRESS-ALIGN").only(&broken_command(op::MEM_WRITE, &[2, 1, 0]));
    fires("CP-PACKET-WHOLE").only(&broken_by(&[type7(op::EXEC_CS, 4), 0, 1]));
}

#[test]
fn registers_go_to_memory_in_pairs() {
    let rig = Rig::new("");
    let to = rig.alloc(4096, WRITECOMBINE);
    let [low, high] = halves(to.gpu);
    let counter = 1 << 30 | 2 << 18 | regs::dword(&regs::CP_ALWAYS_ON_COUNTER);
    rig.run(&command(op::REG_TO_MEM, &[counter, low, high]).words());
    assert!(to.words::<2>(0) != [0, 0]);
    assert_eq!(rig.broken(), [""; 0]);
    let odd = counter ^ 3 << 18;
    rig.run(&command(op::REG_TO_MEM, &[odd, low, high]).words());
    fires("CP-REG-TO-MEM-PAIRS").only(&rig.broken());
    let body = [1 << 31 | regs::dword(&regs::CP_ALWAYS_ON_COUNTER), 0, 0];
    fires("CP-REG-TO-MEM-NOT-MODELLED").only(&broken_command(op::REG_TO_MEM, &body));
}

#[test]
fn indirect_buffers_call_one_level() {
    let rig = Rig::new("");
    let to = rig.alloc(4096, WRITECOMBINE);
    let [low, high] = halves(to.gpu);
    let write = command(op::MEM_WRITE, &[low, high, 7]);
    let inner = rig.commands(&write.words());
    let call = |of: &Memory, dwords: usize| {
        let [low, high] = halves(of.gpu);
        command(op::INDIRECT_BUFFER, &[low, high, dwords as u32])
    };
    let length = write.words().len();
    let middle = call(&inner, length).command(op::MEM_WRITE, &[low + 4, high, 8]);
    rig.run(&middle.words());
    assert_eq!(to.words(0), [7, 8]);
    assert_eq!(rig.broken(), [""; 0]);
    let words = middle.words();
    let middle = rig.commands(&words);
    rig.run(&call(&middle, words.len()).words());
    fires("CP-IB-LEVEL").only(&rig.broken());
    fires("CP-IB-SIZE").only(&broken_command(op::INDIRECT_BUFFER, &[0, 1, 0]));
}

#[test]
fn conditions_leave_packets_out() {
    let rig = Rig::new("");
    let to = rig.alloc(4096, WRITECOMBINE);
    let [low, high] = halves(to.gpu);
    let write = |at: u32, value: u32| command(op::MEM_WRITE, &[low + at, high, value]);
    let skipped = write(0, 1).words().len() as u32;
    // Bit 8 of SP_CS_CNTL_0 is set, bit 9 is not.
    let register = regs::dword(&regs::SP_CS_CNTL_0);
    let mut stream = Stream::default().register(&regs::SP_CS_CNTL_0, 0x182);
    for (bit, at) in [(8, 0), (9, 4)] {
        stream = stream
            .command(0x39, &[bit << 20 | register])
            .command(0x47, &[1 << 28, skipped])
            .then(write(at, 1));
    }
    // By memory: the first is not zero, the second is less than 5.
    to.put(64, &[1, 4, 5]);
    for (second, at) in [(68, 8), (72, 12)] {
        let body = [low + 64, high, low + second, high, 5, skipped];
        stream = stream.command(0x44, &body).then(write(at, 1));
    }
    rig.run(&stream.words());
    assert_eq!(rig.broken(), [""; 0]);
    assert_eq!(to.words(0), [1, 0, 1, 0]);
}

#[test]
fn memory_is_copied_added_and_waited_for() {
    let rig = Rig::new("");
    let memory = rig.alloc(4096, WRITECOMBINE);
    let [low, high] = halves(memory.gpu);
    memory.put(0, &[5, 0, 7, 0]);
    // A 64-bit sum, with one negated: 5 + 7 - 5.
    let double = 1 << 29 | 1 << 2;
    let sum = [double, low + 32, high, low, high, low + 8, high, low, high];
    // A copy of three dwords.
    let copy = [3, low, high, low + 64, high];
    // As signed numbers -1 is less than 3.
    memory.put(128, &[u32::MAX]);
    let stream = command(op::MEM_TO_MEM, &sum)
        .command(0x75, &copy)
        .command(op::WAIT_REG_MEM, &[0x19, low + 128, high, 3, u32::MAX, 0])
        .command(op::MEM_WRITE, &[low + 132, high, 3])
        .command(op::WAIT_MEM_WRITES, &[])
        .command(op::WAIT_MEM_GTE, &[0, low + 132, high, 3]);
    rig.run(&stream.words());
    assert_eq!(rig.broken(), [""; 0]);
    assert_eq!(memory.words(32), [7, 0]);
    assert_eq!(memory.words(64), [5, 0, 7]);
}

#[test]
fn registers_change_by_packets() {
    let rig = Rig::new("");
    let memory = rig.alloc(4096, WRITECOMBINE);
    let [low, high] = halves(memory.gpu);
    memory.put(0, &[0x41]);
    let register = regs::dword(&regs::SP_CS_CNTL_1);
    let stream = command(op::MEM_TO_REG, &[register, low, high])
        .command(op::REG_RMW, &[register, !0x1, 0x2])
        .command(op::REG_TO_MEM, &[register, low + 4, high]);
    rig.run(&stream.words());
    assert_eq!(rig.broken(), [""; 0]);
    assert_eq!(memory.word(4), 0x42);
}

#[test]
fn writes_of_the_command_processor_are_waited_for() {
    let rig = Rig::new("");
    let memory = rig.alloc(4096, WRITECOMBINE);
    let [low, high] = halves(memory.gpu);
    memory.put(4, &[9]);
    let read = [0, low + 8, high, low, high];
    let stream = command(op::MEM_WRITE, &[low, high, 3]).command(op::MEM_TO_MEM, &read);
    rig.run(&stream.words());
    // The old value was read.
    assert_eq!(memory.word(8), 0);
    fires("CP-WAIT-MEM-WRITES").only(&rig.broken());
    let rig = Rig::new("");
    let memory = rig.alloc(4096, WRITECOMBINE);
    let [low, high] = halves(memory.gpu);
    let read = [0, low + 8, high, low, high];
    let stream = command(op::MEM_WRITE, &[low, high, 4])
        .command(op::WAIT_MEM_WRITES, &[])
        .command(op::MEM_TO_MEM, &read);
    rig.run(&stream.words());
    assert_eq!((memory.word(8), rig.broken().len()), (4, 0));
}
