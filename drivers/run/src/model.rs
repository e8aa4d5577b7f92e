//! A model on a device.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hcq::mem::view::View;
use hcq::{Buffer, Deadline, Device};

use crate::bind::{self, End, Wanted};
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
    /// A submission failed of which the device may have a part.
    unsure: bool,
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
            unsure: false,
            timeout,
        };
        model.reset()?;
        // Inputs that are never written are zeros, not what was there before.
        for buffer in &model.loaded.ports.inputs {
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
        let Loaded { ports, firsts, .. } = &self.loaded;
        for (buffer, first) in ports.states.iter().zip(firsts) {
            match first {
                None => zero(buffer)?,
                Some(bytes) => buffer.write(0, bytes)?,
            }
        }
        Ok(())
    }

    /// No run is under way, or it is refused: the device may touch the memory.
    fn settle(&mut self) -> Result<()> {
        if self.unsure {
            self.device.status()?;
        }
        if self.busy && !self.loaded.graph.is_over()? {
            return Err(Error::Busy {
                device: self.device.info().id.to_string(),
            });
        }
        self.over()
    }

    /// The last run has ended.
    fn over(&mut self) -> Result<()> {
        match std::mem::take(&mut self.busy) {
            true => self.loaded.bindings.take_back(),
            false => Ok(()),
        }
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
        Ok(self.memory_of(End::Input(n), name)?.write(0, bytes)?)
    }

    /// Copies the value of an output of the last run.
    ///
    /// # Errors
    /// As [`Model::write_input`].
    pub fn read_output(&mut self, name: &str, into: &mut [u8]) -> Result<()> {
        self.settle()?;
        let n = sized(self.bundle.outputs().iter(), "output", name, into.len())?;
        Ok(self.memory_of(End::Output(n), name)?.read(0, into)?)
    }

    /// Sets the value of a state.
    ///
    /// # Errors
    /// As [`Model::write_input`].
    pub fn write_state(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.settle()?;
        let n = sized(self.states(), "state", name, bytes.len())?;
        Ok(self.loaded.ports.states[n].write(0, bytes)?)
    }

    /// Copies the value of a state.
    ///
    /// # Errors
    /// As [`Model::write_input`].
    pub fn read_state(&mut self, name: &str, into: &mut [u8]) -> Result<()> {
        self.settle()?;
        let n = sized(self.states(), "state", name, into.len())?;
        Ok(self.loaded.ports.states[n].read(0, into)?)
    }

    /// Uses memory in the place of an input's own, without a copy: what [`hcq::Device::import`] of
    /// [`Model::device`] has made of pages of the process, a dma-buf or memory of OpenCL; a buffer of that device;
    /// memory that is bound to an output of another model there. The first bytes of it are the input. Each later call
    /// costs as much as a check. Runs use it from the next one on; [`Model::write_input`], [`Model::read_output`] and
    /// views that are asked for later mean it at once.
    ///
    /// The model keeps the memory until other memory is bound and, after that, until no run uses it. Where
    /// [`Model::close`] fails, a run may go on to use it: who gives memory without a guard keeps it until the process
    /// ends then.
    ///
    /// The caller writes it, by whichever way, while no run is under way. Before each run, memory that the host has a
    /// mapping of (pages of the process) is cleaned out of the host's caches where the device does not see them. A
    /// dma-buf has none here: who writes or reads one by a mapping of their own does that between the two calls of
    /// `DMA_BUF_IOCTL_SYNC`. Memory of a camera or of OpenCL is complete before the run: nothing waits for it here.
    /// States have no memory of others: a queue takes a copy of its newest row.
    ///
    /// # Errors
    /// An input that the model does not have; [`Error::Port`] for memory of another device, that is too small, not at a
    /// multiple of 64 bytes, or that an output has; [`Error::Busy`]; the device's, when the commands are made anew for
    /// the first memory.
    pub fn bind_input(&mut self, name: &str, memory: &Buffer) -> Result<()> {
        let (n, _) = named(self.bundle.inputs().iter(), "input", name)?;
        self.bind(End::Input(n), name, Some(memory))
    }

    /// The same of an output, which a run writes there. It has whole lines of 64 bytes: the rest of its last line is not
    /// the caller's during a run. Neither an input nor another output may have a part of the memory, by whichever
    /// address: of memory that is imported twice, that is not found.
    ///
    /// # Errors
    /// As [`Model::bind_input`].
    pub fn bind_output(&mut self, name: &str, memory: &Buffer) -> Result<()> {
        let (n, _) = named(self.bundle.outputs().iter(), "output", name)?;
        self.bind(End::Output(n), name, Some(memory))
    }

    /// Uses an input's own memory again, with the value that it had.
    ///
    /// # Errors
    /// An input that the model does not have; [`Error::Busy`].
    pub fn unbind_input(&mut self, name: &str) -> Result<()> {
        let (n, _) = named(self.bundle.inputs().iter(), "input", name)?;
        self.bind(End::Input(n), name, None)
    }

    /// The same of an output.
    ///
    /// # Errors
    /// As [`Model::unbind_input`].
    pub fn unbind_output(&mut self, name: &str) -> Result<()> {
        let (n, _) = named(self.bundle.outputs().iter(), "output", name)?;
        self.bind(End::Output(n), name, None)
    }

    fn bind(&mut self, end: End, name: &str, memory: Option<&Buffer>) -> Result<()> {
        self.settle()?;
        let loaded = &self.loaded;
        let own = loaded.ports.own(end).ok_or_else(|| missing(end, name))?;
        let plan = &self.bundle.targets()[self.target];
        let part = match memory {
            None => None,
            Some(memory) => {
                let wanted = Wanted {
                    end,
                    name,
                    own,
                    is_overwritten: match end {
                        End::Input(n) => {
                            loaded.ports.is_in_place(end) && load::is_overwritten(plan, n)
                        }
                        End::Output(_) => false,
                    },
                };
                // Both what they have and what they may have again.
                let others = loaded.ports.all().flat_map(|other| {
                    let has = [
                        loaded.ports.own(other).cloned(),
                        loaded.bindings.memory(other),
                    ];
                    let port = match other {
                        End::Input(n) => self.bundle.inputs().get(n),
                        End::Output(n) => self.bundle.outputs().get(n),
                    };
                    let name = port.map_or("", |port| port.name.as_str());
                    let has = has.into_iter().flatten();
                    has.map(move |memory| (other, name, memory))
                });
                Some(bind::part(&wanted, &*self.device, memory, others)?)
            }
        };
        let own = own.va().0;
        self.loaded.bind(&plan.steps, (end, own), part)
    }

    /// What the host reads or writes of an input or output of the bundle.
    fn memory_of(&self, end: End, name: &str) -> Result<Buffer> {
        let found = self.loaded.memory(end);
        found.ok_or_else(|| missing(end, name))
    }

    /// The memory of an input, to write it without a copy. The device reads it during a run.
    ///
    /// # Errors
    /// An input that the model does not have; memory that the host cannot map.
    pub fn input_memory(&self, name: &str) -> Result<View> {
        let (n, _) = named(self.bundle.inputs().iter(), "input", name)?;
        Ok(self.memory_of(End::Input(n), name)?.view()?)
    }

    /// The memory of an output, to read it without a copy. The device writes it during a run.
    ///
    /// # Errors
    /// As [`Model::input_memory`].
    pub fn output_memory(&self, name: &str) -> Result<View> {
        let (n, _) = named(self.bundle.outputs().iter(), "output", name)?;
        Ok(self.memory_of(End::Output(n), name)?.view()?)
    }

    /// Runs the model once and waits for it: one submission. All of it, the end of a late run before it as well, may take
    /// `limit` at most. With a limit of 0, nobody waits: a run is submitted if the one before is over.
    ///
    /// # Errors
    /// [`Error::Waiting`], where the run before goes on and this one was not submitted; [`Error::Late`], where it goes on;
    /// [`Error::Overdue`], where it has ended behind the limit; the loss of the device.
    pub fn run(&mut self, limit: Duration) -> Result<()> {
        let begin = Instant::now();
        let deadline = self.deadline(limit);
        self.start_by(deadline, limit)?;
        self.wait_by(deadline, limit)?;
        self.in_time(begin, limit)
    }

    /// Submits a run, after the one before is over, for which it waits for `limit` at most.
    ///
    /// # Errors
    /// [`Error::Waiting`], where that one goes on and this one was not submitted; the loss of the device.
    pub fn start(&mut self, limit: Duration) -> Result<()> {
        self.start_by(self.deadline(limit), limit)
    }

    fn start_by(&mut self, deadline: Deadline, limit: Duration) -> Result<()> {
        if self.busy {
            self.loaded
                .graph
                .wait(deadline)
                .map_err(|e| self.waiting(limit, e))?;
            self.over()?;
        }
        let Loaded {
            graph, bindings, ..
        } = &mut self.loaded;
        bindings.hand_over()?;
        if let Err(error) = graph.replay(&bindings.values, &[], deadline) {
            self.unsure |= self.device.status().is_err();
            return Err(self.waiting(limit, error));
        }
        self.busy = true;
        Ok(())
    }

    /// Waits for the last run, for `limit` at most. With a limit of 0, it asks whether the run is over.
    ///
    /// # Errors
    /// [`Error::Late`], where the run goes on; [`Error::Overdue`], where it ended behind the limit of this wait; the loss of the
    /// device.
    pub fn wait(&mut self, limit: Duration) -> Result<()> {
        let begin = Instant::now();
        let had_one = self.busy;
        self.wait_by(self.deadline(limit), limit)?;
        match had_one {
            true => self.in_time(begin, limit),
            false => Ok(()),
        }
    }

    fn wait_by(&mut self, deadline: Deadline, limit: Duration) -> Result<()> {
        let over = self.loaded.graph.wait(deadline);
        over.map_err(|e| self.late(limit, e))?;
        self.over()
    }

    /// What is over may be late: a thread is woken when the machine has time for it, and calls of a driver may take long.
    fn in_time(&self, begin: Instant, limit: Duration) -> Result<()> {
        let took = begin.elapsed();
        match limit.is_zero() || took <= limit {
            true => Ok(()),
            false => Err(Error::Overdue {
                device: self.device.info().id.to_string(),
                limit,
                took,
            }),
        }
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

    /// The same before a run is submitted.
    fn waiting(&self, limit: Duration, error: hcq::Error) -> Error {
        match self.late(limit, error) {
            Error::Late {
                device,
                limit,
                source,
            } => Error::Waiting {
                device,
                limit,
                source,
            },
            other => other,
        }
    }
}

impl Model {
    /// Ends the model: waits for a run that is under way, until the device has made no progress for its timeout, as a
    /// drop does, and tells what came of it. After an error the run may go on: it uses memory that is bound, whoever
    /// has it.
    ///
    /// # Errors
    /// [`Error::Late`]; the loss of the device.
    pub fn close(mut self) -> Result<()> {
        self.end()
    }

    /// The device may still write to what the host has a view of, and what it has written to memory of the caller is
    /// found by pointers of the host afterwards.
    fn end(&mut self) -> Result<()> {
        if self.unsure {
            self.device.status()?;
        }
        if !std::mem::take(&mut self.busy) {
            return Ok(());
        }
        let over = self.loaded.graph.wait(Deadline::after(self.timeout));
        over.map_err(|e| self.late(self.timeout, e))?;
        self.loaded.bindings.take_back()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // Its error is that of the run, which has been told or is lost with the model.
        let _ = self.end();
    }
}

/// A plan without memory for an input or output of the bundle.
fn missing(end: End, name: &str) -> Error {
    Error::Port {
        what: end.what(),
        name: name.into(),
        expected: "memory of the target's plan".into(),
        found: "none".into(),
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
