//! What the processor of this machine has, by LLVM's names of features.

/// The features of a list, separated by commas, that this processor does not have. One whose name is unknown here counts
/// as missing.
pub(crate) fn missing(features: &str) -> Vec<&str> {
    let names = features.split(',').filter(|name| !name.is_empty());
    names.filter(|name| !has(name)).collect()
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
    }
}
