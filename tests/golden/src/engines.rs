//! The engines that the suites run on.

use codegen::Backend;
use drivers::select::{DeviceKind, Target};
use tensor::Engine;
use tensor::exec::{DeviceExecutor, Interpreter, Options};

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
}

/// Node by node on the host: no schedule, no kernel.
///
/// # Errors
/// None today.
pub fn reference() -> Result<Engine, EngineError> {
    Ok(Engine::reference())
}

/// Scheduled into kernels, which the interpreter runs: no compiler, no device.
///
/// # Errors
/// None today.
pub fn interpreter() -> Result<Engine, EngineError> {
    Ok(Interpreter::engine(Default::default(), false))
}

/// Scheduled, compiled by LLVM, run from the queues of the CPU as a device.
///
/// # Errors
/// From the device or the compiler.
pub fn cpu() -> Result<Engine, EngineError> {
    let device = drivers::open(&Target::any(DeviceKind::Cpu))?;
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let backend = Backend::cpu_llvm(cores)?;
    Ok(DeviceExecutor::engine(device, backend, Options::default())?)
}
