//! NVIDIA GPUs through CUDA's driver interface (`libcuda.so.1`), for cards that [`DEV=NV`] does not drive.
//!
//! The library is loaded when the first device is asked for: nothing of CUDA is needed to build, or to run without it. A device is the
//! primary context of its GPU, which it shares with other libraries of the process: memory of theirs can be imported.
//!
//! | file | idea |
//! |---|---|
//! | `api` | the functions of the library beside those of [`drivers_runtime::calls`]; contexts |
//! | `code` | results: what they mean, what to do |
//! | `survey` | the GPUs that the library has |
//! | `open` | a device |
//!
//! [`DEV=NV`]: ../drivers_nv/index.html
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod api;
mod code;
mod open;
mod survey;

pub use drivers_runtime::Options;
pub use open::open;
pub use survey::{library, survey};
