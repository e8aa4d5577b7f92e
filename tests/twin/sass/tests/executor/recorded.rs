//! An encoding of each operation with the texts of NVIDIA's disassembler, which lie in
//! `tests/golden/sass`. All of them must be known.

use crate::compare;

use std::path::Path;

use twin_sass::{Chip, Error, Kind, Role, decode};

#[test]
fn texts() {
    for chip in Chip::ALL {
        let name = format!("../../golden/sass/{}.txt", chip.name());
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let lines = std::fs::read_to_string(&path).unwrap();
        assert!(lines.lines().count() > 200, "{}", path.display());
        compare::compare(chip, &lines, "");
        let whole = path.with_file_name("whole").join(chip.name());
        for kernel in std::fs::read_dir(&whole).unwrap() {
            let lines = std::fs::read_to_string(kernel.unwrap().path()).unwrap();
            compare::compare(chip, &lines, "");
        }
    }
}

/// IMAD.WIDE.U32 R8, R6, R4, RZ: two registers are written, and one of zeros is none.
#[test]
fn registers() {
    let inst = decode(Chip::Sm90, 0x001fc800078e00ff0000000406087225).unwrap();
    assert_eq!(inst.name, "IMAD");
    assert!(inst.has(".WIDE") && inst.has(".U32"));
    assert_eq!(inst.registers(Role::Write).collect::<Vec<_>>(), [8, 9]);
    assert_eq!(inst.registers(Role::Read).collect::<Vec<_>>(), [6, 4]);
}

/// A store of 64 bits reads its address and its value; nothing is written.
#[test]
fn registers_of_a_store() {
    let inst = decode(Chip::Sm90, 0x000fe2000c101b040004000806007986).unwrap();
    assert_eq!(inst.to_string(), "STG.E.64 desc[UR4][R6.64+0x400], R8");
    assert_eq!(inst.registers(Role::Write).count(), 0);
    assert_eq!(inst.registers(Role::Read).collect::<Vec<_>>(), [6, 7, 8, 9]);
}

/// FADD R9, R9, R0.reuse: what the scheduler is told.
#[test]
fn control() {
    let inst = decode(Chip::Sm90, 0x102fe200000000000000000009097221).unwrap();
    assert_eq!((inst.control.stall, inst.control.stay), (1, true));
    assert_eq!((inst.control.writes, inst.control.reads), (None, None));
    assert_eq!((inst.control.waits, inst.control.reuse), (2, 4));
    assert!(inst.operands[2].reuse && inst.operands[2].kind == Kind::Register(0));
}

/// IADD3 R11, P0, R0, -R9, RZ: the second carry is there, though nobody prints it.
#[test]
fn what_goes_without_saying() {
    let inst = decode(Chip::Sm90, 0x000fe40007f1e0ff80000009000b7210).unwrap();
    assert_eq!(inst.to_string(), "IADD3 R11, P0, R0, -R9, RZ");
    let kinds: Vec<_> = inst.operands.iter().map(|operand| operand.kind).collect();
    assert_eq!(kinds[1..3], [Kind::Predicate(0), Kind::Predicate(7)]);
    assert!(inst.operands[4].sign.negative);
}

/// A branch prints where it goes from where it lies.
#[test]
fn branches() {
    let inst = decode(Chip::Sm90, 0x000fec00038000000000000000040947).unwrap();
    assert_eq!(inst.to_string(), "@P0 BRA 0x20");
    assert_eq!(inst.at(0x1000).to_string(), "@P0 BRA 0x1020");
}

#[test]
fn what_is_unknown_is_named() {
    let error = |word| decode(Chip::Sm86, word).unwrap_err();
    let nothing = error(0xfff);
    assert!(
        matches!(nothing, Error::Operation { opcode: 0xfff, .. }),
        "{nothing}"
    );
    let add = 0x004fca00000000000000000005077221;
    let bits = error(add | 1 << 100);
    assert!(
        bits.to_string()
            .contains("FADD: no field has the bits 0x00000010"),
        "{bits}"
    );
    let multiply = error(0x004fca00000000000000000005077220);
    assert!(
        multiply.to_string().contains("FMUL: bits 86:84 are 0"),
        "{multiply}"
    );
}
