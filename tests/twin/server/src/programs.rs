//! Programs stand still while engines move and are recorded: what changes in memory then is what devices write.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Processes, by their numbers in a record.
#[derive(Default)]
pub struct Programs {
    all: BTreeMap<u32, Pid>,
    /// Since when they stand still.
    since: Option<Instant>,
    /// One could not be stopped: that is not tried again.
    restless: bool,
}

/// How long the system may take to stop a program.
const STOPS: Duration = Duration::from_secs(2);
/// How long engines may move before programs have a turn, and how long that is.
const TURN: Duration = Duration::from_millis(20);
const MOMENT: Duration = Duration::from_micros(200);

impl Programs {
    /// One more.
    pub fn begin(&mut self, number: u32, pid: u32) {
        self.all.insert(number, Pid::from_raw(pid as i32));
    }

    /// One less.
    pub fn end(&mut self, number: u32) {
        self.all.remove(&number);
    }

    /// Whether they stand still.
    pub fn are_still(&self) -> bool {
        self.since.is_some()
    }

    /// Whether they have stood still for so long that it is their turn.
    pub fn are_due(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() > TURN)
    }

    /// Stops them, and waits until they stand still. Where one does not, all go on.
    pub fn stop(&mut self) {
        if self.restless {
            return;
        }
        // One that has gone has done all that it will.
        let stopped = |pid: &&Pid| kill(**pid, Signal::SIGSTOP).is_ok();
        let all: Vec<Pid> = self.all.values().filter(stopped).copied().collect();
        let end = Instant::now() + STOPS;
        let all_still = all.iter().all(|pid| {
            while !is_still(*pid) {
                if Instant::now() > end {
                    return false;
                }
                thread::yield_now();
            }
            true
        });
        self.since = all_still.then(Instant::now);
        if !all_still {
            self.restless = true;
            self.go_on();
        }
    }

    /// Lets them go on.
    pub fn go_on(&mut self) {
        for pid in self.all.values() {
            // It may have gone.
            let _ = kill(*pid, Signal::SIGCONT);
        }
        self.since = None;
    }

    /// Lets them go on for a moment.
    pub fn have_a_turn(&mut self) {
        self.go_on();
        thread::sleep(MOMENT);
        self.stop();
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        self.go_on();
    }
}

/// Whether every thread of a process has stopped, or has gone.
fn is_still(pid: Pid) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return true;
    };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // Behind the name, which is in brackets and may have some.
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0]);
        state.is_none_or(|state| b"TtZXx".contains(&state))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn programs_stand_still_until_they_may_go_on() {
        let mut sleeping = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = Pid::from_raw(sleeping.id() as i32);
        let mut programs = Programs::default();
        programs.begin(1, sleeping.id());
        assert!(!programs.are_still() && !is_still(pid));
        programs.stop();
        assert!(programs.are_still() && is_still(pid));
        programs.have_a_turn();
        assert!(programs.are_still() && is_still(pid));
        programs.go_on();
        assert!(!programs.are_still() && !programs.are_due());
        sleeping.kill().unwrap();
        sleeping.wait().unwrap();
        // One that has gone stands still.
        programs.stop();
        assert!(programs.are_still());
    }
}
