//! `doorbell reset`: a function starts anew, by the kernel; or all of an AMD card, by itself.

use drivers::on_bus;
use drivers_host::machine::Host;
use drivers_host::pci::claim::ClaimError;
use drivers_host::pci::{look, reset};
use hcq::transport::ResetKind;

use super::{Function, print};
use crate::program::chosen;
use crate::program::error::Error;
use crate::program::output::{self, say};
use crate::program::signals::Held;

/// A way to reset.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// Function level reset
    Flr,
    /// Reset everything behind the bridge
    Bus,
    /// Power management: D3hot and back
    Pm,
    /// Reset a whole AMD card through its SMU; VRAM, firmware and queues are lost
    Mode1,
}

/// Reset a PCI function.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    function: Function,
    /// Method; default: the kernel's preference
    #[arg(long)]
    kind: Option<Kind>,
}

impl Args {
    /// Whether no file of the system does it.
    pub fn is_by_the_card(&self) -> bool {
        matches!(self.kind, Some(Kind::Mode1))
    }
}

/// Prints each write. `dev` names a simulated machine, for a reset that does not go by files of the system.
pub fn run(args: &Args, dev: Option<&str>) -> Result<(), Error> {
    let function = &args.function;
    let (system, address) = (function.system(), &*function.address);
    let kind = match args.kind {
        Some(Kind::Mode1) => return mode1(function, dev),
        Some(Kind::Flr) => Some(ResetKind::Function),
        Some(Kind::Bus) => Some(ResetKind::Bus),
        Some(Kind::Pm) => Some(ResetKind::Power),
        None => None,
    };
    shows_nothing(function)?;
    let plan = reset::plan(&system, address, kind).map_err(Error::Claim)?;
    if !function.plan {
        let _lock = function.lock(&system)?;
        // The way is put back.
        let _held = Held::new()?;
        reset::apply(&system, address, &plan).map_err(Error::Claim)?;
    }
    let (way, back) = (plan.way.as_ref(), plan.way.as_ref());
    let writes = way.map(|step| step.write.clone()).into_iter();
    let writes = writes.chain([plan.reset.clone()]);
    let writes: Vec<_> = writes.chain(back.map(|step| step.undo.clone())).collect();
    print(&writes)
}

/// A card that drives a display goes dark.
fn shows_nothing(function: &Function) -> Result<(), Error> {
    let address = &*function.address;
    match look::display(&function.system(), address) {
        Some(how) if !function.display => {
            let address = address.into();
            Err(Error::Claim(ClaimError::Display { address, how }))
        }
        _ => Ok(()),
    }
}

/// By the card itself, which no kernel driver may have.
fn mode1(function: &Function, dev: Option<&str>) -> Result<(), Error> {
    let (system, address) = (function.system(), &*function.address);
    let setup = chosen(dev)?;
    let machine = match setup.twin() {
        Some(twin) => twin.machine(),
        None => Host::at(system.clone()),
    };
    let found = on_bus(&*machine)
        .into_iter()
        .find(|gpu| gpu.address == address);
    let asked = address.to_owned();
    match found.as_ref().map(|gpu| gpu.taken()) {
        None => {
            let why = "no GPU at this address; `doorbell devices` lists GPUs".into();
            return Err(hcq::Error::NoDevice { asked, why }.into());
        }
        Some(Some(driver)) => {
            let why = format!(
                "in use by the kernel driver {driver}; run `doorbell bind {address}` first"
            );
            return Err(hcq::Error::NoPermission { asked, why }.into());
        }
        Some(None) => {}
    }
    if setup.twin().is_none() {
        shows_nothing(function)?;
        if !function.plan {
            // Waits for who has it; to open it takes the lock again.
            drop(function.lock(&system)?);
        }
    }
    if function.plan {
        return output::line(format_args!(
            "{address}: mode 1 reset by the SMU, through registers of BAR 5; VRAM, firmware and queues are lost"
        ));
    }
    match drivers::reset_card(&machine, address)? {
        true => say!("{address}: reset done; the next start is a cold start"),
        false => say!("{address}: nothing to do: the chip has not been started"),
    }
    Ok(setup.check_rules()?)
}
