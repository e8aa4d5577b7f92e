//! [`AmError`]: the card, the start stage, and the cause.

use std::fmt;
use std::sync::Arc;

use hcq::reg::IpVersion;
use hcq::reg::error::RegError;
use hcq::transport::TransportError;
use hcq::wait::Timeout;
use hcq::{DeviceId, Error};
use thiserror::Error;

use super::discovery::DiscoveryError;

/// Stages of starting a card, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Map the BARs; check that the card answers.
    Card,
    /// Read the IP discovery table.
    Discovery,
    /// Find the firmware files.
    Files,
    /// Reset to the power-on state.
    Reset,
    /// The bus interface and doorbell routing.
    Nbio,
    /// The memory hub of the non-graphics blocks.
    Hub,
    /// Interrupt rings.
    Ih,
    /// The security processor, which loads all other firmware.
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
            Stage::Card => "card BARs",
            Stage::Discovery => "IP discovery",
            Stage::Files => "firmware files",
            Stage::Reset => "reset (mode 1)",
            Stage::Nbio => "bus interface (NBIO)",
            Stage::Hub => "memory hub (MMHUB)",
            Stage::Ih => "interrupt rings (IH)",
            Stage::Psp => "security processor (PSP)",
            Stage::Smu => "power management (SMU)",
            Stage::GcHub => "graphics memory hub (GCHUB)",
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
    /// The stage that failed.
    pub stage: Stage,
    /// Why.
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
    /// The IP discovery table.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// Its memory.
    #[error(transparent)]
    Memory(#[from] Error),
    /// Its registers read as if it were absent.
    #[error(
        "RCC_CONFIG_MEMSIZE stays {seen:#x}: the card is not initialized, in reset, or has left the bus. Power-cycle \
         the \
         machine; for an enclosure, check cable and power"
    )]
    Silent {
        /// Its value.
        seen: u32,
    },
    /// It left the bus during the start.
    #[error(
        "the card has left the bus: RCC_CONFIG_MEMSIZE reads 0xffffffff. Check cable and power, then power-cycle the \
         machine. First error: {first}"
    )]
    Left {
        /// The error at which that was noticed.
        first: Box<Cause>,
    },
    /// It left the bus while running.
    #[error(
        "the card has left the bus: {register} reads 0xffffffff. Check cable and power, then power-cycle the machine"
    )]
    Gone {
        /// A register that never reads all ones on a working card.
        register: &'static str,
    },
    /// VRAM is not mapped where it should be.
    #[error(
        "{block} maps VRAM at {base:#x} to {end:#x}, expected {vram:#x} bytes: the card's firmware has not set it up. \
         Power-cycle the machine"
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
        "the card is in an XGMI hive of {count} GPUs, which must be reset and started together: not supported. Use the \
         kernel driver (DEV=AMD)"
    )]
    Hive {
        /// How many there are.
        count: u32,
    },
    /// A firmware file.
    #[error("{0}")]
    Files(Arc<firmware_tools::Error>),
    /// Firmware larger than its buffer.
    #[error(
        "{what} has {bytes:#x} bytes, expected at most {room:#x}: not the firmware of this card. Reinstall the package \
         ({})",
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
        "the PSP firmware file has no {what}. Reinstall the package ({})",
        firmware_tools::PACKAGES
    )]
    Part {
        /// The part.
        what: &'static str,
    },
    /// The PSP refused.
    #[error(
        "PSP: {what}: {register} is {status:#x}, expected {expected:#x}. The firmware is for another card, or a reset \
         does \
         not clear the card's state: power-cycle the machine"
    )]
    Psp {
        /// The command, and with what.
        what: String,
        /// The status register.
        register: &'static str,
        /// Its value.
        status: u32,
        /// Its value on success.
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
        /// Its answer.
        answer: String,
    },
    /// Device memory that did not reach the expected value in time.
    #[error(transparent)]
    Waited(#[from] Timeout),
    /// An earlier start was interrupted, and the card cannot be reset.
    #[error(
        "an earlier start was interrupted while loading the PSP bootloader, which accepts each part only once: {why}. \
         Power-cycle the machine"
    )]
    Begun {
        /// Why a bus reset is not possible.
        why: String,
    },
    /// The card did not respond after a reset.
    #[error(
        "{what} after the reset: {cause}. Power-cycle the machine; another function of the card (audio, USB) may have \
         blocked the reset"
    )]
    Reset {
        /// The step that failed.
        what: &'static str,
        /// Why.
        cause: Box<Cause>,
    },
    /// An unsupported IP version of a block.
    #[error(
        "unsupported chip: {block} has version {version}, supported are {}",
        .known.iter().map(IpVersion::to_string).collect::<Vec<_>>().join(", ")
    )]
    Version {
        /// The block.
        block: String,
        /// Its version.
        version: IpVersion,
        /// The supported versions.
        known: Vec<IpVersion>,
    },
}

impl Cause {
    /// What to do next, if the cause does not say it.
    fn next(&self) -> &'static str {
        match self {
            Cause::Transport(_)
            | Cause::Register(_)
            | Cause::Waited(_)
            | Cause::Memory(Error::Fault { .. }) => {
                ". Rerun, which resets the card; if it fails again, power-cycle the machine"
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
