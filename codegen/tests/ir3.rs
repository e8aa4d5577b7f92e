//! The instruction set of Adreno 6xx, beside Mesa's disassembler and by itself.
//!
//! `tests/golden/ir3` has what Mesa prints for some words; `scripts/ir3` writes more of them into `target/ir3`.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use codegen::ir3::{self, DecodeError, Inst, Type};
use proptest::prelude::*;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A word and what Mesa prints for it; nothing if Mesa reports an error.
struct Line {
    word: u64,
    text: String,
    /// Whether it is of a compiled kernel.
    compiled: bool,
}

fn lines(text: &str) -> Vec<Line> {
    let mut found = Vec::new();
    let mut compiled = false;
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix('#') {
            compiled = comment == " kernels";
            continue;
        }
        let (word, text) = line.split_once(' ').unwrap_or((line, ""));
        found.push(Line {
            word: u64::from_str_radix(word, 16).unwrap(),
            text: text.trim_end().to_owned(),
            compiled,
        });
    }
    found
}

fn golden(name: &str) -> Vec<Line> {
    let path = root().join("tests/golden/ir3").join(name);
    lines(&std::fs::read_to_string(path).unwrap())
}

/// Whether a text gives back its word: `%f` does not show all bits of a float.
fn is_exact(inst: &Inst) -> bool {
    let float = matches!(inst.mods.src_ty, Some(Type::F16 | Type::F32));
    !(float
        && inst
            .srcs
            .iter()
            .any(|s| matches!(s.value, ir3::Value::Imm(_))))
}

#[derive(Debug, Default)]
struct Counts {
    same: usize,
    refused: usize,
    hidden: usize,
    value: usize,
}

/// What differs from Mesa for a word.
fn compare(line: &Line, counts: &mut Counts) -> Result<(), String> {
    let word = line.word;
    let decoded = ir3::decode(word);
    if line.text.is_empty() {
        counts.refused += 1;
        return match decoded {
            // Mesa has no text for brax.
            Ok(inst) if inst.op == ir3::Op::Brax => Ok(()),
            Ok(inst) => Err(format!("{word:016x}: Mesa refuses {inst}")),
            Err(_) => Ok(()),
        };
    }
    let inst = match decoded {
        Ok(inst) => inst,
        // What the text does not show is not for the decoder; with the bits as the encoder has them, the text is the same.
        Err(DecodeError::Hidden { bits, .. }) if !line.compiled => {
            counts.hidden += 1;
            let shown = ir3::decode(word ^ bits).map(|inst| inst.to_string());
            if shown.as_ref() != Ok(&line.text) {
                return Err(format!(
                    "{word:016x}: {shown:?} without hidden bits, Mesa: {}",
                    line.text
                ));
            }
            return Ok(());
        }
        // Mesa prints the number of a value that has no name.
        Err(DecodeError::Value { value, .. })
            if !line.compiled && line.text.contains(&value.to_string()) =>
        {
            counts.value += 1;
            return Ok(());
        }
        Err(error) => return Err(format!("{error}; Mesa: {}", line.text)),
    };
    let text = inst.to_string();
    if text != line.text {
        return Err(format!("{word:016x}: {text}; Mesa: {}", line.text));
    }
    let back = ir3::encode_any(&inst);
    if back != Ok(word) {
        return Err(format!("{word:016x}: {text} gives {back:x?}"));
    }
    let parsed: Inst = text
        .parse()
        .map_err(|error| format!("{word:016x}: {error}"))?;
    if is_exact(&inst) && parsed != inst {
        return Err(format!(
            "{word:016x}: {text} gives {parsed:?}, not {inst:?}"
        ));
    }
    if parsed.to_string() != text {
        return Err(format!("{word:016x}: {text} gives {parsed}"));
    }
    if line.compiled {
        ir3::encode(&inst).map_err(|error| format!("{text}: {error}"))?;
    }
    counts.same += 1;
    Ok(())
}

fn compare_all(lines: &[Line]) -> Counts {
    let mut counts = Counts::default();
    let wrong = lines
        .iter()
        .filter_map(|line| compare(line, &mut counts).err());
    let wrong: Vec<_> = wrong.collect();
    let shown = wrong
        .iter()
        .take(40)
        .map(String::as_str)
        .collect::<Vec<_>>();
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        shown.join("\n")
    );
    counts
}

#[test]
fn known_words() {
    let lines = golden("words.txt");
    assert_eq!(lines.len(), 58);
    for line in &lines {
        let inst = ir3::decode(line.word).unwrap();
        assert_eq!(inst.to_string(), line.text);
        assert_eq!(ir3::encode(&inst), Ok(line.word));
        assert_eq!(line.text.parse::<Inst>().unwrap(), inst);
    }
}

#[test]
fn recorded_words() {
    let counts = compare_all(&golden("a6xx.txt"));
    println!("{counts:?}");
    assert!(counts.same > 400 && counts.refused > 50 && counts.hidden > 0);
}

#[test]
fn words_of_this_machine() {
    let path = root().join("target/ir3/a6xx.txt");
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!(
            "no {}: scripts/fetch ir3 foreign-amd; scripts/ir3",
            path.display()
        );
        return;
    };
    let counts = compare_all(&lines(&text));
    println!("{counts:?}");
    assert!(counts.same > 10_000);
}
