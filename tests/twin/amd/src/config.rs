//! The config string: which machine it is, and what goes wrong on it.
//!
//! A list of `key=value` with commas between. Everything has a default: `""` is one gfx1100.
//!
//! | key | value |
//! |---|---|
//! | `chip` | `gfx1030`, `gfx1031`, `gfx1032`, `gfx1034`, `gfx1100` (default), `gfx1101`, `gfx1102`, `gfx1103`, `gfx1200`, `gfx1201`, `gfx942` |
//! | `gpus` | how many of it, 0 to 16 |
//! | `xcc` | for gfx942: 8 (default, SPX), 4 (DPX), 2 (QPX) or 1 (CPX) |
//! | `vram` | bytes of VRAM of each, with `K`, `M`, `G`; default: what the card has |
//! | `gtt` | bytes of system memory that all may take; default: half of the memory here |
//! | `bar` | `large` (default): the CPU can map all VRAM; `small`: 256 MiB of it, and GPUs do not see each other's |
//! | `kernel` | `6.12` (default) or `6.8`: whose checks are made; `6.8` hardly checks the buffers of queues (the twin then reports what is wrong) |
//! | `kfd` | the version that KFD gives itself, `1.6`; default: that of the kernel |
//! | `target` | the `gfx_target_version` that the topology shows in place of the chip's, `90006`: a card that is not supported |
//! | `seed` | what random choices start from |
//! | `drain` | when what the CPU writes to VRAM leaves the HDP but at a flush: `doorbell` (default): when a doorbell is rung, since the CPU may have read it back before, which nobody sees; `never`, for clients that flush by packets or the register; `random`: any time |
//! | `threads` | host threads that run the waves of a dispatch; default: 4; the values of undefined registers depend on it |
//! | `debug` | 1: print system calls, with the reason where they fail, and broken rules; 4: packets; 6: instructions; default: the environment variable `DEBUG` |
//! | `log` | the file that this goes to, in place of stderr; it is made anew |
//! | `fault` | `FAULTS`; several with `;` between. `n` behind a call is which of them (default: the first); `path` is also everything below a folder, which with `ENOENT` is not there; what has a queue begins once the n-th (from 0, the default) is there |

use twin::config::{Part, Result, Wrong, number, path};

use crate::chip::Chip;
use crate::kernel::errno::Errno;

/// How the CPU sees VRAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bar {
    /// All of it.
    Large,
    /// 256 MiB of it.
    Small,
}

/// When what the CPU writes to VRAM leaves the HDP, but at a flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drain {
    /// At no other time.
    Never,
    /// When a doorbell is rung.
    Doorbell,
    /// Any time.
    Random,
}

/// The version of Linux whose checks are made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Version {
    /// 6.8: the buffers of a queue are hardly checked.
    Linux6_8,
    /// 6.12: they are.
    Linux6_12,
}

/// What goes wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// `ioctl:NAME:ERRNO` or `ioctl:NAME:ERRNO:n`: the n-th call (default: first) of that ioctl fails.
    Ioctl {
        /// The name without its prefix, `CREATE_QUEUE`.
        name: &'static str,
        /// What it returns.
        errno: Errno,
        /// Which call, from 1.
        nth: u32,
    },
    /// `mmap:ERRNO`, `mmap:ERRNO:n`: the n-th mmap of a file of the twin fails.
    Mmap {
        /// What it returns.
        errno: Errno,
        /// Which call, from 1.
        nth: u32,
    },
    /// `open:ERRNO`, `open:ERRNO:n`: the n-th open fails.
    Open {
        /// What it returns.
        errno: Errno,
        /// Which call, from 1.
        nth: u32,
    },
    /// `path:PATH:ERRNO`: that file, or everything below that folder, is refused. With `ENOENT` it is
    /// not there; with others, devices fail to open and files of sysfs to be read.
    Path {
        /// Where, without links.
        path: String,
        /// What it returns.
        errno: Errno,
    },
    /// `hang:queue=n`: the n-th queue (from 0) never runs.
    Hang {
        /// Which.
        queue: u32,
    },
    /// `memory:va=0x...`, `memory:va=0x...:queue=n`: a memory fault at that address once the n-th
    /// queue (default 0) is there.
    Memory {
        /// Where.
        va: u64,
        /// Which queue.
        queue: u32,
    },
    /// `exception:reset`, `exception:reset:queue=n`: the GPU is reset once the n-th queue is there.
    Reset {
        /// Which queue.
        queue: u32,
    },
    /// `exception:poison`, `exception:poison:queue=n`: memory whose content is lost is used once the n-th queue is
    /// there; the queues of the process stop.
    Poison {
        /// Which queue.
        queue: u32,
    },
    /// `event:lost`, `event:lost:n`: the n-th interrupt (default: first) that would signal an event
    /// is lost.
    EventLost {
        /// Which, from 1.
        nth: u32,
    },
    /// `gone`, `gone:queue=n`: the GPU vanishes once the n-th queue is there.
    Gone {
        /// Which queue.
        queue: u32,
    },
}

/// A machine.
#[derive(Clone, Debug)]
pub struct Config {
    /// The chip of its GPUs.
    pub chip: &'static Chip,
    /// How many.
    pub gpus: usize,
    /// Where random choices start.
    pub seed: u64,
    /// Bytes of VRAM of each.
    pub vram: u64,
    /// Bytes of system memory that GPUs may use.
    pub gtt: u64,
    /// How the CPU sees VRAM.
    pub bar: Bar,
    /// The kernel.
    pub kernel: Version,
    /// What GET_VERSION answers, where that is not the kernel's.
    pub kfd: Option<(u32, u32)>,
    /// `gfx_target_version` in the topology, where that is not the chip's.
    pub target: Option<u32>,
    /// Bytes that the CPU writes to VRAM may leave the HDP before a flush.
    pub drain: Drain,
    /// Host threads that run the waves of a dispatch. Not taken from the host: undefined registers follow
    /// from it.
    pub threads: usize,
    /// How much to print.
    pub debug: u32,
    /// Where to; `None` is stderr.
    pub log: Option<String>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

const KEYS: &str = "chip, gpus, xcc, vram, gtt, bar, kernel, kfd, target, seed, drain, threads, \
    debug, log, fault";

impl Config {
    /// Reads a config string.
    ///
    /// # Errors
    /// Says which part is wrong, what was expected and what was found.
    pub fn parse(text: &str) -> Result<Self> {
        let mut chip_name = "gfx1100";
        let mut xccs = None;
        let mut vram = None;
        let mut config = Self::default();
        for part in Part::all(text, KEYS) {
            let part = part?;
            let value = part.value;
            match part.key {
                "chip" => chip_name = value,
                "xcc" => xccs = Some(part.number()?),
                "gpus" => config.gpus = part.within(0..=16)?,
                "seed" => config.seed = part.number()?,
                "vram" => vram = Some(part.bytes()?),
                "gtt" => config.gtt = part.bytes()?,
                "bar" => config.bar = part.word(&[("large", Bar::Large), ("small", Bar::Small)])?,
                "kernel" => {
                    let versions = [("6.8", Version::Linux6_8), ("6.12", Version::Linux6_12)];
                    config.kernel = part.word(&versions)?;
                }
                "kfd" => {
                    let version = value.split_once('.');
                    let version = version.and_then(|(a, b)| Some((number(a)?, number(b)?)));
                    config.kfd = Some(version.ok_or_else(|| part.wrong("a version like 1.6"))?);
                }
                "target" => config.target = Some(part.number()?),
                "drain" => {
                    config.drain = part.word(&[
                        ("doorbell", Drain::Doorbell),
                        ("never", Drain::Never),
                        ("random", Drain::Random),
                    ])?;
                }
                "threads" => config.threads = part.within(1..=u64::MAX)?,
                "debug" => config.debug = part.number()?,
                "log" => config.log = Some(value.to_owned()),
                "fault" => {
                    for fault in value.split(';').filter(|fault| !fault.is_empty()) {
                        config.faults.push(parse_fault(fault)?);
                    }
                }
                _ => return Err(part.unknown(KEYS)),
            }
        }
        config.chip = Chip::find(chip_name, xccs).ok_or_else(|| {
            let known: Vec<_> = crate::chip::CHIPS
                .iter()
                .map(|chip| format!("{} with xcc={}", chip.name, chip.xccs))
                .collect();
            let xcc = xccs.map_or(String::new(), |xccs| format!(" with xcc={xccs}"));
            Wrong(format!(
                "no chip '{chip_name}'{xcc}; known: {}",
                known.join(", ")
            ))
        })?;
        config.vram = vram.unwrap_or(config.chip.vram);
        Ok(config)
    }
}

impl Default for Config {
    fn default() -> Self {
        let debug = std::env::var("DEBUG").ok();
        Self {
            chip: &crate::chip::GFX1100,
            gpus: 1,
            seed: 1,
            vram: crate::chip::GFX1100.vram,
            gtt: host_memory() / 2,
            bar: Bar::Large,
            kernel: Version::Linux6_12,
            kfd: None,
            target: None,
            drain: Drain::Doorbell,
            threads: 4,
            debug: debug.and_then(|text| text.parse().ok()).unwrap_or(0),
            log: None,
            faults: Vec::new(),
        }
    }
}

/// Bytes of memory of this host.
fn host_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    total
        .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
        .map_or(8 << 30, |kib| kib << 10)
}

const FAULTS: &str = "ioctl:NAME:ERRNO[:n], mmap:ERRNO[:n], open:ERRNO[:n], path:PATH:ERRNO, \
    hang:queue=n, memory:va=0x...[:queue=n], exception:reset[:queue=n], exception:poison[:queue=n], event:lost[:n], gone[:queue=n]";

fn parse_fault(text: &str) -> Result<Fault> {
    let part = Part {
        key: "fault",
        value: text,
    };
    let parts: Vec<&str> = text.split(':').collect();
    let bad = |expected: &str| part.wrong(expected);
    let errno =
        |name: &str| Errno::from_name(name).ok_or_else(|| bad("the name of an errno, like ENOMEM"));
    let nth = |text: Option<&&str>| match text {
        None => Ok(1),
        Some(text) => number(text)
            .filter(|&n| n > 0)
            .ok_or_else(|| bad("a number from 1 at the end")),
    };
    let queue = |text: Option<&&str>| match text {
        None => Ok(0),
        Some(text) => text
            .strip_prefix("queue=")
            .and_then(number)
            .ok_or_else(|| bad("queue=n at the end")),
    };
    if let Some((path, error)) = path(text) {
        return Ok(Fault::Path {
            path: path.into(),
            errno: errno(error)?,
        });
    }
    match parts.as_slice() {
        ["ioctl", name, error, rest @ ..] if rest.len() <= 1 => Ok(Fault::Ioctl {
            name: crate::kernel::ioctl::name(name)
                .ok_or_else(|| bad("the name of an ioctl, like CREATE_QUEUE"))?,
            errno: errno(error)?,
            nth: nth(rest.first())?,
        }),
        ["mmap", error, rest @ ..] if rest.len() <= 1 => Ok(Fault::Mmap {
            errno: errno(error)?,
            nth: nth(rest.first())?,
        }),
        ["open", error, rest @ ..] if rest.len() <= 1 => Ok(Fault::Open {
            errno: errno(error)?,
            nth: nth(rest.first())?,
        }),
        ["hang", which] => Ok(Fault::Hang {
            queue: queue(Some(which))?,
        }),
        ["memory", va, rest @ ..] if rest.len() <= 1 => Ok(Fault::Memory {
            va: va
                .strip_prefix("va=")
                .and_then(number)
                .ok_or_else(|| bad("memory:va=0x..."))?,
            queue: queue(rest.first())?,
        }),
        ["exception", "reset", rest @ ..] if rest.len() <= 1 => Ok(Fault::Reset {
            queue: queue(rest.first())?,
        }),
        ["exception", "poison", rest @ ..] if rest.len() <= 1 => Ok(Fault::Poison {
            queue: queue(rest.first())?,
        }),
        ["event", "lost", rest @ ..] if rest.len() <= 1 => Ok(Fault::EventLost {
            nth: nth(rest.first())?,
        }),
        ["gone", rest @ ..] if rest.len() <= 1 => Ok(Fault::Gone {
            queue: queue(rest.first())?,
        }),
        _ => Err(bad(FAULTS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_config() {
        let config = Config::parse(
            "chip=gfx942,gpus=2,xcc=1,seed=7,vram=2G,bar=small,kernel=6.8,drain=random,threads=2,\
             kfd=1.6,target=90006,log=twin.log,fault=ioctl:CREATE_QUEUE:ENOMEM:3;memory:va=0x1000;\
             gone:queue=2;path:/sys/bus/pci/devices/0000:03:00.0:EPERM",
        )
        .unwrap();
        assert_eq!(
            (config.chip.name, config.chip.xccs, config.gpus),
            ("gfx942", 1, 2)
        );
        assert_eq!((config.seed, config.vram, config.threads), (7, 2 << 30, 2));
        assert_eq!((config.bar, config.kernel), (Bar::Small, Version::Linux6_8));
        assert_eq!(config.drain, Drain::Random);
        assert_eq!((config.kfd, config.target), (Some((1, 6)), Some(90006)));
        assert_eq!(config.log.as_deref(), Some("twin.log"));
        assert_eq!(
            config.faults,
            [
                Fault::Ioctl {
                    name: "CREATE_QUEUE",
                    errno: Errno(libc::ENOMEM),
                    nth: 3
                },
                Fault::Memory {
                    va: 0x1000,
                    queue: 0
                },
                Fault::Gone { queue: 2 },
                Fault::Path {
                    path: "/sys/bus/pci/devices/0000:03:00.0".into(),
                    errno: Errno(libc::EPERM),
                },
            ]
        );
        let default = Config::parse("").unwrap();
        assert_eq!((default.chip.name, default.vram), ("gfx1100", 24 << 30));
    }

    #[test]
    fn errors_say_what_was_expected() {
        let error = |text| Config::parse(text).unwrap_err().to_string();
        assert_eq!(error("gpus=17"), "gpus=17: expected 0 to 16");
        assert_eq!(
            error("vram=24X"),
            "vram=24X: expected bytes, with an optional K, M or G"
        );
        assert!(error("chip=gfx900").starts_with("no chip 'gfx900'; known: gfx1030"));
        assert!(error("chip=gfx1100,xcc=8").starts_with("no chip 'gfx1100' with xcc=8"));
        assert!(error("colour=red").starts_with("'colour' is no key; keys: chip"));
        assert!(error("fast").contains("expected key=value"));
        assert!(error("fault=ioctl:CREATE_QUEUES:ENOMEM").contains("the name of an ioctl"));
        assert!(error("fault=mmap:OOPS").contains("the name of an errno"));
        assert!(error("kfd=6").contains("a version like 1.6"));
        assert!(error("fault=path:dev/kfd:EPERM").contains("path:PATH:ERRNO"));
        assert!(error("fault=flood").contains("hang:queue=n"));
    }
}
