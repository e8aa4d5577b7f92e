//! Running the program with nothing around it that it could find or spoil.

// Each test uses some of it.
#![allow(dead_code)]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A place to run in: a folder to work in, one for the cache, one for temporary files, a home.
pub struct Place(TempDir);

/// What a run gave.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Place {
    pub fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        for folder in ["work", "cache", "tmp", "home"] {
            fs::create_dir(place.path(folder)).unwrap();
        }
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The program with nothing in its environment but what it needs to run.
    pub fn command(&self, args: &[&str], env: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("XDG_CACHE_HOME", self.path("cache"))
            .env("TMPDIR", self.path("tmp"))
            .env("HOME", self.path("home"))
            .envs(env.iter().copied())
            .current_dir(self.path("work"))
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str], env: &[(&str, &str)]) -> Ran {
        let output = self.command(args, env).output().unwrap();
        let ran = Ran {
            code: output.status.code().expect("ended by a signal"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        };
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        ran
    }

    /// All files below a folder, relative to it.
    pub fn files(&self, folder: &str) -> BTreeSet<PathBuf> {
        let root = self.path(folder);
        let (mut files, mut open) = (BTreeSet::new(), vec![root.clone()]);
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    files.insert(path.strip_prefix(&root).unwrap().to_owned());
                }
            }
        }
        files
    }

    /// Nothing was written but these files in the working folder, and the cache if it may be used.
    pub fn wrote(&self, work: &[&str], cache: bool) {
        let wanted = work.iter().map(PathBuf::from).collect();
        assert_eq!(self.files("work"), wanted);
        assert_eq!(self.files("tmp"), BTreeSet::new());
        assert_eq!(self.files("home"), BTreeSet::new());
        let ours = ["doorbell/kernels", "doorbell/opencl"];
        let outside = |f: &PathBuf| !ours.iter().any(|ours| f.starts_with(ours));
        let cached = self.files("cache");
        assert!(!cached.iter().any(outside), "{cached:?}");
        assert!(cache || cached.is_empty(), "{cached:?}");
    }
}

/// The rows of a JSON answer, which is all of stdout.
pub fn rows(ran: &Ran, schema: &str) -> Vec<Value> {
    assert_eq!(ran.code, 0, "{}", ran.err);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(document["schema"], schema);
    document["rows"].as_array().unwrap().clone()
}

/// Runs a command on a device; it must succeed.
pub fn succeed(place: &Place, args: &[&str], env: &[(&str, &str)]) -> Ran {
    let ran = place.run(args, env);
    assert_eq!(ran.code, 0, "{args:?} {env:?}: {}", ran.err);
    ran
}

/// Where `scripts/fetch cuda` has put NVIDIA's compilers, as `CUDA_PATH`; nothing, which is said, if they are not there.
pub fn toolkit() -> Option<String> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/cuda");
    let root = root.display().to_string();
    if fs::exists(format!("{root}/fetched")).unwrap() {
        return Some(root);
    }
    println!("skipped: {root}: not there; scripts/fetch cuda fetches NVIDIA's compilers");
    None
}

/// The demonstration's losses on a device, one for each epoch.
pub fn losses(env: &[(&str, &str)]) -> Vec<f64> {
    let place = Place::new();
    let args = [
        "demo",
        "--epochs",
        "3",
        "--steps",
        "3",
        "--at-least",
        "0",
        "--save",
        "net.safetensors",
        "--export",
        "net.onnx",
    ];
    let ran = succeed(&place, &args, env);
    assert!(ran.out.contains("held-out accuracy: "), "{}", ran.out);
    place.wrote(&["net.onnx", "net.safetensors"], true);
    let lines = ran.err.lines().filter(|line| line.starts_with("epoch "));
    let losses: Vec<f64> = lines
        .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(losses.len(), 3, "{}", ran.err);
    losses
}
