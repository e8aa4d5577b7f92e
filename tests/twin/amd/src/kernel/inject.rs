//! Faults that the config asks for: which call fails, which queue hangs.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use hcq::sync::lock;
use twin::config::is_below;

use crate::config::Fault;

use super::errno::{Errno, Result};

/// What can be counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Point {
    Ioctl(&'static str),
    Mmap,
    Open,
    Queue,
    Event,
}

/// Counts calls, and says which of them fail.
pub struct Injector {
    faults: Vec<Fault>,
    counts: Mutex<BTreeMap<Point, u32>>,
    fired: AtomicU32,
}

impl Injector {
    /// With these faults.
    pub fn new(faults: Vec<Fault>) -> Self {
        Self {
            faults,
            counts: Mutex::default(),
            fired: AtomicU32::new(0),
        }
    }

    /// Counts from 1.
    fn count(&self, point: Point) -> u32 {
        if self.faults.is_empty() {
            return 0;
        }
        let mut counts = lock(&self.counts);
        let count = counts.entry(point).or_default();
        *count += 1;
        *count
    }

    fn fail(&self, point: Point) -> Result {
        let count = self.count(point);
        for fault in &self.faults {
            let (at, errno, nth): (_, Errno, _) = match *fault {
                Fault::Ioctl { name, errno, nth } => (Point::Ioctl(name), errno, nth),
                Fault::Mmap { errno, nth } => (Point::Mmap, errno, nth),
                Fault::Open { errno, nth } => (Point::Open, errno, nth),
                _ => continue,
            };
            if at == point && nth == count {
                self.fired.fetch_add(1, Ordering::Relaxed);
                return Err(errno);
            }
        }
        Ok(())
    }

    /// How many calls have failed because they were asked to.
    pub fn fired(&self) -> u32 {
        self.fired.load(Ordering::Relaxed)
    }

    /// A call of the ioctl of that name.
    pub fn ioctl(&self, name: &'static str) -> Result {
        self.fail(Point::Ioctl(name))
    }

    /// A call of mmap.
    pub fn mmap(&self) -> Result {
        self.fail(Point::Mmap)
    }

    /// A call of open.
    pub fn open(&self) -> Result {
        self.fail(Point::Open)
    }

    /// What is wrong with a path (without links).
    pub fn path(&self, path: &str) -> Option<Errno> {
        self.faults.iter().find_map(|fault| match fault {
            Fault::Path { path: at, errno } => is_below(path, at).then_some(*errno),
            _ => None,
        })
    }

    /// An interrupt: whether it is lost.
    pub fn event_lost(&self) -> bool {
        let count = self.count(Point::Event);
        self.faults
            .iter()
            .any(|fault| matches!(fault, Fault::EventLost { nth } if *nth == count))
    }

    /// A new queue: what goes wrong with it.
    pub fn queue(&self) -> Vec<Fault> {
        let number = self.count(Point::Queue).wrapping_sub(1);
        let of_queue = |fault: &&Fault| match fault {
            Fault::Hang { queue }
            | Fault::Memory { queue, .. }
            | Fault::Reset { queue }
            | Fault::Poison { queue }
            | Fault::Gone { queue } => *queue == number,
            _ => false,
        };
        self.faults.iter().filter(of_queue).cloned().collect()
    }
}
