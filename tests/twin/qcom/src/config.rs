//! The config string: which machine it is, and what goes wrong on it.
//!
//! A list of `key=value` with commas between. Everything has a default: `""` is an A630 behind KGSL of Linux 4.9.
//!
//! | key | value |
//! |---|---|
//! | `chip` | `a618`, `a619`, `a630` (default), `a640`, `a643`, `a650`, `a660`, `a690` |
//! | `gpus` | 1 (default), or 0: the kernel driver is there and no GPU |
//! | `kernel` | `kgsl` (default), `msm`: which kernel driver has the GPU |
//! | `version` | of KGSL `4.9` (default), as on a comma 3X, or `5.15`: whose checks are made |
//! | `memory` | bytes that objects may take in all, with `K`, `M`, `G`; default: half of the memory here |
//! | `seed` | what random choices start from |
//! | `timeout` | milliseconds after which a ring that makes no progress is taken to hang; default 2000 (KGSL) and 500 (msm) |
//! | `instructions` | how many a wave may run before its dispatch is taken to hang |
//! | `pages` | `coherent` (default), `cached`: whether the CPU's cache lies before memory of the program that KGSL imports; its own instructions for that are told to [`Process::clean`](crate::kernel::Process::clean); `doorbell twin exec` refuses it |
//! | `guard` | `none` (default), `page`: a page of zeros to read lies behind each memory object of KGSL, as on chips of the 3xx and 4xx; reading it breaks the rule `KGSL-GUARD-PAGE`, and goes on |
//! | `ulp` | by how many units in the last place results of category 4 may be off, which is not documented: 0 (default) to 4 |
//! | `mad` | `rounded` (default), `fused`: whether `mad.f` rounds its product, which is not documented |
//! | `debug` | 3: print what dispatches took, in cycles of the model of shader cores; 4: print packets, too |
//! | `fault` | `FAULTS`; several with `;` between. `call` takes `open`, `mmap`, `munmap` and `any`, too; `hang`, `page` and `lost` (the interrupt at its end) are of the n-th submission that runs |

use twin::config::{Part, Result, Wrong, is_below, path};
use twin::errno::Errno;
use twin_ir3::launch::Arithmetic;

use crate::chip::Chip;
use crate::kernel::calls;

/// Keys of a config string.
const KEYS: &str = "chip, gpus, kernel, version, memory, seed, timeout, instructions, pages, guard, ulp, mad, \
                    debug, fault";

/// Which kernel driver has the GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kernel {
    /// The vendor's.
    Kgsl(Version),
    /// The one of Linux.
    Msm,
}

/// The version of KGSL.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Version {
    /// Of Linux 4.9: kernels of SDM845.
    V4_9,
    /// Of Linux 5.15: qualcomm-linux/kgsl.
    V5_15,
}

/// What goes wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// `call:NAME:ERRNO`, `call:NAME:ERRNO:n`: the n-th call (default: first) of that ioctl, or of `open`, `mmap`,
    /// `munmap` or `any`, fails.
    Call {
        /// The name without its prefix, `GPU_COMMAND`.
        name: String,
        /// What it returns.
        errno: Errno,
        /// Which call, from 1.
        nth: u32,
    },
    /// `path:PATH:ERRNO`: that file is refused; with `ENOENT` it is not there.
    Path {
        /// Where.
        path: String,
        /// What it returns.
        errno: Errno,
    },
    /// `hang:n`, `hang:n:times`: the n-th submission that runs on the GPU, from 1, hangs, so many times (default: once).
    Hang {
        /// Which, from 1.
        nth: u64,
        /// How often.
        times: u32,
    },
    /// `page:n`: an access of the n-th submission is not answered.
    Page {
        /// Which, from 1.
        nth: u64,
    },
    /// `lost:n`: the interrupt at the end of the n-th submission is lost: nobody is woken until the next one.
    Lost {
        /// Which, from 1.
        nth: u64,
    },
}

/// A machine that was asked for.
#[derive(Clone, Debug)]
pub struct Config {
    /// The chip.
    pub chip: &'static Chip,
    /// GPUs: 0 or 1.
    pub gpus: u32,
    /// Which kernel driver has it.
    pub kernel: Kernel,
    /// Bytes that objects may take.
    pub memory: u64,
    /// Where random choices start.
    pub seed: u64,
    /// Milliseconds without progress that are a hang.
    pub timeout: u64,
    /// Instructions of a wave that are a hang.
    pub instructions: u64,
    /// Whether the CPU's cache lies before imported memory of the program.
    pub cached_pages: bool,
    /// Whether a page to read lies behind each memory object.
    pub guard: bool,
    /// What is not documented of arithmetic.
    pub arithmetic: Arithmetic,
    /// What is printed.
    pub debug: u32,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

/// Instructions of a wave, where nothing else is asked for.
const INSTRUCTIONS: u64 = 1 << 24;
/// `adreno_drawobj_timeout` of KGSL, adreno_dispatch.c.
const KGSL_TIMEOUT: u64 = 2000;
/// `DRM_MSM_HANGCHECK_DEFAULT_PERIOD` of msm_gpu.h.
const MSM_TIMEOUT: u64 = 500;

impl Config {
    /// Reads a config: see the front page.
    ///
    /// # Errors
    /// What was expected, and what was there.
    pub fn parse(text: &str) -> Result<Config> {
        let (mut chip, mut gpus, mut kernel, mut version) = ("a630", 1, None, Version::V4_9);
        let (mut memory, mut seed, mut timeout) = (half(), 1, None);
        let (mut instructions, mut debug, mut faults) = (INSTRUCTIONS, debug(), Vec::new());
        let (mut arithmetic, mut cached_pages, mut guard) = (Arithmetic::default(), false, false);
        for part in Part::all(text, KEYS) {
            let part = part?;
            match part.key {
                "chip" => chip = part.value,
                "gpus" => gpus = part.within(0..=1)?,
                "kernel" => kernel = Some(part.word(&[("kgsl", true), ("msm", false)])?),
                "version" => {
                    version = part.word(&[("4.9", Version::V4_9), ("5.15", Version::V5_15)])?;
                }
                "memory" => memory = part.bytes()?,
                "seed" => seed = part.number()?,
                "timeout" => timeout = Some(part.within(1..=600_000)?),
                "instructions" => instructions = part.within(1..=u64::MAX)?,
                "pages" => cached_pages = part.word(&[("coherent", false), ("cached", true)])?,
                "guard" => guard = part.word(&[("none", false), ("page", true)])?,
                "ulp" => arithmetic.ulp = part.within(0..=4)?,
                "mad" => arithmetic.fused = part.word(&[("rounded", false), ("fused", true)])?,
                "debug" => debug = part.number()?,
                "fault" => {
                    for one in part.value.split(';') {
                        let fault = Fault::parse(one).ok_or_else(|| wrong(part, one))?;
                        faults.push(fault);
                    }
                }
                _ => return Err(part.unknown(KEYS)),
            }
        }
        let kernel = match kernel {
            None | Some(true) => Kernel::Kgsl(version),
            Some(false) => Kernel::Msm,
        };
        let usual = match kernel {
            Kernel::Kgsl(_) => KGSL_TIMEOUT,
            Kernel::Msm => MSM_TIMEOUT,
        };
        if guard && kernel == Kernel::Msm {
            let part = Part {
                key: "guard",
                value: "page",
            };
            return Err(part.wrong("none, or kernel=kgsl: msm has no guard pages"));
        }
        let part = Part {
            key: "chip",
            value: chip,
        };
        Ok(Config {
            chip: Chip::by_name(chip).ok_or_else(|| part.wrong(Chip::names()))?,
            gpus,
            kernel,
            memory,
            seed,
            timeout: timeout.unwrap_or(usual),
            instructions,
            cached_pages,
            guard,
            arithmetic,
            debug,
            faults,
        })
    }

    /// What is wrong with a path.
    pub fn refused(&self, path: &str) -> Option<Errno> {
        self.faults.iter().find_map(|fault| match fault {
            Fault::Path { path: at, errno } => is_below(path, at).then_some(*errno),
            _ => None,
        })
    }
}

/// What faults may be.
const FAULTS: &str =
    "call:NAME:ERRNO[:NTH], path:PATH:ERRNO, hang:NTH[:TIMES], page:NTH or lost:NTH";

/// What is wrong with a fault; a name that no call has is told with those that there are.
fn wrong(part: Part<'_>, fault: &str) -> Wrong {
    let name = fault
        .strip_prefix("call:")
        .and_then(|rest| rest.split(':').next());
    match name {
        Some(name) if !calls().any(|call| call == name) => {
            let names: Vec<_> = calls().collect();
            part.wrong(format!("call:NAME with a name of {}", names.join(", ")))
        }
        _ => part.wrong(FAULTS),
    }
}

/// Half of the memory of the host, of which all GPUs of this kind have theirs.
fn half() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(1 << 30, |kib| kib * 512)
}

/// The variable DEBUG.
fn debug() -> u32 {
    let text = std::env::var("DEBUG").unwrap_or_default();
    text.parse().unwrap_or(0)
}

impl Fault {
    fn parse(text: &str) -> Option<Fault> {
        if let Some((path, errno)) = path(text) {
            let (path, errno) = (path.into(), Errno::from_name(errno)?);
            return Some(Fault::Path { path, errno });
        }
        let nth = |text: &str| text.parse().ok().filter(|&nth: &u64| nth > 0);
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            ["call", name, errno] => Fault::call(name, errno, 1),
            ["call", name, errno, at] => Fault::call(name, errno, u32::try_from(nth(at)?).ok()?),
            ["hang", at] => Some(Fault::Hang {
                nth: nth(at)?,
                times: 1,
            }),
            ["hang", at, times] => Some(Fault::Hang {
                nth: nth(at)?,
                times: u32::try_from(nth(times)?).ok()?,
            }),
            ["page", at] => Some(Fault::Page { nth: nth(at)? }),
            ["lost", at] => Some(Fault::Lost { nth: nth(at)? }),
            _ => None,
        }
    }

    fn call(name: &str, errno: &str, nth: u32) -> Option<Fault> {
        let known = calls().any(|call| call == name);
        known.then_some(Fault::Call {
            name: name.into(),
            errno: Errno::from_name(errno)?,
            nth,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configs_say_what_is_there() {
        let usual = Config::parse("").unwrap();
        assert_eq!(usual.chip.name, "a630");
        assert_eq!(usual.kernel, Kernel::Kgsl(Version::V4_9));
        assert_eq!(usual.timeout, 2000);
        let msm = Config::parse("chip=a643,kernel=msm,seed=7,timeout=20").unwrap();
        assert_eq!((msm.kernel, msm.seed, msm.timeout), (Kernel::Msm, 7, 20));
        let newer = Config::parse("version=5.15,memory=4M").unwrap();
        assert_eq!(newer.kernel, Kernel::Kgsl(Version::V5_15));
        assert_eq!(newer.memory, 4 << 20);
        let open = Config::parse("ulp=2,mad=fused").unwrap().arithmetic;
        assert_eq!((open.ulp, open.fused), (2, true));
        assert!(Config::parse("pages=cached").unwrap().cached_pages && !usual.cached_pages);
        assert_eq!(usual.arithmetic, Arithmetic::default());
        let text =
            "fault=call:GPU_COMMAND:ENOMEM:2;hang:1;hang:2:3;page:4;lost:5;path:/dev/a:EACCES";
        let faults = Config::parse(text).unwrap().faults;
        assert_eq!(faults.len(), 6);
        assert_eq!(faults[2], Fault::Hang { nth: 2, times: 3 });
        for wrong in [
            "chip=a740",
            "kernel=kfd",
            "version=4.14",
            "gpus=2",
            "timeout=0",
            "pages=dirty",
            "ulp=5",
            "mad=exact",
            "what",
            "x=1",
            "fault=hang:0",
            "fault=hang",
            "fault=call:GPU_COMMAND:NO",
            "fault=call:GPU_COMAND:EINVAL",
            "fault=path:dev:ENOENT",
        ] {
            assert!(Config::parse(wrong).is_err(), "{wrong}");
        }
        let unknown = Config::parse("fault=call:GEM_NEW:EINVAL").unwrap_err();
        assert!(unknown.to_string().contains(", MSM_GEM_NEW"), "{unknown}");
        let syntax = Config::parse("fault=call:GPU_COMMAND:NO").unwrap_err();
        assert!(syntax.to_string().contains("call:NAME:ERRNO"), "{syntax}");
    }
}
