//! The resource manager (RM), independent of the transport: it creates objects of classes in a tree, answers their
//! controls, and frees them. In NVIDIA's kernel driver it is called by ioctls ([`crate::nvk`]); on a GPU without that
//! driver, GSP firmware is RM and takes messages ([`crate::gsp`]). The calls are the same.
//!
//! Each row uses those above it, and none below:
//!
//! | file | idea |
//! |---|---|
//! | `transport` | the transport of calls: the only difference; [`CallError`]: failed calls |
//! | `client` | a client and its objects: handles, frees |
//! | `device` | a GPU as an object: its clock, its memory, its address spaces |
//! | `facts` | properties of a GPU, and whether this process may compute on it |
//! | `meters` | its gauges and users |
//! | `channel`, `fault` | a channel and its objects; why one died |

pub(crate) mod channel;
pub(crate) mod client;
pub(crate) mod device;
pub(crate) mod facts;
pub(crate) mod fault;
pub(crate) mod meters;
pub(crate) mod transport;

pub use transport::CallError;
