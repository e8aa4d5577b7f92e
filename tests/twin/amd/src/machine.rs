//! The twin as a [`Machine`]: what drivers of this repository open in place of the real one.
//!
//! Each [`TwinMachine`] is a process of its own on the twin. Its memory is that of this process, see
//! [`twin::host::client`]; files and what is mapped from them are the twin's.

use std::sync::Arc;

use hcq::mem::view::View;
use hcq::transport::{
    ANYWHERE, DevFile, Fault, Kept, Machine, Map, Prot, Request, Reserved, TransportError,
};

use twin::host::client::{self, Reservations};

use crate::config::Config;
use crate::kernel;
use crate::kernel::Process;
use crate::kernel::errno::Errno;

/// A process on a twin. The process ends with the last handle of it and of its files.
pub struct TwinMachine {
    process: Arc<Attached>,
    kept: Kept,
}

/// A process on the twin, and what it has reserved of its memory; ends it on drop.
struct Attached {
    process: Arc<Process>,
    reservations: Reservations,
    generation: u32,
}

impl Attached {
    /// A child of a fork has neither the twin's thread nor what was mapped: as the real driver does
    /// (Linux, amdkfd/kfd_chardev.c, kfd_ioctl), the twin lets it do nothing with its parent's files.
    fn here(&self) -> Result<&Process, Errno> {
        let here = self.generation == hcq::process_generation();
        here.then_some(&*self.process).ok_or(Errno::EBADF)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        match self.here() {
            Ok(process) => process.exit(),
            // Ending it would wait for the thread.
            Err(_) => std::mem::forget(self.process.clone()),
        }
    }
}

impl TwinMachine {
    /// A new process on a machine.
    pub fn attach(machine: &Arc<kernel::Machine>) -> Arc<TwinMachine> {
        client::watch_forks();
        Arc::new(TwinMachine {
            process: Arc::new(Attached {
                process: machine.attach(),
                reservations: Reservations::default(),
                generation: hcq::process_generation(),
            }),
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
        &self.process.process
    }

    /// The machine that it runs on.
    pub fn machine(&self) -> &Arc<kernel::Machine> {
        self.process.process.machine()
    }

    /// Opens a text or folder, takes something of it, and closes it.
    fn with<T>(
        &self,
        path: &str,
        verb: &str,
        take: impl FnOnce(&Process, i32) -> kernel::errno::Result<T>,
    ) -> Result<T, TransportError> {
        let failed = |errno: Errno| TransportError::new(path, verb, Fault::Errno(errno.0));
        let process = self.process.here().map_err(failed)?;
        let fd = process.open(path, libc::O_RDONLY).map_err(failed)?;
        let taken = take(process, fd);
        process.close(fd).map_err(failed)?;
        taken.map_err(failed)
    }
}

impl Machine for TwinMachine {
    fn open(&self, path: &str) -> Result<Arc<dyn DevFile>, TransportError> {
        let process = self.process.here();
        let fd = process.and_then(|p| p.open(path, libc::O_RDWR | libc::O_CLOEXEC));
        let fd = fd.map_err(|e| TransportError::new(path, "open", Fault::Errno(e.0)))?;
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
        let reserved = self.process.reservations.reserve(bytes, align, below);
        let what = || format!("reserve {bytes:#x} bytes, aligned to {align:#x}, below {below:#x}");
        reserved.map_err(|fault| TransportError::new("twin memory", what(), fault))
    }

    fn memory(&self, bytes: u64, align: u64) -> Result<View, TransportError> {
        let what = || format!("map {bytes:#x} bytes, aligned to {align:#x}");
        let memory = client::memory(bytes, align);
        memory.map_err(|fault| TransportError::new("twin memory", what(), fault))
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
        let done = request.perform(|code, argument| {
            let process = self.process.here()?;
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
        let refused = |errno: Errno| Fault::Errno(errno.0);
        let process = self.process.here().map_err(|e| failed(refused(e)))?;
        let reservations = &self.process.reservations;
        // Without an address, a place of its own, which the view gives back.
        let (own, at) = match map.at {
            Some(at) => (None, at),
            None => {
                let own = reservations.reserve(map.len as u64, 1, ANYWHERE);
                let own = own.map_err(failed)?;
                let at = own.base();
                (Some(own), at)
            }
        };
        let view = reservations.map(at, map.len, map.prot, || {
            let flags = libc::MAP_SHARED | libc::MAP_FIXED;
            let bytes = map.len as u64;
            let done = process.mmap(at, bytes, protection, flags, self.fd, map.offset);
            done.map(drop).map_err(refused)
        });
        drop(own);
        view.map_err(failed)
    }

    fn number(&self) -> Result<u32, TransportError> {
        Ok(self.fd as u32)
    }
}

impl Drop for TwinFile {
    fn drop(&mut self) {
        if let Ok(process) = self.process.here() {
            // It is open: nobody else closes it.
            let _ = process.close(self.fd);
        }
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
