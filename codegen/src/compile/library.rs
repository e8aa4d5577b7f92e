//! Compilers that are shared libraries. They are loaded at run time, after a check that only this user or root can
//! write them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use libloading::Library;

use crate::trust::Rights;

/// Makes a struct of function pointers with a constructor that looks them up.
macro_rules! functions {
    ($($name:ident($($arg:ty),*) -> $ret:ty;)*) => {
        #[allow(non_snake_case, reason = "names are the vendor's")]
        struct Functions {
            $($name: unsafe extern "C" fn($($arg),*) -> $ret,)*
            // The pointers are into it. It stays to the end of the process: threads that it has started, and what
            // it has registered for that end, are code of it.
            _library: std::mem::ManuallyDrop<libloading::Library>,
        }

        impl Functions {
            /// `symbol` gives the symbol of a name.
            fn of(
                library: libloading::Library,
                symbol: impl Fn(&str) -> String,
            ) -> std::result::Result<Functions, libloading::Error> {
                // SAFETY: the types are those of the vendor's header, which the module names; the pointers
                // live as long as the library, which is kept beside them.
                unsafe {
                    Ok(Functions {
                        $($name: *library.get(symbol(stringify!($name)).as_bytes())?,)*
                        _library: std::mem::ManuallyDrop::new(library),
                    })
                }
            }
        }
    };
}
pub(super) use functions;

/// Why none of some files could be loaded.
pub(super) struct NotLoaded {
    /// Errors of files that exist.
    failed: Vec<String>,
    /// Paths and names that do not.
    absent: Vec<PathBuf>,
}

impl NotLoaded {
    /// For [`crate::Error::NoCompiler`].
    pub(super) fn message(&self, library: &str) -> String {
        match self.failed.as_slice() {
            [] => format!("needs {library}, which is not installed"),
            failed => format!("cannot load {library}: {}", failed.join("; ")),
        }
    }

    /// The paths and names that do not exist, in one line.
    pub(super) fn looked_in(&self) -> String {
        let (names, paths): (Vec<_>, Vec<_>) = self.absent.iter().partition(|path| is_name(path));
        let list = |all: Vec<&PathBuf>| {
            let all: Vec<String> = all.iter().map(|path| path.display().to_string()).collect();
            all.join(", ")
        };
        match (list(paths), list(names)) {
            (paths, names) if names.is_empty() => paths,
            (paths, names) if paths.is_empty() => format!("the loader's path ({names})"),
            (paths, names) => format!("{paths}, the loader's path ({names})"),
        }
    }
}

/// A name without a folder is looked up by the system's loader.
fn is_name(path: &Path) -> bool {
    path.parent()
        .is_some_and(|folder| folder.as_os_str().is_empty())
}

/// The first of some files that can be loaded, with its path.
pub(super) fn load_first(
    candidates: Vec<PathBuf>,
    rights: &Rights,
) -> Result<(Library, PathBuf), NotLoaded> {
    load_fitting(candidates, rights, |library, path| Ok((library, path)))
}

/// The first of some files that can be loaded and that `fit` takes, which otherwise says why not.
pub(super) fn load_fitting<T>(
    candidates: Vec<PathBuf>,
    rights: &Rights,
    fit: impl Fn(Library, PathBuf) -> Result<T, String>,
) -> Result<T, NotLoaded> {
    let (mut failed, mut absent) = (Vec::new(), Vec::new());
    for path in candidates {
        let path = if is_name(&path) {
            path
        } else if std::fs::metadata(&path).is_err_and(|e| e.kind() == ErrorKind::NotFound) {
            absent.push(path);
            continue;
        } else {
            match rights.vouch(&path) {
                Ok(real) => real,
                Err(why) => {
                    failed.push(format!("{} ({why})", path.display()));
                    continue;
                }
            }
        };
        // SAFETY: loading runs the initialisers of the library, which is the one of that name.
        match unsafe { Library::new(&path) } {
            Ok(library) => match fit(library, path) {
                Ok(fitting) => return Ok(fitting),
                Err(why) => failed.push(why),
            },
            // The loader's text, with the missing file first: another file is one that this library needs.
            Err(e) => match e.to_string() {
                text if is_name(&path)
                    && text.starts_with(&format!("{}: ", path.display()))
                    && text.ends_with("No such file or directory") =>
                {
                    absent.push(path);
                }
                text => failed.push(text),
            },
        }
    }
    Err(NotLoaded { failed, absent })
}
