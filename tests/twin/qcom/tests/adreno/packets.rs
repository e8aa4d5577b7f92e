//! Packets with mistakes, and what packets do that are right.

use drivers_spec::qcom::kgsl::memory::WRITECOMBINE;
use drivers_spec::qcom::packet::{op, type7};
use drivers_spec::qcom::regs;
use twin::fires::fires;

use super::rig::{Memory, Rig};
use super::stream::{Piece, Stream};

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
    // BLIT_OP_FILL; a group of state; a preamble.
    fires("CP-BLIT").only(&broken_command(BLIT, &[0]));
    fires("CP-DRAW-STATE-NOT-MODELLED").only(&broken_command(0x43, &[4, 0x1000, 0]));
    assert_eq!(broken_command(0x43, &[1 << 18, 0, 0]), [""; 0]);
    fires("CP-PACKET-LENGTH").only(&broken_command(0x5c, &[0xa9b3]));
    // An image of base 1.
    fires("CP-LOAD-STATE-BINDLESS").only(&broken_command(
        op::LOAD_STATE6_FRAG,
        &[0x0075_c000, 1 << 28, 0],
    ));
    fires("CP-PACKET-LENGTH").only(&broken_command(0x43, &[1 << 18]));
    assert_eq!(broken_command(0x6d, &[2, 0x8801, 0x10]), [""; 0]);
    fires("CP-PACKET-BITS").only(&broken_command(0x6d, &[0, 0x8801, 0x10]));
    fires("CP-AMBLE-NOT-MODELLED").only(&broken_command(0x55, &[0x1000, 0, 4]));
    assert_eq!(broken_command(0x55, &[0x1000, 0, 4 | 1 << 20]), [""; 0]);
}

/// CP_BLIT.
const BLIT: u8 = 0x2c;
/// PC_CCU_FLUSH_COLOR_TS.
const FLUSH_COLORS: u32 = 29;

/// Fills 16 pixels of 32 bits in two rows of 64 bytes.
fn fill(to: u64, color: u32) -> Stream {
    // SOLID_COLOR, FMT6_32_UINT, all components, R2D_INT32.
    let cntl = 1 << 7 | 0x4b << 8 | 0xf << 20 | 7 << 24;
    let [low, high] = halves(to);
    let registers = [
        (0x8c00, cntl),
        (0x8400, cntl),
        (0xacc0, 0xf << 12 | 0x4b << 3 | 4),
        (0x8c17, 0x4b),
        (0x8c18, low),
        (0x8c19, high),
        (0x8c1a, 1),
        (0x8405, 0),
        (0x8406, 7 | 1 << 16),
        (0x8c2c, color),
    ];
    let registers = registers.map(|(at, value)| Piece::Register(at, value));
    Stream(registers.to_vec()).command(BLIT, &[3])
}

#[test]
fn groups_of_state_run_at_once_if_the_mode_says_so() {
    let rig = Rig::new("");
    let to = rig.alloc(4096, WRITECOMBINE);
    let mut all = Stream::default().command(0x63, &[1]);
    let mut body = Vec::new();
    for (number, value) in [(0, 5), (1, 6)] {
        let [low, high] = halves(to.gpu + 4 * number);
        let group = command(op::MEM_WRITE, &[low, high, value]).words();
        let at = 1024 + 256 * number;
        to.put(at, &group);
        let [low, high] = halves(to.gpu + at);
        body.extend([
            group.len() as u32 | 6 << 20 | (number as u32) << 24,
            low,
            high,
        ]);
    }
    all = all.command(0x43, &body);
    let [low, high] = halves(to.gpu + 4);
    // What comes behind is behind both.
    all = all.command(op::MEM_WRITE, &[low, high, 7]);
    rig.run(&all.words());
    assert_eq!(rig.broken(), [""; 0]);
    assert_eq!(to.words::<2>(0), [5, 7]);
}

#[test]
fn the_2d_engine_writes_through_its_cache() {
    let rig = Rig::new("");
    let to = rig.alloc(4096, WRITECOMBINE);
    let [low, high] = halves(to.gpu + 1024);
    let flush = [FLUSH_COLORS, low, high, 5];
    rig.run(&fill(to.gpu, 7).command(op::EVENT_WRITE, &flush).words());
    assert_eq!(rig.broken(), [""; 0]);
    assert_eq!(to.words::<8>(0), [7; 8]);
    assert_eq!((to.words::<8>(64), to.words::<1>(1024)), ([7; 8], [5]));
    assert_eq!((to.words::<1>(32), to.words::<1>(96)), ([0], [0]));
    rig.run(&fill(to.gpu, 8).words());
    fires("GPU-CCU-FLUSH").only(&rig.broken());
    assert_eq!(to.words::<1>(0), [7]);
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
fn groups_of_state_have_a_level_of_their_own() {
    let rig = Rig::new("");
    let to = rig.alloc(4096, WRITECOMBINE);
    let [low, high] = halves(to.gpu);
    let words = command(op::MEM_WRITE, &[low, high, 7]).words();
    let inner = rig.commands(&words);
    let call = |of: &Memory, words: &[u32]| {
        let [low, high] = halves(of.gpu);
        command(op::INDIRECT_BUFFER, &[low, high, words.len() as u32])
    };
    let group = |of: &Memory, words: &[u32]| {
        let [low, high] = halves(of.gpu);
        let body = [6 << 20 | words.len() as u32, low, high];
        command(0x63, &[1]).command(0x43, &body)
    };
    let behind = command(op::MEM_WRITE, &[low + 4, high, 9]);
    let second = group(&inner, &words).then(behind).words();
    let middle = rig.commands(&second);
    rig.run(&call(&middle, &second).words());
    assert_eq!(to.words(0), [7, 9]);
    assert_eq!(rig.broken(), [""; 0]);
    // One that calls.
    let second = call(&inner, &words).words();
    let middle = rig.commands(&second);
    rig.run(&group(&middle, &second).words());
    fires("CP-IB-LEVEL").only(&rig.broken());
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
