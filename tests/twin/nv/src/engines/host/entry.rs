//! Entries of the ring.
//!
//! Source: open-gpu-doc, manuals/ampere/ga100/dev_pbdma.ref.txt, chapter 2; classes/host/clc56f.h;
//! open-gpu-kernel-modules, kernel-open/nvidia-uvm/{clc86f,clc96f,clca6f}.h.

use drivers_spec::nv::chip::Arch;
use drivers_spec::nv::push::{
    GP_ENTRY0, GP_ENTRY1, PB_EXTENDED_BASE, gp_entry0, gp_entry1, opcode, pb_extended_base,
};
use twin::rule::{Proof, Rule};

use super::super::error::{Result, xid};
use super::super::port::Port;

static ENTRY: Rule = Rule {
    name: "HOST-GP-ENTRY",
    text: "a ring entry is a segment that ends within the address space, or an instruction that the host supports",
    source: "open-gpu-doc, manuals/ampere/ga100/dev_pbdma.ref.txt, chapter 2: NV_PPBDMA_INTR_0_GPENTRY",
    proof: Proof::Sourced,
};

static RESERVED: Rule = Rule {
    name: "HOST-GP-RESERVED",
    text: "unused bits of a ring entry are 0",
    source: "open-gpu-doc, classes/host/clc56f.h, NVC56F_GP_ENTRY0, GP_ENTRY1",
    proof: Proof::Sourced,
};

static CRC: Rule = Rule {
    name: "HOST-GP-CRC-NOT-MODELLED",
    text: "ring entries that check the ring or the push buffer are not modelled",
    source: "this twin: src/engines/host/entry.rs",
    proof: Proof::Twin,
};

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// Words at an address.
    Segment {
        va: u64,
        words: u32,
        /// Whether it is fetched only where the mask of subdevices has this one.
        conditional: bool,
    },
    /// Bits 56:40 of the addresses that follow.
    Base(u64),
    Nothing,
}

/// Reads an entry.
pub(super) fn entry(port: &Port, index: u32, bits: u64, base: u64) -> Result<Entry> {
    let (low, high) = (bits as u32, (bits >> 32) as u32);
    let text = format!("entry {index} of the ring, {bits:#018x}");
    let illegal = |why: String| Err(port.dead(&ENTRY, xid::PBDMA, format!("{text}: {why}")));
    let words = gp_entry1::LENGTH.get(high);
    if words == 0 {
        return match high & 0xff {
            opcode::NOP => Ok(Entry::Nothing),
            opcode::GP_CRC | opcode::PB_CRC => {
                port.broken(&CRC, text);
                Ok(Entry::Nothing)
            }
            opcode::SET_PB_SEGMENT_EXTENDED_BASE if port.arch >= Arch::Gh100 => {
                let rest = low & !PB_EXTENDED_BASE.mask(port.arch);
                if rest != 0 {
                    port.broken(&RESERVED, format!("{text}: bits {rest:#x} of the operand"));
                }
                Ok(Entry::Base(
                    u64::from(pb_extended_base::OPERAND.get(low)) << 40,
                ))
            }
            other => illegal(format!("instruction {other}")),
        };
    }
    let rest = (
        low & !GP_ENTRY0.mask(port.arch),
        high & !GP_ENTRY1.mask(port.arch),
    );
    if rest != (0, 0) {
        port.broken(
            &RESERVED,
            format!("{text}: bits {:#x} and {:#x}", rest.0, rest.1),
        );
    }
    let low = low & gp_entry0::GET.mask();
    let va = base | u64::from(gp_entry1::GET_HI.get(high)) << 32 | u64::from(low);
    let end = va + u64::from(words) * 4;
    // The last word of the address space is none: where the segment ends must be an address, too.
    let limit = 1u64 << port.arch.facts().va_bits;
    if end >= limit {
        return illegal(format!("{words} words at {va:#x} go past the end"));
    }
    Ok(Entry::Segment {
        va,
        words,
        conditional: gp_entry0::FETCH.get(bits as u32) == gp_entry0::FETCH_CONDITIONAL,
    })
}
