//! Ioctls with the structs of [`drivers_spec`].
//!
//! The kernel asks to retry a call with EAGAIN, for example while a userptr moves or during a reset, as libhsakmt
//! does. Retries are limited here.

use drivers_gpu::kernel::calls::until_taken;
use hcq::transport::errno::EAGAIN;
use hcq::transport::{DevFile, Fault, IoctlOf, TransportError};
use zerocopy::{FromBytes, IntoBytes};

/// A call with a typed argument.
pub(crate) trait Call {
    /// Calls an ioctl.
    ///
    /// # Errors
    /// The kernel's, with the name of the ioctl.
    fn call<T: IntoBytes + FromBytes>(
        &self,
        ioctl: IoctlOf<T>,
        args: &mut T,
    ) -> Result<(), TransportError> {
        self.call_with(ioctl, args, &mut [])
    }

    /// Calls an ioctl whose argument names memory.
    ///
    /// # Errors
    /// The kernel's, with the name of the ioctl.
    fn call_with<T: IntoBytes + FromBytes>(
        &self,
        ioctl: IoctlOf<T>,
        args: &mut T,
        memory: &mut [&mut [u8]],
    ) -> Result<(), TransportError>;
}

impl Call for dyn DevFile + '_ {
    fn call_with<T: IntoBytes + FromBytes>(
        &self,
        ioctl: IoctlOf<T>,
        args: &mut T,
        memory: &mut [&mut [u8]],
    ) -> Result<(), TransportError> {
        let mut request = ioctl.with(args, memory);
        let call = || self.ioctl(&mut request).map(drop);
        until_taken(call, |error| error.fault == Fault::Errno(EAGAIN))
    }
}
