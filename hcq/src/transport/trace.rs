//! [`Trace`]: notes every access that passes, for people and for [`replay`](super::replay).
//!
//! Memory of a device, which the host has mapped, is seen by [`Trace::whole`] alone: loads, stores and doorbells there are
//! calls then. Those in a BAR are always, which is a window of calls behind a tap.

use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex};

use crate::sync::lock;

use super::Fault;
use super::access::{Access, Answer, Record};
use super::tap::Tap;

/// Where records go. Clones share it, so several devices make one trace, in one order.
#[derive(Clone)]
pub struct TraceLog(Arc<Mutex<Sink>>);

enum Sink {
    Memory(Vec<Record>),
    Writer {
        to: Box<dyn Write + Send>,
        failed: Option<std::io::ErrorKind>,
    },
}

impl TraceLog {
    /// Keeps the records in memory.
    pub fn memory() -> TraceLog {
        TraceLog(Arc::new(Mutex::new(Sink::Memory(Vec::new()))))
    }

    /// Writes each record as a line, at once: the last lines before a crash are there.
    pub fn writer(to: impl Write + Send + 'static) -> TraceLog {
        TraceLog(Arc::new(Mutex::new(Sink::Writer {
            to: Box::new(to),
            failed: None,
        })))
    }

    /// The records kept in memory; none for a writer.
    pub fn records(&self) -> Vec<Record> {
        match &*self.sink() {
            Sink::Memory(records) => records.clone(),
            Sink::Writer { .. } => Vec::new(),
        }
    }

    /// Why writing stopped, if it did: tracing never fails the access that is traced.
    pub fn failed(&self) -> Option<std::io::ErrorKind> {
        match &*self.sink() {
            Sink::Memory(_) => None,
            Sink::Writer { failed, .. } => *failed,
        }
    }

    fn note(&self, record: Record) {
        match &mut *self.sink() {
            Sink::Memory(records) => records.push(record),
            Sink::Writer {
                failed: Some(_), ..
            } => {}
            Sink::Writer { to, failed } => {
                if let Err(error) = writeln!(to, "{record}").and_then(|()| to.flush()) {
                    *failed = Some(error.kind());
                }
            }
        }
    }

    fn sink(&self) -> impl std::ops::DerefMut<Target = Sink> + '_ {
        // A panic while noting loses a record, not the log.
        lock(&self.0)
    }
}

/// The records in memory as text, one line each.
impl fmt::Display for TraceLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.records()
            .iter()
            .try_for_each(|record| writeln!(f, "{record}"))
    }
}

/// Notes what passes.
pub struct Trace {
    log: TraceLog,
    memory: bool,
}

impl Trace {
    /// Notes what passes in `log`.
    pub fn new(log: TraceLog) -> Arc<Trace> {
        Arc::new(Trace { log, memory: false })
    }

    /// The same, with what passes to and from DMA memory: all that a driver needs to run from it again.
    pub fn whole(log: TraceLog) -> Arc<Trace> {
        Arc::new(Trace { log, memory: true })
    }
}

impl Tap for Trace {
    fn sees_memory(&self) -> bool {
        self.memory
    }

    fn after(&self, device: &str, access: &Access, answer: &mut Result<Answer, Fault>) {
        // Memory lives in this process only; the record does not keep it mapped.
        let noted = answer.clone().map(|a| Answer { view: None, ..a });
        self.log.note(Record {
            device: device.to_owned(),
            access: access.clone(),
            answer: noted,
        });
    }
}
