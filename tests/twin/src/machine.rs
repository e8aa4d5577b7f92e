//! The twin as a [`Machine`]: what drivers of this repository open in place of the real one.
//!
//! Each [`TwinMachine`] is a process of its own on the twin. Its memory is that of this process, see
//! [`crate::host::client`]; files and what is mapped from them are the twin's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hcq::mem::view::View;
use hcq::transport::{
    ANYWHERE, DevFile, Fault, Machine, Map, PerProcess, Prot, Request, Reserved, TransportError,
};

use crate::errno::{Errno, Result as Called};
use crate::host::client::{self, Reservations};
use crate::process::{Process, Wanted};
use crate::rule::Journal;

/// A process on a twin. The process ends with the last handle of it and of its files.
pub struct TwinMachine<P: Process> {
    process: Arc<Attached<P>>,
    kept: PerProcess,
}

/// A process on the twin, and what it has reserved of its memory; ends it on drop.
struct Attached<P: Process> {
    process: Arc<P>,
    reservations: Reservations,
    generation: u32,
}

impl<P: Process> Attached<P> {
    /// A child of a fork has neither the twin's thread nor what was mapped: as the real driver does
    /// (Linux, amdkfd/kfd_chardev.c, kfd_ioctl), the twin lets it do nothing with its parent's files.
    fn here(&self) -> Called<&P> {
        let here = self.generation == hcq::process_generation();
        here.then_some(&*self.process).ok_or(Errno::EBADF)
    }
}

impl<P: Process> Drop for Attached<P> {
    fn drop(&mut self) {
        match self.here() {
            Ok(process) => process.leave(),
            // Ending it would wait for the thread.
            Err(_) => std::mem::forget(self.process.clone()),
        }
    }
}

impl<P: Process> TwinMachine<P> {
    /// A new process on a machine.
    pub fn attach(machine: &Arc<P::Machine>) -> Arc<Self> {
        client::watch_forks();
        Arc::new(TwinMachine {
            process: Arc::new(Attached {
                process: P::on(machine),
                reservations: Reservations::default(),
                generation: hcq::process_generation(),
            }),
            kept: PerProcess::default(),
        })
    }

    /// A new machine from a config string, and a process on it.
    ///
    /// # Errors
    /// What is wrong with the string, or what the host lacks.
    pub fn new(config: &str) -> Result<Arc<Self>, String> {
        Ok(Self::attach(&P::start(config)?))
    }

    /// The process, for what tests look at.
    pub fn process(&self) -> &Arc<P> {
        &self.process.process
    }

    /// The machine that it runs on.
    pub fn machine(&self) -> &Arc<P::Machine> {
        self.process.process.machine()
    }

    /// What happened to the machine.
    pub fn journal(&self) -> &Journal {
        P::journal(self.machine())
    }

    /// Opens a text or folder, takes something of it, and closes it.
    fn with<T>(
        &self,
        path: &str,
        verb: &str,
        take: impl FnOnce(&P, i32) -> Called<T>,
    ) -> Result<T, TransportError> {
        let failed = |errno: Errno| TransportError::new(path, verb, Fault::Errno(errno.0));
        let process = self.process.here().map_err(failed)?;
        let fd = process.open(path, libc::O_RDONLY).map_err(failed)?;
        let taken = take(process, fd);
        process.close(fd).map_err(failed)?;
        taken.map_err(failed)
    }
}

impl<P: Process> Machine for TwinMachine<P> {
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
        self.with(path, "list", |process, fd| process.list(fd))
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

    fn per_process(&self) -> &PerProcess {
        &self.kept
    }
}

/// How often a file that is waited for is looked at.
const LOOK: Duration = Duration::from_micros(50);

/// An open file of the twin.
struct TwinFile<P: Process> {
    name: String,
    fd: i32,
    process: Arc<Attached<P>>,
}

impl<P: Process> DevFile for TwinFile<P> {
    fn name(&self) -> &str {
        &self.name
    }

    fn ioctl(&self, request: &mut Request<'_, '_>) -> Result<i32, TransportError> {
        let (name, is_wait) = (request.ioctl().name, request.is_wait());
        let done = request.perform(|code, argument| {
            let process = self.process.here()?;
            loop {
                match process.ioctl(self.fd, code, argument.as_mut_ptr() as u64) {
                    // As the real file does: an interrupted call is made again, but for waits.
                    Err(Errno::EINTR) if !is_wait => {}
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
            let wanted = Wanted {
                address: at,
                bytes: map.len as u64,
                protection,
                flags: libc::MAP_SHARED | libc::MAP_FIXED,
            };
            let done = process.mmap(wanted, self.fd, map.offset);
            done.map(drop).map_err(refused)
        });
        drop(own);
        view.map_err(failed)
    }

    fn poll(&self, limit: Duration) -> Result<bool, TransportError> {
        let failed = |e: Errno| TransportError::new(&*self.name, "poll", Fault::Errno(e.0));
        let process = self.process.here().map_err(failed)?;
        let start = Instant::now();
        loop {
            if process.ready(self.fd).map_err(failed)? {
                return Ok(true);
            }
            let Some(left) = limit.checked_sub(start.elapsed()) else {
                return Ok(false);
            };
            std::thread::sleep(left.min(LOOK));
        }
    }

    fn number(&self) -> Result<u32, TransportError> {
        Ok(self.fd as u32)
    }
}

impl<P: Process> Drop for TwinFile<P> {
    fn drop(&mut self) {
        if let Ok(process) = self.process.here() {
            // It is open: nobody else closes it.
            let _ = process.close(self.fd);
        }
    }
}
