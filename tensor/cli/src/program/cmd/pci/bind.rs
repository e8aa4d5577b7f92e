//! `doorbell bind`: takes a function over from the system.

use drivers_host::pci::claim::{self, Wanted, Way};

use super::Function;
use crate::program::error::Error;
use crate::program::output::say;

/// What is said where nothing protects the machine from the card.
const UNPROTECTED: &str = "no IOMMU is at work: the card can write all of memory, and has to be reached by sysfs, as root. \
                           Turn one on (in the firmware's set-up; intel_iommu=on on Intel's), and bind takes the card by vfio-pci";

/// How vfio-pci is to have it.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Vfio {
    /// Behind an IOMMU.
    Iommu,
    /// Without one: it can write all of memory.
    Noiommu,
}

/// Take a PCI function over from the system.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    function: Function,
    /// By the kernel's driver vfio-pci, so that no program has to be root; without HOW what is done anyway behind an IOMMU
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "iommu")]
    vfio: Option<Vfio>,
    /// By sysfs, with memory in huge pages, as root; what is done anyway without an IOMMU
    #[arg(long, conflicts_with = "vfio")]
    sysfs: bool,
    /// BAR 0 as large as it can be
    #[arg(long)]
    resize: bool,
}

/// Prints each write with its reason and what undoes it.
pub fn run(args: &Args) -> Result<(), Error> {
    let wanted = Wanted {
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
