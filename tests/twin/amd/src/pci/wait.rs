//! What takes its time: a count of looks, so that every run is the same.

/// Something that a driver waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Wait {
    /// The semaphore of a hub.
    Semaphore,
    /// A hub has invalidated.
    Invalidation,
    /// The PSP's bootloader is ready for the next command.
    Bootloader,
    /// The secure OS shows signs of life.
    SecureOs,
    /// The secure OS has made or destroyed a ring.
    Ring,
    /// The PSP has done a command of its ring.
    Fence,
    /// The SMU has done a message.
    Message,
    /// The RLC has started the firmware of the graphics block.
    Autoload,
    /// The RLC has taken a message.
    SafeMode,
    /// A queue has left.
    Dequeue,
    /// A copy engine is done with a queue that was disabled in the middle of something.
    CopyIdle,
    /// The card comes back from a reset.
    Reset,
}

/// What can be waited for, by its name in a config string.
pub const WAITS: [(&str, Wait); 12] = [
    ("semaphore", Wait::Semaphore),
    ("invalidation", Wait::Invalidation),
    ("bootloader", Wait::Bootloader),
    ("secure-os", Wait::SecureOs),
    ("ring", Wait::Ring),
    ("fence", Wait::Fence),
    ("message", Wait::Message),
    ("autoload", Wait::Autoload),
    ("reset", Wait::Reset),
    ("safe-mode", Wait::SafeMode),
    ("dequeue", Wait::Dequeue),
    ("copy-idle", Wait::CopyIdle),
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

    /// Whether it is done, without a look.
    pub(super) fn is_done(self) -> bool {
        self.0 == 0
    }
}
