//! Which elements of matrices the lanes hold, as the documents have it.

use super::{DType, Fragments, MmaDesc, Target};
use crate::ir::mma::{Digit, Fragment};

/// How often each element of a matrix of `rows` by `cols` is held.
fn held(f: &Fragment, rows: u16, cols: u16) -> Vec<u32> {
    let (rows, cols) = (i64::from(rows), i64::from(cols));
    let mut out = vec![0; (rows * cols) as usize];
    for lane in 0..i64::from(f.lanes()) {
        for i in 0..i64::from(f.elements()) {
            let [r, c] = f.at(lane, i);
            assert!(r < rows && c < cols, "{f:?}: lane {lane} holds {r}, {c}");
            out[(r * cols + c) as usize] += 1;
        }
    }
    out
}

/// Every element of an operand as often as all others, every one of the accumulator once.
fn covers(d: &MmaDesc, repeated: u32) {
    let f = d.fragments.unwrap();
    for (name, fragment, rows, cols, times) in [
        ("a", &f.a, d.m, d.k, repeated),
        ("b", &f.b, d.n, d.k, repeated),
        ("accumulator", &f.c, d.m, d.n, 1),
    ] {
        assert_eq!(fragment.lanes(), d.wave(), "{d:?}: {name}");
        for n in held(fragment, rows, cols) {
            assert_eq!(n, times, "{d:?}: {name}");
        }
    }
}

#[test]
fn lanes_hold_every_element_equally_often() {
    for (chip, repeated) in [("gfx1100", 2), ("gfx1201", 1), ("gfx942", 1)] {
        let all = Target::amd(chip).unwrap().mma;
        assert!(all.len() > 4, "{chip}");
        for d in &all {
            covers(d, repeated);
        }
    }
}

/// Where the lanes of AMD's instructions hold element `i`, as the documents of the instruction sets put it
/// ("RDNA3 ISA" 7.9, "RDNA4 ISA" 7.12, "CDNA3 ISA" 7.1).
#[test]
fn layouts_are_those_of_the_documents() {
    for chip in ["gfx1100", "gfx1201", "gfx942"] {
        for d in Target::amd(chip).unwrap().mma {
            let f = d.fragments.unwrap();
            for lane in 0..i64::from(d.wave()) {
                let (low, high) = (lane % 16, lane / 16);
                for i in 0..i64::from(f.a.elements()) {
                    let k = match chip {
                        "gfx1100" => i,
                        _ => i64::from(f.a.elements()) * high + i,
                    };
                    assert_eq!(f.a.at(lane, i), [low, k], "{chip} {d:?}");
                    assert_eq!(f.b.at(lane, i), [low, k], "{chip} {d:?}");
                }
                for i in 0..i64::from(f.c.elements()) {
                    let row = match (chip, d.acc) {
                        ("gfx1100", _) => 2 * i + high,
                        ("gfx1201", _) => 8 * high + i,
                        (_, DType::F64) => 4 * i + high,
                        _ => 4 * high + i,
                    };
                    assert_eq!(f.c.at(lane, i), [row, low], "{chip} {d:?}");
                }
            }
        }
    }
}

/// `mma.sync.m16n8k16` on 16-bit floats: what makes it other than AMD's is two halves of rows and of `k`, and
/// neighbours in the lanes of four.
///
/// Source: "PTX ISA", "Matrix Fragments for mma.m16n8k16 with floating point type".
#[test]
fn the_layout_of_m16n8k16_is_that_of_ptx() {
    let of = |[low, high]: [Digit; 2], element| Fragment {
        lane: [low, high, Digit::NONE],
        element,
    };
    let digit = Digit::new;
    static NV: std::sync::OnceLock<Fragments> = std::sync::OnceLock::new();
    let f = NV.get_or_init(|| Fragments {
        a: of(
            [digit(4, [0, 2]), digit(8, [1, 0])],
            [digit(2, [0, 1]), digit(2, [8, 0]), digit(2, [0, 8])],
        ),
        b: of(
            [digit(4, [0, 2]), digit(8, [1, 0])],
            [digit(2, [0, 1]), digit(2, [0, 8]), Digit::NONE],
        ),
        c: of(
            [digit(4, [0, 2]), digit(8, [1, 0])],
            [digit(2, [0, 1]), digit(2, [8, 0]), Digit::NONE],
        ),
    });
    let d = MmaDesc {
        m: 16,
        n: 8,
        k: 16,
        operands: [DType::F16; 2],
        acc: DType::F32,
        fragments: Some(f),
    };
    covers(&d, 1);
    assert_eq!(
        (d.wave(), d.elements(), d.transposes()),
        (32, [8, 4, 4], false)
    );
    for lane in 0..32 {
        let (group, thread) = (lane >> 2, lane % 4);
        for i in 0..8 {
            let row = if matches!(i, 0..2 | 4..6) {
                group
            } else {
                group + 8
            };
            let k = thread * 2 + (i & 1) + if i < 4 { 0 } else { 8 };
            assert_eq!(f.a.at(lane, i), [row, k]);
        }
        for i in 0..4 {
            let k = thread * 2 + (i & 1) + if i < 2 { 0 } else { 8 };
            assert_eq!(f.b.at(lane, i), [group, k]);
            let row = if i < 2 { group } else { group + 8 };
            assert_eq!(f.c.at(lane, i), [row, thread * 2 + (i & 1)]);
        }
    }
}
