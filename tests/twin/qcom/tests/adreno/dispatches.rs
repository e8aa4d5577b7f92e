//! Dispatches with a mistake each.

use drivers_spec::qcom::kgsl::memory::WRITECOMBINE;
use drivers_spec::qcom::packet::op;
use drivers_spec::qcom::regs;
use twin::fires::fires;

use super::bench::{Bench, broken_by};
use super::stream::{Piece, Stream};

#[test]
fn registers_of_a_dispatch_are_there() {
    fires("CS-MARKER").only(&broken_by("", |s| s.without(op::SET_MARKER)));
    let direct = |s: &mut Stream| s.change(op::SET_MARKER, |body| body[0] = 1);
    fires("CS-MARKER").only(&broken_by("", direct));
    for reg in [
        regs::SP_CS_BASE_HI,
        regs::SP_CS_CNTL_0,
        regs::SP_CS_CONFIG,
        regs::SP_CS_NDRANGE_6,
        regs::SP_MODE_CNTL,
    ] {
        fires("CS-REGISTER-MISSING").only(&broken_by("", |s| s.omit(&reg)));
    }
    let opencl = |s: &mut Stream| {
        s.omit(&regs::SP_CS_KERNEL_GROUP_Y);
        s.without(op::EXEC_CS);
        *s = std::mem::take(s).command(op::RUN_OPENCL, &[0]);
    };
    fires("CS-REGISTER-MISSING").only(&broken_by("", opencl));
}

#[test]
fn registers_of_a_dispatch_fit_together() {
    let wge = |s: &mut Stream| {
        let value = s.value(&regs::SP_CS_WGE_CNTL);
        s.set(&regs::SP_CS_WGE_CNTL, value ^ 1 << 9);
    };
    fires("CS-THREADSIZE").only(&broken_by("", wge));
    // 1024 by 2 fibers.
    let large = |s: &mut Stream| {
        s.set(&regs::SP_CS_NDRANGE_0, 1 << 12 | 1023 << 2 | 3);
        s.set(&regs::SP_CS_NDRANGE_1, 2048);
        s.set(&regs::SP_CS_NDRANGE_3, 2);
    };
    fires("CS-GROUP-SIZE").only(&broken_by("", large));
    let more = |s: &mut Stream| s.change(op::EXEC_CS, |body| body[1] = 3);
    fires("CS-GRID").only(&broken_by("", more));
    let none = |s: &mut Stream| s.change(op::EXEC_CS, |body| body[2] = 0);
    fires("CS-GRID").only(&broken_by("", none));
    // r2.z for the number of the group.
    let id = |s: &mut Stream| s.set(&regs::SP_CS_CONST_CONFIG_0, 0x00fc_fc0a);
    fires("CS-SYSTEM-REGISTERS").only(&broken_by("", id));
    // The fiber's number beyond the footprint.
    let id = |s: &mut Stream| s.set(&regs::SP_CS_CONST_CONFIG_0, 0x1cfc_fcc0);
    fires("CS-SYSTEM-REGISTERS").only(&broken_by("", id));
}

#[test]
fn code_and_constants_are_loaded() {
    let nothing = |s: &mut Stream| s.set(&regs::SP_CS_INSTR_SIZE, 0);
    fires("CS-CODE").only(&broken_by("", nothing));
    let less = |s: &mut Stream| s.set(&regs::SP_CS_INSTR_SIZE, 4);
    fires("CS-CODE").only(&broken_by("", less));
    let odd = |s: &mut Stream| s.set(&regs::SP_CS_PROGRAM_COUNTER_OFFSET, 0x1000);
    fires("CS-CODE").only(&broken_by("", odd));
    // 256 vectors, with room for 128.
    let constants = |s: &mut Stream| {
        s.set(&regs::SP_CS_CONST_CONFIG, 0x100 | 64);
        s.set(&regs::SP_CS_CNTL_1, 0x01);
    };
    fires("CS-CONSTANTS").only(&broken_by("", constants));
    let config = |s: &mut Stream| s.set(&regs::SP_CS_CONST_CONFIG, 0);
    fires("CS-ENABLED").only(&broken_by("", config));
    let config = |s: &mut Stream| s.set(&regs::SP_CS_CONFIG, 0);
    fires("CS-ENABLED").only(&broken_by("", config));
    // SHARED_CONSTS_ENABLE of one register alone.
    let shared = |s: &mut Stream| s.set(&regs::SP_MODE_CNTL, 8 | 1 << 1);
    fires("CS-SHARED-CONSTANTS").only(&broken_by("", shared));
    // A texture.
    let texture = |s: &mut Stream| s.set(&regs::SP_CS_CONFIG, 0x100 | 1 << 9);
    fires("CS-COUNTS").only(&broken_by("", texture));
    // 512 bytes a fiber, and nothing in all.
    let private = |s: &mut Stream| s.set(&regs::SP_CS_PVT_MEM_PARAM, 1);
    fires("CS-PRIVATE").only(&broken_by("", private));
}

#[test]
fn registers_have_mirrors_where_there_is_lpac() {
    fires("CS-MIRROR").only(&broken_by("chip=a660", |_| {}));
    // They are registers of these chips alone.
    let with = |s: &mut Stream| {
        for (mirror, of) in regs::MIRRORS {
            let value = s.value(of);
            s.0.insert(0, Piece::Register(regs::dword(mirror), value));
        }
    };
    assert_eq!(broken_by("chip=a660", with), [""; 0]);
}

#[test]
fn dispatches_are_kept_apart() {
    let bench = Bench::new("");
    let other = bench.rig.alloc(4096, WRITECOMBINE);
    let [sum, _, second] = bench.arrays.map(|array| array.gpu);
    // It reads what the first one writes.
    let third = bench.rig.alloc(4096, WRITECOMBINE);
    bench.arguments(&other, [third.gpu, sum, second]);
    let mut behind = bench.dispatch_with(other.gpu);
    let right = bench.dispatch().then(behind.clone());
    assert_eq!(bench.run(&right), [""; 0]);
    assert_eq!(f32::from_bits(third.word(4 * 9)), 2009.0);
    behind.without(op::WAIT_FOR_IDLE);
    let broken = bench.run(&bench.dispatch().then(behind));
    fires("CS-OVERLAP").only(&broken);
}

#[test]
fn the_command_processor_waits_for_dispatches() {
    let bench = Bench::new("");
    let sum = bench.arrays[0];
    let [low, high] = [sum.gpu as u32, (sum.gpu >> 32) as u32];
    // A copy of the first sum to behind them.
    let copy = [0, low + 0x800, high, low, high];
    let stream = bench.dispatch().command(op::MEM_TO_MEM, &copy);
    let broken = bench.run(&stream);
    assert_eq!(sum.word(0x800), 0);
    fires("CP-WAIT-FOR-IDLE").only(&broken);
    // The sum is in UCHE, and not in memory.
    let bench = Bench::new("");
    let sum = bench.arrays[0];
    let [low, high] = [sum.gpu as u32, (sum.gpu >> 32) as u32];
    let copy = [0, low + 0x800, high, low, high];
    let stream = bench.dispatch().command(op::WAIT_FOR_IDLE, &[]);
    let broken = bench.run(&stream.command(op::MEM_TO_MEM, &copy));
    assert_eq!(sum.word(0x800), 0);
    fires("GPU-UCHE-FLUSH").only(&broken);
}

#[test]
fn groups_are_counted_in_memory_and_in_registers() {
    let bench = Bench::new("");
    let counts = bench.rig.alloc(4096, WRITECOMBINE);
    counts.put(0, &[2, 1, 1]);
    let [low, high] = [counts.gpu as u32, (counts.gpu >> 32) as u32];
    let mut stream = bench.dispatch();
    stream.without(op::EXEC_CS);
    let indirect = stream
        .clone()
        .command(op::EXEC_CS_INDIRECT, &[0, low, high, 31 << 2]);
    assert_eq!(bench.run(&indirect), [""; 0]);
    assert!(bench.is_right());
    let bench = Bench::new("");
    let mut stream = bench.dispatch();
    stream.without(op::EXEC_CS);
    // A partial last group: numbers of 20 of its fibers.
    stream.set(&regs::SP_CS_NDRANGE_1, 52);
    assert_eq!(bench.run(&stream.command(op::RUN_OPENCL, &[0])), [""; 0]);
    assert_eq!(bench.number(0, 51 * 4), 1000.0 + 204.0);
    assert_eq!(bench.number(0, 52 * 4), 0.0);
}

#[test]
fn a_shader_that_breaks_a_rule_is_a_fault_of_the_gpu() {
    let bench = Bench::new("");
    // Words that are no instructions.
    bench.code.put(0, &[u32::MAX; 4]);
    let broken = bench.run(&bench.dispatch());
    assert!(
        broken.first().is_some_and(|rule| rule.starts_with("IR3-")),
        "{broken:?}"
    );
    assert_eq!(bench.rig.machine.journal.violations().len(), broken.len());
}
