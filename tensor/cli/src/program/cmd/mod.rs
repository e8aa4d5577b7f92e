//! One file per subcommand.

pub mod bench;
pub mod bringup;
pub mod bundle;
pub mod compile;
pub mod demo;
pub mod devices;
pub mod doctor;
pub mod explain;
pub mod fw;
pub mod help;
pub mod inspect;
pub mod onnx_test;
pub mod pci;
pub mod regs;
pub mod run;
pub mod setup;
pub mod shell;
pub mod smi;
pub mod trace;
#[cfg(feature = "twin")]
pub mod twin;
pub mod usb;
pub mod verify;
