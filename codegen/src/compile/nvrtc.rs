//! CUDA C through NVRTC, NVIDIA's compiler library, which is loaded at run time. It needs no driver.
//!
//! Source: `nvrtc.h` of CUDA 12 and 13.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::Compiler;
use super::cuda::{Toolkits, nvdisasm};
use super::library::{functions, load_first};
use crate::error::{Error, Result};
use crate::render::{Language, Source};
use crate::resources::Resources;
use crate::target::Target;
use crate::target::nv::own_name;
use crate::trust::Rights;

/// A program that is being compiled.
type Handle = *mut c_void;
type Status = c_int;

functions! {
    nvrtcVersion(*mut c_int, *mut c_int) -> Status;
    nvrtcGetErrorString(Status) -> *const c_char;
    nvrtcGetNumSupportedArchs(*mut c_int) -> Status;
    nvrtcGetSupportedArchs(*mut c_int) -> Status;
    nvrtcCreateProgram(*mut Handle, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char)
        -> Status;
    nvrtcDestroyProgram(*mut Handle) -> Status;
    nvrtcCompileProgram(Handle, c_int, *const *const c_char) -> Status;
    nvrtcGetProgramLogSize(Handle, *mut usize) -> Status;
    nvrtcGetProgramLog(Handle, *mut c_char) -> Status;
    nvrtcGetCUBINSize(Handle, *mut usize) -> Status;
    nvrtcGetCUBIN(Handle, *mut c_char) -> Status;
}

/// Options beside the chip. Where a multiplication and an addition may be one, the source says so.
const FLAGS: [&str; 3] = ["--std=c++17", "--fmad=false", "--disable-warnings"];

struct Nvrtc {
    f: Functions,
    version: (c_int, c_int),
    path: PathBuf,
    toolkits: Toolkits,
}

const FIX: [&str; 3] = [
    "pip install nvidia-cuda-nvrtc, or install a CUDA 12 or 13 toolkit and set CUDA_PATH",
    "DEV=NV:PTX, which does not need libnvrtc",
    "in a checkout: scripts/fetch cuda",
];

fn missing(message: String, looked_in: String) -> Error {
    Error::NoCompiler {
        compiler: "NV:CUDA".into(),
        message,
        fix: &FIX,
        looked_in,
    }
}

fn load(toolkits: &Toolkits, rights: &Rights) -> Result<Nvrtc> {
    let names = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];
    let (library, path) = load_first(toolkits.libraries(&names), rights).map_err(|e| {
        let looked_in = format!("{}, {}", toolkits.shown(), e.looked_in());
        missing(e.message("libnvrtc"), looked_in)
    })?;
    let broken = |message: String| missing(message, String::new());
    let f = Functions::of(library, str::to_owned).map_err(|e| {
        let path = path.display();
        broken(format!(
            "needs libnvrtc, but {path} is another library: {e}"
        ))
    })?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both point to an integer.
    unsafe { (f.nvrtcVersion)(&mut major, &mut minor) };
    if major < 12 {
        return Err(broken(format!(
            "needs libnvrtc 12 or newer; {} has version {major}.{minor}",
            path.display()
        )));
    }
    Ok(Nvrtc {
        f,
        version: (major, minor),
        path,
        toolkits: toolkits.clone(),
    })
}

/// A program of the library, given back when it is no longer used.
struct Owned<'a> {
    handle: Handle,
    of: &'a Nvrtc,
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle came from the library and is freed once.
        unsafe { (self.of.f.nvrtcDestroyProgram)(&mut self.handle) };
    }
}

/// What a step of a compilation said.
type Said<T> = std::result::Result<T, String>;

impl Nvrtc {
    fn check(&self, what: &str, status: Status) -> Said<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the library gives a string that it never frees, for any status.
        let text = unsafe { CStr::from_ptr((self.f.nvrtcGetErrorString)(status)) };
        Err(format!("{what}: {}", text.to_string_lossy()))
    }

    /// Refuses a chip that the library does not know.
    fn knows(&self, t: &Target) -> Said<()> {
        let mut count = 0;
        // SAFETY: the argument points to an integer.
        self.check("nvrtcGetNumSupportedArchs", unsafe {
            (self.f.nvrtcGetNumSupportedArchs)(&mut count)
        })?;
        let mut all = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: there is room for as many numbers as the library said.
        self.check("nvrtcGetSupportedArchs", unsafe {
            (self.f.nvrtcGetSupportedArchs)(all.as_mut_ptr())
        })?;
        // `sm_90a` is sm_90 with instructions of that chip alone.
        let plain = t.cpu.trim_end_matches(['a', 'f']);
        if all.iter().any(|n| plain == format!("sm_{n}")) {
            return Ok(());
        }
        let newest = all.last().map_or("none".into(), |n| format!("sm_{n}"));
        let ((major, minor), path) = (self.version, self.path.display());
        Err(format!(
            "cannot compile for {}: {path} (version {major}.{minor}) supports up to {newest}; install a newer CUDA \
             toolkit or nvidia-cuda-nvrtc",
            t.cpu
        ))
    }

    /// Bytes of a kind that the library holds of a program.
    fn bytes(
        &self,
        what: &str,
        handle: Handle,
        size: unsafe extern "C" fn(Handle, *mut usize) -> Status,
        get: unsafe extern "C" fn(Handle, *mut c_char) -> Status,
    ) -> Said<Vec<u8>> {
        let mut bytes = 0;
        // SAFETY: the handle is alive; the argument points to a `usize`.
        self.check(what, unsafe { size(handle, &mut bytes) })?;
        let mut out = vec![0u8; bytes];
        // SAFETY: there is room for as many bytes as the library said.
        self.check(what, unsafe { get(handle, out.as_mut_ptr().cast()) })?;
        Ok(out)
    }

    fn compile(&self, s: &Source, t: &Target) -> Said<Vec<u8>> {
        let f = &self.f;
        self.knows(t)?;
        let text = CString::new(s.text.as_str()).map_err(|e| e.to_string())?;
        let mut handle = std::ptr::null_mut();
        let none = std::ptr::null();
        // SAFETY: text and name are strings, which the library copies; there are no headers.
        self.check("nvrtcCreateProgram", unsafe {
            (f.nvrtcCreateProgram)(
                &mut handle,
                text.as_ptr(),
                c"kernel.cu".as_ptr(),
                0,
                none,
                none,
            )
        })?;
        let program = Owned { handle, of: self };
        let arch = format!("--gpu-architecture={}", own_name(t));
        let options: Vec<CString> = FLAGS
            .into_iter()
            .chain([arch.as_str()])
            .map(|o| CString::new(o).map_err(|e| e.to_string()))
            .collect::<Said<_>>()?;
        let list: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        // SAFETY: the program and the strings are alive.
        let status =
            unsafe { (f.nvrtcCompileProgram)(program.handle, list.len() as c_int, list.as_ptr()) };
        self.check("nvrtcCompileProgram", status).map_err(|e| {
            let (size, get) = (f.nvrtcGetProgramLogSize, f.nvrtcGetProgramLog);
            let log = self
                .bytes("log", program.handle, size, get)
                .unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            format!("{e}\n{}", log.trim_end_matches('\0'))
        })?;
        let (size, get) = (f.nvrtcGetCUBINSize, f.nvrtcGetCUBIN);
        self.bytes("nvrtcGetCUBIN", program.handle, size, get)
    }
}

/// Compiles CUDA C with NVIDIA's library.
#[derive(Clone)]
pub struct NvrtcCompiler {
    library: Arc<Nvrtc>,
}

impl NvrtcCompiler {
    /// The library, loaded once, to compile for a chip.
    ///
    /// # Errors
    /// It is not installed, or too old for the chip.
    pub fn find(t: &Target) -> Result<Self> {
        static LOADED: OnceLock<Arc<Nvrtc>> = OnceLock::new();
        let library = match LOADED.get() {
            Some(library) => library.clone(),
            None => {
                let library = Arc::new(load(&Toolkits::of_this_system(), &Rights::own())?);
                LOADED.get_or_init(|| library).clone()
            }
        };
        NvrtcCompiler { library }.for_chip(t)
    }

    /// That of a toolkit.
    ///
    /// # Errors
    /// As [`NvrtcCompiler::find`].
    pub fn of(toolkits: &Toolkits, t: &Target) -> Result<Self> {
        let library = Arc::new(load(toolkits, &Rights::own())?);
        NvrtcCompiler { library }.for_chip(t)
    }

    fn for_chip(self, t: &Target) -> Result<Self> {
        self.library.knows(t).map_err(|message| Error::NoCompiler {
            compiler: "NV:CUDA".into(),
            message,
            fix: &[],
            looked_in: String::new(),
        })?;
        Ok(self)
    }
}

impl Compiler for NvrtcCompiler {
    fn name(&self) -> &'static str {
        "nvrtc"
    }

    fn version(&self) -> String {
        let (major, minor) = self.library.version;
        let path = self.library.path.display();
        format!("{major}.{minor} {path} {}", FLAGS.join(" "))
    }

    fn release(&self) -> String {
        let (major, minor) = self.library.version;
        format!("NVRTC {major}.{minor}, {}", self.library.path.display())
    }

    fn compile(&self, s: &Source, t: &Target) -> Result<Vec<u8>> {
        let failed = |stage, message| Error::Compile {
            compiler: "nvrtc",
            entry: s.entry.clone(),
            stage,
            message,
        };
        if s.language != Language::Cuda {
            let found = format!("{:?} source, expected CUDA", s.language);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let lib = dir.path().join("lib");
        std::fs::create_dir(&lib).unwrap();
        std::fs::write(lib.join("libnvrtc.so.12"), "no library").unwrap();
        let toolkits = Toolkits::at(dir.path());
        let text = load(&toolkits, &Rights::own()).err().unwrap().to_string();
        for part in [
            "NV:CUDA",
            &*dir.path().display().to_string(),
            "libnvrtc.so.12",
            "libnvrtc.so.13",
            "CUDA_PATH",
            "nvidia-cuda-nvrtc",
            "NV:PTX",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            Toolkits::of_this_system()
                .shown()
                .contains("/usr/local/cuda")
        );
    }
}
