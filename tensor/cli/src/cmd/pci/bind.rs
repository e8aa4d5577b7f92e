//! `doorbell bind`: takes a function over from the system.

use drivers_host::pci::claim::{self, Wanted, Way};

use super::Function;
use crate::error::Error;

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
    /// By the kernel's driver vfio-pci, so that no program has to be root
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "iommu")]
    vfio: Option<Vfio>,
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
            None => Way::Sysfs,
            Some(Vfio::Iommu) => Way::Vfio,
            Some(Vfio::Noiommu) => Way::VfioNoIommu,
        },
    };
    args.function
        .take(|system, address| claim::plan(system, address, wanted))
}
