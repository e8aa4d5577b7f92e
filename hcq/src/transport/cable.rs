//! [`Cable`]: makes memory that is mapped look like memory at the other end of a cable, and counts.
//!
//! Middleware to develop drivers for transfer-based devices without one: counts the transfers, and those that wait
//! for an answer.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::mem::window::{AccessWidth, Piece, RemoteWindow, Window};
use crate::sync::lock;
use crate::transport::TransportError;

/// Bytes that are gathered into one transfer at most.
const BATCH: usize = 256 << 10;

/// The transfers of a cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Transfers {
    /// Posted writes.
    pub posted: u64,
    /// Transfers with a wait: reads, flushes.
    pub waited: u64,
    /// Bytes that were written.
    pub bytes: u64,
}

impl fmt::Display for Transfers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Transfers {
            posted,
            waited,
            bytes,
        } = self;
        write!(
            f,
            "{posted} transfers posted, {waited} waited for, {bytes} bytes written"
        )
    }
}

impl std::ops::Sub for Transfers {
    type Output = Transfers;

    fn sub(self, before: Transfers) -> Transfers {
        Transfers {
            posted: self.posted - before.posted,
            waited: self.waited - before.waited,
            bytes: self.bytes - before.bytes,
        }
    }
}

/// One way to the memory of one or more devices: writes are queued in order, gathered, and arrive in
/// order.
#[derive(Default)]
pub struct Cable(Mutex<State>);

#[derive(Default)]
struct State {
    queued: Vec<Write>,
    /// Bytes in the queue.
    gathered: usize,
    transfers: Transfers,
}

/// A write on its way.
struct Write {
    to: Window,
    offset: u64,
    what: What,
}

enum What {
    /// One access.
    Element(AccessWidth, u64),
    Bytes(Box<[u8]>),
}

impl Cable {
    /// A cable over which nothing has gone.
    pub fn new() -> Arc<Cable> {
        Arc::default()
    }

    /// The memory of a window, at the far end of the cable.
    pub fn window(self: &Arc<Self>, near: &Window) -> Window {
        let far = Far {
            cable: self.clone(),
            window: near.clone(),
        };
        Window::remote(near.name(), Arc::new(far))
    }

    /// Its transfers so far.
    pub fn transfers(&self) -> Transfers {
        self.lock().transfers
    }

    /// Sends queued writes.
    ///
    /// # Errors
    /// Those of the memory.
    pub fn send(&self) -> Result<(), TransportError> {
        self.lock().send()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A queue that was left by half is sent again: the same values to the same places.
        lock(&self.0)
    }
}

impl State {
    fn queue(&mut self, write: Write) -> Result<(), TransportError> {
        self.gathered += match &write.what {
            What::Element(width, _) => width.bytes(),
            What::Bytes(bytes) => bytes.len(),
        };
        self.queued.push(write);
        match self.gathered >= BATCH {
            true => self.send(),
            false => Ok(()),
        }
    }

    fn send(&mut self) -> Result<(), TransportError> {
        if self.queued.is_empty() {
            return Ok(());
        }
        self.transfers.posted += 1;
        self.transfers.bytes += std::mem::take(&mut self.gathered) as u64;
        let mut queued = std::mem::take(&mut self.queued);
        queued.drain(..).try_for_each(|write| write.arrive())?;
        // Its room is used again.
        self.queued = queued;
        Ok(())
    }

    /// The writes go ahead of whatever waits for an answer.
    fn wait(&mut self) -> Result<(), TransportError> {
        self.send()?;
        self.transfers.waited += 1;
        Ok(())
    }
}

impl Write {
    fn arrive(self) -> Result<(), TransportError> {
        let (to, at) = (&self.to, self.offset);
        match self.what {
            What::Element(AccessWidth::W8, value) => to.store(at, value as u8),
            What::Element(AccessWidth::W16, value) => to.store(at, value as u16),
            What::Element(AccessWidth::W32, value) => to.store(at, value as u32),
            What::Element(AccessWidth::W64, value) => to.store(at, value),
            What::Bytes(bytes) => to.write_bytes(at, &bytes),
        }
    }
}

/// A window at the other end.
struct Far {
    cable: Arc<Cable>,
    window: Window,
}

impl RemoteWindow for Far {
    fn len(&self) -> u64 {
        self.window.len()
    }

    fn read(&self, offset: u64, width: AccessWidth) -> Result<u64, TransportError> {
        let mut state = self.cable.lock();
        state.wait()?;
        Ok(match width {
            AccessWidth::W8 => self.window.load::<u8>(offset)?.into(),
            AccessWidth::W16 => self.window.load::<u16>(offset)?.into(),
            AccessWidth::W32 => self.window.load::<u32>(offset)?.into(),
            AccessWidth::W64 => self.window.load(offset)?,
        })
    }

    fn read_bytes(&self, offset: u64, to: &mut [u8]) -> Result<(), TransportError> {
        let mut state = self.cable.lock();
        state.wait()?;
        self.window.read_bytes(offset, to)
    }

    fn write(&self, offset: u64, width: AccessWidth, value: u64) -> Result<(), TransportError> {
        self.cable.lock().queue(Write {
            to: self.window.clone(),
            offset,
            what: What::Element(width, value),
        })
    }

    fn write_many(&self, pieces: &[Piece<'_>]) -> Result<(), TransportError> {
        let mut state = self.cable.lock();
        pieces.iter().try_for_each(|&(offset, bytes)| {
            state.queue(Write {
                to: self.window.clone(),
                offset,
                what: What::Bytes(bytes.into()),
            })
        })
    }

    fn send(&self) -> Result<(), TransportError> {
        self.cable.send()
    }

    fn flush(&self) -> Result<(), TransportError> {
        self.cable.lock().wait()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::view::View;

    #[test]
    fn writes_of_all_windows_arrive_in_order_with_the_next_doorbell() {
        let near = Window::mapped("memory", View::alloc(64, 8).unwrap());
        let bell = Window::mapped("doorbell", View::alloc(8, 8).unwrap());
        let cable = Cable::new();
        let (far, far_bell) = (cable.window(&near), cable.window(&bell));
        far.write_words(8, &[1u32, 2, 3]).unwrap();
        far.write_bytes(9, &[7]).unwrap();
        far.store(24, 5u64).unwrap();
        assert_eq!(near.read::<u64>(8).unwrap(), 0);
        assert_eq!(cable.transfers(), Transfers::default());
        far_bell.ring(0, 9u64).unwrap();
        assert_eq!(near.read::<u64>(8).unwrap(), 0x2_0000_0701);
        let numbers = (near.read::<u64>(24).unwrap(), bell.read::<u64>(0).unwrap());
        assert_eq!(numbers, (5, 9));
        let one = Transfers {
            posted: 1,
            waited: 0,
            bytes: 29,
        };
        assert_eq!(cable.transfers(), one);
        // A read waits; queued writes are sent before it.
        far.write(0, 3u16).unwrap();
        assert_eq!(far.read::<u16>(0).unwrap(), 3);
        far.flush().unwrap();
        let text = (cable.transfers() - one).to_string();
        assert_eq!(text, "1 transfers posted, 2 waited for, 2 bytes written");
        // A transfer is not larger than it can be.
        let large = Window::mapped("large", View::alloc(BATCH + 8, 8).unwrap());
        let far = cable.window(&large);
        far.write_bytes(0, &vec![1; BATCH]).unwrap();
        assert_eq!(large.read::<u8>(BATCH as u64 - 1).unwrap(), 1);
    }
}
