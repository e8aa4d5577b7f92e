//! What the keys of a card accept: microcode and images that NVIDIA has published, known by a sum of their bytes. The keys
//! are in chips, and nobody else can check a signature; a model can tell whether bytes are those that were signed, and
//! whether the signature is one that came with them.
//!
//! Source: the files of Debian's firmware-nvidia-graphics 20260916 (535.113.01, 570.144) and firmware-nvidia-gsp
//! 550.163.01; booters and boot loaders of 550.163.01 as OGKM's nouveau/extract-firmware-nouveau.py writes them. The code of
//! a booter is that of its first app.

use super::chip::Family;

/// What a booter does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Does {
    /// Starts GSP.
    Load,
    /// Takes WPR2 down.
    Unload,
}

/// Microcode that SEC2 runs with privileges.
#[derive(Clone, Debug)]
pub struct Booter {
    /// What it is called, for reports.
    pub name: &'static str,
    /// For which chips.
    pub family: Family,
    /// What it does.
    pub does: Does,
    /// The [`sum`] of its code, and how many bytes that is.
    pub code: (u64, usize),
    /// The version of the first signature, as fuses count them; each further one is 1 lower.
    pub fuse_version: u32,
    /// The sums of its signatures.
    pub signatures: Vec<u64>,
}

/// Which falcons may run booters: `engine_id` in all of their files.
pub const BOOTER_ENGINES: u32 = 1;
/// Which fuse they are held against: `ucode_id` in all of their files.
pub const BOOTER_UCODE: u32 = 3;
/// Bytes of a signature of RSA-3072.
pub const SIGNATURE: usize = 384;

/// GSP's firmware.
#[derive(Clone, Debug)]
pub struct Image {
    /// Its version.
    pub version: &'static str,
    /// The [`sum`] of `.fwimage`, and how many bytes that is.
    pub image: (u64, u64),
    /// The sums of its signatures, by family.
    pub signatures: Vec<(Family, u64)>,
}

/// The boot loader of GSP.
#[derive(Clone, Debug)]
pub struct Loader {
    /// For which chips.
    pub family: Family,
    /// The [`sum`] of its code, and how many bytes that is.
    pub code: (u64, u64),
    /// `monitorCodeOffset`, `monitorDataOffset` and `manifestOffset` of its descriptor.
    pub offsets: [u64; 3],
}

/// What FSP starts on GSP.
#[derive(Clone, Debug)]
pub struct Fmc {
    /// What it is called, for reports.
    pub name: &'static str,
    /// For which chips.
    pub family: Family,
    /// The [`sum`] of the section `image`, and how many bytes that is.
    pub image: (u64, u64),
    /// The sums of the sections `hash`, `publickey` and `signature`.
    pub hash: u64,
    /// The same of the key.
    pub key: u64,
    /// The same of the signature.
    pub signature: u64,
}

/// All that is accepted.
#[derive(Clone, Debug)]
pub struct Signed {
    /// Booters.
    pub booters: Vec<Booter>,
    /// Firmware.
    pub images: Vec<Image>,
    /// Boot loaders.
    pub loaders: Vec<Loader>,
    /// What FSP starts.
    pub fmcs: Vec<Fmc>,
}

/// A sum over bytes: FNV-1a of 64 bits, by words of 8 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sum(u64);

impl Default for Sum {
    fn default() -> Sum {
        Sum(0xcbf2_9ce4_8422_2325)
    }
}

impl Sum {
    /// With further bytes. All calls but the last have a multiple of 8; what lacks there is 0.
    pub fn add(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0 ^ u64::from_le_bytes(word)).wrapping_mul(0x100_0000_01b3);
        }
    }

    /// What it is.
    pub fn value(self) -> u64 {
        self.0
    }
}

/// The sum of bytes.
pub fn sum(bytes: &[u8]) -> u64 {
    let mut sum = Sum::default();
    sum.add(bytes);
    sum.value()
}

/// Name, family, what it does, sum and size of the code, sums of the signatures.
type Row = (&'static str, Family, Does, u64, usize, [u64; 2]);

const BOOTERS: [Row; 12] = [
    (
        "ga102 booter_load-535.113.01",
        Family::Ga10x,
        Does::Load,
        0x5b0d_0180_6414_5e70,
        0x8300,
        [0xfa56_8dfc_b4b4_56a1, 0xa09d_945a_1cd8_d6e5],
    ),
    (
        "ga102 booter_unload-535.113.01",
        Family::Ga10x,
        Does::Unload,
        0x7761_d32c_4b47_a3de,
        0x4900,
        [0x1cc0_3353_4efc_209a, 0xa09d_945a_1cd8_d6e5],
    ),
    (
        "ga102 booter_load-550.163.01",
        Family::Ga10x,
        Does::Load,
        0x5126_24a5_1845_4623,
        0x8900,
        [0xf64d_b91d_a1b7_43f1, 0xa09d_945a_1cd8_d6e5],
    ),
    (
        "ga102 booter_unload-550.163.01",
        Family::Ga10x,
        Does::Unload,
        0x19f0_8ce0_f17b_476c,
        0x4f00,
        [0x5af1_14ab_bd43_92ac, 0xa09d_945a_1cd8_d6e5],
    ),
    (
        "ga102 booter_load-570.144",
        Family::Ga10x,
        Does::Load,
        0xad0b_24d6_da21_4530,
        0x8900,
        [0x79c0_268b_1b2b_85c8, 0xa09d_945a_1cd8_d6e5],
    ),
    (
        "ga102 booter_unload-570.144",
        Family::Ga10x,
        Does::Unload,
        0x4246_4a5c_b874_48bf,
        0x4f00,
        [0x46a0_551d_a3fc_5c69, 0xa09d_945a_1cd8_d6e5],
    ),
    (
        "ad102 booter_load-535.113.01",
        Family::Ad10x,
        Does::Load,
        0x8f6e_7868_990f_366d,
        0x7600,
        [0xeeaa_1317_2cb2_7b84, 0x33f2_13df_3dfd_9bc8],
    ),
    (
        "ad102 booter_unload-535.113.01",
        Family::Ad10x,
        Does::Unload,
        0x0018_6eb2_9814_021c,
        0x4800,
        [0x9654_de22_039e_4350, 0x48cf_6365_0af3_0941],
    ),
    (
        "ad102 booter_load-550.163.01",
        Family::Ad10x,
        Does::Load,
        0x3b25_ad7e_27c7_1ce8,
        0x7d00,
        [0x5b4b_3604_fd24_050f, 0x5899_6bbf_d9e6_7139],
    ),
    (
        "ad102 booter_unload-550.163.01",
        Family::Ad10x,
        Does::Unload,
        0x369c_c263_ac66_1397,
        0x4f00,
        [0xa546_55e9_e2e3_f984, 0x990f_7dd8_f47f_bd8d],
    ),
    (
        "ad102 booter_load-570.144",
        Family::Ad10x,
        Does::Load,
        0x70fc_2f62_2d74_1688,
        0x7d00,
        [0xf16e_8119_0d2c_6020, 0x67a8_ee47_6329_2977],
    ),
    (
        "ad102 booter_unload-570.144",
        Family::Ad10x,
        Does::Unload,
        0xb118_84ad_a36a_1eed,
        0x4f00,
        [0x3b4b_ae81_b575_4998, 0x8f5f_a10f_5aab_a2a6],
    ),
];

/// Version, sum and size, signatures of the two families.
const IMAGES: [(&str, u64, u64, u64, u64); 3] = [
    (
        "535.113.01",
        0x5056_904e_6cde_1d4b,
        0x244_8000,
        0xff81_604c_7cf0_644e,
        0xf480_b648_bbab_90f3,
    ),
    (
        "550.163.01",
        0x8188_2a8a_00c9_e461,
        0x239_8000,
        0xa486_784d_cf93_e343,
        0xd8d3_c7bb_b1a1_39d9,
    ),
    (
        "570.144",
        0x4004_17ed_ab7e_2655,
        0x3c9_9000,
        0xfd7f_b9d7_90b9_a644,
        0x8ed4_7528_b86c_d4d8,
    ),
];

/// Family, sum and size, offset of the code. The loaders of 550.163.01 are those of 570.144.
const LOADERS: [(Family, u64, u64, u64); 4] = [
    (Family::Ga10x, 0x44d6_8bf5_a2a0_fbbd, 0x5000, 0x1800),
    (Family::Ga10x, 0x6c1c_bbcc_62b7_5e1b, 0x6000, 0x1800),
    (Family::Ad10x, 0x6e3d_3203_0428_33fb, 0x8000, 0x4800),
    (Family::Ad10x, 0x9dd9_821a_f3e0_3ab6, 0x9000, 0x4800),
];

/// Of 570.144, the first version that Hopper and Blackwell have files of: the family; the signature of the image; sum and
/// size of the loader, and the offset of its code; name, sum and size of the FMC, sums of its hash, key and signature.
type ByFsp = (
    Family,
    u64,
    (u64, u64, u64),
    (&'static str, u64, u64, [u64; 3]),
);

const BY_FSP: [ByFsp; 2] = [
    (
        Family::Gh100,
        0x8f66_341b_5e97_0351,
        (0x7dca_5601_c674_5d9e, 0x2_9000, 0xb100),
        (
            "gh100 fmc-570.144",
            0x775a_baa2_72cc_8226,
            0x2_8648,
            [
                0x3b9a_d750_4412_5d1b,
                0x051e_5bdb_9dec_78e2,
                0x17cf_e56e_4090_d245,
            ],
        ),
    ),
    (
        Family::Gb20x,
        0x5489_3346_f1a6_2f79,
        (0x1779_8fb1_fbc1_21b6, 0x3_1000, 0xb200),
        (
            "gb202 fmc-570.144",
            0x9884_ae6a_75b7_b9a2,
            0x3_0a48,
            [
                0xe8f1_989f_9065_aff5,
                0x7714_8a33_f3a7_4af5,
                0x9160_876b_cbf2_2c59,
            ],
        ),
    ),
];

impl Signed {
    /// What NVIDIA has published.
    pub fn published() -> Signed {
        let booters = BOOTERS
            .iter()
            .map(|(name, family, does, code, bytes, signatures)| Booter {
                name,
                family: *family,
                does: *does,
                code: (*code, *bytes),
                fuse_version: 1,
                signatures: signatures.to_vec(),
            });
        let images = IMAGES.iter().map(|(version, image, bytes, ga10x, ad10x)| {
            let mut signatures = vec![(Family::Ga10x, *ga10x), (Family::Ad10x, *ad10x)];
            if *version == "570.144" {
                signatures.extend(BY_FSP.map(|(family, signature, _, _)| (family, signature)));
            }
            Image {
                version,
                image: (*image, *bytes),
                signatures,
            }
        });
        let loader = |family, (code, bytes, at), data| Loader {
            family,
            code: (code, bytes),
            offsets: [at, data, 0],
        };
        let loaders = LOADERS.iter();
        let loaders =
            loaders.map(|(family, code, bytes, at)| loader(*family, (*code, *bytes, *at), 0x800));
        let by_fsp = BY_FSP.iter();
        let by_fsp = by_fsp.map(|(family, _, code, _)| loader(*family, *code, 0xa00));
        let fmcs = BY_FSP.iter();
        let fmcs = fmcs.map(|(family, _, _, (name, image, bytes, sums))| {
            let [hash, key, signature] = *sums;
            Fmc {
                name,
                family: *family,
                image: (*image, *bytes),
                hash,
                key,
                signature,
            }
        });
        Signed {
            booters: booters.collect(),
            images: images.collect(),
            loaders: loaders.chain(by_fsp).collect(),
            fmcs: fmcs.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_tells_bytes_apart() {
        // The published values of FNV-1a, of words instead of bytes.
        assert_eq!(sum(&[]), 0xcbf2_9ce4_8422_2325);
        let mut parts = Sum::default();
        parts.add(&[1; 16]);
        parts.add(&[2; 5]);
        let whole = [vec![1; 16], vec![2; 5], vec![0; 3]].concat();
        assert_eq!(parts.value(), sum(&whole));
        assert_ne!(sum(&[1; 8]), sum(&[1; 16]));
        let all = Signed::published();
        let mut sums: Vec<u64> = all.booters.iter().map(|booter| booter.code.0).collect();
        sums.sort_unstable();
        sums.dedup();
        assert_eq!(sums.len(), all.booters.len());
        assert_ne!(all.fmcs[0].hash, all.fmcs[1].hash);
    }
}
