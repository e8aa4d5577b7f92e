//! `doorbell twin`: simulated machines for programs that know nothing of them.

mod exec;
mod keep;
mod program;
mod replay;
mod report;

use clap::Subcommand;

use crate::program::error::Error;

/// What is done with one.
#[derive(Subcommand)]
pub enum Command {
    /// Run a program and its children on a simulated card, in place of /dev/kfd and /dev/dri, or NVIDIA's
    /// devices
    Exec(exec::Args),
    /// Repeat what a recorded program did, without the program
    Replay(replay::Args),
}

/// Does it.
pub fn run(command: &Command) -> Result<u8, Error> {
    match command {
        Command::Exec(args) => exec::run(args),
        Command::Replay(args) => replay::run(args),
    }
}
