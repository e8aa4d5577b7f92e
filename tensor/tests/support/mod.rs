//! What tests on the CPU device share.

use codegen::Backend;
use drivers_cpu::{Config, CpuDevice};
use tensor::Engine;
use tensor::exec::{DeviceExecutor, Options};

/// An engine over two threads.
pub fn engine() -> Engine {
    let config = Config {
        cores: 2,
        ..Config::default()
    };
    #[cfg(feature = "llvm")]
    let backend = Backend::find("CPU:LLVM", "", 2).unwrap();
    #[cfg(not(feature = "llvm"))]
    let backend = Backend::find("CPU:CLANG", "", 2).unwrap();
    let device = CpuDevice::open(config).unwrap();
    DeviceExecutor::engine(device, backend, Options::default()).unwrap()
}
