//! The clang program, for hosts without the LLVM library.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

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
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|e| failed("start", e.to_string()))?;
        // clang reads all of its input before it writes, so this does not block on its output.
        if let Some(mut input) = child.stdin.take()
            && let Err(e) = input.write_all(s.text.as_bytes())
            && e.kind() != std::io::ErrorKind::BrokenPipe
        {
            return Err(failed("input", e.to_string()));
        }
        let out = child
            .wait_with_output()
            .map_err(|e| failed("wait", e.to_string()))?;
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

/// The instructions of an object, by the first objdump that runs.
pub(super) fn objdump(obj: &[u8]) -> Result<String> {
    let no = |message: String| Error::NoCompiler {
        compiler: "objdump".into(),
        message,
    };
    let path = std::env::temp_dir().join(format!(
        "kernel-{}-{:x}.o",
        std::process::id(),
        obj.as_ptr() as usize
    ));
    std::fs::write(&path, obj).map_err(|e| no(format!("{}: {e}", path.display())))?;
    let mut said = String::new();
    for tool in ["llvm-objdump-22", "llvm-objdump", "objdump"] {
        match Command::new(tool)
            .args(["-d", "--no-show-raw-insn"])
            .arg(&path)
            .output()
        {
            Ok(out) if out.status.success() => {
                let _ = std::fs::remove_file(&path);
                return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
            }
            Ok(out) => said += &format!("{tool}: {}; ", out.status),
            Err(e) => said += &format!("{tool}: {e}; "),
        }
    }
    let _ = std::fs::remove_file(&path);
    Err(no(said))
}
