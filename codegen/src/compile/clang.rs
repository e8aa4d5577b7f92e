//! The clang program, for hosts without the LLVM library.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use super::Compiler;
use crate::error::{Error, Result};
use crate::render::{Language, Source};
use crate::resources::Resources;
use crate::target::{Target, TargetKind};

/// Compiles C for CPUs, and LLVM assembly for GPUs, by running clang once per kernel.
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
            message: "is not installed".into(),
            fix: &FIX,
            looked_in: "PATH".into(),
        }))
    }

    /// The clang at a path, or found by name in the search path.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
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
        let Some(version) = text
            .lines()
            .next()
            .filter(|l| out.status.success() && l.contains("clang"))
        else {
            return Err(no(format!(
                "is not clang: --version printed {:?}",
                text.trim()
            )));
        };
        let version = version.to_string();
        Ok(ClangCompiler { path, version })
    }
}

const FIX: [&str; 1] = ["apt-get install clang-22"];

/// Options for LLVM assembly of GPUs.
const IR_FLAGS: [&str; 4] = ["-x", "ir", "-O2", "-nogpulib"];
/// Options for HIP C++.
pub(super) const HIP_FLAGS: [&str; 10] = [
    "-O3",
    "-std=c++17",
    "-nogpuinc",
    "-nogpulib",
    "-fno-math-errno",
    "-ffp-contract=off",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fno-gpu-flush-denormals-to-zero",
    "-w",
];
/// Options for C. `-ffp-contract=off`: where a multiplication and an
/// addition may be one, the source says so. The device says at run time whether subnormal numbers are
/// zeros.
const FLAGS: [&str; 12] = [
    "-x",
    "c",
    "-std=gnu2x",
    "-O2",
    "-fPIC",
    "-ffreestanding",
    "-fno-math-errno",
    "-ffp-contract=off",
    "-fdenormal-fp-math=dynamic",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fno-stack-protector",
];

fn failed(s: &Source, stage: &'static str, message: String) -> Error {
    Error::Compile {
        compiler: "clang",
        entry: s.entry.clone(),
        stage,
        message,
    }
}

impl ClangCompiler {
    /// Gives the source to a command; what it writes.
    fn run(&self, mut command: Command, s: &Source) -> Result<Vec<u8>> {
        let out =
            piped(&mut command, s.text.as_bytes()).map_err(|e| failed(s, "run", e.to_string()))?;
        if !out.status.success() {
            let said = String::from_utf8_lossy(&out.stderr);
            let message = format!("{}: {}", out.status, said.trim());
            return Err(failed(s, "compile", message));
        }
        Ok(out.stdout)
    }
}

/// Features of a GPU as options of the driver. The size of waves is the default one.
pub(super) fn machine_options(t: &Target) -> Vec<String> {
    let names = t.features.split(',').filter_map(|f| f.strip_prefix('+'));
    let names = names.filter(|f| !f.starts_with("wavefrontsize"));
    names.map(|f| format!("-m{f}")).collect()
}

impl Compiler for ClangCompiler {
    fn name(&self) -> &'static str {
        "clang"
    }

    fn version(&self) -> String {
        let flags = [&FLAGS[..], &IR_FLAGS, &HIP_FLAGS].concat().join(" ");
        format!("{} {flags}", self.version)
    }

    fn release(&self) -> String {
        format!("{}, {}", self.version, self.path.display())
    }

    fn compile(&self, s: &Source, t: &Target) -> Result<Vec<u8>> {
        let mut command = Command::new(&self.path);
        match (s.language, t.kind) {
            (Language::C, TargetKind::Cpu) => {
                command.args(FLAGS).args(["-w", "-target", &t.triple]);
                if t.arch == "x86_64" {
                    command.arg(format!("-march={}", t.cpu));
                    command.arg(format!("-mprefer-vector-width={}", t.vector_bytes * 8));
                    for feature in t.features.split(',').filter_map(|f| f.strip_prefix('+')) {
                        command.arg(format!("-m{feature}"));
                    }
                }
            }
            // Features are attributes of the function.
            (Language::Llvm, TargetKind::Gpu) => {
                command.args(IR_FLAGS).args(["-w", "-target", &t.triple]);
                command.arg(format!("-mcpu={}", t.cpu));
            }
            // The driver would link an object: it makes LLVM assembly first.
            (Language::Hip, TargetKind::Gpu) => {
                command.args(["-x", "hip", "--offload-device-only"]);
                command.args(HIP_FLAGS);
                command.arg(format!("--offload-arch={}", t.cpu));
                command.args(machine_options(t));
                command.args(["-emit-llvm", "-S", "-", "-o", "-"]);
                let text = self.run(command, s)?;
                let assembly = Source {
                    language: Language::Llvm,
                    entry: s.entry.clone(),
                    text: String::from_utf8_lossy(&text).into_owned(),
                };
                return self.compile(&assembly, t);
            }
            (language, _) => {
                return Err(failed(
                    s,
                    "input",
                    format!(
                        "the clang backend cannot compile {language:?} source for {}",
                        t.arch
                    ),
                ));
            }
        }
        command.args(["-c", "-", "-o", "-"]);
        self.run(command, s)
    }

    fn resources(&self, obj: &[u8], t: &Target, items: u32) -> Option<Resources> {
        Resources::of_amdhsa(obj, t, items)
    }

    fn disassemble(&self, obj: &[u8]) -> Result<String> {
        objdump(obj)
    }
}

/// The instructions of an object, by the first llvm-objdump that runs. The object goes through a
/// pipe: nothing is left on the disk.
pub(super) fn objdump(obj: &[u8]) -> Result<String> {
    let mut said = Vec::new();
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
                said.push(format!("{tool}: {}: {}", out.status, why.trim()));
            }
            Err(e) => said.push(format!("{tool}: {e}")),
        }
    }
    Err(Error::NoCompiler {
        compiler: "llvm-objdump".into(),
        message: format!("cannot be run: {}", said.join("; ")),
        fix: &["apt-get install llvm-22"],
        looked_in: String::new(),
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
