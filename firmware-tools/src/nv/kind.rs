//! Determines the kind of a file from its name, as the kernel drivers do.

/// A kind of file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// GSP's firmware: `gsp-570.144.bin`, or as NVIDIA's driver has it, `gsp_ga10x.bin`.
    Gsp,
    /// What SEC2 runs to start or stop GSP, or to clear memory: `booter_load`, `booter_unload`, `scrubber`.
    Booter,
    /// What GSP starts with: `bootloader`.
    Loader,
    /// What falcons start with that cannot load by themselves: `gen_bootloader`, `acr/bl.bin`.
    FalconLoader,
    /// What the FSP starts GSP with on Hopper and later: `fmc`.
    Fmc,
    /// The ROM of a card: `*.rom`.
    Vbios,
    /// Of drivers that do without GSP: the access controller, NVDEC's scrubber.
    Bin(&'static str),
    /// Of drivers that do without GSP, without a header.
    Raw(&'static str),
}

/// Folders of a chip that hold files of drivers without GSP.
const RAW: [&str; 5] = ["gr", "sec2", "pmu", "typec", "gk20a"];

impl Kind {
    /// The kind of a file by its name, with or without folders and the ending of a compressor.
    pub fn of(name: &str) -> Option<Kind> {
        let name = name.strip_suffix(".zst").unwrap_or(name);
        let name = name.strip_suffix(".xz").unwrap_or(name);
        let mut words = name.rsplit(['/', '\\']);
        let file = words.next()?;
        let folder = words.next().unwrap_or_default();
        if file.ends_with(".rom") {
            return Some(Kind::Vbios);
        }
        if file.ends_with(".cyacd") {
            return Some(Kind::Raw("typec"));
        }
        let stem = file.strip_suffix(".bin")?;
        if stem == "gsp_ga10x" || stem == "gsp_tu10x" {
            return Some(Kind::Gsp);
        }
        if let Some((what, version)) = stem.rsplit_once('-')
            && version.starts_with(|c: char| c.is_ascii_digit())
        {
            let kind = match what {
                "gsp" => Some(Kind::Gsp),
                "booter_load" | "booter_unload" | "scrubber" => Some(Kind::Booter),
                "bootloader" => Some(Kind::Loader),
                "gen_bootloader" => Some(Kind::FalconLoader),
                "fmc" => Some(Kind::Fmc),
                _ => None,
            };
            if kind.is_some() {
                return kind;
            }
        }
        match (folder, stem) {
            ("acr", "bl" | "unload_bl") => Some(Kind::FalconLoader),
            ("acr", _) => Some(Kind::Bin("acr")),
            ("nvdec", "scrubber") => Some(Kind::Bin("nvdec scrubber")),
            _ => RAW.into_iter().find(|&raw| raw == folder).map(Kind::Raw),
        }
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Gsp => "gsp",
            Kind::Booter => "booter",
            Kind::Loader => "bootloader",
            Kind::FalconLoader => "falcon bootloader",
            Kind::Fmc => "fmc",
            Kind::Vbios => "vbios",
            Kind::Bin(name) | Kind::Raw(name) => name,
        }
    }

    /// Whether GSP is booted with it.
    pub fn used(self) -> bool {
        !matches!(self, Kind::Bin(_) | Kind::Raw(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, kind) in [
            ("nvidia/ga102/gsp/gsp-535.113.01.bin", Some(Kind::Gsp)),
            (
                "/lib/firmware/nvidia/550.163.01/gsp_ga10x.bin.zst",
                Some(Kind::Gsp),
            ),
            ("booter_unload-570.144.bin.xz", Some(Kind::Booter)),
            ("scrubber-570.144.bin", Some(Kind::Booter)),
            ("nvdec/scrubber.bin", Some(Kind::Bin("nvdec scrubber"))),
            ("gen_bootloader-570.144.bin", Some(Kind::FalconLoader)),
            ("tu102/acr/bl.bin", Some(Kind::FalconLoader)),
            ("bootloader-570.144.bin", Some(Kind::Loader)),
            ("fmc-570.144.bin", Some(Kind::Fmc)),
            ("card.rom", Some(Kind::Vbios)),
            ("ga102/gr/fecs_sig.bin", Some(Kind::Raw("gr"))),
            ("gp102/sec2/desc-1.bin", Some(Kind::Raw("sec2"))),
            ("tu10x/typec/ccg_boot.cyacd", Some(Kind::Raw("typec"))),
            ("gsp-x.bin", None),
            ("gc_11_0_0_mec.bin", None),
            ("psp_13_0_0_sos.bin", None),
            ("fmc-570.144", None),
        ] {
            assert_eq!(Kind::of(name), kind, "{name}");
        }
    }
}
