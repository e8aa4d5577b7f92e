//! From the environment to an open device with its compiler and tensor engine.

use std::num::NonZeroUsize;
use std::sync::Arc;

use codegen::Backend;
use drivers::doctor::{Row, Status};
use drivers::env::Settings;
use drivers::select::{self, DeviceKind, Selection, Target};
use hcq::Device;
use tensor::Engine;
use tensor::exec::{DeviceExecutor, Observer, Options};

use crate::error::Error;
use crate::observe::{Both, Printer};

/// Bytes of compiled kernels that are kept on disk.
const CACHE_BYTES: u64 = 256 << 20;

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
        let settings = Settings::parse(vars()).map_err(|e| usage(&e))?;
        let selection = select::select(None, cli, vars()).map_err(|e| usage(&e))?;
        if settings.debug >= 1 {
            for note in &selection.notes {
                eprintln!("note: {note}");
            }
        }
        Ok(Environment {
            settings,
            selection,
        })
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

    /// Opens the selected device.
    pub fn open_device(&self) -> Result<Arc<dyn Device>, Error> {
        Ok(drivers::open_with(&self.target(), &self.settings)?)
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
        let device = drivers::open_with(&self.target(), &settings)?;
        let units = device.info().units as usize;
        let backend = self.backend(units)?;
        let mut codegen = codegen::Options {
            threads: units,
            explain: settings.debug >= 4,
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
                "{} {} {}, {} units, {describe}",
                info.id, info.arch, info.name, info.units
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

    /// The compiler for the selected device: what the target names, else LLVM in process if the
    /// program was built with it, else clang.
    pub fn backend(&self, threads: usize) -> Result<Backend, Error> {
        let compiler = |e: codegen::Error| Error::Compiler(e.to_string());
        let target = self.target();
        match target.renderer.unwrap_or(DEFAULT_RENDERER) {
            #[cfg(feature = "llvm")]
            "LLVM" => Backend::cpu_llvm(threads).map_err(compiler),
            "CLANG" => Backend::cpu_clang(threads).map_err(compiler),
            other => Err(Error::Usage(format!(
                "{target}: this program has no compiler {other} for the {}; it has {}",
                target.device.name(),
                RENDERERS.join(", ")
            ))),
        }
    }
}

#[cfg(feature = "llvm")]
const RENDERERS: &[&str] = &["LLVM", "CLANG"];
#[cfg(not(feature = "llvm"))]
const RENDERERS: &[&str] = &["CLANG"];
const DEFAULT_RENDERER: &str = RENDERERS[0];

/// The doctor's rows about compilers.
pub fn compilers() -> Vec<Row> {
    let row = |check, found: Result<Backend, codegen::Error>, fix: &str| match found {
        Ok(backend) => Row {
            check,
            status: Status::Ok,
            detail: backend.describe(),
            fix: String::new(),
        },
        Err(e) => Row {
            check,
            status: Status::Absent,
            detail: e.to_string(),
            fix: fix.into(),
        },
    };
    vec![
        #[cfg(feature = "llvm")]
        row(
            "cpu.llvm",
            Backend::cpu_llvm(1),
            "build with LLVM 22, see scripts/setup",
        ),
        row(
            "cpu.clang",
            Backend::cpu_clang(1),
            "optional: apt-get install clang-22",
        ),
    ]
}
