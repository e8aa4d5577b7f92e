//! [`HardwareChannel`]: a ring of entries, its pointers, and a doorbell.
//!
//! An entry has the address and the length of a push buffer. The host writes entries, then `GPPut`, then the
//! token of the channel to the doorbell; the GPU counts fetched entries in `GPGet`.
//!
//! Source: open-gpu-doc, classes/host/clc56f.h, `Nvc56fControl`; NVIDIA's manuals of usermode
//! (dev_usermode.ref.txt): the same from Volta on.

use std::any::Any;

use drivers_spec::nv::push;
use hcq::Result;
use hcq::mem::window::Window;
use hcq::transport::TransportError;

/// Bytes of an entry of a ring.
pub const ENTRY_BYTES: u64 = 8;

/// What a channel is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ChannelKind {
    /// Kernels, and copies by the engine that goes with graphics.
    Compute,
    /// Copies, by an engine of its own: the one with that number among those that channels may have.
    Copy(u32),
}

/// A request for a channel.
#[derive(Clone, Copy, Debug)]
pub struct ChannelRequest<'a> {
    /// What for.
    pub kind: ChannelKind,
    /// Entries of its ring, a power of two.
    pub entries: u32,
    /// Its name in messages.
    pub name: &'a str,
}

/// The classes of what a channel has: numbers for SET_OBJECT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Classes {
    /// The channel itself.
    pub channel: u32,
    /// Compute; none of a copy channel.
    pub compute: Option<u32>,
    /// Copies.
    pub copy: Option<u32>,
}

/// A channel of the hardware.
pub struct HardwareChannel {
    /// The channel; freed first: nothing below is used by the hardware then.
    pub handle: Box<dyn ChannelHandle>,
    /// What it is for.
    pub kind: ChannelKind,
    /// What may be bound to its subchannels.
    pub classes: Classes,
    /// Its entries.
    pub ring: Window,
    /// Where the pointers are, [`push::userd`].
    pub userd: Window,
    /// The doorbell, 4 bytes.
    pub doorbell: Window,
    /// What it takes.
    pub token: u32,
    /// Frees its memory; after the windows.
    pub owner: Box<dyn Any + Send + Sync>,
}

/// A channel as its interface has made it. Dropping it takes the channel from the hardware, if
/// that was not done before.
pub trait ChannelHandle: Send + Sync {
    /// Whether the channel has died: its number for an error, which logs call Xid.
    ///
    /// # Errors
    /// The transport's.
    fn died(&self) -> Result<Option<u32>>;

    /// Takes the channel from the hardware, once. Whether nothing of it can run any more.
    fn stop(&self) -> bool;
}

impl HardwareChannel {
    /// How many entries its ring has.
    pub fn entries(&self) -> u32 {
        (self.ring.len() / ENTRY_BYTES) as u32
    }

    /// Which entry the GPU fetches next.
    ///
    /// # Errors
    /// The window's.
    #[inline]
    pub fn get(&self) -> std::result::Result<u32, TransportError> {
        self.userd.load(push::userd::GP_GET)
    }

    /// Publishes the entries before this one, and writes the doorbell.
    ///
    /// # Errors
    /// The windows'.
    #[inline]
    pub fn publish(&self, put: u32) -> std::result::Result<(), TransportError> {
        // The ring is written before, the pointer before the doorbell: whatever memory each is.
        self.userd.ring(push::userd::GP_PUT, put)?;
        self.doorbell.ring(0, self.token)
    }
}
