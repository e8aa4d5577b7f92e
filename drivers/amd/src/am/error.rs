//! [`AmError`]: which card, how far it came, and what was in the way.

use std::fmt;
use std::sync::Arc;

use hcq::reg::IpVersion;
use hcq::reg::error::RegError;
use hcq::transport::TransportError;
use hcq::wait::Timeout;
use hcq::{DeviceId, Error};
use thiserror::Error;

use super::discovery::DiscoveryError;

/// How far the start of a card came, in the order of its steps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Its windows, and whether it answers.
    Card,
    /// What it is made of.
    Discovery,
    /// The firmware that it needs.
    Files,
    /// Back to where power left it.
    Reset,
    /// The bus interface, and the way to doorbells.
    Nbio,
    /// The memory hub of what is not graphics.
    Hub,
    /// Interrupt rings.
    Ih,
    /// The security processor, and firmware for all others.
    Psp,
    /// Power management.
    Smu,
    /// The memory hub of graphics.
    GcHub,
    /// The compute engine.
    Gfx,
    /// Copy engines.
    Sdma,
    /// Frequencies.
    Clocks,
}

impl Stage {
    const COUNT: usize = Stage::Clocks as usize + 1;
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Stage::Card => "windows of the card",
            Stage::Discovery => "discovery of its blocks",
            Stage::Files => "firmware files",
            Stage::Reset => "reset (mode 1)",
            Stage::Nbio => "bus interface (NBIO)",
            Stage::Hub => "memory hub (MMHUB)",
            Stage::Ih => "interrupt rings (IH)",
            Stage::Psp => "security processor (PSP)",
            Stage::Smu => "power management (SMU)",
            Stage::GcHub => "memory hub of graphics (GCHUB)",
            Stage::Gfx => "compute engine (GFX)",
            Stage::Sdma => "copy engines (SDMA)",
            Stage::Clocks => "clocks",
        };
        let number = *self as usize + 1;
        write!(f, "stage {number} of {}, {name}", Stage::COUNT)
    }
}

/// The start of a card failed.
#[derive(Clone, Debug, Error)]
#[error("{device} ({address}): {stage}: {cause}{}", .cause.next())]
pub struct AmError {
    /// The device.
    pub device: DeviceId,
    /// Its PCI function.
    pub address: String,
    /// Where.
    pub stage: Stage,
    /// What was in the way.
    pub cause: Box<Cause>,
}

/// Why the start of a card failed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Cause {
    /// The bus.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// A register.
    #[error(transparent)]
    Register(#[from] RegError),
    /// What the card says of itself.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// Its memory.
    #[error(transparent)]
    Memory(#[from] Error),
    /// It reads as if it were not there.
    #[error(
        "RCC_CONFIG_MEMSIZE stays {seen:#x}: the card is not started, is being reset, or has left the bus. Turn the \
         machine off and on; in an enclosure, look at cable and power"
    )]
    Silent {
        /// What it reads.
        seen: u32,
    },
    /// It was there, and is no more.
    #[error(
        "the card does not answer any more, RCC_CONFIG_MEMSIZE reads 0xffffffff: it has left the bus. Look at cable and \
         power, then turn the machine off and on. Seen first: {first}"
    )]
    Left {
        /// What was in the way when that was seen.
        first: Box<Cause>,
    },
    /// It ran, and is no more.
    #[error(
        "the card does not answer any more, {register} reads 0xffffffff: it has left the bus. Look at cable and power, then \
         turn the machine off and on"
    )]
    Gone {
        /// What never reads so.
        register: &'static str,
    },
    /// Memory is not where it should be.
    #[error(
        "{block} says that VRAM is at {base:#x} to {end:#x}, which are not the {vram:#x} bytes that the card has: its \
         own firmware has not set it up. Turn the machine off and on"
    )]
    FrameBuffer {
        /// The hub.
        block: String,
        /// The first address.
        base: u64,
        /// The last one.
        end: u64,
        /// Bytes of VRAM.
        vram: u64,
    },
    /// One of several GPUs that can only be reset together.
    #[error(
        "it is one of {count} GPUs that are linked by XGMI, which have to be reset and started together: that is not \
         supported. Use the kernel driver (DEV=AMD)"
    )]
    Hive {
        /// How many there are.
        count: u32,
    },
    /// A firmware file.
    #[error("{0}")]
    Files(Arc<firmware_tools::Error>),
    /// Firmware that does not fit where it has to.
    #[error(
        "{what} has {bytes:#x} bytes, and there is room for {room:#x}. It is not the firmware of this card: install \
         the package again ({})",
        firmware_tools::PACKAGES
    )]
    Large {
        /// The part.
        what: String,
        /// Its length.
        bytes: u64,
        /// How much there may be.
        room: u64,
    },
    /// The PSP's own file lacks what its bootloader needs.
    #[error(
        "the file of the PSP has no {what}. Install the package again ({})",
        firmware_tools::PACKAGES
    )]
    Part {
        /// The part.
        what: &'static str,
    },
    /// The PSP refused.
    #[error(
        "PSP: {what}: {register} is {status:#x}, expected {expected:#x}. The firmware is not that of this card, or the \
         card is in a state that only power ends: turn the machine off and on"
    )]
    Psp {
        /// The command, and with what.
        what: String,
        /// What says so.
        register: &'static str,
        /// What it says.
        status: u32,
        /// What it would say of success.
        expected: u32,
    },
    /// The SMU refused.
    #[error("SMU: {message} ({number:#x}) with {argument:#x}: {answer}")]
    Smu {
        /// The message.
        message: &'static str,
        /// Its number.
        number: u32,
        /// Its argument.
        argument: u32,
        /// What it answered.
        answer: String,
    },
    /// A memory of the device that did not become what was waited for.
    #[error(transparent)]
    Waited(#[from] Timeout),
    /// An earlier start has ended in the middle, and there is no way back.
    #[error(
        "an earlier start of the card ended while the PSP's bootloader was given its parts, of which it takes none \
         twice: {why}. Turn the machine off and on"
    )]
    Begun {
        /// Why the bus does not reset it.
        why: String,
    },
    /// The card did not come back from a reset.
    #[error(
        "{what} after the reset: {cause}. Turn the machine off and on; another function of the same card (sound, USB) \
         may have kept it from coming back"
    )]
    Reset {
        /// What was looked at.
        what: &'static str,
        /// What was in the way.
        cause: Box<Cause>,
    },
    /// A block of a version whose registers are not known.
    #[error(
        "{block} has version {version}, registers are known of {}; this chip is not supported",
        .known.iter().map(IpVersion::to_string).collect::<Vec<_>>().join(", ")
    )]
    Version {
        /// The block.
        block: String,
        /// Its version.
        version: IpVersion,
        /// Those that are known.
        known: Vec<IpVersion>,
    },
}

impl Cause {
    /// What to do next, where the cause does not say it.
    fn next(&self) -> &'static str {
        match self {
            Cause::Transport(_)
            | Cause::Register(_)
            | Cause::Waited(_)
            | Cause::Memory(Error::Fault { .. }) => {
                ". Start it again, which resets it; if it stays so, turn the machine off and on"
            }
            _ => "",
        }
    }
}

impl From<firmware_tools::Error> for Cause {
    fn from(error: firmware_tools::Error) -> Cause {
        Cause::Files(Arc::new(error))
    }
}
