//! Dual issue.

use twin::fires::fires;

use super::{Random, run, run_in};
use crate::isa::{self, Gen};
use crate::step::Stop;

/// A VOPD: opcode, first source, second source, destination of each half.
fn vopd(x: [u32; 4], y: [u32; 4]) -> [u32; 3] {
    let [[op_x, a_x, b_x, d_x], [op_y, a_y, b_y, d_y]] = [x, y];
    assert_eq!(d_y & 1, !d_x & 1);
    [
        0x32 << 26 | op_x << 22 | op_y << 17 | b_x << 9 | a_x,
        d_x << 24 | d_y >> 1 << 17 | b_y << 9 | a_y,
        0x4120_0000,
    ]
}

const V: u32 = 256;

#[test]
fn both_halves_read_before_either_writes() {
    // v_dual_mov_b32 v1, v2 :: v_dual_mov_b32 v2, v1
    let words = vopd([8, V + 2, 0, 1], [8, V + 1, 0, 2]);
    run(
        Gen::Rdna3,
        1,
        &words,
        |wave| {
            *wave.vgpr_mut(1, 0) = [11; 32];
            *wave.vgpr_mut(2, 0) = [22; 32];
            wave.exec = 0x0000_ffff;
        },
        |wave, ()| {
            assert_eq!((wave.vgpr(1, 0)[3], wave.vgpr(2, 0)[3]), (22, 11));
            assert_eq!((wave.vgpr(1, 0)[20], wave.vgpr(2, 0)[20]), (11, 22));
        },
    );
}

/// Every half in both places against its formula.
#[test]
fn halves_compute() {
    const K: f32 = 10.0;
    type Meaning = fn(f32, f32, f32) -> f32;
    let formulas: [(u32, Meaning); 10] = [
        (0, |a, b, d| a.mul_add(b, d)),
        (1, |a, b, _| a.mul_add(b, K)),
        (2, |a, b, _| a.mul_add(K, b)),
        (3, |a, b, _| a * b),
        (4, |a, b, _| a + b),
        (5, |a, b, _| a - b),
        (6, |a, b, _| b - a),
        (7, |a, b, _| if a == 0.0 || b == 0.0 { 0.0 } else { a * b }),
        (10, |a, b, _| if a > b { a } else { b }),
        (11, |a, b, _| if a < b { a } else { b }),
    ];
    let mut random = Random(7);
    for (x, of_x) in formulas {
        for (y, of_y) in formulas {
            // Destinations 8 and 13; first sources 1 and 2; second ones 4 and 7.
            let words = vopd([x, V + 1, 4, 8], [y, V + 2, 7, 13]);
            run(
                Gen::Rdna3,
                1,
                &words,
                |wave| {
                    [1, 4, 8, 2, 7, 13].map(|r| {
                        let values: [f32; 32] =
                            std::array::from_fn(|_| random.small(4) as f32 / 3.0);
                        *wave.vgpr_mut(r, 0) = values.map(f32::to_bits);
                        values
                    })
                },
                |wave, [a, b, d, a2, b2, d2]| {
                    for i in 0..32 {
                        let found = [8, 13].map(|r| wave.vgpr(r, 0)[i]);
                        let expected = [of_x(a[i], b[i], d[i]), of_y(a2[i], b2[i], d2[i])];
                        assert_eq!(found, expected.map(f32::to_bits), "{x} {y}");
                    }
                },
            );
        }
    }
}

#[test]
fn integers_vcc_and_dot_products() {
    // v_dual_cndmask_b32 v0, v1, v4 :: v_dual_lshlrev_b32 v3, 36, v6
    run(
        Gen::Rdna3,
        1,
        &vopd([9, V + 1, 4, 0], [17, 128 + 36, 6, 3]),
        |wave| {
            wave.s[106] = 0x8000_0001;
            *wave.vgpr_mut(1, 0) = [1; 32];
            *wave.vgpr_mut(4, 0) = [4; 32];
            *wave.vgpr_mut(6, 0) = [3; 32];
        },
        |wave, ()| {
            let v0 = wave.vgpr(0, 0);
            assert_eq!((v0[0], v0[1], v0[31]), (4, 1, 4));
            assert_eq!(wave.vgpr(3, 0), &[48; 32]);
        },
    );
    // v_dual_dot2acc_f32_f16 v0, v1, v4 :: v_dual_and_b32 v3, v2, v6
    run(
        Gen::Rdna3,
        1,
        &vopd([12, V + 1, 4, 0], [18, V + 2, 6, 3]),
        |wave| {
            *wave.vgpr_mut(0, 0) = [1f32.to_bits(); 32];
            *wave.vgpr_mut(1, 0) = [0x4000_3c00; 32];
            *wave.vgpr_mut(4, 0) = [0x4200_4400; 32];
            *wave.vgpr_mut(2, 0) = [0xff0f; 32];
            *wave.vgpr_mut(6, 0) = [0x0ff0; 32];
        },
        |wave, ()| {
            assert_eq!(wave.vgpr(0, 0), &[11f32.to_bits(); 32]);
            assert_eq!(wave.vgpr(3, 0), &[0x0f00; 32]);
        },
    );
}

fn rule(generation: Gen, halves: usize, words: &[u32]) -> Option<&'static str> {
    match run_in(generation, halves, words, |_| (), |_, ()| ()) {
        Ok(()) => None,
        Err(Stop::Rule(rule, _)) => Some(rule.name),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn restrictions() {
    let (mov, mul, fmac, fmamk, cndmask) = (8, 3, 0, 2, 9);
    let fine = vopd([mul, V + 1, 2, 0], [mul, V + 2, 3, 1]);
    assert_eq!(rule(Gen::Rdna3, 1, &fine), None);
    fires("VOPD-WAVE32").only(&[rule(Gen::Rdna3, 2, &fine).unwrap()]);
    let same_first = vopd([mul, V + 1, 2, 0], [mul, V + 5, 3, 1]);
    fires("VOPD-BANKS").only(&[rule(Gen::Rdna3, 1, &same_first).unwrap()]);
    let same_second = vopd([mul, V + 1, 2, 0], [mul, V + 2, 6, 1]);
    fires("VOPD-BANKS").only(&[rule(Gen::Rdna4, 1, &same_second).unwrap()]);
    // The accumulator is in a slot of its own, with the second source of fmamk.
    let third = vopd([fmac, V + 1, 2, 1], [fmamk, V + 2, 3, 2]);
    fires("VOPD-BANKS").only(&[rule(Gen::Rdna3, 1, &third).unwrap()]);
    let third = vopd([fmac, V + 1, 2, 1], [fmamk, V + 2, 6, 2]);
    assert_eq!(rule(Gen::Rdna3, 1, &third), None);
    // Two moves may share a bank in RDNA4.
    let moves = vopd([mov, V + 1, 0, 0], [mov, V + 5, 0, 1]);
    fires("VOPD-BANKS").only(&[rule(Gen::Rdna3, 1, &moves).unwrap()]);
    assert_eq!(rule(Gen::Rdna4, 1, &moves), None);
    let scalars = vopd([cndmask, 1, 2, 0], [mul, 2, 3, 1]);
    fires("VOPD-SCALARS").only(&[rule(Gen::Rdna3, 1, &scalars).unwrap()]);
    let scalars = vopd([cndmask, 1, 2, 0], [mul, 1, 3, 1]);
    assert_eq!(rule(Gen::Rdna3, 1, &scalars), None);
    // LDS_DIRECT is for pixel shaders.
    let reserved = vopd([mul, 254, 2, 0], [mul, V + 2, 3, 1]);
    fires("ISA-RESERVED").only(&[rule(Gen::Rdna3, 1, &reserved).unwrap()]);
}

#[test]
fn touches_say_what_is_read_and_written() {
    let words = vopd([0, V + 1, 2, 8], [9, 5, 3, 1]);
    let step = isa::decode(Gen::Rdna3, &words).unwrap().inst.lower(1);
    let mut touched: Vec<String> = step.touches.iter().map(ToString::to_string).collect();
    touched.sort();
    assert_eq!(touched, ["s106", "s5", "v1", "v1", "v2", "v3", "v8"]);
}
