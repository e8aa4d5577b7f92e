//! What the processor of this machine has, by LLVM's names of features.

/// Levels of x86-64 with what each adds: "x86-64 psABI", section 3.1.1.
const LEVELS: [(&str, &[&str]); 3] = [
    (
        "x86-64-v2",
        &["cx16", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"],
    ),
    (
        "x86-64-v3",
        &[
            "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe",
        ],
    ),
    (
        "x86-64-v4",
        &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"],
    ),
];

/// The features of a list, separated by commas, each level as all that it has.
pub(crate) fn features(list: &str) -> impl Iterator<Item = &str> {
    let names = list.split(',').filter(|name| !name.is_empty());
    names.flat_map(|name| {
        let level = LEVELS.iter().position(|(level, _)| *level == name);
        let levels = LEVELS[..level.map_or(0, |level| level + 1)].iter();
        let own = level.is_none().then_some(name);
        levels.flat_map(|l| l.1).copied().chain(own)
    })
}

/// Those that this processor does not have. One whose name is unknown here counts as missing.
pub(crate) fn missing(list: &str) -> Vec<&str> {
    features(list).filter(|name| !has(name)).collect()
}

/// Asks for a feature by LLVM's name.
macro_rules! detect {
    ($ask:ident, $name:expr; $($rust:tt => $llvm:literal),* $(,)?) => {
        match $name {
            $($llvm => std::arch::$ask!($rust),)*
            _ => false,
        }
    };
}

#[cfg(target_arch = "x86_64")]
fn has(name: &str) -> bool {
    detect! { is_x86_feature_detected, name;
        "cmpxchg16b" => "cx16", "popcnt" => "popcnt", "sse3" => "sse3", "ssse3" => "ssse3",
        "sse4.1" => "sse4.1", "sse4.2" => "sse4.2", "avx" => "avx", "avx2" => "avx2", "bmi1" => "bmi",
        "bmi2" => "bmi2", "f16c" => "f16c", "fma" => "fma", "lzcnt" => "lzcnt", "movbe" => "movbe",
        "avx512f" => "avx512f", "avx512bw" => "avx512bw", "avx512cd" => "avx512cd",
        "avx512dq" => "avx512dq", "avx512vl" => "avx512vl", "avx512vnni" => "avx512vnni",
        "avx512vbmi" => "avx512vbmi", "avx512vbmi2" => "avx512vbmi2", "avxvnni" => "avxvnni",
    }
}

#[cfg(target_arch = "aarch64")]
fn has(name: &str) -> bool {
    detect! { is_aarch64_feature_detected, name;
        "dotprod" => "dotprod", "i8mm" => "i8mm",
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has(_: &str) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_features_are_missing() {
        assert_eq!(missing(""), Vec::<&str>::new());
        assert_eq!(missing("not-a-feature"), ["not-a-feature"]);
        assert_eq!(features("x86-64-v3,avxvnni").count(), 15);
        assert!(features("x86-64-v3").any(|name| name == "ssse3"));
    }
}
