//! Random encodings of this class.

use twin_shader::isa::Gen;

use crate::Words;
use crate::random::Random;

/// One of them.
pub fn encoding(generation: Gen, random: &mut Random) -> Words {
    let mut words = random.words();
    let cdna = generation == Gen::Cdna3;
    match random.below(8) {
        0 => {
            // VOP1.
            let end = if random.one_in(10) { 256 } else { 0x6c };
            let op = random.below(end);
            // Moves of accumulation registers are of another class.
            let op = if cdna && op == 0x52 { 1 } else { op };
            words[0] = 0x7e00_0000 | op << 9 | random.below(256) << 17 | source(random, cdna);
        }
        1 => {
            // VOP2; the opcodes from 0x3e on are VOPC and VOP1.
            let op = random.below(0x3e);
            words[0] = op << 25 | random.bits() & 0x01ff_fe00 | source(random, cdna);
        }
        2 => {
            words[0] = 0x7c00_0000 | random.bits() & 0x01ff_fe00 | source(random, cdna);
        }
        _ => long(generation, random, &mut words),
    }
    // DPP and SDWA words with fields that mean something, mostly.
    if random.one_in(2) {
        words[1 + usize::from(words[0] >> 31 != 0)] &= extra_mask(random);
    }
    if random.one_in(20) {
        // Literals that could be inline constants.
        let at = 1 + usize::from(words[0] >> 31 != 0);
        words[at] = random.pick(&[0, 5, 64, 65, 0xffff_fff0, 0x3c00, 0x3f80_0000, 0x3ff0_0000]);
    }
    let old = matches!(generation, Gen::Rdna2 | Gen::Cdna3);
    if old && matches!(words[0], 0x7e00_00e9 | 0x7e00_00ea | 0x7e00_00fa) {
        // LLVM knows of DPP for v_nop.
        words[0] = 0x7e00_0000;
    }
    let constants = if cdna {
        [0x17, 0x18, 0x24, 0x25]
    } else {
        [0x2c, 0x2d, 0x37, 0x38]
    };
    if constants.contains(&(words[0] >> 25)) && words[1] >> 7 == 1 {
        // LLVM reads the constant of multiply-adds as the code of one, or crashes.
        words[1] |= 0x100;
    }
    if words[0] & 0x1ff == 249 && words[0] >> 31 == 0 {
        // LLVM crashes at parts of dwords that do not exist.
        for (field, bad, good) in [(8, 7, 6), (16, 7, 6), (24, 7, 6), (11, 3, 2)] {
            if words[1] >> field & bad == bad {
                words[1] = words[1] & !(bad << field) | good << field;
            }
        }
    }
    words
}

/// Clears reserved fields of a DPP or SDWA word, more or less.
fn extra_mask(random: &mut Random) -> u32 {
    random.pick(&[
        0xff0d_ffff,
        0xff0f_ffff,
        0xffff_ffff,
        0x2e2e_eeff,
        0x0606_06ff,
        0x3636_36ff,
    ])
}

/// The first source of a short encoding.
fn source(random: &mut Random, cdna: bool) -> u32 {
    match random.below(8) {
        0 => random.below(128),
        1 => 128 + random.below(128),
        2 => random.pick(if cdna {
            &[249, 250]
        } else {
            &[249, 250, 233, 234]
        }),
        3 => random.pick(&[255, 250, 249]),
        _ => 256 + random.below(256),
    }
}

/// A VOP3 encoding.
fn long(generation: Gen, random: &mut Random, words: &mut Words) {
    let cdna = generation == Gen::Cdna3;
    let op = loop {
        let op = random.below(if cdna { 0x380 } else { 0x400 });
        // Interpolation is for graphics only.
        if generation != Gen::Rdna2 || !matches!(op, 0x200..=0x202 | 0x342 | 0x343 | 0x35a) {
            break op;
        }
    };
    let base = if cdna { 0xd000_0000 } else { 0xd400_0000 };
    let few = |random: &mut Random| random.bits() & random.bits() & random.bits();
    let mut w = base | op << 16 | random.below(256) | few(random) & 0xff00;
    // LLVM crashes where CDNA's compares write what is no register.
    if op < 0x100 {
        w &= if cdna { !0x80 } else { !0 };
    }
    let mut x = few(random) & 0xf800_0000;
    for i in 0..3 {
        let code = loop {
            let code = source(random, cdna);
            // LLVM crashes at literals of CDNA here; it only has DPP since RDNA3.
            // Of two instructions of RDNA4 it misreads DPP.
            let misread = generation == Gen::Rdna4 && matches!(op, 0x369 | 0x36a) && code == 250;
            if !(cdna && code == 255 || misread) {
                break code;
            }
        };
        x |= code << (9 * i);
    }
    // LLVM also crashes where CDNA's v_readlane writes to a literal.
    words[0] = if cdna && op == 0x289 { w & !0x80 } else { w };
    words[1] = x;
}
