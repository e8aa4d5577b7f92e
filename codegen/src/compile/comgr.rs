//! HIP C through `libamd_comgr`, the compiler library of ROCm, which is loaded at run time.
//!
//! Source: `amd_comgr.h` of ROCm: version 2.4 (ROCm 5.2, as Debian packages it) and version 3
//! (ROCm 6.4), whose enumerations have other numbers from `HC`, which is gone, on.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::Compiler;
use super::clang::{HIP_FLAGS, machine_options, objdump};
use super::library::{functions, load_first};
use crate::error::{Error, Result};
use crate::render::{Language, Source};
use crate::resources::Resources;
use crate::target::Target;
use crate::trust::Rights;

/// A handle of the library: a structure of one 64-bit number, for data, sets and actions alike.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Handle(u64);

type Status = c_int;

/// `AMD_COMGR_DATA_KIND_*`.
const SOURCE: c_int = 1;
const LOG: c_int = 5;
const RELOCATABLE: c_int = 7;

/// `AMD_COMGR_ACTION_SOURCE_TO_PREPROCESSOR`.
const PREPROCESS: c_int = 0;

/// The numbers that differ between versions.
#[derive(Clone, Copy)]
struct Numbers {
    /// `AMD_COMGR_LANGUAGE_HIP`.
    hip: c_int,
    /// `AMD_COMGR_ACTION_COMPILE_SOURCE_TO_BC`.
    compile: c_int,
    /// `AMD_COMGR_ACTION_CODEGEN_BC_TO_RELOCATABLE`.
    generate: c_int,
}

const VERSION_2: Numbers = Numbers {
    hip: 4,
    compile: 2,
    generate: 6,
};
const VERSION_3: Numbers = Numbers {
    hip: 3,
    compile: 2,
    generate: 4,
};

/// On RDNA3 a load of 16 bits writes the other half of its register, too, and clang before 22 does not wait for it
/// where it writes that half: it shall not take halves for registers.
///
/// Source: LLVM 22, `SIInsertWaitcnts.cpp`, `determineVGPR16Dependency` (`D16Writes32BitVgpr`).
const WHOLE_REGISTERS: [&str; 4] = ["-Xclang", "-target-feature", "-Xclang", "-real-true16"];

functions! {
    get_version(*mut usize, *mut usize) -> ();
    status_string(Status, *mut *const c_char) -> Status;
    get_isa_count(*mut usize) -> Status;
    get_isa_name(usize, *mut *const c_char) -> Status;
    create_data(c_int, *mut Handle) -> Status;
    release_data(Handle) -> Status;
    set_data(Handle, usize, *const c_char) -> Status;
    set_data_name(Handle, *const c_char) -> Status;
    get_data(Handle, *mut usize, *mut c_char) -> Status;
    create_data_set(*mut Handle) -> Status;
    destroy_data_set(Handle) -> Status;
    data_set_add(Handle, Handle) -> Status;
    action_data_get_data(Handle, c_int, usize, *mut Handle) -> Status;
    create_action_info(*mut Handle) -> Status;
    destroy_action_info(Handle) -> Status;
    action_info_set_language(Handle, c_int) -> Status;
    action_info_set_isa_name(Handle, *const c_char) -> Status;
    action_info_set_option_list(Handle, *const *const c_char, usize) -> Status;
    action_info_set_logging(Handle, bool) -> Status;
    do_action(c_int, Handle, Handle, Handle) -> Status;
}

struct Comgr {
    f: Functions,
    numbers: Numbers,
    version: (usize, usize),
    /// What the compiler in it calls itself: releases of ROCm share a version of the library.
    clang: String,
    path: PathBuf,
}

/// Where the library may be, the first one first: where ROCm is said to be, where its installer
/// puts it, and where the system's loader looks. Of the first two only what nobody else could have put there is
/// loaded.
fn candidates() -> Vec<PathBuf> {
    let rocm = std::env::var_os("ROCM_PATH").map(PathBuf::from);
    rocm.into_iter()
        .chain([PathBuf::from("/opt/rocm")])
        .map(|root| root.join("lib/libamd_comgr.so"))
        .chain(["libamd_comgr.so.3", "libamd_comgr.so.2", "libamd_comgr.so"].map(PathBuf::from))
        .collect()
}

const FIX: [&str; 2] = [
    "install ROCm, or the package libamd-comgr3 or libamd-comgr2",
    "DEV=AMD:LLVM, which does not need libamd_comgr",
];

fn missing(message: String, looked_in: String) -> Error {
    Error::NoCompiler {
        compiler: "AMD:HIP".into(),
        message,
        fix: &FIX,
        looked_in,
    }
}

fn load(candidates: Vec<PathBuf>, rights: &Rights) -> Result<Comgr> {
    let (library, path) = load_first(candidates, rights)
        .map_err(|e| missing(e.message("libamd_comgr"), e.looked_in()))?;
    let broken = |message: String| missing(message, String::new());
    let f = Functions::of(library, |name| format!("amd_comgr_{name}")).map_err(|e| {
        let path = path.display();
        broken(format!(
            "needs libamd_comgr, but {path} is another library: {e}"
        ))
    })?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both point to a `usize`.
    unsafe { (f.get_version)(&mut major, &mut minor) };
    let numbers = match major {
        2 => VERSION_2,
        3 => VERSION_3,
        _ => {
            return Err(broken(format!(
                "needs libamd_comgr 2 or 3; {} has version {major}.{minor}",
                path.display()
            )));
        }
    };
    let mut comgr = Comgr {
        f,
        numbers,
        version: (major, minor),
        clang: String::new(),
        path,
    };
    comgr.clang = comgr.clang().map_err(|why| {
        let path = comgr.path.display();
        broken(format!("cannot read the compiler version of {path}: {why}"))
    })?;
    Ok(comgr)
}

/// Gives something back to the library when it is no longer used.
struct Owned<'a> {
    handle: Handle,
    free: unsafe extern "C" fn(Handle) -> Status,
    _of: &'a Comgr,
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle came from the library and is freed once, by the function for its kind.
        unsafe { (self.free)(self.handle) };
    }
}

/// What a step of a compilation said.
type Said<T> = std::result::Result<T, String>;

impl Comgr {
    fn check(&self, what: &str, status: Status) -> Said<()> {
        if status == 0 {
            return Ok(());
        }
        let mut text = std::ptr::null();
        // SAFETY: the library stores a pointer to a string that it never frees.
        let text = unsafe {
            match (self.f.status_string)(status, &mut text) {
                0 if !text.is_null() => CStr::from_ptr(text).to_string_lossy().into_owned(),
                _ => format!("status {status}"),
            }
        };
        Err(format!("{what}: {text}"))
    }

    fn made(
        &self,
        what: &str,
        make: impl FnOnce(&mut Handle) -> Status,
        free: unsafe extern "C" fn(Handle) -> Status,
    ) -> Said<Owned<'_>> {
        let mut handle = Handle::default();
        self.check(what, make(&mut handle))?;
        Ok(Owned {
            handle,
            free,
            _of: self,
        })
    }

    fn set(&self) -> Said<Owned<'_>> {
        let f = &self.f;
        // SAFETY: the argument is a place for a handle.
        let make = |h: &mut Handle| unsafe { (f.create_data_set)(h) };
        self.made("create_data_set", make, f.destroy_data_set)
    }

    /// The first data of a kind in a set.
    fn bytes(&self, set: &Owned<'_>, kind: c_int) -> Said<Vec<u8>> {
        let f = &self.f;
        // SAFETY: the set is alive, the last argument a place for a handle.
        let make = |h: &mut Handle| unsafe { (f.action_data_get_data)(set.handle, kind, 0, h) };
        let data = self.made("action_data_get_data", make, f.release_data)?;
        let mut size = 0;
        // SAFETY: without a place for the bytes only their number is stored.
        let status = unsafe { (f.get_data)(data.handle, &mut size, std::ptr::null_mut()) };
        self.check("get_data", status)?;
        let mut bytes = vec![0u8; size];
        // SAFETY: there is room for as many bytes as `size` says.
        let status = unsafe { (f.get_data)(data.handle, &mut size, bytes.as_mut_ptr().cast()) };
        self.check("get_data", status)?;
        Ok(bytes)
    }

    /// The chips that the library can compile for, by the names of their instruction sets
    /// (`amdgcn-amd-amdhsa--gfx1030`).
    fn isas(&self) -> Said<Vec<String>> {
        let mut count = 0;
        // SAFETY: the argument points to a `usize`.
        self.check("get_isa_count", unsafe {
            (self.f.get_isa_count)(&mut count)
        })?;
        let mut isas = Vec::new();
        for i in 0..count {
            let mut text = std::ptr::null();
            // SAFETY: the number is below the count; the library stores a pointer to a string that
            // it never frees.
            let text = unsafe {
                self.check("get_isa_name", (self.f.get_isa_name)(i, &mut text))?;
                CStr::from_ptr(text)
            };
            isas.push(text.to_string_lossy().into_owned());
        }
        Ok(isas)
    }

    /// Refuses a chip that the library does not know: one of an older ROCm takes the source of a newer
    /// chip, and says nothing of the chip.
    fn knows(&self, t: &Target) -> Said<()> {
        let (isa, isas) = (isa(t), self.isas()?);
        if isas.contains(&isa) {
            return Ok(());
        }
        let ((major, minor), path) = (self.version, self.path.display());
        let newest = isas.last().and_then(|name| name.split("--").nth(1));
        Err(format!(
            "cannot compile for {}: {path} (version {major}.{minor}) supports up to {}; install a newer ROCm, \
             or use DEV=AMD:LLVM",
            t.cpu,
            newest.unwrap_or("none"),
        ))
    }

    /// One action, from one set to a new one.
    fn act(
        &self,
        kind: c_int,
        options: &[String],
        isa: &CStr,
        from: &Owned<'_>,
    ) -> Said<Owned<'_>> {
        let f = &self.f;
        // SAFETY: the argument is a place for a handle.
        let make = |h: &mut Handle| unsafe { (f.create_action_info)(h) };
        let info = self.made("create_action_info", make, f.destroy_action_info)?;
        let options: Vec<CString> = options
            .iter()
            .map(|o| CString::new(o.as_str()).map_err(|e| e.to_string()))
            .collect::<Said<_>>()?;
        let list: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        // SAFETY: the action is alive; the library copies the strings, which are alive as well.
        unsafe {
            let status = (f.action_info_set_isa_name)(info.handle, isa.as_ptr());
            self.check("isa", status)?;
            let status = (f.action_info_set_language)(info.handle, self.numbers.hip);
            self.check("language", status)?;
            let status = (f.action_info_set_logging)(info.handle, true);
            self.check("logging", status)?;
            let status = (f.action_info_set_option_list)(info.handle, list.as_ptr(), list.len());
            self.check("options", status)?;
        }
        let to = self.set()?;
        // SAFETY: all handles are alive.
        let status = unsafe { (f.do_action)(kind, info.handle, from.handle, to.handle) };
        self.check("do_action", status).map_err(|e| {
            let log = self.bytes(&to, LOG).unwrap_or_default();
            format!(
                "{e}\n{}",
                String::from_utf8_lossy(&log).trim_end_matches('\0')
            )
        })?;
        Ok(to)
    }

    /// A set of one source.
    fn source(&self, text: &str) -> Said<Owned<'_>> {
        let f = &self.f;
        let sources = self.set()?;
        // SAFETY: the last argument is a place for a handle.
        let make = |h: &mut Handle| unsafe { (f.create_data)(SOURCE, h) };
        let data = self.made("create_data", make, f.release_data)?;
        // SAFETY: the handles are alive; text and name are copied.
        let steps = unsafe {
            [
                (f.set_data)(data.handle, text.len(), text.as_ptr().cast()),
                (f.set_data_name)(data.handle, c"kernel.hip".as_ptr()),
                (f.data_set_add)(sources.handle, data.handle),
            ]
        };
        for status in steps {
            self.check("source", status)?;
        }
        Ok(sources)
    }

    /// The version of its clang, which a macro of it has.
    fn clang(&self) -> Said<String> {
        let isas = self.isas()?;
        let isa = isas.first().ok_or("it supports no chip")?;
        let isa = CString::new(isa.as_str()).map_err(|e| e.to_string())?;
        let options = HIP_FLAGS.map(String::from);
        let source = self.source("__VERSION__")?;
        let text = self.act(PREPROCESS, &options, &isa, &source)?;
        let text = self.bytes(&text, SOURCE)?;
        let text = String::from_utf8_lossy(&text);
        let said = text.lines().find_map(|line| line.trim().strip_prefix('"'));
        said.and_then(|line| line.strip_suffix('"'))
            .map(str::to_owned)
            .ok_or_else(|| format!("expected a string for __VERSION__, found {text:?}"))
    }

    fn compile(&self, s: &Source, t: &Target) -> Said<Vec<u8>> {
        self.knows(t)?;
        let sources = self.source(&s.text)?;
        let isa = CString::new(isa(t)).map_err(|e| e.to_string())?;
        let mut options: Vec<String> = HIP_FLAGS.map(String::from).into();
        options.push(format!("--offload-arch={}", t.cpu));
        options.extend(machine_options(t));
        if t.cpu.starts_with("gfx11") {
            options.extend(WHOLE_REGISTERS.map(String::from));
        }
        let code = self.act(self.numbers.compile, &options, &isa, &sources)?;
        let mut options = vec!["-O3".into()];
        options.extend(machine_options(t));
        let object = self.act(self.numbers.generate, &options, &isa, &code)?;
        self.bytes(&object, RELOCATABLE)
    }
}

/// What the library calls a chip.
fn isa(t: &Target) -> String {
    format!("{}--{}", t.triple, t.cpu)
}

/// Compiles HIP C with the library of ROCm.
#[derive(Clone)]
pub struct ComgrCompiler {
    library: Arc<Comgr>,
}

impl ComgrCompiler {
    /// The library, loaded once, to compile for a chip.
    ///
    /// # Errors
    /// It is not installed, or too old for the chip.
    pub fn find(t: &Target) -> Result<Self> {
        static LOADED: OnceLock<Arc<Comgr>> = OnceLock::new();
        let library = match LOADED.get() {
            Some(library) => library.clone(),
            None => {
                let library = Arc::new(load(candidates(), &Rights::own())?);
                LOADED.get_or_init(|| library).clone()
            }
        };
        library.knows(t).map_err(|message| Error::NoCompiler {
            compiler: "AMD:HIP".into(),
            message,
            fix: &[],
            looked_in: String::new(),
        })?;
        Ok(ComgrCompiler { library })
    }
}

impl Compiler for ComgrCompiler {
    fn name(&self) -> &'static str {
        "comgr"
    }

    fn version(&self) -> String {
        let (major, minor) = self.library.version;
        let (clang, path) = (&self.library.clang, self.library.path.display());
        let flags = [&HIP_FLAGS[..], &WHOLE_REGISTERS].concat().join(" ");
        format!("{major}.{minor} {path} ({clang}) {flags}")
    }

    fn release(&self) -> String {
        let (major, minor) = self.library.version;
        format!("comgr {major}.{minor}, {}", self.library.path.display())
    }

    fn compile(&self, s: &Source, t: &Target) -> Result<Vec<u8>> {
        let failed = |stage, message| Error::Compile {
            compiler: "comgr",
            entry: s.entry.clone(),
            stage,
            message,
        };
        if s.language != Language::Hip {
            let found = format!("{:?} source, expected HIP", s.language);
            return Err(failed("input", found));
        }
        self.library
            .compile(s, t)
            .map_err(|message| failed("compile", message))
    }

    fn resources(&self, obj: &[u8], t: &Target, items: u32) -> Option<Resources> {
        Resources::of_amdhsa(obj, t, items)
    }

    fn disassemble(&self, obj: &[u8]) -> Result<String> {
        objdump(obj)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let paths = ["/nowhere/libamd_comgr.so", "libamd_comgr.so.nine"].map(PathBuf::from);
        let load = |paths: Vec<PathBuf>| load(paths, &Rights::own());
        let text = load(paths.into()).err().unwrap().to_string();
        for part in [
            "AMD:HIP",
            "/nowhere/libamd_comgr.so",
            "libamd_comgr.so.nine",
            "libamd-comgr2",
            "AMD:LLVM",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let text = load(vec!["libc.so.6".into()]).err().unwrap().to_string();
        assert!(text.contains("libc.so.6 is another library"), "{text}");
        assert!(candidates().contains(&"/opt/rocm/lib/libamd_comgr.so".into()));
    }

    /// A library that others can write to is not loaded, whatever ROCM_PATH says, and none for a process that
    /// was given rights.
    #[test]
    fn a_library_of_others_is_not_loaded() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("libamd_comgr.so");
        // Were it loaded, it would be no library, and that would be said.
        std::fs::write(&path, "no library").unwrap();
        let said = |rights: &Rights| load(vec![path.clone()], rights).err().unwrap().to_string();
        let mode = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(0o644);
        let text = said(&Rights::own());
        assert!(
            text.contains("invalid ELF header") || text.contains("file too short"),
            "{text}"
        );
        mode(0o646);
        let text = said(&Rights::own());
        assert!(text.contains("is writable by others (mode 646)"), "{text}");
        mode(0o644);
        let given = Rights {
            given: Some(true),
            ..Rights::own()
        };
        let text = said(&given);
        assert!(text.contains("more rights than its user"), "{text}");
    }

    /// Of every chip that we know, the library is asked before it is chosen, and says the same when it
    /// compiles.
    #[test]
    fn what_the_library_cannot_compile_for_is_said_at_once() {
        let Ok(library) = load(candidates(), &Rights::own()) else {
            return println!("not tried: no libamd_comgr");
        };
        let clang = library.clang.to_lowercase();
        assert!(clang.contains("clang"), "{clang}");
        let known = library.isas().unwrap();
        assert!(known.iter().any(|isa| isa.ends_with("--gfx1030")));
        for chip in Target::amd_chips() {
            let t = Target::amd(chip).unwrap();
            let found = ComgrCompiler::find(&t).map(|_| ());
            if known.contains(&isa(&t)) {
                found.unwrap();
                continue;
            }
            let source = Source {
                language: Language::Hip,
                entry: "e".into(),
                text: String::new(),
            };
            let compiled = library.compile(&source, &t).unwrap_err();
            let found = found.unwrap_err().to_string();
            assert!(found.contains(&compiled), "{found}\n{compiled}");
            for part in ["cannot compile for", chip, "supports up to gfx", "AMD:LLVM"] {
                assert!(compiled.contains(part), "{compiled}");
            }
        }
    }
}
