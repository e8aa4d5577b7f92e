//! Products of random matrices. Where elements are is written here as AMD's matrix instruction
//! calculator prints it (`--detail-instruction`), from element to register; the lowering goes the
//! other way.

use std::collections::BTreeSet;

use twin::fires::fires;

use super::{Random, by_name, run, run_in};
use crate::isa::Gen;
use crate::packed::formats::Element;
use crate::packed::matrix::{Matrix, Result as Of};
use crate::packed::table::{Form, Meaning, ROWS, Row};
use crate::step::Stop;
use crate::vector::float::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::wave::Wave;

/// Registers of A, B, C (or indices) and D.
const A: usize = 32;
const B: usize = 64;
const C: usize = 96;
const D: usize = 0;

/// Dword, first bit and lane of an element.
type At = (usize, usize, usize);

/// Element `[row][k]` of A, or `[k][row]` of B; `dense` is false for the quads of a sparse A, whose
/// first stored element this gives.
fn ab(m: &Matrix, lanes: usize, element: Element, block: usize, row: usize, k: usize) -> Vec<At> {
    let bits = element.bits();
    let per = 32 / bits.min(32);
    let all = m.k;
    match m.generation {
        Gen::Rdna3 => (0..lanes / 16)
            .map(|n| (k / per, k % per * bits, row + 16 * n))
            .collect(),
        Gen::Rdna4 => {
            let (word, lane) = match (lanes, bits, all, m.sparse) {
                (32, 16, 16, _) => (2 * (k / 8) + k / 2 % 2, 16 * (k / 4 % 2)),
                (32, 8, 16, _) => (k / 4 % 2, 16 * (k / 8)),
                (32, 4, 16, _) => (0, 16 * (k / 8)),
                (32, 4, 32, false) => (k / 8 % 2, 16 * (k / 16)),
                (64, 16, 16, _) => (k / 2 % 2, 32 * (k / 8 % 2) + 16 * (k / 4 % 2)),
                (64, 8, 16, _) => (0, 32 * (k / 4 % 2) + 16 * (k / 8 % 2)),
                (64, 4, 16, _) => (0, 16 * (k / 8)),
                (64, 4, 32, false) => (0, 32 * (k / 8 % 2) + 16 * (k / 16 % 2)),
                // B of a sparse product.
                (32, 16, ..) => (4 * (k / 16) + k / 2 % 4, 16 * (k / 8 % 2)),
                (32, 8, ..) => (k / 4 % 4, 16 * (k / 16)),
                (32, 4, 32, _) => (k / 8 % 2, 16 * (k / 16)),
                (32, ..) => (k / 8 % 4, 16 * (k / 32)),
                (_, 16, ..) => (k / 2 % 4, 16 * (k / 8)),
                (_, 8, ..) => (k / 4 % 2, 32 * (k / 8 % 2) + 16 * (k / 16)),
                (_, _, 32, _) => (0, 32 * (k / 8 % 2) + 16 * (k / 16)),
                _ => (k / 8 % 2, 32 * (k / 16 % 2) + 16 * (k / 32)),
            };
            let repeated = lanes == 64 && bits == 4 && all == 16;
            (0..if repeated { 2 } else { 1 })
                .map(|n| (word, k % per * bits, lane + row + 32 * n))
                .collect()
        }
        _ => {
            // So many elements along k in a lane.
            let in_lane = all * m.blocks * m.mn / 64;
            let lane = m.mn * (block + m.blocks * (k / in_lane)) + row;
            let e = k % in_lane;
            vec![(e * bits / 32, e * bits % 32, lane)]
        }
    }
}

/// Of a sparse A: the first stored element of the quad that `k` is in, and its indices.
fn quad(m: &Matrix, lanes: usize, i: usize, k: usize) -> Vec<(At, At)> {
    let bits = m.a.bits();
    match (m.generation, lanes, bits, m.k) {
        (Gen::Rdna4, 32, 16, _) => {
            let lane = 16 * (k / 8 % 2) + i;
            let at = (2 * (k / 16) + k / 4 % 2, 0, lane);
            vec![(at, (0, 8 * (k / 16) + 4 * (k / 4 % 2), lane))]
        }
        (Gen::Rdna4, 64, 16, _) => {
            let lane = 16 * (k / 8) + i;
            vec![((k / 4 % 2, 0, lane), (0, 4 * (k / 4 % 2), lane))]
        }
        (Gen::Rdna4, 32, 8, _) => {
            let lane = 16 * (k / 16) + i;
            let at = (k / 8 % 2, 16 * (k / 4 % 2), lane);
            vec![(at, (0, 4 * (k / 4 % 4), lane))]
        }
        (Gen::Rdna4, 64, 8, _) => {
            let lane = 32 * (k / 8 % 2) + 16 * (k / 16) + i;
            vec![((0, 16 * (k / 4 % 2), lane), (0, 4 * (k / 4 % 2), lane))]
        }
        (Gen::Rdna4, lanes, 4, 32) => (0..lanes / 32)
            .map(|n| {
                let lane = 16 * (k / 16) + i + 32 * n;
                ((0, 8 * (k / 4 % 4), lane), (0, 4 * (k / 4 % 4), lane))
            })
            .collect(),
        (Gen::Rdna4, 32, ..) => {
            let lane = 16 * (k / 32) + i;
            let at = (k / 16 % 2, 8 * (k / 4 % 4), lane);
            vec![(at, (0, 4 * (k / 4 % 8), lane))]
        }
        (Gen::Rdna4, ..) => {
            let lane = 32 * (k / 16 % 2) + 16 * (k / 32) + i;
            vec![((0, 8 * (k / 4 % 4), lane), (0, 4 * (k / 4 % 4), lane))]
        }
        _ => {
            let in_lane = m.k * m.mn / 64;
            let lane = m.mn * (k / in_lane) + i;
            let stored = k % in_lane / 2;
            let at = (stored * bits / 32, stored * bits % 32, lane);
            vec![(at, (0, 4 * (k % in_lane / 4), lane))]
        }
    }
}

/// Element `[i][j]` of C or D.
fn cd(m: &Matrix, lanes: usize, block: usize, i: usize, j: usize) -> At {
    match (m.generation, lanes, m.d, m.mn) {
        (Gen::Rdna3, 32, ..) => (i / 2, 0, 16 * i % 32 + j),
        (Gen::Rdna3, ..) => (i / 4, 0, 16 * i % 64 + j),
        (Gen::Rdna4, 32, Of::F16 | Of::Bf16, _) => (i / 2 % 4, 16 * (i % 2), 16 * (i / 8) + j),
        (Gen::Rdna4, _, Of::F16 | Of::Bf16, _) => {
            (i / 2 % 2, 16 * (i % 2), 32 * (i / 4 % 2) + 16 * (i / 8) + j)
        }
        (Gen::Rdna4, 32, ..) => (i % 8, 0, 16 * (i / 8) + j),
        (Gen::Rdna4, ..) => (i % 4, 0, 32 * (i / 4 % 2) + 16 * (i / 8) + j),
        (_, _, Of::F64, 16) => (2 * (i / 4), 0, 16 * (i % 4) + j),
        (_, _, Of::F64, _) => (0, 0, 16 * (i % 4) + 4 * block + j),
        (_, _, _, 32) => (16 * block + 4 * (i / 8) + i % 4, 0, 32 * (i / 4) % 64 + j),
        (_, _, _, 16) => (4 * block + i % 4, 0, 16 * (i / 4) + j),
        _ => (i, 0, 4 * block + j),
    }
}

/// The bits of a small integer.
fn encode(element: Element, value: i32) -> u64 {
    let float = value as f32;
    match element {
        Element::F16 => f32_to_f16(float).into(),
        Element::Bf16 => f32_to_bf16(float).into(),
        Element::F32 | Element::Xf32 => float.to_bits().into(),
        Element::F64 => f64::from(value).to_bits(),
        Element::I8 => u64::from(value as u8),
        Element::I4 => u64::from(value as u8 & 15),
        small => small.values().iter().position(|&v| v == float).unwrap() as u64,
    }
}

fn put(wave: &mut Wave, first: usize, (word, bit, lane): At, bits: usize, value: u64) {
    let mask = u64::MAX >> (64 - bits) << bit;
    for (n, half) in [mask as u32, (mask >> 32) as u32].into_iter().enumerate() {
        if half == 0 {
            continue;
        }
        let to = &mut wave.vgpr_mut(first + word + n, lane / 32)[lane % 32];
        *to = *to & !half | (value << bit >> (32 * n)) as u32 & half;
    }
}

fn get(wave: &Wave, first: usize, (word, bit, lane): At, d: Of) -> f64 {
    let dword = |n: usize| wave.vgpr(first + word + n, lane / 32)[lane % 32];
    match d {
        Of::F16 => f16_to_f32((dword(0) >> bit) as u16).into(),
        Of::Bf16 => bf16_to_f32((dword(0) >> bit) as u16).into(),
        Of::F32 => f32::from_bits(dword(0)).into(),
        Of::I32 => f64::from(dword(0) as i32),
        Of::F64 => f64::from_bits(u64::from(dword(0)) | u64::from(dword(1)) << 32),
    }
}

fn of_c(d: Of, value: i32) -> (usize, u64) {
    match d {
        Of::F16 => (16, encode(Element::F16, value)),
        Of::Bf16 => (16, encode(Element::Bf16, value)),
        Of::F32 => (32, encode(Element::F32, value)),
        Of::F64 => (64, encode(Element::F64, value)),
        Of::I32 => (32, u64::from(value as u32)),
    }
}

/// What A and B are, block by block and row by row, along k; and C.
struct Operands {
    a: Vec<i32>,
    b: Vec<i32>,
    c: Vec<i32>,
}

/// Fills registers and gives back what is in them.
fn fill(m: &Matrix, wave: &mut Wave, random: &mut Random, shift: usize) -> Operands {
    let lanes = 32 * wave.halves;
    let (mn, k, blocks) = (m.mn, m.k, m.blocks);
    let mut o = Operands {
        a: vec![0; blocks * mn * k],
        b: vec![0; blocks * mn * k],
        c: vec![0; blocks * mn * mn],
    };
    for block in 0..blocks {
        for row in 0..mn {
            for at in 0..k {
                let index = (block * mn + row) * k + at;
                o.b[index] = random.small(3);
                for place in ab(m, lanes, m.b, block, row, at) {
                    put(wave, B, place, m.b.bits(), encode(m.b, o.b[index]));
                }
                if m.sparse && at % 4 == 0 {
                    // Two different places, the lower one first.
                    let first = random.bits() as usize % 3;
                    let second = first + 1 + random.bits() as usize % (3 - first);
                    let values = [random.small(3), random.small(3)];
                    o.a[index + first] = values[0];
                    o.a[index + second] = values[1];
                    for ((word, bit, lane), (_, index_bit, index_lane)) in quad(m, lanes, row, at) {
                        let bits = m.a.bits();
                        for (n, value) in values.into_iter().enumerate() {
                            put(
                                wave,
                                A,
                                (word, bit + n * bits, lane),
                                bits,
                                encode(m.a, value),
                            );
                        }
                        let indices = (first | second << 2) as u64;
                        put(wave, C, (0, index_bit + shift, index_lane), 4, indices);
                    }
                } else if !m.sparse {
                    o.a[index] = random.small(3);
                    for place in ab(m, lanes, m.a, block, row, at) {
                        put(wave, A, place, m.a.bits(), encode(m.a, o.a[index]));
                    }
                }
            }
            for j in 0..mn {
                let value = random.small(9);
                o.c[(block * mn + row) * mn + j] = value;
                let (bits, value) = of_c(m.d, value);
                let first = if m.sparse { D } else { C };
                put(wave, first, cd(m, lanes, block, row, j), bits, value);
            }
        }
    }
    o
}

/// Checks D against the product; `block_of_a` says which block of A stands for a block, `lane_of_b`
/// which column and block of B.
fn check(
    row: &Row,
    m: &Matrix,
    wave: &Wave,
    o: &Operands,
    block_of_a: impl Fn(usize) -> usize,
    of_b: impl Fn(usize, usize, usize) -> (usize, usize, usize),
) {
    for block in 0..m.blocks {
        for i in 0..m.mn {
            for j in 0..m.mn {
                let mut sum = f64::from(o.c[(block * m.mn + i) * m.mn + j]);
                for k in 0..m.k {
                    let (b_block, b_j, b_k) = of_b(block, j, k);
                    let a = o.a[(block_of_a(block) * m.mn + i) * m.k + k];
                    let b = o.b[(b_block * m.mn + b_j) * m.k + b_k];
                    sum += f64::from(a * b);
                }
                let lanes = 32 * wave.halves;
                let found = get(wave, D, cd(m, lanes, block, i, j), m.d);
                assert_eq!(
                    found, sum,
                    "{} in {lanes} lanes: [{i}][{j}] of block {block}",
                    row.name
                );
            }
        }
    }
}

fn matrices() -> impl Iterator<Item = (&'static Row, Matrix, Gen)> {
    ROWS.iter().filter_map(|row| match row.meaning {
        Meaning::Matrix(m) => Some((row, m, m.generation)),
        Meaning::Lanes(_) => None,
    })
}

/// Codes of A, B and C.
const SOURCES: [u32; 3] = [256 + A as u32, 256 + B as u32, 256 + C as u32];

/// CDNA has VGPRs where bits say accumulation registers otherwise, and no `op_sel_hi`.
fn modifiers(row: &Row, m: &Matrix) -> [u32; 2] {
    match m.generation {
        Gen::Cdna3 => [0x4000, 3 << 27],
        _ if row.form == Form::Wmma3 => [0, 0],
        // Integers are signed.
        _ if m.d == Of::I32 => [0, 3 << 29],
        _ => [0, 0],
    }
}

#[test]
fn random_matrices() {
    let mut random = Random(1);
    let mut count = 0;
    for (row, m, generation) in matrices() {
        for halves in [1, 2] {
            if generation == Gen::Cdna3 && halves == 1 {
                continue;
            }
            let words = by_name(generation, row.name, SOURCES, modifiers(row, &m));
            run(
                generation,
                halves,
                &words,
                |wave| fill(&m, wave, &mut random, 0),
                |wave, o| {
                    check(
                        row,
                        &m,
                        wave,
                        &o,
                        |block| block,
                        |block, j, k| (block, j, k),
                    )
                },
            );
            count += 1;
        }
    }
    assert_eq!(count, 2 * (6 + 22) + 32 + 14);
}

fn named(name: &str, generation: Gen) -> (&'static Row, Matrix) {
    let (row, m, _) = matrices()
        .find(|(row, _, g)| row.name == name && *g == generation)
        .unwrap();
    (row, m)
}

#[test]
fn cbsz_and_abid_broadcast_blocks_of_a() {
    let mut random = Random(2);
    let mut refused = BTreeSet::new();
    for name in [
        "v_mfma_f32_4x4x4_16b_f16",
        "v_mfma_f32_16x16x1_4b_f32",
        "v_mfma_i32_32x32x4_2b_i8",
    ] {
        let (row, m) = named(name, Gen::Cdna3);
        for cbsz in 0..4 {
            for abid in [0, 1, 2, 5, 7] {
                let [first, second] = modifiers(row, &m);
                // abid: bits 11 to 14; cbsz: bits 8 to 10.
                let words = by_name(
                    Gen::Cdna3,
                    name,
                    SOURCES,
                    [first ^ cbsz << 8 ^ abid << 11, second],
                );
                let legal = 1 << cbsz <= m.blocks && abid >> cbsz == 0;
                let block_of_a = |block: usize| block >> cbsz << cbsz | abid as usize;
                let result = run_in(
                    Gen::Cdna3,
                    2,
                    &words,
                    |wave| fill(&m, wave, &mut random, 0),
                    |wave, o| check(row, &m, wave, &o, block_of_a, |block, j, k| (block, j, k)),
                );
                match result {
                    Ok(()) => assert!(legal, "{name} {cbsz} {abid}"),
                    Err(Stop::Rule(rule, _)) => {
                        assert!(!legal, "{name} {cbsz} {abid}");
                        refused.insert(rule.name);
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
        }
    }
    fires("MFMA-CBSZ").only(&Vec::from_iter(refused));
}

/// What the calculator prints for `--blgp`: which lane each lane of B is read from.
#[test]
fn blgp_moves_lanes_of_b() {
    let from = |blgp: u32, lane: usize| match blgp {
        0 => lane,
        1 => lane % 32,
        2 => lane % 32 + 32,
        3 => (lane + 16) % 64,
        n => lane % 16 + 16 * (n as usize - 4),
    };
    let mut random = Random(3);
    for (name, rows) in [
        ("v_mfma_f32_16x16x1_4b_f32", 16),
        ("v_mfma_f32_32x32x1_2b_f32", 32),
    ] {
        let (row, m) = named(name, Gen::Cdna3);
        for blgp in 0..8 {
            let [first, second] = modifiers(row, &m);
            let words = by_name(Gen::Cdna3, name, SOURCES, [first, second ^ blgp << 29]);
            // Lane = rows * block + column; k is 0.
            let of_b = |block: usize, j: usize, k: usize| {
                let lane = from(blgp, rows * block + j);
                (lane / rows, lane % rows, k)
            };
            run(
                Gen::Cdna3,
                2,
                &words,
                |wave| fill(&m, wave, &mut random, 0),
                |wave, o| check(row, &m, wave, &o, |block| block, of_b),
            );
        }
    }
    let words = by_name(
        Gen::Cdna3,
        "v_mfma_f32_16x16x16_f16",
        SOURCES,
        [0x4000, 3 << 27 | 1 << 29],
    );
    let stop = run_in(Gen::Cdna3, 2, &words, |_| (), |_, ()| ()).unwrap_err();
    let Stop::Rule(rule, _) = stop else {
        panic!("{stop:?}");
    };
    fires("MFMA-BLGP").only(&[rule.name]);
}

#[test]
fn other_sets_of_indices() {
    let mut random = Random(4);
    for (name, generation, halves, modifier, shift) in [
        ("v_swmmac_f32_16x16x32_f16", Gen::Rdna4, 1, 1 << 11, 16),
        ("v_swmmac_f32_16x16x32_f16", Gen::Rdna4, 2, 1 << 11, 8),
        ("v_swmmac_i32_16x16x32_iu8", Gen::Rdna4, 1, 1 << 11, 16),
        ("v_smfmac_f32_16x16x32_f16", Gen::Cdna3, 2, 2 << 11, 16),
        ("v_smfmac_i32_16x16x64_i8", Gen::Cdna3, 2, 1 << 11, 16),
    ] {
        let (row, m) = named(name, generation);
        let [first, second] = modifiers(row, &m);
        let words = by_name(generation, name, SOURCES, [first ^ modifier, second]);
        run(
            generation,
            halves,
            &words,
            |wave| fill(&m, wave, &mut random, shift),
            |wave, o| {
                check(
                    row,
                    &m,
                    wave,
                    &o,
                    |block| block,
                    |block, j, k| (block, j, k),
                )
            },
        );
    }
}

#[test]
fn signs_of_operands() {
    let mut random = Random(5);
    let (_, m) = named("v_wmma_f32_16x16x16_f16", Gen::Rdna4);
    // -|C| minus A B: A with all signs flipped.
    let modifiers = [1 << 8 | 4 << 8, 1 << 29 | 4 << 29];
    let words = by_name(Gen::Rdna4, "v_wmma_f32_16x16x16_f16", SOURCES, modifiers);
    run(
        Gen::Rdna4,
        1,
        &words,
        |wave| fill(&m, wave, &mut random, 0),
        |wave, o| {
            for i in 0..16 {
                for j in 0..16 {
                    let dot: i32 = (0..16).map(|k| o.a[i * 16 + k] * o.b[j * 16 + k]).sum();
                    let expected = -f64::from(o.c[i * 16 + j].abs()) - f64::from(dot);
                    assert_eq!(get(wave, D, cd(&m, 32, 0, i, j), m.d), expected);
                }
            }
        },
    );
}

#[test]
fn results_of_16_bits_leave_the_other_half_alone() {
    let mut random = Random(6);
    let (_, m) = named("v_wmma_f16_16x16x16_f16", Gen::Rdna3);
    for high in [false, true] {
        let modifiers = [if high { 1 << 13 } else { 0 }, 0];
        let words = by_name(Gen::Rdna3, "v_wmma_f16_16x16x16_f16", SOURCES, modifiers);
        run(
            Gen::Rdna3,
            1,
            &words,
            |wave| {
                let o = fill(&m, wave, &mut random, 0);
                for r in 0..8 {
                    *wave.vgpr_mut(D + r, 0) = [0x1234_5678; 32];
                    // C is read from the same half.
                    for lane in wave.vgpr_mut(C + r, 0) {
                        *lane = if high { *lane << 16 } else { *lane };
                    }
                }
                o
            },
            |wave, o| {
                for i in 0..16 {
                    for j in 0..16 {
                        let (word, _, lane) = cd(&m, 32, 0, i, j);
                        let dword = wave.vgpr(D + word, 0)[lane];
                        let (result, other) = if high {
                            (dword >> 16, dword & 0xffff)
                        } else {
                            (dword & 0xffff, dword >> 16)
                        };
                        assert_eq!(other, if high { 0x5678 } else { 0x1234 });
                        let dot: i32 = (0..16).map(|k| o.a[i * 16 + k] * o.b[j * 16 + k]).sum();
                        let expected = o.c[i * 16 + j] + dot;
                        assert_eq!(f16_to_f32(result as u16), expected as f32);
                    }
                }
            },
        );
    }
}

#[test]
fn clamp_saturates_and_unsigned_is_unsigned() {
    for (clamp, expected) in [(0, i32::MIN + 16 * 255 * 255 - 1), (1 << 15, i32::MAX)] {
        let words = by_name(Gen::Rdna3, "v_wmma_i32_16x16x16_iu8", SOURCES, [clamp, 0]);
        run(
            Gen::Rdna3,
            1,
            &words,
            |wave| {
                for r in 0..8 {
                    *wave.vgpr_mut(A + r, 0) = [u32::MAX; 32];
                    *wave.vgpr_mut(B + r, 0) = [u32::MAX; 32];
                    *wave.vgpr_mut(C + r, 0) = [i32::MAX as u32; 32];
                }
            },
            |wave, ()| assert_eq!(wave.vgpr(D, 0)[7] as i32, expected),
        );
    }
}

#[test]
fn constants_are_matrices_of_them() {
    // One, as an f32 and as an f16.
    for (name, expected) in [
        ("v_wmma_f32_16x16x16_f16", 0x3f80_0000),
        ("v_wmma_f16_16x16x16_f16", 0x3c00),
    ] {
        let words = by_name(Gen::Rdna3, name, [SOURCES[0], SOURCES[1], 242], [0, 0]);
        run(
            Gen::Rdna3,
            1,
            &words,
            |_| (),
            |wave, ()| {
                assert_eq!(wave.vgpr(D + 7, 0), &[expected; 32], "{name}");
            },
        );
    }
}

#[test]
fn rows_of_lanes_must_be_equal_in_rdna3() {
    let words = by_name(Gen::Rdna3, "v_wmma_f32_16x16x16_f16", SOURCES, [0, 0]);
    let stop = run_in(
        Gen::Rdna3,
        1,
        &words,
        |wave| wave.vgpr_mut(B + 3, 0)[20] = 1,
        |_, ()| (),
    );
    let Err(Stop::Rule(rule, _)) = stop else {
        panic!("{stop:?}");
    };
    fires("WMMA-REPLICATE").only(&[rule.name]);
}

/// The rounding of `fma` in order of k: the exact product of the first pair is kept, and so is a
/// denormal sum.
#[test]
fn sums_are_fused_and_in_order() {
    let words = by_name(
        Gen::Cdna3,
        "v_mfma_f32_4x4x1_16b_f32",
        SOURCES,
        [0x4000, 3 << 27],
    );
    let (a, b, c) = (1.0 + f32::EPSILON, 1.0 - f32::EPSILON, -1.0);
    run(
        Gen::Cdna3,
        2,
        &words,
        |wave| {
            for half in 0..2 {
                *wave.vgpr_mut(A, half) = [a.to_bits(); 32];
                *wave.vgpr_mut(B, half) = [b.to_bits(); 32];
                for r in 0..4 {
                    *wave.vgpr_mut(C + r, half) = [f32::to_bits(c); 32];
                }
            }
        },
        |wave, ()| assert_eq!(wave.vgpr(D, 1)[31], a.mul_add(b, c).to_bits()),
    );
}
