//! What compiling leaves in memory.
#![cfg(all(feature = "llvm", target_os = "linux"))]
use codegen::Target;
use codegen::compile::{Compiler, LlvmCompiler};
use codegen::render::{Language, Source};

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

#[test]
fn a_compiled_text_is_given_back() {
    let target = Target::host(1);
    let padding = "; a line that the parser skips\n".repeat(8 << 10);
    let source = Source {
        language: Language::Llvm,
        entry: "kernel".into(),
        text: format!("{padding}define void @kernel() {{ ret void }}\n"),
    };
    let compile = || LlvmCompiler::new().compile(&source, &target).unwrap();
    // The first ones bring in the library.
    for _ in 0..8 {
        compile();
    }
    let before = resident();
    for _ in 0..400 {
        compile();
    }
    let more = resident().saturating_sub(before);
    let text = source.text.len();
    assert!(
        more < 100 * text,
        "400 compilations of {text} bytes of text left {more} bytes in memory"
    );
}
