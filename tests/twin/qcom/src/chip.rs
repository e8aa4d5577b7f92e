//! Chips that can be chosen, with what their kernels say of them besides [`drivers_spec::qcom::chip`].
//!
//! Source: ids, on-chip memory and bank bits: KGSL (qualcomm-linux/kgsl 27cf0e4), adreno-gpulist.h; caches of the CPU
//! that the GPU snoops: Linux, drivers/gpu/drm/msm/adreno/a6xx_catalog.c, ADRENO_QUIRK_HAS_CACHED_COHERENT (A619 and
//! A630 have none); frequencies: Linux, arch/arm64/boot/dts/qcom: sc7180, sm6350, sdm845, sm8150, sc7280, sm8250, sm8350
//! and sc8280xp.

use drivers_spec::qcom::chip as spec;
use twin_ir3::surface::Tiling;

/// A chip.
#[derive(Debug)]
pub struct Chip {
    /// The name in a config.
    pub name: &'static str,
    /// `chip_id`, with a patch level that there is.
    pub id: u32,
    /// How KGSL calls it in `gpu_model`.
    pub model: &'static str,
    /// `highest_bank_bit`.
    pub bank_bit: u32,
    /// Whether msm lets the GPU snoop the caches of the CPU.
    pub coherent: bool,
    /// Frequencies in MHz, from the highest down.
    pub mhz: &'static [u32],
}

/// Every one.
pub static CHIPS: &[Chip] = &[
    Chip {
        name: "a618",
        id: 0x0601_0800,
        model: "Adreno618v1",
        bank_bit: 14,
        coherent: true,
        mhz: &[800, 650, 565, 430, 355, 267, 180],
    },
    Chip {
        name: "a619",
        id: 0x0601_0900,
        model: "Adreno619v1",
        bank_bit: 14,
        coherent: false,
        mhz: &[850, 800, 650, 565, 430, 355, 253],
    },
    Chip {
        name: "a630",
        id: 0x0603_0001,
        model: "Adreno630v2",
        bank_bit: 15,
        coherent: false,
        mhz: &[710, 675, 596, 520, 414, 342, 257],
    },
    Chip {
        name: "a640",
        id: 0x0604_0001,
        model: "Adreno640v2",
        bank_bit: 15,
        coherent: true,
        mhz: &[675, 585, 499, 427, 345, 257],
    },
    Chip {
        name: "a643",
        id: 0x0603_0500,
        model: "Adreno643v1",
        bank_bit: 15,
        coherent: true,
        mhz: &[812, 700, 608, 550, 450, 315],
    },
    Chip {
        name: "a650",
        id: 0x0605_0002,
        model: "Adreno650v3",
        bank_bit: 16,
        coherent: true,
        mhz: &[587, 525, 490, 441, 400, 305],
    },
    Chip {
        name: "a660",
        id: 0x0606_0001,
        model: "Adreno660v2",
        bank_bit: 16,
        coherent: true,
        mhz: &[840, 778, 738, 676, 608, 540, 491, 443, 379, 315],
    },
    Chip {
        name: "a690",
        id: 0x0609_0000,
        model: "Adreno690v1",
        bank_bit: 16,
        coherent: true,
        mhz: &[690, 640, 606, 547, 500, 410, 270],
    },
];

impl Chip {
    /// The chip of a name; several have others, such as `a635`.
    pub fn by_name(name: &str) -> Option<&'static Chip> {
        let known = spec::by_name(name)?;
        CHIPS.iter().find(|chip| chip.spec() == known)
    }

    /// The names.
    pub fn names() -> String {
        let names: Vec<&str> = CHIPS.iter().map(|chip| chip.name).collect();
        names.join(", ")
    }

    /// What hardware it is.
    pub fn spec(&self) -> &'static spec::Chip {
        // Every id here is one of that table, as a test sees.
        spec::find(self.id).unwrap_or(&spec::CHIPS[0])
    }

    /// How images are tiled. Source: Linux, drivers/gpu/drm/msm/adreno/a6xx_gpu.c, `a6xx_calc_ubwc_config`: levels 2 and 3;
    /// macrotiles of 8 channels on A650 and later.
    pub fn tiling(&self) -> Tiling {
        Tiling {
            bank_bit: self.bank_bit,
            levels: 6,
            eight_channels: matches!(self.name, "a650" | "a660" | "a643" | "a690"),
        }
    }

    /// 630 and so on, as msm tells it; 0 where it has an id only. `adreno_get_param`: GPU_ID is `revn`.
    pub fn gpu_id(&self) -> u32 {
        match self.name {
            // Linux has no number for these two: only chip ids.
            "a643" | "a690" => 0,
            name => name[1..].parse().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_are_those_of_the_table() {
        for chip in CHIPS {
            let spec = spec::find(chip.id).unwrap();
            assert_eq!(spec.name.to_lowercase(), chip.name);
            assert!(std::ptr::eq(chip.spec(), spec));
            assert!(chip.mhz.is_sorted_by(|a, b| a > b), "{}", chip.name);
        }
        for name in ["a635", "a642l", "a643"] {
            assert_eq!(Chip::by_name(name).map(|chip| chip.name), Some("a643"));
        }
        assert!(Chip::by_name("a740").is_none());
        let a630 = Chip::by_name("a630").unwrap();
        assert_eq!(a630.gpu_id(), 630);
    }
}
