//! The kernels of the suite of queues, compiled by NVRTC for NVIDIA's GPUs and by clang for AMD's, or as they were packed:
//! files `CHIP.cubin` and `CHIP.o` in the folder that `DOORBELL_KERNELS` says.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use codegen::Target;
use codegen::compile::{Compiler, NvrtcCompiler};
use codegen::render::{Language, Source};
use conformance::amdgpu;

use doorbell::Error;

/// Their source, for NVIDIA's.
const SOURCE: &str = include_str!("kernels.cu");

/// The object with all kernels, for a chip.
///
/// # Errors
/// There is no compiler, and none were packed.
pub fn object(chip: &str) -> Result<Arc<[u8]>, Error> {
    if let Some(folder) = std::env::var_os("DOORBELL_KERNELS") {
        let file = PathBuf::from(folder).join(name(chip));
        if file.exists() {
            return Ok(std::fs::read(file)?.into());
        }
    }
    Ok(compile(chip)?.into())
}

fn is_amd(chip: &str) -> bool {
    chip.starts_with("gfx")
}

fn name(chip: &str) -> String {
    let kind = if is_amd(chip) { "o" } else { "cubin" };
    format!("{chip}.{kind}")
}

fn compile(chip: &str) -> Result<Vec<u8>, Error> {
    if is_amd(chip) {
        return Ok(amdgpu::object(chip).map_err(io::Error::other)?);
    }
    let target = Target::nv(chip, 0)?;
    let source = Source {
        language: Language::Cuda,
        entry: "add".into(),
        text: SOURCE.into(),
    };
    Ok(NvrtcCompiler::find(&target)?.compile(&source, &target)?)
}

/// A file for each of some chips; if none is named, for each of NVIDIA's that there are facts of.
///
/// # Errors
/// As [`object`]; the folder cannot be written to.
pub fn write(folder: &Path, chips: &[String]) -> Result<(), Error> {
    std::fs::create_dir_all(folder)?;
    let mut all = chips.to_vec();
    if all.is_empty() {
        all.extend(Target::nv_chips().map(str::to_owned));
    }
    for chip in &all {
        std::fs::write(folder.join(name(chip)), compile(chip)?)?;
    }
    Ok(())
}
