//! Backends: code generation for a kind of device.

mod table;

use std::sync::Arc;

pub use table::{Row, TABLE};

use crate::cache::Cache;
use crate::compile::Compiler;
use crate::error::{Error, Result};
use crate::modules::Modules;
use crate::opt::Opt;
use crate::render::Emitter;
use crate::target::Target;

/// A target with its emitter and the compiler of the emitted source.
#[derive(Clone)]
pub struct Backend {
    /// The machine.
    pub target: Target,
    pub(crate) tools: Tools,
}

/// What turns programs into what a device takes.
#[derive(Clone)]
pub(crate) struct Tools {
    pub emitter: Arc<dyn Emitter>,
    pub compiler: Option<Arc<dyn Compiler>>,
}

impl Tools {
    /// What a device takes, as text.
    pub fn disassemble(&self, object: &[u8]) -> Result<String> {
        match &self.compiler {
            Some(compiler) => compiler.disassemble(object),
            None => self.emitter.disassemble(object),
        }
    }
}

impl Backend {
    /// Any combination. Without a compiler the device takes the emitted source.
    pub fn new(
        target: Target,
        emitter: Arc<dyn Emitter>,
        compiler: Option<Arc<dyn Compiler>>,
    ) -> Self {
        Backend {
            target: emitter.target(target),
            tools: Tools { emitter, compiler },
        }
    }

    /// The backend with a name as in `DEV`, `DEVICE[:RENDERER]` (`AMD:HIP`; default: the best renderer of the
    /// device with an installed compiler), for an instruction set and a number of units. `CPU` is always this
    /// machine; GPUs have the units of their chip.
    ///
    /// # Errors
    /// [`Error::NoBackend`] for an unknown name; [`Error::NoCompiler`]; an unknown instruction set.
    pub fn find(name: &str, arch: &str, units: usize) -> Result<Backend> {
        Backend::find_in(TABLE, name, arch, units)
    }

    /// [`Backend::find`], in another table.
    ///
    /// # Errors
    /// As there.
    pub fn find_in(rows: &[Row], name: &str, arch: &str, units: usize) -> Result<Backend> {
        let (device, renderer) = match name.split_once(':') {
            Some((device, renderer)) => (device, Some(renderer)),
            None => (name, None),
        };
        let of_device = || rows.iter().filter(|row| row.device == device);
        let asked = || of_device().filter(|row| renderer.is_none_or(|r| row.renderer == r));
        let mut missing = None;
        for row in asked() {
            match row.open(arch, units) {
                // Whoever names one gets that one.
                Err(e @ Error::NoCompiler { .. }) => missing = missing.or(Some(e)),
                done => return done,
            }
        }
        Err(missing.unwrap_or_else(|| Error::NoBackend {
            name: name.into(),
            known: match of_device().map(|row| row.renderer).collect::<Vec<_>>() {
                names if names.is_empty() => "none".into(),
                names => names.join(", "),
            },
        }))
    }

    /// The same, with products of `f32` as [`Target::with_tf32`] has them.
    #[must_use]
    pub fn with_tf32(self) -> Backend {
        Backend {
            target: self.target.with_tf32(),
            ..self
        }
    }

    /// The same, with products as [`Target::in_registers`] has them.
    #[must_use]
    pub fn in_registers(self) -> Backend {
        Backend {
            target: self.target.in_registers(),
            ..self
        }
    }

    /// The same, without reading buffers as images: see [`Target::without_images`].
    #[must_use]
    pub fn without_images(self) -> Backend {
        Backend {
            target: self.target.without_images(),
            ..self
        }
    }

    /// The same tools for another machine of the same kind: a processor that is not here.
    #[must_use]
    pub fn targeting(self, target: Target) -> Backend {
        Backend {
            target: self.tools.emitter.target(target),
            ..self
        }
    }

    /// Emitter, and compiler with its version.
    pub fn describe(&self) -> String {
        let emitter = self.tools.emitter.name();
        match &self.tools.compiler {
            Some(c) => format!("{emitter} {} {}", c.name(), c.version()),
            None => emitter.into(),
        }
    }

    /// The compiler with its version, for people; without one, the emitter.
    pub fn release(&self) -> String {
        match &self.tools.compiler {
            Some(c) => c.release(),
            None => self.tools.emitter.name().into(),
        }
    }
}

/// Options of a compilation.
#[derive(Clone, Default)]
pub struct Options {
    /// Leave the loops as they are.
    pub noopt: bool,
    /// These steps instead of the heuristics.
    pub opts: Option<Vec<Opt>>,
    /// Cache of compiled kernels on disk.
    pub cache: Option<Arc<Cache>>,
    /// Modules compiled by this process. Without it equal modules of different kernels are compiled again.
    pub modules: Option<Arc<Modules>>,
    /// Sums keep their order: the same bits in every run.
    pub deterministic: bool,
    /// Keeps every text of [`crate::build::Report`]. They are made by compiling, so kernels do not come from the
    /// cache as a whole, only their objects do.
    pub explain: bool,
    /// Number of threads that will run the groups on a CPU; 0 stands for the cores of the target.
    pub threads: usize,
}
