//! Releases whose files are known by hash: those that the parsers are tested with.

use std::sync::LazyLock;

/// A file of a release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// The release, as Debian numbers it.
    pub release: &'static str,
    /// The file.
    pub name: &'static str,
    /// Its version.
    pub version: u32,
    /// SHA-256, 64 lower-case hex digits.
    pub sha256: &'static str,
}

/// The files that boots need, of Debian's firmware-amd-graphics; `scripts/firmware --known` writes
/// it.
static FILES: LazyLock<Vec<Known>> = LazyLock::new(|| {
    include_str!("../data/known.tsv")
        .lines()
        .filter_map(line)
        .collect()
});

fn line(line: &'static str) -> Option<Known> {
    let mut words = line.split('\t');
    let (release, name) = (words.next()?, words.next()?);
    let version = u32::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    let sha256 = words.next()?;
    Some(Known {
        release,
        name,
        version,
        sha256,
    })
}

/// The file in each release, oldest first.
pub fn releases(name: &str) -> Vec<Known> {
    FILES
        .iter()
        .filter(|known| known.name == name)
        .copied()
        .collect()
}

/// How a file compares with the releases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It is the file of this release.
    Of(&'static str),
    /// It has the version of this release, but other contents: it may be damaged.
    Differs(&'static str),
    /// An unknown release: older, newer, or damaged.
    Unknown,
}

/// The file of other names only that has this hash, if `name` is that of a file of a release: other chips may have the same.
pub(crate) fn with_other_name(name: &str, sha256: &str) -> Option<Known> {
    if releases(name).is_empty() {
        return None;
    }
    let mut same = FILES.iter().filter(|known| known.sha256 == sha256);
    let first = same.clone().next()?;
    same.all(|known| known.name != name).then_some(*first)
}

/// Compares a file with the releases, newest first.
pub fn standing(name: &str, version: u32, sha256: &str) -> Standing {
    let known = releases(name);
    let same = known.iter().rfind(|known| known.sha256 == sha256);
    let like = known.iter().rfind(|known| known.version == version);
    match (same, like) {
        (Some(known), _) => Standing::Of(known.release),
        (None, Some(known)) => Standing::Differs(known.release),
        (None, None) => Standing::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amd::chip::{CHIPS, Edition};

    #[test]
    fn every_line_is_read() {
        let lines = include_str!("../data/known.tsv").lines();
        assert_eq!(
            FILES.len(),
            lines.filter(|line| !line.starts_with('#')).count()
        );
        assert!(FILES.iter().all(|known| known.sha256.len() == 64));
    }

    #[test]
    fn standings() {
        let name = "gc_11_0_0_mec.bin";
        let known = releases(name);
        let [first, last] = &known[..] else {
            panic!("{known:?}")
        };
        let of = |version, hash| standing(name, version, hash);
        assert_eq!(of(first.version, first.sha256), Standing::Of(first.release));
        assert_eq!(of(last.version, "00"), Standing::Differs(last.release));
        assert_eq!(of(1, "00"), Standing::Unknown);
        assert_eq!(
            standing("x.bin", last.version, last.sha256),
            Standing::Unknown
        );
    }

    #[test]
    fn each_file_of_a_boot_is_known() {
        for chip in CHIPS {
            for name in chip.blocks.boot_files(Edition::Usual) {
                assert!(!releases(&name).is_empty(), "{name}");
            }
        }
    }
}
