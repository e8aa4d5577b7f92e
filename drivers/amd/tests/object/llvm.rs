//! Objects for tests, made by clang and ld.lld.

use std::path::PathBuf;
use std::process::Command;

fn tool(name: &str) -> Command {
    let prefix = std::env::var_os("LLVM_SYS_221_PREFIX");
    let prefix = prefix.map_or_else(|| PathBuf::from("/usr/lib/llvm-22"), PathBuf::from);
    Command::new(prefix.join("bin").join(name))
}

fn run(mut command: Command) {
    let out = command.output().expect("LLVM 22 is installed");
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {text}");
}

/// Compiles C for a chip, unlinked.
pub fn compile(chip: &str, flags: &[&str], source: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (c, o) = (folder.path().join("k.c"), folder.path().join("k.o"));
    std::fs::write(&c, source).unwrap();
    let mut clang = tool("clang");
    clang
        .args([
            "-target",
            "amdgcn-amd-amdhsa",
            "-nogpulib",
            "-O2",
            "-w",
            "-c",
        ])
        .arg(format!("-mcpu={chip}"))
        .args(flags)
        .args([c.as_path(), "-o".as_ref(), &o]);
    run(clang);
    std::fs::read(o).unwrap()
}

/// Links an object by itself.
pub fn link(object: &[u8]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (o, so) = (folder.path().join("k.o"), folder.path().join("k.so"));
    std::fs::write(&o, object).unwrap();
    let mut lld = tool("ld.lld");
    lld.arg("-shared").args([o.as_path(), "-o".as_ref(), &so]);
    run(lld);
    std::fs::read(so).unwrap()
}
