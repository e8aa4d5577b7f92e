//! Channels of a simulated card whose pointers and doorbells are memory of the host, as those of a card are for who has
//! mapped them. A thread tells the card what was written there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drivers_gpu::backend::{Age, Backend, Event, Exception, Facts, Memory, Request, Space};
use drivers_nv::backend::{ChannelRequest, Gpu, HardwareChannel, NvBackend};
use drivers_spec::nv::push::userd;
use hcq::mem::view::View;
use hcq::mem::window::Window;
use hcq::{DeviceId, Result};

/// How often they are looked at.
const LOOK: Duration = Duration::from_micros(50);

/// A channel: what the driver writes, and what the card reads.
struct Channel {
    pointers: View,
    userd: Window,
    doorbell: Window,
    token: u32,
    /// The pointer that the card was told last.
    put: u32,
}

/// What the thread looks at.
#[derive(Default)]
struct Watched {
    channels: Mutex<Vec<Channel>>,
    is_held: AtomicBool,
}

impl Watched {
    fn tell(&self) {
        for channel in &mut *self.channels.lock().unwrap() {
            let put: u32 = channel.pointers.read(userd::GP_PUT as usize).unwrap();
            if put != channel.put {
                channel.put = put;
                channel.userd.write(userd::GP_PUT, put).unwrap();
                channel.doorbell.ring(0, channel.token).unwrap();
            }
        }
    }
}

/// A backend with such channels.
pub struct Mapped {
    inner: Arc<dyn NvBackend>,
    watched: Arc<Watched>,
}

impl Mapped {
    pub fn over(inner: Arc<dyn NvBackend>) -> Arc<Mapped> {
        let watched = Arc::new(Watched::default());
        let weak = Arc::downgrade(&watched);
        std::thread::spawn(move || {
            while let Some(watched) = weak.upgrade() {
                if !watched.is_held.load(Ordering::Acquire) {
                    watched.tell();
                }
                drop(watched);
                std::thread::sleep(LOOK);
            }
        });
        Arc::new(Mapped { inner, watched })
    }

    /// Nothing is told meanwhile: what is timed is the driver.
    pub fn hold(&self, held: bool) {
        self.watched.is_held.store(held, Ordering::Release);
    }
}

impl Backend for Mapped {
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

impl NvBackend for Mapped {
    fn gpu(&self) -> &Gpu {
        self.inner.gpu()
    }

    fn channel(&self, request: &ChannelRequest<'_>) -> Result<HardwareChannel> {
        let mut channel = self.inner.channel(request)?;
        let memory = |bytes: u64| View::alloc(bytes as usize, 4096).unwrap();
        let pointers = memory(channel.userd.len());
        let bell = Window::mapped("doorbell", memory(channel.doorbell.len()));
        let seen = Window::mapped("pointers", pointers.clone());
        let told = Channel {
            pointers,
            userd: std::mem::replace(&mut channel.userd, seen),
            doorbell: std::mem::replace(&mut channel.doorbell, bell),
            token: channel.token,
            put: 0,
        };
        self.watched.channels.lock().unwrap().push(told);
        Ok(channel)
    }
}
