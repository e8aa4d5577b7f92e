//! Packed instructions.

use super::{Random, by_name, run};
use crate::isa::Gen;
use crate::vector::float::{self, HALF, Round, convert, f16_to_f32};

/// Runs an instruction on these dwords in every lane, in this MODE.
fn once(generation: Gen, name: &str, sources: [u32; 3], modifiers: [u32; 2], mode: u32) -> u32 {
    let words = by_name(generation, name, [257, 258, 259], modifiers);
    run(
        generation,
        1,
        &words,
        |wave| {
            wave.mode = mode;
            *wave.vgpr_mut(0, 0) = [0xaaaa_5555; 32];
            for (r, source) in sources.into_iter().enumerate() {
                *wave.vgpr_mut(1 + r, 0) = [source; 32];
            }
        },
        |wave, ()| wave.vgpr(0, 0)[9],
    )
}

const PLAIN: u32 = 0x3f0;
const CLAMP: [u32; 2] = [1 << 15, 0];
const NONE: [u32; 2] = [0, 0];

#[test]
fn integers() {
    let is = |name: &str, sources: [u32; 3], modifiers: [u32; 2], expected: u32| {
        for generation in Gen::ALL {
            let found = once(generation, name, sources, modifiers, PLAIN);
            assert_eq!(
                found, expected,
                "{name} {sources:x?} of {generation:?}: {found:#x}"
            );
        }
    };
    is(
        "v_pk_add_i16",
        [0x7fff_8000, 0x0001_ffff, 0],
        NONE,
        0x8000_7fff,
    );
    is(
        "v_pk_add_i16",
        [0x7fff_8000, 0x0001_ffff, 0],
        CLAMP,
        0x7fff_8000,
    );
    is(
        "v_pk_add_u16",
        [0xffff_0001, 0x0001_0002, 0],
        NONE,
        0x0000_0003,
    );
    is(
        "v_pk_add_u16",
        [0xffff_0001, 0x0001_0002, 0],
        CLAMP,
        0xffff_0003,
    );
    is(
        "v_pk_sub_u16",
        [0x0000_0005, 0x0001_0002, 0],
        CLAMP,
        0x0000_0003,
    );
    is(
        "v_pk_sub_i16",
        [0x8000_0005, 0x0001_0007, 0],
        CLAMP,
        0x8000_fffe,
    );
    is(
        "v_pk_mad_u16",
        [0xffff_0003, 0xffff_0004, 0xffff_0005],
        NONE,
        0x0000_0011,
    );
    is(
        "v_pk_mad_u16",
        [0xffff_0003, 0xffff_0004, 0xffff_0005],
        CLAMP,
        0xffff_0011,
    );
    is(
        "v_pk_mad_i16",
        [0x8000_0003, 0x8000_fffe, 0x0000_0001],
        CLAMP,
        0x7fff_fffb,
    );
    is(
        "v_pk_mul_lo_u16",
        [0x0100_0003, 0x0101_0005, 0],
        NONE,
        0x0100_000f,
    );
    is(
        "v_pk_lshlrev_b16",
        [0x0011_0004, 0x4001_f00f, 0],
        NONE,
        0x8002_00f0,
    );
    is(
        "v_pk_lshrrev_b16",
        [0x0001_0004, 0x8000_f00f, 0],
        NONE,
        0x4000_0f00,
    );
    is(
        "v_pk_ashrrev_i16",
        [0x0001_0014, 0x8000_f00f, 0],
        NONE,
        0xc000_ff00,
    );
    is(
        "v_pk_max_i16",
        [0x8000_0001, 0x0000_ffff, 0],
        NONE,
        0x0000_0001,
    );
    is(
        "v_pk_min_u16",
        [0x8000_0001, 0x0000_ffff, 0],
        NONE,
        0x0000_0001,
    );
    // op_sel: both results from the high half of the first source, and from the low of the second.
    is(
        "v_pk_add_u16",
        [0x0030_0001, 0x0700_0002, 0],
        [1 << 11, 2 << 27],
        0x0032_0032,
    );
}

#[test]
fn dot_products_of_integers() {
    let signed = [0, 3 << 29];
    let iu8 = |a, b, c, modifiers| once(Gen::Rdna3, "v_dot4_i32_iu8", [a, b, c], modifiers, PLAIN);
    assert_eq!(iu8(0xff02_0304, 0x0101_0101, 5, NONE), 255 + 2 + 3 + 4 + 5);
    assert_eq!(iu8(0xff02_0304, 0x0101_0101, 5, signed), 5 + 9 - 1);
    assert_eq!(
        iu8(0x7f7f_7f7f, 0x7f7f_7f7f, 0x7fff_ffff, CLAMP),
        0x7fff_ffff
    );
    let iu4 = |a, b, modifiers| once(Gen::Rdna3, "v_dot8_i32_iu4", [a, b, 0], modifiers, PLAIN);
    assert_eq!(iu4(0xf000_0001, 0x2000_0003, NONE), 33);
    assert_eq!(iu4(0xf000_0001, 0x2000_0003, signed), 1);
    let i16 = |modifiers| {
        once(
            Gen::Rdna2,
            "v_dot2_i32_i16",
            [0xffff_0002, 0x0003_0004, 10],
            modifiers,
            PLAIN,
        )
    };
    assert_eq!(i16(NONE), 10 + 8 - 3);
    // The high half of the first source twice.
    assert_eq!(i16([1 << 11, 0]), 10 - 4 - 3);
    let u8 = |clamp| {
        once(
            Gen::Cdna3,
            "v_dot4_u32_u8",
            [0x101, 0x101, u32::MAX],
            clamp,
            PLAIN,
        )
    };
    assert_eq!((u8(NONE), u8(CLAMP)), (1, u32::MAX));
}

#[test]
fn halves_are_exact_in_every_mode() {
    let mut random = Random(8);
    let special = [
        0, 0x8000, 0x7c00, 0xfc00, 0x7e01, 0x7c01, 0x0001, 0x83ff, 0x7bff, 0x0400, 0x3c00,
    ];
    for n in 0..4000 {
        let mut half = || match random.bits() % 4 {
            0 => special[random.bits() as usize % special.len()],
            _ => random.bits() & 0xffff,
        };
        let [a, b, c] = [half(), half(), half()];
        let round = n % 4;
        let mode = PLAIN | round << 2;
        let exact = |name: &str, expected: f64, operands: &[u32]| {
            let found = once(Gen::Rdna3, name, [a, b, c], NONE, mode) & 0xffff;
            // An f64 holds sums and products of two halves exactly.
            let mut bits =
                convert(float::DOUBLE, expected.to_bits(), HALF, Round::of(round)) as u32;
            if expected.is_nan() {
                let nan = operands.iter().find(|&&x| float::is_nan(HALF, x.into()));
                bits = nan.map_or(0x7e00, |nan| nan | 0x200);
            }
            if expected == 0.0 && found & 0x7fff == 0 {
                return;
            }
            assert_eq!(found, bits, "{name} {a:x} {b:x} rounding {round}");
        };
        let [x, y, z] = [a, b, c].map(|h| f64::from(f16_to_f32(h as u16)));
        exact("v_pk_add_f16", x + y, &[a, b]);
        exact("v_pk_mul_f16", x * y, &[a, b]);
        // Close enough to be exact.
        if (x * y).abs() < 1e3 * z.abs() && z.abs() < 1e3 * (x * y).abs() || z.is_nan() {
            exact("v_pk_fma_f16", x.mul_add(y, z), &[a, b, c]);
        }
    }
}

#[test]
fn modifiers_of_halves() {
    let add = |a, b, modifiers, mode| once(Gen::Rdna3, "v_pk_add_f16", [a, b, 0], modifiers, mode);
    // 1 and 2, plus 3 and 4; then with signs: low of the first, high of the second.
    assert_eq!(add(0x4000_3c00, 0x4400_4200, NONE, PLAIN), 0x4600_4400);
    assert_eq!(
        add(0x4000_3c00, 0x4400_4200, [2 << 8, 1 << 29], PLAIN),
        0xc000_4000
    );
    assert_eq!(add(0x4000_3c00, 0xc400_4200, CLAMP, PLAIN), 0x0000_3c00);
    // Clamp makes a NaN zero where DX10_CLAMP is set.
    assert_eq!(add(0x7e00_0000, 0, CLAMP, PLAIN), 0);
    assert_eq!(add(0x7e00_0000, 0, CLAMP, 0x2f0), 0x7e00_0000);
    // Denormals flushed when they are read, and when they are written.
    assert_eq!(add(0x0001_03ff, 0, NONE, 0x380 | 0x30), 0);
    assert_eq!(add(0x0400_0400, 0x8001_8001, NONE, 0x340 | 0x30), 0);
    assert_eq!(add(0x0400_0400, 0x8001_8001, NONE, PLAIN), 0x03ff_03ff);
}

#[test]
fn minimum_and_maximum() {
    let low =
        |generation, name: &str, a, b, mode| once(generation, name, [a, b, 0], NONE, mode) & 0xffff;
    let (quiet, signaling, ieee, no_ieee) = (0x7e01, 0x7c01, 0x3f0, 0x1f0);
    for generation in [Gen::Rdna2, Gen::Rdna3, Gen::Cdna3] {
        let min = |a, b, mode| low(generation, "v_pk_min_f16", a, b, mode);
        assert_eq!(min(0x8000, 0, ieee), 0x8000);
        assert_eq!(min(0, 0x8000, ieee), 0x8000);
        assert_eq!(min(quiet, 0x3c00, ieee), 0x3c00);
        assert_eq!(min(0x3c00, quiet, ieee), 0x3c00);
        assert_eq!(min(0x3c00, signaling, ieee), 0x7e01);
        assert_eq!(min(0x3c00, signaling, no_ieee), 0x3c00);
        assert_eq!(low(generation, "v_pk_max_f16", 0x8000, 0, ieee), 0);
    }
    let rdna4 = |name, a, b| low(Gen::Rdna4, name, a, b, 0xf0);
    assert_eq!(rdna4("v_pk_max_num_f16", signaling, 0xbc00), 0xbc00);
    assert_eq!(rdna4("v_pk_maximum_f16", 0x3c00, signaling), 0x7e01);
    assert_eq!(rdna4("v_pk_minimum_f16", quiet, 0x3c00), quiet);
    assert_eq!(rdna4("v_pk_minimum_f16", 0xc000, 0x3c00), 0xc000);
}

#[test]
fn mixes() {
    let one_and_two = 0x4000_3c00;
    let three = 3f32.to_bits();
    // All f32: op_sel_hi is 0.
    let singles = [0x4000, 3 << 27];
    let mix =
        |name: &str, s: [u32; 3], modifiers: [u32; 2]| once(Gen::Rdna3, name, s, modifiers, PLAIN);
    assert_eq!(
        mix("v_fma_mix_f32", [three, three, three], singles),
        12f32.to_bits()
    );
    // High half times low half, plus f32.
    let s = [one_and_two, one_and_two, three];
    assert_eq!(
        mix("v_fma_mix_f32", s, [0x4000 | 1 << 11, 0]),
        5f32.to_bits()
    );
    // |-2| * 1 - 3
    let s = [0xc000_3c00, one_and_two, three];
    assert_eq!(
        mix("v_fma_mix_f32", s, [0x4000 | 1 << 11 | 1 << 8, 4 << 29]),
        (-1f32).to_bits()
    );
    assert_eq!(mix("v_fma_mixlo_f16", [three; 3], singles), 0xaaaa_4a00);
    assert_eq!(mix("v_fma_mixhi_f16", [three; 3], singles), 0x4a00_5555);
}

#[test]
fn sums_of_products_of_floats() {
    let dot = |a, b, c: f32, modifiers| {
        f32::from_bits(once(
            Gen::Rdna3,
            "v_dot2_f32_f16",
            [a, b, c.to_bits()],
            modifiers,
            PLAIN,
        ))
    };
    assert_eq!(
        dot(0x4000_3c00, 0x4400_4200, 0.5, NONE),
        1.0 * 3.0 + 2.0 * 4.0 + 0.5
    );
    assert_eq!(dot(0x4000_3c00, 0x4400_4200, 0.5, [0, 4 << 29]), 10.5);
    // From left to right, each step rounded: the one is lost.
    assert_eq!(
        dot(0x5c00_3c00, 0xdc00_3c00, 2f32.powi(25), NONE),
        2f32.powi(25) - 65536.0
    );
    let bf16 = once(
        Gen::Rdna4,
        "v_dot2_f32_bf16",
        [0x4000_3f80, 0x4080_4040, 0],
        NONE,
        PLAIN,
    );
    assert_eq!(f32::from_bits(bf16), 11.0);
    // 1, 1.5, 0, 0 as E4M3 times 2, 4 as E5M2; minus |-1|.
    let s = [0x3c38, 0x4440, (-1f32).to_bits()];
    let fp8 = once(
        Gen::Rdna4,
        "v_dot4_f32_fp8_bf8",
        s,
        [4 << 8, 4 << 29],
        PLAIN,
    );
    assert_eq!(f32::from_bits(fp8), 2.0 + 6.0 - 1.0);
}

/// `v_pk_*_f32` of CDNA3 on pairs of registers.
#[test]
fn pairs_of_singles() {
    let run_f32 = |name: &str, modifiers: [u32; 2]| {
        let words = by_name(Gen::Cdna3, name, [258, 260, 262], modifiers);
        run(
            Gen::Cdna3,
            2,
            &words,
            |wave| {
                for (r, value) in [
                    (2, 1.0),
                    (3, 2.0),
                    (4, 3.0),
                    (5, 4.0),
                    (6, 5.0),
                    (7, 6.0f32),
                ] {
                    *wave.vgpr_mut(r, 1) = [value.to_bits(); 32];
                }
                wave.exec = 1 << 40;
            },
            |wave, ()| {
                assert_eq!(wave.vgpr(0, 0), &[0; 32]);
                [0, 1].map(|r| f32::from_bits(wave.vgpr(r, 1)[8]))
            },
        )
    };
    assert_eq!(run_f32("v_pk_fma_f32", NONE), [8.0, 14.0]);
    assert_eq!(run_f32("v_pk_add_f32", NONE), [4.0, 6.0]);
    // High times low, low times high.
    assert_eq!(run_f32("v_pk_mul_f32", [1 << 11, 1 << 27]), [6.0, 4.0]);
    assert_eq!(run_f32("v_pk_mov_b32", [1 << 11, 0]), [2.0, 3.0]);
}

#[test]
fn moves_of_accumulation_registers() {
    let write = by_name(Gen::Cdna3, "v_accvgpr_write_b32", [257, 0, 0], NONE);
    run(
        Gen::Cdna3,
        2,
        &write,
        |wave| *wave.vgpr_mut(1, 1) = [7; 32],
        |wave, ()| assert_eq!(wave.vgpr(256, 1), &[7; 32]),
    );
    let read = by_name(Gen::Cdna3, "v_accvgpr_read_b32", [257, 0, 0], NONE);
    run(
        Gen::Cdna3,
        2,
        &read,
        |wave| *wave.vgpr_mut(257, 0) = [8; 32],
        |wave, ()| assert_eq!(wave.vgpr(0, 0), &[8; 32]),
    );
}

#[test]
fn a_move_between_accumulation_registers() {
    // v_accvgpr_mov_b32 a6, a1
    let words = [0x7e00_0000 | 82 << 9 | 6 << 17 | 257];
    run(
        Gen::Cdna3,
        2,
        &words,
        |wave| *wave.vgpr_mut(257, 0) = [9; 32],
        |wave, ()| assert_eq!(wave.vgpr(262, 0), &[9; 32]),
    );
}

/// DPP: the first source moved by one lane to the right in its row.
#[test]
fn lanes_move_by_dpp() {
    // v_dot2_f32_f16_e64_dpp v0, v1, v2, v3 row_shr:1 row_mask:0xf bank_mask:0xf
    let mut words = by_name(Gen::Rdna3, "v_dot2_f32_f16", [250, 258, 259], NONE);
    words.push(1 | 0x111 << 8 | 0xff << 24);
    run(
        Gen::Rdna3,
        1,
        &words,
        |wave| {
            *wave.vgpr_mut(0, 0) = [0x1234; 32];
            *wave.vgpr_mut(1, 0) = std::array::from_fn(|i| u32::from(float::f32_to_f16(i as f32)));
            *wave.vgpr_mut(2, 0) = [0x3c00; 32];
        },
        |wave, ()| {
            for i in 0..32 {
                let expected = match i % 16 {
                    // There is no lane to the left, and bound_ctrl is 0: the lane is not written.
                    0 => 0x1234,
                    _ => (i as f32 - 1.0).to_bits(),
                };
                assert_eq!(wave.vgpr(0, 0)[i], expected);
            }
        },
    );
}
