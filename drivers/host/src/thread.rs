//! [`Thread`]: the system's view of a thread of this process.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;

use nix::libc::clockid_t;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::time::{ClockId, clock_gettime};

/// A thread of this process, by the system's number. Numbers of threads that have ended are given again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thread(i32);

impl Thread {
    /// The one that asks.
    pub fn current() -> Thread {
        Thread(nix::unistd::gettid().as_raw())
    }

    /// By its number.
    pub const fn from_raw(number: i32) -> Thread {
        Thread(number)
    }

    /// Its number.
    pub const fn raw(self) -> i32 {
        self.0
    }

    /// Nanoseconds for which it has had a processor. None for a thread that has ended.
    pub fn processor_ns(self) -> Option<u64> {
        // Linux, include/linux/posix-timers_types.h: the complement of the number, above CPUCLOCK_PERTHREAD_MASK (4) and
        // CPUCLOCK_SCHED (2).
        let clock = ClockId::from_raw((!self.0 << 3 | 4 | 2) as clockid_t);
        let time = clock_gettime(clock).ok()?;
        Some(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
    }

    /// Whether it has a processor now, or only lacks one. Not known where there is no `/proc`.
    pub fn is_runnable(self) -> Option<bool> {
        // Without memory of its own: waits of runs that must not allocate ask.
        let (mut path, mut stat) = ([0; 48], [0; 256]);
        let room = path.len();
        let mut rest = &mut path[..];
        write!(rest, "/proc/self/task/{}/stat", self.0).ok()?;
        let length = room - rest.len();
        let mut file = File::open(OsStr::from_bytes(&path[..length])).ok()?;
        let read = file.read(&mut stat).ok()?;
        // The name before it has 64 bytes at most, and may hold anything, parentheses as well.
        let stat = &stat[..read];
        let end = stat.iter().rposition(|&byte| byte == b')')?;
        let mut state = stat[end + 1..].iter().skip_while(|byte| **byte == b' ');
        Some(state.next() == Some(&b'R'))
    }
}

/// What helps where the system gives no more threads. It says the same (EAGAIN) where a thread's stack finds no addresses.
pub fn spawn_hint() -> &'static str {
    match getrlimit(Resource::RLIMIT_AS) {
        Ok((limit, _)) if limit != RLIM_INFINITY => {
            "Raise `ulimit -v` (RLIMIT_AS is set, and each thread has a stack of its own) or use fewer threads (CPU_COUNT); \
             otherwise raise `ulimit -u` or the pids limit of the container"
        }
        _ => {
            "Raise `ulimit -u` or the pids limit of the container, or use fewer threads (CPU_COUNT)"
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use nix::sys::resource::setrlimit;

    use super::*;

    #[test]
    fn a_limit_of_the_address_space_is_named_where_threads_do_not_start() {
        let (soft, hard) = getrlimit(Resource::RLIMIT_AS).unwrap();
        assert_eq!(spawn_hint().contains("ulimit -v"), soft != RLIM_INFINITY);
        assert!(spawn_hint().contains("ulimit -u"));
        // One that no test of this process is near.
        setrlimit(Resource::RLIMIT_AS, hard.min(1 << 46), hard).unwrap();
        let limited = spawn_hint();
        setrlimit(Resource::RLIMIT_AS, soft, hard).unwrap();
        assert!(limited.starts_with("Raise `ulimit -v`"), "{limited}");
    }

    #[test]
    fn a_thread_that_runs_is_told_from_one_that_waits() {
        let state = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let (send, receive) = mpsc::channel();
            let (go, gone) = mpsc::channel::<()>();
            let state = &state;
            scope.spawn(move || {
                send.send(Thread::current()).unwrap();
                while state.load(Ordering::Relaxed) == 0 {}
                // Until the sender is dropped.
                let _ = gone.recv();
            });
            let thread = receive.recv().unwrap();
            let start = thread.processor_ns().unwrap();
            assert_ne!(thread.is_runnable(), Some(false));
            while thread.processor_ns().unwrap() < start + 1_000_000 {
                std::thread::yield_now();
            }
            state.store(1, Ordering::Relaxed);
            // It comes to its wait at some time, and uses no processor from then on.
            let start = Instant::now();
            let stops = || {
                let before = thread.processor_ns();
                std::thread::sleep(Duration::from_millis(2));
                thread.is_runnable() == Some(false) && thread.processor_ns() == before
            };
            while !stops() {
                assert!(
                    start.elapsed() < Duration::from_secs(60),
                    "it does not stop"
                );
            }
            drop(go);
        });
        // The last that the system gives: nobody of this process has it.
        let none = Thread::from_raw((1 << 22) - 1);
        assert_eq!((none.processor_ns(), none.is_runnable()), (None, None));
        assert_eq!(Thread::current().is_runnable(), Some(true));
    }
}
