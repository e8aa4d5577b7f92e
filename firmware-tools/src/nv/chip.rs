//! The files needed to boot a chip.

use super::version::Version;

/// How GSP is started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// FWSEC from the VBIOS on GSP's falcon, then the booter on SEC2.
    Booter,
    /// The FSP verifies an FMC, which starts GSP.
    Fsp,
}

/// A chip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chip {
    /// Its name, and that of the folder of its files.
    pub name: &'static str,
    /// The chip that it has its files of: the folder is a link.
    pub like: &'static str,
    /// The cards that have it.
    pub cards: &'static str,
    /// Which signature of GSP's firmware is for it: `.fwsignature_ga10x`.
    pub signature: &'static str,
    /// How GSP is started.
    pub start: Start,
}

/// Chips whose GSP is booted from files of distributions.
///
/// Source: NVIDIA's open kernel modules, nouveau/extract-firmware-nouveau.py (folders and links); Linux,
/// drivers/gpu/drm/nouveau/nvkm/subdev/gsp (signatures).
pub const CHIPS: [Chip; 17] = [
    chip(
        "ga102",
        "ga102",
        "GeForce RTX 3080 and 3090, A40",
        "ga10x",
        Start::Booter,
    ),
    chip(
        "ga103",
        "ga102",
        "GeForce RTX 3080 Ti mobile",
        "ga10x",
        Start::Booter,
    ),
    chip(
        "ga104",
        "ga102",
        "GeForce RTX 3060 Ti and 3070, A4000",
        "ga10x",
        Start::Booter,
    ),
    chip(
        "ga106",
        "ga102",
        "GeForce RTX 3060, A2000",
        "ga10x",
        Start::Booter,
    ),
    chip(
        "ga107",
        "ga102",
        "GeForce RTX 3050, A2",
        "ga10x",
        Start::Booter,
    ),
    chip(
        "ad102",
        "ad102",
        "GeForce RTX 4090, L40",
        "ad10x",
        Start::Booter,
    ),
    chip("ad103", "ad102", "GeForce RTX 4080", "ad10x", Start::Booter),
    chip(
        "ad104",
        "ad102",
        "GeForce RTX 4070, L4",
        "ad10x",
        Start::Booter,
    ),
    chip(
        "ad106",
        "ad102",
        "GeForce RTX 4060 Ti",
        "ad10x",
        Start::Booter,
    ),
    chip("ad107", "ad102", "GeForce RTX 4060", "ad10x", Start::Booter),
    chip("gh100", "gh100", "H100, H200", "gh100", Start::Fsp),
    chip("gb100", "gb100", "B100, B200", "gb10x", Start::Fsp),
    chip("gb202", "gb202", "GeForce RTX 5090", "gb20x", Start::Fsp),
    chip(
        "gb203",
        "gb202",
        "GeForce RTX 5080 and 5070 Ti",
        "gb20x",
        Start::Fsp,
    ),
    chip("gb205", "gb202", "GeForce RTX 5070", "gb20x", Start::Fsp),
    chip("gb206", "gb202", "GeForce RTX 5060 Ti", "gb20x", Start::Fsp),
    chip("gb207", "gb202", "GeForce RTX 5050", "gb20x", Start::Fsp),
];

const fn chip(
    name: &'static str,
    like: &'static str,
    cards: &'static str,
    signature: &'static str,
    start: Start,
) -> Chip {
    Chip {
        name,
        like,
        cards,
        signature,
        start,
    }
}

impl Chip {
    /// The chip of a name.
    pub fn of(name: &str) -> Option<Chip> {
        CHIPS.into_iter().find(|chip| chip.name == name)
    }

    /// The versions of which distributions have files for it, oldest first.
    pub fn versions(&self) -> &'static [Version] {
        match self.start {
            Start::Booter => &[Version::R535, Version::R570],
            Start::Fsp => &[Version::R570],
        }
    }

    /// The names of the files, below the vendor's folder, in the order in which a boot asks for them.
    pub fn boot_files(&self, version: Version) -> Vec<String> {
        let kinds: &[&str] = match self.start {
            Start::Booter => &["gsp", "bootloader", "booter_load", "booter_unload"],
            Start::Fsp => &["gsp", "bootloader", "fmc"],
        };
        let name = |kind| format!("{}/gsp/{kind}-{version}.bin", self.like);
        kinds.iter().map(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files() {
        let files = |name, version| Chip::of(name).unwrap().boot_files(version).join(" ");
        assert_eq!(
            files("ga104", Version::R535),
            "ga102/gsp/gsp-535.113.01.bin ga102/gsp/bootloader-535.113.01.bin \
             ga102/gsp/booter_load-535.113.01.bin ga102/gsp/booter_unload-535.113.01.bin"
        );
        assert_eq!(
            files("gb203", Version::R570),
            "gb202/gsp/gsp-570.144.bin gb202/gsp/bootloader-570.144.bin gb202/gsp/fmc-570.144.bin"
        );
        assert_eq!(Chip::of("gk20a"), None);
    }
}
