//! One file per subcommand.

pub mod bench;
pub mod demo;
pub mod devices;
pub mod doctor;
pub mod onnx_test;
