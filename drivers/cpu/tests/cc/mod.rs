//! Kernels for tests, compiled from C by the system's compiler.

use std::process::Command;
use std::sync::Arc;

use hcq::{ArgLayout, KernelImage};

/// Compiles `source` with `compiler` and more flags; `None` if there is no such compiler.
pub fn compile_with(compiler: &str, flags: &[&str], source: &str) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let (c, o) = (folder.path().join("k.c"), folder.path().join("k.o"));
    std::fs::write(&c, source).unwrap();
    let run = Command::new(compiler)
        .args(["-c", "-ffreestanding", "-fno-stack-protector", "-w"])
        .args(flags)
        .args([&c, std::path::Path::new("-o"), &o])
        .output()
        .ok()?;
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    Some(std::fs::read(o).unwrap())
}

/// Compiles for this machine.
#[allow(dead_code)]
pub fn compile(flags: &[&str], source: &str) -> Vec<u8> {
    compile_with("cc", flags, source).expect("a C compiler is installed as cc")
}

/// The image of `kernel`, with `args` words of arguments.
#[allow(dead_code)]
pub fn image(source: &str, args: usize) -> KernelImage {
    KernelImage {
        name: "kernel".into(),
        arch: std::env::consts::ARCH.into(),
        bytes: Arc::from(compile(&["-O1", "-fPIC"], source)),
        entry: "kernel".into(),
        args: ArgLayout::buffers(args),
        local_bytes: 0,
    }
}
