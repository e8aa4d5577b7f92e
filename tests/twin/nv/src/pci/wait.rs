//! What takes its time: a count of looks, so that every run is the same.

/// Something that a driver waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Wait {
    /// The card's own firmware has started.
    Gfw,
    /// A falcon is ready to be reset.
    ResetReady,
    /// A falcon has cleared its memory after a reset.
    Scrub,
    /// A falcon has room for another transfer, and has done all.
    Dma,
    /// A falcon has halted.
    Halt,
    /// The other core of a falcon is selected.
    Core,
    /// GSP's RISC-V core runs.
    RiscV,
    /// SEC2 has resumed GSP.
    Resume,
    /// FSP has taken a command, and has answered.
    Fsp,
    /// FSP has left GSP's registers to the host.
    Target,
    /// What FSP has started on GSP has read its arguments.
    Fmc,
    /// The same has started GSP's firmware, and unlocks GSP's registers.
    Release,
    /// GSP has linked its queue, asks for the sequencer, says that it is there, or answers: in memory, which nobody counts
    /// looks at.
    Message,
    /// The MMU has forgotten what it was told to.
    Tlb,
    /// Caches are flushed.
    Flush,
}

/// What can be waited for, by its name in a config string.
pub const WAITS: [(&str, Wait); 15] = [
    ("gfw", Wait::Gfw),
    ("reset-ready", Wait::ResetReady),
    ("scrub", Wait::Scrub),
    ("dma", Wait::Dma),
    ("halt", Wait::Halt),
    ("core", Wait::Core),
    ("risc-v", Wait::RiscV),
    ("resume", Wait::Resume),
    ("fsp", Wait::Fsp),
    ("target", Wait::Target),
    ("fmc", Wait::Fmc),
    ("release", Wait::Release),
    ("message", Wait::Message),
    ("tlb", Wait::Tlb),
    ("flush", Wait::Flush),
];

/// How many looks are left.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Looks(u32);

impl Looks {
    /// So many find it undone; [`u32::MAX`] for all of them.
    pub(super) const fn new(looks: u32) -> Looks {
        Looks(looks)
    }

    /// A look: whether it is done.
    pub(super) fn look(&mut self) -> bool {
        match self.0 {
            0 => true,
            u32::MAX => false,
            _ => {
                self.0 -= 1;
                false
            }
        }
    }

    /// Whether it is never done.
    pub(super) fn is_never(self) -> bool {
        self.0 == u32::MAX
    }

    /// Whether it is done, without a look.
    pub(super) fn is_done(self) -> bool {
        self.0 == 0
    }
}
