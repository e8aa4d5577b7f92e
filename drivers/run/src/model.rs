//! A model on a device.

use std::sync::Arc;
use std::time::Duration;

use hcq::mem::view::View;
use hcq::{Buffer, Deadline, Device};

use crate::bundle::ModelBundle;
use crate::error::{Error, Result};
use crate::load::{self, Loaded};
use crate::plan::Port;
use crate::ports::{named, sized};

/// A loaded bundle: code, weights and commands are on the device.
pub struct Model {
    bundle: ModelBundle,
    target: usize,
    device: Arc<dyn Device>,
    loaded: Loaded,
    /// A run may be under way.
    busy: bool,
    timeout: Duration,
}

impl Model {
    /// Loads target `n` of a bundle onto a device. `timeout` limits how long the device may make no progress.
    ///
    /// # Errors
    /// A damaged file; a target that is not there; the device's.
    pub fn load(
        bundle: &ModelBundle,
        n: usize,
        device: Arc<dyn Device>,
        timeout: Duration,
    ) -> Result<Model> {
        if bundle.targets().get(n).is_none() {
            return Err(Error::NoCode {
                file: bundle.name().into(),
                asked: format!("target {n}"),
                has: format!("{} targets", bundle.targets().len()),
                fix: "DEVICE once more, or load one that is there".into(),
            });
        }
        let loaded = load::load(bundle, n, &device, timeout)?;
        let mut model = Model {
            bundle: bundle.clone(),
            target: n,
            device,
            loaded,
            busy: false,
            timeout,
        };
        model.reset()?;
        // Inputs that are never written are zeros, not what was there before.
        for buffer in &model.loaded.inputs {
            zero(buffer)?;
        }
        Ok(model)
    }

    /// The bundle.
    pub fn bundle(&self) -> &ModelBundle {
        &self.bundle
    }

    /// The number of the target whose code it runs.
    pub fn target(&self) -> usize {
        self.target
    }

    /// Where it runs.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Bytes of device memory that it holds, but for code.
    pub fn memory(&self) -> u64 {
        self.loaded.bytes
    }

    /// Sets all states to their first values.
    ///
    /// # Errors
    /// [`Error::Busy`]; the device's.
    pub fn reset(&mut self) -> Result<()> {
        self.settle()?;
        let Loaded { states, firsts, .. } = &self.loaded;
        for (buffer, first) in states.iter().zip(firsts) {
            match first {
                None => zero(buffer)?,
                Some(bytes) => buffer.write(0, bytes)?,
            }
        }
        Ok(())
    }

    /// No run is under way, or it is refused: the device may touch the memory.
    fn settle(&mut self) -> Result<()> {
        if self.busy && !self.loaded.graph.is_over()? {
            return Err(Error::Busy {
                device: self.device.info().id.to_string(),
            });
        }
        self.busy = false;
        Ok(())
    }

    fn states(&self) -> impl Iterator<Item = &Port> + Clone {
        self.bundle.states().iter().map(|state| &state.port)
    }

    /// Whether an input has so many bytes, for who has an address alone.
    ///
    /// # Errors
    /// An input that the model does not have, or of another size.
    pub fn check_input(&self, name: &str, bytes: usize) -> Result<()> {
        sized(self.bundle.inputs().iter(), "input", name, bytes).map(drop)
    }

    /// The same of an output.
    ///
    /// # Errors
    /// As [`Model::check_input`].
    pub fn check_output(&self, name: &str, bytes: usize) -> Result<()> {
        sized(self.bundle.outputs().iter(), "output", name, bytes).map(drop)
    }

    /// The same of a state.
    ///
    /// # Errors
    /// As [`Model::check_input`].
    pub fn check_state(&self, name: &str, bytes: usize) -> Result<()> {
        sized(self.states(), "state", name, bytes).map(drop)
    }

    /// Copies the value of an input.
    ///
    /// # Errors
    /// An input that the model does not have, or of another size; [`Error::Busy`]; the device's.
    pub fn write_input(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.settle()?;
        let n = sized(self.bundle.inputs().iter(), "input", name, bytes.len())?;
        Ok(self.loaded.inputs[n].write(0, bytes)?)
    }

    /// Copies the value of an output of the last run.
    ///
    /// # Errors
    /// As [`Model::write_input`].
    pub fn read_output(&mut self, name: &str, into: &mut [u8]) -> Result<()> {
        self.settle()?;
        let n = sized(self.bundle.outputs().iter(), "output", name, into.len())?;
        Ok(self.loaded.outputs[n].read(0, into)?)
    }

    /// Sets the value of a state.
    ///
    /// # Errors
    /// As [`Model::write_input`].
    pub fn write_state(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.settle()?;
        let n = sized(self.states(), "state", name, bytes.len())?;
        Ok(self.loaded.states[n].write(0, bytes)?)
    }

    /// Copies the value of a state.
    ///
    /// # Errors
    /// As [`Model::write_input`].
    pub fn read_state(&mut self, name: &str, into: &mut [u8]) -> Result<()> {
        self.settle()?;
        let n = sized(self.states(), "state", name, into.len())?;
        Ok(self.loaded.states[n].read(0, into)?)
    }

    /// The memory of an input, to write it without a copy. The device reads it during a run.
    ///
    /// # Errors
    /// An input that the model does not have; memory that the host cannot map.
    pub fn input_memory(&self, name: &str) -> Result<View> {
        let (n, _) = named(self.bundle.inputs().iter(), "input", name)?;
        Ok(self.loaded.inputs[n].view()?)
    }

    /// The memory of an output, to read it without a copy. The device writes it during a run.
    ///
    /// # Errors
    /// As [`Model::input_memory`].
    pub fn output_memory(&self, name: &str) -> Result<View> {
        let (n, _) = named(self.bundle.outputs().iter(), "output", name)?;
        Ok(self.loaded.outputs[n].view()?)
    }

    /// Runs the model once and waits for it: one submission. All of it, the end of a late run before it as well, may take
    /// `limit` at most.
    ///
    /// # Errors
    /// [`Error::Late`], where the run goes on; the loss of the device.
    pub fn run(&mut self, limit: Duration) -> Result<()> {
        let deadline = self.deadline(limit);
        self.start_by(deadline, limit)?;
        self.wait_by(deadline, limit)
    }

    /// Submits a run, after the one before is over, for which it waits for `limit` at most.
    ///
    /// # Errors
    /// As [`Model::run`].
    pub fn start(&mut self, limit: Duration) -> Result<()> {
        self.start_by(self.deadline(limit), limit)
    }

    fn start_by(&mut self, deadline: Deadline, limit: Duration) -> Result<()> {
        let started = self.loaded.graph.replay(&[], &[], deadline).map(drop);
        started.map_err(|e| self.late(limit, e))?;
        self.busy = true;
        Ok(())
    }

    /// Waits for the last run, for `limit` at most.
    ///
    /// # Errors
    /// As [`Model::run`].
    pub fn wait(&mut self, limit: Duration) -> Result<()> {
        self.wait_by(self.deadline(limit), limit)
    }

    fn wait_by(&mut self, deadline: Deadline, limit: Duration) -> Result<()> {
        let over = self.loaded.graph.wait(deadline);
        over.map_err(|e| self.late(limit, e))?;
        self.busy = false;
        Ok(())
    }

    /// For a run of at most `limit`. Whether the device makes progress is of interest after the device's own timeout alone: a
    /// short wait that looked at the queue for it would take time, and on GPUs memory.
    fn deadline(&self, limit: Duration) -> Deadline {
        Deadline::after(limit.max(self.timeout)).within(limit)
    }

    fn late(&self, limit: Duration, error: hcq::Error) -> Error {
        match error {
            source @ hcq::Error::Timeout { .. } => Error::Late {
                device: self.device.info().id.to_string(),
                limit,
                source: Box::new(source),
            },
            other => other.into(),
        }
    }
}

impl Drop for Model {
    /// The device may still write to what the host has a view of: it waits for a run that is under way, for as long as the device may
    /// make no progress.
    fn drop(&mut self) {
        if self.busy {
            // Its error is that of the run, which has been told or is lost with the model.
            let _ = self.loaded.graph.wait(Deadline::after(self.timeout));
        }
    }
}

fn zero(buffer: &Buffer) -> Result<()> {
    const ZEROS: [u8; 4096] = [0; 4096];
    let mut at = 0;
    while at < buffer.bytes() {
        let n = (buffer.bytes() - at).min(ZEROS.len() as u64);
        buffer.write(at, &ZEROS[..n as usize])?;
        at += n;
    }
    Ok(())
}
