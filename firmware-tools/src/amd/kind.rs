//! Determines the kind of a file from its name, because the header does not contain it.

/// A processor of the graphics block's front end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cp {
    /// The constant engine.
    Ce,
    /// The prefetch parser.
    Pfp,
    /// The micro engine.
    Me,
    /// The compute engine, with the number of its second instance where chips had two.
    Mec(u8),
}

/// A kind of file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The PSP's drivers and secure OS.
    PspOs,
    /// Trusted applications.
    PspTa,
    /// The driver of trusted applications.
    PspAsd,
    /// The table of contents of the trusted memory region.
    PspToc,
    /// The system management unit, with its tables.
    Smu,
    /// A processor of the graphics block.
    Cp(Cp),
    /// The run list controller.
    Rlc,
    /// The initialisation and management unit.
    Imu,
    /// The scheduler of queues, or the one of the kernel's queue.
    Mes {
        /// Of the kernel's queue.
        kiq: bool,
    },
    /// The copy engines that this file is for.
    Sdma {
        /// Which.
        engines: Engines,
    },
    /// A discovery table for chips that have none in their memory.
    Discovery,
    /// Not used for compute on chips that this project drives: video, display, image processing,
    /// memory controllers of chips without a PSP. Only the common header is read.
    Unused(&'static str),
}

/// Copy engines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engines {
    /// The first, or all of the chip where they are loaded once.
    First,
    /// The second.
    Second,
    /// Each of the four of a die.
    Four,
}

/// Blocks that compute does not need, as they are called in names of files.
const UNUSED: &[&str] = &[
    "dmcu", "dmcub", "info", "isp", "mc", "umsch", "uvd", "vce", "vcn", "vpe",
];

/// What a name may end with behind the block: other boards, other clocks, other signatures.
const VARIANTS: &[&str] = &["1", "2", "am4", "kicker", "sk", "wks"];

impl Kind {
    /// The kind of a file by its name, with or without folders and the ending of a compressor.
    pub fn of(name: &str) -> Option<Kind> {
        let name = name.rsplit('/').next().unwrap_or(name);
        let name = name.strip_suffix(".zst").unwrap_or(name);
        let name = name.strip_suffix(".xz").unwrap_or(name);
        let words: Vec<&str> = name.strip_suffix(".bin")?.split('_').collect();
        // sdma_6_0_0, smu_13_0_0_kicker: the block first, then its version.
        let digits = |word: &&str| word.bytes().all(|b| b.is_ascii_digit());
        let (first, second) = (*words.first()?, words.get(1)?);
        let versioned = digits(second) || (first == "umsch" && *second == "mm");
        if versioned && let Some(kind) = Kind::block(first, &words) {
            return Some(kind);
        }
        // gc_11_0_0_mec, polaris10_mec2_2, navi10_sos: the block last, but for variants.
        let last = words.iter().rposition(|word| !VARIANTS.contains(word))?;
        Kind::block(words[last], &words)
    }

    fn block(block: &str, words: &[&str]) -> Option<Kind> {
        // From 4.4.2 on, the four engines of a die are loaded under types of their own.
        let four = matches!(words, ["sdma", "4", "4", ..]);
        Some(match block {
            "sos" => Kind::PspOs,
            "ta" => Kind::PspTa,
            "asd" => Kind::PspAsd,
            "toc" => Kind::PspToc,
            "smc" | "smu" => Kind::Smu,
            "ce" => Kind::Cp(Cp::Ce),
            "pfp" => Kind::Cp(Cp::Pfp),
            "me" => Kind::Cp(Cp::Me),
            "mec" => Kind::Cp(Cp::Mec(1)),
            "mec2" => Kind::Cp(Cp::Mec(2)),
            "rlc" => Kind::Rlc,
            "imu" => Kind::Imu,
            "mes" => Kind::Mes { kiq: false },
            "mes1" => Kind::Mes { kiq: true },
            "sdma1" => Kind::Sdma {
                engines: Engines::Second,
            },
            "sdma" => Kind::Sdma {
                engines: if four { Engines::Four } else { Engines::First },
            },
            "discovery" => Kind::Discovery,
            _ => Kind::Unused(UNUSED.iter().find(|&&unused| unused == block)?),
        })
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::PspOs => "psp sos",
            Kind::PspTa => "psp ta",
            Kind::PspAsd => "psp asd",
            Kind::PspToc => "psp toc",
            Kind::Smu => "smu",
            Kind::Cp(Cp::Ce) => "cp ce",
            Kind::Cp(Cp::Pfp) => "cp pfp",
            Kind::Cp(Cp::Me) => "cp me",
            Kind::Cp(Cp::Mec(_)) => "cp mec",
            Kind::Rlc => "rlc",
            Kind::Imu => "imu",
            Kind::Mes { .. } => "mes",
            Kind::Sdma { .. } => "sdma",
            Kind::Discovery => "ip discovery",
            Kind::Unused("info") => "gpu_info",
            Kind::Unused(name) => name,
        }
    }

    /// Whether compute on a chip that this project drives may use it.
    pub fn used(self) -> bool {
        !matches!(self, Kind::Unused(_))
    }

    /// Whether every file of this kind that AMD publishes has the CRC-32 of its bytes in its
    /// header. Observed in Debian's firmware-amd-graphics 20250410 and 20260916.
    pub(super) fn keeps_checksum(self, header_major: u16) -> bool {
        match self {
            Kind::PspOs | Kind::PspTa | Kind::Cp(Cp::Mec(_)) => header_major >= 2,
            Kind::Cp(_) | Kind::Imu | Kind::Mes { .. } | Kind::Sdma { .. } => true,
            _ => false,
        }
    }
}
