//! Memory of other libraries and programs, used in place: frames of a camera, images of OpenCL.
//!
//! | what | as an [`Import`] | KGSL | msm |
//! |---|---|---|---|
//! | pages of the process | [`Import::Host`] | yes | no |
//! | a dma-buf | [`Import::DmaBuf`] | yes | yes |
//! | a buffer or image of Qualcomm's OpenCL | [`cl::import`] | yes | no |
//!
//! [`hcq::Device::import`] makes a buffer of it, which keeps what it is given. Importing pages or a dma-buf again while the
//! first buffer lives gives the same mapping. Before each submission, [`hcq::Buffer::clean`] says what the host has written
//! by a pointer of its own; for a dma-buf, `DMA_BUF_IOCTL_SYNC` does, and for memory of OpenCL its own calls do (`clFinish`).
//!
//! | file | idea |
//! |---|---|
//! | [`cl`] | where OpenCL's objects have their memory |
//! | [`picture`] | images whose rows somebody else has laid out |

pub mod cl;
pub mod picture;

pub use picture::Picture;

#[cfg(doc)]
use hcq::Import;
