//! `doorbell bind`: takes a function over from the system.

use drivers_host::pci::claim::{self, ClaimOptions, Way};

use super::Function;
use crate::program::error::Error;
use crate::program::output::say;

/// What is said where nothing protects the machine from the card.
const UNPROTECTED: &str = "no IOMMU is active: the card can write to all memory, and must be accessed \
                           through sysfs as root. Enable the IOMMU (firmware setup; intel_iommu=on on \
                           Intel) to use vfio-pci";

/// How vfio-pci is to have it.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Vfio {
    /// Behind an IOMMU.
    Iommu,
    /// Without one: it can write all of memory.
    Noiommu,
}

/// Take a PCI function from its kernel driver.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    function: Function,
    /// Use vfio-pci, so that programs need no root; the default if an IOMMU is active
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "iommu")]
    vfio: Option<Vfio>,
    /// Use sysfs, as root and with huge pages; the default without an IOMMU
    #[arg(long, conflicts_with = "vfio")]
    sysfs: bool,
    /// Resize BAR 0 to its maximum
    #[arg(long)]
    resize: bool,
}

/// Prints each write with its reason and what undoes it.
pub fn run(args: &Args) -> Result<(), Error> {
    let wanted = ClaimOptions {
        display: args.function.display,
        resize: args.resize,
        way: match args.vfio {
            None if args.sysfs => Way::Sysfs,
            None => Way::Best,
            Some(Vfio::Iommu) => Way::Vfio,
            Some(Vfio::Noiommu) => Way::VfioNoIommu,
        },
    };
    args.function.take(|system, address| {
        let steps = claim::plan(system, address, wanted)?;
        if wanted.way == Way::Best && wanted.way.of(system, address) == Way::Sysfs {
            say!("{address}: {UNPROTECTED}");
        }
        Ok(steps)
    })
}
