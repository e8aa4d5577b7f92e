//! [`Window`]: a bounded range of device registers or memory, mapped or reached by transfers.
//!
//! A PCI BAR of a local card is mapped: an access is one instruction. Behind a USB bridge, under
//! a tracer, or on a model of the hardware, each access is a call. Drivers see one type and one
//! branch; nothing above is generic over how memory is reached.
//!
//! # What a write promises
//! Writes are *queued in order*. Through a mapping they happen at once. A transport of transfers may
//! keep them and gather them: [`Window::ring`] and [`Window::send`] put everything queued on its way
//! without waiting for an answer, in as few transfers as the transport can; [`Window::flush`] and
//! every read do so too and wait, and report what became of the writes before them. All windows of
//! one device share one queue: what was written to one of them before a doorbell in another is there
//! before the doorbell.
//!
//! So a submission is any number of writes and one `ring`: a few stores on a mapping, one transfer
//! over a cable. Bits that must go together in one piece go through [`Window::write_many`].

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::mem::barrier;
use crate::mem::view::{View, ViewError, Word};
use crate::transport::error::{Fault, TransportError};

/// Width of one access over a bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AccessWidth {
    /// 8 bits.
    W8,
    /// 16 bits.
    W16,
    /// 32 bits.
    W32,
    /// 64 bits.
    W64,
}

impl AccessWidth {
    /// The width in bytes: 1, 2, 4 or 8.
    pub const fn bytes(self) -> usize {
        match self {
            AccessWidth::W8 => 1,
            AccessWidth::W16 => 2,
            AccessWidth::W32 => 4,
            AccessWidth::W64 => 8,
        }
    }

    /// The width of `bytes` bytes, if there is one.
    pub const fn from_bytes(bytes: usize) -> Option<AccessWidth> {
        match bytes {
            1 => Some(AccessWidth::W8),
            2 => Some(AccessWidth::W16),
            4 => Some(AccessWidth::W32),
            8 => Some(AccessWidth::W64),
            _ => None,
        }
    }

    /// All bits of the width set: what a read from a device that left the bus answers.
    pub const fn ones(self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes() as u32)
    }

    const fn of<W: Word>() -> AccessWidth {
        match AccessWidth::from_bytes(W::BYTES) {
            Some(width) => width,
            None => AccessWidth::W64,
        }
    }
}

/// Bytes for an offset of a window: one piece of a [`Window::write_many`].
pub type Piece<'a> = (u64, &'a [u8]);

/// Registers or memory reached by calls. Offsets are in bytes.
///
/// Writes are queued in order with all others to the same device, also through its other windows;
/// see the [module](self). [`Window`] checks bounds and alignment before it calls; an implementation
/// may rely on both.
pub trait RemoteWindow: Send + Sync {
    /// Length in bytes.
    fn len(&self) -> u64;

    /// Whether the window has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads one naturally aligned element in one access, zero-extended, after all queued writes.
    ///
    /// # Errors
    /// What the transport reports, of the read or of a write before it.
    fn read(&self, offset: u64, width: AccessWidth) -> Result<u64, TransportError>;

    /// Reads bytes in the fastest way, after all queued writes; access widths are unspecified.
    ///
    /// # Errors
    /// What the transport reports, of the read or of a write before it.
    fn read_bytes(&self, offset: u64, to: &mut [u8]) -> Result<(), TransportError>;

    /// Queues the low bits of `value` as one naturally aligned element, written in one access.
    ///
    /// # Errors
    /// What the transport reports, maybe of an earlier write.
    fn write(&self, offset: u64, width: AccessWidth, value: u64) -> Result<(), TransportError>;

    /// Queues pieces, in order, written in the fastest way.
    ///
    /// # Errors
    /// As [`RemoteWindow::write`].
    fn write_many(&self, pieces: &[Piece<'_>]) -> Result<(), TransportError>;

    /// Sends the queued writes without waiting for an answer.
    ///
    /// # Errors
    /// As [`RemoteWindow::write`].
    fn send(&self) -> Result<(), TransportError>;

    /// Returns when all queued writes have been answered for.
    ///
    /// # Errors
    /// What the transport reports of any write since the last answer.
    fn flush(&self) -> Result<(), TransportError>;
}

/// Makes host accesses to memory that is mapped and not coherent, and the device's accesses, see
/// each other: cache maintenance, a flush of the path behind a BAR.
pub trait Coherence: Send + Sync {
    /// After the host has written, before the device reads.
    ///
    /// # Errors
    /// The transport's.
    fn flush(&self, offset: u64, len: u64) -> Result<(), TransportError>;

    /// Before the host reads what the device wrote.
    ///
    /// # Errors
    /// The transport's.
    fn invalidate(&self, offset: u64, len: u64) -> Result<(), TransportError>;

    /// Before the host writes. Lines of its cache that it writes in part must not hold old bytes beside: what the device
    /// has written there would be overwritten.
    ///
    /// # Errors
    /// The transport's.
    fn prepare(&self, offset: u64, len: u64) -> Result<(), TransportError> {
        let _ = (offset, len);
        Ok(())
    }
}

#[derive(Clone)]
enum Access {
    Mapped {
        view: View,
        readback: Option<usize>,
    },
    /// Offsets that `by` sees start `base` below those of the view.
    Managed {
        view: View,
        by: Arc<dyn Coherence>,
        base: u64,
    },
    Remote {
        to: Arc<dyn RemoteWindow>,
        base: u64,
        len: u64,
    },
}

/// A bounded range of device registers or memory. Offsets are in bytes. Clones and parts are cheap.
#[derive(Clone)]
pub struct Window {
    name: Arc<str>,
    access: Access,
}

impl Window {
    /// A window that is mapped into this process, and coherent. `name` is for errors, e.g.
    /// `0000:03:00.0 BAR5`.
    pub fn mapped(name: impl Into<Arc<str>>, view: View) -> Window {
        let access = Access::Mapped {
            view,
            readback: None,
        };
        let name = name.into();
        Window { name, access }
    }

    /// A mapped window where each access needs cache maintenance. The mapping is not accessible without it.
    pub fn managed(name: impl Into<Arc<str>>, view: View, by: Arc<dyn Coherence>) -> Window {
        let access = Access::Managed { view, by, base: 0 };
        let name = name.into();
        Window { name, access }
    }

    /// A window reached by calls.
    pub fn remote(name: impl Into<Arc<str>>, to: Arc<dyn RemoteWindow>) -> Window {
        let len = to.len();
        let access = Access::Remote { to, base: 0, len };
        let name = name.into();
        Window { name, access }
    }

    /// Names the 32-bit register that [`Window::flush`] of a mapped window reads. It must have no
    /// side effect on reads. Parts of the window do not inherit it.
    #[must_use]
    pub fn with_readback(mut self, offset: usize) -> Window {
        if let Access::Mapped { readback, .. } = &mut self.access {
            *readback = Some(offset);
        }
        self
    }

    /// The same, which keeps something for as long as its mapping is used, where it has one: see [`View::with_guard`].
    #[must_use]
    pub fn with_guard(mut self, guard: impl Any + Send + Sync) -> Window {
        if let Access::Mapped { view, .. } = &mut self.access {
            *view = view.clone().with_guard(guard);
        }
        self
    }

    /// Name for errors and traces.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match &self.access {
            Access::Mapped { view, .. } | Access::Managed { view, .. } => view.len() as u64,
            Access::Remote { len, .. } => *len,
        }
    }

    /// Whether the window has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether each access is a transfer: reads then wait for an answer, so avoid reading known values.
    pub fn is_remote(&self) -> bool {
        matches!(self.access, Access::Remote { .. })
    }

    /// The mapping, if there is one that needs nothing around an access.
    pub fn view(&self) -> Option<&View> {
        match &self.access {
            Access::Mapped { view, .. } => Some(view),
            Access::Managed { .. } | Access::Remote { .. } => None,
        }
    }

    /// The `len` bytes at `offset`.
    ///
    /// # Errors
    /// Out of bounds.
    pub fn sub(&self, offset: u64, len: u64) -> Result<Window, TransportError> {
        let part = |view: &View| {
            let part = view.sub(at(offset), at(len));
            part.map_err(|e| self.refused("take", at(len), offset, e))
        };
        let access = match &self.access {
            Access::Mapped { view, .. } => Access::Mapped {
                view: part(view)?,
                readback: None,
            },
            Access::Managed { view, by, base } => Access::Managed {
                view: part(view)?,
                by: by.clone(),
                base: base + offset,
            },
            Access::Remote { to, base, .. } => {
                self.inside("take", offset, at(len))?;
                Access::Remote {
                    to: to.clone(),
                    base: base + offset,
                    len,
                }
            }
        };
        let name = self.name.clone();
        Ok(Window { name, access })
    }

    /// Reads one naturally aligned element.
    ///
    /// # Errors
    /// Out of bounds, misaligned, or what the transport reports.
    #[inline]
    pub fn read<W: Word>(&self, offset: u64) -> Result<W, TransportError> {
        // Inlined, this is the mapped access alone.
        if let Access::Mapped { view, .. } = &self.access
            && let Ok(value) = view.read(at(offset))
        {
            return Ok(value);
        }
        self.read_otherwise(offset)
    }

    #[inline(never)]
    fn read_otherwise<W: Word>(&self, offset: u64) -> Result<W, TransportError> {
        if let Access::Remote { to, base, .. } = &self.access {
            self.aligned::<W>("read", offset, 1)?;
            return Ok(W::from_u64(to.read(base + offset, AccessWidth::of::<W>())?));
        }
        let mut word = [W::default()];
        self.read_words(offset, &mut word)?;
        Ok(word[0])
    }

    /// Writes one naturally aligned element.
    ///
    /// # Errors
    /// Out of bounds, misaligned, or what the transport reports.
    #[inline]
    pub fn write<W: Word>(&self, offset: u64, value: W) -> Result<(), TransportError> {
        if let Access::Mapped { view, .. } = &self.access
            && view.write(at(offset), value).is_ok()
        {
            return Ok(());
        }
        self.write_otherwise(offset, value)
    }

    #[inline(never)]
    fn write_otherwise<W: Word>(&self, offset: u64, value: W) -> Result<(), TransportError> {
        if let Access::Remote { to, base, .. } = &self.access {
            self.aligned::<W>("write", offset, 1)?;
            return to.write(base + offset, AccessWidth::of::<W>(), value.to_u64());
        }
        self.write_words_otherwise(offset, &[value])
    }

    /// Reads a word set by a device (acquire): later reads see the device's earlier writes.
    ///
    /// # Errors
    /// As [`Window::read`].
    #[inline]
    pub fn load<W: Word>(&self, offset: u64) -> Result<W, TransportError> {
        let value = self.read(offset)?;
        if !self.is_remote() {
            barrier::after_flag();
        }
        Ok(value)
    }

    /// Writes a word that a device reads; earlier writes are visible before it (if neither is mapped
    /// write-combining; else see [`Window::ring`]).
    ///
    /// # Errors
    /// As [`Window::write`].
    #[inline]
    pub fn store<W: Word>(&self, offset: u64, value: W) -> Result<(), TransportError> {
        if !self.is_remote() {
            barrier::before_flag();
        }
        self.write(offset, value)
    }

    /// Rings a doorbell: writes a word that starts the device. Earlier writes, to any memory, arrive first; all are
    /// sent when this returns.
    ///
    /// # Errors
    /// As [`Window::write`].
    #[inline]
    pub fn ring<W: Word>(&self, offset: u64, value: W) -> Result<(), TransportError> {
        match &self.access {
            Access::Mapped { .. } | Access::Managed { .. } => {
                barrier::before_doorbell();
                self.write(offset, value)
            }
            Access::Remote { to, .. } => {
                self.write_otherwise(offset, value)?;
                to.send()
            }
        }
    }

    /// Reads consecutive elements.
    ///
    /// # Errors
    /// Out of bounds, misaligned, or what the transport reports.
    pub fn read_words<W: Word>(&self, offset: u64, words: &mut [W]) -> Result<(), TransportError> {
        let bytes = size_of_val(words);
        match &self.access {
            Access::Mapped { view, .. } => view
                .read_words(at(offset), words)
                .map_err(|e| self.refused("read", bytes, offset, e)),
            Access::Managed { view, by, base } => {
                self.inside("read", offset, bytes)?;
                by.invalidate(base + offset, bytes as u64)?;
                view.read_words(at(offset), words)
                    .map_err(|e| self.refused("read", bytes, offset, e))
            }
            Access::Remote { to, base, .. } => {
                self.aligned::<W>("read", offset, words.len())?;
                let mut raw = vec![0; bytes];
                to.read_bytes(base + offset, &mut raw)?;
                for (word, raw) in words.iter_mut().zip(raw.chunks_exact(W::BYTES)) {
                    let mut wide = [0; 8];
                    wide[..W::BYTES].copy_from_slice(raw);
                    *word = W::from_u64(u64::from_le_bytes(wide));
                }
                Ok(())
            }
        }
    }

    /// Writes consecutive elements, in ascending order: packets into a ring. For memory, not for
    /// registers: two may go in one access.
    ///
    /// # Errors
    /// Out of bounds, misaligned, or what the transport reports.
    #[inline]
    pub fn write_words<W: Word>(&self, offset: u64, words: &[W]) -> Result<(), TransportError> {
        if let Access::Mapped { view, .. } = &self.access
            && view.write_words(at(offset), words).is_ok()
        {
            return Ok(());
        }
        self.write_words_otherwise(offset, words)
    }

    #[inline(never)]
    fn write_words_otherwise<W: Word>(
        &self,
        offset: u64,
        words: &[W],
    ) -> Result<(), TransportError> {
        let bytes = size_of_val(words);
        match &self.access {
            Access::Mapped { view, .. } => view
                .write_words(at(offset), words)
                .map_err(|e| self.refused("write", bytes, offset, e)),
            Access::Managed { view, by, base } => {
                self.inside("write", offset, bytes)?;
                by.prepare(base + offset, bytes as u64)?;
                let written = view.write_words(at(offset), words);
                written.map_err(|e| self.refused("write", bytes, offset, e))?;
                by.flush(base + offset, bytes as u64)
            }
            Access::Remote { to, base, .. } => {
                self.aligned::<W>("write", offset, words.len())?;
                let mut raw = Vec::with_capacity(bytes);
                for word in words {
                    raw.extend_from_slice(&word.to_u64().to_le_bytes()[..W::BYTES]);
                }
                to.write_many(&[(base + offset, &raw)])
            }
        }
    }

    /// Asks for bytes of memory that are about to be written, see [`View::prefetch`]; where they are mapped.
    #[inline]
    pub fn prefetch(&self, offset: u64, bytes: u64) {
        if let Access::Mapped { view, .. } = &self.access {
            view.prefetch(at(offset), at(bytes));
        }
    }

    /// Reads bytes at any alignment: for memory, not for registers (widths are unspecified).
    ///
    /// # Errors
    /// Out of bounds, or what the transport reports.
    pub fn read_bytes(&self, offset: u64, to: &mut [u8]) -> Result<(), TransportError> {
        self.inside("read", offset, to.len())?;
        match &self.access {
            Access::Mapped { view, .. } => self.copy_out(view, offset, to),
            Access::Managed { view, by, base } => {
                by.invalidate(base + offset, to.len() as u64)?;
                self.copy_out(view, offset, to)
            }
            Access::Remote { to: from, base, .. } => from.read_bytes(base + offset, to),
        }
    }

    /// Writes bytes at any alignment: for memory, not for registers.
    ///
    /// # Errors
    /// Out of bounds, or what the transport reports.
    pub fn write_bytes(&self, offset: u64, from: &[u8]) -> Result<(), TransportError> {
        self.write_many(&[(offset, from)])
    }

    /// Writes pieces in order, each at any alignment. They enter the queue of a transport as one.
    ///
    /// # Errors
    /// A piece is out of bounds, and none is written; or what the transport reports.
    pub fn write_many(&self, pieces: &[Piece<'_>]) -> Result<(), TransportError> {
        for (offset, from) in pieces {
            self.inside("write", *offset, from.len())?;
        }
        match &self.access {
            Access::Mapped { view, .. } => {
                let mut pieces = pieces.iter();
                pieces.try_for_each(|(offset, from)| self.copy_in(view, *offset, from))
            }
            Access::Managed { view, by, base } => pieces.iter().try_for_each(|(offset, from)| {
                by.prepare(base + offset, from.len() as u64)?;
                self.copy_in(view, *offset, from)?;
                by.flush(base + offset, from.len() as u64)
            }),
            Access::Remote { to, base: 0, .. } => to.write_many(pieces),
            Access::Remote { to, base, .. } => {
                let moved = pieces.iter().map(|(offset, from)| (base + offset, *from));
                to.write_many(&moved.collect::<Vec<_>>())
            }
        }
    }

    /// The host has written bytes by another way than this window.
    ///
    /// # Errors
    /// Out of bounds, or what the transport reports.
    pub fn clean(&self, offset: u64, len: u64) -> Result<(), TransportError> {
        self.inside("clean", offset, at(len))?;
        match &self.access {
            Access::Managed { by, base, .. } => by.flush(base + offset, len),
            Access::Mapped { .. } | Access::Remote { .. } => Ok(()),
        }
    }

    /// The host will read bytes by another way than this window.
    ///
    /// # Errors
    /// Out of bounds, or what the transport reports.
    pub fn invalidate(&self, offset: u64, len: u64) -> Result<(), TransportError> {
        self.inside("invalidate", offset, at(len))?;
        match &self.access {
            Access::Managed { by, base, .. } => by.invalidate(base + offset, len),
            Access::Mapped { .. } | Access::Remote { .. } => Ok(()),
        }
    }

    /// Sets `len` bytes to `value`.
    ///
    /// # Errors
    /// Out of bounds, or what the transport reports.
    pub fn fill(&self, offset: u64, len: u64, value: u8) -> Result<(), TransportError> {
        const PIECE: u64 = 64 << 10;
        self.inside("fill", offset, at(len))?;
        if let Access::Mapped { view, .. } = &self.access {
            let filled = view.fill(at(offset), at(len), value);
            return filled.map_err(|e| self.refused("fill", at(len), offset, e));
        }
        let piece = vec![value; at(len.min(PIECE))];
        let mut done = 0;
        while done < len {
            let n = (len - done).min(PIECE);
            self.write_bytes(offset + done, &piece[..at(n)])?;
            done += n;
        }
        Ok(())
    }

    /// Sends the queued writes without waiting: for writes not followed by a doorbell.
    ///
    /// # Errors
    /// What the transport reports.
    pub fn send(&self) -> Result<(), TransportError> {
        match &self.access {
            Access::Mapped { .. } | Access::Managed { .. } => {
                barrier::before_doorbell();
                Ok(())
            }
            Access::Remote { to, .. } => to.send(),
        }
    }

    /// Makes the earlier writes of this thread through this window reach the device.
    ///
    /// * Mapped, with a read-back register: store and write-combining buffers are drained, then
    ///   the register is read; PCI lets no read overtake a posted write, so on return every
    ///   write has arrived.
    /// * Mapped, without one: the buffers are drained. The writes are on their way, in order,
    ///   before anything written later; they may not have arrived yet.
    /// * Remote: the transport has an answer for every write to the device.
    ///
    /// # Errors
    /// What the transport reports, also of writes that were queued before.
    pub fn flush(&self) -> Result<(), TransportError> {
        match &self.access {
            Access::Mapped { readback, .. } => {
                barrier::drain_writes();
                if let Some(offset) = readback {
                    self.read::<u32>(*offset as u64)?;
                }
                Ok(())
            }
            Access::Managed { .. } => {
                barrier::drain_writes();
                Ok(())
            }
            Access::Remote { to, .. } => to.flush(),
        }
    }

    fn copy_in(&self, view: &View, offset: u64, from: &[u8]) -> Result<(), TransportError> {
        let copied = view.copy_from_slice(at(offset), from);
        copied.map_err(|e| self.refused("write", from.len(), offset, e))
    }

    fn copy_out(&self, view: &View, offset: u64, to: &mut [u8]) -> Result<(), TransportError> {
        let bytes = to.len();
        let copied = view.copy_to_slice(at(offset), to);
        copied.map_err(|e| self.refused("read", bytes, offset, e))
    }

    #[cold]
    fn refused(&self, verb: &str, bytes: usize, offset: u64, error: ViewError) -> TransportError {
        let operation = format!("{verb} {bytes:#x} bytes at {offset:#x}");
        TransportError::new(&*self.name, operation, Fault::View(error))
    }

    fn inside(&self, verb: &str, offset: u64, n: usize) -> Result<(), TransportError> {
        match offset.checked_add(n as u64) {
            Some(end) if end <= self.len() => Ok(()),
            _ => {
                let (start, bytes, len) = (at(offset), n, at(self.len()));
                let error = ViewError::OutOfBounds {
                    offset: start,
                    bytes,
                    len,
                };
                Err(self.refused(verb, n, offset, error))
            }
        }
    }

    /// Checks that `count` elements are inside and aligned, as a view does.
    fn aligned<W: Word>(
        &self,
        verb: &str,
        offset: u64,
        count: usize,
    ) -> Result<(), TransportError> {
        let bytes = count.saturating_mul(W::BYTES);
        self.inside(verb, offset, bytes)?;
        if offset.is_multiple_of(W::BYTES as u64) {
            return Ok(());
        }
        let error = ViewError::Misaligned {
            offset: at(offset),
            len: at(self.len()),
            align: W::BYTES,
            low: at(offset) & 0xfff,
        };
        Err(self.refused(verb, bytes, offset, error))
    }
}

/// The offset in the address width of this machine; one that does not fit is out of any bounds.
#[inline]
fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = match self.access {
            Access::Mapped { .. } => "mapped",
            Access::Managed { .. } => "managed",
            Access::Remote { .. } => "remote",
        };
        write!(
            f,
            "Window({}, {access}, {:#x} bytes)",
            self.name,
            self.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Memory behind a cable: writes wait in a queue until something sends it. Notes what passes.
    struct Cable {
        memory: View,
        queued: Mutex<Vec<(u64, Vec<u8>)>>,
        seen: Mutex<Vec<String>>,
    }

    impl Cable {
        fn note(&self, text: String) {
            self.seen.lock().unwrap().push(text);
        }

        fn seen(&self) -> Vec<String> {
            std::mem::take(&mut *self.seen.lock().unwrap())
        }

        fn deliver(&self, how: &str) {
            let queued = std::mem::take(&mut *self.queued.lock().unwrap());
            let bytes: usize = queued.iter().map(|(_, bytes)| bytes.len()).sum();
            for (offset, bytes) in &queued {
                self.memory.copy_from_slice(at(*offset), bytes).unwrap();
            }
            self.note(format!("{how}: {} writes, {bytes} bytes", queued.len()));
        }
    }

    impl RemoteWindow for Cable {
        fn len(&self) -> u64 {
            self.memory.len() as u64
        }
        fn read(&self, offset: u64, width: AccessWidth) -> Result<u64, TransportError> {
            self.deliver(&format!("r{}@{offset}", width.bytes()));
            let mut wide = [0; 8];
            let to = &mut wide[..width.bytes()];
            self.memory.copy_to_slice(at(offset), to).unwrap();
            Ok(u64::from_le_bytes(wide))
        }
        fn read_bytes(&self, offset: u64, to: &mut [u8]) -> Result<(), TransportError> {
            self.deliver(&format!("r@{offset}+{}", to.len()));
            self.memory.copy_to_slice(at(offset), to).unwrap();
            Ok(())
        }
        fn write(&self, offset: u64, width: AccessWidth, value: u64) -> Result<(), TransportError> {
            let bytes = value.to_le_bytes()[..width.bytes()].to_vec();
            self.queued.lock().unwrap().push((offset, bytes));
            Ok(())
        }
        fn write_many(&self, pieces: &[Piece<'_>]) -> Result<(), TransportError> {
            let pieces = pieces.iter().map(|(offset, from)| (*offset, from.to_vec()));
            self.queued.lock().unwrap().extend(pieces);
            Ok(())
        }
        fn send(&self) -> Result<(), TransportError> {
            self.deliver("send");
            Ok(())
        }
        fn flush(&self) -> Result<(), TransportError> {
            self.deliver("flush");
            Ok(())
        }
    }

    /// Notes the maintenance that it is asked for.
    #[derive(Default)]
    struct Notes(Mutex<Vec<String>>);

    impl Coherence for Notes {
        fn flush(&self, offset: u64, len: u64) -> Result<(), TransportError> {
            self.0.lock().unwrap().push(format!("f{offset}+{len}"));
            Ok(())
        }
        fn invalidate(&self, offset: u64, len: u64) -> Result<(), TransportError> {
            self.0.lock().unwrap().push(format!("i{offset}+{len}"));
            Ok(())
        }
    }

    fn cable() -> (Window, Arc<Cable>) {
        let cable = Arc::new(Cable {
            memory: View::alloc(64, 8).unwrap(),
            queued: Mutex::default(),
            seen: Mutex::default(),
        });
        (Window::remote("usb", cable.clone()), cable)
    }

    fn accesses() -> [Window; 3] {
        let view = || View::alloc(64, 8).unwrap();
        let notes = Arc::new(Notes::default());
        [
            Window::mapped("bar", view()),
            Window::managed("bar", view(), notes),
            cable().0,
        ]
    }

    #[test]
    fn all_arms_check_alike() {
        for w in accesses() {
            let w = w.sub(16, 32).unwrap();
            assert!(matches!(
                w.read::<u32>(30).unwrap_err().fault,
                Fault::View(ViewError::OutOfBounds {
                    offset: 30,
                    bytes: 4,
                    len: 32
                })
            ));
            assert!(matches!(
                w.write(2, 0u64).unwrap_err().fault,
                Fault::View(ViewError::Misaligned {
                    offset: 2,
                    align: 8,
                    ..
                })
            ));
            assert!(w.write_words(30, &[0u32]).is_err());
            assert!(w.write_words(2, &[0u32]).is_err());
            assert!(w.read_words(28, &mut [0u32; 2]).is_err());
            assert!(w.read_bytes(u64::MAX, &mut [0]).is_err());
            assert!(w.write_bytes(31, &[0, 0]).is_err());
            assert!(w.fill(31, 2, 0).is_err());
            assert!(w.sub(31, 2).is_err());
            assert!(w.write_many(&[(0, &[1]), (32, &[1])]).is_err());
            assert_eq!(w.read::<u8>(0), Ok(0), "none of the pieces is written");
            assert_eq!(w.len(), 32);
        }
    }

    #[test]
    fn all_arms_do_alike() {
        for whole in accesses() {
            let w = whole.sub(16, 32).unwrap();
            w.write_bytes(3, b"doorbell").unwrap();
            let mut back = [0; 8];
            w.read_bytes(3, &mut back).unwrap();
            assert_eq!(&back, b"doorbell");
            w.write_many(&[(12, &[1, 2]), (13, &[9])]).unwrap();
            assert_eq!(w.read::<u16>(12), Ok(0x0901));
            w.write_words(16, &[0x1122_3344u32, 5]).unwrap();
            w.store(24, u64::MAX).unwrap();
            w.ring(24, 7u32).unwrap();
            let mut words = [0u32; 4];
            w.read_words(16, &mut words).unwrap();
            assert_eq!(words, [0x1122_3344, 5, 7, u32::MAX]);
            assert_eq!(w.load::<u16>(16), Ok(0x3344));
            w.fill(17, 2, 0xaa).unwrap();
            w.send().unwrap();
            w.flush().unwrap();
            assert_eq!(whole.read::<u32>(32), Ok(0x11aa_aa44));
        }
    }

    #[test]
    fn writes_over_a_cable_go_with_the_doorbell_in_one_transfer() {
        let (w, cable) = cable();
        let ring = w.sub(0, 32).unwrap();
        let doorbells = w.sub(32, 32).unwrap();
        ring.write_words(0, &[1u32, 2, 3]).unwrap();
        ring.write_many(&[(12, &[4]), (16, &[5, 6])]).unwrap();
        ring.write(24, 0xabcdu16).unwrap();
        assert_eq!(cable.seen(), [""; 0], "nothing waits, and nothing has left");
        doorbells.ring(8, 64u64).unwrap();
        assert_eq!(cable.seen(), ["send: 5 writes, 25 bytes"]);
        assert_eq!(doorbells.load::<u64>(8), Ok(64));
        ring.flush().unwrap();
        assert_eq!(
            cable.seen(),
            ["r8@40: 0 writes, 0 bytes", "flush: 0 writes, 0 bytes"]
        );
    }

    #[test]
    fn memory_that_is_managed_is_reached_with_its_maintenance_only() {
        let notes = Arc::new(Notes::default());
        let w = Window::managed("bar", View::alloc(64, 8).unwrap(), notes.clone());
        let w = w.sub(32, 16).unwrap();
        assert!(w.view().is_none());
        w.write(0, 1u32).unwrap();
        w.write_words(4, &[1u32, 2]).unwrap();
        w.write_many(&[(1, &[1]), (12, &[0; 3])]).unwrap();
        w.fill(0, 16, 0).unwrap();
        w.read::<u64>(8).unwrap();
        w.read_words(0, &mut [0u16; 2]).unwrap();
        w.read_bytes(5, &mut [0; 4]).unwrap();
        assert_eq!(
            *notes.0.lock().unwrap(),
            [
                "f32+4", "f36+8", "f33+1", "f44+3", "f32+16", "i40+8", "i32+4", "i37+4"
            ]
        );
    }

    #[test]
    fn flush_of_a_mapped_window_reads_back() {
        let [mapped, ..] = accesses();
        assert!(mapped.flush().is_ok());
        assert!(mapped.clone().with_readback(60).flush().is_ok());
        let error = mapped.with_readback(64).flush().unwrap_err();
        assert_eq!(
            error.to_string(),
            "bar: read 0x4 bytes at 0x40: 0x4 bytes at offset 0x40 are out of bounds of a view of 0x40 \
             bytes"
        );
    }

    #[test]
    fn widths() {
        use AccessWidth::{W8, W16, W32, W64};
        assert_eq!(W8.ones(), 0xff);
        assert_eq!(W64.ones(), u64::MAX);
        for w in [W8, W16, W32, W64] {
            assert_eq!(AccessWidth::from_bytes(w.bytes()), Some(w));
        }
        assert_eq!(AccessWidth::from_bytes(3), None);
    }
}
