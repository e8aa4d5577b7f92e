//! AMD GPUs through HIP (`libamdhip64`), for cards that [`DEV=AMD`] does not drive.
//!
//! The library is loaded when the first device is asked for: nothing of ROCm is needed to build, or to run without it. Code objects are those of
//! `DEV=AMD`; HIP takes linked ones, so the library that links HIP's own kernels does that first.
//!
//! | file | idea |
//! |---|---|
//! | `api` | the functions of the library beside those of [`drivers_runtime::calls`]; GPUs |
//! | `link` | code objects, linked by `libamd_comgr` |
//! | `code` | results: what they mean, what to do |
//! | `survey` | the GPUs that the library has |
//! | `open` | a device |
//!
//! A fault of a kernel ends the process: ROCm prints it, and aborts.
//!
//! [`DEV=AMD`]: ../drivers_amd/index.html
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod api;
mod code;
#[allow(unsafe_code)]
mod link;
mod open;
mod survey;

pub use drivers_runtime::Options;
pub use open::open;
pub use survey::{library, survey};
