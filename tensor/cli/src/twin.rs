//! The program `doorbell-twin`: `doorbell` with simulated cards, to which it hands over when one is asked for.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    doorbell::program::main()
}
