//! LLVM assembly for NVIDIA's GPUs: in-process LLVM compiles it to PTX, NVIDIA's assembler does the rest.

use std::sync::Arc;

use inkwell::targets::FileType;

use super::{Compiler, LlvmCompiler, Toolkits, ptxas};
use crate::error::{Error, Result};
use crate::render::{Language, Source};
use crate::resources::Resources;
use crate::target::{Target, nv};

/// LLVM, and the assembler of its PTX.
pub struct NvptxCompiler {
    assembler: Arc<dyn Compiler>,
}

impl NvptxCompiler {
    /// With the assembler of a toolkit.
    ///
    /// # Errors
    /// It is not installed.
    pub fn of(toolkits: &Toolkits) -> Result<Self> {
        let assembler = ptxas::assembler(toolkits).map_err(|error| match error {
            Error::NoCompiler {
                message,
                fix,
                looked_in,
                ..
            } => Error::NoCompiler {
                compiler: "NV:LLVM".into(),
                message,
                fix,
                looked_in,
            },
            other => other,
        })?;
        Ok(NvptxCompiler { assembler })
    }
}

impl Compiler for NvptxCompiler {
    fn name(&self) -> &'static str {
        "nvptx"
    }

    fn version(&self) -> String {
        let (llvm, assembler) = (LlvmCompiler::new().version(), &self.assembler);
        format!("{llvm}, {} {}", assembler.name(), assembler.version())
    }

    fn release(&self) -> String {
        format!(
            "{}, {}",
            LlvmCompiler::new().release(),
            self.assembler.release()
        )
    }

    fn compile(&self, s: &Source, t: &Target) -> Result<Vec<u8>> {
        // LLVM takes the version of PTX for a feature.
        let on = Target {
            features: format!("+ptx{}", nv::ptx(t).replace('.', "")),
            ..t.clone()
        };
        let ptx = super::llvm::compile(s, &on, FileType::Assembly)?;
        let text = String::from_utf8(ptx).map_err(|e| Error::Compile {
            compiler: "nvptx",
            entry: s.entry.clone(),
            stage: "code generation",
            message: e.to_string(),
        })?;
        let ptx = Source {
            language: Language::Ptx,
            entry: s.entry.clone(),
            text,
        };
        self.assembler.compile(&ptx, t)
    }

    fn resources(&self, obj: &[u8], t: &Target, items: u32) -> Option<Resources> {
        self.assembler.resources(obj, t, items)
    }

    fn disassemble(&self, obj: &[u8]) -> Result<String> {
        self.assembler.disassemble(obj)
    }
}
