//! The resource manager (RM), whoever carries calls to it: it makes objects of classes below one another, answers
//! controls of them, and frees them. In NVIDIA's kernel driver it is called by ioctls ([`crate::nvk`]); on a GPU that
//! runs without that driver GSP's firmware is RM, and takes messages. What is said is the same.
//!
//! Each row uses those above it, and none below:
//!
//! | file | idea |
//! |---|---|
//! | `transport` | what carries calls: the one thing that differs; [`CallError`]: what was refused |
//! | `client` | a client and its objects: handles, and that they are freed |
//! | `device` | a GPU as an object: its clock, its memory, its address spaces |
//! | `facts` | what a GPU tells of itself, and whether it computes for this process |
//! | `meters` | what it is at, and who has it |
//! | `channel`, `fault` | a channel and what runs in it; why one has died |

pub(crate) mod channel;
pub(crate) mod client;
pub(crate) mod device;
pub(crate) mod facts;
pub(crate) mod fault;
pub(crate) mod meters;
pub(crate) mod transport;

pub use transport::CallError;
