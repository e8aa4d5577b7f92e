//! Random encodings of SOP1, SOP2, SOPC, SOPK, SOPP and SMEM.

use twin_shader::isa::Gen;

use crate::Words;
use crate::random::Random;

/// One of them.
pub fn encoding(generation: Gen, random: &mut Random) -> Words {
    let mut words = random.words();
    let prefix = |word: u32, prefix: u32, bits: u32| word >> bits | prefix << (32 - bits);
    words[0] = match random.below(6) {
        0 => prefix(words[0], 0b10, 2),
        1 => prefix(words[0], 0b1011, 4),
        2 => {
            let word = prefix(words[0], 0b1_0111_1101, 9);
            // LLVM 22 crashes on a literal in place of a barrier's number.
            let barrier = generation == Gen::Rdna4 && (0x4e..0x53).contains(&(word >> 8 & 0xff));
            if barrier { word & !0x80 } else { word }
        }
        3 => prefix(words[0], 0b1_0111_1110, 9),
        4 => prefix(words[0], 0b1_0111_1111, 9),
        _ => match generation {
            Gen::Cdna3 => prefix(words[0], 0b110_000, 6),
            _ => prefix(words[0], 0b111_101, 6),
        },
    };
    words
}
