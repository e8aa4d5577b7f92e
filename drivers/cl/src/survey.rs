//! Which devices there are, and what they say of themselves.
//!
//! Source: Khronos, "The OpenCL API Specification" 1.2, table 4.3 (`clGetDeviceInfo`), and `CL/cl.h` for its numbers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use crate::api::{Api, Called, Handle};

const PLATFORM_NAME: u32 = 0x902;
const TYPE: u32 = 0x1000;
const MAX_COMPUTE_UNITS: u32 = 0x1002;
const MAX_WORK_GROUP_SIZE: u32 = 0x1004;
const MAX_WORK_ITEM_SIZES: u32 = 0x1005;
const ADDRESS_BITS: u32 = 0x100d;
const MAX_MEM_ALLOC_SIZE: u32 = 0x1010;
const SINGLE_FP_CONFIG: u32 = 0x101b;
const GLOBAL_MEM_SIZE: u32 = 0x101f;
const LOCAL_MEM_SIZE: u32 = 0x1023;
const ENDIAN_LITTLE: u32 = 0x1026;
const AVAILABLE: u32 = 0x1027;
const COMPILER_AVAILABLE: u32 = 0x1028;
const NAME: u32 = 0x102b;
const VENDOR: u32 = 0x102c;
const DRIVER_VERSION: u32 = 0x102d;
const VERSION: u32 = 0x102f;
const DOUBLE_FP_CONFIG: u32 = 0x1032;

const TYPE_CPU: u64 = 1 << 1;
const TYPE_GPU: u64 = 1 << 2;

const FP_DENORM: u64 = 1 << 0;
const FP_FMA: u64 = 1 << 5;
const FP_CORRECTLY_ROUNDED_DIVIDE_SQRT: u64 = 1 << 7;

/// The first version whose functions are used: fills and markers.
const LEAST: (u32, u32) = (1, 2);

/// How long libraries may take to load and to say what they have.
const LIMIT: Duration = Duration::from_secs(60);

/// Where a library is looked for, by the system's loader.
const NAMES: [&str; 2] = ["libOpenCL.so.1", "libOpenCL.so"];

/// Work-items that run in step, by a word of the vendor's name, where the language cannot be asked. Intel: 8 to 32, by
/// the kernel; AMD: 64, or 32 since RDNA.
///
/// Source: Intel, "OpenCL Developer Guide for Intel Processor Graphics"; AMD, "OpenCL Programming Guide"; NVIDIA,
/// "OpenCL Programming Guide".
const WAVES: [(&str, u64); 4] = [
    ("Intel", 32),
    ("Advanced Micro Devices", 64),
    ("NVIDIA", 32),
    ("QUALCOMM", 64),
];

/// Why there is no library.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "no OpenCL: {why}. Install the loader and the vendor's library (Debian: ocl-icd-libopencl1, and intel-opencl-icd for Intel \
     GPUs, mesa-opencl-icd, or pocl-opencl-icd for CPUs)"
)]
pub struct NoLibrary {
    /// What the system's loader says.
    pub why: String,
}

/// A device.
#[derive(Clone)]
pub struct Found {
    /// Its number: GPUs come before other devices.
    pub index: u32,
    /// What it is called.
    pub name: String,
    /// Who made it.
    pub vendor: String,
    /// The platform that has it.
    pub platform: String,
    /// Its OpenCL, as it says: `OpenCL 3.0 ...`.
    pub version: String,
    /// Its driver's version.
    pub driver: String,
    /// Whether it is a GPU.
    pub is_gpu: bool,
    /// Why it cannot be used, if so.
    pub unusable: Option<String>,
    pub(crate) facts: Facts,
    pub(crate) api: Arc<Api>,
    pub(crate) platform_handle: Handle,
    pub(crate) handle: Handle,
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} ({})", self.index, self.name, self.platform)
    }
}

impl Found {
    /// Where it is, for people: the platform, and the versions.
    pub fn place(&self) -> String {
        format!(
            "{}, {}, driver {}",
            self.platform, self.version, self.driver
        )
    }

    /// What kernels for it are compiled for.
    pub fn arch(&self) -> String {
        self.facts.arch()
    }

    /// The library that has it.
    pub fn library(&self) -> &Path {
        &self.api.path
    }
}

/// What a device says of itself in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) units: u32,
    pub(crate) items: u64,
    pub(crate) local: u64,
    pub(crate) memory: u64,
    /// Bytes of one buffer at most.
    pub(crate) most: u64,
    pub(crate) wave: u64,
    pub(crate) doubles: bool,
    pub(crate) fma: bool,
    pub(crate) denorm: bool,
    /// Quotients and roots of 32 bits can be had correctly rounded.
    pub(crate) rounds: bool,
}

impl Facts {
    /// What images for the device are compiled for: see `codegen::Target::cl`.
    pub(crate) fn arch(&self) -> String {
        let flags = [
            (self.doubles, ",fp64"),
            (self.fma, ",fma"),
            (self.denorm, ",denorm"),
        ];
        let flags = flags.iter().filter(|(has, _)| *has);
        let flags: String = flags.map(|(_, flag)| *flag).collect();
        format!(
            "cl:local={},items={},wave={}{flags}",
            self.local, self.items, self.wave
        )
    }

    /// Options of its compiler.
    pub(crate) fn options(&self) -> &'static str {
        match self.rounds {
            true => "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt",
            false => "-cl-std=CL1.2",
        }
    }
}

/// The version in `OpenCL 1.2 pocl 3.1`.
fn version(text: &str) -> Option<(u32, u32)> {
    let number = text.strip_prefix("OpenCL ")?.split_whitespace().next()?;
    let (major, minor) = number.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Why a device cannot be used, by its version and by what it must have.
fn refusal(text: &str, bits: u64, little: bool, here: bool, compiles: bool) -> Option<String> {
    let known = version(text);
    match known {
        None => return Some(format!("expected a version of OpenCL, found {text:?}")),
        Some(found) if found < LEAST => {
            return Some(format!(
                "expected OpenCL 1.2 or newer, found {text}: update its driver"
            ));
        }
        Some(_) => {}
    }
    match (bits, little, here, compiles) {
        (64, true, true, true) => None,
        (64, true, false, _) => Some("its driver says that it is not available".into()),
        (64, true, true, false) => Some("its driver has no compiler for OpenCL C".into()),
        (bits, true, ..) => Some(format!("expected addresses of 64 bits, found {bits}")),
        (_, false, ..) => Some("expected a little-endian device".into()),
    }
}

fn one(api: &Arc<Api>, (platform, platform_name): (Handle, &str), device: Handle) -> Called<Found> {
    let number = |what| api.device_number(device, what);
    let text = |what| api.device_text(device, what);
    let (version, vendor) = (text(VERSION)?, text(VENDOR)?);
    let kind = number(TYPE)?;
    let singles = number(SINGLE_FP_CONFIG)?;
    let flag = |what| -> Called<bool> { Ok(number(what)? as u32 != 0) };
    let unusable = refusal(
        &version,
        number(ADDRESS_BITS)?,
        flag(ENDIAN_LITTLE)?,
        flag(AVAILABLE)?,
        flag(COMPILER_AVAILABLE)?,
    );
    let wave = WAVES.iter().find(|(word, _)| vendor.contains(word));
    let facts = Facts {
        units: number(MAX_COMPUTE_UNITS)? as u32,
        // A list of one for each dimension, of which launches have one.
        items: number(MAX_WORK_GROUP_SIZE)?.min(number(MAX_WORK_ITEM_SIZES)?),
        local: number(LOCAL_MEM_SIZE)?,
        memory: number(GLOBAL_MEM_SIZE)?,
        most: number(MAX_MEM_ALLOC_SIZE)?,
        wave: match (kind & TYPE_CPU != 0, wave) {
            (true, _) => 8,
            (false, Some((_, wave))) => *wave,
            (false, None) => 32,
        },
        // Optional before OpenCL 1.2, and an error of some drivers without doubles.
        doubles: number(DOUBLE_FP_CONFIG).is_ok_and(|config| config != 0),
        fma: singles & FP_FMA != 0,
        denorm: singles & FP_DENORM != 0,
        rounds: singles & FP_CORRECTLY_ROUNDED_DIVIDE_SQRT != 0,
    };
    Ok(Found {
        index: 0,
        name: text(NAME)?,
        vendor,
        platform: platform_name.into(),
        version,
        driver: text(DRIVER_VERSION)?,
        is_gpu: kind & TYPE_GPU != 0,
        unusable,
        facts,
        api: api.clone(),
        platform_handle: platform,
        handle: device,
    })
}

/// The devices of a library, GPUs first: the system's, or that of a file. Vendors' code runs on a thread of its own, since its
/// calls have no deadline.
///
/// # Errors
/// [`NoLibrary`]. A platform that cannot be asked is left out.
pub fn survey(library: Option<&Path>) -> Result<Vec<Found>, NoLibrary> {
    let paths: Vec<PathBuf> = match library {
        Some(path) => vec![path.into()],
        None => NAMES.map(PathBuf::from).into(),
    };
    let (tell, told) = sync_channel(1);
    // Nobody may listen any more.
    let run = move || drop(tell.send(look(&paths)));
    let thread = thread::Builder::new().name("opencl survey".into());
    let started = thread.spawn(run).map_err(|e| NoLibrary {
        why: format!("cannot start a thread for it: {e}"),
    });
    started.and_then(|_| {
        told.recv_timeout(LIMIT).unwrap_or_else(|e| {
            let why = match e {
                RecvTimeoutError::Timeout => format!(
                    "a vendor's library has not said after {LIMIT:?} which devices it has; /etc/OpenCL/vendors names them"
                ),
                RecvTimeoutError::Disconnected => "the thread that asks has ended without an answer".into(),
            };
            Err(NoLibrary { why })
        })
    })
}

/// The devices of the first library that can be loaded.
fn look(paths: &[PathBuf]) -> Result<Vec<Found>, NoLibrary> {
    let mut why = String::new();
    for path in paths {
        match Api::load(path) {
            Ok(api) => return found(&api).map_err(|e| NoLibrary { why: e.to_string() }),
            Err(text) if why.is_empty() => why = text,
            Err(_) => {}
        }
    }
    Err(NoLibrary { why })
}

fn found(api: &Arc<Api>) -> Called<Vec<Found>> {
    let mut all = Vec::new();
    for platform in api.platforms()? {
        let name = api
            .platform_text(platform, PLATFORM_NAME)
            .unwrap_or_default();
        for device in api.devices(platform).unwrap_or_default() {
            all.extend(one(api, (platform, &name), device).ok());
        }
    }
    all.sort_by_key(|found: &Found| !found.is_gpu);
    for (index, found) in (0..).zip(&mut all) {
        found.index = index;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared() {
        assert_eq!(version("OpenCL 1.2 pocl HSTR"), Some((1, 2)));
        assert_eq!(version("OpenCL 3.0 NEO"), Some((3, 0)));
        assert_eq!(version("3.0"), None);
        let refused = |text, bits, little, here, compiles| {
            refusal(text, bits, little, here, compiles).unwrap_or_default()
        };
        assert_eq!(refused("OpenCL 1.2 x", 64, true, true, true), "");
        for (text, said) in [
            (
                refused("OpenCL 1.1 x", 64, true, true, true),
                "1.2 or newer",
            ),
            (
                refused("other", 64, true, true, true),
                "a version of OpenCL",
            ),
            (
                refused("OpenCL 3.0", 32, true, true, true),
                "64 bits, found 32",
            ),
            (
                refused("OpenCL 3.0", 64, false, true, true),
                "little-endian",
            ),
            (
                refused("OpenCL 3.0", 64, true, false, true),
                "not available",
            ),
            (refused("OpenCL 3.0", 64, true, true, false), "no compiler"),
        ] {
            assert!(text.contains(said), "{text}");
        }
    }

    #[test]
    fn a_library_that_is_not_there_says_what_to_install() {
        let text = survey(Some(Path::new("/nowhere/libOpenCL.so")))
            .err()
            .unwrap();
        let text = text.to_string();
        for part in [
            "/nowhere/libOpenCL.so",
            "ocl-icd-libopencl1",
            "intel-opencl-icd",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let text = survey(Some(Path::new("libc.so.6")))
            .err()
            .unwrap()
            .to_string();
        assert!(text.contains("has not all of OpenCL 1.2"), "{text}");
    }

    #[test]
    fn facts_are_the_name_of_what_is_compiled_for() {
        let facts = Facts {
            local: 32768,
            items: 4096,
            wave: 8,
            doubles: true,
            denorm: true,
            ..Facts::default()
        };
        assert_eq!(facts.arch(), "cl:local=32768,items=4096,wave=8,fp64,denorm");
        assert_eq!(facts.options(), "-cl-std=CL1.2");
    }
}
