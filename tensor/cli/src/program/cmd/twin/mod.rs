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
    /// Run a program and its children on a simulated card: in place of /dev/kfd and /dev/dri, of NVIDIA's
    /// devices, or of /dev/kgsl-3d0
    Exec(exec::Args),
    /// Repeat what a recorded program did, without the program
    Replay(replay::Args),
}

/// Does it. `dev` is what the option says, which is for a program.
pub fn run(command: &Command, dev: Option<&str>) -> Result<u8, Error> {
    match (command, dev) {
        (Command::Exec(args), dev) => exec::run(args, dev),
        (Command::Replay(args), None) => replay::run(args),
        (Command::Replay(_), Some(dev)) => Err(Error::Usage(format!(
            "--dev {dev}: expected no device: a record names its machine"
        ))),
    }
}
