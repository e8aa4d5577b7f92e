//! The kernels of the suite for AMD GPUs, compiled by clang.

use std::io::Write;
use std::process::{Command, Stdio};

const SOURCE: &str = include_str!("amdgpu.c");

/// The object of all of them, for a chip (`gfx1100`).
///
/// # Errors
/// There is no clang of LLVM 22 (`clang-22`), or it does not know the chip: what it says.
pub fn object(chip: &str) -> Result<Vec<u8>, String> {
    let failed = |error| format!("clang-22, of LLVM 22, compiles these kernels: {error}");
    let mut clang = Command::new("clang-22")
        .args(["--target=amdgcn-amd-amdhsa", "-nogpulib", "-O1"])
        .arg(format!("-mcpu={chip}"))
        .args(["-x", "c", "-c", "-", "-o", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut source) = clang.stdin.take() {
        // One that ends early says why on its standard error.
        _ = source.write_all(SOURCE.as_bytes());
    }
    let run = clang.wait_with_output().map_err(failed)?;
    match run.status.success() {
        true => Ok(run.stdout),
        false => Err(format!(
            "{}{}",
            run.status,
            String::from_utf8_lossy(&run.stderr)
        )),
    }
}
