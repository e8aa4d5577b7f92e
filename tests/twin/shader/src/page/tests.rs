//! Tests, and memory for the tests of others.

use std::collections::HashMap;

use super::*;
use crate::wave::Lanes;

/// Memory of whole pages at chosen addresses, all of them readable and writable; whether atomics on
/// it leave the GPU.
pub(crate) struct Pages(HashMap<u64, (*mut u8, *mut u64)>, pub(crate) bool);

// SAFETY: the pointers are only followed by `Page`, atomically.
unsafe impl Sync for Pages {}

impl Pages {
    pub(crate) fn new(at: &[u64]) -> Self {
        let page = |va: &u64| {
            let bytes: &mut [[u64; 8]] = Box::leak(Box::new([[0; 8]; 72 + 1]));
            let start = bytes.as_mut_ptr().cast::<u8>();
            let base = start.wrapping_add(start.align_offset(64));
            (*va, (base, base.wrapping_add(PAGE as usize).cast()))
        };
        Self(at.iter().map(page).collect(), false)
    }

    pub(crate) fn dirty(&self, va: u64) -> [u64; 64] {
        let words = self.0[&va].1;
        // SAFETY: 64 words that nobody writes now.
        std::array::from_fn(|i| unsafe { words.add(i).read() })
    }
}

impl Memory for Pages {
    fn page(&self, port: Port, va: u64, access: Access) -> Result<Page, MemFault> {
        let kind = FaultKind::NotPresent;
        match self.0.get(&va) {
            // SAFETY: `new` leaks 64-byte aligned memory for the page and its 64 words.
            Some(&(base, dirty)) => Ok(unsafe { Page::new(base, Some(dirty)) }),
            None => Err(MemFault {
                va,
                access,
                port,
                kind,
            }),
        }
    }

    fn leaves(&self, _: u64) -> bool {
        self.1
    }
}

fn round_trip<const N: usize>(address: impl Fn(u64) -> u64, mask: u32) {
    let memory = Pages::new(&[0x1000, 0x2000]);
    let mut bus = Bus::new(&memory);
    let addresses = std::array::from_fn(|lane| address(lane as u64));
    let rows: [Lanes; N] =
        std::array::from_fn(|i| std::array::from_fn(|lane| (100 * i + lane) as u32));
    bus.store::<N>(Port::Vector, &addresses, mask, &rows, 1)
        .unwrap();
    for lane in 0..32 {
        for (i, row) in rows.iter().enumerate() {
            let va = addresses[lane] + 4 * i as u64;
            let value = bus.read_any(Port::Scalar, va, 4).unwrap() as u32;
            let on = mask >> lane & 1 == 1;
            assert_eq!(value, if on { row[lane] } else { 0 }, "{va:#x}");
            for byte in va..va + 4 {
                let dirty = memory.dirty(byte & !4095);
                let bit = dirty[(byte % 4096 / 64) as usize] >> (byte % 64) & 1;
                assert_eq!(bit == 1, on, "{byte:#x}");
            }
        }
    }
    let mut back = [[7; 32]; N];
    bus.load::<N>(Port::Vector, &addresses, mask, &mut back, 1)
        .unwrap();
    for lane in 0..32 {
        for (back, row) in back.iter().zip(&rows) {
            let on = mask >> lane & 1 == 1;
            assert_eq!(back[lane], if on { row[lane] } else { 7 });
        }
    }
}

#[test]
fn lanes_load_what_they_stored() {
    for mask in [!0, 0, 0x8001_0ff0] {
        for start in [0x1000, 0x1004, 0x1fe0, 0x1ff8, 0x1ffd] {
            round_trip::<1>(|lane| start + 4 * lane, mask);
            round_trip::<1>(|lane| start + 12 * (31 - lane), mask);
            round_trip::<2>(|lane| start + 8 * lane, mask);
            round_trip::<3>(|lane| start + 12 * lane, mask);
            round_trip::<4>(|lane| start + 16 * lane, mask);
        }
    }
}

#[test]
fn a_fault_names_the_address() {
    let memory = Pages::new(&[0x1000]);
    let mut bus = Bus::new(&memory);
    let fault = bus
        .load::<1>(Port::Vector, &[0x1ffe; 32], 4, &mut [[0; 32]], 1)
        .unwrap_err();
    assert_eq!((fault.va, fault.access), (0x2000, Access::Read));
}

#[test]
fn atomics_return_what_was_there() {
    let memory = Pages::new(&[0x1000]);
    let mut bus = Bus::new(&memory);
    bus.put(Port::Vector, 0x1008, 40u64).unwrap();
    assert_eq!(
        bus.atomic(Port::Vector, 0x1008, |v: u64| v + 2).unwrap(),
        40
    );
    assert_eq!(bus.get::<u64>(Port::Vector, 0x1008).unwrap(), 42);
    assert_eq!(memory.dirty(0x1000)[0], 0xff00);
}

/// Memory that notes which accesses are to the scratch of the wave itself.
struct Slots(Pages, std::sync::Mutex<Vec<(u64, bool)>>);

impl Memory for Slots {
    fn page(&self, port: Port, va: u64, access: Access) -> Result<Page, MemFault> {
        Ok(self.0.page(port, va, access)?.watching(!0))
    }

    fn watched(&self, _: Port, va: u64, _: usize, _: Access, own: bool) {
        self.1.lock().unwrap().push((va, own));
    }
}

#[test]
fn memory_hears_what_is_a_waves_own_scratch() {
    let memory = Slots(Pages::new(&[0x1000, 0x2000]), Default::default());
    // In the middle of pages, and across two of them.
    let mut bus = Bus::new(&memory).in_slot(0x1f00..0x2100);
    for va in [0x1efc, 0x1f00, 0x1ffc, 0x2000, 0x20fc, 0x2100] {
        bus.put(Port::Vector, va, 1u32).unwrap();
    }
    bus.read(Port::Scalar, 0x20f8, &mut [0; 4]).unwrap();
    let heard = memory.1.into_inner().unwrap();
    let own: Vec<_> = heard.iter().map(|&(_, own)| own).collect();
    assert_eq!(
        own,
        [false, true, true, true, true, false, false],
        "{heard:x?}"
    );
}
