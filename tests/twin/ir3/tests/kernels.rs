//! Kernels that tinygrad lowers and Mesa's ir3 compiles for A630: none breaks a rule, and their results are those of a
//! processor. `tests/golden/ir3/kernels.txt` has some; the variable `IR3_KERNELS` names a file with more, such as that of
//! `scripts/ir3-kernels`.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;

use support::kernel;

/// Runs the cases of a file: how many there are, and their instructions.
fn all(path: &Path) -> (usize, u64) {
    let (mut instructions, mut different) = (0, Vec::new());
    let cases = kernel::cases(path);
    for case in &cases {
        match case.run() {
            Ok(done) => {
                instructions += done.instructions;
                if done.worst > case.tolerance() {
                    different.push(format!("{}: {}", case.name, done.worst));
                }
            }
            Err(broken) => different.push(format!("{}: {broken}", case.name)),
        }
    }
    assert!(different.is_empty(), "{different:#?}");
    (cases.len(), instructions)
}

#[test]
fn kernels_of_mesa_break_no_rule() {
    let (cases, instructions) = all(&kernel::golden());
    assert!(cases > 25 && instructions > 10_000);
    if let Some(path) = std::env::var_os("IR3_KERNELS") {
        let (cases, instructions) = all(Path::new(&path));
        println!("{cases} cases, {instructions} instructions");
    }
}
