//! Bundles written on failures, with the state of the device, its queues and its interface. The error returned to the
//! program names the file.

use std::time::Duration;

use drivers_bundle::schema::{self, Bundle, Kernel, Kind, Waited};
use drivers_bundle::{CoredumpWriter, Hex};
use hcq::Error;
use hcq::progress::Over;

use super::Core;
use crate::backend::{Access, Cause, Exception, MemoryFault, PAGE_BITS};

impl Core {
    /// Writes a bundle about a loss before it is reported; returns the cause with the path.
    pub(super) fn keep_loss(&self, cause: Error, exception: Option<&Exception>) -> Error {
        let Some(coredumps) = self.coredumps.as_ref().filter(|_| !self.lost.is_lost()) else {
            return cause;
        };
        let Error::Fault { device, unit, what } = cause else {
            return cause;
        };
        let told = match exception {
            Some(exception) => self.told(exception),
            None => schema::Exception::Broken {
                unit: unit.clone(),
                what: what.clone(),
            },
        };
        let bundle = Bundle {
            kind: Kind::Fault,
            error: format!("{device} {unit}: {what}"),
            exception: Some(told),
            ..self.bundle(exception)
        };
        let what = what + &kept(coredumps, bundle);
        Error::Fault { device, unit, what }
    }

    /// Writes a bundle about a hang; returns the error with the path.
    pub fn overdue(&self, error: Error) -> Error {
        let Error::Timeout {
            device,
            what,
            wanted,
            seen,
            after,
            over,
        } = error
        else {
            return error;
        };
        let runs = || self.queues().is_some_and(|queues| queues.runs());
        let over = match over {
            Over::Silent(silence) if runs() && self.backend.places().is_none() => {
                Over::Blind(silence)
            }
            other => other,
        };
        let note = match self
            .coredumps
            .as_ref()
            .filter(|coredumps| coredumps.wants_wait(after))
        {
            None => String::new(),
            Some(coredumps) => kept(coredumps, self.hang(&what, (wanted, seen), after)),
        };
        let what = what + &note;
        Error::Timeout {
            device,
            what,
            wanted,
            seen,
            after,
            over,
        }
    }

    fn hang(&self, what: &str, (wanted, seen): (u64, u64), after: Duration) -> Bundle {
        Bundle {
            kind: Kind::Hang,
            error: format!(
                "{} {what}: still {seen} after {after:?}, expected at least {wanted}",
                self.id
            ),
            wait: Some(Waited {
                what: what.into(),
                wanted,
                seen,
                after_ms: after.as_millis().try_into().unwrap_or(u64::MAX),
            }),
            ..self.bundle(None)
        }
    }

    /// Writes a bundle about an error that the caller found. Returns its path, or `None` if none was written.
    pub fn keep_check(&self, error: &Error) -> Option<String> {
        let bundle = Bundle {
            kind: Kind::Check,
            error: error.to_string(),
            ..self.bundle(None)
        };
        let path = self.coredumps.as_ref()?.keep(bundle);
        let path = path.inspect_err(|why| tracing::warn!(why, "no bundle written"));
        path.ok().map(|path| path.display().to_string())
    }

    /// All that is known of the device.
    fn bundle(&self, exception: Option<&Exception>) -> Bundle {
        let facts = self.facts();
        let kernels = self.kernels.all().into_iter().map(|(code, kernel)| Kernel {
            name: kernel.name.to_string(),
            at: Hex(code.start),
            bytes: Hex(code.end - code.start),
        });
        Bundle {
            device: schema::Device {
                id: self.id.to_string(),
                interface: self.backend.name().into(),
                place: facts.place.clone(),
                memory: facts.vram,
                log: facts.log.into(),
            },
            queues: self
                .queues()
                .map(|queues| queues.evidence())
                .unwrap_or_default(),
            kernels: kernels.collect(),
            evidence: self.backend.evidence(exception),
            ..Bundle::default()
        }
    }

    fn told(&self, exception: &Exception) -> schema::Exception {
        match exception {
            Exception::Memory(fault) => self.of_memory(fault),
            Exception::Refused(refused) => schema::Exception::Refused {
                unit: refused.unit.clone(),
                what: refused.what.clone(),
                at: refused.at.map(Hex),
                owner: refused.at.map(|at| self.ranges().whose(at)),
            },
            Exception::Reset(reset) => schema::Exception::Reset {
                engine: reset.engine,
                uncorrectable: reset.uncorrectable,
                memory_lost: reset.memory_lost,
            },
        }
    }

    fn of_memory(&self, fault: &MemoryFault) -> schema::Exception {
        let page = fault.va & !PAGE_BITS;
        let suspects = self
            .queues()
            .map(|queues| queues.suspects(page))
            .unwrap_or_default();
        // If only one launch is in flight, it is blamed.
        let guilty = suspects.guilty.or_else(|| match suspects.others.len() {
            1 => suspects.others.into_iter().next(),
            _ => None,
        });
        schema::Exception::Memory {
            va: Hex(fault.va),
            cause: match fault.cause {
                Cause::PageFault => "page fault",
                Cause::Ecc => "ecc",
                Cause::Poison => "poison",
                Cause::Hang => "hang",
            }
            .into(),
            access: fault.access.map(|access| {
                match access {
                    Access::Read => "read",
                    Access::Write => "write",
                    Access::Atomic => "atomic",
                }
                .into()
            }),
            not_present: fault.not_present,
            read_only: fault.read_only,
            no_execute: fault.no_execute,
            owner: self.ranges().whose(fault.va),
            guilty: guilty.map(|(queue, what)| [queue, what]),
        }
    }
}

/// Writes a bundle; what the message of its error ends with.
fn kept(coredumps: &CoredumpWriter, bundle: Bundle) -> String {
    match coredumps.keep(bundle) {
        Ok(path) => format!(" [doorbell explain {}]", path.display()),
        Err(why) => format!(" [no bundle: {why}]"),
    }
}
