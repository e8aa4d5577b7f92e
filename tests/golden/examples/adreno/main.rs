//! Kernels for Adreno: writes the linear programs of some, and runs what our compiler and Mesa's make of them on the
//! simulated shader cores; `scripts/ir3-mesa` calls it.
//!
//! `adreno CHIP FOLDER N` writes FOLDER/programs.txt and waits for a line of the standard input; then it reads
//! FOLDER/mesa.txt, prints a table, and writes the listings of the N worst ones. `adreno CHIP words FILE` writes the machine
//! words that our compiler makes of them, each once, in hexadecimal; `scripts/ir3` calls it.
#![allow(clippy::unwrap_used)] // A tool for people who work on the compiler.

mod compare;
mod mesa;
mod record;
mod shader;
mod text;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [chip, folder, worst] = arguments.as_slice() else {
        eprintln!("usage: adreno CHIP FOLDER WORST, or adreno CHIP words FILE");
        return ExitCode::from(2);
    };
    let folder = Path::new(folder);
    let kernels = record::kernels(chip);
    if folder == Path::new("words") {
        std::fs::write(worst, compare::words(&kernels, chip)).unwrap();
        return ExitCode::SUCCESS;
    }
    let texts = kernels.iter().enumerate();
    let texts = texts.map(|(n, (name, p))| format!("kernel {n}:{name}\n{}", text::of(p, chip)));
    let texts: String = texts.collect();
    std::fs::write(folder.join("programs.txt"), texts).unwrap();
    println!("{} kernels", kernels.len());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let mesa = std::fs::read_to_string(folder.join("mesa.txt")).unwrap();
    let rows = compare::rows(&kernels, &mesa, chip);
    compare::print(&rows);
    compare::listings(&rows, &kernels, chip, folder, worst.parse().unwrap());
    ExitCode::SUCCESS
}
