//! PTX through nvJitLink, NVIDIA's linker library, which is loaded at run time. It needs no driver.
//!
//! Source: `nvJitLink.h` of CUDA 12 and 13. Its functions are exported under names with a version, and those of
//! all earlier ones of the same major version.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::Arc;

use super::Compiler;
use super::cuda::{Toolkits, nvdisasm};
use super::library::{functions, load_first};
use crate::error::{Error, Result};
use crate::render::{Language, Source};
use crate::resources::Resources;
use crate::target::Target;
use crate::target::nv::own_name;
use crate::trust::Rights;

/// A link in progress.
type Handle = *mut c_void;
type Status = c_int;

/// `NVJITLINK_INPUT_PTX`.
const PTX: c_int = 2;

functions! {
    Create(*mut Handle, u32, *const *const c_char) -> Status;
    Destroy(*mut Handle) -> Status;
    AddData(Handle, c_int, *const c_void, usize, *const c_char) -> Status;
    Complete(Handle) -> Status;
    GetLinkedCubinSize(Handle, *mut usize) -> Status;
    GetLinkedCubin(Handle, *mut c_void) -> Status;
    GetErrorLogSize(Handle, *mut usize) -> Status;
    GetErrorLog(Handle, *mut c_char) -> Status;
}

struct JitLink {
    f: Functions,
    path: PathBuf,
    toolkits: Toolkits,
}

/// A link, given back when it is over.
struct Owned<'a> {
    handle: Handle,
    of: &'a JitLink,
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle came from the library and is freed once.
        unsafe { (self.of.f.Destroy)(&mut self.handle) };
    }
}

/// What a step of a compilation said.
type Said<T> = std::result::Result<T, String>;

impl JitLink {
    fn check(what: &str, status: Status) -> Said<()> {
        match status {
            0 => Ok(()),
            other => Err(format!("nvJitLink{what}: status {other}")),
        }
    }

    fn compile(&self, s: &Source, t: &Target) -> Said<Vec<u8>> {
        let f = &self.f;
        let text = CString::new(s.text.as_str()).map_err(|e| e.to_string())?;
        let arch = CString::new(format!("-arch={}", own_name(t))).map_err(|e| e.to_string())?;
        let options = [arch.as_ptr(), c"-O3".as_ptr()];
        let mut handle = std::ptr::null_mut();
        // SAFETY: the options are strings, which are alive during the call.
        Self::check("Create", unsafe {
            (f.Create)(&mut handle, options.len() as u32, options.as_ptr())
        })
        .map_err(|e| format!("{e}; it may not support {}", t.cpu))?;
        let link = Owned { handle, of: self };
        let bytes = text.as_bytes_with_nul();
        let said = |e| {
            let mut size = 0;
            // SAFETY: the handle is alive; the argument points to a `usize`.
            unsafe { (f.GetErrorLogSize)(link.handle, &mut size) };
            let mut log = vec![0u8; size];
            // SAFETY: there is room for as many bytes as the library said.
            unsafe { (f.GetErrorLog)(link.handle, log.as_mut_ptr().cast()) };
            let log = String::from_utf8_lossy(&log);
            format!("{e}\n{}", log.trim_end_matches('\0'))
        };
        // SAFETY: the library copies the text, which ends with a zero.
        let status = unsafe {
            let data = bytes.as_ptr().cast();
            (f.AddData)(link.handle, PTX, data, bytes.len(), c"kernel.ptx".as_ptr())
        };
        Self::check("AddData", status).map_err(said)?;
        // SAFETY: the handle is alive.
        Self::check("Complete", unsafe { (f.Complete)(link.handle) }).map_err(said)?;
        let mut size = 0;
        // SAFETY: the handle is alive; the argument points to a `usize`.
        let status = unsafe { (f.GetLinkedCubinSize)(link.handle, &mut size) };
        Self::check("GetLinkedCubinSize", status)?;
        let mut out = vec![0u8; size];
        // SAFETY: there is room for as many bytes as the library said.
        let status = unsafe { (f.GetLinkedCubin)(link.handle, out.as_mut_ptr().cast()) };
        Self::check("GetLinkedCubin", status)?;
        Ok(out)
    }
}

/// How to install an assembler of PTX.
pub(super) const FIX: [&str; 2] = [
    "pip install nvidia-nvjitlink (or nvidia-cuda-nvcc for ptxas), or install a CUDA 12 or 13 toolkit \
     and set CUDA_PATH",
    "in a checkout: scripts/fetch cuda",
];

/// Assembles PTX with NVIDIA's linker.
#[derive(Clone)]
pub struct JitLinkCompiler {
    library: Arc<JitLink>,
}

impl JitLinkCompiler {
    /// That of a toolkit.
    ///
    /// # Errors
    /// It is not installed.
    pub fn of(toolkits: &Toolkits) -> Result<Self> {
        let missing = |message: String, looked_in: String| Error::NoCompiler {
            compiler: "nvJitLink".into(),
            message,
            fix: &FIX,
            looked_in,
        };
        let names = [
            "libnvJitLink.so.13",
            "libnvJitLink.so.12",
            "libnvJitLink.so",
        ];
        let (library, path) =
            load_first(toolkits.libraries(&names), &Rights::own()).map_err(|e| {
                let looked_in = format!("{}, {}", toolkits.shown(), e.looked_in());
                missing(e.message("libnvJitLink"), looked_in)
            })?;
        let forms = [("__", "_13_0"), ("__", "_12_0"), ("", "")];
        let form = forms.into_iter().find(|(before, behind)| {
            let name = format!("{before}nvJitLinkCreate{behind}");
            // SAFETY: the symbol is looked up, not used.
            unsafe { library.get::<*const c_void>(name.as_bytes()) }.is_ok()
        });
        let (before, behind) = form.unwrap_or(("", ""));
        let f = Functions::of(library, |name| format!("{before}nvJitLink{name}{behind}")).map_err(
            |e| {
                let path = path.display();
                let message = format!("needs libnvJitLink, but {path} is another library: {e}");
                missing(message, String::new())
            },
        )?;
        Ok(JitLinkCompiler {
            library: Arc::new(JitLink {
                f,
                path,
                toolkits: toolkits.clone(),
            }),
        })
    }
}

impl Compiler for JitLinkCompiler {
    fn name(&self) -> &'static str {
        "nvjitlink"
    }

    /// The library says no version everywhere: its file stands for it, by name and size.
    fn version(&self) -> String {
        let path = &self.library.path;
        let bytes = std::fs::metadata(path).map_or(0, |m| m.len());
        format!("{} {bytes} -O3", path.display())
    }

    fn release(&self) -> String {
        format!("nvJitLink {}", self.library.path.display())
    }

    fn compile(&self, s: &Source, t: &Target) -> Result<Vec<u8>> {
        let failed = |stage, message| Error::Compile {
            compiler: "nvjitlink",
            entry: s.entry.clone(),
            stage,
            message,
        };
        if s.language != Language::Ptx {
            let found = format!("{:?} source, expected PTX", s.language);
            return Err(failed("input", found));
        }
        self.library
            .compile(s, t)
            .map_err(|message| failed("compile", message))
    }

    fn resources(&self, obj: &[u8], t: &Target, items: u32) -> Option<Resources> {
        Resources::of_cubin(obj, t, items)
    }

    fn disassemble(&self, obj: &[u8]) -> Result<String> {
        nvdisasm(&self.library.toolkits, obj)
    }
}
