//! [`Meters`]: gauges and users of GPUs. Does no compute and locks nobody out; opening a suspended GPU wakes it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drivers_spec::nv::shared;
use hcq::transport::{DevFile, Machine};

use super::base::Base;
use super::session::Session;
use super::survey::{self, Unusable};
use crate::rm::meters::Meter;
pub use crate::rm::meters::Reading;

/// How long the first measurement may take: an interval, and as much again for a processor that is busy.
const FIRST: Duration = Duration::from_millis(2 * shared::LONGEST_INTERVAL_MS);

/// Between two looks at whether it is there.
const LOOK: Duration = Duration::from_millis(5);

/// How long the blocks of one measurement are apart.
const TOGETHER: Duration = Duration::from_millis(20);

/// All GPUs of a machine, to be read again and again.
pub struct Meters {
    /// Each with its file, which stays open.
    all: Vec<(Meter, Arc<dyn DevFile>)>,
    /// GPUs that cannot be asked, and why.
    pub without: Vec<(String, Unusable)>,
}

impl Meters {
    /// Opens the query objects of all GPUs of RM and starts measuring. Returns with the first measurement, or after
    /// two seconds without one.
    ///
    /// # Errors
    /// [`Unusable`]: the driver cannot be asked.
    pub fn new(machine: &dyn Machine) -> Result<Meters, Unusable> {
        let control = survey::control(machine)?;
        let driver = survey::driver(machine, &*control)?;
        let session = Session::new(machine, false)?;
        let (mut all, mut without) = (Vec::new(), Vec::new());
        for found in survey::gpus(&*control, driver.branch)? {
            match Base::new(machine, &session, &found) {
                Err(why) => without.push((found.place, why)),
                Ok(Base { rm, file }) => {
                    let meter = Meter::new(machine, rm, found.place, driver.known);
                    all.push((meter, file));
                }
            }
        }
        let end = Instant::now() + FIRST;
        let waits = |(meter, _): &(Meter, _)| meter.is_fresh() == Some(false);
        while all.iter().any(waits) && Instant::now() < end {
            std::thread::sleep(LOOK);
        }
        if all.iter().any(|(meter, _)| meter.is_fresh().is_some()) {
            std::thread::sleep(TOGETHER);
        }
        Ok(Meters { all, without })
    }

    /// The current values.
    pub fn read(&self) -> Vec<Reading> {
        self.all.iter().map(|(meter, _)| meter.read()).collect()
    }
}
