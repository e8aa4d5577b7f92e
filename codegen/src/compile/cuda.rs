//! Finds CUDA tools in toolkits, and in Python packages that hold parts of one.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::checkout;
use crate::error::{Error, Result};
use crate::trust::Rights;

/// Folders of CUDA toolkits, in the order in which they are searched.
#[derive(Clone, Debug)]
pub struct Toolkits(Vec<PathBuf>);

impl Toolkits {
    /// In order: `CUDA_PATH`, `CUDA_HOME`, the active conda environment, `/usr/local/cuda`, `/opt/cuda`, other
    /// versions in `/usr/local` (newest first), and Python packages of the active virtual environment, this user
    /// and the system. If none of these variables is set, the last is what `scripts/fetch cuda` has fetched into the
    /// checkout that this program was built in.
    pub fn of_this_system() -> Toolkits {
        let named = ["CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX"]
            .into_iter()
            .filter_map(std::env::var_os);
        let mut roots: Vec<PathBuf> = named.filter(|v| !v.is_empty()).map(PathBuf::from).collect();
        let is_named = !roots.is_empty();
        roots.extend(["/usr/local/cuda", "/opt/cuda"].map(PathBuf::from));
        roots.extend(newest_first(entries(Path::new("/usr/local"), "cuda-")));
        let mut pythons: Vec<PathBuf> = Vec::new();
        pythons.extend(std::env::var_os("VIRTUAL_ENV").map(|v| PathBuf::from(v).join("lib")));
        pythons.extend(std::env::var_os("HOME").map(|v| PathBuf::from(v).join(".local/lib")));
        pythons.extend(["/usr/local/lib", "/usr/lib"].map(PathBuf::from));
        for lib in pythons {
            for python in entries(&lib, "python3") {
                for packages in ["site-packages", "dist-packages"] {
                    // A folder for a whole CUDA 13, one for each package of CUDA 12.
                    let nvidia = python.join(packages).join("nvidia");
                    let mut found = entries(&nvidia, "cu");
                    found.extend(entries(&nvidia, "nvjitlink"));
                    roots.extend(newest_first(found));
                }
            }
        }
        if !is_named {
            roots.extend(checkout::target_of("fetch").map(|target| target.join("cuda")));
        }
        Toolkits(roots)
    }

    /// Below one folder only.
    pub fn at(root: impl Into<PathBuf>) -> Toolkits {
        Toolkits(vec![root.into()])
    }

    /// Where a library with one of these names may be; the names by themselves come last, for the system's
    /// loader.
    pub(super) fn libraries(&self, names: &[&str]) -> Vec<PathBuf> {
        const FOLDERS: [&str; 3] = ["lib64", "lib", "targets/x86_64-linux/lib"];
        let folders = self.0.iter().flat_map(|root| FOLDERS.map(|f| root.join(f)));
        let found = folders.flat_map(|folder| names.iter().map(move |name| folder.join(name)));
        let found = found.filter(|path| path.exists());
        found.chain(names.iter().map(PathBuf::from)).collect()
    }

    /// A program of a toolkit, or by that name in the search path. `fix` says how to install it.
    ///
    /// # Errors
    /// It is not installed.
    pub(super) fn program(&self, name: &str, fix: &'static [&'static str]) -> Result<PathBuf> {
        let mut said = Vec::new();
        for path in self.0.iter().map(|root| root.join("bin").join(name)) {
            if !path.exists() {
                continue;
            }
            match Rights::own().vouch(&path) {
                Ok(real) => return Ok(real),
                Err(why) => said.push(format!("{} ({why})", path.display())),
            }
        }
        let search = std::env::var_os("PATH").unwrap_or_default();
        let mut search = std::env::split_paths(&search).map(|folder| folder.join(name));
        search
            .find(|path| path.is_file())
            .ok_or_else(|| Error::NoCompiler {
                compiler: name.into(),
                message: match said.as_slice() {
                    [] => "is not installed".into(),
                    said => format!("cannot be run: {}", said.join("; ")),
                },
                fix,
                looked_in: format!("PATH, {}", self.shown()),
            })
    }

    /// For messages.
    pub(super) fn shown(&self) -> String {
        let all: Vec<String> = self.0.iter().map(|p| p.display().to_string()).collect();
        format!("bin or lib of {}", all.join(", "))
    }
}

/// By the numbers in their names, the largest ones first.
fn newest_first(mut folders: Vec<PathBuf>) -> Vec<PathBuf> {
    let numbers = |path: &PathBuf| -> Vec<u32> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let parts = name.split(|c: char| !c.is_ascii_digit());
        parts.filter_map(|part| part.parse().ok()).collect()
    };
    folders.sort_by(|a, b| (numbers(b), b).cmp(&(numbers(a), a)));
    folders
}

/// The entries of a folder whose names begin so; none if it cannot be read.
fn entries(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let all = std::fs::read_dir(folder).into_iter().flatten().flatten();
    all.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .collect()
}

/// A file that is nowhere but in memory.
fn in_memory() -> std::io::Result<File> {
    Ok(File::from(memfd_create(
        c"doorbell",
        MFdFlags::MFD_CLOEXEC,
    )?))
}

/// Runs a tool that takes files by their names, on bytes: its standard input and output are files in memory, so
/// that nothing is left on the disk. What it wrote, or what it said.
pub(super) fn on_files(command: &mut Command, input: &[u8]) -> Result<Vec<u8>, String> {
    let mut run = || -> std::io::Result<Result<Vec<u8>, String>> {
        let (mut from, mut to) = (in_memory()?, in_memory()?);
        from.write_all(input)?;
        from.seek(SeekFrom::Start(0))?;
        let done = command
            .stdin(Stdio::from(from))
            .stdout(Stdio::from(to.try_clone()?))
            .stderr(Stdio::piped())
            .spawn()?
            .wait_with_output()?;
        let mut written = Vec::new();
        to.seek(SeekFrom::Start(0))?;
        to.read_to_end(&mut written)?;
        if done.status.success() {
            return Ok(Ok(written));
        }
        let said = [&done.stderr[..], &written].concat();
        let said = String::from_utf8_lossy(&said);
        Ok(Err(format!("{}: {}", done.status, said.trim())))
    };
    run().unwrap_or_else(|e| Err(e.to_string()))
}

/// The instructions of a cubin, by NVIDIA's disassembler.
pub(super) fn nvdisasm(toolkits: &Toolkits, cubin: &[u8]) -> Result<String> {
    let program = toolkits.program(
        "nvdisasm",
        &["pip install nvidia-cuda-nvdisasm, or install a CUDA 12 or 13 toolkit and set CUDA_PATH"],
    )?;
    let text = on_files(Command::new(program).args(["-c", "/dev/stdin"]), cubin);
    match text {
        Ok(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
        Err(message) => Err(Error::NoCompiler {
            compiler: "nvdisasm".into(),
            message: format!("failed: {message}"),
            fix: &[],
            looked_in: String::new(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_toolkits_come_first() {
        let names = [
            "cuda-9.2",
            "cuda-12.4",
            "cuda-12.10",
            "cuda-13",
            "cuda_nvrtc",
        ];
        let sorted = newest_first(names.map(PathBuf::from).into());
        let expected = [
            "cuda-13",
            "cuda-12.10",
            "cuda-12.4",
            "cuda-9.2",
            "cuda_nvrtc",
        ];
        assert_eq!(sorted, expected.map(PathBuf::from));
    }
}
