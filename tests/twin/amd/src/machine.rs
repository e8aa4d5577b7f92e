//! The twin as a [`Machine`]: what drivers of this repository open in place of the real one.
//!
//! Each [`TwinMachine`] is a process of its own on the twin. Its memory is that of this process:
//! reservations and anonymous memory are the host's, files and what is mapped from them the twin's.

use std::sync::Arc;

use drivers_host::fork as host_fork;
use drivers_host::machine::{self as host, Place};
use hcq::mem::view::View;
use hcq::transport::{
    ANYWHERE, DevFile, Fault, Kept, Machine, Map, Prot, Request, Reserved, TransportError,
};

use crate::config::Config;
use crate::kernel;
use crate::kernel::Process;
use crate::kernel::errno::Errno;

/// A process on a twin. The process ends with the last handle of it and of its files.
pub struct TwinMachine {
    process: Arc<Attached>,
    kept: Kept,
}

/// Ends the process on drop.
struct Attached(Arc<Process>);

impl Drop for Attached {
    fn drop(&mut self) {
        self.0.exit();
    }
}

impl TwinMachine {
    /// A new process on a machine.
    pub fn attach(machine: &Arc<kernel::Machine>) -> Arc<TwinMachine> {
        // Its threads are not in a child either.
        host_fork::watch();
        Arc::new(TwinMachine {
            process: Arc::new(Attached(machine.attach())),
            kept: Kept::default(),
        })
    }

    /// A new machine from a config string, and a process on it.
    ///
    /// # Errors
    /// What is wrong with the string, or what the host lacks.
    pub fn new(config: &str) -> Result<Arc<TwinMachine>, String> {
        let config = Config::parse(config).map_err(|e| e.to_string())?;
        let machine = kernel::Machine::new(config).map_err(|e| e.to_string())?;
        Ok(TwinMachine::attach(&machine))
    }

    /// The process, for what tests look at.
    pub fn process(&self) -> &Arc<Process> {
        &self.process.0
    }

    /// The machine that it runs on.
    pub fn machine(&self) -> &Arc<kernel::Machine> {
        self.process.0.machine()
    }

    /// Opens a text or folder, takes something of it, and closes it.
    fn with<T>(
        &self,
        path: &str,
        verb: &str,
        take: impl FnOnce(&Process, i32) -> kernel::errno::Result<T>,
    ) -> Result<T, TransportError> {
        let failed = |errno: Errno| TransportError::new(path, verb, Fault::Errno(errno.0));
        let process = self.process();
        let fd = process.open(path, libc::O_RDONLY).map_err(failed)?;
        let taken = take(process, fd);
        process.close(fd).map_err(failed)?;
        taken.map_err(failed)
    }
}

impl Machine for TwinMachine {
    fn open(&self, path: &str) -> Result<Arc<dyn DevFile>, TransportError> {
        let opened = self.process().open(path, libc::O_RDWR | libc::O_CLOEXEC);
        let fd = opened.map_err(|e| TransportError::new(path, "open", Fault::Errno(e.0)))?;
        Ok(Arc::new(TwinFile {
            name: path.into(),
            fd,
            process: self.process.clone(),
        }))
    }

    fn read(&self, path: &str) -> Result<String, TransportError> {
        self.with(path, "read", |process, fd| {
            let mut text = Vec::new();
            let mut piece = [0; 4096];
            loop {
                match process.read(fd, text.len() as u64, &mut piece)? {
                    0 => return String::from_utf8(text).map_err(|_| Errno::EIO),
                    n => text.extend_from_slice(&piece[..n]),
                }
            }
        })
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TransportError> {
        self.with(path, "list", |process, fd| process.readdir(fd))
    }

    fn reserve(&self, bytes: u64, align: u64, below: u64) -> Result<Reserved, TransportError> {
        host::reserve(bytes, align, below)
    }

    fn memory(&self, bytes: u64, align: u64) -> Result<View, TransportError> {
        host::memory(bytes, align)
    }

    fn kept(&self) -> &Kept {
        &self.kept
    }
}

/// An open file of the twin.
struct TwinFile {
    name: String,
    fd: i32,
    process: Arc<Attached>,
}

impl DevFile for TwinFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn ioctl(&self, request: &mut Request<'_, '_>) -> Result<i32, TransportError> {
        let name = request.ioctl().name;
        let process = &self.process.0;
        let done = request.perform(|code, argument| {
            loop {
                match process.ioctl(self.fd, code, argument.as_mut_ptr() as u64) {
                    // As the real file does: an interrupted call is made again.
                    Err(Errno::EINTR) => {}
                    done => return done,
                }
            }
        });
        let failed = |fault| TransportError::new(&*self.name, format!("ioctl {name}"), fault);
        let done = done.map_err(failed)?;
        done.map_err(|errno| failed(Fault::Errno(errno.0)))?;
        Ok(0)
    }

    fn mmap(&self, map: Map) -> Result<View, TransportError> {
        let protection = match map.prot {
            Prot::Read => libc::PROT_READ,
            Prot::Write => libc::PROT_WRITE,
            Prot::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
        };
        let failed = |fault| TransportError::new(&*self.name, map.to_string(), fault);
        let (process, len) = (&self.process.0, map.len as u64);
        let call = |address, flags| {
            let (fd, offset) = (self.fd, map.offset);
            let done = process.mmap(address, len, protection, flags, fd, offset);
            done.map_err(|errno| failed(Fault::Errno(errno.0)))
        };
        match map.at {
            Some(at) => {
                let place = Place::inside(at, map.len).map_err(failed)?;
                call(place.addr(), libc::MAP_SHARED | libc::MAP_FIXED)?;
                // SAFETY: just mapped inside of the reservation that `place` keeps.
                Ok(unsafe { place.view(map.len, map.prot) })
            }
            None => {
                // A place of its own, which the view gives back.
                let reserved = host::reserve(len, 1, ANYWHERE)?;
                let place = Place::inside(reserved.base(), map.len).map_err(failed)?;
                call(place.addr(), libc::MAP_SHARED | libc::MAP_FIXED)?;
                // SAFETY: as above.
                Ok(unsafe { place.view(map.len, map.prot) })
            }
        }
    }

    fn number(&self) -> Result<u32, TransportError> {
        Ok(self.fd as u32)
    }
}

impl Drop for TwinFile {
    fn drop(&mut self) {
        // It is open: nobody else closes it.
        let _ = self.process.0.close(self.fd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drivers_spec::amd::kfd;

    #[test]
    fn an_argument_is_as_long_as_its_request_says() {
        let twin = TwinMachine::new("chip=gfx1100").unwrap();
        let kfd = twin.open("/dev/kfd").unwrap();
        let mut around = [0xaa_u8; 24];
        for bytes in [4, 16] {
            // SAFETY: refused before the twin looks at it.
            #[allow(unsafe_code)]
            let mut request =
                unsafe { Request::raw(kfd::GET_VERSION.ioctl(), &mut around[..bytes]) };
            let error = kfd.ioctl(&mut request).unwrap_err();
            let (wanted, moved) = (8, bytes);
            assert_eq!(error.fault, Fault::Short { wanted, moved }, "{error}");
        }
        assert_eq!(around, [0xaa; 24]);
        let mut args = kfd::GetVersionArgs::default();
        kfd.ioctl(&mut kfd::GET_VERSION.with(&mut args, &mut []))
            .unwrap();
        assert_eq!(args.major_version, 1);
    }

    #[test]
    fn what_is_not_described_is_not_called() {
        let twin = TwinMachine::new("chip=gfx1100").unwrap();
        let kfd = twin.open("/dev/kfd").unwrap();
        let mut args = kfd::SetCuMaskArgs::default();
        let error = kfd.ioctl(&mut kfd::SET_CU_MASK.with(&mut args, &mut []));
        assert!(matches!(error.unwrap_err().fault, Fault::Unsupported(_)));
    }
}
