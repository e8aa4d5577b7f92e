//! The steps of bring-up, run one by one with time limits.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::Setup;

use super::climb::{Climb, Outcome};
use super::{kernels, probe, queues, tensors};
use crate::program::error::Error;

/// One step.
pub struct Step {
    /// Its name.
    pub name: &'static str,
    /// Seconds that a wait for the device may take: of hardware, generously.
    seconds: u64,
    climb: fn(&mut Climb) -> Result<Outcome, Error>,
    /// What to try if it fails, likeliest first.
    hints: &'static [&'static str],
}

pub(super) const fn step(
    name: &'static str,
    seconds: u64,
    climb: fn(&mut Climb) -> Result<Outcome, Error>,
    hints: &'static [&'static str],
) -> Step {
    Step {
        name,
        seconds,
        climb,
        hints,
    }
}

/// In order.
pub const STEPS: [Step; 13] = [
    step(
        "probe",
        5,
        probe::probe,
        &["run `doorbell doctor`: it checks everything the device needs"],
    ),
    step(
        "map",
        30,
        queues::map,
        &[
            "`doorbell doctor` prints what is missing, `sudo dmesg | tail -n 50` the messages of the kernel",
            "AMD GPUs without the kernel driver: look up the stage in drivers/amd/README.md (behind a USB \
             bridge: drivers/asm24/README.md); `AMD_RESET=1` resets the card first",
        ],
    ),
    step(
        "ring",
        5,
        queues::ring,
        &[
            "the doorbell does not reach the queue, or the queue does not fetch from its ring: `sudo \
             dmesg | tail -n 50`",
            "without the kernel driver: `doorbell regs read CP_HQD_PQ_RPTR`, `CP_HQD_PQ_WPTR_LO`, `CP_HQD_ACTIVE`",
        ],
    ),
    step(
        "signal",
        5,
        queues::signal,
        &[
            "the completion signal is written late, partly or to another address: inspect the first \
             submission with RUST_LOG=trace",
        ],
    ),
    step(
        "wait",
        5,
        queues::wait,
        &[
            "the queue does not see host writes, or the interrupt does not wake the host: check \
             /proc/interrupts",
        ],
    ),
    step(
        "copy",
        10,
        queues::copy,
        &[
            "copies use a separate engine; earlier steps tested only the compute engine: `sudo dmesg | \
             tail -n 50`",
        ],
    ),
    step(
        "kernel",
        10,
        kernels::kernel,
        &[
            "`DEBUG=7 doorbell bringup --from kernel --to kernel` prints the machine code and its target chip",
        ],
    ),
    step(
        "local",
        10,
        kernels::local,
        &["local memory or barriers: check the local memory size of the launch"],
    ),
    step(
        "scratch",
        10,
        kernels::scratch,
        &["private memory of waves: its size and address are set at the first launch"],
    ),
    step(
        "queues",
        10,
        queues::two,
        &["each queue works alone, but one does not see the writes of the other"],
    ),
    step(
        "graph",
        10,
        queues::graph,
        &["an indirect buffer runs packets in device memory: check its address and end"],
    ),
    step(
        "matrix",
        30,
        tensors::matrix,
        &["`DEBUG=7 doorbell bringup --from matrix --to matrix` prints the instructions"],
    ),
    step(
        "training",
        60,
        tensors::training,
        &["`doorbell bench all` and `DEBUG=2 doorbell demo` help to find the failing kernel"],
    ),
];

/// Of packets for AMD GPUs, whatever they do.
const RECORDED: &str = "`--recorded waits`, `writes`, `copies`, `barriers`, one at a time or all \
                        (`--recorded`): encodes packets like a driver proven on hardware; an option \
                        that helps points to the packet at fault";

/// Of every step.
const LOGGED: &str = "`RUST_LOG=debug` logs each submission";

/// Of every step of hardware.
const SIMULATED: &str = "compare with a run on a simulated device (DEV=TWINKFD+AMD::gfx1100, \
                         TWINPCI+AMD::gfx1201, TWINNVK+NV::sm_90)";

/// The kind of device, for hints.
#[derive(Clone, Copy)]
pub struct Wall {
    /// Packets are those of AMD GPUs.
    pub amd: bool,
    /// It is simulated.
    pub simulated: bool,
}

/// How long a step may take.
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

    /// Of each wait of a step.
    fn wait(self, step: &Step) -> Duration {
        let usual = Duration::from_secs(step.seconds) * self.factor;
        self.given.unwrap_or(usual)
    }

    /// Of a step, with whatever does not look at deadlines.
    fn whole(self, wait: Duration) -> Duration {
        wait * 10 + self.beside
    }
}

/// A step that has ended.
pub struct StepResult<'a> {
    /// Which one.
    pub step: &'a Step,
    /// What each wait might take.
    pub limit: Duration,
    /// What it took.
    pub took: Duration,
    outcome: Result<Outcome, Error>,
}

impl StepResult<'_> {
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
        let packets = wall.amd && !["probe", "map"].contains(&self.step.name);
        let recorded = packets.then_some(&RECORDED);
        let simulated = (!wall.simulated).then_some(&SIMULATED);
        let hints = self.step.hints.iter().chain(recorded);
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

/// Runs these steps up to the first that fails. Each result goes to `tell`; the error names the failed step. A step
/// that
/// does not return is abandoned.
pub fn climb(
    setup: &Setup,
    steps: &'static [Step],
    times: Times,
    mut tell: impl FnMut(&StepResult<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let (send, receive) = channel();
    let waits = || steps.iter().map(|step| times.wait(step));
    let mut climb = Climb::new(setup.clone(), waits().min().unwrap_or_default());
    let thread = thread::Builder::new().name("bringup".into());
    let started = thread.spawn(move || {
        for step in steps {
            climb.limit = times.wait(step);
            let start = Instant::now();
            let outcome = (step.climb)(&mut climb).and_then(|outcome| {
                climb.setup.check_rules()?;
                Ok(outcome)
            });
            let failed = outcome.is_err();
            let outcome = outcome.map_err(|error| climb.kept(step.name, error));
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
    for step in steps {
        let limit = times.wait(step);
        let start = Instant::now();
        let (outcome, took) = match news(&receive, times.whole(limit)) {
            Ok(News::Ended(outcome, took)) => (outcome, took),
            Ok(News::Closed(closed)) => (
                closed.and(Err(Error::Stuck { after: None })),
                start.elapsed(),
            ),
            Err(stuck) => (Err(stuck), start.elapsed()),
        };
        let result = StepResult {
            step,
            limit,
            took,
            outcome,
        };
        tell(&result)?;
        if let Err(error) = result.outcome {
            failed = Some((step, error));
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
    let at = |name, error: Error| Error::Step {
        name,
        code: error.exit_code(),
    };
    match failed {
        Some((step, error)) => Err(at(step.name, error)),
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
        panic!("in a step")
    }

    fn statuses(steps: &'static [Step], times: Times) -> (Vec<&'static str>, Error) {
        let setup = Setup::of("CPU").unwrap();
        let mut all = Vec::new();
        let outcome = climb(&setup, steps, times, |result| {
            all.push(result.status());
            Ok(())
        });
        (all, outcome.unwrap_err())
    }

    #[test]
    fn the_first_that_fails_is_the_last() {
        static STEPS: [Step; 3] = [
            step("a", 1, passes, &[]),
            step("b", 1, fails, &["look"]),
            step("c", 1, passes, &[]),
        ];
        let (all, error) = statuses(&STEPS, Times::new(None, false));
        assert_eq!(all, ["passed", "failed"]);
        assert!(
            matches!(error, Error::Step { name: "b", code: 1 }),
            "{error}"
        );
    }

    #[test]
    fn one_that_does_not_come_back_is_left() {
        static HANGS: [Step; 1] = [step("a", 3600, hangs, &[])];
        let times = Times {
            given: Some(Duration::from_millis(10)),
            factor: 1,
            beside: Duration::ZERO,
        };
        static PANICS: [Step; 1] = [step("a", 1, panics, &[])];
        for (steps, times) in [(&HANGS, times), (&PANICS, Times::new(None, false))] {
            let (all, error) = statuses(steps, times);
            assert_eq!(all, ["failed"]);
            assert!(
                matches!(error, Error::Step { name: "a", code: 5 }),
                "{error}"
            );
        }
    }

    #[test]
    fn simulated_devices_have_more_time_unless_it_is_given() {
        let ring = STEPS.iter().find(|step| step.name == "ring").unwrap();
        let seconds = |given, simulated| Times::new(given, simulated).wait(ring).as_secs();
        assert_eq!((seconds(None, false), seconds(None, true)), (5, 300));
        assert_eq!(seconds(Some(Duration::from_secs(7)), true), 7);
    }
}
