//! Fault status of a memory hub.
//!
//! Source: Linux, drivers/gpu/drm/amd/amdgpu: gfxhub_v12_0.c (`print_l2_protection_fault_status`).

use std::fmt;

use drivers_spec::amd::packet::{Gfx, Word};

/// A fault of a hub.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HubFault {
    /// The hub: the block that it is part of.
    pub hub: String,
    /// The address, of a page.
    pub va: u64,
    /// The client of the hub that accessed it.
    pub client: u32,
    /// Of which address space.
    pub vmid: u32,
    /// A write, or else a read.
    pub write: bool,
    /// An atomic access.
    pub atomic: bool,
    /// There is no page there.
    pub mapping: bool,
    /// Which permissions lack: bit 0 that it is valid, 1 to read, 2 to write, 3 to execute.
    pub permission: u32,
    /// What the walk of the tables fell over; 0 if it did not.
    pub walker: u32,
    /// Others came after it.
    pub more: bool,
}

impl HubFault {
    /// What the status and the address of a hub say, the address counted in pages; none if nothing went wrong.
    pub fn decode(hub: &str, gfx: Gfx, status: &Word, bits: u32, page: u64) -> Option<HubFault> {
        // A card that has left the bus has no faults.
        if bits == 0 || bits == u32::MAX {
            return None;
        }
        let field = |name| {
            let field = status.field(gfx, name);
            field.map_or(0, |field| field.get(bits))
        };
        Some(HubFault {
            hub: hub.to_owned(),
            va: page << 12,
            client: field("cid"),
            vmid: field("vmid"),
            write: field("rw") == 1,
            atomic: field("atomic") == 1,
            mapping: field("mapping_error") == 1,
            permission: field("permission_faults"),
            walker: field("walker_error"),
            more: field("more_faults") == 1,
        })
    }
}

impl fmt::Display for HubFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HubFault { hub, va, .. } = self;
        let access = match (self.atomic, self.write) {
            (true, _) => "an atomic access to",
            (_, true) => "a write to",
            _ => "a read of",
        };
        write!(f, "{hub}: {access} the page at {va:#x}, ")?;
        let lacks = ["valid", "readable", "writeable", "executable"];
        let lacks = lacks.iter().enumerate();
        let lacks = lacks.filter(|(bit, _)| self.permission >> bit & 1 == 1);
        let lacks: Vec<_> = lacks.map(|(_, name)| *name).collect();
        match (self.walker, lacks.is_empty()) {
            (0, false) => write!(f, "which is not {}", lacks.join(" nor "))?,
            (0, true) => f.write_str("which is not mapped")?,
            (walker, _) => write!(f, "where the page table walk failed with error {walker}")?,
        }
        write!(f, " (client {:#x}, VMID {})", self.client, self.vmid)?;
        match self.more {
            true => f.write_str(", and more after it"),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use drivers_spec::amd::mmio::{gc, mmhub};

    use super::*;

    #[test]
    fn a_fault_reads_as_a_sentence() {
        let word = &gc::GCVM_L2_PROTECTION_FAULT_STATUS_LO32.word;
        let decode = |bits| HubFault::decode("GC0", Gfx::Gfx12, word, bits, 0x2_0000_0123);
        let text = |bits| {
            decode(bits)
                .map(|fault| fault.to_string())
                .unwrap_or_default()
        };
        assert_eq!(
            text(1 << 18 | 5 << 9 | 0b101 << 4 | 1),
            "GC0: a write to the page at 0x200000123000, which is not valid nor writeable (client 0x5, VMID 0), and \
             more after it"
        );
        assert_eq!(
            text(1 << 8 | 3 << 20),
            "GC0: a read of the page at 0x200000123000, which is not mapped (client 0x0, VMID 3)"
        );
        assert_eq!(
            text(2 << 1 | 1 << 19),
            "GC0: an atomic access to the page at 0x200000123000, where the page table walk failed with error 2 \
             (client 0x0, VMID 0)"
        );
        assert_eq!((decode(0), decode(u32::MAX)), (None, None));
        let word = &mmhub::MMVM_L2_PROTECTION_FAULT_STATUS.word;
        let fault = HubFault::decode("MMHUB0", Gfx::Gfx11, word, 0x100, 1).unwrap();
        assert!(fault.mapping && !fault.more && fault.va == 0x1000);
    }
}
