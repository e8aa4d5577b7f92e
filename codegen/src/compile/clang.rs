//! The clang program, for hosts without the LLVM library.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use super::Compiler;
use crate::error::{Error, Result};
use crate::render::{Language, Source};
use crate::target::Target;

/// Compiles C by running clang once per kernel.
#[derive(Clone, Debug)]
pub struct ClangCompiler {
    path: PathBuf,
    version: String,
}

impl ClangCompiler {
    /// The first of `clang-22`, `clang` that runs.
    pub fn find() -> Result<Self> {
        let mut last = None;
        for name in ["clang-22", "clang"] {
            match Self::at(name) {
                Ok(found) => return Ok(found),
                Err(e) => last = Some(e),
            }
        }
        Err(last.unwrap_or_else(|| Error::NoCompiler {
            compiler: "clang".into(),
            message: "no candidate name".into(),
        }))
    }

    /// The clang at a path, or found by name in the search path.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let no = |message: String| Error::NoCompiler {
            compiler: path.display().to_string(),
            message,
        };
        let out = Command::new(&path)
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .map_err(|e| no(format!("--version: {e}")))?;
        let text = String::from_utf8_lossy(&out.stdout);
        let Some(version) = text
            .lines()
            .next()
            .filter(|l| out.status.success() && l.contains("clang"))
        else {
            return Err(no(format!(
                "--version said {:?}, expected a clang",
                text.trim()
            )));
        };
        let version = version.to_string();
        Ok(ClangCompiler { path, version })
    }
}

/// Options that do not depend on the target. `-ffp-contract=off`: where a multiplication and an
/// addition may be one, the source says so.
const FLAGS: [&str; 11] = [
    "-x",
    "c",
    "-std=gnu2x",
    "-O2",
    "-fPIC",
    "-ffreestanding",
    "-fno-math-errno",
    "-ffp-contract=off",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fno-stack-protector",
];

impl Compiler for ClangCompiler {
    fn name(&self) -> &'static str {
        "clang"
    }

    fn version(&self) -> String {
        format!("{} {}", self.version, FLAGS.join(" "))
    }

    fn compile(&self, s: &Source, t: &Target) -> Result<Vec<u8>> {
        let failed = |stage: &'static str, message: String| Error::Compile {
            compiler: "clang",
            entry: s.entry.clone(),
            stage,
            message,
        };
        if s.language != Language::C {
            return Err(failed(
                "input",
                format!("{:?} source, expected C", s.language),
            ));
        }
        let mut command = Command::new(&self.path);
        command.args(FLAGS).args(["-w", "-target", &t.triple]);
        if t.arch == "x86_64" {
            command.arg(format!("-march={}", t.cpu));
            command.arg(format!("-mprefer-vector-width={}", t.vector_bytes * 8));
            for feature in t.features.split(',').filter_map(|f| f.strip_prefix('+')) {
                command.arg(format!("-m{feature}"));
            }
        }
        command.args(["-c", "-", "-o", "-"]);
        let out =
            piped(&mut command, s.text.as_bytes()).map_err(|e| failed("run", e.to_string()))?;
        if !out.status.success() {
            return Err(failed(
                "compile",
                format!(
                    "{}: {}",
                    out.status,
                    String::from_utf8_lossy(&out.stderr).trim()
                ),
            ));
        }
        Ok(out.stdout)
    }

    fn disassemble(&self, obj: &[u8]) -> Result<String> {
        objdump(obj)
    }
}

/// The instructions of an object, by the first llvm-objdump that runs. The object goes through a
/// pipe: nothing is left on the disk.
pub(super) fn objdump(obj: &[u8]) -> Result<String> {
    let mut said = String::new();
    for tool in ["llvm-objdump-22", "llvm-objdump"] {
        match piped(
            Command::new(tool).args(["-d", "--no-show-raw-insn", "-"]),
            obj,
        ) {
            Ok(out) if out.status.success() => {
                return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
            }
            Ok(out) => {
                let why = String::from_utf8_lossy(&out.stderr);
                said += &format!("{tool}: {}: {}; ", out.status, why.trim());
            }
            Err(e) => said += &format!("{tool}: {e}; "),
        }
    }
    Err(Error::NoCompiler {
        compiler: "llvm-objdump".into(),
        message: format!("{said}install llvm-22 to see machine code"),
    })
}

/// Runs a tool that reads all of its input before it writes, so that neither waits for the other.
fn piped(command: &mut Command, input: &[u8]) -> std::io::Result<Output> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take()
        && let Err(e) = stdin.write_all(input)
        // A tool that ended early says why on its standard error.
        && e.kind() != std::io::ErrorKind::BrokenPipe
    {
        let _ = child.kill();
        let _ = child.wait();
        return Err(e);
    }
    child.wait_with_output()
}
