//! Kernels compiled by clang run and give the right results, in every generation.

#![allow(clippy::unwrap_used)] // A test may panic.

#[path = "kernels/machine.rs"]
mod machine;

use machine::{Args, Machine, compile};
use twin::fires::fires;
use twin_shader::isa::Gen;
use twin_shader::launch::{Broken, Done};
use twin_shader::step::Stop;
use twin_shader::trap::{Handler, Message};

const SOURCE: &str = include_str!("kernels/kernels.c");

fn ok(done: Result<Done, Option<Box<Broken>>>) -> Done {
    match done {
        Ok(done) => done,
        Err(Some(broken)) => panic!("{broken}"),
        Err(None) => panic!("cancelled"),
    }
}

fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u32> {
    values.into_iter().map(f32::to_bits).collect()
}

fn saxpy(generation: Gen, elf: &[u8]) {
    let mut machine = Machine::new(generation, elf.to_vec());
    let x = machine.buffer(&floats((0..256).map(|i| i as f32)));
    let y = machine.buffer(&floats((0..256).map(|i| 1.0 / (i + 1) as f32)));
    let args = Args::new().f32(0.5).u64(x).u64(y);
    ok(machine.run("saxpy", [4, 1, 1], [64, 1, 1], &args));
    let expected = floats((0..256).map(|i| 0.5f32.mul_add(i as f32, 1.0 / (i + 1) as f32)));
    assert_eq!(machine.read(y, 256), expected);
}

fn matmul(generation: Gen, elf: &[u8]) {
    let n = 64usize;
    let mut machine = Machine::new(generation, elf.to_vec());
    machine.threads = 2;
    let value = |i: usize| ((i * 7 + 3) % 17) as f32 - 8.0;
    let a = machine.buffer(&floats((0..n * n).map(value)));
    let b = machine.buffer(&floats((0..n * n).map(|i| value(i * 5 + 1))));
    let c = machine.buffer(&vec![0; n * n]);
    let args = Args::new().u64(a).u64(b).u64(c).u32(n as u32);
    let groups = (n / 16) as u32;
    ok(machine.run("matmul", [groups, groups, 1], [16, 16, 1], &args));
    // Small integers: exact in any order.
    let expected = floats((0..n * n).map(|i| {
        let (row, column) = (i / n, i % n);
        (0..n)
            .map(|k| value(row * n + k) * value((k * n + column) * 5 + 1))
            .sum()
    }));
    assert_eq!(machine.read(c, n * n), expected);
}

fn collatz(generation: Gen, elf: &[u8]) {
    let mut machine = Machine::new(generation, elf.to_vec());
    let out = machine.buffer(&[0; 100]);
    // The last workgroup is partial.
    let args = Args::new().u64(out);
    let change = |launch: &mut twin_shader::launch::Launch| launch.last_size = [36, 1, 1];
    ok(machine.run_with("collatz", [2, 1, 1], [64, 1, 1], &args, change, None));
    let steps = |mut n: u64| {
        let mut steps = 0;
        while n != 1 {
            n = if n.is_multiple_of(2) {
                n / 2
            } else {
                3 * n + 1
            };
            steps += 1;
        }
        steps
    };
    let expected: Vec<u32> = (0..100).map(|i| steps(i + 1)).collect();
    assert_eq!(machine.read(out, 100), expected);
}

fn histogram(generation: Gen, elf: &[u8]) {
    let mut machine = Machine::new(generation, elf.to_vec());
    machine.threads = 2;
    let data: Vec<u32> = (0..4096u32)
        .map(|i| i.wrapping_mul(2_654_435_761) >> 7)
        .collect();
    let input = machine.buffer(&data);
    let out = machine.buffer(&[0; 64]);
    let args = Args::new().u64(input).u64(out);
    ok(machine.run("histogram", [16, 1, 1], [256, 1, 1], &args));
    let mut expected = vec![0; 64];
    for value in data {
        expected[value as usize % 64] += 1;
    }
    assert_eq!(machine.read(out, 64), expected);
}

fn stack(generation: Gen, elf: &[u8]) {
    let mut machine = Machine::new(generation, elf.to_vec());
    let picks: Vec<u32> = (0..256).map(|i| i * 5 % 32).collect();
    let input = machine.buffer(&picks);
    let out = machine.buffer(&[0; 256]);
    let args = Args::new().u64(input).u64(out);
    ok(machine.run("stack", [4, 1, 1], [64, 1, 1], &args));
    let expected: Vec<u32> = picks.iter().map(|p| p * p + 7 * ((p + 1) % 32)).collect();
    assert_eq!(machine.read(out, 256), expected);
}

fn numbers(generation: Gen, elf: &[u8]) {
    let mut machine = Machine::new(generation, elf.to_vec());
    let a: Vec<u32> = (0..64)
        .map(|i: u32| i.wrapping_mul(0x9e37_79b9) | 1)
        .collect();
    let input = machine.buffer(&a);
    let out = machine.buffer(&[0; 64 * 8]);
    let args = Args::new().u64(input).u64(out);
    ok(machine.run("numbers", [1, 1, 1], [64, 1, 1], &args));
    let found = machine.read(out, 64 * 8);
    for (i, a) in a.iter().enumerate() {
        let b = a.rotate_left(7) | 1;
        let wide = u64::from(*a) * u64::from(b) / (u64::from(b >> 3) + 1);
        let double = f64::from(*a) / f64::from(b) + f64::from(*a).sqrt();
        let expected = [
            a / b.min(0xffff),
            a % (b & 0xfff | 1),
            wide as u32,
            (wide >> 32) as u32,
            double.to_bits() as u32,
            (double.to_bits() >> 32) as u32,
            (*a as i32 >> 3).wrapping_mul(b as i32) as u32,
            a.leading_zeros() + b.count_ones(),
        ];
        assert_eq!(found[8 * i..8 * i + 8], expected, "item {i}");
    }
}

fn calls(generation: Gen, elf: &[u8]) {
    let mut machine = Machine::new(generation, elf.to_vec());
    let out = machine.buffer(&[0; 64]);
    let args = Args::new().u64(out).u32(9);
    ok(machine.run("calls", [1, 1, 1], [64, 1, 1], &args));
    let fib = |n: u32| (0..n).fold((0u32, 1u32), |(a, b), _| (b, a + b)).0;
    let expected: Vec<u32> = (0..64).map(|i| fib(9) + i).collect();
    assert_eq!(machine.read(out, 64), expected);
}

fn handshake(generation: Gen, elf: &[u8]) {
    // Each workgroup waits for the next one, which is started later: all must be there at a time.
    let mut machine = Machine::new(generation, elf.to_vec());
    for threads in [1, 2] {
        machine.threads = threads;
        let flags = machine.buffer(&[0; 9]);
        let args = Args::new().u64(flags).u32(8);
        ok(machine.run("handshake", [8, 1, 1], [64, 1, 1], &args));
        assert_eq!(machine.read(flags, 8), (1..9).collect::<Vec<u32>>());
    }
}

/// What workgroups do to each other has an order, which does not follow from the host's threads.
fn tickets(generation: Gen, elf: &[u8]) {
    let run = || {
        let mut machine = Machine::new(generation, elf.to_vec());
        machine.threads = 4;
        let next = machine.buffer(&[0]);
        let out = machine.buffer(&[0; 64 * 64]);
        let sum = machine.buffer(&[0]);
        let args = Args::new().u64(next).u64(out).u64(sum);
        ok(machine.run("tickets", [64, 1, 1], [64, 1, 1], &args));
        assert_eq!(machine.read(next, 1), [64 * 64]);
        (machine.read(out, 64 * 64), machine.read(sum, 1))
    };
    let first = run();
    for _ in 0..8 {
        assert!(run() == first, "another order");
    }
}

fn ids(generation: Gen, elf: &[u8]) {
    let mut machine = Machine::new(generation, elf.to_vec());
    let out = machine.buffer(&[0; 2 * 3 * 2 * 4 * 2 * 3]);
    let args = Args::new().u64(out);
    ok(machine.run("ids", [2, 3, 2], [4, 2, 3], &args));
    let found = machine.read(out, 288);
    for (i, value) in found.into_iter().enumerate() {
        let (group, item) = (i as u32 / 24, i as u32 % 24);
        let group = [group % 2, group / 2 % 3, group / 6];
        let item = [item % 4, item / 4 % 2, item / 8];
        let expected = group
            .into_iter()
            .chain(item)
            .fold(0, |all, id| all << 4 | id);
        assert_eq!(value, expected, "{group:?} {item:?}");
    }
}

macro_rules! tests {
    ($($kernel:ident)*) => {
        mod compiled {
            use super::*;

            fn all(generation: Gen) -> Vec<(&'static str, Box<dyn FnOnce() + std::panic::UnwindSafe>)> {
                let elf = compile(generation, "c", SOURCE, &[]);
                vec![$((stringify!($kernel), {
                    let elf = elf.clone();
                    Box::new(move || $kernel(generation, &elf))
                })),*]
            }

            fn run(generation: Gen) {
                let mut failed = Vec::new();
                for (name, test) in all(generation) {
                    if std::panic::catch_unwind(test).is_err() {
                        failed.push(name);
                    }
                }
                assert!(failed.is_empty(), "{generation:?}: {failed:?}");
            }

            #[test]
            fn rdna2() { run(Gen::Rdna2); }
            #[test]
            fn rdna3() { run(Gen::Rdna3); }
            #[test]
            fn rdna4() { run(Gen::Rdna4); }
            #[test]
            fn cdna3() { run(Gen::Cdna3); }
        }
    };
}

tests!(saxpy matmul collatz histogram stack numbers calls handshake tickets ids);

/// Assembles a kernel `test` with 8 VGPRs and runs one wave of it.
fn assembled(generation: Gen, text: &str) -> Result<Done, Option<Box<Broken>>> {
    let mut machine = assembly(generation, text);
    let out = machine.buffer(&[1, 2, 3, 4]);
    machine.run("test", [1, 1, 1], [64, 1, 1], &Args::new().u64(out))
}

/// A kernel that changes its own code, and what two launches of it see.
#[test]
fn code_is_fetched_anew_where_a_wave_or_a_launch_asks() {
    for (invalidate, seen) in [("s_nop 0", [1, 2]), ("s_icache_inv", [2, 2])] {
        let mut machine = assembly(
            Gen::Rdna3,
            &format!(
                "s_load_b64 s[2:3], s[0:1], null
                 s_waitcnt lgkmcnt(0)
                 v_mov_b32 v0, 0
                 v_mov_b32 v1, 0xbe890082
                 s_mov_b32 s8, 0
                 s_getpc_b64 s[4:5]
                again:
                 s_mov_b32 s9, 1
                 s_add_u32 s8, s8, 1
                 global_store_b32 v0, v1, s[4:5]
                 s_waitcnt_vscnt null, 0x0
                 {invalidate}
                 s_cmp_lt_u32 s8, 2
                 s_cbranch_scc1 again
                 v_mov_b32 v1, s9
                 global_store_b32 v0, v1, s[2:3]"
            ),
        );
        for expected in seen {
            let out = machine.buffer(&[0]);
            let args = Args::new().u64(out);
            ok(machine.run("test", [1, 1, 1], [64, 1, 1], &args));
            assert_eq!(machine.read(out, 1), [expected], "{invalidate}");
        }
    }
}

fn assembly(generation: Gen, text: &str) -> Machine {
    let source = format!(
        ".globl test\n.p2align 8\n.type test,@function\ntest:\n{text}\n  s_endpgm\n\
         .rodata\n.p2align 6\n.amdhsa_kernel test\n\
         .amdhsa_next_free_vgpr 8\n.amdhsa_next_free_sgpr 32\n{}\
         .amdhsa_user_sgpr_kernarg_segment_ptr 1\n.end_amdhsa_kernel\n",
        if generation == Gen::Cdna3 {
            ".amdhsa_accum_offset 8\n"
        } else {
            ""
        }
    );
    Machine::new(generation, compile(generation, "s", &source, &[]))
}

/// The name of the rule that stops a kernel.
fn rule(generation: Gen, text: &str) -> &'static str {
    match assembled(generation, text) {
        Err(Some(broken)) => match broken.stop {
            Stop::Rule(rule, _) => rule.name,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_register_is_not_used_before_its_wait() {
    fires("WAIT-BEFORE-USE").only(&[rule(
        Gen::Rdna3,
        "s_load_b32 s4, s[0:1], 0x0\ns_mov_b32 s5, s4",
    )]);
    fires("WAIT-BEFORE-USE").only(&[rule(
        Gen::Rdna4,
        "s_load_b32 s4, s[0:1], 0x0\ns_wait_dscnt 0x0\ns_mov_b32 s4, 0",
    )]);
    let waits = [
        (Gen::Rdna3, "s_load_b32", "s_waitcnt lgkmcnt(0)"),
        (Gen::Rdna4, "s_load_b32", "s_wait_kmcnt 0x0"),
        (Gen::Cdna3, "s_load_dword", "s_waitcnt lgkmcnt(0)"),
    ];
    for (generation, load, wait) in waits {
        let text = format!("{load} s4, s[0:1], 0x0\n{wait}\ns_mov_b32 s5, s4");
        ok(assembled(generation, &text));
    }
}

/// A handler that tells the host its doorbell and the number of the trap, goes on after trap 3 without a word,
/// and halts at trap 2.
fn handler(generation: Gen) -> String {
    let old = matches!(generation, Gen::Cdna3 | Gen::Rdna2);
    let ask = if old {
        "s_mov_b32 ttmp5, exec_lo
         s_mov_b32 exec_lo, 0x80000000
         s_sendmsg sendmsg(MSG_GET_DOORBELL)
         asks:
         s_bitcmp0_b32 exec_lo, 31
         s_cbranch_scc0 asks
         s_mov_b32 ttmp3, exec_lo
         s_mov_b32 exec_lo, ttmp5"
    } else if generation == Gen::Rdna3 {
        "s_sendmsg_rtn_b32 ttmp3, sendmsg(MSG_RTN_GET_DOORBELL)
         s_waitcnt lgkmcnt(0)"
    } else {
        "s_sendmsg_rtn_b32 ttmp3, sendmsg(MSG_RTN_GET_DOORBELL)
         s_wait_kmcnt 0x0"
    };
    let (number, status, halt) = match generation {
        Gen::Rdna4 => ("0x4001c", "HW_REG_STATE_PRIV", 14),
        _ => ("0x80010", "HW_REG_STATUS", 13),
    };
    format!(
        "s_endpgm
         .p2align 8
         .globl handler
         handler:
         s_bfe_u32 ttmp2, ttmp1, {number}
         s_add_u32 ttmp0, ttmp0, 4
         s_addc_u32 ttmp1, ttmp1, 0
         s_cmp_eq_u32 ttmp2, 3
         s_cbranch_scc1 back
         {ask}
         s_lshl_b32 ttmp4, ttmp2, 10
         s_or_b32 ttmp3, ttmp3, ttmp4
         s_mov_b32 ttmp4, m0
         s_mov_b32 m0, ttmp3
         s_nop 0
         s_sendmsg sendmsg(MSG_INTERRUPT)
         s_mov_b32 m0, ttmp4
         s_cmp_eq_u32 ttmp2, 2
         s_cbranch_scc0 back
         s_bitset1_b32 ttmp12, {halt}
         back:
         s_setreg_b32 hwreg({status}), ttmp12
         s_rfe_b64 ttmp[0:1]"
    )
}

#[test]
fn trap_handlers_run() {
    let message = |m0, privileged| Message::Interrupt { m0, privileged };
    for generation in Gen::ALL {
        let text = format!(
            "s_cmp_eq_u32 s0, s0
             s_trap 3
             s_cselect_b32 m0, 7, 8
             s_nop 0
             s_sendmsg sendmsg(MSG_INTERRUPT)
             s_trap 5
             s_sendmsg sendmsg(MSG_INTERRUPT)
             s_trap 2
             s_sendmsg sendmsg(MSG_INTERRUPT)
             {}",
            handler(generation)
        );
        let mut machine = assembly(generation, &text);
        machine.most = 4;
        let trap = Handler {
            code: machine.address("handler"),
            data: 0,
            doorbell: 0x155,
        };
        let ended = machine.run_with(
            "test",
            [1, 1, 1],
            [32, 1, 1],
            &[],
            |launch| launch.trap = Some(trap),
            None,
        );
        assert!(ended.unwrap_err().is_none(), "the wave was halted");
        let told = machine.told.into_inner().unwrap();
        let expected = [
            message(7, false),
            message(5 << 10 | 0x155, true),
            message(7, false),
            message(2 << 10 | 0x155, true),
        ];
        assert_eq!(told, expected, "{generation:?}");
        // Nobody else returns from a trap.
        fires("ISA-RESERVED").only(&[rule(generation, "s_rfe_b64 s[2:3]")]);
    }
}

#[test]
fn what_is_no_instruction_does_not_run() {
    let broken = assembled(Gen::Rdna3, "s_mov_b32 s4, 1\n.long 0xffffffff");
    let broken = broken.unwrap_err().unwrap();
    let Stop::Rule(invalid, _) = &broken.stop else {
        panic!("{broken:?}");
    };
    fires("ISA-INVALID").only(&[invalid.name]);
    assert_eq!(broken.before.len(), 1);
    assert!(
        broken.before[0].ends_with(": s_mov_b32 s4, 1"),
        "{broken:?}"
    );
    fires("ISA-RESERVED").only(&[rule(Gen::Rdna3, "s_code_end")]);
}

/// v_cmpx in VOP3 has a field for a destination, which hardware ignores: LLVM 15 writes 0 there.
#[test]
fn a_comparison_that_writes_exec_has_no_other_destination() {
    let load = "s_load_b64 s[2:3], s[0:1], null";
    let cases = [
        (
            Gen::Rdna2,
            "s_load_dwordx2 s[2:3], s[0:1], null\ns_waitcnt lgkmcnt(0)",
            0xd491_0000u32,
            "global_store_dword",
        ),
        (
            Gen::Rdna3,
            &format!("{load}\ns_waitcnt lgkmcnt(0)"),
            0xd4c1_0000,
            "global_store_b32",
        ),
        (
            Gen::Rdna4,
            &format!("{load}\ns_wait_kmcnt 0x0"),
            0xd4c1_0000,
            "global_store_b32",
        ),
    ];
    for (generation, load, compare, store) in cases {
        // v_cmpx_lt_i32 v2, v0 with s2 and with EXEC as its destination; s2 is not written.
        for destination in [2, 126] {
            let compare = compare | destination;
            let text = format!(
                "{load}
                 v_lshlrev_b32 v1, 2, v0
                 v_mov_b32 v2, 31
                 .long {compare:#x}, 0x20102
                 {store} v1, v2, s[2:3]"
            );
            let mut machine = assembly(generation, &text);
            let out = machine.buffer(&[0; 64]);
            ok(machine.run("test", [1, 1, 1], [64, 1, 1], &Args::new().u64(out)));
            let expected: Vec<u32> = (0..64).map(|i| if i > 31 { 31 } else { 0 }).collect();
            assert_eq!(machine.read(out, 64), expected, "{generation:?}");
        }
    }
}

#[test]
fn registers_are_those_that_were_allocated() {
    fires("VGPR-RANGE").only(&[rule(Gen::Rdna3, "v_mov_b32 v8, 0")]);
    fires("SGPR-RANGE").only(&[rule(Gen::Cdna3, "s_mov_b32 s70, 0")]);
    ok(assembled(Gen::Rdna3, "s_mov_b32 s105, 0"));
}

#[test]
fn a_barrier_that_nobody_signals_is_told() {
    fires("BARRIER-DIVERGED").only(&[rule(Gen::Rdna4, "s_barrier_wait -1")]);
    ok(assembled(
        Gen::Rdna4,
        "s_barrier_signal -1\ns_barrier_wait -1",
    ));
    ok(assembled(Gen::Rdna3, "s_barrier"));
}

#[test]
fn traps_stop_a_wave() {
    let broken = assembled(Gen::Rdna3, "s_trap 2").unwrap_err().unwrap();
    assert!(matches!(broken.stop, Stop::Trap(_)));
}

#[test]
fn a_trace_shows_values() {
    use std::sync::Mutex;
    let elf = compile(Gen::Rdna3, "c", SOURCE, &[]);
    let mut machine = Machine::new(Gen::Rdna3, elf);
    let x = machine.buffer(&[0x3f80_0000; 64]);
    let lines = Mutex::new(Vec::new());
    let trace = |line: &str| lines.lock().unwrap().push(line.to_owned());
    let args = Args::new().f32(0.5).u64(x).u64(x);
    ok(machine.run_with("saxpy", [1, 1, 1], [64, 1, 1], &args, |_| {}, Some(&trace)));
    let lines = lines.into_inner().unwrap();
    assert!(
        lines
            .iter()
            .any(|l| l.contains("v_fmac_f32_e32") && l.contains("= 0x3fc00000")),
        "{}",
        lines.join("\n")
    );
}
