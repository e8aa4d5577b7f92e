//! Processors: the one that runs this program, and others by name.
//!
//! Levels of x86-64: "x86-64 psABI", section 3.1.1, micro-architecture levels; Clang takes the same names.

use super::{Atomics, Target, TargetKind};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir::mma::MmaDesc;

/// What each level of x86-64 adds, by LLVM's names.
const LEVELS: [(&str, &[&str]); 4] = [
    ("x86-64", &[]),
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

/// Features beyond the levels that code is generated for.
const EXTENSIONS: [&str; 4] = ["avx512vnni", "avx512vbmi", "avx512vbmi2", "avxvnni"];

/// Features of AArch64 that code is generated for.
const ARM: [&str; 2] = ["dotprod", "i8mm"];

impl Target {
    /// The machine that runs this program, with its best instruction set.
    pub fn host(cores: usize) -> Target {
        let mut target = base(std::env::consts::ARCH, cores);
        target.l1_bytes = cache_bytes("index0").unwrap_or(target.l1_bytes);
        target.l2_bytes = cache_bytes("index2").unwrap_or(target.l2_bytes);
        #[cfg(target_arch = "x86_64")]
        with_x86(&mut target, &host_features());
        #[cfg(target_arch = "aarch64")]
        with_arm(&mut target, &host_features());
        tiles(&mut target);
        target
    }

    /// A processor by name, with the features that follow it: `x86_64`, `x86-64-v3`, `x86_64,avx2,fma`, `aarch64,dotprod`.
    /// A feature after a minus is left out.
    ///
    /// # Errors
    /// A name or a feature that is not known.
    pub fn cpu(name: &str, cores: usize) -> Result<Target> {
        let unknown = |known: String| Error::NoTarget {
            name: name.into(),
            known,
        };
        let mut words = name.split(',').map(str::trim);
        let first = words.next().unwrap_or_default().replace('_', "-");
        let is_arm = first == "aarch64";
        let level = LEVELS.iter().position(|(level, _)| *level == first);
        let names = || LEVELS.iter().map(|(level, _)| *level).chain(["aarch64"]);
        if !is_arm && level.is_none() {
            return Err(unknown(names().collect::<Vec<_>>().join(", ")));
        }
        let mut features: Vec<&str> = match level {
            Some(level) => LEVELS[..=level].iter().flat_map(|l| l.1).copied().collect(),
            None => Vec::new(),
        };
        let known: Vec<&str> = match is_arm {
            true => ARM.to_vec(),
            false => LEVELS
                .iter()
                .flat_map(|l| l.1)
                .chain(&EXTENSIONS)
                .copied()
                .collect(),
        };
        for word in words {
            let (on, feature) = match word.strip_prefix('-') {
                Some(feature) => (false, feature),
                None => (true, word.strip_prefix('+').unwrap_or(word)),
            };
            let Some(feature) = known.iter().find(|k| **k == feature) else {
                return Err(unknown(format!("features {}", known.join(", "))));
            };
            features.retain(|f| f != feature);
            if on {
                features.push(feature);
            }
        }
        let mut target = base(if is_arm { "aarch64" } else { "x86_64" }, cores);
        match is_arm {
            true => with_arm(&mut target, &features),
            false => with_x86(&mut target, &features),
        }
        tiles(&mut target);
        Ok(target)
    }

    /// What a processor needs to run code for this one: the level of x86-64, unless it is the first one, then what is in no
    /// level, by LLVM's names.
    pub fn required_features(&self) -> Vec<&str> {
        let level = LEVELS.iter().position(|(level, _)| *level == self.cpu);
        let implied: Vec<&str> = LEVELS
            .iter()
            .take(level.map_or(0, |level| level + 1))
            .flat_map(|l| l.1)
            .copied()
            .collect();
        let above = level.filter(|&level| level > 0);
        let mut needed: Vec<&str> = above.map(|level| LEVELS[level].0).into_iter().collect();
        let features = self.features.split(',');
        let features = features.map(|f| f.strip_prefix('+').unwrap_or(f));
        needed.extend(features.filter(|f| !f.is_empty() && !implied.contains(f)));
        needed
    }
}

/// A processor of an architecture with what all of its kind have.
fn base(arch: &str, cores: usize) -> Target {
    Target {
        arch: arch.into(),
        triple: format!("{arch}-unknown-linux-gnu"),
        kind: TargetKind::Cpu,
        cpu: "generic".into(),
        features: String::new(),
        vector_bytes: 16,
        vector_regs: 16,
        cores: cores.max(1),
        l1_bytes: 32 << 10,
        l2_bytes: 1 << 20,
        max_local_bytes: 0,
        wave: 1,
        max_items: 1,
        max_groups: [u32::MAX, 1, 1],
        offset_bytes: 0,
        registers: None,
        groups: None,
        images: None,
        native: vec![
            DType::Bool,
            DType::I8,
            DType::I16,
            DType::I32,
            DType::I64,
            DType::U8,
            DType::U16,
            DType::U32,
            DType::U64,
            DType::F32,
            DType::F64,
        ],
        f16_convert: false,
        f8_convert: false,
        atomics: Atomics {
            sums: &[],
            swaps: 8,
        },
        any_order: false,
        mma: Vec::new(),
    }
}

fn tiles(target: &mut Target) {
    let regs = target.vector_regs;
    // Integers through packed 32-bit operands: a product and a sum instead of one instruction.
    for acc in [DType::F32, DType::F64, DType::I32] {
        let lanes = target.vector_bytes / acc.size();
        if let Some((rows, vectors)) = outer_product_tile(regs) {
            target.mma.push(MmaDesc {
                m: rows as u16,
                n: (vectors * lanes) as u16,
                k: 1,
                operands: [acc; 2],
                acc,
                fragments: None,
            });
        }
    }
}

/// Rows and vectors per row of the accumulator tile with the most work per load that leaves room
/// for one row of B and one broadcast: `rows * vectors + vectors + 1 < regs`.
fn outer_product_tile(regs: usize) -> Option<(usize, usize)> {
    (2..=3)
        .filter_map(|vectors| {
            let rows = regs.checked_sub(vectors + 2)? / vectors;
            (rows > 0).then_some((rows, vectors))
        })
        .max_by(|a, b| {
            let score = |(r, v): (usize, usize)| (r * v) as f64 / (r + v) as f64;
            score(*a).total_cmp(&score(*b))
        })
}

/// Size of a cache of core 0, as Linux describes it in
/// `/sys/devices/system/cpu/cpu0/cache/<index>/size` ("48K").
fn cache_bytes(index: &str) -> Option<usize> {
    let path = format!("/sys/devices/system/cpu/cpu0/cache/{index}/size");
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    let (digits, scale) = match text.strip_suffix('K') {
        Some(d) => (d, 1 << 10),
        None => match text.strip_suffix('M') {
            Some(d) => (d, 1 << 20),
            None => (text, 1),
        },
    };
    digits.parse::<usize>().ok()?.checked_mul(scale)
}

fn listed(features: &[&str]) -> String {
    let list: Vec<String> = features.iter().map(|f| format!("+{f}")).collect();
    list.join(",")
}

fn with_x86(target: &mut Target, features: &[&str]) {
    let has = |name: &str| features.contains(&name);
    target.features = listed(features);
    target.cpu = "x86-64".into();
    if has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl") {
        target.cpu = "x86-64-v4".into();
        target.vector_bytes = 64;
        target.vector_regs = 32;
    } else if has("avx2") && has("fma") {
        target.cpu = "x86-64-v3".into();
        target.vector_bytes = 32;
    }
    target.f16_convert = has("f16c");
}

fn with_arm(target: &mut Target, features: &[&str]) {
    // Every 64-bit Arm core has 32 vector registers of 16 bytes.
    target.vector_regs = 32;
    target.f16_convert = true;
    target.features = listed(features);
}

#[cfg(target_arch = "x86_64")]
fn host_features() -> Vec<&'static str> {
    // Detection looks at CPUID and at what the kernel saves on a context switch.
    macro_rules! detect {
        ($($rust:tt => $llvm:literal),* $(,)?) => {
            [$(($llvm, std::arch::is_x86_feature_detected!($rust))),*]
        };
    }
    let found = detect! {
        "sse3" => "sse3", "ssse3" => "ssse3", "sse4.1" => "sse4.1", "sse4.2" => "sse4.2",
        "popcnt" => "popcnt", "avx" => "avx", "avx2" => "avx2", "fma" => "fma", "f16c" => "f16c",
        "bmi1" => "bmi", "bmi2" => "bmi2", "lzcnt" => "lzcnt", "avx512f" => "avx512f",
        "avx512bw" => "avx512bw", "avx512cd" => "avx512cd", "avx512dq" => "avx512dq",
        "avx512vl" => "avx512vl", "avx512vnni" => "avx512vnni", "avx512vbmi" => "avx512vbmi",
        "avx512vbmi2" => "avx512vbmi2", "avxvnni" => "avxvnni",
    };
    let on = found.into_iter().filter(|(_, on)| *on);
    on.map(|(name, _)| name).collect()
}

#[cfg(target_arch = "aarch64")]
fn host_features() -> Vec<&'static str> {
    let found = [
        (
            "dotprod",
            std::arch::is_aarch64_feature_detected!("dotprod"),
        ),
        ("i8mm", std::arch::is_aarch64_feature_detected!("i8mm")),
    ];
    let on = found.into_iter().filter(|(_, on)| *on);
    on.map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_fit_the_registers() {
        // 27 products for 12 operands; two vectors would be 28 for 16.
        assert_eq!(outer_product_tile(32), Some((9, 3)));
        for regs in [16, 32] {
            let (rows, vectors) = outer_product_tile(regs).unwrap();
            assert!(rows * vectors + vectors + 1 < regs);
        }
        assert_eq!(outer_product_tile(2), None);
    }

    #[test]
    fn processors_are_found_by_name() {
        let of = |name: &str| Target::cpu(name, 4).unwrap();
        let baseline = of("x86_64");
        assert_eq!((&*baseline.cpu, baseline.vector_bytes), ("x86-64", 16));
        assert_eq!(baseline.required_features(), Vec::<&str>::new());
        let v3 = of("x86-64-v3");
        assert_eq!((&*v3.cpu, v3.vector_bytes), ("x86-64-v3", 32));
        assert_eq!(v3.required_features(), ["x86-64-v3"]);
        assert!(v3.f16_convert);
        let without = of("x86-64-v4,-avx512vl,avx512vnni");
        assert_eq!((&*without.cpu, without.vector_bytes), ("x86-64-v3", 32));
        let needed = without.required_features();
        assert_eq!(needed[..2], ["x86-64-v3", "avx512f"]);
        assert!(needed.contains(&"avx512vnni") && !needed.contains(&"avx512vl"));
        // The level that its name stands for has it all the same: Clang is told the name.
        assert_eq!(of("x86_64,avx2,fma").required_features(), ["x86-64-v3"]);
        let arm = of("aarch64,dotprod");
        assert_eq!((&*arm.arch, &*arm.features), ("aarch64", "+dotprod"));
        assert_eq!(arm.required_features(), ["dotprod"]);
        for wrong in ["riscv64", "aarch64,avx2", "x86_64,neon", ""] {
            assert!(Target::cpu(wrong, 1).is_err(), "{wrong}");
        }
    }
}
