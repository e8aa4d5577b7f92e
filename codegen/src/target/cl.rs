//! Devices behind OpenCL, by what they say of themselves: a text that the driver makes ([`Target::cl`]).
//!
//! Nothing here is the data of one chip: costs are those of a GPU of medium size. What a device is refused for, or
//! spelled for, are the facts of the text.

use super::{Atomics, GroupCosts, RegisterFile, Target, TargetKind};
use crate::dtype::DType;
use crate::error::{Error, Result};

/// The architecture.
pub(crate) const ARCH: &str = "opencl";

/// What the text begins with.
const PREFIX: &str = "cl:";

/// What it may say, for errors.
const FORM: &str = "cl:local=BYTES,items=NUMBER,wave=NUMBER[,fp64][,fma][,denorm]";

/// Registers of a work-item: what most GPUs give to each of a full wave.
const REGISTERS: usize = 128;

/// Local memory that a group is given at most: processors say how large a cache of theirs is.
const LOCAL_BYTES: usize = 64 << 10;

const GROUPS: GroupCosts = GroupCosts {
    other_registers: 24,
    max_sums: 32,
    max_loads: 16,
    max_single_loads: [8, 8],
    max_products: 256,
    max_items: 256,
    address: 4.0,
    products: 64.0,
    matrix_products: [0.0; 4],
    local_bytes: 64.0,
    memory_bytes: 32.0,
    step_latency: 400.0,
    step_issue: 60.0,
    launch: 8000.0,
};

/// What a device has.
struct Facts {
    local: usize,
    items: usize,
    wave: usize,
    flags: Vec<&'static str>,
}

/// What changes how code is spelled.
const FLAGS: [&str; 3] = ["fp64", "fma", "denorm"];

/// Reads the text; none if it is no such text.
fn parse(text: &str) -> Option<Facts> {
    let (mut local, mut items, mut wave, mut flags) = (None, None, None, Vec::new());
    for word in text.strip_prefix(PREFIX)?.split(',') {
        match word.split_once('=') {
            Some(("local", bytes)) => local = Some(bytes.parse().ok()?),
            Some(("items", number)) => items = Some(number.parse().ok()?),
            Some(("wave", number)) => wave = Some(number.parse().ok()?),
            Some(_) => return None,
            None => flags.push(*FLAGS.iter().find(|flag| **flag == word)?),
        }
    }
    let facts = Facts {
        local: local?,
        items: items?,
        wave: wave?,
        flags,
    };
    (facts.items > 0 && facts.wave > 0).then_some(facts)
}

impl Target {
    /// A device behind OpenCL, by what it says of itself: `cl:local=32768,items=256,wave=32,fp64,fma,denorm`. `local`:
    /// bytes of local memory of a group; `items`: work-items of a group at most; `wave`: the multiple that groups are
    /// best made of; `fp64`: it computes with doubles; `fma`: fused products are instructions; `denorm`: subnormal
    /// numbers are numbers. `units` are its compute units; 0 stands for 8.
    ///
    /// # Errors
    /// Another text.
    pub fn cl(arch: &str, units: usize) -> Result<Target> {
        let Some(facts) = parse(arch) else {
            return Err(Error::NoTarget {
                name: arch.into(),
                known: FORM.into(),
            });
        };
        let doubles = facts.flags.contains(&"fp64");
        let items = facts.items.min(1024);
        // Costs are counted in waves of GPUs: a processor that wants multiples of 1 or 8 is given more.
        let wave = facts.wave.clamp(8, 64).min(items);
        Ok(Target {
            arch: ARCH.into(),
            triple: String::new(),
            kind: TargetKind::Gpu,
            cpu: arch.into(),
            features: facts.flags.join(","),
            vector_bytes: 16,
            vector_regs: REGISTERS,
            cores: if units > 0 { units } else { 8 },
            l1_bytes: 16 << 10,
            l2_bytes: 1 << 20,
            max_local_bytes: facts.local.min(LOCAL_BYTES),
            wave,
            max_items: items,
            // The number of a group is one number: launches have one dimension.
            max_groups: [u32::MAX, 1, 1],
            offset_bytes: 1 << 12,
            registers: Some(RegisterFile {
                per_simd: 1024,
                granule: 4,
                waves: 16,
                simds: 4,
                local_bytes: facts.local.min(LOCAL_BYTES) as u32,
                general: REGISTERS,
            }),
            groups: Some(GroupCosts {
                max_items: GROUPS.max_items.min(items as i64),
                ..GROUPS
            }),
            images: None,
            native: DType::ALL
                .into_iter()
                .filter(|&d| match d {
                    DType::F32 => true,
                    DType::F64 => doubles,
                    d => !d.is_float(),
                })
                .collect(),
            // `vload_half` and `vstore_half` are part of the language, without any extension.
            f16_convert: true,
            f8_convert: false,
            // 64 bits need an extension; sums of them are made of two steps.
            atomics: Atomics {
                sums: &[],
                swaps: 4,
            },
            any_order: true,
            mma: Vec::new(),
        })
    }

    /// Whether it is a device behind OpenCL.
    pub fn is_cl(&self) -> bool {
        self.arch == ARCH
    }

    /// Whether a device behind OpenCL has said a word of itself: `fp64`, `fma`, `denorm`.
    pub(crate) fn cl_has(&self, flag: &str) -> bool {
        self.is_cl() && self.features.split(',').any(|word| word == flag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_what_it_says() {
        let t = Target::cl("cl:local=32768,items=4096,wave=8,fp64,denorm", 2).unwrap();
        assert_eq!(
            (t.max_local_bytes, t.max_items, t.wave, t.cores),
            (32768, 1024, 8, 2)
        );
        assert!(t.is_cl() && !t.is_qcom() && t.native.contains(&DType::F64));
        assert!(t.cl_has("fp64") && t.cl_has("denorm") && !t.cl_has("fma"));
        let small = Target::cl("cl:local=16384,items=64,wave=128", 0).unwrap();
        assert_eq!((small.wave, small.groups.unwrap().max_items), (64, 64));
        assert!(!small.native.contains(&DType::F64));
        for wrong in [
            "gfx1100",
            "cl:",
            "cl:local=1,items=0,wave=1",
            "cl:local=1,items=1,wave=1,fp63",
            "cl:local=1,items=1",
        ] {
            let error = Target::cl(wrong, 0).err().unwrap().to_string();
            assert!(error.contains("cl:local=BYTES"), "{error}");
        }
    }
}
