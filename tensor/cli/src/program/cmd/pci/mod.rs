//! Commands about one PCI function: taken over from the system, given back, reset.
//!
//! Each is asked for by its address, prints what it writes, and only that with `--plan`. No device is opened.
//! The files that are written are this machine's: a simulated card is reset by itself alone.

mod bind;
mod reset;
mod unbind;

use std::path::PathBuf;
use std::time::Duration;

use drivers_host::pci::claim::{ClaimError, Step, Write};
use drivers_host::pci::{Lock, System, journal, look};

use crate::Setup;
use crate::program::error::Error;
use crate::program::output::{self, say};
use crate::program::signals::Held;

/// Which function, and how.
#[derive(clap::Args)]
struct Function {
    /// PCI address as printed by `lspci` and `doorbell devices`: 0000:03:00.0 or 03:00.0
    #[arg(value_parser = address)]
    address: String,
    /// Print the writes without performing them
    #[arg(long)]
    plan: bool,
    /// Allow a card that drives a display, which goes dark
    #[arg(long)]
    display: bool,
    /// Wait this long for a program that uses the card
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    wait: u64,
    /// Read the system files from this folder instead of this machine
    #[arg(long, value_name = "FOLDER", default_value = "/")]
    root: PathBuf,
}

fn address(text: &str) -> Result<String, String> {
    look::address(text).ok_or_else(|| "expected an address such as 0000:03:00.0 or 03:00.0".into())
}

impl Function {
    fn system(&self) -> System {
        System::at(&self.root)
    }

    /// Nobody else drives it while this lives.
    fn lock(&self, system: &System) -> Result<Lock, Error> {
        let wait = Duration::from_secs(self.wait);
        Lock::take(system, &self.address, wait).map_err(Error::Lock)
    }

    /// Takes steps that `plan` finds, or prints them.
    fn take(
        &self,
        plan: impl FnOnce(&System, &str) -> Result<Vec<Step>, ClaimError>,
    ) -> Result<(), Error> {
        let (system, address) = (self.system(), &*self.address);
        let lock = match self.plan {
            true => None,
            false => Some(self.lock(&system)?),
        };
        let steps = plan(&system, address).map_err(Error::Claim)?;
        if steps.is_empty() {
            say!("{address}: nothing to do");
            return Ok(());
        }
        if lock.is_some() {
            let held = Held::new()?;
            let done = journal::apply(&system, address, &steps, &|| held.came());
            done.map_err(Error::Claim)?;
            say!("{address}: `doorbell unbind {address} --restore` restores the previous state");
        }
        steps
            .iter()
            .try_for_each(|step| output::line(format_args!("{step}")))
    }
}

fn print(writes: &[Write]) -> Result<(), Error> {
    let mut all = writes.iter();
    all.try_for_each(|write| output::line(format_args!("{write}")))
}

/// One of them.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Take a PCI function from its kernel driver (--plan prints the writes, unbind --restore undoes them)
    Bind(bind::Args),
    /// Unbind the kernel driver of a PCI function; with --restore, undo all changes
    Unbind(unbind::Args),
    /// Reset a PCI function
    Reset(reset::Args),
}

/// Who names a simulated card must not change a real one.
fn is_of_this_machine(dev: Option<&str>) -> Result<(), Error> {
    match Setup::from_option(dev)?.simulated() {
        None => Ok(()),
        Some(target) => Err(Error::Usage(format!(
            "{target} is simulated: bind, unbind and reset act on this machine's cards only. Leave out --dev and the \
             variable DEV; `reset --kind mode1` is for simulated cards, too"
        ))),
    }
}

/// Does it. `dev` is the target of the command line.
pub fn run(command: &Command, dev: Option<&str>) -> Result<u8, Error> {
    match command {
        Command::Reset(args) if args.is_by_the_card() => {}
        _ => is_of_this_machine(dev)?,
    }
    match command {
        Command::Bind(args) => bind::run(args),
        Command::Unbind(args) => unbind::run(args),
        Command::Reset(args) => reset::run(args, dev),
    }
    .map(|()| 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: Command,
    }

    #[test]
    fn a_simulated_card_is_not_looked_for_on_this_machine() {
        for words in [
            &["bind", "03:00.0", "--plan"][..],
            &["unbind", "03:00.0", "--plan"],
            &["unbind", "03:00.0", "--restore", "--plan"],
            &["reset", "03:00.0", "--plan"],
            &["reset", "03:00.0", "--kind", "bus", "--plan"],
        ] {
            let words = ["doorbell"].iter().chain(words);
            let line = Line::try_parse_from(words).unwrap();
            let error = run(&line.command, Some("TWINPCI+AMD::gfx1201")).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{error}");
            let text = error.to_string();
            assert!(text.contains("act on this machine's cards only"), "{text}");
        }
    }
}
