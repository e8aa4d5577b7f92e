//! Random encodings of this class.

use twin_shader::isa::Gen;

use crate::Words;
use crate::random::Random;

/// One of them.
pub fn encoding(generation: Gen, random: &mut Random) -> Words {
    let mut words = random.words();
    let format = random.below(if generation == Gen::Rdna4 { 5 } else { 6 });
    // The top bits of a format: their value, and how many they are.
    let (top, width) = match (format, generation) {
        (0, _) => (0b11_0110, 6),
        (1..4, Gen::Rdna4) => (0b1110_1100 + format - 1, 8),
        (_, Gen::Rdna4) => (0b11_0001, 6),
        (1..4, _) => (0b11_0111, 6),
        (4, _) => (0b11_1000, 6),
        _ => (0b11_1010, 6),
    };
    words[0] = words[0] << width >> width | top << (32 - width);
    // LLVM wants 0 in the registers that an instruction of DS does not use.
    if format == 0 {
        for byte in 0..4 {
            if random.one_in(2) {
                words[1] &= !(255 << (8 * byte));
            }
        }
        if random.one_in(8) {
            words[0] &= !0xffff;
        }
    }
    let off = match generation {
        Gen::Rdna2 => 0x7d,
        Gen::Rdna3 | Gen::Rdna4 => 0x7c,
        Gen::Cdna3 => 0x7f,
    };
    if (1..4).contains(&format) {
        match (generation, random.below(4)) {
            (_, 0) => {}
            // No SADDR, and no VADDR beside it.
            (Gen::Rdna4, n) => {
                words[0] = words[0] & !0x7f | off;
                words[1] &= !(u32::from(n > 1) << 17);
            }
            (Gen::Cdna3, 1) => words[1] &= !(0x7f << 16),
            (_, n) => {
                let sve = u32::from(n > 1) << 23;
                words[1] = words[1] & !(0x7f << 16) & !sve | off << 16;
            }
        }
    }
    // Flags that few instructions have.
    if random.one_in(2) {
        match (format, generation) {
            (4.., Gen::Rdna2) => words[1] &= !(1 << 23),
            (4.., Gen::Rdna3) => words[1] &= !(1 << 21),
            (4.., Gen::Rdna4) => {
                words[0] &= !(1 << 22);
                words[1] &= !(3 << 16);
                words[2] &= !(1 << 31);
            }
            _ => {}
        }
    }
    if random.one_in(2) {
        match (format, generation) {
            (1..4, Gen::Rdna2) => {
                words[0] &= !(1 << 13);
                words[1] &= !(1 << 23);
            }
            (1..4, Gen::Cdna3) => words[0] &= !(3 << 12),
            (4, Gen::Rdna2 | Gen::Cdna3) => words[0] &= !(1 << 16),
            _ => {}
        }
    }
    // A literal after the instruction makes LLVM 22 crash for CDNA3.
    if format >= 4 && generation == Gen::Cdna3 && words[1] >> 24 == 255 {
        words[1] -= 1 << 24;
    }
    words
}
