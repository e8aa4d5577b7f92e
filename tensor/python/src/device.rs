//! Devices: opened by name or by the environment, with a profile.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use doorbell::tensor::Executor;
use doorbell::{Engine, Setup, trace};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{Done, exception, wrong_type, wrong_value};

/// A device with its compiler. Tensors on it are computed by it.
///
/// Device() is the one that the variable DEV names, or the CPU; Device("AMD:1") the second AMD GPU. The first use of a
/// tensor without a device opens Device().
#[pyclass(name = "Device", module = "doorbell", frozen)]
pub(crate) struct PyDevice {
    pub(crate) engine: Engine,
    setup: Option<Setup>,
}

/// The devices that are open: tensors name theirs by its engine.
static OPENED: Mutex<Vec<(Weak<dyn Executor>, Setup)>> = Mutex::new(Vec::new());
/// The one of tensors that name none.
static USUAL: OnceLock<Engine> = OnceLock::new();

fn opened() -> MutexGuard<'static, Vec<(Weak<dyn Executor>, Setup)>> {
    OPENED.lock().unwrap_or_else(|broken| broken.into_inner())
}

fn open(py: Python<'_>, setup: Setup) -> Done<PyDevice> {
    let engine = py.detach(|| setup.open())?.engine;
    let mut opened = opened();
    opened.retain(|(known, _)| known.strong_count() > 0);
    opened.push((Arc::downgrade(&engine.0), setup.clone()));
    drop(opened);
    Ok(PyDevice {
        engine,
        setup: Some(setup),
    })
}

/// The engine of tensors that name no device.
pub(crate) fn usual(py: Python<'_>) -> Done<Engine> {
    if let Some(engine) = USUAL.get() {
        return Ok(engine.clone());
    }
    let device = open(py, Setup::from_env()?)?;
    Ok(USUAL.get_or_init(|| device.engine).clone())
}

/// Whether a name is that of the usual device.
fn is_usual(name: &str) -> Done<bool> {
    Ok(match USUAL.get() {
        Some(engine) => engine.name() == name || engine.name() == format!("{name}:0"),
        None => Setup::from_env()?.target().to_string() == name,
    })
}

/// The device of an engine.
pub(crate) fn of(engine: &Engine) -> PyDevice {
    let setup = opened()
        .iter()
        .find(|(known, _)| std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(&engine.0)))
        .map(|(_, setup)| setup.clone());
    PyDevice {
        engine: engine.clone(),
        setup,
    }
}

/// An argument that names a device: one, or the name of one.
pub(crate) struct Place(pub(crate) Engine);

impl<'a, 'py> FromPyObject<'a, 'py> for Place {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Place> {
        if let Ok(device) = given.cast::<PyDevice>() {
            return Ok(Place(device.get().engine.clone()));
        }
        let Ok(name) = given.extract::<String>() else {
            let class = given.get_type().name()?.to_string();
            return Err(wrong_type(format!(
                "expected a device or its name, found {class}"
            )));
        };
        // torch's `cpu`; names of chips have lower case.
        let name = match name.contains([':', '+']) {
            true => name,
            false => name.to_ascii_uppercase(),
        };
        let py = given.py();
        if is_usual(&name)? {
            return Ok(Place(usual(py)?));
        }
        // A name is opened once.
        let known = NAMED.lock().unwrap_or_else(|broken| broken.into_inner());
        if let Some((_, engine)) = known.iter().find(|(known, _)| *known == name) {
            return Ok(Place(engine.clone()));
        }
        drop(known);
        let device = open(py, Setup::of(&name).map_err(crate::error::Failed::from)?)?;
        let mut known = NAMED.lock().unwrap_or_else(|broken| broken.into_inner());
        known.push((name, device.engine.clone()));
        Ok(Place(device.engine))
    }
}

/// Devices that were opened by a name alone.
static NAMED: Mutex<Vec<(String, Engine)>> = Mutex::new(Vec::new());

/// The engine that an argument names, or the usual one.
pub(crate) fn chosen(py: Python<'_>, place: Option<Place>) -> Done<Engine> {
    match place {
        Some(place) => Ok(place.0),
        None => usual(py),
    }
}

#[pymethods]
impl PyDevice {
    #[new]
    #[pyo3(signature = (target=None, *, threads=None, profile=false, timeout=None))]
    fn new(
        py: Python<'_>,
        target: Option<&str>,
        threads: Option<usize>,
        profile: bool,
        timeout: Option<f64>,
    ) -> Done<PyDevice> {
        let mut setup = match target {
            Some(target) => Setup::of(target)?,
            None => Setup::from_env()?,
        };
        if let Some(threads) = threads {
            setup = setup.threads(threads);
        }
        if let Some(seconds) = timeout {
            let limit = Duration::try_from_secs_f64(seconds).map_err(|_| {
                wrong_value(format!("timeout={seconds}: expected seconds, 0 or more"))
            })?;
            setup = setup.timeout(limit);
        }
        open(py, setup.profile(profile))
    }

    /// Its name, such as `CPU:0`.
    #[getter]
    fn name(&self) -> String {
        self.engine.name()
    }

    /// What is known of it: name, interface, arch, units, memory in bytes.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        all.set_item("id", self.engine.name())?;
        if let Some(executor) = doorbell::tensor::exec::DeviceExecutor::of(&self.engine) {
            let info = executor.device().info();
            all.set_item("name", &info.name)?;
            all.set_item("interface", info.interface)?;
            all.set_item("arch", &info.arch)?;
            all.set_item("units", info.units)?;
            all.set_item("memory", info.memory)?;
        }
        Ok(all)
    }

    /// Waits for all work on it. An index out of range that a kernel found is raised here.
    fn synchronize(&self, py: Python<'_>) -> Done<()> {
        Ok(py.detach(|| self.engine.synchronize())?)
    }

    /// The kernels and copies that ran since the last call, each a dict with name, queue, start_ns, end_ns, bytes and flops.
    /// Empty without `profile=True`.
    fn take_runs<'py>(&self, py: Python<'py>) -> Done<Vec<Bound<'py, PyDict>>> {
        let mut all = Vec::new();
        for run in py.detach(|| self.engine.take_runs()) {
            let row = PyDict::new(py);
            row.set_item("name", &run.name)?;
            row.set_item("queue", &run.queue)?;
            row.set_item("start_ns", run.start_ns)?;
            row.set_item("end_ns", run.end_ns)?;
            row.set_item("bytes", run.bytes)?;
            row.set_item("flops", run.flops)?;
            all.push(row);
        }
        Ok(all)
    }

    /// Writes the runs since the last call into a file for https://ui.perfetto.dev, and returns how many there are.
    fn write_trace(&self, py: Python<'_>, path: std::path::PathBuf) -> Done<usize> {
        let written = py.detach(|| {
            let runs = self.engine.take_runs();
            let file = std::fs::File::create(&path)?;
            trace::write(&runs, file)?;
            Ok::<_, std::io::Error>(runs.len())
        });
        written.map_err(|e| exception("FileError", &format!("{}: {e}", path.display())))
    }

    /// Of a simulated device: raises DeviceError if the program broke a rule of the hardware.
    fn check_rules(&self) -> Done<()> {
        match &self.setup {
            Some(setup) => Ok(setup.check_rules()?),
            None => Ok(()),
        }
    }

    fn __repr__(&self) -> String {
        format!("<doorbell.Device {}>", self.engine.name())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other
            .cast::<PyDevice>()
            .is_ok_and(|other| other.get().engine == self.engine)
    }

    fn __hash__(&self) -> usize {
        Arc::as_ptr(&self.engine.0).cast::<()>().addr()
    }
}
