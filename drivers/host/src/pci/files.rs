//! [`Files`]: access to the system's control files, as text.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use hcq::transport::TransportError;
use hcq::transport::found::{self, PciFunction};
use nix::unistd::{AccessFlags, access};

use super::kept;
use crate::devfile::refused;

/// Who may use a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rights {
    /// Permission bits.
    pub mode: u32,
    /// The group, by number.
    pub gid: u32,
}

/// Files of the system, by their absolute paths.
pub trait Files {
    /// The text of a file.
    ///
    /// # Errors
    /// The system's.
    fn read(&self, path: &str) -> io::Result<String>;

    /// The names in a folder.
    ///
    /// # Errors
    /// The system's.
    fn list(&self, path: &str) -> io::Result<Vec<String>>;

    /// Who may use a file.
    ///
    /// # Errors
    /// The system's: above all that it is not there.
    fn rights(&self, path: &str) -> io::Result<Rights>;

    /// Whether this process may read and write a file; does not open it.
    ///
    /// # Errors
    /// The system's.
    fn may_write(&self, path: &str) -> io::Result<()>;

    /// Writes a line to an existing file of the system.
    ///
    /// # Errors
    /// The system's.
    fn tell(&self, path: &str, value: &str) -> io::Result<()>;

    /// The text of a file of ours.
    ///
    /// # Errors
    /// The system's; a link, or a file of another user.
    fn kept(&self, path: &str) -> io::Result<String>;

    /// Appends lines to one of our files, creating it if needed, and syncs it.
    ///
    /// # Errors
    /// The system's; a link, or a file of another user.
    fn append(&self, path: &str, text: &str) -> io::Result<()>;

    /// Atomically replaces the text of one of our files, or removes the file if the text is empty.
    ///
    /// # Errors
    /// As [`Files::append`].
    fn replace(&self, path: &str, text: &str) -> io::Result<()>;
}

/// The PCI functions that some files tell of; none where there is no such bus.
///
/// # Errors
/// [`hcq::transport::Fault::Errno`], with the path.
pub fn functions(files: &dyn Files) -> Result<Vec<PciFunction>, TransportError> {
    let read = |path: &str| files.read(path).map_err(|e| refused(path, "read", &e));
    let list = |path: &str| files.list(path).map_err(|e| refused(path, "list", &e));
    found::pci_functions(&read, &list)
}

/// The files of this machine, or those in a folder that looks like one.
#[derive(Clone, Debug)]
pub struct System {
    root: PathBuf,
}

impl System {
    /// This machine.
    pub fn this() -> System {
        System::at("/")
    }

    /// A folder in which there are `sys`, `proc` and `run`.
    pub fn at(root: impl Into<PathBuf>) -> System {
        System { root: root.into() }
    }

    /// Where a file is.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

impl Files for System {
    fn read(&self, path: &str) -> io::Result<String> {
        std::fs::read_to_string(self.path(path))
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let name = |entry: io::Result<std::fs::DirEntry>| {
            Ok(entry?.file_name().to_string_lossy().into_owned())
        };
        std::fs::read_dir(self.path(path))?.map(name).collect()
    }

    fn rights(&self, path: &str) -> io::Result<Rights> {
        let metadata = std::fs::metadata(self.path(path))?;
        Ok(Rights {
            mode: metadata.mode() & 0o777,
            gid: metadata.gid(),
        })
    }

    fn may_write(&self, path: &str) -> io::Result<()> {
        let wanted = AccessFlags::R_OK | AccessFlags::W_OK;
        Ok(access(&self.path(path), wanted)?)
    }

    fn tell(&self, path: &str, value: &str) -> io::Result<()> {
        // As `echo` does. The kernel takes what one write brings; one of no bytes would bring nothing.
        let mut options = OpenOptions::new();
        let mut file = options.write(true).truncate(true).open(self.path(path))?;
        file.write_all(format!("{value}\n").as_bytes())
    }

    fn append(&self, path: &str, text: &str) -> io::Result<()> {
        kept::append(&self.path(path), text)
    }

    fn kept(&self, path: &str) -> io::Result<String> {
        kept::read(&self.path(path))
    }

    fn replace(&self, path: &str, text: &str) -> io::Result<()> {
        kept::replace(&self.path(path), text)
    }
}

/// The folder of a function.
pub(super) fn folder(address: &str) -> String {
    format!("/sys/bus/pci/devices/{address}")
}
