//! A model bundle: from the file to a device that is ready, and runs.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::Setup;
use doorbell_run::{Model, ModelBundle};

use super::{Row, SAMPLES, TIME, sample};
use crate::program::cmd::bundle::{once, placed};
use crate::program::error::Error;
use crate::program::output::say;

/// How long a run may take, unless HCQDEV_WAIT_TIMEOUT_MS is set.
const LIMIT: Duration = Duration::from_secs(600);

/// Rows of a bundle on the selected device, which is open already. A simulated device runs nothing: its time is the model's.
pub fn rows(path: &Path, setup: &Setup) -> Result<Vec<Row>, Error> {
    let open = || ModelBundle::open(path).map_err(crate::Error::from);
    let mut model = placed(&open()?, setup)?;
    let (device, target) = (model.device().clone(), model.target());
    let units = device.info().units as usize;
    let limit = setup.settings().wait_timeout;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let row = |what: &str, seconds: Vec<f64>| {
        let ms = seconds.iter().map(|s| s * 1e3).collect();
        Row::new(format!("{name} {what}"), units, "ms", ms)
    };
    let opened = || {
        open()?;
        Ok(())
    };
    let mut rows = vec![row("open", sample(opened)?)];
    let (mut times, begin) = (Vec::new(), Instant::now());
    while times.len() < 3 || (times.len() < SAMPLES && begin.elapsed() < TIME) {
        let start = Instant::now();
        let loaded = Model::load(&open()?, target, device.clone(), limit);
        times.push(start.elapsed().as_secs_f64());
        // What is loaded is given back outside of the time.
        drop(loaded.map_err(crate::Error::from)?);
    }
    rows.push(row("open and load", times));
    if setup.simulated().is_some() {
        say!("note: runs on a simulated device are not timed");
        return Ok(rows);
    }
    let most = setup.said_wait_timeout().unwrap_or(LIMIT);
    let run = || once(&mut model, most);
    rows.push(row("run", sample(run)?));
    Ok(rows)
}
