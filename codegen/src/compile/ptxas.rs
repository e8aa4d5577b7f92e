//! PTX through the program ptxas.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use super::Compiler;
use super::cuda::{Toolkits, nvdisasm, on_files};
use super::jitlink::{FIX, JitLinkCompiler};
use crate::error::{Error, Result};
use crate::render::{Language, Source};
use crate::resources::Resources;
use crate::target::Target;
use crate::target::nv::own_name;

/// Runs ptxas once per kernel.
#[derive(Clone, Debug)]
pub struct PtxasCompiler {
    path: PathBuf,
    version: String,
    toolkits: Toolkits,
}

impl PtxasCompiler {
    /// That of a toolkit, or the one in the search path.
    ///
    /// # Errors
    /// It is not installed, or does not run.
    pub fn of(toolkits: &Toolkits) -> Result<Self> {
        let path = toolkits.program("ptxas", &FIX)?;
        let no = |message: String| Error::NoCompiler {
            compiler: path.display().to_string(),
            message,
            fix: &FIX,
            looked_in: String::new(),
        };
        let out = Command::new(&path)
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .map_err(|e| no(format!("cannot be run: {e}")))?;
        let text = String::from_utf8_lossy(&out.stdout);
        let version = text.lines().find(|line| line.contains("release"));
        match version.filter(|_| out.status.success()) {
            Some(version) => Ok(PtxasCompiler {
                version: version.trim().to_string(),
                path,
                toolkits: toolkits.clone(),
            }),
            None => Err(no(format!(
                "is not ptxas: --version printed {:?}, expected a release",
                text.trim()
            ))),
        }
    }
}

impl Compiler for PtxasCompiler {
    fn name(&self) -> &'static str {
        "ptxas"
    }

    fn version(&self) -> String {
        self.version.clone()
    }

    fn compile(&self, s: &Source, t: &Target) -> Result<Vec<u8>> {
        let failed = |stage, message| Error::Compile {
            compiler: "ptxas",
            entry: s.entry.clone(),
            stage,
            message,
        };
        if s.language != Language::Ptx {
            let found = format!("{:?} source, expected PTX", s.language);
            return Err(failed("input", found));
        }
        let mut command = Command::new(&self.path);
        command.args(["-arch", &own_name(t), "-o", "/dev/stdout", "/dev/stdin"]);
        on_files(&mut command, s.text.as_bytes()).map_err(|message| failed("compile", message))
    }

    fn resources(&self, obj: &[u8], t: &Target, items: u32) -> Option<Resources> {
        Resources::of_cubin(obj, t, items)
    }

    fn disassemble(&self, obj: &[u8]) -> Result<String> {
        nvdisasm(&self.toolkits, obj)
    }
}

/// The assembler of PTX: ptxas if installed, because it inlines longer operations (integer division), else
/// nvJitLink, which calls them as functions at the cost of registers.
///
/// # Errors
/// Neither is installed.
pub fn assembler(toolkits: &Toolkits) -> Result<Arc<dyn Compiler>> {
    let program = match PtxasCompiler::of(toolkits) {
        Ok(program) => return Ok(Arc::new(program)),
        Err(e) => e,
    };
    let library = match JitLinkCompiler::of(toolkits) {
        Ok(library) => return Ok(Arc::new(library)),
        Err(e) => e,
    };
    match (program, library) {
        (
            Error::NoCompiler {
                compiler: program,
                message,
                ..
            },
            Error::NoCompiler {
                message: library,
                looked_in,
                ..
            },
        ) => Err(Error::NoCompiler {
            compiler: "NV:PTX".into(),
            message: format!("has no assembler: {program} {message}; nvJitLink {library}"),
            fix: &FIX,
            looked_in: format!("PATH, {looked_in}"),
        }),
        (_, e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let Err(error) = assembler(&Toolkits::at(dir.path())) else {
            return println!(
                "not tried: ptxas is in the search path, or nvJitLink where loaders look"
            );
        };
        let text = error.to_string();
        for part in [
            "NV:PTX",
            "libnvJitLink.so.12",
            "nvidia-nvjitlink",
            "ptxas",
            "nvidia-cuda-nvcc",
            "CUDA_PATH",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
