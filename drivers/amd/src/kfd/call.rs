//! Ioctls with the structs of [`drivers_spec`].

use drivers_spec::amd::uapi::Ioctl;
use hcq::transport::{DevFile, TransportError};
use zerocopy::{FromBytes, IntoBytes};

/// A call with a typed argument.
pub(crate) trait Call {
    /// Calls `ioctl`, whose argument is a `T`.
    ///
    /// # Errors
    /// The kernel's, with the name of the ioctl.
    fn call<T: IntoBytes + FromBytes>(
        &self,
        ioctl: Ioctl,
        args: &mut T,
    ) -> Result<(), TransportError>;
}

impl Call for dyn DevFile + '_ {
    fn call<T: IntoBytes + FromBytes>(
        &self,
        ioctl: Ioctl,
        args: &mut T,
    ) -> Result<(), TransportError> {
        self.ioctl(ioctl.request, ioctl.name, args.as_mut_bytes())
            .map(|_| ())
    }
}
