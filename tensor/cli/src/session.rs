//! From the environment to an open device with its compiler and tensor engine.

use std::sync::Arc;

use codegen::build::Backend;
use drivers::doctor::{Row, Status};
use drivers::env::Settings;
use drivers::select::{self, DeviceKind, Selection, Target};
use hcq::Device;

use crate::error::Error;

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
        Ok(Environment { settings, selection })
    }

    /// The first target that was asked for, or the CPU: accelerators are never chosen silently
    /// while no driver for them exists.
    pub fn target(&self) -> Target {
        self.selection.targets.first().cloned().unwrap_or_else(|| Target::any(DeviceKind::Cpu))
    }

    /// Opens the selected device.
    pub fn open_device(&self) -> Result<Arc<dyn Device>, Error> {
        Ok(drivers::open(&self.target(), &self.settings)?)
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
        Ok(backend) => Row { check, status: Status::Ok, detail: backend.describe(), fix: String::new() },
        Err(e) => Row { check, status: Status::Absent, detail: e.to_string(), fix: fix.into() },
    };
    vec![
        #[cfg(feature = "llvm")]
        row("cpu.llvm", Backend::cpu_llvm(1), "build with LLVM 22, see scripts/setup"),
        row("cpu.clang", Backend::cpu_clang(1), "optional: apt-get install clang-22"),
    ]
}
