//! [`Rig`]: an open device with a stream per queue, and short ways to buffers and kernels.

use std::sync::Arc;
use std::time::Duration;

use hcq::{
    AllocSpec, Buffer, Command, Deadline, Device, Error, MemoryKind, Program, QueueKind, Stream,
    Val,
};

use crate::{Kernel, Subject};

/// A device under test.
pub struct Rig<'a> {
    /// Who makes it.
    pub subject: &'a dyn Subject,
    /// The device.
    pub device: Arc<dyn Device>,
    /// Its compute queue.
    pub compute: Stream,
    /// Its copy queue, or the compute queue again if it has none.
    pub copy: Stream,
}

impl<'a> Rig<'a> {
    /// Device 0 with small rings.
    pub fn new(subject: &'a dyn Subject) -> Rig<'a> {
        Rig::open(subject, 0, 1024)
    }

    /// Device `index` with rings of `ring_words` words.
    pub fn open(subject: &'a dyn Subject, index: u32, ring_words: u32) -> Rig<'a> {
        Rig::with(subject, index, ring_words, 0)
    }

    /// Device `index`, whose timelines stand at `start` as if so much had been submitted.
    pub fn starting(subject: &'a dyn Subject, index: u32, start: u64) -> Rig<'a> {
        Rig::with(subject, index, 1024, start)
    }

    fn with(subject: &'a dyn Subject, index: u32, ring_words: u32, start: u64) -> Rig<'a> {
        let device = subject.open(index, ring_words).expect("the device opens");
        let stream = |kind| {
            let queue = device.queue(kind, 0).expect("the queue opens");
            if start > 0 {
                queue
                    .timeline()
                    .skip_to(start)
                    .expect("the timeline is set");
            }
            Stream::new(queue)
        };
        let compute = stream(QueueKind::Compute);
        let has_copy = device
            .info()
            .queues
            .iter()
            .any(|&(kind, n)| kind == QueueKind::Copy && n > 0);
        let copy = match has_copy {
            true => stream(QueueKind::Copy),
            false => compute.clone(),
        };
        Rig {
            subject,
            device,
            compute,
            copy,
        }
    }

    /// Whether copies have a queue of their own.
    pub fn has_copy_queue(&self) -> bool {
        let queues = &self.device.info().queues;
        queues
            .iter()
            .any(|&(kind, n)| kind == QueueKind::Copy && n > 0)
    }

    /// Loses the device as a fault of the hardware would, with this reason.
    pub fn lose(&self, reason: &str) {
        self.device.lose(Error::Fault {
            device: self.device.info().id.clone(),
            unit: "injected fault".into(),
            what: reason.into(),
        });
    }

    /// Memory that holds these elements.
    pub fn data(&self, elements: &[u32]) -> Buffer {
        let bytes: Vec<u8> = elements.iter().flat_map(|e| e.to_le_bytes()).collect();
        let buffer = self.buffer(bytes.len() as u64);
        buffer.write(0, &bytes).expect("the host writes");
        buffer
    }

    /// Zeroed memory that host and device reach.
    pub fn buffer(&self, bytes: u64) -> Buffer {
        let spec = AllocSpec {
            bytes,
            align: 64,
            kind: MemoryKind::Host,
            zeroed: true,
        };
        self.device.alloc(spec).expect("there is memory")
    }

    /// A kernel, loaded.
    pub fn program(&self, kernel: Kernel) -> Arc<Program> {
        let image = self.subject.kernel(kernel);
        self.device.load(&image).expect("the kernel loads")
    }

    /// Blocks until both queues are done.
    pub fn wait(&self) {
        self.compute.wait(soon()).expect("the compute queue ends");
        self.copy.wait(soon()).expect("the copy queue ends");
    }
}

/// The elements in a buffer.
pub fn elements(buffer: &Buffer) -> Vec<u32> {
    let mut bytes = vec![0; buffer.bytes() as usize];
    buffer.read(0, &mut bytes).expect("the host reads");
    bytes
        .chunks_exact(4)
        .map(|e| u32::from_le_bytes([e[0], e[1], e[2], e[3]]))
        .collect()
}

/// A launch of `groups` groups.
pub fn exec<'a>(program: &'a Program, args: &'a [Val], groups: u32) -> Command<'a> {
    Command::Exec {
        program,
        args,
        grid: [groups, 1, 1],
        block: [1, 1, 1],
    }
}

/// The address of a buffer as an operand.
pub fn at(buffer: &Buffer) -> Val {
    Val::Const(buffer.va().0)
}

/// A copy of a whole buffer.
pub fn copy(dst: &Buffer, src: &Buffer) -> Command<'static> {
    Command::Copy {
        dst: at(dst),
        src: at(src),
        bytes: src.bytes().min(dst.bytes()),
    }
}

/// A deadline that only a hang reaches.
pub fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

/// A deadline that a test means to reach.
pub fn shortly() -> Deadline {
    Deadline::after(Duration::from_millis(20))
}
