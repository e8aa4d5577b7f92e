//! The rungs, and climbing them one by one with an eye on the clock.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::Setup;

use super::climb::{Climb, Outcome};
use super::{kernels, probe, queues, tensors};
use crate::program::error::Error;

/// One rung.
pub struct Rung {
    /// Its name.
    pub name: &'static str,
    /// Seconds that a wait for the device may take: of hardware, generously.
    seconds: u64,
    climb: fn(&mut Climb) -> Result<Outcome, Error>,
    /// What to try if it fails, likeliest first.
    hints: &'static [&'static str],
}

pub(super) const fn rung(
    name: &'static str,
    seconds: u64,
    climb: fn(&mut Climb) -> Result<Outcome, Error>,
    hints: &'static [&'static str],
) -> Rung {
    Rung {
        name,
        seconds,
        climb,
        hints,
    }
}

/// From below.
pub const RUNGS: [Rung; 13] = [
    rung(
        "probe",
        5,
        probe::probe,
        &["`doorbell doctor` has a row for everything that is needed"],
    ),
    rung(
        "map",
        30,
        queues::map,
        &[
            "`doorbell doctor` says what is missing; `sudo dmesg | tail -n 50`, what the kernel says",
            "without the kernel driver: the stage in the text is one of the table in drivers/amd/README.md, or, of the way \
             through a USB bridge, of drivers/asm24/README.md; `AMD_RESET=1` begins from a reset",
        ],
    ),
    rung(
        "ring",
        5,
        queues::ring,
        &[
            "the doorbell does not reach the queue, or the queue does not read its ring: `sudo dmesg | tail -n 50`",
            "without the kernel driver: `doorbell regs read CP_HQD_PQ_RPTR`, `CP_HQD_PQ_WPTR_LO`, `CP_HQD_ACTIVE`",
        ],
    ),
    rung(
        "signal",
        5,
        queues::signal,
        &[
            "the end of work is written elsewhere, late or in part: look at the first submission with RUST_LOG=trace",
        ],
    ),
    rung(
        "wait",
        5,
        queues::wait,
        &[
            "the queue does not see what the host writes, or the host is not woken: interrupts, /proc/interrupts",
        ],
    ),
    rung(
        "copy",
        10,
        queues::copy,
        &[
            "copies have an engine of their own: what works so far is the other; `sudo dmesg | tail -n 50`",
        ],
    ),
    rung(
        "kernel",
        10,
        kernels::kernel,
        &[
            "`DEBUG=7 doorbell bringup --from kernel --to kernel` shows what runs, and for which chip it is",
        ],
    ),
    rung(
        "local",
        10,
        kernels::local,
        &["local memory or barriers: is the size that the launch asks for in the text?"],
    ),
    rung(
        "scratch",
        10,
        kernels::scratch,
        &["private memory of waves: its size and place are set at the first launch"],
    ),
    rung(
        "queues",
        10,
        queues::two,
        &["each queue works alone: what one writes is not seen by the other"],
    ),
    rung(
        "graph",
        10,
        queues::graph,
        &["packets in memory of the device run by an indirect buffer: its address, its end"],
    ),
    rung(
        "matrix",
        30,
        tensors::matrix,
        &["`DEBUG=7 doorbell bringup --from matrix --to matrix` shows the instructions"],
    ),
    rung(
        "training",
        60,
        tensors::training,
        &["`doorbell bench all` and `DEBUG=2 doorbell demo` show which kernel it is"],
    ),
];

/// Of packets for AMD GPUs, whatever they do.
const RECORDED: &str = "`--recorded waits`, `writes`, `copies`, `barriers`, one at a time or all (`--recorded`): packets as of a driver \
     that has run on cards; what helps is what this card does not like of ours";

/// Of every rung.
const LOGGED: &str = "the same with `RUST_LOG=debug` shows each submission";

/// Of every rung of hardware.
const SIMULATED: &str = "the same on a simulated device (DEV=TWINKFD+AMD::gfx1100, TWINPCI+AMD::gfx1201, TWINNVK+NV::sm_90) \
     shows what it should look like";

/// What a ladder stands against.
#[derive(Clone, Copy)]
pub struct Wall {
    /// Packets are those of AMD GPUs.
    pub amd: bool,
    /// It is none of hardware.
    pub simulated: bool,
}

/// How long a rung may take.
#[derive(Clone, Copy)]
pub struct Times {
    given: Option<Duration>,
    factor: u32,
    /// Beyond the waits: compiling, starting a card.
    beside: Duration,
}

impl Times {
    /// With so much for each wait, if it is given.
    pub fn new(given: Option<Duration>, simulated: bool) -> Times {
        Times {
            given,
            factor: if simulated { 60 } else { 1 },
            beside: Duration::from_secs(300),
        }
    }

    /// Of each wait of a rung.
    fn wait(self, rung: &Rung) -> Duration {
        let usual = Duration::from_secs(rung.seconds) * self.factor;
        self.given.unwrap_or(usual)
    }

    /// Of a rung, with whatever does not look at deadlines.
    fn whole(self, wait: Duration) -> Duration {
        wait * 10 + self.beside
    }
}

/// A rung that has ended.
pub struct Step<'a> {
    /// Which one.
    pub rung: &'a Rung,
    /// What each wait might take.
    pub limit: Duration,
    /// What it took.
    pub took: Duration,
    outcome: Result<Outcome, Error>,
}

impl Step<'_> {
    /// In a word.
    pub fn status(&self) -> &'static str {
        match self.outcome {
            Ok(Outcome::Passed(_)) => "passed",
            Ok(Outcome::Skipped(_)) => "skipped",
            Err(_) => "failed",
        }
    }

    /// What was seen, or why there is nothing to see.
    pub fn evidence(&self) -> Vec<String> {
        match &self.outcome {
            Ok(Outcome::Passed(seen)) => seen.clone(),
            Ok(Outcome::Skipped(why)) => vec![why.clone()],
            Err(_) => Vec::new(),
        }
    }

    /// Why it failed.
    pub fn error(&self) -> Option<&Error> {
        self.outcome.as_ref().err()
    }

    /// What to try if it failed.
    pub fn next(&self, wall: Wall) -> Vec<String> {
        let fix = match &self.outcome {
            Ok(_) => return Vec::new(),
            Err(Error::Unusable { fix, .. }) if !fix.is_empty() => Some(fix.clone()),
            Err(_) => None,
        };
        // Before there is a queue there are no packets.
        let packets = wall.amd && !["probe", "map"].contains(&self.rung.name);
        let recorded = packets.then_some(&RECORDED);
        let simulated = (!wall.simulated).then_some(&SIMULATED);
        let hints = self.rung.hints.iter().chain(recorded);
        let hints = hints.chain([&LOGGED]).chain(simulated);
        fix.into_iter()
            .chain(hints.map(ToString::to_string))
            .collect()
    }
}

/// What the thread that climbs has to tell.
enum News {
    Ended(Result<Outcome, Error>, Duration),
    /// The device is closed.
    Closed(Result<(), Error>),
}

/// Climbs these rungs up to the first that fails, of which `tell` is told as of those before; the error says which it
/// was. One that does not come back is left where it is.
pub fn climb(
    setup: &Setup,
    rungs: &'static [Rung],
    times: Times,
    mut tell: impl FnMut(&Step<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let (send, receive) = channel();
    let waits = || rungs.iter().map(|rung| times.wait(rung));
    let mut climb = Climb::new(setup.clone(), waits().min().unwrap_or_default());
    let thread = thread::Builder::new().name("ladder".into());
    let started = thread.spawn(move || {
        for rung in rungs {
            climb.limit = times.wait(rung);
            let start = Instant::now();
            let outcome = (rung.climb)(&mut climb).and_then(|outcome| {
                climb.setup.check_rules()?;
                Ok(outcome)
            });
            let failed = outcome.is_err();
            let outcome = outcome.map_err(|error| climb.kept(rung.name, error));
            if send.send(News::Ended(outcome, start.elapsed())).is_err() || failed {
                break;
            }
        }
        let setup = climb.setup.clone();
        drop(climb);
        // Whoever waited has gone, if it does not arrive.
        let _ = send.send(News::Closed(setup.check_rules().map_err(Error::from)));
    });
    started.map_err(|source| Error::File {
        path: "thread".into(),
        source,
    })?;

    let mut failed = None;
    for rung in rungs {
        let limit = times.wait(rung);
        let start = Instant::now();
        let (outcome, took) = match news(&receive, times.whole(limit)) {
            Ok(News::Ended(outcome, took)) => (outcome, took),
            Ok(News::Closed(closed)) => (
                closed.and(Err(Error::Stuck { after: None })),
                start.elapsed(),
            ),
            Err(stuck) => (Err(stuck), start.elapsed()),
        };
        let step = Step {
            rung,
            limit,
            took,
            outcome,
        };
        tell(&step)?;
        if let Err(error) = step.outcome {
            failed = Some((rung, error));
            break;
        }
    }
    let longest = waits().max();
    let closed = match &failed {
        // Its thread stays where it is.
        Some((_, Error::Stuck { .. })) => Ok(()),
        _ => match news(&receive, times.whole(longest.unwrap_or_default())) {
            Ok(News::Closed(closed)) => closed,
            Ok(News::Ended(..)) => Ok(()),
            Err(stuck) => Err(stuck),
        },
    };
    let at = |name, error: Error| Error::Rung {
        name,
        code: error.exit_code(),
    };
    match failed {
        Some((rung, error)) => Err(at(rung.name, error)),
        None => closed,
    }
}

fn news(receive: &Receiver<News>, limit: Duration) -> Result<News, Error> {
    receive.recv_timeout(limit).map_err(|e| Error::Stuck {
        after: (e == RecvTimeoutError::Timeout).then_some(limit),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(_: &mut Climb) -> Result<Outcome, Error> {
        Ok(Outcome::Passed(vec!["seen".into()]))
    }

    fn fails(_: &mut Climb) -> Result<Outcome, Error> {
        Err(Error::Check("wrong".into()))
    }

    fn hangs(_: &mut Climb) -> Result<Outcome, Error> {
        loop {
            thread::park();
        }
    }

    fn panics(_: &mut Climb) -> Result<Outcome, Error> {
        panic!("in a rung")
    }

    fn statuses(rungs: &'static [Rung], times: Times) -> (Vec<&'static str>, Error) {
        let setup = Setup::of("CPU").unwrap();
        let mut all = Vec::new();
        let outcome = climb(&setup, rungs, times, |step| {
            all.push(step.status());
            Ok(())
        });
        (all, outcome.unwrap_err())
    }

    #[test]
    fn the_first_that_fails_is_the_last() {
        static RUNGS: [Rung; 3] = [
            rung("a", 1, passes, &[]),
            rung("b", 1, fails, &["look"]),
            rung("c", 1, passes, &[]),
        ];
        let (all, error) = statuses(&RUNGS, Times::new(None, false));
        assert_eq!(all, ["passed", "failed"]);
        assert!(
            matches!(error, Error::Rung { name: "b", code: 1 }),
            "{error}"
        );
    }

    #[test]
    fn one_that_does_not_come_back_is_left() {
        static HANGS: [Rung; 1] = [rung("a", 3600, hangs, &[])];
        let times = Times {
            given: Some(Duration::from_millis(10)),
            factor: 1,
            beside: Duration::ZERO,
        };
        static PANICS: [Rung; 1] = [rung("a", 1, panics, &[])];
        for (rungs, times) in [(&HANGS, times), (&PANICS, Times::new(None, false))] {
            let (all, error) = statuses(rungs, times);
            assert_eq!(all, ["failed"]);
            assert!(
                matches!(error, Error::Rung { name: "a", code: 5 }),
                "{error}"
            );
        }
    }

    #[test]
    fn simulated_devices_have_more_time_unless_it_is_given() {
        let ring = RUNGS.iter().find(|rung| rung.name == "ring").unwrap();
        let seconds = |given, simulated| Times::new(given, simulated).wait(ring).as_secs();
        assert_eq!((seconds(None, false), seconds(None, true)), (5, 300));
        assert_eq!(seconds(Some(Duration::from_secs(7)), true), 7);
    }
}
