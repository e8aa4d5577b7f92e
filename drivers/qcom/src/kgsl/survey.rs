//! Looks whether there is a GPU behind KGSL. Opens the file, changes nothing.

use std::sync::Arc;

use drivers_spec::qcom::chip::{self, Chip};
use drivers_spec::qcom::kgsl::{self, DevInfo, Property, Version, property};
use hcq::transport::{DevFile, Machine, TransportError};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use crate::backend::Unusable;
use crate::backend::retry::ioctl_with;

/// The device file.
pub const FILE: &str = "/dev/kgsl-3d0";

/// What its lines in the log have.
pub(super) const LOG: &str = "kgsl";

/// A GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its chip.
    pub chip: &'static Chip,
    /// Its id.
    pub chip_id: u32,
    /// The version of the driver.
    pub version: (u32, u32),
}

/// Looks at a machine.
///
/// # Errors
/// [`Unusable`].
pub fn survey(machine: &dyn Machine) -> Result<Found, Unusable> {
    look(machine).map(|(_, found)| found)
}

/// The same, with the open file.
pub(super) fn look(machine: &dyn Machine) -> Result<(Arc<dyn DevFile>, Found), Unusable> {
    let unusable = |e| Unusable::of_open(e, FILE, LOG);
    let file = machine.open(FILE).map_err(unusable)?;
    let mut info = DevInfo::default();
    get(&*file, property::DEVICE_INFO, &mut info).map_err(unusable)?;
    let mut version = Version::default();
    get(&*file, property::VERSION, &mut version).map_err(unusable)?;
    let chip_id = info.chip_id;
    // Kernels of SDM845 leave `gpu_id` 0: the chip is told by its id alone.
    let chip = chip::find(chip_id).map_err(|why| Unusable::Unsupported {
        path: FILE.into(),
        why,
    })?;
    let version = (version.drv_major, version.drv_minor);
    let found = Found {
        chip,
        chip_id,
        version,
    };
    Ok((file, found))
}

/// Reads a property, whose value may ask something, too.
///
/// # Errors
/// The kernel's.
pub(super) fn get<T: IntoBytes + FromBytes + Immutable + FromZeros>(
    file: &dyn DevFile,
    kind: u32,
    value: &mut T,
) -> Result<(), TransportError> {
    let mut argument = Property {
        kind,
        ..Default::default()
    };
    ioctl_with(
        file,
        kgsl::DEVICE_GETPROPERTY,
        &mut argument,
        &mut [value.as_mut_bytes()],
    )
}

/// Sets a property.
///
/// # Errors
/// The kernel's.
pub(super) fn set(file: &dyn DevFile, kind: u32, value: &mut [u8]) -> Result<(), TransportError> {
    let mut argument = Property {
        kind,
        ..Default::default()
    };
    ioctl_with(file, kgsl::SETPROPERTY, &mut argument, &mut [value])
}
