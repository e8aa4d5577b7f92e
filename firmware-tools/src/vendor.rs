//! Whose firmware a file is, by its name.

use std::path::Path;

use crate::{PACKAGES, amd, nv};

/// A vendor of GPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Vendor {
    /// AMD.
    Amd,
    /// NVIDIA.
    Nvidia,
}

impl Vendor {
    /// The vendor of a file by its [name](nv::Kind), or by the folder that it is in.
    pub fn of(name: &str) -> Vendor {
        let folder = |word| word == Vendor::Nvidia.folder();
        let by_name = (nv::Kind::of(name).is_some(), amd::Kind::of(name).is_some());
        match by_name {
            (true, _) => Vendor::Nvidia,
            (false, true) => Vendor::Amd,
            _ if name.split(['/', '\\']).any(folder) => Vendor::Nvidia,
            _ => Vendor::Amd,
        }
    }

    /// The folder of its files below those that the kernel searches.
    pub const fn folder(self) -> &'static str {
        match self {
            Vendor::Amd => "amdgpu",
            Vendor::Nvidia => "nvidia",
        }
    }

    /// The packages that have its files, for messages about missing or damaged ones.
    pub fn packages(self) -> &'static str {
        match self {
            Vendor::Amd => PACKAGES,
            Vendor::Nvidia => nv::PACKAGES,
        }
    }
}

/// The packages that have a file.
pub(crate) fn packages(path: &Path) -> &'static str {
    Vendor::of(&path.to_string_lossy()).packages()
}

/// What to do with a file that is damaged: a VBIOS is on the card.
pub(crate) fn remedy(name: &str) -> &'static str {
    if nv::Kind::of(name) == Some(nv::Kind::Vbios) || name.contains("VBIOS") {
        "read"
    } else {
        "install"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_name_then_by_folder() {
        for name in [
            "gsp-570.144.bin",
            "card.rom",
            "/lib/firmware/nvidia/x",
            "nvidia",
            "ga102/gr/fecs_sig.bin",
        ] {
            assert_eq!(Vendor::of(name), Vendor::Nvidia, "{name}");
        }
        for name in [
            "/home/nvidia/gc_11_0_0_mec.bin",
            "amdgpu/psp_13_0_0_sos.bin.xz",
            "x",
            ".",
        ] {
            assert_eq!(Vendor::of(name), Vendor::Amd, "{name}");
        }
    }
}
