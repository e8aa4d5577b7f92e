//! Writes the Python methods of tensors, and their stubs, from the public methods of `tensor::Tensor`.

#[path = "build/methods.rs"]
mod methods;
#[path = "build/source.rs"]
mod source;

use std::path::Path;

fn main() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    println!("cargo:rerun-if-changed={}", top.display());
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build");
    let written = source::methods(&top).and_then(|all| {
        let (rust, stubs) = methods::written(&all);
        let out = std::env::var("OUT_DIR").map_err(|e| format!("OUT_DIR: {e}"))?;
        let write = |name: &str, text: String| {
            let path = Path::new(&out).join(name);
            std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
        };
        write("methods.rs", rust)?;
        write("methods.pyi", stubs)
    });
    if let Err(why) = written {
        eprintln!("doorbell-python: {why}");
        std::process::exit(1);
    }
}
