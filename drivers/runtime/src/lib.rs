//! Devices behind a vendor's runtime: CUDA's driver interface, and HIP, which has the same shape.
//!
//! The queue model is that of every GPU ([`drivers_gpu`]): commands are encoded to words, a submission names words in memory. Here
//! a thread of the queue reads them and makes a call of the runtime for each, on a stream. A vendor's crate adds the names of the
//! functions, its devices, and what differs ([`calls::Vendor`]).
//!
//! | file | idea |
//! |---|---|
//! | [`refusal`] | what the runtime refuses, with its own name of the error |
//! | [`calls`] | the library, its functions, and objects that it makes |
//! | [`packet`] | words, both directions, pure |
//! | `encode` | commands to words |
//! | `process` | memory that devices of this process share: which addresses there are |
//! | `clock` | the time of a GPU, and timestamps, by timed events |
//! | `backend` | memory of one GPU, sleep, and its failure |
//! | `stream` | packets to calls: one stream, and what is known of it |
//! | `worker` | the thread of a queue |
//! | `way` | submissions for the thread |
//! | `hardware` | the queue, for [`drivers_gpu`]; kernels |
//! | [`survey`] | the GPUs that a runtime has, or why it cannot be used |
//! | [`mod@open`] | a device |
//!
//! # Waits
//! The thread of a queue waits, not the stream: it looks at the value in memory, and makes the calls behind the wait afterwards. So no stream
//! ever stands at a wait that nothing ends, the end of a device drops what stands behind one, and every wait of the host has its deadline.
//! Signals are written by the stream (`cuStreamWriteValue64`), behind the work before them; where the runtime
//! cannot, by the thread once the stream is idle.
//!
//! # Graphs
//! A captured graph of [`hcq`] is packets in memory that are patched and run again: [`hcq::queue::IndirectBuffer`]. The thread reads them as it reads a
//! submission. It does not make a graph of the runtime's own out of them: signal values change with every replay, and a node that
//! is a kernel takes them by one more call each.
#![deny(unsafe_code)]

mod backend;
#[allow(unsafe_code)]
pub mod calls;
mod clock;
mod encode;
mod hardware;
pub mod open;
pub mod packet;
mod process;
pub mod refusal;
mod stream;
pub mod survey;
mod way;
mod worker;

pub use calls::NoLibrary;
pub use open::{About, Options, open};
pub use process::Process;
pub use refusal::{Answer, Refusal};
pub use survey::{Found, Survey, Unusable};
