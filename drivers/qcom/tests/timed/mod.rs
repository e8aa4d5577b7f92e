//! A machine whose files tell when a thread is inside of a call: what is the driver's, and what the twin's.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use drivers_spec::qcom::kgsl::{CMDSTREAM_READTIMESTAMP_CTXTID, ReadTimestamp};
use hcq::mem::view::View;
use hcq::transport::{DevFile, Machine, Map, PerProcess, Request, Reserved, TransportError};

thread_local! {
    /// Whether this thread is inside of a call.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside of a call.
#[allow(dead_code)] // Not everyone asks.
pub fn is_inside() -> bool {
    INSIDE.try_with(Cell::get).unwrap_or(true)
}

/// Time inside of calls, in nanoseconds, and how many there were.
#[derive(Default)]
pub struct Spent {
    pub ns: AtomicU64,
    pub calls: AtomicU64,
    before: Mutex<Option<Before>>,
}

/// The end of an ioctl's name, and what happens right before its next call.
type Before = (&'static str, Box<dyn FnOnce() + Send>);

impl Spent {
    /// Does something right before the next call of an ioctl, as another thread might.
    #[allow(dead_code)] // Not everyone asks.
    pub fn before_next(&self, call: &'static str, what: impl FnOnce() + Send + 'static) {
        *self.before.lock().unwrap() = Some((call, Box::new(what)));
    }

    fn interfere(&self, name: &str) {
        let mut before = self.before.lock().unwrap();
        let due = before.take_if(|(call, _)| name.ends_with(*call));
        drop(before);
        if let Some((_, what)) = due {
            what();
        }
    }
}

struct Timed {
    inner: Arc<dyn Machine>,
    spent: Arc<Spent>,
    kept: PerProcess,
}

struct TimedFile {
    inner: Arc<dyn DevFile>,
    spent: Arc<Spent>,
}

/// A machine, and what its calls take.
pub fn timed(inner: Arc<dyn Machine>) -> (Arc<dyn Machine>, Arc<Spent>) {
    let spent = Arc::new(Spent::default());
    let machine = Timed {
        inner,
        spent: spent.clone(),
        kept: PerProcess::default(),
    };
    (Arc::new(machine), spent)
}

/// A file whose calls do nothing.
struct Nothing;

impl DevFile for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }

    fn ioctl(&self, _: &mut Request<'_, '_>) -> Result<i32, TransportError> {
        Ok(0)
    }

    fn mmap(&self, _: Map) -> Result<View, TransportError> {
        unreachable!("only calls are made")
    }
}

/// What timing a call adds to the time outside of it, in nanoseconds: reading the clock, for the most part. The best of
/// many rounds, as what it is taken from.
#[allow(dead_code)] // Not everyone asks.
pub fn cost() -> u64 {
    const CALLS: u64 = 40;
    let spent = Arc::new(Spent::default());
    let file: &dyn DevFile = &TimedFile {
        inner: Arc::new(Nothing),
        spent: spent.clone(),
    };
    let mut read = ReadTimestamp::default();
    let round = || {
        let before = spent.ns.load(Ordering::Relaxed);
        let start = Instant::now();
        for _ in 0..CALLS {
            let mut request = CMDSTREAM_READTIMESTAMP_CTXTID.with(&mut read, &mut []);
            file.ioctl(&mut request).unwrap();
        }
        let all = start.elapsed().as_nanos() as u64;
        all.saturating_sub(spent.ns.load(Ordering::Relaxed) - before) / CALLS
    };
    std::iter::repeat_with(round).take(300).min().unwrap()
}

impl DevFile for TimedFile {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn ioctl(&self, request: &mut Request<'_, '_>) -> Result<i32, TransportError> {
        self.spent.interfere(request.ioctl().name);
        INSIDE.set(true);
        let start = Instant::now();
        let done = self.inner.ioctl(request);
        let ns = start.elapsed().as_nanos() as u64;
        self.spent.ns.fetch_add(ns, Ordering::Relaxed);
        self.spent.calls.fetch_add(1, Ordering::Relaxed);
        INSIDE.set(false);
        done
    }

    fn mmap(&self, map: Map) -> Result<View, TransportError> {
        self.inner.mmap(map)
    }
}

impl Machine for Timed {
    fn open(&self, path: &str) -> Result<Arc<dyn DevFile>, TransportError> {
        Ok(Arc::new(TimedFile {
            inner: self.inner.open(path)?,
            spent: self.spent.clone(),
        }))
    }

    fn read(&self, path: &str) -> Result<String, TransportError> {
        self.inner.read(path)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TransportError> {
        self.inner.list(path)
    }

    fn reserve(&self, bytes: u64, align: u64, below: u64) -> Result<Reserved, TransportError> {
        self.inner.reserve(bytes, align, below)
    }

    fn memory(&self, bytes: u64, align: u64) -> Result<View, TransportError> {
        self.inner.memory(bytes, align)
    }

    fn per_process(&self) -> &PerProcess {
        &self.kept
    }
}
