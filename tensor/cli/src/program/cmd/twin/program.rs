//! The program to be run, and the library that goes with it.

use std::fs;
use std::path::{Path, PathBuf};

use object::elf::{ELFCLASS32, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, elf};

use crate::program::error::Error;

/// The library's name.
const LIBRARY: &str = "libdoorbell_preload.so";

fn refused(what: String) -> Error {
    Error::Usage(what)
}

/// Finds a program as a shell does.
pub fn find(name: &Path) -> Result<PathBuf, Error> {
    if name.components().count() > 1 || name.is_absolute() {
        return Ok(name.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    let found = places.find(|place| place.is_file());
    found.ok_or_else(|| refused(format!("{}: not found in PATH", name.display())))
}

/// Refuses what the loader would not load the library into.
pub fn check(path: &Path) -> Result<(), Error> {
    let shown = path.display();
    let failed = |source| Error::File {
        path: shown.to_string(),
        source,
    };
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(path).map_err(failed)?.permissions().mode();
    if mode & 0o6000 != 0 {
        return Err(refused(format!(
            "{shown} is setuid or setgid: the loader preloads no library into such programs, so it \
             would use the real devices; run a copy of it"
        )));
    }
    let bytes = fs::read(path).map_err(failed)?;
    // A script: its interpreter is a program like others.
    if !bytes.starts_with(&elf::ELFMAG) {
        return Ok(());
    }
    let wrong = |what: &str| {
        refused(format!(
            "{shown} is {what}: the simulated card is preloaded into dynamically linked x86-64 programs \
             only; link it dynamically"
        ))
    };
    if bytes.get(4) == Some(&ELFCLASS32.0) {
        return Err(wrong("a 32-bit program"));
    }
    let header = elf::FileHeader64::<Endianness>::parse(&*bytes);
    let parts = header.and_then(|header| {
        let endian = header.endian()?;
        Ok((endian, header.program_headers(endian, &*bytes)?))
    });
    let Ok((endian, parts)) = parts else {
        return Err(wrong("not a complete ELF file"));
    };
    match parts.iter().any(|part| part.p_type(endian) == PT_INTERP) {
        true => Ok(()),
        false => Err(wrong("statically linked (no PT_INTERP)")),
    }
}

/// The library, which lies beside this program.
pub fn library() -> Result<PathBuf, Error> {
    let own = std::env::current_exe().map_err(|source| Error::File {
        path: "this program".into(),
        source,
    })?;
    let beside = own.parent().unwrap_or(Path::new("/"));
    // Of an installed program; of one that cargo has built, with what its tests need. The newest: cargo leaves an
    // older one beside the program when it builds that of the tests.
    let places = ["", "../lib", "deps"].map(|folder| beside.join(folder).join(LIBRARY));
    let age = |place: &&PathBuf| place.metadata().and_then(|found| found.modified()).ok();
    let found = places
        .iter()
        .filter(|place| place.is_file())
        .max_by_key(age);
    found.cloned().ok_or_else(|| {
        let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        refused(format!(
            "{LIBRARY} is missing (looked in {}); build it with `cargo build -p twin-preload`, adding \
             --release for a release build",
            places.join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_and_scripts_are_let_through() {
        assert!(find(Path::new("sh")).is_ok_and(|sh| sh.is_absolute()));
        let missing = find(Path::new("no-such-program")).unwrap_err().to_string();
        assert!(missing.contains("not found in PATH"), "{missing}");
        assert!(check(&find(Path::new("sh")).unwrap()).is_ok());
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        assert!(check(&script).is_ok());
        fs::write(&script, b"\x7fELF\x02\x01\x01").unwrap();
        let broken = check(&script).unwrap_err().to_string();
        assert!(broken.contains("not a complete ELF file"), "{broken}");
    }
}
