//! The engines that the suites run on.

use std::sync::Arc;

use codegen::Backend;
use drivers::env::Settings;
use drivers::select::{DeviceKind, Target, Transport};
use drivers_amd::interface::remote::Remote;
use hcq::transport::Machine;
use hcq::transport::cable::Cable;
use tensor::Engine;
use tensor::exec::{DeviceExecutor, Interpreter, Options};
use twin_amd::machine::TwinMachine;

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
    /// Rules of a simulated device were broken.
    #[error("rules broken: {0}")]
    Rules(String),
}

/// An engine, and what has to hold once everything on it has run.
pub struct Rig {
    /// The engine.
    pub engine: Engine,
    twin: Option<Arc<TwinMachine>>,
}

impl Rig {
    fn plain(engine: Engine) -> Rig {
        let twin = None;
        Rig { engine, twin }
    }

    /// Ends the engine. A simulated device says which rules were broken on it.
    ///
    /// # Errors
    /// [`EngineError::Rules`].
    pub fn finish(self) -> Result<(), EngineError> {
        drop(self.engine);
        let Some(twin) = self.twin else {
            return Ok(());
        };
        let violations = twin.machine().journal.violations();
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

/// Compiled by LLVM for an AMD GPU, run from the queues of a simulated one. The chip may be followed
/// by more about its machine: `gfx942,xcc=1`.
///
/// # Errors
/// From the device or the compiler.
pub fn amd(machine: &str, options: Options) -> Result<Rig, EngineError> {
    let chip = machine.split(',').next().unwrap_or(machine);
    let machine =
        TwinMachine::new(&format!("debug=0,chip={machine}")).map_err(EngineError::Twin)?;
    let target = Target {
        interface: Some(Transport::Kfd.interface(true)),
        ..Target::any(DeviceKind::Amd)
    };
    let twin: drivers::Twin = machine.clone();
    let device = drivers::open_with(&target, &Settings::default(), Some(&twin))?;
    let backend = Backend::find("AMD:LLVM", chip, 0)?;
    let engine = DeviceExecutor::engine(device, backend, options)?;
    Ok(Rig {
        engine,
        twin: Some(machine),
    })
}

macro_rules! amd {
    ($($chip:ident)*) => {$(
        #[doc = concat!("A simulated ", stringify!($chip), ".")]
        ///
        /// # Errors
        /// From the device or the compiler.
        pub fn $chip() -> Result<Rig, EngineError> {
            amd(stringify!($chip), Options::default())
        }
    )*};
}
amd!(gfx1030 gfx1100 gfx1201 gfx942);

/// A simulated gfx1100 whose memory the host has no mapping of: each access is a transfer.
///
/// # Errors
/// From the device or the compiler.
pub fn gfx1100_remote() -> Result<Rig, EngineError> {
    let twin = TwinMachine::new("debug=0,chip=gfx1100").map_err(EngineError::Twin)?;
    let machine: Arc<dyn Machine> = twin.clone();
    let options = drivers_amd::Options::default();
    let interface = drivers_amd::kfd::open(&machine, 0, &options)?;
    let interface = Remote::over(&Cable::new(), interface);
    let device = drivers_amd::over(&interface, &options)?;
    let backend = Backend::find("AMD:LLVM", "gfx1100", 0)?;
    let engine = DeviceExecutor::engine(device, backend, Options::default())?;
    Ok(Rig {
        engine,
        twin: Some(twin),
    })
}
