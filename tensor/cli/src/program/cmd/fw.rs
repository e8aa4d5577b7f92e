//! `doorbell fw`: the commands of `fwtool`. No device is opened.

use firmware_tools::command::{self, Command, Failure};

use crate::program::error::Error;
use crate::program::output;

/// Files that are missing or damaged are a failure; which, says the output.
pub fn run(command: &Command) -> Result<u8, Error> {
    // Files of firmware name themselves.
    let mut text = Vec::new();
    let done = command::run(command, &mut text);
    let text = String::from_utf8_lossy(&text);
    if !text.is_empty() {
        output::line(format_args!("{}", text.trim_end_matches('\n')))?;
    }
    match done {
        Ok(true) => Ok(0),
        Ok(false) => Ok(1),
        Err(Failure::Output(e)) => Err(Error::Output(e)),
        Err(Failure::Firmware(e)) => Err(Error::Firmware(e)),
        Err(e) => Err(Error::Usage(e.to_string())),
    }
}
