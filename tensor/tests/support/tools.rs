//! LLVM's programs in place of its library, which there is for this machine and not for one that is emulated on it.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use codegen::compile::Compiler;
use codegen::render::{LlvmRenderer, Source};
use codegen::{Backend, Resources, Result, Target};

/// What the compiler in the process runs, too.
const PASSES: &str =
    "mem2reg,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),early-cse";

/// This machine, by `opt` and `llc`.
pub fn backend(cores: usize) -> Backend {
    Backend::new(
        Target::host(cores),
        Arc::new(LlvmRenderer),
        Some(Arc::new(Tools)),
    )
}

struct Tools;

impl Compiler for Tools {
    fn name(&self) -> &'static str {
        "llc"
    }

    fn version(&self) -> String {
        PASSES.into()
    }

    fn compile(&self, s: &Source, t: &Target) -> Result<Vec<u8>> {
        let machine = [
            format!("-mtriple={}", t.triple),
            format!("-mcpu={}", t.cpu),
            format!("-mattr={}", t.features),
        ];
        let mut opt = Command::new("opt-22");
        opt.arg(format!("-passes={PASSES}")).args(&machine);
        let mut llc = Command::new("llc-22");
        llc.args(["-O2", "-relocation-model=pic", "-filetype=obj"])
            .args(&machine);
        Ok(piped(&mut llc, &piped(&mut opt, s.text.as_bytes())))
    }

    fn resources(&self, _: &[u8], _: &Target, _: u32) -> Option<Resources> {
        None
    }

    fn disassemble(&self, _: &[u8]) -> Result<String> {
        Ok(String::new())
    }
}

/// What a program makes of a text. It reads all of it before it writes.
fn piped(program: &mut Command, text: &[u8]) -> Vec<u8> {
    program.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = program.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text).unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "{program:?}");
    done.stdout
}
