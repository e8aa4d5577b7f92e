//! Opens the device that the environment selects, with its compiler and tensor engine.

mod chain;
mod error;
mod printer;
mod twin;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use codegen::Backend;
use drivers::Front;
use drivers::env::{Recorded, Settings, texts};
use drivers::select::{self, DeviceKind, Selection, Target};
use hcq::{Device, DeviceInfo};
use tensor::Engine;
use tensor::exec::{DeviceExecutor, Observer, Options};

pub use error::{Error, Result};
use printer::{All, Printer};
pub use twin::{Transfers, Twin};

/// Bytes of compiled kernels that are kept on disk.
const CACHE_BYTES: u64 = 256 << 20;

/// For how long a simulated device may be silent unless HCQDEV_WAIT_TIMEOUT_MS is set: its model
/// needs seconds for what hardware does in milliseconds.
const SIMULATED_WAIT: Duration = Duration::from_secs(600);

/// What `scripts/fetch firmware` has fetched for the checkout that this program was built in, the newest release first.
fn fetched_firmware() -> Vec<std::path::PathBuf> {
    let folder = codegen::checkout::target_of("fetch").map(|target| target.join("firmware"));
    let releases = ["trixie-backports", "bookworm-backports", "nvidia-graphics"];
    let folders = folder
        .into_iter()
        .flat_map(|f| releases.map(|release| f.join(release)));
    folders.filter(|folder| folder.is_dir()).collect()
}

/// Whether a target asks for a simulated machine.
fn asks_for_a_twin(target: &Target) -> bool {
    target.interface.is_some_and(|way| way.twin)
}

/// The environment.
fn environment() -> Result<Vec<(String, String)>> {
    Ok(texts(std::env::vars_os())?)
}

/// An engine on the device that the environment names (`DEV=AMD`, `AMD=1`, `DEV=CPU:CLANG`...), the CPU
/// if it names none, with the device's best compiler.
///
/// # Errors
/// A variable that is not understood; a missing or unusable device or compiler.
pub fn open() -> Result<Engine> {
    Ok(Setup::from_env()?.open()?.engine)
}

/// An engine on the device that a target names, in the form of the variable `DEV`:
/// `[IFACE[:IDX]+]DEVICE[:IDX][:RENDERER[:ARCH]]`, such as `CPU` or `KFD:1+AMD`.
///
/// # Errors
/// A target that is not understood; else as [`open`].
pub fn open_target(target: &str) -> Result<Engine> {
    Ok(Setup::of(target)?.open()?.engine)
}

/// The choice of device and the settings of its engine: environment variables, overridden by the program.
///
/// ```
/// # fn main() -> Result<(), doorbell::Error> {
/// let engine = doorbell::Setup::of("CPU")?.threads(2).profile(true).open()?.engine;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Setup {
    settings: Settings,
    selection: Selection,
    twin: Option<Twin>,
    observers: Vec<Arc<dyn Observer>>,
    /// What a chain (`DEV='QCOM|CPU'`) has behind its first device.
    others: Vec<Setup>,
}

/// An open device with what runs on it.
pub struct Opened {
    /// The device.
    pub device: Arc<dyn Device>,
    /// Tensors of this engine live there.
    pub engine: Engine,
    /// The compiler, for kernels built by hand.
    pub backend: Backend,
}

impl Setup {
    /// The setup of the environment variables.
    ///
    /// # Errors
    /// One that is not understood, or two that contradict each other.
    pub fn from_env() -> Result<Setup> {
        Ok(Setup::read(None, None, environment()?, true)?.warned())
    }

    /// The setup of the environment variables, for the device of `target`: see [`open_target`].
    ///
    /// # Errors
    /// A target or a variable that is not understood.
    pub fn of(target: &str) -> Result<Setup> {
        Ok(Setup::read(Some(target), None, environment()?, true)?.warned())
    }

    /// For a program that has the option `--dev`: its value, which comes before the variables. The program should
    /// print the [warnings](Setup::warnings).
    ///
    /// # Errors
    /// A target or a variable that is not understood.
    pub fn from_option(dev: Option<&str>) -> Result<Setup> {
        Setup::read(None, dev, environment()?, true)
    }

    /// One device.
    fn one(
        api: Option<&str>,
        cli: Option<&str>,
        env: &[(String, String)],
        simulated: bool,
    ) -> Result<Setup> {
        let vars = || env.iter().map(|(k, v)| (k, v));
        let mut settings = Settings::parse(vars())?;
        let selection = select::select(api, cli, vars())?;
        let twin = match selection.targets.first() {
            _ if !simulated => None,
            Some(target) => Twin::of(target, settings.twin.as_deref())?,
            None => None,
        };
        // Also of a replay, whose answers are those of a simulated machine.
        let is_simulated = selection.targets.first().is_some_and(asks_for_a_twin);
        if is_simulated && !env.iter().any(|(name, _)| name == "HCQDEV_WAIT_TIMEOUT_MS") {
            settings.wait_timeout = SIMULATED_WAIT;
        }
        // Of cards that need some, where no folder is said.
        if is_simulated && settings.firmware.is_empty() {
            settings.firmware = fetched_firmware();
        }
        Ok(Setup {
            settings,
            selection,
            twin,
            observers: Vec::new(),
            others: Vec::new(),
        })
    }

    /// With something in front of the machine of the device, or in its place: see [`Front`].
    pub fn front(mut self, front: Front) -> Setup {
        for other in &mut self.others {
            other.settings.front = Some(front.clone());
        }
        self.settings.front = Some(front);
        self
    }

    /// The variables that have a meaning here and are set, as they are.
    ///
    /// # Errors
    /// One that is not understood.
    pub fn variables() -> Result<Vec<[String; 2]>> {
        Ok(Settings::parse(environment()?)?.said)
    }

    /// What these variables say, in the place of the environment's. Without `simulated` no simulated machine is made,
    /// whatever they say: [`Setup::front`] gives what is there instead.
    ///
    /// # Errors
    /// As [`Setup::from_option`].
    pub fn of_variables(
        dev: Option<&str>,
        variables: &[[String; 2]],
        simulated: bool,
    ) -> Result<Setup> {
        let pairs = variables.iter().map(|[k, v]| (k.clone(), v.clone()));
        Setup::read(None, dev, pairs.collect(), simulated)
    }

    fn warned(self) -> Setup {
        for warning in self.warnings() {
            tracing::warn!("{warning}");
        }
        self
    }

    /// Variables that are outdated or have no effect.
    pub fn warnings(&self) -> Vec<String> {
        let selection = self.selection.warnings.iter().cloned();
        selection.chain(self.settings.without_effect()).collect()
    }

    /// Variables that were overridden.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.selection.notes.clone();
        if let (None, Some(config)) = (&self.twin, &self.settings.twin) {
            notes.push(format!(
                "TWIN={config} has no effect: no simulated device is chosen"
            ));
        }
        notes
    }

    /// Sets the number of threads of a CPU device; others ignore it. 0 means all available.
    pub fn threads(mut self, n: usize) -> Setup {
        self.settings.cpu_count = NonZeroUsize::new(n);
        self
    }

    /// Measures every kernel and copy, for [`Engine::take_runs`]. Each submission is then waited for.
    pub fn profile(mut self, on: bool) -> Setup {
        self.settings.profile |= on;
        self
    }

    /// How long the device may make no progress before it counts as hung.
    pub fn timeout(mut self, limit: Duration) -> Setup {
        self.settings.wait_timeout = limit;
        self
    }

    /// HCQDEV_WAIT_TIMEOUT_MS, if it is set: it comes before every limit of a command's own.
    pub fn said_wait_timeout(&self) -> Option<Duration> {
        let mut said = self.settings.said.iter();
        let is_set = said.any(|[name, _]| name == "HCQDEV_WAIT_TIMEOUT_MS");
        is_set.then_some(self.settings.wait_timeout)
    }

    /// Limit of a wait for work, regardless of progress, unless HCQDEV_WORK_TIMEOUT_MS is set.
    pub fn within(mut self, limit: Duration) -> Setup {
        self.settings.work_timeout.get_or_insert(limit);
        self
    }

    /// Selects alternative encodings of packets for AMD GPUs; other devices ignore it.
    pub fn recorded(mut self, recorded: Recorded) -> Setup {
        self.settings.amd_recorded = recorded;
        self
    }

    /// Adds an observer of the engine.
    pub fn observe(mut self, observer: Arc<dyn Observer>) -> Setup {
        self.observers.push(observer);
        self
    }

    /// The variables as values.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The simulated machine, if the selection asks for one.
    pub fn twin(&self) -> Option<&Twin> {
        self.twin.as_ref()
    }

    /// The target that asks for a simulated machine, whether this program has them or not.
    pub fn simulated(&self) -> Option<&Target> {
        let mut firsts = self.each().filter_map(|one| one.selection.targets.first());
        firsts.find(|target| asks_for_a_twin(target))
    }

    /// Whether somebody asked for a device.
    pub fn is_chosen(&self) -> bool {
        !self.selection.targets.is_empty()
    }

    /// The first target that was asked for, or the CPU: accelerators are never chosen silently.
    pub fn target(&self) -> Target {
        self.selection
            .targets
            .first()
            .cloned()
            .unwrap_or_else(|| Target::any(DeviceKind::Cpu))
    }

    /// The selected device alone, open.
    ///
    /// # Errors
    /// It is missing or unusable; several are selected, as a chain.
    pub fn device(&self) -> Result<Arc<dyn Device>> {
        self.alone()?;
        let twin = self.twin.as_ref().map(Twin::machine);
        Ok(drivers::open_with(
            &self.target(),
            &self.settings,
            twin.as_ref(),
        )?)
    }

    /// The selected device with its compiler, and an engine over both. With the variable `DEBUG` the engine logs to
    /// stderr.
    ///
    /// # Errors
    /// A missing or unusable device or compiler.
    pub fn open(&self) -> Result<Opened> {
        self.open_on(self.device()?)
    }

    /// [`Setup::open`] over the device that [`Setup::device`] has given.
    ///
    /// # Errors
    /// A missing or unusable compiler.
    pub fn open_on(&self, device: Arc<dyn Device>) -> Result<Opened> {
        let settings = &self.settings;
        let debug = settings.debug;
        let info = device.info();
        let backend = self.backend(info)?;
        if debug >= 1 {
            let simulated = self.twin.as_ref().map_or("", |_| ", simulated");
            crate::talk::line(format_args!(
                "{} {} {}, {} units{simulated}, {}",
                info.id,
                info.arch,
                info.name,
                info.units,
                backend.describe()
            ));
        }
        let cached = settings.compile_cache && settings.cache_level > 0;
        let codegen = codegen::Options {
            threads: info.units as usize,
            explain: debug >= 4,
            deterministic: settings.deterministic,
            cache: cached.then(|| self.cache()).flatten(),
            ..codegen::Options::default()
        };
        let mut observers = self.observers.clone();
        if debug >= 2 {
            observers.insert(0, Arc::new(Printer::new(debug)));
        }
        let options = Options {
            codegen,
            timeout: settings.wait_timeout,
            work: settings.work_timeout,
            // Times of kernels need timestamps around each of them.
            profile: settings.profile || debug >= 2,
            observer: (!observers.is_empty()).then(|| Arc::new(All(observers)) as _),
            ..Options::default()
        };
        let engine = DeviceExecutor::engine(device.clone(), backend.clone(), options)?;
        Ok(Opened {
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

    /// The compiler for a device: what the target names, else the best one of this program.
    fn backend(&self, info: &DeviceInfo) -> Result<Backend> {
        let target = self.target();
        let device = target.device.name();
        let name = match target.renderer {
            Some(renderer) => format!("{device}:{renderer}"),
            None => device.into(),
        };
        let found = Backend::find(&name, &info.arch, info.units as usize);
        let backend = found.map_err(|e| match e {
            source @ codegen::Error::NoBackend { .. } => Error::NoCompiler {
                target: target.to_string(),
                source: Box::new(source),
            },
            e => Error::from(e),
        })?;
        let backend = match self.settings.nv_wgmma {
            true => backend,
            false => backend.in_registers(),
        };
        let backend = match self.settings.qcom_images {
            true => backend,
            false => backend.without_images(),
        };
        Ok(match self.settings.allow_tf32 {
            true => backend.with_tf32(),
            false => backend,
        })
    }

    /// Checks whether the simulated device, if any, detected violations of hardware rules. Call it after its
    /// engines are dropped: closing has rules as well.
    ///
    /// # Errors
    /// [`Error::Rules`], which names each.
    pub fn check_rules(&self) -> Result<()> {
        let mut twins = self.each().filter_map(|one| one.twin.as_ref());
        match twins.find_map(|t| Some((t, t.report()?))) {
            Some((twin, report)) => Err(Error::Rules {
                chip: twin.chip(),
                report,
            }),
            None => Ok(()),
        }
    }
}
