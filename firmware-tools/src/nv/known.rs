//! Releases whose files are known by hash: those that the parsers are tested with.

use std::sync::LazyLock;

use super::chip::Chip;
use crate::manifest;
use crate::{Error, belongs};

/// A file of a release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// The package of Debian's.
    pub package: &'static str,
    /// Its version.
    pub release: &'static str,
    /// The file, below the vendor's folder.
    pub name: &'static str,
    /// SHA-256, 64 lower-case hex digits.
    pub sha256: &'static str,
}

/// The files for GSP in Debian's packages; `scripts/firmware-nvidia` writes it.
static FILES: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let lines = include_str!("../../data/nvidia.tsv").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .filter_map(line)
        .collect()
});

fn line(line: &'static str) -> Option<Known> {
    let mut words = line.split('\t');
    Some(Known {
        package: words.next()?,
        release: words.next()?,
        name: words.next()?,
        sha256: words.next()?,
    })
}

/// How a file compares with the releases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It is the file of this release.
    Of(Known),
    /// It has the name of a file of this release, but other contents: it may be damaged.
    Differs(Known),
    /// An unknown release: older, newer, or damaged.
    Unknown,
}

/// A name with the folder of the chip that its chip has its files of: in a package the one is a link to the other.
fn linked(name: &str) -> String {
    let parts = name.split('/');
    let parts: Vec<_> = parts
        .map(|part| Chip::of(part).map_or(part, |chip| chip.like))
        .collect();
    parts.join("/")
}

/// The file of other names only that has this hash, if `name` is that of a file of a release. Chips share files, under a name
/// each.
pub(crate) fn with_other_name(name: &str, sha256: &str) -> Option<Known> {
    let name = linked(name);
    if !FILES.iter().any(|known| is_named(&name, known)) {
        return None;
    }
    let mut same = FILES.iter().filter(|known| known.sha256 == sha256);
    let first = same.clone().next()?;
    same.all(|known| !is_named(&name, known)).then_some(*first)
}

/// Whether a file has the name of a known one, as far as both have folders.
fn is_named(name: &str, known: &Known) -> bool {
    let name = name.strip_suffix(".zst").unwrap_or(name);
    let name = name.strip_suffix(".xz").unwrap_or(name);
    let ends = |long: &str, short: &str| {
        let rest = long.strip_suffix(short);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    };
    ends(name, known.name) || ends(known.name, name)
}

/// Looks whether a file is one of another name: of another chip or version.
///
/// # Errors
/// [`Error::Other`], with what it is.
pub fn check(name: &str, bytes: &[u8]) -> Result<(), Error> {
    belongs::nvidia(name, &manifest::sha256(bytes))
}

/// Compares a file with the releases. `name` has as many of its folders as are known: chips have files of their own.
pub fn standing(name: &str, sha256: &str) -> Standing {
    let name = linked(name);
    let named = |known: &&Known| is_named(&name, known);
    let same = FILES
        .iter()
        .rfind(|known| named(known) && known.sha256 == sha256);
    match (same, FILES.iter().rfind(named)) {
        (Some(known), _) => Standing::Of(*known),
        (None, Some(known)) => Standing::Differs(*known),
        (None, None) => Standing::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nv::chip::CHIPS;

    #[test]
    fn every_line_is_read() {
        let lines = include_str!("../../data/nvidia.tsv").lines();
        assert_eq!(
            FILES.len(),
            lines.filter(|line| !line.starts_with('#')).count()
        );
        assert!(FILES.iter().all(|known| known.sha256.len() == 64));
    }

    #[test]
    fn standings() {
        let known = |name: &str| *FILES.iter().find(|known| known.name == name).unwrap();
        let ada = known("ad102/gsp/booter_load-570.144.bin");
        let ampere = known("ga102/gsp/booter_load-570.144.bin");
        assert_ne!(ada.sha256, ampere.sha256);
        assert_eq!(
            standing(
                "/x/nvidia/ad102/gsp/booter_load-570.144.bin.zst",
                ada.sha256
            ),
            Standing::Of(ada)
        );
        assert_eq!(
            standing("booter_load-570.144.bin", ampere.sha256),
            Standing::Of(ampere)
        );
        // A file of another chip is not the file of this one.
        assert_eq!(
            standing("ad102/gsp/booter_load-570.144.bin", ampere.sha256),
            Standing::Differs(ada)
        );
        assert_eq!(
            standing("booter_load-571.1.bin", ada.sha256),
            Standing::Unknown
        );
    }

    #[test]
    fn a_file_of_another_name_is_found() {
        let known = |name: &str| *FILES.iter().find(|known| known.name == name).unwrap();
        let ada = known("ad102/gsp/booter_load-570.144.bin");
        let other = |name: &str| with_other_name(name, ada.sha256).map(|known| known.name);
        // By its own name, with and without folders, and through the link of a chip that has the same files.
        for name in [
            "booter_load-570.144.bin",
            ada.name,
            "/x/nvidia/ad104/gsp/booter_load-570.144.bin.xz",
        ] {
            assert_eq!(other(name), None, "{name}");
        }
        for name in [
            "ga102/gsp/booter_load-570.144.bin",
            "/x/nvidia/ga104/gsp/booter_load-570.144.bin",
            "booter_unload-570.144.bin",
        ] {
            assert_eq!(other(name), Some(ada.name), "{name}");
        }
        // Nobody knows what is in a file of this name.
        assert_eq!(other("booter_load-571.1.bin"), None);
    }

    #[test]
    fn each_file_of_a_boot_is_known() {
        for chip in CHIPS {
            for version in chip.versions() {
                for name in chip.boot_files(*version) {
                    assert!(FILES.iter().any(|known| known.name == name), "{name}");
                }
            }
        }
    }
}
