//! Calls that a kernel driver asks for again: they were interrupted, or it was busy.

use std::time::Duration;

use hcq::Deadline;
use hcq::transport::errno::{EAGAIN, EINTR};
use hcq::transport::{DevFile, Fault, IoctlOf, MonotonicClock, TransportError};
use zerocopy::{FromBytes, IntoBytes};

/// How long a call is made again before it fails, but for waits, which have deadlines of their own.
const LIMIT: Duration = Duration::from_secs(1);

/// The pause before a call that the driver was too busy for is made again.
const PAUSE: Duration = Duration::from_millis(1);

/// Whether a call is to be made again.
pub fn asks_again(error: &TransportError) -> bool {
    matches!(error.fault, Fault::Errno(EINTR | EAGAIN))
}

/// Makes a call until it is not interrupted, for a second at most.
///
/// # Errors
/// The last one.
pub fn call<T>(make: impl FnMut() -> Result<T, TransportError>) -> Result<T, TransportError> {
    until(Deadline::after(LIMIT), make)
}

/// An ioctl with its argument.
///
/// # Errors
/// The kernel's, with the name of the ioctl.
pub fn ioctl<T: IntoBytes + FromBytes>(
    file: &dyn DevFile,
    what: IoctlOf<T>,
    argument: &mut T,
) -> Result<(), TransportError> {
    ioctl_with(file, what, argument, &mut [])
}

/// The same with memory that the argument names.
///
/// # Errors
/// As [`ioctl`].
pub fn ioctl_with<T: IntoBytes + FromBytes>(
    file: &dyn DevFile,
    what: IoctlOf<T>,
    argument: &mut T,
    memory: &mut [&mut [u8]],
) -> Result<(), TransportError> {
    let mut request = what.with(argument, memory);
    call(|| file.ioctl(&mut request).map(drop))
}

/// [`call`] until a deadline; one call is made at least.
///
/// # Errors
/// The last one.
pub fn until<T>(
    deadline: Deadline,
    mut make: impl FnMut() -> Result<T, TransportError>,
) -> Result<T, TransportError> {
    loop {
        match make() {
            Err(error) if asks_again(&error) && !deadline.expired(&MonotonicClock) => {
                if error.fault == Fault::Errno(EAGAIN) {
                    std::thread::sleep(PAUSE);
                }
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errno(errno: i32) -> TransportError {
        TransportError::new("file", "call", Fault::Errno(errno))
    }

    #[test]
    fn interrupted_calls_are_made_again_and_others_are_not() {
        let mut left = vec![Ok(7), Err(errno(EAGAIN)), Err(errno(EINTR))];
        assert_eq!(call(|| left.pop().unwrap()), Ok(7));
        let mut calls = 0;
        let refused = call(|| {
            calls += 1;
            Err::<(), _>(errno(22))
        });
        assert_eq!((refused, calls), (Err(errno(22)), 1));
        let over = Deadline::after(Duration::ZERO);
        assert_eq!(
            until(over, || Err::<(), _>(errno(EINTR))),
            Err(errno(EINTR))
        );
    }
}
