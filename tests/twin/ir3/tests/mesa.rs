//! A kernel that Mesa compiled: it breaks no rule, and does where a wait or a delay is taken from it.
#![allow(clippy::unwrap_used)]

mod support;

use support::{Machine, OUT, launch};
use twin_ir3::Done;

/// The sum of two vectors of 256 floats, as tinygrad lowers it and Mesa's ir3 compiles it for A630: workgroups of 32
/// fibers, four elements each. Addresses of result and operands are in c0.x to c1.y.
const SUM: &[u64] = &[
    0x46d0_0003_2007_00c0,
    0x46d8_0800_2002_0000,
    0x4218_0803_0000_0003,
    0x4718_0804_201f_0003,
    0x46d8_0804_2002_0004,
    0x6501_8404_0004_301e,
    0x46d8_0003_2002_0003,
    0x4210_0009_0004_1003,
    0x4210_0005_0003_1002,
    0x4210_0011_0003_1004,
    0x4210_000a_0004_1001,
    0x4210_0004_0004_1005,
    0x4290_4000_1002_0005,
    0x4290_4002_1004_0011,
    0x4210_0807_0003_1000,
    0x2009_400b_0000_0000,
    0x2009_4013_0000_0002,
    0x4290_4801_1000_0007,
    0x4210_0006_0009_000b,
    0x4210_0012_0004_0013,
    0x2009_400c_0000_0001,
    0x0000_0200_0000_0000,
    0x4210_0008_000a_000c,
    0xc006_000d_0481_4001,
    0x0000_0000_0000_0000,
    0xc006_0014_0484_4001,
    0x5018_0b18_0014_000d,
    0x0000_0500_0000_0000,
    0xc0c6_0f00_0480_0030,
];

const A: u64 = 0x6_0000_0000;
const B: u64 = 0x7_0000_0000;

fn machine(words: &[u64]) -> Machine {
    let mut machine = Machine::words(words.to_vec()).with(|launch| {
        let address = |at: u64| [Some(at as u32), Some((at >> 32) as u32)];
        launch.constants = [address(OUT), address(A), address(B)].concat();
        (launch.full_footprint, launch.half_footprint) = (7, 1);
        launch.const_dwords = 16;
        launch.branch_stack = 0;
        launch.local_size = [32, 1, 1];
        (launch.groups, launch.global_size) = ([2, 1, 1], [64, 1, 1]);
        launch.system.group_id = Some(0xc0);
    });
    let floats = |f: fn(u32) -> f32| (0..256).flat_map(move |n| f(n).to_le_bytes()).collect();
    machine.ram.map(A, floats(|n| n as f32));
    machine.ram.map(B, floats(|n| 1000.0 - 3.0 * n as f32));
    machine
}

fn right(machine: &mut Machine) -> bool {
    let out = machine.ram.words(OUT, 256);
    out.iter()
        .enumerate()
        .all(|(n, v)| f32::from_bits(*v) == 1000.0 - 2.0 * n as f32)
}

fn run(words: &[u64]) -> Done {
    let mut machine = machine(words);
    let done = machine.run().unwrap_or_else(|broken| panic!("{broken}"));
    assert!(right(&mut machine));
    done
}

#[test]
fn the_kernel_runs() {
    let done = run(SUM);
    assert_eq!((done.groups, done.waves), (2, 2));
    assert!(
        done.sy_cycles > 0 && done.instructions == 2 * (SUM.len() as u64 + 1),
        "{done:?}"
    );
    let _ = launch();
}

/// Mesa writes no wait and no slot that is not needed: taking any of them away breaks a rule.
#[test]
fn what_mesa_waits_for_is_needed() {
    const SY: u64 = 1 << 60;
    let mut broken = Vec::new();
    for (at, word) in SUM.iter().enumerate() {
        let mut tries = Vec::new();
        if word & SY != 0 {
            tries.push(word & !SY);
        }
        let category = word >> 61;
        let repeats = word >> 40 & 3 != 0;
        // (nopN) are the (r) bits of an instruction that does not repeat.
        let first = 1 << 43;
        let second: u64 = if category == 3 { 1 << 15 } else { 1 << 51 };
        if (2..=3).contains(&category) && !repeats && word & (first | second) != 0 {
            let slots = u64::from(word & first != 0) + 2 * u64::from(word & second != 0) - 1;
            let mut fewer = word & !(first | second);
            fewer |=
                if slots & 1 != 0 { first } else { 0 } | if slots & 2 != 0 { second } else { 0 };
            tries.push(fewer);
        }
        // A nop with repetitions.
        if category == 0 && word >> 40 & 7 != 0 {
            tries.push(word - (1 << 40));
        }
        for change in tries {
            let mut words = SUM.to_vec();
            words[at] = change;
            let rule = match machine(&words).run() {
                Ok(_) => panic!("word {at}: {change:016x} breaks no rule"),
                Err(broken) => broken.rule().unwrap().name,
            };
            broken.push(rule);
        }
    }
    assert!(broken.len() > 5, "{broken:?}");
    assert!(
        broken.contains(&"IR3-SY-MISSING") && broken.contains(&"IR3-DELAY-ALU"),
        "{broken:?}"
    );
}
