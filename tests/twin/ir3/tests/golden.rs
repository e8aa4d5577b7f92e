//! The decoder against words whose text Mesa printed: it takes what the assembler of the compiler, which was checked
//! against that text, takes, and sees the same operation, operands and modifiers.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;

use codegen::ir3 as other;
use codegen::ir3::Flags;
use twin_ir3::inst::{Inst, Operand, Value};
use twin_ir3::{Op, decode};

fn lines() -> Vec<(u64, Option<String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/ir3");
    let mut all = Vec::new();
    for name in ["words.txt", "a6xx.txt"] {
        let text = std::fs::read_to_string(root.join(name)).unwrap();
        for line in text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty())
        {
            let word = u64::from_str_radix(&line[..16], 16).unwrap();
            let text = line[16..].trim();
            all.push((word, (!text.is_empty()).then(|| text.to_owned())));
        }
    }
    assert!(all.len() > 700);
    all
}

fn value(value: other::Value) -> Value {
    match value {
        other::Value::Reg(reg) => Value::Reg(reg.0),
        other::Value::Const(at) => Value::Const(at),
        other::Value::RelReg(at) => Value::RelReg(at),
        other::Value::RelConst(at) => Value::RelConst(at),
        other::Value::A1Const(at) => Value::A1Const(at),
        other::Value::Imm(value) => Value::Imm(value as u32),
        other::Value::Float(entry) => Value::Float(entry),
    }
}

fn operands(theirs: &[other::Operand]) -> Vec<Operand> {
    let one = |o: &other::Operand| Operand {
        value: value(o.value),
        half: o.half,
        neg: o.neg,
        abs: o.abs,
        advances: o.advances,
        last: o.last,
    };
    theirs.iter().map(one).collect()
}

/// Registers of data that Mesa shows as full ones though the type has 16 bits: local memory, and stores of private
/// memory. Mesa's compiler takes half registers for them.
fn shown_full(op: Op) -> bool {
    matches!(op, Op::Ldl | Op::Stl | Op::Stp | Op::Ldlw | Op::Stlw)
}

/// The mnemonic; the text of ldc.k has its count before the k.
fn name(op: other::Op) -> &'static str {
    match op {
        other::Op::LdcK => "ldc.k",
        op => op.name(),
    }
}

fn compare(word: u64, ours: &Inst, theirs: &other::Inst) {
    let text = theirs.to_string();
    assert_eq!(ours.op.name(), name(theirs.op), "{word:016x} {text}");
    let mut ours = ours.clone();
    if shown_full(ours.op) {
        ours.dsts
            .iter_mut()
            .chain(&mut ours.srcs)
            .for_each(|operand| operand.half = false);
    }
    assert_eq!(ours.dsts, operands(&theirs.dsts), "{word:016x} {text}");
    assert_eq!(ours.srcs, operands(&theirs.srcs), "{word:016x} {text}");
    assert_eq!(
        (ours.repeat, ours.nop),
        (theirs.repeat, theirs.nop),
        "{word:016x} {text}"
    );
    let (marks, mods) = (ours.marks, ours.mods);
    let flags = [
        (marks.sy, Flags::SY),
        (marks.ss, Flags::SS),
        (marks.jp, Flags::JP),
        (marks.eq, Flags::EQ),
        (marks.ul, Flags::UL),
        (marks.sat, Flags::SAT),
        (marks.ei, Flags::EI),
        (mods.d3, Flags::D3),
        (mods.array, Flags::ARRAY),
        (mods.offsets, Flags::OFFSET),
        (mods.project, Flags::PROJECT),
        (mods.compare, Flags::COMPARE),
        (mods.d1, Flags::D1),
        (mods.uniform, Flags::UNIFORM),
        (mods.typed, Flags::TYPED),
        (mods.global, Flags::GLOBAL),
        (mods.local, Flags::LOCAL),
        (mods.read, Flags::READ),
        (mods.write, Flags::WRITE),
        (mods.long, Flags::LONG),
        (mods.all, Flags::ALL),
        (mods.mixed, Flags::MIXED),
        (mods.high, Flags::HIGH),
    ];
    for (ours, flag) in flags {
        assert_eq!(ours, theirs.flags.has(flag), "{word:016x} {text}: {flag:?}");
    }
    let other = theirs.mods;
    // Where the text has no type but a size, the other decoder has the float of that size.
    assert_eq!(
        mods.ty.map(|v| v as u8),
        other.ty.map(|v| v as u8),
        "{word:016x} {text}"
    );
    assert_eq!(
        mods.src_ty.map(|v| v as u8),
        other.src_ty.map(|v| v as u8),
        "{word:016x} {text}"
    );
    assert_eq!(
        mods.cond.map(|v| v as u8),
        other.cond.map(|v| v as u8),
        "{word:016x} {text}"
    );
    assert_eq!(
        mods.round.map_or(0, |v| v as u8),
        other.round as u8,
        "{word:016x} {text}"
    );
    assert_eq!(
        mods.mode.map(|v| v as u8),
        other.mode.map(|v| v as u8),
        "{word:016x} {text}"
    );
    assert_eq!(
        mods.desc.map(|v| v as u8),
        other.desc.map(|v| v as u8),
        "{word:016x} {text}"
    );
    assert_eq!(
        mods.shuffle.map(|v| v as u8),
        other.shuffle.map(|v| v as u8),
        "{word:016x} {text}"
    );
    let numbers =
        |mask: u8, dims: u8, count: u16, offset: i32, shift: u8| (mask, dims, count, offset, shift);
    assert_eq!(
        numbers(mods.mask, mods.dims, mods.count, mods.offset, mods.shift),
        numbers(
            other.mask,
            other.dims,
            other.count,
            other.offset,
            other.shift
        ),
        "{word:016x} {text}"
    );
    assert_eq!(
        (
            mods.base,
            mods.sampler,
            mods.texture,
            mods.width,
            mods.index
        ),
        (
            other.base,
            other.sampler,
            other.texture,
            other.width,
            other.index
        ),
        "{word:016x} {text}"
    );
}

/// What Mesa's compiler writes behind prede, and Mesa's disassembler has no text for.
fn has_no_text(inst: &Inst) -> bool {
    inst.op == Op::Nop && inst.repeat == 6
}

#[test]
fn the_decoder_sees_what_mesa_shows() {
    let mut seen = BTreeSet::new();
    let mut refused = 0;
    for (word, text) in lines() {
        match (decode(word), other::decode(word)) {
            (Ok(ours), Ok(theirs)) => {
                assert!(
                    text.is_some() || theirs.op == other::Op::Brax,
                    "{word:016x}"
                );
                compare(word, &ours, &theirs);
                seen.insert(ours.op.name());
            }
            (Err(_), Err(_)) => refused += 1,
            (Ok(ours), Err(_)) if has_no_text(&ours) => refused += 1,
            (ours, theirs) => panic!("{word:016x} {text:?}: {ours:?} {theirs:?}"),
        }
    }
    assert!(refused > 100, "{refused}");
    // Reserved modes of shfl are the only ones that have words and no meaning.
    let missing: Vec<_> = Op::ALL
        .iter()
        .map(|op| op.name())
        .filter(|name| !seen.contains(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn both_have_the_same_operations() {
    let ours: BTreeSet<_> = Op::ALL
        .iter()
        .map(|op| (op.category(), op.name()))
        .collect();
    let theirs: BTreeSet<_> = other::Op::ALL
        .iter()
        .map(|op| (op.category(), name(*op)))
        .collect();
    assert_eq!(ours, theirs);
}

/// Whether an operand is r63.
fn discards(operand: &Operand) -> bool {
    matches!(operand.value, Value::Reg(number) if number >= 63 << 2)
}

/// Single bits of every word: the two agree on what is reserved.
#[test]
fn they_agree_on_reserved_bits() {
    let mut checked = 0;
    for (word, _) in lines() {
        if other::decode(word).is_err() {
            continue;
        }
        for bit in 0..64 {
            let word = word ^ 1 << bit;
            match (decode(word), other::decode(word)) {
                (Ok(ours), Ok(theirs)) => compare(word, &ours, &theirs),
                (Err(_), Err(_)) => {}
                (Ok(ours), Err(_)) if has_no_text(&ours) => {}
                // The size of what is discarded has no text: the other decoder takes the one that its encoder writes.
                (Ok(ours), Err(other::DecodeError::Hidden { bits, .. }))
                    if bits == 1 << 46 && ours.dsts.iter().any(discards) => {}
                (ours, theirs) => panic!("{word:016x}: {ours:?} {theirs:?}"),
            }
            checked += 1;
        }
    }
    assert!(checked > 10_000, "{checked}");
}
