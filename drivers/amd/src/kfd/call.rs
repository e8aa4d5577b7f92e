//! Ioctls with the structs of [`drivers_spec`].
//!
//! The kernel asks for a call to be made again by EAGAIN, for example while a userptr moves or a reset
//! is under way; so does libhsakmt. That ends here: a call is made again a limited number of times.

use std::time::Duration;

use drivers_spec::amd::uapi::Ioctl;
use hcq::transport::{DevFile, Fault, TransportError};
use zerocopy::{FromBytes, IntoBytes};

/// How often a call that answers EAGAIN is made, with a pause before each next one: half a second.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(5);

const EAGAIN: i32 = 11;

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
        for _ in 1..TRIES {
            match self.ioctl(ioctl.request, ioctl.name, args.as_mut_bytes()) {
                Err(error) if error.fault == Fault::Errno(EAGAIN) => std::thread::sleep(PAUSE),
                done => return done.map(|_| ()),
            }
        }
        self.ioctl(ioctl.request, ioctl.name, args.as_mut_bytes())
            .map(|_| ())
    }
}
