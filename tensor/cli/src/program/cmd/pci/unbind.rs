//! `doorbell unbind`: a kernel driver lets a function go, or what was changed is undone.

use drivers_host::pci::{claim, journal, let_go_of_left};

use super::{Function, print};
use crate::program::error::Error;
use crate::program::output::say;
use crate::program::signals::Held;

/// Unbind a kernel driver from a PCI function, or restore it.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    function: Function,
    /// Undo the changes of bind, unbind or a killed program
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
