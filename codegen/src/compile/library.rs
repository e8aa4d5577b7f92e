//! Compilers that are shared libraries, loaded where they are installed: who wrote one is looked at, and its
//! functions are looked up by their names.

use std::path::PathBuf;

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

/// The first of some files that can be loaded, and where it is; what was said of all of them if there is none.
pub(super) fn load_first(
    candidates: Vec<PathBuf>,
    rights: &Rights,
) -> Result<(Library, PathBuf), String> {
    let mut said = Vec::new();
    for path in candidates {
        // A name without a folder is looked up by the system's loader.
        let path = match path.parent() {
            Some(folder) if folder.as_os_str().is_empty() => path,
            _ => match rights.vouch(&path) {
                Ok(real) => real,
                Err(why) => {
                    said.push(format!("{} ({why})", path.display()));
                    continue;
                }
            },
        };
        // SAFETY: loading runs the initialisers of the library, which is the one of that name.
        match unsafe { Library::new(&path) } {
            Ok(library) => return Ok((library, path)),
            Err(e) => said.push(e.to_string()),
        }
    }
    Err(said.join("; "))
}
