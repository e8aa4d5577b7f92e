//! [`GspError`]: the card, the stage of its start, and the cause.

use std::fmt;
use std::sync::Arc;

use firmware_tools::nv::Version;
use firmware_tools::nv::radix3::Refused;
use hcq::reg::error::{RegError, RegFault};
use hcq::transport::TransportError;
use hcq::wait::Timeout;
use hcq::{DeviceId, Error};
use thiserror::Error;

use crate::rm::CallError;

/// Stages of starting a card, in order; the last one ends it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Which chip it is, and whether it is awake.
    Card,
    /// Find the firmware files.
    Files,
    /// Reset what an earlier driver has left.
    Reset,
    /// The card's own firmware.
    Gfw,
    /// Read the VBIOS.
    Vbios,
    /// Put the firmware into memory of the host.
    Memory,
    /// Set WPR2 up.
    Frts,
    /// Load RM on GSP.
    Booter,
    /// Have the FSP start GSP.
    Fsp,
    /// The FMC, which verifies and loads RM.
    Fmc,
    /// Start RM on GSP.
    Init,
    /// Ask RM what there is, and where VRAM is free.
    Facts,
    /// Have the host see VRAM.
    Window,
    /// The address space.
    Space,
    /// The first context of graphics.
    Graphics,
    /// Stop it, and take WPR2 down.
    Unload,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Card => "card",
            Stage::Files => "firmware files",
            Stage::Reset => "reset",
            Stage::Gfw => "the card's own firmware (GFW)",
            Stage::Vbios => "VBIOS",
            Stage::Memory => "memory for the firmware",
            Stage::Frts => "FWSEC (FRTS)",
            Stage::Booter => "booter",
            Stage::Fsp => "FSP (chain of trust)",
            Stage::Fmc => "FMC",
            Stage::Init => "start of RM on GSP",
            Stage::Facts => "what RM on GSP knows",
            Stage::Window => "window to VRAM (BAR1)",
            Stage::Space => "address space",
            Stage::Graphics => "graphics context",
            Stage::Unload => "unload",
        })
    }
}

/// The start of a card failed, or its end.
#[derive(Clone, Debug, Error)]
#[error("{device} ({address}): {stage}: {cause}{}", .cause.next())]
pub struct GspError {
    /// The device.
    pub device: DeviceId,
    /// Its PCI function.
    pub address: String,
    /// The stage that failed.
    pub stage: Stage,
    /// Why.
    pub cause: Box<Cause>,
}

/// Notes how a step of an end has ended, which goes on all the same: whether it was good.
pub(super) type Note<'a> = dyn FnMut(Result<(), Cause>) -> bool + 'a;

/// Why a card could not be started, or a message not be exchanged.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Cause {
    /// The bus.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// A register.
    #[error(transparent)]
    Register(#[from] RegError),
    /// The MMU, which keeps what it has read of page tables.
    #[error(
        "{0}. Drop all handles of the card, and open it again, which resets it; if it fails again, power-cycle the machine"
    )]
    Tlb(RegError),
    /// Memory.
    #[error(transparent)]
    Memory(#[from] Error),
    /// A firmware file.
    #[error("{0}")]
    Files(Arc<firmware_tools::Error>),
    /// An image that has no page table.
    #[error(transparent)]
    Radix(#[from] Refused),
    /// Nothing answers on the bus.
    #[error(
        "the card has left the bus: NV_PMC_BOOT_0 reads 0xffffffff, and so does configuration space. Check cable and \
         power, then power-cycle the machine"
    )]
    Gone,
    /// It sleeps, or is being reset.
    #[error(
        "the card is suspended (D3): NV_PMC_BOOT_0 reads 0xffffffff, but configuration space responds. Wake it (as root, \
         `echo on > /sys/bus/pci/devices/{address}/power/control`); if that fails, reset it (`doorbell reset {address}`)"
    )]
    Asleep {
        /// Its PCI function.
        address: String,
    },
    /// A chip without a table.
    #[error("unsupported chip: NV_PMC_BOOT_42 is {boot_42:#010x}, expected one of {known}")]
    Chip {
        /// Its number.
        boot_42: u32,
        /// The chips that are supported.
        known: String,
    },
    /// The FSP has refused a message.
    #[error(
        "FSP: message {kind:#x} failed with error {code:#x} (response to {of:#x}), expected 0. The firmware files are for \
         another chip or version, or GSP is already running: check the files (`doorbell fw verify --chip CHIP`), then reset \
         the card (`doorbell reset ADDRESS`)"
    )]
    FspRefused {
        /// Which message it was.
        kind: u8,
        /// Which one it has answered.
        of: u32,
        /// The error.
        code: u32,
    },
    /// The FMC has reported an error.
    #[error(
        "FMC: NV_PGSP_FALCON_MAILBOX0 holds {code:#x}, expected 0. The firmware files are of another version, or damaged: \
         check them (`doorbell fw verify --chip CHIP`), then reset the card (`doorbell reset ADDRESS`)"
    )]
    Fmc {
        /// The error.
        code: u32,
    },
    /// Firmware whose structs are not described.
    #[error(
        "GSP firmware {version}: unsupported version, expected one of {known}. Install another one ({})",
        firmware_tools::nv::PACKAGES
    )]
    Version {
        /// Its version.
        version: Version,
        /// The branches that are described.
        known: &'static str,
    },
    /// A file that is none of what it should be.
    #[error("{file}: {what}")]
    Contents {
        /// The file.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// A register that the host may not read.
    #[error(
        "{register} reads {value:#010x}, a refused access: expected {expected}. The card's own firmware has failed; \
         power-cycle the machine"
    )]
    Refused {
        /// The register.
        register: &'static str,
        /// What it reads as.
        value: u32,
        /// What should be there.
        expected: &'static str,
    },
    /// Firmware of another driver is still loaded.
    #[error(
        "WPR2 is at {lo:#x} to {hi:#x}, expected none: GSP firmware of an earlier driver is loaded, and {why}. Unbind that \
         driver, or reset the card (`doorbell reset {address}`); if that fails, power-cycle the machine"
    )]
    Wpr2 {
        /// Its first byte.
        lo: u64,
        /// Where its register has its end.
        hi: u64,
        /// What was tried.
        why: String,
        /// The card.
        address: String,
    },
    /// A card on which GSP may still run.
    #[error(
        "GSP may still run, and {why}. Its memory stays allocated until this program ends: reset the card (`doorbell reset \
         {address}`), or power-cycle the machine"
    )]
    Left {
        /// What was tried.
        why: String,
        /// The card.
        address: String,
    },
    /// VRAM has no room for the firmware.
    #[error(
        "{vram:#x} bytes of VRAM (NV_USABLE_FB_SIZE_IN_MB), expected more than {needed:#x} for GSP's firmware"
    )]
    Vram {
        /// What there is.
        vram: u64,
        /// What is needed.
        needed: u64,
    },
    /// Memory of the host in pieces.
    #[error(
        "cannot allocate {bytes:#x} bytes of contiguous host memory: the largest contiguous block is {largest:#x} bytes. \
         Reserve huge pages (as root, `sysctl vm.nr_hugepages=128`), or enable an IOMMU and bind the card to VFIO"
    )]
    Pieces {
        /// What was asked for.
        bytes: u64,
        /// The largest piece.
        largest: u64,
    },
    /// More than there is room for.
    #[error("{what} of {bytes:#x} bytes does not fit the {room:#x} bytes that are left for it")]
    Room {
        /// What.
        what: &'static str,
        /// How much it is.
        bytes: u64,
        /// How much room there is.
        room: u64,
    },
    /// A message, or queues, that are longer than they can be.
    #[error(
        "{what} of {bytes:#x} bytes, expected at most {room:#x}. This is a bug in Doorbell: please report it"
    )]
    Long {
        /// What.
        what: &'static str,
        /// How much it is.
        bytes: u64,
        /// How much it can be.
        room: u64,
    },
    /// Memory of the host beyond what the card can address.
    #[error(
        "{what} is at bus address {at:#x}, expected an address of at most {bits} bits. Enable an IOMMU and bind the card to \
         VFIO, which uses lower addresses"
    )]
    Wide {
        /// What is there.
        what: &'static str,
        /// Where it is.
        at: u64,
        /// How many bits the card takes.
        bits: u32,
    },
    /// GSP runs, of a start that was not finished.
    #[error(
        "GSP's RISC-V core is running (NV_PRISCV_RISCV_CPUCTL {cpuctl:#010x}), expected it halted: a start was not finished, \
         and {why}. Reset the card (`doorbell reset {address}`)"
    )]
    Runs {
        /// The register.
        cpuctl: u32,
        /// What was tried.
        why: String,
        /// The card.
        address: String,
    },
    /// A call after the end.
    #[error("GSP is stopped (`Started::stop` was called): start the card again")]
    Ended,
    /// A call after the card was cut off from memory of the host.
    #[error(
        "the card was cut off from memory of the host, because a channel did not end: RM on GSP hears no call. Drop all \
         handles of the card, and open it again, which resets it"
    )]
    CutOff,
    /// FWSEC has reported an error.
    #[error(
        "FWSEC {command}: {register} holds error {code:#x}, expected 0. The VBIOS is for another card, or an earlier driver \
         has left WPR2 locked: power-cycle the machine"
    )]
    Fwsec {
        /// What it was to do.
        command: &'static str,
        /// Where the error is.
        register: &'static str,
        /// The error.
        code: u32,
    },
    /// WPR2 is not where FWSEC was told to set it up.
    #[error(
        "FWSEC FRTS: WPR2 is at {lo:#x} to {hi:#x}, expected it from {expected:#x}. Power-cycle the machine"
    )]
    Region {
        /// Its first byte.
        lo: u64,
        /// Where its register has its end; 0 where there is none.
        hi: u64,
        /// Where it should start.
        expected: u64,
    },
    /// The booter has reported an error.
    #[error(
        "{what}: NV_PSEC_FALCON_MAILBOX0 holds {code:#x}, expected 0. The firmware files are for another chip or version, or \
         damaged: check them (`doorbell fw verify --chip CHIP`), then power-cycle the machine"
    )]
    Booter {
        /// Which booter.
        what: &'static str,
        /// The error.
        code: u32,
    },
    /// WPR2 stays.
    #[error(
        "{what}: WPR2 is still at {lo:#x} to {hi:#x}, expected none. Reset the card (`doorbell reset \
         ADDRESS`)"
    )]
    Stays {
        /// What should have taken it down.
        what: &'static str,
        /// Its first byte.
        lo: u64,
        /// Where its register has its end.
        hi: u64,
    },
    /// GSP does not run.
    #[error(
        "NV_PGSP: NV_PRISCV_RISCV_CPUCTL is {value:#010x}, expected ACTIVE_STAT: RM on GSP {what}. Reset the card (`doorbell \
         reset ADDRESS`)"
    )]
    Inactive {
        /// The register.
        value: u32,
        /// What has happened.
        what: &'static str,
    },
    /// The header of GSP's queue.
    #[error(
        "GSP's status queue: {field} is {found:#x}, expected {expected:#x}. The firmware version does not \
         match the driver's structs"
    )]
    Header {
        /// The field.
        field: &'static str,
        /// What it is.
        found: u32,
        /// What it should be.
        expected: u32,
    },
    /// GSP does not take messages.
    #[error(
        "GSP's command queue stays full: {free} free elements, needed {needed}; waited {limit:?}. GSP has crashed or hangs: reset the card (`doorbell reset ADDRESS`)"
    )]
    Full {
        /// Free elements.
        free: u32,
        /// Those that a message needs.
        needed: u32,
        /// How long was waited.
        limit: std::time::Duration,
    },
    /// An answer of the FSP that is none.
    #[error(
        "FSP response: {field} is {found:#x}, expected {expected}. Reset the card (`doorbell reset ADDRESS`)"
    )]
    FspAnswer {
        /// The field.
        field: &'static str,
        /// What it is.
        found: u32,
        /// What it should be.
        expected: String,
    },
    /// A message that is none.
    #[error(
        "GSP message: {field} is {found:#x}, expected {expected}. Its memory was overwritten, or GSP has crashed: reset the card (`doorbell reset ADDRESS`)"
    )]
    Message {
        /// The field.
        field: &'static str,
        /// What it is.
        found: u64,
        /// What it should be.
        expected: String,
    },
    /// A call that GSP refuses as a message.
    #[error("RPC {call}: rpc_result is {result:#x}, expected 0")]
    Rpc {
        /// The call.
        call: String,
        /// What it says.
        result: u32,
    },
    /// A program of register accesses for the host.
    #[error(
        "CPU sequencer buffer: {what} at dword {at}. The firmware version does not match the driver's structs"
    )]
    Program {
        /// What is wrong.
        what: String,
        /// Where in the program.
        at: usize,
    },
    /// A register of such a program.
    #[error(
        "CPU sequencer buffer (error {number}): {timeout}: register {at:#x}, mask {mask:#x}, expected {expected:#x}"
    )]
    Polled {
        /// The register.
        at: u32,
        /// Its bits.
        mask: u32,
        /// What they should be.
        expected: u32,
        /// What GSP calls this.
        number: u32,
        /// How long was waited, and the last value.
        timeout: Timeout,
    },
    /// A call that RM refuses.
    #[error(transparent)]
    Call(#[from] CallError),
    /// VRAM that cannot be used.
    #[error(
        "VRAM: {what}, expected {expected}. The firmware is of another version than its structs"
    )]
    Regions {
        /// What RM tells.
        what: String,
        /// What there should be.
        expected: String,
    },
    /// BAR1 shows something else.
    #[error(
        "BAR1 shows {found:#010x} for VRAM at {at:#x}, expected {expected:#010x}, which was written there by PRAMIN. Reset the \
         card (`doorbell reset`)"
    )]
    Shows {
        /// Where.
        at: u64,
        /// What is seen.
        found: u32,
        /// What was written.
        expected: u32,
    },
    /// What RM does not list.
    #[error(
        "RM on GSP lists {found}, expected {expected}. The card or its firmware has failed: reset it (`doorbell reset`)"
    )]
    Lists {
        /// What it has.
        found: String,
        /// What was looked for.
        expected: String,
    },
    /// A channel, or an address space, that is not freed.
    #[error(
        "{name}: RM on GSP has refused to free it (see the log), expected NV_OK. Drop all handles of the card, and open it \
         again"
    )]
    Kept {
        /// Its name.
        name: String,
    },
    /// Page tables that do not lead where the driver has made them lead.
    #[error(
        "page tables of {what} end after {levels} levels, expected levels down to the entry of {at:#x}. This is a bug in \
         Doorbell: please report it"
    )]
    Tables {
        /// What they are for.
        what: &'static str,
        /// How many there are.
        levels: usize,
        /// The address whose entry was looked for.
        at: u64,
    },
    /// Something that did not happen in time.
    #[error(transparent)]
    Waited(#[from] Timeout),
    /// GSP has crashed while it was waited for.
    #[error(
        "{waited}; RM on GSP has crashed (NV_PRISCV_RISCV_CPUCTL {cpuctl:#010x}). Reset the card (`doorbell reset ADDRESS`)"
    )]
    Crashed {
        /// What was waited for.
        waited: Timeout,
        /// The register.
        cpuctl: u32,
    },
}

impl Cause {
    /// What to do next, if the cause does not say it.
    pub(super) fn next(&self) -> &'static str {
        match self {
            Cause::Header { .. } | Cause::Program { .. } => {
                ". Check the files (`doorbell fw verify --chip CHIP`), or install those of another version"
            }
            Cause::Rpc { .. } => {
                ". Reset the card (`doorbell reset ADDRESS`); if it fails again, check the firmware files (`doorbell fw verify \
                 --chip CHIP`)"
            }
            Cause::Call(CallError::Status { .. } | CallError::Absent { .. }) => {
                ". Reset the card (`doorbell reset`); if it fails again, try firmware of another version"
            }
            Cause::Transport(_) | Cause::Register(_) | Cause::Waited(_) | Cause::Polled { .. } => {
                ". Rerun, which resets the card; if it fails again, power-cycle the machine"
            }
            Cause::Vram { .. } => {
                ". Power-cycle the machine; if it recurs, the card may be defective"
            }
            Cause::Room { .. } | Cause::Contents { .. } => {
                ". The files are damaged or of another version: install them again"
            }
            _ => "",
        }
    }

    /// Whether the card has left the bus.
    pub fn is_gone(&self) -> bool {
        match self {
            Cause::Gone => true,
            Cause::Register(error) | Cause::Tlb(error) => {
                matches!(*error.fault, RegFault::Left { .. })
            }
            Cause::Call(error) => error.is_gone(),
            _ => false,
        }
    }
}

impl From<firmware_tools::Error> for Cause {
    fn from(error: firmware_tools::Error) -> Cause {
        Cause::Files(Arc::new(error))
    }
}
