//! The program `doorbell`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    doorbell::program::main()
}
