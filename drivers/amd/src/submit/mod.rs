//! One queue: how packets reach the hardware, and how the host learns that they are done.
//!
//! | file | idea |
//! |---|---|
//! | [`ring`] | words to where the hardware takes them, and the doorbell |
//! | [`arguments`] | the block beside it that words point to |
//! | [`fences`] | how far the device is |
//! | [`wait`] | how a thread passes the time until there is room |
//! | [`parts`] | what a queue is made of |
//! | [`channel`] | all of them as one queue |
//! | [`decode`] | packets read back, for messages and traces |
//!
//! A submission copies its arguments, writes its words, and rings; nothing is allocated on the way. What
//! it used is taken back when another one finds no room.

mod arguments;
mod channel;
pub(crate) mod decode;
mod fences;
mod parts;
mod ring;
mod wait;

pub(crate) use channel::Channel;
pub(crate) use parts::QueueSpec;
