//! The instruction set of Adreno 6xx, beside Mesa's disassembler and by itself.
//!
//! `tests/golden/ir3` has what Mesa prints for some words; `scripts/ir3` writes more of them into `target/ir3`.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use codegen::ir3::{self, DecodeError, EncodeError, Flags, Inst, Op, Operand, Part, Reg, Type};
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
            compiled = matches!(comment, " kernels" | " suite");
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

/// Where Mesa's text depends on bits that it does not show: on .o of a quad shuffle, and on the repetition of a dot
/// product. Such words are refused.
const UNSHOWN: [(&str, u64); 2] = [("quad_shuffle.", 1 << 52), ("acc.", 3 << 40)];

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
            let mut unshown = UNSHOWN.iter();
            let known = unshown.any(|(name, of)| line.text.contains(name) && bits & of != 0);
            if shown.as_ref() != Ok(&line.text) && !known {
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
    assert!(counts.same > 300 && counts.refused > 50 && counts.hidden > 0);
}

/// Each operation is among the recorded ones.
#[test]
fn all_operations_are_recorded() {
    let words = golden("a6xx.txt");
    let decoded = words.iter().filter(|line| !line.text.is_empty());
    let ops: BTreeSet<Op> = decoded
        .filter_map(|line| Some(ir3::decode(line.word).ok()?.op))
        .collect();
    let missing: Vec<_> = Op::ALL.iter().filter(|op| !ops.contains(op)).collect();
    // Mesa has no text for brax.
    assert_eq!(missing, [&Op::Brax]);
}

/// `scripts/ir3 --test` writes the file and runs this.
#[test]
#[ignore = "needs what scripts/ir3 --test writes"]
fn words_of_this_machine() {
    let path = root().join("target/ir3/a6xx.txt");
    let text = std::fs::read_to_string(&path);
    let text = text.unwrap_or_else(|e| panic!("{}: {e}; run scripts/ir3 --test", path.display()));
    for section in ["# kernels", "# suite", "# changed"] {
        assert!(text.lines().any(|line| line == section), "no {section}");
    }
    let counts = compare_all(&lines(&text));
    println!("{counts:?}");
    assert!(counts.same > 10_000);
}

/// Operands that have an encoding, and that the hardware does not take.
#[test]
fn rules_of_operands() {
    let wrong = [
        "add.s r0.x, c0.x, c1.x",
        "add.s r0.x, c0.x, r48.x",
        "add.s r0.x, r48.x, r49.x",
        "add.s r0.x, c<a0.x + 1>, c1.x",
        "add.f r0.x, (1.0), (2.0)",
        "add.s r0.x, 1, 2",
        "add.s r0.x, r1.x, 512",
        "add.s r0.x, r1.x, -512",
        "add.s r0.x, (neg)r1.x, r0.y",
        "shl.b r0.x, (abs)r1.x, r0.y",
        "mull.u r0.x, r1.x, (neg)r0.y",
        "add.f r0.x, r1.x, h(1.0)",
        "add.s r48.x, r0.x, 1",
        "add.f hr48.x, hr60.x, hr0.x",
        "add.f r58.x, r0.x, r1.x",
        "mad.f32 r0.x, r1.x, r48.x, r2.x",
        "mad.s24 r0.x, (neg)r1.x, r2.x, r3.x",
        "mad.f32 r48.x, r49.x, r0.x, r50.x",
        "sel.b32 r0.x, r1.x, r2.x, (neg)r3.x",
        "rcp r0.x, c0.x",
        "rcp r0.x, (2.0)",
        "(rpt1)rcp r0.x, (r)r1.x",
        "mov.u32u32 r<a0.x + 1>, r<a0.x + 2>",
        "cov.f32u32 r48.x, r0.x",
        "ldc.offset0.1.imm r48.x, 0, 1",
        "ldc.u.offset0.1.imm r0.x, 0, 1",
    ];
    for text in wrong {
        let inst: Inst = text.parse().unwrap();
        assert!(ir3::encode_any(&inst).is_ok(), "{text}");
        let found = ir3::encode(&inst);
        assert!(
            matches!(found, Err(EncodeError::Illegal { .. })),
            "{text}: {found:x?}"
        );
    }
    let right = [
        "add.s r0.x, c0.x, 5",
        "add.s r0.x, r1.x, -511",
        "add.s r48.x, c0.x, r49.x",
        "add.f r0.x, (absneg)r1.x, (1.0)",
        "add.f hr0.x, hr1.x, h(1.0)",
        "and.b r0.x, (neg)r1.x, r0.y",
        "absneg.s r0.x, (abs)r1.x",
        "mad.f32 r0.x, c1.x, r2.x, (neg)c3.x",
        "shrg r0.w, 30, r0.w, r1.x",
        "(rpt3)exp2 r4.x, (r)r3.x",
        "mov.u32u32 r<a0.x + 1>, c0.x",
        "movs.u32u32 r48.x, r0.x, a0.x",
        "ldc.u.offset0.1.imm r48.x, 0, 1",
    ];
    for text in right {
        let inst: Inst = text.parse().unwrap();
        let word = ir3::encode(&inst).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(ir3::decode(word).unwrap().to_string(), text);
    }
}

/// Instructions that have no encoding, and the reason.
#[test]
fn what_has_no_encoding() {
    let r = |number| Operand::reg(Reg::r(number, 0));
    let add = || Inst::new(Op::AddS).dst(r(0)).src(r(1)).src(r(2));
    assert_eq!(ir3::encode(&add()), Ok(0x4230_0000_0008_0004));
    let op = Op::AddS;
    let part = Part::Src(1);
    let missing = Inst::new(op).dst(r(0)).src(r(1));
    assert_eq!(
        ir3::encode(&missing),
        Err(EncodeError::Operand { op, part })
    );
    // A source of another size than the first.
    let mut inst = add();
    inst.srcs[1].half = true;
    assert_eq!(
        ir3::encode(&inst),
        Err(EncodeError::Unencodable { op, part })
    );
    let inst = add().src(r(3));
    let part = Part::Src(2);
    assert_eq!(
        ir3::encode(&inst),
        Err(EncodeError::Unencodable { op, part })
    );
    let mut inst = add();
    inst.mods.offset = 4;
    let part = Part::Mods;
    assert_eq!(
        ir3::encode(&inst),
        Err(EncodeError::Unencodable { op, part })
    );
    let mut inst = add();
    inst.flags |= Flags::TYPED;
    let part = Part::Flags;
    assert_eq!(
        ir3::encode(&inst),
        Err(EncodeError::Unencodable { op, part })
    );
    let mut inst = add();
    inst.repeat = 4;
    assert!(matches!(
        ir3::encode(&inst),
        Err(EncodeError::Range { value: 4, .. })
    ));
    let inst = add().src(r(3));
    assert!(ir3::encode(&inst).is_err());
    let inst = Inst::new(Op::CmpsS).dst(r(0)).src(r(1)).src(r(2));
    assert!(matches!(
        ir3::encode(&inst),
        Err(EncodeError::Missing {
            field: "condition",
            ..
        })
    ));
    let inst = Inst::new(Op::MadF32)
        .dst(r(0))
        .src(r(1))
        .src(Operand::constant(0, 0))
        .src(r(2));
    let (op, part) = (Op::MadF32, Part::Src(1));
    assert_eq!(ir3::encode(&inst), Err(EncodeError::Operand { op, part }));
    let mut inst = Inst::new(Op::Stg).src(r(0)).src(r(1));
    (inst.mods.ty, inst.mods.count, inst.mods.offset) = (Some(Type::F32), 4, 4096);
    assert!(matches!(ir3::encode(&inst), Err(EncodeError::Range { .. })));
    inst.mods.offset = -4096;
    assert_eq!(
        ir3::decode(ir3::encode(&inst).unwrap())
            .unwrap()
            .to_string(),
        "stg.f32 g[r0.x-4096], r1.x, 4"
    );
}

/// Errors of the parser say where.
#[test]
fn errors_of_the_parser() {
    let error = |text: &str| text.parse::<Inst>().unwrap_err().to_string();
    assert_eq!(error("frob r0.x"), "\"frob r0.x\": unknown mnemonic");
    assert_eq!(
        error("add.s r0.x, r1.x"),
        "\"add.s r0.x, r1.x\": expected ,  at character 16"
    );
    assert_eq!(
        error("add.s r0.x, r64.x, 1"),
        "\"add.s r0.x, r64.x, 1\": expected a register at character 12"
    );
    assert_eq!(
        error("mad.f32 r0.x, r1.x, c0.x, r0.x"),
        "\"mad.f32 r0.x, r1.x, c0.x, r0.x\": mad.f32: Src(1) is missing or of a kind that does not fit there"
    );
}

/// A float that `%f` does not show in full can be given by its bits.
#[test]
fn floats_by_their_bits() {
    for (text, bits) in [
        ("mov.f32f32 r0.x, (0x00000001)", 1),
        ("mov.f32f32 r0.x, (1.0)", 0x3f80_0000),
    ] {
        let inst: Inst = text.parse().unwrap();
        assert_eq!(ir3::encode(&inst).unwrap() & 0xffff_ffff, bits);
    }
}

/// Words with a text.
fn known_words_of_each() -> Vec<u64> {
    golden("a6xx.txt")
        .iter()
        .filter(|l| !l.text.is_empty())
        .map(|l| l.word)
        .collect()
}

/// What holds of each word.
fn check(word: u64) {
    let Ok(inst) = ir3::decode(word) else {
        return;
    };
    assert_eq!(ir3::encode_any(&inst), Ok(word), "{inst}");
    // The legal ones are the same words.
    if let Ok(legal) = ir3::encode(&inst) {
        assert_eq!(legal, word);
    }
    let text = inst.to_string();
    let parsed: Inst = text
        .parse()
        .unwrap_or_else(|error| panic!("{word:016x}: {error}"));
    assert_eq!(parsed.to_string(), text);
    if is_exact(&inst) {
        assert_eq!(parsed, inst, "{text}");
        assert_eq!(ir3::encode_any(&parsed), Ok(word));
    }
}

/// Random words, sparse and dense.
fn words() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        (any::<u64>(), any::<u64>()).prop_map(|(a, b)| a & b),
        (any::<u64>(), any::<u64>()).prop_map(|(a, b)| a | b),
    ]
}

/// Known words with other bits: nearer to instructions than random ones.
fn changed() -> impl Strategy<Value = u64> {
    let known = prop::sample::select(known_words_of_each());
    (known, prop::collection::vec(0..64u32, 0..12))
        .prop_map(|(word, bits)| bits.into_iter().fold(word, |word, bit| word ^ 1 << bit))
}

fn value() -> impl Strategy<Value = ir3::Value> {
    prop_oneof![
        any::<u8>().prop_map(|reg| ir3::Value::Reg(ir3::Reg(reg))),
        (0..2100u16).prop_map(ir3::Value::Const),
        (-600..600i16).prop_map(ir3::Value::RelReg),
        (-600..600i16).prop_map(ir3::Value::RelConst),
        any::<u8>().prop_map(ir3::Value::A1Const),
        prop_oneof![any::<i32>(), -600..600].prop_map(ir3::Value::Imm),
        (0..20u8).prop_map(ir3::Value::Float),
    ]
}

fn operand() -> impl Strategy<Value = ir3::Operand> {
    (value(), any::<[bool; 5]>()).prop_map(|(value, [half, neg, abs, advances, last])| {
        ir3::Operand {
            value,
            half,
            neg,
            abs,
            advances,
            last,
        }
    })
}

/// Instructions of each row, with parts exchanged.
fn instructions() -> impl Strategy<Value = Inst> {
    let numbers = (any::<u16>(), any::<i32>(), 0..8u8, 0..5u8, any::<u8>());
    let change = (0..9u8, operand(), 0..4usize, numbers);
    (changed(), prop::collection::vec(change, 0..3)).prop_map(|(word, changes)| {
        let inst = ir3::decode(word);
        let mut inst =
            inst.unwrap_or_else(|_| Inst::new(ir3::Op::ALL[word as usize % ir3::Op::ALL.len()]));
        for (what, operand, at, (count, offset, repeat, dims, index)) in changes {
            match what {
                0 | 1 if at < inst.srcs.len() => inst.srcs[at] = operand,
                0 => inst.srcs.push(operand),
                2 if at < inst.dsts.len() => inst.dsts[at] = operand,
                2 | 3 => inst.dsts.push(operand),
                4 => inst.mods.count = count,
                5 => inst.mods.offset = offset >> (count % 32),
                6 => (inst.repeat, inst.nop) = (repeat, dims),
                7 => inst.mods.dims = dims,
                _ => (inst.mods.index, inst.mods.base) = (index, Some(repeat)),
            }
        }
        inst
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    #[test]
    fn random_words(word in words()) {
        check(word);
    }

    #[test]
    fn changed_words(word in changed()) {
        check(word);
    }

    #[test]
    fn what_is_encoded_is_decoded(inst in instructions()) {
        // Printing takes anything.
        let _ = inst.to_string();
        if let Ok(word) = ir3::encode_any(&inst) {
            // Of words that could be two instructions none is decoded.
            match ir3::decode(word) {
                Ok(back) => prop_assert_eq!(back, inst),
                Err(error) => prop_assert!(matches!(error, DecodeError::Unknown { .. }), "{}", error),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn parsing_takes_any_text(text in "[(]?[a-z]{2,4}[0-9a-z.()<>+#, -]{0,30}") {
        let _ = text.parse::<Inst>();
    }
}

/// Each line of Mesa, with characters left out or exchanged.
#[test]
fn parsing_takes_damaged_text() {
    for line in golden("a6xx.txt") {
        for at in 0..line.text.len() {
            let (before, after) = line.text.split_at(at);
            let _ = before.parse::<Inst>();
            let _ = format!("{before}{}", &after[1..]).parse::<Inst>();
            let _ = format!("{before}({after}").parse::<Inst>();
        }
    }
}
