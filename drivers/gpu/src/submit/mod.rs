//! One queue: how packets reach the hardware, and how the host learns that they are done.
//!
//! | file | idea |
//! |---|---|
//! | [`hardware`] | what differs between vendors: commands to words, how words are submitted, packets read back |
//! | [`ring`] | words to a ring in memory that the process owns |
//! | `arguments` | the block beside the ring that words point to |
//! | `marks` | the device's progress: which submissions are complete |
//! | `fences` | the same where the timeline does not cover it |
//! | `completion` | the resources that a queue keeps, and when it releases them |
//! | `wait` | how a thread waits for room |
//! | `parts` | the parts of a queue |
//! | [`channel`] | all of them as one queue |
//! | `submission` | packets into it |
//! | `look` | its state |
//! | [`recent`] | the last submissions |
//! | [`decode`] | the operations of packets, for messages and traces |
//! | [`evidence`] | a queue's part of a bundle |
//!
//! A submission copies its arguments, writes its words, and rings the doorbell, without allocation. Its memory is
//! reclaimed when a later one needs space, once the queue's timeline has passed its end.

mod aside;
pub mod channel;
mod completion;
pub mod decode;
pub mod evidence;
mod fences;
pub mod hardware;
pub mod kernarg_ring;
mod look;
mod marks;
pub mod parts;
pub mod recent;
pub mod ring;
mod submission;
mod wait;

pub use channel::Channel;
pub use hardware::{Hardware, Stand, Submit};
pub use kernarg_ring::DATA_ALIGN;
pub use parts::Parts;
