//! Registers: which there are, what they may be, and what has been written since a context has begun.
//!
//! Source: `drivers_spec::qcom::regs`, and `others`, from Mesa, src/freedreno/registers/adreno/a6xx.xml.

use std::collections::BTreeMap;

use drivers_spec::qcom::chip::Gen;
use drivers_spec::qcom::regs::{
    self, Reg, sp_cs_cntl_0, sp_cs_cntl_1, sp_cs_ndrange_0, sp_mode_cntl, tpl1_mode_cntl,
};
use twin::rule::{Proof, Rule};

use super::Broken;
use super::others;

static UNKNOWN: Rule = Rule {
    name: "CP-REGISTER",
    text: "a register is one that this chip has, of compute, or one that Mesa's drivers write beside; others are not \
           modelled",
    source: "this twin: drivers_spec::qcom::regs, src/cp/others.rs",
    proof: Proof::Twin,
};

static BITS: Rule = Rule {
    name: "CP-REGISTER-BITS",
    text: "bits of a register that no field has are zero",
    source: "Mesa, src/freedreno/registers/adreno/a6xx.xml",
    proof: Proof::Sourced,
};

static VALUE: Rule = Rule {
    name: "CP-REGISTER-VALUE",
    text: "a field of a register has one of its values, and an address is as aligned as its register says",
    source: "Mesa, src/freedreno/registers/adreno/a6xx.xml, enums and align of the register",
    proof: Proof::Sourced,
};

static READ_ONLY: Rule = Rule {
    name: "CP-REGISTER-READ-ONLY",
    text: "the always-on counter and performance counters are not written",
    source: "KGSL, adreno-gpulist.h, a630_protected_regs: 0x0 to 0x4ff and 0x8d0 to 0x98c are protected from writes",
    proof: Proof::Sourced,
};

static UNWRITTEN: Rule = Rule {
    name: "CP-REGISTER-UNWRITTEN",
    text: "a register that is read has been written by the context: with PREAMBLE it has no state of its own before",
    source: "KGSL, adreno_drawctxt.c, adreno_drawctxt_create: the client restores its state itself (PREAMBLE)",
    proof: Proof::Sourced,
};

/// Addresses that are more aligned than their register's width says: of the lower half.
const ALIGNED: &[(Reg, u32)] = &[
    (regs::SP_CS_BASE, 32),
    (regs::SP_CS_PVT_MEM_BASE, 32),
    (regs::SP_CS_SAMPLER_BASE, 16),
    (regs::SP_CS_TEXMEMOBJ_BASE, 64),
    (regs::SP_CS_UAV_BASE, 16),
    (regs::TPL1_CS_BORDER_COLOR_BASE, 128),
];

/// Performance counters: `A6XX_RBBM_PERFCTR_CP_0_LO` to the last of SP. Source: KGSL, a6xx_reg.h.
pub const COUNTERS: std::ops::Range<u32> = 0x400..0x4d6;

/// See the front page.
#[derive(Clone, Default)]
pub struct Registers(BTreeMap<u32, u32>);

/// A register that there is.
struct Known {
    name: &'static str,
    mask: u32,
    /// One of dispatches.
    reg: Option<&'static Reg>,
}

/// The register of an address.
fn find(chip: Gen, address: u32) -> Result<Known, Broken> {
    let reg = regs::at(address).filter(|reg| reg.word.on.has(chip));
    let known = reg.map(|reg| Known {
        name: reg.word.name,
        mask: reg.word.mask(chip),
        reg: Some(reg),
    });
    let other = || {
        others::at(address).map(|other| Known {
            name: other.name,
            mask: other.mask,
            reg: None,
        })
    };
    let found = known.or_else(other);
    found.ok_or_else(|| Broken::new(&UNKNOWN, format!("register {address:#x}")))
}

impl Registers {
    /// Writes one.
    ///
    /// # Errors
    /// The rule that is broken; the register is written all the same where it exists.
    pub fn write(&mut self, chip: Gen, address: u32, value: u32) -> Result<(), Broken> {
        let counter = regs::dword(&regs::CP_ALWAYS_ON_COUNTER);
        if COUNTERS.contains(&address) || (counter..counter + 2).contains(&address) {
            return Err(Broken::new(&READ_ONLY, format!("register {address:#x}")));
        }
        let Known { name, mask, reg } = find(chip, address)?;
        self.0.insert(address, value);
        let other = value & !mask;
        if other != 0 {
            let what = format!("{name} = {value:#x}: bits {other:#x}");
            return Err(Broken::new(&BITS, what));
        }
        match reg.and_then(|reg| illegal(reg, value)) {
            Some(why) => Err(Broken::new(&VALUE, format!("{name} = {value:#x}: {why}"))),
            None => Ok(()),
        }
    }

    /// One that has been written.
    pub fn get(&self, reg: &Reg) -> Option<u32> {
        self.0.get(&regs::dword(reg)).copied()
    }

    /// The value at an address.
    ///
    /// # Errors
    /// Nobody has written it, or there is none.
    pub fn read(&self, chip: Gen, address: u32) -> Result<u32, Broken> {
        let known = find(chip, address)?;
        let value = self.0.get(&address).copied();
        value.ok_or_else(|| Broken::new(&UNWRITTEN, format!("{} is read", known.name)))
    }

    /// One by its address that has been written.
    pub fn raw(&self, address: u32) -> Option<u32> {
        self.0.get(&address).copied()
    }

    /// 64 bits of two registers, by the address of the first.
    pub fn pair(&self, address: u32) -> Option<u64> {
        let (low, high) = (self.raw(address)?, self.raw(address + 1)?);
        Some(u64::from(high) << 32 | u64::from(low))
    }

    /// An address of two registers.
    pub fn address(&self, low: &Reg) -> Option<u64> {
        self.pair(regs::dword(low))
    }

    /// Another context begins.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Why a register cannot have a value.
fn illegal(reg: &Reg, value: u32) -> Option<String> {
    if let Some((_, align)) = ALIGNED.iter().find(|(aligned, _)| aligned == reg) {
        let fits = value.is_multiple_of(*align);
        return (!fits).then(|| format!("no multiple of {align}"));
    }
    let isam = |mode: u32| (!(1..=2).contains(&mode)).then(|| format!("ISAMMODE {mode}"));
    if *reg == regs::SP_MODE_CNTL {
        return isam(sp_mode_cntl::ISAMMODE.get(value));
    }
    if *reg == regs::TPL1_MODE_CNTL {
        return isam(tpl1_mode_cntl::ISAMMODE.get(value));
    }
    if *reg == regs::SP_CS_NDRANGE_0 {
        let dimensions = sp_cs_ndrange_0::KERNELDIM.get(value);
        return (dimensions == 0).then(|| "KERNELDIM 0".into());
    }
    if *reg == regs::SP_CS_CNTL_0 {
        let full = sp_cs_cntl_0::FULLREGFOOTPRINT.get(value);
        let half = sp_cs_cntl_0::HALFREGFOOTPRINT.get(value);
        let other = [
            sp_cs_cntl_0::UNK13,
            sp_cs_cntl_0::UNK21,
            sp_cs_cntl_0::UNK22,
        ];
        if other.iter().any(|field| field.get(value) != 0) {
            return Some("an unknown bit is set".into());
        }
        return (full > 48 || half > 48).then(|| "more registers than r0 to r47".into());
    }
    if reg.word.fields.contains(&sp_cs_cntl_1::CONSTANTRAMMODE) {
        let mode = sp_cs_cntl_1::CONSTANTRAMMODE.get(value);
        let known = mode <= sp_cs_cntl_1::CONSTLEN_256;
        return (!known).then(|| format!("CONSTANTRAMMODE {mode}"));
    }
    None
}

#[cfg(test)]
mod tests {
    use twin::fires::fires;

    use super::*;

    fn rule(done: Result<(), Broken>) -> Vec<&'static str> {
        done.err()
            .map(|broken| broken.rule.name)
            .into_iter()
            .collect()
    }

    #[test]
    fn registers_have_names_bits_and_values() {
        let mut all = Registers::default();
        let mut write = |address, value| rule(all.write(Gen::Gen1, address, value));
        assert_eq!(write(0xa9b0, 0x382), [""; 0]);
        fires("CP-REGISTER").only(&write(0xa9af, 0));
        // That of LPAC alone.
        fires("CP-REGISTER").only(&write(0xa9c2, 0));
        fires("CP-REGISTER-BITS").only(&write(0xa9ba, 0x100));
        fires("CP-REGISTER-VALUE").only(&write(0xa9b4, 16));
        fires("CP-REGISTER-VALUE").only(&write(0xab00, 1));
        fires("CP-REGISTER-VALUE").only(&write(0xa9b1, 3 << 5));
        fires("CP-REGISTER-VALUE").only(&write(0xa9b0, 49 << 7));
        fires("CP-REGISTER-VALUE").only(&write(0xb990, 0));
        fires("CP-REGISTER-READ-ONLY").only(&write(0x980, 0));
        fires("CP-REGISTER-READ-ONLY").only(&write(0x4a6, 0));
        assert_eq!(rule(all.write(Gen::Gen4, 0xa9c2, 0)), [""; 0]);
        // What was wrong has been written all the same.
        let unwritten = all.read(Gen::Gen1, 0xb997).map(drop);
        fires("CP-REGISTER-UNWRITTEN").only(&rule(unwritten));
        assert_eq!(
            all.read(Gen::Gen1, 0xa9b0).map_err(|b| b.rule.name),
            Ok(49 << 7)
        );
    }
}
