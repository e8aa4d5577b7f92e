//! Chip properties, as reported by the GPU. Properties of generations are tables of [`drivers_spec::nv::chip`].

use drivers_spec::nv::chip::{Arch, CHIPS, Facts};

/// A chip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chip {
    /// As the vendor calls it, in lower case: `gh100`.
    pub name: &'static str,
    /// What compilers compile for: `sm_90`.
    pub target: &'static str,
    /// The same as a number: 90.
    pub sm: u32,
    /// Its generation.
    pub arch: Arch,
}

/// How many there are of what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Units {
    /// Multiprocessors that are on.
    pub sms: u32,
    /// Graphics clusters, with those that are off: buffers of the hardware count them.
    pub gpcs: u32,
    /// TPCs of a cluster, likewise.
    pub tpcs_per_gpc: u32,
    /// Multiprocessors of a TPC.
    pub sms_per_tpc: u32,
    /// Warps that a multiprocessor holds.
    pub warps_per_sm: u32,
}

impl Chip {
    /// The chip of an architecture and implementation from RM (MC_GET_ARCH_INFO). `None` for an
    /// unknown one.
    pub fn by_id(id: (u32, u32)) -> Option<Chip> {
        let found = CHIPS.iter().find(|chip| chip.id == id)?;
        Some(Chip {
            name: found.name,
            target: target(found.sm)?,
            sm: found.sm,
            arch: found.arch,
        })
    }

    /// What its generation has.
    pub fn facts(&self) -> &'static Facts {
        self.arch.facts()
    }

    /// The names of every generation's targets that are described.
    pub fn supported() -> String {
        let mut names: Vec<_> = CHIPS.iter().filter_map(|chip| target(chip.sm)).collect();
        names.dedup();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }
}

/// The name that compilers have for a number.
fn target(sm: u32) -> Option<&'static str> {
    Some(match sm {
        80 => "sm_80",
        86 => "sm_86",
        89 => "sm_89",
        90 => "sm_90",
        100 => "sm_100",
        120 => "sm_120",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chip_of_the_tables_can_be_opened() {
        for chip in CHIPS {
            let found = Chip::by_id(chip.id).unwrap();
            assert_eq!((found.name, found.arch), (chip.name, chip.arch));
            assert_eq!(found.target, format!("sm_{}", chip.sm));
        }
        // Turing.
        assert_eq!(Chip::by_id((0x160, 2)), None);
        let all = Chip::supported();
        assert!(
            all.contains("sm_86") && all.contains("sm_90") && all.matches("sm_80").count() == 1
        );
    }
}
