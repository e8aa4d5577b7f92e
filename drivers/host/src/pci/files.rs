//! [`Files`]: the files by which the system is asked and told, as text.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;

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

    /// Tells the system, by one write to a file that is there.
    ///
    /// # Errors
    /// The system's.
    fn tell(&self, path: &str, value: &str) -> io::Result<()>;

    /// Adds text to a file of ours, which is made if it is not there, and waits until it is kept.
    ///
    /// # Errors
    /// The system's.
    fn append(&self, path: &str, text: &str) -> io::Result<()>;

    /// Removes a file of ours.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, path: &str) -> io::Result<()>;
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

    fn tell(&self, path: &str, value: &str) -> io::Result<()> {
        // The kernel takes what one write brings.
        let mut file = OpenOptions::new().write(true).open(self.path(path))?;
        file.write_all(value.as_bytes())
    }

    fn append(&self, path: &str, text: &str) -> io::Result<()> {
        let path = self.path(path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        std::fs::remove_file(self.path(path))
    }
}

/// The folder of a function.
pub(super) fn folder(address: &str) -> String {
    format!("/sys/bus/pci/devices/{address}")
}
