//! The kernels of the suite of queues for NVIDIA's GPUs, compiled by NVRTC, or as they were packed: files
//! `CHIP.cubin` in the folder that `DOORBELL_KERNELS` says.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use codegen::Target;
use codegen::compile::{Compiler, NvrtcCompiler};
use codegen::render::{Language, Source};

use doorbell::Error;

/// Their source.
const SOURCE: &str = include_str!("kernels.cu");

/// The object with all kernels, for a chip.
///
/// # Errors
/// There is no NVRTC, and none were packed.
pub fn object(chip: &str) -> Result<Arc<[u8]>, Error> {
    if let Some(folder) = std::env::var_os("DOORBELL_KERNELS") {
        let file = PathBuf::from(folder).join(format!("{chip}.cubin"));
        if file.exists() {
            return Ok(std::fs::read(file)?.into());
        }
    }
    Ok(compile(chip)?.into())
}

fn compile(chip: &str) -> Result<Vec<u8>, Error> {
    let target = Target::nv(chip, 0)?;
    let source = Source {
        language: Language::Cuda,
        entry: "add".into(),
        text: SOURCE.into(),
    };
    Ok(NvrtcCompiler::find(&target)?.compile(&source, &target)?)
}

/// A file for each chip that there are facts of.
///
/// # Errors
/// As [`object`]; the folder cannot be written to.
pub fn write(folder: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(folder)?;
    for chip in Target::nv_chips() {
        std::fs::write(folder.join(format!("{chip}.cubin")), compile(chip)?)?;
    }
    Ok(())
}
