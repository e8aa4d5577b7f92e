//! The engines that the suites run on.

#[path = "../../../drivers/amd/tests/device/cable/mod.rs"]
mod cable;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cable::Remote;
use codegen::compile::{NvrtcCompiler, PtxasCompiler, Toolkits};
use codegen::render::{CudaRenderer, PtxRenderer};
use codegen::{Backend, Target as ChipTarget};
use drivers::env::Settings;
use drivers::select::{DeviceKind, Target, Transport};
use hcq::Device;
use hcq::transport::cable::Cable;
use hcq::transport::{Clock, Machine, VirtualClock};
use tensor::Engine;
use tensor::exec::{DeviceExecutor, Interpreter, Options};
use twin_amd::Violation;
use twin_amd::pci::machine::PciMachine;
use twin_amd::usb::UsbMachine;

/// Why an engine could not be made.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The device did not open.
    #[error(transparent)]
    Device(#[from] hcq::Error),
    /// The compiler is not there.
    #[error(transparent)]
    Compiler(#[from] codegen::Error),
    /// The executor did not start.
    #[error(transparent)]
    Executor(#[from] tensor::Error),
    /// There is no such simulated machine.
    #[error("{0}")]
    Twin(String),
    /// What the device needs is not there.
    #[error("{folder}: not there; {script} fetches it", folder = .folder.display())]
    NotFetched {
        /// Where it would be.
        folder: PathBuf,
        /// What brings it there.
        script: &'static str,
    },
    /// Rules of a simulated device were broken.
    #[error("rules broken: {0}")]
    Rules(String),
}

/// The rules that a simulated device saw broken.
type Broken = Box<dyn Fn() -> Vec<Violation>>;

/// The same, for every GPU of a machine.
type Journal = Arc<dyn Fn() -> Vec<Violation>>;

/// An engine, and what has to hold once everything on it has run.
pub struct Rig {
    /// The engine.
    pub engine: Engine,
    /// Whether its device has `f64`. Where it has none, kernels with one are refused.
    pub doubles: bool,
    /// Whether denormal numbers are zeros to it (Adreno: Mesa `tu_device.cc`, float controls).
    pub flushes: bool,
    broken: Option<Broken>,
}

impl Rig {
    fn plain(engine: Engine) -> Rig {
        Rig {
            engine,
            doubles: true,
            flushes: false,
            broken: None,
        }
    }

    /// The engine of a test; none, which is said, where what it needs was not fetched.
    ///
    /// # Panics
    /// There is none for another reason.
    pub fn of_test(made: Result<Rig, EngineError>) -> Option<Rig> {
        match made {
            Ok(rig) => Some(rig),
            Err(why @ EngineError::NotFetched { .. }) => {
                println!("skipped: {why}");
                None
            }
            // PANIC: a test ends here.
            Err(why) => panic!("{why}"),
        }
    }

    /// Ends the engine. A simulated device says which rules were broken on it.
    ///
    /// # Errors
    /// [`EngineError::Rules`].
    pub fn finish(self) -> Result<(), EngineError> {
        drop(self.engine);
        let violations = self.broken.map_or(Vec::new(), |broken| broken());
        let Some(first) = violations.first() else {
            return Ok(());
        };
        let mut names: Vec<&str> = violations.iter().map(|v| v.rule.name).collect();
        names.dedup();
        Err(EngineError::Rules(format!(
            "{}; first: {first}",
            names.join(", ")
        )))
    }
}

/// Node by node on the host: no schedule, no kernel.
///
/// # Errors
/// None today.
pub fn reference() -> Result<Rig, EngineError> {
    Ok(Rig::plain(Engine::reference()))
}

/// Scheduled into kernels, which the interpreter runs: no compiler, no device.
///
/// # Errors
/// None today.
pub fn interpreter() -> Result<Rig, EngineError> {
    Ok(Rig::plain(Interpreter::engine(Default::default(), false)))
}

/// Scheduled, compiled by LLVM, run from the queues of the CPU as a device.
///
/// # Errors
/// From the device or the compiler.
pub fn cpu() -> Result<Rig, EngineError> {
    // What is expected has subnormal numbers.
    let settings = Settings {
        subnormals: true,
        ..Settings::default()
    };
    let device = drivers::open_with(&Target::any(DeviceKind::Cpu), &settings, None)?;
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let backend = Backend::find("CPU:LLVM", "", cores)?;
    let engine = DeviceExecutor::engine(device, backend, Options::default())?;
    Ok(Rig::plain(engine))
}

/// OpenCL C, run by PoCL of Debian 12 on this processor.
///
/// # Errors
/// From the device or the compiler; [`EngineError::NotFetched`].
pub fn cl() -> Result<Rig, EngineError> {
    let Some(library) = conformance::pocl::library() else {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/cl");
        let script = "scripts/fetch cl";
        return Err(EngineError::NotFetched { folder, script });
    };
    let found = drivers_cl::survey(Some(&library)).map_err(|e| EngineError::Twin(e.to_string()))?;
    let first = found
        .first()
        .ok_or_else(|| EngineError::Twin("PoCL has no device".into()))?;
    let device = drivers_cl::open(first, &drivers_cl::Options::default())?;
    let (arch, units) = (device.info().arch.clone(), device.info().units as usize);
    let engine = DeviceExecutor::engine(
        device,
        Backend::find("CL", &arch, units)?,
        Options::default(),
    )?;
    Ok(Rig {
        doubles: arch.contains("fp64"),
        flushes: !arch.contains("denorm"),
        ..Rig::plain(engine)
    })
}

/// A simulated GPU: its chip, which may be followed by more about its machine (`gfx942,xcc=1`, `a660,kernel=msm`), and
/// for NVIDIA's by how kernels are compiled (`sm_90:PTX`, else CUDA C by NVRTC).
///
/// # Errors
/// From the device or the compiler.
pub fn gpu(machine: &str, options: Options) -> Result<Rig, EngineError> {
    gpus(machine, [options]).map(|[rig]| rig)
}

/// Several GPUs of one machine, see [`gpu`]. Each tells of the rules that were broken on any of them.
///
/// # Errors
/// From the devices or the compiler.
pub fn gpus<const N: usize>(machine: &str, options: [Options; N]) -> Result<[Rig; N], EngineError> {
    let (chip, more) = machine.split_once(',').unwrap_or((machine, ""));
    let (chip, renderer) = chip.split_once(':').unwrap_or((chip, "CUDA"));
    let config = format!("chip={chip},gpus={N},{more}");
    let (twin, journal, kind, way): (drivers::Twin, Journal, _, _) = if chip.starts_with("sm_") {
        let machine = twin_nv::machine::TwinMachine::new(&config).map_err(EngineError::Twin)?;
        let journal = machine.clone();
        let journal = Arc::new(move || journal.journal().violations());
        (machine, journal, DeviceKind::Nv, Transport::Nvk)
    } else if chip.starts_with('a') {
        let machine = twin_qcom::machine::TwinMachine::new(&format!("debug=0,{config}"));
        let machine = machine.map_err(EngineError::Twin)?;
        let journal = machine.clone();
        let journal = Arc::new(move || journal.journal().violations());
        let way = match more.contains("kernel=msm") {
            true => Transport::Msm,
            false => Transport::Kgsl,
        };
        (machine, journal, DeviceKind::Qcom, way)
    } else {
        let config = format!("debug=0,drain=never,{config}");
        let machine = twin_amd::machine::TwinMachine::new(&config).map_err(EngineError::Twin)?;
        let journal = machine.clone();
        let journal = Arc::new(move || journal.journal().violations());
        (machine, journal, DeviceKind::Amd, Transport::Kfd)
    };
    let mut rigs = Vec::new();
    for (index, options) in options.into_iter().enumerate() {
        let backend = match kind {
            DeviceKind::Nv => nv_backend(chip, renderer)?,
            DeviceKind::Qcom => Backend::find("QCOM:IR3", chip, 0)?,
            _ => Backend::find("AMD:LLVM", chip, 0)?,
        };
        let target = Target {
            interface: Some(way.interface(true)),
            indices: Some(vec![index as u32]),
            ..Target::any(kind)
        };
        let device = drivers::open_with(&target, &Settings::default(), Some(&twin))?;
        let engine = DeviceExecutor::engine(device, backend, options)?;
        let journal = journal.clone();
        let broken: Broken = Box::new(move || journal());
        rigs.push(Rig {
            engine,
            doubles: kind != DeviceKind::Qcom,
            flushes: kind == DeviceKind::Qcom,
            broken: Some(broken),
        });
    }
    rigs.try_into()
        .map_err(|rigs: Vec<Rig>| EngineError::Twin(format!("{} GPUs of {N}", rigs.len())))
}

/// Compiled by LLVM for an AMD GPU, run from its queues.
fn amd(device: Arc<dyn Device>, chip: &str, broken: Broken) -> Result<Rig, EngineError> {
    let backend = Backend::find("AMD:LLVM", chip, 0)?;
    let engine = DeviceExecutor::engine(device, backend, Options::default())?;
    Ok(Rig {
        engine,
        doubles: true,
        flushes: false,
        broken: Some(broken),
    })
}

/// What `scripts/fetch cuda` has fetched, for a chip.
fn nv_backend(chip: &str, renderer: &str) -> Result<Backend, EngineError> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/cuda");
    if !root.join("fetched").exists() {
        let script = "scripts/fetch cuda";
        return Err(EngineError::NotFetched {
            folder: root,
            script,
        });
    }
    let (toolkits, target) = (Toolkits::at(root), ChipTarget::nv(chip, 0)?);
    Ok(match renderer {
        "CUDA" => {
            let compiler = Arc::new(NvrtcCompiler::of(&toolkits, &target)?);
            Backend::new(target, Arc::new(CudaRenderer), Some(compiler))
        }
        "PTX" => {
            let compiler = Arc::new(PtxasCompiler::of(&toolkits)?);
            Backend::new(target, Arc::new(PtxRenderer), Some(compiler))
        }
        _ => {
            return Err(EngineError::Twin(format!(
                "expected CUDA or PTX, found {renderer}"
            )));
        }
    })
}

macro_rules! gpus {
    ($($name:ident $machine:literal;)*) => {$(
        #[doc = concat!("A simulated GPU: ", $machine, ".")]
        ///
        /// # Errors
        /// From the device or the compiler.
        pub fn $name() -> Result<Rig, EngineError> {
            gpu($machine, Options::default())
        }
    )*};
}

gpus! {
    gfx1030 "gfx1030";
    gfx1100 "gfx1100";
    gfx1201 "gfx1201";
    gfx942 "gfx942";
    sm_86 "sm_86";
    sm_89 "sm_89:PTX";
    sm_90 "sm_90";
    sm_120 "sm_120:PTX";
    a630 "a630";
    a643 "a643,ulp=2,mad=fused";
    a660 "a660";
    a660_msm "a660,kernel=msm";
}

/// A simulated gfx1100 whose memory the host has no mapping of: each access is a transfer.
///
/// # Errors
/// From the device or the compiler.
pub fn gfx1100_remote() -> Result<Rig, EngineError> {
    let twin = twin_amd::machine::TwinMachine::new("debug=0,drain=never,chip=gfx1100");
    let twin = twin.map_err(EngineError::Twin)?;
    let machine: Arc<dyn Machine> = twin.clone();
    let options = drivers_amd::Options::default();
    let interface = drivers_amd::kfd::open(&machine, 0, &options)?;
    let interface = Remote::over(&Cable::new(), interface);
    let device = drivers_amd::over(&interface, &options)?;
    let broken = Box::new(move || twin.journal().violations());
    amd(device, "gfx1100", broken)
}

/// Firmware of AMD's cards, which `scripts/fetch firmware` has fetched.
fn firmware() -> Result<PathBuf, EngineError> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/firmware");
    let folder = root.join("bookworm-backports");
    let script = "scripts/fetch firmware";
    match folder.is_dir() {
        true => Ok(folder),
        false => Err(EngineError::NotFetched { folder, script }),
    }
}

/// A simulated card that no kernel driver has: ours starts it.
///
/// # Errors
/// From the device or the compiler; [`EngineError::NotFetched`].
pub fn pci(chip: &str) -> Result<Rig, EngineError> {
    let firmware = firmware()?;
    let twin = PciMachine::new(&format!("chip={chip}")).map_err(EngineError::Twin)?;
    let machine: Arc<dyn Machine> = twin.clone();
    let options = drivers_amd::Options {
        firmware: vec![firmware],
        ..drivers_amd::Options::default()
    };
    let functions = machine.pci_functions().map_err(|e| e.to_string());
    let functions = functions.map_err(EngineError::Twin)?;
    let address = functions.first().map_or("", |card| &card.address);
    // What the start of a card waits for is counted, not timed.
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
    let interface = drivers_amd::am::open(&machine, address, 0, &clock, &options)?;
    let device = drivers_amd::over(&interface, &options)?;
    let broken = Box::new(move || twin.journal().violations());
    amd(device, chip, broken)
}

/// A simulated gfx1100 over PCI, see [`pci`].
///
/// # Errors
/// From the device or the compiler; [`EngineError::NotFetched`].
pub fn gfx1100_pci() -> Result<Rig, EngineError> {
    pci("gfx1100")
}

/// A simulated gfx1201 over PCI, see [`pci`].
///
/// # Errors
/// From the device or the compiler; [`EngineError::NotFetched`].
pub fn gfx1201_pci() -> Result<Rig, EngineError> {
    pci("gfx1201")
}

/// A simulated NVIDIA card that no kernel driver has, and what its kernels are compiled by: ours starts it with NVIDIA's
/// firmware.
///
/// # Errors
/// From the device or the compiler; [`EngineError::NotFetched`].
pub fn nv_pci(chip: &str, (sm, renderer): (&str, &str)) -> Result<Rig, EngineError> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/firmware");
    let folder = root.join("nvidia-graphics");
    if !folder.join("nvidia").is_dir() {
        let script = "scripts/fetch firmware";
        return Err(EngineError::NotFetched { folder, script });
    }
    let backend = nv_backend(sm, renderer)?;
    let settings = Settings {
        firmware: vec![folder],
        ..Settings::default()
    };
    let twin = twin_nv::pci::machine::PciMachine::new(&format!("chip={chip}"));
    let twin = twin.map_err(EngineError::Twin)?;
    let machine: drivers::Twin = twin.clone();
    let target = Target {
        interface: Some(Transport::Pci.interface(true)),
        ..Target::any(DeviceKind::Nv)
    };
    let device = drivers::open_with(&target, &settings, Some(&machine))?;
    let engine = DeviceExecutor::engine(device, backend, Options::default())?;
    Ok(Rig {
        engine,
        doubles: true,
        flushes: false,
        broken: Some(Box::new(move || twin.journal().violations())),
    })
}

/// A simulated gfx1201 behind a bridge of USB.
///
/// # Errors
/// From the device or the compiler; [`EngineError::NotFetched`].
pub fn gfx1201_usb() -> Result<Rig, EngineError> {
    let settings = Settings {
        firmware: vec![firmware()?],
        ..Settings::default()
    };
    let twin = UsbMachine::new("chip=gfx1201").map_err(EngineError::Twin)?;
    let machine: drivers::Twin = twin.clone();
    let target = Target {
        interface: Some(Transport::Usb.interface(true)),
        ..Target::any(DeviceKind::Amd)
    };
    let device = drivers::open_with(&target, &settings, Some(&machine))?;
    let broken = Box::new(move || twin.journal().violations());
    amd(device, "gfx1201", broken)
}
