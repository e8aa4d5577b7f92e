//! What tests on the CPU device share.

// Each test uses some of it.
#![allow(dead_code)]

#[cfg(not(feature = "llvm"))]
mod tools;

use codegen::Backend;
use drivers_cpu::{Config, CpuDevice};
use tensor::Engine;
use tensor::exec::{DeviceExecutor, Options};

/// An engine over two threads.
pub fn engine() -> Engine {
    engine_of(Config::default())
}

/// An engine over two threads of a CPU that is opened so.
pub fn engine_of(config: Config) -> Engine {
    engine_with(config, Options::default())
}

/// The same with options of the executor.
pub fn engine_with(config: Config, options: Options) -> Engine {
    let config = Config { cores: 2, ..config };
    #[cfg(feature = "llvm")]
    let backend = Backend::find("CPU:LLVM", "", 2).unwrap();
    #[cfg(not(feature = "llvm"))]
    let backend = match std::env::var("DEV").as_deref() {
        Ok("CPU:LLVM") => tools::backend(2),
        _ => Backend::find("CPU:CLANG", "", 2).unwrap(),
    };
    let device = CpuDevice::open(config).unwrap();
    DeviceExecutor::engine(device, backend, options).unwrap()
}
