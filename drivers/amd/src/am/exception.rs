//! Exceptions of a running card: faults of hubs, and records in interrupt rings.
//!
//! Source: Linux, amdgpu/gmc_v11_0.c, `gmc_v11_0_process_interrupt`; gfx_v11_0.c, `gfx_v11_0_priv_reg_irq` and
//! `gfx_v11_0_bad_op_irq`; amdkfd/kfd_int_process_v11.c and kfd_int_process_v9.c for what shaders say.

use drivers_gpu::backend::{self, Access, Exception, MemoryFault, Refused};
use drivers_gpu::bare::Told;
use drivers_spec::amd::ih::{CLIENT_ID, CONTEXT, SOURCE_ID, client, client9, fault, source};
use drivers_spec::amd::packet::Gfx;

use super::boot::Started;
use super::error::Cause;
use super::fault::HubFault;
use super::ih::Entry;

/// Exceptions of a card since the last check: the hubs' registers have more than their interrupts.
///
/// # Errors
/// [`Cause`]: the card cannot be read, or has left.
pub(super) fn faults(started: &Started, told: &Told) -> Result<Vec<Exception>, Cause> {
    let card = started.card();
    // Of one that is not there, rings are full, and hubs have faults.
    card.look()?;
    let entries = started.interrupts().entries()?;
    let faults = started.hubs().faults()?;
    let mut found: Vec<_> = faults.iter().map(of_hub).collect();
    let entries = entries.iter();
    for exception in entries.filter_map(|entry| of_entry(card.gfx(), entry)) {
        let is_known = match &exception {
            Exception::Memory(fault) => !faults.is_empty() || told.has(fault.va),
            _ => false,
        };
        if !is_known && !found.contains(&exception) {
            found.push(exception);
        }
    }
    for fault in &faults {
        tracing::warn!(target: "hcq::amd", device = %card.device(), "{fault}");
    }
    if !found.is_empty() {
        started.hubs().clear_faults()?;
    }
    Ok(found)
}

/// A fault of a hub as an exception.
fn of_hub(fault: &HubFault) -> Exception {
    /// Bits of the permissions that lack.
    const VALID: u32 = 1;
    const WRITE: u32 = 4;
    const EXECUTE: u32 = 8;
    let lacks = |bit| fault.permission & bit != 0;
    let not_present = fault.mapping || fault.walker != 0 || lacks(VALID) || fault.permission == 0;
    Exception::Memory(MemoryFault {
        va: fault.va,
        cause: backend::Cause::PageFault,
        access: Some(match (fault.atomic, fault.write) {
            (true, _) => Access::Atomic,
            (_, true) => Access::Write,
            _ => Access::Read,
        }),
        not_present,
        read_only: !not_present && fault.write && lacks(WRITE),
        no_execute: !not_present && lacks(EXECUTE),
        imprecise: false,
    })
}

/// Decodes an entry of an interrupt ring; `None` for a completion.
fn of_entry(gfx: Gfx, entry: &Entry) -> Option<Exception> {
    let (client, source) = (CLIENT_ID.get(entry[0]), SOURCE_ID.get(entry[0]));
    let context = |i: usize| entry[CONTEXT + i];
    let refused = |unit: &str, what: String| {
        Some(Exception::Refused(Refused {
            unit: unit.into(),
            what,
            at: None,
        }))
    };
    if is_hub(gfx, client) && source == source::UTCL2_FAULT {
        return Some(of_fault(context(0), context(1)));
    }
    match source {
        source::CP_BAD_OPCODE => refused("command processor", "unknown packet".into()),
        source::CP_PRIV_REG => refused(
            "command processor",
            "a packet wrote a privileged register".into(),
        ),
        source::CP_PRIV_INSTR => refused(
            "command processor",
            "privileged packet or instruction".into(),
        ),
        source::SDMA_QUEUE_HANG if gfx != Gfx::Gfx9 => refused("copy engine", "queue hang".into()),
        source::SQ => shader(gfx, context(0), context(1)).and_then(|what| refused("shader", what)),
        _ => None,
    }
}

fn is_hub(gfx: Gfx, client: u32) -> bool {
    match gfx {
        Gfx::Gfx9 => [client9::VMC, client9::UTCL2].contains(&client),
        _ => [client::VMC, client::GFX].contains(&client),
    }
}

/// A fault of a hub, by its own two dwords.
fn of_fault(low: u32, high: u32) -> Exception {
    let page = u64::from(low) | u64::from(high & fault::ADDRESS_HIGH) << 32;
    Exception::Memory(MemoryFault {
        va: page << 12,
        cause: backend::Cause::PageFault,
        access: match high & (fault::READ | fault::WRITE) {
            fault::WRITE => Some(Access::Write),
            fault::READ => Some(Access::Read),
            _ => None,
        },
        not_present: true,
        read_only: false,
        no_execute: false,
        imprecise: false,
    })
}

/// Decodes a shader's two dwords; `None` for messages and traps.
fn shader(gfx: Gfx, low: u32, high: u32) -> Option<String> {
    /// `SQ_INTERRUPT_WORD_ENCODING_ERROR`.
    const ERROR: u32 = 2;
    let (encoding, kind) = match gfx {
        Gfx::Gfx9 => (low >> 26 & 3, shader_error9(low, high)),
        _ => (high >> 6 & 3, low >> 21 & 0xf),
    };
    let what = match kind {
        0 => "uncorrectable memory error",
        1 => "illegal instruction",
        2 => "memory violation: misaligned address, or address outside the aperture",
        3 => "memory error detected",
        _ => "unknown error",
    };
    (encoding == ERROR).then(|| format!("{what} (SQ {high:#x}:{low:#010x})"))
}

/// Where GFX9 has the kind of an error: bits 23:20 of 24 bits that are in three places.
fn shader_error9(low: u32, high: u32) -> u32 {
    let detail = (high & 0xff) << 16 | (low >> 28) << 12 | low & 0xfff;
    detail >> 20 & 0xf
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(client: u32, source: u32, context: [u32; 2]) -> Entry {
        let first = CLIENT_ID.put(client) | SOURCE_ID.put(source);
        [first, 0, 0, 0, context[0], context[1], 0, 0]
    }

    #[test]
    fn faults_of_hubs_are_faults_of_memory() {
        let mut fault = HubFault {
            hub: "GC0".into(),
            va: 0x2000_0000_1000,
            client: 5,
            vmid: 0,
            write: true,
            atomic: false,
            mapping: false,
            permission: 0b101,
            walker: 0,
            more: false,
        };
        let told = |fault: &HubFault| match of_hub(fault) {
            Exception::Memory(m) => (m.access, m.not_present, m.read_only, m.no_execute),
            other => panic!("{other:?}"),
        };
        assert_eq!(told(&fault), (Some(Access::Write), true, false, false));
        fault.permission = 0b100;
        assert_eq!(told(&fault), (Some(Access::Write), false, true, false));
        (fault.permission, fault.write) = (0b1000, false);
        assert_eq!(told(&fault), (Some(Access::Read), false, false, true));
        (fault.walker, fault.atomic) = (1, true);
        assert_eq!(told(&fault), (Some(Access::Atomic), true, false, false));
    }

    #[test]
    fn entries_are_exceptions_or_the_end_of_something() {
        let gfx12 = |client, source, context| of_entry(Gfx::Gfx12, &entry(client, source, context));
        assert_eq!(gfx12(client::GRBM_CP, source::CP_EOP, [0, 0]), None);
        assert_eq!(gfx12(client::GFX, source::SDMA_TRAP, [0, 0]), None);
        let fault = gfx12(
            client::GFX,
            source::UTCL2_FAULT,
            [0x0000_0123, fault::WRITE | 2],
        );
        let Some(Exception::Memory(fault)) = fault else {
            panic!("{fault:?}");
        };
        assert_eq!(
            (fault.va, fault.access),
            (0x2000_0012_3000, Some(Access::Write))
        );
        let illegal = gfx12(client::GRBM_CP, source::SQ, [1 << 21, 2 << 6]);
        let Some(Exception::Refused(refused)) = illegal else {
            panic!("{illegal:?}");
        };
        assert!(
            refused.what.starts_with("illegal instruction"),
            "{refused:?}"
        );
        assert_eq!(gfx12(client::GRBM_CP, source::SQ, [1 << 21, 1 << 6]), None);
        let low = 2 << 26 | 1 << 28;
        let illegal = of_entry(Gfx::Gfx9, &entry(client9::SE0SH, source::SQ, [low, 0x20]));
        let Some(Exception::Refused(refused)) = illegal else {
            panic!("{illegal:?}");
        };
        assert!(refused.what.starts_with("memory violation"), "{refused:?}");
        let bad = gfx12(client::GRBM_CP, source::CP_BAD_OPCODE, [0, 0]);
        assert!(matches!(bad, Some(Exception::Refused(_))));
    }
}
