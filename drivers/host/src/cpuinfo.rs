//! What the processor is: cores this process may use, model, caches, instruction sets.
//!
//! Everything is read from /proc and /sys; what is absent there (a container may hide it) is
//! `None` or empty here, never a guess.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
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
    /// The caches that the first processor sees, in the kernel's order, innermost first.
    pub caches: Vec<Cache>,
}

/// One cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cache {
    /// 1 for the innermost.
    pub level: u8,
    /// What it holds.
    pub kind: CacheKind,
    /// Capacity in bytes.
    pub bytes: usize,
    /// Size of a line in bytes.
    pub line: usize,
    /// How many logical processors share it.
    pub shared_by: usize,
}

/// What a cache holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

impl CpuInfo {
    /// Reads everything anew: the affinity of a process can change.
    pub fn read() -> CpuInfo {
        let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let (model, features) = parse_cpuinfo(&text);
        CpuInfo {
            // The standard library reads the affinity mask and both versions of control groups.
            cores: thread::available_parallelism().map_or(1, usize::from),
            model,
            features,
            caches: read_caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
        }
    }

    /// Whether the processor and the kernel support an extension, in the kernel's spelling.
    pub fn has(&self, feature: &str) -> bool {
        self.features.contains(feature)
    }

    /// Capacity in bytes of the cache of a level that holds data, where it is known.
    pub fn data_cache(&self, level: u8) -> Option<usize> {
        let holds_data = |c: &&Cache| c.level == level && c.kind != CacheKind::Instruction;
        self.caches.iter().find(holds_data).map(|c| c.bytes)
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

/// The `indexN` folders, in the order of N.
fn read_caches(folder: &Path) -> Vec<Cache> {
    (0..16)
        .map_while(|index| read_cache(&folder.join(format!("index{index}"))))
        .collect()
}

fn read_cache(folder: &Path) -> Option<Cache> {
    let read = |name| fs::read_to_string(folder.join(name)).ok();
    Some(Cache {
        level: read("level")?.trim().parse().ok()?,
        kind: match read("type")?.trim() {
            "Data" => CacheKind::Data,
            "Instruction" => CacheKind::Instruction,
            "Unified" => CacheKind::Unified,
            _ => return None,
        },
        bytes: parse_size(read("size")?.trim())?,
        line: read("coherency_line_size")?.trim().parse().ok()?,
        shared_by: count_list(read("shared_cpu_list")?.trim())?,
    })
}

/// `48K`, `2M` or plain bytes.
fn parse_size(text: &str) -> Option<usize> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<usize>().ok()?.checked_mul(unit)
}

/// How many numbers a list like `0-3,8` names.
fn count_list(text: &str) -> Option<usize> {
    text.split(',').try_fold(0usize, |count, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        count.checked_add(last.checked_sub(first)?)?.checked_add(1)
    })
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
        assert!(read_caches(Path::new("/nonexistent")).is_empty());
    }

    #[test]
    fn caches_are_read_until_the_first_gap() {
        let folder = tempfile::tempdir().unwrap();
        let put = |index: usize, level: &str, kind: &str, size: &str, shared: &str| {
            let at = folder.path().join(format!("index{index}"));
            fs::create_dir(&at).unwrap();
            let files = [
                ("level", level),
                ("type", kind),
                ("size", size),
                ("coherency_line_size", "64"),
                ("shared_cpu_list", shared),
            ];
            for (name, text) in files {
                fs::write(at.join(name), format!("{text}\n")).unwrap();
            }
        };
        put(0, "1", "Instruction", "32K", "0-1");
        put(1, "1", "Data", "48K", "0-1");
        put(2, "2", "Unified", "1M", "0,32");
        put(4, "9", "Unified", "1M", "0");
        let info = CpuInfo {
            caches: read_caches(folder.path()),
            ..CpuInfo::default()
        };
        assert_eq!(info.caches.len(), 3);
        assert_eq!(info.data_cache(1), Some(48 << 10));
        assert_eq!(info.data_cache(2), Some(1 << 20));
        assert_eq!(info.data_cache(3), None);
        assert_eq!(info.caches[2].shared_by, 2);
        assert_eq!(info.caches[2].line, 64);
    }

    #[test]
    fn sizes_and_lists() {
        for (text, expected) in [
            ("48K", Some(48 << 10)),
            ("2M", Some(2 << 20)),
            ("1G", Some(1 << 30)),
            ("512", Some(512)),
            ("", None),
            ("K", None),
            ("-1K", None),
            ("99999999999999999999K", None),
            ("18446744073709551615K", None),
            ("12\u{df}", None),
        ] {
            assert_eq!(parse_size(text), expected, "{text}");
        }
        for (text, expected) in [
            ("0", Some(1)),
            ("0-3", Some(4)),
            ("0-1,8-9,12", Some(5)),
            ("", None),
            ("3-0", None),
            ("0-", None),
            ("0-18446744073709551615", None),
        ] {
            assert_eq!(count_list(text), expected, "{text}");
        }
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
