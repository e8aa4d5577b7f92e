//! [`Pramin`]: VRAM through registers of BAR0, a MiB at a time: slow, and there before BAR1 shows any.
//!
//! Source: open-gpu-kernel-modules 570.144, src/common/inc/swref/published/turing/tu102/dev_bus.h;
//! src/nvidia/src/kernel/gpu/bus/arch/maxwell/kern_bus_gm107.c (`kbusMemAccessBar0Window_GM107`);
//! arch/hopper/kern_bus_gh100.c (`kbusSetBAR0WindowVidOffset_GH100`).

use std::sync::{Arc, Mutex};

use drivers_spec::nv::chip::Arch;
use drivers_spec::nv::mmio::Reg;
use drivers_spec::nv::pci_regs::{
    BAR0_WINDOW_SHIFT, NV_PBUS_BAR0_WINDOW, NV_PRAMIN, NV_PRAMIN_BYTES, NV_XAL_EP_BAR0_WINDOW,
    bar0_window, xal_window,
};
use hcq::mem::window::{AccessWidth, Piece, RemoteWindow, Window};
use hcq::reg::bus::Bus;
use hcq::sync::lock;
use hcq::transport::TransportError;

/// The window, which shows another part of VRAM when that is asked for.
struct Pramin {
    bus: Arc<dyn Bus>,
    bytes: u64,
    /// Whether the register is that of Hopper and Blackwell.
    is_xal: bool,
    /// The first byte that it shows; none before it is first used.
    shown: Mutex<Option<u64>>,
}

/// All of VRAM, by the bus of a card of a generation.
pub(super) fn window(name: &str, arch: Arch, bus: Arc<dyn Bus>, bytes: u64) -> Window {
    let pramin = Pramin {
        bus,
        bytes,
        is_xal: arch >= Arch::Gh100,
        shown: Mutex::new(None),
    };
    Window::remote(name, Arc::new(pramin))
}

/// The byte address of a register that says what is shown.
const fn address(register: &Reg) -> u64 {
    match register.at {
        hcq::reg::At::Fixed(dword) => 4 * dword as u64,
        hcq::reg::At::Rows(_) => panic!("it has one address"),
    }
}

/// That of Ampere and Ada, and that of Hopper and Blackwell.
const SHOWS: [u64; 2] = [
    address(&NV_PBUS_BAR0_WINDOW),
    address(&NV_XAL_EP_BAR0_WINDOW),
];

impl Pramin {
    /// The address of the register, and its value for a part of VRAM.
    fn shows(&self, start: u64) -> (u64, u32) {
        let [pbus, xal] = SHOWS;
        let base = (start >> BAR0_WINDOW_SHIFT) as u32;
        match self.is_xal {
            true => (xal, xal_window::BASE.put(base)),
            false => {
                let target = bar0_window::TARGET.put(bar0_window::TARGET_VID_MEM);
                (pbus, bar0_window::BASE.put(base) | target)
            }
        }
    }

    /// Runs an access to a dword, which has the place of it in BAR0.
    fn at<T>(
        &self,
        vram: u64,
        access: impl FnOnce(u64) -> Result<T, TransportError>,
    ) -> Result<T, TransportError> {
        let mut shown = lock(&self.shown);
        let is_inside = |start: u64| vram >= start && vram - start < NV_PRAMIN_BYTES;
        let start = match *shown {
            Some(start) if is_inside(start) => start,
            _ => {
                // Until it is written, nothing is known of it.
                *shown = None;
                let start = vram & !(NV_PRAMIN_BYTES - 1);
                let (at, value) = self.shows(start);
                self.bus.write(at, value)?;
                *shown = Some(start);
                start
            }
        };
        access(NV_PRAMIN + (vram - start))
    }

    fn load(&self, vram: u64) -> Result<u32, TransportError> {
        self.at(vram, |at| self.bus.read(at))
    }

    fn store(&self, vram: u64, value: u32) -> Result<(), TransportError> {
        self.at(vram, |at| self.bus.write(at, value))
    }

    /// Writes bytes of one dword.
    fn store_bytes(&self, vram: u64, bytes: &[u8]) -> Result<(), TransportError> {
        let dword = vram & !3;
        if let Ok(whole) = <[u8; 4]>::try_from(bytes) {
            return self.store(dword, u32::from_le_bytes(whole));
        }
        let mut all = self.load(dword)?.to_le_bytes();
        let places = all.iter_mut().skip((vram & 3) as usize);
        places.zip(bytes).for_each(|(to, from)| *to = *from);
        self.store(dword, u32::from_le_bytes(all))
    }
}

/// The pieces of a range, each within a dword: where it is, and its bytes.
fn dwords(offset: u64, bytes: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let length = (4 - (at & 3) as usize).min(bytes - done);
        let range = done..done + length;
        done += length;
        (length > 0).then_some((at, range))
    })
}

impl RemoteWindow for Pramin {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read(&self, offset: u64, width: AccessWidth) -> Result<u64, TransportError> {
        let mut bytes = [0; 8];
        let wanted = bytes.get_mut(..width.bytes()).unwrap_or_default();
        self.read_bytes(offset, wanted)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn read_bytes(&self, offset: u64, to: &mut [u8]) -> Result<(), TransportError> {
        for (at, range) in dwords(offset, to.len()) {
            let value = self.load(at & !3)?.to_le_bytes();
            let from = value.iter().skip((at & 3) as usize);
            let places = to.get_mut(range).unwrap_or_default();
            places
                .iter_mut()
                .zip(from)
                .for_each(|(to, from)| *to = *from);
        }
        Ok(())
    }

    fn write(&self, offset: u64, width: AccessWidth, value: u64) -> Result<(), TransportError> {
        let bytes = value.to_le_bytes();
        let bytes = bytes.get(..width.bytes()).unwrap_or_default();
        self.write_many(&[(offset, bytes)])
    }

    fn write_many(&self, pieces: &[Piece<'_>]) -> Result<(), TransportError> {
        for (offset, bytes) in pieces {
            for (at, range) in dwords(*offset, bytes.len()) {
                self.store_bytes(at, bytes.get(range).unwrap_or_default())?;
            }
        }
        Ok(())
    }

    fn send(&self) -> Result<(), TransportError> {
        self.bus.send()
    }

    fn flush(&self) -> Result<(), TransportError> {
        self.bus.send()?;
        // A read comes back after all writes before it.
        self.bus.read(self.shows(0).0).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A card with some VRAM behind its window, and the address of its register.
    struct Card(Mutex<(u32, BTreeMap<u64, u32>, usize)>, u64);

    impl Bus for Card {
        fn name(&self) -> String {
            "made".into()
        }
        fn read(&self, at: u64) -> Result<u32, TransportError> {
            let card = self.0.lock().unwrap();
            Ok(match at {
                _ if at == self.1 => card.0,
                _ => {
                    let vram = (u64::from(card.0) << 16) + (at - 0x70_0000);
                    card.1.get(&vram).copied().unwrap_or(0)
                }
            })
        }
        fn write(&self, at: u64, value: u32) -> Result<(), TransportError> {
            let mut card = self.0.lock().unwrap();
            if at == self.1 {
                (card.0, card.2) = (value, card.2 + 1);
                return Ok(());
            }
            assert!((0x70_0000..0x80_0000).contains(&at));
            let vram = (u64::from(card.0) << 16) + (at - 0x70_0000);
            card.1.insert(vram, value);
            Ok(())
        }
        fn send(&self) -> Result<(), TransportError> {
            Ok(())
        }
    }

    #[test]
    fn vram_is_seen_a_mib_at_a_time() {
        for (arch, at) in [(Arch::Ga10x, 0x1700), (Arch::Ad10x, 0x1700)] {
            seen(arch, at);
        }
        for arch in [Arch::Gh100, Arch::Gb10x, Arch::Gb20x] {
            seen(arch, 0x10_fd40);
        }
    }

    fn seen(arch: Arch, at: u64) {
        let card = Arc::new(Card(Mutex::default(), at));
        let vram = window("VRAM", arch, card.clone(), 8 << 30);
        let far = 0x1_2345_6788;
        vram.write::<u64>(far, 0x1122_3344_5566_7788).unwrap();
        vram.write::<u16>(far + 2, 0xabcd).unwrap();
        assert_eq!(vram.read::<u64>(far).unwrap(), 0x1122_3344_abcd_7788);
        // From one part to the next.
        let border = 0x1_0010_0000 - 6;
        let bytes: Vec<u8> = (1..=12).collect();
        vram.write_bytes(border, &bytes).unwrap();
        let mut back = [0; 12];
        vram.read_bytes(border, &mut back).unwrap();
        assert_eq!(back[..], bytes);
        vram.flush().unwrap();
        let card = card.0.lock().unwrap();
        assert_eq!(card.1[&(far & !7)], 0xabcd_7788);
        assert_eq!(card.2, 5, "moved when it has to be");
    }
}
