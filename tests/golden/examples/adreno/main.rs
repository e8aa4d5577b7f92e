//! Kernels for Adreno: writes the linear programs of some, and runs what our compiler and Mesa's make of them on the
//! simulated shader cores; `scripts/ir3-mesa` calls it.
//!
//! `adreno CHIP FOLDER N` writes FOLDER/programs.txt and waits for a line of the standard input; then it reads
//! FOLDER/mesa.txt, prints a table, and writes the listings of the N worst ones.
//!
//! `adreno words CHIP FILE` writes the words of all of them by our compiler, each once; `scripts/ir3` calls it.
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
    if let [words, chip, file] = arguments.as_slice()
        && words == "words"
    {
        let all = compare::words(&record::kernels(chip), chip);
        let lines: String = all.iter().map(|word| format!("{word:016x}\n")).collect();
        std::fs::write(file, lines).unwrap();
        return ExitCode::SUCCESS;
    }
    let [chip, folder, worst] = arguments.as_slice() else {
        eprintln!("usage: adreno CHIP FOLDER WORST; scripts/ir3-mesa calls it");
        return ExitCode::from(2);
    };
    let folder = Path::new(folder);
    let kernels = record::kernels(chip);
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
