//! [`Trace`]: notes every access that passes, for people and for [`replay`](super::replay).

use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use super::Fault;
use super::access::{Access, Answer, Port, Record};

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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Passes accesses on and notes them with their answers.
pub struct Trace<P> {
    inner: P,
    log: TraceLog,
}

impl<P: Port> Trace<P> {
    /// Notes what passes to `inner` in `log`.
    pub fn new(inner: P, log: TraceLog) -> Trace<P> {
        Trace { inner, log }
    }
}

impl<P: Port> Port for Trace<P> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn access(&self, access: &Access) -> Result<Answer, Fault> {
        let answer = self.inner.access(access);
        // Memory lives in this process only; the record does not keep it mapped.
        let noted = answer.clone().map(|a| Answer { view: None, ..a });
        let device = self.inner.name().to_owned();
        self.log.note(Record {
            device,
            access: access.clone(),
            answer: noted,
        });
        answer
    }
}
