//! A simulated NVIDIA machine.

use std::sync::Arc;

use twin::tree::Node;
use twin_nv::client::{Here, Wanted};
use twin_nv::config::Config;
use twin_nv::errno::Failure;
use twin_nv::kernel::{Machine, Process};

use crate::driver::{Driver, Map, Result};
use crate::system;

/// A machine, and this process on it.
pub struct Nv {
    machine: Arc<Machine>,
    process: Arc<Process>,
}

/// What belongs to the machine, whether or not it is there: paths that begin so.
const OWNED: [&str; 6] = [
    "/dev/nvidia",
    "/dev/char/195:",
    "/proc/driver/nvidia",
    "/proc/devices",
    "/sys/module/nvidia",
    "/sys/bus/pci/devices",
];

/// How many more cases of a broken rule a report shows.
const MORE: usize = 40;

fn errno(failure: Failure) -> i32 {
    match failure {
        Failure::Errno(errno) => errno.0,
        // No system call returns one.
        Failure::Status(_) => libc::EIO,
    }
}

/// A descriptor that is closed with this.
struct Own(i32);

impl Own {
    fn signal(&self, ready: bool) {
        system::signal(self.0, ready);
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // It is open.
        let _ = system::close(self.0);
    }
}

impl Nv {
    /// A machine of a config string.
    ///
    /// # Errors
    /// What is wrong with the string, or what the host lacks.
    pub fn new(config: &str) -> std::result::Result<Nv, String> {
        let config = Config::parse(config).map_err(|wrong| wrong.to_string())?;
        let machine = Machine::new(config).map_err(|error| error.to_string())?;
        let process = machine.attach(Arc::new(Here::default()));
        Ok(Nv { machine, process })
    }
}

impl Driver for Nv {
    fn owns(&self, path: &str) -> bool {
        OWNED.iter().any(|owned| path.starts_with(owned))
    }

    fn nodes(&self) -> Vec<(String, Node)> {
        let nodes = self.machine.nodes();
        let nodes = nodes.map(|(path, node)| (path.to_owned(), node.map(|own| own.device())));
        nodes.collect()
    }

    fn is_device(&self, path: &str) -> bool {
        self.machine
            .node(path)
            .is_some_and(|node| matches!(node, Node::Own(_)))
    }

    fn open(&self, path: &str, flags: i32) -> Result<i32> {
        let fd = system::placeholder(flags)?;
        match self.process.open_as(path, Some(fd)) {
            Ok(_) => {
                // The descriptor may be closed while the file lives on with another one.
                let own = Own(system::dup(fd, None)?);
                let watcher = move |ready| own.signal(ready);
                self.process.watch(fd, Box::new(watcher)).map_err(errno)?;
                Ok(fd)
            }
            Err(failure) => {
                system::close(fd)?;
                Err(errno(failure))
            }
        }
    }

    fn duplicated(&self, from: i32, to: i32) {
        // It is open, and `to` is nobody's.
        let _ = self.process.dup_as(from, Some(to));
    }

    fn closing(&self, fd: i32) {
        // It is open.
        let _ = self.process.close(fd);
    }

    fn ready(&self, fd: i32) -> bool {
        self.process.ready(fd).unwrap_or_default()
    }

    fn ioctl(&self, fd: i32, request: u32, argument: u64) -> Result<i32> {
        let done = self.process.ioctl(fd, request, argument);
        done.map(|()| 0).map_err(|errno| errno.0)
    }

    fn mmap(&self, fd: i32, map: Map) -> Result<u64> {
        let wanted = Wanted {
            address: map.at,
            bytes: map.bytes,
            protection: map.protection,
            flags: map.flags,
        };
        self.process.mmap(wanted, fd, map.offset).map_err(errno)
    }

    fn munmap(&self, at: u64, bytes: u64) -> Result<bool> {
        // What devices have not mapped there is taken away with it.
        self.process.munmap(at, bytes).map_err(errno)?;
        Ok(true)
    }

    fn version(&self) -> Option<String> {
        Some(self.machine.config.driver.clone())
    }

    fn broken(&self) -> Vec<String> {
        let mut seen: Vec<(&str, String, Vec<String>)> = Vec::new();
        for violation in self.machine.journal.violations() {
            match seen.iter_mut().find(|one| one.0 == violation.rule.name) {
                Some(one) => one.2.push(violation.what),
                None => seen.push((violation.rule.name, violation.to_string(), Vec::new())),
            }
        }
        let times = |(_, mut text, more): (&str, String, Vec<String>)| {
            if !more.is_empty() {
                text += &format!("\n  and {} times more", more.len());
            }
            for what in more.iter().take(MORE) {
                text += &format!("\n  too: {what}");
            }
            text
        };
        seen.into_iter().map(times).collect()
    }

    fn finish(&self) {}
}
