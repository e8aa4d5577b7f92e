//! A library to preload (`LD_PRELOAD`): programs that know nothing of it, a vendor's own runtime among
//! them, find a simulated machine behind the files of drivers, or have what they ask of a real one written
//! down.
//!
//! - `hooks`: the functions of libc that stand in for the real ones; `paths`: those with paths; `poll`: those
//!   that wait;
//! - `session`: what this process has open, and whose it is;
//! - `driver`: what serves the files of devices: `remote` a simulated machine in another process, with `own`
//!   for memory that is shared with it, `nv` a simulated NVIDIA machine in this one, `host` the kernel;
//! - `record`: ioctls as lines of JSON;
//! - `memory`: memory that is shared with devices, for the record;
//! - `end`: what is said when the process ends;
//! - `system`: the system itself, past the hooks.
//!
//! `DOORBELL_TWIN_SERVER` is the folder of a server (`doorbell twin exec` sets it), whose machine all processes
//! share; `DOORBELL_TWIN_CONFIG` the config string of a machine in each process (feature `nv`); without them, files of
//! devices are the real ones. `DOORBELL_RECORD` names a file for the record. With neither, nothing is changed.
//!
//! What the twin itself asks of the system, on the calling thread or on one of its own, passes through: a
//! thread that is inside has a mark, and so have the threads that it starts.
//!
//! `unsafe` is in `hooks`, `paths`, `poll` and `system` alone.
#![deny(unsafe_code)]

mod driver;
mod end;
mod hooks;
mod host;
mod memory;
#[cfg(feature = "nv")]
mod nv;
mod own;
mod paths;
mod poll;
mod record;
mod remote;
mod session;
mod system;
