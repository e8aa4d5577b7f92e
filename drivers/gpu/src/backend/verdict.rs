//! [`Verdicts`]: attributes a fault to one of several handles of a GPU in a process, if the GPU does not.
//!
//! The evidence is the work in flight on their queues. The fault belongs to a handle with a packet that names the
//! address; otherwise to those with work in flight; otherwise to all. The first handle to see the fault decides once
//! for all current handles: later some may be idle or closed.

use std::sync::{Arc, Mutex, MutexGuard};

use hcq::sync::lock;

use super::Exception;

/// Verdicts that are remembered: handles hear of a fault at different times.
const KEPT: usize = 64;

/// A handle of a GPU, as others that have the same GPU see it.
pub trait Handle: Send + Sync {
    /// Its number in the process.
    fn number(&self) -> u64;

    /// Where the GPU is.
    fn place(&self) -> &str;

    /// Whether something in flight names an address that an exception is about.
    fn names(&self, exception: &Exception) -> bool;

    /// Whether anything is in flight.
    fn is_busy(&self) -> bool;
}

/// The verdicts of a process.
#[derive(Default)]
pub struct Verdicts(Mutex<Vec<Verdict>>);

struct Verdict {
    place: String,
    exception: Exception,
    whose: Vec<u64>,
    /// Handles that were there, and have not heard of it yet.
    deaf: Vec<u64>,
}

impl Verdicts {
    /// Whether an exception that a handle hears of is its own. `all` are the handles of the process.
    pub fn is_own(
        &self,
        (number, place): (u64, &str),
        exception: &Exception,
        all: &[Arc<dyn Handle>],
    ) -> bool {
        let known = self.known(number, place, exception);
        known.unwrap_or_else(|| {
            let here: Vec<_> = all.iter().filter(|one| one.place() == place).collect();
            let pick = |is: &dyn Fn(&dyn Handle) -> bool| {
                let picked = here.iter().filter(|one| is(&****one));
                picked.map(|one| one.number()).collect::<Vec<_>>()
            };
            // Looked at outside of the lock: queues are.
            let all = pick(&|_| true);
            let choices = [
                pick(&|one| one.names(exception)),
                pick(&|one| one.is_busy()),
                all.clone(),
            ];
            let whose = choices.into_iter().find(|some| !some.is_empty());
            let whose = whose.unwrap_or_else(|| vec![number]);
            let is_own = whose.contains(&number);
            let mut verdicts = self.lock();
            if verdicts.len() == KEPT {
                verdicts.remove(0);
            }
            verdicts.push(Verdict {
                place: place.into(),
                exception: exception.clone(),
                whose,
                deaf: all.into_iter().filter(|one| *one != number).collect(),
            });
            is_own
        })
    }

    /// The attribution of an exception that a handle has not received yet.
    fn known(&self, number: u64, place: &str, exception: &Exception) -> Option<bool> {
        let mut verdicts = self.lock();
        let same = |one: &&mut Verdict| one.place == place && one.exception == *exception;
        let mut is_own = None;
        for verdict in verdicts.iter_mut().filter(same) {
            // A repeated fault is not new: one event covers both.
            if let Some(at) = verdict.deaf.iter().position(|one| *one == number) {
                verdict.deaf.remove(at);
                let is = verdict.whose.contains(&number);
                is_own = Some(is_own.unwrap_or(false) || is);
            }
        }
        is_own
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Verdict>> {
        // Entries are pushed whole.
        lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Refused, Reset};
    use super::*;

    struct One(u64, &'static str, bool, bool);

    impl Handle for One {
        fn number(&self) -> u64 {
            self.0
        }
        fn place(&self) -> &str {
            self.1
        }
        fn names(&self, _: &Exception) -> bool {
            self.2
        }
        fn is_busy(&self) -> bool {
            self.3
        }
    }

    fn refused(what: &str) -> Exception {
        Exception::Refused(Refused {
            unit: "shader".into(),
            what: what.into(),
            at: None,
        })
    }

    fn judge(verdicts: &Verdicts, number: u64, exception: &Exception, all: &[One]) -> bool {
        let all: Vec<Arc<dyn Handle>> = all
            .iter()
            .map(|one| Arc::new(One(one.0, one.1, one.2, one.3)) as Arc<dyn Handle>)
            .collect();
        verdicts.is_own((number, "03:00.0"), exception, &all)
    }

    #[test]
    fn a_fault_is_of_whom_names_it_or_works_or_of_all() {
        let (here, there) = ("03:00.0", "04:00.0");
        for (all, whose) in [
            (
                [
                    One(1, here, true, true),
                    One(2, here, false, true),
                    One(3, there, true, true),
                ],
                [true, false],
            ),
            (
                [
                    One(1, here, false, false),
                    One(2, here, false, true),
                    One(3, there, true, true),
                ],
                [false, true],
            ),
            (
                [
                    One(1, here, false, true),
                    One(2, here, false, true),
                    One(3, there, false, true),
                ],
                [true, true],
            ),
            (
                [
                    One(1, here, false, false),
                    One(2, here, false, false),
                    One(3, there, false, true),
                ],
                [true, true],
            ),
        ] {
            let verdicts = Verdicts::default();
            assert_eq!(judge(&verdicts, 1, &refused("a"), &all), whose[0]);
            // It is judged already, whatever the other does now.
            let later = [One(1, here, false, false), One(2, here, true, true)];
            assert_eq!(judge(&verdicts, 2, &refused("a"), &later), whose[1]);
            // A handle that has received this exception receives the next one.
            assert!(judge(&verdicts, 2, &refused("a"), &later));
            assert!(!judge(&verdicts, 1, &refused("a"), &later));
        }
        // There is no other handle.
        let alone = Verdicts::default();
        let reset = Exception::Reset(Reset {
            engine: false,
            uncorrectable: false,
            memory_lost: false,
        });
        assert!(judge(&alone, 7, &reset, &[]));
    }
}
