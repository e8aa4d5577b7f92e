//! The tables against NVIDIA's disassembler: the code of many kernels, and changes of it.
//!
//! `scripts/sass` writes the encodings and their texts; without them these tests say so and pass.

use crate::compare;

use std::path::Path;

use twin_sass::Chip;

fn check(chip: Chip) {
    let name = format!("../../../target/sass/{}.txt", chip.name());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    match std::fs::read_to_string(&path) {
        Ok(lines) => compare::compare(chip, &lines, compare::GAPS),
        Err(error) => println!(
            "skipped: {}: {error}; scripts/sass writes it",
            path.display()
        ),
    }
}

#[test]
fn sm_86() {
    check(Chip::Sm86);
}

#[test]
fn sm_89() {
    check(Chip::Sm89);
}

#[test]
fn sm_90() {
    check(Chip::Sm90);
}

#[test]
fn sm_120() {
    check(Chip::Sm120);
}
