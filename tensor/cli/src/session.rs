//! From the environment to an open device with its compiler and tensor engine.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use codegen::Backend;
use drivers::doctor::{Row, Status};
use drivers::env::Settings;
use drivers::select::{self, DeviceKind, Selection, Target};
use hcq::{Device, DeviceInfo};
use tensor::Engine;
use tensor::exec::{DeviceExecutor, Observer, Options};

use crate::error::Error;
use crate::observe::{Both, Printer};
use crate::twin::Twin;

/// Bytes of compiled kernels that are kept on disk.
const CACHE_BYTES: u64 = 256 << 20;

/// How long a wait for a simulated device lasts unless HCQDEV_WAIT_TIMEOUT_MS is set: its model
/// needs seconds for what hardware does in milliseconds.
const SIMULATED_WAIT: Duration = Duration::from_secs(600);

/// An open device with what runs on it.
pub struct Session {
    /// The device.
    pub device: Arc<dyn Device>,
    /// Tensors of this engine live there.
    pub engine: Engine,
    /// The compiler, for those who build kernels by hand.
    pub backend: Backend,
}

/// Waits until the engine's device has done everything.
pub fn wait(engine: &Engine) -> Result<(), Error> {
    match DeviceExecutor::of(engine) {
        Some(executor) => Ok(executor.synchronize()?),
        None => Ok(()),
    }
}

/// What the command line and the variables say.
pub struct Environment {
    /// Typed variables.
    pub settings: Settings,
    /// Which device, and who said so.
    pub selection: Selection,
    /// The simulated machine, if the selection asks for one.
    pub twin: Option<Twin>,
}

impl Environment {
    /// Reads the variables once; `cli` is the value of `--dev`.
    pub fn read(cli: Option<&str>) -> Result<Environment, Error> {
        let usage = |e: &dyn std::fmt::Display| Error::Usage(e.to_string());
        // Names and values that are not UTF-8 cannot be ours.
        let env: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
            .collect();
        let vars = || env.iter().map(|(k, v)| (k, v));
        let mut settings = Settings::parse(vars()).map_err(|e| usage(&e))?;
        let selection = select::select(None, cli, vars()).map_err(|e| usage(&e))?;
        let twin = match selection.targets.first() {
            Some(target) => Twin::of(target, settings.twin.as_deref())?,
            None => None,
        };
        if twin.is_some() && !env.iter().any(|(name, _)| name == "HCQDEV_WAIT_TIMEOUT_MS") {
            settings.wait_timeout = SIMULATED_WAIT;
        }
        for warning in &selection.warnings {
            eprintln!("warning: {warning}");
        }
        for ignored in settings.without_effect() {
            eprintln!("warning: {ignored}");
        }
        if settings.debug >= 1 {
            for note in &selection.notes {
                eprintln!("note: {note}");
            }
            if let (None, Some(config)) = (&twin, &settings.twin) {
                eprintln!("note: TWIN={config} has no effect: no simulated device is chosen");
            }
        }
        Ok(Environment {
            settings,
            selection,
            twin,
        })
    }

    /// Opens a target.
    fn open_target(&self, target: &Target, settings: &Settings) -> Result<Arc<dyn Device>, Error> {
        let twin = self.twin.as_ref().map(Twin::machine);
        Ok(drivers::open_with(target, settings, twin.as_ref())?)
    }

    /// What is put behind the name of the selected device where it is a simulated one.
    pub fn simulated(&self) -> &'static str {
        match &self.twin {
            Some(_) => ", simulated",
            None => "",
        }
    }

    /// Tells which rules were broken on a simulated machine. To be called once its devices are
    /// closed.
    ///
    /// # Errors
    /// There are some.
    pub fn broken_rules(&self) -> Result<(), Error> {
        let Some(twin) = &self.twin else {
            return Ok(());
        };
        let chip = twin.chip();
        match twin.report() {
            Some(report) => {
                eprint!("{report}");
                Err(Error::Check(format!(
                    "the simulated {chip} saw the rules above broken: real hardware may hang, or \
                     give wrong numbers. Please report it"
                )))
            }
            None => {
                if self.settings.debug >= 1 {
                    eprintln!("the simulated {chip} saw no rule broken");
                }
                Ok(())
            }
        }
    }

    /// The first target that was asked for, or the CPU: accelerators are never chosen silently
    /// while no driver for them exists.
    pub fn target(&self) -> Target {
        self.selection
            .targets
            .first()
            .cloned()
            .unwrap_or_else(|| Target::any(DeviceKind::Cpu))
    }

    /// The chip that GPU compilers are looked at for: that of the simulated machine or of the
    /// selection, else the first that we would like to know about.
    pub fn chip(&self) -> String {
        let simulated = self.twin.as_ref().map(|twin| twin.chip().to_owned());
        let arch = || {
            let target = self.selection.targets.first();
            let target = target.filter(|t| t.device == DeviceKind::Amd)?;
            target.arch.clone()
        };
        simulated.or_else(arch).unwrap_or_else(|| "gfx1100".into())
    }

    /// Opens the selected device.
    pub fn open_device(&self) -> Result<Arc<dyn Device>, Error> {
        self.open_target(&self.target(), &self.settings)
    }

    /// Opens the selected device with `threads` threads instead of those of the settings (a device
    /// without threads of its own ignores it), and an engine over it.
    pub fn open_engine(&self, threads: Option<usize>, profile: bool) -> Result<Session, Error> {
        self.open(threads, profile, None)
    }

    /// As [`Environment::open_engine`], with somebody who is told what it does.
    pub fn open_engine_observed(
        &self,
        threads: Option<usize>,
        profile: bool,
        observer: Arc<dyn Observer>,
    ) -> Result<Session, Error> {
        self.open(threads, profile, Some(observer))
    }

    fn open(
        &self,
        threads: Option<usize>,
        profile: bool,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<Session, Error> {
        let mut settings = self.settings.clone();
        if let Some(n) = threads.and_then(NonZeroUsize::new) {
            settings.cpu_count = Some(n);
        }
        let device = self.open_target(&self.target(), &settings)?;
        let units = device.info().units as usize;
        let backend = self.backend(device.info())?;
        let mut codegen = codegen::Options {
            threads: units,
            explain: settings.debug >= 4,
            deterministic: settings.deterministic,
            ..codegen::Options::default()
        };
        if settings.compile_cache && settings.cache_level > 0 {
            codegen.cache = self.cache();
        }
        let describe = backend.describe();
        let debug = settings.debug;
        if debug >= 1 {
            let info = device.info();
            eprintln!(
                "{} {} {}, {} units{}, {describe}",
                info.id,
                info.arch,
                info.name,
                info.units,
                self.simulated()
            );
        }
        let printer = (debug >= 2).then(|| Arc::new(Printer::new(debug)) as Arc<dyn Observer>);
        let observer = match (printer, observer) {
            (Some(a), Some(b)) => Some(Arc::new(Both(a, b)) as Arc<dyn Observer>),
            (a, b) => a.or(b),
        };
        let options = Options {
            codegen,
            patience: settings.wait_timeout,
            // Times of kernels need timestamps around each of them.
            profile: profile || settings.profile || debug >= 2,
            observer,
            ..Options::default()
        };
        let engine = DeviceExecutor::engine(device.clone(), backend.clone(), options)?;
        Ok(Session {
            device,
            engine,
            backend,
        })
    }

    /// The compile cache; without one if its folder cannot be used, which is said.
    fn cache(&self) -> Option<Arc<codegen::Cache>> {
        let dir = self.settings.cache_dir.as_ref()?.join("kernels");
        match codegen::Cache::open(&dir, CACHE_BYTES) {
            Ok(cache) => Some(Arc::new(cache)),
            Err(e) => {
                tracing::warn!("no compile cache: {e}");
                None
            }
        }
    }

    /// The compiler for the selected device: what the target names, else the best one of this program.
    fn backend(&self, info: &DeviceInfo) -> Result<Backend, Error> {
        let target = self.target();
        let device = target.device.name();
        let name = match target.renderer {
            Some(renderer) => format!("{device}:{renderer}"),
            None => device.into(),
        };
        Backend::find(&name, &info.arch, info.units as usize).map_err(|e| match e {
            codegen::Error::NoBackend { .. } => Error::Usage(format!("{target}: {e}")),
            e => Error::Compiler(e.to_string()),
        })
    }
}

/// The doctor's rows about compilers; those of GPUs for a chip.
pub fn compilers(chip: &str) -> Vec<Row> {
    let row = |row: &codegen::Row| {
        let found = row.open(chip, 1);
        Row {
            check: format!("{}.{}", row.device, row.renderer).to_lowercase(),
            status: match found {
                Ok(_) => Status::Ok,
                Err(_) => Status::Absent,
            },
            fix: match found {
                Ok(_) => String::new(),
                Err(_) => row.fix.into(),
            },
            detail: found.map_or_else(|e| e.to_string(), |backend| backend.describe()),
        }
    };
    codegen::TABLE.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_back_end_can_be_asked_for() {
        for row in codegen::TABLE {
            let device = DeviceKind::ALL.into_iter().find(|d| d.name() == row.device);
            let names = device.map_or(&[][..], DeviceKind::renderers);
            assert!(
                names.contains(&row.renderer),
                "{}:{}",
                row.device,
                row.renderer
            );
        }
    }
}
