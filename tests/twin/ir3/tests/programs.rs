//! Small programs: what they compute.
#![allow(clippy::unwrap_used)]

mod support;

use support::{IN, Machine, OUT, each, launch, values};
use twin::fires::fires;
use twin_ir3::launch::{Private, ThreadSize};

fn floats(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

fn numbers() -> Vec<u32> {
    (0..64u32)
        .map(|n| n.wrapping_mul(0x9e37_79b9) >> (n % 7))
        .collect()
}

#[test]
fn arithmetic_of_each_category() {
    let input = numbers();
    let all = |f: fn(u32) -> u32| input.iter().map(|v| f(*v)).collect::<Vec<_>>();
    assert_eq!(
        values("add.u r3.x, r2.x, 5", &input),
        all(|v| v.wrapping_add(5))
    );
    assert_eq!(
        values("sub.s r3.x, 7, r2.x", &input),
        all(|v| 7u32.wrapping_sub(v))
    );
    assert_eq!(
        values("absneg.s r3.x, (neg)r2.x", &input),
        all(u32::wrapping_neg)
    );
    assert_eq!(
        values("and.b r3.x, (neg)r2.x, 255", &input),
        all(|v| !v & 255)
    );
    assert_eq!(
        values("shrg r3.x, 30, r2.x, r2.x", &input),
        all(|v| v >> 30 | v)
    );
    assert_eq!(
        values("cmps.u.lt r3.x, r2.x, 100", &input),
        all(|v| (v < 100).into())
    );
    // A product of 32 bits, with the slots that each step needs.
    let product = "mull.u r3.y, r2.x, r2.x; (rpt1)nop; madsh.m16 r3.z, r2.x, r2.x, r3.y
                   (rpt1)nop; madsh.m16 r3.x, r2.x, r2.x, r3.z";
    assert_eq!(values(product, &input), all(|v| v.wrapping_mul(v)));
    let some = "mov.u32u32 r4.x, 3; (rpt2)nop; madsh.m16 r3.x, r4.x, r2.x, r4.x";
    assert_eq!(
        values(some, &input),
        all(|v| (3u32.wrapping_mul(v >> 16) << 16).wrapping_add(3))
    );
    let f = [1.5, -2.25, 0.0, 1e-40, 3e38];
    let squares = f.map(|v: f32| if v.is_subnormal() { 0.0 } else { v * v });
    assert_eq!(
        values("mul.f r3.x, r2.x, r2.x", &floats(&f)),
        floats(&squares)
    );
    assert_eq!(
        values("(sat)add.f r3.x, r2.x, (0.5)", &floats(&[0.25, 3.0])),
        floats(&[0.75, 1.0])
    );
    assert_eq!(
        values("rcp r3.x, r2.x", &floats(&[4.0, -0.5])),
        floats(&[0.25, -2.0])
    );
}

#[test]
fn halves_and_conversions() {
    let body = "cov.f32f16 (even)hr0.x, r2.x; (rpt2)nop; add.f hr0.y, hr0.x, h(1.0)
                (rpt2)nop; cov.f16f32 r3.x, hr0.y";
    assert_eq!(
        values(body, &floats(&[0.1, 2048.0])),
        floats(&[1.0996094, 2048.0])
    );
    let body = "cov.f32s32 r3.x, r2.x";
    assert_eq!(
        values(body, &floats(&[-1.75, 1e12])),
        [u32::MAX, i32::MAX as u32]
    );
    let body = "cmps.f.lt hr0.x, r2.x, (0.0); (rpt2)nop; cov.u16s32 r3.x, hr0.x";
    assert_eq!(values(body, &floats(&[-1.0, 1.0])), [1, 0]);
    // A product of halves that widens.
    let body = "cov.f32f16 (even)hr0.x, r2.x; (rpt2)nop; mul.f r3.x, hr0.x, hr0.x";
    assert_eq!(values(body, &floats(&[3.0])), floats(&[9.0]));
}

#[test]
fn merged_halves_are_parts_of_registers() {
    let body = "mov.u32u32 r3.x, 0x12340000; (rpt5)nop; mov.u16u16 hr6.x, 0x5678; (rpt5)nop";
    let out = Machine::new(&each(body))
        .input(&[0; 64])
        .with(|launch| launch.merged_registers = true)
        .out(1);
    assert_eq!(out, [0x1234_5678]);
}

#[test]
fn repetitions_advance() {
    let body =
        "mov.u32u32 r4.x, 1; mov.u32u32 r4.y, 10; mov.u32u32 r4.z, 100; mov.u32u32 r4.w, 1000
                (rpt2)nop
                (rpt3)add.u r5.x, (r)r4.x, r2.x
                add.u r6.x, r5.x, r5.y; nop; nop; nop
                add.u r6.y, r6.x, r5.z; nop; nop; nop
                add.u r3.x, r6.y, r5.w";
    // The third element is read in slots where it is ready: the repetition writes one a slot.
    let body = body.replace(
        "add.u r6.x, r5.x, r5.y",
        "(rpt2)nop; add.u r6.x, r5.x, r5.y",
    );
    assert_eq!(values(&body, &[0, 5]), [1111, 1131]);
}

#[test]
fn addresses_are_relative() {
    let body = "mov.u32u32 r4.x, 7; mov.u32u32 r4.y, 8; mov.u32u32 r4.z, 9
                cov.u32s16 hr0.x, r2.x
                (rpt5)nop
                mova a0.x, hr0.x
                (rpt5)nop
                mov.u32u32 r3.x, r<a0.x + 16>";
    assert_eq!(values(body, &[2, 0, 1]), [9, 7, 8]);
    let body = "cov.u32s16 hr0.x, r2.x; (rpt5)nop; mova a0.x, hr0.x; (rpt5)nop
                mov.u32u32 r3.x, c<a0.x + 0>";
    assert_eq!(values(body, &[0, 2]), [OUT as u32, IN as u32]);
    let body = "mov.u32u32 r3.x, 1; mov.u32u32 r3.y, 1; cov.u32s16 hr0.x, r2.x
                (rpt5)nop; mova a0.x, hr0.x; (rpt5)nop; mov.u32u32 r<a0.x + 12>, 5; (rpt5)nop
                add.u r3.x, r3.x, r3.y";
    assert_eq!(values(body, &[0, 1]), [6, 6]);
}

#[test]
fn sides_of_a_condition() {
    let body = "cmps.u.lt p0.x, r0.x, 10
                (rpt5)nop
                br !p0.x, #4
                mov.u32u32 r3.x, 1
                nop
                jump #3
                (jp)mov.u32u32 r3.x, 2
                nop
                (jp)nop";
    let out = values(body, &[0; 64]);
    assert!(
        out.iter()
            .enumerate()
            .all(|(n, v)| *v == if n < 10 { 1 } else { 2 }),
        "{out:?}"
    );
}

#[test]
fn loops_of_different_lengths() {
    let body = "mov.u32u32 r3.x, 0; mov.u32u32 r3.y, 0
                (rpt2)nop
                add.u r3.x, r3.x, 3
                add.u r3.y, r3.y, 1
                (rpt2)nop
                cmps.u.le p0.x, r3.y, r0.x
                (rpt5)nop
                br p0.x, #-5
                (jp)nop";
    let out = values(body, &[0; 64]);
    let expected: Vec<u32> = (0..64).map(|n| 3 * (n + 1)).collect();
    assert_eq!(out, expected);
}

#[test]
fn predicated_code() {
    let body = "cmps.u.ge p0.x, r0.x, 32
                (rpt5)nop
                predt
                mov.u32u32 r3.x, 1
                predf
                mov.u32u32 r3.x, 2
                prede
                nop";
    let out = values(body, &[0; 64]);
    assert!(
        out.iter()
            .enumerate()
            .all(|(n, v)| *v == if n >= 32 { 1 } else { 2 })
    );
}

#[test]
fn predication_has_nops_behind_it() {
    let body = |predf: &str, prede: &str| {
        format!(
            "cmps.u.ge p0.x, r0.x, 32; (rpt5)nop; predt; mov.u32u32 r3.x, 1
             predf; {predf}mov.u32u32 r3.x, 2; prede; {prede}mov.u32u32 r4.x, 3"
        )
    };
    let run = |text: &str, chip| {
        let machine = Machine::new(&each(text)).input(&[0; 64]);
        machine.with(|launch| launch.chip = support::chip(chip))
    };
    let (four, six) = ("(rpt3)nop; ", "(rpt5)nop; ");
    for (chip, predf, prede) in [("A630", "", ""), ("A650", "", six), ("A660", four, six)] {
        let out = run(&body(predf, prede), chip).out(64);
        assert_eq!((out[31], out[32]), (2, 1), "{chip}");
    }
    for (chip, predf, prede) in [
        ("A650", "", ""),
        ("A650", "", "(rpt4)nop; "),
        ("A660", "(rpt2)nop; ", six),
        ("A660", four, ""),
    ] {
        let broken = run(&body(predf, prede), chip).breaks();
        fires("IR3-PREDICATION-NOPS").only(&[broken]);
    }
    // Mesa writes seven, as one word.
    assert!(Machine::words(vec![0x0000_0600_0000_0000]).run().is_ok());
    let broken = Machine::words(vec![0x0000_0700_0000_0000]).breaks();
    fires("IR3-ENCODING").only(&[broken]);
}

#[test]
fn what_chips_from_a660_on_add() {
    let run = |body: &str| {
        let machine = Machine::new(&each(body)).input(&[100; 64]);
        machine.with(|launch| {
            launch.chip = support::chip("A660");
            launch.constants[4] = Some(5);
        })
    };
    // A sum of three, of which the second may be taken away.
    assert_eq!(run("sad.s32 r3.x, r2.x, r2.x, c1.x").out(1), [205]);
    assert_eq!(run("sad.s32 r3.x, c1.x, (neg)r2.x, r2.x").out(1), [5]);
    fires("IR3-OPERANDS").only(&[run("sad.s32 r3.x, (neg)r2.x, r2.x, r2.x").breaks()]);
    let shared = "mov.u32u32 r51.x, c1.x; sad.s32 r51.y, c1.x, r51.x, c1.x; mov.u32u32 r3.x, 1";
    fires("IR3-OPERANDS").only(&[run(shared).breaks()]);
    // A choice of floats.
    let choice = "sel.b32 r3.x, (neg)r2.x, r2.x, c1.x";
    assert_eq!(run(choice).out(1), [100 | 1 << 31]);
    let earlier = run(choice).with(|launch| launch.chip = support::chip("A650"));
    fires("IR3-OPERANDS").only(&[earlier.breaks()]);
    // Two constants of the scalar ALU.
    let both = "add.u r51.x, c1.x, c1.x; (ss)mov.u32u32 r3.x, r51.x";
    assert_eq!(run(both).out(1), [10]);
}

#[test]
fn branches_on_all_and_any() {
    let branch = |branch: &str| {
        let body = format!(
            "mov.u32u32 r3.x, 0; cmps.u.lt p0.x, r0.x, 3; cmps.u.lt p0.y, r0.x, 64
             (rpt5)nop; {branch}, #2; mov.u32u32 r3.x, 1; nop"
        );
        values(&body, &[0; 4])[0]
    };
    assert_eq!(branch("bany p0.x"), 0);
    assert_eq!(branch("ball p0.x"), 1);
    assert_eq!(branch("ball p0.y"), 0);
    assert_eq!(branch("bany !p0.y"), 1);
    assert_eq!(branch("braa p0.y, p0.y"), 0);
    assert_eq!(branch("brao !p0.y, !p0.y"), 1);
}

#[test]
fn one_fiber_is_elected() {
    let body = "mov.u32u32 r3.x, 0; nop; getone #2; mov.u32u32 r3.x, 1; (jp)nop";
    assert_eq!(values(body, &[0; 64]).iter().sum::<u32>(), 1);
}

#[test]
fn functions_return() {
    let body = "mov.u32u32 r3.x, 1; call #3; add.u r3.x, r3.x, 10; jump #4; (rpt2)nop; add.u r3.x, r3.x, 5; ret; nop";
    let body = body.replace("call #3", "(rpt2)nop; call #3").replace(
        "; add.u r3.x, r3.x, 10",
        "; (rpt2)nop; add.u r3.x, r3.x, 10",
    );
    let body = body
        .replace("call #3", "call #5")
        .replace("jump #4", "jump #5");
    let out = Machine::new(&each(&body))
        .input(&[0; 64])
        .with(|launch| launch.private.stack = 1)
        .out(1);
    assert_eq!(out, [16]);
}

#[test]
fn swizzles_move_at_once() {
    let body =
        "mov.u32u32 r3.x, 1; mov.u32u32 r3.y, 2; (rpt2)nop; swz.u32u32 r3.x, r3.y, r3.y, r3.x
                (rpt3)nop; shl.b r3.y, r3.y, 4; (rpt2)nop; add.u r3.x, r3.x, r3.y";
    assert_eq!(values(body, &[0]), [2 + (1 << 4)]);
    let body = "mov.u32u32 r4.x, 1; mov.u32u32 r4.y, 2; mov.u32u32 r4.z, 3; mov.u32u32 r4.w, 4
                (rpt2)nop; gat.u32u32 r5.x, r4.w, r4.z, r4.y, r4.x; (rpt2)nop
                shl.b r3.x, r5.x, 8; (rpt2)nop; add.u r3.x, r3.x, r5.w";
    assert_eq!(values(body, &[0]), [(4 << 8) + 1]);
}

#[test]
fn local_memory_and_barriers() {
    // Each fiber stores its number and reads that of the last fiber but its own.
    let body = "shl.b r4.x, r0.x, 2
                sub.s r4.y, 255, r0.x
                (rpt2)nop
                shl.b r4.y, r4.y, 2
                (rpt5)nop
                stl.u32 l[r4.x], r0.x, 1
                fence.r.w
                (ss)(sy)bar.g
                (ss)(sy)nop
                ldl.u32 r3.x, l[r4.y], 1";
    for seed in 0..8 {
        for size in [ThreadSize::Thread64, ThreadSize::Thread128] {
            let out = Machine::new(&each(body))
                .input(&[0; 256])
                .with(|launch| {
                    launch.local_size = [256, 1, 1];
                    launch.global_size = [256, 1, 1];
                    (launch.seed, launch.thread_size) = (seed, size);
                })
                .out(256);
            assert!(out.iter().enumerate().all(|(n, v)| *v == 255 - n as u32));
        }
    }
}

#[test]
fn atomics() {
    // All fibers add their number to one word of local memory and of global memory.
    let body =
        "mov.u32u32 r4.x, 0; mov.u32u32 r4.y, 0; mov.u32u32 r5.x, c0.x; mov.u32u32 r5.y, c0.y
                (rpt5)nop
                add.u r5.x, r5.x, 508
                (rpt5)nop
                stl.u32 l[r4.x], r4.y, 1
                fence.r.w; (ss)(sy)bar.g; (ss)(sy)nop
                atomic.add.untyped.1d.u32.1.l r4.z, l[r4.x], r0.x
                atomic.g.max.untyped.1d.u32.1.g r4.w, r5.x, r0.x
                fence.r.w; (ss)(sy)bar.g; (ss)(sy)nop
                ldl.u32 r3.x, l[r4.x], 1";
    let out = Machine::new(&each(body)).input(&[0; 64]).out(128);
    assert!(out[..64].iter().all(|v| *v == 2016), "{out:?}");
    assert_eq!(out[127], 63);
    let body =
        "mov.u32u32 r4.x, c0.z; mov.u32u32 r4.y, c0.w; mov.u32u32 r5.x, 99; mov.u32u32 r5.y, 7
                (rpt5)nop; atomic.g.cmpxchg.untyped.1d.u32.1.g r3.x, r4.x, r5.x";
    let mut machine = Machine::new(&each(body)).input(&[7; 64]);
    machine.run().unwrap();
    // The first fiber finds 7, the others what it put there.
    assert_eq!(machine.ram.words(OUT, 3), [7, 99, 99]);
    assert_eq!(machine.ram.words(IN, 2), [99, 7]);
}

#[test]
fn private_memory() {
    let body = "mov.u32u32 r4.x, 16; (rpt5)nop
                stp.u32 p[r4.x], r0.x, 1
                stp.u32 p[r4.x+4], r2.x, 1
                ldp.u32 r4.y, p[r4.x], 2
                (sy)nop
                add.u r3.x, r4.y, r4.z";
    for per_wave_layout in [false, true] {
        let mut machine = Machine::new(&each(body)).input(&[100; 64]).with(|launch| {
            launch.private = Private {
                base: 0x3_0000_0000,
                per_fiber: 512,
                total: 512 * 2048,
                per_wave_layout,
                stack: 0,
            };
        });
        machine.ram.map(0x3_0000_0000, vec![0; 2 * 512 * 2048]);
        machine.run().unwrap_or_else(|e| panic!("{e}"));
        let out = machine.ram.words(OUT, 64);
        assert!(out.iter().enumerate().all(|(n, v)| *v == 100 + n as u32));
    }
}

#[test]
fn loads_and_stores_of_small_types() {
    let body = "ldg.u8 hr0.x, g[r1.x+1], 1
                ldg.u16 hr1.x, g[r1.x+2], 1
                (sy)and.b hr0.x, hr0.x, h(255)
                cov.u16u32 r4.x, hr1.x
                (rpt2)nop
                cov.u16u32 r3.x, hr0.x
                (rpt2)nop
                shl.b r3.x, r3.x, 16
                (rpt2)nop
                or.b r3.x, r3.x, r4.x";
    let out = Machine::new(&each(body)).input(&[0xaabb_ccdd; 64]).out(1);
    assert_eq!(out, [0x00cc_aabb]);
    let body = "mov.u16u16 hr0.x, 0x1234; mov.u16u16 hr0.y, 0x5678; mov.u32u32 r3.x, 0; (rpt5)nop
                stg.u8 g[r1.z+1024], hr0.x, 1; stg.u16 g[r1.z+1026], hr0.x, 2";
    let mut machine = Machine::new(&each(body)).input(&[0; 64]);
    machine.run().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(machine.ram.words(OUT + 1024, 2), [0x1234_0034, 0x5678]);
}

#[test]
fn constants_of_buffers() {
    let body = "mov.u32u32 r4.x, 1; (rpt5)nop; ldc.offset2.2.imm r5.x, r4.x, 0; (sy)nop; add.u r3.x, r5.x, r5.y";
    let out = Machine::new(&each(body))
        .input(&(0..64).collect::<Vec<_>>())
        .with(|launch| {
            launch.descriptors.ubos = vec![Some([IN as u32, (IN >> 32) as u32 | 16 << 17])];
        })
        .out(1);
    assert_eq!(out, [6 + 7]);
}

#[test]
fn fibers_exchange() {
    let shuffles = ["shfl.xor.u32 r3.x, r2.x, 1", "shfl.rup.u32 r3.x, r2.x, 3"];
    let lane = |n: usize| values(shuffles[n], &numbers());
    let input = numbers();
    assert!(lane(0).iter().enumerate().all(|(n, v)| *v == input[n ^ 1]));
    assert!(
        lane(1)
            .iter()
            .enumerate()
            .all(|(n, v)| *v == input[(n + 61) % 64])
    );
    let quad = values("quad_shuffle.diag (u32)(x)r3.x, r2.x", &input);
    assert!(quad.iter().enumerate().all(|(n, v)| *v == input[n ^ 3]));
    let body = "mov.u32u32 r3.x, r2.x; brcst.active.w8 (u32)(x)r3.x, r2.x";
    let body = body.replace("; brcst", "; (rpt5)nop; brcst");
    let out = values(&body, &input);
    assert!(out.iter().enumerate().all(|(n, v)| *v
        == if n & 4 == 0 {
            input[n]
        } else {
            input[n & !7 | 3]
        }));
    let body = "movmsk.w32 r52.x; (ss)mov.u32u32 r3.x, r52.x";
    assert_eq!(values(body, &input)[0], u32::MAX);
    let body = "movs.u32u32 r52.x, r2.x, 5; (ss)mov.u32u32 r3.x, r52.x";
    assert!(values(body, &input).iter().all(|v| *v == input[5]));
}

#[test]
fn the_scalar_alu_needs_no_waits_of_its_own() {
    let body = "mov.u32u32 r51.x, c1.x; add.u r51.y, r51.x, 2; mul.u24 r51.z, r51.y, r51.x
                mad.u24 r51.w, r51.x, r51.z, r51.y; mov.u32u32 r51.x, r51.w
                (ss)add.u r3.x, r51.x, r2.x";
    let out = Machine::new(&each(body))
        .input(&[100; 64])
        .with(|launch| {
            launch.chip = support::chip("A660");
            launch.constants[4] = Some(5);
        })
        .out(2);
    assert_eq!(out, [5 * 35 + 7 + 100; 2]);
}

#[test]
fn a_preamble_runs_once_before_all() {
    let body = "shps #5
                mov.u32u32 r52.x, 77; (ss)(rpt5)nop; stc.u32 c[40], r52.x, 1; (ss)shpe
                (ss)mov.u32u32 r3.x, c10.x";
    let out = Machine::new(&each(body))
        .input(&[0; 256])
        .with(|launch| {
            launch.local_size = [128, 1, 1];
            (launch.global_size, launch.groups) = ([256, 1, 1], [2, 1, 1]);
        })
        .out(1);
    assert_eq!(out, [77]);
}

#[test]
fn grids_with_partial_groups() {
    // Each fiber stores its number in the grid; fibers beyond 100 do not run.
    let text = "mov.u32u32 r1.x, c0.x; mov.u32u32 r1.y, c0.y; add.u r2.x, r0.x, r50.x; (rpt5)nop
                add.u r2.y, r2.x, 500; (rpt5)nop
                stg.a.u32 g[r1.x+(r2.x<<2)], r2.y, 1";
    let mut machine = Machine::new(text).with(|launch| {
        launch.global_size = [100, 1, 1];
        launch.groups = [2, 1, 1];
    });
    let done = machine.run().unwrap_or_else(|e| panic!("{e}"));
    let out = machine.ram.words(OUT, 128);
    assert!((0..100).all(|n| out[n] == 500 + n as u32));
    assert!(out[100..].iter().all(|v| *v == 0));
    assert_eq!((done.groups, done.waves), (2, 2));
}

#[test]
fn local_ids_count_x_first() {
    let text =
        "mov.u32u32 r1.x, c0.x; mov.u32u32 r1.y, c0.y; shl.b r2.x, r0.y, 3; shl.b r2.y, r0.z, 5
                (rpt2)nop; add.u r2.x, r2.x, r0.x; (rpt2)nop; add.u r2.x, r2.x, r2.y; (rpt5)nop
                stg.a.u32 g[r1.x+(r2.x<<2)], r2.x, 1";
    let out = Machine::new(text)
        .with(|launch| {
            launch.local_size = [8, 4, 2];
            launch.global_size = [8, 4, 2];
        })
        .out(64);
    assert!(out.iter().enumerate().all(|(n, v)| *v == n as u32));
}

#[test]
fn runs_are_the_same_for_the_same_seed() {
    let body = "atomic.add.untyped.1d.u32.1.l r3.x, l[0], 1";
    let body = format!(
        "mov.u32u32 r4.x, 0; (rpt5)nop; stl.u32 l[r4.x], r4.x, 1; fence.r.w; (ss)(sy)bar.g; (ss)(sy)nop; {body}"
    );
    let run = |seed| {
        let machine = Machine::new(&each(&body)).input(&[0; 64]);
        machine.with(|launch| launch.seed = seed).out(64)
    };
    assert_eq!(run(5), run(5));
}

#[test]
fn launches_run_in_turns() {
    let mut machine = Machine::new(&each("mov.u32u32 r3.x, 3")).input(&[0; 64]);
    let mut grid = twin_ir3::Grid::new(machine.launch.clone()).unwrap();
    let mut turns = 0;
    let done = loop {
        turns += 1;
        if let Some(done) = grid
            .turn(&mut machine.ram, 3)
            .unwrap_or_else(|e| panic!("{e}"))
        {
            break done;
        }
    };
    assert!(turns > 2 && done.instructions > 8, "{turns} {done:?}");
    assert_eq!(machine.ram.words(OUT, 1), [3]);
}

#[test]
fn statistics_count_waits() {
    let mut machine = Machine::new(&each("rcp r3.x, r2.x")).input(&[0x3f80_0000; 64]);
    let done = machine.run().unwrap();
    // The load took 110 cycles, the reciprocal 10.
    assert!(done.sy_cycles > 90 && done.ss_cycles > 5, "{done:?}");
    assert!(done.cycles >= done.issue_cycles / 2 && done.occupancy == launch().occupancy());
}
