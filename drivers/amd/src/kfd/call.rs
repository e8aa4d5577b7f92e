//! Ioctls with the structs of [`drivers_spec`].
//!
//! The kernel asks for a call to be made again by EAGAIN, for example while a userptr moves or a reset
//! is under way; so does libhsakmt. That ends here: a call is made again a limited number of times.

use std::time::Duration;

use hcq::transport::{DevFile, Fault, IoctlOf, TransportError};
use zerocopy::{FromBytes, IntoBytes};

/// How often a call that answers EAGAIN is made, with a pause before each next one: half a second.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(5);

const EAGAIN: i32 = 11;

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
        for _ in 1..TRIES {
            match self.ioctl(&mut request) {
                Err(error) if error.fault == Fault::Errno(EAGAIN) => std::thread::sleep(PAUSE),
                done => return done.map(|_| ()),
            }
        }
        self.ioctl(&mut request).map(|_| ())
    }
}
