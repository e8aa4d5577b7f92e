//! Everything in compiled kernels, one instruction after the other.

use object::{Object, ObjectSection};
use twin_shader::isa::{self, Gen};

use crate::compare_words;

#[path = "../kernels/machine.rs"]
#[allow(dead_code)]
mod machine;

const SOURCE: &str = include_str!("../kernels/kernels.c");

/// The instructions of `.text`, each with what follows it.
fn instructions(generation: Gen, flags: &[&str]) -> Vec<[u32; 5]> {
    let image = machine::compile(generation, "c", SOURCE, flags);
    let file = object::File::parse(&*image).unwrap();
    let text = file.section_by_name(".text").unwrap();
    let words: Vec<u32> = text
        .data()
        .unwrap()
        .chunks_exact(4)
        .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
        .collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        found.push(std::array::from_fn(|i| {
            words.get(at + i).copied().unwrap_or(0)
        }));
        // What is padding, or unknown to us, is a word; what is unknown will differ.
        at += isa::decode(generation, &words[at..]).map_or(1, |d| d.words);
    }
    found
}

#[test]
fn compiled_kernels_read_the_same() {
    for generation in Gen::ALL {
        for level in ["-O0", "-O1", "-O3"] {
            let found = instructions(generation, &[level]);
            assert!(found.len() > 500, "{} instructions", found.len());
            compare_words(generation, found.into_iter());
        }
    }
}
