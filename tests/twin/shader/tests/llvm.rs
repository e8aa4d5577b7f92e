//! The decoder against LLVM's: random encodings of each class of instructions must give the same
//! text and the same length, or be invalid to both.
//!
//! `DOORBELL_ENCODINGS` sets how many encodings are tried per class and generation.

#![allow(clippy::unwrap_used)] // A test may panic.

#[path = "llvm/disassembler.rs"]
mod disassembler;
#[path = "llvm/random.rs"]
mod random;

#[path = "llvm/kernels.rs"]
mod kernels;
#[path = "llvm/memory.rs"]
mod memory;
#[path = "llvm/packed.rs"]
mod packed;
#[path = "llvm/scalar.rs"]
mod scalar;
#[path = "llvm/vector.rs"]
mod vector;

use std::collections::BTreeMap;
use std::fmt::Write;

use disassembler::Disassembler;
use random::Random;
use twin_shader::isa::{self, Gen};

/// As many words as the longest instruction.
type Words = [u32; 5];

/// How many encodings are tried per class and generation, unless told otherwise.
const ENCODINGS: usize = 60_000;

/// How many differences are shown; a mnemonic shows at most [`OF_ONE`].
const SHOWN: usize = 40;
const OF_ONE: usize = 3;

/// Tries random encodings of a class.
fn compare(generation: Gen, encoding: fn(Gen, &mut Random) -> Words) {
    let count = std::env::var("DOORBELL_ENCODINGS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(ENCODINGS);
    let mut random = Random::new(generation as u64 + 1);
    compare_words(
        generation,
        (0..count).map(|_| encoding(generation, &mut random)),
    );
}

/// Names EXEC as the destination of comparisons that write it. Where VOP3 names another, LLVM warns and
/// goes on, but its C interface says the same as of what is no instruction.
fn with_exec(generation: Gen, mut words: Words) -> Words {
    let op = words[0] >> 16 & 0x3ff;
    let compares = match generation {
        Gen::Cdna3 => false,
        Gen::Rdna2 => op < 0x100 && op & 0x10 != 0,
        Gen::Rdna3 | Gen::Rdna4 => (0x80..0x100).contains(&op),
    };
    if compares && words[0] >> 26 == 0x35 {
        words[0] = words[0] & !0xff | 126;
    }
    words
}

/// Compares what LLVM and we make of each encoding; fails with a list of what differs.
fn compare_words(generation: Gen, encodings: impl Iterator<Item = Words>) {
    let llvm = Disassembler::new(generation);
    // By LLVM's mnemonic: how many differ, and the first few of them.
    let mut differ: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
    let (mut valid, mut total) = (0, 0);
    for words in encodings {
        let theirs = llvm.text(&with_exec(generation, words));
        let ours = isa::decode(generation, &words)
            .map(|d| (d.inst.to_string().trim_end().to_owned(), d.words));
        total += 1;
        valid += usize::from(theirs.is_some());
        if ours == theirs {
            continue;
        }
        let show = |t: &Option<(String, usize)>| match t {
            Some((text, length)) => format!("{text}  [{length} dwords]"),
            None => "invalid".to_owned(),
        };
        let key = theirs
            .as_ref()
            .or(ours.as_ref())
            .and_then(|(text, _)| text.split(' ').next())
            .unwrap_or_default()
            .to_owned();
        let entry = differ.entry(key).or_default();
        entry.0 += 1;
        if entry.1.len() < OF_ONE {
            let words = words.map(|w| format!("{w:08x}")).join(" ");
            entry.1.push(format!(
                "  {words}\n    LLVM {}\n    ours {}",
                show(&theirs),
                show(&ours)
            ));
        }
    }
    println!("{generation:?}: {total} encodings, {valid} valid");
    if differ.is_empty() {
        return;
    }
    let count: usize = differ.values().map(|d| d.0).sum();
    let mut list = format!(
        "{generation:?}: {count} of {total} encodings differ ({valid} valid), {} mnemonics:\n",
        differ.len()
    );
    let mut shown = 0;
    for (mnemonic, (count, examples)) in &differ {
        if shown >= SHOWN {
            let _ = writeln!(list, "and more:");
            let names: Vec<&str> = differ.keys().map(String::as_str).collect();
            let _ = writeln!(list, "{}", names.join(" "));
            break;
        }
        let _ = writeln!(list, "{mnemonic}: {count}");
        for example in examples {
            let _ = writeln!(list, "{example}");
            shown += 1;
        }
    }
    panic!("{list}");
}

/// A test per class and generation.
macro_rules! tests {
    ($($class:ident)*) => {$(
        mod $class {
            use super::super::{compare, $class::encoding};
            use twin_shader::isa::Gen;

            #[test]
            fn rdna2() { compare(Gen::Rdna2, encoding); }
            #[test]
            fn rdna3() { compare(Gen::Rdna3, encoding); }
            #[test]
            fn rdna4() { compare(Gen::Rdna4, encoding); }
            #[test]
            fn cdna3() { compare(Gen::Cdna3, encoding); }
        }
    )*};
}

mod random_encodings {
    tests!(scalar vector packed memory);
}

/// `DOORBELL_WORDS="bf810000 ..."` prints what LLVM and we say about these words in every generation:
/// a tool for whoever works on a table.
#[test]
fn say() {
    let Ok(text) = std::env::var("DOORBELL_WORDS") else {
        return;
    };
    let mut words: Words = [0; 5];
    for (to, from) in words.iter_mut().zip(text.split_whitespace()) {
        *to = u32::from_str_radix(from, 16).unwrap();
    }
    for generation in Gen::ALL {
        println!(
            "{generation:?}\n  LLVM {:?}\n  ours {:?}",
            Disassembler::new(generation).text(&words),
            isa::decode(generation, &words).map(|d| (d.inst.to_string(), d.words))
        );
    }
}
