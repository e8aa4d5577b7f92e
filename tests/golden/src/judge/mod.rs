//! Random programs over state: plain and captured functions, nested ones, threads, several devices, reads
//! anywhere, saves and loads.
//!
//! A program is run by the library ([`run`]) and by a model that does one operation at a time over plain
//! numbers ([`model`]), and knows of no graph, no device and no capture. Values are small whole numbers,
//! so both have to agree to the bit. A program that differs is made smaller until nothing can be left
//! out.

pub mod model;
mod program;
pub mod run;

pub use program::{Function, Program, Statement};
use run::Files;
use tensor::Engine;

/// Elements of every tensor.
pub const N: usize = 4;
/// What a tensor holds.
pub type Value = [i64; N];
/// Values stay within this.
pub const MOST: i64 = 500;

/// Runs the program of a seed on some engines; how it differs from the model, if it does, with a small
/// program that differs, too.
pub fn judge(engines: &[Engine], seed: u64) -> Option<String> {
    let program = Program::random(seed, engines.len());
    let files = Files::new();
    let fault = run::differs(&program, engines, &files)?;
    let (small, fault) = shrunk(program, fault, |p| run::differs(p, engines, &files));
    Some(format!("seed {seed}: {fault}\n{small:#?}"))
}

/// A program that is as wrong, with statements left out as long as that holds.
fn shrunk(
    mut program: Program,
    mut fault: String,
    differs: impl Fn(&Program) -> Option<String>,
) -> (Program, String) {
    // Runs that it may take: one that fails by chance would not end.
    let mut left = 500;
    loop {
        let mut smaller = false;
        let mut at = 0;
        while let Some(next) = program.without(at) {
            left -= 1;
            if left == 0 {
                return (program, fault);
            }
            match differs(&next) {
                Some(found) => (program, fault, smaller) = (next, found, true),
                None => at += 1,
            }
        }
        if !smaller {
            return (program, fault);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_made_as_small_as_its_fault() {
        let program = Program::random(3, 2);
        assert!(program.main.len() > 3);
        let saves = |p: &Program| {
            let any = p.main.iter().any(|s| matches!(s, Statement::Save { .. }));
            any.then(|| "it saves".to_owned())
        };
        let with = (0..).map(|seed| Program::random(seed, 2));
        let program = with.into_iter().find(|p| saves(p).is_some()).unwrap();
        let (small, fault) = shrunk(program, "it saves".into(), saves);
        assert_eq!(fault, "it saves");
        assert_eq!(small.main.len(), 1);
        assert!(small.functions.iter().all(|f| f.body.is_empty()));
    }
}
