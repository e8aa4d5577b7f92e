//! Random encodings of this class.
//!
//! Left out is what LLVM 22 crashes on: literals in VOP3P of CDNA3, which has none. And what it gets
//! wrong: in `v_fma_mixlo_f16` and `v_fma_mixhi_f16` with DPP it takes controls from 0x80 to 0xff for
//! codes of inline constants.

use twin_shader::isa::Gen;

use crate::Words;
use crate::random::Random;

/// One of them.
pub fn encoding(generation: Gen, random: &mut Random) -> Words {
    let mut words = random.words();
    let rdna3 = matches!(generation, Gen::Rdna3 | Gen::Rdna4);
    if generation == Gen::Cdna3 && random.one_in(50) {
        // v_accvgpr_mov_b32
        let from = source(generation, random, false);
        words[0] = 0x3f << 25 | 82 << 9 | random.below(256) << 17 | from;
        // SDWA, DPP and literals are not for it.
        if matches!(from, 249 | 250 | 255) {
            words[0] ^= 1;
        }
    } else if rdna3 && random.one_in(3) {
        dual(random, &mut words);
    } else {
        vop3p(generation, random, &mut words);
    }
    // Literals that an inline constant could say, too.
    if random.one_in(3) {
        words[2] = random.pick(&[
            0,
            1,
            64,
            65,
            0xffff_fff0,
            0x3c00,
            0x3f80,
            0x3f80_0000,
            0x3118,
        ]);
    }
    words
}

fn source(generation: Gen, random: &mut Random, literal: bool) -> u32 {
    let any = match random.below(8) {
        0..=3 => 256 + random.below(256),
        4 => random.below(128),
        5 => 128 + random.below(128),
        6 => random.pick(&[
            106, 124, 125, 126, 128, 193, 240, 247, 248, 255, 233, 234, 250,
        ]),
        _ => random.below(512),
    };
    if any == 255 && (generation == Gen::Cdna3 || !literal) {
        242
    } else {
        any
    }
}

fn vop3p(generation: Gen, random: &mut Random, words: &mut Words) {
    let prefix = if generation == Gen::Cdna3 {
        0x1a7
    } else {
        0x198
    };
    let op = random.below(128);
    let mut modifiers = random.bits();
    // Most instructions allow few modifiers.
    if random.one_in(2) {
        modifiers &= 0x87 << random.below(16);
    }
    let literal = random.one_in(2);
    let [a, b, c] = [(); 3].map(|()| source(generation, random, literal));
    words[0] = prefix << 23 | op << 16 | modifiers & 0xff00 | random.below(256);
    words[1] = a | b << 9 | c << 18 | (modifiers >> 16 & 0x1f) << 27;
    if random.one_in(2) {
        words[0] |= 0x4000;
        words[1] |= 3 << 27;
    }
    if matches!(op, 33 | 34) && a == 250 {
        words[2] &= !0x8000;
    }
}

fn dual(random: &mut Random, words: &mut Words) {
    let [a, c] = [(); 2].map(|()| source(Gen::Rdna3, random, true));
    let (x, y) = (random.below(16), random.below(20));
    let vgpr = |random: &mut Random, op: u32| if op == 8 { 0 } else { random.below(256) };
    let (b, d) = (vgpr(random, x), vgpr(random, y));
    words[0] = 0x32 << 26 | x << 22 | y << 17 | b << 9 | a;
    words[1] = c | d << 9 | random.bits() & 0xffff << 17 | random.bits() & 0x8000_0000;
}
