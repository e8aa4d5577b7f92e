//! Headers of packets.
//!
//! Source: Mesa, src/freedreno/registers/adreno/adreno_pm4.xml; KGSL, adreno_pm4types.h, `cp_type4_packet`,
//! `cp_type7_packet`: the parity bit of a field and the ones of the field are odd together.

use drivers_spec::qcom::chip::Gen;
use drivers_spec::qcom::packet::{HEADER4, HEADER7, REGISTERS_END, header4, header7};
use twin::rule::{Proof, Rule};

use super::Broken;

static TYPE: Rule = Rule {
    name: "CP-PACKET-TYPE",
    text: "a packet is of type 4 or 7",
    source: "Mesa, src/freedreno/registers/adreno/adreno_pm4.xml; KGSL, adreno_pm4types.h",
    proof: Proof::Sourced,
};

static PARITY: Rule = Rule {
    name: "CP-HEADER-PARITY",
    text: "counts, registers and operations in headers have their parity bits",
    source: "KGSL, adreno_pm4types.h, pm4_calc_odd_parity_bit",
    proof: Proof::Sourced,
};

static RESERVED: Rule = Rule {
    name: "CP-HEADER-RESERVED",
    text: "bits of a header that no field has are zero",
    source: "KGSL, adreno_pm4types.h, cp_type4_packet, cp_type7_packet",
    proof: Proof::Sourced,
};

static WHOLE: Rule = Rule {
    name: "CP-PACKET-WHOLE",
    text: "a packet ends where its indirect buffer ends, or before",
    source: "Mesa, src/freedreno/vulkan/tu_cs.cc, tu_cs_reserve_space: an entry has whole packets",
    proof: Proof::Sourced,
};

static RANGE: Rule = Rule {
    name: "CP-REGISTER-RANGE",
    text: "a packet of type 4 writes at least one register, and none above 2^18",
    source: "KGSL, adreno_pm4types.h, cp_type4_packet: 18 bits for the register",
    proof: Proof::Sourced,
};

/// A header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Header {
    /// Writes registers.
    Registers {
        /// The first.
        first: u32,
        /// How many.
        count: u32,
    },
    /// A command.
    Command {
        /// Its operation.
        op: u8,
        /// Dwords behind it.
        count: u32,
    },
}

impl Header {
    /// Dwords behind the header.
    pub fn count(self) -> u32 {
        match self {
            Header::Registers { count, .. } | Header::Command { count, .. } => count,
        }
    }
}

/// Whether the ones of a value and the bit beside it are odd in number.
fn odd(value: u32, bit: u32) -> bool {
    (value.count_ones() + bit) % 2 == 1
}

/// A header; `left` dwords are behind it.
///
/// # Errors
/// The rule that it breaks.
pub fn header(word: u32, left: usize) -> Result<Header, Broken> {
    let broken = |rule, what: &str| Err(Broken::new(rule, format!("header {word:#010x}: {what}")));
    let header = match header4::TYPE.get(word) {
        header4::TYPE4 => {
            if word & !HEADER4.mask(Gen::Gen1) != 0 {
                return broken(&RESERVED, "of type 4");
            }
            let (first, count) = (header4::REGISTER.get(word), header4::COUNT.get(word));
            if !odd(first, header4::REGISTER_PARITY.get(word)) {
                return broken(&PARITY, "of the register");
            }
            if !odd(count, header4::COUNT_PARITY.get(word)) {
                return broken(&PARITY, "of the count");
            }
            if count == 0 || first + count > REGISTERS_END {
                return broken(&RANGE, "type 4");
            }
            Header::Registers { first, count }
        }
        header7::TYPE7 => {
            if word & !HEADER7.mask(Gen::Gen1) != 0 {
                return broken(&RESERVED, "of type 7");
            }
            let (op, count) = (header7::OPCODE.get(word), header7::COUNT.get(word));
            if !odd(op, header7::OPCODE_PARITY.get(word)) {
                return broken(&PARITY, "of the operation");
            }
            if !odd(count, header7::COUNT_PARITY.get(word)) {
                return broken(&PARITY, "of the count");
            }
            Header::Command {
                op: op as u8,
                count,
            }
        }
        kind => return broken(&TYPE, &format!("type {kind}")),
    };
    if header.count() as usize > left {
        let what = format!("{left} of {} dwords follow", header.count());
        return broken(&WHOLE, &what);
    }
    Ok(header)
}

#[cfg(test)]
mod tests {
    use twin::fires::fires;

    use super::*;

    fn rule(word: u32, left: usize) -> Vec<&'static str> {
        header(word, left)
            .err()
            .map(|b| b.rule.name)
            .into_iter()
            .collect()
    }

    #[test]
    fn headers_are_checked() {
        let idle = Header::Command { op: 0x26, count: 0 };
        assert_eq!(header(0x7026_8000, 0), Ok(idle));
        let one = Header::Registers {
            first: 0xa9b0,
            count: 1,
        };
        assert_eq!(header(0x40a9_b001, 1), Ok(one));
        let twelve = Header::Registers {
            first: 0xb990,
            count: 12,
        };
        assert_eq!(header(0x40b9_908c, 12), Ok(twelve));
        fires("CP-PACKET-TYPE").only(&rule(0, 4));
        fires("CP-PACKET-TYPE").only(&rule(0xc000_0000, 4));
        fires("CP-HEADER-PARITY").only(&rule(0x7026_0000, 0));
        fires("CP-HEADER-PARITY").only(&rule(0x70a6_8000, 0));
        fires("CP-HEADER-PARITY").only(&rule(0x48a9_b001, 1));
        fires("CP-HEADER-PARITY").only(&rule(0x40a9_b081, 1));
        fires("CP-HEADER-RESERVED").only(&rule(0x7126_8000, 0));
        fires("CP-HEADER-RESERVED").only(&rule(0x44a9_b001, 1));
        fires("CP-PACKET-WHOLE").only(&rule(0x40b9_908c, 11));
        fires("CP-REGISTER-RANGE").only(&rule(0x40a9_b080, 4));
    }
}
