//! [`Scratch`]: a folder for what work writes that nobody wants.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::program::error::Error;

/// A new folder that only this user can look into; it goes with all that is in it.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Among the temporary files of the person.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> Result<Scratch, Error> {
        let all = std::env::temp_dir();
        let mut number = 0;
        loop {
            let path = all.join(format!("doorbell-replay-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                // A name that somebody has: neither is it followed, nor is anything in it used.
                Err(e) if e.kind() == ErrorKind::AlreadyExists && number < 1000 => number += 1,
                Err(source) => {
                    return Err(Error::File {
                        path: path.display().to_string(),
                        source,
                    });
                }
                Ok(()) => return Ok(Scratch(path)),
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left is in the way of nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
