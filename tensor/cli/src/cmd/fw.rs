//! `doorbell fw`: the commands of `fwtool`. No device is opened.

use std::process::ExitCode;

use firmware_tools::command::{self, Command, Failure};

use crate::error::Error;

/// Files that are missing or damaged are a failure; which, says the output.
pub fn run(command: &Command) -> Result<ExitCode, Error> {
    match command::run(command, &mut std::io::stdout().lock()) {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => Ok(ExitCode::FAILURE),
        Err(Failure::Output(e)) => Err(Error::Output(e)),
        Err(Failure::Firmware(e)) => Err(Error::Firmware(e)),
        Err(e) => Err(Error::Usage(e.to_string())),
    }
}
