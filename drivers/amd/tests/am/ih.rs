//! Interrupt rings: entries in their order, over the end of a ring, and after an overflow from the oldest that is
//! whole.

use std::sync::Arc;

use drivers_amd::am::areas::{IH_RING0, IH_RING1};
use drivers_amd::am::card::Card;
use drivers_amd::am::ih::Interrupts;
use hcq::DeviceId;
use hcq::transport::VirtualClock;
use twin_amd::pci::chip::Chip;

use super::mock::{Bus, Mock, Told};

const ENTRY: u64 = 32;

#[test]
fn entries_come_in_order_over_the_end_and_after_an_overflow_from_the_oldest() {
    for chip in ["gfx1100", "gfx1201"] {
        let mock = Mock::new(Chip::of(chip).unwrap());
        let card = Card::open(
            DeviceId::new("AMD", 0),
            Arc::new(Bus(mock.clone())),
            Arc::new(VirtualClock::new()),
        );
        let interrupts = Interrupts::attach(&Arc::new(card.unwrap()));
        let numbers = || -> Vec<u32> {
            let entries = interrupts.entries().unwrap();
            entries.iter().map(|entry| entry[4]).collect()
        };
        let put = |ring: u64, at: u64, number: u32| {
            let entry: Vec<u8> = (0..8)
                .flat_map(|i: u32| (number * u32::from(i == 4)).to_le_bytes())
                .collect();
            mock.memory(ring + at, &entry);
        };
        assert_eq!(numbers(), [] as [u32; 0]);
        // Two in the first ring, one in the second.
        put(IH_RING0.at.0, 0, 1);
        put(IH_RING0.at.0, ENTRY, 2);
        put(IH_RING1.at.0, 0, 3);
        mock.put("IH_RB_WPTR", 2 * ENTRY as u32);
        mock.put("IH_RB_WPTR_RING1", ENTRY as u32);
        mock.told();
        assert_eq!(numbers(), [1, 2, 3]);
        let told: Vec<_> = mock
            .told()
            .iter()
            .map(|told| match told {
                Told::Write(dword, value) => (mock.name(*dword), *value),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(told, [("IH_RB_RPTR", 0x40), ("IH_RB_RPTR_RING1", 0x20)]);
        assert_eq!(numbers(), [] as [u32; 0]);
        // Over the end.
        let last = IH_RING0.bytes - ENTRY;
        mock.put("IH_RB_RPTR", last as u32);
        put(IH_RING0.at.0, last, 4);
        put(IH_RING0.at.0, 0, 5);
        mock.put("IH_RB_WPTR", ENTRY as u32);
        assert_eq!(numbers(), [4, 5]);
        // Full, and more has come: what lies behind the newest is the oldest; the overflow is acknowledged.
        let entries = (IH_RING0.bytes / ENTRY) as u32;
        for number in 0..entries {
            put(IH_RING0.at.0, u64::from(number) * ENTRY, 100 + number);
        }
        mock.put("IH_RB_WPTR", (3 * ENTRY as u32) | 1);
        mock.told();
        let numbers = numbers();
        assert_eq!(numbers.len() as u32, entries - 1, "{chip}");
        assert_eq!(
            (numbers[0], numbers[numbers.len() - 1]),
            (104, 102),
            "{chip}"
        );
        let cleared: Vec<_> = mock
            .told()
            .into_iter()
            .filter_map(|told| match told {
                Told::Write(dword, value) if mock.name(dword) == "IH_RB_CNTL" => Some(value >> 31),
                _ => None,
            })
            .collect();
        assert_eq!(cleared, [1, 0], "{chip}");
    }
}
