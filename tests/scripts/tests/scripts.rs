//! Scripts that run other people's programs on simulated devices, a test each, so that all cores have work.
//!
//! Only the profiles of scripts/test run them (`.config/nextest.toml`): they need what `scripts/fetch` downloads, and the
//! programs and libraries of a build of the whole workspace. `DOORBELL_LONG` in the environment runs all of each.

use std::path::Path;
use std::process::Command;

/// Runs a script of `scripts/`: one line of words, and another for the long run.
fn run(usual: &str, long: &str) {
    let words = match std::env::var_os("DOORBELL_LONG") {
        None => usual,
        Some(_) => long,
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut words = words.split_whitespace();
    let script = root.join("scripts").join(words.next().unwrap_or_default());
    let mut command = Command::new(&script);
    command
        .args(words)
        .current_dir(&root)
        .env("DOORBELL_BUILT", "1");
    let status = command
        .status()
        .unwrap_or_else(|e| panic!("cannot run {}: {e}", script.display()));
    assert!(status.success(), "{command:?}: {status}");
}

/// Tests with the words of a usual run and, where they differ, of a long one.
macro_rules! scripts {
    ($($name:ident: $usual:literal $(, $long:literal)?;)*) => {$(
        #[test]
        fn $name() {
            #[allow(unused_variables)]
            let long = $usual;
            $(let long = $long;)?
            run($usual, long);
        }
    )*};
}

scripts! {
    // The first example of README.md.
    outside: "outside --built", "outside";
    packages: "packages";
    // The Python package in a fresh environment.
    wheel: "wheel test";
    // AArch64, under emulation.
    cross: "cross", "cross --long";
    // tinygrad, a driver that is not ours.
    foreign_kfd: "foreign kfd", "foreign --long kfd";
    foreign_mutations: "foreign mutations", "foreign --long mutations";
    foreign_pci: "foreign pci", "foreign --long pci";
    foreign_nvk: "foreign nvk", "foreign --long nvk";
    foreign_nvk_mutations: "foreign nvk-mutations", "foreign --long nvk-mutations";
    foreign_qcom: "foreign-qcom buffers profile", "foreign-qcom --long buffers profile";
    foreign_qcom_images: "foreign-qcom images halves", "foreign-qcom --long images halves";
    // AMD's own runtimes.
    rocr: "rocr", "rocr --long";
    rocr_mistakes: "rocr-mistakes", "rocr-mistakes --long";
    // Mesa's disassembler of Adreno beside ours.
    ir3: "ir3 --test", "ir3 --long --test";
    // Mesa's drivers of Adreno.
    foreign_msm: "foreign-msm", "foreign-msm --long";
    // NVIDIA's own driver.
    cuda_ad102: "cuda-twin --chip ad102";
    cuda_ga102: "cuda-twin --chip ga102";
    cuda_h100: "cuda-twin --chip h100";
    // Doorbell on vendors' runtimes.
    cuda_device: "cuda-device", "cuda-device --long";
    hip_device: "hip-device", "hip-device --long";
    // FFmpeg's reading of HEVC streams beside ours.
    video: "video", "video --long";
    // What shall run on a card, rehearsed on simulated ones.
    silicon_sass: "silicon-sass dry-run sm_90", "silicon-sass dry-run";
    silicon_record: "silicon-record dry-run";
    silicon_nv: "silicon-nv dry-run";
}
