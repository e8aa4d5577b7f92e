//! A queue that counts what goes through it, and fails when it is told to.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use hcq::{
    Command, CommandBuffer, DeviceId, Error, IndirectBuffer, Queue, QueueKind, Result, Stream,
    Timeline, Turn,
};

/// What goes through a queue.
#[derive(Default)]
pub struct Watch {
    /// Submissions.
    pub submitted: AtomicU32,
    /// Launches of bound packets.
    pub launched: AtomicU32,
    /// No patches are taken.
    pub refuse_patches: AtomicBool,
    /// No launches are taken.
    pub refuse_launches: AtomicBool,
    /// Done in the midst of the next launch.
    pub amid: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

/// A stream over the queue of another one, and what goes through it.
pub fn watched(stream: &Stream) -> (Stream, Arc<Watch>) {
    let watch = Arc::new(Watch::default());
    let queue = WatchedQueue {
        queue: stream.queue().clone(),
        watch: watch.clone(),
    };
    (Stream::new(Arc::new(queue)), watch)
}

struct WatchedQueue {
    queue: Arc<dyn Queue>,
    watch: Arc<Watch>,
}

impl Queue for WatchedQueue {
    fn device(&self) -> &DeviceId {
        self.queue.device()
    }

    fn kind(&self) -> QueueKind {
        self.queue.kind()
    }

    fn index(&self) -> u32 {
        self.queue.index()
    }

    fn encode(&self, commands: &[Command<'_>], out: &mut CommandBuffer) -> Result<()> {
        self.queue.encode(commands, out)
    }

    fn submit(&self, turn: &mut Turn<'_>) -> Result<()> {
        self.watch.submitted.fetch_add(1, Ordering::Relaxed);
        self.queue.submit(turn)
    }

    fn bind(&self, packets: CommandBuffer) -> Result<Box<dyn IndirectBuffer>> {
        Ok(Box::new(WatchedIndirectBuffer {
            bound: self.queue.bind(packets)?,
            watch: self.watch.clone(),
        }))
    }

    fn timeline(&self) -> &Timeline {
        self.queue.timeline()
    }
}

struct WatchedIndirectBuffer {
    bound: Box<dyn IndirectBuffer>,
    watch: Arc<Watch>,
}

impl IndirectBuffer for WatchedIndirectBuffer {
    fn patch(&mut self, values: &[u64]) -> Result<()> {
        if self.watch.refuse_patches.load(Ordering::Relaxed) {
            return Err(Error::Graph("no patches are taken".into()));
        }
        self.bound.patch(values)
    }

    fn launch(&mut self, turn: &mut Turn<'_>) -> Result<()> {
        if self.watch.refuse_launches.load(Ordering::Relaxed) {
            return Err(Error::Graph("no launches are taken".into()));
        }
        let amid = self.watch.amid.lock().map(|mut amid| amid.take());
        if let Ok(Some(amid)) = amid {
            amid();
        }
        self.watch.launched.fetch_add(1, Ordering::Relaxed);
        self.bound.launch(turn)
    }
}
