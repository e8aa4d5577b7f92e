//! The processor: cores this process may use, model, instruction sets.
//!
//! Everything is read from /proc; what is absent there (a container may hide it) is
//! `None` or empty here, never a guess.

use std::collections::BTreeSet;
use std::fs;
use std::thread;

/// The processor as this process sees it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CpuInfo {
    /// How many threads make progress at once: the affinity mask and the CPU quota of the control
    /// group are both honoured. At least 1.
    pub cores: usize,
    /// The name of the model, such as `AMD EPYC 9B14`; on Arm `implementer 0x41 part 0xd0c`.
    pub model: Option<String>,
    /// The instruction set extensions, in the kernel's spelling (`avx2`, `avx512f`, `asimd`).
    pub features: BTreeSet<String>,
}

impl CpuInfo {
    /// Reads everything again: the affinity of a process can change.
    pub fn read() -> CpuInfo {
        let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let (model, features) = parse_cpuinfo(&text);
        CpuInfo {
            // The standard library reads the affinity mask and both versions of control groups.
            cores: thread::available_parallelism().map_or(1, usize::from),
            model,
            features,
        }
    }

    /// Whether the processor and the kernel support an extension, in the kernel's spelling.
    pub fn has(&self, feature: &str) -> bool {
        self.features.contains(feature)
    }
}

/// Model and extensions of the first processor that /proc/cpuinfo describes.
fn parse_cpuinfo(text: &str) -> (Option<String>, BTreeSet<String>) {
    let field = |names: &[&str]| {
        text.lines()
            .filter_map(|line| line.split_once(':'))
            .find_map(|(key, value)| {
                (names.contains(&key.trim()) && !value.trim().is_empty()).then(|| value.trim())
            })
    };
    let arm = || {
        let (implementer, part) = (field(&["CPU implementer"])?, field(&["CPU part"])?);
        Some(format!("implementer {implementer} part {part}"))
    };
    let model = field(&["model name"]).map(str::to_string).or_else(arm);
    let features = field(&["flags", "Features"]).unwrap_or_default();
    (
        model,
        features.split_whitespace().map(str::to_string).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x86_lines_are_understood() {
        let text = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel\t\t: 17\n\
                    model name\t: AMD EPYC 9B14\nflags\t\t: fpu sse2 avx2\n\n\
                    processor\t: 1\nmodel name\t: other\nflags\t\t: fpu\n";
        let (model, features) = parse_cpuinfo(text);
        assert_eq!(model.as_deref(), Some("AMD EPYC 9B14"));
        assert_eq!(features, ["avx2", "fpu", "sse2"].map(String::from).into());
    }

    #[test]
    fn arm_lines_are_understood() {
        let text = "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n\
                    CPU architecture: 8\nCPU part\t: 0xd0c\n";
        let (model, features) = parse_cpuinfo(text);
        assert_eq!(model.as_deref(), Some("implementer 0x41 part 0xd0c"));
        assert_eq!(features, ["asimd", "fp"].map(String::from).into());
    }

    #[test]
    fn nothing_is_guessed() {
        assert_eq!(parse_cpuinfo(""), (None, BTreeSet::new()));
        assert_eq!(
            parse_cpuinfo("model name :\nflags :\n"),
            (None, BTreeSet::new())
        );
    }

    #[test]
    fn this_machine_has_a_core() {
        assert!(CpuInfo::read().cores >= 1);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_kernel_and_the_processor_agree() {
        let info = CpuInfo::read();
        assert!(info.has("sse2"), "x86-64 has SSE2");
        assert_eq!(
            info.has("avx2"),
            std::arch::is_x86_feature_detected!("avx2")
        );
        assert_eq!(
            info.has("avx512f"),
            std::arch::is_x86_feature_detected!("avx512f")
        );
    }
}
