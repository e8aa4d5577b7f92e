//! A layer between our encoders and the hardware in which bugs can be switched on: it edits what the driver has
//! written before the GPU is told of it, as a driver with that bug would have written it.
//!
//! Rings and their pointers are copies; a doorbell that is rung passes on what is new.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drivers_gpu::backend::{Age, Backend, Event, Exception, Facts, Memory, Request, Space};
use drivers_nv::backend::{ChannelKind, ChannelRequest, Gpu, HardwareChannel, NvBackend};
use drivers_spec::nv::chip::{Arch, Method};
use drivers_spec::nv::push::header::*;
use drivers_spec::nv::push::{gp_entry0, gp_entry1, userd};
use drivers_spec::nv::qmd::Version;
use drivers_spec::nv::{compute, host};
use hcq::mem::view::View;
use hcq::mem::window::{AccessWidth, Piece, RemoteWindow, Window};
use hcq::transport::TransportError;
use hcq::{DeviceId, Result};

/// A deliberate bug.
#[derive(Clone, Copy)]
pub struct Bug {
    /// What a driver would do wrong.
    pub what: &'static str,
    /// The rule that has to name it.
    pub rule: &'static str,
    pub how: How,
}

/// Where the bug is.
#[derive(Clone, Copy)]
pub enum How {
    /// Edits methods behind their headers.
    Methods(fn(&mut Methods<'_>)),
    /// Edits QMDs before their grids are scheduled.
    Qmd(fn(Version, &mut [u32])),
    /// Edits both.
    Both(fn(&mut Methods<'_>), fn(Version, &mut [u32])),
    /// Edits entries of a ring.
    Entry(fn(&mut [u32; 2])),
    /// Edits GPPut, of a ring of so many entries.
    Put(fn(u32, u32) -> u32),
    /// Edits what the doorbell is rung with.
    Bell(fn(u32) -> u32),
}

/// Methods behind one header, or one whose data is in the header.
pub struct Methods<'a> {
    pub header: &'a mut u32,
    pub data: &'a mut [u32],
    pub copies: bool,
}

impl Methods<'_> {
    /// Whether the first of them is this one.
    pub fn begin_with(&self, method: Method) -> bool {
        METHOD_ADDRESS.get(*self.header) == method.dword()
    }

    /// Does nothing in their place.
    pub fn skip(&mut self) {
        let op = match SEC_OP.get(*self.header) {
            SEC_OP_IMMD_DATA_METHOD => SEC_OP_IMMD_DATA_METHOD,
            _ => SEC_OP_NON_INC_METHOD,
        };
        let kept = *self.header & METHOD_COUNT.mask();
        *self.header = METHOD_ADDRESS.put(host::NOP.dword()) | SEC_OP.put(op) | kept;
    }

    /// Sets bits of data in the header.
    pub fn immediate(&mut self, clear: u32, set: u32) {
        let data = METHOD_COUNT.get(*self.header) & !clear | set;
        *self.header = *self.header & !METHOD_COUNT.mask() | METHOD_COUNT.put(data);
    }
}

/// The layer.
pub struct Mutant {
    inner: Arc<dyn NvBackend>,
    how: How,
}

impl Mutant {
    pub fn over(inner: Arc<dyn NvBackend>, how: How) -> Arc<dyn NvBackend> {
        Arc::new(Mutant { inner, how })
    }
}

impl Backend for Mutant {
    fn id(&self) -> &DeviceId {
        self.inner.id()
    }
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn facts(&self) -> &Facts {
        self.inner.facts()
    }
    fn space(&self) -> &Arc<Space> {
        self.inner.space()
    }
    fn memory(&self, request: &Request<'_>) -> Result<Memory> {
        self.inner.memory(request)
    }
    fn event(&self) -> Result<Event> {
        self.inner.event()
    }
    fn wake(&self, event: &Event) {
        self.inner.wake(event);
    }
    fn sleep(
        &self,
        event: Option<&Event>,
        age: &mut Age,
        limit: Duration,
    ) -> Result<Option<Exception>> {
        self.inner.sleep(event, age, limit)
    }
    fn flush_vram(&self) -> Result<()> {
        self.inner.flush_vram()
    }
    fn ticks(&self) -> Result<u64> {
        self.inner.ticks()
    }
    fn window_at(&self, va: u64) -> Option<(Window, u64)> {
        self.inner.window_at(va)
    }
}

impl NvBackend for Mutant {
    fn gpu(&self) -> &Gpu {
        self.inner.gpu()
    }

    fn channel(&self, request: &ChannelRequest<'_>) -> Result<HardwareChannel> {
        let mut channel = self.inner.channel(request)?;
        let copy_of = |window: &Window| {
            let view = View::alloc(window.len() as usize, 4096).unwrap();
            Window::mapped("copy", view)
        };
        let (ring, pointers) = (copy_of(&channel.ring), copy_of(&channel.userd));
        let bell = Bell {
            inner: self.inner.clone(),
            how: self.how,
            copies: channel.kind != ChannelKind::Compute,
            copy: (ring.clone(), pointers.clone()),
            ring: std::mem::replace(&mut channel.ring, ring),
            pointers: std::mem::replace(&mut channel.userd, pointers),
            doorbell: channel.doorbell.clone(),
            seen: AtomicU32::new(0),
            lock: Mutex::new(()),
        };
        channel.doorbell = Window::remote("doorbell", Arc::new(bell));
        Ok(channel)
    }
}

/// A doorbell in front of the real one.
struct Bell {
    inner: Arc<dyn NvBackend>,
    how: How,
    copies: bool,
    /// What the driver sees.
    copy: (Window, Window),
    /// What the hardware does.
    ring: Window,
    pointers: Window,
    doorbell: Window,
    /// The entry after the last one that was passed on.
    seen: AtomicU32,
    lock: Mutex<()>,
}

impl Bell {
    fn arch(&self) -> Arch {
        self.inner.gpu().chip.arch
    }

    /// Edits dwords of memory that the host sees.
    fn edit(&self, address: u64, dwords: usize, edit: impl FnOnce(&mut [u32])) {
        let (window, offset) = self.inner.window_at(address).unwrap();
        let mut words = vec![0; dwords];
        window.read_words(offset, &mut words).unwrap();
        let before = words.clone();
        edit(&mut words);
        if words != before {
            window.write_words(offset, &words).unwrap();
        }
    }

    fn segment(&self, words: &mut [u32]) {
        let mut at = 0;
        while at < words.len() {
            let (header, rest) = words[at..].split_first_mut().unwrap();
            let length = drivers_nv::encode::push::length(*header);
            let mut methods = Methods {
                header,
                data: &mut rest[..length - 1],
                copies: self.copies,
            };
            if let How::Qmd(edit) | How::Both(_, edit) = self.how
                && methods.begin_with(compute::SEND_PCAS_A)
            {
                let version = *self.arch().facts().qmds.last().unwrap();
                let address = u64::from(methods.data[0]) << 8;
                self.edit(address, version.dwords(), |words| edit(version, words));
            }
            if let How::Methods(edit) | How::Both(edit, _) = self.how {
                edit(&mut methods);
            }
            at += length;
        }
    }

    fn rung(&self, token: u32) -> Result<(), TransportError> {
        let _held = self.lock.lock().unwrap();
        let entries = (self.ring.len() / 8) as u32;
        let put: u32 = self.copy.1.load(userd::GP_PUT)?;
        let mut at = self.seen.swap(put, Ordering::Relaxed);
        while at != put {
            let mut entry = [0u32; 2];
            self.copy.0.read_words(u64::from(at) * 8, &mut entry)?;
            let low = u64::from(gp_entry0::GET.get(entry[0])) << 2;
            let address = low | u64::from(gp_entry1::GET_HI.get(entry[1])) << 32;
            let dwords = gp_entry1::LENGTH.get(entry[1]) as usize;
            self.edit(address, dwords, |words| self.segment(words));
            if let How::Entry(edit) = self.how {
                edit(&mut entry);
            }
            self.ring.write_words(u64::from(at) * 8, &entry)?;
            at = (at + 1) % entries;
        }
        let put = match self.how {
            How::Put(edit) => edit(put, entries),
            _ => put,
        };
        self.pointers.ring(userd::GP_PUT, put)?;
        let token = match self.how {
            How::Bell(edit) => edit(token),
            _ => token,
        };
        self.doorbell.ring(0, token)
    }
}

impl RemoteWindow for Bell {
    fn len(&self) -> u64 {
        self.doorbell.len()
    }
    fn read(&self, _: u64, _: AccessWidth) -> Result<u64, TransportError> {
        Ok(0)
    }
    fn read_bytes(&self, _: u64, to: &mut [u8]) -> Result<(), TransportError> {
        to.fill(0);
        Ok(())
    }
    fn write(&self, _: u64, _: AccessWidth, value: u64) -> Result<(), TransportError> {
        self.rung(value as u32)
    }
    fn write_many(&self, _: &[Piece<'_>]) -> Result<(), TransportError> {
        Ok(())
    }
    fn send(&self) -> Result<(), TransportError> {
        Ok(())
    }
    fn flush(&self) -> Result<(), TransportError> {
        Ok(())
    }
}
