//! OpenCL C through the library of Qualcomm's OpenCL, which boards with an Adreno GPU have. It is loaded at run time, only
//! compiles, and only for the GPU of the board: what runs the kernels is the driver of this project.
//!
//! Source: Khronos, "The OpenCL API Specification" 1.2, and `CL/cl.h` for its numbers. What the library says of itself:
//! outputs of `clinfo` on boards (`QUALCOMM Snapdragon(TM)`, `OpenCL 2.0 Adreno(TM) 630`). What a binary contains:
//! [`drivers_spec::qcom::opencl`].

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use drivers_spec::qcom::opencl::Binary;

use super::Compiler;
use super::library::{functions, load_fitting};
use crate::error::{Error, Result};
use crate::ir3;
use crate::render::{Language, Source};
use crate::resources::Resources;
use crate::target::{Target, qcom};
use crate::trust::Rights;

/// An object of the library.
type Handle = *mut c_void;
type Status = c_int;

functions! {
    clGetPlatformIDs(u32, *mut Handle, *mut u32) -> Status;
    clGetPlatformInfo(Handle, u32, usize, *mut c_void, *mut usize) -> Status;
    clGetDeviceIDs(Handle, u64, u32, *mut Handle, *mut u32) -> Status;
    clGetDeviceInfo(Handle, u32, usize, *mut c_void, *mut usize) -> Status;
    clCreateContext(*const isize, u32, *const Handle, *const c_void, *mut c_void, *mut Status) -> Handle;
    clReleaseContext(Handle) -> Status;
    clCreateProgramWithSource(Handle, u32, *const *const c_char, *const usize, *mut Status) -> Handle;
    clBuildProgram(Handle, u32, *const Handle, *const c_char, *const c_void, *mut c_void) -> Status;
    clGetProgramBuildInfo(Handle, Handle, u32, usize, *mut c_void, *mut usize) -> Status;
    clGetProgramInfo(Handle, u32, usize, *mut c_void, *mut usize) -> Status;
    clReleaseProgram(Handle) -> Status;
}

const PLATFORM_VERSION: u32 = 0x901;
const PLATFORM_NAME: u32 = 0x902;
const DEVICE_TYPE_GPU: u64 = 1 << 2;
const DRIVER_VERSION: u32 = 0x102d;
const DEVICE_VERSION: u32 = 0x102f;
const CONTEXT_PLATFORM: isize = 0x1084;
const PROGRAM_BINARY_SIZES: u32 = 0x1165;
const PROGRAM_BINARIES: u32 = 0x1166;
const PROGRAM_BUILD_LOG: u32 = 0x1183;

/// Objects of a kind that a list may have: a board has one GPU.
const MOST: u32 = 16;
/// Vectors of full registers, and of half registers, that a fiber has at most: r48 and later belong to the wave.
const FOOTPRINT: u32 = 48;
/// Bytes of a text or a binary at most.
const MOST_BYTES: usize = 64 << 20;

/// The platform of Qualcomm begins so.
const PLATFORM: &str = "QUALCOMM";
/// What is before the number of the GPU in the version of a device.
const ADRENO: &str = "Adreno(TM) ";

/// How long a build may take: those of large kernels take seconds.
const LIMIT: Duration = Duration::from_secs(300);
/// How long the first calls may take, which open the GPU.
const FIRST: Duration = Duration::from_secs(60);
/// Bytes of the stack of a build, as a program's first thread has them: compilers call themselves.
const STACK: usize = 8 << 20;

/// The version of the language.
const OPTIONS: &CStr = c"-cl-std=CL1.2";

const FIX: [&str; 2] = [
    "run on the board, with the vendor's OpenCL library installed (comma devices ship it)",
    "DEV=QCOM:IR3, which needs no library and compiles anywhere",
];

/// Where the library is: systems of Debian's layout (a comma device, Qualcomm Linux), Yocto's, Android's; then by name, as
/// the system's loader finds it.
fn candidates() -> Vec<PathBuf> {
    const FOLDERS: [&str; 4] = [
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib",
        "/vendor/lib64",
        "/system/vendor/lib64",
    ];
    const NAMES: [&str; 2] = ["libOpenCL.so", "libOpenCL.so.1"];
    let paths = FOLDERS
        .iter()
        .flat_map(|folder| NAMES.map(|name| PathBuf::from(folder).join(name)));
    paths.chain(NAMES.map(PathBuf::from)).collect()
}

fn missing(message: String, looked_in: String) -> Error {
    Error::NoCompiler {
        compiler: "QCOM:CL".into(),
        message,
        fix: &FIX,
        looked_in,
    }
}

/// What a number of the library means, those that a compilation gives.
fn status(number: Status) -> String {
    let name = match number {
        -1 => "CL_DEVICE_NOT_FOUND",
        -2 => "CL_DEVICE_NOT_AVAILABLE",
        -3 => "CL_COMPILER_NOT_AVAILABLE",
        -5 => "CL_OUT_OF_RESOURCES",
        -6 => "CL_OUT_OF_HOST_MEMORY",
        -11 => "CL_BUILD_PROGRAM_FAILURE",
        -30 => "CL_INVALID_VALUE",
        -43 => "CL_INVALID_BUILD_OPTIONS",
        -1001 => "CL_PLATFORM_NOT_FOUND_KHR",
        _ => return format!("status {number}"),
    };
    format!("{name} ({number})")
}

/// What a step said.
type Said<T> = std::result::Result<T, String>;

fn check(what: &str, number: Status) -> Said<()> {
    match number {
        0 => Ok(()),
        number => Err(format!("{what}: {}", status(number))),
    }
}

/// Asks for the size of something, then for its bytes.
fn bytes(what: &str, ask: impl Fn(usize, *mut c_void, *mut usize) -> Status) -> Said<Vec<u8>> {
    let mut size = 0;
    check(what, ask(0, std::ptr::null_mut(), &mut size))?;
    if size > MOST_BYTES {
        return Err(format!(
            "{what}: {size} bytes, expected at most {MOST_BYTES}"
        ));
    }
    let mut out = vec![0u8; size];
    check(
        what,
        ask(size, out.as_mut_ptr().cast(), std::ptr::null_mut()),
    )?;
    Ok(out)
}

/// The same for a text.
fn text(what: &str, ask: impl Fn(usize, *mut c_void, *mut usize) -> Status) -> Said<String> {
    let bytes = bytes(what, ask)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.trim_end_matches('\0').trim().to_owned())
}

struct OpenCl {
    f: Functions,
    path: PathBuf,
    device: Handle,
    context: Handle,
    /// `a630`.
    chip: String,
    /// What library, driver and device say of themselves.
    version: String,
    /// The kernel whose build did not end in time: it may never. The library is not called again.
    stuck: OnceLock<String>,
}

// SAFETY: functions of OpenCL may be called from any thread, with the same objects ("Thread-safety", appendix A.2 of the
// API specification, but for clSetKernelArg, which is not called); the handles are only passed to them.
unsafe impl Send for OpenCl {}
// SAFETY: as above.
unsafe impl Sync for OpenCl {}

impl Drop for OpenCl {
    fn drop(&mut self) {
        // SAFETY: the context came from the library, and nothing of it is left.
        unsafe { (self.f.clReleaseContext)(self.context) };
    }
}

/// Loads the library, with a context on Qualcomm's GPU. `tries` is told of each file before it is called.
fn load(candidates: Vec<PathBuf>, rights: &Rights, tries: impl Fn(&Path)) -> Result<OpenCl> {
    // A loader of several vendors' OpenCL may lie in front of Qualcomm's own library.
    let loaded = load_fitting(candidates, rights, |library, path| {
        tries(&path);
        let name = path.display().to_string();
        let f = Functions::of(library, str::to_owned)
            .map_err(|e| format!("{name} is another library: {e}"))?;
        open(f, path).map_err(|why| format!("{name}: {why}"))
    });
    loaded.map_err(|e| missing(e.message("Qualcomm's libOpenCL"), e.looked_in()))
}

/// [`load`] on a thread of its own, since the first calls wake the vendor's driver and have no deadline. If it does not end by
/// `limit`, `stuck` keeps why, and the library is not called again: the thread that is stuck in it keeps it.
fn load_within(
    candidates: Vec<PathBuf>,
    rights: Rights,
    (limit, stuck): (Duration, &OnceLock<String>),
) -> Result<OpenCl> {
    let refused = |why: String| Err(missing(why, String::new()));
    if let Some(why) = stuck.get() {
        return refused(format!("{why}. Start the program again"));
    }
    let tried = Arc::new(Mutex::new(PathBuf::from("libOpenCL.so")));
    let (tell, told) = sync_channel(1);
    let trying = tried.clone();
    let run = move || {
        let tries = |path: &Path| {
            path.clone_into(&mut trying.lock().unwrap_or_else(PoisonError::into_inner))
        };
        // Nobody may listen any more.
        let _ = tell.send(load(candidates, &rights, tries));
    };
    let thread = thread::Builder::new()
        .name("opencl".into())
        .stack_size(STACK);
    if let Err(e) = thread.spawn(run) {
        return refused(format!(
            "cannot start a thread for Qualcomm's libOpenCL: {e}"
        ));
    }
    let ended = told.recv_timeout(limit);
    ended.unwrap_or_else(|error| {
        let tried = tried.lock().unwrap_or_else(PoisonError::into_inner);
        let path = tried.display();
        refused(match error {
            RecvTimeoutError::Timeout => {
                let why = format!(
                    "the first calls of {path} (clGetPlatformIDs to clCreateContext) have not ended after {limit:?}, and are not \
                     waited for: this process does not call it again"
                );
                let _ = stuck.set(why.clone());
                why
            }
            RecvTimeoutError::Disconnected => {
                format!("the thread of {path} has ended without a result")
            }
        })
    })
}

fn open(f: Functions, path: PathBuf) -> Said<OpenCl> {
    let platform_text = |platform, what| {
        // SAFETY: the platform came from the library; pointers are null or to as many bytes as the size says.
        let ask =
            |size, to, needed| unsafe { (f.clGetPlatformInfo)(platform, what, size, to, needed) };
        text("clGetPlatformInfo", ask)
    };
    let mut platforms = [std::ptr::null_mut(); MOST as usize];
    let mut count = 0;
    // SAFETY: there is room for as many platforms as the first argument says.
    check("clGetPlatformIDs", unsafe {
        (f.clGetPlatformIDs)(MOST, platforms.as_mut_ptr(), &mut count)
    })?;
    let (mut found, mut names) = (None, Vec::new());
    for &platform in platforms.iter().take(count as usize) {
        let name = platform_text(platform, PLATFORM_NAME)?;
        if found.is_none() && name.starts_with(PLATFORM) {
            found = Some(platform);
        }
        names.push(name);
    }
    let Some(platform) = found else {
        return Err(format!(
            "expected a platform {PLATFORM}, found [{}]: not Qualcomm's OpenCL",
            names.join(", ")
        ));
    };
    let mut device = std::ptr::null_mut();
    // SAFETY: there is room for one device.
    check("clGetDeviceIDs", unsafe {
        let none = std::ptr::null_mut();
        (f.clGetDeviceIDs)(platform, DEVICE_TYPE_GPU, 1, &mut device, none)
    })?;
    let device_text = |what| {
        // SAFETY: the device came from the library; pointers are null or to as many bytes as the size says.
        let ask = |size, to, needed| unsafe { (f.clGetDeviceInfo)(device, what, size, to, needed) };
        text("clGetDeviceInfo", ask)
    };
    let device_version = device_text(DEVICE_VERSION)?;
    let chip = device_version
        .split_once(ADRENO)
        .and_then(|(_, rest)| rest.split_whitespace().next());
    let Some(chip) = chip.map(|number| format!("a{}", number.to_ascii_lowercase())) else {
        return Err(format!(
            "expected an Adreno device, found CL_DEVICE_VERSION {device_version:?}"
        ));
    };
    let version = [
        platform_text(platform, PLATFORM_VERSION)?,
        device_text(DRIVER_VERSION)?,
        device_version,
    ]
    .join("; ");
    let properties = [CONTEXT_PLATFORM, platform as isize, 0];
    let mut made = 0;
    // SAFETY: the list of properties ends with 0; one device; no function is to be called.
    let context = unsafe {
        (f.clCreateContext)(
            properties.as_ptr(),
            1,
            &device,
            std::ptr::null(),
            std::ptr::null_mut(),
            &mut made,
        )
    };
    check("clCreateContext", made)?;
    Ok(OpenCl {
        f,
        path,
        device,
        context,
        chip,
        version,
        stuck: OnceLock::new(),
    })
}

/// A program of the library, given back when it is no longer used.
struct Owned<'a> {
    handle: Handle,
    of: &'a OpenCl,
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle came from the library and is released once.
        unsafe { (self.of.f.clReleaseProgram)(self.handle) };
    }
}

impl OpenCl {
    /// Refuses another chip than that of the board: the library has no option for one.
    fn knows(&self, t: &Target) -> Said<()> {
        if self.chip == t.cpu {
            return Ok(());
        }
        let path = self.path.display();
        Err(format!(
            "cannot compile for {}: {path} compiles for the GPU of this board only, {}",
            t.cpu, self.chip
        ))
    }

    fn build_log(&self, program: &Owned<'_>) -> String {
        // SAFETY: program and device are alive; pointers are null or to as many bytes as the size says.
        let ask = |size, to, needed| unsafe {
            let f = self.f.clGetProgramBuildInfo;
            f(
                program.handle,
                self.device,
                PROGRAM_BUILD_LOG,
                size,
                to,
                needed,
            )
        };
        text("clGetProgramBuildInfo", ask).unwrap_or_else(|e| e)
    }

    fn compile(&self, text: &str) -> Said<Vec<u8>> {
        let f = &self.f;
        let source = CString::new(text).map_err(|e| e.to_string())?;
        let length = text.len();
        let mut made = 0;
        // SAFETY: one string of that length, which the library copies.
        let handle = unsafe {
            (f.clCreateProgramWithSource)(self.context, 1, &source.as_ptr(), &length, &mut made)
        };
        check("clCreateProgramWithSource", made)?;
        let program = Owned { handle, of: self };
        // SAFETY: program and device are alive, the options are a string; no function is to be called, so it returns when
        // the program is built.
        let built = unsafe {
            let none = std::ptr::null_mut();
            (f.clBuildProgram)(
                program.handle,
                1,
                &self.device,
                OPTIONS.as_ptr(),
                std::ptr::null(),
                none,
            )
        };
        check("clBuildProgram", built).map_err(|e| format!("{e}\n{}", self.build_log(&program)))?;
        let (mut size, mut room) = (0usize, size_of::<usize>());
        // SAFETY: the program has one device, so there is one size.
        check("clGetProgramInfo", unsafe {
            let to = (&raw mut size).cast();
            (f.clGetProgramInfo)(program.handle, PROGRAM_BINARY_SIZES, room, to, &mut room)
        })?;
        if room != size_of::<usize>() || size == 0 || size > MOST_BYTES {
            return Err(format!(
                "clGetProgramInfo: expected one binary of 1 to {MOST_BYTES} bytes, found {size} bytes, {room} bytes of sizes"
            ));
        }
        let mut binary = vec![0u8; size];
        let mut to = binary.as_mut_ptr();
        // SAFETY: one pointer, with room for as many bytes as the library said.
        check("clGetProgramInfo", unsafe {
            let list = (&raw mut to).cast();
            let room = size_of::<*mut u8>();
            (f.clGetProgramInfo)(
                program.handle,
                PROGRAM_BINARIES,
                room,
                list,
                std::ptr::null_mut(),
            )
        })?;
        Ok(binary)
    }
}

/// Compiles OpenCL C with Qualcomm's library.
#[derive(Clone)]
pub struct OpenClCompiler {
    library: Arc<OpenCl>,
    limit: Duration,
}

impl OpenClCompiler {
    /// The library, loaded once, to compile for a chip.
    ///
    /// # Errors
    /// It is not installed, is another one's, compiles for another chip, or does not answer in a minute.
    pub fn find(t: &Target) -> Result<Self> {
        static LOADED: OnceLock<Arc<OpenCl>> = OnceLock::new();
        static STUCK: OnceLock<String> = OnceLock::new();
        // Elsewhere it is another vendor's, which would start that one's GPUs.
        if !cfg!(target_arch = "aarch64") {
            let here = std::env::consts::ARCH;
            let message =
                format!("needs Qualcomm's libOpenCL, which is for aarch64; this machine is {here}");
            return Err(missing(message, String::new()));
        }
        let library = match LOADED.get() {
            Some(library) => library.clone(),
            None => {
                let library = load_within(candidates(), Rights::own(), (FIRST, &STUCK))?;
                let library = Arc::new(library);
                LOADED.get_or_init(|| library).clone()
            }
        };
        let limit = LIMIT;
        OpenClCompiler { library, limit }.for_chip(t)
    }

    /// That of a file.
    ///
    /// # Errors
    /// As [`OpenClCompiler::find`].
    pub fn at(path: impl Into<PathBuf>, t: &Target) -> Result<Self> {
        OpenClCompiler::at_within(path, t, FIRST)
    }

    /// That of a file, whose first calls may take `limit`.
    ///
    /// # Errors
    /// As [`OpenClCompiler::find`].
    pub fn at_within(path: impl Into<PathBuf>, t: &Target, limit: Duration) -> Result<Self> {
        let library = load_within(vec![path.into()], Rights::own(), (limit, &OnceLock::new()))?;
        let (library, limit) = (Arc::new(library), LIMIT);
        OpenClCompiler { library, limit }.for_chip(t)
    }

    fn for_chip(self, t: &Target) -> Result<Self> {
        self.library
            .knows(t)
            .map_err(|message| missing(message, String::new()))?;
        Ok(self)
    }

    /// With another limit for each build than five minutes.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Self {
        OpenClCompiler { limit, ..self }
    }

    /// A build on a thread of its own, since the calls of the library have no deadline. A thread that is stuck in one keeps
    /// the library, which stays loaded.
    fn build(&self, s: &Source) -> Said<Vec<u8>> {
        let path = self.library.path.display();
        if let Some(kernel) = self.library.stuck.get() {
            return Err(format!(
                "{path} is not called again: its build of `{kernel}` did not end in time. Start the program again, or use \
                 DEV=QCOM:IR3, which needs no library"
            ));
        }
        let (library, text) = (self.library.clone(), s.text.clone());
        let (tell, told) = sync_channel(1);
        let run = move || {
            // Nobody may listen any more.
            let _ = tell.send(library.compile(&text));
        };
        let thread = thread::Builder::new()
            .name("opencl build".into())
            .stack_size(STACK);
        thread
            .spawn(run)
            .map_err(|e| format!("cannot start a thread for {path}: {e}"))?;
        match told.recv_timeout(self.limit) {
            Ok(built) => built,
            Err(RecvTimeoutError::Timeout) => {
                // Of several that are stuck the first is named later.
                let _ = self.library.stuck.set(s.entry.clone());
                Err(format!(
                    "clBuildProgram of {path} has not ended after {:?} (`{}`), and is not waited for: later builds of this \
                     process are refused. DEV=QCOM:IR3 needs no library",
                    self.limit, s.entry
                ))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(format!("the thread of {path} has ended without a result"))
            }
        }
    }
}

impl Compiler for OpenClCompiler {
    fn name(&self) -> &'static str {
        "opencl"
    }

    fn version(&self) -> String {
        let (version, path) = (&self.library.version, self.library.path.display());
        format!("{version} {path} {}", OPTIONS.to_string_lossy())
    }

    fn release(&self) -> String {
        format!("{}, {}", self.library.version, self.library.path.display())
    }

    fn compile(&self, s: &Source, t: &Target) -> Result<Vec<u8>> {
        let failed = |stage, message| Error::Compile {
            compiler: "opencl",
            entry: s.entry.clone(),
            stage,
            message,
        };
        if s.language != Language::OpenCl {
            let found = format!("{:?} source, expected OpenCL C", s.language);
            return Err(failed("input", found));
        }
        self.library
            .knows(t)
            .map_err(|message| failed("input", message))?;
        let binary = self
            .build(s)
            .map_err(|message| failed("compile", message))?;
        // What the driver would refuse is not kept.
        let parsed = Binary::parse(&binary).map_err(|e| failed("binary", e.to_string()))?;
        let code = parsed.code.len() as u64 * 8;
        for (what, found, most) in [
            ("full registers", parsed.full, FOOTPRINT),
            ("half registers", parsed.half, FOOTPRINT),
        ] {
            if found > most {
                let found = format!("{found} {what}, expected at most {most}");
                return Err(failed("binary", found));
            }
        }
        if u64::from(parsed.entry) >= code || !parsed.entry.is_multiple_of(8) {
            let found = format!(
                "an entry at {:#x}, expected a multiple of 8 below {code:#x}",
                parsed.entry
            );
            return Err(failed("binary", found));
        }
        Ok(binary)
    }

    fn resources(&self, obj: &[u8], t: &Target, _: u32) -> Option<Resources> {
        let file = t.registers?;
        let binary = Binary::parse(obj).ok()?;
        // Full and half registers are apart, and share the file.
        let vectors = binary.full + binary.half.div_ceil(2);
        Some(Resources {
            vector: vectors * 4,
            scalar: 0,
            spilled: 0,
            local: binary.shared_bytes,
            private: binary.private_bytes,
            waves: qcom::registers(t).occupancy(vectors, false),
            most_waves: file.waves,
        })
    }

    fn disassemble(&self, obj: &[u8]) -> Result<String> {
        let binary = Binary::parse(obj).map_err(|e| Error::Compile {
            compiler: "opencl",
            entry: String::new(),
            stage: "disassemble",
            message: e.to_string(),
        })?;
        let mut text = format!(
            "; {} full and {} half vectors, {} bytes shared, {} bytes private, from byte {} on\n",
            binary.full, binary.half, binary.shared_bytes, binary.private_bytes, binary.entry
        );
        for (at, &word) in binary.code.iter().enumerate() {
            let _ = match ir3::decode(word) {
                Ok(inst) => writeln!(text, "{at:5}  {inst}"),
                Err(e) => writeln!(text, "{at:5}  {e}"),
            };
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let paths = ["/nowhere/libOpenCL.so", "libOpenCL.so.nine"].map(PathBuf::from);
        let load = |paths: Vec<PathBuf>| load(paths, &Rights::own(), |_| ());
        let text = load(paths.into()).err().unwrap().to_string();
        for part in [
            "QCOM:CL",
            "Qualcomm's libOpenCL, which is not installed",
            "/nowhere/libOpenCL.so",
            "libOpenCL.so.nine",
            "QCOM:IR3",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = load(vec!["libc.so.6".into()]).err().unwrap().to_string();
        assert!(text.contains("libc.so.6 is another library"), "{text}");
        assert!(text.contains("clGetPlatformIDs"), "{text}");
        let all = candidates();
        for path in ["/vendor/lib64/libOpenCL.so", "libOpenCL.so.1"] {
            assert!(all.contains(&path.into()), "{path}");
        }
    }
}
