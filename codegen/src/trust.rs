//! Whose machine code is run: that of the user whose rights this process has, and of root. A place that others can
//! write to is no place to take code from, and a process with more rights than the one who started it takes none
//! from places that the environment names.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{getegid, geteuid, getgid, getuid};

/// Writable by the group or by everybody.
pub(crate) const BY_OTHERS: u32 = 0o022;
/// In a folder with this bit only the owner of an entry replaces it.
const STICKY: u32 = 0o1000;
/// `AT_SECURE` of `/usr/include/elf.h`: the program that was started gave rights (set-user-ID, capabilities).
const AT_SECURE: usize = 23;

/// The rights of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rights {
    /// User and group whose rights it has.
    pub effective: [u32; 2],
    /// User and group who started it.
    pub real: [u32; 2],
    /// The kernel says that it was given rights; `None` if that cannot be read.
    pub given: Option<bool>,
}

impl Rights {
    /// Of this process.
    pub fn own() -> Rights {
        Rights {
            effective: [geteuid().as_raw(), getegid().as_raw()],
            real: [getuid().as_raw(), getgid().as_raw()],
            given: fs::read("/proc/self/auxv").ok().and_then(|b| secure(&b)),
        }
    }

    /// Why nothing that the environment names is run; `None` if it may be.
    pub fn elevated(&self) -> Option<String> {
        let ([eu, eg], [ru, rg]) = (self.effective, self.real);
        if (eu, eg) != (ru, rg) {
            return Some(format!(
                "this process runs as user {eu}, group {eg}, but was started by user {ru}, group {rg}"
            ));
        }
        match self.given {
            Some(false) => None,
            Some(true) => Some("this process has more rights than its user".into()),
            None => Some(
                "cannot tell from /proc/self/auxv whether this process has more rights than its user".into(),
            ),
        }
    }

    /// The file behind a path, all links followed, if nobody else can change it or put another in its place.
    ///
    /// # Errors
    /// What is in the way, as a sentence.
    pub fn vouch(&self, path: &Path) -> Result<PathBuf, String> {
        if let Some(why) = self.elevated() {
            return Err(why);
        }
        let real = path
            .canonicalize()
            .map_err(|e| format!("{}: {e}", path.display()))?;
        for (depth, part) in real.ancestors().enumerate() {
            let meta =
                fs::symlink_metadata(part).map_err(|e| format!("{}: {e}", part.display()))?;
            if ![0, self.effective[0]].contains(&meta.uid()) {
                return Err(format!(
                    "{} is owned by user {}, expected user {} or root",
                    part.display(),
                    meta.uid(),
                    self.effective[0]
                ));
            }
            let shared = depth > 0 && meta.mode() & STICKY != 0;
            if meta.mode() & BY_OTHERS != 0 && !shared {
                return Err(format!(
                    "{} is writable by others (mode {:o}); run `chmod go-w {}`",
                    part.display(),
                    meta.mode() & 0o7777,
                    part.display()
                ));
            }
        }
        Ok(real)
    }
}

/// `AT_SECURE` in an auxiliary vector: pairs of words, a kind and a value, of this machine.
fn secure(vector: &[u8]) -> Option<bool> {
    const WORD: usize = size_of::<usize>();
    let word = |bytes: &[u8]| Some(usize::from_ne_bytes(bytes.try_into().ok()?));
    vector.chunks_exact(2 * WORD).find_map(|pair| {
        let (kind, value) = pair.split_at(WORD);
        (word(kind)? == AT_SECURE).then(|| word(value).map(|v| v != 0))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn plain() -> Rights {
        Rights {
            real: Rights::own().effective,
            given: Some(false),
            ..Rights::own()
        }
    }

    #[test]
    fn more_rights_than_the_user_has_are_seen() {
        assert_eq!(plain().elevated(), None);
        let user = Rights {
            real: [plain().effective[0] + 1, plain().effective[1]],
            ..plain()
        };
        let group = Rights {
            real: [plain().effective[0], plain().effective[1] + 1],
            ..plain()
        };
        let (given, unknown) = (Some(true), None);
        for rights in [
            user,
            group,
            Rights { given, ..plain() },
            Rights {
                given: unknown,
                ..plain()
            },
        ] {
            assert!(rights.elevated().is_some(), "{rights:?}");
            assert!(rights.vouch(Path::new("/")).is_err());
        }
    }

    #[test]
    fn the_auxiliary_vector_is_read() {
        let words = |list: &[usize]| {
            list.iter()
                .flat_map(|w| w.to_ne_bytes())
                .collect::<Vec<u8>>()
        };
        assert_eq!(secure(&words(&[3, 23, 23, 0, 0, 0])), Some(false));
        assert_eq!(secure(&words(&[3, 23, 23, 1, 0, 0])), Some(true));
        assert_eq!(secure(&words(&[3, 1, 0, 0])), None);
        assert_eq!(secure(&[]), None);
        assert!(Rights::own().given.is_some());
    }

    #[test]
    fn a_file_that_others_can_replace_is_not_vouched_for() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, other) = (dir.path().join("lib"), dir.path().join("other"));
        let (file, link) = (folder.join("a.so"), other.join("a.so"));
        fs::create_dir(&folder).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(&file, "").unwrap();
        symlink(&file, &link).unwrap();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(&file, 0o644);
        mode(&folder, 0o755);
        let real = file.canonicalize().unwrap();
        // What counts is where the file is, not how it is reached.
        mode(&other, 0o777);
        assert_eq!(plain().vouch(&link), Ok(real.clone()));
        for (path, loose, tight) in [(&file, 0o664, 0o644), (&folder, 0o777, 0o755)] {
            mode(path, loose);
            let why = plain().vouch(&link).unwrap_err();
            assert!(why.contains(&format!("mode {loose:o}")), "{why}");
            mode(path, tight);
        }
        mode(&folder, 0o1777);
        assert_eq!(plain().vouch(&file), Ok(real));
        let other = Rights {
            effective: [4321, 4321],
            real: [4321, 4321],
            ..plain()
        };
        if plain().effective[0] == 0 {
            nix::unistd::chown(&file, Some(1234.into()), None).unwrap();
            let why = plain().vouch(&file).unwrap_err();
            assert!(why.contains("is owned by user 1234"), "{why}");
        } else {
            let why = other.vouch(&file).unwrap_err();
            assert!(why.contains("expected user 4321"), "{why}");
        }
    }
}
