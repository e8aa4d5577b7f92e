//! Interrupts: a bit for each vector, in leaves of 32; the top, which has a bit for each pair of leaves; and the message that
//! the host gets.
//!
//! A leaf holds what has happened until the host clears it. The top shows pairs of leaves in which something is pending that
//! is enabled. A message is sent when the top shows something that is enabled there, and the next one when the host has ended
//! the last: by a register of its own (`NV_XVE_CYA_2`) up to Ada, by the top from Hopper on.
//!
//! Source: OGKM, ampere/ga102/dev_vm.h and hopper/gh100/dev_vm.h, NV_VIRTUAL_FUNCTION_PRIV_CPU_INTR; intr_tu102.c,
//! intrRetriggerTopLevel_TU102; kernel_bif_gm107.c, kbifRearmMSI_GM107, which no chip later than Ada has; Linux, drivers/gpu/drm/
//! nouveau/nvkm/subdev/vfn/tu102.c; nvkm/core/intr.c, nvkm_intr (order); nvkm/subdev/pci/gp100.c, gp100_pci_msi_rearm (the end
//! of a message).

use super::registers::CPU_INTR;

/// `CPU_INTR_LEAF__SIZE_1` of Hopper; half of them up to Ada.
const LEAVES: usize = 16;

/// Registers, from the first leaf on.
const ENABLE: u32 = 0x200;
const DISABLE: u32 = 0x400;
const TOP: u32 = 0x600;
const TOP_ENABLE: u32 = 0x608;
const TOP_DISABLE: u32 = 0x610;

/// A register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Register {
    Leaf(usize),
    Enable(usize),
    Disable(usize),
    Top,
    TopEnable,
    TopDisable,
}

/// Those of a card.
pub(super) struct Interrupts {
    count: usize,
    leaves: [u32; LEAVES],
    enabled: [u32; LEAVES],
    top: u32,
    /// A message was sent that the host has not ended.
    sent: bool,
    /// There is no register that ends one: what is switched off and on at the top sends the next.
    ends_by_top: bool,
}

impl Interrupts {
    /// Nothing is pending, and nothing enabled. `wide` as from Hopper on.
    pub(super) fn new(wide: bool) -> Interrupts {
        Interrupts {
            count: if wide { LEAVES } else { LEAVES / 2 },
            leaves: [0; LEAVES],
            enabled: [0; LEAVES],
            top: 0,
            sent: false,
            ends_by_top: wide,
        }
    }

    fn register(&self, at: u32) -> Option<Register> {
        let offset = at.checked_sub(CPU_INTR)?;
        let leaf = |first: u32| {
            let at = offset.checked_sub(first)?;
            let leaf = (at / 4) as usize;
            (at.is_multiple_of(4) && leaf < self.count).then_some(leaf)
        };
        match offset {
            TOP => Some(Register::Top),
            TOP_ENABLE => Some(Register::TopEnable),
            TOP_DISABLE => Some(Register::TopDisable),
            DISABLE.. => leaf(DISABLE).map(Register::Disable),
            ENABLE.. => leaf(ENABLE).map(Register::Enable),
            _ => leaf(0).map(Register::Leaf),
        }
    }

    /// Pairs of leaves in which something is pending that is enabled.
    fn pending(&self) -> u32 {
        let pairs = self.leaves.chunks(2).zip(self.enabled.chunks(2));
        pairs.enumerate().fold(0, |top, (bit, (leaves, enabled))| {
            let both = leaves.iter().zip(enabled);
            let any = both.fold(0, |any, (leaf, enabled)| any | leaf & enabled);
            top | u32::from(any != 0) << bit
        })
    }

    /// Whether a message is due.
    fn due(&mut self) -> bool {
        let due = !self.sent && self.pending() & self.top != 0;
        self.sent |= due;
        due
    }

    /// The value of a register, if it is one of these.
    pub(super) fn read(&self, at: u32) -> Option<u32> {
        Some(match self.register(at)? {
            Register::Leaf(leaf) => self.leaves[leaf],
            Register::Enable(leaf) | Register::Disable(leaf) => self.enabled[leaf],
            Register::Top => self.pending(),
            Register::TopEnable | Register::TopDisable => self.top,
        })
    }

    /// Writes a register, if it is one of these that can be written: whether a message is due.
    pub(super) fn write(&mut self, at: u32, value: u32) -> Option<bool> {
        match self.register(at)? {
            Register::Leaf(leaf) => self.leaves[leaf] &= !value,
            Register::Enable(leaf) => self.enabled[leaf] |= value,
            Register::Disable(leaf) => self.enabled[leaf] &= !value,
            Register::Top => return None,
            Register::TopEnable => self.top |= value,
            Register::TopDisable => {
                self.top &= !value;
                self.sent &= !self.ends_by_top;
            }
        }
        Some(self.due())
    }

    /// Something has happened: whether a message is due.
    pub(super) fn raise(&mut self, vector: u32) -> bool {
        if let Some(leaf) = self.leaves[..self.count].get_mut((vector / 32) as usize) {
            *leaf |= 1 << (vector % 32);
        }
        self.due()
    }

    /// The message that was due could not be sent: the function is no master, or nobody listens. The next access or event
    /// sends it. A guess: what a card does then is not published.
    pub(super) fn unsent(&mut self) {
        self.sent = false;
    }

    /// The host has ended a message: whether the next one is due.
    pub(super) fn end(&mut self) -> bool {
        self.sent = false;
        self.due()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_sent_once_for_what_is_enabled() {
        let mut all = Interrupts::new(false);
        assert!(!all.raise(0x85));
        assert_eq!(all.read(CPU_INTR + 0x10), Some(1 << 5));
        assert_eq!(all.read(CPU_INTR + TOP), Some(0), "it is not enabled");
        assert_eq!(all.write(CPU_INTR + ENABLE + 0x10, 1 << 5), Some(false));
        assert_eq!(all.read(CPU_INTR + TOP), Some(1 << 2));
        assert_eq!(all.write(CPU_INTR + TOP_ENABLE, 0xf), Some(true));
        assert!(!all.raise(0x85), "the first message has not been ended");
        // As a driver does it: off, the end, look, clear, on.
        assert_eq!(all.write(CPU_INTR + TOP_DISABLE, 0xf), Some(false));
        assert!(!all.end());
        assert_eq!(all.write(CPU_INTR + 0x10, 1 << 5), Some(false));
        assert_eq!(all.write(CPU_INTR + TOP_ENABLE, 0xf), Some(false));
        assert!(all.raise(0x85));
        assert!(all.end(), "it is still pending");
        all.unsent();
        assert!(all.raise(0x85), "the last message was not sent");
    }

    #[test]
    fn messages_of_hopper_end_by_the_top() {
        let mut all = Interrupts::new(true);
        assert_eq!(all.write(CPU_INTR + ENABLE + 0x10, 1 << 5), Some(false));
        assert_eq!(all.write(CPU_INTR + TOP_ENABLE, 0xf), Some(false));
        assert!(all.raise(0x85));
        assert!(!all.raise(0x85), "the first message has not been ended");
        assert_eq!(all.write(CPU_INTR + TOP_DISABLE, 0xf), Some(false));
        assert_eq!(all.write(CPU_INTR + TOP_ENABLE, 0xf), Some(true));
    }

    #[test]
    fn registers_are_those_of_the_chip() {
        let (half, whole) = (Interrupts::new(false), Interrupts::new(true));
        assert_eq!(half.read(CPU_INTR + 4 * 8), None);
        assert_eq!(whole.read(CPU_INTR + 4 * 8), Some(0));
        assert_eq!(whole.read(CPU_INTR + 2), None);
        assert_eq!(Interrupts::new(false).write(CPU_INTR + TOP, 1), None);
    }
}
