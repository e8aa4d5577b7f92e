//! The config string: `chip=ad102,gpus=2,driver=580.142,fault=call:RM_ALLOC:NV_ERR_NO_MEMORY`.
//!
//! A list of `key=value` with commas between. Everything has a default: `""` is one ad102.
//!
//! | key | value |
//! |---|---|
//! | `chip` | `ga102`, `ad102` (default), `h100`, `h200`, `gb202`, also as compilers call them (`sm_89`); several with `+`, one for each GPU |
//! | `gpus` | how many there are of a single chip, 0 to 16 |
//! | `driver` | a release, `580.142`, or a branch alone: `535`, `550`, `570`, `580` (default) |
//! | `says` | another version, as which that driver presents itself |
//! | `module` | `open` (default), `closed`, `none`, or the name of another one that has the GPUs, `nouveau` |
//! | `compute` | who may compute: `shared` (default), `exclusive`, `taken` (another program has it), `prohibited` |
//! | `mig` | how many parts each GPU is divided into, 0 (default) to 7; nothing but the number is modelled |
//! | `confidential` | `on`, `off` (default): whether computing is |
//! | `instructions` | how many a block may run before its channel is taken for stuck |
//! | `seed` | where random choices start |
//! | `fault` | `FAULTS`; several with `;` between. `NAME` is an escape (`RM_ALLOC`), a class, a control, a command of UVM, `open`, `mmap`, `munmap`, or `any`; `NTH` which of them, from 1; a path with `ENOENT` is not there; a channel is named by its number on the runlist |

use drivers_spec::nv::abi::Branch;
use drivers_spec::nv::class::CLASSES;
use drivers_spec::nv::control::CONTROLS;
use drivers_spec::nv::escape::ESCAPES;
use drivers_spec::nv::uvm::COMMANDS;

use twin::config::{Part, Result, Wrong, is_below, path};

use crate::chip::Chip;
use crate::errno::{Errno, Failure};

/// Keys of a config string.
const KEYS: &str =
    "chip, gpus, driver, says, module, compute, mig, confidential, instructions, seed, fault";

/// What faults may be.
const FAULTS: &str = "call:NAME:FAILURE[:NTH], path:PATH:ERRNO, hang:channel=N, mmu:va=0x..., exception, event:lost[:NTH], gone";

/// Instructions that a block may run, where nothing else is asked for.
const INSTRUCTIONS: u64 = 1 << 26;

/// A machine that was asked for.
#[derive(Clone, Debug)]
pub struct Config {
    /// The chip of each GPU.
    pub chips: Vec<&'static Chip>,
    /// The version of the driver, as it says it.
    pub driver: String,
    /// Which kernel module has the GPUs.
    pub module: Module,
    /// Its branch.
    pub branch: Branch,
    /// Who may compute on the GPUs.
    pub compute: Compute,
    /// Parts that each GPU is divided into (MIG); 0: it is whole. Nothing but the number is modelled.
    pub parts: u32,
    /// Whether computing is confidential.
    pub confidential: bool,
    /// Instructions that a block may run before its channel is taken for stuck.
    pub instructions: u64,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// Files that are refused, or are not there (`ENOENT`), with all below them.
    pub paths: Vec<(String, Errno)>,
    /// What the hardware does wrong, each once.
    pub hardware: Vec<Hardware>,
    /// Where random choices start.
    pub seed: u64,
}

/// Who may compute on a GPU: what `nvidia-smi -c` sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compute {
    /// Every program.
    #[default]
    Shared,
    /// One program at a time.
    Exclusive,
    /// One at a time, and one that is not there has it.
    Taken,
    /// None.
    Prohibited,
}

/// Which kernel module has the GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Module {
    /// NVIDIA's, of the sources that are open.
    Open,
    /// NVIDIA's, of those that are not. It answers here as the open one does.
    Closed,
    /// Another one, such as `nouveau`: NVIDIA's is not loaded.
    Other(String),
    /// None.
    None,
}

impl Module {
    fn parse(part: Part<'_>) -> Result<Module> {
        let name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        match part.value {
            "open" => Ok(Module::Open),
            "closed" => Ok(Module::Closed),
            "none" => Ok(Module::None),
            other if !other.is_empty() && other.chars().all(name) => {
                Ok(Module::Other(other.into()))
            }
            _ => Err(part.wrong("open, closed, none or the name of another module")),
        }
    }

    /// The name of the module that is bound to the GPUs.
    pub fn bound(&self) -> Option<&str> {
        match self {
            Module::Open | Module::Closed => Some("nvidia"),
            Module::Other(name) => Some(name),
            Module::None => None,
        }
    }

    /// What the driver calls itself in front of its version.
    pub fn title(&self) -> &'static str {
        match self {
            Module::Closed => "NVIDIA UNIX x86_64 Kernel Module",
            _ => "NVIDIA UNIX Open Kernel Module for x86_64",
        }
    }
}

/// What hardware does wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hardware {
    /// The channel with that number on its runlist does nothing any more.
    Hang(u32),
    /// An access at that address is not answered, whatever is there.
    Mmu(u64),
    /// A kernel raises an exception.
    Exception,
    /// The GPU falls off the bus when it is rung for.
    Gone,
    /// An event wakes up nobody: the one of that number, from 1.
    EventLost(u32),
}

/// A call that fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The name of an escape, a command of UVM, a class that is made, a control, `open`, `mmap` or `munmap`;
    /// `any`: whichever comes.
    pub call: String,
    /// How.
    pub failure: Failure,
    /// Which of the calls, from 1.
    pub nth: u32,
}

/// The newest release of each branch that is described.
fn release(branch: Branch) -> &'static str {
    match branch {
        Branch::R535 => "535.288.01",
        Branch::R550 => "550.163.01",
        Branch::R570 => "570.211.01",
        Branch::R580 => "580.142",
    }
}

impl Config {
    /// Reads a config: see the front page.
    ///
    /// # Errors
    /// What was expected, and what was there.
    pub fn parse(text: &str) -> Result<Config> {
        let (mut chips, mut gpus) = (String::from("ad102"), None);
        let mut seed = 1;
        let (mut driver, mut faults) = (release(Branch::R580).to_string(), Vec::new());
        let (mut hardware, mut paths) = (Vec::new(), Vec::new());
        let (mut says, mut module) = (None, Module::Open);
        let (mut compute, mut parts, mut confidential) = (Compute::Shared, 0, false);
        let mut instructions = INSTRUCTIONS;
        for part in Part::all(text, KEYS) {
            let part = part?;
            let value = part.value;
            match part.key {
                "chip" => chips = value.into(),
                "gpus" => gpus = Some(part.within(0..=16)?),
                "driver" => driver = value.into(),
                "says" if value.is_empty() || value.len() >= 64 => {
                    return Err(part.wrong("1 to 63 characters"));
                }
                "says" => says = Some(value.into()),
                "module" => module = Module::parse(part)?,
                "compute" => {
                    compute = part.word(&[
                        ("shared", Compute::Shared),
                        ("exclusive", Compute::Exclusive),
                        ("taken", Compute::Taken),
                        ("prohibited", Compute::Prohibited),
                    ])?;
                }
                "mig" => parts = part.within(0..=7)?,
                "confidential" => confidential = part.word(&[("on", true), ("off", false)])?,
                "instructions" => instructions = part.within(1..=u64::MAX)?,
                "seed" => seed = part.number()?,
                "fault" => {
                    for one in value.split(';') {
                        match (Hardware::parse(one), refusal(one)) {
                            (Some(fault), _) => hardware.push(fault),
                            (None, Some(path)) => paths.push(path),
                            (None, None) => faults.push(Fault::parse(one)?),
                        }
                    }
                }
                _ => return Err(part.unknown(KEYS)),
            }
        }
        if let Some(branch) = Branch::ALL
            .iter()
            .find(|b| b.number().to_string() == driver)
        {
            driver = release(*branch).into();
        }
        let Some(branch) = Branch::of(&driver) else {
            return Err(Wrong(format!(
                "driver={driver}: expected a release of branch 535, 550, 570 or 580"
            )));
        };
        let mut all = chips_of(&chips, branch, &driver)?;
        match gpus {
            Some(gpus) if all.len() == 1 => all = vec![all[0]; gpus],
            Some(_) => return Err(Wrong("gpus goes with one chip".into())),
            None => {}
        }
        Ok(Config {
            chips: all,
            driver: says.unwrap_or(driver),
            branch,
            module,
            compute,
            parts,
            confidential,
            instructions,
            faults,
            paths,
            hardware,
            seed,
        })
    }
}

impl Config {
    /// What is wrong with a path.
    pub fn refused(&self, path: &str) -> Option<Errno> {
        let refused = self
            .paths
            .iter()
            .find(|(refused, _)| is_below(path, refused));
        refused.map(|(_, errno)| *errno)
    }
}

/// The chips of a list, which a driver must know.
fn chips_of(list: &str, branch: Branch, driver: &str) -> Result<Vec<&'static Chip>> {
    let mut all = Vec::new();
    for name in list.split('+') {
        let Some(chip) = Chip::by_name(name) else {
            return Err(Wrong(format!(
                "chip={name}: expected ga102, ad102, h100, h200 or gb202"
            )));
        };
        if branch < chip.since {
            return Err(Wrong(format!(
                "chip={name}: expected a driver of branch {} or newer, found {driver}",
                chip.since
            )));
        }
        all.push(chip);
    }
    Ok(all)
}

/// A file that is refused.
fn refusal(text: &str) -> Option<(String, Errno)> {
    let (path, errno) = path(text)?;
    Some((path.into(), Errno::from_name(errno)?))
}

impl Hardware {
    fn parse(text: &str) -> Option<Hardware> {
        match text.split_once(':').unwrap_or((text, "")) {
            ("hang", channel) => {
                let number = channel.strip_prefix("channel=")?.parse();
                number.ok().map(Hardware::Hang)
            }
            ("mmu", va) => {
                let va = u64::from_str_radix(va.strip_prefix("va=0x")?, 16);
                va.ok().map(Hardware::Mmu)
            }
            ("exception", "") => Some(Hardware::Exception),
            ("gone", "") => Some(Hardware::Gone),
            ("event", "lost") => Some(Hardware::EventLost(1)),
            ("event", rest) => {
                let nth = rest.strip_prefix("lost:")?.parse().ok();
                nth.filter(|&nth| nth > 0).map(Hardware::EventLost)
            }
            _ => None,
        }
    }
}

impl Fault {
    fn parse(text: &str) -> Result<Fault> {
        let wrong = || {
            Wrong(format!(
                "fault={text}: expected {FAULTS}; as in call:RM_ALLOC:NV_ERR_NO_MEMORY:2, mmu:va=0x1000"
            ))
        };
        let parts: Vec<&str> = text.split(':').collect();
        let (name, failure, nth) = match parts[..] {
            ["call", name, failure] => (name, failure, 1),
            ["call", name, failure, nth] => (name, failure, nth.parse().map_err(|_| wrong())?),
            _ => return Err(wrong()),
        };
        if !is_call(name) {
            return Err(Wrong(format!(
                "fault={text}: no call has the name {name}; expected an escape (RM_ALLOC), a class \
                 (FERMI_VASPACE_A), a control (NV2080_CTRL_CMD_PERF_BOOST), a command of UVM (UVM_FREE), \
                 open, mmap, munmap, any (whichever is the NTH), or nothing"
            )));
        }
        Ok(Fault {
            call: name.into(),
            failure: Failure::from_name(failure).ok_or_else(wrong)?,
            nth,
        })
    }
}

/// Whether a call can have that name, on any branch; escapes with and without what all of them begin with.
fn is_call(name: &str) -> bool {
    let tables = [ESCAPES, CLASSES, CONTROLS, COMMANDS];
    let mut calls = tables.iter().flat_map(|table| table.iter());
    ["open", "mmap", "munmap", "any", "nothing"].contains(&name)
        || calls.any(|call| call.name == name || call.name.strip_prefix("NV_ESC_") == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use drivers_spec::nv::status;

    #[test]
    fn configs_say_what_is_there() {
        let one = Config::parse("").unwrap();
        assert_eq!((one.chips.len(), one.branch), (1, Branch::R580));
        let two = Config::parse("chip=h100,gpus=2,driver=535").unwrap();
        assert_eq!((two.chips.len(), &*two.driver), (2, "535.288.01"));
        let mixed = Config::parse("chip=ga102+gb202,driver=570.211.01").unwrap();
        assert_eq!(mixed.chips[1].name, "gb202");
        let fault =
            Config::parse("fault=call:mmap:EAGAIN;call:RM_ALLOC:NV_ERR_NO_MEMORY:3").unwrap();
        assert_eq!(fault.faults[1].nth, 3);
        let no_memory = Failure::Status(status::NV_ERR_NO_MEMORY);
        assert_eq!(fault.faults[1].failure, no_memory);
        let broken =
            Config::parse("fault=hang:channel=1;mmu:va=0x20;exception;event:lost:3;gone").unwrap();
        let all = [
            Hardware::Hang(1),
            Hardware::Mmu(0x20),
            Hardware::Exception,
            Hardware::EventLost(3),
            Hardware::Gone,
        ];
        assert_eq!(broken.hardware, all);
        let odd = Config::parse("module=closed,driver=570,says=999.1,fault=path:/dev/a:b:EACCES");
        let odd = odd.unwrap();
        assert_eq!((&odd.module, odd.branch), (&Module::Closed, Branch::R570));
        assert_eq!(odd.driver, "999.1");
        assert_eq!(odd.paths, [("/dev/a:b".into(), Errno(libc::EACCES))]);
        let other = Config::parse("module=vfio-pci").unwrap().module;
        assert_eq!(other.bound(), Some("vfio-pci"));
        for wrong in [
            "module=",
            "module=A",
            "says=",
            "fault=path:dev/a:ENOENT",
            "fault=path:/dev/a:NO",
            "fault=hang",
            "fault=mmu:va=5",
            "fault=gone:1",
            "fault=event:lost:0",
            "chip=x",
            "gpus=17",
            "compute=all",
            "mig=8",
            "confidential=yes",
            "instructions=0",
            "gpus=a",
            "seed=a",
            "driver=600",
            "driver=580.10",
            "what",
            "x=1",
            "chip=gb202,driver=550",
            "fault=call:open",
            "fault=call:open:NO",
            "fault=call:open:0x0",
            "fault=call:open:0xg",
            "fault=call:RM_ALOC:NV_ERR_NO_MEMORY",
            "chip=h100+h200,gpus=2",
        ] {
            assert!(Config::parse(wrong).is_err(), "{wrong}");
        }
    }
}
