//! Why a channel has died, as messages of RM on GSP tell it; what else is known, RM is asked for.

use drivers_gpu::backend::{Exception, Refused};
use drivers_spec::nv::status;

use super::channel::Channel;
use crate::gsp::Event;
use crate::rm::fault;

/// A channel that has died: its number, and its Xid.
pub(super) type Dead = (u32, u32);

/// What an event tells of a channel's death. None of one that tells of something else.
pub(super) fn of_event<'c>(
    event: &Event,
    find: impl FnOnce(u32) -> Option<&'c Channel>,
) -> Option<(Dead, Exception)> {
    let &Event::Died {
        channel,
        xid,
        fault,
        ..
    } = event
    else {
        return None;
    };
    let why = match (fault, find(channel)) {
        (Some((va, kind)), _) => fault::of_access(va, kind, None),
        (None, Some(found)) => fault::explain(found.witness(), xid),
        (None, None) => Exception::Refused(Refused {
            unit: format!("channel {channel}"),
            what: format!(
                "the channel has died: Xid {xid} ({})",
                status::xid_name(xid).unwrap_or("unknown")
            ),
            at: None,
        }),
    };
    Some(((channel, xid), why))
}

#[cfg(test)]
mod tests {
    use drivers_gpu::backend::Cause;

    use super::*;

    #[test]
    fn a_fault_is_told_by_its_address_and_kind() {
        let died = |xid, fault| Event::Died {
            engine: 1,
            channel: 3,
            xid,
            fault,
        };
        let (dead, why) = of_event(&died(31, Some((0x1230_0000, 2))), |_| None).unwrap();
        assert_eq!(dead, (3, 31));
        let Exception::Memory(fault) = why else {
            panic!("{why:?}");
        };
        assert_eq!((fault.va, fault.cause), (0x1230_0000, Cause::PageFault));
        assert!(fault.not_present && !fault.read_only);
        let (_, why) = of_event(&died(31, Some((0x1000, 6))), |_| None).unwrap();
        assert!(matches!(why, Exception::Memory(fault) if fault.read_only));
        let (_, why) = of_event(&died(32, None), |_| None).unwrap();
        let Exception::Refused(refused) = why else {
            panic!("{why:?}");
        };
        assert_eq!(refused.unit, "channel 3");
        assert!(
            refused.what.contains("Xid 32 (ROBUST_CHANNEL_"),
            "{}",
            refused.what
        );
        assert!(of_event(&Event::FaultQueued, |_| None).is_none());
    }
}
