//! Versions of NVIDIA's driver, which GSP's firmware and what is said to it follow.

use std::fmt;

/// A version: 570.144, 535.113.01.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version {
    /// The branch: 535, 550, 570.
    pub major: u16,
    /// What follows the first point.
    pub minor: u16,
    /// What follows the second point, if there is one.
    pub patch: Option<u8>,
}

/// A branch whose structures are known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Branch {
    /// 535: Turing to Hopper, without Hopper's FMC in packages of distributions.
    R535,
    /// 550.
    R550,
    /// 570: Turing to Blackwell.
    R570,
}

impl Version {
    /// The version that linux-firmware has had since 2023.
    pub const R535: Version = Version::new(535, 113, Some(1));
    /// The version that linux-firmware has had since 2025.
    pub const R570: Version = Version::new(570, 144, None);

    const fn new(major: u16, minor: u16, patch: Option<u8>) -> Version {
        Version {
            major,
            minor,
            patch,
        }
    }

    /// Reads a version as NVIDIA writes it.
    pub fn parse(text: &str) -> Option<Version> {
        // Leading signs would be numbers too, and a version is written in one way.
        let mut words = text.split('.');
        let digits = |word: &&str| word.bytes().all(|b| b.is_ascii_digit());
        let major = words.next().filter(digits)?.parse().ok()?;
        let minor = words.next().filter(digits)?.parse().ok()?;
        let patch = match words.next() {
            Some(word) => Some(Some(word).filter(digits)?.parse().ok()?),
            None => None,
        };
        let version = Version::new(major, minor, patch);
        (version.to_string() == text).then_some(version)
    }

    /// The version in the name of a file, if it has one: `gsp-570.144.bin`, `550.163.01/gsp_ga10x.bin`.
    pub fn of_name(name: &str) -> Option<Version> {
        let name = name.strip_suffix(".zst").unwrap_or(name);
        let name = name.strip_suffix(".xz").unwrap_or(name);
        let mut words = name.rsplit(['/', '\\']);
        let stem = words.next()?.strip_suffix(".bin")?;
        match stem.rsplit_once('-') {
            Some((_, version)) => Version::parse(version),
            None => words.next().and_then(Version::parse),
        }
    }

    /// Its branch, if its structures are known.
    pub fn branch(self) -> Option<Branch> {
        match self.major {
            535 => Some(Branch::R535),
            550 => Some(Branch::R550),
            570 => Some(Branch::R570),
            _ => None,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(f, ".{patch:02}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_in_one_way() {
        for text in ["535.113.01", "550.163.01", "570.144", "580.105.08"] {
            assert_eq!(Version::parse(text).unwrap().to_string(), text);
        }
        for text in [
            "",
            "570",
            "570.",
            "570.144.",
            "570.144.1",
            "+570.144",
            "570.144.01.1",
            "a.b",
            "70000.1",
        ] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
        assert!(Version::R535 < Version::R570);
        assert_eq!(Version::R570.branch(), Some(Branch::R570));
        assert_eq!(Version::parse("610.43.02").unwrap().branch(), None);
    }

    #[test]
    fn of_names() {
        let of = |name| Version::of_name(name).map(|v| v.to_string());
        assert_eq!(
            of("nvidia/ga102/gsp/gsp-570.144.bin.zst").as_deref(),
            Some("570.144")
        );
        assert_eq!(
            of("nvidia/550.163.01/gsp_ga10x.bin").as_deref(),
            Some("550.163.01")
        );
        assert_eq!(of("gsp_ga10x.bin"), None);
        assert_eq!(of("ga102/acr/ucode_asb.bin"), None);
    }
}
