//! Memory of other libraries and programs, used in place: frames of a camera, images of OpenCL.
//!
//! | what | as an [`Import`] | KGSL | msm |
//! |---|---|---|---|
//! | pages of the process | [`Import::Host`] | yes | no |
//! | a dma-buf | [`Import::DmaBuf`] | yes | yes |
//! | a buffer or image of Qualcomm's OpenCL | [`cl::import`] | yes | no |
//!
//! [`hcq::Device::import`] makes a buffer of it, which keeps what it is given. While the first buffer lives, importing pages again
//! gives the same mapping, and so does a dma-buf on msm; KGSL maps a dma-buf anew each time, at another address. Before each submission, [`hcq::Buffer::clean`] says what the host has written
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
