//! `doorbell unbind`: a kernel driver lets a function go, or what was changed is undone.

use drivers_host::pci::{claim, journal, let_go_of_left};

use super::{Function, print};
use crate::program::error::Error;
use crate::program::output::say;
use crate::program::signals::Held;

/// Let a kernel driver's function go, or give it back.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    function: Function,
    /// Undo what bind, unbind or a program that was killed has changed: as it was before
    #[arg(long)]
    restore: bool,
}

/// Prints each write.
pub fn run(args: &Args) -> Result<(), Error> {
    let function = &args.function;
    if !args.restore {
        return function.take(|system, address| claim::release(system, address, function.display));
    }
    let (system, address) = (function.system(), &*function.address);
    let writes = match function.plan {
        true => journal::pending(&system, address).map_err(Error::Claim)?,
        false => {
            let _lock = function.lock(&system)?;
            let _held = Held::new()?;
            // Its memory stays, and the card is given back all the same.
            if let Err(error) = let_go_of_left(&system, address) {
                say!("{error}");
            }
            journal::restore(&system, address).map_err(Error::Claim)?
        }
    };
    if writes.is_empty() {
        say!("{address}: nothing was changed");
    }
    print(&writes)
}
