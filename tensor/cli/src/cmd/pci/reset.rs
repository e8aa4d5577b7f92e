//! `doorbell reset`: a function starts anew, by the kernel.

use drivers_host::pci::claim::ClaimError;
use drivers_host::pci::{look, reset};
use hcq::transport::ResetKind;

use super::{Function, print};
use crate::error::Error;

/// A way to reset.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// Function level reset.
    Flr,
    /// Everything behind its bridge.
    Bus,
    /// Through power management, D3hot and back.
    Pm,
}

/// Reset a PCI function.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    function: Function,
    /// How; without it as the kernel prefers
    #[arg(long)]
    kind: Option<Kind>,
}

/// Prints each write.
pub fn run(args: &Args) -> Result<(), Error> {
    let function = &args.function;
    let (system, address) = (function.system(), &*function.address);
    if !function.display
        && let Some(how) = look::display(&system, address)
    {
        let address = address.into();
        return Err(Error::Claim(ClaimError::Display { address, how }));
    }
    let kind = args.kind.map(|kind| match kind {
        Kind::Flr => ResetKind::Function,
        Kind::Bus => ResetKind::Bus,
        Kind::Pm => ResetKind::Power,
    });
    let plan = reset::plan(&system, address, kind).map_err(Error::Claim)?;
    if !function.plan {
        let _lock = function.lock(&system)?;
        reset::apply(&system, address, &plan).map_err(Error::Claim)?;
    }
    let (way, back) = (plan.way.as_ref(), plan.way.as_ref());
    let writes = way.map(|step| step.write.clone()).into_iter();
    let writes = writes.chain([plan.reset.clone()]);
    let writes: Vec<_> = writes.chain(back.map(|step| step.undo.clone())).collect();
    print(&writes)
}
