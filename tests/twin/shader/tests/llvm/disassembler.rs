//! LLVM's disassembler.

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::sync::Once;

use inkwell::llvm_sys::disassembler::{
    LLVMCreateDisasmCPU, LLVMDisasmContextRef, LLVMDisasmDispose, LLVMDisasmInstruction,
};
use inkwell::llvm_sys::target::{
    LLVMInitializeAMDGPUTarget, LLVMInitializeAMDGPUTargetInfo, LLVMInitializeAMDGPUTargetMC,
};
use twin_shader::isa::Gen;

unsafe extern "C" {
    /// LLVM has it, `llvm_sys` does not list it.
    fn LLVMInitializeAMDGPUDisassembler();
}

/// LLVM's disassembler for one generation.
pub struct Disassembler(LLVMDisasmContextRef);

impl Disassembler {
    /// Makes one.
    pub fn new(generation: Gen) -> Self {
        static ONCE: Once = Once::new();
        // SAFETY: registers targets, once; nothing else uses LLVM before.
        ONCE.call_once(|| unsafe {
            LLVMInitializeAMDGPUTargetInfo();
            LLVMInitializeAMDGPUTarget();
            LLVMInitializeAMDGPUTargetMC();
            LLVMInitializeAMDGPUDisassembler();
        });
        let processor = CString::new(generation.processor()).unwrap();
        // SAFETY: the strings end in NUL and LLVM copies them; no callbacks are given.
        let context = unsafe {
            LLVMCreateDisasmCPU(
                c"amdgcn-amd-amdhsa".as_ptr(),
                processor.as_ptr(),
                ptr::null_mut(),
                0,
                None,
                None,
            )
        };
        assert!(!context.is_null(), "LLVM has no disassembler for AMDGPU");
        Self(context)
    }

    /// The instruction at the start of `words`: its text without the leading tab and without
    /// comments, one space after the mnemonic, and its length in dwords.
    pub fn text(&self, words: &[u32; 5]) -> Option<(String, usize)> {
        let mut bytes = [0; 20];
        for (to, from) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        let mut text = [0 as c_char; 512];
        // SAFETY: the context is alive; both buffers are passed with their sizes, and LLVM only reads
        // the first.
        let length = unsafe {
            LLVMDisasmInstruction(
                self.0,
                bytes.as_mut_ptr(),
                bytes.len() as u64,
                0,
                text.as_mut_ptr(),
                text.len(),
            )
        };
        if length == 0 {
            return None;
        }
        // SAFETY: LLVM ends the text with NUL.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) }.to_str().unwrap();
        // Comments stand after a semicolon.
        let text = text.split(';').next().unwrap_or(text).trim();
        let text = match text.split_once([' ', '\t']) {
            Some((mnemonic, rest)) => format!("{mnemonic} {}", rest.trim_start()),
            None => text.to_owned(),
        };
        Some((text, length / 4))
    }
}

impl Drop for Disassembler {
    fn drop(&mut self) {
        // SAFETY: made by `LLVMCreateDisasmCPU` and not used after.
        unsafe { LLVMDisasmDispose(self.0) }
    }
}
