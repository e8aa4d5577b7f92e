//! USB devices of this machine, by libusb.
//!
//! | file | idea |
//! |---|---|
//! | here | a device, opened and claimed, as a [`UsbPipe`] |
//! | `transfers` | concurrent transfers: libusb's asynchronous interface |

#[allow(unsafe_code)]
mod transfers;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use hcq::transport::{Fault, Flight, Setup, Transfer, TransportError, UsbDevice, UsbPipe};
use rusb::{Context, DeviceHandle, UsbContext};

/// The configuration, interface and setting that are used.
const CONFIGURATION: u8 = 1;
const INTERFACE: u8 = 0;
const SETTING: u8 = 0;

/// How long the kernel may take to see that a device is away, whose transfers fail before that.
const AWAY: Duration = Duration::from_millis(250);
/// How long one look for that is apart from the next.
const PAUSE: Duration = Duration::from_millis(5);

/// A device whose first interface this process has claimed.
pub struct Pipe {
    name: String,
    /// Of the device, for as long as it is plugged in.
    file: PathBuf,
    handle: DeviceHandle<Context>,
}

/// Opens a device, and detaches its kernel driver.
///
/// # Errors
/// No such device, no permission, another program that has it.
pub fn open(device: &UsbDevice) -> Result<Pipe, TransportError> {
    let port = &*device.port;
    let file = format!("/dev/bus/usb/{:03}/{:03}", device.bus, device.number);
    let failed = |operation: &'static str| {
        let file = file.clone();
        move |error| match error {
            rusb::Error::Access => {
                let why = format!(
                    "{file}: permission denied: run the commands that `doorbell setup --print usb` prints, log in \
                     again, and replug the bridge"
                );
                TransportError::new(port, operation, Fault::Unsupported(why))
            }
            error => TransportError::new(port, operation, fault(error)),
        }
    };
    let context = Context::new().map_err(failed("start libusb"))?;
    let all = context.devices().map_err(failed("list devices"))?;
    let found = all
        .iter()
        .find(|one| one.bus_number() == device.bus && one.address() == device.number);
    let found = found.ok_or(TransportError::new(port, "open", Fault::Gone))?;
    let handle = found.open().map_err(failed("open"))?;
    // A driver of mass storage may have left it in the middle of something.
    if handle.kernel_driver_active(INTERFACE).unwrap_or(false) {
        let detached = handle.detach_kernel_driver(INTERFACE);
        detached.map_err(failed("detach its kernel driver"))?;
        handle.reset().map_err(failed("reset"))?;
    }
    if handle.active_configuration().ok() != Some(CONFIGURATION) {
        let set = handle.set_active_configuration(CONFIGURATION);
        set.map_err(failed("configure"))?;
    }
    let claimed = handle.claim_interface(INTERFACE);
    claimed.map_err(failed("claim (one program at a time)"))?;
    let set = handle.set_alternate_setting(INTERFACE, SETTING);
    set.map_err(failed("select the first alternate setting"))?;
    Ok(Pipe {
        name: device.port.clone(),
        file: file.into(),
        handle,
    })
}

fn fault(error: rusb::Error) -> Fault {
    match error {
        rusb::Error::NoDevice | rusb::Error::NotFound => Fault::Gone,
        rusb::Error::Pipe => Fault::Stall,
        rusb::Error::Io => Fault::Errno(libc::EIO),
        rusb::Error::Access => Fault::Errno(libc::EACCES),
        rusb::Error::Busy => Fault::Errno(libc::EBUSY),
        rusb::Error::NoMem => Fault::Errno(libc::ENOMEM),
        rusb::Error::Overflow => Fault::Errno(libc::EOVERFLOW),
        other => Fault::Unsupported(format!("libusb: {other}")),
    }
}

/// Whether the file of a device is removed within a while.
fn is_removed(file: &Path) -> bool {
    let start = Instant::now();
    while file.exists() {
        if start.elapsed() > AWAY {
            return false;
        }
        thread::sleep(PAUSE);
    }
    true
}

impl Pipe {
    /// An error of a device that has left is reported as its absence.
    fn error(&self, operation: String, fault: Fault) -> TransportError {
        let fault = match fault {
            Fault::Errno(libc::EIO) if is_removed(&self.file) => Fault::Gone,
            fault => fault,
        };
        TransportError::new(&*self.name, operation, fault)
    }

    fn one(&self, transfer: Transfer<'_>, limit: Duration) -> Result<usize, TransportError> {
        let moved = self.queue(&mut [transfer], limit)?;
        Ok(moved.first().copied().unwrap_or(0))
    }
}

/// A bulk transfer of a device.
struct UnderWay<'a> {
    pipe: &'a Pipe,
    flight: transfers::UnderWay<'a>,
}

impl Flight for UnderWay<'_> {
    fn wait(self: Box<Self>) -> Result<usize, TransportError> {
        let moved = self.flight.wait();
        moved.map_err(|(operation, fault)| self.pipe.error(operation, fault))
    }
}

impl UsbPipe for Pipe {
    fn name(&self) -> &str {
        &self.name
    }

    fn queue(
        &self,
        transfers: &mut [Transfer<'_>],
        limit: Duration,
    ) -> Result<Vec<usize>, TransportError> {
        let done = transfers::run(&self.handle, transfers, limit);
        done.map_err(|(operation, fault)| self.error(operation, fault))
    }

    fn control_in(
        &self,
        setup: Setup,
        to: &mut [u8],
        limit: Duration,
    ) -> Result<usize, TransportError> {
        self.one(Transfer::ControlIn(setup, to), limit)
    }

    fn control_out(
        &self,
        setup: Setup,
        from: &[u8],
        limit: Duration,
    ) -> Result<usize, TransportError> {
        self.one(Transfer::ControlOut(setup, from), limit)
    }

    fn bulk_in(
        &self,
        endpoint: u8,
        to: &mut [u8],
        limit: Duration,
    ) -> Result<usize, TransportError> {
        self.one(Transfer::BulkIn(endpoint, to), limit)
    }

    fn bulk_out(
        &self,
        endpoint: u8,
        from: &[u8],
        limit: Duration,
    ) -> Result<usize, TransportError> {
        self.one(Transfer::BulkOut(endpoint, from), limit)
    }

    fn submit(
        &self,
        endpoint: u8,
        bytes: Vec<u8>,
        limit: Duration,
    ) -> Result<Box<dyn Flight + '_>, TransportError> {
        let flight = transfers::submit(&self.handle, endpoint, &bytes, limit);
        let flight = flight.map_err(|(operation, fault)| self.error(operation, fault))?;
        Ok(Box::new(UnderWay { pipe: self, flight }))
    }

    fn clear_halt(&self, endpoint: u8) -> Result<(), TransportError> {
        let operation = format!("clear the halt of endpoint {endpoint:#x}");
        let cleared = self.handle.clear_halt(endpoint);
        cleared.map_err(|error| self.error(operation, fault(error)))
    }
}
